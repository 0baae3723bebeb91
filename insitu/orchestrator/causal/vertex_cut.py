"""The fewest vertices that cut two sides of an undirected graph off from each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Sequence


def smallest_cut(
    cliques: Sequence[Collection[str]], sources: Collection[str], sinks: Collection[str], cuttable: Collection[str]
) -> frozenset[str] | None:
    """Fewest `cuttable` vertices that meet every path from `sources` to `sinks`; of several sets the nearest.

    Parameters
    ----------
    cliques
        Sets of vertices that are all adjacent to each other.

    Returns
    -------
    frozenset or None
        ``None`` if a path has no cuttable vertex.

    Notes
    -----
    Menger's theorem, by augmenting paths (Ford and Fulkerson, 1956): one search more than the cut has vertices.
    """
    names = sorted({*sources, *sinks}.union(*cliques))
    number = {name: index for index, name in enumerate(names)}
    network = _Network(cliques, number)
    starts = [network.exit(number[name]) for name in sources]
    ends = {network.entry(number[name]) for name in sinks}
    for name in names:
        if name not in cuttable:
            network.connect(network.entry(number[name]), network.exit(number[name]))
    if network.push(starts, ends):
        return None
    able = sorted(number[name] for name in cuttable if name in number)
    for index in able:
        network.connect(network.entry(index), network.exit(index), capacity=1)
    while network.push(starts, ends):
        pass
    reached = network.reached_from(starts)
    return frozenset(
        names[index] for index in able if network.entry(index) in reached and network.exit(index) not in reached
    )


class _Network:
    """Where flow may still go: in and out of each vertex, and through the middle of each clique.

    A clique is a star, so that its edges need not be written out.
    """

    def __init__(self, cliques: Sequence[Collection[str]], number: dict[str, int]) -> None:
        self.unlimited = len(number) + 1
        self.left: list[dict[int, int]] = [{} for _ in range(2 * len(number) + len(cliques))]
        for middle, clique in enumerate(cliques, start=2 * len(number)):
            for index in sorted(number[name] for name in clique):
                self.connect(self.exit(index), middle)
                self.connect(middle, self.entry(index))

    @staticmethod
    def entry(index: int) -> int:
        return 2 * index

    @staticmethod
    def exit(index: int) -> int:
        return 2 * index + 1

    def connect(self, start: int, end: int, capacity: int | None = None) -> None:
        self.left[start][end] = self.unlimited if capacity is None else capacity
        self.left[end].setdefault(start, 0)

    def push(self, starts: Iterable[int], ends: Collection[int]) -> bool:
        """Send one unit more along a shortest way, if there is any."""
        came_from = self.reached_from(starts, ends)
        place = next((end for end in reversed(came_from) if end in ends), None)
        if place is None:
            return False
        while (before := came_from[place]) is not None:
            self.left[before][place] -= 1
            self.left[place][before] += 1
            place = before
        return True

    def reached_from(self, starts: Iterable[int], ends: Collection[int] = ()) -> dict[int, int | None]:
        """Every place to which flow can still go, with the one before it; ends with the first of `ends`."""
        came_from: dict[int, int | None] = dict.fromkeys(starts)
        waiting = deque(came_from)
        while waiting:
            place = waiting.popleft()
            for following, capacity in self.left[place].items():
                if capacity and following not in came_from:
                    came_from[following] = place
                    if following in ends:
                        return came_from
                    waiting.append(following)
        return came_from
