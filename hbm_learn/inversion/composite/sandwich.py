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
from hbm_learn.data.rows import Block
from hbm_learn.inversion.composite.hessian import hessian, score_covariance
from hbm_learn.inversion.composite.objective import Curvature, Objective
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.optimise.newton_cg import conjugate_gradients

# Up to this many parameters the matrices are formed.
MAX_DENSE = 2000
# Multiplications for the matrices: rows beyond that are left out, evenly, down to _MIN_ROWS. A variance from m rows is
# good to about √(2/m).
_FLOPS = 1e10
_MIN_ROWS = 4000
# Beyond, draws for each site's factor, and the weight of its prior.
_SITE_DRAWS = 1500
_PRIOR_DRAWS = 200.0


class Variances(NamedTuple):
    """(n_params,) each: posterior and sampling variances; kept, noise and z as in ``InversionResult``."""

    posterior: np.ndarray
    sampling: np.ndarray
    kept: np.ndarray
    noise: np.ndarray
    z: np.ndarray | None


def errors(
    objective: Objective, theta: np.ndarray, count: np.ndarray, random_state: Any = None, runaway: bool = False
) -> Variances:
    """Posterior and sampling variances of θ, and what follows from them.

    Parameters
    ----------
    objective : with its ridge.
    theta : the minimum.
    count : (n_params,) c, how many times the composite likelihood counts the information on each parameter.
    runaway : θ is on its way to infinity, where V vanishes faster than H: the errors are then at least those of
        independent variables, c diag(H⁻¹)/M.
    """
    if objective.composite.n_params <= MAX_DENSE:
        found = _dense(objective, theta, count)
    else:
        found = _probed(objective, theta, count, random_state)
    if not runaway:
        return found
    least = Curvature(objective, theta).inverse_diagonal(count / objective.composite.rows.n_samples)
    return found._replace(
        posterior=np.maximum(found.posterior, least), sampling=np.maximum(found.sampling, least), z=None
    )


def _dense(objective: Objective, theta: np.ndarray, count: np.ndarray) -> Variances:
    """Variances and z from the whole matrices: 4 Σ K_i² + P² flops a row, 4 P³ in all."""
    composite, stride, M = objective.composite, _stride(objective.composite), objective.composite.rows.n_samples
    H = hessian(composite, theta, stride)
    inverse = _inverse(H + np.diag(objective.ridge))
    kept = np.clip(1.0 - objective.ridge * np.diag(inverse), 0.0, 1.0)
    V = score_covariance(composite, theta, inverse, stride)
    V /= _same_rows(composite, np.diag(H)[: composite.n_features], stride, count, kept, done=1.0)
    sampling = _sandwich(inverse, V)
    posterior = sampling + inverse**2 @ (objective.ridge * count / M)
    # One Newton step without the prior, and the error that the estimate has there.
    free = _inverse(H) if objective.ridge.any() else inverse
    errors = np.sqrt(np.maximum(_sandwich(free, V), 1e-300))
    z = (theta + free @ (objective.ridge * theta)) / errors
    return Variances(posterior, sampling, _kept(inverse, objective.ridge, objective.ridge * M / count), sampling, z)


