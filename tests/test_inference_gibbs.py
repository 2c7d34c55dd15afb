"""infer(model, "gibbs") against enumeration: the errors it makes are the errors that it states."""

from itertools import combinations

import numpy as np
import pytest
from oracle import REGION, SPACES, Spec, random_mixed

from hbm_learn import BoltzmannMachine, Interval
from hbm_learn.inference import infer
from hbm_learn.inference.gibbs import _moments
from hbm_learn.sampling.diagnostics import split_r_hat

N = 5


def make_model(alphabet, order=3, strength=0.25, seed=4):
    rng = np.random.default_rng(seed)
    couplings = {mu: strength * rng.normal() for k in range(2, order + 1) for mu in combinations(range(N), k)}
    return BoltzmannMachine(0.3 * rng.normal(size=N), couplings, 1.0 + 0.5 * rng.normal(size=N), alphabet)


def scores(result, reference):
    """z-scores of m and of the upper triangle of χ, without entries that cannot vary."""
    upper = np.triu_indices(N)
    error = np.concatenate([result.m - reference.m, (result.chi - reference.chi)[upper]])
    stated = np.concatenate([result.m_standard_errors, result.chi_standard_errors[upper]])
    return error / stated


ALPHABETS = [(-1, 1), (0, 1), (-1, 0, 1), (0, 1, 2, 3), Interval(-1, 1.5)]


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("alphabet", ALPHABETS)
def test_moments_within_their_errors(alphabet, order):
    model = make_model(alphabet, order, 0.25 if alphabet != (0, 1, 2, 3) else 0.08)
    exact, found = infer(model, "exact"), infer(model, "gibbs", random_state=1)
    assert found.converged, found.status
    z = scores(found, exact)
    # Student's t with 31 degrees of freedom: 9 is about 2e-10.
    assert np.abs(z).max() < 9
    assert found.m_standard_errors.max() < 0.02
    np.testing.assert_allclose(found.v, np.diag(found.chi) + found.m**2, rtol=1e-12)
    assert found.means is found.m
    assert found.covariances is found.chi
    np.testing.assert_allclose(found.interaction_moments, exact.interaction_moments, atol=0.15)
    pairs = tuple(model.columns.block(2).T)
    np.testing.assert_allclose(
        found.interaction_moments[: len(pairs[0])], (found.chi + np.outer(found.m, found.m))[pairs], atol=1e-10
    )
    assert abs(found.log_partition - exact.log_partition) < 0.1
    assert "ln Z ±" in found.status


MIXED = {**SPACES, "with intervals": Spec([Interval(-1.0, 1.5), REGION, (0, 1), Interval(0.0, 2.0)])}


def disagreements(found, exact, n_draws=20_000):
    """How far probabilities, means and correlations of columns are apart, in units of what is tolerated.

    Draws are nearly independent, so errors are about those of n_draws independent ones; twelve of them are tolerated.
    """
    apart = [
        np.abs(p - q) / np.sqrt(q * (1 - q) / n_draws)
        for p, q in zip(found.probabilities, exact.probabilities)
        if q is not None
    ]
    spread = np.sqrt(np.diag(exact.covariances))
    apart.append(np.abs(found.means - exact.means) / (spread / np.sqrt(n_draws)))
    return {
        "alone": np.concatenate(apart).max() / 12,
        "together": np.abs((found.covariances - exact.covariances) / np.outer(spread, spread)).max() / 0.1,
    }


@pytest.mark.parametrize("name", MIXED)
def test_moments_of_variables_of_different_kinds(name):
    model = random_mixed(MIXED[name], 3, 1.0, seed=2)
    exact, found = infer(model, "exact"), infer(model, "gibbs", random_state=1)
    assert found.converged, found.status
    x = np.array([not a.is_nominal for a in model.space.alphabets])
    for field in ("m", "v", "m_standard_errors"):
        assert np.array_equal(np.isfinite(getattr(found, field)), x)
    for field in ("chi", "chi_standard_errors"):
        assert np.array_equal(np.isfinite(getattr(found, field)), np.outer(x, x))
    errors = np.abs(np.column_stack([found.m - exact.m, found.chi - exact.chi]))[x]
    stated = np.column_stack([found.m_standard_errors, found.chi_standard_errors])[x]
    assert (errors <= 9 * stated + 1e-12)[np.isfinite(errors)].all()
    assert [p is None for p in found.probabilities] == [not a.is_finite for a in model.space.alphabets]
    assert max(disagreements(found, exact).values()) < 1
    # Negative controls: no couplings, and another temperature.
    nothing = {mu: 0.0 * np.asarray(J) for mu, J in model.couplings().items()}
    independent = BoltzmannMachine(model.h, nothing, model.d, model.alphabet, model.site)
    assert disagreements(found, infer(independent, "exact"))["together"] > 1
    assert disagreements(found, infer(model * 0.8, "exact"))["alone"] > 1
    pairs = tuple(model.columns.block(2).T)
    wanted = (found.covariances + np.outer(found.means, found.means))[pairs]
    np.testing.assert_allclose(found.interaction_moments[: len(wanted)], wanted, rtol=1e-9, atol=1e-9)
    assert abs(found.log_partition - exact.log_partition) < 0.1


