"""The agent of one node: keeps a launcher, a journal and a guard ready, and runs trials one at a time."""

from __future__ import annotations

import contextlib
import os
import platform
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors.confinement import NO_CAPS, Caps, Confinement, confined
from insitu.injectors.contract import Node
from insitu.injectors.errors import InjectorError, NoJournal, UndoFailed
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease, NoGuard
from insitu.injectors.node import survey
from insitu.injectors.processes import Process, start_time
from insitu.injectors.state_folder import state_folder
from insitu.injectors.undo import Undo, UndoKind, carry_out_all
from insitu.orchestrator.errors import CannotExecute, NodeDirty, Postponed
from insitu.orchestrator.execution import trial
from insitu.orchestrator.execution.actuators import actuators_for
from insitu.orchestrator.execution.ahead import Ahead, controllers_for
from insitu.orchestrator.execution.conditions.watch import HostWatch
from insitu.orchestrator.execution.orders import Program, TrialOrder, TrialOutcome
from insitu.orchestrator.execution.pace import Pace
from insitu.orchestrator.execution.place import Place
from insitu.orchestrator.execution.sandbox.client import Launcher, LauncherGone
from insitu.orchestrator.execution.sandbox.protocol import Surroundings
from insitu.orchestrator.execution.workspace import Workspace
from insitu.orchestrator.plan.types import Guards

_WAIT_SLICE_S = 1.0
"""How long to wait for a node that is not well before saying so; whoever asked may ask again."""
_WAIT_FOR_SPEED_S = 10.0
"""How long a trial that would not count on slow processors waits for them; then it is tried all the same."""


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What an agent needs to know to begin.

    Its folders are looked up at once, in the process that names them. What is journalled must be a folder itself,
    not a way to it: a link on the way may lead elsewhere by the time at which somebody follows it to undo, and
    ``..`` means something else behind one.

    Attributes
    ----------
    workspace
        Folder for everything that trials write; must be on the disk that throttles are to act on.
    owner_pid, owner_start
        The process on whose end everything is undone.
    outside_writes_bytes
        Most that a subject may write outside its scratch folder; gone with it.
    notice
        File in which the guard says why it has ended the agent, if it has; ``None`` for nowhere.
    caps
        Most that the run may take of the node.
    """

    run: str
    workspace: Path
    run_directory: Path
    owner_pid: int
    owner_start: str
    outside_writes_bytes: float = 256e6
    notice: Path | None = None
    caps: Caps = NO_CAPS

    def __post_init__(self) -> None:
        object.__setattr__(self, "workspace", self.workspace.resolve())
        object.__setattr__(self, "run_directory", self.run_directory.resolve())


_PROGRAM_ALLOWANCE_S = 60.0
"""Most that a sandbox takes to be built and to end, beside its program."""
_SLOWEST_DISK_BYTES_PER_S = 10e6
"""At which the input of a trial is brought into memory."""


def hard_deadline_s(order: TrialOrder) -> float:
    """Time by which a trial has ended in any case, unless the agent hangs: far above its own timeouts."""
    programs = 1 if order.prepare is None else 2
    reading_s = 0.0 if order.prepare is None else order.guards.scratch_bytes / _SLOWEST_DISK_BYTES_PER_S
    preparation_s = sum(level.intervention.preparation_s for level in order.levels)
    return programs * (order.guards.trial_timeout_s + _PROGRAM_ALLOWANCE_S) + reading_s + preparation_s


def data_deadline_s(programs: int, guards: Guards) -> float:
    """Likewise for the commands that make the run's data, of which there may be none, and the wait before them."""
    return _PROGRAM_ALLOWANCE_S + programs * (trial.data_timeout_s(guards) + _PROGRAM_ALLOWANCE_S)


