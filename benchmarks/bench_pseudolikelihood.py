"""Pseudolikelihood against its peers, in the same run.

    python benchmarks/bench_pseudolikelihood.py [--small]

1. Pairs, n = 100, M = 10⁴ (SK, β = 0.3): against pseudolm (``pip install pseudolm``), which fits a logistic regression
   for each site without penalty and averages the two estimates of each coupling; ours is the joint minimum, so that the
   two are not the same estimate. Given are the distances, absolute and in standard errors, from the exact optimum of
   pseudolm's own problem (Newton's method, site by site, then the averages), also of pseudolm itself, which stops short
   of it; and the value of the pseudo-log-likelihood at each.
2. All pairs and triplets, n = 50, M = 10⁵: against scipy's L-BFGS on the same objective, gradients by the same passes.
   Our fit is the median of five.

A pass over the data is 4nK flops a row (K monomials: 101 and 1276). CPU times are given beside wall times, as they
hardly depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import optimize

from hbm_learn import Interactions, Moments, datasets, invert, sample
from hbm_learn._threads import blas_for
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import pseudolikelihood, sandwich
from hbm_learn.inversion.composite.fit import CompositeFit
from hbm_learn.inversion.composite.objective import Objective
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.optimise.newton_cg import conjugate_gradients

FLAT = Prior({2: 0.0, 3: 0.0})


def clock(function: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    out = function()
    return out, time.perf_counter() - wall, time.process_time() - cpu


def prepare(samples: Samples, columns: Interactions, dtype: Any = None) -> CompositeFit:
    """θ = (h, J), in the user's coding."""
    parameters = Parameters(samples.space, columns, "free", samples.frequencies)
    return pseudolikelihood.prepare(samples, parameters, dtype=dtype)


def row(name: str, wall: float, cpu: float, reference: tuple[float, float], note: str = "") -> None:
    ratios = f"{wall / reference[0]:8.3f} {cpu / reference[1]:8.3f}"
    print(f"  {name:<44} {wall:9.3f} {cpu:9.3f} {ratios}   {note}")


def header(title: str) -> None:
    print(f"\n{title}\n  {'':<44} {'wall s':>9} {'CPU s':>9} {'ratio':>8} {'ratio':>8}")


def pairwise(n: int, M: int) -> None:
    from joblib import Parallel
    from pyplm.inference.pseudolikelihoodmax import plm

    model = datasets.make_sk(n, 0.3, h_std=0.1, random_state=0)
    X = np.asarray(sample(model, M, random_state=1))
    header(f"pairs, n = {n}, M = {M}; ratios to pseudolm")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        peer, wall, cpu = clock(lambda: plm(X, Parallel(n_jobs=1)))
    reference = wall, cpu
    row("pseudolm (one process)", wall, cpu, reference)

    def ours(tol: float) -> Any:
        samples = Samples.check(X, (-1, 1))
        start = invert(Moments.from_samples(samples, order=2), model.columns, alpha=0.0)
        return prepare(samples, model.columns).fit(FLAT, start.model, tol=tol)

    ours(0.01)  # compile
    for tol in (0.01, 1e-8):
        result, wall, cpu = clock(lambda tol=tol: ours(tol))
        row(f"closed form, fit (tol = {tol:g}), errors", wall, cpu, reference)
    upper = np.triu_indices(n, 1)
    averaged = site_by_site(X.astype(float), peer)
    answers = {
        "pseudolm": (np.diag(peer), peer[upper]),
        "pseudolm's exact optimum": (np.diag(averaged), averaged[upper]),
        "joint optimum, ours": (result.theta[:n], result.weights),
    }
    composite = prepare(Samples.check(X, (-1, 1)), model.columns, dtype=float).composite
    objective = Objective(composite, np.zeros(composite.n_params))
    print(f"  {'':<44} {'−ln PL / M':>12}   |J − pseudolm's exact optimum|, at most, and rms in standard errors")
    for name, (h, J) in answers.items():
        gap = np.abs(J - averaged[upper])
        rms = np.sqrt(np.mean(gap**2 / result.posterior[n:]))
        value = objective.value_gradient(np.concatenate([h, J]))[0]
        print(f"  {name:<44} {value:12.8f}   {gap.max():.1e}  {rms:.1e}")


