"""Write real text to stdout: the sources of the Python that runs this, in a fixed order, repeated as needed.

``python -m insitu.workloads.python_sources BYTES``. Needs no download, and is the same on every run of one
installation.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path


def sources() -> Iterator[bytes]:
    """Contents of the standard library's modules, ordered by path."""
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts or "dist-packages" in path.parts:
            continue
        try:
            yield path.read_bytes()
        except OSError:
            continue


def write(length: int) -> None:
    """Write exactly `length` bytes to stdout."""
    left = length
    while left > 0:
        before = left
        for text in sources():
            sys.stdout.buffer.write(text[:left])
            left -= min(left, len(text))
            if not left:
                break
        if left == before:
            raise SystemExit("no Python sources found beside this interpreter")


if __name__ == "__main__":
    write(int(sys.argv[1]))