def _kept(inverse: np.ndarray, ridge: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """α E[θ̂²] for θ drawn from the prior, of which a fit makes H⁻¹ (H − ridge) θ; 1 without a prior."""
    given = np.divide(1.0, alpha, out=np.zeros_like(alpha), where=alpha > 0)
    return np.where(alpha > 0, alpha * ((np.eye(len(ridge)) - inverse * ridge) ** 2 @ given), 1.0)


def _sandwich(inverse: np.ndarray, V: np.ndarray) -> np.ndarray:
    """diag(H⁻¹ V H⁻¹)."""
    return np.maximum(np.einsum("ij,ji->i", inverse @ V, inverse), 0.0)


def _same_rows(
    composite: Composite, curvature: np.ndarray, stride: int, count: np.ndarray, kept: np.ndarray, done: float = 0.0
) -> float:
    """What H⁻¹ V H⁻¹ makes of the variance when both come from the same m = M/stride samples.

    A row draws H, and the fit, towards itself. With shares ``kept`` of the parameters that the data determine and not
    the prior, its leverage in one conditional is P/nm, P = Σ kept. The scores of several conditionals that share a
    coupling add up, so that along the whole score it is L = Σ kept (1 + (c − 1) ρ)/nm, ρ the share of a variance that
    the other variables leave unexplained. A noisy H⁻¹ is too large in turn, by about 4 P/nm. Measured on the squares of
    couplings that are zero (n = 50, pairs and triplets, m = 2000 … 10⁴, kept = 0.002 … 1): within 2 %.

    Parameters
    ----------
    curvature : (n,) ∂²Q/∂h_i².
    done : how often P/nm has been accounted for already.
    """
    unexplained = float(np.mean(np.minimum(curvature / composite.rows.variance, 1.0)))
    rows = composite.n_features * composite.rows.n_samples / stride
    leverage = float(kept @ (1.0 - done + (count - 1.0) * unexplained)) / rows
    noise = 4.0 * float(kept.mean() * kept.sum()) / rows * (1.0 - 1.0 / stride)
    return float(np.exp(-2.0 * leverage)) * (1.0 + noise)


def _inverse(H: np.ndarray) -> np.ndarray:
    """H⁻¹; directions without curvature get the least that makes H, scaled to a unit diagonal, definite."""
    scale = 1.0 / np.sqrt(np.maximum(np.diag(H), 1e-16 * np.diag(H).max()))
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


def _probed(objective: Objective, theta: np.ndarray, count: np.ndarray, random_state: Any) -> Variances:
    """Variances of independent variables, corrected for each site and order by draws.

    y = H⁻¹ Σ_rows ±w s has the sampling covariance, y = H⁻¹ √(ridge · c/M) ξ what the prior adds to it. A few draws say
    nothing of one entry, but of a factor for each site and order, shared by many entries, they say enough: the factors
    are those of Var(θ_μ) ≈ base_μ c_|μ| Π_{i∈μ} r_i that fit all y² best.
    """
    composite, M = objective.composite, objective.composite.rows.n_samples
    H, ridge = Curvature(objective, theta), objective.ridge
    base = H.inverse_diagonal(count / M)
    n_probes = int(np.clip(np.ceil(_SITE_DRAWS * composite.n_features / len(composite.map.site)), 2, 12))
    rng = np.random.default_rng(random_state if isinstance(random_state, (int, np.integer)) else 0)

    def solve(b: np.ndarray) -> np.ndarray:
        # A prior makes some directions stiff, and soft ones must be right before these can be.
        return conjugate_gradients(H.product, b, H.precondition, 0.01 if ridge.any() else 0.05, 100)

    def variances(draws: np.ndarray, base: np.ndarray) -> np.ndarray:
        return base * _factors(composite, np.mean(draws**2, axis=0) / base, n_probes)

    def by_order(values: np.ndarray) -> np.ndarray:
        """Means over each order: what single entries say is noise."""
        for where in composite.order_slices:
            values[where] = values[where].mean()
        return values

    alpha, ones = ridge * M / count, np.ones(len(base))
    share = np.clip(alpha * base, 1e-12, 1.0 - 1e-12)  # of the prior, for independent variables
    y = np.array([solve(_score_probe(H, theta, rng)) for _ in range(n_probes)])
    if not ridge.any():
        y /= np.sqrt(_same_rows(composite, H.means[0], composite.stride, count, ones))
        sampling = variances(y, base)
        return Variances(sampling, sampling, ones, sampling, theta / np.sqrt(sampling))
    # Couplings g drawn from the prior, and what a fit makes of them: u = H⁻¹ (H − ridge) g, where g − u is
    # H⁻¹ √(ridge · c/M) ξ. So the little is seen well that is left of an order which the prior all but switches off.
    given = np.divide(1.0, np.sqrt(alpha), out=np.zeros_like(alpha), where=alpha > 0)
    g = given * rng.choice([-1.0, 1.0], (n_probes, len(given)))
    u = np.array([solve(H.product(each) - ridge * each) for each in g])
    determined = np.where(alpha > 0, np.clip(by_order(alpha * np.mean(g * u, axis=0)), 0.0, 1.0), 1.0)
    y /= np.sqrt(_same_rows(composite, H.means[0], composite.stride, count, determined))
    sampling = variances(y, base * (1.0 - share))
    posterior = sampling + variances(g - u, base * share)
    kept = np.where(alpha > 0, by_order(alpha * np.mean(u**2, axis=0)), 1.0)

    # One Newton step without the prior, by the approximate inverse, of the estimate and of its draws.
    def free(x: np.ndarray) -> np.ndarray:
        return x + H.precondition(ridge * x, prior=False)

    errors = np.sqrt(variances(np.array([free(each) for each in y]), H.inverse_diagonal(count / M, prior=False)))
    return Variances(posterior, sampling, kept, by_order(np.mean(y**2, axis=0)), free(theta) / errors)


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
