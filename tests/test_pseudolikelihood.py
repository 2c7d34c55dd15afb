"""Pseudolikelihood against brute force: derivatives, optimum, exact recovery, weights, boundary, errors."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import ALPHABETS, distribution, random_model
from scipy import optimize

from hbm_learn import BoltzmannMachine, Interactions, Moments, datasets, sample
from hbm_learn._kernels import conditional
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.composite import pseudolikelihood, sandwich
from hbm_learn.inversion.composite.objective import Curvature, DenseCurvature, Objective
from hbm_learn.inversion.prior import Prior
from hbm_learn.optimise.newton_cg import conjugate_gradients

SETS = ("dense", "sparse")


def flat(alpha: float = 0.0, l1_ratio: float = 0.0) -> Prior:
    return Prior(dict.fromkeys(range(2, 6), alpha), l1_ratio)


def interactions_of(kind: str, order: int, n: int, rng: np.random.Generator) -> Interactions:
    """All subsets up to an order, or a few of each order that are not closed under subsets."""
    everything = Interactions.upto(order, n)
    if kind == "dense":
        return everything
    keep = [mu for k in everything.orders for mu in rng.permutation(everything.block(k))[:2].tolist()]
    return Interactions.from_tuples(keep, n)


def brute(
    samples_X: np.ndarray, weights: np.ndarray, model: BoltzmannMachine, count: np.ndarray, alpha: float
) -> float:
    """−Σ w Σ_i ln P(x_i | rest) / Σ w + penalty, one row, one site, one value at a time."""
    total = 0.0
    for x, w in zip(samples_X, weights):
        for i in range(model.n_features):
            field = model.h[i] + sum(
                weight * np.prod([x[j] for j in mu if j != i]) for mu, weight in model.couplings().items() if i in mu
            )
            exponent = [field * a - 0.5 * model.d[i] * a * a for a in model.alphabet.nodes]
            total += w * (np.log(np.sum(np.exp(exponent))) - field * x[i] + 0.5 * model.d[i] * x[i] ** 2)
    return (total + 0.5 * alpha * float(count @ model.weights**2)) / weights.sum()


@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("weighted", [False, True])
def test_value_gradient_and_hessian(name: str, order: int, kind: str, weighted: bool) -> None:
    rng = np.random.default_rng(order)
    n, alphabet = 5, ALPHABETS[name]
    interactions = interactions_of(kind, order, n, rng)
    X = rng.choice(alphabet, size=(40, n))
    weights = rng.uniform(0.1, 2.0, len(X)) if weighted else np.ones(len(X))
    fit = pseudolikelihood.prepare(Samples.check(X, alphabet, weights if weighted else None), interactions)
    composite = fit.composite
    assert composite.map.is_dense or kind == "sparse"
    theta = rng.normal(0, 0.2, composite.n_params)
    ridge = np.zeros(composite.n_params)
    ridge[n : composite.n_linear] = 0.7 * fit.count[n : composite.n_linear] / composite.rows.n_samples
    objective = Objective(composite, ridge)
    value, gradient = objective.value_gradient(theta)
    sizes = np.diff(interactions.indptr)
    assert value == pytest.approx(brute(X, weights, composite.model(theta), sizes, 0.7), rel=1e-12)

    step, direction = 1e-5, rng.normal(size=len(theta))
    up, down = objective.value_gradient(theta + step * direction), objective.value_gradient(theta - step * direction)
    assert gradient @ direction == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-6, abs=1e-8)
    for axis in np.eye(len(theta)):
        slope = (
            objective.value_gradient(theta + step * axis)[0] - objective.value_gradient(theta - step * axis)[0]
        ) / (2 * step)
        assert gradient @ axis == pytest.approx(slope, rel=1e-5, abs=1e-7)
    product = Curvature(objective, theta).product(direction)
    np.testing.assert_allclose(product, (up[1] - down[1]) / (2 * step), rtol=1e-6, atol=1e-7 * np.abs(product).max())
    dense = DenseCurvature(objective, theta)
    np.testing.assert_allclose(dense.product(direction), product, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_exact_distribution_recovers_the_model(name: str, order: int) -> None:
    alphabet = ALPHABETS[name]
    model = random_model(4 if len(alphabet) > 2 else 6, order, alphabet, 0.6, seed=order, d=0.0)
    states, p, _ = distribution(model)
    result = pseudolikelihood.fit(Samples.check(states, alphabet, p), model.packed, None, flat(), tol=1e-13)
    assert result.converged
    np.testing.assert_allclose(result.model.weights, model.weights, atol=1e-6)
    np.testing.assert_allclose(result.model.h, model.h, atol=1e-6)
    np.testing.assert_allclose(result.model.d, model.d, atol=1e-6)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
@pytest.mark.parametrize("name", ["spin", "ternary"])
def test_optimum_agrees_with_scipy(name: str, alpha: float) -> None:
    rng = np.random.default_rng(0)
    alphabet = ALPHABETS[name]
    X, weights = rng.choice(alphabet, size=(25, 3)), rng.uniform(0.5, 2.0, 25)
    interactions = Interactions.upto(3, 3)
    fit = pseudolikelihood.prepare(Samples.check(X, alphabet, weights), interactions)
    result = fit.fit(flat(alpha), tol=1e-14)
    sizes = np.diff(interactions.indptr)

    def objective(theta: np.ndarray) -> float:
        return brute(X, weights, fit.composite.model(theta), sizes, alpha)

    found = optimize.minimize(objective, fit.composite.independent(), method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(result.model.weights, fit.composite.model(found.x).weights, atol=2e-5)
    np.testing.assert_allclose(result.model.h, fit.composite.model(found.x).h, atol=2e-5)


def test_weights_are_repeated_rows() -> None:
    rng = np.random.default_rng(3)
    X, times = rng.choice([-1, 0, 1], size=(150, 4)), rng.integers(0, 4, 150)
    interactions = Interactions.upto(3, 4)
    once = pseudolikelihood.fit(Samples.check(X, (-1, 0, 1), times), interactions, None, flat(), tol=1e-14)
    repeated = pseudolikelihood.fit(
        Samples.check(np.repeat(X, times, axis=0), (-1, 0, 1)), interactions, None, flat(), tol=1e-14
    )
    np.testing.assert_allclose(once.model.weights, repeated.model.weights, atol=1e-8)
    np.testing.assert_allclose(once.model.d, repeated.model.d, atol=1e-8)
    np.testing.assert_allclose(once.standard_errors, repeated.standard_errors, rtol=1e-6)


def test_grouped_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from hbm_learn.data import rows

    X = np.random.default_rng(4).choice([-1, 1], size=(500, 5))
    samples, interactions = Samples.check(X, (-1, 1)), Interactions.upto(3, 5)
    grouped = pseudolikelihood.prepare(samples, interactions)
    assert grouped.composite.rows.n_rows <= 32
    monkeypatch.setattr(rows, "_group", lambda _: None)
    every = pseudolikelihood.prepare(samples, interactions)
    assert every.composite.rows.n_rows == 500
    a, b = (fit.fit(flat(2.0), tol=1e-14) for fit in (grouped, every))
    for field in ("standard_errors", "sampling_errors", "h_standard_errors"):
        np.testing.assert_allclose(getattr(a, field), getattr(b, field), rtol=1e-6)
    np.testing.assert_allclose(a.model.weights, b.model.weights, atol=1e-9)


def test_relabelling_and_affine_change_of_alphabet() -> None:
    model = random_model(6, 3, (-1, 1), 0.8, seed=5, d=0.0)
    X = sample(model, 2000, method="exact", random_state=0)
    everything = Interactions.upto(3, 6)
    result = pseudolikelihood.fit(Samples.check(X, (-1, 1)), everything, None, flat(), tol=1e-13)
    order = np.array([3, 0, 5, 1, 4, 2])
    relabelled = pseudolikelihood.fit(Samples.check(X[:, order], (-1, 1)), everything, None, flat(), tol=1e-13)
    expected = result.model.couplings()
    for mu, weight in relabelled.model.couplings().items():
        assert weight == pytest.approx(expected[tuple(sorted(order[list(mu)].tolist()))], abs=1e-8)
    bits = pseudolikelihood.fit(Samples.check((X + 1) // 2, (0, 1)), everything, None, flat(), tol=1e-13)
    np.testing.assert_allclose(bits.model.with_alphabet((-1, 1)).weights, result.model.weights, atol=1e-7)


def test_start_and_threads_and_precision_do_not_matter() -> None:
    model = random_model(12, 3, (-1, 1), 0.5, seed=6, d=0.0)
    samples = Samples.check(sample(model, 20000, method="exact", random_state=1), (-1, 1))
    cold = pseudolikelihood.fit(samples, model.packed, None, flat(1.0), tol=1e-8)
    warm = pseudolikelihood.fit(samples, model.packed, cold.model, flat(1.0), tol=1e-8)
    assert warm.n_iter <= 1
    scale = cold.standard_errors
    assert np.abs((warm.model.weights - cold.model.weights) / scale).max() < 1e-3
    one, two = (
        pseudolikelihood.prepare(samples, model.packed, n_jobs=k, dtype=np.float32).fit(flat(1.0), tol=1e-8)
        for k in (1, 2)
    )
    np.testing.assert_array_equal(one.model.weights, two.model.weights)
    assert np.abs((one.model.weights - cold.model.weights) / scale).max() < 1e-3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_stops_where_it_says(seed: int) -> None:
    """The decrement that is left, by the Hessian of all rows, though the last step was taken without another look."""
    n, M = 22, 60_000
    model = datasets.make_random(n, {2: 0.7 / np.sqrt(n), 3: 0.7 / n}, 0.1, random_state=seed)
    samples = Samples.check(sample(model, M, random_state=seed), (-1, 1))
    start = diagonal.invert(Moments.from_samples(samples, order=3), model.packed, 0.0)
    fit = pseudolikelihood.prepare(samples, model.packed)
    composite = fit.composite
    objective = Objective(composite, np.zeros(composite.n_params))

    def left(model: BoltzmannMachine) -> float:
        composite.stride, theta = 1, composite.pack(model)
        gradient, H = objective.value_gradient(theta)[1], Curvature(objective, theta)
        solved = conjugate_gradients(H.product, gradient, H.precondition, 1e-3, 200)
        return float(gradient @ solved) * M / composite.n_params

    assert composite.stride > 1
    assert left(start.model) > 0.1
    assert left(fit.fit(flat(), start.model).model) < 0.01


def never_together(rng: np.random.Generator) -> np.ndarray:
    X = rng.choice([-1, 1], size=(500, 5))
    X[X[:, 0] == 1, 1] = -1
    return X


def identical(rng: np.random.Generator) -> np.ndarray:
    X = rng.choice([-1, 1], size=(500, 5))
    X[:, 3] = X[:, 0]
    return X


@pytest.mark.parametrize("make", [never_together, identical])
@pytest.mark.parametrize("order", [2, 3])
def test_boundary_data(make: object, order: int) -> None:
    X = make(np.random.default_rng(7))  # type: ignore[operator]
    samples, interactions = Samples.check(X, (-1, 1)), Interactions.upto(order, 5)
    open_ended = pseudolikelihood.fit(samples, interactions, None, flat())
    assert not open_ended.converged
    assert "no finite maximum" in open_ended.status
    assert "alpha > 0" in open_ended.status
    closed = pseudolikelihood.fit(samples, interactions, None, flat(1.0))
    assert closed.converged
    for result in (open_ended, closed):
        for array in (result.model.weights, result.standard_errors, result.sampling_errors, result.h_standard_errors):
            assert np.isfinite(array).all()


@pytest.mark.parametrize("strength", [0.5, 1.0, 1.5])
def test_regular_data_is_not_called_unbounded(strength: float) -> None:
    model = random_model(8, 2, (-1, 1), strength, seed=8, d=0.0)
    X = sample(model, 5000, method="exact", random_state=0)
    seen = [np.unique(X[:, mu], axis=0) for mu in model.interactions]
    assert min(map(len, seen)) == 4  # at 1.5, one pair of values occurs in a single row
    result = pseudolikelihood.fit(Samples.check(X, (-1, 1)), model.packed, None, flat())
    assert result.converged, result.status


def test_constant_column_is_named() -> None:
    X = np.random.default_rng(9).choice([-1, 1], size=(50, 4))
    X[:, 2] = 1
    with pytest.raises(ValueError, match="variable 2"):
        pseudolikelihood.fit(Samples.check(X, (-1, 1)), Interactions.upto(2, 4), None, flat())


def test_verbose_prints_a_line_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(10).choice([-1, 1], size=(50, 4))
    result = pseudolikelihood.fit(Samples.check(X, (-1, 1)), Interactions.upto(2, 4), None, flat(), verbose=1)
    assert len(capsys.readouterr().out.splitlines()) == result.n_iter + 1


def test_blocks_of_any_size_give_the_same_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(13).choice([-1, 0, 1], size=(3000, 12))
    samples, pairs = Samples.check(X, (-1, 0, 1)), Interactions.upto(2, 12)
    whole = pseudolikelihood.fit(samples, pairs, None, flat(), tol=1e-12)
    original = Samples.blocks
    monkeypatch.setattr(Samples, "blocks", lambda self, max_rows=None: original(self, max_rows=170))
    assert len(list(samples.blocks())) == 18
    pieces = pseudolikelihood.fit(samples, pairs, None, flat(), tol=1e-12)
    assert pieces.converged
    np.testing.assert_allclose(pieces.model.weights, whole.model.weights, atol=1e-6)
    np.testing.assert_allclose(pieces.standard_errors, whole.standard_errors, rtol=0.05)


# ---------------------------------------------------------------------- errors


def standardised(model: BoltzmannMachine, M: int, n_sets: int, seed: int) -> dict[int, np.ndarray]:
    """(Ĵ − J) / standard error for each order, over independent data sets."""
    X = np.asarray(sample(model, M * n_sets, method="exact", random_state=seed)).reshape(n_sets, M, -1)
    z = []
    for rows in X:
        result = pseudolikelihood.fit(Samples.check(rows, model.alphabet), model.packed, None, flat())
        z.append((result.model.weights - model.weights) / result.standard_errors)
    return {k: np.array(z)[:, model.packed.slice(k)] for k in model.packed.orders}


def coverage(z: np.ndarray) -> float:
    return float(np.mean(np.abs(z) < 1.959964))


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.3, 0.6])
@pytest.mark.parametrize(("order", "alphabet"), [(2, (-1, 1)), (3, (-1, 1)), (3, (0, 1)), (2, (-1, 0, 1))])
def test_intervals_cover(strength: float, order: int, alphabet: tuple[int, ...]) -> None:
    wide = 2.0 if alphabet == (0, 1) else 1.0
    model = random_model(8, order, alphabet, strength * wide, seed=order, d=0.3 if len(alphabet) > 2 else 0.0)
    for z in standardised(model, 2000, 150, seed=1).values():
        assert 0.93 <= coverage(z) <= 0.97
        assert not 0.93 <= coverage(1.25 * z) <= 0.97  # errors a fifth too small are noticed
        assert not 0.93 <= coverage(0.75 * z) <= 0.97


def test_errors_by_probes_agree_with_the_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(14, 3, (-1, 1), 0.5, seed=14, d=0.0)
    samples = Samples.check(sample(model, 8000, method="exact", random_state=3), (-1, 1))
    for alphas in ({2: 0.0, 3: 0.0}, {2: 50.0, 3: 1000.0}):
        exact = pseudolikelihood.fit(samples, model.packed, None, Prior(alphas))
        with monkeypatch.context() as patch:
            patch.setattr(sandwich, "MAX_DENSE", 0)
            probed = pseudolikelihood.fit(samples, model.packed, None, Prior(alphas))
        for field in ("standard_errors", "sampling_errors"):
            ratio = getattr(probed, field) / getattr(exact, field)
            for k in (2, 3):
                assert np.mean(ratio[model.packed.slice(k)]) == pytest.approx(1.0, abs=0.06)
            assert np.std(ratio) < 0.08
        assert np.mean(probed.h_standard_errors / exact.h_standard_errors) == pytest.approx(1.0, abs=0.2)


def test_prior_shrinks_errors_as_a_posterior_does() -> None:
    """At weak coupling a coupling's Fisher information is 1: posterior 1/(M + α), sampling M/(M + α)²."""
    rng = np.random.default_rng(15)
    M, alpha = 4000, 3000.0
    samples = Samples.check(rng.choice([-1, 1], size=(M, 8)), (-1, 1))
    result = pseudolikelihood.fit(samples, Interactions.upto(3, 8), None, flat(alpha))
    np.testing.assert_allclose(result.standard_errors, np.sqrt(1 / (M + alpha)), rtol=0.05)
    np.testing.assert_allclose(result.sampling_errors, np.sqrt(M) / (M + alpha), rtol=0.05)


