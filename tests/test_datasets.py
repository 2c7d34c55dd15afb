from math import comb

import numpy as np
import pytest

from hbm_learn import datasets


def test_takahashi_has_the_papers_statistics():
    models = [datasets.make_takahashi(0.7, random_state=seed) for seed in range(100)]
    h = np.concatenate([model.h for model in models])
    J = np.concatenate([model.weights[model.packed.slice(2)] for model in models])
    assert h.std() == pytest.approx(0.1, rel=0.08)
    assert J.var() == pytest.approx(0.7**2 / np.sqrt(10), rel=0.08)
    model = models[0]
    assert set(model.weights[model.packed.slice(3)]) == {0.001}
    assert len(model.weights) == comb(10, 2) + comb(10, 3)
    assert set(model.d) == {0.01}


def test_scalings():
    sk = datasets.make_sk(100, beta=0.5, random_state=0)
    assert sk.weights.std() == pytest.approx(0.05, rel=0.05)
    assert not sk.h.any()
    p_spin = datasets.make_pspin(20, 3, J=2.0, random_state=0)
    assert p_spin.weights.var() == pytest.approx(4 * 6 / (2 * 20**2), rel=0.15)
    assert p_spin.packed.orders == [3]
    curie = datasets.make_curie_weiss(50, {2: 0.5, 3: 0.2}, h=0.1)
    M = np.full((1, 50), 0.4)
    assert -curie.energy(M)[0] / 50 == pytest.approx(0.1 * 0.4 + 0.5 * 0.4**2 + 0.2 * 0.4**3, rel=0.05)


def test_planted_counts_and_strengths():
    model = datasets.make_planted(30, {2: 10, 3: 7, 4: 2}, strength=(0.2, 0.3), random_state=3)
    assert [len(model.packed.block(k)) for k in (2, 3, 4)] == [10, 7, 2]
    assert (np.abs(model.weights) >= 0.2).all()
    assert (np.abs(model.weights) <= 0.3).all()
    assert len(set(np.sign(model.weights))) == 2
    background = datasets.make_planted(30, {3: 7}, beta=0.5, random_state=3)
    assert len(background.packed.block(2)) == comb(30, 2)


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
    ],
)
def test_same_seed_same_model(make):
    assert make(1) == make(1)
    assert make(1) != make(2)
