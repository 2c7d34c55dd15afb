"""Levels, coverage and costs on fresh data: the cells of ``benchmarks/bench_calibration.py``, sets from 1000 on.

Bounds are what is promised and two or three standard errors; every bound has a negative control that breaks it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from hbm_learn import HBM
from hbm_learn.assessment import intervals
from hbm_learn.inversion.shrinkage.marginals import Marginals

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
try:
    import bench_calibration as bench
    import calibration_cells as cells
finally:
    sys.path.pop(0)

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
FIRST = 1000
LEVEL = bench.LEVEL


def error_of_share(p: float, count: int) -> float:
    return float(np.sqrt(p * (1 - p) / count))


# ---------------------------------------------------------------------- nothing to find


def at_level(found: dict, sets: int, tests_a_set: int) -> bool:
    """P(any q < .05), both tails and the largest |z| within their bounds."""
    quiet = found["any"] <= LEVEL + 2 * error_of_share(LEVEL, sets)
    expected = [2 * stats.norm.sf(t) * tests_a_set * sets for t in (3, 4)]
    tails = all(tail <= 2 + 2 * np.sqrt(2 / count) for tail, count in zip(found["tails"], expected))
    return quiet and tails and found["largest"] < 8


@pytest.mark.parametrize(
    ("name", "sets"), [("null-12-500", 100), ("null-12-500-rare", 100), ("null-22-500", 60), ("null-22-5000", 40)]
)
def test_independent_columns_stay_at_level(name, sets):
    found = bench.measure_null(name, sets, first=FIRST)
    n = cells.NULLS[name].n
    assert at_level(found["2"], sets, n * (n - 1) // 2), found
    assert at_level(found["3"], sets, n * (n - 1) * (n - 2) // 6), found


def test_estimates_over_their_errors_do_not(monkeypatch):
    """Negative control: Wald tests of the closed form on the same tables."""
    monkeypatch.setattr(bench, "null_tests", lambda X, order: HBM(order=order, refine=None).fit(X).tests_)
    found = bench.measure_null("null-12-500-rare", 20, first=FIRST)
    assert not at_level(found["2"], 20, 66)
    assert not at_level(found["3"], 20, 220)


def test_the_tests_of_a_fit_are_those_that_are_measured():
    X = cells.NULLS["null-12-2000"].draw(cells.generator("null-12-2000", FIRST))
    mine, measured = HBM(order=3).fit(X).tests_, bench.null_tests(X, 3)
    np.testing.assert_allclose(mine.z, measured.z)
    np.testing.assert_allclose(mine.q_values, measured.q_values)


# ---------------------------------------------------------------------- something planted


@pytest.mark.parametrize("name", ["planted-rare-0/1", "planted-spin-1", "planted-sparse", "planted-order-4"])
def test_false_proportions_and_power(name):
    """Power of pairs and of the highest order, less two errors of what larger runs show (docs/calibration.md)."""
    found = bench.measure_planted(name, 12, first=FIRST)
    order = cells.PLANTED[name].order
    for k in range(2, order + 1):
        false, error = found[f"false {k}"]
        assert false <= LEVEL + 2 * max(error, error_of_share(LEVEL, 12 * 5)), (k, found)
    assert found["power 2"][0] >= 0.85
    assert found[f"power {order}"][0] >= (0.3 if "0/1" in name else 0.9)
    assert found["kept"][0] >= 0.9


def test_unadjusted_tests_find_what_is_not_there(monkeypatch):
    """Negative control: p ≤ .05 instead of q ≤ .05."""

    def by_p(est):
        tests = HBM(order=est.order).fit(tables[len(asked) // 2]).tests_
        asked.append(est)
        return {mu for mu, p in zip(tests.terms.tuples, tests.p_values) if p <= LEVEL}

    asked: list[HBM] = []
    name = "planted-sparse"
    tables = [cells.PLANTED[name].draw(cells.generator(name, FIRST + r))[1] for r in range(4)]
    monkeypatch.setattr(bench, "found_by", by_p)
    found = bench.measure_planted(name, 4, first=FIRST)
    assert found["false 3"][0] > 0.3


# ---------------------------------------------------------------------- intervals


def covers(shares: dict, key: str) -> bool:
    """Within three errors of .95: some thirty shares are looked at."""
    share, count = shares[key]
    return share >= 0.95 - 3 * error_of_share(0.95, count)


@pytest.mark.parametrize(
    "name", ["cover-sparse", "cover-order-4", "cover-spin-1", "cover-no-triplets", "cover-ratings"]
)
def test_intervals_cover_and_the_fit_is_near_the_oracle(name):
    found = bench.measure_coverage(name, 10, first=FIRST)
    for what in ("weights", "effects"):
        for key, (_, count) in found[what].items():
            if count >= 20:
                assert covers(found[what], key), (what, key, found)
    assert found["distance"][0] <= 1.6 * found["oracle"][0], found
    assert 0.9 < found["width"][0] < 1.5, found


@pytest.mark.parametrize("name", ["cover-neural", "cover-clusters", "cover-cauchy", "cover-dense"])
def test_strong_and_weak_couplings_are_covered(name):
    """Rare events, strong ones that are correlated, heavy tails, the largest of one Gaussian."""
    found = bench.measure_coverage(name, 20, first=FIRST)
    for key, (share, count) in found["weights"].items():
        least = {"zero": 0.95, "strong": 0.93, "weak": 0.85}[key.split()[1]]
        assert share >= least - 2 * error_of_share(least, count), (key, found)


def test_the_posterior_alone_does_not_cover(monkeypatch):
    """Negative control: quantiles under the learnt prior, weak triplets of rare events."""
    monkeypatch.setattr(intervals, "_learnt", Marginals.intervals)
    found = bench.measure_coverage("cover-neural", 10, first=FIRST)
    assert found["weights"]["3 weak"][0] < 0.7, found


def test_one_gaussian_an_order_does_not_cover():
    """Negative control: the Gaussian of the true variance in each order, among few strong triplets and many zeros."""
    cell = cells.COVERAGE["cover-sparse"]
    covered = bench.Covered()
    for r in range(5):
        truth, X = cell.draw(cells.generator("cover-sparse", FIRST + r))
        squares = [sum(J**2 for mu, J in truth.couplings().items() if len(mu) == k) for k in (2, 3)]
        est = HBM(order=3, alpha=[66 / squares[0], 220 / squares[1]]).fit(X)
        covered.add(est.interactions_, est.confidence_intervals(), truth.couplings(), lambda mu: 0.0)
    shares = covered.shares()
    assert covers(shares, "3 zero")
    assert shares["3 strong"][0] < 0.5


# ---------------------------------------------------------------------- what an order costs


@pytest.mark.parametrize("name", ["order-gss", "order-0/1-12"])
def test_the_order_of_the_evidence_never_costs(name):
    found = bench.measure_order(name, 4, first=FIRST)
    mean, error, *_ = found["auto-2"]
    assert mean >= -2 * error, found


def test_triplets_without_a_prior_cost(monkeypatch):
    """Negative control: order 3 at alpha=0."""
    monkeypatch.setattr(bench, "HBM", lambda order, **options: HBM(order=order, alpha=0.0 if order == 3 else "auto"))
    found = bench.measure_order("order-0/1-12", 2, first=FIRST)
    mean, error, *_ = found["3-2"]
    assert mean < -2 * error, found


def test_rare_events_beyond_enumeration_do_not_break_a_fit():
    """Independent columns with a rate of 1 %: most triplets are never seen, and none may become large.

    In the last set one column is on in one row, beside another that is on in two: a Gaussian says that their coupling
    has no end, and cost 1 nat a row. Independent columns cost .02 nats themselves, 22 parameters of 500 rows.
    """
    cell, costs = cells.NULLS["null-22-500"], []
    for number in range(4):
        rng = cells.generator("null-22-500", FIRST + number)
        X, new = cell.draw(rng), cell.draw(rng)
        est = HBM(order=3).fit(X)
        rates = X.mean(axis=0)
        independent = (new * np.log(rates) + (1 - new) * np.log1p(-rates)).sum(axis=1)
        costs.append(float((independent - est.score_samples(new)).mean()))
        assert np.abs(est.effects_).max() < 0.1
        assert np.abs(est.weights_).max() < 10
    assert np.mean(costs) < 0.03
    assert max(costs) < 0.1
