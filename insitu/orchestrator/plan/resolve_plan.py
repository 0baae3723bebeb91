"""A plan document to the parts of a `Plan`: factors, placeholders, goal, budget and guards."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.conditions import resolve_conditions
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.placeholders import FOLDERS, placeholders_in
from insitu.orchestrator.plan.resolve_model import ResolvedModel
from insitu.orchestrator.plan.resolve_options import resolve_options
from insitu.orchestrator.plan.schema import (
    BudgetDocument,
    DesignDocument,
    FactorDocument,
    GoalDocument,
    GuardsDocument,
    ProbeDocument,
    SubjectDocument,
    quantity_of,
)
from insitu.orchestrator.plan.types import (
    Budget,
    DesignSpec,
    Factor,
    Goal,
    Guards,
    Probe,
    Role,
    Subject,
    Variable,
)
from insitu.orchestrator.units import UnitError, dimension_of, format_quantity

_BYTES = dimension_of("B")


def resolve_factors(
    node: located.Mapping, documents: dict[str, FactorDocument], model: ResolvedModel, faults: FaultList
) -> tuple[Factor, ...]:
    """Resolve each factor against its variable; levels come out in base units."""
    factors = []
    for entry in node.entries:
        name = entry.key.text or ""
        if name not in model.declared:
            given = {v.name for v in model.text.variables.values() if v.role in (Role.MEASURED, Role.LATENT)}
            can_be = [one for one in model.declared if one not in given]
            faults.at(entry.key, f"the model has no variable '{name}'", suggest(name, can_be))
            continue
        variable = model.text.variables.get(name)
        if variable is None:  # its own fault is reported in the model
            continue
        if variable.role not in (Role.SET, Role.PARAMETER):
            how = "measured" if variable.role is Role.MEASURED else "latent"
            faults.at(
                entry.key,
                f"'{name}' is {how}, so trials cannot set it",
                "a factor is a variable with set_by or with role: parameter",
            )
            continue
        document = documents.get(name)
        if document is None or not isinstance(entry.value, located.Mapping):
            continue
        levels = tuple(_levels(entry, entry.value, document, variable, faults))
        if levels:
            options = resolve_options(entry.value.entry("with"), variable, faults)
            factors.append(Factor(name, levels, options, entry.key.line, entry.key.column))
    return tuple(factors)


def _levels(
    entry: located.Entry,
    node: located.Mapping,
    document: FactorDocument,
    variable: Variable,
    faults: FaultList,
) -> Iterator[float]:
    listed, ranged = node.entry("levels"), node.entry("range")
    if listed is None and ranged is None:
        faults.at(entry.key, f"'{entry.key.text}' has no levels", "add levels: [...] or range: [low, high]")
    elif listed is not None and ranged is not None:
        faults.at(ranged.key, "a factor has levels or a range, not both", "keep one")
    elif listed is not None:
        for key in ("scale", "points"):
            if (extra := node.entry(key)) is not None:
                faults.at(extra.key, f"'{key}' belongs to a range, not to levels", "remove it, or give a range")
        if isinstance(listed.value, located.Sequence):
            yield from _listed(listed.value, variable, faults)
    elif ranged is not None and variable.categories:
        faults.at(ranged.key, f"'{entry.key.text}' has categories, which have no range", "list some as levels")
    elif ranged is not None and isinstance(ranged.value, located.Sequence):
        yield from _ranged(ranged.value, document, variable, faults)


def _listed(node: located.Sequence, variable: Variable, faults: FaultList) -> Iterator[float]:
    seen: set[float] = set()
    for item in node.items:
        level = _level(item, variable, faults)
        if level is None:
            continue
        if level in seen:
            faults.at(
                item,
                f"the level {located.describe(item)} appears twice",
                "replicates repeat a level; keep one",
            )
            continue
        seen.add(level)
        yield level


def _level(item: located.Node, variable: Variable, faults: FaultList) -> float | None:
    """Read one level, or report why it cannot be one."""
    text = item.text if isinstance(item, located.Scalar) else None
    if text is None:
        return None  # reported with the schema's faults
    if variable.categories:
        code = variable.words.index(text) if text in variable.words else None
        if code is None:
            faults.at(item, f"'{variable.name}' has no category '{text}'", suggest(text, variable.words))
        return None if code is None else float(code)
    unit, dimension = variable.unit, dimension_of(variable.unit)
    words = variable.settable.words if variable.settable is not None else {}
    if text in words:
        return words[text]
    try:
        level = quantity_of(text, unit)
    except UnitError as error:
        faults.at(item, str(error), f"'{variable.name}' is in {unit or 'plain numbers'}")
        return None
    is_cap = variable.rest is not None and variable.rest > 0
    if variable.role is Role.SET and (level < 0 or (level == 0 and is_cap)):
        remedy = "'unlimited' leaves it alone" if is_cap else "write a number from zero up"
        what = "above zero" if is_cap else "zero or above"
        faults.at(item, f"the level '{text}' of '{variable.name}' is not {what}", remedy)
    elif variable.role is Role.SET and math.isinf(level) and not is_cap:
        what = "is added to the machine" if variable.rest == 0 else "has no level that asks for nothing"
        names = "".join(f"{word}, " for word in words).rstrip(", ")
        remedy = f"write {names}, or what lies between" if names else "write a number"
        faults.at(item, f"'{variable.name}' {what}, so it cannot be unlimited", remedy)
    elif variable.role is Role.PARAMETER and math.isinf(level):
        faults.at(item, f"'{variable.name}' is a parameter, so it cannot be unlimited", "write a number")
    elif variable.role is Role.PARAMETER and level < 0 and dimension:
        faults.at(item, f"the level '{text}' of '{variable.name}' is negative", "write a number from zero up")
    elif variable.role is Role.PARAMETER and dimension == _BYTES and not level.is_integer():
        faults.at(item, f"the level '{text}' of '{variable.name}' is not a whole number of bytes", "round it")
    else:
        return level
    return None


def _ranged(
    node: located.Sequence, document: FactorDocument, variable: Variable, faults: FaultList
) -> Iterator[float]:
    ends = [_level(item, variable, faults) for item in node.items]
    if len(ends) != 2:
        return
    low, high = ends
    if low is None or high is None:
        return
    for item, end in zip(node.items, ends, strict=True):
        if end is not None and math.isinf(end):
            faults.at(item, "a range has finite ends", "list the levels to include unlimited")
            return
    if low >= high:
        faults.at(
            node,
            "the range does not go up",
            f"write the lower end first, as in [{_text(node.items[1])}, ...]",
        )
        return
    if document.scale == "log" and low <= 0:
        faults.at(node.items[0], "a log scale starts above zero", "raise the lower end, or use scale: linear")
        return
    whole = variable.role is Role.PARAMETER and dimension_of(variable.unit) == _BYTES
    last = None
    for index in range(document.points):
        level = _between(low, high, index / (document.points - 1), document.scale)
        level = float(round(level)) if whole else level
        if level == last:
            span = f"{format_quantity(low, variable.unit)} to {format_quantity(high, variable.unit)}"
            faults.at(node, f"{document.points} points do not fit into {span}", "ask for fewer points")
            return
        last = level
        yield level


def _between(low: float, high: float, share: float, scale: str) -> float:
    if share in (0.0, 1.0):
        return high if share else low
    if scale == "log":
        return math.exp(math.log(low) + share * (math.log(high) - math.log(low)))
    return low + share * (high - low)


def _text(node: located.Node) -> str:
    return (node.text or "") if isinstance(node, located.Scalar) else ""


def check_commands(
    node: located.Mapping, factor_names: Collection[str], model: ResolvedModel, faults: FaultList
) -> None:
    """Check the placeholders of all commands, and of the environment.

    Parameters
    ----------
    factor_names
        Every key under ``factors``, those with faults included.
    """
    used: set[str] = set()
    for key in ("command", "prepare"):
        if (entry := node.entry(key)) is not None:
            used |= _check_placeholders(_arguments(entry, faults), model, factor_names, faults)
    if (entry := node.entry("environment")) is not None:
        used |= _check_placeholders(_values(entry), model, factor_names, faults)
    data = node.entry("data")
    if data is not None and isinstance(data.value, located.Mapping):
        for file in data.value.entries:
            _check_few_placeholders(file, ("data", "python"), "data is made once, before any trial", faults)
    command = node.entry("command")
    known = {*FOLDERS, *model.declared}
    if command is not None and used <= known:  # else the misspelt one may be meant
        _check_unused(command.value, used, factor_names, model, faults)


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
    texts: Iterable[located.Scalar], model: ResolvedModel, factor_names: Collection[str], faults: FaultList
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
            elif name not in factor_names:
                faults.at(item, f"'{{{name}}}' has no level: '{name}' is not a factor", f"add '{name}' to factors")
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


_EFFECT = re.compile(r"(\w+)\s*->\s*(\w+)")


def resolve_goal(
    node: located.Mapping,
    document: GoalDocument,
    factor_names: Collection[str],
    model: ResolvedModel,
    faults: FaultList,
) -> Goal | None:
    """Check that the goal's cause is a factor and its outcome is measured."""
    entry = node.entry("effect")
    if entry is None or not isinstance(entry.value, located.Scalar):
        return None
    effect = entry.value
    match = _EFFECT.search(effect.raw)
    if match is None:
        faults.at(effect, "the effect must be written on one line, without escapes", "as in cpu_cores -> runtime")
        return None
    cause, outcome = match[1], match[2]
    sound = True
    for name, offset in ((cause, match.start(1)), (outcome, match.start(2))):
        if name not in model.declared:
            line, column = effect.position(offset)
            faults.add(line, column, f"the model has no variable '{name}'", suggest(name, model.declared))
            sound = False
    if not sound:
        return None
    variable = model.text.variables.get(outcome)
    if cause == outcome:
        line, column = effect.position(match.start(2))
        faults.add(line, column, f"'{cause}' is both cause and outcome", "name the measured variable last")
    elif variable is not None and variable.role is not Role.MEASURED:
        line, column = effect.position(match.start(2))
        measured = [v.name for v in model.text.variables.values() if v.role is Role.MEASURED]
        faults.add(line, column, f"the outcome '{outcome}' is not measured", suggest(outcome, measured))
    elif cause not in factor_names:
        line, column = effect.position(match.start(1))
        faults.add(line, column, f"the cause '{cause}' is not a factor", f"add '{cause}' to factors")
    return Goal(cause, outcome, document.relative_half_width, document.confidence, effect.line, effect.column)


def resolve_design(
    node: located.Node | None, document: DesignDocument, designs: Collection[str], faults: FaultList
) -> DesignSpec:
    """Check the kind of design, if the caller says which kinds there are."""
    if designs and document.kind not in designs:
        entry = node.entry("kind") if isinstance(node, located.Mapping) else None
        place = entry.value if entry else node
        if place is not None:
            faults.at(place, f"unknown design '{document.kind}'", suggest(document.kind, designs))
    return DesignSpec(document.kind, document.replicates, document.baseline_replicates, document.seed)


def resolve_budget(document: BudgetDocument) -> Budget:
    return Budget(document.trials, None if document.time is None else quantity_of(document.time, "s"))


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
