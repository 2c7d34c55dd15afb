"""Fits of one-alphabet tables at fixed priors are those of version 0.1, which tests/data/version_0_1.json holds.

The closed form of 0.1 is that without corrections.
"""

from __future__ import annotations

import json
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from oracle import ALPHABETS

from hbm_learn import HBM
from hbm_learn.inversion.closed_form import diagonal

GOLDEN = json.loads((Path(__file__).parent / "data" / "version_0_1.json").read_text())


def table(values, n=5, n_samples=600, seed=7):
    """Dependent columns with a triplet, cut into values."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_samples, n)) @ (np.eye(n) + 0.45 * np.triu(rng.normal(size=(n, n)), 1))
    z[:, 0] += 0.5 * z[:, 1] * z[:, 2]
    edges = np.quantile(z, np.linspace(0, 1, len(values) + 1)[1:-1] ** 0.8)
    return np.asarray(values)[np.digitize(z, edges)]


@pytest.mark.parametrize("key", GOLDEN)
def test_unchanged_at_fixed_prior(key, monkeypatch):
    alphabet, refine, alpha = key.split()
    values = ALPHABETS[alphabet]
    refine = None if refine == "None" else refine
    if refine is None:
        monkeypatch.setattr(diagonal, "invert", partial(diagonal.invert, corrections="none"))
    tol = None if refine is None else 1e-12
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the closed form says that it is biased here
        est = HBM(order=3, refine=refine, alpha=float(alpha), alphabet=values, site="quadratic", tol=tol).fit(
            table(values)
        )
    for name, expected in GOLDEN[key].items():
        found = est.score(table(values)) if name == "score" else getattr(est, f"{name}_")
        if "errors" in name:  # probes and lifted inverses apart, errors are the same to fewer digits
            np.testing.assert_allclose(found, expected, rtol=1e-7, err_msg=name)
        else:
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * max(1.0, np.abs(expected).max()))
