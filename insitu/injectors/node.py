"""What this machine is, read once; leaves nothing behind."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from insitu.injectors import block_device, ceilings, cgroups, cpufreq, processors, synchronous
from insitu.injectors.contract import Network, Node
from insitu.injectors.network import support


def survey(scratch: Path, *, try_disk: bool = True, try_network: bool = True) -> Node:
    """Describe the node for a subject whose scratch folder is `scratch` (an existing folder).

    Parameters
    ----------
    try_disk
        Whether to make a folder below `scratch` for a moment, to see whether it can be synchronous; else that is
        taken for granted, and nothing is changed at all.
    try_network
        Whether to make a link in namespaces of its own for a moment; else there is none.
    """
    device, problem = block_device.device_under(scratch)
    hierarchies = cgroups.discover()
    allowed = os.sched_getaffinity(0)
    return Node(
        cpus=len(allowed),
        privileged=os.geteuid() == 0,
        hierarchies=hierarchies,
        device=device,
        device_problem=problem,
        name=platform.node(),
        processors=processors.in_order(allowed),
        ceilings=ceilings.of(hierarchies, device),
        swap_accounted=ceilings.swap_accounted(hierarchies),
        memory_bytes=float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")),
        frequencies=cpufreq.policies(allowed),
        synchronous_problem=synchronous.problem_below(scratch) if try_disk else "",
        network=support.examine() if try_network else Network(),
    )
