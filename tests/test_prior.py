"""The prior: penalties by order, and empirical Bayes against a brute-force maximum of the evidence."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path

import numpy as np
import pytest
from fits import likelihood_fit
from oracle import random_model
from scipy import optimize

from hbm_learn import HBM, BoltzmannMachine, Interactions, Moments, datasets, sample
from hbm_learn.inversion import prior as prior_module
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import FLOOR, Prior, check_alpha, learn, update
from hbm_learn.inversion.result import Fit, HasWhole
from hbm_learn.space import Space
from hbm_learn.states import StateTable


def fitter(moments: Moments, interactions: Interactions):
    """The callback of ``learn``, and the list of α that it was given."""
    asked: list[dict[int, float]] = []

    def fit(alpha, previous):
        asked.append(alpha)
        start = None if previous is None else previous.parameters.model(previous.theta)
        return likelihood_fit(moments, interactions, start, Prior(alpha))

    return fit, asked


def data(model: BoltzmannMachine, n_samples: int, seed: int = 0) -> Moments:
    return Moments.from_samples(sample(model, n_samples, "exact", random_state=seed), model.order, model.alphabet)


def log_evidence(moments: Moments, interactions: Interactions, alpha: dict[int, float]) -> float:
    """ln ∫ P(data | θ) P(J | α) dθ by Laplace's method, up to a constant."""
    result = likelihood_fit(moments, interactions, None, Prior(alpha))
    table = StateTable(result.parameters.model(result.theta))
    M, J = moments.n_samples, result.weights
    t = np.concatenate([moments.mean, moments.moments(interactions)])
    value = result.theta @ t - table.log_partition
    precision = np.array([alpha[len(mu)] for mu in interactions.tuples])
    H = M * table.fisher(result.parameters) + np.diag(np.r_[np.zeros(moments.n_features), precision])
    return M * value + 0.5 * (np.log(precision).sum() - precision @ J**2 - np.linalg.slogdet(H)[1])


def test_penalties_by_order():
    interactions = Interactions.upto(3, 3)
    prior = Prior({2: 4.0, 3: 8.0}, l1_ratio=0.25)
    np.testing.assert_allclose(prior.ridge(interactions), [3.0, 3.0, 3.0, 6.0])
    np.testing.assert_allclose(prior.lasso(interactions), [1.0, 1.0, 1.0, 2.0])


@pytest.mark.parametrize(
    ("given", "found"), [(2, {2: 2.0, 3: 2.0}), ([1, 5], {2: 1.0, 3: 5.0}), ({2: 0, 3: 1, 4: 7}, {2: 0.0, 3: 1.0})]
)
def test_alpha_for_each_order(given, found):
    assert check_alpha(given, 3) == found
    assert check_alpha("auto", 3) == "auto"


@pytest.mark.parametrize("bad", ["best", -1.0, np.nan, [1.0], {2: 1.0}, [1.0, "x"], np.inf])
def test_bad_alpha_is_named(bad):
    with pytest.raises(ValueError, match="alpha="):
        check_alpha(bad, 3)


def bare_fit(interactions: Interactions, J: np.ndarray, errors: np.ndarray, alpha: dict, kept, noise) -> Fit:
    """A fit of couplings alone, whose own parameters play no part."""
    n = interactions.n_features
    parameters = Parameters(Space.of((-1, 1), n), interactions, "free", [np.full(2, 0.5)] * n)
    theta, variance = np.r_[np.zeros(n), J], np.r_[np.zeros(n), errors**2]
    return Fit("bare", parameters, theta, variance, variance, kept, noise, dict(alpha))


