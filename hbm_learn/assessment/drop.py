"""Drop tests at one node: the null without some of its couplings, reached from the maximum that has them.

    q = H⁻¹E_J,   d₀ = q q_J⁻¹,   θ₀ = θ − d₀ θ_J,   Q = H⁻¹ − d₀ qᵀ
    θ₁ = θ₀ + Q·gradient(θ₀),   d₁ = d₀ − Q H(θ₁) d₀

J are the parameters of a term. One chord step in θ₀ and in the direction d of its efficient score is as good as a fit
without the term (within .03 in z) where the step gains less than a tenth of a nat, however large Wald's z. Further ones
may diverge where one is not enough: there they are taken for all terms of the node together while each takes most of
what is left, and the node is fitted again where one does not. Rare values that are separated have couplings far out, at
a Wald |z| of 3.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg

from hbm_learn.assessment.nodes import Node
from hbm_learn.assessment.saddlepoint import SINGULAR, direction, tail

# Gain of the chord step, in nats, from which the null is fitted anew.
GAIN = 0.1
# Of what is left in nats, so much may be left after a step; how little is nothing; and what may be left of a variance.
_SHRINKS, _ENOUGH, _DIRECTION, _MAX_STEPS = 0.3, 1e-9, 1e-8, 30
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
    here = _on_rows(node, node.theta[None])[0]
    for lo in range(0, len(params), step):
        part = np.arange(lo, min(lo + step, len(params)))
        near, eta, h = _chord(node, [params[t] for t in part], [nulls[t] for t in part], here)
        far += part[~near].tolist()
        if near.any():
            these = part[near]
            root[these], df[these] = _statistics(node, [params[t] for t in these], eta, h)
    again = far
    for lo in range(0, len(far), step):
        these = np.array(far[lo : lo + step])
        there, eta, h = _steps(node, [params[t] for t in these], [nulls[t] for t in these])
        if there.any():
            root[these[there]], df[these[there]] = _statistics(node, [params[t] for t in these[there]], eta, h)
        again = [t for t in again if t not in set(these[there].tolist())]
    for t in again:
        eta, h = _refit(node, params[t], nulls[t][0])
        found = _statistics(node, [params[t]], eta, h)
        root[t : t + 1], df[t : t + 1] = found
    return root, df


def _on_rows(node: Node, theta: np.ndarray) -> np.ndarray:
    """(B, o, R) fields of parameters (B, P)."""
    out = np.empty((len(theta), len(node.outputs), len(node.data.weights)))
    for where in node.data.chunks():
        out[:, :, where] = node.fields(theta, node.design(where))
    return out


def _rank_one(node: Node, J: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """θ₀ (P,) and d₀ (d, P)."""
    q = node.inverse[:, J]
    D = np.linalg.solve(q[J], q.T)
    theta = node.theta - node.theta[J] @ D
    theta[J] = 0.0
    return theta, D


def _chord(
    node: Node, params: list[np.ndarray], nulls: list[tuple[np.ndarray, np.ndarray]], here: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Terms for which one chord step is enough (T,); of these the fields η of θ₁ and h of all their d₁ on the rows.

    ``here`` (o, R) are the fields at the maximum: those of θ₀ follow from it and from those of d₀.
    """
    sizes = np.array([len(J) for J in params])
    theta, D = np.stack([theta0 for theta0, _ in nulls]), np.concatenate([D0 for _, D0 in nulls])
    h = _on_rows(node, D)
    moved = np.concatenate([node.theta[J] for J in params])[:, None, None] * h
    single = bool((sizes == 1).all())
    eta = here - (moved if single else np.add.reduceat(moved, np.cumsum(sizes) - sizes, axis=0))
    if node.data.observed is not None:
        h += node.unseen(np.concatenate(params))
    gradient = -node.ridge * theta
    for where in node.data.chunks():
        gradient += node.adjoint(node.residuals(eta[:, :, where], where)[0], node.design(where))
    steps = np.stack([_reduced(node, J, D0, g) for J, (_, D0), g in zip(params, nulls, gradient)])
    near = np.einsum("tp,tp->t", gradient, steps) <= GAIN
    if not near.all():
        eta, h, D, steps = eta[near], h[np.repeat(near, sizes)], D[np.repeat(near, sizes)], steps[near]
    if not near.any():
        return near, eta, h
    term, HD = np.repeat(np.arange(len(eta)), sizes[near]), node.ridge * D
    for where in node.data.chunks():
        Phi = node.design(where)
        eta[:, :, where] += node.fields(steps, Phi)
        at = eta[:, :, where] if single else eta[term, :, where]
        HD += node.adjoint(node.covariance_products(at, h[:, :, where], where), Phi)
    kept = [(params[t], nulls[t][1]) for t in np.flatnonzero(near)]
    parts = np.split(HD, np.cumsum(sizes[near])[:-1])
    h -= _on_rows(node, np.concatenate([_reduced(node, J, D0, x) for (J, D0), x in zip(kept, parts)]))
    return near, eta, h


