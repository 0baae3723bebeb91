"""The whole disk under a folder: what a disk throttle must name."""

from __future__ import annotations

import os
from pathlib import Path

from insitu.injectors.contract import Device

_SYS = Path("/sys")


def device_under(folder: Path) -> tuple[Device | None, str]:
    """The disk that holds `folder`, or ``None`` and the reason.

    A partition is traced to its disk, since the kernel throttles whole disks only. Btrfs and overlay report
    an anonymous device; a device mapper or md device is itself a whole disk and can be throttled.
    """
    number = os.stat(folder).st_dev
    where = mount_point(folder)  # the folder itself may be there for the look only
    major, minor = os.major(number), os.minor(number)
    kind = _file_system(number)
    if major == 0:
        return None, f"{where} is on {kind or 'a file system'} without a disk of its own"
    entry = (_SYS / f"dev/block/{major}:{minor}").resolve()
    if not entry.is_dir():
        return None, f"the disk {major}:{minor} under {where} is not visible in /sys"
    if (entry / "partition").exists():
        entry = entry.parent
    if not (entry / "stat").exists() or not (entry / "dev").exists():
        return None, f"{entry.name} under {where} is not a disk that the kernel throttles"
    return Device((entry / "dev").read_text().strip(), entry.name), ""


def mount_point(folder: Path) -> Path:
    """Where the file system that holds a folder is mounted."""
    folder = folder.resolve()
    while not folder.is_mount():
        folder = folder.parent
    return folder


def _file_system(number: int) -> str:
    wanted = f"{os.major(number)}:{os.minor(number)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split(" ")
        if fields[2] == wanted:
            return fields[fields.index("-") + 1]
    return ""
