"""The agent's side of the load server: started when the first load is, and again if it was ended."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from insitu.injectors.anomalies.board import Board
from insitu.injectors.anomalies.load import Load
from insitu.injectors.anomalies.order import FAILED, READY, StartLoad
from insitu.injectors.errors import InjectorError, NotSettable, UndoFailed
from insitu.injectors.journal import Journal
from insitu.injectors.processes import start_time
from insitu.injectors.undo import Undo, UndoKind

_END_S = 2.0
"""How long a killed process may take to be gone, beside giving back its memory."""
_SLICE_S = 0.1
"""Longest wait between two calls of `meanwhile`."""


class LoadServer:
    """A server process, journalled as long as it runs.

    Attributes
    ----------
    patience_s
        How long workers may take to prepare, beside the memory that they are to hold.
    """

    def __init__(self, journal: Journal) -> None:
        self.patience_s = 20.0
        self._journal = journal
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        self._intent = -1

    def start_load(self, order: StartLoad, meanwhile: Callable[[], None] = lambda: None) -> RunningLoad:
        """Start a load; gives it once all its workers are about to begin, or have begun.

        Parameters
        ----------
        meanwhile
            Called while they prepare; what it raises ends the server, and with it the workers.

        Raises
        ------
        NotSettable
            If a worker says why it cannot.
        InjectorError
            If the server does not answer.
        """
        load = order.load
        patience_s = self.patience_s + load.taking_s
        board = Board.make(load.workers, len(load.windows or ()))
        started = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_SEMAPHORE)
        answers, theirs = os.pipe2(os.O_CLOEXEC)
        try:
            try:
                self._send(order.encode(), [board, started, theirs])
            finally:
                os.close(theirs)
            running = RunningLoad(load, Board(board, load.workers, len(load.windows or ())), started)
            try:
                self._await(running, answers, patience_s, meanwhile)
            except BaseException:
                running.end()
                raise
        except TimeoutError as exc:
            self.close()  # whatever it hangs on, the next trial gets another one
            raise InjectorError(f"the load server did not start {load} within {patience_s:g} s") from exc
        except BaseException as exc:
            with contextlib.suppress(OSError):
                os.close(started)
            if not isinstance(exc, InjectorError):  # workers that still prepare are not known yet
                self.close()
            raise
        finally:
            os.close(board)
            os.close(answers)
        return running

    def _send(self, text: bytes, descriptors: list[int]) -> None:
        if self._process is None or self._process.poll() is not None:
            self.close()
            self._start()
        assert self._connection is not None
        try:
            socket.send_fds(self._connection, [text], descriptors)
        except OSError as exc:
            self.close()
            raise InjectorError(f"the load server ended: {exc}") from exc

    @staticmethod
    def _await(running: RunningLoad, answers: int, patience_s: float, meanwhile: Callable[[], None]) -> None:
        deadline = time.monotonic() + patience_s
        waiting = running.load.workers
        poller = select.poll()
        poller.register(answers, select.POLLIN)
        while True:
            meanwhile()
            left_s = min(_SLICE_S, deadline - time.monotonic())
            if not poller.poll(max(0, 1000 * left_s) if waiting else 0.5):
                if time.monotonic() > deadline:
                    raise TimeoutError
                if waiting == 0 and running.begun:
                    break
                continue
            text = os.read(answers, 4096)
            ready, failed, reason = text.partition(FAILED)
            if failed:
                raise NotSettable(reason.partition(FAILED)[0].decode(errors="replace"))
            if not text:
                raise InjectorError(f"{running.load} ended before it began")
            waiting -= ready.count(READY)
            if waiting == 0:
                running.adopt()

    def _start(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.server", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={
                    "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
                    "PATH": os.defpath,
                    "OPENBLAS_NUM_THREADS": "1",
                },
                start_new_session=True,
            )
        self._connection = ours
        pid = self._process.pid
        self._intent = self._journal.intend([Undo(UndoKind.PROCESS, f"/proc/{pid}", start_time(pid))])

    def close(self) -> None:
        """End the server, and with it every load."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._journal.done(self._intent)


@dataclass(slots=True)
class _Process:
    pid: int
    pidfd: int


class RunningLoad:
    """The workers of one load.

    Attributes
    ----------
    pids
        Of the workers.
    """

    def __init__(self, load: Load, board: Board, started: int) -> None:
        self.load = load
        self.board = board
        self._started = started
        self._processes: list[_Process] = []

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(process.pid for process in self._processes)

    @property
    def begun(self) -> bool:
        """Whether those that are to be at work from the first moment on are."""
        at_once = self.load.windows is None and self.load.duty >= 1 and not self.load.rate
        return not at_once or all(mark.presence(0).first for mark in self.board.marks)

    def adopt(self) -> None:
        """Know the workers; they have introduced themselves."""
        for mark in self.board.marks:
            with contextlib.suppress(ProcessLookupError):
                self._processes.append(_Process(mark.pid, os.pidfd_open(mark.pid)))

    def start_windows(self, at: float) -> None:
        """The subject was executed at a time of the monotonic clock: windows count from it."""
        self.board.start = at
        os.eventfd_write(self._started, self.load.workers)

    def end(self) -> None:
        """Kill all workers and wait until they are gone.

        Raises
        ------
        UndoFailed
            If one is not.
        """
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)
        deadline = time.monotonic() + _END_S + self.load.taking_s
        for process in self._processes:
            ended, _, _ = select.select([process.pidfd], [], [], max(0.0, deadline - time.monotonic()))
            if not ended:
                raise UndoFailed(f"process {process.pid} of {self.load} does not end", "insitu recover")
        for process in self._processes:
            os.close(process.pidfd)
        self._processes = []
        if self._started >= 0:
            os.close(self._started)
            self._started = -1
