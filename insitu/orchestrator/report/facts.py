"""Where a result comes from: the run's facts, and what its trials say about where and how they ran."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from insitu.orchestrator.store.encoding import Json
from insitu.orchestrator.store.records import StoredTrial

_HIDDEN = {"name", "status", "reason", "next_step", "results_written", "writer_pid"}
_FIRST = ("run_id", "created_at", "finished_at", "seed", "insitu_version", "schema_version")
_LABELS = {"run_id": "run", "insitu_version": "insitu", "schema_version": "run format"}


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of provenance."""

    label: str
    text: str


def gather_facts(meta: Mapping[str, Json], trials: Sequence[StoredTrial]) -> tuple[Fact, ...]:
    """List the run's facts, the well-known ones first, then what the trials recorded."""
    keys = [key for key in _FIRST if key in meta]
    keys += [key for key in meta if key not in _FIRST and key not in _HIDDEN]
    facts = [fact for key in keys for fact in _flatten(_LABELS.get(key, _spaced(key)), key, meta[key])]
    records = [trial.record for trial in trials if trial.record is not None]
    nodes = dict.fromkeys(record.node for record in records if record.node)
    sandboxes = dict.fromkeys(record.sandbox for record in records if record.sandbox)
    held: dict[str, dict[str, None]] = {}
    for record in records:
        for level in record.levels:
            if level.mechanism != "none":
                held.setdefault(level.variable, {})[level.mechanism] = None
    facts += [Fact("nodes", ", ".join(nodes))] if nodes else []
    facts += [Fact("sandbox", "; ".join(sandboxes))] if sandboxes else []
    facts += [Fact(f"{variable} set by", ", ".join(ways)) for variable, ways in held.items()]
    return tuple(facts)


def _flatten(label: str, key: str, fact: Json) -> list[Fact]:
    if isinstance(fact, Mapping):
        return [
            line for inner, item in fact.items() for line in _flatten(f"{label}: {_spaced(inner)}", inner, item)
        ]
    if fact is None:
        return []
    if isinstance(fact, Sequence) and not isinstance(fact, str):
        return [Fact(label, ", ".join(str(item) for item in fact))]
    if key.endswith("_at") and isinstance(fact, (int, float)) and not isinstance(fact, bool):
        return [Fact(label.removesuffix(" at"), time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(fact)))]
    if key.endswith("_s") and isinstance(fact, float):
        return [Fact(label.removesuffix(" s"), f"{fact:.1f} s")]
    return [Fact(label, str(fact))]


def _spaced(key: str) -> str:
    return key.replace("_", " ")
