"""Points of diagonal consistency that know only the same-site blocks of S⁻¹: what sparse models can afford.

    R₂ = L⁻ᵀ(X_ii⁻¹ − I)L⁻¹,   X = S̃⁻¹,   S̃ = LᵀSL,   V_i = L_iL_iᵀ

Newton's steps come from GMRES, preconditioned by ∂R₁/∂β = L⁻ᵀS̃Lᵀ, which is factorised anyway.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from hbm_learn.consistency.blocks import each, transpose
from hbm_learn.consistency.blocks import inverse as inverse_of
from hbm_learn.inference.block_sites import BlockState
from hbm_learn.inference.bordered import BorderedSystem
from hbm_learn.inference.jacobian_free import JacobianFree, difference

# Of GMRES, where every product is a factorisation.
SPARSE_RTOL = 1e-3


class SelectedPoint:
    """R at one (β, Λ, α), from R₁ and the inverse of S̃.

    Parameters
    ----------
    problem : Any
        With ``sites``, ``n``, ``pattern`` and ``evaluate``.
    alpha : float
    s : BlockState
    root_inverse : list of (g, r, r) arrays
        L⁻¹.
    inverse : Factorised
        Or another with ``blocks``, ``solve`` and ``log_det``.
    R1 : (N,) array
    """

    def __init__(
        self, problem: Any, alpha: float, s: BlockState, root_inverse: list[np.ndarray], inverse: Any, R1: np.ndarray
    ):
        self.problem, self.alpha, self.s, self.inverse, self._root_inverse = problem, alpha, s, inverse, root_inverse
        self.diagonal = [inverse.blocks(c) for c in problem.sites.blocks.columns]
        self.inverses = each(inverse_of, self.diagonal)
        mismatch = [x - np.eye(x.shape[-1]) for x in self.inverses]
        self.R = np.concatenate([R1, problem.sites.entries(self.outward(mismatch))])

    def outward(self, stacks: list[np.ndarray]) -> list[np.ndarray]:
        """L⁻ᵀ · L⁻¹ of same-site blocks."""
        return each(lambda l, x: transpose(l) @ x @ l, self._root_inverse, stacks)

    @property
    def residual(self) -> float:
        """The largest of |⟨ψ⟩ − m| and |X_ii − I|, the sites taken at the β of the equations for (m, Λ)."""
        sites, s = self.problem.sites, self.s
        image = sites.mean(s.beta - self.R[: self.problem.n], s.Lambda)
        return max(
            float(np.abs(image - s.m).max()),
            max(float(np.abs(x - np.eye(x.shape[-1])).max()) for x in self.diagonal),
        )

    @property
    def chi(self) -> np.ndarray:
        """χ in the coordinates of the sites, (N, N), by as many solutions with S̃."""
        X = self.inverse.solve(np.eye(self.problem.n))
        return self.problem.sites.unwhiten(X, self.s)

    def bordered(self, row: np.ndarray) -> BorderedSystem:
        return JacobianFree(self, row, SPARSE_RTOL)

    def moved(self, x: np.ndarray) -> np.ndarray | None:
        """R at (u, α) + x, (N + P,); None where that is not valid."""
        u = np.concatenate([self.s.beta, self.s.Lambda]) + x[:-1]
        point = self.problem.evaluate(u, self.alpha + float(x[-1]))
        return None if point is None else point.R

    def directional(self, x: np.ndarray) -> np.ndarray:
        """[∂R/∂u, ∂R/∂α] x."""
        return difference(self, x)

    def precondition(self, r: np.ndarray) -> np.ndarray:
        """(dβ, dΛ) for (r₁, r₂): ∂R₁/∂β = L⁻ᵀS̃Lᵀ solved exactly, and dΛ = r₂ − ½ Ñ²r₂ of neighbours (units of L).

        The second halves the number of iterations. It is left out where a site has several columns. With K = ∂R₁/∂β
        and q = V⁻¹ ∂m/∂Λ dΛ, the rest of ∂R₁/∂Λ is (K − I)q.
        """
        problem, sites, s = self.problem, self.problem.sites, self.s
        d_lambda = r[problem.n :]
        if self._neighbours is not None:
            V = s.V[0].ravel()
            moved = V - s.groups[0].V_L.ravel() / V
            d_lambda = d_lambda - 0.5 * (self._neighbours @ (moved * d_lambda)) / V
        up, down = each(transpose, self._root_inverse), self._root_inverse
        drift = sites.response(s, np.zeros(problem.n), d_lambda)
        q = sites.blocks.left(up, sites.blocks.left(down, drift))
        rest = r[: problem.n] - sites.reaction_field(s.m, d_lambda) + q
        x = self.inverse.solve(sites.blocks.left(each(transpose, s.L), rest))
        return np.concatenate([sites.blocks.left(up, x) - q, d_lambda])

    @cached_property
    def _neighbours(self) -> csr_array | None:
        """Ñ_ik² of the pairs of columns on the pattern, where each site has one column."""
        if len(self.diagonal) > 1 or self.diagonal[0].shape[-1] > 1:
            return None
        p, diagonal = self.problem.pattern, self.diagonal[0].ravel()
        off = np.flatnonzero(p.row != p.column)
        pairs = np.column_stack([p.row[off], p.column[off]])
        X = self.inverse.blocks(pairs)[:, 0, 1] if len(off) else np.zeros(0)
        at = (p.row[off], p.column[off])
        return csr_array(((X / diagonal[p.row[off]]) ** 2, at), shape=p.matrix.shape)
