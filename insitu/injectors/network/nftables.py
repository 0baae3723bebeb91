"""The rule set of a gateway: every connection and datagram goes to our own listeners, nothing else is answered."""

from __future__ import annotations

import socket
import struct

from insitu.injectors.network.netlink import CREATE, NETFILTER, Message, Netlink, attribute, nested

_NEWTABLE, _NEWCHAIN, _NEWRULE = 10 << 8, (10 << 8) | 3, (10 << 8) | 6
_INET = 1
_FAMILY = struct.pack("=BBH", _INET, 0, 0)
_TABLE = "insitu"
_PREROUTING, _INPUT = 0, 1
_MANGLE, _FILTER = -150, 0
_APPEND = 0x800
_REGISTER = 1
_L4_PROTOCOL, _INPUT_INTERFACE = 16, 4


def catch_all(interface: int, loopback: int, port: int) -> None:
    """Hand all that comes in by `interface` to the transparent sockets at `port`, or refuse it.

    Datagrams go there at once. A request to connect goes nowhere: whoever sees it on the interface puts it on
    `loopback` when the time has come, and from there it is handed on.

    Acts in the network namespace of the caller.

    Raises
    ------
    OSError
        If the kernel lacks nf_tables or one of the expressions used.
    """
    with Netlink(NETFILTER) as netlink:
        netlink.transact(
            Message(_NEWTABLE, _FAMILY + attribute(1, _TABLE), CREATE, "nf_tables"),
            _chain("catch", _PREROUTING, _MANGLE),
            _chain("refuse", _INPUT, _FILTER),
            _rule("catch", _from(interface), _protocol(socket.IPPROTO_UDP), _proxy(port)),
            _rule("catch", _from(loopback), _protocol(socket.IPPROTO_TCP), _proxy(port)),
            _rule("catch", _from(interface), _protocol(socket.IPPROTO_TCP), _request_to_connect(), _drop()),
            # a ping would else be answered by the gateway, for every address
            _rule("refuse", _from(interface), *(_protocol(number, equal=False) for number in _CARRIED), _reject()),
        )


_CARRIED = (socket.IPPROTO_TCP, socket.IPPROTO_UDP)


def _number(value: int) -> bytes:
    """nf_tables has its numbers in network order."""
    return struct.pack("!I", value & 0xFFFFFFFF)


def _chain(name: str, hook: int, priority: int) -> Message:
    where = nested(4, attribute(1, _number(hook)), attribute(2, _number(priority)))
    body = _FAMILY + attribute(1, _TABLE) + attribute(3, name) + where + attribute(7, "filter")
    return Message(_NEWCHAIN, body, CREATE, f"nf_tables chain {name}")


def _rule(chain: str, *expressions: bytes) -> Message:
    body = _FAMILY + attribute(1, _TABLE) + attribute(2, chain) + nested(4, *expressions)
    return Message(_NEWRULE, body, CREATE | _APPEND, f"nf_tables rule of {chain}")


def _expression(name: str, *parts: bytes) -> bytes:
    return nested(1, attribute(1, name), nested(2, *parts))


def _match(key: int, value: bytes, *, equal: bool = True) -> bytes:
    load = _expression("meta", attribute(1, _number(_REGISTER)), attribute(2, _number(key)))
    return load + _compare(value, equal=equal)


def _compare(value: bytes, *, equal: bool = True) -> bytes:
    operation = attribute(2, _number(0 if equal else 1))
    return _expression("cmp", attribute(1, _number(_REGISTER)), operation, nested(3, attribute(1, value)))


def _from(interface: int) -> bytes:
    return _match(_INPUT_INTERFACE, struct.pack("=I", interface))


def _protocol(number: int, *, equal: bool = True) -> bytes:
    return _match(_L4_PROTOCOL, bytes([number]), equal=equal)


def _proxy(port: int) -> bytes:
    load = _expression(
        "immediate", attribute(1, _number(_REGISTER)), nested(2, attribute(1, struct.pack("!H", port)))
    )
    return load + _expression("tproxy", attribute(1, _number(0)), attribute(3, _number(_REGISTER)))


def _request_to_connect() -> bytes:
    """Of the flags in byte 13 of a TCP header, SYN and none of FIN, RST and ACK."""
    register = attribute(1, _number(_REGISTER))
    where = (attribute(2, _number(2)), attribute(3, _number(13)), attribute(4, _number(1)))
    load = _expression("payload", register, *where)
    mask, nothing = nested(4, attribute(1, bytes([0x17]))), nested(5, attribute(1, bytes([0])))
    same = (register, attribute(2, _number(_REGISTER)), attribute(3, _number(1)))
    return load + _expression("bitwise", *same, mask, nothing) + _compare(bytes([0x02]))


def _drop() -> bytes:
    verdict = nested(2, nested(2, attribute(1, _number(0))))  # NF_DROP
    return _expression("immediate", attribute(1, _number(0)), verdict)


def _reject() -> bytes:
    # NFT_REJECT_ICMPX_UNREACH with NFT_REJECT_ICMPX_ADMIN_PROHIBITED: the same for both versions of IP
    return _expression("reject", attribute(1, _number(2)), attribute(2, bytes([3])))
