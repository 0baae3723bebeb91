"""The addresses of a link: ones that no other network has.

192.0.0.0/29 is set aside for the two ends of a link inside one machine (RFC 7335), 2001:2::/48 for
measurements (RFC 5180); programs treat both as they treat any address of the Internet.
"""

from __future__ import annotations

from ipaddress import ip_address, ip_interface

SUBJECT = ip_interface("192.0.0.2/29")
GATEWAY = ip_interface("192.0.0.1/29")
SUBJECT_6 = ip_interface("2001:2::2/64")
GATEWAY_6 = ip_interface("2001:2::1/64")

LINK_INDEX = 2
"""The only interface beside the loopback, which is 1."""
LOOPBACK_INDEX = 1
HARDWARE_GATEWAY, HARDWARE_SUBJECT = bytes.fromhex("02494e530001"), bytes.fromhex("02494e530002")

ANY_PORT = 1
"""Of the gateway's own sockets, which take connections to every address and port."""
LOOPBACK, LOOPBACK_6 = ip_address("127.0.0.1"), ip_address("::1")
