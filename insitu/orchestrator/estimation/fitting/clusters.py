"""Intervals that allow for trials of one node that err together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.checks.finding import Check, Finding
from insitu.orchestrator.estimation.checks.words import joined, sentence
from insitu.orchestrator.estimation.fit import GroupSpread
from insitu.orchestrator.estimation.fitting.solution import Solution, Task
from insitu.orchestrator.plan.law_kinds import Method

FEW = 10
"""Nodes below which their number is stated as a warning."""
_TOO_FEW = 2.0
"""Degrees of freedom of a mean at tried levels, below which these were hardly tried on more than one node."""
_MOST_LEVELS = 200
_VANISHING = 1e-8
"""Share of a direction that a node leaves to its own residuals, below which it leaves none."""


def clustered_by_node(task: Task, solution: Solution) -> Solution:
    """The same parameters with a covariance that holds when trials of one node share errors.

    Notes
    -----
    The bias-reduced CR2 estimate with the degrees of freedom of R. M. Bell and D. F. McCaffrey, *Bias reduction in
    standard errors for linear regression with multi-stage samples*, Survey Methodology 28, 2002; at most the
    number of nodes less one. The smallest over the parameters is taken for means and effects; or that of a mean at
    levels that were tried, if it is known from so few nodes that it has fewer than two.
    """
    nodes = task.data.nodes
    count = len(np.unique(nodes))
    if count < 2:
        text = (
            "all trials ran on one node, so the intervals allow for the noise among its trials alone and say "
            "nothing of other nodes: run the plan on two nodes or more"
        )
        return replace(solution, findings=(*solution.findings, Finding(Check.GROUPS, True, sentence(text))))
    members = [nodes == node for node in np.unique(nodes)]
    alone = [index for index, own in enumerate(members) if _tells_alone(solution.rows[own], solution.inverse_gram)]
    if alone:
        names = [_name(task, members[index]) for index in alone]
        tell = f"node {names[0]} alone tells" if len(names) == 1 else f"nodes {joined(names)} alone tell"
        text = (
            f"{tell} a part of the law, which cannot be told from what a node has of its own: the intervals allow "
            "for the noise among trials alone; try every level on two nodes or more"
        )
        return replace(solution, findings=(*solution.findings, Finding(Check.GROUPS, True, sentence(text))))
    halves = [_adjusted_half(solution.rows[own], solution.inverse_gram) for own in members]
    errors = np.array([half @ solution.residuals[own] for half, own in zip(halves, members, strict=True)])
    dfs = np.minimum(count - 1, _degrees_of_freedom(solution, halves, members, np.eye(len(solution.values))))
    tried = np.unique(np.round(solution.rows / np.abs(solution.rows).max(axis=0), 3), axis=0, return_index=True)[1]
    at_levels = _degrees_of_freedom(solution, halves, members, solution.rows[tried[:_MOST_LEVELS]])
    df = float(dfs.min())
    nested = bool(at_levels.min() < min(df, _TOO_FEW))
    covariance = errors.T @ errors
    if task.prior is not None:
        covariance = covariance + task.prior.own_errors(task.law, solution.inverse_gram, solution.sigma)
    return replace(
        solution,
        covariance=covariance,
        df=float(at_levels.min()) if nested else df,
        dfs=dfs,
        method=Method.CLUSTERED,
        groups=(GroupSpread("node", count, None),),
        findings=(*solution.findings, _finding(count, df, nested)),
    )


def _tells_alone(own: Array, inverse_gram: Array) -> bool:
    """Whether a direction of the parameters is known from one node's trials and no others."""
    triangle = np.asarray(np.linalg.qr(own, mode="r"))
    left = np.linalg.eigvalsh(np.eye(len(triangle)) - triangle @ inverse_gram @ triangle.T)
    return bool(left.min() < _VANISHING)


def _name(task: Task, own: npt.NDArray[np.bool_]) -> str:
    record = task.data.trials[int(np.flatnonzero(own)[0])].record
    return record.node if record is not None else ""


def _adjusted_half(own: Array, inverse_gram: Array) -> Array:
    """Times one node's residuals: its share of the estimates' error; shape (p, own trials).

    Residuals are smaller than errors by what the node's own trials took of the fit; that is divided out.
    """
    basis, triangle = np.linalg.qr(own)
    left, directions = np.linalg.eigh(np.eye(len(triangle)) - triangle @ inverse_gram @ triangle.T)
    root = (directions / np.sqrt(left)) @ directions.T
    half: Array = inverse_gram @ triangle.T @ root @ basis.T
    return half


def _degrees_of_freedom(
    solution: Solution, halves: Sequence[Array], members: Sequence[npt.NDArray[np.bool_]], contrasts: Array
) -> Array:
    """Satterthwaite's degrees of freedom of each contrast's variance, were the errors independent.

    Parameters
    ----------
    contrasts
        What the parameters are multiplied by, shape (m, p).

    Returns
    -------
    numpy.ndarray
        Shape (m,); infinite for a contrast that is known.
    """
    own = np.array([contrasts @ half @ half.T @ contrasts.T for half in halves])
    seen = np.array([contrasts @ half @ solution.rows[one] for half, one in zip(halves, members, strict=True)])
    gram = -np.einsum("gmp,pq,hmq->mgh", seen, solution.inverse_gram, seen)
    each = np.arange(len(halves))
    gram[:, each, each] += np.einsum("gmm->mg", own)
    total, squares = np.einsum("mgg->m", gram), (gram**2).sum(axis=(1, 2))
    with np.errstate(all="ignore"):
        return np.where(squares > 0, total**2 / squares, np.inf)


def _finding(count: int, df: float, nested: bool) -> Finding:
    text = f"the intervals allow for what each of the {count} nodes has of its own"
    if count < FEW:
        text += (
            f", but {count} nodes are few to know that from: they are as wide as {df:.2g} degrees of freedom make "
            "them, and a few more nodes would narrow them more than many more trials"
        )
    if nested:
        text += "; some levels were tried on hardly more than one node, so try every level on every node"
    return Finding(Check.GROUPS, nested or count < FEW, sentence(text))
