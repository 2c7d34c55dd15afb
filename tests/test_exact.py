"""Exact inference against sums over itertools.product, closed forms and quadrature."""

from __future__ import annotations

from functools import cache
from itertools import product
from math import factorial
from types import SimpleNamespace

import numba
import numpy as np
import oracle
import pytest
from oracle import SPACES, random_mixed
from scipy.integrate import dblquad, quad

from hbm_learn import Alphabet, BoltzmannMachine, Interactions, Interval, Nominal, gaussian
from hbm_learn._kernels import transform as kernels
from hbm_learn.inference import infer
from hbm_learn.inference.exact import StateTable
from hbm_learn.inference.result import variable_moments
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.space import Space
from hbm_learn.states.products import SiteBasis, products
from hbm_learn.states.transforms import transform
from hbm_learn.terms import all_terms

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
        """x_i and, with more than two values, −½ x_i², variable by variable; then the products."""
        own = [np.stack([x, -0.5 * x**2][: self.model.alphabet.size - 1], axis=1) for x in self.X.T]
        return np.hstack([*own, *[self.X[:, mu].prod(axis=1)[:, None] for mu in interactions]])


def quadratic(model, interactions=None):
    """The parameters h, d and J of a model."""
    even = [np.full(q, 1.0 / q) for q in model.space.sizes]
    return Parameters(model.space, model.columns if interactions is None else interactions, "quadratic", even)


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
        parameters = quadratic(model)
        close(table.statistics(parameters), mean, np.abs(t).max())
        F = table.fisher(parameters)
        close(F, (t * brute.p[:, None]).T @ t - np.outer(mean, mean), np.abs(t).max() ** 2)
        assert np.array_equal(F, F.T)
        v = np.random.default_rng(0).normal(size=len(mean))
        close(table.fisher_product(parameters, v), F @ v, np.abs(t).max() ** 2)


@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_moments_of_interactions_the_model_does_not_have(alphabet):
    model = random_model(alphabet, 2, 1.0)
    brute, table = Enumeration(model), StateTable(model)
    others = Interactions.from_tuples([(0, 2), (0, 1, 2), tuple(range(model.n_features))], model.n_features)
    close(table.moments(others), [brute.moment(mu) for mu in others], 1e3)
    t = brute.statistics(others)
    close(table.fisher(quadratic(model, others)), np.cov(t.T, aweights=brute.p, ddof=0), 1e6)


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
        return StateTable(BoltzmannMachine.from_packed(x[:n], model.columns, x[2 * n :], x[n : 2 * n], alphabet))

    slopes, chi = [], []
    for r in range(len(theta)):
        plus, minus = shifted(r, eps), shifted(r, -eps)
        slopes.append((plus.log_partition - minus.log_partition) / (2 * eps))
        chi.append((plus.m - minus.m) / (2 * eps))
    np.testing.assert_allclose(table.chi, chi[:n], atol=1e-7)
    second = table.V + table.m**2
    wanted = np.concatenate([table.m, -0.5 * second, table.moments(model.columns)])
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


# ---------------------------------------------------------------------- variables of different kinds


ORDERS = [1, 2, 3, 4]


class Brute:
    """Everything by listing, in the order of ``oracle.all_codes``."""

    def __init__(self, model):
        self.states, self.p, self.log_partition = oracle.distribution(model)
        self.codes, self.phi = oracle.all_codes(model), oracle.columns(model)
        self.mean = self.p @ self.phi

    def moment(self, columns):
        return self.p @ self.phi[:, list(columns)].prod(axis=1)

    def covariance(self, t):
        y = t - self.p @ t
        return (y * self.p[:, None]).T @ y

    def statistics(self, parameters):
        """t of every state, by the definition of the parameters."""
        own = [O[code] for O, code in zip(parameters.own, self.codes.T)]
        phi = np.column_stack([table[code] for table, code in zip(parameters.space.functions, self.codes.T)])
        return np.hstack([*own, *[phi[:, mu].prod(axis=1)[:, None] for mu in parameters.columns]])


