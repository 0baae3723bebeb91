"""How much a subject has written, however it hides it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from insitu.injectors.deletion import delete
from insitu.orchestrator.execution.workspace import size_of

_HIDE = """
import os, sys
os.chdir(sys.argv[1])
for _ in range(3000):
    os.mkdir("dd")
    os.chdir("dd")
with open("big", "wb") as file:
    file.write(b"1" * (64 << 20))
"""


def test_a_file_below_folders_deeper_than_any_path_is_counted(tmp_path: Path) -> None:
    top = tmp_path / "scratch"
    (top / "a").mkdir(parents=True)
    (top / "a/file").write_bytes(b"1" * (1 << 20))
    before = size_of(top)
    assert before >= 1 << 20
    files = os.listdir("/proc/self/fd")
    subprocess.run([sys.executable, "-c", _HIDE, str(top)], check=True)
    assert size_of(top) >= before + (64 << 20)
    assert len(os.listdir("/proc/self/fd")) == len(files)
    delete(top)


def test_what_is_not_there_has_no_size(tmp_path: Path) -> None:
    assert size_of(tmp_path / "nothing") == 0
