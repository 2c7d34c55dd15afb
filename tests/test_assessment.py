"""Intervals, tests and errors by their formulas, on numbers that can be checked by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy import stats

from hbm_learn import HBM, Interactions, Moments, Nominal, Space, invert, sample
from hbm_learn.assessment import intervals
from hbm_learn.assessment.tests import Tests
from hbm_learn.inversion.result import InversionResult, norm_errors
from hbm_learn.model import BoltzmannMachine
from hbm_learn.terms import Terms, all_terms


def result_of(space: Space, columns: Interactions, statistic: np.ndarray, sign: np.ndarray) -> InversionResult:
    """A result that has nothing but statistics."""
    p = len(Terms(space, columns))
    model = BoltzmannMachine.from_columns(space, [np.zeros(q) for q in space.sizes], columns, np.zeros(len(columns)))
    zero, flat = np.zeros(p), np.zeros(len(columns))
    return InversionResult(
        "closed-form", model, zero, np.zeros(space.n_features), zero, flat, flat, flat, statistic, sign, {}
    )


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
@pytest.mark.parametrize("refine", [None, "likelihood"])
def test_intervals_under_a_gaussian_prior_have_their_width(survey, level, refine):
    """Weight and effect ± Φ⁻¹((1 + level)/2) standard errors, symmetric about what was found."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        est = HBM(order=2, refine=refine, alpha=0.5).fit(survey)
    single = est.tests_.df == 1
    z = stats.norm.ppf(0.5 * (1.0 + level))
    for (low, high), centre, errors in (
        (est.confidence_intervals(level).T, est.weights_, est.standard_errors_),
        (est.effect_intervals(level).T, est.effects_, est.effect_errors_),
    ):
        np.testing.assert_allclose((high - centre)[single], (z * errors)[single])
        np.testing.assert_allclose((centre - low)[single], (z * errors)[single])
    np.testing.assert_allclose(est.to_frame(level)["upper"], est.effect_intervals(level)[:, 1])


@pytest.mark.parametrize("level", [0.9, 0.999])
def test_intervals_under_a_learnt_prior_reach_over_posterior_and_data(survey, level):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        result = HBM(order=2).fit(survey).result_
    single = result.df == 1
    columns, z = single[result.terms.group], stats.norm.ppf(0.5 + 0.5 * level)
    for found, marginals in (
        (intervals.weight_intervals(result, level)[single], result.weight_marginals),
        (intervals.effect_intervals(result, level)[single], result.effect_marginals),
    ):
        posterior, even = (marginals.intervals(level, even)[columns] for even in (False, True))
        data = marginals.data_intervals(level)[columns]
        r, s = data.mean(axis=1), np.ptp(data, axis=1) / (2 * z)
        out = np.abs(r) > (3.0 - z) * s
        assert out.any()
        assert out.all() == (level == 0.999)
        low, high = np.minimum(posterior, even)[:, 0], np.maximum(posterior, even)[:, 1]
        np.testing.assert_allclose(found[~out], np.c_[low, high][~out])
        np.testing.assert_allclose(found[out], np.c_[np.minimum(low, r - z * s), np.maximum(high, r + z * s)][out])


def test_q_values_are_benjamini_hochberg_within_orders_over_all_considered():
    space = Space.of((-1, 1), 5)
    everything = all_terms(3, space)  # 10 pairs and 10 triplets
    some = Interactions.from_tuples([(0, 1), (0, 2), (1, 2), (0, 1, 2)], 5)
    statistic = np.array([16.0, 9.0, 1.0, 12.0])
    tests = Tests.of(result_of(space, some, statistic, np.array([1.0, -1.0, 1.0, 1.0])), Terms(space, everything))
    p = stats.chi2.sf(statistic, 1)
    np.testing.assert_allclose(tests.p_values, p, rtol=1e-12)
    np.testing.assert_allclose(tests.z, [4.0, -3.0, 1.0, np.sqrt(12.0)])
    by_hand = [p[0] * 10, p[1] * 10 / 2, min(p[2] * 10 / 3, 1.0), p[3] * 10]  # 10 hypotheses an order, ranked
    np.testing.assert_allclose(tests.q_values, by_hand, rtol=1e-10)
    alone = Tests.of(result_of(space, some, statistic, np.ones(4)))
    np.testing.assert_allclose(alone.q_values[[0, 3]], [p[0] * 3, p[3]], rtol=1e-10)