@pytest.mark.parametrize("strength", [0.3, 3.0])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SPACES)
class TestMixed:
    def test_states_and_probabilities(self, name, order, strength):
        model = random_mixed(SPACES[name], order, strength)
        brute, table = Brute(model), StateTable(model)
        numbers = brute.codes @ np.cumprod([1, *table.sizes])[:-1]
        assert np.array_equal(np.sort(numbers), np.arange(len(table.p)))
        assert table.codes(numbers).dtype == np.uint8
        assert np.array_equal(table.codes(numbers), brute.codes)
        assert table.states(numbers).tolist() == brute.states.tolist()
        np.testing.assert_allclose(table.p[numbers], brute.p, rtol=1e-10)

    def test_result(self, name, order, strength):
        model = random_mixed(SPACES[name], order, strength)
        brute, result = Brute(model), infer(model, method="exact")
        top = float(np.abs(brute.phi).max()) ** order
        close(result.log_partition, brute.log_partition)
        close(result.entropy, -brute.p @ np.log(brute.p))
        for i, a in enumerate(model.space.alphabets):
            close(result.probabilities[i], np.bincount(brute.codes[:, i], brute.p))
            if a.is_nominal:
                assert np.isnan([result.m[i], result.v[i]]).all()
                assert np.isnan(result.chi[i]).all()
                assert np.isnan(result.chi[:, i]).all()
        x = np.flatnonzero([not a.is_nominal for a in model.space.alphabets])
        X = brute.states[:, x].astype(float)
        close(result.m[x], brute.p @ X, 10)
        close(result.v[x], brute.p @ X**2, 100)
        close(result.chi[np.ix_(x, x)], brute.covariance(X), 100)
        close(result.means, brute.mean, top)
        close(result.covariances, brute.covariance(brute.phi), top**2)
        close(result.interaction_moments, [brute.moment(mu) for mu in model.columns], top)
        kappa = [cumulant_by_partitions(brute.moment, mu) for mu in model.columns]
        close(result.interaction_cumulants, kappa, top)
        assert result.converged

    @pytest.mark.parametrize("site", ["free", "quadratic"])
    @pytest.mark.parametrize("gauge", ["coding", "standard", "off centre"])
    def test_fisher(self, name, order, strength, gauge, site):
        """In the gauge of the model, and asked of a table of the same distribution in another one."""
        model = random_mixed(SPACES[name], order, strength)
        brute, rng = Brute(model), np.random.default_rng(order)
        frequencies = [rng.dirichlet(np.full(q, 3.0)) for q in model.space.sizes]
        space = model.space
        if gauge != "coding":
            space = model.space.standard(frequencies, centred=gauge == "standard")
        parameters = Parameters(space, all_terms(order, space), site, frequencies)
        t = brute.statistics(parameters)
        assert t.shape == (len(brute.p), parameters.n_params)
        scale, F, v = np.abs(t).max(), brute.covariance(t), rng.normal(size=t.shape[1])
        for other in (space, model.space):
            table = StateTable(model.in_space(other))
            close(table.statistics(parameters), brute.p @ t, scale)
            found = table.fisher(parameters)
            close(found, F, scale**2)
            assert np.array_equal(found, found.T)
            close(table.fisher_product(parameters, v), F @ v, scale**2)
            phi = np.column_stack([table_[code] for table_, code in zip(other.functions, brute.codes.T)])
            moments = [brute.p @ phi[:, mu].prod(axis=1) for mu in model.columns]
            close(table.moments(model.columns), moments, np.abs(phi).max() ** order)


