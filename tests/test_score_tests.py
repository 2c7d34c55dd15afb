"""Node-wise score tests: algebra against dense NumPy, tails against exact ones, levels against independent data."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy import optimize, stats

from hbm_learn import BoltzmannMachine, Interactions, Interval, Nominal, sample
from hbm_learn._kernels import score
from hbm_learn.assessment import drop, nested, two_values
from hbm_learn.assessment.forecast import Forecast
from hbm_learn.assessment.node_data import DistinctRows, NodeData
from hbm_learn.assessment.nodes import Node, fit_nodes
from hbm_learn.assessment.score_tests import add_tests, drop_at_best, drop_tests, glance_at_best, spread_site
from hbm_learn.data.samples import Samples
from hbm_learn.terms import Terms, all_terms, closure, columns_of

LEVEL = 0.05


def considered(samples: Samples, order: int) -> Terms:
    return Terms(samples.space, all_terms(order, samples.space))


def of_order(order: int, n: int) -> Interactions:
    return Interactions.from_blocks([Interactions.upto(order, n).block(order)], n)


def sparse_table(seed: int, n: int, M: int, low: float, high: float) -> np.ndarray:
    """Independent 0/1 columns with log-uniform rates, each seen at least once."""
    rng = np.random.default_rng([7301, seed, n, M])
    X = (rng.random((M, n)) < np.exp(rng.uniform(np.log(low), np.log(high), n))).astype(int)
    for i in np.flatnonzero(X.sum(axis=0) == 0):
        X[rng.integers(M), i] = 1
    return X


def spins(M: int = 2000, seed: int = 0, J: dict | None = None, n: int = 6, alphabet=(-1, 1)) -> np.ndarray:
    J = {(0, 1): 0.3, (2, 3): -0.3, (0, 2, 4): 0.15} if J is None else J
    h = np.random.default_rng(1).normal(0, 0.2, n)
    return sample(BoltzmannMachine(h, J, alphabet=alphabet), M, method="exact", random_state=seed)


# ---------------------------------------------------------------------- kernels


@pytest.fixture(scope="module")
def rows():
    """η, h (o, R), functions O (q, o), codes and weights of a variable with four values."""
    rng = np.random.default_rng(3)
    O = rng.normal(size=(4, 2))
    eta, h = rng.normal(size=(2, 50)), rng.normal(size=(2, 50))
    return eta, h, O, rng.integers(0, 4, 50), rng.integers(1, 4, 50).astype(float)


def family(eta, h, O):
    """p (R, q) and φ (R, q)."""
    p = np.exp(eta.T @ O.T)
    p /= p.sum(axis=1, keepdims=True)
    phi = h.T @ O.T
    return p, phi - (p * phi).sum(axis=1, keepdims=True)


def test_kernels_agree_with_numpy(rows):
    eta, h, O, x, w = rows
    p, phi = family(eta, h, O)
    mean = p @ O
    C = np.einsum("rv,vk,vl->klr", p, O, O) - np.einsum("rk,rl->klr", mean, mean)
    residual = np.empty((1, 2, 50))
    loglik = score.residuals(eta[None], O, x, w, residual)
    assert loglik[0] == pytest.approx(w @ np.log(p[np.arange(50), x]), rel=1e-12)
    np.testing.assert_allclose(residual[0], (w[:, None] * (O[x] - mean)).T, atol=1e-12)
    out = np.empty((2, 2, 50))
    score.covariances(eta, O, w, out)
    np.testing.assert_allclose(out, C * w, atol=1e-12)
    product_ = np.empty((1, 2, 50))
    score.covariance_products(eta[None], h[None], O, w, product_)
    np.testing.assert_allclose(product_[0], np.einsum("klr,lr->kr", C * w, h), atol=1e-12)
    z, S, V = score.tail(eta, h, O, x, w, np.inf)
    assert (pytest.approx(w @ phi[np.arange(50), x]), pytest.approx(np.einsum("r,rv,rv->", w, p, phi**2))) == (S, V)
    assert z == pytest.approx(S / np.sqrt(V))


def test_two_values_take_the_same_path():
    rng = np.random.default_rng(0)
    eta, O, x, w = rng.normal(size=(1, 1, 30)), np.array([[-0.3], [2.5]]), rng.integers(0, 2, 30), np.ones(30)
    three = np.concatenate([O, [[1.0]]])
    one, other = np.empty_like(eta), np.empty_like(eta)
    p = np.exp(eta[0].T * O.T)
    p /= p.sum(axis=1, keepdims=True)
    value = score.residuals(eta, O, x, w, one)
    assert value[0] == pytest.approx(np.log(p[np.arange(30), x]).sum())
    np.testing.assert_allclose(one[0, 0], O[x, 0] - p @ O[:, 0], atol=1e-13)
    score.residuals(eta, three, x, w, other)
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("rate", [0.002, 0.3, 0.998])
@pytest.mark.parametrize("reach", [0.05, 1.0])
def test_whole_arrays_of_two_values_agree_with_row_by_row(rate, reach):
    rng = np.random.default_rng([61, int(1000 * rate)])
    R, O, w = 3000, np.array([[-0.4], [2.1]]), rng.integers(1, 4, 3000).astype(float)
    eta, h = rng.normal(np.log(rate / (1 - rate)) / 2.5, 0.4, (1, R)), rng.exponential(reach, (1, R))
    p = family(eta, h, O)[0][:, 1]
    seen = 0
    for shift in (1.0, 5.0, 0.3):
        x = (rng.random(R) < np.clip(shift * p, 0, 1)).astype(np.uint8)
        expected, found = np.empty((1, 1, R)), np.empty((1, 1, R))
        value = score.residuals(eta[None], O, x, w, expected)
        residual, probability = two_values.residuals(eta, 2.5, np.where(x == 1, 1.0, -1.0), w)
        np.testing.assert_allclose(residual, expected[0], rtol=1e-9)
        assert np.log(probability[0]) @ w == pytest.approx(value[0], rel=1e-12)
        score.covariances(eta, O, w, found)
        np.testing.assert_allclose(two_values.variances(eta[0], 2.5, w), found[0, 0], rtol=1e-9)
        one, other = score.tail(eta, h, O, x, w, 2.0), two_values.tail(eta[0], h[0], O, x, w, 2.0)
        np.testing.assert_allclose(other, one, rtol=1e-7)
        seen += abs(one[0]) > 2
    assert seen >= 1


def test_products_of_columns():
    rng = np.random.default_rng(4)
    Y, rows = rng.normal(size=(6, 50)), rng.integers(0, 6, (8, 3))
    out = np.empty((8, 20))
    score.products(Y, rows, 10, out)
    np.testing.assert_allclose(out, Y[rows, 10:30].prod(axis=1))
    residual, C = rng.normal(size=20), rng.random(20)
    S, raw = np.ones(8), np.zeros(8)
    score.weighted_sums(out, residual, C, S, raw)
    np.testing.assert_allclose(S, 1.0 + out @ residual)
    np.testing.assert_allclose(raw, out**2 @ C)


def exact_mid_p(p: np.ndarray, phi: np.ndarray, S: float) -> float:
    """P(S' ≥ S) less half of P(S' = S), over all outcomes of a few rows."""
    outcomes = list(product(range(p.shape[1]), repeat=len(p)))
    index = np.arange(len(p))
    mass = np.array([p[index, v].prod() for v in outcomes])
    total = np.array([phi[index, v].sum() for v in outcomes])
    return float(mass[total > S + 1e-9].sum() + 0.5 * mass[np.abs(total - S) <= 1e-9].sum())


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("rate", [0.03, 0.2, 0.5])
def test_tails_of_sums_are_those_of_all_outcomes(rate, sign):
    """z against exact mid-p of binomial scores, both tails, up to the edge of the support."""
    R, O = 12, np.array([[0.0], [1.0]])
    eta, h, w = np.full((1, R), np.log(rate / (1 - rate))), np.full((1, R), sign), np.ones(R)
    for count in range(R + 1):
        x = (np.arange(R) < count).astype(int)
        z, S, V = score.tail(eta, h, O, x, w, 2.0)
        z0 = S / np.sqrt(V)
        assert np.sign(z) == np.sign(sign * (count - rate * R))
        if abs(z0) <= 2.0:
            assert z == pytest.approx(z0)
            continue
        upper = stats.binom.sf(count, R, rate) + 0.5 * stats.binom.pmf(count, R, rate)
        lower = stats.binom.cdf(count - 1, R, rate) + 0.5 * stats.binom.pmf(count, R, rate)
        expected = stats.norm.isf(upper if count > rate * R else lower)
        assert abs(z) == pytest.approx(expected, abs=0.15)


def test_tails_of_unequal_rows_and_several_values():
    rng = np.random.default_rng(5)
    O = np.array([[0.0, 1.0], [0.5, 0.0], [1.0, 0.7]])
    eta, h, w = rng.normal(-1, 1, (2, 9)), rng.normal(0, 1, (2, 9)), np.ones(9)
    p, phi = family(eta, h, O)
    seen = 0
    for x in (phi.argmax(axis=1), np.where(rng.random(9) < 0.8, phi.argmax(axis=1), 0), phi.argmin(axis=1)):
        z, S, V = score.tail(eta, h, O, x, w, 2.0)
        if abs(S) / np.sqrt(V) > 2.0:
            p_one = exact_mid_p(p, np.sign(S) * phi, abs(S))
            assert abs(z) == pytest.approx(stats.norm.isf(p_one), abs=0.15)
            seen += 1
    assert seen >= 2


def test_small_rows_enter_through_their_cumulants():
    """Many rows of little reach beside a few of much: the same K as with every row by itself."""
    rng = np.random.default_rng(8)
    R, O = 4000, np.array([[0.0], [1.0]])
    eta, w = rng.normal(-3, 0.5, (1, R)), np.ones(R)
    h = np.where(rng.random((1, R)) < 0.01, 1.0, rng.exponential(0.04, (1, R)))
    p, phi = family(eta, h, O)
    x = (rng.random(R) < p[:, 1] * np.where(h[0] == 1.0, 6, 1)).astype(int)

    def K(t: float) -> float:
        return float(np.log((p * np.exp(t * phi)).sum(axis=1)).sum())

    z, S, _ = score.tail(eta, h, O, x, w, 2.0)
    t = optimize.minimize_scalar(lambda t: K(t) - t * S, bounds=(0, 20), method="bounded", options={"xatol": 1e-9}).x
    tilted = p * np.exp(t * phi)
    tilted /= tilted.sum(axis=1, keepdims=True)
    K2 = ((tilted * phi**2).sum(axis=1) - (tilted * phi).sum(axis=1) ** 2).sum()
    root = np.sqrt(2 * (t * S - K(t)))
    assert S > 0
    assert z == pytest.approx(root + np.log(t * np.sqrt(K2) / root) / root, abs=1e-4)


# ---------------------------------------------------------------------- nodes


def mixed_table() -> tuple[np.ndarray, list]:
    rng = np.random.default_rng(2)
    alphabets = [(-1, 1), Nominal("a", "b", "c"), (1, 2, 3, 4, 5), (0, 1)]
    columns = [rng.choice(np.array(v, dtype=object), 300) for v in ([-1, 1], ["a", "b", "c"], [1, 2, 3, 4, 5], [0, 1])]
    columns[3] = np.where(columns[0] == 1, columns[3], 0)
    out = np.empty((300, 4), dtype=object)
    for i, column in enumerate(columns):
        out[:, i] = column
    return out, alphabets


@pytest.mark.parametrize("site", range(4))
def test_nodes_are_fitted(site):
    samples = Samples.check(*mixed_table())
    data = NodeData(samples)
    model = all_terms(3, samples.space)
    node = Node(data, site, model).fit()
    gradient = node.value_gradient(node.theta[None])[1][0] - node.ridge * node.theta
    assert np.abs(gradient).max() < 1e-3
    step = 1e-5 * np.eye(len(node.theta))
    numeric = (node.value_gradient(node.theta - step)[1] - node.value_gradient(node.theta + step)[1]) / 2e-5
    np.testing.assert_allclose(node.H, numeric + np.diag(node.ridge), atol=1e-4 * np.abs(node.H).max())


@pytest.mark.parametrize("site", range(4))
def test_a_start_from_another_model_changes_nothing(site):
    samples = Samples.check(*mixed_table())
    data = NodeData(samples)
    small, large = all_terms(2, samples.space), all_terms(3, samples.space)
    for model, other in ((small, large), (large, small)):
        cold = Node(data, site, model).fit()
        warm = Node(data, site, model)
        start = warm.theta.copy()
        warm.fit(Node(data, site, other).fit())
        assert np.abs(cold.theta - start).max() > 1e-3
        scale = np.sqrt(np.diag(cold.inverse))
        assert np.abs((warm.theta - cold.theta) / scale).max() < 1e-5
        np.testing.assert_allclose(warm.H, cold.H, atol=1e-5 * np.abs(cold.H).max())


def test_distinct_rows_count_every_row():
    X = spins(500)
    rows = DistinctRows.of(Samples.check(X))
    codes, weights = rows.codes, rows.weights
    expected = np.unique(X, axis=0, return_counts=True)[1]
    assert weights.sum() == 500
    assert sorted(weights) == sorted(expected)
    assert len(np.unique(codes, axis=0)) == len(codes)


# ---------------------------------------------------------------------- against dense algebra and refits


def logistic_score(y: np.ndarray, Phi: np.ndarray, g: np.ndarray, ridge: np.ndarray) -> float:
    """z₀ of adding g to a logistic regression, row by row in NumPy."""
    theta = np.zeros(Phi.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-Phi @ theta))
        H = (Phi.T * (p * (1 - p))) @ Phi + np.diag(ridge)
        theta = theta + np.linalg.solve(H, Phi.T @ (y - p) - ridge * theta)
    W = p * (1 - p)
    residual = g - Phi @ np.linalg.solve(H, Phi.T @ (W * g))
    return float(residual @ (y - p) / np.sqrt(residual**2 @ W))


def test_add_tests_are_efficient_scores():
    X = spins(800, J={(0, 1): 0.5, (1, 2): 0.4, (0, 2): 0.3, (3, 4): 0.2}, n=5)
    samples = Samples.check(X)
    found = add_tests(samples, Interactions.upto(2, 5), of_order(3, 5))
    u = (X - X.mean(axis=0)) / X.std(axis=0)
    extent = np.ptp(u, axis=0)
    matched = 0
    for mu, z in zip(found.terms.tuples, found.z):
        each = []
        for a in mu:
            others = [i for i in range(5) if i != a]
            Phi = np.column_stack([np.ones(len(u)), u[:, others]])
            # a logistic coefficient is the coupling times the distance of the node's two values
            ridge = np.concatenate([[0.0], (extent[others] / 3.0) ** 2])
            g = np.prod(u[:, [i for i in mu if i != a]], axis=1)
            each.append(np.sqrt(1.0 - 5 / 800) * logistic_score((X[:, a] > 0).astype(float), Phi, g, ridge))
        if np.abs(each).max() < 2.0:
            assert np.min(np.abs(np.array(each) - z)) < 1e-4
            matched += 1
    assert matched >= 7


def test_add_tests_agree_with_likelihood_ratios():
    X = spins(3000, J={(0, 1): 0.3, (0, 2, 4): 0.12, (1, 3, 5): -0.1})
    data = NodeData(Samples.check(X))
    pairs = Interactions.upto(2, 6)
    found = add_tests(data, pairs, of_order(3, 6))
    for mu, z in zip(found.terms.tuples, found.z):
        model = Interactions.from_tuples([*pairs.tuples, mu], 6)
        roots = []
        for a in mu:
            without, node = Node(data, a, pairs).fit(), Node(data, a, model).fit()
            gain = node.value_gradient(node.theta[None])[0][0] - without.value_gradient(without.theta[None])[0][0]
            sign = np.sign(node.theta[node.interaction == len(model) - len(model.block(3))][0])
            roots.append(sign * np.sqrt(2 * max(gain, 0.0)))
        assert np.min(np.abs(np.array(roots) - z)) < 0.05 + 0.02 * abs(z)
    z = dict(zip(found.terms.tuples, found.z))
    assert z[0, 2, 4] > 4
    assert z[1, 3, 5] < -4


TABLES = {
    "spins": lambda: (spins(600), (-1, 1)),
    "ratings": lambda: (np.random.default_rng(0).binomial(4, 0.4, (400, 5)) + 1, (1, 2, 3, 4, 5)),
    "rare": lambda: (sparse_table(165, 8, 500, 0.005, 0.05), (0, 1)),
    "mixed": mixed_table,
}


@pytest.mark.parametrize("table", TABLES)
def test_drop_tests_agree_with_refits(table, monkeypatch):
    """One chord step, or a refit where that is not enough, against refits of every null."""
    X, alphabet = TABLES[table]()
    data = NodeData(Samples.check(X, alphabet))
    model = all_terms(2, data.space)
    found = drop_tests(data, model)
    monkeypatch.setattr(drop, "GAIN", -1.0)
    exact = drop_tests(data, model)
    assert np.abs(found.z - exact.z).max() < 0.05
    assert np.abs(exact.z).max() > 1.5


def test_separated_values_are_fitted_again():
    """Three events, all together with another's 37 of 500: exact tests give 3.6, one chord step 5.4, Wald 3.0."""
    rng = np.random.default_rng(11)
    X = (rng.random((500, 5)) < 0.03).astype(int)
    X[:, 0] = np.arange(500) < 37
    X[:, 1] = np.arange(500) < 3
    found = drop_tests(Samples.check(X), Interactions.upto(2, 5))
    mid_p = 0.5 * stats.hypergeom.pmf(3, 500, 37, 3)
    assert dict(zip(found.terms.tuples, found.z))[0, 1] == pytest.approx(stats.norm.isf(mid_p), abs=0.4)


