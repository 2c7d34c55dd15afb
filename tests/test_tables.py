"""Tables as people have them: text, categories, booleans, missing cells, in pandas, polars, arrays and lists."""

from __future__ import annotations

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from hbm_learn import HBM
from hbm_learn.data.reduce import reduce
from hbm_learn.data.rows import Rows
from hbm_learn.data.samples import Samples
from hbm_learn.data.tables import complete_rows, like_input
from hbm_learn.space import MISSING, Alphabet, Nominal, Space

pl = pytest.importorskip("polars")

N = 40
RNG = np.random.default_rng(0)
TEXT = RNG.choice(["yes", "no", "maybe"], N).tolist()
ITEM = RNG.integers(1, 6, N).tolist()
FLAG = (RNG.random(N) < 0.4).tolist()
SHADE = RNG.choice(["dark", "light"], N).tolist()
GRADE = RNG.choice(["low", "high"], N).tolist()
HALF = RNG.choice([0.0, 0.5, 3.0], N).tolist()
TEXT[:3], ITEM[:5], FLAG[:2], HALF[:3] = ["yes", "no", "maybe"], range(1, 6), [True, False], [0.0, 0.5, 3.0]
SHADE[:2], GRADE[:2] = ["dark", "light"], ["low", "high"]
SHADES, GRADES = ["light", "grey", "dark"], ["low", "middle", "high"]


def pandas_frame():
    return pd.DataFrame(
        {
            "text": TEXT,
            "item": ITEM,
            "flag": FLAG,
            "shade": pd.Categorical(SHADE, SHADES),
            "grade": pd.Categorical(GRADE, GRADES, ordered=True),
            "half": HALF,
        }
    )


def nullable_frame():
    return pandas_frame().convert_dtypes()


def object_frame():
    return pandas_frame().assign(text=pd.Series(TEXT, dtype=object), item=pd.Series(ITEM, dtype=object))


def polars_frame():
    return pl.DataFrame(
        {
            "text": TEXT,
            "item": ITEM,
            "flag": FLAG,
            "shade": pl.Series(SHADE, dtype=pl.Categorical),
            "grade": pl.Series(GRADE, dtype=pl.Enum(GRADES)),
            "half": HALF,
        }
    )


FRAMES = {"pandas": pandas_frame, "nullable": nullable_frame, "objects": object_frame, "polars": polars_frame}
# Pandas keeps the order of categories; polars has none for those without one.
LABELS = {name: ("dark", "light") if name == "polars" else ("light", "dark") for name in FRAMES}


def alphabets(name):
    return (
        Alphabet(Nominal("maybe", "no", "yes")),
        Alphabet((1, 2, 3, 4, 5)),
        Alphabet((0, 1)),
        Alphabet(Nominal(*LABELS[name])),
        Alphabet((0, 2)),
        Alphabet((0.0, 0.5, 3.0)),
    )


def codes_of(samples):
    return np.concatenate([block for block, _ in samples.blocks()])


def expected_codes(name):
    columns = [["maybe", "no", "yes"], [1, 2, 3, 4, 5], [False, True], LABELS[name], ["low", "high"], [0.0, 0.5, 3.0]]
    values = [TEXT, ITEM, FLAG, SHADE, GRADE, HALF]
    return np.array([[list(letters).index(x) for x in column] for letters, column in zip(columns, values)]).T


# ---------------------------------------------------------------------- kinds of columns


@pytest.mark.parametrize("name", FRAMES)
def test_each_column_by_its_kind(name):
    samples = Samples.check(FRAMES[name]())
    assert samples.alphabet == alphabets(name)
    assert samples.feature_names == ["text", "item", "flag", "shade", "grade", "half"]
    np.testing.assert_array_equal(codes_of(samples), expected_codes(name))
    assert samples.space.alphabets[1].values.dtype.kind == "i"
    assert samples.space.decode(codes_of(samples))[:, 0].tolist() == TEXT