def _steps(
    node: Node, params: list[np.ndarray], nulls: list[tuple[np.ndarray, np.ndarray]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As ``_chord``, with steps until nothing is left; terms for which each took most of it (T,), and their η and h."""
    theta, left = np.stack([theta0 for theta0, _ in nulls]), np.full(len(params), np.inf)
    there = np.full(len(params), node.data.observed is None)
    open_ = np.flatnonzero(there)
    for _ in range(_MAX_STEPS):
        if not len(open_):
            break
        gradient = node.value_gradient(theta[open_], with_value=False)[1] - node.ridge * theta[open_]
        steps = np.stack([_reduced(node, params[t], nulls[t][1], g) for t, g in zip(open_, gradient)])
        decrement = np.einsum("tp,tp->t", gradient, steps)
        good = decrement <= _SHRINKS * left[open_]
        theta[open_[good]] += steps[good]
        left[open_], there[open_[~good]] = decrement, False
        open_ = open_[good & (decrement > _ENOUGH)]
    there[open_] = False
    mine = np.flatnonzero(there)
    if not len(mine):
        return there, np.empty((0, 0, 0)), np.empty((0, 0, 0))
    eta = _on_rows(node, theta[mine])
    sizes = [len(params[t]) for t in mine]
    term = np.repeat(np.arange(len(mine)), sizes)
    D, every = np.concatenate([nulls[t][1] for t in mine]), slice(0, len(node.data.weights))
    for _ in range(_MAX_STEPS):
        h = _on_rows(node, D)
        HD = node.ridge * D + node.adjoint(node.covariance_products(eta[term], h, every), node.design(every))
        parts = np.split(HD, np.cumsum(sizes)[:-1])
        change = np.concatenate([_reduced(node, params[t], nulls[t][1], x) for t, x in zip(mine, parts)])
        # What is left of the variance d'Hd, which is least at the direction of the efficient score.
        if (np.einsum("bp,bp->b", HD, change) <= _DIRECTION * np.einsum("bp,bp->b", HD, D)).all():
            break
        D = D - change
    else:
        return np.zeros(len(params), dtype=bool), eta[:0], h[:0]
    return there, eta, h


def _reduced(node: Node, J: np.ndarray, D: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Q x for x (P,) or rows of (…, P); zero in J."""
    out = x @ node.inverse
    out = out - out[..., J] @ D
    out[..., J] = 0.0
    return out


def _refit(node: Node, J: np.ndarray, start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The fields η (1, o, R) at the maximum without J, and h (d, o, R) along d there."""
    fixed = np.zeros(len(start), dtype=bool)
    fixed[J] = True
    theta = node.maximise(start, node.H, fixed)[0]
    H = node.hessian(theta)
    D = np.zeros((len(J), len(start)))
    D[:, J] = np.eye(len(J))
    free = np.flatnonzero(~fixed)
    inside = H[np.ix_(free, free)]
    D[:, free] = -linalg.solve(inside, H[np.ix_(free, J)], assume_a="pos").T
    eta, h = _on_rows(node, theta[None]), _on_rows(node, D)
    if node.data.observed is not None:
        # Of what was seen alone the projection is another one.
        h += node.unseen(J)
        cross, at = node.ridge * D, np.broadcast_to(eta, h.shape)
        for where in node.data.chunks():
            cross += node.adjoint(node.covariance_products(at[:, :, where], h[:, :, where], where), node.design(where))
        back = np.zeros_like(D)
        back[:, free] = linalg.solve(inside, cross[:, free].T, assume_a="pos").T
        h -= _on_rows(node, back)
    return eta, h


def _statistics(node: Node, params: list[np.ndarray], eta: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roots of χ² and df at nulls with fields η (T, o, R), along directions of efficient scores h (B, o, R)."""
    ends = np.cumsum([len(J) for J in params])
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
