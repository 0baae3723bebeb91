"""Questions to a whole model: through one law in closed form, through several by draws; and what is refused."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.errors import InputError, NotIdentified, OutsideSupport
from insitu.orchestrator.estimation.questions import queries
from insitu.orchestrator.estimation.questions.asking import draw, effect, elasticity, whatif
from insitu.orchestrator.estimation.questions.fidelity import Grade
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.support import Place
from insitu.orchestrator.report.answers import effect_answer_text
from tests.estimation.chains import (
    CHAIN,
    NATURAL_CORES,
    NATURAL_RATE,
    TRUTH,
    blueprint_of,
    chain_trials,
    fitted,
    runtime_of,
    work_of,
)


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> FittedModel:
    blueprint = blueprint_of(CHAIN, tmp_path_factory.mktemp("chain"))
    return fitted(blueprint, chain_trials(np.random.default_rng(5), 120))


def test_a_question_goes_through_every_law_between(model: FittedModel) -> None:
    answer = whatif(model, "runtime", {"size": 12e6, "cores": 0.5, "rate": 15e6}, rng())
    truth = runtime_of(12e6, 15e6, 0.5)
    assert answer.mean_low < truth < answer.mean_high
    assert answer.low < answer.mean_low
    assert answer.high > answer.mean_high
    assert set(answer.between) == {"work"}
    assert answer.between["work"] == pytest.approx(work_of(12e6), rel=0.02)
    assert answer.draws >= 100_000
    assert answer.levels == {"size": 12e6, "cores": 0.5, "rate": 15e6}
    assert answer.units["work"] == "s"
    assert answer.extrapolated == ()


def test_what_is_on_the_way_can_be_set_itself(model: FittedModel) -> None:
    answer = whatif(model, "runtime", {"work": 0.5, "cores": 0.5, "size": 12e6, "rate": 15e6}, rng())
    law = model.laws["runtime"]
    alone = queries.whatif(law.fit, law.law, {"work": 0.5, "cores": 0.5, "size": 12e6, "rate": 15e6})
    assert answer.draws == 0
    assert (answer.mean, answer.low, answer.mean_high) == (alone.mean, alone.low, alone.mean_high)


def test_one_law_answers_in_closed_form_and_draws_agree(tmp_path: Path) -> None:
    model = fitted(blueprint_of(CHAIN, tmp_path), chain_trials(np.random.default_rng(5), 60))
    exact = whatif(model, "work", {"size": 12e6}, rng(), quantiles=(0.05, 0.5, 0.95))
    drawn = whatif(model, "work", {"size": 12e6}, rng(), draws=400_000, quantiles=(0.05, 0.5, 0.95))
    assert exact.mean == pytest.approx(drawn.mean, rel=1e-9)
    width = exact.high - exact.low
    for name in ("mean_low", "mean_high"):
        assert abs(getattr(exact, name) - getattr(drawn, name)) < 0.1 * (exact.mean_high - exact.mean_low)
    for name in ("low", "high"):
        assert abs(getattr(exact, name) - getattr(drawn, name)) < 0.03 * width
    assert [one.share for one in drawn.quantiles] == [0.05, 0.5, 0.95]
    for first, second in zip(exact.quantiles, drawn.quantiles, strict=True):
        assert first.value == pytest.approx(second.value, abs=0.02 * width)
        assert first.low < first.value < first.high


def test_draws_without_quantiles_show_the_distribution(model: FittedModel) -> None:
    answer = whatif(model, "work", {"size": 12e6}, rng(), draws=10_000)
    values = [one.value for one in answer.quantiles]
    assert [one.share for one in answer.quantiles] == [0.05, 0.25, 0.5, 0.75, 0.95]
    assert values == sorted(values)
    assert answer.draws >= 10_000


def test_the_same_generator_gives_the_same_answer(model: FittedModel) -> None:
    question = {"size": 12e6, "cores": 0.5}
    assert whatif(model, "runtime", question, rng()) == whatif(model, "runtime", question, rng())


def test_simulated_trials_have_every_variable_between(model: FittedModel) -> None:
    drawn = draw(model, "runtime", {"size": 12e6, "cores": 0.5, "rate": 15e6}, rng(), draws=20_000)
    assert list(drawn) == ["work", "runtime"]
    slope = np.polyfit(drawn["work"], drawn["runtime"], 1)[0]
    assert slope == pytest.approx(TRUTH["b"] / 0.5, rel=0.1)


def test_a_cap_above_what_is_used_anyhow_changes_nothing(model: FittedModel) -> None:
    capped = whatif(model, "runtime", {"cores": 1.8}, rng())
    unlimited = whatif(model, "runtime", {"cores": math.inf}, rng())
    assert capped.levels["cores"] == unlimited.levels["cores"] == NATURAL_CORES
    assert capped.mean == unlimited.mean
    assert capped.slack == ("a cap of cores at 1.8 core is above what the subject uses anyhow, 0.95 core",)
    assert unlimited.slack == ()


def test_what_the_question_leaves_out_stands_at_the_baseline(model: FittedModel) -> None:
    answer = whatif(model, "runtime", {"size": 8e6}, rng())
    assert set(answer.defaults) == {"rate", "cores"}
    assert answer.levels["rate"] == NATURAL_RATE
    assert answer.mean_low < runtime_of(8e6, NATURAL_RATE, NATURAL_CORES) < answer.mean_high


def test_an_effect_goes_by_every_path(model: FittedModel) -> None:
    at = {"rate": 15e6, "cores": 0.5}
    answer = effect(model, "size", "runtime", rng(), low=8e6, high=16e6, at=at)
    truth = runtime_of(16e6, 15e6, 0.5) - runtime_of(8e6, 15e6, 0.5)
    assert answer.change_low < truth < answer.change_high
    assert answer.through == ("work",)
    assert answer.relative_half_width < 0.1
    back = effect(model, "size", "runtime", rng(), low=16e6, high=8e6, at=at)
    assert back.change == pytest.approx(-answer.change, rel=1e-6)
    direct = effect(model, "cores", "runtime", rng(), at={"rate": 15e6, "size": 12e6})
    assert (direct.low, direct.high) == (0.3, 0.9)
    assert direct.change < 0


DETOUR = CHAIN.replace("c + a * size / rate + b * work / cores", "c + b * work / cores")


@pytest.mark.parametrize(
    ("text", "cause", "at", "through", "direct"),
    [
        (CHAIN, "size", {}, ("work",), True),
        (CHAIN, "size", {"work": 0.4}, (), True),
        (CHAIN, "cores", {}, (), True),
        (CHAIN, "work", {}, (), True),
        (DETOUR, "size", {}, ("work",), False),
        (DETOUR, "cores", {}, (), True),
    ],
)
def test_an_effect_names_what_lies_on_its_paths(
    tmp_path: Path, text: str, cause: str, at: dict[str, float], through: tuple[str, ...], direct: bool
) -> None:
    model = fitted(blueprint_of(text, tmp_path), chain_trials(np.random.default_rng(5), 60))
    answer = effect(model, cause, "runtime", rng(), at=at)
    assert (answer.through, answer.direct) == (through, direct)
    words = effect_answer_text(answer)
    assert ("by way of work" in words) is bool(through)
    assert ("by way of work, too" in words) is bool(through and direct)


def test_an_effect_by_one_law_is_the_contrast(model: FittedModel) -> None:
    answer = effect(model, "size", "work", rng(), low=8e6, high=16e6)
    law = model.laws["work"]
    alone = queries.effect(law.fit, law.law, "size", 8e6, 16e6)
    assert (answer.change, answer.change_low) == (alone.change, alone.change_low)
    assert answer.through == ()


def test_an_elasticity_is_the_logarithmic_slope(model: FittedModel) -> None:
    one = elasticity(model, "size", "work", {"size": 12e6}, rng())
    assert one.low < TRUTH["w1"] * 12e6 / work_of(12e6) < one.high
    at = {"size": 12e6, "cores": 0.5, "rate": 15e6}
    through = elasticity(model, "size", "runtime", at, rng())
    truth = 12e6 * (TRUTH["a"] / 15e6 + TRUTH["b"] * TRUTH["w1"] / 0.5) / runtime_of(12e6, 15e6, 0.5)
    assert through.low < truth < through.high
    assert through.high - through.low < 0.1
    falling = elasticity(model, "cores", "runtime", at, rng())
    assert falling.low < -work_of(12e6) / 0.5 / runtime_of(12e6, 15e6, 0.5) < falling.high


@pytest.mark.parametrize("at", [{}, {"cores": math.inf}, {"cores": 2 * NATURAL_CORES}])
def test_a_cap_that_does_not_bind_has_no_elasticity(model: FittedModel, at: dict[str, float]) -> None:
    """One percent more of it changes nothing, as a prediction says, and one percent less does."""
    with pytest.raises(InputError, match=r"one percent more cores is without effect: .* 0\.95 core") as caught:
        elasticity(model, "cores", "runtime", {"size": 12e6, **at}, rng())
    assert caught.value.hint is not None
    assert "cores=<level> below that" in caught.value.hint
    below = elasticity(model, "cores", "runtime", {"size": 12e6, "cores": 0.99 * NATURAL_CORES}, rng())
    assert below.high < 0


def test_fidelity_says_where_the_question_lies(model: FittedModel) -> None:
    tried = whatif(model, "runtime", {"size": 8e6, "cores": 0.6, "rate": 1e7}, rng())
    assert tried.fidelity is not None
    assert tried.fidelity.grade is Grade.GOOD
    assert tried.fidelity.place is Place.INSIDE
    assert tried.fidelity.like_trials > 3
    assert [one.law for one in tried.fidelity.past] == ["work", "runtime"]
    far = whatif(model, "runtime", {"size": 40e6, "cores": 0.6, "rate": 1e7}, rng(), extrapolate=True)
    assert far.fidelity is not None
    assert far.fidelity.grade is Grade.POOR
    assert far.extrapolated == far.fidelity.why
    assert "size = 40 MB is outside the trials" in far.extrapolated[0]


def test_outside_the_support_is_refused(model: FittedModel) -> None:
    with pytest.raises(OutsideSupport, match="size = 40 MB is outside the trials, which have 8 MB to 16 MB"):
        whatif(model, "runtime", {"size": 40e6}, rng())
    with pytest.raises(OutsideSupport, match="work = 9 s is outside"):
        whatif(model, "runtime", {"work": 9.0}, rng())
    with pytest.raises(OutsideSupport):
        effect(model, "size", "runtime", rng(), low=8e6, high=40e6)
    with pytest.raises(OutsideSupport):
        elasticity(model, "cores", "runtime", {"cores": 0.05}, rng())


def test_questions_that_mean_nothing_are_refused(model: FittedModel) -> None:
    with pytest.raises(InputError, match="runtime is both cause and outcome") as caught:
        effect(model, "runtime", "runtime", rng())
    assert caught.value.hint == "a variable has no effect on itself; name two variables"
    with pytest.raises(InputError, match="runtime is what is asked for"):
        whatif(model, "runtime", {"runtime": 1.0}, rng())
    with pytest.raises(InputError, match="cores has no effect on work") as caught:
        whatif(model, "work", {"cores": 0.5}, rng())
    assert caught.value.hint == "what has: size"
    with pytest.raises(InputError, match="the model has no law for size"):
        whatif(model, "size", {}, rng())
    with pytest.raises(InputError, match="no variable 'siz'"):
        whatif(model, "runtime", {"siz": 1.0}, rng())
    with pytest.raises(InputError, match="cores is the cause"):
        effect(model, "cores", "runtime", rng(), at={"cores": 0.5})
    with pytest.raises(InputError, match=r"two levels of cores, and both are 0\.4 core") as caught:
        effect(model, "cores", "runtime", rng(), low=0.4, high=0.4)
    assert caught.value.hint == "give two that differ"
    with pytest.raises(InputError, match="both are unlimited"):
        effect(model, "cores", "runtime", rng(), low=math.inf, high=math.inf)
    with pytest.raises(InputError, match="not a number"):
        whatif(model, "runtime", {"cores": math.nan}, rng())
    with pytest.raises(InputError, match="not between 0 and 1"):
        whatif(model, "runtime", {}, rng(), quantiles=(95.0,))
    with pytest.raises(InputError, match="too few"):
        whatif(model, "runtime", {}, rng(), draws=10)
    with pytest.raises(InputError, match="not defined at"):
        whatif(model, "runtime", {"cores": 0.0}, rng(), extrapolate=True)


def test_an_elasticity_needs_something_to_grow(tmp_path: Path) -> None:
    text = CHAIN.replace("rate: {unit: B/s, set_by: disk.read_rate}", "rate: {unit: '', set_by: anomaly.disk}")
    text = text.replace("size / rate", "size * rate")
    model = fitted(blueprint_of(text, tmp_path), chain_trials(np.random.default_rng(1), 60))
    with pytest.raises(InputError, match="rate has to stand at a finite level above zero"):
        elasticity(model, "rate", "runtime", {"rate": 0.0}, rng(), extrapolate=True)


def test_a_latent_variable_can_be_neither_asked_nor_set(tmp_path: Path) -> None:
    text = CHAIN.replace("runtime: c + a * size / rate", "reading: a * size / rate\n  runtime: c + reading")
    text = text.replace("variables:\n", "variables:\n  reading: {unit: s, role: latent}\n")
    model = fitted(blueprint_of(text, tmp_path), chain_trials(np.random.default_rng(1), 60))
    with pytest.raises(InputError, match="nobody can set or measure reading"):
        whatif(model, "runtime", {"reading": 1.0}, rng())
    with pytest.raises(InputError, match="nobody can set or measure reading"):
        effect(model, "reading", "runtime", rng())
    answer = whatif(model, "runtime", {"size": 12e6, "cores": 0.6, "rate": 1e7}, rng())
    assert answer.mean_low < runtime_of(12e6, 1e7, 0.6) < answer.mean_high


def test_a_hidden_common_cause_of_a_law_and_its_measured_parent_is_no_effect(tmp_path: Path) -> None:
    trials = chain_trials(np.random.default_rng(1), 60)
    model = fitted(blueprint_of(CHAIN + "confounded: [[runtime, work]]\n", tmp_path), trials)
    with pytest.raises(NotIdentified, match="does not tell what work does to it") as caught:
        whatif(model, "runtime", {"size": 12e6}, rng())
    assert caught.value.hint is not None
    assert "runtime follows from size directly and through work" in caught.value.hint
    assert "answer this as they are" in caught.value.hint
    with pytest.raises(NotIdentified):
        whatif(model, "runtime", {"work": 0.5}, rng())
    assert whatif(model, "work", {"size": 12e6}, rng()).draws == 0
    harmless = fitted(blueprint_of(CHAIN + "confounded: [[runtime, rate]]\n", tmp_path), trials)
    assert whatif(harmless, "runtime", {"size": 12e6}, rng()).draws


def test_a_chain_of_hidden_causes_through_another_parent_counts_too(tmp_path: Path) -> None:
    text = CHAIN.replace(
        "runtime: c + a * size / rate", "system: s1 * size\n  runtime: c + q * system + a * size / rate"
    )
    text = text.replace("  runtime: {", "  system: {unit: s, measured_by: system_time}\n  runtime: {")
    measured = []
    draws = np.random.default_rng(4)
    for one in chain_trials(np.random.default_rng(1), 60):
        assert one.record is not None
        values = {**one.record.measurements, "system_time": float(draws.normal(0.3, 0.05))}
        measured.append(replace(one, record=replace(one.record, measurements=values)))
    linked = text + "confounded: [[runtime, system], [system, work]]\n"
    with pytest.raises(NotIdentified, match=r"(work and system|system and work) and runtime"):
        whatif(fitted(blueprint_of(linked, tmp_path), tuple(measured)), "runtime", {"size": 12e6}, rng())
    apart = fitted(blueprint_of(text + "confounded: [[system, work]]\n", tmp_path), tuple(measured))
    answer = whatif(apart, "runtime", {"size": 12e6}, rng(), extrapolate=True)
    assert answer.fidelity is not None
    assert any("have a cause in common" in reason for reason in answer.fidelity.why)


def test_a_law_on_the_way_that_could_not_be_fitted(tmp_path: Path) -> None:
    text = CHAIN.replace("work: w0 + w1 * size", "work: w0 + w1 * size + w2 * size * size")
    model = fitted(blueprint_of(text, tmp_path), chain_trials(np.random.default_rng(1), 60))
    assert "work" in model.problems
    with pytest.raises(NotIdentified, match="runtime depends on work here, whose law could not be fitted"):
        whatif(model, "runtime", {"size": 12e6}, rng())
    given = whatif(model, "runtime", {"size": 12e6, "work": 0.5}, rng())
    assert given.draws == 0
    left = whatif(model, "runtime", {"cores": 0.6}, rng())
    assert "work" in left.defaults
    with pytest.raises(NotIdentified, match="cannot tell"):
        whatif(model, "work", {}, rng())
