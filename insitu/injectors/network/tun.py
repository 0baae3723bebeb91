"""Interfaces whose packets a process reads and writes (TUN)."""

from __future__ import annotations

import fcntl
import os
import struct

DEVICE = "/dev/net/tun"
_SET_INTERFACE, _SET_PERSISTENT, _SET_INDEX = 0x400454CA, 0x400454CB, 0x400454DA
_FRESH_TUN_OF_PLAIN_PACKETS = 0x0001 | 0x1000 | 0x8000


def make(name: str, index: int) -> int:
    """Make an interface in the caller's network namespace; it lasts as long as the open file that is given.

    Raises
    ------
    OSError
        If there is no ``/dev/net/tun``, an interface of that name exists, or the kernel refuses.
    """
    descriptor = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _SET_INDEX, struct.pack("=i", index))
        fcntl.ioctl(descriptor, _SET_INTERFACE, struct.pack("16sH22x", name.encode(), _FRESH_TUN_OF_PLAIN_PACKETS))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def leave_to_namespace(descriptor: int) -> None:
    """Have an interface end with its namespace, which is about to end, and not with its open file.

    Who closes the last file of an interface waits until the kernel has removed it, some 40 ms (`rcu_barrier`);
    nobody waits for a namespace.
    """
    fcntl.ioctl(descriptor, _SET_PERSISTENT, 1)
