"""Closed form and likelihood on spaces of different kinds, against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from fits import likelihood_fit, model_of
from oracle import SPACES, all_codes, distribution, random_mixed
from scipy import optimize

from hbm_learn import BoltzmannMachine, Moments, infer, invert
from hbm_learn.assessment.tests import Tests
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.closed_form.pairs import couplings_of_pairs
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior


def moments_of(model: BoltzmannMachine, order: int, n_samples: float = np.inf, seed: int = 0) -> Moments:
    """Exact moments, or those of samples."""
    _, p, _ = distribution(model)
    codes = all_codes(model)
    if np.isinf(n_samples):
        return Moments.from_distribution(codes, p, order, space=model.space)
    drawn = np.random.default_rng(seed).choice(len(p), int(n_samples), p=p)
    rows, counts = np.unique(drawn, return_counts=True)
    weights = np.zeros(len(p))
    weights[rows] = counts
    return Moments.from_samples(model.space.decode(codes), order, sample_weight=weights, space=model.space)


def scaled(model: BoltzmannMachine, strength: float) -> BoltzmannMachine:
    """The same model with its couplings multiplied."""
    return BoltzmannMachine.from_columns(model.space, model.own, model.columns, strength * model.column_weights)


@pytest.mark.parametrize("gauge", ["coding", "standard"])
@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("name", SPACES)
def test_likelihood_recovers_the_model_from_exact_moments(name, order, gauge):
    model = random_mixed(SPACES[name], order, 0.5, seed=3)
    fit = likelihood_fit(moments_of(model, order), model.columns, site="free", gauge=gauge)
    assert fit.converged, fit.status
    found = model_of(fit).in_space(model.space)
    _, p, _ = distribution(model)
    _, q, _ = distribution(found)
    np.testing.assert_allclose(q, p, atol=1e-9)
    scale = max(1.0, np.abs(model.column_weights).max(initial=0.0))
    np.testing.assert_allclose(found.column_weights, model.column_weights, atol=1e-5 * scale)


@pytest.mark.parametrize("site", ["free", "quadratic"])
@pytest.mark.parametrize("name", ["numbers", "mixed", "mixed powers"])
def test_likelihood_is_the_optimum_of_scipy(name, site):
    """The penalised likelihood over the states, written out, in the standard gauge."""
    model = random_mixed(SPACES[name], 3 if name == "numbers" else 2, 0.5, seed=4)
    moments = moments_of(model, model.order, 2000)
    prior = Prior(dict.fromkeys(range(2, 4), 5.0))
    fit = likelihood_fit(moments, model.columns, None, prior, site, "standard")
    theta, standard = fit.parameters, fit.parameters.space
    codes = all_codes(model)
    phi = standard.columns(codes)
    T = np.column_stack(
        [O[codes[:, i]] for i, O in enumerate(theta.own)]
        + [np.prod(phi[:, mu], axis=1)[:, None] for mu in map(list, model.columns.tuples)]
    )
    _, p, _ = distribution(model)
    drawn = np.random.default_rng(0).choice(len(p), 2000, p=p)
    frequency = np.bincount(drawn, minlength=len(p)) / 2000
    ridge = np.r_[np.zeros(theta.n_own), np.full(len(model.columns), 5.0 / 2000)]

    def objective(x):
        exponent = T @ x
        top = exponent.max()
        w = np.exp(exponent - top)
        value = x @ (frequency @ T) - top - np.log(w.sum()) - 0.5 * ridge @ x**2
        return -value, (w / w.sum()) @ T + ridge * x - frequency @ T

    reference = optimize.minimize(objective, np.zeros(len(ridge)), jac=True, method="BFGS", options={"gtol": 1e-8})
    assert objective(fit.theta)[0] <= reference.fun + 1e-12
    assert np.abs(objective(fit.theta)[1]).max() < 1e-9


@pytest.mark.parametrize("name", SPACES)
def test_errors_are_inverse_fisher_by_brute_force(name):
    model = random_mixed(SPACES[name], 2, 0.5, seed=5)
    moments = moments_of(model, 2, 3000)
    fit = likelihood_fit(moments, model.columns, None, Prior({2: 7.0}), "free", "standard")
    found = model_of(fit)
    _, p, _ = distribution(found.in_space(model.space))
    codes = all_codes(model)
    phi = fit.parameters.space.columns(codes)
    T = np.column_stack(
        [O[codes[:, i]] for i, O in enumerate(fit.parameters.own)]
        + [np.prod(phi[:, mu], axis=1)[:, None] for mu in map(list, model.columns.tuples)]
    )
    F = np.cov(T.T, aweights=p, ddof=0)
    A = np.diag(np.r_[np.zeros(fit.parameters.n_own), np.full(len(model.columns), 7.0)])
    S = np.linalg.inv(3000 * F + A)
    np.testing.assert_allclose(fit.posterior, np.diag(S), rtol=1e-6)
    np.testing.assert_allclose(fit.sampling, np.diag(S @ (3000 * F) @ S), rtol=1e-5)
    np.testing.assert_allclose(fit.free_variance, np.diag(np.linalg.inv(3000 * F)), rtol=1e-6)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("name", SPACES)
def test_closed_form_error_falls_as_the_square_of_the_strength(name, order):
    """Of the distribution's couplings in the standard gauge, which all are of one size there."""
    strengths, errors = np.array([0.01, 0.02, 0.04]), []
    model = random_mixed(SPACES[name], order, 1.0, seed=6)
    for strength in strengths:
        truth = scaled(model, strength)
        moments = moments_of(truth, order)
        standard = moments.space.standard(moments.frequencies)
        found = invert(moments, model.columns, alpha=0.0, corrections="none")
        true = truth.in_space(standard)
        place = true.columns.positions(found.model.columns)
        errors.append(np.abs(found.column_effects - true.column_weights[place]).max())
    exponent = np.polyfit(np.log(strengths), np.log(errors), 1)[0]
    assert 1.7 < exponent < 2.4


