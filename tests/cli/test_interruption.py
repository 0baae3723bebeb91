"""A signal ends a command, whatever it finds it at."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.processes import start_time
from insitu.injectors.undo import Undo, UndoKind
from insitu.orchestrator import experiment
from insitu.orchestrator.cli import execution
from insitu.orchestrator.cli.interruption import Interruption
from insitu.orchestrator.errors import NodeDirty
from insitu.orchestrator.execution import cluster
from tests import plans

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


@pytest.fixture(autouse=True)
def not_ignored() -> Iterator[None]:
    """None of them is ignored, as some are in the background of a script."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_it_is_as_ctrl_c(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), Interruption():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) is before


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("second", SIGNALS)
def test_a_second_one_does_not_break_off_the_clean_up(number: signal.Signals, second: signal.Signals) -> None:
    cleaned: list[bool] = []

    def work() -> None:
        try:
            os.kill(os.getpid(), number)
        finally:
            os.kill(os.getpid(), second)
            cleaned.append(True)

    with pytest.raises(KeyboardInterrupt), Interruption() as interruption:
        work()
    assert cleaned == [True]
    with pytest.raises(KeyboardInterrupt):
        interruption.check()


@pytest.mark.root
def test_a_node_is_not_called_clean_while_a_journal_of_the_run_is_left(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A first signal finds the clean-up at what cannot be taken up again."""

    @contextmanager
    def broken_off(run: str, *_: object) -> Iterator[None]:
        left = Journal(state, Header(run, os.getpid(), start_time(os.getpid()), boot_id(), ""))
        left.intend([Undo(UndoKind.FOLDER, f"/nowhere/insitu-{run}-ray-0")])
        left.close()
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(cluster, "local_cluster", broken_off)
    loaded, blueprint = experiment.read(plans.write(tmp_path / "plan"))
    prepared = experiment.prepare(loaded, blueprint, tmp_path, None)
    with pytest.raises(NodeDirty, match="interrupted while it cleaned up") as caught:
        execution.begin(prepared, tmp_path / "run", quiet=True)
    (journal,) = state.iterdir()
    assert str(journal) in caught.value.message
    journal.unlink()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("number", SIGNALS)
def test_it_is_not_lost_where_exceptions_are_dropped(number: signal.Signals) -> None:
    class Deleted:
        def __del__(self) -> None:
            os.kill(os.getpid(), number)

    with Interruption() as interruption:
        interruption.check()
        Deleted()
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                interruption.check()


def test_what_was_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            os.kill(os.getpid(), signal.SIGINT)
            interruption.check()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
