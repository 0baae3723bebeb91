"""Brings loads about beside a trial: control groups of their own, workers in them, and what they took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from insitu.injectors import cgroups
from insitu.injectors.actuator import Host, InForce, Moment
from insitu.injectors.anomalies.client import LoadServer
from insitu.injectors.anomalies.counters import last_level_cache_bytes
from insitu.injectors.anomalies.in_force import LoadInForce
from insitu.injectors.anomalies.load import Kind, Load, Loads
from insitu.injectors.anomalies.order import StartLoad
from insitu.injectors.cgroups import GroupPlan
from insitu.injectors.contract import Node, Part, Setting
from insitu.injectors.errors import NotSettable
from insitu.injectors.journal import Journal
from insitu.injectors.steps import writes
from insitu.injectors.undo import Undo, UndoKind, carry_out_all
from insitu.injectors.writing import write_setting

_CONTROLLERS = ("cpu", "cpuacct", "io", "memory")
_WEIGHT_1, _WEIGHT_2 = 1024, 100
"""Default share of a group, versions 1 and 2."""
_MOST_1, _MOST_2 = 262_144, 10_000
_MARGIN_S = 60.0
"""What the set-up and the end of a sandbox may take on top of the trial's time limit."""


class LoadActuator:
    """Keeps a load server from trial to trial; a context manager that ends it.

    Parameters
    ----------
    folder
        On the disk that loads of the disk are to use.
    margin_s
        How long a worker may outlive the trial's time limit when everybody else hangs.

    Attributes
    ----------
    owner
        The mark that everything of it carries.
    server
        Started when the first load is.
    """

    part = Loads

    def __init__(
        self,
        node: Node,
        folder: Path,
        journal: Journal,
        *,
        margin_s: float = _MARGIN_S,
    ) -> None:
        self._node = node
        self._folder = folder
        self._margin_s = margin_s
        self.owner = journal.header.ownership
        self.server = LoadServer(journal)

    def close(self) -> None:
        """End the server."""
        self.server.close()

    def describe(self, part: Part, name: str) -> tuple[str, ...]:
        lines: list[str] = []
        for load in _loads(part):
            plan = self._group(load, name)
            lines += [f"mkdir {path}" for path in plan.paths]
            lines += writes(_weights(plan, load.workers, self._node), plan)
            if load.kind is Kind.DISK:
                lines.append(f"mkdir {self._files(load, name)}")
            lines.append(f"{load} in {_name(name, load)}")
        return tuple(lines)

    def undos(self, part: Part, name: str) -> tuple[Undo, ...]:
        undos: list[Undo] = []
        for load in _loads(part):
            plan = self._group(load, name)
            cgroups.refuse_existing(plan)
            undos.extend(Undo(UndoKind.CGROUP, str(path)) for path in plan.paths)
            if load.kind is Kind.DISK:
                undos.append(Undo(UndoKind.FOLDER, str(self._files(load, name))))
        return tuple(undos)

    @contextmanager
    def hold(self, part: Part, name: str, host: Host) -> Iterator[InForce]:
        loads, undos = _loads(part), self.undos(part, name)
        # all of them outlast the taking of memory: the first one's time runs while a later one takes it
        deadline_s = host.longest_s + self._margin_s + sum(load.taking_s for load in loads)
        with ExitStack() as stack:
            stack.callback(self._undo, undos)
            yield _AllInForce([self._start(load, name, deadline_s, host, stack) for load in loads])

    def _undo(self, undos: tuple[Undo, ...]) -> None:
        carry_out_all(undos, self.owner)  # once more, and verified, by whoever holds the trial

    def _start(self, load: Load, name: str, deadline_s: float, host: Host, stack: ExitStack) -> LoadInForce:
        plan = self._group(load, name)
        cgroups.create(plan)
        for setting in _weights(plan, load.workers, self._node):
            write_setting(setting, plan)
        folder = self._files(load, name) if load.kind is Kind.DISK else None
        if folder is not None:
            folder.mkdir(mode=0o700)
        order = StartLoad(
            load=load,
            join_files=tuple(f"{path}/cgroup.procs" for path in plan.paths),
            folder=str(folder or ""),
            deadline_s=deadline_s,
            cache_bytes=last_level_cache_bytes(),
        )
        try:
            running = self.server.start_load(order, host.meanwhile)
        except NotSettable as exc:
            raise NotSettable(f"{load.variable}: {exc.message}", exc.remedy) from exc
        stack.callback(running.end)
        in_force = LoadInForce(running, plan.directories, self._node)
        stack.callback(in_force.close)
        return in_force

    def _group(self, load: Load, name: str) -> GroupPlan:
        return cgroups.plan_group(self._node.hierarchies, _name(name, load), _CONTROLLERS)

    def _files(self, load: Load, name: str) -> Path:
        return self._folder / _name(name, load)


def _loads(part: Part) -> tuple[Load, ...]:
    if not isinstance(part, Loads):
        raise TypeError(f"{type(part).__name__} is no load")
    return part.loads


def _name(trial: str, load: Load) -> str:
    return f"{trial}-{load.kind.replace('_', '-')}"


def _weights(plan: GroupPlan, workers: int, node: Node) -> tuple[Setting, ...]:
    """Let each worker weigh as much as the subject, as it would without groups; else all together would."""
    if "cpu" not in plan.directories:
        return ()
    if node.hierarchies.version["cpu"] == 1:
        return (Setting("cpu", "cpu.shares", str(min(_WEIGHT_1 * workers, _MOST_1))),)
    return (Setting("cpu", "cpu.weight", str(min(_WEIGHT_2 * workers, _MOST_2))),)


class _AllInForce:
    """All loads of a trial."""

    def __init__(self, loads: list[LoadInForce]) -> None:
        self._loads = loads

    def columns(self) -> Mapping[str, Callable[[], float]]:
        return {name: read for load in self._loads for name, read in load.columns().items()}

    def started(self, at: float) -> None:
        for load in self._loads:
            load.started(at)

    def ended(self) -> tuple[Moment, ...]:
        return tuple(moment for load in self._loads for moment in load.ended())
