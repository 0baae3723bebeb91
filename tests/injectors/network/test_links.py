"""Links on this machine: what they are set to, what is in their way, and what is left of them."""

from __future__ import annotations

import math
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from insitu.injectors.actuator import Host
from insitu.injectors.errors import ForeignState, InjectorError, NotSettable
from insitu.injectors.journal import Header, Journal, boot_id, read
from insitu.injectors.network import addresses, protocol, shaping, support, tun
from insitu.injectors.network import rtnetlink as rt
from insitu.injectors.network.actuator import LinkActuator, interface_name
from insitu.injectors.network.delays import NetDelay
from insitu.injectors.network.gauges import Gauge, Gauges
from insitu.injectors.network.link import Link
from insitu.injectors.network.netlink import Netlink, Refused
from insitu.injectors.network.rates import NetRateIn, NetRateOut
from insitu.injectors.node import survey
from insitu.injectors.processes import start_time
from insitu.injectors.treatment import joined
from tests.injectors.network import hosts
from tests.injectors.network.linked import NAME, Linked, ask, linked, serving

MBIT = 1e6 / 8
RUN = f"links{os.getpid()}"

DOWNLOAD = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as s:
    while s.recv(1 << 16): pass
"""


def sending(size: int) -> Callable[[socket.socket], None]:
    def serve(connection: socket.socket) -> None:
        connection.sendall(bytes(size))

    return serve


def wire_bytes(init: int) -> tuple[int, int]:
    """Bytes received and sent by the subject's interface, from its own counters."""
    for line in Path(f"/proc/{init}/net/dev").read_text().splitlines():
        name, _, figures = line.partition(":")
        if name.strip() == NAME:
            fields = figures.split()
            return int(fields[0]), int(fields[8])
    raise AssertionError("the subject has no such interface")


def test_the_bucket_counts_what_the_wire_carries() -> None:
    size = 1_000_000
    with hosts.serving(sending(size)) as port, linked(Link(rate_in=20 * MBIT)) as here:
        here.run(DOWNLOAD, str(port))
        sent = rt.classes(here.gateway, addresses.LINK_INDEX)[rt.SHAPED].sent_bytes
        received, _ = wire_bytes(here.init)
    assert received == pytest.approx(sent, rel=0.01)
    least = math.ceil(size / 1448) * (
        1448 + 66
    )  # a header of Ethernet, IP and TCP with time stamps for each packet
    assert sent >= 0.99 * least


@pytest.mark.parametrize("mbit", [1, 10, 100])
def test_a_rate_is_what_it_was_set_to(mbit: int) -> None:
    with linked(Link(rate_in=mbit * MBIT, rate_out=2 * mbit * MBIT)) as here:
        for netlink, rate in ((here.gateway, mbit * MBIT), (here.subject, 2 * mbit * MBIT)):
            state = rt.classes(netlink, addresses.LINK_INDEX)[rt.SHAPED]
            assert state.rate_bytes_per_s == rate


def test_without_a_rate_there_is_no_bucket_and_at_rest_it_holds_nothing_back() -> None:
    with linked(Link()) as here:
        assert rt.classes(here.gateway, addresses.LINK_INDEX) == {}
    size = 10_000_000
    with hosts.serving(sending(size)) as port, linked(Link(rate_in=math.inf)) as here:
        here.run(DOWNLOAD, str(port))
        state = rt.classes(here.gateway, addresses.LINK_INDEX)[rt.SHAPED]
    assert state.held == 0
    assert state.sent_bytes > size


def test_bundles_are_no_longer_than_a_millisecond() -> None:
    for mbit in (0.1, 1, 10, 100, 1000):
        count = shaping.bundle_packets(Link(), mbit * MBIT)
        assert count == 1 or count * rt.MTU_BYTES <= mbit * MBIT * 0.001
    assert shaping.bundle_packets(Link(loss=0.0), 1000 * MBIT) == 1


def test_netem_has_room_for_a_queue_that_is_no_loss() -> None:
    slow, fast = MBIT, 10_000 * MBIT
    assert shaping.queue_packets(Link(delay=0.1), slow, 0.05) < 1000
    under_way = fast * 0.05 / rt.MTU_BYTES
    assert shaping.queue_packets(Link(delay=0.1), fast, 0.05) > under_way
    for rate in (slow, fast, math.inf, None):
        unlost = Link(rate_out=rate, delay=0.1, loss=0.0)  # also at rest: alike in all trials of a plan
        assert shaping.queue_packets(unlost, rate, 0.05) >= under_way


def test_a_queueing_discipline_of_somebody_else_is_left_alone() -> None:
    with linked(Link()) as here:
        here.subject.request(rt.shaper(addresses.LINK_INDEX))
        with pytest.raises(ForeignState, match="not ours"):
            shaping.shape(here.subject, here.gateway, Link(rate_out=MBIT))
        assert rt.classes(here.subject, addresses.LINK_INDEX) == {}


