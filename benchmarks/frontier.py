"""Error against time: every way to the pairs of a table, ours and the peers', on three kinds of data.

    python -m benchmarks.frontier [--sets 5] [--write]

Dense ±1 (SK, β = 0.5, n = 40, M = 5000), sparse 0/1 (events at rates of 5 to 15 %, n = 40, M = 20,000, one pair in
twenty there) and ratings -2 … 2 (n = 20, M = 5000, neighbours on a ring). Error: ‖Ĵ − J‖/‖J‖ of the pairs. Time:
processor seconds in one thread, compilation left out. ``--write`` draws docs/images/error_against_time.png.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402

from benchmarks import races  # noqa: E402
from hbm_learn import HBM, BoltzmannMachine, Moments, datasets, invert, sample  # noqa: E402

IMAGE = Path(__file__).parents[1] / "docs" / "images" / "error_against_time.png"
Way = Callable[[np.ndarray], np.ndarray]


def dense(seed: int) -> BoltzmannMachine:
    return datasets.make_sk(40, 0.5, h_std=0.1, random_state=seed)


def sparse(seed: int) -> BoltzmannMachine:
    rng = np.random.default_rng(seed)
    pairs = [(i, j) for i in range(40) for j in range(i) if rng.random() < 0.05]
    J = dict(zip(pairs, rng.choice([0.8, -0.8], len(pairs)) * rng.uniform(0.5, 1.5, len(pairs))))
    return BoltzmannMachine(np.log(rng.uniform(0.05, 0.15, 40)), J, alphabet=(0, 1))


def ratings(seed: int) -> BoltzmannMachine:
    rng = np.random.default_rng(seed)
    J = {(i, (i + 1) % 20): x for i, x in enumerate(rng.uniform(0.05, 0.25, 20))}
    return BoltzmannMachine(0.2 * rng.normal(size=20), J, d=0.4, alphabet=(-2, -1, 0, 1, 2))


KINDS: dict[str, tuple[Callable[[int], BoltzmannMachine], int]] = {
    "dense ±1": (dense, 5000),
    "sparse 0/1": (sparse, 20_000),
    "ratings": (ratings, 5000),
}


def _fit(**options: Any) -> Way:
    def way(X: np.ndarray) -> np.ndarray:
        return HBM(order=2, n_jobs=1, random_state=0, **options).fit(X).weights_

    return way


def _closed_form(X: np.ndarray) -> np.ndarray:
    return invert(Moments.from_samples(X, order=2)).model.weights


def _alone(X: np.ndarray) -> np.ndarray:
    return races.by_us(X)["bare"]()


def _mean_field(X: np.ndarray) -> np.ndarray:
    C = np.cov(X.T.astype(float))
    return -np.linalg.inv(C)[np.triu_indices(len(C), 1)]


def ways(kind: str) -> dict[str, Way]:
    """Every way that there is for a kind of data; peers that are not installed are left out."""
    spins = kind == "dense ±1"
    out: dict[str, Way] = {
        "HBM(), errors and checks": _fit(),
        "closed form": _closed_form,
        "pseudolikelihood": _alone,
        "naive mean field": _mean_field,
    }
    if kind != "ratings":
        out["scikit-learn, node-wise"] = lambda X: races.nodewise(X.astype(float)) / (2.0 if spins else 1.0)
    with contextlib.suppress(ImportError):
        import psyspin

        if spins:
            out["psyspin"] = lambda X: races.peer_pairs(psyspin.generalizedIsing_inference(2), X / 2.0) / 4.0
        elif kind == "ratings":
            out["psyspin"] = lambda X: races.peer_pairs(psyspin.generalizedBC_inference(5), X.astype(float))
    with contextlib.suppress(ImportError):
        from joblib import Parallel
        from pyplm.inference.pseudolikelihoodmax import plm

        if spins:
            out["pseudolm"] = lambda X: np.asarray(plm(X, Parallel(n_jobs=1)))[np.triu_indices(X.shape[1], 1)]
    return out


def measure(kind: str, sets: int) -> dict[str, tuple[float, float]]:
    """{way: (median seconds, root mean square relative error)}."""
    make, M = KINDS[kind]
    found: dict[str, list[tuple[float, float]]] = {}
    for seed in range(sets + 1):
        model = make(seed)
        X = np.asarray(sample(model, M, random_state=1000 + seed))
        true = model.J[np.triu_indices(model.n_features, 1)]
        for name, way in ways(kind).items():
            with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begin = time.process_time()
                J = way(X)
                spent = time.process_time() - begin
            if seed:  # the first compiles
                found.setdefault(name, []).append((spent, float(np.linalg.norm(J - true) / np.linalg.norm(true))))
    return {
        name: (float(np.median([s for s, _ in each])), float(np.sqrt(np.mean([e**2 for _, e in each]))))
        for name, each in found.items()
    }


def draw(found: dict[str, dict[str, tuple[float, float]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(found), figsize=(11, 3.6), constrained_layout=True)
    names = list(dict.fromkeys(name for kind in found.values() for name in kind))
    ours = {"HBM(), errors and checks", "closed form", "pseudolikelihood"}
    markers = dict(zip(names, "osD^vPX*"))
    for ax, (kind, ways_of) in zip(axes, found.items()):
        for name, (seconds, error) in ways_of.items():
            colour = "tab:blue" if name in ours else "0.45"
            ax.scatter(seconds, error, marker=markers[name], s=60, color=colour, label=name)
        top = 1.2 * max(error for _, error in ways_of.values())
        ax.set(xscale="log", ylim=(0.0, top), title=kind, xlabel="processor seconds")
    axes[0].set_ylabel("relative error of the pairs")
    handles = {label: handle for ax in axes for handle, label in zip(*ax.get_legend_handles_labels())}
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    figure.savefig(IMAGE, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--write", action="store_true", help="draw the figure of the README")
    given = parser.parse_args()
    found = {}
    for kind in KINDS:
        found[kind] = measure(kind, given.sets)
        print(f"\n{kind}\n{'':<28}{'seconds':>9}{'error':>9}")
        for name, (seconds, error) in found[kind].items():
            print(f"{name:<28}{seconds:9.3f}{error:9.4f}", flush=True)
    if given.write:
        draw(found)


if __name__ == "__main__":
    main()
