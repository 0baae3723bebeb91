"""``python -m tests.guest``: build the guest if needed, boot it, run tests or a command in it."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import time
from pathlib import Path

from tests.guest import image, qemu, recipe, tools
from tests.guest.errors import BuildFailed, CannotRun, GuestFailed
from tests.guest.orders import Order

SELECTION = ("tests/contract", "tests/guest/inside", "tests/injectors", "tests/execution")
QUICK = ("tests/contract/test_injectors.py", "tests/guest/inside", "tests/injectors/test_lifecycle.py")
"""What differs most from the host: groups of version 2 and netem, and each injector on such a machine."""
_OPTIONS = ("-p", "no:cacheprovider", "-p", "tests.guest.inside.plugin")
_CANNOT, _INTERRUPTED = 3, 130


def main(words: list[str]) -> int:
    arguments = _parser().parse_args(words)
    started = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clears away as after Ctrl-C

    def tell(line: str) -> None:
        sys.stderr.write(f"guest: {line}\n")

    try:
        tools.need(tools.TO_BOOT)
        built = image.provide(arguments.cache, tell)
        if arguments.build:
            return 0
        order = Order(_command(arguments), dict(arguments.env))
        status = qemu.execute(
            built, order, arguments.cache, timeout_s=arguments.timeout, results=arguments.results
        )
    except CannotRun as exc:
        tell(str(exc))
        return 0 if arguments.if_possible else _CANNOT
    except (BuildFailed, GuestFailed) as exc:
        tell(str(exc))
        return _CANNOT
    except KeyboardInterrupt:
        return _INTERRUPTED
    tell(f"ended with {status} after {time.monotonic() - started:.0f} s")
    return status


def _command(arguments: argparse.Namespace) -> tuple[str, ...]:
    if arguments.command:
        return tuple(shlex.split(arguments.command))
    what = ("--this-machine", *(arguments.pytest or QUICK)) if arguments.quick else arguments.pytest or SELECTION
    return ("python3", "-m", "pytest", *_OPTIONS, *what)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.guest", description=__doc__)
    parser.add_argument("pytest", nargs="*", help=f"arguments for pytest, after --; else: {' '.join(SELECTION)}")
    parser.add_argument("--command", help="run this in the project's folder, instead of pytest")
    parser.add_argument("--env", action="append", type=_assignment, default=[], metavar="NAME=VALUE")
    parser.add_argument("--results", type=Path, help="gets what the command leaves in $INSITU_GUEST_RESULTS")
    parser.add_argument("--timeout", type=float, default=1800.0, metavar="SECONDS")
    parser.add_argument("--quick", action="store_true", help="of the tests, only those of this kernel")
    parser.add_argument("--build", action="store_true", help="only build")
    parser.add_argument("--if-possible", action="store_true", help="succeed where the guest cannot be had")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path(os.environ.get("INSITU_GUEST_CACHE") or recipe.PROJECT / ".guest"),
        help="folder of the built image; also $INSITU_GUEST_CACHE",
    )
    return parser


def _assignment(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise argparse.ArgumentTypeError("write NAME=VALUE")
    return name, value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
