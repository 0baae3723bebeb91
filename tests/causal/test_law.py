"""What a law says at values of its parameters: means, derivatives, and what is left when some are held."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.causal.law import Bounds, Law, Link, Method, Noise
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.types import Given, LawText, ParameterText
from tests.causal.models import law_of, model_of

LEVELS = {
    "size": np.array([8e6, 4e6, 2e6]),
    "rate": np.array([2e6, math.inf, 4e6]),
    "cores": np.array([0.5, 1.0, 2.0]),
    "kind": np.array([0.0, 2.0, 1.0]),
}


def logarithmic(text: str) -> Law:
    law = LawText("runtime", text, 1, 1, link=Link.LOG, noise=Noise.GAMMA, method=Method.CLUSTERED)
    return build_blueprint(model_of(law)).laws["runtime"]


def test_a_linear_law_is_its_design_matrix() -> None:
    law = law_of("c + a * size / rate + b * size / cores + size / rate")
    parameters = np.array([0.5, 2.0, 1e-6])
    assert law.linear
    assert law.gradient(parameters, LEVELS) == pytest.approx(law.design_matrix(LEVELS))
    expected = 0.5 + 3 * LEVELS["size"] / LEVELS["rate"] + 1e-6 * LEVELS["size"] / LEVELS["cores"]
    assert law.mean(parameters, LEVELS) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "parameters", "mean"),
    [
        ("max(a * size / rate, b * size / cores)", (1.0, 1e-7), (4.0, 0.4, 0.5)),
        ("size / (a + b * cores)", (1e6, 2e6), (4.0, 4 / 3, 0.4)),
        ("c + max(0, size / rate - knot)", (1.0, 1.0), (4.0, 1.0, 1.0)),
        ("a * exp(-k * size)", (2.0, 1e-7), tuple(2 * math.exp(-x) for x in (0.8, 0.4, 0.2))),
        ("a * (size / block)^gamma", (0.5, 2.0), (32.0, 8.0, 2.0)),
        ("size / speed[kind]", (4e6, 1e6, 2e6), (2.0, 2.0, 2.0)),
    ],
)
def test_a_law_that_is_not_linear_has_a_mean_and_a_gradient(
    text: str, parameters: tuple[float, ...], mean: tuple[float, ...]
) -> None:
    law, values = law_of(text), np.array(parameters)
    assert not law.linear
    assert law.terms == ()
    assert law.mean(values, LEVELS) == pytest.approx(mean)
    gradient = law.gradient(values, LEVELS)
    assert gradient.shape == (3, len(values))
    for column, value in enumerate(values):
        step = 1e-6 * value
        ends = [law.mean(values + sign * step * np.eye(len(values))[column], LEVELS) for sign in (1, -1)]
        assert gradient[:, column] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-12)


def test_a_law_that_is_not_linear_has_no_design_matrix() -> None:
    with pytest.raises(InputError, match="not linear in its parameters"):
        law_of("size / (a + b * cores)").design_matrix(LEVELS)
    with pytest.raises(InputError, match="not linear in its parameters"):
        law_of("size / (a + b * cores)").offsets(LEVELS)


def test_a_mean_needs_a_level_of_every_parent() -> None:
    with pytest.raises(InputError, match="needs a level of cores"):
        law_of("size / (a + b * cores)").mean(np.ones(2), {"size": np.ones(3)})


def test_parameters_for_each_category_are_linear_and_act_where_their_category_is() -> None:
    law = law_of("c + speed[kind] * size + extra[kind, machine] * is(machine, n2)")
    speeds = ("speed[ssd]", "speed[hdd]", "speed[nvme]")
    assert law.parameters[:4] == ("c", *speeds)
    assert law.parameters[4:] == tuple(
        f"extra[{kind}, {machine}]" for kind in ("ssd", "hdd", "nvme") for machine in ("n1", "n2")
    )
    assert law.linear
    assert law.parents == ("kind", "size", "machine")
    assert {law.parameter_units[name] for name in speeds} == {"s/B"}
    levels = {**LEVELS, "machine": np.array([1.0, 1.0, 0.0])}
    rows = law.design_matrix(levels)
    assert rows[:, 1:4] == pytest.approx(np.array([[8e6, 0, 0], [0, 0, 4e6], [0, 2e6, 0]]))
    expected = np.zeros((3, 6))
    expected[0, 1] = expected[1, 5] = 1.0
    np.testing.assert_array_equal(rows[:, 4:], expected)
    assert law.term_texts["speed[hdd]"] == "is(kind, hdd) * size"
    unknown = law.mean(np.ones(len(law.parameters)), {**levels, "kind": np.array([0.0, 3.0, math.nan])})
    assert np.isnan(unknown).tolist() == [False, True, True]


def test_the_logarithm_of_the_mean() -> None:
    law = logarithmic("c + gamma * log(size / block)")
    assert law.parameter_units == {"c": "", "gamma": ""}
    parameters = np.array([math.log(2.0), 0.5])
    assert law.mean(parameters, LEVELS) == pytest.approx(2 * np.sqrt([8.0, 4.0, 2.0]))
    rows = law.gradient(parameters, LEVELS)
    assert rows[:, 0] == pytest.approx(law.mean(parameters, LEVELS))
    assert rows[:, 1] == pytest.approx(law.mean(parameters, LEVELS) * np.log([8.0, 4.0, 2.0]))
    assert (law.link, law.noise, law.method, law.relative_noise) == (Link.LOG, Noise.GAMMA, Method.CLUSTERED, True)
    curved = logarithmic("log(a + b * size / block)")
    assert curved.gradient(np.array([1.0, 2.0]), LEVELS) == pytest.approx(np.array([[1, 8], [1, 4], [1, 2]]))


def test_bounds_and_starts_are_in_base_units() -> None:
    law = law_of(
        "c[kind] + b * size / cores",
        (
            ParameterText("b", "core*s/GB", 5, 1, low=Given("0", 5, 1), high=Given("3 core*s/MB", 5, 2)),
            ParameterText("c", None, 6, 1, low=Given("10 ms", 6, 1), start=Given("2", 6, 2)),
        ),
    )
    assert law.bounds["b"].low == 0.0
    assert law.bounds["b"].high == pytest.approx(3e-6)
    assert law.bounds["c[hdd]"] == Bounds(low=0.01)
    assert {name: law.bounds[name].low for name in law.parameters[:3]} == dict.fromkeys(
        ("c[ssd]", "c[hdd]", "c[nvme]"), 0.01
    )
    assert law.bounds["c[ssd]"].high == math.inf
    assert law.starts == dict.fromkeys(law.parameters[:3], 2.0)
    assert law.parameter_units["b"] == "core*s/GB"
    assert law.parameter_scales["b"] == 1e9
    assert law.parameter_units["c[hdd]"] == "s"
    assert law.without(["b"]).bounds.keys() == {"c[ssd]", "c[hdd]", "c[nvme]"}


def test_a_law_without_some_parameters_is_what_it_is_where_their_terms_are_zero() -> None:
    law = law_of("c + a * size / rate + b * size / cores")
    left = law.without(["a"])
    assert left.parameters == ("c", "b")
    assert left.mean(np.array([1.0, 1e-6]), LEVELS) == pytest.approx(law.mean(np.array([1.0, 0.0, 1e-6]), LEVELS))
    nothing = law.without(["a", "b", "c"])
    assert nothing.linear
    assert nothing.mean(np.zeros(0), LEVELS) == pytest.approx(np.zeros(3))
    assert nothing.gradient(np.zeros(0), LEVELS).shape == (3, 0)


@pytest.mark.parametrize(
    ("text", "held", "linear"),
    [
        ("c + a * size / rate + b * size / cores", {"a": 2.0}, True),
        ("a * (size / block)^gamma", {"gamma": 2.0}, True),
        ("size / (a + b * cores)", {"a": 3e6}, False),
        ("c + a * speed[kind]", {"speed[ssd]": 1.0, "speed[hdd]": 2.0, "speed[nvme]": -3.0}, True),
    ],
)
def test_parameters_can_be_held_at_values(text: str, held: dict[str, float], linear: bool) -> None:
    law = law_of(text, (ParameterText("speed", "", 1, 1),) if "speed" in text else ())
    values = {name: held.get(name, 0.7) for name in law.parameters}
    left = law.holding(held)
    assert left.parameters == tuple(name for name in law.parameters if name not in held)
    assert left.linear is linear
    free = np.array([values[name] for name in left.parameters])
    whole = np.array(list(values.values()))
    assert left.mean(free, LEVELS) == pytest.approx(law.mean(whole, LEVELS))
    chosen = [law.parameters.index(name) for name in left.parameters]
    assert left.gradient(free, LEVELS) == pytest.approx(law.gradient(whole, LEVELS)[:, chosen])


def test_the_addends_of_a_parameter_that_is_not_a_factor() -> None:
    law = law_of("c - size / (a + b * cores)")
    assert law.term_texts == {
        "c": "c",
        "a": "-(size / (a + b * cores))",
        "b": "-(size / (a + b * cores))",
    }
    assert replace(law, noise=Noise.LOGNORMAL).relative_noise
