"""The programs of this machine that build and boot the guest."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.guest.errors import BuildFailed, CannotRun

_PACKAGE_OF = {
    "qemu-system-x86_64": "qemu-system-x86",
    "setpriv": "util-linux",
    "mkfs.ext4": "e2fsprogs",
    "apt-get": "apt",
    "dpkg-deb": "dpkg",
    "debootstrap": "debootstrap",
}
TO_BOOT = ("qemu-system-x86_64", "setpriv", "mkfs.ext4")
TO_BUILD = ("apt-get", "dpkg-deb", "debootstrap", "mkfs.ext4")
_FOLDERS = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))


def need(programs: Sequence[str]) -> None:
    """Raise `CannotRun`, naming the Debian packages, if one of `programs` is not there."""
    missing = sorted({_PACKAGE_OF[program] for program in programs if not _found(program)})
    if missing:
        raise CannotRun(f"the guest needs Debian packages that are missing here: {' '.join(missing)}")


def path_of(program: str) -> str:
    """Full path of a program that `need` has found."""
    return _found(program) or program


def _found(program: str) -> str | None:
    return shutil.which(program, path=_FOLDERS)


def run(
    command: Sequence[str | Path], cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run a step of a build.

    Returns
    -------
    str
        What it printed.

    Raises
    ------
    BuildFailed
        With the last lines that it printed.
    """
    words = [path_of(str(command[0])), *map(str, command[1:])]
    done = subprocess.run(
        words,
        cwd=cwd,
        env=os.environ | dict(environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    if done.returncode:
        last = "\n".join(done.stdout.strip().splitlines()[-15:])
        raise BuildFailed(f"{command[0]} ended with {done.returncode}:\n{last}")
    return done.stdout


def fetch(
    what: str, command: Sequence[str | Path], cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run a step that does nothing but get something from elsewhere; as `run`, but for its error.

    Raises
    ------
    CannotRun
        If it fails: what we need cannot be had here and now, which is no fault of the build.
    """
    try:
        return run(command, cwd, environment)
    except BuildFailed as exc:
        last = str(exc).splitlines()[-1]
        raise CannotRun(f"{what} cannot be had here: {command[0]} says: {last}") from exc
