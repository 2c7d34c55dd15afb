"""The prior of the couplings of one order: a scale mixture of Gaussians, its weights learnt from the data.

    p(β) = Σ_j π_j N(β; 0, σ_j² I),     σ_j = (.1/√M) √2^j up to 2

Few strong couplings among many zeros, or many weak ones: the weights tell. No point mass: the narrowest component is a
tenth of a standard error. A term of several functions (nominal members) is a vector β with one scale, so that nothing
depends on the basis of its functions.

The data speak of β through a cavity, exp(−½Λβ² + ρ·β): with it, component j has the weight and the posterior

    R_j ∝ π_j (1 + Λσ_j²)^(−d/2) exp(½ |ρ|² w_j),     N(w_j ρ, w_j I),     w_j = σ_j²/(1 + Λσ_j²)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hbm_learn._kernels import mixture as kernels

# The narrowest scale in units of 1/√M, the broadest, and the ratio of neighbours.
NARROWEST, BROADEST, RATIO = 0.1, 2.0, np.sqrt(2.0)
# Observations that the weights start from, spread evenly over the scales: what a handful of couplings, or one, say of
# their distribution is not taken for certain.
PSEUDO = 1.0
# Newton's steps, and the decrement in nats at which the weights stay.
_STEPS, _ENOUGH = 100, 1e-6
# More couplings than that teach the weights by counts on a grid with knots of |z| and ln Λ so far apart, up to a |z|.
_FEW, _APART, _FAR = 4000, 0.1, 6.0


def scales(n_samples: float) -> np.ndarray:
    """(G,) σ_j for M samples."""
    lowest = min(NARROWEST / np.sqrt(n_samples), 0.5 * BROADEST)
    steps = int(np.ceil(np.log(BROADEST / lowest) / np.log(RATIO)))
    return BROADEST * RATIO ** np.arange(-steps, 1.0)


@dataclass(frozen=True, eq=False)
class Cavities:
    """What the data say of each of T terms, all else integrated out. (T,) arrays.

    Attributes
    ----------
    precision : array
        Λ ≥ 0.
    square : array
        |ρ|²; ρ = Λ r is the natural parameter of an estimate r.
    df : array
        d, length of β.
    """

    precision: np.ndarray
    square: np.ndarray
    df: np.ndarray

    def at(self, where: slice | np.ndarray) -> Cavities:
        return Cavities(self.precision[where], self.square[where], self.df[where])

    def log_evidence(self, sigma: np.ndarray) -> np.ndarray:
        """(T, G) ln ∫ N(β; 0, σ_j²) exp(−½Λβ² + ρ·β) dβ."""
        spread = 1.0 + np.outer(self.precision, sigma**2)
        return 0.5 * (self.square[:, None] * sigma**2 / spread - self.df[:, None] * np.log(spread))


def learn_weights(cavities: Cavities, sigma: np.ndarray, start: np.ndarray | None = None) -> np.ndarray:
    """(G,) π that maximise Σ ln (evidence · π) over the cavities, with ``PSEUDO`` observations spread over the scales.

    With the multiplier of Σπ = 1, which is the number of observations, that is convex without a constraint: Newton's
    steps in units of π. Neighbouring scales are so alike that expectation maximisation takes thousands.

    Parameters
    ----------
    cavities : Cavities
        Of the terms that share the prior.
    sigma : (G,) array
    start : (G,) array or None
        Weights to begin with.
    """
    G, base = len(sigma), PSEUDO / len(sigma)
    few, weights = counted(cavities)
    log_evidence = few.log_evidence(sigma)
    evidence = np.exp(log_evidence - log_evidence.max(axis=1, keepdims=True))
    total = float(weights.sum()) + PSEUDO

    def loss(pi: np.ndarray) -> float:
        return total * float(pi.sum()) - float(weights @ np.log(evidence @ pi)) - base * float(np.log(pi).sum())

    pi = np.full(G, 1.0 / G) if start is None else np.maximum(start, 1e-6 / G)
    value = loss(pi)
    for _ in range(_STEPS):
        R = evidence * pi
        R /= R.sum(axis=1, keepdims=True)
        weighted = R * weights[:, None]
        gradient = total * pi - weighted.sum(axis=0) - base
        H = weighted.T @ R
        H[np.diag_indices(G)] += base
        step = np.linalg.solve(H, gradient)
        decrement, length = float(gradient @ step), min(1.0, 0.9 / max(float(step.max()), 1e-300))
        if decrement < _ENOUGH:
            pi = pi * (1.0 - length * step)
            break
        new, there = pi, value
        while length > 1e-10:
            new = pi * (1.0 - length * step)
            there = loss(new)
            if there <= value - 0.1 * length * decrement:
                break
            length *= 0.5
        pi, value = new, there
    return pi / pi.sum()


def counted(cavities: Cavities) -> tuple[Cavities, np.ndarray]:
    """Cavities that speak for all, and for how many each does: the four knots about each, such that the sums of z² and
    of ln Λ stay, on which weak evidence rests. Unlike a sample they change as little as the cavities do, so that sites
    settle.
    """
    n_terms = len(cavities.precision)
    if n_terms <= _FEW:
        return cavities, np.ones(n_terms)
    z = np.sqrt(cavities.square / (cavities.precision * cavities.df))
    far = z >= _FAR
    near = [np.flatnonzero(~far & (cavities.df == d)) for d in np.unique(cavities.df[~far])]
    parts = [(cavities.at(far), np.ones(int(far.sum())))] + [_on_knots(cavities.at(mine), z[mine]) for mine in near]
    found = zip(*((part.precision, part.square, part.df, weights) for part, weights in parts))
    precision, square, df, weights = (np.concatenate(each) for each in found)
    return Cavities(precision, square, df), weights


def _on_knots(cavities: Cavities, z: np.ndarray) -> tuple[Cavities, np.ndarray]:
    """Of cavities of one df."""
    x, d = np.log(cavities.precision) / _APART, cavities.df[0]
    left, k = np.floor(x).astype(np.intp), np.floor(z / _APART).astype(np.intp)
    right, up = x - left, ((z / _APART) ** 2 - k**2) / (2 * k + 1)
    first, K = left.min(), int(_FAR / _APART) + 2
    corners = ((i, j, (right if i else 1.0 - right) * (up if j else 1.0 - up)) for i in (0, 1) for j in (0, 1))
    size = (int(left.max() - first) + 2) * K
    count = np.sum([np.bincount((left - first + i) * K + k + j, share, size) for i, j, share in corners], axis=0)
    there = np.flatnonzero(count)
    precision = np.exp(_APART * (first + there // K))
    square = precision * d * (_APART * (there % K)) ** 2
    return Cavities(precision, square, np.full(len(there), d)), count[there]


def responsibilities(cavities: Cavities, sigma: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(T, G) R, and (T,) ln ∫ p(β) exp(−½Λβ² + ρ·β) dβ."""
    joint = cavities.log_evidence(sigma) + np.log(np.maximum(pi, 1e-300))
    top = joint.max(axis=1)
    joint -= top[:, None]
    R = np.exp(joint, out=joint)
    total = R.sum(axis=1)
    R /= total[:, None]
    return R, top + np.log(total)


