"""The closed form with and without its corrections: error by strength and by samples, calibration, time, refinement.

    python benchmarks/bench_closed_form.py [--models 50] [--part exact|exponent|samples|calibration|time|refine …]

Models of J_ij ~ N(0, β²/n), J_ijk ~ N(0, β²/n²), h ~ N(0, 0.3²) on {−1, 1}. Errors of couplings are relative, in the
Frobenius norm, and means over the models; tables are Markdown.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Moments, datasets, infer, invert, sample
from hbm_learn.data.samples import Samples
from hbm_learn.inversion import METHODS
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.states import StateTable

LEVELS = ("none", "clusters", "loops", "auto")


def make(n: int, beta: float, seed: int, h_std: float = 0.3, triplets: float = 1.0) -> BoltzmannMachine:
    stds = {2: beta / np.sqrt(n), 3: triplets * beta / n}
    return datasets.make_random(n, stds, h_std, random_state=[seed, n, round(1000 * beta)])


def exact_moments(model: BoltzmannMachine) -> Moments:
    table = StateTable(model)
    return Moments.from_distribution(table.codes(np.arange(len(table.p))), table.p, 3, space=model.space)


def relative(found: np.ndarray, true: np.ndarray) -> float:
    return float(np.linalg.norm(found - true) / np.linalg.norm(true))


def errors(model: BoltzmannMachine, moments: Moments, level: str) -> list[float]:
    """Of J, T and h."""
    found = invert(moments, alpha=0.0, corrections=level).model
    return [relative(found.weights[s], model.weights[s]) for s in map(model.columns.slice, (2, 3))] + [
        relative(found.h, model.h)
    ]


def exact(models: int) -> None:
    """Exact moments, n = 10."""
    print("\n| β | " + " | ".join(f"J {x}" for x in LEVELS) + " | " + " | ".join(f"T {x}" for x in LEVELS), end=" | ")
    print("h none | h field | h auto |\n" + "|---" * (2 * len(LEVELS) + 4) + "|")
    for beta in (0.1, 0.3, 0.5, 0.8):
        told = []
        for seed in range(models):
            model = make(10, beta, seed)
            moments = exact_moments(model)
            told.append([errors(model, moments, level) for level in (*LEVELS, "field")])
        J, T, h = np.mean(told, axis=0).T
        cells = [*J[:4], *T[:4], h[0], h[4], h[3]]
        print(f"| {beta} | " + " | ".join(f"{x:.3g}" for x in cells) + " |", flush=True)


def exponent(models: int) -> None:
    """Slope of ln(relative error) in ln β: 1 is an error of second order, 2 one of third."""
    strengths = np.array([0.02, 0.04, 0.08])
    print("\n| corrections | J | T | h |\n|---|---|---|---|")
    for level in ("none", "field", "auto"):
        told = []
        for beta in strengths:
            found = []
            for seed in range(max(models // 5, 1)):
                model = make(8, 1.0, seed)
                model = BoltzmannMachine.from_packed(model.h, model.columns, beta * model.weights)
                found.append(errors(model, exact_moments(model), level))
            told.append(np.mean(found, axis=0))
        slopes = np.polyfit(np.log(strengths), np.log(told), 1)[0]
        print(f"| {level} | " + " | ".join(f"{x:.2f}" for x in slopes - np.array([0, 0, 1.0])) + " |", flush=True)


FAMILIES = {
    "pairs and triplets, β = .3": lambda n, seed: make(n, 0.3, seed),
    "pairs and triplets, β = .5": lambda n, seed: make(n, 0.5, seed),
    "pairs and triplets, β = .8": lambda n, seed: make(n, 0.8, seed),
    "pairs alone, β = .5, h ~ N(0, 1)": lambda n, seed: make(n, 0.5, seed, 1.0, 0.0),
    "n pairs and n/2 triplets of .2 to .4": lambda n, seed: datasets.make_planted(
        n, {2: n, 3: n // 2}, (0.2, 0.4), 0.3, random_state=seed
    ),
}


def samples(models: int) -> None:
    """Errors of effects over those without corrections: medians, and the largest."""
    print("\n| models | n | M | J clusters | J auto | T clusters | T auto |\n|---|---|---|---|---|---|---|")
    for name, family in FAMILIES.items():
        for n in (12, 50):
            drawn = []
            for seed in range(max(models // 10, 1)):
                model = family(n, seed)
                drawn.append((model, np.asarray(sample(model, 100_000, burn_in=100, random_state=seed))))
            for M in (1000, 10_000, 100_000):
                ratios = np.array([_ratios(model, X[:: 100_000 // M]) for model, X in drawn])
                cells = [f"{np.median(x):.2f} ({x.max():.2f})" for x in ratios.T]
                print(f"| {name} | {n} | {M} | " + " | ".join(cells) + " |", flush=True)


def _ratios(model: BoltzmannMachine, X: np.ndarray) -> list[float]:
    moments = Moments.from_samples(X, 3, (-1, 1))
    true = model.in_space(moments.standard.space)
    out = []
    for level in ("none", "clusters", "auto"):
        found = invert(moments, alpha=0.0, corrections=level)
        columns, weights = found.model.columns, np.zeros(len(found.model.columns))
        weights[columns.positions(true.columns)] = true.column_weights
        off = found.column_effects - weights
        out.append([float(np.linalg.norm(off[columns.slice(k)])) for k in (2, 3)])
    none, clusters, auto = out
    return [clusters[0] / none[0], auto[0] / none[0], clusters[1] / none[1], auto[1] / none[1]]


def calibration(models: int) -> None:
    """z of absent triplets (and of absent pairs where there are none): standard deviation, and share beyond 1.96."""
    print("\n| null | M | none | auto |\n|---|---|---|---|")
    for name, order, beta in (("triplets, pairs of β = .5", 3, 0.5), ("pairs, independent spins, h ~ N(0, 1)", 2, 0.0)):
        for M in (2000, 20_000):
            z: dict[str, list[np.ndarray]] = {"none": [], "auto": []}
            for seed in range(max(models // 10, 1)):
                model = make(30, beta, seed, 1.0 if beta == 0.0 else 0.1, 0.0)
                moments = Moments.from_samples(sample(model, M, burn_in=100, thin=3, random_state=seed), 3, (-1, 1))
                for level, values in z.items():
                    found = invert(moments, alpha=0.0, corrections=level)
                    where = found.model.columns.slice(order)
                    values.append((found.column_effects / found.column_sampling_errors)[where])
            cells = [(np.std(np.concatenate(v)), np.mean(np.abs(np.concatenate(v)) > 1.96)) for v in z.values()]
            print(f"| {name} | {M} | " + " | ".join(f"{s:.3f}, {100 * t:.1f} %" for s, t in cells) + " |", flush=True)


def timing(models: int) -> None:
    """The closed form from the moments, and with the moments, over the same without corrections; best of several."""
    print("\n| n | M | moments | none | auto | auto / none | with moments |\n|---|---|---|---|---|---|---|")
    rng = np.random.default_rng(0)
    for n in (50, 100, 200):
        X = rng.choice(np.array([-1, 1], dtype=np.int8), (100_000, n))
        start = time.perf_counter()
        moments = Moments.from_samples(X, 3)
        best = {"moments": time.perf_counter() - start, "none": np.inf, "auto": np.inf}
        for _ in range(7):
            start = time.perf_counter()
            moments = Moments.from_samples(X, 3)
            best["moments"] = min(best["moments"], time.perf_counter() - start)
            for level in ("none", "auto"):
                start = time.perf_counter()
                invert(moments, corrections=level)
                best[level] = min(best[level], time.perf_counter() - start)
        whole = (best["moments"] + best["auto"]) / (best["moments"] + best["none"])
        cells = " | ".join(f"{x:.3f}" for x in best.values())
        print(f"| {n} | 100000 | {cells} | {best['auto'] / best['none']:.2f} | {whole:.2f} |", flush=True)


def refine(models: int) -> None:
    """Passes and time of the refinement from the closed form without and with corrections, without a prior."""
    print("\n| refinement | n | β | passes none | auto | seconds none | auto |\n|---|---|---|---|---|---|---|")
    for name, n, M in (("likelihood", 10, 20_000), ("pseudolikelihood", 30, 20_000)):
        for beta in (0.2, 0.4, 0.6):
            told: dict[str, list[tuple[int, float]]] = {"none": [], "auto": []}
            for seed in range(max(models // 10, 1)):
                X = sample(make(n, beta, seed), M, burn_in=100, random_state=seed)
                data = Samples.check(X, (-1, 1))
                moments = Moments.from_samples(data, 3)
                for level, values in told.items():
                    start = invert(moments, alpha=0.0, corrections=level)
                    theta = Parameters(moments.standard.space, start.model.columns, "free", moments.frequencies)
                    consumes, prepare = METHODS[name]
                    method = prepare(moments if consumes == "moments" else data, theta, 1)
                    begin = time.perf_counter()
                    fit = method.fit(Prior({2: 0.0, 3: 0.0}), theta.pack(start.model))
                    values.append((fit.n_iter, time.perf_counter() - begin))
            (a, s), (b, t) = (np.mean(v, axis=0) for v in told.values())
            print(f"| {name} | {n} | {beta} | {a:.1f} | {b:.1f} | {s:.2f} | {t:.2f} |", flush=True)


PARTS = {
    "exact": exact,
    "exponent": exponent,
    "samples": samples,
    "calibration": calibration,
    "time": timing,
    "refine": refine,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=50)
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    infer(make(4, 0.1, 0), "exact")
    with threadpool_limits(1):
        for part in options.part:
            PARTS[part](options.models)


if __name__ == "__main__":
    main()
