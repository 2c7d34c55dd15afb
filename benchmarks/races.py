"""Races: the same answer by us and by a peer, in one thread, turn by turn; equality first, then times.

Every function makes a ``Race``: two callables, and how far apart their answers are. A peer is a package, or the plain
way to the same numbers with NumPy, SciPy, scikit-learn or statsmodels.
"""

from __future__ import annotations

import contextlib
import io
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from scipy import optimize

from hbm_learn import HBM, BoltzmannMachine, Moments, datasets, infer, invert, sample
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import pseudolikelihood, sandwich
from hbm_learn.inversion.composite.objective import Objective
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior


@dataclass(frozen=True)
class Race:
    """What is raced.

    Attributes
    ----------
    what, peer : str
        The task and its size; who the peer is.
    ours, theirs : callable
        Return the answer, as an array.
    within : float
        The answers may differ so much, relative to the largest entry.
    why : str
        Why they differ at all.
    bare : callable or None
        What of ours makes the answer alone, where ``ours`` also gives errors and checks that the peer does not.
    """

    what: str
    peer: str
    ours: Callable[[], np.ndarray]
    theirs: Callable[[], np.ndarray]
    within: float = 1e-8
    why: str = "rounding"
    bare: Callable[[], np.ndarray] | None = None


def run(race: Race, repeats: int) -> dict[str, Any]:
    """Equality, then the best time of each in turns; processor seconds of this process."""
    quiet = contextlib.redirect_stdout(io.StringIO())
    with quiet, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mine, other = race.ours(), race.theirs()  # also compiles
        gap = float(np.abs(mine - other).max() / np.abs(other).max())
        if not gap <= race.within:
            raise AssertionError(f"{race.what}: the answers differ by {gap:.1e}, and {race.within:.0e} is allowed.")
        contestants = [race.ours, race.theirs, race.bare or race.ours]
        times = np.array([[_seconds(each) for each in contestants] for _ in range(repeats)]).min(axis=0)
    return {
        "task": race.what,
        "peer": race.peer,
        "ours": float(times[0]),
        "theirs": float(times[1]),
        "alone": float(times[2]),
        "ratio": float(times[1] / times[0]),
        "ratio alone": float(times[1] / times[2]),
        "difference": gap,
        "why": race.why,
    }


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


# ---------------------------------------------------------------------- moments and enumeration


def moments() -> Race:
    """All moments up to order 3 of ±1 data, beside products of blocks of rows."""
    X = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), size=(50_000, 100))

    def blocked() -> np.ndarray:
        n, total = X.shape[1], np.zeros((X.shape[1],) * 3)
        for lo in range(0, len(X), 4096):
            part = X[lo : lo + 4096].astype(np.float64)
            for i in range(n):
                total[i, i:, i:] += part[:, i:].T @ (part[:, i, None] * part[:, i:])
        return _distinct(total / len(X))

    def ours() -> np.ndarray:
        stats = Moments.from_samples(X, order=3, alphabet=(-1, 1))
        return stats.raw(np.stack(_triples(X.shape[1]), axis=1))

    return Race("moments, order 3, n = 100, M = 5e4, ±1", "blocked BLAS", ours, blocked)


def _triples(n: int) -> tuple[np.ndarray, ...]:
    i, j, k = np.meshgrid(*[np.arange(n)] * 3, indexing="ij")
    keep = (i < j) & (j < k)
    return i[keep], j[keep], k[keep]


def _distinct(T: np.ndarray) -> np.ndarray:
    return T[_triples(len(T))]


def enumeration() -> Race:
    """ln Z and all moments of a model of order 3, beside a matrix of features over all states."""
    n = 14
    model = datasets.make_random(n, {2: 0.3 / np.sqrt(n), 3: 0.3 / n}, random_state=0)
    theta = np.concatenate([model.h, model.weights])

    def features() -> np.ndarray:
        X = 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1) - 1.0
        F = np.concatenate([X, *(np.prod(X[:, model.columns.block(k)], axis=2) for k in (2, 3))], axis=1)
        exponent = F @ theta
        p = np.exp(exponent - exponent.max())
        return (p / p.sum()) @ F

    def ours() -> np.ndarray:
        found = infer(model, "exact")
        return np.concatenate([found.m, found.interaction_moments])

    return Race(f"exact inference, order 3, n = {n}, ±1", "matrix of features", ours, features, 1e-9)


