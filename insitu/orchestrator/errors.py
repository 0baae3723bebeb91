"""Every error that a user can meet.

::

    InsituError                  exit code
    ├── InputError               2   the plan, the model, the arguments or a run directory is wrong
    │   ├── FaultyFile           2   one or more located faults in YAML files
    │   └── OutsideSupport       2   a question that the data cannot answer without extrapolating
    ├── CannotExecute            3   this machine cannot do it (mechanism, permission, space)
    ├── NodeDirty                4   an undo could not be verified; run ``insitu recover``
    └── GoalNotReached           1   the experiment ended without reaching its goal
        ├── NotIdentified        1   the valid trials cannot tell the law's parameters apart
        └── Aborted              1   a node came to a state in which the plan lets nothing go on
            └── Postponed        1   it was in one before anything was started; may be asked again

Each error takes one positional message and keyword context, survives pickling (ray moves errors between
processes), and prints as: what went wrong, where, what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar


class InsituError(Exception):
    """Base of all errors with a message for the user.

    Parameters
    ----------
    message
        What went wrong, in one sentence without a trailing stop.
    hint
        What to do about it.
    context
        Further facts (``trial``, ``node``, ``path``), kept for the record.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.context = context

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint, self.context)

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n  hint: {self.hint}"


def _rebuild(kind: type[InsituError], message: str, hint: str | None, context: dict[str, Any]) -> InsituError:
    return kind(message, hint=hint, **context)


class InputError(InsituError):
    """What the user handed over is wrong."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong in a file, where it stands, and what to do.

    ``line`` and ``column`` count from 1, as editors do; both are 0 where a fault concerns the whole file.
    """

    path: Path
    line: int
    column: int
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        where = f"{self.path}:{self.line}:{self.column}" if self.line else str(self.path)
        text = f"{where}: {self.message}"
        return text if self.hint is None else f"{text}\n  hint: {self.hint}"


class FaultyFile(InputError):
    """All the faults of the files that were read, at once, ordered by position."""

    def __init__(
        self,
        message: str = "",
        *,
        faults: tuple[Fault, ...] = (),
        hint: str | None = None,
        **context: Any,
    ) -> None:
        ordered = tuple(sorted(faults, key=lambda f: (str(f.path), f.line, f.column)))
        super().__init__(message or "\n".join(map(str, ordered)), hint=hint, faults=ordered, **context)
        self.faults = ordered


class OutsideSupport(InputError):
    """The question lies outside the data's support."""


class CannotExecute(InsituError):
    """This machine cannot do what was asked."""

    exit_code = 3


class NodeDirty(InsituError):
    """Something of an intervention may still be in place on a node."""

    exit_code = 4


class GoalNotReached(InsituError):
    """The experiment ended without reaching its goal; ``context['reason']`` says which way."""

    exit_code = 1


class NotIdentified(GoalNotReached):
    """The valid trials cannot tell some parameters of a law apart; ``context['parameters']`` names them."""

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        context.setdefault("reason", "unidentifiable")
        super().__init__(message, hint=hint, **context)


class Aborted(GoalNotReached):
    """A node came to a state in which the plan lets nothing go on, and the run ended for the node's sake."""

    def __init__(self, message: str, *, hint: str | None = None, **context: Any) -> None:
        context.setdefault("reason", "aborted")
        super().__init__(message, hint=hint, **context)


class Postponed(Aborted):
    """Nothing was started on a node that is in such a state already; whoever asked may ask again."""
