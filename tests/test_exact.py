"""Exact inference against sums over itertools.product, closed forms and quadrature."""

from __future__ import annotations

from itertools import product
from math import factorial

import numba
import numpy as np
import pytest
from scipy.integrate import dblquad

from hbm_learn import Alphabet, BoltzmannMachine, Interactions, Interval
from hbm_learn._kernels import transform as kernels
from hbm_learn.inference import infer
from hbm_learn.inference.exact import StateTable
from hbm_learn.states import transform

SIZES = {
    (-1, 1): 6,
    (0, 1): 6,
    (-2, 2): 5,
    (0, 3): 5,
    (-0.5, 2): 6,
    (-1, 0, 1): 5,
    (-1, 0.5, 2): 5,
    (0, 1, 2, 3): 5,
    (-2, -1, 0, 1, 2, 4): 3,
}
ALPHABETS = list(SIZES)
SCALES = [0.1, 3.0]


def random_model(alphabet, order, scale, seed=0):
    """All interactions up to the order, the energy spread about scale·√n whatever the alphabet."""
    n = SIZES[alphabet]
    rng = np.random.default_rng([seed, order, len(alphabet)])
    interactions = Interactions.upto(order, n)
    size = max(abs(x) for x in alphabet)
    weights = scale * rng.normal(size=len(interactions)) / size ** np.diff(interactions.indptr)
    h, d = scale * rng.normal(size=(2, n))
    return BoltzmannMachine.from_packed(h / size, interactions, weights, d / size**2, alphabet)


class Enumeration:
    """P(x) by listing: the plain way, in the order of StateTable."""

    def __init__(self, model):
        self.model = model
        self.X = np.array([x[::-1] for x in product(model.alphabet.nodes, repeat=model.n_features)])
        e = self.X @ model.h - 0.5 * self.X**2 @ model.d
        for mu, J in model.couplings().items():
            e += J * self.X[:, mu].prod(axis=1)
        self.log_partition = e.max() + np.log(np.exp(e - e.max()).sum())
        self.log_p = e - self.log_partition
        self.p = np.exp(self.log_p)

    def mean(self, f):
        return self.p @ f

    def moment(self, mu):
        return self.mean(self.X[:, list(mu)].prod(axis=1))

    def statistics(self, interactions):
        second = [-0.5 * self.X**2] if self.model.alphabet.size > 2 else []
        return np.hstack([self.X, *second, *[self.X[:, mu].prod(axis=1)[:, None] for mu in interactions]])


def partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for part in partitions(rest):
        yield [[first], *part]
        for j in range(len(part)):
            yield [*part[:j], [first, *part[j]], *part[j + 1 :]]


def cumulant_by_partitions(moment, mu):
    """κ = Σ_π (−1)^(|π|−1) (|π|−1)! Π_{B∈π} ⟨x_B⟩, from raw moments."""
    total = 0.0
    for part in partitions(list(mu)):
        total += (-1) ** (len(part) - 1) * factorial(len(part) - 1) * np.prod([moment(block) for block in part])
    return total


def close(actual, desired, scale=1.0):
    np.testing.assert_allclose(actual, desired, rtol=1e-10, atol=1e-10 * scale)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("alphabet", ALPHABETS)
class TestAgainstEnumeration:
    def test_states_and_probabilities(self, alphabet, order, scale):
        model = random_model(alphabet, order, scale)
        brute, table = Enumeration(model), StateTable(model)
        assert np.array_equal(table.states(np.arange(len(table.p))), brute.X)
        np.testing.assert_allclose(table.p, brute.p, rtol=1e-10)
        close(table.marginals, [[brute.mean(column == x) for x in model.alphabet.nodes] for column in brute.X.T])

    def test_result(self, alphabet, order, scale):
        model = random_model(alphabet, order, scale)
        brute, result = Enumeration(model), infer(model, method="exact")
        top = float(np.abs(model.alphabet.nodes).max()) ** order
        close(result.log_partition, brute.log_partition)
        close(result.entropy, -brute.p @ brute.log_p)
        close(result.m, brute.mean(brute.X))
        close(result.v, brute.mean(brute.X**2))
        close(result.chi, np.cov(brute.X.T, aweights=brute.p, ddof=0))
        close(result.interaction_moments, [brute.moment(mu) for mu in model.interactions], top)
        kappa = [cumulant_by_partitions(brute.moment, mu) for mu in model.interactions]
        close(result.interaction_cumulants, kappa, top)
        assert result.converged
        assert result.residual == 0.0
        assert result.method == "exact"

    def test_fisher(self, alphabet, order, scale):
        model = random_model(alphabet, order, scale)
        brute, table = Enumeration(model), StateTable(model)
        t = brute.statistics(model.interactions)
        mean = brute.mean(t)
        close(table.statistics(model.packed), mean, np.abs(t).max())
        F = table.fisher(model.packed)
        close(F, (t * brute.p[:, None]).T @ t - np.outer(mean, mean), np.abs(t).max() ** 2)
        assert np.array_equal(F, F.T)


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_moments_of_interactions_the_model_does_not_have(alphabet):
    model = random_model(alphabet, 2, 1.0)
    brute, table = Enumeration(model), StateTable(model)
    others = Interactions.from_tuples([(0, 2), (0, 1, 2), tuple(range(model.n_features))], model.n_features)
    close(table.moments(others), [brute.moment(mu) for mu in others], 1e3)
    t = brute.statistics(others)
    close(table.fisher(others), np.cov(t.T, aweights=brute.p, ddof=0), 1e6)


