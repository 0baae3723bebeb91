"""The agent's side of the prober: start it, let it probe while a trial runs, hear what it found."""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Self

from insitu.orchestrator.plan.placeholders import substitute
from insitu.orchestrator.plan.types import Probe

_LARGEST_PACKET = 1 << 16
_PATIENCE_S = 2.0
"""How much later than its own deadline an answer may come; on a busy node the prober waits for a processor."""
_START_S = 20.0
"""How long the prober may take until its first answer."""


@dataclass(frozen=True, slots=True)
class Order:
    """What the prober is told: probe in round `number`, or, with 0, rest."""

    number: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What one execution of the probe came to.

    Attributes
    ----------
    number
        Round that it belongs to.
    problem
        Why the node is not well; empty if it is.
    """

    number: int
    problem: str


@dataclass(frozen=True, slots=True)
class Heard:
    """What the agent knows.

    Attributes
    ----------
    problem
        Why the node is not well; empty if it is, as far as heard.
    recent
        Whether an answer that it is well has come within the last interval of the probe.
    """

    problem: str
    recent: bool


def encode(message: Order | Answer) -> bytes:
    """A message as one packet."""
    return json.dumps(asdict(message)).encode()


class Prober:
    """A running prober process; a context manager that ends it, and with it any probe."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        own = asdict(probe) | {"command": list(command_of(probe))}
        arguments = [str(theirs.fileno()), json.dumps(own)]
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", f"{__package__}.prober", *arguments],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={"PYTHONPATH": os.pathsep.join(p for p in sys.path if p), **environment()},
                start_new_session=True,
            )
        ours.setblocking(False)
        self._connection = ours
        self._round = 0
        self._problem = ""
        self._well_at = self._asked_at = -math.inf
        self.ended = False
        self.pid = self._process.pid

    @property
    def descriptor(self) -> int:
        """Readable when there is something to hear."""
        return self._connection.fileno()

    def go(self) -> None:
        """Probe from now on."""
        self._round += 1
        self._problem = ""
        self._asked_at = time.monotonic()
        self._say(self._round)

    def rest(self) -> None:
        """End the probe that is under way, and begin no other."""
        self._say(0)

    def _say(self, number: int) -> None:
        try:
            self._connection.send(encode(Order(number)))
        except OSError:
            self._has_ended()

    def hear(self) -> Heard:
        """What is known of the node by now: by its latest answer, or by the first bad one since the last call."""
        while not self.ended and (answer := self._next_answer()) is not None:
            if not answer.problem:
                self._well_at = time.monotonic()
                self._problem = ""
            elif answer.number == self._round:
                self._problem = answer.problem
                break
        now = time.monotonic()
        silent_s = now - max(self._asked_at, self._well_at)
        late_s = _START_S if math.isinf(self._well_at) else _PATIENCE_S
        if not self._problem and silent_s > self.probe.every_s + self.probe.timeout_s + late_s:
            self._problem = f"the process that executes the probe has been silent for {silent_s:.1f} s"
        return Heard(self._problem, now - self._well_at <= self.probe.every_s)

    def _next_answer(self) -> Answer | None:
        try:
            packet = self._connection.recv(_LARGEST_PACKET)
        except BlockingIOError:
            return None
        except OSError:
            packet = b""
        if not packet:
            self._has_ended()
            return None
        return Answer(**json.loads(packet))

    def _has_ended(self) -> None:
        self.ended = True
        self._problem = "the process that executes the probe has ended"

    def close(self) -> None:
        """End the prober; the kernel ends the probe with it."""
        self._connection.close()
        try:
            self._process.wait(timeout=0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def command_of(probe: Probe) -> tuple[str, ...]:
    """The probe's argument list with everything filled in."""
    return tuple(substitute(argument, {"python": sys.executable}) for argument in probe.command)


def environment() -> dict[str, str]:
    """What a probe sees: nothing of the agent's own environment, which holds a token of ray's."""
    inherited = {name: os.environ[name] for name in ("HOME", "USER") if name in os.environ}
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", **inherited}
