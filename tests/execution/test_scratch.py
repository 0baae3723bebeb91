"""How much a subject has written, however it hides it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from insitu.injectors.deletion import delete
from insitu.orchestrator.execution.scratch import ScratchUse
from tests.ordinary_user import ids, run_python

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
    files = os.listdir("/proc/self/fd")
    with closing(ScratchUse(top)) as use:
        before = use.look()
        assert before >= 1 << 20
        subprocess.run([sys.executable, "-c", _HIDE, str(top)], check=True)
        assert use.look() >= before + (64 << 20)
    assert len(os.listdir("/proc/self/fd")) == len(files)
    delete(top)


def test_more_entries_than_one_look_takes_are_counted_by_several(tmp_path: Path) -> None:
    for number in range(1000):
        folder = tmp_path / f"folder{number % 10}"
        folder.mkdir(exist_ok=True)
        (folder / f"file{number}").write_bytes(b"1" * 4000)
    with closing(ScratchUse(tmp_path)) as at_once:
        total = at_once.look()
    assert total >= 1000 * 4000
    files = os.listdir("/proc/self/fd")
    with closing(ScratchUse(tmp_path, at_most_entries=100)) as use:
        seen = [use.look() for _ in range(11)]
        assert seen == sorted(seen)
        assert seen[0] < 0.2 * total
        assert seen[-1] == total
        assert use.look() < 0.3 * total, "it is counted anew"
    assert len(os.listdir("/proc/self/fd")) == len(files)


_UNLINKED = """
import os, sys, tempfile
os.chdir(sys.argv[1])
one = tempfile.TemporaryFile(dir=".")
with open("two", "wb") as two:
    os.unlink("two")
    for file in (one, two):
        file.write(b"1" * (2 << 20))
        file.flush()
    again = os.dup(two.fileno())
    print(flush=True)
    sys.stdin.read()
"""


def test_open_files_that_are_in_no_folder_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / "named").write_bytes(b"1" * (1 << 20))
    command = [sys.executable, "-c", _UNLINKED, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as subject:
        assert subject.stdout is not None
        subject.stdout.readline()
        with closing(ScratchUse(tmp_path, lambda: [subject.pid])) as use:
            assert 5 << 20 <= use.look() < 5.5 * (1 << 20)
        subject.communicate()
    with closing(ScratchUse(tmp_path, lambda: [subject.pid])) as use:
        assert 1 << 20 <= use.look() < 1.5 * (1 << 20)


def test_what_is_not_there_has_no_size(tmp_path: Path) -> None:
    with closing(ScratchUse(tmp_path / "nothing", lambda: [os.getpid()])) as use:
        assert use.look() == 0


_AS_AN_ORDINARY_USER = """
import sys, time
from contextlib import closing
from pathlib import Path
from insitu.injectors.processes import members
from insitu.orchestrator.execution.scratch import ScratchUse
from tests.execution.sandboxed import launcher_in, prepare, protocol
folder, hide = Path(sys.argv[1]), sys.argv[2]
with launcher_in(folder) as launcher:
    launcher.launch(prepare(folder, ("python3", "-c", hide, str(folder / "scratch")), {}))
    init = launcher.next_message(20.0).init
    said = folder / "scratch/stdout"
    while not said.exists() or not said.stat().st_size:
        time.sleep(0.01)
    with closing(ScratchUse(folder / "scratch", lambda: members((), init))) as use:
        print(use.look())
"""


def test_an_ordinary_user_s_subject_without_control_groups_is_counted() -> None:
    folder = Path(tempfile.mkdtemp(prefix="scratch-"))
    os.chown(folder, *ids())
    try:
        hide = _UNLINKED.replace("sys.stdin.read()", "import time; time.sleep(60)")
        done = run_python(["-c", _AS_AN_ORDINARY_USER, str(folder), hide])
        assert done.returncode == 0, done.stderr
        assert float(done.stdout) >= 4 << 20
    finally:
        shutil.rmtree(folder)
