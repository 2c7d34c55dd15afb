"""Given columns: a kinetic Ising model beside node-wise logistic regressions, and groups beside fits of each group.

    python benchmarks/bench_given.py [--spins 30] [--times 3000 30000 100000] [--sets 3] [--repeats 3]

Kinetic: P(s_i(t + 1)) ∝ exp(s_i(t + 1) Σ_j J_ij s_j(t)), three in ten of the J_ij drawn from N(0, 1/n), the others
zero. Of estimates alone: scikit-learn's LogisticRegression for each spin without a penalty (lbfgs), and
pseudolikelihood, minimised from independence. With errors: statsmodels' Logit for each spin with robust ones
(``cov_type="HC0"``), and ``HBM`` with the lagged columns given, without a prior and with a learnt one, which has a
sandwich and a check by samples. Errors of J are root mean squares in units of 1/√n; times are the fewest seconds of
processors among ``repeats``, interleaved, and below them wall times over that of LogisticRegression.

Groups: n items in two groups, every interaction with the group: one exact fit beside two.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import statsmodels.api as sm
from sklearn.linear_model import LogisticRegression

from hbm_learn import HBM, BoltzmannMachine, datasets, sample
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import pseudolikelihood
from hbm_learn.inversion.composite.objective import Objective
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.optimise import newton_cg
from hbm_learn.terms import columns_of


def kinetic_ising(n: int, T: int, seed: Any) -> tuple[np.ndarray, np.ndarray]:
    """(T, n) spins and J (n, n)."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(n, n)) / np.sqrt(n) * (rng.random((n, n)) < 0.3)
    s = np.empty((T, n), dtype=int)
    s[0] = rng.choice([-1, 1], n)
    for t in range(1, T):
        s[t] = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * J @ s[t - 1])), 1, -1)
    return s, J


def estimate(spins: np.ndarray) -> np.ndarray:
    """J without errors or anything else."""
    n = spins.shape[1]
    lags = datasets.lagged(spins)
    samples = Samples.check(lags.data, given=lags.given)
    frequencies, columns = samples.frequencies, columns_of(lags.interactions, samples.space)
    parameters = Parameters(samples.space, columns, "free", frequencies)
    composite = pseudolikelihood.prepare(samples, parameters).composite
    enough = 0.01 * parameters.n_params / len(spins)
    found = newton_cg.minimise(
        Objective(composite, np.zeros(parameters.n_params)),
        parameters.independent(),
        lambda decrement, _: decrement < enough,
        max_iter=50,
        verbose=0,
    )
    i, j = columns.block(2).T
    out = np.zeros((n, n))
    out[i, j - n] = found.theta[parameters.n_own :]
    return out


def by_hbm(spins: np.ndarray, alpha: Any) -> np.ndarray:
    n = spins.shape[1]
    lags = datasets.lagged(spins)
    est = HBM(order=2, given=lags.given, interactions=lags.interactions, alpha=alpha, refine="pseudolikelihood")
    est.fit(lags.data)
    i, j = np.array(est.interactions_).T
    out = np.zeros((n, n))
    out[i, j - n] = est.weights_
    return out


def by_logistic(spins: np.ndarray) -> np.ndarray:
    def one(i: int) -> np.ndarray:
        return 0.5 * LogisticRegression(C=np.inf).fit(spins[:-1], spins[1:, i]).coef_[0]

    return np.array([one(i) for i in range(spins.shape[1])])


def by_logit(spins: np.ndarray) -> np.ndarray:
    """J of logistic regressions with robust errors."""
    past = sm.add_constant(spins[:-1].astype(float))

    def one(i: int) -> np.ndarray:
        found = sm.Logit((spins[1:, i] + 1) // 2, past).fit(disp=0, cov_type="HC0")
        assert np.isfinite(found.bse).all()
        return 0.5 * found.params[1:]

    return np.array([one(i) for i in range(spins.shape[1])])


def timed(work: Callable[[], np.ndarray], repeats: int) -> tuple[np.ndarray, float]:
    """What it finds, and the shortest time."""
    found, best = once(work)
    for _ in range(repeats - 1):
        best = np.minimum(best, once(work)[1])
    return found, float(best[0])


def once(work: Callable[[], np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """What it finds, and seconds by the clock and of processors."""
    start, used = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = work()
    return found, np.array([time.perf_counter() - start, time.process_time() - used])


def kinetic(n: int, times: list[int], n_sets: int, repeats: int) -> None:
    works: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "logistic": by_logistic,
        "estimate": estimate,
        "Logit": by_logit,
        "alpha=0": partial(by_hbm, alpha=0.0),
        "learnt": partial(by_hbm, alpha="auto"),
    }
    by_hbm(kinetic_ising(n, 300, 0)[0], "auto")  # compile
    names = "".join(f"{name:>10}" for name in works)
    print(f"     T  error of J{names}\n{'':8}processor s{names}\n{'':8}ratio, wall{names}")
    for T in times:
        errors, seconds = np.zeros((n_sets, len(works))), np.zeros((n_sets, len(works), 2))
        for k in range(n_sets):
            spins, J = kinetic_ising(n, T, [k, T])
            best = np.full((len(works), 2), np.inf)
            for _ in range(repeats):
                for w, work in enumerate(works.values()):
                    found, taken = once(partial(work, spins))
                    best[w] = np.minimum(best[w], taken)
                    errors[k, w] = np.sqrt(np.mean((found - J) ** 2) * n)
            seconds[k] = best
        e, s = np.sqrt((errors**2).mean(axis=0)), seconds.mean(axis=0)
        print(f"{T:6d}  error of J" + "".join(f"{x:10.4f}" for x in e))
        print(f"{'':8}processor s" + "".join(f"{x:10.3f}" for x in s[:, 1]))
        print(f"{'':8}ratio, wall" + "".join(f"{x:10.2f}" for x in s[:, 0] / s[0, 0]), flush=True)


def groups(sizes: tuple[int, ...], M: int, repeats: int) -> None:
    print("\n items   one fit (s)   two fits (s)   largest difference")
    for n in sizes:
        rng = np.random.default_rng(n)
        parts = []
        for g in (0, 1):
            couplings = {(i, i + 1): 0.5 * rng.normal() for i in range(n - 1)}
            model = BoltzmannMachine(0.3 * rng.normal(size=n), couplings)
            parts.append(np.column_stack([sample(model, M, random_state=g), np.full(M, g)]))
        X = np.concatenate(parts)
        named = [(i, j) for i in range(n + 1) for j in range(i + 1, n + 1)]
        named += [(i, j, n) for i in range(n) for j in range(i + 1, n)]

        def one() -> np.ndarray:
            est = HBM(order=3, interactions=named, given=[n], alpha=0.0, refine="likelihood").fit(X)  # noqa: B023
            return np.concatenate([est.model_.condition([g]).weights for g in (0, 1)])

        def two() -> np.ndarray:
            fits = [HBM(order=2, alpha=0.0, refine="likelihood").fit(part[:, :-1]) for part in parts]  # noqa: B023
            return np.concatenate([est.weights_ for est in fits])

        (joint, a), (apart, b) = timed(one, repeats), timed(two, repeats)
        print(f"{n:6d}{a:14.2f}{b:15.2f}{np.abs(joint - apart).max():21.1e}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spins", type=int, default=30)
    parser.add_argument("--times", type=int, nargs="+", default=[3000, 30_000, 100_000])
    parser.add_argument("--sets", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    kinetic(options.spins, options.times, options.sets, options.repeats)
    groups((6, 10), 5000, options.repeats)


if __name__ == "__main__":
    main()
