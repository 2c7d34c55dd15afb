"""Missing cells: are errors, intervals and tests of fits with gaps what they claim?

    python benchmarks/bench_missing.py --sets 20 --seed 1

Planted ±1 models, some of all pairs and triplets not zero. Cells are missing completely at random (10 %, 30 %), or at
random given the first two columns, which are always observed: most where these agree, so that complete rows are no fair
sample.

worth     mean of n_effective over the number of rows
z rms     root mean square of (estimate − truth) / standard error without a prior, of zeros (0) and of others (J)
cover0    95 % intervals without a prior that hold the truth
rmse      root mean square error, over that of as many complete rows as the interactions are worth; free: no prior
cover     95 % intervals under the learnt prior that hold the truth, of zeros (0) and of others (J), and of these by so
          many complete rows
>1.96 >3  share of |z| of tests of zeros (nominal .05, .0027)
s         seconds of a fit under the learnt prior
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from hbm_learn import HBM, BoltzmannMachine, sample


def planted(n, order, rng):
    """±1 model with pairs along a random graph and, for order 3, some triplets; all pairs and triplets considered."""
    pairs = {}
    for _ in range(int(1.5 * n)):
        i, j = sorted(rng.choice(n, 2, replace=False).tolist())
        pairs[i, j] = rng.choice([-1, 1]) * rng.uniform(0.1, 0.35)
    for _ in range(n // 3 if order == 3 else 0):
        mu = tuple(sorted(rng.choice(n, 3, replace=False).tolist()))
        pairs[mu] = rng.choice([-1, 1]) * rng.uniform(0.1, 0.35)
    return BoltzmannMachine(rng.normal(0, 0.2, n), pairs)


def with_gaps(X, mechanism, rng):
    X = X.astype(float)
    if mechanism == "mar":
        p = np.where(X[:, 0] == X[:, 1], 0.35, 0.05)[:, None] * (np.arange(X.shape[1]) > 1)
    else:
        p = float(mechanism.removeprefix("mcar")) / 100
    X[rng.random(X.shape) < p] = np.nan
    return X


def one(cell, mechanism, seed):
    """Deviates without a prior, errors and coverage of one data set, zeros and others apart."""
    n, M, order, refine = cell
    rng = np.random.default_rng(seed)
    model = planted(n, order, rng)
    X = sample(model, M, random_state=rng)
    holes = with_gaps(X, mechanism, rng)
    out = {}
    options = {"order": order, "refine": refine, "random_state": int(rng.integers(2**31))}
    begin = time.perf_counter()
    est = HBM(**options).fit(holes)
    out["seconds"] = time.perf_counter() - begin
    truth = np.array([model.couplings().get(mu, 0.0) for mu in est.interactions_])
    zero = truth == 0.0
    low, high = est.confidence_intervals(0.95).T
    inside = (low <= truth) & (truth <= high)
    out["cover zeros"], out["cover others"] = inside[zero], inside[~zero]
    out["null z"] = est.tests_.z[zero]
    worth = est.to_frame()["n_effective"].mean()
    few = HBM(**options).fit(X[: round(worth)])
    low, high = few.confidence_intervals(0.95).T
    out["cover complete"] = ((low <= truth) & (truth <= high))[~zero]
    out["rmse"], out["rmse complete"] = est.weights_ - truth, few.weights_ - truth
    out["share"] = worth / M
    free = HBM(**options, alpha=0.0).fit(holes)
    z = (free.weights_ - truth) / free.standard_errors_
    out["z zeros"], out["z others"] = z[zero], z[~zero]
    few = HBM(**options, alpha=0.0).fit(X[: round(worth)])
    out["free rmse"], out["free rmse complete"] = free.weights_ - truth, few.weights_ - truth
    return out


def rms(x):
    return float(np.sqrt(np.mean(np.square(x))))


CELLS = {
    "n=12 exact, order 2": (12, 1500, 2, "auto"),
    "n=12 exact, order 3": (12, 3000, 3, "auto"),
    "n=12 pseudo, order 2": (12, 1500, 2, "pseudolikelihood"),
    "n=40 pseudo, order 2": (40, 3000, 2, "auto"),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cells", default=",".join(map(str, range(len(CELLS)))))
    parser.add_argument("--mechanisms", default="mcar10,mcar30,mar")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'cell':22}{'gaps':8}{'worth':>6}{'z rms 0':>8}{'z rms J':>8}{'cover0':>7}{'rmse':>6}{'free':>6}"
          f"{'cover 0':>8}{'cover J':>8}{'(rows)':>8}{'>1.96':>7}{'>3':>7}{'s':>6}")  # fmt: skip
    for c in map(int, args.cells.split(",")):
        name, cell = list(CELLS.items())[c]
        for mechanism in args.mechanisms.split(","):
            found = [one(cell, mechanism, [args.seed, c, k]) for k in range(args.sets)]
            get = {key: np.concatenate([np.atleast_1d(f[key]) for f in found]) for key in found[0]}
            z = np.concatenate([get["z zeros"], get["z others"]])
            print(
                f"{name:22}{mechanism:8}{get['share'].mean():6.2f}{rms(get['z zeros']):8.3f}{rms(get['z others']):8.3f}"
                f"{np.mean(np.abs(z) < 1.96):7.3f}{rms(get['rmse']) / rms(get['rmse complete']):6.2f}"
                f"{rms(get['free rmse']) / rms(get['free rmse complete']):6.2f}{get['cover zeros'].mean():8.3f}"
                f"{get['cover others'].mean():8.3f}{get['cover complete'].mean():8.3f}"
                f"{np.mean(np.abs(get['null z']) > 1.96):7.4f}{np.mean(np.abs(get['null z']) > 3):7.4f}"
                f"{get['seconds'].mean():6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
