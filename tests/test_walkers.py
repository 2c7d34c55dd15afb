"""The parts of Monte Carlo likelihood: averages of t over chains, and steps that data rows stand guard over."""

import numpy as np
import pytest
from oracle import SPACES, random_mixed
from scipy import stats

from hbm_learn import HBM, BoltzmannMachine, sample
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.likelihood import approach, monte_carlo, walkers
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.terms import all_terms


def setting(name="mixed", order=3, M=3000, alpha=2.0, seed=3):
    model = random_mixed(SPACES[name], order, 0.4, seed=seed)
    samples = Samples.check(sample(model, M, "exact", random_state=seed), model.alphabet, powers=SPACES[name].powers)
    moments = Moments.from_samples(samples, order=order)
    space = samples.space.standard(moments.frequencies)
    parameters = Parameters(space, all_terms(order, samples.space), "free", moments.frequencies)
    prior = Prior(dict.fromkeys(range(2, order + 1), alpha))
    return samples, parameters, Target.of(moments, parameters).under(prior)


def plain_statistics(parameters, codes):
    """(rows, P) t, one by one."""
    own = [O[codes[:, i]] for i, O in enumerate(parameters.own)]
    phi = parameters.space.columns(codes)
    products = [phi[:, list(mu)].prod(axis=1)[:, None] for mu in parameters.columns.tuples]
    return np.hstack([*own, *products])


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", SPACES)
def test_averages_are_those_of_plain_statistics(name, order):
    samples, parameters, target = setting(name, order)
    codes = walkers.data_rows(samples)
    t = plain_statistics(parameters, codes)
    np.testing.assert_allclose(t.mean(axis=0), target.t, atol=1e-10)
    scale = np.abs(t).max()
    np.testing.assert_allclose(walkers.statistics(parameters, codes).T, t, atol=1e-5 * scale)
    mean, C = walkers.covariance(parameters, codes)
    np.testing.assert_allclose(mean, t.mean(axis=0), atol=1e-5 * scale)
    np.testing.assert_allclose(C, np.cov(t.T, bias=True), atol=1e-5 * scale**2)
    D = np.random.default_rng(0).normal(size=(2, parameters.n_params))
    np.testing.assert_allclose(walkers.project(parameters, codes, D), D @ t.T, atol=1e-4 * scale)
    groups = walkers.group_means(parameters, codes[:2976])
    np.testing.assert_allclose(groups, t[:2976].reshape(walkers.GROUPS, -1, t.shape[1]).mean(axis=1), atol=1e-10)


def test_blocks_make_no_difference(monkeypatch):
    samples, parameters, _ = setting()
    codes = walkers.data_rows(samples)
    whole = walkers.covariance(parameters, codes)
    monkeypatch.setattr(walkers, "_HELD", 100 * parameters.n_params)
    for one, two in zip(whole, walkers.covariance(parameters, codes)):
        np.testing.assert_allclose(one, two, atol=1e-5)


def test_rows_come_as_often_as_their_weights_want():
    X = np.array([[0, 1], [1, 0], [1, 1]])
    rows = walkers.data_rows(Samples.check(X, (0, 1), sample_weight=[0.0, 3.0, 1.0]), 0)
    counts = [(rows == row).all(axis=1).mean() for row in X]
    assert counts[0] == 0
    assert counts[1] == pytest.approx(0.75, abs=0.02)
    gappy = Samples.check(np.array([[0, np.nan], [1, 0]]), (0, 1), allow_nan=True)
    np.testing.assert_array_equal(walkers.data_rows(gappy), [[1, 0]])
    assert walkers.data_rows(Samples.check(np.array([[np.nan, 1.0], [np.nan, 0]]), (0, 1), allow_nan=True)) is None


def test_half_of_the_walkers_start_at_data_rows(monkeypatch):
    samples, parameters, target = setting()
    row = walkers.data_rows(samples)[:1]
    found = walkers.Walkers(parameters, target.independent, row, 0, None).chains.states()
    same = (found == row).all(axis=1).reshape(walkers.GROUPS, -1).mean(axis=1)
    np.testing.assert_array_equal(same[::2], 1.0)
    assert same[1::2].max() < 0.5


