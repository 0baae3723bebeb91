"""Machines as injectors see them, without the machine."""

from __future__ import annotations

from pathlib import Path

from insitu.injectors.block_device import device_under
from insitu.injectors.cgroup_problems import no_permission
from insitu.injectors.cgroups import PRESSURE, Hierarchies
from insitu.injectors.contract import Device, Node

CONTROLLERS = ("cpu", "cpuacct", "cpuset", "io", "memory", "pids", PRESSURE)
DISK = Device("254:0", "vda")
NO_PERMISSION = no_permission(Path("/sys/fs/cgroup/x"), 1)


def node(version: int = 1, device: Device | None = DISK, cpus: int = 2) -> Node:
    """A node on which every controller can be used."""
    controllers = [name for name in CONTROLLERS if not (version == 2 and name == "cpuacct")]
    return Node(
        cpus=cpus,
        privileged=True,
        hierarchies=Hierarchies(
            version=dict.fromkeys(controllers, version),
            parents={name: Path(f"/groups/{name}" if version == 1 else "/groups") for name in controllers},
            problems={},
        ),
        device=device,
        device_problem="" if device else "/run is on tmpfs without a disk of its own",
    )


def on_a_disk(temporary: Path) -> Path:
    """A folder on a disk, where this machine has one: that for temporary files, or this one."""
    candidates = (temporary, Path(__file__).parent)
    return next((folder for folder in candidates if device_under(folder)[0] is not None), temporary)


def bare_node(device: Device | None = DISK) -> Node:
    """A node on which no group can be made."""
    return Node(
        cpus=2,
        privileged=False,
        hierarchies=Hierarchies(
            version=dict.fromkeys(("cpu", "io"), 1),
            parents={},
            problems=dict.fromkeys(("cpu", "io"), NO_PERMISSION),
        ),
        device=device,
        device_problem="" if device else "/run is on tmpfs without a disk of its own",
    )
