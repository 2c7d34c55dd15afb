"""The way of Monte Carlo likelihood to its maximum: steps that neither the chains nor the data forbid.

    d = H⁻¹ (t̄ − ⟨t⟩ − ridge θ),     H = ½ Cov_data(t) + ½ Cov_chains(t) + ridge
    max_x  x·g − K(x) − penalty,     K(x) = ln ⟨exp x·(t − ⟨t⟩)⟩ over chains and, with weight 0.2, data rows,
                                     θ ← θ + Σ_k x_k D_k,   D = (d, the collective directions)

Where Gibbs chains do not yet see a second phase, importance weights from the chains alone would lead into it: the data
rows, in which that phase has its true weight, stand guard in the metric and in K. d comes from one half of the chains
and its length x from the other, so that x falls to zero as the gradient becomes noise. The collective directions (all
own weights, all couplings of an order together, the direction in which the data vary most) are the slow ones: they are
few, and their lengths come from all draws of that half at once. Chains that cross slowly between phases follow θ late,
and are given more sweeps a step while they remember the last one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from hbm_learn import linalg
from hbm_learn._kernels.quadratic import coordinate_descent
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.likelihood.walkers import CHAINS, GROUPS, Walkers, covariance, group_means, project

# Steps at most; sweeps before each; steps between estimates of the chains' covariance; draws for each parameter.
MAX_STEPS, SWEEPS, REFRESH, DRAWS = 150, 5, 6, 2
# Chains that are correlated so much from step to step along a collective direction follow θ late, and θ goes to and fro
# about the maximum: then sweeps grow by this factor, up to so many.
LATE, SLOWER, MAX_SWEEPS = 0.8, 2, 80
# A step may gain so many nats, and must leave this share of the importance weights effective.
MAX_GAIN, MIN_WEIGHTS = 0.2, 0.5
# The weight of the data rows beside the chains in K.
GUARD = 0.2
# Arrived: for so many steps the gradient was at most so much noise, collective directions within so many errors.
PATIENCE, NOISE, ERRORS = 3, 2.0, 2.5
# Sweeps after which chains from data rows and from elsewhere must agree, for a start to be believed.
TRIAL = 100


@dataclass(frozen=True, eq=False)
class Guard:
    """What the data say beyond t̄: rows (or draws without couplings, if there are none) and Cov(t) over them.

    Attributes
    ----------
    rows : (R, n) array
        Codes.
    covariance : (P, P) array
        Of t over the rows.
    collective : (k, P) array
        Directions that move all of θ.
    from_data : bool
        Whether the rows are data.
    """

    rows: np.ndarray
    covariance: np.ndarray
    collective: np.ndarray
    from_data: bool

    @classmethod
    def of(cls, target: Target, rows: np.ndarray, from_data: bool) -> Guard:
        """The guard of some rows; only those of data know of a second phase, and allow collective steps."""
        parameters = target.parameters
        C = covariance(parameters, rows)[1]
        none = np.zeros((0, parameters.n_params))
        use = from_data and not target.lasso.any() and len(parameters.columns) > 0
        return cls(rows, C, _collective(target, C) if use else none, from_data)


def _collective(target: Target, C: np.ndarray) -> np.ndarray:
    """(k, P) all own parameters of columns, all couplings of each order, and the leading eigenvector of t, each t in
    units of its standard deviation."""
    parameters, columns = target.parameters, target.parameters.columns
    scale = 1.0 / np.sqrt(np.maximum(np.diag(C), 1e-12 * max(float(np.diag(C).max()), 1e-300)))
    out = np.zeros((2 + len(columns.orders), parameters.n_params))
    out[0, parameters.column_params] = 1.0
    for k, row in zip(columns.orders, out[1:]):
        where = columns.slice(k)
        row[parameters.n_own + where.start : parameters.n_own + where.stop] = 1.0
    v = out[:-1].sum(axis=0)
    for _ in range(30):
        v = scale * (C @ (scale * v))
        v /= np.linalg.norm(v)
    out[-1] = v
    return out * scale


def believable(target: Target, walkers: Walkers, start: np.ndarray, guard: Guard) -> bool:
    """Whether chains at ``start`` forget where they began, and tell moments nearer the data's than independence does.

    A model with a false phase fails the first: chains from data rows and chains from elsewhere stay apart.
    """
    groups = walkers.measure(start, 2, TRIAL, SWEEPS).groups
    far = group_means(target.parameters, walkers.chains.states())
    if not np.isfinite(groups).all() or not np.isfinite(far).all():
        return False
    scale = 1.0 / np.sqrt(np.maximum(np.diag(guard.covariance), 1e-300))
    look = np.vstack([guard.collective, np.diag(scale)[: target.parameters.n_own]])
    one, two = groups[::2] @ look.T, groups[1::2] @ look.T
    error = np.sqrt((one.var(axis=0, ddof=1) + two.var(axis=0, ddof=1)) / len(one))
    gap = np.abs(one.mean(axis=0) - two.mean(axis=0))
    if (gap > 5.0 * error + 1e-12).any():
        return False
    distance = [np.abs(scale * (target.t - m)).max() for m in (groups.mean(axis=0), _independent_means(target))]
    return bool(distance[0] < distance[1])


def _independent_means(target: Target) -> np.ndarray:
    """⟨t⟩ of independent variables with the data's frequencies."""
    parameters, t = target.parameters, target.t.copy()
    means = t[parameters.column_params]
    for k in parameters.columns.orders:
        where = parameters.columns.slice(k)
        t[parameters.n_own + where.start : parameters.n_own + where.stop] = means[parameters.columns.block(k)].prod(1)
    return t


