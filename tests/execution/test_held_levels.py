"""Each variable in whole trials on this machine: what the subject itself sees of it, and what is recorded.

Other load makes a trial slower, never faster, and its verdict may then be that it was disturbed: what is asserted
here holds either way.
"""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from experiments.benchmarks import trials
from insitu.injectors.placement import COLUMN
from insitu.injectors.processes import start_time
from insitu.injectors.registry import injectors
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder, TrialOutcome
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, TrialState

RUN = f"heldtest{os.getpid()}"
GUARDS = Guards(trial_timeout_s=60, scratch_bytes=256e6, outside_writes_bytes=32e6, free_disk_bytes=0)
NOT_FREE = (LevelVerdict.HELD, LevelVerdict.DISTURBED)

Run = Callable[[TrialOrder], TrialOutcome]


order = partial(trials.order, guards=GUARDS)


def at(variable: str, level: float) -> dict[str, object]:
    return {"levels": (SetLevel("it", variable, injectors()[variable].unit, level),)}


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeAgent]:
    folder = tmp_path_factory.mktemp("held")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("INSITU_STATE", str(folder / "state"))
        setup = AgentSetup(RUN, folder / "work", folder / "run", os.getpid(), start_time(os.getpid()))
        with closing(NodeAgent(setup)) as agent:
            yield agent


@pytest.fixture
def settable(agent: NodeAgent) -> Callable[[str], None]:
    """Skip the test where this machine cannot set a variable."""

    def require(variable: str) -> None:
        capability = injectors()[variable].capability(agent.bench.node)
        if not capability.settable:
            pytest.skip(f"{variable}: {capability.reason}")

    return require


def only(outcome: TrialOutcome) -> LevelRecord:
    assert outcome.record.exit_status == 0, outcome.record.reasons
    (level,) = outcome.record.levels
    return level


# --- processors ------------------------------------------------------------------------------------------

ALLOWED = "grep -q '^Cpus_allowed_list:.{0}$' /proc/self/status"


@pytest.mark.root
@pytest.mark.parametrize("level", [1, 2])
def test_a_set_of_processors_holds_every_process(
    agent: NodeAgent, settable: Callable[[str], None], level: int
) -> None:
    settable("cpu.set")
    node = agent.bench.node
    if len(node.processors) < level:
        pytest.skip(f"this machine has {len(node.processors)} processors")
    burn = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    allowed = ",".join(map(str, sorted(node.processors[:level])))
    script = f"python3 -c 'import os,sys; sys.exit(sorted(os.sched_getaffinity(0)) != [{allowed}])' || exit 7"
    outcome = agent.run(order("sh", "-c", f"({burn}) & ({burn}) & {script}; wait", **at("cpu.set", level)))
    record = only(outcome)
    assert record.mechanism.startswith("cgroup")
    assert max(share for share in outcome.samples[COLUMN] if not math.isnan(share)) == level
    assert record.achieved is not None
    assert record.achieved <= level * 1.01
    used = outcome.record.measurements["cpu_time"] / outcome.record.measurements["wall_time"]
    assert used <= level * 1.02


@pytest.mark.root
def test_a_set_cannot_be_left_from_inside(agent: NodeAgent, settable: Callable[[str], None]) -> None:
    settable("cpu.set")
    last = max(agent.bench.node.processors)
    leave = f"import os\ntry: os.sched_setaffinity(0, {{{last}}})\n"
    script = f"{leave}except OSError: raise SystemExit(0)\nraise SystemExit(9)"
    if agent.bench.node.processors[0] == last:
        pytest.skip("this machine has one processor")
    only(agent.run(order("{python}", "-c", script, **at("cpu.set", 1))))


