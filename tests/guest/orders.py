"""What host and guest tell each other, through a folder that they share.

The guest's first process imports this with nothing but the standard library around.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

_ORDER, _STATUS, _RESULTS = "order.json", "status", "results"


@dataclass(frozen=True)
class Order:
    """A command for the guest, in the project's folder there."""

    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)

    def write(self, exchange: Path) -> None:
        results_folder(exchange).mkdir()
        (exchange / _ORDER).write_text(self.text())

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def read(cls, exchange: Path) -> Order:
        return cls.parse((exchange / _ORDER).read_text())

    @classmethod
    def parse(cls, text: str) -> Order:
        """The opposite of `text`."""
        stored = json.loads(text)
        return cls(tuple(stored["command"]), stored["environment"])


def results_folder(exchange: Path) -> Path:
    """Where the command leaves files for the host."""
    return exchange / _RESULTS


def write_status(exchange: Path, status: int) -> None:
    (exchange / _STATUS).write_text(str(status))


def read_status(exchange: Path) -> int | None:
    """Exit status of the command, ``None`` if the guest did not come so far."""
    try:
        return int((exchange / _STATUS).read_text())
    except (FileNotFoundError, ValueError):
        return None
