"""``fitted.json``: the fitted laws of a run, written whole or not at all and read back with suspicion."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.checks.graph_findings import GraphCheck
from insitu.orchestrator.estimation.fit import Fit, FittedLaws, NotFitted
from insitu.orchestrator.plan.priors import MAX_BYTES
from insitu.orchestrator.plan.regular_file import read_regular
from insitu.orchestrator.store.database import mapped_errors
from insitu.orchestrator.store.encoding import finite_json

FORMAT = "insitu-fit"
VERSION = 2

_SYMMETRY = 1e-6
"""Relative difference between the halves of a covariance that rounding may leave."""
_ROUNDING = 1e-8
"""By how much an eigenvalue of a matrix of correlations may be below zero."""
_LARGEST, _SMALLEST = 1e250, 1e-250
"""Of a variance. What is beyond them is of no measurement in any unit, and products of it are no numbers."""


def write_fits(path: Path, fits: Iterable[Fit]) -> None:
    """Write some fits as a ``fitted.json``.

    Raises
    ------
    CannotExecute
        If there is no space or the directory cannot be written.
    """
    write_fitted_laws(path, FittedLaws({fit.outcome: fit for fit in fits}))


def write_fitted_laws(path: Path, fitted: FittedLaws) -> None:
    """Write ``fitted.json``, whole or not at all.

    Raises
    ------
    CannotExecute
        If there is no space or the directory cannot be written.
    """
    document = {
        "format": FORMAT,
        "version": VERSION,
        "fits": [as_document(fit) for fit in fitted.fits.values()],
        "not_fitted": [asdict(one) for one in fitted.not_fitted],
        "graph": None if fitted.graph is None else finite_json(asdict(fitted.graph)),
    }
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with mapped_errors(path.parent):
        try:
            unfinished.write_text(json.dumps(document, allow_nan=False, indent=1) + "\n", encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def as_document(fit: Fit) -> dict[str, Any]:
    """A fit as a tree that JSON can carry; non-finite numbers are text."""
    document = finite_json(asdict(fit))
    assert isinstance(document, dict)
    return document


def read_fits(path: Path) -> dict[str, Fit]:
    """Read ``fitted.json``: outcome to fit.

    Raises
    ------
    InputError
        If the file is missing, damaged, or made by a newer version.
    """
    return dict(read_fitted_laws(path).fits)


def read_fitted_laws(path: Path) -> FittedLaws:
    """As `read_fits`, with the laws that could not be fitted.

    Raises
    ------
    InputError
        If the file is missing, damaged, or made by a newer version.
    """
    try:
        content = read_regular(path, MAX_BYTES)
        if len(content) > MAX_BYTES:
            raise ValueError("it is too large")
        text = content.decode("utf-8")
    except FileNotFoundError as error:
        raise InputError(
            f"{path.parent} has no fitted law yet", hint="`insitu show` says why; `insitu resume` goes on"
        ) from error
    except (OSError, ValueError) as error:
        raise _damaged(path, error) from error
    return parse_fitted_laws(text, path)


def parse_fitted_laws(text: str, path: Path) -> FittedLaws:
    """Read the text of a ``fitted.json``, which may come from a stranger; nothing in it is executed.

    Parameters
    ----------
    path
        Where it comes from; for messages.

    Raises
    ------
    InputError
        If it is damaged, or made by a newer version.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        document = json.loads(text)
        if document["format"] != FORMAT:
            raise ValueError("it is not a file of fits")
        if document["version"] > VERSION:
            raise InputError(
                f"{path} was made by a newer insitu (fit format {document['version']}, this reads {VERSION})",
                hint="install a newer insitu, or refit with `insitu report`",
            )
        if document["version"] == 1:
            document = _from_version_1(document)
        fits = TypeAdapter(tuple[Fit, ...]).validate_python(document["fits"])
        not_fitted = TypeAdapter(tuple[NotFitted, ...]).validate_python(document["not_fitted"])
        graph = TypeAdapter(GraphCheck | None).validate_python(document["graph"])
        for fit in fits:
            _check(fit)
        if len({fit.outcome for fit in fits}) < len(fits):
            raise ValueError("two fits of one variable")
    except ValidationError as error:
        first = error.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(path, error) from error
    return FittedLaws({fit.outcome: fit for fit in fits}, not_fitted, graph)


