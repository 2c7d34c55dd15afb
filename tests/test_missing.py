"""Rows with missing cells: the observed likelihood, its information, imputations, tests, tables of every make."""

from __future__ import annotations

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import optimize, sparse, stats

from hbm_learn import HBM, BoltzmannMachine, Moments, Nominal, datasets, invert, sample
from hbm_learn.data.incomplete import IncompleteRows
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.missing import shares, stochastic
from hbm_learn.inversion.missing.imputation import Imputer
from hbm_learn.inversion.missing.observed import ObservedFit, ObservedPoint
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.states import StateTable
from hbm_learn.terms import all_terms

MIXED = BoltzmannMachine(
    h=[0.1, 0, -0.2, 0.3],
    couplings={(0, 1): [0.3, 0.0, -0.3], (0, 2): 0.4, (2, 3): -0.3, (0, 1, 2): [0.2, -0.2, 0.0]},
    alphabet=[(-1, 1), Nominal("r", "g", "b"), (0, 1, 2), (0, 1)],
)


def with_gaps(X, share, seed):
    """Cells missing completely at random."""
    out = np.array(X, dtype=object if X.dtype == object else float)
    out[np.random.default_rng(seed).random(out.shape) < share] = None if out.dtype == object else np.nan
    return out


@pytest.fixture(scope="module")
def mixed():
    X = with_gaps(sample(MIXED, 500, random_state=1), 0.3, 2)
    samples = Samples.check(X, allow_nan=True)
    moments = Moments.from_samples(samples, order=3)
    columns = all_terms(3, moments.space)
    parameters = Parameters(moments.standard.space, columns, "free", moments.frequencies)
    return samples, moments, parameters


# ---------------------------------------------------------------------- moments of available cases


def test_moments_are_those_of_the_rows_that_have_all_members():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (400, 4)).astype(float)
    X[:, 1] = np.minimum(X[:, 0], X[:, 1])
    X[rng.random(X.shape) < 0.3] = np.nan
    moments = Moments.from_samples(X, order=3)
    assert moments.n_samples == (~np.isnan(X)).any(axis=1).sum()
    u = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    for mu in ((0, 1), (2, 3), (0, 1, 3)):
        there = ~np.isnan(X[:, mu]).any(axis=1)
        np.testing.assert_allclose(moments.raw([mu]), X[there][:, mu].prod(axis=1).mean())
        np.testing.assert_allclose(moments.standard.raw([mu]), u[there][:, mu].prod(axis=1).mean())
        index = moments.space, all_terms(3, moments.space)
        at = index[1].tuples.index(mu)
        assert moments.n_observed(index[1])[at] == there.sum()
    np.testing.assert_allclose(moments.mean, np.nanmean(X, axis=0))
    for i, p in enumerate(moments.frequencies):
        np.testing.assert_allclose(p, np.bincount(X[~np.isnan(X[:, i]), i].astype(int)) / (~np.isnan(X[:, i])).sum())


@pytest.mark.parametrize("real", [False, True])
def test_moments_merge_with_their_own_counts(real):
    rng = np.random.default_rng(3)
    X = rng.normal(1e3, 1.0, (300, 3)) if real else rng.integers(0, 3, (300, 3)).astype(float)
    whole = X[:100].copy()
    X[rng.random(X.shape) < 0.4] = np.nan
    alphabet = "real" if real else [(0, 1, 2)] * 3
    a, b, c = (Moments.from_samples(part, 2, alphabet) for part in (X[:150], X[150:], whole))
    both = Moments.from_samples(np.concatenate([X, whole]), 2, alphabet)
    for merged in (a + b + c, c + b + a):
        assert merged.n_samples == both.n_samples
        np.testing.assert_allclose(merged.mean, both.mean)
        np.testing.assert_allclose(merged.covariance, both.covariance, rtol=1e-9, atol=1e-9)


