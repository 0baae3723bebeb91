"""Every test gets a state folder of its own, and must leave the machine as it found it."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

from insitu.injectors import cgroups
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
    reason = _why_no_groups()
    if reason:
        for item in items:
            if item.get_closest_marker("root"):
                item.add_marker(pytest.mark.skip(reason=f"needs real control groups: {reason}"))


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
