"""The experiments of Takahashi, Yasuda and Tanaka: Figs. 1 and 2, ln Z, and the p-spin appendix.

    python benchmarks/paper_figures.py [--trials 1000] [--damped 100] [--p-spin 60] [--jobs -1] [--output FILE]

n = 10, J₃ = 0.001, h ~ N(0, 0.1²), J ~ N(0, σ²/√n), d = 0.01, on {-1, 1} (Fig. 1) and {-1, 0, 1} (Fig. 2 a, b): mean
squared errors of m and v, and errors of ln Z, against the sum over all states. Every trial is solved by naive mean
field and by naive mean field with diagonal consistency, both along the path; the first ``--damped`` trials also by
damped iteration of the diagonal-consistent equations (1000 iterations, weight 1/2 on the old iterate).

The appendix: in the p-spin model Λ becomes the Onsager term Σ_k (1 − m_k²) A_ik² as N grows. Measured: the difference
site by site ("site"), averaged over the sites ("mean"), site by site without its leading part, the triangles
Σ_jk A_ij V_j A_jk V_k A_ki ("beyond_triangles"), and m of the one method less m of the other ("m").

The results go to a small JSON file, which the documentation quotes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from hbm_learn import datasets, infer

SIGMAS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
ALPHABETS = {"ising": (-1, 1), "ternary": (-1, 0, 1)}
SIZES = (24, 36, 54, 81, 120)
RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results" / "paper_figures.json"


# ---------------------------------------------------------------------- Figs. 1 and 2


def trial(alphabet: str, sigma: float, seed: int, damped: bool) -> dict[str, float]:
    """One random model of the paper: errors of each method, and how its solver fared."""
    values = ALPHABETS[alphabet]
    model = datasets.make_takahashi(sigma, alphabet=values, random_state=[seed, round(1000 * sigma), len(values)])
    exact = infer(model, "exact")
    out: dict[str, float] = {}
    runs: dict[str, dict[str, Any]] = {"naive": {}, "dc": {}}
    if damped:
        runs["damped"] = {"method": "dc", "solver": "damped", "tol": 1e-8, "max_iter": 1000}
    for name, options in runs.items():
        result = infer(model, **{"method": name, **options})
        out |= {
            f"{name}_mse_m": float(np.mean((result.m - exact.m) ** 2)),
            f"{name}_mse_v": float(np.mean((result.v - exact.v) ** 2)),
            f"{name}_log_z": abs(result.log_partition - exact.log_partition),
            f"{name}_residual": result.residual,
            f"{name}_evaluations": result.n_iter,
        }
    return out


def point(trials: list[dict[str, float]], sigma: float) -> dict[str, float]:
    """Means over the trials of one σ, with standard errors (``…_se``)."""
    with_damped = [row for row in trials if "damped_mse_m" in row]
    settled = [row for row in with_damped if row["damped_residual"] < 1e-8]
    out: dict[str, float] = {"sigma": sigma, "trials": len(trials), "damped_trials": len(with_damped)}
    for name in ("naive", "dc"):
        for quantity in ("mse_m", "mse_v", "log_z"):
            column = np.array([row[f"{name}_{quantity}"] for row in trials])
            out[f"{name}_{quantity}"] = column.mean()
            out[f"{name}_{quantity}_se"] = column.std() / np.sqrt(len(column))
        out[f"{name}_converged"] = float(np.mean([row[f"{name}_residual"] < 1e-8 for row in trials]))
    out["dc_largest_residual"] = max(row["dc_residual"] for row in trials)
    out["dc_evaluations"] = float(np.mean([row["dc_evaluations"] for row in trials]))
    out["dc_most_evaluations"] = max(row["dc_evaluations"] for row in trials)
    if with_damped:
        out["damped_converged"] = len(settled) / len(with_damped)
        out["damped_mse_m"] = float(np.mean([row["damped_mse_m"] for row in with_damped]))
    if settled:
        out["damped_converged_mse_m"] = float(np.mean([row["damped_mse_m"] for row in settled]))
    return {key: _short(value) for key, value in out.items()}


def figure(
    alphabet: str, n_trials: int = 1000, n_damped: int = 100, n_jobs: int = -1, sigmas: tuple[float, ...] = SIGMAS
) -> list[dict[str, float]]:
    """Fig. 1 ("ising") or Fig. 2 ("ternary"): one row a σ."""
    jobs = [(sigma, seed) for sigma in sigmas for seed in range(n_trials)]
    with parallel_config(backend="loky", n_jobs=n_jobs, inner_max_num_threads=1):
        rows = Parallel(batch_size=10)(delayed(trial)(alphabet, sigma, seed, seed < n_damped) for sigma, seed in jobs)
    return [point(rows[k * n_trials : (k + 1) * n_trials], sigma) for k, sigma in enumerate(sigmas)]


# ---------------------------------------------------------------------- the appendix


def p_spin_trial(n: int, seed: int, p: int = 3, J: float = 0.5, h_std: float = 0.5) -> dict[str, float]:
    """Λ of dc less the Onsager term of the paper's appendix, at the same m, and m of dc less m of TAP."""
    model = datasets.make_pspin(n, p, J, h_std=h_std, random_state=[seed, n, p])
    dc, tap = infer(model, "dc"), infer(model, "tap", onsager="p-spin")
    A, V = model.A(dc.m), 1 - dc.m**2
    difference = dc.Lambda - A**2 @ V
    triangles = np.einsum("ij,jk,ki->i", A * V, A * V, A, optimize=True)
    return {
        "site": float(np.mean(difference**2)),
        "mean": float(difference.mean() ** 2),
        "beyond_triangles": float(np.mean((difference - triangles) ** 2)),
        "m": float(np.mean((dc.m - tap.m) ** 2)),
        "Lambda": float(np.mean(dc.Lambda)),
        "converged": float(dc.converged and tap.converged),
    }


