"""A model document to a `ModelText`: names, units and sources checked against each other."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.measurements import MEASUREMENTS
from insitu.orchestrator.plan.placeholders import FOLDERS
from insitu.orchestrator.plan.schema import ModelDocument, VariableDocument
from insitu.orchestrator.plan.types import LawText, ModelText, ParameterUnit, Role, Settable, Variable
from insitu.orchestrator.units import dimension_of, spell_dimension

FUNCTIONS = ("log", "exp", "sqrt", "min", "max")
"""Names that laws use for functions, and nothing else may have."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,63}")


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model, with the names of all variables it has, those with faults included.

    Attributes
    ----------
    declared
        So that a faulty variable is not reported as unknown wherever it is used.
    """

    text: ModelText
    declared: tuple[str, ...]


def resolve_model(
    root: located.Mapping, document: ModelDocument, faults: FaultList, settable: Mapping[str, Settable]
) -> ResolvedModel:
    """Check a model and resolve what is sound of it.

    Parameters
    ----------
    settable
        Injector variable to what is known of it.
    """
    variables_node = _mapping(root, "variables")
    declared = variables_node.keys() if variables_node else ()
    variables = _variables(variables_node, document, faults, settable)
    laws = tuple(
        LawText(variable, node.raw, node.raw_line, node.raw_column)
        for variable, node in _laws(root, document, faults)
    )
    return ResolvedModel(
        ModelText(faults.path, variables, laws, _parameters(root, document, declared, faults)), declared
    )


def _mapping(root: located.Mapping, key: str) -> located.Mapping | None:
    entry = root.entry(key)
    return entry.value if entry and isinstance(entry.value, located.Mapping) else None


def _check_name(entry: located.Entry, what: str, faults: FaultList) -> bool:
    name = entry.key.text or ""
    if not _IDENTIFIER.fullmatch(name):
        faults.at(
            entry.key,
            f"'{name}' is not a name for a {what}",
            "letters, digits and '_', not starting with a digit, at most 64",
        )
        return False
    if name in FUNCTIONS or name in FOLDERS:
        use = "a function of laws" if name in FUNCTIONS else "a placeholder of commands"
        faults.at(entry.key, f"'{name}' is the name of {use}", f"give the {what} another name")
        return False
    return True


def _variables(
    node: located.Mapping | None, document: ModelDocument, faults: FaultList, settable: Mapping[str, Settable]
) -> dict[str, Variable]:
    resolved: dict[str, Variable] = {}
    sources: dict[str, str] = {}
    for entry in node.entries if node else ():
        name = entry.key.text or ""
        sound = _check_name(entry, "variable", faults)
        fields = (document.variables or {}).get(name)
        if fields is None or not isinstance(entry.value, located.Mapping):
            continue
        kind = _kind(entry.value, fields, faults, settable)
        if kind is None or not sound:
            continue
        role, source = kind
        if role is Role.SET and source is not None and source in sources:
            faults.at(
                entry.key,
                f"'{name}' and '{sources[source]}' are both set by {source}",
                "one throttle holds one level at a time; keep one of the variables",
            )
        elif role is Role.SET and source is not None:
            sources[source] = name
        resolved[name] = Variable(
            name,
            fields.unit,
            role,
            source,
            settable.get(source) if role is Role.SET and source else None,
            entry.key.line,
            entry.key.column,
        )
    return resolved


def _kind(
    node: located.Mapping, fields: VariableDocument, faults: FaultList, settable: Mapping[str, Settable]
) -> tuple[Role, str | None] | None:
    """How a variable gets its value, or ``None`` with a fault."""
    given = [entry for entry in node.entries if entry.key.text in ("role", "set_by", "measured_by")]
    if len(given) != 1:
        message = (
            "a variable has only one of role, set_by and measured_by"
            if given
            else "it is not said how this variable gets its value"
        )
        faults.at(
            given[1].key if given else node,
            message,
            "keep one" if given else "add one of: role: parameter, set_by, measured_by, role: latent",
        )
        return None
    if fields.role is not None:
        return Role(fields.role), None
    source, known, role, what = (
        (fields.set_by, settable, Role.SET, "injector variable")
        if fields.set_by is not None
        else (fields.measured_by, MEASUREMENTS, Role.MEASURED, "measurement")
    )
    units = {name: one if isinstance(one, str) else one.unit for name, one in known.items()}
    if source is None:
        if located.plain(given[0].value) is None:
            faults.at(given[0].key, f"'{given[0].key.text}' has no value", suggest("", known))
        return None
    if source not in known:
        faults.at(given[0].value, f"unknown {what} '{source}'", suggest(source, known))
        return None
    if dimension_of(fields.unit) != dimension_of(units[source]):
        unit = node.entry("unit")
        native = units[source] or "a plain number"
        faults.at(
            unit.value if unit else node,
            f"'{fields.unit}' is {spell_dimension(dimension_of(fields.unit))}, but {source} is in {native}",
            f"write unit: {units[source] or repr('')}",
        )
        return None
    return role, source


def _laws(root: located.Mapping, document: ModelDocument, faults: FaultList) -> list[tuple[str, located.Scalar]]:
    node = _mapping(root, "laws")
    found = []
    for entry in node.entries if node else ():
        if entry.key.text not in (document.laws or {}) or not isinstance(entry.value, located.Scalar):
            continue
        if not entry.value.raw.strip():
            faults.at(entry.value, f"the law of '{entry.key.text}' is empty", "as in: a * input_size / cpu_cores")
            continue
        found.append((entry.key.text or "", entry.value))
    return found


def _parameters(
    root: located.Mapping, document: ModelDocument, declared: tuple[str, ...], faults: FaultList
) -> tuple[ParameterUnit, ...]:
    node = _mapping(root, "parameters")
    units = []
    for entry in node.entries if node else ():
        name = entry.key.text or ""
        sound = _check_name(entry, "parameter", faults)
        if name in declared:
            faults.at(
                entry.key,
                f"'{name}' is a variable, not a parameter of a law",
                "remove it here; a variable's unit is given with the variable",
            )
        elif sound and name in document.parameters and isinstance(entry.value, located.Mapping):
            unit = entry.value.entry("unit")
            place = unit.value if unit else entry.value
            units.append(ParameterUnit(name, document.parameters[name].unit, place.line, place.column))
    return tuple(units)
