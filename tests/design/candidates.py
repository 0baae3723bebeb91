"""Candidate trials that the tests of designs share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from insitu.orchestrator.causal.expression import Array

seeds = st.integers(0, 2**32 - 1)
"""Of random candidates."""


def linear_law() -> Array:
    """Rows of ``c + a * size * rate + b * size * cpu``: size 1, 2, 4, 8; rate and cpu 1, 2, 4; shape (36, 3)."""
    return np.array(
        [(1, size * rate, size * cpu) for size in (1, 2, 4, 8) for rate in (1, 2, 4) for cpu in (1, 2, 4)],
        dtype=float,
    )


def random_rows(seed: int, candidates: int = 25, parameters: int = 3) -> Array:
    """Rows whose columns are of very different sizes, as seconds beside seconds per byte are."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(candidates, parameters)) * 10.0 ** rng.integers(-9, 10, parameters)


def log_determinant(rows: Array) -> float:
    """Of the information of trials with these rows."""
    lengths = np.linalg.norm(rows, axis=0)
    scaled = rows / lengths
    return float(np.linalg.slogdet(scaled.T @ scaled)[1] + 2 * np.log(lengths).sum())
