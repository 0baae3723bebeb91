"""Folders below which every write goes to the disk before it returns."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import struct
from pathlib import Path

from insitu.injectors.block_device import mount_point

_FS_IOC_GETFLAGS, _FS_IOC_SETFLAGS = 0x80086601, 0x40086602
_FS_SYNC_FL = 0x8
"""ioctl_iflags(2), as ``chattr +S`` sets it: ext2/3/4, XFS and f2fs keep it, and hand it on to new entries."""


def make_synchronous(folder: Path) -> None:
    """Set the synchronous-updates attribute of a folder; `OSError` if its file system has none."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, struct.pack("l", 0)))
        fcntl.ioctl(descriptor, _FS_IOC_SETFLAGS, struct.pack("l", flags | _FS_SYNC_FL))
    finally:
        os.close(descriptor)


def is_synchronous(path: Path) -> bool:
    """Whether a file or folder has the attribute."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        (flags,) = struct.unpack("l", fcntl.ioctl(descriptor, _FS_IOC_GETFLAGS, struct.pack("l", 0)))
        return bool(flags & _FS_SYNC_FL)
    finally:
        os.close(descriptor)


def problem_below(folder: Path) -> str:
    """Why files below `folder` cannot be made synchronous, by trying; empty if they can.

    Some file systems take the attribute and do not hand it on to new files, and say so nowhere else.
    """
    trial = folder / f"insitu-probe-{secrets.token_hex(4)}"
    file = trial / "file"
    try:
        trial.mkdir()
    except OSError as exc:  # read-only, say
        return f"nothing can be made in {folder}: {exc.strerror}"
    try:
        make_synchronous(trial)
        file.touch()
        if is_synchronous(file):
            return ""
        return f"the file system at {mount_point(folder)} does not hand the synchronous attribute on to new files"
    except OSError as exc:
        return f"the file system at {mount_point(folder)} has no synchronous attribute: {exc.strerror}"
    finally:
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
        trial.rmdir()
