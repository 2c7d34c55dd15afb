"""Moments of mixed spaces against plain numpy over the decoded columns."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hbm_learn import Interactions, Interval, Moments
from hbm_learn._kernels import symmetric
from hbm_learn.data import integer_coding
from hbm_learn.data import sums as _sums
from hbm_learn.data.collect import base_space
from hbm_learn.data.integer_coding import Coding
from hbm_learn.data.samples import Samples
from hbm_learn.space import Alphabet, Nominal, Space
from hbm_learn.terms import all_terms, columns_of

THREE, FOUR = Nominal("a", "b", "c"), Nominal("n", "s", "w", "e")
SPACES = {
    "two codings of bits": [(-1, 1), (0, 1), (0, 1)],
    "numbers": [(-1, 1), (0, 1), (1, 2, 3, 4, 5), (0, 0.5, 3), (-1, 0, 1)],
    "ternaries": [(-1, 0, 1), (1, 2, 3)],
    "not whole": [(0.3, 0.7, 2.0), (0, 1), (0.1, 0.2, 0.3, 0.4)],
    "labels": [THREE, FOUR, Nominal("no", "yes")],
    "everything": [(-1, 1), THREE, (1, 2, 3, 4, 5), (0, 0.5, 3), FOUR],
    "many values": [tuple(range(16)), tuple(x**2 for x in range(12)), (0, 1)],
}
WEIGHTS = ("none", "counts", "classes", "floats")


def draw(space, n_samples=200, seed=0):
    """Correlated, skewed codes, so that no cumulant vanishes by symmetry; every value occurs."""
    rng = np.random.default_rng(seed)
    u = 0.5 * rng.random((n_samples, 1)) ** 2 + 0.5 * rng.random((n_samples, space.n_features)) ** 1.5
    codes = (u * space.sizes).astype(np.uint8)
    for i, q in enumerate(space.sizes):
        codes[i * 20 : i * 20 + q, i] = np.arange(q)
    return codes


def make_weights(kind, n_samples, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "none": None,
        "counts": rng.integers(0, 7, n_samples),
        "classes": rng.choice([0.25, 1.75, 0.0], n_samples),
        "floats": rng.random(n_samples),
    }[kind]


def joint_moment(p, columns):
    """Σ p Π columns over dense indices, of (rows, N) columns given k times."""
    letters = "abcd"[: len(columns)]
    return np.einsum("s," + ",".join("s" + i for i in letters) + "->" + letters, p, *columns, optimize=True)


def direct(Phi, weights=None):
    """mean, ⟨φ²⟩, C, κ₃, κ₄ by their definitions."""
    p = np.full(len(Phi), 1 / len(Phi)) if weights is None else weights / np.sum(weights)
    d = Phi - p @ Phi
    C, third, fourth = (joint_moment(p, [d] * k) for k in (2, 3, 4))
    for pairing in ("ij,kl->ijkl", "ik,jl->ijkl", "il,jk->ijkl"):
        fourth -= np.einsum(pairing, C, C)
    return p @ Phi, p @ Phi**2, C, third, fourth


def assert_close(stats, expected, rtol=1e-11):
    found = [stats.mean, stats.second, *(stats.cumulant(k) for k in range(2, stats.order + 1))]
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(np.abs(b).max(), 1e-3))


def moments_of(codes, space, order=4, weights=None, powers=1):
    """By the way of users: a table of values and labels."""
    return Moments.from_samples(space.decode(codes), order, list(space.alphabets), weights, powers=powers)


# ---------------------------------------------------------------------- against the definitions


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("powers", [1, 2, 3])
def test_mixed_moments_are_those_of_the_columns(name, powers, weights):
    space = Space.of(SPACES[name], len(SPACES[name]), powers)
    codes = draw(space)
    w = make_weights(weights, len(codes))
    stats = moments_of(codes, space, 4 if powers < 3 else 3, w, powers)
    assert stats.space == space
    assert stats.alphabet == space.alphabets
    assert (stats.n_features, stats.n_columns) == (space.n_features, space.n_columns)
    Phi = space.columns(codes)
    assert_close(stats, direct(Phi, w), rtol=1e-10)
    p = np.ones(len(codes)) if w is None else w
    for i, found in enumerate(stats.frequencies):
        np.testing.assert_allclose(found, np.bincount(codes[:, i], p, space.sizes[i]) / p.sum(), rtol=1e-13)


def test_the_check_above_can_fail():
    space = Space.of(SPACES["everything"], 5)
    codes = draw(space)
    other = codes.copy()
    other[0, 4] = (other[0, 4] + 1) % 4
    with pytest.raises(AssertionError):
        assert_close(moments_of(other, space), direct(space.columns(codes)), rtol=1e-10)


@pytest.mark.parametrize("name", SPACES)
def test_popcounts_and_matrix_products_agree(name, monkeypatch):
    monkeypatch.setattr(integer_coding, "_MAX_CONJUNCTIONS", 10**6)
    monkeypatch.setattr(_sums, "_WIDTH", 3)
    base = base_space(Space.of(SPACES[name], len(SPACES[name]), 2))
    codes = draw(base, 1000)
    coding = Coding.of(base, 4)
    assert coding.planes is not None
    for weights in (None, np.arange(1000.0) % 5):
        by_bits = _sums.block_sums(codes, weights, coding, 4)
        by_blas = _sums.block_sums(codes, weights, replace(coding, planes=None), 4)
        for a, b in zip(by_bits.sums, by_blas.sums):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b).max())
        if coding.tables.dtype.kind == "i" and weights is None:
            assert by_bits.equals(by_blas)


@pytest.mark.parametrize("name", SPACES)
def test_planes_and_tables_say_the_same(name, monkeypatch):
    monkeypatch.setattr(integer_coding, "_MAX_CONJUNCTIONS", 10**6)
    base = base_space(Space.of(SPACES[name], len(SPACES[name]), 3))
    coding = Coding.of(base, 3)
    planes = coding.planes
    for c, i in enumerate(base.site):
        q, n_planes = base.sizes[i], planes.ptr[i + 1] - planes.ptr[i]
        bits_of = planes.patterns[i, :q].astype(int)[:, None] >> np.arange(n_planes) & 1
        np.testing.assert_array_equal(bits_of @ planes.weights[c, :n_planes], coding.tables[c, :q])
        function = base.functions[i][:, c - base.column_ptr[i]]
        values = coding.shift[c] + coding.scale[c] * coding.tables[c, :q]
        np.testing.assert_allclose(values, function, rtol=1e-14, atol=1e-14 * np.abs(function).max())


@pytest.mark.parametrize("name", ["numbers", "labels", "everything"])
def test_raw_moments_of_columns_and_terms(name):
    space = Space.of(SPACES[name], len(SPACES[name]), 2)
    codes = draw(space)
    stats, Phi = moments_of(codes, space, powers=2), space.columns(codes)
    columns = all_terms(3, space)
    expected = [np.prod(Phi[:, list(mu)], axis=1).mean() for mu in columns]
    np.testing.assert_allclose(stats.moments(columns), expected, rtol=1e-11, atol=1e-11)
    for k in (1, 2, 3, 4):
        rows = np.array(list(product(range(4), repeat=k)))
        expected = [np.prod(Phi[:, row], axis=1).mean() for row in rows]
        np.testing.assert_allclose(stats.raw(rows), expected, rtol=1e-11, atol=1e-11)


def test_terms_by_name_with_powers_and_labels():
    space = Space.of([(1, 2, 3, 4, 5), THREE, (0, 1)], 3, 2)
    codes = draw(space)
    frame = pd.DataFrame({"x": codes[:, 0] + 1, "l": np.array(["a", "b", "c"])[codes[:, 1]], "y": codes[:, 2]})
    stats = Moments.from_samples(frame, 3, powers=2)
    assert stats.space == space
    x, y = frame["x"].to_numpy(), frame["y"].to_numpy()
    np.testing.assert_allclose(stats.moments([("x", "x", "y")]), (x**2 * y).mean(), rtol=1e-13)
    np.testing.assert_allclose(stats.moments([(0, 2)]), (x * y).mean(), rtol=1e-13)
    found = stats.moments([("l", "y")])
    C = space.functions[1][codes[:, 1]]
    np.testing.assert_allclose(found, (C * y[:, None]).mean(axis=0), rtol=1e-12)
    with pytest.raises(ValueError, match="nominal, and labels have no powers"):
        stats.moments([("l", "l", "y")])
    with pytest.raises(ValueError, match="interactions among 3 columns, moments of 5"):
        stats.moments(Interactions.upto(2, 3))


def test_whole_numbers_are_rounded_once():
    """Integers of different scale: raw moments are the exact rational numbers, rounded."""
    space = Space.of([(0, 2, 4), (1, 2, 3, 4, 5), (-1, 1), (0, 10, 15)], 4, 2)
    codes = draw(space, 1003)
    stats, X = moments_of(codes, space, 3, powers=2), space.columns(codes).astype(int)
    assert stats.power_sums.is_whole
    rows = np.array(list(product(range(space.n_columns), repeat=3)))
    exact = [int(np.prod(X[:, row].astype(object), axis=1).sum()) / 1003 for row in rows]
    np.testing.assert_array_equal(stats.raw(rows), exact)


def test_two_labels_are_a_spin():
    codes = draw(Space.of([(-1, 1)] * 4, 4))
    spins = Moments.from_samples(2 * codes.astype(int) - 1, 4)
    labels = Moments.from_samples(np.array(["off", "on"])[codes], 4)
    assert labels.space.alphabet == Alphabet(Nominal("off", "on"))
    for k in (1, 2, 3, 4):
        np.testing.assert_allclose(labels.cumulant(k), spins.cumulant(k), rtol=1e-12, atol=1e-13)


# ---------------------------------------------------------------------- merging


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from([name for name in SPACES if name != "not whole"]),
    cut=st.integers(1, 199),
    powers=st.integers(1, 2),
    order=st.integers(2, 4),
)
def test_merging_is_stacking_to_the_last_bit(name, cut, powers, order):
    space = Space.of(SPACES[name], len(SPACES[name]), powers)
    codes = draw(space)
    whole, a, b = (moments_of(part, space, order, powers=powers) for part in (codes, codes[:cut], codes[cut:]))
    if not whole.power_sums.is_whole:  # cubes of squares are beyond what is summed in integers
        assert name == "many values"
        return
    for merged in (a + b, b + a):
        assert merged == whole
        np.testing.assert_array_equal(merged.counts, whole.counts)
        for k in range(1, order + 1):
            np.testing.assert_array_equal(merged.cumulant(k), whole.cumulant(k))
    assert whole != a


@pytest.mark.parametrize("name", ["not whole", "everything"])
def test_merging_floats_is_stacking(name):
    space = Space.of(SPACES[name], len(SPACES[name]), 2)
    codes = draw(space)
    w = make_weights("floats", len(codes))
    a, b = (moments_of(codes[s], space, 4, w[s], 2) for s in (slice(0, 90), slice(90, None)))
    assert_close(a + b, direct(space.columns(codes), w), rtol=1e-10)
    np.testing.assert_allclose(space.flat((a + b).frequencies), space.flat(moments_of(codes, space, 2, w).frequencies))


def test_blocks_do_not_matter(monkeypatch):
    space = Space.of(SPACES["everything"], 5, 2)
    codes = draw(space, 1000)
    expected = moments_of(codes, space, 3, powers=2)
    for name in ("_BLOCK_OF_CODES", "_BLOCK_OF_VALUES"):
        monkeypatch.setattr(f"hbm_learn.data.collect.{name}", 5 * 64)
    assert moments_of(codes, space, 3, powers=2) == expected
    frame = pd.DataFrame(space.decode(codes)).infer_objects()
    pieces = (frame.iloc[lo : lo + 300] for lo in range(0, 1000, 300))
    assert Moments.from_samples(pieces, 3, list(space.alphabets), powers=2) == expected


def test_different_functions_cannot_be_merged():
    space = Space.of(SPACES["numbers"], 5)
    a, b = (moments_of(draw(space), space, 2, powers=powers) for powers in (1, 2))
    with pytest.raises(ValueError, match="different functions cannot be merged"):
        a + b
    other = moments_of(draw(space), Space.of([*SPACES["numbers"][:4], (-1, 0, 1, 2)], 5), 2)
    with pytest.raises(ValueError, match="different alphabet cannot be merged"):
        a + other


# ---------------------------------------------------------------------- other functions of the same span


def mixed_functions(space, seed=0):
    """Functions of the same span by random invertible matrices and constants."""
    rng = np.random.default_rng(seed)
    made = []
    for table in space.functions:
        r = table.shape[1]
        made.append(rng.normal(size=r) + table @ (rng.normal(size=(r, r)) + 2 * np.eye(r)))
    return Space(space.alphabets, made)


@pytest.mark.parametrize("weights", ["none", "floats"])
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("powers", [1, 2])
def test_moments_in_another_space(name, powers, weights):
    space = Space.of(SPACES[name], len(SPACES[name]), powers)
    codes = draw(space)
    w = make_weights(weights, len(codes))
    stats = moments_of(codes, space, 4, w, powers)
    spaces = [space.standard(stats.frequencies), space.standard(stats.frequencies, centred=False), space]
    for other in (*spaces, mixed_functions(space)):
        seen, Phi = stats.in_space(other), other.columns(codes)
        assert seen.space is other
        assert seen.n_samples == stats.n_samples
        assert_close(seen, direct(Phi, w), rtol=1e-9)
        p = np.ones(len(codes)) if w is None else w
        columns = Interactions.upto(3, other.n_columns)
        expected = [p @ np.prod(Phi[:, list(mu)], axis=1) / p.sum() for mu in columns]
        np.testing.assert_allclose(seen.moments(columns), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())
        np.testing.assert_array_equal(space.flat(seen.frequencies), space.flat(stats.frequencies))
    standard = stats.in_space(spaces[0])
    np.testing.assert_allclose(standard.mean, 0, atol=1e-10)
    own = standard.space.site[:, None] == standard.space.site
    np.testing.assert_allclose(standard.covariance[own], np.eye(len(own))[own], atol=1e-9)
    assert standard.in_space(space) == stats


def test_merging_in_another_space_is_merging():
    space = Space.of(SPACES["everything"], 5, 2)
    codes, other = draw(space), mixed_functions(space)
    a, b = (moments_of(codes[s], space, 3, powers=2) for s in (slice(0, 90), slice(90, None)))
    assert a.in_space(other) + b.in_space(other) == (a + b).in_space(other)
    assert_close(a.in_space(other) + b.in_space(other), direct(other.columns(codes)), rtol=1e-9)


def test_what_is_not_in_the_span_is_refused():
    space = Space.of(SPACES["numbers"], 5)
    stats = moments_of(draw(space), space, 2)
    with pytest.raises(ValueError, match="two gauges of one variable must"):
        stats.in_space(Space.of(SPACES["numbers"], 5, 2)).mean  # noqa: B018
    squares = [table[:, 1:] if table.shape[1] > 1 else table for table in Space.of(SPACES["numbers"], 5, 2).functions]
    with pytest.raises(ValueError, match="two gauges of one variable must span the same functions"):
        stats.in_space(Space(stats.space.alphabets, squares)).mean  # noqa: B018
    with pytest.raises(ValueError, match=r"cannot be read in .*the values differ"):
        stats.in_space(Space.of((0, 1), 5))


def test_a_rare_label_loses_no_digits():
    codes = np.zeros((100_000, 2), dtype=np.uint8)
    codes[:2], codes[2:50_000] = 2, 1
    space = Space.of([THREE, THREE], 2)
    stats = moments_of(codes, space, 4)
    indicator = Space(space.alphabets, [np.eye(3)[:, 1:]] * 2)
    p = 2e-5
    seen = stats.in_space(indicator)
    np.testing.assert_allclose(seen.covariance[np.ix_([1, 3], [1, 3])], p * (1 - p), rtol=1e-12)
    np.testing.assert_allclose(seen.cumulant(3)[1, 3, 3], p * (1 - p) * (1 - 2 * p), rtol=1e-12)


# ---------------------------------------------------------------------- given and exact moments


@pytest.mark.parametrize("name", ["numbers", "everything"])
def test_exact_moments_of_codes(name):
    space = Space.of(SPACES[name], len(SPACES[name]), 2)
    states = np.array(list(product(*map(range, space.sizes))), dtype=np.uint8)
    p = np.random.default_rng(0).random(len(states)) ** 3
    for gauge in (space, space.standard([np.full(q, 1 / q) for q in space.sizes])):
        stats = Moments.from_distribution(states, p, 3, space=gauge)
        assert stats.n_samples == np.inf
        assert_close(stats, direct(gauge.columns(states), p))
        np.testing.assert_allclose(space.flat(stats.frequencies).sum(), space.n_features)
    values = Moments.from_distribution(space.decode(states), p, 3, list(space.alphabets))
    assert_close(values, direct(values.space.columns(states), p))


@pytest.mark.parametrize("values", [(-1, 1), (0, 1, 3), (-1, 0, 2, 5), (0, 1, 2, 3, 4)])
def test_given_moments_determine_few_frequencies(values):
    space = Space.of(values, 3)
    codes = draw(space, 100)
    samples = Moments.from_samples(space.decode(codes), 4, values)
    given = Moments.from_cumulants(*(samples.cumulant(k) for k in (1, 2, 3, 4)), alphabet=values)
    np.testing.assert_allclose(space.flat(given.frequencies), space.flat(samples.frequencies), rtol=1e-9)
    pairs = Moments.from_cumulants(samples.mean, samples.covariance, alphabet=values)
    if len(values) <= 3:
        np.testing.assert_allclose(space.flat(pairs.frequencies), space.flat(samples.frequencies), rtol=1e-9)
    else:
        with pytest.raises(ValueError, match=r"frequencies of the values are not known.*up to 3 values"):
            pairs.frequencies  # noqa: B018


def test_given_moments_are_of_numbers():
    with pytest.raises(ValueError, match="moments given as arrays are of numbers"):
        Moments.from_raw(np.zeros(2), np.eye(2), alphabet=THREE)


def test_intervals_beside_lists():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.random(300) * 2 - 1, rng.integers(0, 2, 300), rng.integers(1, 6, 300)])
    X[:, 0] += 0.3 * X[:, 1] * (1 - X[:, 0])
    stats = Moments.from_samples(X, 4, {0: Interval(-1, 2)})
    assert [a.kind for a in stats.space.alphabets] == ["interval", "finite", "finite"]
    assert_close(stats, direct(X))
    with pytest.raises(ValueError, match="continuous variables"):
        stats.frequencies  # noqa: B018
    samples = Samples.check(X, {0: Interval(-1, 2)})
    np.testing.assert_array_equal(np.concatenate([b for b, _ in samples.values_blocks()]), X)


# ---------------------------------------------------------------------- kernels and their twins


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_mapped_sums_against_their_twin(dtype):
    rng = np.random.default_rng(0)
    Y = rng.integers(-3, 5, size=(60, 6)).astype(dtype)
    first = np.array([0, 1, 1, 3, 3])
    weights = np.array([[2, 0, 0], [1, -1, 0], [3, 2, 0], [1, 1, 1], [0, 2, -1]]).astype(dtype)
    Z = np.column_stack([Y[:, f : f + 3][:, : min(3, 6 - f)] @ w[: min(3, 6 - f)] for f, w in zip(first, weights)])

    def sums(values):
        n = values.shape[1]
        return [
            np.array([np.prod(values[:, row], axis=1).sum() for row in symmetric.multisets(n, k)]) for k in (1, 2, 3, 4)
        ]

    for found, twin in zip(symmetric.mapped(sums(Y), first, weights), sums(Z)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, twin)
    scale = np.array([2, -1, 3, 1, 5, 4]).astype(dtype)
    for found, twin in zip(symmetric.scaled(sums(Y), scale), sums(scale * Y)):
        np.testing.assert_array_equal(found, twin)


def test_value_counts_against_their_twin():
    space = Space.of(SPACES["everything"], 5)
    codes = draw(space, 5000)
    codes[::7, 2] = 255
    w = np.random.default_rng(0).random(5000)
    for weights in (None, w):
        found = _sums.value_counts([(codes[:3000], None if weights is None else w[:3000]),
                                    (codes[3000:], None if weights is None else w[3000:])], space)  # fmt: skip
        ones = np.ones(5000) if weights is None else weights
        twin = [np.bincount(codes[:, i], ones, 256)[:q] for i, q in enumerate(space.sizes)]
        np.testing.assert_allclose(found, np.concatenate(twin), rtol=1e-12)
    assert _sums.value_counts([(codes, None)], space).dtype == np.int64


def test_columns_of_terms_are_what_moments_lists():
    space = Space.of(SPACES["everything"], 5, 2)
    stats = moments_of(draw(space), space, 3, powers=2)
    terms = [(0, 1), (0, 2, 2), (1, 4)]
    np.testing.assert_array_equal(stats.moments(terms), stats.moments(columns_of(terms, space)))
