"""Tests of every interaction, beside the fit itself: processor time in one thread, and ratios in the same run.

    python benchmarks/bench_tests.py          # a minute
    python benchmarks/bench_tests.py --full   # with the fit at order 3 of the sparse table

- ±1, n = 20 and n = 50, M = 10,000, order 3: 25 and 60 pairs, 12 and 30 triplets of size 0.2 to 0.4 are there.
  Reference: HBM(order=3).fit on the same table.
- 0/1, n = 60, M = 50,000, rates 0.01 to 0.05, order 3: 20 pairs and 5 triplets of events that come together.
  Reference: HBM(order=2).fit.

Beside them the matrix products alone of two screens of all triplets, at one node each, and of tests of all pairs:
2 R P operations a triplet and 10 R P a pair (R distinct rows, P parameters of a node), at the speed that a product of
the same shape reaches here. A second screen leaves out nodes at which nothing changed, so less can be needed.
"""

from __future__ import annotations

import sys
import time
from math import comb

import numpy as np
from threadpoolctl import threadpool_limits

from hbm_learn import HBM, BoltzmannMachine, sample
from hbm_learn.assessment import nested
from hbm_learn.assessment.node_data import DistinctRows
from hbm_learn.data.samples import Samples
from hbm_learn.terms import Terms, all_terms


def seconds(work):
    """Processor time: other load on the machine adds little to it."""
    start = time.process_time()
    out = work()
    return time.process_time() - start, out


def spins(n, M, counts, seed):
    rng = np.random.default_rng([912, seed, n])
    J = {}
    for k, count in counts.items():
        total = len(J) + count
        while len(J) < total:
            mu = tuple(sorted(rng.choice(n, k, replace=False).tolist()))
            J[mu] = float(rng.choice([-1, 1]) * rng.uniform(0.2, 0.4))
    model = BoltzmannMachine(rng.normal(0, 0.1, n), J)
    return sample(model, M, burn_in=200, thin=5, random_state=seed).astype(np.int8)


def events(n, M, seed):
    rng = np.random.default_rng([77, seed, n, M])
    X = (rng.random((M, n)) < rng.uniform(0.01, 0.05, n)).astype(np.int8)
    for k, count, share in ((2, 20, 500), (3, 5, 1000)):
        for _ in range(count):
            X[np.ix_(rng.integers(0, M, M // share), rng.choice(n, k, replace=False))] = 1
    return X


def product_speed(P):
    """Operations a second of a block of candidates times the parameters of a node."""
    G, Phi = np.random.default_rng(0).random((64, 2048)), np.random.default_rng(1).random((P, 2048))
    return 2.0 * 64 * 2048 * P * 200 / seconds(lambda: [G @ Phi.T for _ in range(200)])[0]


def tests(X):
    """Seconds of the tests, what was selected, and seconds of the products alone."""
    samples = Samples.check(X)
    rows, considered = DistinctRows.of(samples), Terms(samples.space, all_terms(3, samples.space))
    took, (chosen, _) = seconds(lambda: nested.select(rows, considered, 0.05, n_jobs=1))
    n, R = X.shape[1], len(rows.weights)
    products = 2.0 * R * n * (2 * comb(n, 3) + 5 * comb(n, 2))
    return took, {k: len(chosen.block(k)) for k in chosen.orders}, products / product_speed(n)


def main():
    for order in (2, 3):  # compile
        X = np.random.default_rng(0).choice([-1, 1], (300, 6))
        HBM(order=order, fdr=0.05).fit(X)
        HBM(order=order, n_jobs=1).fit(np.random.default_rng(0).choice([-1, 1], (2000, 20)))
    tables = [
        ("±1, n = 20, M = 10,000", spins(20, 10_000, {2: 25, 3: 12}, 1), 3),
        ("±1, n = 50, M = 10,000", spins(50, 10_000, {2: 60, 3: 30}, 2), 3),
        ("0/1, n = 60, M = 50,000", events(60, 50_000, 3), 2),
    ]
    for name, X, order in tables:
        fit, _ = seconds(lambda X=X, order=order: HBM(order=order, n_jobs=1).fit(X))
        took, found, products = tests(X)
        print(f"{name}: tests of order 3, which select {found}")
        print(f"  fit of order {order} {fit:6.2f} s   tests {took:6.2f} s   tests / fit {took / fit:.2f}", flush=True)
        print(f"  products alone   {products:6.2f} s   tests / products {took / products:.1f}", flush=True)
        if order == 2 and "--full" in sys.argv:
            three, _ = seconds(lambda X=X: HBM(order=3, n_jobs=1).fit(X))
            print(f"  fit of order 3   {three:6.2f} s   (tests + it) / fit of order 2 {(took + three) / fit:.1f}")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
