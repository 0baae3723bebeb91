"""Which factors a plan has by name, those with faults included, and how a further one is added."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NamedFactors:
    """The names of a plan's factors.

    Attributes
    ----------
    names
        In the order of the plan, or of the model.
    of_model
        Whether the plan has none of its own and takes those to which its model gives levels.
    known
        Whether the plan says which; not if its `factors` have a fault that leaves none.
    """

    names: tuple[str, ...] = ()
    of_model: bool = False
    known: bool = True

    def lack(self, name: str) -> bool:
        """Whether a variable is surely none of them."""
        return self.known and name not in self.names

    def how_to_add(self, name: str) -> str:
        """The hint for a variable that has to be one of them."""
        return how_to_add(name, of_model=self.of_model)


def how_to_add(names: str, *, of_model: bool, where: str = "factors") -> str:
    """Write the hint for variables that have to become factors.

    Parameters
    ----------
    of_model
        Whether the factors are those of the model: a plan that lists one of its own has no others.
    where
        The list of factors, in words.
    """
    if of_model:
        return f"give {names} `levels` in the model, or list all factors in the plan"
    return f"add {names} to {where}"
