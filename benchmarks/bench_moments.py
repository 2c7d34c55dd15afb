"""Moments by packed bits against BLAS: python benchmarks/bench_moments.py

Triplets, n = 100, M = 100,000: packed bits take n³M/6/64 ≈ 2.7·10⁸ AND + popcount on 64-bit words, B³ times as many
for B bit planes; the reference is the same moments by BLAS, X'(x_k ∘ X) on blocks of rows for each k, 2n³M/3 ≈ 7·10¹⁰
flops. Pairs, n = 1000, M = 100,000: 7.8·10⁸ words; the reference is one product X'X, n²M ≈ 10¹¹ flops with its symmetry
used. Times of ours begin at the user's array: checking and encoding included. Each is the best of a few runs; a
reference is the better of one BLAS thread and all of them, as threads that wait for each other suffer under other load.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from hbm_learn import Moments
from hbm_learn.samples import Samples


def seconds(work, repeats=3):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def blas_seconds(work, repeats=2):
    with threadpool_limits(1, user_api="blas"):
        alone = seconds(work, repeats)
    return min(alone, seconds(work, repeats))


def blas_triplets(X):
    n = X.shape[1]
    total = np.zeros((n, n, n))
    for lo in range(0, len(X), 2000):
        block = X[lo : lo + 2000].astype(np.float64)
        for k in range(n):
            total[k, : k + 1, : k + 1] += block[:, : k + 1].T @ (block[:, : k + 1] * block[:, [k]])
    return total


def line(label, ours, reference, what):
    print(f"  {label:34s} {ours:8.3f} s   {what} {reference:7.2f} s   {reference / ours:7.1f} ×")


def triplets():
    rng = np.random.default_rng(0)
    print("n = 100, M = 100,000, order 3")
    X = rng.choice([-1, 1], (100_000, 100))
    reference = blas_seconds(lambda: blas_triplets(X))
    line("spins, int64", seconds(lambda: Moments.from_samples(X, 3)), reference, "BLAS")
    for dtype in (np.int8, np.float64):
        Y = X.astype(dtype)
        line(f"spins, {Y.dtype}", seconds(lambda Y=Y: Moments.from_samples(Y, 3)), reference, "BLAS")
    line("  of which checked and encoded", seconds(lambda: Samples.check(X)), reference, "BLAS")
    stats = Moments.from_samples(X, 3)
    line("  cumulant(3), dense", seconds(lambda: Moments.cumulant(stats, 3)), reference, "BLAS")
    counts, floats = rng.poisson(1.0, len(X)), rng.random(len(X))
    line("spins, bootstrap counts", seconds(lambda: Moments.from_samples(X, 3, (-1, 1), counts)), reference, "BLAS")
    line("spins, float weights", seconds(lambda: Moments.from_samples(X, 3, (-1, 1), floats), 1), reference, "BLAS")
    for q in (3, 4, 8, 16):
        Z = rng.integers(0, q, X.shape, dtype=np.int8)
        line(f"{q} values", seconds(lambda Z=Z: Moments.from_samples(Z, 3), 2), reference, "BLAS")


def pairs():
    X = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), (100_000, 1000))
    ours = {X.dtype: seconds(lambda: Moments.from_samples(X, 2))}
    print("n = 1000, M = 100,000, order 2")
    for dtype in (np.float64, np.float32):
        Y = X.astype(dtype)
        product = blas_seconds(lambda Y=Y: Y.T @ Y)
        line("spins, int8", ours[X.dtype], product, f"X'X {Y.dtype}")
        line(f"spins, {Y.dtype}", seconds(lambda Y=Y: Moments.from_samples(Y, 2)), product, f"X'X {Y.dtype}")


def quadruplets():
    X = np.random.default_rng(0).choice([-1, 1], (100_000, 30))
    print("n = 30, M = 100,000, order 4: 27,405 quadruplets")
    print(f"  spins {seconds(lambda: Moments.from_samples(X, 4)):.3f} s")


MEMORY = """
import resource, numpy as np
from hbm_learn import Moments
Moments.from_samples(np.eye(8, dtype=np.int8), 3).cumulant(3)
X = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), (100_000, 100))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
Moments.from_samples(X, 3).cumulant(3)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"n = 100, M = 100,000, order 3: peak {after / 2**10:.0f} MiB, {(after - before) / 2**10:.0f} MiB of it ours")
"""


def main():
    Moments.from_samples(np.eye(8), 4, sample_weight=np.arange(1, 9)).cumulant(4)  # compile
    Moments.from_samples(np.arange(4)[:, None] * np.ones(2), 3)
    triplets()
    pairs()
    quadruplets()
    subprocess.run([sys.executable, "-c", MEMORY], check=True)


if __name__ == "__main__":
    main()
