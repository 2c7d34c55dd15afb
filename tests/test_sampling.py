"""Samplers × models × alphabets against brute-force enumeration, with broken samplers that the same battery must catch.

The battery compares frequencies of states (G-test) and moments (z-scores) of nearly independent samples with the exact
ones, and returns one p-value, corrected for the number of comparisons. A case alarms below 1e-8; with a few hundred
cases, the family false-alarm rate is about 1e-6.
"""

import os
import signal
import sys
import threading
import time
from functools import cache
from itertools import combinations, pairwise, product

import numpy as np
import pytest
from oracle import DOSE, REGION, SPACES, Spec, exponents, random_mixed
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from hbm_learn import BoltzmannMachine, Interval, Nominal
from hbm_learn.sampling import METHODS, chains, sample
from hbm_learn.sampling.diagnostics import traces
from hbm_learn.sampling.tempering import MIN_REPLICAS

ALARM = 1e-8
ALPHABETS = {
    "spin": (-1, 1),
    "bit": (0, 1),
    "ternary": (-1, 0, 1),
    "four": (0, 1, 2, 3),
    "interval": Interval(-1.0, 1.5),
}
# Variables of different kinds.
MIXED = {**SPACES, "with intervals": Spec([Interval(-1.0, 1.5), REGION, (0, 1), DOSE, Interval(0.0, 2.0)], powers=2)}
# Options under which draws are nearly independent, and the number of them.
OPTIONS = {
    "exact": {},
    "gibbs": {"n_chains": 5000, "burn_in": 60, "thin": 20},
    "tempering": {"n_chains": 100, "burn_in": 60, "thin": 15, "n_replicas": 4},
}
N_SAMPLES = 20_000


def make_model(alphabet, order, strength, seed):
    """All interactions up to an order on 4 variables, with fields and anisotropies of both signs."""
    rng = np.random.default_rng([seed, order])
    couplings = {mu: strength * rng.normal() for k in range(2, order + 1) for mu in combinations(range(4), k)}
    low, high = (alphabet.low, alphabet.high) if isinstance(alphabet, Interval) else (min(alphabet), max(alphabet))
    scale = 2.0 / (high - low)
    couplings = {mu: J * scale ** len(mu) for mu, J in couplings.items()}
    return BoltzmannMachine(0.3 * scale * rng.normal(size=4), couplings, 0.5 * rng.normal(size=4), alphabet)


class Oracle:
    """Cells, probabilities and moments by summing exp(−H) over all states (or over a fine product grid)."""

    def __init__(self, model):
        self.space = model.space
        self.edges, nodes, weights = zip(*map(self.axis, self.space.alphabets))
        self.sizes = [len(edges) + 1 for edges in self.edges]
        x = np.stack(np.meshgrid(*nodes, indexing="ij"), axis=-1).reshape(-1, len(nodes))
        weight = np.prod(np.stack(np.meshgrid(*weights, indexing="ij"), axis=-1).reshape(x.shape), axis=1)
        p = np.exp(exponents(model, x)) * weight
        self.log_partition = float(np.log(p.sum()))
        p /= p.sum()
        self.cells = np.bincount(self.cell(x), weights=p, minlength=int(np.prod(self.sizes)))
        features = self.features(x)
        self.mean = p @ features
        self.deviation = np.sqrt(p @ (features - self.mean) ** 2)

    @staticmethod
    def axis(alphabet):
        """Edges between the cells of a variable, and its points with their weights: codes, or values on an interval."""
        if alphabet.is_finite:
            return np.arange(alphabet.size - 1) + 0.5, np.arange(float(alphabet.size)), np.ones(alphabet.size)
        cuts = np.linspace(*alphabet.bounds, 4)  # three bins, six Gauss–Legendre nodes in each
        t, u = np.polynomial.legendre.leggauss(6)
        half = 0.5 * np.diff(cuts)[:, None]
        return cuts[1:-1], (cuts[:-1, None] + half * (t + 1)).ravel(), (half * u).ravel()

    def cell(self, codes):
        digits = np.stack([np.searchsorted(edges, x) for edges, x in zip(self.edges, codes.T)], axis=1)
        return digits @ np.cumprod([1, *self.sizes])[:-1]

    def features(self, codes):
        """φ_c, φ_c², and products of two, three and four columns of different variables."""
        phi = [
            codes[:, [i]] if table is None else table[codes[:, i].astype(int)]
            for i, table in enumerate(self.space.functions)
        ]
        site = np.repeat(np.arange(len(phi)), [table.shape[1] for table in phi])
        phi = np.hstack(phi).astype(float)
        products = [
            phi[:, list(mu)].prod(axis=1)
            for k in range(1, 5)
            for mu in combinations(range(len(site)), k)
            if len(set(site[list(mu)])) == k
        ]
        return np.stack([*products, *(phi**2).T], axis=1)


