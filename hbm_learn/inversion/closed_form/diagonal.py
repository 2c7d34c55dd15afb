"""The closed-form diagonal-consistent inversion: moments → model, to order 4, on any alphabet.

With P = C⁻¹ and Y = (x − m) P, the derivatives of the free energy at distinct sites are only the couplings:

    W_abc  = Σ P_ai P_bj P_ck κ_ijk
    U_abcd = Σ P_ai P_bj P_ck P_dl κ_ijkl − Σ_{3 pairings} Σ_ef W_abe C_ef W_fcd          (trees removed)
    J_abcd = U_abcd,   J_abc = W_abc − Σ_d J_abcd m_d,   J_ab = −P_ab − Σ_c J_abc m_c − ½ Σ_cd J_abcd m_c m_d
    Λ_a = P_aa − 1/V_a,   (b, c) = site inversion of (m, v),   h = b − F(m) + Λ m,   d = c + Λ

because χ⁻¹ = diag(1/V + Λ) − A(m) (Eq. susceptibility_I-SusP_higher-order). Exact for Gaussian variables.
"""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np

from hbm_learn.data.moments import Moments
from hbm_learn.inference.adaptive_tap import solve_inner
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.closed_form import precision as covariance
from hbm_learn.inversion.prior import check_alpha, widened
from hbm_learn.inversion.result import InversionResult
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Alphabet

MAX_ORDER = 4


def invert(
    moments: Moments, interactions: Interactions | None = None, alpha: Any = "auto", corrections: bool = False
) -> InversionResult:
    """The closed form.

    Parameters
    ----------
    moments : Moments of order ≥ that of the interactions; n_samples may be infinite (exact moments).
    interactions : which J_μ to keep; all up to the order of the moments by default. A kept coupling is what it is in
        the whole set; those left out count as zero, and h, d are chosen so that the diagonal-consistent equations of
        the narrowed model return m and v. On the real line the narrowed model is the maximum-likelihood one.
    alpha : prior precision of the couplings: a number, {order: number}, or "auto" (learnt, one for each order).
    corrections : add the second-order Plefka and the two-spin terms (see ``correct_pairs``) to the pair couplings.
        They reduce the bias, but the diagonal-consistent equations then no longer return the covariances.

    Cost: O(n³) for pairs, O(n⁴) for triplets, O(n⁵) for quadruplets.
    """
    kept = Interactions.upto(moments.order, moments.n_features) if interactions is None else interactions
    if kept.order > min(moments.order, MAX_ORDER):
        raise ValueError(
            f"the closed form takes interactions up to order {min(moments.order, MAX_ORDER)} here, got {kept.order}: "
            f"compute Moments with order={kept.order} (at most {MAX_ORDER})."
        )
    m, C, M = moments.mean, moments.covariance, moments.n_samples
    V = np.diag(C).copy()
    P, alphas, notes = _precision(C, M, alpha, kept.order, moments.feature_names)
    if moments.alphabet.kind == "real" and len(kept) < len(m) * (len(m) - 1) // 2:
        P = covariance.selected_precision(P, kept.block(2))

    tensors: dict[int, np.ndarray] = {}
    variances = {2: covariance.pair_variances(P, M)[tuple(kept.block(2).T)]}
    weights, shrink = np.zeros(len(kept)), np.ones(len(kept))
    raw = _whitened(moments, P, kept.order)
    noise = P @ C @ P if kept.order > 2 else P  # the covariance of Y = (x − m) P; P itself without a prior
    for k in range(kept.order, 2, -1):
        block, where = kept.block(k), kept.slice(k)
        variances[k] = _permanents(noise, block) / M
        estimate = (raw[k] - _contract(tensors, k, m))[tuple(block.T)]
        alphas.setdefault(k, covariance.learn_alpha(estimate, variances[k]))
        shrink[where] = 1.0 / (1.0 + alphas[k] * variances[k])
        weights[where] = estimate * shrink[where]
        tensors[k] = _dense(block, weights[where], len(m))
    pairs = kept.block(2)
    J = -P - _contract(tensors, 2, m)
    if corrections:
        J += correct_pairs(tensors.get(3), m, C, moments.alphabet)
    weights[kept.slice(2)] = J[tuple(pairs.T)]
    shrink[kept.slice(2)] = 1.0 / (1.0 + alphas.get(2, 0.0) * variances[2])

    model = _with_sites(
        BoltzmannMachine.from_packed(np.zeros_like(m), kept, weights, 0.0, moments.alphabet), moments, P
    )
    posterior, sampling = _errors(variances, shrink, kept, P, m, M)
    result = InversionResult(
        method="diagonal",
        model=model,
        standard_errors=posterior,
        sampling_errors=sampling,
        kept=shrink**2,
        noise=sampling**2,
        h_standard_errors=_field_errors(P, m, V, M, moments.alphabet, kept.order),
        alpha={k: float(alphas[k]) for k in kept.orders},
        notes=notes,
    )
    return widened(result, M) if isinstance(alpha, str) and np.isfinite(M) else result


