"""Is a prediction for levels never tried confirmed by running them?

Executes ``configs/quickstart.yaml``, asks its fitted law about levels between those tried, then runs them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from insitu.orchestrator.store.records import TrialState
from insitu.orchestrator.store.run import RunStore

CONFIGS = Path(__file__).parents[2] / "configs"
NEVER_TRIED = {"cpu_cores": "0.6 core", "disk_read_rate": "15 MB/s", "input_size": "18 MB"}


def insitu(*arguments: str) -> str:
    """Run the command; its stdout."""
    command = [sys.executable, "-m", "insitu", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    """Print the prediction and what the trials then took."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        learned, tried = f"{folder}/learned", f"{folder}/tried"
        insitu("run", str(CONFIGS / "quickstart.yaml"), "--out", learned, "--quiet")
        asked = [word for name, level in NEVER_TRIED.items() for word in ("--do", f"{name}={level}")]
        answer = json.loads(insitu("whatif", learned, *asked, "--ask", "runtime", "--json"))
        plan = Path(folder) / "plan.yaml"
        plan.write_text(_plan_at(NEVER_TRIED))
        insitu("run", str(plan), "--out", tried, "--quiet")
        with RunStore.open(Path(tried), read_only=True) as store:
            times = [
                stored.record.measurements["wall_time"]
                for stored in store.trials()
                if stored.record and stored.state is TrialState.VALID and not stored.planned.baseline
            ]
    inside = [answer["low"] <= time_s <= answer["high"] for time_s in times]
    at = ", ".join(f"{name} = {level}" for name, level in NEVER_TRIED.items())
    print(f"at {at}")
    print(f"predicted {answer['mean']:.3f} s [{answer['low']:.3f}, {answer['high']:.3f}] for one trial")
    print(f"took      {', '.join(f'{time_s:.3f}' for time_s in times)} s")
    print(f"{sum(inside)} of {len(inside)} inside the interval")


def _plan_at(levels: dict[str, str]) -> str:
    """The quickstart's plan with one level per factor and five replicates."""
    lines = (CONFIGS / "quickstart.yaml").read_text().splitlines()
    changed = []
    for line in lines:
        name = line.strip().partition(":")[0]
        if name in levels:
            line = f"  {name}: {{levels: [{levels[name]}]}}"
        line = line.replace("replicates: 2", "replicates: 5, baseline_replicates: 1")
        line = line.replace("model: models/", f"model: {CONFIGS}/models/")
        changed.append(line)
    return "\n".join(line for line in changed if not line.startswith("goal:")) + "\n"


if __name__ == "__main__":
    main()
