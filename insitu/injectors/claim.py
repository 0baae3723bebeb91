"""A recovery's claim on a journal: one at a time, on the file that is there and not on one just deleted."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from insitu.injectors.journal import Entries, decode, encode, open_own, read_all
from insitu.injectors.state_folder import sync_folders


class Claim:
    """Hold a journal against other recoveries; a context manager, released by the kernel when we die.

    Attributes
    ----------
    held
        Whether it is ours now. If not, another recovery has it, or has finished and deleted it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self.held = False

    def __enter__(self) -> Self:
        """Claim it.

        Raises
        ------
        ForeignState
            If something else than a journal of this user is in its place.
        OSError
            If it cannot be opened or locked.
        """
        try:
            self._file = open_own(self._path, os.O_RDWR | os.O_APPEND)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # another may have finished and deleted it between the two lines above
            self.held = os.path.samestat(os.fstat(self._file), os.stat(self._path))
        except (FileNotFoundError, BlockingIOError):
            self.held = False
        except OSError:
            self._close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def entries(self) -> Entries:
        """What it says; raises `ForeignState` if that cannot be understood."""
        return decode(read_all(self._file), self._path)

    def mark_done(self, intents: Iterable[int]) -> None:
        """Record what was undone while something else could not be; nobody else may write to it any more."""
        content = read_all(self._file)
        whole = content.rfind(b"\n") + 1
        if whole != len(content):  # our line must not join what a crash tore
            os.ftruncate(self._file, whole)
        for number in intents:
            os.write(self._file, encode({"done": number}))

    def delete(self, touched: Iterable[Path]) -> None:
        """Delete it, once the deletions in the folders `touched` are durable."""
        sync_folders(touched)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._path)
