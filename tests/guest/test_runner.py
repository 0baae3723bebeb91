"""The runner's own side: orders and their status, ends of QEMU, and machines that lack something."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contract.injector_contract import InjectorContract
from tests.guest import qemu, recipe
from tests.guest.__main__ import QUICK, SELECTION
from tests.guest.inside.init import write_entry_points
from tests.guest.inside.plugin import OF_A_MACHINE
from tests.guest.orders import Order, read_status, results_folder, write_status
from tests.guest.workplace import locked, workplace

STUBBORN = """
import signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open(sys.argv[1], "w").close()
time.sleep(60)
"""
WORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@given(st.lists(WORDS, min_size=1).map(tuple), st.dictionaries(WORDS, WORDS))
def test_an_order_arrives_as_it_was_given(command: tuple[str, ...], environment: dict[str, str]) -> None:
    order = Order(command, environment)
    assert Order.parse(order.text()) == order


def test_a_status_is_none_until_it_is_told(tmp_path: Path) -> None:
    Order(("true",)).write(tmp_path)
    assert read_status(tmp_path) is None
    assert results_folder(tmp_path).is_dir()
    write_status(tmp_path, 7)
    assert read_status(tmp_path) == 7


def test_qemu_ends_with_its_context_whatever_happens() -> None:
    with pytest.raises(KeyboardInterrupt), qemu.running(["sleep", "60"]) as process:
        raise KeyboardInterrupt
    assert process.returncode == -signal.SIGTERM


def test_qemu_is_killed_if_it_does_not_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "_PATIENCE_S", 0.1)
    ready = tmp_path / "ready"
    with qemu.running([sys.executable, "-c", STUBBORN, str(ready)]) as process:
        while not ready.exists() and process.poll() is None:
            time.sleep(0.01)
    assert process.returncode == -signal.SIGKILL


def test_a_workplace_is_there_until_its_end(tmp_path: Path) -> None:
    with locked(tmp_path), workplace(tmp_path) as mine:
        (mine / "deep").mkdir()
        with workplace(tmp_path) as other:
            assert other != mine
            assert mine.is_dir()
        assert not other.exists()
    assert not mine.exists()


def test_a_workplace_whose_owner_was_killed_is_removed_by_the_next(tmp_path: Path) -> None:
    hold = "from tests.guest.workplace import workplace; from pathlib import Path; import os, signal, sys\n"
    hold += "with workplace(Path(sys.argv[1])): os.kill(os.getpid(), signal.SIGKILL)"
    killed = subprocess.run([sys.executable, "-c", hold, str(tmp_path)], cwd=recipe.PROJECT)
    assert killed.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    with workplace(tmp_path):
        assert not left.exists()


def guest(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.guest", *arguments]
    environment = os.environ | {"PATH": path}
    return subprocess.run(command, cwd=recipe.PROJECT, env=environment, capture_output=True, text=True)


def test_a_machine_without_qemu_is_told_which_package_is_missing(tmp_path: Path) -> None:
    done = guest("--cache", str(tmp_path / "cache"), path=str(tmp_path))
    assert done.returncode == 3
    assert "qemu-system-x86" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_where_it_is_only_wanted_if_possible_a_missing_package_is_no_failure(tmp_path: Path) -> None:
    done = guest("--if-possible", path=str(tmp_path))
    assert done.returncode == 0
    assert "qemu-system-x86" in done.stderr


PROGRAMS = {
    "qemu-system-x86_64": "exit 9",
    "apt-get": "printf 'file:/nowhere/debian\\tbookworm\\tDebian\\tmain\\n'",
    "apt-config": "exit 0",
    "debootstrap": "echo E: Failed getting release file; exit 1",
}
"""A machine whose mirror is out of reach."""


@pytest.mark.root
@pytest.mark.parametrize(("wanted", "status"), [((), 3), (("--if-possible",), 0)])
def test_a_system_that_cannot_be_downloaded_is_no_failure_where_it_is_only_wanted_if_possible(
    tmp_path: Path, wanted: tuple[str, ...], status: int
) -> None:
    for name, script in PROGRAMS.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    cache = tmp_path / "cache"
    done = guest(*wanted, "--cache", str(cache), path=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == status, done.stderr
    assert "the guest's system cannot be had here" in done.stderr.splitlines()[-1]
    assert "Failed getting release file" in done.stderr
    assert [path.name for path in cache.iterdir()] == ["lock"]


def test_plug_ins_are_registered_in_the_guest_as_an_installation_registers_them(tmp_path: Path) -> None:
    write_entry_points(recipe.PROJECT / "pyproject.toml", tmp_path)
    (there,) = importlib.metadata.distributions(path=[str(tmp_path)])
    here = importlib.metadata.distribution("insitu")
    plugins = {(e.group, e.name, e.value) for e in here.entry_points if e.group.startswith("insitu.")}
    assert plugins
    assert {(e.group, e.name, e.value) for e in there.entry_points} == plugins


def test_what_runs_in_the_guest_by_default_is_there() -> None:
    assert all((recipe.PROJECT / folder).is_dir() for folder in SELECTION)
    assert all((recipe.PROJECT / path).exists() for path in QUICK)
    assert all(hasattr(InjectorContract, name) for name in OF_A_MACHINE)
