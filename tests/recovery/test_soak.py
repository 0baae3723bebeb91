"""A short soak on every test run; the long one is a command of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.recovery.soak.__main__ import soak
from tests.recovery.soak.killing import CLEAN_WITHIN_S


@pytest.mark.root
def test_whatever_is_killed_nothing_stays(tmp_path: Path) -> None:
    tally, new, before, after = soak(15, 7, tmp_path)
    assert tally.kills >= 15
    assert tally.trials > 0
    assert tally.dirty == []
    assert new == []
    assert before == after
    assert tally.slowest_s <= CLEAN_WITHIN_S + 1.0  # the process table of a slow machine
