"""The leak check sees what it is there to see: a check that finds nothing would pass everything."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from insitu.injectors import cgroups
from tests.injectors.network.linked import linked
from tests.leaks import left_after, traces

SLEEPER = "import time; time.sleep(60)"


def new_since(state: Path) -> tuple[str, ...]:
    return left_after(EMPTY, state, within_s=0.0)


EMPTY = traces(Path("/nonexistent"))


def test_a_folder_and_a_journal_are_seen(state: Path) -> None:
    folder = Path(tempfile.mkdtemp(prefix="insitu-leaktest-"))
    state.mkdir()
    journal = state / "insitu-leaktest-1.journal"
    journal.touch()
    try:
        found = new_since(state)
        assert f"folders: {folder}" in found
        assert f"journals: {journal}" in found
    finally:
        shutil.rmtree(folder)
        journal.unlink()


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (("insitu.injectors.guard", "3", "{state}/insitu-r-1.journal", "1", "2"), True),
        (("insitu.injectors.guard", "3", "/elsewhere/insitu-r-1.journal", "1", "2"), False),
        (("insitu.orchestrator.execution.sandbox.launcher", "3"), True),
        (("insitu.injectors.network.server", "3", "insitu-r"), True),
    ],
)
def test_a_helper_is_seen_unless_it_is_of_another_run(state: Path, arguments: tuple[str, ...], seen: bool) -> None:
    words = [word.format(state=state) for word in arguments]
    with subprocess.Popen([sys.executable, "-c", SLEEPER, *words]) as process:
        try:
            while not Path(f"/proc/{process.pid}/cmdline").read_bytes():  # between fork and the end of exec
                time.sleep(0.001)
            assert any(f"processes: {process.pid} " in one for one in new_since(state)) is seen
        finally:
            process.kill()


@pytest.mark.root
def test_an_interface_in_another_namespace_is_seen(state: Path) -> None:
    with linked(name="insitu-leaktest"):
        seen = [one for one in new_since(state) if one.startswith("interfaces: insitu-leaktest in net:")]
        assert len(set(seen)) == 2  # both ends
    assert not any("insitu-leaktest" in one for one in left_after(EMPTY, state))


@pytest.mark.root
def test_a_nested_group_is_seen_unless_its_run_is_guarded_elsewhere(state: Path) -> None:
    parent = cgroups.discover().parents["cpu"]
    outer = parent / "leaktest"
    group = outer / "insitu-leaktest-t1"
    group.mkdir(parents=True)
    guard = ["insitu.injectors.guard", "3", "/elsewhere/insitu-leaktest-9.journal", "1", "2"]
    try:
        assert f"groups: {group}" in new_since(state)
        with subprocess.Popen([sys.executable, "-c", SLEEPER, *guard]) as process:
            try:
                assert f"groups: {group}" not in new_since(state)
            finally:
                process.kill()
    finally:
        group.rmdir()
        outer.rmdir()