def even_odds(cavities: Cavities, sigma: np.ndarray, pi: np.ndarray) -> np.ndarray:
    """(T, G) π with no more weight on scales below a coupling's error 1/√Λ, noise, than on those above it.

    The odds of a coupling are no longer those of its order, as if one had asked for it and not for all of them.
    """
    noise = sigma * np.sqrt(cavities.precision)[:, None] < 1.0
    share = noise @ pi
    low, high = 0.5 / np.maximum(share, 0.5), 0.5 / np.maximum(1.0 - share, 1e-300)
    return pi * np.where(noise, low[:, None], np.where(share > 0.5, high, 1.0)[:, None])


def shrinkage(cavities: Cavities, sigma: np.ndarray) -> np.ndarray:
    """(T, G) w_j: means are w ρ, variances w."""
    return sigma**2 / (1.0 + np.outer(cavities.precision, sigma**2))


def doubted(pi: np.ndarray, belief: float) -> np.ndarray:
    """(G,) weights where there is nothing, up to the narrowest scale, with probability 1 − belief."""
    return belief * pi + (1.0 - belief) * (np.arange(len(pi)) == 0)


def moments(cavities: Cavities, sigma: np.ndarray, pi: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(T,) the factor of ρ in the posterior mean, the mean variance of an entry of β, and ln of the site's integral."""
    T = len(cavities.precision)
    factor, variance, total = np.empty(T), np.empty(T), np.empty(T)
    kernels.moments(
        cavities.precision,
        cavities.square,
        np.asarray(cavities.df, dtype=float),
        sigma**2,
        np.maximum(pi, 1e-300),
        factor,
        variance,
        total,
    )
    return factor, variance, total
