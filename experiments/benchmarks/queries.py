"""How long a do-query takes beside DoWhy's, and what both say far outside their data.

Both are fitted to the same rows of the same model: twenty measured variables, each of two or three causes, linear
with normal noise. Timed on one processor: 100,000 draws of the last variable under do() of the roots. Ours draws
the parameters, too, and gives intervals of the mean and of a trial; the fidelity of the answer is in its time.
"""

from __future__ import annotations

import importlib.util
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.benchmarks.claims import Claim
from insitu.orchestrator.causal.blueprint import Blueprint, build_blueprint
from insitu.orchestrator.errors import OutsideSupport
from insitu.orchestrator.estimation.analysis import fit_all
from insitu.orchestrator.estimation.questions.asking import whatif
from insitu.orchestrator.estimation.questions.model import FittedModel, assemble
from insitu.orchestrator.plan.types import LawText, ModelText, Role, Variable
from insitu.orchestrator.store.records import (
    Assignment,
    LevelRecord,
    LevelVerdict,
    PlannedTrial,
    StoredTrial,
    TrialRecord,
    TrialState,
)

ROOTS = ("x1", "x2", "x3")
MEASURED = tuple(f"v{number}" for number in range(1, 21))
TRIALS, DRAWS, ROUNDS = 400, 100_000, 15
TARGET_S = 0.05


def main() -> list[Claim]:
    """Print both times and their ratio, and both answers outside the data."""
    rng = np.random.default_rng(20)
    parents = _graph(rng)
    table = _simulate(parents, rng)
    model = _fitted(_laws(parents), table)
    do = {"x1": 1.0, "x2": 0.5, "x3": 0.5}
    last = MEASURED[-1]
    with _on_one_processor():
        ours_s = _best(lambda: whatif(model, last, do, np.random.default_rng(1)))
        quantiles_s = _best(lambda: whatif(model, last, do, np.random.default_rng(1), quantiles=(0.95,)))
    answer = whatif(model, last, do, np.random.default_rng(1))
    assert answer.draws >= DRAWS
    print(f"{DRAWS:,} draws through {len(answer.between) + 1} variables, fitted to {TRIALS} trials")
    mean = f"mean {answer.mean:.3f} [{answer.mean_low:.3f}, {answer.mean_high:.3f}]"
    print(f"insitu               {1e3 * ours_s:>8.1f} ms   {mean}, with a fidelity")
    print(f"insitu, a quantile   {1e3 * quantiles_s:>8.1f} ms   noise from the trials' residuals")
    found = f"{1e3 * ours_s:.0f} ms"
    if importlib.util.find_spec("dowhy") is None:
        print("dowhy is not here: pip install 'insitu[bench]'")
    else:
        found += f"; DoWhy takes {_beside_dowhy(parents, table, do, last, ours_s):.1f} times as long"
    _outside(rng)
    return [Claim(f"do-query, {DRAWS:,} draws, 20 variables", "50 ms", found, ours_s <= TARGET_S)]


Parents = Mapping[str, Mapping[str, float]]
"""Variable to its causes, each with its coefficient."""


def _graph(rng: np.random.Generator) -> Parents:
    """Each variable follows from the one before it, so that all lie on the way, and from one or two others."""
    parents: dict[str, dict[str, float]] = {}
    before: list[str] = list(ROOTS)
    for name in MEASURED:
        chosen = {before[-1], *rng.choice(before, size=2, replace=False).tolist()}
        parents[name] = {cause: float(rng.uniform(0.2, 0.5)) for cause in sorted(chosen)}
        before.append(name)
    return parents


def _simulate(parents: Parents, rng: np.random.Generator) -> pd.DataFrame:
    columns = {root: rng.uniform(0, 2, TRIALS) for root in ROOTS}
    for name, causes in parents.items():
        mean = 1.0 + sum(slope * columns[cause] for cause, slope in causes.items())
        columns[name] = mean + rng.normal(0, 0.1, TRIALS)
    return pd.DataFrame(columns)


def _laws(parents: Parents) -> Blueprint:
    variables = {root: Variable(root, "", Role.PARAMETER) for root in ROOTS}
    variables |= {name: Variable(name, "", Role.MEASURED, name) for name in parents}
    laws = tuple(
        LawText(name, " + ".join([f"{name}_0", *(f"{name}_{cause} * {cause}" for cause in causes)]), 1, 1)
        for name, causes in parents.items()
    )
    return build_blueprint(ModelText(Path("model.yaml"), variables, laws))


