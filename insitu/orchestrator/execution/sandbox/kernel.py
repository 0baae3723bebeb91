"""System calls that the standard library does not offer, by ctypes, with errors as `OSError`."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import signal
import socket
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38

_SYS_CLONE3 = 435  # the same number on every architecture, since Linux 5.3
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "riscv64": 41, "ppc64le": 203, "s390x": 217}

_libc = ctypes.CDLL(None, use_errno=True)
_with_gil = ctypes.PyDLL(None, use_errno=True)
"""Calls through it keep the interpreter's lock, as a fork must."""

_libc.mount.argtypes = (
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_ulong,
    ctypes.c_char_p,
)
_libc.umount2.argtypes = (ctypes.c_char_p, ctypes.c_int)
_libc.prctl.argtypes = (ctypes.c_int,) + (ctypes.c_ulong,) * 4
_libc.sethostname.argtypes = (ctypes.c_char_p, ctypes.c_size_t)


def _raise(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str | None, flags: int = 0, options: str = "") -> None:
    """mount(2); raises `OSError` naming source and target."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() if kind else None,
        flags,
        os.fsencode(options) if options else None,
    )
    if result:
        _raise(f"mount {kind or 'bind'} {source} on {target}")


def detach(target: str) -> None:
    """umount2(2) with ``MNT_DETACH``."""
    if _libc.umount2(os.fsencode(target), MNT_DETACH):
        _raise(f"umount {target}")


def pivot_root(new_root: str, put_old: str) -> None:
    """pivot_root(2)."""
    number = _SYS_PIVOT_ROOT.get(platform.machine())
    if number is None:
        raise OSError(f"pivot_root: system call number unknown on {platform.machine()}")
    if _libc.syscall(ctypes.c_long(number), os.fsencode(new_root), os.fsencode(put_old)):
        _raise(f"pivot_root {new_root}")


def clone(namespaces: int) -> int:
    """Fork into new namespaces with one system call; 0 in the child, its pid in the parent.

    The caller must be single-threaded. Unlike ``unshare`` and ``fork`` in turn, the child itself is process
    1 of a new pid namespace, which saves a process per trial.
    """
    # struct clone_args of Linux 5.3: flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls
    arguments = struct.pack("8Q", namespaces, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)
    pid = int(_with_gil.syscall(ctypes.c_long(_SYS_CLONE3), arguments, ctypes.c_size_t(len(arguments))))
    if pid < 0:
        _raise("clone3")
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    return pid


def die_with_parent() -> None:
    """Ask for SIGKILL when the parent thread ends; the caller then checks that it has not ended already."""
    if _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0):
        _raise("prctl PDEATHSIG")


def map_identity(user: int, group: int) -> None:
    """In a fresh user namespace, map the user to themselves: files keep their owner, exec drops capabilities."""
    _libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)  # else /proc/self belongs to root, and the maps cannot be written
    for path, text in (
        ("/proc/self/setgroups", "deny"),
        ("/proc/self/uid_map", f"{user} {user} 1"),
        ("/proc/self/gid_map", f"{group} {group} 1"),
    ):
        with open(path, "w", encoding="ascii") as file:
            file.write(text)


_KEPT_CAPABILITIES = frozenset({0, 1, 3, 4, 5, 6, 7, 8, 10, 29})
"""CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, SETPCAP, NET_BIND_SERVICE, AUDIT_WRITE."""


def drop_capabilities() -> None:
    """Leave a root subject no capability over the host: none to mount, load modules, or set the clock."""
    for capability in range(64):
        if capability not in _KEPT_CAPABILITIES and _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
            break  # the first number that this kernel does not know
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        _raise("prctl NO_NEW_PRIVS")


def set_hostname(name: str) -> None:
    """sethostname(2), inside an own UTS namespace."""
    _libc.sethostname(name.encode(), len(name))


def raise_loopback() -> None:
    """Bring ``lo`` up in an own network namespace, where it starts down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # SIOCSIFFLAGS with IFF_UP | IFF_LOOPBACK | IFF_RUNNING
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH22x", b"lo", 0x49))
