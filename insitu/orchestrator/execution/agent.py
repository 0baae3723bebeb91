"""The agent of one node: keeps a launcher, a journal and a guard ready, and runs trials one at a time."""

from __future__ import annotations

import platform
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from insitu.injectors import guard
from insitu.injectors.errors import InjectorError
from insitu.injectors.journal import Header, Journal, boot_id, state_folder
from insitu.injectors.node import survey
from insitu.injectors.undo import Undo, UndoKind, carry_out
from insitu.orchestrator.errors import CannotExecute, NodeDirty
from insitu.orchestrator.execution import trial
from insitu.orchestrator.execution.orders import Program, TrialOrder, TrialOutcome
from insitu.orchestrator.execution.sandbox.client import Launcher, LauncherGone
from insitu.orchestrator.execution.workspace import TrialFolder
from insitu.orchestrator.plan.types import Guards


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What an agent needs to know to begin.

    Attributes
    ----------
    workspace
        Folder for trial folders; must be on the disk that throttles are to act on.
    owner_pid, owner_start
        The process on whose end everything is undone.
    ray_folder
        Of ray's own files, which the guard deletes if the owner is gone; ``None`` without ray.
    """

    run: str
    workspace: Path
    run_directory: Path
    owner_pid: int
    owner_start: str
    ray_folder: Path | None = None


class NodeAgent:
    """Runs trials on the node that it is made on. Call `close` at the end."""

    def __init__(self, setup: AgentSetup) -> None:
        self._setup = setup
        with ExitStack() as stack:
            header = Header(
                run=setup.run,
                owner_pid=setup.owner_pid,
                owner_start=setup.owner_start,
                boot=boot_id(),
                run_directory=str(setup.run_directory),
                session_folder=str(setup.ray_folder or ""),
            )
            journal = stack.enter_context(Journal(state_folder(), header))
            mark = header.ownership.prefix
            setup.workspace.mkdir(parents=True, exist_ok=True)
            data = setup.workspace / f"{mark}-data"
            self._intent = journal.intend([Undo(UndoKind.FOLDER, str(data))])
            data.mkdir(exist_ok=True)
            self._guard = stack.enter_context(self._start_guard(journal))
            launcher = stack.enter_context(Launcher())
            node = survey(setup.workspace)
            self.bench = trial.Bench(node, journal, launcher, setup.workspace, data, platform.node())
            self._stack = stack.pop_all()

    def _start_guard(self, journal: Journal) -> guard.Lease:
        return guard.start(journal.path, self._setup.owner_pid, self._setup.owner_start)

    def ready(self) -> str:
        """Name of the node, once everything stands."""
        return self.bench.name

    def make_data(self, programs: tuple[tuple[str, Program], ...], guards: Guards) -> float:
        """Execute the commands that make the run's data, in the sandbox; gives the seconds that it took.

        Raises
        ------
        CannotExecute
            If one of them fails.
        """
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
        """
        if not self._guard.alive():  # somebody ended it: no trial without one
            self._guard = self._stack.enter_context(self._start_guard(self.bench.journal))
        try:
            return trial.execute(self.bench, order)
        except LauncherGone as exc:
            raise CannotExecute(f"the sandbox launcher ended: {exc}", hint="insitu resume RUN") from exc

    def close(self) -> None:
        """End the launcher, delete the data, say farewell to the guard, close the journal.

        Raises
        ------
        NodeDirty
            If the data cannot be deleted.
        """
        with self._stack:
            try:
                carry_out(Undo(UndoKind.FOLDER, str(self.bench.data)), self.bench.journal.header.ownership)
            except InjectorError as exc:
                raise NodeDirty(exc.message, hint=exc.remedy or None) from exc
            self.bench.journal.done(self._intent)