def gaussian_fitter(interactions: Interactions, y: np.ndarray, precision: np.ndarray):
    """A fit whose evidence is known: y ~ N(J, precision⁻¹)."""

    def fit(alpha, previous):
        A = np.diag([alpha[len(mu)] for mu in interactions.tuples])
        S = np.linalg.inv(precision + A)
        errors, sampling = np.sqrt(np.diag(S)), np.sqrt(np.diag(S @ precision @ S))
        kept = 1.0 - np.diag(A) * (errors**2 + sampling**2)
        return bare_fit(interactions, S @ precision @ y, errors, alpha, kept, sampling**2)

    return fit


def gaussian_data(tau: tuple[float, float]) -> tuple[Interactions, np.ndarray, np.ndarray]:
    """y ~ N(J, Σ) with J ~ N(0, τ²), and Σ."""
    rng = np.random.default_rng(3)
    interactions = Interactions.upto(3, 8)
    sizes = np.diff(interactions.indptr)
    B = rng.normal(size=(len(sizes), 2 * len(sizes)))
    Sigma = 0.01 * B @ B.T / B.shape[1]
    return interactions, rng.multivariate_normal(rng.normal(size=len(sizes)) * np.where(sizes == 2, *tau), Sigma), Sigma


def log_gaussian_evidence(y: np.ndarray, Sigma: np.ndarray, prior_variances: np.ndarray) -> float:
    C = Sigma + np.diag(prior_variances)
    return -0.5 * float(np.linalg.slogdet(C)[1] + y @ np.linalg.solve(C, y))


@pytest.mark.parametrize("tau", [(0.3, 0.1), (0.3, 0.03), (0.05, 0.3)])
def test_learnt_alpha_maximises_the_evidence_of_gaussian_data(tau):
    """The evidence in closed form, maximised by scipy."""
    interactions, y, Sigma = gaussian_data(tau)
    sizes = np.diff(interactions.indptr)
    best = optimize.minimize(
        lambda u: -log_gaussian_evidence(y, Sigma, np.exp(-np.where(sizes == 2, *u))), np.log([10.0, 10.0])
    )
    learnt = learn(gaussian_fitter(interactions, y, np.linalg.inv(Sigma)), {2: 1.0, 3: 1.0}, tol=1e-7)
    # An absent order ends at the floor: a share of its sampling variances, the other order having its prior.
    variances = np.exp(-best.x)
    for k, (other, variance) in {2: (3, variances[1]), 3: (2, variances[0])}.items():
        information = np.diag(np.linalg.inv(Sigma + np.diag(np.where(sizes == other, variance, 0.0))))[sizes == k]
        expected = max(variances[k - 2], FLOOR / information.mean())
        assert 1 / learnt.alpha[k] == pytest.approx(expected, rel=2e-3)


@pytest.mark.parametrize("tau", [(0.3, 0.1), (0.3, 0.05), (0.05, 0.3), (0.3, 0.0), (0.0, 0.3)])
def test_errors_allow_for_an_uncertain_prior(tau):
    """They are those of E[τ²] = ∫ τ² evidence dτ² / ∫ evidence dτ²; at the maximum an absent order has no errors."""
    interactions, y, Sigma = gaussian_data(tau)
    sizes = np.diff(interactions.indptr)
    grid = np.concatenate([np.linspace(0.0, 0.02, 40, endpoint=False), np.geomspace(0.02, 1.0, 30)])
    spacing = np.gradient(grid)
    log_p = np.array([[log_gaussian_evidence(y, Sigma, np.where(sizes == 2, a, b)) for b in grid] for a in grid])
    p = np.exp(log_p - log_p.max()) * np.outer(spacing, spacing)
    means = np.array([grid @ p.sum(axis=1), grid @ p.sum(axis=0)]) / p.sum()
    fit = gaussian_fitter(interactions, y, np.linalg.inv(Sigma))
    found = learn(fit, {2: 1.0, 3: 1.0}, tol=1e-4)
    expected = fit({2: 1 / means[0], 3: 1 / means[1]}, None)
    ratio = np.sqrt(found.errors2 / expected.errors2)
    assert ((ratio > 0.85) & (ratio < 1.35)).all()
    plain = np.sqrt(fit(found.alpha, None).errors2)
    assert (np.sqrt(found.errors2) >= plain).all()
    if found.alpha[2] > 1e4:  # the negative control: here the evidence is largest without pairs
        assert (ratio * plain / np.sqrt(found.errors2))[interactions.slice(2)].max() < 0.5


