"""Watching a node: by what the kernel says of it, and by a probe of the user's."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from insitu.injectors.journal import Header, Journal, boot_id, read
from insitu.injectors.processes import start_time
from insitu.injectors.undo import carry_out
from insitu.orchestrator.execution.conditions.host_state import HostState
from insitu.orchestrator.execution.conditions.probing import Prober
from insitu.orchestrator.execution.conditions.watch import HostWatch, Look, NotWell, conditions_of, how_they_stand
from insitu.orchestrator.plan.types import Condition, Guards, Probe, Relation
from tests.leaks import parent_of
from tests.ordinary_user import ids, run_python

CALM = Guards(free_disk_bytes=1, free_memory_bytes=1)
NEVER = Condition("host.memory.available", Relation.BELOW, 1e18)
ALWAYS_CALM = Condition("host.cpu.pressure", Relation.AT_LEAST, 2.0)


@pytest.fixture
def journal(state: Path) -> Iterator[Journal]:
    pid = os.getpid()
    with Journal(state, Header("watchtest", pid, start_time(pid), boot_id(), "/run")) as journal:
        yield journal


@pytest.fixture
def watch(tmp_path: Path, journal: Journal) -> Iterator[HostWatch]:
    with HostWatch(tmp_path, journal) as watch:
        yield watch


def probing(script: str, **times: float) -> Guards:
    return replace(CALM, probe=Probe(("sh", "-c", script), **times))


def first_problem(watch: HostWatch, guards: Guards, within_s: float = 10.0) -> str:
    """Look whenever there is news, as the supervision does; gives the first problem."""
    deadline = time.monotonic() + within_s
    while not (problem := watch.look(guards).problem) and time.monotonic() < deadline:
        select.select(watch.news(), [], [], 0.2)
    return problem


def answers(watch: HostWatch, guards: Guards) -> bool:
    """Wait for an answer that the node is well."""
    return watch.wait_until_well(guards, 10.0) == ""


def children_of(pid: int) -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and parent_of(int(name)) == pid]


def processes_with(mark: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                command = Path("/proc", name, "cmdline").read_bytes()
            except OSError:
                continue
            if mark.encode() in command and b"conditions.prober" not in command:
                found.append(int(name))
    return found


def wait_for(condition: Callable[[], bool], within_s: float = 10.0) -> bool:
    deadline = time.monotonic() + within_s
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return true


def gone(mark: str) -> bool:
    return wait_for(lambda: not processes_with(mark))


def test_a_node_that_is_well(watch: HostWatch) -> None:
    look = watch.look(CALM)
    assert (look.problem, look.complete) == ("", True)
    assert watch.news() == ()


def test_a_condition_that_is_true(watch: HostWatch) -> None:
    look = watch.look(replace(CALM, abort_when=(ALWAYS_CALM, NEVER)))
    assert look.problem.startswith("host.memory.available is ")
    assert look.problem.endswith(", below 1e+06 TB")


def test_a_quantity_that_cannot_be_read_any_more(tmp_path: Path, journal: Journal) -> None:
    (tmp_path / "runs").mkdir()
    with HostWatch(tmp_path / "runs", journal) as watch:
        (tmp_path / "runs").rmdir()
        assert watch.look(CALM).problem.startswith("host.disk.free cannot be read any more: ")


def test_the_conditions_that_every_plan_has(tmp_path: Path) -> None:
    state = HostState(tmp_path)
    disk, memory = conditions_of(Guards(), state)
    assert (disk.quantity, disk.bound) == ("host.disk.free", 1e9)
    assert (memory.quantity, memory.bound) == ("host.memory.available", min(256e6, state.total_memory_bytes / 20))
    state.total_memory_bytes = 1e9
    assert conditions_of(Guards(), state)[1].bound == 50e6
    assert conditions_of(Guards(free_memory_bytes=3e9), state)[1].bound == 3e9


def test_waiting_for_a_pressure_to_be_known(watch: HostWatch) -> None:
    guards = replace(CALM, abort_when=(ALWAYS_CALM,))
    assert not watch.look(guards).complete
    assert watch.wait_until_well(guards, 0.0) == ""
    assert watch.look(guards).complete


def test_waiting_in_vain(watch: HostWatch) -> None:
    assert watch.wait_until_well(replace(CALM, abort_when=(NEVER,)), 0.1).startswith("host.memory.available is ")


def test_whoever_is_busy_looks_when_it_is_time_to(watch: HostWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[Guards] = []
    look = watch.look

    def noted(guards: Guards) -> Look:
        looks.append(guards)
        return look(guards)

    monkeypatch.setattr(watch, "look", noted)
    watch.insisting(CALM)()
    assert looks == [CALM]
    busy = watch.insisting(CALM)
    calls = 0
    while len(looks) < 4:
        busy()
        calls += 1
    assert calls > 10
    with pytest.raises(NotWell, match=r"^host.memory.available is .*, below 1e\+06 TB$"):
        watch.insisting(replace(CALM, abort_when=(NEVER,)))()


def test_how_conditions_stand(tmp_path: Path) -> None:
    *_, calm, never = how_they_stand(replace(CALM, abort_when=(ALWAYS_CALM, NEVER)), tmp_path)
    assert (calm.value, calm.true) == (None, False)
    assert never.value is not None
    assert never.true


def test_a_probe_that_succeeds(watch: HostWatch, tmp_path: Path) -> None:
    guards = probing(f"echo ran >> {tmp_path}/log", every_s=0.05)
    with watch.probing(guards):
        assert answers(watch, guards)
        for _ in range(50):
            assert watch.look(guards).problem == ""
            time.sleep(0.01)
    times = len((tmp_path / "log").read_text().splitlines())
    assert times >= 3
    time.sleep(0.2)
    assert len((tmp_path / "log").read_text().splitlines()) <= times + 1, "it went on after the trial"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("exit 3", "the probe ended with exit status 3: it wrote nothing"),
        (
            "echo first; echo the queue is full >&2; exit 1",
            "the probe ended with exit status 1: the queue is full",
        ),
        ("kill -TERM $$", "the probe ended with signal 15: it wrote nothing"),
        ("sleep 30", "the probe did not end within 0.4 s"),
        ("trap '' TERM INT; while :; do :; done", "the probe did not end within 0.4 s"),
        ("yes", "the probe did not end within 0.4 s"),
        ("exec >&- 2>&-; sleep 0.05; exit 4", "the probe ended with exit status 4: it wrote nothing"),
        ("yes 0123456789 | head -c 3300000; exit 5", "the probe ended with exit status 5: 0123456789"),
        (r"printf '\377\n'; exit 6", "the probe ended with exit status 6: �"),
    ],
)
def test_a_probe_that_does_not_succeed(watch: HostWatch, script: str, problem: str) -> None:
    guards = probing(script) if "did not end" in problem else probing(script, timeout_s=20.0)
    with watch.probing(guards):
        assert first_problem(watch, guards, within_s=30.0) == problem


def test_a_program_that_cannot_be_executed(watch: HostWatch) -> None:
    guards = replace(CALM, probe=Probe(("/etc/passwd",)))
    with watch.probing(guards):
        assert first_problem(watch, guards) == "the probe '/etc/passwd' cannot be executed: Permission denied"


def test_a_node_that_gets_well_again(watch: HostWatch, tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    guards = probing(f"test ! -e {flag}", every_s=0.05)
    with watch.probing(guards):
        assert answers(watch, guards)
        flag.touch()
        assert first_problem(watch, guards).startswith("the probe ended with exit status 1")
        assert watch.wait_until_well(guards, 0.2) != ""
        flag.unlink()
        assert answers(watch, guards)


def test_a_probe_sees_little_of_the_agent(
    watch: HostWatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    script = (
        "import json, os, sys; n = os.listdir('/proc/self/fd'); "
        f"json.dump([dict(os.environ), sys.stdin.read(), os.getcwd(), n], open({str(tmp_path / 'seen')!r}, 'w'))"
    )
    guards = replace(CALM, probe=Probe(("{python}", "-c", script), timeout_s=10))
    with watch.probing(guards):
        assert answers(watch, guards)
    environment, stdin, folder, descriptors = json.loads((tmp_path / "seen").read_text())
    assert environment.keys() <= {"PATH", "LANG", "HOME", "USER", "LC_CTYPE"}
    assert (stdin, folder) == ("", "/")
    assert len(descriptors) == 4, "0, 1, 2 and the folder itself"


def test_what_a_probe_leaves_behind_ends_with_it(watch: HostWatch) -> None:
    mark = f"3{os.getpid()}0"
    guards = probing(f"setsid sleep {mark} & sleep 0.05; true")
    with watch.probing(guards):
        assert answers(watch, guards)
    assert gone(mark)


def test_a_probe_ends_with_the_trial(watch: HostWatch) -> None:
    mark = f"4{os.getpid()}0"
    guards = probing(f"sleep {mark}; true", timeout_s=100.0)
    with watch.probing(guards):
        assert wait_for(lambda: bool(processes_with(mark)))
    assert gone(mark)


def test_a_probe_is_not_the_subjects_and_sees_the_node(watch: HostWatch, tmp_path: Path) -> None:
    guards = probing(f"cat /proc/self/cgroup > {tmp_path}/groups; readlink /proc/self/ns/net > {tmp_path}/net")
    with watch.probing(guards):
        assert answers(watch, guards)
    assert (tmp_path / "groups").read_text() == Path("/proc/self/cgroup").read_text()
    assert (tmp_path / "net").read_text().strip() == os.readlink("/proc/self/ns/net")


@pytest.mark.parametrize("which", ["outer", "inner"])
def test_a_prober_that_is_killed_takes_its_probe_with_it(watch: HostWatch, which: str) -> None:
    mark = f"5{os.getpid()}{len(which)}{which == 'outer':d}"
    guards = probing(f"setsid sleep {mark} & sleep {mark}", timeout_s=100.0)
    with watch.probing(guards):
        prober = watch._prober
        assert prober is not None
        assert wait_for(lambda: len(processes_with(mark)) >= 2)
        (inner,) = children_of(prober.pid)
        os.kill(prober.pid if which == "outer" else inner, signal.SIGKILL)
        assert first_problem(watch, guards) == "the process that executes the probe has ended"
    assert gone(mark)
    calm = probing("true")
    with watch.probing(calm):
        assert answers(watch, calm), "the next trial has a prober of its own"


def test_a_prober_that_says_nothing(watch: HostWatch) -> None:
    guards = probing("true", every_s=0.05, timeout_s=2.0)
    with watch.probing(guards):
        assert answers(watch, guards)
        prober = watch._prober
        assert prober is not None
        (inner,) = children_of(prober.pid)
        os.kill(inner, signal.SIGSTOP)
        problem = first_problem(watch, guards)
        os.kill(inner, signal.SIGCONT)
    said = re.fullmatch(r"the process that executes the probe has been silent for ([\d.]+) s", problem)
    assert said is not None, problem
    assert float(said[1]) >= 4.0  # as long as the probe may take, and two seconds for the answer


def test_a_prober_that_was_stopped_is_ended_by_the_journal(tmp_path: Path, journal: Journal) -> None:
    """As the guard does it when the agent was killed: nobody else would wake the prober."""
    mark = f"7{os.getpid()}0"
    with HostWatch(tmp_path, journal) as watch, watch.probing(probing(f"sleep {mark}; true", timeout_s=100.0)):
        assert watch._prober is not None
        assert wait_for(lambda: bool(processes_with(mark)))
        (inner,) = children_of(watch._prober.pid)
        os.kill(inner, signal.SIGSTOP)
        (undo,) = read(journal.path).pending
        carry_out(undo, journal.header.ownership)
        assert gone(mark)
        assert parent_of(inner) == 0 or wait_for(lambda: parent_of(inner) == 0)
    assert read(journal.path).pending == ()


def test_closing_ends_everything() -> None:
    mark = f"6{os.getpid()}0"
    with Prober(Probe(("sleep", mark), timeout_s=100.0)) as prober:
        prober.go()
        assert wait_for(lambda: bool(processes_with(mark)))
    assert gone(mark)
    assert parent_of(prober.pid) == 0


ORDINARY = """
import os, sys
from pathlib import Path
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.processes import start_time
from insitu.orchestrator.execution.conditions.watch import HostWatch
from insitu.orchestrator.plan.types import Guards, Probe

guards = Guards(free_disk_bytes=1, free_memory_bytes=1, probe=Probe(("sh", "-c", sys.argv[1]), timeout_s=5.0))
folder, pid = Path(sys.argv[2]), os.getpid()
with Journal(folder, Header("ordinary", pid, start_time(pid), boot_id(), "/run")) as journal:
  with HostWatch(folder, journal) as watch, watch.probing(guards):
    print(watch.wait_until_well(guards, 2.0))
"""


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """A folder of the ordinary user's; pytest's own are closed to them."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    os.chown(folder, *ids())
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("script", "expected"),
    [("test $(id -u) != 0", ""), ("id -u; exit 7", "the probe ended with exit status 7: ")],
)
def test_as_an_ordinary_user(shared: Path, script: str, expected: str) -> None:
    done = run_python(["-c", ORDINARY, script, str(shared)])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(expected)
    assert (done.stdout.strip() == "") == (expected == "")