def test_covariances_of_no_distribution_are_moved_to_the_nearest():
    """Pairs seen in different rows: r = .9, .9 and -.9 cannot be together."""
    rng = np.random.default_rng(0)
    parts = []
    for i, j, sign in ((0, 1, 1), (1, 2, 1), (0, 2, -1)):
        x = rng.choice([-1.0, 1.0], 400)
        part = np.full((400, 3), np.nan)
        part[:, i], part[:, j] = x, sign * np.where(rng.random(400) < 0.05, -x, x)
        parts.append(part)
    moments = Moments.from_samples(np.concatenate(parts), order=2)
    assert np.linalg.eigvalsh(moments.covariance)[0] > 0
    np.testing.assert_allclose(np.diag(moments.covariance), 1.0, atol=0.01)
    assert np.isfinite(HBM(order=2).fit(np.concatenate(parts)).effects_).all()


# ---------------------------------------------------------------------- the observed likelihood


def brute_force(rows, parameters, theta):
    """−Σ w ln P(observed part) of rows, completion by completion."""
    table = StateTable(parameters.model(theta))
    states = table.codes(np.arange(len(table.p)))
    total = 0.0
    for codes, w in zip(rows.codes, rows.weights):
        there = codes != 255
        total -= w * np.log(table.p[(states[:, there] == codes[there]).all(axis=1)].sum())
    return total / rows.weights.sum()


def test_value_gradient_and_louis_information(mixed):
    samples, moments, parameters = mixed
    rows = IncompleteRows.of(samples)
    fit = ObservedFit(rows, moments, parameters)
    target = fit.target.under(Prior({2: 0.5, 3: 2.0}))
    theta = np.random.default_rng(5).normal(0, 0.2, parameters.n_params)

    def at(x):
        return ObservedPoint.at(fit.rows, target, x)

    point, eps = at(theta), 1e-5
    expected = brute_force(rows, parameters, theta) + 0.5 * target.ridge @ theta**2
    assert point.value == pytest.approx(expected, abs=1e-12)
    steps = eps * np.eye(len(theta))
    slopes = [(at(theta + e).value - at(theta - e).value) / (2 * eps) for e in steps]
    np.testing.assert_allclose(point.gradient, slopes, atol=1e-9)
    second = [(at(theta + e).gradient - at(theta - e).gradient) / (2 * eps) for e in steps]
    np.testing.assert_allclose(point.observed + np.diag(target.ridge), second, atol=1e-8)
    assert np.linalg.eigvalsh(point.complete - point.observed)[0] > -1e-12


def test_the_maximum_is_that_of_brute_force(mixed):
    samples, moments, parameters = mixed
    rows = IncompleteRows.of(samples).distinct()
    prior = Prior({2: 0.5, 3: 0.5})
    fit = ObservedFit(rows, moments, parameters)
    found = fit.fit(prior, None)
    assert found.converged
    ridge = fit.target.under(prior).ridge

    def value(theta):
        return brute_force(rows, parameters, theta) + 0.5 * float(ridge @ theta**2)

    best = optimize.minimize(value, found.theta + 0.02, method="BFGS", options={"gtol": 1e-6})
    np.testing.assert_allclose(found.theta, best.x, atol=2e-3)
    assert value(found.theta) <= best.fun + 1e-12


def test_errors_are_those_of_louis(mixed):
    samples, moments, parameters = mixed
    fit = ObservedFit(IncompleteRows.of(samples), moments, parameters)
    found = fit.fit(Prior({2: 0.0, 3: 0.0}), None)
    point = ObservedPoint.at(fit.rows, fit.target, found.theta)
    expected = np.diag(np.linalg.inv(point.observed)) / moments.n_samples
    np.testing.assert_allclose(found.posterior, expected, rtol=1e-8)
    share = fit.informed(found)
    np.testing.assert_allclose(share, np.diag(np.linalg.inv(point.complete)) / moments.n_samples / expected, rtol=1e-8)
    assert (share < 0.8).all()
    assert (share > 0.2).all()


