"""The names of a law, sorted into variables, constants and parameters, with the categories looked up."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from itertools import product

from insitu.orchestrator.causal.expression import (
    Expression,
    Index,
    Is,
    LawError,
    Name,
    Power,
    children,
    rebuilt,
)
from insitu.orchestrator.plan.hints import nearest, suggest
from insitu.orchestrator.plan.types import Variable

MAX_PARAMETERS = 1000
"""Parameters that one index may stand for."""

_ALIKE = 0.85
"""How like a variable an unknown name must be to be taken for a slip rather than for a parameter."""

Report = Callable[[LawError], None]


@dataclass(frozen=True, slots=True)
class Named:
    """A law whose names have been looked up.

    Attributes
    ----------
    tree
        With the choices of every index.
    parents
        Variables, in order of appearance.
    family_of
        Each parameter, in order of appearance, to what it is called without its category.
    sound
        Whether nothing was reported.
    """

    tree: Expression
    parents: tuple[str, ...]
    family_of: Mapping[str, str]
    sound: bool

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(self.family_of)


@dataclass(frozen=True, slots=True)
class _Use:
    """Where a parameter stands: in whose law, and by which variables it is indexed there."""

    law: str
    by: tuple[str, ...]


class Naming:
    """What names there are in a model; one for all its laws, since each has its own parameters."""

    def __init__(
        self, variables: Mapping[str, Variable], constants: Collection[str], declared: Collection[str]
    ) -> None:
        self._variables = variables
        self._constants = constants
        self._declared = declared  # parameters that the model lists
        self._uses: dict[str, _Use] = {}

    def look_up(self, variable: str, tree: Expression, report: Report) -> Named:
        """Sort the names in the law of a variable, and look up its categories."""
        law = _Lookup(self, variable)
        looked_up = rebuilt(tree, law.with_categories)
        law.collect(looked_up)
        for fault in law.faults:
            report(fault)
        return Named(looked_up, tuple(law.parents), law.families, not law.faults)

    def words_of(self, name: Name) -> tuple[str, ...]:
        """The categories of a variable.

        Raises
        ------
        LawError
            If it is no variable, or has none.
        """
        variable = self._variables.get(name.name)
        if variable is None:
            able = [one.name for one in self._variables.values() if one.categories]
            raise LawError(f"'{name.name}' is not a variable", name.start, suggest(name.name, able))
        if not variable.categories:
            message = f"'{name.name}' has numbers, not categories"
            raise LawError(message, name.start, "an index and is() ask for a variable with categories")
        return variable.words

    def variable(self, name: str) -> Variable | None:
        return self._variables.get(name)

    def is_constant(self, name: str) -> bool:
        return name in self._constants

    def take(self, law: str, name: Name, by: tuple[str, ...]) -> None:
        """Take a name for a parameter of a law.

        Raises
        ------
        LawError
            If it is a slip of a variable's, something else, or another law's.
        """
        if name.name in self._variables or name.name in self._constants:
            what = "variable" if name.name in self._variables else "constant"
            message = f"'{name.name}' is a {what}, so there is none for each {' and '.join(by)}"
            raise LawError(message, name.start, "only a parameter has an index")
        near = self._slip_of(name.name)
        if near is not None:
            hint = f"did you mean '{near}'? (a parameter of that name must be listed under parameters)"
            raise LawError(f"'{name.name}' is not a variable", name.start, hint)
        use = self._uses.setdefault(name.name, _Use(law, by))
        if use.law != law:
            message = f"'{name.name}' is already a parameter of the law of '{use.law}'"
            raise LawError(message, name.start, "each law has its own parameters; rename one")
        if use.by != by:
            before = f"{name.name}[{', '.join(use.by)}]" if use.by else name.name
            message = f"'{name.name}' stands in this law as {before}, too"
            raise LawError(message, name.start, "write it with the same index everywhere, or rename one")

    def _slip_of(self, name: str) -> str | None:
        """The variable that an undeclared parameter is likely to be a slip of; ``size2`` is no slip."""
        if name in self._declared or re.sub(r"_?\d+$", "", name) in self._variables:
            return None
        return nearest(name, self._variables, _ALIKE)


class _Lookup:
    """The names of one law."""

    def __init__(self, naming: Naming, law: str) -> None:
        self.naming = naming
        self.law = law
        self.faults: list[LawError] = []
        self.parents: dict[str, None] = {}
        self.families: dict[str, str] = {}
        self._taken: set[tuple[str, tuple[str, ...]]] = set()

    def with_categories(self, node: Expression) -> Expression | None:
        """An index with its choices, or a category with its number; ``None`` for all else, and with a fault."""
        try:
            match node:
                case Index():
                    return self._with_choices(node)
                case Is(variable=variable, category=category):
                    words = self.naming.words_of(variable)
                    if category in words:
                        return replace(node, code=words.index(category), size=len(words))
                    message = f"'{variable.name}' has no category '{category}'"
                    raise LawError(message, node.start, suggest(category, words))
        except LawError as error:
            self.faults.append(error)
        return None

    def _with_choices(self, node: Index) -> Index:
        categories = tuple(self.naming.words_of(variable) for variable in node.by)
        if math.prod(map(len, categories)) > MAX_PARAMETERS:
            message = f"'{node.family}' would be more than {MAX_PARAMETERS} parameters"
            raise LawError(message, node.start, "take fewer variables into the index")
        choices = tuple(
            Name(f"{node.family}[{', '.join(words)}]", node.start, node.end) for words in product(*categories)
        )
        return replace(node, categories=categories, choices=choices)

    def collect(self, node: Expression) -> None:
        """Take in the names of a node whose categories have been looked up."""
        match node:
            case Index(family=family, by=by, choices=choices):
                self.parents.update((one.name, None) for one in by if self.naming.variable(one.name))
                self._take(Name(family, node.start, node.end), tuple(one.name for one in by))
                self.families.update((one.name, family) for one in choices if isinstance(one, Name))
            case Is(variable=variable):
                if self.naming.variable(variable.name):
                    self.parents[variable.name] = None
            case Power(base=base, exponent=Name(name=name, start=start)) if self.naming.variable(name):
                message = f"'{name}' is a variable; an exponent is a number or a parameter"
                self.faults.append(LawError(message, start, "write exp(x * log(base))"))
                self.collect(base)
            case Name(name=name):
                self._collect_name(node)
            case _:
                for child in children(node):
                    self.collect(child)

    def _collect_name(self, node: Name) -> None:
        variable = self.naming.variable(node.name)
        if variable is not None:
            self.parents[node.name] = None
            if variable.categories:
                message = f"'{node.name}' has the categories {', '.join(variable.words)}, and no number"
                hint = f"write a[{node.name}] for a parameter of each, or is({node.name}, {variable.words[0]})"
                self.faults.append(LawError(message, node.start, hint))
        elif not self.naming.is_constant(node.name):
            self._take(node, ())
            self.families[node.name] = node.name

    def _take(self, name: Name, by: tuple[str, ...]) -> None:
        if (name.name, by) not in self._taken:
            self._taken.add((name.name, by))
            try:
                self.naming.take(self.law, name, by)
            except LawError as error:
                self.faults.append(error)
