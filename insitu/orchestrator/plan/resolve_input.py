"""Variables that are always at some level, such as what of the subject's input is in memory."""

from __future__ import annotations

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.resolve_model import ResolvedModel
from insitu.orchestrator.plan.types import Role

_INPUT_IN_MEMORY = "cache.page"


def check_input(
    subject: located.Node | None, factors: located.Mapping, model: ResolvedModel, faults: FaultList
) -> None:
    """Report a variable without a level, and an input that there is none of or that two keys decide about."""
    for variable in model.text.variables.values():
        if variable.role is not Role.SET or variable.rest is not None:
            continue
        entry = factors.entry(variable.name)
        if entry is None:
            source = variable.source
            example = next(iter(variable.settable.words if variable.settable else ()), "...")
            faults.at(
                factors,
                f"'{variable.name}' must be a factor: {source} is always at some level",
                f"add {variable.name}: {{levels: [{example}]}}",
            )
        elif variable.source == _INPUT_IN_MEMORY and isinstance(subject, located.Mapping):
            _check_subject(subject, entry, faults)


def _check_subject(subject: located.Mapping, factor: located.Entry, faults: FaultList) -> None:
    if (key := subject.entry("page_cache")) is not None:
        faults.at(
            key.key,
            f"'page_cache' and the factor '{factor.key.text}' both say what of the input is in memory",
            "keep the factor",
        )
    if subject.entry("prepare") is None:
        faults.at(
            factor.key,
            f"'{factor.key.text}' is about {{scratch}}/in, but there is no prepare that makes it",
            "add prepare to the subject",
        )
