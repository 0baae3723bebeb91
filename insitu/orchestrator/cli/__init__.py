"""The command line: one file per command, the only prints and exit codes.

Nothing heavy is imported before a command runs, so that ``insitu --help`` answers at once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insitu.orchestrator.errors import InsituError


def main() -> None:
    """Entry point of the ``insitu`` command."""
    from insitu.orchestrator.cli.app import app
    from insitu.orchestrator.cli.completion import asked_by_bash
    from insitu.orchestrator.departure import leave
    from insitu.orchestrator.errors import InsituError
    from insitu.orchestrator.printable import printable_lines

    try:
        with asked_by_bash():
            app(prog_name="insitu")
    except InsituError as exc:
        sys.stderr.write(f"{_label(exc)}: {printable_lines(str(exc))}\n")
        leave(exc.exit_code)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        leave(0)
    except SystemExit as exc:
        leave(exc.code)


def _label(exc: InsituError) -> str:
    from insitu.orchestrator.errors import GoalNotReached, NodeDirty

    if isinstance(exc, GoalNotReached):
        return "ended"
    return "dirty node" if isinstance(exc, NodeDirty) else "error"