@pytest.mark.tun
@pytest.mark.parametrize("link", [Link(rate_in=MBIT), Link(delay=0.01, by_line=True)])
@pytest.mark.parametrize("in_use", [True, False])
def test_an_interface_of_somebody_else_is_left_alone(link: Link, *, in_use: bool) -> None:
    with support.nobody() as init, serving() as connection, ExitStack() as stack:
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                Linked(init, Netlink(), Netlink()).enter()
                interface = tun.make(NAME, addresses.LINK_INDEX)
                if not in_use:
                    tun.leave_to_namespace(interface)
                    os.close(interface)
                os.write(writing, b"+")
                signal.pause()
            finally:
                os._exit(1)
        os.close(writing)  # else a child that fails would be waited for in vain
        stack.callback(os.waitpid, pid, 0)
        stack.callback(os.kill, pid, signal.SIGKILL)
        stack.callback(os.close, reading)
        assert os.read(reading, 1) == b"+", "the interface could not be made"
        answer, _ = ask(connection, protocol.Make(init, NAME, link))
        assert isinstance(answer, protocol.Refused), answer
        assert answer.foreign
        assert "not ours" in answer.message
        ask(connection, protocol.End())


def test_what_the_kernel_refuses_is_named() -> None:
    with linked(Link()) as here, pytest.raises(Refused, match=re.escape("address 192.0.0.2/29")):
        here.subject.request(rt.address(addresses.LINK_INDEX, addresses.SUBJECT))


@pytest.fixture
def journal(state: Path) -> Iterator[Journal]:
    header = Header(RUN, os.getpid(), start_time(os.getpid()), boot_id(), "")
    with Journal(state, header) as journal:
        yield journal


@pytest.fixture
def actuator(journal: Journal) -> Iterator[LinkActuator]:
    with LinkActuator(journal) as actuator:
        yield actuator


def host(init: int) -> Host:
    return Host(init, {}, Path("/"), 60.0)


def test_nothing_is_started_before_it_is_needed(actuator: LinkActuator, journal: Journal) -> None:
    assert read(journal.path).pending == ()


def test_the_server_is_journalled_and_ends_with_the_actuator(journal: Journal) -> None:
    with LinkActuator(journal) as actuator:
        for number in range(2):
            with support.nobody() as init, actuator.hold(Link(), f"insitu-{RUN}-t{number}", host(init)):
                (undo,) = read(journal.path).pending
                server = int(undo.path.rpartition("/")[2])
                assert start_time(server) == undo.started != ""
        assert start_time(server) == undo.started
    assert start_time(server) == ""
    assert read(journal.path).pending == ()


def test_interfaces_carry_the_run_s_mark() -> None:
    assert interface_name("insitu-1a2b3c4d-t12") == "insitu-1a2b3c4d"


def test_a_gateway_that_ends_by_itself_is_an_error_and_not_the_end(actuator: LinkActuator) -> None:
    with support.nobody() as init, ExitStack() as stack:
        stack.enter_context(actuator.hold(Link(), f"insitu-{RUN}-t1", host(init)))
        (gateway,) = children(server_of(actuator))
        kill_and_wait(gateway)
        with pytest.raises(InjectorError, match="the gateway ended by itself"):
            stack.close()
    with support.nobody() as init, actuator.hold(Link(), f"insitu-{RUN}-t2", host(init)):
        assert interfaces(init) == {interface_name(f"insitu-{RUN}-t2")}


@pytest.mark.tun
def test_a_delay_line_that_ends_by_itself_is_one_too(actuator: LinkActuator) -> None:
    with support.nobody() as init, ExitStack() as stack:
        stack.enter_context(actuator.hold(Link(delay=0.01, by_line=True), f"insitu-{RUN}-t1", host(init)))
        (gateway,) = children(server_of(actuator))
        (line,) = children(gateway)
        started = start_time(gateway)
        kill_and_wait(line)
        assert ended_within(2.0, {gateway: started})
        with pytest.raises(InjectorError, match="the gateway ended by itself"):
            stack.close()


def test_a_gateway_that_does_nothing_is_ended_all_the_same(actuator: LinkActuator) -> None:
    with support.nobody() as init:
        with actuator.hold(Link(), f"insitu-{RUN}-t1", host(init)):
            (gateway,) = children(server_of(actuator))
            started = start_time(gateway)
            os.kill(gateway, signal.SIGSTOP)
            began = time.monotonic()
        assert time.monotonic() - began < 3.0
        assert start_time(gateway) != started


@pytest.mark.parametrize("by_line", [False, pytest.param(True, marks=pytest.mark.tun)])
@pytest.mark.parametrize("stopped", [False, True])
def test_when_the_server_is_killed_nothing_is_left(
    actuator: LinkActuator, *, by_line: bool, stopped: bool
) -> None:
    link = Link(delay=0.01, by_line=True) if by_line else Link(rate_in=MBIT)
    with support.nobody() as init, ExitStack() as stack:
        stack.enter_context(actuator.hold(link, f"insitu-{RUN}-t1", host(init)))
        server = server_of(actuator)
        others = children(server) + [one for child in children(server) for one in children(child)]
        assert len(others) == (2 if by_line else 1)
        started = {pid: start_time(pid) for pid in others}
        for pid in (server, *others) if stopped else ():
            os.kill(pid, signal.SIGSTOP)
        os.kill(server, signal.SIGKILL)
        assert ended_within(2.0, started)
        with pytest.raises(InjectorError, match="lost"):
            stack.close()
        deadline = time.monotonic() + 2.0
        while interfaces(init) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert interfaces(init) == set()


