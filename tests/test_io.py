"""Models and tables on disk: what is written comes back, and what is damaged is refused."""

import os
import stat
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from mixed import ALPHABETS as MIXED
from mixed import REGION, all_codes, random_arguments
from oracle import ALPHABETS, random_model

from hbm_learn import BoltzmannMachine, Interval
from hbm_learn.io import models, tables
from hbm_learn.io.replacing import replacing
from hbm_learn.space import Nominal

# ---------------------------------------------------------------------- models


@pytest.mark.parametrize("alphabet", [*ALPHABETS.values(), Interval(-1, 2), "real"], ids=str)
def test_a_saved_model_is_equal(alphabet, tmp_path):
    model = random_model(5, 2 if alphabet == "real" else 4, alphabet, 1.0, seed=1)
    for name in ("model.npz", "model.with.other.name"):
        model.save(tmp_path / name)
        loaded = BoltzmannMachine.load(tmp_path / name)
        assert loaded == model
        assert loaded.alphabet.dtype == model.alphabet.dtype


@pytest.mark.parametrize("powers", [False, True])
@pytest.mark.parametrize("name", MIXED)
def test_a_saved_model_of_variables_of_any_kind_is_equal(name, powers, tmp_path):
    model = BoltzmannMachine(**random_arguments(MIXED[name], 3, seed=1, powers=powers))
    model.save(tmp_path / "model.npz")
    loaded = BoltzmannMachine.load(tmp_path / "model.npz")
    assert loaded == model
    assert loaded.interactions == model.interactions
    codes = all_codes(MIXED[name])
    np.testing.assert_array_equal(loaded.energy_of_codes(codes), model.energy_of_codes(codes))


def test_labels_come_back_as_what_they_were(tmp_path):
    labels = [
        Nominal("a", "b"),
        Nominal(3, 1, 2),
        Nominal(0.1, 1e300),
        Nominal(True, False),
        Nominal("1", 1, 2.5, "é ü", ""),
    ]
    model = BoltzmannMachine(np.zeros(6), {(0, 1): np.ones((2, 3))}, alphabet=[*labels, (0, 1)])
    model.save(tmp_path / "model.npz")
    loaded = BoltzmannMachine.load(tmp_path / "model.npz")
    for alphabet, given in zip(loaded.space.alphabets, labels):
        found = alphabet.values.tolist()
        assert found == list(given.labels)
        assert list(map(type, found)) == list(map(type, given.labels))
    assert loaded == model


@pytest.mark.parametrize("label", [("a", "b"), "a\0", None, 1j])
def test_labels_that_a_file_cannot_hold_are_refused(label, tmp_path):
    model = BoltzmannMachine([0, 0], {}, alphabet=[(0, 1), Nominal("x", label)])
    with pytest.raises(
        ValueError, match=r"variable 1 has the label .* cannot hold: labels are str, int, float or bool"
    ):
        model.save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def test_the_type_of_numbers_comes_back(tmp_path):
    for values in (np.array([-1, 1], dtype=np.int8), np.array([0.5, 1.5], dtype=np.float32), (0, 2**60), (0.1, 0.3)):
        model = BoltzmannMachine([0, 0], {}, alphabet=values)
        model.save(tmp_path / "model.npz")
        loaded = BoltzmannMachine.load(tmp_path / "model.npz")
        assert loaded.alphabet.values.dtype == model.alphabet.values.dtype
        np.testing.assert_array_equal(loaded.alphabet.values, model.alphabet.values)


def test_a_model_in_another_gauge_is_equal(tmp_path):
    model = BoltzmannMachine(**random_arguments(MIXED["mixed"], 3, seed=1, powers=True))
    rng = np.random.default_rng(0)
    moved = model.in_space(model.space.standard([rng.dirichlet(np.full(q, 3.0)) for q in model.space.sizes]))
    moved.save(tmp_path / "model.npz")
    loaded = BoltzmannMachine.load(tmp_path / "model.npz")
    assert loaded == moved
    assert not loaded.space.is_coding


