"""A plan document to the parts of a `Plan`: commands with their placeholders, design, budget and guards."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.conditions import resolve_conditions
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.named_factors import NamedFactors
from insitu.orchestrator.plan.placeholders import FOLDERS, placeholders_in
from insitu.orchestrator.plan.resolve_model import ResolvedModel
from insitu.orchestrator.plan.schema import (
    BudgetDocument,
    GoalDocument,
    GuardsDocument,
    PlanDocument,
    ProbeDocument,
    SubjectDocument,
)
from insitu.orchestrator.plan.types import (
    SEQUENTIAL,
    Budget,
    DesignSpec,
    Guards,
    Probe,
    Role,
    Subject,
)
from insitu.orchestrator.plan.values import quantity_of


def check_commands(node: located.Mapping, factors: NamedFactors, model: ResolvedModel, faults: FaultList) -> None:
    """Check the placeholders of all commands, and of the environment."""
    used: set[str] = set()
    for key in ("command", "prepare"):
        if (entry := node.entry(key)) is not None:
            used |= _check_placeholders(_arguments(entry, faults), model, factors, faults)
    if (entry := node.entry("environment")) is not None:
        used |= _check_placeholders(_values(entry), model, factors, faults)
    data = node.entry("data")
    if data is not None and isinstance(data.value, located.Mapping):
        for file in data.value.entries:
            _check_few_placeholders(file, ("data", "python"), "data is made once, before any trial", faults)
    command = node.entry("command")
    known = {*FOLDERS, *model.declared}
    if command is not None and used <= known:  # else the misspelt one may be meant
        _check_unused(command.value, used, factors.names, model, faults)


def resolve_subject(document: SubjectDocument) -> Subject:
    return Subject(
        command=document.command,
        prepare=document.prepare or (),
        data=tuple(document.data.items()),
        page_cache=document.page_cache,
        environment=tuple(document.environment.items()),
        network=document.network or "",
    )


def _arguments(entry: located.Entry, faults: FaultList) -> Iterator[located.Scalar]:
    if isinstance(entry.value, located.Sequence):
        if entry.value.items and _text(entry.value.items[0]) == "":
            faults.at(entry.value.items[0], "the program's name is empty", "the first argument names the program")
        yield from (item for item in entry.value.items if isinstance(item, located.Scalar))


def _values(entry: located.Entry) -> Iterator[located.Scalar]:
    if isinstance(entry.value, located.Mapping):
        yield from (one.value for one in entry.value.entries if isinstance(one.value, located.Scalar))


def _check_placeholders(
    texts: Iterable[located.Scalar], model: ResolvedModel, factors: NamedFactors, faults: FaultList
) -> set[str]:
    """Report the placeholders that have no value, and give the names of all."""
    parameters = [v.name for v in model.text.variables.values() if v.role is Role.PARAMETER]
    used = set()
    for item in texts:
        for name in placeholders_in(item.text or ""):
            used.add(name)
            variable = model.text.variables.get(name)
            if name in FOLDERS or (name in model.declared and variable is None):
                continue
            if variable is None:
                near = suggest(name, [*FOLDERS, *parameters])
                faults.at(
                    item,
                    f"unknown placeholder '{{{name}}}'",
                    f"{near}; literal text is written {{{{{name}}}}}",
                )
            elif variable.role is not Role.PARAMETER:
                faults.at(
                    item,
                    f"'{{{name}}}' is not a parameter of the subject, so it has no value here",
                    "only a variable with role: parameter is substituted",
                )
            elif factors.lack(name):
                message = f"'{{{name}}}' has no level: '{name}' is not a factor"
                faults.at(item, message, factors.how_to_add(f"'{name}'"))
    return used


def _check_few_placeholders(entry: located.Entry, known: Collection[str], why: str, faults: FaultList) -> None:
    """Check a command that is not executed for a trial, so that few placeholders have a value."""
    for item in _arguments(entry, faults):
        for name in placeholders_in(item.text or ""):
            if name not in known:
                hint = suggest(name, [f"{{{one}}}" for one in known])
                faults.at(item, f"'{{{name}}}' has no value here: {why}", hint)


def _check_unused(
    command: located.Node,
    used: Collection[str],
    factor_names: Collection[str],
    model: ResolvedModel,
    faults: FaultList,
) -> None:
    for name in factor_names:
        variable = model.text.variables.get(name)
        if variable is not None and variable.role is Role.PARAMETER and name not in used:
            faults.at(
                command,
                f"nothing uses '{{{name}}}', so the factor '{name}' would change nothing",
                f"put {{{name}}} into command, prepare or environment",
            )


def resolve_design(
    node: located.Node | None,
    plan: PlanDocument,
    designs: Collection[str],
    faults: FaultList,
    *,
    said: Collection[str] = (),
) -> DesignSpec:
    """Check the kind of design, if the caller says which kinds there are; choose one if the plan does not.

    Parameters
    ----------
    said
        Keys of the plan under which there is something, which is reported where it is faulty.
    """
    document = plan.design
    if designs and document.kind is not None and document.kind not in designs:
        entry = node.entry("kind") if isinstance(node, located.Mapping) else None
        place = entry.value if entry else node
        if place is not None:
            faults.at(place, f"unknown design '{document.kind}'", suggest(document.kind, designs))
    kind = document.kind or (SEQUENTIAL if _says_when_to_end(plan.goal) else "factorial")
    if kind == SEQUENTIAL:
        _check_sequential(node, plan, said, faults)
    _check_keys(kind, node, plan, faults)
    return DesignSpec(
        kind=kind,
        replicates=document.replicates,
        baseline_replicates=document.baseline_replicates,
        trials=document.trials,
        batch=document.batch,
        seed=document.seed,
        blocks=document.blocks,
        resolution=4 if document.resolution is None else document.resolution,
        setup_s=None if document.setup is None else quantity_of(document.setup, "s"),
    )


def _check_sequential(
    node: located.Node | None, plan: PlanDocument, said: Collection[str], faults: FaultList
) -> None:
    """A design that chooses trials as it goes needs to know for what, and when to end at the latest."""
    missing = [] if "goal" in said else [("a goal", "add goal: {effect: cpu_cores -> runtime}")]
    if plan.budget.trials is None and plan.budget.time is None and "budget" not in said:
        missing.append(("a budget", "add budget: {trials: 40, time: 10 min}"))
    for what, remedy in missing:
        message = f"a sequential design needs {what}"
        if node is None:
            faults.add(1, 1, message, remedy)
        else:
            faults.at(node, message, remedy)


_OPTIMAL = ("d_optimal", "i_optimal", "c_optimal")
_OF_KINDS = {
    "blocks": _OPTIMAL,
    "resolution": ("fractional",),
    "trials": (*_OPTIMAL, "fractional", "latin_hypercube"),
    "batch": (SEQUENTIAL,),
}
"""Keys that some of the kinds below have, and the others do not."""
_KINDS = ("factorial", "fractional", "latin_hypercube", SEQUENTIAL, *_OPTIMAL)


def _check_keys(kind: str, node: located.Node | None, plan: PlanDocument, faults: FaultList) -> None:
    """Refuse what a kind of design has no use for; kinds of others may have use for anything."""
    if not isinstance(node, located.Mapping):
        return
    if kind == "c_optimal" and plan.goal is None:
        faults.at(node, "a c_optimal design needs a goal", "add goal: {effect: cpu_cores -> runtime}")
    for name, kinds in _OF_KINDS.items():
        if (entry := node.entry(name)) is not None and kind in _KINDS and kind not in kinds:
            faults.at(entry.key, f"a {kind} design has no '{name}'", f"'{name}' is for {', '.join(kinds)}")


def _says_when_to_end(goal: GoalDocument | None) -> bool:
    """Whether the goal says when enough is known, so that a design can stop there."""
    return goal is not None and (goal.relative_half_width is not None or goal.comparison is not None)


def resolve_budget(document: BudgetDocument) -> Budget:
    return Budget(document.trials, None if document.time is None else quantity_of(document.time, "s"))


def resolve_slowdown(text: str | None) -> float:
    """A share; infinite where nothing is said."""
    return math.inf if text is None else quantity_of(text, "fraction")


def resolve_guards(node: located.Node | None, document: GuardsDocument, faults: FaultList) -> Guards:
    """Read the abort conditions; check the placeholders of the probe."""
    entries = {entry.key.text: entry for entry in node.entries} if isinstance(node, located.Mapping) else {}
    probe = entries.get("probe")
    if probe is not None and isinstance(probe.value, located.Mapping):
        for entry in probe.value.entries:
            if entry.key.text == "command":
                _check_few_placeholders(entry, ("python",), "a probe watches the node, not a trial", faults)
                _check_whole_path(entry, faults)
    abort_when = entries.get("abort_when")
    return Guards(
        trial_timeout_s=quantity_of(document.trial_timeout, "s"),
        scratch_bytes=quantity_of(document.scratch_limit, "B"),
        outside_writes_bytes=quantity_of(document.outside_writes_limit, "B"),
        processes=document.processes,
        free_disk_bytes=quantity_of(document.free_disk, "B"),
        free_memory_bytes=None if document.free_memory is None else quantity_of(document.free_memory, "B"),
        abort_when=resolve_conditions(abort_when.value if abort_when else None, faults),
        probe=None if document.probe is None else _probe(document.probe),
        node_wait_s=quantity_of(document.node_wait, "s"),
    )


def _check_whole_path(entry: located.Entry, faults: FaultList) -> None:
    for program in [*_arguments(entry, FaultList(faults.path))][:1]:
        if "/" in (program.text or "") and not (program.text or "").startswith("/"):
            hint = "write the whole path, or the name of a program on PATH"
            faults.at(program, f"'{program.text}' is relative, and a probe has no folder of its own", hint)


def _probe(document: ProbeDocument) -> Probe:
    return Probe(document.command, quantity_of(document.every, "s"), quantity_of(document.timeout, "s"))


def _text(node: located.Node) -> str:
    return (node.text or "") if isinstance(node, located.Scalar) else ""