def test_cumulants_of_order_three_to_five_by_their_formulas():
    model = random_model((-1, 0.5, 2), 5, 0.7)
    brute, table = Enumeration(model), StateTable(model)
    d = brute.X - brute.mean(brute.X)

    def c(*sites):
        return brute.mean(d[:, sites].prod(axis=1))

    wanted = {
        (0, 1, 2): c(0, 1, 2),
        (1, 2, 3, 4): c(1, 2, 3, 4) - c(1, 2) * c(3, 4) - c(1, 3) * c(2, 4) - c(1, 4) * c(2, 3),
        (0, 1, 2, 3, 4): c(0, 1, 2, 3, 4)
        - sum(c(i, j) * c(*(k for k in range(5) if k not in (i, j))) for i in range(5) for j in range(i + 1, 5)),
    }
    interactions = Interactions.from_tuples(wanted, 5)
    np.testing.assert_allclose(table.cumulants(interactions), [wanted[mu] for mu in interactions], rtol=1e-11)


def test_cumulants_that_would_take_forever_are_left_out():
    mu = tuple(range(22))
    result = infer(BoltzmannMachine(np.zeros(22), {mu: 0.5}), method="exact")
    assert result.interaction_cumulants is None
    np.testing.assert_allclose(result.interaction_moments, [np.tanh(0.5)], rtol=1e-12)


@pytest.mark.parametrize("alphabet", [(-1, 1), (0, 1, 2, 3)])
def test_derivatives_of_log_partition_and_of_m(alphabet):
    model = random_model(alphabet, 3, 0.5)
    table, n, eps = StateTable(model), model.n_features, 1e-5
    theta = np.concatenate([model.h, model.d, model.weights])

    def shifted(r, step):
        x = theta.copy()
        x[r] += step
        return StateTable(BoltzmannMachine.from_packed(x[:n], model.packed, x[2 * n :], x[n : 2 * n], alphabet))

    slopes, chi = [], []
    for r in range(len(theta)):
        plus, minus = shifted(r, eps), shifted(r, -eps)
        slopes.append((plus.log_partition - minus.log_partition) / (2 * eps))
        chi.append((plus.m - minus.m) / (2 * eps))
    np.testing.assert_allclose(table.chi, chi[:n], atol=1e-7)
    wanted = np.concatenate([table.m, -0.5 * table.v, table.moments(model.packed)])
    np.testing.assert_allclose(slopes, wanted, atol=1e-6)


@pytest.mark.parametrize(("source", "target"), [((-1, 1), (0, 1)), ((0, 1), (2, 5)), ((-1, 0, 1), (0, 1, 2))])
def test_change_of_alphabet_is_the_same_distribution(source, target):
    model = BoltzmannMachine(
        [0.3, -0.2, 0.5, 0.1], {(0, 1): 0.7, (1, 2, 3): -0.6, (0, 1, 2, 3): 0.4}, [0.2, -0.3, 0.1, 0.0], source
    )
    one, other = StateTable(model), StateTable(model.with_alphabet(target))
    np.testing.assert_allclose(other.p, one.p, rtol=1e-11)
    s, _ = Alphabet(source).affine_to(Alphabet(target))
    np.testing.assert_allclose(s**2 * other.chi, one.chi, rtol=1e-11)
    np.testing.assert_allclose(other.entropy, one.entropy, rtol=1e-11)