def test_a_continuous_variable_beside_labels(tmp_path):
    model = BoltzmannMachine([0.3, 0], {(0, 1): [1.0, 0.5, -2.0]}, [0.5, 0], [Interval(-1, 2), REGION])
    model.save(tmp_path / "model.npz")
    assert BoltzmannMachine.load(tmp_path / "model.npz") == model


def test_files_of_version_1_still_load():
    """Written by 0.1 with three values, d, and names."""
    path = Path(__file__).parent / "data" / "model_v1.npz"
    with np.load(path) as archive:
        assert archive["version"] == 1
    expected = BoltzmannMachine(
        [0.25, -0.5, 0.0, 1.5], {(0, 1): 0.75, (2, 3): -0.125, (0, 1, 3): 2.0}, [0.5, 0, 0.25, -1.0], (-1, 0, 1)
    )
    loaded = BoltzmannMachine.load(path)
    assert loaded == expected
    assert loaded.alphabet.dtype == np.int64
    assert models.load_feature_names(path) == ["rain", "wind", "sun", "ice"]


@pytest.mark.parametrize(
    ("kind", "values"), [("interval", [-1.0, 2.0]), ("real", [-np.inf, np.inf]), ("finite", [0.5, 1.0])]
)
def test_other_alphabets_of_version_1(kind, values, tmp_path):
    content = {"h": np.array([0.5, 0.0]), "d": np.ones(2), "members": np.array([0, 1]), "indptr": np.array([0, 2])}
    np.savez(
        tmp_path / "m.npz",
        format=models.FORMAT,
        version=1,
        alphabet_kind=kind,
        alphabet_values=values,
        weights=[0.3],
        **content,
    )
    alphabet = {"interval": Interval(-1, 2), "real": "real", "finite": (0.5, 1.0)}[kind]
    assert BoltzmannMachine.load(tmp_path / "m.npz") == BoltzmannMachine([0.5, 0], {(0, 1): 0.3}, 1.0, alphabet)


def test_names_of_variables(tmp_path):
    model = random_model(3, 2, (-1, 1), 1.0, seed=1)
    models.save(tmp_path / "with.npz", model, ["a b", "é", "c"])
    models.save(tmp_path / "without.npz", model)
    assert models.load_feature_names(tmp_path / "with.npz") == ["a b", "é", "c"]
    assert models.load_feature_names(tmp_path / "without.npz") is None
    assert BoltzmannMachine.load(tmp_path / "with.npz") == model


