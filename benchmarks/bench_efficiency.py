"""Statistical efficiency: the error of each estimate beside the Cramér–Rao bound.

    python benchmarks/bench_efficiency.py [--sets 20] [--beta 0.3 0.6 1.0] [--samples 300 1000 10000 100000]

n = 12, all pairs and triplets, J ~ N(0, β²/n), J₃ ~ N(0, β₃²/n²), h ~ N(0, 0.1²); a new model for each data set. The
total relative error of all parameters is √(Σ ‖θ̂ − θ‖² / Σ ‖θ‖²) over the data sets, and the bound is
√(Σ tr F⁻¹/M / Σ ‖θ‖²); columns after the bound are ratios to it. A unit prior is alpha=1; auto is empirical Bayes.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field

import numpy as np

from hbm_learn import BoltzmannMachine, Moments, datasets, sample
from hbm_learn.inference.states import StateTable
from hbm_learn.inversion import diagonal, likelihood, prior

N = 12
METHODS = ("closed form", "unit prior", "alpha=0", "auto")


@dataclass
class Cell:
    """Sums over the data sets of one setting."""

    bound: float = 0.0
    size: float = 0.0
    squares: dict[str, float] = field(default_factory=lambda: dict.fromkeys(METHODS, 0.0))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(METHODS, 0.0))
    rounds: int = 0

    def ratio(self, method: str) -> float:
        return float(np.sqrt(self.squares[method] / self.bound))


def estimates(moments: Moments, model: BoltzmannMachine, cell: Cell, methods: tuple[str, ...]) -> None:
    """Add the squared error of each method to the cell."""
    closed = diagonal.invert(moments, model.packed)

    def refit(alpha: dict[int, float], previous: likelihood.InversionResult | None) -> likelihood.InversionResult:
        cell.rounds += 1
        start = closed.model if previous is None else previous.model
        return likelihood.fit(moments, model.packed, start, prior.Prior(alpha))

    runs = {
        "closed form": lambda: closed,
        "unit prior": lambda: likelihood.fit(moments, model.packed, closed.model, prior.Prior({2: 1.0, 3: 1.0})),
        "alpha=0": lambda: likelihood.fit(moments, model.packed, closed.model, prior.Prior({2: 0.0, 3: 0.0})),
        "auto": lambda: prior.learn(refit, closed.alpha),
    }
    for name in methods:
        start = time.perf_counter()
        found = runs[name]().model
        cell.seconds[name] += time.perf_counter() - start
        cell.squares[name] += float(((found.h - model.h) ** 2).sum() + ((found.weights - model.weights) ** 2).sum())


def measure(beta: float, beta3: float, n_samples: int, n_sets: int, methods: tuple[str, ...] = METHODS) -> Cell:
    """``n_sets`` data sets of one setting, each from its own model."""
    cell = Cell()
    for seed in range(n_sets):
        model = datasets.make_random(N, {2: beta / N**0.5, 3: beta3 / N}, 0.1, random_state=[seed, int(100 * beta)])
        moments = Moments.from_samples(sample(model, n_samples, "exact", random_state=[seed, n_samples]), 3, (-1, 1))
        cell.size += float((model.h**2).sum() + (model.weights**2).sum())
        cell.bound += float(np.trace(np.linalg.inv(StateTable(model).fisher(model.packed)))) / n_samples
        estimates(moments, model, cell, methods)
    return cell


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--beta", type=float, nargs="+", default=[0.3, 0.6, 1.0])
    parser.add_argument("--samples", type=int, nargs="+", default=[300, 1000, 10_000, 100_000])
    options = parser.parse_args()
    print("  β    β₃       M   bound  " + "".join(f"{name:>13}" for name in METHODS) + "   rounds  seconds (auto)")
    for beta in options.beta:
        for beta3 in (beta, 0.0):
            for n_samples in options.samples:
                cell = measure(beta, beta3, n_samples, options.sets)
                ratios = "".join(f"{cell.ratio(name):13.3f}" for name in METHODS)
                rest = f"{cell.rounds / options.sets:9.1f} {cell.seconds['auto'] / options.sets:9.2f}"
                print(
                    f"{beta:4.1f} {beta3:5.1f} {n_samples:7d} {np.sqrt(cell.bound / cell.size):7.3f}  {ratios}{rest}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