def test_rare_coincidences_have_the_tails_of_exact_tests():
    """Pairs of a 2 × 2 table against the hypergeometric distribution, mid-p."""
    for M, first, second, both in ((2000, 20, 20, 3), (2000, 40, 30, 0), (1000, 10, 100, 6), (5000, 30, 30, 2)):
        X = np.zeros((M, 2), dtype=int)
        X[:first, 0] = 1
        X[first - both : first - both + second, 1] = 1
        z = float(drop_tests(Samples.check(X), Interactions.upto(2, 2)).z[0])
        h = stats.hypergeom(M, first, second)
        mean = first * second / M
        p = (h.sf(both) if both > mean else h.cdf(both - 1)) + 0.5 * h.pmf(both)
        assert np.sign(z) == np.sign(both - mean)
        assert abs(z) == pytest.approx(stats.norm.isf(p), abs=0.25)


def test_tests_of_order_four_hold_their_own_triplets():
    """One step towards sub-triplets that the model lacks, against a model that has them."""
    J = {(0, 1): 0.3, (0, 1, 2): 0.15, (1, 2, 3): 0.1, (0, 1, 2, 3): 0.12}
    X = spins(3000, J=J, n=5)
    data = NodeData(Samples.check(X))
    four = of_order(4, 5)
    one_step = add_tests(data, Interactions.upto(2, 5), four)
    fitted = add_tests(data, Interactions.upto(3, 5), four)
    np.testing.assert_allclose(one_step.z, fitted.z, atol=0.6)
    assert one_step.z[0] > 4


