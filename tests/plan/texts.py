"""A sound plan and model, which the tests break in one place at a time."""

from insitu.orchestrator.plan.types import Settable

SETTABLE = {
    "cpu.cores": Settable("core"),
    "disk.read_rate": Settable("B/s"),
    "disk.write_rate": Settable("B/s"),
    "net.rate_in": Settable("bit/s"),
    "cache.page": Settable("fraction", rest=None, words={"cold": 0.0, "warm": 1.0}),
}

PLAN = """\
name: sort-under-throttle
subject:
  prepare: [head, -c, "{input_size}", "{data}/text"]
  command: [sort, -o, "{scratch}/out", "{scratch}/in"]
  data:
    text: ["{python}", -m, this]
model: model.yaml
factors:
  cpu_cores: {levels: [0.5, 0.9, unlimited]}
  disk_read_rate: {levels: [10 MB/s, 40 MB/s]}
  input_size: {levels: [4 MB, 8 MB]}
goal: {effect: cpu_cores -> runtime, confidence: 0.9}
design: {kind: factorial, replicates: 3, seed: 7}
budget: {trials: 40, time: 3 min}
guards: {trial_timeout: 30 s}
"""

MODEL = """\
variables:
  input_size: {unit: B, role: parameter}
  disk_read_rate: {unit: B/s, set_by: disk.read_rate}
  cpu_cores: {unit: core, set_by: cpu.cores}
  runtime: {unit: s, measured_by: wall_time}
laws:
  runtime: c + a * input_size / disk_read_rate + b * input_size / cpu_cores
parameters:
  b: {unit: core*s/GB}
"""


def changed(text: str, old: str, new: str) -> str:
    """Replace the one occurrence of `old`; a change that hits nothing would test nothing."""
    if text.count(old) != 1:
        raise ValueError(f"{old!r} occurs {text.count(old)} times")
    return text.replace(old, new)
