"""A fitted law as plain data: everything that later answers need, without the trials.

All values are in base units unless a name says *reported*.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.store.database import mapped_errors

FORMAT = "insitu-fit"
VERSION = 1


@dataclass(frozen=True, slots=True)
class Estimate:
    """One parameter of the law.

    Attributes
    ----------
    reported, reported_low, reported_high, reported_std_error
        In `unit`.
    base
        In base units.
    p_value
        Of the two-sided test that the parameter is zero.
    """

    name: str
    unit: str
    reported: float
    reported_low: float
    reported_high: float
    reported_std_error: float
    base: float
    p_value: float


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """Test of the law against one free mean per assignment.

    Attributes
    ----------
    f, df_lack, df_pure, p_value
        The F test; significant when ``p_value`` is below 0.05.
    pure_error_sd
        Standard deviation between trials of one assignment, in the outcome's base unit.
    """

    f: float
    df_lack: int
    df_pure: int
    p_value: float
    pure_error_sd: float

    @property
    def significant(self) -> bool:
        return self.p_value < 0.05


@dataclass(frozen=True, slots=True)
class MissingTerm:
    """The term that, added to the law, would explain most of what it leaves.

    Attributes
    ----------
    p_value
        Of the added term, multiplied by the number of terms tried (Bonferroni).
    explained
        Share of the residual sum of squares that it takes away, 0 to 1.
    """

    term: str
    p_value: float
    explained: float
    candidates: int
    sentence: str


@dataclass(frozen=True, slots=True)
class SupportRange:
    """Where one variable has data.

    Attributes
    ----------
    low, high
        Of the achieved levels, widened to the requested ones that were held.
    requested
        Distinct finite levels that were asked for and held, rising.
    natural
        Level that the machine gave where nothing was asked for; ``None`` where there is no such trial.
    """

    variable: str
    unit: str
    low: float
    high: float
    requested: tuple[float, ...]
    natural: float | None

    @property
    def varied(self) -> bool:
        """Whether trials differ in it by request."""
        return len(self.requested) + (self.natural is not None) > 1


@dataclass(frozen=True, slots=True)
class FitPoint:
    """One fitted trial; ``low`` and ``high`` bound the prediction interval at its levels."""

    trial: int
    levels: dict[str, float]
    observed: float
    predicted: float
    low: float
    high: float
    residual: float
    leverage: float
    cooks_distance: float


@dataclass(frozen=True, slots=True)
class Skipped:
    """A valid trial that could not be fitted, and why."""

    trial: int
    reason: str


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """Checks of what ordinary least squares assumes.

    Attributes
    ----------
    heteroscedasticity_p
        Breusch and Pagan's test; ``None`` where it cannot be computed.
    normality_p
        Shapiro and Wilk's test of the residuals; ``None`` likewise.
    max_leverage, max_leverage_trial
        The trial with the most weight on its own prediction.
    condition_number
        Of the design matrix with columns scaled to length one.
    """

    heteroscedasticity_p: float | None
    normality_p: float | None
    max_leverage: float
    max_leverage_trial: int
    condition_number: float


@dataclass(frozen=True, slots=True)
class Fit:
    """A law refitted on the valid trials of a run.

    Attributes
    ----------
    law
        Its right side, as the model writes it.
    covariance
        Of the parameters in base units, shape (parameters, parameters).
    inverse_gram
        Inverse of X'X in base units; a row's leverage is x' (X'X)^-1 x.
    sigma
        Residual standard deviation, in the outcome's base unit.
    r_squared
        About the mean of the outcome.
    lack_of_fit
        ``None`` with the reason in `lack_of_fit_reason` where it cannot be tested.
    max_leverage
        Of the fitted trials and of the levels that they asked for: the edge of the support's hull.
    baseline
        Levels of a trial without any intervention: the defaults of a question.
    not_estimated
        Parameters whose term was zero in every trial, as where a throttle was never applied.
    """

    outcome: str
    unit: str
    law: str
    confidence: float
    estimates: tuple[Estimate, ...]
    covariance: tuple[tuple[float, ...], ...]
    inverse_gram: tuple[tuple[float, ...], ...]
    sigma: float
    n: int
    df: int
    r_squared: float
    lack_of_fit: LackOfFit | None
    lack_of_fit_reason: str
    missing_term: MissingTerm | None
    support: tuple[SupportRange, ...]
    max_leverage: float
    baseline: dict[str, float]
    points: tuple[FitPoint, ...]
    skipped: tuple[Skipped, ...]
    diagnostics: Diagnostics
    not_estimated: tuple[str, ...] = ()

    __pydantic_config__: ClassVar[dict[str, str]] = {"extra": "forbid"}

    def support_of(self, variable: str) -> SupportRange:
        """Return where a variable has data.

        Raises
        ------
        KeyError
            If the law does not mention it.
        """
        for support in self.support:
            if support.variable == variable:
                return support
        raise KeyError(variable)

    def as_document(self) -> dict[str, Any]:
        """The fit as a tree that JSON can carry; non-finite numbers are text."""
        document: dict[str, Any] = _spelt(asdict(self))
        return document


def write_fits(path: Path, fits: Sequence[Fit]) -> None:
    """Write ``fitted.json``, whole or not at all.

    Raises
    ------
    CannotExecute
        If there is no space or the directory cannot be written.
    """
    document = {"format": FORMAT, "version": VERSION, "fits": [fit.as_document() for fit in fits]}
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with mapped_errors(path.parent):
        try:
            unfinished.write_text(json.dumps(document, allow_nan=False, indent=1) + "\n", encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def read_fits(path: Path) -> dict[str, Fit]:
    """Read ``fitted.json``: outcome to fit.

    Raises
    ------
    InputError
        If the file is missing, damaged, or made by a newer version.
    """
    from pydantic import TypeAdapter, ValidationError

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError("it is not a file of fits")
        if document["version"] > VERSION:
            raise InputError(
                f"{path} was made by a newer insitu (fit format {document['version']}, this reads {VERSION})",
                hint="install a newer insitu, or refit with `insitu report`",
            )
        fits = TypeAdapter(tuple[Fit, ...]).validate_python(document["fits"])
    except FileNotFoundError as error:
        raise InputError(
            f"{path.parent} has no fitted law yet", hint="`insitu show` says why; `insitu resume` goes on"
        ) from error
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        detail = str(error).splitlines()[0]
        raise InputError(f"{path} is damaged: {detail}", hint="refit with `insitu report`") from error
    for fit in fits:
        _check_shape(path, fit)
    return {fit.outcome: fit for fit in fits}


def _check_shape(path: Path, fit: Fit) -> None:
    size = len(fit.estimates)
    for matrix in (fit.covariance, fit.inverse_gram):
        if len(matrix) != size or any(len(row) != size for row in matrix):
            raise InputError(f"{path} is damaged: a matrix has the wrong shape", hint="refit with `insitu report`")


def _spelt(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {key: _spelt(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_spelt(item) for item in value]
    return value
