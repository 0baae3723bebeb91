from __future__ import annotations

import json
import math
import os
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insitu.orchestrator.errors import CannotExecute, InputError
from insitu.orchestrator.store import RunStore
from insitu.orchestrator.store.encoding import Json
from insitu.orchestrator.store.records import (
    Assignment,
    LevelRecord,
    LevelVerdict,
    PlannedTrial,
    Purpose,
    StoredTrial,
    TrialEvent,
    TrialRecord,
    TrialState,
)
from insitu.orchestrator.store.states import FINISHED, IllegalTransition
from tests.standins import sort_trials


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return RunStore.create(tmp_path / "run", "name: é\n", "variables: {}\n", {"seed": 7, "cap": math.inf})


def finished(trials: tuple[StoredTrial, ...]) -> list[TrialRecord]:
    return [trial.record for trial in trials if trial.record is not None]


def test_what_goes_in_comes_out_also_after_reopening(store: RunStore) -> None:
    trials = sort_trials(np.random.default_rng(1))
    store.plan_trials(trial.planned for trial in trials)
    for record in finished(trials):
        store.start(record.trial)
        store.finish(record)
    extra = PlannedTrial(99, 3, trials[0].planned.assignment, replaces=1)
    store.add(extra)
    store.event("note", "all done")
    expected = (*trials, StoredTrial(extra, TrialState.PLANNED))
    assert store.trials() == expected
    store.close()
    with RunStore.open(store.directory, read_only=True) as again:
        assert again.trials() == expected
        assert again.plan_source == "name: é\n"
        assert again.model_source == "variables: {}\n"
        assert again.meta()["seed"] == 7
        assert again.meta()["cap"] == "inf"
        assert [(event.kind, event.text) for event in again.events()] == [("note", "all done")]


def test_what_happened_in_a_trial_is_an_event_of_its_own(store: RunStore) -> None:
    trial = sort_trials(np.random.default_rng(1))[0]
    assert trial.record is not None
    events = (
        TrialEvent(1.7e9, "onset", "anomaly.cpu", 2.0, 2.0004),
        TrialEvent(1.7e9 + 3, "offset", "anomaly.cpu", None, 5.01),
    )
    store.plan_trials([trial.planned])
    store.start(trial.planned.trial)
    store.finish(replace(trial.record, events=events))
    store.event("note", "of the run")
    (stored,) = store.trials()
    assert stored.record is not None
    assert stored.record.events == events
    assert [event.text for event in store.events()] == ["of the run"]
    rows = (
        sqlite3.connect(store.directory / "run.db").execute("SELECT trial, kind, actual_s FROM events").fetchall()
    )
    assert rows == [(1, "onset", 2.0004), (1, "offset", 5.01), (None, "note", None)]


def test_a_run_of_before_trials_had_events_is_read_and_continued(store: RunStore) -> None:
    trials = sort_trials(np.random.default_rng(1))[:2]
    store.plan_trials(trial.planned for trial in trials)
    store.event("note", "old")
    store.close()
    old = sqlite3.connect(store.directory / "run.db")
    for column in ("trial", "planned_s", "actual_s"):
        old.execute(f"ALTER TABLE events RENAME COLUMN {column} TO was_{column}")
    old.execute("CREATE TABLE kept AS SELECT event, at, kind, text FROM events")
    old.execute("DROP TABLE events")
    old.execute("ALTER TABLE kept RENAME TO events")
    old.close()
    with RunStore.open(store.directory, read_only=True) as reading:
        assert [event.text for event in reading.events()] == ["old"]
        assert len(reading.trials()) == 2
    with RunStore.open(store.directory) as writing:
        writing.start(1)
        assert trials[0].record is not None
        record = replace(trials[0].record, events=(TrialEvent(1.7e9, "onset", "anomaly.cpu", None, -0.1),))
        writing.finish(record)
        again = writing.trials()[0].record
        assert again is not None
        assert again.events == record.events
        assert [event.text for event in writing.events()] == ["old"]


