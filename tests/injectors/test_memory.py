"""``memory.limit`` and ``memory.high`` on made-up machines and samples."""

from __future__ import annotations

import dataclasses
import math
import mmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.injectors.contract import Injector, Probe, Setting
from insitu.injectors.lifecycle import Verdict, verdict
from insitu.injectors.memory import MemoryHigh, MemoryLimit
from tests.injectors.nodes import bare_node, node

LIMIT, HIGH = MemoryLimit(), MemoryHigh()
STEP_S = 0.025
PAGES = 64_000_000 // mmap.PAGESIZE * mmap.PAGESIZE
"""64 MB, rounded down to whole pages as the kernel does."""


def samples(held: list[float], **columns: list[float]) -> dict[str, np.ndarray]:
    """Memory held at each sample, and other columns."""
    plain = {
        "time_s": np.arange(len(held)) * STEP_S,
        "memory_bytes": np.array(held, dtype=float),
        "memory_stall_s": np.zeros(len(held)),
    }
    return plain | {name: np.array(column, dtype=float) for name, column in columns.items()}


def judged(injector: Injector, level: float, **seen: np.ndarray) -> Verdict:
    return verdict(level, injector.achieved(level, seen, node()), injector)


def test_a_limit_that_was_reached_is_held() -> None:
    seen = samples([0, 30e6, 63.9e6, 63.9e6, 63.9e6])
    achieved = LIMIT.achieved(64e6, seen, node())
    assert achieved.level == 63.9e6
    assert achieved.bound_share == pytest.approx(0.75)
    assert verdict(64e6, achieved, LIMIT) is Verdict.HELD


def test_a_limit_that_was_never_reached_is_slack() -> None:
    seen = samples([0, 30e6, 40e6, 40e6])
    achieved = LIMIT.achieved(64e6, seen, node())
    assert (achieved.level, achieved.bound_share) == (40e6, 0.0)
    assert verdict(64e6, achieved, LIMIT) is Verdict.SLACK


def test_a_limit_that_was_reached_between_two_samples_is_told_by_the_mark() -> None:
    seen = samples([0, 30e6, 40e6, 40e6], memory_peak_bytes=[1e6, 30e6, 63.99e6, 63.99e6])
    achieved = LIMIT.achieved(64e6, seen, node())
    assert achieved.level == 63.99e6
    assert 0 < achieved.bound_share < 0.5
    assert verdict(64e6, achieved, LIMIT) is Verdict.HELD


def test_a_mark_that_never_rose_is_of_the_preparation() -> None:
    seen = samples([0, 30e6, 40e6], memory_peak_bytes=[90e6, 90e6, 90e6])
    assert LIMIT.achieved(64e6, seen, node()).level == 40e6
    assert judged(LIMIT, 64e6, **seen) is Verdict.SLACK


def test_a_limit_that_did_not_hold_is_missed() -> None:
    assert judged(LIMIT, 64e6, **samples([0, 63e6, 70e6, 70e6])) is Verdict.MISSED


def test_what_the_kernel_says_of_its_limit_counts() -> None:
    seen = samples([0, 30e6, 40e6, 30e6], memory_limit_hits=[0, 0, 3, 3])
    assert LIMIT.achieved(64e6, seen, node()).bound_share == pytest.approx(1 / 3)


MANY = 256
"""Processors, which may have charged 64 MB in advance."""


@pytest.mark.parametrize("held", [40e6, 63.9e6])
def test_where_the_kernel_counts_attempts_to_go_beyond_it_fullness_is_no_sign_of_a_limit(held: float) -> None:
    never = samples([0, 30e6, held, held], memory_limit_hits=[0] * 4, memory_peak_bytes=[0, 30e6, held, held])
    for injector in (LIMIT, HIGH):
        achieved = injector.achieved(64e6, never, node(2, cpus=MANY))
        assert verdict(64e6, achieved, injector) is Verdict.SLACK
        assert (achieved.level, achieved.bound_share) == (held, 0.0)
    assert LIMIT.achieved(64e6, never, node(1, cpus=MANY)).bound_share > 0  # which counts none


