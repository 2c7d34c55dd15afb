"""Inference by Gibbs sampling: moments as averages over chains, with Monte Carlo standard errors.

    m = ⟨φ⟩,  χ = ⟨(φ − m)(φ − m)ᵀ⟩ over chains at α = 1

ln Z comes from annealing the same chains from α = 0 (``sampling.ais``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hbm_learn._kernels.gibbs import term_sums
from hbm_learn._threads import blas_for
from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.inference.exact import exact
from hbm_learn.inference.result import InferenceResult, is_plain
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import agreement, ais
from hbm_learn.sampling.chains import Chains, widths
from hbm_learn.sampling.diagnostics import R_HAT_LIMIT, split_r_hat, traces
from hbm_learn.space import Space

MAX_BYTES = 2**32
# Independent groups of chains, from whose spread the standard errors come (which are then good to 1/√(2·32) = 13 %).
GROUPS = 32
REMEDY = "raise burn_in, thin or n_samples, or sample with tempering"
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
    ``residual`` is the largest split R-hat − 1 of the variables and of H(x); converged if it is at most 0.01, and
    chains from far states come to the same. A ConvergenceWarning says if chains disagree beyond what few draws explain
    (split R-hat above 1.1, or another phase far away), or if annealing has missed a part of Z.

    Parameters
    ----------
    model : BoltzmannMachine
    n_samples : int
        Draws in all chains together, rounded up to a multiple of n_chains.
    n_chains : int
        Independent chains, at least 4.
    burn_in, thin : int
        Sweeps dropped after annealing, and between draws.
    n_steps : int
        Steps of the annealing.
    n_jobs : int
        Threads; None is as many as there are cores.
    random_state : None, int, SeedSequence, Generator or RandomState
    """
    if model.space.is_real:
        return replace(exact(model), method="gibbs")
    n_chains, thin = check_integer("n_chains", n_chains, 4), check_integer("thin", thin, 1)
    n_samples = check_integer("n_samples", n_samples, 4 * n_chains)
    burn_in, n_steps = check_integer("burn_in", burn_in, 0), check_integer("n_steps", n_steps, 1)
    n_draws = -(-n_samples // n_chains)
    _check_memory(model.n_columns, n_draws * n_chains)

    seed = seed_sequence(random_state)
    chains = Chains(model, widths(n_chains), seed, n_jobs=n_jobs)
    log_w = ais.anneal(chains, n_steps)
    chains.advance(burn_in)
    draws = chains.draw(n_draws, thin)

    traced = traces(model, draws)
    residual = float(split_r_hat(traced).max() - 1.0)
    columns = traced[:, :, :-1]  # without H(x)
    with blas_for(model.n_columns):
        means, m_error, covariances, chi_error = _moments(columns)
        m, chi = means, covariances
        if not is_plain(model.space):
            m, m_error, chi, chi_error = _moments(_numbers(model.space, draws))
    found = agreement.of_chains(chains, agreement.strided(draws), n_draws * thin, burn_in, seed.spawn(1)[0])
    found.warn(REMEDY)
    log_z, log_z_error = ais.estimate(model, log_w)
    far, lost = ais.log_far(model, seed.spawn(1)[0], n_jobs), 0.5 * float(log_w.var())
    log_z_error = ais.with_missed(log_z, log_z_error, far, lost)
    converged, status = _verdict(residual, log_w, log_z_error, found)
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
        interaction_moments=_interaction_moments(model, columns),
        m_standard_errors=m_error,
        chi_standard_errors=chi_error,
        probabilities=_probabilities(model.space, draws),
        means=means,
        covariances=covariances,
    )


def _check_memory(n: int, n_samples: int) -> None:
    if 8 * n * n_samples > MAX_BYTES:
        raise ValueError(
            f"n_samples={n_samples:,} draws of {n} numbers take {8 * n * n_samples / 2**30:.1f} GiB "
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


def _numbers(space: Space, draws: np.ndarray) -> np.ndarray:
    """(n_draws, n_chains, n) x of codes; NaN where a variable is nominal."""
    out = np.empty(draws.shape)
    for i, alphabet in enumerate(space.alphabets):
        if alphabet.is_nominal:
            out[:, :, i] = np.nan
        else:
            x = draws[:, :, i]
            out[:, :, i] = alphabet.nodes[x.astype(np.intp)] if alphabet.is_finite else x
    return out


def _probabilities(space: Space, draws: np.ndarray) -> list[np.ndarray | None]:
    """Frequencies of the values of each variable; None for a continuous one."""
    codes = draws.reshape(-1, space.n_features)
    return [
        np.bincount(codes[:, i].astype(np.intp), minlength=q) / len(codes) if q else None
        for i, q in enumerate(space.sizes.tolist())
    ]


def _verdict(residual: float, log_w: np.ndarray, log_z_error: float, found: agreement.Agreement) -> tuple[bool, str]:
    w = np.exp(log_w - log_w.max())
    carried = w.sum() ** 2 / (w**2).sum()
    error = f"ln Z ± {log_z_error:.2g}"
    if not residual <= R_HAT_LIMIT - 1.0:
        return False, f"the chains disagree: R-hat reaches {1 + residual:.4f} (limit {R_HAT_LIMIT}); {REMEDY}; {error}."
    if not found.agree:
        return False, f"{found.sentence(REMEDY)[:-1]}; {error}."
    if carried < min(MIN_WEIGHTS, len(w) / 2):
        return False, f"ln Z rests on {carried:.1f} of {len(w)} chains ({error}); raise n_steps or n_chains."
    return True, f"converged: R-hat is at most {1 + residual:.4f} (limit {R_HAT_LIMIT}); {error}."


def _interaction_moments(model: BoltzmannMachine, columns: np.ndarray) -> np.ndarray:
    """(p,) ⟨Π_{c∈μ} φ_c⟩, one draw of all chains at a time."""
    total = np.zeros(len(model.columns))
    for draw in columns:
        total += term_sums(np.ascontiguousarray(draw.T), model.columns.indptr, model.columns.members)
    return total / (columns.shape[0] * columns.shape[1])