def approach(
    target: Target, walkers: Walkers, theta: np.ndarray, guard: Guard, verbose: int = 0
) -> tuple[np.ndarray, int, bool]:
    """θ where the gradient is all noise, the number of steps, and whether it got there."""
    P, calm, sweeps = len(theta), 0, SWEEPS
    before = project(target.parameters, walkers.chains.states(), guard.collective)
    n_draws = max(1, ceil(DRAWS * P / CHAINS))
    side = np.arange(CHAINS) // (CHAINS // GROUPS) % 4 < 2  # half of the chains from data, half of those from elsewhere
    for step in range(MAX_STEPS):
        codes = walkers.draw(theta, n_draws, 0, sweeps)
        if step % REFRESH == 0:
            H = _metric(target, guard, codes.reshape(-1, codes.shape[2]))
            factored = linalg.factor(H)
        groups = np.mean([group_means(target.parameters, draw) for draw in codes], axis=0)
        excess, worst = _excess(target, theta, groups, factored, guard)
        now = project(target.parameters, codes[-1], guard.collective)
        if memory(before, now) > LATE:
            sweeps = min(SLOWER * sweeps, MAX_SWEEPS)
        before = now
        if verbose:
            said = f"gradient {excess:.3g} times its noise, collective {worst:.2g} errors"
            print(f"approach {step}: {said}; {sweeps} sweeps", flush=True)
        calm = calm + 1 if excess < NOISE and worst < ERRORS else 0
        if calm == PATIENCE:
            return theta, step, True
        lead = side if step % 2 else ~side
        g = target.t - groups[lead[:: CHAINS // GROUPS]].mean(axis=0) - target.ridge * theta
        natural = maximum(H, g + H @ theta, target.lasso, theta, factored) - theta
        directions = np.vstack([natural, guard.collective])
        g = target.t - groups[~lead[:: CHAINS // GROUPS]].mean(axis=0) - target.ridge * theta
        x = lengths(target, directions, g, codes[:, ~lead].reshape(-1, codes.shape[2]), guard)
        theta = theta + x @ directions
    return theta, MAX_STEPS, False


def memory(before: np.ndarray, now: np.ndarray) -> float:
    """The largest correlation over chains between two steps of them along some directions (k, CHAINS); 0 of none."""
    x, y = (s - s.mean(axis=1, keepdims=True) for s in (before, now))
    scale = np.sqrt((x**2).sum(axis=1) * (y**2).sum(axis=1))
    rho = np.divide((x * y).sum(axis=1), scale, out=np.zeros(len(scale)), where=scale > 0)
    return float(rho.max(initial=0.0))


def maximum(H: np.ndarray, b: np.ndarray, lasso: np.ndarray, theta: np.ndarray, factored: linalg.Factor) -> np.ndarray:
    """argmax_θ b·θ − ½ θ'Hθ − Σ lasso |θ|."""
    if not lasso.any():
        return linalg.solve(factored, b)
    return theta + coordinate_descent(H, H @ theta - b, theta, lasso, 1e-10, 1000)


def _metric(target: Target, guard: Guard, codes: np.ndarray) -> np.ndarray:
    """½ Cov_data + ½ Cov_chains + ridge, lifted a little where t stands still in both."""
    H = covariance(target.parameters, codes)[1]
    H += guard.covariance
    H *= 0.5
    H[np.diag_indices_from(H)] += target.ridge + 1e-3 * np.diag(H).mean() * (np.diag(H) < 1e-3 * np.diag(H).mean())
    H[np.diag_indices_from(H)] *= 1.0 + 1e-3
    return H


def _excess(
    target: Target, theta: np.ndarray, groups: np.ndarray, factored: linalg.Factor, guard: Guard
) -> tuple[float, float]:
    """g'H⁻¹g over its expectation from Monte Carlo noise, and the largest |gradient| of a collective direction in
    standard errors of chains and data."""
    spread = (groups - groups.mean(axis=0))[::4]  # a few tell: each has P of them
    g = target.t - groups.mean(axis=0) - target.ridge * theta
    if target.lasso.any():  # what the ℓ1 penalty holds is no gradient
        g = np.where(
            theta == 0.0, np.sign(g) * np.maximum(np.abs(g) - target.lasso, 0.0), g - target.lasso * np.sign(theta)
        )
    white = np.array([linalg.solve(factored, row) for row in spread])
    noise = float((white * spread).sum()) / (len(spread) * (len(groups) - 1))
    size = float(g @ linalg.solve(factored, g))
    directions = guard.collective
    if not len(directions):
        return size / max(noise, 1e-300), 0.0
    along = groups @ directions.T
    error2 = along.var(axis=0, ddof=1) / len(groups)
    if np.isfinite(target.n_samples):
        error2 = error2 + np.einsum("kp,pq,kq->k", directions, guard.covariance, directions) / target.n_samples
    return size / max(noise, 1e-300), float(np.max(np.abs(directions @ g) / np.sqrt(np.maximum(error2, 1e-300))))


def lengths(
    target: Target, directions: np.ndarray, gradient: np.ndarray, codes: np.ndarray, guard: Guard
) -> np.ndarray:
    """(k,) x that maximises x·g − K(x) − penalty, within the limits of a step, by a damped Newton method.

    Parameters
    ----------
    target : Target
    directions : (k, P) array
    gradient : (P,) array
        Of L, without its ℓ1 part.
    codes : (rows, n) array
        Draws of the chains.
    guard : Guard
    """
    parameters, g = target.parameters, directions @ gradient
    seen, known = project(parameters, codes, directions), project(parameters, guard.rows[: CHAINS // 2], directions)
    t = np.hstack([seen, known])
    share = np.repeat([(1.0 - GUARD) / seen.shape[1], GUARD / known.shape[1]], [seen.shape[1], known.shape[1]])
    t -= (t @ share)[:, None]
    R = (directions * target.ridge) @ directions.T
    x, value, w = np.zeros(len(directions)), 0.0, share
    for _ in range(10):
        mean = t @ w
        curvature = (t * w) @ t.T - np.outer(mean, mean) + R
        curvature[np.diag_indices_from(curvature)] *= 1.0 + 1e-9
        slope = g - mean - R @ x
        step = linalg.solve(linalg.factor(curvature, 1e-12), slope)
        if step @ slope < 1e-8:
            break
        length = 1.0
        while length > 1e-4:
            trial, weights, effective = _gain(x + length * step, g, t, share, R)
            if trial >= value and trial <= MAX_GAIN and effective >= MIN_WEIGHTS:
                break
            length *= 0.5
        else:
            break
        x, value, w = x + length * step, trial, weights
    return x if not target.lasso.any() else np.clip(x, 0.0, 1.0)


def _gain(
    x: np.ndarray, g: np.ndarray, t: np.ndarray, share: np.ndarray, R: np.ndarray
) -> tuple[float, np.ndarray, float]:
    """x·g − K(x) − ½ x'Rx, the importance weights, and the share of them that is effective."""
    exponent = x @ t
    top = float(exponent.max())
    w = share * np.exp(exponent - top)
    total = float(w.sum())
    w /= total
    effective = 1.0 / float((w**2 / share).sum())
    return float(x @ g - 0.5 * x @ R @ x) - top - np.log(total), w, effective
