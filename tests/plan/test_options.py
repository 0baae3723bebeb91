"""What a factor says beside its levels: read with units, and refused at its place."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.injectors.options import Option, OptionKind, Options, Schedule, Window
from insitu.orchestrator.errors import FaultyFile
from insitu.orchestrator.plan.loading import load_plan_text
from insitu.orchestrator.plan.types import Settable
from tests.plan.texts import MODEL, PLAN, SETTABLE, changed

OPTIONS = (
    Option("preset", OptionKind.WORD, "how", words=("default", "bigroots")),
    Option("processes", OptionKind.COUNT, "how many", highest=64),
    Option("target", OptionKind.ADDRESS, "where to"),
    Option("windows", OptionKind.SCHEDULE, "when"),
)
KNOWN = SETTABLE | {"anomaly.cpu": Settable("", 0.0, options=OPTIONS)}
LOADED = changed(MODEL, "  runtime: {unit", "  load: {unit: '', set_by: anomaly.cpu}\n  runtime: {unit")


def options_of(text: str) -> Options:
    """The options of a factor that is written with `text`."""
    plan = changed(PLAN, "  input_size:", f"  load: {{levels: [0, 8], with: {text}}}\n  input_size:")
    loaded = load_plan_text(
        plan, LOADED, plan_path=Path("p.yaml"), model_path=Path("m.yaml"), settable=KNOWN, designs=["factorial"]
    )
    (load,) = (factor for factor in loaded.factors if factor.variable == "load")
    assert load.levels == (0.0, 8.0)
    return load.options


def faults_of(text: str) -> list[str]:
    with pytest.raises(FaultyFile) as caught:
        options_of(text)
    return [f"{fault.line}:{fault.column} {fault.message} | {fault.hint}" for fault in caught.value.faults]


def test_every_kind_of_option_is_read() -> None:
    read = options_of(
        "{preset: bigroots, processes: 3, target: 'far:09000', windows: [[2 s, 9 s], [10 min, 700]]}"
    )
    assert dict(read) == {
        "preset": "bigroots",
        "processes": 3,
        "target": "far:9000",
        "windows": Schedule((Window(2.0, 9.0), Window(600.0, 700.0))),
    }


def test_windows_may_differ_from_node_to_node() -> None:
    ((name, schedule),) = options_of("{windows: {alpha: [[0 s, 1 s]], beta: [[1 s, 2 s], [2 s, 3 s]]}}")
    assert name == "windows"
    assert isinstance(schedule, Schedule)
    assert schedule.on("alpha") == (Window(0.0, 1.0),)
    assert schedule.on("beta") == (Window(1.0, 2.0), Window(2.0, 3.0))
    assert schedule.on("gamma") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{presett: bigroots}", "11:33 'load' has no option 'presett' | did you mean 'preset'?"),
        ("{preset: bigrots}", "11:41 'preset' cannot be 'bigrots' | did you mean 'bigroots'?"),
        ("{preset: [a]}", "11:41 'preset' cannot be a list"),
        ("{processes: 65}", "11:44 'processes' must be a whole number from 1 to 64, not '65'"),
        ("{processes: 0}", "11:44 'processes' must be a whole number from 1 to 64, not '0'"),
        ("{processes: 1.5}", "11:44 'processes' must be a whole number from 1 to 64, not '1.5'"),
        ("{target: far}", "11:41 'target' must be host:port, not 'far'"),
        ("{target: 'far:70000'}", "11:41 'target' must be host:port, not 'far:70000'"),
        ("{windows: 3}", "11:42 windows must be a list of pairs, not '3'"),
        ("{windows: []}", "11:42 windows must be a list of pairs, not a list"),
        ("{windows: {}}", "11:42 no node has a window"),
        ("{windows: [2 s, 5 s]}", "11:43 a window is a pair of times, not '2 s'"),
        ("{windows: [[2 s]]}", "11:43 a window is a pair of times, not a list"),
        ("{windows: [[2 s, 5 MB]]}", "11:49 '5 MB' is B, not s"),
        ("{windows: [[5 s, 2 s]]}", "11:43 a window must begin at 0 s or later, and end after that"),
        ("{windows: [[-1 s, 2 s]]}", "11:43 a window must begin"),
        ("{windows: [[1 s, unlimited]]}", "11:43 a window must begin"),
        ("{windows: [[1 s, 3 s], [2 s, 4 s]]}", "11:55 this window begins before 1 to 3 s is over"),
        ("{windows: {alpha: [[1 s, 3]], beta: 2}}", "11:68 windows must be a list of pairs, not '2'"),
        ("bigroots", "11:32 expected a mapping, found 'bigroots'"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(text: str, expected: str) -> None:
    (fault,) = faults_of(text)
    assert fault.startswith(expected)


def test_a_variable_without_options_takes_none() -> None:
    plan = changed(PLAN, "40 MB/s]}", "40 MB/s], with: {preset: bigroots}}")
    with pytest.raises(FaultyFile) as caught:
        load_plan_text(plan, MODEL, plan_path=Path("p.yaml"), model_path=Path("m.yaml"), settable=SETTABLE)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column, fault.message) == (10, 48, "'disk_read_rate' has no options")


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=6))
def test_windows_are_accepted_exactly_if_they_are_in_order_and_apart(pairs: list[tuple[int, int]]) -> None:
    times = [time for pair in pairs for time in pair]
    sound = times == sorted(times) and all(begin < end for begin, end in pairs)
    text = f"{{windows: {[list(pair) for pair in pairs]}}}"
    if sound:
        assert options_of(text) == (("windows", Schedule(tuple(Window(*map(float, pair)) for pair in pairs))),)
    else:
        assert len(faults_of(text)) == 1
