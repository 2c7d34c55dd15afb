"""Under load and in odd places: few files, little memory, forks, threads, workers that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from joblib.externals.loky.process_executor import TerminatedWorkerError
from sklearn.model_selection import cross_val_score

from hbm_learn import HBM, datasets, sample
from hbm_learn.cli import main

ROOT = Path(__file__).parents[1]
X = sample(datasets.make_planted(6, {2: 5, 3: 1}, random_state=3), 300, method="exact", random_state=4)


def fitted(n_jobs: int | None = None) -> np.ndarray:
    return HBM(order=2, refine="pseudolikelihood", n_jobs=n_jobs, random_state=0).fit(X).weights_


def python(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A fresh process, in a folder of its own."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


FEW_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (16, 16))
from hbm_learn.cli import main
sys.exit(main("fit data.csv --order 2 -o model.npz --table table.csv --report report.html".split()))
"""


def test_sixteen_files_are_enough(tmp_path):
    pd.DataFrame(X, columns=list("abcdef")).to_csv(tmp_path / "data.csv", index=False)
    done = python(FEW_FILES, tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "model.npz", "report.html", "table.csv"]


LITTLE_MEMORY = """
import resource, numpy as np
from hbm_learn import HBM
rng = np.random.default_rng(0)
small, large = rng.choice([-1, 1], (200, 6)), rng.choice([-1, 1], (300, 2500))
est = HBM(order=2, refine="pseudolikelihood", n_jobs=1).fit(small)
before = est.weights_.copy()
pages = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (pages + 2**26, -1))
try:
    est.fit(large)
except (MemoryError, ValueError) as error:
    print("refused", type(error).__name__)
assert np.array_equal(est.weights_, before), "the previous fit is whole"
again = HBM(order=2, refine="pseudolikelihood", n_jobs=1).fit(small)
assert np.array_equal(again.weights_, before), "and what fits is fitted"
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the size of a process is read from /proc")
def test_little_memory_is_an_error_that_leaves_everything_whole(tmp_path):
    done = python(LITTLE_MEMORY, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused")


FORK = """
import os, numpy as np
from hbm_learn import HBM
X = np.random.default_rng(0).choice([-1, 1], (3000, 12))
fit = lambda: HBM(order=2, refine="pseudolikelihood", n_jobs=2, random_state=0).fit(X).weights_
before = fit()
child = os.fork()
if not child:
    os._exit(0 if np.array_equal(fit(), before) else 3)
assert np.array_equal(fit(), before)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a system without fork")
def test_a_fork_after_threads_computes_the_same(tmp_path):
    done = python(FORK, tmp_path)
    assert done.returncode == 0, done.stderr


def test_fits_in_several_threads_are_those_of_one():
    expected, found = fitted(), {}
    threads = [threading.Thread(target=lambda k=k: found.update({k: fitted(2)})) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    # The number of BLAS threads is one for all threads of a process, and where they meet sums are rounded differently.
    for weights in found.values():
        np.testing.assert_allclose(weights, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood", "screening", None])
def test_any_number_of_threads_gives_the_same_numbers(refine):
    one, two, all_cores = (HBM(order=3, refine=refine, n_jobs=n, random_state=0).fit(X).to_frame() for n in (1, 2, -1))
    pd.testing.assert_frame_equal(one, two, check_exact=True)
    pd.testing.assert_frame_equal(one, all_cores, check_exact=True)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_said_and_the_next_call_works():
    expected = cross_val_score(HBM(order=2), X, cv=3)
    parallel = Parallel(n_jobs=2, backend="loky")
    with pytest.raises(TerminatedWorkerError):
        parallel(delayed(die)() for _ in range(2))
    np.testing.assert_array_equal(cross_val_score(HBM(order=2), X, cv=3, n_jobs=2), expected)


@pytest.mark.parametrize("option", ["-o", "--table", "--report"])
@pytest.mark.parametrize("place", ["/proc/hbm", "no/such/folder/file"])
def test_what_cannot_be_written_is_one_line(option, place, tmp_path, capsys, monkeypatch):
    """/proc takes no files, whoever asks."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(X, columns=list("abcdef")).to_csv("data.csv", index=False)
    name = place + {"-o": ".npz", "--table": ".csv", "--report": ".html"}[option]
    assert main(["fit", "data.csv", "--order", "2", option, name]) == 2
    err = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(err) == 1
    assert name in err[0]
    assert [path.name for path in tmp_path.iterdir()] == ["data.csv"]
