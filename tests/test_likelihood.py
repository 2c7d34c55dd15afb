"""Maximum likelihood from moments: against brute force, and against published fits."""

from __future__ import annotations

import numpy as np
import pytest
from fits import FLAT, composite_fit, likelihood_fit, model_of, parameters_of, sampling_errors, standard_errors
from oracle import ALPHABETS, distribution, random_model
from scipy import optimize

from hbm_learn import BoltzmannMachine, Interactions, Moments, datasets, sample
from hbm_learn._kernels.quadratic import coordinate_descent
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.likelihood import monte_carlo
from hbm_learn.inversion.prior import Prior
from hbm_learn.states import StateTable


def exact_moments(model: BoltzmannMachine, order: int) -> Moments:
    states, p, _ = distribution(model)
    return Moments.from_distribution(states, p, max(order, 1), model.alphabet)


def statistics(states: np.ndarray, interactions: Interactions, binary: bool) -> np.ndarray:
    """(N, P) t of each state, by its definition: x_i and −½ x_i² of each site, then the products."""
    own = states if binary else np.stack([states, -0.5 * states**2], axis=2).reshape(len(states), -1)
    products = np.array([[np.prod(x[list(mu)]) for mu in interactions.tuples] for x in states])
    return np.hstack([own, products.reshape(len(states), len(interactions))])


def parameters(model: BoltzmannMachine) -> np.ndarray:
    own = [model.h] if model.alphabet.is_binary else [np.stack([model.h, model.d], axis=1).ravel()]
    return np.concatenate([*own, model.weights])


def brute_force(model: BoltzmannMachine, moments: Moments, alpha: float, l1_ratio: float = 0.0):
    """θ → (−L, −∂L/∂θ) by a loop over states, with t̄ from the moments; and t of all states."""
    states, _, _ = distribution(model)
    interactions, binary = model.columns, model.alphabet.is_binary
    T = statistics(states, interactions, binary)
    own = moments.mean if binary else np.stack([moments.mean, -0.5 * moments.second], axis=1).ravel()
    target = np.concatenate([own, moments.moments(interactions)])
    penalised = np.arange(len(target)) >= len(target) - len(interactions)
    ridge = np.where(penalised, alpha * (1 - l1_ratio) / moments.n_samples, 0.0)

    def objective(theta):
        exponent = T @ theta
        top = exponent.max()
        w = np.exp(exponent - top)
        p = w / w.sum()
        value = theta @ target - top - np.log(w.sum()) - 0.5 * ridge @ theta**2
        return -value, p @ T + ridge * theta - target

    return objective, T


def sampled(model: BoltzmannMachine, n: int, order: int, seed: int = 0) -> Moments:
    return Moments.from_samples(sample(model, n, "exact", random_state=seed), order, model.alphabet)


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_recovers_the_model_from_exact_moments(alphabet, order):
    model = random_model(5 if len(alphabet) == 2 else 4, order, alphabet, 0.8 / max(alphabet) ** order, seed=order)
    result = likelihood_fit(exact_moments(model, order), model.columns, None, FLAT)
    assert result.converged, result.status
    assert result.residual <= 1e-10
    np.testing.assert_allclose(result.theta, result.parameters.pack(model), atol=1e-8)
    np.testing.assert_array_equal(standard_errors(result), 0.0)  # infinitely many samples


