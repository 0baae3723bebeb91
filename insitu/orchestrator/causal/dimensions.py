"""Dimensions of laws: what each parameter must be, and where units do not fit together."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fractions import Fraction

from insitu.orchestrator.causal.expression import (
    Call,
    Expression,
    Index,
    Is,
    LawError,
    Name,
    Negative,
    Number,
    Power,
    Product,
    Sum,
    addends_of,
    shown,
    walk,
)
from insitu.orchestrator.causal.linear import Term
from insitu.orchestrator.causal.unification import Equations, Form, exact
from insitu.orchestrator.units import Dimension, spell_dimension

Report = Callable[[LawError], None]

_PLAIN = Form()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the right side of a law gives: in words, and its dimension."""

    called: str
    dimension: Dimension


def infer(
    node: Expression,
    terms: Collection[Term],
    family_of: Mapping[str, str],
    outcome: Outcome,
    known: Mapping[str, Dimension],
    declared: Mapping[str, Dimension],
    report: Report,
) -> dict[str, Dimension] | None:
    """Dimension of each family of parameters of a law: what its sums, comparisons, arguments and outcome ask for.

    Parameters
    ----------
    terms
        The law's addends if it is linear; else none.
    family_of
        Parameter to what it is called without its category.
    known
        Dimension of each variable and constant; all other names are parameters.
    declared
        Dimension of the families that the model gives a unit; they settle what the law leaves open.
    report
        Called for every place where dimensions do not fit, and for a parameter that stays open.

    Returns
    -------
    dict of str to Dimension, or None
        ``None`` if something was reported.
    """
    errors: list[LawError] = []
    families = dict.fromkeys(family_of.values())
    settled = {name: dimension for name, dimension in declared.items() if name in families}
    if terms:
        _Walk(known, errors.append, Equations(), each_for_itself=True).form(node)
        found = {} if errors else {**settled, **_of_terms(terms, family_of, outcome, known, errors.append)}
        free = [name for name in families if name not in found]
    else:
        equations = _equations(node, outcome, known, errors.append)
        for name, dimension in settled.items():
            # whoever compares the two will report it if that cannot be
            equations.equate(Form.unknown(name), Form.of(dimension))
        resolved = {name: equations.resolve(Form.unknown(name)) for name in families}
        found = {name: form.dimension for name, form in resolved.items() if form.dimension is not None}
        free = [name for name, form in resolved.items() if form == Form.unknown(name)]
    errors += [] if errors else [_open(name, node) for name in free]
    for error in errors:
        report(error)
    return None if errors else found


def _of_terms(
    terms: Collection[Term],
    family_of: Mapping[str, str],
    outcome: Outcome,
    known: Mapping[str, Dimension],
    report: Report,
) -> dict[str, Dimension]:
    """What the addends of a linear law ask for; those that are zero ask for nothing."""
    found: dict[str, Dimension] = {}
    for term in terms:
        equations = Equations()
        form = _Walk(known, report, equations).form(term.coefficient)
        coefficient = None if form is None else equations.resolve(form)
        if coefficient is None or coefficient.dimension is None:
            continue
        dimension = Form.of(outcome.dimension).times(coefficient, -1).dimension or ()
        if term.parameter is None:
            if dimension:
                report(_misfit(term.coefficient, coefficient, outcome, term.start))
            continue
        family = family_of[term.parameter]
        before = found.setdefault(family, dimension)
        if before != dimension:
            report(_twofold(family, before, dimension, term.start))
    return found


def _equations(node: Expression, outcome: Outcome, known: Mapping[str, Dimension], report: Report) -> Equations:
    """What any law asks of its parameters.

    Notes
    -----
    Dimension inference by unification, as in Kennedy, Dimension types (ESOP 1994): the exponents solve linear
    equations, which have one most general solution.
    """
    equations = Equations()
    walk_on = _Walk(known, report, equations)
    wanted = Form.of(outcome.dimension)
    for addend in addends_of(node):
        form = walk_on.form(addend)
        if form is not None and not equations.equate(form, wanted):
            report(_unfitting(addend, form, wanted, equations, outcome))
    return equations


def _open(family: str, tree: Expression) -> LawError:
    """The error of a parameter whose unit nothing settles, at its first place."""
    place = next(
        node.start
        for node in walk(tree)
        if (isinstance(node, Name) and node.name == family) or (isinstance(node, Index) and node.family == family)
    )
    hint = f"give it under parameters, as in {family}: {{unit: s}}"
    return LawError(f"the unit of '{family}' does not follow from the law", place, hint)


def _misfit(node: Expression, form: Form, outcome: Outcome, start: int) -> LawError:
    return LawError(
        f"the term {shown(node)} is {form}, but {outcome.called} is {spell_dimension(outcome.dimension)}",
        start,
        "multiply it by a parameter, whose unit then follows",
    )


