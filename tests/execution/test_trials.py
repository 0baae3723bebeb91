"""Whole trials on this machine: good subjects, and those that try to harm it."""

from __future__ import annotations

import dataclasses
import os
import pickle
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from experiments.benchmarks import trials
from insitu.injectors import deletion, lifecycle
from insitu.injectors.journal import read
from insitu.injectors.lease import Lease
from insitu.injectors.processes import start_time
from insitu.injectors.processors import sharing_is_known
from insitu.injectors.registry import injectors
from insitu.injectors.undo import UndoKind, carry_out
from insitu.orchestrator.errors import CannotExecute, NodeDirty
from insitu.orchestrator.execution import supervision
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import Program, SetLevel, TrialOrder, TrialOutcome
from insitu.orchestrator.execution.sandbox.protocol import Launch
from insitu.orchestrator.plan.types import Guards
from insitu.orchestrator.store.records import LevelVerdict, TrialState

RUN = f"trialtest{os.getpid()}"
GUARDS = Guards(trial_timeout_s=20, scratch_bytes=32e6, outside_writes_bytes=32e6, free_disk_bytes=0)


order = partial(trials.order, guards=GUARDS)


def shell(script: str, **changes: object) -> TrialOrder:
    return order("sh", "-c", script, **changes)


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[NodeAgent]:
    setup = AgentSetup(RUN, tmp_path / "work", tmp_path / "run", os.getpid(), start_time(os.getpid()))
    with closing(NodeAgent(setup)) as agent:
        yield agent
    assert list((tmp_path / "work").iterdir()) == []


Run = Callable[[TrialOrder], TrialOutcome]


@pytest.fixture
def run(agent: NodeAgent) -> Run:
    """Run a trial, and see that it has left nothing by the time its outcome is there."""

    def run(order: TrialOrder) -> TrialOutcome:
        outcome = agent.run(order)
        bench = agent.bench
        assert list(bench.workspace.slot.iterdir()) == []
        assert set(bench.workspace.slot.parent.iterdir()) == set(bench.workspace.lasting)
        for parent in bench.node.hierarchies.parents.values():
            mark = bench.journal.header.ownership.prefix
            assert [path for path in parent.glob(f"{mark}-*") if not path.name.startswith(f"{mark}-g")] == []
        pending = [undo.path for undo in read(bench.journal.path).pending if undo.kind is UndoKind.FOLDER]
        assert pending == list(map(str, bench.workspace.lasting))
        assert all("\n" not in reason and len(reason) < 400 for reason in outcome.record.reasons)
        assert (outcome.record.state is TrialState.VALID) == (outcome.record.reasons == ())
        moved = pickle.loads(pickle.dumps(outcome))  # as ray does it
        assert isinstance(moved, TrialOutcome)
        return moved

    return run


def failure(outcome: TrialOutcome) -> str:
    assert outcome.record.state is TrialState.FAILED
    (reason,) = outcome.record.reasons
    return reason


def test_a_good_subject(run: Run) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    outcome = run(order("{python}", "-c", burn, parameters=(("size", 3.0, "B"),)))
    record = outcome.record
    assert record.exit_status == 0, record
    assert record.state in (TrialState.VALID, TrialState.INVALID)
    assert 0.3 <= record.measurements["cpu_time"] <= record.measurements["wall_time"] + 0.1
    assert record.measurements["wall_time"] < record.duration_s
    assert "slower_share" not in record.host
    (size,) = record.levels
    assert (size.variable, size.achieved, size.verdict) == ("size", 3.0, LevelVerdict.EXACT)


def test_how_slow_the_processors_were_is_looked_at_where_a_plan_asks(run: Run) -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    host = run(replace(order("{python}", "-c", burn), tolerated_slowdown=20.0)).record.host
    assert ("slower_share" in host) is not sharing_is_known(os.sched_getaffinity(0))
    assert host.get("slower_share", 0.0) < 5