def test_object_arrays_and_lists_of_numbers_and_text():
    rows = [list(row) for row in zip(TEXT, ITEM, FLAG, HALF)]
    array = np.array(rows, dtype=object)
    for table in (rows, array, [array[:15], array[15:]]):
        samples = Samples.check(table)
        wanted = alphabets("pandas")
        assert samples.alphabet == (wanted[0], wanted[1], wanted[2], wanted[5])
        np.testing.assert_array_equal(codes_of(samples), expected_codes("pandas")[:, [0, 1, 2, 5]])
    text = Samples.check(np.array([TEXT, SHADE]).T)
    assert text.alphabet == (Alphabet(Nominal("maybe", "no", "yes")), Alphabet(Nominal("dark", "light")))
    numbers = Samples.check(array[:, [1, 3]])
    assert numbers.space.is_numeric


def test_numbers_beside_text_in_one_column_are_labels():
    samples = Samples.check(pd.DataFrame({"a": ["x", 2, 1, "x", None], "b": [0, 1, 0, 1, 1]}), allow_nan=True)
    assert samples.alphabet[0] == Alphabet(Nominal(1, 2, "x"))
    np.testing.assert_array_equal(codes_of(samples)[:, 0], [2, 1, 0, 2, MISSING])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_other_numeric_types(make):
    data = {
        "small": np.array([0, 1, 2, 1], dtype=np.uint8),
        "wide": np.array([10**9, 2 * 10**9, 10**9, 10**9]),
        "single": np.array([0.5, 1.5, 0.5, 0.5], dtype=np.float32),
    }
    samples = Samples.check(make(data), allow_nan=True)
    assert samples.alphabet == (Alphabet((0, 1, 2)), Alphabet((10**9, 2 * 10**9)), Alphabet((0.5, 1.5)))
    decimal = Samples.check(make({"a": [Decimal("0.5"), Decimal("2"), Decimal("2")], "b": [1, 2, 1]}))
    assert decimal.alphabet == (Alphabet((0.5, 2.0)), Alphabet((1, 2)))


def test_categories_of_numbers_are_labels_in_their_order():
    frame = pd.DataFrame({"a": pd.Categorical([3, 1, 3, 2], [3, 2, 1, 7]), "b": [0, 1, 1, 0]})
    assert Samples.check(frame).alphabet[0] == Alphabet(Nominal(3, 2, 1))
    assert Samples.check(frame, categorical_features=None).alphabet[0] == Alphabet((1, 2, 3))
    np.testing.assert_array_equal(codes_of(Samples.check(frame, categorical_features=None))[:, 0], [2, 0, 2, 1])


@pytest.mark.parametrize("name", FRAMES)
def test_ordered_categories_can_be_labels(name):
    frame = FRAMES[name]()
    samples = Samples.check(frame, categorical_features=["text", "shade", "grade"])
    assert samples.alphabet[4] == Alphabet(Nominal("low", "high"))
    np.testing.assert_array_equal(codes_of(samples), expected_codes(name))


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("features", [None, [], ["shade"]])
def test_text_that_is_not_said_to_be_labels_is_named(name, features):
    with pytest.raises(ValueError, match=r"column 'text' holds text \('yes'\).*name it in categorical_features"):
        Samples.check(FRAMES[name](), categorical_features=features)


def test_text_in_a_column_with_numeric_values_is_named():
    with pytest.raises(ValueError, match="column 'text' holds text"):
        Samples.check(pandas_frame(), {"text": (0, 1)})


def test_labels_can_be_given():
    samples = Samples.check(pandas_frame(), {"text": Nominal("yes", "no", "maybe", "never")})
    np.testing.assert_array_equal(codes_of(samples)[:3, 0], [0, 1, 2])
    assert samples.frequencies[0][3] == 0
    with pytest.raises(ValueError, match=r"value 'maybe' at row 2, column 'text', outside the alphabet .*'yes', 'no'"):
        Samples.check(pandas_frame(), {"text": Nominal("yes", "no")})


def test_too_many_labels_are_an_id():
    frame = pd.DataFrame({"name": [f"n{i}" for i in range(300)], "b": np.arange(300) % 2})
    with pytest.raises(ValueError, match=r"column 'name' has more than 254 different labels, as an id"):
        Samples.check(frame)
    with pytest.raises(ValueError, match=r"column 0 has more than 254"):
        Samples.check(frame.to_numpy())


# ---------------------------------------------------------------------- missing cells


