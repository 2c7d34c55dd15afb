"""The formulas of docs/scale.md beside what is measured: counts of operations, seconds for each, bytes.

    python benchmarks/bench_scale.py

One thread, processor seconds, best of three. A formula holds where the seconds for a count stay the same while the
count grows; beside flops of whole tables stands the rate of sgemm in the same run.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import time  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402
from functools import partial  # noqa: E402
from math import comb  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402

from hbm_learn import HBM, Moments, invert  # noqa: E402
from hbm_learn.data.samples import Samples  # noqa: E402
from hbm_learn.inversion.composite import pseudolikelihood  # noqa: E402
from hbm_learn.inversion.composite.objective import HessianProducts, Objective  # noqa: E402
from hbm_learn.inversion.parameters import Parameters  # noqa: E402
from hbm_learn.terms import all_terms  # noqa: E402

SPINS = (-1, 1)


def best(work: Callable[[], Any], repeats: int = 3) -> float:
    """Processor seconds, after a call that may compile."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.process_time()
        work()
        seconds.append(time.process_time() - begin)
    return min(seconds[1:])


def table(n: int, M: int) -> np.ndarray:
    return np.random.default_rng(0).choice(np.array(SPINS, dtype=np.int8), size=(M, n))


def sgemm() -> float:
    """Flops a second of a product of the sizes that a pass takes."""
    A, B = np.ones((2000, 500), np.float32), np.ones((500, 2000), np.float32)
    return 2 * 2000 * 500 * 2000 / best(lambda: A @ B)


def moments() -> Iterator[tuple[str, float, float]]:
    """⌈M/64⌉ C(n + k − 1, k) words for the sums of order k."""
    for k, sizes in ((2, (400, 800)), (3, (100, 200)), (4, (50, 80))):
        for n in sizes:
            M = 2**16
            X = Samples.check(table(n, M), SPINS)
            words = M / 64 * sum(comb(n + j - 1, j) for j in range(2, k + 1))
            yield f"moments, order {k}, n = {n}, M = {M}", words, best(lambda: Moments.from_samples(X, order=k))  # noqa: B023


def closed_form() -> Iterator[tuple[str, float, float]]:
    """2 n³ flops of the inverse of pairs; C(n, k) couplings at higher orders."""
    for n in (800, 1600):
        stats = Moments.from_samples(table(n, 5000), order=2, alphabet=SPINS)
        yield f"closed form, pairs, n = {n}, flops", 2 * n**3, best(lambda: invert(stats, corrections="none"))  # noqa: B023
    for n in (80, 160):
        stats = Moments.from_samples(table(n, 5000), order=3, alphabet=SPINS)
        yield f"closed form, triplets, n = {n}, couplings", comb(n, 3), best(lambda: invert(stats, corrections="none"))  # noqa: B023


def passes() -> Iterator[tuple[str, float, float]]:
    """4 Σ_k k C(n, k) M flops of a pass, and as many for a product with the Hessian of all rows."""
    for order, shapes in ((2, ((200, 20_000), (400, 20_000), (400, 40_000))), (3, ((30, 20_000), (60, 20_000)))):
        for n, M in shapes:
            samples = Samples.check(table(n, M), SPINS)
            parameters = Parameters(samples.space, all_terms(order, samples.space), "free", samples.frequencies)
            composite = pseudolikelihood.prepare(samples, parameters, dtype=np.float32).composite
            objective = Objective(composite, np.zeros(composite.n_params))
            thetas = iter(1e-3 * np.random.default_rng(1).normal(size=(12, composite.n_params)))
            flops = 4 * sum(k * comb(n, k) for k in range(2, order + 1)) * M
            work = best(lambda: objective.value_gradient(next(thetas)))  # noqa: B023
            yield f"gradient pass, order {order}, n = {n}, M = {M}", flops, work
            H, v = HessianProducts(objective, next(thetas)), next(thetas)
            what = f"Hessian product, order {order}, n = {n}, rows / {composite.stride}"
            yield what, flops * H.share, best(partial(H.product, v))


def tests() -> Iterator[tuple[str, float, float]]:
    """2 n C(n, 3) M flops of the covariances of each triplet's score with its node's own n parameters."""
    _tests(HBM(order=3, n_jobs=1, random_state=0).fit(table(20, 5_000)))  # may compile
    for n, M in ((40, 5_000), (40, 10_000)):
        est = HBM(order=3, n_jobs=1, random_state=0).fit(table(n, M))
        yield f"tests, order 3, n = {n}, M = {M}", 2 * n * comb(n, 3) * M, _tests(est)


def _tests(est: HBM) -> float:
    """They are made once, when first asked for."""
    begin = time.process_time()
    est.tests_  # noqa: B018
    return time.process_time() - begin


def main() -> None:
    rate = sgemm()
    print(f"sgemm: {rate / 1e9:.1f} Gflop/s")
    for rows in (moments, closed_form, passes, tests):
        for what, count, seconds in rows():
            print(f"{what:52} {count:10.3g} {seconds:9.4f} s {1e9 * seconds / count:9.4f} ns each", end="")
            print(f"   {seconds * rate / count:6.2f} × sgemm" if rows in (passes, tests) else "", flush=True)


if __name__ == "__main__":
    main()