@pytest.mark.parametrize("refine", ["auto", None])
def test_every_candidate_has_its_test_beside_a_selection(refine):
    truth = BoltzmannMachine(np.zeros(6), {(0, 1): 0.5, (2, 3, 4): 0.5})
    X = sample(truth, 1500, random_state=5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        chosen, all_of_them = HBM(order=3, refine=refine, fdr=0.05).fit(X), HBM(order=3, refine=refine).fit(X)
    tests, everything = chosen.tests_, chosen.tests_.everything
    assert everything.terms.tuples == all_of_them.interactions_
    assert len(everything.z) == 35 > len(tests.z)
    at = everything.terms.keys.positions(tests.terms.keys)
    outside = np.setdiff1d(np.arange(35), at)
    for name in ("z", "p_values", "q_values", "df"):
        np.testing.assert_array_equal(getattr(everything, name)[at], getattr(tests, name))
    assert (everything.q_values[outside] > 0.05).all()
    assert len(np.unique(everything.p_values[outside])) == len(outside)  # each its own
    if refine is not None:  # no prior, and no selection, enters the score tests of the candidates
        np.testing.assert_allclose(everything.z, all_of_them.tests_.z, atol=1e-9)
    assert all_of_them.tests_.everything.terms.tuples == all_of_them.interactions_


def test_what_a_refined_fit_did_not_keep_has_no_small_q():
    space = Space.of((-1, 1), 4)
    all_of_them, some = all_terms(2, space), Interactions.from_tuples([(0, 1), (2, 3)], 4)
    first = Tests.of(result_of(space, all_of_them, np.array([30.0, 1.0, 25.0, 2.0, 0.5, 20.0]), np.ones(6)))
    refined = Tests.of(result_of(space, some, np.array([36.0, 16.0]), -np.ones(2)), first.considered)
    found = refined.beside(first, 0.05)
    assert found.everything.terms is first.terms
    np.testing.assert_allclose(found.everything.z, [-6.0, 1.0, 5.0, np.sqrt(2.0), np.sqrt(0.5), -4.0])
    np.testing.assert_array_equal(found.everything.q_values[[0, 5]], refined.q_values)
    assert found.everything.q_values[2] == 1.0  # (0, 3), which the closed form had found
    np.testing.assert_array_equal(found.everything.q_values[[1, 3, 4]], first.q_values[[1, 3, 4]])
    np.testing.assert_array_equal(found.z, refined.z)


def test_blocks_are_tested_with_their_degrees_of_freedom():
    space = Space.of([Nominal("a", "b", "c"), Nominal("x", "y", "z", "w"), (0, 1)], 3)
    columns = all_terms(2, space)
    statistic = np.array([20.0, 5.0, 5.0])
    tests = Tests.of(result_of(space, columns, statistic, np.ones(3)))
    assert tests.df.tolist() == [6, 2, 3]
    np.testing.assert_allclose(tests.p_values, stats.chi2.sf(statistic, [6, 2, 3]), rtol=1e-10)
    np.testing.assert_allclose(2 * stats.norm.sf(tests.z), tests.p_values, rtol=1e-8)


def test_errors_of_a_norm():
    """√(xᵀCx)/‖x‖ of a block; the root mean square of the errors where C is not known."""
    space = Space.of([Nominal("a", "b", "c"), (0, 1), (0, 1)], 3)
    columns = all_terms(2, space)  # (0, 1) and (0, 2) have two sets of columns each, (1, 2) one
    terms = Terms(space, columns)
    first = terms.positions(0)
    x, errors = np.zeros(len(columns)), np.full(len(columns), 0.5)
    x[first] = [3.0, 4.0]
    C = np.array([[0.04, 0.01], [0.01, 0.09]])
    found = norm_errors(terms, x, errors, lambda where: C if where.tolist() == first.tolist() else 0.25 * np.eye(2))
    assert found[0] == pytest.approx(np.sqrt(9 * 0.04 + 2 * 12 * 0.01 + 16 * 0.09) / 5)
    np.testing.assert_allclose(found[1:], 0.5)
    errors[first] = [0.3, 0.4]
    assert norm_errors(terms, x, errors)[0] == pytest.approx(np.sqrt(0.125))


def test_a_learnt_prior_does_not_move_the_tests_of_the_closed_form(survey):
    """Triplets shrunk to a small part of themselves keep their statistics, single ones and blocks."""
    moments = Moments.from_samples(survey, order=3)
    learnt, free = invert(moments), invert(moments, alpha=0.0)
    triplets = learnt.terms.order == 3
    assert np.median(np.abs(learnt.effects[triplets]) / np.abs(free.effects[triplets])) < 0.9
    np.testing.assert_allclose(learnt.statistic[triplets], free.statistic[triplets], rtol=0.15, atol=0.3)


def test_the_prior_of_the_closed_form_is_one_of_effects():
    """Columns of numbers on scales a thousand apart: what triplets keep does not depend on the scale."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 3, (2000, 5)) + rng.integers(0, 2, (2000, 1))
    scale = np.array([1.0, 1000.0, 0.001, 10.0, 1.0])
    here, there = (invert(Moments.from_samples(Y, order=3)) for Y in (X.astype(float), X * scale))
    np.testing.assert_allclose(there.effects, here.effects, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(there.effect_errors, here.effect_errors, rtol=1e-6)


def test_pairs_of_the_closed_form_have_the_errors_that_repeated_data_show():
    """Correlated normals: Var(P_ab) = (P_aa P_bb + P_ab²)/M, in the errors, in the tests, and over data sets."""
    C, M = np.array([[1.0, 0.8], [0.8, 1.0]]), 500
    rng = np.random.default_rng(0)
    found = []
    for _ in range(400):
        X = rng.multivariate_normal([0.0, 0.0], C, M)
        found.append(invert(Moments.from_samples(X, order=2, alphabet="real"), alpha=0.0))
    weights = np.array([result.model.weights[0] for result in found])
    variances = np.array([result.standard_errors[0] ** 2 for result in found])
    assert weights.var() == pytest.approx(variances.mean(), rel=0.2)  # the sign before P_ab² is a factor of 4.6 here
    last = found[-1]
    P = np.linalg.inv(np.cov(X.T, bias=True))
    variance = (P[0, 0] * P[1, 1] + P[0, 1] ** 2) / M
    assert last.standard_errors[0] == pytest.approx(np.sqrt(variance))
    assert last.statistic[0] == pytest.approx(P[0, 1] ** 2 / variance)
