"""What speaks against a plan although it can be executed: a goal out of reach is an error, the rest are doubts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from insitu.injectors.options import Schedule
from insitu.injectors.processors import sharing_is_known
from insitu.orchestrator.causal.composite import compose
from insitu.orchestrator.design.asked import Asked, asked_of
from insitu.orchestrator.design.at_rest import hard_to_change
from insitu.orchestrator.design.contest import first_contest_size
from insitu.orchestrator.design.estimability import Confounding, Forecast, forecast, tells
from insitu.orchestrator.design.sequential import first_batch_size
from insitu.orchestrator.design.sequential import out_of_reach as never_reached
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.analysis import outcome_of
from insitu.orchestrator.estimation.fitting.prior_files import prior_of
from insitu.orchestrator.experiment import possible_trials
from insitu.orchestrator.plan.goals import ComparisonGoal, EffectGoal, PredictionGoal
from insitu.orchestrator.plan.inventory import DEFAULT_NODE, Inventory
from insitu.orchestrator.plan.law_kinds import Method
from insitu.orchestrator.plan.types import SEQUENTIAL, Factor, Plan, Role
from insitu.orchestrator.reasoning import reason_about
from insitu.orchestrator.steering.choice import asked as asked_goal
from insitu.orchestrator.steering.choice import before_any_trial
from insitu.orchestrator.steering.comparison import out_of_reach
from insitu.orchestrator.steering.contest import Rivalry
from insitu.orchestrator.steering.sequential import unidentifiable
from insitu.orchestrator.units import format_quantity

if TYPE_CHECKING:
    from insitu.orchestrator.causal.expression import Array
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.store.records import Assignment, PlannedTrial


MOST_PARAMETERS = 100
"""Of all laws that the goal of a sequential design goes through: beyond, the choice of trials takes minutes."""
_MOST_LISTED = 6


@dataclass(frozen=True, slots=True)
class Doubt:
    """Something that is likely not meant, and no reason to refuse a plan."""

    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


def doubts_of(experiment: Experiment, inventory: Inventory | None) -> tuple[Doubt, ...]:
    """Look at the trials that a plan may ask for before any is executed.

    Raises
    ------
    InputError
        If the plan has a goal, and no result of these trials could answer it.
    """
    reasoning = reason_about(experiment.plan, experiment.blueprint)
    if reasoning is not None and reasoning.obstacle:
        raise InputError(f"{_goal_place(experiment.plan)}{reasoning.obstacle}", hint=reasoning.remedy)
    _check_size(experiment)
    trials = possible_trials(experiment.plan, experiment.blueprint)
    _check_rival(experiment, trials)
    fit = (*_about_the_fits(experiment, trials), *_about_speed(experiment))
    return (*fit, *_about_places(experiment.plan), *_about_windows(experiment, inventory))


def _about_the_fits(experiment: Experiment, trials: Sequence[PlannedTrial]) -> Iterator[Doubt]:
    """Every law between what trials set and the outcome has to be fitted; that of the outcome comes first."""
    plan, blueprint = experiment.plan, experiment.blueprint.reduced()
    outcome = outcome_of(experiment.blueprint, plan.goal)
    asked = asked_of(asked_goal(plan, experiment.blueprint), blueprint, plan.factors)
    for law in reversed(asked.target.composite.laws):
        if law.variable == outcome or _is_needed(plan):
            yield from _about_the_fit(experiment, law, trials, asked)
    if isinstance(plan.goal, EffectGoal):
        yield from _about_the_cause(experiment, plan.goal, trials)
    if _is_needed(plan):
        _check_asked(experiment, asked, trials)


def _is_needed(plan: Plan) -> bool:
    """Whether laws before that of the outcome have to be fitted: a comparison looks at the outcome's alone."""
    return plan.goal is not None and not isinstance(plan.goal, ComparisonGoal)


