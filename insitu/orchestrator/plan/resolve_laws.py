"""The laws of a model document, with what is said about each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.model_types import LawText, Role, Variable
from insitu.orchestrator.plan.priors import resolve_prior
from insitu.orchestrator.plan.schema import LawDocument

_OF_TRIALS = ("noise", "fit", "quantile")
"""Keys about how trials spread, and what is made of them: of no use where there is no measurement."""


def resolve_laws(
    node: located.Mapping | None,
    documents: Mapping[str, LawDocument],
    variables: Mapping[str, Variable],
    faults: FaultList,
    kept: Mapping[str, str] | None,
) -> tuple[LawText, ...]:
    """Check what is said about the laws; their text is parsed later, by ``causal``.

    Parameters
    ----------
    kept
        As for `insitu.orchestrator.plan.priors.resolve_prior`.
    """
    return tuple(
        _law(entry, text, documents[entry.key.text or ""], variables.get(entry.key.text or ""), faults, kept)
        for entry in (node.entries if node else ())
        if entry.key.text in documents
        for text in _texts(entry, faults)
    )


def _texts(entry: located.Entry, faults: FaultList) -> Iterator[located.Scalar]:
    """Where the right side stands: as the value, or under ``law``."""
    value = entry.value
    if isinstance(value, located.Mapping):
        inner = value.entry("law")
        value = inner.value if inner else value
    if not isinstance(value, located.Scalar):
        return
    if not value.raw.strip():
        faults.at(value, f"the law of '{entry.key.text}' is empty", "as in: a * input_size / cpu_cores")
        return
    yield value


def _law(
    entry: located.Entry,
    text: located.Scalar,
    document: LawDocument,
    variable: Variable | None,
    faults: FaultList,
    kept: Mapping[str, str] | None,
) -> LawText:
    name = entry.key.text or ""
    keys = {one.key.text: one for one in entry.value.entries} if isinstance(entry.value, located.Mapping) else {}
    if variable is not None and variable.role is Role.LATENT:
        for key in _OF_TRIALS:
            if key in keys:
                message = f"'{name}' is latent, so no trial shows how it spreads"
                faults.at(keys[key].key, message, f"give '{key}' to the measured variables that follow from it")
    _check_method(document, keys, faults)
    prior = None
    if document.prior is not None:
        prior = resolve_prior(name, keys["prior"].value, document.prior, faults, kept)
    return LawText(
        variable=name,
        text=text.raw,
        line=text.raw_line,
        column=text.raw_column,
        link=Link(document.link),
        noise=Noise(document.noise),
        method=Method(document.fit),
        quantile=0.5 if document.quantile is None else document.quantile,
        prior=prior,
    )


def _check_method(document: LawDocument, keys: Mapping[str | None, located.Entry], faults: FaultList) -> None:
    method = Method(document.fit)
    given = keys.get("quantile")
    if method is Method.QUANTILE and (given is None or located.plain(given.value) is None):
        faults.at(keys["fit"].value, "it is not said which quantile the law gives", "add quantile: 0.95")
    elif method is not Method.QUANTILE and document.quantile is not None:
        faults.at(keys["quantile"].key, "a quantile belongs to fit: quantile", "add that, or leave this out")
