"""The closed-form diagonal-consistent inversion: moments → model, to order 4, for variables of any kind.

With P = C⁻¹ over all columns and Y = (φ − m) P, the derivatives of the free energy at distinct sites are only the
couplings:

    W_abc  = Σ P_ai P_bj P_ck κ_ijk
    U_abcd = Σ P_ai P_bj P_ck P_dl κ_ijkl − Σ_{3 pairings} Σ_ef W_abe C_ef W_fcd          (trees removed)
    J_abcd = U_abcd,   J_abc = W_abc − Σ_d J_abcd m_d,   J_ab = −P_ab − Σ_c J_abc m_c − ½ Σ_cd J_abcd m_c m_d
    Λ_i = P_ii − V_i⁻¹,   θ_i(x) = ln p_i(x) − F_i·φ − ½ (φ − m)ᵀ Λ_i (φ − m)

because χ⁻¹ = blockdiag(V⁻¹ + Λ) − A(m) (Eq. susceptibility_I-SusP_higher-order). Exact for Gaussian variables. In the
standard gauge m = 0 and J_ab = −P_ab: that is the effect of a pair, whatever is said of higher orders.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn._kernels.polynomial import hessian
from hbm_learn._threads import blas_for
from hbm_learn._validation import choose
from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.closed_form import errors, precision, sites
from hbm_learn.inversion.closed_form.corrections import LEVELS, Derivatives
from hbm_learn.inversion.closed_form.corrections import corrections as find_corrections
from hbm_learn.inversion.closed_form.learnt import posterior
from hbm_learn.inversion.closed_form.tensors import apply_everywhere, contract, dense
from hbm_learn.inversion.prior import check_alpha, expected_variance, widened_variance
from hbm_learn.inversion.result import InversionResult
from hbm_learn.inversion.shrinkage.expectation import Sites
from hbm_learn.terms import Terms, all_terms, closure

MAX_ORDER = 4
_FEW_COLUMNS = 64


def invert(
    moments: Moments,
    columns: Interactions | None = None,
    alpha: Any = "auto",
    site: str = "free",
    corrections: str = "auto",
    mixtures: bool = True,
) -> InversionResult:
    """The closed form.

    Parameters
    ----------
    moments : Moments
        Of order ≥ that of the interactions; n_samples may be infinite (exact moments).
    columns : Interactions or None
        Which sets of columns to keep; all up to the order of the moments by default. A kept coupling is what it is in
        the whole set; those left out count as zero, and the own weights are chosen so that the diagonal-consistent
        equations of the narrowed model return the frequencies. On the real line the narrowed model is the
        maximum-likelihood one.
    alpha : float, {order: float} or "auto"
        Prior precision of the weights; or learnt, a mixture for the effects of each order (one Gaussian where values
        cannot be listed).
    site : str
        "free" or "quadratic", see ``Parameters``.
    corrections : {"auto", "none", "field", "clusters", "loops"}
        What is added to the equations of the paper, "none", of which "dc" is the inverse. "field": what triplets act
        back with on the own weights, so that "dc2" is the inverse. "auto": and two sites solved exactly, and the second
        order in the couplings, as far as noise and strength of the data let them lower the error. "clusters" and
        "loops", for comparison: three two-valued sites solved exactly, see ``closed_form.corrections``. With several
        functions of a site and a prior of the user's own weights, couplings are not corrected.
    mixtures : bool
        False: a learnt prior is one Gaussian of each order, which is enough for a fit to begin at.

    Notes
    -----
    O(N³) for pairs, O(N⁴) for triplets, O(N⁵) for quadruplets of N columns.
    """
    choose("corrections", corrections, dict.fromkeys(LEVELS))
    space = moments.space
    kept = all_terms(moments.order, space) if columns is None else columns
    # Products this small only lose to a second BLAS thread.
    with blas_for(0) if space.n_columns <= _FEW_COLUMNS else nullcontext():
        found, seen = _found(moments, kept, alpha, corrections, mixtures)
        return sites.finish(found, moments, seen, kept, site, reaction=corrections != "none")


def effects(moments: Moments, columns: Interactions) -> np.ndarray:
    """(p,) effects of sets of columns alone, without a prior: ``invert(moments, columns, 0.0).column_effects``."""
    with blas_for(0) if moments.space.n_columns <= _FEW_COLUMNS else nullcontext():
        found, seen = _found(moments, columns, 0.0, "auto", mixtures=False)
        return sites.effects(found, moments, seen, columns)[0]


def _found(moments: Moments, kept: Interactions, alpha: Any, level: str, mixtures: bool) -> tuple[Couplings, Moments]:
    """The couplings in the gauge that the closed form works in, and the moments there."""
    space = moments.space
    if kept.order > min(moments.order, MAX_ORDER):
        raise ValueError(
            f"the closed form takes interactions up to order {min(moments.order, MAX_ORDER)} here, got {kept.order}: "
            f"compute Moments with order={kept.order} (at most {MAX_ORDER})."
        )
    given = check_alpha(alpha, kept.order)
    # Several functions of a site are told apart in the standard gauge, unless a prior of the user's own weights keeps
    # to the user's; one function alone only needs its scale.
    free = isinstance(given, str) or not any(given.values())
    seen = moments.standard if free and not space.is_scalar else moments
    wanted = kept if seen is moments else closure(kept, space)
    return _couplings(seen, wanted, alpha, level if space.is_scalar or free else "none", mixtures), seen


@dataclass(frozen=True, eq=False)
class Couplings:
    """What the closed form finds in one gauge, over ``columns``.

    Attributes
    ----------
    weights, effects : (p,) arrays
        J in the gauge, and in the standard one.
    variance : (p,) array
        Sampling variance of each coupling by itself, before shrinkage, in the gauge; the mean over a block of several
        functions, so that their basis does not matter.
    spread : (p,) array
        Sampling variance of each derivative of the free energy.
    shrink : (p,) array
        What the prior leaves of each.
    scale : (p,) array
        Π s over the members: an effect is a coupling times this.
    posterior : (p,) array
        Posterior variances of the effects.
    P, noise : (N, N) arrays
        The inverse covariance, and the covariance of the dual variables Y; the same without a prior.
    alpha : dict
        {order: prior precision}.
    notes : list of str
    sites : Sites or None
        With a learnt mixture: the posterior of each effect.
    """

    columns: Interactions
    weights: np.ndarray
    effects: np.ndarray
    variance: np.ndarray
    spread: np.ndarray
    shrink: np.ndarray
    scale: np.ndarray
    posterior: np.ndarray
    P: np.ndarray
    noise: np.ndarray
    alpha: dict[int, float]
    notes: list[str]
    sites: Sites | None = None


def _couplings(moments: Moments, columns: Interactions, alpha: Any, level: str, mixtures: bool) -> Couplings:
    """J, effects and errors from the cumulants of one gauge."""
    m, C, M, space = moments.mean, moments.covariance, moments.n_samples, moments.space
    P, alphas, notes = _precision(moments, alpha, columns.order)
    if space.is_real and len(columns) < len(m) * (len(m) - 1) // 2:
        P = precision.selected_precision(P, columns.block(2))
    learnt = isinstance(alpha, str)
    scale = errors.products(np.sqrt(np.diag(C)), columns)
    noise = P @ C @ P if columns.order > 2 else P  # the covariance of Y = (φ − m) P; P itself without a prior
    derivative, variance, spread = _estimates(moments, P, noise, columns, level)
    shrink = _shrink(columns, alphas, derivative * scale, variance * scale**2, scale, learnt)
    weights, effects = np.zeros(len(columns)), np.zeros(len(columns))
    prior = None
    if learnt and mixtures and space.is_finite and np.isfinite(M) and len(columns):
        # P has its ridge already: without it a pair is what it is over the share that is left of it.
        ridge = np.where(np.arange(len(columns)) < columns.slice(2).stop, shrink, 1.0)
        free = derivative / ridge
        prior = posterior(moments, columns, free * scale, variance * scale**2)
        shrink = np.divide(prior.mean, free * scale, out=shrink, where=free != 0.0)
        derivative = np.where(ridge < 1.0, free * shrink, derivative)
    tensors: dict[int, np.ndarray] = {}
    for k in range(columns.order, 1, -1):
        block, where = columns.block(k), columns.slice(k)
        higher = contract(tensors, k, m) if columns.order > 3 or k > 2 else _slope(columns, weights, m)
        # A learnt prior shrinks the derivative, which is the effect, a given one the weight; P has its ridge already.
        rest, whole = _at(higher, block), derivative[where]
        if k == 2:
            weights[where] = whole - rest
        else:
            weights[where] = whole * shrink[where] - rest if learnt else (whole - rest) * shrink[where]
            if columns.order > 3:
                tensors[k] = dense(block, weights[where], len(m))
        effects[where] = (weights[where] + rest) * scale[where]
    after = (
        _posterior(columns, alphas, shrink, variance, scale, effects, M, learnt) if prior is None else prior.variance
    )
    return Couplings(columns, weights, effects, variance, spread, shrink, scale, after, P, noise, alphas, notes, prior)


def _estimates(
    moments: Moments, P: np.ndarray, noise: np.ndarray, columns: Interactions, level: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(p,) derivatives of the free energy; sampling variances of the couplings, the mean over a block of several
    functions; and of each derivative by itself."""
    M, space, fewer = moments.n_samples, moments.space, errors.rows_for_one(moments, columns)
    derivative, variance, spread = (np.zeros(len(columns)) for _ in range(3))
    raw = _derivatives(moments, P, noise, columns.order, level)
    for k in columns.orders:
        block, where = columns.block(k), columns.slice(k)
        derivative[where] = raw[k][tuple(block.T)]
        spread[where] = errors.permanents(noise, block) / M * fewer[where]
        mine = precision.pair_variances(P, M)[tuple(block.T)] * fewer[where] if k == 2 else spread[where]
        variance[where] = Terms(space, Interactions.from_blocks([block], space.n_columns)).means(mine)
    return derivative, variance, spread