@pytest.mark.parametrize("name", SPACES)
def test_derivatives_of_log_partition_by_parameters(name):
    """⟨t⟩ and F are the first two derivatives of ln Z, numerically."""
    model = random_mixed(SPACES[name], 2, 0.5)
    frequencies = [np.full(q, 1.0 / q) for q in model.space.sizes]
    space = model.space.standard(frequencies)
    parameters = Parameters(space, all_terms(2, space), "free", frequencies)
    theta, eps = parameters.pack(model), 1e-5
    table = StateTable(parameters.model(theta))
    F = table.fisher(parameters)
    for r in range(len(theta)):
        step = eps * (np.arange(len(theta)) == r)
        plus, minus = (StateTable(parameters.model(theta + sign * step)) for sign in (1, -1))
        slope = (plus.log_partition - minus.log_partition) / (2 * eps)
        np.testing.assert_allclose(table.statistics(parameters)[r], slope, atol=1e-7)
        np.testing.assert_allclose(
            F[r], (plus.statistics(parameters) - minus.statistics(parameters)) / (2 * eps), atol=1e-6
        )


def test_two_labels_are_a_spin():
    """Nominal("no", "yes") is ±1 with its own weights as field, and costs the same."""
    J, h = 0.7, np.array([0.3, -0.2, 0.1])
    spins = StateTable(BoltzmannMachine(h, {(0, 1): J, (0, 1, 2): -0.4}))
    vote = Nominal("no", "yes")
    sign = np.array([-1.0, 1.0])
    couplings = {(0, 1): J * np.multiply.outer(sign, sign), (0, 1, 2): -0.4 * np.einsum("i,j,k", sign, sign, sign)}
    model = BoltzmannMachine(np.zeros(3), couplings, alphabet=vote, site=[sign * x for x in h])
    labels = StateTable(model)
    np.testing.assert_allclose(labels.p, spins.p, rtol=1e-12)
    np.testing.assert_allclose(labels.m, spins.m, rtol=1e-12)
    np.testing.assert_allclose(labels.chi, spins.chi, rtol=1e-12)
    assert labels.states([5]).tolist() == [["yes", "no", "yes"]]


def test_free_own_weights_of_one_alphabet():
    """site on top of h and d, on numbers: the energy is the sum of the three."""
    site = [[0.3, -0.2, 0.5, 0.1], None, [1.0, 0.0, 0.0, -1.0]]
    model = BoltzmannMachine([0.1, 0.2, -0.3], {(0, 1): 0.2, (1, 2): -0.1}, 0.2, (0, 1, 2, 3), site)
    brute, table = Brute(model), StateTable(model)
    close(table.log_partition, brute.log_partition)
    close(table.m, brute.mean)
    without = StateTable(BoltzmannMachine(model.h, model.couplings(), 0.2, (0, 1, 2, 3)))
    assert abs(table.log_partition - without.log_partition) > 0.1


class TestVariableMoments:
    def test_any_gauge_gives_the_moments_of_x(self):
        model = random_mixed(SPACES["mixed powers"], 3, 1.0)
        rng = np.random.default_rng(0)
        other = model.in_space(model.space.standard([rng.dirichlet(np.full(q, 3.0)) for q in model.space.sizes]))
        one, two = infer(model, "exact"), infer(other, "exact")
        for name in ("m", "v", "chi"):
            np.testing.assert_allclose(getattr(two, name), getattr(one, name), rtol=1e-9, atol=1e-9)
        assert np.abs(one.means - two.means).max() > 0.1

    def test_without_covariances(self):
        space = Space.of([(0, 1, 2), Nominal("a", "b", "c"), Interval(0, 2)], 3)
        p = [np.array([0.2, 0.3, 0.5]), np.array([0.1, 0.1, 0.8]), None]
        means, variances = np.array([1.3, 0.2, -0.1, 0.9]), np.array([0.61, 1.0, 1.0, 0.25])
        m, v, chi = variable_moments(space, p, means, None, variances)
        np.testing.assert_allclose(m, [1.3, np.nan, 0.9])
        np.testing.assert_allclose(v, [2.3, np.nan, 0.25 + 0.81])
        assert chi is None


