from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from insitu.injectors.actuator import Host
from insitu.injectors.anomalies.actuator import LoadActuator
from insitu.injectors.anomalies.load import Load, Loads
from insitu.injectors.contract import Node
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease
from insitu.injectors.node import survey
from insitu.injectors.processes import start_time
from insitu.injectors.undo import carry_out_all
from tests.injectors.anomalies.held import RUN, Held

Hold = Callable[..., AbstractContextManager[Held]]


@pytest.fixture
def journal(state: Path) -> Iterator[Journal]:
    header = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "")
    with Journal(state, header) as journal, Lease(journal):  # its guard undoes, if the tests are killed
        yield journal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where loads of the disk put their files."""
    return tmp_path


@pytest.fixture
def here(folder: Path) -> Node:
    return survey(folder)


@pytest.fixture
def actuator(here: Node, folder: Path, journal: Journal) -> Iterator[LoadActuator]:
    with closing(LoadActuator(here, folder, journal, margin_s=30.0)) as actuator:
        yield actuator


@pytest.fixture
def hold(actuator: LoadActuator, folder: Path, journal: Journal) -> Hold:
    """Hold loads as `lifecycle` does, and see that nothing of them is left afterwards."""

    @contextmanager
    def hold(*loads: Load, longest_s: float = 30.0) -> Iterator[Held]:
        part, name = Loads(loads), f"insitu-{RUN}-t1"
        undos = actuator.undos(part, name)
        intent = journal.intend(undos, actuator.describe(part, name))
        host = Host(os.getpid(), {}, folder, longest_s)
        pids: tuple[int, ...] = ()
        try:
            with actuator.hold(part, name, host) as in_force:
                held = Held(name, in_force)
                pids = held.workers
                assert all(map(start_time, pids))
                yield held
        finally:
            assert not any(map(start_time, pids))
            assert not any(Path(undo.path).exists() for undo in undos)
            assert carry_out_all(undos, journal.header.ownership) == ()
            journal.done(intent)

    return hold
