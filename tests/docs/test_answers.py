"""The page on answers has the rules of the code, and the page on Python runs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from insitu.orchestrator.estimation.questions.fidelity import Grade
from insitu.orchestrator.estimation.suspects.blame import TABLE, Cause
from insitu.orchestrator.estimation.suspects.symptoms import Symptom
from tests.made_runs import make_run
from tests.standins import sort_trials

ROOT = Path(__file__).parents[2]
ANSWERS = (ROOT / "docs/explanation/answers.md").read_text()
PYTHON = (ROOT / "docs/reference/python.md").read_text()

SORT_MODEL = """\
variables:
  input_size:     {unit: B, role: parameter}
  disk_read_rate: {unit: B/s, set_by: disk.read_rate}
  cpu_cores:      {unit: core, set_by: cpu.cores}
  runtime:        {unit: s, measured_by: wall_time}
laws:
  runtime: c + a * input_size / disk_read_rate + b * input_size / cpu_cores
"""
SORT_PLAN = """\
name: sort
subject: {command: ["true", "{input_size}"]}
model: model.yaml
factors:
  cpu_cores:      {levels: [0.3, 0.5, 0.9]}
  disk_read_rate: {levels: [6 MB/s, 20 MB/s]}
  input_size:     {levels: [4 MB, 8 MB]}
goal: {effect: cpu_cores -> runtime, confidence: 0.95}
design: {kind: factorial}
"""


def test_the_page_has_the_table_of_causes_and_symptoms() -> None:
    for cause in Cause:
        row = re.search(rf"^\| `{re.escape(cause)}` \| (.*) \|$", ANSWERS, re.MULTILINE)
        assert row, cause
        told = {name: float(chance) for name, chance in re.findall(r"`(\w+)` ([\d.]+)", row[1])}
        assert told == {symptom.value: chance for symptom, chance in TABLE[cause].items()}


def test_the_page_names_every_symptom_and_grade() -> None:
    assert [word for word in (*Symptom, *Grade) if f"`{word}`" not in ANSWERS] == []


def test_the_page_on_python_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, seed in (("sort", 1), ("sort-later", 2)):
        make_run(tmp_path / "runs" / name, sort_trials(np.random.default_rng(seed)), SORT_PLAN, SORT_MODEL)
    code = re.findall(r"^```python\n(.*?)^```$", PYTHON, re.MULTILINE | re.DOTALL)
    assert len(code) >= 4
    namespace: dict[str, object] = {}
    for block in code:
        exec(compile(block, "python.md", "exec"), namespace)  # the page is ours
    shown = capsys.readouterr().out
    assert "Run runs/sort: chain" in shown
    assert "input_size = 60 MB is outside the trials" in shown