def _damaged(path: Path, why: object) -> InputError:
    detail = str(why).splitlines()[0] if str(why) else type(why).__name__
    return InputError(f"{path} is damaged: {detail}", hint="refit with `insitu report`")


def _check(fit: Fit) -> None:
    """Refuse what cannot be, although each of its parts has the right type.

    Raises
    ------
    ValueError
        With what it is.
    """
    size = len(fit.estimates)
    for matrix in (fit.covariance, fit.inverse_gram):
        if len(matrix) != size or any(len(row) != size for row in matrix):
            raise ValueError("a matrix has the wrong shape")
        cells = np.array(matrix, dtype=np.float64).reshape(size, size)
        if not np.isfinite(cells).all():
            raise ValueError("a matrix is not finite")
        deviations = np.sqrt(np.abs(np.diag(cells)))
        sizes = np.outer(deviations, deviations)
        if (np.abs(cells - cells.T) > _SYMMETRY * sizes).any() or (np.diag(cells) < 0).any():
            raise ValueError("a matrix is no covariance")
        if not _is_positive(cells):
            raise ValueError("a matrix is no covariance: it has correlations that cannot be")
    if not all(map(math.isfinite, (estimate.base for estimate in fit.estimates))):
        raise ValueError("an estimate is not finite")
    variances = [fit.sigma * fit.sigma, *np.diag(np.array(fit.covariance).reshape(size, size))]
    squares = [*variances, *(estimate.base * estimate.base for estimate in fit.estimates)]
    if max(squares) > _LARGEST or any(0 < one < _SMALLEST for one in variances):
        raise ValueError("a number is too large or too small to be of a measurement")
    if len(set(fit.parameters)) < size:
        raise ValueError("a parameter is given twice")
    if not 0 < fit.confidence < 1:
        raise ValueError(f"a confidence of {fit.confidence} is not between 0 and 1")
    if fit.quantile is not None and not 0 < fit.quantile < 1:
        raise ValueError(f"a quantile of {fit.quantile} is not between 0 and 1")
    if not fit.df > 0 or not fit.sigma_df > 0 or not fit.sigma >= 0:
        raise ValueError("a spread or its degrees of freedom are not positive")


def _is_positive(matrix: np.ndarray) -> bool:
    """Whether no combination of parameters would have a negative variance."""
    told = np.diag(matrix) > 0
    deviations = np.sqrt(np.diag(matrix)[told])
    correlations = matrix[np.ix_(told, told)] / deviations[:, None] / deviations
    strengths = np.linalg.eigvalsh(correlations) if told.any() else np.zeros(1)
    return bool(strengths[0] >= -_ROUNDING) and not matrix[~told].any()


def _from_version_1(document: dict[str, Any]) -> dict[str, Any]:
    """Add what version 1 did not know; its fits were all ordinary least squares."""
    fits = []
    for old in document["fits"]:
        sigma, df = float(old["sigma"]), float(old["df"])
        fits.append(
            {
                **old,
                "points": [{**point, "studentised": _studentised(point, sigma, df)} for point in old["points"]],
                "link": "identity",
                "noise": "normal",
                "method": "least_squares",
                "quantile": None,
                "sigma_df": old["df"],
                "at_bound": [],
                "groups": [],
                "prior": None,
                "findings": [],
            }
        )
    return {**document, "fits": fits, "not_fitted": [], "graph": None}


def _studentised(point: dict[str, Any], sigma: float, df: float) -> float:
    """From what version 1 has of a trial; by the identity between the two kinds of studentised residual."""
    room = sigma * math.sqrt(max(0.0, 1 - float(point["leverage"])))
    if room == 0 or df <= 1:
        return 0.0
    within = float(point["residual"]) / room
    left = df - within**2
    return within * math.sqrt((df - 1) / left) if left > 0 else math.copysign(math.inf, within)
