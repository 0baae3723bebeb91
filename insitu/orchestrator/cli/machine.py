"""What ``check``, ``doctor`` and ``run`` ask of this machine alike."""

from __future__ import annotations

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from insitu.orchestrator.errors import CannotExecute
    from insitu.orchestrator.experiment import Experiment
    from insitu.orchestrator.plan.inventory import Inventory

_START_S = 6.0
"""Starting and stopping ray, at worst; measured 3 to 6 s on two cores."""


@contextmanager
def probe_folder(out: Path) -> Iterator[Path]:
    """A folder on the disk that `out` would be on, made for the check and gone after it."""
    parent = existing_parent(out)
    folder = parent / f"insitu-probe-{secrets.token_hex(4)}"
    try:
        folder.mkdir()
    except OSError as exc:
        raise _no_directory(parent, exc.errno) from exc
    try:
        yield folder
    finally:
        folder.rmdir()


def look_at_parent(out: Path) -> Path:
    """As `probe_folder`, as far as looking tells: the folder that exists on the disk that `out` would be on."""
    parent = existing_parent(out)
    if os.statvfs(parent).f_flag & os.ST_RDONLY:
        raise _no_directory(parent, errno.EROFS)
    if not os.access(parent, os.W_OK | os.X_OK):
        raise _no_directory(parent, errno.EACCES)
    return parent


def _no_directory(parent: Path, number: int | None) -> CannotExecute:
    from insitu.orchestrator.errors import CannotExecute

    reason = os.strerror(number or errno.EIO)
    return CannotExecute(
        f"cannot make a run directory under {parent}: {reason}", hint="choose another place with --out"
    )


def existing_parent(out: Path) -> Path:
    """The folder that a run directory would be made in, as far as it exists.

    Raises
    ------
    InputError
        If a run directory cannot be there.
    CannotExecute
        If it is in a folder that this user may not look into.
    """
    from insitu.orchestrator.errors import CannotExecute, InputError

    parent = out.absolute()
    try:
        while not parent.is_dir():
            parent = parent.parent
    except PermissionError as exc:
        raise CannotExecute(
            f"cannot make a run directory at {out}: {exc.strerror}: {parent}",
            hint="choose another place with --out",
        ) from exc
    if any(parent.resolve().is_relative_to(hidden) for hidden in ("/dev", "/proc", "/sys")):
        raise InputError(
            f"a run directory cannot be under {parent}: the sandbox has its own /dev, /proc and /sys",
            hint="choose another place with --out",
        )
    return parent


def new_directory(folder: Path, name: str) -> Path:
    """A name for a run directory that is new, below a folder of runs."""
    return folder / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def require_state_folder(*, dry: bool = False) -> None:
    """See that a run's journals can be kept, before anything is made for it.

    Parameters
    ----------
    dry
        Only look: change nothing, not even for a moment.

    Raises
    ------
    CannotExecute
        If they cannot.
    """
    from insitu.injectors.errors import NoJournal
    from insitu.injectors.state_folder import look_over, state_folder, try_out
    from insitu.orchestrator.errors import CannotExecute

    try:
        (look_over if dry else try_out)(state_folder())
    except NoJournal as exc:
        raise CannotExecute(exc.message, hint=exc.remedy) from exc


Inventoried = Annotated[
    Path | None,
    typer.Option(
        "--inventory",
        help="What a run may take of each node.",
        show_default="/etc/insitu/inventory.yaml, else ~/.config/insitu/inventory.yaml",
    ),
]
"""The option that names an inventory."""


def inventory(chosen: Path | None) -> Inventory | None:
    """The inventory that was chosen, or the one in the usual places, if there is one."""
    from insitu.orchestrator.experiment import settable
    from insitu.orchestrator.plan.inventory import find_inventory

    return find_inventory(chosen, settable())


def try_sandbox(folder: Path) -> str:
    """Build and leave one sandbox.

    Returns
    -------
    str
        What it is made of.

    Raises
    ------
    CannotExecute
        If the kernel refuses it, with the remedy.
    """
    from insitu.orchestrator.errors import CannotExecute
    from insitu.orchestrator.execution.sandbox.trial_run import try_once

    problem = try_once(folder)
    if problem:
        hint = "run as root" if os.geteuid() else "this container lacks CAP_SYS_ADMIN"
        raise CannotExecute(
            f"the sandbox cannot be built here: {problem}",
            hint=f"{hint}, or allow user namespaces: sysctl user.max_user_namespaces=10000 "
            "kernel.apparmor_restrict_unprivileged_userns=0",
        )
    return "namespaces and overlay" if os.geteuid() == 0 else "user namespace and overlay"


@dataclass(frozen=True, slots=True)
class Expected:
    """How long a run would take; ``seconds`` is ``None`` where nothing is known but a bound."""

    seconds: float | None
    at_most_s: float
    text: str


def expected_duration(
    experiment: Experiment, runs: Path, trials: int, foreseen_s: float | None = None
) -> Expected:
    """As foreseen, else from the newest earlier run of the same plan and model under `runs`, else a bound."""
    bound = _START_S + trials * experiment.plan.guards.trial_timeout_s
    if experiment.plan.budget.time_s is not None:
        bound = min(bound, _START_S + experiment.plan.budget.time_s)
    if foreseen_s is not None:
        seconds = min(_START_S + foreseen_s, bound)
        return Expected(seconds, bound, f"about {seconds:.0f} s (by what is known), at most {bound:.0f} s")
    earlier = _earlier_durations(experiment, runs)
    if earlier:
        seconds = _START_S + trials * sum(earlier) / len(earlier)
        return Expected(seconds, bound, f"about {seconds:.0f} s (as the run before), at most {bound:.0f} s")
    return Expected(None, bound, f"at most {bound:.0f} s (an earlier run would tell more)")


def _earlier_durations(experiment: Experiment, runs: Path) -> list[float]:
    from insitu.orchestrator.errors import InsituError
    from insitu.orchestrator.store.run import RunStore

    databases = sorted(runs.glob("*/run.db"), key=lambda path: path.stat().st_mtime, reverse=True)
    for database in databases[:20]:
        try:
            with RunStore.open(database.parent, read_only=True) as store:
                same = (store.plan_source, store.model_source) == (
                    experiment.plan.plan_source,
                    experiment.plan.model_source,
                )
                durations = [t.record.duration_s for t in store.trials() if t.record] if same else []
        except InsituError:
            continue
        if durations:
            return durations
    return []
