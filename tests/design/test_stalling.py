"""When further trials count as bringing nothing."""

from __future__ import annotations

from insitu.orchestrator.design.stopping import Look, Stop, judge


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