def _precision(
    C: np.ndarray, M: float, alpha: Any, order: int, names: list[str] | None
) -> tuple[np.ndarray, dict[int, float], list[str]]:
    """P, the prior precisions that are already known, and what to tell the user."""
    if order < 2:
        return np.diag(1.0 / np.diag(C)), {}, []
    given = check_alpha(alpha, order)
    if isinstance(given, str):
        P, alpha_pairs = covariance.learn_precision(C, M)
        alphas = {2: alpha_pairs}
    else:
        alphas = given
        P = covariance.ridge_precision(C, alphas[2] / M if np.isfinite(M) else 0.0)
    collinear = covariance.collinear_columns(C)
    if not collinear:
        return P, alphas, []
    labels = ", ".join(str(i if names is None else names[i]) for i in collinear[:10])
    more = f" and {len(collinear) - 10} more" if len(collinear) > 10 else ""
    note = (
        f"columns {labels}{more} are collinear (or there are fewer samples than columns): their couplings are not "
        "determined by the data and lean on the prior; drop one of them, or give more samples."
    )
    return P, alphas, [note]


def _whitened(moments: Moments, P: np.ndarray, order: int) -> dict[int, np.ndarray]:
    """W (n, n, n) and U (n, n, n, n) as far as the order asks for them."""
    raw: dict[int, np.ndarray] = {}
    if order >= 3:
        W = raw[3] = _apply_everywhere(P, moments.cumulant(3))
    if order >= 4:
        tree = np.tensordot(W @ moments.covariance, W, axes=1)
        trees = tree + tree.transpose(0, 2, 1, 3) + tree.transpose(0, 3, 2, 1)
        raw[4] = _apply_everywhere(P, moments.cumulant(4)) - trees
    return raw


def _apply_everywhere(P: np.ndarray, K: np.ndarray) -> np.ndarray:
    """Σ P_ai P_bj … K_ij…: one matrix product on each axis; contracting the first and appending it cycles the axes."""
    shape = K.shape
    for _ in shape:
        K = K.reshape(len(P), -1).T @ P
    return K.reshape(shape)


def _contract(tensors: dict[int, np.ndarray], k: int, m: np.ndarray) -> np.ndarray | float:
    """Σ_{j>k} J^(j) m^(j−k)/(j−k)!: what higher orders add to the k-th derivative of the coupling polynomial at m."""
    total: np.ndarray | float = 0.0
    for j, tensor in tensors.items():
        for r in range(1, j - k + 1):
            tensor = tensor @ m / r
        total = total + tensor
    return total


def _dense(block: np.ndarray, weights: np.ndarray, n: int) -> np.ndarray:
    out = np.zeros((n,) * block.shape[1])
    for axes in permutations(range(block.shape[1])):
        out[tuple(block[:, axes].T)] = weights
    return out


def _permanents(P: np.ndarray, block: np.ndarray) -> np.ndarray:
    """perm(P[μ, μ]) for each row μ: M · Var of Π Y_μ for Gaussian Y with covariance P (Isserlis)."""
    if block.shape[1] == 3:  # the six permutations, with six look-ups
        a, b, c = block.T
        aa, bb, cc, ab, bc, ac = P[a, a], P[b, b], P[c, c], P[a, b], P[b, c], P[a, c]
        return aa * (bb * cc + bc**2) + bb * ac**2 + cc * ab**2 + 2 * ab * bc * ac
    total = np.zeros(len(block))
    for image in permutations(range(block.shape[1])):
        term = np.ones(len(block))
        for i, j in enumerate(image):
            term *= P[block[:, i], block[:, j]]
        total += term
    return total


