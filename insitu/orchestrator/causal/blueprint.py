"""A model's text to a blueprint, with every fault of its laws at once.

`Blueprint`, `Edge`, `Law` and `check_against` are here too, so that users of a blueprint need one module.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from insitu.orchestrator.causal.checking import check_against
from insitu.orchestrator.causal.dimensions import infer, infer_parameters
from insitu.orchestrator.causal.expression import Expression, LawError, Name, names, parse
from insitu.orchestrator.causal.graph import Blueprint, Edge
from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.causal.linear import Term, split
from insitu.orchestrator.plan.hints import nearest, suggest
from insitu.orchestrator.plan.located import FaultList, advance, raise_all
from insitu.orchestrator.plan.types import LawText, ModelText, Role
from insitu.orchestrator.units import NUMBER, Dimension, dimension_of, parse_quantity, spell_dimension

__all__ = ["Blueprint", "Edge", "Law", "build_blueprint", "check_against"]

_ALIKE = 0.85
"""How like a variable an unknown name must be to be taken for a slip rather than for a parameter."""


def build_blueprint(model: ModelText) -> Blueprint:
    """Parse and check the laws of a model.

    Raises
    ------
    FaultyFile
        With every fault: syntax, names, dimensions, laws that are not linear in their parameters, cycles.
    """
    return _Building(model).build()


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A law that could be read."""

    source: LawText
    tree: Expression
    parameters: tuple[str, ...]
    parents: tuple[str, ...]


