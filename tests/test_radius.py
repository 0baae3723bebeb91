"""What a plan takes against what it and the node's inventory allow, and one run per node."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from insitu.injectors import registry
from insitu.injectors.confinement import NO_CAPS, Caps
from insitu.injectors.contract import Achieved, Capability, HostValue, Injector, Node, Treatment
from insitu.injectors.demand import Demand
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.processes import start_time
from insitu.orchestrator import experiment
from insitu.orchestrator.errors import CannotExecute, InputError
from insitu.orchestrator.execution.cluster import local_cluster
from insitu.orchestrator.plan.blast_radius import BlastRadius, Cap, allowed
from insitu.orchestrator.plan.inventory import Inventory, load_inventory
from insitu.orchestrator.radius import Radius, radius_of, refuse_crowd
from tests import plans
from tests.injectors import nodes


class Load(Injector):
    """Adds so many processes, each of which takes a core, 100 MB and 10 MB/s."""

    variable = "test.load"
    unit = ""
    tolerance = 0.1
    rest = 0.0

    def capability(self, node: Node) -> Capability:
        return Capability(self.variable, self.unit, "load", 0.0, 100.0)

    def treatment(self, level: float, node: Node) -> Treatment:
        return Treatment()

    def achieved(self, level: float, samples: object, node: Node) -> Achieved:
        return Achieved(level, 1.0, 0.0)

    def demand(self, level: float) -> Demand:
        return Demand(level, level * 100e6, level * 10e6, 1)


class Clock(Load):
    """Sets a value of the whole host."""

    variable = "test.clock"

    def treatment(self, level: float, node: Node) -> Treatment:
        return Treatment(host_values=(HostValue("/sys/clock", f"{level:g}"),) if level else ())

    def demand(self, level: float) -> Demand:
        return Demand()


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {**registry.injectors(), "test.load": Load(), "test.clock": Clock()}
    monkeypatch.setattr(registry, "injectors", lambda: known)


MODEL = """\
variables:
  load: {unit: '', set_by: test.load}
  clock: {unit: '', set_by: test.clock}
  cpu_cores: {unit: core, set_by: cpu.cores}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + a * load + b / cpu_cores + d * clock
