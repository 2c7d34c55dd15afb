"""The plainest composite likelihoods: one row, one site, one value at a time, from the definition of θ."""

from __future__ import annotations

from typing import Any

import numpy as np
from oracle import ALPHABETS, SPACES, Spec

from hbm_learn import Interactions
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.space import Space
from hbm_learn.terms import all_terms

GAUGES = ("coding", "standard", "uncentred")
KINDS = {name: Spec([values] * 5) for name, values in ALPHABETS.items()} | SPACES


def flat(alpha: float = 0.0, l1_ratio: float = 0.0) -> Prior:
    return Prior(dict.fromkeys(range(2, 6), alpha), l1_ratio)


def in_gauge(space: Space, gauge: str, frequencies: list[np.ndarray]) -> Space:
    return space if gauge == "coding" else space.standard(frequencies, centred=gauge == "standard")


def draw(spec: Spec, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Random rows of values and labels in which every value occurs, some more often than others."""
    space = Space.of(spec.alphabets, len(spec.alphabets), spec.powers)
    codes = np.column_stack([rng.choice(q, n_rows, p=rng.dirichlet(np.full(q, 5.0))) for q in space.sizes])
    codes[: space.sizes.max()] = np.minimum(np.arange(space.sizes.max())[:, None], space.sizes - 1)
    return space.decode(codes.astype(np.uint8))


def check(X: Any, spec: Spec, weights: Any = None) -> Samples:
    return Samples.check(X, spec.alphabets, weights, powers=spec.powers)


def parameters_of(
    samples: Samples, order: int, gauge: str = "coding", site: str = "free", kind: str = "dense", seed: int = 0
) -> Parameters:
    """All sets of columns up to an order, or a few of each order that are not closed under anything."""
    columns = all_terms(order, samples.space)
    if kind == "sparse":
        rng = np.random.default_rng(seed)
        kept = [mu for k in columns.orders for mu in rng.permutation(columns.block(k))[:2].tolist()]
        columns = Interactions.from_tuples(kept, columns.n_features)
    frequencies = samples.frequencies
    return Parameters(in_gauge(samples.space, gauge, frequencies), columns, site, frequencies)


def random_theta(parameters: Parameters, rng: np.random.Generator, strength: float = 0.4) -> np.ndarray:
    """Terms of energy of about ``strength``, whatever the functions."""
    size = np.concatenate([np.abs(O).max(axis=0) for O in parameters.own])
    columns = np.concatenate([np.abs(table).max(axis=0) for table in parameters.space.functions])  # type: ignore[arg-type]
    sets = [np.prod(columns[list(mu)]) for mu in parameters.columns.tuples]
    return strength * rng.normal(size=parameters.n_params) / np.concatenate([size, sets])


def statistics(parameters: Parameters, x: np.ndarray, i: int) -> np.ndarray:
    """(q_i, P) ∂/∂θ of the part of −H that x_i enters, for each value of x_i, the other codes as in the row x."""
    space, sites = parameters.space, parameters.space.site
    out = np.zeros((space.sizes[i], parameters.n_params))
    for a in range(space.sizes[i]):
        for k in range(parameters.own[i].shape[1]):
            out[a, parameters.own_ptr[i] + k] = parameters.own[i][a, k]
        y = x.copy()
        y[i] = a
        for r, mu in enumerate(parameters.columns.tuples):
            if i in sites[list(mu)]:
                factors = [space.functions[sites[c]][y[sites[c]], c - space.column_ptr[sites[c]]] for c in mu]
                out[a, parameters.n_own + r] = np.prod(factors)
    return out


class Brute:
    """S_i(θ) with derivatives of every row: ``losses`` (R, n), ``scores`` (R, n, P), ``hessians`` (R, n, P, P)."""

    def __init__(self, samples: Samples, parameters: Parameters, theta: np.ndarray, loss: str = "pseudolikelihood"):
        codes = np.concatenate([block for block, _ in samples.blocks()]).astype(int)
        n, P = parameters.space.n_features, parameters.n_params
        self.weights = np.ones(len(codes)) if samples.weights is None else samples.weights
        self.w = self.weights / self.weights.sum()
        self.log = loss == "logrise"
        self.codes, self.losses = codes, np.empty((len(codes), n))
        self.scores, self.hessians = np.empty((len(codes), n, P)), np.empty((len(codes), n, P, P))
        one = _conditional if loss == "pseudolikelihood" else _screening
        self.statistics = [[statistics(parameters, x, i) for i in range(n)] for x in codes]
        for row, x in enumerate(codes):
            for i in range(n):
                found = one(self.statistics[row][i], x[i], theta)
                self.losses[row, i], self.scores[row, i], self.hessians[row, i] = found
        self.S = self.w @ self.losses
        self.scale = 1.0 / self.S if self.log else np.ones(n)

    @property
    def value(self) -> float:
        return float(np.log(self.S).sum() if self.log else self.S.sum())

    @property
    def gradient(self) -> np.ndarray:
        return np.einsum("r,i,rip->p", self.w, self.scale, self.scores)

    @property
    def hessian(self) -> np.ndarray:
        out = np.einsum("r,i,ripq->pq", self.w, self.scale, self.hessians)
        if self.log:
            slopes = np.einsum("r,i,rip->ip", self.w, self.scale, self.scores)
            out -= slopes.T @ slopes
        return out


def _conditional(T: np.ndarray, x: int, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """−ln P(x_i | rest) and its derivatives."""
    exponent = T @ theta
    p = np.exp(exponent - exponent.max())
    loss = np.log(p.sum()) + exponent.max() - exponent[x]
    p /= p.sum()
    mean = p @ T
    return loss, mean - T[x], (T - mean).T @ (p[:, None] * (T - mean))


def _screening(T: np.ndarray, x: int, theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """exp of minus the part of −H that x_i enters, less its mean over the values of x_i."""
    g = T[x] - T.mean(axis=0)
    loss = np.exp(-g @ theta)
    return loss, -g * loss, np.outer(g, g) * loss
