"""Interaction screening against brute force: derivatives, exact recovery; graphs that mean field does not find."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import ALPHABETS, distribution, random_model

from hbm_learn import BoltzmannMachine, Interactions, Moments, datasets, sample
from hbm_learn._kernels import conditional
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.composite import screening
from hbm_learn.inversion.composite.objective import Curvature, DenseCurvature, Objective
from hbm_learn.inversion.prior import Prior

LOSSES = list(screening.LOSSES)


def flat(alpha: float = 0.0, l1_ratio: float = 0.0) -> Prior:
    return Prior(dict.fromkeys(range(2, 6), alpha), l1_ratio)


def brute(X: np.ndarray, weights: np.ndarray, model: BoltzmannMachine, loss: str) -> float:
    """Σ_i S_i or Σ_i ln S_i, one row at a time: the part of −H(x) that x_i enters, less its mean over values of x_i."""
    nodes, S = model.alphabet.nodes, np.zeros(model.n_features)
    for x, w in zip(X.astype(float), weights / weights.sum()):
        for i in range(model.n_features):
            energies = []
            for a in nodes:
                y = x.copy()
                y[i] = a
                part = model.h[i] * a - 0.5 * model.d[i] * a * a
                part += sum(J * np.prod(y[list(mu)]) for mu, J in model.couplings().items() if i in mu)
                energies.append(part)
            at = int(np.searchsorted(nodes, x[i]))
            S[i] += w * np.exp(-(energies[at] - np.mean(energies)))
    return float(np.log(S).sum() if loss == "logrise" else S.sum())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("dense", [True, False])
def test_value_gradient_and_hessian(loss: str, name: str, order: int, dense: bool) -> None:
    rng = np.random.default_rng(order)
    n, alphabet = 5, ALPHABETS[name]
    interactions = Interactions.upto(order, n)
    if not dense:
        interactions = Interactions.from_tuples([mu for mu in interactions.tuples if sum(mu) % 5 == 1], n)
    X, weights = rng.choice(alphabet, size=(30, n)), rng.uniform(0.1, 2.0, 30)
    composite = screening.prepare(Samples.check(X, alphabet, weights), interactions, loss=loss).composite
    objective = Objective(composite, np.zeros(composite.n_params))
    theta = rng.normal(0, 0.1, composite.n_params)
    value, gradient = objective.value_gradient(theta)
    assert value == pytest.approx(brute(X, weights, composite.model(theta), loss), rel=1e-11, abs=1e-11)

    step, direction = 1e-5, rng.normal(size=len(theta))
    up, down = objective.value_gradient(theta + step * direction), objective.value_gradient(theta - step * direction)
    slope = (up[0] - down[0]) / (2 * step)
    size = np.abs(gradient).sum()
    assert gradient @ direction == pytest.approx(slope, rel=1e-6, abs=1e-7 * size)
    product = Curvature(objective, theta).product(direction)
    np.testing.assert_allclose(product, (up[1] - down[1]) / (2 * step), rtol=1e-5, atol=1e-6 * np.abs(product).max())
    matrix = DenseCurvature(objective, theta).product(direction)
    np.testing.assert_allclose(matrix, product, rtol=1e-9, atol=1e-9 * np.abs(product).max())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_exact_distribution_recovers_the_model(loss: str, name: str, order: int) -> None:
    alphabet = ALPHABETS[name]
    two = len(alphabet) == 2
    model = random_model(6 if two else 4, order, alphabet, 0.6, seed=order, d=0.0 if two else 0.3)
    states, p, _ = distribution(model)
    samples = Samples.check(states, alphabet, p)
    result = screening.fit(samples, model.packed, None, flat(), loss=loss, tol=1e-13)
    assert result.converged
    np.testing.assert_allclose(result.model.weights, model.weights, atol=1e-6)
    np.testing.assert_allclose(result.model.h, model.h, atol=1e-6)
    np.testing.assert_allclose(result.model.d, model.d, atol=1e-6)


def test_without_centring_it_would_not_be_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(5, 2, (0, 1), 1.5, seed=3, d=0.0)
    states, p, _ = distribution(model)

    def uncentred(codes, F, d, values, weights, first, second):  # type: ignore[no-untyped-def]
        x = values[codes]
        loss = np.exp(-F * x)
        first[0] = -x * loss
        if len(second):
            second[0] = x * x * loss
        return loss @ weights

    monkeypatch.setattr(conditional, "screen", uncentred)
    result = screening.fit(Samples.check(states, (0, 1), p), model.packed, None, flat(), tol=1e-10)
    assert not np.allclose(result.model.weights, model.weights, atol=0.05)


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_are_repeated_rows(loss: str) -> None:
    rng = np.random.default_rng(4)
    X, times = rng.choice([-1, 1], size=(200, 4)), rng.integers(0, 4, 200)
    pairs = Interactions.upto(2, 4)
    repeated = Samples.check(np.repeat(X, times, axis=0), (-1, 1))
    a = screening.fit(Samples.check(X, (-1, 1), times), pairs, None, flat(), loss=loss, tol=1e-14)
    b = screening.fit(repeated, pairs, None, flat(), loss=loss, tol=1e-14)
    np.testing.assert_allclose(a.model.weights, b.model.weights, atol=1e-8)


def test_affine_change_of_alphabet() -> None:
    model = random_model(6, 3, (-1, 1), 0.6, seed=5, d=0.0)
    X = sample(model, 3000, method="exact", random_state=0)
    everything = Interactions.upto(3, 6)
    spins = screening.fit(Samples.check(X, (-1, 1)), everything, None, flat(), tol=1e-13)
    bits = screening.fit(Samples.check((X + 1) // 2, (0, 1)), everything, None, flat(), tol=1e-13)
    np.testing.assert_allclose(bits.model.with_alphabet((-1, 1)).weights, spins.model.weights, atol=1e-7)


def finds_graph(weights: np.ndarray, pairs: Interactions, truth: BoltzmannMachine) -> bool:
    """Whether the largest couplings are those of the graph."""
    largest = np.argsort(-np.abs(weights))[: len(truth.packed)]
    return {pairs.tuples[r] for r in largest} == set(truth.interactions)


@pytest.mark.parametrize("loss", LOSSES)
def test_finds_strong_graphs_that_mean_field_does_not(loss: str) -> None:
    pairs, M, found = Interactions.upto(2, 16), 10_000, np.zeros(2, dtype=int)
    for seed in range(20, 28):
        truth = datasets.make_lattice((4, 4), 1.1, random_state=seed)
        samples = Samples.check(sample(truth, M, method="exact", random_state=seed), (-1, 1))
        mean_field = diagonal.invert(Moments.from_samples(samples, order=2), pairs, 0.0)
        screened = screening.fit(samples, pairs, mean_field.model, flat(0.3 * np.sqrt(M), 1.0), loss=loss)
        assert screened.converged
        assert (screened.model.weights == 0.0).any()
        found += [finds_graph(result.model.weights, pairs, truth) for result in (mean_field, screened)]
    assert found[0] <= 4
    assert found[1] >= 7


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.3, 0.6])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("loss", LOSSES)
def test_intervals_cover(strength: float, order: int, loss: str) -> None:
    model = random_model(8, order, (-1, 1), strength, seed=order, d=0.0)
    n_sets, M = 150, 2000
    X = np.asarray(sample(model, M * n_sets, method="exact", random_state=1)).reshape(n_sets, M, -1)
    z = []
    for rows in X:
        result = screening.fit(Samples.check(rows, (-1, 1)), model.packed, None, flat(), loss=loss)
        z.append((result.model.weights - model.weights) / result.standard_errors)
    for k in model.packed.orders:
        size = np.abs(np.array(z)[:, model.packed.slice(k)])
        assert 0.93 <= np.mean(size < 1.959964) <= 0.97
        assert not 0.93 <= np.mean(1.25 * size < 1.959964) <= 0.97  # errors a fifth too small are noticed


def test_unknown_loss_is_refused() -> None:
    samples = Samples.check(np.random.default_rng(0).choice([-1, 1], size=(20, 3)), (-1, 1))
    with pytest.raises(ValueError, match="logrise"):
        screening.fit(samples, Interactions.upto(2, 3), None, flat(), loss="log-rise")


@pytest.mark.parametrize("values", [(-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0, 1.0), (0.0, 1.0, 2.0, 3.0)])
def test_kernel_and_its_twin(values: tuple[float, ...]) -> None:
    rng = np.random.default_rng(6)
    a = np.array(values)
    n, R, terms = 3, 8, 1 if len(a) == 2 else 2
    codes = rng.integers(0, len(a), (n, R)).astype(np.uint8)
    F, d, w = rng.normal(size=(n, R)), rng.normal(size=n), rng.random(R)
    first, second = np.empty((terms, n, R)), np.empty((terms * (terms + 1) // 2, n, R))
    losses = conditional.screen(codes, F, d, a, w, first, second)
    g = np.stack([a - a.mean(), -0.5 * (a**2 - (a**2).mean())])[:terms, codes]
    parameters = np.stack([F, np.broadcast_to(d[:, None], F.shape)])[:terms]
    loss = np.exp(-(parameters * g).sum(axis=0))
    np.testing.assert_allclose(losses, loss @ w, rtol=1e-12)
    np.testing.assert_allclose(first, -g * loss, rtol=1e-12)
    pairs = [(0, 0)] if terms == 1 else [(0, 0), (0, 1), (1, 1)]
    for k, (s, t) in enumerate(pairs):
        np.testing.assert_allclose(second[k], g[s] * g[t] * loss, rtol=1e-12)
