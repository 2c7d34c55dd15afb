"""Sparse 0/1 data by their ones, and selection among more sets than are listed: seconds and peak memory.

    python benchmarks/bench_sparse.py                       everything (about half an hour on two free cores)
    python benchmarks/bench_sparse.py --only moments pass

Each row is a process of its own, with one BLAS thread; seconds are of all its threads together, peak memory is the
process's own, of which 0.23 GiB are there after the imports. Rows with "array" give the same table as an array, at
sizes where it fits.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from typing import Any

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

import numpy as np  # noqa: E402
import scipy.sparse as sp  # noqa: E402

from hbm_learn import HBM, Moments  # noqa: E402
from hbm_learn.data.samples import Samples  # noqa: E402
from hbm_learn.inversion.composite import pseudolikelihood  # noqa: E402
from hbm_learn.inversion.composite.objective import HessianProducts, Objective  # noqa: E402
from hbm_learn.inversion.parameters import Parameters  # noqa: E402
from hbm_learn.terms import all_terms  # noqa: E402

# what: (work, [(how the table is given or what is planted, rows, columns)])
ROWS: dict[str, list[tuple[str, int, int]]] = {
    "moments": [("ones", 1_000_000, 2000), ("ones", 50_000, 2000), ("array", 50_000, 2000)],
    "closed form": [("ones", 1_000_000, 2000), ("ones", 50_000, 2000), ("array", 50_000, 2000)],
    "pass": [("ones", 1_000_000, 2000), ("ones", 20_000, 2000), ("array", 20_000, 2000)],
    "pseudolikelihood": [("ones", 100_000, 300), ("array", 100_000, 300)],
    "all pairs": [("independent ones", 1_000_000, 2000)],
    "quadruplets": [("null", 10_000, 100), ("planted", 10_000, 100)],
    "triplets": [("null", 4_000, 500), ("planted", 4_000, 500)],
}
SHARE = 0.01


def raster(M: int, n: int, repeats: float) -> sp.csr_matrix:
    """Independent ones, 1 % of the cells; a share of the ones of each tenth column is repeated in the next one."""
    rng = np.random.default_rng(0)
    counts = rng.poisson(n * SHARE, M)
    rows, cols = np.repeat(np.arange(M, dtype=np.int32), counts), rng.integers(0, n, counts.sum(), dtype=np.int32)
    again = (cols % 10 == 0) & (rng.random(len(cols)) < repeats)
    rows, cols = np.concatenate([rows, rows[again]]), np.concatenate([cols, cols[again] + 1])
    X = sp.csr_matrix((np.ones(len(rows), np.int8), (rows, cols)), shape=(M, n))
    X.data[:] = 1  # cells that were drawn twice
    return X


def parity(M: int, n: int, order: int, planted: bool, seed: int) -> tuple[np.ndarray, set[tuple[int, ...]]]:
    """Independent spins but for six disjoint sets whose parity is biased by 0.1."""
    rng = np.random.default_rng(seed)
    X = rng.choice(np.array([-1, 1], dtype=np.int8), size=(M, n))
    sets = rng.permutation(n)[: 6 * order].reshape(6, order) if planted else np.zeros((0, order), dtype=int)
    for mu in sets:
        X[:, mu[-1]] = np.prod(X[:, mu[:-1]], axis=1) * np.where(rng.random(M) < 0.55, 1, -1)
    return X, {tuple(sorted(mu.tolist())) for mu in sets}


def measured(what: str, how: str, M: int, n: int) -> dict[str, Any]:
    """Seconds of all threads, peak memory and what is to be said, in this process."""
    warnings.simplefilter("ignore")
    _work(what, how, 1000, 30 if what in ("quadruplets", "triplets") else 80)()  # compiles
    work = _work(what, how, M, n)
    before, begin, wall = _peak(), time.process_time(), time.perf_counter()
    said = work()
    return {
        "seconds": time.process_time() - begin,
        "wall": time.perf_counter() - wall,
        "table": before,
        "peak": _peak(),
        "said": said,
    }


def _work(what: str, how: str, M: int, n: int) -> Any:
    if what in ("quadruplets", "triplets"):
        order = 4 if what == "quadruplets" else 3
        X, sets = parity(M, n, order, how == "planted", 1)
        return lambda: _selected(X, sets, order)
    X = raster(M, n, 0.0 if how == "independent ones" else 0.3)
    X = X.toarray() if how == "array" else X
    if what == "moments":
        return lambda: f"mean {Moments.from_samples(X, order=2).mean.mean():.6f}"
    if what == "closed form":
        return lambda: _headline(HBM(order=2, refine=None, random_state=0).fit(X))
    if what in ("pseudolikelihood", "all pairs"):
        return lambda: _headline(HBM(order=2, refine="pseudolikelihood", random_state=0).fit(X))
    return lambda: _passed(X)


def _headline(est: HBM) -> str:
    return f"{est.trust_.headline}; Σ effects² = {float(est.effects_ @ est.effects_):.8g}"


def _passed(X: Any) -> str:
    """One value and gradient at independence, and a Hessian product from 16,000 rows."""
    samples = Samples.check(X)
    space = samples.space.standard(samples.frequencies)
    parameters = Parameters(space, all_terms(2, space), "free", samples.frequencies)
    composite = pseudolikelihood.prepare(samples, parameters, dtype=np.float32).composite
    objective, theta = Objective(composite, np.zeros(composite.n_params)), parameters.independent()
    begin = time.process_time()
    value, gradient = objective.value_gradient(theta)
    middle = time.process_time()
    composite.stride = max(1, samples.n_samples // 16_000)
    HessianProducts(objective, theta).product(gradient)
    return f"pass {middle - begin:.2f} s, Hessian and product {time.process_time() - middle:.2f} s, value {value:.7g}"


def _selected(X: np.ndarray, sets: set[tuple[int, ...]], order: int) -> str:
    est = HBM(order=order, fdr=0.05, random_state=0).fit(X)
    found = {mu for mu in est.interactions_ if len(mu) == order}
    looked_at = int((est.tests_.everything.terms.order == order).sum())
    return f"{len(found & sets)} of {len(sets)} found, {len(found - sets)} others; {looked_at} sets kept"


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(ROWS), default=list(ROWS))
    parser.add_argument("--row", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        what, how, M, n = options.row
        print(json.dumps(measured(what, how, int(M), int(n))))
        return
    print("| what | given as | M | n | CPU s | wall s | peak before, GiB | peak, GiB | result |\n|" + "---|" * 9)
    for what in options.only:
        for how, M, n in ROWS[what]:
            command = [sys.executable, __file__, "--row", what, how, str(M), str(n)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            numbers = f"{found['seconds']:.3g} | {found['wall']:.3g} | {found['table']:.2f} | {found['peak']:.2f}"
            print(f"| {what} | {how} | {M} | {n} | {numbers} | {found['said']} |", flush=True)


if __name__ == "__main__":
    main()
