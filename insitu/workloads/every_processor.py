"""A program that computes on every processor it may use: ``python -m insitu.workloads.every_processor ROUNDS``.

Each of its processes hashes its part of so many rounds; the program ends with the last of them.
"""

from __future__ import annotations

import argparse
import hashlib
import os

_BLOCK = bytes(4096)


def hashed(rounds: int) -> str:
    """Hash a block so many times; gives the digest, so that nobody can leave the work out."""
    digest = hashlib.sha256()
    for _ in range(rounds):
        digest.update(_BLOCK)
    return digest.hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description="Hash blocks on every processor.")
    parser.add_argument("rounds", type=int, help="blocks of 4 KiB, all processes together")
    rounds = parser.parse_args().rounds
    processes = len(os.sched_getaffinity(0))
    children = []
    for number in range(processes):
        pid = os.fork()
        if pid == 0:
            hashed(rounds // processes + (number < rounds % processes))
            os._exit(0)
        children.append(pid)
    for pid in children:
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