# ---------------------------------------------------------------------- maximum likelihood


def loglinear() -> Race:
    """Maximum likelihood of pairs and triplets, estimates and errors, beside a Poisson regression on all cells."""
    import statsmodels.api as sm

    n = 11
    model = datasets.make_random(n, {2: 0.3 / np.sqrt(n), 3: 0.3 / n}, random_state=0)
    X = np.asarray(sample(model, 20_000, random_state=1))
    cells = 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1) - 1.0
    F = np.concatenate([cells, *(np.prod(cells[:, model.columns.block(k)], axis=2) for k in (2, 3))], axis=1)
    counts = np.bincount(((X > 0) * (1 << np.arange(n))).sum(axis=1), minlength=2**n)

    def theirs() -> np.ndarray:
        fit = sm.GLM(counts, sm.add_constant(F), family=sm.families.Poisson()).fit(tol=1e-12)
        return np.concatenate([fit.params[1 + n :], fit.bse[1 + n :]])

    def ours() -> np.ndarray:
        est = HBM(order=3, alpha=0.0, refine="likelihood").fit(X)
        return np.concatenate([est.weights_, est.standard_errors_])

    def alone() -> np.ndarray:
        found = invert(Moments.from_samples(X, order=3), method="likelihood", alpha=0.0)
        return np.concatenate([found.model.weights, found.standard_errors])

    what = f"likelihood and errors, order 3, n = {n}, M = 2e4, ±1"
    return Race(what, "statsmodels GLM", ours, theirs, 1e-6, "tolerance", alone)


# ---------------------------------------------------------------------- pseudolikelihood


def _spins(n: int, M: int) -> tuple[BoltzmannMachine, np.ndarray]:
    model = datasets.make_sk(n, 0.3, h_std=0.1, random_state=0)
    return model, np.asarray(sample(model, M, random_state=1))


def by_us(X: np.ndarray, order: int = 2, site: str = "free", **race: Any) -> dict[str, Any]:
    """A whole fit, with errors and the check by samples; and the minimum of the objective alone."""

    def whole() -> np.ndarray:
        est = HBM(order=order, alpha=0.0, refine="pseudolikelihood", site=site, n_jobs=1)
        return est.fit(X).weights_

    def alone() -> np.ndarray:
        samples = Samples.check(X)
        start = invert(Moments.from_samples(samples, order=order), alpha=0.0, site=site).model
        parameters = Parameters(samples.space, start.columns, site, samples.frequencies)
        zero = np.zeros(parameters.n_params)
        nothing = SimpleNamespace(posterior=zero, sampling=zero, kept=zero, noise=zero, overcount=zero, whole=None)
        with mock.patch.object(sandwich, "errors", return_value=nothing):
            return pseudolikelihood.prepare(samples, parameters, n_jobs=1).fit(Prior({2: 0.0, 3: 0.0}), start).weights

    return {"ours": whole, "bare": alone, **race}


_STOPS = "two estimates of each pair averaged, or one joint; each stops at its own tolerance"


def pseudolm() -> Race:
    """Pairs of ±1 data."""
    from joblib import Parallel
    from pyplm.inference.pseudolikelihoodmax import plm

    _, X = _spins(100, 10_000)
    upper = np.triu_indices(100, 1)
    return Race(
        "pairs by pseudolikelihood, n = 100, M = 1e4, ±1",
        "pseudolm",
        theirs=lambda: np.asarray(plm(X, Parallel(n_jobs=1)))[upper],
        **by_us(X, within=0.02, why=_STOPS),
    )


def psyspin_spins() -> Race:
    """Pairs of ±1 data, as ±½ in the peer."""
    from psyspin import generalizedIsing_inference

    _, X = _spins(50, 10_000)
    return Race(
        "pairs by pseudolikelihood, n = 50, M = 1e4, ±1",
        "psyspin",
        theirs=lambda: peer_pairs(generalizedIsing_inference(2, 0.0), X / 2.0) / 4.0,
        **by_us(X, within=0.02, why=_STOPS),
    )