# ---------------------------------------------------------------------- invariance


def recoded(X: np.ndarray) -> np.ndarray:
    """Every column in other units, some with their sign changed."""
    scale = np.array([2.0, -1.0, 0.5, 100.0, -3.0, 1.0])[: X.shape[1]]
    return X * scale + np.arange(X.shape[1])


@pytest.mark.parametrize("values", [(-1, 1), (0, 1), (1, 2, 3, 4, 5), (-1, 0, 1)])
def test_recoding_changes_signs_only(values):
    X = spins(600, J={(0, 1): 0.1, (2, 3, 4): 0.03}, alphabet=values)
    flips = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0])
    one, other = Samples.check(X), Samples.check(recoded(X))
    a, b = nested.select(one, considered(one, 3), LEVEL)[1], nested.select(other, considered(other, 3), LEVEL)[1]
    signs = np.array([flips[list(mu)].prod() for mu in a.terms.tuples])
    np.testing.assert_allclose(b.z, signs * a.z, atol=1e-6)
    np.testing.assert_allclose(b.q_values, a.q_values, atol=1e-6)


def test_labels_may_come_in_any_order():
    X, _ = mixed_table()
    rng = np.random.default_rng(0)
    X[:, 1] = np.where(rng.random(300) < 0.5, np.where(X[:, 0] == 1, "a", "c"), X[:, 1])
    results = []
    for labels in (("a", "b", "c"), ("c", "a", "b")):
        samples = Samples.check(X, [(-1, 1), Nominal(*labels), (1, 2, 3, 4, 5), (0, 1)])
        results.append(nested.select(samples, considered(samples, 3), LEVEL)[1])
    np.testing.assert_allclose(results[0].z, results[1].z, atol=1e-5)
    assert results[0].z[results[0].terms.tuples.index((0, 1))] > 6
    assert (results[0].df[results[0].terms.order == 2] == [2, 1, 1, 2, 2, 1]).all()