@cache
def region_spin_and_interval():
    """A number on an interval, a region and a spin: the model, Z and means, by quadrature for each state of the last
    two."""
    table = np.array([0.4, -0.9, 0.5])
    model = BoltzmannMachine(
        [0.4, 0.0, -0.3],
        {(0, 1): table, (0, 2): 0.8, (1, 2): np.array([0.3, 0.2, -0.5]), (0, 1, 2): -table},
        [0.7, 0.0, 0.0],
        [Interval(-1, 2), Nominal("n", "s", "w"), (-1, 1)],
        site=[None, [0.1, 0.2, -0.3], None],
    )

    def integral(f):
        total = 0.0
        for a, s in product(range(3), (-1, 1)):

            def density(x, a=a, s=s):
                log = 0.4 * x - 0.35 * x**2 - 0.3 * s + [0.1, 0.2, -0.3][a] + table[a] * x * (1 - s) + 0.8 * x * s
                return np.exp(log + [0.3, 0.2, -0.5][a] * s) * f(x, a, s)

            total += quad(density, -1, 2, epsabs=1e-13)[0]
        return total

    Z = integral(lambda x, a, s: 1.0)
    return model, Z, lambda f: integral(f) / Z


class TestFiniteAndInterval:
    def test_result(self):
        model, Z, mean = region_spin_and_interval()
        result = infer(model, "exact")
        close(result.log_partition, np.log(Z))
        close(result.probabilities[1], [mean(lambda x, a, s, b=b: float(a == b)) for b in range(3)])
        close(result.probabilities[2][1], mean(lambda x, a, s: float(s == 1)))
        assert result.probabilities[0] is None
        x, s = mean(lambda x, a, s: x), mean(lambda x, a, s: s)
        close(result.m[[0, 2]], [x, s])
        assert np.isnan(result.m[1])
        close(result.v[[0, 2]], [mean(lambda x, a, s: x * x), 1.0])
        close(result.chi[0, 2], mean(lambda x, a, s: x * s) - x * s)
        phi = model.space.functions[1]
        for c in range(2):
            f = mean(lambda x, a, s, c=c: phi[a, c])
            close(result.means[1 + c], f)
            close(result.covariances[0, 1 + c], mean(lambda x, a, s, c=c: x * phi[a, c]) - x * f)
        close(result.interaction_moments[0], mean(lambda x, a, s: x * phi[a, 0]))
        assert result.converged
        assert 0.0 < result.residual < 1e-12

    def test_fisher(self):
        model, _, mean = region_spin_and_interval()
        own = [None, model.space.functions[1], model.space.functions[2]]
        parameters = SimpleNamespace(space=model.space, columns=model.columns, own=own)
        phi = model.space.functions[1]

        def t(x, a, s):
            column = [x, phi[a, 0], phi[a, 1], s]
            return [x, -0.5 * x * x, *column[1:], *[np.prod([column[c] for c in mu]) for mu in model.columns]]

        P = len(model.columns) + 5
        table = StateTable(model)
        first = np.array([mean(lambda x, a, s, r=r: t(x, a, s)[r]) for r in range(P)])
        close(table.statistics(parameters), first)
        F = table.fisher(parameters)
        for r, c in [(0, 0), (1, 1), (0, 1), (1, 3), (0, 6), (1, 7), (2, 9), (5, P - 1), (P - 1, P - 1), (3, P - 2)]:
            second = mean(lambda x, a, s, r=r, c=c: t(x, a, s)[r] * t(x, a, s)[c])
            close(F[r, c], second - first[r] * first[c])
        v = np.random.default_rng(0).normal(size=P)
        close(table.fisher_product(parameters, v), F @ v)


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

    def test_variances_of_frozen_variables_do_not_see_the_rounding_of_their_mean(self):
        """V = p₀ (1 − p₀) (x₁ − x₀)² to 1e-10 of itself, in models whose probabilities do not add up to exactly 1."""
        uneven = 0
        for seed in range(50):
            h, k, J = np.random.default_rng(seed).normal(size=3)
            table = StateTable(BoltzmannMachine([100 + h, k, J], {(0, 1): 0.3, (1, 2): 0.5}, alphabet=(0.3, 1.1)))
            p = table.marginals[0]
            uneven += p.sum() != 1.0
            np.testing.assert_allclose(table.V[0], p[0] * 0.8**2, rtol=1e-10)
            np.testing.assert_allclose(table.chi[0, 0], table.V[0], rtol=1e-15)
        assert uneven > 5

    def test_energies_beyond_float64_are_refused(self):
        with pytest.raises(ValueError, match="exceed float64"):
            StateTable(BoltzmannMachine([1e308, 1e308], {(0, 1): 1e308}, alphabet=(0, 1)))


