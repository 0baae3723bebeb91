"""``cache.page`` on made-up samples; the pages themselves are tested with trials."""

from __future__ import annotations

import numpy as np
import pytest

from insitu.injectors.contract import Achieved
from insitu.injectors.errors import NotSettable
from insitu.injectors.input_cache import InputInMemory
from insitu.injectors.lifecycle import Verdict, check, verdict
from insitu.injectors.treatment import Intervention
from tests.injectors.nodes import bare_node, node

CACHE = InputInMemory()


@pytest.mark.parametrize(
    ("level", "share", "expected"),
    [
        (0.0, 0.0, Verdict.HELD),
        (0.0, 0.019, Verdict.HELD),
        (0.0, 0.03, Verdict.MISSED),
        (1.0, 1.0, Verdict.HELD),
        (1.0, 0.9, Verdict.MISSED),
        (0.5, 0.51, Verdict.HELD),
        (0.5, 0.6, Verdict.MISSED),
    ],
)
def test_a_share_is_held_or_missed_cold_and_warm_alike(level: float, share: float, expected: Verdict) -> None:
    samples = {"time_s": np.arange(3.0), "input_in_memory": np.full(3, share)}
    assert verdict(level, CACHE.achieved(level, samples, node()), CACHE) is expected


def test_without_an_input_there_is_nothing_to_say() -> None:
    assert CACHE.achieved(0.0, {"time_s": np.arange(3.0)}, node()) == Achieved(
        None, 0, 0, note="there was no input"
    )


def test_every_level_asks_for_something() -> None:
    assert CACHE.rest is None
    for level in (0.0, 0.5, 1.0):
        assert not Intervention(CACHE, level).at_rest
        assert CACHE.treatment(level, node()).input_in_memory == level
    assert CACHE.words == {"cold": 0.0, "warm": 1.0}


@pytest.mark.parametrize("level", [-0.1, 1.1, float("inf"), float("nan")])
def test_no_other_shares(level: float) -> None:
    with pytest.raises(NotSettable):
        check(Intervention(CACHE, level), node())


def test_it_needs_no_privilege() -> None:
    assert CACHE.capability(bare_node()).mechanism == "fadvise"
