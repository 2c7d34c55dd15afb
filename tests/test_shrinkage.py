"""The learnt prior: mixtures and expectation consistency against integration, origins, rare patterns, evidence."""

from itertools import combinations

import numpy as np
import pytest
from scipy import integrate, sparse, stats

from hbm_learn import HBM, BoltzmannMachine, Moments, datasets, sample
from hbm_learn._kernels import mixture as kernels
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.composite import pseudolikelihood
from hbm_learn.inversion.composite.hessian import diagonal_and_own, hessian
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.shrinkage import expectation, mixture, orders
from hbm_learn.inversion.shrinkage.expansion import Curvature, Expansion, poisson_root, rooted
from hbm_learn.inversion.shrinkage.expectation import begin, solve, updated
from hbm_learn.inversion.shrinkage.learn import _among_the_busiest
from hbm_learn.inversion.shrinkage.marginals import Marginals
from hbm_learn.inversion.shrinkage.mixture import Cavities
from hbm_learn.inversion.shrinkage.origins import ORIGINS, Origin
from hbm_learn.inversion.shrinkage.quadratic import DenseQuadratic, ProductQuadratic, SplitQuadratic
from hbm_learn.space import Nominal, Space
from hbm_learn.states import StateTable
from hbm_learn.terms import Terms, all_terms

SIGMA = np.array([0.05, 0.3, 1.0])
PI = np.array([0.5, 0.3, 0.2])


def density(beta):
    return sum(p * stats.norm.pdf(beta, 0, s) for p, s in zip(PI, SIGMA))


@pytest.fixture
def fixed_weights(monkeypatch):
    """The weights of the mixture stay what they are."""
    monkeypatch.setattr(mixture, "learn_weights", lambda cavities, sigma, start=None: PI)


def spin_terms(n, order=2):
    space = Space.of((-1, 1), n)
    return Terms(space, all_terms(order, space))


# ---------------------------------------------------------------------- one site


@pytest.mark.parametrize(("precision", "rho"), [(3.0, 1.0), (40.0, -20.0), (0.1, 0.5), (900.0, 5.0)])
def test_a_site_has_the_moments_of_its_integral(precision, rho):
    def weight(b, k):
        return b**k * density(b) * np.exp(-0.5 * precision * b**2 + rho * b)

    total, first, second = (
        integrate.quad(weight, -8, 8, (k,), points=[0, rho / precision], limit=400)[0] for k in range(3)
    )
    cavities = Cavities(np.array([precision]), np.array([rho**2]), np.array([1]))
    factor, variance, log_total = mixture.moments(cavities, SIGMA, PI)
    assert factor[0] * rho == pytest.approx(first / total, rel=1e-6)
    assert variance[0] == pytest.approx(second / total - (first / total) ** 2, rel=1e-6)
    assert log_total[0] == pytest.approx(np.log(total), rel=1e-6)
    assert mixture.responsibilities(cavities, SIGMA, PI)[1] == pytest.approx(log_total, rel=1e-12)


def test_a_block_has_one_scale_for_all_its_functions():
    """Of three functions: the mean along ρ, the variance averaged over directions; a rotation changes nothing."""
    precision, rho = 5.0, np.array([2.0, -1.0, 0.5])
    rng = np.random.default_rng(0)
    scale = SIGMA[rng.choice(3, 400_000, p=PI)]
    beta = rng.normal(size=(400_000, 3)) * scale[:, None]
    w = np.exp(-0.5 * precision * (beta**2).sum(axis=1) + beta @ rho)
    w /= w.sum()
    cavities = Cavities(np.array([precision]), np.array([rho @ rho]), np.array([3]))
    factor, variance, _ = mixture.moments(cavities, SIGMA, PI)
    np.testing.assert_allclose(factor[0] * rho, w @ beta, atol=0.01)
    spread = np.mean([w @ beta[:, a] ** 2 - (w @ beta[:, a]) ** 2 for a in range(3)])
    assert variance[0] == pytest.approx(spread, rel=0.02)


