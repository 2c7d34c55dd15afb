"""One point of the equations of "bethe" and its derivatives, in units of L, V_i = L_iL_iᵀ: S̃ = LᵀSL, dm = L dm̃.

    dR₁ = dβ + Λ dm + ∂(Λm − ½Λ:G)/∂Λ dΛ − L⁻ᵀÃ dm̃ − Σ_μ ∂y^μ/∂α dα,     Ã = Σ_μ (I − C̃_μ⁻¹)
    dR₂ = L⁻ᵀ[Ñ dS̃ Ñᵀ + dṼ]_ii L⁻¹,     Ñ_ik = X_ii⁻¹X_ik,   X = S̃⁻¹,   dS̃ = LᵀdΛL + Σ_μ dC̃_μ⁻¹ + (deg − 1) dṼ

Dense, all of it is formed. Sparse, only the same-site blocks of X are known, and R with them (``selected_point``);
products with the Jacobian take dS̃ from the factors, and the change of X_ii from one more factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.linalg import lu_factor, lu_solve
from scipy.sparse import coo_array, csr_array

from hbm_learn.consistency.blocks import each, transpose
from hbm_learn.consistency.blocks import inverse as inverse_of
from hbm_learn.inference.block_equations import sandwich
from hbm_learn.inference.block_sites import BlockState
from hbm_learn.inference.bordered import BorderedSystem, DenseBordered
from hbm_learn.inference.factors import Tilted
from hbm_learn.inference.jacobian_free import STEP, JacobianFree, difference
from hbm_learn.inference.selected_point import SPARSE_RTOL, SelectedPoint
from hbm_learn.inference.sparse_inverse import Pattern
from hbm_learn.linalg import spd_inverse

if TYPE_CHECKING:
    from hbm_learn.inference.bethe_equations import BetheConsistency, Marginals

_STRIP = 2**22  # entries of a product held at once


class DenseInverse:
    """S̃⁻¹ in full: what ``SparseInverse`` is for large n."""

    def __init__(self, pattern: Pattern):
        self._pattern = pattern

    def __call__(self, values: np.ndarray) -> DenseFactorised | None:
        matrix = np.zeros(self._pattern.matrix.shape)
        matrix[self._pattern.row, self._pattern.column] = values
        X, log_det = spd_inverse(matrix)
        return None if X is None else DenseFactorised(X, log_det)


@dataclass(frozen=True)
class DenseFactorised:
    matrix: np.ndarray
    log_det: float

    def blocks(self, columns: np.ndarray) -> np.ndarray:
        return self.matrix[columns[:, :, None], columns[:, None, :]]

    def solve(self, x: np.ndarray) -> np.ndarray:
        return self.matrix @ x


class BethePoint(SelectedPoint):
    """R and its derivatives at one (β, Λ, α)."""

    def __init__(
        self,
        problem: BetheConsistency,
        alpha: float,
        s: BlockState,
        marginals: Marginals,
        tilted: list[Tilted],
        field: np.ndarray,
        values: np.ndarray,
        inverse: Any,
    ):
        R1 = s.beta + problem.sites.reaction_field(s.m, s.Lambda) - field
        super().__init__(problem, alpha, s, marginals.inverse, inverse, R1)
        self.problem: BetheConsistency = problem
        self.marginals, self.tilted, self.field, self._values = marginals, tilted, field, values

    @property
    def closed_form(self) -> float:
        """ln Z: Bethe's, and the determinant of S̃ against that of the factors', which on a tree are equal."""
        sites, s = self.problem.sites, self.s
        bethe = s.value + sum(float(t.log_zeta.sum()) for t in self.tilted)
        loops = self.inverse.log_det + sum(t.log_det for t in self.tilted)
        return bethe + 0.5 * sites.trace(s, s.Lambda) - 0.5 * loops

    def bordered(self, row: np.ndarray) -> BorderedSystem:
        if self.problem.is_sparse:
            return super().bordered(row)
        return DenseBordered(self.jacobian, self.d_alpha, row)

    # ------------------------------------------------------------------ derivatives

    @cached_property
    def _A(self) -> csr_array:
        """Ã on the pattern."""
        p = self.problem.pattern
        values = p.values([np.zeros_like(x) for x in self.diagonal], [t.coupling for t in self.tilted])
        return csr_array((values, p.matrix.indices, p.matrix.indptr), shape=p.matrix.shape)

    @cached_property
    def _S_by_m(self) -> csr_array:
        """∂S̃/∂m̃ on the pattern, (nnz, N)."""
        p, problem = self.problem.pattern, self.problem
        degree = [problem.degree[sites] - 1.0 for sites in problem.sites.blocks.sites]
        blocks = [d[:, None, None, None] * k for d, k in zip(degree, self.marginals.third)]
        parts = [
            (
                np.repeat(at.ravel(), c.shape[1]),
                np.broadcast_to(c[:, None, None, :], slope.shape).ravel(),
                slope.ravel(),
            )
            for at, c, slope in zip(
                [*p.sites, *p.factors],
                [*problem.sites.blocks.columns, *problem.columns],
                [*blocks, *(t.slope for t in self.tilted)],
            )
        ]
        row, column, value = (np.concatenate(part) for part in zip(*parts))
        return coo_array((value, (row, column)), shape=(len(p.row), problem.n)).tocsr()

    @cached_property
    def _S_by_alpha(self) -> np.ndarray:
        """∂S̃/∂α on the pattern, (nnz,)."""
        nothing = [np.zeros_like(x) for x in self.diagonal]
        return self.problem.pattern.values(nothing, [t.by_alpha[1] for t in self.tilted])

    @cached_property
    def _field_by_alpha(self) -> np.ndarray:
        """Σ_μ ∂y^μ/∂α in units of L, (N,)."""
        out = np.zeros(self.problem.n)
        for t, columns in zip(self.tilted, self.problem.columns):
            out += np.bincount(columns.ravel(), t.by_alpha[0].ravel(), minlength=len(out))
        return out

    @cached_property
    def _N(self) -> np.ndarray:
        """Ñ, (N, N)."""
        return self.problem.sites.blocks.left(self.inverses, self.inverse.matrix)

    def directional(self, x: np.ndarray) -> np.ndarray:
        """[∂R/∂u, ∂R/∂α] x; only the inverse of S̃ is differenced, in one more factorisation."""
        problem, sites, n = self.problem, self.problem.sites, self.problem.n
        blocks, d_lambda, d_alpha = sites.blocks, x[n:-1], float(x[-1])
        dm = blocks.left(each(transpose, self.s.L), x[:n])
        pull = np.zeros(n)
        factors = []
        for t, columns in zip(self.tilted, problem.columns):
            mine = dm[columns][:, :, None]
            size = t.group.size
            dy, dS = t.coupling @ mine, (t.slope.reshape(len(mine), size * size, size) @ mine).reshape(-1, size, size)
            if d_alpha:
                rate, by_alpha = t.by_alpha
                dy, dS = dy + d_alpha * rate[:, :, None], dS + d_alpha * by_alpha
            pull += np.bincount(columns.ravel(), dy.ravel(), minlength=n)
            factors.append(dS)
        first = x[:n] + sites.reaction_field(self.s.m, d_lambda)
        first += blocks.left(sites.matrices(self.s.Lambda), blocks.left(self.s.L, dm))
        first -= blocks.left(each(transpose, self.marginals.inverse), pull)
        dV = [(k @ dm[c][:, None, :, None])[..., 0] for k, c in zip(self.marginals.third, blocks.columns)]
        within = each(lambda l, M: transpose(l) @ M @ l, self.s.L, sites.matrices(d_lambda))
        degree = [problem.degree[mine][:, None, None] - 1.0 for mine in blocks.sites]
        change = self._inverse_change(
            problem.pattern.values(each(lambda w, d, v: w + d * v, within, degree, dV), factors)
        )
        return np.concatenate([first, sites.entries(self.outward(each(np.add, change, dV)))])

    def _inverse_change(self, values: np.ndarray) -> list[np.ndarray]:
        """The change of X_ii⁻¹ with S̃ by values (nnz,) on the pattern; NaN where no matrix close by is definite."""
        size = float(np.abs(values).max())
        for step in (STEP / size, -STEP / size) if size and np.isfinite(size) else ():
            moved = self.problem.invert(self._values + step * values)
            if moved is not None:
                diagonal = [inverse_of(moved.blocks(c)) for c in self.problem.sites.blocks.columns]
                return each(lambda new, old, step=step: (new - old) / step, diagonal, self.inverses)
        return [np.full_like(x, 0.0 if size == 0.0 else np.nan) for x in self.inverses]

    @cached_property
    def d_alpha(self) -> np.ndarray:
        """∂R/∂α, (N + P,)."""
        sites, p = self.problem.sites, self.problem.pattern
        first = -sites.blocks.left(each(transpose, self.marginals.inverse), self._field_by_alpha)
        dS = np.zeros((self.problem.n, self.problem.n))
        dS[p.row, p.column] = self._S_by_alpha
        second = sites.blocks.between(self._N @ dS, self._N)
        return np.concatenate([first, sites.entries(self.outward(second))])

    @cached_property
    def jacobian(self) -> np.ndarray:
        """∂R/∂(β, Λ), (N + P, N + P); dense."""
        sites, blocks, s, n = self.problem.sites, self.problem.sites.blocks, self.s, self.problem.n
        up = each(transpose, s.L)
        A = blocks.right(blocks.left(each(transpose, self.marginals.inverse), self._A.toarray()), up)
        out = np.empty((n + sites.n_lambda, n + sites.n_lambda))
        out[:n, :n] = blocks.matrix(each(lambda M, V: M @ V, sites.matrices(s.Lambda), s.V)) - A
        out[:n, n:] = sites.field_slope(s.m)
        by_m, by_lambda = self._second()
        out[n:, :n] = blocks.right(by_m, up)
        for where, l in zip(sites.where, up):
            part = np.swapaxes(by_lambda[:, where], 0, 1) @ sandwich(l)
            out[n:, (n + where).ravel()] = np.swapaxes(part, 0, 1).reshape(len(by_m), -1)
        for where, l in zip(sites.where, self.marginals.inverse):
            rows = out[n + where]
            out[n + where] = np.einsum("gpq,gqx->gpx", sandwich(transpose(l)), rows)
        out.flat[: n * len(out) : len(out) + 1] += 1.0
        return out

    def _second(self) -> tuple[np.ndarray, np.ndarray]:
        """∂R̃₂/∂m̃ (P, N) and ∂R̃₂/∂Λ̃ (P, P), in units of L."""
        problem, sites, N = self.problem, self.problem.sites, self._N
        p = problem.pattern
        left, right = N[sites.first], N[sites.second]
        by_m = np.zeros((sites.n_lambda, problem.n))
        step = max(1, _STRIP // max(sites.n_lambda, 1))
        for lo in range(0, len(p.row), step):
            some = slice(lo, lo + step)
            by_m += (self._S_by_m[some].T @ (left[:, p.row[some]] * right[:, p.column[some]]).T).T
        for where, columns, k in zip(sites.where, sites.blocks.columns, self.marginals.third):
            a, b = np.triu_indices(columns.shape[1])
            by_m[where[:, :, None], columns[:, None, :]] += k[:, a, b]
        by_lambda = left[:, sites.first] * right[:, sites.second]
        off = np.flatnonzero(sites.first != sites.second)
        by_lambda[:, off] += left[:, sites.second[off]] * right[:, sites.first[off]]
        return by_m, by_lambda


class LoopPoint(BethePoint):
    """The same with the field of loops: minus half the derivative by m of ln det S̃ + Σ_μ ln det C̃_μ, which ln Z has.

        R₁ −= L⁻ᵀf,     f_p = −½ Σ_μ Σ_ab (X − C̃_μ)_ab ∂(C̃_μ⁻¹)_ab/∂m̃_p

    f vanishes on trees, where X = C̃_μ on every factor. Its own derivatives are left to differences.
    """

    def __init__(self, *parts: Any):
        super().__init__(*parts)
        f = np.zeros(self.problem.n)
        for t, columns in zip(self.tilted, self.problem.columns):
            excess = self.inverse.blocks(columns) - t.correlation - np.eye(t.group.size)
            pull = -0.5 * np.einsum("gab,gabp->gp", excess, t.slope)
            f += np.bincount(columns.ravel(), pull.ravel(), minlength=len(f))
        self.R[: self.problem.n] -= self.problem.sites.blocks.left(each(transpose, self.marginals.inverse), f)

    def bordered(self, row: np.ndarray) -> BorderedSystem:
        return JacobianFree(self, row, SPARSE_RTOL) if self.problem.is_sparse else JacobianFree(self, row)

    def directional(self, x: np.ndarray) -> np.ndarray:
        return difference(self, x)

    @property
    def response(self) -> np.ndarray:
        """∂m/∂h, every equation taking part, (N, N); by N + P differences of R and one factorisation."""
        size, n, step = len(self.R), self.problem.n, 1e-6
        moved = [self.moved(np.append(step * e, 0.0)) for e in np.eye(size)]
        jacobian = np.column_stack([np.full(size, np.nan) if R is None else (R - self.R) / step for R in moved])
        chi = self.problem.sites.blocks.left(self.s.V, np.linalg.solve(jacobian, np.eye(size, n))[:n])
        return 0.5 * (chi + chi.T)

    @cached_property
    def _factor(self) -> tuple[np.ndarray, np.ndarray]:
        return lu_factor(self.jacobian)

    def precondition(self, r: np.ndarray) -> np.ndarray:
        """With the derivatives of "bethe", where they are formed."""
        return super().precondition(r) if self.problem.is_sparse else lu_solve(self._factor, r)
