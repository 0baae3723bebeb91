"""Entering namespaces: Python has these calls from 3.12 on only."""

from __future__ import annotations

import ctypes
import os
import signal

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36

_libc = ctypes.CDLL(None, use_errno=True)


def _check(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def enter(descriptor: int, kind: int) -> None:
    """Join the namespace that an open file of /proc/<pid>/ns stands for; raises `OSError`."""
    _check(_libc.setns(descriptor, kind), "setns")


def leave(kinds: int) -> None:
    """Move to new namespaces; raises `OSError`."""
    _check(_libc.unshare(kinds), "unshare")


def die_with_parent() -> None:
    """Ask for SIGKILL when the parent ends. Joining a user namespace withdraws it: ask afterwards."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of whatever descendants lose theirs."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl CHILD_SUBREAPER")


def is_own(descriptor: int, kind: str) -> bool:
    """Whether an open namespace is the one that this process is in."""
    theirs, ours = os.fstat(descriptor), os.stat(f"/proc/self/ns/{kind}")
    return (theirs.st_dev, theirs.st_ino) == (ours.st_dev, ours.st_ino)


def map_identity(user: int, group: int) -> None:
    """In a fresh user namespace: be the same user in it."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
