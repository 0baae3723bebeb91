"""The only user of ray: starts a local node by itself, places one agent per node, shuts everything down.

ray's errors are translated here, once.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from insitu.injectors import guard
from insitu.injectors.journal import Header, Journal, boot_id, state_folder
from insitu.injectors.undo import start_time
from insitu.orchestrator.errors import CannotExecute, InsituError
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
}
_OBJECT_STORE_BYTES = 80 * 1024 * 1024  # the least that ray takes; only small records pass through
_DISPATCH_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """One ray node on this machine with one agent on it; leave its context to end both."""

    _agent: ActorHandle
    run: str

    def make_data(self, programs: tuple[tuple[str, Program], ...], guards: Guards) -> float:
        """Make the run's data on the node; gives the seconds that it took."""
        return float(_get(self._agent.make_data.remote(programs, guards)))

    def run_trial(self, order: TrialOrder) -> TrialOutcome:
        """Run one trial; raises what the agent raised."""
        outcome: TrialOutcome = _get(self._agent.run.remote(order))
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

    def _close(self, *, at_once: bool) -> None:
        """End the agent: in order, or at once when a trial may still be running (Ctrl-C)."""
        import ray

        try:
            if at_once:
                ray.kill(self._agent)
            else:
                _get(self._agent.close.remote())
        finally:
            ray.shutdown()
            _wait_for_guard(self.run)


def _wait_for_guard(run: str, within_s: float = 10.0) -> None:
    """After an agent was killed, its guard undoes what is left; be there until it has."""
    deadline = time.monotonic() + within_s
    own = f"insitu-{run}-{os.getpid()}.journal"
    while (
        any(p.name != own for p in state_folder().glob(f"insitu-{run}-*.journal")) and time.monotonic() < deadline
    ):
        time.sleep(0.05)


@contextmanager
def local_cluster(
    run: str, workspace: Path, run_directory: Path, outside_writes_bytes: float = 256e6
) -> Iterator[LocalCluster]:
    """Start ray on loopback with a fresh token, and an agent on it.

    Parameters
    ----------
    run
        Id of the run, which marks everything that is made.
    workspace
        Folder for the trials' scratch folders.

    Raises
    ------
    CannotExecute
        If ray or the agent does not start.
    """
    folder = Path(tempfile.gettempdir()) / f"insitu-{run}-ray-{secrets.token_hex(3)}"
    pid = os.getpid()
    header = Header(run, pid, start_time(pid), boot_id(), str(run_directory), session_folder=str(folder))
    setup = AgentSetup(
        run=run,
        workspace=workspace,
        run_directory=run_directory,
        owner_pid=header.owner_pid,
        owner_start=header.owner_start,
        outside_writes_bytes=outside_writes_bytes,
    )
    with ExitStack() as stack:  # a guard of its own: ray takes seconds to start, and may be killed meanwhile
        journal = stack.enter_context(Journal(state_folder(), header))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stack.enter_context(guard.start(journal.path, header.owner_pid, header.owner_start))
        folder.mkdir(mode=0o700)
        with LocalCluster(_start(folder, setup), run) as cluster:
            yield cluster


def _start(folder: Path, setup: AgentSetup) -> ActorHandle:
    os.environ.update(_QUIET)
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # ray reads it once per process
    import ray

    try:
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
        _get(agent.ready.remote())
    except InsituError:
        ray.shutdown()
        raise
    except Exception as exc:
        ray.shutdown()
        raise CannotExecute(
            f"ray does not start here: {str(exc).splitlines()[0] if str(exc) else type(exc).__name__}",
            hint="ray needs about 1 GB of free memory and a writable /dev/shm; see: insitu doctor",
        ) from exc
    except BaseException:
        ray.shutdown()
        raise
    return agent


def _get(reference: Any) -> Any:
    """Wait for a result, in slices so that Ctrl-C is served; errors come back as our own."""
    import ray
    from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RayTaskError

    while True:
        try:
            return ray.get(reference, timeout=_DISPATCH_POLL_S)
        except GetTimeoutError:
            continue
        except RayTaskError as exc:
            if isinstance(exc.cause, InsituError):
                raise exc.cause from None
            raise
        except ActorDiedError as exc:
            if isinstance(cause := getattr(exc, "cause", None), InsituError):
                raise cause from None
            raise CannotExecute(
                "the agent of this node ended", hint="its node is clean again; insitu resume RUN goes on"
            ) from exc
        except RayError as exc:
            raise CannotExecute(f"ray: {str(exc).splitlines()[0]}") from exc