def _shrink(
    columns: Interactions,
    alphas: dict[int, float],
    estimates: np.ndarray,
    variances: np.ndarray,
    scale: np.ndarray,
    learnt: bool,
) -> np.ndarray:
    """(p,) what a Gaussian prior leaves of each, of effects if it is learnt; precisions that are not known are."""
    out = np.ones(len(columns))
    for k in columns.orders:
        where = columns.slice(k)
        if k > 2:
            alphas.setdefault(k, precision.learn_alpha(estimates[where], variances[where]))
        unit2 = 1.0 if learnt else scale[where] ** -2.0
        out[where] = 1.0 / (1.0 + alphas.get(k, 0.0) * unit2 * variances[where])
    return out


def _slope(columns: Interactions, weights: np.ndarray, m: np.ndarray) -> np.ndarray | float:
    """Σ_c J_abc m_c, (N, N), from the triplets alone."""
    block = columns.block(3)
    if not len(block):
        return 0.0
    edges = 3 * np.arange(len(block) + 1)
    return hessian(np.ascontiguousarray(m), np.ascontiguousarray(block).ravel(), edges, weights[columns.slice(3)])


def _at(tensor: np.ndarray | float, block: np.ndarray) -> np.ndarray | float:
    return tensor[tuple(block.T)] if isinstance(tensor, np.ndarray) else tensor