class TestStrongModels:
    def test_no_overflow(self):
        model = BoltzmannMachine([1e4, -3e4, 0.0], {(0, 1): 1e5, (0, 1, 2): 7e4}, alphabet=(-1, 1))
        result = infer(model, method="exact")
        assert result.log_partition == pytest.approx(1e5 + 2e4 + 7e4, rel=1e-14)
        assert result.m.tolist() == [-1.0, -1.0, 1.0]
        assert result.entropy == pytest.approx(0.0, abs=1e-10)

    def test_degenerate_ground_states(self):
        result = infer(BoltzmannMachine(np.zeros(4), {(0, 1): 1e6, (2, 3): -1e6}), method="exact")
        assert result.entropy == pytest.approx(np.log(4), rel=1e-12)
        np.testing.assert_allclose(result.chi, [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, -1], [0, 0, -1, 1]], atol=1e-12)

    @pytest.mark.parametrize("h", [1.0, 8.0, 20.0, 150.0])
    def test_frozen_variables_keep_their_digits(self, h):
        """χ₁₂ = 4 (p₊₊p₋₋ − p₊₋p₋₊) to 1e-10 of itself, however small."""
        J = 0.5
        result = infer(BoltzmannMachine([h, h], {(0, 1): J}), method="exact")
        e = np.array([J + 2 * h, J - 2 * h, -J, -J])
        p = np.exp(e - e[0]) / np.exp(e - e[0]).sum()
        chi = 4 * p[0] * p[1] * (1 - np.exp(-4 * J))
        np.testing.assert_allclose(result.chi[0, 1], chi, rtol=1e-10)
        np.testing.assert_allclose(result.interaction_cumulants, [chi], rtol=1e-10)
        np.testing.assert_allclose(result.chi[0, 0], 4 * (p[0] + p[2]) * (p[1] + p[3]), rtol=1e-10)

    def test_energies_beyond_float64_are_refused(self):
        with pytest.raises(ValueError, match="exceed float64"):
            StateTable(BoltzmannMachine([1e308, 1e308], {(0, 1): 1e308}, alphabet=(0, 1)))


class TestSize:
    @pytest.mark.parametrize(
        ("n", "alphabet", "count"),
        [(25, (-1, 1), "33,554,432"), (16, (0, 1, 2), "43,046,721"), (1000, (0, 1), "10^301")],
    )
    def test_too_many_states(self, n, alphabet, count):
        with pytest.raises(ValueError, match="lists every state") as error:
            infer(BoltzmannMachine(np.zeros(n), {}, alphabet=alphabet), method="exact")
        assert count in str(error.value)
        assert '"dc"' in str(error.value)
        assert '"gibbs"' in str(error.value)

    def test_one_variable(self):
        result = infer(BoltzmannMachine([0.3], {}), method="exact")
        np.testing.assert_allclose([result.m[0], result.log_partition], [np.tanh(0.3), np.log(2 * np.cosh(0.3))])
        assert result.chi.shape == (1, 1)
        assert result.interaction_moments.shape == result.interaction_cumulants.shape == (0,)

    def test_states_have_the_dtype_of_the_alphabet(self):
        table = StateTable(BoltzmannMachine([0.0, 0.0], {}, alphabet=(0, 1)))
        assert table.states([2]).tolist() == [[0, 1]]
        assert table.states([2]).dtype == Alphabet((0, 1)).dtype

    def test_p_cannot_be_changed(self):
        with pytest.raises(ValueError, match="read-only"):
            StateTable(BoltzmannMachine([0.0], {})).p[0] = 1.0

    def test_no_options(self):
        with pytest.raises(ValueError, match="takes no options"):
            infer(BoltzmannMachine([0.0], {}), method="exact", tol=1e-3)


