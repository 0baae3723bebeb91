"""Active-intervention experiments on real programs.

Public: ``open_run``, which opens a run directory to look at its trials and to put questions to its fitted laws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from insitu.orchestrator.api.run import open_run

__version__ = "0.1.0"
__all__ = ["__version__", "open_run"]


def __getattr__(name: str) -> Any:
    """Import what is asked for when it is: ``import insitu`` itself takes no time."""
    if name == "open_run":
        from insitu.orchestrator.api.run import open_run

        return open_run
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
