"""Moments against the formulas written out, on every alphabet, container and weight."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError, replace
from itertools import combinations_with_replacement, pairwise, permutations, product

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import distribution

import hbm_learn.data.moments as moments_module
import hbm_learn.data.scan as scan_module
from hbm_learn import BoltzmannMachine, Interactions, Interval, Moments
from hbm_learn._kernels import bits, packing, symmetric
from hbm_learn.data import sums as _sums
from hbm_learn.data.integer_coding import Coding
from hbm_learn.data.samples import Samples
from hbm_learn.space import Alphabet, Space

ALPHABETS = {
    "bit": (0, 1),
    "spin": (-1, 1),
    "two": (-0.3, 1.7),
    "ternary": (-1, 0, 1),
    "three": (0, 1, 5),
    "three floats": (0.3, 0.7, 2.0),
    "quaternary": (0, 1, 2, 3),
    "four": (-3, 1.5, 2, 7),
    "spaced": (0.1, 0.2, 0.3, 0.4, 0.5),
    "ten": tuple(range(10)),
    "squares": tuple(int(x) for x in np.arange(16) ** 2),
    "interval": Interval(-1.0, 2.0),
}
WEIGHTS = ("none", "ones", "counts", "classes", "floats")


def draw(alphabet, n_samples, n_features, seed=0):
    """Correlated, skewed samples, so that no cumulant vanishes by symmetry."""
    rng = np.random.default_rng(seed)
    common = rng.random((n_samples, 1)) ** 2
    u = 0.5 * common + 0.5 * rng.random((n_samples, n_features)) ** 1.5
    if isinstance(alphabet, Interval):
        return alphabet.low + (alphabet.high - alphabet.low) * u
    values = np.asarray(alphabet)
    return values[(u * len(values)).astype(int)]


def make_weights(kind, n_samples, seed=1):
    rng = np.random.default_rng(seed)
    return {
        "none": None,
        "ones": np.ones(n_samples),
        "counts": rng.integers(0, 7, n_samples),
        "classes": rng.choice([0.25, 1.75, 0.0], n_samples),
        "floats": rng.random(n_samples),
    }[kind]


def direct(X, weights=None):
    """mean, ⟨x²⟩, C, κ₃, κ₄ by their definitions."""
    p = np.full(len(X), 1 / len(X)) if weights is None else weights / np.sum(weights)
    mean = p @ X
    d = X - mean
    C = np.einsum("s,si,sj->ij", p, d, d)
    third = np.einsum("s,si,sj,sk->ijk", p, d, d, d)
    fourth = np.einsum("s,si,sj,sk,sl->ijkl", p, d, d, d, d, optimize=True)
    for pairing in ("ij,kl->ijkl", "ik,jl->ijkl", "il,jk->ijkl"):
        fourth -= np.einsum(pairing, C, C)
    return mean, p @ X**2, C, third, fourth


def assert_close(stats, expected, rtol=1e-11):
    found = [stats.mean, stats.second, *(stats.cumulant(k) for k in range(2, stats.order + 1))]
    for a, b in zip(found, expected):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * np.abs(b).max())


# ---------------------------------------------------------------------- against the definitions


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", ALPHABETS)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_moments_are_those_of_the_definitions(name, weights, order):
    X = draw(ALPHABETS[name], 333, 5)
    w = make_weights(weights, len(X))
    stats = Moments.from_samples(X, order, ALPHABETS[name], w)
    assert_close(stats, direct(X, w))
    assert stats.n_samples == pytest.approx(len(X) if w is None else w.sum())
    assert (stats.order, stats.n_features, stats.alphabet) == (order, 5, Alphabet(ALPHABETS[name]))


def test_the_check_above_can_fail():
    X = draw((0, 1, 5), 333, 5)
    expected = direct(X)
    stats = Moments.from_samples(np.r_[X[1:], X[:1] * 0], 4)
    with pytest.raises(AssertionError):
        assert_close(stats, expected)


@pytest.mark.parametrize("name", ["bit", "spin", "ternary", "three", "four", "ten", "interval"])
def test_raw_moments_of_interactions_and_repeats(name):
    X = draw(ALPHABETS[name], 200, 6).astype(float)
    stats = Moments.from_samples(X, 4, ALPHABETS[name])
    interactions = Interactions.upto(4, 6)
    expected = [np.prod(X[:, mu], axis=1).mean() for mu in interactions]
    np.testing.assert_allclose(stats.moments(interactions), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(stats.moments([(4, 1), (0, 1, 2)]), stats.moments([(1, 4), (2, 1, 0)]))
    assert stats.moments([]).shape == (0,)
    for k in (1, 2, 3, 4):
        rows = np.array(list(product(range(3), repeat=k)))
        expected = [np.prod(X[:, row], axis=1).mean() for row in rows]
        np.testing.assert_allclose(stats.raw(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("values", [(-1, 1), (-1, 0, 1), (0, 1, 5), tuple(range(200))])
def test_raw_moments_of_integers_are_rounded_once(values):
    X = draw(values, 1003, 4)
    stats = Moments.from_samples(X, 3, values)
    rows = np.array(list(combinations_with_replacement(range(4), 3)))
    exact = [int(np.prod(X[:, row].astype(object), axis=1).sum()) / 1003 for row in rows]
    np.testing.assert_array_equal(stats.raw(rows), exact)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.float32, np.float64, bool])
def test_dtypes_do_not_matter(dtype):
    X = draw((0, 1), 300, 6)
    assert Moments.from_samples(X.astype(dtype)) == Moments.from_samples(X)


def test_containers_do_not_matter(tmp_path):
    X = draw((-1, 0, 1), 300, 6)
    expected = Moments.from_samples(X)
    np.save(tmp_path / "X.npy", X)
    containers = {
        "frame": pd.DataFrame(X),
        "csr": scipy.sparse.csr_matrix(X),
        "csc": scipy.sparse.csc_matrix(X),
        "memmap": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "list of blocks": [X[:100], X[100:]],
        "generator": (X[lo : lo + 77] for lo in range(0, 300, 77)),
        "samples": Samples.check(X),
    }
    for name, container in containers.items():
        assert Moments.from_samples(container) == expected, name
    named = Moments.from_samples(pd.DataFrame(X, columns=list("abcdef")))
    assert named.feature_names == list("abcdef")
    assert named.moments([("b", "a")])[0] == expected.moments([(0, 1)])[0]
    da = pytest.importorskip("dask.array")
    assert Moments.from_samples(da.from_array(X, chunks=(100, 4))) == expected


@pytest.mark.parametrize("block", [64, 100, 10_000])
@pytest.mark.parametrize("name", ["bit", "ternary", "squares"])
def test_blocks_do_not_matter(name, block, monkeypatch):
    X = draw(ALPHABETS[name], 1000, 7)
    expected = Moments.from_samples(X, 3, ALPHABETS[name])
    monkeypatch.setattr("hbm_learn.data.collect._BLOCK_OF_CODES", 7 * block)
    monkeypatch.setattr(scan_module, "MAX_KEPT_BYTES", 0)
    monkeypatch.setattr(_sums, "_BLAS_ENTRIES", 2000)
    monkeypatch.setattr(_sums, "_WIDTH", 3)
    assert Moments.from_samples(X, 3, ALPHABETS[name]) == expected


@pytest.mark.parametrize("n_samples", [1, 63, 64, 65, 128, 129])
def test_partial_words(n_samples):
    X = draw((0, 1, 2), n_samples, 4)
    assert_close(Moments.from_samples(X, 4, (0, 1, 2)), direct(X))


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_few_features(n_features):
    X = draw((0, 1, 3), 50, n_features)
    stats = Moments.from_samples(X, 4)
    assert_close(stats, direct(X))
    assert stats.moments(Interactions.upto(4, n_features)).shape == (2**n_features - n_features - 1,)


def test_order_one_still_has_the_covariance():
    X = draw((0, 1, 3), 50, 4)
    stats = Moments.from_samples(X, 1)
    assert stats.order == 1
    np.testing.assert_allclose(stats.covariance, np.cov(X.T, bias=True), rtol=1e-12)


# ---------------------------------------------------------------------- weights, merges, symmetries


@settings(max_examples=30, deadline=None)
@given(
    name=st.sampled_from(sorted(set(ALPHABETS) - {"interval", "three floats", "four"})),
    cut=st.integers(1, 149),
    order=st.integers(2, 4),
    seed=st.integers(0, 1000),
)
def test_merging_is_stacking_to_the_last_bit(name, cut, order, seed):
    X = draw(ALPHABETS[name], 150, 4, seed)
    whole, a, b = (Moments.from_samples(part, order, ALPHABETS[name]) for part in (X, X[:cut], X[cut:]))
    for merged in (a + b, b + a):
        assert merged == whole
        assert merged.power_sums.is_whole
        assert merged.n_samples == 150
        for k in range(1, order + 1):
            np.testing.assert_array_equal(merged.cumulant(k), whole.cumulant(k))
    assert whole != a


@pytest.mark.parametrize("name", ["interval", "four"])
def test_merging_floats_is_stacking(name):
    X, w = draw(ALPHABETS[name], 300, 4), make_weights("floats", 300)
    parts = [Moments.from_samples(X[s], 4, ALPHABETS[name], w[s]) for s in (slice(0, 90), slice(90, None))]
    assert_close(parts[0] + parts[1], direct(X, w))


@pytest.mark.parametrize("weights", ["none", "floats"])
def test_real_data_far_from_zero(weights):
    rng = np.random.default_rng(3)
    X = 1e6 + rng.normal(size=(500, 3)) @ rng.normal(size=(3, 3)) + 5 * (np.arange(500) > 100)[:, None]
    w = make_weights(weights, 500)
    whole = Moments.from_samples(X, 2, sample_weight=w)
    merged = sum(
        (Moments.from_samples(X[lo : lo + 50], 2, "real", None if w is None else w[lo : lo + 50]) for lo in (50, 100)),
        Moments.from_samples(X[:50], 2, "real", None if w is None else w[:50]),
    )
    merged = merged + Moments.from_samples(X[150:], 2, "real", None if w is None else w[150:])
    for stats in (whole, merged):
        assert stats.alphabet.kind == "real"
        # What remains is the rounding of X itself: 1e6 · 2⁻⁵² against a spread of order one.
        assert_close(stats, direct(X, w), rtol=1e-9)


@pytest.mark.parametrize("weight", [2, 12])
def test_weights_without_a_bit_are_counts_too(weight):
    """Whole-number weights are taken bit by bit: here no row has the first."""
    X = np.random.default_rng(4).choice([-1, 1], (90, 3))
    weighted = Moments.from_samples(X, 2, sample_weight=np.full(90, weight))
    repeated = Moments.from_samples(np.repeat(X, weight, axis=0), 2)
    assert weighted.n_samples == repeated.n_samples == 90 * weight
    np.testing.assert_allclose(weighted.covariance, repeated.covariance, atol=1e-12)


def test_whole_numbers_merge_exactly_on_the_real_line_too():
    X = np.random.default_rng(0).integers(0, 100, size=(400, 3)) + 1000
    whole, a, b = (Moments.from_samples(part, 2) for part in (X, X[:150], X[150:].astype(float)))
    assert a + b == whole
    assert whole.power_sums.is_whole
    assert_close(whole, direct(X))
    mixed = a + Moments.from_samples(X[150:] + 0.5, 2)
    assert_close(mixed, direct(np.r_[X[:150], X[150:] + 0.5]))


@pytest.mark.parametrize("name", ALPHABETS)
def test_weights_are_repeated_rows(name):
    X = draw(ALPHABETS[name], 120, 4)
    counts = np.random.default_rng(5).integers(0, 4, 120)
    weighted = Moments.from_samples(X, 4, ALPHABETS[name], counts)
    repeated = Moments.from_samples(np.repeat(X, counts, axis=0), 4, ALPHABETS[name])
    assert weighted.n_samples == repeated.n_samples
    for k in range(1, 5):
        np.testing.assert_allclose(weighted.cumulant(k), repeated.cumulant(k), rtol=1e-12, atol=1e-12)


def test_rows_without_weight_do_not_count():
    X = draw((0, 1), 200, 4)
    weights = np.r_[np.zeros(100), np.ones(100)]
    for parts in (X, (X[lo : lo + 50] for lo in range(0, 200, 50))):
        stats = Moments.from_samples(parts, 3, (0, 1), weights)
        assert_close(stats, direct(X[100:]))
    real = X + np.random.default_rng(0).normal(size=X.shape)
    assert_close(Moments.from_samples(real, 2, sample_weight=weights), direct(real[100:]))


def test_permuting_features_permutes_everything():
    X = draw((-1, 0, 1), 400, 5)
    order = np.array([3, 0, 4, 1, 2])
    a, b = Moments.from_samples(X, 4), Moments.from_samples(X[:, order], 4)
    for k in (1, 2, 3, 4):
        np.testing.assert_allclose(a.cumulant(k)[np.ix_(*[order] * k)], b.cumulant(k), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["bit", "ternary", "three", "ten"])
def test_cumulants_are_affine_covariant(name):
    X = draw(ALPHABETS[name], 300, 4)
    a = Moments.from_samples(X, 4, ALPHABETS[name])
    b = Moments.from_samples(3.0 - 2.5 * X, 4)
    np.testing.assert_allclose(b.mean, 3.0 - 2.5 * a.mean, rtol=1e-12)
    for k in (2, 3, 4):
        scaled = (-2.5) ** k * a.cumulant(k)
        np.testing.assert_allclose(b.cumulant(k), scaled, rtol=1e-10, atol=1e-12 * np.abs(scaled).max())


def test_a_rare_zero_loses_no_digits():
    """Nearly always 1: raw moments are near 1 and cumulants tiny, so that naive centring would cancel."""
    X = np.ones((100_000, 3), dtype=int)
    X[:2] = 0
    p = 2e-5
    stats = Moments.from_samples(X, 4)
    np.testing.assert_allclose(stats.covariance, p * (1 - p), rtol=1e-13)
    np.testing.assert_allclose(stats.cumulant(3), -p * (1 - p) * (1 - 2 * p), rtol=1e-13)
    np.testing.assert_allclose(stats.cumulant(4), p * (1 - p) * (1 - 6 * p * (1 - p)), rtol=1e-13)


# ---------------------------------------------------------------------- exact moments

MODEL = BoltzmannMachine([0.1, -0.3, 0.2], {(0, 1): 0.4, (0, 1, 2): -0.5}, d=0.3, alphabet=(-1, 0, 2))


@pytest.fixture
def exact():
    states, p, _ = distribution(MODEL)
    return states, p, Moments.from_distribution(states, p, 4, MODEL.alphabet)


def test_exact_moments_of_a_model(exact):
    states, p, stats = exact
    assert_close(stats, direct(states, p))
    assert stats.n_samples == np.inf


def test_moments_given_as_arrays(exact):
    states, p, stats = exact
    dense = [
        np.einsum("s," + ",".join("s" + i for i in ix) + "->" + ix, p, *[states] * len(ix))
        for ix in ("a", "ab", "abc", "abcd")
    ]
    cumulants = [stats.cumulant(k) for k in (1, 2, 3, 4)]
    rows = Interactions.upto(3, 3)
    for built in (
        Moments.from_raw(*dense, alphabet=MODEL.alphabet),
        Moments.from_cumulants(*cumulants, alphabet=MODEL.alphabet),
        Moments.from_cumulants(*cumulants, alphabet=MODEL.alphabet, n_samples=50, feature_names=["a", "b", "c"]),
    ):
        assert built.order == 4
        assert_close(built, direct(states, p))
        np.testing.assert_allclose(built.moments(rows), stats.moments(rows), rtol=1e-12, atol=1e-14)
    assert built.n_samples == 50
    assert Moments.from_cumulants(*cumulants[:2], alphabet="real").order == 2
    np.testing.assert_array_equal(Moments.from_cumulants(*cumulants, alphabet=MODEL.alphabet).covariance, cumulants[1])


def test_given_moments_merge_with_samples():
    X = draw((-1, 0, 2), 300, 3)
    mean, _, C, third, fourth = direct(X[:120])
    given = Moments.from_cumulants(mean, C, third, fourth, alphabet=(-1, 0, 2), n_samples=120)
    assert_close(given + Moments.from_samples(X[120:], 4, (-1, 0, 2)), direct(X))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ((np.zeros(2), np.zeros((3, 3))), r"order 2 have shape \(3, 3\); expected \(2, 2\)"),
        ((np.zeros(2), np.array([[1, 2], [3, 4]])), "order 2 are not symmetric"),
        ((np.array([0, np.nan]), np.eye(2)), r"order 1 are not finite at \(1,\)"),
    ],
)
def test_bad_arrays(arrays, message):
    for constructor in (Moments.from_raw, Moments.from_cumulants):
        with pytest.raises(ValueError, match=message):
            constructor(*arrays, alphabet=(0, 1))


def test_bad_number_of_samples():
    with pytest.raises(ValueError, match="n_samples=0"):
        Moments.from_raw(np.zeros(2), np.eye(2), alphabet=(0, 1), n_samples=0)


# ---------------------------------------------------------------------- immutability and messages


def test_moments_are_frozen():
    stats = Moments.from_samples(draw((0, 1), 50, 3))
    with pytest.raises(FrozenInstanceError):
        stats.order = 2
    sums = stats.power_sums
    for array in (stats.mean, stats.second, stats.covariance, *stats.frequencies, *sums.sums, sums.shift, sums.scale):
        assert not array.flags.writeable
    with pytest.raises(TypeError):
        hash(stats)
    assert repr(stats) == "Moments(n_features=3, n_samples=50, order=3, Alphabet((0, 1)))"
    assert pickle.loads(pickle.dumps(stats)) == stats
    assert (stats == 3) is False
    with pytest.raises(TypeError):
        stats + 3


def test_what_cannot_be_merged_is_refused():
    X = draw((0, 1), 50, 3)
    stats = Moments.from_samples(X)
    named = Moments.from_samples(pd.DataFrame(X, columns=["a", "b", "c"]))
    for other, message in (
        (Moments.from_samples(X[:, :2]), "different variables cannot be merged: 3 and 2"),
        (Moments.from_samples(X, 2), "different order cannot be merged: 3 and 2"),
        (Moments.from_samples(X, 3, (0, 1, 2)), r"different alphabet cannot be merged: Alphabet\(\(0, 1\)\) and"),
        (Moments.from_distribution(X, np.ones(50)), "exact moments .* cannot be merged"),
    ):
        with pytest.raises(ValueError, match=message):
            stats + other
    with pytest.raises(ValueError, match="column 1 is 'b' in one and 'z' in the other"):
        named + replace(named, feature_names=["a", "z", "c"])
    assert (stats + named).feature_names == ["a", "b", "c"]


@pytest.mark.parametrize("order", [0, 5, 2.5, "3"])
def test_bad_orders(order):
    with pytest.raises(ValueError, match=f"order={order!r}.*orders 1 to 4"):
        Moments.from_samples([[0, 1], [1, 0]], order)


def test_requests_beyond_what_is_held():
    X = np.random.default_rng(0).normal(size=(40, 3))
    with pytest.raises(ValueError, match=r"more than 16 distinct values.*use order=2"):
        Moments.from_samples(X)
    with pytest.raises(ValueError, match='alphabet="real" takes pair interactions only'):
        Moments.from_samples(Samples.check(X))
    with pytest.raises(ValueError, match="X is a Samples"):
        Moments.from_samples(Samples.check(X), 2, "real")
    stats = Moments.from_samples(X, 2)
    with pytest.raises(ValueError, match="order 3 was asked of moments up to order 2: compute them with order=3"):
        stats.cumulant(3)
    with pytest.raises(ValueError, match="order 3 was asked"):
        stats.moments([(0, 1, 2)])
    with pytest.raises(ValueError, match="interactions among 4 variables, moments of 3"):
        stats.moments(Interactions.upto(2, 4))


def test_memory_is_refused_with_its_size(monkeypatch):
    X = draw((0, 1), 20, 12)
    stats = Moments.from_samples(X, 4)
    monkeypatch.setattr(moments_module, "MAX_BYTES", 8 * 12**3)
    assert stats.cumulant(3).shape == (12, 12, 12)
    with pytest.raises(ValueError, match="dense cumulant of order 4 with n = 12 takes"):
        stats.cumulant(4)
    monkeypatch.setattr(moments_module, "MAX_BYTES", 800)
    with pytest.raises(ValueError, match=r"moments of order 3 of n = 12 variables take .*lower `order`"):
        Moments.from_samples(X, 3)


def test_iterators_of_blocks():
    X = draw((0, 1), 300, 4)

    def blocks(*edges):
        return (X[lo:hi] for lo, hi in pairwise(edges))

    weights = make_weights("floats", 300)
    assert_close(Moments.from_samples(blocks(0, 10, 200, 300), sample_weight=weights), direct(X, weights))
    with pytest.raises(ValueError, match="sample_weight has 250 entries, but the blocks of X have 200 rows"):
        Moments.from_samples(blocks(0, 100, 200), sample_weight=np.ones(250))
    with pytest.raises(ValueError, match=r"sample_weight has shape \(50,\); expected \(100,\)"):
        Moments.from_samples(blocks(0, 100, 200), sample_weight=np.ones(150))
    with pytest.raises(ValueError, match="gave no block"):
        Moments.from_samples(iter([]))
    X[250, 2] = 9
    with pytest.raises(ValueError, match=r"value 9 at row 250, column 2, outside the alphabet Alphabet\(\(0, 1\)\)"):
        Moments.from_samples(blocks(0, 100, 300))
    assert Moments.from_samples(blocks(0, 100, 300), alphabet=(0, 1, 9)) == Moments.from_samples(X, 3, (0, 1, 9))


# ---------------------------------------------------------------------- kernels and their twins


@pytest.mark.parametrize("m", [200, 64 * 32])
@pytest.mark.parametrize("n_planes", [1, 2, 3])
def test_pack_against_its_twin(n_planes, m):
    rng = np.random.default_rng(n_planes)
    q = 2**n_planes
    codes = rng.integers(0, q, size=(m, 5), dtype=np.uint8)
    digits = np.tile(np.arange(q, dtype=np.uint64), (5, 1))
    for patterns in (rng.permuted(digits, axis=1), digits):
        counts = np.array([n_planes, 1, n_planes, 1, 1])
        ptr = np.r_[0, np.cumsum(counts)]
        planes = np.full((2, ptr[-1] + 1, 16), 7, dtype=np.uint64)
        for edges in ((0, 8), (8, 24), (24, 32)):
            packing.pack(codes, patterns, ptr, planes, *edges)
        padded = np.zeros((64 * 32, 5), dtype=np.uint64)
        padded[:m] = patterns[np.arange(5), codes]
        words = planes.transpose(1, 0, 2).reshape(-1, 32)
        for i in range(5):
            for b in range(counts[i]):
                twin = np.packbits((padded[:, i] >> np.uint64(b) & np.uint64(1)).astype(np.uint8), bitorder="little")
                np.testing.assert_array_equal(words[ptr[i] + b], twin.view(np.uint64))
        np.testing.assert_array_equal(words[-1], 7)


def _planes_and_values(rng, n, weights, signed=False):
    """Two blocks of words, and the variables on their rows: with ``signed``, the second plane is part of the first."""
    words = rng.integers(0, 2**63, size=(2, n, len(weights), 8), dtype=np.uint64)
    if signed:
        words[:, :, 1] &= words[:, :, 0]
    planes = np.zeros((2, n * len(weights) + bits.PADDING, 8), dtype=np.uint64)
    planes[:, : n * len(weights)] = words.reshape(2, -1, 8)
    unpacked = np.unpackbits(words.view(np.uint8), axis=3, bitorder="little").astype(int)
    return planes, np.einsum("b,kibs->ksi", weights, unpacked).reshape(-1, n)


def _sums_of_products(Y, order):
    return [np.prod(Y[:, row], axis=1).sum() for row in symmetric.multisets(Y.shape[1], order)]


# Shapes with tiles that are cut off, and with more columns than are taken at once.
@pytest.mark.parametrize("small", [0, 2**24])
@pytest.mark.parametrize("weights", [np.array([1]), np.array([1, 2]), np.array([0.5, -1.25, 3.0])])
@pytest.mark.parametrize(("n", "order"), [(4, 1), (1, 2), (7, 2), (70, 2), (1, 3), (9, 3), (6, 4)])
def test_bit_sums_against_their_twin(monkeypatch, n, order, weights, small):
    monkeypatch.setattr(_sums, "_SMALL", small)  # parts and threads, or none
    planes, Y = _planes_and_values(np.random.default_rng(order), n, weights)
    found = _sums._bit_sum(planes, n, weights, order, signed=False)
    np.testing.assert_allclose(found, _sums_of_products(Y, order), rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("small", [0, 2**24])
@pytest.mark.parametrize(("n", "order"), [(4, 1), (1, 2), (7, 2), (37, 2), (1, 3), (9, 3), (6, 4)])
def test_signed_sums_against_their_twin(monkeypatch, n, order, small):
    monkeypatch.setattr(_sums, "_SMALL", small)
    planes, Y = _planes_and_values(np.random.default_rng(order), n, np.array([1, -2]), signed=True)
    assert set(np.unique(Y)) == {-1, 0, 1}
    found = _sums._bit_sum(planes, n, np.array([1, -2]), order, signed=True)
    np.testing.assert_array_equal(found, _sums_of_products(Y, order))


def test_blas_sums_against_their_twin():
    rng = np.random.default_rng(0)
    Y, w = rng.normal(size=(150, 4)), rng.random(150)
    for k, S in enumerate(_sums.blas_sums(Y, w, 4), start=1):
        twin = [(w * np.prod(Y[:, row], axis=1)).sum() for row in symmetric.multisets(4, k)]
        np.testing.assert_allclose(S, twin, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_packed_order(n, order):
    rows = symmetric.multisets(n, order)
    assert len(rows) == symmetric.packed_size(n, order)
    colexicographic = sorted(combinations_with_replacement(range(n), order), key=lambda row: row[::-1])
    np.testing.assert_array_equal(rows, colexicographic)
    np.testing.assert_array_equal(symmetric.rank(rows), np.arange(len(rows)))
    if order > 1:
        packed = np.random.default_rng(0).normal(size=len(rows))
        dense = {2: symmetric.expand2, 3: symmetric.expand3, 4: symmetric.expand4}[order](packed, n)
        for axes in permutations(range(order)):
            np.testing.assert_array_equal(dense[tuple(rows[:, axes].T)], packed)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_shifts_against_their_twin(dtype):
    rng = np.random.default_rng(0)
    Y = rng.integers(-5, 9, size=(60, 4)).astype(dtype)
    c = np.array([3, -2, 0, 7], dtype=dtype)

    def sums(values):
        return [
            np.array([np.prod(values[:, row], axis=1).sum() for row in symmetric.multisets(4, k)]) for k in (1, 2, 3, 4)
        ]

    for found, twin in zip(symmetric.shifted(dtype(60), sums(Y), c), sums(Y - c)):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, twin)


@pytest.mark.parametrize("name", ["bit", "spin", "ternary", "three", "four", "spaced", "ten"])
def test_planes_and_table_say_the_same(name):
    coding = Coding.of(Space.of(ALPHABETS[name], 3), 2)
    planes = coding.planes
    bits_of = planes.patterns[1].astype(int)[:, None] >> np.arange(len(planes.shared)) & 1
    np.testing.assert_array_equal(bits_of @ planes.shared, coding.tables[1])
    values = coding.shift[1] + coding.scale[1] * coding.tables[1]
    np.testing.assert_allclose(values, ALPHABETS[name], rtol=1e-15, atol=1e-15)


def test_both_paths_agree():
    codes = draw((0, 1, 2, 3), 20_000, 6).astype(np.uint8)  # enough rows to be divided among threads
    coding = Coding.of(Space.of((0, 1, 2, 3), 6), 4)
    by_bits = _sums.block_sums(codes, None, coding, 4)
    by_blas = _sums.block_sums(codes, None, replace(coding, planes=None), 4)
    assert by_bits.is_whole
    assert by_bits.equals(by_blas)


def test_samples_that_may_hold_nan_but_do_not_have_the_same_moments():
    X = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    assert Moments.from_samples(Samples.check(X, allow_nan=True)) == Moments.from_samples(X)
    gaps = Moments.from_samples(Samples.check([[0.0, 1.0], [np.nan, 0.0], [1.0, 1.0]], allow_nan=True))
    np.testing.assert_array_equal(gaps.mean, [0.5, 2 / 3])
