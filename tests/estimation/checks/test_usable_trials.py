"""Which trials can show an independence, when the design set some variables in some of them."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.orchestrator.causal.independencies import Independence
from insitu.orchestrator.estimation.checks.usable_trials import usable_trials
from tests.causal.graphs import drawn


def usable(text: str, statement: Independence, *held: str) -> tuple[str, str] | None:
    """Kinds of trial that can be used, and what is held equal, as text; each kind by the letters that it sets."""
    found = usable_trials(drawn(text), statement, [frozenset(one) for one in held])
    if found is None:
        return None
    kinds = [kind or "-" for kind, kept in zip(held, found.trials, strict=True) if kept]
    return " ".join(kinds), "".join(found.given)


CHAIN = "x -> m -> y"


def test_trials_that_set_nothing_can_all_be_used() -> None:
    assert usable(CHAIN, Independence("x", "y", ("m",)), "", "", "") == ("- - -", "m")


def test_a_cause_may_be_set_and_so_may_what_is_held_equal() -> None:
    assert usable(CHAIN, Independence("x", "y", ("m",)), "x", "m", "xm", "") == ("x m xm -", "m")


def test_trials_that_set_the_effect_are_left_out_unless_what_else_is_set_is_held_equal() -> None:
    """The design that chose y may have chosen x along with it."""
    assert usable(CHAIN, Independence("x", "y", ("m",)), "x", "xy", "") == ("x -", "m")
    assert usable(CHAIN, Independence("x", "y", ("m",)), "xy", "xy") is None


def test_what_the_design_set_beside_the_two_is_held_equal() -> None:
    """Levels of x may go with levels of z, and so with y; its causes are held equal anyway."""
    graph = "z -> y, x -> w"
    assert usable(graph, Independence("x", "y"), "xz", "xz") == ("xz xz", "z")
    assert usable(graph, Independence("x", "y"), "x", "x") == ("x x", "z")


def test_two_variables_that_the_design_chose_say_nothing_of_the_graph() -> None:
    assert usable("x -> y, z -> y", Independence("x", "z"), "xz", "xz", "xz") is None
    assert usable("x -> y, z -> y", Independence("x", "z"), "xz", "x", "x", "z") == ("x x", "")


def test_a_collider_that_was_set_in_some_trials_is_no_longer_one_there() -> None:
    """At equal c the two are dependent where c follows them; trials are taken that leave the statement true."""
    graph = "x -> c <- y"
    assert usable(graph, Independence("x", "y"), "c", "", "c") == ("c - c", "")
    assert usable(graph, Independence("x", "y"), "xc", "x") == ("xc x", "")


def test_hidden_causes_link_what_is_not_set() -> None:
    graph = "x -> m -> y, m <-> y"
    assert usable(graph, Independence("x", "y", ("m",)), "m", "m") == ("m m", "m")
    assert usable(graph, Independence("x", "y", ("m",)), "", "") is None
    # where only some trials set m, those that do not are left linked: no choice by what is left out helps here
    assert usable(graph, Independence("x", "y", ("m",)), "m", "") is None


@pytest.mark.parametrize("seed", range(5))
def test_what_can_be_used_is_independent_in_simulated_trials(seed: int) -> None:
    """A chain with a throttle on the middle in half of the trials, its level chosen along with x by the design."""
    rng = np.random.default_rng(seed)
    n = 4000
    set_m = rng.random(n) < 0.5
    x = rng.normal(size=n)
    m = np.where(set_m, 0.8 * x + 0.6 * rng.normal(size=n) + 1, x + rng.normal(size=n))
    y = m + rng.normal(size=n)
    found = usable_trials(
        drawn(CHAIN), Independence("x", "y", ("m",)), [frozenset("xm") if one else frozenset("x") for one in set_m]
    )
    assert found is not None
    assert found.trials.all()
    rows = np.column_stack([np.ones(n), m])
    left = [one - rows @ np.linalg.lstsq(rows, one, rcond=None)[0] for one in (x, y)]
    assert abs(np.corrcoef(*left)[0, 1]) < 0.05
