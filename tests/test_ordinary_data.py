"""Tables that people have and on which the first version failed, as far as no other module is about them.

Elsewhere: rare 0/1 columns and intervals (``test_calibration``), ratings (``test_real_ratings``), columns of several
kinds (``test_tables``), missing cells (``test_missing``), a common gain (``test_predictive``), a closed form that is
far off and rows that depend on each other (``test_trust``), two phases (``test_agreement``, ``test_walkers``).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from hbm_learn import HBM, BoltzmannMachine, datasets, sample
from hbm_learn.assessment import nested
from hbm_learn.data.samples import Samples
from hbm_learn.terms import Terms, all_terms


@pytest.mark.slow
def test_pairs_of_many_rare_columns_are_not_discovered():
    """1770 pairs: errors from a part of the rows, in which rare coincidences vanish, gave more than a hundred."""
    rng = np.random.default_rng(2026)
    X = (rng.random((50_000, 60)) < rng.uniform(0.01, 0.05, 60)).astype(np.int8)
    est = HBM(order=2).fit(X)
    assert (est.tests_.q_values < 0.05).sum() <= 1
    assert np.abs(est.tests_.z).max() < 5


@pytest.mark.slow
def test_triplets_of_rare_columns_are_not_selected_and_cost_nothing():
    """A triplet that is never seen where one or two were expected is no effect."""
    rng = np.random.default_rng(2027)
    rates = rng.uniform(0.01, 0.1, 40)
    X, new = ((rng.random((10_000, 40)) < rates).astype(np.int8) for _ in range(2))
    two, three = (HBM(order=k, fdr=0.05).fit(X) for k in (2, 3))
    assert sum(len(mu) == 3 for mu in three.interactions_) == 0
    difference = three.score_samples(new) - two.score_samples(new)
    assert difference.mean() >= -0.5 * difference.std() / np.sqrt(len(new)) - 1e-9


def test_columns_of_real_numbers_in_other_units():
    """Independent normal columns, one of them times 100: nothing is found, and the prior does not see the unit."""
    found = []
    for seed in range(5):
        X = np.random.default_rng([2028, seed]).normal(size=(1000, 4))
        plain = HBM(order=2).fit(X)
        est = HBM(order=2).fit(X * [1.0, 1.0, 1.0, 100.0])
        np.testing.assert_allclose(est.effects_, plain.effects_, atol=1e-9)
        np.testing.assert_allclose(est.tests_.z, plain.tests_.z, atol=1e-7)
        found.append((est.tests_.q_values < 0.05).sum())
    assert sum(found) <= 1  # of 30


def judges(rng, M=900, n=9):
    """±1 votes of one leaning, and how far a case takes each judge along it; nothing of higher order beside that."""
    leaning = np.linspace(-1.0, 1.0, n)
    J = {(i, j): 0.13 + 0.12 * leaning[i] * leaning[j] for i, j in combinations(range(n), 2)}
    return sample(BoltzmannMachine(0.1 * leaning, J), M, "exact", random_state=rng)


def test_a_higher_order_keeps_the_pairs_of_votes():
    kept, tried = 0, 0
    for seed in range(4):
        samples = Samples.check(judges(np.random.default_rng([2029, seed])))
        found = {}
        for order in (2, 3, 4):
            tests = nested.select(samples, Terms(samples.space, all_terms(order, samples.space)), 0.05)[1]
            found[order] = set(np.flatnonzero(tests.q_values[:36] < 0.05))
        assert len(found[2]) >= 20
        kept += len(found[2] & found[3]) + len(found[2] & found[4])
        tried += 2 * len(found[2])
    assert kept >= 0.95 * tried


@pytest.mark.slow
def test_intervals_of_rows_that_depend_on_each_other_cover_with_groups():
    """Each row five times over: coverage .5 without groups, and what is claimed with them."""
    hits = {"groups": [], "blind": []}
    for seed in range(20):
        model = datasets.make_random(8, {2: 0.25}, 0.2, random_state=[2030, seed])
        once = sample(model, 800, "exact", random_state=[2031, seed])
        X, groups = np.repeat(once, 5, axis=0), np.repeat(np.arange(800), 5)
        true = np.array([model.couplings()[mu] for mu in combinations(range(8), 2)])
        found = {"groups": HBM(order=2, random_state=0).fit(X, groups=groups)}
        with pytest.warns(UserWarning, match="of them are worth one"):
            found["blind"] = HBM(order=2, random_state=0).fit(X)
        for name, est in found.items():
            low, high = est.confidence_intervals().T
            hits[name].extend((low <= true) & (true <= high))
    count = len(hits["groups"])
    assert np.mean(hits["groups"]) >= 0.93 - 2 * np.sqrt(0.95 * 0.05 / count)
    assert np.mean(hits["blind"]) < 0.75  # the negative control
