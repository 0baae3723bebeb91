"""The command line: one file per command, the only prints and exit codes.

Nothing heavy is imported before a command runs, so that ``insitu --help`` answers at once.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point of the ``insitu`` command."""
    from insitu.orchestrator.cli.app import app
    from insitu.orchestrator.errors import InsituError

    try:
        app(prog_name="insitu")
    except InsituError as exc:
        sys.stderr.write(f"{_label(exc)}: {exc}\n")
        sys.exit(exc.exit_code)
    except BrokenPipeError:  # the reader of our output has seen enough
        sys.stderr.close()
        sys.exit(0)


def _label(exc: Exception) -> str:
    from insitu.orchestrator.errors import GoalNotReached, NodeDirty

    return {GoalNotReached: "ended", NodeDirty: "dirty node"}.get(type(exc), "error")
