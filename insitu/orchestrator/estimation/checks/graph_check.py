"""A test of the graph itself: which of the independencies that it implies the trials contradict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.causal.independencies import Independence, implied_independencies
from insitu.orchestrator.causal.mixed_graph import mixed_graph
from insitu.orchestrator.errors import InsituError
from insitu.orchestrator.estimation.checks.graph_findings import FailedIndependence, GraphCheck, Untested
from insitu.orchestrator.estimation.checks.lack_of_fit import orthonormal_basis
from insitu.orchestrator.estimation.checks.patterns import added_columns, dummies
from insitu.orchestrator.estimation.checks.usable_trials import usable_trials
from insitu.orchestrator.estimation.checks.words import joined, p_text
from insitu.orchestrator.estimation.fitting.data import Labels, achieved_levels, information_rows, was_set
from insitu.orchestrator.estimation.fitting.refit import task_of
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.store.records import StoredTrial, TrialState

if TYPE_CHECKING:
    from insitu.orchestrator.causal.graph import Blueprint

SIGNIFICANT = 0.05
"""Chance that any statement of a right graph fails."""
_FEWEST_SPARE = 5
"""Degrees of freedom below which a test has no power to speak of."""
_COLUMNS_PER_TRIAL = 1 / 3
"""How much of the trials goes into holding others equal."""
_NOTHING_LEFT = 1e-9
"""Share of a variable's spread below which the others determine it."""


def test_graph(
    blueprint: Blueprint, trials: Sequence[StoredTrial], independencies: Sequence[Independence]
) -> tuple[FailedIndependence, ...]:
    """The independencies among these that the trials contradict, clearest first."""
    return check_graph(blueprint, trials, independencies).failed


def check_graph(
    blueprint: Blueprint,
    trials: Sequence[StoredTrial],
    independencies: Sequence[Independence] | None = None,
) -> GraphCheck:
    """Test statements of independence on the valid trials that can show them.

    Parameters
    ----------
    independencies
        If not given, those that the graph implies among what can be measured.

    Notes
    -----
    Each is a test of a partial correlation: whether one variable explains anything of what the law and a flexible
    function of the variables held equal leave of the other. Holm's correction (S. Holm, *A simple sequentially
    rejective multiple test procedure*, 1979) holds the chance of any false alarm to 5 %.
    """
    blueprint = blueprint.reduced()
    table = _Table(blueprint, trials)
    graph = mixed_graph(blueprint.variables, blueprint.edges(), blueprint.confounded)
    if independencies is None:
        seen = [name for name, one in blueprint.variables.items() if one.role is not Role.LATENT]
        always = frozenset.intersection(*table.held) if table.held else frozenset()
        independencies = implied_independencies(graph, seen, always).statements
    found: list[_Outcome] = []
    untested: list[Untested] = []
    for statement in independencies:
        usable = usable_trials(graph, statement, table.held) if table.held else None
        if usable is None:
            reason = "the design chose the levels of both, or of what links them, in every trial"
            untested.append(Untested(statement.first, statement.second, statement.given, reason))
            continue
        outcome = table.test(replace(statement, given=usable.given), usable.trials)
        if isinstance(outcome, Untested):
            untested.append(outcome)
        else:
            found.append(outcome)
    return GraphCheck(len(found), _failed(found), tuple(untested))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """One test; `p_value` is its own."""

    statement: Independence
    correlation: float
    p_value: float
    trials: int


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """P values that allow for the number of tests, in the given order."""
    order = np.argsort(p_values, kind="stable")
    adjusted = np.zeros(len(p_values))
    largest = 0.0
    for place, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - place) * float(p_values[index])))
        adjusted[index] = largest
    return tuple(float(one) for one in adjusted)


def _failed(found: Sequence[_Outcome]) -> tuple[FailedIndependence, ...]:
    adjusted = holm([one.p_value for one in found])
    failed = [
        FailedIndependence(
            first=one.statement.first,
            second=one.statement.second,
            given=one.statement.given,
            correlation=one.correlation,
            p_value=p_value,
            trials=one.trials,
            sentence=_sentence(one, p_value, len(found)),
        )
        for one, p_value in zip(found, adjusted, strict=True)
        if p_value < SIGNIFICANT
    ]
    return tuple(sorted(failed, key=lambda one: (one.p_value, -abs(one.correlation))))


def _sentence(one: _Outcome, p_value: float, tests: int) -> str:
    held = f" at equal {joined(one.statement.given)}" if one.statement.given else ""
    allowed = f" after allowing for {tests} tests" if tests > 1 else ""
    return (
        f"By the graph {one.statement.first} and {one.statement.second} tell nothing of each other{held}, but "
        f"they do (partial correlation {one.correlation:.2f} in {one.trials} trials, {p_text(p_value)}{allowed}): "
        "an edge or a hidden common cause is missing, or a law has the wrong shape."
    )


