"""What speaks against a plan before any of its trials is executed.

Public: `Doubt`, and `doubts_of`, which raises for a goal out of reach.
"""

from insitu.orchestrator.doubts.doubt import Doubt
from insitu.orchestrator.doubts.overall import doubts_of

__all__ = ["Doubt", "doubts_of"]
