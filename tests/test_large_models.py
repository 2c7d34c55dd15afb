"""More parameters than matrices can hold, and often more than rows: errors and learnt priors against the truth."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hbm_learn import HBM, BoltzmannMachine, Interactions, Moments, Nominal, datasets, invert, sample
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import pseudolikelihood, sandwich
from hbm_learn.inversion.composite.fit import CompositeFit
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior, learn
from hbm_learn.inversion.result import Fit
from hbm_learn.terms import all_terms

N = 30
EVERYTHING = Interactions.upto(3, N)  # 4495 couplings: errors come from probes
TRIPLETS = EVERYTHING.slice(3)


def prepare(samples: Samples) -> CompositeFit:
    """In the user's coding."""
    return pseudolikelihood.prepare(samples, Parameters(samples.space, EVERYTHING, "free", samples.frequencies))


def fit_pairwise_data(n_samples: int, alpha: dict[int, float], seed: int) -> Fit:
    """Triplets fitted to data that have none."""
    X = sample(datasets.make_sk(N, 0.3, h_std=0.1, random_state=seed), n_samples, random_state=seed)
    samples = Samples.check(X, (-1, 1))
    start = invert(Moments.from_samples(samples, order=3), EVERYTHING, alpha=alpha)
    return prepare(samples).fit(Prior(alpha), start.model, random_state=seed)


def excess(n_samples: int, alpha: float) -> float:
    """Σ Ĵ² of absent triplets over the sum of the squares of their sampling errors."""
    found = [fit_pairwise_data(n_samples, {2: N / 0.09 if alpha else 0.0, 3: alpha}, seed) for seed in range(3)]
    squares = [(r.weights[TRIPLETS] ** 2).sum() / r.sampling[N:][TRIPLETS].sum() for r in found]
    return float(np.mean(squares))


@pytest.mark.parametrize(
    ("n_samples", "alpha"), [(1000, 1e5), (1000, 3e3), (3000, 3e3), (3000, 300.0), (10_000, 3e3), (10_000, 0.0)]
)
def test_sampling_errors_are_those_of_absent_triplets(n_samples: int, alpha: float) -> None:
    """From an order that the prior all but switches off to none; 10⁴ rows are more than the Hessian takes."""
    assert excess(n_samples, alpha) == pytest.approx(1.0, abs=0.07)


@pytest.mark.parametrize(("n_samples", "alpha"), [(3000, 0.0), (3000, 1000.0), (10_000, 0.0)])
def test_sampling_errors_of_labels_are_those_of_absent_pairs(n_samples: int, alpha: float) -> None:
    """25 variables of four labels have three columns each, which share the leverage of a row."""
    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = np.column_stack([rng.choice(4, n_samples, p=rng.dirichlet(np.full(4, 8.0))) for _ in range(25)])
        samples = Samples.check(X, [Nominal(0, 1, 2, 3)] * 25)
        space = samples.space.standard(samples.frequencies)
        parameters = Parameters(space, all_terms(2, space), "free", samples.frequencies)
        fit = pseudolikelihood.prepare(samples, parameters).fit(Prior({2: alpha}), random_state=seed)
        assert fit.covariance is None  # 2775 parameters
        ratios.append((fit.weights**2).sum() / fit.sampling[parameters.n_own :].sum())
        z = (fit.free / np.sqrt(fit.free_variance))[parameters.n_own :]
        assert np.mean(z**2) == pytest.approx(1.0, abs=0.1)
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.05)


def test_leverage_is_what_makes_them_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandwich, "_same_rows", lambda *args: 1.0)
    assert excess(3000, 300.0) > 1.15


def test_tests_of_absent_couplings_on_bits() -> None:
    """On {0, 1} a prior on triplets pulls at the pairs: z is N(0, 1) without it, the shrunk estimates are not."""
    found: dict[int, list[np.ndarray]] = {2: [], 3: []}
    for seed in range(3):
        rng = np.random.default_rng(seed)
        sizes = np.diff(EVERYTHING.indptr)
        weights = 0.5 * rng.normal(size=len(sizes)) * (rng.random(len(sizes)) < np.where(sizes == 2, 0.3, 0.02))
        truth = BoltzmannMachine.from_packed(rng.normal(-1.0, 0.3, N), EVERYTHING, weights, alphabet=(0, 1))
        samples = Samples.check(sample(truth, 10_000, random_state=seed), (0, 1))
        prepared = prepare(samples)

        def fit(alpha: dict[int, float], last: Fit | None, prepared: CompositeFit = prepared) -> Fit:
            return prepared.fit(Prior(alpha), None if last is None else last.theta)

        result = learn(fit, {2: 10.0, 3: 100.0}, samples.n_samples)
        assert result.free is not None
        z = (result.free / np.sqrt(result.free_variance))[N:]
        shrunk = (result.theta / np.sqrt(result.sampling))[N:]
        for k in (2, 3):
            absent = (sizes == k) & (weights == 0.0)
            found[k].append(np.array([z[absent], shrunk[absent]]))
    for k, (z, shrunk) in ((k, np.concatenate(values, axis=1)) for k, values in found.items()):
        assert np.sqrt(np.mean(z**2)) == pytest.approx(1.0, abs=0.06)
        assert 0.04 < np.mean(np.abs(z) > 1.96) < 0.065
        if k == 2:
            assert np.mean(np.abs(shrunk) > 1.96) > 0.1  # the negative control