def with_holes(name):
    """The frame with a missing cell in each column, at row 5 + column."""
    frame = FRAMES[name]()
    if name == "polars":
        return pl.DataFrame(
            [pl.Series(s.name, [None if r == 5 + j else v for r, v in enumerate(s.to_list())], dtype=s.dtype)
             for j, s in enumerate(frame.iter_columns())]
        )  # fmt: skip
    frame["flag"] = frame["flag"].astype("boolean" if name == "nullable" else object)
    for j, column in enumerate(frame.columns):
        frame.loc[5 + j, column] = pd.NA if name == "nullable" else None
    return frame


@pytest.mark.parametrize("name", FRAMES)
def test_missing_cells(name):
    samples = Samples.check(with_holes(name), allow_nan=True)
    assert samples.alphabet == alphabets(name)
    expected = expected_codes(name)
    expected[5 + np.arange(6), np.arange(6)] = MISSING
    np.testing.assert_array_equal(codes_of(samples), expected)
    with pytest.raises(ValueError, match=r"Input X contains NaN \(row 5, column 'text'\)"):
        Samples.check(with_holes(name))
    counts = np.bincount(np.delete(expected, 5, axis=0)[:, 0])
    np.testing.assert_allclose(samples.frequencies[0], counts / (N - 1))


def test_every_way_to_say_missing():
    values = [1, None, np.nan, pd.NA, float("nan"), 2, np.float64("nan"), pd.NaT]
    array = np.array([[v, k % 2] for k, v in enumerate(values)], dtype=object)
    found = codes_of(Samples.check(array, allow_nan=True))[:, 0]
    np.testing.assert_array_equal(found, [0, *[MISSING] * 4, 1, MISSING, MISSING])
    floats = pl.DataFrame({"a": [1.0, float("nan"), None, 2.0], "b": [0, 1, 0, 1]})
    np.testing.assert_array_equal(codes_of(Samples.check(floats, allow_nan=True))[:, 0], [0, MISSING, MISSING, 1])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_a_column_without_values_is_named(make):
    for empty in ([None, None, None], [float("nan")] * 3):
        with pytest.raises(ValueError, match=r"column 'b' holds no value but NaN"):
            Samples.check(make({"a": [0, 1, 1], "b": empty}), allow_nan=True)


@pytest.mark.parametrize("name", FRAMES)
def test_complete_rows_of_frames(name):
    frame = with_holes(name)
    weights = np.arange(N, dtype=float)
    kept, w, n_dropped, _ = complete_rows(frame, weights)
    assert type(kept) is type(frame)
    assert n_dropped == 6
    np.testing.assert_array_equal(w, np.delete(weights, np.arange(5, 11)))
    np.testing.assert_array_equal(codes_of(Samples.check(kept)), np.delete(expected_codes(name), np.arange(5, 11), 0))
    whole = FRAMES[name]()
    assert complete_rows(whole, weights)[0] is whole
    with pytest.raises(ValueError, match=r"sample_weight has shape \(3,\); expected \(40,\)"):
        complete_rows(frame, np.ones(3))


def test_complete_rows_of_arrays():
    X = np.array([[0, 1.0], [np.nan, 1], [1, 0]])
    for table in (X, X.tolist(), X.astype(object), [[0, 1], [None, 1], [1, 0]], [["a", 1], [None, 1], ["b", 0]]):
        kept, w, n_dropped, _ = complete_rows(table, [1, 2, 3])
        assert n_dropped == 1
        assert len(kept) == 2
        np.testing.assert_array_equal(w, [1, 3])
    for left in (scipy.sparse.csr_matrix(X), [X[:2], X[2:]], np.ones((2, 2), dtype=int)):
        assert complete_rows(left, None) == (left, None, 0) or complete_rows(left, None)[0] is left
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(X)
    assert complete_rows(lazy, None)[0] is lazy
    with pytest.raises(ValueError, match="in every row"):
        complete_rows(np.array([[np.nan, 1.0], [1.0, np.nan]]), None)
    with pytest.raises(ValueError, match="column 0 holds no value at all"):
        complete_rows(np.full((2, 2), np.nan), None)


# ---------------------------------------------------------------------- what will not do


DATES = [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), datetime.date(2020, 1, 1)]
UNFIT = {
    "dates": pd.to_datetime(DATES),
    "spans": pd.to_timedelta([1, 2, 3]),
    "periods": pd.period_range("2020", periods=3),
    "intervals": pd.interval_range(0, 3),
}


