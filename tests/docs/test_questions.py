"""The commands of the tutorial and of the how-to pages, on runs of the tutorial's plan on a simulated subject."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from experiments.simulated import SimulatedNode
from insitu.orchestrator.cli.app import app
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.execution.orders import TrialOrder, TrialOutcome
from insitu.orchestrator.store.records import LevelVerdict
from tests import simulated_runs

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["tutorial", "how-to/state-a-goal", "how-to/what-if", "how-to/slow-trial", "how-to/compare-runs"]
QUESTIONS = ("whatif", "effect", "elasticity", "counterfactual", "explain", "show", "report")
RUNS = {"runs/ask": 0.0345e-6, "runs/best": 0.06e-6}
"""Those that the pages ask, with the core seconds per byte of their subjects."""


def text_of(page: str) -> str:
    return (DOCS / f"{page}.md").read_text()


def file_of(name: str) -> str:
    found = re.search(rf"^```yaml\n# file: {re.escape(name)}\n(.*?)^```$", text_of("tutorial"), re.M | re.S)
    assert found, name
    return found[1]


def gzip(levels: Mapping[str, float], rng: np.random.Generator, core_s_per_byte: float) -> dict[str, float]:
    wall_s = 0.01 + core_s_per_byte * levels["input_size"] / min(levels["cpu_cores"], 1.0)
    return {"wall_time": wall_s * rng.normal(1, 0.02)}


class OneCore(SimulatedNode):
    """Its subject uses one core where nothing holds it down."""

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        outcome = super().run_trial(order)
        levels = (
            replace(one, achieved=1.0) if one.verdict is LevelVerdict.UNSET else one
            for one in outcome.record.levels
        )
        return replace(outcome, record=replace(outcome.record, levels=tuple(levels)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("asked")
    plan = file_of("ask.yaml").replace("models/compute.yaml", "model.yaml")
    for run, cost in RUNS.items():
        truth = partial(gzip, core_s_per_byte=cost)
        executed = simulated_runs.execute(
            where / "work" / run, plan, file_of("models/compute.yaml"), truth, OneCore
        )
        (where / run).parent.mkdir(exist_ok=True)
        executed.rename(where / run)
    return where


def asked() -> list[tuple[str, str]]:
    """Each command that asks one of the runs, with the first line that its page shows."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```console\n(.*?)^```$", text_of(page), re.M | re.S):
            for command, shown in re.findall(r"^\$ insitu (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
                if command.split()[0] in QUESTIONS and any(run in command for run in RUNS):
                    found.append((command, shown.partition("\n")[0]))
    return found


def test_the_pages_ask_with_every_command() -> None:
    assert {command.split()[0] for command, _ in asked()} == set(QUESTIONS)


@pytest.mark.parametrize(("command", "shown"), asked(), ids=lambda text: text[:40])
def test_a_command_of_the_pages_answers(
    folder: Path, monkeypatch: pytest.MonkeyPatch, command: str, shown: str
) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, shlex.split(command))
    if shown.startswith("error: "):
        assert isinstance(result.exception, InputError)
        assert words(str(result.exception)) == words(shown.removeprefix("error: "))
        return
    assert result.exit_code == 0, result.exception
    first = next(line for line in result.stdout.splitlines() if line.strip())
    assert words(first) == words(shown)


def words(line: str) -> list[str]:
    """The words of a sentence up to its first number, which other runs have otherwise."""
    return re.split(r"\d", line.partition("\n")[0])[0].split()