class TestSize:
    @pytest.mark.parametrize(
        ("n", "alphabet", "count"),
        [
            (25, (-1, 1), "33,554,432"),
            (16, (0, 1, 2), "43,046,721"),
            (1000, (0, 1), "10^301"),
            (16, [(0, 1), (1, 2, 3, 4, 5)] * 8, "2 to 5 values have 100,000,000"),
            (4, [Nominal(*range(200)), Interval(0, 1), range(250), range(250)], "12 to 250 values or grid nodes"),
        ],
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
        own = np.stack([X, -0.5 * X**2], axis=2).reshape(len(X), -1)
        t = np.hstack([own, X[:, [0]] * X[:, [1]], X.prod(axis=1)[:, None]])
        parameters = SimpleNamespace(space=model.space, columns=model.columns, own=[None] * 3)
        F = np.cov(t.T, aweights=table.p, ddof=0)
        close(table.fisher(parameters), F)
        v = np.random.default_rng(0).normal(size=len(F))
        close(table.fisher_product(parameters, v), F @ v)

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

    def test_conditional_means(self):
        """Given some entries of a row, the mean of the others maximises the density: solved here by the covariances."""
        rng = np.random.default_rng(3)
        J = np.triu(rng.normal(size=(5, 5)), 1)
        model = BoltzmannMachine(rng.normal(size=5), J + J.T, 6.0, "real")
        result, X = infer(model, "exact"), rng.normal(size=(7, 5))
        hidden, observed = np.array([1, 4]), np.array([0, 2, 3])
        slope = result.chi[np.ix_(hidden, observed)] @ np.linalg.inv(result.chi[np.ix_(observed, observed)])
        wanted = result.m[hidden] + (X[:, observed] - result.m[observed]) @ slope.T
        close(gaussian.conditional_means(model, X, hidden), wanted)

    def test_has_no_table(self):
        with pytest.raises(ValueError, match="closed form"):
            StateTable(BoltzmannMachine([0.0], {}, 1.0, "real"))


# ---------------------------------------------------------------------- kernels and their NumPy twins


def transform_twin(x, W):
    """Axis by axis: site i is axis n − 1 − i of the C-ordered table."""
    n = len(W)
    x = x.reshape([w.shape[1] for w in W][::-1])
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
    assert np.array_equal(transform(x.copy(), list(W)), transform_twin(x, W))  # integers: exact


@pytest.mark.parametrize(
    "shape", [(12, 3, 2), (12, 2, 3), (6, 3, 3), (4, 5, 2), (4, 2, 20), (2, 70, 2), (2, 3, 900), (1, 4, 3)]
)
def test_transform_by_axes(shape):
    rng = np.random.default_rng(shape)
    W, x = rng.normal(size=shape) / np.sqrt(shape[2]), rng.normal(size=shape[2] ** shape[0])
    wanted = transform_twin(x, W)
    np.testing.assert_allclose(transform(x.copy(), list(W)), wanted, rtol=1e-11, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize(
    "shapes",
    [
        [(2, 2), (5, 2), (3, 3), (2, 2), (4, 3)],
        [(2, 5), (3, 3), (2, 2), (2, 4), (2, 2), (1, 7)],
        [(40, 2), (2, 2), (2, 40)],
        [(2, 900), (2, 2), (3, 2)],
        [(2, 2)] * 6 + [(3, 2)] + [(2, 2)] * 4,
        [(2, 2), (3, 3), (64, 2), (64, 2), (5, 5)],
    ],
)
def test_transform_by_axes_of_different_sizes(shapes):
    rng = np.random.default_rng(0)
    W = [rng.normal(size=shape) / np.sqrt(shape[1]) for shape in shapes]
    x = rng.normal(size=int(np.prod([w.shape[1] for w in W])))
    wanted = transform_twin(x, W)
    np.testing.assert_allclose(transform(x.copy(), W), wanted, rtol=1e-11, atol=1e-12 * np.abs(wanted).max())


@pytest.mark.parametrize("n_in", [1, 2, 3, 4, 5, 6, 7])
def test_axis_kernels_on_parts(n_in):
    rng = np.random.default_rng(n_in)
    W = rng.normal(size=(4, n_in))
    x = rng.normal(size=(3, n_in, 600))
    out = np.full((3, 4, 600), np.nan)
    kernels.one_axis(x, W, out, 1, 3, 5, 580)
    np.testing.assert_allclose(out[1:, :, 5:580], np.einsum("ae,ler->lar", W, x)[1:, :, 5:580], rtol=1e-12, atol=1e-12)
    assert np.isnan(out[0]).all()
    assert np.isnan(out[1:, :, :5]).all()
    rows, out = rng.normal(size=(150, n_in)), np.full((150, 4), np.nan)
    kernels.last_axis(rows, W, out, 3, 149)
    np.testing.assert_allclose(out[3:149], (rows @ W.T)[3:149], rtol=1e-12, atol=1e-12)
    assert np.isnan(out[[0, 1, 2, 149]]).all()


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
    actual = kernels.joint_cumulants(moments, 1 << np.arange(n), interactions.members, interactions.indptr)
    np.testing.assert_allclose(actual, wanted, rtol=1e-10)
    # Two columns at the first site, one at the others: their codes are 1, 2, 3, 6, 12.
    moments, codes = rng.normal(size=24), np.array([1, 2, 3, 6, 12])
    moments[0] = 1.0
    interactions = Interactions.from_tuples([(0, 2), (1, 3), (1, 2, 4), (0, 2, 3, 4)], 5)
    wanted = [cumulant_by_partitions(lambda block: moments[codes[list(block)].sum()], mu) for mu in interactions]
    actual = kernels.joint_cumulants(moments, codes, interactions.members, interactions.indptr)
    np.testing.assert_allclose(actual, wanted, rtol=1e-10)


def upper(kernel, *arguments):
    """A (P, P) matrix that a kernel fills in two parts."""
    P = len(arguments[1])
    out = np.full((P, P), np.nan)
    kernel(*arguments, 0, P // 3, out)
    kernel(*arguments, P // 3, P, out)
    return out


def test_products_of_two_valued_sites():
    """φ² = total φ − product at every site, multiplied out term by term."""
    rng = np.random.default_rng(0)
    M, codes = rng.normal(size=2**8), rng.integers(1, 2**8, size=12)
    none, pairs = np.zeros(0), (codes[:, None], codes)
    assert np.array_equal(upper(kernels.products_one_look_up, M, codes, 0, none), M[pairs[0] ^ pairs[1]])
    assert np.array_equal(upper(kernels.products_one_look_up, M, codes, 2**8 - 1, none), M[pairs[0] | pairs[1]])
    for kind in ("one look-up", "any"):
        total, product_ = rng.normal(size=(2, 8))
        if kind == "one look-up":
            total[[0, 3, 5]], product_[[1, 2, 4, 6, 7]] = 0.0, 0.0
        wanted = np.empty((12, 12))
        for r, c in product(range(12), repeat=2):
            terms = {int(codes[r] ^ codes[c]): 1.0}
            for i in range(8):
                if codes[r] & codes[c] & (1 << i):
                    grown = {}
                    for code, weight in terms.items():
                        grown[code | (1 << i)] = weight * total[i]
                        grown[code] = grown.get(code, 0.0) - weight * product_[i]
                    terms = grown
            wanted[r, c] = sum(weight * M[code] for code, weight in terms.items())
        np.testing.assert_allclose(
            upper(kernels.products_two_valued, M, codes, total, product_, 2**8), wanted, rtol=1e-11, atol=1e-12
        )
        if kind == "one look-up":
            stay = int((1 << np.flatnonzero(product_ == 0.0)).sum())
            found = upper(kernels.products_one_look_up, M, codes, stay, total - product_)
            np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-12)


def test_products_of_any_functions():
    """⟨t t'⟩ of random products of random functions, by listing the states."""
    rng = np.random.default_rng(0)
    own = [rng.normal(size=(q, o)) for q, o in [(2, 1), (5, 2), (4, 3), (3, 1), (6, 2)]]
    own[1][:, 1] = own[1][:, 0] ** 2
    digits = np.array([[rng.integers(0, O.shape[1] + 1) for O in own] for _ in range(30)])
    sizes = [len(O) for O in own]
    p = rng.dirichlet(np.ones(int(np.prod(sizes))))
    states = np.array([x[::-1] for x in product(*(range(q) for q in reversed(sizes)))])
    t = np.ones((len(p), 30))
    for O, code, digit in zip(own, states.T, digits.T):
        t *= np.column_stack([np.ones(len(O)), O])[code][:, digit]
    close(products(p, own, digits), (t * p[:, None]).T @ t, 10)


@pytest.mark.parametrize(
    ("O", "size", "entries"),
    [
        (np.arange(6.0)[:, None] ** [1, 2], 5, 1),  # powers of x: one entry a product, as exponents stay below q
        (np.array([[0.5], [2.0]]), 2, 2),
        (np.array([[-1.0], [0.0], [1.0]]), 3, 1),
        (np.random.default_rng(0).normal(size=(4, 3)), 4, 4),
        (np.linspace(-1, 2, 40)[:, None] ** [1, 2], 5, 1),
    ],
)
def test_site_bases(O, size, entries):
    basis = SiteBasis.of(O)
    assert basis.G.shape == (len(O), size)
    assert np.diff(basis.pair_ptr).max() == entries
    for a, b in product(range(basis.width), repeat=2):
        lo, hi = basis.pair_ptr[a * basis.width + b : a * basis.width + b + 2]
        found = basis.G[:, basis.digit[lo:hi]] @ basis.weight[lo:hi]
        np.testing.assert_allclose(found, basis.G[:, a] * basis.G[:, b], rtol=1e-12, atol=1e-12 * np.abs(O).max() ** 2)


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


def test_the_number_of_threads_changes_nothing_for_mixed_variables(monkeypatch):
    alphabets = [(0, 1), (1, 2, 3, 4, 5), Nominal("a", "b", "c"), (-1, 1)] * 3
    model = random_mixed(oracle.Spec(alphabets), 2, 0.3)
    even = [np.full(q, 1.0 / q) for q in model.space.sizes]
    parameters = Parameters(model.space, model.columns, "free", even)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", threads)
        table = StateTable(model)
        results.append((table.log_partition, table.chi, table.fisher(parameters)))
    for other in results[1:]:
        assert other[0] == results[0][0]
        assert np.array_equal(other[1], results[0][1])
        assert np.array_equal(other[2], results[0][2])


@pytest.mark.parametrize("name", SPACES)
def test_variances_of_sets_of_columns_are_the_diagonal_of_the_fisher_matrix(name):
    model = random_mixed(SPACES[name], 3, 0.5, seed=5)
    frequencies = [np.arange(1.0, q + 1.0) / np.arange(1.0, q + 1.0).sum() for q in model.space.sizes]
    for space in (model.space, model.space.standard(frequencies)):
        table, columns = StateTable(model.in_space(space)), all_terms(3, space)
        parameters = Parameters(space, columns, "quadratic", frequencies)
        expected = np.diag(table.fisher(parameters))[parameters.n_own :]
        np.testing.assert_allclose(table.variances(columns), expected, rtol=1e-9, atol=1e-12 * expected.max())
