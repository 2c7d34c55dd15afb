"""Mean fields with sparse S on large square lattices, beside "dc" with dense S; time and memory against n.

    python benchmarks/bench_bethe.py [--sides 40 50] [--strengths 0.2 0.4] [--repeats 3] [--growth 30 45 70 100]

Couplings β N(0, 1), fields N(0, 0.3²); "triplets": one in each corner of faces instead, β N(0, 1). Processor seconds of
whole solves on one BLAS thread, methods in turns, the best of several; memory is the peak of what Python and NumPy
allocated in the solve (tracemalloc), in numbers of 8 bytes for each site. Dense "dc" is stopped after 60 evaluations.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Interactions, infer
from hbm_learn.inference.continuation import arrive
from hbm_learn.inference.dc_equations import DiagonalConsistency


def lattice(rows: int, columns: int, strength: float, seed: int = 0) -> BoltzmannMachine:
    at = np.arange(rows * columns).reshape(rows, columns)
    ends = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    return _model(
        [pair for a, b in ends for pair in zip(a.ravel().tolist(), b.ravel().tolist())], at.size, strength, seed
    )


def triplets(rows: int, columns: int, strength: float, seed: int = 0) -> BoltzmannMachine:
    at = np.arange(rows * columns).reshape(rows, columns)
    corners = zip(*(x.ravel().tolist() for x in (at[:-1, :-1], at[:-1, 1:], at[1:, :-1])))
    return _model(list(corners), at.size, strength, seed)


def _model(sets: list[tuple[int, ...]], n: int, strength: float, seed: int) -> BoltzmannMachine:
    rng, interactions = np.random.default_rng(seed), Interactions.from_tuples(sets, n)
    return BoltzmannMachine.from_packed(
        rng.normal(0, 0.3, n), interactions, strength * rng.normal(size=len(interactions))
    )


def dense_dc(model: BoltzmannMachine) -> Any:
    return arrive(DiagonalConsistency(model), tol=1e-12, max_evaluations=60)


def seconds(solve: Callable[[], Any]) -> tuple[float, bool]:
    """Of the processor, and whether it arrived."""
    start = time.process_time()
    result = solve()
    used = time.process_time() - start
    return used, bool(getattr(result, "converged", getattr(result, "residual", np.inf) < 1e-10))


def race(sides: list[int], strength: float, repeats: int) -> None:
    model, best, arrived = lattice(*sides, strength), {}, {}
    for _ in range(repeats):
        for name in ("bethe", "bethe2", "dc", "dense dc"):
            solve = (lambda: dense_dc(model)) if name == "dense dc" else (lambda: infer(model, name))  # noqa: B023
            used, arrived[name] = seconds(solve)
            best[name] = min(used, best.get(name, np.inf))
    told = ", ".join(f"{name} {t:.3f} s{'' if arrived[name] else ' (not converged)'}" for name, t in best.items())
    ratios = ", ".join(f"{best['dense dc'] / t:.1f} ({name})" for name, t in best.items() if name != "dense dc")
    print(f"n = {model.n_features}, β = {strength}: {told}; dense dc over: {ratios}", flush=True)


def growth(side: int, strength: float) -> None:
    for kind, make, methods in (("lattice", lattice, ("bethe", "dc")), ("triplets", triplets, ("bethe", "dc2"))):
        model = make(side, side, strength)
        for method in methods:
            used, arrived = seconds(lambda: infer(model, method))  # noqa: B023
            tracemalloc.start()
            infer(model, method)
            peak = tracemalloc.get_traced_memory()[1] / 8 / model.n_features
            tracemalloc.stop()
            state = "" if arrived else " (not converged)"
            print(f"{kind}, n = {side * side}: {method} {used:.2f} s{state}, {peak:.0f} numbers a site", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sides", nargs=2, type=int, default=[40, 50])
    parser.add_argument("--strengths", nargs="*", type=float, default=[0.2, 0.4])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--growth", nargs="*", type=int, default=[30, 45, 70, 100])
    options = parser.parse_args()
    with threadpool_limits(1):
        for method in ("bethe", "bethe2", "dc"):
            infer(lattice(18, 18, 0.2), method)  # compiles
        infer(triplets(18, 18, 0.1), "dc2", response="consistent")
        infer(triplets(18, 18, 0.1), "bethe")
        for strength in options.strengths:
            race(options.sides, strength, options.repeats)
        for side in options.growth:
            growth(side, 0.2)


if __name__ == "__main__":
    main()
