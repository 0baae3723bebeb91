"""Every test gets a state folder of its own, and must leave the machine as it found it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import hypothesis
import pytest

from insitu.injectors import cgroups
from insitu.injectors.network import support
from tests.leaks import left_after, traces

# nothing is timed in a test: a machine that is busy with something else is not a failure
hypothesis.settings.register_profile(
    "insitu", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("insitu")


def pytest_configure() -> None:
    """Clear away as after Ctrl-C when told to end: a test may be holding something of the machine's."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _skip(items, "root", "needs real control groups", _why_no_groups)
    _skip(items, "tun", "needs interfaces of its own", lambda: support.examine().line_problem)


def _skip(items: list[pytest.Item], marker: str, need: str, why_not: Callable[[], str]) -> None:
    """Skip the tests with a marker where something speaks against them; asked only if there are any."""
    marked = [item for item in items if item.get_closest_marker(marker)]
    reason = why_not() if marked else ""
    for item in marked if reason else ():
        item.add_marker(pytest.mark.skip(reason=f"{need}: {reason}"))


def _why_no_groups() -> str:
    if os.geteuid() != 0:
        return "not root"
    hierarchies = cgroups.discover()
    return "" if hierarchies.usable("cpu") else hierarchies.problem("cpu")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The state folder of this test, where journals live."""
    return tmp_path / "state"


@pytest.fixture(autouse=True)
def no_leaks(state: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Fail a test that leaves a group, mount, process, journal or folder behind."""
    monkeypatch.setenv("INSITU_STATE", str(state))
    before = traces(state)
    yield
    left = left_after(before, state)
    assert not left, "left behind:\n" + "\n".join(left)