def test_weights_count_rows():
    X = spins(400)
    weights = np.random.default_rng(0).integers(0, 4, 400)
    one = Samples.check(X, sample_weight=weights)
    other = Samples.check(np.repeat(X, weights, axis=0))
    a, b = nested.select(one, considered(one, 3), LEVEL)[1], nested.select(other, considered(other, 3), LEVEL)[1]
    np.testing.assert_allclose(a.z, b.z, atol=1e-8)


def test_nothing_depends_on_threads():
    samples = Samples.check(spins(1000))
    results = [nested.select(samples, considered(samples, 3), LEVEL, n_jobs=n_jobs)[1] for n_jobs in (1, 2)]
    np.testing.assert_array_equal(results[0].z, results[1].z)


def test_variables_may_come_in_any_order():
    X = spins(1000)
    order = np.array([3, 0, 5, 1, 4, 2])
    one, other = Samples.check(X), Samples.check(X[:, order])
    a, b = nested.select(one, considered(one, 3), LEVEL)[1], nested.select(other, considered(other, 3), LEVEL)[1]
    z = dict(zip(a.terms.tuples, a.z))
    expected = [z[tuple(sorted(order[list(mu)].tolist()))] for mu in b.terms.tuples]
    np.testing.assert_allclose(b.z, expected, atol=1e-6)


# ---------------------------------------------------------------------- what cannot be tested


def test_what_has_no_variance_is_not_tested():
    """x_0 x_1 of a column and its copy is constant: no evidence for or against a triplet with both."""
    X = spins(500, n=4, J={(0, 2): 0.3})
    X[:, 1] = X[:, 0]
    found = add_tests(Samples.check(X), Interactions.upto(2, 4), of_order(3, 4))
    z, df = dict(zip(found.terms.tuples, found.z)), dict(zip(found.terms.tuples, found.df))
    p = dict(zip(found.terms.tuples, found.p_values))
    assert (z[0, 1, 2], df[0, 1, 2], p[0, 1, 2]) == (0.0, 0, 1.0)
    assert np.isfinite(found.z).all()


@pytest.mark.parametrize("M", [20, 200])
def test_no_deviate_exceeds_what_the_rows_allow(M):
    """A copy of a fair column: half of 2^−M is the probability of the data."""
    X = spins(M, n=4, J={(2, 3): 0.1})
    X[:, 1] = X[:, 0]
    z = drop_tests(Samples.check(X), Interactions.upto(2, 4)).z
    assert np.abs(z).max() <= np.sqrt(2 * M * np.log(2))
    assert z[0] > 0.6 * np.sqrt(2 * M * np.log(2))


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="finite alphabets"):
        NodeData(Samples.check(np.random.default_rng(0).random((50, 3)), Interval(0, 1)))
    with pytest.raises(ValueError, match="missing"):
        NodeData(Samples.check([[0, 1], [1, np.nan], [1, 0]], allow_nan=True))
    samples = Samples.check(spins(100))
    with pytest.raises(ValueError, match="add_tests"):
        drop_tests(samples, Interactions.upto(2, 6), of_order(3, 6))
    with pytest.raises(ValueError, match="fdr"):
        nested.select(samples, considered(samples, 2), 1.5)


