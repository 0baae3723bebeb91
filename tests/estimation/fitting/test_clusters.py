"""Intervals that allow for nodes: against closed forms, and the definition written out."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fitting.clusters import clustered_by_node
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.fitting.solution import Solution
from insitu.orchestrator.estimation.fitting.solving import solve, solve_usual
from insitu.orchestrator.plan.law_kinds import Method
from tests.estimation.made import made, trials_of


def finding_of(solution: Solution) -> str:
    return next(one.sentence for one in solution.findings if one.check is Check.GROUPS)


def test_of_a_mean_over_equal_nodes_it_is_the_variance_of_the_nodes_means() -> None:
    rng = np.random.default_rng(2)
    nodes = np.repeat(["a", "b", "c", "d", "e"], 6)
    observed = np.repeat(rng.normal(0, 2, 5), 6) + rng.normal(0, 1, 30)
    found = solve(made("c", (), method=Method.CLUSTERED).task({}, observed, nodes=nodes))
    means = observed.reshape(5, 6).mean(axis=1)
    assert found.values == pytest.approx([means.mean()])
    assert found.covariance[0, 0] == pytest.approx(means.var(ddof=1) / 5)
    assert found.df == pytest.approx(4)
    assert found.sigma_df == 29


def test_it_is_the_bias_reduced_estimate_written_out() -> None:
    rng = np.random.default_rng(3)
    nodes = rng.choice(["a", "b", "c", "d"], 25)
    x = rng.normal(size=25)
    task = made("c + a * x", method=Method.CLUSTERED).task({"x": x}, rng.normal(size=25), nodes=nodes)
    found = solve(task)
    rows = np.column_stack([np.ones(25), x])
    inverse = np.linalg.inv(rows.T @ rows)
    hat = rows @ inverse @ rows.T
    left = task.data.observed - hat @ task.data.observed
    meat = np.zeros((2, 2))
    directions = []
    for node in np.unique(nodes):
        own = nodes == node
        strengths, vectors = np.linalg.eigh(np.eye(own.sum()) - hat[np.ix_(own, own)])
        root = vectors @ np.diag(strengths**-0.5) @ vectors.T
        score = rows[own].T @ root @ left[own]
        meat += np.outer(score, score)
        directions.append((np.eye(25) - hat)[:, own] @ root @ rows[own] @ inverse)
    assert found.covariance == pytest.approx(inverse @ meat @ inverse)
    assert found.dfs is not None
    for parameter in range(2):
        products = np.array([one[:, parameter] for one in directions])
        eigenvalues = np.linalg.eigvalsh(products @ products.T)
        df = eigenvalues.sum() ** 2 / (eigenvalues**2).sum()
        assert found.dfs[parameter] == pytest.approx(min(3, df))
    assert found.df == pytest.approx(found.dfs.min())


def test_the_values_are_those_of_least_squares() -> None:
    rng = np.random.default_rng(3)
    nodes = rng.choice(["a", "b", "c"], 25)
    task = made("c + a * x", method=Method.CLUSTERED).task(
        {"x": rng.normal(size=25)}, rng.normal(size=25), nodes=nodes
    )
    assert solve(task).values == pytest.approx(solve_usual(task).values)


def test_one_node_is_said_to_say_nothing_of_others() -> None:
    rng = np.random.default_rng(3)
    law = made("c + a * x", method=Method.CLUSTERED)
    fit = fit_law(law.law, trials_of({"x": rng.normal(size=25)}, rng.normal(size=25)), variables=law.variables)
    assert fit.method is Method.LEAST_SQUARES
    assert fit.groups == ()
    finding = fit.finding(Check.GROUPS)
    assert finding is not None
    assert finding.notable
    assert "say nothing of other nodes" in finding.sentence


@pytest.mark.parametrize(("count", "warned"), [(3, True), (12, False)])
def test_few_nodes_are_a_warning(count: int, warned: bool) -> None:
    rng = np.random.default_rng(3)
    nodes = np.tile([f"n{number}" for number in range(count)], 4)
    task = made("c + a * x").task({"x": rng.normal(size=len(nodes))}, rng.normal(size=len(nodes)), nodes=nodes)
    found = clustered_by_node(task, solve_usual(task))
    assert ("are few to know" in finding_of(found)) is warned
    assert found.groups[0].count == count


def test_levels_that_went_with_nodes_are_told_and_the_intervals_widened() -> None:
    rng = np.random.default_rng(3)
    nodes = np.repeat(["a", "b", "c", "d", "e"], 6)
    x = np.repeat([1.0, 1.0, 1.0, 1.0, 4.0], 6)
    x[[0, 6]] = 4.0
    law = made("c + a * x", method=Method.CLUSTERED)
    nested = solve(law.task({"x": x}, rng.normal(size=30), nodes=nodes))
    assert "try every level on every node" in finding_of(nested)
    assert nested.df < 2
    crossed = solve(law.task({"x": np.tile([1.0, 4.0], 15)}, rng.normal(size=30), nodes=nodes))
    assert "try every level" not in finding_of(crossed)
    assert crossed.df > 3


def test_a_node_that_alone_tells_a_part_of_the_law_is_named() -> None:
    rng = np.random.default_rng(3)
    nodes = np.repeat(["a", "b", "c"], 8)
    x = np.where(nodes == "a", 1.0, 0.0)
    found = solve(made("c + a * x", method=Method.CLUSTERED).task({"x": x}, rng.normal(size=24), nodes=nodes))
    assert found.method is Method.LEAST_SQUARES
    assert finding_of(found).startswith("Node a alone tells a part of the law")