# ---------------------------------------------------------------------- l1


@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_l1_meets_its_certificate(name: str, l1_ratio: float) -> None:
    alphabet = ALPHABETS[name]
    n = 6
    strength = 2.0 if name == "bit" else 0.5  # J on {0, 1} is four times that on {-1, 1}
    model = random_model(n, 2, alphabet, strength, seed=20, d=0.3 if len(alphabet) > 2 else 0.0)
    X = np.asarray(sample(model, 2000, method="exact", random_state=2))
    fit = pseudolikelihood.prepare(Samples.check(X, alphabet), Interactions.upto(3, n))
    composite = fit.composite
    prior = flat(60.0, l1_ratio)
    result = fit.fit(prior)
    assert result.converged, result.status
    assert result.residual <= 1e-6
    zero = result.model.weights == 0.0
    assert 0 < zero.sum() < len(zero)
    # The certificate again, from a gradient of its own.
    rate = np.diff(composite.map.interactions.indptr) * 60.0 / len(X)
    objective = Objective(composite, np.zeros(composite.n_params))
    _, gradient = objective.value_gradient(composite.pack(result.model))
    J = result.model.weights
    slope = gradient[n : composite.n_linear] + (1 - l1_ratio) * rate * J
    assert np.abs(slope[~zero] + l1_ratio * rate[~zero] * np.sign(J[~zero])).max() <= 1e-6 * rate.max()
    assert (np.abs(slope[zero]) <= l1_ratio * rate[zero] * (1 + 1e-6)).all()
    assert np.abs(np.delete(gradient, np.arange(n, composite.n_linear))).max() <= 1e-6 * rate.max()


