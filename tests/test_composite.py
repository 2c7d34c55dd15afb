"""Composite likelihoods of every kind of space, in every gauge, against the plainest possible ones."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from composite_oracle import GAUGES, KINDS, Brute, check, draw, flat, parameters_of, random_theta

from hbm_learn.data.rows import Rows
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import hessian, pseudolikelihood, sandwich, screening, thinning
from hbm_learn.inversion.composite.fit import CompositeFit
from hbm_learn.inversion.composite.objective import HessianMatrix, HessianProducts, Objective
from hbm_learn.inversion.composite.sums import Sample
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.terms import all_terms

LOSSES = ("pseudolikelihood", "logrise", "rise")
SETS = [(1, "dense"), (2, "dense"), (3, "dense"), (3, "sparse"), (4, "sparse")]


def prepare(loss: str, *args, **options) -> CompositeFit:  # type: ignore[no-untyped-def]
    if loss == "pseudolikelihood":
        return pseudolikelihood.prepare(*args, **options)
    return screening.prepare(*args, loss=loss, **options)


def problem(name: str, order: int, kind: str, gauge: str, site: str = "free", n_rows: int = 12):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(order)
    X = draw(KINDS[name], n_rows, rng)
    weights = rng.uniform(0.1, 2.0, len(X)) if gauge == "standard" else None
    samples = check(X, KINDS[name], weights)
    return samples, parameters_of(samples, order, gauge, site, kind)


@pytest.mark.parametrize("gauge", GAUGES)
@pytest.mark.parametrize(("order", "kind"), SETS)
@pytest.mark.parametrize("name", KINDS)
def test_value_gradient_and_hessian(name: str, order: int, kind: str, gauge: str) -> None:
    samples, parameters = problem(name, order, kind, gauge, "quadratic" if order == 2 else "free")
    rng = np.random.default_rng(order)
    theta, ridge = random_theta(parameters, rng), rng.uniform(0, 0.1, parameters.n_params)
    direction = rng.normal(size=len(theta))
    for loss in LOSSES:
        objective = Objective(prepare(loss, samples, parameters, dtype=np.float64).composite, ridge)
        brute = Brute(samples, parameters, theta, loss)
        value, gradient = objective.value_gradient(theta)
        assert value == pytest.approx(brute.value + 0.5 * ridge @ theta**2, rel=1e-12, abs=1e-12)
        size = np.abs(gradient).max()
        np.testing.assert_allclose(gradient, brute.gradient + ridge * theta, rtol=1e-10, atol=1e-12 * size)
        H = brute.hessian + np.diag(ridge)
        matrix, products = HessianMatrix(objective, theta), HessianProducts(objective, theta)
        np.testing.assert_allclose(matrix.H, H, rtol=1e-10, atol=1e-11 * np.abs(H).max())
        image = H @ direction
        np.testing.assert_allclose(products.product(direction), image, rtol=1e-9, atol=1e-10 * np.abs(image).max())


@pytest.mark.parametrize("gauge", GAUGES)
@pytest.mark.parametrize("name", KINDS)
def test_derivatives_are_numerical_ones(name: str, gauge: str) -> None:
    samples, parameters = problem(name, 3, "dense", gauge)
    rng = np.random.default_rng(0)
    theta, step = random_theta(parameters, rng), 1e-5
    for loss in LOSSES:
        objective = Objective(prepare(loss, samples, parameters).composite, np.zeros(len(theta)))
        gradient, H = objective.value_gradient(theta)[1], HessianProducts(objective, theta)
        for axis in np.eye(len(theta))[:: max(1, len(theta) // 12)]:
            up, down = objective.value_gradient(theta + step * axis), objective.value_gradient(theta - step * axis)
            size = np.abs(gradient).max()
            assert gradient @ axis == pytest.approx((up[0] - down[0]) / (2 * step), rel=1e-6, abs=1e-7 * size)
            column = H.product(axis)
            np.testing.assert_allclose(
                column, (up[1] - down[1]) / (2 * step), rtol=1e-5, atol=1e-6 * np.abs(column).max()
            )


@pytest.mark.parametrize("gauge", GAUGES)
@pytest.mark.parametrize("name", KINDS)
def test_independent_variables_precondition_exactly(name: str, gauge: str) -> None:
    """Where the rows are all combinations of values, with the weights of independence, T D⁻¹ Tᵀ is H⁻¹."""
    spec = KINDS[name]
    rng = np.random.default_rng(1)
    space = check(draw(spec, 30, rng), spec).space
    p = [rng.dirichlet(np.full(q, 5.0)) for q in space.sizes]
    codes = np.array(list(product(*(range(q) for q in space.sizes))))
    weights = np.prod([each[code] for each, code in zip(p, codes.T)], axis=0)
    samples = check(space.decode(codes.astype(np.uint8)), spec, weights)
    parameters = parameters_of(samples, 3, gauge)
    composite = pseudolikelihood.prepare(samples, parameters, dtype=np.float64).composite
    objective = Objective(composite, np.zeros(composite.n_params))
    theta = parameters.independent()
    H = HessianProducts(objective, theta)
    r = rng.normal(size=composite.n_params)
    solved = H.precondition(r)
    image = H.product(solved)
    np.testing.assert_allclose(image, r, atol=1e-8 * np.abs(r).max())
    diagonal = np.diag(np.linalg.inv(HessianMatrix(objective, theta).H))
    np.testing.assert_allclose(H.inverse_diagonal(np.ones(len(r))), diagonal, rtol=1e-6)
    # with a prior, which is diagonal in the gauge of the fit
    ridge = np.zeros(len(r))
    ridge[parameters.n_own :] = 0.3
    penalised = HessianProducts(Objective(composite, ridge), theta)
    np.testing.assert_allclose(penalised.precondition(r, prior=False), solved, rtol=1e-12)
    count = rng.uniform(1, 2, len(r))
    np.testing.assert_allclose(penalised.inverse_diagonal(count, prior=False), H.inverse_diagonal(count), rtol=1e-12)
    assert (penalised.inverse_diagonal(count) < H.inverse_diagonal(count))[parameters.n_own :].all()
    if gauge == "standard":
        np.testing.assert_allclose(penalised.product(penalised.precondition(r)), r, atol=1e-8 * np.abs(r).max())


# ---------------------------------------------------------------------- errors


def brute_score_covariance(brute: Brute, inverse: np.ndarray, n_columns: np.ndarray) -> np.ndarray:
    """Scores of every row, each site's divided by 1 − its leverage in a sample of weight one."""
    M = brute.weights.sum()
    leverage = np.einsum("i,ripq,qp->ri", brute.scale / M / n_columns, brute.hessians, inverse)
    kept = 1.0 - np.minimum(leverage, 0.5)
    scores = np.einsum("i,ri,rip->rp", brute.scale, 1.0 / kept, brute.scores)
    mean = brute.w @ scores
    return np.einsum("r,rp,rq->pq", brute.w, scores, scores) / M - np.outer(mean, mean) / M


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", KINDS)
def test_score_covariance_and_sandwich(name: str, loss: str, monkeypatch: pytest.MonkeyPatch) -> None:
    samples, parameters = problem(name, 2, "dense", "standard", n_rows=60)
    fit = prepare(loss, samples, parameters)
    composite, count, M = fit.composite, fit.independence.count, float(samples.weights.sum())  # type: ignore[union-attr]
    rng = np.random.default_rng(2)
    theta = random_theta(parameters, rng, 0.2)
    ridge = np.zeros(parameters.n_params)
    ridge[parameters.n_own :] = rng.uniform(0.05, 0.2, len(parameters.columns))
    brute = Brute(samples, parameters, theta, loss)
    H = brute.hessian
    inverse = np.linalg.inv(H + np.diag(ridge))
    r = np.diff(parameters.space.column_ptr)
    V = brute_score_covariance(brute, inverse, r)
    np.testing.assert_allclose(
        hessian.score_covariance(composite, theta, inverse), V, rtol=1e-9, atol=1e-11 * np.abs(V).max()
    )
    monkeypatch.setattr(sandwich, "_same_rows", lambda *args, **options: 1.0)
    found = sandwich.errors(Objective(composite, ridge), theta, count)
    sampling, free = inverse @ V @ inverse, np.linalg.inv(H)
    posterior = sampling + inverse @ np.diag(ridge * count / M) @ inverse
    expected = {
        "sampling": np.diag(sampling),
        "noise": np.diag(sampling),
        "posterior": np.diag(posterior),
        "covariance": posterior,
        "free": theta + free @ (ridge * theta),
        "free_variance": np.diag(free @ V @ free),
        "free_covariance": free @ V @ free,
    }
    for field, value in expected.items():
        np.testing.assert_allclose(getattr(found, field), value, rtol=1e-7, atol=1e-9 * np.abs(value).max())
    alpha = (ridge * M / count)[parameters.n_own :]
    shrink = (np.eye(len(ridge)) - inverse * ridge)[parameters.n_own :, parameters.n_own :]
    np.testing.assert_allclose(found.kept[parameters.n_own :], alpha * (shrink**2 @ (1 / alpha)), rtol=1e-8)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", KINDS)
