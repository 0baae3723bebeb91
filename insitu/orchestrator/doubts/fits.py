"""Laws that the trials of a plan cannot tell, and what would."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from insitu.orchestrator.design.asked import Asked
from insitu.orchestrator.design.at_rest import hard_to_change
from insitu.orchestrator.design.estimability import Confounding, Forecast, forecast, tells
from insitu.orchestrator.doubts.doubt import Doubt, counted, goal_place, listed
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.fitting.prior_files import prior_of
from insitu.orchestrator.plan.law_kinds import Method
from insitu.orchestrator.plan.named_factors import how_to_add
from insitu.orchestrator.plan.types import SEQUENTIAL, Plan
from insitu.orchestrator.steering.choice import before_any_trial

if TYPE_CHECKING:
    from insitu.orchestrator.causal.expression import Array
    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.store.records import Assignment, PlannedTrial


_MOST_SHOWN = 3
"""Trials that are spelt out."""


def about_the_fit(
    experiment: Experiment, law: Law, trials: Sequence[PlannedTrial], asked: Asked
) -> Iterator[Doubt]:
    """Whether the trials tell the parameters of one law.

    Raises
    ------
    InputError
        If the plan has a goal, and no result of these trials could be fitted.
    """
    plan, variables = experiment.plan, experiment.blueprint.variables
    known = known_rows(law)
    likely = forecast(law, trials, variables, known=known)
    if likely.trials < len(trials):
        yield _not_finite(law.variable, len(trials) - likely.trials, len(trials), plan)
    at_best = forecast(law, trials, variables, at_best=True, known=known)
    repeated = plan.design.kind == SEQUENTIAL  # as often as it takes: what counts is which trials there can be
    if at_best.confounded if repeated else not at_best.can_be_fitted:
        doubt = no_fit(law.variable, at_best, experiment, trials)
        if plan.goal is not None:
            whole = tells(law, trials, variables, asked.slopes[law.variable], known=known)
            enough = _together(at_best.confounded) if whole else ""
            what = "are not fitted" if law.variable == plan.goal.outcome else "that law is not fitted"
            hint = "; ".join(filter(None, (doubt.hint, enough, f"without `goal`, the trials run and {what}")))
            raise InputError(f"{goal_place(plan)}{doubt.message}", hint=hint)
        yield doubt
    elif likely.confounded if repeated else not likely.can_be_fitted:
        yield no_fit(law.variable, likely, experiment, trials)
    for name in likely.silent:
        term = law.term_texts[name]
        yield Doubt(f"{name} of the law of {law.variable} is not estimated: {term} is zero in every trial")
    yield from _about_groups(plan, law, trials)


def known_rows(law: Law) -> Array | None:
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
        names = listed(inside, "and")
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
        f"{goal_place(plan)}the law of {outcome} is not finite at the levels of {where}",
        "see what its quotients, powers and logarithms are at the levels of the factors",
    )
    if spoilt == trials:
        raise InputError(doubt.message, hint=doubt.hint)
    return doubt


def no_fit(outcome: str, found: Forecast, experiment: Experiment, trials: Sequence[PlannedTrial]) -> Doubt:
    """Why a law cannot be fitted, and what to change."""
    plan = experiment.plan
    remedy = "; ".join(dict.fromkeys(_remedy(one, plan) for one in found.confounded))
    if found.missing_trials and plan.design.kind != SEQUENTIAL:
        remedy = remedy if all(one.separating or one.together for one in found.confounded) else ""
        has = counted(found.trials, "trial")
        parameters = f"{counted(len(found.estimated), 'parameter')} ({listed(found.estimated, 'and')})"
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
        yield f"add {what} {listed(texts, 'and')}, which the plan allows and its design leaves out"


def _spelt(assignment: Assignment, plan: Plan) -> str:
    """Levels of the factors in words: "(cores = 1 core, size = 4 MB)"."""
    levels, variables = assignment.as_dict(), plan.model.variables
    names = [factor.variable for factor in plan.factors]
    return f"({', '.join(f'{name} = {variables[name].spell(levels[name])}' for name in names)})"


def _mixed_up(one: Confounding) -> str:
    text = f"the planned trials do not tell {listed(one.parameters, 'and')} apart"
    if one.constant:
        stand = "stands at one level" if len(one.constant) == 1 else "stand at one level each"
        text += f", since {listed(one.constant, 'and')} {stand}"
    return text


def _together(confounded: Sequence[Confounding]) -> str:
    """What to do where the goal's numbers need no more of mixed parameters than what they make together."""
    sets = [listed(one.parameters, "and") for one in confounded if one.separating or one.together]
    return (
        f"or keep one of {' and one of '.join(sets)} in the law: the goal needs them only together" if sets else ""
    )


def _remedy(one: Confounding, plan: Plan) -> str:
    factors = {factor.variable for factor in plan.factors}
    useful, how = (one.separating, "or") if one.separating else (one.together, "and")
    if not useful:
        return f"keep one of {listed(one.parameters, 'and')} in the law: no level of any variable separates them"
    held = tuple(name for name in useful if name in factors)
    missing = tuple(name for name in useful if name not in factors)
    parts = [f"give {listed(held, how)} another level"] if held else []
    parts += [how_to_add(listed(missing, how), of_model=plan.has_factors_of_model)] if missing else []
    return f", {how} ".join(parts)
