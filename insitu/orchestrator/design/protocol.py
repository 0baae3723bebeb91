"""What a design is, and how it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.store.records import PlannedTrial

if TYPE_CHECKING:
    import numpy as np

    from insitu.orchestrator.design.situation import Situation
    from insitu.orchestrator.plan.types import Plan

GROUP = "insitu.designs"
"""Entry-point group under which designs register; a class without arguments."""


def _no_laws() -> Situation:
    raise ValueError("nothing is known of the laws of this plan")


@dataclass(frozen=True)
class Request:
    """What a design is asked for.

    Attributes
    ----------
    look
        Gives `situation`, which takes a while to find and which some designs have no use for.
    """

    plan: Plan
    look: Callable[[], Situation] = _no_laws

    @cached_property
    def situation(self) -> Situation:
        """The candidate trials, and what is known of the model's laws before any trial."""
        return self.look()


@dataclass(frozen=True, slots=True)
class Planned:
    """What a design answers.

    Attributes
    ----------
    trials
        Numbered from 1 in execution order.
    told
        What the design is and what it leaves out, in sentences for whoever reads it before it runs.
    """

    trials: tuple[PlannedTrial, ...]
    told: tuple[str, ...] = ()


class Design(Protocol):
    """Decides which trials an experiment consists of, and in which order.

    A design is a pure function of the request and the generator: the same plan, what is known of its laws, and an
    equally seeded generator give the same trials. `tests/contract` holds every design to that.
    """

    def plan_trials(self, request: Request, rng: np.random.Generator) -> Planned:
        """Plan the trials.

        Parameters
        ----------
        rng
            The run's generator; nothing else may be random.

        Raises
        ------
        InputError
            If the trials would exceed the plan's budget, or the plan's factors do not suit the design.
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