def kill_and_wait(pid: int) -> None:
    started = start_time(pid)
    os.kill(pid, signal.SIGKILL)
    assert ended_within(2.0, {pid: started})


def ended_within(seconds: float, started: dict[int, str]) -> bool:
    """Whether processes, known by their start times, end in time."""
    deadline = time.monotonic() + seconds
    while any(start_time(pid) == start for pid, start in started.items()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def server_of(actuator: LinkActuator) -> int:
    (undo,) = read(actuator.journal.path).pending
    return int(undo.path.rpartition("/")[2])


def children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def interfaces(init: int) -> set[str]:
    lines = Path(f"/proc/{init}/net/dev").read_text().splitlines()[2:]
    return {line.partition(":")[0].strip() for line in lines} - {"lo", "ifb0", "ifb1"}


@pytest.mark.tun
def test_the_delay_line_delays_each_packet(actuator: LinkActuator) -> None:
    link = Link(delay=0.04, by_line=True)
    with support.nobody() as init, actuator.hold(link, f"insitu-{RUN}-t1", host(init)) as held:
        columns = held.columns()
        transits: dict[str, list[float]] = {"out": [], "in": []}
        deadline = time.monotonic() + 5
        while min(map(len, transits.values())) < 10 and time.monotonic() < deadline:
            time.sleep(0.06)
            for direction, found in transits.items():
                if columns[f"net_{direction}_probes"]():
                    found.append(columns[f"net_{direction}_transit_s"]())
    for found in transits.values():
        assert min(found) >= 0.02
        assert np.median(found) < 0.05  # how much nearer, the benchmark says: this machine may be busy


@pytest.mark.tun
def test_what_is_lost_is_counted(actuator: LinkActuator) -> None:
    link = Link(loss=0.5, by_line=True)
    with support.nobody() as init, actuator.hold(link, f"insitu-{RUN}-t1", host(init)) as held:
        columns = held.columns()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            time.sleep(0.05)
            passed, lost = (
                sum(columns[f"net_{direction}_{what}"]() for direction in ("out", "in"))
                for what in ("passed", "lost")
            )
            if passed + lost > 200:
                break
    assert passed + lost > 200
    assert 0.3 < lost / (passed + lost) < 0.7


@pytest.mark.tun
def test_everything_arrives_over_a_line_that_loses_packets() -> None:
    with (
        hosts.serving(hosts.echo) as port,
        linked(Link(delay=0.002, loss=0.02, jitter=0.001, by_line=True)) as here,
    ):
        script = """
import hashlib, os, socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
data = os.urandom(300_000)
s.sendall(data); s.shutdown(socket.SHUT_WR)
back = b""
while more := s.recv(1 << 16): back += more
print(back == data)
"""
        assert here.run(script, str(port)) == "True\n"


@pytest.mark.tun
def test_a_line_has_a_rate_too() -> None:
    size = 500_000
    link = Link(rate_in=10 * MBIT, delay=0.01, by_line=True)
    with hosts.serving(sending(size)) as port, linked(link) as here:
        began = time.monotonic()
        here.run(DOWNLOAD, str(port))
        assert time.monotonic() - began > 0.9 * size / (10 * MBIT)
        state = rt.classes(here.gateway, addresses.LINK_INDEX)[rt.SHAPED]
    assert state.rate_bytes_per_s == 10 * MBIT
    assert state.held > 0


@pytest.mark.tun
def test_variables_of_one_link_join() -> None:
    here = survey(Path("/"))
    parts = joined([NetRateIn().treatment(MBIT, here), NetRateOut().treatment(2 * MBIT, here)]).parts
    assert parts == (Link(rate_in=MBIT, rate_out=2 * MBIT),)
    (link,) = joined([NetDelay().treatment(0.0, here), NetRateIn().treatment(math.inf, here)]).parts
    assert isinstance(link, Link)
    assert (link.delay, link.rate_in, link.loss) == (0.0, math.inf, None)
    assert link.alters_packets
    with pytest.raises(NotSettable, match="two variables set the rate_in"):
        Link(rate_in=1.0).joined(Link(rate_in=2.0))


def test_a_link_survives_the_journey_to_the_server() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        order = protocol.Make(7, "insitu-x", Link(rate_in=math.inf, delay=0.1, by_line=True), 3)
        protocol.send(ours, order)
        assert protocol.receive(theirs) == (order, ())


def test_gauges_are_shared() -> None:
    one = Gauges()
    other = Gauges(os.dup(one.descriptor))
    one[Gauge.LOST_IN] = 3.0
    assert other[Gauge.LOST_IN] == 3.0
    one.close()
    other.close()


def test_what_this_machine_can_do_is_found_by_doing_it() -> None:
    assert support.examine().problem == ""
    assert support.examine() is support.examine()
