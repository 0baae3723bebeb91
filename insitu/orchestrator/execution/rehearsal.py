"""Everything that executing a plan on this node would make, write and start; changes nothing.

The steps come from the very functions that carry them out: where these say what they will do, this asks them,
and goes no further.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors import confinement, guard, recovery
from insitu.injectors.contract import Node
from insitu.injectors.errors import InjectorError
from insitu.injectors.journal import Header, Journal, boot_id, read
from insitu.injectors.state_folder import state_folder
from insitu.injectors.undo import Undo
from insitu.orchestrator.errors import CannotExecute
from insitu.orchestrator.execution.actuators import actuators_for
from insitu.orchestrator.execution.conditions import prober
from insitu.orchestrator.execution.orders import data_programs, order_for
from insitu.orchestrator.execution.place import Place
from insitu.orchestrator.execution.sandbox import filesystem, launcher
from insitu.orchestrator.execution.sandbox.protocol import Launch
from insitu.orchestrator.execution.workspace import Workspace
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.store.records import PlannedTrial

RUN = "RUN"
"""Stands for the run's id, which is drawn when a run begins."""


class PaperJournal(Journal):
    """A journal that nothing can be written to: without it, nothing may be made."""

    def __init__(self, header: Header) -> None:
        self.header = header
        self.path = state_folder() / f"insitu-{header.run}-PID.journal"

    def intend(self, undos: Sequence[Undo], settings: Sequence[str] = ()) -> int:
        """Refuse."""
        raise AssertionError(f"a dry run was about to do: {', '.join(settings)}")


@dataclass(frozen=True, slots=True)
class DataSteps:
    """What making one file of the run's data takes.

    Attributes
    ----------
    group, scratch, undos
        As of a trial.
    program
        Its stdout becomes the file.
    file
        Where that is then.
    """

    group: tuple[str, ...]
    scratch: tuple[str, ...]
    undos: tuple[str, ...]
    program: Launch
    file: str


@dataclass(frozen=True, slots=True)
class TrialSteps:
    """What the trials of one assignment take.

    Attributes
    ----------
    trials
        Their numbers.
    group, scratch, levels
        What is made and written, in its order: for the trial's group with its limits, its folder, the levels.
    undos
        What is in the journal before any of it is done.
    input_in_memory
        Share of the input that is in memory when the subject starts; ``None`` without an input.
    """

    trials: tuple[int, ...]
    assignment: tuple[tuple[str, float], ...]
    group: tuple[str, ...]
    scratch: tuple[str, ...]
    levels: tuple[str, ...]
    undos: tuple[str, ...]
    preparation: Launch | None
    input_in_memory: float | None
    subject: Launch


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """What a whole run takes, in the order in which it happens.

    Attributes
    ----------
    undone_first
        What dead runs left, and what is undone before anything is held.
    journals
        Of the command and of the agent.
    folders
        Made for the run, deleted at its end but for the run directory.
    confinement
        Directories and writes for the group around everything.
    view
        What of the host the sandbox shows, and how.
    environment
        Of every program in it, beside the subject's own.
    processes
        Started beside the subject, outside its sandbox.
    """

    node: str
    run_directory: str
    undone_first: tuple[str, ...]
    journals: tuple[str, ...]
    folders: tuple[str, ...]
    processes: tuple[str, ...]
    confinement: tuple[str, ...]
    namespaces: tuple[str, ...]
    view: tuple[str, ...]
    environment: tuple[str, ...]
    data: tuple[DataSteps, ...]
    trials: tuple[TrialSteps, ...]


def rehearse(
    plan: Plan, trials: Sequence[PlannedTrial], caps: confinement.Caps, node: Node, directory: Path
) -> Rehearsal:
    """Say what executing `trials` would do.

    Parameters
    ----------
    directory
        The run directory that would be made.
    node
        As surveyed for a folder on the same disk.

    Raises
    ------
    CannotExecute
        If a level cannot be set, or something foreign is in the way.
    """
    header = Header(RUN, os.getpid(), "", boot_id(), str(directory))
    journal = PaperJournal(header)
    owner = header.ownership
    work = directory.resolve() / "work"
    workspace = Workspace.below(work, owner)
    group = confinement.steps_for(node, caps, owner)
    inside = confinement.inside(node, caps, group).node
    place = Place(inside, workspace, actuators_for(inside, work, journal), owner.prefix)
    unprivileged = not node.privileged
    try:
        data, rehearsed = tuple(_data(plan, place)), tuple(_trials(plan, trials, place))
    except InjectorError as exc:
        raise CannotExecute(exc.message, hint=exc.remedy or None) from exc
    return Rehearsal(
        node=node.name,
        run_directory=str(directory),
        undone_first=tuple(_left_behind()),
        journals=(f"{journal.path} (of this command)", f"{journal.path} (of the agent)"),
        folders=(str(directory), *map(str, workspace.lasting)),
        processes=tuple(_processes(plan)),
        confinement=group.lines(),
        namespaces=("mount", "pid", "net", "ipc", "uts", *(("user",) if unprivileged else ())),
        view=tuple(f"{one.path} ({one.how.value})" for one in filesystem.survey(unprivileged)),
        environment=tuple(f"{name}={text}" for name, text in place.environment.items()),
        data=data,
        trials=rehearsed,
    )


def _data(plan: Plan, place: Place) -> Iterator[DataSteps]:
    for number, (name, program) in enumerate(data_programs(plan)):
        steps = place.steps(f"d{number}", (), plan.guards)
        yield DataSteps(
            group=steps.group.lines(),
            scratch=place.workspace.describe_trial(synchronous=steps.treatment.synchronous_scratch),
            undos=tuple(map(str, steps.undos)),
            program=place.data(program, plan.guards),
            file=str(place.workspace.data / name),
        )


def _trials(plan: Plan, trials: Sequence[PlannedTrial], place: Place) -> Iterator[TrialSteps]:
    by_assignment: dict[object, list[PlannedTrial]] = {}
    for planned in trials:
        by_assignment.setdefault(planned.assignment, []).append(planned)
    for alike in by_assignment.values():
        order = order_for(plan, alike[0])
        interventions = [level.intervention for level in order.levels]
        steps = place.steps(f"t{alike[0].trial}", interventions, order.guards, linked=order.linked)
        preparation = place.preparation(order)
        yield TrialSteps(
            trials=tuple(planned.trial for planned in alike),
            assignment=alike[0].assignment.levels,
            group=steps.group.lines(),
            scratch=place.workspace.describe_trial(synchronous=steps.treatment.synchronous_scratch),
            levels=steps.lines(),
            undos=tuple(map(str, steps.undos)),
            preparation=preparation,
            input_in_memory=None if preparation is None else place.input_share(order, steps.treatment),
            subject=place.subject(order, steps.treatment.stop_and_go),
        )


def _left_behind() -> Iterator[str]:
    for path in recovery.journals():
        try:
            entries = read(path)
        except (InjectorError, OSError) as exc:
            yield f"{path}: {exc}"
            continue
        header = entries.header
        if header is not None and not (header.owner_is_alive() or header.of_other_machine):
            yield from (f"{undo} (of run {header.run})" for undo in entries.pending)


def _processes(plan: Plan) -> Iterator[str]:
    yield "ray on the loopback interface, in a temporary folder of its own, with one agent"
    yield f"{sys.executable} -m {guard.__name__} (one of this command's, one of the agent's)"
    yield f"{sys.executable} -m {launcher.__name__}"
    if plan.guards.probe is not None:
        yield f"{sys.executable} -m {prober.__name__}"
