"""A forked process that stops before every system call that changes something, until it is told to go on.

Whoever holds it can let it go, kill it there as SIGKILL does at any moment (no handler and no ``finally`` runs,
and the kernel takes its locks), or let it write only a part of a line first.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import struct
from collections.abc import Callable
from typing import Any, NoReturn

from insitu.injectors.processes import Process

_CHANGES = ("write", "pwrite", "fsync", "fdatasync", "ftruncate", "mkdir", "rmdir", "unlink", "rename", "chmod")
_GO = -1
_ERROR = "error"


class Stepped:
    """The process.

    Attributes
    ----------
    waits_for
        Name of the call that it stands before; empty once it has ended.
    result
        What its function gave; ``None`` if it was killed.
    """

    def __init__(self, function: Callable[[], object]) -> None:
        asks, self._asks_write = os.pipe()
        answers, self._answers = os.pipe()
        self._asks = os.fdopen(asks, "r")
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._answers)
            self._asks.close()
            _run(function, self._asks_write, answers)
        os.close(self._asks_write)
        os.close(answers)
        self.process = Process.of(self.pid)
        self.waits_for = ""
        self.result: object = None
        self._listen()

    @property
    def alive(self) -> bool:
        return bool(self.waits_for)

    def go(self) -> None:
        """Make the call, and stop before the next one."""
        self._answer(_GO)

    def tear(self, size: int) -> None:
        """Write so many bytes of what it wants to write, and be killed."""
        assert self.waits_for == "write"
        self._answer(size)

    def kill(self) -> None:
        """SIGKILL, where it stands."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            self._listen()

    def notice(self) -> None:
        """See whether somebody else has killed it."""
        if self.alive and not self.process.alive():
            self._listen()

    def finish(self) -> object:
        """Let it go to its end."""
        while self.alive:
            self.go()
        return self.result

    def _answer(self, answer: int) -> None:
        os.write(self._answers, struct.pack("i", answer))
        self._listen()

    def _listen(self) -> None:
        line = self._asks.readline()
        kind, _, rest = line.rstrip("\n").partition(" ")
        self.waits_for = rest if kind == "before" else ""
        if kind in ("result", _ERROR):
            self.result = json.loads(rest)
        if not self.alive:
            os.waitpid(self.pid, 0)
            self._asks.close()
            os.close(self._answers)
        if kind == _ERROR:
            raise AssertionError(f"a stepped process failed: {self.result}")


def _run(function: Callable[[], object], asks: int, answers: int) -> NoReturn:
    write, kill = os.write, os.kill

    def say(text: str) -> None:
        write(asks, f"{text}\n".encode())

    def may_go(name: str) -> int:
        say(f"before {name}")
        answer = os.read(answers, 4)
        if len(answer) < 4:  # whoever steps has ended
            os._exit(1)
        return int(struct.unpack("i", answer)[0])

    def gated(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def stop_before(*arguments: Any, **keywords: Any) -> Any:
            size = may_go(name)
            if size != _GO:
                write(arguments[0], arguments[1][:size])
                kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **keywords)

        return stop_before

    with contextlib.suppress(BaseException):
        for name in _CHANGES:
            setattr(os, name, gated(name, getattr(os, name)))
        signal.pidfd_send_signal = gated("kill", signal.pidfd_send_signal)
        opening = os.open

        def open_gated(path: Any, flags: int, *arguments: Any, **keywords: Any) -> int:
            if flags & os.O_CREAT:
                may_go("create")
            return opening(path, flags, *arguments, **keywords)

        os.open = open_gated
        try:
            result = json.dumps(function())
        except BaseException as exc:
            say(f"{_ERROR} {json.dumps(f'{type(exc).__name__}: {exc}')}")
        else:
            say(f"result {result}")
    os._exit(0)
