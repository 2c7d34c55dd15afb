"""Selection among more sets than are listed: the same as from a list of all of them, null and planted data."""

from __future__ import annotations

import numpy as np
import pytest

from hbm_learn import HBM
from hbm_learn.assessment import nested, sift
from hbm_learn.assessment.node_data import DistinctRows, NodeData
from hbm_learn.assessment.nodes import fit_nodes
from hbm_learn.assessment.score_tests import glance_at_best
from hbm_learn.data.samples import Samples
from hbm_learn.terms import Terms, all_terms, n_sets


def planted(n: int, M: int, order: int, n_sets: int, size: float, seed: int, values=(-1, 1)):
    """Independent columns but for some disjoint sets whose parity is biased, and these sets."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1, 1], size=(M, n)).astype(np.int8)
    sets = rng.permutation(n)[: n_sets * order].reshape(n_sets, order)
    for mu in sets:
        sign = np.where(rng.random(M) < 0.5 * (1 + np.tanh(size)), 1, -1)
        X[:, mu[-1]] = np.prod(X[:, mu[:-1]], axis=1) * sign
    return np.where(X > 0, values[1], values[0]), [tuple(sorted(mu.tolist())) for mu in sets]


def of_order(est: HBM, k: int) -> list[tuple[int, ...]]:
    return [mu for mu in est.interactions_ if len(mu) == k]


def fitted_nodes(X, **options):
    rows = Samples.check(X, **options)
    data = NodeData(DistinctRows.of(rows))
    return fit_nodes(data, data.modelled, all_terms(2, data.space)), data


@pytest.mark.parametrize("given", [None, [0, 5]])
def test_sizes_of_triplets_are_those_of_the_list(given, monkeypatch):
    X, _ = planted(14, 800, 3, 2, 0.4, 1)
    X = np.column_stack([X, np.random.default_rng(5).choice([0, 1, 2], (800, 2), p=[0.6, 0.3, 0.1])])
    nodes, data = fitted_nodes(X, given=given)
    terms = Terms(data.space, all_terms(3, data.space))
    where = terms.keys.slice(3)
    plain = glance_at_best(nodes, terms, np.arange(where.start, where.stop))
    rows, sizes = sift.sift(nodes, 3, 1.0)  # nothing is left out
    assert len(rows) == n_sets(data.space, 3) == where.stop - where.start
    np.testing.assert_array_equal(rows, terms.keys.block(3))
    np.testing.assert_allclose(sizes, plain, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(sift, "MOST", 5)
    some, largest = sift.sift(nodes, 3, 0.05)
    assert 0 < len(some) < len(rows)
    kept = {tuple(row) for row in some.tolist()}
    bar = largest.min()
    assert kept >= {tuple(row) for row, size in zip(rows.tolist(), sizes) if size > bar + 1e-3}


def test_sizes_of_quadruplets_are_those_of_their_definition():
    X, _ = planted(9, 500, 4, 1, 0.5, 2, values=(0, 1))
    nodes, data = fitted_nodes(X)
    rows, sizes = sift.sift(nodes, 4, 1.0)
    assert len(rows) == n_sets(data.space, 4) == 126
    spread = np.round([nodes[a].spread for a in range(9)], 9)
    for mu, size in zip(rows.tolist(), sizes):
        a = mu[int(np.argmax(spread[mu]))]
        node, rest = nodes[a], [i for i in mu if i != a]
        every = slice(0, len(data.weights))
        eta = node.fields(node.theta[None], node.design(every))
        g = data.Y[rest].prod(axis=0)
        S = node.residuals(eta, every)[0][0, 0] @ g
        V = node.covariance(eta[0], every)[0, 0] @ g**2
        assert size == pytest.approx(abs(S) / np.sqrt(V), rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("values", [(-1, 1), (0, 1)])
def test_selection_is_that_from_a_list_of_all(order, values, monkeypatch):
    X, sets = planted(16, 2000, order, 2, 0.25, 3, values)
    listed = HBM(order=order, fdr=0.05, random_state=0).fit(X)
    assert set(sets) <= set(listed.interactions_)
    monkeypatch.setattr(sift, "MAX_LISTED", 10)
    asked = []
    select = nested.select_sifted
    monkeypatch.setattr(nested, "select_sifted", lambda *args, **more: asked.append(1) or select(*args, **more))
    sifted = HBM(order=order, fdr=0.05, random_state=0).fit(X)
    assert asked
    assert sifted.interactions_ == listed.interactions_
    np.testing.assert_allclose(sifted.weights_, listed.weights_, atol=1e-9)
    np.testing.assert_allclose(sifted.tests_.z, listed.tests_.z, atol=1e-9)
    np.testing.assert_allclose(sifted.tests_.q_values, listed.tests_.q_values, rtol=1e-6)
    assert sifted.trust_.headline == listed.trust_.headline


def test_all_sets_count_as_hypotheses(monkeypatch):
    """With the q-values of those that were kept alone, more would pass."""
    X, _ = planted(30, 400, 3, 0, 0.0, 4)
    monkeypatch.setattr(sift, "MOST", 100)
    found = nested.select_sifted(Samples.check(X), 3, 0.05)[1]
    n_kept = len(found.terms.keys.block(3))
    assert 0 < n_kept < 4060
    where = found.terms.keys.slice(3)
    p, q = np.sort(found.p_values[where]), np.sort(found.q_values[where])
    assert q[0] == pytest.approx(min(1.0, np.min(p * 4060 / np.arange(1, n_kept + 1))))


def test_groups_and_weights_are_heard(monkeypatch):
    X, sets = planted(16, 1500, 3, 2, 0.3, 5)
    doubled, groups = np.repeat(X, 2, axis=0), np.repeat(np.arange(1500), 2)
    monkeypatch.setattr(sift, "MAX_LISTED", 10)
    once = HBM(order=3, fdr=0.05, random_state=0).fit(X)
    twice = HBM(order=3, fdr=0.05, random_state=0).fit(doubled, groups=groups)
    assert set(sets) <= set(once.interactions_)
    at = [i for i, mu in enumerate(twice.interactions_) if mu in sets]
    before = [i for i, mu in enumerate(once.interactions_) if mu in sets]
    np.testing.assert_allclose(twice.tests_.z[at], once.tests_.z[before], rtol=0.1)
    few, counts = np.unique(X[:, :9], axis=0, return_counts=True)
    weighted = nested.select_sifted(Samples.check(few, sample_weight=counts), 3, 0.05)[1]
    rows = nested.select_sifted(Samples.check(X[:, :9]), 3, 0.05)[1]
    np.testing.assert_allclose(weighted.z, rows.z, atol=1e-9)


def test_what_is_sifted_and_what_is_not():
    few, many = (Samples.check(np.random.default_rng(0).choice([0, 1], (50, n))).space for n in (60, 300))
    assert not sift.serves(few, 3, 1000)  # 34,220: listed
    assert sift.serves(many, 3, 1000)  # 4.5 million
    assert not sift.serves(many, 2, 1000)
    assert not sift.serves(many, 3, 10**9)  # out of reach
    assert not sift.serves(many, 4, 100)  # 2.5 GiB of moments
    labels = Samples.check(np.random.default_rng(0).choice(list("abc"), (50, 300)).astype(object)).space
    assert not sift.serves(labels, 3, 1000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_quadruplets_of_a_hundred_columns(seed, record_property):
    """3.9 million quadruplets: six planted ones are found, and hardly anything else; nothing where nothing is."""
    fresh = np.random.SeedSequence().entropy + seed
    record_property("seed", fresh)
    X, sets = planted(100, 5000, 4, 6, 0.15, fresh)
    est = HBM(order=4, fdr=0.05, random_state=0).fit(X)
    found = of_order(est, 4)
    assert set(sets) <= set(found), fresh
    assert len(set(found) - set(sets)) <= 3, fresh  # 0.3 expected
    null, _ = planted(100, 5000, 4, 0, 0.0, fresh + 10)
    assert len(of_order(HBM(order=4, fdr=0.001, random_state=0).fit(null), 4)) == 0, fresh


@pytest.mark.slow
def test_triplets_of_five_hundred_columns(record_property):
    """20.7 million triplets."""
    fresh = np.random.SeedSequence().entropy
    record_property("seed", fresh)
    X, sets = planted(500, 2000, 3, 10, 0.25, fresh)
    est = HBM(order=3, fdr=0.05, random_state=0).fit(X)
    found = of_order(est, 3)
    assert set(sets) <= set(found), fresh
    assert len(set(found) - set(sets)) <= 4, fresh  # 0.5 expected


def test_large_tensors_of_few_sets_are_not_made(monkeypatch):
    """A start from the pairs alone, and the same fit from it."""
    from hbm_learn.inversion.closed_form import tensors

    X, sets = planted(30, 3000, 3, 2, 0.3, 6)
    named = [*all_terms(2, Samples.check(X).space).tuples, *sets]
    plain = HBM(order=3, interactions=named, refine="pseudolikelihood", random_state=0).fit(X)
    monkeypatch.setattr(tensors, "LARGE", 1000)
    monkeypatch.setattr("hbm_learn.inversion.closed_form.diagonal.apply_everywhere", lambda *_: 1 / 0)
    lean = HBM(order=3, interactions=named, refine="pseudolikelihood", random_state=0).fit(X)
    assert lean.interactions_ == plain.interactions_
    assert np.abs(lean.effects_ - plain.effects_).max() < 0.1 * np.min(plain.effect_errors_)
    np.testing.assert_allclose(lean.trust_.bias, plain.trust_.bias, rtol=0.05)
    given = HBM(order=3, interactions=named, refine="pseudolikelihood", alpha=(1.0, 2.0), random_state=0).fit(X)
    assert given.alpha_ == {2: 1.0, 3: 2.0}


def test_flat_tensors_are_dense_ones():
    from hbm_learn.inversion.closed_form.tensors import dense, flat

    block, w = np.array([[0, 1, 3], [1, 2, 4]]), np.array([0.5, -2.0])
    np.testing.assert_array_equal(flat(block, w, 5).toarray().reshape(5, 5, 5), dense(block, w, 5))
