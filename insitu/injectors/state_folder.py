"""The folder of journals: where it is, and whether what is written there lasts, can be locked and is ours.

It is apart from the run's: what puts a node back must be found without knowing of any run.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from insitu.injectors.errors import NoJournal

_ROOM_BYTES = 65536
"""What the journals of a run take at most, by far."""


def state_folder() -> Path:
    """Where journals live: it must survive a reboot. ``INSITU_STATE`` overrides it.

    It is absolute, since guards have another working directory.
    """
    if chosen := os.environ.get("INSITU_STATE"):
        return Path(chosen).absolute()
    if os.geteuid() == 0:
        return Path("/var/lib/insitu")
    base = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(base):  # to be ignored, says the XDG Base Directory Specification 0.8
        base = os.path.expanduser("~/.local/state")
    return Path(base).absolute() / "insitu"


def sync_folders(folders: Iterable[Path]) -> None:
    """Make entries and deletions in folders durable; those that are gone have been deleted themselves."""
    for folder in folders:
        try:
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def try_out(folder: Path) -> None:
    """See whether journals can be kept in a folder; leaves nothing but the folder, and not that if they cannot.

    Raises
    ------
    NoJournal
        If it cannot be made or written to, its disk is full, or its file system does not keep owners and modes,
        or has no locks: nobody could claim a journal to carry it out.
    """
    missing: list[Path] = []
    try:
        with problem_named(folder):
            missing += (path for path in (folder, *folder.parents) if not path.exists())
            make_durable_folder(folder)
            with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
                require_own(os.fstat(file.fileno()))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if file.write(bytes(_ROOM_BYTES)) != _ROOM_BYTES:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
    except NoJournal:
        for path in missing:
            with contextlib.suppress(OSError):
                path.rmdir()
        raise


def look_over(folder: Path) -> None:
    """As `try_out`, as far as looking tells: changes nothing, so a quota or a strange file system is not seen.

    Raises
    ------
    NoJournal
        If it cannot be made or written to, or its disk is full.
    """
    with problem_named(folder):
        there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
        if not there.is_dir():
            number = errno.EEXIST if there == folder else errno.ENOTDIR
            raise OSError(number, os.strerror(number))
        disk = os.statvfs(there)
        if disk.f_flag & os.ST_RDONLY:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        if not os.access(there, os.R_OK | os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        free_blocks = disk.f_bavail if os.geteuid() else disk.f_bfree
        if free_blocks * disk.f_frsize < _ROOM_BYTES:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@contextmanager
def problem_named(folder: Path) -> Iterator[None]:
    """An error of the operating system as what it means: the folder and its disk are not those of the run."""
    try:
        yield
    except OSError as exc:
        if exc.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise NoJournal(
                f"the disk of the state folder {folder} is full",
                "free some space there, or choose another state folder with INSITU_STATE",
            ) from exc
        raise NoJournal(
            f"no journal can be kept in {folder}: {exc.strerror}", "choose another state folder with INSITU_STATE"
        ) from exc


def make_durable_folder(folder: Path) -> None:
    """Make a folder of journals where there is none, so that a power failure does not undo it."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    sync_folders(path.parent for path in missing)


def not_own(status: os.stat_result) -> str:
    """Why somebody else may have written a file, or nothing."""
    if status.st_uid != os.geteuid():
        return f"belongs to user {status.st_uid}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "may have been written by others than its owner"
    return ""


def require_own(status: os.stat_result) -> None:
    """Notice at once a file system without owners and modes: nobody would carry out what the journal says."""
    if problem := not_own(status):
        raise OSError(errno.ENOTSUP, f"a file that is made there {problem}")
