"""``python -m tests.recovery.soak [--kills 500] [--seed 1]``; exit status 1 if anything was left."""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from pathlib import Path

from tests.recovery.soak import census
from tests.recovery.soak.killing import CLEAN_WITHIN_S, Tally, live_through


def soak(kills: int, seed: int, folder: Path) -> tuple[Tally, list[str], dict[str, int], dict[str, int]]:
    """Kill so often; gives the tally, what is new on the machine, and the counts before and after."""
    state, work = folder / "state", folder / "work"
    state.mkdir()
    work.mkdir()
    generator, tally = random.Random(seed), Tally()
    watched = (Path(tempfile.gettempdir()), Path("/dev/shm"))
    before = census.take("insitu-soak", state, watched)
    while tally.kills < kills:
        live_through(work, state, generator, kills - tally.kills, tally)
        print(f"\r{tally.kills} of {kills} killed, {len(tally.dirty)} left  ", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    after = census.take("insitu-soak", state, watched)
    return tally, after.new_since(before), before.counts(), after.counts()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="soak-", dir="."))
    try:
        tally, new, before, after = soak(chosen.kills, chosen.seed, folder.absolute())
    finally:
        shutil.rmtree(folder)
    victims = ", ".join(f"{count} {role}" for role, count in tally.killed.most_common())
    print(
        f"{tally.kills} processes killed ({victims}) in {tally.nodes} nodes; {tally.trials} trials were finished"
    )
    print(f"clean after {tally.slowest_s:.2f} s at most; {CLEAN_WITHIN_S:g} s are allowed")
    print(f"finished by recover, since the guard had just been killed, too: {tally.by_recover}")
    for kind, count in after.items():
        print(f"  {kind:<12} {before[kind]:>6} before {count:>6} after")
    for line in (*tally.dirty, *new):
        print(f"left: {line}")
    return 1 if tally.dirty or new else 0


if __name__ == "__main__":
    sys.exit(main())
