"""Abort conditions and the probe, as text in a plan."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.orchestrator.plan.host_quantities import HOST_QUANTITIES
from insitu.orchestrator.plan.json_schema import plan_schema
from insitu.orchestrator.plan.loading import load_plan
from insitu.orchestrator.plan.types import Condition, Guards, Probe, Relation
from tests.plan.texts import MODEL, PLAN, SETTABLE, changed

if TYPE_CHECKING:
    from tests.plan.conftest import Faults

GUARDS = "{trial_timeout: 30 s}"


def guards_of(folder: Path, text: str) -> Guards:
    (folder / "plan.yaml").write_text(changed(PLAN, GUARDS, text))
    (folder / "model.yaml").write_text(MODEL)
    return load_plan(folder / "plan.yaml", settable=SETTABLE).guards


def test_conditions_come_out_in_base_units(tmp_path: Path) -> None:
    text = (
        "{abort_when: [host.cpu.pressure_avg10 > 80%, host.memory.available<2 GB, 'host.load1 >= 16', "
        "host.io.full_pressure > 0.5, host.disk.free <= 512MiB], free_memory: 100 MB, node_wait: 2 min}"
    )
    guards = guards_of(tmp_path, text)
    assert guards.abort_when == (
        Condition("host.cpu.pressure_avg10", Relation.ABOVE, 0.8),
        Condition("host.memory.available", Relation.BELOW, 2e9),
        Condition("host.load1", Relation.AT_LEAST, 16),
        Condition("host.io.full_pressure", Relation.ABOVE, 0.5),
        Condition("host.disk.free", Relation.AT_MOST, 512 * 2**20),
    )
    assert [(one.line, one.column) for one in guards.abort_when][:2] == [(15, 23), (15, 54)]
    assert (guards.free_memory_bytes, guards.node_wait_s) == (100e6, 120)


def test_a_plan_without_conditions_has_the_defaults(tmp_path: Path) -> None:
    guards = guards_of(tmp_path, "{}")
    assert guards == Guards()
    assert (guards.abort_when, guards.probe, guards.node_wait_s) == ((), None, 60)


def test_a_probe(tmp_path: Path) -> None:
    text = '{probe: {command: [curl, -f, "http://localhost/"], every: 250 ms}}'
    assert guards_of(tmp_path, text).probe == Probe(("curl", "-f", "http://localhost/"), 0.25, 0.4)


FAULTS = [
    (
        "host.cpu.presure_avg10 > 80%",
        "15:23 unknown quantity 'host.cpu.presure_avg10' | did you mean 'host.cpu.pressure_avg10'?",
    ),
    (
        "memory.available < 2 GB",
        "15:23 unknown quantity 'memory.available' | did you mean 'host.memory.available'?",
    ),
    ("load1 > 3", "15:23 unknown quantity 'load1' | did you mean 'host.load1'?"),
    ("banana > 3", "15:23 unknown quantity 'banana' | valid here: host.cpu.pressure, "),
    ("'> 80%'", "15:23 no quantity in '> 80%' | valid here: "),
    ("''", "15:23 no quantity in '' | valid here: "),
    ("host.load1", "15:33 'host.load1' is compared with nothing | write <, <=, > or >=, as in "),
    ("host.load1 = 3", "15:34 '=' is not a comparison | write <, <=, > or >="),
    ("host.load1 => 3", "15:34 '=>' is not a comparison"),
    ("host.load1 == 3", "15:34 '==' is not a comparison"),
    ("host.load1 >", "15:35 nothing follows '>' | as in "),
    ("host.load1 > 3 GB", "15:36 '3 GB' is B, not a plain number | host.load1 is a plain number"),
    (
        "host.memory.available < 20%",
        "15:47 '20%' has no unit; write it with one, such as B | for a share write host.memory.available_share",
    ),
    (
        "host.memory.available < 2",
        "15:47 '2' has no unit; write it with one, such as B | host.memory.available is in B",
    ),
    (
        "host.memory.available < two",
        "15:47 'two' is not a quantity with a known unit | host.memory.available is in B",
    ),
    (
        "host.cpu.pressure > 2 s",
        "15:43 '2 s' is s, not a plain number | host.cpu.pressure is a share: write a percentage",
    ),
    ("host.cpu.pressure > unlimited", "15:43 'host.cpu.pressure > unlimited' is never true"),
    (
        "host.cpu.pressure > 80",
        "15:43 'host.cpu.pressure > 80' is never true | host.cpu.pressure is 0 to 100 %; 80 % is written 80%",
    ),
    ("host.cpu.pressure > 100%", "15:43 'host.cpu.pressure > 100%' is never true"),
    ("host.cpu.pressure >= 100%", None),
    ("host.cpu.pressure >= 0%", "15:44 'host.cpu.pressure >= 0%' is always true: no trial would ever start"),
    ("host.disk.free < 0 B", "15:40 'host.disk.free < 0 B' is never true | host.disk.free is zero and above"),
    ("host.disk.free >= -1 B", "15:41 'host.disk.free >= -1 B' is always true"),
    (
        "host.load1 > 3, host.load1 >= 4",
        "15:39 a second condition on host.load1 in the same direction | the first is on line 15; keep",
    ),
    ("host.load1 > 3, host.load1 < 0.1", None),
    ("[host.load1 > 3]", "15:23 expected text, found a list"),
    ("{host.load1: 3}", "15:23 expected text, found a mapping"),
]


@pytest.mark.parametrize(("text", "expected"), FAULTS)
def test_faults_of_conditions(faults_of: Faults, tmp_path: Path, text: str, expected: str | None) -> None:
    guards = f"{{abort_when: [{text}]}}"
    if expected is None:
        assert guards_of(tmp_path, guards).abort_when
        return
    (found,) = faults_of(changed(PLAN, GUARDS, guards))
    assert found.startswith(f"plan.yaml:{expected}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("abort_when: host.load1 > 3", "15:22 expected a list, found 'host.load1 > 3'"),
        ("abort_wen: []", "15:10 unknown key 'abort_wen' | did you mean 'abort_when'?"),
        ("node_wait: 0 s", "15:21 '0 s' is not above zero"),
        ("free_memory: 5%", "15:23 '5%' has no unit"),
        ("probe: {}", "15:17 the key 'command' is missing"),
        ("probe: {command: []}", "15:27 'command' must have at least 1 value"),
        ("probe: {command: [a], evry: 1 s}", "15:32 unknown key 'evry' | did you mean 'every'?"),
        ("probe: {command: [a], timeout: 0 s}", "15:41 '0 s' is not above zero"),
        ('probe: {command: [a, "{scratch}"]}', "15:31 '{scratch}' has no value here: a probe watches the node"),
        ("probe: {command: [./a]}", "15:28 './a' is relative, and a probe has no folder of its own"),
        ('probe: {command: [""]}', "15:28 the program's name is empty"),
    ],
)
def test_faults_of_other_guards(faults_of: Faults, text: str, expected: str) -> None:
    (found,) = faults_of(changed(PLAN, GUARDS, f"{{{text}}}"))
    assert found.startswith(f"plan.yaml:{expected}")


def test_a_fault_inside_a_block_of_text_has_its_place(faults_of: Faults) -> None:
    guards = '\n  abort_when:\n    - host.load1 > 3\n    - "host.load15 > 3 GB"'
    (found,) = faults_of(changed(PLAN, GUARDS, guards))
    assert found.startswith("plan.yaml:18:22 '3 GB' is B")


def test_the_schema_knows_the_form() -> None:
    item = plan_schema()["$defs"]["GuardsDocument"]["properties"]["abort_when"]["items"]
    pattern = re.compile(item["pattern"])
    for example in item["examples"]:
        assert pattern.search(example)
    for wrong in ("host.load1", "host.load1 = 3", "host.loadX > 3", "host.load1 >"):
        assert not pattern.search(wrong)


@given(st.sampled_from(sorted(HOST_QUANTITIES)), st.sampled_from(Relation), st.floats(0.01, 0.99), st.floats(0, 1))
def test_a_condition_and_what_is_said_of_it(name: str, relation: Relation, bound: float, value: float) -> None:
    condition = Condition(name, relation, bound)
    beyond = value > bound if relation.upwards else value < bound
    assert condition.holds_for(value) == (beyond or (value == bound and relation.value.endswith("=")))
    words = condition.why(value)
    said = re.fullmatch(rf"{re.escape(name)} is (.+), (above|below|at least|at most) (.+)", words)
    assert said
    if abs(value - bound) > 1e-7:
        assert said[1] != said[3]


def test_the_bound_is_written_as_in_the_plan() -> None:
    condition = Condition("host.memory.available", Relation.BELOW, 2e9)
    assert condition.why(1.2e9) == "host.memory.available is 1.2 GB, below 2 GB"
    assert condition.why(1.9999e9) == "host.memory.available is 1.9999 GB, below 2 GB"
    assert str(condition) == "host.memory.available < 2 GB"
    assert Condition("host.cpu.pressure_avg10", Relation.ABOVE, 0.8).why(0.834) == (
        "host.cpu.pressure_avg10 is 83.4 %, above 80 %"
    )
