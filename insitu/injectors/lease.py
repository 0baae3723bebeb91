"""The holder's side of a guard: start it, renew the lease, set a deadline, and never be without a guard."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import select
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from insitu.injectors.errors import InjectorError
from insitu.injectors.guard import ENDURE, FAREWELL, LEASE_S, LIMIT, RENEW, UNLIMIT
from insitu.injectors.journal import Journal
from insitu.injectors.processes import Process

_BEAT_S = LEASE_S / 4


class NoGuard(InjectorError):
    """A guard cannot be started, so nothing may be held."""


class Lease:
    """A lease that a guard watches; a context manager that closes the journal.

    The guard is dismissed when the journal has been deleted, and not before: whoever is killed in between leaves
    none. If something is left to undo, it stays, and undoes that when this process has ended.

    A thread renews it, and starts another guard as soon as this one has ended, or has not read for a period
    (it is stopped): there is no time to wait for the next trial.

    Parameters
    ----------
    journal
        What the guard undoes; its holder must be this process.
    endures_silence
        The lease does not end when this process is stopped. For one that holds nothing itself.
    notice
        File that the guard leaves its reason in if it ends this process.
    keeper
        A process without which this one is of no use; the lease ends with it.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        endures_silence: bool = False,
        notice: Path | None = None,
        keeper: Process | None = None,
    ) -> None:
        self._journal = journal
        self._keeper = keeper
        self._period_s = math.inf if endures_silence else LEASE_S
        self._notice = notice
        self._lock = threading.Lock()
        self._limit = math.inf
        self._pipe = -1
        self._read_at = 0.0
        self._problem = ""
        self._bell = -1
        self._thread = threading.Thread(target=self._keep, name="insitu-lease", daemon=True)

    def __enter__(self) -> Self:
        """Start the guard; raises `NoGuard`."""
        with self._lock:
            self._replace()
        try:
            self._bell = os.eventfd(0, os.EFD_CLOEXEC)
        except OSError as exc:
            self._dismiss(self._pipe)
            raise _no_guard(exc) from exc
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.eventfd_write(self._bell, 1)
        self._thread.join()
        os.close(self._bell)
        self._say(ENDURE)  # nobody renews any more; the pipe ends with this process, or with the farewell
        try:
            self._journal.close()
        finally:
            if self._journal_is_gone():
                self._dismiss(self._pipe)

    def _journal_is_gone(self) -> bool:
        try:
            os.lstat(self._journal.path)
        except OSError as exc:
            return isinstance(exc, FileNotFoundError)
        return False

    def require_guard(self) -> None:
        """Start a guard if there is none, which is to say if the thread could not; raises `NoGuard`."""
        with self._lock:
            if self._guard_is_gone():
                self._replace()

    @contextmanager
    def limited_to(self, seconds: float) -> Iterator[None]:
        """A time after which everything is undone, whatever this process is at: the context must have ended."""
        self._set_limit(time.monotonic() + seconds)
        try:
            yield
        finally:
            self._set_limit(math.inf)

    def _set_limit(self, limit: float) -> None:
        with self._lock:
            self._limit = limit
            self._say_limit()

    def _say_limit(self) -> None:
        self._say(UNLIMIT if math.isinf(self._limit) else f"{LIMIT} {self._limit!r}")

    def _keep(self) -> None:
        """Renew until the bell rings; the kernel tells at once when the guard's end of the pipe is closed."""
        while True:
            poller = select.poll()
            poller.register(self._bell, select.POLLIN)
            poller.register(self._pipe, 0)  # POLLERR comes unasked
            before = time.monotonic()
            ready = dict(poller.poll(int(_BEAT_S * 1000)))
            if self._bell in ready:
                return
            late = time.monotonic() - before > 2 * _BEAT_S
            with self._lock:
                self._renew(late=late)
            if self._problem:  # the pipe is in error all the time
                time.sleep(_BEAT_S)

    def _renew(self, *, late: bool) -> None:
        now = time.monotonic()
        if late or not self._unread():  # whatever held this thread up may have held up the guard, too
            self._read_at = now
        if self._guard_is_gone() or now - self._read_at > LEASE_S:
            with contextlib.suppress(NoGuard):
                self._replace()
        else:
            self._say(RENEW)

    def _guard_is_gone(self) -> bool:
        poller = select.poll()
        poller.register(self._pipe, 0)
        return bool(poller.poll(0))

    def _unread(self) -> int:
        """Bytes that the guard has not read yet; Linux tells at either end of a pipe."""
        answer = fcntl.ioctl(self._pipe, termios.FIONREAD, struct.pack("i", 0))
        return int(struct.unpack("i", answer)[0])

    def _say(self, line: str) -> None:
        """Say one line, or none: it is shorter than PIPE_BUF. A guard that is gone will be missed elsewhere."""
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(self._pipe, f"{line}\n".encode())

    def _replace(self) -> None:
        """Start a guard; the one before it, if it lives, is renewed until the new one stands, then dismissed."""
        theirs = ours = -1
        try:
            theirs, ours = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            self._start(theirs)
        except (OSError, subprocess.SubprocessError) as exc:
            _close(ours)
            problem = _no_guard(exc)
            self._problem = problem.message
            raise problem from exc
        finally:
            _close(theirs)
        before, self._pipe = self._pipe, ours
        self._problem = ""
        self._read_at = time.monotonic()
        self._say_limit()
        self._dismiss(before)

    def _start(self, pipe: int) -> None:
        command = [sys.executable, "-m", "insitu.injectors.guard"]
        command += [str(pipe), str(self._journal.path), repr(self._period_s)]
        command += ["--notice", str(self._notice)] if self._notice is not None else []
        if self._keeper is not None:
            command += ["--keeper", str(self._keeper.pid), self._keeper.started]
        starter = subprocess.Popen(
            command,
            pass_fds=(pipe,),
            stdin=subprocess.DEVNULL,
            cwd="/",
            env={
                "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                "PATH": os.defpath,
                "INSITU_STATE": str(self._journal.path.parent),
            },
        )
        while True:
            try:
                status = starter.wait(timeout=_BEAT_S)
                break
            except subprocess.TimeoutExpired:
                if self._pipe >= 0:
                    self._say(RENEW)
        if status:
            raise subprocess.SubprocessError(f"it ended with status {status}")

    def _dismiss(self, pipe: int) -> None:
        if pipe < 0:
            return
        with contextlib.suppress(BrokenPipeError, BlockingIOError):
            os.write(pipe, f"{FAREWELL}\n".encode())
        os.close(pipe)


def _no_guard(cause: Exception) -> NoGuard:
    return NoGuard(f"no guard can be started: {cause}", "free what is lacking, then: insitu resume RUN")


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)
