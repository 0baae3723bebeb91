"""Sound files, and files that are not there."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest
import yaml

from insitu.orchestrator.errors import FaultyFile, InputError
from insitu.orchestrator.plan.goals import EffectGoal
from insitu.orchestrator.plan.json_schema import model_schema, plan_schema
from insitu.orchestrator.plan.loading import load_model, load_plan, load_plan_text
from insitu.orchestrator.plan.types import Budget, DesignSpec, Factor, Guards, Plan, Role
from tests.plan.texts import MODEL, PLAN, SETTABLE, changed

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "plan.yaml").write_text(PLAN)
    (tmp_path / "model.yaml").write_text(MODEL)
    return tmp_path


def load(folder: Path, plan: str = PLAN, model: str = MODEL) -> Plan:
    (folder / "plan.yaml").write_text(plan)
    (folder / "model.yaml").write_text(model)
    return load_plan(folder / "plan.yaml", settable=SETTABLE)


def test_a_plan_comes_out_in_base_units(folder: Path) -> None:
    plan = load(folder)
    assert plan.factors == (
        Factor("cpu_cores", (0.5, 0.9, math.inf)),
        Factor("disk_read_rate", (1e7, 4e7)),
        Factor("input_size", (4e6, 8e6)),
    )
    assert plan.goal == EffectGoal(cause="cpu_cores", outcome="runtime", confidence=0.9)
    assert plan.design == DesignSpec("factorial", replicates=3, baseline_replicates=1, seed=7)
    assert plan.budget == Budget(trials=40, time_s=180.0)
    assert plan.guards == replace(Guards(), trial_timeout_s=30.0)
    assert plan.subject.prepare == ("head", "-c", "{input_size}", "{data}/text")
    assert plan.subject.data == (("text", ("{python}", "-m", "this")),)
    assert (plan.plan_source, plan.model_source) == (PLAN, MODEL)


def test_a_model_keeps_where_its_laws_stand(folder: Path) -> None:
    model = load_model(folder / "model.yaml", settable=SETTABLE)
    assert {name: (v.role, v.source) for name, v in model.variables.items()} == {
        "input_size": (Role.PARAMETER, None),
        "disk_read_rate": (Role.SET, "disk.read_rate"),
        "cpu_cores": (Role.SET, "cpu.cores"),
        "runtime": (Role.MEASURED, "wall_time"),
    }
    (law,) = model.laws
    assert (law.line, law.column, law.text[:5]) == (7, 12, "c + a")


@pytest.mark.parametrize(
    ("written", "line", "column"),
    [
        ('"c + a * input_size"', 7, 13),
        ("'c + a * input_size'", 7, 13),
        (">\n    c + a * input_size", 8, 5),
        ("|  # why\n\n      c + a * input_size", 9, 7),
        ("&law c + a * input_size", 7, 17),
        ("\n      c + a * input_size", 8, 7),
    ],
)
def test_a_law_starts_where_its_text_does(folder: Path, written: str, line: int, column: int) -> None:
    text = changed(MODEL, "c + a * input_size / disk_read_rate + b * input_size / cpu_cores", written)
    (folder / "model.yaml").write_text(text)
    (law,) = load_model(folder / "model.yaml", settable=SETTABLE).laws
    assert (law.text, law.line, law.column) == ("c + a * input_size", line, column)


@pytest.mark.parametrize(("written", "share"), [("15 %", 0.15), ("0.15", 0.15), ("2", 2.0)])
def test_how_slow_the_processors_may_be(folder: Path, written: str, share: float) -> None:
    assert load(folder).tolerated_slowdown == math.inf
    assert load(folder, f"tolerated_slowdown: {written}\n{PLAN}").tolerated_slowdown == pytest.approx(share)


@pytest.mark.parametrize(
    ("written", "problem"),
    [("0", "'0' is not above zero"), ("10 s", "10 s"), ("-3 %", "'-3 %' is not above zero")],
)
def test_a_slowdown_that_is_none(folder: Path, written: str, problem: str) -> None:
    with pytest.raises(FaultyFile, match=problem):
        load(folder, f"tolerated_slowdown: {written}\n{PLAN}")


def test_arguments_stay_as_written(folder: Path) -> None:
    plan = load(folder, changed(PLAN, "[sort, -o, ", "[sort, 010, 1.10, no, 1:30, 2026-01-02, 0x1F, 'null', "))
    assert plan.subject.command[1:8] == ("010", "1.10", "no", "1:30", "2026-01-02", "0x1F", "null")


def test_a_parameter_may_be_used_in_the_environment_alone(folder: Path) -> None:
    text = changed(PLAN, '  prepare: [head, -c, "{input_size}"', '  prepare: [head, -c, "4000000"')
    plan = load(folder, changed(text, "  data:\n", '  environment: {SIZE: "n={input_size}"}\n  data:\n'))
    assert plan.subject.environment == (("SIZE", "n={input_size}"),)


def test_a_file_from_windows(folder: Path) -> None:
    (folder / "plan.yaml").write_bytes(b"\xef\xbb\xbf" + PLAN.replace("\n", "\r\n").encode())
    assert load_plan(folder / "plan.yaml", settable=SETTABLE).factors == load(folder).factors


@pytest.mark.parametrize(
    ("factor", "levels"),
    [
        ("{range: [0.2, 1.0], scale: log}", (0.2, math.sqrt(0.2), 1.0)),
        ("{range: [0.2 core, 1.0 core], points: 5}", (0.2, 0.4, 0.6, 0.8, 1.0)),
        ("{range: [50 %, 1]}", None),
    ],
)
def test_a_range_spreads_into_levels(folder: Path, factor: str, levels: tuple[float, ...] | None) -> None:
    plan = changed(PLAN, "{levels: [0.5, 0.9, unlimited]}", factor)
    if levels is None:
        with pytest.raises(FaultyFile, match="'50 %' has no unit"):
            load(folder, plan)
    else:
        assert load(folder, plan).factors[0].levels == pytest.approx(levels)


def test_a_range_of_bytes_has_whole_levels(folder: Path) -> None:
    plan = load(folder, changed(PLAN, "{levels: [4 MB, 8 MB]}", "{range: [1 B, 100 B], scale: log, points: 4}"))
    assert plan.factors[2].levels == (1.0, 5.0, 22.0, 100.0)


def test_a_run_directory_is_loaded_from_its_texts() -> None:
    plan = load_plan_text(
        changed(PLAN, "model: model.yaml", "model: ../gone/model.yaml"),
        MODEL,
        plan_path=Path("run/plan.yaml"),
        model_path=Path("run/model.yaml"),
        settable=SETTABLE,
    )
    assert plan.model.path == Path("run/model.yaml")
    assert [factor.variable for factor in plan.factors] == ["cpu_cores", "disk_read_rate", "input_size"]


def test_faults_in_texts_name_the_paths_given() -> None:
    with pytest.raises(FaultyFile) as caught:
        load_plan_text(
            changed(PLAN, "seed", "sed"),
            changed(MODEL, "wall_time", "wal_time"),
            plan_path=Path("run/p"),
            model_path=Path("run/m"),
            settable=SETTABLE,
        )
    assert [str(fault).split(" ")[0] for fault in caught.value.faults] == ["run/m:5:35:", "run/p:13:42:"]


def test_a_missing_plan_names_its_neighbour(folder: Path) -> None:
    with pytest.raises(InputError) as caught:
        load_plan(folder / "plam.yaml", settable=SETTABLE)
    assert "there is no plan file" in caught.value.message
    assert caught.value.hint == f"did you mean {folder / 'plan.yaml'}?"
    assert caught.value.exit_code == 2


def test_a_folder_is_not_a_plan(folder: Path) -> None:
    with pytest.raises(InputError, match="is a directory") as caught:
        load_plan(folder, settable=SETTABLE)
    assert caught.value.hint == f"name a file in it, such as {folder / 'model.yaml'}"


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "plan.yaml")
    with pytest.raises(InputError, match="not a regular file"):
        load_plan(tmp_path / "plan.yaml", settable=SETTABLE)


def test_a_path_through_a_file_or_with_a_nul(folder: Path) -> None:
    for path in (folder / "plan.yaml" / "plan.yaml", Path("a\0b")):
        with pytest.raises(InputError, match="plan file"):
            load_plan(path, settable=SETTABLE)


def test_text_that_is_not_utf8_is_located(folder: Path) -> None:
    (folder / "plan.yaml").write_bytes(b"name: a\nsubject: \xff\n")
    with pytest.raises(FaultyFile) as caught:
        load_plan(folder / "plan.yaml", settable=SETTABLE)
    (fault,) = caught.value.faults
    assert (fault.line, fault.column, fault.message) == (2, 10, "not UTF-8 text")


def test_a_large_file_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_bytes(b"#" * 300_000)
    with pytest.raises(InputError, match="larger than 256 KiB"):
        load_plan(tmp_path / "plan.yaml", settable=SETTABLE)


@pytest.mark.parametrize(("name", "schema"), [("plan", plan_schema), ("model", model_schema)])
def test_the_committed_schema_is_current(name: str, schema: object) -> None:
    assert callable(schema)
    committed = json.loads((ROOT / "configs" / "schema" / f"{name}.schema.json").read_text())
    assert committed == schema()
    assert "$id" not in committed
    jsonschema.Draft202012Validator.check_schema(committed)


def test_the_schema_agrees_with_the_loader_on_shipped_files() -> None:
    plan = yaml.safe_load((ROOT / "configs/quickstart.yaml").read_text())
    model = yaml.safe_load((ROOT / "configs/models/read-compute.yaml").read_text())
    assert list(jsonschema.Draft202012Validator(plan_schema()).iter_errors(plan)) == []
    assert list(jsonschema.Draft202012Validator(model_schema()).iter_errors(model)) == []
    assert load_plan(ROOT / "configs/quickstart.yaml", settable=SETTABLE).name == plan["name"]


@pytest.mark.parametrize(
    ("schema", "text", "old", "new"),
    [
        ("plan", PLAN, "seed", "sed"),
        ("plan", PLAN, "levels: [4 MB, 8 MB]", "points: 3"),
        ("plan", PLAN, "name: sort-under-throttle\n", ""),
        ("plan", PLAN, "levels: [4 MB, 8 MB]", "levels: [1], range: [1, 2]"),
        ("model", MODEL, "measured_by: wall_time", "unit: s"),
        ("model", MODEL, "role: parameter", "role: parameter, set_by: cpu.cores"),
    ],
)
def test_the_schema_refuses_what_the_loader_refuses(schema: str, text: str, old: str, new: str) -> None:
    document = yaml.safe_load(changed(text, old, new))
    wanted = plan_schema() if schema == "plan" else model_schema()
    assert jsonschema.Draft202012Validator(wanted).is_valid(yaml.safe_load(text))
    assert not jsonschema.Draft202012Validator(wanted).is_valid(document)


def test_every_key_of_the_schema_is_described() -> None:
    for schema in (plan_schema(), model_schema()):
        for owner in (schema, *schema["$defs"].values()):
            assert all(one.get("description") for one in owner["properties"].values()), owner["title"]


def test_the_types_import_nothing_heavy() -> None:
    program = (
        "import sys, insitu.orchestrator.plan.types, insitu.orchestrator.units, insitu.orchestrator.errors\n"
        "print([m for m in ('pydantic', 'yaml', 'lark', 'pint', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "[]"
