"""All benchmarks, one after the other: ``python -m experiments.benchmarks [NAME ...]``."""

from __future__ import annotations

import sys

from experiments.benchmarks import (
    anomalies,
    apply_undo,
    disturbance,
    levels,
    network,
    orchestration,
    prediction,
    reaction,
    sampling,
    startup,
)

BENCHMARKS = {
    "startup": startup.main,
    "sampling": sampling.main,
    "orchestration": orchestration.both,
    "prediction": prediction.main,
    "anomalies": anomalies.main,
    "reaction": reaction.main,
    "levels": levels.main,
    "apply_undo": apply_undo.main,
    "disturbance": disturbance.main,
    "network": network.main,
}

if __name__ == "__main__":
    for name in sys.argv[1:] or BENCHMARKS:
        print(f"\n== {name}")
        BENCHMARKS[name]()
