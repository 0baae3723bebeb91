"""Small plans that run in seconds, for tests that need a whole run."""

from __future__ import annotations

from pathlib import Path

MODEL = """\
variables:
  input_size: {unit: B, role: parameter}
  cpu_cores: {unit: core, set_by: cpu.cores}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + b * input_size / cpu_cores
"""

PLAN = """\
name: small
subject:
  data:
    text: ["{python}", -m, insitu.workloads.python_sources, "4000000"]
  prepare: [head, -c, "{input_size}", "{data}/text"]
  command: [sort, --parallel=1, -o, "{scratch}/out", "{scratch}/in"]
model: model.yaml
factors:
  cpu_cores: {levels: [0.4 core, 0.8 core]}
  input_size: {levels: [2 MB, 4 MB]}
goal: {effect: cpu_cores -> runtime, confidence: 0.95}
design: {kind: factorial, replicates: 2, seed: 3}
budget: {trials: 60}
guards: {trial_timeout: 20 s}
"""


def write(folder: Path, plan: str = PLAN, model: str = MODEL) -> Path:
    """Write a plan and its model into a folder; give the plan's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.yaml").write_text(model)
    path = folder / "plan.yaml"
    path.write_text(plan)
    return path


def subject(command: str, plan: str = PLAN) -> str:
    """The plan with another command: a YAML flow list."""
    lines = [f"  command: {command}" if line.startswith("  command:") else line for line in plan.splitlines()]
    return "\n".join(lines) + "\n"
