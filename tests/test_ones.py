"""Sparse matrices of zeros and ones: the same numbers as from arrays, without ever being one."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

from hbm_learn import HBM, Moments
from hbm_learn._kernels import ones as kernels
from hbm_learn.assessment.node_data import DistinctRows
from hbm_learn.data import samples as samples_module
from hbm_learn.data.ones import Ones
from hbm_learn.data.rows import Rows
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import pseudolikelihood, screening
from hbm_learn.inversion.composite.by_ones import OnesMap
from hbm_learn.inversion.composite.hessian import diagonal_and_own, held_diagonal
from hbm_learn.inversion.composite.objective import HessianProducts, Objective
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.terms import all_terms


def raster(M: int, n: int, share: float, seed: int = 0) -> np.ndarray:
    """0/1 rows in which a third of the columns are three times as active, and neighbours are alike."""
    rng = np.random.default_rng(seed)
    p = np.where(np.arange(n) % 3 == 0, 3 * share, share)
    X = rng.random((M, n)) < p
    X[:, 1::5] |= X[:, :-1:5][:, : X[:, 1::5].shape[1]] & (rng.random(X[:, 1::5].shape) < 0.3)
    X[0], X[1] = False, True  # a row without ones, and a full one
    return X.astype(np.int8)


WEIGHTS = {"none": None, "whole": "whole", "real": "real"}


def weights(kind: str, M: int) -> np.ndarray | None:
    rng = np.random.default_rng(7)
    return {"none": None, "whole": rng.integers(0, 4, M), "real": rng.random(M)}[kind]


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "lil", "csr_array"])
def test_every_layout_and_type_is_held_by_its_ones(layout, dtype):
    X = raster(300, 9, 0.1).astype(dtype)
    made = sp.csr_array(X) if layout == "csr_array" else sp.coo_matrix(X).asformat(layout)
    held, plain = Samples.check(made), Samples.check(X)
    assert held.ones is not None
    assert held.space == plain.space
    assert [a.values.tolist() for a in held.space.alphabets] == [a.values.tolist() for a in plain.space.alphabets]
    np.testing.assert_array_equal(held.some(10)[0], plain.some(10)[0])
    np.testing.assert_array_equal(np.concatenate([b for b, _ in held.blocks(64)]), X.astype(np.uint8))
    assert held.complete().n_missing.sum() == 0
    for p, q in zip(held.frequencies, plain.frequencies):
        np.testing.assert_array_equal(p, q)


def test_stored_zeros_repeats_and_disorder_count_for_what_they_are():
    X = raster(50, 6, 0.3)
    csr = sp.csr_matrix(X)
    stored = csr.copy()
    stored.data = stored.data.copy()
    stored.data[::3] = 0
    backwards = csr.copy()
    for r in range(50):
        mine = slice(*backwards.indptr[r : r + 2])
        backwards.indices[mine] = backwards.indices[mine][::-1]
    backwards.has_sorted_indices = False
    for matrix in (stored, backwards):
        before = matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy()
        held = Samples.check(matrix, (0, 1))
        assert held.ones is not None
        np.testing.assert_array_equal(held.ones.toarray(), matrix.toarray())
        for a, b in zip(before, (matrix.data, matrix.indices, matrix.indptr)):
            np.testing.assert_array_equal(a, b)  # the user's matrix is as it was
    # A one that is there twice is a two, and none of ours.
    twice = sp.csr_matrix((np.ones(4, int), [0, 0, 1, 0], [0, 2, 3, 4, 4]), shape=(4, 2))
    held = Samples.check(twice)
    assert held.ones is None
    np.testing.assert_array_equal(next(held.values_blocks())[0], twice.toarray())
    same = sp.csr_matrix((np.ones(4, bool), [0, 0, 1, 0], [0, 2, 3, 4, 4]), shape=(4, 2))
    np.testing.assert_array_equal(Samples.check(same).ones.toarray(), same.toarray())


@pytest.mark.parametrize("strange", [2, -1, 0.5])
def test_other_values_take_the_ordinary_path(strange):
    X = raster(200, 5, 0.2).astype(float)
    X[17, 2] = strange
    held = Samples.check(sp.csr_matrix(X))
    assert held.ones is None
    assert held.space == Samples.check(X).space
    np.testing.assert_array_equal(next(held.values_blocks())[0], X)
    with pytest.raises(ValueError, match="row 17, column 2, outside the alphabet"):
        Samples.check(sp.csr_matrix(X), (0, 1))


def test_alphabets_that_are_given():
    X = raster(200, 5, 0.2)
    three = Samples.check(sp.csr_matrix(X), (0, 1, 2))
    assert three.ones is not None
    assert Moments.from_samples(three, order=2) == Moments.from_samples(Samples.check(X, (0, 1, 2)), order=2)
    assert Samples.check(sp.csr_matrix(X), {1: (0, 1)}).ones is not None
    for alphabet in ((-1, 1), (-1, 0, 1), (0, 2)):  # 0 and 1 are not the first two
        found = []
        for given in (X, sp.csr_matrix(X)):
            try:
                found.append(Moments.from_samples(given, order=2, alphabet=alphabet).mean.tolist())
            except ValueError as error:
                found.append(str(error))
        assert found[0] == found[1]
    labels = Samples.check(sp.csr_matrix(X), categorical_features=[0, 1])
    assert labels.space == Samples.check(X, categorical_features=[0, 1]).space


def test_missing_cells_are_what_they_were():
    X = raster(200, 5, 0.2).astype(float)
    X[3, 4] = np.nan
    held, plain = (Samples.check(given, allow_nan=True) for given in (sp.csr_matrix(X), X))
    assert held.ones is None
    assert held.n_missing.tolist() == plain.n_missing.tolist() == [0, 0, 0, 0, 1]
    assert Moments.from_samples(sp.csr_matrix(X), order=2) == Moments.from_samples(X, order=2)
    with pytest.raises(ValueError, match="NaN"):
        Samples.check(sp.csr_matrix(X))


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("dtype", [bool, np.int8, float])
def test_columns_without_variation_are_refused_in_the_same_words(value, dtype):
    X = raster(200, 5, 0.2)
    X[:, 3] = value
    said = []
    for given in (X.astype(dtype), sp.csr_matrix(X.astype(dtype))):
        with pytest.raises(ValueError, match="column 3 is constant") as error:
            HBM(order=2).fit(given)
        said.append(str(error.value))
    assert said[0] == said[1]


# ---------------------------------------------------------------------- sums


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("order", "n"), [(2, 70), (3, 40), (4, 20)])
def test_moments_are_those_of_the_array(order, n, kind, monkeypatch):
    monkeypatch.setattr("hbm_learn.data.ones._WORDS", 0.0)  # whether it pays or not
    X = raster(1000, n, 0.05)
    w = weights(kind, 1000)
    held, plain = (
        Moments.from_samples(sp.csr_matrix(X), order, sample_weight=w),
        Moments.from_samples(X, order, sample_weight=w),
    )
    assert held.n_samples == plain.n_samples
    for a, b in zip(held.power_sums.sums, plain.power_sums.sums):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-12 if kind == "real" else 0, atol=0)
    np.testing.assert_allclose(held.counts, plain.counts, rtol=1e-12)
    if kind != "real":
        assert held == plain


def test_sums_are_made_by_ones_where_these_are_few(monkeypatch):
    asked = []
    sums = Ones.sums
    monkeypatch.setattr(Ones, "sums", lambda self, *args: asked.append(self) or sums(self, *args))
    Moments.from_samples(sp.csr_matrix(raster(2000, 60, 0.3)), order=2)
    assert not asked
    Moments.from_samples(sp.csr_matrix(raster(2000, 60, 0.003)), order=2)
    assert len(asked) == 1


# ---------------------------------------------------------------------- equal rows


def test_distinct_rows_are_those_of_the_array():
    X = raster(3000, 12, 0.05)
    w = weights("whole", 3000)
    distinct, mine = Samples.check(sp.csr_matrix(X)).ones.distinct(w)
    found, inverse = np.unique(X, axis=0, return_inverse=True)
    order = np.lexsort(distinct.toarray().T[::-1])
    np.testing.assert_array_equal(distinct.toarray()[order], found)
    np.testing.assert_array_equal(mine[order], np.bincount(inverse.ravel(), w))


def test_rows_that_share_a_hash_by_chance_stay_apart():
    ones = Ones.of(sp.csr_matrix(np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [1, 1, 0], [0, 0, 0]])))
    first = np.empty(5, dtype=np.int64)
    kernels.equal_rows(ones.indptr, ones.indices, np.zeros(5, dtype=np.uint64), np.arange(5), first)
    assert first.tolist() == [0, 1, 1, 3, 4]


def test_rows_of_an_array_can_be_taken_in_every_way():
    X = raster(40, 7, 0.2)
    ones = Ones.of(sp.csr_matrix(X))
    mask = np.arange(40) % 3 == 1
    for rows in (slice(5, 17), slice(3, None, 4), slice(30, 10), mask, np.array([7, 7, 2])):
        np.testing.assert_array_equal(ones[rows].toarray(), X[rows])
        np.testing.assert_array_equal(ones[rows].columns(), X[rows].T)
        np.testing.assert_array_equal(ones[rows].counts(), X[rows].sum(axis=0))
        np.testing.assert_array_equal(
            ones[5:30][rows if isinstance(rows, slice) else np.array([1])].toarray(),
            X[5:30][rows if isinstance(rows, slice) else np.array([1])],
        )


# ---------------------------------------------------------------------- objectives


def both(X: np.ndarray, w: np.ndarray | None, method=pseudolikelihood, gauge: str = "standard", **options):
    """The composite objective of the ones and of the array."""
    out = []
    for given in (sp.csr_matrix(X), X):
        samples = Samples.check(given, sample_weight=w)
        space = samples.space.standard(samples.frequencies) if gauge == "standard" else samples.space
        parameters = Parameters(space, all_terms(2, space), "free", samples.frequencies)
        out.append(method.prepare(samples, parameters, **options).composite)
    return out


@pytest.mark.parametrize("method", [pseudolikelihood, screening])
@pytest.mark.parametrize("gauge", ["standard", "coding"])
@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("dtype", "tol"), [(np.float64, 1e-12), (np.float32, 2e-6)])
def test_objectives_are_those_of_the_array(dtype, tol, kind, gauge, method):
    X = raster(1500, 70, 0.03)
    held, plain = both(X, weights(kind, 1500), method, gauge, dtype=dtype)
    assert isinstance(held.map, OnesMap)
    assert not isinstance(plain.map, OnesMap)
    assert held.rows.n_rows == plain.rows.n_rows
    rng = np.random.default_rng(1)
    theta = held.parameters.independent() + 0.02 * rng.normal(size=held.n_params)
    v = rng.normal(size=held.n_params)

    def everything(composite):
        composite.stride = 3
        objective = Objective(composite, np.full(composite.n_params, 0.1))
        value, gradient = objective.value_gradient(theta)
        H = HessianProducts(objective, theta)
        curvature, with_own = diagonal_and_own(composite, theta, 2)
        beyond = composite.rows_beyond(theta, 0.3, seen=True).astype(float)
        return [
            value,
            gradient,
            H.product(v),
            H.precondition(v),
            held_diagonal(H),
            curvature,
            with_own.toarray(),
            beyond,
        ]

    for a, b in zip(everything(held), everything(plain)):
        assert np.abs(a - b).max() <= tol * np.abs(b).max()


def test_dense_rows_small_fits_and_given_columns_keep_their_arrays():
    for X, options in (
        (raster(500, 70, 0.4), {}),
        (raster(500, 20, 0.03), {}),
        (raster(500, 70, 0.03), {"given": [0]}),
    ):
        samples = Samples.check(sp.csr_matrix(X), **options)
        space = samples.space
        parameters = Parameters(space, all_terms(2, space), "free", samples.frequencies)
        composite = pseudolikelihood.prepare(samples, parameters).composite
        assert composite.rows.ones is not None
        assert not isinstance(composite.map, OnesMap)
        plain = pseudolikelihood.prepare(Samples.check(X, **options), parameters).composite
        theta = parameters.independent() + 0.01
        for a, b in zip(vars(composite.sums(theta)).values(), vars(plain.sums(theta)).values()):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", WEIGHTS)
def test_equal_rows_count_once(kind):
    X = raster(4000, 80, 0.003)
    held, plain = both(X, weights(kind, 4000), dtype=np.float64)
    assert held.rows.n_rows < 0.5 * plain.rows.n_rows
    assert held.rows.n_samples == plain.rows.n_samples
    theta = held.parameters.independent() + 0.02 * np.random.default_rng(1).normal(size=held.n_params)
    for a, b in zip(vars(held.sums(theta)).values(), vars(plain.sums(theta)).values()):
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
    for p, q in zip(Rows(held.rows._samples).frequencies, plain.rows.frequencies):
        np.testing.assert_allclose(p, q, rtol=1e-12)


# ---------------------------------------------------------------------- whole fits


@pytest.mark.parametrize("refine", [None, "pseudolikelihood", "auto"])
def test_fits_are_those_of_the_array(refine):
    X = raster(1500, 70, 0.04)
    held, plain = (HBM(order=2, refine=refine, random_state=0).fit(given) for given in (sp.csr_matrix(X), X))
    for name in ("weights_", "standard_errors_", "h_", "effects_"):
        a, b = getattr(held, name), getattr(plain, name)
        assert np.abs(a - b).max() <= 1e-7 * np.abs(b).max(), name
    assert str(held.trust_) == str(plain.trust_)
    np.testing.assert_allclose(held.tests_.z, plain.tests_.z, atol=1e-7)
    assert held.score(sp.csr_matrix(X)) == pytest.approx(plain.score(X), rel=1e-9)


def test_triplets_are_those_of_the_array():
    X = raster(3000, 12, 0.08)
    held, plain = (HBM(order=3, refine="pseudolikelihood", random_state=0).fit(each) for each in (sp.csc_matrix(X), X))
    np.testing.assert_array_equal(held.weights_, plain.weights_)


def test_tables_that_are_large_as_codes_are_checked_by_some_rows(monkeypatch):
    X = raster(3000, 24, 0.03)
    plain = HBM(order=2, refine="pseudolikelihood", random_state=0).fit(X)
    rows = DistinctRows.of(Samples.check(X))
    monkeypatch.setattr(samples_module, "MAX_KEPT_BYTES", 1000)
    samples = Samples.check(sp.csr_matrix(X))
    assert samples.is_large_as_codes
    codes, _ = samples.some(100, 3)
    assert codes.shape == (100, 24)
    np.testing.assert_array_equal(samples.on_rows(lambda c: c.sum(axis=1)), X.sum(axis=1))
    few = DistinctRows.of(samples)
    order = np.lexsort(few.codes.T[::-1])
    np.testing.assert_array_equal(few.codes[order], rows.codes)
    np.testing.assert_array_equal(few.weights[order], rows.weights)
    held = HBM(order=2, refine="pseudolikelihood", random_state=0).fit(sp.csr_matrix(X))
    np.testing.assert_array_equal(held.weights_, plain.weights_)
    np.testing.assert_allclose(held.tests_.z, plain.tests_.z, atol=1e-7)
    assert held.trust_.headline == plain.trust_.headline
    with pytest.raises(ValueError, match="groups=… looks at all 3000 × 24 cells"):
        HBM(order=2).fit(sp.csr_matrix(X), groups=np.arange(3000) // 10)


def test_memory_grows_with_the_ones_and_not_with_the_cells():
    """Moments, and passes with the Hessian: an array of codes would be 160 MB, of numbers in single precision 640."""
    rng = np.random.default_rng(0)
    M, n = 400_000, 400
    rows, cols = rng.integers(0, M, 10 * M // 4), rng.integers(0, n, 10 * M // 4)
    X = sp.coo_matrix((np.ones(len(rows), dtype=bool), (rows, cols)), shape=(M, n)).tocsr()
    tracemalloc.start()
    samples = Samples.check(X)
    moments = Moments.from_samples(samples, order=2)
    checked = tracemalloc.get_traced_memory()[1]
    space = moments.standard.space
    parameters = Parameters(space, all_terms(2, space), "free", moments.frequencies)
    composite = pseudolikelihood.prepare(samples, parameters).composite
    objective = Objective(composite, np.zeros(composite.n_params))
    objective.value_gradient(parameters.independent())
    passed = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert isinstance(composite.map, OnesMap)
    assert checked < 12 * X.nnz + 20 * M + 8 * n * n, checked
    assert passed < 1.2e8, passed
