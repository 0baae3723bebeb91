"""What a design is, and how it is found."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.store.records import PlannedTrial

if TYPE_CHECKING:
    import numpy as np

    from insitu.orchestrator.plan.types import Plan

GROUP = "insitu.designs"
"""Entry-point group under which designs register; a class without arguments."""


class Design(Protocol):
    """Decides which trials an experiment consists of, and in which order.

    A design is a pure function of the plan and the generator: the same plan and an equally seeded generator
    give the same trials. `tests/contract` holds every design to that.
    """

    def plan_trials(self, plan: Plan, rng: np.random.Generator) -> tuple[PlannedTrial, ...]:
        """Plan the trials, numbered from 1 in execution order.

        Parameters
        ----------
        rng
            The run's generator; nothing else may be random.

        Raises
        ------
        InputError
            If the trials would exceed the plan's budget.
        """
        ...


def design_names() -> tuple[str, ...]:
    """Names of all registered designs, sorted."""
    return tuple(sorted({entry.name for entry in entry_points(group=GROUP)}))


def find_design(kind: str) -> Design:
    """Load the design registered as `kind`.

    Raises
    ------
    InputError
        If none is.
    """
    for entry in entry_points(group=GROUP):
        if entry.name == kind:
            design: Design = entry.load()()
            return design
    raise InputError(f"unknown design '{kind}'", hint=suggest(kind, design_names()))


def replacement(planned: PlannedTrial, number: int) -> PlannedTrial:
    """Repeat an invalid or failed trial: same block and assignment, a new number.

    Parameters
    ----------
    planned
        The trial that did not come out, itself perhaps a replacement.
    number
        The next free trial number of the run.
    """
    return replace(planned, trial=number, replaces=planned.trial)
