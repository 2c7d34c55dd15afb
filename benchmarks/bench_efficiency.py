"""Statistical efficiency: the error of each estimate beside the Cramér–Rao bound.

    python benchmarks/bench_efficiency.py [--sets 20] [--beta 0.3 0.6 1.0] [--samples 300 1000 10000 100000]

n = 12, all pairs and triplets, J ~ N(0, β²/n), J₃ ~ N(0, β₃²/n²), h ~ N(0, 0.1²); a new model for each data set. The
total relative error of all parameters is √(Σ ‖θ̂ − θ‖² / Σ ‖θ‖²) over the data sets, and the bound is
√(Σ tr F⁻¹/M / Σ ‖θ‖²); columns after the bound are ratios to it. "unit prior", "alpha=0" and "auto" (empirical Bayes)
are by exact likelihood, the last two by pseudolikelihood.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass, field

import numpy as np

from hbm_learn import HBM, BoltzmannMachine, datasets, sample
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.states import StateTable

N = 12
ESTIMATORS = {
    "closed form": HBM(order=3, refine=None),
    "unit prior": HBM(order=3, alpha=1.0),
    "alpha=0": HBM(order=3, alpha=0.0),
    "auto": HBM(order=3),
    "pseudo alpha=0": HBM(order=3, refine="pseudolikelihood", alpha=0.0),
    "pseudo auto": HBM(order=3, refine="pseudolikelihood"),
}
METHODS = tuple(ESTIMATORS)


@dataclass
class Cell:
    """Sums over the data sets of one setting."""

    bound: float = 0.0
    size: float = 0.0
    squares: dict[str, float] = field(default_factory=lambda: dict.fromkeys(METHODS, 0.0))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(METHODS, 0.0))

    def ratio(self, method: str) -> float:
        return float(np.sqrt(self.squares[method] / self.bound))

    def add(self, method: str, X: np.ndarray, model: BoltzmannMachine) -> None:
        """The squared error of one estimate."""
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few samples and no prior: no finite maximum; the closed form: biased
            est = ESTIMATORS[method].fit(X)
        self.seconds[method] += time.perf_counter() - start
        self.squares[method] += float(((est.h_ - model.h) ** 2).sum() + ((est.weights_ - model.weights) ** 2).sum())


def parameters(model: BoltzmannMachine) -> Parameters:
    """θ = (h, J) of spins, in the user's coding."""
    return Parameters(model.space, model.columns, "free", [np.full(2, 0.5)] * model.n_features)


def measure(beta: float, beta3: float, n_samples: int, n_sets: int, methods: tuple[str, ...] = METHODS) -> Cell:
    """``n_sets`` data sets of one setting, each from its own model."""
    cell = Cell()
    for seed in range(n_sets):
        model = datasets.make_random(N, {2: beta / N**0.5, 3: beta3 / N}, 0.1, random_state=[seed, int(100 * beta)])
        X = sample(model, n_samples, "exact", random_state=[seed, n_samples])
        cell.size += float((model.h**2).sum() + (model.weights**2).sum())
        cell.bound += float(np.trace(np.linalg.inv(StateTable(model).fisher(parameters(model))))) / n_samples
        for method in methods:
            cell.add(method, X, model)
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--beta", type=float, nargs="+", default=[0.3, 0.6, 1.0])
    parser.add_argument("--samples", type=int, nargs="+", default=[300, 1000, 10_000, 100_000])
    options = parser.parse_args()
    print("  β    β₃       M   bound  " + "".join(f"{name:>15}" for name in METHODS) + "   seconds (auto)")
    for beta in options.beta:
        for beta3 in (beta, 0.0):
            for n_samples in options.samples:
                cell = measure(beta, beta3, n_samples, options.sets)
                ratios = "".join(f"{cell.ratio(name):15.3f}" for name in METHODS)
                rest = f"{cell.seconds['auto'] / options.sets:9.3f}"
                print(
                    f"{beta:4.1f} {beta3:5.1f} {n_samples:7d} {np.sqrt(cell.bound / cell.size):7.3f}  {ratios}{rest}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
