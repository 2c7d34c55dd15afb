"""Does the fitted model make data like these? Samples of it against the data, in standard errors.

    z_k = (⟨s_k⟩_model − ⟨s_k⟩_data) / √(σ_k²/M + error of the chains²),   s_k in the standard gauge u

of means, covariances, the moments that were fitted, some of the next order that were not, and the distribution of
S = Σ_c u_c. The conditionals of a model can be right while the whole has a second phase that the data do not have: so
chains start at data rows, others from independent draws and from far states, and all must come to the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hbm_learn._kernels.product_sums import power_sums
from hbm_learn._threads import in_threads, row_parts
from hbm_learn._validation import check_integer, seed_sequence
from hbm_learn.assessment import counts
from hbm_learn.assessment.compared import Compared
from hbm_learn.assessment.compared_sets import random_sets, some_sets
from hbm_learn.assessment.node_data import frequencies
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.shrinkage.expansion import poisson_root
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling.agreement import matters
from hbm_learn.sampling.chains import Chains, far_states, sweep_cost, widths
from hbm_learn.sampling.diagnostics import AGREEMENT, nested_r_hat
from hbm_learn.space import Space
from hbm_learn.states import StateTable

# Models with so few states are compared with the data without samples.
MAX_LISTED = 2**14
# Draws from them, and moments that are compared: every fit pays for it.
LISTED_DRAWS, LISTED_MOMENTS = 8192, 400
# A moment is compared if so many rows carry its variance: the Gaussian reference holds from about there.
MIN_CARRIERS = 30
# Moments of a group at most, drawn at random beyond; work of the chains.
MAX_MOMENTS, MAX_WORK = 4000, 2e9
# Rows of a table that stays with workers that are compared.
MAX_ROWS = 2**15
# Sweeps between draws; bins of the histogram of S; its quantiles in the data at which tails are compared.
THIN, BINS = 10, 40
TAILS = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)


@dataclass(frozen=True, eq=False)
class PredictiveCheck:
    """Samples of a fitted model against its data.

    Attributes
    ----------
    means, covariances, fitted, unfitted, total : Compared
        Of columns u; of pairs of them; of the means and interactions of the model; of sets one order above the
        model's; of the mean, variance and tails of S = Σ u. A group that is too large is a random part of it.
    r_hat : float
        Nested R-hat of chains from data rows, from independent draws and from far states: the worst of S, the
        energy and the columns.
    total_r_hat, energy_r_hat : float
        Of S and of the energy.
    ess : float
        Effective number of draws of S behind the model's side.
    n_data, n_draws : float
        Rows (Σ of their weights) and draws compared.
    edges, data_histogram, model_histogram : (b + 1,), (b,), (b,) arrays
        Shares of S in each bin.
    counts : tuple of three arrays, or None
        Edges, data and model in the same way of the population count K = Σ x, where all variables are 0/1.
    """

    means: Compared
    covariances: Compared
    fitted: Compared
    unfitted: Compared
    total: Compared
    r_hat: float
    total_r_hat: float
    energy_r_hat: float
    ess: float
    n_data: float
    n_draws: int
    edges: np.ndarray
    data_histogram: np.ndarray
    model_histogram: np.ndarray
    counts: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None

    @property
    def mixes(self) -> bool:
        """Whether chains from all starts come to the same: R-hat at most 1.05."""
        return self.r_hat <= AGREEMENT

    @property
    def agrees_fitted(self) -> bool:
        """Whether the largest ``|z|`` of the means and fitted moments may be chance, at level 0.001."""
        return self.means.agrees and self.fitted.agrees

    @property
    def agrees_total(self) -> bool:
        """The same of the distribution of S."""
        return self.total.agrees

    @property
    def agrees_unfitted(self) -> bool:
        """The same of moments that were not fitted: where they do not, a higher order has something to say."""
        return self.unfitted.agrees

    @property
    def message(self) -> str:
        """A sentence or two."""
        if not self.mixes:
            head = f"Chains from data rows and from elsewhere disagree (R-hat {self.r_hat:.2f}): the model has phases"
            return f"{head} that chains do not leave, and its samples cannot be judged."
        words = {"fitted moments": self.agrees_fitted, "the distribution of Σu": self.agrees_total}
        bad = [name for name, fine in words.items() if not fine]
        largest = max(self.means.largest, self.fitted.largest)
        if bad:
            return f"Samples of the model differ from the data in {' and '.join(bad)} (largest |z| {largest:.1f})."
        more = "" if self.agrees_unfitted else (
            f" Moments that were not fitted differ (|z| {self.unfitted.largest:.1f}): a higher order may help."
        )  # fmt: skip
        return f"Samples of the model have the data's moments (largest |z| {largest:.1f}).{more}"


def check(
    model: BoltzmannMachine,
    samples: Samples,
    random_state: Any = None,
    *,
    n_chains: int | None = None,
    n_sweeps: int = 400,
    n_jobs: int | None = None,
) -> PredictiveCheck:
    """Sample a fitted model and compare with the data.

    Parameters
    ----------
    model : BoltzmannMachine
        On finite variables.
    samples : Samples
        What it was fitted to; rows with missing cells are left out, and of a dask table a few thousand rows are drawn.
    random_state : None, int, SeedSequence, Generator or RandomState
    n_chains : int
        A half starts at data rows, a quarter at independent draws, a quarter far away (uniform over the values, all at
        the last value, all at the first). By default as many as take a fraction of a second, 128 to 2048.
    n_sweeps : int
        Sweeps of each chain; the first half is dropped.
    n_jobs : int
        Threads; None is as many as there are cores.
    """
    space = model.space
    if not space.is_finite:
        raise ValueError(f"{space} has continuous variables, which cannot be compared: give finite alphabets.")
    n_sweeps = check_integer("n_sweeps", n_sweeps, 4 * THIN)
    seed = seed_sequence(random_state)
    rng = np.random.default_rng(seed.spawn(1)[0])
    codes, w = _rows(samples, seed)
    if n_chains is None:
        n_chains = int(np.clip(MAX_WORK / (n_sweeps * sweep_cost(model)), 128, 2048))
    n_chains = check_integer("n_chains", n_chains, 16) // 4 * 4
    starts, kind = _starts(codes, w, space, n_chains, rng)
    chains = Chains(model, widths(n_chains), seed.spawn(1)[0], starts, n_jobs)
    chains.advance(n_sweeps // 2)
    draws = chains.draw(n_sweeps // 2 // THIN, THIN)
    return _compare(model, codes, w, draws, kind, rng, MAX_MOMENTS)


def check_listed(model: BoltzmannMachine, samples: Samples, random_state: Any = None) -> PredictiveCheck:
    """The same for a model whose states can be listed, by independent draws.

    Parameters
    ----------
    model : BoltzmannMachine
    samples : Samples
    random_state : None, int, SeedSequence, Generator or RandomState
    """
    seed = seed_sequence(random_state)
    rng = np.random.default_rng(seed)
    codes, w = _rows(samples, seed)
    table = StateTable(model)
    p = table.p.ravel()
    drawn = table.codes(rng.choice(len(p), LISTED_DRAWS, p=p / p.sum()))
    draws = drawn.reshape(32, -1, drawn.shape[1])
    return _compare(model, codes, w, draws, np.zeros(draws.shape[1], dtype=int), rng, LISTED_MOMENTS)


def factorises(model: BoltzmannMachine) -> bool:
    """Whether the modelled variables are independent given the others: no two take part in one interaction."""
    space, columns = model.space, model.columns
    modelled = ~space.given[space.site]
    return space.has_given and all((modelled[columns.block(k)].sum(axis=1) <= 1).all() for k in columns.orders)


def check_factorised(model: BoltzmannMachine, samples: Samples, random_state: Any = None) -> PredictiveCheck:
    """The same where modelled variables are independent given the others, by independent draws: of given values from
    the data, and of the others in one sweep.

    Parameters
    ----------
    model : BoltzmannMachine
    samples : Samples
    random_state : None, int, SeedSequence, Generator or RandomState
    """
    seed = seed_sequence(random_state)
    rng = np.random.default_rng(seed.spawn(1)[0])
    codes, w = _rows(samples, seed)
    chains = Chains(
        model, widths(LISTED_DRAWS), seed.spawn(1)[0], codes[rng.choice(len(codes), LISTED_DRAWS, p=w / w.sum())]
    )
    chains.advance(1)
    draws = chains.states().reshape(32, -1, model.n_features)
    return _compare(model, codes, w, draws, np.zeros(draws.shape[1], dtype=int), rng, LISTED_MOMENTS)


def _rows(samples: Samples, seed: np.random.SeedSequence) -> tuple[np.ndarray, np.ndarray]:
    """(rows, n) codes without missing cells, and their weights; some drawn at random of a table that stays away."""
    codes, weights = samples.some(MAX_ROWS, seed)
    w = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=float)
    keep = ~samples.space.missing(codes).any(axis=1) & (w > 0)
    if keep.sum() < 2:
        raise ValueError("samples has fewer than 2 rows without missing cells: there is nothing to compare with.")
    return codes[keep], w[keep]


def _starts(
    codes: np.ndarray, w: np.ndarray, space: Space, n_chains: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """(n_chains, n) codes, and of each chain where it starts: 0 data rows, 1 independent draws, 2 far states."""
    kind = np.repeat([0, 1, 2], [n_chains // 2, n_chains // 4, n_chains // 4])
    p = w / w.sum()
    out = codes[rng.choice(len(codes), n_chains, p=p)].copy()
    for i in np.flatnonzero(~space.given):
        out[kind == 1, i] = codes[rng.choice(len(codes), n_chains // 4, p=p), i]
    out[np.ix_(kind == 2, ~space.given)] = far_states(space, n_chains // 4, rng)[:, ~space.given]
    return out, kind


# ---------------------------------------------------------------------- comparison


def _compare(
    model: BoltzmannMachine,
    codes: np.ndarray,
    w: np.ndarray,
    draws: np.ndarray,
    kind: np.ndarray,
    rng: Any,
    most: int,
) -> PredictiveCheck:
    space, M = model.space, float(w.sum())
    standard = space.standard(frequencies(space, codes, w))
    data, drawn = standard.columns(codes), standard.columns(draws.reshape(-1, draws.shape[2]))
    by_chain = drawn.reshape(*draws.shape[:2], -1)
    energy = model.energy_of_codes(draws.reshape(-1, draws.shape[2])).reshape(draws.shape[:2])
    modelled = np.flatnonzero(~space.given[space.site])
    total = by_chain[:, :, modelled].sum(axis=2)
    r_hat = np.ones(len(modelled) + 2)  # of independent draws
    if kind.any():
        known = kind < 2 + matters(model, draws[:, kind == 2], draws[:, kind == 0])
        r_hat = nested_r_hat(np.dstack([by_chain[:, :, modelled], total, energy])[:, known], kind[known])
    # Chains from elsewhere are for R-hat: one stuck in a phase of no weight must not speak for the model.
    here = by_chain[:, kind == 0]

    def compared(sets: Interactions) -> Compared:
        return Compared(*_z(data, w, here, sets), sets.tuples)

    singles = Interactions.from_blocks([modelled[:, None]], standard.n_columns)
    fitted = some_sets(model.columns, rng, most)
    pairs = fitted if set(model.columns.orders) == {2} else random_sets(standard, 2, rng, most)
    same = compared(fitted)
    own, sums = total[:, kind == 0], data[:, modelled].sum(axis=1)
    edges, histograms = _histograms(sums, w, own)
    spread = own.mean(axis=0).var(ddof=1)
    return PredictiveCheck(
        means=compared(singles),
        covariances=same if pairs is fitted else compared(pairs),
        fitted=same,
        unfitted=compared(random_sets(standard, model.order + 1, rng, most)),
        total=_total(sums, w, own),
        r_hat=float(r_hat.max()),
        total_r_hat=float(r_hat[-2]),
        energy_r_hat=float(r_hat[-1]),
        ess=float(own.shape[1] * own.var() / spread) if spread > 0 else float(own.size),
        n_data=M,
        n_draws=own.size,
        edges=edges,
        data_histogram=histograms[0],
        model_histogram=histograms[1],
        counts=counts.histograms(codes, w, draws[:, kind == 0]) if counts.are_events(space) else None,
    )


def _z(data: np.ndarray, w: np.ndarray, drawn: np.ndarray, sets: Interactions) -> tuple[np.ndarray, np.ndarray]:
    """(p,) z of Π_{c∈μ} u_c and their errors: data (rows, N) with weights, drawn (draws, chains, N)."""
    if not len(sets):
        return np.zeros(0), np.zeros(0)
    n_draws, n_chains = drawn.shape[:2]
    # Of data and model: Σ s, Σ s², Σ s⁴ about 0, and over chains Σ (Σ_draws s)².
    sums = np.stack([_power_sums(data[None], w, sets), _power_sums(drawn, np.ones(n_chains), sets)])
    between = sums[1, 3] / n_draws**2 - sums[1, 0] ** 2 / (n_draws**2 * n_chains)
    sums = sums[:, :3]
    M, N = w.sum(), n_draws * n_chains
    mean = sums[:, 0] / np.array([[M], [N]])
    # Under agreement both sides have one variance: pooled, it is not zero because the data never saw a rare product.
    pooled = sums.sum(axis=0) / (M + N)
    centre = sums[:, 0].sum(axis=0) / (M + N)
    variance = np.maximum(pooled[1] - centre**2, 0.0)
    fourth = np.maximum(pooled[2], variance**2)  # about 0, which for rare products is as good as about the mean
    carriers = M * variance**2 / np.maximum(fourth, 1e-300)
    error2 = variance / M + np.maximum(between, 0.0) / ((n_chains - 1) * n_chains)
    z = poisson_root((mean[1] - mean[0]) / np.sqrt(np.maximum(error2, 1e-300)), carriers)
    return np.where((carriers >= MIN_CARRIERS) & (error2 > 0), z, np.nan), np.sqrt(error2)


def _power_sums(columns: np.ndarray, w: np.ndarray, sets: Interactions) -> np.ndarray:
    """(4, p) Σ_r w_r (Σ_d s, Σ_d s², Σ_d s⁴, (Σ_d s)²) of s = Π_{c∈μ} u_c: columns (D, rows, N), w (rows,)."""
    X, w = np.ascontiguousarray(columns.transpose(2, 0, 1), dtype=np.float32), w.astype(np.float32)
    out = np.zeros((len(sets), 4))

    def work(part: slice) -> None:
        power_sums(X, w, sets.members, sets.indptr[part.start : part.stop + 1], out[part])

    in_threads(work, row_parts(len(sets), len(sets) * X[0].size))
    return out.T


def _total(data: np.ndarray, w: np.ndarray, drawn: np.ndarray) -> Compared:
    """Mean, variance and tails of S: data (rows,), drawn (draws, chains)."""
    M = w.sum()
    order = np.argsort(data)
    quantiles = np.interp(TAILS, np.cumsum(w[order]) / M, data[order])
    centre = (w @ data) / M
    names = ["mean", "variance", *(f"P(S > {cut:.3g})" for cut in quantiles)]
    looks = [
        lambda S: S,
        lambda S: (S - centre) ** 2,
        *(lambda S, cut=cut: (cut < S).astype(float) for cut in quantiles),
    ]
    z, errors = np.full(len(looks), np.nan), np.zeros(len(looks))
    for k, look in enumerate(looks):
        s, t = look(data), look(drawn)
        mean, other = (w @ s) / M, t.mean()
        variance = 0.5 * ((w @ (s - mean) ** 2) / M + t.var())
        error2 = variance / M + t.mean(axis=0).var(ddof=1) / t.shape[1]
        carried = variance > 0 and M * variance**2 >= MIN_CARRIERS * (w @ (s - mean) ** 4) / M
        if carried and error2 > 0:
            z[k], errors[k] = (other - mean) / np.sqrt(error2), np.sqrt(error2)
    return Compared(z, errors, names)


def _histograms(data: np.ndarray, w: np.ndarray, drawn: np.ndarray) -> tuple[np.ndarray, list[np.ndarray]]:
    """Edges, and the shares of data and model."""
    low, high = min(data.min(), drawn.min()), max(data.max(), drawn.max())
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    return edges, [
        np.histogram(data, edges, weights=w)[0] / w.sum(),
        np.histogram(drawn, edges)[0] / drawn.size,
    ]
