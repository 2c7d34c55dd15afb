"""Samples of a fitted model against its data: right models pass, wrong ones are caught, each by its own group."""

import time
import warnings
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from oracle import SPACES, random_mixed

from hbm_learn import HBM, BoltzmannMachine, Interval, sample
from hbm_learn._kernels.product_sums import power_sums
from hbm_learn.assessment import checked, predictive
from hbm_learn.assessment.predictive import check
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.composite import pseudolikelihood
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.terms import all_terms

GROUPS = ("means", "covariances", "fitted", "unfitted", "total")


def pairs(n=12, strength=0.5, seed=0, h=0.3):
    rng = np.random.default_rng(seed)
    J = np.triu(strength * rng.normal(size=(n, n)) / np.sqrt(n), 1)
    return BoltzmannMachine(h * rng.normal(size=n), J + J.T)


def checks(truth, model, seeds=range(3), M=4000):
    return [check(model, Samples.check(sample(truth, M, "exact", random_state=[5, s])), s) for s in seeds]


def test_the_true_model_passes_and_errors_are_as_large_as_they_say():
    model = pairs()
    found = checks(model, model, range(6))
    for each in found:
        assert all(getattr(each, group).agrees for group in GROUPS)
        assert each.mixes
        assert "have the data's moments" in each.message
    for group, count in [("means", 12), ("covariances", 66), ("fitted", 66), ("unfitted", 220)]:
        z = np.concatenate([getattr(each, group).z for each in found])
        assert len(z) == 6 * count
        assert 0.85 < np.sqrt(np.nanmean(z**2)) < 1.15, group
    z = np.concatenate([each.total.z for each in found])
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6


def test_each_group_catches_its_own_mistake():
    model = pairs()
    shifted = BoltzmannMachine(model.h + 0.15 * (np.arange(12) == 3), model.couplings())
    coupled = BoltzmannMachine(model.h, {mu: J + 0.15 * (mu == (2, 7)) for mu, J in model.couplings().items()})
    third = BoltzmannMachine(np.zeros(12), {(0, 1, 2): 0.4})
    none = BoltzmannMachine(np.zeros(12), {(0, 1): 1e-6})
    for found in checks(model, shifted):
        assert not found.means.agrees
        assert found.means.worst == (3,)
        assert not found.agrees_fitted
        assert "differ from the data in fitted moments" in found.message
    for found in checks(model, coupled):
        assert found.fitted.worst == (2, 7)
        assert not found.agrees_fitted
    for found in checks(third, none):
        assert found.agrees_fitted
        assert not found.agrees_unfitted
        assert found.unfitted.worst == (0, 1, 2)
        assert "a higher order may help" in found.message


def test_the_distribution_of_the_sum_is_compared():
    """A common gain: no pair differs much, the sum of all does."""
    rng = np.random.default_rng(3)
    z = rng.normal(size=(8000, 1))
    X = (rng.random((8000, 20)) < 1 / (1 + np.exp(1.5 - 0.5 * z))).astype(int)
    p = X.mean(axis=0)
    independent = BoltzmannMachine(np.log(p / (1 - p)), {}, alphabet=(0, 1))
    found = check(independent, Samples.check(X), 0)
    assert found.means.agrees
    assert not found.agrees_total
    assert found.total.names[np.argmax(np.abs(found.total.z))].startswith(("variance", "P(S >"))
    assert found.data_histogram.sum() == pytest.approx(1)
    assert found.model_histogram.sum() == pytest.approx(1)
    centres = 0.5 * (found.edges[1:] + found.edges[:-1])
    spread = [np.sqrt(h @ centres**2 - (h @ centres) ** 2) for h in (found.data_histogram, found.model_histogram)]
    assert spread[0] > 1.2 * spread[1]


def test_a_phase_that_the_data_do_not_have_is_found():
    """Chains from data rows stay with the data; chains from elsewhere do not come there."""
    n = 40
    model = BoltzmannMachine(np.full(n, -0.35), dict.fromkeys(combinations(range(n), 3), 0.0045))
    X = np.where(np.random.default_rng(0).random((3000, n)) < 0.5 * (1 - np.tanh(0.30)), 1, -1)
    found = check(model, Samples.check(X), 0, n_chains=128)
    assert found.total_r_hat > 1.05
    assert not found.mixes
    assert "phases" in found.message


