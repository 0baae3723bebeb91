"""The folders of a run on its node: marked as ours, watched, deleted with the trial or the agent."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
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


_LONGEST_PATH = 3000
"""Below what the kernel takes, so that a folder cannot be too deep to be looked into."""


def size_of(folder: Path, at_most_entries: int = 20_000) -> float:
    """Bytes on disk below `folder`, of the first so many entries: a lower bound, cheap enough to repeat."""
    total, left = 0.0, at_most_entries
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    with ExitStack() as bases:
        pending: list[tuple[int | None, str]] = [(None, str(folder))]
        while pending and left > 0:
            base, path = pending.pop()
            with suppress(OSError), ExitStack() as stack:
                descriptor = os.open(path, flags, dir_fd=base)
                is_base = len(path) > _LONGEST_PATH
                (bases if is_base else stack).callback(os.close, descriptor)
                with os.scandir(descriptor) as entries:
                    for entry in entries:
                        left -= 1
                        if left < 0:
                            break
                        with suppress(FileNotFoundError):  # deleted meanwhile
                            total += entry.stat(follow_symlinks=False).st_blocks * 512
                        if entry.is_dir(follow_symlinks=False):
                            below = (descriptor, entry.name) if is_base else (base, f"{path}/{entry.name}")
                            pending.append(below)
    return total
