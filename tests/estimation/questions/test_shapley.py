from __future__ import annotations

from itertools import permutations

import numpy as np
import numpy.typing as npt
import pytest

from insitu.orchestrator.estimation.questions.shapley import Coalitions, shapley_values

WEIGHTS = np.array([3.0, 1.0, 4.0, 1.5, 9.0, 2.5])


def game(coalitions: Coalitions) -> npt.NDArray[np.float64]:
    """Two games: players that meet make more of each other in the first, and add up in the second."""
    total = coalitions @ WEIGHTS
    return np.column_stack([total**1.7 + 5 * coalitions[:, 0] * coalitions[:, 3], total])


def by_definition() -> npt.NDArray[np.float64]:
    """Mean over every order of what each player adds when it comes."""
    players = len(WEIGHTS)
    gains = np.zeros((players, 2))
    orders = list(permutations(range(players)))
    for order in orders:
        members = np.zeros((1, players), dtype=bool)
        before = game(members)[0]
        for player in order:
            members[0, player] = True
            after = game(members)[0]
            gains[player] += after - before
            before = after
    return gains / len(orders)


def test_exact_values_are_the_mean_over_all_orders() -> None:
    shares = shapley_values(game, len(WEIGHTS), np.random.default_rng(1))
    assert shares.exact
    assert not shares.errors.any()
    np.testing.assert_allclose(shares.values, by_definition(), rtol=1e-12)
    np.testing.assert_allclose(shares.values[:, 1], WEIGHTS, rtol=1e-12)


def test_random_orders_add_up_exactly_and_state_their_error() -> None:
    truth = by_definition()[:, 0]
    whole = game(np.ones((1, len(WEIGHTS)), dtype=bool))[0]
    off, errors = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        shares = shapley_values(game, len(WEIGHTS), rng, exact_up_to=3, permutations=40)
        assert not shares.exact
        np.testing.assert_allclose(shares.values.sum(axis=0), whole, rtol=1e-12)
        off.append(shares.values[:, 0] - truth)
        errors.append(shares.errors)
    spread = np.std(off, axis=0)
    assert np.all(np.abs(np.mean(off, axis=0)) < 4 * spread / np.sqrt(len(off)) + 1e-12)
    np.testing.assert_allclose(np.sqrt(np.mean(np.square(errors), axis=0)), spread, rtol=0.35)


@pytest.mark.parametrize("players", [0, 1])
def test_a_game_of_few(players: int) -> None:
    shares = shapley_values(lambda who: 2.0 * who.sum(axis=1)[:, None] + 7, players, np.random.default_rng(1))
    assert shares.values.tolist() == [[2.0]] * players
