"""Links that the kernel itself delays and loses packets of; other kernels get a process that does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from insitu.injectors.network import addresses, support
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.delays import NetDelay
from insitu.injectors.network.link import Link
from insitu.injectors.processes import start_time
from insitu.orchestrator.execution.agent import AgentSetup, NodeAgent
from insitu.orchestrator.execution.orders import SetLevel
from insitu.orchestrator.store.records import LevelVerdict
from tests.execution.test_trials import order
from tests.injectors.network import hosts
from tests.injectors.network.linked import linked

MBIT = 1e6 / 8

TRIPS = """
import socket, sys, time
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.connect(("127.0.0.1", int(sys.argv[1])))
    s.settimeout(float(sys.argv[3]))
    for _ in range(int(sys.argv[2])):
        begin = time.monotonic()
        s.send(b"there and back")
        try:
            s.recv(100)
        except TimeoutError:
            continue
        print(time.monotonic() - begin)
"""

pytestmark = pytest.mark.root


def test_the_kernel_has_netem() -> None:
    assert support.examine().netem_problem == ""


def test_no_packet_is_back_before_its_delay_is_over() -> None:
    with hosts.answering(bytes) as port, linked(Link(delay=0.06)) as here:
        for netlink in (here.subject, here.gateway):
            means = {handle: state.mean_s for handle, state in rt.delays(netlink, addresses.LINK_INDEX).items()}
            assert means == pytest.approx({rt.SHAPED: 0.03, rt.PROBES: 0.03}, abs=1e-6)
        trips_s = list(map(float, here.run(TRIPS, str(port), "5", "10").split()))
    assert len(trips_s) == 5
    assert min(trips_s) >= 0.06


def test_a_delayed_link_has_its_rate_too() -> None:
    with linked(Link(rate_out=10 * MBIT, delay=0.01)) as here:
        state = rt.classes(here.subject, addresses.LINK_INDEX)[rt.SHAPED]
        assert state.rate_bytes_per_s == 10 * MBIT
        assert rt.delays(here.subject, addresses.LINK_INDEX)[rt.SHAPED].mean_s == pytest.approx(0.005, abs=1e-6)


def test_what_is_lost_is_counted_and_does_not_come_back() -> None:
    sent = 100
    with hosts.answering(bytes) as port, linked(Link(loss=0.5)) as here:
        back = len(here.run(TRIPS, str(port), str(sent), "0.02").split())
        ways = [rt.delays(netlink, addresses.LINK_INDEX)[rt.SHAPED] for netlink in (here.subject, here.gateway)]
    out, home = ways
    assert out.passed_packets + out.lost_packets == sent
    assert 0 < home.lost_packets < out.passed_packets
    assert 0.3 < out.lost_packets / sent < 0.7
    assert back <= home.passed_packets


FLOOD = """
import socket, sys
for _ in range(3):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for _ in range(200):
            s.sendto(b"x", (sys.argv[1], 9))
"""


def test_what_waits_for_a_rate_is_not_counted_as_lost() -> None:
    with linked(Link(rate_out=0.1 * MBIT, loss=0.0)) as here:
        here.run(FLOOD, str(addresses.GATEWAY.ip))
        out = rt.delays(here.subject, addresses.LINK_INDEX)[rt.SHAPED]
    assert out.lost_packets == 0
    assert out.passed_packets >= 600


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[NodeAgent]:
    run = f"netem{os.getpid()}"
    setup = AgentSetup(run, tmp_path / "work", tmp_path / "run", os.getpid(), start_time(os.getpid()))
    with closing(NodeAgent(setup)) as agent:
        yield agent


def test_the_delay_of_a_trial_is_held_by_the_kernel(agent: NodeAgent) -> None:
    with hosts.answering(bytes) as port:
        level = SetLevel("delay", "net.delay", "s", 0.05)
        record = agent.run(order("{python}", "-c", TRIPS, str(port), "20", "10", levels=(level,))).record
    assert record.exit_status == 0, record.reasons
    (delay,) = record.levels
    assert delay.mechanism == "link.netem"
    assert delay.verdict in (LevelVerdict.HELD, LevelVerdict.DISTURBED), record
    assert delay.achieved is not None
    assert delay.achieved > 0.05 - NetDelay.least_tolerance  # an estimate; later than that other load may make it
