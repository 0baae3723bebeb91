"""What benchmarks are held to: a target, the figure that was found, and whether it meets the target."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """One target.

    Attributes
    ----------
    met
        ``None`` if this machine could not measure it; `found` then says why.
    """

    what: str
    target: str
    found: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return "not measured" if self.met is None else "ok" if self.met else "MISSED"


@dataclass(frozen=True, slots=True)
class Off:
    """How far one row is from what was requested; `None` if the machine was disturbed every time."""

    row: str
    off: float
    met: bool | None


def worst(what: str, target: str, rows: Iterable[Off], spelled: str = "{:+.2%}") -> Claim:
    """A claim about many rows: it holds if all do. It shows the farthest, and counts what was disturbed."""
    found = list(rows)
    known = [row for row in found if row.met is not None]
    if not known:
        return Claim(what, target, "others used the machine", None)
    far = max(known, key=lambda row: abs(row.off))
    text = f"{spelled.format(far.off)} at most, at {far.row}"
    if len(known) < len(found):
        text += f"; {len(found) - len(known)} of {len(found)} rows disturbed"
    missed = sum(row.met is False for row in known)
    if missed:
        text += f"; {missed} of {len(found)} rows missed"
    return Claim(what, target, text, missed == 0 if missed or len(known) == len(found) else None)


def show(claims: Sequence[Claim]) -> None:
    """Print one line per claim."""
    wide, target = (max(len(getattr(one, name)) for one in claims) for name in ("what", "target"))
    for one in claims:
        print(f"{one.what:{wide}}  {one.target:{target}}  {one.verdict:12}  {one.found}")