@cache
def make_case(name, order, strength):
    if name in MIXED:
        model = random_mixed(MIXED[name], order, 2.5 * strength, seed=11)
    else:
        model = make_model(ALPHABETS[name], order, strength, seed=11)
    return model, Oracle(model)


def battery(X, oracle):
    """The p-value of the samples under the exact distribution, Bonferroni-corrected over its comparisons."""
    N, codes = len(X), oracle.space.encode(X)
    observed = np.bincount(oracle.cell(codes), minlength=len(oracle.cells)).astype(float)
    expected = N * oracle.cells
    rare = expected < 10  # pooled, so that the χ² tail holds
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        keep = expected > 1
        observed, expected = observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()
    p_states = stats.power_divergence(observed, expected, lambda_="log-likelihood").pvalue
    moves = oracle.deviation > 1e-12
    error = oracle.features(codes).mean(axis=0) - oracle.mean
    assert np.abs(error[~moves]).max(initial=0.0) < 1e-12
    z = error[moves] / (oracle.deviation[moves] / np.sqrt(N))
    p_moments = min(1.0, 2 * stats.norm.sf(np.abs(z).max()) * len(z))
    assert np.isfinite([p_states, p_moments]).all()
    return min(1.0, 2 * min(p_states, p_moments))


CASES = [
    (method, name, order, strength)
    for method, name, order, strength in [
        *product(METHODS, ALPHABETS, (2, 3, 4), (0.1, 0.4)),
        *product(METHODS, MIXED, (2, 3, 4), (0.4,)),
    ]
    if not (method == "exact" and "interval" in name)
]


@pytest.mark.parametrize(("method", "name", "order", "strength"), CASES)
def test_samples_follow_the_model(method, name, order, strength):
    model, oracle = make_case(name, order, strength)
    X = sample(model, N_SAMPLES, method, random_state=7, **OPTIONS[method])
    assert X.shape == (N_SAMPLES, model.n_features)
    if name in ALPHABETS:
        assert X.dtype == model.alphabet.dtype
    assert battery(X, oracle) > ALARM


# ---------------------------------------------------------------------- broken samplers, which the battery must catch


@pytest.mark.parametrize("name", [*ALPHABETS, *MIXED])
@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_a_wrong_field_of_one_interaction_is_caught(method, name, monkeypatch):
    """One member of one interaction sees it with the wrong sign; of the last site, as later draws would mend it."""
    model, oracle = make_case(name, 3, 0.4)
    pack = chains.pack_sites
    phi = model.space.columns(model.space.encode(sample(model, 1000, "gibbs", random_state=0)))

    def broken(model):
        """The term that moves the field of the last variable most."""
        sites = pack(model)
        J, last = sites.J.copy(), sites.terms_ptr[model.space.column_ptr[-2]]
        others = [sites.others[sites.term_ptr[t] : sites.term_ptr[t + 1]] for t in range(last, len(J))]
        moves = [abs(J[last + t]) * phi[:, mu].prod(axis=1).std() for t, mu in enumerate(others)]
        J[last + np.argmax(moves)] *= -1.0
        return sites._replace(J=J)

    monkeypatch.setattr(chains, "pack_sites", broken)
    X = sample(model, N_SAMPLES, method, random_state=7, **OPTIONS[method])
    assert battery(X, oracle) < ALARM


