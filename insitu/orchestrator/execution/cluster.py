"""The only user of ray: starts a local node by itself, places one agent per node, shuts everything down.

ray's errors are translated here, once.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from insitu.injectors import neighbours, recovery, session
from insitu.injectors.confinement import NO_CAPS, Caps
from insitu.injectors.errors import NoJournal, TwinExecutes
from insitu.injectors.journal import Header, Journal, boot_id
from insitu.injectors.lease import Lease, NoGuard
from insitu.injectors.oversight import Oversight
from insitu.injectors.processes import Process, command_of
from insitu.injectors.undo import Undo, UndoKind
from insitu.orchestrator.departure import expect_crash
from insitu.orchestrator.errors import CannotExecute, InsituError, NodeDirty
from insitu.orchestrator.execution import obstacles
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import Program, TrialOrder, TrialOutcome
from insitu.orchestrator.plan.types import Guards

if TYPE_CHECKING:
    from ray.actor import ActorHandle

_QUIET: Mapping[str, str] = {
    "RAY_AUTH_MODE": "token",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS": "0",
    # despite its name the switch for the loopback address on every system: without it ray listens on all
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_DISABLE_IMPORT_WARNING": "1",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    # ray's processes rename themselves, for which they would overwrite the environment that tells whose they are
    "SPT_NOENV": "1",
}
_OBJECT_STORE_BYTES = 80 * 1024 * 1024  # the least that ray takes; only small records pass through
_DISPATCH_POLL_S = 0.5
_GO_ON = "what it held is undone; insitu resume RUN goes on"
_NOTICE = "why-the-agent-was-ended"
"""File in ray's folder, left by the agent's guard."""


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """One ray node on this machine with one agent on it; leave its context to end both."""

    _agent: ActorHandle
    _folder: Path
    _setup: AgentSetup
    _oversight: Oversight
    _control: Process
    _check: Callable[[], None]

    def make_data(self, programs: tuple[tuple[str, Program], ...], guards: Guards) -> float:
        """Make the run's data on the node; gives the seconds that it took."""
        return float(self._get(self._agent.make_data.remote(programs, guards)))

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        """Run one trial; raises what the agent raised."""
        outcome: TrialOutcome = self._get(self._agent.run.remote(order))
        return outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close(at_once=kind is not None and not issubclass(kind, InsituError))

    def _get(self, reference: Any) -> Any:
        return _get(reference, self._folder, self._setup, self._look)

    def _look(self) -> None:
        self._check()
        if not self._control.alive():
            raise CannotExecute("ray's control service on this node ended", hint=_GO_ON)
        self._oversight.look()

    def _close(self, *, at_once: bool) -> None:
        """End the agent: in order, or at once when a trial may still be running (Ctrl-C)."""
        import ray

        if not self._control.alive():  # ray would wait a minute for it, and then end this process
            expect_crash("ray")
            return
        try:
            if at_once:
                ray.kill(self._agent)
            else:
                self._get(self._agent.close.remote())
        finally:
            ray.shutdown()


@contextmanager
def local_cluster(
    run: str,
    workspace: Path,
    run_directory: Path,
    outside_writes_bytes: float = 256e6,
    caps: Caps = NO_CAPS,
    admit: Callable[[Sequence[Header]], None] = lambda _: None,
    check: Callable[[], None] = lambda: None,
) -> Iterator[LocalCluster]:
    """Start ray on loopback with a fresh token, and an agent on it.

    Parameters
    ----------
    run
        Id of the run, which marks everything that is made.
    workspace
        Folder for the trials' scratch folders.
    caps
        Most that the run may take of the node.
    admit
        Called with the other runs that execute on this node, just before this one's journal shows it; raises to
        refuse.
    check
        Called every half second while the agent is at work; raises to end that.

    Raises
    ------
    CannotExecute
        If ray or the agent does not start, or a copy of the run is executing.
    """
    folder = Path(tempfile.gettempdir()) / f"insitu-{run}-ray-{secrets.token_hex(3)}"
    command = Process.current()
    setup = AgentSetup(
        run=run,
        workspace=workspace,
        run_directory=run_directory,
        owner_pid=command.pid,
        owner_start=command.started,
        outside_writes_bytes=outside_writes_bytes,
        notice=folder / _NOTICE,
        caps=caps,
    )
    obstacles.require_short_path(folder, command.pid)
    header = Header(
        run, command.pid, command.started, boot_id(), str(setup.run_directory), session_folder=str(folder)
    )
    with _errors_for_users(), ExitStack() as stack:
        journal = stack.enter_context(neighbours.begin(header, admit))
        # a guard of its own: ray takes seconds to start, and may be killed meanwhile;
        # suspended by the user, this process holds nothing itself: its agent ends the trial at hand
        stack.enter_context(Lease(journal, endures_silence=True))
        intent = journal.intend([Undo(UndoKind.FOLDER, str(folder))])
        stack.callback(_leave, journal, intent)
        folder.mkdir(mode=0o700)
        with session.inherited(folder):
            agent = _start(folder, setup)
        oversight = Oversight(header.ownership, command, journal.path, folder / _NOTICE)
        with LocalCluster(agent, folder, setup, oversight, _control_service(folder), check) as cluster:
            yield cluster


