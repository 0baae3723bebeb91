"""Unknown dimensions: linear equations between exponents of units, solved as they come.

The dimension of ``a^2 * size`` is twice that of ``a`` and that of ``size``: a known part, and multiples of unknown
ones. Two things that are added, compared or equated have the same dimension, which is one linear equation for each
base unit, all with the same left side. Exponents are exact fractions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from insitu.orchestrator.units import NUMBER, Dimension, spell_dimension

Exponents = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Form:
    """A dimension that may contain unknown ones.

    Attributes
    ----------
    units
        Base unit to its exponent; none is zero.
    unknowns
        Unknown dimension to its exponent; none is zero.
    """

    units: Exponents = field(default_factory=dict)
    unknowns: Exponents = field(default_factory=dict)

    @classmethod
    def of(cls, dimension: Dimension) -> Form:
        """A known dimension."""
        return cls({unit: exact(exponent) for unit, exponent in dimension})

    @classmethod
    def unknown(cls, name: str) -> Form:
        """An unknown dimension by itself."""
        return cls({}, {name: Fraction(1)})

    def times(self, other: Form, power: Fraction | int = 1) -> Form:
        """The dimension of ``self * other^power``."""
        return Form(_added(self.units, other.units, power), _added(self.unknowns, other.unknowns, power))

    def to_the(self, power: Fraction) -> Form:
        """The dimension of ``self^power``."""
        return Form().times(self, power)

    @property
    def dimension(self) -> Dimension | None:
        """As a dimension; ``None`` while something in it is unknown."""
        if self.unknowns:
            return None
        return tuple(sorted((unit, round(float(exponent), 9)) for unit, exponent in self.units.items()))

    def __str__(self) -> str:
        """In words, unknown dimensions in brackets: ``B [a]``."""
        if not self.unknowns:
            return spell_dimension(self.dimension or NUMBER)
        parts = {**{f"[{name}]": one for name, one in self.unknowns.items()}, **self.units}
        return spell_dimension(tuple((name, float(exponent)) for name, exponent in parts.items()))


def exact(exponent: float) -> Fraction:
    """An exponent as it was written: 0.1 is a tenth."""
    return Fraction(repr(exponent))


def _added(left: Exponents, right: Exponents, times: Fraction | int) -> dict[str, Fraction]:
    total = dict(left)
    for name, exponent in right.items():
        total[name] = total.get(name, Fraction(0)) + times * exponent
    return {name: exponent for name, exponent in total.items() if exponent}


class Equations:
    """What is known of the unknown dimensions so far; always in solved form."""

    def __init__(self) -> None:
        self._solved: dict[str, Form] = {}
        self._fresh = 0

    def fresh(self) -> Form:
        """An unknown dimension that nothing else has."""
        self._fresh += 1
        return Form.unknown(f"?{self._fresh}")

    def resolve(self, form: Form) -> Form:
        """The form with everything put in that is known."""
        total = Form(form.units)
        for name, exponent in form.unknowns.items():
            total = total.times(self._solved.get(name, Form.unknown(name)), exponent)
        return total

    def equate(self, left: Form, right: Form) -> bool:
        """Take two dimensions to be the same; return whether they can be, and change nothing if not."""
        difference = self.resolve(left.times(right, -1))
        if not difference.unknowns:
            return not difference.units
        # what has no name is given away first, so that a name stays open only where the law leaves it so
        name = min(difference.unknowns, key=lambda one: not one.startswith("?"))
        exponent = difference.unknowns[name]
        rest = {one: value for one, value in difference.unknowns.items() if one != name}
        answer = Form(difference.units, rest).to_the(Fraction(-1) / exponent)
        self._solved[name] = answer
        for one, form in self._solved.items():
            if name in form.unknowns:
                others = {other: value for other, value in form.unknowns.items() if other != name}
                self._solved[one] = Form(form.units, others).times(answer, form.unknowns[name])
        return True
