from itertools import combinations

import numpy as np
import pytest
from mixed import ALPHABETS as MIXED
from mixed import (
    REGION,
    SEX,
    all_codes,
    all_rows,
    arguments_of,
    assert_same_up_to_a_constant,
    exponents,
    probabilities,
    random_arguments,
)
from oracle import ALPHABETS, all_states, distribution, energy, random_model

from hbm_learn import BoltzmannMachine, Interactions, Interval
from hbm_learn._kernels import polynomial
from hbm_learn.space import Alphabet, Nominal, Space

ORDERS = [1, 2, 3, 4, 5]


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
@pytest.mark.parametrize("order", ORDERS)
def test_energies_and_fields_follow_the_definition(order, alphabet):
    model = random_model(6, order, alphabet, 1.5, seed=order)
    rng = np.random.default_rng(1)
    X = rng.choice(alphabet, size=(20, 6))
    expected = [energy(model, x) for x in X.astype(float)]
    np.testing.assert_allclose(model.energy(X), expected, rtol=1e-12, atol=1e-12)

    # H changes by −field·Δx + d·Δ(x²)/2 when one variable changes.
    fields = model.local_fields(X)
    for i in range(6):
        Y = X.copy()
        Y[:, i] = rng.choice(alphabet, size=20)
        change = -fields[:, i] * (Y[:, i] - X[:, i]) + 0.5 * model.d[i] * (Y[:, i] ** 2 - X[:, i] ** 2)
        np.testing.assert_allclose(model.energy(Y) - model.energy(X), change, atol=1e-12)