@pytest.mark.parametrize(("alphabet", "V"), [((-1, 1), 1.0), ((-1, 0, 1), 2 / 3), (Interval(-1, 1), 1 / 3)])
def test_stated_errors_are_the_errors_made(alphabet, V):
    """z-scores over 40 seeds have unit spread, in ferromagnets whose draws are correlated in time.

    V is the variance of a free variable: J = 0.2/V is as strong on each alphabet.
    """
    model = BoltzmannMachine(np.full(N, 0.1), 0.2 / V * (1.0 - np.eye(N)), alphabet=alphabet)
    exact = infer(model, "exact")
    options = {"n_samples": 6400, "thin": 1, "burn_in": 100, "n_steps": 50}
    found = [infer(model, "gibbs", random_state=s, **options) for s in range(40)]
    z = np.array([scores(result, exact) for result in found])
    assert 0.8 < np.sqrt((z**2).mean()) < 1.25
    # Negative control: errors as of independent draws are visibly too small.
    naive = np.sqrt(np.diag(exact.chi) / 6400)
    z = np.array([(result.m - exact.m) / naive for result in found])
    assert np.sqrt((z**2).mean()) > 1.25


def test_chains_in_different_wells_do_not_converge():
    model = BoltzmannMachine(np.zeros(20), 0.3 * (1.0 - np.eye(20)))
    found = infer(model, "gibbs", n_samples=1000, random_state=0)
    assert not found.converged
    assert found.residual > 0.1
    assert "the chains disagree" in found.status
    assert "raise burn_in" in found.status


def test_too_few_annealing_steps_are_reported():
    rng = np.random.default_rng(0)
    n = 40
    J = np.triu(rng.normal(0, 0.6 / np.sqrt(n), (n, n)), 1)
    model = BoltzmannMachine(0.5 * rng.normal(size=n), J + J.T)
    found = infer(model, "gibbs", n_steps=1, random_state=0)
    assert not found.converged
    assert "raise n_steps" in found.status
    assert infer(model, "gibbs", n_steps=500, random_state=0).converged


def test_more_than_a_group_of_chains_and_uneven_groups():
    """37 chains make 32 groups of one or two: the moments are those of all draws."""
    model = make_model((-1, 1))
    found = infer(model, "gibbs", n_samples=3700, n_chains=37, random_state=0)
    exact = infer(model, "exact")
    assert np.abs(scores(found, exact)).max() < 9
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(50, 37, 3))
    m, _, chi, _ = _moments(draws)
    np.testing.assert_allclose(m, draws.reshape(-1, 3).mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(chi, np.cov(draws.reshape(-1, 3).T, bias=True), atol=1e-12)


def test_split_r_hat():
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(200, 8, 5))
    draws[:, :, 1] += np.arange(8)  # chains apart
    draws[:, :, 2] += np.linspace(0, 3, 200)[:, None]  # a drift common to all
    draws[:, :, 3] = 2.0
    draws[:, :, 4] = np.arange(8)
    r_hat = split_r_hat(draws)
    assert abs(r_hat[0] - 1) < 0.01
    assert r_hat[1] > 1.5
    assert r_hat[2] > 1.2
    assert r_hat[3] == 1
    assert r_hat[4] == np.inf


def test_split_r_hat_is_arviz_s():
    from arviz_stats.base import array_stats

    draws = np.cumsum(np.random.default_rng(0).normal(size=(100, 6, 3)), axis=0)
    expected = array_stats.rhat(draws.transpose(2, 1, 0), chain_axis=1, draw_axis=2, method="split")
    np.testing.assert_allclose(split_r_hat(draws), expected, rtol=1e-10)


def test_real_models_take_the_closed_form():
    model = BoltzmannMachine([0.5, 0.1], {(0, 1): 0.3}, d=1.0, alphabet="real")
    exact, found = infer(model, "exact"), infer(model, "gibbs")
    assert found.method == "gibbs"
    assert found.converged
    np.testing.assert_array_equal(found.chi, exact.chi)


def test_results_do_not_depend_on_n_jobs():
    model = make_model((-1, 1))
    options = {"n_samples": 640, "n_steps": 20, "burn_in": 5, "random_state": 3}
    one, two = (infer(model, "gibbs", n_jobs=n_jobs, **options) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.chi, two.chi)
    assert one.log_partition == two.log_partition


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"n_chains": 3}, "n_chains=3"),
        ({"n_samples": 100}, "n_samples=100: give an integer of at least 256"),
        ({"thin": 0}, "thin=0"),
        ({"n_steps": 0}, "n_steps=0"),
        ({"burn_in": None}, "burn_in=None"),
        ({"n_sample": 3}, "'n_sample' is not an option of method 'gibbs'"),
        ({"n_samples": 10**9}, "GiB"),
    ],
)
def test_bad_options_are_refused_by_name(options, match):
    with pytest.raises(ValueError, match=match):
        infer(make_model((-1, 1)), "gibbs", **options)