def _fitted(blueprint: Blueprint, table: pd.DataFrame) -> FittedModel:
    return assemble(blueprint, fit_all(blueprint, _trials(blueprint, table)))


def _trials(blueprint: Blueprint, table: pd.DataFrame) -> list[StoredTrial]:
    trials = []
    for number, row in enumerate(table.to_dict("records"), start=1):
        levels = tuple(
            LevelRecord(name, float(row[name]), float(row[name]), 1.0, 0.0, LevelVerdict.EXACT, "argument", "")
            for name, one in blueprint.variables.items()
            if one.role is Role.PARAMETER
        )
        measured = {
            name: float(row[name]) for name, one in blueprint.variables.items() if one.role is Role.MEASURED
        }
        record = TrialRecord(number, TrialState.VALID, "here", float(number), 1.0, 0, measured, levels)
        assignment = Assignment(tuple((level.variable, level.requested) for level in levels))
        trials.append(StoredTrial(PlannedTrial(number, 1, assignment), TrialState.VALID, record))
    return trials


def _beside_dowhy(
    parents: Parents, table: pd.DataFrame, do: Mapping[str, float], last: str, ours_s: float
) -> float:
    """Print DoWhy's time and mean; how many times ours its time is."""
    edges = [(cause, name) for name, causes in parents.items() for cause in causes]
    causal, gcm = _dowhy(edges, table, ROOTS)
    held = {name: (lambda values, level=level: np.full_like(values, level)) for name, level in do.items()}
    with _on_one_processor():
        took_s = _best(lambda: gcm.interventional_samples(causal, held, num_samples_to_draw=DRAWS))
    mean = gcm.interventional_samples(causal, held, num_samples_to_draw=DRAWS)[last].mean()
    ratio = took_s / ours_s
    print(f"DoWhy's gcm          {1e3 * took_s:>8.1f} ms   mean {mean:.3f}, no interval   {ratio:.1f} of insitu's")
    return ratio


def _dowhy(edges: list[tuple[str, str]], table: pd.DataFrame, roots: tuple[str, ...]) -> tuple[Any, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import networkx
        from dowhy import gcm

        gcm.config.disable_progress_bars()
        causal = gcm.StructuralCausalModel(networkx.DiGraph(edges))
        for name in causal.graph.nodes:
            mechanism = (
                gcm.EmpiricalDistribution()
                if name in roots
                else gcm.AdditiveNoiseModel(gcm.ml.create_linear_regressor())
            )
            causal.set_causal_mechanism(name, mechanism)
        gcm.fit(causal, table)
    return causal, gcm


def _outside(rng: np.random.Generator) -> None:
    """A line fitted to a parabola on a in 0 to 4, and asked about a = 8: does the answer say what it is?"""
    level, truth = 8.0, 5.6 + 8.0**2
    a = rng.uniform(0, 4, 500)
    table = pd.DataFrame({"a": a, "y": 5.6 + a**2 + rng.normal(0, 0.5, 500)})
    variables = {"a": Variable("a", "", Role.PARAMETER), "y": Variable("y", "", Role.MEASURED, "y")}
    blueprint = build_blueprint(ModelText(Path("model.yaml"), variables, (LawText("y", "c + b * a", 1, 1),)))
    model = _fitted(blueprint, table)
    print(f"\nfitted on a in 0 to 4, asked about a = {level:g}, where the truth is {truth:g}")
    try:
        whatif(model, "y", {"a": level}, rng)
    except OutsideSupport as refusal:
        print(f"insitu refuses: {refusal.message}")
    answer = whatif(model, "y", {"a": level}, rng, extrapolate=True)
    grade = answer.fidelity.grade.value if answer.fidelity is not None else ""
    print(f"insitu, told to extrapolate: {answer.mean:.1f}, fidelity {grade}")
    if importlib.util.find_spec("dowhy") is not None:
        causal, gcm = _dowhy([("a", "y")], table, ("a",))
        drawn = gcm.interventional_samples(causal, {"a": lambda _: level}, num_samples_to_draw=10_000)
        print(f"DoWhy's gcm: {drawn['y'].mean():.1f}")


def _best(work: Callable[[], object]) -> float:
    """Seconds that it takes when nothing interferes."""
    times = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


@contextmanager
def _on_one_processor() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


if __name__ == "__main__":
    main()
