"""The documents that a plan, a model and an inventory may hold.

These classes say which keys there are and of which type; names, units and levels are resolved afterwards,
against each other. A quantity is text such as ``10 MB/s``, or a bare number in the unit in question.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import PydanticCustomError, core_schema

from insitu.orchestrator.plan.values import (
    Argument,
    Categories,
    Command,
    ConditionText,
    Cores,
    DiskRate,
    Duration,
    EnvironmentName,
    FileName,
    Quantity,
    Share,
    Size,
    Unit,
)

MAX_POINTS = 1000


class Document(BaseModel):
    """A mapping of a file: only the keys named here."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        coerce_numbers_to_str=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )


class SubjectDocument(Document):
    """What is re-executed, as lists of arguments with {placeholders}."""

    command: Command
    """Executed and timed. Placeholders: {scratch}, {data}, {python}, and every parameter variable."""
    prepare: Command | None = None
    """Executed before each trial, untimed; its stdout becomes {scratch}/in."""
    data: dict[FileName, Command] = {}
    """File name to command, executed once per run; its stdout becomes {data}/<name>."""
    network: Literal["none", "host"] | None = None
    """Whether the command reaches what it reaches in place; by default only if trials set a variable net.*."""
    page_cache: Literal["cold", "warm"] = "cold"
    """Whether the pages of {scratch}/in are in memory when the command starts."""
    environment: dict[EnvironmentName, Argument] = {}
    """Environment variables added to a minimal environment; values may hold the placeholders of commands."""


class LevelsDocument(Document):
    """Levels of one variable: listed, or spread over a range."""

    levels: Annotated[tuple[Quantity, ...], Field(min_length=1)] | None = None
    """Levels to set, each once; 'unlimited' leaves a throttle off."""
    range: Annotated[tuple[Quantity, ...], Field(min_length=2, max_length=2)] | None = None
    """Lowest and highest level."""
    scale: Literal["linear", "log"] = "linear"
    """How the levels are spread over the range."""
    points: Annotated[int, Field(ge=2, le=MAX_POINTS)] | None = None
    """How many levels the range is spread into, both ends included; by default 3 for a factorial, else 5."""


class FactorDocument(LevelsDocument):
    """The levels of one variable: listed, or spread over a range."""

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [
                {
                    "required": ["levels"],
                    "not": {"anyOf": [{"required": ["scale"]}, {"required": ["points"]}]},
                },
                {"required": ["range"]},
            ]
        }
    )

    hard_to_change: bool = False
    """Whether trials are grouped, so that this changes seldom: data that take long to prepare, for instance."""
    with_: Annotated[dict[str, object], Field(alias="with")] = {}
    """How an injector that has options is to bring the levels about."""


class _OrText:
    """In the schema, text may stand for the whole document."""

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


class RightSideDocument(Document):
    """The right side of a law, with what is said about it."""

    law: str
    """The expression that gives the variable; a name that is not a variable is a parameter to estimate."""

    @model_validator(mode="before")
    @classmethod
    def _from_text(cls, data: object) -> object:
        if isinstance(data, dict):
            return data
        if isinstance(data, str):
            return {"law": data}
        raise PydanticCustomError("string_type", "expected text")


class LawDocument(RightSideDocument):
    """A law with what is said about it; a text by itself is the law alone."""

    link: Literal["identity", "log"] = "identity"
    """What the expression gives: the mean, or its natural logarithm in base units."""
    noise: Literal["normal", "gamma", "lognormal"] = "normal"
    """How trials spread about the mean: evenly, or in proportion to it."""
    fit: Literal["least_squares", "robust", "quantile", "clustered", "mixed"] = "least_squares"
    """How the parameters are found."""
    quantile: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The quantile that the law gives, with fit: quantile."""
    prior: Annotated[str, Field(min_length=1)] | None = None
    """A run, or its fitted.json, that says what is known of the parameters before; relative to this file."""


class ParameterDocument(Document):
    """What is known of a law's parameter, and how its estimate is reported."""

    unit: Unit | None = None
    """Unit of the estimate, such as 'core*s/GB', and of the bare numbers here; by default base units."""
    low: Quantity | None = None
    """The least that the parameter can be; 0 for one that cannot be negative."""
    high: Quantity | None = None
    """The most that the parameter can be."""
    start: Quantity | None = None
    """Where the search for it starts, in a law that is not linear in its parameters."""


class RivalDocument(RightSideDocument):
    """A law that is compared with the model's; a text by itself is the law alone."""

    link: Literal["identity", "log"] | None = None
    """What the expression gives: the mean, or its natural logarithm; by default as the model's law does."""
    noise: Literal["normal", "gamma", "lognormal"] | None = None
    """How trials spread about the mean; by default as about the model's law."""
    parameters: dict[str, ParameterDocument] = {}
    """Parameter of the rival to its unit and its bounds; what the model says of its own does not count here."""


GOALS = ("effect", "prediction", "parameters", "causes", "comparison")
"""What a goal can ask for; each goal asks for one."""
Place = dict[str, Quantity]


