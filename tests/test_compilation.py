"""Where compiled code cannot be kept, and where nothing is compiled: the results are the same."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from hbm_learn import HBM, sample
from hbm_learn._kernels import ahead, caches, codes
from hbm_learn._kernels.caches import Files
from hbm_learn._kernels.compiled import njit

ROOT = Path(__file__).parents[1]
CODE = """
import sys, numpy as np
from hbm_learn import HBM, sample, infer
import hbm_learn._kernels.codes as kernels
X = np.load(sys.argv[1])
est = HBM(order=2, random_state=0).fit(X)
rows = sample(est.model_, 8, method="gibbs", n_chains=4, burn_in=2, random_state=1)
np.savez(sys.argv[2], weights=est.weights_, rows=rows, m=infer(est.model_).m)
print(kernels.count.stats.cache_path if hasattr(kernels.count, "stats") else None)
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
    """And with numba's own decorator it is not: the negative control."""
    package, environment = without_folders(tmp_path)
    code = """
import numba, hbm_learn._kernels.codes as kernels
print(hbm_learn.__file__, kernels.count.stats.cache_path)
numba.njit(cache=True)(kernels.count.py_func)
"""
    settings = {**os.environ, "PYTHONPATH": str(package), **environment}
    done = subprocess.run(
        [sys.executable, "-c", "import hbm_learn" + code], env=settings, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.split() == [str(package / "hbm_learn" / "__init__.py"), f"{os.devnull}/nowhere"]
    assert "no locator available" in done.stderr


@pytest.mark.slow
def test_without_a_folder_for_the_cache_results_are_the_same(tmp_path):
    package, environment = without_folders(tmp_path)
    run(tmp_path, package, f"{os.devnull}/nowhere", **environment)


def test_without_compilation_results_are_the_same(tmp_path):
    run(tmp_path, ROOT, "None", NUMBA_DISABLE_JIT="1")


class Full(Files):
    """As where the disk is full."""

    def save(self, key, data):
        raise OSError(28, "No space left on device")


def double(x):
    return 2 * x


def compiled(folder, files=Files):
    """``double`` as a kernel that keeps its code in a folder, not yet compiled."""
    made = njit(cache=True, nogil=True)(double).ready()
    vars(vars(made)["_cache"])["_cache_file"] = files([folder], "double")
    return made


def test_a_full_disk_is_no_reason_not_to_compute(tmp_path):
    made = compiled(tmp_path, Full)
    assert made(21) == 42
    assert made(1.5) == 3.0
    assert not list(tmp_path.iterdir())


def test_compiled_code_is_found_again(tmp_path):
    first, again = compiled(tmp_path), compiled(tmp_path)
    assert first(21) == 42
    assert again(21) == 42
    assert sum(first.stats.cache_misses.values()) == sum(again.stats.cache_hits.values()) == 1
    assert first(1.5) == 3.0
    assert len(list(tmp_path.iterdir())) == 2  # a file each, whole


def test_a_damaged_file_is_compiled_anew(tmp_path):
    assert compiled(tmp_path)(21) == 42
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    for size in (0, 5, len(whole) // 2, len(whole) - 9):  # a writer was killed, or the disk was full
        kept.write_bytes(whole[:size])
        again = compiled(tmp_path)
        assert again(21) == 42
        assert sum(again.stats.cache_misses.values()) == 1
        found = compiled(tmp_path)
        assert found(21) == 42
        assert sum(found.stats.cache_hits.values()) == 1  # written anew, whole


def other_processor(monkeypatch):
    class Codegen(type(double_codegen())):
        def magic_tuple(self):
            triple, _, features = super().magic_tuple()
            return triple, "another", features

    monkeypatch.setattr(double_codegen(), "__class__", Codegen)


def other_sources(monkeypatch):
    monkeypatch.setattr(caches, "stamp", lambda: ("another",))


def other_bytecode(monkeypatch):
    def double(x):
        return x * 2 + 0 * x

    monkeypatch.setitem(globals(), "double", double)


def double_codegen():
    return njit(cache=True)(double).ready().targetctx.codegen()


@pytest.mark.parametrize("other", [other_processor, other_sources, other_bytecode])
def test_code_for_something_else_is_not_loaded(other, tmp_path, monkeypatch):
    """Not even where a file has the very name that is looked for."""
    assert compiled(tmp_path)(21) == 42
    (kept,) = tmp_path.iterdir()
    other(monkeypatch)
    monkeypatch.setattr(Files, "_path", lambda *_: kept)
    again = compiled(tmp_path)
    assert again(21) == 42
    assert not again.stats.cache_hits


def test_code_that_was_compiled_ahead_comes_first_and_is_not_written(tmp_path, monkeypatch):
    ahead, own = tmp_path / "ahead", tmp_path / "own"
    ahead.mkdir()
    own.mkdir()
    assert compiled(ahead)(21) == 42
    made = compiled(own)
    vars(vars(made)["_cache"])["_cache_file"] = Files([ahead, own], "double")
    assert made(21) == 42
    assert sum(made.stats.cache_hits.values()) == 1
    assert not list(own.iterdir())
    assert made(1.5) == 3.0
    assert len(list(ahead.iterdir())) == len(list(own.iterdir())) == 1


def test_kernels_keep_their_compiled_code():
    """Where they can: the cache is in its place, and has been asked."""
    X = np.zeros((4, 2), dtype=np.uint8)
    out = np.zeros(4, dtype=np.int64)
    codes.count(X, np.array([0, 2]), np.array([2, 2]), out)
    assert out.tolist() == [4, 0, 4, 0]
    stats = codes.count.stats
    assert stats.cache_path is not None
    assert sum(stats.cache_hits.values()) + sum(stats.cache_misses.values()) > 0


def test_every_kernel_is_compiled_by_the_same_decorator():
    for path in (ROOT / "hbm_learn" / "_kernels").glob("*.py"):
        assert path.name == "compiled.py" or "from numba import njit" not in path.read_text(), path.name


# ---------------------------------------------------------------------- deferred


def test_numba_is_imported_with_the_first_kernel():
    code = """
import sys, hbm_learn
from hbm_learn.cli.main import build_parser
build_parser()
print("numba" in sys.modules)
hbm_learn.Moments.from_samples([[0, 1], [1, 0], [1, 1]])
print("numba" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_threads_that_call_a_kernel_at_once_find_it_whole():
    """A kernel that calls another of its module, from a module that nobody has used."""
    code = """
import sys, threading, numpy as np
sys.setswitchinterval(1e-6)
from hbm_learn._kernels import polynomial
m, members, indptr, weights = np.ones(3), np.array([0, 1, 2]), np.array([0, 3]), np.ones(1)
found, barrier = [], threading.Barrier(8)
def work():
    barrier.wait()
    found.append(polynomial.hessian(m, members, indptr, weights).sum())
threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(found == [6.0] * 8)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


# ---------------------------------------------------------------------- compiled ahead


def test_listed_calls_are_read_as_they_were_written():
    lines = ahead.LISTED.read_text().splitlines()
    assert lines == sorted(set(lines))
    known = dict(ahead.kernels())
    for line in lines:
        name, *signature = line.split()
        assert name in known
        assert [ahead.written(ahead.read(text)) for text in signature] == signature


def test_listed_calls_can_be_compiled(tmp_path):
    """A few of them: each is found afterwards by a process that makes the call."""
    code = """
import sys
from pathlib import Path
from hbm_learn._kernels import ahead, caches
lines = [line for line in ahead.LISTED.read_text().splitlines() if line.startswith("codes.")]
Path(sys.argv[2]).write_text("\\n".join(lines))
ahead.LISTED = Path(sys.argv[2])
ahead.fill(Path(sys.argv[1]), 0, 1)
"""
    folder = tmp_path / "kept"
    subprocess.run([sys.executable, "-c", code, str(folder), str(tmp_path / "list")], check=True)
    code = """
import sys
from pathlib import Path
from hbm_learn._kernels import caches
caches.AHEAD = Path(sys.argv[1])
import numpy as np
from hbm_learn._kernels import codes
out = np.zeros(4, dtype=np.int64)
codes.count(np.zeros((4, 2), dtype=np.uint8), np.array([0, 2]), np.array([2, 2]), out)
print(out.tolist() == [4, 0, 4, 0], sum(codes.count.stats.cache_hits.values()))
"""
    settings = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "empty")}
    command = [sys.executable, "-c", code, str(folder)]
    done = subprocess.run(command, env=settings, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "1"]


@pytest.mark.slow
def test_the_main_command_calls_nothing_that_is_not_listed(tmp_path):
    """Where it does, ``python benchmarks/bench_first_contact.py --record`` writes the list anew."""
    spec = importlib.util.spec_from_file_location("first_contact", ROOT / "benchmarks" / "bench_first_contact.py")
    first_contact = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(first_contact)
    found = first_contact.calls_of_the_main_command()
    assert set(found) - set(ahead.LISTED.read_text().splitlines()) == set()
