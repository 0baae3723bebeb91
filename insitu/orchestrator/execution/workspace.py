"""The folder of one trial on its node: marked as ours, watched, deleted with the trial."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TrialFolder:
    """Paths of one trial.

    Attributes
    ----------
    scratch
        The only place where the subject's writes reach the disk.
    stage
        Empty; the sandbox builds its view on it.
    stderr
        Takes the subject's standard error, outside its reach.
    """

    path: Path

    @property
    def scratch(self) -> Path:
        return self.path / "scratch"

    @property
    def stage(self) -> Path:
        return self.path / "stage"

    @property
    def stderr(self) -> Path:
        return self.path / "stderr"

    def make(self) -> None:
        """Create the folders; `OSError` if one exists or the disk is full."""
        self.path.mkdir(mode=0o700)
        self.scratch.mkdir()
        self.stage.mkdir()

    def stderr_tail(self, length: int = 2000) -> str:
        """The end of the subject's standard error."""
        try:
            with self.stderr.open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - length))
                return file.read(length).decode(errors="replace").strip()
        except OSError:
            return ""


def free_bytes(folder: Path) -> float:
    """Space that is left to this user on the disk of `folder`."""
    status = os.statvfs(folder)
    return float(status.f_bavail * status.f_frsize)


def size_of(folder: Path, at_most_entries: int = 20_000) -> float:
    """Bytes on disk below `folder`, of the first so many entries: a lower bound, cheap enough to repeat."""
    total, left = 0.0, at_most_entries
    pending = [str(folder)]
    while pending and left > 0:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        break
                    total += entry.stat(follow_symlinks=False).st_blocks * 512
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
        except OSError:
            continue
    return total
