"""From a run directory to what the commands show of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insitu.orchestrator.report.summary import Summary
    from insitu.orchestrator.store.run import RunStore

TOLERANCE = 0.03
"""Drawn as a band in the report; each injector judges by its own."""


def summary_of(directory: Path) -> Summary:
    """Open a run for reading and gather what it shows."""
    from insitu.orchestrator.store.run import RunStore

    with RunStore.open(directory, read_only=True) as store:
        return summarise_store(store)


def summarise_store(store: RunStore) -> Summary:
    """Refit the law from the stored trials and gather what is shown."""
    from insitu.orchestrator import experiment
    from insitu.orchestrator.estimation.analysis import analyse
    from insitu.orchestrator.report.summary import summarise
    from insitu.orchestrator.steering.choice import answer_of

    plan, blueprint = experiment.read_stored(store)
    trials = store.trials()
    analysis = analyse(blueprint, trials, plan.goal)
    found = answer_of(plan, blueprint, trials)
    return summarise(blueprint, trials, analysis, store.meta(), plan.goal, TOLERANCE, found)


def write_results(store: RunStore) -> Summary:
    """Write ``fitted.json`` and ``report.html`` into the run directory; gives what the terminal shows."""
    from insitu.orchestrator import experiment
    from insitu.orchestrator.estimation.analysis import fit_all
    from insitu.orchestrator.estimation.fitted_file import write_fitted_laws
    from insitu.orchestrator.report.page import write_report

    plan, blueprint = experiment.read_stored(store)
    confidence = plan.goal.confidence if plan.goal is not None else 0.95
    fitted = fit_all(blueprint, store.trials(), confidence)
    summary = summarise_store(store)
    if fitted.fits:
        fitted = replace(fitted, graph=summary.analysis.graph)
        write_fitted_laws(store.directory / "fitted.json", fitted)
    write_report(store.directory / "report.html", summary)
    return summary
