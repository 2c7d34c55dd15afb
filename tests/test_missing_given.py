"""Gaps in the modelled columns beside columns that are given: a group, and a covariate on the real line."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM, BoltzmannMachine, sample

N, M = 6, 4000


def study(seed, real):
    """0/1 items on a ring whose coupling (0, 1) grows with what is given; gaps in a fifth of the cells, at random."""
    rng = np.random.default_rng(seed)
    z = rng.normal(50.0, 10.0, M) if real else rng.integers(0, 2, M).astype(float)
    u = (z - z.mean()) / z.std()
    J = {(i, (i + 1) % N): 0.6 for i in range(N)}
    X = np.empty((M, N))
    edges = np.quantile(u, np.linspace(0, 1, 41)) if real else np.array([-np.inf, 0.0, np.inf])
    group = np.clip(np.searchsorted(edges, u, "right") - 1, 0, len(edges) - 2)
    for g in np.unique(group):
        mine = group == g
        model = BoltzmannMachine(np.full(N, -0.3), {**J, (0, 1): 0.6 + 0.5 * u[mine].mean()}, alphabet=(0, 1))
        X[mine] = sample(model, int(mine.sum()), random_state=int(rng.integers(2**31)))
    table = pd.DataFrame(X, columns=[f"item {i}" for i in range(N)])
    gaps = table.mask(rng.random(X.shape) < 0.2)
    return table.assign(z=z), gaps.assign(z=z)


@pytest.mark.parametrize("real", [False, True])
def test_gaps_beside_given_columns(real):
    whole, gaps = study(3 + real, real)
    asked = [(f"item {i}", f"item {(i + 1) % N}") for i in range(N)] + [(f"item {i}", "z") for i in range(N)]
    asked.append(("item 0", "item 1", "z"))
    fits = [
        HBM(order=3, interactions=asked, given=["z"], alpha=0.0, refine="pseudolikelihood", random_state=0).fit(X)
        for X in (whole, gaps)
    ]
    complete, filled = (dict(zip(est.interactions_, est.effects_)) for est in fits)
    errors = dict(zip(fits[1].interactions_, fits[1].effect_errors_))
    before = dict(zip(fits[0].interactions_, fits[0].effect_errors_))
    for mu, effect in filled.items():
        assert abs(effect - complete[mu]) < 4.0 * np.sqrt(max(errors[mu] ** 2 - before[mu] ** 2, 0.0)) + 1e-3
        # Pairs of items lose a third of their rows, and what is given with an item a fifth.
        least = {2: 1.02, 3: 1.1}[len(mu)]
        assert least < errors[mu] / before[mu] < 1.5
    # The coupling that grows with what is given, which dropping it, or its gaps, would not show.
    assert filled[0, 1, N] > 4.0 * errors[0, 1, N]
    seen = fits[1].to_frame().set_index("interaction")["n_effective"]
    assert 0.4 * M < seen["item 0", "item 1"] < seen["item 0", "z"] < 0.95 * M


def test_a_gap_in_what_is_given_is_named():
    _, gaps = study(5, real=True)
    gaps.loc[7, "z"] = np.nan
    with pytest.raises(ValueError, match=r"column 'z' is given, and has a missing cell in row 7 \(1 in all\)"):
        HBM(order=2, given=["z"]).fit(gaps)
