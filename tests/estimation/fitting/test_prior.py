"""What an earlier run found, weighed against the trials of this one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.errors import InputError, NotIdentified
from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.fitted_file import as_document
from insitu.orchestrator.estimation.fitting.prior import Prior, combined
from insitu.orchestrator.estimation.fitting.prior_files import prior_of
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.plan.law_kinds import Link, Method
from insitu.orchestrator.plan.types import PriorText
from tests.estimation.made import Made, made, trials_of

X = np.tile([1.0, 2.0, 4.0, 7.0], 6)
LINE = made("c + a * x")
TRUE = np.array([2.0, 3.0])


def run(seed: int, count: int = 24, truth: np.ndarray = TRUE, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    x = np.tile(X, -(-count // 24))[:count]
    return x, truth[0] + truth[1] * x + np.random.default_rng(seed).normal(0, noise, count)


def fitted(x: np.ndarray, observed: np.ndarray, prior: Prior | None = None, law: Made = LINE) -> Fit:
    return fit_law(law.law, trials_of({"x": x}, observed), variables=law.variables, prior=prior)


def earlier(seed: int = 1, **more: object) -> Prior:
    return Prior.from_fit(fitted(*run(seed, **more)), "runs/first")  # type: ignore[arg-type]


def test_it_is_bayes_rule_for_the_noise_that_it_finds() -> None:
    prior = earlier()
    x, observed = run(2)
    fit = fitted(x, observed, prior)
    rows = np.column_stack([np.ones(24), x])
    known = np.linalg.inv(prior.covariance)
    precision = rows.T @ rows / fit.sigma**2 + known
    values = np.linalg.solve(precision, rows.T @ observed / fit.sigma**2 + known @ prior.values)
    assert fit.values == pytest.approx(values, rel=1e-7)
    assert fit.covariance_matrix == pytest.approx(np.linalg.inv(precision), rel=1e-6)
    left = observed - rows @ fit.values
    taken = np.trace(rows @ np.linalg.inv(precision) @ rows.T) / fit.sigma**2
    assert fit.sigma_df == pytest.approx(24 - taken)
    assert fit.sigma**2 == pytest.approx(left @ left / (24 - taken))


def test_two_runs_are_worth_what_all_their_trials_are() -> None:
    first, second = run(1), run(2)
    both = fitted(np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]]))
    fit = fitted(*second, Prior.from_fit(fitted(*first), "runs/first"))
    assert fit.values == pytest.approx(both.values, rel=0.02)
    assert np.sqrt(np.diag(fit.covariance_matrix)) == pytest.approx(
        np.sqrt(np.diag(both.covariance_matrix)), rel=0.1
    )
    assert fit.df == pytest.approx(both.df, rel=0.1)  # 22 and 22 more, and not 22
    assert fit.prior is not None
    assert fit.prior.share == pytest.approx(0.5, abs=0.15)
    assert fit.prior.source == "runs/first"


def test_fewer_trials_than_parameters_are_enough_with_it() -> None:
    x, observed = run(3, 1)
    with pytest.raises(NotIdentified):
        fitted(x, observed)
    fit = fitted(x, observed, earlier())
    assert fit.n == 1
    assert fit.values == pytest.approx(earlier().values, rel=0.2)
    finding = fit.finding(Check.PRIOR)
    assert finding is not None
    assert "too few to say whether they agree" in finding.sentence
    assert fit.prior is not None
    assert fit.prior.agreement_p is None
    assert fit.prior.share > 0.9


def test_a_prior_of_some_parameters_tells_them_apart_from_the_others() -> None:
    x = np.full(6, 2.0)
    observed = 2 + 3 * x + np.random.default_rng(1).normal(0, 0.1, 6)
    with pytest.raises(NotIdentified, match="cannot tell c and a apart"):
        fitted(x, observed)
    slope = replace(earlier(count=240), names=("c", "a")).about(replace(LINE.law, parameters=("a",)))
    assert slope is not None
    assert slope.names == ("a",)
    fit = fitted(x, observed, slope)
    assert fit.values == pytest.approx(TRUE, abs=0.3)
    still = replace(slope, names=("c",), values=np.array([2.0]))
    assert fitted(x, observed, still).values == pytest.approx(TRUE, abs=0.3)


def test_agreement_is_found_nineteen_times_in_twenty_and_disagreement_named() -> None:
    rng = np.random.default_rng(9)
    p_values = []
    for _ in range(200):
        first, second = (2 + 3 * X + rng.normal(0, 0.5, 24) for _ in range(2))
        fit = fitted(X, second, Prior.from_fit(fitted(X, first), "runs/first"))
        assert fit.prior is not None
        assert fit.prior.agreement_p is not None
        p_values.append(fit.prior.agreement_p)
    assert 0.01 <= np.mean(np.array(p_values) < 0.05) <= 0.09
    other = fitted(*run(2, truth=np.array([2.0, 4.0])), earlier())
    finding = other.finding(Check.PRIOR)
    assert finding is not None
    assert finding.notable
    assert "disagree with it" in finding.sentence
    assert "most about a: 3.0" in finding.sentence
    assert "find out what changed" in finding.sentence


def test_a_curved_law_takes_it_too() -> None:
    curved = made("c + exp(log_a) * x")
    x, observed = run(2)
    straight = fitted(x, observed, earlier())
    prior = replace(
        earlier(),
        names=("c", "log_a"),
        values=np.array([earlier().values[0], np.log(earlier().values[1])]),
        covariance=earlier().covariance / np.outer([1, earlier().values[1]], [1, earlier().values[1]]),
    )
    fit = fitted(x, observed, prior, curved)
    assert fit.values == pytest.approx([straight.values[0], np.log(straight.values[1])], rel=1e-3)
    assert fit.df == pytest.approx(straight.df, rel=1e-2)


@pytest.mark.parametrize("method", [Method.ROBUST, Method.CLUSTERED, Method.MIXED])
def test_every_method_of_the_mean_takes_it(method: Method) -> None:
    law = made("c + a * x", method=method)
    x, observed = run(2)
    nodes = [f"n{number}" for number in np.arange(24) % 6]
    firm = replace(earlier(), covariance=earlier().covariance * 1e-6)
    fit = fit_law(law.law, trials_of({"x": x}, observed, nodes=nodes), variables=law.variables, prior=firm)
    assert fit.method is method
    assert fit.values == pytest.approx(firm.values, rel=1e-3)
    assert np.diag(fit.covariance_matrix) == pytest.approx(np.diag(firm.covariance), rel=0.05)
    assert fit.prior is not None


def test_a_quantile_is_fitted_without_and_says_so() -> None:
    law = made("c + a * x", method=Method.QUANTILE, quantile=0.5)
    fit = fitted(*run(2), earlier(), law)
    assert fit.prior is None
    finding = fit.finding(Check.PRIOR)
    assert finding is not None
    assert "not used" in finding.sentence


def test_two_priors_are_combined_by_their_information() -> None:
    first, second = earlier(1), earlier(2)
    both = combined([first, second])
    precision = np.linalg.inv(first.covariance) + np.linalg.inv(second.covariance)
    assert both.covariance == pytest.approx(np.linalg.inv(precision))
    apart = combined([replace(first, names=("b", "d")), second])
    assert apart.names == ("b", "d", "c", "a")
    assert apart.values == pytest.approx([*first.values, *second.values])
    assert apart.covariance[:2, 2:] == pytest.approx(np.zeros((2, 2)))
    assert apart.source == "runs/first and runs/first"


def text_of(fit: Fit) -> str:
    document = {"format": "insitu-fit", "version": 2, "fits": [as_document(fit)], "not_fitted": [], "graph": None}
    return json.dumps(document)


def named(fit: Fit) -> tuple[PriorText, ...]:
    return (PriorText("y", Path("runs/first/fitted.json"), text_of(fit)),)


def test_the_file_that_a_law_names_is_used() -> None:
    first = fitted(*run(1))
    law = replace(LINE.law, priors=named(first))
    x, observed = run(2)
    fit = fit_law(law, trials_of({"x": x}, observed), variables=LINE.variables)
    assert fit.values == pytest.approx(fitted(x, observed, Prior.from_fit(first, "first")).values)
    assert fit.prior is not None
    assert fit.prior.source == "first"
    assert prior_of(LINE.law) is None


def test_what_is_not_about_the_law_is_refused() -> None:
    first = fitted(*run(1))
    with pytest.raises(InputError, match="says nothing of the parameters of y: it has c, a"):
        prior_of(replace(made("k + m * x").law, priors=named(first)))
    with pytest.raises(InputError, match="has the link identity, here it is log"):
        prior_of(replace(LINE.law, link=Link.LOG, priors=named(first)))
    with pytest.raises(InputError, match="gives a quantile"):
        prior_of(replace(LINE.law, priors=named(replace(first, quantile=0.9))))
    in_seconds = replace(first, estimates=(replace(first.estimates[0], unit="s"), first.estimates[1]))
    with pytest.raises(InputError, match=r"c of y in .* is in s, here it is in a plain number"):
        prior_of(replace(LINE.law, priors=named(in_seconds)))
    with pytest.raises(InputError, match="damaged"):
        prior_of(replace(LINE.law, priors=(PriorText("y", Path("f.json"), "{}"),)))


def test_parameters_may_have_other_names_and_those_at_a_bound_are_left_out() -> None:
    first = fitted(*run(1))
    prior = Prior.from_fit(first, "runs/first", {"a": "slope"})
    assert prior.names == ("c", "slope")
    with pytest.raises(InputError, match="has no parameter 'b'"):
        Prior.from_fit(first, "runs/first", {"b": "slope"})
    assert Prior.from_fit(replace(first, at_bound=("c",)), "runs/first").names == ("a",)
    with pytest.raises(InputError, match="says nothing of the parameters"):
        Prior.from_fit(replace(first, at_bound=("c", "a")), "runs/first")
