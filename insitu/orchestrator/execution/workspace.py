"""The folders of a run on its node: marked as ours, watched, deleted with the trial or the agent."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors.contract import Ownership
from insitu.injectors.synchronous import make_synchronous


@dataclass(frozen=True, slots=True)
class Workspace:
    """Paths below one folder; every one that is deleted later carries the run's mark.

    Attributes
    ----------
    slot
        The part that sandboxes may write to: holds the scratch folder of the trial at hand.
    scratch
        The same path for every trial of a run, fresh for each.
    data
        The run's data, shown read-only.
    stage
        Empty; sandboxes build their view on it.
    stderr
        Takes the subject's standard error, outside its reach.
    """

    slot: Path
    scratch: Path
    data: Path
    stage: Path
    stderr: Path

    @classmethod
    def below(cls, folder: Path, owner: Ownership) -> Workspace:
        """Name the folders; makes none."""
        slot, data, stage = (folder / f"{owner.prefix}-{name}" for name in ("slot", "data", "stage"))
        return cls(slot, slot / f"{owner.prefix}-scratch", data, stage, stage.with_suffix(".stderr"))

    @property
    def lasting(self) -> tuple[Path, ...]:
        """What stays from trial to trial."""
        return (self.slot, self.data, self.stage, self.stderr)

    def make(self) -> None:
        """Create what stays from trial to trial; `OSError` if the disk is full."""
        for folder in (self.slot, self.data, self.stage):
            folder.mkdir(parents=True, exist_ok=True)
        self.stderr.touch()

    def begin_trial(self, *, synchronous: bool = False) -> None:
        """Make an empty scratch folder; `OSError` if there is one.

        Parameters
        ----------
        synchronous
            Whether writes below it go to the disk before they return.
        """
        os.mkdir(self.scratch)
        if synchronous:
            make_synchronous(self.scratch)
        os.truncate(self.stderr, 0)

    def describe_trial(self, *, synchronous: bool) -> tuple[str, ...]:
        """What `begin_trial` does, in words."""
        made = f"mkdir {self.scratch}"
        return (made, f"chattr +S {self.scratch}") if synchronous else (made,)

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