# ---------------------------------------------------------------------- nested selection


def test_every_candidate_is_a_hypothesis():
    samples = Samples.check(spins(1500))
    terms = considered(samples, 3)
    found = nested.select(samples, terms, LEVEL)[1]
    assert found.terms is terms
    assert len(found.z) == len(terms)
    for k, count in ((2, 15), (3, 20)):
        p, q = found.p_values[found.terms.order == k], found.q_values[found.terms.order == k]
        ranked = np.sort(p) * count / np.arange(1, count + 1)
        expected = np.minimum.accumulate(ranked[::-1])[::-1]
        np.testing.assert_allclose(np.sort(q), np.minimum(expected, 1.0), atol=1e-12)
    np.testing.assert_allclose(
        found.p_values[found.df == 1], 2 * stats.norm.sf(np.abs(found.z[found.df == 1])), rtol=1e-6
    )


def test_planted_terms_are_found_and_closed():
    J = {(0, 1): 0.4, (2, 3): -0.3, (0, 2, 4): 0.2, (1, 3, 5): -0.2, (6, 7): 0.25}
    X = spins(4000, J=J, n=8)
    samples = Samples.check(X)
    chosen, found = nested.select(samples, considered(samples, 3), LEVEL)
    assert closure(chosen, samples.space) == chosen
    z = dict(zip(found.terms.tuples, found.z))
    assert set(J) <= set(chosen.tuples)
    assert all(np.sign(z[mu]) == np.sign(weight) and abs(z[mu]) > 4 for mu, weight in J.items())
    assert len([mu for mu in chosen.tuples if len(mu) == 3]) <= 3
    passing = [mu for mu, q in zip(found.terms.tuples, found.q_values) if q <= LEVEL]
    assert closure(columns_of(passing, samples.space), samples.space) == chosen


def test_shadows_of_triplets_are_no_triplets():
    """Strong overlapping triplets and pairs: what follows from them through the others is not added."""
    J = {(0, 1, 2): 0.35, (2, 3, 4): 0.35, (0, 3): 0.4, (1, 4): 0.4}
    false = 0
    for seed in range(6):
        samples = Samples.check(spins(5000, seed, J, n=7))
        chosen, _ = nested.select(samples, considered(samples, 3), LEVEL)
        triplets = {mu for mu in chosen.tuples if len(mu) == 3}
        assert {(0, 1, 2), (2, 3, 4)} <= triplets
        false += len(triplets) - 2
    assert false <= 2


def test_one_of_two_that_say_the_same_is_kept():
    """Each of two triplets explains the other away, as a variable is nearly a copy of another: one is kept."""
    X = spins(1500, J={(0, 1, 2): 0.25, (3, 4): 0.3})
    copied = np.random.default_rng(0).random(len(X)) < 0.985
    X[:, 5] = np.where(copied, X[:, 2], X[:, 5])
    samples = Samples.check(X)
    chosen, _ = nested.select(samples, considered(samples, 3), LEVEL)
    assert len({(0, 1, 2), (0, 1, 5)} & set(chosen.tuples)) == 1
    model = closure(columns_of([(0, 1, 2), (0, 1, 5)], samples.space), samples.space)
    both = Interactions.from_tuples([*Interactions.upto(2, 6).tuples, *model.tuples], 6)
    assert drop_tests(samples, both, Interactions.from_tuples([(0, 1, 2), (0, 1, 5)], 6)).p_values.min() > 0.01


def with_shadows(rng) -> np.ndarray:
    """Copies of variables make shadows of triplets, which are dropped in several rounds."""
    X = spins(3000, J={(0, 1, 2): 0.5, (3, 4, 5): 0.15, (2, 3): 0.4}, n=9)
    for copy, source in ((6, 2), (7, 1), (8, 4)):
        X[:, copy] = np.where(rng.random(len(X)) < 0.9, X[:, source], X[:, copy])
    return X


class Refitted:
    """What ``Forecast`` foresees, by fitting the nodes again."""

    def __init__(self, nodes, terms, which, root, sites, alone=False):
        assert not alone
        self.nodes, self.terms, self.gone = nodes, terms, np.zeros(len(terms), dtype=bool)

    def drop(self, gone):
        self.gone[gone] = True
        node = next(iter(self.nodes.values()))
        absent = set(map(tuple, self.terms.select(self.gone).tuples))
        left = [mu for mu in node.model.tuples if mu not in absent]
        self.model = Interactions.from_tuples(left, node.model.n_features)
        self.refitted = fit_nodes(node.data, sorted(self.nodes), self.model)

    def root(self, which):
        return np.abs(drop_at_best(self.refitted, self.model, self.terms, which)[0]) if len(which) else np.zeros(0)


@pytest.mark.parametrize("seed", [9, 10])
def test_dropping_by_forecast_is_dropping_one_fit_after_another(monkeypatch, seed):
    samples = Samples.check(with_shadows(np.random.default_rng(seed)))
    monkeypatch.setattr(nested, "_MANY", 10**9)
    foreseen = nested.select(samples, considered(samples, 3), LEVEL)
    monkeypatch.setattr(nested, "Forecast", Refitted)
    fitted = nested.select(samples, considered(samples, 3), LEVEL)
    assert foreseen[0] == fitted[0]
    # What was dropped keeps the p-value that it had then, here as it was foreseen.
    np.testing.assert_allclose(foreseen[1].z, fitted[1].z, atol=0.15)