class GoalDocument(Document):
    """The question, and how precisely it is to be answered: exactly one of effect, prediction, ..."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": [name]} for name in GOALS]})

    effect: Annotated[str, Field(pattern=r"^\s*\w+\s*->\s*\w+\s*$")] | None = None
    """Cause and outcome, as in 'cpu_cores -> runtime': how much the outcome changes with the cause."""
    prediction: str | None = None
    """The outcome whose mean is to be predicted, at the levels under at."""
    parameters: str | None = None
    """The variable whose law's parameters are all to be estimated."""
    causes: str | None = None
    """The outcome whose causes are to be ranked by their effect over what trials may set."""
    comparison: str | None = None
    """The outcome whose law in the model is compared with the rival: which of the two holds?"""
    rival: Annotated[RivalDocument, _OrText()] | None = None
    """The other law of a comparison: an expression, or a mapping with more about it."""
    tolerance: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Part of the outcome below which a difference of two compared laws does not matter; by default 0.1."""
    between: Annotated[tuple[Quantity, ...], Field(min_length=2, max_length=2)] | None = None
    """The two levels of the cause between which its effect lies; by default the ends of its factor."""
    at: Place | tuple[Place, ...] | None = None
    """Levels of variables; a prediction may have several such places in a list."""
    relative_half_width: Annotated[float, Field(gt=0)] | None = None
    """Half width of the interval, relative to the estimate, at which the question counts as answered."""
    confidence: Annotated[float, Field(gt=0.5, lt=1)] = 0.95
    """Confidence level of the intervals."""


class DesignDocument(Document):
    """How levels are given to trials."""

    kind: str | None = Field(
        default=None,
        examples=[
            "sequential",
            "factorial",
            "fractional",
            "d_optimal",
            "i_optimal",
            "c_optimal",
            "latin_hypercube",
        ],
    )
    """The design: 'sequential' chooses trials as it goes, until the goal is reached; 'factorial' tries every
    combination of levels and 'fractional' a part of them; 'd_optimal', 'i_optimal' and 'c_optimal' choose the
    trials that tell most of the law's parameters, of the outcome over all levels, or of the goal;
    'latin_hypercube' spreads them evenly. By default sequential where the goal asks for a precision or compares
    two laws, else factorial."""
    replicates: Annotated[int, Field(ge=1, le=10_000)] = 2
    """Of a factorial or a fraction of one: trials per combination of levels, one in each block."""
    baseline_replicates: Annotated[int, Field(ge=0, le=10_000)] = 1
    """Of a factorial or a fraction of one: trials per block without any intervention."""
    trials: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """Trials of an optimal design or a Latin hypercube, those that check the law apart; of a fraction the most
    combinations."""
    batch: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Trials between two refits of a sequential design; by default it follows from the number of parameters."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 1
    """Seed of the run's only random generator."""
    blocks: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Of an optimal design: into how many stretches of time its trials are cut, each of which may be faster or
    slower than the others; with factors that are hard to change, the groups of trials between which these do."""
    resolution: Annotated[int, Field(ge=3, le=16)] | None = None
    """Of a fraction of two-level factors; by default 4, which mixes no factor's effect with that of a pair."""
    augment: Annotated[str, Field(min_length=1)] | None = None
    """The directory of an earlier run of the same subject and model, relative to this file: its valid trials
    count, where trials are chosen and where laws are fitted."""
    setup: Duration | None = None
    """What a trial takes beside the subject's own time, until trials have told; for a budget of time."""


class BudgetDocument(Document):
    """The most that the experiment may take, replacements of invalid trials included."""

    trials: Annotated[int, Field(ge=1)] | None = None
    """Number of trials."""
    time: Duration | None = None
    """Time of the whole run, such as '3 min'."""


class ProbeDocument(Document):
    """A command of the user's that watches the node; executed only while a plan is."""

    command: Command
    """Ends the run if it exits with another status than 0. Placeholder: {python}."""
    every: Duration = "0.5 s"
    """Time from one start of it to the next."""
    timeout: Duration = "0.4 s"
    """A command that takes longer ends the run, too."""


class GuardsDocument(Document):
    """Limits that protect the node."""

    trial_timeout: Duration = "60 s"
    """A trial that takes longer is ended."""
    scratch_limit: Size = "4 GB"
    """Most that a trial may write to its scratch folder."""
    outside_writes_limit: Size = "256 MB"
    """Most that a trial may write elsewhere; none of it survives the trial."""
    processes: Annotated[int, Field(ge=1, le=4_000_000)] = 512
    """Most processes and threads of a trial at one time."""
    free_disk: Size = "1 GB"
    """No trial starts or goes on with less free space than this under the run directory."""
    free_memory: Size | None = None
    """No trial starts or goes on with less available memory; default 256 MB, at most 5 % of the node's."""
    abort_when: Annotated[tuple[ConditionText, ...], Field(max_length=100)] = ()
    """Conditions of the node, each of which ends the trial and the run: 'host.cpu.pressure_avg10 > 80%'."""
    probe: ProbeDocument | None = None
    """A command that ends the trial and the run, too."""
    node_wait: Duration = "60 s"
    """How long a trial waits for a node on which a condition is true already, before the run ends."""