@pytest.mark.parametrize("n_samples", [500, 2000, 10_000])
@pytest.mark.parametrize("triplets", [0.0, 0.5])
@pytest.mark.parametrize("refine", [None, "pseudolikelihood"])
def test_learnt_prior_is_the_true_one(n_samples: int, triplets: float, refine: str | None) -> None:
    truth = datasets.make_random(N, {2: 0.3 / np.sqrt(N), 3: triplets / N}, 0.1, random_state=1)
    X = sample(truth, n_samples, random_state=2)
    est = HBM(order=3, refine=refine).fit(X)
    pairs = EVERYTHING.slice(2)
    assert np.log(est.alpha_[2] * np.mean(truth.weights[pairs] ** 2)) == pytest.approx(0.0, abs=0.35)
    if triplets:
        error, scale = est.weights_ - truth.weights, est.standard_errors_
        # What 500 rows say of triplets differs from table to table: see the next test.
        if n_samples > 1000:
            assert np.log(est.alpha_[3] * (triplets / N) ** 2) == pytest.approx(0.0, abs=0.3)
        for where in (pairs, TRIPLETS) if n_samples > 1000 else (pairs,):
            assert 0.8 < np.sqrt(np.mean((error[where] / scale[where]) ** 2)) < 1.25
    else:
        assert est.alpha_[3] > 10 * n_samples  # at most a tenth of an estimate is kept


@pytest.mark.slow
@pytest.mark.parametrize("refine", [None, "pseudolikelihood"])
def test_errors_of_a_few_rows_are_at_most_half_too_small(refine: str | None) -> None:
    """Nearly all of an estimate is noise: the prior is learnt from a variance of .1 beside 1, known to a half, and its
    own error is not in that of a coupling. Intervals, which reach over what the data say alone, hold the truth."""
    truth = datasets.make_random(N, {2: 0.3 / np.sqrt(N), 3: 0.5 / N}, 0.1, random_state=1)
    ratio, held, variance = [], [], []
    for seed in range(3, 7):
        est = HBM(order=3, refine=refine).fit(sample(truth, 500, random_state=seed))
        variance.append(np.log(est.alpha_[3] * (0.5 / N) ** 2))
        lower, upper = est.confidence_intervals().T
        ratio.append(np.mean(((est.weights_ - truth.weights) / est.standard_errors_)[TRIPLETS] ** 2))
        held.append(np.mean(((lower <= truth.weights) & (truth.weights <= upper))[TRIPLETS]))
    assert np.mean(variance) == pytest.approx(0.0, abs=0.7)
    assert 0.8 < np.sqrt(np.mean(ratio)) < 1.5
    assert np.mean(held) > (0.95 if refine else 0.82)


@pytest.mark.slow
@pytest.mark.parametrize("n_samples", [300, 1000, 3000])
@pytest.mark.parametrize("triplets", [0.0, 0.5])
def test_considering_triplets_never_hurts_beyond_enumeration(n_samples: int, triplets: float) -> None:
    """Σ_i ln P(x_i | rest) of as many new rows, on average over six data sets: at most half a standard error of one
    paired difference is lost, or a thousandth of what pairs gain. (Without triplets, orders 2 and 3 are often nearly
    the same model, and so is the error of their difference.)"""
    losses, gains = [], []
    for seed in range(6):
        truth = datasets.make_random(N, {2: 0.5 / np.sqrt(N), 3: triplets / N}, 0.1, random_state=seed)
        X, new = np.split(np.asarray(sample(truth, 2 * n_samples, random_state=seed)), 2)
        models = [HBM(order=order).fit(X).model_ for order in (1, 2, "auto")]
        first, second, third = (-np.logaddexp(0.0, -2.0 * new * m.local_fields(new)).sum(axis=1) for m in models)
        assert np.mean(third - first) > 0.0
        losses.append((np.mean(second - third), (second - third).std() / np.sqrt(n_samples)))
        gains.append(np.mean(second - first))
    loss, error = np.mean(losses, axis=0)
    assert loss <= max(0.5 * error, 1e-3 * np.mean(gains))
    if triplets and n_samples >= 1000:
        assert -loss > 0.1 * np.mean(gains)


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
@pytest.mark.filterwarnings("ignore:Do not rely on this fit:UserWarning")
def test_a_repeated_column_is_not_called_converged(refine: str) -> None:
    """The closed form starts so far out that steps vanish there."""
    X = np.random.default_rng(0).choice([-1, 1], (500, 25))
    X[:, 3] = X[:, 0]
    with (
        pytest.warns(UserWarning, match="columns 0, 3 are collinear"),
        pytest.warns(ConvergenceWarning, match="no finite maximum.*alpha > 0"),
    ):
        open_ended = HBM(order=2, refine=refine, alpha=0.0).fit(X)
    assert not open_ended.converged_
    with pytest.warns(UserWarning, match="columns 0, 3 are collinear"):
        closed = HBM(order=2, refine=refine).fit(X)
    assert closed.converged_
    for est in (open_ended, closed):
        for array in (est.weights_, est.standard_errors_):
            assert np.isfinite(array).all()
    assert np.abs(closed.weights_).max() < 20
