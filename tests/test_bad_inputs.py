"""Every case of the table of bad inputs, and the page that is made of it."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bad_inputs import CASES, PAGE, namespace, page
from sklearn.exceptions import NotFittedError

from hbm_learn.cli import main

ERRORS = {"ValueError": ValueError, "TypeError": TypeError, "NotFittedError": NotFittedError}


@pytest.fixture(scope="module")
def everything():
    return namespace()


@pytest.fixture(scope="module")
def folder(everything, tmp_path_factory):
    """The files that commands are given."""
    path = tmp_path_factory.mktemp("bad")
    everything["frame"].to_csv(path / "data.csv", index=False)
    everything["model"].save(path / "model.npz")
    for name, text in {
        "data.txt": "1 2",
        "empty.csv": "",
        "ragged.csv": "a,b\n1\n2,3,4\n",
        "twice.csv": "a,a\n1,2\n",
        "empty.txt": "",
        "head.csv": "a,b\n",
    }.items():
        (path / name).write_text(text)
    everything["with_given"].model_.save(path / "given.npz")
    more = everything["frame"].assign(id=[f"s{k // 5}" for k in range(200)], g=np.arange(200) % 3)
    more.to_csv(path / "more.csv", index=False)
    np.save(path / "vector.npy", np.arange(5))
    np.save(path / "objects.npy", np.array([{}, 1], dtype=object))
    np.savez(path / "two.npz", a=everything["X"], b=everything["X"])
    (path / "folder").mkdir()
    (path / "binary.csv").write_bytes(b"\xff\xfe\x00a,b\n")
    (path / "broken.npz").write_bytes(b"PK nothing")
    return path


@pytest.mark.parametrize("case", [c for c in CASES if c.error in ERRORS], ids=lambda case: case.code)
def test_bad_input_is_answered(case, everything):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message=".*rows? of X with missing values left out")
        with pytest.raises(ERRORS[case.error]) as caught:
            eval(case.code, dict(everything))
    message = str(caught.value)
    assert case.names in message
    assert case.remedy in message


@pytest.mark.parametrize("case", [c for c in CASES if c.error is None], ids=lambda case: case.code)
def test_odd_input_has_its_documented_result(case, everything):
    with warnings.catch_warnings():
        assert repr(eval(case.code, dict(everything))) == case.names


@pytest.mark.parametrize("case", [c for c in CASES if c.error == "SystemExit"], ids=lambda case: case.code)
def test_bad_commands_are_answered_on_one_line(case, folder, capsys, monkeypatch):
    monkeypatch.chdir(folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    def command(text):
        try:
            return main(text.split())
        except SystemExit as stop:
            return stop.code

    assert eval(case.code, {"command": command}) == 2
    err = capsys.readouterr().err
    assert err.startswith("hbm-learn: error: ")
    assert err.count("\n") == 1
    assert case.names in err
    assert case.remedy in err
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_the_page_is_the_table():
    assert PAGE.read_text(encoding="utf-8") == page(), "run  python tests/bad_inputs.py"


def test_the_table_is_long_and_each_case_is_there_once():
    assert len(CASES) >= 300
    assert len({case.code for case in CASES}) == len(CASES)
    assert sum(bool(case.remedy) for case in CASES if case.error) > 0.85 * len(CASES)


def test_a_cross_validation_says_so_too(everything):
    """scikit-learn's own way: the fold that fails scores NaN, with a warning that holds our message."""
    from sklearn.exceptions import FitFailedWarning

    call = "cross_val_score(HBM(order=2), rare, cv=KFold(2))"
    with pytest.warns(FitFailedWarning, match="column 'rare' is constant"):
        scores = eval(call, dict(everything))
    assert pd.isna(scores).sum() == 1


def test_the_page_is_in_the_index():
    assert "\nerrors\n" in (Path(PAGE).parent / "index.md").read_text(encoding="utf-8")
