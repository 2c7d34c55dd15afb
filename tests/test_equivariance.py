"""Random recodings of random tables, default settings: no score, effect, test or selection changes."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st

from hbm_learn import HBM

KINDS = ["bit", "rating", "label", "spin", "count"]


def table(kinds: list[str], seed: int, n_samples: int = 800) -> pd.DataFrame:
    """Dependent columns of the given kinds: cut from correlated normals, with a triplet."""
    rng = np.random.default_rng(seed)
    n = len(kinds)
    z = rng.normal(size=(n_samples, n)) @ (np.eye(n) + 0.5 * np.triu(rng.normal(size=(n, n)), 1))
    z[:, 0] += 0.4 * z[:, 1] * z[:, 2]
    out = {}
    for i, kind in enumerate(kinds):
        q = {"bit": 2, "spin": 2, "rating": 5, "label": 3, "count": 4}[kind]
        codes = np.digitize(z[:, i], np.quantile(z[:, i], np.linspace(0, 1, q + 1)[1:-1]))
        values = {"spin": np.array([-1, 1]), "rating": np.arange(1, 6), "label": np.array(["a", "b", "c"])}
        out[f"{kind}{i}"] = values.get(kind, np.arange(q))[codes]
    return pd.DataFrame(out)


def recoded(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, dict[str, float]]:
    """Every number by an affine map of its own, labels by others in another order; and the sign of each map."""
    rng = np.random.default_rng(seed)
    out, signs = {}, {}
    for name, column in frame.items():
        if column.dtype == object or not np.issubdtype(column.to_numpy().dtype, np.number):
            new = rng.permutation(["x", "y", "z"])
            out[name], signs[name] = column.map(dict(zip("abc", new))).astype(str), 1.0
            continue
        slope = float(rng.choice([-1, 1]) * 10.0 ** rng.uniform(-2, 2))
        out[name], signs[name] = slope * column + float(rng.normal(0, 5)), np.sign(slope)
    return pd.DataFrame(out), signs


def quietly(est: HBM, X: pd.DataFrame) -> HBM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return est.fit(X)


@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    kinds=st.lists(st.sampled_from(KINDS), min_size=3, max_size=5),
    seed=st.integers(0, 10**6),
    order=st.sampled_from(["auto", 2]),
    fdr=st.sampled_from([None, 0.1]),
)
def test_recoding_changes_nothing(kinds, seed, order, fdr):
    frame = table(kinds, seed)
    other, signs = recoded(frame, seed + 1)
    here, there = (quietly(HBM(order=order, fdr=fdr), X) for X in (frame, other))
    assert here.interactions_ == there.interactions_
    a, b = here.to_frame(), there.to_frame()
    flip = np.array([np.prod([signs[name] for name in mu]) for mu in a["interaction"]])
    flip = np.where(a["df"] == 1, flip, 1.0)
    np.testing.assert_allclose(b["effect"], flip * a["effect"], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(b["z"], flip * a["z"], rtol=1e-5, atol=1e-5)
    for column in ("effect_error", "p_value", "q_value", "sign_rate"):
        np.testing.assert_allclose(b[column], a[column], rtol=1e-5, atol=1e-7, err_msg=column)
    np.testing.assert_allclose(there.score_samples(other), here.score_samples(frame), rtol=1e-5, atol=1e-5)


def test_a_prior_in_the_users_coding_is_not_invariant():
    """The negative control: a given alpha is one of weights, and weights depend on the coding."""
    frame = table(["rating", "bit", "rating"], 3)
    other, _ = recoded(frame, 4)
    here, there = (quietly(HBM(order=2, alpha=50.0), X) for X in (frame, other))
    assert np.abs(np.abs(there.effects_) - np.abs(here.effects_)).max() > 1e-3
