"""What a test may have left on this machine: control groups, mounts, processes, interfaces, journals, folders.

Other runs may go on beside the tests. What belongs to one is known by its guard, which has the run's journal
in its command line and lives as long as the run.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MARK = "insitu-"
_CGROUPS = Path("/sys/fs/cgroup")
_GUARD = "insitu.injectors.guard"
_HELPERS = {
    "insitu.orchestrator.execution.sandbox.launcher",
    "insitu.orchestrator.execution.conditions.prober",
    "insitu.injectors.anomalies.server",
    "insitu.injectors.network.server",
}
_INIT, _KERNEL = 1, "kthreadd"


@dataclass(frozen=True, slots=True)
class _Process:
    """A process that is not the kernel's own."""

    parent: int
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Traces:
    """Everything on this machine that `insitu` may have made, as text for a message."""

    groups: frozenset[str]
    mounts: frozenset[str]
    processes: frozenset[str]
    interfaces: frozenset[str]
    journals: frozenset[str]
    folders: frozenset[str]

    def since(self, before: Traces) -> tuple[str, ...]:
        """What is new."""
        found: list[str] = []
        for kind in ("groups", "mounts", "processes", "interfaces", "journals", "folders"):
            found.extend(f"{kind}: {one}" for one in sorted(getattr(self, kind) - getattr(before, kind)))
        return tuple(found)


def traces(state: Path) -> Traces:
    """Look at the machine; what runs with another state folder than `state` own is left out."""
    processes = _processes()
    others = {_run_guarded_elsewhere(one.command, state) for one in processes.values()}
    others |= {_run_served_elsewhere(pid, one.command, state) for pid, one in processes.items()}
    others.discard("")
    return Traces(
        groups=frozenset(str(path) for path in _groups(_CGROUPS) if not _is_of(path.name, others)),
        mounts=frozenset(
            line for line in Path("/proc/self/mounts").read_text().splitlines() if _names_us(line.split(" "))
        ),
        processes=frozenset(
            f"{pid} {' '.join(one.command)}" for pid, one in processes.items() if _is_ours(one, state)
        ),
        interfaces=frozenset(
            f"{name} in {namespace}" for namespace, name in _interfaces(processes) if not _is_link_of(name, others)
        ),
        journals=frozenset(map(str, state.glob("*"))),
        folders=frozenset(
            str(path) for path in Path(tempfile.gettempdir()).glob(f"{MARK}*") if not _is_of(path.name, others)
        ),
    )


def left_after(before: Traces, state: Path, within_s: float = 5.0) -> tuple[str, ...]:
    """What is still there after a while: ends of processes are not waited for by everyone."""
    deadline = time.monotonic() + within_s
    while (left := traces(state).since(before)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def _names_us(fields: list[str]) -> bool:
    return "insitu" in fields[0] or MARK in fields[1]


def _is_of(name: str, runs: set[str]) -> bool:
    return any(name.startswith(f"{MARK}{run}") for run in runs)


def _is_link_of(name: str, runs: set[str]) -> bool:
    """As `_is_of`, of a name that the kernel has room for 15 characters of."""
    return any(name.startswith(f"{MARK}{run}"[:15]) for run in runs)


def _interfaces(processes: dict[int, _Process]) -> Iterator[tuple[str, str]]:
    """Namespaces of processes below this one, and of orphans, with the interfaces there that have our mark."""
    seen: set[str] = set()
    for pid in processes:
        if not _is_related(pid, processes):
            continue
        try:
            namespace = os.readlink(f"/proc/{pid}/ns/net")
            if namespace in seen:
                continue
            lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
        except OSError:
            continue
        seen.add(namespace)
        for line in lines:
            if (interface := line.partition(":")[0].strip()).startswith(MARK):
                yield namespace, interface


def _is_related(pid: int, processes: dict[int, _Process]) -> bool:
    """Whether a process is a descendant of this one, or an orphan."""
    if (parent := processes[pid].parent) == _INIT:
        return True
    while parent in processes and parent not in (os.getpid(), _INIT):
        parent = processes[parent].parent
    return parent == os.getpid()


def _groups(folder: Path) -> Iterator[Path]:
    try:
        entries = [entry for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(MARK):
            yield Path(entry.path)
        else:
            yield from _groups(Path(entry.path))


def _processes() -> dict[int, _Process]:
    """All that can be seen, but for threads of the kernel: this is done twice for each of many tests."""
    found: dict[int, _Process] = {}
    kernel = _threads_parent()
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        parent = parent_of(pid)
        if parent in (0, kernel) and pid != _INIT:
            continue
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as file:
            found[pid] = _Process(parent, tuple(file.read().decode(errors="replace").split("\0")[:-1]))
    return found


def _threads_parent() -> int | None:
    """The process that the kernel's threads are children of; a container does not show it."""
    with contextlib.suppress(OSError):
        if Path("/proc/2/comm").read_text().strip() == _KERNEL:
            return 2
    return None


def _run_guarded_elsewhere(command: tuple[str, ...], state: Path) -> str:
    journal = _journal_of(command)
    if journal is None or journal.parent == state:
        return ""
    return journal.name.removeprefix(MARK).rpartition("-")[0]


def _run_served_elsewhere(pid: int, command: tuple[str, ...], state: Path) -> str:
    """The run of a ray process, which is there before the run's guard."""
    found = re.search(rf"/{MARK}(\w+)-ray-", " ".join(command))
    if found is None:
        return ""
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return ""
    return "" if b"INSITU_STATE=" + os.fsencode(state) in environment else found[1]


def _journal_of(command: tuple[str, ...]) -> Path | None:
    if _GUARD not in command:
        return None
    arguments = command[command.index(_GUARD) + 1 :]
    return Path(arguments[1]) if len(arguments) > 1 else None


def _is_ours(process: _Process, state: Path) -> bool:
    """A guard of this state folder; another helper that is a child of the tests, or an orphan."""
    if (journal := _journal_of(process.command)) is not None:
        return journal.parent == state
    return not _HELPERS.isdisjoint(process.command) and process.parent in (_INIT, os.getpid())


def parent_of(pid: int) -> int:
    """Parent of a process, 0 if there is none any more."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except OSError:
        return 0