def test_stale_states_are_caught():
    """All sites updated from the state before the sweep: a plausible, wrong sampler."""
    model, oracle = make_case("spin", 3, 0.4)
    rng = np.random.default_rng(0)
    X = rng.choice([-1.0, 1.0], size=(N_SAMPLES, 4))
    for _ in range(60):
        X = np.where(rng.random(X.shape) < 1 / (1 + np.exp(-2 * model.local_fields(X))), 1.0, -1.0)
    assert battery(X.astype(int), oracle) < ALARM


def test_a_biased_swap_is_caught(monkeypatch):
    """Every swap accepted, whatever the energies: each replica sweeps correctly, the exchange does not balance."""
    model, oracle = make_case("spin", 3, 0.4)
    init = chains.Chains.__init__

    def broken(self, *args, **kwargs):
        init(self, *args, **kwargs)
        indptr, members, weights = self.couplings
        nothing = 0.0 * weights
        nothing.setflags(write=False)  # as the weights of a model: one compilation serves both
        self.couplings = (indptr, members, nothing)

    monkeypatch.setattr(chains.Chains, "__init__", broken)
    X = sample(model, N_SAMPLES, "tempering", random_state=7, **OPTIONS["tempering"])
    assert battery(X, oracle) < ALARM


@pytest.mark.parametrize("name", ALPHABETS)
def test_a_biased_draw_is_caught(name):
    model, oracle = make_case(name, 2, 0.1)
    low, high = model.alphabet.bounds
    shifted = BoltzmannMachine(
        model.h + np.array([0.2 / (high - low), 0, 0, 0]), model.couplings(), model.d, model.alphabet
    )
    X = sample(shifted, N_SAMPLES, "gibbs", random_state=7, **OPTIONS["gibbs"])
    assert battery(X, oracle) < ALARM


@pytest.mark.parametrize("name", MIXED)
def test_a_biased_weight_of_one_value_is_caught(name):
    """θ of one value of one variable is 0.2 too large; every variable in turn."""
    model, oracle = make_case(name, 2, 0.1)
    for i, alphabet in enumerate(model.space.alphabets):
        if alphabet.is_finite:
            site = list(model.site)
            site[i] = (0.0 if site[i] is None else site[i]) + 0.3 * (np.arange(alphabet.size) == 1)
            shifted = BoltzmannMachine(model.h, model.couplings(), model.d, model.alphabet, site)
            X = sample(shifted, N_SAMPLES, "gibbs", random_state=7, **OPTIONS["gibbs"])
            assert battery(X, oracle) < ALARM, i


