"""What keeps ray from starting, or ends its agent, and can be seen from outside: ray's own words do not tell."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors.state_folder import state_folder
from insitu.orchestrator.errors import CannotExecute

_LONGEST_SOCKET_BYTES = 107
"""Of a path, on Linux: ``sun_path`` has 108 bytes, the last of them zero."""
_SOCKET = "/session_2000-01-01_00-00-00_000000_{pid}/sockets/plasma_store"
"""The longest one that ray 2 makes in its folder."""
_LITTLE_BYTES = 65536.0
"""With less on a disk, ray's processes and the agent end without a word at their first write."""


def require_short_path(folder: Path, pid: int) -> None:
    """Refuse a folder for ray in which the names of its sockets would be too long for the kernel.

    Parameters
    ----------
    folder
        To be made in the folder for temporary files.
    pid
        Of the process that starts ray.

    Raises
    ------
    CannotExecute
        If they would.
    """
    excess = len(os.fsencode(folder)) + len(_SOCKET.format(pid=pid)) - _LONGEST_SOCKET_BYTES
    if excess > 0:
        most = len(os.fsencode(folder.parent)) - excess
        raise CannotExecute(
            f"the path of the folder for temporary files, {folder.parent}, is too long for ray's sockets",
            hint=f"choose another one of at most {most} characters: TMPDIR=/tmp",
        )


def full_disk(ray_folder: Path, run_directory: Path) -> CannotExecute | None:
    """The disk that nothing more can be written to, of those that ray and its agent need; ``None`` if all can."""
    for place in (
        _Place("the state folder", state_folder(), "choose another state folder with INSITU_STATE"),
        _Place("the folder for temporary files", ray_folder.parent, "choose another one with TMPDIR"),
        _Place("the run directory", run_directory, "give the run another place"),
    ):
        if _room_bytes(place.folder) < _LITTLE_BYTES:
            message = f"the disk of {place.name} {place.folder} is full"
            return CannotExecute(message, hint=f"free some space there, or {place.other}")
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    """A folder that is written to, and what to do for another one."""

    name: str
    folder: Path
    other: str


def _room_bytes(folder: Path) -> float:
    """What this user can still write; not a limit where that cannot be seen."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return float("inf")
    return float((disk.f_bavail if os.geteuid() else disk.f_bfree) * disk.f_frsize)
