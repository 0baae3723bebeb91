"""Run one program in a sandbox and tell what became of it; standard library only, for any user's Python.

As a program: ``python -m tests.execution.sandboxed FOLDER CHANGES COMMAND...``, with changes to the launch as
JSON; prints the result as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from insitu.orchestrator.execution.sandbox import protocol
from insitu.orchestrator.execution.sandbox.client import Launcher


@dataclass(frozen=True, slots=True)
class Result:
    """What the agent's side saw; `output` and `stderr` are what the program wrote."""

    started: bool
    status: int | None
    reason: str
    missing: bool
    wall_s: float
    running_s: float
    cpu_s: float
    output: str
    stderr: str


def launcher_in(folder: Path, **changes: Any) -> Launcher:
    """A launcher with scratch, data and stage below `folder`."""
    for name in ("scratch", "data", "stage"):
        (folder / name).mkdir(exist_ok=True)
    plain = protocol.Surroundings(
        stage=f"{folder}/stage",
        writable=f"{folder}/scratch",
        readable=f"{folder}/data",
        private_bytes=1 << 26,
        unprivileged=os.geteuid() != 0,
    )
    return Launcher(replace(plain, **changes))


def prepare(folder: Path, command: tuple[str, ...], changes: dict[str, Any]) -> protocol.Launch:
    """A launch of `command` in the scratch folder below `folder`, its stdout there."""
    cycle = changes.pop("duty_cycle", None)
    plain = protocol.Launch(
        command=command,
        environment={"PATH": os.defpath, "HOME": "/root" if os.geteuid() == 0 else "/tmp", "LANG": "C.UTF-8"},
        folder=f"{folder}/scratch",
        stdout=f"{folder}/scratch/stdout",
        stderr=f"{folder}/stderr",
        file_bytes=1 << 26,
        processes=4096,
        duty_cycle=protocol.DutyCycle(**cycle) if cycle else None,
    )
    return replace(plain, **changes)


def split(changes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Changes to the surroundings, and those to the launch."""
    names = {field.name for field in fields(protocol.Surroundings)}
    around = {name: changes[name] for name in changes if name in names}
    return around, {name: changes[name] for name in changes if name not in names}


def watch(launcher: Launcher, launch: protocol.Launch) -> Result:
    """Launch and wait until the sandbox is gone."""
    launcher.launch(launch)
    messages: dict[str, Any] = {}
    deadline = time.monotonic() + 60
    while "Reaped" not in messages:
        message = launcher.next_message(deadline - time.monotonic())
        if message is None:
            raise TimeoutError(f"no word from the sandbox after {list(messages)}")
        messages[type(message).__name__] = message
    exited, refused = messages.get("Exited"), messages.get("NotStarted")
    return Result(
        started="Started" in messages,
        status=exited.status if exited else None,
        reason=refused.reason if refused else "",
        missing=bool(refused and refused.missing),
        wall_s=exited.wall_s if exited else 0.0,
        running_s=exited.running_s if exited else 0.0,
        cpu_s=exited.usage["utime"] + exited.usage["stime"] if exited else 0.0,
        output=_read(launch.stdout),
        stderr=_read(launch.stderr),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def main() -> None:
    folder, changes, command = Path(sys.argv[1]), json.loads(sys.argv[2]), tuple(sys.argv[3:])
    around, changes = split(changes)
    with launcher_in(folder, **around) as launcher:
        result = watch(launcher, prepare(folder, command, changes))
    json.dump(asdict(result), sys.stdout)


if __name__ == "__main__":
    main()
