"""Abort conditions as text, ``host.memory.available < 2 GB``, to conditions; every fault at its place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.hints import nearest, suggest
from insitu.orchestrator.plan.host_quantities import HOST_QUANTITIES
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.types import Condition, Relation
from insitu.orchestrator.units import UnitError, parse_quantity

_FORM = re.compile(r"(?P<quantity>[^\s<>=!]*)\s*(?P<relation>[<>=!]*)\s*(?P<bound>.*)", re.DOTALL)
_EXAMPLE = "as in host.memory.available < 2 GB"


def resolve_conditions(node: located.Node | None, faults: FaultList) -> tuple[Condition, ...]:
    """Read the list under ``abort_when``.

    Parameters
    ----------
    node
        ``None`` where the plan has none; what is not a list of texts is reported with the schema's faults.
    """
    if not isinstance(node, located.Sequence):
        return ()
    found: dict[tuple[str, bool], Condition] = {}
    for item in node.items:
        if not isinstance(item, located.Scalar) or item.text is None:
            continue
        for condition in _read(item, faults):
            first = found.setdefault((condition.quantity, condition.relation.upwards), condition)
            if first is not condition:
                faults.at(
                    item,
                    f"a second condition on {condition.quantity} in the same direction",
                    f"the first is on line {first.line}; keep the stricter one",
                )
    return tuple(found.values())


def _read(item: located.Scalar, faults: FaultList) -> Iterator[Condition]:
    match = _FORM.fullmatch(item.raw)
    if match is None:  # pragma: no cover - the expression takes any text
        raise AssertionError(item.raw)
    name, relation, bound = match["quantity"], match["relation"], match["bound"].strip()
    quantity = HOST_QUANTITIES.get(name)
    if quantity is None:
        said = f"unknown quantity '{name}'" if name else f"no quantity in {located.describe(item)}"
        faults.at(item, said, _instead_of(name))
    elif relation not in list(Relation):
        line, column = item.position(match.start("relation"))
        what = f"'{relation}' is not a comparison" if relation else f"'{name}' is compared with nothing"
        faults.add(line, column, what, f"write <, <=, > or >=, {_EXAMPLE}")
    elif not bound:
        line, column = item.position(match.end("relation"))
        faults.add(line, column, f"nothing follows '{relation}'", _EXAMPLE)
    else:
        place = item.position(match.start("bound"))
        value = _bound(bound, name, place, faults)
        condition = None if value is None else Condition(name, Relation(relation), value, item.line, item.column)
        if condition is not None and _is_sound(condition, item.text or "", place, faults):
            yield condition


def _instead_of(name: str) -> str | None:
    """The nearest name, which may be one without its ``host.``; else some names."""
    for candidate in (name, f"host.{name}") if name else ():
        if (near := nearest(candidate, HOST_QUANTITIES)) is not None:
            return f"did you mean '{near}'?"
    return suggest(name, [one for one in HOST_QUANTITIES if "_avg" not in one])


def _bound(text: str, name: str, place: tuple[int, int], faults: FaultList) -> float | None:
    """Read the bound; what has a unit is written with it, since a bare 2 is no sensible number of bytes."""
    unit = HOST_QUANTITIES[name].unit
    try:
        return parse_quantity(text, unit)
    except UnitError as error:
        kind = {"fraction": "a share: write a percentage, such as 80%", "": "a plain number"}.get(
            unit, f"in {unit}"
        )
        hint = f"{name} is {kind}"
        if text.endswith("%") and f"{name}_share" in HOST_QUANTITIES:
            hint = f"for a share write {name}_share"
        faults.add(*place, str(error), hint)
        return None


def _is_sound(condition: Condition, text: str, place: tuple[int, int], faults: FaultList) -> bool:
    """Whether the condition is neither true nor false whatever the node does."""
    quantity = HOST_QUANTITIES[condition.quantity]
    lowest, highest = condition.holds_for(0.0), condition.holds_for(quantity.highest)
    if lowest is not highest:
        return True
    reach = f"0 to {quantity.spell(quantity.highest)}" if quantity.highest < float("inf") else "zero and above"
    hint = f"{condition.quantity} is {reach}"
    if quantity.unit == "fraction" and 1 < condition.bound <= 100:
        hint += f"; {condition.bound:g} % is written {condition.bound:g}%"
    always = "always true: no trial would ever start" if lowest else "never true"
    faults.add(*place, f"'{text}' is {always}", hint)
    return False
