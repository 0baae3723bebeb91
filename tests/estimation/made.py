"""Laws from text and trials from columns, for tests of the estimator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.blueprint import Law, build_blueprint
from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.fitting.data import gather
from insitu.orchestrator.estimation.fitting.solution import Task
from insitu.orchestrator.plan.types import LawText, ModelText, Role, Variable
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial
from tests.standins import trial_of

Column = Sequence[float] | npt.NDArray[Any]

Y = Variable("y", "", Role.MEASURED, "y")


@dataclass(frozen=True)
class Made:
    """A law of y and its variables."""

    law: Law
    variables: dict[str, Variable]

    def task(self, columns: Mapping[str, Any], observed: Column, **more: Any) -> Task:
        data = gather(self.law, trials_of(columns, observed, **more), self.variables)
        return Task(self.law, data, self.variables)


def made(text: str, parents: Sequence[str] = ("x",), **law: Any) -> Made:
    """A law of y with plain numbers as parents."""
    variables = {name: Variable(name, "", Role.PARAMETER) for name in parents} | {"y": Y}
    found = build_blueprint(ModelText(Path("model.yaml"), variables, (LawText("y", text, 1, 1),)))
    return Made(replace(found.laws["y"], **law), variables)


def trials_of(
    columns: Mapping[str, Any],
    observed: Column,
    *,
    nodes: Sequence[str] | npt.NDArray[Any] | None = None,
    days: Sequence[int] | None = None,
    blocks: Sequence[int] | None = None,
    uncertainty: Mapping[str, float] | None = None,
    verdict: LevelVerdict = LevelVerdict.EXACT,
) -> tuple[StoredTrial, ...]:
    """One trial per row, in this order; levels as they were asked for.

    Parameters
    ----------
    columns
        Variable to its level in each trial.
    days
        Numbers of days, from the same first one.
    uncertainty
        Variable to the half width of its levels' errors.
    """
    trials = []
    for index, outcome in enumerate(observed):
        levels = tuple(
            LevelRecord(
                name, float(c[index]), float(c[index]), 1.0, (uncertainty or {}).get(name, 0.0), verdict, "m", ""
            )
            for name, c in columns.items()
        )
        block = blocks[index] if blocks is not None else 1
        trial = trial_of(index + 1, levels, {"y": float(outcome)}, block=block)
        assert trial.record is not None
        at = 1.7e9 + 60 * index + (86400 * days[index] if days is not None else 0)
        node = nodes[index] if nodes is not None else "node-a"
        trials.append(replace(trial, record=replace(trial.record, node=node, started_at=at)))
    return tuple(trials)


def with_outcome(task: Task, observed: Array) -> Task:
    """The same trials with another outcome; much faster than to gather them again."""
    return replace(task, data=replace(task.data, observed=np.asarray(observed, dtype=np.float64)))
