"""What ``check`` says of the trials that a plan asks for: what they will tell, and how long they take."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from insitu.orchestrator.cli import rival_previews
from insitu.orchestrator.units import percent

if TYPE_CHECKING:
    from pathlib import Path

    from insitu.orchestrator.causal.law import Law
    from insitu.orchestrator.design.expected import ExpectedLaw
    from insitu.orchestrator.design.foresight import Foreseen
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.steering.preview import FixedPreview, Preview
    from insitu.orchestrator.steering.rival_preview import RivalPreview
    from insitu.orchestrator.store.records import PlannedTrial, StoredTrial

    AnyPreview = Preview | FixedPreview | RivalPreview


def trials_like(run: Path | None) -> tuple[StoredTrial, ...]:
    """The trials of an earlier run that says what to expect; none without one."""
    from insitu.orchestrator.store.run import RunStore

    if run is None:
        return ()
    with RunStore.open(run, read_only=True) as store:
        return store.trials()


def preview(
    prepared: Experiment, trials: Sequence[PlannedTrial], like: Sequence[StoredTrial]
) -> AnyPreview | None:
    """Look ahead; ``None`` where a law needs what only the trials can tell."""
    from insitu.orchestrator.plan.goals import ComparisonGoal
    from insitu.orchestrator.plan.types import SEQUENTIAL
    from insitu.orchestrator.steering.preview import fixed_preview_of, preview_of
    from insitu.orchestrator.steering.rival_preview import rival_preview_of

    if isinstance(prepared.plan.goal, ComparisonGoal):
        if prepared.plan.design.kind != SEQUENTIAL:
            return None
        return rival_preview_of(prepared.plan, prepared.blueprint, prepared.most_trials)
    if prepared.plan.design.kind != SEQUENTIAL:
        return fixed_preview_of(prepared.plan, prepared.blueprint, trials, like)
    return preview_of(prepared.plan, prepared.blueprint, prepared.most_trials, like)


def seconds_of(foreseen: AnyPreview | None, like: Sequence[StoredTrial], trials: int) -> float | None:
    """What so many trials take, as far as an earlier run tells."""
    from insitu.orchestrator.steering.preview import FixedPreview

    if isinstance(foreseen, FixedPreview):
        return foreseen.seconds
    durations = [one.record.duration_s for one in like if one.record is not None]
    return trials * sum(durations) / len(durations) if durations else None


def lines(foreseen: AnyPreview | None, plan: Plan) -> list[str]:
    """For the terminal."""
    from insitu.orchestrator.steering.preview import FixedPreview
    from insitu.orchestrator.steering.rival_preview import RivalPreview

    if foreseen is None:
        return []
    if isinstance(foreseen, RivalPreview):
        return list(rival_previews.lines(foreseen))
    return list(_fixed_lines(foreseen, plan) if isinstance(foreseen, FixedPreview) else _lines(foreseen, plan))


def _lines(foreseen: Preview, plan: Plan) -> Iterator[str]:
    from insitu.orchestrator.units import format_quantity

    yield (
        f"then {foreseen.batch} after each look, until the goal is reached, at most {foreseen.most} in all; "
        "one in seven checks the law"
    )
    looks = _few([one for one in foreseen.foreseen if math.isfinite(max(one.half_widths, default=math.inf))])
    if looks and len(foreseen.wanted) == 1:
        (one,) = foreseen.wanted
        halves = [max(look.half_widths) for look in looks]
        shown = [format_quantity(half, one.unit) if foreseen.absolute else f"{half:.2g}" for half in halves]
        told = ", ".join(f"{half} after {look.trials} trials" for half, look in zip(shown, looks, strict=True))
        unit = "" if foreseen.absolute else ", in units of one trial's spread"
        yield f"half width of the interval{unit}: {told}"
    if not looks:
        yield "how precise the answer becomes is not foreseen"
    elif foreseen.needed and plan.goal is not None and plan.goal.relative_half_width is not None:
        what = "what the goal asks for" if len(foreseen.wanted) == 1 else "the smallest number that it asks for"
        yield f"the goal, ± {percent(plan.goal.relative_half_width)}, is reached where one trial's spread is"
        for needed in foreseen.needed:
            when = f"after {needed.trials} trials" if needed.trials is not None else "not within the budget"
            as_before = " (as it was)" if foreseen.absolute else ""
            yield f"  {needed.spread:4.0%} of {what}{as_before}: {when}"


def _fixed_lines(foreseen: FixedPreview, plan: Plan) -> Iterator[str]:
    for law, expected in zip(foreseen.laws, foreseen.expected.laws, strict=True):
        yield _law_line(law, expected, plan, absolute=foreseen.absolute)
    if foreseen.expected.efficiency:
        yield (
            f"for all parameters together, a trial tells {100 * foreseen.expected.efficiency:.0f} % or more "
            "of what it could (D-efficiency)"
        )
    if plan.goal is not None:
        yield from _goal_lines(foreseen, plan)


def _law_line(law: Law, expected: ExpectedLaw, plan: Plan, *, absolute: bool) -> str:
    from insitu.orchestrator.units import format_quantity

    unit = plan.model.variables[law.variable].unit
    spread = f"{expected.noise:.2g} of the mean" if law.relative_noise else format_quantity(expected.noise, unit)
    source = "as it was" if absolute else "for instance"
    errors = zip(law.parameters, expected.standard_errors, strict=True)
    told = ", ".join(_error(law, name, error) for name, error in errors)
    return f"{law.variable}: with a spread of {spread} between like trials ({source}), standard errors are {told}"


def _error(law: Law, name: str, error: float) -> str:
    if not math.isfinite(error):
        return f"{name} not told"
    unit = law.parameter_units[name]
    return f"{name} {error * law.parameter_scales[name]:.3g}{' ' + unit if unit else ''}"


def _goal_lines(foreseen: FixedPreview, plan: Plan) -> Iterator[str]:
    from insitu.orchestrator.plan.goals import EffectGoal, RankingGoal
    from insitu.orchestrator.units import format_quantity

    for place, (one, half) in enumerate(zip(foreseen.wanted, foreseen.expected.half_widths, strict=True)):
        what = f"the effect of {one.name}" if isinstance(plan.goal, EffectGoal | RankingGoal) else one.name
        if not math.isfinite(half):
            yield f"how precisely {what} becomes known is not foreseen"
            continue
        size = foreseen.sizes[place] if foreseen.sizes else 0.0
        relative = f", ± {half / size:.2g} of it" if size else ""
        assert plan.goal is not None
        interval = f"half width of the {plan.goal.confidence:.0%} interval of {what}"
        shown = (
            f"{half * one.scale:.3g} {one.unit}".rstrip() if one.scale != 1 else format_quantity(half, one.unit)
        )
        yield f"{interval}: {shown}{relative}"


def _few(looks: list[Foreseen]) -> list[Foreseen]:
    """The first, the last, and one between."""
    return [looks[index] for index in sorted({0, len(looks) // 2, len(looks) - 1})] if looks else []


def document(foreseen: AnyPreview | None) -> dict[str, object] | None:
    """For ``--json``; what is not known is null."""
    from insitu.orchestrator.steering.preview import FixedPreview
    from insitu.orchestrator.steering.rival_preview import RivalPreview

    if foreseen is None:
        return None
    if isinstance(foreseen, RivalPreview):
        return rival_previews.document(foreseen)
    return _fixed_document(foreseen) if isinstance(foreseen, FixedPreview) else _document(foreseen)


def _document(foreseen: Preview) -> dict[str, object]:
    key = "half_widths" if foreseen.absolute else "half_widths_in_spreads"
    return {
        "first_trials": foreseen.first,
        "batch_trials": foreseen.batch,
        "most_trials": foreseen.most,
        "looks": [
            {"trials": one.trials, key: [_finite(half) for half in one.half_widths]} for one in foreseen.foreseen
        ],
        "needed": [{"spread": _finite(one.spread), "trials": one.trials} for one in foreseen.needed],
    }


def _fixed_document(foreseen: FixedPreview) -> dict[str, object]:
    return {
        "laws": [
            {
                "variable": one.variable,
                "noise": one.noise,
                "standard_errors": {
                    name: _finite(error) for name, error in zip(law.parameters, one.standard_errors, strict=True)
                },
            }
            for law, one in zip(foreseen.laws, foreseen.expected.laws, strict=True)
        ],
        "noise_is_known": foreseen.absolute,
        "log_determinant": _finite(foreseen.expected.log_determinant),
        "d_efficiency": foreseen.expected.efficiency,
        "half_widths": [
            {"name": one.name, "half_width": _finite(half)}
            for one, half in zip(foreseen.wanted, foreseen.expected.half_widths, strict=True)
        ],
    }


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None