@pytest.mark.parametrize("name", SPACES)
def test_variables_of_all_kinds(name):
    model = random_mixed(SPACES[name], 3, 0.4, seed=7)
    X = sample(model, 4000, "exact", random_state=1)
    samples = Samples.check(X, model.alphabet, space=None, powers=SPACES[name].powers)
    found = check(model, samples, 0)
    assert all(getattr(found, group).agrees for group in GROUPS)
    wrong = BoltzmannMachine.from_parts(
        model.space, (model.h, model.d, model.site), model.columns, -model.column_weights
    )
    assert not check(wrong, samples, 0).agrees_fitted


def test_weights_count_rows_and_missing_cells_are_left_out():
    model = pairs(6)
    X = sample(model, 300, "exact", random_state=2)
    w = np.random.default_rng(0).integers(0, 4, 300)
    one = check(model, Samples.check(X, sample_weight=w), 0)
    two = check(model, Samples.check(np.repeat(X, w, axis=0), (-1, 1)), 0)
    assert one.n_data == two.n_data == w.sum()
    np.testing.assert_allclose(one.data_histogram[one.data_histogram > 0].sum(), 1)
    gappy = X.astype(float)
    gappy[:100, 2] = np.nan
    assert check(model, Samples.check(gappy, (-1, 1), allow_nan=True), 0).n_data == 200


def test_what_too_few_rows_carry_is_not_judged():
    rng = np.random.default_rng(0)
    X = (rng.random((3000, 30)) < 0.01).astype(int)
    p = X.mean(axis=0)
    found = check(BoltzmannMachine(np.log(p / (1 - p)), {(0, 1): 0.0}, alphabet=(0, 1)), Samples.check(X), 0)
    assert np.isnan(found.unfitted.z).mean() > 0.8  # the pairs: 0.3 expected coincidences
    assert found.agrees_unfitted
    assert found.means.n_compared > 10
    assert predictive.Compared(np.array([np.nan]), np.ones(1), [(0, 1)]).agrees  # nothing to judge by


def test_what_cannot_be_compared_is_refused():
    model = BoltzmannMachine([0.0, 0.0], {(0, 1): 0.1}, alphabet=[(0, 1), Interval(0, 1)])
    samples = Samples.check(np.array([[0, 1], [1, 0.0]]), (0, 1))
    with pytest.raises(ValueError, match="continuous"):
        check(model, samples)
    with pytest.raises(ValueError, match="n_sweeps=3"):
        check(pairs(2), Samples.check(np.array([[1, -1], [-1, 1]])), n_sweeps=3)


def test_groups_that_are_too_large_are_a_random_part(monkeypatch):
    monkeypatch.setattr(predictive, "MAX_MOMENTS", 50)
    model = pairs()
    found = checks(model, model, [0])[0]
    assert len(found.fitted.z) == len(found.unfitted.z) == 50
    assert found.fitted.agrees
    assert len(set(found.unfitted.names)) == 50


# ---------------------------------------------------------------------- fit, check, fit again


def problem(X, order=2, alphabet="auto"):
    samples = Samples.check(X, alphabet)
    moments = Moments.from_samples(samples, order=order)
    space = samples.space.standard(moments.frequencies)
    return samples, Parameters(space, all_terms(order, samples.space), "free", moments.frequencies)


@pytest.mark.parametrize("listed", [True, False])
def test_a_wrong_fit_gives_way_to_the_likelihood(listed, monkeypatch):
    if not listed:
        monkeypatch.setattr(likelihood, "MAX_STATES", 8)
    samples, parameters = problem(sample(pairs(10), 4000, "exact", random_state=4))
    prior = Prior({2: 1.0})
    good = checked.fit_and_check(samples, parameters, prior, random_state=0)
    assert good.fit.method == "pseudolikelihood"
    assert good.check is good.first_check
    assert good.check.agrees_fitted
    bad = replace(good.fit, theta=1.6 * good.fit.theta)
    found = checked.fit_and_check(samples, parameters, prior, first=bad, random_state=0)
    assert found.fit.method == "likelihood"
    assert found.fit.converged, found.fit.status
    assert not found.first_check.agrees_fitted
    assert found.check.agrees_fitted
    assert "The pseudolikelihood fit is another model" in found.message
    assert "Monte Carlo likelihood was returned" in found.message
    z = (found.fit.theta - good.fit.theta) / np.sqrt(good.fit.posterior)
    assert np.abs(z).max() < 1.5