# Numbers of rows that end within a tile of the kernel, and fill tiles.
@pytest.mark.parametrize("n_rows", [1, 5, polynomial._TILE, 2 * polynomial._TILE + 3])
def test_values_on_rows_against_their_twin(n_rows):
    rng = np.random.default_rng(n_rows)
    sets = [c for k in (1, 2, 3, 4, 5) for c in combinations(range(5), k)]
    members, indptr = np.concatenate(sets), np.concatenate([[0], np.cumsum([len(c) for c in sets])])
    X, weights = rng.normal(size=(n_rows, 5)), rng.normal(size=len(sets))
    twin = sum(w * np.prod(X[:, list(c)], axis=1) for w, c in zip(weights, sets))
    np.testing.assert_allclose(polynomial.values_on_rows(X, members, indptr, weights), twin, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_derivatives_of_the_coupling_polynomial(order):
    model = random_model(6, order, (-1, 1), 1.5, seed=order)
    m = np.random.default_rng(2).uniform(-0.9, 0.9, 6)
    eps, unit = 1e-5, np.eye(6)

    def slope(f):
        return np.array([(f(m + eps * u) - f(m - eps * u)) / (2 * eps) for u in unit])

    np.testing.assert_allclose(model.F(m), slope(model.coupling_energy), atol=1e-9)
    np.testing.assert_allclose(model.A(m), slope(model.F), atol=1e-9)
    np.testing.assert_allclose(model.T(m), slope(model.A), atol=1e-9)
    chi = np.random.default_rng(3).normal(size=(6, 6))
    contracted = polynomial.third_contract(m, *model._kernel_args, chi)
    np.testing.assert_allclose(contracted, np.einsum("klp,ki,li->pi", model.T(m), chi, chi), atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("source", "target"),
    [((-1, 1), (0, 1)), ((0, 1), (-1, 1)), ((-1, 0, 1), (0, 1, 2)), ((0, 1, 2, 3), (-3, -1, 1, 3)), ((-1, 1), (-2, 2))],
    ids=str,
)
def test_with_alphabet_is_the_same_distribution(order, source, target):
    model = random_model(5, order, source, 1.5, seed=10 + order)
    other = model.with_alphabet(target)
    _, p, log_z = distribution(model)
    _, q, other_log_z = distribution(other)
    np.testing.assert_allclose(q, p, rtol=1e-10)
    offset = energy(model, all_states(model)[0]) - energy(other, all_states(other)[0])
    assert other_log_z == pytest.approx(log_z + offset, abs=1e-10)
    back = other.with_alphabet(source)
    np.testing.assert_allclose(back.h, model.h, atol=1e-10)
    np.testing.assert_allclose(back.d, model.d, atol=1e-10)
    np.testing.assert_allclose(back.weights, model.weights, atol=1e-10)


def test_with_alphabet_closes_the_interaction_set_only_when_it_must():
    model = BoltzmannMachine(np.zeros(4), {(0, 1, 2): 1.0})
    assert model.with_alphabet((-2, 2)).couplings() == {(0, 1, 2): pytest.approx(1 / 8)}
    closed = model.with_alphabet((0, 1))
    assert closed.interactions == [(0, 1), (0, 2), (1, 2), (0, 1, 2)]
    assert closed.couplings()[(0, 1, 2)] == pytest.approx(8)


def test_with_alphabet_interval():
    model = BoltzmannMachine([0.3, -0.2], {(0, 1): 0.5}, 0.7, Interval(-1, 1))
    other = model.with_alphabet(Interval(0, 1))
    X = np.random.default_rng(0).uniform(-1, 1, (10, 2))
    difference = model.energy(X) - other.energy((X + 1) / 2)
    np.testing.assert_allclose(difference, difference[0], atol=1e-12)


def test_matrix_and_dict_are_the_same_model():
    J = np.array([[0, 0.3, 0], [0.3, 0, -0.2], [0, -0.2, 0]])
    by_matrix = BoltzmannMachine(np.zeros(3), J)
    by_dict = BoltzmannMachine(np.zeros(3), {(1, 0): 0.3, (1, 2): -0.2})
    assert by_matrix == by_dict
    assert np.array_equal(by_matrix.J, J)
    assert by_matrix.couplings() == {(0, 1): 0.3, (1, 2): -0.2}


def test_tensor_is_symmetric():
    model = BoltzmannMachine(np.zeros(4), {(0, 1): 0.5, (0, 1, 3): 2.0, (1, 2, 3): -1.0})
    T = model.tensor(3)
    assert T[3, 0, 1] == T[1, 0, 3] == 2.0
    assert np.array_equal(T, T.transpose(2, 0, 1))
    assert np.count_nonzero(T) == 12
    assert model.tensor(4).shape == (4,) * 4
    assert not model.tensor(4).any()


def test_model_is_immutable():
    h = np.zeros(2)
    model = BoltzmannMachine(h, {(0, 1): 0.5})
    h[0] = 1.0
    assert model.h[0] == 0.0
    for array in (model.h, model.d, model.weights):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3.0
    with pytest.raises(AttributeError):
        model.h = h


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], {}), "h has shape"),
        (([0, np.nan], {}), r"h\[1\] = nan"),
        (([0, "a"], {}), "give a vector of real numbers"),
        (([0, 0], {(0, 2): 1.0}), "2 is not a known feature"),
        (([0, 0], {(0, 1): np.inf}), r"couplings\[\(0, 1\)\] = inf"),
        (([0, 0], {(0, 1): 1.0, (1, 0): 1.0}), r"couplings\[\(1, 0\)\]: this interaction is given twice"),
        (([0, 0], {(0, 1): "a"}), r"couplings\[\(0, 1\)\] = 'a': every coupling is a number"),
        (([0, 0], {(0, 1): [1.0, 2.0]}), r"couplings\[\(0, 1\)\] has shape \(2,\); expected a number"),
        (([0, 0], {(0,): 1.0}), "at least two variables"),
        (([0, 0], {(0, 0, 1): 1.0}), "power 2 of variable 0, but of 2 values powers beyond 1 are combinations"),
        (([0, 0], "J"), "give a dict, or a symmetric"),
        (([0, 0], np.array([[0, np.nan], [np.nan, 0]])), r"couplings\[0, 1\] = nan"),
        (([0, 0], np.zeros((3, 3))), "expected \\(2, 2\\)"),
        (([0, 0], np.eye(2)), "no self-interactions"),
        (([0, 0], np.array([[0, 1.0], [2.0, 0]])), "symmetric"),
        (([0, 0], {}, [0, 0, 0]), "d has shape"),
        (([0, 0, 0], {(0, 1, 2): 1.0}, 1.0, "real"), "pair couplings only"),
        (
            ([0, 0], {(0, 1): 1.0}, 0.0, REGION),
            r"couplings\[\(0, 1\)\] has shape \(\); expected an array of shape \(3, 3\)",
        ),
        (([0, 0], np.zeros((2, 2)), 0.0, REGION), "give a dict with tables for nominal members"),
        (([0, 0], {(0, 1, 1): 1.0}, 0.0, [(0, 1, 2), SEX]), "variable 1 is nominal, and labels have no powers"),
        (
            ([0, 0.5], {}, 0.0, [(0, 1, 2), SEX]),
            r"variable 1 is nominal, with h = 0.5 .*labels have no field; give site\[1\]",
        ),
        (([0, 0], {}, [0, 2], [(0, 1, 2), SEX]), "variable 1 is nominal, with h = 0 and d = 2"),
        (([0, 0], {}, 0.0, (0, 1, 2), [None]), "site has 1 entries for 2 variables: give None or a table for each"),
        (([0, 0], {}, 0.0, (0, 1, 2), [None, [1, 2]]), r"site\[1\] = \[1, 2\]: give 3 finite numbers"),
        (([0, 0], {}, 0.0, (0, 1, 2), ["abc", None]), r"site\[0\] = 'abc': give 3 finite numbers"),
        (([0, 0], {}, 0.0, (0, 1, 2), [[0, np.inf, 0], None]), r"site\[0\] = .*finite numbers"),
        (([0, 0], {}, 1.0, "real", [[1, 2], None]), r"site\[0\]: .*no list of values to give weights to; use h and d"),
    ],
)
def test_bad_models_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BoltzmannMachine(*arguments)


