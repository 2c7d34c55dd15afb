"""Chains that disagree are told of; healthy ones are left alone. The annealed ln Z does not claim what it missed."""

import warnings
from functools import cache
from itertools import combinations
from math import lgamma

import numpy as np
import pytest
from oracle import SPACES, random_mixed
from sklearn.exceptions import ConvergenceWarning

from hbm_learn import HBM, BoltzmannMachine, Interval, Nominal, infer, sample
from hbm_learn.inference import log_partition
from hbm_learn.sampling import agreement, ais
from hbm_learn.sampling.chains import Chains, far_states, widths
from hbm_learn.sampling.diagnostics import nested_r_hat
from hbm_learn.space import Space


@cache
def coexistence(n=40, h=-0.35, J=0.0045):
    """All triplets alike, two phases of comparable weight; with ln Z and P(Σx > 0) by summing over Σx."""
    model = BoltzmannMachine(np.full(n, h), dict.fromkeys(combinations(range(n), 3), J))
    k = np.arange(n + 1)
    S = 2 * k - n
    log_w = np.array([lgamma(n + 1) - lgamma(a + 1) - lgamma(n - a + 1) for a in k])
    log_w = log_w + h * S + J * (S**3 - 3 * n * S + 2 * S) / 6
    log_z = float(np.logaddexp.reduce(log_w))
    return model, log_z, float(np.exp(log_w - log_z)[S > 0].sum())


def test_the_example_has_two_phases():
    """The closed sum is that of a small model listed in full, and the large one is split .72 to .28."""
    small, log_z, positive = coexistence(8, -0.2, 0.1)
    assert infer(small, "exact").log_partition == pytest.approx(log_z, abs=1e-10)
    X = sample(small, 40_000, "exact", random_state=0)
    assert (X.sum(axis=1) > 0).mean() == pytest.approx(positive, abs=0.015)
    assert coexistence()[2] == pytest.approx(0.72, abs=0.005)


def test_gibbs_chains_between_two_phases_are_told_of():
    with pytest.warns(ConvergenceWarning, match=r"The chains disagree: R-hat reaches .*tempering"):
        sample(coexistence()[0], 1000, "gibbs", random_state=5)


def test_gibbs_chains_that_all_miss_a_phase_are_told_of():
    """From one phase, over too few sweeps for any to leave: only chains from far states can know."""
    with pytest.warns(ConvergenceWarning, match="Chains from far states do not come to where these are"):
        sample(coexistence()[0], 256, "gibbs", random_state=6, initial=-np.ones(40), burn_in=50, thin=2)


@pytest.mark.slow
def test_ladders_between_two_phases_are_told_of():
    for seed in range(3):
        with pytest.warns(ConvergenceWarning, match=r"The chains disagree: .*n_replicas"):
            sample(coexistence()[0], 4000, "tempering", random_state=seed)


def test_the_error_of_an_annealed_log_partition_covers_what_it_missed():
    model, exact, _ = coexistence()
    with pytest.warns(ConvergenceWarning, match="ln Z may be up to"):
        log_z, error = ais.log_partition(model, n_steps=400, random_state=3)
    assert abs(log_z - exact) < 3 * error
    assert abs(log_z - exact) > 1.0  # the weights alone agree on a part of Z


def test_inference_between_two_phases_is_told_of():
    model, exact, _ = coexistence()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = infer(model, "gibbs", random_state=1, n_samples=2000, burn_in=200, n_steps=300)
    assert {w.category for w in caught} == {ConvergenceWarning}
    assert any("disagree" in str(w.message) or "second phase" in str(w.message) for w in caught), caught
    assert any("ln Z may be" in str(w.message) for w in caught)
    assert not result.converged
    assert abs(result.log_partition - exact) > 1.0


def test_a_phase_without_weight_is_not_worth_a_word():
    """A ferromagnet in a field: chains from all −1 stay there, in a well of weight e^(−2·20·0.8)."""
    model = BoltzmannMachine(np.full(20, 0.8), 0.3 * (1.0 - np.eye(20)))
    X = sample(model, 1000, "gibbs", random_state=1)
    assert (X.sum(axis=1) > 0).all()
    far = Chains(model, [6], np.random.SeedSequence(0), far_states(model.space, 6, np.random.default_rng(0)))
    far.advance(500)
    assert (far.states().sum(axis=1) == 0).any()  # some are in the other well
    with pytest.warns(ConvergenceWarning, match="second phase"):  # seen from the wrong well, the other one is
        sample(model, 1000, "gibbs", random_state=1, initial=-np.ones(20), burn_in=50, thin=1)


def healthy(rng, kind):
    n, strength = int(rng.integers(5, 40)), rng.uniform(0.1, 0.8)
    if kind == 3:  # labels beside rare 0/1
        alphabets = [Nominal("a", "b", "c")] * 3 + [(0, 1)] * (n - 3)
        couplings = {(0, 3): [0.5, -0.2, -0.3], (3, 4): 0.8}
        return BoltzmannMachine(np.where(np.arange(n) < 3, 0.0, -2.5), couplings, alphabet=alphabets)
    J = np.triu(rng.normal(size=(n, n)) * strength / np.sqrt(n), 1)
    h = 0.4 * rng.normal(size=n) - (2.5 if kind == 1 else 0.0)
    return BoltzmannMachine(h, J + J.T, alphabet=[(-1, 1), (0, 1), (-1, 0, 1)][kind])