def test_learnt_alpha_maximises_the_evidence_of_a_likelihood():
    """By Laplace's method; MacKay leaves out how F moves with α, so look as far as that matters."""
    model = random_model(7, 3, (-1, 1), 0.7, seed=2)
    moments = data(model, 5000)
    fit, _ = fitter(moments, model.columns)
    found = learn(fit, {2: 1.0, 3: 1.0}).alpha
    best = log_evidence(moments, model.columns, found)
    for k in (2, 3):
        for factor in (0.5, 2.0):
            assert log_evidence(moments, model.columns, {**found, k: factor * found[k]}) < best


def test_the_fixed_point_is_mackays_and_does_not_depend_on_the_start():
    """τ² = Σ Ĵ² / Σ (1 − α s²), with the errors of a fit whose α is given."""
    model = random_model(8, 3, (-1, 1), 0.6, seed=4)
    moments = data(model, 3000)
    found = []
    for start in (1e-2, 1.0, 1e6):
        fit, asked = fitter(moments, model.columns)
        result = learn(fit, {2: start, 3: start}, tol=1e-5)
        assert len(asked) < 15
        plain = fit(result.alpha, result)
        for k, again in update(plain).items():
            where = model.columns.slice(k)
            J2, s2 = plain.weights[where] ** 2, plain.errors2[where]
            mackay = np.sum(1 - plain.alpha[k] * s2) / J2.sum()
            np.testing.assert_allclose([again, mackay], plain.alpha[k], rtol=1e-3)
        found.append([result.alpha[2], result.alpha[3]])
    np.testing.assert_allclose(found[1:], [found[0]] * 2, rtol=5e-3)


def test_an_absent_order_is_switched_off():
    model = datasets.make_random(8, {2: 0.25}, random_state=0)
    off = 0
    for seed in range(5):
        moments = Moments.from_samples(sample(model, 2000, "exact", random_state=seed), 3, (-1, 1))
        interactions = Interactions.upto(3, 8)
        fit, asked = fitter(moments, interactions)
        result = learn(fit, diagonal.invert(moments, interactions).alpha)
        flat = likelihood_fit(moments, interactions, None, Prior({2: 0.0, 3: 0.0}))
        triplets = interactions.slice(3)
        kept = np.linalg.norm(result.weights[triplets]) / np.linalg.norm(flat.weights[triplets])
        assert kept < 0.35
        off += kept < 0.02
        pairs = interactions.slice(2)
        assert np.linalg.norm(result.weights[pairs]) > 0.8 * np.linalg.norm(flat.weights[pairs])
        assert len(asked) <= 15
    assert off >= 2  # noise alone favours a positive variance in about half of the data sets


def test_an_order_that_the_start_takes_for_absent_comes_back():
    model = random_model(8, 3, (-1, 1), 0.8, seed=5)
    fit, _ = fitter(data(model, 20_000), model.columns)
    usual, from_off = learn(fit, {2: 1.0, 3: 1.0}), learn(fit, {2: 1.0, 3: 1e9})
    np.testing.assert_allclose(from_off.weights, usual.weights, atol=2e-3)


def test_exact_moments_need_no_prior():
    model = random_model(5, 3, (-1, 1), 0.6, seed=6)
    table = StateTable(model)
    moments = Moments.from_distribution(table.states(np.arange(32)), table.p, 3, (-1, 1))
    fit, _ = fitter(moments, model.columns)
    result = learn(fit, diagonal.invert(moments, model.columns).alpha)
    np.testing.assert_allclose(result.weights, model.weights, atol=1e-8)


