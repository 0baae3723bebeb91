"""What trials take beside the subject's own time: preparing its input, applying levels, the sandbox."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.design.space import Space
from insitu.orchestrator.store.records import Assignment


def setup_seconds(
    space: Space, own: Sequence[str], tried: Sequence[Assignment], spent: Sequence[float], otherwise: float
) -> Array:
    """What a trial of each candidate takes to set up, shape (m,).

    Parameters
    ----------
    own
        Factors on which it depends: the subject's parameters, which its preparation is given.
    tried, spent
        Assignments of earlier trials, and the seconds that each took to set up.
    otherwise
        Without any.

    Notes
    -----
    It is the median of the trials with the same parameters; where there is none, of all.
    """
    if not spent:
        return np.full(len(space), otherwise)
    seen: dict[tuple[float, ...], list[float]] = {}
    for assignment, seconds in zip(tried, spent, strict=True):
        levels = assignment.as_dict()
        seen.setdefault(tuple(levels[name] for name in own), []).append(seconds)
    known = {levels: statistics.median(many) for levels, many in seen.items()}
    usual = statistics.median(spent)
    columns = space.levels[:, [space.names.index(name) for name in own]].tolist()
    return np.array([known.get(tuple(levels), usual) for levels in columns])