def test_the_forecast_of_a_statistic_is_that_of_a_new_fit():
    samples = Samples.check(with_shadows(np.random.default_rng(9)))
    search = nested._Search(NodeData(samples), considered(samples, 3))
    triplets = np.flatnonzero(search.terms.order == 3)
    search._hold(search.terms.order == 3)
    search.test(3)
    given = search.nodes, search.terms, triplets, search.root[triplets], search.site[triplets]
    forecast, again = Forecast(*given), Refitted(*given)
    np.testing.assert_allclose(forecast.root(triplets), np.abs(search.root[triplets]))
    for gone in (triplets[::3], triplets[1::3]):
        forecast.drop(gone)
        again.drop(gone)
        triplets = np.setdiff1d(triplets, gone)
        found, true = forecast.root(triplets), again.root(triplets)
        assert np.abs(true - np.abs(search.root[triplets])).max() > 1.0
        strong = true > 5.0  # Wald's statistic grows more slowly there
        assert np.median(np.abs(found - true)[~strong]) < 0.15
        np.testing.assert_allclose(found[~strong], true[~strong], atol=1.0)
        np.testing.assert_allclose(found[strong], true[strong], rtol=0.25)


@pytest.mark.parametrize("seed", range(5))
def test_a_look_at_many_beside_each_other_spares_most_of_them(monkeypatch, seed):
    """Nothing that stays without the look is lost by it, and every term is tested given the model in the end."""
    samples = Samples.check(with_shadows(np.random.default_rng(seed)))
    held = []
    with monkeypatch.context() as patch:
        hold = nested._Search._hold

        def noted(self, selected, rough=False):
            hold(self, selected, rough)
            held.append((int(selected.sum()), rough))

        patch.setattr(nested._Search, "_hold", noted)
        chosen, found = nested.select(samples, considered(samples, 3), LEVEL)
    assert held[0][1]
    assert held[0][0] >= nested._MANY
    assert held[1][0] < 0.7 * held[0][0]
    monkeypatch.setattr(nested, "_MANY", 10**9)
    monkeypatch.setattr(nested, "glance_at_best", lambda nodes, terms, which: np.full(len(which), 9.0))
    whole, _ = nested.select(samples, considered(samples, 3), LEVEL)
    assert {mu for mu in whole.tuples if len(mu) == 3} == {mu for mu in chosen.tuples if len(mu) == 3}
    # What was dropped keeps the p-value that it had then; all others are tested given the model at the end.
    search = nested._Search(NodeData(samples), considered(samples, 3))
    search._hold(_in(search.terms, chosen))
    search.test(3)
    triplets = search.terms.order == 3
    less = np.abs(found.z[triplets]) < np.abs(search.root[triplets]) - 1e-6
    np.testing.assert_allclose(
        found.z[triplets][~less], search.root[triplets][~less], atol=1e-5
    )  # nodes leave 1e-11 nats
    assert less.mean() < 0.4


def _in(terms: Terms, chosen: Interactions) -> np.ndarray:
    """Which triplets were chosen."""
    held = set(chosen.tuples)
    return np.array([len(mu) == 3 and mu in held for mu in terms.tuples])


def test_what_was_passed_over_at_a_glance_is_tested():
    """Nothing passes: the look finds nothing, and all have their tests nevertheless."""
    samples = Samples.check(spins(2000, J={(0, 1): 0.3}))
    tests = nested.select(samples, considered(samples, 3), 1e-6)[1]
    search = nested._Search(NodeData(samples), considered(samples, 3))
    search.test(3)
    triplets = search.terms.order == 3
    np.testing.assert_allclose(tests.z[triplets], search.root[triplets], atol=1e-10)
    assert np.count_nonzero(tests.z[triplets]) == triplets.sum()


def test_a_glance_is_the_score_without_a_projection():
    rng = np.random.default_rng(0)
    X = rng.choice(3, size=(1500, 6), p=(0.6, 0.3, 0.1)).astype(object)
    X[:, 3] = np.array(["a", "b", "c"], dtype=object)[X[:, 3].astype(int)]
    samples = Samples.check(X)
    terms = Terms(samples.space, all_terms(3, samples.space))
    search = nested._Search(NodeData(samples), terms)
    which = np.flatnonzero(search.terms.order == 3)[2:]
    seen, sites = glance_at_best(search.nodes, search.terms, which), spread_site(search.nodes, search.terms, which)
    sets, owner = search.terms.columns.tuples, search.terms.group
    for at in range(0, len(which), 3):
        node, sizes = search.nodes[sites[at]], []
        every = slice(0, len(node.weights))
        eta = node.fields(node.theta[None], node.design(every))
        C, r = node.covariance(eta[0], every), node.residuals(eta, every)[0][0]
        for mu in (sets[i] for i in np.flatnonzero(owner == which[at])):
            (k,) = (c - node.first for c in mu if samples.space.site[c] == node.site)
            g = np.prod([node.data.Y[c] for c in mu if samples.space.site[c] != node.site], axis=0)
            sizes.append(abs(g @ r[k]) / np.sqrt(g**2 @ C[k, k]))
        np.testing.assert_allclose(seen[at], max(sizes))


def test_a_test_is_not_repeated_at_a_node_that_stayed():
    """After a triplet is held, all terms as if everything was tested anew."""
    samples = Samples.check(spins(2000))
    search = nested._Search(NodeData(samples), considered(samples, 3))
    for k in (2, 3):
        search.test(k)
    chosen = np.array([mu == (0, 2, 4) for mu in search.terms.tuples])
    search._hold(chosen)
    before = search.root.copy()
    for k in (2, 3):
        search.test(k)
    kept = search.root.copy()
    assert 0 < np.count_nonzero(kept == before) < len(before)
    search.stamp[:] = search.site[:] = -1
    for k in (2, 3):
        search.test(k)
    np.testing.assert_allclose(search.root, kept, atol=1e-10)  # products of other sizes round otherwise


def test_ratings_keep_their_pairs_when_triplets_are_considered():
    J = {(i, i + 1): 0.12 for i in range(5)}
    X = spins(1500, J=J, n=6, alphabet=(1, 2, 3, 4, 5))
    samples = Samples.check(X)
    two = nested.select(samples, considered(samples, 2), LEVEL)[0]
    three = nested.select(samples, considered(samples, 3), LEVEL)[0]
    assert len(two) >= 4
    assert set(two.tuples) <= set(three.tuples)


