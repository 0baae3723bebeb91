"""``insitu run --dry-run``: it changes nothing, refuses what a run refuses, and says what a run then does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from insitu.injectors import cgroups, lifecycle, writing
from insitu.injectors.anomalies import actuator as loads
from insitu.injectors.cgroups import GroupPlan
from insitu.injectors.confinement import NO_CAPS, Caps
from insitu.injectors.contract import Setting
from insitu.injectors.journal import Header, Journal, boot_id, process_namespace, read
from insitu.injectors.node import survey
from insitu.injectors.processes import start_time
from insitu.injectors.undo import Undo, UndoKind
from insitu.orchestrator import experiment
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import data_programs, order_for
from insitu.orchestrator.execution.rehearsal import RUN, PaperJournal, rehearse
from insitu.orchestrator.execution.sandbox.protocol import Launch
from tests import machine, plans
from tests.cli.audited import MARK

ROOT = Path(__file__).parents[2]
DEAD_PID = 2**22 + 1
"""Above what the kernel gives."""
GUARDS = "guards: {trial_timeout: 20 s}"
PROBE = 'guards: {probe: {command: [touch, "FOLDER/probed"], timeout: 10 s}, free_disk: 1 MB}'


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    probe = PROBE.replace("FOLDER", str(tmp_path))
    text = plans.PLAN.replace(GUARDS, f"{probe}\nblast_radius: {{cores: 0.9, memory: 1 GB}}")
    return plans.write(tmp_path / "plan", text)


def audited(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "tests.cli.audited", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=environment)


def done_to_the_machine(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if line.startswith(MARK)]


def files(folder: Path) -> dict[str, tuple[int, int]]:
    return {str(path): (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(folder.rglob("*"))}


@pytest.mark.root
@pytest.mark.parametrize("form", [[], ["--json"]])
def test_it_changes_nothing(plan: Path, tmp_path: Path, state: Path, form: list[str]) -> None:
    there = files(tmp_path)
    done = audited("run", str(plan), "--dry-run", "--out", str(tmp_path / "deep" / "run"), *form, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done_to_the_machine(done.stderr) == []
    assert done.stderr == ""
    assert files(tmp_path) == there
    assert not state.exists()
    assert machine.control_groups(f"insitu-{RUN}") == set()
    assert machine.mounts(f"insitu-{RUN}") == set()


@pytest.mark.root
def test_what_does_change_something_is_noticed(plan: Path, tmp_path: Path) -> None:
    done = audited("check", str(plan), "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    told = " ".join(done_to_the_machine(done.stderr))
    assert "os.mkdir" in told
    assert "subprocess.Popen" in told


@pytest.mark.parametrize(
    ("old", "new", "status", "said"),
    [
        ("[0.4 core, 0.8 core]", "[0.4 core, 64 core]", 2, "is out of reach here"),
        ("[sort, --parallel=1", "[sortt, --parallel=1", 2, "'sortt' is not on this machine"),
        ("[0.4 core, 0.8 core]", "[0.4 core, 0.95 core]", 2, "more than blast_radius.cores allows"),
        ("free_disk: 1 MB", "free_disk: 1000 TB", 3, "left on the disk of the run directory"),
        ("[touch, ", "[touchh, ", 2, "the probe's program 'touchh' is not on this machine"),
        ("name: small", "nmae: small", 2, "did you mean 'name'?"),
    ],
)
def test_it_refuses_what_a_run_refuses(
    plan: Path, tmp_path: Path, old: str, new: str, status: int, said: str
) -> None:
    text = plan.read_text()
    assert old in text
    plan.write_text(text.replace(old, new))
    for form in ((), ("--dry-run",)):
        done = audited("run", str(plan), "--out", str(tmp_path / "run"), *form)
        assert done.returncode == status
        assert said in done.stderr
    assert done_to_the_machine(done.stderr) == []
    assert not (tmp_path / "run").exists()


@pytest.mark.root
def test_it_refuses_an_occupied_directory_and_a_busy_node(plan: Path, tmp_path: Path, state: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "file").touch()
    done = audited("run", str(plan), "--dry-run", "--out", str(tmp_path / "run"))
    assert done.returncode == 2
    assert "is not an empty directory" in done.stderr
    pid = os.getpid()
    with Journal(state, Header("neighbour", pid, start_time(pid), boot_id(), "/runs/other")):
        done = audited("run", str(plan), "--dry-run", "--out", str(tmp_path / "other"))
    assert done.returncode == 3
    assert "another run executes on this node" in done.stderr
    done = audited("run", str(plan), "--json", "--out", str(tmp_path / "other"))
    assert done.returncode == 2
    assert "--json is for --dry-run" in done.stderr


def newer(path: Path) -> str:
    path.write_text('{"format": 99}\n')
    return "is not a journal that this version can read (format 99, this is 2); left alone"


def unnamed(path: Path) -> str:
    path.rename(path.with_name("insitu-.journal")).write_text("")
    return "is not named as a journal, and says nothing; left alone"


def of_another_user(path: Path) -> str:
    os.chown(path, 12345, -1)
    return "belongs to user 12345; left alone"


def of_another_namespace(path: Path) -> str:
    path.write_text(path.read_text().replace(process_namespace(), "pid:[1]"))
    return "is of a run in another process namespace (pid:[1]), which may be alive; left alone"


@pytest.mark.root
@pytest.mark.parametrize("change", [newer, unnamed, of_another_user, of_another_namespace])
def test_it_refuses_a_journal_that_a_run_would_leave_alone(
    plan: Path, tmp_path: Path, state: Path, change: Callable[[Path], str]
) -> None:
    with Journal(state, Header("dead", DEAD_PID, "1", boot_id(), "/runs/dead")) as journal:
        journal.intend([Undo(UndoKind.FOLDER, "/nowhere/insitu-dead-scratch")])
    reason = change(journal.path)
    (path,) = state.iterdir()
    before = path.read_bytes()
    for form in ((), ("--dry-run",)):
        done = audited("run", str(plan), "--out", str(tmp_path / "run"), *form)
        assert done.returncode == 4
        assert f"dirty node: {path} {reason}" in done.stderr
        assert "insitu recover" in done.stderr
    assert done_to_the_machine(done.stderr) == []
    assert path.read_bytes() == before
    path.unlink()


@pytest.mark.root
def test_it_shows_everything(plan: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shown = audited("run", str(plan), "--dry-run", "--out", str(run)).stdout
    work = run / "work"
    for expected in (
        "small: 10 trials on ",
        f"ends when this fails or takes 10 s, every 0.5 s: touch {tmp_path}/probed",
        "ends when host.memory.available < 256 MB (now ",
        "may take cores 0.9 core, held by the kernel ",
        f"{work}/insitu-RUN-data",
        "insitu-RUN-PID.journal (of the agent)",
        "-m insitu.injectors.guard ",
        "-m insitu.orchestrator.execution.conditions.prober",
        f"once, to make {work}/insitu-RUN-data/text",
        "/insitu-RUN-d0",
        f"mv {work}/insitu-RUN-slot/insitu-RUN-scratch/out {work}/insitu-RUN-data/text",
        f"-m insitu.workloads.python_sources 4000000 > {work}/insitu-RUN-slot/insitu-RUN-scratch/out",
        f"head -c 2000000 {work}/insitu-RUN-data/text > {work}/insitu-RUN-slot/insitu-RUN-scratch/in",
        "0% of it in memory when the subject starts",
        "none: every variable is left as it is",
        f"sort --parallel=1 -o {work}/insitu-RUN-slot/insitu-RUN-scratch/out ",
        "not tried: a sandbox, ray",
    ):
        assert expected in shown, expected
    assert not (tmp_path / "probed").exists()


@pytest.mark.root
def test_the_document(plan: Path, tmp_path: Path) -> None:
    document = json.loads(audited("run", str(plan), "--dry-run", "--json", "--out", str(tmp_path / "run")).stdout)
    assert (document["format"], document["version"]) == ("insitu-dry-run", 1)
    assert sorted(number for trial in document["trials"] for number in trial["trials"]) == list(range(1, 11))
    assert document["held_by_the_kernel"] == ["cpu", "memory"]
    (data,) = document["data"]
    assert any(line.endswith("/insitu-RUN-d0/pids.max = 512") for line in data["group"])
    assert data["scratch"] == [f"mkdir {tmp_path}/run/work/insitu-RUN-slot/insitu-RUN-scratch"]
    assert all("insitu-RUN-d0" in undo or undo.endswith("insitu-RUN-scratch") for undo in data["undos"])
    assert data["program"]["command"][-1] == "4000000"
    assert any(line.endswith("/insitu-RUN") and line.startswith("mkdir ") for line in document["confinement"])
    assert document["probe"]["command"] == ["touch", f"{tmp_path}/probed"]
    held = {trial["assignment"]["cpu_cores"]: trial for trial in document["trials"]}
    assert held[None]["levels"] == []
    assert any("quota_us = 8000" in line or "cpu.max = 8000 20000" in line for line in held[0.4]["levels"])
    assert all(trial["subject"]["command"][0] == "sort" for trial in document["trials"])


@pytest.mark.root
def test_what_dead_runs_left_is_shown_and_left(plan: Path, tmp_path: Path, state: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = tmp_path / "insitu-dead-scratch"
    left.mkdir()
    with Journal(state, Header("dead", ended.pid, "1", boot_id(), "/runs/dead")) as journal:
        journal.intend([Undo(UndoKind.FOLDER, str(left))])
    with Journal(state, Header("elsewhere", ended.pid, "1", "another boot", "/runs/elsewhere")) as shared:
        shared.intend([Undo(UndoKind.FOLDER, str(left.with_name("insitu-elsewhere-scratch")))])
    shared.path.write_text(shared.path.read_text().replace(shared.header.machine, "node-a 0123"))
    path = journal.path
    try:
        document = json.loads(
            audited("run", str(plan), "--dry-run", "--json", "--out", str(tmp_path / "run")).stdout
        )
        assert document["undone_first"] == [f"folder {left} (of run dead)"]
        assert left.exists()
        assert read(path).pending
    finally:
        path.unlink()
        shared.path.unlink()


def test_a_dry_runs_journal_takes_nothing(state: Path) -> None:
    paper = PaperJournal(Header(RUN, os.getpid(), "", boot_id(), "/run"))
    with pytest.raises(AssertionError, match="a dry run was about to do: x = 1"):
        paper.intend([], ["x = 1"])
    assert not state.exists()


class Seen:
    """What was really made, written and launched."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.lines: list[str] = []
        self.launches: list[Launch] = []
        create, write = cgroups.create, writing.write_setting

        def created(group: GroupPlan) -> None:
            create(group)
            self.lines.extend(f"mkdir {path}" for path in group.paths)
            self.lines.extend(f"{file} = {file.read_text().strip()}" for file, _ in cgroups.inherited(group))

        def written(setting: Setting, group: GroupPlan) -> None:
            write(setting, group)
            self.lines.append(f"{group.file_of(setting)} = {setting.text}")

        monkeypatch.setattr(cgroups, "create", created)
        for room in (lifecycle, loads):
            monkeypatch.setattr(room, "write_setting", written)

    def take(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    return Seen(monkeypatch)


@pytest.fixture
def agents(tmp_path: Path) -> Iterator[Any]:
    made: list[NodeAgent] = []

    def agent(caps: Caps) -> NodeAgent:
        pid = os.getpid()
        run = f"dryruntest{pid}"
        setup = AgentSetup(run, tmp_path / "run" / "work", tmp_path / "run", pid, start_time(pid), caps=caps)
        made.append(NodeAgent(setup))
        return made[0]

    yield agent
    for one in made:
        with closing(one):
            pass


MODEL = """\
variables:
  memory: {unit: B, set_by: memory.limit}
  busy: {unit: '', set_by: anomaly.cpu}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + b * busy + a / memory
"""
LOADS = """\
name: busy
subject: {command: [sleep, "0.1"], environment: {WHERE: "{data}"}}
model: model.yaml
factors: {busy: {levels: [0, 1]}, memory: {levels: [200 MB, unlimited]}}
design: {kind: factorial, replicates: 1}
"""

CAPS_MODEL = """\
variables:
  processors: {unit: core, set_by: cpu.set}
  reads: {unit: 1/s, set_by: disk.read_iops}
  writes: {unit: B/s, set_by: disk.write_rate}
  cached: {unit: fraction, set_by: cache.page}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + a / processors + b / reads + d / writes + e * cached
"""
CAPPED = """\
name: capped
subject: {prepare: [echo, some], command: [sleep, "0.1"]}
model: model.yaml
factors:
  processors: {levels: [1 core, unlimited]}
  reads: {levels: [500/s]}
  writes: {levels: [10 MB/s]}
  cached: {levels: [cold, 50 %]}
design: {kind: factorial, replicates: 1}
"""


@pytest.mark.root
@pytest.mark.parametrize(
    ("plan_text", "model", "caps"),
    [
        (plans.PLAN, plans.MODEL, NO_CAPS),
        (plans.PLAN, plans.MODEL, Caps(0.9, 1e9)),
        (LOADS, MODEL, Caps(1.5, 1e9)),
        (CAPPED, CAPS_MODEL, NO_CAPS),
    ],
    ids=["free", "confined", "with a load", "capped"],
)
def test_a_run_does_what_was_shown(
    tmp_path: Path,
    seen: Seen,
    agents: Any,
    monkeypatch: pytest.MonkeyPatch,
    plan_text: str,
    model: str,
    caps: Caps,
) -> None:
    """One trial of each assignment on a real agent: directories, writes and programs are those of the dry run."""
    loaded, blueprint = experiment.read(plans.write(tmp_path / "plan", plan_text, model))
    trials = experiment.design_trials(loaded, blueprint)
    rehearsal = rehearse(loaded, trials, caps, survey(tmp_path), tmp_path / "run")

    agent = agents(caps)
    owner = agent.bench.journal.header.ownership.prefix

    def real(text: str) -> str:
        return text.replace(f"insitu-{RUN}", owner)

    assert seen.take() == [real(line) for line in rehearsal.confinement]
    launches: list[Launch] = []
    launch = agent.bench.launcher.launch

    def launched(one: Launch, join_files: tuple[str, ...] = ()) -> None:
        launches.append(one)
        launch(one, join_files)

    monkeypatch.setattr(agent.bench.launcher, "launch", launched)
    agent.make_data(data_programs(loaded), loaded.guards)
    assert as_real(launches, real) == as_real([one.program for one in rehearsal.data], real)
    assert seen.take() == [real(line) for data in rehearsal.data for line in data.group]
    assert [real(data.file) for data in rehearsal.data] == [
        str(one) for one in agent.bench.workspace.data.iterdir()
    ]
    for steps in rehearsal.trials:
        agent.bench.ahead.drop()  # so that the trial makes its own group, as shown
        seen.take()
        launches.clear()
        planned = next(one for one in trials if one.trial == steps.trials[0])
        agent.run(order_for(loaded, planned))
        expected = [real(line) for line in (*steps.group, *steps.levels) if " = " in line or "mkdir " in line]
        assert seen.take()[: len(expected)] == expected
        shown = [one for one in (steps.preparation, steps.subject) if one is not None]
        assert as_real(launches, real) == as_real(shown, real)


def as_real(launches: list[Launch], real: Any) -> list[str]:
    return [real(json.dumps([one.command, one.environment, one.folder, one.stdout])) for one in launches]
