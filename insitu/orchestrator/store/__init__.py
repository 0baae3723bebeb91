"""Runs, trials and samples on disk: durable before the next trial starts, resumable, never pickled.

`run.RunStore` is a run directory; `records` holds what it remembers, `states` how a trial moves on, and
`samples` its values over time.
"""

from insitu.orchestrator.store.reading import Event
from insitu.orchestrator.store.run import RunStore

__all__ = ["Event", "RunStore"]