def test_damaged_and_foreign_files_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    random_model(5, 3, (-1, 1), 1.0, seed=1).save(path)
    good = path.read_bytes()
    for damaged in (good[: len(good) // 2], b"not an archive", b"", good[:200] + b"\x00" * 50 + good[250:]):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"model\.npz is damaged"):
            BoltzmannMachine.load(path)
    np.savez(path, a=np.arange(3))
    with pytest.raises(ValueError, match="not a model saved by hbm_learn"):
        BoltzmannMachine.load(path)
    np.save(tmp_path / "array.npy", np.arange(3))
    with pytest.raises(ValueError, match="not a model saved by hbm_learn"):
        BoltzmannMachine.load(tmp_path / "array.npy")
    with pytest.raises(FileNotFoundError):
        BoltzmannMachine.load(tmp_path / "absent.npz")


MODEL = BoltzmannMachine(
    [0.1, 0, 0.2],
    {(0, 1): [0.5, -0.5, 0.1], (0, 0, 2): 0.3, (0, 1, 2): [0.1, 0.2, -0.3]},
    alphabet=[(0, 1, 2, 4), REGION, (0, 1)],
)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("version", lambda v: v + 97),
        ("weights", lambda w: w[:-1]),
        ("weights", lambda w: np.where(w == w[0], np.nan, w)),
        ("members", lambda m: m + 7),
        ("members", lambda m: m - 1),
        ("members", lambda m: np.where(m == 0, -MODEL.n_columns, m)),
        ("members", lambda m: m.astype(float)),
        ("members", lambda m: m[::-1]),
        ("members", lambda m: np.concatenate([m[2:4], m[:2], m[4:]])),
        ("members", lambda m: np.concatenate([m[:2], m[:2], m[4:]])),
        ("members", lambda m: np.concatenate([[0, 1], m[2:]])),
        ("indptr", lambda i: i[:-1]),
        ("indptr", lambda i: np.concatenate([[0, 1], i[2:]])),
        ("indptr", lambda i: i + 1),
        ("h", lambda h: h[:-1]),
        ("h", lambda h: h + np.inf),
        ("d", lambda d: d[None]),
        ("site", lambda s: s[:-1]),
        ("site", lambda s: s * np.nan),
        ("has_site", lambda s: ~s),
        ("n_functions", lambda r: r + 1),
        ("n_functions", lambda r: r[:-1]),
        ("n_functions", lambda r: r - [0, 1, 0]),
        ("alphabet", lambda a: a + 1),
        ("alphabet", lambda a: a[:0]),
        ("alphabet", lambda a: a - 3),
        ("kind", lambda k: np.array(["strange", *k[1:]])),
        ("kind", lambda k: k[:-1]),
        ("value", lambda v: v[:-1]),
        ("value", lambda v: np.array(["x", *v[1:]])),
        ("value_type", lambda t: np.array(["complex", *t[1:]])),
        ("value_ptr", lambda p: p[::-1].copy()),
    ],
)  # fmt: skip
def test_inconsistent_contents_are_refused(name, change, tmp_path):
    path = tmp_path / "model.npz"
    MODEL.save(path)
    with np.load(path) as archive:
        content = dict(archive)
    np.savez(path, **content)
    assert BoltzmannMachine.load(path) == MODEL
    np.savez(path, **{**content, name: change(content[name])})
    with pytest.raises(ValueError, match=r"model\.npz"):
        BoltzmannMachine.load(path)
    np.savez(path, **{key: value for key, value in content.items() if key != name})
    with pytest.raises(ValueError, match=r"model\.npz is damaged"):
        BoltzmannMachine.load(path)


@pytest.mark.parametrize(
    "sets", [[(0,), (0, 1)], [(0, 1, 2), (0, 1)], [(1, 0)], [(0, 0)], [(0, 2), (0, 1)], [(0, 1), (0, 1)]], ids=str
)
def test_sets_that_are_no_interactions_are_refused(sets, tmp_path):
    path = tmp_path / "model.npz"
    BoltzmannMachine([0, 0, 0], {(0, 1): 1.0, (0, 2): 1.0}).save(path)
    with np.load(path) as archive:
        content = dict(archive)
    members, indptr = np.concatenate(sets), np.concatenate([[0], np.cumsum([len(mu) for mu in sets])])
    np.savez(path, **{**content, "members": members, "indptr": indptr, "weights": np.ones(len(sets))})
    with pytest.raises(ValueError, match="interaction"):
        BoltzmannMachine.load(path)


def test_tables_for_continuous_variables_are_refused(tmp_path):
    path = tmp_path / "model.npz"
    BoltzmannMachine([0, 0], {}, alphabet=[Interval(0, 1), REGION]).save(path)
    with np.load(path) as archive:
        content = dict(archive)
    assert content["has_site"].tolist() == [False, True]
    np.savez(path, **{**content, "has_site": np.array([True, True])})
    with pytest.raises(ValueError, match="a table of weights to a continuous variable"):
        BoltzmannMachine.load(path)


def test_nothing_is_unpickled(tmp_path):
    path = tmp_path / "model.npz"
    MODEL.save(path)
    with np.load(path) as archive:
        content = dict(archive)
    np.savez(path, **{**content, "value": np.array([print], dtype=object)})
    with pytest.raises(ValueError, match="damaged"):
        BoltzmannMachine.load(path)


