"""Discrete distributions as tables: what an estimand comes to, and what do() does to a model, by enumeration."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from insitu.orchestrator.causal.estimand import Estimand, Probability, Product, Quotient, Sum
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.mixed_graph import MixedGraph


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """A number for each combination of levels.

    Attributes
    ----------
    names
        The variables, each once.
    values
        One axis per variable, in this order.
    """

    names: tuple[str, ...]
    values: Array

    def __post_init__(self) -> None:
        if self.values.ndim != len(self.names) or len(set(self.names)) < len(self.names):
            raise ValueError(f"{self.values.ndim} axes for {', '.join(self.names) or 'no variable'}")

    def summed(self, over: Collection[str]) -> Table:
        """Add up over all levels of some variables."""
        axes = tuple(self.names.index(name) for name in over)
        return Table(tuple(name for name in self.names if name not in over), self.values.sum(axis=axes))

    def ordered(self, names: Iterable[str]) -> Table:
        """The same numbers with the axes in another order."""
        order = tuple(names)
        return Table(order, self.values.transpose([self.names.index(name) for name in order]))

    def at(self, levels: Mapping[str, int]) -> Table:
        """The part at given levels of some variables."""
        index = tuple(levels.get(name, slice(None)) for name in self.names)
        return Table(tuple(name for name in self.names if name not in levels), self.values[index])

    def times(self, other: Table) -> Table:
        """Multiply, level by level of the variables that both have."""
        names = (*self.names, *(name for name in other.names if name not in self.names))
        return Table(names, self._spread(names) * other._spread(names))

    def divided_by(self, other: Table) -> Table:
        """Divide likewise; nothing by nothing is nothing."""
        names = (*self.names, *(name for name in other.names if name not in self.names))
        above, below = np.broadcast_arrays(self._spread(names), other._spread(names))
        return Table(names, np.divide(above, below, out=np.zeros(above.shape), where=below != 0))

    def _spread(self, names: tuple[str, ...]) -> Array:
        """Values with an axis for each of `names`, of length one where this table has none."""
        own = self.ordered(name for name in names if name in self.names)
        return own.values.reshape([own.values.shape[own.names.index(n)] if n in own.names else 1 for n in names])


def evaluate(estimand: Estimand, data: Mapping[frozenset[str], Table]) -> Table:
    """Compute an estimand.

    Parameters
    ----------
    data
        For each kind of trial, by what it sets: P(all else | do(what it sets)), with axes for both.

    Returns
    -------
    Table
        Over `estimand.free`. Where the estimand is identified, it may still name variables on which its value
        does not depend.

    Raises
    ------
    KeyError
        If there are no data of a kind of trial.
    """
    match estimand:
        case Probability(of=of, given=given, held=held):
            joint = data[frozenset(held)]
            kept = joint.summed([name for name in joint.names if name not in estimand.free])
            return kept.divided_by(kept.summed(of)) if given else kept
        case Product(factors=factors):
            total = Table((), np.ones(()))
            for factor in factors:
                total = total.times(evaluate(factor, data))
            return total
        case Quotient(numerator=numerator, denominator=denominator):
            return evaluate(numerator, data).divided_by(evaluate(denominator, data))
        case Sum(over=over, body=body):
            return evaluate(body, data).summed(over)


@dataclass(frozen=True, slots=True, eq=False)
class DiscreteModel:
    """A structural model over discrete variables, given by how each one depends on its causes.

    Attributes
    ----------
    mechanisms
        By variable: its distribution given its causes, hidden ones included; a table over both.
    hidden
        Variables that no data have.
    """

    mechanisms: Mapping[str, Table]
    hidden: frozenset[str]

    def distribution(self, held: Collection[str] = ()) -> Table:
        """P(what is observed and not held | do(held)), over all that is observed or held; by enumeration.

        Notes
        -----
        Truncated factorisation: Pearl, Causality (2nd edition), equation 1.37.
        """
        observed = [name for name in self.mechanisms if name in held or name not in self.hidden]
        axis = {name: index for index, name in enumerate(self.mechanisms)}
        tables = [table for name, table in self.mechanisms.items() if name not in held]
        tables += [Table((name,), np.ones(self.levels(name))) for name in held]
        operands: list[object] = []
        for table in tables:
            operands += [table.values, [axis[name] for name in table.names]]
        values = np.einsum(*operands, [axis[name] for name in observed], optimize="greedy")  # type: ignore[call-overload]
        return Table(tuple(observed), values)

    def levels(self, name: str) -> int:
        """How many levels a variable has."""
        table = self.mechanisms[name]
        return int(table.values.shape[table.names.index(name)])


def random_model(
    graph: MixedGraph,
    rng: np.random.Generator,
    levels: Mapping[str, int] | None = None,
    hidden: Collection[str] = (),
) -> DiscreteModel:
    """A model with this graph and random tables, in which every combination of levels occurs.

    Parameters
    ----------
    levels
        Of each variable; two where it has no entry.
    hidden
        Vertices that no data have, beside the hidden cause of each pair of siblings (three levels each).
    """
    count = dict.fromkeys(graph.vertices, 2) | dict(levels or {})
    causes = {name: list(graph.ordered(graph.parents[name])) for name in graph.vertices}
    shared: list[str] = []
    for place, first in enumerate(graph.vertices):
        for second in graph.vertices[place + 1 :]:
            if second in graph.siblings[first]:
                shared.append(f"{first}~{second}")
                count[shared[-1]] = 3
                causes[shared[-1]] = []
                causes[first].append(shared[-1])
                causes[second].append(shared[-1])
    mechanisms = {}
    for name in (*shared, *graph.vertices):
        table = rng.dirichlet(np.ones(count[name]), size=[count[cause] for cause in causes[name]])
        mechanisms[name] = Table((*causes[name], name), table)
    return DiscreteModel(mechanisms, frozenset(shared).union(hidden))
