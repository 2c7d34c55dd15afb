"""StateTable: P(x) on all states of a model, as two transforms of a table.

    −H(x) = Σ_i (h_i x_i − ½ d_i x_i²) + Σ_μ J_μ x_μ,     ⟨x_μ⟩ = Σ_x P(x) x_μ,     x_μ = Π_{i∈μ} x_i

The coefficients J_μ, laid out by μ, are mapped to the energies of all qⁿ states by one small matrix an axis, and P is
mapped to the moments of all subsets by its transpose: O(n qⁿ), whatever the number of interactions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from math import floor, log10

import numpy as np
from numpy.polynomial.polynomial import polydiv, polyfromroots

from hbm_learn._kernels import transform as kernels
from hbm_learn._threads import in_threads, row_parts
from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine

MAX_STATES = 2**24
# Gauss–Legendre nodes of a variable on an interval.
MIN_NODES, MAX_NODES = 12, 64
# Joint cumulants of order k take 3^(k−1) terms each; beyond this many they are not computed.
MAX_CUMULANT_TERMS = 2e9

# 2^14 doubles are 128 KiB: the low stages of a block, or all high stages of a strip of columns, stay in the L2 cache,
# so that a table of any size is read and written twice.
_LOW_STAGES = 14
_STRIP = 64


class StateTable:
    """P(x) on all qⁿ states of a model, and every moment of it.

    State number Σ_i digit_i qⁱ has x_i = nodes[digit_i]: site 0 varies fastest, and nodes ascend. On an Interval the
    states are the points of a product Gauss–Legendre grid, and p holds density × weight: sums over p are integrals.
    If −H varies by up to s along each variable, the error is about 1e-12 for s = 100 with 64 nodes (n ≤ 4), s = 16 with
    27 nodes (n = 5), s = 4 with 16 nodes (n = 6); ``exact`` compares two grids to see.

    Parameters
    ----------
    model : BoltzmannMachine on a finite alphabet or an Interval, with at most 2**24 states.
    n_nodes : grid points a variable on an Interval; by default as many as 2**24 states allow, up to 64.

    Attributes
    ----------
    p : (qⁿ,) probabilities.
    log_partition, entropy : ln Z and −⟨ln P⟩ in nats (differential on an Interval).
    nodes : (q,) values of a variable.
    marginals : (n, q) P(x_i = nodes[a]).
    m, v, V : (n,) ⟨x_i⟩, ⟨x_i²⟩ and the variances.

    Examples
    --------
    >>> table = StateTable(BoltzmannMachine([0.0, 0.0], {(0, 1): 1.0}))
    >>> table.states([0, 1, 3]).tolist(), table.p.round(3).tolist()
    ([[-1, -1], [1, -1], [1, 1]], [0.44, 0.06, 0.06, 0.44])
    """

    def __init__(self, model: BoltzmannMachine, n_nodes: int | None = None):
        self.n_features, self.alphabet = model.n_features, model.alphabet
        self.nodes, log_w = _axis(model, n_nodes)
        n, q = self.n_features, len(self.nodes)
        theta = np.zeros(2**n)
        theta[_codes(model.packed, 2)] = model.weights
        E = transform(theta, np.tile(np.stack([np.ones(q), self.nodes], axis=1), (n, 1, 1)))
        site = np.outer(model.h, self.nodes) - 0.5 * np.outer(model.d, self.nodes**2) + log_w
        split = n // 2
        w = E.reshape(-1, q**split)
        peak, z, s = _boltzmann_weights(w, _outer_sum(site[split:]), _outer_sum(site[:split]))
        w /= z
        self.p = w.reshape(-1)
        self.p.setflags(write=False)
        self.marginals = np.vstack([_marginals(w.sum(axis=0), q, split), _marginals(w.sum(axis=1), q, n - split)])
        self.log_partition = float(peak + np.log(z))
        self.entropy = float(np.log(z) - s / z + (self.marginals @ log_w).sum())
        self.m, self.v = self.marginals @ self.nodes, self.marginals @ self.nodes**2
        deviation = self.nodes - self.m[:, None]
        self.V = (self.marginals * deviation**2).sum(axis=1) - (self.marginals * deviation).sum(axis=1) ** 2
        self._powers: dict[int, np.ndarray] = {}

    def states(self, indices: np.ndarray) -> np.ndarray:
        """(k, n) values of the states with these (k,) numbers, in the dtype of the alphabet."""
        digits = np.asarray(indices)[:, None] // len(self.nodes) ** np.arange(self.n_features) % len(self.nodes)
        return (self.nodes if self.alphabet.values is None else self.alphabet.values)[digits]

    # ------------------------------------------------------------------ moments

    def moments(self, interactions: Interactions) -> np.ndarray:
        """(p,) ⟨x_μ⟩ of each interaction, whether or not it is one of the model's."""
        return self._power_moments(2)[_codes(interactions, 2)]

    @cached_property
    def central(self) -> np.ndarray:
        """(2ⁿ,) ⟨Π_{i∈S} (x_i − m_i)⟩ of every subset S, at Σ_{i∈S} 2ⁱ.

        Summed as such, not from raw moments, so that those of nearly frozen variables keep their digits.
        """
        W = np.ones((self.n_features, 2, len(self.nodes)))
        W[:, 1] = self.nodes - self.m[:, None]
        return transform(self.p.copy(), W)

    @property
    def chi(self) -> np.ndarray:
        """(n, n) covariances χ_ij = ⟨x_i x_j⟩ − m_i m_j."""
        bits = 1 << np.arange(self.n_features)
        rounding = self.central[
            bits
        ]  # ⟨x_i − m_i⟩: zero but for the last digit of m_i, which counts when x_i is frozen
        chi = self.central[bits[:, None] | bits] - np.outer(rounding, rounding)
        np.fill_diagonal(chi, self.V)
        return chi

    def cumulants(self, interactions: Interactions) -> np.ndarray | None:
        """(p,) joint cumulants of the members of each interaction; None if their 3^(order−1) terms are too many."""
        if (3.0 ** (np.diff(interactions.indptr) - 1)).sum() > MAX_CUMULANT_TERMS:
            return None
        return kernels.joint_cumulants(self.central, interactions.members, interactions.indptr)

    def _power_moments(self, base: int) -> np.ndarray:
        """(baseⁿ,) ⟨Π_i x_i^e_i⟩ at Σ_i e_i baseⁱ, for all exponents e_i < base."""
        if base not in self._powers:
            W = np.tile(np.vander(self.nodes, base, increasing=True).T, (self.n_features, 1, 1))
            self._powers[base] = transform(self.p.copy(), W)
        return self._powers[base]

    # ------------------------------------------------------------------ sufficient statistics

    def statistics(self, interactions: Interactions) -> np.ndarray:
        """⟨t⟩ = ∂ ln Z/∂(h, d, J), shape (P,), with t = (x_i, −½ x_i², x_μ) in this order.

        On a two-valued alphabet there is no −½ x_i²: it is affine in x_i.
        """
        second = [] if len(self.nodes) == 2 else [-0.5 * self.v]
        return np.concatenate([self.m, *second, self.moments(interactions)])

    def fisher(self, interactions: Interactions) -> np.ndarray:
        """F = ⟨t t'⟩ − ⟨t⟩⟨t⟩' = ∂² ln Z/∂(h, d, J)², t as in ``statistics``, shape (P, P).

        Products of monomials are monomials, so ⟨t t'⟩ is looked up in the table of moments. On {−1, 1},
        x_μ x_ν = x_{μ△ν}; with q ≥ 3 values exponents add up, to 4 at most, and those from q on are reduced by
        Π_a (x − nodes[a]) = 0.
        """
        t = self.statistics(interactions)
        G = self._products_two_valued(interactions) if len(self.nodes) == 2 else self._products(interactions)
        G -= np.outer(t, t)
        return G

    def fisher_product(self, interactions: Interactions, v: np.ndarray) -> np.ndarray:
        """F v = Cov(t, v·t) for v (P,): v·t on all states, centred, weighted with p, and its moments; O(n qⁿ)."""
        n, q = self.n_features, len(self.nodes)
        theta = np.zeros(2**n)
        theta[_codes(interactions, 2)] = v[len(v) - len(interactions) :]
        u = transform(theta, np.tile(np.stack([np.ones(q), self.nodes], axis=1), (n, 1, 1)))
        site = np.outer(v[:n], self.nodes)
        if q > 2:
            site -= 0.5 * np.outer(v[n : 2 * n], self.nodes**2)
        split = n // 2
        table = u.reshape(-1, q**split)
        table += _outer_sum(site[split:])[:, None]
        table += _outer_sum(site[:split])
        u -= self.p @ u
        u *= self.p
        marginals = np.vstack([_marginals(table.sum(axis=0), q, split), _marginals(table.sum(axis=1), q, n - split)])
        second = [] if q == 2 else [-0.5 * marginals @ self.nodes**2]
        moments = transform(u, np.tile(np.stack([np.ones(q), self.nodes]), (n, 1, 1)))[_codes(interactions, 2)]
        return np.concatenate([marginals @ self.nodes, *second, moments])

    def _products_two_valued(self, interactions: Interactions) -> np.ndarray:
        """⟨t t'⟩ where x² = (x₀ + x₁) x − x₀ x₁."""
        codes = np.concatenate([1 << np.arange(self.n_features), _codes(interactions, 2)])
        x = self.nodes
        return _table_of_products(kernels.products_two_valued, self._power_moments(2), codes, x.sum(), x.prod())

    def _products(self, interactions: Interactions) -> np.ndarray:
        """⟨t t'⟩ with q ≥ 3: by sums of codes where exponents stay below 3, by reduction in the rows of −½ x_i²."""
        n, base = self.n_features, min(len(self.nodes), 5)
        M = self._power_moments(base)
        stride = base ** np.arange(n)
        codes = np.concatenate([stride, 2 * stride, _codes(interactions, base)])
        simple = np.r_[0:n, 2 * n : len(codes)]
        G = np.empty((len(codes), len(codes)))
        G[np.ix_(simple, simple)] = _table_of_products(kernels.products_by_sum, M, codes[simple])
        reduced = _reduction(self.nodes, base)
        scale = np.where(np.arange(len(codes)) // n == 1, -0.5, 1.0)
        for i in range(n):
            exponent = codes // stride[i] % base
            others = M[(codes - exponent * stride[i])[:, None] + stride[i] * np.arange(base)]
            G[n + i] = G[:, n + i] = -0.5 * scale * (reduced[2 + exponent] * others).sum(axis=1)
        return G


def transform(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    """(W_{n−1} ⊗ … ⊗ W_0) x for W of shape (n, out, in); x (inⁿ,) may be overwritten. Returns (outⁿ,).

    With W = [[1, 1], [1, −1]] the fast Walsh–Hadamard transform: n·2^(n−1) butterflies. Otherwise an axis at a time,
    in the order in which most entries are handled in long contiguous runs.
    """
    n, n_out, n_in = W.shape
    if (n_out, n_in) == (2, 2):
        return _two_point(x, W)
    for i in range(n) if n_out > n_in else reversed(range(n)):
        x = _one_axis(x.reshape(-1, n_in, max(n_in, n_out) ** i), W[i])
    return x.reshape(-1)


def _two_point(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    low = min(_LOW_STAGES, len(W))
    blocks = x.reshape(-1, 1 << low)
    in_threads(lambda part: kernels.low_stages(blocks[part].reshape(-1), W[:low]), row_parts(len(blocks), 8 * x.size))
    if len(blocks) > 1:
        strips = [(_STRIP * part.start, _STRIP * part.stop) for part in row_parts((1 << low) // _STRIP, 8 * x.size)]
        in_threads(lambda part: kernels.high_stages(blocks, W[low:], _STRIP, *part), strips)
    return x


def _one_axis(x: np.ndarray, W: np.ndarray) -> np.ndarray:
    L, _, R = x.shape
    out = np.empty((L, len(W), R))
    parts = row_parts(max(L, R), 2 * x.size + out.size)
    bounds = [(part.start, part.stop, 0, R) if L > R else (0, L, part.start, part.stop) for part in parts]
    in_threads(lambda part: kernels.one_axis(x, W, out, *part), bounds)
    return out


def _boltzmann_weights(E: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> tuple[float, float, float]:
    """E_rc ← w = exp(e − peak), e = E_rc + rows_r + cols_c, in place. Returns peak, Σ w, Σ w (e − peak)."""
    parts = row_parts(len(E), 8 * E.size)
    peak = max(in_threads(lambda part: kernels.add_sites(E[part], rows[part], cols), parts))
    z, s = np.concatenate(in_threads(lambda part: kernels.exponentiate(E[part], peak), parts)).sum(axis=0)
    if not (np.isfinite(peak) and np.isfinite(z)):
        raise ValueError("the energies of this model exceed float64: scale h, d and the couplings down.")
    return float(peak), float(z), float(s)


def _table_of_products(kernel: Callable, M: np.ndarray, codes: np.ndarray, *constants: float) -> np.ndarray:
    """(P, P) ⟨x_μ x_ν⟩ of all pairs of codes."""
    out = np.empty((len(codes), len(codes)))
    parts = row_parts(len(codes), 4 * out.size)
    in_threads(lambda part: kernel(M, codes[part], codes, *constants, out[part]), parts)
    return out


def _axis(model: BoltzmannMachine, n_nodes: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Values of one variable and their log weights, both (q,); refuses what has no table or too large a one."""
    n, alphabet = model.n_features, model.alphabet
    if alphabet.kind == "real":
        raise ValueError('alphabet "real" has no states to list: infer(model, "exact") gives its closed form.')
    if alphabet.kind == "finite":
        _check_size(alphabet.size, n, f"{alphabet.size} values")
        return alphabet.nodes, np.zeros(alphabet.size)
    q = n_nodes or max(MIN_NODES, min(MAX_NODES, floor(MAX_STATES ** (1 / n) + 1e-9)))
    _check_size(q, n, f"{q} grid nodes (the fewest for an Interval)" if n_nodes is None else f"{q} grid nodes")
    t, w = np.polynomial.legendre.leggauss(q)
    low, high = alphabet.bounds
    return 0.5 * (low + high) + 0.5 * (high - low) * t, np.log(0.5 * (high - low) * w)


def _check_size(q: int, n: int, each: str) -> None:
    if q**n > MAX_STATES:
        count = f"{q**n:,}" if n * log10(q) < 18 else f"about 10^{n * log10(q):.0f}"
        raise ValueError(
            f'method "exact" lists every state, at most {MAX_STATES:,}: {n} variables of {each} have {count}. '
            'Use method "dc" (mean field, any size) or "gibbs" (sampling).'
        )


def _codes(interactions: Interactions, base: int) -> np.ndarray:
    """(p,) Σ_{i∈μ} baseⁱ."""
    if not len(interactions):
        return np.zeros(0, dtype=np.int64)
    return np.add.reduceat(base ** interactions.members.astype(np.int64), interactions.indptr[:-1])


def _outer_sum(site: np.ndarray) -> np.ndarray:
    """(q^k,) Σ_i site[i, digit_i] for site of shape (k, q)."""
    out = np.zeros(1)
    for row in site:
        out = np.add.outer(row, out).reshape(-1)
    return out


def _marginals(p: np.ndarray, q: int, k: int) -> np.ndarray:
    """(k, q) sums of p (q^k,) over all digits but one."""
    return np.array([p.reshape(-1, q, q**i).sum(axis=(0, 2)) for i in range(k)]).reshape(k, q)


def _reduction(nodes: np.ndarray, base: int) -> np.ndarray:
    """(5, base) r with x^e = Σ_k r[e, k] x^k on the nodes, e ≤ 4.

    Where e reaches base, base is q, and r[e] is the remainder of x^e by Π_a (x − nodes[a]).
    """
    r = np.eye(5, base)
    for e in range(base, 5):
        remainder = polydiv(np.eye(5)[e], polyfromroots(nodes))[1]
        r[e, : len(remainder)] = remainder
    return r
