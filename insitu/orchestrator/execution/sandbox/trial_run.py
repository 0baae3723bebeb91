"""One empty sandbox, to see whether the kernel allows it."""

from __future__ import annotations

import os
from pathlib import Path

from . import protocol
from .client import Launcher, LauncherGone


def try_once(folder: Path) -> str:
    """Execute ``true`` in a sandbox below `folder` (left empty); gives the problem, or nothing."""
    slot, data, stage, stderr = (folder / name for name in ("slot", "data", "stage", "stderr"))
    for path in (slot, data, stage):
        path.mkdir()
    surroundings = protocol.Surroundings(str(stage), str(slot), str(data), 1 << 20, os.geteuid() != 0)
    launch = protocol.Launch(
        command=("true",),
        environment={"PATH": os.environ.get("PATH", os.defpath)},
        folder=str(slot),
        stdout="",
        stderr=str(stderr),
        file_bytes=1 << 20,
        processes=64,
    )
    problem = "it did not answer"
    try:
        with Launcher(surroundings) as launcher:
            launcher.launch(launch)
            while (message := launcher.next_message(10.0)) is not None:
                match message:
                    case protocol.Exited():
                        problem = ""
                    case protocol.NotStarted():
                        problem = message.reason
                    case protocol.Reaped():
                        break
    except LauncherGone as exc:
        problem = str(exc)
    finally:
        stderr.unlink(missing_ok=True)
        for path in (slot, data, stage):
            path.rmdir()
    return problem