def psyspin_ratings() -> Race:
    """Pairs of ratings 1…5 with an anisotropy each."""
    from psyspin import generalizedBC_inference

    n, rng = 20, np.random.default_rng(0)
    pairs = [(i, (i + 1) % n) for i in range(n)]
    model = BoltzmannMachine(0.2 * rng.normal(size=n), {p: 0.15 for p in pairs}, d=0.4, alphabet=(-2, -1, 0, 1, 2))
    X = np.asarray(sample(model, 5000, random_state=1))
    return Race(
        "pairs by pseudolikelihood, n = 20, M = 5e3, ratings",
        "psyspin",
        theirs=lambda: peer_pairs(generalizedBC_inference(5, 0.0), X.astype(float)),
        **by_us(X, site="quadratic", within=0.02, why=_STOPS),
    )


def peer_pairs(peer: Any, X: np.ndarray) -> np.ndarray:
    J = peer.fit(X, verbose=False)[0]
    return J[np.triu_indices(len(J), 1)]


def nodewise_dense() -> Race:
    """Pairs of ±1 data, beside one logistic regression a column."""
    _, X = _spins(100, 10_000)
    return Race(
        "pairs by pseudolikelihood, n = 100, M = 1e4, ±1",
        "scikit-learn, a column at a time",
        theirs=lambda: nodewise(X.astype(float)) / 2.0,  # log odds are twice the field of a spin
        **by_us(X, within=0.02, why=_STOPS),
    )


def nodewise_sparse() -> Race:
    """Pairs of 0/1 data at rates of a few percent, beside one logistic regression a column."""
    X = _spikes(40, 20_000)
    return Race(
        "pairs by pseudolikelihood, n = 40, M = 2e4, sparse 0/1",
        "scikit-learn, a column at a time",
        theirs=lambda: nodewise(X.astype(float)),
        **by_us(X, within=0.02, why=_STOPS),
    )


def _spikes(n: int, M: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    model = BoltzmannMachine(
        np.log(rng.uniform(0.05, 0.15, n)), {(i, (i + 1) % n): 0.8 for i in range(n)}, alphabet=(0, 1)
    )
    return np.asarray(sample(model, M, random_state=1))


def nodewise(X: np.ndarray) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    n = X.shape[1]
    W = np.zeros((n, n))
    for i in range(n):
        rest = np.arange(n) != i
        fit = LogisticRegression(C=np.inf, solver="newton-cholesky", tol=1e-6).fit(X[:, rest], X[:, i] > 0)
        W[i, rest] = fit.coef_[0]
    return (0.5 * (W + W.T))[np.triu_indices(n, 1)]


def lbfgs_triplets() -> Race:
    """All pairs and triplets, beside scipy's L-BFGS with our own objective and gradient."""
    n, M = 30, 20_000
    model = datasets.make_random(n, {2: 0.3 / np.sqrt(n), 3: 0.3 / n}, random_state=0)
    X = np.asarray(sample(model, M, random_state=1))
    samples = Samples.check(X, (-1, 1))
    parameters = Parameters(samples.space, model.columns, "free", samples.frequencies)

    def theirs() -> np.ndarray:
        composite = pseudolikelihood.prepare(samples, parameters, n_jobs=1).composite
        objective = Objective(composite, np.zeros(composite.n_params))
        found = optimize.minimize(
            objective.value_gradient,
            np.zeros(composite.n_params),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 500},
        )
        return found.x[n:]

    what = f"pairs and triplets by pseudolikelihood, n = {n}, M = 2e4, ±1"
    stops = "each stops at its own tolerance"
    return Race(what, "scipy L-BFGS, same gradient", theirs=theirs, **by_us(X, order=3, within=0.05, why=stops))


RACES: dict[str, Callable[[], Race]] = {
    "moments": moments,
    "enumeration": enumeration,
    "loglinear": loglinear,
    "pseudolm": pseudolm,
    "psyspin-spins": psyspin_spins,
    "psyspin-ratings": psyspin_ratings,
    "nodewise-dense": nodewise_dense,
    "nodewise-sparse": nodewise_sparse,
    "lbfgs-triplets": lbfgs_triplets,
}