def warned(seed, method):
    """Whether a run of a healthy model warns: any number of rows, few chains or many."""
    rng = np.random.default_rng([8, seed])
    model, n_samples = healthy(rng, seed % 4), int(rng.choice([50, 500, 4000]))
    options = {} if seed % 2 else {"n_chains": int(rng.choice([4, 8, 32]))}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sample(model, n_samples, method, random_state=seed, **options)
    return bool(caught)


def test_healthy_models_are_left_alone():
    assert not any(warned(seed, "gibbs") for seed in range(16))
    assert not any(warned(seed, "tempering") for seed in range(4))


@pytest.mark.slow
def test_healthy_models_are_left_alone_at_least_99_times_in_100():
    assert sum(warned(seed, "gibbs") for seed in range(100, 500)) <= 4
    assert sum(warned(seed, "tempering") for seed in range(100, 200)) <= 1


# ---------------------------------------------------------------------- parts


@pytest.mark.parametrize("name", SPACES)
def test_annealing_back_gives_the_log_partition_of_one_phase(name):
    model = random_mixed(SPACES[name], 3, 0.5, seed=3)
    exact = infer(model, "exact").log_partition
    for estimate in (
        ais.log_far(model, np.random.SeedSequence(1)),
        ais.estimate(model, ais.anneal(Chains(model, widths(64), np.random.SeedSequence(2)), 500)),
    ):
        assert abs(estimate[0] - exact) < 5 * estimate[1] + 1e-9
        assert estimate[1] < 0.1
    shifted = BoltzmannMachine.from_parts(
        model.space, (model.h, model.d, model.site), model.columns, 2.5 * model.column_weights
    )
    far = ais.log_far(shifted, np.random.SeedSequence(1))
    assert abs(far[0] - exact) > 5 * far[1]


def test_nested_r_hat_is_its_formula():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(30, 12, 3))
    kind = np.repeat([0, 1, 2], 4)
    draws[:, kind == 1, 1] += 2.0
    draws[:, :, 2] = 1.0
    means = [draws[:, kind == k, 1].mean() for k in range(3)]
    W = np.mean([draws[:, kind == k, 1].var() for k in range(3)])
    found = nested_r_hat(draws, kind)
    assert found[1] == pytest.approx(np.sqrt(1 + np.var(means, ddof=1) / W), rel=1e-12)
    assert found[1] > 1.3
    assert found[0] < 1.02
    assert found[2] == 1.0
    draws[:, kind == 2, 2] = 0.0
    assert nested_r_hat(draws, kind)[2] == np.inf


def test_far_states_are_of_three_kinds():
    space = Space.of([(-1, 1), Nominal("a", "b", "c"), Interval(-1.0, 2.0), (0, 1, 2)], 4)
    states = far_states(space, 600, np.random.default_rng(0))
    np.testing.assert_array_equal(states[1::3], np.broadcast_to([1, 2, 2.0, 2], (200, 4)))
    np.testing.assert_array_equal(states[2::3], np.broadcast_to([0, 0, -1.0, 0], (200, 4)))
    uniform = states[::3]
    assert [len(np.unique(uniform[:, i])) for i in (0, 1, 3)] == [2, 3, 3]
    assert uniform[:, 2].min() < -0.9
    assert uniform[:, 2].max() > 1.9


def test_few_chains_and_short_runs_say_nothing():
    model = coexistence()[0]
    chains = Chains(model, [3], np.random.SeedSequence(0))
    found = agreement.of_chains(chains, chains.draw(30, 1), 30, 0, np.random.SeedSequence(1))
    assert np.isnan(found.r_hat)
    assert found.agree
    draws = np.zeros((30, 4, 40), dtype=np.uint8)
    draws[:, 0] = 1
    assert np.isnan(agreement.compare(model, draws, 30).r_hat)
    assert agreement.compare(model, draws, 400).r_hat == np.inf


def test_errors_of_log_partition_by_method():
    model = random_mixed(SPACES["mixed"], 2, 0.3, seed=3)
    exact, zero = log_partition.log_partition_and_error(model, "exact", None)
    assert zero == 0.0
    value, error = log_partition.log_partition_and_error(model, "ais", 0)
    assert 0 < abs(value - exact) < 5 * error
    assert np.isnan(log_partition.log_partition_and_error(model, "dc", None)[1])


def test_log_likelihood_returns_its_error():
    X = sample(healthy(np.random.default_rng(3), 0), 500, "gibbs", random_state=0)[:, :8]
    est = HBM(order=2, random_state=0).fit(X)
    exact, zero = est.log_likelihood(X, return_error=True)
    assert zero == 0.0
    assert exact == est.log_likelihood(X)
    value, error = est.log_likelihood(X, method="ais", return_error=True)
    assert 0 < abs(value - exact) < 5 * error
    assert error < 0.1
