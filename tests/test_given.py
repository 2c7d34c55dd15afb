"""Given columns: P(x | z). Everything against enumeration, and against fits of the groups by themselves."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from hbm_learn import HBM, BoltzmannMachine, Moments, Nominal, datasets, infer, invert, sample
from hbm_learn._kernels import conditional
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.composite import pseudolikelihood, sandwich, screening, thinning
from hbm_learn.inversion.composite.hessian import diagonal_and_own, hessian
from hbm_learn.inversion.composite.losses import Loss
from hbm_learn.inversion.composite.objective import Objective
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.likelihood.fit import LikelihoodPoint
from hbm_learn.inversion.likelihood.target import Target
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.space import Space
from hbm_learn.terms import all_terms, closure, is_closed

REGION = Nominal("north", "south", "west")
# Given columns before, between and after the others; None: a normal one.
TABLES: dict[str, tuple[list[Any], list[int]]] = {
    "group": ([(0, 1), (-1, 1), (0, 1, 2), (0, 1)], [3]),
    "labels": ([REGION, (0, 1), (0, 1, 2, 3), Nominal("a", "b")], [0]),
    "real": ([(0, 1), None, REGION, (1, 2, 5)], [1]),
    "both": ([None, (0, 1), REGION, (0, 1, 2), None], [0, 2, 4]),
}


def table(kind: str, n_rows: int, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    """Random rows of values and labels in which every value occurs."""
    rng = np.random.default_rng(seed)
    alphabets, given = TABLES[kind]
    columns = []
    for values in alphabets:
        if values is None:
            columns.append(rng.normal(40.0, 12.0, n_rows))
            continue
        letters = np.array(values.labels if isinstance(values, Nominal) else values, dtype=object)
        columns.append(
            letters[np.concatenate([np.arange(len(letters)), rng.integers(len(letters), size=n_rows)])][:n_rows]
        )
    out = np.empty((n_rows, len(columns)), dtype=object)
    for j, column in enumerate(columns):
        out[:, j] = column
    return out, given


def parameters_of(samples: Samples, order: int, gauge: str) -> Parameters:
    space = samples.space if gauge == "coding" else samples.space.standard(samples.frequencies)
    return Parameters(space, all_terms(order, space), "free", samples.frequencies)


class Brute:
    """t(x, z) of any row from the definition, and sums over x."""

    def __init__(self, parameters: Parameters, X: np.ndarray, gauge: str):
        self.parameters, self.space, self.gauge = parameters, parameters.space, gauge
        lines = self.space.lines
        self.moments = {i: (X[:, i].astype(float).mean(), X[:, i].astype(float).std()) for i in lines}
        self.modelled = np.flatnonzero(~self.space.given)

    def columns(self, x: list[Any]) -> np.ndarray:
        """(N,) φ of a row with codes at finite sites and values at real ones."""
        out = []
        for i, value in enumerate(x):
            if i in self.moments:
                m, s = self.moments[i]
                out.append([value if self.gauge == "coding" else (value - m) / s])
            else:
                out.append(self.space.functions[i][int(value)])
        return np.concatenate(out)

    def statistics(self, x: list[Any]) -> np.ndarray:
        phi, own = self.columns(x), []
        for i in self.modelled:
            own.append(self.parameters.own[i][int(x[i])])
        return np.concatenate([*own, [phi[list(mu)].prod() for mu in self.parameters.columns.tuples]])

    def family(self, rows: list[list[Any]], x: list[Any], theta: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """−ln P(x) among rows, its gradient and its Hessian."""
        t = np.array([self.statistics(row) for row in rows])
        exponent = t @ theta
        p = np.exp(exponent - exponent.max())
        log_z = exponent.max() + np.log(p.sum())
        p /= p.sum()
        mean, seen = p @ t, self.statistics(x)
        centred = t - mean
        return log_z - theta @ seen, mean - seen, (centred * p[:, None]).T @ centred

    def one(self, x: list[Any], i: int) -> list[list[Any]]:
        return [[*x[:i], a, *x[i + 1 :]] for a in range(self.space.sizes[i])]

    def all(self, x: list[Any]) -> list[list[Any]]:
        rows = []
        for codes in product(*(range(self.space.sizes[i]) for i in self.modelled)):
            row = list(x)
            for i, a in zip(self.modelled, codes):
                row[i] = a
            rows.append(row)
        return rows


def prepared(kind: str, gauge: str, n_rows: int = 12) -> tuple[Samples, Parameters, Brute, np.ndarray, np.ndarray]:
    X, given = table(kind, n_rows, seed=3)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, n_rows)
    samples = Samples.check(X, given=given, sample_weight=weights)
    parameters = parameters_of(samples, 3, gauge)
    brute = Brute(parameters, X, gauge)
    w = weights / weights.sum()
    for i in brute.moments:
        x = X[:, i].astype(float)
        brute.moments[i] = (w @ x, np.sqrt(w @ (x - w @ x) ** 2))
    size = [np.abs(O).max(axis=0) for O in parameters.own if O.shape[1]]
    columns = np.abs(parameters.space.columns(next(samples.blocks())[0])).max(axis=0)
    size.append(np.array([columns[list(mu)].prod() for mu in parameters.columns.tuples]))
    theta = 0.4 * np.random.default_rng(2).normal(size=parameters.n_params) / np.concatenate(size)
    return samples, parameters, brute, theta, w


@pytest.mark.parametrize("gauge", ["coding", "standard"])
@pytest.mark.parametrize("kind", TABLES)
def test_pseudolikelihood_against_every_conditional(kind, gauge):
    samples, parameters, brute, theta, w = prepared(kind, gauge)
    rows = next(samples.blocks())[0].tolist()
    found = [
        [sum(each) for each in zip(*(brute.family(brute.one(x, i), x, theta) for i in brute.modelled))] for x in rows
    ]
    value, gradient, H = (sum(wr * each[k] for wr, each in zip(w, found)) for k in range(3))
    loss = Loss(conditional.pseudo_binary, conditional.pseudo_finite, centred=False)
    composite = Composite(samples, parameters, loss, dtype=np.float64)
    sums = composite.sums(theta)
    assert sums.losses.sum() == pytest.approx(value, rel=1e-12)
    assert sums.losses[parameters.space.given].tolist() == [0.0] * int(parameters.space.given.sum())
    scale = np.abs(gradient).max()
    np.testing.assert_allclose(composite.to_params(sums.entries, sums.extras), gradient, atol=1e-12 * scale)
    np.testing.assert_allclose(hessian(composite, theta), H, atol=1e-12 * np.abs(H).max())


@pytest.mark.parametrize("kind", TABLES)
def test_heavy_rows_are_those_of_the_modelled_conditionals(kind):
    """Given columns have no scores: q of the others' alone, by the definition."""
    samples, parameters, brute, theta, w = prepared(kind, "standard")
    composite = pseudolikelihood.prepare(samples, parameters, dtype=np.float64).composite
    q, weight = thinning.heaviness(composite, theta)
    rows = next(samples.blocks())[0].tolist()
    scores = np.array([[brute.family(brute.one(x, i), x, theta)[1] for i in brute.modelled] for x in rows])
    scores[:, :, np.setdiff1d(np.arange(parameters.n_own), parameters.column_params)] = 0.0  # what is no column's
    np.testing.assert_allclose(weight, w, rtol=1e-12)
    expected = w * np.sum(scores**2 / diagonal_and_own(composite, theta)[0], axis=(1, 2))
    np.testing.assert_allclose(q, expected, rtol=1e-7)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize("kind", TABLES)
