"""Gibbs sampling: spin updates per second, as ratios to a NumPy sampler over 1000 chains and to plain Python.

    python benchmarks/bench_gibbs.py

±1 spins, sparse triplets. An update of one spin of degree D reads 2D spins (16 D bytes, from cache), does 2D
multiplications and D additions, then draws one random number and takes one exponential. The NumPy sampler updates one
site of all chains at a time, float64: one product of rows and one vector-matrix product; plain Python runs one chain.
Every figure is the best of three runs, as the machine may be shared.
"""

from __future__ import annotations

import math
import os
import random
import time

import numpy as np

from hbm_learn import BoltzmannMachine, Interactions
from hbm_learn.sampling.chains import Chains, widths


def triplet_model(n: int, n_triplets: int, seed: int = 0) -> BoltzmannMachine:
    """Random distinct triplets with Gaussian couplings and fields."""
    rng = np.random.default_rng(seed)
    found: np.ndarray = np.empty((0, 3), dtype=np.intp)
    while len(found) < n_triplets:
        rows = np.sort(rng.integers(n, size=(2 * n_triplets, 3)), axis=1)
        rows = rows[(rows[:, 0] < rows[:, 1]) & (rows[:, 1] < rows[:, 2])]
        found = np.unique(np.concatenate([found, rows]), axis=0)
    found = found[np.sort(rng.choice(len(found), n_triplets, replace=False))]
    weights = rng.normal(0, 0.2, n_triplets)
    return BoltzmannMachine.from_packed(0.1 * rng.normal(size=n), Interactions.from_blocks([found], n), weights)


def by_site(model: BoltzmannMachine) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each site, the (D, 2) other members of its triplets, and their couplings."""
    site_ptr, which = model.columns.incidence
    block = model.columns.block(3)
    out = []
    for i in range(model.n_features):
        mine = which[site_ptr[i] : site_ptr[i + 1]]
        rows = block[mine]
        out.append((rows[rows != i].reshape(-1, 2), model.weights[mine]))
    return out


def numpy_rate(model: BoltzmannMachine, n_chains: int = 1000, n_sweeps: int = 3) -> float:
    """Updates per second of a sampler vectorised over chains."""
    rng = np.random.default_rng(0)
    sites = [(np.ascontiguousarray(o[:, 0]), np.ascontiguousarray(o[:, 1]), J) for o, J in by_site(model)]
    X = rng.choice([-1.0, 1.0], size=(model.n_features, n_chains))
    elapsed = []
    for _ in range(n_sweeps):
        start = time.perf_counter()
        # logit(u) < 2·field is u < 1/(1 + exp(−2·field)): one vectorised call a sweep draws and transforms all of them
        threshold = 0.5 * rng.logistic(size=(model.n_features, n_chains))
        for i, (j, k, J) in enumerate(sites):
            field = J @ (X[j] * X[k])
            np.copyto(X[i], -1.0)
            X[i][threshold[i] < field + model.h[i]] = 1.0
        elapsed.append(time.perf_counter() - start)
    return X.size / min(elapsed)


def python_rate(model: BoltzmannMachine, n_sweeps: int = 3) -> float:
    """Updates per second of one chain in plain Python."""
    sites = [[(int(j), int(k), float(w)) for (j, k), w in zip(o, J)] for o, J in by_site(model)]
    h, x = model.h.tolist(), [random.choice((-1, 1)) for _ in range(model.n_features)]
    elapsed = []
    for _ in range(n_sweeps):
        start = time.perf_counter()
        for i, terms in enumerate(sites):
            field = h[i]
            for j, k, w in terms:
                field += w * x[j] * x[k]
            x[i] = 1 if random.random() < 1.0 / (1.0 + math.exp(-2.0 * field)) else -1
        elapsed.append(time.perf_counter() - start)
    return len(x) / min(elapsed)


def lanes_rate(model: BoltzmannMachine, n_chains: int, n_jobs: int) -> float:
    """Updates per second of hbm_learn, after compilation."""
    chains = Chains(model, widths(n_chains), np.random.SeedSequence(0), n_jobs=n_jobs)
    n_sweeps, elapsed = 1, 0.0
    while elapsed < 0.2:
        n_sweeps *= 2
        elapsed = advance_time(chains, n_sweeps)
    elapsed = min(elapsed, advance_time(chains, n_sweeps), advance_time(chains, n_sweeps))
    return n_sweeps * n_chains * model.n_features / elapsed


def advance_time(chains: Chains, n_sweeps: int) -> float:
    start = time.perf_counter()
    chains.advance(n_sweeps)
    return time.perf_counter() - start


def main() -> None:
    cores = os.cpu_count() or 1
    print(f"{cores} cores; million updates per second, and ratios\n")
    print("     n  degree | hbm_learn 1 thread   all cores | NumPy 1000 chains   Python | / NumPy  / Python")
    for n, n_triplets in [(1000, 3000), (100, 300), (10_000, 30_000), (1000, 300), (1000, 30_000), (100, 30_000)]:
        model = triplet_model(n, n_triplets)
        one, many = lanes_rate(model, 1000, 1), lanes_rate(model, 1000, cores)
        reference, plain = numpy_rate(model), python_rate(model)
        print(
            f"{n:6d} {3 * n_triplets / n:7.1f} | {one / 1e6:18.1f} {many / 1e6:11.1f} | {reference / 1e6:17.2f} "
            f"{plain / 1e6:8.3f} | {many / reference:7.1f} {many / plain:9.0f}"
        )
    print("\nchains, 1 thread (n = 1000, 3000 triplets): a block of 32 shares each pass over the couplings")
    model = triplet_model(1000, 3000)
    for n_chains in (1, 4, 16, 32, 128):
        print(f"{n_chains:6d} chains: {lanes_rate(model, n_chains, 1) / 1e6:7.1f} million updates per second")


if __name__ == "__main__":
    main()