def test_lengths_maximise_the_guarded_gain():
    """Against a grid, along one direction, where the limits of a step do not bind."""
    samples, parameters, target = setting(alpha=50.0)
    rows = walkers.data_rows(samples)
    guard = approach.Guard.of(target, rows, True)
    rng = np.random.default_rng(1)
    codes = rows[rng.permutation(len(rows))[:1000]]
    d = 0.05 * rng.normal(size=parameters.n_params)
    g = 0.3 * rng.normal(size=parameters.n_params)
    d *= np.sign(d @ g)
    x = approach.lengths(target, d[None], g, codes, guard)[0]
    s = [plain_statistics(parameters, c) @ d for c in (codes, rows[: walkers.CHAINS // 2])]
    centre = (1 - approach.GUARD) * s[0].mean() + approach.GUARD * s[1].mean()

    def gain(x, g=g):
        weights = [(1 - approach.GUARD), approach.GUARD]
        K = np.log(sum(w * np.exp(x * (part - centre)).mean() for w, part in zip(weights, s)))
        return x * (g @ d) - K - 0.5 * x**2 * (target.ridge * d) @ d

    grid = np.linspace(0, 3 * x, 3001)
    values = [gain(y) for y in grid]
    best = grid[np.argmax(values)]
    assert 0.01 < max(values) < approach.MAX_GAIN
    assert x == pytest.approx(best, rel=2e-3)
    steep = approach.lengths(target, d[None], 20 * g, codes, guard)[0]  # this would lead too far in one step
    assert 0.5 * approach.MAX_GAIN < gain(steep, 20 * g) <= approach.MAX_GAIN + 1e-6


def test_a_start_in_a_false_phase_is_not_believed():
    """Couplings so strong that chains keep where they began; the true ones are believed."""
    n = 12
    truth = BoltzmannMachine(np.full(n, -0.2), 0.05 * (1.0 - np.eye(n)))
    samples = Samples.check(sample(truth, 4000, "exact", random_state=1))
    moments = Moments.from_samples(samples, order=2)
    space = samples.space.standard(moments.frequencies)
    parameters = Parameters(space, all_terms(2, samples.space), "free", moments.frequencies)
    target = Target.of(moments, parameters).under(Prior({2: 1.0}))
    rows = walkers.data_rows(samples)
    guard = approach.Guard.of(target, rows, True)
    frozen = BoltzmannMachine(np.full(n, -0.2), 0.5 * (1.0 - np.eye(n)))
    for model, expected in [(truth, True), (frozen, False)]:
        theta = parameters.pack(model)
        chains = walkers.Walkers(parameters, theta, rows, 0, None)
        assert approach.believable(target, chains, theta, guard) == expected


@pytest.mark.parametrize("values", [(-1, 1), (0, 1)])
def test_values_that_never_meet_are_found(values):
    rng = np.random.default_rng(0)
    X = rng.choice(values, (400, 5))
    X[(X[:, 1] == values[1]) & (X[:, 4] == values[0]), 4] = values[1]
    moments = Moments.from_samples(X, 2, values)
    for space in (moments.space, moments.space.standard(moments.frequencies)):
        parameters = Parameters(space, all_terms(2, moments.space), "free", moments.frequencies)
        found = monte_carlo.never_together(Target.of(moments, parameters).under(Prior({2: 0.0})))
        assert parameters.columns.tuples[found - parameters.n_own] == (1, 4)
        assert monte_carlo.never_together(Target.of(moments, parameters).under(Prior({2: 0.1}))) is None
    full = Moments.from_samples(rng.choice(values, (400, 5)), 2, values)
    parameters = Parameters(full.space, all_terms(2, full.space), "free", full.frequencies)
    assert monte_carlo.never_together(Target.of(full, parameters).under(Prior({2: 0.0}))) is None


def test_rows_or_none_the_maximum_is_the_same():
    samples, _, target = setting("binary", 2, M=1500)
    starts = [target.independent]
    fits = [monte_carlo.fit(target, starts, rows=rows, random_state=0) for rows in (walkers.data_rows(samples), None)]
    for found in fits:
        assert found.converged, found.status
    z = (fits[0].theta - fits[1].theta) / np.sqrt(0.1 * fits[0].sampling)
    assert np.sqrt(np.mean(z**2)) < 1.6


def coexistence_rows(seed, n=40, h=-0.35, J=0.0045, M=5000):
    """Rows of the model with all triplets alike, two phases .72 to .28: P(Σx) is a sum over 41 terms."""
    rng, k = np.random.default_rng(seed), np.arange(n + 1)
    S = 2.0 * k - n
    log_p = stats.binom.logpmf(k, n, 0.5) + h * S + J * (S**3 - (3 * n - 2) * S) / 6
    chosen = rng.choice(k, M, p=np.exp(log_p - np.logaddexp.reduce(log_p)))
    return np.where(rng.random((M, n)).argsort(axis=1) < chosen[:, None], 1, -1)


def sums_of(model, rng, draws=40_000):
    """Draws of Σx under a model that is nearly the same for all variables, with the weights that make them its own."""
    n, h, J = model.n_features, model.h.mean(), model.weights.mean()
    k = np.arange(n + 1)
    S = 2.0 * k - n
    log_p = stats.binom.logpmf(k, n, 0.5) + h * S + J * (S**2 - n) / 2
    chosen = rng.choice(k, draws, p=np.exp(log_p - np.logaddexp.reduce(log_p)))
    Y = np.where(rng.random((draws, n)).argsort(axis=1) < chosen[:, None], 1, -1)
    total = Y.sum(axis=1)
    log_w = -model.energy(Y) - h * total - J * (total**2 - n) / 2
    w = np.exp(log_w - log_w.max())
    return total, w / w.sum()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_chains_between_two_phases_are_given_time(seed):
    """Chains that cross slowly follow θ late: with few sweeps a step it goes to and fro about the maximum."""
    X = coexistence_rows(seed)
    with pytest.warns(UserWarning, match="The Monte Carlo likelihood was returned in its place"):
        est = HBM(order=2, random_state=0).fit(X)
    assert est.converged_, est.result_.status
    assert {check.name: check.verdict for check in est.trust_.checks}["fitted moments"] == "good"
    S, w = sums_of(est.model_, np.random.default_rng(1))
    data, effective = X.sum(axis=1), 1.0 / (w @ w)
    assert effective > 4000
    for f in (lambda s: s, lambda s: s**2):
        error = np.std(f(data)) * np.sqrt(1.05 / len(data) + 1.0 / effective)
        assert abs(w @ f(S) - f(data).mean()) < 4 * error


def test_memory_is_the_largest_correlation():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3, 4000))
    y = np.vstack([0.9 * x[0] + np.sqrt(1 - 0.81) * rng.normal(size=4000), rng.normal(size=4000), np.ones(4000)])
    assert approach.memory(x, y) == pytest.approx(0.9, abs=0.02)
    assert approach.memory(x[2:], y[2:]) == 0.0
    assert approach.memory(x[:0], y[:0]) == 0.0