def test_doubt_moves_weight_to_the_narrowest_scale():
    np.testing.assert_allclose(mixture.doubted(PI, 0.3), [0.85, 0.09, 0.06])
    np.testing.assert_array_equal(mixture.doubted(PI, 1.0), PI)
    # what stands out stays, and what does not is nothing
    cavities = Cavities(np.full(2, 1e4), np.array([1000.0, 150.0]) ** 2, np.ones(2))
    sure, doubtful = (mixture.moments(cavities, SIGMA / 10, mixture.doubted(PI, b))[0] for b in (1.0, 0.02))
    assert doubtful[0] > 0.95 * sure[0]
    assert doubtful[1] < 0.6 * sure[1]


@pytest.mark.parametrize("noise", [0.3, 0.7, 0.95])
def test_even_odds_halve_what_is_noise_where_it_is_more_than_half(noise):
    """Scales 0.01 and 1 about an error of 0.1."""
    found = mixture.even_odds(
        Cavities(np.full(1, 100.0), np.zeros(1), np.ones(1)), np.array([0.01, 1.0]), [noise, 1 - noise]
    )
    np.testing.assert_allclose(found, [[min(noise, 0.5), max(1 - noise, 0.5)]])


def test_weights_are_learnt_from_what_was_drawn():
    rng = np.random.default_rng(1)
    sigma = mixture.scales(1e4)
    drawn = np.where(rng.random(6000) < 0.1, 0.3, 0.0) * rng.normal(size=6000)
    z = drawn * 100 + rng.normal(size=6000)
    cavities = Cavities(np.full(6000, 1e4), (z * 100) ** 2, np.ones(6000))
    pi = mixture.learn_weights(cavities, sigma)
    assert pi.sum() == pytest.approx(1)
    assert pi[sigma > 0.1].sum() == pytest.approx(0.1, abs=0.02)
    assert pi[sigma < 0.005].sum() > 0.8
    # one coupling alone does not decide what the distribution is
    alone = mixture.learn_weights(cavities.at(np.array([0])), sigma)
    assert alone.max() < 0.9


@pytest.mark.parametrize(("n_terms", "share"), [(1, 1.0), (66, 0.1), (1225, 0.1), (3000, 0.0), (30_000, 0.003)])
def test_no_other_weights_are_more_likely(n_terms, share):
    """The conditions of a maximum: each scale has all the responsibility that its weight says, from any start."""
    rng = np.random.default_rng(n_terms)
    sigma, precision = mixture.scales(1e4), 1e4 * rng.uniform(0.5, 1.0, n_terms)
    drawn = np.where(rng.random(n_terms) < share, rng.normal(0.0, 0.2, n_terms), 0.0)
    rho = precision * drawn + np.sqrt(precision) * rng.normal(size=n_terms)
    cavities = Cavities(precision, rho**2, np.ones(n_terms))
    pi = mixture.learn_weights(cavities, sigma)
    few, weights = mixture.counted(cavities)
    R = mixture.responsibilities(few, sigma, pi)[0]
    held = weights @ R + mixture.PSEUDO / len(sigma)
    np.testing.assert_allclose(held, (weights.sum() + mixture.PSEUDO) * pi, rtol=0.01, atol=0.01)
    other = mixture.learn_weights(cavities, sigma, rng.dirichlet(np.full(len(sigma), 0.1)))
    np.testing.assert_allclose(other, pi, atol=1e-4)


# ---------------------------------------------------------------------- sites together


def test_uncorrelated_couplings_are_solved_exactly(fixed_weights):
    terms = spin_terms(4)
    K, b = np.diag(np.r_[np.ones(4), np.full(6, 30.0)]), np.r_[np.zeros(4), [1.0, -2.0, 9.0, 0.1, 20.0, -4.0]]
    found = solve(
        DenseQuadratic(K, b), 4, begin(terms, SIGMA, b[4:] / 30, np.full(6, 1 / 30)), tol=1e-9, max_sweeps=200
    )
    cavities = Cavities(np.full(6, 30.0), b[4:] ** 2, np.ones(6))
    factor, variance, _ = mixture.moments(cavities, SIGMA, PI)
    np.testing.assert_allclose(found.mean[4:], factor * b[4:], atol=1e-6)
    narrow = 1.0 / variance - 30.0 > SIGMA[-1] ** -2  # γ of an undecided site is at its bound
    np.testing.assert_allclose(found.variances[4:][narrow], variance[narrow], rtol=1e-5)


