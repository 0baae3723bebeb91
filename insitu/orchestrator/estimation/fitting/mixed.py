"""Laws under which each node, each day and each block has an offset of its own, drawn at random."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.patterns import dummies
from insitu.orchestrator.estimation.checks.words import joined, sentence
from insitu.orchestrator.estimation.fit import GroupSpread
from insitu.orchestrator.estimation.fitting.data import Labels, information_rows
from insitu.orchestrator.estimation.fitting.solution import Alone, Solution, Task, noise_residuals
from insitu.orchestrator.plan.law_kinds import Method

FEWEST = 4
"""Groups of a kind from which their spread can be told at all."""
_MOST_ROUNDS = 20
_SETTLED = 1e-8


def solve_mixed(task: Task, usual: Solution) -> Solution:
    """Refit with random offsets of nodes, days and blocks, starting from a usual solution.

    It falls back to that, with the reason, where there are too few groups of every kind. Blocks count where there
    are enough of them and some has two trials; of few, nothing is said, since a plan need not have any. A curved
    law is replaced by its linear approximation, again and again until that settles.

    Notes
    -----
    Variances by restricted maximum likelihood (statsmodels' MixedLM); the parameters by generalised least squares
    with these. The covariance allows for the variances being estimates, and its degrees of freedom follow by
    Satterthwaite's rule from the information on them; a variance of zero is not taken for known. M. G. Kenward
    and J. H. Roger, *Small sample inference for fixed effects from restricted maximum likelihood*, Biometrics 53,
    1997. The fewest degrees of freedom over the parameters are taken for means and effects.
    """
    kinds = {"node": task.data.nodes, "day": task.data.days}
    if _differ(task.data.blocks, kinds):
        kinds["block"] = task.data.blocks
    counts = {kind: len(np.unique(labels)) for kind, labels in kinds.items()}
    enough = [kind for kind, count in counts.items() if count >= FEWEST]
    reason = _too_few(counts, enough)
    if not enough or usual.at_bound or usual.sigma == 0:
        return replace(usual, findings=(*usual.findings, Finding(Check.GROUPS, True, sentence(reason))))
    values, gls = usual.values, None
    for _ in range(_MOST_ROUNDS):
        gls = _linear_mixed(task, values, {kind: kinds[kind] for kind in enough})
        if gls is None:
            text = "the spread of nodes, days and blocks could not be found; the intervals do not allow for it"
            return replace(usual, findings=(*usual.findings, Finding(Check.GROUPS, True, sentence(text))))
        before, values = values, gls.values
        if task.law.linear or np.allclose(values, before, rtol=_SETTLED, atol=0):
            break
    assert gls is not None
    return _mixed_solution(task, usual, gls, counts, reason)


def _differ(blocks: Labels, others: Mapping[str, Labels]) -> bool:
    """Whether blocks are enough to tell how they differ, and are other groups than nodes and days are."""
    count = len(np.unique(blocks))
    if not FEWEST <= count < len(blocks):
        return False
    pairs = [len(np.unique(np.column_stack([blocks, labels]), axis=0)) for labels in others.values()]
    counts = [len(np.unique(labels)) for labels in others.values()]
    return not any(pair == count == other for pair, other in zip(pairs, counts, strict=True))


def _too_few(counts: Mapping[str, int], enough: Sequence[str]) -> str:
    """Which kinds of group are left out, in words; empty if none is."""
    few = [f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts.items() if kind not in enough]
    if not few:
        return ""
    rest = "the intervals say nothing of others" if enough else "the law is fitted as if there were no others"
    return f"{joined(few)} cannot tell how such differ: {rest}"


@dataclass(frozen=True, slots=True, eq=False)
class _Gls:
    """Generalised least squares with estimated variances.

    Attributes
    ----------
    variances
        Of the noise of a trial by itself, then of each kind of group.
    information
        On these variances, expected; of those that are not zero.
    dfs
        Of each parameter, shape (p,).
    """

    values: Array
    covariance: Array
    variances: Mapping[str, float]
    dfs: Array
    total_df: float


def _linear_mixed(task: Task, values: Array, kinds: Mapping[str, Labels]) -> _Gls | None:
    """One round: the law's linear approximation at some values."""
    law, data = task.law, task.data
    rows = information_rows(law, values, data.columns)
    left = noise_residuals(law, data.observed, law.mean(values, data.columns))
    lengths = np.linalg.norm(rows, axis=0)
    scaled = rows / lengths
    response = left + scaled @ (values * lengths)
    variances = _variances(scaled, response, kinds)
    if variances is None:
        return None
    reduced = _reduce(scaled, response, {kind: dummies(labels) for kind, labels in kinds.items()})
    if task.prior is not None:
        known = task.prior.rows(law) / lengths
        about = known @ (np.nan_to_num(task.prior.known_values(law)) * lengths)
        found = _generalised(reduced, variances, known.T @ known, known.T @ about)
    else:
        found = _generalised(reduced, variances, np.zeros((len(lengths), len(lengths))), np.zeros(len(lengths)))
    return replace(found, values=found.values / lengths, covariance=found.covariance / np.outer(lengths, lengths))


def _variances(rows: Array, response: Array, kinds: Mapping[str, Labels]) -> dict[str, float] | None:
    """Variances by restricted maximum likelihood, ``trial`` first."""
    from statsmodels.regression.mixed_linear_model import MixedLM, VCSpec

    columns = {kind: dummies(labels) for kind, labels in kinds.items()}
    # one group of all trials, in which nodes, days and blocks cross
    spec = VCSpec(
        list(columns),
        [[[str(index) for index in range(block.shape[1])]] for block in columns.values()],
        [[block] for block in columns.values()],
    )
    size = float(np.std(response)) or 1.0
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # a variance of zero is an answer; what did not converge is checked below
        try:
            found = MixedLM(response / size, rows, groups=np.ones(len(response)), exog_vc=spec).fit(reml=True)
        except (ValueError, np.linalg.LinAlgError):
            return None
    noise, spreads = float(found.scale), np.asarray(found.vcomp, dtype=np.float64)
    if not math.isfinite(noise) or noise <= 0 or not np.isfinite(spreads).all():
        return None
    found_spreads = {kind: max(0.0, float(one)) * size**2 for kind, one in zip(columns, spreads, strict=True)}
    return {"trial": noise * size**2, **found_spreads}


@dataclass(frozen=True, slots=True, eq=False)
class _Reduced:
    """Rows, response and groups in the space that rows and groups span; `beyond` it, noise of so many trials."""

    rows: Array
    response: Array
    groups: Mapping[str, Array]
    beyond: int


def _reduce(rows: Array, response: Array, groups: Mapping[str, Array]) -> _Reduced:
    whole = np.hstack([rows, *groups.values()])
    basis, strengths, _ = np.linalg.svd(whole, full_matrices=False)
    basis = basis[:, strengths > 1e-10 * strengths[0]]
    return _Reduced(
        rows=basis.T @ rows,
        response=basis.T @ response,
        groups={kind: basis.T @ block for kind, block in groups.items()},
        beyond=len(response) - basis.shape[1],
    )


def _generalised(reduced: _Reduced, variances: Mapping[str, float], precision: Array, target: Array) -> _Gls:
    """Generalised least squares for variances that were estimated.

    Parameters
    ----------
    precision, target
        Of a prior, and that times its values; of shapes (p, p) and (p,).
    """
    size = len(reduced.response)
    parts = {"trial": np.eye(size)} | {kind: block @ block.T for kind, block in reduced.groups.items()}
    whole = sum((variances[kind] * part for kind, part in parts.items()), start=np.zeros((size, size)))
    inverse = np.asarray(np.linalg.inv(whole), dtype=np.float64)
    weighted = inverse @ reduced.rows
    covariance = np.asarray(np.linalg.inv(reduced.rows.T @ weighted + precision), dtype=np.float64)
    # what the trials alone say of the variances: the prior says nothing of them
    projected = inverse - weighted @ np.linalg.pinv(reduced.rows.T @ weighted) @ weighted.T
    moved = [projected @ part for part in parts.values()]
    information = np.array([[float(np.sum(one * other.T)) / 2 for other in moved] for one in moved])
    information[0, 0] += reduced.beyond / variances["trial"] ** 2 / 2
    uncertain = np.linalg.pinv(information, hermitian=True)
    slopes = np.array([weighted.T @ part @ weighted for part in parts.values()])
    own = np.einsum("kl,ilm,mk->ik", covariance, slopes, covariance)
    pairs = _pairs(weighted, inverse, list(parts.values()))
    pairs = pairs - np.einsum("ikl,lm,jmn->ijkn", slopes, covariance, slopes)
    excess = covariance @ np.einsum("ij,ijkl->kl", uncertain, pairs) @ covariance
    return _Gls(
        values=covariance @ (weighted.T @ reduced.response + target),
        covariance=covariance + excess + excess.T,
        variances=variances,
        dfs=2 * np.diag(covariance) ** 2 / np.einsum("ik,ij,jk->k", own, uncertain, own),
        total_df=2 * sum(variances.values()) ** 2 / float(uncertain.sum()),
    )


def _pairs(weighted: Array, inverse: Array, parts: Sequence[Array]) -> Array:
    """How the normal equations bend as two variances change, shape (variances, variances, p, p)."""
    moved = [part @ weighted for part in parts]
    return np.array([[one.T @ inverse @ other for other in moved] for one in moved])


def _mixed_solution(task: Task, usual: Solution, gls: _Gls, counts: Mapping[str, int], reason: str) -> Solution:
    mean = task.law.mean(gls.values, task.data.columns)
    labelled = {"node": task.data.nodes, "day": task.data.days, "block": task.data.blocks}
    kinds = {kind: gls.variances.get(kind, 0.0) for kind in counts if counts[kind] >= FEWEST}
    groups = tuple(GroupSpread(kind, counts[kind], math.sqrt(variance)) for kind, variance in kinds.items())
    sigma = math.sqrt(sum(gls.variances.values()))
    own = math.sqrt(gls.variances["trial"])
    shown = [f"{one.count} {one.kind}s differ by {one.sd / own:.2g} times" for one in groups if one.sd is not None]
    text = f"the {joined(shown)} the noise between trials of one {joined(list(counts))} (standard deviations)"
    text += f"; {reason}" if reason else ""
    few = any(1 < count < FEWEST for count in counts.values())  # that a run is of one day needs no warning
    found = replace(
        usual,
        values=gls.values,
        covariance=gls.covariance,
        sigma=sigma,
        sigma_df=gls.total_df,
        df=float(gls.dfs.min()),
        dfs=gls.dfs,
        mean=mean,
        rows=information_rows(task.law, gls.values, task.data.columns),
        residuals=noise_residuals(task.law, task.data.observed, mean),
        method=Method.MIXED,
        groups=groups,
        findings=(*usual.findings, Finding(Check.GROUPS, few, sentence(text))),
    )
    enough = {kind: dummies(labels) for kind, labels in labelled.items() if kind in kinds}
    return replace(found, conditional=_conditional(found, enough, gls.variances))


def _conditional(found: Solution, groups: Mapping[str, Array], variances: Mapping[str, float]) -> Alone:
    """Trials less what is foretold of their nodes and days, by the identity of Woodbury."""
    columns = np.hstack(list(groups.values()))
    spreads = np.concatenate([np.full(block.shape[1], variances[kind]) for kind, block in groups.items()])
    inner = spreads[:, None] * (columns.T @ columns) + variances["trial"] * np.eye(len(spreads))
    share = np.linalg.solve(inner, np.diag(spreads))
    rows = found.rows - columns @ (share @ (columns.T @ found.rows))
    return Alone(
        rows=rows,
        residuals=found.residuals - columns @ (share @ (columns.T @ found.residuals)),
        room=1 - np.einsum("ij,jk,ik->i", columns, share, columns),
        sigma=math.sqrt(variances["trial"]),
        df=max(1, len(rows) - int(np.linalg.matrix_rank(np.hstack([found.rows, columns])))),
        inverse_gram=np.asarray(np.linalg.pinv(found.rows.T @ rows, hermitian=True)),
    )
