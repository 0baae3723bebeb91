"""What a link must know of the host's network when it is made."""

from __future__ import annotations

import socket
from ipaddress import ip_address
from pathlib import Path

from insitu.injectors.network import socket_table
from insitu.injectors.network.socket_table import Service


def has_ipv6() -> bool:
    """Whether the caller's network namespace has an address of IPv6 of more than its own link's scope."""
    try:
        lines = Path("/proc/net/if_inet6").read_text().splitlines()
    except FileNotFoundError:
        return False
    return any(line.split()[3] == "00" for line in lines)


def services() -> tuple[Service, ...]:
    """What can be reached through the caller's loopback, the widest addresses first; `OSError` if nobody knows."""
    found: dict[Service, None] = {}
    low, _ = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    for waiting in socket_table.waiting():
        wide = waiting.address.is_unspecified
        if not (wide or waiting.address.is_loopback):
            continue  # reached by its own address
        if waiting.kind == socket.SOCK_DGRAM and wide and waiting.port >= low:
            continue  # a client's, not a service
        found[waiting] = None
        if wide and waiting.address.version == 6:  # unless it says otherwise, it serves version 4, too
            found[Service(waiting.kind, ip_address("0.0.0.0"), waiting.port)] = None  # noqa: S104 - as it does
    return tuple(sorted(found, key=lambda service: not service.address.is_unspecified))
