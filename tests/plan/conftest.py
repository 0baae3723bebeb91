from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from insitu.orchestrator.errors import FaultyFile
from insitu.orchestrator.plan.loading import load_plan
from tests.plan.texts import MODEL, PLAN, SETTABLE

Faults = Callable[..., list[str]]


@pytest.fixture
def faults_of(tmp_path: Path) -> Faults:
    """Load a plan and a model, and return ``file:line:column message`` of every fault, with hints apart."""

    def load(plan: str = PLAN, model: str = MODEL) -> list[str]:
        (tmp_path / "plan.yaml").write_text(plan, encoding="utf-8")
        (tmp_path / "model.yaml").write_text(model, encoding="utf-8")
        with pytest.raises(FaultyFile) as caught:
            load_plan(tmp_path / "plan.yaml", settable=SETTABLE, designs=["factorial"])
        return [
            f"{fault.path.name}:{fault.line}:{fault.column} {fault.message} | {fault.hint}"
            for fault in caught.value.faults
        ]

    return load