@pytest.mark.parametrize("strength", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("start", ["closed form", "independence", "far away"])
def test_arrives_from_any_start(strength, start):
    model = random_model(7, 3, (-1, 1), strength, seed=3)
    moments = sampled(model, 5000, 3)
    first = {
        "closed form": lambda: diagonal.invert(moments, model.columns).model,
        "independence": lambda: None,
        "far away": lambda: random_model(7, 3, (-1, 1), 6.0, seed=8),
    }[start]()
    result = likelihood_fit(moments, model.columns, first, Prior({2: 1.0, 3: 1.0}))
    assert result.converged, result.status
    assert result.residual <= 1e-10
    objective, _ = brute_force(model, moments, 1.0)
    assert np.abs(objective(result.theta)[1]).max() < 2e-10


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
@pytest.mark.parametrize("alpha", [0.0, 3.0])
def test_is_the_optimum_of_scipy(alphabet, alpha):
    model = random_model(4, 3, alphabet, 0.8 / max(alphabet) ** 2, seed=5)
    moments = sampled(model, 2000, 3)
    objective, _ = brute_force(model, moments, alpha)
    result = likelihood_fit(moments, model.columns, None, Prior({2: alpha, 3: alpha}))
    theta = result.theta
    reference = optimize.minimize(objective, np.zeros(len(theta)), jac=True, method="BFGS", options={"gtol": 1e-7})
    assert objective(theta)[0] <= reference.fun + 1e-14
    np.testing.assert_allclose(theta, reference.x, atol=1e-3)


@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1)])
@pytest.mark.parametrize("alpha", [0.0, 20.0])
def test_errors_are_inverse_fisher_by_brute_force(alphabet, alpha):
    model = random_model(4, 3, alphabet, 0.8, seed=6)
    moments = sampled(model, 500, 3)
    result = likelihood_fit(moments, model.columns, None, Prior({2: alpha, 3: alpha}))
    states, p, _ = distribution(model_of(result))
    T = statistics(states, model.columns, len(alphabet) == 2)
    MF = 500 * np.cov(T.T, aweights=p, ddof=0)
    precision = np.diag(np.arange(len(MF)) >= len(MF) - len(model.columns)) * alpha
    S = np.linalg.inv(MF + precision)
    np.testing.assert_allclose(result.posterior, np.diag(S), rtol=1e-7)
    np.testing.assert_allclose(result.covariance, S, rtol=1e-6, atol=1e-8 * S.max())
    np.testing.assert_allclose(result.sampling, np.diag(S @ MF @ S), rtol=1e-6)
    np.testing.assert_allclose(result.free_covariance, np.linalg.inv(MF), rtol=1e-6, atol=1e-8 * S.max())


@pytest.mark.parametrize(("old", "new"), [((-1, 1), (0, 1)), ((-1, 0, 1), (0, 1, 2)), ((-1, 1), (2, 7))])
def test_a_change_of_alphabet_changes_the_parameters_only(old, new):
    model = random_model(5, 3, old, 0.7, seed=7)
    X = sample(model, 3000, "exact", random_state=1)
    (s, t) = np.polyfit(old, new, 1)
    Y = np.rint(s * X + t).astype(int)
    fits = [
        likelihood_fit(Moments.from_samples(Z, 3, values), model.columns, None, FLAT)
        for Z, values in ((X, old), (Y, new))
    ]
    rewritten = model_of(fits[1]).with_alphabet(old)
    np.testing.assert_allclose(parameters(rewritten), parameters(model_of(fits[0])), atol=1e-7)


@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1)])
def test_l1_meets_its_optimality_conditions_and_selects(alphabet):
    model = random_model(6 if len(alphabet) == 2 else 5, 2, alphabet, 0.5, seed=9)
    moments = sampled(model, 1000, 2)
    result = likelihood_fit(moments, model.columns, None, Prior({2: 30.0}, l1_ratio=1.0))
    assert result.converged, result.status
    objective, _ = brute_force(model, moments, 30.0, l1_ratio=1.0)
    J, p = result.weights, len(model.columns)
    gradient = -objective(result.theta)[1]
    np.testing.assert_allclose(gradient[:-p], 0.0, atol=1e-9)
    zero = J == 0
    assert 0 < zero.sum() < p
    np.testing.assert_allclose(gradient[-p:][~zero], 0.03 * np.sign(J[~zero]), atol=1e-9)
    assert (np.abs(gradient[-p:][zero]) <= 0.03 + 1e-9).all()
    assert (standard_errors(result)[zero] == 0).all()
    assert (standard_errors(result)[~zero] > 0).all()