def test_errors_site_by_site_are_those_of_the_whole_matrices(kind, ridge, monkeypatch):
    """Where every interaction has one modelled variable, the sandwich of the whole is block diagonal but for
    correlations of the scores of two variables, which are in no variance."""
    X, given = table(kind, 400, seed=5)
    samples = Samples.check(X, given=given, sample_weight=np.random.default_rng(1).uniform(0.5, 2.0, 400))
    space = samples.space.standard(samples.frequencies)
    one = [mu for mu in all_terms(3, space).tuples if sum(not space.given[space.site[c]] for c in mu) == 1]
    parameters = Parameters(space, Interactions.from_tuples(one, space.n_columns), "free", samples.frequencies)
    fit = pseudolikelihood.prepare(samples, parameters, dtype=np.float64)
    assert fit.composite.is_apart
    penalty = np.where(np.arange(parameters.n_params) < parameters.n_own, 0.0, ridge)
    objective = Objective(fit.composite, penalty)
    theta = parameters.independent()
    found = sandwich.errors(objective, theta, fit.independence.count)
    monkeypatch.setattr(Composite, "is_apart", False)
    whole = sandwich.errors(objective, theta, fit.independence.count)
    for name in ("posterior", "sampling", "kept", "noise", "overcount", "free", "free_variance"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-6, atol=1e-12)
    for name in ("covariance", "free_covariance"):
        mine, theirs = getattr(found, name), getattr(whole, name)
        inside = mine != 0.0
        assert not inside.all()
        np.testing.assert_allclose(mine[inside], theirs[inside], rtol=1e-6, atol=1e-12 * np.abs(theirs).max())


