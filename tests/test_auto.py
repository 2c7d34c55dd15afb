"""infer(model, "auto"): which method it takes, and whether its estimate of the error can be believed."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest
from oracle import random_model
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Interactions, Interval, Nominal
from hbm_learn.inference import infer
from hbm_learn.inference.auto import candidates, distance


@pytest.fixture(autouse=True)
def _one_blas_thread():
    with threadpool_limits(1):
        yield


def ring(n, strength, seed=0, order=2):
    """A ring of interactions that share one variable with the next."""
    rng = np.random.default_rng(seed)
    step = order - 1
    sets = [tuple(sorted((k + j) % n for j in range(order))) for k in range(0, n, step)]
    return BoltzmannMachine(rng.normal(0, 0.3, n), {mu: strength * rng.normal() for mu in sets})


def test_exact_where_it_is_cheap():
    model = random_model(8, 3, (-1, 1), 0.5, 0)
    result = infer(model, "auto")
    assert result.method == "exact"
    assert (result.trust.number, result.trust.verdict) == (0.0, "exact")
    real = BoltzmannMachine(np.zeros(40), {(0, 1): 0.2}, d=1.0, alphabet="real")
    assert infer(real, "auto").method == "exact"
    assert infer(random_model(3, 3, Interval(-1, 1), 0.3, 0), "auto").method == "exact"


def test_which_mean_field():
    assert candidates(ring(40, 0.3)) == ["bethe2", "bethe", "dc"]
    assert candidates(ring(40, 0.3, order=3)) == ["bethe2", "bethe", "dc2"]
    assert candidates(random_model(30, 3, (-1, 1), 0.3, 0)) == ["bethe2", "bethe", "dc2"]
    assert candidates(random_model(12, 4, (-1, 1), 0.3, 0)) == ["dc2", "dc"]  # quadruplets share three
    assert candidates(ring(42, 0.3, order=4)) == ["bethe2", "bethe", "dc2"]
    assert candidates(random_model(8, 2, Interval(-1, 1), 0.3, 0)) == ["dc"]
    assert candidates(ring(1000, 0.3)) == ["bethe2", "bethe"]
    dense = Interactions.upto(2, 700)
    assert candidates(BoltzmannMachine.from_packed(np.zeros(700), dense, np.zeros(len(dense)))) == ["dc"]
    many = BoltzmannMachine(np.zeros(40), {tuple(range(13)): 0.1})
    assert candidates(many) == ["dc2", "dc"]


def test_weak_coupling_is_trusted():
    model = ring(14, 0.3, seed=2)
    result = infer(model, "auto", max_states=4)
    assert result.method == "bethe2"
    assert result.trust.verdict == "good"
    assert "can be trusted" in result.trust.sentence
    assert distance(model, result, infer(model, "exact")) <= result.trust.number
    opinions = [distance(model, result, infer(model, method)) for method in ("bethe", "dc")]
    assert result.trust.number == pytest.approx(max(opinions))
    assert max(opinions) > 2 * min(opinions)


def test_strong_coupling_warns():
    """Where dc says converged=True beside errors of a third and more, a warning stands."""
    wrong = 0
    for seed in range(8):
        rng = np.random.default_rng([seed, 5])
        sets = list(combinations(range(10), 3))
        chosen = rng.permutation(len(sets))[:30]
        model = BoltzmannMachine(rng.normal(0, 0.3, 10), {sets[r]: rng.normal(0, 0.8) for r in chosen})
        dc, exact = infer(model, "dc"), infer(model, "exact")
        if not dc.converged or np.abs(dc.m - exact.m).max() < 0.3:
            continue
        wrong += 1
        with pytest.warns(ConvergenceWarning, match=r"too strong for mean field|did not converge"):
            result = infer(model, "auto", max_states=4, max_evaluations=300)
        assert result.trust.verdict == "poor"
        assert result.trust.number > 0.05
    assert wrong >= 4


def test_gibbs_stands_in():
    """No second mean field on intervals: chains judge, and their noise does not count."""
    weak = random_model(8, 2, Interval(-1, 1), 0.2, 1)
    result = infer(weak, "auto", random_state=1)
    assert result.method == "dc"
    assert "gibbs" in result.trust.sentence
    assert result.trust.verdict == "good"
    assert result.trust.number < 0.005
    labels = BoltzmannMachine(
        np.zeros(30), {(i, i + 1): 0.3 * np.eye(3) for i in range(29)}, alphabet=Nominal("a", "b", "c")
    )
    assert infer(labels, "auto").trust.verdict == "good"


def bounded(models):
    """The shares of models whose error is below the estimate, and below twice it."""
    inside, ratios = 0, []
    for model in models:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            result = infer(model, "auto", max_states=4, max_evaluations=400)
        error = distance(model, result, infer(model, "exact"))
        ratios.append(error / result.trust.number)
        inside += ratios[-1] <= 1.0
    return inside / len(ratios), float(np.mean(np.array(ratios) <= 2.0))


def random_models(count, seed):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        n, order = int(rng.integers(8, 12)), int(rng.integers(2, 4))
        sets = list(combinations(range(n), order))
        chosen = rng.permutation(len(sets))[: int(rng.integers(n, 3 * n))]
        strength = rng.choice([0.1, 0.3, 0.6, 1.0])
        yield BoltzmannMachine(rng.normal(0, 0.3, n), {sets[r]: strength * rng.normal() for r in chosen})


def test_error_is_bounded():
    inside, within_two = bounded(random_models(12, 33))
    assert inside >= 0.75
    assert within_two >= 0.9


@pytest.mark.slow
def test_error_is_bounded_on_many():
    inside, within_two = bounded(random_models(120, 34))
    assert inside >= 0.9
    assert within_two >= 0.97