def test_heavy_rows_have_most_of_the_scores(name: str, loss: str) -> None:
    """q is the weight of a row times its squared scores over their curvature, conditional by conditional."""
    samples, parameters = problem(name, 3, "sparse", "standard", n_rows=40)
    composite = prepare(loss, samples, parameters, dtype=np.float64).composite
    theta = random_theta(parameters, np.random.default_rng(3), 0.2)
    q, weight = thinning.heaviness(composite, theta)
    brute = Brute(samples, parameters, theta, loss)
    curvature = hessian.diagonal_and_own(composite, theta)[0]
    scores = brute.scale[:, None] * brute.scores
    scores[:, :, np.setdiff1d(np.arange(parameters.n_own), parameters.column_params)] = 0.0  # what is no column's
    np.testing.assert_allclose(weight, brute.w)
    np.testing.assert_allclose(q, brute.w * np.sum(scores**2 / curvature, axis=(1, 2)), rtol=1e-7, atol=1e-12)


def test_a_sample_of_rows_keeps_rare_coincidences(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two events that coincide 6 times in 12,000 rows, of which the matrices take 1,000: the errors are those of all.

    The negative control is every twelfth row, none of which has a coincidence.
    """
    rng = np.random.default_rng(8)
    X = (rng.random((12_000, 18)) < 0.5).astype(int)
    X[:, :2] = 0
    first, second = rng.permutation(12_000)[:480].reshape(2, 240)
    both = 12 * rng.permutation(1000)[:6] + 5
    X[first, 0] = X[second, 1] = 1
    X[both, :2] = 1
    X[::12, 1] &= 1 - X[::12, 0]
    samples = Samples.check(X)
    parameters = Parameters(
        samples.space.standard(Rows(samples).frequencies),
        all_terms(2, samples.space),
        "free",
        Rows(samples).frequencies,
    )
    fit = pseudolikelihood.prepare(samples, parameters)
    assert fit.composite.rows.n_rows == 12_000
    ridge = np.zeros(parameters.n_params)
    ridge[parameters.n_own :] = 1e-3
    theta = parameters.independent()
    rare = parameters.n_own  # the first pair
    objective, count = Objective(fit.composite, ridge), fit.independence.count
    everything = sandwich.errors(objective, theta, count)
    monkeypatch.setattr(sandwich, "_FLOPS", 1.0)
    monkeypatch.setattr(sandwich, "_MIN_ROWS", 1000)
    some = sandwich.errors(objective, theta, count)
    ratio = some.sampling / everything.sampling
    assert ratio[rare] == pytest.approx(1.0, abs=0.1)
    assert np.abs(np.log(ratio)).max() < 0.5  # of all parameters
    monkeypatch.setattr(sandwich, "heavy_and_some", lambda *args: (Sample(12), 12.0))
    evenly = sandwich.errors(objective, theta, count).sampling / everything.sampling
    assert evenly[rare] < 0.3


@pytest.mark.parametrize("name", KINDS)
def test_optimum_and_errors_do_not_depend_on_the_gauge(name: str) -> None:
    spec = KINDS[name]
    samples = check(draw(spec, 600, np.random.default_rng(3)), spec)
    found = {}
    for gauge in GAUGES:
        parameters = parameters_of(samples, 2, gauge)
        found[gauge] = parameters, pseudolikelihood.prepare(samples, parameters).fit(flat(), tol=1e-16)
    first, reference = found["coding"]
    for gauge in GAUGES[1:]:
        parameters, fit = found[gauge]
        assert fit.converged
        np.testing.assert_allclose(fit.theta, parameters.pack(first.model(reference.theta)), atol=1e-8)
        # h and J in the user's coding are linear in θ of any gauge
        T, U = parameters.coding(samples.space), first.coding(samples.space)
        theirs, mine = T @ fit.covariance @ T.T.toarray(), U @ reference.covariance @ U.T.toarray()  # type: ignore[operator]
        np.testing.assert_allclose(theirs, mine, rtol=1e-6, atol=1e-8 * np.abs(mine).max())


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["spin", "mixed", "mixed powers"])
def test_weights_are_repeated_rows(name: str, loss: str) -> None:
    spec, rng = KINDS[name], np.random.default_rng(4)
    X, times = draw(spec, 250, rng), rng.integers(0, 4, 250)
    times[:6] = 1
    once, repeated = check(X, spec, times), check(np.repeat(X, times, axis=0), spec)
    a, b = (
        prepare(loss, samples, parameters_of(samples, 2, "standard")).fit(flat(1.0), tol=1e-14)
        for samples in (once, repeated)
    )
    np.testing.assert_allclose(a.theta, b.theta, atol=1e-8)
    for field in ("posterior", "sampling", "free_variance"):
        np.testing.assert_allclose(getattr(a, field), getattr(b, field), rtol=1e-6)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", ["mixed", "powers"])
def test_threads_and_precision_do_not_matter(name: str, loss: str) -> None:
    spec = KINDS[name]
    wide = spec._replace(alphabets=spec.alphabets * 3)
    samples = check(draw(wide, 6000, np.random.default_rng(5)), wide)
    parameters = parameters_of(samples, 2, "standard")
    one, two, exact = (
        prepare(loss, samples, parameters, n_jobs=n_jobs, dtype=dtype).fit(flat(1.0), tol=1e-8)
        for n_jobs, dtype in ((1, np.float32), (2, np.float32), (2, np.float64))
    )
    np.testing.assert_array_equal(one.theta, two.theta)
    np.testing.assert_array_equal(one.posterior, two.posterior)
    scale = np.sqrt(exact.posterior)
    assert np.abs((one.theta - exact.theta) / scale).max() < 2e-3
    np.testing.assert_allclose(one.posterior, exact.posterior, rtol=1e-3)


def test_information_is_counted_once_for_each_conditional() -> None:
    """c_μ = |μ| for pseudolikelihood, whatever the functions."""
    samples, parameters = problem("mixed powers", 3, "dense", "standard", n_rows=200)
    count = pseudolikelihood.prepare(samples, parameters).independence.count
    np.testing.assert_allclose(count[parameters.n_own :], np.diff(parameters.columns.indptr), rtol=1e-8)


# ---------------------------------------------------------------------- values that do not occur


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("site", ["free", "quadratic"])
@pytest.mark.parametrize(
    ("alphabet", "seen", "word"),
    [
        ((-1, 1), [1], "always 1"),
        ((-1, 0, 1), [-1, 1], "never 0"),
        ((-1, 0, 1), [0, 1], "never -1"),
        ((0, 1, 2, 3, 4), [0, 4], "never 1"),
        ((0, 1, 2, 3, 4), [2, 3], "never 0"),
    ],
)
def test_values_that_no_finite_weights_describe_are_named(
    alphabet: tuple, seen: list, word: str, site: str, loss: str
) -> None:
    rng = np.random.default_rng(6)
    X = rng.choice([-1, 1], size=(60, 4)).astype(int)
    X[:, 2] = rng.choice(seen, 60)
    alphabets = [(-1, 1), (-1, 1), alphabet, (-1, 1)]
    samples = check(X, KINDS["spin"]._replace(alphabets=alphabets))
    with pytest.raises(ValueError, match=f"variable 2 is {word}"):
        prepare(loss, samples, parameters_of(samples, 2, site=site))


@pytest.mark.parametrize("seen", [[0, 2], [0, 1, 4], [1, 2, 3], [0, 1, 2, 3]])
def test_other_values_may_be_missing(seen: list) -> None:
    rng = np.random.default_rng(7)
    X = rng.choice([-1, 1], size=(400, 4)).astype(int)
    X[:, 2] = rng.choice(seen, 400)
    samples = check(X, KINDS["spin"]._replace(alphabets=[(-1, 1), (-1, 1), (0, 1, 2, 3, 4), (-1, 1)]))
    fit = pseudolikelihood.prepare(samples, parameters_of(samples, 2)).fit(flat(), tol=1e-12)
    assert fit.converged
    assert np.isfinite(fit.theta).all()


def test_missing_entries_are_refused() -> None:
    from hbm_learn.data.samples import Samples

    X = np.random.default_rng(8).choice([-1.0, 1.0], size=(50, 4))
    samples = Samples.check(X, (-1, 1), allow_nan=True)
    with pytest.raises(ValueError, match="missing"):
        pseudolikelihood.prepare(samples, parameters_of(samples, 2))
