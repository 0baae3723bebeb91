"""What commands say in plain lines."""

from __future__ import annotations

import typer

from insitu.orchestrator.printable import printable_lines


def say(text: str, *, err: bool = False) -> None:
    """Print lines, on stderr if `err`; what names and messages hold beside text is escaped."""
    typer.echo(printable_lines(text), err=err)