@pytest.mark.parametrize("rate", [0.0, 0.3, 5.0])
def test_coordinate_descent_solves_its_quadratic(rate):
    """Against many proximal gradient steps in NumPy."""
    rng = np.random.default_rng(1)
    B, g, theta = rng.normal(size=(12, 20)), rng.normal(size=12), rng.normal(size=12) * (rng.random(12) < 0.5)
    H, lasso = B @ B.T / 20 + 0.05 * np.eye(12), np.where(np.arange(12) < 3, 0.0, rate)
    found = theta + coordinate_descent(H, -g, theta, lasso, 1e-14, 10_000)
    plain, step = theta.copy(), 1.0 / np.linalg.eigvalsh(H)[-1]
    for _ in range(20_000):
        z = plain + step * (g - H @ (plain - theta))
        plain = np.sign(z) * np.maximum(np.abs(z) - step * lasso, 0.0)
    np.testing.assert_allclose(found, plain, atol=1e-9)


def test_some_interactions_match_their_own_moments_only():
    model = random_model(6, 3, (-1, 1), 0.8, seed=11)
    moments = sampled(model, 4000, 3)
    some = Interactions.from_tuples([(0, 1), (2, 4), (1, 3, 5)], 6)
    result = likelihood_fit(moments, some, model, FLAT)
    states, p, _ = distribution(model_of(result))
    T = statistics(states, some, True)
    np.testing.assert_allclose(p @ T, np.r_[moments.mean, moments.moments(some)], atol=1e-9)


# ---------------------------------------------------------------------- boundary data


def never_together(rng) -> np.ndarray:
    X = rng.choice([-1, 1], (300, 4))
    X[(X[:, 0] == 1) & (X[:, 1] == 1), 1] = -1
    return X


def identical(rng) -> np.ndarray:
    X = rng.choice([-1, 1], (300, 4))
    X[:, 2] = X[:, 0]
    return X


@pytest.mark.parametrize("data", [never_together, identical])
@pytest.mark.parametrize("order", [2, 3])
def test_data_on_the_boundary(data, order):
    X = data(np.random.default_rng(0))
    moments, interactions = Moments.from_samples(X, order, (-1, 1)), Interactions.upto(order, 4)
    flat = likelihood_fit(moments, interactions, None, FLAT)
    assert not flat.converged
    assert "alpha > 0" in flat.status
    assert "no finite maximum" in flat.status
    for values in (flat.theta, flat.posterior, flat.sampling):
        assert np.isfinite(values).all()
    assert flat.n_iter < 60
    assert np.abs(flat.weights).max() < 50
    prior = likelihood_fit(moments, interactions, None, Prior({2: 1.0, 3: 1.0}))
    assert prior.converged, prior.status


# ---------------------------------------------------------------------- many parameters, many states


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0])
def test_products_with_the_fisher_matrix_do_as_well(alphabet, l1_ratio, monkeypatch):
    model = random_model(5, 3, alphabet, 0.8 / max(alphabet) ** 2, seed=12)
    moments, prior = sampled(model, 3000, 3), Prior({2: 5.0, 3: 5.0}, l1_ratio)
    dense = likelihood_fit(moments, model.columns, None, prior)
    monkeypatch.setattr(likelihood, "MAX_DENSE_FISHER", 10)
    free = likelihood_fit(moments, model.columns, None, prior)
    assert free.converged, free.status
    np.testing.assert_allclose(free.theta, dense.theta, atol=1e-6)
    assert "too many" in free.notes[0]
    table = StateTable(model)
    theta = parameters_of(moments, model.columns)
    v = np.random.default_rng(0).normal(size=theta.n_params)
    F = table.fisher(theta)
    np.testing.assert_allclose(table.fisher_product(theta, v), F @ v, atol=1e-11 * np.abs(F).max())


@pytest.mark.parametrize(("alphabet", "l1_ratio"), [((-1, 1), 0.0), ((-1, 0, 1), 0.0), ((-1, 1), 1.0)])
def test_chains_agree_with_the_exact_fit_within_their_own_error(alphabet, l1_ratio, monkeypatch):
    model = random_model(7, 3, alphabet, 0.7, seed=13)
    moments, prior = sampled(model, 2000, 3), Prior({2: 2.0, 3: 2.0}, l1_ratio)
    exact = likelihood_fit(moments, model.columns, None, prior)
    monkeypatch.setattr(likelihood, "MAX_STATES", 8)
    chains = likelihood_fit(moments, model.columns, None, prior, random_state=0)
    assert chains.converged, chains.status
    assert chains.residual <= monte_carlo.MONTE_CARLO
    errors = sampling_errors(exact)
    kept = errors > 0
    z = (chains.weights - exact.weights)[kept] / (np.sqrt(chains.residual) * errors[kept])
    assert 0.5 < np.sqrt(np.mean(z**2)) < 1.6  # the Monte Carlo error is as large as it says
    grown = (standard_errors(chains) / np.where(kept, standard_errors(exact), 1.0))[kept]
    np.testing.assert_allclose(np.mean(grown), np.sqrt(1 + chains.residual), atol=0.03)