def test_with_one_scale_the_posterior_and_its_evidence_are_gaussian(monkeypatch):
    monkeypatch.setattr(mixture, "learn_weights", lambda cavities, sigma, start=None: np.ones(1))
    rng = np.random.default_rng(2)
    terms, n_own = spin_terms(4), 4
    A = rng.normal(size=(10, 30))
    K, b = A @ A.T, rng.normal(size=10) * 5
    sigma = np.array([0.4])
    found = solve(DenseQuadratic(K, b), n_own, begin(terms, sigma, np.zeros(6), np.full(6, 0.1)), tol=1e-10)
    precision = K + np.diag(np.r_[np.zeros(4), np.full(6, 1 / 0.16)])
    S = np.linalg.inv(precision)
    np.testing.assert_allclose(found.mean, S @ b, rtol=1e-8)
    np.testing.assert_allclose(found.variances, np.diag(S), rtol=1e-8)
    from hbm_learn.inversion.shrinkage.learn import _evidence

    data = SplitQuadratic(DenseQuadratic(K, b), np.ones(10, dtype=bool), np.diag(K), b)
    exact = 0.5 * b @ S @ b - 0.5 * np.linalg.slogdet(precision)[1] - 0.5 * 6 * np.log(0.16)
    assert _evidence(data, found) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("correlation", [0.3, -0.6])
def test_two_correlated_couplings_agree_with_integration(fixed_weights, correlation):
    space = Space.of((-1, 1), 3)
    terms = Terms(space, Interactions.from_tuples([(0, 1), (0, 2)], 3))
    K = 20.0 * np.array([[1.0, correlation], [correlation, 1.0]])
    b = np.array([9.0, 2.0])
    grid = np.linspace(-3, 3, 1201)
    x, y = np.meshgrid(grid, grid, indexing="ij")
    log = -0.5 * (K[0, 0] * x**2 + 2 * K[0, 1] * x * y + K[1, 1] * y**2) + b[0] * x + b[1] * y
    p = density(x) * density(y) * np.exp(log)
    p /= p.sum()
    mean = np.array([(p * x).sum(), (p * y).sum()])
    sd = np.sqrt(np.array([(p * x**2).sum(), (p * y**2).sum()]) - mean**2)
    found = solve(DenseQuadratic(K, b), 0, begin(terms, SIGMA, b / 20, np.full(2, 0.05)), tol=1e-8, max_sweeps=300)
    np.testing.assert_array_less(np.abs(found.mean - mean), 0.1 * sd)
    np.testing.assert_allclose(np.sqrt(found.sites.variance), sd, rtol=0.15)
    alone = mixture.moments(Cavities(np.full(2, 20.0), b**2, np.ones(2)), SIGMA, PI)[0] * b
    assert np.abs(alone - mean).max() > 3 * np.abs(found.mean - mean).max()  # the negative control


def test_products_say_what_the_matrix_says():
    rng = np.random.default_rng(3)
    terms = spin_terms(12, 3)
    columns, P = terms.columns, 12 + len(terms.columns)
    A = rng.normal(size=(P, 40 * P)) / np.sqrt(40 * P)
    K, b = 500.0 * A @ A.T, rng.normal(size=P) * 20
    gamma, shift = np.r_[np.zeros(12), rng.uniform(1, 5e4, P - 12)], np.zeros(P)
    dense = DenseQuadratic(K, b).posterior(gamma, shift)
    free = ProductQuadratic(lambda v: K @ v, np.diag(K), b, columns, 12).posterior(gamma, shift)
    assert np.sqrt(np.mean((free.mean - dense.mean) ** 2 / dense.variances)) < 0.05
    np.testing.assert_allclose(free.variances[12:], dense.variances[12:], rtol=0.15)
    # what iterations leave of the equations is told
    np.testing.assert_allclose(free.residual, b - K @ free.mean - gamma * free.mean, atol=1e-8)


def test_a_residual_does_not_speak_through_a_stiff_prior():
    terms = spin_terms(3)
    start = begin(terms, SIGMA, np.zeros(3), np.full(3, 0.01))
    mean, v, left = np.array([1e-5, 0.0, 0.0]), np.full(3, 1e-4), np.array([0.3, 0.0, 0.0])
    assert updated(start, mean, v, left).rho[0] - updated(start, mean, v).rho[0] == pytest.approx(0.3)


