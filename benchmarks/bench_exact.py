"""Exact inference against enumeration with a feature matrix: python benchmarks/bench_exact.py

Reference, at n = 16: the matrix of all 2^n states × (variables, pairs, triplets) in float64, energies = features @ θ,
p = softmax, moments = p @ features. Its two products are 4·2^n·P flops and read 8·2^n·P bytes twice (365 MB at n = 16,
P = 696). The table takes n·2^(n−1) butterflies of 6 flops a transform, three transforms in all, each reading and
writing its 8·2^n bytes twice. The reference gives ln Z and the moments; ``infer`` also gives χ, entropy and cumulants.
"""

from __future__ import annotations

import subprocess
import sys
import time

import numpy as np

from hbm_learn import BoltzmannMachine, Interactions
from hbm_learn.inference import infer
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.states import StateTable


def random_model(n, alphabet=(-1, 1)):
    rng = np.random.default_rng(0)
    interactions = Interactions.upto(3, n)
    weights = rng.normal(size=len(interactions)) * 0.5 / n ** (0.5 * np.diff(interactions.indptr) - 0.5)
    return BoltzmannMachine.from_packed(0.1 * rng.normal(size=n), interactions, weights, 0.0, alphabet)


def best_time(function, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        value = function()
        times.append(time.perf_counter() - start)
    return min(times), value


def feature_matrix(model):
    n = model.n_features
    X = 2.0 * (np.arange(2**n)[:, None] >> np.arange(n) & 1) - 1.0
    features = np.empty((2**n, n + len(model.columns)))
    features[:, :n] = X
    for k in model.columns.orders:
        where = model.columns.slice(k)
        block = model.columns.block(k)
        out = features[:, n + where.start : n + where.stop]
        out[:] = X[:, block[:, 0]]
        for j in range(1, k):
            out *= X[:, block[:, j]]
    return features


def moments_by_products(features, theta):
    energy = features @ theta
    peak = energy.max()
    p = np.exp(energy - peak)
    z = p.sum()
    p /= z
    return peak + np.log(z), p @ features


def parameters(model, columns=None):
    """θ = (own, J) of a model, in its own gauge."""
    even = [np.full(q, 1.0 / q) for q in model.space.sizes]
    return Parameters(model.space, model.columns if columns is None else columns, "quadratic", even)


def against_features(n=16):
    model = random_model(n)
    theta = np.concatenate([model.h, model.weights])
    infer(model, method="exact")
    build, features = best_time(lambda: feature_matrix(model), 3)
    products, (log_z, moments) = best_time(lambda: moments_by_products(features, theta), 5)
    ours, result = best_time(lambda: infer(model, method="exact"), 20)
    table, _ = best_time(lambda: StateTable(model).statistics(parameters(model)), 20)
    error = np.abs(np.concatenate([result.m, result.interaction_moments]) - moments).max()
    print(f"n = {n}, order 3, P = {len(theta)} parameters; largest difference of a moment {error:.1e}, "
          f"of ln Z {abs(log_z - result.log_partition):.1e}")  # fmt: skip
    print(f"  {'':44}{'time':>12}{'ratio':>10}")
    rows = [
        ("features, energies, moments", build + products, ours),
        ("the two products alone (matrix kept)", products, table),
    ]
    for (name, seconds, own), label in zip(rows, ("infer(model, 'exact')", "ln Z and moments by StateTable")):
        print(f"  {name:44}{1e3 * seconds:>9.2f} ms")
        print(f"  {label:44}{1e3 * own:>9.2f} ms{seconds / own:>9.0f}x")


def peak_memory():
    """Peak resident GiB of this process (Linux); getrusage would count the parent's, too."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 2**20


def one_size(n, alphabet):
    """Whole inference at one size, in this process, with the peak resident memory of it."""
    model = random_model(n, alphabet)
    infer(random_model(4, alphabet), method="exact")
    small = random_model(4, alphabet)
    StateTable(small).fisher(parameters(small))
    seconds, _ = best_time(lambda: infer(model, method="exact"), 3)
    table = StateTable(model)
    pairs = Interactions.upto(2, n)
    table.fisher(parameters(model, pairs))  # the transform, apart
    fisher, F = best_time(lambda: table.fisher(parameters(model)), 3)
    peak = peak_memory()
    print(f"{n:>4}  {alphabet!s:14}{len(alphabet) ** n:>12,}{1e3 * seconds:>13.1f} ms{1e3 * fisher:>11.1f} ms"
          f"{len(F):>8}{peak:>9.2f} GiB", flush=True)  # fmt: skip


def main():
    against_features()
    print(f"\n   n  {'alphabet':14}{'states':>12}{'infer':>16}{'Fisher':>14}{'P':>8}{'peak RSS':>13}", flush=True)
    for n, alphabet in ((16, "-1 1"), (20, "-1 1"), (20, "0 1"), (24, "-1 1"), (15, "-1 0 1"), (12, "0 1 2 3")):
        subprocess.run([sys.executable, __file__, str(n), *alphabet.split()], check=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        one_size(int(sys.argv[1]), tuple(int(x) for x in sys.argv[2:]))
    else:
        main()