def _twofold(name: str, before: Dimension, here: Dimension, start: int) -> LawError:
    message = f"'{name}' would be {spell_dimension(before)} in an earlier term and {spell_dimension(here)} here"
    return LawError(message, start, "give the two terms a parameter each")


def _unfitting(node: Expression, form: Form, wanted: Form, equations: Equations, outcome: Outcome) -> LawError:
    """An addend without the outcome's dimension: by the parameter in it that would have to be two things."""
    for name, exponent in form.unknowns.items():
        own = Form.unknown(name)
        before = equations.resolve(own).dimension
        others = form.times(own, -exponent)
        here = equations.resolve(wanted.times(others, -1).to_the(1 / exponent)).dimension
        if before is not None and here is not None and not name.startswith("?"):
            return _twofold(name, before, here, node.start)
    return _misfit(node, equations.resolve(form), outcome, node.start)


class _Walk:
    """One way through an expression, which leaves behind what it learns of the parameters."""

    def __init__(
        self,
        known: Mapping[str, Dimension],
        report: Report,
        equations: Equations,
        *,
        each_for_itself: bool = False,
    ) -> None:
        self.known = known
        self.report = report
        self.equations = equations
        self.each_for_itself = each_for_itself  # a parameter may be something else wherever it stands

    def form(self, node: Expression) -> Form | None:
        """Dimension of a node; ``None`` where a fault leaves it open."""
        match node:
            case Number(value=value):
                return _PLAIN if value else self.equations.fresh()  # zero seconds are zero bytes
            case Name(name=name):
                return Form.of(self.known[name]) if name in self.known else self._parameter(name)
            case Index(family=family):
                return self._parameter(family)
            case Is():
                return _PLAIN
            case Negative(operand=operand):
                return self.form(operand)
            case Sum():
                return self._sum(node)
            case Product(factors=factors, inverted=inverted):
                total = _PLAIN
                whole = True
                for factor, below in zip(factors, inverted, strict=True):
                    part = self.form(factor)
                    whole = whole and part is not None
                    total = total.times(part or _PLAIN, -1 if below else 1)
                return total if whole else None
            case Power():
                return self._power(node)
            case Call():
                return self._call(node)

    def _parameter(self, name: str) -> Form:
        return self.equations.fresh() if self.each_for_itself else Form.unknown(name)

    def _sum(self, node: Sum) -> Form | None:
        first: Form | None = None
        for index, term in enumerate(node.terms):
            part = self.form(term)
            if part is None:
                continue
            if first is None:
                first = part
            elif not self.equations.equate(part, first):
                verb, joined = ("adds", "to") if node.signs[index] > 0 else ("subtracts", "from")
                added, before = self.equations.resolve(part), self.equations.resolve(first)
                message = f"{verb} {added} ({shown(term)}) {joined} {before}"
                hint = "only like units can be added; multiply by a parameter"
                self.report(LawError(message, node.operators[index - 1], hint))
        return first

    def _power(self, node: Power) -> Form | None:
        base, exponent = self.form(node.base), node.exponent
        if isinstance(exponent, Number):
            return None if base is None else base.to_the(exact(exponent.value))
        power = self.form(exponent)
        if power is not None and not self.equations.equate(power, _PLAIN):
            message = f"the exponent {exponent.name} is {self.equations.resolve(power)}"
            self.report(LawError(message, exponent.start, "an exponent is a plain number"))
        if base is not None and not self.equations.equate(base, _PLAIN):
            message = f"{shown(node.base)} is {self.equations.resolve(base)}, so its power needs a number"
            hint = f"divide by a constant of the same unit first, then raise to {exponent.name}"
            self.report(LawError(message, node.start, hint))
            return None
        return _PLAIN

    def _call(self, node: Call) -> Form | None:
        parts = [(argument, self.form(argument)) for argument in node.arguments]
        argument, first = parts[0]
        if node.function == "sqrt":
            return None if first is None else first.to_the(Fraction(1, 2))
        if node.function in ("log", "exp"):
            if first is not None and not self.equations.equate(first, _PLAIN):
                message = f"{node.function} of {self.equations.resolve(first)} ({shown(argument)}) has no meaning"
                hint = "divide by a quantity of the same unit first"
                self.report(LawError(message, argument.start, hint))
            return _PLAIN
        known: Form | None = None
        for argument, part in parts:
            if part is None:
                continue
            if known is not None and not self.equations.equate(part, known):
                before, here = self.equations.resolve(known), self.equations.resolve(part)
                message = f"{node.function} compares {before} with {here} ({shown(argument)})"
                self.report(LawError(message, argument.start, "only like units can be compared"))
            known = part if known is None else known
        return known