# ---------------------------------------------------------------------- origins


@pytest.mark.parametrize("origin", ORIGINS)
@pytest.mark.parametrize("alphabets", [[(-1, 1)] * 4, [(0, 1), (1, 2, 3, 4, 5), Nominal("a", "b", "c"), (-1, 1)]])
def test_couplings_about_an_origin_make_the_same_distribution(origin, alphabets):
    rng = np.random.default_rng(4)
    space = BoltzmannMachine(np.zeros(4), {}, 0.0, alphabets).space
    frequencies = [rng.dirichlet(np.full(q, 3.0)) for q in space.sizes]
    standard = space.standard(frequencies)
    parameters = Parameters(standard, all_terms(3, space), "free", frequencies)
    B = Origin.of(origin, parameters)
    theta = 0.3 * rng.normal(size=parameters.n_params)
    np.testing.assert_allclose(B.B @ B.pull_back(theta), theta, atol=1e-12)
    about = standard.about(origin, frequencies)
    J = parameters.model(theta).in_space(about)
    here = Parameters(about, parameters.columns, "free", frequencies)
    at = J.columns.positions(here.columns)
    np.testing.assert_allclose(J.column_weights[at], B.pull_back(theta)[parameters.n_own :], atol=1e-10)
    # Of a site with further own functions, those take a part of what its columns do elsewhere.
    sizes = np.diff(here.own_ptr)
    own = np.flatnonzero(np.repeat(sizes == np.diff(here.field_ptr), sizes))
    np.testing.assert_allclose(here.pack(J)[own], B.pull_back(theta)[own], atol=1e-10)


def test_origins_do_not_depend_on_the_coding():
    p = [np.array([0.7, 0.3]), np.array([0.2, 0.2, 0.6])]
    for origin, values in (("middle", (0.5, 1.0)), ("mode", (0.0, 2.0)), ("mean", (0.3, 1.4))):
        for scale, shift in ((1.0, 0.0), (-2.0, 5.0)):
            alphabets = [(scale * 0 + shift, scale * 1 + shift), tuple(scale * x + shift for x in (0, 1, 2))]
            space = BoltzmannMachine([0, 0], {}, 0.0, alphabets).space
            q = [each if a.nodes[0] < a.nodes[-1] and scale > 0 else each[::-1] for each, a in zip(p, space.alphabets)]
            table = space.standard(q).about(origin, q).functions
            for i, value in enumerate(values):
                x = np.array(space.alphabets[i].nodes)
                zero = np.interp(0.0, np.sort(table[i][:, 0]), x[np.argsort(table[i][:, 0])])
                assert zero == pytest.approx(scale * value + shift)
    tie = [np.array([0.5, 0.5])]
    table = Space.of((0, 1), 1).standard(tie).about("mode", tie).functions[0]
    assert table.sum() == pytest.approx(0)  # of two values that are equally frequent, neither


# ---------------------------------------------------------------------- marginals


def test_intervals_are_quantiles_of_the_mixture(fixed_weights):
    terms = spin_terms(4)
    K, b = np.diag(np.r_[np.ones(4), np.full(6, 30.0)]), np.r_[np.zeros(4), [1.0, -2.0, 9.0, 0.1, 20.0, -4.0]]
    sites = solve(DenseQuadratic(K, b), 4, begin(terms, SIGMA, b[4:] / 30, np.full(6, 1 / 30)), tol=1e-9).sites
    T = sparse.csr_array(np.c_[np.zeros((6, 4)), 2.0 * np.eye(6)])
    found = Marginals.of(T, sites, 4, 2.0 * sites.mean, 4.0 * sites.variance)
    for level in (0.5, 0.95):
        for r, (low, high) in enumerate(found.intervals(level)):

            def weight(x, r=r):
                return density(x) * np.exp(-0.5 * sites.precision[r] * x**2 + sites.rho[r] * x)

            points = sorted({0.0, float(low / 2), float(high / 2)})
            total = integrate.quad(weight, -6, 6, points=points, limit=400)[0]
            for side, x in (((1 - level) / 2, low / 2), ((1 + level) / 2, high / 2)):
                assert integrate.quad(weight, -6, x, points=[p for p in points if p < x] or None, limit=400)[
                    0
                ] / total == pytest.approx(side, abs=1e-5)
    below = found.sign_rates()
    assert below[4] < 0.01 < below[3]
    assert 0.4 < below[3] <= 0.5


