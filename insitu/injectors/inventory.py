"""Everything on this node that carries the mark of a run (``insitu-`` and its id, eight digits), by looking only.

What belongs to a run of another state folder is told by its guard, which names the run's journal in its command
line and lives as long as the run.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from insitu.injectors import session
from insitu.injectors.contract import RUN_ID
from insitu.injectors.processes import Process, all_pids, command_of, environment_of
from insitu.injectors.recovery import MARK
from insitu.injectors.state_folder import state_folder

_RUN = re.compile(rf"(?<![\w-]){MARK}({RUN_ID})(?!\w)")
"""Whatever else begins with the mark is somebody else's, such as a folder named after this program."""
_GUARD = "insitu.injectors.guard"


class Kind(StrEnum):
    """What a marked thing is."""

    GROUP = "control group"
    MOUNT = "mount"
    NETWORK = "network interface"
    PROCESS = "process"
    FOLDER = "folder"


@dataclass(frozen=True, slots=True)
class Marked:
    """One thing that carries our mark.

    Attributes
    ----------
    name
        Path, interface, mount point, or process id.
    run
        Id of the run.
    detail
        What else there is to know: the namespace, the command line.
    """

    kind: Kind
    name: str
    run: str
    detail: str = ""


def everything(folders: Iterable[Path] = ()) -> tuple[Marked, ...]:
    """All that is marked and can be seen from here; `folders` are further ones to look into."""
    found = [*control_groups(), *mounts(), *network_interfaces(), *processes(), *marked_folders(folders)]
    return tuple(sorted(found, key=lambda one: (one.run, list(Kind).index(one.kind), one.name)))


def run_of(text: str) -> str:
    """The run that a marked name speaks of, or nothing."""
    found = _RUN.search(text)
    return found[1] if found else ""


def control_groups() -> Iterator[Marked]:
    """Groups of all hierarchies, at any depth; what is below a marked one is not listed again."""
    for top in sorted({fields[4] for fields in _mount_table("self") if _type_of(fields).startswith("cgroup")}):
        for path, names, _ in os.walk(top):
            for name in [name for name in names if _is_marked(name)]:
                names.remove(name)
                yield Marked(Kind.GROUP, f"{path}/{name}", run_of(name))


def mounts() -> Iterator[Marked]:
    """Marked mounts of every namespace; those of another namespace are counted, since they end with it."""
    ours = _namespace("self", "mnt")
    for namespace, pid in _namespaces("mnt").items():
        marked = [fields for fields in _mount_table(pid) if _run_of_mount(fields)]
        if namespace == ours:
            yield from (Marked(Kind.MOUNT, fields[4], _run_of_mount(fields)) for fields in marked)
        elif marked:
            run = _run_of_mount(marked[0])
            yield Marked(Kind.MOUNT, namespace, run, f"{len(marked)} mounts in the namespace of process {pid}")


def network_interfaces() -> Iterator[Marked]:
    """Marked interfaces of every network namespace that has a process, and named namespaces."""
    ours = _namespace("self", "net")
    for namespace, pid in _namespaces("net").items():
        where = "" if namespace == ours else f"in {namespace} of process {pid}"
        yield from (Marked(Kind.NETWORK, name, run_of(name), where) for name in _interfaces(pid))
    for alias in sorted(Path("/sys/class/net").glob("*/ifalias")):
        name, text = alias.parent.name, _text(alias)
        if _is_marked(text) and not _is_marked(name):
            yield Marked(Kind.NETWORK, name, run_of(text), f"alias {text}")
    for path in filter(_is_marked_path, sorted(Path("/run/netns").glob(f"{MARK}*"))):
        yield Marked(Kind.NETWORK, str(path), run_of(path.name), "named namespace")


def processes() -> Iterator[Marked]:
    """Guards, launchers, sandboxes, a session's helpers and members of marked groups; not this process."""
    for pid in all_pids():
        command = command_of(pid)
        environment = " ".join(word for word in environment_of(pid) if word.startswith(f"{session.VARIABLE}="))
        groups = " ".join(line for line in _lines(pid, "cgroup"))
        module = command[2] if len(command) > 2 and command[1] == "-m" else ""
        run = (
            run_of(environment)
            or run_of(groups)
            or (run_of(" ".join(command)) if module.startswith("insitu.") else "")
        )
        if run and pid != os.getpid():
            yield Marked(Kind.PROCESS, str(pid), run, " ".join(command)[:100].strip())


def marked_folders(places: Iterable[Path] = ()) -> Iterator[Marked]:
    """Marked folders and files in the folder for temporary files, and in `places`."""
    for place in dict.fromkeys([Path(tempfile.gettempdir()), *places]):
        marked = filter(_is_marked_path, sorted(place.glob(f"{MARK}*")))
        yield from (Marked(Kind.FOLDER, str(path), run_of(path.name)) for path in marked)


def runs_guarded_elsewhere(folder: Path | None = None) -> frozenset[str]:
    """Runs that are alive with another state folder than `folder`."""
    here = folder or state_folder()
    runs: set[str] = set()
    for _, journal in guards():
        if journal.parent != here:
            runs.add(run_of(journal.name))
    return frozenset(runs)


def guards() -> Iterator[tuple[Process, Path]]:
    """Guards that live, each with the journal that it would undo."""
    for pid in all_pids():
        process = Process.of(pid)
        command = command_of(pid)
        journal = next((Path(word) for word in command if word.endswith(".journal")), None)
        if _GUARD in command and journal is not None and process.started:
            yield process, journal


def _is_marked(name: str) -> bool:
    """Whether a name begins with the mark of a run."""
    return _RUN.match(name) is not None


def _is_marked_path(path: Path) -> bool:
    return _is_marked(path.name)


def _run_of_mount(fields: list[str]) -> str:
    """The run that the root or the mount point of a mount speaks of, or nothing."""
    return run_of(fields[3]) or run_of(fields[4])


def _type_of(fields: list[str]) -> str:
    return fields[fields.index("-", 6) + 1]


def _mount_table(pid: str) -> list[list[str]]:
    return [line.split(" ") for line in _lines(pid, "mountinfo")]


def _interfaces(pid: str) -> list[str]:
    names = (line.partition(":")[0].strip() for line in _lines(pid, "net/dev"))
    return [name for name in names if _is_marked(name)]


def _lines(pid: int | str, file: str) -> list[str]:
    return _text(Path(f"/proc/{pid}/{file}")).splitlines()


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:  # ended, or another user's
        return ""


def _namespace(pid: int | str, kind: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""


def _namespaces(kind: str) -> dict[str, str]:
    """Namespace to one process in it; our own first."""
    found = {_namespace("self", kind): "self"}
    for pid in all_pids():
        if name := _namespace(pid, kind):
            found.setdefault(name, str(pid))
    return found
