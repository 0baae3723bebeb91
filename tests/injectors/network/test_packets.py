"""Packets that a gateway reads and writes itself; the kernel's own are the yardstick in `test_relay`."""

from __future__ import annotations

import struct
from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insitu.injectors.network import packets
from insitu.injectors.network.packets import Flow, Knock, Unreachable, read_knock, refusal, unreachable

PORTS = st.integers(1, 65535)
ADDRESSES = st.one_of(
    st.tuples(st.ip_addresses(v=4), st.ip_addresses(v=4)), st.tuples(st.ip_addresses(v=6), st.ip_addresses(v=6))
)


def request(flow: Flow, sequence: int, flags: int = 0x02, options: bytes = b"") -> bytes:
    """A request to connect, with a checksum left to the device: only its pseudo header is in it."""
    words = 5 + len(options) // 4
    tcp = struct.pack(
        "!HHIIBBHHH", flow.source_port, flow.target_port, sequence, 0, words << 4, flags, 64240, 0x1234, 0
    )
    tcp += options
    if flow.target.version == 6:
        head = struct.pack("!IHBB", 6 << 28, len(tcp), 6, 64)
        return head + flow.source.packed + flow.target.packed + tcp
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 7, 0x4000, 64, 6, 0)
    return head + flow.source.packed + flow.target.packed + tcp


def folded(data: bytes) -> int:
    """Sum of 16-bit words with carries around; 0xFFFF where a checksum is right."""
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def transport_is_sound(packet: bytes, protocol: int) -> bool:
    if packet[0] >> 4 == 6:
        body = packet[40:]
        return folded(packet[8:40] + struct.pack("!II", len(body), protocol) + body) == 0xFFFF
    body = packet[20:]
    return folded(packet[12:20] + struct.pack("!BBH", 0, protocol, len(body)) + body) == 0xFFFF


def knock(flow: Flow, sequence: int) -> Knock:
    found = read_knock(request(flow, sequence, options=bytes.fromhex("020405b4")))
    assert found is not None
    return found


@given(ADDRESSES, PORTS, PORTS, st.integers(0, 2**32 - 1))
def test_a_request_is_read_and_its_checksum_filled_in(
    ends: tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address], source: int, target: int, sequence: int
) -> None:
    flow = Flow(ends[0], source, ends[1], target)
    found = knock(flow, sequence)
    assert (found.flow, found.sequence) == (flow, sequence)
    assert transport_is_sound(found.packet, 6)


@given(ADDRESSES, PORTS, PORTS, st.integers(0, 2**32 - 1))
def test_a_refusal_answers_the_request_and_is_sound(
    ends: tuple[IPv4Address | IPv6Address, IPv4Address | IPv6Address], source: int, target: int, sequence: int
) -> None:
    flow = Flow(ends[0], source, ends[1], target)
    answer = refusal(knock(flow, sequence))
    start = 40 if flow.target.version == 6 else 20
    ports = struct.unpack_from("!HHII", answer, start)
    assert ports == (target, source, 0, (sequence + 1) % 2**32)
    assert answer[start + 13] == 0x14
    assert transport_is_sound(answer, 6)
    assert start == 40 or folded(answer[:20]) == 0xFFFF


@pytest.mark.parametrize("why", list(Unreachable))
@pytest.mark.parametrize(("source", "target"), [("10.0.0.1", "198.51.100.1"), ("2001:2::2", "2001:db8::1")])
def test_word_that_something_is_unreachable_names_it(why: Unreachable, source: str, target: str) -> None:
    flow = Flow(ip_address(source), 1000, ip_address(target), 53)
    lost = packets.datagram(flow)
    assert transport_is_sound(lost, 17)
    answer = unreachable(why, flow.target, flow.source, lost)
    start = 40 if flow.target.version == 6 else 20
    assert answer[start : start + 2] == bytes(why.value[start // 20 - 1])
    assert answer[start + 8 :] == lost
    assert transport_is_sound(answer, 58) if start == 40 else folded(answer[start:]) == 0xFFFF


@given(st.binary(max_size=120))
def test_other_packets_are_no_requests_and_no_exceptions(data: bytes) -> None:
    found = read_knock(data)
    assert found is None or data[(data[0] & 15) * 4 + 13 if data[0] >> 4 == 4 else 53] & 0x17 == 0x02


@pytest.mark.parametrize("flags", [0x12, 0x04, 0x10, 0x11, 0x00, 0x06])
def test_only_requests_are_requests(flags: int) -> None:
    flow = Flow(ip_address("10.0.0.1"), 1, ip_address("10.0.0.2"), 2)
    assert read_knock(request(flow, 1, flags)) is None
    assert read_knock(request(flow, 1, 0xC2)) is not None  # with congestion notification asked for
