"""A subject: moves bytes for a while, or measures round trips, with or without a load beside them.

``net_subject.py ADDRESS PORT down|up|trips SECONDS LOAD``; it reports to the far end what it got: bytes and
seconds, or the median, the ninetieth percentile and the number of its round trips. It imports nothing of the
project, to start as quickly as Python does.
"""

import socket
import statistics
import sys
import threading
import time

BLOCK = 1 << 18
SETTLE_S = 0.5


def wish(far: tuple[str, int], text: str) -> socket.socket:
    connection = socket.create_connection(far)
    connection.sendall(text.encode() + b"\n")
    return connection


def report(far: tuple[str, int], *numbers: float) -> None:
    with wish(far, " ".join(map(str, ("report", *numbers)))) as connection:
        connection.recv(1)  # what is under way for more than a second after its end is lost with its network


def received(connection: socket.socket, seconds: float) -> tuple[int, float]:
    """Bytes and seconds, after the transfer has settled."""
    connection.recv(1)
    began = start = now = time.monotonic()
    total, settled = 0, False
    while data := connection.recv(BLOCK):
        now = time.monotonic()
        if settled:
            total += len(data)
            if now > began + seconds:
                break
        elif now > began + SETTLE_S:
            settled, start = True, now
    return total, now - start


def send(far: tuple[str, int], seconds: float) -> list[float]:
    """Send for so long; gives what the far end says that it has got."""
    connection, block, end = wish(far, f"up {seconds}"), bytes(BLOCK), time.monotonic() + seconds + 1
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BLOCK)  # or a slow link takes long to empty it
    while time.monotonic() < end:
        connection.send(block)
    connection.shutdown(socket.SHUT_WR)
    return [float(word) for word in connection.recv(100).split()]


def trips(far: tuple[str, int], seconds: float, load: float) -> tuple[float, float, int]:
    """Round trips of small datagrams, while `load` bytes per second come in over a connection beside them."""
    if load:
        threading.Thread(target=drain, args=(wish(far, f"down {seconds + 1} {load}"),), daemon=True).start()
        time.sleep(SETTLE_S)
    taken: list[float] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        datagrams.settimeout(2)
        datagrams.connect(far)
        end = time.monotonic() + seconds
        while time.monotonic() < end or len(taken) < 5:
            begin = time.monotonic()
            datagrams.send(b"there and back")
            try:
                datagrams.recv(100)
            except TimeoutError:
                continue
            taken.append(time.monotonic() - begin)
            time.sleep(0.02)
    return statistics.median(taken), statistics.quantiles(taken, n=10)[-1], len(taken)


def drain(connection: socket.socket) -> None:
    while connection.recv(BLOCK):
        pass


if __name__ == "__main__":
    far_end, what = (sys.argv[1], int(sys.argv[2])), sys.argv[3]
    duration_s, beside = float(sys.argv[4]), float(sys.argv[5])
    if what == "down":
        report(far_end, *received(wish(far_end, f"down {duration_s + 1} 0"), duration_s))
    elif what == "up":
        report(far_end, *send(far_end, duration_s))
    else:
        report(far_end, *trips(far_end, duration_s, beside))