@pytest.mark.parametrize("options", [{}, {"alpha": 0.0, "order": 2}, {"fdr": 0.05}, {"refine": "pseudolikelihood"}])
def test_a_table_without_gaps_takes_the_path_of_complete_rows(options):
    X = sample(datasets.make_random(6, {2: 0.3}, 0.2, random_state=1), 600, random_state=2)
    plain, floats = HBM(**options).fit(X), HBM(**options).fit(X.astype(object))
    np.testing.assert_array_equal(plain.effects_, floats.effects_)
    np.testing.assert_array_equal(plain.tests_.z, floats.tests_.z)
    assert plain.moments_.is_complete
    assert plain.to_frame()["n_effective"].eq(600).all()


def test_the_observed_likelihood_of_complete_rows_is_the_likelihood():
    X = sample(datasets.make_random(6, {2: 0.3, 3: 0.2}, 0.2, random_state=1), 600, random_state=2).astype(float)
    whole = HBM(order=3).fit(X)
    one = np.concatenate([X, np.full((1, 6), np.nan)])  # which says nothing
    gaps = HBM(order=3).fit(one)
    assert not gaps.moments_.is_complete
    np.testing.assert_allclose(gaps.effects_, whole.effects_, atol=1e-7)
    np.testing.assert_allclose(gaps.effect_errors_, whole.effect_errors_, rtol=1e-5)
    np.testing.assert_allclose(gaps.to_frame()["n_effective"], 600, rtol=1e-6)


# ---------------------------------------------------------------------- imputation


@pytest.mark.parametrize("listed", [True, False])
def test_cells_are_drawn_given_what_was_observed(mixed, listed):
    samples = mixed[0]
    rows = IncompleteRows.of(samples)
    row = next(r for r in rows.codes if (r == 255).sum() == 2)
    some = IncompleteRows(samples.space, np.tile(row, (40, 1)), np.ones(40))
    model = MIXED.in_space(samples.space) if MIXED.space != samples.space else MIXED
    drawn = Imputer(some, 200, random_state=0, listed=listed).draw(model)
    assert (drawn.codes[:, row != 255] == row[row != 255]).all()
    assert drawn.weights.sum() == pytest.approx(40)
    table = StateTable(model)
    states = table.codes(np.arange(len(table.p)))
    there = row != 255
    mine = (states[:, there] == row[there]).all(axis=1)
    p = table.p[mine] / table.p[mine].sum()
    counts = np.array([(drawn.codes == state).all(axis=1).sum() for state in states[mine]])
    assert stats.chisquare(counts, counts.sum() * p).pvalue > 1e-4


# ---------------------------------------------------------------------- tables of every make


def makes():
    X = with_gaps(sample(datasets.make_random(4, {2: 0.4}, 0.2, random_state=1), 300, random_state=2), 0.2, 3)
    names = list("abcd")
    objects = np.where(np.isnan(X), None, X)
    return X, {
        "frame": pd.DataFrame(X, columns=names),
        "nullable": pd.DataFrame(X, columns=names).astype("Int64"),
        "objects": objects,
        "polars": pl.DataFrame({c: [None if np.isnan(v) else int(v) for v in x] for c, x in zip(names, X.T)}),
        "dask": da.from_array(X, chunks=(100, 4)),
        "sparse": sparse.csr_array(X),
        "blocks": [X[:120], X[120:]],
    }


@pytest.mark.parametrize("name", list(makes()[1]))
def test_tables_of_every_make_are_the_same(name):
    X, tables = makes()
    expected, found = HBM(order=2).fit(X), HBM(order=2).fit(tables[name])
    np.testing.assert_allclose(found.effects_, expected.effects_, atol=1e-12)
    np.testing.assert_allclose(found.to_frame()["n_effective"], expected.to_frame()["n_effective"])
    assert expected.to_frame()["n_effective"].between(120, 240).all()


def test_weights_are_checked_before_rows_and_count_them():
    X = with_gaps(sample(datasets.make_random(4, {2: 0.4}, 0.2, random_state=1), 300, random_state=2), 0.2, 3)
    w = np.random.default_rng(0).integers(0, 4, 300)
    weighted, repeated = HBM(order=2).fit(X, sample_weight=w), HBM(order=2).fit(np.repeat(X, w, axis=0))
    np.testing.assert_allclose(weighted.effects_, repeated.effects_, atol=1e-8)
    np.testing.assert_allclose(weighted.effect_errors_, repeated.effect_errors_, rtol=1e-6)
    w = w.astype(float)
    w[np.flatnonzero(np.isnan(X).any(axis=1))[0]] = -1.0
    with pytest.raises(ValueError, match="weights must be finite and not negative"):
        HBM(order=2).fit(X, sample_weight=w)


