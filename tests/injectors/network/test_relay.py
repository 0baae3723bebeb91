"""A subject behind a link reaches what it reaches in place."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from pathlib import Path

import pytest

from insitu.injectors.network.link import Link
from tests.injectors.network import hosts
from tests.injectors.network.linked import linked
from tests.ordinary_user import run_python

CONNECT = """
import errno, socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family) as s:
    s.settimeout(10)
    try:
        s.connect((sys.argv[1], int(sys.argv[2])))
        s.sendall(b"ping"); s.shutdown(socket.SHUT_WR)
        data = b""
        while more := s.recv(100): data += more
        print(data.decode())
    except OSError as exc:
        print(errno.errorcode.get(exc.errno, exc))
"""

EXCHANGE = """
import socket, sys
family = socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET
with socket.socket(family, socket.SOCK_DGRAM) as s:
    s.settimeout(10)
    s.connect((sys.argv[1], int(sys.argv[2])))
    for number in range(3):
        s.send(b"%d" % number)
        print(s.recv(100).decode())
"""


def pong(connection: socket.socket) -> None:
    while connection.recv(100):
        pass
    connection.sendall(b"pong")


def test_a_service_on_the_host_s_loopback_is_at_its_address_and_port() -> None:
    with hosts.serving(pong) as port, linked() as here:
        assert here.run(CONNECT, "127.0.0.1", str(port)) == "pong\n"


def test_a_service_on_all_addresses_is_at_each_of_them() -> None:
    with hosts.serving(pong, "0.0.0.0") as port, linked() as here:
        assert here.run(CONNECT, "127.0.0.1", str(port)) == "pong\n"
        assert here.run(CONNECT, "127.9.8.7", str(port)) == "pong\n"
        if address := hosts.own_address():
            assert here.run(CONNECT, address, str(port)) == "pong\n"


@pytest.mark.parametrize("address", ["::1", "::"])
def test_a_service_on_the_loopback_of_ipv6(address: str) -> None:
    with hosts.serving(pong, address, socket.AF_INET6) as port, linked() as here:
        assert here.run(CONNECT, "::1", str(port)) == "pong\n"


def test_what_is_refused_in_place_is_refused_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closing:
        port = str(closing.getsockname()[1])
    with linked() as here:
        assert here.run(CONNECT, "127.0.0.1", port) == "ECONNREFUSED\n"
        if address := hosts.own_address():
            assert here.run(CONNECT, address, port) == "ECONNREFUSED\n"
        assert here.run(CONNECT, "192.0.0.1", port) == "ECONNREFUSED\n"


@pytest.mark.root
def test_what_has_no_route_in_place_is_unreachable_at_once() -> None:
    with linked(cut_off=True) as here:
        assert here.run(CONNECT, "198.51.100.1", "9") == "ENETUNREACH\n"


def test_a_service_that_starts_later_is_reached_by_the_host_s_address() -> None:
    address = hosts.own_address()
    if not address:
        pytest.skip("this host has only its loopback")
    with linked() as here, hosts.serving(pong, address) as port:
        assert here.run(CONNECT, address, str(port)) == "pong\n"


def test_the_subject_s_own_servers_are_its_own() -> None:
    script = """
import socket
with socket.create_server(("127.0.0.1", 0)) as waiting:
    with socket.create_connection(waiting.getsockname()) as one:
        other, _ = waiting.accept()
        one.sendall(b"mine"); print(other.recv(10).decode())
"""
    with linked() as here:
        assert here.run(script) == "mine\n"


def test_a_port_that_the_host_uses_is_in_use() -> None:
    script = """
import errno, socket, sys
try:
    socket.create_server(("127.0.0.1", int(sys.argv[1])))
except OSError as exc:
    print(errno.errorcode[exc.errno])
"""
    with hosts.serving(pong) as port, linked() as here:
        assert here.run(script, str(port)) == "EADDRINUSE\n"


def test_datagrams_are_answered() -> None:
    with hosts.answering(lambda data: data * 2) as port, linked() as here:
        assert here.run(EXCHANGE, "127.0.0.1", str(port)).split() == ["00", "11", "22"]
    address = hosts.own_address()
    if address:
        with linked() as here, hosts.answering(lambda data: data * 2, address) as port:
            assert here.run(EXCHANGE, address, str(port)).split() == ["00", "11", "22"]


def test_a_datagram_that_nobody_takes_is_refused() -> None:
    script = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
    s.settimeout(10)
    s.connect((sys.argv[1], int(sys.argv[2])))
    s.send(b"anybody?")
    try:
        s.recv(10)
    except ConnectionRefusedError:
        print("refused")
"""
    address = hosts.own_address()
    if not address:
        pytest.skip("this host has only its loopback")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as closing:
        closing.bind((address, 0))
        port = str(closing.getsockname()[1])
    with linked() as here:
        assert here.run(script, address, port) == "refused\n"