class NodeAgent:
    """Runs trials on the node that it is made on. Call `close` at the end."""

    def __init__(self, setup: AgentSetup) -> None:
        self._setup = setup
        with _errors_for_users(), ExitStack() as stack:
            header = Header(
                run=setup.run,
                owner_pid=setup.owner_pid,
                owner_start=setup.owner_start,
                boot=boot_id(),
                run_directory=str(setup.run_directory),
            )
            journal = stack.enter_context(Journal(state_folder(), header))
            raylet = Process.of(os.getppid())  # without it nobody would hear of a trial's end
            self._lease = stack.enter_context(Lease(journal, notice=setup.notice, keeper=raylet))
            workspace = Workspace.below(setup.workspace, header.ownership)
            folders = [Undo(UndoKind.FOLDER, str(path)) for path in workspace.lasting]
            _undo_at_close(stack, journal, folders)
            if failures := carry_out_all(folders, header.ownership):  # a copied run directory has the original's
                raise NodeDirty("\n".join(failures), hint="insitu recover")
            workspace.make()
            confinement = stack.enter_context(_confined(survey(setup.workspace), setup.caps, journal))
            node = confinement.node
            surroundings = Surroundings(
                stage=str(workspace.stage),
                writable=str(workspace.slot),
                readable=str(workspace.data),
                private_bytes=int(setup.outside_writes_bytes),
                unprivileged=not node.privileged,
            )
            launcher = Launcher(surroundings)
            # before its first launch it ends by itself when its socket closes; later it waits for its sandbox
            process = Undo(UndoKind.PROCESS, f"/proc/{launcher.pid}", start_time(launcher.pid))
            _undo_at_close(stack, journal, [process])
            ahead = Ahead(node, journal, launcher)
            stack.callback(ahead.drop)
            stack.enter_context(launcher)
            actuators = actuators_for(node, setup.workspace, journal)
            for actuator in actuators.values():
                stack.callback(actuator.close)
            self._watch = stack.enter_context(HostWatch(workspace.slot, journal))
            self.bench = trial.Bench(
                place=Place(node, workspace, actuators, header.ownership.prefix),
                journal=journal,
                launcher=launcher,
                name=platform.node(),
                ahead=ahead,
                watch=self._watch,
                confinement=confinement,
                pace=Pace(node.processors or tuple(range(node.cpus))),
            )
            self._stack = stack.pop_all()

    def ready(self) -> str:
        """Name of the node, once everything stands."""
        return self.bench.name

    def make_data(self, programs: tuple[tuple[str, Program], ...], guards: Guards) -> float:
        """Execute the commands that make the run's data, in the sandbox; gives the seconds that it took.

        Raises
        ------
        CannotExecute
            If one of them fails.
        Postponed, Aborted
            If a condition of the plan is true and stays so for a while, or comes true meanwhile.
        """
        limit_s = data_deadline_s(len(programs), guards)
        with _errors_for_users(), self._lease.limited_to(limit_s), self._watch.probing(guards):
            if problem := self._watch.wait_until_well(guards, _WAIT_SLICE_S):
                raise Postponed(problem)
            began = time.monotonic()
            for number, (name, program) in enumerate(programs):
                trial.make_data_file(self.bench, name, program, guards, number)
            return time.monotonic() - began

    def run(self, order: TrialOrder) -> TrialOutcome:
        """Run one trial to its end.

        Raises
        ------
        CannotExecute
            If the node cannot do it at all; a failing subject is a value in the record instead.
        Postponed
            If a condition of the plan is true and stays so for a while; the trial has not begun.
        """
        with _errors_for_users(), self._lease.limited_to(hard_deadline_s(order)):
            self._lease.require_guard()
            self.bench.pace.wait_until_fast(order.tolerated_slowdown, _WAIT_FOR_SPEED_S)
            with self._watch.probing(order.guards):
                if problem := self._watch.wait_until_well(order.guards, _WAIT_SLICE_S):
                    raise Postponed(problem)
                outcome = trial.execute(self.bench, order)
            with contextlib.suppress(InjectorError):  # the next trial will find out, and say so
                self.bench.ahead.make(order.guards, controllers_for(one.injector for one in order.levels))
        return outcome

    def close(self) -> None:
        """End the launcher, delete the run's folders, close the journal, say farewell to the guard.

        Raises
        ------
        NodeDirty
            If something cannot be undone; the journal keeps it.
        """
        try:
            with _errors_for_users():
                self._stack.close()
        except UndoFailed as exc:
            raise NodeDirty(exc.message, hint=exc.remedy or None) from exc
        if self.bench.journal.path.exists():  # it is deleted only when nothing is pending
            raise NodeDirty("something of this run could not be undone", hint="insitu recover")


def _undo_at_close(stack: ExitStack, journal: Journal, undos: list[Undo]) -> None:
    """Journal what is about to be made, to be undone when the stack is closed."""
    intent = journal.intend(undos)

    def undo() -> None:
        if failures := carry_out_all(undos, journal.header.ownership):
            raise NodeDirty("\n".join(failures), hint="insitu recover")
        journal.done(intent)

    stack.callback(undo)


@contextmanager
def _errors_for_users() -> Iterator[None]:
    """Without a guard or a journal nothing may be held, and without its launcher an agent is of no use."""
    try:
        yield
    except LauncherGone as exc:
        raise CannotExecute(f"the sandbox launcher ended: {exc}", hint="insitu resume RUN") from exc
    except (NoGuard, NoJournal) as exc:
        raise CannotExecute(exc.message, hint=exc.remedy) from exc


@contextmanager
def _confined(node: Node, caps: Caps, journal: Journal) -> Iterator[Confinement]:
    with ExitStack() as stack:
        try:
            confinement = stack.enter_context(confined(node, caps, journal))
        except InjectorError as exc:
            what = "the limits of this run cannot be held here"
            raise CannotExecute(f"{what}: {exc.message}", hint=exc.remedy or None) from exc
        yield confinement
