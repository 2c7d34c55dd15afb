"""Products of functions of one site, in a basis G in which every product is a short sum:

    G_a G_b = Σ_c γ_abc G_c,     G = (1, O_1, …, O_o, what the products add)

With such a basis at every site, ⟨t t'⟩ of products t of functions of sites is looked up in the table of moments of G.
Powers of x are their own basis, with one entry a product while exponents stay below the number of values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hbm_learn._kernels import transform as kernels
from hbm_learn.interactions import Interactions
from hbm_learn.space import Space
from hbm_learn.states import transforms

# Relative size of what must be new in a product to widen the basis, and below which an entry of γ is rounding.
_NEW, _ROUNDING = 1e-9, 4e-15


@dataclass(frozen=True, eq=False)
class SiteBasis:
    """Functions of one site that hold all products of the first of them.

    Attributes
    ----------
    G : (q, s) array
        1, the o functions O, and what their products add, s ≤ q.
    width : int
        o + 1: a product G_a G_b with a, b < width is the pair a · width + b.
    pair_ptr : (width² + 1,) array
        The entries of each pair.
    digit, weight : arrays
        G_a G_b = Σ_e weight_e G_{digit_e} over the entries e of its pair.
    """

    G: np.ndarray
    width: int
    pair_ptr: np.ndarray
    digit: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, O: np.ndarray) -> SiteBasis:
        """The basis of (q, o) functions, which are linearly independent with 1."""
        G = np.column_stack([np.ones(len(O)), O])
        width = G.shape[1]
        for a in range(1, width):
            for b in range(1, a + 1):
                G = _widened(G, G[:, a] * G[:, b])
        ends, digits, weights = [0], [], []
        for a in range(width):
            for b in range(width):
                digit, weight = _expansion(G, G[:, a] * G[:, b])
                digits.append(digit)
                weights.append(weight)
                ends.append(ends[-1] + len(digit))
        return cls(G, width, np.array(ends), np.concatenate(digits), np.concatenate(weights))


def products(p: np.ndarray, own: Sequence[np.ndarray], digits: np.ndarray) -> np.ndarray:
    """(P, P) ⟨t t'⟩ of products t of functions of sites, under probabilities p of all states.

    Parameters
    ----------
    p : (Π q_i,) array
        Probabilities, site 0 fastest.
    own : sequence of (q_i, o_i) arrays
        Functions of each site, linearly independent with 1.
    digits : (P, n) array
        Which function of each site, counted from 1, is a factor of t; 0 for none.
    """
    bases = [_basis(O.shape, np.asarray(O, dtype=np.float64).tobytes()) for O in own]
    strides = transforms.strides([basis.G.shape[1] for basis in bases])
    M = transforms.transform(p.copy(), [basis.G.T for basis in bases])
    codes, sites = digits @ strides, (digits > 0) @ (1 << np.arange(len(strides)))
    arguments = (M, codes, sites, digits, *_multiplication_tables(bases, strides), _most_terms(bases, digits))
    return transforms.symmetric_matrix(len(codes), lambda *part: kernels.products(*arguments, *part))


def factors(space: Space, columns: Interactions, n_own: list[int]) -> np.ndarray:
    """(P, n) which function of each site is a factor of each t: 0 for none, k for the k-th own function."""
    start = sum(n_own)
    out = np.zeros((start + len(columns), space.n_features), dtype=np.int64)
    alone = np.repeat(np.arange(len(n_own)), n_own)
    out[np.arange(start), alone] = np.concatenate([np.arange(1, o + 1) for o in n_own])
    which = start + np.repeat(np.arange(len(columns)), np.diff(columns.indptr))
    sites = space.site[columns.members]
    out[which, sites] = 1 + columns.members - space.column_ptr[sites]
    return out


def products_two_valued(M: np.ndarray, codes: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """(P, P) ⟨φ_μ φ_ν⟩ of sets of two-valued sites, where φ² = (φ₀ + φ₁) φ − φ₀ φ₁.

    Parameters
    ----------
    M : (2ⁿ,) array
        ⟨φ_S⟩ of every set S of sites, at Σ_{i∈S} 2ⁱ.
    codes : (P,) array
        Where each μ stands in M.
    low, high : (n,) arrays
        φ₀ and φ₁ of each site.
    """
    total, product = low + high, low * high
    if ((total == 0.0) | (product == 0.0)).all():
        factor = total - product  # one of the two is zero
        factor = np.zeros(0) if (factor == 1.0).all() else factor
        stay = int(((product == 0.0).astype(np.int64) << np.arange(len(product))).sum())
        return transforms.symmetric_matrix(
            len(codes), lambda *part: kernels.products_one_look_up(M, codes, stay, factor, *part)
        )
    size = 1 << max(int(code).bit_count() for code in codes)
    return transforms.symmetric_matrix(
        len(codes), lambda *part: kernels.products_two_valued(M, codes, total, product, size, *part)
    )


def _multiplication_tables(bases: Sequence[SiteBasis], strides: np.ndarray) -> tuple[np.ndarray, ...]:
    """The pairs of all sites for the kernel ``products``: (pair_start, width, pair_ptr, shift, weight)."""
    width = np.array([basis.width for basis in bases])
    pair_start = np.concatenate([[0], np.cumsum(width**2)[:-1]])
    counts, shifts, weights = [], [], []
    for basis, stride in zip(bases, strides):
        a, b = np.divmod(np.arange(basis.width**2), basis.width)
        entries = np.diff(basis.pair_ptr)
        counts.append(entries)
        shifts.append((basis.digit - np.repeat(a + b, entries)) * stride)
        weights.append(basis.weight)
    pair_ptr = np.concatenate([[0], np.cumsum(np.concatenate(counts))])
    return pair_start, width, pair_ptr, np.concatenate(shifts), np.concatenate(weights)


def _most_terms(bases: Sequence[SiteBasis], digits: np.ndarray) -> int:
    """A bound on the terms of the product of two t: Π over the sites of one of them of the longest expansion there.

    ``digits`` is (P, n): the function of each site in each t, 0 for none.
    """
    longest = np.log([int(np.diff(basis.pair_ptr).max()) for basis in bases])
    return int(np.rint(np.exp(((digits > 0) @ longest).max(initial=0.0))))


@lru_cache(maxsize=256)
def _basis(shape: tuple[int, int], content: bytes) -> SiteBasis:
    """The basis of functions given by their bytes: a fit asks for the same ones at every step."""
    return SiteBasis.of(np.frombuffer(content).reshape(shape))


def _widened(G: np.ndarray, product: np.ndarray) -> np.ndarray:
    """G with one more function, if the product is not in its span."""
    if G.shape[1] == len(G):
        return G
    rest = product - _projection(G, product)
    return np.column_stack([G, product]) if np.abs(rest).max() > _NEW * np.abs(product).max() else G


def _projection(G: np.ndarray, f: np.ndarray) -> np.ndarray:
    Q = np.linalg.qr(G / np.abs(G).max(axis=0))[0]
    return Q @ (Q.T @ f)


def _expansion(G: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(digits, weights) with f = Σ weights G_digits: one entry if f is a multiple of one function."""
    size = np.abs(f).max()
    for c, g in enumerate(G.T):
        scale = f[np.abs(g).argmax()] / g[np.abs(g).argmax()]
        if np.abs(f - scale * g).max() <= _ROUNDING * size:
            return np.array([c]), np.array([scale])
    heights = np.abs(G).max(axis=0)
    weights = np.linalg.lstsq(G / heights, f, rcond=None)[0]
    kept = np.flatnonzero(np.abs(weights) > _ROUNDING * size)
    return kept, weights[kept] / heights[kept]