@pytest.mark.parametrize("fixed", [0.0, 5.0])
def test_learning_is_bounded_whatever_the_fits_say(fixed):
    """A fit that answers nonsense, or couplings that are all zero: finite α, and an end."""
    interactions, rounds = Interactions.upto(3, 4), []
    rng = np.random.default_rng(0)

    def fit(alpha: dict[int, float], previous: Fit | None) -> Fit:
        rounds.append(alpha)
        J, errors = fixed * rng.normal(size=len(interactions)), rng.uniform(0.0, 1.0, len(interactions))
        kept, noise = rng.uniform(0.0, 1.0, (2, len(interactions)))
        return bare_fit(interactions, J, errors, alpha, kept, noise)

    result = learn(fit, {2: 1.0, 3: 1.0}, max_rounds=12)
    assert len(rounds) <= 13
    assert all(np.isfinite(a) and a > 0 for a in result.alpha.values())


@pytest.mark.parametrize("order", [2, 3])
def test_data_on_the_boundary_have_finite_couplings(order):
    rng = np.random.default_rng(1)
    X = rng.choice([-1, 1], (300, 5))
    X[:, 2] = X[:, 0]
    X[(X[:, 3] == 1) & (X[:, 4] == 1), 4] = -1
    moments, interactions = Moments.from_samples(X, order, (-1, 1)), Interactions.upto(order, 5)
    fit, asked = fitter(moments, interactions)
    result = learn(fit, diagonal.invert(moments, interactions).alpha)
    assert result.converged, result.status
    assert np.abs(result.weights).max() < 20
    assert len(asked) <= 31


@pytest.mark.slow
@pytest.mark.parametrize("beta", [0.3, 0.6, 1.0])
def test_efficiency_against_the_cramer_rao_bound(beta, monkeypatch):
    """The table of benchmarks/bench_efficiency.py. A ratio to the bound has a standard error of 1/√(2·298·sets)."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    from bench_efficiency import measure

    sets = 20
    allowance = 2.0 / np.sqrt(2 * 298 * sets)
    some = ("alpha=0", "auto", "pseudo alpha=0", "pseudo auto")
    assert measure(beta, beta, 1000, sets, some).ratio("auto") < 0.75
    for n_samples in (10_000, 100_000):
        cell = measure(beta, beta, n_samples, sets, some)
        assert cell.ratio("auto") < 1.0 + allowance
        assert cell.ratio("pseudo auto") < 1.0 + allowance
        assert cell.ratio("alpha=0") < 1.05
        # At β = 1 and M = 1e4 the maximum of the likelihood itself is above the bound, and pseudolikelihood with it.
        assert cell.ratio("pseudo alpha=0") < 1.05 * max(1.0, cell.ratio("alpha=0"))
        assert cell.ratio("auto") < cell.ratio("alpha=0")
    for n_samples in (1000, 10_000):
        assert measure(beta, 0.0, n_samples, sets, ("auto",)).ratio("auto") < 0.55


def test_covariances_are_formed_for_the_last_round_only(monkeypatch):
    """A learnt prior wants variances of every round, and the matrices of the last one."""
    made = []
    whole = HasWhole.whole.func

    def counted(self):
        made.append(self)
        return whole(self)

    counting = cached_property(counted)
    counting.__set_name__(HasWhole, "whole")
    monkeypatch.setattr(HasWhole, "whole", counting)
    rounds = []
    learn_update = prior_module.update
    monkeypatch.setattr(prior_module, "update", lambda result: rounds.append(result) or learn_update(result))
    X = sample(datasets.make_random(6, {2: 0.4, 3: 0.3}, random_state=4), 200, random_state=4)
    for refine in ("likelihood", "pseudolikelihood"):
        made.clear(), rounds.clear()
        HBM(order=3, refine=refine).fit(X)
        assert len(rounds) >= 2
        assert {id(each) for each in made}.isdisjoint(id(each) for each in rounds[:-1])
        assert made
