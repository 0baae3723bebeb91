"""Fitted laws of earlier runs, read as what is known of a law's parameters before its trials."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.estimation.fitted_file import parse_fitted_laws
from insitu.orchestrator.estimation.fitting.prior import Prior, combined
from insitu.orchestrator.plan.types import PriorText
from insitu.orchestrator.units import UnitError, dimension_of

if TYPE_CHECKING:
    from insitu.orchestrator.causal.law import Law


def prior_of(law: Law) -> Prior | None:
    """What the earlier runs that a law names found of its parameters; ``None`` if it names none.

    Raises
    ------
    InputError
        If a file is damaged, or what it says is not about this law.
    """
    found = [_read(law, one) for one in law.priors]
    return combined(found) if found else None


def _read(law: Law, named: PriorText) -> Prior:
    fit = parse_fitted_laws(named.source, named.path).fits.get(named.variable)
    if fit is None:
        raise InputError(f"{named.path} has no fitted law of {named.variable}", hint="name another run")
    _check_alike(law, fit, named)
    whole = Prior.from_fit(fit, named.path.parent.name or str(named.path))
    if fit.outcome != law.variable:
        whole = replace(whole, noise=math.nan)
    about = whole.about(law)
    if about is None:
        raise InputError(
            f"{named.path} says nothing of the parameters of {law.variable}: it has {', '.join(fit.parameters)}",
            hint=f"name the parameters as there, or leave the prior out; the law has {', '.join(law.parameters)}",
        )
    return about


def _check_alike(law: Law, fit: Fit, named: PriorText) -> None:
    """Refuse parameters of one name that mean something else."""
    if fit.outcome == law.variable and fit.link is not law.link:
        raise InputError(
            f"the law of {fit.outcome} in {named.path} has the link {fit.link}, here it is {law.link}",
            hint="its parameters mean something else; leave the prior out",
        )
    if fit.quantile is not None:
        raise InputError(
            f"the law of {fit.outcome} in {named.path} gives a quantile, whose parameters are those of no mean",
            hint="name a run in which the mean was fitted",
        )
    for estimate in fit.estimates:
        if estimate.name not in law.parameters:
            continue
        try:
            same = dimension_of(estimate.unit) == dimension_of(law.parameter_units[estimate.name])
        except UnitError:
            same = estimate.unit == law.parameter_units[estimate.name]
        if not same:
            there, here = estimate.unit or "a plain number", law.parameter_units[estimate.name] or "a plain number"
            raise InputError(
                f"{estimate.name} of {fit.outcome} in {named.path} is in {there}, here it is in {here}",
                hint="it is another parameter; rename one, or leave the prior out",
            )
