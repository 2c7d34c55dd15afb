"""Errors of the minimum of a composite objective: the sandwich.

    sampling:   H⁻¹ V H⁻¹,   H = ∂²Q/∂θ² (with the ridge),   V = Cov of the mean score over data sets
    posterior:  H⁻¹ (V + diag(ridge · c)/M) H⁻¹

The second one is what a posterior with Gaussian prior has where the composite likelihood counts information c times:
with H = c (F + A/M) and V = c² F/M it is (M F + A)⁻¹.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from hbm_learn._threads import in_threads
from hbm_learn.inversion.composite import Composite
from hbm_learn.inversion.matrices import hessian, score_covariance
from hbm_learn.inversion.newton_cg import conjugate_gradients
from hbm_learn.inversion.objective import Curvature, Objective
from hbm_learn.inversion.rows import Block

# Up to this many parameters the matrices are formed.
MAX_DENSE = 2000
# Multiplications for the matrices: rows beyond that are left out, evenly, down to _MIN_ROWS. A variance from m rows is
# good to about √(2/m).
_FLOPS = 1e10
_MIN_ROWS = 4000
# Beyond, draws for each site's factor, and the weight of its prior.
_SITE_DRAWS = 1500
_PRIOR_DRAWS = 200.0


class Errors(NamedTuple):
    """(n_params,) each: posterior and sampling standard deviations, and z (see ``InversionResult``) or None."""

    posterior: np.ndarray
    sampling: np.ndarray
    z: np.ndarray | None


def errors(
    objective: Objective, theta: np.ndarray, count: np.ndarray, random_state: Any = None, runaway: bool = False
) -> Errors:
    """Posterior and sampling standard deviations of θ, and z where the matrices are held whole.

    Parameters
    ----------
    objective : with its ridge.
    theta : the minimum.
    count : (n_params,) c, how many times the composite likelihood counts the information on each parameter.
    runaway : θ is on its way to infinity, where V vanishes faster than H: the errors are then at least those of
        independent variables, c diag(H⁻¹)/M.
    """
    prior_noise = objective.ridge * count / objective.composite.rows.n_samples
    z = None
    if objective.composite.n_params <= MAX_DENSE:
        sampling, posterior, z = _dense(objective, theta, prior_noise)
    else:
        sampling, posterior = _probed(objective, theta, prior_noise, count, random_state)
    if runaway:
        least = Curvature(objective, theta).inverse_diagonal(count / objective.composite.rows.n_samples)
        sampling, posterior, z = np.maximum(sampling, least), np.maximum(posterior, least), None
    return Errors(np.sqrt(posterior), np.sqrt(sampling), z)


def _dense(objective: Objective, theta: np.ndarray, prior_noise: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sampling and posterior variances, and z, from the whole matrices: 4 Σ K_i² + P² flops a row, 4 P³ in all."""
    composite, stride = objective.composite, _stride(objective.composite)
    H = hessian(composite, theta, stride)
    inverse = _inverse(H + np.diag(objective.ridge))
    V = score_covariance(composite, theta, inverse, stride)
    sampling = _sandwich(inverse, V)
    posterior = sampling + inverse**2 @ prior_noise
    # One Newton step without the prior, and the error that the estimate has there.
    free = _inverse(H) if objective.ridge.any() else inverse
    errors = np.sqrt(np.maximum(_sandwich(free, V), 1e-300))
    return sampling, posterior, (theta + free @ (objective.ridge * theta)) / errors


def _sandwich(inverse: np.ndarray, V: np.ndarray) -> np.ndarray:
    """diag(H⁻¹ V H⁻¹)."""
    return np.maximum(np.einsum("ij,ji->i", inverse @ V, inverse), 0.0)


def _same_rows(composite: Composite, n_rows: float) -> float:
    """What H⁻¹ V H⁻¹ loses when both come from the same m rows: a row that V weighs up, H weighs up as well.

    With n conditionals of P/n own parameters each, (1 − P/nm)²: measured 0.966, 0.978, 0.985 at P/nm = 0.0174, 0.013,
    0.0087.
    """
    return max(1.0 - composite.n_params / (composite.n_features * n_rows), 0.1) ** 2