def means_and_marginals(true, seed, error=0.05):
    """Marginals of couplings of one order, each seen with the same error and nothing else."""
    terms = spin_terms(40)  # 780 pairs
    beta = np.zeros(len(terms))
    beta[: len(true)] = true
    seen = beta + np.random.default_rng(seed).normal(0, error, len(beta))
    sites = begin(terms, mixture.scales(error**-2), seen, np.full(len(beta), error**2))
    T = sparse.csr_array(-2.0 * np.eye(len(beta)))
    return -2.0 * beta, -2.0 * seen, Marginals.of(T, sites, 0, -2.0 * sites.mean, 4.0 * sites.variance)


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_intervals_of_the_data_are_estimate_and_error_without_the_prior(level):
    _, seen, found = means_and_marginals([1.0, -0.1], 0)
    low, high = found.data_intervals(level).T
    half = stats.norm.ppf(0.5 + 0.5 * level) * 2.0 * 0.05
    np.testing.assert_allclose(0.5 * (low + high), seen, atol=2e-3)  # the broadest component is nearly flat
    np.testing.assert_allclose(high - low, 2.0 * half, rtol=1e-3)
    wider = Marginals(found.sites, found.main, found.scale, found.centre, np.full(len(seen), 0.03)).data_intervals(
        level
    )
    np.testing.assert_allclose(
        np.ptp(wider, axis=1), 2.0 * half * np.sqrt(4.0), rtol=1e-3
    )  # .03 + (2·.05)² = 4 (2·.05)²


def test_intervals_of_the_data_are_bounded_where_the_data_say_nothing():
    terms = spin_terms(3)
    sites = begin(terms, SIGMA, np.array([0.0, 0.5, 0.5]), np.array([1e12, 1e12, 1e-4]))
    T = sparse.csr_array(np.eye(3))
    found = Marginals.of(T, sites, 0, sites.mean, sites.variance).data_intervals(0.95)
    np.testing.assert_allclose(found[:2], stats.norm.ppf([0.025, 0.975]) * SIGMA[-1] * np.ones((2, 1)), rtol=1e-3)


def test_what_is_unlike_the_others_is_not_covered_by_the_posterior():
    """20 couplings of 2 errors among 760 zeros, which the posterior takes for noise."""
    hits = {"data": [], "even": [], "posterior": []}
    for seed in range(10):
        true, _, found = means_and_marginals(np.full(20, 0.1), seed)
        each = found.data_intervals(0.95), found.intervals(0.95, even=True), found.intervals(0.95)
        for name, (low, high) in zip(hits, (x.T for x in each)):
            hits[name].extend((low <= true)[:20] & (true <= high)[:20])
    share = {name: np.mean(x) for name, x in hits.items()}
    assert share["data"] > 0.95 - 3 * np.sqrt(0.95 * 0.05 / 200)
    assert share["even"] > 0.8 > 0.7 > share["posterior"]


def test_even_odds_take_weight_from_what_is_noise_to_the_data():
    sigma, pi = np.array([0.01, 0.1, 1.0]), np.array([0.9, 0.06, 0.04])
    cavities = Cavities(np.array([4.0, 400.0, 1e6, 0.01]), np.zeros(4), np.ones(4))  # errors of .5, .05, .001 and 10
    found = mixture.even_odds(cavities, sigma, pi)
    np.testing.assert_allclose(found.sum(axis=1)[:3], 1.0)
    np.testing.assert_allclose(found[0], [0.9 / 1.92, 0.06 / 1.92, 0.5])
    np.testing.assert_allclose(found[1], [0.5, 0.3, 0.2])
    np.testing.assert_array_equal(found[2], pi)  # nothing is noise
    np.testing.assert_allclose(found[3] / found[3].sum(), pi)  # everything is
    np.testing.assert_array_equal(mixture.even_odds(cavities, sigma, np.array([0.3, 0.3, 0.4]))[1], [0.3, 0.3, 0.4])


