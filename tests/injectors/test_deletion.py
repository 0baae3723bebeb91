"""Deleting folders that a hostile or careless subject has filled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from insitu.injectors.deletion import delete
from insitu.injectors.errors import ForeignState
from tests.ordinary_user import run_python

_MAKE = """
import os, sys
os.mkdir(sys.argv[1])
os.chdir(sys.argv[1])
for number in range(3000):
    open("file", "w").close()
    os.mkdir("insitu-lifted-0")
    os.mkdir("d")
    os.chdir("d")
"""
_DELETE = """
import os, sys
from pathlib import Path
from insitu.injectors.deletion import delete
delete(Path(sys.argv[1]))
assert not os.path.lexists(sys.argv[1])
"""


def test_folders_deeper_than_any_stack_or_path_are_deleted(tmp_path: Path) -> None:
    top = tmp_path / "insitu-r1-t1"
    subprocess.run([sys.executable, "-c", _MAKE, str(top)], check=True)
    delete(top)
    assert os.listdir(tmp_path) == []


def test_deep_folders_that_their_owner_cannot_write_are_deleted() -> None:
    path = f"/tmp/insitu-deep-{os.getpid()}"
    made = run_python(["-c", _MAKE, path])
    assert made.returncode == 0, made.stderr
    locked = run_python(["-c", f"import os; os.chmod({path!r} + '/d/d', 0o500); os.chmod({path!r} + '/d', 0o300)"])
    assert locked.returncode == 0, locked.stderr
    done = run_python(["-c", _DELETE, path])
    assert done.returncode == 0, done.stderr


@pytest.mark.root
def test_what_somebody_mounted_below_is_left_alone_and_all_else_is_deleted(tmp_path: Path) -> None:
    top, theirs = tmp_path / "insitu-r1-t1", tmp_path / "theirs"
    (top / "a/b/mounted").mkdir(parents=True)
    (top / "a/b/file").touch()
    (top / "c/d").mkdir(parents=True)
    theirs.mkdir()
    (theirs / "precious").touch()
    script = 'mount --bind "$1" "$2/a/b/mounted" && exec "$3" -c "$4" "$2"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(theirs), str(top), sys.executable, _DELETE],
        capture_output=True,
        text=True,
    )
    assert "UndoFailed" in done.stderr
    assert "mounted" in done.stderr
    assert (theirs / "precious").exists()
    assert not (top / "a/b/file").exists()
    assert not (top / "c").exists()
    delete(top)
    assert not top.exists()


def test_a_link_is_neither_followed_nor_deleted(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs/precious").touch()
    (tmp_path / "insitu-r1").symlink_to("theirs")
    with pytest.raises(ForeignState):
        delete(tmp_path / "insitu-r1")
    assert (tmp_path / "theirs/precious").exists()
