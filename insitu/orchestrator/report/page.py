"""``report.html``: one self-contained file that loads nothing; the one door to jinja2 and plotly.

Scripts run only if their hash is in the page's content security policy, so that a name that slipped through
the escaping could still not run anything.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from insitu.orchestrator.estimation.checks.finding import Check
from insitu.orchestrator.estimation.fit import Fit
from insitu.orchestrator.plan.types import Role, Variable
from insitu.orchestrator.report.endings import ending_label, ending_standing
from insitu.orchestrator.report.goal_plots import drawing_of
from insitu.orchestrator.report.goal_section import goal_section
from insitu.orchestrator.report.graph import NODE_HEIGHT, NODE_WIDTH, lay_out
from insitu.orchestrator.report.plots import plot_data
from insitu.orchestrator.report.summary import Summary
from insitu.orchestrator.report.wording import count, number, signed_percent, together
from insitu.orchestrator.store.database import mapped_errors
from insitu.orchestrator.store.encoding import dump
from insitu.orchestrator.store.records import LevelRecord, LevelVerdict, StoredTrial
from insitu.orchestrator.units import format_quantity, percent

if TYPE_CHECKING:
    import jinja2
    from markupsafe import Markup

ROLE_LABELS = {
    Role.PARAMETER: "parameter of the subject",
    Role.SET: "set by an injector",
    Role.MEASURED: "measured",
    Role.LATENT: "given by its law",
}
IDLE = "left as it is"
CHECK_NAMES = {
    Check.CONSTANT: "Constant outcome",
    Check.SKIPPED: "Trials left out",
    Check.LEVERAGE: "Leverage",
    Check.INFLUENCE: "Influence",
    Check.PATTERN: "Patterns",
    Check.DRIFT: "Drift",
    Check.BLOCKS: "Blocks",
    Check.NODES: "Nodes",
    Check.SPREAD: "Spread",
    Check.SHAPE: "Shape of the noise",
    Check.LACK_OF_FIT: "Lack of fit",
    Check.COLLINEARITY: "Telling parameters apart",
    Check.LEVEL_ERRORS: "Errors of the levels",
    Check.PRIOR: "Prior",
    Check.BOUND: "Bounds",
    Check.SEARCH: "Search",
    Check.OUTLIERS: "Outliers",
    Check.GROUPS: "Nodes and days",
}
VERDICT_MARKS = {
    LevelVerdict.HELD: "✓",
    LevelVerdict.SLACK: "○",
    LevelVerdict.MISSED: "✗",
    LevelVerdict.DISTURBED: "!",
    LevelVerdict.UNSET: "–",
    LevelVerdict.EXACT: "=",
}


@dataclass(frozen=True, slots=True)
class LevelCell:
    """A level in the table of trials; ``sort`` orders the column."""

    sort: float
    requested: str
    achieved: str
    verdict: str
    mark: str
    note: str


@dataclass(frozen=True, slots=True)
class TrialRow:
    """A row of the table of trials."""

    trial: int
    block: int
    purpose: str
    state: str
    tags: str
    levels: tuple[LevelCell | None, ...]
    outcome: str
    outcome_sort: float
    node: str
    why: str


def write_report(path: Path, summary: Summary) -> None:
    """Write the page, whole or not at all.

    Raises
    ------
    CannotExecute
        If there is no space or the directory cannot be written.
    """
    path, page = Path(path), render_report(summary)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    with mapped_errors(path.parent):
        try:
            unfinished.write_text(page, encoding="utf-8")
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)


def render_report(summary: Summary) -> str:
    """Render the page as HTML."""
    plotly, script = _plotly(), _asset("report.js")
    names = list(dict.fromkeys(v for trial in summary.trials for v in trial.planned.assignment.as_dict()))
    variables = {variable.name: variable for variable in summary.variables}
    layout = lay_out([variable.name for variable in summary.variables], summary.edges, summary.confounded)
    section = goal_section(summary)
    return _template().render(
        summary=summary,
        fit=summary.analysis.fit,
        goal=section,
        drawn=drawing_of(summary),
        ending=ending_standing(summary.status),
        ending_label=ending_label(summary.status),
        checks=CHECK_NAMES,
        nodes=len({trial.record.node for trial in summary.trials if trial.record is not None}) > 1,
        purposes=any(trial.planned.purpose is not None for trial in summary.trials),
        policy=f"default-src 'none'; script-src {_hash(plotly)} {_hash(script)}; "
        "style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'",
        style=_asset("report.css"),
        plotly=plotly,
        script=script,
        data=_script_safe(dump(plot_data(summary))),
        layout=layout,
        by_name=variables,
        node_width=NODE_WIDTH,
        node_height=NODE_HEIGHT,
        idle=IDLE,
        role_labels={variable.name: _role_label(variable, summary.trials) for variable in summary.variables},
        factor_names=names,
        rows=[_row(trial, names, variables, summary.outcome_variable) for trial in summary.trials],
        present_states=[state for state, amount in summary.states.items() if amount],
    )


def _row(trial: StoredTrial, names: list[str], variables: Mapping[str, Variable], outcome: Variable) -> TrialRow:
    planned, record = trial.planned, trial.record
    found = {level.variable: level for level in record.levels} if record is not None else {}
    asked = planned.assignment.as_dict()
    tags = ["baseline"] if planned.baseline else []
    tags += [f"replaces {planned.replaces}"] if planned.replaces is not None else []
    observed = record.measurements.get(outcome.source or "", math.nan) if record is not None else math.nan
    return TrialRow(
        trial=planned.trial,
        block=planned.block,
        purpose=planned.purpose.value if planned.purpose is not None else "",
        state=trial.state.value,
        tags=", ".join(tags),
        levels=tuple(_cell(found.get(name), asked.get(name), variables[name]) for name in names),
        outcome=format_quantity(observed, outcome.unit) if math.isfinite(observed) else "",
        outcome_sort=observed,
        node=record.node if record is not None else "",
        why="; ".join(record.reasons) if record is not None else "",
    )


def _cell(level: LevelRecord | None, asked: float | None, variable: Variable) -> LevelCell | None:
    if level is None:
        return None if asked is None else LevelCell(asked, variable.spell(asked), "", "planned", "", "")
    known = level.achieved is not None and level.verdict is not LevelVerdict.EXACT
    used = "used " if level.verdict is LevelVerdict.SLACK else ""
    return LevelCell(
        sort=level.requested,
        requested=variable.spell(level.requested),
        achieved=f"{used}{variable.spell(level.achieved)}" if known and level.achieved is not None else "",
        verdict=level.verdict.value,
        mark=VERDICT_MARKS[level.verdict],
        note="; ".join(filter(None, (level.mechanism, level.note))),
    )


@cache
def _template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(count=count)
    environment.filters.update(
        quantity=format_quantity,
        number=number,
        percent=percent,
        signed=signed_percent,
        together=together,
        spread_note=_spread_note,
        told=_told,
    )
    return environment.get_template("report.html.j2")


def _told(text: str) -> Markup:
    """A sentence with a capital; what stands between backticks as code."""
    from markupsafe import Markup, escape

    words = f"{text[:1].upper()}{text[1:]}".split("`")
    parts = (f"<code>{escape(part)}</code>" if index % 2 else escape(part) for index, part in enumerate(words))
    return Markup("".join(parts))  # noqa: S704 - every part is escaped


def _role_label(variable: Variable, trials: Sequence[StoredTrial]) -> str:
    """How a variable gets its value in this run."""
    if variable.role is Role.SET and not any(variable.name in one.planned.assignment.as_dict() for one in trials):
        return IDLE
    return ROLE_LABELS[variable.role]


def _spread_note(fit: Fit) -> str:
    """How much trials spread about a law, in its own terms."""
    test, relative = fit.lack_of_fit, fit.noise.relative

    def spread(size: float) -> str:
        return percent(size) if relative else format_quantity(size, fit.unit)

    mean = " of the mean" if relative else ""
    text = f"Trials spread by {spread(fit.sigma)}{mean} about the law ({fit.df:.4g} degrees of freedom)"
    return f"{text}; replicates differ by {spread(test.pure_error_sd)}." if test is not None else f"{text}."


def _asset(name: str) -> str:
    return (resources.files(__package__) / "assets" / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    source = resources.files("plotly") / "package_data" / "plotly.min.js"
    return source.read_text(encoding="utf-8").replace("\r\n", "\n").replace("</script", "<\\/script")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _script_safe(document: str) -> str:
    """Keep data inside its element: no ``<`` in it can open or close one."""
    return document.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