def test_what_a_trial_is_for_is_kept_and_missing_in_runs_of_before(store: RunStore) -> None:
    trials = sort_trials(np.random.default_rng(1))[:3]
    purposes = (Purpose.INFORMING, None, Purpose.CENTRE)
    planned = [replace(one.planned, purpose=purpose) for one, purpose in zip(trials, purposes, strict=True)]
    store.plan_trials(planned)
    assert [trial.planned for trial in store.trials()] == planned
    store.close()
    old = sqlite3.connect(store.directory / "run.db")
    old.execute("ALTER TABLE trials DROP COLUMN purpose")
    old.close()
    with RunStore.open(store.directory, read_only=True) as reading:
        assert [trial.planned.purpose for trial in reading.trials()] == [None, None, None]
    with RunStore.open(store.directory) as writing:
        writing.add(replace(planned[2], trial=4))
        assert writing.trials()[3].planned.purpose is Purpose.CENTRE


numbers = st.floats(allow_nan=False)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@settings(max_examples=40, deadline=None)
@given(
    level=st.builds(
        LevelRecord,
        variable=names,
        requested=numbers,
        achieved=st.none() | numbers,
        bound_share=numbers,
        uncertainty=numbers,
        verdict=st.sampled_from(LevelVerdict),
        mechanism=names,
        unit=names,
        note=names,
    ),
    record=st.builds(
        TrialRecord,
        trial=st.just(1),
        state=st.sampled_from(sorted(FINISHED)),
        node=names,
        started_at=numbers,
        duration_s=numbers,
        exit_status=st.none() | st.integers(-64, 255),
        measurements=st.dictionaries(names, numbers, max_size=3),
        levels=st.just(()),
        samples=names,
        reasons=st.lists(names, max_size=2).map(tuple),
        stderr_tail=names,
        sandbox=names,
        host=st.dictionaries(names, numbers, max_size=2),
    ),
    assignment=st.lists(st.tuples(names, numbers), max_size=3).map(lambda rows: Assignment(tuple(rows))),
)
def test_any_record_survives(
    tmp_path_factory: pytest.TempPathFactory, level: LevelRecord, record: TrialRecord, assignment: Assignment
) -> None:
    directory = tmp_path_factory.mktemp("any") / "run"
    with RunStore.create(directory, "", "") as store:
        store.add(PlannedTrial(1, 1, assignment))
        store.start(1)
        store.finish(replace(record, levels=(level, level)))
        (stored,) = store.trials()
    shutil.rmtree(directory)
    assert stored.planned.assignment == assignment
    assert stored.record == replace(record, levels=(level, level))


def test_states_are_enforced(store: RunStore) -> None:
    trial = sort_trials(np.random.default_rng(1))[0]
    assert trial.record is not None
    store.add(trial.planned)
    with pytest.raises(IllegalTransition):
        store.finish(trial.record)
    store.start(trial.planned.trial)
    with pytest.raises(IllegalTransition):
        store.start(trial.planned.trial)
    store.finish(trial.record)
    with pytest.raises(IllegalTransition):
        store.finish(trial.record)
    with pytest.raises(KeyError):
        store.start(1234)
    assert store.trials() == (trial,)


def test_a_plan_is_added_whole_or_not_at_all(store: RunStore) -> None:
    planned = [trial.planned for trial in sort_trials(np.random.default_rng(1))[:3]]
    with pytest.raises(InputError):
        store.plan_trials([*planned, planned[0]])
    assert store.trials() == ()


def test_reset_running_puts_only_running_trials_back(store: RunStore) -> None:
    trials = sort_trials(np.random.default_rng(1))[:3]
    store.plan_trials(trial.planned for trial in trials)
    first = finished(trials)[0]
    store.start(1)
    store.finish(replace(first, trial=1))
    store.start(2)
    assert store.reset_running() == 1
    assert [trial.state.value for trial in store.trials()] == ["valid", "planned", "planned"]
    assert store.reset_running() == 0