def test_samples_run_from_the_start_to_the_end(run: Run) -> None:
    outcome = run(shell("i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done; sleep 0.2"))
    samples, wall_s = outcome.samples, outcome.record.measurements["wall_time"]
    assert {"time_s", "cpu_s"} <= samples.keys()
    assert len({len(column) for column in samples.values()}) == 1
    assert len(samples["time_s"]) >= wall_s / 0.05
    assert samples["time_s"][0] == 0.0
    assert samples["time_s"][-1] == wall_s
    for name in samples.keys() - {"memory_bytes"}:
        column = samples[name]
        assert all(later >= earlier for earlier, later in pairwise(column)), name
    assert all(later > earlier for earlier, later in pairwise(samples["time_s"]))


@pytest.mark.root
def test_a_quota_is_held_from_the_first_moment(run: Run, agent: NodeAgent) -> None:
    burn = "import time\nwhile time.process_time() < 0.6: pass"  # processor time: however fast the machine is
    level = SetLevel("cores", "cpu.cores", "core", 0.2)
    record = run(order("{python}", "-c", burn, levels=(level,))).record
    (cores,) = record.levels
    assert cores.mechanism.startswith("cgroup")
    assert cores.requested == 0.2
    assert cores.achieved is not None
    assert cores.achieved < 0.2 * 1.05 + cores.uncertainty
    assert record.measurements["cpu_time"] / record.measurements["wall_time"] < 0.25


@pytest.mark.parametrize("status", [1, 7])
def test_an_exit_status_comes_with_the_last_words(run: Run, status: int) -> None:
    outcome = run(shell(f"echo first >&2; echo 'out of cheese' >&2; exit {status}"))
    assert failure(outcome) == f"exit status {status}: out of cheese"
    assert outcome.record.exit_status == status
    assert outcome.record.stderr_tail == "first\nout of cheese"


def test_a_silent_failure_and_odd_bytes(run: Run) -> None:
    assert failure(run(shell("exit 2"))) == "exit status 2: it wrote nothing to stderr"
    assert failure(run(shell(r"printf '\377\033[31m' >&2; exit 2"))).startswith("exit status 2: ")


def test_a_missing_program(run: Run) -> None:
    assert failure(run(order("no-such-program"))) == "'no-such-program' is not on this node"


def test_a_subject_that_hangs(run: Run) -> None:
    guards = dataclasses.replace(GUARDS, trial_timeout_s=0.5)
    outcome = run(shell("sleep 1000 & sleep 1000", guards=guards))
    assert failure(outcome) == "timeout: still running after 0.5 s"
    assert outcome.record.duration_s < 20


def test_a_subject_that_ignores_signals_hangs_no_longer(run: Run) -> None:
    guards = dataclasses.replace(GUARDS, trial_timeout_s=0.3)
    script = "trap '' TERM INT HUP; while :; do sleep 0.05; done"
    assert failure(run(shell(script, guards=guards))).startswith("timeout")


HELD_UP = ("dd", "if=/dev/zero", "of={scratch}/big", "bs=16M", "count=1", "oflag=direct")
"""At the lowest level of `disk.write_rate` it takes 160 s, in which nothing can end it."""


@pytest.fixture
def slowest_writes(agent: NodeAgent) -> SetLevel:
    capability = injectors()["disk.write_rate"].capability(agent.bench.node)
    if not capability.settable:
        pytest.skip(capability.reason)
    return SetLevel("rate", "disk.write_rate", "B/s", capability.low)


@pytest.mark.root
def test_a_writer_that_waits_for_its_throttle_is_ended(run: Run, slowest_writes: SetLevel) -> None:
    guards = dataclasses.replace(GUARDS, trial_timeout_s=1.0)
    outcome = run(order(*HELD_UP, guards=guards, levels=(slowest_writes,)))
    assert failure(outcome) == "timeout: still running after 1 s"
    assert outcome.record.duration_s < 20


@pytest.mark.root
def test_a_writer_that_a_subject_leaves_behind_is_ended(run: Run, slowest_writes: SetLevel) -> None:
    outcome = run(shell(f"{' '.join(HELD_UP)} & sleep 1", levels=(slowest_writes,)))
    assert outcome.record.exit_status == 0
    assert outcome.record.duration_s < 20


