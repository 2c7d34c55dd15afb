"""The default fit beyond enumeration in passes of its own: how much dearer is it than one gradient, and why?

    OMP_NUM_THREADS=1 python benchmarks/bench_default.py [--keep FOLDER] [--only pairs triplets sparse60 sparse100]

pairs      ±1, n = 1000, M = 20,000, order 2: SK at β = 0.4
triplets   ±1, n = 100, M = 100,000, order 3: J ~ N(0, 0.3²/n), J₃ ~ N(0, 0.3²/n²), h ~ N(0, 0.1²)
sparse60   0/1 at 7 %, n = 60, M = 50,000: two pairs and a quarter of a triplet a variable; order 3 against order 2
sparse100  the same, n = 100

A pass is 4nKM flops (K monomials: n + 1, and n(n − 1)/2 more at order 3) at the rate of sgemm on the shapes of the
pass, best of five in the same process, in processor seconds as the fit. Each fit has a process of its own; its peak is
that of the resident set, the table and compiled kernels included. Parts are exclusive: what a part calls counts there.
Samples take most of the run: with ``--keep`` they are made once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

# name: (data, order)
FITS = {
    "pairs": ("pairs", 2),
    "triplets": ("triplets", 3),
    "sparse60, order 2": ("sparse60", 2),
    "sparse60, order 3": ("sparse60", 3),
    "sparse100, order 2": ("sparse100", 2),
    "sparse100, order 3": ("sparse100", 3),
}


def table(name: str) -> np.ndarray:
    from hbm_learn import BoltzmannMachine, datasets, sample

    if name == "pairs":
        return np.asarray(sample(datasets.make_sk(1000, 0.4, random_state=0), 20_000, method="gibbs", random_state=1))
    if name == "triplets":
        model = datasets.make_random(100, {2: 0.03, 3: 0.003}, 0.1, random_state=0)
        return np.asarray(sample(model, 100_000, method="gibbs", random_state=1))
    n, rng = int(name.removeprefix("sparse")), np.random.default_rng(0)
    J: dict[tuple[int, ...], float] = {
        pair: rng.normal(0, 0.8) for pair in itertools.combinations(range(n), 2) if rng.random() < 4 / n
    }
    for _ in range(n // 4):
        J[tuple(sorted(rng.choice(n, 3, replace=False).tolist()))] = float(rng.choice([-1, 1]))
    model = BoltzmannMachine(rng.normal(-2.7, 0.4, n), J, alphabet=(0, 1))
    return np.asarray(sample(model, 50_000, method="gibbs", random_state=1))


class Parts:
    """Processor seconds by part, each without what other parts take within it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._open: list[str] = []
        self._last = 0.0

    def _tick(self) -> None:
        now = time.process_time()
        if self._open:
            self.seconds[self._open[-1]] = self.seconds.get(self._open[-1], 0.0) + now - self._last
        self._last = now

    def run(self, part: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self._tick()
        self._open.append(part)
        try:
            return function(*args, **options)
        finally:
            self._tick()
            self._open.pop()

    def watch(self, owner: Any, name: str, part: str) -> None:
        function = getattr(owner, name)
        setattr(owner, name, lambda *args, **options: self.run(part, function, *args, **options))


def watched() -> Parts:
    from hbm_learn import inversion
    from hbm_learn.assessment import predictive
    from hbm_learn.inversion.composite import information, objective, sandwich
    from hbm_learn.inversion.shrinkage import expectation
    from hbm_learn.optimise import newton_cg

    parts = Parts()
    for owner, name, part in (
        (inversion.diagonal, "invert", "closed form"),
        (objective.Objective, "value_gradient", "gradients"),
        (newton_cg, "minimise", "Newton's steps"),
        (sandwich, "errors", "probes of errors"),
        (information.CompositeInformation, "_curvature", "curvature"),
        (expectation, "solve", "learnt prior"),
        (predictive, "check", "check by samples"),
    ):
        parts.watch(owner, name, part)
    return parts


def sgemm_rate(n: int, K: int) -> float:
    """Flops a second of (n, K) times (K, R) and back, as in a pass."""
    rng, R = np.random.default_rng(0), max(256, 2**19 // K)
    W, Phi = (rng.normal(size=shape).astype(np.float32) for shape in ((n, K), (K, R)))
    best = np.inf
    for _ in range(5):
        start = time.process_time()
        Phi @ (W @ Phi).T
        best = min(best, time.process_time() - start)
    return 4.0 * n * K * R / best


def one(X: np.ndarray, order: int) -> dict[str, Any]:
    from threadpoolctl import threadpool_limits

    from hbm_learn import HBM

    (M, n), parts = X.shape, watched()
    K = 1 + n + (n * (n - 1) // 2 if order == 3 else 0)
    HBM(order=order, random_state=0).fit(X[:3000, :30])  # compile
    with threadpool_limits(1):
        rate = sgemm_rate(n, K)
    parts.seconds.clear()
    start = time.process_time()
    parts.run("the rest", HBM(order=order, random_state=0).fit, X)
    seconds, gradient = time.process_time() - start, 4.0 * n * K * M / rate
    return {
        "passes": seconds / gradient,
        "seconds": seconds,
        "pass": gradient,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "parts": {part: each / gradient for part, each in sorted(parts.seconds.items(), key=lambda item: -item[1])},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="folder for the samples")
    parser.add_argument("--only", nargs="*", default=list(dict.fromkeys(name for name, _ in FITS.values())))
    parser.add_argument("--one", nargs=2, metavar=("FILE", "ORDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.one:
        print(json.dumps(one(np.load(given.one[0]), int(given.one[1]))))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder, found = given.keep or Path(temporary), {}
        folder.mkdir(exist_ok=True)
        for fit, (name, order) in FITS.items():
            if name not in given.only:
                continue
            path = folder / f"{name}.npy"
            if not path.exists():
                np.save(path, table(name).astype(np.int8))
            command = [sys.executable, __file__, "--one", str(path), str(order)]
            row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            found[fit] = row
            print(
                f"{fit:<20} {row['passes']:6.1f} passes of {row['pass']:.3f} s "
                f"({row['seconds']:.1f} s of the processor), peak {row['peak']:.2f} GiB"
            )
            print(" " * 21 + ", ".join(f"{part} {each:.1f}" for part, each in row["parts"].items()), flush=True)
            if order == 3 and f"{name}, order 2" in found:
                ratio = row["seconds"] / found[f"{name}, order 2"]["seconds"]
                print(" " * 21 + f"{ratio:.1f} times its fit of order 2", flush=True)


if __name__ == "__main__":
    main()
