"""Pseudolikelihood against its peers, in the same run.

    python benchmarks/bench_pseudolikelihood.py [--small]

1. Pairs, n = 100, M = 10⁴ (SK, β = 0.3): against pseudolm (``pip install pseudolm``), which fits a logistic regression
   for each site without penalty and averages the two estimates of each coupling; ours is the joint minimum, so that the
   two are not the same estimate. Given are the difference, in standard errors and absolute, and the value of the
   pseudo-log-likelihood at both.
2. All pairs and triplets, n = 50, M = 10⁵: against scipy's L-BFGS on the same objective, gradients by the same passes.

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

from hbm_learn import Moments, datasets, sample
from hbm_learn._threads import blas_for
from hbm_learn.inversion import diagonal, pseudolikelihood, sandwich
from hbm_learn.inversion.newton_cg import conjugate_gradients
from hbm_learn.inversion.objective import Objective
from hbm_learn.inversion.prior import Prior
from hbm_learn.samples import Samples

FLAT = Prior({2: 0.0, 3: 0.0})


def clock(function: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    out = function()
    return out, time.perf_counter() - wall, time.process_time() - cpu


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
        start = diagonal.invert(Moments.from_samples(samples, order=2), model.packed, 0.0)
        return pseudolikelihood.fit(samples, model.packed, start.model, FLAT, tol=tol)

    ours(0.01)  # compile
    upper = np.triu_indices(n, 1)
    scale = np.abs(peer[upper]).max()
    for tol in (0.01, 1e-8):
        result, wall, cpu = clock(lambda tol=tol: ours(tol))
        gap = np.abs(result.model.weights - peer[upper])
        note = (
            f"|J − peer| / se: rms {np.sqrt(np.mean((gap / result.standard_errors) ** 2)):.1e}; "
            f"|J − peer| ≤ {gap.max():.1e}, {gap.max() / scale:.1e} of the largest"
        )
        row(f"closed form, fit (tol = {tol:g}), errors", wall, cpu, reference, note)
    composite = pseudolikelihood.prepare(Samples.check(X, (-1, 1)), model.packed, dtype=float).composite
    objective = Objective(composite, np.zeros(composite.n_params))
    answers = (np.diag(peer), peer[upper]), (result.model.h, result.model.weights)
    values = [objective.value_gradient(np.concatenate(answer))[0] for answer in answers]
    print(f"  mean pseudo-log-likelihood: pseudolm −{values[0]:.8f}, ours −{values[1]:.8f}")


def triplets(n: int, M: int, beta: float) -> None:
    model = datasets.make_random(n, {2: beta / np.sqrt(n), 3: beta / n}, random_state=0)
    samples = Samples.check(np.asarray(sample(model, M, random_state=1)), (-1, 1))
    start, closed_wall, closed_cpu = clock(
        lambda: diagonal.invert(Moments.from_samples(samples, order=3), model.packed, 0.0)
    )
    fit = pseudolikelihood.prepare(samples, model.packed)
    composite = fit.composite
    fit.composite.sums(composite.pack(start.model))  # compile
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
    runs = (
        ("L-BFGS, scipy's defaults, from zero", zero, {}),
        ("L-BFGS, stopped early, from zero", zero, early),
        ("L-BFGS, stopped early, from the closed form", composite.pack(start.model), early),
    )
    reference = (np.inf, np.inf)
    for name, theta, options in runs:
        peer, wall, cpu = clock(lambda theta=theta, options=options: lbfgs(theta, options))
        reference = (wall, cpu) if np.isinf(reference[0]) else reference
        row(name, wall, cpu, reference, f"{peer.nfev} passes, decrement {decrement(peer.x):.1e} p/M")
    passes: list[float] = []
    times: list[float] = []
    errors = sandwich.errors

    def counted(objective: Objective, *rest: Any, **options: Any) -> Any:
        passes.append(objective.n_passes)
        out, *spent = clock(lambda: errors(objective, *rest, **options))
        passes.append(objective.n_passes)
        times.extend(spent)
        return out

    sandwich.errors = counted  # type: ignore[assignment]
    result, wall, cpu = clock(lambda: fit.fit(FLAT, start.model))
    sandwich.errors = errors
    note = f"{passes[0]:.1f} passes to fit, {passes[1] - passes[0]:.1f} for errors; "
    note += f"decrement {decrement(composite.pack(result.model)):.1e} p/M"
    row("fit from the closed form, with errors", wall, cpu, reference, note)
    row("  the fit alone", wall - times[0], cpu - times[1], reference)
    row("  closed form and moments", closed_wall, closed_cpu, reference)
    _, wall, cpu = clock(lambda: composite.sums(composite.pack(result.model)))
    row("one pass", wall, cpu, reference, f"{flops / 1e9:.1f} Gflop, {flops / cpu / 1e9:.0f} Gflop/s of CPU")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="a tenth of the rows")
    divide = 10 if parser.parse_args().small else 1
    pairwise(100, 10_000 // divide)
    triplets(50, 100_000 // divide, 0.3)
    triplets(50, 100_000 // divide, 0.6)