def test_a_column_without_values_is_named_though_its_alphabet_is_given():
    X = np.random.default_rng(0).choice([0.0, 1.0], (50, 3))
    X[:, 1] = np.nan
    with pytest.raises(ValueError, match=r"column 1 holds no value at all.*drop it"):
        HBM(alphabet=(0, 1)).fit(X)


@pytest.mark.parametrize("refine", ["auto", None])
def test_partial_fit_merges_available_cases(refine):
    model = datasets.make_random(5, {2: 0.3}, 0.2, random_state=4)
    X = with_gaps(sample(model, 4000, random_state=5), 0.2, 6)
    est = HBM(order=2, alphabet=(-1, 1), refine=refine)
    for part in np.array_split(X, 4):
        est.partial_fit(part)
    assert est.moments_.n_samples == (~np.isnan(X)).any(axis=1).sum()
    table = est.to_frame()
    pair = (~np.isnan(X[:, 0]) & ~np.isnan(X[:, 1])).sum()
    assert table["n_effective"][0] == pytest.approx(pair)
    truth = invert(Moments.from_distribution(*states_of(model), order=2, alphabet=(-1, 1)), method="likelihood")
    z = (est.effects_ - truth.effects) / est.effect_errors_
    assert np.sqrt(np.mean(z**2)) < 2.0


def states_of(model):
    table = StateTable(model)
    return table.states(np.arange(len(table.p))), table.p


@pytest.mark.parametrize(
    "options", [{"refine": None}, {"refine": "pseudolikelihood"}, {"fdr": 0.05}, {"order": "auto"}]
)
def test_every_kind_of_fit_takes_gaps(options):
    X = with_gaps(sample(MIXED, 1500, random_state=8), 0.15, 9)
    est = HBM(**({"order": 3} | options), random_state=0).fit(X)
    table = est.to_frame().set_index("interaction")
    assert abs(table.loc[[(0, 2)], "effect"].item() / table.loc[[(0, 2)], "effect_error"].item()) > 4
    assert table["n_effective"].between(0, 1500).all()
    assert (table["n_effective"] < 1450).all()
    found = {check.name: check for check in est.trust_.checks}["missing cells"]
    assert found.verdict == "good"
    assert found.value == pytest.approx(0.15, abs=0.02)


# ---------------------------------------------------------------------- stochastic EM


def test_thirty_columns_of_which_a_fifth_is_missing():
    """No row is complete; what was planted is found."""
    couplings = {(i, i + 1): 0.4 * (-1) ** i for i in range(0, 29, 3)}
    X = with_gaps(sample(BoltzmannMachine(np.zeros(30), couplings), 800, random_state=11), 0.2, 12)
    X = X[np.isnan(X).any(axis=1)]
    est = HBM(order=2, random_state=0).fit(X)
    table = est.to_frame()
    strong = table[table["q_value"] < 0.01]
    assert set(strong["interaction"]) == set(couplings)
    assert table["n_effective"].between(0.4 * len(X), 0.75 * len(X)).all()
    truth = np.array([couplings[mu] for mu in strong["interaction"]])
    z = (strong["weight"] - truth) / strong["standard_error"]
    assert np.sqrt(np.mean(z**2)) < 2.0


def test_shares_are_those_of_the_exact_information():
    X = with_gaps(sample(datasets.make_random(8, {2: 0.25}, 0.2, random_state=1), 8000, random_state=2), 0.3, 3)
    samples = Samples.check(X, allow_nan=True)
    moments = Moments.from_samples(samples, order=2)
    parameters = Parameters(moments.standard.space, all_terms(2, moments.space), "free", moments.frequencies)
    rows = IncompleteRows.of(samples)
    fit = ObservedFit(rows, moments, parameters)
    found = fit.fit(Prior({2: 0.0}), None)
    filled = Imputer(rows, 10, random_state=0).draw(parameters.model(found.theta))
    ratio = shares.from_copies(parameters, filled) / fit.informed(found)
    assert np.abs(ratio[8:] - 1.0).max() < 0.15
    assert abs(ratio[8:].mean() - 1.0) < 0.05


