"""Small models for the tests of laws, without a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from insitu.orchestrator.causal.blueprint import build_blueprint
from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.errors import FaultyFile
from insitu.orchestrator.plan.types import Category, Constant, LawText, ModelText, ParameterText, Role, Variable

VARIABLES = (
    Variable("size", "B", Role.PARAMETER),
    Variable("kind", "", Role.PARAMETER, categories=(Category("ssd"), Category("hdd"), Category("nvme"))),
    Variable("rate", "B/s", Role.SET, "disk.read_rate"),
    Variable("cores", "core", Role.SET, "cpu.cores"),
    Variable("machine", "", Role.MEASURED, "node", categories=(Category("n1"), Category("n2"))),
    Variable("cpu", "s", Role.MEASURED, "cpu_time"),
    Variable("wait", "s", Role.LATENT),
    Variable("runtime", "s", Role.MEASURED, "wall_time"),
)
CONSTANTS = (Constant("block", 1e6, (("B", 1.0),)),)


def model_of(*laws: str | LawText, parameters: tuple[ParameterText, ...] = ()) -> ModelText:
    """A model of `VARIABLES` with laws written ``variable: right side``, one on each line."""
    texts = []
    for line, law in enumerate(laws, start=1):
        if isinstance(law, str):
            name, _, text = law.partition(": ")
            law = LawText(name, text, line, len(name) + 3)
        texts.append(law)
    given = {text.variable for text in texts}
    variables = {v.name: v for v in VARIABLES if v.role is not Role.LATENT or v.name in given}
    return ModelText(Path("model.yaml"), variables, tuple(texts), parameters, CONSTANTS)


def law_of(text: str, parameters: tuple[ParameterText, ...] = ()) -> Law:
    """The law of the running time with that right side."""
    return build_blueprint(model_of(f"runtime: {text}", parameters=parameters)).laws["runtime"]


def faults_of(model: ModelText) -> list[str]:
    """``line:column message`` of every fault of a model."""
    with pytest.raises(FaultyFile) as caught:
        build_blueprint(model)
    return [f"{f.line}:{f.column} {f.message}" for f in caught.value.faults]
