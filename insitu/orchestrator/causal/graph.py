"""The blueprint: the causal graph with its laws, and do()."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.causal.reduction import join, put_in
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.types import Role, Variable


@dataclass(frozen=True, slots=True)
class Edge:
    """`cause` stands in the law of `effect`."""

    cause: str
    effect: str


@dataclass(frozen=True, slots=True)
class Blueprint:
    """Variables and the laws that give the dependent ones; acyclic.

    Attributes
    ----------
    variables
        By name, in the model's order.
    laws
        By the variable that they give; a variable without a law is set from outside.
    confounded
        Pairs of variables that share a hidden cause: their noise is not independent.
    """

    variables: dict[str, Variable]
    laws: dict[str, Law]
    confounded: tuple[tuple[str, str], ...] = ()

    def parents(self, name: str) -> tuple[str, ...]:
        """Variables in the law of `name`; empty without a law.

        Raises
        ------
        InputError
            If there is no such variable.
        """
        self._check([name])
        return self.laws[name].parents if name in self.laws else ()

    def ancestors(self, name: str) -> frozenset[str]:
        """Every variable from which a directed path leads to `name`.

        Raises
        ------
        InputError
            If there is no such variable.
        """
        found: set[str] = set()
        waiting = list(self.parents(name))
        while waiting:
            one = waiting.pop()
            if one not in found:
                found.add(one)
                waiting.extend(self.parents(one))
        return frozenset(found)

    def edges(self) -> tuple[Edge, ...]:
        """All edges, in the order of the laws."""
        return tuple(Edge(parent, name) for name, law in self.laws.items() for parent in law.parents)

    def topological_order(self) -> tuple[str, ...]:
        """All variables, causes before effects; otherwise in the model's order."""
        done: dict[str, None] = {}
        while len(done) < len(self.variables):
            done.update(dict.fromkeys(self._ready(done)))
        return tuple(done)

    def _ready(self, done: dict[str, None]) -> Iterator[str]:
        ready = [
            name for name in self.variables if name not in done and all(p in done for p in self.parents(name))
        ]
        if not ready:
            raise InputError("the model has a cycle", hint="break it: a cause cannot follow its effect")
        yield from ready

    def do(self, names: Iterable[str]) -> Blueprint:
        """The blueprint under intervention: each variable in `names` loses its law and its hidden causes.

        Raises
        ------
        InputError
            If there is no such variable.

        Notes
        -----
        Truncated factorisation: Pearl, Causality (2nd edition), equation 1.37.
        """
        held = set(names)
        self._check(held)
        return replace(
            self,
            laws={name: law for name, law in self.laws.items() if name not in held},
            confounded=tuple(pair for pair in self.confounded if held.isdisjoint(pair)),
        )

    def reduced(self) -> Blueprint:
        """The blueprint without the latent variables that have a law: each is put into the laws of its children.

        A parameter of a latent variable stands in the law of each of its children. What several children have in
        common beside it shows as a hidden common cause.

        Raises
        ------
        InputError
            If a law becomes too large.
        """
        hidden = [name for name in self.laws if self.variables[name].role is Role.LATENT]
        if not hidden:
            return self
        order = self.topological_order()
        return Blueprint(
            {name: one for name, one in self.variables.items() if name not in hidden},
            put_in(self.laws, order, hidden),
            join(self.confounded, self.laws, order, hidden),
        )

    def _check(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self.variables:
                raise InputError(f"the model has no variable '{name}'", hint=suggest(name, self.variables))