class TestInterval:
    @pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.0, 3.0)])
    def test_two_variables_by_quadrature(self, bounds):
        h, d, J = [0.4, -0.9], [0.5, 1.5], 1.2
        result = infer(BoltzmannMachine(h, {(0, 1): J}, d, Interval(*bounds)), method="exact")

        def log_density(x, y):
            return h[0] * x + h[1] * y - 0.5 * d[0] * x**2 - 0.5 * d[1] * y**2 + J * x * y

        def integral(f):
            return dblquad(lambda y, x: f(x, y) * np.exp(log_density(x, y)), *bounds, *bounds, epsabs=1e-12)[0]

        Z = integral(lambda x, y: 1.0)
        m = [integral(lambda x, y: x) / Z, integral(lambda x, y: y) / Z]
        close(result.log_partition, np.log(Z))
        close(result.m, m)
        close(result.v, [integral(lambda x, y: x * x) / Z, integral(lambda x, y: y * y) / Z])
        close(result.chi[0, 1], integral(lambda x, y: (x - m[0]) * (y - m[1])) / Z)
        close(result.entropy, np.log(Z) - integral(log_density) / Z)
        assert result.converged
        assert result.residual < 1e-12

    def test_independent_variables_are_the_site_distribution(self):
        alphabet = Alphabet(Interval(-2, 1))
        h, d = np.array([0.5, -2.0, 3.0, 0.0, 1.0, -1.0]), np.array([1.0, -0.5, 2.0, 0.0, 0.3, -1.0])
        result, site = infer(BoltzmannMachine(h, {}, d, alphabet), method="exact"), alphabet.site_moments(h, d)
        close(result.m, site.m)
        close(np.diag(result.chi), site.V)
        close(result.log_partition, site.log_z.sum())

    def test_fisher_is_the_covariance_of_the_statistics(self):
        model = BoltzmannMachine([0.3, -0.2, 0.1], {(0, 1): 0.7, (0, 1, 2): -0.6}, 0.4, Interval(-1, 2))
        table = StateTable(model)
        X = table.states(np.arange(len(table.p)))
        t = np.hstack([X, -0.5 * X**2, X[:, [0]] * X[:, [1]], X.prod(axis=1)[:, None]])
        close(table.fisher(model.packed), np.cov(t.T, aweights=table.p, ddof=0))

    def test_a_concentrated_density_is_reported(self):
        result = infer(BoltzmannMachine([3e3, 0.0], {(0, 1): 1e3}, alphabet=Interval(-1, 1)), method="exact")
        assert not result.converged
        assert "too concentrated" in result.status
        assert result.residual > 1e-8

    def test_too_many_variables(self):
        with pytest.raises(ValueError, match="grid nodes"):
            infer(BoltzmannMachine(np.zeros(7), {}, alphabet=Interval(-1, 1)), method="exact")


class TestGaussian:
    def test_closed_form(self):
        rng = np.random.default_rng(3)
        J = np.triu(rng.normal(size=(5, 5)), 1)
        J, h = J + J.T, rng.normal(size=5)
        Q = np.diag(np.full(5, 6.0)) - J
        model = BoltzmannMachine(h, J, 6.0, "real")
        result = infer(model, method="exact")
        chi = np.linalg.inv(Q)
        close(result.chi, chi)
        close(result.m, chi @ h)
        close(result.v, np.diag(chi) + (chi @ h) ** 2)
        close(result.log_partition, 0.5 * h @ chi @ h - 0.5 * np.log(np.linalg.det(Q / (2 * np.pi))))
        close(result.entropy, 0.5 * np.log(np.linalg.det(2 * np.pi * np.e * chi)))
        close(result.interaction_cumulants, [chi[mu] for mu in model.interactions])
        close(result.interaction_moments, [(chi + np.outer(result.m, result.m))[mu] for mu in model.interactions])

    def test_a_wide_interval_tends_to_it(self):
        h, J, d = [0.4, -0.3], {(0, 1): 0.5}, [1.5, 2.0]
        wide, line = (infer(BoltzmannMachine(h, J, d, a), method="exact") for a in (Interval(-9, 9), "real"))
        for name in ("m", "v", "chi", "log_partition", "entropy", "interaction_moments", "interaction_cumulants"):
            close(getattr(wide, name), getattr(line, name))

    @pytest.mark.parametrize("J", [2.0, 3.5])
    def test_not_positive_definite(self, J):
        with pytest.raises(ValueError, match="not positive definite") as error:
            infer(BoltzmannMachine([0.0, 0.0], {(0, 1): J}, 2.0, "real"), method="exact")
        assert f"{2 - J:g}" in str(error.value)

    def test_has_no_table(self):
        with pytest.raises(ValueError, match="closed form"):
            StateTable(BoltzmannMachine([0.0], {}, 1.0, "real"))


# ---------------------------------------------------------------------- kernels and their NumPy twins


def transform_twin(x, W):
    """Axis by axis: site i is axis n − 1 − i of the C-ordered table."""
    n = len(W)
    x = x.reshape((W.shape[2],) * n)
    for i in range(n):
        x = np.moveaxis(np.tensordot(W[i], x, axes=(1, n - 1 - i)), 0, n - 1 - i)
    return x.reshape(-1)


