"""dask tables: the same numbers as of the table in memory, and hardly anything of the rows comes here."""

from __future__ import annotations

import logging
import os
import pickle
import signal
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from joblib.parallel import ThreadingBackend

from hbm_learn import HBM, BoltzmannMachine, Moments, assessment, datasets, sample
from hbm_learn.assessment.node_data import DistinctRows
from hbm_learn.data import rows as rows_module
from hbm_learn.data.chunks import Chunks
from hbm_learn.data.reduce import each
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.composite import pseudolikelihood, sandwich, screening, thinning
from hbm_learn.inversion.composite.hessian import diagonal_and_own, hessian, score_covariance
from hbm_learn.inversion.composite.objective import HessianProducts, Objective
from hbm_learn.inversion.composite.probes import with_signs
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.terms import all_terms

M = 12_000
KINDS = ("spins", "mixed", "nominal")


def frame(kind: str) -> pd.DataFrame:
    """Six dependent columns; more cells than are read here."""
    rng = np.random.default_rng(3)
    common = rng.integers(0, 3, M)

    def column(q: int) -> np.ndarray:
        return np.where(rng.random(M) < 0.25, common % q, rng.integers(0, q, M))

    if kind == "spins":
        return pd.DataFrame({name: 2 * column(2) - 1 for name in "abcdef"})
    labels = {name: np.array(list("xyz"))[column(3)] for name in "ab"}
    if kind == "nominal":
        more = {name: pd.Categorical(np.array(["u", "v", "w"])[column(3)]) for name in "cdef"}
        return pd.DataFrame({**labels, **more})
    ratings = {"c": column(5), "d": column(2).astype(bool), "e": column(3) - 0.5, "f": 2 * column(2) - 1}
    return pd.DataFrame({**labels, **ratings})


def weights(kind: str | None) -> np.ndarray | None:
    rng = np.random.default_rng(4)
    if kind is None:
        return None
    return rng.integers(0, 4, M) if kind == "whole" else rng.exponential(size=M)


def far(table: Any, n_chunks: int = 5) -> Any:
    """The table in chunks of unequal size."""
    if isinstance(table, pd.DataFrame):
        return dd.from_pandas(table, npartitions=n_chunks)
    edges = np.linspace(0, 1, n_chunks + 1) ** 1.3 * len(table)
    sizes = np.diff(edges.astype(int))
    return da.from_array(table, chunks=(tuple(sizes.tolist()), -1))


class Traffic:
    """Bytes of everything that dask brings here."""

    def __init__(self) -> None:
        self.n_bytes = 0

    @contextmanager
    def counted(self, patch: pytest.MonkeyPatch) -> Iterator[Traffic]:
        compute = dask.compute

        def counting(*args: Any, **kwargs: Any) -> Any:
            found = compute(*args, **kwargs)
            self.n_bytes += len(pickle.dumps(found))
            return found

        with patch.context() as inner:
            inner.setattr(dask, "compute", counting)
            yield self


@pytest.fixture(scope="module")
def wide() -> np.ndarray:
    """Too many states and too many different rows to be listed."""
    model = datasets.make_random(24, {2: 0.12}, 0.2, random_state=1)
    return sample(model, 40_000, random_state=2, method="gibbs").astype(np.int8)


# ---------------------------------------------------------------------- moments


@pytest.mark.parametrize("weight", [None, "whole", "real"])
@pytest.mark.parametrize("kind", KINDS)
def test_moments(kind, weight):
    table, w = frame(kind), weights(weight)
    here, there = (Moments.from_samples(X, 3, sample_weight=w) for X in (table, far(table)))
    assert here.space == there.space
    assert here.feature_names == there.feature_names
    if weight != "real":
        assert here == there
    for k in (1, 2, 3):
        np.testing.assert_allclose(there.cumulant(k), here.cumulant(k), atol=1e-12)
    np.testing.assert_allclose(np.concatenate(there.frequencies), np.concatenate(here.frequencies), rtol=1e-12)


@pytest.mark.parametrize("kind", ["spins", "real", "many letters"])
def test_moments_of_available_cases(kind):
    rng = np.random.default_rng(0)
    X = frame("spins").to_numpy().astype(float) if kind == "spins" else rng.normal(3.0, 1.0, (M, 6))
    alphabet = "auto"
    if kind == "many letters":
        X, alphabet = rng.integers(0, 100, (M, 6)).astype(float), [tuple(range(100))] * 6
    X[rng.random(X.shape) < 0.1] = np.nan
    here, there = (Moments.from_samples(T, 2, alphabet) for T in (X, far(X)))
    assert not there.is_complete
    np.testing.assert_allclose(there.missing_shares, here.missing_shares, rtol=1e-12)
    np.testing.assert_allclose(there.mean, here.mean, rtol=1e-12)
    np.testing.assert_allclose(there.covariance, here.covariance, atol=1e-12 * np.abs(here.covariance).max())


