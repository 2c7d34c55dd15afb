"""Growth: how processor time grows with variables, rows and order, and what memory it takes."""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from hbm_learn import HBM, Moments, invert

# name: (what grows, sizes, size → (n, M, order), refine, the exponent on paper)
CURVES: dict[str, tuple[str, Sequence[int], Callable[[int], tuple[int, int, int]], str | None, str]] = {
    "closed form, pairs": ("n", (200, 400, 800), lambda n: (n, 20_000, 2), None, "2 (bits), 3 (inverse)"),
    "closed form, triplets": ("n", (60, 120, 240), lambda n: (n, 20_000, 3), None, "3"),
    "closed form, order 4": ("n", (24, 36, 54), lambda n: (n, 20_000, 4), None, "4"),
    "closed form, triplets, rows": ("M", (50_000, 200_000, 800_000), lambda M: (60, M, 3), None, "1"),
    "default, pairs": ("n", (50, 100, 200), lambda n: (n, 10_000, 2), "auto", "2 to 3"),
    "default, pairs, rows": ("M", (5_000, 20_000, 80_000), lambda M: (50, M, 2), "auto", "1"),
}


def table(n: int, M: int, seed: int = 0) -> np.ndarray:
    """±1, pairs of neighbours alike."""
    rng = np.random.default_rng(seed)
    X = rng.choice(np.array([-1, 1], dtype=np.int8), size=(M, n))
    alike = rng.random((M, n // 2)) < 0.15
    X[:, 1 : 2 * (n // 2) : 2] = np.where(alike, X[:, 0 : 2 * (n // 2) : 2], X[:, 1 : 2 * (n // 2) : 2])
    return X


def curve(name: str, repeats: int) -> dict[str, Any]:
    """Best processor seconds at each size, and the exponent of a straight line through their logarithms."""
    what, sizes, shape, refine, paper = CURVES[name]
    seconds = []
    for size in sizes:
        n, M, order = shape(size)
        X = table(n, M)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            times = [_seconds(partial(work, X, order, refine)) for _ in range(repeats + 1)]
        seconds.append(min(times[1:]))  # the first may compile
    exponent = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
    return {"task": name, "grows": what, "sizes": list(sizes), "seconds": seconds, "exponent": exponent, "paper": paper}


def work(X: np.ndarray, order: int, refine: str | None) -> None:
    """The closed form as a stage, or the default fit with its errors and checks."""
    if refine is None:
        invert(Moments.from_samples(X, order=order, alphabet=(-1, 1)))
    else:
        HBM(order=order, refine=refine, n_jobs=1, random_state=0).fit(X)


def _seconds(work: Callable[[], Any]) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


# (n, M, order, refine)
MEMORY = ((100, 100_000, 3, None), (1000, 100_000, 2, None), (50, 20_000, 3, "auto"))


def memory(n: int, M: int, order: int, refine: str | None) -> dict[str, Any]:
    """Peak memory of a fit in a process of its own, above that of the imports and the table."""
    done = subprocess.run(
        [sys.executable, __file__, str(n), str(M), str(order), str(refine)], capture_output=True, text=True, check=True
    )
    before, after = map(float, done.stdout.split()[-2:])
    task = f"{'closed form' if refine is None else 'default'}, order {order}, n = {n}, M = {M:g}"
    return {"task": task, "table MiB": n * M / 2**20, "fit MiB": after - before}


def _peak() -> float:
    """Peak resident MiB of this process since it was last reset (Linux)."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 2**10


def _alone(n: int, M: int, order: int, refine: str | None) -> None:
    """Print the peak before and after one fit."""
    warnings.simplefilter("ignore")
    work(table(22, 500), order, refine)  # compile
    X = table(n, M)
    with open("/proc/self/clear_refs", "w") as reset:
        reset.write("5")
    before = _peak()
    work(X, order, refine)
    print(before, _peak())


if __name__ == "__main__":
    _alone(*map(int, sys.argv[1:4]), None if sys.argv[4] == "None" else sys.argv[4])