def site_by_site(X: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The maximum of each site's own conditional likelihood, h on the diagonal; the two values of each J averaged."""
    W = start.copy()
    for i in range(len(W)):
        A = X.copy()
        A[:, i] = 1.0
        for _ in range(4):
            t = np.tanh(A @ W[i])
            W[i] += np.linalg.solve((A.T * (1.0 - t**2)) @ A, A.T @ (X[:, i] - t))
    return 0.5 * (W + W.T)


def triplets(n: int, M: int, beta: float) -> None:
    model = datasets.make_random(n, {2: beta / np.sqrt(n), 3: beta / n}, random_state=0)
    samples = Samples.check(np.asarray(sample(model, M, random_state=1)), (-1, 1))
    start, closed_wall, closed_cpu = clock(
        lambda: invert(Moments.from_samples(samples, order=3), model.columns, alpha=0.0)
    )
    fit = prepare(samples, model.columns)
    composite = fit.composite
    first = composite.parameters.pack(start.model)
    composite.sums(first)  # compile
    flops = 4.0 * n * composite.map.n_monomials * M
    header(f"pairs and triplets, β = {beta}, n = {n}, M = {M}, {composite.n_params} parameters; ratios to L-BFGS")
    typical = composite.n_params / M
    objective = Objective(composite, np.zeros(composite.n_params))

    def decrement(theta: np.ndarray) -> float:
        """Newton decrement over p/M."""
        with blas_for(0):
            gradient = objective.value_gradient(theta)[1]
            H = objective.curvature(theta)
            return float(gradient @ conjugate_gradients(H.product, gradient, H.precondition, 0.05, 100)) / typical

    def lbfgs(theta: np.ndarray, options: dict[str, float]) -> Any:
        with blas_for(0):
            return optimize.minimize(objective.value_gradient, theta, jac=True, method="L-BFGS-B", options=options)

    # A largest slope of 0.3/√M is a decrement below 1 % of p/M, where ours stops.
    early, zero = {"gtol": 0.3 / np.sqrt(M), "ftol": 0.0}, np.zeros(composite.n_params)
    peers = (
        ("L-BFGS, scipy's defaults, from zero", zero, {}),
        ("L-BFGS, stopped early, from zero", zero, early),
        ("L-BFGS, stopped early, from the closed form", first, early),
    )
    reference = (np.inf, np.inf)
    for name, theta, options in peers:
        peer, wall, cpu = clock(lambda theta=theta, options=options: lbfgs(theta, options))
        reference = (wall, cpu) if np.isinf(reference[0]) else reference
        row(name, wall, cpu, reference, f"{peer.nfev} passes, decrement {decrement(peer.x):.1e} p/M")
    passes: list[float] = []
    times: list[list[float]] = []
    errors = sandwich.errors

    def counted(objective: Objective, *rest: Any, **options: Any) -> Any:
        passes[:] = [objective.n_passes]
        out, *spent = clock(lambda: errors(objective, *rest, **options))
        passes.append(objective.n_passes)
        times.append(spent)
        return out

    sandwich.errors = counted  # type: ignore[assignment]
    runs = [clock(lambda: fit.fit(FLAT, first)) for _ in range(5)]
    sandwich.errors = errors
    result = runs[0][0]
    whole = np.array([run[1:] for run in runs])
    note = f"{passes[0]:.1f} passes to fit, {passes[1] - passes[0]:.1f} for errors; "
    note += f"decrement {decrement(result.theta):.1e} p/M"
    row("fit from the closed form, with errors", *np.median(whole, axis=0), reference, note)
    row("  the fit alone", *np.median(whole - times, axis=0), reference)
    row("  closed form and moments", closed_wall, closed_cpu, reference)
    _, wall, cpu = clock(lambda: composite.sums(result.theta))
    row("one pass", wall, cpu, reference, f"{flops / 1e9:.1f} Gflop, {flops / cpu / 1e9:.0f} Gflop/s of CPU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    divide = 10 if parser.parse_args().small else 1
    pairwise(100, 10_000 // divide)
    triplets(50, 100_000 // divide, 0.3)
    triplets(50, 100_000 // divide, 0.6)
