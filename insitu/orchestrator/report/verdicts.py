"""The comparison of two laws in sentences."""

from __future__ import annotations

import math

from insitu.orchestrator.estimation.rivals.verdict import Contender, Side, Verdict
from insitu.orchestrator.report.wording import count, interval, join, p_text
from insitu.orchestrator.units import percent

NAMES = {Side.LAW: "the law", Side.RIVAL: "the rival"}
_MOST = 1e6
"""Times likelier, beyond which a number means no more."""


def times(logarithm: float) -> str:
    """How many times likelier, with two digits: ``"430 times"``."""
    if logarithm > math.log(_MOST):
        return "over a million times"
    found = float(f"{math.exp(logarithm):.2g}")
    return f"{found:.0f} times" if found >= 10 else f"{found:.2g} times"


def odds(verdict: Verdict) -> str:
    """Which law foretold the trials better: ``"the law is 430 times as likely as the rival"``."""
    likelier = verdict.likelier
    size = abs(verdict.log_odds)
    if size < math.log(1.05):
        return "the law and the rival are equally likely"
    return f"{NAMES[likelier]} is {times(size)} as likely as {NAMES[likelier.other]}"


def rejection(verdict: Verdict, preferred: Side) -> str:
    """What is rejected, for short: ``"the rival is rejected"``."""
    loser = verdict.contender(preferred.other)
    if loser.against >= verdict.needed:
        return f"{NAMES[loser.side]} is rejected"
    return (
        f"{NAMES[loser.side]} is rejected where it differs from {NAMES[preferred]} by "
        f"{percent(verdict.tolerance)} or more,"
    )


def ground(verdict: Verdict, preferred: Side) -> str:
    """Why a law is preferred: what rejects the other one."""
    loser = verdict.contender(preferred.other)
    if loser.against >= verdict.needed:
        return (
            f"{NAMES[preferred]} foretold the trials {times(loser.against)} better than {NAMES[loser.side]} "
            "can be made to fit them afterwards"
        )
    return (
        f"{NAMES[loser.side]} contains {NAMES[preferred]}, and where the two differ by "
        f"{percent(verdict.tolerance)} of the outcome or more, {NAMES[preferred]} foretold the trials "
        f"{times(loser.against_difference or 0.0)} better"
    )


def headline(outcome: str, verdict: Verdict) -> str:
    """Which of the laws holds, in one sentence without a stop."""
    preferred = verdict.preferred
    if preferred is None:
        law, rival = (f"{NAMES[side]} {outcome} = {verdict.contender(side).text}" for side in Side)
        if all(verdict.rejects(side) for side in Side):
            return f"Neither {law} holds, nor {rival}"
        return f"Open between {law} and {rival}: {odds(verdict)}"
    winner, loser = verdict.contender(preferred), verdict.contender(preferred.other)
    if loser.against >= verdict.needed:
        by = times(abs(verdict.log_odds))
        return (
            f"{_capital(NAMES[preferred])} {outcome} = {winner.text} is {by} as likely to have given these "
            f"trials as {NAMES[loser.side]} {outcome} = {loser.text}"
        )
    return (
        f"{_capital(NAMES[preferred])} {outcome} = {winner.text} is enough: {NAMES[loser.side]} "
        f"{outcome} = {loser.text} differs from it by less than {percent(verdict.tolerance)}"
    )


def conditions(verdict: Verdict) -> str:
    """What the decision rests on, and how sure it is."""
    wrong = percent(1 - verdict.confidence)
    rule = (
        f"{times(verdict.needed)} decides: so the wrong law is chosen in at most {wrong} of experiments, "
        "however often one looks"
    )
    foretold = f"{count(verdict.foretold, 'trial')} foretold by both laws"
    if verdict.preferred is not None:
        return f"{_capital(ground(verdict, verdict.preferred))}, over {foretold}; {rule}"
    return f"{_capital(foretold)}; {_against(verdict)}; {rule}"


def standing(verdict: Verdict) -> str:
    """Whether one of the laws is rejected, in one sentence without a stop."""
    preferred = verdict.preferred
    if preferred is not None:
        return _capital(f"{rejection(verdict, preferred)} and {NAMES[preferred]} is not")
    return _capital(f"{odds(verdict)}; evidence of {times(verdict.needed)} against one of the two would decide")


def fit_text(contender: Contender) -> str:
    """How well one of the laws fits, in one sentence."""
    fit = contender.fit
    known = [
        f"{one.name} = {interval(one.reported, one.reported_low, one.reported_high, one.unit)}"
        for one in fit.estimates
    ]
    text = f"{fit.outcome} = {contender.text}"
    text += f", with {join(known)}," if known else ""
    explained = f"explains {percent(fit.r_squared, 4)} of the variation"
    text += f" {explained}" if not fit.r_squared < 0 else " fits worse than the mean of the trials does"
    if fit.lack_of_fit is None:
        return f"{text}; {fit.lack_of_fit_reason}."
    misses = (
        "misses the means of replicates by more than" if fit.lack_of_fit.significant else "misses no more than"
    )
    return f"{text}, and {misses} replicates differ among themselves ({p_text(fit.lack_of_fit.p_value)})."


def _against(verdict: Verdict) -> str:
    """The strongest evidence against each law, where there is any."""
    parts = []
    for side in Side:
        one = verdict.contender(side)
        size = one.against if one.against_difference is None else one.against_difference
        parts.append(f"evidence against {NAMES[side]} {times(size) if size > 0 else 'none'}")
    return ", ".join(parts)


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
