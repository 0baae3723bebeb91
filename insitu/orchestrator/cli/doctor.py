"""``insitu doctor``: what this machine can set, by which mechanism, and what is missing."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from insitu.orchestrator.cli import machine


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `remedy` is the command that would change it."""

    what: str
    verdict: str
    how: str
    remedy: str = ""


def doctor(
    out: Annotated[Path, typer.Option("--out", help="Where runs would be: their disk is examined.")] = Path(
        "runs"
    ),
    inventory: machine.Inventoried = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON document.")] = False,
) -> None:
    """Say what this machine can set and measure, and the command that would fix what is missing."""
    findings = [*_findings(out), *_allowed(inventory)]
    if as_json:
        typer.echo(json.dumps([asdict(finding) for finding in findings]))
    else:
        _print(findings)
    if any(finding.verdict == "missing" and finding.what == "sandbox" for finding in findings):
        raise typer.Exit(3)


def _findings(out: Path) -> list[Finding]:
    from insitu.injectors import node, registry
    from insitu.injectors.cgroups import PRESSURE
    from insitu.orchestrator.errors import CannotExecute
    from insitu.orchestrator.units import format_quantity

    findings: list[Finding] = []
    with machine.probe_folder(out) as folder:
        here = node.survey(folder)
        for name, injector in registry.injectors().items():
            can = injector.capability(here)
            reach = f"{format_quantity(can.low, can.unit)} to {format_quantity(can.high, can.unit)}"
            verdict = "missing" if not can.settable else "weaker" if can.weaker else "ok"
            if can.ceiling is not None:
                reach += f" ({can.ceiling.file} says {can.ceiling.text})"
            how = f"{can.mechanism}, {reach}" if can.settable else can.reason
            findings.append(Finding(name, verdict, how + (f" ({can.reason})" if can.weaker else ""), can.remedy))
        try:
            findings.append(Finding("sandbox", "ok", machine.try_sandbox(folder)))
        except CannotExecute as exc:
            findings.append(Finding("sandbox", "missing", exc.message, exc.hint or ""))
    measured = {
        "processor time": "cpuacct" if here.hierarchies.version.get("cpu") == 1 else "cpu",
        "peak memory": "memory",
        "pressure (PSI)": PRESSURE,
        "process limit": "pids",
    }
    weaker = {
        "processor time": "per process, from /proc",
        "peak memory": "of the largest process only",
        "process limit": "RLIMIT_NPROC of the user namespace",
    }
    for what, controller in measured.items():
        if here.hierarchies.usable(controller):
            how = f"cgroup{here.hierarchies.version[controller]}.{controller}"
            findings.append(Finding(what, "ok", how))
        else:
            findings.append(
                Finding(
                    what,
                    "weaker" if what in weaker else "missing",
                    f"{weaker.get(what, 'not measured')} ({here.hierarchies.problem(controller)})",
                    here.hierarchies.remedy(controller),
                )
            )
    disk = here.device.name if here.device else here.device_problem
    remedy = "" if here.device else "choose a place on a local disk with --out"
    findings.append(Finding("disk of the runs", "ok" if here.device else "missing", disk, remedy))
    findings.append(_leftovers())
    return findings


def _leftovers() -> Finding:
    """What ``insitu recover`` would find."""
    from insitu.orchestrator.cli import leftovers
    from insitu.orchestrator.cli.recover import STRAY_REMEDY

    try:
        seen = leftovers.look()
    except OSError as exc:
        return Finding("leftovers", "missing", f"cannot look for journals: {exc}", "run as root")
    left = [
        *(f"{one.journal}: {one.standing}" for one in seen.dead),
        *(f"{one.kind} {one.name}: {one.standing}" for one in (*seen.of_dead, *seen.strays)),
    ]
    if not left:
        return Finding("leftovers", "ok", "none")
    return Finding("leftovers", "weaker", "; ".join(left), "insitu recover" if seen.dead else STRAY_REMEDY)


def _allowed(chosen: Path | None) -> Iterator[Finding]:
    """What the inventory lets a run take of this node."""
    from insitu.orchestrator.plan.blast_radius import UNITS
    from insitu.orchestrator.units import format_quantity

    found = machine.inventory(chosen)
    radius = None if found is None else found.for_node(platform.node())
    if found is None or radius is None:
        how = (
            "no inventory caps what a run may take"
            if found is None
            else f"{found.path} has no entry for this node"
        )
        yield Finding("inventory", "ok", how)
        return
    for key, cap in radius.caps.items():
        yield Finding(f"at most: {key}", "ok", f"{format_quantity(cap.value, UNITS[key])} ({cap.place})")
    if radius.host_wide is not None:
        names = ", ".join(sorted(radius.host_wide.variables)) or "nothing"
        yield Finding("at most: host_wide", "ok", f"{names} ({radius.host_wide.place})")


def _print(findings: list[Finding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from insitu.orchestrator.report.console import PlainConsole

    marks = {"ok": "[green]ok[/]", "weaker": "[yellow]weaker[/]", "missing": "[red]missing[/]"}
    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in ("what", "", "how, or why not"):
        table.add_column(heading, overflow="fold")
    for finding in findings:
        change = f"\nto change: {finding.remedy}" if finding.remedy else ""
        table.add_row(Text(finding.what), marks[finding.verdict], Text.assemble(finding.how, (change, "dim")))
    PlainConsole().print(table)
