"""Shapley values: what each player of a game adds to it, so that the parts add up to the whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import factorial

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array

Coalitions = npt.NDArray[np.bool_]
"""Who plays, one row per coalition: shape (coalitions, players)."""

EXACT_UP_TO = 10
"""Players for which all coalitions are tried: 1,024 of them."""
PERMUTATIONS = 400
"""Orders that are tried where there are more players; half of them the other half reversed."""
_ROWS = 4096
"""Coalitions that are worth trying at once: their values have to fit into memory."""


@dataclass(frozen=True, slots=True)
class Shares:
    """What each player adds.

    Attributes
    ----------
    values
        Shape (players, k), for the k games that were played at once; the sum over the players is what all of them
        reach together, less what is reached without any.
    errors
        Standard error of `values` in the first game, shape (players,); zero where all coalitions were tried.
    exact
        Whether they were.
    """

    values: Array
    errors: Array
    exact: bool


def shapley_values(
    play: Callable[[Coalitions], Array],
    players: int,
    rng: np.random.Generator,
    *,
    exact_up_to: int = EXACT_UP_TO,
    permutations: int = PERMUTATIONS,
) -> Shares:
    """Share out what a game reaches among its players.

    Parameters
    ----------
    play
        Values of some coalitions in k games: shape (coalitions, k).
    permutations
        Orders to try, an even number, where there are more players than `exact_up_to`.

    Notes
    -----
    Shapley, A value for n-person games (1953). Beyond `exact_up_to` players the mean over random orders, each with
    its reverse: Mitchell et al., Sampling permutations for Shapley value estimation (2022), section 4.1. Each
    order shares out everything, so that the sum is exact there, too.
    """
    if players == 0:
        games = play(np.zeros((1, 0), dtype=bool)).shape[1]
        return Shares(np.zeros((0, games)), np.zeros(0), exact=True)
    if players <= exact_up_to:
        return _all_coalitions(play, players)
    return _random_orders(play, players, rng, max(2, permutations // 2))


def _all_coalitions(play: Callable[[Coalitions], Array], players: int) -> Shares:
    numbers = np.arange(2**players)
    members = (numbers[:, None] >> np.arange(players)) & 1 == 1
    reached = play(members)
    sizes = members.sum(axis=1)
    weights = np.array([_weight(int(size), players) for size in range(players)])
    values = np.empty((players, reached.shape[1]))
    for player in range(players):
        without = numbers[~members[:, player]]
        gains = reached[without | (1 << player)] - reached[without]
        values[player] = weights[sizes[without]] @ gains
    return Shares(values, np.zeros(players), exact=True)


def _weight(size: int, players: int) -> float:
    """Share of all orders in which a player comes right after a given coalition of this size."""
    return factorial(size) * factorial(players - size - 1) / factorial(players)


def _random_orders(
    play: Callable[[Coalitions], Array], players: int, rng: np.random.Generator, pairs: int
) -> Shares:
    total: Array | None = None
    in_first: list[Array] = []
    left = pairs
    at_once = max(1, _ROWS // (2 * (players + 1)))
    while left:
        count = min(left, at_once)
        left -= count
        orders = rng.permuted(np.tile(np.arange(players), (count, 1)), axis=1)
        gains = (_gains(play, orders) + _gains(play, orders[:, ::-1])) / 2
        in_first.append(gains[:, :, 0])
        total = gains.sum(axis=0) if total is None else total + gains.sum(axis=0)
    assert total is not None
    spread = np.concatenate(in_first).std(axis=0, ddof=1)
    return Shares(total / pairs, spread / np.sqrt(pairs), exact=False)


def _gains(play: Callable[[Coalitions], Array], orders: npt.NDArray[np.int64]) -> Array:
    """What each player adds when they come in some orders: shape (orders, players, k)."""
    count, players = orders.shape
    rank = np.argsort(orders, axis=1)
    members = rank[:, None, :] < np.arange(players + 1)[None, :, None]
    reached = play(members.reshape(-1, players)).reshape(count, players + 1, -1)
    steps = np.diff(reached, axis=1)
    gains: Array = np.take_along_axis(steps, rank[:, :, None], axis=1)
    return gains
