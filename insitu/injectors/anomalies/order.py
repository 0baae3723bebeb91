"""What the agent asks of the load server: one message, with three descriptors beside it."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from insitu.injectors.anomalies.load import Kind, Load
from insitu.injectors.options import Window

LONGEST_ORDER = 1 << 18


@dataclass(frozen=True, slots=True)
class StartLoad:
    """Start the workers of one load. Beside it: the board, an event that starts windows, a pipe for answers.

    Attributes
    ----------
    join_files
        Files of the load's control groups, to write a 0 to.
    folder
        Of ours, for files; empty where none are needed.
    deadline_s
        When each worker is ended by a timer of its own.
    cache_bytes
        Size of the last-level cache.
    """

    load: Load
    join_files: tuple[str, ...]
    folder: str
    deadline_s: float
    cache_bytes: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def decode(cls, text: bytes) -> StartLoad:
        fields = json.loads(text)
        load = fields.pop("load")
        windows = load.pop("windows")
        return cls(
            load=Load(
                kind=Kind(load.pop("kind")),
                windows=None if windows is None else tuple(Window(**window) for window in windows),
                **load,
            ),
            join_files=tuple(fields.pop("join_files")),
            **fields,
        )


READY = b"+"
"""A worker's answer when it is about to begin."""
FAILED = b"!"
"""Begin of the answer of one that will not; the reason follows."""
