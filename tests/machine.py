"""What of ours is on this machine right now: for tests that kill things."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path


def heed_signals() -> None:
    """Ignore no signal that ends a command, as in the background of a script: for a process about to start."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def control_groups(mark: str) -> set[str]:
    """Control groups whose name starts with `mark`, anywhere."""
    return set(folders_below("/sys/fs/cgroup", mark))


def folders_below(top: str | Path, start: str, end: str = "") -> list[str]:
    """Folders of such names at any depth, while others remove some of them."""
    return [
        f"{root}/{name}"
        for root, folders, _ in os.walk(top)
        for name in folders
        if name.startswith(start) and name.endswith(end)
    ]


def mounts(mark: str) -> set[str]:
    """Mounts of any process's namespace that name `mark`."""
    found: set[str] = set()
    for pid in _pids():
        try:
            lines = Path(f"/proc/{pid}/mountinfo").read_text(errors="replace").splitlines()
        except OSError:
            continue
        found.update(line for line in lines if mark in line)
    return found


def processes(marks: tuple[str, ...]) -> dict[int, str]:
    """Processes that have one of `marks` in their command line, environment or open files."""
    wanted = [mark.encode() for mark in marks]
    found: dict[int, str] = {}
    for pid in _pids():
        if pid == os.getpid():
            continue
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
            text = command + Path(f"/proc/{pid}/environ").read_bytes()
            text += b"".join(os.readlink(entry.path).encode() for entry in os.scandir(f"/proc/{pid}/fd"))
        except OSError:
            continue
        if any(mark in text for mark in wanted):
            found[pid] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def session_folders(mark: str) -> set[str]:
    """Folders of ray sessions of a run."""
    return {str(path) for path in Path(tempfile.gettempdir()).glob(f"{mark}*")}


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def leftovers(mark: str, paths: tuple[str, ...], within_s: float) -> list[str]:
    """What of a run is still there after waiting at most so long; empty as soon as nothing is.

    A namespace lives as long as a process or a mount does, and every process of a run has one of `paths` in
    its command line, its environment or its open files.
    """
    deadline = time.monotonic() + within_s
    while True:
        left = [
            *sorted(control_groups(mark)),
            *sorted(mounts(mark)),
            *(f"{pid}: {command}" for pid, command in processes((mark, *paths)).items()),
            *sorted(session_folders(mark)),
        ]
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)
