"""The planted data set: made again byte for byte, and true to its truth."""

import runpy
from pathlib import Path

import numpy as np
import pytest

from hbm_learn import datasets, infer

FOLDER = Path(__file__).resolve().parents[1] / "datasets"
FILES = ["planted_triplets.csv", "planted_triplets_truth.json"]


def test_script_makes_the_same_files(tmp_path):
    runpy.run_path(str(FOLDER / "make_planted_triplets.py"))["write"](tmp_path)
    for name in FILES:
        assert (tmp_path / name).read_bytes() == (FOLDER / name).read_bytes(), name


def test_shape_names_and_strengths():
    planted = datasets.load_planted_triplets()
    assert planted.data.shape == (10_000, 20)
    assert set(np.unique(planted.data)) == {-1, 1}
    assert planted.feature_names == [f"x{i}" for i in range(20)]
    assert [len(planted.model.packed.block(k)) for k in (2, 3)] == [20, 12]
    assert (np.abs(planted.model.weights) >= 0.1).all()
    assert (np.abs(planted.model.weights) <= 0.3).all()


def z_of_moments(data, model):
    """(model − data) of all means and interaction moments, in standard errors."""
    exact = infer(model, "exact")
    products = np.stack([data[:, mu].prod(axis=1) for mu in model.packed.tuples])
    expected = np.concatenate([exact.m, exact.interaction_moments])
    observed = np.concatenate([data.mean(axis=0), products.mean(axis=1)])
    return (observed - expected) / np.sqrt((1 - expected**2) / len(data))


def test_moments_are_those_of_the_truth():
    planted = datasets.load_planted_triplets()
    assert np.abs(z_of_moments(planted.data, planted.model)).max() < 4.5
    wrong = planted.data[:, ::-1]  # negative control: columns in another order
    assert np.abs(z_of_moments(wrong, planted.model)).max() > 10


@pytest.mark.parametrize("name", FILES)
def test_small_enough_to_ship(name):
    assert (FOLDER / name).stat().st_size < 600_000