@pytest.mark.root
def test_without_a_cpuset_the_affinity_holds_what_does_not_change_it(
    agent: NodeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = agent.bench.node
    if len(node.processors) < 2:
        pytest.skip("this machine has one processor")
    parents = {name: path for name, path in node.hierarchies.parents.items() if name != "cpuset"}
    bare = dataclasses.replace(node, hierarchies=dataclasses.replace(node.hierarchies, parents=parents))
    bench = dataclasses.replace(agent.bench, place=dataclasses.replace(agent.bench.place, node=bare))
    monkeypatch.setattr(agent, "bench", bench)
    burn = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done"
    honest = only(agent.run(order("sh", "-c", f"({burn}) & {burn}; wait", **at("cpu.set", 1))))
    assert honest.mechanism == "sched-affinity"
    assert honest.verdict is not LevelVerdict.MISSED
    both = ",".join(map(str, node.processors[:2]))
    leave = f"import os, time\nos.sched_setaffinity(0, [{both}])\nwhile time.process_time() < 0.2: pass"
    cheat = only(agent.run(order("{python}", "-c", leave, **at("cpu.set", 1))))
    assert cheat.verdict in (LevelVerdict.MISSED, LevelVerdict.DISTURBED)
    assert cheat.achieved == 2.0


# --- disks -----------------------------------------------------------------------------------------------


@pytest.fixture
def blob(agent: NodeAgent) -> Path:
    path = agent.bench.workspace.data / "blob"
    if not path.exists():
        agent.make_data((("blob", Program(("head", "-c", "20000000", "/dev/zero"))),), GUARDS)
    return path


@pytest.mark.root
@pytest.mark.parametrize("direction", ["read", "write"])
@pytest.mark.parametrize(("level", "count"), [(100.0, 300), (400.0, 500)])
def test_requests_are_held(
    agent: NodeAgent,
    settable: Callable[[str], None],
    blob: Path,
    direction: str,
    level: float,
    count: int,
) -> None:
    variable = f"disk.{direction}_iops"
    settable(variable)
    ends = ("if={data}/blob", "of=/dev/null", "iflag=direct")
    if direction == "write":
        ends = ("if=/dev/zero", "of={scratch}/out", "oflag=direct")
    agent.run(order("dd", *ends, "bs=4096", "count=1"))  # else dd's own pages may count, on a machine just booted
    outcome = agent.run(order("dd", *ends, "bs=4096", f"count={count}", **at(variable, level)))
    record = only(outcome)
    slow = record.verdict is LevelVerdict.SLACK and record.note != ""  # the machine does not come up to the cap
    assert record.verdict in NOT_FREE or slow
    requests = outcome.samples[f"{direction}_ops"][-1] - outcome.samples[f"{direction}_ops"][0]
    if direction == "read":
        assert requests == pytest.approx(count, abs=8)
    else:
        assert requests >= count  # a synchronous write brings those of the file system along
    wall_s = outcome.record.measurements["wall_time"]
    assert requests <= level * (wall_s + 0.15)  # a slice of the kernel's accounting may come early
    assert record.achieved is not None
    assert record.achieved <= level * 1.03 + record.uncertainty


@pytest.mark.root
@pytest.mark.parametrize("block", [1 << 16, 1 << 20])
def test_buffered_writes_are_held_where_the_kernel_would_let_them_pass(
    agent: NodeAgent, settable: Callable[[str], None], block: int
) -> None:
    settable("disk.write_rate")
    if agent.bench.node.hierarchies.version["io"] != 1:
        pytest.skip("version 2 knows whose data are written back")
    rate, count = 8e6, round(12e6 / block)
    command = ("dd", "if=/dev/zero", "of={scratch}/out", f"bs={block}", f"count={count}")
    outcome = agent.run(order(*command, **at("disk.write_rate", rate)))
    record = only(outcome)
    assert record.mechanism == "cgroup1.io.throttle+synchronous-scratch"
    assert record.verdict in NOT_FREE
    assert outcome.record.measurements["wall_time"] > 0.9 * count * block / rate - 0.1
    assert outcome.record.measurements["write_bytes"] >= count * block
    free = agent.run(order(*command, **at("disk.write_rate", math.inf)))
    assert only(free).verdict is LevelVerdict.UNSET
    assert free.record.measurements["write_bytes"] >= count * block  # as synchronous as the others


def test_a_plan_without_write_variables_leaves_the_scratch_folder_as_it_is(agent: NodeAgent) -> None:
    script = "lsattr -d . | cut -d ' ' -f 1 | grep -q S && exit 5; exit 0"
    assert agent.run(order("sh", "-c", script)).record.exit_status == 0


# --- memory ----------------------------------------------------------------------------------------------

HOLD = "x = bytearray({0})\nimport time\ntime.sleep(0.15)"


@pytest.mark.root
def test_a_limit_of_memory_holds_the_page_cache_too(agent: NodeAgent, settable: Callable[[str], None]) -> None:
    settable("memory.limit")
    script = "head -c 60000000 /dev/zero > out && cat out > /dev/null"
    outcome = agent.run(order("sh", "-c", script, **at("memory.limit", 24e6)))
    record = only(outcome)
    assert record.verdict in NOT_FREE
    assert record.achieved == pytest.approx(24e6, rel=0.05)
    assert outcome.record.measurements["peak_memory"] <= 24e6


@pytest.mark.root
def test_a_limit_that_is_not_reached_is_slack(agent: NodeAgent, settable: Callable[[str], None]) -> None:
    settable("memory.limit")
    record = only(agent.run(order("{python}", "-c", HOLD.format(20_000_000), **at("memory.limit", 100e6))))
    assert record.verdict is LevelVerdict.SLACK
    assert record.achieved is not None
    assert 20e6 < record.achieved < 40e6


@pytest.mark.root
@pytest.mark.parametrize(("level", "text"), [(64e6, "64 MB"), (4e6, "4 MB")])
def test_a_subject_that_runs_out_of_memory_failed_for_that_reason(
    agent: NodeAgent, settable: Callable[[str], None], level: float, text: str
) -> None:
    settable("memory.limit")
    record = agent.run(order("{python}", "-c", HOLD.format(200_000_000), **at("memory.limit", level))).record
    assert (record.state, record.reasons) == (TrialState.FAILED, (f"out of memory: limit {text}",))


@pytest.mark.root
def test_a_subject_that_loses_a_helper_to_its_limit_failed_even_if_it_goes_on(
    agent: NodeAgent, settable: Callable[[str], None]
) -> None:
    settable("memory.limit")
    script = f'python3 -c "{HOLD.format(200_000_000)}"; exit 0'
    record = agent.run(order("sh", "-c", script, **at("memory.limit", 32e6))).record
    assert (record.exit_status, record.reasons) == (0, ("out of memory: limit 32 MB",))


@pytest.mark.root
def test_a_high_mark_holds_without_killing(agent: NodeAgent, settable: Callable[[str], None]) -> None:
    settable("memory.high")
    script = "head -c 60000000 /dev/zero > out && cat out > /dev/null"
    record = only(agent.run(order("sh", "-c", script, **at("memory.high", 24e6))))
    assert record.verdict in NOT_FREE
    assert record.achieved == pytest.approx(24e6, rel=0.2)


# --- the input in memory ---------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.0, 0.25, 0.5, 1.0])
def test_a_share_of_the_input_is_in_memory_and_is_nobody_s_but_the_input_s(agent: NodeAgent, level: float) -> None:
    if agent.bench.node.device is None:
        pytest.skip(agent.bench.node.device_problem)
    prepare = Program(("head", "-c", "16000000", "/dev/zero"))
    outcome = agent.run(order("sleep", "0.06", prepare=prepare, **at("cache.page", level)))
    record = only(outcome)
    assert (record.verdict, record.mechanism) == (LevelVerdict.HELD, "fadvise")
    assert record.achieved == pytest.approx(level, abs=0.02)
    assert outcome.samples["input_in_memory"][0] == record.achieved
    if "memory_bytes" in outcome.samples:
        assert max(outcome.samples["memory_bytes"]) < 6e6


@pytest.mark.root
def test_a_warm_input_stays_warm_under_a_limit_that_it_would_not_fit_into(
    agent: NodeAgent, settable: Callable[[str], None]
) -> None:
    settable("memory.limit")
    levels = (SetLevel("warm", "cache.page", "fraction", 1.0), SetLevel("memory", "memory.limit", "B", 8e6))
    prepare = Program(("head", "-c", "32000000", "/dev/zero"))
    outcome = agent.run(order("cat", "{scratch}/in", prepare=prepare, levels=levels))
    assert outcome.record.exit_status == 0
    assert [level.verdict for level in outcome.record.levels] == [LevelVerdict.HELD, LevelVerdict.SLACK]
    assert outcome.record.measurements["read_bytes"] < 2e6