def test_duplicated_samples_are_caught():
    model, oracle = make_case("spin", 2, 0.1)
    X = sample(model, N_SAMPLES // 40, "exact", random_state=7)
    assert battery(np.repeat(X, 40, axis=0), oracle) < ALARM


# ---------------------------------------------------------------------- barriers


def ferromagnet(n=20, J=0.15):
    return BoltzmannMachine(np.zeros(n), J * (1.0 - np.eye(n)))


def test_tempering_crosses_a_barrier_that_gibbs_does_not():
    """From the well of all +1, in the same number of sweeps."""
    model = ferromagnet()
    options = {"n_chains": 8, "burn_in": 200, "thin": 5, "initial": np.ones(20)}
    with pytest.warns(ConvergenceWarning, match="second phase"):
        stuck = sample(model, 8 * 200, "gibbs", random_state=3, **options)
    assert (stuck.sum(axis=1) > 0).all()
    crossing = sample(model, 8 * 200, "tempering", random_state=3, **options)
    assert 0.4 < (crossing.sum(axis=1) > 0).mean() < 0.6


def test_tempering_is_right_where_gibbs_is_stuck():
    model = BoltzmannMachine([0.2, -0.1, 0.1, 0.0], {(0, 1): 3.0, (1, 2): -3.0, (2, 3): 3.0, (0, 1, 2): 0.3})
    oracle = Oracle(model)
    X = sample(model, N_SAMPLES, "tempering", random_state=7, n_chains=100, burn_in=100, thin=30)
    assert battery(X, oracle) > ALARM
    with pytest.warns(ConvergenceWarning, match="second phase"):
        stuck = sample(model, N_SAMPLES, "gibbs", random_state=7, initial=[1, 1, -1, -1], **OPTIONS["gibbs"])
    assert battery(stuck, oracle) < ALARM


def test_the_ladder_gives_even_swaps():
    diagnostics = sample(ferromagnet(), 4000, "tempering", random_state=0, return_diagnostics=True)[1]
    ladder, acceptance = diagnostics.ladder, diagnostics.swap_acceptance
    assert ladder[0] == 0
    assert ladder[-1] == 1
    assert (np.diff(ladder) > 0).all()
    assert len(acceptance) == len(ladder) - 1
    assert acceptance.min() > 0.25
    assert acceptance.max() < 0.85
    few = sample(ferromagnet(), 4000, "tempering", random_state=0, n_replicas=3, return_diagnostics=True)[1]
    assert few.swap_acceptance.mean() < acceptance.mean() - 0.1


def test_the_ladder_without_couplings_accepts_every_swap():
    diagnostics = sample(BoltzmannMachine([0.5, -0.5], {}), 40, "tempering", random_state=0, return_diagnostics=True)[1]
    np.testing.assert_array_equal(diagnostics.swap_acceptance, 1.0)
    assert len(diagnostics.ladder) == MIN_REPLICAS


# ---------------------------------------------------------------------- behaviour


@pytest.mark.parametrize("name", ["spin", "ternary", "interval", "mixed powers", "with intervals"])
@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_samples_depend_on_the_seed_and_not_on_n_jobs(method, name):
    model = make_case(name, 3, 0.4)[0]
    options = {"n_chains": 70, "burn_in": 5, "thin": 2}
    one = sample(model, 201, method, random_state=1, n_jobs=1, **options)
    two = sample(model, 201, method, random_state=1, n_jobs=2, **options)
    np.testing.assert_array_equal(one, two)
    assert (one != sample(model, 201, method, random_state=2, **options)).any()


@pytest.mark.parametrize("method", METHODS)
def test_every_kind_of_random_state_is_taken(method):
    model = make_model((-1, 1), 2, 0.3, seed=5)
    for make in (
        lambda: 5,
        lambda: np.random.SeedSequence(5),
        lambda: np.random.default_rng(5),
        lambda: np.random.RandomState(5),
    ):
        np.testing.assert_array_equal(sample(model, 50, method, make()), sample(model, 50, method, make()))
    generator = np.random.default_rng(5)
    assert (sample(model, 50, method, generator) != sample(model, 50, method, generator)).any()
    with pytest.raises(ValueError, match="random_state='a'"):
        sample(model, 50, method, "a")


def test_native_calls_are_short_and_their_length_changes_nothing(monkeypatch):
    model = make_model((-1, 1), 3, 0.3, seed=5)
    whole = sample(model, 200, random_state=1, n_chains=40, burn_in=7, thin=3)
    monkeypatch.setattr(chains, "CHUNK", 1.0)
    np.testing.assert_array_equal(whole, sample(model, 200, random_state=1, n_chains=40, burn_in=7, thin=3))


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_interrupt(n_jobs):
    model = make_model((-1, 1), 3, 0.3, seed=5)
    sample(model, 64, n_chains=64, burn_in=1)  # compiled before the clock starts
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    start = time.monotonic()
    # A shell starts background jobs with SIGINT ignored, and Python then leaves it so.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            sample(model, 64, n_chains=64, burn_in=10**12, n_jobs=n_jobs)
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - start < 10


@pytest.mark.filterwarnings("ignore:Chains from far states:sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_initial_states_are_honoured(method):
    """In wells too deep to leave, every chain stays where it was put; a state for each chain or one for all."""
    n, n_chains = 8, 6
    model = BoltzmannMachine(np.zeros(n), 30.0 * (1.0 - np.eye(n)))
    starts = np.where(np.arange(n_chains) % 2, 1, -1)[:, None] * np.ones((n_chains, n), dtype=int)
    options = {"n_chains": n_chains, "burn_in": 0, "thin": 1} | ({"n_replicas": 2} if method == "tempering" else {})
    if method == "gibbs":
        X = sample(model, 5 * n_chains, method, random_state=0, initial=starts, **options)
        np.testing.assert_array_equal(X.reshape(5, n_chains, n), np.broadcast_to(starts, (5, n_chains, n)))
    X = sample(model, n_chains, method, random_state=0, initial=starts, **options)
    np.testing.assert_array_equal(X, starts)
    X = sample(model, n_chains, method, random_state=0, initial=starts[0], **options)
    np.testing.assert_array_equal(X, np.broadcast_to(starts[0], X.shape))


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_initial_labels_are_honoured(method):
    """A region that decides all others, too strongly to change: labels and numbers in one state."""
    n_chains, strong = 4, 40.0
    follow = strong * (np.eye(3) - 1 / 3)
    alphabets = [REGION, REGION, (0, 0.5, 3), Interval(-1, 1)]
    model = BoltzmannMachine([0, 0, 0, 0], {(0, 1): follow, (0, 2): strong * np.array([-1.0, 0.0, 1.0])}, 0, alphabets)
    starts = [
        ["north", "north", 0, 0.5],
        ["west", "west", 3, -1.0],
        ["north", "north", 0, 0.25],
        ["west", "west", 3, 1],
    ]
    options = {"n_chains": n_chains, "burn_in": 0, "thin": 1} | ({"n_replicas": 2} if method == "tempering" else {})
    X = sample(model, n_chains, method, random_state=0, initial=starts, **options)
    assert X[:, :3].tolist() == [row[:3] for row in starts]
    X = sample(model, n_chains, method, random_state=0, initial=starts[1], **options)
    assert X[:, :3].tolist() == [starts[1][:3]] * n_chains
    for value, match in [("east", "variable 1 is 'east', which is not in"), (0, "variable 1 is 0,")]:
        with pytest.raises(ValueError, match=match):
            sample(model, n_chains, method, initial=["north", value, 0, 0.5], **options)
    with pytest.raises(ValueError, match=r"chain 0, variable 3 is 1\.5"):
        sample(model, n_chains, method, initial=["north", "north", 0, 1.5], **options)


def test_rows_are_draws_of_all_chains_in_turn():
    model = BoltzmannMachine(np.zeros(2), {(0, 1): 30.0})
    starts = np.array([[1, 1], [-1, -1], [1, 1]])
    X = sample(model, 7, random_state=0, n_chains=3, burn_in=0, thin=1, initial=starts)
    np.testing.assert_array_equal(X, starts[np.arange(7) % 3])


@pytest.mark.parametrize("dtype", [np.int8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("method", METHODS)
def test_dtype_is_that_of_the_alphabet(method, dtype):
    model = BoltzmannMachine([0.1, 0.2], {(0, 1): 0.3}, alphabet=np.array([-1, 1], dtype=dtype))
    X = sample(model, 10, method, random_state=0)
    assert X.dtype == dtype
    assert set(np.unique(X)) <= {-1, 1}


@pytest.mark.parametrize("method", METHODS)
def test_dtype_of_variables_of_different_kinds(method):
    """Numbers take the dtype that holds all of them; with labels they are objects, each as it was given."""
    integers = np.array([-1, 1], dtype=np.int8)
    model = BoltzmannMachine([0.1, 0.2], {(0, 1): 0.3}, alphabet=[integers, np.array([0, 1, 2], dtype=np.int32)])
    assert sample(model, 10, method, random_state=0).dtype == np.int32
    X = sample(BoltzmannMachine([0.1, 0.2], {}, alphabet=[integers, (0, 0.5, 3)]), 100, method, random_state=0)
    assert X.dtype == np.float64
    assert [set(x) for x in X.T] == [{-1, 1}, {0, 0.5, 3}]
    model = BoltzmannMachine([0.0, 0.2, 0.0], {}, alphabet=[REGION, (0, 1), Nominal(10, 20)])
    X = sample(model, 100, method, random_state=0)
    assert X.dtype == object
    assert [set(x) for x in X.T] == [{"north", "south", "west"}, {0, 1}, {10, 20}]
    X = sample(BoltzmannMachine([0.0, 0.0], {}, alphabet=REGION), 100, method, random_state=0)
    assert X.dtype == object
    assert set(X.ravel()) == {"north", "south", "west"}


def test_auto_is_exact_where_states_can_be_listed():
    small = make_case("mixed", 3, 0.4)[0]
    np.testing.assert_array_equal(sample(small, 50, random_state=3), sample(small, 50, "exact", random_state=3))
    real = BoltzmannMachine([0.0, 0.1], {(0, 1): 0.3}, 1.0, "real")
    np.testing.assert_array_equal(sample(real, 50, random_state=3), sample(real, 50, "exact", random_state=3))
    chained = {"n_chains": 10}
    for model, options in [
        (BoltzmannMachine(np.zeros(21), {(0, 1): 1.0}), {}),
        (make_case("with intervals", 3, 0.4)[0], {}),
        (small, chained),
        (real, chained),
    ]:
        X = sample(model, 50, random_state=3, **options)
        np.testing.assert_array_equal(X, sample(model, 50, "gibbs", random_state=3, **options))
    listed = BoltzmannMachine(np.zeros(20), {(0, 1): 1.0})
    np.testing.assert_array_equal(sample(listed, 5, random_state=3), sample(listed, 5, "exact", random_state=3))


@pytest.mark.parametrize("name", ["spin", "four", "interval", *MIXED])
def test_states_and_columns_of_chains_belong_together(name):
    model = make_case(name, 3, 0.4)[0]
    walkers = chains.Chains(model, [5, 3], np.random.SeedSequence(0))
    for _ in range(3):
        codes, columns = walkers.states(), walkers.columns()
        assert codes.shape == (8, model.n_features)
        assert codes.dtype == (np.uint8 if model.space.is_finite else np.float64)
        np.testing.assert_array_equal(model.space.columns(codes), columns)
        np.testing.assert_array_equal(walkers.draw(2, 3)[1], walkers.states())
        assert (walkers.columns() != columns).any()
    again = chains.Chains(model, [5, 3], np.random.SeedSequence(1), initial=codes)
    np.testing.assert_array_equal(again.states(), codes)
    np.testing.assert_array_equal(again.columns(), columns)


def test_chains_go_on_with_another_model():
    model = make_case("mixed powers", 3, 0.4)[0]
    walkers = chains.Chains(model, [5, 3], np.random.SeedSequence(0))
    codes = walkers.states()
    last = [100.0 * (np.arange(q) == q - 1) for q in model.space.sizes]
    walkers.set_model(BoltzmannMachine.from_columns(model.space, last, model.columns, 0.0 * model.column_weights))
    np.testing.assert_array_equal(walkers.states(), codes)
    walkers.advance(1)
    np.testing.assert_array_equal(walkers.states(), np.broadcast_to(model.space.sizes - 1, codes.shape))


def test_chains_are_the_same_in_any_gauge():
    """The draws depend on the distribution and the seed, not on the functions that it is written with."""
    for name in ("mixed", "powers", "binary"):
        model = make_case(name, 3, 0.4)[0]
        rng = np.random.default_rng(0)
        other = model.in_space(model.space.standard([rng.dirichlet(np.full(q, 3.0)) for q in model.space.sizes]))
        one, two = (sample(m, 300, "gibbs", 1, n_chains=30, burn_in=3, thin=1) for m in (model, other))
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_extreme_parameters(method):
    """Fields far beyond the range of exp: the only state with any weight comes out, and no NaN."""
    for alphabet, expected in [((-1, 1), [1, -1]), ((0, 1, 2, 3), [3, 0]), (Interval(-1, 2), [2, -1])]:
        model = BoltzmannMachine([1e6, -1e6], {(0, 1): 1e3}, d=1.0, alphabet=alphabet)
        X = sample(model, 20, method, random_state=0)
        np.testing.assert_allclose(X, np.broadcast_to(expected, X.shape), atol=1e-4)


def test_one_variable_and_no_couplings():
    X = sample(BoltzmannMachine([0.5], {}), 40_000, random_state=0, burn_in=0, thin=1)
    assert abs(X.mean() - np.tanh(0.5)) < 6 * np.sqrt((1 - np.tanh(0.5) ** 2) / 40_000)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"burnin": 3}, "'burnin' is not an option of method 'gibbs'; its options are n_chains, burn_in"),
        ({"method": "gibs"}, "Did you mean 'gibbs'"),
        ({"burn_in": -1}, "burn_in=-1"),
        ({"thin": 0}, "thin=0"),
        ({"thin": 1.5}, "thin=1.5"),
        ({"n_chains": 0}, "n_chains=0"),
        ({"n_samples": 0}, "n_samples=0"),
        ({"n_samples": True}, "n_samples=True"),
        ({"method": "tempering", "n_replicas": 1}, "n_replicas=1"),
        ({"method": "exact", "burn_in": 1}, "'burn_in' is not an option of method 'exact'"),
        ({"initial": [1, 1]}, r"initial has shape \(2,\); expected \(3,\)"),
        ({"initial": [1, 0.5, 1]}, r"initial: chain 0, variable 1 is 0.5, which is not in Alphabet\(\(-1, 1\)\)"),
        ({"initial": [1, np.nan, 1]}, "variable 1 is nan"),
        ({"return_diagnostics": True}, "raise n_samples to at least 40, or lower n_chains"),
    ],
)
def test_bad_options_are_refused_by_name(options, match):
    model = BoltzmannMachine([0.1, 0.2, 0.3], {(0, 1): 0.3})
    with pytest.raises(ValueError, match=match):
        sample(model, **{"n_samples": 10, **options})


