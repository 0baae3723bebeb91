"""Where a question lies: inside, at the edge, outside; and which trials are like it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.estimation.questions.fidelity import Grade, judge
from insitu.orchestrator.estimation.questions.model import FittedModel
from insitu.orchestrator.estimation.questions.support import Place, Support, support_of
from tests.estimation.chains import blueprint_of, fitted, parameter_trials

PLANE = """
variables:
  x: {unit: '', role: parameter}
  z: {unit: '', role: parameter}
  y: {unit: s, measured_by: wall_time}
laws:
  y: a + b * x + c * z
"""


def model_of(points: list[tuple[float, float]], folder: Path, law: str = "a + b * x + c * z") -> FittedModel:
    trials = parameter_trials(
        np.random.default_rng(3),
        [{"x": x, "z": z} for x, z in points],
        lambda at, rng: {"wall_time": 1 + at["x"] + at["z"] + rng.normal(0, 0.02)},
    )
    return fitted(blueprint_of(PLANE.replace("a + b * x + c * z", law), folder), trials)


def place(model: FittedModel, x: float, z: float) -> Support:
    levels = {"x": x, "z": z}
    return support_of(model.laws["y"], levels, levels)


@pytest.fixture
def bent(tmp_path: Path) -> FittedModel:
    """Trials along two sides of a square, and none at the corner across."""
    return model_of([*((float(x), 0.0) for x in range(5)), *((0.0, float(z)) for z in range(5))] * 2, tmp_path)


def test_between_trials_is_inside(bent: FittedModel) -> None:
    assert place(bent, 1.5, 1.5).place is Place.INSIDE
    assert place(bent, 2.0, 0.0).place is Place.INSIDE
    assert place(bent, 2.05, 2.1).place is Place.INSIDE  # a little over the line between the ends


def test_levels_that_were_tried_but_not_together_are_the_edge(bent: FittedModel) -> None:
    found = place(bent, 2.35, 2.35)
    assert found.place is Place.EDGE
    assert found.why == ("no trials of y lie around this combination of levels",)


def test_what_no_trial_comes_near_is_outside(bent: FittedModel) -> None:
    assert place(bent, 4.5, 0.0).place is Place.OUTSIDE
    corner = place(bent, 4.0, 4.0)
    assert corner.place is Place.OUTSIDE
    assert "leverage" in corner.why[0]


def test_like_trials_are_near_in_every_level(bent: FittedModel) -> None:
    assert place(bent, 2.0, 0.0).like_trials == 2
    assert place(bent, 0.0, 0.0).like_trials == 4
    assert place(bent, 2.3, 0.3).like_trials == 2
    assert place(bent, 2.5, 0.5).like_trials == 0


def test_levels_over_decades_are_compared_by_their_logarithms(tmp_path: Path) -> None:
    points = [(10.0**power, z) for power in range(5) for z in (0.0, 1.0)] * 2
    model = model_of(points, tmp_path, "a + b * log(x) + c * z")
    assert place(model, 120.0, 0.0).like_trials == 2
    assert place(model, 1000.0 * 2.2, 0.0).like_trials == 2
    assert place(model, 316.0, 0.0).like_trials == 0


def test_the_grade_is_the_worst_reason(bent: FittedModel) -> None:
    law = bent.laws["y"]

    def graded(support: Support) -> Grade:
        return judge(bent, [law], [support]).grade

    assert graded(Support(Place.INSIDE, (), 3)) is Grade.GOOD
    assert graded(Support(Place.INSIDE, (), 0)) is Grade.FAIR
    assert graded(Support(Place.EDGE, ("far",), 3)) is Grade.FAIR
    assert graded(Support(Place.OUTSIDE, ("out",), 3)) is Grade.POOR
    told = judge(bent, [law], [Support(Place.INSIDE, (), 3), Support(Place.OUTSIDE, ("out",), 1)])
    assert (told.place, told.like_trials, told.why) == (Place.OUTSIDE, 1, ("out",))
