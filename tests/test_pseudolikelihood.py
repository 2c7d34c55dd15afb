"""Pseudolikelihood: optimum, exact recovery, where it stops, boundary, errors, ℓ1. Derivatives: ``test_composite``."""

from __future__ import annotations

import numpy as np
import pytest
from composite_oracle import GAUGES, KINDS, Brute, check, draw, flat, parameters_of, random_theta
from oracle import ALPHABETS, SPACES, Spec, all_states, distribution, random_mixed, random_model
from scipy import optimize

from hbm_learn import BoltzmannMachine, Interactions, Nominal, datasets, sample
from hbm_learn._kernels import conditional
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import probes, pseudolikelihood, sandwich
from hbm_learn.inversion.composite.losses import Outputs
from hbm_learn.inversion.composite.objective import HessianProducts, Objective
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.optimise.newton_cg import conjugate_gradients


def prepare(samples: Samples, columns: Interactions, site: str = "quadratic", **options):  # type: ignore[no-untyped-def]
    """In the user's coding."""
    return pseudolikelihood.prepare(samples, Parameters(samples.space, columns, site, samples.frequencies), **options)


def fit(samples: Samples, columns: Interactions, prior: Prior, start: object = None, **options) -> Fit:  # type: ignore[no-untyped-def]
    return prepare(samples, columns).fit(prior, start, **options)


def by_column(result: Fit, values: np.ndarray) -> np.ndarray:
    """(N,) what belongs to the field of each column."""
    return values[result.parameters.column_params]


def couplings(result: Fit) -> BoltzmannMachine:
    return result.parameters.model(result.theta)


# ---------------------------------------------------------------------- the optimum


@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_exact_distribution_recovers_the_model(name: str, order: int) -> None:
    alphabet = ALPHABETS[name]
    model = random_model(4 if len(alphabet) > 2 else 6, order, alphabet, 0.6, seed=order, d=0.0)
    states, p, _ = distribution(model)
    result = fit(Samples.check(states, alphabet, p), model.columns, flat(), tol=1e-13)
    assert result.converged
    found = couplings(result)
    np.testing.assert_allclose(found.weights, model.weights, atol=1e-6)
    np.testing.assert_allclose(found.h, model.h, atol=1e-6)
    np.testing.assert_allclose(found.d, model.d, atol=1e-6)


@pytest.mark.parametrize("gauge", GAUGES)
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("order", [2, 3])
def test_exact_distribution_recovers_mixed_models(name: str, order: int, gauge: str) -> None:
    model = random_mixed(SPACES[name], order, 0.6, seed=1)
    _, p, _ = distribution(model)
    samples = check(all_states(model), SPACES[name], p)
    parameters = parameters_of(samples, order, gauge)
    result = pseudolikelihood.prepare(samples, parameters).fit(flat(), tol=1e-14)
    assert result.converged, result.status
    np.testing.assert_allclose(result.theta, parameters.pack(model), atol=1e-5)


@pytest.mark.parametrize("alpha", [0.0, 5.0])
@pytest.mark.parametrize("name", ["spin", "ternary", "labels", "mixed powers"])
def test_optimum_agrees_with_scipy(name: str, alpha: float) -> None:
    spec = KINDS[name]._replace(alphabets=KINDS[name].alphabets[:3])
    rng = np.random.default_rng(0)
    X = draw(spec, 120, rng)
    samples = check(X, spec, rng.uniform(0.5, 2.0, len(X)))
    parameters = parameters_of(samples, 2, "standard")
    M = float(samples.weights.sum())  # type: ignore[union-attr]
    result = pseudolikelihood.prepare(samples, parameters).fit(flat(alpha), tol=1e-14)
    ridge = np.zeros(parameters.n_params)
    ridge[parameters.n_own :] = alpha / M * np.diff(parameters.columns.indptr)

    def objective(theta: np.ndarray) -> tuple[float, np.ndarray]:
        brute = Brute(samples, parameters, theta)
        return brute.value + 0.5 * ridge @ theta**2, brute.gradient + ridge * theta

    found = optimize.minimize(objective, parameters.independent(), jac=True, method="BFGS", options={"gtol": 1e-8})
    np.testing.assert_allclose(result.theta, found.x, atol=2e-5)