class _Table:
    """What every valid trial set and measured."""

    def __init__(self, blueprint: Blueprint, trials: Sequence[StoredTrial]) -> None:
        self.blueprint = blueprint
        self.trials = [one for one in trials if one.state is TrialState.VALID and one.record is not None]
        levels = [achieved_levels(trial, blueprint.variables) for trial in self.trials]
        self.columns = {
            name: np.array([at.get(name, np.nan) for at in levels], dtype=np.float64)
            for name in blueprint.variables
        }
        self.held = [
            frozenset(name for name in blueprint.variables if trial.record and was_set(trial.record, name))
            for trial in self.trials
        ]
        self._law_columns: dict[str, Array | None] = {}

    def test(self, statement: Independence, usable: npt.NDArray[np.bool_]) -> _Outcome | Untested:
        """Test one statement on some of the trials."""
        names = (statement.first, statement.second, *statement.given)
        known = usable & ~np.any([np.isnan(self.columns[name]) for name in names], axis=0)
        kept = np.flatnonzero(known)

        def untested(reason: str) -> Untested:
            return Untested(statement.first, statement.second, statement.given, reason)

        held = f" at equal {joined(statement.given)}" if statement.given else ""
        if len(kept) < _FEWEST_SPARE + 2:
            return untested(f"{len(kept)} trials can show it, which are too few")
        cause, outcome = self._ends(statement)
        response = self._numbers(outcome, kept)[:, 0]
        basis = self._held_equal(statement.given, outcome, kept)
        rest = response - basis @ (basis.T @ response)
        if float(rest @ rest) <= _NOTHING_LEFT**2 * float(response @ response):
            return untested(f"{outcome} does not vary{held} in the trials that can show it")
        if len(kept) - basis.shape[1] - 1 < _FEWEST_SPARE:
            return untested(f"{len(kept)} trials are too few to hold {joined(statement.given)} equal")
        added = added_columns(basis, rest, self._numbers(cause, kept))
        if added is None:
            return untested(f"{cause} does not vary{held} in the trials that can show it")
        return _Outcome(statement, added.correlation, added.p_value, len(kept))

    def _ends(self, statement: Independence) -> tuple[str, str]:
        """The statement's ends, the one last that has a law of what is held equal, or at least a law."""
        laws, given = self.blueprint.laws, set(statement.given)

        def rank(name: str) -> tuple[bool, bool, bool]:
            law = laws.get(name)
            numeric = not self.blueprint.variables[name].categories
            return numeric, law is not None and given.issuperset(law.parents), law is not None

        first, second = sorted((statement.first, statement.second), key=rank)
        return first, second

    def _numbers(self, name: str, kept: Labels) -> Array:
        """A variable as columns to correlate, shape (n, 1) or a column per category."""
        column, variable = self.columns[name][kept], self.blueprint.variables[name]
        if variable.categories:
            return dummies(column.astype(np.int64))
        law = self.blueprint.laws.get(name)
        if law is not None and law.relative_noise and (column > 0).all():
            column = np.log(column)
        return _bounded(column)[:, None]

    def _held_equal(self, given: tuple[str, ...], outcome: str, kept: Labels) -> Array:
        """Orthonormal columns of a constant, of the outcome's law, and of a flexible function of what is given."""
        n = len(kept)
        columns = [np.ones((n, 1))]
        law = self.blueprint.laws.get(outcome)
        if law is not None and set(law.parents) <= set(given):
            of_law = self._of_law(outcome)
            if of_law is not None and np.isfinite(of_law[kept]).all():
                columns.append(of_law[kept])
        most = int(_COLUMNS_PER_TRIAL * n)
        for more in _flexible([(self.blueprint.variables[one], self.columns[one][kept]) for one in given]):
            if sum(block.shape[1] for block in columns) + more.shape[1] <= most:
                columns.append(more)
        return orthonormal_basis(np.hstack(columns))

    def _of_law(self, outcome: str) -> Array | None:
        """The law of a variable as columns for all trials: its mean and its gradient where it fits best."""
        if outcome not in self._law_columns:
            law = self.blueprint.laws[outcome]
            try:
                task = task_of(law, self.trials, variables=self.blueprint.variables)
                values = solve(task).values
                mean = task.law.mean(values, self.columns)
                rows = information_rows(task.law, values, self.columns)
                with np.errstate(all="ignore"):
                    height = np.log(mean) if law.relative_noise else mean
                self._law_columns[outcome] = np.column_stack([height, rows])
            except InsituError:  # too few trials for the law; the flexible columns have to do
                self._law_columns[outcome] = None
        return self._law_columns[outcome]


def _flexible(given: Sequence[tuple[Variable, Array]]) -> list[Array]:
    """Blocks of columns, the most telling first: lines, distinct combinations, then curves and products."""
    if not given:
        return []
    straight = [dummies(c.astype(np.int64)) if v.categories else _scaled(_bounded(c))[:, None] for v, c in given]
    combinations_of = np.unique(np.round(np.hstack(straight), 2), axis=0, return_inverse=True)[1].reshape(-1)
    blocks = [*straight, dummies(combinations_of)]
    numeric = [_scaled(_bounded(column)) for variable, column in given if not variable.categories]
    for variable, column in given:
        if not variable.categories and (column > 0).all():
            with np.errstate(all="ignore"):
                blocks += [np.column_stack([np.nan_to_num(np.log(_bounded(column))), 1 / column])]
    blocks += [(column**2)[:, None] for column in numeric]
    blocks += [(a * b)[:, None] for i, a in enumerate(numeric) for b in numeric[:i]]
    return blocks


def _bounded(column: Array) -> Array:
    """Levels, or where some are unlimited their reciprocals: how long a unit takes."""
    if np.isfinite(column).all():
        return column
    with np.errstate(all="ignore"):
        return 1 / column


def _scaled(column: Array) -> Array:
    """About its mean, in standard deviations."""
    spread = float(column.std())
    return (column - column.mean()) / spread if spread > 0 else np.zeros_like(column)
