"""Moments by packed bits against BLAS: python benchmarks/bench_moments.py

Triplets, n = 100, M = 100,000: packed bits take n³M/6/64 ≈ 2.7·10⁸ AND + popcount on 64-bit words, B³ times as many
for B bit planes; the reference is the same moments by BLAS, X'(x_k ∘ X) on blocks of rows for each k, 2n³M/3 ≈ 7·10¹⁰
flops. Pairs, n = 1000, M = 100,000: 7.8·10⁸ words; the reference is one product X'X, n²M ≈ 10¹¹ flops with its symmetry
used. Times of ours begin at the user's array: checking and encoding included. Each is the best of three runs, in wall
seconds and in CPU seconds of all threads together; the latter hardly feel other load on the machine, so that ratios are
of them. References run in one BLAS thread: waiting threads would count as busy.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np
from threadpoolctl import threadpool_limits

from hbm_learn import Moments
from hbm_learn.data.samples import Samples


def seconds(work, repeats=3):
    """(CPU, wall) seconds of the best run."""
    times = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        times.append((time.process_time() - cpu, time.perf_counter() - wall))
    return min(times)


def blas_seconds(work):
    with threadpool_limits(1, user_api="blas"):
        return seconds(work)


def blas_triplets(X):
    n = X.shape[1]
    total = np.zeros((n, n, n))
    for lo in range(0, len(X), 2000):
        block = X[lo : lo + 2000].astype(np.float64)
        for k in range(n):
            total[k, : k + 1, : k + 1] += block[:, : k + 1].T @ (block[:, : k + 1] * block[:, [k]])
    return total


def line(label, ours, reference=None):
    ratio = "" if reference is None else f"{reference[0] / ours[0]:9.1f} ×"
    print(f"  {label:34s} {ours[0]:8.3f} s CPU {ours[1]:8.3f} s wall {ratio}")


def triplets():
    rng = np.random.default_rng(0)
    print("n = 100, M = 100,000, order 3")
    X = rng.choice([-1, 1], (100_000, 100))
    reference = blas_seconds(lambda: blas_triplets(X))
    line("reference: BLAS, float64", reference)
    line("spins, int64", seconds(lambda: Moments.from_samples(X, 3)), reference)
    for dtype in (np.int8, np.float64):
        Y = X.astype(dtype)
        line(f"spins, {Y.dtype}", seconds(lambda Y=Y: Moments.from_samples(Y, 3)), reference)
    line("  of which checked and encoded", seconds(lambda: Samples.check(X)), reference)
    stats = Moments.from_samples(X, 3)
    line("  cumulant(3), dense", seconds(lambda: Moments.cumulant(stats, 3)), reference)
    counts, floats = rng.poisson(1.0, len(X)), rng.random(len(X))
    line("spins, bootstrap counts", seconds(lambda: Moments.from_samples(X, 3, (-1, 1), counts)), reference)
    line("spins, float weights", seconds(lambda: Moments.from_samples(X, 3, (-1, 1), floats), 1), reference)
    for q in (3, 4, 8, 16):
        Z = rng.integers(0, q, X.shape, dtype=np.int8)
        line(f"{q} values", seconds(lambda Z=Z: Moments.from_samples(Z, 3), 2), reference)


def pairs():
    X = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), (100_000, 1000))
    print("n = 1000, M = 100,000, order 2")
    ours = seconds(lambda: Moments.from_samples(X, 2))
    for dtype in (np.float64, np.float32):
        Y = X.astype(dtype)
        product = blas_seconds(lambda Y=Y: Y.T @ Y)
        line(f"reference: X'X, {Y.dtype}", product)
        line("spins, int8", ours, product)
        line(f"spins, {Y.dtype}", seconds(lambda Y=Y: Moments.from_samples(Y, 2)), product)


def quadruplets():
    X = np.random.default_rng(0).choice([-1, 1], (100_000, 30))
    print("n = 30, M = 100,000, order 4: 27,405 quadruplets")
    line("spins, int64", seconds(lambda: Moments.from_samples(X, 4)))


MEMORY = """
import resource
import numpy as np
from hbm_learn import Moments
Moments.from_samples(np.eye(8, dtype=np.int8), 3).cumulant(3)
X = np.random.default_rng(0).integers(0, 2, (100_000, 100), dtype=np.int8)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
Moments.from_samples(X, 3).cumulant(3)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(f"n = 100, M = 100,000, order 3: peak {after / 2**10:.0f} MiB, {(after - before) / 2**10:.0f} MiB of it ours")
"""


def main():
    subprocess.run([sys.executable, "-c", MEMORY], check=True)  # first: a child's peak begins at its parent's
    Moments.from_samples(np.eye(8), 4, sample_weight=np.arange(1, 9)).cumulant(4)  # compile
    Moments.from_samples(np.arange(4)[:, None] * np.ones(2), 3)
    triplets()
    pairs()
    quadruplets()


if __name__ == "__main__":
    main()
