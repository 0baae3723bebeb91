"""The ``with`` of a factor to the values of its injector's options, every fault at its place."""

from __future__ import annotations

from insitu.injectors.options import Option, OptionKind, Options, OptionValue, Schedule, Window
from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.types import Variable
from insitu.orchestrator.plan.values import quantity_of
from insitu.orchestrator.units import UnitError

MAX_WINDOWS = 1000
"""Of one node."""

_AS_IN = "as in [[2 s, 5 s], [8 s, 9 s]]"


def resolve_options(entry: located.Entry | None, variable: Variable, faults: FaultList) -> Options:
    """Resolve what a factor says beside its levels."""
    if entry is None:
        return ()
    known = {option.name: option for option in variable.settable.options} if variable.settable else {}
    if not known:
        faults.at(entry.key, f"'{variable.name}' has no options", "remove it: its levels say everything")
        return ()
    if not isinstance(entry.value, located.Mapping):  # reported with the schema's faults
        return ()
    found: dict[str, OptionValue] = {}
    for one in entry.value.entries:
        name = one.key.text or ""
        if name not in known:
            faults.at(one.key, f"'{variable.name}' has no option '{name}'", suggest(name, known))
            continue
        value = _value(one.value, known[name], faults)
        if value is not None:
            found[name] = value
    return tuple(found.items())


def _value(node: located.Node, option: Option, faults: FaultList) -> OptionValue | None:
    match option.kind:
        case OptionKind.SCHEDULE:
            return _schedule(node, faults)
        case OptionKind.WORD:
            return _word(node, option, faults)
        case OptionKind.COUNT:
            return _count(node, option, faults)
        case OptionKind.ADDRESS:
            return _address(node, option, faults)


def _text(node: located.Node) -> str:
    return (node.text or "") if isinstance(node, located.Scalar) else ""


def _word(node: located.Node, option: Option, faults: FaultList) -> str | None:
    text = _text(node)
    if text in option.words:
        return text
    faults.at(node, f"'{option.name}' cannot be {located.describe(node)}", suggest(text, option.words))
    return None


def _count(node: located.Node, option: Option, faults: FaultList) -> int | None:
    text = _text(node)
    if text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= option.highest:
        return int(text)
    faults.at(
        node,
        f"'{option.name}' must be a whole number from 1 to {option.highest}, not {located.describe(node)}",
    )
    return None


def _address(node: located.Node, option: Option, faults: FaultList) -> str | None:
    host, colon, port = _text(node).rpartition(":")
    if colon and host and port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536:
        return f"{host}:{int(port)}"
    faults.at(node, f"'{option.name}' must be host:port, not {located.describe(node)}", "as in 10.0.0.7:9000")
    return None


def _schedule(node: located.Node, faults: FaultList) -> Schedule | None:
    if not isinstance(node, located.Mapping):
        windows = _windows(node, faults)
        return None if windows is None else Schedule(windows)
    by_node: dict[str, tuple[Window, ...]] = {}
    for entry in node.entries:
        windows = _windows(entry.value, faults)
        if windows is not None:
            by_node[entry.key.text or ""] = windows
    if not node.entries:
        faults.at(node, "no node has a window", "name a node, or give one list for all")
    return Schedule(by_node=tuple(by_node.items())) if by_node else None


def _windows(node: located.Node, faults: FaultList) -> tuple[Window, ...] | None:
    if not isinstance(node, located.Sequence) or not node.items:
        faults.at(node, f"windows must be a list of pairs, not {located.describe(node)}", _AS_IN)
        return None
    if len(node.items) > MAX_WINDOWS:
        faults.at(node, f"more than {MAX_WINDOWS} windows", "write fewer")
        return None
    windows: list[Window] = []
    for item in node.items:
        window = _window(item, faults)
        if window is None:
            return None
        if windows and window.begin_s < windows[-1].end_s:
            faults.at(item, f"this window begins before {windows[-1]} is over", "put them in order")
            return None
        windows.append(window)
    return tuple(windows)


def _window(node: located.Node, faults: FaultList) -> Window | None:
    if not isinstance(node, located.Sequence) or len(node.items) != 2:
        faults.at(node, f"a window is a pair of times, not {located.describe(node)}", _AS_IN)
        return None
    ends: list[float] = []
    for item in node.items:
        try:
            ends.append(quantity_of(_text(item), "s"))
        except UnitError as error:
            faults.at(item, str(error), "times are after the subject's start, as in 2 s")
            return None
    begin_s, end_s = ends
    if not 0 <= begin_s < end_s < float("inf"):
        faults.at(node, "a window must begin at 0 s or later, and end after that", _AS_IN)
        return None
    return Window(begin_s, end_s)
