"""Interaction screening: exact recovery; graphs that mean field does not find; ``test_composite`` has derivatives."""

from __future__ import annotations

import numpy as np
import pytest
from composite_oracle import GAUGES, KINDS, check, draw, flat, parameters_of, random_theta
from oracle import ALPHABETS, SPACES, all_states, distribution, random_mixed, random_model

from hbm_learn import BoltzmannMachine, Interactions, Moments, datasets, invert, sample
from hbm_learn._kernels import conditional
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import screening
from hbm_learn.inversion.composite.losses import Outputs
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import NO_EVIDENCE, Prior, learn
from hbm_learn.inversion.result import Fit

LOSSES = list(screening.LOSSES)


def fit(  # type: ignore[no-untyped-def]
    samples: Samples, columns: Interactions, prior: Prior, start: object = None, loss: str = "logrise", **options
) -> Fit:
    """In the user's coding."""
    parameters = Parameters(samples.space, columns, "quadratic", samples.frequencies)
    return screening.prepare(samples, parameters, loss=loss).fit(prior, start, **options)


def couplings(result: Fit) -> BoltzmannMachine:
    return result.parameters.model(result.theta)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_exact_distribution_recovers_the_model(loss: str, name: str, order: int) -> None:
    alphabet = ALPHABETS[name]
    two = len(alphabet) == 2
    model = random_model(6 if two else 4, order, alphabet, 0.6, seed=order, d=0.0 if two else 0.3)
    states, p, _ = distribution(model)
    result = fit(Samples.check(states, alphabet, p), model.columns, flat(), loss=loss, tol=1e-13)
    assert result.converged
    found = couplings(result)
    np.testing.assert_allclose(found.weights, model.weights, atol=1e-6)
    np.testing.assert_allclose(found.h, model.h, atol=1e-6)
    np.testing.assert_allclose(found.d, model.d, atol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("gauge", GAUGES)
@pytest.mark.parametrize("name", SPACES)
def test_exact_distribution_recovers_mixed_models(loss: str, name: str, gauge: str) -> None:
    model = random_mixed(SPACES[name], 2, 0.6, seed=1)
    _, p, _ = distribution(model)
    samples = check(all_states(model), SPACES[name], p)
    parameters = parameters_of(samples, 2, gauge)
    result = screening.prepare(samples, parameters, loss=loss).fit(flat(), tol=1e-14)
    assert result.converged, result.status
    np.testing.assert_allclose(result.theta, parameters.pack(model), atol=1e-5)


def test_without_centring_it_would_not_be_consistent(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(5, 2, (0, 1), 1.5, seed=3, d=0.0)
    states, p, _ = distribution(model)

    def uncentred(codes, F, width, weights, first, second):  # type: ignore[no-untyped-def]
        x = codes * width
        loss = np.exp(-F * x)
        first[...] = -x * loss
        if len(second):
            second[...] = x * x * loss
        return loss @ weights

    monkeypatch.setattr(conditional, "screen_binary", uncentred)
    result = fit(Samples.check(states, (0, 1), p), model.columns, flat(), tol=1e-10)
    assert not np.allclose(result.weights, model.weights, atol=0.05)


def test_affine_change_of_alphabet() -> None:
    model = random_model(6, 3, (-1, 1), 0.6, seed=5, d=0.0)
    X = sample(model, 3000, method="exact", random_state=0)
    everything = Interactions.upto(3, 6)
    spins = fit(Samples.check(X, (-1, 1)), everything, flat(), tol=1e-13)
    bits = fit(Samples.check((X + 1) // 2, (0, 1)), everything, flat(), tol=1e-13)
    np.testing.assert_allclose(couplings(bits).with_alphabet((-1, 1)).weights, spins.weights, atol=1e-7)


def finds_graph(weights: np.ndarray, pairs: Interactions, truth: BoltzmannMachine) -> bool:
    """Whether the largest couplings are those of the graph."""
    largest = np.argsort(-np.abs(weights))[: len(truth.columns)]
    return {pairs.tuples[r] for r in largest} == set(truth.interactions)


@pytest.mark.parametrize("loss", LOSSES)
def test_finds_strong_graphs_that_mean_field_does_not(loss: str) -> None:
    pairs, M, found = Interactions.upto(2, 16), 10_000, np.zeros(2, dtype=int)
    for seed in range(20, 28):
        truth = datasets.make_lattice((4, 4), 1.1, random_state=seed)
        samples = Samples.check(sample(truth, M, method="exact", random_state=seed), (-1, 1))
        mean_field = invert(Moments.from_samples(samples, order=2), pairs, alpha=0.0).model
        screened = fit(samples, pairs, flat(0.3 * np.sqrt(M), 1.0), mean_field, loss=loss)
        assert screened.converged
        assert (screened.weights == 0.0).any()
        found += [finds_graph(weights, pairs, truth) for weights in (mean_field.weights, screened.weights)]
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
        result = fit(Samples.check(rows, (-1, 1)), model.columns, flat(), loss=loss)
        z.append((result.weights - model.weights) / np.sqrt(result.posterior[8:]))
    for k in model.columns.orders:
        size = np.abs(np.array(z)[:, model.columns.slice(k)])
        assert 0.93 <= np.mean(size < 1.959964) <= 0.97
        assert not 0.93 <= np.mean(1.25 * size < 1.959964) <= 0.97  # errors a fifth too small are noticed


def test_unknown_loss_is_refused() -> None:
    samples = Samples.check(np.random.default_rng(0).choice([-1, 1], size=(20, 3)), (-1, 1))
    with pytest.raises(ValueError, match="logrise"):
        fit(samples, Interactions.upto(2, 3), flat(), loss="log-rise")


@pytest.mark.parametrize("name", KINDS)
def test_kernels_and_their_twin(name: str) -> None:
    rng = np.random.default_rng(6)
    samples = check(draw(KINDS[name], 20, rng), KINDS[name])
    parameters = parameters_of(samples, 2, "uncentred")
    losses = screening.prepare(samples, parameters).composite.losses
    space, outputs, R = parameters.space, Outputs(parameters), 8
    codes = np.stack([rng.integers(0, q, R) for q in space.sizes]).astype(np.uint8)
    F, theta, w = rng.normal(size=(space.n_columns, R)), random_theta(parameters, rng, 1.0), rng.random(R)
    total, first, second = losses(codes, F, losses.base(theta), w, True)
    without = losses(codes, F, losses.base(theta), w, False)
    np.testing.assert_array_equal(without[1], first)
    assert not len(without[2])
    eta = np.concatenate([F, np.repeat(theta[outputs.extra_params, None], R, axis=1)])
    for i, O in enumerate(parameters.own):
        mine = outputs.index[outputs.ptr[i] : outputs.ptr[i + 1]]
        g = (O - O.mean(axis=0))[codes[i]]
        loss = np.exp(-(g.T * eta[mine]).sum(axis=0))
        assert total[i] == pytest.approx(loss @ w, rel=1e-12)
        np.testing.assert_allclose(first[mine], -g.T * loss, rtol=1e-12, atol=1e-12 * loss.max())
        for r in range(R):
            expected = np.outer(g[r], g[r]) * loss[r]
            np.testing.assert_allclose(
                second[outputs.pairs_of(i), r], expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max()
            )


SEPARATED = np.array([[1, 1, 1], [-1, -1, 1], [1, 1, -1], [-1, -1, -1], [1, 1, 1], [-1, -1, 1], [-1, 1, 1], [1, -1, 1]])


def separated(alpha: float, twice: bool = True) -> Fit:
    """Columns 0 and 1 are the same in all of the rows, or in all but two."""
    samples = Samples.check(SEPARATED[: 6 if twice else 8], (-1, 1))
    return fit(samples, Interactions.upto(2, 3), Prior({2: alpha}))


def test_a_fall_without_end_is_stopped_and_said() -> None:
    """ln S falls by 1 for each unit of J: under a prior of 10⁻⁶ to −10⁶, had exp(−J) such numbers."""
    assert separated(1e-6, twice=False).converged
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = separated(1e-6)
    assert found.endless
    assert not found.converged
    assert "raise alpha" in found.status
    assert np.isfinite(found.theta).all()
    assert np.isfinite(found.posterior).all()
    assert separated(1.0).converged


def test_no_prior_is_learnt_from_a_fall_without_end() -> None:
    asked = []

    def under(alpha: dict[int, float], last: Fit | None) -> Fit:
        asked.append(alpha[2])
        return separated(alpha[2])

    for first in (1.0, 1e-6):
        found = learn(under, {2: first}, 6)
        assert not found.endless
        assert NO_EVIDENCE in found.notes
    assert min(asked) == 1e-6, "the prior is raised from where nothing can be told"
    assert NO_EVIDENCE not in learn(lambda alpha, last: separated(alpha[2], twice=False), {2: 1.0}, 8).notes