"""
PLAN = """\
name: small
subject: {command: ["true"]}
model: model.yaml
"""
FACTORS = "factors: {load: {levels: [0, 2]}, cpu_cores: {levels: [1.5, unlimited]}}\n"
MEMORY_BYTES = 8e9

Judge = Callable[..., Radius]


@pytest.fixture
def judge(tmp_path: Path) -> Judge:
    """The radius of a plan on a node of 4 processors and 8 GB called *here*."""

    def judge(radius: str = "{}", inventory: str = "", factors: str = FACTORS, node: Node | None = None) -> Radius:
        text = f"{PLAN}{factors}blast_radius: {radius}\n"
        plan, blueprint = experiment.read(plans.write(tmp_path, text, MODEL))
        found: Inventory | None = None
        if inventory:
            (tmp_path / "inventory.yaml").write_text(f"nodes: {{here: {{blast_radius: {inventory}}}}}\n")
            found = load_inventory(tmp_path / "inventory.yaml", registry.injectors())
        trials = experiment.design_trials(plan, blueprint)
        return radius_of(plan, trials, node or nodes.node(cpus=4), "here", MEMORY_BYTES, found)

    return judge


def test_without_any_word_nothing_is_capped_but_the_number_of_runs(judge: Judge) -> None:
    radius = judge()
    assert radius.caps == NO_CAPS
    assert radius.allowed.caps == {"trials": Cap(1)}
    assert radius.demand == Demand(cores=3.5, memory_bytes=200e6, disk_bytes_per_s=20e6, interfaces=1)


def test_what_is_enough(judge: Judge) -> None:
    radius = judge("{cores: 3.5, memory: 200 MB, disk_rate: 20 MB/s, interfaces: 1}")
    assert radius.caps == Caps(3.5, 200e6)
    assert judge("{cores: 3.6}", "{cores: 3.5}").caps == Caps(3.5)
    assert judge("{cores: 4, memory: 8 GB}").caps == NO_CAPS


@pytest.mark.parametrize(
    ("radius", "expected"),
    [
        (
            "{cores: 3.4}",
            "load = 2 ({plan}:4:11) and cpu_cores = 1.5 core ({plan}:4:35) together take 3.5 core, "
            "more than blast_radius.cores allows: 3.4 core ({plan}:5:23)",
        ),
        (
            "{memory: 150 MB}",
            "load = 2 ({plan}:4:11) takes 200 MB, more than blast_radius.memory allows: 150 MB ({plan}:5:24)",
        ),
        (
            "{disk_rate: 19 MB/s}",
            "load = 2 ({plan}:4:11) takes 20 MB/s, more than blast_radius.disk_rate allows: 19 MB/s ({plan}:5:27)",
        ),
        (
            "{interfaces: 0}",
            "load = 2 ({plan}:4:11) takes 1 interface, more than blast_radius.interfaces allows: 0 ({plan}:5:28)",
        ),
    ],
)
def test_a_plan_that_contradicts_itself(judge: Judge, tmp_path: Path, radius: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        judge(radius)
    assert caught.value.message == expected.format(plan=tmp_path / "plan.yaml")
    assert caught.value.hint == "choose lower levels, or raise blast_radius in the plan"


def test_an_inventory_that_does_not_allow_it(judge: Judge, tmp_path: Path) -> None:
    with pytest.raises(CannotExecute) as caught:
        judge("{memory: 1 GB}", "{memory: 150 MB}")
    assert caught.value.exit_code == 3
    assert caught.value.message == (
        f"load = 2 ({tmp_path / 'plan.yaml'}:4:11) takes 200 MB, more than the inventory allows on here: "
        f"memory 150 MB ({tmp_path / 'inventory.yaml'}:1:39)"
    )


HOST_WIDE = "factors: {clock: {levels: [0, 5]}}\n"


def test_variables_of_the_whole_host_are_allowed_by_name(judge: Judge, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        judge("{}", factors=HOST_WIDE)
    plan = tmp_path / "plan.yaml"
    assert caught.value.message == (
        f"clock ({plan}:4:11) sets test.clock of the whole host, which blast_radius.host_wide does not allow"
    )
    assert "{host_wide: [test.clock]}" in (caught.value.hint or "")
    judge("{host_wide: [test.clock]}", factors=HOST_WIDE)
    judge("{host_wide: [test.clock]}", "{cores: 4}", factors=HOST_WIDE)
    judge("{host_wide: [test.clock]}", "{host_wide: [test.clock]}", factors=HOST_WIDE)
    with pytest.raises(CannotExecute, match=r"which the inventory does not allow on here .*inventory.yaml:1:"):
        judge("{host_wide: [test.clock]}", "{host_wide: []}", factors=HOST_WIDE)
    judge("{}", factors="factors: {clock: {levels: [0]}}\n")


def test_caps_that_cannot_be_held_are_refused(judge: Judge, tmp_path: Path) -> None:
    factors = "factors: {load: {levels: [0, 1]}}\n"
    with pytest.raises(CannotExecute) as caught:
        judge("{cores: 1.5}", factors=factors, node=nodes.bare_node())
    place = f"({tmp_path / 'plan.yaml'}:5:23)"
    assert caught.value.message == (
        f"the blast radius' cores {place} cannot be held here: {nodes.NO_PERMISSION.reason}"
    )
    judge("{cores: 2}", factors=factors, node=nodes.bare_node())


def neighbour(number: int) -> Header:
    return Header(f"run{number}", 100 + number, "1", "boot", f"/runs/{number}")


def test_one_run_per_node_unless_the_plan_says_more() -> None:
    one, two = neighbour(1), neighbour(2)
    refuse_crowd(allowed(BlastRadius(), None), ())
    with pytest.raises(CannotExecute) as caught:
        refuse_crowd(allowed(BlastRadius(), None), (one,))
    assert caught.value.message == (
        "another run executes on this node, and two disturb each other: /runs/1 (process 101)"
    )
    assert caught.value.hint == "wait for it to end, or write blast_radius: {trials: 2} in the plan"
    plan = BlastRadius({"trials": Cap(2)})
    refuse_crowd(allowed(plan, None), (one,))
    with pytest.raises(CannotExecute, match=r"/runs/1 \(process 101\), /runs/2 \(process 102\)"):
        refuse_crowd(allowed(plan, None), (one, two))


@pytest.mark.root
def test_a_run_whose_process_is_older_is_refused_beside_one_that_was_faster(tmp_path: Path, state: Path) -> None:
    admit = partial(refuse_crowd, allowed(BlastRadius(), None))
    with subprocess.Popen(["sleep", "600"]) as younger:
        try:
            with Journal(state, Header("other", younger.pid, start_time(younger.pid), boot_id(), "/runs/other")):
                there = list(state.iterdir())
                with (
                    pytest.raises(CannotExecute, match=f"/runs/other .process {younger.pid}."),
                    local_cluster("mine", tmp_path / "work", tmp_path, admit=admit),
                ):
                    pass
                assert list(state.iterdir()) == there
        finally:
            younger.kill()


def insitu(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "insitu", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.root
def test_from_the_command_line(tmp_path: Path, state: Path) -> None:
    plan, run = plans.write(tmp_path / "plan"), tmp_path / "run"
    inventory = tmp_path / "inventory.yaml"
    inventory.write_text("nodes: {default: {blast_radius: {cores: 0.5 core}}}\n")
    for command in (["check", str(plan)], ["run", str(plan), "--out", str(run)]):
        refused = insitu(*command, "--inventory", str(inventory))
        assert refused.returncode == 3
        assert f"cores 0.5 core ({inventory}:1:41)" in refused.stderr
    plan.write_text(plans.PLAN + "blast_radius: {cores: 0.5 core}\n")
    refused = insitu("run", str(plan), "--out", str(run))
    assert refused.returncode == 2
    assert f"blast_radius.cores allows: 0.5 core ({plan}:15:23)" in refused.stderr
    plan.write_text(plans.PLAN + "blast_radius: {cores: 0.9 core, memory: 1 GB}\n")
    checked = json.loads(insitu("check", str(plan), "--json").stdout)
    assert checked["blast_radius"] == {"trials": 1, "cores": 0.9, "memory": 1e9}
    assert checked["takes"]["cores"] == 0.8
    assert checked["held_by_the_kernel"] == ["cpu", "memory"]
    pid = os.getpid()
    with Journal(state, Header("neighbour", pid, start_time(pid), boot_id(), "/runs/other")):
        refused = insitu("run", str(plan), "--out", str(run))
        assert refused.returncode == 3
        assert f"another run executes on this node, and two disturb each other: /runs/other (process {pid})" in (
            refused.stderr
        )
        assert json.loads(insitu("check", str(plan), "--json").stdout)["other_runs"] == ["/runs/other"]
    assert not run.exists()
    found = json.loads(insitu("doctor", "--json", "--inventory", str(inventory)).stdout)
    assert {
        "what": "at most: cores",
        "verdict": "ok",
        "how": f"0.5 core ({inventory}:1:41)",
        "remedy": "",
    } in found
