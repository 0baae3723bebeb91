"""The command where ray cannot be imported: what it does then, it does without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def insitu(
    *arguments: str, broken: Path, prepare: tuple[str, ...] = (), state: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run it.

    Parameters
    ----------
    broken
        A folder to keep what stands in ray's place.
    prepare
        Shell commands before it, in a mount namespace of its own.
    """
    broken.mkdir(exist_ok=True)
    (broken / "ray.py").write_text("raise SystemExit('ray was imported')\n")
    environment = os.environ | {"PYTHONPATH": str(broken)} | ({"INSITU_STATE": str(state)} if state else {})
    command = [sys.executable, "-m", "insitu", *arguments]
    if prepare:
        command = ["unshare", "--mount", "sh", "-c", " && ".join([*prepare, 'exec "$@"']), "sh", *command]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