def test_what_the_site_does_not_explain_widens_the_interval(fixed_weights):
    terms = spin_terms(3)
    sites = begin(terms, SIGMA, np.array([0.5, 0.0, 0.0]), np.full(3, 0.02))
    one = np.array([0])
    narrow = Marginals(sites, one, np.ones(1), sites.mean[:1], np.zeros(1)).intervals(0.95)
    wide = Marginals(sites, one, np.ones(1), sites.mean[:1], np.full(1, 0.05)).intervals(0.95)
    assert np.ptp(wide) > np.ptp(narrow) + 0.1


def test_quantiles_of_one_component_are_those_of_a_gaussian():
    out = np.empty(1)
    kernels.quantiles(np.ones((1, 1)), np.full((1, 1), 2.0), np.full((1, 1), 0.5), 0.975, out)
    assert out[0] == pytest.approx(2.0 + 0.5 * stats.norm.ppf(0.975), rel=1e-7)


# ---------------------------------------------------------------------- rare patterns, and what composites know


def test_the_root_of_a_rare_count_is_standard_normal():
    for expected in (0.02, 0.3, 2.0, 200.0):
        k = np.arange(0, 400)
        p = stats.poisson.pmf(k, expected)
        z = poisson_root((k - expected) / np.sqrt(expected), np.full(len(k), expected))
        for cut in (3.0, 4.0):
            assert p[z > cut].sum() < 2.5 * stats.norm.sf(cut)
        gaussian = (k - expected) / np.sqrt(expected)
        if expected < 1:
            assert p[gaussian > 4.0].sum() > 50 * stats.norm.sf(4.0)  # the negative control
    np.testing.assert_allclose(poisson_root(np.array([-3.0, 2.0]), np.full(2, 1e9)), [-3.0, 2.0], rtol=1e-4)


def test_the_root_of_a_block_is_that_of_its_length():
    space = BoltzmannMachine([0, 0], {}, 0.0, [Nominal("a", "b", "c"), (0, 1)]).space
    terms = Terms(space, all_terms(2, space))
    z = np.array([3.0, 4.0])
    np.testing.assert_allclose(
        rooted(terms, z, np.full(2, 0.1)), z / 5 * poisson_root(np.array([5.0]), np.array([0.1]))
    )


def test_what_the_fields_explain_does_not_speak_through_couplings():
    """A coupling whose gradient is all that of its members' fields has none of its own; an active one keeps it."""
    space = Space.of((-1, 1), 3)
    p = [np.full(2, 0.5)] * 3
    parameters = Parameters(space, all_terms(2, space), "free", p)
    with_own = sparse.csr_array(np.array([[0.2, 0.3, 0.0], [0.0, 0.0, 0.0], [0.0, 0.5, 0.1]]) * 50.0)
    own = np.array([4.0, -2.0, 1.0])
    # K_own = 100: adjusting the fields by g/100 takes (K_μ,own g_own)/100 from each coupling
    gradient = np.r_[own, with_own @ own / 100.0 + [0.0, 3.0, 0.0]]
    diagonal = np.full(6, 100.0)

    def curvature(active):
        return Curvature(np.diag(diagonal[: 3 + active.sum()]), diagonal, with_own)

    here = Expansion(np.zeros(6), gradient, 1e9, curvature, parameters, 0.0)
    origin = Origin.of("mean", parameters)
    alone = here.quadratic(origin, np.zeros(3, dtype=bool))
    np.testing.assert_allclose(alone.b[3:], [0.0, 3.0, 0.0], atol=1e-3)
    np.testing.assert_allclose(here.quadratic(origin, np.ones(3, dtype=bool)).b, gradient)


def test_curvature_over_all_rows_is_that_of_the_matrix():
    X = datasets.load_planted_survey().data.dropna().iloc[:400]
    samples = Samples.check(X)
    moments = Moments.from_samples(samples, order=3)
    parameters = Parameters(moments.standard.space, all_terms(2, moments.space), "free", moments.frequencies)
    composite = pseudolikelihood.prepare(samples, parameters).composite
    theta = parameters.independent() + 0.05 * np.random.default_rng(0).normal(size=parameters.n_params)
    H, n_own = hessian(composite, theta), parameters.n_own
    diagonal, cross = diagonal_and_own(composite, theta)
    np.testing.assert_allclose(diagonal, np.diag(H), rtol=1e-9)
    # of a coupling and the fields of its members; other functions of the same variable are left out
    known = cross.toarray() != 0
    np.testing.assert_allclose(cross.toarray()[known], H[n_own:, :n_own][known], atol=1e-9)
    assert known.sum() == sum(k * len(parameters.columns.block(k)) for k in parameters.columns.orders)


