"""What a subject's network link is to be; the parts of several variables join into one link."""

from __future__ import annotations

from dataclasses import dataclass, fields

from insitu.injectors.contract import Part
from insitu.injectors.errors import NotSettable


@dataclass(frozen=True, slots=True)
class Link(Part):
    """A link between the subject and everything else; ``None`` is what no variable of the plan sets.

    Attributes
    ----------
    rate_out, rate_in
        Bytes per second on the wire, from the subject and to it; infinity for no cap.
    delay
        Seconds added to each round trip, half in each direction.
    jitter
        Width in seconds of the range, from zero, that is added to each packet's way to the subject at random.
    loss
        Share of the packets that are lost, in each direction.
    by_line
        Whether delay, jitter and loss are brought about by the delay line, not by the kernel's own (netem).
    """

    rate_out: float | None = None
    rate_in: float | None = None
    delay: float | None = None
    jitter: float | None = None
    loss: float | None = None
    by_line: bool = False

    def joined(self, other: Part) -> Link:
        """Both at once."""
        if not isinstance(other, Link):
            raise NotSettable(f"a Link and a {type(other).__name__} are not one link")
        values: dict[str, float | None] = {}
        for name in _VALUES:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine is not None and theirs is not None and mine != theirs:
                raise NotSettable(f"two variables set the {name} of the subject's network link")
            values[name] = theirs if mine is None else mine
        return Link(**values, by_line=self.by_line or other.by_line)

    @property
    def alters_packets(self) -> bool:
        """Whether a variable of the plan delays or loses packets, were it at rest."""
        return any(value is not None for value in (self.delay, self.jitter, self.loss))


_VALUES = tuple(field.name for field in fields(Link) if field.name != "by_line")