def p_spin(n_trials: int = 60, n_jobs: int = -1, sizes: tuple[int, ...] = SIZES) -> dict[str, Any]:
    """Root mean squares of the differences for each N, and the exponents of their power laws in N."""
    jobs = [(n, seed) for n in sizes for seed in range(n_trials)]
    with parallel_config(backend="loky", n_jobs=n_jobs, inner_max_num_threads=1):
        rows = Parallel()(delayed(p_spin_trial)(n, seed) for n, seed in jobs)
    table = {key: np.array([row[key] for row in rows]).reshape(len(sizes), n_trials) for key in rows[0]}
    out: dict[str, Any] = {"N": list(sizes), "trials": n_trials, "converged": _short(table["converged"].mean())}
    out["Lambda"] = [_short(x) for x in table["Lambda"].mean(axis=1)]
    for key in ("site", "mean", "beyond_triangles", "m"):
        out[key] = [_short(x) for x in np.sqrt(table[key].mean(axis=1))]
        slope, error = _exponent(np.array(sizes), table[key])
        out[f"{key}_exponent"], out[f"{key}_exponent_se"] = _short(slope), _short(error)
    return out


def _exponent(sizes: np.ndarray, squares: np.ndarray, n_resamples: int = 200) -> tuple[float, float]:
    """Slope of ln(root mean square) in ln N, and its bootstrap standard error over the trials."""
    rng = np.random.default_rng(0)

    def slope(columns: np.ndarray) -> float:
        mean = np.take_along_axis(squares, columns, axis=1).mean(axis=1)
        return float(np.polyfit(np.log(sizes), 0.5 * np.log(mean), 1)[0])

    everything = np.broadcast_to(np.arange(squares.shape[1]), squares.shape)
    resampled = [slope(rng.integers(0, squares.shape[1], squares.shape)) for _ in range(n_resamples)]
    return slope(everything), float(np.std(resampled))


def _short(value: Any) -> Any:
    return float(f"{value:.4g}") if isinstance(value, (float, np.floating)) else value


# ---------------------------------------------------------------------- the script


def show(name: str, rows: list[dict[str, float]]) -> None:
    print(f"\n{name}: means over {rows[0]['trials']} trials (± standard error)")
    print("    σ    MSE_m naive           dc       MSE_v naive           dc     |Δ ln Z| naive     dc     "
          "converged: dc  damped   evaluations (most)")  # fmt: skip
    for r in rows:
        print(
            f"{r['sigma']:5.2f}  {r['naive_mse_m']:8.2g} ± {r['naive_mse_m_se']:7.1g}  {r['dc_mse_m']:8.2g} ± "
            f"{r['dc_mse_m_se']:7.1g}  {r['naive_mse_v']:8.2g}  {r['dc_mse_v']:8.2g}  {r['naive_log_z']:8.2g}  "
            f"{r['dc_log_z']:8.2g}    {r['dc_converged']:6.1%}  {r.get('damped_converged', float('nan')):6.1%}  "
            f"{r['dc_evaluations']:6.1f} ({r['dc_most_evaluations']:.0f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--damped", type=int, default=100, help="trials that are also solved by damped iteration")
    parser.add_argument("--p-spin", type=int, default=60, help="trials for each N of the p-spin model")
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    start = time.perf_counter()
    results: dict[str, Any] = {}
    for name in ALPHABETS:
        results[name] = figure(name, options.trials, options.damped, options.jobs)
        show(name, results[name])
    results["p_spin"] = p_spin(options.p_spin, options.jobs)
    for key, value in results["p_spin"].items():
        print(f"p-spin {key}: {value}")
    results["seconds"] = round(time.perf_counter() - start)
    options.output.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{results['seconds']} s; written to {options.output}")


if __name__ == "__main__":
    main()