def test_initial_outside_an_interval_and_exact_on_one():
    model = BoltzmannMachine([0.1, 0.2], {(0, 1): 0.3}, alphabet=Interval(-1, 1))
    with pytest.raises(ValueError, match=r"variable 0 is 1\.5"):
        sample(model, 10, initial=[1.5, 0.0])
    with pytest.raises(ValueError, match='use method "gibbs"'):
        sample(model, 10, "exact")
    mixed = BoltzmannMachine([0.1, 0.2], {(0, 1): 0.3}, alphabet=[(0, 1), Interval(-1, 1)])
    with pytest.raises(ValueError, match=r'of variable 1 has no list: use method "gibbs"'):
        sample(mixed, 10, "exact")


# ---------------------------------------------------------------------- Gaussian models


@pytest.mark.parametrize("method", METHODS)
def test_real_models_are_sampled_from_their_gaussian(method):
    J = np.array([[0.0, 0.4, -0.3], [0.4, 0.0, 0.2], [-0.3, 0.2, 0.0]])
    model = BoltzmannMachine([0.5, -1.0, 0.2], J, d=[1.0, 2.0, 1.5], alphabet="real")
    X = sample(model, 50_000, method, random_state=0)
    C = np.linalg.inv(np.diag([1.0, 2.0, 1.5]) - J)

    def alarms(m, C):
        """Whitened, the samples are standard normal: Kolmogorov–Smirnov of every coordinate, and their covariance."""
        Z = np.linalg.solve(np.linalg.cholesky(C), (X - m).T)
        uneven = min(stats.kstest(z, "norm").pvalue for z in Z) < ALARM
        return uneven or np.abs(Z @ Z.T / len(X) - np.eye(3)).max() > 6 * np.sqrt(2 / len(X))

    assert not alarms(C @ model.h, C)
    assert alarms(C @ model.h, 1.05 * C)
    assert alarms(C @ model.h + 0.05, C)
    assert alarms(C @ model.h, C + np.diag(np.diag(C)) * 0.05)