def test_order_four_is_found():
    J = {(0, 1): 0.3, (2, 3): 0.3, (0, 1, 2, 3): 0.25, (2, 4, 5): 0.2}
    samples = Samples.check(spins(3000, J=J))
    chosen, found = nested.select(samples, considered(samples, 4), LEVEL)
    assert {(0, 1, 2, 3), (2, 4, 5)} <= set(chosen.tuples)
    assert sum(len(mu) == 4 for mu in chosen.tuples) == 1
    assert np.abs(found.z[found.terms.order == 3]).max() > 4


def test_named_interactions_are_the_only_hypotheses():
    samples = Samples.check(spins(2000))
    terms = Terms(samples.space, columns_of([(0, 1), (0, 2, 4), (1, 2, 3)], samples.space))
    chosen, found = nested.select(samples, terms, LEVEL)
    assert found.terms.tuples == [(0, 1), (0, 2, 4), (1, 2, 3)]
    assert found.q_values[1] == pytest.approx(min(1.0, 2 * found.p_values[1]))
    assert {(0, 1), (0, 2, 4), (0, 2), (2, 4)} <= set(chosen.tuples)


def test_tables_of_several_kinds(survey):
    """Labels, ratings, booleans and odd numbers: each planted interaction, and few others."""
    samples = Samples.check(survey)
    chosen, found = nested.select(samples, considered(samples, 3), LEVEL)
    q = dict(zip(found.terms.tuples, found.q_values))
    for mu in ((0, 1), (0, 2), (1, 3), (3, 5), (2, 4), (0, 1, 2), (0, 3, 5)):
        assert q[mu] <= LEVEL, mu
    assert sum(q[mu] <= LEVEL for mu in q if len(mu) == 3) <= 3
    assert closure(chosen, samples.space) == chosen


def test_powers_are_tested_given_lower_ones():
    rng = np.random.default_rng(0)
    x = rng.integers(-1, 2, (1500, 3))
    x[:, 1] = np.where(rng.random(1500) < 0.3, x[:, 0] ** 2, x[:, 1])
    samples = Samples.check(x, powers=2)
    chosen, found = nested.select(samples, considered(samples, 2), LEVEL)
    z = dict(zip(found.terms.tuples, found.z))
    assert z[0, 0, 1] > 4
    assert len(chosen) == len(closure(chosen, samples.space))


# ---------------------------------------------------------------------- levels


def deviates(tables, order: int = 3) -> tuple[np.ndarray, np.ndarray, float]:
    """|z| of pairs and triplets over tables, and the share of tables with any discovery."""
    pairs, triplets, discoveries = [], [], []
    for X in tables:
        samples = Samples.check(X)
        _, found = nested.select(samples, considered(samples, order), LEVEL)
        pairs.append(np.abs(found.z[found.terms.order == 2]))
        triplets.append(np.abs(found.z[found.terms.order == 3]))
        discoveries.append((found.q_values <= LEVEL).any())
    return np.concatenate(pairs), np.concatenate(triplets), float(np.mean(discoveries))


def within(z: np.ndarray, threshold: float, factor: float = 2.0) -> bool:
    """Whether at most ``factor`` times the nominal share, or three more than expected, exceed a threshold."""
    expected = len(z) * 2 * stats.norm.sf(threshold)
    return np.count_nonzero(z > threshold) <= max(factor * expected, expected + 3 * np.sqrt(expected) + 1)


def test_independent_spins_have_the_nominal_level():
    """Both sides: too many rejections are lies, too few are lost discoveries."""
    rng = np.random.default_rng(414)
    pairs, triplets, discoveries = deviates(rng.choice([-1, 1], (400, 10)) for _ in range(40))
    for z in (pairs, triplets):
        share = np.mean(z > 1.96)
        assert abs(share - 0.05) < 4 * np.sqrt(0.05 * 0.95 / len(z))
        assert within(z, 3.0)
    assert discoveries <= 2 * LEVEL + 2 * np.sqrt(LEVEL * 2 / 40)


def test_independent_rare_events_make_no_discoveries():
    tables = [sparse_table(s, n, 500, 0.005, 0.1) for n in (12, 22) for s in range(30)]
    pairs, triplets, discoveries = deviates(tables)
    for z in (pairs, triplets):
        assert within(z, 3.0)
        assert within(z, 4.0)
        assert z.max() < 6
    assert discoveries <= LEVEL + 2 * np.sqrt(LEVEL / 60)


def test_independent_labels_have_their_level():
    """Rare labels too: blocks of several functions."""
    p = []
    alphabets = [Nominal(*"abc"), Nominal(*"abc"), (0, 1), Nominal(*"abc")]
    for seed in range(60):
        rng = np.random.default_rng([88, seed])
        X = np.empty((400, 4), dtype=object)
        for i, rates in enumerate(((0.5, 0.3, 0.2), (0.9, 0.05, 0.05), (0.8, 0.2), (0.6, 0.3, 0.1))):
            X[:, i] = rng.choice(np.array(list("abc") if len(rates) == 3 else [0, 1], dtype=object), 400, p=rates)
        samples = Samples.check(X, alphabets)
        p.append(nested.select(samples, considered(samples, 3), LEVEL)[1].p_values)
    p = np.concatenate(p)
    assert 0.6 * 0.05 < np.mean(p < 0.05) < 1.4 * 0.05
    assert np.mean(p < 0.0027) < 0.0027 + 3 * np.sqrt(0.0027 / len(p))


# ---------------------------------------------------------------------- sweeps


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "M", "low", "high", "sets"),
    [
        (12, 500, 0.005, 0.1, 400),
        (12, 500, 0.005, 0.02, 400),
        (22, 500, 0.01, 0.0101, 200),
        (12, 2000, 0.005, 0.1, 200),
        (12, 10000, 0.005, 0.1, 100),
        (40, 1000, 0.005, 0.1, 30),
        (40, 10000, 0.01, 0.1, 20),
    ],
)
def test_independent_columns_sweep(n, M, low, high, sets):
    pairs, triplets, discoveries = deviates(sparse_table(1000 + s, n, M, low, high) for s in range(sets))
    assert discoveries <= 2 * LEVEL + 2 * np.sqrt(LEVEL * 2 / sets)
    for z in (pairs, triplets):
        assert within(z, 3.0)
        assert within(z, 4.0)
        assert z.max() < 8


