"""What a test may have left on this machine: control groups, mounts, processes, interfaces, journals, folders.

Other runs may go on beside the tests. What belongs to one is known by its guard, which has the run's journal
in its command line and lives as long as the run.
"""

from __future__ import annotations

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
_INIT = 1


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
    commands = dict(_commands())
    others = {_run_guarded_elsewhere(command, state) for command in commands.values()}
    others |= {_run_served_elsewhere(pid, command, state) for pid, command in commands.items()}
    others.discard("")
    return Traces(
        groups=frozenset(str(path) for path in _groups(_CGROUPS) if not _is_of(path.name, others)),
        mounts=frozenset(
            line for line in Path("/proc/self/mounts").read_text().splitlines() if _names_us(line.split(" "))
        ),
        processes=frozenset(
            f"{pid} {' '.join(command)}" for pid, command in commands.items() if _is_ours(pid, command, state)
        ),
        interfaces=frozenset(
            f"{name} in {namespace}" for namespace, name in _interfaces() if not _is_link_of(name, others)
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


def _interfaces() -> Iterator[tuple[str, str]]:
    """Namespaces of processes below this one, and of orphans, with the interfaces there that have our mark."""
    seen: set[str] = set()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            namespace = os.readlink(f"/proc/{name}/ns/net")
            if namespace in seen or not _is_related(int(name)):
                continue
            lines = Path(f"/proc/{name}/net/dev").read_text().splitlines()
        except OSError:
            continue
        seen.add(namespace)
        for line in lines:
            if (interface := line.partition(":")[0].strip()).startswith(MARK):
                yield namespace, interface


def _is_related(pid: int) -> bool:
    """Whether a process is a descendant of this one, or an orphan."""
    if (parent := parent_of(pid)) == _INIT:
        return True
    while parent not in (os.getpid(), _INIT, 0):
        parent = parent_of(parent)
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


def _commands() -> Iterator[tuple[int, tuple[str, ...]]]:
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                words = Path(entry.path, "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            except OSError:
                continue
            yield int(entry.name), tuple(words)


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


def _is_ours(pid: int, command: tuple[str, ...], state: Path) -> bool:
    """A guard of this state folder; another helper that is a child of the tests, or an orphan."""
    if (journal := _journal_of(command)) is not None:
        return journal.parent == state
    return not _HELPERS.isdisjoint(command) and parent_of(pid) in (_INIT, os.getpid())


def parent_of(pid: int) -> int:
    """Parent of a process, 0 if there is none any more."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[1])