def test_where_the_kernel_counts_attempts_they_and_what_is_taken_back_for_them_bind() -> None:
    stalls = [0, 0, 0, 0.01, 0.02, 0.02]
    seen = samples([0, 63.9e6, 64e6, 60e6, 60e6, 60e6], memory_limit_hits=[0, 0, 2, 2, 2, 2])
    achieved = LIMIT.achieved(64e6, seen | {"memory_stall_s": np.array(stalls)}, node(2, cpus=MANY))
    assert achieved.bound_share == pytest.approx(3 / 5)
    assert not achieved.starved
    assert verdict(64e6, achieved, LIMIT) is Verdict.HELD


def test_taking_pages_back_under_a_limit_is_the_limit_s_own_doing() -> None:
    stalls = list(np.arange(8) * 0.5 * STEP_S)
    seen = samples([0, 64e6, *[50e6] * 6], memory_stall_s=[0, *stalls[:-1]])
    achieved = LIMIT.achieved(64e6, seen, node())
    assert not achieved.starved
    assert achieved.bound_share == 1.0


def test_a_machine_that_is_short_of_memory_disturbs() -> None:
    seen = samples([10e6] * 8, memory_stall_s=list(np.arange(8) * 0.5 * STEP_S))
    achieved = LIMIT.achieved(64e6, seen, node())
    assert verdict(64e6, achieved, LIMIT) is Verdict.DISTURBED
    assert achieved.note == "the machine was short of memory"


def test_without_a_limit_the_level_is_what_was_held() -> None:
    achieved = LIMIT.achieved(math.inf, samples([0, 30e6, 20e6]), node())
    assert (achieved.level, achieved.bound_share) == (30e6, 0.0)


@given(st.floats(8e6, 1e12), st.floats(0.2, 1.0))
def test_a_limit_is_held_or_slack_and_nothing_between(level: float, share: float) -> None:
    seen = samples([0.0, 0.5 * share * level, share * level])
    outcome = judged(LIMIT, level, **seen)
    batch = 64 * mmap.PAGESIZE * node().cpus
    full = share >= 0.97 or share * level >= max(level - batch, 0.5 * level)
    assert outcome is (Verdict.HELD if full else Verdict.SLACK)


def test_a_high_mark_is_the_middle_of_the_time_in_which_it_was_reached() -> None:
    seen = samples([0, 64e6, 66e6, 65e6, 30e6, 30e6, 30e6])
    achieved = HIGH.achieved(64e6, seen, node(2))
    assert achieved.level == 65e6
    assert verdict(64e6, achieved, HIGH) is Verdict.HELD
    assert judged(HIGH, 64e6, **samples([0, 80e6, 80e6, 80e6])) is Verdict.MISSED


def test_settings_of_version_1_hold_swap_too_where_it_is_counted() -> None:
    plain = Setting("memory", "memory.limit_in_bytes", str(PAGES))
    swap = Setting("memory", "memory.memsw.limit_in_bytes", str(PAGES))
    assert LIMIT.treatment(64e6 + 4095, node(1)).settings == (plain,)
    assert LIMIT.treatment(64e6, dataclasses.replace(node(1), swap_accounted=True)).settings == (plain, swap)


def test_settings_of_version_2() -> None:
    plain, swap = Setting("memory", "memory.max", str(PAGES)), Setting("memory", "memory.swap.max", "0")
    assert LIMIT.treatment(64e6, node(2)).settings == (plain,)
    assert LIMIT.treatment(64e6, dataclasses.replace(node(2), swap_accounted=True)).settings == (plain, swap)
    assert HIGH.treatment(64e6, node(2)).settings == (Setting("memory", "memory.high", str(PAGES)),)
    assert LIMIT.probes(node(2)) == (Probe("memory_limit_hits", "memory.events", "memory", key="max"),)
    assert HIGH.probes(node(2)) == (Probe("memory_limit_hits", "memory.events", "memory", key="high"),)


def test_version_1_has_no_high_mark_and_nothing_takes_its_place() -> None:
    capability = HIGH.capability(node(1))
    assert not capability.settable
    assert capability.reason == "cgroup version 1 has no memory.high"
    assert "version 2" in capability.remedy
    assert HIGH.capability(node(2)).mechanism == "cgroup2.memory.high"


def test_mechanisms_and_reach() -> None:
    assert LIMIT.capability(node(1)).mechanism == "cgroup1.memory.limit"
    assert LIMIT.capability(node(2)).mechanism == "cgroup2.memory.max"
    assert LIMIT.capability(dataclasses.replace(node(1), memory_bytes=8e9)).high == 8e9
    refused = LIMIT.capability(bare_node())
    assert not refused.settable
    assert refused.reason == "this kernel offers no memory controller"
