"""The inventory: what whoever looks after the nodes lets a run take of each. Loading it executes nothing."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.blast_radius import BlastRadius
from insitu.orchestrator.plan.located import FaultList, raise_all
from insitu.orchestrator.plan.reading import decode, read_document, read_file, read_root
from insitu.orchestrator.plan.resolve_blast_radius import resolve_blast_radius
from insitu.orchestrator.plan.schema import INVENTORY_REQUIRED, InventoryDocument

DEFAULT_NODE = "default"
"""The entry for nodes that have none of their own."""
_BEGIN = "write `nodes: {default: {blast_radius: {cores: 1}}}`, or remove it"


@dataclass(frozen=True, slots=True)
class Inventory:
    """What is known of nodes, by name."""

    path: Path
    nodes: Mapping[str, BlastRadius]

    def for_node(self, host: str) -> BlastRadius | None:
        """The entry of a host, by its full name or the first part of it, else the default one."""
        for name in (host, host.partition(".")[0], DEFAULT_NODE):
            if name in self.nodes:
                return self.nodes[name]
        return None


def usual_places() -> tuple[Path, ...]:
    """Where an inventory is looked for when none is named; the first that exists counts."""
    own = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path("/etc/insitu/inventory.yaml"), Path(own) / "insitu" / "inventory.yaml"


def find_inventory(chosen: Path | None, settable: Collection[str]) -> Inventory | None:
    """Load the chosen inventory, or the one in the usual places; ``None`` without either.

    Raises
    ------
    InputError
        If it cannot be read; that one in a usual place cannot be is no reason to do without.
    FaultyFile
        With every fault of the file.
    """
    if chosen is not None:
        return load_inventory(chosen, settable)
    for place in usual_places():
        if os.path.lexists(place):
            return load_inventory(place, settable)
    return None


def load_inventory(path: Path, settable: Collection[str]) -> Inventory:
    """Load an inventory.

    Parameters
    ----------
    settable
        Names of the injectors' variables.

    Raises
    ------
    InputError, FaultyFile
        As `find_inventory`.
    """
    faults = FaultList(path)
    text = decode(read_file(path, "inventory"), faults, _BEGIN)
    root = read_root(text, "inventory", faults, _BEGIN)
    document = read_document(root, InventoryDocument, INVENTORY_REQUIRED, faults) if root else None
    nodes: dict[str, BlastRadius] = {}
    entry = root.entry("nodes") if root else None
    if document is not None and entry is not None and isinstance(entry.value, located.Mapping):
        for node in entry.value.entries:
            known = (document.nodes or {}).get(node.key.text or "")
            if known is not None and isinstance(node.value, located.Mapping):
                section = node.value.entry("blast_radius")
                nodes[node.key.text or ""] = resolve_blast_radius(
                    section.value if section else None, known.blast_radius, settable, faults, inventory=True
                )
    raise_all(faults)
    return Inventory(path, nodes)
