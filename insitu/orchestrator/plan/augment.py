"""Trials of an earlier run that a plan goes on from: what that run found is the prior of every law.

A prior holds what the trials of a law say of its parameters, so it stands in for them where trials are chosen and
where laws are fitted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.located import FaultList, Node
from insitu.orchestrator.plan.model_types import LawText, ModelText, PriorText
from insitu.orchestrator.plan.priors import FITTED, MAX_BYTES, resolve_prior
from insitu.orchestrator.plan.reading import decode, read_document, read_file, read_root
from insitu.orchestrator.plan.regular_file import read_regular
from insitu.orchestrator.plan.schema import (
    MODEL_REQUIRED,
    PLAN_REQUIRED,
    LawDocument,
    ModelDocument,
    PlanDocument,
    VariableDocument,
)

D = TypeVar("D", bound=BaseModel)


def augment(
    text: ModelText,
    source: str,
    plan: PlanDocument,
    named: str,
    node: Node,
    faults: FaultList,
    kept: Mapping[str, str] | None,
) -> ModelText:
    """Give each law what an earlier run found of it; the model as it is, with a fault, where that cannot be.

    Parameters
    ----------
    source
        The text of the model.
    named
        The run directory, relative to the plan's folder.
    kept
        As of `insitu.orchestrator.plan.priors.resolve_prior`.
    """
    run = faults.path.parent / named
    if kept is not None:
        laws = tuple(
            _with(law, run / FITTED, kept[law.variable], node) for law in text.laws if law.variable in kept
        )
        return _replaced(text, laws)
    for law in text.laws:
        if law.prior is not None:
            message = f"the law of '{law.variable}' has a prior of its own beside what {run} found"
            faults.at(node, message, "leave one of them out; what a run found includes its own prior")
            return text
    if not _is_like(run, source, plan, node, faults):
        return text
    told = [law for law in text.laws if law.variable in _outcomes(run / FITTED)] or list(text.laws[:1])
    priors = [(law, resolve_prior(law.variable, node, named, faults, None)) for law in told]
    return _replaced(text, tuple(replace(law, prior=prior) for law, prior in priors))


def _with(law: LawText, path: Path, source: str, node: Node) -> LawText:
    return replace(law, prior=PriorText(law.variable, path, source, node.line, node.column))


def _replaced(text: ModelText, laws: tuple[LawText, ...]) -> ModelText:
    fresh = {law.variable: law for law in laws}
    return replace(text, laws=tuple(fresh.get(law.variable, law) for law in text.laws))


def _outcomes(path: Path) -> set[str]:
    """Variables whose laws a file has; none if it cannot be read, which is then found out for the first law."""
    try:
        fits = json.loads(read_regular(path, MAX_BYTES))["fits"]
        return {str(one["outcome"]) for one in fits}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()


def _is_like(run: Path, source: str, plan: PlanDocument, node: Node, faults: FaultList) -> bool:
    """Whether a run had this subject and this model; else, a fault says what differs."""
    theirs, ours = _document(run / "plan.yaml", PlanDocument, PLAN_REQUIRED), plan
    model = _document(run / "model.yaml", ModelDocument, MODEL_REQUIRED)
    own = _parsed(source, run, ModelDocument, MODEL_REQUIRED)
    if theirs is None or model is None:
        faults.at(node, f"{run} is not the directory of a run", "name one, relative to this file")
        return False
    differing = [] if theirs.subject == ours.subject else ["the subject"]
    differing += _differing(own, model) if own is not None else []
    if differing:
        what = differing[0] if len(differing) == 1 else f"{', '.join(differing[:-1])} and {differing[-1]}"
        remedy = "trials can be added to a run of the same subject and model only"
        faults.at(node, f"{run} differs from this plan in {what}", remedy)
    return not differing


def _document(path: Path, kind: type[D], required: tuple[str, ...]) -> D | None:
    try:
        content = read_file(path, "run's")
    except InputError:
        return None
    return _parsed(content.decode("utf-8", "replace"), path, kind, required)


def _parsed(source: str, path: Path, kind: type[D], required: tuple[str, ...]) -> D | None:
    """Read a text whose faults are reported elsewhere, or are those of a run that was executed."""
    faults = FaultList(path)
    root = read_root(decode(source.encode("utf-8", "replace"), faults), "file", faults)
    return read_document(root, kind, required, faults) if root is not None else None


def _differing(ours: ModelDocument, theirs: ModelDocument) -> Iterator[str]:
    """Where two models are not the same; levels and priors may be others."""
    variables = _variables(ours), _variables(theirs)
    for name in dict.fromkeys([*variables[0], *variables[1]]):
        if variables[0].get(name) != variables[1].get(name):
            yield f"the variable '{name}'"
    laws = _laws(ours), _laws(theirs)
    for name in dict.fromkeys([*laws[0], *laws[1]]):
        if laws[0].get(name) != laws[1].get(name):
            yield f"the law of '{name}'"
    for part in ("parameters", "constants", "confounded"):
        if getattr(ours, part) != getattr(theirs, part):
            yield f"its {part}"


def _laws(model: ModelDocument) -> dict[str, LawDocument]:
    return {name: law.model_copy(update={"prior": None}) for name, law in (model.laws or {}).items()}


def _variables(model: ModelDocument) -> dict[str, VariableDocument]:
    levels = dict.fromkeys(("levels", "range", "points"), None)
    return {
        name: one.model_copy(update={**levels, "scale": "linear"}) for name, one in (model.variables or {}).items()
    }