def test_many_rows_with_given_columns():
    """So many that the sandwich takes some of them: errors are those of all, but for the noise of a sample."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=40_000)
    x = (rng.random((40_000, 2)) < 1.0 / (1.0 + np.exp(-np.column_stack([0.5 * z, -1.0 + 0.0 * z])))).astype(int)
    est = HBM(order=2, given=[2], interactions=[(0, 2), (1, 2)], alpha=0.0, refine="pseudolikelihood")
    est.fit(np.column_stack([x, z]))
    p = 1.0 / (1.0 + np.exp(-0.5 * z))
    design = np.column_stack([np.ones_like(z), z])
    told = np.sqrt(np.linalg.inv((design * (p * (1.0 - p))[:, None]).T @ design)[1, 1])
    assert est.standard_errors_[0] == pytest.approx(told, rel=0.05)
    assert est.weights_[0] == pytest.approx(0.5, abs=4 * told)


@pytest.mark.parametrize("gauge", ["coding", "standard"])
@pytest.mark.parametrize("kind", TABLES)
def test_likelihood_against_all_states_for_every_pattern(kind, gauge):
    samples, parameters, brute, theta, w = prepared(kind, gauge)
    rows = next(samples.blocks())[0].tolist()
    found = [brute.family(brute.all(x), x, theta) for x in rows]
    value, gradient, F = (sum(wr * each[k] for wr, each in zip(w, found)) for k in range(3))
    target = Target.of(Moments.from_samples(samples, order=3), parameters, samples)
    point = LikelihoodPoint.at(target, theta)
    assert point.value == pytest.approx(value, rel=1e-11)
    np.testing.assert_allclose(point.gradient, gradient, atol=1e-11 * np.abs(gradient).max())
    np.testing.assert_allclose(point.fisher, F, atol=1e-11 * np.abs(F).max())
    independent = LikelihoodPoint.at(target, target.independent)
    assert independent.value == pytest.approx(target.independent_value, rel=1e-11)


@pytest.mark.parametrize("method", [pseudolikelihood, screening])
def test_many_parameters_take_products_with_the_same_hessian(method):
    samples, parameters, _, theta, _ = prepared("both", "standard", 40)
    fit = method.prepare(samples, parameters, dtype=np.float64)
    from hbm_learn.inversion.composite.objective import HessianProducts, Objective

    objective = Objective(fit.composite, np.zeros(parameters.n_params))
    products = HessianProducts(objective, theta)
    H = hessian(fit.composite, theta)
    v = np.random.default_rng(0).normal(size=parameters.n_params)
    np.testing.assert_allclose(products.product(v), H @ v, atol=1e-10 * np.abs(H @ v).max())
    r = np.random.default_rng(1).normal(size=(2, parameters.n_params))
    one, two = (products.precondition(each) for each in r)
    assert r[1] @ one == pytest.approx(r[0] @ two, rel=1e-8)  # symmetric
    assert (products.inverse_diagonal(np.ones(parameters.n_params)) > 0).all()


@pytest.mark.parametrize("kind", TABLES)
def test_information_is_counted_once_for_each_modelled_member(kind):
    samples, parameters, _, _, _ = prepared(kind, "standard", 60)
    count = pseudolikelihood.prepare(samples, parameters).independence.count[parameters.n_own :]
    modelled = ~parameters.space.given[parameters.space.site]
    expected = [modelled[list(mu)].sum() for mu in parameters.columns.tuples]
    np.testing.assert_allclose(count, expected, rtol=1e-9)


# ---------------------------------------------------------------------- groups by themselves


def grouped(n_rows: int, seed: int, labels: tuple = (0, 1)) -> tuple[np.ndarray, np.ndarray]:
    """(n_rows, 5) items whose fields and couplings depend on a group, and the group."""
    rng = np.random.default_rng(seed)
    group = rng.integers(len(labels), size=n_rows)
    X = np.empty((n_rows, 5), dtype=int)
    for k in range(len(labels)):
        J = {mu: 0.5 * rng.normal() for mu in [(0, 1), (1, 2), (0, 3), (2, 4)]}
        model = BoltzmannMachine(0.4 * rng.normal(size=5), J, 0.0, [(0, 1), (0, 1), (0, 1, 2), (0, 1), (0, 1)])
        X[group == k] = sample(model, int((group == k).sum()), random_state=[seed, k])
    return X, np.array(labels, dtype=object)[group]


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
@pytest.mark.parametrize("labels", [(0, 1), (3, 7), ("control", "patient"), ("a", "b", "c")])
def test_with_a_group_in_everything_a_fit_is_as_many_fits(refine, labels):
    X, group = grouped(2500, 5, labels)
    rows = np.column_stack([X.astype(object), group])
    pairs = [(i, j) for i in range(6) for j in range(i + 1, 6)]
    triplets = [(i, j, 5) for i in range(5) for j in range(i + 1, 5)]
    options = {"alpha": 0.0, "refine": refine, "tol": 1e-13}
    # The own weights of the three-valued item are the same in all groups, unless x² too takes part.
    est = HBM(
        order=3, interactions=[*pairs, *triplets, (2, 2, 5)], given=[5], powers=2, site="quadratic", **options
    ).fit(rows)
    errors = est.result_.standard_errors
    assert (errors > 0).all()
    for label in labels:
        alone = HBM(order=2, site="quadratic", **options).fit(X[group == label])
        part = est.model_.condition([label])
        assert part.interactions == alone.interactions_
        np.testing.assert_allclose(part.weights, alone.weights_, atol=1e-8)
        np.testing.assert_allclose(part.h, alone.h_, atol=1e-8)
        np.testing.assert_allclose(part.d, alone.d_, atol=1e-8)


def test_errors_of_a_difference_are_those_of_two_fits():
    X, group = grouped(3000, 6)
    keep = [0, 1, 3, 4]
    X = X[:, keep]
    options = {"alpha": 0.0, "refine": "likelihood"}
    triplets = [(i, j, 4) for i in range(4) for j in range(i + 1, 4)]
    pairs = [(i, j) for i in range(5) for j in range(i + 1, 5)]
    both = HBM(order=3, interactions=[*pairs, *triplets], given=[4], **options).fit(
        np.column_stack([X, group.astype(int)])
    )
    one, two = (HBM(order=2, **options).fit(X[group == g]) for g in (0, 1))
    where = [both.interactions_.index((*mu, 4)) for mu in one.interactions_]
    expected = np.hypot(one.standard_errors_, two.standard_errors_)
    np.testing.assert_allclose(both.standard_errors_[where], expected, rtol=1e-6)


def test_the_closed_form_is_that_of_all_columns():
    X, group = grouped(2000, 7)
    rows = np.column_stack([X, group.astype(int), np.random.default_rng(0).integers(2, size=2000)])
    whole = HBM(order=2, refine=None, alpha=0.0).fit(rows)
    some = HBM(order=2, refine=None, alpha=0.0, given=[5, 6]).fit(rows)
    assert set(whole.interactions_) - set(some.interactions_) == {(5, 6)}
    known = [whole.interactions_.index(mu) for mu in some.interactions_]
    np.testing.assert_allclose(some.weights_, whole.weights_[known], rtol=1e-10)
    np.testing.assert_allclose(some.h_[:5], whole.h_[:5], atol=1e-6)
    assert some.h_[5:].tolist() == [0.0, 0.0]


# ---------------------------------------------------------------------- the model


def model_with(strength: float = 0.6) -> BoltzmannMachine:
    rng = np.random.default_rng(8)
    return BoltzmannMachine(
        [0.2, -0.3, 0.0, 0.0, 0.1],
        {
            (0, 1): 0.4,
            (0, 2): strength,
            (0, 1, 2): -strength,
            (1, 3): rng.normal(size=3),
            (1, 3, 4): rng.normal(size=3),
            (2, 3, 4): 0.5 * rng.normal(size=3),
            (0, 4): -0.5,
        },
        alphabet=[(0, 1), (0, 1, 2), "real", REGION, (-1, 1)],
        given=[2, 3],
    )


def exact(model: BoltzmannMachine, z: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """All states with z in their places, and P(x | z) from energies alone."""
    states = np.empty((12, 5), dtype=object)
    for r, (a, b, c) in enumerate(product((0, 1), (0, 1, 2), (-1, 1))):
        states[r] = [a, b, *z, c]
    p = np.exp(-model.energy(states))
    return states, p / p.sum()


def test_conditioning_leaves_the_distribution():
    model = model_with()
    for z in ([1.5, "south"], [-0.7, "west"]):
        states, p = exact(model, z)
        part = model.condition(z)
        assert not part.space.has_given
        found = np.exp(-part.energy(states[:, [0, 1, 4]]))
        np.testing.assert_allclose(found / found.sum(), p, rtol=1e-12)
        np.testing.assert_allclose(infer(part, "exact").probabilities[0], [p[:6].sum(), p[6:].sum()], rtol=1e-12)
    some = model.condition({0: 1, 2: 1.5})
    assert some.space.given.tolist() == [False, True, False]
    np.testing.assert_allclose(some.condition(["south"]).h, model.condition({0: 1, 2: 1.5, 3: "south"}).h)


@pytest.mark.parametrize("method", ["auto", "exact", "gibbs"])
def test_samples_given_rows_have_their_conditionals(method):
    model = model_with()
    Z = np.empty((30_000, 2), dtype=object)
    Z[:] = [[1.5, "south"], [-0.7, "west"], [0.4, "south"]] * 10_000
    options = {"burn_in": 60} if method == "gibbs" else {}
    X = sample(model, len(Z), method, 3, given=Z, **options)
    assert (X[:, 2:4] == Z).all()
    for k in range(3):
        states, p = exact(model, Z[k].tolist())
        mine = X[k::3]
        found = np.array([(mine == state).all(axis=1).mean() for state in states])
        assert np.abs(found - p).max() < 4.5 * np.sqrt(p.max() / len(mine))
    again = sample(model, len(Z), method, 3, given=Z, **options)
    assert (again == X).all()


def test_one_row_of_given_values_is_for_all_samples():
    X = sample(model_with(), 50, random_state=0, given=[0.5, "west"])
    assert X.shape == (50, 5)
    assert set(X[:, 2]) == {0.5}
    assert set(X[:, 3]) == {"west"}


def test_files_keep_what_is_given(tmp_path):
    model = model_with()
    model.save(tmp_path / "model.npz")
    loaded = BoltzmannMachine.load(tmp_path / "model.npz")
    assert loaded == model
    assert loaded.space.given.tolist() == [False, False, True, True, False]
    X, given = table("both", 400)
    est = HBM(order=2, given=given).fit(X)
    est.model_.save(tmp_path / "fit.npz")
    again = BoltzmannMachine.load(tmp_path / "fit.npz")
    assert again == est.model_
    np.testing.assert_array_equal(again.energy(X), est.model_.energy(X))
    with np.load(tmp_path / "fit.npz") as archive:
        content = dict(archive)
    assert int(content["version"]) == 3
    np.savez(tmp_path / "bad.npz", **{**content, "given": np.ones(5, dtype=bool)})
    with pytest.raises(ValueError, match="damaged: its given variables"):
        BoltzmannMachine.load(tmp_path / "bad.npz")


def test_models_without_given_variables_are_files_of_version_2(tmp_path):
    BoltzmannMachine([0.0, 0.1], {(0, 1): 0.3}).save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as archive:
        assert int(archive["version"]) == 2
        assert "given" not in archive.files


# ---------------------------------------------------------------------- the estimator


@pytest.fixture(scope="module")
def survey() -> pd.DataFrame:
    """Six items, a group of text and an age; the group changes one coupling, the age one field and one coupling."""
    rng = np.random.default_rng(11)
    M = 1500
    group, age = rng.choice(["control", "patient"], M), rng.normal(40.0, 12.0, M)
    model = BoltzmannMachine(
        np.r_[np.full(6, -0.4), 0, 0],
        {(0, 1): 0.8, (2, 3): -0.7, (2, 5): -1.6, (0, 1, 6): [-0.6, 0.6], (4, 7): 0.02, (2, 5, 7): 0.04},
        alphabet=[(0, 1)] * 6 + [Nominal("control", "patient"), "real"],
        given=[6, 7],
    )
    X = sample(model, M, random_state=1, given=np.column_stack([group.astype(object), age.astype(object)]))
    return pd.DataFrame({f"item{i}": X[:, i].astype(int) for i in range(6)} | {"group": group, "age": age})


@pytest.fixture(scope="module")
def fitted(survey: pd.DataFrame) -> HBM:
    return HBM(order=3, given=["group", "age"], random_state=0).fit(survey)


def test_what_is_fitted_and_what_is_not(fitted):
    space = fitted.model_.space
    assert space.given.tolist() == [False] * 6 + [True, True]
    assert (6, 7) not in fitted.interactions_
    assert {(0, 6), (0, 7), (0, 6, 7), (0, 1, 6)} <= set(fitted.interactions_)
    assert len(fitted.interactions_) == 28 - 1 + 56
    assert fitted.h_[6:].tolist() == fitted.d_[6:].tolist() == fitted.h_standard_errors_[6:].tolist() == [0.0, 0.0]
    assert fitted.result_.method == "pseudolikelihood"  # 1500 patterns
    assert fitted.trust_.checks
    frame = fitted.to_frame().set_index("interaction")
    assert frame.loc[[("item0", "item1", "group")]].q_value.item() < 1e-4
    assert frame.loc[[("item2", "item5", "age")]].q_value.item() < 0.05
    assert "group" in str(fitted.summary(3))


def test_scores_are_conditional(fitted, survey):
    rows = survey.head(40)
    model, codes = fitted.model_, fitted.model_.space.encode(survey.head(40).to_numpy(dtype=object))
    expected = np.zeros(40)
    total = np.zeros(40)
    states = np.array(list(product((0, 1), repeat=6)))
    for r, row in enumerate(codes):
        every = np.repeat(row[None], len(states), axis=0)
        every[:, :6] = states
        exponent = -model.energy_of_codes(every)
        mine = int(np.flatnonzero((states == row[:6]).all(axis=1))[0])
        total[r] = exponent[mine] - np.logaddexp.reduce(exponent)
        for i in range(6):
            flipped = row.copy()
            flipped[i] = 1 - row[i]
            expected[r] -= np.logaddexp(
                0.0, exponent[int(np.flatnonzero((states == flipped[:6]).all(axis=1))[0])] - exponent[mine]
            )
    np.testing.assert_allclose(fitted.score_samples(rows), expected, rtol=1e-10)
    assert fitted.score(rows) == pytest.approx(expected.mean())
    assert fitted.log_likelihood(rows) == pytest.approx(total.mean(), rel=1e-10)
    some = [0, 0, 0, 0, 1, 2]  # patterns that occur more often than others
    assert fitted.log_likelihood(rows.iloc[some]) == pytest.approx(total[some].mean(), rel=1e-10)
    mean, error = fitted.log_likelihood(rows.head(3), method="ais", return_error=True)
    assert abs(mean - total[:3].mean()) < 5 * error + 1e-3


def test_predictions_are_conditional(fitted, survey):
    rows = survey.head(5).astype({f"item{i}": float for i in range(6)})
    rows.iloc[0, 0] = rows.iloc[1, 2] = rows.iloc[1, 3] = np.nan
    filled = fitted.predict(rows)
    assert filled.drop(columns=["item0", "item2", "item3"]).equals(rows.drop(columns=["item0", "item2", "item3"]))
    proba = fitted.predict_proba(rows)
    assert proba.shape == (5, 6, 2)
    for name, r, i in (("item0", 0, 0),):
        assert filled[name].iloc[r] == proba[r, i].argmax()
        both = pd.concat([rows.iloc[[r]].assign(**{name: float(a)}) for a in (0, 1)])
        energies = fitted.model_.energy(both.to_numpy(dtype=object))
        np.testing.assert_allclose(proba[r, i], np.exp(-energies) / np.exp(-energies).sum(), rtol=1e-10)
    rows.loc[rows.index[3], "age"] = np.nan
    with pytest.raises(ValueError, match=r"column 'age' is given, and has a missing cell in row 3"):
        fitted.predict(rows)


def test_the_estimator_samples_given_rows(fitted, survey):
    X = fitted.sample(4, given=survey[["group", "age"]].head(4), random_state=0)
    assert X[:, 6].tolist() == survey.group.head(4).tolist()
    assert X[:, 7].tolist() == survey.age.head(4).tolist()
    whole = fitted.sample(4, given=survey.head(4)[["age", "item0", "group"]], random_state=0)
    assert (whole == X).all()
    with pytest.raises(ValueError, match="given lacks the column 'age'"):
        fitted.sample(4, given=survey[["group"]].head(4))
    with pytest.raises(ValueError, match=r"variables \[6, 7\] are given: give their values, given="):
        fitted.sample(4)


def test_given_columns_of_every_kind():
    rng = np.random.default_rng(3)
    M = 300
    data = pd.DataFrame(rng.integers(2, size=(M, 3)), columns=list("abc"))
    data["grade"] = pd.Categorical(rng.choice(["low", "mid", "high"], M), ["low", "mid", "high"], ordered=True)
    data["treated"] = rng.random(M) < 0.5
    data["site"] = rng.choice(["x", "y", "z"], M)
    data["year"] = rng.integers(1950, 2000, M)
    est = HBM(order=2, given=["grade", "treated", "site", "year"]).fit(data)
    kinds = [a.kind for a in est.model_.space.alphabets]
    assert kinds == ["finite"] * 5 + ["nominal", "real"]
    X = est.sample(3, given=data.head(3), random_state=0)
    assert X[:, 3].tolist() == data.grade.cat.codes.head(3).tolist()
    assert est.predict(data.head(3)).grade.tolist() == data.grade.head(3).tolist()
    twice = HBM(order=2, given=["site", "year"]).partial_fit(data.head(100)).partial_fit(data.tail(200)[data.columns])
    once = HBM(order=2, given=["site", "year"], refine=None).fit(data)
    np.testing.assert_allclose(twice.effects_, once.effects_, atol=1e-12)


def test_columns_of_labels_are_given_by_name_or_index(survey):
    names = HBM(order=2, given=["group", "age"], refine=None).fit(survey)
    indices = HBM(order=2, given=[7, -2], refine=None).fit(survey)
    np.testing.assert_array_equal(names.weights_, indices.weights_)


def test_few_patterns_take_the_likelihood_and_many_do_not(survey):
    few = survey.drop(columns="age")
    assert HBM(order=2, given=["group"]).fit(few).result_.method == "likelihood"
    asked = HBM(order=2, given=["group", "age"], refine="likelihood").fit(survey.head(60))
    assert asked.result_.method == "likelihood"
    wide = np.random.default_rng(0).integers(2, size=(300, 24))
    with pytest.warns(UserWarning, match="the pseudolikelihood was maximised in its place"):
        est = HBM(order=2, given=[0, 1], refine="likelihood", alpha=1.0).fit(wide)
    assert est.result_.method == "pseudolikelihood"


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
def test_nothing_depends_on_how_a_given_column_is_coded(survey, refine):
    few = survey.head(300)
    if refine == "likelihood":
        few = few.assign(age=np.round(few.age / 10))
    plain = HBM(order=3, given=["group", "age"], refine=refine, alpha="auto", random_state=0).fit(few)
    recoded = few.assign(group=few.group.map({"control": "z", "patient": "a"}), age=1000.0 - 3.0 * few.age)
    other = HBM(order=3, given=["group", "age"], refine=refine, alpha="auto", random_state=0).fit(recoded)
    assert plain.interactions_ == other.interactions_
    flips = np.array([(6 in mu) + (7 in mu) for mu in plain.interactions_])
    sign = np.where(flips % 2, -1.0, 1.0)
    np.testing.assert_allclose(other.effects_, sign * plain.effects_, atol=2e-6)
    np.testing.assert_allclose(other.effect_errors_, plain.effect_errors_, rtol=1e-4)
    np.testing.assert_allclose(other.tests_.z, sign * plain.tests_.z, atol=1e-5)
    assert other.score(recoded) == pytest.approx(plain.score(few), abs=1e-7)


def test_nothing_given_is_the_same_to_the_bit(survey):
    items = survey.drop(columns=["group", "age"])
    one, two = HBM(random_state=0).fit(items), HBM(given=[], random_state=0).fit(items)
    for name in ("weights_", "h_", "effects_", "effect_errors_", "standard_errors_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    np.testing.assert_array_equal(one.tests_.z, two.tests_.z)


def test_pipelines_and_cross_validation(survey):
    items = survey.head(400)
    est = make_pipeline(FunctionTransformer(), HBM(order=2, given=["group", "age"], alpha=1.0))
    scores = cross_val_score(est, items, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    without = cross_val_score(HBM(order=2, alpha=1.0), items.drop(columns=["group", "age"]), cv=3)
    assert scores.mean() > without.mean() - 0.05


def test_groups_of_rows_and_weights_go_with_given_columns(survey):
    few = survey.head(400)
    twice = HBM(order=2, given=["group", "age"], alpha=0.0, refine="pseudolikelihood", tol=1e-12)
    one = twice.fit(few, sample_weight=np.full(400, 2.0)).weights_.copy()
    np.testing.assert_allclose(twice.fit(pd.concat([few, few])).weights_, one, rtol=1e-7, atol=1e-9)
    plain = HBM(order=2, given=["group", "age"]).fit(few)
    rows = np.repeat(np.arange(40), 10)
    inflated = HBM(order=2, given=["group", "age"]).fit(few.sort_values("group"), groups=rows)
    # Rows sorted by what is given are no more alike than others.
    assert np.median(inflated.effect_errors_ / plain.effect_errors_) < 1.25
    sorted_rows = HBM(order=2, given=["group", "age"]).fit(few.sort_values("group"))
    assert next(c for c in sorted_rows.trust_.checks if c.name == "dependence of rows").verdict == "good"


def test_rows_that_are_alike_by_what_is_given_may_be_independent():
    from hbm_learn.assessment.dependence import autocorrelation_time, design_effects

    rng = np.random.default_rng(14)
    group = np.repeat(rng.integers(2, size=100), 20)
    items = (rng.random((2000, 5)) < np.where(group, 0.8, 0.2)[:, None]).astype(int)
    table, blocks = np.column_stack([items, group]), np.repeat(np.arange(100), 20)
    for given, low, high in (([5], 1.0, 1.3), (None, 5.0, np.inf)):
        samples = Samples.check(table, given=given)
        columns = all_terms(2, samples.space)
        assert low <= autocorrelation_time(samples, columns) <= high
        assert low <= max(design_effects(samples, columns, blocks).values()) <= 1.2 * high
    slow = np.sin(np.arange(2000) / 20)  # pairs of items go with its square
    items = (rng.random((2000, 5)) < 0.5 + 0.4 * slow[:, None]).astype(int)
    samples = Samples.check(np.column_stack([items, slow]), given=[5])
    assert autocorrelation_time(samples, all_terms(2, samples.space)) < 1.3


def test_order_auto_and_powers(survey):
    est = HBM(given=["group"], powers=2).fit(
        survey[["item0", "item1", "item2", "group"]].assign(item2=survey.item3 + survey.item4)
    )
    assert est.order_ in (2, 3)
    assert any(mu.count(2) == 2 for mu in est.interactions_)


def test_selection_keeps_the_difference(survey):
    est = HBM(order=3, given=["group", "age"], fdr=0.05).fit(survey)
    assert (0, 1, 6) in est.interactions_
    assert not {mu for mu in est.interactions_ if set(mu) <= {6, 7}}
    with_fields = {(0, 6), (1, 6), (0, 1)}  # all subsets with a modelled member
    assert with_fields <= set(est.interactions_)


def test_chains_of_the_check_keep_what_is_given(fitted, survey, monkeypatch):
    from hbm_learn.assessment import predictive

    seen = []

    class Spy(predictive.Chains):
        def __init__(self, model, widths, seed, initial=None, n_jobs=None):
            super().__init__(model, widths, seed, initial, n_jobs)
            seen.append((np.array(initial), self))

    monkeypatch.setattr(predictive, "Chains", Spy)
    samples = Samples.check(survey, space=fitted.model_.space)
    found = predictive.check(fitted.model_, samples, 0, n_chains=64)
    ((starts, chains),) = seen
    known = {tuple(row) for row in next(samples.blocks())[0][:, 6:].tolist()}
    assert {tuple(row) for row in starts[:, 6:].tolist()} <= known
    np.testing.assert_array_equal(chains.states()[:, 6:], starts[:, 6:])
    assert not (chains.states()[:, :6] == starts[:, :6]).all()
    assert found.mixes
    assert found.agrees_fitted
    assert len(found.means.z) == 6


def test_the_page_runs_as_written():
    page = (Path(__file__).parents[1] / "docs" / "given.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    scope: dict[str, Any] = {}
    for block in blocks[1:]:  # the first is on a table of the reader's
        exec(compile(block, "given.md", "exec"), scope)
    assert scope["est"].result_.method == "likelihood"
    assert scope["kinetic"].interactions_ == scope["lags"].interactions


# ---------------------------------------------------------------------- interactions


def test_sets_of_given_columns_alone_are_none():
    space = Space.of([(0, 1)] * 4, 4, 1, [False, True, True, False])
    found = all_terms(3, space)
    assert (1, 2) not in found.tuples
    assert len(found) == 6 - 1 + 4
    assert is_closed(found, space)
    assert (1, 2) not in closure(found, space).tuples
    labels = Space.of([(0, 1), REGION, (0, 1, 2), (0, 1)], 4, 2, [False, True, True, False])
    found = all_terms(3, labels)
    assert is_closed(found, labels)
    assert not any(labels.given[labels.site[list(mu)]].all() for mu in closure(found, labels).tuples)


# ---------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["sex"], "given names the column 'sex', which X does not have"),
        (["group", "group"], "given names the column 'group' twice"),
        ([6, "group"], "given names the column 'group' twice"),
        (list(range(8)), "names every column"),
        ("group", r"given='group': give a list of columns"),
        ([99], "given names the column 99, which X does not have"),
    ],
)
def test_mistakes_in_given(survey, given, message):
    with pytest.raises(ValueError, match=message):
        HBM(given=given).fit(survey)


def test_mistakes_beside_given(survey):
    with pytest.raises(ValueError, match=r"column 'group' is in given and in categorical_features"):
        HBM(given=["group", "age"], categorical_features=["group"]).fit(survey)
    with pytest.raises(ValueError, match=r"interaction \('group', 'age'\): all of its members are given"):
        HBM(given=["group", "age"], interactions=[("item0", "item1"), ("group", "age")]).fit(survey)
    holes = survey.copy()
    holes.loc[7, "age"] = np.nan
    with pytest.raises(ValueError, match=r"column 'age' is given, and has a missing cell in row 7 \(1 in all\)"):
        HBM(given=["group", "age"]).fit(holes)
    holes = survey.assign(group=survey.group.where(survey.index != 3))
    with pytest.raises(ValueError, match=r"column 'group' is given, and has a missing cell in row 3"):
        HBM(given=["group", "age"]).fit(holes)
    with pytest.raises(ValueError, match=r"column 'age' has more than 16 different values.*given=\["):
        HBM(given=["group"]).fit(survey)
    with pytest.raises(ValueError, match="column 'age' is given and constant"):
        HBM(given=["age"], alphabet={"age": "real"}).fit(survey.assign(age=3.0).drop(columns="group"))
    with pytest.raises(ValueError, match="column 'x' has more than 16"):
        HBM(given=["age"]).fit(survey[["age", "item0"]].assign(x=np.random.default_rng(0).normal(size=len(survey))))


def test_a_new_label_of_a_given_column_is_named(fitted, survey):
    with pytest.raises(ValueError, match=r"'other' at row 0, column 'group'"):
        fitted.score(survey.head(2).assign(group="other"))
    assert np.isfinite(fitted.score(survey.head(2).assign(age=200.0)))  # a number need not have been seen


def test_mistakes_with_models():
    model = model_with()
    with pytest.raises(ValueError, match=r"variables \[2, 3\] of the model are given: .*infer\(model.condition"):
        infer(model)
    with pytest.raises(ValueError, match=r"variable 3 has no value 'east'"):
        model.condition([0.0, "east"])
    with pytest.raises(ValueError, match=r"variable 2 has no value nan"):
        model.condition([np.nan, "west"])
    with pytest.raises(ValueError, match=r"values has 1 entries for 2 given variables"):
        model.condition([0.0])
    with pytest.raises(ValueError, match=r"given has shape \(3, 2\); expected \(5, 2\)"):
        sample(model, 5, given=[[0.0, "west"]] * 3)
    with pytest.raises(ValueError, match="but the model has none"):
        sample(BoltzmannMachine([0.0], {}), 5, given=[1])
    with pytest.raises(ValueError, match=r"variable 1 is given, with h = 0\.5"):
        BoltzmannMachine([0.1, 0.5], {(0, 1): 0.3}, given=[1])
    with pytest.raises(ValueError, match=r"couplings\[\(0, 1\)\]: all of its members are given"):
        BoltzmannMachine([0.0, 0.0, 0.1], {(0, 1): 0.3}, given=[0, 1])
    with pytest.raises(ValueError, match=r"couplings\[0, 1\] = 0.3: both are given"):
        BoltzmannMachine(np.zeros(3), [[0, 0.3, 0], [0.3, 0, 0], [0, 0, 0]], given=[0, 1])
    with pytest.raises(ValueError, match="names every variable"):
        BoltzmannMachine([0.0], {}, given=[0])


def test_moments_alone_do_not_know_the_patterns(survey):
    samples = Samples.check(survey, given=["group", "age"])
    moments = Moments.from_samples(samples, order=2)
    with pytest.raises(ValueError, match="needs the rows where columns are given"):
        invert(moments, method="likelihood")
    est = HBM(order=2, given=["group", "age"]).partial_fit(survey)
    assert est.result_.method == "closed-form"


# ---------------------------------------------------------------------- lags


def test_lagged_arrays_and_frames():
    X = np.arange(12).reshape(6, 2)
    found = datasets.lagged(X, 2)
    assert found.data.tolist() == [[2 * t, 2 * t + 1, 2 * t - 2, 2 * t - 1, 2 * t - 4, 2 * t - 3] for t in range(2, 6)]
    assert found.given == [2, 3, 4, 5]
    assert found.rows.tolist() == [2, 3, 4, 5]
    assert found.interactions == [(i, j) for i in (0, 1) for j in (2, 3, 4, 5)]
    frame = datasets.lagged(pd.DataFrame(X, columns=["a", "b"], index=list("uvwxyz")))
    assert list(frame.data.columns) == ["a", "b", "a (t-1)", "b (t-1)"]
    assert frame.data.to_numpy().tolist() == datasets.lagged(X).data.tolist()
    assert list(frame.data.index) == list("vwxyz")
    assert frame.given == ["a (t-1)", "b (t-1)"]


def test_no_lag_crosses_a_group():
    X = np.arange(7)[:, None]
    found = datasets.lagged(X, groups=["a", "b", "a", "b", "a", "c", "b"])
    assert found.data.tolist() == [[2, 0], [3, 1], [4, 2], [6, 3]]
    assert found.groups.tolist() == ["a", "b", "a", "b"]
    with pytest.raises(ValueError, match="lags=7: no row"):
        datasets.lagged(X, 7)
    with pytest.raises(ValueError, match="groups has shape"):
        datasets.lagged(X, groups=[1, 2])


def kinetic_ising(n: int, T: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """±1 spins with P(s_i(t + 1)) ∝ exp(s_i Σ_j J_ij s_j(t)), all at once, and J."""
    rng = np.random.default_rng(seed)
    J = rng.normal(size=(n, n)) / np.sqrt(n) * (rng.random((n, n)) < 0.3)
    s = np.empty((T, n), dtype=int)
    s[0] = rng.choice([-1, 1], n)
    for t in range(1, T):
        s[t] = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-2.0 * J @ s[t - 1])), 1, -1)
    return s, J


def test_kinetic_ising_is_recovered_as_by_logistic_regressions():
    from sklearn.linear_model import LogisticRegression

    spins, J = kinetic_ising(30, 3000, 4)
    found = datasets.lagged(spins)
    est = HBM(order=2, given=found.given, interactions=found.interactions, alpha=0.0, tol=1e-8).fit(found.data)
    ours = np.zeros((30, 30))
    for (i, j), weight in zip(est.interactions_, est.weights_):
        ours[i, j - 30] = weight
    theirs = np.array(
        [
            0.5 * LogisticRegression(C=np.inf, tol=1e-8, max_iter=500).fit(spins[:-1], spins[1:, i]).coef_[0]
            for i in range(30)
        ]
    )
    np.testing.assert_allclose(ours, theirs, atol=2e-4)
    errors = np.array(
        [est.standard_errors_[est.interactions_.index((i, j + 30))] for i in range(30) for j in range(30)]
    )
    z = (ours - J).ravel() / errors
    assert 0.9 < np.mean(np.abs(z) < 1.96) < 0.99


# ---------------------------------------------------------------------- the command, the report, pictures


def test_the_command_fits_given_columns(survey, tmp_path, capsys):
    from hbm_learn.cli import main

    path, model = str(tmp_path / "survey.csv"), str(tmp_path / "model.npz")
    survey.head(300).to_csv(path, index=False)

    def run(*argv: str) -> str:
        assert main(list(argv)) == 0
        return capsys.readouterr().out

    assert "more than 16 values: bin it, name it in --given" in run("info", path)
    text = run("info", path, "--given", "group,age")
    assert "nominal, given" in text
    assert "numeric, given" in text
    assert "fit would refuse" not in text
    assert f"{28 - 1 + 56} interactions, fitted by exact likelihood" in text
    assert run("info", path, "--given", "6,7") == text
    text = run("fit", path, "--given", "group,age", "--order", "2", "--categorical", "item0", "-o", model)
    assert "given: 1 numeric and 1 nominal with 2 labels" in text
    assert "nominal, given" in run("info", model)
    assert run("sample", model, "-n", "2", "--given", "patient,40", "--seed", "0").count("patient,40.0") == 2
    assert "ln Z" in run("infer", model, "--given", "control,51.5", "--method", "exact")
    assert "log-likelihood" in run("score", model, path, "--log-likelihood")
    assert main(["sample", model, "-n", "2"]) != 0
    assert "one value for each of group, age" in capsys.readouterr().err


def test_the_report_says_what_is_given(survey, tmp_path):
    from hbm_learn import plots, report

    few = survey.head(300)
    est = HBM(order=2, given=["group", "age"]).fit(few)
    report.write(tmp_path / "report.html", est, few)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<dt>given</dt><dd>group, age</dd>" in text
    assert "numeric, given" in text
    bars = re.findall(r'class="bars">(.*?)</div>', text)
    shown = [re.findall(r"<span>([^<]*)</span>", each) for each in bars]
    # value, share and own weight of each value, of which given labels have none
    assert [each[2::3] for each in shown if "a" in each[::3] or "control" in each[::3]] == [["", ""]]
    assert all(each[2::3] == [""] * (len(each) // 3) or "" not in each[2::3] for each in shown)
    with pytest.raises(ValueError, match="some columns are given"):
        plots.MomentsDisplay.from_estimator(est)
    shown = plots.MomentsDisplay.from_estimator(est, given=few[["group", "age"]], n_samples=3000)
    assert max(shown.discrepancy_.values()) < 2.0


# ---------------------------------------------------------------------- sweeps


def group_difference(seed: int, planted: bool) -> pd.DataFrame:
    """Eight 0/1 items in two groups of 1000 rows; three couplings differ between them, or none."""
    rng = np.random.default_rng([seed, planted])
    group = rng.choice(["a", "b"], 2000)
    table = np.array([-0.5, 0.5]) * planted
    couplings: dict[Any, Any] = {(0, 1): 0.6, (2, 3): -0.6, (4, 5): 0.6, (1, 6): 0.5, (3, 8): [-0.3, 0.3]}
    couplings |= {(0, 1, 8): table, (2, 3, 8): -table, (5, 7, 8): table}
    model = BoltzmannMachine(
        np.r_[rng.normal(0, 0.4, 8), 0], couplings, alphabet=[(0, 1)] * 8 + [Nominal("a", "b")], given=[8]
    )
    X = sample(model, 2000, random_state=[seed, 7], given=group[:, None])
    return pd.DataFrame({f"x{i}": X[:, i].astype(int) for i in range(8)} | {"group": group})


@pytest.mark.slow
def test_planted_differences_are_found_and_few_others():
    true, found, false = {(0, 1, 8), (2, 3, 8), (5, 7, 8)}, 0, []
    for seed in range(100, 120):
        est = HBM(order=3, given=["group"], fdr=0.05).fit(group_difference(seed, planted=True))
        passing = est.tests_.passing(0.05)
        kept = {mu for mu, ok in zip(est.tests_.terms.tuples, passing) if ok and len(mu) == 3}
        found += len(kept & true)
        false.append(len(kept - true) / max(len(kept), 1))
    assert found >= 45  # of 60
    assert np.mean(false) <= 0.05 + 2 * np.std(false) / np.sqrt(len(false))


@pytest.mark.slow
def test_groups_that_do_not_differ_show_no_difference():
    some, p = 0, []
    for seed in range(200, 220):
        tests = HBM(order=3, given=["group"]).fit(group_difference(seed, planted=False)).tests_
        some += any(ok and len(mu) == 3 for mu, ok in zip(tests.terms.tuples, tests.passing(0.05)))
        with_group = np.array([len(mu) == 3 and 8 in mu for mu in tests.terms.tuples])
        p.append(tests.p_values[with_group])
    assert some <= 4  # 1 expected at level .05
    share = np.mean(np.concatenate(p) < 0.05)
    assert 0.02 < share < 0.085


@pytest.mark.slow
@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
def test_effects_of_a_real_covariate_are_estimated_within_their_errors(refine):
    truth = BoltzmannMachine(
        [-0.3, 0.2, 0.0, -0.5, 0.0],
        {(0, 1): 0.5, (1, 2): -0.5, (0, 4): 0.4, (3, 4): -0.3, (0, 1, 4): 0.4, (2, 3, 4): 0.0, (2, 3): 0.3},
        alphabet=[(0, 1)] * 4 + ["real"],
        given=[4],
    )
    z, inside = [], []
    for seed in range(300, 325):
        Z = np.random.default_rng(seed).normal(size=(400 if refine == "likelihood" else 1500, 1))
        X = sample(truth, len(Z), random_state=seed, given=Z)
        est = HBM(order=3, interactions=truth.interactions, given=[4], alpha=0.0, refine=refine).fit(X)
        assert est.result_.method == refine
        z.append((est.weights_ - truth.weights) / est.standard_errors_)
        low, high = est.confidence_intervals().T
        inside.append((low <= truth.weights) & (truth.weights <= high))
    z = np.array(z)
    assert np.abs(z.mean(axis=0)).max() < 0.75  # the mean of 25 has an error of 0.2
    assert 0.8 < z.std() < 1.2
    assert 0.9 < np.mean(inside) < 0.99


def test_variables_that_do_not_act_on_each_other_are_checked_by_independent_draws():
    from hbm_learn.assessment import predictive

    spins, _ = kinetic_ising(8, 2000, 12)
    found = datasets.lagged(spins)
    est = HBM(order=2, given=found.given, interactions=found.interactions, random_state=0).fit(found.data)
    samples = Samples.check(found.data, space=est.model_.space)
    assert predictive.factorises(est.model_)
    assert not predictive.factorises(HBM(order=2, given=found.given).fit(found.data).model_)
    good = predictive.check_factorised(est.model_, samples, 1)
    assert good.agrees_fitted
    assert good.r_hat == 1.0
    other = BoltzmannMachine.from_parts(
        est.model_.space, (est.h_, est.d_, (None,) * 16), est.model_.columns, -est.model_.column_weights
    )
    assert not predictive.check_factorised(other, samples, 1).agrees_fitted
    by_chains = predictive.check(est.model_, samples, 1)
    assert by_chains.agrees_fitted
    assert by_chains.mixes


@pytest.mark.slow
def test_lagged_rows_are_not_said_to_depend_on_each_other():
    spins, _ = kinetic_ising(10, 4000, 9)
    found = datasets.lagged(spins)
    est = HBM(order=2, given=found.given).fit(found.data)
    check = next(c for c in est.trust_.checks if c.name == "dependence of rows")
    assert check.verdict == "good"
