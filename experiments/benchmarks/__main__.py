"""Benchmarks, and what they are held to: ``python -m experiments.benchmarks [NAME ...]``.

Without names all of them; ``interventions`` stands for those about levels and what it costs to hold them,
``causal`` for those about what is planned, fitted and answered. Each has a process of its own. The exit status
is 1 if a target was missed.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterable

from experiments.benchmarks import (
    anomalies,
    apart,
    apply_undo,
    designs,
    disturbance,
    explanations,
    fits,
    goal,
    identification,
    levels,
    network,
    next_batch,
    on_a_subject,
    orchestration,
    queries,
    reaction,
    sampling,
    startup,
)
from experiments.benchmarks.claims import Claim, show

BENCHMARKS: dict[str, apart.Benchmark] = {
    "startup": startup.main,
    "sampling": sampling.main,
    "orchestration": orchestration.both,
    "reaction": reaction.main,
    "levels": levels.main,
    "network": network.main,
    "anomalies": anomalies.main,
    "apply_undo": apply_undo.main,
    "disturbance": disturbance.main,
    "fits": fits.main,
    "identification": identification.main,
    "next_batch": next_batch.main,
    "designs": designs.main,
    "queries": queries.main,
    "goal": goal.main,
    "on_a_subject": on_a_subject.main,
    "explanations": explanations.main,
}
GROUPS = {
    "interventions": ("levels", "network", "anomalies", "apply_undo", "disturbance"),
    "causal": (
        "identification",
        "fits",
        "next_batch",
        "queries",
        "designs",
        "goal",
        "on_a_subject",
        "explanations",
    ),
}


def main(names: Iterable[str]) -> int:
    claims: list[Claim] = []
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what is held is let go, as after Ctrl-C
    for name in names:
        print(f"\n== {name}", flush=True)
        claims += apart.executed(BENCHMARKS[name])
    if claims:
        print("\n== targets")
        show(claims)
    return 1 if any(claim.met is False for claim in claims) else 0


if __name__ == "__main__":
    chosen: list[str] = []
    for word in sys.argv[1:] or BENCHMARKS:
        if word not in GROUPS and word not in BENCHMARKS:
            sys.exit(f"no benchmark {word!r}; there are {', '.join((*GROUPS, *BENCHMARKS))}")
        chosen += GROUPS.get(word, (word,))
    try:
        sys.exit(main(chosen))
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
