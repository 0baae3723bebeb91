"""How much a subject holds on the disk, however it hides it."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path

_BLOCK_BYTES = 512
"""Unit of ``st_blocks``, whatever that of the file system is."""
_LONGEST_PATH = 3000
"""Below what the kernel takes, so that a folder cannot be too deep to be looked into."""
_MOST_OPEN = 100
"""Folders that are kept open, one per so long a path: what lies deeper is not looked into."""

Sizes = Generator[float, None, None]


class ScratchUse:
    """What a subject holds below its scratch folder, counted a part at a time; must be closed.

    Parameters
    ----------
    members
        Gives the subject's processes.
    at_most_entries
        Files, folders and open files that one look takes: few enough to be repeated while a trial runs.
    """

    def __init__(
        self, folder: Path, members: Callable[[], Iterable[int]] = tuple, at_most_entries: int = 20_000
    ) -> None:
        self._folder = folder
        self._members = members
        self._at_most_entries = at_most_entries
        self._sizes = self._all_sizes()
        self._found = 0.0

    def look(self) -> float:
        """Bytes on disk that were found since counting began, which may be looks ago; begins anew at its end.

        A lower bound, unless much is deleted while it is counted.
        """
        for _ in range(self._at_most_entries):
            size = next(self._sizes, None)
            if size is None:
                found, self._found = self._found, 0.0
                self._sizes = self._all_sizes()
                return found
            self._found += size
        return self._found

    def close(self) -> None:
        """Close what counting has open."""
        self._sizes.close()

    def _all_sizes(self) -> Sizes:
        yield from _unlinked(self._folder, self._members)  # first: what is unlinked meanwhile is not counted twice
        yield from _below(self._folder)


def _below(folder: Path) -> Sizes:
    """Bytes on disk of everything below `folder`, one after the other."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    kept_open = 0
    with ExitStack() as bases:
        pending: list[tuple[int | None, str, str]] = [
            (None, str(folder), "")
        ]  # paths are shared: there may be many
        while pending:
            base, above, name = pending.pop()
            path = os.path.join(above, name) if name else above
            with suppress(OSError), ExitStack() as stack:
                descriptor = os.open(path, flags, dir_fd=base)
                is_base = len(path) > _LONGEST_PATH and kept_open < _MOST_OPEN
                kept_open += is_base
                (bases if is_base else stack).callback(os.close, descriptor)
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        size = 0.0
                        with suppress(FileNotFoundError):  # deleted meanwhile
                            size = entry.stat(follow_symlinks=False).st_blocks * _BLOCK_BYTES
                        if entry.is_dir(follow_symlinks=False):
                            pending.append((descriptor, entry.name, "") if is_base else (base, path, entry.name))
                        yield size


def _unlinked(folder: Path, members: Callable[[], Iterable[int]]) -> Sizes:
    """Bytes on disk of files that are open but in no folder any more, as tmpfile(3) makes them.

    Gives one figure for every process and every open file, mostly 0.
    """
    with suppress(OSError):
        disk, seen = os.stat(folder).st_dev, set()
        for pid in members():
            yield 0.0
            for path in _open_files(pid):
                size = 0.0
                with suppress(OSError):  # closed meanwhile
                    status = os.stat(path)
                    if status.st_dev == disk and _has_no_name(status) and status.st_ino not in seen:
                        seen.add(status.st_ino)
                        size = float(status.st_blocks * _BLOCK_BYTES)
                yield size


def _open_files(pid: int) -> list[str]:
    try:
        return [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    except OSError:  # it has ended
        return []


def _has_no_name(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and status.st_nlink == 0
