"""Samplers × models × alphabets against brute-force enumeration, with broken samplers that the same battery must catch.

The battery compares frequencies of states (G-test) and moments (z-scores) of nearly independent samples with the exact
ones, and returns one p-value, corrected for the number of comparisons. A case alarms below 1e-8; with about a hundred
cases, the family false-alarm rate is about 1e-6.
"""

import os
import signal
import sys
import threading
import time
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest
from scipy import stats

from hbm_learn import BoltzmannMachine, Interval
from hbm_learn.sampling import METHODS, chains, sample
from hbm_learn.sampling.tempering import MIN_REPLICAS

ALARM = 1e-8
ALPHABETS = {
    "spin": (-1, 1),
    "bit": (0, 1),
    "ternary": (-1, 0, 1),
    "four": (0, 1, 2, 3),
    "interval": Interval(-1.0, 1.5),
}
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
        self.alphabet, n = model.alphabet, model.n_features
        if self.alphabet.is_finite:
            self.edges = 0.5 * (self.alphabet.nodes[1:] + self.alphabet.nodes[:-1])
            nodes, w = self.alphabet.nodes, np.ones(self.alphabet.size)
        else:  # three bins a variable, six Gauss–Legendre nodes in each
            cuts = np.linspace(*self.alphabet.bounds, 4)
            self.edges = cuts[1:-1]
            t, u = np.polynomial.legendre.leggauss(6)
            half = 0.5 * np.diff(cuts)[:, None]
            nodes, w = (cuts[:-1, None] + half * (t + 1)).ravel(), (half * u).ravel()
        x = np.stack(np.meshgrid(*[nodes] * n, indexing="ij"), axis=-1).reshape(-1, n)
        log_p = x @ model.h - 0.5 * x**2 @ model.d
        for mu, J in model.couplings().items():
            log_p += J * x[:, list(mu)].prod(axis=1)
        weight = np.prod(np.stack(np.meshgrid(*[w] * n, indexing="ij"), axis=-1).reshape(-1, n), axis=1)
        p = np.exp(log_p) * weight
        self.log_partition = float(np.log(p.sum()))
        p /= p.sum()
        self.cells = np.bincount(self.cell(x), weights=p, minlength=(len(self.edges) + 1) ** n)
        features = self.features(x)
        self.mean = p @ features
        self.deviation = np.sqrt(p @ (features - self.mean) ** 2)

    def cell(self, X):
        return np.searchsorted(self.edges, X) @ (len(self.edges) + 1) ** np.arange(X.shape[1])

    def features(self, X):
        """x_i, x_i², and products of two, three and four variables."""
        n = X.shape[1]
        products = [X[:, list(mu)].prod(axis=1) for k in range(1, 5) for mu in combinations(range(n), k)]
        return np.stack([*products, *(X**2).T], axis=1).astype(float)


@cache
def make_case(name, order, strength):
    model = make_model(ALPHABETS[name], order, strength, seed=11)
    return model, Oracle(model)


def battery(X, oracle):
    """The p-value of the samples under the exact distribution, Bonferroni-corrected over its comparisons."""
    N = len(X)
    observed = np.bincount(oracle.cell(X), minlength=len(oracle.cells)).astype(float)
    expected = N * oracle.cells
    rare = expected < 10  # pooled, so that the χ² tail holds
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
        keep = expected > 1
        observed, expected = observed[keep], expected[keep] * observed[keep].sum() / expected[keep].sum()
    p_states = stats.power_divergence(observed, expected, lambda_="log-likelihood").pvalue
    moves = oracle.deviation > 1e-12
    error = oracle.features(X).mean(axis=0) - oracle.mean
    assert np.abs(error[~moves]).max(initial=0.0) < 1e-12
    z = error[moves] / (oracle.deviation[moves] / np.sqrt(N))
    p_moments = min(1.0, 2 * stats.norm.sf(np.abs(z).max()) * len(z))
    return min(1.0, 2 * min(p_states, p_moments))


CASES = [
    (method, name, order, strength)
    for method, name, order, strength in product(METHODS, ALPHABETS, (2, 3, 4), (0.1, 0.4))
    if not (method == "exact" and name == "interval")
]


@pytest.mark.parametrize(("method", "name", "order", "strength"), CASES)
def test_samples_follow_the_model(method, name, order, strength):
    model, oracle = make_case(name, order, strength)
    X = sample(model, N_SAMPLES, method, random_state=7, **OPTIONS[method])
    assert X.shape == (N_SAMPLES, 4)
    assert X.dtype == model.alphabet.dtype
    assert battery(X, oracle) > ALARM


# ---------------------------------------------------------------------- broken samplers, which the battery must catch


@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_a_wrong_field_of_one_interaction_is_caught(method, name, monkeypatch):
    """One member of one interaction sees it with the wrong sign; of the last site, as later draws would mend it."""
    model, oracle = make_case(name, 3, 0.4)
    pack = chains.pack_sites

    def broken(model):
        h, d, site_ptr, term_ptr, others, J, values, kind = pack(model)
        J, last = J.copy(), site_ptr[-2]
        J[last + np.argmax(np.abs(J[last:]))] *= -1.0
        return h, d, site_ptr, term_ptr, others, J, values, kind

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
    positive = {
        method: sample(model, 8 * 200, method, random_state=3, **options).sum(axis=1) > 0
        for method in ("gibbs", "tempering")
    }
    assert positive["gibbs"].all()
    assert 0.4 < positive["tempering"].mean() < 0.6


def test_tempering_is_right_where_gibbs_is_stuck():
    model = BoltzmannMachine([0.2, -0.1, 0.1, 0.0], {(0, 1): 3.0, (1, 2): -3.0, (2, 3): 3.0, (0, 1, 2): 0.3})
    oracle = Oracle(model)
    X = sample(model, N_SAMPLES, "tempering", random_state=7, n_chains=100, burn_in=100, thin=30)
    assert battery(X, oracle) > ALARM
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


@pytest.mark.parametrize("name", ["spin", "ternary", "interval"])
@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_samples_depend_on_the_seed_and_not_on_n_jobs(method, name):
    model = make_model(ALPHABETS[name], 3, 0.3, seed=5)
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


def test_diagnostics_without_arviz(monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_stats", None)
    monkeypatch.setitem(sys.modules, "arviz_stats.base", None)
    model = BoltzmannMachine([0.1, 0.2], {(0, 1): 0.3})
    assert sample(model, 10).shape == (10, 2)
    with pytest.raises(ImportError, match=r"hbm-learn\[diagnostics\]"):
        sample(model, 1000, n_chains=4, return_diagnostics=True)