def test_grouped_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from hbm_learn.data import rows

    X = np.random.default_rng(4).choice([-1, 1], size=(500, 5))
    samples, columns = Samples.check(X, (-1, 1)), Interactions.upto(3, 5)
    grouped = prepare(samples, columns)
    assert grouped.composite.rows.n_rows <= 32
    monkeypatch.setattr(rows, "_group", lambda _: None)
    every = prepare(samples, columns)
    assert every.composite.rows.n_rows == 500
    a, b = (each.fit(flat(2.0), tol=1e-14) for each in (grouped, every))
    for field in ("posterior", "sampling", "free_variance"):
        np.testing.assert_allclose(getattr(a, field), getattr(b, field), rtol=1e-6)
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-9)


def test_relabelling_and_affine_change_of_alphabet() -> None:
    model = random_model(6, 3, (-1, 1), 0.8, seed=5, d=0.0)
    X = sample(model, 2000, method="exact", random_state=0)
    everything = Interactions.upto(3, 6)
    result = fit(Samples.check(X, (-1, 1)), everything, flat(), tol=1e-13)
    order = np.array([3, 0, 5, 1, 4, 2])
    relabelled = fit(Samples.check(X[:, order], (-1, 1)), everything, flat(), tol=1e-13)
    expected = couplings(result).couplings()
    for mu, weight in couplings(relabelled).couplings().items():
        assert weight == pytest.approx(expected[tuple(sorted(order[list(mu)].tolist()))], abs=1e-8)
    bits = fit(Samples.check((X + 1) // 2, (0, 1)), everything, flat(), tol=1e-13)
    np.testing.assert_allclose(couplings(bits).with_alphabet((-1, 1)).weights, result.weights, atol=1e-7)


def test_two_labels_are_two_numbers() -> None:
    model = random_model(5, 3, (-1, 1), 0.8, seed=6, d=0.0)
    X = np.asarray(sample(model, 2000, method="exact", random_state=0))
    everything = Interactions.upto(3, 5)
    numbers = fit(Samples.check(X, (-1, 1)), everything, flat(3.0), tol=1e-13)
    words = np.where(X > 0, "yes", "no").astype(object)
    labels = fit(Samples.check(words, Nominal("no", "yes")), everything, flat(3.0), tol=1e-13)
    for field in ("theta", "posterior", "sampling", "kept", "free"):
        np.testing.assert_allclose(getattr(labels, field), getattr(numbers, field), rtol=1e-10, atol=1e-14)


def test_start_and_threads_and_precision_do_not_matter() -> None:
    model = random_model(12, 3, (-1, 1), 0.5, seed=6, d=0.0)
    samples = Samples.check(sample(model, 20000, method="exact", random_state=1), (-1, 1))
    cold = fit(samples, model.columns, flat(1.0), tol=1e-8)
    for start in (cold.theta, couplings(cold)):
        warm = fit(samples, model.columns, flat(1.0), start, tol=1e-8)
        assert warm.n_iter <= 1
        assert np.abs((warm.theta - cold.theta) / np.sqrt(cold.posterior)).max() < 1e-3
    one, two = (prepare(samples, model.columns, n_jobs=k, dtype=np.float32).fit(flat(1.0), tol=1e-8) for k in (1, 2))
    np.testing.assert_array_equal(one.theta, two.theta)
    assert np.abs((one.theta - cold.theta) / np.sqrt(cold.posterior)).max() < 1e-3


def test_a_bad_start_is_not_taken() -> None:
    samples = Samples.check(np.random.default_rng(5).choice([-1, 1], size=(500, 5)), (-1, 1))
    prepared = prepare(samples, Interactions.upto(2, 5))
    cold = prepared.fit(flat(1.0), max_iter=0)
    wild = prepared.fit(flat(1.0), 30.0 * np.ones(15), max_iter=0)
    np.testing.assert_array_equal(cold.theta, wild.theta)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_stops_where_it_says(seed: int) -> None:
    """The decrement that is left, by the Hessian of all rows, though the last step was taken without another look."""
    n, M = 22, 60_000
    model = datasets.make_random(n, {2: 0.7 / np.sqrt(n), 3: 0.7 / n}, 0.1, random_state=seed)
    samples = Samples.check(sample(model, M, random_state=seed), (-1, 1))
    prepared = prepare(samples, model.columns)
    composite = prepared.composite
    objective = Objective(composite, np.zeros(composite.n_params))

    def left(theta: np.ndarray) -> float:
        composite.stride = 1
        gradient, H = objective.value_gradient(theta)[1], HessianProducts(objective, theta)
        solved, _ = conjugate_gradients(H.product, gradient, H.precondition, 1e-3, 200)
        return float(gradient @ solved) * M / composite.n_params

    assert composite.stride > 1
    assert left(prepared.independence.theta) > 0.1
    assert left(prepared.fit(flat()).theta) < 0.01


def test_blocks_of_any_size_give_the_same_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(13).choice([-1, 0, 1], size=(3000, 12))
    samples, pairs = Samples.check(X, (-1, 0, 1)), Interactions.upto(2, 12)
    whole = fit(samples, pairs, flat(), tol=1e-12)
    original = Samples.blocks
    monkeypatch.setattr(Samples, "blocks", lambda self, max_rows=None: original(self, max_rows=170))
    assert len(list(samples.blocks())) == 18
    pieces = fit(samples, pairs, flat(), tol=1e-12)
    assert pieces.converged
    np.testing.assert_allclose(pieces.theta, whole.theta, atol=1e-6)
    np.testing.assert_allclose(pieces.posterior, whole.posterior, rtol=0.1)


def test_verbose_prints_a_line_each_step(capsys: pytest.CaptureFixture[str]) -> None:
    X = np.random.default_rng(10).choice([-1, 1], size=(50, 4))
    result = fit(Samples.check(X, (-1, 1)), Interactions.upto(2, 4), flat(), verbose=1)
    assert len(capsys.readouterr().out.splitlines()) == result.n_iter + 1


# ---------------------------------------------------------------------- the boundary


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
    samples, columns = Samples.check(X, (-1, 1)), Interactions.upto(order, 5)
    assert_unbounded_without_a_prior(
        samples, Parameters(samples.space, columns, "free", samples.frequencies), {0, 1, 3}
    )


@pytest.mark.parametrize("gauge", GAUGES)
@pytest.mark.parametrize("make", ["never together", "identical"])
def test_boundary_data_of_labels_and_ratings(make: str, gauge: str) -> None:
    rng = np.random.default_rng(7)
    spec = Spec([Nominal("a", "b", "c"), (1, 2, 3, 4, 5), Nominal("a", "b", "c"), (-1, 1)])
    X = draw(spec, 600, rng)
    if make == "identical":
        X[:, 2] = X[:, 0]
    else:
        X[(X[:, 0] == "b") & (X[:, 2] == "c"), 2] = "a"
    samples = check(X, spec)
    assert_unbounded_without_a_prior(samples, parameters_of(samples, 2, gauge), {0, 2})


def assert_unbounded_without_a_prior(samples: Samples, parameters: Parameters, guilty: set[int]) -> None:
    prepared = pseudolikelihood.prepare(samples, parameters)
    open_ended, closed = prepared.fit(flat()), prepared.fit(flat(1.0))
    assert not open_ended.converged
    assert "no finite maximum" in open_ended.status
    assert "alpha > 0" in open_ended.status
    assert int(open_ended.status.split("variable ")[1].split()[0]) in guilty
    assert open_ended.free is None
    assert closed.converged
    # errors are never below those of independent variables with that curvature
    composite, count = prepared.composite, prepared.independence.count
    H = HessianProducts(Objective(composite, np.zeros(len(count))), open_ended.theta)
    least = H.inverse_diagonal(count / samples.n_samples)
    for variances in (open_ended.posterior, open_ended.sampling, np.diag(open_ended.covariance)):
        assert (variances >= least * (1 - 1e-9)).all()
    for result in (open_ended, closed):
        for array in (result.theta, result.posterior, result.sampling, result.covariance):
            assert np.isfinite(array).all()


def test_a_start_far_out_is_not_called_converged() -> None:
    """Steps vanish there: what says so is how certain each value is."""
    X = identical(np.random.default_rng(7))
    samples = Samples.check(X, (-1, 1))
    start = np.zeros(15)
    start[Interactions.upto(2, 5).locate(np.array([[0, 3]]))[0] + 5] = 500.0
    result = fit(samples, Interactions.upto(2, 5), flat(), start)
    assert not result.converged
    assert "no finite maximum" in result.status


@pytest.mark.parametrize("strength", [0.5, 1.0, 1.5])
def test_regular_data_is_not_called_unbounded(strength: float) -> None:
    model = random_model(8, 2, (-1, 1), strength, seed=8, d=0.0)
    X = sample(model, 5000, method="exact", random_state=0)
    seen = [np.unique(X[:, mu], axis=0) for mu in model.interactions]
    assert min(map(len, seen)) == 4  # at 1.5, one pair of values occurs in a single row
    result = fit(Samples.check(X, (-1, 1)), model.columns, flat())
    assert result.converged, result.status


def test_many_values_are_not_called_unbounded() -> None:
    """Fields times the range of the values are large where there are many values: that is no sign of infinity."""
    rng = np.random.default_rng(9)
    y = rng.normal(size=(4000, 1)) + 0.35 * rng.normal(size=(4000, 3))
    X = np.clip(np.round(8 + 2.5 * y), 0, 15).astype(int)
    result = fit(Samples.check(X, tuple(range(16))), Interactions.upto(2, 3), flat())
    assert np.abs(by_column(result, result.theta)).max() * 15 < 40 < result.weights.max() * 15**2
    assert result.converged, result.status


# ---------------------------------------------------------------------- errors


def standardised(parameters: Parameters, truth: np.ndarray, X: np.ndarray, spec: Spec) -> dict[int, np.ndarray]:
    """(Ĵ − J) / standard error for each order, over independent data sets (sets, rows, n)."""
    z = []
    for rows in X:
        result = pseudolikelihood.prepare(check(rows, spec), parameters).fit(flat())
        z.append(((result.theta - truth) / np.sqrt(result.posterior))[parameters.n_own :])
    return {k: np.array(z)[:, parameters.columns.slice(k)] for k in parameters.columns.orders}


def coverage(z: np.ndarray) -> float:
    return float(np.mean(np.abs(z) < 1.959964))


def assert_covers(z: np.ndarray) -> None:
    assert 0.93 <= coverage(z) <= 0.97
    assert not 0.93 <= coverage(1.25 * z) <= 0.97  # errors a fifth too small are noticed
    assert not 0.93 <= coverage(0.75 * z) <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.3, 0.6])
