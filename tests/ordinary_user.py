"""Running Python as somebody without privileges: as ourselves, or, from root, as *nobody*.

Only modules of the standard library and of this repository can be imported there, since the interpreter of
the tests may be in a folder of root's own.
"""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
_VERSION = "import sys, insitu; sys.exit(sys.version_info < (3, 11))"


def ids() -> tuple[int, int]:
    """User and group of the ordinary user."""
    if os.geteuid() != 0:
        return os.geteuid(), os.getegid()
    nobody = pwd.getpwnam("nobody")
    return nobody.pw_uid, nobody.pw_gid


def run_python(
    arguments: Sequence[str], cwd: Path | str = "/", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python as the ordinary user; skips the test where there is no interpreter for them."""
    interpreter = _interpreter()
    if not interpreter:
        pytest.skip("no Python >= 3.11 that an ordinary user may execute with this repository")
    return _run([interpreter, *arguments], cwd, environment)


@cache
def _interpreter() -> str:
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            if _run([candidate, "-c", _VERSION], "/", {}).returncode == 0:
                return candidate
        except OSError:
            continue
    return ""


def _run(command: Sequence[str], cwd: Path | str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    user, group = ids()
    basic = {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"}
    if os.geteuid() != 0:
        return subprocess.run(
            command, env=basic | environment, cwd=cwd, capture_output=True, text=True, timeout=120
        )
    return subprocess.run(
        command,
        env=basic | environment,
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
        user=user,
        group=group,
        extra_groups=[],
    )
