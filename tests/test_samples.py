"""Samples: every container gives the same blocks; bad input is named."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import hbm_learn.data.samples as samples_module
from hbm_learn import Alphabet, Interval
from hbm_learn.data.samples import MISSING, Samples, encode


def table(values, n_samples=200, n_features=5, seed=0):
    X = np.random.default_rng(seed).choice(np.asarray(values), size=(n_samples, n_features))
    X.ravel()[: len(values)] = values  # every value occurs
    return X


def stacked(blocks):
    return np.concatenate([block for block, _ in blocks])


def containers(X, tmp_path):
    """Name → the same table in another container."""
    path = tmp_path / "X.npy"
    np.save(path, X)
    names = [f"v{i}" for i in range(X.shape[1])]
    made = {
        "list": X.tolist(),
        "F order": np.asfortranarray(X),
        "strided": np.repeat(X, 2, axis=0)[::2],
        "frame": pd.DataFrame(X, columns=names),
        "memmap": np.load(path, mmap_mode="r"),
        "blocks": [X[:30], X[30:31], X[31:]],
        "mixed blocks": [X[:30].astype(float), X[30:]],
    }
    for layout in ("csr", "csc", "coo", "lil", "dok"):
        made[layout] = scipy.sparse.coo_matrix(X).asformat(layout)
    made["csr_array"] = scipy.sparse.csr_array(X)
    return made


DTYPES = [np.int8, np.uint8, np.int32, np.int64, np.float32, np.float64, bool]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("values", [(0, 1), (-1, 1), (-1, 0, 1), (0, 1, 2, 5), tuple(range(16))])
def test_codes_are_positions_in_the_alphabet(values, dtype):
    if np.dtype(dtype) == bool:
        values = (0, 1)
    if np.dtype(dtype).kind == "u" and min(values) < 0:
        values = tuple(x - min(values) for x in values)
    X = table(values).astype(dtype)
    samples = Samples.check(X)
    assert samples.alphabet == Alphabet(values)
    assert (samples.n_samples, samples.n_features) == X.shape
    codes = stacked(samples.blocks())
    assert codes.dtype == np.uint8
    np.testing.assert_array_equal(codes, np.searchsorted(values, X))
    np.testing.assert_array_equal(stacked(samples.values_blocks()), X)


@pytest.mark.parametrize("values", [(0, 1), (-1, 0, 1), (0.25, 1.5, -2.0)])
def test_every_container_gives_the_same_codes(values, tmp_path):
    X = table(values)
    expected = stacked(Samples.check(X).blocks())
    for name, container in containers(X, tmp_path).items():
        if 0 not in values and name in ("csr", "csc", "coo", "lil", "dok", "csr_array"):
            continue
        samples = Samples.check(container)
        assert samples.alphabet == Alphabet(values), name
        np.testing.assert_array_equal(stacked(samples.blocks()), expected, err_msg=name)


def test_dask_arrays_are_read_block_by_block():
    da = pytest.importorskip("dask.array")
    X = table((-1, 0, 1), 1000, 7)
    lazy = da.from_array(X, chunks=(300, 3))
    samples = Samples.check(lazy)
    np.testing.assert_array_equal(stacked(samples.values_blocks(np.int64, max_rows=128)), X)
    with pytest.raises(ValueError, match=r"compute_chunk_sizes"):
        Samples.check(lazy[lazy[:, 0] > 0])
    with pytest.raises(ValueError, match=r"Expected 2D array, got 1D"):
        Samples.check(lazy[:, 0])
    with pytest.raises(ValueError, match=r"0 sample"):
        Samples.check(lazy[:0])
    with pytest.raises(ValueError, match=r"dtype complex128"):
        Samples.check(lazy.astype(complex))


class Lazy:
    """What dask offers of an array, without dask."""

    def __init__(self, X, chunks):
        self.X, self.chunks, self.shape, self.ndim, self.dtype = X, chunks, X.shape, X.ndim, X.dtype
        self.reads = []

    def __dask_graph__(self):
        return {}

    def __getitem__(self, rows):
        self.reads.append((rows.start, rows.stop))
        return type("Part", (), {"compute": lambda part: self.X[rows]})()


def test_duck_typed_dask_reads_each_chunk_once():
    X = table((-1, 0, 1), 1000, 7)
    lazy = Lazy(X, ((300, 300, 400), (7,)))
    samples = Samples.check(lazy)
    assert lazy.reads == [(0, 300), (300, 600), (600, 1000)]
    np.testing.assert_array_equal(stacked(samples.values_blocks(np.int64, max_rows=128)), X)


def test_codes_that_are_not_kept_are_encoded_anew(monkeypatch):
    X = table((3, 1, 2), 500, 4)
    kept = Samples.check(X)
    monkeypatch.setattr(samples_module, "_MAX_KEPT_BYTES", 0)
    again = Samples.check(X)
    assert again._codes is None
    assert kept._codes is not None
    np.testing.assert_array_equal(stacked(again.blocks(max_rows=33)), stacked(kept.blocks()))


def test_a_memory_map_is_never_loaded_whole(monkeypatch, tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float64, shape=(400_000, 20))
    X[::2] = 1.0
    monkeypatch.setattr(samples_module, "_MAX_KEPT_BYTES", 0)
    tracemalloc.start()
    try:
        total = sum(int(block.sum()) for block, _ in Samples.check(X).blocks(max_rows=4096))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert total == X.size // 2
    assert peak < X.nbytes / 8


@pytest.mark.parametrize("max_rows", [1, 7, 64, 10_000])
def test_blocks_are_contiguous_bounded_and_carry_their_weights(max_rows):
    X, weights = table((0, 1, 2), 150, 3), np.arange(150.0)
    for spec in ("auto", "real"):
        samples = Samples.check(X, spec, weights)
        blocks = list(samples.blocks(max_rows))
        assert all(block.flags.c_contiguous and len(block) <= max_rows for block, _ in blocks)
        assert {block.dtype for block, _ in blocks} == {np.dtype(np.uint8 if spec == "auto" else np.float64)}
        np.testing.assert_array_equal(np.concatenate([w for _, w in blocks]), weights)
        np.testing.assert_array_equal(stacked(samples.values_blocks(np.float32, max_rows)), X.astype(np.float32))


def test_values_found_late_and_out_of_order_are_sorted():
    X = np.zeros((60_000, 3), dtype=int)
    X[40_000, 1], X[50_000, 2], X[59_999, 0] = 7, -4, 2
    samples = Samples.check(X)
    assert samples.alphabet == Alphabet((-4, 0, 2, 7))
    np.testing.assert_array_equal(stacked(samples.values_blocks(int)), X)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-1000, 1000) | st.floats(-10, 10, width=32), min_size=1, max_size=16, unique=True),
    st.sampled_from([np.float32, np.float64]),
)
def test_encode_agrees_with_its_numpy_twin(letters, dtype):
    letters = np.unique(np.asarray(letters, dtype=dtype)).tolist()
    pool = np.asarray([*letters, 4321.0, np.nan], dtype=dtype)
    rows = np.random.default_rng(len(letters)).choice(pool, size=(50, 4))
    twin = np.full(rows.shape, MISSING)
    for position, letter in enumerate(letters):
        twin[rows == dtype(letter)] = position
    np.testing.assert_array_equal(encode(rows, letters), twin)


# ---------------------------------------------------------------------- alphabets


def test_auto_is_finite_to_sixteen_values_and_real_beyond():
    assert Samples.check(table(np.arange(16))).alphabet.size == 16
    assert Samples.check(table(np.arange(17))).alphabet.kind == "real"
    X = np.random.default_rng(0).normal(size=(30, 2))
    samples = Samples.check(X, order=2)
    assert samples.alphabet.kind == "real"
    np.testing.assert_array_equal(stacked(samples.blocks()), X)
    with pytest.raises(ValueError, match=r"more than 16 distinct values.*order=3.*use order=2"):
        Samples.check(X, order=3)
    with pytest.raises(ValueError, match=r'^alphabet="real" takes pair interactions only \(order=4'):
        Samples.check(X, "real", order=4)


def test_booleans_are_zero_and_one_even_when_one_is_never_seen():
    samples = Samples.check(np.ones((5, 2), dtype=bool))
    assert samples.alphabet == Alphabet((0, 1))
    assert stacked(samples.blocks()).all()
    frame = Samples.check(pd.DataFrame({"a": [True, False], "b": [3, 2]}))
    assert frame.alphabet == Alphabet((0, 1, 2, 3))
    assert frame.feature_names == ["a", "b"]


def test_given_alphabets_are_used():
    X = table((0, 1))
    assert Samples.check(X, (0, 1, 2)).alphabet.size == 3
    assert Samples.check(X, Alphabet((1, 0))).alphabet == Alphabet((0, 1))
    samples = Samples.check(X, Interval(0, 1))
    np.testing.assert_array_equal(stacked(samples.blocks()), X.astype(float))
    with pytest.raises(ValueError, match="300 values: at most 255"):
        Samples.check(X, range(300))


def test_names_are_kept_only_if_they_are_strings():
    X = table((0, 1), 10, 2)
    assert Samples.check(pd.DataFrame(X, columns=["a", "b"])).feature_names == ["a", "b"]
    assert Samples.check(pd.DataFrame(X)).feature_names is None
    assert Samples.check(X).feature_names is None


# ---------------------------------------------------------------------- bad input


@pytest.mark.parametrize("alphabet", [(0, 1), Interval(0, 1)])
def test_a_value_outside_the_alphabet_is_named(alphabet):
    X = table((0, 1), 5000, 4)
    X[4321, 2] = 7
    with pytest.raises(ValueError, match=r"value 7 at row 4321, column 2, outside the alphabet .*alphabet=…"):
        Samples.check(X, alphabet)
    with pytest.raises(ValueError, match=r"value 7 at row 4321, column 'c'"):
        Samples.check(pd.DataFrame(X, columns=list("abcd")), alphabet)
    with pytest.raises(ValueError, match=r"row 5321, column 2"):
        Samples.check(X, alphabet, first_row=1000)


@pytest.mark.parametrize("alphabet", ["auto", (0, 1), "real", Interval(0, 1)])
def test_nan_and_infinity_are_named(alphabet):
    X = table((0.0, 1.0), 100, 4)
    X[17, 3] = np.nan
    with pytest.raises(ValueError, match=r"Input X contains NaN \(row 17, column 3\)"):
        Samples.check(X, alphabet)
    samples = Samples.check(X, alphabet, allow_nan=True)
    np.testing.assert_array_equal(stacked(samples.values_blocks()), X)
    if samples.alphabet.is_finite:
        assert stacked(samples.blocks())[17, 3] == MISSING
    for value in (np.inf, -np.inf):
        X[17, 3] = value
        for allow_nan in (False, True):
            with pytest.raises(ValueError, match=r"Input X contains infinity \(row 17, column 3\)"):
                Samples.check(X, alphabet, allow_nan=allow_nan)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((4, 2)), r"the single value 1.*alphabet=…"),
        ([1, 0, 1], "Expected 2D array, got 1D array"),
        (np.zeros((2, 2, 2)), "dim 3"),
        (np.zeros((0, 3)), r"0 sample\(s\)"),
        (np.zeros((3, 0)), r"0 feature\(s\)"),
        ([["a", "b"], ["c", "d"]], "could not convert string to float|numeric"),
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
        (pd.DataFrame({"a": [0, 1], "b": ["x", "y"]}), r"column 'b'\): encode it as numbers"),
        ([np.zeros((2, 2)), np.zeros((2, 3))], "block 1 of X has other columns"),
    ],
)
def test_bad_tables(X, message):
    with pytest.raises(ValueError, match=message):
        Samples.check(X)


def test_only_nan_is_refused():
    with pytest.raises(ValueError, match="no value but NaN"):
        Samples.check(np.full((3, 2), np.nan), allow_nan=True)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(9), r"shape \(9,\); expected \(10,\)"),
        (np.ones((10, 1)), r"shape \(10, 1\)"),
        (np.zeros(10), "zero for every row"),
        (np.r_[np.ones(9), -1], r"sample_weight\[9\] = -1.0"),
        (np.r_[np.ones(9), np.nan], r"sample_weight\[9\] = nan"),
        (["a"] * 10, "vector of real numbers"),
    ],
)
def test_bad_weights(weights, message):
    with pytest.raises(ValueError, match=message):
        Samples.check(table((0, 1), 10, 2), sample_weight=weights)


def test_weights_are_copied_frozen_and_replaceable():
    given = np.arange(10)
    samples = Samples.check(table((0, 1), 10, 2), sample_weight=given)
    assert samples.weights.dtype == np.float64
    assert not samples.weights.flags.writeable
    again = samples.reweighted(given[::-1])
    np.testing.assert_array_equal(again.weights, given[::-1])
    np.testing.assert_array_equal(stacked(again.blocks()), stacked(samples.blocks()))
    assert repr(samples) == "Samples(n_samples=10, n_features=2, Alphabet((0, 1)))"
