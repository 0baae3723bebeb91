"""The journal of undos: one file per run and process, on disk before the first write, gone when all is undone.

Format: one JSON document per line. The first is the header (run, owner, holder, boot, machine); then
``{"intent": number, "undo": [...], "settings": [...]}``, fsynced, and ``{"done": number}``, not fsynced,
since a lost one only repeats an idempotent undo. A torn last line is an intent whose changes never began, and is
dropped.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from insitu.injectors.contract import Ownership
from insitu.injectors.errors import ForeignState, NoJournal
from insitu.injectors.processes import Process
from insitu.injectors.state_folder import make_durable_folder, not_own, problem_named, require_own, sync_folders
from insitu.injectors.undo import Undo, UndoKind, require_ours

_FORMAT = 2


def boot_id() -> str:
    """The kernel's id of this boot: pids and control groups of another boot are gone."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def machine() -> str:
    """What tells this machine from another that shares the folder of journals: its name and installation.

    Neither is enough: clones and containers of one image have the same id, and names are not unique.
    """
    try:
        installation = Path("/etc/machine-id").read_text().strip()
    except OSError:  # a container may have none
        installation = ""
    return f"{os.uname().nodename} {installation}"


def process_namespace() -> str:
    """The namespace in which pids count here."""
    return os.readlink("/proc/self/ns/pid")


@dataclass(frozen=True, slots=True)
class Header:
    """Whose journal it is.

    Attributes
    ----------
    owner_pid, owner_start
        The process that must be alive for the journal to be in use.
    session_folder
        A marked folder of the owner's helpers (ray), which end and leave when the owner has; empty for none.
    holder_pid, holder_start
        The process that writes the journal, filled in by it: ended before anybody else undoes its intents.
    process_namespace
        Where these pids count, filled in likewise; a container has another, and may share the folder of journals.
    machine
        Whose boot it is, filled in likewise; see `machine`. Empty in journals of versions that did not tell.
    """

    run: str
    owner_pid: int
    owner_start: str
    boot: str
    run_directory: str
    session_folder: str = ""
    holder_pid: int = 0
    holder_start: str = ""
    process_namespace: str = ""
    machine: str = ""
    format: int = _FORMAT

    @property
    def ownership(self) -> Ownership:
        return Ownership(self.run)

    @property
    def owner(self) -> Process:
        return Process(self.owner_pid, self.owner_start)

    @property
    def holder(self) -> Process:
        return Process(self.holder_pid, self.holder_start)

    def __post_init__(self) -> None:
        """Refuse what no run has written; a name of a run makes the mark that tells what is ours."""
        for name in self.__slots__:
            expected = int if name in ("owner_pid", "holder_pid", "format") else str
            if type(getattr(self, name)) is not expected:
                raise TypeError(f"{name} is no {expected.__name__}")
        if not re.fullmatch(r"\w+", self.run, re.ASCII):
            raise ValueError(f"{self.run!r} is not the name of a run")

    @property
    def of_this_boot(self) -> bool:
        return self.boot == boot_id()

    @property
    def of_other_machine(self) -> bool:
        """Whether its boot is not an earlier one of this machine, and may last."""
        return not self.of_this_boot and self.machine not in ("", machine())

    @property
    def node(self) -> str:
        """Name of the machine, for people."""
        return self.machine.partition(" ")[0]

    @property
    def of_other_namespace(self) -> bool:
        """Whether its processes may be alive where they cannot be seen from here."""
        return self.of_this_boot and self.process_namespace not in ("", process_namespace())

    def owner_is_alive(self) -> bool:
        return self.of_this_boot and self.owner.alive()


