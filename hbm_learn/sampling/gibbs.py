"""Gibbs sampling: x_i ~ P(x_i | the others) ∝ exp(θ_i(x_i) + Σ_c F_c(x) φ_c(x_i)), site after site, in many chains."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn import gaussian
from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import agreement, diagnostics
from hbm_learn.sampling.chains import Chains, check_initial, decode, widths

REMEDY = 'raise burn_in, start chains in every phase (initial=…), or use method "tempering"'


def gibbs(
    model: BoltzmannMachine,
    n_samples: int,
    random_state: Any = None,
    *,
    n_chains: int | None = None,
    burn_in: int = 1000,
    thin: int = 10,
    initial: Any = None,
    n_jobs: int | None = None,
    return_diagnostics: bool = False,
) -> Any:
    """Samples from Gibbs chains; a "real" model is sampled from its Gaussian, independently, and ignores chain options.

    With four chains or more, a ConvergenceWarning says if they disagree with one another (split R-hat above 1.1) or
    with some further chains that start far away (nested R-hat above 1.05), as where a model has two phases.

    Parameters
    ----------
    model : BoltzmannMachine
    n_samples : int
        Number of rows. Row t·n_chains + c is draw t of chain c: n_chains consecutive rows are independent.
    random_state : None, int, SeedSequence, Generator or RandomState
        One integer gives the same samples for any n_jobs.
    n_chains : int
        Independent chains; by default 128, or n_samples if that is less. 32 cost about twice as much as one.
    burn_in : int
        Sweeps (updates of every variable) dropped at the start of each chain.
    thin : int
        Sweeps between recorded draws of a chain.
    initial : (n,) or (n_chains, n) array-like
        Values or labels to start from; by default draws from the model without its couplings.
    n_jobs : int
        Threads, in which blocks of 32 chains run; None is as many as there are cores.
    return_diagnostics : bool
        Also return :class:`~hbm_learn.sampling.diagnostics.Diagnostics`.

    Returns
    -------
    (n_samples, n) array
        Values or labels; or (X, diagnostics).
    """
    n_samples, thin = check_integer("n_samples", n_samples, 1), check_integer("thin", thin, 1)
    burn_in = check_integer("burn_in", burn_in, 0)
    n_chains = min(128, n_samples) if n_chains is None else check_integer("n_chains", n_chains, 1)
    states = check_initial(model, initial, n_chains)
    n_draws = -(-n_samples // n_chains)
    if return_diagnostics:
        diagnostics.import_arviz()
        diagnostics.check_draws(n_draws, n_chains)
    seed = seed_sequence(random_state)
    if model.space.is_real:
        draws = gaussian.draw(model, n_draws * n_chains, seed).reshape(n_draws, n_chains, -1)
    else:
        chains = Chains(model, widths(n_chains), seed, states, n_jobs)
        early = agreement.burn_in(chains, burn_in)
        draws = chains.draw(n_draws, thin)
        seen = np.concatenate([early, agreement.strided(draws)])
        found = agreement.of_chains(chains, seen, burn_in // 2 + n_draws * thin, burn_in, seed.spawn(1)[0])
        found.warn(REMEDY)
    X = decode(draws.reshape(-1, model.n_features)[:n_samples], model.space)
    return (X, diagnostics.diagnose(model, draws)) if return_diagnostics else X
