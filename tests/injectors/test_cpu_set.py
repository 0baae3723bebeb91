"""``cpu.set``: which processors, how it binds, and affinity where there is no cpuset."""

from __future__ import annotations

import dataclasses
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from insitu.injectors.actuator import Host
from insitu.injectors.contract import Setting, StopAndGo, Treatment
from insitu.injectors.cpu_set import CpuSet
from insitu.injectors.errors import NotSettable
from insitu.injectors.lifecycle import Verdict, check, verdict
from insitu.injectors.placement import COLUMN, Placement, Placements
from insitu.injectors.treatment import Intervention, joined
from tests.injectors.nodes import bare_node, node
from tests.injectors.test_levels import cpu_samples

SET = CpuSet()
ORDERED = dataclasses.replace(node(1, cpus=4), processors=(0, 2, 1, 3))
SLEEP = "import time; print(flush=True); time.sleep(60)"


def samples(rate: float, *, allowed: float | None = None, stalled: float = 0.0) -> dict[str, np.ndarray]:
    seen = cpu_samples(rate, throttled=0.0, stalled=stalled)
    return seen if allowed is None else seen | {COLUMN: np.full(len(seen["time_s"]), allowed)}


def judged(level: float, seen: dict[str, np.ndarray]) -> Verdict:
    return verdict(level, SET.achieved(level, seen, node(cpus=4)), SET)


@pytest.mark.parametrize(("level", "text"), [(1, "0"), (2, "0,2"), (3, "0-2"), (4, "0-3")])
def test_processors_are_taken_in_the_machine_s_order(level: float, text: str) -> None:
    chosen = {1: (0,), 2: (0, 2), 3: (0, 1, 2), 4: (0, 1, 2, 3)}[int(level)]
    old, new = SET.treatment(level, ORDERED), SET.treatment(level, dataclasses.replace(ORDERED, hierarchies=V2))
    assert old.settings == (Setting("cpuset", "cpuset.cpus", text, reads_back_in="cpuset.effective_cpus"),)
    assert new.settings == (Setting("cpuset", "cpuset.cpus", text, reads_back_in="cpuset.cpus.effective"),)
    assert old.parts == new.parts == (Placement(chosen),)


V2 = node(2).hierarchies


def test_without_a_cpuset_processes_are_pinned_and_that_is_named() -> None:
    assert SET.treatment(1, bare_node()) == Treatment(parts=(Placement((0,), pinned=True),))
    capability = SET.capability(bare_node())
    assert (capability.mechanism, capability.weaker) == ("sched-affinity", True)
    assert capability.reason
    assert "a kernel that has the cpuset (cpuset) controller" in capability.remedy
    assert SET.capability(ORDERED).mechanism == "cgroup1.cpuset"


@pytest.mark.parametrize("level", [0.5, 1.5, 5.0])
def test_only_whole_processors_that_there_are(level: float) -> None:
    with pytest.raises(NotSettable) as caught:
        check(Intervention(SET, level), ORDERED)
    assert f"cpu.set = {level:g} core is" in caught.value.message


def test_it_binds_while_the_subject_uses_the_processors_up() -> None:
    achieved = SET.achieved(2, samples(1.99, allowed=2), node(cpus=4))
    assert achieved.level == 2.0
    assert achieved.bound_share == pytest.approx(1.0)
    assert verdict(2, achieved, SET) is Verdict.HELD


def test_it_is_slack_for_a_subject_that_wants_less() -> None:
    achieved = SET.achieved(2, samples(1.0, allowed=2), node(cpus=4))
    assert achieved.level == pytest.approx(1.0)
    assert achieved.bound_share == 0.0
    assert verdict(2, achieved, SET) is Verdict.SLACK
    assert achieved.note == "what the subject used, which was never all of its processors"
    assert SET.achieved(math.inf, samples(1.0), node(cpus=4)).note == ""


def test_it_is_disturbed_where_others_run_on_the_same_processors() -> None:
    assert judged(2, samples(1.2, allowed=2, stalled=0.6)) is Verdict.DISTURBED


def test_own_threads_in_each_other_s_way_are_no_disturbance() -> None:
    assert judged(2, samples(1.99, allowed=2, stalled=0.9)) is Verdict.HELD


def test_a_subject_that_changes_its_affinity_makes_it_missed() -> None:
    achieved = SET.achieved(1, samples(1.9, allowed=2), node(cpus=4))
    assert verdict(1, achieved, SET) is Verdict.MISSED
    assert "its own affinity" in achieved.note
    assert judged(1, samples(0.3, allowed=2)) is Verdict.MISSED


def test_unset() -> None:
    assert judged(math.inf, samples(3.9)) is Verdict.UNSET


def test_a_duty_cycle_over_more_processors_than_the_set_has_is_refused() -> None:
    cycle = Treatment(stop_and_go=StopAndGo(0.05, 0.75, 2))
    assert joined([cycle, Treatment(parts=(Placement((0, 1), pinned=True),))]).stop_and_go is not None
    with pytest.raises(NotSettable, match="duty cycle over 2 processors"):
        joined([cycle, Treatment(parts=(Placement((0,), pinned=True),))])


# --- the actuator, on a real process ---------------------------------------------------------------------


@pytest.fixture
def process() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", SLEEP], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def test_a_process_is_pinned_and_what_it_may_use_is_seen(process: int) -> None:
    first = min(os.sched_getaffinity(process))
    actuator, part = Placements(), Placement((first,), pinned=True)
    host = Host(process, {}, Path("/"), 60.0)
    assert actuator.describe(part, "name") == (f"sched_setaffinity = {first}",)
    assert actuator.undos(part, "name") == ()
    with actuator.hold(part, "name", host) as watched:
        assert os.sched_getaffinity(process) == {first}
        allowed = watched.columns()[COLUMN]
        assert allowed() == 1.0
        os.sched_setaffinity(process, os.sched_getaffinity(0))
        assert allowed() == len(os.sched_getaffinity(0))


def test_a_process_in_a_cpuset_is_only_watched(process: int) -> None:
    before = os.sched_getaffinity(process)
    with Placements().hold(Placement((0,)), "name", Host(process, {}, Path("/"), 60.0)) as watched:
        assert os.sched_getaffinity(process) == before
        assert watched.columns()[COLUMN]() == len(before)


def test_processors_that_are_not_there_cannot_be_had(process: int) -> None:
    with (
        pytest.raises(NotSettable, match="cannot pin"),
        Placements().hold(Placement((1023,), pinned=True), "name", Host(process, {}, Path("/"), 60.0)),
    ):
        pass


def test_a_process_that_has_ended_counts_as_nothing() -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
        with Placements().hold(Placement((0,)), "name", Host(ended.pid, {}, Path("/"), 60.0)) as watched:
            assert math.isnan(watched.columns()[COLUMN]())
