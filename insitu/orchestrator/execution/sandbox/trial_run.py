"""One empty sandbox, to see whether the kernel allows it."""

from __future__ import annotations

import os
from pathlib import Path

from . import protocol
from .client import Launcher, LauncherGone


def try_once(folder: Path) -> str:
    """Execute ``true`` in a sandbox below `folder` (left empty); gives the problem, or nothing."""
    scratch, stage, stderr = folder / "scratch", folder / "stage", folder / "stderr"
    scratch.mkdir()
    stage.mkdir()
    launch = protocol.Launch(
        command=("true",),
        environment={"PATH": os.environ.get("PATH", os.defpath)},
        scratch=str(scratch),
        data="",
        stage=str(stage),
        stdout="",
        stderr=str(stderr),
        cgroup_files=(),
        private_bytes=1 << 20,
        file_bytes=1 << 20,
        processes=64,
        unprivileged=os.geteuid() != 0,
    )
    problem = "it did not answer"
    try:
        with Launcher() as launcher:
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
        scratch.rmdir()
        stage.rmdir()
    return problem