@pytest.mark.parametrize("method", METHODS)
def test_real_models_without_a_gaussian_are_refused(method):
    model = BoltzmannMachine([0.0, 0.0], {(0, 1): 2.0}, d=1.0, alphabet="real")
    with pytest.raises(ValueError, match="not positive definite"):
        sample(model, 10, method)


# ---------------------------------------------------------------------- diagnostics


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
@pytest.mark.parametrize("alphabet", [(-1, 1), "real"])
def test_diagnostics_of_chains_that_mix(method, alphabet):
    model = BoltzmannMachine([0.1, 0.2, 0.3], {(0, 1): 0.3, (1, 2): -0.2}, d=1.0, alphabet=alphabet)
    X, found = sample(model, 4000, method, random_state=0, n_chains=8, return_diagnostics=True)
    assert X.shape == (4000, 3)
    assert (found.n_chains, found.n_draws) == (8, 500)
    assert found.r_hat.shape == found.ess_bulk.shape == (3,)
    assert found.r_hat.max() < 1.01
    assert found.energy_r_hat < 1.01
    assert found.ess_bulk.min() > 2000
    assert found.energy_ess_bulk > 2000
    assert "agree" in found.status


def test_diagnostics_of_chains_that_do_not_mix():
    model = ferromagnet(J=0.3)
    starts = np.where(np.arange(8) % 2, 1, -1)[:, None] * np.ones(20)
    with pytest.warns(ConvergenceWarning, match="The chains disagree"):
        found = sample(model, 800, random_state=0, n_chains=8, initial=starts, return_diagnostics=True)[1]
    assert found.r_hat.min() > 1.5
    assert found.ess_bulk.max() < 100
    assert "disagree" in found.status
    assert 'try method "tempering"' in found.status
    few = sample(model, 40, "tempering", random_state=0, n_chains=8, burn_in=0, n_replicas=2, return_diagnostics=True)[
        1
    ]
    assert "try more n_replicas" in few.status