def test_chains_do_not_depend_on_threads_and_stop_in_time(monkeypatch):
    monkeypatch.setattr(likelihood, "MAX_STATES", 8)
    model = random_model(6, 2, (-1, 1), 0.5, seed=14)
    moments = exact_moments(model, 2)  # infinitely many samples: no Monte Carlo error is small beside theirs
    fits = [
        likelihood_fit(moments, model.columns, None, FLAT, random_state=3, n_jobs=jobs, max_iter=5) for jobs in (1, 2)
    ]
    np.testing.assert_array_equal(fits[0].theta, fits[1].theta)
    assert not fits[0].converged
    assert "max_iter" in fits[0].status
    np.testing.assert_allclose(fits[0].weights, model.weights, atol=0.1)


def test_chains_on_boundary_data_end_and_stay_finite(monkeypatch):
    monkeypatch.setattr(likelihood, "MAX_STATES", 8)
    moments = Moments.from_samples(identical(np.random.default_rng(0)), 2, (-1, 1))
    result = likelihood_fit(moments, Interactions.upto(2, 4), None, FLAT, random_state=0, max_iter=10)
    for values in (result.theta, result.posterior):
        assert np.isfinite(values).all()


def test_bad_input_says_what_to_do():
    moments = sampled(random_model(4, 2, (-1, 1), 0.5, seed=1), 100, 2)
    with pytest.raises(ValueError, match="order=3"):
        likelihood_fit(moments, Interactions.upto(3, 4), None, FLAT)


# ---------------------------------------------------------------------- statistics


def coverage(model: BoltzmannMachine, n_samples: int, n_sets: int, shrink: float = 1.0) -> float:
    """Share of nominal 95 % intervals J ± 1.96 se that hold the true coupling, over data sets."""
    hits = []
    for seed in range(n_sets):
        moments = sampled(model, n_samples, model.order, seed)
        result = likelihood_fit(moments, model.columns, model, FLAT)
        hits.append(np.abs(result.weights - model.weights) < 1.96 * shrink * standard_errors(result))
    return float(np.mean(hits))


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.3, 0.8])
@pytest.mark.parametrize("order", [2, 3])
def test_coverage(strength, order):
    model = datasets.make_random(8, {k: strength / 8 ** ((k - 1) / 2) for k in range(2, order + 1)}, random_state=order)
    assert 0.93 < coverage(model, 5000, 200) < 0.97
    assert not 0.93 < coverage(model, 5000, 50, shrink=0.8) < 0.97  # the battery can tell errors that are 20 % off


@pytest.mark.slow
def test_chains_are_as_accurate_as_pseudolikelihood():
    """n = 50, all pairs and 200 planted triplets; no table of states could be listed."""
    model = datasets.make_planted(50, {3: 200}, (0.05, 0.2), beta=0.5, random_state=0)
    X = sample(model, 20_000, "gibbs", random_state=1, n_chains=2000)
    moments, prior = Moments.from_samples(X, 3, (-1, 1)), Prior({2: 1.0, 3: 1.0})
    start = diagonal.invert(moments, model.columns).model
    chains = likelihood_fit(moments, model.columns, start, prior, random_state=0)
    composite = composite_fit(X, moments, model.columns, start, prior)
    assert chains.converged, chains.status
    errors = [np.linalg.norm(r.theta - parameters(model)) for r in (chains, composite)]
    assert errors[0] < 1.05 * errors[1]
    z = (chains.weights - model.weights) / standard_errors(chains)
    assert 0.93 < np.mean(np.abs(z) < 1.96) < 0.97
