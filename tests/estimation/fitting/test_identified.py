"""Parameters that the trials cannot tell, and what would."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.errors import NotIdentified
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.plan.types import Category, LawText, ModelText, Role, Variable
from tests.estimation.made import Made, Y, made, trials_of


def refused(law: Made, columns: dict[str, list[float]], outcomes: list[float]) -> NotIdentified:
    with pytest.raises(NotIdentified) as caught:
        fit_law(law.law, trials_of(columns, outcomes), variables=law.variables)
    return caught.value


SORT = made("c + a * size / rate + b * size / cores", ("size", "rate", "cores"))
OUTCOMES = [1.0, 2.0, 3.5, 4.0, 5.5, 6.0, 7.1, 8.0]


def test_a_variable_that_stood_still_is_named_as_what_would_separate() -> None:
    error = refused(SORT, {"size": [1.0] * 8, "rate": [2.0] * 8, "cores": [1.0, 2, 3, 4] * 2}, OUTCOMES)
    assert error.message == "the trials cannot tell c and a apart in the law of y"
    # at another size the time to compute changes as well, but at another rate the time to read alone
    assert error.hint == (
        "vary size or rate by itself: one more trial like trial 1, but with another size than 1, would do"
    )
    assert error.context["parameters"] == ("c", "a")


def test_two_that_moved_together_are_named() -> None:
    columns = {"size": [1.0, 2.0] * 4, "rate": [1.0, 1, 2, 2] * 2, "cores": [2.0, 2, 4, 4] * 2}
    error = refused(SORT, columns, OUTCOMES)
    assert "cannot tell a and b apart" in error.message
    assert error.hint == (
        "vary rate or cores by itself: one more trial like trial 1, but with another rate than 1, would do"
    )


def test_the_trial_that_is_named_does_separate_them() -> None:
    columns = {"size": [1.0, 2.0] * 4, "rate": [1.0, 1, 2, 2] * 2, "cores": [2.0, 2, 4, 4] * 2}
    more = {"size": [*columns["size"], 1.0], "rate": [*columns["rate"], 1.7], "cores": [*columns["cores"], 2.0]}
    fit = fit_law(SORT.law, trials_of(more, [*OUTCOMES, 3.0]), variables=SORT.variables)
    assert fit.parameters == ("c", "a", "b")


def test_one_variable_at_one_level_is_told_with_the_number_of_trials() -> None:
    error = refused(made("c + a * x"), {"x": [2.0] * 8}, OUTCOMES)
    assert (error.hint or "").startswith("vary x by itself, which stood at one level in all 8 trials: one more")


def test_variables_that_separate_only_together_are_listed() -> None:
    law = made("c + a * x * z + b * x * w", ("x", "z", "w"))
    columns = {"x": [1.0, 2.0] * 4, "z": [1.0] * 8, "w": [1.0] * 8}
    error = refused(law, columns, OUTCOMES)
    assert (error.hint or "").startswith("vary z or w by itself: one more trial like trial 1")


def test_no_trial_is_named_where_one_is_not_enough() -> None:
    error = refused(made("c + a * x + b * x^2"), {"x": [2.0] * 8}, OUTCOMES)
    assert error.hint == "vary x by itself, which stood at one level in all 8 trials"


def test_variables_that_separate_either_way() -> None:
    both = made("c + a * (x - z) + b * (x - z)^2", ("x", "z"))
    still = refused(both, {"x": [1.0] * 8, "z": [2.0] * 8}, OUTCOMES)
    assert still.hint == "vary x or z by itself"


def test_what_no_level_separates_is_a_fault_of_the_law() -> None:
    error = refused(made("c + a * x + b * (x + 1)"), {"x": [1.0, 2, 3, 4] * 2}, OUTCOMES)
    assert error.hint == "no level of any variable tells c, a and b apart: keep one of them in the law"


def of_kind(text: str, *words: str) -> Made:
    """A law of y with a kind that has words in the place of numbers."""
    kind = Variable("kind", "", Role.PARAMETER, categories=tuple(Category(word) for word in words))
    variables = {"kind": kind, "y": Y}
    blueprint = build_blueprint(ModelText(Path("model.yaml"), variables, (LawText("y", text, 1, 1),)))
    return Made(blueprint.laws["y"], variables)


def test_categories_are_varied_by_words() -> None:
    law = of_kind("c + a * is(kind, hdd)", "ssd", "hdd")
    error = refused(law, {"kind": [1.0] * 8}, OUTCOMES)
    assert error.message == "the trials cannot tell c and a apart in the law of y"
    assert error.hint == (
        "vary kind by itself, which stood at one level in all 8 trials: "
        "one more trial like trial 1, but with another kind than hdd, would do"
    )
    both = fit_law(law.law, trials_of({"kind": [0.0, 1.0] * 4}, OUTCOMES), variables=law.variables)
    ssd, hdd = np.mean(OUTCOMES[::2]), np.mean(OUTCOMES[1::2])
    assert both.values == pytest.approx([ssd, hdd - ssd])


def test_a_category_that_was_never_tried_is_left_out() -> None:
    law = of_kind("c[kind]", "ssd", "hdd", "tape")
    fit = fit_law(law.law, trials_of({"kind": [0.0, 1.0] * 4}, OUTCOMES), variables=law.variables)
    assert fit.not_estimated == ("c[tape]",)
    assert fit.parameters == ("c[ssd]", "c[hdd]")


def test_fewer_trials_than_parameters_count_both() -> None:
    error = refused(SORT, {"size": [1.0, 2, 3], "rate": [1.0, 3, 2], "cores": [2.0, 1, 5]}, [1.0, 2, 3])
    assert error.message == "3 valid trials are too few for the 3 parameters of y and their intervals"
    assert str(error.hint).startswith("at least 4 are needed")