# ---------------------------------------------------------------------- written whole or not at all


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.csv"
    path.write_text("old")

    def half():
        with replacing(path) as temporary:
            temporary.write_text("half of the n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["file.csv"]
    before = path.stat().st_ino
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.endswith("file.csv")
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert path.stat().st_ino != before, "another file in its place, not the old one written over"


def test_a_failed_save_leaves_the_old_model(tmp_path, monkeypatch):
    path = tmp_path / "model.npz"
    MODEL.save(path)

    def broken(file, **arrays):
        file.write(b"PK")
        raise OSError("disk full")

    monkeypatch.setattr(np, "savez_compressed", broken)
    with pytest.raises(OSError, match="disk full"):
        (MODEL * 2).save(path)
    assert BoltzmannMachine.load(path) == MODEL
    assert len(list(tmp_path.iterdir())) == 1


def test_modes_and_links_are_kept(tmp_path):
    target, link = tmp_path / "model.npz", tmp_path / "link.npz"
    MODEL.save(target)
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~umask
    target.chmod(0o640)
    link.symlink_to(target)
    (MODEL * 2).save(link)
    assert link.is_symlink()
    assert BoltzmannMachine.load(target) == MODEL * 2
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_pipes_are_written_to(tmp_path):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    read = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    tables.write(pipe, np.array([[1, 2]]), ["a", "b"])
    reader.join(10)
    assert read == ["a,b\n1,2\n"]
    assert pipe.is_fifo()


def test_places_that_cannot_be_written_to(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere.m\.npz: there is no folder"):
        MODEL.save(tmp_path / "nowhere" / "m.npz")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        MODEL.save(tmp_path)


# ---------------------------------------------------------------------- tables

FRAME = pd.DataFrame(
    {
        "sex": ["f", "m", None, "f", "m"],
        "trust in press": [1, 5, 3, 9, 2],
        "x": [0.5, -1.0, np.nan, 2.0, 9.0],
        "vote": ["yes", "no", "no", "refused", "yes"],
    }
)


def write_any(path, frame):
    if path.suffix == ".xlsx":
        frame.to_excel(path, index=False)
    elif path.suffix == ".dta":
        frame.rename(columns={"trust in press": "trust"}).to_stata(path, write_index=False)
    elif path.suffix == ".sav":
        import pyreadstat

        pyreadstat.write_sav(frame.rename(columns={"trust in press": "trust"}), str(path))
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep=tables.SEPARATORS[path.suffix])


SUFFIXES = [".csv", ".tsv", ".parquet", ".xlsx", ".dta", ".sav"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_text_and_gaps_stay_as_they_are(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    write_any(path, FRAME)
    found = tables.read(path)
    names = ["sex", "trust", "x", "vote"] if suffix in (".dta", ".sav") else list(FRAME.columns)
    assert list(found.columns) == names
    assert found["sex"].isna().tolist() == [False, False, True, False, False]
    assert found["sex"].dropna().tolist() == ["f", "m", "f", "m"]
    assert found[names[1]].tolist() == [1, 5, 3, 9, 2]
    assert found["x"].isna().tolist() == [False, False, True, False, False]
    assert found["vote"].tolist() == FRAME["vote"].tolist()
    assert pd.api.types.is_numeric_dtype(found["x"])


@pytest.mark.parametrize("na", [[9, "refused"], ["9", "refused"], ["9.0", "refused", "nonsense"]], ids=str)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_further_values_that_stand_for_missing(suffix, na, tmp_path):
    path = tmp_path / f"data{suffix}"
    write_any(path, FRAME)
    found = tables.read(path, na=na)
    assert found.iloc[:, 1].isna().tolist() == [False, False, False, True, False]
    assert found.iloc[:, 1].dropna().tolist() == [1, 5, 3, 2]
    assert found["x"].isna().tolist() == [False, False, True, False, True]
    assert found["vote"].isna().tolist() == [False, False, False, True, False]
    assert found["sex"].isna().sum() == 1
    assert pd.api.types.is_numeric_dtype(found.iloc[:, 1])


def test_missing_values_of_categories_are_no_categories(tmp_path):
    frame = FRAME.assign(vote=pd.Categorical(FRAME["vote"], ["yes", "no", "refused"], ordered=True))
    frame.to_parquet(tmp_path / "data.parquet")
    found = tables.read(tmp_path / "data.parquet", na=["refused"])["vote"]
    assert found.cat.categories.tolist() == ["yes", "no"]
    assert found.cat.ordered
    assert found.isna().sum() == 1
    kept = tables.read(tmp_path / "data.parquet")["vote"]
    assert kept.cat.categories.tolist() == ["yes", "no", "refused"]


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_missing_values_of_arrays(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    tables.write(path, np.array([[1, 9], [2, 3]]), None)
    np.testing.assert_array_equal(tables.read(path, na=["9"]), [[1, np.nan], [2, 3]])
    assert tables.read(path, na=["x", 7]).dtype.kind == "i"
    assert tables.read(path).tolist() == [[1, 9], [2, 3]]


def test_spss_labels_become_categories(tmp_path):
    import pyreadstat

    frame = pd.DataFrame(
        {
            "sex": [1, 2, np.nan, 1],
            "degree": [1, 2, 4, 2],
            "ends": [1, 3, 5, 2],
            "region": [1, 2, 7, 2],
            "rate": [1, 2, 9, 3],
            "age": [30, 41, 52, 63],
            "word": ["a", "", "b", "a"],
            "double": [1, 2, 3, 3],
        }
    )
    levels = {1: "primary", 2: "secondary", 3: "college", 4: "university", 99: "refused"}
    pyreadstat.write_sav(
        frame,
        str(tmp_path / "data.sav"),
        variable_value_labels={
            "sex": {1: "male", 2: "female", 3: "other"},
            "degree": levels,
            "ends": {1: "low", 5: "high"},
            "region": {1: "north", 2: "south"},
            "rate": {1: "bad", 2: "fair", 3: "good", 9: "no answer"},
            "double": {1: "a", 2: "b", 3: "a"},
        },
        variable_measure={
            "sex": "nominal",
            "degree": "ordinal",
            "ends": "scale",
            "region": "nominal",
            "rate": "ordinal",
            "age": "scale",
        },
        missing_ranges={"rate": [9]},
    )
    found = tables.read(tmp_path / "data.sav")
    assert found["sex"].cat.categories.tolist() == ["male", "female"]
    assert not found["sex"].cat.ordered
    assert found["sex"].isna().tolist() == [False, False, True, False]
    assert found["degree"].cat.categories.tolist() == ["primary", "secondary", "college", "university"]
    assert found["degree"].cat.ordered
    assert found["degree"].cat.codes.tolist() == [0, 1, 3, 1]
    assert found["ends"].tolist() == [1, 3, 5, 2]
    assert found["region"].tolist() == ["north", "south", "7", "south"]
    assert found["rate"].cat.categories.tolist() == ["bad", "fair", "good"]
    assert found["rate"].isna().tolist() == [False, False, True, False]
    assert found["age"].tolist() == [30, 41, 52, 63]
    assert found["word"].isna().tolist() == [False, True, False, False]
    assert found["double"].tolist() == [1, 2, 3, 3]


def test_stata_labels_become_categories(tmp_path):
    import pyreadstat

    frame = pd.DataFrame({"sex": [1, 2, np.nan, 1], "ends": [1, 3, 5, 2], "age": [30, 41, 52, 63]})
    labels = {"sex": {1: "male", 2: "female"}, "ends": {1: "low", 5: "high"}}
    pyreadstat.write_dta(frame, str(tmp_path / "data.dta"), variable_value_labels=labels)
    found = tables.read(tmp_path / "data.dta")
    assert found["sex"].cat.categories.tolist() == ["male", "female"]
    assert not found["sex"].cat.ordered
    assert found["sex"].isna().tolist() == [False, False, True, False]
    assert found["ends"].tolist() == [1, 3, 5, 2]
    assert found["age"].tolist() == [30, 41, 52, 63]
    pyreadstat.write_dta(frame[["sex"]], str(tmp_path / "twice.dta"), variable_value_labels={"sex": {1: "x", 2: "x"}})
    assert tables.read(tmp_path / "twice.dta")["sex"].dropna().tolist() == [1, 2, 1]


@pytest.mark.parametrize(
    ("text", "names", "rows"),
    [
        ("a, b ,c\n1,2,x\n", ["a", "b", "c"], [[1, 2, "x"]]),
        ("a;b\n1;2\n", ["a", "b"], [[1, 2]]),
        ('"a;b",c\n5,yes\n1,no\n', ["a;b", "c"], [[5, "yes"], [1, "no"]]),
        ("a;b\n0,5;yes\n1;no\n-2,25;no\n", ["a", "b"], [[0.5, "yes"], [1.0, "no"], [-2.25, "no"]]),
        ("a;b\n1,5;1\n;2\n", ["a", "b"], [[1.5, 1], [None, 2]]),
        ("\ufeffa,b\n1,2\n", ["a", "b"], [[1, 2]]),
        ("  x y ,b\n1, yes\n", ["x y", "b"], [[1, "yes"]]),
        (",b\n1,2\n", ["Unnamed: 0", "b"], [[1, 2]]),
    ],
    ids=repr,
)
def test_headers_and_separators(text, names, rows, tmp_path):
    (tmp_path / "data.csv").write_text(text, encoding="utf-8")
    found = tables.read(tmp_path / "data.csv")
    assert list(found.columns) == names
    assert found.astype(object).where(found.notna(), None).to_numpy().tolist() == rows


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("1,2\n3,4\n", [[1, 2], [3, 4]]),
        ("1;2\n3;4\n", [[1, 2], [3, 4]]),
        ("0,5;2\n3;4,5\n", [[0.5, 2], [3, 4.5]]),
        ("-1,2.5\n3,\n", [[-1, 2.5], [3, None]]),
    ],
    ids=repr,
)
def test_a_first_line_of_numbers_is_data(text, rows, tmp_path):
    (tmp_path / "data.csv").write_text(text)
    found = tables.read(tmp_path / "data.csv")
    assert isinstance(found, np.ndarray)
    np.testing.assert_array_equal(found, np.array(rows, dtype=float))


def test_excel_without_a_header(tmp_path):
    pd.DataFrame([[1, 2], [3, 4]]).to_excel(tmp_path / "data.xlsx", header=False, index=False)
    np.testing.assert_array_equal(tables.read(tmp_path / "data.xlsx"), [[1, 2], [3, 4]])


@pytest.mark.parametrize("suffix", [".csv.gz", ".tsv.xz", ".csv", ".parquet", ".npz", ".npy"])
def test_numbers_survive(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    X = np.array([[1, -1], [1, 1]])
    tables.write(path, X, None if suffix == ".npy" else ["a", "b c"])
    found = tables.read(path)
    np.testing.assert_array_equal(found, X)
    assert tables.names_of(found) == (None if suffix == ".npy" else ["a", "b c"])
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_labels_survive(suffix, tmp_path):
    X = np.array([["yes", 1, -0.5], ["no", 2, 0.5]], dtype=object)
    tables.write(tmp_path / f"data{suffix}", X, ["vote", "n", "x"])
    found = tables.read(tmp_path / f"data{suffix}")
    assert found.to_numpy().tolist() == X.tolist()
    assert [dtype.kind for dtype in found.dtypes[1:]] == ["i", "f"]
    assert [dtype.kind for dtype in tables.as_frame(X, ["vote", "n", "x"]).dtypes[1:]] == ["i", "f"]


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_numpy_files_refuse_labels(suffix, tmp_path):
    path = tmp_path / f"data{suffix}"
    with pytest.raises(ValueError, match=r"hold numbers, and this table has labels: write \.csv or \.parquet"):
        tables.write(path, np.array([["yes", 1]], dtype=object), ["a", "b"])
    assert not path.exists()


def test_parquet_refuses_mixtures_with_a_remedy(tmp_path):
    X = np.array([["yes"], [1]], dtype=object)
    with pytest.raises(ValueError, match=r"write \.csv, which takes columns of any mixture"):
        tables.write(tmp_path / "data.parquet", X, ["a"])
    assert list(tmp_path.iterdir()) == []
    tables.write(tmp_path / "data.csv", X, ["a"])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "a,b,a\n1,2,3\n", "two columns are called 'a': give each a name of its own"),
        ("a.csv", "a, a \n1,2\n", "two columns are called 'a'"),
        ("a.csv", "a,b\n1,2,3\n4,5,6\n", "more cells than the header, which names 2 columns"),
        ("a.csv", "", "a.csv: "),
        ("a.csv", "a,b\n", r"shape \(0, 2\)"),
        ("a.xlsx", "nothing", "a.xlsx: "),
        ("a.sav", "nothing", "a.sav: "),
        ("a.dta", "nothing", "a.dta: "),
        ("a.parquet", "nothing", "a.parquet: "),
        ("a.npy", "nothing", "a.npy: "),
        ("a.txt", "a", r"the format \.txt is not known; use \.csv.*\.sav or \.dta"),
        ("a", "a", r"\(no suffix\) is not known"),
    ],
)
def test_bad_tables_are_refused(name, text, message, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=message):
        tables.read(tmp_path / name)