@pytest.mark.parametrize(("order", "alphabet"), [(2, (-1, 1)), (3, (-1, 1)), (3, (0, 1)), (2, (-1, 0, 1))])
def test_intervals_cover(strength: float, order: int, alphabet: tuple[int, ...]) -> None:
    wide = 2.0 if alphabet == (0, 1) else 1.0
    model = random_model(8, order, alphabet, strength * wide, seed=order, d=0.3 if len(alphabet) > 2 else 0.0)
    X = np.asarray(sample(model, 2000 * 150, method="exact", random_state=1)).reshape(150, 2000, -1)
    parameters = Parameters(model.space, model.columns, "quadratic", [np.full(len(alphabet), 1 / len(alphabet))] * 8)
    for z in standardised(parameters, parameters.pack(model), X, Spec([alphabet] * 8)).values():
        assert_covers(z)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["numbers", "labels", "mixed", "powers"])
def test_intervals_cover_mixed_models(name: str) -> None:
    """The gauge is that of the true frequencies, the same for all sets."""
    spec = SPACES[name]
    model = random_mixed(spec, 2, 0.6, seed=2)
    states, p, _ = distribution(model)
    exact = check(states, spec, p)
    parameters = parameters_of(exact, 2, "standard")
    drawn = np.random.default_rng(3).choice(len(p), size=(200, 2000), p=p)
    for z in standardised(parameters, parameters.pack(model), states[drawn], spec).values():
        assert_covers(z)