def _posterior(
    columns: Interactions,
    alphas: dict[int, float],
    shrink: np.ndarray,
    variance: np.ndarray,
    scale: np.ndarray,
    effects: np.ndarray,
    M: float,
    learnt: bool,
) -> np.ndarray:
    """(p,) posterior variances of the effects; with a learnt prior they allow for what is uncertain about it."""
    out = shrink * variance * scale**2
    if not learnt or not np.isfinite(M):
        return out
    for k in columns.orders:
        where = columns.slice(k)
        sampling, kept = variance[where] * scale[where] ** 2, shrink[where]
        typical = 1.0 / float(np.mean(1.0 / np.maximum(sampling, 1e-300)))
        found = float(np.sum(effects[where] ** 2 - kept**2 * sampling)) / max(float(np.sum(kept**2)), 1e-300)
        tau2 = expected_variance(max(found, 0.0), typical, where.stop - where.start, M)
        out[where] = widened_variance(out[where], alphas.get(k, 0.0), tau2)
    return out


def _precision(moments: Moments, alpha: Any, order: int) -> tuple[np.ndarray, dict[int, float], list[str]]:
    """P, the prior precisions that are already known, and what to tell the user."""
    C, M, space, names = moments.covariance, moments.n_samples, moments.space, moments.feature_names
    if order < 2:
        return precision.independent(C, space), {}, []
    given = check_alpha(alpha, order)
    if isinstance(given, str):
        P, alpha_pairs = precision.learn_precision(C, M, space.site)
        alphas = {2: alpha_pairs}
    else:
        alphas = given
        P = precision.ridge_precision(C, alphas[2] / M if np.isfinite(M) else 0.0, precision.independent(C, space))
    collinear = sorted({int(space.site[c]) for c in precision.collinear_columns(C)})
    if not collinear:
        return P, alphas, []
    labels = ", ".join(str(i if names is None else names[i]) for i in collinear[:10])
    more = f" and {len(collinear) - 10} more" if len(collinear) > 10 else ""
    note = (
        f"columns {labels}{more} are collinear (or there are fewer samples than columns): their couplings are not "
        "determined by the data and lean on the prior; drop one of them, or give more samples."
    )
    return P, alphas, [note]


def _derivatives(moments: Moments, P: np.ndarray, noise: np.ndarray, order: int, level: str) -> dict[int, np.ndarray]:
    """−P (N, N), W (N, N, N) and U (N, N, N, N) as far as the order asks for them, corrected as the level says."""
    raw: dict[int, np.ndarray] = {2: -P}
    kappa = None
    if order >= 3:
        kappa = moments.cumulant(3)
        W = raw[3] = apply_everywhere(P, kappa)
    if order >= 4:
        tree = np.tensordot(W @ moments.covariance, W, axes=1)
        trees = tree + tree.transpose(0, 2, 1, 3) + tree.transpose(0, 3, 2, 1)
        raw[4] = apply_everywhere(P, moments.cumulant(4)) - trees
    if order < 2 or level in ("none", "field") or moments.space.is_real:
        return raw
    raw[2] = raw[2] + find_corrections(moments, Derivatives(-P, raw.get(3), kappa), noise, level)
    return raw
