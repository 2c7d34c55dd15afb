"""What a model says of one variable given others: scores, conditional probabilities, and missing values.

    P(x_i | rest) ∝ exp(f_i x_i − d_i x_i²/2),   f_i = h_i + F_i(x)

Missing values are summed over exactly while a row's missing part has at most MAX_COMPLETIONS states. Beyond that, the
row's observed values are put into the couplings and the diagonal-consistent equations are solved for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg
from scipy.special import logsumexp

from hbm_learn.inference import infer
from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine

MAX_COMPLETIONS = 4096
# Rows × completions handled at once, so that memory stays bounded.
_BLOCK = 2**20


def log_conditionals(model: BoltzmannMachine, X: np.ndarray) -> np.ndarray:
    """ln P(x_i | rest) of each entry, shape (N, n): log densities on a continuous alphabet."""
    fields = model.local_fields(X)
    exponent = fields * X - 0.5 * model.d * X**2
    return exponent - model.alphabet.site_moments(fields, np.broadcast_to(model.d, fields.shape)).log_z


def conditional_probabilities(model: BoltzmannMachine, X: np.ndarray) -> np.ndarray:
    """P(x_i = value | the row's other observed entries), shape (N, n, q); NaN marks a missing entry of X."""
    out = np.empty((*X.shape, model.alphabet.size))
    missing = np.isnan(X)
    complete = ~missing.any(axis=1)
    if complete.any():
        out[complete] = _softmax(_site_exponents(model, model.local_fields(X[complete])))
    for mask, rows in _patterns(missing, ~complete):
        hidden = np.flatnonzero(mask)
        if model.alphabet.size ** (len(hidden) + 1) <= MAX_COMPLETIONS:
            for i in range(X.shape[1]):
                out[rows, i] = _marginals(model, X[rows], np.union1d(hidden, [i]), i)
        else:
            out[rows] = [_approximate(model, X[row], hidden) for row in rows]
    return out


def fill_missing(model: BoltzmannMachine, X: np.ndarray) -> np.ndarray:
    """X with each NaN replaced by its most probable value given the row's observed entries, shape (N, n)."""
    X = X.copy()
    missing = np.isnan(X)
    for mask, rows in _patterns(missing, missing.any(axis=1)):
        hidden = np.flatnonzero(mask)
        if model.alphabet.kind == "real":
            X[np.ix_(rows, hidden)] = _gaussian_means(model, X[rows], hidden)
        elif model.alphabet.is_finite and model.alphabet.size ** len(hidden) <= MAX_COMPLETIONS:
            best = [_marginals(model, X[rows], hidden, int(i)).argmax(axis=1) for i in hidden]
            X[np.ix_(rows, hidden)] = model.alphabet.nodes[np.stack(best, axis=1)]
        else:
            for row in rows:
                X[row, hidden] = _approximate_modes(model, X[row], hidden)
    return X


def condition(model: BoltzmannMachine, x: np.ndarray, hidden: np.ndarray) -> BoltzmannMachine:
    """The model of the variables ``hidden`` given the other entries of x, which become part of the weights."""
    inside = np.zeros(model.n_features, dtype=bool)
    inside[hidden] = True
    place = np.cumsum(inside) - 1
    h = model.h[hidden].copy()
    couplings: dict[tuple[int, ...], float] = {}
    for mu, weight in zip(model.packed.tuples, model.weights.tolist()):
        kept = tuple(int(place[i]) for i in mu if inside[i])
        if kept:
            for i in mu:
                if not inside[i]:
                    weight *= x[i]
            if len(kept) == 1:
                h[kept[0]] += weight
            else:
                couplings[kept] = couplings.get(kept, 0.0) + weight
    return BoltzmannMachine(h, couplings, model.d[hidden], model.alphabet)


# ---------------------------------------------------------------------- helpers


def _patterns(missing: np.ndarray, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The distinct missing patterns among the selected rows, each with the indices of its rows."""
    where = np.flatnonzero(rows)
    if where.size:
        masks, group = np.unique(missing[where], axis=0, return_inverse=True)
        for g, mask in enumerate(masks):
            yield mask, where[group.ravel() == g]


def _site_exponents(model: BoltzmannMachine, fields: np.ndarray) -> np.ndarray:
    x = model.alphabet.nodes
    return fields[..., None] * x - 0.5 * model.d[:, None] * x**2


def _softmax(exponent: np.ndarray) -> np.ndarray:
    return np.exp(exponent - logsumexp(exponent, axis=-1, keepdims=True))


def _marginals(model: BoltzmannMachine, X: np.ndarray, hidden: np.ndarray, i: int) -> np.ndarray:
    """P(x_i | the entries of each row outside ``hidden``), i ∈ hidden, by summing over all completions; (rows, q)."""
    q, k = model.alphabet.size, len(hidden)
    digits = np.stack(np.unravel_index(np.arange(q**k), (q,) * k), axis=1)
    completions = model.alphabet.nodes[digits]
    touching = _touching(model, hidden)
    out = np.empty((len(X), q))
    step = max(1, _BLOCK // q**k)
    which = digits[:, int(np.searchsorted(hidden, i))]
    for start in range(0, len(X), step):
        block = np.repeat(X[start : start + step], q**k, axis=0)
        block[:, hidden] = np.tile(completions, (len(block) // q**k, 1))
        weight = -touching.energy(block).reshape(-1, q**k)
        out[start : start + step] = np.stack([logsumexp(weight[:, which == a], axis=1) for a in range(q)], axis=1)
    return _softmax(out)


def _touching(model: BoltzmannMachine, hidden: np.ndarray) -> BoltzmannMachine:
    """The part of the energy that depends on the variables ``hidden``."""
    inside = np.zeros(model.n_features, dtype=bool)
    inside[hidden] = True
    blocks, weights = [], []
    for k in model.packed.orders:
        block = model.packed.block(k)
        keep = inside[block].any(axis=1)
        blocks.append(block[keep])
        weights.append(model.weights[model.packed.slice(k)][keep])
    packed = Interactions.from_blocks(blocks, model.n_features)
    flat = np.concatenate(weights) if weights else np.zeros(0)
    return BoltzmannMachine.from_packed(
        np.where(inside, model.h, 0.0), packed, flat, np.where(inside, model.d, 0.0), model.alphabet
    )


def _gaussian_means(model: BoltzmannMachine, X: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Conditional means of a Gaussian: solve P_hh x_h = h_h + J_ho x_o; (rows, hidden)."""
    observed = np.setdiff1d(np.arange(model.n_features), hidden)
    J = model.J
    right = model.h[hidden] + X[:, observed] @ J[np.ix_(observed, hidden)]
    precision = np.diag(model.d[hidden]) - J[np.ix_(hidden, hidden)]
    return linalg.solve(precision, right.T, assume_a="pos").T


def _approximate(model: BoltzmannMachine, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """(n, q): hidden entries by their diagonal-consistent sites, observed ones with the hidden means in the field."""
    part = condition(model, x, hidden)
    result = infer(part, "dc")
    assert result.Lambda is not None
    filled = x.copy()
    filled[hidden] = result.m
    out = _softmax(_site_exponents(model, model.local_fields(filled[None])))[0]
    nodes = model.alphabet.nodes
    b, c = part.h + part.F(result.m) - result.Lambda * result.m, part.d - result.Lambda
    out[hidden] = _softmax(b[:, None] * nodes - 0.5 * c[:, None] * nodes**2)
    return out


def _approximate_modes(model: BoltzmannMachine, x: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    if model.alphabet.is_finite:
        return model.alphabet.nodes[_approximate(model, x, hidden)[hidden].argmax(axis=1)]
    part = condition(model, x, hidden)
    result = infer(part, "dc")
    assert result.Lambda is not None
    b, c = part.h + part.F(result.m) - result.Lambda * result.m, part.d - result.Lambda
    low, high = model.alphabet.bounds
    with np.errstate(divide="ignore", invalid="ignore"):
        vertex = np.clip(np.where(c > 0, b / c, low), low, high)
    candidates = np.stack([np.full_like(b, low), vertex, np.full_like(b, high)])
    exponent = b * candidates - 0.5 * c * candidates**2
    return candidates[exponent.argmax(axis=0), np.arange(len(hidden))]
