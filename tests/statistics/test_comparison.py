"""Of two laws, the wrong one is chosen in at most 5 % of experiments that look again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.optimality.discrimination import Rival, discriminate
from insitu.orchestrator.estimation.fitting.data import FitData
from insitu.orchestrator.estimation.fitting.refit import fit_law
from insitu.orchestrator.estimation.rivals.containment import Placed
from insitu.orchestrator.estimation.rivals.verdict import Comparing, Side
from tests.estimation.made import Made, made, trials_of

EXPERIMENTS = 1000
MOST = 20
BATCH = 3
FIRST = (0, 2, 4, 7, 0, 2, 4, 7)
"""Places of the trials before the first look."""
X = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0])
PLACES = np.random.default_rng(0).integers(0, len(X), MOST)
"""Of the trials that are checks."""


@dataclass(frozen=True)
class Contestants:
    """A law and a rival, and the frame of the data that is filled anew in each experiment."""

    law: Made
    rival: Made
    frames: tuple[FitData, FitData]

    @staticmethod
    def of(law: str, rival: str) -> Contestants:
        both = made(law), made(rival)
        frames = tuple(one.task({"x": X[PLACES]}, np.arange(MOST, dtype=float)).data for one in both)
        return Contestants(both[0], both[1], (frames[0], frames[1]))

    def experiment(self, truth: Array, noise: float, rng: np.random.Generator) -> Side | None:
        """Look after every batch, and end with the first decision."""
        comparing = Comparing(self.law.law, self.rival.law, self.law.variables, 0.95, 0.1)
        places = list(rng.permutation(FIRST))
        observed = list(truth[places] + rng.normal(0, noise, len(places)))
        while True:
            data = self._data(places, observed)
            placed, rivals = self._fitted(places, np.array(observed))
            verdict = comparing.weigh(data, FITS, placed)
            if verdict is not None and verdict.preferred is not None:
                return verdict.preferred
            if len(places) >= MOST:
                return None
            spread = np.full(len(X), max(1e-6, min(self._spreads(placed, places, observed))))
            chosen = list(discriminate(rivals[0], rivals[1], spread, BATCH).trials)
            if len(places) % 7 < BATCH:
                chosen[-1] = int(PLACES[len(places)])
            places += chosen
            observed += list(truth[chosen] + rng.normal(0, noise, BATCH))

    def _data(self, places: list[int], observed: list[float]) -> tuple[FitData, FitData]:
        taken = np.arange(MOST) < len(places)
        law, rival = (
            replace(frame.rows(taken, ()), columns={"x": X[places]}, observed=np.array(observed))
            for frame in self.frames
        )
        return law, rival

    def _fitted(self, places: list[int], observed: Array) -> tuple[tuple[Placed, Placed], tuple[Rival, Rival]]:
        found = []
        for one in (self.law.law, self.rival.law):
            rows, everywhere = one.design_matrix({"x": X[places]}), one.design_matrix({"x": X})
            values: Array = np.asarray(np.linalg.lstsq(rows, observed, rcond=None)[0], dtype=np.float64)
            variance = float(np.sum((observed - rows @ values) ** 2)) / (len(observed) - len(values))
            covariance: Array = np.asarray(np.linalg.inv(rows.T @ rows), dtype=np.float64) * variance
            found.append((Placed(one, values, {"x": X}), Rival(everywhere @ values, everywhere, covariance)))
        return (found[0][0], found[1][0]), (found[0][1], found[1][1])

    def _spreads(self, placed: tuple[Placed, Placed], places: list[int], observed: list[float]) -> list[float]:
        return [float(np.std(np.array(observed) - one.means[places])) for one in placed]


LINE, ROOT, PARABOLA = "b0 + b1 * x", "b0 + b1 * x^0.5", "b0 + b1 * x + b2 * x^2"
_FIT = fit_law(made(LINE).law, trials_of({"x": X}, X + 0.1 * X**2), variables=made(LINE).variables)
FITS = (_FIT, _FIT)
"""What a verdict carries for the report; it decides nothing."""

CASES = [
    (LINE, ROOT, 3.0 + 0.5 * X, 0.12, Side.LAW, 0.8),
    (LINE, ROOT, 2.0 + 1.5 * X**0.5, 0.1, Side.RIVAL, 0.8),
    (LINE, PARABOLA, 3.0 + 0.5 * X, 0.12, Side.LAW, 0.9),
    (LINE, PARABOLA, 3.0 + 0.5 * X + 0.05 * (X - 4.5) ** 2, 0.12, Side.RIVAL, 0.9),
]


@pytest.mark.parametrize(("law", "rival", "truth", "noise", "right", "power"), CASES)
def test_the_wrong_law_is_seldom_chosen_and_the_right_one_often(
    law: str, rival: str, truth: Array, noise: float, right: Side, power: float
) -> None:
    contestants, rng = Contestants.of(law, rival), np.random.default_rng(17)
    chosen = [contestants.experiment(truth, noise, rng) for _ in range(EXPERIMENTS)]
    assert chosen.count(right.other) <= 0.05 * EXPERIMENTS
    assert chosen.count(right) >= power * EXPERIMENTS
