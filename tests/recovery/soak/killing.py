"""One node after the other, and one kill after the other."""

from __future__ import annotations

import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from insitu.injectors.guard import LEASE_S
from tests import machine
from tests.recovery.soak.census import command_of

CLEAN_WITHIN_S = LEASE_S + 1.0
_MOST_KILLS_PER_NODE = 12
_ROLES = (
    ("insitu.injectors.guard", "guard"),
    ("sandbox.launcher", "sandbox"),
    ("anomalies", "anomalies"),
    ("network", "network"),
)


@dataclass(slots=True)
class Tally:
    """What has happened so far.

    Attributes
    ----------
    slowest_s
        Longest time from the end of a node to the end of everything of it.
    by_recover
        Nodes whose guard had been killed just before, so that ``recover`` had to finish.
    dirty
        What was left in spite of everything, and agents that kept files open from trial to trial.
    """

    killed: Counter[str] = field(default_factory=Counter)
    nodes: int = 0
    trials: int = 0
    slowest_s: float = 0.0
    by_recover: int = 0
    dirty: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return self.killed.total()


def live_through(folder: Path, state: Path, generator: random.Random, kills: int, tally: Tally) -> None:
    """Start a node, kill something of it again and again until it ends, and look at what it left."""
    run = f"soak{secrets.token_hex(4)}"
    home = folder / run
    home.mkdir()
    environment = os.environ | {"INSITU_STATE": str(state)}
    log = home / "log"
    with log.open("wb") as out:
        owner = subprocess.Popen(
            [sys.executable, "-m", "tests.recovery.soak.node", str(home), run],
            stdout=out,
            stderr=out,
            env=environment,
            start_new_session=True,
        )
    guard_killed_at = -1e9
    ended_at = time.monotonic()
    try:
        _wait_for_work(owner, log)
        for _ in range(min(kills, _MOST_KILLS_PER_NODE)):
            time.sleep(generator.uniform(0.0, 1.0))
            victim = _choose(owner.pid, run, generator)
            if owner.poll() is not None or victim is None:
                break
            pid, role = victim
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            ended_at = time.monotonic()
            tally.killed[role] += 1
            guard_killed_at = ended_at if role == "guard" else guard_killed_at
            if role in ("owner", "agent"):
                break
        else:
            os.kill(owner.pid, signal.SIGKILL)
            ended_at = time.monotonic()
            tally.killed["owner"] += 1
    finally:
        if owner.poll() is None and tally.killed.total() == 0:
            owner.kill()
        _reap(owner)
    tally.nodes += 1
    open_files = [int(line.split()[2]) for line in log.read_text().splitlines() if line[:1].isdigit()]
    tally.trials += len(open_files)
    if open_files and open_files[-1] > open_files[0]:
        tally.dirty.append(f"{run}: descriptors of its agent: {open_files}")
    ended_at = max(ended_at, log.stat().st_mtime - time.time() + time.monotonic())
    mark, paths = f"insitu-{run}", (str(home),)
    left = _left(mark, paths, state, run, ended_at + CLEAN_WITHIN_S)
    tally.slowest_s = max(tally.slowest_s, time.monotonic() - ended_at if not left else 0.0)
    if left and time.monotonic() - guard_killed_at < CLEAN_WITHIN_S + 5:
        tally.by_recover += 1
        recover = [sys.executable, "-m", "insitu", "recover"]
        subprocess.run(recover, env=environment, check=False, capture_output=True)
        left = _left(mark, paths, state, run, time.monotonic() + 1)
    tally.dirty += [f"{run}: {one}" for one in left]


def _wait_for_work(owner: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 30
    while log.stat().st_size == 0 and owner.poll() is None:
        if time.monotonic() > deadline:
            raise TimeoutError("the node does not begin to work")
        time.sleep(0.02)


def _reap(owner: subprocess.Popen[bytes]) -> None:
    try:
        owner.wait(timeout=15)
    except subprocess.TimeoutExpired:
        owner.kill()
        owner.wait()


def _choose(owner: int, run: str, generator: random.Random) -> tuple[int, str] | None:
    """A role at random, and one of its processes."""
    by_role: dict[str, list[int]] = {}
    for pid in _family(owner, run):
        by_role.setdefault(_role(pid, owner), []).append(pid)
    if not by_role:
        return None
    role = generator.choice(sorted(by_role))
    return generator.choice(by_role[role]), role


def _family(owner: int, run: str) -> list[int]:
    """The owner, everything below it, and what names the run: the guard has another parent."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            children.setdefault(_parent(int(name)), []).append(int(name))
    family, pending = [], [owner]
    while pending:
        pid = pending.pop()
        family.append(pid)
        pending += children.get(pid, [])
    named = machine.processes((f"insitu-{run}",))
    return [*family, *(pid for pid in named if pid not in family)]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _role(pid: int, owner: int) -> str:
    if pid == owner:
        return "owner"
    command = command_of(pid)
    if "tests.recovery.soak.node" in command:
        return "agent"
    return next((role for mark, role in _ROLES if mark in command), "subject")


def _left(mark: str, paths: tuple[str, ...], state: Path, run: str, deadline: float) -> list[str]:
    while True:
        left = machine.leftovers(mark, paths, 0.0)
        left += map(_journal, state.glob(f"insitu-{run}-*.journal"))
        if not left or time.monotonic() > deadline:
            return left
        time.sleep(0.05)


def _journal(path: Path) -> str:
    """One that was left, with its last line."""
    try:
        *_, last = ["", *path.read_text().splitlines()]
    except FileNotFoundError:
        last = "deleted meanwhile"
    return f"{path}: {last}"