def test_the_busiest_variables_hold_few_couplings():
    columns = all_terms(3, Space.of((-1, 1), 30))
    active = np.ones(len(columns), dtype=bool)
    among = _among_the_busiest(columns, active, np.arange(30))
    assert 100 < among.sum() <= 800
    assert not among.all()


# ---------------------------------------------------------------------- whole fits


def sparse_truth(seed, n=10, strength=0.4):
    rng = np.random.default_rng(seed)
    pairs, triplets = list(combinations(range(n), 2)), list(combinations(range(n), 3))
    chosen = [pairs[i] for i in rng.choice(len(pairs), 6, False)] + [
        triplets[i] for i in rng.choice(len(triplets), 3, False)
    ]
    return BoltzmannMachine(rng.normal(0, 0.3, n), {mu: strength * rng.choice([-1, 1]) for mu in chosen})


def divergence(truth, est):
    p, q = StateTable(truth).p.ravel(), StateTable(est.model_).p.ravel()
    return float(p @ np.log(p / q))


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
def test_sparse_truth_is_found_and_noise_shrunk(refine):
    truth = sparse_truth(31)
    X = sample(truth, 2000, random_state=32)
    est = HBM(order=3, refine=refine).fit(X)
    gaussian = HBM(order=3, refine=refine, alpha=[15.0, 60.0]).fit(X)
    assert divergence(truth, est) < 0.5 * divergence(truth, gaussian)
    weights = dict(zip(truth.interactions, truth.weights))
    J = np.array([weights.get(mu, 0.0) for mu in est.interactions_])
    low, high = est.confidence_intervals().T
    assert ((low <= J) & (high >= J))[J != 0].sum() >= 8  # of 9
    assert ((low <= J) & (high >= J))[J == 0].mean() > 0.97
    assert np.median((high - low)[J == 0]) < 0.5 * np.median((high - low)[J != 0])
    assert est.to_frame()["sign_rate"][J != 0].max() < 0.01


def test_the_evidence_chooses_the_order():
    X = sample(sparse_truth(41), 2000, random_state=42)
    assert HBM().fit(X).order_ == 3
    pairs = BoltzmannMachine(np.zeros(10), {(i, i + 1): 0.4 for i in range(9)})
    est = HBM().fit(sample(pairs, 2000, random_state=43))
    assert est.order_ == 2
    assert set(est.evidence_) == {1, 2}
    assert est.evidence_[2] > 100
    assert HBM(order=3).fit(sample(pairs, 2000, random_state=43)).order_ == 3


def test_an_order_must_bring_what_it_is_worth():
    assert orders.beliefs({1: 0.0, 2: 5.0}) == {}
    assert orders.beliefs({1: 0.0, 2: 5.0, 3: 5.0 + orders.WORTH}) == pytest.approx({3: 0.5})
    assert orders.beliefs({1: 0.0, 2: 5.0, 3: 5.0})[3] == pytest.approx(1 / (1 + np.exp(3.0)))
    # a higher order speaks for the lower ones, which it contains
    even = {1: 0.0, 2: 0.0, 3: orders.WORTH, 4: 2 * orders.WORTH}
    assert orders.beliefs(even) == pytest.approx({3: 2 / 3, 4: 1 / 3})
    assert orders.beliefs({1: 0.0, 2: 0.0, 3: 0.0, 4: 900.0}) == {3: 1.0, 4: 1.0}


def chain_rows(seed=43):
    return sample(BoltzmannMachine(np.zeros(10), {(i, i + 1): 0.4 for i in range(9)}), 2000, random_state=seed)