def test_the_noise_of_copies_is_within_what_errors_allow_for(monkeypatch):
    """Fits of one table from other draws differ by no more than (1 − f)/(m f) of the variance, as is told of them.

    With few copies until the last round, whose noise that one passes on, they differ by more.
    """
    model = datasets.make_planted(10, {2: 12}, random_state=5)
    X = with_gaps(sample(model, 1500, random_state=3), 0.3, 4)

    def noise():
        fits = [HBM(order=2, refine="pseudolikelihood", alpha=0.0, random_state=seed).fit(X) for seed in (1, 2, 3, 4)]
        weights = np.array([est.weights_ for est in fits])
        return (weights.var(axis=0, ddof=1) / fits[0].standard_errors_ ** 2).mean(), fits[0]

    found, est = noise()
    f = est.result_.informed.mean()
    told = (1.0 - f) / (stochastic.COPIES * f)
    assert 0.1 * told < found < told
    monkeypatch.setattr(stochastic, "WITH_ALL", 1)
    assert noise()[0] > 1.2 * told


def test_stochastic_em_comes_to_the_observed_likelihood():
    """Without a prior, weak couplings: both methods have the same estimate, up to the noise of copies."""
    X = with_gaps(sample(datasets.make_random(8, {2: 0.15}, 0.2, random_state=1), 3000, random_state=2), 0.3, 3)
    exact = HBM(order=2, alpha=0.0).fit(X)
    drawn = HBM(order=2, alpha=0.0, refine="pseudolikelihood", random_state=0).fit(X)
    z = (drawn.effects_ - exact.effects_) / exact.effect_errors_
    assert np.sqrt(np.mean(z**2)) < 0.45
    assert 0.95 < np.median(drawn.effect_errors_ / exact.effect_errors_) < 1.12
    filled_by_means = HBM(order=2, alpha=0.0).fit(np.where(np.isnan(X), np.sign(np.nanmean(X, axis=0)), X))
    assert np.sqrt(np.mean(((filled_by_means.effects_ - exact.effects_) / exact.effect_errors_) ** 2)) > 0.9


# ---------------------------------------------------------------------- missing at random


def at_random(X, seed):
    """All columns but the first two, most where these agree: complete rows are no fair sample."""
    X = X.astype(float)
    p = np.where(X[:, 0] == X[:, 1], 0.5, 0.05)[:, None] * (np.arange(X.shape[1]) > 1)
    X[np.random.default_rng(seed).random(X.shape) < p] = np.nan
    return X


@pytest.mark.parametrize("refine", ["auto", "pseudolikelihood"])
def test_complete_rows_are_biased_where_all_rows_are_not(refine):
    model = BoltzmannMachine(np.full(8, 0.1), {(0, 1): 0.2, (2, 3): 0.4, (1, 4): -0.3, (0, 5): 0.3})
    X = at_random(sample(model, 4000, random_state=21), 22)
    options = {"order": 2, "alpha": 0.0, "refine": refine, "random_state": 0}
    truth = np.array([model.couplings().get(mu, 0.0) for mu in HBM(**options).fit(X).interactions_])
    z = {}
    for name, rows in (("all", X), ("complete", X[~np.isnan(X).any(axis=1)])):
        est = HBM(**options).fit(rows)
        z[name] = (est.weights_ - truth) / est.standard_errors_
    assert np.abs(z["complete"][0]) > 5  # of (0, 1)
    assert np.abs(z["all"][0]) < 3.5
    assert np.sqrt(np.mean(z["all"] ** 2)) < 1.4


