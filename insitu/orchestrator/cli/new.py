"""``insitu new``: a plan and a model to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from insitu.orchestrator.cli.saying import say

_FILES = (
    ("quickstart.yaml", "plan.yaml"),
    ("models/read-compute.yaml", "models/read-compute.yaml"),
    ("schema/plan.schema.json", "schema/plan.schema.json"),
    ("schema/model.schema.json", "schema/model.schema.json"),
)


def new(
    directory: Annotated[Path, typer.Argument(help="Folder to write into; made if it is not there.")] = Path(),
) -> None:
    """Write a plan, a model and their schemas to start from; nothing is overwritten."""
    from insitu.orchestrator.errors import CannotExecute, InputError

    targets = [directory / target for _, target in _FILES]
    if existing := [str(path) for path in targets if path.exists()]:
        raise InputError(f"not overwritten: {', '.join(existing)}", hint="choose another folder")
    source = _configs()
    try:
        for (name, _), target in zip(_FILES, targets, strict=True):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text((source / name).read_text(encoding="utf-8"), encoding="utf-8")
    except OSError as exc:
        raise CannotExecute(f"cannot write {exc.filename}: {exc.strerror}") from exc
    say(f"wrote {targets[0]} and {targets[1]}")
    say(f"next: edit them, then: insitu check {targets[0]}")


def _configs() -> Path:
    """The shipped configurations: beside the package in a checkout, inside it when installed."""
    import insitu

    package = Path(insitu.__file__).parent
    inside = package / "configs"
    return inside if inside.is_dir() else package.parent / "configs"
