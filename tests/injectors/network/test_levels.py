"""Achieved levels of a link, from counters as they would be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from insitu.injectors.contract import Achieved, Injector, Network, Node
from insitu.injectors.lifecycle import Verdict, verdict
from insitu.injectors.network.delays import NetDelay, NetJitter, NetLoss
from insitu.injectors.network.rates import NetRateIn
from tests.injectors.nodes import node

STEP_S = 0.025
PACKET = 1514.0
MBIT = 1e6 / 8
RATE = NetRateIn()


def link(busy: np.ndarray, level: float, share: float = 1.0) -> dict[str, np.ndarray]:
    """A link that sends whole packets at a share of its level wherever `busy`, which is per millisecond."""
    sent = np.concatenate(([0.0], np.cumsum(busy * level * share * 0.001)))
    whole = np.floor(sent / PACKET) * PACKET
    at = np.arange(0, len(sent), round(STEP_S * 1000))
    waits = np.concatenate(([False], busy.astype(bool)))[at]
    return {
        "time_s": at / 1000.0,
        "net_in_bytes": whole[at],
        "net_in_held": (sent / PACKET).round()[at],
        "net_in_waiting_bytes": np.where(waits, PACKET, 0.0),
    }


def outcome(level: float, samples: dict[str, np.ndarray]) -> tuple[Achieved, Verdict]:
    achieved = RATE.achieved(level, samples, node())
    return achieved, verdict(level, achieved, RATE)


@pytest.mark.parametrize("mbit", [1, 10, 100, 1000])
@pytest.mark.parametrize("busy_from", [0, 333, 1000])
def test_a_rate_that_was_held_is_found_over_the_time_in_which_it_was_wanted(mbit: int, busy_from: int) -> None:
    busy = np.zeros(3000)
    busy[busy_from:2500] = 1
    achieved, said = outcome(mbit * MBIT, link(busy, mbit * MBIT))
    assert said is Verdict.HELD
    assert achieved.level == pytest.approx(mbit * MBIT, rel=0.02)
    assert achieved.bound_share == pytest.approx((2500 - busy_from) / 3000, abs=0.05)


@pytest.mark.parametrize("mbit", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("busy_from", [0, 333, 1000])
def test_a_rate_at_which_a_packet_takes_longer_than_a_sample_is_found_too(mbit: float, busy_from: int) -> None:
    busy = np.zeros(4000)
    busy[busy_from:3500] = 1
    achieved, said = outcome(mbit * MBIT, link(busy, mbit * MBIT))
    assert said is Verdict.HELD
    assert achieved.level == pytest.approx(mbit * MBIT, rel=0.03)
    packets_s = 3 * PACKET / (mbit * MBIT)  # the first is through at once, and nothing waits while the last goes
    assert achieved.bound_share == pytest.approx((3500 - busy_from) / 4000, abs=0.02 + packets_s / 4)


@pytest.mark.parametrize("mbit", [0.1, 0.2, 0.4])
@pytest.mark.parametrize("share", [0.6, 2.0])
def test_a_slow_link_that_does_not_keep_its_rate_is_missed(mbit: float, share: float) -> None:
    achieved, said = outcome(mbit * MBIT, link(np.ones(8000), mbit * MBIT, share))
    assert said is Verdict.MISSED
    assert achieved.level == pytest.approx(share * mbit * MBIT, rel=0.03)


def waiting_for_a_while(length_ms: int, wall_ms: int) -> dict[str, np.ndarray]:
    busy = np.zeros(wall_ms)
    busy[:length_ms] = 1
    return link(busy, 0.1 * MBIT)


def test_a_rate_of_which_two_packets_tell_nothing_is_not_held() -> None:
    achieved, said = outcome(0.1 * MBIT, waiting_for_a_while(300, 500))
    assert said is Verdict.MISSED
    assert achieved.level is None
    assert "too few packets" in achieved.note


def test_two_packets_that_waited_in_a_long_trial_made_no_difference() -> None:
    achieved, said = outcome(0.1 * MBIT, waiting_for_a_while(300, 6000))
    assert said is Verdict.SLACK
    assert achieved.level == 0.1 * MBIT
    assert "too briefly" in achieved.note


@pytest.mark.parametrize("share", [0.5, 0.8, 0.93, 1.1])
def test_a_link_that_does_not_keep_its_rate_is_missed(share: float) -> None:
    achieved, said = outcome(10 * MBIT, link(np.ones(3000), 10 * MBIT, share))
    assert said is Verdict.MISSED
    assert achieved.level == pytest.approx(share * 10 * MBIT, rel=0.02)


@pytest.mark.parametrize(("on_ms", "off_ms"), [(10, 10), (16, 14), (30, 20), (5, 45)])
def test_bursts_with_pauses_are_not_taken_for_a_rate_that_is_missed(on_ms: int, off_ms: int) -> None:
    busy = np.array(([1.0] * on_ms + [0.0] * off_ms) * (3000 // (on_ms + off_ms)))
    achieved, said = outcome(100 * MBIT, link(busy, 100 * MBIT))
    assert said in (Verdict.SLACK, Verdict.HELD)
    assert said is Verdict.SLACK or achieved.level == pytest.approx(100 * MBIT, rel=0.1)


def in_bursts(
    level: float, every_ms: int, size_bytes: float, delay_ms: int, length_ms: int = 3000
) -> dict[str, np.ndarray]:
    """A link of which netem delays the packets below the bucket: all that are under way wait in its queue."""
    asked = np.zeros(length_ms)
    asked[::every_ms] = size_bytes
    due = np.concatenate((np.zeros(delay_ms), np.cumsum(asked)))[: length_ms + 1]
    due = np.concatenate((due, np.full(length_ms + 1 - len(due), due[-1])))
    sent = np.zeros(length_ms + 1)
    for now in range(1, length_ms + 1):
        sent[now] = min(due[now], sent[now - 1] + level * 0.001)
    at = np.arange(0, length_ms + 1, round(STEP_S * 1000))
    whole = np.floor(sent / PACKET)
    waiting = np.concatenate(([0.0], np.cumsum(asked))) - whole * PACKET
    return {
        "time_s": at / 1000.0,
        "net_in_bytes": (whole * PACKET)[at],
        "net_in_held": whole[at],
        "net_in_waiting_bytes": waiting[at],
        "net_in_passed": whole[at],
        "net_in_lost": 0.0 * at,
    }


@pytest.mark.parametrize(
    ("mbit", "every_ms", "size_bytes"), [(80, 20, 64e3), (80, 20, 128e3), (1, 50, PACKET), (0.4, 100, PACKET)]
)
def test_packets_that_the_kernel_delays_are_not_taken_for_those_that_wait_for_a_rate(
    mbit: float, every_ms: int, size_bytes: float
) -> None:
    samples = in_bursts(mbit * MBIT, every_ms, size_bytes, delay_ms=80)
    assert (samples["net_in_waiting_bytes"][1:] > 0).mean() > 0.7
    achieved, said = outcome(mbit * MBIT, samples)
    assert said is Verdict.SLACK
    assert achieved.level is not None
    assert achieved.level <= mbit * MBIT


@pytest.mark.parametrize(("mbit", "every_ms"), [(80, 20), (1, 50), (0.1, 400)])
def test_a_rate_that_delayed_packets_are_held_to_is_held(mbit: float, every_ms: int) -> None:
    wanted = 1.3 * mbit * MBIT * every_ms / 1000
    achieved, said = outcome(mbit * MBIT, in_bursts(mbit * MBIT, every_ms, wanted, delay_ms=80, length_ms=5000))
    assert said is Verdict.HELD
    assert achieved.level == pytest.approx(mbit * MBIT, rel=0.03)
    assert achieved.bound_share > 0.8


def test_a_rate_that_was_never_wanted_is_slack() -> None:
    samples = link(np.ones(3000), 10 * MBIT, 0.5)
    samples["net_in_held"][:] = 0
    samples["net_in_waiting_bytes"][:] = 0
    achieved, said = outcome(10 * MBIT, samples)
    assert said is Verdict.SLACK
    assert achieved.level == pytest.approx(5 * MBIT, rel=0.02)


def test_a_subject_without_a_processor_is_disturbed_not_slack() -> None:
    samples = link(np.ones(3000), 10 * MBIT, 0.5)
    samples["net_in_held"][:] = 0
    samples["net_in_waiting_bytes"][:] = 0
    samples["cpu_stall_s"] = 0.4 * samples["time_s"]
    samples["cpu_s"] = 0.3 * samples["time_s"]
    samples["periods"] = samples["throttled_periods"] = 0 * samples["time_s"]
    achieved, said = outcome(10 * MBIT, samples)
    assert said is Verdict.DISTURBED
    assert "processor" in achieved.note


def test_at_rest_the_level_is_what_the_link_gave_while_it_was_used() -> None:
    busy = np.zeros(3000)
    busy[1000:2000] = 1
    achieved, said = outcome(math.inf, link(busy, 80 * MBIT))
    assert said is Verdict.UNSET
    assert achieved.level == pytest.approx(80 * MBIT, rel=0.05)


def probed(
    out: np.ndarray, back: np.ndarray, lost: float = 0.0, packets: float = 10_000.0
) -> dict[str, np.ndarray]:
    """A probe each way in every other sample."""
    length = 2 * len(out) + 1
    numbers = np.arange(length)
    latest = np.maximum(numbers // 2 - (numbers % 2 == 0), 0)
    counted = (numbers + 1) // 2
    shares = numbers / (length - 1)
    columns = {"time_s": numbers * STEP_S}
    for direction, transits in (("out", out), ("in", back)):
        columns[f"net_{direction}_probes"] = counted.astype(float)
        columns[f"net_{direction}_transit_s"] = transits[np.minimum(latest, len(transits) - 1)]
        columns[f"net_{direction}_passed"] = shares * packets * (1 - lost)
        columns[f"net_{direction}_lost"] = shares * packets * lost
    return columns


BY_LINE = Network("", "", netem_problem="no netem")


def judged(injector: Injector, level: float, samples: dict[str, np.ndarray], network: Network) -> Verdict:
    import dataclasses

    here: Node = dataclasses.replace(node(), network=network)
    return verdict(level, injector.achieved(level, samples, here), injector)


@pytest.mark.parametrize(
    ("off_s", "network", "said"),
    [
        (0.0002, Network("", ""), Verdict.HELD),
        (0.0009, Network("", ""), Verdict.HELD),
        (0.003, Network("", ""), Verdict.MISSED),
        (0.0018, BY_LINE, Verdict.HELD),
        (0.004, BY_LINE, Verdict.MISSED),
    ],
)
def test_a_delay_is_compared_with_what_packets_take(off_s: float, network: Network, said: Verdict) -> None:
    generator = np.random.default_rng(3)
    out, back = (0.01 + off_s / 2 + generator.exponential(3e-5, 60) for _ in range(2))
    assert judged(NetDelay(), 0.02, probed(out, back), network) is said


def test_a_delay_is_told_from_the_jitter_above_it() -> None:
    generator = np.random.default_rng(4)
    out, back = np.full(80, 0.025), 0.025 + generator.uniform(0, 0.02, 80)
    samples = probed(out, back)
    achieved = NetDelay().achieved(0.05, samples, node())
    assert achieved.level == pytest.approx(0.05, abs=0.003)
    assert NetJitter().achieved(0.02, samples, node()).level == pytest.approx(0.02, rel=0.25)
    assert judged(NetJitter(), 0.02, samples, Network("", "")) is Verdict.HELD
    assert judged(NetJitter(), 0.06, samples, Network("", "")) is Verdict.MISSED


def test_packets_that_are_late_now_and_then_disturb() -> None:
    out = np.full(60, 0.01)
    out[::3] += 0.02
    assert judged(NetDelay(), 0.02, probed(out, np.full(60, 0.01)), BY_LINE) is Verdict.DISTURBED


@pytest.mark.parametrize(("asked", "was", "said"), [(0.01, 0.0105, Verdict.HELD), (0.01, 0.03, Verdict.MISSED)])
def test_losses_are_those_that_were_counted(asked: float, was: float, said: Verdict) -> None:
    samples = probed(np.full(9, 0.01), np.full(9, 0.01), lost=was)
    assert judged(NetLoss(), asked, samples, BY_LINE) is said
    achieved = NetLoss().achieved(asked, samples, node())
    assert achieved.level == pytest.approx(was)


def test_few_packets_say_little_of_losses() -> None:
    samples = probed(np.full(9, 0.01), np.full(9, 0.01), lost=0.03, packets=50)
    assert NetLoss().achieved(0.01, samples, node()).uncertainty > 0.02


@pytest.mark.parametrize(("injector", "probes"), [(NetDelay(), 1), (NetDelay(), 2), (NetJitter(), 11)])
def test_a_level_that_too_few_probes_tell_of_is_no_level_to_fit(injector: Injector, probes: int) -> None:
    samples = probed(np.full(probes, 0.01), np.full(probes, 0.01))
    achieved = injector.achieved(0.1, samples, node())
    assert achieved.level is None
    assert verdict(0.1, achieved, injector) is Verdict.DISTURBED
    assert "longer" in achieved.note
    assert judged(injector, 0.0, samples, BY_LINE) is Verdict.UNSET


def test_losses_on_a_link_that_nothing_crossed_made_no_difference() -> None:
    samples = probed(np.full(9, 0.01), np.full(9, 0.01), packets=0)
    assert judged(NetLoss(), 0.1, samples, BY_LINE) is Verdict.SLACK


@pytest.mark.parametrize("count", [12, 20, 60])
def test_a_jitter_is_estimated_without_bias_from_few_probes(count: int) -> None:
    generator = np.random.default_rng(5)
    trials = [probed(np.full(count, 0.025), generator.uniform(0.025, 0.045, count)) for _ in range(400)]
    widths_s = [NetJitter().achieved(0.02, samples, node()).level for samples in trials]
    assert np.array(widths_s, dtype=float).mean() == pytest.approx(0.02, rel=0.025)
    missed = [judged(NetJitter(), 0.02, samples, BY_LINE) is Verdict.MISSED for samples in trials]
    assert np.mean(missed) < 0.05
