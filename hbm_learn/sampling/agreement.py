"""Do chains agree, with one another and with chains from far away? Asked whenever there are chains, without ArviZ.

    split R-hat of each chain's halves;   nested R-hat, √(1 + B/W), of the chains against chains from far states

of every column φ_c, of S = Σ_c (φ_c − mean)/sd, and of the energy. Chains that all start alike may all miss a phase:
others start far from there (``far_states``) and must come to the same, unless the phase that holds them has no weight:

    ln Z_B ≈ −⟨H⟩_B + Σ_i S_i,   S_i the entropies of single variables in B
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student
from sklearn.exceptions import ConvergenceWarning

from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling.chains import FAR_KINDS, Chains, far_states, widths
from hbm_learn.sampling.diagnostics import AGREEMENT, nested_r_hat, split_r_hat, traces

# Split R-hat at which to warn. A chain whose halves hold five effective draws reaches it; see tests/test_agreement.py
# for how rarely chains of healthy models do.
DISAGREEMENT = 1.1
# Chains, draws of each, and sweeps over which these spread, from which R-hat is computed. Over fewer sweeps a chain
# need not forget its start, and many chains can still be right together: far states are for that.
MIN_CHAINS, MIN_DRAWS, MIN_SWEEPS = 4, 20, 400
# Draws kept of the second half of the burn-in, and of the rest.
BURNT, KEPT = 32, 64
# Populations differ if chance makes them so less often than this, and their R-hat is above the limit.
CHANCE = 1e-5
# Chains from far states, and sweeps before they are looked at, at least.
FAR_CHAINS, FAR_SWEEPS = 48, 500
# A phase whose ln Z is as much lower is not worth a word.
NEGLIGIBLE = 12.0


@dataclass(frozen=True)
class Agreement:
    """Whether chains agree.

    Attributes
    ----------
    r_hat : float
        The largest split R-hat; NaN with too few chains or draws.
    far : tuple of float
        The largest nested R-hat against chains from each kind of far states, and from all of them, of what differs
        beyond chance; 1 if nothing does.
    """

    r_hat: float
    far: tuple[float, ...] = ()

    @property
    def far_r_hat(self) -> float:
        """The largest of ``far``."""
        return max(self.far, default=1.0)

    @property
    def agree(self) -> bool:
        """Neither is above its limit."""
        return not (self.r_hat > DISAGREEMENT or self.far_r_hat > AGREEMENT)

    def sentence(self, remedy: str) -> str:
        """What to tell a user whose chains disagree."""
        if self.r_hat > DISAGREEMENT:
            return f"The chains disagree: R-hat reaches {self.r_hat:.2f} (limit {DISAGREEMENT}); {remedy}."
        return (
            f"Chains from far states do not come to where these are (R-hat {self.far_r_hat:.2f}, limit {AGREEMENT}): "
            f"the model has a second phase, and the share of each phase is not known; {remedy}."
        )

    def warn(self, remedy: str) -> None:
        """A ConvergenceWarning if they do not agree."""
        if not self.agree:
            warnings.warn(self.sentence(remedy), ConvergenceWarning, stacklevel=4)


def traced(model: BoltzmannMachine, draws: np.ndarray) -> np.ndarray:
    """(n_draws, n_chains, N + 2) columns φ, H and S of (n_draws, n_chains, n) codes."""
    found = traces(model, draws)
    columns = found[:, :, :-1]
    scale = columns.std(axis=(0, 1))
    total = columns @ np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 1e-12)
    return np.concatenate([found, total[:, :, None]], axis=2)


def strided(draws: np.ndarray, most: int = KEPT) -> np.ndarray:
    """At most about so many of the draws, evenly spread."""
    return draws[:: max(1, len(draws) // most)]


def burn_in(chains: Chains, n_sweeps: int) -> np.ndarray:
    """Burn chains in, and return some (n_draws, n_chains, n) draws of the second half of it."""
    n_draws = min(BURNT, n_sweeps // 2)
    thin = n_sweeps // 2 // n_draws if n_draws else 1
    chains.advance(n_sweeps - n_draws * thin)
    return chains.draw(n_draws, thin)


def compare(model: BoltzmannMachine, draws: np.ndarray, n_sweeps: int, far: np.ndarray | None = None) -> Agreement:
    """Agreement of (n_draws, n_chains, n) draws over n_sweeps, and with (n_draws, n_far, n) draws from far states."""
    n_draws, n_chains = draws.shape[:2]
    r_hat = np.nan
    if n_chains >= MIN_CHAINS and n_draws >= MIN_DRAWS and n_sweeps >= MIN_SWEEPS:
        r_hat = float(split_r_hat(traced(model, draws)).max())
    if far is None or n_chains < MIN_CHAINS:
        return Agreement(r_hat)
    n = min(n_draws, len(far))
    looks = traced(model, np.concatenate([strided(draws, n)[:n], far[:n]], axis=1))
    if n_chains < 4 * MIN_CHAINS:  # too few to compare every column
        looks = looks[:, :, -2:]
    one, others = looks[:, :n_chains], looks[:, n_chains:]
    found = []
    for two in _kinds(others):
        nested = nested_r_hat(np.concatenate([one, two], axis=1), np.repeat([0, 1], [n_chains, two.shape[1]]))
        found.append(float(np.max(nested, where=_apart(one, two), initial=1.0)))
    return Agreement(r_hat, tuple(found))


def _kinds(far: np.ndarray) -> list[np.ndarray]:
    """Chains from each kind of far states, and all together: some of every kind may be in a phase that none fills."""
    return [*(far[:, k::FAR_KINDS] for k in range(FAR_KINDS)), far]


def of_chains(
    chains: Chains, draws: np.ndarray, n_sweeps: int, burn_in: int, seed: np.random.SeedSequence
) -> Agreement:
    """Agreement of Gibbs chains, which have made these draws, with one another and with chains from far states.

    Parameters
    ----------
    chains : Chains
    draws : (n_draws, n_chains, n) array
        Codes.
    n_sweeps : int
        Over which the draws spread.
    burn_in : int
        Sweeps that chains from far states are given, if more than FAR_SWEEPS.
    seed : SeedSequence
        Of these chains.
    """
    model = chains.model
    if chains.n_chains < MIN_CHAINS:
        return Agreement(np.nan)
    rng = np.random.default_rng(seed.spawn(1)[0])
    starts, given = far_states(model.space, FAR_CHAINS, rng), model.space.given
    if model.space.has_given:  # which no chain leaves
        starts[:, given] = draws[-1][np.arange(FAR_CHAINS) % draws.shape[1]][:, given]
    far = Chains(model, widths(FAR_CHAINS), seed, starts, chains.n_jobs)
    far.advance(max(burn_in, FAR_SWEEPS))
    others = far.draw(min(len(draws), BURNT), 5)
    found = compare(model, draws, n_sweeps, others)
    if found.far_r_hat > AGREEMENT:
        heavy = [matters(model, each, draws) for each in _kinds(others)]
        return Agreement(found.r_hat, tuple(np.where(heavy, found.far, 1.0).tolist()))
    return found


def matters(model: BoltzmannMachine, far: np.ndarray, near: np.ndarray) -> bool:
    """Whether some chains from far states are in a phase of any weight beside that of most chains nearby.

    Parameters
    ----------
    model : BoltzmannMachine
    far, near : (n_draws, n_chains, n) arrays
        Codes.
    """
    return bool(np.quantile(_log_weights(model, far), 0.9) > np.median(_log_weights(model, near)) - NEGLIGIBLE)


def _log_weights(model: BoltzmannMachine, draws: np.ndarray) -> np.ndarray:
    """(n_chains,) −⟨H⟩ + Σ_i S_i: ln Z of the phase a chain is in, but for what correlations take from the entropy."""
    H = model.energy_of_codes(draws.reshape(-1, draws.shape[2])).reshape(draws.shape[:2])
    entropy = np.zeros(draws.shape[1])
    for i, q in enumerate(model.space.sizes.tolist()):
        x = draws[:, :, i]
        if q:
            p = np.stack([(x == value).mean(axis=0) for value in range(q)])
            entropy -= (p * np.log(np.maximum(p, 1e-300))).sum(axis=0)
        else:
            entropy += 0.5 + 0.5 * np.log(2 * np.pi * np.maximum(x.var(axis=0), 1e-300))
    return entropy - H.mean(axis=0)


def _apart(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    """(k,) whether the means of two populations differ beyond chance, by the spread of the means of their chains."""
    one, two = one.mean(axis=0), two.mean(axis=0)
    error = np.sqrt(one.var(axis=0, ddof=1) / len(one) + two.var(axis=0, ddof=1) / len(two))
    gap = np.abs(one.mean(axis=0) - two.mean(axis=0))
    limit = student.isf(CHANCE / (2 * FAR_KINDS * one.shape[1]), min(len(one), len(two)) - 1)
    return gap > limit * error + 1e-12 * (np.abs(one.mean(axis=0)) + np.abs(two.mean(axis=0)))
