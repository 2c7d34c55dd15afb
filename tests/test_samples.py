"""Samples: every container gives the same blocks; bad input is named."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import hbm_learn.data.scan as scan_module
from hbm_learn import Interval
from hbm_learn.data.samples import Samples
from hbm_learn.data.scan import ColumnEncoder, encode
from hbm_learn.space import MISSING, Alphabet, Nominal, Space


def table(values, n_samples=200, n_features=5, seed=0):
    X = np.random.default_rng(seed).choice(np.asarray(values), size=(n_samples, n_features))
    for j in range(n_features):
        X[j : j + len(values), j] = values  # every value occurs in every column
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
    monkeypatch.setattr(scan_module, "MAX_KEPT_BYTES", 0)
    again = Samples.check(X)
    assert again._found.codes is None
    assert kept._found.codes is not None
    np.testing.assert_array_equal(stacked(again.blocks(max_rows=33)), stacked(kept.blocks()))


def test_a_memory_map_is_never_loaded_whole(monkeypatch, tmp_path):
    X = np.lib.format.open_memmap(tmp_path / "X.npy", mode="w+", dtype=np.float64, shape=(400_000, 20))
    X[::2] = 1.0
    monkeypatch.setattr(scan_module, "MAX_KEPT_BYTES", 0)
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
    X = np.zeros((120_000, 3), dtype=int)
    X[40_000, 1], X[50_000, 2], X[59_999, 0] = 7, -4, 2
    samples = Samples.check(X, (-4, 0, 2, 7))
    np.testing.assert_array_equal(stacked(samples.values_blocks(int)), X)
    found = Samples.check(X)
    assert found.alphabet == (Alphabet((0, 2)), Alphabet((0, 7)), Alphabet((-4, 0)))
    np.testing.assert_array_equal(stacked(found.values_blocks(int)), X)
    X[110_000, 0] = 7  # known from another column, in a later chunk
    assert Samples.check(X).alphabet[0] == Alphabet((0, 2, 7))
    X[:4] = np.array([-4, 7, 0, 2])[:, None]
    assert Samples.check(X).alphabet == Alphabet((-4, 0, 2, 7))
    np.testing.assert_array_equal(stacked(Samples.check(X).values_blocks(int)), X)


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
    own = ColumnEncoder([letters, letters[::-1], letters, letters])(rows)  # codes are positions, in any order
    twin[:, 1] = np.where(twin[:, 1] == MISSING, MISSING, len(letters) - 1 - twin[:, 1])
    np.testing.assert_array_equal(own, twin)


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
    assert frame.alphabet == (Alphabet((0, 1)), Alphabet((2, 3)))
    assert frame.feature_names == ["a", "b"]


def test_given_alphabets_are_used():
    X = table((0, 1))
    assert Samples.check(X, (0, 1, 2)).alphabet.size == 3
    assert Samples.check(X, Alphabet((1, 0))).alphabet == Alphabet((0, 1))
    samples = Samples.check(X, Interval(0, 1))
    np.testing.assert_array_equal(stacked(samples.blocks()), X.astype(float))
    with pytest.raises(ValueError, match="300 values: at most 25"):
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
        (np.ones((2, 2)) * 1j, "Complex data not supported"),
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


# ---------------------------------------------------------------------- columns with values of their own

MIXED = [(-1, 1), (0, 1), (1, 2, 3, 4, 5), (0.0, 0.5, 3.0), tuple(range(16))]


def mixed_table(n_samples=300, seed=0):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.choice(np.asarray(values, dtype=float), n_samples) for values in MIXED])
    for j, values in enumerate(MIXED):
        X[10 * j : 10 * j + len(values), j] = values
    return X


def test_each_column_has_its_own_values():
    X = mixed_table()
    samples = Samples.check(X)
    assert samples.alphabet == tuple(map(Alphabet, MIXED))
    assert samples.space == Space.of(MIXED, 5)
    codes = stacked(samples.blocks())
    for j, values in enumerate(MIXED):
        np.testing.assert_array_equal(codes[:, j], np.searchsorted(values, X[:, j]))
    np.testing.assert_array_equal(stacked(samples.values_blocks(max_rows=7)), X)
    np.testing.assert_array_equal(samples.space.decode(codes), X)
    expected = [np.bincount(codes[:, j], minlength=len(values)) / 300 for j, values in enumerate(MIXED)]
    for found, share in zip(samples.frequencies, expected):
        np.testing.assert_allclose(found, share, rtol=1e-14)


@pytest.mark.parametrize("wide", [5, 127, 128, 261, -129, 2**40])
def test_wide_integers_are_not_taken_for_narrow_ones(wide):
    letters = [0, 1, 2, 3, 5, -127]
    rows = np.array([[0, 1, 2], [3, wide, -127]])
    twin = [[letters.index(x) if x in letters else MISSING for x in row] for row in rows.tolist()]
    np.testing.assert_array_equal(encode(rows, letters), twin)
    np.testing.assert_array_equal(encode(rows, [*letters, wide + 1 if wide > 5 else 300]), twin)


@pytest.mark.parametrize("union", [64, 3])
@pytest.mark.parametrize("kept", [True, False])
def test_both_ways_to_encode_agree(union, kept, monkeypatch):
    """All columns at once, or each by itself; codes kept, or made anew at each pass."""
    X = mixed_table(5000)
    X[4000:, 1] = 7.25  # found late
    expected = [np.unique(column, return_inverse=True)[1] for column in X.T]
    monkeypatch.setattr(scan_module, "_MAX_UNION", union)
    monkeypatch.setattr(scan_module, "MAX_KEPT_BYTES", 2**28 if kept else 0)
    for alphabet in ("auto", [*MIXED[:1], (0, 1, 7.25), *MIXED[2:]], {2: (1, 2, 3, 4, 5), 4: range(16)}):
        samples = Samples.check(X, alphabet)
        np.testing.assert_array_equal(stacked(samples.blocks(999)), np.column_stack(expected))
    sub_alphabet = Samples.check(X, {2: (1, 2, 3, 4, 5, 6), 4: tuple(range(-1, 17))})
    np.testing.assert_array_equal(stacked(sub_alphabet.values_blocks()), X)
    X[4321, 0] = 5.0  # a value of other columns
    for alphabet in ({0: (-1, 1)}, [(-1, 1), (0, 1, 7.25), *MIXED[2:]]):
        with pytest.raises(
            ValueError, match=r"value 5.0 at row 4321, column 0, outside the alphabet Alphabet\(\(-1, 1"
        ):
            Samples.check(X, alphabet)


def test_alphabets_of_some_columns_by_index_or_name():
    X = pd.DataFrame(table((0, 1), 50, 3), columns=["a", "b", "c"])
    samples = Samples.check(X, {"b": (0, 1, 2), 2: Nominal(0, 1)})
    assert samples.alphabet == (Alphabet((0, 1)), Alphabet((0, 1, 2)), Alphabet(Nominal(0, 1)))
    again = Samples.check(X, ["auto", (0, 1, 2), "auto"])
    assert again.alphabet == (Alphabet((0, 1)), Alphabet((0, 1, 2)), Alphabet((0, 1)))
    with pytest.raises(ValueError, match=r"alphabet names the column 'z', which X does not have: .* 'a', 'b', 'c'"):
        Samples.check(X, {"z": (0, 1)})
    with pytest.raises(ValueError, match="alphabet names the column 3"):
        Samples.check(X, {3: (0, 1)})
    with pytest.raises(ValueError, match="alphabet has 2 entries for 3"):
        Samples.check(X, ["auto", (0, 1)])
    with pytest.raises(ValueError, match='"real" is for all variables or none'):
        Samples.check(X, {"a": "real"})


def test_powers_make_columns():
    X = mixed_table()
    assert Samples.check(X, powers=2).space == Space.of(MIXED, 5, 2)
    assert Samples.check(X, powers=[1, 1, 3, 1, 2]).space.n_columns == 8


# ---------------------------------------------------------------------- a fitted space


def test_rows_are_encoded_in_a_fitted_space():
    X = mixed_table()
    space = Samples.check(X, powers=2).space
    few = X[[3, 5]]
    samples = Samples.check(few, space=space)
    assert samples.space is space
    np.testing.assert_array_equal(stacked(samples.blocks()), space.encode(few))
    few[1, 2] = 6
    with pytest.raises(ValueError, match=r"value 6.0 at row 1, column 2, outside the alphabet Alphabet\(\(1, 2"):
        Samples.check(few, space=space)
    few[1, 2] = np.nan
    with pytest.raises(ValueError, match=r"contains NaN \(row 1, column 2\)"):
        Samples.check(few, space=space)
    assert stacked(Samples.check(few, space=space, allow_nan=True).blocks())[1, 2] == MISSING
    with pytest.raises(ValueError, match=r"X has 4 features, but Space is expecting 5 features as input"):
        Samples.check(few[:, :4], space=space)
    with pytest.raises(ValueError, match="give alphabet or space, not both"):
        Samples.check(few, (0, 1), space=space)


@pytest.mark.parametrize("spec", ["real", Interval(-2, 20)])
def test_continuous_spaces_can_be_given_too(spec):
    X = mixed_table()
    space = Space.of(spec, 5)
    np.testing.assert_array_equal(stacked(Samples.check(X[:3], space=space).blocks()), X[:3])


# ---------------------------------------------------------------------- how many values are a list


def test_columns_with_too_many_values_among_others_are_named():
    X = pd.DataFrame(mixed_table(), columns=list("abcde"))
    X["age"], X["id"] = np.arange(300) % 60, np.arange(300.0)
    message = r"columns 'age', 'id' have more than 16 different values.*drop.*bin.*alphabet=\{…\}"
    with pytest.raises(ValueError, match=message):
        Samples.check(X)
    with pytest.raises(ValueError, match=r"^column 'age' has more than 16"):
        Samples.check(X.drop(columns="id"))
    samples = Samples.check(X.drop(columns="id"), {"age": range(60)})
    assert samples.space.sizes[-1] == 60
    np.testing.assert_array_equal(stacked(samples.values_blocks()), X.drop(columns="id"))


def test_a_table_of_few_rows_and_many_values_is_real():
    rng = np.random.default_rng(0)
    assert Samples.check(rng.normal(size=(10, 4))).space.is_real
    for seed in range(20):  # integers: some columns have 16 values, some more
        X = (20 * np.random.default_rng(seed).normal(size=(20, 5))).astype(int)
        assert Samples.check(X).space.is_real
    assert Samples.check(np.array([[3.0, 1.0], [2.0, 5.0]])).space.is_finite
    assert Samples.check(np.arange(24).reshape(3, 8) % 5).space.is_finite
    twice = np.column_stack([rng.permutation(np.tile(np.arange(10) + 10 * j, 2)) for j in range(9)])
    assert Samples.check(twice).space.is_finite  # ten values twice each are a list
    assert Samples.check(twice[:19, :3]).space.is_real
    repeated = np.repeat(rng.normal(size=(10, 4)), 50, axis=0)  # the same as weights
    assert Samples.check(repeated).space.is_real


def test_labels_by_index_name_or_mask():
    X = pd.DataFrame({"a": [10, 20, 30, 10], "b": [0, 1, 1, 0], "c": [1.5, 2.5, 1.5, 2.5]})
    wanted = (Alphabet(Nominal(10, 20, 30)), Alphabet((0, 1)), Alphabet((1.5, 2.5)))
    for given_as in (["a"], [0], [-3], np.array([True, False, False]), "a"):
        samples = Samples.check(X, categorical_features=given_as)
        assert samples.alphabet == wanted
        np.testing.assert_array_equal(stacked(samples.blocks())[:, 0], [0, 1, 2, 0])
    assert Samples.check(X.to_numpy(), categorical_features=[0]).alphabet[0] == wanted[0]
    assert Samples.check(X.astype({"b": bool}), categorical_features=["b"]).alphabet[1] == Alphabet(
        Nominal(False, True)
    )
    assert Samples.check(X, (0, 1, 10, 20, 30, 1.5, 2.5), categorical_features=["a"]).alphabet[0].is_nominal
    with pytest.raises(ValueError, match="categorical_features names the column 'z'"):
        Samples.check(X, categorical_features=["z"])
    with pytest.raises(ValueError, match=r"mask of shape \(2,\); expected \(3,\)"):
        Samples.check(X, categorical_features=[True, False])
    with pytest.raises(ValueError, match="labels have no numeric values"):
        list(Samples.check(X, categorical_features=["a"]).values_blocks())


def test_an_id_is_named():
    X = pd.DataFrame({"who": np.arange(300), "b": np.arange(300) % 2})
    with pytest.raises(ValueError, match=r"column 'who' has more than 254 different labels.*id.*drop"):
        Samples.check(X, categorical_features=["who"])
    X["who"] %= 254
    assert Samples.check(X, categorical_features=["who"]).space.sizes[0] == 254


# ---------------------------------------------------------------------- columns that say nothing, or too much


def test_columns_that_do_not_vary_are_named():
    X = pd.DataFrame(table((0, 1), 50, 3), columns=["a", "b", "c"])
    X["b"] = 3
    with pytest.raises(ValueError, match=r"column 'b' is constant: it holds the single value 3,.*drop it.*alphabet=…"):
        Samples.check(X)
    assert Samples.check(X, {"b": (3, 4)}).space.sizes.tolist() == [2, 2, 2]
    X["c"] = "same"
    with pytest.raises(ValueError, match=r"'b' is constant.*and 1 more such"):
        Samples.check(X)
    with pytest.raises(ValueError, match=r"column 'c' is constant: it holds the single value same"):
        Samples.check(X, {"b": (3, 4)})
    with pytest.raises(ValueError, match="1 sample"):
        Samples.check(X[:1])


def test_columns_without_values_are_named():
    X = pd.DataFrame(table((0.0, 1.0), 50, 3), columns=["a", "b", "c"])
    X["b"] = np.nan
    with pytest.raises(ValueError, match=r"column 'b' holds no value but NaN.*drop it"):
        Samples.check(X, allow_nan=True)


@pytest.mark.parametrize(
    ("letters", "codes"),
    [
        ((1, 2, 3, 4, 5, -9), [-9]),
        ((1, 2, 3, 4, 5, -99), [-99]),
        ((1, 2, 3, 4, 5, 99), [99]),
        ((1, 2, 3, 4, 5, 98, 99), [98, 99]),
        ((0, 1, 9), [9]),
        ((-999, 1, 2, 3, 999), [-999, 999]),
        ((0.5, 1.5, 999), [999]),
        ((0, 1), []),
        ((-1, 1), []),
        ((-1, 0, 1), []),
        ((0, 1, 2, 3, 9), [9]),
        (tuple(range(10)), []),
        ((-2, -1, 0, 1, 2), []),
        ((7, 8, 9), []),
        ((1, 99), []),
        ((0, 1, 50), []),
        ((90, 95, 99), []),
        (tuple(x**2 for x in range(11)), []),
        ((0, 33, 66, 99), []),
    ],
)
def test_values_that_look_like_codes_for_missing(letters, codes, recwarn):
    X = table(letters, 60, 2)
    X[:, 1] = X[:, 1] > 0
    X[:2, 1] = 0, 1
    samples = Samples.check(pd.DataFrame(X, columns=["item", "other"]))
    assert samples.space.alphabets[0] == Alphabet(letters)
    warned = [str(w.message) for w in recwarn]
    if not codes:
        assert not warned
        return
    shown = " and ".join(f"{x:g}" for x in codes)
    assert len(warned) == 1
    assert f"column 'item' has the value {shown} far from its others" in warned[0]
    assert "NaN" in warned[0]
    assert "alphabet=…" in warned[0]
    recwarn.clear()
    Samples.check(X, {0: letters})
    assert not recwarn


def test_weights_are_checked_before_rows():
    X = table((0.0, 1.0), 10, 2)
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"sample_weight has shape \(9,\)"):
        Samples.check(X, sample_weight=np.ones(9))
