"""One life cycle for all interventions: what is held reads back, and whatever happens is undone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from insitu.injectors.actuator import Host
from insitu.injectors.cgroups import PRESSURE
from insitu.injectors.contract import Achieved, Capability, Node, Setting, Treatment
from insitu.injectors.cpu import CpuCores
from insitu.injectors.disk import DiskReadRate, DiskWriteRate
from insitu.injectors.errors import ForeignState, InjectorError, NotSettable, UndoFailed
from insitu.injectors.journal import Header, Journal, boot_id, read
from insitu.injectors.lease import Lease
from insitu.injectors.lifecycle import Reserved, Verdict, check, hold, plan_hold, verdict
from insitu.injectors.node import survey
from insitu.injectors.processes import start_time
from insitu.injectors.treatment import Intervention
from insitu.injectors.undo import UndoKind
from tests.injectors.nodes import bare_node, node, on_a_disk

CONTROLLERS = ("cpu", "cpuacct", "io", "memory", "pids", PRESSURE)
RUN = f"lifecycletest{os.getpid()}"
NAME = f"insitu-{RUN}-t1"


@pytest.fixture
def journal(state: Path) -> Iterator[Journal]:
    header = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "")
    with Journal(state, header) as journal, Lease(journal):
        yield journal


@pytest.fixture
def here(tmp_path: Path) -> Node:
    return survey(on_a_disk(tmp_path))


class Unreadable(CpuCores):
    """Writes a value that the kernel rounds to pages, and expects to read what it wrote."""

    def treatment(self, level: float, node: Node) -> Treatment:
        file = "memory.limit_in_bytes" if node.hierarchies.version["memory"] == 1 else "memory.max"
        return Treatment((Setting("memory", file, "1000001"),))


class Impossible(CpuCores):
    """Writes what the kernel refuses, after something that it takes: a quota of less than a millisecond."""

    def treatment(self, level: float, node: Node) -> Treatment:
        file = "cpu.cfs_quota_us" if node.hierarchies.version["cpu"] == 1 else "cpu.max"
        return Treatment((*super().treatment(level, node).settings, Setting("cpu", file, "1")))


class Silent(CpuCores):
    def capability(self, node: Node) -> Capability:
        return Capability(self.variable, self.unit, "", 0, 0, reason="it is Sunday", remedy="wait a day")


@pytest.mark.parametrize(
    ("level", "words"),
    [
        (0.001, ["cpu.cores = 0.001 core", "0.01 core to 2 core"]),
        (2.5, ["2.5"]),
        (0.0, ["out of reach"]),
        (-1.0, ["out of reach"]),
        (float("nan"), ["out of reach"]),
    ],
)
def test_a_level_out_of_range_is_not_settable_and_the_range_is_given(level: float, words: list[str]) -> None:
    with pytest.raises(NotSettable) as caught:
        check(Intervention(CpuCores(), level), node())
    assert all(word in caught.value.message for word in words)
    assert caught.value.remedy


def test_what_a_node_cannot_set_is_refused_with_reason_and_remedy_unless_nothing_is_asked_for() -> None:
    with pytest.raises(NotSettable) as caught:
        check(Intervention(Silent(), 1.0), node())
    assert "it is Sunday" in caught.value.message
    assert caught.value.remedy == "wait a day"
    assert not check(Intervention(Silent(), float("inf")), node()).settable


def no_sandbox() -> Host:
    raise AssertionError("a control file needs no sandbox")


def enter(
    interventions: list[Intervention], on: Node, journal: Journal, folders: tuple[Path, ...] = ()
) -> AbstractContextManager[Reserved]:
    steps = plan_hold(
        interventions,
        on,
        name=NAME,
        controllers=CONTROLLERS,
        limits=(Setting("pids", "pids.max", "33"),),
        folders=folders,
        actuators={},
    )
    return hold(steps, journal)


@pytest.mark.root
def test_levels_are_journalled_then_applied_then_gone(here: Node, journal: Journal, tmp_path: Path) -> None:
    folder = tmp_path / NAME
    held = [Intervention(CpuCores(), 0.25), Intervention(DiskReadRate(), float("inf"))]
    with enter(held, here, journal, (folder,)) as reserved:
        pending = read(journal.path).pending
        assert {undo.path for undo in pending} == {str(folder), *map(str, reserved.group.values())}
        assert {undo.kind for undo in pending} == {UndoKind.FOLDER, UndoKind.CGROUP}
        assert "quota_us = 5000" in journal.path.read_text() or "cpu.max = 5000" in journal.path.read_text()
        (folder / "deep").mkdir(parents=True)
        assert (reserved.group["pids"] / "pids.max").read_text() == "33\n"
        assert reserved.apply(no_sandbox).stop_and_go is None
        if here.hierarchies.version["cpu"] == 1:
            assert (reserved.group["cpu"] / "cpu.cfs_quota_us").read_text() == "5000\n"
            assert (reserved.group["cpu"] / "cpu.cfs_period_us").read_text() == "20000\n"
        else:
            assert (reserved.group["cpu"] / "cpu.max").read_text() == "5000 20000\n"
        for file in reserved.join_files:
            assert Path(file).read_text() == ""
    assert not any(path.exists() for path in (folder, *reserved.group.values()))
    assert read(journal.path).pending == ()


@pytest.mark.root
def test_a_disk_throttle_reads_back(here: Node, journal: Journal) -> None:
    for injector in (DiskReadRate(), DiskWriteRate()):
        if here.device is None or not injector.capability(here).settable:
            pytest.skip(f"no disk throttle here: {injector.capability(here).reason}")
    held = [Intervention(DiskReadRate(), 10e6), Intervention(DiskWriteRate(), 20e6)]
    with enter(held, here, journal) as reserved:
        reserved.apply(no_sandbox)
        text = " ".join(path.read_text() for path in reserved.group["io"].glob("*bps_device"))
        text += " ".join(path.read_text() for path in reserved.group["io"].glob("io.max"))
        assert here.device is not None
        assert here.device.number in text
        assert "10000000" in text
        assert "20000000" in text


@pytest.mark.root
def test_the_subject_of_a_group_ends_with_it(here: Node, journal: Journal) -> None:
    join = "import sys, time\nfor path in sys.argv[1:]: open(path, 'w').write('0')"
    code = f"{join}\nprint(flush=True); time.sleep(60)"
    with enter([], here, journal) as reserved:
        process = subprocess.Popen(
            [sys.executable, "-c", code, *reserved.join_files], stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "\n"
    process.communicate(timeout=10)
    assert process.returncode == -9


@pytest.mark.root
@pytest.mark.parametrize(
    ("injector", "error", "says"),
    [(Impossible(), NotSettable, "cannot write '1'"), (Unreadable(), InjectorError, "reads back")],
)
def test_a_failure_in_the_middle_undoes_everything(
    here: Node, journal: Journal, injector: CpuCores, error: type[InjectorError], says: str
) -> None:
    groups: list[Path] = []

    def body() -> None:
        with enter([Intervention(injector, 0.5)], here, journal) as reserved:
            groups.extend(reserved.group.values())
            reserved.apply(no_sandbox)

    with pytest.raises(error, match=says):
        body()
    assert groups
    assert not any(path.exists() for path in groups)
    assert read(journal.path).pending == ()


@pytest.mark.root
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_an_exception_in_the_body_passes_and_everything_is_undone(
    here: Node, journal: Journal, tmp_path: Path, error: type[BaseException]
) -> None:
    folder = tmp_path / NAME
    groups: list[Path] = []

    def body() -> None:
        with enter([Intervention(CpuCores(), 0.5)], here, journal, (folder,)) as reserved:
            groups.extend(reserved.group.values())
            folder.mkdir()
            raise error

    with pytest.raises(error):
        body()
    assert groups
    assert not any(path.exists() for path in (*groups, folder))
    assert read(journal.path).pending == ()


@pytest.mark.root
def test_a_group_that_exists_already_is_refused_and_left_as_it_is(here: Node, journal: Journal) -> None:
    foreign = here.hierarchies.parents["pids"] / NAME
    foreign.mkdir()
    try:
        with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as member:
            try:
                (foreign / "cgroup.procs").write_text(str(member.pid))
                with pytest.raises(ForeignState), enter([], here, journal):
                    pass
                assert (foreign / "cgroup.procs").read_text().split() == [str(member.pid)]
            finally:
                member.kill()
        assert read(journal.path).pending == ()
        others = {parent / NAME for parent in here.hierarchies.parents.values()} - {foreign}
        assert not any(path.exists() for path in others)
        assert others or here.hierarchies.version["cpu"] == 2
    finally:
        foreign.rmdir()


@pytest.mark.root
def test_a_failed_undo_is_an_error_the_others_are_carried_out_and_the_journal_keeps_them(
    here: Node, journal: Journal, tmp_path: Path
) -> None:
    stuck, folder = tmp_path / NAME, tmp_path / f"{NAME}-2"
    groups: list[Path] = []

    def body() -> None:
        with enter([], here, journal, (stuck, folder)) as reserved:
            groups.extend(reserved.group.values())
            stuck.symlink_to(tmp_path)
            folder.mkdir()

    with pytest.raises(UndoFailed, match="is a link"):
        body()
    assert groups
    assert not any(path.exists() for path in (*groups, folder))
    assert str(stuck) in {undo.path for undo in read(journal.path).pending}
    for number in (0, 1):  # the group, and what stands on it
        journal.done(number)


def test_without_groups_a_duty_cycle_is_handed_on(journal: Journal, tmp_path: Path) -> None:
    with enter([Intervention(CpuCores(), 0.5)], bare_node(), journal) as reserved:
        assert reserved.group == {}
        assert reserved.join_files == ()
        cycle = reserved.apply(no_sandbox).stop_and_go
        assert cycle is not None
        assert cycle.share == 0.5


def test_two_duty_cycles_of_one_subject_are_refused(journal: Journal) -> None:
    both = [Intervention(CpuCores(), 0.5), Intervention(CpuCores(), 0.4)]
    with pytest.raises(NotSettable, match="duty cycle"), enter(both, bare_node(), journal):
        pass
    assert read(journal.path).pending == ()


class TestVerdict:
    @pytest.mark.parametrize(
        ("level", "achieved", "bound", "starved", "expected"),
        [
            (float("inf"), None, 0.0, True, Verdict.UNSET),
            (1.0, 1.0, 1.0, True, Verdict.DISTURBED),
            (1.0, 0.2, 0.0, True, Verdict.DISTURBED),
            (1.0, None, 0.0, False, Verdict.SLACK),
            (1.0, 0.4, 0.0, False, Verdict.SLACK),
            (1.0, 1.0299, 0.1, False, Verdict.HELD),
            (1.0, 0.9701, 0.1, False, Verdict.HELD),
            (1.0, 1.0301, 0.1, False, Verdict.MISSED),
            (1.0, 0.9699, 1.0, False, Verdict.MISSED),
        ],
    )
    def test_each_has_its_case(
        self, level: float, achieved: float | None, bound: float, starved: bool, expected: Verdict
    ) -> None:
        seen = Achieved(achieved, bound, 0.0, starved)
        assert verdict(level, seen, CpuCores()) is expected

    def test_what_the_samples_cannot_resolve_is_allowed(self) -> None:
        seen = Achieved(1.1, 1.0, uncertainty=0.08)
        assert verdict(1.0, seen, CpuCores()) is Verdict.HELD
