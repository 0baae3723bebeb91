"""Does ``explain`` name an anomaly that it was not told of?

GNU sort is executed again and again on this machine. Beside some of its trials, chosen at random, this
benchmark adds an anomaly of a kind and a strength that are drawn, too. The run knows nothing of it: no variable of
its plan or model stands for it, and the load belongs to a journal of its own. Afterwards `explain` is asked about
each of these trials, and whether the cause that it names first is the one that was there.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import insitu
from experiments.benchmarks.claims import Claim
from experiments.benchmarks.trials import journal_here, undone_after
from insitu.injectors import node
from insitu.injectors.actuator import Host
from insitu.injectors.anomalies.actuator import LoadActuator
from insitu.injectors.anomalies.levels import Anomaly
from insitu.injectors.anomalies.load import Loads
from insitu.injectors.anomalies.variables import CacheLoad, CpuLoad, DiskLoad, MemoryBandwidthLoad, NetLoad
from insitu.injectors.contract import Part, new_run_id
from insitu.injectors.journal import Journal
from insitu.orchestrator import experiment, loop
from insitu.orchestrator.execution.cluster import local_cluster
from insitu.orchestrator.store.encoding import Json
from insitu.orchestrator.store.ledger import Ledger
from insitu.orchestrator.store.records import PlannedTrial, TrialRecord, TrialState
from insitu.orchestrator.store.run import RunStore

SECRETS, CLEAN = 20, 20
NAMED = 19
PROCESSES = (2, 3, 4)
"""That an anomaly may have; the subject has one, and this machine at least two processors."""
KINDS: tuple[type[Anomaly], ...] = (CpuLoad, DiskLoad, NetLoad, MemoryBandwidthLoad, CacheLoad)
_LONGEST_S = 120.0

MODEL = """
variables:
  input_size: {unit: B, role: parameter}
  runtime:    {unit: s, measured_by: wall_time}
laws:
  runtime: c + a * input_size
"""
PLAN = f"""
name: secret-anomalies
subject:
  data:
    text: ["{{python}}", -m, insitu.workloads.python_sources, "64000000"]
  prepare: [head, -c, "{{input_size}}", "{{data}}/text"]
  command: [sort, --parallel=1, -o, "{{scratch}}/out", "{{scratch}}/in"]
model: model.yaml
factors:
  input_size: {{levels: [48 MB, 64 MB]}}
design: {{kind: factorial, replicates: {(SECRETS + CLEAN) // 2}}}
budget: {{trials: {8 * (SECRETS + CLEAN)}, time: 30 min}}
"""


@dataclass(frozen=True, slots=True)
class Secret:
    """An anomaly that the run is not told of."""

    kind: type[Anomaly]
    processes: int

    @property
    def part(self) -> Part:
        return Loads((self.kind().load(self.processes),))


class Saboteur:
    """Is told when trials begin and end, as progress bars are, and adds an anomaly beside some of them."""

    def __init__(self, secrets: Mapping[int, Secret], actuator: LoadActuator, journal: Journal) -> None:
        self._secrets = secrets
        self._actuator = actuator
        self._journal = journal
        self._name = f"{journal.header.ownership.prefix}-secret"
        self._held = ExitStack()

    def stage(self, text: str) -> None:
        """Nothing to do."""

    def looked(self, text: str) -> None:
        """Nothing to do."""

    def started(self, planned: PlannedTrial, ledger: Ledger) -> None:
        if (secret := self._secrets.get(planned.trial)) is not None:
            beside = Host(os.getpid(), {}, Path.cwd(), _LONGEST_S)
            undos = self._actuator.undos(secret.part, self._name)
            self._held.enter_context(undone_after(self._journal, undos))
            self._held.enter_context(self._actuator.hold(secret.part, self._name, beside))

    def ended(self, record: TrialRecord, ledger: Ledger) -> None:
        self._held.close()
        print("x" if record.trial in self._secrets else ".", end="", flush=True)


_CLAIM = ("an anomaly that explain was not told of is named first", f"{NAMED} of {SECRETS}")


def main(seed: int = 1) -> list[Claim]:
    """Print what was added and what was named, trial by trial."""
    if os.geteuid() != 0:
        return [Claim(*_CLAIM, "needs root, to add an anomaly as strong as it says", None)]
    rng = np.random.default_rng(seed)
    chosen = 1 + rng.permutation(SECRETS + CLEAN)[:SECRETS]
    kinds = rng.permutation([index % len(KINDS) for index in range(SECRETS)])
    secrets = {
        int(trial): Secret(KINDS[kind], int(rng.choice(PROCESSES)))
        for trial, kind in zip(chosen, kinds, strict=True)
    }
    with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".bench-") as folder:
        run = _executed(Path(folder), secrets)
        return [_judged(run, secrets)]


def _executed(folder: Path, secrets: Mapping[int, Secret]) -> insitu.Run:
    """Execute the plan, with the secrets beside it; what it stores knows nothing of them."""
    (folder / "model.yaml").write_text(MODEL)
    (folder / "plan.yaml").write_text(PLAN)
    plan, blueprint = experiment.read(folder / "plan.yaml")
    prepared = experiment.prepare(plan, blueprint, folder)
    run, directory = new_run_id(), folder / "run"
    facts: dict[str, Json] = {"name": plan.name, "run_id": run}
    with (
        RunStore.create(directory, plan.plan_source, plan.model_source, facts) as store,
        journal_here() as journal,
        closing(LoadActuator(node.survey(folder), folder, journal)) as actuator,
        local_cluster(run, directory / "work", directory) as cluster,
    ):
        store.plan_trials(experiment.design_trials(plan, blueprint))
        loop.execute(prepared, store, cluster, Saboteur(secrets, actuator, journal), pause=lambda _: None)
    print()
    return insitu.open_run(directory)


def _judged(run: insitu.Run, secrets: Mapping[int, Secret]) -> Claim:
    first = 0
    for number, secret in sorted(secrets.items()):
        explained = run.explain(number)
        suspects = [f"{one.cause} {one.probability:.0%}" for one in explained.suspects]
        was = secret.kind.variable
        named = bool(explained.suspects) and explained.suspects[0].cause == was
        first += named
        slower = explained.observed / explained.expected - 1
        print(
            f"trial {number:>3} {explained.state:>8} {slower:>+6.0%}  {secret.processes} x {was:<26}"
            f"{'' if named else 'NOT '}named first: {', '.join(suspects) or 'nothing'}"
        )
    quiet = [one.planned.trial for one in run.stored if one.state is TrialState.VALID]
    blamed = [run.explain(number).suspects[:1] for number in quiet if number not in secrets]
    falsely = Counter(str(one.cause) for suspects in blamed for one in suspects)
    print(
        f"of {len(blamed)} valid trials without an anomaly, {falsely.total()} were blamed on one: {dict(falsely)}"
    )
    return Claim(*_CLAIM, f"{first} of {len(secrets)}", first >= NAMED)


if __name__ == "__main__":
    sys.exit(0 if all(claim.met for claim in main()) else 1)
