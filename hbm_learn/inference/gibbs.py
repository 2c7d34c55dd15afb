"""Inference by Gibbs sampling: moments as averages over chains, with Monte Carlo standard errors.

m = ⟨x⟩,  χ = ⟨(x − m)(x − m)ᵀ⟩ over chains at α = 1;   ln Z by annealing the same chains from α = 0 (``sampling.ais``)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hbm_learn._kernels.gibbs import term_sums
from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.inference.exact import exact
from hbm_learn.inference.result import InferenceResult
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import ais
from hbm_learn.sampling.chains import Chains, widths
from hbm_learn.sampling.diagnostics import R_HAT_LIMIT, split_r_hat

MAX_BYTES = 2**32
# Independent groups of chains, from whose spread the standard errors come (which are then good to 1/√(2·32) = 13 %).
GROUPS = 32
# Weights of annealed importance sampling with a smaller effective number than this do not carry ln Z.
MIN_WEIGHTS = 10


def gibbs(
    model: BoltzmannMachine,
    n_samples: int = 20_000,
    n_chains: int = 64,
    burn_in: int = 500,
    thin: int = 10,
    n_steps: int = 1000,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> InferenceResult:
    """Moments and ln Z from Gibbs chains; a "real" model takes its closed form.

    Chains start from draws without couplings, are annealed to the model (which gives ln Z), burn in, and are averaged.
    ``residual`` is the largest split R-hat − 1 of the variables and of H(x); converged if it is at most 0.01.

    Parameters
    ----------
    model : BoltzmannMachine
    n_samples : draws in all chains together, rounded up to a multiple of n_chains.
    n_chains : independent chains, at least 4.
    burn_in, thin : sweeps dropped after annealing, and between draws.
    n_steps : steps of the annealing.
    n_jobs : threads; None is as many as there are cores.
    random_state : None, int, SeedSequence, Generator or RandomState.
    """
    if model.alphabet.kind == "real":
        return replace(exact(model), method="gibbs")
    n_chains, thin = check_integer("n_chains", n_chains, 4), check_integer("thin", thin, 1)
    n_samples = check_integer("n_samples", n_samples, 4 * n_chains)
    burn_in, n_steps = check_integer("burn_in", burn_in, 0), check_integer("n_steps", n_steps, 1)
    n_draws = -(-n_samples // n_chains)
    _check_memory(model.n_features, n_draws * n_chains)

    chains = Chains(model, widths(n_chains), seed_sequence(random_state), n_jobs=n_jobs)
    log_w = ais.anneal(chains, n_steps)
    chains.advance(burn_in)
    draws = chains.draw(n_draws, thin)

    m, m_error, chi, chi_error = _moments(draws)
    residual = _disagreement(model, draws)
    log_z, log_z_error = ais.estimate(model, log_w)
    converged, status = _verdict(residual, log_w, log_z_error)
    return InferenceResult(
        method="gibbs",
        m=m,
        v=np.diag(chi) + m**2,
        chi=chi,
        log_partition=log_z,
        converged=converged,
        n_iter=n_steps + burn_in + n_draws * thin,
        residual=residual,
        status=status,
        interaction_moments=_interaction_moments(model, draws),
        m_standard_errors=m_error,
        chi_standard_errors=chi_error,
    )


def _check_memory(n: int, n_samples: int) -> None:
    if 8 * n * n_samples > MAX_BYTES:
        raise ValueError(
            f"n_samples={n_samples:,} draws of {n} variables take {8 * n * n_samples / 2**30:.1f} GiB "
            f"(limit {MAX_BYTES / 2**30:g} GiB): lower n_samples."
        )


def _moments(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """m, its errors, χ, its errors. Chains are independent, so groups of them are: error = sd over groups / √groups.

    That holds whatever the correlation in time, as long as the chains have reached the distribution.
    """
    n_chains, n = draws.shape[1:]
    m = draws.mean(axis=(0, 1))
    groups = np.array_split(np.arange(n_chains), min(GROUPS, n_chains))
    chi, cross, square = np.zeros((n, n)), np.zeros((n, n)), np.zeros((n, n))
    variance = np.zeros(n)
    for group in groups:
        share = len(group) / n_chains
        Y = draws[:, group].reshape(-1, n) - m
        C = Y.T @ Y / len(Y)
        chi += share * C
        cross += share**2 * C
        square += share**2 * C**2
        variance += share**2 * Y.mean(axis=0) ** 2
    # Var(Σ_g s_g C_g) ≈ Σ_g s_g² (C_g − χ)² · G/(G − 1), expanded so that no C_g need be kept.
    shares = sum((len(group) / n_chains) ** 2 for group in groups)
    spread = np.maximum(square - 2 * chi * cross + shares * chi**2, 0.0)
    correction = len(groups) / (len(groups) - 1)
    return m, np.sqrt(correction * variance), chi, np.sqrt(correction * spread)


def _disagreement(model: BoltzmannMachine, draws: np.ndarray) -> float:
    """The largest split R-hat − 1 of the variables and of H(x)."""
    n_draws, n_chains, n = draws.shape
    energy = model.energy(draws.reshape(-1, n)).reshape(n_draws, n_chains, 1)
    return float(max(split_r_hat(draws).max(), split_r_hat(energy).max()) - 1.0)


def _verdict(residual: float, log_w: np.ndarray, log_z_error: float) -> tuple[bool, str]:
    w = np.exp(log_w - log_w.max())
    carried = w.sum() ** 2 / (w**2).sum()
    error = f"ln Z ± {log_z_error:.2g}"
    if not residual <= R_HAT_LIMIT - 1.0:
        advice = "raise burn_in, thin or n_samples, or sample with tempering"
        return False, f"the chains disagree: R-hat reaches {1 + residual:.4f} (limit {R_HAT_LIMIT}); {advice}; {error}."
    if carried < min(MIN_WEIGHTS, len(w) / 2):
        return False, f"ln Z rests on {carried:.1f} of {len(w)} chains ({error}); raise n_steps or n_chains."
    return True, f"converged: R-hat is at most {1 + residual:.4f} (limit {R_HAT_LIMIT}); {error}."


def _interaction_moments(model: BoltzmannMachine, draws: np.ndarray) -> np.ndarray:
    """(p,) ⟨Π_{i∈μ} x_i⟩, one draw of all chains at a time."""
    total = np.zeros(len(model.packed))
    for states in draws:
        total += term_sums(np.ascontiguousarray(states.T, dtype=np.float64), model.packed.indptr, model.packed.members)
    return total / (draws.shape[0] * draws.shape[1])
