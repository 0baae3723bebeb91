"""A blast radius as a document to a `BlastRadius`: the same for plans and inventories."""

from __future__ import annotations

from collections.abc import Collection

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.blast_radius import UNITS, BlastRadius, Cap, HostWide, Place
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.schema import BlastRadiusDocument
from insitu.orchestrator.plan.values import quantity_of


def resolve_blast_radius(
    node: located.Node | None,
    document: BlastRadiusDocument | None,
    settable: Collection[str],
    faults: FaultList,
    *,
    inventory: bool = False,
) -> BlastRadius:
    """Read one section.

    Parameters
    ----------
    settable
        Names of the injectors' variables, for those of the whole host.
    """
    if document is None or not isinstance(node, located.Mapping):
        return BlastRadius()
    caps: dict[str, Cap] = {}
    host_wide: HostWide | None = None
    for entry in node.entries:
        key = entry.key.text or ""
        place = Place(faults.path, entry.value.line, entry.value.column, inventory)
        if key == "host_wide" and isinstance(entry.value, located.Sequence):
            host_wide = HostWide(_variables(entry.value, settable, faults), place)
        elif key in UNITS and (text := getattr(document, key)) is not None:
            caps[key] = Cap(quantity_of(str(text), UNITS[key]), place)
    return BlastRadius(caps, host_wide)


def _variables(node: located.Sequence, settable: Collection[str], faults: FaultList) -> frozenset[str]:
    names = set()
    for item in node.items:
        if not isinstance(item, located.Scalar) or item.text is None:
            continue
        if item.text not in settable:
            faults.at(item, f"no injector sets '{item.text}'", suggest(item.text, settable))
        names.add(item.text)
    return frozenset(names)
