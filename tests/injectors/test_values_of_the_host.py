"""Values of the host in the life cycle: journalled, written, read back, put back; made-up files stand for them."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from insitu.injectors import lifecycle
from insitu.injectors.actuator import Host
from insitu.injectors.contract import HostValue, Node, Treatment
from insitu.injectors.cpufreq import policies
from insitu.injectors.errors import ForeignState, InjectorError, NotSettable, UndoFailed
from insitu.injectors.frequency import CpuFrequency
from insitu.injectors.journal import Header, Journal, boot_id, read
from insitu.injectors.lifecycle import Reserved
from insitu.injectors.processes import start_time
from insitu.injectors.recovery import recover_journal
from insitu.injectors.treatment import Intervention
from insitu.injectors.undo import UndoKind
from tests.injectors.nodes import bare_node
from tests.injectors.test_frequency import tree

RUN = f"valuetest{os.getpid()}"
NAME = f"insitu-{RUN}-t1"


@pytest.fixture
def header() -> Header:
    return Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "")


@pytest.fixture
def journal(state: Path, header: Header) -> Iterator[Journal]:
    with Journal(state, header) as journal:
        yield journal


@pytest.fixture
def here(tmp_path: Path) -> Node:
    """A machine with two frequency policies, 1.2 to 2.5 GHz, and no groups."""
    root = tree(tmp_path / "cpufreq")
    return dataclasses.replace(bare_node(), privileged=True, frequencies=policies((0, 1, 2, 3), root))


def hold(on: Node, journal: Journal, *interventions: Intervention) -> AbstractContextManager[Reserved]:
    steps = lifecycle.plan_hold(interventions, on, name=NAME, controllers=(), limits=(), folders=(), actuators={})
    return lifecycle.hold(steps, journal)


def bounds(on: Node) -> dict[str, str]:
    """What the files of both policies read."""
    return {
        f"{Path(one.path).name}/{name}": Path(one.path, name).read_text().strip()
        for one in on.frequencies
        for name in ("scaling_min_freq", "scaling_max_freq")
    }


def no_sandbox() -> Host:
    raise AssertionError("a value of the host needs no sandbox")


@pytest.mark.parametrize("level", [1e9, 2e9, 2.8e9])
def test_frequencies_are_journalled_then_written_then_put_back(here: Node, journal: Journal, level: float) -> None:
    before = bounds(here)
    with hold(here, journal, Intervention(CpuFrequency(), level)) as reserved:
        assert bounds(here) == before
        pending = read(journal.path).pending
        assert {undo.kind for undo in pending} == {UndoKind.VALUE}
        assert {undo.path: undo.prior.strip() for undo in pending} == {
            f"{Path(here.frequencies[0].path).parent}/{name}": text for name, text in before.items()
        }
        text = f"{level / 1e3:.0f}"
        assert f"scaling_max_freq = {text}" in journal.path.read_text()
        reserved.apply(no_sandbox)
        assert set(bounds(here).values()) == {text}
    assert bounds(here) == before
    assert read(journal.path).pending == ()


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_whatever_happens_they_are_put_back(here: Node, journal: Journal, error: type[BaseException]) -> None:
    before = bounds(here)

    def body() -> None:
        with hold(here, journal, Intervention(CpuFrequency(), 2e9)) as reserved:
            reserved.apply(no_sandbox)
            raise error

    with pytest.raises(error):
        body()
    assert bounds(here) == before
    assert read(journal.path).pending == ()


class Crash(Exception):
    """Stands for the end of the process: nothing of ours runs after it."""


def test_after_a_crash_recovery_puts_them_back(
    here: Node, state: Path, header: Header, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = bounds(here)
    journal = Journal(state, dataclasses.replace(header, owner_start="0"))  # an owner that is not alive

    def body() -> None:
        with hold(here, journal, Intervention(CpuFrequency(), 2e9)) as reserved:
            reserved.apply(no_sandbox)
            monkeypatch.setattr(lifecycle, "carry_out_all", lambda *_: (_ for _ in ()).throw(Crash))

    with pytest.raises(Crash):
        body()
    assert set(bounds(here).values()) == {"2000000"}
    journal.close()
    outcome = recover_journal(journal.path)
    assert not outcome.failures
    assert bounds(here) == before
    assert not journal.path.exists()


def test_a_value_that_somebody_else_sets_meanwhile_is_left_to_them(here: Node, journal: Journal) -> None:
    file = Path(here.frequencies[0].path, "scaling_max_freq")

    def body() -> None:
        with hold(here, journal, Intervention(CpuFrequency(), 2e9)) as reserved:
            file.write_text("2400000\n")
            reserved.apply(no_sandbox)

    with pytest.raises(ForeignState, match="somebody else sets it"):
        body()
    assert file.read_text() == "2400000\n"


def test_a_value_that_somebody_else_changes_during_the_trial_makes_the_node_dirty(
    here: Node, journal: Journal
) -> None:
    file = Path(here.frequencies[0].path, "scaling_max_freq")

    def body() -> None:
        with hold(here, journal, Intervention(CpuFrequency(), 2e9)) as reserved:
            reserved.apply(no_sandbox)
            file.write_text("1900000\n")

    with pytest.raises(UndoFailed, match="somebody else has changed it"):
        body()
    assert file.read_text() == "1900000\n"
    others = {name: text for name, text in bounds(here).items() if name != "policy0/scaling_max_freq"}
    assert set(others.values()) == {"1200000", "2500000"}
    assert read(journal.path).pending
    for number in range(2):
        journal.done(number)


class Stubborn(CpuFrequency):
    """Sets a value that reads back otherwise."""

    def treatment(self, level: float, node: Node) -> Treatment:
        path = f"{node.frequencies[0].path}/scaling_max_freq"
        return Treatment(host_values=(HostValue(path, "2000000", reads_back="2000001"),))


class Absent(CpuFrequency):
    """Sets a value that is not there."""

    def treatment(self, level: float, node: Node) -> Treatment:
        return Treatment(host_values=(HostValue(f"{node.frequencies[0].path}/no_such_file", "1"),))


def test_a_value_must_read_back(here: Node, journal: Journal) -> None:
    before = bounds(here)
    with pytest.raises(InjectorError, match="reads back '2000000'"):
        _apply(here, journal, Stubborn())
    assert bounds(here) == before
    assert read(journal.path).pending == ()


def test_a_value_that_is_not_there_cannot_be_set(here: Node, journal: Journal) -> None:
    with pytest.raises(NotSettable, match=r"cannot read .*no_such_file"):
        _apply(here, journal, Absent())
    assert read(journal.path).pending == ()


def _apply(here: Node, journal: Journal, injector: CpuFrequency) -> None:
    with hold(here, journal, Intervention(injector, 2e9)) as reserved:
        reserved.apply(no_sandbox)
