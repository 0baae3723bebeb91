"""A model document to a `ModelText`: names, units and sources checked against each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.measurements import MEASUREMENTS, NODE
from insitu.orchestrator.plan.model_types import Category, ModelText, Role, Settable, Variable
from insitu.orchestrator.plan.placeholders import FOLDERS
from insitu.orchestrator.plan.resolve_categories import resolve_categories
from insitu.orchestrator.plan.resolve_laws import resolve_laws
from insitu.orchestrator.plan.resolve_parameters import resolve_constants, resolve_parameters
from insitu.orchestrator.plan.schema import ModelDocument, VariableDocument
from insitu.orchestrator.plan.types import Factor
from insitu.orchestrator.units import dimension_of, spell_dimension

FUNCTIONS = ("log", "exp", "sqrt", "min", "max", "is")
"""Names that laws use for functions, and nothing else may have."""

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z_0-9]{0,63}")


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model, with the names of all variables it has, those with faults included.

    Attributes
    ----------
    declared
        So that a faulty variable is not reported as unknown wherever it is used.
    ranges
        Levels that the model gives to variables which trials can set, for plans without factors.
    ranged
        Names of all variables to which it gives levels, those with faults included.
    """

    text: ModelText
    declared: tuple[str, ...]
    ranges: tuple[Factor, ...] = ()
    ranged: tuple[str, ...] = ()


def resolve_model(
    root: located.Mapping,
    document: ModelDocument,
    faults: FaultList,
    settable: Mapping[str, Settable],
    kept_priors: Mapping[str, str] | None = None,
) -> ResolvedModel:
    """Check a model and resolve what is sound of it.

    Parameters
    ----------
    settable
        Injector variable to what is known of it.
    kept_priors
        Variable to the text of its law's prior, in the place of the files that the model names.
    """

    def check(entry: located.Entry, what: str) -> bool:
        return check_name(entry, what, faults)

    variables_node, parameters_node = _mapping(root, "variables"), _mapping(root, "parameters")
    declared = variables_node.keys() if variables_node else ()
    taken = (*declared, *(parameters_node.keys() if parameters_node else ()))
    variables = _variables(variables_node, document, faults, settable)
    text = ModelText(
        path=faults.path,
        variables=variables,
        laws=resolve_laws(_mapping(root, "laws"), document.laws or {}, variables, faults, kept_priors),
        parameters=resolve_parameters(parameters_node, document.parameters, declared, check, faults),
        constants=resolve_constants(_mapping(root, "constants"), document.constants, taken, check, faults),
        confounded=tuple(_confounded(root, document, declared, faults)),
    )
    return ResolvedModel(text, declared)


def _mapping(root: located.Mapping, key: str) -> located.Mapping | None:
    entry = root.entry(key)
    return entry.value if entry and isinstance(entry.value, located.Mapping) else None


def check_name(entry: located.Entry, what: str, faults: FaultList) -> bool:
    """Whether a key can be a name in laws, with a fault if not."""
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
        sound = check_name(entry, "variable", faults)
        fields = (document.variables or {}).get(name)
        if fields is None or not isinstance(entry.value, located.Mapping):
            continue
        kind = _kind(entry.value, fields, faults, settable)
        values = _values(entry.value, fields, kind, faults)
        if kind is None or values is None or not sound:
            continue
        if kind.role is Role.SET and kind.source is not None and kind.source in sources:
            faults.at(
                entry.key,
                f"'{name}' and '{sources[kind.source]}' are both set by {kind.source}",
                "one throttle holds one level at a time; keep one of the variables",
            )
        elif kind.role is Role.SET and kind.source is not None:
            sources[kind.source] = name
        resolved[name] = Variable(
            name,
            values.unit,
            kind.role,
            kind.source,
            settable.get(kind.source) if kind.role is Role.SET and kind.source else None,
            entry.key.line,
            entry.key.column,
            values.categories,
        )
    return resolved


@dataclass(frozen=True, slots=True)
class _Kind:
    """How a variable gets its value."""

    role: Role
    source: str | None = None


@dataclass(frozen=True, slots=True)
class _Values:
    """Which values a variable has: quantities in a unit, or words."""

    unit: str = ""
    categories: tuple[Category, ...] = ()


def _values(
    node: located.Mapping, fields: VariableDocument, kind: _Kind | None, faults: FaultList
) -> _Values | None:
    """The unit or the categories of a variable, or ``None`` with a fault."""
    categories, unit = node.entry("categories"), node.entry("unit")
    by_node = kind is not None and kind.source == NODE
    if categories is None and by_node:
        hint = "add categories: [worker-1, worker-2], in the place of a unit"
        faults.at(unit.key if unit else node, "it is not said which nodes there are", hint)
    elif categories is None and unit is None:
        faults.at(node, "the key 'unit' is missing", VariableDocument.model_fields["unit"].description)
    elif unit is not None and located.plain(unit.value) is None:
        faults.at(unit.key, "'unit' has no value", VariableDocument.model_fields["unit"].description)
    elif categories is None:
        return None if fields.unit is None else _Values(fields.unit)
    elif unit is not None:
        faults.at(unit.key, "a variable with categories has no unit", "remove it")
    elif kind is not None and kind.role is not Role.PARAMETER and not by_node:
        hint = "only a parameter of the subject, and what is measured_by: node, can have categories"
        faults.at(categories.key, f"this variable is {kind.role}, so it has numbers, not categories", hint)
    elif kind is not None:
        found = resolve_categories(categories, kind.source, faults)
        return _Values(categories=found) if found else None
    return None


def _kind(
    node: located.Mapping, fields: VariableDocument, faults: FaultList, settable: Mapping[str, Settable]
) -> _Kind | None:
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
        return _Kind(Role(fields.role))
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
    if fields.measured_by == NODE:
        return _Kind(Role.MEASURED, NODE)
    if source not in known:
        words = known if role is Role.SET else (*known, NODE)
        faults.at(given[0].value, f"unknown {what} '{source}'", suggest(source, words))
        return None
    if fields.unit is not None and dimension_of(fields.unit) != dimension_of(units[source]):
        unit = node.entry("unit")
        native = units[source] or "a plain number"
        faults.at(
            unit.value if unit else node,
            f"'{fields.unit}' is {spell_dimension(dimension_of(fields.unit))}, but {source} is in {native}",
            f"write unit: {units[source] or repr('')}",
        )
        return None
    return _Kind(role, source)


def _confounded(
    root: located.Mapping, document: ModelDocument, declared: Collection[str], faults: FaultList
) -> Iterator[tuple[str, str]]:
    entry = root.entry("confounded")
    if entry is None or not document.confounded or not isinstance(entry.value, located.Sequence):
        return
    seen: set[frozenset[str]] = set()
    for node, pair in zip(entry.value.items, document.confounded, strict=True):
        names = node.items if isinstance(node, located.Sequence) else ()
        unknown = [(item, name) for item, name in zip(names, pair, strict=True) if name not in declared]
        for item, name in unknown:
            faults.at(item, f"the model has no variable '{name}'", suggest(name, declared))
        first, second = pair
        if first == second:
            faults.at(node, f"'{first}' has no cause in common with itself", "name two variables")
        elif frozenset(pair) in seen:
            faults.at(node, f"'{first}' and '{second}' are a pair already", "keep one; the order means nothing")
        elif not unknown:
            seen.add(frozenset(pair))
            yield first, second
