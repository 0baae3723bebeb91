"""Two-level fractions against the textbook: Box, Hunter and Hunter, Statistics for Experimenters."""

from __future__ import annotations

import itertools
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.design.kinds.fractional import Effect, Fraction, smallest_fraction, two_level_fraction
from insitu.orchestrator.errors import InputError


def letters(effect: Effect) -> str:
    return "".join(string.ascii_uppercase[number] for number in effect.factors)


def fraction(factors: int, runs: int) -> Fraction:
    return two_level_fraction(string.ascii_uppercase[:factors], runs)


TABLE = {  # factors: {runs: resolution}, table 6.22 of the second edition
    3: {4: 3},
    4: {8: 4},
    5: {8: 3, 16: 5},
    6: {8: 3, 16: 4, 32: 6},
    7: {8: 3, 16: 4, 32: 4, 64: 7},
    8: {16: 4, 32: 4, 64: 5},
    9: {16: 3, 32: 4, 64: 4},
    10: {16: 3, 32: 4},
    11: {16: 3, 32: 4},
    15: {16: 3},
}


@pytest.mark.parametrize(
    ("factors", "runs", "resolution"),
    [(factors, runs, found) for factors, row in TABLE.items() for runs, found in row.items()],
)
def test_resolutions_are_those_of_the_table(factors: int, runs: int, resolution: int) -> None:
    assert fraction(factors, runs).resolution == resolution


def test_seven_factors_in_eight_runs() -> None:
    design = fraction(7, 8)
    assert [letters(one) for one in design.generators] == ["AB", "AC", "BC", "ABC"]
    assert [letters(one) for one in design.words if len(one.factors) == 3] == [
        *("ABD", "ACE", "AFG", "BCF", "BEG", "CDG", "DEF"),
    ]
    assert sorted(len(one.factors) for one in design.words) == [3] * 7 + [4] * 7 + [7]
    assert [letters(one) for one in design.aliases(Effect((0,)))] == ["BD", "CE", "FG"]
    assert [letters(one) for one in design.aliases(Effect((6,)))] == ["AF", "BE", "CD"]


def test_half_of_five_factors() -> None:
    design = fraction(5, 16)
    assert [letters(one) for one in design.words] == ["ABCDE"]
    assert all(
        not design.aliases(Effect(one)) for order in (1, 2) for one in itertools.combinations(range(5), order)
    )
    assert [letters(one) for one in design.aliases(Effect((0, 1)), most=3)] == ["CDE"]


def test_half_of_four_factors_mixes_pairs() -> None:
    design = fraction(4, 8)
    assert [letters(one) for one in design.aliases(Effect((0, 1)))] == ["CD"]
    assert not design.aliases(Effect((0,)))


def test_seven_factors_in_thirty_two_runs_have_one_word_of_four() -> None:
    """Minimum aberration: another fraction of resolution IV has two or three (Fries and Hunter 1980)."""
    assert sorted(len(one.factors) for one in fraction(7, 32).words) == [4, 5, 5]


@given(st.sampled_from([(n, r) for n, row in TABLE.items() for r in row if n < 9]), st.integers(0, 2**16))
def test_the_runs_are_what_the_words_say(case: tuple[int, int], bits: int) -> None:
    """A product is the same in all runs if it is a word, and balanced if not; aliases are equal columns."""
    design = fraction(*case)
    runs = design.runs()
    assert runs.shape == case[::-1]
    assert len({tuple(run) for run in runs}) == case[1]
    effect = Effect.of(bits % (2 ** case[0] - 1) + 1)
    product = runs[:, list(effect.factors)].prod(axis=1)
    assert (product == 1).all() if effect in design.words else product.sum() == 0
    for other in design.aliases(effect):
        assert (runs[:, list(other.factors)].prod(axis=1) == product).all()


def test_all_combinations_mix_nothing() -> None:
    design = fraction(3, 8)
    assert design.resolution is None
    assert design.words == ()
    assert {tuple(run) for run in design.runs()} == set(itertools.product((-1, 1), repeat=3))
    assert design.told() == ("All 8 combinations are run, so no effect is mixed with another.",)


def test_what_is_mixed_is_told_in_words() -> None:
    assert two_level_fraction(("cores", "rate", "size"), 4).told() == (
        "4 of 8 combinations are run, in resolution III: effects of single factors are mixed with those of pairs.",
        "size is high where an even number of cores and rate are high.",
        "The effects of cores and rate with size cannot be told apart.",
        "The effects of rate and cores with size cannot be told apart.",
        "The effects of size and cores with rate cannot be told apart.",
    )


def test_high_is_where_the_words_say() -> None:
    """An odd number of three, an even number of two."""
    runs = fraction(4, 8).runs()
    assert ((runs[:, 3] == 1) == ((runs[:, :3] == 1).sum(axis=1) % 2 == 1)).all()
    runs = fraction(3, 4).runs()
    assert ((runs[:, 2] == 1) == ((runs[:, :2] == 1).sum(axis=1) % 2 == 0)).all()


@pytest.mark.parametrize(
    ("factors", "resolution", "runs"), [(5, 5, 16), (5, 3, 8), (7, 4, 16), (7, 3, 8), (4, 5, 16), (1, 3, 2)]
)
def test_the_smallest_fraction_of_a_resolution(factors: int, resolution: int, runs: int) -> None:
    assert len(smallest_fraction(string.ascii_uppercase[:factors], resolution).runs()) == runs


@pytest.mark.parametrize(("factors", "runs"), [(4, 12), (8, 8), (3, 16), (0, 2), (17, 32), (2, 0)])
def test_impossible_fractions_are_refused(factors: int, runs: int) -> None:
    with pytest.raises(InputError, match=f"no fraction of {runs} runs has {factors} factors") as caught:
        fraction(factors, runs)
    assert caught.value.hint


def test_levels_are_integers() -> None:
    assert np.unique(fraction(6, 16).runs()).tolist() == [-1, 1]
