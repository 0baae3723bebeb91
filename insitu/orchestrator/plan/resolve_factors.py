"""The factors of a plan: which variables trials may set, and to which levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.resolve_model import ResolvedModel
from insitu.orchestrator.plan.resolve_options import resolve_options
from insitu.orchestrator.plan.schema import FactorDocument, LevelsDocument, VariableDocument
from insitu.orchestrator.plan.types import Factor, Role, Span, Variable
from insitu.orchestrator.plan.values import quantity_of
from insitu.orchestrator.units import UnitError, dimension_of, format_quantity

FEW_POINTS, MANY_POINTS = 3, 5
"""Levels of a range that does not say how many: for a design that tries all combinations, and for the others."""
_POINTS = {"factorial": FEW_POINTS, "fractional": 2}


def points_for(kind: str) -> int:
    """Levels of a range that does not say how many, by the kind of design."""
    return _POINTS.get(kind, MANY_POINTS)


_BYTES = dimension_of("B")


def resolve_factors(
    node: located.Mapping,
    documents: dict[str, FactorDocument],
    model: ResolvedModel,
    faults: FaultList,
    *,
    points: int = FEW_POINTS,
) -> tuple[Factor, ...]:
    """Resolve each factor against its variable; levels come out in base units.

    Parameters
    ----------
    points
        Levels of a range that does not say how many.
    """
    factors = []
    for entry in node.entries:
        name = entry.key.text or ""
        if name not in model.declared:
            given = {v.name for v in model.text.variables.values() if v.role in (Role.MEASURED, Role.LATENT)}
            can_be = [one for one in model.declared if one not in given]
            faults.at(entry.key, f"the model has no variable '{name}'", suggest(name, can_be))
            continue
        variable = model.text.variables.get(name)
        if variable is None:  # its own fault is reported in the model
            continue
        if variable.role not in (Role.SET, Role.PARAMETER):
            how = "measured" if variable.role is Role.MEASURED else "latent"
            faults.at(
                entry.key,
                f"'{name}' is {how}, so trials cannot set it",
                "a factor is a variable with set_by or with role: parameter",
            )
            continue
        document = documents.get(name)
        if document is None or not isinstance(entry.value, located.Mapping):
            continue
        levels = tuple(_levels(entry, entry.value, document, variable, faults, points))
        if levels:
            options = resolve_options(entry.value.entry("with"), variable, faults)
            where = entry.key.line, entry.key.column
            span = _span(levels, document, variable)
            factors.append(Factor(name, levels, options, *where, span, document.hard_to_change))
    return tuple(factors)


def resolve_ranges(
    node: located.Mapping, documents: Mapping[str, VariableDocument], model: ResolvedModel, faults: FaultList
) -> tuple[Factor, ...]:
    """What the model says of the levels of variables, for plans that have no factors."""
    factors = []
    for entry in node.entries:
        variable = model.text.variables.get(entry.key.text or "")
        document = documents.get(entry.key.text or "")
        if variable is None or document is None or not isinstance(entry.value, located.Mapping):
            continue
        given = [one for key in ("levels", "range", "scale", "points") if (one := entry.value.entry(key))]
        if given and variable.role not in (Role.SET, Role.PARAMETER):
            message = f"'{variable.name}' is not set by trials, so it has no levels"
            faults.at(given[0].key, message, "levels are for a variable with set_by or with role: parameter")
        elif given and (levels := tuple(_levels(entry, entry.value, document, variable, faults, MANY_POINTS))):
            factors.append(Factor(variable.name, levels, span=_span(levels, document, variable)))
    return tuple(factors)


def _span(levels: tuple[float, ...], document: LevelsDocument, variable: Variable) -> Span | None:
    """Where levels of a range come from, without the faults that it may have."""
    if document.range is None or len(levels) < 2:
        return None
    return Span(levels[0], levels[-1], document.scale == "log", _is_whole(variable))


def _is_whole(variable: Variable) -> bool:
    """Whether only whole numbers can be substituted for the variable."""
    return variable.role is Role.PARAMETER and dimension_of(variable.unit) == _BYTES


def _levels(
    entry: located.Entry,
    node: located.Mapping,
    document: LevelsDocument,
    variable: Variable,
    faults: FaultList,
    points: int,
) -> Iterator[float]:
    listed, ranged = node.entry("levels"), node.entry("range")
    if listed is None and ranged is None:
        faults.at(entry.key, f"'{entry.key.text}' has no levels", "add levels: [...] or range: [low, high]")
    elif listed is not None and ranged is not None:
        faults.at(ranged.key, "a factor has levels or a range, not both", "keep one")
    elif listed is not None:
        for key in ("scale", "points"):
            if (extra := node.entry(key)) is not None:
                faults.at(extra.key, f"'{key}' belongs to a range, not to levels", "remove it, or give a range")
        if isinstance(listed.value, located.Sequence):
            yield from _listed(listed.value, variable, faults)
    elif ranged is not None and variable.categories:
        faults.at(ranged.key, f"'{entry.key.text}' has categories, which have no range", "list some as levels")
    elif ranged is not None and isinstance(ranged.value, located.Sequence):
        yield from _ranged(ranged.value, document.scale, document.points or points, variable, faults)


def _listed(node: located.Sequence, variable: Variable, faults: FaultList) -> Iterator[float]:
    seen: set[float] = set()
    for item in node.items:
        level = level_of(item, variable, faults)
        if level is None:
            continue
        if level in seen:
            faults.at(
                item,
                f"the level {located.describe(item)} appears twice",
                "replicates repeat a level; keep one",
            )
            continue
        seen.add(level)
        yield level


def level_of(item: located.Node, variable: Variable, faults: FaultList) -> float | None:
    """Read one level, or report why it cannot be one."""
    text = item.text if isinstance(item, located.Scalar) else None
    if text is None:
        return None  # reported with the schema's faults
    if variable.categories:
        code = variable.words.index(text) if text in variable.words else None
        if code is None:
            faults.at(item, f"'{variable.name}' has no category '{text}'", suggest(text, variable.words))
        return None if code is None else float(code)
    unit, dimension = variable.unit, dimension_of(variable.unit)
    words = variable.settable.words if variable.settable is not None else {}
    if text in words:
        return words[text]
    try:
        level = quantity_of(text, unit)
    except UnitError as error:
        faults.at(item, str(error), f"'{variable.name}' is in {unit or 'plain numbers'}")
        return None
    is_cap = variable.rest is not None and variable.rest > 0
    if variable.role is Role.SET and (level < 0 or (level == 0 and is_cap)):
        remedy = "'unlimited' leaves it alone" if is_cap else "write a number from zero up"
        what = "above zero" if is_cap else "zero or above"
        faults.at(item, f"the level '{text}' of '{variable.name}' is not {what}", remedy)
    elif variable.role is Role.SET and math.isinf(level) and not is_cap:
        what = "is added to the machine" if variable.rest == 0 else "has no level that asks for nothing"
        names = "".join(f"{word}, " for word in words).rstrip(", ")
        remedy = f"write {names}, or what lies between" if names else "write a number"
        faults.at(item, f"'{variable.name}' {what}, so it cannot be unlimited", remedy)
    elif variable.role is Role.PARAMETER and math.isinf(level):
        faults.at(item, f"'{variable.name}' is a parameter, so it cannot be unlimited", "write a number")
    elif variable.role is Role.PARAMETER and level < 0 and dimension:
        faults.at(item, f"the level '{text}' of '{variable.name}' is negative", "write a number from zero up")
    elif variable.role is Role.PARAMETER and dimension == _BYTES and not level.is_integer():
        faults.at(item, f"the level '{text}' of '{variable.name}' is not a whole number of bytes", "round it")
    else:
        return level
    return None


def _ranged(
    node: located.Sequence, scale: str, points: int, variable: Variable, faults: FaultList
) -> Iterator[float]:
    ends = [level_of(item, variable, faults) for item in node.items]
    if len(ends) != 2:
        return
    low, high = ends
    if low is None or high is None:
        return
    for item, end in zip(node.items, ends, strict=True):
        if end is not None and math.isinf(end):
            faults.at(item, "a range has finite ends", "list the levels to include unlimited")
            return
    if low == high:
        text = _text(node.items[0])
        faults.at(node, "both ends of the range are one level", f"write levels: [{text}], or ends that differ")
        return
    if low > high:
        faults.at(
            node,
            "the range does not go up",
            f"write the lower end first, as in [{_text(node.items[1])}, ...]",
        )
        return
    if scale == "log" and low <= 0:
        faults.at(node.items[0], "a log scale starts above zero", "raise the lower end, or use scale: linear")
        return
    whole = _is_whole(variable)
    last = None
    for index in range(points):
        level = _between(low, high, index / (points - 1), scale)
        level = float(round(level)) if whole else level
        if level == last:
            span = f"{format_quantity(low, variable.unit)} to {format_quantity(high, variable.unit)}"
            faults.at(node, f"{points} points do not fit into {span}", "ask for fewer points")
            return
        last = level
        yield level


def _between(low: float, high: float, share: float, scale: str) -> float:
    if share in (0.0, 1.0):
        return high if share else low
    if scale == "log":
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return low + share * (high - low)


def _text(node: located.Node) -> str:
    return (node.text or "") if isinstance(node, located.Scalar) else ""
