"""What dropping terms does to the statistics of others, before any node is fitted again.

    θ ← θ − q q_G⁻¹ θ_G,     Q ← Q − q q_G⁻¹ qᵀ,     Q = H⁻¹,  q = H⁻¹E_G

are the maximum and the inverse Hessian of a node's quadratic approximation once its parameters G are held at zero;
among those of the terms at stake alone, as nothing else is looked at. What Wald's √(θ_tᵀ Q_t⁻¹ θ_t) gains or loses by
it, the statistic of the term gains or loses; where another node has become the best one for it, it is Wald's there.

A statistic of a term alone, when no other at stake was in the model, differs likewise from that beside all of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import sqrt

import numpy as np

from hbm_learn.assessment.nodes import Node
from hbm_learn.assessment.score_tests import best_by_variance
from hbm_learn.terms import Terms


class Forecast:
    """Of terms of a model that were tested.

    Parameters
    ----------
    nodes : {site: Node}
    terms : Terms
    which : (T,) array
        Of these terms the ones at stake.
    root, sites : (T,) arrays
        Their statistics, and the nodes of these.
    alone : bool
        Whether the statistics are those of each without the others; terms then stay at their nodes.
    """

    def __init__(
        self,
        nodes: Mapping[int, Node],
        terms: Terms,
        which: np.ndarray,
        root: np.ndarray,
        sites: np.ndarray,
        alone: bool = False,
    ):
        self.terms, self.gaps, self.alone = terms, next(iter(nodes.values())).data.gaps, alone
        self.left = {a: _Left(nodes[a], terms, which) for a in sorted(nodes)}
        tested = zip(which.tolist(), np.abs(root).tolist(), sites.tolist())
        self.then = {t: (a, size - self.left[a].wald(t, alone)) for t, size, a in tested}

    def drop(self, gone: np.ndarray) -> None:
        """Hold the parameters of some of the terms at zero."""
        for node in self.left.values():
            node.drop(gone)

    def root(self, which: np.ndarray) -> np.ndarray:
        """Sizes of the statistics of some of the other terms now."""
        if self.alone:
            best = [self.then[t][0] for t in which.tolist()]
        else:
            found = ((a, *node.variances()) for a, node in self.left.items())
            best = best_by_variance(found, self.terms, self.gaps)[which].tolist()
        out = np.empty(len(which))
        for r, (t, a) in enumerate(zip(which.tolist(), best)):
            before, more = self.then[t]
            out[r] = max(self.left[a].wald(t) + (more if a == before else 0.0), 0.0)
        return out


class _Left:
    """θ and H⁻¹ of one node, among the parameters of some terms."""

    def __init__(self, node: Node, terms: Terms, which: np.ndarray):
        owner = node.owners(terms)[0]
        mine = np.flatnonzero(np.isin(owner, which))
        self.owner, self.theta, self.Q = owner[mine], node.theta[mine], node.inverse[np.ix_(mine, mine)]

    def drop(self, gone: np.ndarray) -> None:
        out = np.isin(self.owner, gone)
        if not out.any():
            return
        rest, q = ~out, self.Q[np.ix_(~out, out)]
        weights = np.linalg.solve(self.Q[np.ix_(out, out)], np.column_stack([self.theta[out], q.T]))
        self.owner, self.theta = self.owner[rest], self.theta[rest] - q @ weights[:, 0]
        self.Q = self.Q[np.ix_(rest, rest)] - q @ weights[:, 1:]

    def variances(self) -> tuple[np.ndarray, np.ndarray]:
        """The terms that are left, and the mean efficient variance of the scores of each."""
        found, at, counts = np.unique(self.owner, return_inverse=True, return_counts=True)
        precision = 1.0 / np.maximum(np.diag(self.Q), 1e-300)
        return found, np.bincount(at, precision, len(found)) / counts

    def wald(self, t: int, alone: bool = False) -> float:
        """Of a term beside the others that are left, or without them: J_t = (Q⁻¹)_tt, θ_t = J_t⁻¹ (Q⁻¹θ)_t."""
        mine = np.flatnonzero(self.owner == t)
        if alone:
            J, score = self.precision[np.ix_(mine, mine)], self.precision[mine] @ self.theta
            return sqrt(max(float(score @ np.linalg.solve(J, score)), 0.0))
        theta = self.theta[mine]
        return sqrt(max(float(theta @ np.linalg.solve(self.Q[np.ix_(mine, mine)], theta)), 0.0))

    @cached_property
    def precision(self) -> np.ndarray:
        """Q⁻¹ of the terms that were there at first."""
        return np.linalg.inv(self.Q)
