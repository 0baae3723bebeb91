"""Mixed-level fractions: orthogonal arrays where there is one, else the best subset of all combinations.

In an orthogonal array every two factors take all their pairs of levels equally often, so the effects of single
factors are estimated as if each had been varied alone.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.design.optimality.criteria import d_optimal
from insitu.orchestrator.design.optimality.exchange import exchange
from insitu.orchestrator.errors import InputError

Integers = NDArray[np.int64]
MOST_CANDIDATES = 10_000
"""Combinations among which the best subset is sought; of more, so many random ones."""
_MOST_RUNS = 128
_STARTS = 3


@dataclass(frozen=True, slots=True, eq=False)
class MixedFraction:
    """A fraction of all combinations of levels.

    Attributes
    ----------
    runs
        Number of each factor's level in each run, from 0, shape (runs, factors).
    orthogonal
        Whether every two factors take all pairs of levels equally often.
    told
        What it is, in a sentence.
    """

    runs: Integers
    orthogonal: bool
    told: str


def mixed_fraction(levels: Sequence[int], rng: np.random.Generator, *, runs: int | None = None) -> MixedFraction:
    """A fraction for the effects of single factors with these numbers of levels.

    Parameters
    ----------
    runs
        The most runs; without, as many as the smallest orthogonal array has, or two more than effects.

    Raises
    ------
    InputError
        If a factor has fewer than two levels, or there are too few runs for the effects.
    """
    effects = 1 + sum(count - 1 for count in levels)
    whole = math.prod(levels)
    if min(levels, default=0) < 2:
        raise InputError("a factor of a fraction has fewer than two levels", hint="give each factor two or more")
    if runs is not None and runs < effects:
        raise InputError(
            f"{runs} runs are too few for the effects of factors with {', '.join(map(str, levels))} levels",
            hint=f"allow {effects} runs or more",
        )
    fitting = [array for array in _arrays(levels) if runs is None or len(array) <= runs]
    if fitting:
        array = min(fitting, key=len) if runs is None else max(fitting, key=len)
        return MixedFraction(array, True, f"An orthogonal array of {len(array)} of {whole} combinations.")
    wanted = min(whole, effects + 2) if runs is None else min(runs, whole)
    return _best_subset(levels, wanted, rng)


def _best_subset(levels: Sequence[int], runs: int, rng: np.random.Generator) -> MixedFraction:
    whole = math.prod(levels)
    numbers = np.arange(whole) if whole <= MOST_CANDIDATES else rng.integers(0, whole, MOST_CANDIDATES)
    combinations = np.column_stack(np.unravel_index(np.unique(numbers), tuple(levels))).astype(np.int64)
    design = exchange(_contrasts(combinations, levels), runs, d_optimal(), rng, repeats=1, starts=_STARTS)
    return MixedFraction(
        combinations[list(design.trials)],
        False,
        f"No orthogonal array of at most {runs} runs is known here; of {whole} combinations these {runs} "
        f"estimate the effects of single factors best, {design.efficiency:.0%} as well per run as any could.",
    )


def _contrasts(combinations: Integers, levels: Sequence[int]) -> NDArray[np.float64]:
    """A constant, and for each factor contrasts of its levels at right angles, of mean square one."""
    columns = [np.ones((len(combinations), 1))]
    for at, count in enumerate(levels):
        powers = np.linspace(-1, 1, count)[:, None] ** np.arange(count)
        basis = np.linalg.qr(powers)[0][:, 1:] * math.sqrt(count)
        columns.append(basis[combinations[:, at]])
    return np.hstack(columns)


def _arrays(levels: Sequence[int]) -> Iterator[Integers]:
    """Orthogonal arrays of at most `_MOST_RUNS` runs that have a column for each factor, cut to those columns."""
    if (whole := math.prod(levels)) <= _MOST_RUNS:
        yield np.column_stack(np.unravel_index(np.arange(whole), tuple(levels))).astype(np.int64)
    for array in _families(Counter(levels)):
        if (fitted := _fitted(array, levels)) is not None:
            yield fitted


def _families(needed: Counter[int]) -> Iterator[Integers]:
    """Arrays of the kinds that could have the columns needed."""
    kinds = set(needed)
    if kinds <= {2, 4}:
        for basic in range(2, _MOST_RUNS.bit_length()):
            yield _two_and_four(basic, needed[4])
    if kinds == {2}:
        yield from (_paley(prime) for prime in (11, 19, 23))
    for order in kinds & {3, 4, 5, 7}:
        if kinds == {order}:
            yield from (_power(order, basic) for basic in range(2, 8) if order**basic <= _MOST_RUNS)
    if kinds <= {2, 3} or kinds <= {3, 6}:
        yield _eighteen(six=6 in kinds)


def _fitted(array: Integers, levels: Sequence[int]) -> Integers | None:
    """A column with as many levels for each factor, the first that is free; ``None`` if there are too few."""
    free = list(range(array.shape[1]))
    counts = array.max(axis=0) + 1
    chosen = []
    for count in levels:
        at = next((column for column in free if counts[column] == count), None)
        if at is None:
            return None
        free.remove(at)
        chosen.append(at)
    return array[:, chosen]


def _two_and_four(basic: int, fours: int) -> Integers:
    """All products of `basic` two-level factors; two of them and their product make one factor of four levels.

    Notes
    -----
    Addelman, Technometrics 4 (1962), 21-46.
    """
    signs = np.arange(1 << basic)[:, None] >> np.arange(basic) & 1
    column = {
        bits: signs[:, [at for at in range(basic) if bits >> at & 1]].sum(axis=1) % 2
        for bits in range(1, 1 << basic)
    }
    merged: list[Integers] = []
    while len(merged) < fours:
        pair = next(
            ((one, other) for one, other in itertools.combinations(column, 2) if one ^ other in column), None
        )
        if pair is None:
            break
        merged.append(2 * column[pair[0]] + column[pair[1]])
        for bits in (*pair, pair[0] ^ pair[1]):
            del column[bits]
    return np.column_stack([*merged, *column.values()]).astype(np.int64)


def _paley(prime: int) -> Integers:
    """The two-level array of ``prime + 1`` runs, for a prime that leaves 3 when divided by 4.

    Notes
    -----
    Plackett and Burman, Biometrika 33 (1946), 305-325: high where a number is a square modulo the prime.
    """
    squares = {number * number % prime for number in range(prime)}
    first = np.array([int(number in squares) for number in range(prime)])
    return np.vstack([*(np.roll(first, shift) for shift in range(prime)), np.zeros(prime)]).astype(np.int64)


def _power(order: int, basic: int) -> Integers:
    """The array of all linear forms, up to a factor, of `basic` variables in the field of 3, 4, 5 or 7 elements.

    Notes
    -----
    Rao, Supplement to the Journal of the Royal Statistical Society 9 (1947), 128-139.
    """
    elements = range(order)
    add: Callable[[int, int], int] = (lambda a, b: a ^ b) if order == 4 else (lambda a, b: (a + b) % order)
    # the field of four is 0, 1, x and x + 1 with x * x = x + 1: its non-zero elements are powers of x
    times = [
        [0 if 0 in (a, b) else (a + b - 2) % 3 + 1 if order == 4 else a * b % order for b in elements]
        for a in elements
    ]
    points = list(itertools.product(elements, repeat=basic))
    forms = [form for form in points if next((one for one in form if one), 0) == 1]
    array = np.zeros((len(points), len(forms)), dtype=np.int64)
    for row, point in enumerate(points):
        for column, form in enumerate(forms):
            total = 0
            for weight, at in zip(form, point, strict=True):
                total = add(total, times[weight][at])
            array[row, column] = total
    return array


def _eighteen(*, six: bool) -> Integers:
    """The array of 18 runs: seven factors of three levels and one of two, or six of three and one of `six`.

    Notes
    -----
    Developed from a difference matrix, of which any two columns differ by each of 0, 1 and 2 equally often (Bose
    and Bush, Annals of Mathematical Statistics 23 (1952), 508-524). The matrix is found by search.
    """
    balanced = sorted(set(itertools.permutations((0, 0, 1, 1, 2, 2))))
    columns = next(_differing([np.zeros(6, dtype=np.int64)], [np.array(one) for one in balanced if not one[0]]))
    matrix = np.column_stack(columns)
    developed = np.vstack([(matrix + shift) % 3 for shift in range(3)])
    number = np.tile(np.arange(6), 3)
    return np.column_stack([developed, number] if six else [developed, number // 2, number % 2])


def _differing(chosen: list[Integers], candidates: Sequence[Integers]) -> Iterator[list[Integers]]:
    """Six columns of which any two differ by each of 0, 1 and 2 equally often."""
    if len(chosen) == 6:
        yield chosen
        return
    for at, one in enumerate(candidates):
        if all((np.bincount((one - other) % 3, minlength=3) == 2).all() for other in chosen):
            yield from _differing([*chosen, one], candidates[at + 1 :])