@pytest.mark.parametrize("kind", UNFIT)
def test_types_that_are_no_values_are_named(kind):
    frame = pd.DataFrame({"a": [0, 1, 1], "when": UNFIT[kind]})
    with pytest.raises(ValueError, match=rf"column 'when' has the type {frame['when'].dtype.name[:6]}.*drop it"):
        Samples.check(frame)


def test_polars_types_that_are_no_values_are_named():
    for values in (DATES, [datetime.timedelta(1)] * 3, [[1], [2], [3]], [{"x": 1}] * 3):
        with pytest.raises(ValueError, match=r"column 'when' has the type .*drop it"):
            Samples.check(pl.DataFrame({"a": [0, 1, 1], "when": values}))


@pytest.mark.parametrize("value", [[1], {"foo": "bar"}, DATES[0], (1, 2)])
def test_cells_that_are_no_values_are_named(value):
    column = np.array([0, 1, None, 1], dtype=object)
    column[2] = value
    message = rf"holds a {type(value).__name__} .*argument must be a string or a number"
    with pytest.raises(TypeError, match="column 0 " + message):
        Samples.check(np.column_stack([column, [0, 1, 1, 0]]))
    with pytest.raises(TypeError, match="column 'a' " + message):
        Samples.check(pd.DataFrame({"a": column, "b": [0, 1, 1, 0]}))


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (pd.DataFrame({"a": [1j, 2, 3], "b": [0, 1, 1]}), "Complex data not supported.*column 'a'"),
        (np.array([[1j, 0], [2, 1]], dtype=object), "Complex data not supported.*column 0"),
        (np.array([["2020-01-01"], ["2021-01-01"]], dtype="M8[D]"), "type datetime64"),
        (pd.DataFrame(), "0 sample"),
        (pd.DataFrame({"a": []}), r"0 sample\(s\)"),
        (pl.DataFrame({"a": []}), r"0 sample\(s\)"),
        (pd.DataFrame(index=[0, 1]), r"0 feature\(s\)"),
        (pd.DataFrame([[0, 1], [1, 0]], columns=["a", "a"]), "two columns of X are called 'a'"),
        (["a", "b"], "Expected 2D array, got 1D array"),
        (np.array(["a", "b"], dtype=object), "Expected 2D array, got 1D array"),
        ([[0, "a"], [1]], "inhomogeneous"),
        ([np.zeros((2, 1)), np.array([["a"], ["b"]])], "block 1 of X has labels in column 0, unlike block 0"),
    ],
)
def test_bad_tables(X, message):
    with pytest.raises(ValueError, match=message):
        Samples.check(X)


# ---------------------------------------------------------------------- blocks of rows


def test_blocks_put_their_labels_together():
    frame = pandas_frame()
    first, rest = frame.iloc[:2], frame.iloc[2:]  # 'maybe' is not in the first
    assert "maybe" not in set(first["text"])
    samples = Samples.check([first, rest])
    assert samples.alphabet == alphabets("pandas")
    np.testing.assert_array_equal(codes_of(samples), expected_codes("pandas"))
    holes = with_holes("pandas")
    pieces = Samples.check([holes.iloc[:7], holes.iloc[7:]], allow_nan=True)
    np.testing.assert_array_equal(codes_of(pieces), codes_of(Samples.check(holes, allow_nan=True)))


def test_categories_of_blocks_keep_their_order():
    a = pd.DataFrame({"c": pd.Categorical(["z", "b"], ["z", "b"]), "x": [0, 1]})
    b = pd.DataFrame({"c": pd.Categorical(["a", "b"], ["b", "a"]), "x": [0, 1]})
    samples = Samples.check([a, b])
    assert samples.alphabet[0] == Alphabet(Nominal("z", "b", "a"))
    np.testing.assert_array_equal(codes_of(samples)[:, 0], [0, 1, 2, 1])


@pytest.mark.parametrize("name", FRAMES)
def test_rows_of_frames_in_a_fitted_space(name):
    frame = FRAMES[name]()
    space = Samples.check(frame).space
    part = frame[7:20]
    np.testing.assert_array_equal(codes_of(Samples.check(part, space=space)), expected_codes(name)[7:20])
    if name == "polars":
        strange = part.with_columns(pl.Series("text", ["perhaps", *TEXT[8:20]]))
    else:
        strange = part.assign(text=["perhaps", *TEXT[8:20]])
    with pytest.raises(ValueError, match=r"value 'perhaps' at row 0, column 'text', outside the alphabet"):
        Samples.check(strange, space=space)


