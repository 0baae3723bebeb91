"""Text of others, as a terminal can have it: nothing in it steers the cursor, the colours or the clipboard."""

from __future__ import annotations


def printable(text: str) -> str:
    """One line of text, with what is not printable escaped: control codes, ends of lines, marks of direction."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def printable_lines(text: str) -> str:
    """The same for text of many lines, whose ends stay."""
    return "\n".join(map(printable, text.split("\n")))
