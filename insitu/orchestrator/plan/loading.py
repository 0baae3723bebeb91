"""Plan and model files to frozen objects, with every fault of both at once."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan import located, resolve_plan
from insitu.orchestrator.plan.augment import augment
from insitu.orchestrator.plan.located import FaultList, raise_all
from insitu.orchestrator.plan.named_factors import NamedFactors
from insitu.orchestrator.plan.reading import decode, read_document, read_file, read_root
from insitu.orchestrator.plan.resolve_blast_radius import resolve_blast_radius
from insitu.orchestrator.plan.resolve_factors import points_for, resolve_factors, resolve_ranges
from insitu.orchestrator.plan.resolve_goal import resolve_goal
from insitu.orchestrator.plan.resolve_input import check_input
from insitu.orchestrator.plan.resolve_model import ResolvedModel, resolve_model
from insitu.orchestrator.plan.resolve_network import check_network
from insitu.orchestrator.plan.schema import MODEL_REQUIRED, PLAN_REQUIRED, ModelDocument, PlanDocument
from insitu.orchestrator.plan.types import ModelText, Plan, Settable

P = TypeVar("P")
_WITHOUT_FACTORS = "the variables that trials set, each with its levels; a plan with a goal has those of its model"


def load_plan(path: Path, *, settable: Mapping[str, Settable], designs: Collection[str] = ()) -> Plan:
    """Load a plan and the model it names.

    Parameters
    ----------
    path
        The plan; its ``model`` is relative to its folder.
    settable
        Injector variable (``cpu.cores``) to what is known of it.
    designs
        Names of the designs there are; empty leaves the design's name unchecked.

    Raises
    ------
    InputError
        If the plan's file is missing or cannot be read.
    FaultyFile
        With every fault of both files.
    """
    return _Loading(path, settable, designs).from_files()


def load_plan_text(
    plan_source: str,
    model_source: str,
    *,
    plan_path: Path,
    model_path: Path,
    settable: Mapping[str, Settable],
    designs: Collection[str] = (),
    priors: Mapping[str, str] | None = None,
) -> Plan:
    """Load a plan from the texts that a run directory keeps; no path in them is followed.

    Parameters
    ----------
    plan_path, model_path
        Where the texts were found: shown in faults, not opened.
    priors
        Variable to the text of its law's prior, for the laws that have one.

    Raises
    ------
    FaultyFile
        With every fault of both texts.
    """
    return _Loading(plan_path, settable, designs).from_texts(plan_source, model_source, model_path, priors or {})


def load_model(path: Path, *, settable: Mapping[str, Settable]) -> ModelText:
    """Load a model by itself.

    Raises
    ------
    InputError
        If the file is missing or cannot be read.
    FaultyFile
        With every fault of the file.
    """
    faults = FaultList(path)
    model = _model(decode(read_file(path, "model"), faults), faults, settable)
    raise_all(faults)
    return _sound(model).text


def _model(
    source: str, faults: FaultList, settable: Mapping[str, Settable], priors: Mapping[str, str] | None = None
) -> ResolvedModel | None:
    root = read_root(source, "model", faults)
    document = read_document(root, ModelDocument, MODEL_REQUIRED, faults) if root else None
    if root is None or document is None:
        return None
    model = resolve_model(root, document, faults, settable, priors)
    variables = root.entry("variables")
    if variables is None or not isinstance(variables.value, located.Mapping):
        return model
    ranges = resolve_ranges(variables.value, document.variables or {}, model, faults)
    return replace(model, ranges=ranges, ranged=tuple(_ranged(variables.value)))


def _ranged(variables: located.Mapping) -> Iterator[str]:
    """Names of variables with levels, which may have faults."""
    for entry in variables.entries:
        if isinstance(entry.value, located.Mapping) and {"levels", "range"} & set(entry.value.keys()):
            yield entry.key.text or ""


class _Loading:
    """The state of loading one plan."""

    def __init__(self, path: Path, settable: Mapping[str, Settable], designs: Collection[str]) -> None:
        self.path = path
        self.settable = settable
        self.designs = designs
        self.faults = FaultList(path)

    def from_files(self) -> Plan:
        source = decode(read_file(self.path, "plan"), self.faults)
        root, document = self._document(source)
        model_faults, model_source, model = FaultList(self.path), "", None
        entry = root.entry("model") if root else None
        if document and document.model and entry:
            model_path = self.path.parent / document.model
            model_faults = FaultList(model_path)
            try:
                model_source = decode(read_file(model_path, "model"), model_faults)
                model = _model(model_source, model_faults, self.settable)
            except InputError as error:
                self.faults.at(entry.value, error.message, error.hint)
        return self._finish(source, model_source, root, document, model, model_faults, None)

    def from_texts(self, plan_source: str, model_source: str, model_path: Path, priors: Mapping[str, str]) -> Plan:
        model_faults = FaultList(model_path)
        model_text = decode(model_source.encode("utf-8", "surrogatepass"), model_faults)
        model = _model(model_text, model_faults, self.settable, priors)
        root, document = self._document(decode(plan_source.encode("utf-8", "surrogatepass"), self.faults))
        return self._finish(plan_source, model_source, root, document, model, model_faults, priors)

    def _document(self, source: str) -> tuple[located.Mapping | None, PlanDocument | None]:
        root = read_root(source, "plan", self.faults)
        return root, read_document(root, PlanDocument, PLAN_REQUIRED, self.faults) if root else None

    def _finish(
        self,
        source: str,
        model_source: str,
        root: located.Mapping | None,
        document: PlanDocument | None,
        model: ResolvedModel | None,
        model_faults: FaultList,
        priors: Mapping[str, str] | None,
    ) -> Plan:
        if root and document and model:
            model = self._augmented(model_source, root, document, model, priors)
        plan = self._resolve(source, model_source, root, document, model) if root and document and model else None
        raise_all(self.faults, model_faults)
        return _sound(plan)

    def _augmented(
        self,
        source: str,
        root: located.Mapping,
        document: PlanDocument,
        model: ResolvedModel,
        priors: Mapping[str, str] | None,
    ) -> ResolvedModel:
        """The model with what the run found that the plan goes on from."""
        design, named = root.entry("design"), document.design.augment
        entry = design.value.entry("augment") if design and isinstance(design.value, located.Mapping) else None
        if named is None or entry is None:
            return model
        text = augment(model.text, source, document, named, entry.value, self.faults, priors)
        return replace(model, text=text)

    def _resolve(
        self,
        source: str,
        model_source: str,
        root: located.Mapping,
        document: PlanDocument,
        model: ResolvedModel,
    ) -> Plan | None:
        """Resolve every part that can be, for its faults; return the plan if none is missing."""
        nodes = {entry.key.text: entry.value for entry in root.entries}
        factors_node, subject_node, goal_node = nodes.get("factors"), nodes.get("subject"), nodes.get("goal")
        named = _named(factors_node, document, model)
        factors, subject, goal = None, None, None
        design = resolve_plan.resolve_design(
            nodes.get("design"), document, self.designs, self.faults, said=_said(nodes)
        )
        if isinstance(factors_node, located.Mapping):
            points = points_for(design.kind)
            factors = resolve_factors(factors_node, document.factors or {}, model, self.faults, points=points)
            check_input(subject_node, factors_node, model, self.faults)
        elif named.of_model:
            factors = model.ranges
        elif factors_node is None:
            self.faults.at(root, "the key 'factors' is missing", _WITHOUT_FACTORS)
        check_network(subject_node, named.names, model, self.faults)
        if isinstance(subject_node, located.Mapping):
            resolve_plan.check_commands(subject_node, named, model, self.faults)
        if document.subject is not None:
            subject = resolve_plan.resolve_subject(document.subject)
        if document.goal is not None and isinstance(goal_node, located.Mapping):
            goal = resolve_goal(goal_node, document.goal, named, model, self.faults)
        guards = resolve_plan.resolve_guards(nodes.get("guards"), document.guards, self.faults)
        radius = resolve_blast_radius(nodes.get("blast_radius"), document.blast_radius, self.settable, self.faults)
        if document.name is None or factors is None or subject is None:
            return None
        return Plan(
            name=document.name,
            path=self.path,
            subject=subject,
            factors=factors,
            design=design,
            budget=resolve_plan.resolve_budget(document.budget),
            guards=guards,
            goal=goal,
            model=model.text,
            when_unsettable=document.when_unsettable,
            tolerated_slowdown=resolve_plan.resolve_slowdown(document.tolerated_slowdown),
            blast_radius=radius,
            plan_source=source,
            model_source=model_source,
        )


def _named(factors: located.Node | None, document: PlanDocument, model: ResolvedModel) -> NamedFactors:
    """The factors of a plan, of which those that are faulty are reported apart."""
    if isinstance(factors, located.Mapping):
        return NamedFactors(factors.keys(), known=bool(factors.entries))
    if factors is None and document.goal is not None and model.ranged:
        return NamedFactors(model.ranged, of_model=True)
    return NamedFactors()


def _said(nodes: Mapping[str | None, located.Node]) -> tuple[str, ...]:
    """Keys of the plan under which there is something, though it may be faulty."""
    return tuple(
        key for key, node in nodes.items() if key and not (isinstance(node, located.Mapping) and not node.entries)
    )


class _IncompleteError(AssertionError):
    """A part is missing though no fault was reported: a defect of the loader."""


def _sound(part: P | None) -> P:
    if part is None:
        raise _IncompleteError
    return part