def test_an_order_that_nothing_speaks_for_costs_nothing():
    """Pairs are those of order 2; triplets are zero, and their intervals still reach over what the data say."""
    X = chain_rows()
    pairs, both = HBM(order=2).fit(X), HBM(order=3).fit(X)
    sites = both.result_.effect_marginals.sites
    assert sites.belief[3] < 0.1
    np.testing.assert_allclose(both.evidence_[2], pairs.evidence_[2], atol=0.5)
    error = pairs.effect_errors_
    assert np.abs(both.effects_[:45] - pairs.effects_).max() < 0.25 * np.median(error)
    assert np.abs(both.effects_[45:]).max() < 0.15 / np.sqrt(len(X))
    # the three largest triplets stand out by two errors and more
    r, s = sites.rho[45:] / sites.precision[45:], 1 / np.sqrt(sites.precision[45:])
    top = np.argsort(-np.abs(r / s))[:3]
    low, high = both.effect_intervals()[45:][top].T
    assert np.all(np.maximum(high, -low) > np.abs(r[top]) + 1.9 * s[top])
    assert np.median(np.ptp(both.effect_intervals()[45:], axis=1) / s) > 2.0
    assert both.to_frame()["sign_rate"][45:].min() > 0.3


def test_chosen_sets_are_not_in_doubt():
    X = chain_rows()
    whole = HBM(order=3).fit(X)
    loose = 45 + int(np.argmax(np.abs(whole.tests_.z[45:])))
    chosen = [*whole.interactions_[:45], whole.interactions_[loose]]
    est = HBM(interactions=chosen).fit(X)
    assert not est.result_.effect_marginals.sites.belief
    assert abs(est.effects_[-1]) > 3 * abs(whole.effects_[loose])
    strong = HBM(order=3).fit(sample(sparse_truth(41), 2000, random_state=42))
    assert not strong.result_.effect_marginals.sites.belief


def test_a_given_prior_is_gaussian():
    est = HBM(order=2, alpha=1.0).fit(sample(sparse_truth(5), 500, random_state=6))
    assert est.origin_ is None
    assert est.evidence_ == {}
    low, high = est.effect_intervals().T
    np.testing.assert_allclose(high - est.effects_, est.effects_ - low)


@pytest.mark.parametrize("n_samples", [500, 5000])
def test_rare_events_make_no_effects(n_samples):
    """Independent spikes: thousands of patterns that never occur, or once where a thousandth was expected."""
    rng = np.random.default_rng(n_samples)
    X = (rng.random((n_samples, 24)) < rng.uniform(0.01, 0.05, 24)).astype(int)
    X = X[:, X.sum(axis=0) > 2]
    est = HBM(order=3, refine="pseudolikelihood").fit(X)
    assert np.isfinite(est.effects_).all()
    assert np.abs(est.effects_).max() < 6 / np.sqrt(n_samples)
    assert est.evidence_[3] - est.evidence_[2] < 3.0
    assert np.abs(est.tests_.z).max() < 6
    assert est.tests_.q_values.min() > 0.01


def frozen():
    """Strong couplings and few rows: a model (one of twenty) whose likelihood no quadratic follows."""
    model = datasets.make_random(12, {2: 1 / 12**0.5, 3: 1 / 12}, 0.1, random_state=[12, 100])
    return model, sample(model, 1000, "exact", random_state=[12, 1000])


def test_where_no_expansion_holds_a_gaussian_prior_stands_in_and_says_so():
    model, X = frozen()
    with pytest.warns(UserWarning, match="no mixture of scales could be learnt"):
        est = HBM(order=3).fit(X)
    assert est.origin_ is None
    assert np.sum((est.weights_ - model.weights) ** 2) < 10  # 87 from the first expansion


def test_a_mean_that_still_moves_has_not_settled(monkeypatch):
    X = sample(sparse_truth(31), 2000, random_state=32)
    settled = HBM(order=3).fit(X).result_.effect_marginals.sites.residual
    assert settled < 0.02
    monkeypatch.setattr("hbm_learn.inversion.shrinkage.learn.MAX_ROUNDS", 1)
    monkeypatch.setattr("hbm_learn.inversion.shrinkage.learn.STAYS", 0.0)
    assert HBM(order=3).fit(X).result_.effect_marginals.sites.residual > settled


def test_sites_stand_out_where_the_data_have_a_say():
    sites = begin(spin_terms(3), mixture.scales(1e4), np.array([0.5, 0.0, 0.0]), np.full(3, 1e-4))
    assert sites.stands_out().tolist() == [True, False, False]
    assert expectation.STRONG > 1
