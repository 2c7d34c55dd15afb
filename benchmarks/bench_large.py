"""The default fit beyond enumeration: all pairs and triplets, learnt priors, errors; is it right, and how long?

    python benchmarks/bench_large.py

J ~ N(0, 0.3²/n), J₃ ~ N(0, 0.3²/n²), h ~ N(0, 0.1²), often with more parameters than rows. Given are, for pairs and
triplets: the learnt prior variance over the true one; the error relative to the couplings; and the error in standard
errors (root mean square, 1 if they are honest). Beside it: the closed form alone, and a fit with the true prior.
"""

from __future__ import annotations

import resource
import time
import warnings
from typing import Any

import numpy as np

from hbm_learn import HBM, BoltzmannMachine, datasets, sample


def row(name: str, est: HBM, truth: BoltzmannMachine, X: np.ndarray) -> None:
    start = time.perf_counter()
    est.fit(X)
    seconds = time.perf_counter() - start
    columns: list[Any] = []
    for k in (2, 3):
        where = truth.columns.slice(k)
        J, error = truth.weights[where], (est.weights_ - truth.weights)[where]
        columns += [
            1.0 / (est.alpha_[k] * np.mean(J**2)),
            np.linalg.norm(error) / np.linalg.norm(J),
            np.sqrt(np.mean((error / est.standard_errors_[where]) ** 2)),
        ]
    print(f"  {name:<18}" + "".join(f"{x:9.3f}" for x in columns) + f"{seconds:9.2f} s", flush=True)


def main() -> None:
    warnings.simplefilter("ignore")  # the closed form says that it is biased
    HBM(order=3, refine="pseudolikelihood").fit(np.random.default_rng(0).choice([-1, 1], (3000, 30)))  # compile
    heads = [f"{what} {k}" for k in (2, 3) for what in ("τ²", "error", "/se")]
    for n, n_samples in ((50, 500), (50, 2000), (50, 10_000), (50, 100_000), (100, 10_000), (100, 100_000)):
        truth = datasets.make_random(n, {2: 0.3 / np.sqrt(n), 3: 0.3 / n}, 0.1, random_state=0)
        X = np.asarray(sample(truth, n_samples, random_state=1)).astype(np.int8)
        print(f"n = {n}, M = {n_samples}, {len(truth.weights) + n} parameters")
        print(" " * 20 + "".join(f"{head:>9}" for head in heads))
        row("closed form", HBM(order=3, refine=None), truth, X)
        row("default", HBM(order=3), truth, X)
        row("true prior", HBM(order=3, alpha={2: n / 0.09, 3: n**2 / 0.09}), truth, X)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
