"""A model's text to a blueprint, with every fault of its laws at once.

`Blueprint`, `Edge`, `Law` and `check_against` are here too, so that users of a blueprint need one module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from insitu.orchestrator.causal.checking import check_against
from insitu.orchestrator.causal.dimensions import Outcome, infer
from insitu.orchestrator.causal.expression import LawError, Number, parse, substitute
from insitu.orchestrator.causal.graph import Blueprint, Edge
from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.causal.linear import split
from insitu.orchestrator.causal.naming import Named, Naming
from insitu.orchestrator.causal.parameters import settle
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.law_kinds import Link
from insitu.orchestrator.plan.located import FaultList, advance, raise_all
from insitu.orchestrator.plan.types import LawText, ModelText, Role
from insitu.orchestrator.units import NUMBER, Dimension, dimension_of

__all__ = ["Blueprint", "Edge", "Law", "build_blueprint", "check_against"]


def build_blueprint(model: ModelText) -> Blueprint:
    """Parse and check the laws of a model.

    Raises
    ------
    FaultyFile
        With every fault: syntax, names, dimensions, bounds, cycles.
    """
    return _Building(model).build()


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A law that could be read."""

    source: LawText
    named: Named


class _Building:
    """The state of building one blueprint."""

    def __init__(self, model: ModelText) -> None:
        self.model = model
        self.faults = FaultList(model.path)
        self.declared = {parameter.name: parameter for parameter in model.parameters}
        self.declared_dimensions = {
            name: dimension_of(one.unit) for name, one in self.declared.items() if one.unit is not None
        }
        self.dimensions: dict[str, Dimension] = {
            **{name: dimension_of(one.unit) for name, one in model.variables.items()},
            **{constant.name: constant.dimension for constant in model.constants},
        }
        self.constants = {one.name: Number(one.value, called=one.name) for one in model.constants}
        self.naming = Naming(model.variables, self.constants, self.declared)

    def build(self) -> Blueprint:
        parsed = [one for source in self.model.laws if (one := self._parse(source)) is not None]
        laws = {one.source.variable: law for one in parsed if (law := self._law(one)) is not None}
        self._check_cycles(parsed)
        self._check_coverage(parsed)
        raise_all(self.faults)
        return Blueprint(dict(self.model.variables), laws, self.model.confounded)

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
        named = self.naming.look_up(source.variable, tree, lambda error: self._report(source, error))
        return _Parsed(source, named)

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
        elif variable.categories:
            message = f"'{source.variable}' has categories, so it has no law"
            self.faults.add(source.line, source.column, message, "laws give numbers")

    def _law(self, parsed: _Parsed) -> Law | None:
        """Settle the dimensions and the parameters; ``None`` with a fault."""
        source, named = parsed.source, parsed.named
        if not named.sound:
            return None
        inferred = self._dimensions(parsed)
        if inferred is None:
            return None
        settled = {
            family: settle(family, dimension, self.declared.get(family), self.faults.add)
            for family, dimension in inferred.items()
        }
        of = {name: settled[family] for name, family in named.family_of.items()}
        tree = substitute(named.tree, self.constants)
        return Law(
            variable=source.variable,
            text=" ".join(source.text.split()),
            parameters=named.parameters,
            parameter_units={name: one.unit for name, one in of.items()},
            parameter_scales={name: one.scale for name, one in of.items()},
            parents=named.parents,
            terms=split(tree, named.parameters),
            expression=tree,
            bounds={name: one.bounds for name, one in of.items() if one.bounds is not None},
            starts={name: one.start for name, one in of.items() if one.start is not None},
            link=source.link,
            noise=source.noise,
            method=source.method,
            quantile=source.quantile,
            priors=() if source.prior is None else (source.prior,),
        )

    def _dimensions(self, parsed: _Parsed) -> dict[str, Dimension] | None:
        """Dimension of each family of parameters; ``None`` with a fault."""
        outcome = Outcome(parsed.source.variable, self.dimensions[parsed.source.variable])
        if parsed.source.link is Link.LOG:
            outcome = Outcome(f"the logarithm of {outcome.called}", NUMBER)
        named, terms = parsed.named, split(parsed.named.tree, parsed.named.parameters)
        return infer(
            named.tree,
            terms,
            named.family_of,
            outcome,
            self.dimensions,
            self.declared_dimensions,
            lambda error: self._report(parsed.source, error),
        )

    def _check_coverage(self, parsed: list[_Parsed]) -> None:
        """Report latent variables without a law, and declared parameters that no law has."""
        given = {source.variable for source in self.model.laws}
        for variable in self.model.variables.values():
            if variable.role is Role.LATENT and variable.name not in given:
                message = f"the latent variable '{variable.name}' has no law"
                self.faults.add(variable.line, variable.column, message, "add one under laws, or remove it")
        used = [family for one in parsed for family in one.named.family_of.values()]
        if len(parsed) < len(self.model.laws):
            return  # a law that could not be read may have them
        for parameter in self.model.parameters:
            if parameter.name not in used:
                message = f"no law has a parameter '{parameter.name}'"
                self.faults.add(parameter.line, parameter.column, message, suggest(parameter.name, used))

    def _check_cycles(self, parsed: list[_Parsed]) -> None:
        parents = {one.source.variable: one.named.parents for one in parsed}
        for one in parsed:
            cycle = _cycle_through(one.source.variable, parents)
            if cycle is not None:
                message = f"the model has a cycle: {' -> '.join(cycle)}"
                self.faults.add(
                    one.source.line, one.source.column, message, "break it: a cause cannot follow its effect"
                )
                del parents[one.source.variable]  # so that each cycle is reported once


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
