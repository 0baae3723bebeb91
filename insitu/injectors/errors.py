"""Errors of this room; the agent translates them for the user."""

from __future__ import annotations


class InjectorError(Exception):
    """A variable could not be set, verified or put back.

    Parameters
    ----------
    message
        What went wrong.
    remedy
        The command or change that would help.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[InjectorError], tuple[str, str]]:
        return type(self), (self.message, self.remedy)


class NotSettable(InjectorError):
    """This node cannot set the variable, or not to this level."""


class ForeignState(InjectorError):
    """Something is in the way that does not carry our mark; it is left alone."""


class UndoFailed(InjectorError):
    """After the undo, something is still there."""


class TwinExecutes(InjectorError):
    """A copy of the run is executing: whatever both make has the same name, so neither could undo its own."""


class NoJournal(InjectorError):
    """The journal cannot be written, so nothing may be changed."""