def test_errors_by_probes_agree_with_the_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    model = random_model(14, 3, (-1, 1), 0.5, seed=14, d=0.0)
    samples = Samples.check(sample(model, 8000, method="exact", random_state=3), (-1, 1))
    for alphas in ({2: 0.0, 3: 0.0}, {2: 50.0, 3: 1000.0}):
        exact = fit(samples, model.columns, Prior(alphas))
        with monkeypatch.context() as patch:
            patch.setattr(sandwich, "MAX_MATRICES", 0)
            probed = fit(samples, model.columns, Prior(alphas), random_state=0)
        assert probed.covariance is None
        z, approximate = ((each.free / np.sqrt(each.free_variance))[14:] for each in (exact, probed))
        assert np.polyfit(z, approximate, 1)[0] == pytest.approx(1.0, abs=0.08)
        assert np.std(approximate - z) < 0.15 * np.std(z)
        for field in ("posterior", "sampling"):
            ratio = np.sqrt(getattr(probed, field) / getattr(exact, field))[14:]
            for k in (2, 3):
                assert np.mean(ratio[model.columns.slice(k)]) == pytest.approx(1.0, abs=0.06)
            assert np.std(ratio) < 0.08
        assert np.mean(np.sqrt(probed.posterior / exact.posterior)[:14]) == pytest.approx(1.0, abs=0.2)