def _about_the_fit(
    experiment: Experiment, law: Law, trials: Sequence[PlannedTrial], asked: Asked
) -> Iterator[Doubt]:
    plan, variables = experiment.plan, experiment.blueprint.variables
    known = _known(law)
    likely = forecast(law, trials, variables, known=known)
    if likely.trials < len(trials):
        yield _not_finite(law.variable, len(trials) - likely.trials, len(trials), plan)
    at_best = forecast(law, trials, variables, at_best=True, known=known)
    repeated = plan.design.kind == SEQUENTIAL  # as often as it takes: what counts is which trials there can be
    if at_best.confounded if repeated else not at_best.can_be_fitted:
        doubt = _no_fit(law.variable, at_best, experiment, trials)
        if plan.goal is not None:
            whole = tells(law, trials, variables, asked.slopes[law.variable], known=known)
            enough = _together(at_best.confounded) if whole else ""
            what = "are not fitted" if law.variable == plan.goal.outcome else "that law is not fitted"
            hint = "; ".join(filter(None, (doubt.hint, enough, f"without `goal`, the trials run and {what}")))
            raise InputError(f"{_goal_place(plan)}{doubt.message}", hint=hint)
        yield doubt
    elif likely.confounded if repeated else not likely.can_be_fitted:
        yield _no_fit(law.variable, likely, experiment, trials)
    for name in likely.silent:
        term = law.term_texts[name]
        yield Doubt(f"{name} of the law of {law.variable} is not estimated: {term} is zero in every trial")
    yield from _about_groups(plan, law, trials)


def _about_speed(experiment: Experiment) -> Iterator[Doubt]:
    """Whether the speed of the processors is looked at, if the plan says how slow they may be."""
    if math.isfinite(experiment.plan.tolerated_slowdown) and sharing_is_known(experiment.here.processors):
        yield Doubt(
            "tolerated_slowdown sets no trial aside here: this machine shows which processors are threads of one "
            "core, and its own threads would slow each other; others on them count as other processes",
            "leave it out",
        )


def _known(law: Law) -> Array | None:
    """What an earlier run has told of a law, as rows in units of a trial's noise there."""
    prior = prior_of(law)
    if prior is None:
        return None
    return prior.rows(law) * (prior.noise if prior.noise > 0 else 1.0)


def _about_groups(plan: Plan, law: Law, trials: Sequence[PlannedTrial]) -> Iterator[Doubt]:
    """What varies between groups of trials does not average out within them; a mixed fit allows for it."""
    if law.method is Method.MIXED:
        return
    hard = [factor.variable for factor in hard_to_change(plan)]
    levels = {name: {trial.assignment.as_dict()[name] for trial in trials} for name in hard}
    if inside := [name for name in hard if name in law.parents and len(levels[name]) > 1]:
        names = _listed(inside, "and")
        change = "changes" if len(inside) == 1 else "change"
        yield Doubt(
            f"{names} {change} between groups of trials only, and the fit takes each trial for itself: intervals "
            f"of what depends on {names} are too narrow if groups differ by more than their trials do",
            f"write `fit: mixed` for the law of {law.variable}, which allows for that",
        )


def _not_finite(outcome: str, spoilt: int, trials: int, plan: Plan) -> Doubt:
    """A law that cannot be computed at planned levels, such as the logarithm of a negative number.

    Raises
    ------
    InputError
        If there is no other trial.
    """
    which = f"{spoilt} of the {trials} trials that the plan allows"
    where = "any trial that the plan allows" if spoilt == trials else f"{which}, which would not be fitted"
    doubt = Doubt(
        f"{_goal_place(plan)}the law of {outcome} is not finite at the levels of {where}",
        "see what its quotients, powers and logarithms are at the levels of the factors",
    )
    if spoilt == trials:
        raise InputError(doubt.message, hint=doubt.hint)
    return doubt


def _check_size(experiment: Experiment) -> None:
    """A sequential design weighs all parameters at once, and looks first when the noise is known a little."""
    plan = experiment.plan
    if plan.design.kind != SEQUENTIAL or plan.goal is None:
        return
    factors = [factor.variable for factor in plan.factors]
    composite = compose(experiment.blueprint.reduced(), plan.goal.outcome, factors)
    size = sum(len(law.parameters) for law in composite.laws)
    if size > MOST_PARAMETERS:
        raise InputError(
            f"{_goal_place(plan)}{plan.goal.outcome} goes through {_counted(len(composite.laws), 'law')} with "
            f"{size} parameters, and a sequential design chooses trials for {MOST_PARAMETERS} at most",
            hint="leave variables on the way out of the model, or list levels with design: {kind: factorial}",
        )
    least = first_batch_size(composite)
    if plan.budget.trials is not None and plan.budget.trials < least:
        parameters = max(len(law.parameters) for law in composite.laws)
        raise InputError(
            f"{_goal_place(plan)}a budget of {plan.budget.trials} trials is too few for a law of "
            f"{_counted(parameters, 'parameter')}: the first look at its precision takes {least}",
            hint=f"raise budget.trials to {least} or more",
        )