class BlastRadiusDocument(Document):
    """How much of a node may be taken; what is left out is not capped."""

    cores: Cores | None = None
    """Processors, for the subject and all that is added to the machine together; held by the kernel."""
    memory: Size | None = None
    """Memory, likewise, with what is swapped out."""
    disk_rate: DiskRate | None = None
    """Bytes per second that may be added to a disk's load."""
    interfaces: Annotated[int, Field(ge=0, le=1000)] | None = None
    """Network interfaces on the host at one time."""
    trials: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Trials on the node at one time, those of other runs included; a plan's default is 1."""
    host_wide: tuple[str, ...] | None = None
    """Variables of the whole host that may be set, such as cpu.frequency; a plan's default is none."""


class PlanDocument(Document):
    """A plan of insitu: what to execute, what to set, and what to find out."""

    model_config = ConfigDict(title="insitu plan")

    version: Annotated[int, Field(ge=1, le=1)] = 1
    """Version of this format."""
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")] | None = None
    """Name of the experiment: letters, digits, '.', '_' and '-'."""
    subject: SubjectDocument | None = None
    """What is re-executed."""
    model: Annotated[str, Field(min_length=1)] | None = None
    """Path of the model file, relative to this file."""
    factors: Annotated[dict[str, FactorDocument], Field(min_length=1)] | None = None
    """The variables that trials set, each with its levels."""
    when_unsettable: Literal["refuse", "leave"] = "refuse"
    """What to do about a factor that this machine cannot set: refuse to run, or leave it as it is and say so."""
    tolerated_slowdown: Share | None = None
    """Trials on processors slower than at their best by more than this, such as '15 %', count as disturbed."""
    goal: GoalDocument | None = None
    """The question."""
    design: DesignDocument = DesignDocument()
    """How levels are given to trials."""
    budget: BudgetDocument = BudgetDocument()
    """The most that the experiment may take."""
    guards: GuardsDocument = GuardsDocument()
    """Limits that protect the node."""
    blast_radius: BlastRadiusDocument = BlastRadiusDocument()
    """How much of the node this experiment may take; the node's inventory may allow less."""


class VariableDocument(LevelsDocument):
    """A vertex of the causal model, with exactly one of role, set_by and measured_by.

    The levels of one that trials can set are those of plans that have no factors.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "oneOf": [{"required": ["role"]}, {"required": ["set_by"]}, {"required": ["measured_by"]}],
            "allOf": [{"oneOf": [{"required": ["unit"]}, {"required": ["categories"]}]}],
        }
    )

    unit: Unit | None = None
    """Unit of the variable: B, s, core, fraction and their quotients; '' for a count."""
    role: Literal["parameter", "latent"] | None = None
    """parameter: substituted into the subject's commands; latent: given by its law alone."""
    set_by: str | None = Field(default=None, examples=["cpu.cores", "disk.read_rate", "disk.write_rate"])
    """The injector's variable that holds it."""
    measured_by: str | None = Field(default=None, examples=["wall_time", "cpu_time", "read_bytes"])
    """The measurement that gives it."""
    categories: Categories = None
    """Words that the variable has in the place of numbers; for kinds of nodes, each with its nodes."""


class ModelDocument(Document):
    """A causal model of insitu: variables, and the laws that give the dependent ones."""

    model_config = ConfigDict(title="insitu model")

    version: Annotated[int, Field(ge=1, le=1)] = 1
    """Version of this format."""
    variables: Annotated[dict[str, VariableDocument], Field(min_length=1)] | None = None
    """Name to variable."""
    laws: dict[str, Annotated[LawDocument, _OrText()]] | None = None
    """Variable to the law that gives it: an expression, or a mapping with more about it."""
    parameters: dict[str, ParameterDocument] = {}
    """Parameter of a law to its unit and its bounds; optional."""
    constants: dict[str, Quantity] = {}
    """Name to a known quantity, such as '128 MB', that laws may call by that name."""
    confounded: tuple[Annotated[tuple[str, ...], Field(min_length=2, max_length=2)], ...] = ()
    """Pairs of variables with a common cause that is not in the model."""


class NodeDocument(Document):
    """What is known of one node."""

    blast_radius: BlastRadiusDocument = BlastRadiusDocument()
    """The most that any run may take of it."""


class InventoryDocument(Document):
    """An inventory of insitu: the nodes, and how much of each a run may take."""

    model_config = ConfigDict(title="insitu inventory")

    version: Annotated[int, Field(ge=1, le=1)] = 1
    """Version of this format."""
    nodes: Annotated[dict[str, NodeDocument], Field(min_length=1)] | None = None
    """Host name to what is known of the node; 'default' is for all that are not named."""


PLAN_REQUIRED = ("name", "subject", "model")
MODEL_REQUIRED = ("variables", "laws")
INVENTORY_REQUIRED = ("nodes",)
"""Keys that a file must have; checked by the loader, so that the rest of the file is still looked at."""