def test_a_reader_works_beside_the_writer(store: RunStore) -> None:
    trials = sort_trials(np.random.default_rng(1))
    store.plan_trials(trial.planned for trial in trials)
    with RunStore.open(store.directory, read_only=True) as reader:
        assert len(reader.trials()) == len(trials)
        store.start(1)
        assert reader.trials()[0].state is TrialState.RUNNING
        with pytest.raises(CannotExecute):
            reader.start(2)
    assert store.trials()[1].state is TrialState.PLANNED


def test_the_second_writer_is_told_who_holds_the_run(store: RunStore) -> None:
    with pytest.raises(InputError, match=f"process {os.getpid()}") as caught:
        RunStore.open(store.directory)
    assert "kill -INT" in str(caught.value)
    store.close()
    RunStore.open(store.directory).close()


KILLED = """
import os, signal, sys
from pathlib import Path
import numpy as np
from insitu.orchestrator.store import RunStore
from tests.standins import sort_trials
trials = sort_trials(np.random.default_rng(1))
store = RunStore.create(Path(sys.argv[1]), "p", "m")
store.plan_trials(t.planned for t in trials)
for trial in trials[:5]:
    store.start(trial.planned.trial)
    store.finish(trial.record)
store.start(6)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_loses_nothing_and_frees_the_run(tmp_path: Path) -> None:
    directory = tmp_path / "run"
    done = subprocess.run([sys.executable, "-c", KILLED, str(directory)], check=False)
    assert done.returncode == -signal.SIGKILL
    trials = sort_trials(np.random.default_rng(1))
    with RunStore.open(directory) as store:
        assert store.reset_running() == 1
        assert store.trials()[:5] == trials[:5]
        assert {trial.state for trial in store.trials()[5:]} == {TrialState.PLANNED}


def test_a_full_disk_says_so_and_keeps_the_trial_running(store: RunStore) -> None:
    trial = sort_trials(np.random.default_rng(1))[0]
    assert trial.record is not None
    store.add(trial.planned)
    store.start(trial.planned.trial)
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count={pages}")
    with pytest.raises(CannotExecute, match="no space left") as caught:
        store.finish(replace(trial.record, stderr_tail="x" * 100_000))
    assert "insitu resume" in str(caught.value)
    assert store.trials()[0].state is TrialState.RUNNING
    store._connection.execute("PRAGMA max_page_count=100000")
    store.finish(trial.record)
    assert store.trials() == (trial,)


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize("room", [0, 8, 4096, 16_384])
def test_a_run_that_does_not_fit_leaves_nothing(tmp_path: Path, room: int, existing: bool) -> None:
    directory = tmp_path / "deep" / "run"
    if existing:
        directory.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        with pytest.raises(CannotExecute, match=r"no space left|disk I/O error"):
            RunStore.create(directory, "p", "a model of more bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert sorted(tmp_path.rglob("*")) == before
    with RunStore.create(directory, "p", "m") as store:
        assert store.trials() == ()


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a read-only file system needs root")
@pytest.mark.parametrize("clean", [True, False], ids=["closed", "with a log left behind"])
def test_reading_on_a_read_only_file_system(tmp_path: Path, clean: bool) -> None:
    trials = sort_trials(np.random.default_rng(1))
    store = RunStore.create(tmp_path / "a" / "run", "p", "m")
    store.plan_trials(trial.planned for trial in trials)
    source = store.directory
    if clean:
        store.close()
    else:  # as a crash leaves it: a log that was never folded in, and no index
        source = tmp_path / "b" / "run"
        shutil.copytree(store.directory, source, ignore=shutil.ignore_patterns("*-shm"))
        assert (source / "run.db-wal").stat().st_size > 0
    script = (
        "import sys; from pathlib import Path; from insitu.orchestrator.store import RunStore\n"
        "with RunStore.open(Path(sys.argv[1]), read_only=True) as store: print(len(store.trials()))"
    )
    mount = (
        'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1" && ! touch "$1/x" 2>/dev/null'
        ' && exec "$2" -c "$3" "$1"'
    )
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", mount, "sh", str(source), sys.executable, script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout.strip(), done.stderr) == (str(len(trials)), "")


def test_a_newer_run_is_refused_with_both_versions(store: RunStore) -> None:
    store.set_meta("schema_version", 999)
    store.set_meta("insitu_version", "9.8.7")
    store.close()
    for read_only in (True, False):
        with pytest.raises(InputError, match=r"made by a newer insitu \(9\.8\.7\)") as caught:
            RunStore.open(store.directory, read_only=read_only)
        assert "with the version that made it" in str(caught.value)
        assert "0.1.0" in str(caught.value)


def test_what_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a run directory"):
        RunStore.open(tmp_path)
    with pytest.raises(InputError, match="not a run directory"):
        RunStore.open(tmp_path / "absent", read_only=True)
    (tmp_path / "run.db").write_bytes(b"")
    with pytest.raises(InputError, match="interrupted before it began"):
        RunStore.open(tmp_path, read_only=True)
    sqlite3.connect(tmp_path / "run.db").execute("CREATE TABLE t (x)").connection.close()
    with pytest.raises(InputError, match="damaged or not made by insitu"):
        RunStore.open(tmp_path)


@pytest.mark.parametrize("read_only", [True, False])
def test_damage_is_named(store: RunStore, read_only: bool) -> None:
    store.plan_trials(trial.planned for trial in sort_trials(np.random.default_rng(1), replicates=20))
    store.close()
    path = store.directory / "run.db"
    sound = path.read_bytes()
    for damaged in (b"not a database" * 100, sound[:4096], sound[:8192] + b"\xff" * (len(sound) - 8192)):
        path.write_bytes(damaged)
        with pytest.raises(InputError, match=r"run\.db is damaged"):
            RunStore.open(store.directory, read_only=read_only).trials()
    path.write_bytes(sound)
    RunStore.open(store.directory, read_only=read_only).close()


def test_a_row_that_does_not_read_is_damage(store: RunStore) -> None:
    store.add(PlannedTrial(1, 1, Assignment(())))
    store._connection.execute("UPDATE trials SET state = 'asleep'")
    with pytest.raises(InputError, match="does not read"):
        store.trials()


def test_create_refuses_what_is_in_use(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for directory in (tmp_path, tmp_path / "file"):
        with pytest.raises(InputError, match="not an empty directory"):
            RunStore.create(directory, "", "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file"]


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero"), Path.mkdir])
@pytest.mark.parametrize("name", ["plan.yaml", "model.yaml", "priors/runtime.json"])
def test_what_is_no_file_is_neither_waited_for_nor_read(
    store: RunStore, name: str, make: Callable[[Path], None]
) -> None:
    path = store.directory / name
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    make(path)
    with pytest.raises(InputError, match="cannot read"):
        _ = store.plan_source, store.model_source, store.priors


@pytest.mark.parametrize("run", ["../../../x", "", 7, None])
def test_a_run_without_a_sound_id_is_damage(store: RunStore, run: Json) -> None:
    store.set_meta("run_id", run)
    with pytest.raises(InputError, match="run_id"):
        _ = store.run_id


def test_samples_stay_inside_the_run(store: RunStore) -> None:
    record = finished(sort_trials(np.random.default_rng(1)))[0]
    assert store.samples_path(record) is None
    inside = store.samples_path(replace(record, samples="samples/1.parquet"))
    assert inside == store.directory / "samples" / "1.parquet"
    with pytest.raises(InputError):
        store.samples_path(replace(record, samples="../../etc/passwd"))


def test_the_file_is_plain_json_inside(store: RunStore) -> None:
    store.set_meta("limits", {"cap": math.inf, "none": None})
    rows = store._connection.execute("SELECT value FROM meta").fetchall()

    def reject(token: str) -> float:
        raise AssertionError(f"{token} is not JSON")

    facts = [json.loads(fact, parse_constant=reject) for (fact,) in rows]
    assert {"cap": "inf", "none": None} in facts