def test_letters_of_late_chunks_and_what_is_no_letter():
    X = np.random.default_rng(1).integers(0, 3, (M, 6))
    X[-1, 2], X[5, 1] = 7, -3
    assert Moments.from_samples(far(X), 2) == Moments.from_samples(X, 2)
    for bad, value in ((9_000, np.inf), (4_000, np.nan)):
        X = X.astype(float)
        X[bad, 3] = value
        messages = []
        for table in (X, far(X)):
            with pytest.raises(ValueError, match=f"row {bad}, column 3") as error:
                Samples.check(table)
            messages.append(str(error.value))
        assert messages[0] == messages[1]
    Y = np.random.default_rng(1).integers(0, 3, (M, 6))
    Y[11_000, 0] = Y[3_000, 4] = 5  # the first row is told, whichever chunk was looked at first
    for table in (Y, far(Y)):
        with pytest.raises(ValueError, match="row 3000, column 4, outside the alphabet"):
            Samples.check(table, (0, 1, 2))


def test_columns_that_hold_too_many_values():
    X = np.random.default_rng(1).integers(0, 40, (M, 6))
    assert Moments.from_samples(far(X), 2).space == Moments.from_samples(X, 2).space  # the real line
    X[:, 1:] %= 3
    with pytest.raises(ValueError, match="column 0 has more than 16 different values"):
        Samples.check(far(X))
    repeated = np.repeat(np.random.default_rng(1).normal(size=(20, 6)), M // 20, axis=0)
    assert Samples.check(far(repeated)).space == Samples.check(repeated).space


def test_a_table_is_read_once():
    X, reads = frame("spins").to_numpy(), []

    def read(block: np.ndarray, block_info: Any = None) -> np.ndarray:
        reads.append(len(block))
        return block

    lazy = far(X).map_blocks(read, dtype=X.dtype, meta=np.zeros((0, 0), dtype=X.dtype))
    HBM(order=2, refine="pseudolikelihood", alpha=1.0).fit(lazy)
    assert sum(reads) == M


# ---------------------------------------------------------------------- objective


@pytest.fixture
def every_row(monkeypatch):
    """Equal rows are not counted once here, as they are not there: every third row is then the same one."""
    monkeypatch.setattr(rows_module, "_MAX_GROUPED", 0)


def composites(kind: str, loss: str = "pseudolikelihood", dtype: Any = np.float64, weight: str | None = "real"):
    table, w = frame(kind), weights(weight)
    module = {"pseudolikelihood": pseudolikelihood, "screening": screening}[loss]
    out = []
    for X in (table, far(table)):
        samples = Samples.check(X, sample_weight=w)
        space = samples.space.standard(samples.frequencies)
        parameters = Parameters(space, all_terms(2, space), "free", samples.frequencies)
        out.append(module.prepare(samples, parameters, dtype=dtype).composite)
    return out


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("loss", ["pseudolikelihood", "screening"])
@pytest.mark.parametrize("kind", KINDS)
def test_objective_gradient_and_hessian(kind, loss):
    here, there = composites(kind, loss)
    assert isinstance(there.rows.blocks(), Chunks)
    theta = np.random.default_rng(0).normal(0, 0.1, here.n_params)
    v = np.random.default_rng(1).normal(size=here.n_params)
    a, b = (Objective(c, np.zeros(c.n_params)) for c in (here, there))
    np.testing.assert_allclose(b.value_gradient(theta)[0], a.value_gradient(theta)[0], rtol=1e-12)
    np.testing.assert_allclose(b.value_gradient(theta)[1], a.value_gradient(theta)[1], atol=1e-12)
    for stride in (1, 3):
        H = hessian(here, theta, stride, 1)
        np.testing.assert_allclose(hessian(there, theta, stride, 1), H, atol=1e-12 * np.abs(H).max())
        here.stride = there.stride = stride
        P, Q = HessianProducts(a, theta), HessianProducts(b, theta)
        np.testing.assert_allclose(Q.product(v), P.product(v), atol=1e-12 * np.abs(P.product(v)).max())
        np.testing.assert_allclose(Q.diagonal, P.diagonal, rtol=1e-12)
        assert isinstance(Q.shares, Chunks)
    (first, cross), (second, other) = diagonal_and_own(here, theta), diagonal_and_own(there, theta)
    np.testing.assert_allclose(second, first, rtol=1e-12)
    np.testing.assert_allclose(other.toarray(), cross.toarray(), atol=1e-12)
    inverse = np.linalg.inv(hessian(here, theta) + np.eye(len(theta)))
    V = score_covariance(here, theta, inverse)
    np.testing.assert_allclose(score_covariance(there, theta, inverse), V, atol=1e-12 * np.abs(V).max())
    np.testing.assert_array_equal(there.rows_beyond(theta, 0.3, True), here.rows_beyond(theta, 0.3, True))


def test_single_precision():
    here, there = composites("mixed", dtype=np.float32)
    theta = np.random.default_rng(0).normal(0, 0.1, here.n_params)
    np.testing.assert_allclose(there.sums(theta).losses, here.sums(theta).losses, rtol=1e-6)
    np.testing.assert_allclose(there.sums(theta).entries, here.sums(theta).entries, atol=1e-6)


def test_heavy_rows_are_the_same_ones(wide):
    """And so are the others: the first of those that are equal, and every so many of the table."""
    found = []
    for X in (wide, far(wide)):
        samples = Samples.check(X)
        space = samples.space.standard(samples.frequencies)
        parameters = Parameters(space, all_terms(2, space), "free", samples.frequencies)
        composite = pseudolikelihood.prepare(samples, parameters, dtype=np.float64).composite
        theta = np.random.default_rng(0).normal(0, 0.1, composite.n_params)
        sample, share = thinning.heavy_and_some(composite, theta, 3000)
        assert sample.stride > 1
        rows = [list(each(lambda block: block[0], composite.rows.blocks(k, 0, m))) for k, m in sample.strata]
        found.append([*map(np.concatenate, rows), share])
    (heavy, light, share), (heavy_there, light_there, share_there) = found
    assert len(heavy_there) == 1500
    np.testing.assert_array_equal(heavy_there, heavy)
    np.testing.assert_array_equal(light_there, light)
    assert share_there == pytest.approx(share, rel=1e-12)


def test_signs_of_probes_do_not_depend_on_who_draws_them(monkeypatch):
    here, there = composites("spins")
    a, b = (Objective(c, np.zeros(c.n_params)) for c in (here, there))
    theta = np.zeros(here.n_params)
    H = HessianProducts(b, theta)
    draw = [
        [s for share in with_signs(H.shares, np.random.default_rng(seed)).each(list) for _, s in share]
        for seed in (0, 0, 1)
    ]
    np.testing.assert_array_equal(np.concatenate(draw[0]), np.concatenate(draw[1]))
    assert (np.concatenate(draw[0]) != np.concatenate(draw[2])).any()
    assert set(np.concatenate(draw[0])) == {-1.0, 1.0}
    count = np.ones(len(theta))
    monkeypatch.setattr(sandwich, "MAX_MATRICES", 0)
    few = [sandwich.errors(o, theta, count, 0).sampling.mean() for o in (a, b)]
    assert few[1] == pytest.approx(few[0], rel=0.2)


# ---------------------------------------------------------------------- fits


FITS = {
    "closed form": {"refine": None},
    "auto": {},
    "pseudolikelihood": {"refine": "pseudolikelihood"},
    "a number for alpha": {"refine": "pseudolikelihood", "alpha": 2.0, "tol": 1e-8},
    "selection": {"fdr": 0.05},
}


@pytest.mark.usefixtures("every_row")
@pytest.mark.parametrize("fit", FITS)
@pytest.mark.parametrize("kind", ["spins", "mixed"])
def test_fits(kind, fit):
    table = frame(kind)
    here, there = (HBM(2, **FITS[fit], random_state=0).fit(X) for X in (table, far(table)))
    assert there.result_.method == here.result_.method
    assert there.interactions_ == here.interactions_
    assert there.feature_names_in_.tolist() == list("abcdef")
    np.testing.assert_allclose(there.weights_, here.weights_, atol=1e-12)
    np.testing.assert_allclose(there.effects_, here.effects_, atol=1e-12)
    np.testing.assert_allclose(there.standard_errors_, here.standard_errors_, rtol=1e-9)
    assert there.tests_.method == here.tests_.method
    np.testing.assert_allclose(there.tests_.z, here.tests_.z, atol=1e-9)


def test_a_wide_table(wide):
    """In single precision."""
    here, there = (HBM(2, random_state=0).fit(X) for X in (wide, far(wide)))
    assert here.result_.method == there.result_.method == "pseudolikelihood"
    np.testing.assert_allclose(there.weights_, here.weights_, atol=1e-6)
    np.testing.assert_allclose(there.standard_errors_, here.standard_errors_, rtol=1e-5)
    assert there.score(far(wide)) == pytest.approx(here.score(wide), rel=1e-6)


def test_what_comes_here_does_not_grow_with_the_rows(wide, monkeypatch):
    """But for the rows that checks look at, of which there may be one in 200."""
    n_bytes = []
    for times in (1, 4):
        with Traffic().counted(monkeypatch) as traffic:
            HBM(2, refine="pseudolikelihood", alpha=0.0, max_iter=30).fit(far(np.tile(wide[:10_000], (times, 1))))
        n_bytes.append(traffic.n_bytes)
    assert n_bytes[1] < 1.25 * n_bytes[0]


@pytest.mark.slow
def test_what_comes_here_is_a_fraction_of_a_percent(wide, monkeypatch):
    X = np.tile(wide, (25, 1))  # a million rows: 192 MB as numbers
    for options in ({"refine": None}, {"refine": "pseudolikelihood", "alpha": 1.0}, {}):
        with Traffic().counted(monkeypatch) as traffic:
            HBM(2, random_state=0, **options).fit(far(X, 20))
        assert 0 < traffic.n_bytes < 0.01 * 8 * X.size, options


def test_traffic_sees_a_table_that_comes_here(wide, monkeypatch):
    with Traffic().counted(monkeypatch) as traffic:
        dask.compute(far(wide))
    assert traffic.n_bytes >= wide.size


def test_missing_cells():
    X = frame("spins").to_numpy().astype(float)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Do not rely|.*with care")
        here, there = (HBM(2, refine=None).fit(T) for T in (X, far(X)))
    np.testing.assert_allclose(there.weights_, here.weights_, atol=1e-12)
    with pytest.raises(ValueError, match="refine='pseudolikelihood' fills missing cells in"):
        HBM(2, refine="pseudolikelihood").fit(far(X))
    with pytest.warns(UserWarning, match="goes by moments of available cases"):
        there = HBM(2).fit(far(X))
    assert there.result_.method == "likelihood"
    np.testing.assert_allclose(there.weights_, HBM(2).fit(X).weights_, atol=0.05)


def test_given_columns():
    X = np.column_stack([frame("spins").to_numpy(), np.random.default_rng(0).normal(2.0, 3.0, M)])
    w = weights("real")
    for options in ({"given": [5, 6]}, {"given": ["5"], "alphabet": "auto"}):
        table = X if options["given"] == [5, 6] else pd.DataFrame(X[:, :6], columns=list("012345"))
        # 6 columns here: few patterns, so that the likelihood is exact
        here, there = (HBM(2, **options, alpha=1.0, tol=1e-9).fit(T, sample_weight=w) for T in (table, far(table)))
        assert there.result_.method == here.result_.method
        np.testing.assert_allclose(there.weights_, here.weights_, atol=1e-8)
        assert there.score(far(table)) == pytest.approx(here.score(table), rel=1e-9)
    assert there.log_likelihood(far(table)) == pytest.approx(here.log_likelihood(table), rel=1e-9)


def test_scores_stay_there():
    table = frame("mixed")
    est, lazy = HBM(2, refine=None).fit(table), far(table)
    scores = est.score_samples(lazy)
    assert isinstance(scores, da.Array)
    np.testing.assert_allclose(scores.compute(), est.score_samples(table), rtol=1e-12)
    assert est.score(lazy) == pytest.approx(est.score(table), rel=1e-12)
    assert est.log_likelihood(lazy) == pytest.approx(est.log_likelihood(table), rel=1e-12)
    with pytest.raises(ValueError, match="which are not brought here"):
        est.predict(lazy)
    with pytest.raises(ValueError, match=r"groups=… needs the 12000 rows"):
        HBM(2).fit(lazy, groups=np.arange(M) // 10)


def test_rows_are_never_pulled():
    samples = Samples.check(far(frame("spins")))
    for pull in (list, lambda blocks: np.concatenate([block for block, _ in blocks])):
        with pytest.raises(ValueError, match="dask table of 12000 rows, which are not brought here"):
            pull(samples.blocks())
    codes, w = samples.some(500, 0)
    assert codes.shape == (500, 6)
    assert w is None
    np.testing.assert_array_equal(samples.first(3000)[0], Samples.check(frame("spins")).first(3000)[0])


def test_different_rows_are_few_or_none():
    table = frame("mixed")
    here, there = DistinctRows.of(Samples.check(table)), DistinctRows.few(Samples.check(far(table)), 4096)
    np.testing.assert_array_equal(there.codes, here.codes)
    np.testing.assert_array_equal(there.weights, here.weights)
    assert DistinctRows.few(Samples.check(far(table)), len(here.weights) - 1) is None


def test_work_is_sent_without_rows():
    _, there = composites("spins")
    theta = np.zeros(there.n_params)
    assert len(pickle.dumps(there)) < 50_000
    assert len(pickle.dumps(there.rows.blocks())) < 200
    assert theta.size


# ---------------------------------------------------------------------- schedulers


@contextmanager
def cluster(n_workers: int) -> Iterator[Any]:
    """Worker processes of one thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=n_workers, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
        ) as workers,
        Client(workers),
    ):
        yield workers


def test_processes_of_a_cluster(wide):
    here = HBM(2, refine="pseudolikelihood", alpha=1.0, random_state=0).fit(wide[:8000])
    with cluster(2):
        there = HBM(2, refine="pseudolikelihood", alpha=1.0, random_state=0).fit(far(wide[:8000]))
    np.testing.assert_allclose(there.weights_, here.weights_, atol=1e-6)
    np.testing.assert_allclose(there.standard_errors_, here.standard_errors_, rtol=1e-5)


@pytest.mark.parametrize("scheduler", ["synchronous", pytest.param("processes", marks=pytest.mark.slow)])
def test_other_schedulers(scheduler):
    table = frame("spins")
    with dask.config.set(scheduler=scheduler, num_workers=2):
        assert Moments.from_samples(far(table, 2), 3) == Moments.from_samples(table, 3)


@pytest.mark.slow
def test_any_number_of_workers(wide):
    """To the last bit: what is added to what depends on the chunks alone."""
    found = []
    for n_workers in (1, 2, 4):
        with cluster(n_workers):
            found.append(HBM(2, random_state=0).fit(far(wide)))
    for other in found[1:]:
        np.testing.assert_array_equal(other.weights_, found[0].weights_)
        np.testing.assert_array_equal(other.standard_errors_, found[0].standard_errors_)
    np.testing.assert_allclose(found[0].weights_, HBM(2, random_state=0).fit(wide).weights_, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("moment", [3, 8, 13])
def test_a_worker_that_is_killed(wide, moment, monkeypatch):
    """Before the k-th sum: its chunks are made again from where they came."""
    here = HBM(2, refine="pseudolikelihood", alpha=1.0, random_state=0).fit(wide)
    compute, calls, killed = dask.compute, [], []
    with cluster(2) as workers, monkeypatch.context() as patch:

        def kill() -> None:
            pid = next(iter(workers.workers.values())).pid
            killed.append(pid)
            os.kill(pid, signal.SIGKILL)

        def counting(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            if len(calls) == moment:
                threading.Timer(0.05, kill).start()
            return compute(*args, **kwargs)

        patch.setattr(dask, "compute", counting)
        there = HBM(2, refine="pseudolikelihood", alpha=1.0, random_state=0).fit(far(wide))
    assert len(killed) == 1
    np.testing.assert_allclose(there.weights_, here.weights_, atol=1e-6)
    np.testing.assert_allclose(there.standard_errors_, here.standard_errors_, rtol=1e-5)


# ---------------------------------------------------------------------- joblib


class Counting(ThreadingBackend):
    """joblib's threads, which count what they are given."""

    tasks = 0

    def submit(self, func: Any, callback: Any = None) -> Any:
        Counting.tasks += 1
        return ThreadingBackend.submit(self, func, callback)

    if not hasattr(ThreadingBackend, "submit"):  # before joblib 1.5

        def apply_async(self, func: Any, callback: Any = None) -> Any:
            Counting.tasks += 1
            return ThreadingBackend.apply_async(self, func, callback)


def test_refits_run_where_joblib_is_told_to():
    joblib.register_parallel_backend("counting", Counting)
    X = sample(BoltzmannMachine([0.0, 0.1, 0.0], {(0, 1): 0.4}), 400, random_state=0)
    est = HBM(2, alpha=0)
    plain = assessment.bootstrap(est, X, n=6, random_state=0)
    assert Counting.tasks == 0
    with joblib.parallel_config(backend="counting", n_jobs=2):
        told = assessment.bootstrap(est, X, n=6, random_state=0)
    assert Counting.tasks == 6
    np.testing.assert_allclose(told.draws, plain.draws, rtol=1e-9)
    with joblib.parallel_config(backend="counting", n_jobs=2):
        assessment.stability(HBM(2, alpha=0), X, n=2, dropped=[0.25], random_state=0)
    assert Counting.tasks == 8
