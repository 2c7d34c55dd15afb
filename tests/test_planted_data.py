"""The planted data sets: made again byte for byte, true to their truth, and there wherever the package is."""

import runpy
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hbm_learn import datasets, infer

FOLDER = Path(__file__).resolve().parents[1] / "datasets"
SETS = ["planted_triplets", "planted_survey"]
FILES = [f"{name}{end}" for name in SETS for end in (".csv", "_truth.json")]


@pytest.mark.parametrize("name", SETS)
def test_script_makes_the_same_files(tmp_path, name):
    runpy.run_path(str(FOLDER / f"make_{name}.py"))["write"](tmp_path)
    for file in (f"{name}.csv", f"{name}_truth.json"):
        assert (tmp_path / file).read_bytes() == (FOLDER / file).read_bytes(), file


def test_shape_names_and_strengths():
    planted = datasets.load_planted_triplets()
    assert planted.data.shape == (10_000, 20)
    assert set(np.unique(planted.data)) == {-1, 1}
    assert planted.feature_names == [f"x{i}" for i in range(20)]
    assert [len(planted.model.columns.block(k)) for k in (2, 3)] == [20, 12]
    assert (np.abs(planted.model.weights) >= 0.1).all()
    assert (np.abs(planted.model.weights) <= 0.3).all()


def z_of_moments(data, model):
    """(model − data) of all means and interaction moments, in standard errors."""
    exact = infer(model, "exact")
    products = np.stack([data[:, mu].prod(axis=1) for mu in model.columns.tuples])
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


# ---------------------------------------------------------------------- the survey


def test_survey_is_a_frame_of_different_kinds():
    survey = datasets.load_planted_survey()
    data, model = survey.data, survey.model
    assert isinstance(data, pd.DataFrame)
    assert data.shape == (3000, 12)
    assert list(data.columns) == survey.feature_names
    assert 0.015 < data.isna().to_numpy().mean() < 0.025
    assert data.isna().any().all()
    for name, alphabet in zip(data, model.space.alphabets):
        assert sorted(data[name].dropna().unique().tolist()) == alphabet.values.tolist(), name
    assert [int(a.is_nominal) for a in model.space.alphabets] == [1] * 4 + [0] * 8
    assert [sum(len(mu) == k for mu in model.interactions) for k in (2, 3)] == [14, 2]
    assert model.space.enumerable(2**22)
    assert any(" " in name for name in survey.feature_names)


def counts_of(model, codes, rows):
    """Expected less observed counts of every pair of values of every pair of variables, in standard errors."""
    energy = model.energy_of_codes(codes)
    p = np.exp(energy.min() - energy)
    p /= p.sum()
    out = []
    for i in range(model.n_features):
        for j in range(i):
            complete = (rows[:, i] >= 0) & (rows[:, j] >= 0)
            expected, observed = np.zeros(model.space.sizes[[i, j]]), np.zeros(model.space.sizes[[i, j]])
            np.add.at(expected, (codes[:, i], codes[:, j]), p)
            np.add.at(observed, tuple(rows[complete][:, [i, j]].T), 1)
            M = complete.sum()
            out.append(((observed - M * expected) / np.sqrt(M * expected * (1 - expected))).ravel())
    return np.concatenate(out)


def test_survey_follows_its_truth():
    survey = datasets.load_planted_survey()
    model = survey.model
    sizes = model.space.sizes.tolist()
    codes = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1).astype(np.uint8)
    rows = np.full(survey.data.shape, -1)
    for i, (name, alphabet) in enumerate(zip(survey.data, model.space.alphabets)):
        for code, value in enumerate(alphabet.values.tolist()):
            rows[survey.data[name] == value, i] = code
    z = counts_of(model, codes, rows)
    assert np.abs(z).max() < 4.5
    assert z.std() == pytest.approx(1.0, abs=0.15)
    wrong = np.abs(counts_of(model, codes, rows[:, [0, 1, 3, 2, *range(4, 12)]]))  # negative control: two swapped
    assert wrong.max() > 8


# ---------------------------------------------------------------------- packaging


def test_every_package_is_listed_and_every_file_is_shipped():
    root = FOLDER.parent
    setup = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent.relative_to(root) for path in (root / "hbm_learn").rglob("__init__.py")}
    assert set(setup["packages"]) == {".".join(folder.parts) for folder in folders} | {"hbm_learn.shipped"}
    assert setup["package-dir"] == {"hbm_learn.shipped": "datasets"}
    shipped = {path.name for pattern in setup["package-data"]["hbm_learn.shipped"] for path in FOLDER.glob(pattern)}
    assert shipped == set(FILES)
