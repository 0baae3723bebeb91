"""A run directory and every question that can be put to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, overload

from insitu.orchestrator.api.levels import Level, parse_levels
from insitu.orchestrator.api.shown import (
    Compared,
    CounterfactualAnswer,
    EffectAnswer,
    ElasticityAnswer,
    Explained,
    WhatIf,
    as_html,
    shown,
)
from insitu.orchestrator.errors import InputError
from insitu.orchestrator.plan.hints import suggest
from insitu.orchestrator.report.wording import count

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from insitu.orchestrator.causal.graph import Blueprint
    from insitu.orchestrator.estimation.answer import Answer
    from insitu.orchestrator.estimation.fit import Fit
    from insitu.orchestrator.estimation.questions.model import FittedModel
    from insitu.orchestrator.plan.types import Plan
    from insitu.orchestrator.store.encoding import Json
    from insitu.orchestrator.store.records import StoredTrial

Levels = Mapping[str, Level]


def open_run(path: str | Path) -> Run:
    """Open a run directory for reading; it may still be executing.

    Raises
    ------
    InputError
        If it is not a run directory, or it is damaged.
    """
    from insitu.orchestrator import experiment
    from insitu.orchestrator.store.run import RunStore

    with RunStore.open(Path(path), read_only=True) as store:
        plan, blueprint = experiment.read_stored(store)
        return Run(Path(path), plan, blueprint, store.trials(), store.meta())


class Run:
    """What one execution of a plan produced, as it was when it was opened.

    Attributes
    ----------
    directory
        Where it is.
    plan, blueprint
        As submitted.
    stored
        All trials, in execution order.
    meta
        Facts about the run.

    Notes
    -----
    Answers are drawn with a generator that starts from the plan's seed for each question, so that the same
    question has the same answer; pass `rng` for another.
    """

    def __init__(
        self,
        directory: Path,
        plan: Plan,
        blueprint: Blueprint,
        stored: tuple[StoredTrial, ...],
        meta: Mapping[str, Json],
    ) -> None:
        self.directory = directory
        self.plan = plan
        self.blueprint = blueprint
        self.stored = stored
        self.meta = meta

    @cached_property
    def model(self) -> FittedModel:
        """The blueprint with a fit of each law of a measured variable, where there could be one."""
        from insitu.orchestrator.estimation.analysis import fit_all
        from insitu.orchestrator.estimation.questions.model import assemble

        confidence = self.plan.goal.confidence if self.plan.goal is not None else 0.95
        return assemble(self.blueprint, fit_all(self.blueprint, self.stored, confidence))

    @property
    def fits(self) -> dict[str, Fit]:
        """The fit of each law, by the variable that it gives."""
        return {name: one.fit for name, one in self.model.laws.items()}

    @cached_property
    def answer(self) -> Answer | None:
        """What the trials say about the plan's goal; ``None`` without one, or while they are too few.

        Of a goal that compares two laws, it is under `verdict`.
        """
        from insitu.orchestrator.steering.choice import answer_of

        return answer_of(self.plan, self.blueprint, self.stored)

    @property
    def trials(self) -> pd.DataFrame:
        """One row per trial; base units. See `frames.trials_frame` for the columns."""
        from insitu.orchestrator.api.frames import trials_frame

        return trials_frame(self.stored, self.blueprint.variables)

    @property
    def estimates(self) -> pd.DataFrame:
        """One row per parameter of each fitted law, in the units in which they are reported."""
        from insitu.orchestrator.api.frames import estimates_frame

        return estimates_frame(self.fits)

    @overload
    def whatif(
        self,
        do: Levels | None = None,
        *,
        ask: str | None = None,
        quantiles: Sequence[float] = (),
        draws: int | None = None,
        extrapolate: bool = False,
        rng: np.random.Generator | None = None,
    ) -> WhatIf: ...

    @overload
    def whatif(
        self,
        do: pd.DataFrame,
        *,
        ask: str | None = None,
        quantiles: Sequence[float] = (),
        draws: int | None = None,
        extrapolate: bool = False,
        rng: np.random.Generator | None = None,
    ) -> pd.DataFrame: ...

    def whatif(
        self,
        do: Levels | pd.DataFrame | None = None,
        *,
        ask: str | None = None,
        quantiles: Sequence[float] = (),
        draws: int | None = None,
        extrapolate: bool = False,
        rng: np.random.Generator | None = None,
    ) -> WhatIf | pd.DataFrame:
        """Predict what would happen at levels that were perhaps never tried.

        Parameters
        ----------
        do
            Variable to level; those left out stand at the baseline. Or a table with a column per variable and a
            row per question, whose empty cells stand at the baseline.
        ask
            The variable to predict; the outcome of the plan's goal if not given.
        quantiles
            Of the distribution over trials, each between 0 and 1.
        draws
            Answer by so many draws, and show the distribution.
        extrapolate
            Answer outside the data's support, too, and say so.

        Returns
        -------
        WhatIf or pandas.DataFrame
            For a table of questions, the table with the answers beside them; a question that has none says why.

        Raises
        ------
        OutsideSupport
            If the data have nothing to say about these levels.
        NotIdentified
            If a law that is needed could not be fitted.
        InputError
            If a name or a level is not what it should be.
        """
        if not (do is None or isinstance(do, Mapping)):
            from insitu.orchestrator.api.frames import answers_frame

            ask_one = partial(
                self.whatif, ask=ask, quantiles=quantiles, draws=draws, extrapolate=extrapolate, rng=rng
            )
            return answers_frame(do, ask_one)
        from insitu.orchestrator.estimation.questions import asking

        levels = parse_levels(self.model, do or {})
        answer = asking.whatif(
            self.model,
            self.asked(ask),
            levels,
            self._generator(rng),
            quantiles=quantiles,
            draws=draws,
            extrapolate=extrapolate,
        )
        return shown(WhatIf, answer)

    def simulate(
        self,
        do: Levels | None = None,
        *,
        ask: str | None = None,
        draws: int = 10_000,
        extrapolate: bool = False,
        rng: np.random.Generator | None = None,
    ) -> pd.DataFrame:
        """Draw trials at some levels: a row per trial, a column per measured variable; base units.

        Raises
        ------
        InputError
            As for `whatif`.
        """
        import pandas as pd

        from insitu.orchestrator.estimation.questions import asking

        levels = parse_levels(self.model, do or {})
        drawn = asking.draw(
            self.model, self.asked(ask), levels, self._generator(rng), draws=draws, extrapolate=extrapolate
        )
        return pd.DataFrame({name: values[:draws] for name, values in drawn.items()})

    def effect(
        self,
        cause: str,
        outcome: str | None = None,
        *,
        low: Level | None = None,
        high: Level | None = None,
        at: Levels | None = None,
        draws: int | None = None,
        extrapolate: bool = False,
        rng: np.random.Generator | None = None,
    ) -> EffectAnswer:
        """Estimate how much a variable's mean changes when another goes from one level to another.

        Parameters
        ----------
        outcome
            The outcome of the plan's goal if not given.
        low, high
            The two levels. If not given: those of the plan's goal, where it asks for an effect of the cause; else
            the lowest and the highest that trials asked for, or had.
        at
            Levels of other variables; those left out stand as the goal has them, where it asks for this effect,
            else at the baseline.

        Raises
        ------
        InputError
            As for `whatif`; or if the effect is one of a variable on itself, or the two levels are one.
        """
        from insitu.orchestrator.api.ends import usual_ends
        from insitu.orchestrator.estimation.questions import asking

        ends = parse_levels(self.model, {cause: low}) if low is not None else {}
        far = parse_levels(self.model, {cause: high}) if high is not None else {}
        follows = self.asked(outcome)
        usual = usual_ends(self.plan, self.model, self.stored, cause, follows)
        answer = asking.effect(
            self.model,
            cause,
            follows,
            self._generator(rng),
            low=ends.get(cause, usual.low),
            high=far.get(cause, usual.high),
            at={**usual.at, **parse_levels(self.model, at or {})},
            draws=draws,
            extrapolate=extrapolate,
        )
        return shown(EffectAnswer, answer)

    def elasticity(
        self,
        cause: str,
        outcome: str | None = None,
        *,
        at: Levels | None = None,
        extrapolate: bool = False,
        rng: np.random.Generator | None = None,
    ) -> ElasticityAnswer:
        """Estimate by how many percent a variable's mean changes per percent of another.

        Raises
        ------
        InputError
            As for `effect`.
        """
        from insitu.orchestrator.estimation.questions import asking

        levels = parse_levels(self.model, at or {})
        answer = asking.elasticity(
            self.model, cause, self.asked(outcome), levels, self._generator(rng), extrapolate=extrapolate
        )
        return shown(ElasticityAnswer, answer)

    def counterfactual(
        self,
        trial: int,
        do: Levels,
        *,
        ask: str | None = None,
        extrapolate: bool = False,
        rng: np.random.Generator | None = None,
    ) -> CounterfactualAnswer:
        """Say what a trial would have been like at other levels, its own noise kept.

        Raises
        ------
        InputError
            As for `whatif`; or if there is no such trial, or it did not come to its end.
        """
        from insitu.orchestrator.estimation.questions.abduction import find_trial
        from insitu.orchestrator.estimation.questions.counterfactual import counterfactual

        outcome = self.asked(ask)
        found = find_trial(self.model, self.stored, trial, outcome)
        levels = parse_levels(self.model, do)
        answer = counterfactual(self.model, found, outcome, levels, self._generator(rng), extrapolate=extrapolate)
        return shown(CounterfactualAnswer, answer)

    def explain(
        self,
        trial: int,
        *,
        ask: str | None = None,
        against: Levels | None = None,
        rng: np.random.Generator | None = None,
    ) -> Explained:
        """Say why a trial was slow: contributions that add up to its difference from the baseline.

        Parameters
        ----------
        against
            Levels to compare with, in the place of the baseline's.

        Raises
        ------
        InputError
            As for `counterfactual`; or if the baseline of a variable is not known.
        """
        from insitu.orchestrator.estimation.questions.abduction import find_trial
        from insitu.orchestrator.estimation.questions.explanation import explain

        outcome = self.asked(ask)
        found = find_trial(self.model, self.stored, trial, outcome)
        levels = parse_levels(self.model, against or {})
        answer = explain(self.model, found, self.stored, outcome, self._generator(rng), against=levels)
        return shown(Explained, answer)

    def compare(self, other: Run) -> Compared:
        """Find which laws differ in another run, and whether by more than noise."""
        from insitu.orchestrator.estimation.questions.comparison import compare_models

        return shown(Compared, compare_models(self.model, other.model))

    def asked(self, ask: str | None) -> str:
        """The variable that a question is about: the one that it names, or the outcome of the plan's goal.

        Raises
        ------
        InputError
            If it has no law; or without a name, if no measured variable has one.
        """
        from insitu.orchestrator.estimation.analysis import outcome_of

        if ask is None:
            return outcome_of(self.blueprint, self.plan.goal)
        self.model.variable(ask)
        if ask not in self.model.blueprint.laws:
            hint = suggest(ask, tuple(self.model.blueprint.laws))
            raise InputError(f"the model has no law for {ask!r}", hint=hint)
        return ask

    def _generator(self, rng: np.random.Generator | None) -> np.random.Generator:
        import numpy as np

        return rng if rng is not None else np.random.default_rng(self.plan.design.seed)

    def __repr__(self) -> str:
        from insitu.orchestrator.store.records import TrialState

        valid = sum(one.state is TrialState.VALID for one in self.stored)
        name = self.meta.get("name") or self.plan.name
        laws = "\n".join(f"  {variable} = {law.text}" for variable, law in self.blueprint.laws.items())
        return f"Run {self.directory}: {name}, {count(len(self.stored), 'trial')}, {valid} valid\n{laws}"

    def _repr_html_(self) -> str:
        return as_html(repr(self))
