"""What there is on this machine, by kind: to be the same before and after."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")


@dataclass(frozen=True, slots=True)
class Census:
    """Names of everything of each kind; processes by command line, since pids are used again."""

    groups: frozenset[str]
    namespaces: frozenset[str]
    interfaces: frozenset[str]
    mounts: frozenset[str]
    journals: frozenset[str]
    folders: frozenset[str]
    processes: Counter[str]
    own_descriptors: int

    def new_since(self, before: Census) -> list[str]:
        """What was not there before."""
        found: list[str] = []
        for kind in ("groups", "namespaces", "interfaces", "mounts", "journals", "folders"):
            found += [f"{kind}: {name}" for name in sorted(getattr(self, kind) - getattr(before, kind))]
        found += [f"process: {command}" for command in (self.processes - before.processes).elements()]
        if self.own_descriptors > before.own_descriptors:
            found.append(f"descriptors: {self.own_descriptors}, {before.own_descriptors} before")
        return found

    def counts(self) -> dict[str, int]:
        """How many there are of each kind."""
        kinds = ("groups", "namespaces", "interfaces", "mounts", "journals", "folders")
        return {kind: len(getattr(self, kind)) for kind in kinds} | {
            "processes": self.processes.total(),
            "descriptors": self.own_descriptors,
        }


def take(mark: str, state: Path, folders: tuple[Path, ...]) -> Census:
    """Look at the machine.

    Parameters
    ----------
    mark
        Groups and processes are counted if they name it: others come and go on any machine.
    folders
        Places whose entries are counted.
    """
    return Census(
        groups=frozenset(
            f"{root}/{name}" for root, names, _ in os.walk("/sys/fs/cgroup") for name in names if mark in name
        ),
        namespaces=frozenset(_namespaces(mark)),
        interfaces=frozenset(os.listdir("/sys/class/net")),
        mounts=frozenset(Path("/proc/self/mountinfo").read_text().splitlines()),
        journals=frozenset(map(str, state.glob("*"))),
        folders=frozenset(str(path) for folder in folders for path in folder.glob("*insitu*")),
        processes=Counter(command for _, command in _processes(mark)),
        own_descriptors=len(os.listdir("/proc/self/fd")),
    )


def _processes(mark: str) -> Iterator[tuple[int, str]]:
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            command = command_of(int(name))
            if mark in command or "insitu." in command or mark in _environment(int(name)):
                yield int(name), command


def command_of(pid: int) -> str:
    """Command line of a process, empty if there is none any more."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _environment(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
    except OSError:
        return ""


def _namespaces(mark: str) -> Iterator[str]:
    """Namespaces with a process of ours in them, other than those of this process."""
    for pid, _ in _processes(mark):
        for kind in _NAMESPACES:
            try:
                namespace = os.readlink(f"/proc/{pid}/ns/{kind}")
            except OSError:
                continue
            if namespace != os.readlink(f"/proc/self/ns/{kind}"):
                yield namespace
