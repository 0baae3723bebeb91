"""What the guest is made of. A change of anything here makes a new image."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
FIRST_PROCESS = Path(__file__).parent / "inside/initramfs.sh"

KERNEL_PACKAGE = "linux-image-amd64"  # its -cloud sibling comes without netem
SYSTEM_PACKAGES = ("busybox-static", "iproute2", "kmod", "nftables", "python3")

KEPT_MODULES = re.compile(r"kernel/(arch|block|crypto|fs|lib|net|drivers/(block|char|virtio|net/[^/]+\.ko))")
"""Without the drivers of real machines, nine tenths of the package."""

BOOT_MODULES = ("virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "9pnet_virtio", "9p")
"""What it takes to mount the root disk and the project."""

MODULES = (
    *("virtio_console", "virtio_rng", "overlay", "loop"),
    *("veth", "ifb", "tun", "dummy", "bridge"),
    *("sch_netem", "sch_tbf", "sch_htb", "sch_ingress", "sch_fq_codel", "sch_prio"),
    *("cls_u32", "cls_matchall", "cls_flower", "cls_basic", "act_mirred", "act_police"),
    *("nf_tables", "nft_ct", "nft_nat", "nft_masq", "nft_chain_nat"),
)
"""Loaded before the command starts, so that no test waits for the first use of one."""

_ESTIMATION = {"jinja2", "pandas", "plotly", "scipy", "statsmodels"}
_SOURCES = {"import-linter", "mypy", "pandas-stubs", "ruff", "types-pyyaml"}
NOT_IN_THE_GUEST = frozenset({"benchexec", "playwright", "psutil", "ray", *_ESTIMATION, *_SOURCES})
"""A cluster, a browser and rivals are used on the host, as is what computes from results or looks at sources."""


def requirements() -> tuple[str, ...]:
    """What the project declares for running, testing and measuring, without what the guest does not use."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = [*project["dependencies"], *extras["test"], *extras["bench"]]
    return tuple(sorted({line for line in declared if _name(line) not in NOT_IN_THE_GUEST}))


def _name(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert found is not None, requirement
    return found[0].lower().replace("_", "-")


def constraints() -> Path:
    """Exact versions of the packages."""
    return PROJECT / "constraints.txt"


def key(parts: Iterable[object]) -> str:
    """A short name for everything that determines an image."""
    return hashlib.sha256("\0".join(map(repr, parts)).encode()).hexdigest()[:16]
