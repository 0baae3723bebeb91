"""Answers that show themselves: as text in a terminal, as HTML in a notebook, as plain data in a file."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any, TypeVar

from insitu.orchestrator.estimation.questions.asking import Elasticity
from insitu.orchestrator.estimation.questions.comparison import Comparison, ParameterChange
from insitu.orchestrator.estimation.questions.counterfactual import Counterfactual
from insitu.orchestrator.estimation.questions.explanation import Explanation
from insitu.orchestrator.estimation.questions.queries import Effect, Prediction
from insitu.orchestrator.report.answers import (
    counterfactual_text,
    effect_answer_text,
    elasticity_text,
    prediction_text,
)
from insitu.orchestrator.report.explanations import explanation_text
from insitu.orchestrator.store.encoding import Json, finite_json

if TYPE_CHECKING:
    import pandas as pd


class Shown:
    """What every answer can do beside holding its figures."""

    __slots__ = ()

    def text(self) -> str:
        """The answer as the command line prints it."""
        raise NotImplementedError

    def document(self) -> dict[str, Json]:
        """The answer as plain data that ``json.dumps(allow_nan=False)`` takes; base units.

        What is not known is ``None``, and infinity the text ``inf``.
        """
        document = finite_json(asdict(self), unknown=None)  # type: ignore[call-overload]
        assert isinstance(document, dict)
        return document

    def __repr__(self) -> str:
        return self.text()

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return as_html(self.text())


class WhatIf(Shown, Prediction):
    """A prediction."""

    __slots__ = ()

    def text(self) -> str:
        return prediction_text(self)


class EffectAnswer(Shown, Effect):
    """An effect."""

    __slots__ = ()

    def text(self) -> str:
        return effect_answer_text(self)


class ElasticityAnswer(Shown, Elasticity):
    """An elasticity."""

    __slots__ = ()

    def text(self) -> str:
        return elasticity_text(self)


class CounterfactualAnswer(Shown, Counterfactual):
    """A trial as it would have been."""

    __slots__ = ()

    def text(self) -> str:
        return counterfactual_text(self)


class Explained(Shown, Explanation):
    """Why a trial was slow."""

    __slots__ = ()

    def text(self) -> str:
        return explanation_text(self)

    @property
    def frame(self) -> pd.DataFrame:
        """The contributions, one row each, largest first; base units."""
        import pandas as pd

        return pd.DataFrame([asdict(one) for one in self.contributions])


class Compared(Shown, Comparison):
    """What changed between two runs."""

    __slots__ = ()

    def text(self) -> str:
        from insitu.orchestrator.report.comparisons import comparison_text  # it draws tables, too

        return comparison_text(self)

    def document(self) -> dict[str, Json]:
        from insitu.orchestrator.report.comparisons import comparison_document

        return comparison_document(self)

    @property
    def frame(self) -> pd.DataFrame:
        """The parameters of the laws that both runs fitted, one row each, in the units of the model."""
        import pandas as pd

        rows = [{"law": law.outcome, **asdict(one)} for law in self.laws for one in law.parameters]
        return pd.DataFrame(rows, columns=["law", *(field.name for field in fields(ParameterChange))])


Answer = TypeVar("Answer", bound=Shown)


def shown(kind: Callable[..., Answer], answer: Any) -> Answer:
    """The same answer, as one that shows itself."""
    return kind(**{field.name: getattr(answer, field.name) for field in fields(answer)})


def as_html(text: str) -> str:
    """Lines of text as HTML: the first in bold, the others with their indent; everything escaped."""
    first, _, rest = text.partition("\n")
    lines = f"<b>{html.escape(first)}</b>"
    if rest:
        lines += f'<pre style="margin: 0.3em 0">{html.escape(rest)}</pre>'
    return f'<div class="insitu">{lines}</div>'
