"""All commands, and what they share."""

from __future__ import annotations

from typing import Annotated

import typer

from insitu import __version__
from insitu.orchestrator.cli import (
    check,
    counterfactual,
    doctor,
    effect,
    elasticity,
    explain,
    new,
    recover,
    report,
    resume,
    run,
    schema,
    show,
    whatif,
)

app = typer.Typer(
    help="Active-intervention experiments on real programs: hold a resource at a level, verify that it was "
    "held, refit the law, answer what-if questions with intervals.",
    epilog="Run directories, variables and trials complete in the shell after: insitu --install-completion. "
    "Exit codes: 0 done, 1 ended without reaching the goal, 2 the input is wrong, 3 this machine cannot do it, "
    "4 a node may be dirty (run: insitu recover).",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"insitu {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit."),
    ] = False,
) -> None:
    del version


app.command("new", rich_help_panel="Before a run")(new.new)
app.command("doctor", rich_help_panel="Before a run")(doctor.doctor)
app.command("check", rich_help_panel="Before a run")(check.check)
app.command("schema", rich_help_panel="Before a run")(schema.schema)
app.command("run", rich_help_panel="Run")(run.run)
app.command("resume", rich_help_panel="Run")(resume.resume)
app.command("recover", rich_help_panel="Run")(recover.recover)
app.command("show", rich_help_panel="After a run")(show.show)
app.command("report", rich_help_panel="After a run")(report.report)
app.command("whatif", rich_help_panel="Questions to a run")(whatif.whatif)
app.command("effect", rich_help_panel="Questions to a run")(effect.effect)
app.command("elasticity", rich_help_panel="Questions to a run")(elasticity.elasticity)
app.command("counterfactual", rich_help_panel="Questions to a run")(counterfactual.counterfactual)
app.command("explain", rich_help_panel="Questions to a run")(explain.explain)
