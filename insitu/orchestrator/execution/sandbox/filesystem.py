"""What the subject sees: the host's files through overlays, its scratch folder as it is, little else.

Everything that it writes outside the scratch folder lands on a tmpfs that ends with the mount namespace.
Kernel file systems are not carried over: a root subject could reach the host through them.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import Enum

from . import kernel
from .protocol import Surroundings

_KERNEL_FILE_SYSTEMS = frozenset(
    {"proc", "sysfs", "devtmpfs", "devpts", "mqueue", "cgroup", "cgroup2", "securityfs", "debugfs", "tracefs"}
    | {"bpf", "pstore", "hugetlbfs", "binfmt_misc", "configfs", "fusectl", "efivarfs", "rpc_pipefs", "nsfs"}
    | {"autofs", "selinuxfs", "nfsd", "ramfs"}
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_PROTECTED_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs")
"""Under /proc, writable by uid 0 even without capabilities."""


class Carry(Enum):
    """How one path of the host appears to the subject."""

    OVERLAY = "overlay"
    FOLDER = "folder"
    LINK = "link"
    FILE = "file"


@dataclass(frozen=True, slots=True)
class Carried:
    """One path of the host to carry over, and how."""

    path: str
    how: Carry


def survey(unprivileged: bool) -> tuple[Carried, ...]:
    """What of the host to carry over, outermost first.

    With privilege, one overlay per mount. In a user namespace the kernel refuses an overlay over a folder
    with mounts below it (they are locked, and an overlay would uncover what they hide), so such folders are
    made anew and their entries carried one by one.
    """
    folders, files = _mount_points()
    if not unprivileged:
        ordered = sorted({"/", *folders, *files})
        return tuple(Carried(path, Carry.FILE if path in files else Carry.OVERLAY) for path in ordered)
    every_mount = folders | files | {"/proc", "/sys", "/dev"}
    every_mount.add("/var/tmp")  # noqa: S108 - root's: an overlay above it could not copy it up for another user
    carried: list[Carried] = []

    def visit(path: str) -> None:
        if not any(mount.startswith(path.rstrip("/") + "/") for mount in every_mount):
            carried.append(Carried(path, Carry.OVERLAY))
            return
        carried.append(Carried(path, Carry.FOLDER))
        try:
            entries = sorted(os.scandir(path), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            if entry.path in ("/proc", "/sys", "/dev"):
                carried.append(Carried(entry.path, Carry.FOLDER))
            elif entry.is_symlink():
                carried.append(Carried(entry.path, Carry.LINK))
            elif entry.is_dir():
                visit(entry.path)
            elif entry.is_file():
                carried.append(Carried(entry.path, Carry.FILE))

    visit("/")
    return tuple(carried)


def _mount_points() -> tuple[set[str], set[str]]:
    folders: set[str] = set()
    files: set[str] = set()
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as lines:
        for line in lines:
            fields = line.split(" ")
            path = _unescape(fields[4])
            kind = fields[fields.index("-", 6) + 1].partition(".")[0]
            hidden = path == "/" or path.startswith(("/proc", "/sys", "/dev"))
            if not hidden and kind not in _KERNEL_FILE_SYSTEMS:
                (folders if os.path.isdir(path) else files).add(path)
    return folders, files


def _unescape(field: str) -> str:
    """Undo mountinfo's octal escapes of space, tab, newline and backslash."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        field = field.replace(code, character)
    return field


