"""What an earlier run found, as the prior of a law: the file is found and looked at, not understood.

Of a file that a stranger sent, nothing is executed: it is text, and JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.plan.located import FaultList, Node
from insitu.orchestrator.plan.model_types import PriorText
from insitu.orchestrator.plan.regular_file import read_regular

FITTED = "fitted.json"
"""Where a run directory has its fitted laws."""
MAX_BYTES = 64 * 1024 * 1024

_FORMAT = "insitu-fit"


def resolve_prior(
    variable: str, node: Node, named: str, faults: FaultList, kept: Mapping[str, str] | None
) -> PriorText | None:
    """Read the fitted law that a model names as a prior; ``None`` with a fault.

    Parameters
    ----------
    named
        The path, of a run directory or of a ``fitted.json``, relative to the model's folder.
    kept
        Variable to the text that a run directory keeps of its prior, in the place of the files; ``None`` to read
        the files.
    """
    if kept is not None:
        path = faults.path.parent / named
        if variable not in kept:
            message = f"the run keeps no copy of the prior of '{variable}'"
            faults.at(node, message, "start the plan anew, where the prior's file is")
            return None
        source = kept[variable]
    else:
        path = _file(faults.path.parent / named)
        found = _read(path, node, faults)
        if found is None:
            return None
        source = found
    problem = _problem(source, variable)
    if problem is not None:
        faults.at(node, f"{path} {problem[0]}", problem[1])
        return None
    return PriorText(variable, path, source, node.line, node.column)


def _file(path: Path) -> Path:
    return path / FITTED if path.is_dir() else path


def _read(path: Path, node: Node, faults: FaultList) -> str | None:
    try:
        if path.exists() and not path.is_file():
            faults.at(node, f"{path} is not a regular file", "name a run directory, or its fitted.json")
            return None
        content = read_regular(path, MAX_BYTES)
    except FileNotFoundError:
        if path.name == FITTED and path.parent.is_dir():
            faults.at(node, f"{path.parent} has no fitted law yet", "`insitu show` says why")
        else:
            hint = "name a run directory, or its fitted.json, relative to this file"
            faults.at(node, f"there is no {path}", hint)
        return None
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        faults.at(node, f"{path} cannot be read: {reason}", "check the path and its permissions")
        return None
    if len(content) > MAX_BYTES:
        faults.at(node, f"{path} is larger than {MAX_BYTES // 1024**2} MiB", "is this the right file?")
        return None
    return content.decode("utf-8", "replace")


def _problem(source: str, variable: str) -> tuple[str, str | None] | None:
    """What is wrong with the text as a prior of a variable's law, and what to do."""
    try:
        document = json.loads(source)
    except (ValueError, RecursionError):
        return "is not JSON", "name a run directory, or its fitted.json"
    fits = document.get("fits") if isinstance(document, dict) and document.get("format") == _FORMAT else None
    if not isinstance(fits, list):
        return "is not a file of fitted laws", "name a run directory, or its fitted.json"
    outcomes = [str(one.get("outcome")) for one in fits if isinstance(one, dict)]
    if variable not in outcomes:
        return f"has no fitted law of '{variable}'", suggest(variable, outcomes)
    return None
