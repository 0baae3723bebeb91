"""A plan of a goal and a budget alone, on a real subject.

Executes ``configs/goal.yaml`` and, beside it, the factorial of the same levels: how many trials each takes, and
how precise its answer is. Then the goal's run is asked about three combinations of levels that it never tried, and
they are executed.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.benchmarks.claims import Claim
from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.store.run import RunStore

CONFIGS = Path(__file__).parents[2] / "configs"
PLAN = CONFIGS / "goal.yaml"
POINTS = {
    "input_size": "{levels: [12 MB, 24 MB]}",
    "disk_read_rate": "{range: [10 MB/s, 40 MB/s], scale: log, points: 3}",
    "cpu_cores": "{range: [0.3 core, 0.9 core], points: 3}",
}
NEVER_TRIED: tuple[Mapping[str, str], ...] = (
    {"input_size": "18 MB", "disk_read_rate": "15 MB/s", "cpu_cores": "0.65 core"},
    {"input_size": "14 MB", "disk_read_rate": "30 MB/s", "cpu_cores": "0.4 core"},
    {"input_size": "22 MB", "disk_read_rate": "12 MB/s", "cpu_cores": "0.8 core"},
)
REPLICATES = 5
MOST_OUTSIDE = 1
"""Of the replicates at one place: a 95 % interval may miss one of five, once in five times."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a run came to.

    Attributes
    ----------
    executed
        Trials, with those that did not come out.
    half_width
        Of the effect's interval, relative.
    """

    ending: str
    executed: int
    valid: int
    half_width: float


def main() -> list[Claim]:
    """Print both runs, the predictions, and what the trials then took."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        here = Path(folder)
        goal = _executed(PLAN, here / "goal")
        factorial = _executed(_plan(here / "factorial.yaml", POINTS, "{kind: factorial}"), here / "factorial")
        for name, found in (("goal and budget alone", goal), ("factorial, each combination once", factorial)):
            print(
                f"{name:>33}: {found.ending}, {found.executed} trials, {found.valid} of them valid, "
                f"the effect known to ± {found.half_width:.1%}"
            )
        inside = [
            _held(here / "goal", place, here / f"place-{number}") for number, place in enumerate(NEVER_TRIED)
        ]
    trials = f"{goal.ending} after {goal.executed} trials, of the factorial's {factorial.executed}"
    fewer = goal.ending == "reached" and goal.executed < factorial.executed
    held = sum(one >= REPLICATES - MOST_OUTSIDE for one in inside)
    return [
        Claim("a goal and a budget alone, on a real subject", "reached, in fewer trials", trials, fewer),
        Claim(
            "predictions at levels never tried, then executed",
            f"{REPLICATES - MOST_OUTSIDE} of {REPLICATES} inside, at each of {len(NEVER_TRIED)}",
            f"held at {held}; {', '.join(map(str, inside))} of {REPLICATES} inside",
            held == len(NEVER_TRIED),
        ),
    ]


def _insitu(*arguments: str, accept: tuple[int, ...] = (0,)) -> str:
    """Run the command; its stdout. Exit status 1 says that a goal was not reached."""
    command = [sys.executable, "-m", "insitu", *arguments]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in accept:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}")
    return done.stdout


def _executed(plan: Path, directory: Path) -> Found:
    _insitu("run", str(plan), "--out", str(directory), "--quiet", accept=(0, 1))
    shown = json.loads(_insitu("show", str(directory), "--json"))
    trials = _trials(directory)
    return Found(
        shown["status"],
        executed=len(trials),
        valid=sum(state is TrialState.VALID for state, _ in trials),
        half_width=shown["effect"]["relative_half_width"],
    )


def _trials(directory: Path) -> list[tuple[TrialState, float]]:
    """State and wall time of each trial that was executed."""
    with RunStore.open(directory, read_only=True) as store:
        return [
            (stored.state, stored.record.measurements.get("wall_time", float("nan")))
            for stored in store.trials()
            if stored.record is not None
        ]


def _held(learned: Path, place: Mapping[str, str], directory: Path) -> int:
    """Ask about a place, execute it, and count the trials inside the interval for one trial."""
    asked = [word for name, level in place.items() for word in ("--do", f"{name}={level}")]
    answer: dict[str, float] = json.loads(_insitu("whatif", str(learned), *asked, "--ask", "runtime", "--json"))
    factors = {name: f"{{levels: [{level}]}}" for name, level in place.items()}
    design = f"{{kind: factorial, replicates: {REPLICATES}, baseline_replicates: 0}}"
    _insitu("run", str(_plan(directory.with_suffix(".yaml"), factors, design)), "--out", str(directory), "--quiet")
    times = [wall_s for state, wall_s in _trials(directory) if state is TrialState.VALID]
    inside = sum(answer["low"] <= wall_s <= answer["high"] for wall_s in times)
    print(f"at {', '.join(f'{name} = {level}' for name, level in place.items())}")
    print(f"  predicted {answer['mean']:.3f} s [{answer['low']:.3f}, {answer['high']:.3f}] for one trial")
    took = ", ".join(f"{wall_s:.3f}" for wall_s in times)
    off = statistics.fmean(times) / answer["mean"] - 1
    print(f"  took      {took} s: {inside} of {len(times)} inside, {off:+.1%} on average")
    return inside


def _plan(path: Path, factors: Mapping[str, str], design: str) -> Path:
    """The goal's plan with listed levels and another design in the place of the goal."""
    kept = [line for line in PLAN.read_text().splitlines() if not line.startswith(("goal:", "budget:", "#"))]
    lines = [line.replace("model: models/", f"model: {CONFIGS}/models/") for line in kept]
    lines += ["factors:", *(f"  {name}: {levels}" for name, levels in factors.items())]
    lines += [f"design: {design}", "budget: {trials: 80, time: 10 min}"]
    if len(factors) == len(POINTS) and "range" in "".join(factors.values()):
        lines.append("goal: {effect: cpu_cores -> runtime}")
    path.write_text("\n".join(lines) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(0 if all(claim.met for claim in main()) else 1)
