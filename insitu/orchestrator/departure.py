"""How this process ends: in order, or at once where the end of a library in it would hang or crash."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import NoReturn

_broken: list[str] = []


def expect_crash(library: str) -> None:
    """Say that a library in this process cannot be ended in order any more."""
    _broken.append(library)


def leave(status: str | int | None) -> NoReturn:
    """End this process as ``sys.exit`` does; all of its own must be undone by now."""
    if not _broken:
        sys.exit(status)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more
            stream.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))
