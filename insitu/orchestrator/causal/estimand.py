"""Estimands: what to compute from the distribution of the data, as trees of probabilities.

Nodes are frozen and may be shared, so that a tree can be far larger written out than in memory (`size`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Probability:
    """P(of | do(held), given), from the trials that set exactly the variables in `held`."""

    of: tuple[str, ...]
    given: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    free: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "free", frozenset(self.of + self.given + self.held))


@dataclass(frozen=True, slots=True)
class Product:
    """Factors multiplied; one if there are none."""

    factors: tuple[Estimand, ...]
    free: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "free", frozenset().union(*(factor.free for factor in self.factors)))


@dataclass(frozen=True, slots=True)
class Quotient:
    numerator: Estimand
    denominator: Estimand
    free: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "free", self.numerator.free | self.denominator.free)


@dataclass(frozen=True, slots=True)
class Sum:
    """`body` added up over all levels of some variables, which are bound: outside they may mean something else."""

    over: tuple[str, ...]
    body: Estimand
    free: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "free", self.body.free.difference(self.over))


Estimand = Probability | Product | Quotient | Sum
"""Each has `free`, the variables on which its value depends."""


def product(factors: Iterable[Estimand]) -> Estimand:
    """Multiply, without products within products."""
    flat = [part for factor in factors for part in _factors(factor)]
    return flat[0] if len(flat) == 1 else Product(tuple(flat))


def quotient(numerator: Estimand, denominator: Estimand) -> Estimand:
    """Divide, without the factors that both have."""
    above = list(_factors(numerator))
    below: list[Estimand] = []
    for factor in _factors(denominator):
        same = next((index for index, one in enumerate(above) if _same(one, factor)), None)
        if same is None:
            below.append(factor)
        else:
            del above[same]
    return Quotient(product(above), product(below)) if below else product(above)


def summed(over: Collection[str], body: Estimand) -> Estimand:
    """Add up over all levels of `over`.

    Written as short as can be: a probability of what nothing else depends on adds up to one, and what does not
    depend on a variable stands before the sum.

    Raises
    ------
    ValueError
        If the body does not depend on one of `over`: the sum would count its levels.
    """
    if not body.free.issuperset(over):
        raise ValueError(f"the body does not depend on {', '.join(sorted(set(over) - body.free))}")
    if isinstance(body, Sum):
        return summed((*over, *body.over), body.body)
    addition = _Addition(over, body)
    while addition.step():
        pass
    factors = [part for factor in addition.factors for part in _factors(factor)]
    left = tuple(name for name in over if name in addition.holders)
    if not left:
        return product(factors)
    inside = product(factor for factor in factors if not factor.free.isdisjoint(left))
    outside = [factor for factor in factors if factor.free.isdisjoint(left)]
    return product([*outside, Sum(left, inside)])


class _Addition:
    """A sum of a product in the making: its factors, and which of them depend on each variable that is left."""

    def __init__(self, over: Collection[str], body: Estimand) -> None:
        self.factors = list(_factors(body))
        self.holders: dict[str, set[int]] = {name: set() for name in over}
        for place, factor in enumerate(self.factors):
            for name in factor.free & self.holders.keys():
                self.holders[name].add(place)

    def step(self) -> bool:
        """Add up each factor over the variables on which no other depends; whether there were any."""
        alone: dict[int, list[str]] = {}
        for name, places in self.holders.items():
            for place in places if len(places) == 1 else ():
                if _adds_up(name, self.factors[place]):
                    alone.setdefault(place, []).append(name)
        for place, names in alone.items():
            before, after = self.factors[place], _added_up(names, self.factors[place])
            self.factors[place] = after
            for name in (before.free - after.free) & self.holders.keys():
                self.holders[name].discard(place)
            for name in names:
                del self.holders[name]
        return bool(alone)


def _factors(node: Estimand) -> tuple[Estimand, ...]:
    return node.factors if isinstance(node, Product) else (node,)


def _same(first: Estimand, second: Estimand) -> bool:
    """Whether two factors are surely the same, without a walk through them."""
    return first is second or (isinstance(first, Probability) and first == second)


def _adds_up(name: str, factor: Estimand) -> bool:
    return isinstance(factor, Sum | Product) or (isinstance(factor, Probability) and name in factor.of)


def _added_up(names: Collection[str], factor: Estimand) -> Estimand:
    if not isinstance(factor, Probability):
        return summed(names, factor)
    rest = tuple(one for one in factor.of if one not in names)
    return Probability(rest, factor.given, factor.held) if rest else Product(())


def joined(node: Estimand) -> Estimand:
    """Write P(a | c) P(b | a, c) as P(a, b | c), everywhere."""
    match node:
        case Product(factors=factors):
            return product(_chained([joined(factor) for factor in factors]))
        case Quotient(numerator=numerator, denominator=denominator):
            return quotient(joined(numerator), joined(denominator))
        case Sum(over=over, body=body):
            return Sum(over, joined(body))
        case _:
            return node


def _chained(factors: list[Estimand]) -> list[Estimand]:
    for first in factors:
        for second in factors:
            if (
                isinstance(first, Probability)
                and isinstance(second, Probability)
                and first.held == second.held
                and set(second.given) == {*first.of, *first.given}
            ):
                rest = [factor for factor in factors if factor is not first and factor is not second]
                return _chained([Probability(first.of + second.of, first.given, first.held), *rest])
    return factors


def size(node: Estimand) -> int:
    """How many probabilities the tree has when it is written out; in time linear in its memory."""
    return _size(node, {})


def _size(node: Estimand, known: dict[int, int]) -> int:
    if id(node) not in known:
        known[id(node)] = sum(_size(part, known) for part in _parts(node)) or int(isinstance(node, Probability))
    return known[id(node)]


def _parts(node: Estimand) -> tuple[Estimand, ...]:
    match node:
        case Product(factors=factors):
            return factors
        case Quotient(numerator=numerator, denominator=denominator):
            return (numerator, denominator)
        case Sum(body=body):
            return (body,)
        case _:
            return ()


def spell(node: Estimand, taken: Collection[str] = ()) -> str:
    """Write an estimand as text: ``sum_z P(y | x, z) P(z)``.

    A variable that a sum binds is primed where its name also stands for something outside of that sum, there or
    in `taken`.
    """
    return _spell(node, {}, node.free.union(taken))


def _spell(node: Estimand, names: Mapping[str, str], taken: frozenset[str]) -> str:
    match node:
        case Probability(of=of, given=given, held=held):
            do = [f"do({', '.join(names.get(name, name) for name in held)})"] if held else []
            conditions = ", ".join([*do, *(names.get(name, name) for name in given)])
            inside = ", ".join(names.get(name, name) for name in of)
            return f"P({inside} | {conditions})" if conditions else f"P({inside})"
        case Product(factors=factors):
            return _spell_product(factors, names, taken)
        case Quotient(numerator=numerator, denominator=denominator):
            return f"{_bracketed(numerator, names, taken)} / {_bracketed(denominator, names, taken)}"
        case Sum(over=over, body=body):
            bound = {name: _unused(name, taken) for name in over}
            shown = ", ".join(bound.values())
            plain = len(over) == 1 and "_" not in shown
            inside = _spell(body, {**names, **bound}, taken.union(bound.values()))
            return f"sum_{shown if plain else f'{{{shown}}}'} {inside}"


def _spell_product(factors: tuple[Estimand, ...], names: Mapping[str, str], taken: frozenset[str]) -> str:
    """Sums last, since a sum reaches as far as the text does."""
    if not factors:
        return "1"
    ordered = sorted(factors, key=lambda factor: (Probability, Product, Quotient, Sum).index(type(factor)))
    *before, last = ordered
    texts = [_bracketed(factor, names, taken) for factor in before]
    texts.append(_spell(last, names, taken) if isinstance(last, Sum) else _bracketed(last, names, taken))
    return " ".join(texts)


def _bracketed(node: Estimand, names: Mapping[str, str], taken: frozenset[str]) -> str:
    text = _spell(node, names, taken)
    return text if isinstance(node, Probability) else f"[{text}]"


def _unused(name: str, taken: frozenset[str]) -> str:
    while name in taken:
        name += "'"
    return name