def enter(view: Surroundings, carried: tuple[Carried, ...]) -> None:
    """Build the view in the calling process's own mount namespace and make it the root.

    Raises
    ------
    OSError
        If the kernel refuses a mount; the message names it.
    """
    mount = kernel.mount
    mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    stage = view.stage
    mount("insitu", stage, "tmpfs", kernel.MS_NOSUID | kernel.MS_NODEV, f"size={view.private_bytes},mode=755")
    root = f"{stage}/root"
    os.mkdir(root)
    if view.unprivileged:  # no overlay will make it the mount point that pivot_root wants
        mount(root, root, None, kernel.MS_BIND)
    for number, item in enumerate(carried):
        _carry(item, root, f"{stage}/{number}", view.unprivileged)
    mount(view.writable, root + view.writable, None, kernel.MS_BIND)
    mount(view.readable, root + view.readable, None, kernel.MS_BIND)
    _read_only(root + view.readable, view.unprivileged)
    _devices(root)
    _processes(root, view.unprivileged)
    os.chdir(stage)
    kernel.pivot_root(".", ".")
    kernel.detach(".")  # the host's mounts: with both on "/", the old root is on top
    # not pivoted into: whoever is below the namespace's root gets no user namespace from the kernel, in which a
    # subject would have every capability, and could mount the control groups and write to its own
    os.chroot("/root")
    os.chdir("/")


def _carry(item: Carried, root: str, layers: str, unprivileged: bool) -> None:
    target = root if item.path == "/" else root + item.path
    if item.how is Carry.LINK:
        os.symlink(os.readlink(item.path), target)
        return
    if unprivileged and item.path != "/":  # the parent was made anew, so this path must be, too
        if item.how is Carry.FILE:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
        else:
            os.mkdir(target)
    if item.how is Carry.FOLDER:
        return
    if item.how is Carry.OVERLAY:
        try:
            _overlay(item.path, target, layers, unprivileged)
            return
        except OSError:  # a file system that cannot lie under an overlay is shown, but cannot be written
            pass
    kernel.mount(item.path, target, None, kernel.MS_BIND | (kernel.MS_REC if unprivileged else 0))
    _read_only(target, unprivileged)


def _overlay(lower: str, target: str, layers: str, unprivileged: bool) -> None:
    if any(character in lower for character in ",:\\"):  # they would end or split the mount option
        raise OSError(f"overlay over {lower}: the path has a comma, a colon or a backslash")
    upper, work = f"{layers}u", f"{layers}w"
    os.mkdir(upper)
    os.mkdir(work)
    status = os.stat(lower)
    os.chmod(upper, status.st_mode & 0o7777)
    if not unprivileged:
        os.chown(upper, status.st_uid, status.st_gid)
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    kernel.mount("insitu", target, "overlay", 0, options + ",userxattr" * unprivileged)


def _read_only(target: str, unprivileged: bool) -> None:
    flags = kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY
    if unprivileged:  # flags that the host set are locked in a user namespace and must be kept
        held = os.statvfs(target).f_flag
        flags |= held & (kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
        flags |= held & 0x400 | held & 0x800  # noatime, nodiratime
        flags |= 0x200000 if held & 0x1000 else 0  # relatime has another bit in statvfs
    kernel.mount("none", target, None, flags)


def _devices(root: str) -> None:
    dev = f"{root}/dev"
    kernel.mount("insitu", dev, "tmpfs", kernel.MS_NOSUID, "size=64m,mode=755")
    for name in _DEVICES:
        path = f"{dev}/{name}"
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o666))
        kernel.mount(f"/dev/{name}", path, None, kernel.MS_BIND)
    os.mkdir(f"{dev}/shm")
    os.chmod(f"{dev}/shm", 0o1777)  # noqa: S103 - as on every host
    for link, target in (("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")):
        os.symlink(f"/proc/self/fd{target}", f"{dev}/{link}")


def _processes(root: str, unprivileged: bool) -> None:
    proc = f"{root}/proc"
    flags = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC
    kernel.mount("proc", proc, "proc", flags)
    if unprivileged:
        return  # without uid 0 of the host, the files below refuse by their owner
    for name in _PROTECTED_PROC:
        path = f"{proc}/{name}"
        if os.path.exists(path):
            kernel.mount(path, path, None, kernel.MS_BIND)
            kernel.mount("none", path, None, kernel.MS_REMOUNT | kernel.MS_BIND | kernel.MS_RDONLY | flags)
