"""What a large fit does once, keeps, or leaves out: the results are those of doing it again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from hbm_learn import datasets, sample
from hbm_learn._kernels import conditional
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import hessian, pseudolikelihood
from hbm_learn.inversion.composite.information import CompositeInformation
from hbm_learn.inversion.composite.objective import HessianProducts, Objective
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.shrinkage import mixture
from hbm_learn.inversion.shrinkage.expectation import begin
from hbm_learn.inversion.shrinkage.marginals import Marginals
from hbm_learn.inversion.shrinkage.mixture import Cavities
from hbm_learn.inversion.shrinkage.quadratic import ProductQuadratic
from hbm_learn.space import Space
from hbm_learn.terms import Terms, all_terms


def composite_of(X: np.ndarray, order: int, values: tuple[int, int], dtype: type = np.float64) -> Composite:
    samples = Samples.check(X, values)
    space = samples.space.standard(samples.frequencies)
    parameters = Parameters(space, all_terms(order, space), "free", samples.frequencies)
    return pseudolikelihood.prepare(samples, parameters, dtype=dtype).composite


def bits(n: int, n_rows: int, rate: float, seed: int = 0) -> np.ndarray:
    X = (np.random.default_rng(seed).random((n_rows, n)) < rate).astype(int)
    X[:2] = [[0], [1]]
    return X


# ---------------------------------------------------------------------- diagonals


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("values", [(-1, 1), (0, 1)])
def test_squares_of_two_valued_functions_are_sums_of_monomials(order: int, values: tuple[int, int]) -> None:
    composite = composite_of(np.array(values)[bits(7, 300, 0.2)], order, values)
    theta = 0.2 * np.random.default_rng(1).normal(size=composite.n_params)
    assert composite.map.squares is not None
    found, (again, cross) = hessian.diagonal(composite, theta), hessian.diagonal_and_own(composite, theta)
    held = hessian.held_diagonal(HessianProducts(Objective(composite, np.zeros(len(theta))), theta))
    composite.map.__dict__["squares"] = None  # as for functions of more values
    expected, expected_cross = hessian.diagonal_and_own(composite, theta)
    for each in (found, again, held, hessian.diagonal(composite, theta)):
        np.testing.assert_allclose(each, expected, rtol=1e-10)
    np.testing.assert_allclose(cross.toarray(), expected_cross.toarray(), rtol=1e-12)
    np.testing.assert_allclose(expected, np.diag(hessian.hessian(composite, theta)), rtol=1e-10)


def test_squares_of_rare_values_are_taken_one_by_one() -> None:
    X = bits(6, 4000, 0.3)
    X[:, 0] = 0
    X[:2, 0] = 1  # a standard function of 45 and −0.02
    assert composite_of(X, 2, (0, 1)).map.squares is None


# ---------------------------------------------------------------------- losses a few sites at a time


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_losses_of_two_values_do_not_depend_on_how_many_sites_are_taken(
    dtype: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    codes, F = rng.integers(0, 2, (9, 40)).astype(np.uint8), rng.normal(0, 3, (9, 40)).astype(dtype)
    width, w = rng.uniform(0.5, 3, (9, 1)).astype(dtype), rng.random(40)
    found = []
    for few in (1, 100, 10**6):
        monkeypatch.setattr(conditional, "_FEW", few)
        first, second = np.empty_like(F), np.empty_like(F)
        found.append((conditional.pseudo_binary(codes, F, width, w, first, second), first, second))
    for other in found[1:]:
        np.testing.assert_allclose(other[0], found[0][0], rtol=1e-14)
        for a, b in zip(found[0][1:], other[1:]):
            np.testing.assert_array_equal(a, b)
    margin = F * np.where(codes == 1, width, -width)
    np.testing.assert_allclose(found[0][0], np.logaddexp(0.0, -margin.astype(float)) @ w, rtol=1e-5)


# ---------------------------------------------------------------------- means by products


def test_solutions_go_on_from_the_last_one_without_a_product_for_it() -> None:
    rng = np.random.default_rng(3)
    columns = all_terms(2, Space.of((-1, 1), 14))
    P = 14 + len(columns)
    A = rng.normal(size=(P, 4 * P)) / np.sqrt(4 * P)
    K, b, calls = 300.0 * A @ A.T, rng.normal(size=P) * 20, []

    def product(v: np.ndarray) -> np.ndarray:
        calls.append(v)
        return K @ v

    free, gamma = ProductQuadratic(product, np.diag(K), b, columns, 14), rng.uniform(1, 1e3, P)
    for _ in range(5):
        gamma = gamma * np.exp(0.3 * rng.normal(size=P))
        found = free.posterior(gamma, np.zeros(P))
        np.testing.assert_allclose(found.residual, b - K @ found.mean - gamma * found.mean, atol=1e-9)
    before = len(calls)
    free.posterior(gamma, np.zeros(P))
    assert len(calls) == before  # it is where it was


# ---------------------------------------------------------------------- draws


def large_problem() -> tuple[Composite, np.ndarray]:
    X = sample(datasets.make_sk(16, 0.4, h_std=0.1, random_state=1), 1500, random_state=2)
    composite = composite_of(np.asarray(X), 3, (-1, 1))
    return composite, np.r_[np.zeros(composite.parameters.n_own), np.full(len(composite.parameters.columns), 0.2)]


def test_rough_errors_are_those_of_all_draws() -> None:
    X = sample(datasets.make_sk(30, 0.4, h_std=0.1, random_state=1), 3000, random_state=2)
    samples = Samples.check(np.asarray(X), (-1, 1))
    parameters = Parameters(samples.space, all_terms(3, samples.space), "free", samples.frequencies)
    prepared = pseudolikelihood.prepare(samples, parameters)
    found = [prepared.fit(Prior({2: 200.0, 3: 3000.0}), random_state=0, rough=rough) for rough in (False, True)]
    ratio = np.sqrt(found[1].posterior / found[0].posterior)
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.02)
    assert np.std(ratio) < 0.06


# ---------------------------------------------------------------------- curvature that stays


def test_curvature_is_kept_where_it_has_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hbm_learn.inversion.composite.information.MAX_MATRICES", 0)
    composite, _ = large_problem()
    information = CompositeInformation(composite, np.ones(composite.n_params))
    everything = np.ones(len(composite.parameters.columns), dtype=bool)
    theta = composite.parameters.independent()

    def curvature(at: np.ndarray, active: np.ndarray = everything):  # type: ignore[no-untyped-def]
        found = information.at(at)
        assert found is not None
        return found.curvature(active)

    first, near, far = curvature(theta), theta.copy(), theta.copy()
    near[16:20] += 0.01
    far[16:60] += 0.3
    assert curvature(near) is first
    assert curvature(near, np.arange(len(everything)) < 120) is not first
    other = curvature(far)
    assert other is not first
    np.testing.assert_allclose(other.diagonal, information.n_samples * hessian.diagonal(composite, far), rtol=1e-9)


# ---------------------------------------------------------------------- mixtures


@pytest.mark.parametrize("belief", [1.0, 0.3])
def test_moments_of_sites_are_those_of_their_components(belief: float) -> None:
    rng = np.random.default_rng(4)
    cavities = Cavities(np.exp(rng.normal(5, 3, 60)), np.exp(rng.normal(5, 4, 60)), rng.choice([1, 1, 2, 40], 60))
    sigma = mixture.scales(1e4)
    pi = mixture.doubted(rng.dirichlet(np.full(len(sigma), 0.3)), belief)
    R, expected = mixture.responsibilities(cavities, sigma, pi)
    w = mixture.shrinkage(cavities, sigma)
    mean = np.sum(R * w, axis=1)
    variance = mean + np.maximum(np.sum(R * w**2, axis=1) - mean**2, 0.0) * cavities.square / cavities.df
    factor, spread, total = mixture.moments(cavities, sigma, pi)
    np.testing.assert_allclose(factor, mean, rtol=1e-9)
    np.testing.assert_allclose(spread, variance, rtol=1e-6)
    np.testing.assert_allclose(total, expected, rtol=1e-9, atol=1e-9)


def _cavities(rng: np.random.Generator, n: int) -> Cavities:
    z = rng.normal(size=n) * np.where(rng.random(n) < 0.05, 3.0, 1.01)
    z[:40] = 30.0
    precision, df = 1e4 * rng.uniform(0.01, 1.0, n), np.where(np.arange(n) < n // 3, 4.0, 1.0)
    return Cavities(precision, z**2 * precision * df, df)


def test_weights_learnt_from_counts_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    cavities, sigma = _cavities(np.random.default_rng(5), 50_000), mixture.scales(1e4)
    few, weights = mixture.counted(cavities)
    assert len(weights) < 0.2 * len(cavities.precision)
    for d in (1.0, 4.0):
        mine, there = cavities.at(cavities.df == d), few.at(few.df == d)
        w, size = weights[few.df == d], float(np.count_nonzero(cavities.df == d))
        assert w.sum() == pytest.approx(size)
        assert w @ (there.square / there.precision) == pytest.approx((mine.square / mine.precision).sum())
        assert w @ np.log(there.precision) == pytest.approx(np.log(mine.precision).sum())
    assert np.all(weights[few.square > 36.1 * few.precision * few.df] == 1.0)
    # What a set of weights says of all of them, in nats.
    for pi in np.random.default_rng(6).dirichlet(np.full(len(sigma), 0.3), 4):
        told = weights @ mixture.responsibilities(few, sigma, pi)[1]
        assert told == pytest.approx(mixture.responsibilities(cavities, sigma, pi)[1].sum(), rel=2e-3)
    found = mixture.learn_weights(cavities, sigma)
    monkeypatch.setattr(mixture, "_FEW", 10**9)
    everything = mixture.learn_weights(cavities, sigma)
    told, most = (mixture.responsibilities(cavities, sigma, pi)[1].sum() for pi in (found, everything))
    assert most - told < 0.1


def test_weights_change_as_little_as_cavities_do() -> None:
    """Where they jump, sites never settle: each sweep would meet another sample."""
    cavities, sigma = _cavities(np.random.default_rng(7), 30_000), mixture.scales(1e4)
    rng = np.random.default_rng(8)
    close = Cavities(
        cavities.precision * np.exp(1e-4 * rng.normal(size=30_000)),
        cavities.square * np.exp(1e-4 * rng.normal(size=30_000)),
        cavities.df,
    )
    before, after = (np.cumsum(mixture.learn_weights(c, sigma)) for c in (cavities, close))
    np.testing.assert_allclose(after, before, atol=1e-4)


def test_the_main_site_of_a_function_is_the_one_with_most_variance() -> None:
    rng = np.random.default_rng(6)
    terms = Terms(Space.of((-1, 1), 6), all_terms(2, Space.of((-1, 1), 6)))
    p = len(terms.columns)
    sites = begin(terms, mixture.scales(1e3), rng.normal(0, 0.1, p), rng.uniform(1e-4, 1e-2, p))
    T = rng.normal(size=(40, 6 + p)) * (rng.random((40, 6 + p)) < 0.3)
    T[3, 6:] = 0.0  # of own parameters only
    found = Marginals.of(sparse.csr_array(T), sites, 6, np.zeros(40), np.ones(40))
    spread = T[:, 6:] ** 2 * sites.variance
    filled = spread.max(axis=1) > 0
    np.testing.assert_array_equal(found.main[filled], spread.argmax(axis=1)[filled])
    np.testing.assert_array_equal(found.scale, np.where(filled, T[np.arange(40), 6 + spread.argmax(axis=1)], 0.0))
    assert not found.scale[3]
