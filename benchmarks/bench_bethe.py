"""Bethe with diagonal consistency on large square lattices, beside "dc".

    python benchmarks/bench_bethe.py [--sides 40 50] [--large 100 100] [--strengths 0.2 0.4 0.7]

Couplings β N(0, 1), fields N(0, 0.3²). Times of whole solves on one BLAS thread; memory is the peak of what Python and
NumPy allocated in the solve (tracemalloc), in numbers of 8 bytes for each site. "dc" is stopped after 60 evaluations.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Interactions, infer


def lattice(rows: int, columns: int, strength: float, seed: int = 0) -> BoltzmannMachine:
    rng = np.random.default_rng(seed)
    at = np.arange(rows * columns).reshape(rows, columns)
    ends = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    pairs = [pair for a, b in ends for pair in zip(a.ravel().tolist(), b.ravel().tolist())]
    interactions = Interactions.from_tuples(pairs, at.size)
    return BoltzmannMachine.from_packed(
        rng.normal(0, 0.3, at.size), interactions, strength * rng.normal(size=len(interactions))
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs=2, type=int, default=[40, 50])
    parser.add_argument("--large", nargs=2, type=int, default=[100, 100])
    parser.add_argument("--strengths", nargs="+", type=float, default=[0.2, 0.4, 0.7])
    options = parser.parse_args()
    with threadpool_limits(1):
        for method in ("bethe", "dc"):
            infer(lattice(18, 18, 0.2), method)  # compiles
        for strength in options.strengths:
            model, told = lattice(*options.sides, strength), []
            for method, limits in (("bethe", {}), ("bethe2", {}), ("dc", {"max_evaluations": 60})):
                start = time.perf_counter()
                result = infer(model, method, **limits)
                told.append((method, time.perf_counter() - start, result.converged))
            times = ", ".join(f"{method} {t:.2f} s{'' if ok else ' (not converged)'}" for method, t, ok in told)
            print(
                f"n = {model.n_features}, β = {strength}: {times}; dc/bethe {told[2][1] / told[0][1]:.1f}", flush=True
            )
        model = lattice(*options.large, options.strengths[0])
        start = time.perf_counter()
        result = infer(model, "bethe")
        seconds = time.perf_counter() - start
        tracemalloc.start()
        infer(model, "bethe")
        peak = tracemalloc.get_traced_memory()[1] / 8 / model.n_features
        print(f"n = {model.n_features}: bethe {seconds:.1f} s, converged {result.converged}, {peak:.0f} numbers a site")


if __name__ == "__main__":
    main()