def test_what_the_prior_does_is_not_another_model():
    """A strong prior pulls fitted moments from the data's; the likelihood with the same prior would do the same."""
    samples, parameters = problem(sample(pairs(10, 0.6, h=0.0), 1000, "exact", random_state=6))
    prior = Prior({2: 600.0})
    found = checked.fit_and_check(samples, parameters, prior, random_state=0)
    assert not found.check.fitted.agrees
    assert found.fit.method == "pseudolikelihood"
    assert "what the prior does" in found.message
    moments = Moments.from_samples(samples, order=2)
    target = Target.of(moments, parameters).under(prior)
    assert checked.shrunk(found.check.fitted, target, found.fit, samples.space).largest < 4
    coded = Parameters(
        samples.space.standard(moments.frequencies, centred=False), parameters.columns, "free", moments.frequencies
    )
    same = checked.shrunk(found.check.fitted, Target.of(moments, coded).under(prior), found.fit, samples.space)
    assert same is found.check.fitted


def test_too_many_parameters_keep_what_there_is(monkeypatch):
    monkeypatch.setattr(checked, "MAX_PARAMETERS", 20)
    samples, parameters = problem(sample(pairs(10), 2000, "exact", random_state=4))
    first = pseudolikelihood.prepare(samples, parameters).fit(Prior({2: 1.0}), None)
    bad = replace(first, theta=1.6 * first.theta)
    found = checked.fit_and_check(samples, parameters, Prior({2: 1.0}), first=bad, random_state=0)
    assert found.fit is bad
    assert "too many for the likelihood" in found.message


def common_gain(seed, n=50, M=32_000):
    rng = np.random.default_rng(seed)
    b = np.log(rng.uniform(0.01, 0.08, n) / 0.95)
    z = rng.gamma(1, 1, M) - 1
    w = rng.uniform(0.5, 1.2, n)
    return (rng.random((M, n)) < 1 / (1 + np.exp(-(b + z[:, None] * w)))).astype(int)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 31, 32])
def test_neurons_with_a_common_gain(seed):
    """Pseudolikelihood has a false phase; the likelihood arrives, in ten times its time at most."""
    X = common_gain(seed)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        HBM(order=2, refine="pseudolikelihood").fit(X)
    once = time.perf_counter() - start
    samples, parameters = problem(X)
    start = time.perf_counter()
    found = checked.fit_and_check(samples, parameters, Prior({2: 7500.0}), random_state=seed)
    assert time.perf_counter() - start < 10 * once
    assert not found.first_check.mixes or not found.first_check.agrees_fitted
    assert found.fit.method == "likelihood"
    assert found.fit.converged, found.fit.status
    assert found.check.mixes
    assert found.check.agrees_fitted
    assert found.check.means.largest < 4
    Y = sample(parameters.model(found.fit.theta).in_space(samples.space), 20_000, "gibbs", 1, n_chains=2000, thin=50)
    error = X.sum(axis=1).std() * np.sqrt(1 / len(X) + 1 / 4000)
    assert abs(Y.sum(axis=1).mean() - X.sum(axis=1).mean()) < 3 * error


@pytest.mark.parametrize("rows", [1, 511, 513, 1500])
def test_power_sums_against_their_twin(rows):
    rng = np.random.default_rng(rows)
    X, w = rng.normal(size=(6, 3, rows)) + rng.normal(size=(6, 1, 1)), rng.random(rows)  # columns, draws, rows
    sets = Interactions.from_blocks([np.array(mu)[None] for mu in [(4,), (1, 5), (0, 2, 3), (1, 2, 4, 5)]], 6)
    s = np.stack([np.prod(X[list(mu)], axis=0) for mu in sets.tuples])
    over = s.sum(axis=1)
    twin = np.transpose([over @ w, (s**2).sum(axis=1) @ w, (s**4).sum(axis=1) @ w, over**2 @ w])
    for dtype, tolerance in [(np.float64, 1e-12), (np.float32, 2e-5)]:
        out = np.ones((len(sets), 4))
        power_sums(X.astype(dtype), w.astype(dtype), sets.members, sets.indptr, out)
        np.testing.assert_allclose(out, 1.0 + twin, rtol=tolerance, atol=tolerance * rows)