class _Building:
    """The state of building one blueprint."""

    def __init__(self, model: ModelText) -> None:
        self.model = model
        self.faults = FaultList(model.path)
        self.declared = {parameter.name: parameter for parameter in model.parameters}
        self.dimensions = {name: dimension_of(one.unit) for name, one in model.variables.items()}
        self.owner: dict[str, str] = {}

    def build(self) -> Blueprint:
        parsed = [one for source in self.model.laws if (one := self._parse(source)) is not None]
        laws = {one.source.variable: law for one in parsed if (law := self._law(one)) is not None}
        self._check_cycles(parsed)
        self._check_coverage(parsed)
        raise_all(self.faults)
        return Blueprint(dict(self.model.variables), laws)

    def _report(self, law: LawText, error: LawError) -> None:
        line, column = advance(law.text, error.offset, law.line, law.column)
        self.faults.add(line, column, error.message, error.hint)

    def _parse(self, source: LawText) -> _Parsed | None:
        """Read a law and sort its names into variables and parameters."""
        self._check_target(source)
        try:
            tree = parse(source.text)
        except LawError as error:
            self._report(source, error)
            return None
        if source.variable not in self.model.variables:
            return None
        parents: dict[str, None] = {}
        parameters: dict[str, None] = {}
        for name in names(tree):
            if name.name in self.model.variables:
                parents[name.name] = None
            elif name.name not in parameters:
                parameters[name.name] = None
                self._check_parameter(source, name)
        return _Parsed(source, tree, tuple(parameters), tuple(parents))

    def _check_target(self, source: LawText) -> None:
        variable = self.model.variables.get(source.variable)
        if variable is None:
            able = [v.name for v in self.model.variables.values() if v.role in (Role.MEASURED, Role.LATENT)]
            message = f"the law gives '{source.variable}', which is not a variable"
            self.faults.add(source.line, source.column, message, suggest(source.variable, able))
        elif variable.role in (Role.SET, Role.PARAMETER):
            how = "set by an injector" if variable.role is Role.SET else "a parameter of the subject"
            message = f"'{source.variable}' is {how}, so it has no law"
            self.faults.add(source.line, source.column, message, "laws give measured and latent variables")

    def _check_parameter(self, source: LawText, name: Name) -> None:
        near = self._slip_of(name.name)
        if near is not None:
            hint = f"did you mean '{near}'? (a parameter of that name must be listed under parameters)"
            self._report(source, LawError(f"'{name.name}' is not a variable", name.start, hint))
        elif self.owner.setdefault(name.name, source.variable) != source.variable:
            message = f"'{name.name}' is already a parameter of the law of '{self.owner[name.name]}'"
            self._report(source, LawError(message, name.start, "each law has its own parameters; rename one"))

    def _slip_of(self, name: str) -> str | None:
        """The variable that an undeclared parameter is likely to be a slip of; ``size2`` is no slip."""
        if name in self.declared or re.sub(r"_?\d+$", "", name) in self.model.variables:
            return None
        return nearest(name, self.model.variables, _ALIKE)

    def _law(self, parsed: _Parsed) -> Law | None:
        """Check linearity and dimensions; ``None`` with a fault."""
        if any(self._slip_of(name) is not None for name in parsed.parameters):
            return None
        errors: list[LawError] = []
        infer(parsed.tree, self.dimensions, errors.append)
        terms: tuple[Term, ...] = ()
        try:
            terms = split(parsed.tree, parsed.parameters)
        except LawError as error:
            errors.append(error)
        inferred: dict[str, Dimension] = {}
        if not errors:
            inferred = infer_parameters(terms, parsed.source.variable, self.dimensions, errors.append)
        for one in errors:
            self._report(parsed.source, one)
        if errors:
            return None
        units = {name: self._unit(name, inferred[name]) for name in parsed.parameters}
        declared = [name for name in parsed.parameters if name in self.declared]
        scales = {name: _reciprocal(parse_quantity(1.0, units[name])) for name in declared}
        return Law(
            variable=parsed.source.variable,
            text=" ".join(parsed.source.text.split()),
            parameters=parsed.parameters,
            parameter_units=units,
            parameter_scales={name: scales.get(name, 1.0) for name in parsed.parameters},
            parents=parsed.parents,
            terms=terms,
            expression=parsed.tree,
        )

    def _unit(self, name: str, dimension: Dimension) -> str:
        """The unit to report a parameter in: the declared one if it fits, else base units."""
        declared = self.declared.get(name)
        if declared is not None:
            if dimension_of(declared.unit) == dimension:
                return declared.unit
            given = spell_dimension(dimension_of(declared.unit))
            message = f"'{name}' is {spell_dimension(dimension)} in its law, but its unit here is {given}"
            self.faults.add(declared.line, declared.column, message, _fitting(dimension))
            return declared.unit
        return "" if dimension == NUMBER else spell_dimension(dimension)

    def _check_coverage(self, parsed: list[_Parsed]) -> None:
        """Report latent variables without a law, and declared parameters that no law has."""
        given = {source.variable for source in self.model.laws}
        for variable in self.model.variables.values():
            if variable.role is Role.LATENT and variable.name not in given:
                message = f"the latent variable '{variable.name}' has no law"
                self.faults.add(variable.line, variable.column, message, "add one under laws, or remove it")
        used = [name for one in parsed for name in one.parameters]
        if len(parsed) < len(self.model.laws):
            return  # a law that could not be read may have them
        for parameter in self.model.parameters:
            if parameter.name not in used:
                message = f"no law has a parameter '{parameter.name}'"
                self.faults.add(parameter.line, parameter.column, message, suggest(parameter.name, used))

    def _check_cycles(self, parsed: list[_Parsed]) -> None:
        parents = {one.source.variable: one.parents for one in parsed}
        for one in parsed:
            cycle = _cycle_through(one.source.variable, parents)
            if cycle is not None:
                message = f"the model has a cycle: {' -> '.join(cycle)}"
                self.faults.add(
                    one.source.line, one.source.column, message, "break it: a cause cannot follow its effect"
                )
                del parents[one.source.variable]  # so that each cycle is reported once


def _reciprocal(scale: float) -> float:
    """One over a unit's size, without the last bits that a division adds to a power of ten."""
    return float(f"{1 / scale:.15g}")


def _fitting(dimension: Dimension) -> str:
    return "leave the unit out" if dimension == NUMBER else f"write a unit like {spell_dimension(dimension)}"


def _cycle_through(start: str, parents: Mapping[str, tuple[str, ...]]) -> tuple[str, ...] | None:
    """The shortest cycle through a variable, from cause to effect, with the variable at both ends."""
    effect_of: dict[str, str] = {}
    waiting = [start]
    for current in waiting:
        for parent in parents.get(current, ()):
            if parent == start:
                cycle = [start]
                while current != start:
                    cycle.append(current)
                    current = effect_of[current]
                return (*cycle, start)
            if parent not in effect_of:
                effect_of[parent] = current
                waiting.append(parent)
    return None
