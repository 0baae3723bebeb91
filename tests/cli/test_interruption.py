"""A signal ends a command, whatever it finds it at."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest

from insitu.orchestrator.cli.interruption import Interruption

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