def _check_rival(experiment: Experiment, trials: Sequence[PlannedTrial]) -> None:
    """Of a comparison, the rival needs as much as the law, and the two have to differ somewhere."""
    plan = experiment.plan
    if not isinstance(plan.goal, ComparisonGoal):
        return
    rivalry = Rivalry(plan, experiment.blueprint)
    before = rivalry.after(())
    place = f"{plan.path}:{plan.goal.rival.line}:{plan.goal.rival.column}: " if plan.goal.rival.line else ""
    if (hopeless := out_of_reach(before)) is not None:
        raise InputError(f"{place}{hopeless.text}", hint=hopeless.next_step)
    least = first_contest_size(before.contest)
    if plan.design.kind == SEQUENTIAL and plan.budget.trials is not None and plan.budget.trials < least:
        raise InputError(
            f"{place}a budget of {plan.budget.trials} trials is too few for the rival: "
            f"the first look takes {least}",
            hint=f"raise budget.trials to {least} or more",
        )
    if plan.design.kind == SEQUENTIAL or not rivalry.rival.parents:
        return  # all that is allowed has been looked at, or one parameter alone is told by any trials
    found = forecast(rivalry.rival, trials, experiment.blueprint.variables, at_best=True)
    if not found.can_be_fitted:
        doubt = _no_fit(plan.goal.outcome, found, experiment, trials)
        message = doubt.message.replace(f"the law of {plan.goal.outcome}", "the rival", 1)
        raise InputError(f"{place}{message}", hint=doubt.hint)


def _goal_place(plan: Plan) -> str:
    return f"{plan.path}:{plan.goal.line}:{plan.goal.column}: " if plan.goal and plan.goal.line else ""


def _no_fit(outcome: str, found: Forecast, experiment: Experiment, trials: Sequence[PlannedTrial]) -> Doubt:
    """Why a law cannot be fitted, and what to change."""
    plan = experiment.plan
    remedy = "; ".join(dict.fromkeys(_remedy(one, plan) for one in found.confounded))
    if found.missing_trials and plan.design.kind != SEQUENTIAL:
        remedy = remedy if all(one.separating or one.together for one in found.confounded) else ""
        has = _counted(found.trials, "trial")
        parameters = f"{_counted(len(found.estimated), 'parameter')} ({_listed(found.estimated, 'and')})"
        needed = found.trials + found.missing_trials
        if _is_counted(plan):
            remedy = f"raise design.trials by {found.missing_trials} or more"
        return Doubt(
            f"{has} cannot fit the law of {outcome}, which has {parameters}: at least {needed} are needed, "
            f"{found.missing_trials} more",
            remedy or "add levels, or raise design.replicates",
        )
    remedy = "; ".join([*_separated(experiment, trials), remedy])
    said = "; ".join(_mixed_up(one) for one in found.confounded)
    return Doubt(f"the law of {outcome} cannot be fitted: {said}", remedy)


def _is_counted(plan: Plan) -> bool:
    """Whether a plan says how many trials its design has, and not how many of each."""
    return plan.design.kind not in (SEQUENTIAL, "factorial", "fractional")


def _separated(experiment: Experiment, trials: Sequence[PlannedTrial]) -> Iterator[str]:
    """Which of the trials that the plan allows would tell apart what its own do not."""
    plan = experiment.plan
    if plan.design.kind == SEQUENTIAL:  # all that are allowed have been looked at
        return
    situation = before_any_trial(plan, experiment.blueprint)
    if situation.open:
        return
    missing = situation.separating([trial.assignment for trial in trials])
    if missing:
        texts = [_spelt(one, plan) for one in missing[:_MOST_SHOWN]]
        what = "the trial" if len(texts) == 1 else "the trials"
        yield f"add {what} {_listed(texts, 'and')}, which the plan allows and its design leaves out"


_MOST_SHOWN = 3
"""Trials that are spelt out."""


def _spelt(assignment: Assignment, plan: Plan) -> str:
    """Levels of the factors in words: "(cores = 1 core, size = 4 MB)"."""
    levels, variables = assignment.as_dict(), plan.model.variables
    names = [factor.variable for factor in plan.factors]
    return f"({', '.join(f'{name} = {variables[name].spell(levels[name])}' for name in names)})"


