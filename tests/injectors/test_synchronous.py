"""The attribute that makes writes synchronous, on the file systems of this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from insitu.injectors.synchronous import is_synchronous, make_synchronous, problem_below


@pytest.fixture
def in_memory() -> Iterator[Path]:
    with TemporaryDirectory(dir="/proc/self/cwd" if not Path("/dev/shm").is_dir() else "/dev/shm") as folder:
        yield Path(folder)


def test_what_is_made_below_a_synchronous_folder_is_synchronous(tmp_path: Path) -> None:
    if problem := problem_below(tmp_path):
        pytest.skip(problem)
    folder = tmp_path / "scratch"
    folder.mkdir()
    make_synchronous(folder)
    (folder / "deep").mkdir()
    (folder / "deep/file").write_text("x")
    (tmp_path / "other").touch()
    assert is_synchronous(folder / "deep/file")
    assert not is_synchronous(tmp_path / "other")


def test_trying_leaves_nothing(tmp_path: Path) -> None:
    problem_below(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_the_attribute_says_so(in_memory: Path, tmp_path: Path) -> None:
    problem = problem_below(in_memory)
    assert "the file system at /dev/shm has no synchronous attribute" in problem
    assert list(in_memory.iterdir()) == []
    missing = tmp_path / "missing"
    assert problem_below(missing) == f"nothing can be made in {missing}: No such file or directory"


@pytest.mark.root
def test_a_read_only_folder_says_so(tmp_path: Path) -> None:
    ask = "import sys, pathlib; from insitu.injectors.synchronous import problem_below as ask; "
    ask += "sys.stdout.write(ask(pathlib.Path(sys.argv[1])))"
    read_only = 'mount -t tmpfs -o ro none "$0" && exec "$@"'
    command = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        read_only,
        str(tmp_path),
        sys.executable,
        "-c",
        ask,
        str(tmp_path),
    ]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert told == f"nothing can be made in {tmp_path}: Read-only file system"
