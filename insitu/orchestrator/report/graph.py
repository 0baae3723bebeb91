"""Layout of a causal graph: layers from causes to effects, few crossings, long edges routed around."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from insitu.orchestrator.report.summary import EdgeSummary

NODE_WIDTH, NODE_HEIGHT = 158, 52
_LAYER_GAP, _ROW_GAP, _MARGIN = 96, 26, 12
_SWEEPS = 6
_ARC_ROOM = 44


@dataclass(frozen=True, slots=True)
class PlacedNode:
    """A variable; ``x`` and ``y`` are its centre in pixels."""

    name: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class PlacedEdge:
    """An edge as the ``d`` of an SVG path."""

    cause: str
    effect: str
    path: str


@dataclass(frozen=True, slots=True)
class Layout:
    """A drawn graph, in pixels.

    Attributes
    ----------
    arcs
        Between variables with a hidden common cause; neither causes the other.
    """

    width: float
    height: float
    nodes: tuple[PlacedNode, ...]
    edges: tuple[PlacedEdge, ...]
    arcs: tuple[PlacedEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """A vertex of the layered graph: a variable, or the passage of a long edge through a layer."""

    name: str
    passage: int = 0


def lay_out(
    names: Sequence[str], edges: Sequence[EdgeSummary], confounded: Sequence[tuple[str, str]] = ()
) -> Layout:
    """Place the variables of an acyclic graph, causes to the left.

    Parameters
    ----------
    confounded
        Pairs with a hidden common cause; they are drawn as arcs above everything.
    """
    depth = _depths(names, edges)
    layers: list[list[_Place]] = [[] for _ in range(max(depth.values(), default=0) + 1)]
    for name in names:
        layers[depth[name]].append(_Place(name))
    chains = []
    for index, edge in enumerate(edges, start=1):
        between = []
        for layer in range(depth[edge.cause] + 1, depth[edge.effect]):
            passage = _Place(f"{edge.cause}>{edge.effect}@{layer}", index)
            layers[layer].append(passage)
            between.append(passage)
        chains.append([_Place(edge.cause), *between, _Place(edge.effect)])
    _uncross(layers, chains)
    tallest = max((len(layer) for layer in layers), default=0)
    above = _ARC_ROOM if confounded else 0
    rows = tallest * NODE_HEIGHT + max(0, tallest - 1) * _ROW_GAP
    height = 2 * _MARGIN + above + rows
    spots: dict[_Place, tuple[float, float]] = {}
    for column, column_places in enumerate(layers):
        x = _MARGIN + NODE_WIDTH / 2 + column * (NODE_WIDTH + _LAYER_GAP)
        step = NODE_HEIGHT + _ROW_GAP
        top = (above + height) / 2 - (len(column_places) - 1) * step / 2
        for row, place in enumerate(column_places):
            spots[place] = (x, top + row * step)
    width = 2 * _MARGIN + len(layers) * NODE_WIDTH + (len(layers) - 1) * _LAYER_GAP
    return Layout(
        width,
        height,
        tuple(PlacedNode(name, *spots[_Place(name)]) for name in names),
        tuple(
            PlacedEdge(edge.cause, edge.effect, _path([spots[place] for place in chain]))
            for edge, chain in zip(edges, chains, strict=True)
        ),
        tuple(
            PlacedEdge(first, second, _arc(spots[_Place(first)], spots[_Place(second)]))
            for first, second in confounded
        ),
    )


def _depths(names: Sequence[str], edges: Sequence[EdgeSummary]) -> dict[str, int]:
    """Longest path from a root; then roots move right, next to their first effect."""
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for edge in edges:
            depth[edge.effect] = max(depth[edge.effect], depth[edge.cause] + 1)
    caused = {edge.effect for edge in edges}
    for name in names:
        effects = [depth[edge.effect] for edge in edges if edge.cause == name]
        if name not in caused and effects:
            depth[name] = min(effects) - 1
    return depth


def _uncross(layers: list[list[_Place]], chains: Sequence[Sequence[_Place]]) -> None:
    """Barycentre heuristic (Sugiyama, Tagawa and Toda 1981): order each layer by its neighbours' mean row."""
    before: dict[_Place, list[_Place]] = {}
    after: dict[_Place, list[_Place]] = {}
    for chain in chains:
        for first, second in pairwise(chain):
            before.setdefault(second, []).append(first)
            after.setdefault(first, []).append(second)
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        neighbours = before if forward else after
        for layer in layers if forward else reversed(layers):
            rows = {place: row for other in layers for row, place in enumerate(other)}
            own = {place: row for row, place in enumerate(layer)}
            means = {
                place: sum(rows[n] for n in neighbours[place]) / len(neighbours[place])
                if neighbours.get(place)
                else own[place]
                for place in layer
            }
            layer.sort(key=lambda place, means=means: means[place])  # type: ignore[misc]


def _path(spots: Sequence[tuple[float, float]]) -> str:
    (x, y), half = spots[0], NODE_WIDTH / 2
    parts = [f"M{x + half:.0f},{y:.0f}"]
    x += half
    for index, (next_x, next_y) in enumerate(spots[1:], start=1):
        end = next_x - half - (7 if index == len(spots) - 1 else 0)
        bend = (end - x) / 2
        parts.append(f"C{x + bend:.0f},{y:.0f} {end - bend:.0f},{next_y:.0f} {end:.0f},{next_y:.0f}")
        x, y = end, next_y
        if index < len(spots) - 1:
            x = next_x + half
            parts.append(f"L{x:.0f},{y:.0f}")
    return "".join(parts)


def _arc(first: tuple[float, float], second: tuple[float, float]) -> str:
    """From the top of one variable to the top of the other; beside the column where both stand in one."""
    (x, y), (end_x, end_y) = sorted((first, second))
    if x == end_x:
        side, reach = x + NODE_WIDTH / 2, _LAYER_GAP / 2
        return (
            f"M{side:.0f},{y:.0f}C{side + reach:.0f},{y:.0f} {side + reach:.0f},{end_y:.0f} {side:.0f},{end_y:.0f}"
        )
    top, end_top = y - NODE_HEIGHT / 2, end_y - NODE_HEIGHT / 2
    peak = min(top, end_top) - _ARC_ROOM
    return f"M{x:.0f},{top:.0f}C{x:.0f},{peak:.0f} {end_x:.0f},{peak:.0f} {end_x:.0f},{end_top:.0f}"
