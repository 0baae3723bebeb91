"""Control groups, versions 1 and 2, behind one set of controller names (those of version 2).

Groups are made as children of the group that this process is in (version 1: nested groups are common, and a
limit above ours would otherwise be escaped; version 2: the nearest ancestor that delegates the controllers, where
`outer_limits` says which limits come along). Existing groups are never changed.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from insitu.injectors.cgroup_problems import (
    Problem,
    absent,
    no_permission,
    not_handed_on,
    not_mounted,
    not_visible,
    read_only,
)
from insitu.injectors.errors import ForeignState, NotSettable, UndoFailed

if TYPE_CHECKING:
    from insitu.injectors.contract import Setting

_VERSION_1_NAMES = {
    "cpu": "cpu",
    "cpuacct": "cpuacct",
    "io": "blkio",
    "memory": "memory",
    "pids": "pids",
    "cpuset": "cpuset",
}
"""Controller name of version 2 (and of us) to that of version 1; accounting is a controller of its own there."""

PRESSURE = "pressure"
"""Pseudo-controller: the version-2 tree for pressure files and ``cgroup.kill``, controllers or not."""


@dataclass(frozen=True, slots=True)
class Hierarchies:
    """Where this process may make groups, per controller.

    Attributes
    ----------
    version
        Controller to 1 or 2.
    parents
        Controller to the directory that children are made in.
    problems
        Controller to why there is no usable parent; one that is not named is not offered by the kernel.
    own
        Controller to the group that this process is in: its limits are those of whoever started us.
    """

    version: Mapping[str, int]
    parents: Mapping[str, Path]
    problems: Mapping[str, Problem]
    own: Mapping[str, Path] = field(default_factory=dict)

    def usable(self, controller: str) -> bool:
        return controller in self.parents

    def problem(self, controller: str) -> str:
        """Why a controller is not usable."""
        return self._problem(controller).reason

    def remedy(self, controller: str) -> str:
        """What would make it usable."""
        return self._problem(controller).remedy

    def _problem(self, controller: str) -> Problem:
        return self.problems.get(controller) or absent(controller, _VERSION_1_NAMES.get(controller, controller))


def discover(proc: Path = Path("/proc")) -> Hierarchies:
    """Read the mounted hierarchies and this process's place in them; changes nothing."""
    own: dict[str, str] = {}
    for line in (proc / "self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            own[name] = path
    groups: dict[str, Path] = {}
    version: dict[str, int] = {}
    parents: dict[str, Path] = {}
    problems: dict[str, Problem] = {}
    unified: Path | None = None
    for line in (proc / "self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        root, mount_point = fields[3], Path(fields[4])
        kind, options = fields[fields.index("-") + 1], fields[-1].split(",")
        if kind == "cgroup2":
            unified = _own_directory(mount_point, root, own.get("", "/"))
        elif kind == "cgroup":
            for name, old in _VERSION_1_NAMES.items():
                if old in options and old in own:
                    version[name] = 1
                    groups[name] = _own_directory(mount_point, root, own[old])
                    _offer(name, 1, groups[name], parents, problems)
    if unified is not None:
        unbound = [name for name in _delegable(unified) if name not in version]
        parent = _delegating_ancestor(unified, unbound)
        for name in (*unbound, PRESSURE):
            version[name], groups[name] = 2, unified
            _offer(name, 2, parent, parents, problems)
    for name, old in _VERSION_1_NAMES.items():
        if name not in version and old in own:
            problems[name] = not_mounted(name, old)
    return Hierarchies(version, parents, problems, groups)


def _own_directory(mount_point: Path, root: str, path: str) -> Path:
    if root != "/" and f"{path}/".startswith(f"{root}/"):  # a container sees its own group as the root
        path = path[len(root) :]
    return mount_point / path.lstrip("/")


def _delegable(unified: Path) -> tuple[str, ...]:
    top = unified
    while (top.parent / "cgroup.controllers").exists():
        top = top.parent
    try:
        return tuple((top / "cgroup.controllers").read_text().split())
    except OSError:
        return ()


def _delegating_ancestor(start: Path, controllers: Iterable[str]) -> Path:
    """The nearest group that hands most of `controllers` to its children, else `start` itself.

    One for all: a process is in a single version-2 group, and joining another would leave the first with its
    limits. A group in which this process may not make others comes last.
    """
    best, best_score = start, (False, 0)
    group = start
    while (group / "cgroup.subtree_control").exists():
        handed = (group / "cgroup.subtree_control").read_text().split()
        count = sum(name in handed for name in controllers if name in _VERSION_1_NAMES)
        score = (count > 0 and os.access(group, os.W_OK | os.X_OK), count)
        if score > best_score:
            best, best_score = group, score
        group = group.parent
    return best


def _offer(name: str, version: int, parent: Path, parents: dict[str, Path], problems: dict[str, Problem]) -> None:
    if not parent.is_dir():
        problems[name] = not_visible(name, parent)
    elif os.statvfs(parent).f_flag & os.ST_RDONLY:
        problems[name] = read_only(name, parent)
    elif not os.access(parent, os.W_OK | os.X_OK):
        problems[name] = no_permission(parent, version)
    elif name not in (PRESSURE, *_VERSION_1_NAMES):
        problems[name] = Problem("not used", "")
    elif (
        (parent / "cgroup.subtree_control").exists()
        and name != PRESSURE
        and name not in (parent / "cgroup.subtree_control").read_text().split()
    ):
        problems[name] = not_handed_on(name)
    else:
        parents[name] = parent


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """The directories of one trial's group, before any exists: controller to path, several may share one."""

    directories: Mapping[str, Path]

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(dict.fromkeys(self.directories.values()))

    def file_of(self, setting: Setting) -> Path:
        """The control file of a setting."""
        return self.directories[setting.controller] / setting.file


def plan_group(hierarchies: Hierarchies, name: str, controllers: Iterable[str]) -> GroupPlan:
    """Where the group `name` would be, for those of `controllers` that are usable here."""
    wanted = [controller for controller in controllers if hierarchies.usable(controller)]
    return GroupPlan({controller: hierarchies.parents[controller] / name for controller in wanted})


def refuse_existing(plan: GroupPlan) -> None:
    """Look before anything is journalled: an undo must not meet a group that somebody else made.

    Raises
    ------
    ForeignState
        If one of the directories exists already.
    """
    for path in plan.paths:
        if path.exists():
            raise ForeignState(f"{path} exists already", "insitu recover")


_INHERITED = {
    "cpuset": ("cpuset.mems", "cpuset.cpus"),
    "io": tuple(f"blkio.throttle.{way}_{what}_device" for way in ("read", "write") for what in ("bps", "iops")),
}
"""Of version 1. A new group has no processors, and nobody can join it before it has; throttles hold the members
of the very group only, so that those of a group below it would escape them."""


def create(plan: GroupPlan) -> None:
    """Make the directories, each with what its parent has and version 1 does not hand down by itself.

    Raises
    ------
    ForeignState
        If one exists already: whoever made it, its limits are not ours to reuse.
    NotSettable
        If the kernel refuses.
    """
    made: list[Path] = []
    try:
        for path in plan.paths:
            path.mkdir()
            made.append(path)
        for file, text in inherited(plan):
            file.write_text(text)
    except OSError as exc:
        for path in made:
            path.rmdir()
        if isinstance(exc, FileExistsError):
            raise ForeignState(f"{exc.filename} exists already", "insitu recover") from exc
        raise NotSettable(f"cannot make a control group: {exc}", "run as root") from exc


def inherited(plan: GroupPlan) -> tuple[tuple[Path, str], ...]:
    """What is copied from the parents into a group: files and what is written to them."""
    found: list[tuple[Path, str]] = []
    for controller, path in plan.directories.items():
        if (path.parent / "cgroup.controllers").exists():  # version 2 holds all below a group to its limits
            continue
        for name in _INHERITED.get(controller, ()):
            try:
                lines = (path.parent / name).read_text().splitlines()
            except OSError:
                continue
            found += [(path / name, line) for line in lines]
    return tuple(found)


_LINGERS_S = 0.05
"""After which a process that was killed is held up by something; most are gone within milliseconds."""


def lift_caps(path: Path) -> None:
    """Give a group of ours the parent's caps of disks and processors: killed, a process that waits cannot end.

    A write that a throttle holds back is not given up: 16 MB at 100 kB/s take 160 s, kill or not.
    """
    for name in _INHERITED["io"]:
        of_parent = dict(line.split() for line in _lines(path.parent / name))
        for device in (line.split()[0] for line in _lines(path / name)):
            _try_write(path / name, f"{device} {of_parent.get(device, 0)}")
    for device in (line.split()[0] for line in _lines(path / "io.max")):
        _try_write(path / "io.max", f"{device} rbps=max wbps=max riops=max wiops=max")
    if _lines(path / "cpu.cfs_quota_us"):
        _try_write(path / "cpu.cfs_quota_us", "-1")
    if _lines(path / "cpu.max"):
        _try_write(path / "cpu.max", "max")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _try_write(path: Path, text: str) -> None:
    with contextlib.suppress(OSError):  # the group, or the device, has gone meanwhile
        path.write_text(text)


def remove(path: Path, *, within_s: float = 2.0) -> None:
    """Kill whatever is left in a group and its children, remove them, and verify that they are gone.

    Raises
    ------
    UndoFailed
        If the group is still there after `within_s`.
    """
    deadline = time.monotonic() + within_s
    lift_at = time.monotonic() + _LINGERS_S
    pause_s = 0.0002
    while True:
        try:
            os.rmdir(path)
            return
        except FileNotFoundError:
            return
        except OSError as exc:
            if exc.errno not in (errno.EBUSY, errno.ENOTEMPTY):
                raise UndoFailed(f"cannot remove {path}: {exc}", "run insitu recover as root") from exc
        if time.monotonic() > deadline:
            raise UndoFailed(f"{path} is still in use", "insitu recover")
        for child in [entry for entry in os.scandir(path) if entry.is_dir(follow_symlinks=False)]:
            remove(Path(child.path), within_s=max(0.05, deadline - time.monotonic()))
        kill_members(path)
        if time.monotonic() > lift_at:
            lift_caps(path)
            lift_at = math.inf
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, 0.02)


def kill_members(path: Path) -> None:
    """SIGKILL to every process in a group (``cgroup.kill`` since Linux 5.14, else by pid)."""
    try:
        (path / "cgroup.kill").write_text("1")
        return
    except OSError:
        pass
    try:
        pids = [int(line) for line in (path / "cgroup.procs").read_text().split()]
    except OSError:
        return
    for pid in pids:
        if pid > 1:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
