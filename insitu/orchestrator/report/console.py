"""Where tables and coloured text are printed: a console that prints text and nothing else of what it is given."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from insitu.orchestrator.printable import printable_lines


class PlainConsole(Console):
    """A console on which names and messages of programs and files cannot steer the terminal.

    What a subject wrote, or a run directory that a stranger sent, stands in tables beside our own words.
    """

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As ever, with what is no text escaped; styles, and the movements that rich makes, are not in texts."""
        shown = _escaped(renderable) if isinstance(renderable, Text) else renderable
        for segment in super().render(shown, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)


def _escaped(text: Text) -> Text:
    """Before it is laid out, so that nothing of it is cut off; what is escaped has the style of the whole."""
    foreign = [place for place, one in enumerate(text.plain) if one != "\n" and not one.isprintable()]
    if not foreign:
        return text
    whole = text.blank_copy()
    for piece in text.divide(sorted({end for place in foreign for end in (place, place + 1)})):
        escaped = printable_lines(piece.plain)
        whole.append_text(piece if escaped == piece.plain else Text(escaped))
    return whole