def test_l1_beyond_every_slope_gives_no_coupling() -> None:
    X = np.random.default_rng(21).choice([-1, 1], size=(300, 5))
    result = pseudolikelihood.fit(Samples.check(X, (-1, 1)), Interactions.upto(3, 5), None, flat(300.0, 1.0))
    assert not result.model.weights.any()


# ---------------------------------------------------------------------- kernels


@pytest.mark.parametrize("values", [(-1.0, 1.0), (0.0, 1.0), (-1.0, 0.0, 1.0), (0.0, 1.0, 2.0, 3.0)])
def test_pseudolikelihood_kernels_and_their_twin(values: tuple[float, ...]) -> None:
    rng = np.random.default_rng(11)
    a = np.array(values)
    n, R, terms = 3, 7, 1 if len(a) == 2 else 2
    codes = rng.integers(0, len(a), (n, R)).astype(np.uint8)
    F, d, w = rng.normal(0, 30, (n, R)), rng.normal(size=n) * (terms - 1), rng.random(R)
    first, second = np.empty((terms, n, R)), np.empty((terms * (terms + 1) // 2, n, R))
    kernel = conditional.pseudo_binary if terms == 1 else conditional.pseudo_finite
    losses = kernel(codes, F, d, a, w, first, second)
    exponent = F[..., None] * a - 0.5 * d[:, None, None] * a**2
    p = np.exp(exponent - exponent.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    statistics = np.stack([a, -0.5 * a**2])[:terms]
    mean = np.einsum("irq,tq->tir", p, statistics)
    centred = statistics[:, None, None] - mean[..., None]
    np.testing.assert_allclose(first, mean - statistics[:, codes], atol=1e-12)
    pairs = [(0, 0)] if terms == 1 else [(0, 0), (0, 1), (1, 1)]
    for k, (s, t) in enumerate(pairs):
        np.testing.assert_allclose(second[k], (p * centred[s] * centred[t]).sum(axis=-1), atol=1e-12)
    chosen = np.take_along_axis(exponent, codes[..., None].astype(int), axis=-1)[..., 0]
    top = exponent.max(axis=-1)
    loss = top + np.log(np.exp(exponent - top[..., None]).sum(axis=-1)) - chosen
    np.testing.assert_allclose(losses, loss @ w, rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_kernels_and_their_twins(dtype: type) -> None:
    rng = np.random.default_rng(12)
    interactions = Interactions.from_tuples([(0, 1), (1, 3), (0, 2, 3), (0, 1, 2, 3)], 4)
    samples = Samples.check(rng.choice([-1, 0, 1], size=(30, 4)), (-1, 0, 1))
    field_map = pseudolikelihood.prepare(samples, interactions).composite.map
    X, theta = rng.normal(size=(4, 9)).astype(dtype), rng.normal(size=field_map.n_params)
    Phi = field_map.monomials(X)
    model = BoltzmannMachine.from_packed(theta[:4], interactions, theta[4:])
    F = np.empty((4, 9), dtype=dtype)
    conditional.fields(Phi, theta.astype(dtype), field_map.monomial, field_map.param, field_map.site_ptr, F)
    np.testing.assert_allclose(F.T, model.local_fields(X.T.astype(float)), rtol=1e-5 if dtype is np.float32 else 1e-12)
    Z = rng.normal(size=(4, 9)).astype(dtype)
    entries = np.empty(len(field_map.site), dtype=dtype)
    conditional.adjoint(Phi, Z, field_map.monomial, field_map.site_ptr, entries)
    dense = (Z @ Phi.T)[field_map.site, field_map.monomial]
    np.testing.assert_allclose(entries, dense, rtol=1e-4 if dtype is np.float32 else 1e-10)
    scores = np.empty((field_map.n_params, 9), dtype=dtype)
    conditional.scores(Phi, Z, field_map.monomial, field_map.param, field_map.site_ptr, scores)
    np.testing.assert_allclose(scores.sum(axis=1), field_map.gather(dense), rtol=1e-3 if dtype is np.float32 else 1e-10)
