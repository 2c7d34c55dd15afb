"""Kernels of the samplers against plain Python twins, and annealed importance sampling against enumeration."""

from itertools import combinations, product

import numpy as np
import pytest
from numba import njit
from oracle import SPACES, all_codes, energy, random_mixed
from scipy import stats

from hbm_learn import BoltzmannMachine, Interval, Nominal
from hbm_learn._kernels import draws, gibbs
from hbm_learn.inference import infer
from hbm_learn.sampling import ais, chains
from hbm_learn.space import Alphabet

MASK = 2**64 - 1


class Xoshiro:
    """xoshiro256++ in Python integers."""

    def __init__(self, s):
        self.s = [int(x) for x in s]

    def bits(self):
        def rotate(x, k):
            return ((x << k) | (x >> (64 - k))) & MASK

        s = self.s
        out = (rotate((s[0] + s[3]) & MASK, 23) + s[0]) & MASK
        t = (s[1] << 17) & MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = rotate(s[3], 45)
        return out

    def uniform(self):
        return (2 * (self.bits() >> 12) + 1) * 2.0**-53


@njit
def take_uniforms(state, count):
    out = np.empty((count, state.shape[1]))
    for k in range(count):
        for l in range(state.shape[1]):
            out[k, l] = draws.uniform(state, l)
    return out


@njit
def exponentials(x):
    out = np.empty_like(x)
    for k in range(len(x)):
        out[k] = draws.exp_clipped(x[k])
    return out


def test_the_twin_is_xoshiro256plusplus():
    """The first outputs from state (1, 2, 3, 4), as published with the reference implementation."""
    twin = Xoshiro([1, 2, 3, 4])
    expected = [41943041, 58720359, 3588806011781223, 3591011842654386, 9228616714210784205, 9973669472204895162]
    assert [twin.bits() for _ in range(6)] == expected


def test_uniforms_agree_with_the_twin_to_the_bit():
    state = np.random.SeedSequence(3).generate_state(20, np.uint64).reshape(4, 5)
    twins = [Xoshiro(state[:, l]) for l in range(5)]
    u = take_uniforms(state, 200)
    np.testing.assert_array_equal(u, [[twin.uniform() for twin in twins] for _ in range(200)])
    np.testing.assert_array_equal(state, np.array([twin.s for twin in twins], dtype=np.uint64).T)


def test_uniforms_are_uniform_and_lanes_unrelated():
    state = np.random.SeedSequence(4).generate_state(4 * 16, np.uint64).reshape(4, 16)
    u = take_uniforms(state, 20_000)
    assert u.min() > 0
    assert u.max() < 1
    assert min(stats.kstest(column, "uniform").pvalue for column in u.T) > 1e-8
    correlation = np.corrcoef(np.concatenate([u[1:], u[:-1]], axis=1).T) - np.eye(32)
    assert np.abs(correlation).max() < 6.5 / np.sqrt(len(u))


def test_exp():
    x = np.concatenate([np.linspace(-699.9, 699.9, 20_001), np.linspace(-1, 1, 2001), [0.0, 1e-300]])
    np.testing.assert_allclose(exponentials(x), np.exp(x), rtol=5e-14)
    np.testing.assert_allclose(exponentials(np.array([-1e9, 1e9])), np.exp([-700.0, 700.0]), rtol=5e-14)


def twin_sweep(model, independent, x, alpha, random):
    """One Gibbs sweep of one chain, by definition: P_α ∝ exp(−H₀ − α (H − H₀)), H₀ without couplings."""
    for i, alphabet in enumerate(model.space.alphabets):
        values = alphabet.values.tolist()
        states = [[*x[:i], value, *x[i + 1 :]] for value in values]
        alone = np.array([energy(independent, state) for state in states])
        exponent = -alone - alpha * (np.array([energy(model, state) for state in states]) - alone)
        weights = np.exp(exponent - exponent.max())
        # The kernel for two values draws the upper one for small u, the kernel for more goes up the values.
        u = random.uniform()
        if len(values) == 2:
            x[i] = values[1] if u < weights[1] / weights.sum() else values[0]
        else:
            x[i] = values[np.searchsorted(np.cumsum(weights), u * weights.sum(), side="right")]


