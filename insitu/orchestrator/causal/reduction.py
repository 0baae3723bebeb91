"""Laws without the latent variables that have laws themselves: each put into the laws of its children."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from insitu.orchestrator.causal.expression import Call, Expression, Name, children, names, spell, substitute, walk
from insitu.orchestrator.causal.law import Law
from insitu.orchestrator.causal.linear import split
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.law_kinds import Link

MAX_PARTS = 5000
"""Parts of a law after latent variables have been put in; they may stand in it many times."""
MAX_NESTING = 300
"""Parts within each other, likewise: a law is walked by recursion."""


def put_in(laws: Mapping[str, Law], order: Iterable[str], hidden: Collection[str]) -> dict[str, Law]:
    """The laws of the other variables, in which the laws of the hidden ones stand in for them.

    Parameters
    ----------
    order
        Variables, causes before effects.

    Raises
    ------
    InputError
        If a law becomes too large.
    """
    done: dict[str, Law] = {}
    for name in order:
        if name in laws:
            inside = {parent: done[parent] for parent in laws[name].parents if parent in hidden}
            done[name] = _with(laws[name], inside) if inside else laws[name]
    return {name: done[name] for name in laws if name not in hidden}


def _with(law: Law, inside: Mapping[str, Law]) -> Law:
    """A law with the laws of some of its parents put in; none of those has a hidden parent."""
    stand_ins = {name: _mean(one) for name, one in inside.items()}
    _check_size(law, stand_ins)
    tree = substitute(law.expression, stand_ins)
    parts = [law, *inside.values()]
    parents = {parent for one in parts for parent in one.parents if parent not in inside}
    ordered = dict.fromkeys(name.name for name in names(tree))
    known = dict.fromkeys(parameter for one in parts for parameter in one.parameters)
    parameters = tuple(name for name in ordered if name in known)
    return replace(
        law,
        text=spell(tree),
        parameters=parameters,
        parameter_units={name: unit for one in parts for name, unit in one.parameter_units.items()},
        parameter_scales={name: scale for one in parts for name, scale in one.parameter_scales.items()},
        parents=tuple(name for name in ordered if name in parents),
        terms=split(tree, parameters),
        expression=tree,
        bounds={name: bounds for one in parts for name, bounds in one.bounds.items()},
        starts={name: start for one in parts for name, start in one.starts.items()},
        priors=tuple(dict.fromkeys(prior for one in parts for prior in one.priors)),
    )


def _mean(law: Law) -> Expression:
    return law.expression if law.link is Link.IDENTITY else Call("exp", (law.expression,))


def _check_size(law: Law, stand_ins: Mapping[str, Expression]) -> None:
    sizes = {name: sum(1 for _ in walk(one)) for name, one in stand_ins.items()}
    parts = sum(sizes.get(one.name, 1) if isinstance(one, Name) else 1 for one in walk(law.expression))
    nesting = _nesting(law.expression) + max(map(_nesting, stand_ins.values()))
    if parts > MAX_PARTS or nesting > MAX_NESTING:
        excess = f"more than {MAX_PARTS} parts" if parts > MAX_PARTS else f"parts nested {MAX_NESTING} deep"
        raise InputError(
            f"the law of '{law.variable}' has {excess} when its latent variables are put in",
            hint=f"measure some of {', '.join(stand_ins)}, or write shorter laws",
        )


def _nesting(node: Expression) -> int:
    return 1 + max((_nesting(child) for child in children(node)), default=0)


def join(
    pairs: Collection[tuple[str, str]], laws: Mapping[str, Law], order: Sequence[str], hidden: Collection[str]
) -> tuple[tuple[str, str], ...]:
    """The pairs with a common cause, when the hidden variables are left out.

    What a hidden variable's own law does not explain reaches all its children, and so does whatever it has in
    common with another variable: pairs of the variables that follow from it stand in for it.

    Notes
    -----
    The latent projection of Verma (1993), as in Richardson et al., Nested Markov properties (2023), section 2.
    """
    shown: dict[str, dict[str, None]] = {name: {} if name in hidden else {name: None} for name in order}
    for child in reversed(order):
        for parent in laws[child].parents if child in laws else ():
            if parent in hidden:
                shown[parent].update(shown[child])
    common = [
        *((first, second) for a, b in pairs for first in shown[a] for second in shown[b]),
        *(pair for name in hidden for pair in combinations(shown[name], 2)),
    ]
    found: dict[frozenset[str], tuple[str, str]] = {}
    for first, second in common:
        if first != second:
            found.setdefault(frozenset((first, second)), (first, second))
    return tuple(found.values())
