"""One answer: whatever the number of threads, and however rows are cut into blocks.

Threads change nothing at all. Other cuts add the same numbers in another order, so that answers differ by rounding, of
which no more than 1e-8 of a standard error is left.
"""

from __future__ import annotations

import sys
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from hbm_learn import HBM, Moments, _threads, completions
from hbm_learn.data import collect, given, reduce, rows, samples, scan, values
from hbm_learn.inversion.closed_form import pairs

# Where rows are cut; each is a number of entries.
BLOCKS = [(samples, "_BLOCK"), (values, "_BLOCK"), (given, "_BLOCK"), (completions, "BLOCK")]
OF_KINDS = [(collect, "_BLOCK_OF_CODES"), (collect, "_BLOCK_OF_VALUES"), (rows, "_BLOCK_OF_CODES")]
BLOCKS += [*OF_KINDS, (scan, "_CHUNK"), (scan, "_MIN_ROWS"), (pairs, "_CHUNK")]

# In standard errors; bounds of intervals are roots, looked for no further than the second.
ROUNDING, OF_BOUNDS = 1e-8, 1e-6


class Fit(NamedTuple):
    """Parameters of HBM, the table, and more arguments of ``fit``."""

    parameters: dict[str, Any]
    table: str = "mixed"
    arguments: tuple[str, ...] = ()


FITS = {
    "closed form": Fit({"order": 3, "refine": None}),
    "likelihood": Fit({"order": 2, "refine": "likelihood"}),
    "pseudolikelihood": Fit({"order": 3, "refine": "pseudolikelihood", "alpha": 1.0}),
    "screening": Fit({"order": 2, "refine": "screening"}),
    "lasso": Fit({"order": 2, "refine": "pseudolikelihood", "alpha": 5.0, "l1_ratio": 1.0}),
    "learnt priors": Fit({"order": 3}),
    "selected terms": Fit({"order": 3, "fdr": 0.1}),
    "weights": Fit({"order": 2, "refine": "pseudolikelihood"}, arguments=("sample_weight",)),
    "groups": Fit({"order": 2}, arguments=("groups",)),
    "given": Fit({"order": 2, "given": ["spin", "region"]}),
    "missing": Fit({"order": 2}, "holes"),
    "real": Fit({"order": 2, "alphabet": "real"}, "real"),
}


@pytest.fixture(scope="module")
def tables(survey):
    rng = np.random.default_rng(5)
    mixed = survey.iloc[:900].reset_index(drop=True)
    holes = mixed.astype(object).mask(rng.random(mixed.shape) < 0.1)
    real = pd.DataFrame(rng.normal(size=(900, 4)) @ rng.normal(size=(4, 4)), columns=list("abcd"))
    more = {"sample_weight": rng.integers(1, 4, 900).astype(float), "groups": rng.integers(0, 40, 900)}
    return {"mixed": mixed, "holes": holes, "real": real, **more}


def fitted(name: str, tables: dict[str, Any], n_jobs: int | None = 1) -> HBM:
    fit = FITS[name]
    est = HBM(**fit.parameters, n_jobs=n_jobs, random_state=0)
    return est.fit(tables[fit.table], **{key: tables[key] for key in fit.arguments})


def cut_rows(monkeypatch: pytest.MonkeyPatch, n_parts: int) -> None:
    """Whatever is shared among threads is, in so many parts, however little work it is."""

    def row_parts(n_rows: int, n_operations: int) -> list[slice]:
        edges = np.linspace(0, n_rows, min(n_parts, n_rows) + 1).astype(int).tolist()
        return [slice(lo, hi) for lo, hi in pairwise(edges)]

    for module in list(sys.modules.values()):
        if module.__name__.startswith("hbm_learn.") and hasattr(module, "row_parts"):
            monkeypatch.setattr(module, "row_parts", row_parts)


def assert_same_numbers(here: HBM, there: HBM) -> None:
    """The same terms, and estimates that differ by rounding."""
    one, other = here.to_frame(), there.to_frame()
    assert one["interaction"].tolist() == other["interaction"].tolist()
    assert one["selected"].tolist() == other["selected"].tolist()
    error = np.where(np.isfinite(one["effect_error"]), one["effect_error"], 1.0)
    for column in ("weight", "effect", "effect_error", "lower", "upper"):
        a, b = one[column].to_numpy(), other[column].to_numpy()
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        allowed = (OF_BOUNDS if column in ("lower", "upper") else ROUNDING) * error
        assert (same | (np.abs(np.where(same, 0.0, a - b)) <= allowed)).all(), column
    np.testing.assert_allclose(one["z"], other["z"], rtol=ROUNDING, atol=ROUNDING)
    np.testing.assert_allclose(here.h_, there.h_, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("name", FITS)
def test_the_number_of_threads_changes_nothing(name, tables, monkeypatch):
    cut_rows(monkeypatch, 8)
    one = fitted(name, tables, 1)
    for n_jobs in (2, 3, -1, None):
        other = fitted(name, tables, n_jobs)
        pd.testing.assert_frame_equal(one.to_frame(), other.to_frame(), check_exact=True)
        np.testing.assert_array_equal(one.h_, other.h_)


@pytest.mark.parametrize("name", FITS)
@pytest.mark.parametrize(("entries", "n_parts"), [(300, 1), (2000, 5)])
def test_blocks_of_rows_change_no_more_than_rounding(name, entries, n_parts, tables, monkeypatch):
    here = fitted(name, tables)
    for module, constant in BLOCKS:
        monkeypatch.setattr(module, constant, entries)
    cut_rows(monkeypatch, n_parts)
    assert_same_numbers(here, fitted(name, tables))


@pytest.mark.parametrize("name", FITS)
def test_threads_of_libraries_change_no_more_than_rounding(name, tables):
    with threadpool_limits(1):
        one = fitted(name, tables)
    with threadpool_limits(2):
        assert_same_numbers(one, fitted(name, tables))


def test_blocks_are_cut_where_the_constants_say(tables, monkeypatch):
    """Else the tests above would compare a fit with itself."""
    cuts = []

    def counting(self, max_rows):
        cuts.append(max_rows)
        return here(self, max_rows)

    here = samples.Samples._here
    monkeypatch.setattr(samples.Samples, "_here", counting)
    for module, constant in [(samples, "_BLOCK"), *OF_KINDS]:
        monkeypatch.setattr(module, constant, 300)
    Moments.from_samples(tables["mixed"], order=2)
    fitted("pseudolikelihood", tables)
    assert cuts
    assert max(cuts) == 64  # of 900 rows
    assert _threads.row_parts(900, 10) == [slice(0, 900)]
    cut_rows(monkeypatch, 5)
    assert len(reduce.row_parts(900, 10)) == 5
