"""Why a controller cannot be used here, and what would change that: each cause has a remedy of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Problem:
    """One cause, with its remedy."""

    reason: str
    remedy: str


def not_visible(name: str, group: Path) -> Problem:
    """The hierarchy is mounted, but without the group that this process is in."""
    return Problem(
        f"the {name} group {group} of this process is not visible here",
        "give the container a control-group namespace of its own (docker run --cgroupns=private)",
    )


def read_only(name: str, group: Path) -> Problem:
    """The hierarchy is mounted so that nobody here may write to it, root included."""
    return Problem(
        f"the {name} hierarchy is mounted read-only at {group}",
        f"as root: mount -o remount,rw {_mount_point(group)}; a container may not do that itself: start it with "
        "control groups that it may write to (docker run --privileged)",
    )


def no_permission(group: Path, version: int) -> Problem:
    """The group belongs to another user."""
    delegated = ", or in a group delegated to you: systemd-run --user --scope --property=Delegate=yes insitu ..."
    return Problem(f"no permission to make groups in {group}", "run as root" + (delegated if version == 2 else ""))


def not_handed_on(name: str) -> Problem:
    """Version 2: the controller is there, but groups beside or below this process would not have it."""
    return Problem(
        f"no group above this process hands the {name} controller to its children",
        "run in a group that has it: systemd-run --scope --property=Delegate=yes insitu ...; in a container, let "
        f"it be handed on: echo +{name} > cgroup.subtree_control, in the group above",
    )


def not_mounted(name: str, old: str) -> Problem:
    """Version 1: the kernel keeps the hierarchy, but it cannot be reached through any folder."""
    return Problem(
        f"the {name} ({old}) hierarchy is not mounted here",
        f"as root: mount -t cgroup -o {old} cgroup /sys/fs/cgroup/{old}; "
        "in a container, have /sys/fs/cgroup mounted",
    )


def absent(name: str, old: str, table: Path = Path("/proc/cgroups")) -> Problem:
    """The kernel does not offer the controller: it was built or booted without."""
    try:
        rows = [line.split() for line in table.read_text().splitlines()]
    except OSError:
        rows = []
    if any(row[0] == old and row[-1] == "0" for row in rows if len(row) == 4):
        return Problem(
            f"this kernel was booted without the {name} controller",
            f"boot it without cgroup_disable={old} on its command line, or with cgroup_enable={old}",
        )
    return Problem(
        f"this kernel offers no {name} controller", f"boot a kernel that has the {name} ({old}) controller"
    )


def _mount_point(group: Path) -> Path:
    while not group.is_mount() and group != group.parent:
        group = group.parent
    return group
