"""What a run remembers about its trials. Everything here is plain data that JSON can carry."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class TrialState(StrEnum):
    """Where a trial stands; `insitu.orchestrator.store.states` has the transitions."""

    PLANNED = "planned"
    """Assigned, not started."""
    RUNNING = "running"
    """Handed to a node; found so after a crash, it goes back to planned."""
    VALID = "valid"
    """Finished, every level verified; fitted."""
    INVALID = "invalid"
    """Finished, but a level was missed or the host disturbed; kept, not fitted, replaced."""
    FAILED = "failed"
    """The subject itself failed (exit status, timeout, a guard); kept, not fitted, replaced."""
    ABORTED = "aborted"
    """Ended for the node's sake, by a condition of the plan; kept, not fitted, replaced when the run resumes."""


class LevelVerdict(StrEnum):
    """Outcome of the manipulation check of one variable in one trial."""

    HELD = "held"
    """The cap bound, and the achieved level is within tolerance."""
    SLACK = "slack"
    """The cap never bound, or hardly and too briefly to tell: without effect, not missed."""
    MISSED = "missed"
    """The cap bound, and nothing shows that its level was reached: it is outside tolerance, or cannot be told."""
    DISTURBED = "disturbed"
    """The subject got less than its cap because others took the resource."""
    UNSET = "unset"
    """No intervention was asked for (unlimited); the level is what the machine gave."""
    EXACT = "exact"
    """A parameter of the subject's own: set by substitution, nothing to verify."""


class Purpose(StrEnum):
    """What a trial is for, of a design that chooses its trials for a law."""

    INFORMING = "informing"
    """Tells most about what the goal asks for, if the law is right."""
    CONTROL = "control"
    """Checks what the machine does without any intervention."""
    REPLICATE = "replicate"
    """Checks the noise: an earlier trial again."""
    CENTRE = "centre"
    """Checks whether the law bends in the middle of all factors."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """Levels of one trial: variable name to base-unit level; infinity is unlimited."""

    levels: tuple[tuple[str, float], ...]

    def as_dict(self) -> dict[str, float]:
        return dict(self.levels)


@dataclass(frozen=True, slots=True)
class PlannedTrial:
    """A trial before it runs.

    Attributes
    ----------
    trial
        Number within the run, from 1, in execution order.
    replaces
        The trial that came out badly and that this one repeats.
    purpose
        Why it was chosen; ``None`` where nothing was, as in a factorial.
    """

    trial: int
    block: int
    assignment: Assignment
    baseline: bool = False
    replaces: int | None = None
    purpose: Purpose | None = None


@dataclass(frozen=True, slots=True)
class LevelRecord:
    """Requested against achieved level of one variable in one trial.

    Attributes
    ----------
    requested
        Base units; infinity where nothing was asked for.
    achieved
        Rate over the time in which the cap bound; where it did not, the rate over the time in which the
        resource was in use; ``None`` where it was never in use, or where the cap bound too briefly to tell.
    bound_share
        Share of the trial's wall time in which the cap bound, 0 to 1.
    uncertainty
        Half width of what the sampling can resolve, same unit as the level.
    mechanism
        What held it: ``cgroup1.cpu.cfs``, ``cgroup2.io.max``, ``duty-cycle``, ``argument``, ``none``.
    """

    variable: str
    requested: float
    achieved: float | None
    bound_share: float
    uncertainty: float
    verdict: LevelVerdict
    mechanism: str
    unit: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class TrialEvent:
    """Something that happened during a trial, in seconds after the subject's start.

    Attributes
    ----------
    at
        Seconds since the epoch.
    kind
        ``onset`` or ``offset`` of something that is added beside the subject.
    variable
        As the injector calls it.
    planned_s
        ``None`` for what lasts as long as the subject does.
    actual_s
        As measured; before the subject's start it is negative.
    """

    at: float
    kind: str
    variable: str
    planned_s: float | None
    actual_s: float


@dataclass(frozen=True, slots=True)
class TrialRecord:
    """A finished trial, exactly as it is stored.

    Attributes
    ----------
    measurements
        Name to value in base units: ``wall_time``, ``cpu_time``, ``user_time``, ``system_time``,
        ``read_bytes``, ``write_bytes``, ``voluntary_switches``, ``involuntary_switches``,
        ``minor_faults``, ``major_faults``, ``peak_memory``, ``throttled_time``, ``cpu_pressure``,
        ``io_pressure``, ``memory_pressure`` (shares of the wall time), and of what was added beside the subject,
        such as ``anomaly.cpu:cpu_s``; what a node cannot measure is absent.
    started_at
        Seconds since the epoch.
    samples
        Path of the Parquet file, relative to the run directory; empty where there is none.
    reasons
        Why the trial is invalid, failed or aborted; empty for valid ones.
    """

    trial: int
    state: TrialState
    node: str
    started_at: float
    duration_s: float
    exit_status: int | None
    measurements: dict[str, float]
    levels: tuple[LevelRecord, ...]
    samples: str = ""
    reasons: tuple[str, ...] = ()
    stderr_tail: str = ""
    sandbox: str = ""
    host: dict[str, float] = field(default_factory=dict)
    events: tuple[TrialEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredTrial:
    """A planned trial with its state, and its record once it has one."""

    planned: PlannedTrial
    state: TrialState
    record: TrialRecord | None = None
