"""Whether the subject has a network, and what may shape it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from insitu.orchestrator.execution.orders import order_for
from insitu.orchestrator.plan.loading import load_plan
from insitu.orchestrator.plan.types import Plan
from insitu.orchestrator.store.records import Assignment, PlannedTrial
from tests.plan.texts import MODEL, PLAN, SETTABLE, changed

if TYPE_CHECKING:
    from tests.plan.conftest import Faults

SHAPED_MODEL = changed(
    MODEL, "  runtime: {unit: s", "  rate: {unit: Mbit/s, set_by: net.rate_in}\n  runtime: {unit: s"
)
SHAPED_PLAN = changed(PLAN, "factors:\n", "factors:\n  rate: {levels: [10 Mbit/s, 5, unlimited]}\n")


def with_network(plan: str, network: str) -> str:
    return changed(plan, "  data:\n", f"  network: {network}\n  data:\n")


def loaded(folder: Path, plan: str, model: str = MODEL) -> Plan:
    (folder / "plan.yaml").write_text(plan)
    (folder / "model.yaml").write_text(model)
    return load_plan(folder / "plan.yaml", settable=SETTABLE)


def test_rates_are_in_bits_per_second_and_bare_numbers_in_the_variable_s_unit(tmp_path: Path) -> None:
    plan = loaded(tmp_path, SHAPED_PLAN, SHAPED_MODEL)
    assert plan.factors[0].levels == (1.25e6, 0.625e6, float("inf"))


@pytest.mark.parametrize(("text", "linked"), [("host", True), ("none", False)])
def test_a_subject_has_a_network_if_the_plan_says_so(tmp_path: Path, text: str, linked: bool) -> None:
    plan = loaded(tmp_path, with_network(PLAN, text))
    assert order_for(plan, PlannedTrial(1, 1, Assignment(()))).linked == linked


def test_nothing_said_is_no_network(tmp_path: Path) -> None:
    assert not order_for(loaded(tmp_path, PLAN), PlannedTrial(1, 1, Assignment(()))).linked


def test_a_network_that_is_not_there_cannot_be_shaped(faults_of: Faults) -> None:
    (fault,) = faults_of(plan=with_network(SHAPED_PLAN, "none"), model=SHAPED_MODEL)
    assert fault.startswith("plan.yaml:5:12 the subject has no network that the factor 'rate' could shape")
    assert "network: host" in fault


def test_another_word_is_a_fault(faults_of: Faults) -> None:
    (fault,) = faults_of(plan=with_network(PLAN, "internet"))
    assert fault.startswith("plan.yaml:5:12")
