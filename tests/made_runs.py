"""Run directories with simulated trials, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from insitu.orchestrator.store.records import StoredTrial
from insitu.orchestrator.store.run import RunStore
from tests.estimation.chains import CHAIN

CHAIN_PLAN = """\
name: chain
subject: {command: ["true", "{size}"]}
model: model.yaml
factors:
  size: {levels: [8 MB, 16 MB]}
  rate: {levels: [10 MB/s, 20 MB/s]}
  cores: {levels: [0.3, 0.6, 0.9]}
goal: {effect: cores -> runtime, confidence: 0.95}
design: {kind: factorial, replicates: 2, seed: 7}
budget: {trials: 400}
"""


def make_run(directory: Path, trials: Sequence[StoredTrial], plan: str = CHAIN_PLAN, model: str = CHAIN) -> Path:
    """Write a finished run; trials without a record stay planned."""
    with RunStore.create(directory, plan, model, {"name": "chain", "status": "complete"}) as store:
        store.plan_trials([one.planned for one in trials])
        for one in trials:
            if one.record is not None:
                store.start(one.planned.trial)
                store.finish(one.record)
    return directory