def test_large_transfers_both_ways_arrive_whole() -> None:
    script = """
import hashlib, os, socket, sys, threading
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sent, seen = hashlib.sha256(), hashlib.sha256()
def send():
    for _ in range(64):
        block = os.urandom(1 << 18); sent.update(block); s.sendall(block)
    s.shutdown(socket.SHUT_WR)
thread = threading.Thread(target=send); thread.start()
total = 0
while data := s.recv(1 << 16):
    seen.update(data); total += len(data)
thread.join()
print(total, sent.hexdigest() == seen.hexdigest())
"""
    with hosts.serving(hosts.echo) as port, linked() as here:
        assert here.run(script, str(port)) == f"{64 << 18} True\n"


def test_a_half_closed_connection_still_carries_the_other_half() -> None:
    digest = hashlib.sha256(bytes(1 << 20)).hexdigest()

    def serve(connection: socket.socket) -> None:
        while connection.recv(1 << 16):
            pass
        time.sleep(0.1)
        connection.sendall(bytes(1 << 20))

    script = """
import hashlib, socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"over"); s.shutdown(socket.SHUT_WR)
seen = hashlib.sha256()
while data := s.recv(1 << 16): seen.update(data)
print(seen.hexdigest())
"""
    with hosts.serving(serve) as port, linked() as here:
        assert here.run(script, str(port)) == f"{digest}\n"


def test_a_reset_is_a_reset() -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(10)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, bytes([1, 0, 0, 0, 0, 0, 0, 0]))

    script = """
import socket, sys
s = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
s.sendall(b"hello")
try:
    s.recv(10); print("closed")
except ConnectionResetError:
    print("reset")
"""
    with hosts.serving(serve) as port, linked() as here:
        assert here.run(script, str(port)) == "reset\n"


def test_many_connections_at_once() -> None:
    script = """
import select, socket, sys
address, port, many = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
all_of_them = []
for number in range(many):
    s = socket.create_connection((address, port)); s.sendall(b"%04d" % number); all_of_them.append(s)
print(sum(s.recv(4) == b"%04d" % number for number, s in enumerate(all_of_them)))
"""
    address = hosts.own_address() or "127.0.0.1"
    with hosts.serving(hosts.echo, "0.0.0.0") as port, linked() as here:
        assert here.run(script, address, str(port), "300") == "300\n"


@pytest.mark.root
def test_nothing_else_than_tcp_and_udp_is_answered() -> None:
    """A gateway that answered pings would answer for every address there is."""
    script = """
import errno, os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.settimeout(5)
body = struct.pack("!BBHHH", 8, 0, 0, 1, 1)
body = body[:2] + struct.pack("!H", 0xFFFF ^ sum(struct.unpack("!4H", body))) + body[4:]
s.sendto(body, ("198.51.100.1", 0))
packet = s.recv(200)
print(packet[20], packet[21])
"""
    with linked() as here:
        assert here.run(script) == "3 13\n"  # destination unreachable: administratively prohibited


def test_an_ordinary_user_has_links_too() -> None:
    with hosts.serving(pong, "0.0.0.0") as port:
        done = run_python(["-m", "tests.injectors.network.linked", CONNECT, "{}", "127.0.0.1", str(port)])
    assert (done.stdout, done.returncode) == ("pong\n", 0), done.stderr


def test_an_ordinary_user_has_rates_too() -> None:
    with hosts.serving(pong, "0.0.0.0") as port:
        arguments = [CONNECT, '{"rate_in": 1e6, "rate_out": 1e6}', hosts.own_address() or "127.0.0.1", str(port)]
        done = run_python(["-m", "tests.injectors.network.linked", *arguments])
    assert (done.stdout, done.returncode) == ("pong\n", 0), done.stderr


def test_the_host_s_own_network_is_as_it_was() -> None:
    def state() -> tuple[str, ...]:
        names = ("dev", "route", "if_inet6", "arp")
        parts = [Path(f"/proc/net/{name}").read_text() for name in names[1:]]
        return (*sorted(os.listdir("/sys/class/net")), *parts, Path("/proc/sys/net/ipv4/ip_forward").read_text())

    before = state()
    with hosts.serving(pong) as port, linked(Link(rate_in=1e6)) as here:
        assert here.run(CONNECT, "127.0.0.1", str(port)) == "pong\n"
        assert state() == before
    assert state() == before
