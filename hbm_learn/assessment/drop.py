"""Drop tests at one node: the null without some of its couplings, reached from the maximum that has them.

    q = H⁻¹E_J,   d₀ = q q_J⁻¹,   θ₀ = θ − d₀ θ_J,   Q = H⁻¹ − d₀ qᵀ
    θ₁ = θ₀ + Q·gradient(θ₀),   d₁ = d₀ − Q H(θ₁) d₀

J are the parameters of a term. One chord step in θ₀ and in the direction d of its efficient score is as good as a fit
without the term (within .03 in z) where the step gains less than a tenth of a nat, however large Wald's z. Further ones
diverge where one is not enough: there the node is fitted again. Rare values that are separated have couplings far out,
at a Wald |z| of 3.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hbm_learn.assessment.nodes import Node
from hbm_learn.assessment.saddlepoint import SINGULAR, direction, tail

# Gain of the chord step, in nats, from which the null is fitted anew.
GAIN = 0.1
# Entries of the arrays over rows that a block of candidates makes.
_ENTRIES = 2**20


def drop_at(node: Node, params: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Roots of χ² and df of drop tests.

    Parameters
    ----------
    node : Node
        Fitted.
    params : list of arrays
        For each term its parameters J.
    """
    nulls = [_rank_one(node, J) for J in params]
    root, df = np.zeros(len(params)), np.zeros(len(params), dtype=np.intp)
    far: list[int] = []
    width = max((len(J) for J in params), default=1)
    step = max(1, _ENTRIES // (len(node.outputs) * len(node.data.weights) * width))
    for lo in range(0, len(params), step):
        part = list(range(lo, min(lo + step, len(params))))
        these, steps = _chord_steps(node, params, nulls, part)
        far += [t for t in part if t not in these]
        if these:
            mine = [params[t] for t in these]
            found = _chord(node, mine, [nulls[t] for t in these], steps)
            root[these], df[these] = _statistics(node, mine, *found)
    for t in far:
        theta, D = _refit(node, params[t], nulls[t][0])
        root[t : t + 1], df[t : t + 1] = _statistics(node, [params[t]], [theta], [D])
    return root, df


def _rank_one(node: Node, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """θ₀ (P,) and d₀ (d, P)."""
    q = node.inverse[:, J]
    D = np.linalg.solve(q[J], q.T)
    theta = node.theta - node.theta[J] @ D
    theta[J] = 0.0
    return theta, D


def _chord_steps(
    node: Node, params: list[np.ndarray], nulls: list[tuple[np.ndarray, np.ndarray]], which: list[int]
) -> tuple[list[int], list[np.ndarray]]:
    """Those of some terms for which one chord step is enough, and Q·gradient(θ₀) of each."""
    theta = np.stack([nulls[t][0] for t in which])
    gradient = node.value_gradient(theta, with_value=False)[1] - node.ridge * theta
    steps = [_reduced(node, params[t], nulls[t][1], g) for t, g in zip(which, gradient)]
    enough = [g @ step <= GAIN for g, step in zip(gradient, steps)]
    return [t for t, good in zip(which, enough) if good], [step for step, good in zip(steps, enough) if good]


def _chord(
    node: Node, params: list[np.ndarray], nulls: list[tuple[np.ndarray, np.ndarray]], steps: list[np.ndarray]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """θ₁ and d₁ of several terms at once."""
    theta = [theta0 + step for (theta0, _), step in zip(nulls, steps)]
    sizes = [len(J) for J in params]
    D0 = np.concatenate([D for _, D in nulls])
    HD = np.split(_hessian_products(node, np.repeat(np.stack(theta), sizes, axis=0), D0), np.cumsum(sizes)[:-1])
    return theta, [D - _reduced(node, J, D, each) for J, (_, D), each in zip(params, nulls, HD)]


def _reduced(node: Node, J: np.ndarray, D: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Q x for x (P,) or rows of (…, P); zero in J."""
    out = x @ node.inverse
    out = out - out[..., J] @ D
    out[..., J] = 0.0
    return out


def _hessian_products(node: Node, theta: np.ndarray, D: np.ndarray) -> np.ndarray:
    """(B, P) H(θ_b) d_b, with the ridge."""
    out = node.ridge * D
    for where in node.data.chunks():
        Phi = node.design(where)
        out += node.adjoint(node.covariance_products(node.fields(theta, Phi), node.fields(D, Phi), where), Phi)
    return out


def _refit(node: Node, J: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """θ and d at the maximum without J."""
    fixed = np.zeros(len(start), dtype=bool)
    fixed[J] = True
    theta, H = node.maximise(start, node.H, fixed)
    D = np.zeros((len(J), len(start)))
    D[:, J] = np.eye(len(J))
    free = ~fixed
    D[:, free] = -linalg.solve(H[np.ix_(free, free)], H[np.ix_(free, J)], assume_a="pos").T
    return theta, D


def _statistics(
    node: Node, params: list[np.ndarray], theta: list[np.ndarray], D: list[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Roots of χ² and df at the nulls θ, along directions of efficient scores d."""
    ends = np.cumsum([len(J) for J in params])
    R, o = len(node.data.weights), len(node.outputs)
    eta, h = np.empty((len(params), o, R)), np.empty((ends[-1], o, R))
    thetas, directions = np.stack(theta), np.concatenate(D)
    for where in node.data.chunks():
        Phi = node.design(where)
        eta[:, :, where], h[:, :, where] = node.fields(thetas, Phi), node.fields(directions, Phi)
    before = np.diag(node.H) - node.ridge
    found = [_statistic(node, before[J], eta[t], h[end - len(J) : end]) for t, (J, end) in enumerate(zip(params, ends))]
    root, df = zip(*found)
    return np.array(root), np.array(df)


def _statistic(node: Node, before: np.ndarray, eta: np.ndarray, h: np.ndarray) -> tuple[float, int]:
    """Root of χ² and df of one term: d scores along h (d, o, R), whose variances were ``before`` the projection."""
    if len(h) == 1:
        z, V = tail(node, eta, h[0])
        return (z, 1) if SINGULAR * before[0] < V else (0.0, 0)
    both, every = np.broadcast_to(eta, h.shape), slice(0, len(node.data.weights))
    residual, product = node.residuals(both, every)[0], node.covariance_products(both, h, every)
    S, V = np.einsum("dor,dor->d", residual, h), np.einsum("dor,eor->de", product, h)
    found = direction(S[None], V[None], before[None])
    if not found.doubtful[0] or not found.df[0]:
        return float(np.sqrt(found.chi2[0])), int(found.df[0])
    return tail(node, eta, np.einsum("d,dor->or", found.t[0], h))[0], int(found.df[0])