@pytest.mark.parametrize("narrowed", [False, True])
@pytest.mark.parametrize("name", SPACES)
def test_the_two_directions_are_inverses(name, narrowed):
    """dc of the pair model of the paper's equations returns the frequencies of the data and, with every pair, the
    covariances."""
    model = random_mixed(SPACES[name], 2, 0.6, seed=7)
    moments = moments_of(model, 2, 2000)
    pairs = [(0, 1), (2, 3)] if narrowed else None
    result = infer(invert(moments, pairs, alpha=0.0, corrections="none").model, "dc", tol=1e-11)
    assert result.converged, result.status
    for found, data in zip(result.probabilities, moments.frequencies):
        np.testing.assert_allclose(found, data, atol=1e-7)
    if not narrowed:
        scale = np.abs(moments.covariance).max()
        np.testing.assert_allclose(result.covariances, moments.covariance, atol=1e-7 * scale)


@pytest.mark.parametrize("name", ["labels", "mixed", "numbers"])
def test_pair_corrections_lower_the_error(name):
    """Relative error of the pair couplings of sizeable models, averaged: at least halved where tables are full."""
    ratio = []
    for seed in range(6):
        model = random_mixed(SPACES[name], 2, 0.8, seed=seed)
        moments = moments_of(model, 2)
        standard = moments.space.standard(moments.frequencies)
        true = model.in_space(standard)
        plain, corrected = (
            np.linalg.norm(invert(moments, alpha=0.0, corrections=c).column_effects - true.column_weights)
            for c in ("none", "auto")
        )
        ratio.append(corrected / plain)
    assert np.mean(ratio) < 0.6


def test_two_site_couplings_are_exact():
    """Two variables alone: the coupling of their model, for numbers and for labels."""
    for name in ("mixed", "numbers"):
        spec = SPACES[name]
        for i, j in ((0, 1), (1, 2)):
            model = random_mixed(spec._replace(alphabets=[spec.alphabets[i], spec.alphabets[j]]), 2, 0.8, seed=1)
            moments = moments_of(model, 2)
            phi, psi = (table - p @ table for table, p in zip(model.space.functions, moments.frequencies))
            r = phi.shape[1]
            p, q = moments.frequencies
            J, known = couplings_of_pairs(phi[None], psi[None], p[None], q[None], moments.covariance[None, :r, r:], 0.0)
            assert known.all()
            np.testing.assert_allclose(J.ravel(), model.column_weights, atol=1e-8)
            # and so is the closed form of two variables, in every gauge
            found = invert(moments, alpha=0.0).model
            np.testing.assert_allclose(found.column_weights, model.column_weights, atol=1e-8)


def test_closed_form_statistics_are_calibrated_for_blocks():
    """Independent columns: p-values of pairs of labels, ratings and bits are uniform, whatever their df."""
    rng = np.random.default_rng(0)
    spec = SPACES["mixed"]
    below = []
    for _ in range(150):
        codes = np.column_stack([rng.choice(len(getattr(a, "labels", a)), 1500) for a in spec.alphabets])
        space = random_mixed(spec, 1, 0.1).space
        moments = Moments.from_samples(space.decode(codes.astype(np.uint8)), 2, list(space.alphabets))
        below.append(Tests.of(diagonal.invert(moments, alpha=0.0)).p_values)
    p = np.array(below)
    assert 0.035 < np.mean(p < 0.05) < 0.065  # 1500 tests: 0.05 ± 0.0056
    for column in p.T:  # each pair by itself: 150 tests
        assert np.mean(column < 0.05) < 0.12


def test_parameters_round_trip():
    for name, spec in SPACES.items():
        model = random_mixed(spec, 3 if name != "mixed powers" else 2, 0.5, seed=2)
        moments = moments_of(model, 2, 5000)
        for gauge in (moments.space, moments.space.standard(moments.frequencies)):
            theta = Parameters(gauge, model.columns, "free", moments.frequencies)
            x = theta.pack(model)
            again = theta.model(x).in_space(model.space)
            gap = again.energy_of_codes(all_codes(model)) - model.energy_of_codes(all_codes(model))
            assert np.ptp(gap) < 1e-8
            T = theta.coding(model.space) @ x
            np.testing.assert_allclose(T[model.n_features :], model.column_weights, atol=1e-8)