def test_a_category_that_never_occurs_is_no_error():
    space = Samples.check(pandas_frame()).space
    part = pandas_frame()[:10]
    part["shade"] = part["shade"].cat.add_categories(["black"])
    np.testing.assert_array_equal(codes_of(Samples.check(part, space=space)), expected_codes("pandas")[:10])
    part.loc[3, "shade"] = "black"
    with pytest.raises(ValueError, match=r"value 'black' at row 3, column 'shade'"):
        Samples.check(part, space=space)


def test_arrays_and_frames_share_a_space_of_labels():
    space = Samples.check(pandas_frame()[["text", "item"]]).space
    array = np.array([["no", 5], ["yes", 1]], dtype=object)
    np.testing.assert_array_equal(codes_of(Samples.check(array, space=space)), [[1, 4], [2, 0]])
    numbers = Samples.check(np.array([[7, 0], [9, 1], [8, 0]]), categorical_features=[0]).space
    np.testing.assert_array_equal(codes_of(Samples.check(np.array([[9.0, 1.0]]), space=numbers)), [[2, 1]])


# ---------------------------------------------------------------------- the way back


@pytest.mark.parametrize("name", FRAMES)
def test_frames_come_back_as_they_were(name):
    frame, holes = FRAMES[name](), with_holes(name)
    space = Samples.check(frame).space
    filled = space.decode(expected_codes(name).astype(np.uint8))
    filled[:, 4] = np.array([0, 2])[expected_codes(name)[:, 4]]
    back = like_input(filled, holes)
    assert type(back) is type(frame)
    if name == "polars":
        assert back.schema == holes.schema
        assert back.to_dicts() == frame.to_dicts()
        return
    assert back.index.equals(holes.index)
    assert (back.dtypes == holes.dtypes).all()
    assert back.astype(object).to_numpy().tolist() == frame.astype(object).to_numpy().tolist()


def test_arrays_come_back_as_values():
    values = np.array([[0, 1], [1, 0]])
    assert like_input(values, np.zeros((2, 2))) is values
    frame = like_input(values, pd.DataFrame(np.zeros((2, 2)), index=[5, 7], columns=[3, 1]))
    assert frame.index.tolist() == [5, 7]
    assert frame.columns.tolist() == [3, 1]
    assert frame.to_numpy().tolist() == [[0, 1], [1, 0]]


def test_labels_that_a_category_lacks_come_back_as_objects():
    part = pd.DataFrame({"c": pd.Categorical([None, "x"], ["x"])})
    assert like_input(np.array([["y"], ["x"]], dtype=object), part)["c"].tolist() == ["y", "x"]


# ---------------------------------------------------------------------- rows and sums over them


@pytest.mark.parametrize("weights", [None, "floats"])
def test_equal_rows_are_grouped(weights):
    rng = np.random.default_rng(0)
    space = Space.of([Nominal("a", "b", "c", "d"), (1, 2, 3), (-1, 1)], 3, 2)
    codes = (rng.random((2000, 3)) * space.sizes).astype(np.uint8)
    w = None if weights is None else rng.random(2000)
    samples = Samples.check(space.decode(codes), sample_weight=w, powers=2)
    rows = Rows(samples)
    assert rows.n_rows == 24
    assert rows.n_samples == pytest.approx(2000 if w is None else w.sum())
    ones = np.ones(2000) if w is None else w
    ((grouped, shares),) = rows.blocks()
    for row, share in zip(grouped, shares):
        assert share == pytest.approx(ones[(codes == row).all(axis=1)].sum() / ones.sum())
    Phi = space.columns(codes)
    mean = ones @ Phi / ones.sum()
    np.testing.assert_allclose(rows.mean(), mean, rtol=1e-12)
    np.testing.assert_allclose(rows.variance(), ones @ (Phi - mean) ** 2 / ones.sum(), rtol=1e-12)
    standard = space.standard(rows.frequencies)
    np.testing.assert_allclose(rows.mean(standard), 0, atol=1e-13)
    np.testing.assert_allclose(rows.variance(standard), 1, rtol=1e-12)
    for i, p in enumerate(rows.frequencies):
        np.testing.assert_allclose(p, np.bincount(codes[:, i], ones, space.sizes[i]) / ones.sum(), rtol=1e-12)


