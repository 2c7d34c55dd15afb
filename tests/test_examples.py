"""The paper's experiments in small, and the notebooks as they are committed."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


paper_figures = load("benchmarks/paper_figures.py")


@pytest.mark.parametrize("alphabet", ["ising", "ternary"])
def test_dc_beats_naive_in_the_papers_experiment(alphabet):
    rows = [paper_figures.trial(alphabet, 0.3, seed, damped=seed < 2) for seed in range(6)]
    point = paper_figures.point(rows, 0.3)
    assert point["dc_converged"] == 1.0
    assert point["dc_mse_m"] < 0.1 * point["naive_mse_m"]
    assert point["dc_log_z"] < 0.2 * point["naive_log_z"]
    assert (point["trials"], point["damped_trials"]) == (6, 2)
    assert np.isclose(point["naive_mse_m"], np.mean([row["naive_mse_m"] for row in rows]), rtol=1e-3)


def test_damped_iteration_can_fail_where_the_path_arrives():
    rows = [paper_figures.trial("ising", 0.9, seed, damped=True) for seed in range(4)]
    point = paper_figures.point(rows, 0.9)
    assert point["dc_converged"] == 1.0
    assert point["damped_converged"] < 1.0


@pytest.mark.parametrize("power", [-0.5, -1.0])
def test_exponents_are_those_of_power_laws(power):
    sizes = np.array([20, 40, 80, 160])
    noise = np.random.default_rng(0).chisquare(4, (4, 500)) / 4
    found, error = paper_figures._exponent(sizes, sizes[:, None] ** (2 * power) * noise)
    assert abs(found - power) < 4 * error
    assert error < 0.05


def test_the_onsager_term_is_the_leading_part_of_lambda():
    small = paper_figures.p_spin_trial(12, seed=0, J=0.1)
    assert small["converged"]
    assert np.sqrt(small["site"]) < 0.05 * small["Lambda"]
    assert small["beyond_triangles"] < small["site"]


def test_stored_results_are_complete():
    stored = json.loads((ROOT / "docs" / "results" / "paper_figures.json").read_text())
    for name in paper_figures.ALPHABETS:
        assert [row["sigma"] for row in stored[name]] == list(paper_figures.SIGMAS)
        assert all(row["trials"] == 1000 and row["dc_converged"] == 1.0 for row in stored[name])
    assert stored["p_spin"]["N"] == list(paper_figures.SIZES)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=[path.stem for path in NOTEBOOKS])
def test_notebooks_are_committed_without_outputs(path):
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert re.match(r"# \w", "".join(cells[0]["source"]))
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)
    assert path.stem in (ROOT / "docs" / "notebooks.md").read_text(encoding="utf-8")
