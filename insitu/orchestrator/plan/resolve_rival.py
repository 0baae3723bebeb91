"""The rival of a comparison: a second law of an outcome, as a plan has it."""

from __future__ import annotations

from dataclasses import dataclass

from insitu.orchestrator.plan import located
from insitu.orchestrator.plan.law_kinds import Link, Method, Noise
from insitu.orchestrator.plan.located import FaultList
from insitu.orchestrator.plan.model_types import LawText, ParameterText
from insitu.orchestrator.plan.resolve_model import ResolvedModel, check_name
from insitu.orchestrator.plan.resolve_parameters import resolve_parameters
from insitu.orchestrator.plan.schema import RivalDocument


@dataclass(frozen=True, slots=True)
class Rival:
    """A law that is not the model's, and what is said of its parameters."""

    law: LawText
    parameters: tuple[ParameterText, ...]


def resolve_rival(
    node: located.Node, document: RivalDocument, outcome: str, model: ResolvedModel, faults: FaultList
) -> Rival | None:
    """Take what a plan says of a rival; its text is parsed later, by ``causal``, as those of the model are.

    What it does not say of its link and its noise is as of the model's law.
    """
    entries = {entry.key.text: entry for entry in node.entries} if isinstance(node, located.Mapping) else {}
    text = entries["law"].value if "law" in entries else node
    if not isinstance(text, located.Scalar):
        return None  # reported with the schema's faults
    if not text.raw.strip():
        faults.at(text, "the rival is empty", "as in: a * input_size / cpu_cores")
        return None
    own = next((law for law in model.text.laws if law.variable == outcome), None)
    if own is not None and own.method is not Method.LEAST_SQUARES:
        message = f"a comparison asks how likely trials are, which 'fit: {own.method}' of '{outcome}' does not say"
        faults.at(text, message, "leave that out of the model")
    listed = entries["parameters"].value if "parameters" in entries else None
    parameters = resolve_parameters(
        listed if isinstance(listed, located.Mapping) else None,
        document.parameters,
        model.declared,
        lambda entry, what: check_name(entry, what, faults),
        faults,
    )
    law = LawText(
        variable=outcome,
        text=text.raw,
        line=text.raw_line,
        column=text.raw_column,
        link=Link(document.link or (own.link if own is not None else Link.IDENTITY)),
        noise=Noise(document.noise or (own.noise if own is not None else Noise.NORMAL)),
    )
    return Rival(law, parameters)
