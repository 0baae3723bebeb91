"""What limits a run on this node, for ``check`` and dry runs: abort conditions, the probe, the blast radius."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

    from insitu.injectors.journal import Header
    from insitu.orchestrator.doubts import Doubt
    from insitu.orchestrator.execution.conditions.watch import Standing
    from insitu.orchestrator.experiment import Experiment


@dataclass(frozen=True, slots=True)
class Limits:
    """Read once: how the conditions stand, and who else executes here."""

    experiment: Experiment
    standings: tuple[Standing, ...]
    others: tuple[Header, ...]


def limits_of(experiment: Experiment, folder: Path) -> Limits:
    """Look at the node; `folder` is on the disk of the run directory."""
    from insitu.injectors import neighbours
    from insitu.orchestrator.execution.conditions.watch import how_they_stand

    return Limits(experiment, how_they_stand(experiment.plan.guards, folder), neighbours.other_runs(""))


def document(limits: Limits) -> dict[str, object]:
    """For ``--json``: base units."""
    from insitu.orchestrator.execution.conditions.probing import command_of

    probe, radius = limits.experiment.plan.guards.probe, limits.experiment.radius
    return {
        "abort_when": [
            {"condition": str(one.condition), "now": one.value, "true_now": one.true} for one in limits.standings
        ],
        "probe": None
        if probe is None
        else {"command": list(command_of(probe)), "every_s": probe.every_s, "timeout_s": probe.timeout_s},
        "blast_radius": {key: cap.value for key, cap in radius.allowed.caps.items()},
        "takes": {
            "cores": radius.demand.cores,
            "memory": radius.demand.memory_bytes,
            "disk_rate": radius.demand.disk_bytes_per_s,
            "interfaces": radius.demand.interfaces,
        },
        "held_by_the_kernel": list(radius.caps.controllers),
        "other_runs": [other.run_directory for other in limits.others],
    }


def doubts(limits: Limits) -> tuple[Doubt, ...]:
    """Why no trial would start at this moment, and what of the blast radius is no limit here."""
    return (*_why_none_would_start(limits), *_caps_without_effect(limits))


def _why_none_would_start(limits: Limits) -> Iterator[Doubt]:
    from insitu.orchestrator.doubts import Doubt
    from insitu.orchestrator.errors import CannotExecute
    from insitu.orchestrator.radius import refuse_crowd

    wait_s = limits.experiment.plan.guards.node_wait_s
    for one in limits.standings:
        if one.value is not None and one.true:
            yield Doubt(
                f"no trial would start now: {one.condition.why(one.value)}",
                f"this can pass; a run waits for {wait_s:g} s (guards.node_wait), then ends as aborted",
            )
    try:
        refuse_crowd(limits.experiment.radius.allowed, limits.others)
    except CannotExecute as exc:
        yield Doubt(f"no trial would start now: {exc.message}", exc.hint or "")


def _caps_without_effect(limits: Limits) -> Iterator[Doubt]:
    from insitu.orchestrator.doubts import Doubt
    from insitu.orchestrator.plan.blast_radius import UNITS
    from insitu.orchestrator.units import format_quantity

    here = limits.experiment.here
    for key, most in (("cores", float(here.cpus)), ("memory", here.memory_bytes)):
        cap = limits.experiment.radius.allowed.cap(key)
        if cap is not None and cap.place is not None and cap.value > most:
            allowed, there = (format_quantity(value, UNITS[key]) for value in (cap.value, most))
            yield Doubt(f"{cap.place}: the blast radius has {key} {allowed}, more than the {there} of this node")


def plain_lines(limits: Limits) -> Iterator[str]:
    """The same as `lines`, without colours."""
    yield from (line.plain for line in lines(limits))


def lines(limits: Limits) -> Iterator[Text]:
    """For the terminal."""
    from rich.text import Text

    from insitu.orchestrator.execution.conditions.probing import command_of
    from insitu.orchestrator.plan.blast_radius import UNITS
    from insitu.orchestrator.plan.host_quantities import HOST_QUANTITIES
    from insitu.orchestrator.units import format_quantity

    for one in limits.standings:
        quantity = HOST_QUANTITIES[one.condition.quantity]
        now = "" if one.value is None else f" (now {quantity.spell(one.value)})"
        late = ": no trial would start now" if one.true else ""
        yield Text.assemble(f"ends when {one.condition}{now}", (late, "yellow"))
    if (probe := limits.experiment.plan.guards.probe) is not None:
        command = shlex.join(command_of(probe))
        yield Text(f"ends when this fails or takes {probe.timeout_s:g} s, every {probe.every_s:g} s: {command}")
    radius = limits.experiment.radius
    held = {"cores": radius.caps.cores, "memory": radius.caps.memory_bytes}
    for key, cap in radius.allowed.caps.items():
        place = f" ({cap.place})" if cap.place is not None else ""
        how = ", held by the kernel" if held.get(key) is not None else ""
        yield Text(f"may take {key} {format_quantity(cap.value, UNITS[key])}{how}{place}")
    for other in limits.others:
        yield Text(f"executes on this node now: {other.run_directory} (process {other.owner_pid})", "yellow")