def _mixed_up(one: Confounding) -> str:
    text = f"the planned trials do not tell {_listed(one.parameters, 'and')} apart"
    if one.constant:
        stand = "stands at one level" if len(one.constant) == 1 else "stand at one level each"
        text += f", since {_listed(one.constant, 'and')} {stand}"
    return text


def _together(confounded: Sequence[Confounding]) -> str:
    """What to do where the goal's numbers need no more of mixed parameters than what they make together."""
    sets = [_listed(one.parameters, "and") for one in confounded if one.separating or one.together]
    return (
        f"or keep one of {' and one of '.join(sets)} in the law: the goal needs them only together" if sets else ""
    )


def _remedy(one: Confounding, plan: Plan) -> str:
    listed = {factor.variable for factor in plan.factors}
    useful, how = (one.separating, "or") if one.separating else (one.together, "and")
    if not useful:
        return f"keep one of {_listed(one.parameters, 'and')} in the law: no level of any variable separates them"
    held = tuple(name for name in useful if name in listed)
    missing = tuple(name for name in useful if name not in listed)
    parts = [f"give {_listed(held, how)} another level"] if held else []
    parts += [f"add {_listed(missing, how)} to factors"] if missing else []
    return f", {how} ".join(parts)


def _about_the_cause(experiment: Experiment, goal: EffectGoal, trials: Sequence[PlannedTrial]) -> Iterator[Doubt]:
    """An effect is a difference between two levels."""
    plan, cause = experiment.plan, goal.cause
    levels = {trial.assignment.as_dict()[cause] for trial in trials}
    if len(levels) > 1:
        yield from _about_one_level(plan, goal, levels)
        return
    variable = plan.model.variables[cause]
    doubt = Doubt(
        f"{cause} is {variable.spell(levels.pop())} in every trial, so they show no effect of it",
        f"give {cause} another level",
    )
    if unset := [one for one in experiment.left_unset if one.variable == cause]:
        why = f"{cause} is left as it is in every trial, since {unset[0].reason}: they show no effect of it"
        doubt = Doubt(why, f"{unset[0].remedy}; or ask for the effect of a variable that can be set here")
    if cause in {left.variable for left in plan.factors if left.levels == (variable.rest,)} and not _is_precise(
        plan
    ):
        yield doubt
        return
    raise InputError(f"{_goal_place(plan)}{doubt.message}", hint=doubt.hint)


def _about_one_level(plan: Plan, goal: EffectGoal, levels: set[float]) -> Iterator[Doubt]:
    """One level, and trials without it, whose level is the machine's and so not known beforehand."""
    factor = next(one for one in plan.factors if one.variable == goal.cause)
    if len(factor.levels) > 1 or math.inf not in levels or not (math.isnan(goal.low) or math.isnan(goal.high)):
        return
    spelt = plan.model.variables[goal.cause].spell(factor.levels[0])
    yield Doubt(
        f"{_goal_place(plan)}{goal.cause} has the one level {spelt}: its effect will be that of lifting it, up to "
        "what this machine gives in the few trials without intervention; no trials can be chosen for that before",
        f"give {goal.cause} another level",
    )


def _is_precise(plan: Plan) -> bool:
    """Whether a plan is after a number, so that it fails without one."""
    asks = plan.goal is not None and plan.goal.relative_half_width is not None
    return asks or plan.design.kind in (SEQUENTIAL, "c_optimal")


def _check_asked(experiment: Experiment, asked: Asked, trials: Sequence[PlannedTrial]) -> None:
    """Refuse a goal whose numbers depend on nothing that trials could tell."""
    plan, goal = experiment.plan, experiment.plan.goal
    assert goal is not None
    place, wanted = _goal_place(plan), asked.target.wanted
    if not wanted:
        raise InputError(f"{place}no factor has two levels, so there are no causes to rank", hint="add levels")
    if not asked.depends and any(one.low != one.high for one in wanted):
        what = f"what the goal asks of {goal.outcome}"
        if isinstance(goal, EffectGoal):
            low, high = (plan.model.variables[goal.cause].spell(one) for one in (wanted[0].low, wanted[0].high))
            what = f"by the laws, what {goal.cause} does to {goal.outcome} from {low} to {high}"
        raise InputError(
            f"{place}{what} is the same whatever their parameters are, so no trial tells anything of it",
            hint=f"see what the laws on the way to {goal.outcome} give there, such as a factor of zero",
        )
    if not _is_precise(plan):
        return
    mixed: tuple[str, ...] = ()
    situation = before_any_trial(plan, experiment.blueprint)
    if plan.design.kind == SEQUENTIAL and not situation.open:
        mixed = never_reached(situation)
    for law in asked.target.composite.laws:
        slopes, known = asked.slopes[law.variable], _known(law)
        if mixed or tells(law, trials, experiment.blueprint.variables, slopes, known=known):
            continue
        silent = forecast(law, trials, experiment.blueprint.variables, at_best=True, known=known).silent
        mixed = tuple(name for name in silent if slopes[:, law.parameters.index(name)].any())
    if mixed:
        hopeless = unidentifiable(mixed)
        raise InputError(f"{place}{hopeless.text}", hint="allow further levels, or ask for what does not need it")