def assert_sweeps_agree(model, n_sweeps, seed):
    """Same random numbers, same states, after each of some sweeps with another α in each lane."""
    rng = np.random.default_rng(seed)
    n, L = model.n_features, 7
    codes = rng.integers(model.space.sizes, size=(L, n)).astype(np.uint8)
    X, S = np.ascontiguousarray(model.space.columns(codes).T), codes.T.astype(float)
    state = rng.integers(2**63, size=(4, L)).astype(np.uint64)
    alpha = np.linspace(0, 1, L)
    twins, states = [Xoshiro(state[:, l]) for l in range(L)], model.space.decode(codes).tolist()
    out = np.zeros((n_sweeps // 2, L + 1, n), dtype=np.uint8)
    gibbs.run(X, S, state, alpha, chains.pack_sites(model), 0, n_sweeps, 2, out, 1)
    independent = BoltzmannMachine(model.h, {}, model.d, model.alphabet, model.site)
    for t in range(n_sweeps):
        for l in range(L):
            twin_sweep(model, independent, states[l], alpha[l], twins[l])
        if t % 2:
            assert model.space.decode(out[t // 2, 1:]).tolist() == states
    np.testing.assert_array_equal(X.T, model.space.columns(out[-1, 1:]))
    return out


@pytest.mark.parametrize("alphabet", [(-1, 1), (0, 1), (0.5, 2.0), (-1, 0, 1), (0, 1, 2, 3)])
def test_sweeps_agree_with_the_twin(alphabet):
    rng = np.random.default_rng(2)
    n = 6
    couplings = {mu: 0.2 * rng.normal() for k in (2, 3, 4, 5) for mu in combinations(range(n), k) if rng.random() < 0.6}
    model = BoltzmannMachine(rng.normal(size=n), couplings, rng.normal(size=n), alphabet)
    assert len(np.unique(assert_sweeps_agree(model, 10, 2).reshape(-1, n), axis=0)) > 5


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("name", SPACES)
def test_sweeps_of_variables_of_different_kinds_agree_with_the_twin(name, order):
    model = random_mixed(SPACES[name], order, 1.0, seed=3)
    out = assert_sweeps_agree(model, 6, order)
    assert len(np.unique(out.reshape(-1, model.n_features), axis=0)) > 5


def test_packed_sites_give_the_local_fields():
    rng = np.random.default_rng(0)
    couplings = {mu: rng.normal() for k in (2, 3, 4) for mu in combinations(range(6), k) if rng.random() < 0.5}
    model = BoltzmannMachine(rng.normal(size=6), couplings)
    sites = chains.pack_sites(model)
    X = rng.choice([-1.0, 1.0], size=(6, 9))
    fields, scratch = np.empty(9), np.empty(9)
    for i in range(6):
        terms = sites.terms_ptr[i], sites.terms_ptr[i + 1]
        gibbs.add_terms(fields, scratch, X, *terms, sites.term_ptr, sites.others, sites.J)
        np.testing.assert_allclose(model.h[i] + fields, model.local_fields(X.T)[:, i], atol=1e-12)
    sums = gibbs.term_sums(X, model.columns.indptr, model.columns.members)
    np.testing.assert_allclose(sums, [X[list(mu)].prod(axis=0).sum() for mu in model.interactions], atol=1e-12)


@pytest.mark.parametrize("name", SPACES)
def test_packed_sites_give_the_fields_of_all_columns(name):
    """Differences of −H between two values of a variable, from its own weights, functions and packed fields."""
    model = random_mixed(SPACES[name], 4, 1.0)
    sites, codes = chains.pack_sites(model), all_codes(model)[::7]
    X = np.ascontiguousarray(model.space.columns(codes).T)
    L = X.shape[1]
    minus_H, scratch = -model.energy_of_codes(codes), np.empty(L)
    for i, q in enumerate(model.space.sizes):
        columns = range(sites.column_ptr[i], sites.column_ptr[i + 1])
        fields = np.empty((len(columns), L))
        for field, c in zip(fields, columns):
            terms = sites.terms_ptr[c], sites.terms_ptr[c + 1]
            gibbs.add_terms(field, scratch, X, *terms, sites.term_ptr, sites.others, sites.J)
        own = sites.own[sites.own_ptr[i] : sites.own_ptr[i + 1]]
        phi = sites.phi[sites.phi_ptr[i] : sites.phi_ptr[i + 1]].reshape(len(columns), q)
        exponent = own[:, None] + phi.T @ fields
        for k in range(q):
            moved = codes.copy()
            moved[:, i] = k
            change = exponent[k] - exponent[codes[:, i], np.arange(L)]
            np.testing.assert_allclose(-model.energy_of_codes(moved) - minus_H, change, atol=1e-10)


# ---------------------------------------------------------------------- draws on an interval


def site_cdf(b, c, low, high):
    """x and the distribution function of q(x) ∝ exp(b x − c x²/2), dense at the ends and at the vertex."""
    reach = (high - low) * np.geomspace(1e-10, 1.0, 40_001)
    grid = [low + reach, high - reach, np.linspace(low, high, 40_001)]
    if c > 0:
        grid.append(b / c + np.linspace(-10, 10, 40_001) / np.sqrt(c))
    x = np.unique(np.clip(np.concatenate(grid), low, high))
    # The exponent less its largest value, in factored form: b x − c x²/2 itself may have lost all digits.
    top = min((low, high, min(max(b / c, low), high) if c > 0 else low), key=lambda y: -(b * y - 0.5 * c * y * y))
    g = (x - top) * (b - 0.5 * c * (x + top))
    density = np.exp(g - g.max())
    steps = 0.5 * (density[1:] + density[:-1]) * np.diff(x)
    return x, np.concatenate([[0.0], np.cumsum(steps)]) / steps.sum()


SITES = [
    *product([0.0, 0.3, -2.0, 50.0, -1e4], [0.0, 1e-13, 0.5, 4.0, 40.0, 1e4, -1e-13, -0.5, -4.0, -40.0, -1e4]),
    *[(0.9 * c, c) for c in (1.0, 30.0, 1e5, -1.0, -30.0)],  # a vertex off the middle
    *[(1.45 * c, c) for c in (1.0, 30.0, 1e5)],  # near an end
    *[(1.55 * c, c) for c in (1.0, 30.0, 1e5)],  # just outside
]


def interval_draws(b, c, low, high, count, seed):
    state = np.random.SeedSequence(seed).generate_state(4 * count, np.uint64).reshape(4, count)
    x = np.empty(count)
    draws.draw_interval(x, np.full(count, b), c, np.array([low, high]), state)
    return x


@pytest.mark.parametrize(("b", "c"), SITES)
def test_draws_on_an_interval(b, c):
    low, high = -1.0, 1.5
    x = interval_draws(b, c, low, high, 20_000, seed=5)
    assert low <= x.min()
    assert x.max() <= high
    grid, cdf = site_cdf(b, c, low, high)
    assert stats.kstest(np.interp(x, grid, cdf), "uniform").pvalue > 1e-8
    # The moments of the alphabet are computed in another way; they must agree too.
    site = Alphabet(Interval(low, high)).site_moments(np.array(b), np.array(c))
    assert abs(x.mean() - site.m) < 6.5 * np.sqrt(site.V / len(x)) + 1e-12


@pytest.mark.parametrize(("b", "c"), [(0.3, 0.5), (-2.0, 4.0), (50.0, 0.0), (0.3, -4.0), (30.0, 30.0)])
def test_wrong_draws_on_an_interval_are_caught(b, c):
    x = interval_draws(b, c, -1.0, 1.5, 20_000, seed=5)
    grid, cdf = site_cdf(1.3 * b + 0.2, c, -1.0, 1.5)
    assert stats.kstest(np.interp(x, grid, cdf), "uniform").pvalue < 1e-8


def test_draws_on_an_interval_never_wait():
    """Rejection accepts at least four in ten proposals, so that no draw takes long: at most 12 uniforms on average."""
    for b, c in SITES:
        seed = np.random.SeedSequence(5)
        state = seed.generate_state(4, np.uint64).reshape(4, 1)
        twin, x = Xoshiro(state[:, 0]), np.empty(1)
        for _ in range(300):
            draws.draw_interval(x, np.array([b]), c, np.array([-1.0, 1.5]), state)
        used = 0
        while twin.s != [int(s) for s in state[:, 0]]:
            twin.bits()
            used += 1
            assert used < 12 * 300, (b, c)


# ---------------------------------------------------------------------- annealed importance sampling


def ais_model(alphabet, strength=0.4, seed=1):
    rng = np.random.default_rng(seed)
    n = 3
    couplings = {mu: strength * rng.normal() for k in (2, 3) for mu in combinations(range(n), k)}
    return BoltzmannMachine(0.3 * rng.normal(size=n), couplings, rng.normal(size=n), alphabet)


def mixed_model():
    """A region, a rating with its square, and a number on an interval."""
    table = np.array([0.5, -0.3, -0.2])
    couplings = {(0, 1): 0.5 * table, (0, 2): 2.0 * table, (1, 1, 2): 0.1, (1, 2): -0.3, (0, 1, 2): -0.4 * table}
    alphabets = [Nominal("n", "s", "w"), (1, 2, 3, 4), Interval(-1, 1.5)]
    return BoltzmannMachine([0, 0.1, 0.3], couplings, [0, 0.1, 0.4], alphabets, [[0.4, 0.1, -0.5], None, None])


AIS_MODELS = {
    **{str(a): ais_model(a) for a in [(-1, 1), (0, 1), (-1, 0, 1), (0, 1, 2, 3), Interval(-1, 1.5)]},
    "region, rating, interval": mixed_model(),
}


@pytest.mark.parametrize("name", AIS_MODELS)
def test_log_partition_and_its_error(name):
    """Over 60 seeds, the estimates scatter about the exact value as their standard errors say."""
    model = AIS_MODELS[name]
    found = np.array([ais.log_partition(model, n_chains=64, n_steps=50, random_state=s) for s in range(60)])
    z = (found[:, 0] - infer(model, "exact").log_partition) / found[:, 1]
    assert abs(z.mean()) < 6 / np.sqrt(60)
    assert 0.6 < np.sqrt((z**2).mean()) < 1.5
    # Negative control: the model without the coupling that ln Z feels most.
    wrong = []
    for mu, J in model.couplings().items():
        couplings = model.couplings() | {mu: 0.0 * np.asarray(J)}
        without = BoltzmannMachine(model.h, couplings, model.d, model.alphabet, model.site)
        wrong.append(infer(without, "exact").log_partition)
    off = max(abs(np.mean((found[:, 0] - value) / found[:, 1])) for value in wrong)
    assert off > 6 / np.sqrt(60)


def test_weights_are_unbiased_with_a_single_step():
    """⟨w⟩ = Z/Z₀ whatever the number of steps; one step is plain importance sampling."""
    model = ais_model((-1, 1), strength=0.2)
    exact = infer(model, "exact").log_partition
    estimate, error = ais.log_partition(model, n_chains=20_000, n_steps=1, random_state=0)
    assert error < 0.02
    assert abs(estimate - exact) < 6 * error
    better = ais.log_partition(model, n_chains=20_000, n_steps=30, random_state=0)[1]
    assert better < 0.3 * error


def test_log_partition_options():
    model = ais_model((-1, 1))
    one, two = (ais.log_partition(model, 70, 20, random_state=3, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert one == two
    gaussian = BoltzmannMachine([0.5, 0.1], {(0, 1): 0.3}, d=1.0, alphabet="real")
    assert ais.log_partition(gaussian) == (infer(gaussian, "exact").log_partition, 0.0)
    independent = BoltzmannMachine([0.5, 0.1], {})
    assert ais.log_partition(independent, 8, 3) == pytest.approx((np.log(4 * np.cosh(0.5) * np.cosh(0.1)), 0.0))
    with pytest.raises(ValueError, match="n_chains=1"):
        ais.log_partition(model, n_chains=1)
    with pytest.raises(ValueError, match="n_steps=0"):
        ais.log_partition(model, n_steps=0)