@contextmanager
def _errors_for_users() -> Iterator[None]:
    try:
        yield
    except (NoGuard, NoJournal, TwinExecutes) as exc:
        raise CannotExecute(exc.message, hint=exc.remedy) from exc


def _leave(journal: Journal, intent: int) -> None:
    """Clear away, to the end: a first request to end may come in its midst, and has no second one follow."""
    try:
        _clear_away(journal, intent)
    except KeyboardInterrupt:
        _clear_away(journal, intent)
        raise


def _clear_away(journal: Journal, intent: int, within_s: float = 10.0) -> None:
    """See that nothing of the run is left: ray's processes and folder, and what a killed agent held.

    The agent's guard does the latter; if that has been killed, too, this command does. What another command has
    made is its own affair, though a copy of the run has the same id.
    """
    header = journal.header
    failures = session.end(Path(header.session_folder), header.ownership, quiet_rounds=1)
    if not failures:
        journal.done(intent)
    deadline = time.monotonic() + within_s
    while True:
        agents = [path for path in recovery.journals() if header.ownership.owns(path) and path != journal.path]
        found = [recovery.recover_journal(path, even_if_alive=header.owner) for path in agents]
        outcomes = [one for one in found if one.header is None or one.header.owner == header.owner]
        if all(outcome.fate is recovery.Fate.CLEAN for outcome in outcomes) or time.monotonic() > deadline:
            break
        time.sleep(0.05)
    left = [
        *failures,
        *(f"{o.journal}: {'; '.join(o.failures)}" for o in outcomes if o.fate is not recovery.Fate.CLEAN),
    ]
    if left:
        raise NodeDirty("\n".join(left), hint="insitu recover")


def _start(folder: Path, setup: AgentSetup) -> ActorHandle:
    os.environ.update(_QUIET)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # ray reads it once per process
    import ray

    try:
        with _handlers_kept():
            ray.init(
                num_cpus=1,
                num_gpus=0,
                include_dashboard=False,
                configure_logging=True,
                logging_level=logging.ERROR,
                log_to_driver=False,
                object_store_memory=_OBJECT_STORE_BYTES,
                _temp_dir=str(folder),
            )
        agent = ray.remote(num_cpus=0, max_restarts=0)(NodeAgent).remote(setup)
        _get(agent.ready.remote(), folder, setup)
    except InsituError:
        ray.shutdown()
        raise
    except Exception as exc:
        ray.shutdown()
        if (obstacle := obstacles.full_disk(folder, setup.run_directory)) is not None:
            raise obstacle from exc
        raise CannotExecute(
            f"ray does not start here: {str(exc).splitlines()[0] if str(exc) else type(exc).__name__}",
            hint="ray needs about 1 GB of free memory and a writable /dev/shm; see: insitu doctor",
        ) from exc
    except BaseException:
        ray.shutdown()
        raise
    return agent


def _control_service(folder: Path) -> Process:
    """The process that ray cannot do without, and does not start anew."""
    for process in session.members(folder):
        if any(Path(word).name == "gcs_server" for word in command_of(process.pid)[:1]):
            return process
    raise CannotExecute("ray's control service on this node does not start", hint="insitu doctor")


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Ray takes SIGTERM for a crash: it would end this process before it has undone anything."""
    if threading.current_thread() is not threading.main_thread():  # nobody may set handlers there, ray neither
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _get(reference: Any, folder: Path, setup: AgentSetup, meanwhile: Callable[[], None] = lambda: None) -> Any:
    """Wait for a result, in slices so that Ctrl-C is served; errors come back as our own."""
    import ray
    from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError, RayError, RayTaskError

    while True:
        try:
            return ray.get(reference, timeout=_DISPATCH_POLL_S)
        except GetTimeoutError:
            meanwhile()
        except RayTaskError as exc:
            if isinstance(exc.cause, InsituError):
                raise exc.cause from None
            raise
        except ActorDiedError as exc:
            if isinstance(cause := getattr(exc, "cause", None), InsituError):
                raise cause from None
            raise _agent_ended(folder, setup) from exc
        except ActorUnavailableError as exc:  # it does not answer any more; it ends, too, when we have
            raise _agent_ended(folder, setup) from exc
        except RayError as exc:
            raise CannotExecute(f"ray: {str(exc).splitlines()[0]}") from exc


def _agent_ended(folder: Path, setup: AgentSetup) -> CannotExecute:
    """Why an agent is gone: its guard leaves a notice before it ends one."""
    try:
        reason = (folder / _NOTICE).read_text()
    except OSError:
        obstacle = obstacles.full_disk(folder, setup.run_directory)
        return obstacle or CannotExecute("the agent of this node ended", hint=_GO_ON)
    return CannotExecute(f"the agent of this node was ended by its guard: {reason}", hint=_GO_ON)
