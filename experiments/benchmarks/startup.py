"""How long ``insitu --help`` takes, beside ``python -c pass`` and the same help by BenchExec."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path


def main(rounds: int = 15) -> None:
    """Print the medians over interleaved rounds."""
    ways = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "insitu --help": [sys.executable, "-m", "insitu", "--help"],
    }
    runexec = Path(sys.executable).with_name("runexec")
    if runexec.exists() or shutil.which("runexec"):
        ways["runexec --help"] = [str(runexec) if runexec.exists() else "runexec", "--help"]
    took: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(rounds):
        for name, command in ways.items():
            begin = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            took[name].append(time.perf_counter() - begin)
    base = statistics.median(took["insitu --help"])
    for name, times in took.items():
        middle = statistics.median(times)
        print(f"{name:18}{middle * 1e3:>9.0f} ms   {middle / base:>5.2f} of insitu's")


if __name__ == "__main__":
    main()
