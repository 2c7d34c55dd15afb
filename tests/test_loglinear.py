"""Nominal pair models are the log-linear models of contingency tables: statsmodels' Poisson regression is the judge."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from fits import likelihood_fit

from hbm_learn import HBM, Moments
from hbm_learn.data.samples import Samples
from hbm_learn.space.functions import contrasts
from hbm_learn.terms import all_terms

LEVELS = {"region": ["east", "north", "west"], "party": list("abcd"), "vote": ["no", "yes"]}


@pytest.fixture(scope="module")
def people() -> pd.DataFrame:
    """2000 rows of three dependent nominal columns."""
    rng = np.random.default_rng(5)
    logits = rng.normal(size=(3, 4)), 0.7 * rng.normal(size=(4, 2)), 0.4 * rng.normal(size=(3, 2))
    energy = logits[0][:, :, None] + logits[1][None] + logits[2][:, None]
    p = np.exp(energy).ravel()
    states = rng.choice(24, 2000, p=p / p.sum())
    codes = np.stack(np.unravel_index(states, (3, 4, 2)), axis=1)
    return pd.DataFrame({name: np.array(LEVELS[name])[codes[:, i]] for i, name in enumerate(LEVELS)})


def poisson(people: pd.DataFrame):
    """The Poisson fit of the cells with all pairs and sum-to-zero contrasts: each function, then the products."""
    counts = people.groupby(list(LEVELS)).size().reindex(pd.MultiIndex.from_product(LEVELS.values()), fill_value=0)
    codes = np.stack(np.unravel_index(np.arange(24), (3, 4, 2)), axis=1)
    sites = [contrasts(len(labels))[codes[:, i]] for i, labels in enumerate(LEVELS.values())]
    pairs = [(sites[i][:, :, None] * sites[j][:, None, :]).reshape(24, -1) for i, j in ((0, 1), (0, 2), (1, 2))]
    design = np.column_stack([np.ones(24), *sites, *pairs])
    return sm.GLM(counts.to_numpy(), design, family=sm.families.Poisson()).fit(tol=1e-14, maxiter=100)


def test_estimates_and_errors_are_those_of_statsmodels(people):
    moments = Moments.from_samples(Samples.check(people), order=2)
    fit = likelihood_fit(moments, all_terms(2, moments.space), site="free")
    reference = poisson(people)
    # Sets of columns are sorted, products of the design are grouped by pair: find each by its members.
    own = fit.theta[: fit.parameters.n_own]
    np.testing.assert_allclose(own, reference.params[1:7], atol=1e-7)
    ptr = moments.space.column_ptr
    order = [
        (a, b)
        for i, j in ((0, 1), (0, 2), (1, 2))
        for a in range(ptr[i], ptr[i + 1])
        for b in range(ptr[j], ptr[j + 1])
    ]
    at = fit.parameters.columns.locate(np.array(order))
    np.testing.assert_allclose(fit.weights[at], reference.params[7:], atol=1e-7)
    errors = np.sqrt(fit.posterior)
    np.testing.assert_allclose(errors[: fit.parameters.n_own], reference.bse[1:7], rtol=1e-6)
    np.testing.assert_allclose(errors[fit.parameters.n_own :][at], reference.bse[7:], rtol=1e-6)


def test_block_tests_are_wald_tests(people):
    """One row for each pair, with its degrees of freedom and the Wald statistic of the whole table."""
    est = HBM(order=2, alpha=0.0).fit(people)
    reference = poisson(people)
    frame = est.to_frame()
    assert frame["interaction"].tolist() == [("region", "party"), ("region", "vote"), ("party", "vote")]
    assert frame["df"].tolist() == [6, 2, 3]
    blocks = np.split(np.arange(7, 18), [6, 8])
    for statistic, block in zip(est.result_.statistic, blocks):
        x, C = reference.params[block], reference.cov_params()[np.ix_(block, block)]
        assert statistic == pytest.approx(x @ np.linalg.solve(C, x), rel=1e-6)


def test_tables_sum_to_zero_and_reproduce_the_fit(people):
    est = HBM(order=2, alpha=0.0).fit(people)
    table = est.model_.couplings()[(0, 1)]
    assert table.shape == (3, 4)
    np.testing.assert_allclose(table.sum(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(table.sum(axis=1), 0.0, atol=1e-10)
    assert est.weights_[0] == pytest.approx(np.sqrt(np.mean(table**2)))
    reference = poisson(people)
    expected = contrasts(3) @ reference.params[7:13].reshape(2, 3) @ contrasts(4).T
    np.testing.assert_allclose(table, expected, atol=1e-7)


def test_two_labels_are_spins(people):
    """A nominal column with two labels is the ±1 column of its codes."""
    spins = people.assign(vote=np.where(people["vote"] == "yes", 1, -1))
    a, b = HBM(order=3).fit(people), HBM(order=3).fit(spins)
    np.testing.assert_allclose(a.weights_, b.weights_, atol=1e-8)
    np.testing.assert_allclose(a.effects_, b.effects_, atol=1e-8)
