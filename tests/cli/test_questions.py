"""The commands that put questions to a run: their texts, their JSON, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from insitu.orchestrator.cli.app import app
from insitu.orchestrator.errors import InputError, OutsideSupport
from tests.estimation.chains import chain_trials, runtime_of
from tests.made_runs import make_run

SLOW = 17


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    trials = list(chain_trials(np.random.default_rng(9), 60, extra={SLOW: 1.0}))
    slow = trials[SLOW - 1]
    assert slow.record is not None
    for index, trial in enumerate(trials):
        assert trial.record is not None
        extra = 1.0 if trial is slow else 0.0
        wall_s = trial.record.measurements["wall_time"]
        trials[index] = replace(
            trial,
            record=replace(
                trial.record,
                measurements={
                    **trial.record.measurements,
                    "cpu_pressure": (0.001 + extra) / wall_s,
                    "io_pressure": 0.01,
                    "memory_pressure": 0.0,
                },
                host={
                    "other_cores": 0.05 + 1.5 * extra,
                    "steal_cores": 0.0,
                    "other_disk_bytes": 0.0,
                    "kernel_cores": 0.1,
                    "network_bytes": 4e3,
                    "held_bytes": 1e9,
                },
            ),
        )
    return make_run(tmp_path_factory.mktemp("cli") / "run", trials)


def insitu(*arguments: str | Path) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def document(*arguments: str | Path) -> dict[str, Any]:
    def reject(token: str) -> float:
        raise AssertionError(f"{token} is not JSON")

    found: dict[str, Any] = json.loads(insitu(*arguments, "--json"), parse_constant=reject)
    return found


def test_whatif(run: Path) -> None:
    text = insitu("whatif", run, "--do", "size=12 MB", "--do", "cores=0.5", "--do", "rate=15 MB/s")
    first, *rest = text.splitlines()
    assert first.startswith("runtime = ")
    assert "at size = 12 MB, rate = 15 MB/s and cores = 0.5 core (95 % prediction interval of one trial)" in first
    assert any(line.startswith("  on the way: work = ") for line in rest)
    assert any("fidelity fair: inside the support, 0 trials at such levels" in line for line in rest)
    found = document("whatif", run, "--do", "size=12e6", "--do", "cores=0.5", "--do", "rate=1.5e7")
    assert found["mean_low"] < runtime_of(12e6, 1.5e7, 0.5) < found["mean_high"]
    assert found["levels"] == {"size": 12e6, "rate": 1.5e7, "cores": 0.5}
    assert found["fidelity"]["grade"] == "fair"
    assert {one["law"] for one in found["fidelity"]["past"]} == {"work", "runtime"}


def test_whatif_asks_for_quantiles_and_draws(run: Path) -> None:
    text = insitu("whatif", run, "--ask", "work", "--do", "size=8MB", "--quantile", "0.95", "--quantile", "0.5")
    assert "  95 % of trials below " in text
    assert "  50 % of trials below " in text
    found = document("whatif", run, "--do", "cores=0.6", "--draws", "5000")
    assert found["draws"] >= 5000
    assert [one["share"] for one in found["quantiles"]] == [0.05, 0.25, 0.5, 0.75, 0.95]
    again = document("whatif", run, "--do", "cores=0.6", "--draws", "5000")
    assert again == found


def test_effect(run: Path) -> None:
    text = insitu("effect", run, "size", "runtime", "--from", "8 MB", "--to", "16 MB", "--at", "cores=0.6")
    assert text.startswith("Taking size from 8 MB to 16 MB adds ")
    assert "by way of work, too" in text
    found = document("effect", run, "cores", "--at", "size=8MB", "--at", "rate=20MB/s")
    assert (found["cause"], found["outcome"]) == ("cores", "runtime")
    assert (found["low"], found["high"]) == (0.3, 0.9)
    truth = runtime_of(8e6, 2e7, 0.9) - runtime_of(8e6, 2e7, 0.3)
    assert found["change_low"] < truth < found["change_high"]


def test_elasticity(run: Path) -> None:
    text = insitu("elasticity", run, "size", "work", "--at", "size=12MB")
    assert text.startswith("1 % more size than 12 MB changes work by 0.9")
    assert document("elasticity", run, "size", "--at", "cores=0.6")["outcome"] == "runtime"


def test_counterfactual(run: Path) -> None:
    text = insitu("counterfactual", run, "--trial", str(SLOW), "--do", "cores=0.9")
    assert text.startswith(f"Trial {SLOW} would have had runtime = ")
    found = document("counterfactual", run, "--trial", str(SLOW), "--do", "cores=unlimited")
    assert found["changed"] == {"cores": 0.95}
    assert found["value"] > runtime_of(16e6, 1e7, 0.95) + 0.5 or found["observed"] > 1.0


def test_explain_names_the_suspect_first_and_adds_up(run: Path) -> None:
    lines = insitu("explain", run, "--trial", str(SLOW)).splitlines()
    assert lines[0].startswith(f"Trial {SLOW} had runtime = ")
    suspects = [line for line in lines if line.startswith("  suspected: ")]
    assert suspects[0].startswith("  suspected: anomaly.cpu (others computing), probability 9")
    assert lines.index(suspects[0]) < lines.index("  what adds up to the difference:")
    assert any("unexplained" in line for line in lines)
    found = document("explain", run, "--trial", str(SLOW))
    total = sum(one["amount"] for one in found["contributions"])
    assert total == pytest.approx(found["observed"] - found["expected"], abs=1e-9)
    assert found["suspects"][0]["cause"] == "anomaly.cpu"
    assert {one["name"] for one in found["odd"]} >= {"cpu_stall", "host.other_cores"}


def test_explain_against_other_levels(run: Path) -> None:
    found = document(
        "explain", run, "--trial", "6", "--against", "cores=0.3", "--against", "size=16MB", "--ask", "runtime"
    )
    assert found["baseline"]["cores"] == 0.3
    assert found["difference"] < 0
    assert " less than the baseline" in insitu("explain", run, "--trial", "6", "--against", "cores=0.3")


def test_comparing_two_runs(run: Path, tmp_path: Path) -> None:
    slower = []
    for trial in chain_trials(np.random.default_rng(10), 60):
        assert trial.record is not None
        measured = dict(trial.record.measurements)
        measured["wall_time"] += 0.3
        slower.append(replace(trial, record=replace(trial.record, measurements=measured)))
    other = make_run(tmp_path / "other", slower)
    text = insitu("show", run, "--compare", other)
    assert "runtime has changed (p < 0.0001)" in text
    assert "work has not changed by more than noise" in text
    found = document("show", run, "--compare", other)
    changed = {law["outcome"]: law for law in found["laws"]}
    assert changed["runtime"]["significant"]
    assert changed["runtime"]["low"] < 0.3 < changed["runtime"]["high"]
    assert not changed["work"]["significant"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["whatif", "--do", "cores"], "--do takes VARIABLE=LEVEL, not 'cores'"),
        (["whatif", "--do", "cores="], "--do takes VARIABLE=LEVEL"),
        (["whatif", "--do", "cores=0.3", "--do", "cores=0.6"], "--do gives cores two levels"),
        (["whatif", "--do", "cors=0.3"], "the model has no variable 'cors'"),
        (["whatif", "--do", "cores=0.4 s"], "cores: '0.4 s' is s, not core"),
        (["whatif", "--do", "cores=0.6", "--ask", "rate"], "the model has no law for 'rate'"),
        (["whatif", "--do", "cores=0.6", "--quantile", "95"], "a quantile of 95 is not between 0 and 1"),
        (["whatif", "--do", "cores=0.6", "--draws", "7"], "7 draws are too few"),
        (["effect", "runtime", "runtime"], "runtime is both cause and outcome"),
        (["effect", "size", "runtime", "--at", "size=8MB"], "size is the cause"),
        (["elasticity", "cores", "work"], "in the model, cores has no effect on work"),
        (["counterfactual", "--trial", "99", "--do", "cores=0.6"], "there is no trial 99"),
        (["explain", "--trial", "99"], "there is no trial 99"),
    ],
)
def test_mistakes_are_told_in_a_sentence(run: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        insitu(arguments[0], run, *arguments[1:])
    assert message in caught.value.message


def test_outside_the_support_is_refused_or_marked(run: Path) -> None:
    with pytest.raises(OutsideSupport, match="size = 40 MB is outside the trials"):
        insitu("whatif", run, "--do", "size=40MB")
    text = insitu("whatif", run, "--do", "size=40MB", "--extrapolate")
    assert "  EXTRAPOLATED: size = 40 MB is outside the trials, which have 8 MB to 16 MB" in text
    assert "fidelity poor: outside the support" in text


def test_unknown_numbers_are_null_and_infinity_is_text(run: Path) -> None:
    """Through two laws there is no one leverage; a cap that is not set is unlimited."""
    assert document("whatif", run, "--do", "size=12e6")["leverage"] is None
    shown = document("show", run)
    assert shown["goal"]["low"] is None
    assert any(trial["assignment"]["cores"] == "inf" for trial in shown["trials"])
    assert '"nan"' not in json.dumps(shown)


def test_show_says_where_the_other_laws_are(run: Path) -> None:
    assert "the law of work: see the report, or fitted.json" in insitu("show", run)


def test_a_report_needs_a_file(run: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["report", str(run), "--out", str(tmp_path)])
    assert isinstance(done.exception, InputError)
    assert str(done.exception).startswith(f"{tmp_path} is a folder\n  hint: name a file")
    done = CliRunner().invoke(app, ["report", str(run), "--out", str(tmp_path / "none/page.html")])
    assert str(done.exception).startswith(f"there is no folder {tmp_path / 'none'}")
    assert list(tmp_path.iterdir()) == []
    insitu("report", run, "--out", tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size > 1000


@pytest.mark.parametrize("command", ["whatif", "effect", "elasticity", "counterfactual", "explain", "show"])
def test_help_has_an_example_or_says_what_it_shows(command: str) -> None:
    text = insitu(command, "--help")
    assert command == "show" or f"For example: insitu {command} runs/sort" in " ".join(text.split())


def test_an_error_is_two_lines_on_stderr_and_exit_code_2(run: Path) -> None:
    command = [sys.executable, "-m", "insitu", "whatif", str(run), "--do", "size=40MB"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    first, second = done.stderr.splitlines()
    assert first.startswith("error: size = 40 MB is outside the trials")
    assert (
        second == "  hint: ask within that range, or extrapolate with --extrapolate (in Python: extrapolate=True)"
    )
