"""Maximum likelihood from moments: its time beside that of a plain optimiser with the same oracle.

    python benchmarks/bench_likelihood.py [--gibbs]

Exact: Newton from the closed form to a gradient of 1e-10, beside scipy's L-BFGS (value and gradient from the same table
of states, to 1e-7) from the same start. A table costs two transforms, n 2^(n+1) multiply-adds; a Newton step adds P²/2
look-ups and P³/3 multiply-adds; errors add 2P³/3.
--gibbs: n = 50, all pairs and 200 planted triplets, M = 2e4: likelihood from Gibbs moments beside pseudolikelihood,
with the relative errors of all parameters.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from hbm_learn import BoltzmannMachine, Moments, datasets, sample
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.composite import pseudolikelihood
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.states import StateTable

CASES = [(9, 2, 1000, 0.6), (9, 3, 1000, 0.6), (12, 3, 10_000, 0.6), (16, 3, 100_000, 0.5), (20, 3, 100_000, 0.5)]

UNIT = Prior({2: 1.0, 3: 1.0})


def timed(work: Callable[[], Any], repeats: int = 3) -> tuple[float, Any]:
    """The best time of some runs, and the last answer."""
    best = np.inf
    for _ in range(repeats):
        start = time.perf_counter()
        answer = work()
        best = min(best, time.perf_counter() - start)
    return best, answer


def lbfgs(target: Target, theta: np.ndarray) -> Any:
    """scipy's answer, and the table evaluations it took."""

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        table = StateTable(target.parameters.model(theta))
        gradient = table.statistics(target.parameters) + target.ridge * theta - target.t
        return table.log_partition - theta @ (target.t - 0.5 * target.ridge * theta), gradient

    options = {"maxiter": 2000, "maxfun": 4000, "gtol": 1e-7, "ftol": 0.0}
    return optimize.minimize(objective, theta, jac=True, method="L-BFGS-B", options=options)


def exact() -> None:
    print("  n order    P       M   steps  gradient  seconds   L-BFGS: tables  seconds   ratio")
    for n, order, M, beta in CASES:
        model = datasets.make_random(n, {k: beta / n ** ((k - 1) / 2) for k in range(2, order + 1)}, random_state=1)
        moments = Moments.from_samples(sample(model, M, "exact", random_state=2), order, (-1, 1))
        theta = Parameters(moments.space, model.columns, "free", moments.frequencies)
        start = theta.pack(diagonal.invert(moments, model.columns).model)
        seconds, result = timed(lambda m=moments, p=theta, s=start: likelihood.fit(m, p, s, UNIT))
        target = Target.of(moments, theta, UNIT)
        plain, found = timed(lambda t=target, s=start: lbfgs(t, s), 1)
        print(
            f"{n:3d} {order:5d} {len(target.t):5d} {M:7d} {result.n_iter:6d} {result.residual:10.1e} {seconds:8.3f}"
            f"   {found.nfev:14d} {plain:8.3f} {plain / seconds:7.1f}",
            flush=True,
        )


def gibbs() -> None:
    model = datasets.make_planted(50, {3: 200}, (0.05, 0.2), beta=0.5, random_state=0)
    X = sample(model, 20_000, "gibbs", random_state=1, n_chains=2000)
    moments = Moments.from_samples(X, 3, (-1, 1))
    theta = Parameters(moments.space, model.columns, "free", moments.frequencies)
    closed = diagonal.invert(moments, model.columns).model
    start, samples = theta.pack(closed), Samples.check(X, (-1, 1))
    runs: dict[str, Callable[[], Any]] = {
        "pseudolikelihood": lambda: pseudolikelihood.prepare(samples, theta).fit(UNIT, start),
        "likelihood": lambda: likelihood.fit(moments, theta, start, UNIT, random_state=0),
    }
    print(f"n = 50, {len(model.weights)} couplings, M = 20000: closed form error {error(closed, model):.4f}")
    reference = None
    for name, run in runs.items():
        seconds, result = timed(run, 1)
        found = error(theta.model(result.theta), model)
        reference = found if reference is None else reference
        print(
            f"{name:>17}: error {found:.4f} ({found / reference:.3f} ×), {seconds:.1f} s; {result.status}", flush=True
        )


def error(found: BoltzmannMachine, model: BoltzmannMachine) -> float:
    """‖θ̂ − θ‖/‖θ‖."""
    difference = np.concatenate([found.h - model.h, found.weights - model.weights])
    return float(np.linalg.norm(difference) / np.linalg.norm(np.concatenate([model.h, model.weights])))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gibbs", action="store_true")
    gibbs() if parser.parse_args().gibbs else exact()