@pytest.mark.root
def test_a_sandbox_that_does_not_end_ends_the_run(
    agent: NodeAgent, slowest_writes: SetLevel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caps stay until the group is removed, as if it were something else that the writer waits for."""
    monkeypatch.setattr(lifecycle.Reserved, "lift_caps", lambda _: None)
    monkeypatch.setattr(supervision, "_SANDBOX_END_S", 0.5)
    guards = dataclasses.replace(GUARDS, trial_timeout_s=1.0)
    with pytest.raises(CannotExecute, match=r"does not end after it was stopped \(timeout: still running"):
        agent.run(order(*HELD_UP, guards=guards, levels=(slowest_writes,)))


def test_writing_to_etc_is_without_effect(run: Run) -> None:
    name = f"/etc/insitutest{os.getpid()}"
    outcome = run(shell(f"echo x > {name}; echo broken > /etc/passwd; true"))
    assert outcome.record.exit_status == 0
    assert not Path(name).exists()
    assert Path("/etc/passwd").read_text() != "broken\n"


FORKS = """
import os, time
made = 0
for _ in range(10_000):
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError as error:
        raise SystemExit("after %d forks: %s" % (made, error))
    made += 1
"""


def test_ten_thousand_forks(run: Run) -> None:
    guards = dataclasses.replace(GUARDS, processes=200)
    reason = failure(run(order("{python}", "-c", FORKS, guards=guards)))
    assert "Resource temporarily unavailable" in reason
    assert 0 < int(reason.split("after ")[1].split()[0]) <= 200


def test_a_fork_bomb(run: Run) -> None:
    guards = dataclasses.replace(GUARDS, processes=100, trial_timeout_s=1.0)
    script = "bomb() { bomb | bomb & }; bomb; sleep 1000"
    assert failure(run(shell(script, guards=guards)))


def test_one_big_file_in_scratch(run: Run) -> None:
    reason = failure(run(shell("head -c 60000000 /dev/zero > big; exit $?")))
    assert reason.startswith("scratch full")


def test_many_files_in_scratch(run: Run) -> None:
    script = "i=0; while :; do head -c 300000 /dev/zero > f$i; i=$((i+1)); done"
    reason = failure(run(shell(script)))
    assert reason.startswith("scratch full")
    assert "32 MB" in reason


def test_more_small_files_than_one_look_takes(run: Run) -> None:
    guards = dataclasses.replace(GUARDS, scratch_bytes=120e6)
    script = "import time\nfor n in range(35_000): open(str(n), 'wb').write(bytes(4096))\ntime.sleep(1000)"
    assert failure(run(order("{python}", "-c", script, guards=guards))).startswith("scratch full: ")


def test_files_in_scratch_that_have_no_name(run: Run) -> None:
    script = """
import tempfile, time
files = [tempfile.TemporaryFile(dir=".") for _ in range(5)]
for file in files:
    file.write(bytes(10_000_000))
    file.flush()
time.sleep(1000)
"""
    assert failure(run(order("{python}", "-c", script))).startswith("scratch full: ")


def test_filling_everything_else(run: Run) -> None:
    parts = "; ".join(f"head -c 30000000 /dev/zero > /tmp/{part} || exit 1" for part in range(10))
    assert "No space left" in failure(run(shell(parts)))


def test_the_input_is_made_and_cold_or_warm_outside_the_timing(run: Run) -> None:
    prepare = Program(("sh", "-c", "sleep 0.5; head -c {size} /dev/zero"), (("size", "1000000"),))
    for page_cache in ("cold", "warm"):
        outcome = run(shell("wc -c < in > out; grep -q 1000000 out", prepare=prepare, page_cache=page_cache))
        assert outcome.record.exit_status == 0
        assert outcome.record.measurements["wall_time"] < 0.5


def test_parameters_are_filled_into_the_environment_of_every_command(run: Run) -> None:
    values = (("size", "3"),)
    script = 'test "$SIZE" = n3 && test "$OUT" = "$PWD/out" && test "$TEXT" = "{size}" && test "$(cat in)" = n3'
    outcome = run(
        order(
            prepare=Program(("sh", "-c", 'echo "$SIZE"'), values),
            command=Program(("sh", "-c", script.replace("{size}", "{{size}}")), values),
            environment=(("SIZE", "n{size}"), ("OUT", "{scratch}/out"), ("TEXT", "{{size}}")),
        )
    )
    assert outcome.record.exit_status == 0, outcome.record.reasons


def test_a_failing_preparation_is_named(run: Run) -> None:
    outcome = run(order("true", prepare=Program(("sh", "-c", "echo no text >&2; exit 3"))))
    assert failure(outcome) == "prepare: exit status 3: no text"
    assert failure(run(order("true", prepare=Program(("no-such-program",))))).startswith("prepare: 'no-such")


def test_a_level_out_of_reach_is_not_executed(agent: NodeAgent) -> None:
    level = SetLevel("cores", "cpu.cores", "core", 1e6)
    with pytest.raises(CannotExecute) as caught:
        agent.run(order("true", levels=(level,)))
    assert "out of reach" in caught.value.message
    assert caught.value.hint
    assert caught.value.context["trial"] == 1


def test_what_cannot_be_undone_makes_the_node_dirty(agent: NodeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(deletion, "_empty", lambda _: [])
        with pytest.raises(NodeDirty) as caught:
            agent.run(order("touch", "{scratch}/left"))
    assert "is still there" in caught.value.message
    assert caught.value.hint == "insitu recover"
    journal = agent.bench.journal
    for intent in read(journal.path).intents[:2]:  # the trial, and the group it is on
        for left in intent.undos:
            carry_out(left, journal.header.ownership)
        journal.done(intent.number)


@pytest.mark.parametrize("at", ["data", "trial"])
def test_a_launcher_that_is_killed_is_told_in_words(
    agent: NodeAgent, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    launcher = agent.bench.launcher
    launch = launcher.launch

    def launch_and_be_killed(one: Launch, join_files: tuple[str, ...] = ()) -> None:
        launch(one, join_files)
        os.kill(launcher.pid, signal.SIGKILL)

    monkeypatch.setattr(launcher, "launch", launch_and_be_killed)
    work: dict[str, Callable[[], object]] = {
        "data": lambda: agent.make_data((("text", Program(("sleep", "600"))),), GUARDS),
        "trial": lambda: agent.run(shell("sleep 600")),
    }
    with pytest.raises(CannotExecute, match="the sandbox launcher ended: ") as caught:
        work[at]()
    assert caught.value.hint == "insitu resume RUN"


def test_data_is_made_once_and_is_there_for_every_trial(agent: NodeAgent, run: Run) -> None:
    agent.make_data((("text", Program(("echo", "shared"))),), GUARDS)
    outcome = run(shell("grep -q shared {data}/text && ! echo x > {data}/text"))
    assert outcome.record.exit_status == 0
    with pytest.raises(CannotExecute, match=r"makes \{data\}/bad failed: exit status 4"):
        agent.make_data((("bad", Program(("sh", "-c", "exit 4"))),), GUARDS)


def test_making_data_has_a_time_by_which_it_has_ended(agent: NodeAgent, monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard holds the agent to it; see the tests of the guard."""
    limits: list[float] = []
    limited_to = Lease.limited_to

    def noted(lease: Lease, seconds: float) -> AbstractContextManager[None]:
        limits.append(seconds)
        return limited_to(lease, seconds)

    monkeypatch.setattr(Lease, "limited_to", noted)
    programs = (("one", Program(("echo", "x"))), ("two", Program(("echo", "x"))))
    agent.make_data(programs, dataclasses.replace(GUARDS, trial_timeout_s=1000.0))
    agent.make_data((), GUARDS)
    with_programs, without = limits
    assert 2 * 1000 < with_programs < 2 * 1100
    assert without > 10, "it takes a moment to do nothing"
