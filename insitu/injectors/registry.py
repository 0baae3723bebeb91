"""Injectors by name, found through entry points; the built-in ones register the same way."""

from __future__ import annotations

from functools import cache
from importlib.metadata import entry_points

from insitu.injectors.contract import Injector

GROUP = "insitu.injectors"


@cache
def injectors() -> dict[str, Injector]:
    """All registered injectors, by variable name.

    Raises
    ------
    ValueError
        If an entry point's name is not the variable that its injector sets.
    """
    found: dict[str, Injector] = {}
    for entry in sorted(entry_points(group=GROUP), key=lambda e: e.name):
        injector: Injector = entry.load()()
        if injector.variable != entry.name:
            raise ValueError(f"entry point {entry.name} of {GROUP} sets {injector.variable}")
        found[entry.name] = injector
    return found
