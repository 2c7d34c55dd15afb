"""What the mean-field equations share: the coupling polynomial over columns, and what a method may refuse."""

from __future__ import annotations

import numpy as np

from hbm_learn._kernels import polynomial
from hbm_learn.model import BoltzmannMachine


class Couplings:
    """E(m) = Σ_μ J_μ Π m over the means m (N,) of the columns, and its derivatives F, A, T.

    Pairs are one dense matrix, higher orders packed.
    """

    def __init__(self, model: BoltzmannMachine):
        columns, weights = model.columns, model.column_weights
        pairs = columns.slice(2).stop
        start = columns.indptr[pairs]
        self.J = np.zeros((model.n_columns, model.n_columns))
        a, b = columns.block(2).T
        self.J[a, b] = self.J[b, a] = weights[columns.slice(2)]
        self.is_pairwise = pairs == len(columns)
        self.all = (columns.members, columns.indptr, weights)
        self.higher = (columns.members[start:], columns.indptr[pairs:] - start, weights[pairs:])

    def E(self, m: np.ndarray) -> float:
        """Σ_μ J_μ Π_{c∈μ} m_c."""
        pairs = 0.5 * float(m @ (self.J @ m))
        return pairs if self.is_pairwise else pairs + float(polynomial.value(m, *self.higher))

    def F(self, m: np.ndarray) -> np.ndarray:
        """F_c = ∂E/∂m_c, (N,)."""
        F = self.J @ m
        return F if self.is_pairwise else F + polynomial.gradient(m, *self.higher)

    def A(self, m: np.ndarray) -> np.ndarray:
        """A_cd = ∂F_c/∂m_d, (N, N); not to be written to."""
        return self.J if self.is_pairwise else self.J + polynomial.hessian(m, *self.higher)

    def contract(self, m: np.ndarray, N: np.ndarray) -> np.ndarray:
        """G_ip = Σ_kl T_klp N_ik N_il, (n, N)."""
        return polynomial.third_contract(m, *self.higher, np.ascontiguousarray(N.T)).T

    def contract_pairs(self, m: np.ndarray, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        """G_ip = Σ_kl T_klp X_ik Y_il, (rows, N)."""
        x, y = np.ascontiguousarray(X.T), np.ascontiguousarray(Y.T)
        return polynomial.third_contract_pairs(m, *self.higher, x, y).T


def check_stable(model: BoltzmannMachine) -> None:
    """A Gaussian model needs diag(d) − J positive definite; ValueError otherwise."""
    if not model.space.is_real:
        return
    smallest = float(np.linalg.eigvalsh(np.diag(model.d) - model.J)[0])
    if smallest <= 0.0:
        raise ValueError(
            f'alphabet "real": diag(d) − J has the eigenvalue {smallest:.4g}, so exp(−H) has no finite integral. '
            "Raise d, weaken the couplings, or use an Interval."
        )


def check_scalar(model: BoltzmannMachine, method: str) -> None:
    """ValueError where a variable has several functions, for methods that are made for one."""
    counts = np.diff(model.space.column_ptr)
    if model.space.is_scalar:
        return
    i = int(np.argmax(counts > 1))
    alphabet = model.space.alphabets[i]
    what = f"{alphabet.size} labels" if alphabet.is_nominal else f"powers up to {counts[i]}"
    raise ValueError(
        f"method {method!r} takes one function of each variable, and variable {i} has {counts[i]} ({what}): "
        "use method 'dc', which takes any number."
    )
