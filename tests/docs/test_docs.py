"""Holds the documentation to the code: its YAML loads, its commands and options exist, its links resolve."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from insitu.orchestrator.causal.blueprint import build_blueprint, check_against
from insitu.orchestrator.causal.expression import FUNCTIONS
from insitu.orchestrator.cli.app import app
from insitu.orchestrator.experiment import settable
from insitu.orchestrator.plan.blast_radius import UNITS
from insitu.orchestrator.plan.host_quantities import HOST_QUANTITIES
from insitu.orchestrator.plan.inventory import load_inventory
from insitu.orchestrator.plan.loading import load_model, load_plan
from insitu.orchestrator.plan.measurements import MEASUREMENTS
from insitu.orchestrator.plan.schema import Document, InventoryDocument, ModelDocument, PlanDocument
from insitu.orchestrator.store.records import LevelVerdict, TrialState

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.rglob("*.md"), *ROOT.glob("*.md")])
SETTABLE = settable()
COMMANDS = typing.cast("dict[str, typing.Any]", typer.main.get_command(app).commands)  # type: ignore[attr-defined]

_YAML = re.compile(r"^```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_FILE = re.compile(r"# file: (\S+)\n")


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path) -> dict[str, str]:
    """The YAML files that a page spells out: path to text."""
    found: dict[str, str] = {}
    for text in _YAML.findall(page.read_text()):
        match = _FILE.match(text)
        assert match, f"{page}: begin a block with '# file: NAME', or mark it as ```yaml fragment"
        found[match[1]] = text
    return found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_yaml_file_that_a_page_spells_out_loads(page: Path, tmp_path: Path) -> None:
    files = blocks(page)
    for name, text in files.items():
        target = tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    for name, text in files.items():
        if "\nvariables:" in text:
            build_blueprint(load_model(tmp_path / name, settable=SETTABLE))
        elif "\nnodes:" in text:
            load_inventory(tmp_path / name, SETTABLE)
        else:
            plan = load_plan(tmp_path / name, settable=SETTABLE, designs=("factorial", "sequential"))
            check_against(plan, build_blueprint(plan.model))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_that_a_page_names_exists(page: Path) -> None:
    code = "\n".join(_CODE.findall(page.read_text()))
    named = set(re.findall(r"(?:^|[`$ ])insitu ([a-z]+)\b", code))
    assert named <= set(COMMANDS), f"{page} names commands that do not exist"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_internal_link_resolves(page: Path) -> None:
    prose = _FENCE.sub("", page.read_text())
    for link in _LINK.findall(prose):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page}: {link}"
        if anchor:
            assert anchor in set(anchors(target)), f"{page}: {link} names no heading"


def anchors(page: Path) -> Iterator[str]:
    for heading in re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text()), re.MULTILINE):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@pytest.mark.parametrize(
    ("document", "page"),
    [(PlanDocument, "plan.md"), (ModelDocument, "model.md"), (InventoryDocument, "inventory.md")],
    ids=["plan", "model", "inventory"],
)
def test_the_reference_lists_every_key_of_the_schema(document: type[Document], page: str) -> None:
    rows = re.findall(r"^\| `([^`]+)` \|", (DOCS / "reference" / page).read_text(), re.MULTILINE)
    missing = [key for key in keys(document) if key not in rows]
    assert not missing, f"{page} does not list {missing}"


def keys(document: type[Document], prefix: str = "") -> Iterator[str]:
    """Every key of a document, as the reference writes it: ``factors.<name>.levels``."""
    for attribute, field in document.model_fields.items():
        name = field.alias or attribute
        yield prefix + name
        yield from _below(field.annotation, f"{prefix}{name}.")


def _below(annotation: object, prefix: str) -> Iterator[str]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, Document):
            yield from keys(annotation, prefix)
        return
    inner = prefix + "<name>." if typing.get_origin(annotation) is dict else prefix
    for argument in typing.get_args(annotation):
        yield from _below(argument, inner)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_reference_lists_every_command_and_option(command: str) -> None:
    text = (DOCS / "reference/cli.md").read_text()
    section = re.search(rf"^## insitu {command}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section, f"cli.md has no section on {command}"
    for parameter in COMMANDS[command].params:
        for option in parameter.opts:
            if option.startswith("--") and option != "--help":
                assert option in section[1], f"cli.md does not mention {option} of {command}"


@pytest.mark.parametrize(
    ("page", "words"),
    [
        ("reference/model.md", [*SETTABLE, *MEASUREMENTS, *FUNCTIONS]),
        ("reference/run-directory.md", list(TrialState)),
        ("explanation/levels.md", list(LevelVerdict)),
        ("explanation/guards.md", [name for name in HOST_QUANTITIES if "_avg" not in name]),
        ("explanation/guards.md", list(UNITS)),
    ],
    ids=["variables", "states", "verdicts", "host quantities", "blast radius"],
)
def test_the_pages_name_every_word_of_the_code(page: str, words: list[str]) -> None:
    text = (DOCS / page).read_text()
    assert [word for word in words if f"`{word}`" not in text] == []