def test_zeros_are_not_found_where_gaps_depend_on_what_is_tested():
    """Most is missing where the first two columns agree: at their nodes, rows that have all members are chosen."""
    model = BoltzmannMachine(np.full(6, 0.3), {(0, 1): 0.3, (1, 2): 0.3, (0, 3): 0.2})
    X = sample(model, 8000, random_state=31).astype(float)
    p = np.where(X[:, 0] == X[:, 1], 0.8, 0.05)[:, None] * (np.arange(6) > 1)
    X[np.random.default_rng(32).random(X.shape) < p] = np.nan
    for order in (2, 3):
        table = HBM(order=order, random_state=0).fit(X).to_frame()
        zero = ~table["interaction"].isin(list(model.couplings()))
        assert table.loc[zero, "z"].abs().max() < 3.8
        assert np.sqrt(np.mean(table.loc[zero, "z"] ** 2)) < 1.5


def test_tests_say_what_the_estimate_does():
    """Rows that lack a member say nothing of its coupling: with half of the cells missing, |z| is that of an estimate
    over its error, and not that of all rows."""
    X = with_gaps(sample(datasets.make_random(6, {2: 0.15}, 0.2, random_state=1), 6000, random_state=2), 0.45, 3)
    est = HBM(order=2, alpha=0.0, random_state=0).fit(X)
    wald = est.effects_ / est.effect_errors_
    slope = float(est.tests_.z @ wald / (wald @ wald))
    assert 0.85 < slope < 1.1
    assert np.abs(est.tests_.z - wald).max() < 1.5


# ---------------------------------------------------------------------- sweeps


def planted(rng, n):
    """±1 model with 3n/2 pairs."""
    pairs = {}
    for _ in range(int(1.5 * n)):
        i, j = sorted(rng.choice(n, 2, replace=False).tolist())
        pairs[i, j] = rng.choice([-1, 1]) * rng.uniform(0.1, 0.35)
    return BoltzmannMachine(rng.normal(0, 0.2, n), pairs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "M", "refine", "n_sets"),
    [(12, 1500, "auto", 30), (12, 1500, "pseudolikelihood", 20), (40, 3000, "pseudolikelihood", 3)],
)
@pytest.mark.parametrize("mechanism", ["mcar10", "mcar30", "mar"])
def test_errors_intervals_and_tests_are_what_they_claim(n, M, refine, n_sets, mechanism):
    z, inside, null, errors, complete = [], {True: [], False: []}, [], [], []
    for k in range(n_sets):
        rng = np.random.default_rng([2024, n, k])
        model = planted(rng, n)
        whole = sample(model, M, random_state=rng)
        seed = int(rng.integers(2**31))
        X = at_random(whole, seed) if mechanism == "mar" else with_gaps(whole, int(mechanism[4:]) / 100, seed)
        options = {"order": 2, "refine": refine, "random_state": k}
        est, free = HBM(**options).fit(X), HBM(**options, alpha=0.0).fit(X)
        truth = np.array([model.couplings().get(mu, 0.0) for mu in est.interactions_])
        low, high = est.confidence_intervals(0.95).T
        for zero in (True, False):
            mine = (truth == 0.0) == zero
            inside[zero].append(((low <= truth) & (truth <= high))[mine])
        null.append(est.tests_.z[truth == 0.0])
        z.append((free.weights_ - truth) / free.standard_errors_)
        few = HBM(**options, alpha=0.0).fit(whole[: round(free.to_frame()["n_effective"].mean())])
        errors.append(free.weights_ - truth)
        complete.append(few.weights_ - truth)
    z, null = np.concatenate(z), np.concatenate(null)
    assert 0.93 < np.sqrt(np.mean(z**2)) < 1.1
    assert np.mean(np.abs(z) < 1.96) > 0.93
    ratio = np.sqrt(np.mean(np.concatenate(errors) ** 2) / np.mean(np.concatenate(complete) ** 2))
    assert ratio < 1.1
    assert np.mean(np.concatenate(inside[True])) > 0.95
    assert np.mean(np.concatenate(inside[False])) > 0.9  # so do those of complete rows
    assert 0.035 < np.mean(np.abs(null) > 1.96) < 0.065
    assert np.mean(np.abs(null) > 3) < 0.0075