def test_bad_rows_are_refused():
    model = BoltzmannMachine([0, 0], {(0, 1): 1.0})
    for X in (np.zeros(2), np.zeros((3, 3))):
        with pytest.raises(ValueError, match=r"expected \(n_samples, 2\)"):
            model.energy(X)


# ---------------------------------------------------------------------- variables of different kinds

MIXED_CASES = [(name, order, powers) for name in MIXED for order in (1, 2, 3, 4) for powers in (False, True)]


@pytest.mark.parametrize(("name", "order", "powers"), MIXED_CASES)
def test_any_tables_give_the_distribution_they_say(name, order, powers):
    """Tables that do not sum to zero are split over orders: their exponential is the distribution all the same."""
    arguments = random_arguments(MIXED[name], order, seed=order, powers=powers)
    model = BoltzmannMachine(**arguments)
    expected = exponents(arguments)
    rows, codes = all_rows(MIXED[name]), all_codes(MIXED[name])
    assert_same_up_to_a_constant(-model.energy(rows), expected)
    np.testing.assert_allclose(model.energy(rows), model.energy_of_codes(codes), rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(probabilities(-model.energy(rows)), probabilities(expected), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize(("name", "order", "powers"), MIXED_CASES)
def test_what_a_model_says_of_itself_makes_it_again(name, order, powers):
    model = BoltzmannMachine(**random_arguments(MIXED[name], order, seed=order, powers=powers))
    assert_same_up_to_a_constant(exponents(arguments_of(model)), -model.energy_of_codes(all_codes(MIXED[name])))
    again = BoltzmannMachine(**arguments_of(model))
    assert again.columns == model.columns
    np.testing.assert_allclose(again.column_weights, model.column_weights, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(again.h, model.h, atol=1e-13)
    for mu, table in model.couplings().items():
        for axis in range(np.ndim(table)):
            np.testing.assert_allclose(np.sum(table, axis=axis), 0, atol=1e-12, err_msg=str(mu))


@pytest.mark.parametrize(("name", "order", "powers"), [("mixed", 3, True), ("labels", 3, False)])
def test_column_fields_are_the_change_of_the_energy(name, order, powers):
    """ln P(x_i | rest) − ln P(y_i | rest) = θ_i(x_i) − θ_i(y_i) + Σ_c F_c (φ_c(x_i) − φ_c(y_i))."""
    model = BoltzmannMachine(**random_arguments(MIXED[name], order, seed=4, powers=powers))
    codes, space = all_codes(MIXED[name]), model.space
    fields = model.column_fields(codes)
    for i in range(model.n_features):
        other = codes.copy()
        other[:, i] = (codes[:, i] + 1) % space.sizes[i]
        mine = slice(space.column_ptr[i], space.column_ptr[i + 1])
        phi = space.functions[i]
        change = model.own[i][other[:, i]] - model.own[i][codes[:, i]]
        change += (fields[:, mine] * (phi[other[:, i]] - phi[codes[:, i]])).sum(axis=1)
        np.testing.assert_allclose(model.energy_of_codes(codes) - model.energy_of_codes(other), change, atol=1e-11)


def test_derivatives_over_columns():
    model = BoltzmannMachine(**random_arguments(MIXED["mixed"], 4, seed=4, powers=True))
    m = np.random.default_rng(2).uniform(-0.9, 0.9, model.n_columns)
    eps, unit = 1e-5, np.eye(model.n_columns)

    def slope(f):
        return np.array([(f(m + eps * u) - f(m - eps * u)) / (2 * eps) for u in unit])

    np.testing.assert_allclose(model.F(m), slope(model.coupling_energy), atol=1e-8)
    np.testing.assert_allclose(model.A(m), slope(model.F), atol=1e-8)
    same = model.space.site[:, None] == model.space.site
    assert not model.A(m)[same].any()


def test_weights_and_interactions_as_users_see_them():
    table = np.array([[2.0, -1.0, -1.0], [-2.0, 1.0, 1.0]])
    model = BoltzmannMachine(
        [0.1, 0, 0, 0],
        {(0, 1): [0.5, -0.5], (0, 0, 1): [0.2, -0.2], (1, 2): table, (0, 3): -0.7, (0, 0, 3): 0.4},
        alphabet=[(0, 1, 2), SEX, REGION, (-1, 1)],
    )
    assert model.interactions == [(0, 1), (0, 3), (0, 0, 1), (0, 0, 3), (1, 2)]
    rms = np.sqrt((table**2).mean())
    np.testing.assert_allclose(model.weights, [-0.5, -0.7, -0.2, 0.4, rms])  # φ of two labels is (−1, 1)
    np.testing.assert_allclose(model.J[0], [0, -0.5, 0, -0.7])
    assert model.J[1, 2] == model.J[2, 1] == pytest.approx(rms)
    np.testing.assert_allclose(model.couplings()[1, 2], table, atol=1e-14)
    np.testing.assert_allclose(model.couplings()[0, 0, 1], [0.2, -0.2])
    assert model.couplings()[0, 0, 3] == pytest.approx(0.4)
    assert model.order == 2
    assert (model.n_features, model.n_columns) == (4, 6)


def test_averages_of_a_table_belong_to_fewer_variables():
    """J(a, b) x = (J − averages) x + averages over a, over b, over both."""
    alphabets = [REGION, SEX, (1, 2, 4)]
    J = np.random.default_rng(0).normal(size=(3, 2))
    model = BoltzmannMachine([0, 0, 0.5], {(0, 1, 2): J}, alphabet=alphabets)
    assert model.interactions == [(0, 2), (1, 2), (0, 1, 2)]
    np.testing.assert_allclose(model.couplings()[0, 2], J.mean(axis=1) - J.mean(), atol=1e-13)
    assert model.h[2] == pytest.approx(0.5 + J.mean())
    centred = J - J.mean(axis=0) - J.mean(axis=1, keepdims=True) + J.mean()
    pure = BoltzmannMachine([0, 0, 0.5], {(0, 1, 2): centred}, alphabet=alphabets)
    assert pure.interactions == [(0, 1, 2)]
    assert pure.h[2] == 0.5


def test_what_a_table_leaves_on_one_variable_keeps_its_parameters():
    """Only the variables concerned change, and x, x², x³ go to h, d and site."""
    model = BoltzmannMachine(
        [0, 0.1, 0.2],
        {(0, 1): [1.0, 0.0, 0.0], (0, 1, 1): [3.0, 0, 0], (0, 1, 1, 1): [6.0, 0, 0]},
        [0, 0.3, 0.4],
        [REGION, (0, 1, 2, 3), (0, 1, 2, 3, 5)],
        [None, None, [0, 1, 0, 0, 2.0]],
    )
    assert model.h[1] == pytest.approx(0.1 + 1 / 3)
    assert model.d[1] == pytest.approx(0.3 - 2.0)
    np.testing.assert_allclose(model.site[1], 2.0 * np.arange(4) ** 3, atol=1e-12)
    assert (model.h[2], model.d[2]) == (0.2, 0.4)
    np.testing.assert_array_equal(model.site[2], [0, 1, 0, 0, 2.0])
    beside = BoltzmannMachine([0.1, 0], {(0, 1): [1.0, 0.0, 0.0]}, [1.0, 0], [Interval(0, 1), REGION])
    assert beside.h[0] == pytest.approx(0.1 + 1 / 3)


def test_site_tables_are_weights_on_top_of_h_and_d():
    model = BoltzmannMachine(
        [0.5, 0.0], {}, [0.2, 0.0], [(0, 1, 2, 3), REGION], [[0.0, 0.3, -0.1, 0.4], [1.0, 2.0, 6.0]]
    )
    x = np.arange(4.0)
    np.testing.assert_allclose(model.own[0], 0.5 * x - 0.1 * x**2 + [0.0, 0.3, -0.1, 0.4])
    np.testing.assert_allclose(model.own[1], [-2.0, -1.0, 3.0])  # labels: up to a constant
    assert model.site[1].sum() == 0
    with pytest.raises(ValueError, match="read-only"):
        model.site[0][0] = 1.0
    assert BoltzmannMachine([0.5], {}, alphabet="real", d=1.0).own == [None]


def test_from_columns_splits_own_weights():
    space = Space.of([(0, 1, 2, 4), REGION, (-1, 1), (0, 1, 2)], 4)
    rng = np.random.default_rng(0)
    own = [rng.normal(size=q) for q in space.sizes]
    columns = Interactions.from_tuples([(0, 1), (1, 4)], space.n_columns)
    model = BoltzmannMachine.from_columns(space, own, columns, [0.3, -0.2])
    for mine, given in zip(model.own, own):
        np.testing.assert_allclose(mine - mine[0], given - given[0], atol=1e-12)
    assert model.site[0] is not None
    assert model.site[2] is None
    assert model.site[3] is None
    assert (model.h[1], model.d[1], model.d[2]) == (0, 0, 0)
    # h and d are the parabola closest under the frequencies: nothing of what is left correlates with x or x².
    p = np.array([0.4, 0.3, 0.2, 0.1])
    weighted = BoltzmannMachine.from_columns(space, own, columns, [0.3, -0.2], [p, np.ones(3) / 3, None, p[:3]])
    x = np.array([0.0, 1, 2, 4])
    np.testing.assert_allclose([p @ (weighted.site[0] * x**k) for k in (0, 1, 2)], 0, atol=1e-13)
    np.testing.assert_allclose(np.diff(weighted.own[0]), np.diff(own[0]), atol=1e-12)


def test_a_quadratic_table_leaves_no_site_weights():
    x = np.array([0.0, 1, 2, 4])
    space = Space.of((0, 1, 2, 4), 2)
    empty = Interactions.from_tuples([], 2)
    model = BoltzmannMachine.from_columns(space, [0.7 * x - 0.2 * x**2 + 5.0, 3.0 * x], empty, [])
    np.testing.assert_allclose(model.h, [0.7, 3.0], atol=1e-13)
    np.testing.assert_allclose(model.d, [0.4, 0.0], atol=1e-13)
    assert model.site == (None, None)


def test_from_packed_refuses_another_number_of_variables():
    with pytest.raises(ValueError, match="interactions among 3 variables, but h has 2"):
        BoltzmannMachine.from_packed([0, 0], Interactions.upto(2, 3), np.zeros(3))


@pytest.mark.parametrize("beta", [0.5, 2, np.float64(-1.5), np.int64(3)])
def test_temperature_scales_everything(beta):
    arguments = random_arguments(MIXED["mixed"], 3, seed=1, powers=True)
    model = BoltzmannMachine(**arguments)
    codes = all_codes(MIXED["mixed"])
    for scaled in (model * beta, beta * model):
        assert isinstance(scaled, BoltzmannMachine)
        np.testing.assert_allclose(scaled.energy_of_codes(codes), beta * model.energy_of_codes(codes), rtol=1e-12)
    assert model * 1 == model


def test_temperature_is_a_finite_number():
    model = BoltzmannMachine([0, 0], {(0, 1): 1.0})
    with pytest.raises(ValueError, match=r"model \* nan: give a finite number"):
        model * np.nan
    for wrong in ("2", [1, 2], np.array([1, 2])):
        with pytest.raises(TypeError):
            model * wrong


def test_the_alphabet_of_a_model():
    assert BoltzmannMachine([0, 0], {}, alphabet=[(0, 1), (0, 1)]).alphabet == Alphabet((0, 1))
    mixed = BoltzmannMachine([0, 0], {}, alphabet=[(0, 1), SEX])
    assert mixed.alphabet == (Alphabet((0, 1)), Alphabet(SEX))
    assert repr(mixed) == (
        "BoltzmannMachine(n_features=2, Interactions(none; n_features=2), "
        "Space(1 × Alphabet((0, 1)), 1 × Alphabet(Nominal('f', 'm'))))"
    )


def test_equality_looks_at_everything():
    arguments = random_arguments(MIXED["mixed"], 2, seed=1)
    model = BoltzmannMachine(**arguments)
    assert model == BoltzmannMachine(**arguments)
    changed = {**arguments["couplings"], (3, 4): arguments["couplings"][3, 4] + 1e-9}
    for other in (
        {"h": arguments["h"] + [1e-9, 0, 0, 0, 0]},
        {"d": arguments["d"] + [1e-9, 0, 0, 0, 0]},
        {"couplings": changed},
        {"couplings": {}},
        {"site": None},
        {"alphabet": [(1, 2, 3, 6), *arguments["alphabet"][1:]]},
        {"alphabet": [*arguments["alphabet"][:2], Nominal("m", "f"), *arguments["alphabet"][3:]]},
    ):
        assert model != BoltzmannMachine(**{**arguments, **other}), other
    assert model != "model"


def test_local_fields_are_for_numbers():
    for model in (
        BoltzmannMachine([0, 0], {(0, 1): np.zeros((2, 2))}, alphabet=SEX),
        BoltzmannMachine([0, 0], {(0, 0, 1): 1.0}, alphabet=(0, 1, 2)),
        BoltzmannMachine([0, 0], {(0, 1): 1.0}).in_space(Space.of((-1, 1), 2).standard([np.array([0.2, 0.8])] * 2)),
    ):
        with pytest.raises(ValueError, match="use column_fields"):
            model.local_fields(np.zeros((1, 2)))
    mixed = BoltzmannMachine([0.1, 0.2], {(0, 1): 0.5}, alphabet=[(0, 1, 2), (-1, 1)])
    np.testing.assert_allclose(mixed.local_fields([[2, -1]]), [[0.1 - 0.5, 0.2 + 1.0]])


def test_values_that_a_variable_does_not_have_are_named():
    model = BoltzmannMachine([0, 0], {(0, 1): 1.0}, alphabet=[(0, 1, 2), (-1, 1)])
    with pytest.raises(ValueError, match="variable 1 has the value 0 in row 1"):
        model.energy([[0, 1], [1, 0]])


def test_no_rows_have_no_energies():
    model = BoltzmannMachine(**random_arguments(MIXED["mixed"], 2, seed=1))
    assert model.energy_of_codes(np.zeros((0, 5), dtype=np.uint8)).shape == (0,)
    assert model.column_fields(np.zeros((0, 5), dtype=np.uint8)).shape == (0, model.n_columns)


def test_large_tensors_are_refused_with_their_size():
    model = BoltzmannMachine(np.zeros(2000), {(0, 1): 1.0})
    with pytest.raises(ValueError, match=r"order 3 with n = 2000 takes 60 GiB; use interactions and weights"):
        model.tensor(3)
    with pytest.raises(ValueError, match="order=0: give an order of at least 1"):
        model.tensor(0)
    np.testing.assert_array_equal(model.tensor(1), model.h)