@pytest.mark.parametrize("n", [1, 2, 3, 6, 9])
def test_stage_kernels(n):
    rng = np.random.default_rng(n)
    x, W = rng.normal(size=2**n), rng.normal(size=(n, 2, 2))
    wanted = transform_twin(x, W)
    for low in range(n + 1):
        for strip in {1, 2 ** (low // 2), 2**low}:
            y = x.copy()
            kernels.low_stages(y, W[:low])
            kernels.high_stages(y.reshape(-1, 2**low), W[low:], strip, 0, 2**low)
            np.testing.assert_allclose(y, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("n", [14, 15, 18])
def test_walsh_hadamard_of_a_table_larger_than_a_block(n):
    x = np.random.default_rng(n).integers(-9, 10, size=2**n).astype(float)
    W = np.tile([[1.0, 1.0], [1.0, -1.0]], (n, 1, 1))
    assert np.array_equal(transform(x.copy(), W), transform_twin(x, W))  # integers: exact


@pytest.mark.parametrize(
    "shape", [(12, 3, 2), (12, 2, 3), (6, 3, 3), (4, 5, 2), (4, 2, 20), (2, 70, 2), (2, 3, 900), (1, 4, 3)]
)
def test_transform_by_axes(shape):
    rng = np.random.default_rng(shape)
    W, x = rng.normal(size=shape) / np.sqrt(shape[2]), rng.normal(size=shape[2] ** shape[0])
    wanted = transform_twin(x, W)
    np.testing.assert_allclose(transform(x.copy(), W), wanted, rtol=1e-11, atol=1e-12 * np.abs(wanted).max())


def test_weight_kernels():
    rng = np.random.default_rng(0)
    E, rows, cols = 50 * rng.normal(size=(8, 5)), rng.normal(size=8), rng.normal(size=5)
    e = E + (rows[:, None] + cols)
    peak = kernels.add_sites(E, rows, cols)
    assert peak == e.max()
    np.testing.assert_array_equal(E, e)
    w = np.exp(e - peak)
    np.testing.assert_allclose(
        kernels.exponentiate(E, peak).T, [w.sum(axis=1), (w * (e - peak)).sum(axis=1)], rtol=1e-13
    )
    np.testing.assert_allclose(E, w, rtol=1e-13)


def test_joint_cumulants_kernel():
    """On any set function with value 1 on the empty set, not only on central moments."""
    rng = np.random.default_rng(0)
    n = 7
    moments = rng.normal(size=2**n)
    moments[0] = 1.0
    interactions = Interactions.from_tuples([(0, 3), (1, 2, 6), (0, 2, 4, 5), (0, 1, 2, 3, 4, 5, 6)], n)
    wanted = [cumulant_by_partitions(lambda block: moments[sum(1 << i for i in block)], mu) for mu in interactions]
    actual = kernels.joint_cumulants(moments, interactions.members, interactions.indptr)
    np.testing.assert_allclose(actual, wanted, rtol=1e-10)


def test_products_kernels():
    rng = np.random.default_rng(0)
    M, codes = rng.normal(size=2**8), rng.integers(0, 2**7, size=12)
    G = np.empty((5, 12))
    kernels.products_by_sum(M, codes[:5], codes, G)
    assert np.array_equal(G, M[codes[:5, None] + codes])
    kernels.products_two_valued(M, codes[:5], codes, 0.0, -1.0, G)
    assert np.array_equal(G, M[codes[:5, None] ^ codes])
    kernels.products_two_valued(M, codes[:5], codes, 1.0, 0.0, G)
    assert np.array_equal(G, M[codes[:5, None] | codes])


@pytest.mark.parametrize(("n", "alphabet"), [(18, (-1, 1)), (12, (-1, 0, 1))])
def test_the_number_of_threads_changes_nothing(n, alphabet, monkeypatch):
    rng = np.random.default_rng(0)
    interactions = Interactions.upto(2, n)
    model = BoltzmannMachine.from_packed(
        rng.normal(size=n), interactions, 0.3 * rng.normal(size=len(interactions)), 0.1, alphabet
    )
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        results.append(infer(model, method="exact"))
    for other in results[1:]:
        assert other.log_partition == results[0].log_partition
        assert other.entropy == results[0].entropy
        assert np.array_equal(other.chi, results[0].chi)
