"""What it costs to bring a level about in a trial's group, and to undo it.

Counted: writing the level into the group, with a process of the subject already in it, and reading it back;
then, when that process has ended, removing the group from every tree and seeing that it is gone. Not counted:
making the group, which happens between trials, and the journal's synchronous write, which comes before anything
is made.
"""

from __future__ import annotations

import statistics
import subprocess
import time
from pathlib import Path

from experiments.benchmarks.claims import Claim, Off, worst
from experiments.benchmarks.trials import journal_here
from insitu.injectors import cgroups
from insitu.injectors.cgroups import PRESSURE, GroupPlan
from insitu.injectors.contract import Node
from insitu.injectors.journal import Journal
from insitu.injectors.node import survey
from insitu.injectors.registry import injectors
from insitu.injectors.undo import Undo, UndoKind, carry_out_all
from insitu.injectors.writing import write_setting

LEVELS = {
    "cpu.cores": 0.5,
    "cpu.set": 1.0,
    "disk.read_rate": 10e6,
    "disk.write_rate": 10e6,
    "disk.read_iops": 100.0,
    "disk.write_iops": 100.0,
    "memory.limit": 64e6,
    "memory.high": 64e6,
}
TARGET_S = 1e-3
_CONTROLLERS = ("cpu", "cpuacct", "io", "memory", "pids", PRESSURE)


_JOIN = 'for group; do echo 0 > "$group/cgroup.procs" || exit; done; echo joined; read line'


def member_of(plan: GroupPlan) -> subprocess.Popen[bytes]:
    """A process in the group, which ends when its stdin does."""
    member = subprocess.Popen(
        ["sh", "-c", _JOIN, "sh", *map(str, plan.paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert member.stdout is not None
    member.stdout.readline()
    return member


def main(rounds: int = 200) -> list[Claim]:
    """Print the medians over `rounds` per variable."""
    with journal_here() as journal:
        return _measure(survey(Path.cwd()), journal, rounds)


def _measure(here: Node, journal: Journal, rounds: int) -> list[Claim]:
    owner = journal.header.ownership
    medians: list[Off] = []
    print(f"{'variable':18}{'apply':>10}{'undo':>10}{'both':>10}{'p90':>10}{'target':>9}")
    for variable, level in LEVELS.items():
        injector = injectors()[variable]
        if not injector.capability(here).settable:
            print(f"{variable:18}not settable here: {injector.capability(here).reason}")
            continue
        settings = injector.treatment(level, here).settings
        controllers = dict.fromkeys((*_CONTROLLERS, *injector.controllers))
        applied: list[float] = []
        undone: list[float] = []
        for number in range(rounds):
            plan = cgroups.plan_group(here.hierarchies, f"{owner.prefix}-{number}", controllers)
            undos = [Undo(UndoKind.CGROUP, str(path)) for path in plan.paths]
            intent = journal.intend(undos)
            cgroups.create(plan)
            member = member_of(plan)
            begin = time.perf_counter()
            for setting in settings:
                write_setting(setting, plan)
            applied.append(time.perf_counter() - begin)
            member.communicate()
            begin = time.perf_counter()
            failures = carry_out_all(undos, owner)
            undone.append(time.perf_counter() - begin)
            if failures:
                raise RuntimeError("; ".join(failures))
            journal.done(intent)
        both = [sum(pair) for pair in zip(applied, undone, strict=True)]
        middle, p90 = statistics.median(both), statistics.quantiles(both, n=10)[-1]
        print(
            f"{variable:18}{statistics.median(applied) * 1e3:>7.2f} ms{statistics.median(undone) * 1e3:>7.2f} ms"
            f"{middle * 1e3:>7.2f} ms{p90 * 1e3:>7.2f} ms{TARGET_S * 1e3:>6.0f} ms  "
            + ("ok" if middle <= TARGET_S else "MISSED")
        )
        medians.append(Off(variable, middle * 1e3, middle <= TARGET_S))
    return [worst("apply and undo, cgroup variables", "1 ms", medians, "{:.2f} ms")]


if __name__ == "__main__":
    main()
