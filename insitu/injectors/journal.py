"""The journal of undos: one file per run and node, on disk before the first write, gone when all is undone.

Format: one JSON document per line. The first is the header (run, owner's pid and start time, boot id, user);
then ``{"intent": number, "undo": [...], "settings": [...]}``, fsynced, and ``{"done": number}``, not fsynced,
since a lost one only repeats an idempotent undo. A torn last line is an intent whose changes never began, and is
dropped.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from insitu.injectors.contract import Ownership
from insitu.injectors.errors import ForeignState
from insitu.injectors.undo import Undo, UndoKind, start_time

_FORMAT = 1


def state_folder() -> Path:
    """Where journals live: it must survive a reboot. ``INSITU_STATE`` overrides it."""
    if chosen := os.environ.get("INSITU_STATE"):
        return Path(chosen)
    if os.geteuid() == 0:
        return Path("/var/lib/insitu")
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "insitu"


def boot_id() -> str:
    """The kernel's id of this boot: pids and control groups of another boot are gone."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@dataclass(frozen=True, slots=True)
class Header:
    """Whose journal it is.

    Attributes
    ----------
    owner_pid, owner_start
        The process that must be alive for the journal to be in use.
    session_folder
        A marked folder of the owner's helpers (ray), which end and leave when the owner has; empty for none.
    """

    run: str
    owner_pid: int
    owner_start: str
    boot: str
    run_directory: str
    session_folder: str = ""
    format: int = _FORMAT

    @property
    def ownership(self) -> Ownership:
        return Ownership(self.run)

    def owner_is_alive(self) -> bool:
        return self.boot == boot_id() and start_time(self.owner_pid) == self.owner_start != ""


class Journal:
    """An open journal that intents are written to; a context manager.

    Parameters
    ----------
    folder
        See `state_folder`.
    header
        Written when the file is made.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.path = folder / f"insitu-{header.run}-{os.getpid()}.journal"
        self.header = header
        self._next = 0
        self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
        try:
            os.write(self._file, _line(asdict(header)))
            os.fsync(self._file)
            parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(parent)
            finally:
                os.close(parent)
        except OSError:
            os.close(self._file)
            self.path.unlink(missing_ok=True)
            raise

    def intend(self, undos: Sequence[Undo], settings: Sequence[str] = ()) -> int:
        """Record undos, durable on return; gives the number to mark them done with.

        `settings` says what is about to be written, for whoever reads the journal after a crash.
        """
        number = self._next
        self._next += 1
        entry: dict[str, object] = {
            "intent": number,
            "undo": [asdict(undo) for undo in undos],
            "settings": list(settings),
        }
        self._append(entry)
        os.fdatasync(self._file)
        return number

    def done(self, number: int) -> None:
        """Record that an intent's undos have been carried out and verified."""
        self._append({"done": number})

    def _append(self, document: dict[str, object]) -> None:
        """Add a line or nothing: on a full disk the kernel may take a part that a later line would join."""
        size = os.fstat(self._file).st_size
        line = _line(document)
        try:
            if os.write(self._file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.path))
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def close(self) -> None:
        """Close, and delete the file if nothing is left to undo."""
        if self._file < 0:
            return
        os.close(self._file)
        self._file = -1
        if not read(self.path).pending:
            self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class Entries:
    """What a journal says.

    Attributes
    ----------
    pending
        Undos of intents that were not marked done, in the order in which to carry them out: the latest
        intent first, and within one the order in which it was written.
    """

    header: Header | None
    pending: tuple[Undo, ...] = field(default=())


def read(path: Path) -> Entries:
    """Read a journal that may be torn or still be written to.

    Raises
    ------
    ForeignState
        If the file is no journal of a format that this version knows; it is left alone.
    """
    lines = path.read_bytes().split(b"\n")
    whole = lines[:-1]  # what follows the last newline is torn
    if not whole:
        return Entries(None)
    try:
        documents = [json.loads(line) for line in whole]
        header = Header(**documents[0])
        if header.format != _FORMAT:
            raise ValueError(f"format {header.format}")
        intents: dict[int, tuple[Undo, ...]] = {}
        for document in documents[1:]:
            if "intent" in document:
                undos = document["undo"]
                intents[document["intent"]] = tuple(
                    Undo(UndoKind(undo["kind"]), undo["path"], undo["started"]) for undo in undos
                )
            else:
                intents.pop(document["done"], None)
    except (ValueError, TypeError, KeyError) as exc:
        raise ForeignState(f"{path} is not a journal that this version can read ({exc})") from exc
    pending = tuple(undo for number in sorted(intents, reverse=True) for undo in intents[number])
    return Entries(header, pending)


def _line(document: dict[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


class Locked:
    """Hold a journal against a second recovery; a context manager. `held` is false if another has it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = -1
        self.held = False

    def __enter__(self) -> Self:
        try:
            self._file = os.open(self._path, os.O_RDONLY)
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.held = True
        except (FileNotFoundError, BlockingIOError):
            self.held = False
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file >= 0:
            os.close(self._file)