def choose(rng: np.random.Generator, n: int, k: int, count: int) -> list[tuple[int, ...]]:
    subsets = list(combinations(range(n), k))
    return [subsets[r] for r in rng.choice(len(subsets), count, replace=False)]


def weights(rng, terms, low, high) -> dict:
    return {mu: float(rng.choice([-1, 1]) * rng.uniform(low, high)) for mu in terms}


def planted_spins(rng):
    J = weights(rng, choose(rng, 12, 2, 6), 0.1, 0.3) | weights(rng, choose(rng, 12, 3, 4), 0.06, 0.2)
    return BoltzmannMachine(rng.normal(0, 0.3, 12), J), 2000


def planted_sparse(rng):
    J = weights(rng, choose(rng, 12, 2, 6), 0.8, 1.6)
    J |= {mu: float(rng.uniform(1.0, 2.0)) for mu in choose(rng, 12, 3, 4)}
    return BoltzmannMachine(np.log(rng.uniform(0.05, 0.15, 12)), J, alphabet=(0, 1)), 4000


def planted_ternary(rng):
    J = weights(rng, choose(rng, 10, 2, 6), 0.1, 0.3) | weights(rng, choose(rng, 10, 3, 4), 0.15, 0.35)
    return BoltzmannMachine(rng.normal(0, 0.2, 10), J, 0.2, alphabet=(-1, 0, 1)), 2000


def planted_ratings(rng):
    """Sparse about the middle of the scale: the same model in ratings less 3 is read in ratings."""
    J = weights(rng, choose(rng, 7, 2, 6), 0.08, 0.16) | weights(rng, choose(rng, 7, 3, 3), 0.05, 0.1)
    return BoltzmannMachine(np.zeros(7), J, 0.5, alphabet=(-2, -1, 0, 1, 2)), 2000


def planted_clusters(rng):
    J = {}
    for first in (0, 5, 10):
        J |= {mu: float(rng.uniform(0.1, 0.35)) for mu in combinations(range(first, first + 5), 2)}
    J |= weights(rng, choose(rng, 15, 3, 5), 0.08, 0.2)
    return BoltzmannMachine(rng.normal(0, 0.2, 15), J), 3000


# power of pairs and triplets of selection by Wald tests of refined fits, less two standard errors of a sweep
PLANTED = {
    planted_spins: (0.95, 0.70),
    planted_sparse: (0.87, 0.50),
    planted_ternary: (0.76, 0.90),
    planted_ratings: (0.90, 0.90),
    planted_clusters: (0.98, 0.65),
}


@pytest.mark.slow
@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_planted_sweep(plant):
    """False proportion in each order, power, and pairs kept when triplets are considered."""
    rows = []
    for seed in range(30):
        rng = np.random.default_rng([515, seed])
        model, M = plant(rng)
        X = sample(model, M, method="exact", random_state=rng)
        samples = Samples.check(X + 3 if plant is planted_ratings else X)
        truth = set(model.couplings())
        allowed = set(Interactions.from_tuples(truth, X.shape[1]).closure().tuples)
        two = nested.select(samples, considered(samples, 2), LEVEL)[1]
        chosen, three = nested.select(samples, considered(samples, 3), LEVEL)
        row = []
        for tests, k in ((two, 2), (three, 2), (three, 3)):
            kept = {mu for mu, q in zip(tests.terms.tuples, tests.q_values) if q <= LEVEL and len(mu) == k}
            row += [len(kept & truth) / sum(len(mu) == k for mu in truth), len(kept - allowed) / max(len(kept), 1)]
        found = {mu for mu, q in zip(two.terms.tuples, two.q_values) if q <= LEVEL}
        rows.append([*row, len(found - set(chosen.tuples)) / max(len(found), 1)])
    mean, error = np.mean(rows, axis=0), np.std(rows, axis=0) / np.sqrt(len(rows))
    power, false = mean[[0, 2, 4]], mean[[1, 3, 5]]
    assert (false <= LEVEL + 2 * error[[1, 3, 5]]).all(), mean
    assert power[1] >= PLANTED[plant][0], mean
    assert power[2] >= PLANTED[plant][1], mean
    assert mean[6] <= LEVEL


# ---------------------------------------------------------------------- few rows for the columns


def test_nodes_with_as_many_parameters_leave_no_freedom():
    X = spins(400, n=6)
    data = NodeData(Samples.check(X))
    for node in fit_nodes(data, range(6), Interactions.upto(2, 6)).values():
        assert node.freedom == pytest.approx(np.sqrt(1.0 - 6 / 400), abs=1e-4)
    data = NodeData(Samples.check(np.repeat(X[:8], 2, axis=0)))
    assert all(0.0 <= node.freedom < 0.95 for node in fit_nodes(data, range(6), Interactions.upto(2, 6)).values())


@pytest.mark.parametrize("rate", [0.5, 0.2])
def test_p_values_hold_where_rows_are_few_for_the_columns(rate, monkeypatch):
    """Four rows a column: nodes fit what is chance as well, and p < .001 would be two to four times as frequent."""
    shares = []
    for free in (False, True):
        with monkeypatch.context() as patch:
            if free:
                patch.setattr(Node, "freedom", 1.0)
            pairs, triplets = [], []
            for seed in range(5):
                X = (np.random.default_rng([seed, 77]).random((120, 30)) < rate).astype(np.int8)
                samples = Samples.check(X)
                p = nested.select(samples, Terms(samples.space, all_terms(3, samples.space)), 0.05)[1].p_values
                pairs.append(p[:435])
                triplets.append(p[435:])
            shares.append(
                [np.mean(np.concatenate(p) < limit) / limit for p in (pairs, triplets) for limit in (0.05, 1e-3)]
            )
    (pairs_05, _, triplets_05, triplets_001), (free_pairs, _, free_triplets, free_001) = shares
    assert max(pairs_05, triplets_05) < 1.2
    assert triplets_001 < 1.5
    assert min(free_pairs, free_triplets) > 1.3  # the negative control
    assert free_001 > 1.8