def _about_places(plan: Plan) -> Iterator[Doubt]:
    """Levels of the goal that the trials will not reach."""
    match plan.goal:
        case EffectGoal():
            asked = [*plan.goal.at, (plan.goal.cause, plan.goal.low), (plan.goal.cause, plan.goal.high)]
        case PredictionGoal():
            asked = [one for place in plan.goal.places for one in place]
        case _:
            return
    factors = {factor.variable: factor for factor in plan.factors}
    for name, level in dict.fromkeys(asked):
        variable = plan.model.variables[name]
        tried = [one for one in factors[name].levels if math.isfinite(one)] if name in factors else []
        if not tried or variable.categories or not math.isfinite(level):
            continue
        # a cap above its levels is as without a cap, which is tried as well
        is_cap = variable.role is Role.SET and variable.rest == math.inf
        if level < min(tried) or (level > max(tried) and not is_cap):
            shown, low, high = (format_quantity(one, variable.unit) for one in (level, min(tried), max(tried)))
            reach = f"{low} to {high}" if len(tried) > 1 else low
            yield Doubt(
                f"{_goal_place(plan)}the goal asks about {name} = {shown}, beyond the levels of the trials, "
                f"{reach}: the answer will be extrapolated",
                f"give {name} levels that reach it, or ask about one among them",
            )


def _about_windows(experiment: Experiment, inventory: Inventory | None) -> Iterator[Doubt]:
    """Windows of time that cannot open."""
    plan, here = experiment.plan, experiment.here.name
    known = {here, *(inventory.nodes if inventory is not None else ())} - {DEFAULT_NODE}
    for factor in plan.factors:
        for schedule in (value for _, value in factor.options if isinstance(value, Schedule)):
            yield from _strangers(plan, factor, schedule, known, here)
            yield from _too_late(plan, factor, schedule)


def _strangers(plan: Plan, factor: Factor, schedule: Schedule, known: set[str], here: str) -> Iterator[Doubt]:
    for name, _ in schedule.by_node:
        if name not in known:
            yield Doubt(
                f"{_place(plan, factor)}the windows of {factor.variable} never open: no node is named '{name}'",
                f"this node is '{here}'; others are known from an inventory",
            )
    if schedule.by_node and not schedule.on(here):
        yield Doubt(
            f"{_place(plan, factor)}{factor.variable} has no window on this node, '{here}': nothing is added here",
            f"add windows for '{here}', or give one list for all nodes",
        )


def _too_late(plan: Plan, factor: Factor, schedule: Schedule) -> Iterator[Doubt]:
    timeout_s = plan.guards.trial_timeout_s
    for name, windows in schedule.by_node or (("", schedule.everywhere),):
        for window in windows:
            if window.begin_s >= timeout_s:
                where = f" on '{name}'" if name else ""
                yield Doubt(
                    f"{_place(plan, factor)}the window {window} of {factor.variable}{where} never opens: "
                    f"a trial is ended after {timeout_s:g} s",
                    "begin it earlier, or raise guards.trial_timeout",
                )


def _place(plan: Plan, factor: Factor) -> str:
    return f"{plan.path}:{factor.line}:{factor.column}: " if factor.line else ""


def _listed(parts: Sequence[str], last: str) -> str:
    if len(parts) > _MOST_LISTED:
        parts, last = [*parts[: _MOST_LISTED - 1], f"{len(parts) - _MOST_LISTED + 1} more"], "and"
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} {last} {parts[-1]}"


def _counted(amount: int, one: str) -> str:
    return f"{amount} {one if amount == 1 else one + 's'}"
