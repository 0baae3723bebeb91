"""What this machine is, read once; changes nothing."""

from __future__ import annotations

import os
from pathlib import Path

from insitu.injectors import block_device, cgroups
from insitu.injectors.contract import Node
from insitu.injectors.network import support


def survey(scratch: Path) -> Node:
    """Describe the node for a subject whose scratch folder is `scratch` (an existing folder)."""
    device, problem = block_device.device_under(scratch)
    return Node(
        cpus=len(os.sched_getaffinity(0)),
        privileged=os.geteuid() == 0,
        hierarchies=cgroups.discover(),
        device=device,
        device_problem=problem,
        network=support.examine(),
    )
