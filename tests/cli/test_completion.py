"""What a shell is told when the key is pressed, asked as it asks."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import sys
import time
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
        (("whatif", "runs/first", "--do", "rate="), ["rate=10MB/s", "rate=20MB/s"]),
        (("whatif", "runs/first", "--do", "rate=2"), ["rate=20MB/s"]),
        (("effect", "runs/first", "rate", "--from", ""), ["10MB/s", "20MB/s"]),
        (("effect", "runs/first", "rate", "runtime", "--from", "10MB/s", "--to", "2"), ["20MB/s"]),
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


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("insitu whatif runs/first --do rate=\t", "10MB/s"),
        ("insitu whatif runs/first --do rate=2", "insitu whatif runs/first --do rate=20MB/s "),
        ("insitu whatif runs/first --do size=1000 --do rate=1", "rate=10MB/s "),
        ("insitu effect runs/first rate --at size=24MB --to 1", "--to 10MB/s "),
        ("insitu whatif runs/fi", "insitu whatif runs/first "),
    ],
)
def test_a_real_bash_completes_levels(folder: Path, tmp_path: Path, typed: str, shown: str) -> None:
    (tmp_path / "insitu").write_text(f'#!/bin/sh\nexec {sys.executable} -m insitu "$@"\n')
    (tmp_path / "insitu").chmod(0o755)
    own = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PS1": "", "TERM": "dumb", "HISTFILE": ""}
    environment = {**os.environ, **own}
    script = subprocess.run(
        [sys.executable, "-m", "insitu", "--show-completion", "bash"],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"},
    ).stdout
    (tmp_path / "rc").write_text(f"{script}\nbind 'set enable-bracketed-paste off'\n")
    bash = ["bash", "--rcfile", str(tmp_path / "rc"), "-i"]
    assert shown in _on_a_terminal(bash, folder, environment, f"{typed}\t", shown)


def _on_a_terminal(command: list[str], folder: Path, environment: dict[str, str], keys: str, until: str) -> str:
    """What is seen on a terminal after keys were pressed."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, environment)
    try:
        time.sleep(1.0)
        os.write(terminal, keys.encode())
        seen, deadline = b"", time.monotonic() + 20.0
        while (left := deadline - time.monotonic()) > 0 and until.encode() not in seen:
            if select.select([terminal], [], [], left)[0]:
                seen += os.read(terminal, 4096)
        return seen.decode(errors="replace")
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
