"""Cost of one "dc" solve, beside plain fixed-point iterations of the same equations.

    python benchmarks/bench_dc.py [--sizes 50 100 200 400 800] [--beta 0.9] [--repeats 5] [--lattice 40 50]

SK model, h ~ N(0, 0.1²), Ising; every solver stops at max(|⟨x⟩ − m|, |χ_ii/V_i − 1|) < 1e-10. The plain solvers start
from the TAP value of Λ, each with the damping out of 0, 0.1 … 0.9 that makes it fastest on the model at hand (above
n = 200, on the next smaller one); the time of finding it is not counted:

  damped         (m, Λ) ← (tanh(h + Jm − Λm), Σ_k J_ik χ_ki / V_i)
  Opper–Winther  the same m, and the cavity variance Λ_i ← S_ii − 1/χ_ii

Flops: an iteration of either inverts one n × n matrix by Cholesky, n³; an evaluation of "dc" costs n³ as well, and
2.7 n³ for its linear system below n = 300, a few dozen n² above. Times are medians of the repeats on one BLAS thread;
ratios are to the faster plain solver. The lattice is compared with the LU factorisations of 2n × 2n that Newton's
method on all unknowns would need in as many evaluations.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy.linalg import lu_factor
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, datasets
from hbm_learn.inference import infer
from hbm_learn.linalg import spd_inverse

TOL = 1e-10
MAX_ITER = 2000
DAMPINGS = np.arange(10) / 10
SEARCH_SIZE = 200


def plain(model: BoltzmannMachine, J: np.ndarray, damping: float, cavity: bool) -> int:
    """Iterate the dc equations of an Ising model with pairs; the number of iterations, 0 if it fails."""
    m = np.tanh(model.h)
    Lambda = J**2 @ (1.0 - m**2)
    for k in range(1, MAX_ITER + 1):
        image = np.tanh(model.h + J @ m - Lambda * m)
        V = 1.0 - image**2
        chi = inverse(np.diag(1.0 / V + Lambda) - J)
        diagonal = np.diagonal(chi)
        residual = max(np.abs(image - m).max(), np.abs(diagonal / V - 1.0).max())
        if residual < TOL or not np.isfinite(residual):
            return k if residual < TOL else 0
        new = 1.0 / V + Lambda - 1.0 / diagonal if cavity else np.einsum("ij,ij->i", J, chi) / V
        m = damping * m + (1.0 - damping) * image
        Lambda = damping * Lambda + (1.0 - damping) * new
    return 0


def inverse(S: np.ndarray) -> np.ndarray:
    """By Cholesky (n³ flops), or by LU (2n³) where S is not positive definite on the way."""
    chi, _ = spd_inverse(S.copy())
    return np.linalg.inv(S) if chi is None else chi


def best_damping(model: BoltzmannMachine, J: np.ndarray, cavity: bool, known: float | None) -> tuple[float, int]:
    """The damping with the fewest iterations, and their number (0 if none converges); only ``known`` if it is given."""
    counts = {damping: plain(model, J, damping, cavity) for damping in (DAMPINGS if known is None else [known])}
    converged = {damping: count for damping, count in counts.items() if count}
    if not converged:
        return 0.0, 0
    damping = min(converged, key=lambda key: converged[key])
    return damping, converged[damping]


def median_time(run: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
        if sum(times) > 10.0:
            break
    return float(np.median(times))


def scaling(sizes: list[int], beta: float, repeats: int) -> None:
    print(f"SK, β = {beta}: milliseconds of one solve (iterations or evaluations)")
    print(f"{'n':>5} {'dc':>16} {'damped':>22} {'Opper–Winther':>22} {'dc / best plain':>16}")
    times, dampings = [], {}
    for n in sizes:
        model = datasets.make_sk(n, beta, 0.1, random_state=n)
        J = model.J
        result = infer(model, "dc", tol=TOL)
        own = median_time(lambda model=model: infer(model, "dc", tol=TOL), repeats)
        times.append(own)
        cells, references = [], []
        for cavity in (False, True):
            damping, count = best_damping(model, J, cavity, dampings.get(cavity) if n > SEARCH_SIZE else None)
            dampings[cavity] = damping
            if not count:
                cells.append(f"{'fails':>22}")
                continue
            run = lambda model=model, J=J, damping=damping, cavity=cavity: plain(model, J, damping, cavity)  # noqa: E731
            references.append(median_time(run, repeats))
            cells.append(f"{1e3 * references[-1]:9.1f} ({count:4d}, γ={damping:.1f})")
        ratio = f"{own / min(references):16.2f}" if references else f"{'—':>16}"
        status = "" if result.converged else "  NOT CONVERGED"
        print(f"{n:5d} {1e3 * own:9.1f} ({result.n_iter:4d}) {cells[0]} {cells[1]} {ratio}{status}", flush=True)
    exponent = np.polyfit(np.log(sizes), np.log(times), 1)[0]
    print(f"exponent of n over these sizes: {exponent:.2f}; over the last two: {last_exponent(sizes, times):.2f}\n")


def last_exponent(sizes: list[int], times: list[float]) -> float:
    return float(np.log(times[-1] / times[-2]) / np.log(sizes[-1] / sizes[-2])) if len(sizes) > 1 else np.nan


def lattice(shape: tuple[int, int]) -> None:
    model = datasets.make_lattice(shape, 0.5, h_std=0.1, random_state=0)
    n = model.n_features
    start = time.perf_counter()
    result = infer(model, "dc", tol=TOL)
    own = time.perf_counter() - start
    matrix = np.random.default_rng(0).normal(size=(2 * n, 2 * n))
    factorisation = median_time(lambda: lu_factor(matrix), 1)
    dense = factorisation * result.n_iter
    print(
        f"±J square lattice {shape[0]} × {shape[1]}, J = 0.5: {own:.1f} s, {result.n_iter} evaluations, {result.status}"
    )
    print(f"LU of {2 * n} unknowns: {factorisation:.1f} s × {result.n_iter} = {dense:.0f} s; ratio {own / dense:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[50, 100, 200, 400, 800])
    parser.add_argument("--beta", type=float, nargs="+", default=[0.5, 0.9])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lattice", type=int, nargs=2, default=(40, 50))
    arguments = parser.parse_args()
    with threadpool_limits(1), np.errstate(all="ignore"):  # plain iterations that diverge overflow on the way
        for beta in arguments.beta:
            scaling(arguments.sizes, beta, arguments.repeats)
        lattice(tuple(arguments.lattice))


if __name__ == "__main__":
    main()
