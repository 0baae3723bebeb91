"""From a run directory to what the commands show of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insitu.orchestrator.estimation.fit import FittedLaws
    from insitu.orchestrator.report.summary import Summary
    from insitu.orchestrator.store.run import RunStore

TOLERANCE = 0.03
"""Drawn as a band in the report; each injector judges by its own."""


def summary_of(directory: Path, *, looks: bool = True) -> Summary:
    """Open a run for reading and gather what it shows.

    Parameters
    ----------
    looks
        Whether what was known at each look is shown, too: each takes a fit of its own.
    """
    from insitu.orchestrator.store.run import RunStore

    with RunStore.open(directory, read_only=True) as store:
        return _find(store, looks=looks).summary


@dataclass(frozen=True, slots=True)
class _Found:
    """What a run shows, and the fits that it writes."""

    summary: Summary
    fitted: FittedLaws


def _find(store: RunStore, *, looks: bool) -> _Found:
    """Refit the laws from the stored trials and gather what is shown."""
    from insitu.orchestrator import experiment
    from insitu.orchestrator.estimation.analysis import analyse, fit_all
    from insitu.orchestrator.reasoning import reason_about
    from insitu.orchestrator.report.summary import summarise
    from insitu.orchestrator.steering.choice import answer_of, course_of

    plan, blueprint = experiment.read_stored(store)
    trials = store.trials()
    analysis = analyse(blueprint, trials, plan.goal)
    fitted = fit_all(blueprint, trials, plan.goal.confidence if plan.goal is not None else 0.95)
    reasoning = reason_about(plan, blueprint)
    summary = summarise(
        blueprint,
        trials,
        analysis,
        store.meta(),
        plan.goal,
        TOLERANCE,
        answer_of(plan, blueprint, trials),
        fits=fitted.fits,
        looks=course_of(plan, blueprint, trials) if looks else (),
        reasoning=reasoning.sentences if reasoning is not None else (),
    )
    return _Found(summary, replace(fitted, graph=analysis.graph))


def write_results(store: RunStore) -> Summary:
    """Write ``fitted.json`` and ``report.html`` into the run directory; gives what the terminal shows."""
    from insitu.orchestrator.estimation.fitted_file import write_fitted_laws
    from insitu.orchestrator.report.page import write_report

    found = _find(store, looks=True)
    if found.fitted.fits:
        write_fitted_laws(store.directory / "fitted.json", found.fitted)
    write_report(store.directory / "report.html", found.summary)
    return found.summary
