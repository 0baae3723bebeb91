"""Delete a folder of ours whatever a subject has put into it, and nothing that is not in it.

A tree may be deeper than any stack, path or table of open files, and its folders closed to their own owner. So no
path is followed but the top's: what is below a folder that is not empty is moved up to the top. The kernel refuses
to remove a mount point, so that whatever somebody has mounted in the tree is told from what is ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from insitu.injectors.errors import ForeignState, UndoFailed

_ROUNDS = 3
"""How often a top is listed anew: something may have been made in it meanwhile."""


def delete(path: Path) -> None:
    """Delete a folder with what is in it, or a file, and verify that it is gone; gone already is fine.

    Raises
    ------
    ForeignState
        If a link is in its place; it is left alone.
    UndoFailed
        If something cannot be deleted; it says what, and all else is gone.
    """
    if path.is_symlink():
        raise ForeignState(f"{path} is a link, not the folder that was made; left alone")
    problems: list[str] = []
    for _ in range(_ROUNDS):
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except NotADirectoryError:
            path.unlink(missing_ok=True)
            return
        except OSError as exc:
            if exc.errno != errno.ENOTEMPTY:
                raise UndoFailed(f"cannot delete {path}: {exc.strerror}", "insitu recover") from exc
        with contextlib.suppress(FileNotFoundError), _opened(str(path)) as top:
            problems = _empty(top)
        if problems:
            break
    with contextlib.suppress(OSError):
        os.rmdir(path)
    if os.path.lexists(path):
        reason = f": {problems[0]}" if problems else ""
        raise UndoFailed(f"{path} is still there{reason}", "insitu recover")


def _empty(top: int) -> list[str]:
    """Delete everything in an open folder; gives what cannot be, with the reason."""
    problems: list[str] = []
    fresh_names = (f"insitu-lifted-{number}" for number in count())
    full = _delete_entries(top, problems)
    while full:
        name = full.pop()
        try:
            with _opened(name, top) as folder:
                for inner in _delete_entries(folder, problems):
                    full += _lift(inner, folder, top, fresh_names, problems)
            os.rmdir(name, dir_fd=top)
        except FileNotFoundError:
            continue
        except OSError as exc:
            problems.append(f"{name}: {exc.strerror}")
    return problems


def _delete_entries(folder: int, problems: list[str]) -> list[str]:
    """Delete the files and the empty folders in an open folder; gives the names of the other folders."""
    full: list[str] = []
    with os.scandir(folder) as scan:
        entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in scan]
    for name, is_folder in entries:
        try:
            (os.rmdir if is_folder else os.unlink)(name, dir_fd=folder)
        except FileNotFoundError:
            continue
        except OSError as exc:
            if is_folder and exc.errno == errno.ENOTEMPTY:  # a mount point would be EBUSY
                full.append(name)
            else:
                problems.append(f"{name}: {exc.strerror}")
    return full


def _lift(name: str, folder: int, top: int, fresh_names: Iterator[str], problems: list[str]) -> list[str]:
    """Move a folder up to the top; gives its name there, or nothing if that cannot be."""
    for new_name in fresh_names:
        try:
            _unlock(name, folder)  # its entry ".." changes
            os.rename(name, new_name, src_dir_fd=folder, dst_dir_fd=top)
            return [new_name]
        except FileNotFoundError:
            break
        except OSError as exc:
            if exc.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # a subject may have used the name
                problems.append(f"{name}: {exc.strerror}")
                break
    return []


@contextmanager
def _opened(name: str, folder: int | None = None) -> Iterator[int]:
    """A folder that may be listed and written to, never by a link."""
    _unlock(name, folder)
    descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _unlock(name: str, folder: int | None) -> None:
    """Let the owner list and change a folder, which a subject may have forbidden."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        status = os.fstat(handle)
        if status.st_uid == os.geteuid() and status.st_mode & stat.S_IRWXU != stat.S_IRWXU:
            os.chmod(f"/proc/self/fd/{handle}", stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
    finally:
        os.close(handle)
