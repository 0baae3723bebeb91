"""Random offsets of nodes and days: against closed forms and statsmodels' own estimates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.checks.influence import influence_of
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.fitting.solving import solve
from insitu.orchestrator.plan.law_kinds import Method
from tests.estimation.made import made, trials_of

NODES = np.repeat(np.arange(6), 8)
X = np.tile([1.0, 2.0, 4.0, 7.0], 12)


def by_node(seed: int = 1, sd: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 2 + 3 * X + rng.normal(0, sd, 6)[NODES] + rng.normal(0, 0.5, 48)


def test_of_equal_nodes_it_is_the_analysis_of_variance() -> None:
    task = made("c", (), method=Method.MIXED).task({}, by_node() - 3 * X, nodes=[f"n{n}" for n in NODES])
    found = solve(task)
    table = task.data.observed.reshape(6, 8)
    between, within = 8 * table.mean(axis=1).var(ddof=1), table.var(axis=1, ddof=1).mean()
    assert found.values == pytest.approx([table.mean()], rel=1e-6)
    assert found.covariance[0, 0] == pytest.approx(between / 48, rel=1e-3)
    assert found.df == pytest.approx(5, rel=1e-3)
    node = found.groups[0]
    assert (node.kind, node.count) == ("node", 6)
    assert node.sd == pytest.approx(np.sqrt((between - within) / 8), rel=1e-3)
    assert found.sigma == pytest.approx(np.sqrt((between - within) / 8 + within), rel=1e-3)


def test_what_varies_within_nodes_keeps_its_degrees_of_freedom() -> None:
    law = made("c + a * x", method=Method.MIXED)
    fit = fit_law(law.law, trials_of({"x": X}, by_node(), nodes=[f"n{n}" for n in NODES]), variables=law.variables)
    assert fit.method is Method.MIXED
    assert 5 <= fit.df <= 7  # of the intercept, the fewest
    slope = fit.estimates[1]
    t_41 = 2.0195  # two-sided 95 % quantile: 48 trials less 6 nodes less the slope
    assert (slope.reported_high - slope.reported) / slope.reported_std_error == pytest.approx(t_41, rel=2e-3)


def test_nodes_and_days_cross_as_in_statsmodels() -> None:
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    rng = np.random.default_rng(5)
    node, day = rng.integers(0, 6, 90), rng.integers(0, 5, 90)
    x = rng.normal(size=90)
    observed = 1 + 2 * x + rng.normal(0, 1, 6)[node] + rng.normal(0, 0.7, 5)[day] + rng.normal(0, 0.5, 90)
    task = made("c + a * x", method=Method.MIXED).task(
        {"x": x}, observed, nodes=[f"n{n}" for n in node], days=[int(d) for d in day]
    )
    found = solve(task)
    blocks = [(one[:, None] == np.arange(count)).astype(float) for one, count in ((node, 6), (day, 5))]
    spec = VCSpec(["node", "day"], [[list("abcdef")], [list("abcde")]], [[blocks[0]], [blocks[1]]])
    theirs = MixedLM(observed, np.column_stack([np.ones(90), x]), groups=np.ones(90), exog_vc=spec).fit()
    assert found.values == pytest.approx(theirs.fe_params, rel=1e-4)
    # ours allow for the variances being estimates, too; with so many groups that is little
    assert found.standard_errors == pytest.approx(theirs.bse_fe, rel=0.02)
    assert (found.standard_errors >= theirs.bse_fe * (1 - 1e-4)).all()
    assert [one.sd**2 for one in found.groups if one.sd is not None] == pytest.approx(theirs.vcomp, rel=1e-2)
    assert found.sigma**2 == pytest.approx(theirs.scale + theirs.vcomp.sum(), rel=1e-2)


def test_a_curved_law_has_offsets_too() -> None:
    straight = made("c + a * x", method=Method.MIXED)
    curved = made("c + exp(log_a) * x", method=Method.MIXED)
    nodes = [f"n{n}" for n in NODES]
    one, other = (solve(law.task({"x": X}, by_node(), nodes=nodes)) for law in (straight, curved))
    assert other.values == pytest.approx([one.values[0], np.log(one.values[1])], rel=1e-4)
    assert other.sigma == pytest.approx(one.sigma, rel=1e-3)


@pytest.mark.parametrize(
    ("nodes", "days", "said"),
    [
        (["a", "b", "c"] * 16, [0] * 48, "3 nodes and 1 day cannot tell"),
        (["a"] * 48, [0] * 48, "1 node and 1 day cannot tell"),
    ],
)
def test_too_few_groups_fall_back_with_the_reason(nodes: list[str], days: list[int], said: str) -> None:
    law = made("c + a * x", method=Method.MIXED)
    fit = fit_law(law.law, trials_of({"x": X}, by_node(), nodes=nodes, days=days), variables=law.variables)
    plain = made("c + a * x")
    usual = fit_law(plain.law, trials_of({"x": X}, by_node(), nodes=nodes, days=days), variables=plain.variables)
    assert fit.method is Method.LEAST_SQUARES
    assert fit.estimates == usual.estimates
    finding = fit.finding(Check.GROUPS)
    assert finding is not None
    assert finding.notable
    assert said in finding.sentence


def test_nodes_that_do_not_differ_leave_least_squares() -> None:
    rng = np.random.default_rng(11)
    observed = 2 + 3 * X + rng.normal(0, 0.5, 48)
    observed -= np.repeat(
        (observed - 3 * X).reshape(6, 8).mean(axis=1), 8
    )  # the nodes agree better than by chance
    task = made("c + a * x", method=Method.MIXED).task({"x": X}, observed, nodes=[f"n{n}" for n in NODES])
    found = solve(task)
    plain = solve(made("c + a * x").task({"x": X}, observed))
    assert found.values == pytest.approx(plain.values, rel=1e-6, abs=1e-9)
    assert found.sigma == pytest.approx(plain.sigma, rel=1e-2)
    assert found.groups[0].sd == pytest.approx(0, abs=0.05)


def test_leaving_out_a_trial_moves_the_parameters_by_as_much_as_is_said() -> None:
    rng = np.random.default_rng(8)
    nodes, x = np.arange(24) % 6, np.tile([1.0, 2.0, 3.0, 5.0], 6)
    observed = 1 + 2 * x + rng.normal(0, 2, 6)[nodes] + rng.normal(0, 0.5, 24)
    task = made("c + a * x", method=Method.MIXED).task({"x": x}, observed, nodes=[f"n{node}" for node in nodes])
    found = solve(task)
    trial, node = found.alone.sigma**2, next(one.sd for one in found.groups if one.kind == "node")
    assert node is not None
    covariance = trial * np.eye(24) + node**2 * (nodes[:, None] == nodes)
    design = np.column_stack([np.ones(24), x])

    def by_hand(kept: npt.NDArray[np.int_]) -> npt.NDArray[np.float64]:
        inverse = np.linalg.inv(covariance[np.ix_(kept, kept)])
        weighted = design[kept].T @ inverse
        return np.asarray(np.linalg.solve(weighted @ design[kept], weighted @ observed[kept]))

    moves = influence_of(found).moves
    for left_out in (0, 7, 23):
        kept = np.delete(np.arange(24), left_out)
        assert moves[left_out] == pytest.approx(by_hand(kept) - by_hand(np.arange(24)), rel=1e-6)


def test_blocks_have_offsets_where_there_are_enough_of_them() -> None:
    law = made("c + a * x", method=Method.MIXED)
    blocks = (NODES + 1).tolist()
    by_block = solve(law.task({"x": X}, by_node(), blocks=blocks))
    node_by_node = solve(law.task({"x": X}, by_node(), nodes=[f"n{n}" for n in NODES]))
    assert by_block.values == pytest.approx(node_by_node.values, rel=1e-6)
    assert by_block.covariance == pytest.approx(node_by_node.covariance, rel=1e-4)
    (kind,) = by_block.groups
    assert (kind.kind, kind.count) == ("block", 6)
    few = solve(law.task({"x": X}, by_node(), blocks=np.repeat([1, 2, 3], 16).tolist()))
    assert few.groups == ()


def test_blocks_that_are_the_nodes_count_once() -> None:
    law = made("c + a * x", method=Method.MIXED)
    nodes, blocks = [f"n{n}" for n in NODES], (NODES + 1).tolist()
    found = solve(law.task({"x": X}, by_node(), nodes=nodes, blocks=blocks))
    assert [one.kind for one in found.groups] == ["node"]
