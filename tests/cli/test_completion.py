"""What a shell is told when the key is pressed, asked as it asks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.estimation.chains import chain_trials
from tests.made_runs import make_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("completion")
    trials = chain_trials(np.random.default_rng(9), 12)
    make_run(where / "runs/first", trials)
    make_run(where / "alone", trials[:2])
    (where / "notes").mkdir()
    return where


def completed(folder: Path, *words: str) -> list[str]:
    """As the completion script of bash asks."""
    environment = {
        **os.environ,
        "_INSITU_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(("insitu", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(
        [sys.executable, "-c", "from insitu.orchestrator.cli import main; main()"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [line for line in done.stdout.splitlines() if line]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("show", ""), ["alone", "runs/first"]),
        (("show", "ru"), ["runs/first"]),
        (("show", "runs/"), ["runs/first"]),
        (("show", "alone", "--compare", "r"), ["runs/first"]),
        (("whatif", "runs/first", "--do", ""), ["size=", "rate=", "cores=", "work=", "runtime="]),
        (("whatif", "runs/first", "--ask", ""), ["work", "runtime"]),
        (("effect", "runs/first", "c"), ["cores"]),
        (("effect", "runs/first", "cores", "r"), ["runtime"]),
        (("counterfactual", "alone", "--trial", ""), ["1", "2"]),
        (("whatif", "runs/first", "--do", "rate="), ["rate=10 MB/s", "rate=20 MB/s"]),
        (("whatif", "notes", "--do", ""), []),
        (("whatif", "nowhere", "--do", "c"), []),
    ],
)
def test_runs_variables_and_trials(folder: Path, words: tuple[str, ...], found: list[str]) -> None:
    assert completed(folder, *words) == found


def test_a_damaged_run_completes_nothing(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/run.db").write_bytes(b"not a database")
    assert completed(tmp_path, "show", "") == ["broken"]
    assert completed(tmp_path, "whatif", "broken", "--do", "") == []