def test_other_encodings_are_refused_with_a_remedy(tmp_path):
    (tmp_path / "a.csv").write_bytes("nom,âge\nÉlise,3\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"it is not UTF-8 text .*: save it as UTF-8"):
        tables.read(tmp_path / "a.csv")


def test_names_that_are_no_text_become_text(tmp_path):
    pd.DataFrame([[1, 2]], columns=["a", "b"]).rename(columns={"b": " c "}).to_parquet(tmp_path / "a.parquet")
    assert list(tables.read(tmp_path / "a.parquet").columns) == ["a", "c"]
    pd.DataFrame([["q", 7], [1, 2]]).to_excel(tmp_path / "a.xlsx", header=False, index=False)
    assert list(tables.read(tmp_path / "a.xlsx").columns) == ["q", "7"]
    pd.DataFrame([["q", "q"], [1, 2]]).to_excel(tmp_path / "b.xlsx", header=False, index=False)
    with pytest.raises(ValueError, match="two columns are called 'q'"):
        tables.read(tmp_path / "b.xlsx")


@pytest.mark.parametrize(
    ("module", "suffix", "extra"),
    [("pyreadstat", ".sav", "spss"), ("openpyxl", ".xlsx", "excel"), ("pyarrow", ".parquet", "parquet")],
)
def test_what_is_not_installed_is_named(module, suffix, extra, tmp_path, monkeypatch):
    path = tmp_path / f"data{suffix}"
    write_any(path, FRAME)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf"hbm-learn\[{extra}\]"):
        tables.read(path)
    if suffix == ".parquet":
        with pytest.raises(ImportError, match=rf"hbm-learn\[{extra}\]"):
            tables.write(path, np.ones((1, 1)), ["a"])


@pytest.mark.parametrize("suffix", [".xlsx", ".sav", ".dta"])
def test_formats_that_are_only_read(suffix, tmp_path):
    for attempt in (lambda path: tables.write(path, np.ones((1, 1)), ["a"]), tables.require_frame_format):
        with pytest.raises(ValueError, match=rf"\{suffix} files are read, but not written; use \.csv"):
            attempt(tmp_path / f"data{suffix}")


def test_some_columns():
    assert list(tables.choose_columns(FRAME, ["x", "sex"]).columns) == ["x", "sex"]
    assert list(tables.choose_columns(FRAME, None, ["x", "sex"]).columns) == ["trust in press", "vote"]
    assert tables.choose_columns(FRAME) is FRAME
    with pytest.raises(ValueError, match="no column 'y'; the columns are sex, trust in press"):
        tables.choose_columns(FRAME, ["y"])
    with pytest.raises(ValueError, match="no column is left"):
        tables.choose_columns(FRAME, ["x"], ["x"])
