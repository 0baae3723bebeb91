"""When further trials count as bringing nothing, and when a law counts as rejected."""

from __future__ import annotations

from insitu.orchestrator.design.stopping import Look, Misfit, Stop, judge


def looks(half_widths: list[float], earlier_share: float) -> list[Look]:
    """A look after every two trials, from eight on."""
    return [Look(8 + 2 * number, half, earlier_share=earlier_share) for number, half in enumerate(half_widths)]


def test_an_interval_that_does_not_narrow_stalls() -> None:
    ruling = judge(looks([0.1] * 6, 0.0), 0.02, 0.1)
    assert ruling is not None
    assert ruling.stop is Stop.STALLED


def test_what_an_earlier_run_told_is_not_expected_to_shrink() -> None:
    """Eighteen trials beside nine times as much that was known: ten of them narrow an interval by 3 %."""
    slowly = [0.1 * (162 + 8) ** 0.5 / (162 + 8 + 2 * number) ** 0.5 for number in range(6)]
    assert judge(looks(slowly, 0.9), 0.02, 0.1) is None
    ruling = judge(looks(slowly, 0.0), 0.02, 0.1)
    assert ruling is not None
    assert ruling.stop is Stop.STALLED


def test_noise_that_was_vague_may_have_grown_by_chance() -> None:
    """With five degrees of freedom its estimate may be off by half; with four hundred it may not."""
    vague = [Look(8 + 2 * number, 0.1, df=5.0 + 2 * number) for number in range(6)]
    assert judge(vague, 0.02, 0.1) is None
    sure = [Look(400 + 160 * number, 0.1, df=395.0 + 160 * number) for number in range(6)]
    ruling = judge(sure, 0.02, 0.1)
    assert ruling is not None
    assert ruling.stop is Stop.STALLED


def test_a_law_that_holds_is_rejected_in_one_experiment_of_a_hundred_at_most() -> None:
    """At each look by less: half of 0.01 at the first, a sixth of it at the second."""
    for looks_before, allowed in ((0, 0.01 / 2), (1, 0.01 / 6)):
        before = [Look(8, 0.1)] * looks_before
        for p_value, rejected in ((0.99 * allowed, True), (1.01 * allowed, False)):
            ruling = judge([*before, Look(10, 0.1, Misfit(p_value, 0.5))], 0.02, 0.1)
            assert (ruling is not None and ruling.stop is Stop.MODEL_REJECTED) == rejected
