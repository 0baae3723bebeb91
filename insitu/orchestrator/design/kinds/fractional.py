"""Regular two-level fractions, 2^(k-p): which effects they mix, told in words.

A word is a product of factors that is the same in every run of the fraction. The words, with the empty one, are a
group; multiplied by an effect, it gives all effects that the fraction cannot tell from that one (its aliases).
Factors are bits of an integer here, so a product is an exclusive or, and the length of a word its number of bits.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from insitu.orchestrator.errors import InputError

Integers = NDArray[np.int64]
_ROMAN = ("", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII", "XIII", "XIV", "XV", "XVI")
_KEPT = 200
"""Partial fractions that the search goes on with from each number of factors to the next."""
MOST_FACTORS = 16
_MEANING = {
    3: "effects of single factors are mixed with those of pairs",
    4: "effects of single factors are mixed with those of three or more together, those of pairs with each other",
    5: "effects of single factors and of pairs are mixed with those of three or more together",
}


@dataclass(frozen=True, slots=True)
class Effect:
    """The effect of one factor, or of several together, by their numbers."""

    factors: tuple[int, ...]

    @classmethod
    def of(cls, bits: int) -> Effect:
        return cls(tuple(number for number in range(bits.bit_length()) if bits >> number & 1))

    @property
    def bits(self) -> int:
        return sum(1 << number for number in self.factors)

    def told(self, names: Sequence[str]) -> str:
        """As in "cpu_cores with disk_read_rate"."""
        return " with ".join(names[number] for number in self.factors)


@dataclass(frozen=True, slots=True)
class Fraction:
    """A regular fraction of all combinations of two levels.

    Attributes
    ----------
    factors
        Their names; the first ones take all combinations, the others follow from them.
    generators
        For each of the others, the product of which of the first ones it is.
    """

    factors: tuple[str, ...]
    generators: tuple[Effect, ...]

    @property
    def basic(self) -> int:
        """Number of factors that take all combinations."""
        return len(self.factors) - len(self.generators)

    @property
    def words(self) -> tuple[Effect, ...]:
        """The defining relation: products that are the same in every run, by length and then by their factors."""
        words = sorted(
            (Effect.of(int(word)) for word in _group(self.generators, self.basic) if word), key=_by_length
        )
        return tuple(words)

    @property
    def resolution(self) -> int | None:
        """Length of the shortest word; ``None`` if all combinations are run."""
        return min((len(word.factors) for word in self.words), default=None)

    def runs(self) -> Integers:
        """Levels of each run, -1 or 1, in standard order; shape (runs, factors)."""
        numbers = np.arange(1 << self.basic)
        signs = 2 * (numbers[:, None] >> np.arange(self.basic) & 1) - 1
        others = [signs[:, list(one.factors)].prod(axis=1) for one in self.generators]
        return np.column_stack([signs, *others])

    def aliases(self, effect: Effect, most: int = 2) -> tuple[Effect, ...]:
        """Other effects, of at most so many factors together, that cannot be told from one."""
        mixed = {int(word) ^ effect.bits for word in _group(self.generators, self.basic)} - {effect.bits, 0}
        found = [Effect.of(bits) for bits in mixed if bits.bit_count() <= most]
        return tuple(sorted(found, key=_by_length))

    def told(self) -> tuple[str, ...]:
        """What the fraction leaves out, in sentences."""
        runs, whole = 1 << self.basic, 1 << len(self.factors)
        if self.resolution is None:
            return (f"All {whole} combinations are run, so no effect is mixed with another.",)
        meaning = _MEANING[min(self.resolution, max(_MEANING))]
        return (
            f"{runs} of {whole} combinations are run, in resolution {_ROMAN[self.resolution]}: {meaning}.",
            *(self._told_generator(at) for at in range(len(self.generators))),
            *self._told_aliases(),
        )

    def _told_generator(self, at: int) -> str:
        of = self.generators[at].factors
        parity = "even" if len(of) % 2 == 0 else "odd"
        others = _and([self.factors[number] for number in of])
        return f"{self.factors[self.basic + at]} is high where an {parity} number of {others} are high."

    def _told_aliases(self) -> tuple[str, ...]:
        """Single factors and pairs that are mixed up, each set once."""
        sets: dict[tuple[Effect, ...], None] = {}
        for order in (1, 2):
            for factors in itertools.combinations(range(len(self.factors)), order):
                effect = Effect(factors)
                if mixed := self.aliases(effect):
                    sets[tuple(sorted((effect, *mixed), key=_by_length))] = None
        return tuple(
            f"The effects of {_and([one.told(self.factors) for one in mixed])} cannot be told apart."
            for mixed in sets
        )


def two_level_fraction(factors: Sequence[str], runs: int) -> Fraction:
    """The fraction of so many runs that mixes effects least.

    Parameters
    ----------
    factors
        Names; at most `MOST_FACTORS`.
    runs
        A power of two, more than factors.

    Raises
    ------
    InputError
        If there is no such fraction.

    Notes
    -----
    Fewest words of three factors, then of four, and so on: minimum aberration (Fries and Hunter, Technometrics 22
    (1980), 601-608). Factors are added one by one to the best fractions so far, of which `_KEPT` are kept, so the
    search is complete for few factors only; Box, Hunter and Hunter, Statistics for Experimenters (2nd edition),
    table 6.22, has no fraction of a higher resolution.
    """
    basic, count = runs.bit_length() - 1, len(factors)
    if runs < 2 or runs != 1 << basic or not 0 < count <= min(runs - 1, MOST_FACTORS) or basic > count:
        raise InputError(
            f"no fraction of {runs} runs has {count} factors at two levels",
            hint=f"the runs are a power of two, more than the factors, of which there are at most {MOST_FACTORS}, "
            "and no more than their combinations",
        )
    products = sorted((Effect.of(bits) for bits in range(1 << basic) if bits.bit_count() > 1), key=_by_length)
    kept: list[tuple[int, ...]] = [()]
    for _ in range(count - basic):
        wider = {
            tuple(sorted((*one, fresh))) for one in kept for fresh in range(len(products)) if fresh not in one
        }
        kept = sorted(wider, key=lambda one: (_word_counts([products[at] for at in one], basic), one))[:_KEPT]
    return Fraction(tuple(factors), tuple(products[at] for at in kept[0]))


def smallest_fraction(factors: Sequence[str], resolution: int) -> Fraction:
    """The fraction of the fewest runs that has a resolution, or all combinations.

    Raises
    ------
    InputError
        If there are too many factors.
    """
    for basic in range(len(factors).bit_length(), len(factors)):
        fraction = two_level_fraction(factors, 1 << basic)
        if (fraction.resolution or 0) >= resolution:
            return fraction
    return two_level_fraction(factors, 1 << len(factors))


def _group(generators: Sequence[Effect], basic: int) -> Integers:
    """Every word, the empty one first, as bits."""
    words = np.zeros(1, dtype=np.int64)
    for at, generator in enumerate(generators):
        words = np.concatenate([words, words ^ (generator.bits | 1 << basic + at)])
    return words


def _word_counts(generators: Sequence[Effect], basic: int) -> tuple[int, ...]:
    """How many words there are of each length, from none."""
    lengths = np.bitwise_count(_group(generators, basic)[1:])
    return tuple(np.bincount(lengths, minlength=1).tolist()) if len(lengths) else ()


def _by_length(effect: Effect) -> tuple[int, tuple[int, ...]]:
    return len(effect.factors), effect.factors


def _and(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