def test_missing_cells_make_rows_of_their_own():
    X = np.tile([[0, 1.0], [np.nan, 0], [1, 0], [np.nan, np.nan]], (50, 1))
    rows = Rows(Samples.check(X, allow_nan=True))
    assert rows.n_rows == 4
    ((codes, shares),) = rows.blocks()
    np.testing.assert_allclose(shares, 0.25)
    assert sorted(map(tuple, codes.tolist())) == [(0, 1), (1, 0), (MISSING, 0), (MISSING, MISSING)]
    np.testing.assert_allclose(rows.frequencies[0], [0.5, 0.5])


def test_rows_that_occur_once_are_not_grouped():
    X = np.random.default_rng(0).integers(0, 2, (1000, 30))
    rows = Rows(Samples.check(X))
    assert rows.n_rows == 1000
    strided = np.concatenate([codes for codes, _ in rows.blocks(3, 1)])
    np.testing.assert_array_equal(strided, X[1::3])
    assert sum(w.sum() for _, w in rows.blocks(3, 1)) == pytest.approx(1, abs=0.01)


def test_reduce_adds_in_one_order():
    rng = np.random.default_rng(0)
    X, w = rng.normal(size=(5000, 400)), rng.random(5000)
    blocks = [(X[:3000], w[:3000], None), (X[3000:], w[3000:], None)]
    shares = []

    def work(share):
        x, weights, nothing = share
        assert nothing is None
        assert len(x) == len(weights)
        shares.append(len(x))
        return weights @ x, weights.sum()

    found = [reduce(work, iter(blocks), n_jobs) for n_jobs in (1, 2, None)]
    for total, weight in found:
        np.testing.assert_allclose(total, w @ X, rtol=1e-12)
        assert weight == pytest.approx(w.sum())
        np.testing.assert_array_equal(total, found[0][0])
    assert len(shares) == 3 * 9  # the first block is cut into eight, the second is too small
    assert len(reduce(lambda share: [np.ones(2)], blocks, cost=10**6)) == 1
    with pytest.raises(ValueError, match="no rows to sum over"):
        reduce(work, [])


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_whole_numbers_beside_nan_come_back_whole(make):
    """A column is float where something is missing; its values are whole numbers all the same."""
    rng = np.random.default_rng(3)
    rating, half = rng.integers(1, 4, 300).astype(float), rng.choice([0.5, 1.0], 300)
    rating[5] = np.nan
    written = rng.choice([1.0, 2.0], 300)  # floats by choice: nothing is missing there
    columns = {"rating": rating, "half": half, "yes": rng.integers(0, 2, 300), "written": written}
    est = HBM(order=2).fit(make(columns))
    alphabets = est.model_.space.alphabets
    assert [a.dtype.kind for a in alphabets] == ["i", "f", "i", "f"]
    assert alphabets[0].values.tolist() == [1, 2, 3]
    filled = est.predict(make(columns))
    assert np.asarray(filled["rating"]).dtype.kind == "f"  # the type of the user's column
    est = HBM(order=2).fit(make({name: columns[name] for name in ("rating", "yes")}))
    assert est.sample(5, random_state=0).dtype.kind == "i"


@pytest.mark.parametrize("as_frame", [False, True])
def test_whole_numbers_of_an_array_with_nan_come_back_whole(as_frame):
    X = np.random.default_rng(3).integers(1, 4, (300, 3)).astype(float)
    plain = HBM(order=2).fit(X)
    assert plain.sample(5, random_state=0).dtype.kind == "f"
    X[5, 1] = np.nan
    est = HBM(order=2).fit(pd.DataFrame(X) if as_frame else X)
    assert est.sample(5, random_state=0).dtype.kind == "i"
    X[:, 0] += 0.5
    est = HBM(order=2).fit(pd.DataFrame(X) if as_frame else X)
    assert est.sample(5, random_state=0)[:, 0].tolist() != est.sample(5, random_state=0)[:, 0].round().tolist()