def test_diagnostics_of_frozen_variables():
    model = BoltzmannMachine([1e4, 0.0], {(0, 1): 0.1})
    found = sample(model, 800, random_state=0, n_chains=8, return_diagnostics=True)[1]
    assert np.isnan(found.r_hat[0])
    assert found.r_hat[1] < 1.02
    assert "1 variable(s) never changed" in found.status
    found = sample(BoltzmannMachine([1e4], {}), 800, random_state=0, n_chains=8, return_diagnostics=True)[1]
    assert "frozen" in found.status


@pytest.mark.parametrize("name", ["labels", "mixed powers", "with intervals"])
def test_diagnostics_of_variables_of_different_kinds(name):
    """One number for each variable, the worst of its functions."""
    from arviz_stats.base import array_stats

    model = make_case(name, 3, 0.1)[0]
    found = sample(model, 4000, "gibbs", random_state=4, n_chains=8, return_diagnostics=True)[1]
    assert found.r_hat.shape == found.ess_bulk.shape == (model.n_features,)
    assert found.r_hat.max() < 1.01
    assert found.ess_bulk.min() > 1500
    assert "agree" in found.status
    walkers = chains.Chains(model, chains.widths(8), np.random.SeedSequence(4))
    walkers.advance(1000)
    columns = traces(model, walkers.draw(500, 10)).transpose(2, 1, 0)
    r_hat = array_stats.rhat(columns, chain_axis=1, draw_axis=2)
    ess = array_stats.ess(columns, chain_axis=1, draw_axis=2)
    ptr = model.space.column_ptr
    for i, (lo, hi) in enumerate(pairwise(ptr)):
        assert found.r_hat[i] == pytest.approx(r_hat[lo:hi].max(), rel=1e-12)
        assert found.ess_bulk[i] == pytest.approx(ess[lo:hi].min(), rel=1e-12)
    assert found.energy_r_hat == pytest.approx(r_hat[-1], rel=1e-12)
    if name == "labels":  # the worst is not always the first
        assert (found.r_hat > r_hat[ptr[:-1]] + 1e-9).any()
        assert (found.ess_bulk < ess[ptr[:-1]] - 1).any()


def test_diagnostics_without_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_stats", None)
    monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    model = BoltzmannMachine([0.1, 0.2], {(0, 1): 0.3})
    assert sample(model, 10).shape == (10, 2)
    with pytest.raises(ImportError, match=r"hbm-learn\[diagnostics\]"):
        sample(model, 1000, n_chains=4, return_diagnostics=True)
