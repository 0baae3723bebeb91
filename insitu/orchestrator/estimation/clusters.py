"""Intervals that allow for trials of one node that err together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from insitu.orchestrator.causal.expression import Array
from insitu.orchestrator.estimation.finding import Check, Finding
from insitu.orchestrator.estimation.fit import GroupSpread
from insitu.orchestrator.estimation.solution import Solution, Task
from insitu.orchestrator.plan.law_kinds import Method

FEW = 10
"""Nodes below which their number is stated as a warning."""
_VANISHING = 1e-8
"""Share of a direction that a node leaves to its own residuals, below which it leaves none."""


def clustered_by_node(task: Task, solution: Solution) -> Solution:
    """The same parameters with a covariance that holds when trials of one node share errors.

    Notes
    -----
    The bias-reduced CR2 estimate with the degrees of freedom of R. M. Bell and D. F. McCaffrey, *Bias reduction in
    standard errors for linear regression with multi-stage samples*, Survey Methodology 28, 2002; at most the
    number of nodes less one. The smallest over the parameters is taken for means and effects.
    """
    nodes = task.data.nodes
    count = len(np.unique(nodes))
    if count < 2:
        sentence = (
            "All trials ran on one node, so the intervals allow for the noise among its trials alone and say "
            "nothing of other nodes: run the plan on two nodes or more."
        )
        return replace(solution, findings=(*solution.findings, Finding(Check.GROUPS, True, sentence)))
    members = [nodes == node for node in np.unique(nodes)]
    halves = [_adjusted_half(solution.rows[own], solution.inverse_gram) for own in members]
    errors = np.array([half @ solution.residuals[own] for half, own in zip(halves, members, strict=True)])
    dfs = np.minimum(count - 1, _degrees_of_freedom(solution, halves, members))
    df = float(dfs.min())
    covariance = errors.T @ errors
    if task.prior is not None:
        covariance = covariance + task.prior.own_errors(task.law, solution.inverse_gram, solution.sigma)
    return replace(
        solution,
        covariance=covariance,
        df=df,
        dfs=dfs,
        method=Method.CLUSTERED,
        groups=(GroupSpread("node", count, None),),
        findings=(*solution.findings, _finding(count, df)),
    )


def _adjusted_half(own: Array, inverse_gram: Array) -> Array:
    """Times one node's residuals: its share of the estimates' error; shape (p, own trials).

    Residuals are smaller than errors by what the node's own trials took of the fit; that is divided out.
    """
    basis, triangle = np.linalg.qr(own)
    left, directions = np.linalg.eigh(np.eye(len(triangle)) - triangle @ inverse_gram @ triangle.T)
    kept = left > _VANISHING
    root = (directions[:, kept] / np.sqrt(left[kept])) @ directions[:, kept].T
    half: Array = inverse_gram @ triangle.T @ root @ basis.T
    return half


def _degrees_of_freedom(
    solution: Solution, halves: Sequence[Array], members: Sequence[npt.NDArray[np.bool_]]
) -> Array:
    """Satterthwaite's degrees of freedom of each parameter's variance, were the errors independent; shape (p,)."""
    found = np.full(len(solution.values), np.inf)
    for parameter in np.flatnonzero(np.diag(solution.inverse_gram) > 0):
        weights = [half[parameter] for half in halves]
        seen = np.array([solution.rows[own].T @ one for own, one in zip(members, weights, strict=True)])
        gram = np.diag([float(one @ one) for one in weights]) - seen @ solution.inverse_gram @ seen.T
        total = float((gram**2).sum())
        if total > 0:
            found[parameter] = float(np.trace(gram)) ** 2 / total
    return found


def _finding(count: int, df: float) -> Finding:
    if count < FEW:
        sentence = (
            f"The intervals allow for what the {count} nodes have of their own, but {count} nodes are few to know "
            f"that from: they are as wide as {df:.3g} degrees of freedom make them, and a few more nodes would "
            "narrow them more than many more trials."
        )
        return Finding(Check.GROUPS, True, sentence)
    sentence = f"The intervals allow for what each of the {count} nodes has of its own."
    return Finding(Check.GROUPS, False, sentence)
