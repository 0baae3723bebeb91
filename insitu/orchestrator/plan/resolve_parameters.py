"""What a model says of the parameters of its laws, and its constants."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.model_types import Constant, Given, ParameterText
from insitu.orchestrator.plan.schema import ParameterDocument
from insitu.orchestrator.units import UnitError, dimension_of_quantity, parse_quantity, spell_dimension

CheckName = Callable[[located.Entry, str], bool]
"""Whether a key can be the name of what the text says, with a fault if not."""


def resolve_parameters(
    node: located.Mapping | None,
    documents: Mapping[str, ParameterDocument],
    declared: Collection[str],
    check_name: CheckName,
    faults: FaultList,
) -> tuple[ParameterText, ...]:
    """Take the parameters that no variable shares its name with; units are compared later, with their laws.

    Parameters
    ----------
    declared
        Every name under ``variables``.
    """
    found = []
    for entry in node.entries if node else ():
        name = entry.key.text or ""
        sound = check_name(entry, "parameter")
        if name in declared:
            faults.at(
                entry.key,
                f"'{name}' is a variable, not a parameter of a law",
                "remove it here; a variable's unit is given with the variable",
            )
        elif sound and name in documents and isinstance(entry.value, located.Mapping):
            unit = entry.value.entry("unit")
            place = unit.value if unit else entry.key
            found.append(
                ParameterText(
                    name,
                    documents[name].unit,
                    place.line,
                    place.column,
                    low=_given(entry.value, "low", documents[name].low),
                    high=_given(entry.value, "high", documents[name].high),
                    start=_given(entry.value, "start", documents[name].start),
                )
            )
    return tuple(found)


def _given(node: located.Mapping, key: str, text: str | None) -> Given | None:
    entry = node.entry(key)
    return None if entry is None or text is None else Given(text, entry.value.line, entry.value.column)


def resolve_constants(
    node: located.Mapping | None,
    documents: Mapping[str, str],
    taken: Collection[str],
    check_name: CheckName,
    faults: FaultList,
) -> tuple[Constant, ...]:
    """Read the constants; a bare number is a plain number.

    Parameters
    ----------
    taken
        Names of variables and parameters.
    """
    found = []
    for entry in node.entries if node else ():
        name = entry.key.text or ""
        sound = check_name(entry, "constant")
        if name in taken:
            message = f"'{name}' is a variable or a parameter already"
            faults.at(entry.key, message, "give the constant another name")
        elif sound and name in documents:
            constant = _constant(name, documents[name], entry.value, faults)
            found += [constant] if constant else []
    return tuple(found)


def _constant(name: str, text: str, node: located.Node, faults: FaultList) -> Constant | None:
    try:
        dimension = dimension_of_quantity(text)
        value = parse_quantity(text, spell_dimension(dimension) if dimension else "")
    except UnitError as error:
        faults.at(node, str(error), "write a number with a unit, such as 128 MB")
        return None
    return Constant(name, value, dimension)