def _inverse(H: np.ndarray) -> np.ndarray:
    """H⁻¹; directions without curvature get the least that makes H, scaled to a unit diagonal, definite."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-300))
    unit, lift = H * np.outer(scale, scale), 0.0
    while True:
        try:
            inverse = linalg.inv(unit + lift * np.eye(len(H)), assume_a="pos", check_finite=False)
            return scale[:, None] * inverse * scale
        except linalg.LinAlgError:
            lift = max(1e-12, 10 * lift)


def _stride(composite: Composite) -> int:
    """Every so many rows, so that the matrices are affordable; never fewer than 20 for each parameter of a site."""
    sizes = np.diff(composite.map.site_ptr)
    flops = 4.0 * float(sizes @ sizes) + float(composite.n_params) ** 2
    rows = max(_FLOPS / flops, 20.0 * float(sizes.max()), _MIN_ROWS)
    return max(1, int(composite.rows.n_rows / rows))


# ---------------------------------------------------------------------- many parameters


def _probed(
    objective: Objective, theta: np.ndarray, prior_noise: np.ndarray, count: np.ndarray, random_state: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Variances of independent variables, corrected for each site and order by draws from the posterior.

    y = H⁻¹ (Σ_rows ±√w² s + √prior_noise ξ) has the posterior covariance. A few draws say nothing of one entry, but of
    a factor for each site and order, shared by many entries, they say enough: the factors are those of
    Var(θ_μ) ≈ base_μ c_|μ| Π_{i∈μ} r_i that fit all y² best.
    """
    composite = objective.composite
    M = composite.rows.n_samples
    H = Curvature(objective, theta)
    base = H.inverse_diagonal(count / M)
    n_probes = int(np.clip(np.ceil(_SITE_DRAWS * composite.n_features / len(composite.map.site)), 2, 12))
    rng = np.random.default_rng(random_state if isinstance(random_state, (int, np.integer)) else 0)
    squares = np.zeros(composite.n_params)
    for _ in range(n_probes):
        z = _score_probe(H, theta, rng) + np.sqrt(prior_noise) * rng.standard_normal(composite.n_params)
        squares += conjugate_gradients(H.product, z, H.precondition, 0.05, 50) ** 2 / n_probes
    squares /= _same_rows(composite, H.n_rows)
    posterior = base * _factors(composite, squares / base, n_probes)
    ridge = objective.ridge * M / count
    return posterior * np.clip(1.0 - ridge * posterior, 0.0, 1.0), posterior


def _score_probe(H: Curvature, theta: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Σ_rows ±w s over the rows of H, with random signs: its covariance is V (for scores that average to zero)."""
    composite = H.composite
    W = composite.map.weights(theta, composite.dtype)
    tasks = [[(part, rng.choice([-1.0, 1.0], len(part[1]))) for part, _ in share] for share in H.shares]

    def work(share: list[tuple[Block, np.ndarray]]) -> tuple[Any, Any]:
        total: Any = np.float64(0.0)
        by_d: Any = np.float64(0.0)
        for part, signs in share:
            values = composite.evaluate(part, theta, W, second=False)
            values.first[...] *= (signs * np.sqrt(part[1] / composite.rows.n_samples)).astype(composite.dtype)
            total = total + composite.map.adjoint(values.first[0], values.Phi)
            by_d = by_d + values.first[1:].sum(axis=2, dtype=np.float64).ravel()
        return total, by_d

    pieces = in_threads(work, tasks, composite.n_jobs)
    scale = composite.scale(H.losses)
    entries = composite.map.entries(sum(piece[0] for piece in pieces)) * scale[composite.map.site]
    by_d = sum(piece[1] for piece in pieces)
    return composite.to_params(entries, by_d * scale[: len(by_d)])


def _factors(composite: Composite, ratio: np.ndarray, n_draws: int) -> np.ndarray:
    """(P,) c_k Π_{i∈μ} r_i around which the ratios scatter as means of ``n_draws`` χ²₁: one c for each order, h and d.

    Every r_i has the weight of _PRIOR_DRAWS draws at 1, so that it stays near 1 for a site with few interactions.
    """
    n, interactions = composite.n_features, composite.map.interactions
    sites = np.arange(n)[:, None]
    blocks = [sites, *(interactions.block(k) for k in interactions.orders), *[sites] * (composite.terms - 1)]
    edges = np.cumsum([0, *(len(block) for block in blocks)])
    degree = np.bincount(np.concatenate([block.ravel() for block in blocks]), minlength=n)
    r, fitted = np.ones(n), np.ones(len(ratio))
    for _ in range(20):
        excess = np.zeros(n)
        for block, lo, hi in zip(blocks, edges[:-1], edges[1:]):
            product = np.prod(r[block], axis=1)
            fitted[lo:hi] = product * np.mean(ratio[lo:hi] / product)
            over = ratio[lo:hi] / fitted[lo:hi]
            excess += np.bincount(block.ravel(), np.repeat(over, block.shape[1]), minlength=n)
        r *= np.sqrt((excess * n_draws + _PRIOR_DRAWS) / (degree * n_draws + _PRIOR_DRAWS))
    return fitted
