"""An echo server, to be the target of ``anomaly.net`` on another machine: run as a module, with a port."""

from __future__ import annotations

import argparse
import contextlib
import socketserver

from insitu.injectors.anomalies.work.net import serve


class _Echo(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        with contextlib.suppress(OSError):
            serve(self.request)


class _Server(socketserver.ForkingTCPServer):
    allow_reuse_address = True
    max_children = 4096  # each worker of each node has one for as long as it lives
    request_queue_size = 1024


def main() -> None:
    parser = argparse.ArgumentParser(description="Send back whatever comes in, until it is interrupted.")
    parser.add_argument("port", type=int)
    parser.add_argument("--address", default="0.0.0.0", help="of the interface to listen on")  # noqa: S104
    chosen = parser.parse_args()
    with _Server((chosen.address, chosen.port), _Echo) as server, contextlib.suppress(KeyboardInterrupt):
        server.serve_forever()


if __name__ == "__main__":
    main()
