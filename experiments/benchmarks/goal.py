"""A plan of a goal and a budget alone, on a real subject.

Executes ``configs/goal.yaml``, asks the run about three combinations of levels that it never tried, and executes
these. Beside it the factorial of the same levels: how many trials it takes, and how precise its answer is.

What a law learns on one machine says nothing of another, and a virtual machine can become another one within
seconds: while others work on the same cores the same work takes up to 1.8 times as much processor time. The plan
sets such trials aside, by the best speed that its own run has seen. Where all of a run was slower or faster than
the trials that are to confirm it, by more than a tenth of the processor time per byte, all of it is done again.
"""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from experiments.benchmarks.claims import Claim
from insitu.orchestrator.store.ledger import was_disturbed
from insitu.orchestrator.store.records import StoredTrial, TrialState
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
WITHIN = 0.1
"""What the goal's precision is, and how far from the prediction the mean of a place's trials may be."""
ATTEMPTS = 2
SAME_SPEED = 0.1


@dataclass(frozen=True, slots=True)
class Found:
    """What a run came to.

    Attributes
    ----------
    executed
        Trials, with those that did not come out.
    disturbed
        Trials that others disturbed.
    half_width
        Of the effect's interval, relative.
    """

    ending: str
    executed: int
    valid: int
    disturbed: int
    half_width: float

    @property
    def reached(self) -> bool | None:
        """``None`` where others left the run no chance."""
        return True if self.ending == "reached" else None if 2 * self.disturbed > self.executed else False


@dataclass(frozen=True, slots=True)
class Confirmed:
    """What came of the predictions of one run.

    Attributes
    ----------
    off
        The mean of each place's trials relative to its prediction, less one.
    trials, inside
        How many there were over all places, and how many of them lay inside their intervals.
    slower
        Processor time per byte relative to the run that was asked, less one, of the place where it differs most.
    """

    off: tuple[float, ...]
    trials: int
    inside: int
    slower: float

    @property
    def comparable(self) -> bool:
        return abs(self.slower) <= SAME_SPEED


def main() -> list[Claim]:
    """Print both runs, the predictions, and what the trials then took."""
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        here = Path(folder)
        for attempt in range(ATTEMPTS):
            goal = _executed(PLAN, here / f"goal-{attempt}")
            print(f"{goal.ending} after {goal.executed} trials, {goal.disturbed} of them disturbed", flush=True)
            confirmed = _confirmed(here / f"goal-{attempt}") if goal.reached else None
            if confirmed is not None:
                print(f"the processor time per byte was then up to {confirmed.slower:+.0%} off that of the run")
                if confirmed.comparable:
                    break
        plan = _plan(here / "factorial.yaml", POINTS, "{kind: factorial}", "goal: {effect: cpu_cores -> runtime}")
        factorial = _executed(plan, here / "factorial")
    for name, found in (("goal and budget alone", goal), ("factorial, each combination twice", factorial)):
        print(
            f"{name:>33}: {found.ending}, {found.executed} trials, {found.valid} of them valid and "
            f"{found.disturbed} disturbed, "
            f"the effect known to ± {found.half_width:.1%}"
        )
    return [
        Claim(
            "a goal and a budget alone, on a real subject",
            "reached, in fewer trials",
            f"{goal.ending} after {goal.executed} trials, of the factorial's {factorial.executed}",
            goal.reached and goal.executed < factorial.executed,
        ),
        _claim(confirmed),
    ]


def _claim(confirmed: Confirmed | None) -> Claim:
    what, target = "predictions at three places never tried, then executed", f"means within {WITHIN:.0%}"
    if confirmed is None:
        return Claim(what, target, "no run that reached its goal could be confirmed", None)
    off = ", ".join(f"{one:+.1%}" for one in confirmed.off)
    trials = f"{confirmed.inside} of {confirmed.trials} trials inside their 95 % intervals"
    met = all(abs(one) <= WITHIN for one in confirmed.off)
    changed = "" if confirmed.comparable else "; the machine changed its speed meanwhile, every time"
    return Claim(
        what,
        target,
        f"{off}; {trials}{changed}",
        True if met else False if confirmed.comparable else None,
    )


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
        valid=sum(one.state is TrialState.VALID for one in trials),
        disturbed=sum(one.record is not None and was_disturbed(one.record) for one in trials),
        half_width=(shown.get("effect") or {"relative_half_width": math.inf})["relative_half_width"],
    )


def _trials(directory: Path) -> list[StoredTrial]:
    """All trials that were executed."""
    with RunStore.open(directory, read_only=True) as store:
        return [stored for stored in store.trials() if stored.record is not None]


def _measured(directory: Path, name: str) -> list[float]:
    """One measurement of all valid trials."""
    valid = [one.record for one in _trials(directory) if one.state is TrialState.VALID]
    return [record.measurements[name] for record in valid if record is not None]


def _work_per_byte(directory: Path) -> float:
    """Processor time of a valid trial for each byte of its input, at the median."""
    sizes = [
        one.planned.assignment.as_dict()["input_size"]
        for one in _trials(directory)
        if one.state is TrialState.VALID
    ]
    return statistics.median(
        cpu_s / size for cpu_s, size in zip(_measured(directory, "cpu_time"), sizes, strict=True)
    )


def _confirmed(learned: Path) -> Confirmed | None:
    """Ask about each place, execute it, and compare; ``None`` if one has no valid trials."""
    off, slower, trials, inside = [], [], 0, 0
    for number, place in enumerate(NEVER_TRIED):
        directory = learned.with_name(f"{learned.name}-place-{number}")
        asked = [word for name, level in place.items() for word in ("--do", f"{name}={level}")]
        answer: dict[str, float] = json.loads(
            _insitu("whatif", str(learned), *asked, "--ask", "runtime", "--json")
        )
        factors = {name: f"{{levels: [{level}]}}" for name, level in place.items()}
        design = f"{{kind: factorial, replicates: {REPLICATES}, baseline_replicates: 0}}"
        plan = _plan(directory.with_suffix(".yaml"), factors, design, minutes=3)
        _insitu("run", str(plan), "--out", str(directory), "--quiet", accept=(0, 1))
        times = _measured(directory, "wall_time")
        if not times:
            return None
        held = sum(answer["low"] <= wall_s <= answer["high"] for wall_s in times)
        print(f"at {', '.join(f'{name} = {level}' for name, level in place.items())}")
        print(f"  predicted {answer['mean']:.3f} s [{answer['low']:.3f}, {answer['high']:.3f}] for one trial")
        print(f"  took      {', '.join(f'{wall_s:.3f}' for wall_s in times)} s", flush=True)
        off.append(statistics.fmean(times) / answer["mean"] - 1)
        slower.append(_work_per_byte(directory) / _work_per_byte(learned) - 1)
        trials += len(times)
        inside += held
    return Confirmed(tuple(off), trials, inside, max(slower, key=abs))


def _plan(path: Path, factors: Mapping[str, str], design: str, *more: str, minutes: int = 10) -> Path:
    """Write the goal's plan with listed levels and another design, and `more` lines in the place of the goal."""
    kept = [line for line in PLAN.read_text().splitlines() if not line.startswith(("goal:", "budget:", "#"))]
    lines = [line.replace("model: models/", f"model: {CONFIGS}/models/") for line in kept]
    lines += ["factors:", *(f"  {name}: {levels}" for name, levels in factors.items())]
    lines += [f"design: {design}", f"budget: {{trials: 80, time: {minutes} min}}", *more]
    path.write_text("\n".join(lines) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(0 if all(claim.met for claim in main()) else 1)
