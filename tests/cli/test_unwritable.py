"""Folders that cannot be written: told before anything is started or made, as a user runs the command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import plans
from tests.cli.without_ray import insitu

FORMS = pytest.mark.parametrize("form", [(), ("--dry-run",)])
READ_ONLY = ("mount --bind {0} {0}", "mount -o remount,bind,ro {0}")
FULL = ("mount -t tmpfs -o size=8k insitu-test {0}",)


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Message of a refusal, which came before ray."""
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert "ray" not in done.stderr
    return done.stderr


@pytest.mark.root
@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (READ_ONLY, "error: no journal can be kept in {0}: Read-only file system"),
        (FULL, "error: the disk of the state folder {0} is full"),
    ],
)
@FORMS
def test_a_state_folder_that_takes_no_journal(
    tmp_path: Path, prepare: tuple[str, ...], message: str, form: tuple[str, ...]
) -> None:
    plan, out, folder = plans.write(tmp_path / "plan"), tmp_path / "out", tmp_path / "elsewhere"
    folder.mkdir()
    said = refused(
        insitu(
            *("run", str(plan), "--out", str(out), *form),
            broken=tmp_path / "broken",
            prepare=tuple(step.format(folder) for step in prepare),
            state=folder,
        )
    )
    assert message.format(folder) in said
    assert "choose another state folder with INSITU_STATE" in said
    assert not out.exists()
    assert list(folder.iterdir()) == []


@FORMS
@pytest.mark.parametrize(("below", "reason"), [("", "File exists"), ("deep/state", "Not a directory")])
def test_a_state_folder_that_is_a_file(tmp_path: Path, below: str, reason: str, form: tuple[str, ...]) -> None:
    plan, out = plans.write(tmp_path / "plan"), tmp_path / "out"
    file = tmp_path / "file"
    file.touch()
    state = file / below
    said = refused(insitu("run", str(plan), "--out", str(out), *form, broken=tmp_path / "broken", state=state))
    assert f"error: no journal can be kept in {state}: {reason}" in said
    assert not out.exists()


@pytest.mark.root
@FORMS
@pytest.mark.parametrize("exists", [True, False])
def test_a_run_directory_that_cannot_be_written(tmp_path: Path, exists: bool, form: tuple[str, ...]) -> None:
    plan, folder = plans.write(tmp_path / "plan"), tmp_path / "elsewhere"
    folder.mkdir()
    out = folder if exists else folder / "deep" / "run"
    prepare = tuple(step.format(folder) for step in READ_ONLY)
    words = ("run", str(plan), "--out", str(out), *form)
    said = refused(insitu(*words, broken=tmp_path / "broken", prepare=prepare))
    assert f"error: cannot make a run directory under {folder}: Read-only file system" in said
    assert "choose another place with --out" in said
    assert list(folder.iterdir()) == []
