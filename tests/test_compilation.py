"""Where compiled code cannot be kept, and where nothing is compiled: the results are the same."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hbm_learn import HBM, sample
from hbm_learn._kernels import codes
from hbm_learn._kernels.compiled import ForgivingCache

ROOT = Path(__file__).parents[1]
CODE = """
import sys, numpy as np
from hbm_learn import HBM, sample, infer
import hbm_learn._kernels.codes as kernels
X = np.load(sys.argv[1])
est = HBM(order=2, random_state=0).fit(X)
rows = sample(est.model_, 8, method="gibbs", n_chains=4, burn_in=2, random_state=1)
np.savez(sys.argv[2], weights=est.weights_, rows=rows, m=infer(est.model_).m)
print(type(getattr(kernels.count, "_cache", None)).__name__)
"""


def run(tmp_path, package, expected, **environment):
    """What a fresh interpreter computes from a copy of the package, warnings as errors."""
    np.save(tmp_path / "X.npy", data())
    settings = {**os.environ, "PYTHONPATH": str(package), "PYTHONWARNINGS": "error::RuntimeWarning", **environment}
    command = [sys.executable, "-c", CODE, str(tmp_path / "X.npy"), str(tmp_path / "out.npz")]
    done = subprocess.run(command, env=settings, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == expected
    est = HBM(order=2, random_state=0).fit(data())
    with np.load(tmp_path / "out.npz") as found:
        np.testing.assert_allclose(found["weights"], est.weights_, rtol=0, atol=1e-10)
        rows = sample(est.model_, 8, method="gibbs", n_chains=4, burn_in=2, random_state=1)
        np.testing.assert_array_equal(found["rows"], rows)


def data():
    return np.random.default_rng(3).choice([-1, 1], (60, 3))


def without_folders(tmp_path):
    """A copy of the package and a home that cannot hold a cache: files stand where its folders would be.

    Permissions would not do, as nothing keeps root from writing.
    """
    package = tmp_path / "site"
    shutil.copytree(ROOT / "hbm_learn", package / "hbm_learn", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "datasets", package / "datasets")
    for folder in [package / "hbm_learn", *(package / "hbm_learn").rglob("*/")]:
        (folder / "__pycache__").write_text("in the way")
    (tmp_path / "home").write_text("no folder")
    home = {"HOME": str(tmp_path / "home"), "XDG_CACHE_HOME": str(tmp_path / "home"), "MPLCONFIGDIR": str(tmp_path)}
    return package, {"PYTHONDONTWRITEBYTECODE": "1", **home}


def test_without_a_folder_for_the_cache_the_package_is_imported(tmp_path):
    """And numba's own decorator is not: the negative control."""
    package, environment = without_folders(tmp_path)
    code = """
import numba, hbm_learn._kernels.codes as kernels
print(hbm_learn.__file__, type(kernels.count._cache).__name__)
numba.njit(cache=True)(kernels.count.py_func)
"""
    settings = {**os.environ, "PYTHONPATH": str(package), **environment}
    done = subprocess.run(
        [sys.executable, "-c", "import hbm_learn" + code], env=settings, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(package / "hbm_learn" / "__init__.py"), "NullCache"]
    assert "no locator available" in done.stderr


@pytest.mark.slow
def test_without_a_folder_for_the_cache_results_are_the_same(tmp_path):
    package, environment = without_folders(tmp_path)
    run(tmp_path, package, "NullCache", **environment)


def test_without_compilation_results_are_the_same(tmp_path):
    run(tmp_path, ROOT, "NoneType", NUMBA_DISABLE_JIT="1")


class Broken(ForgivingCache):
    """As where the disk is full and a file was cut off."""

    def _load_overload(self, sig, target_context):
        raise EOFError

    def _save_overload(self, sig, data):
        raise OSError(28, "No space left on device")


def test_a_full_disk_and_a_damaged_cache_are_no_reason_not_to_compute():
    from hbm_learn._kernels.compiled import njit

    def double(x):
        return 2 * x

    made = njit(cache=True, nogil=True)(double)
    vars(made)["_cache"] = Broken(double)
    assert made(21) == 42
    assert made(1.5) == 3.0


def test_kernels_keep_their_compiled_code():
    """Where they can: the forgiving cache is in its place, and has been asked."""
    X = np.zeros((4, 2), dtype=np.uint8)
    out = np.zeros(4, dtype=np.int64)
    codes.count(X, np.array([0, 2]), np.array([2, 2]), out)
    assert out.tolist() == [4, 0, 4, 0]
    assert isinstance(vars(codes.count)["_cache"], ForgivingCache)
    assert codes.count.stats.cache_path is not None
    assert sum(codes.count.stats.cache_hits.values()) + sum(codes.count.stats.cache_misses.values()) > 0


def test_every_kernel_is_compiled_by_the_same_decorator():
    for path in (ROOT / "hbm_learn" / "_kernels").glob("*.py"):
        assert path.name == "compiled.py" or "from numba import njit" not in path.read_text(), path.name
