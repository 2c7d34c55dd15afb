from math import comb

import numpy as np
import pytest
from mixed import ALPHABETS, all_codes

from hbm_learn import datasets
from hbm_learn.space import Nominal, Space

MIXED = ALPHABETS["mixed"]


def test_takahashi_has_the_papers_statistics():
    models = [datasets.make_takahashi(0.7, random_state=seed) for seed in range(100)]
    h = np.concatenate([model.h for model in models])
    J = np.concatenate([model.weights[model.columns.slice(2)] for model in models])
    assert h.std() == pytest.approx(0.1, rel=0.08)
    assert J.var() == pytest.approx(0.7**2 / np.sqrt(10), rel=0.08)
    model = models[0]
    assert set(model.weights[model.columns.slice(3)]) == {0.001}
    assert len(model.weights) == comb(10, 2) + comb(10, 3)
    assert set(model.d) == {0.01}


def test_scalings():
    sk = datasets.make_sk(100, beta=0.5, random_state=0)
    assert sk.weights.std() == pytest.approx(0.05, rel=0.05)
    assert not sk.h.any()
    p_spin = datasets.make_pspin(20, 3, J=2.0, random_state=0)
    assert p_spin.weights.var() == pytest.approx(4 * 6 / (2 * 20**2), rel=0.15)
    assert p_spin.columns.orders == [3]
    curie = datasets.make_curie_weiss(50, {2: 0.5, 3: 0.2}, h=0.1)
    M = np.full((1, 50), 0.4)
    assert -curie.energy(M)[0] / 50 == pytest.approx(0.1 * 0.4 + 0.5 * 0.4**2 + 0.2 * 0.4**3, rel=0.05)


def test_planted_counts_and_strengths():
    model = datasets.make_planted(30, {2: 10, 3: 7, 4: 2}, strength=(0.2, 0.3), random_state=3)
    assert [len(model.columns.block(k)) for k in (2, 3, 4)] == [10, 7, 2]
    assert (np.abs(model.weights) >= 0.2).all()
    assert (np.abs(model.weights) <= 0.3).all()
    assert len(set(np.sign(model.weights))) == 2
    background = datasets.make_planted(30, {3: 7}, beta=0.5, random_state=3)
    assert len(background.columns.block(2)) == comb(30, 2)


def test_planted_refuses_more_than_there_are():
    with pytest.raises(ValueError, match="5 variables have 10"):
        datasets.make_planted(5, {3: 11})


@pytest.mark.parametrize(("shape", "periodic", "edges"), [((4, 5), True, 40), ((4, 5), False, 31), ((2, 3), True, 9)])
def test_lattice_edges(shape, periodic, edges):
    model = datasets.make_lattice(shape, J=0.7, periodic=periodic, random_state=0)
    assert len(model.weights) == edges
    assert set(np.abs(model.weights)) == {0.7}
    assert (datasets.make_lattice(shape, negative=0.0).weights > 0).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda seed: datasets.make_takahashi(0.5, random_state=seed),
        lambda seed: datasets.make_sk(8, h_std=0.1, random_state=seed),
        lambda seed: datasets.make_pspin(8, random_state=seed),
        lambda seed: datasets.make_planted(8, {3: 4}, random_state=seed),
        lambda seed: datasets.make_lattice((3, 3), random_state=seed),
        lambda seed: datasets.make_mixed(MIXED, {2: 3, 3: 1}, random_state=seed),
        lambda seed: datasets.make_potts(6, 3, random_state=seed),
    ],
)
def test_same_seed_same_model(make):
    assert make(1) == make(1)
    assert make(1) != make(2)


# ---------------------------------------------------------------------- variables of different kinds


def planted_effects(model):
    """{variables: root mean square over all states of what they add}, in functions orthonormal over equal values."""
    gauge = model.space.standard([np.full(q, 1.0 / q) for q in model.space.sizes])
    moved = model.in_space(gauge)
    size = np.sqrt(moved.terms.sum(moved.column_weights**2))
    out = {}
    for mu, effect in zip(moved.terms.tuples, size):
        variables = tuple(dict.fromkeys(mu))
        out[variables] = np.hypot(out.get(variables, 0.0), effect)
    return {mu: effect for mu, effect in out.items() if effect > 1e-10}


@pytest.mark.parametrize("powers", [1, 2])
@pytest.mark.parametrize("name", ALPHABETS)
def test_mixed_effects_are_as_strong_as_asked(name, powers):
    counts = {2: 3, 3: 2}
    model = datasets.make_mixed(ALPHABETS[name], counts, (0.2, 0.4), random_state=1, powers=powers)
    effects = planted_effects(model)
    assert [sum(len(mu) == k for mu in effects) for k in (2, 3)] == [3, 2]
    assert all(0.2 <= effect <= 0.4 for effect in effects.values())
    assert model.space.is_coding
    assert any(len(set(mu)) < len(mu) for mu in model.interactions) == (powers == 2 and name != "labels")


def test_a_mixed_effect_is_a_root_mean_square_over_states():
    model = datasets.make_mixed(MIXED, {2: 1}, (0.3, 0.3), random_state=4, h_std=0.0)
    energy = model.energy_of_codes(all_codes(MIXED))
    assert energy.std() == pytest.approx(0.3)


def test_mixed_models_list_no_interaction_that_vanishes():
    model = datasets.make_mixed([(-1, 0, 1)] * 6, {2: 2, 3: 2}, random_state=0)
    assert [len(model.columns.block(k)) for k in (2, 3)] == [2, 2]
    shifted = datasets.make_mixed([(0, 1, 2)] * 6, {2: 2, 3: 2}, random_state=0)
    assert len(shifted.columns.block(2)) > 2
    beside = datasets.make_mixed([(-1, 0, 1)] * 5 + [(0, 1)], {2: 2, 3: 2}, random_state=0)
    assert len(beside.columns.block(2)) > 2
    assert (np.abs(beside.weights) > 1e-9).all()


def test_mixed_refuses_more_than_there_are():
    with pytest.raises(ValueError, match="5 variables have 10"):
        datasets.make_mixed(MIXED, {3: 11})


def test_potts_scaling():
    model = datasets.make_potts(40, 3, beta=0.5, random_state=0)
    tables = np.array(list(model.couplings().values()))
    assert tables.shape == (comb(40, 2), 3, 3)
    np.testing.assert_allclose(tables.sum(axis=1), 0, atol=1e-13)
    np.testing.assert_allclose(tables.sum(axis=2), 0, atol=1e-13)
    assert np.sqrt((tables**2).mean()) == pytest.approx(0.5 / np.sqrt(40), rel=0.03)
    assert model.space == Space.of(Nominal(0, 1, 2), 40)
    two = datasets.make_potts(100, 2, beta=0.5, random_state=0)
    assert two.weights.std() == pytest.approx(0.05, rel=0.05)
