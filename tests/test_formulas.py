"""The formulas that statistics are made of, each against the plainest way to compute it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations, permutations

import numpy as np
import pytest
from fits import likelihood_fit
from scipy import sparse, stats

from hbm_learn import HBM, BoltzmannMachine, Interactions, Moments, Space, invert, sample
from hbm_learn._kernels import score
from hbm_learn.assessment import checks, dependence, intervals, nested, two_values
from hbm_learn.assessment.node_data import DistinctRows, NodeData
from hbm_learn.assessment.score_tests import add_tests
from hbm_learn.data.samples import Samples
from hbm_learn.data.tables import complete_rows
from hbm_learn.inversion.closed_form import errors, precision
from hbm_learn.inversion.composite import pseudolikelihood, sandwich
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior, elastic
from hbm_learn.inversion.result import block_statistic
from hbm_learn.inversion.shrinkage import learn, mixture
from hbm_learn.inversion.shrinkage.expectation import begin
from hbm_learn.inversion.shrinkage.marginals import Marginals
from hbm_learn.states import StateTable
from hbm_learn.terms import Terms, all_terms, closure

LEVEL = 0.05


def positive(n: int, seed: int) -> np.ndarray:
    A = np.random.default_rng(seed).normal(size=(n, n))
    return A @ A.T + 0.5 * np.eye(n)


def permanent(A: np.ndarray) -> float:
    return sum(np.prod([A[i, j] for i, j in enumerate(image)]) for image in permutations(range(len(A))))


def spins(n: int, M: int, J: dict, seed: int) -> np.ndarray:
    return sample(BoltzmannMachine(np.zeros(n), J), M, method="exact", random_state=seed)


# ---------------------------------------------------------------------- the closed form


@pytest.mark.parametrize("k", [2, 3, 4])
def test_permanents(k):
    P, block = positive(6, k), Interactions.upto(k, 6).block(k)
    found = errors.permanents(P, block)
    np.testing.assert_allclose(found, [permanent(P[np.ix_(mu, mu)]) for mu in block])
    np.testing.assert_allclose(
        errors.permanents(P, block, block[::-1]), [permanent(P[np.ix_(a, b)]) for a, b in zip(block, block[::-1])]
    )
    if k == 2:
        np.testing.assert_allclose(precision.pair_variances(P, 10.0)[tuple(block.T)], found / 10.0)


def test_weights_of_pairs_carry_the_noise_of_triplets():
    """u = Σ_{c≠a,b} m_c Y_c as a variable of its own."""
    n, M = 5, 50.0
    P, m = positive(n, 8), np.random.default_rng(9).normal(size=n)
    columns = Interactions.upto(3, n)
    shrink = np.random.default_rng(10).uniform(0.2, 1.0, len(columns))
    found = errors.pair_weights_with_triplets(np.ones(len(columns)), columns, shrink, P, m, M)
    for at, (a, b) in enumerate(columns.block(2)):
        rest = np.array([0.0 if c in (a, b) else m[c] for c in range(n)])
        rows = np.array([np.eye(n)[a], np.eye(n)[b], rest])
        assert found[at] == pytest.approx(1.0 + shrink[columns.slice(3)].mean() * permanent(rows @ P @ rows.T) / M)
    np.testing.assert_array_equal(found[columns.slice(3)], 1.0)


def test_two_triplets_that_share_a_variable_make_no_quadruplet():
    truth = BoltzmannMachine(np.zeros(5), {(0, 1, 2): 0.12, (2, 3, 4): 0.12})
    table = StateTable(truth)
    moments = Moments.from_distribution(table.codes(np.arange(table.p.size)), table.p.ravel(), 4, space=truth.space)
    found = dict(zip(combinations(range(5), 4), invert(moments, alpha=0.0).effects[-5:]))
    # Without the tree that they make through variable 2 it would be about .12².
    assert abs(found[0, 1, 3, 4]) < 0.2 * 0.12**2


def test_a_ridge_makes_the_dual_variables_quieter():
    X = spins(6, 400, {(0, 1): 0.3, (1, 2): 0.3, (0, 2, 3): 0.2}, 11)
    moments = Moments.from_samples(X, order=3)
    found = invert(moments, alpha={2: 800.0, 3: 0.0})
    C = moments.covariance
    P = precision.ridge_precision(C, 800.0 / 400, np.diag(1.0 / np.diag(C)))
    triplets = Interactions.upto(3, 6).block(3)
    scale = np.sqrt(np.diag(C))[triplets].prod(axis=1)
    of_y, of_p = (np.sqrt(errors.permanents(A, triplets) / 400) * scale for A in (P @ C @ P, P))
    np.testing.assert_allclose(found.column_sampling_errors[-20:], of_y, rtol=1e-9)
    assert np.abs(of_p / of_y - 1.0).max() > 0.1


def test_the_variance_of_a_prior_is_what_noise_leaves():
    x, v = np.array([0.5, -0.3, 0.1, 0.2]), np.array([0.02, 0.01, 0.01, 0.02])
    assert precision.learn_alpha(x, v) == pytest.approx(1.0 / np.mean(x**2 - v))


def test_a_block_has_all_of_its_chi_square():
    C, x = np.diag([1.0, 0.2, 1e-3, 0.0]), np.array([1.0, -0.4, 0.05, 0.7])
    assert block_statistic(x, C) == pytest.approx(1.0 + 0.16 / 0.2 + 0.0025 / 1e-3)


def test_a_laplace_prior_of_the_same_variance():
    """Variance 2/rate² = 1/α."""
    rate = elastic({2: 8.0, 3: 50.0}, 1.0)
    assert rate == pytest.approx({2: 4.0, 3: 10.0})
    assert elastic({2: 8.0}, 0.25)[2] == pytest.approx(0.75 * 8.0 + 0.25 * 4.0)


# ---------------------------------------------------------------------- the sandwich


@pytest.mark.parametrize("stride", [1, 4])
def test_what_the_same_rows_make_of_a_sandwich(stride):
    """exp(−2L) for the leverage of a row, and 1 + 4 P/Nm for a noisy inverse where rows were left out."""
    X = spins(5, 300, {}, 12)
    samples = Samples.check(X)
    moments = Moments.from_samples(samples, order=2)
    parameters = Parameters(moments.standard.space, all_terms(2, samples.space), "free", moments.frequencies)
    composite = pseudolikelihood.prepare(samples, parameters).composite
    count = np.r_[np.ones(5), np.full(10, 2.0)]
    kept = np.linspace(0.2, 1.0, 15)
    half = [0.5 * np.eye(1)] * 5  # half of the variance of each variable is explained by the others
    found = sandwich._same_rows(composite, half, stride, count, kept, done=0.25)
    rows = 5 * 300 / stride
    leverage = np.sum(kept * (0.75 + (count - 1.0) * 0.5)) / rows
    noise = 4.0 * kept.mean() * kept.sum() / rows * (1.0 - 1.0 / stride)
    assert found == pytest.approx(np.exp(-2.0 * leverage) * (1.0 + noise), rel=1e-9)


# ---------------------------------------------------------------------- tests


def test_distinct_rows_have_their_own_weights():
    X = spins(4, 300, {(0, 1): 0.5}, 13)
    w = np.random.default_rng(14).integers(0, 4, 300)
    rows = DistinctRows.of(Samples.check(X, sample_weight=w.astype(float)))
    expected = Counter()
    for row, weight in zip((X > 0).astype(int).tolist(), w):
        expected[tuple(row)] += weight
    found = dict(zip(map(tuple, rows.codes.tolist()), rows.weights))
    assert found == {row: weight for row, weight in expected.items() if weight}


def test_weights_follow_rows_that_are_left_out():
    X, w = np.array([[0.0, 1.0], [np.nan, 1.0], [1.0, 0.0], [1.0, 1.0]]), np.array([1.0, 2.0, 3.0, 4.0])
    found = complete_rows(X, w)
    np.testing.assert_array_equal(found.sample_weight, [1.0, 3.0, 4.0])
    np.testing.assert_array_equal(found.kept, [0, 2, 3])


def test_cumulants_of_small_rows():
    rng = np.random.default_rng(15)
    p = rng.dirichlet(np.ones(3), 20)
    phi = rng.normal(size=(20, 3))
    phi -= np.sum(p * phi, axis=1, keepdims=True)
    w = rng.integers(1, 4, 20).astype(float)
    large, found = score._split(p, phi, np.abs(phi).max(axis=1), w, 1e-9)
    assert not len(large)
    m2, m3, m4 = (np.sum(p * phi**k, axis=1) for k in (2, 3, 4))
    np.testing.assert_allclose(found, [w @ m2, w @ m3, w @ (m4 - 3.0 * m2**2)])


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_no_deviate_of_two_values_exceeds_that_of_the_outcome(sign):
    """One row speaks, and others so little that the sum is all but at its edge: the saddlepoint is far out there."""
    eta, h = np.array([-4.05, -4.9, -2.71, -2.69, -4.58]), sign * np.array([0.0015, 0.001, 0.0001, 4.3, 0.001])
    x, O = np.array([1, 1, 1, 1, 0], dtype=np.uint8), np.array([[0.0], [1.0]])
    z, S, _ = two_values.tail(eta, h, O, x, np.ones(5), 2.0)
    p = 1.0 / (1.0 + np.exp(-eta))
    assert np.sign(z) == np.sign(S) == sign
    assert abs(z) <= np.sqrt(-2.0 * np.log(np.where(x == 1, p, 1.0 - p)).sum()) + 1e-9


def search_of(X: np.ndarray, order: int) -> nested._Search:
    samples = Samples.check(X)
    return nested._Search(NodeData(samples), Terms(samples.space, all_terms(order, samples.space)))


def test_selection_is_benjamini_hochberg_over_all_of_an_order():
    search = search_of(spins(7, 800, {(0, 1, 2): 0.3}, 16), 3)
    search.test(3)
    p = search.p_values[search.terms.order == 3]
    q = stats.false_discovery_control(p)
    assert ((p <= LEVEL) & (q > LEVEL)).any()
    np.testing.assert_array_equal(search._passing(3, LEVEL)[search.terms.order == 3], q <= LEVEL)
    assert not search._passing(3, LEVEL)[search.terms.order == 2].any()


def test_what_passes_alone_is_dropped_at_the_bar_of_all_and_stays_so():
    """One triplet of 35, p between .05/35 and .05."""
    for seed in range(20):
        search = search_of(spins(7, 400, {}, 17 + seed), 3)
        search.test(3)
        doubtful = np.flatnonzero((search.terms.order == 3) & (search.p_values < 0.03) & (search.p_values > 0.004))
        if len(doubtful):
            break
    search._hold(np.arange(len(search.terms)) == doubtful[0])
    search._eliminate(3, LEVEL)
    assert not search.selected.any()
    assert search.dropped[doubtful[0]]
    search.least[doubtful[0]] = 0.5  # as if it had been dropped with that
    found = search.tests()
    assert found.p_values[doubtful[0]] == 0.5
    assert abs(found.z[doubtful[0]]) == pytest.approx(stats.norm.isf(0.25))


def test_lower_orders_are_tested_again_given_what_was_found_above():
    """Triplets given the quadruplet that was selected after them."""
    X = spins(6, 3000, {(0, 1, 2, 3): 0.35, (0, 4): 0.3, (1, 4): 0.3}, 18)
    samples = Samples.check(X)
    terms = Terms(samples.space, all_terms(4, samples.space))
    chosen, found = nested.select(samples, terms, LEVEL)
    assert (0, 1, 2, 3) in chosen.tuples
    passing = [mu for mu, q in zip(terms.tuples, found.q_values) if q <= LEVEL and len(mu) > 2]
    inside = closure(Interactions.from_tuples(passing, 6), samples.space)
    model = Interactions.from_tuples(
        sorted({*Interactions.upto(2, 6).tuples, *inside.tuples}, key=lambda m: (len(m), m)), 6
    )
    others = [mu for mu in terms.tuples if len(mu) == 3 and mu not in set(model.tuples)]
    assert others
    again = dict(zip(others, add_tests(samples, model, Interactions.from_tuples(others, 6)).z))
    z = dict(zip(terms.tuples, found.z))
    np.testing.assert_allclose([z[mu] for mu in others], [again[mu] for mu in others], atol=1e-6)


def test_groups_need_not_be_sorted():
    X = np.repeat(spins(4, 400, {(0, 1): 0.3}, 19), 3, axis=0)
    groups, order = np.repeat(np.arange(400), 3), np.random.default_rng(20).permutation(1200)
    columns = all_terms(2, Space.of((-1, 1), 4))
    sorted_, shuffled = (
        dependence.design_effects(Samples.check(X[rows]), columns, groups[rows]) for rows in (np.arange(1200), order)
    )
    assert shuffled == pytest.approx(sorted_)
    assert sorted_[2] == pytest.approx(3.0, rel=0.1)


# ---------------------------------------------------------------------- checks


def test_verdicts_change_where_the_page_says():
    moments = Moments.from_samples(spins(4, 500, {(0, 1): 0.2}, 21), order=2)
    result = invert(moments)
    found = [checks.closed_form(result, moments, None, bias)[0].verdict for bias in (0.9, 1.1, 1.9, 2.1)]
    assert found == ["good", "care", "care", "bad"]
    assert [checks._of_largest("", x, n, "").verdict for x, n in ((3.8, 1), (3.8, 400), (7.9, 1), (8.1, 1))] == [
        "care", "good", "care", "bad",
    ]  # fmt: skip
    marginals = result.effect_marginals
    assert marginals is not None
    for residual, verdict in ((0.09, "good"), (0.11, "care")):
        unsettled = replace(marginals, sites=replace(marginals.sites, residual=residual))
        assert checks.optimiser(replace(result, effect_marginals=unsettled)).verdict == verdict


# ---------------------------------------------------------------------- intervals


def few_among_zeros() -> Marginals:
    """Three strong couplings of either sign among 63 that are zero."""
    space, error = Space.of((-1, 1), 12), 0.03
    beta = np.r_[0.4, -0.4, 0.3, np.zeros(63)]
    seen = beta + np.random.default_rng(22).normal(0, error, 66)
    sites = begin(Terms(space, all_terms(2, space)), mixture.scales(error**-2), seen, np.full(66, error**2))
    return Marginals.of(sparse.csr_array(np.eye(66)), sites, 0, sites.mean, sites.variance)


def test_even_odds_widen_what_the_others_make_noise_of():
    marginals = few_among_zeros()
    found, posterior = intervals._learnt(marginals, 0.95), marginals.intervals(0.95)
    even, data = marginals.intervals(0.95, even=True), marginals.data_intervals(0.95)
    alone = np.abs(data.mean(axis=1)) < 0.9 * 0.03
    assert 20 < alone.sum() < 60
    np.testing.assert_allclose(found[alone], even[alone])
    assert (np.ptp(even, axis=1) > 1.2 * np.ptp(posterior, axis=1))[alone].all()
    assert (np.ptp(found, axis=1) < 0.9 * np.ptp(data, axis=1))[alone].all()


def test_the_less_likely_sign():
    rates = few_among_zeros().sign_rates()
    assert (rates[:3] < 1e-6).all()
    assert (rates[3:] > 0.05).all()
    assert (rates <= 0.5).all()


# ---------------------------------------------------------------------- where learnt priors begin


@pytest.mark.parametrize("share", [0.1, 1.0, 10.0])
def test_the_start_has_no_part_of_the_prior_that_the_fit_had(share):
    """Of weakly coupled spins θ = θ₀/(1 + α/M) is the mode: sites begin at θ₀, whatever α was."""
    M, J = 50_000, {(0, 1): 0.03, (1, 2): -0.02, (0, 3): 0.025, (0, 1, 2): 0.02}
    moments = Moments.from_samples(spins(4, M, J, 29), order=3)
    columns = all_terms(3, moments.space)
    priors = Prior({2: 0.0, 3: 0.0}), Prior({2: share * M, 3: share * M})
    free, fit = (likelihood_fit(moments, columns, None, prior, "free", "standard") for prior in priors)
    n_own, error = fit.parameters.n_own, 1.0 / np.sqrt(M)
    np.testing.assert_allclose(fit.theta[n_own:], free.theta[n_own:] / (1.0 + share), atol=0.2 * error)
    start = learn._start(fit, M)
    np.testing.assert_allclose(start.rho / start.precision, free.theta[n_own:], atol=0.3 * error)


# ---------------------------------------------------------------------- origins


@pytest.mark.parametrize(("alphabet", "h", "origin"), [((-1, 1), 0.6, "middle"), ((0, 1), -2.0, "mode")])
def test_the_evidence_finds_the_origin_of_sparse_couplings(alphabet, h, origin):
    """Few couplings about 0 are many about the means: of ±1 that is the middle, of events what is most frequent."""
    size = 0.5 if origin == "middle" else 1.5
    J = {(0, 1): size, (2, 3): size, (4, 5): size, (0, 2, 4): size, (1, 3, 5): size, (5, 6, 7): size}
    truth = BoltzmannMachine(np.full(8, h), J, alphabet=alphabet)
    X = sample(truth, 8000, method="exact", random_state=23)
    assert HBM(order=3).fit(X).origin_ == origin
