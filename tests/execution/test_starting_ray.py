"""What keeps ray or its agent from starting is named, with what to change; nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from insitu.injectors import recovery
from insitu.injectors.contract import new_run_id
from insitu.orchestrator.errors import CannotExecute
from insitu.orchestrator.execution import cluster, obstacles
from insitu.orchestrator.execution.agent import AgentSetup
from insitu.orchestrator.execution.cluster import local_cluster


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A folder of short path on a disk of its own, which has room for what is made there before ray starts."""
    folder = Path(tempfile.mkdtemp(prefix="s", dir="/tmp"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "insitu-test", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
    folder.rmdir()


@pytest.mark.ray
@pytest.mark.root
@pytest.mark.parametrize(
    ("full", "variable"), [("state folder", "INSITU_STATE"), ("folder for temporary files", "TMPDIR")]
)
def test_a_disk_that_fills_up_while_ray_starts_is_named(
    small_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: str, variable: str
) -> None:
    run = tmp_path / "run"
    run.mkdir()
    if full == "state folder":
        monkeypatch.setenv("INSITU_STATE", str(small_disk))
    if full == "folder for temporary files":
        monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    start = cluster._start

    def start_on_a_full_disk(folder: Path, setup: AgentSetup) -> object:
        filling, left = small_disk / "filling", os.statvfs(small_disk)
        filling.write_bytes(bytes(left.f_bavail * left.f_frsize))
        try:
            return start(folder, setup)
        finally:
            filling.unlink()

    monkeypatch.setattr(cluster, "_start", start_on_a_full_disk)
    with pytest.raises(CannotExecute) as caught, local_cluster(new_run_id(), run / "work", run):
        pass
    assert caught.value.message == f"the disk of the {full} {small_disk} is full"
    assert variable in (caught.value.hint or "")
    assert [path.name for path in small_disk.iterdir()] == []
    assert recovery.journals() == ()


def test_a_folder_for_temporary_files_whose_path_is_too_long_is_refused_before_anything_is_made(
    tmp_path: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / ("x" * 60)
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    with (
        pytest.raises(CannotExecute, match="is too long for ray's sockets") as caught,
        local_cluster(new_run_id(), tmp_path / "work", tmp_path),
    ):
        pass
    assert str(folder) in caught.value.message
    assert "TMPDIR" in (caught.value.hint or "")
    assert list(folder.iterdir()) == []
    assert not state.exists()


@pytest.mark.ray
def test_the_longest_path_that_is_not_refused_is_short_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    run, name = new_run_id(), "insitu-01234567-ray-abcdef"
    longest = max(size for size in range(8, 60) if not refused(Path("/tmp", "x" * size, name), os.getpid()))
    folder = Path("/tmp", "x" * longest)
    folder.mkdir()
    try:
        monkeypatch.setattr(tempfile, "tempdir", str(folder))
        with local_cluster(run, folder / "work", folder):
            pass
    finally:
        for path in (folder / "work", folder):
            path.rmdir()


def refused(folder: Path, pid: int) -> bool:
    try:
        obstacles.require_short_path(folder, pid)
    except CannotExecute:
        return True
    return False