def correct_pairs(J3: np.ndarray | None, m: np.ndarray, C: np.ndarray, alphabet: Alphabet) -> np.ndarray:
    """Known corrections of J_ij, (n, n).

    Second-order Plefka: −Σ_{k<l} J_ikl J_jkl V_k V_l. Two-valued alphabets also: the exact coupling of two variables
    with these moments less its mean-field value (the pair terms of the small-correlation expansion).
    """
    n, V = len(m), np.diag(C)
    total = np.zeros((n, n))
    if J3 is not None:
        half = (J3 * np.sqrt(np.outer(V, V))).reshape(n, -1)
        total -= 0.5 * half @ half.T
    if alphabet.is_binary:
        low, high = alphabet.nodes
        up, width = (m - low) / (high - low), high - low
        both = C / width**2 + np.outer(up, up)
        tiny = 1e-6  # a pair never seen together keeps a finite correction
        p11, p10 = np.maximum(both, tiny), np.maximum(up[:, None] - both, tiny)
        p01, p00 = p10.T, np.maximum(1 - up[:, None] - up + both, tiny)
        mean_field = C / np.maximum(np.outer(V, V) - C**2, tiny * width**4)
        pair = np.log(p11 * p00 / (p10 * p01)) / width**2 - mean_field
        total += np.where(np.eye(n, dtype=bool), 0.0, pair)
    return total


def _with_sites(model: BoltzmannMachine, moments: Moments, P: np.ndarray) -> BoltzmannMachine:
    """Choose h and d so that the diagonal-consistent equations of the model return the moments' m and v."""
    m, v, alphabet = moments.mean, moments.second, model.alphabet
    V = np.diag(moments.covariance)
    Lambda = solve_inner(model.A(m), V, np.diag(P) - 1.0 / V).Lambda
    b, c = alphabet.site_parameters(m, v, names=moments.feature_names)
    h, d = b - model.F(m) + Lambda * m, c + Lambda
    if alphabet.is_binary:  # x² = (x₀ + x₁)x − x₀x₁: d is a field
        h, d = h - 0.5 * d * alphabet.nodes.sum(), np.zeros_like(d)
    return BoltzmannMachine.from_packed(h, model.packed, model.weights, d, alphabet)


def _errors(
    variances: dict[int, np.ndarray], shrink: np.ndarray, kept: Interactions, P: np.ndarray, m: np.ndarray, M: float
) -> tuple[np.ndarray, np.ndarray]:
    """(p,) posterior and sampling standard deviations for Gaussian data: a prior that keeps a share w of an estimate
    multiplies its variance by w and w².

    J_ab also carries the noise of Σ_c J_abc m_c: with u = Σ_{c≠a,b} m_c Y_c it is perm(P[(a, b, u), (a, b, u)])/M.
    """
    variance = np.concatenate([variances[k] for k in kept.orders]) if kept.orders else np.zeros(0)
    posterior, sampling = shrink * variance, shrink**2 * variance
    pairs = kept.slice(2)
    if kept.order >= 3 and pairs.stop:
        a, b = kept.block(2).T
        Pm = P @ m
        au = Pm[a] - P[a, a] * m[a] - P[a, b] * m[b]
        bu = Pm[b] - P[b, a] * m[a] - P[b, b] * m[b]
        uu = m @ Pm - 2 * (m[a] * Pm[a] + m[b] * Pm[b])
        uu += m[a] ** 2 * P[a, a] + m[b] ** 2 * P[b, b] + 2 * m[a] * m[b] * P[a, b]
        aa, bb, ab = P[a, a], P[b, b], P[a, b]
        permanent = aa * bb * uu + aa * bu**2 + bb * au**2 + uu * ab**2 + 2 * ab * au * bu
        kept_share = float(np.mean(shrink[kept.slice(3)]))
        posterior[pairs] += kept_share * permanent / M
        sampling[pairs] += kept_share**2 * permanent / M
    return np.sqrt(posterior), np.sqrt(sampling)


def _field_errors(P: np.ndarray, m: np.ndarray, V: np.ndarray, M: float, alphabet: Alphabet, order: int) -> np.ndarray:
    """(n,) standard deviations of h by the delta method with Gaussian noise.

    h = b(m, v) − m/V + P m + …: the noise of the means enters through P, that of the couplings through m.
    """
    if order < 2 and alphabet.is_binary:
        return np.sqrt(1.0 / (V * M))
    Pm = P @ m
    mPm = float(m @ Pm)
    variance = np.diag(P) * (1.0 + mPm) + Pm**2
    if order >= 3:
        variance = variance + 0.25 * (2 * np.diag(P) * mPm**2 + 4 * Pm**2 * mPm)
    return np.sqrt(variance / M)
