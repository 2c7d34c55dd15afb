"""Gauges: the same distribution in other functions, against energies of every state."""

from math import prod

import numpy as np
import pytest
from mixed import (
    ALPHABETS,
    REGION,
    all_codes,
    all_rows,
    arguments_of,
    assert_same_up_to_a_constant,
    exponents,
    random_arguments,
)

from hbm_learn import BoltzmannMachine, Interactions
from hbm_learn.model.gauge import affine_powers, transfer
from hbm_learn.space import Interval, Nominal, Space
from hbm_learn.terms import Terms, all_terms, closure

CASES = [(name, order, powers) for name in ALPHABETS for order in (2, 3, 4) for powers in (False, True)]


def standard_of(space, seed=5, centred=True):
    rng = np.random.default_rng(seed)
    return space.standard([rng.dirichlet(np.full(q, 3.0)) for q in space.sizes], centred)


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize(("name", "order", "powers"), CASES)
def test_another_gauge_is_the_same_distribution(name, order, powers, centred):
    model = BoltzmannMachine(**random_arguments(ALPHABETS[name], order, seed=order, powers=powers))
    codes = all_codes(ALPHABETS[name])
    moved = model.in_space(standard_of(model.space, centred=centred))
    assert_same_up_to_a_constant(moved.energy_of_codes(codes), model.energy_of_codes(codes))
    back = moved.in_space(model.space)
    assert_same_up_to_a_constant(back.energy_of_codes(codes), model.energy_of_codes(codes), 1e-11)


def test_an_open_set_is_closed_only_where_constants_ask_for_it():
    model = BoltzmannMachine(**random_arguments(ALPHABETS["mixed"], 3, seed=2, n_missing=4))
    assert len(model.in_space(standard_of(model.space)).columns) == len(closure(model.columns, model.space))
    assert model.in_space(standard_of(model.space, centred=False)).columns == model.columns


@pytest.mark.parametrize(("name", "order"), [("numbers", 3), ("mixed", 3), ("labels", 4)])
def test_transfer_maps_couplings_linearly(name, order):
    """[θ; J] = T J̃ itself, on random J̃: products of φ expanded in products of ψ at every state."""
    alphabets = ALPHABETS[name]
    phi = standard_of(Space.of(alphabets, len(alphabets), 2), 1)
    psi = standard_of(Space.of(alphabets, len(alphabets), 2), 2)
    columns = all_terms(order, phi)
    weights = np.random.default_rng(0).normal(size=len(columns))
    image = transfer(columns, phi, phi.relation(psi)) @ weights
    codes = all_codes(alphabets)

    def products(space):
        values = space.columns(codes)
        return np.stack([values[:, mu].prod(axis=1) for mu in map(list, columns.tuples)], axis=1)

    direct = products(phi) @ weights
    N = phi.n_columns
    assert image.shape == (N + len(columns),)
    assert_same_up_to_a_constant(psi.columns(codes) @ image[:N] + products(psi) @ image[N:], direct)


def test_transfer_of_one_function_a_site_is_the_formula():
    """J_μ = Σ_{ν⊇μ} J̃_ν Π_{i∈ν} s_i⁻¹ Π_{i∈ν∖μ} (−m_i)."""
    space = Space.of((-1, 0, 2), 4)
    rng = np.random.default_rng(3)
    frequencies = [rng.dirichlet(np.ones(3)) for _ in range(4)]
    m = np.array([p @ [-1, 0, 2] for p in frequencies])
    s = np.sqrt([p @ np.array([1, 0, 4]) for p in frequencies] - m**2)
    columns = Interactions.upto(4, 4)
    weights = rng.normal(size=len(columns))
    standard = space.standard(frequencies)
    image = transfer(columns, standard, standard.relation(space)) @ weights
    for mu, J in zip([(i,) for i in range(4)] + columns.tuples, image):
        expected = sum(
            weight / prod(s[i] for i in nu) * prod(-m[i] for i in nu if i not in mu)
            for nu, weight in zip(columns.tuples, weights)
            if set(mu) <= set(nu)
        )
        np.testing.assert_allclose(J, expected, rtol=1e-12, atol=1e-12)


def test_transfer_of_nothing():
    space = Space.of(REGION, 3)
    empty = Interactions.from_tuples([], space.n_columns)
    assert transfer(empty, space, space.relation(standard_of(space))).shape == (6, 0)


