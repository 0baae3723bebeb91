"""The agent's side of the launcher: start it, launch, poll for messages, be sure that it is gone."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from dataclasses import asdict
from types import TracebackType
from typing import Self

from . import protocol


class LauncherGone(Exception):
    """The launcher ended, so that every sandbox of it has ended, too."""


class Launcher:
    """A running launcher process; a context manager that ends it.

    Attributes
    ----------
    pid
        Of the launcher.
    """

    def __init__(self, surroundings: protocol.Surroundings) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                # -I: nothing of the caller's environment or folder; -S -E would lose the virtual environment
                [
                    sys.executable,
                    "-m",
                    f"{__package__}.launcher",
                    str(theirs.fileno()),
                    json.dumps(asdict(surroundings)),
                ],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                cwd="/",
                env={"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PATH": os.defpath},
                start_new_session=True,
            )
        self._connection = ours
        self._ready_for: tuple[str, ...] | None = None
        self.pid = self._process.pid

    def make_ready(self, join_files: tuple[str, ...]) -> None:
        """Have the next sandbox built, a member of these control groups; does not wait for it."""
        self._send(protocol.MakeReady(join_files))
        self._ready_for = join_files

    def confirm_ready(self, join_files: tuple[str, ...] = (), within_s: float = 20.0) -> int:
        """Process 1 of the sandbox that the next launch will use, as the host counts.

        Raises
        ------
        LauncherGone
            If it does not answer.
        OSError
            If the kernel refuses a sandbox.
        """
        if self._ready_for != join_files:
            self.make_ready(join_files)
        self._send(protocol.Confirm())
        match self.next_message(within_s):
            case protocol.Confirmed(init):
                return init
            case protocol.NotStarted(reason):
                raise OSError(reason)
            case _:
                raise LauncherGone("it does not answer")

    def launch(self, launch: protocol.Launch, join_files: tuple[str, ...] = ()) -> None:
        """Execute a program as a member of control groups; what becomes of it comes by `next_message`."""
        if self._ready_for != join_files:
            self.make_ready(join_files)
        self._ready_for = None
        self._send(launch)

    def _send(self, message: protocol.Message) -> None:
        try:
            protocol.send(self._connection, message)
        except OSError as exc:
            raise LauncherGone(str(exc)) from exc

    def next_message(self, timeout_s: float, others: tuple[int, ...] = ()) -> protocol.Message | None:
        """The next message; ``None`` when none came within the timeout, or before one of `others` was readable."""
        own = self._connection.fileno()
        readable, _, _ = select.select([own, *others], [], [], max(0.0, timeout_s))
        if own not in readable:
            return None
        try:
            message = protocol.receive(self._connection)
        except ConnectionResetError:  # it was killed before it had read what was sent to it
            message = None
        if message is None:
            raise LauncherGone(f"launcher {self.pid} ended")
        return message

    def close(self) -> None:
        """End the launcher and whatever it started."""
        self._connection.close()
        try:
            self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