class Journal:
    """An open journal that intents are written to; a context manager.

    Parameters
    ----------
    folder
        See `state_folder`.
    header
        Written when the file is made, with this process as the holder.

    Raises
    ------
    NoJournal
        Now or by any method, if the folder or its disk does not take what is to be written.
    """

    def __init__(self, folder: Path, header: Header) -> None:
        process = Process.current()
        self.path = folder / f"insitu-{header.run}-{process.pid}.journal"
        self.header = replace(
            header,
            holder_pid=process.pid,
            holder_start=process.started,
            process_namespace=process_namespace(),
            machine=machine(),
        )
        self._next = 0
        self._open: dict[int, tuple[Undo, ...]] = {}
        self._touched: set[Path] = set()
        with problem_named(folder):
            self._file = self._begin()

    def _begin(self) -> int:
        make_durable_folder(self.path.parent)
        file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            require_own(os.fstat(file))
            line = encode(asdict(self.header))
            if os.write(file, line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file)
            sync_folders([self.path.parent])
        except OSError:
            os.close(file)
            self.path.unlink(missing_ok=True)
            raise
        return file

    def intend(self, undos: Sequence[Undo], settings: Sequence[str] = ()) -> int:
        """Record undos, durable on return; gives the number to mark them done with.

        Refuses, by `NoJournal`, what a recovery would refuse: nothing may be made that nobody would undo.

        Parameters
        ----------
        settings
            What is about to be written, for whoever reads the journal after a crash.
        """
        self._require_undoable(undos)
        number = self._next
        self._next += 1
        entry: dict[str, object] = {
            "intent": number,
            "undo": [asdict(undo) for undo in undos],
            "settings": list(settings),
        }
        with problem_named(self.path.parent):
            self._append(entry)
            os.fdatasync(self._file)
        self._open[number] = tuple(undos)
        self._touched |= touched_folders(undos)
        return number

    def _require_undoable(self, undos: Sequence[Undo]) -> None:
        try:
            for undo in undos:
                require_ours(undo, self.header.ownership)
        except ForeignState as exc:
            raise NoJournal(
                f"what could not be undone is not begun: {exc.message}",
                "whoever names it must give an absolute path without `..`, with the run's mark in its last part",
            ) from exc

    def done(self, number: int) -> None:
        """Record that an intent's undos have been carried out and verified."""
        with problem_named(self.path.parent):
            self._append({"done": number})
        self._open.pop(number, None)

    def _append(self, document: dict[str, object]) -> None:
        """Add a line or nothing: on a full disk the kernel may take a part that a later line would join."""
        size = os.fstat(self._file).st_size
        line = encode(document)
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
        if not self._open:
            sync_folders(self._touched)
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
class Intent:
    """Undos that were recorded together, with what was about to be written."""

    number: int
    undos: tuple[Undo, ...]
    settings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entries:
    """What a journal says.

    Attributes
    ----------
    header
        ``None`` if it was torn before its header was whole: nothing had begun.
    intents
        Those that were not marked done, the latest first.
    """

    header: Header | None
    intents: tuple[Intent, ...] = field(default=())

    @property
    def pending(self) -> tuple[Undo, ...]:
        """Undos to carry out: of the latest intent first, and within one as it was written."""
        return tuple(undo for intent in self.intents for undo in intent.undos)


def read(path: Path) -> Entries:
    """Read a journal that may be torn or still be written to.

    Raises
    ------
    ForeignState
        If the file is no journal of a format that this version knows, or not this user's; it is left alone.
    """
    descriptor = open_own(path, os.O_RDONLY)
    try:
        return decode(read_all(descriptor), path)
    finally:
        os.close(descriptor)


def open_own(path: Path, flags: int) -> int:
    """Open a journal that nobody but this user can have written: what it says will be carried out.

    Raises
    ------
    ForeignState
        If it is no regular file, or another user's, or others may write to it.
    OSError
        If it cannot be opened.
    """
    try:  # nonblocking: a pipe in its place must not hold us up
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as exc:
        if exc.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise ForeignState(f"{path} is not a journal: no regular file; left alone") from exc
        raise
    status = os.fstat(descriptor)
    problem = not_own(status) if stat.S_ISREG(status.st_mode) else "is not a journal: no regular file"
    if problem:
        os.close(descriptor)
        raise ForeignState(f"{path} {problem}; left alone", "look at it, then delete it or correct its mode")
    return descriptor


def read_all(descriptor: int) -> bytes:
    """All bytes of an open file."""
    content = b""
    while part := os.pread(descriptor, 1 << 20, len(content)):
        content += part
    return content


def encode(document: dict[str, object]) -> bytes:
    """One line of a journal."""
    return json.dumps(document, separators=(",", ":")).encode() + b"\n"


def decode(content: bytes, path: Path) -> Entries:
    """What the bytes of a journal say; see `read`."""
    lines = content.split(b"\n")[:-1]  # what follows the last newline is torn
    try:
        if not lines:
            _require_torn_header(content)
            return Entries(None)
        header = _header_from(json.loads(lines[0]))
        intents: dict[int, Intent] = {}
        for document in map(json.loads, lines[1:]):
            if "intent" in document:
                intent = _intent_from(document)
                intents[intent.number] = intent
            else:
                intents.pop(document["done"], None)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as exc:
        raise ForeignState(
            f"{path} is not a journal that this version can read ({exc}); left alone",
            "use the version of insitu that wrote it",
        ) from exc
    return Entries(header, tuple(intents[number] for number in sorted(intents, reverse=True)))


_BEGIN = b'{"run":"'
"""Of every journal; zeros are what failing power may leave of it."""


def _require_torn_header(content: bytes) -> None:
    if not (content.startswith(_BEGIN) or _BEGIN.startswith(content.rstrip(b"\0"))):
        raise ValueError("it does not begin as one")


def _header_from(document: dict[str, Any]) -> Header:
    if document["format"] != _FORMAT:
        raise ValueError(f"format {document['format']}, this is {_FORMAT}")
    return Header(**document)


def _intent_from(document: dict[str, Any]) -> Intent:
    number, settings = document["intent"], tuple(document["settings"])
    undos = tuple(Undo(**(undo | {"kind": UndoKind(undo["kind"])})) for undo in document["undo"])
    texts = [*settings, *(text for undo in undos for text in (undo.path, undo.started, undo.prior, undo.written))]
    if type(number) is not int or not all(type(text) is str for text in texts):
        raise TypeError("a number or a text is none")
    return Intent(number, undos, settings)


def touched_folders(undos: Iterable[Undo]) -> set[Path]:
    """Folders whose entries undos delete."""
    return {Path(undo.path).parent for undo in undos if undo.kind is UndoKind.FOLDER}