def test_affine_powers_are_the_binomial_formula():
    space = Space.of([(1, 2, 3, 5), REGION, (0, 1)], 3, powers=3)
    s, t = np.array([2.0, 1.0, -1.0]), np.array([0.5, 0.0, 3.0])
    y = np.array([0.3, -1.7, 2.0, 4.0])
    relation = affine_powers(space, s, t)
    c, R = relation[0]
    powers = np.arange(1, 4)
    np.testing.assert_allclose(c + (y[:, None] ** powers) @ R, (2 * y[:, None] + 0.5) ** powers, rtol=1e-13)
    np.testing.assert_array_equal(relation[1][1], np.eye(2))
    np.testing.assert_allclose(relation[2][0] + y[:, None] @ relation[2][1], -y[:, None] + 3)


# ---------------------------------------------------------------------- alphabets


@pytest.mark.parametrize(("order", "powers"), [(2, False), (3, True), (4, True)])
def test_with_alphabet_for_each_variable(order, powers):
    """x = s·y + t differs from variable to variable, labels are renamed: what the new model says of itself is true."""
    source = ALPHABETS["mixed"]
    target = [(10, 20, 30, 50), Nominal("n", "s", "w"), Nominal(0, 1), (-3, 0, 1), (-1, 1)]
    model = BoltzmannMachine(**random_arguments(source, order, seed=7 + order, powers=powers))
    other = model.with_alphabet(target)
    assert other.space.is_coding
    assert_same_up_to_a_constant(exponents(arguments_of(other)), exponents(arguments_of(model)), 1e-10)
    np.testing.assert_allclose(other.energy(all_rows(target)), -exponents(arguments_of(other)), rtol=1e-9, atol=1e-9)
    back = other.with_alphabet(source)
    assert_same_up_to_a_constant(exponents(arguments_of(back)), exponents(arguments_of(model)), 1e-9)


def test_with_alphabet_of_a_model_in_another_gauge():
    model = BoltzmannMachine(**random_arguments(ALPHABETS["mixed"], 3, seed=1, powers=True))
    moved = model.in_space(standard_of(model.space))
    codes = all_codes(ALPHABETS["mixed"])
    target = [(0, 1, 2, 4), REGION, Nominal("f", "m"), (-1, 0.5, 1), (0, 1)]
    other = moved.with_alphabet(target)
    assert other.space.is_coding
    assert_same_up_to_a_constant(other.energy_of_codes(codes), model.energy_of_codes(codes), 1e-10)


def test_only_affine_images_are_accepted():
    model = BoltzmannMachine([0, 0], {(0, 1): 1.0}, alphabet=[(0, 1), (0, 1, 2)])
    with pytest.raises(ValueError, match=r"variable 1: Alphabet\(\(0, 1, 5\)\) is not an affine image"):
        model.with_alphabet([(0, 1), (0, 1, 5)])
    with pytest.raises(ValueError, match=r"variable 0: .*not an affine image"):
        model.with_alphabet([Nominal("a", "b"), (0, 1, 2)])


def test_other_gauges_beside_a_continuous_variable():
    """The constant of a label's function leaves x alone behind, which belongs to h."""
    model = BoltzmannMachine(
        [0.3, 0.0, -0.2],
        {(0, 1): [1.0, 0.5, -2.0], (0, 1, 2): [0.2, 0.1, 0.7]},
        [0.5, 0, 1.0],
        [Interval(-1, 2), REGION, (0, 1)],
    )
    rng = np.random.default_rng(0)
    codes = np.column_stack([rng.uniform(-1, 2, 40), rng.integers(3, size=40), rng.integers(2, size=40)])
    frequencies = [None, np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.9])]
    moved = model.in_space(model.space.standard(frequencies))
    assert_same_up_to_a_constant(moved.energy_of_codes(codes), model.energy_of_codes(codes))
    affine = model.with_alphabet([Interval(0, 6), REGION, (-1, 1)])
    y = codes.copy()
    y[:, 0] = 2 * (codes[:, 0] + 1)
    assert_same_up_to_a_constant(affine.energy_of_codes(y), model.energy_of_codes(codes))


def test_terms_do_not_depend_on_the_gauge():
    model = BoltzmannMachine(**random_arguments(ALPHABETS["mixed"], 3, seed=3, powers=True, n_missing=0))
    moved = model.in_space(standard_of(model.space))
    assert set(model.terms.tuples) <= set(moved.terms.tuples)
    assert Terms(moved.space, moved.columns).tuples == moved.terms.tuples