def test_errors_by_probes_agree_with_the_matrices_on_mixed_data(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = SPACES["mixed"]
    model = random_mixed(spec, 2, 0.4, seed=3)
    states, p, _ = distribution(model)
    drawn = np.random.default_rng(4).choice(len(p), size=(3, 8000), p=p)
    wide = spec._replace(alphabets=spec.alphabets * 3)
    samples = check(np.concatenate([states[rows] for rows in drawn], axis=1), wide)
    parameters = parameters_of(samples, 2, "standard")
    for alpha in (0.0, 1000.0):
        prepared = pseudolikelihood.prepare(samples, parameters)
        exact = prepared.fit(flat(alpha))
        with monkeypatch.context() as patch:
            patch.setattr(sandwich, "MAX_MATRICES", 0)
            probed = prepared.fit(flat(alpha))
        for field in ("posterior", "sampling", "free_variance"):
            ratio = np.sqrt(getattr(probed, field) / getattr(exact, field))
            assert np.mean(ratio[parameters.n_own :]) == pytest.approx(1.0, abs=0.06)
            assert np.std(ratio[parameters.n_own :]) < 0.1
            assert np.mean(ratio[: parameters.n_own]) == pytest.approx(1.0, abs=0.2)


def test_factors_of_probes_are_found() -> None:
    """One for each order, for the fields and for the extras, times one for each site."""
    rng = np.random.default_rng(5)
    samples = check(draw(SPACES["mixed"], 200, rng), SPACES["mixed"])
    parameters = parameters_of(samples, 3)
    composite = pseudolikelihood.prepare(samples, parameters).composite
    r, space = rng.uniform(0.7, 1.4, 5), parameters.space
    ratio = np.empty(parameters.n_params)
    ratio[parameters.column_params] = 3.0 * r[space.site]
    ratio[composite.outputs.extra_params] = 0.2 * r[composite.outputs.extra_site]
    for row, mu in enumerate(parameters.columns.tuples):
        ratio[parameters.n_own + row] = (0.5 if len(mu) == 2 else 7.0) * np.prod(r[space.site[list(mu)]])
    np.testing.assert_allclose(probes.site_factors(composite, ratio, 10**9), ratio, rtol=0.02)


def test_prior_shrinks_errors_as_a_posterior_does() -> None:
    """At weak coupling a coupling's Fisher information is 1: posterior 1/(M + α), sampling M/(M + α)²."""
    rng = np.random.default_rng(15)
    M, alpha = 4000, 3000.0
    samples = Samples.check(rng.choice([-1, 1], size=(M, 8)), (-1, 1))
    result = fit(samples, Interactions.upto(3, 8), flat(alpha))
    np.testing.assert_allclose(np.sqrt(result.posterior[8:]), np.sqrt(1 / (M + alpha)), rtol=0.05)
    np.testing.assert_allclose(np.sqrt(result.sampling[8:]), np.sqrt(M) / (M + alpha), rtol=0.05)


@pytest.mark.parametrize("name", ["mixed", "powers"])
def test_in_the_standard_gauge_every_coupling_has_unit_information(name: str) -> None:
    rng = np.random.default_rng(16)
    M, alpha = 20_000, 15_000.0
    samples = check(draw(SPACES[name], M, rng), SPACES[name])
    parameters = parameters_of(samples, 3, "standard")
    result = pseudolikelihood.prepare(samples, parameters).fit(flat(alpha))
    n_own = parameters.n_own
    np.testing.assert_allclose(np.sqrt(result.posterior[n_own:] * (M + alpha)), 1.0, rtol=0.15)
    np.testing.assert_allclose(np.sqrt(result.sampling[n_own:]) * (M + alpha) / np.sqrt(M), 1.0, rtol=0.3)
    np.testing.assert_allclose(np.mean(result.sampling[n_own:]) * (M + alpha) ** 2 / M, 1.0, rtol=0.05)


# ---------------------------------------------------------------------- l1


@pytest.mark.parametrize("name", [*ALPHABETS, "mixed", "powers"])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_l1_meets_its_certificate(name: str, l1_ratio: float) -> None:
    if name in ALPHABETS:
        alphabet, n = ALPHABETS[name], 6
        strength = 2.0 if name == "bit" else 0.5  # J on {0, 1} is four times that on {-1, 1}
        model = random_model(n, 2, alphabet, strength, seed=20, d=0.3 if len(alphabet) > 2 else 0.0)
        spec, gauge = Spec([alphabet] * n), "coding"
    else:
        spec, gauge = SPACES[name], "standard"
        model = random_mixed(spec, 2, 0.8, seed=21)
    states, p, _ = distribution(model)
    X = states[np.random.default_rng(2).choice(len(p), size=2000, p=p)]
    samples = check(X, spec)
    parameters = parameters_of(samples, 3, gauge, "quadratic" if name in ALPHABETS else "free")
    n_own = parameters.n_own
    prepared = pseudolikelihood.prepare(samples, parameters)
    result = prepared.fit(flat(60.0, l1_ratio))
    assert result.converged, result.status
    assert result.residual <= 1e-6
    assert result.free is None
    zero = result.weights == 0.0
    assert 0 < zero.sum() < len(zero)
    # The certificate again, from a gradient of its own.
    rate = np.diff(parameters.columns.indptr) * 60.0 / len(X)
    objective = Objective(prepared.composite, np.zeros(parameters.n_params))
    _, gradient = objective.value_gradient(result.theta)
    J = result.weights
    slope = gradient[n_own:] + (1 - l1_ratio) * rate * J
    assert np.abs(slope[~zero] + l1_ratio * rate[~zero] * np.sign(J[~zero])).max() <= 1e-6 * rate.max()
    assert (np.abs(slope[zero]) <= l1_ratio * rate[zero] * (1 + 1e-6)).all()
    assert np.abs(gradient[:n_own]).max() <= 1e-6 * rate.max()


def test_l1_beyond_every_slope_gives_no_coupling() -> None:
    X = np.random.default_rng(21).choice([-1, 1], size=(300, 5))
    result = fit(Samples.check(X, (-1, 1)), Interactions.upto(3, 5), flat(300.0, 1.0))
    assert not result.weights.any()


# ---------------------------------------------------------------------- kernels


@pytest.mark.parametrize("name", KINDS)
def test_kernels_and_their_twin(name: str) -> None:
    """Fields so large that exponentials overflow where they are not shifted."""
    rng = np.random.default_rng(11)
    samples = check(draw(KINDS[name], 20, rng), KINDS[name])
    parameters = parameters_of(samples, 2, "standard")
    losses = pseudolikelihood.prepare(samples, parameters).composite.losses
    space, outputs, R = parameters.space, Outputs(parameters), 7
    codes = np.stack([rng.integers(0, q, R) for q in space.sizes]).astype(np.uint8)
    F, theta, w = rng.normal(0, 30, (space.n_columns, R)), random_theta(parameters, rng, 1.0), rng.random(R)
    total, first, second = losses(codes, F, losses.base(theta), w, True)
    without = losses(codes, F, losses.base(theta), w, False)
    np.testing.assert_array_equal(without[1], first)
    assert not len(without[2])
    eta = np.concatenate([F, np.repeat(theta[outputs.extra_params, None], R, axis=1)])
    for i, O in enumerate(parameters.own):
        mine = outputs.index[outputs.ptr[i] : outputs.ptr[i + 1]]
        exponent = O @ eta[mine]
        top = exponent.max(axis=0)
        p = np.exp(exponent - top)
        loss = top + np.log(p.sum(axis=0)) - exponent[codes[i], np.arange(R)]
        assert total[i] == pytest.approx(loss @ w, rel=1e-12)
        p /= p.sum(axis=0)
        mean = O.T @ p
        np.testing.assert_allclose(first[mine], mean - O[codes[i]].T, atol=1e-12 * np.abs(O).max())
        for r in range(R):
            centred = O - mean[:, r]
            covariance = (centred * p[:, r, None]).T @ centred
            size = np.abs(O).max() ** 2
            np.testing.assert_allclose(second[outputs.pairs_of(i), r], covariance, atol=1e-12 * size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_linear_kernels_and_their_twins(dtype: type) -> None:
    rng = np.random.default_rng(12)
    columns = Interactions.from_tuples([(0, 1), (1, 3), (0, 2, 3), (0, 1, 2, 3)], 4)
    samples = Samples.check(rng.choice([-1, 0, 1], size=(30, 4)), (-1, 0, 1))
    composite = prepare(samples, columns).composite
    field_map, parameters = composite.map, composite.parameters
    X, theta = rng.normal(size=(4, 9)).astype(dtype), rng.normal(size=parameters.n_params)
    Phi = field_map.monomials(X)
    model = BoltzmannMachine.from_packed(theta[parameters.column_params], columns, theta[parameters.n_own :])
    F = np.empty((4, 9), dtype=dtype)
    conditional.fields(Phi, theta.astype(dtype), field_map.monomial, field_map.param, field_map.column_ptr, F)
    np.testing.assert_allclose(F.T, model.local_fields(X.T.astype(float)), rtol=1e-5 if dtype is np.float32 else 1e-12)
    Z = rng.normal(size=(4, 9)).astype(dtype)
    entries = np.empty(len(field_map.column), dtype=dtype)
    conditional.adjoint(Phi, Z, field_map.monomial, field_map.column_ptr, entries)
    dense = (Z @ Phi.T)[field_map.column, field_map.monomial]
    np.testing.assert_allclose(entries, dense, rtol=1e-4 if dtype is np.float32 else 1e-10)
    scores = np.empty((parameters.n_params, 9), dtype=dtype)
    conditional.scores(Phi, Z, field_map.monomial, field_map.param, field_map.column_ptr, scores)
    np.testing.assert_allclose(scores.sum(axis=1), field_map.gather(dense), rtol=1e-3 if dtype is np.float32 else 1e-10)


@pytest.mark.parametrize("name", KINDS)
def test_columns_kernel_and_its_twin(name: str) -> None:
    rng = np.random.default_rng(13)
    samples = check(draw(KINDS[name], 20, rng), KINDS[name])
    space = parameters_of(samples, 2, "standard").space
    codes = np.concatenate([block for block, _ in samples.blocks()])
    out = np.empty((space.n_columns, len(codes)))
    conditional.columns(np.ascontiguousarray(codes.T), space.site, space.padded, out)
    np.testing.assert_array_equal(out.T, space.columns(codes))


def test_rows_beyond_and_its_twin() -> None:
    rng = np.random.default_rng(14)
    samples = check(draw(KINDS["mixed"], 40, rng), KINDS["mixed"])
    parameters = parameters_of(samples, 2, "standard")
    composite = pseudolikelihood.prepare(samples, parameters).composite
    composite.stride = 1
    theta = random_theta(parameters, rng, 2.0)
    brute = Brute(samples, parameters, theta)
    exponents = [[T @ theta for T in row] for row in brute.statistics]
    for limit in (0.5, 1.0, 3.0):
        spread = [sum(np.ptp(row[i]) > limit for row in exponents) for i in range(5)]
        np.testing.assert_array_equal(composite.rows_beyond(theta, limit, seen=False), spread)
        margins = [
            sum(row[i][x[i]] - np.delete(row[i], x[i]).max() > limit for row, x in zip(exponents, brute.codes))
            for i in range(5)
        ]
        np.testing.assert_array_equal(composite.rows_beyond(theta, limit, seen=True), margins)
