"""One variable given others, against sums over every state."""

import numpy as np
import pytest
from mixed import ALPHABETS, REGION, SEX, all_codes, exponents, probabilities, random_arguments
from oracle import random_model
from scipy import integrate

from hbm_learn import BoltzmannMachine, Interval, completions, conditionals, infer
from hbm_learn.conditionals import condition, conditional_probabilities, fill_missing, log_conditionals
from hbm_learn.space import MISSING, Space

SPINS = [(-1, 1)] * 4
CASES = [*ALPHABETS.items(), ("spins", SPINS)]


@pytest.fixture(params=CASES, ids=lambda case: case[0])
def known(request):
    """A model with its states as codes and their probabilities, from what the user wrote."""
    arguments = random_arguments(request.param[1], 3, seed=3, powers=True)
    return BoltzmannMachine(**arguments), all_codes(request.param[1]), probabilities(exponents(arguments))


def conditional(p, codes, row, targets, ignored=()):
    """P of the states of ``targets`` given the other entries of a row, those of ``ignored`` summed over."""
    given = [i for i in range(codes.shape[1]) if i not in {*targets, *ignored}]
    weight = p * (codes[:, given] == row[given]).all(axis=1)
    shape = [int(codes[:, i].max()) + 1 for i in targets]
    table = np.zeros(shape)
    np.add.at(table, tuple(codes[:, i] for i in targets), weight)
    return table / table.sum()


def test_log_conditionals_of_every_state(known):
    model, codes, p = known
    expected = [[conditional(p, codes, row, [i])[row[i]] for i in range(len(row))] for row in codes]
    np.testing.assert_allclose(log_conditionals(model, codes), np.log(expected), atol=1e-10)


def test_probabilities_of_complete_rows(known):
    model, codes, p = known
    found = conditional_probabilities(model, codes)
    assert [table.shape for table in found] == [(len(codes), q) for q in model.space.sizes]
    for i, table in enumerate(found):
        np.testing.assert_allclose(table, [conditional(p, codes, row, [i]) for row in codes], atol=1e-12)


@pytest.mark.parametrize("hidden", [[0], [1, 3], [0, 1, 2], [0, 1, 2, 3]], ids=str)
def test_probabilities_where_entries_are_missing(known, hidden):
    model, codes, p = known
    rows = codes[::5].copy()
    rows[:, hidden] = MISSING
    rows[0] = codes[0]  # another pattern among them
    found = conditional_probabilities(model, rows)
    for r, row in enumerate(rows):
        ignored = [] if r == 0 else hidden
        for i, table in enumerate(found):
            others = [j for j in ignored if j != i]
            np.testing.assert_allclose(table[r], conditional(p, codes, row, [i], others), atol=1e-12)


@pytest.mark.parametrize("hidden", [[0], [1, 3], [0, 1, 2], [0, 1, 2, 3]], ids=str)
def test_missing_entries_become_their_most_probable_value(known, hidden):
    model, codes, p = known
    rows = codes[::5].copy()
    rows[:, hidden] = MISSING
    rows[0] = codes[0]
    filled = fill_missing(model, rows)
    assert filled.dtype == np.uint8
    np.testing.assert_array_equal(filled[0], codes[0])
    for row, before in zip(filled[1:], rows[1:]):
        observed = np.setdiff1d(np.arange(len(row)), hidden)
        np.testing.assert_array_equal(row[observed], before[observed])
        for i in hidden:
            others = [j for j in hidden if j != i]
            assert row[i] == conditional(p, codes, before, [i], others).argmax()
    assert (rows[1:, hidden] == MISSING).all(), "the input is left as it was"


def test_many_patterns_at_once(known):
    model, codes, _ = known
    rng = np.random.default_rng(0)
    rows = codes[rng.integers(len(codes), size=60)]
    rows[rng.random(rows.shape) < 0.4] = MISSING
    together = conditional_probabilities(model, rows)
    filled = fill_missing(model, rows)
    for r in range(len(rows)):
        for table, alone in zip(together, conditional_probabilities(model, rows[r : r + 1])):
            np.testing.assert_allclose(table[r], alone[0], atol=1e-13)
        np.testing.assert_array_equal(fill_missing(model, rows[r : r + 1])[0], filled[r])
    assert (filled < model.space.sizes).all()


def test_blocks_do_not_matter(known, monkeypatch):
    model, codes, _ = known
    rows = codes[::3].copy()
    rows[::2, 1:3] = MISSING
    whole = conditional_probabilities(model, rows), fill_missing(model, rows), log_conditionals(model, codes)
    monkeypatch.setattr(completions, "BLOCK", 100)
    parts = conditional_probabilities(model, rows), fill_missing(model, rows), log_conditionals(model, codes)
    for a, b in zip(whole[0], parts[0]):
        np.testing.assert_allclose(a, b, atol=1e-14)
    np.testing.assert_array_equal(whole[1], parts[1])
    np.testing.assert_allclose(whole[2], parts[2], atol=1e-14)


def test_blocks_of_completions_are_bounded(known, monkeypatch):
    model, codes, _ = known
    monkeypatch.setattr(completions, "BLOCK", 2000)
    seen = 0
    for rows, block in completions.completed(model, codes, np.array([0, 1])):
        assert len(block) * max(model.n_columns, model.space.sizes.sum()) <= 2000
        assert rows.start == seen
        seen = rows.stop
    assert seen == len(codes)


def test_another_gauge_says_the_same(known):
    model, codes, _ = known
    rng = np.random.default_rng(1)
    moved = model.in_space(model.space.standard([rng.dirichlet(np.full(q, 3.0)) for q in model.space.sizes]))
    rows = codes[::4].copy()
    rows[:, 1] = MISSING
    np.testing.assert_allclose(log_conditionals(moved, codes), log_conditionals(model, codes), atol=1e-10)
    for a, b in zip(conditional_probabilities(moved, rows), conditional_probabilities(model, rows)):
        np.testing.assert_allclose(a, b, atol=1e-11)
    np.testing.assert_array_equal(fill_missing(moved, rows), fill_missing(model, rows))


def test_no_rows(known):
    model, codes, _ = known
    assert log_conditionals(model, codes[:0]).shape == (0, model.n_features)
    assert [table.shape for table in conditional_probabilities(model, codes[:0])] == [(0, q) for q in model.space.sizes]
    assert fill_missing(model, codes[:0]).shape == (0, model.n_features)


def test_strong_fields_do_not_overflow():
    model = BoltzmannMachine(
        [900.0, -900.0, 0.0], {(0, 1): 500.0, (1, 2): [300.0, -400.0, 0.0]}, alphabet=[(-1, 1), (0, 1, 2), REGION]
    )
    codes = all_codes([(-1, 1), (0, 1, 2), REGION])
    assert np.isfinite(log_conditionals(model, codes)).all()
    rows = codes.copy()
    rows[:, 1] = MISSING
    for table in conditional_probabilities(model, rows):
        np.testing.assert_allclose(table.sum(axis=1), 1)


# ---------------------------------------------------------------------- condition


@pytest.mark.parametrize("hidden", [[0], [2], [1, 3], [0, 1, 2], [0, 1, 2, 3]], ids=str)
def test_condition_is_the_distribution_given_the_rest(known, hidden):
    model, codes, p = known
    hidden = np.array(hidden)
    alphabets = [model.space.alphabets[i] for i in hidden]
    states = np.stack(np.unravel_index(np.arange(np.prod(model.space.sizes[hidden])), model.space.sizes[hidden]), 1)
    for row in codes[::17]:
        holes = row.copy()
        holes[hidden] = MISSING
        part = condition(model, holes, hidden)
        assert part.space.alphabets == tuple(alphabets)
        found = probabilities(-part.energy_of_codes(states))
        np.testing.assert_allclose(found, conditional(p, codes, row, hidden.tolist()).ravel(), atol=1e-12)


def test_condition_keeps_the_parameters_of_numbers():
    model = random_model(5, 4, (0, 1, 2, 3), 1.0, seed=2)
    row = np.array([1, 0, 3, 2, 2], dtype=np.uint8)
    part = condition(model, row, np.array([0, 2, 3]))
    J = model.couplings()
    np.testing.assert_array_equal(part.d, model.d[[0, 2, 3]])
    assert part.site == (None,) * 3
    assert part.h[0] == pytest.approx(model.h[0] + J[0, 1] * 0 + J[0, 4] * 2 + J[0, 1, 4] * 0)
    assert part.couplings()[0, 1] == pytest.approx(J[0, 2] + 2 * J[0, 2, 4])
    assert part.couplings()[0, 1, 2] == pytest.approx(J[0, 2, 3] + 2 * J[0, 2, 3, 4])


def test_condition_in_another_gauge():
    arguments = random_arguments(ALPHABETS["mixed"], 3, seed=6, powers=True)
    model = BoltzmannMachine(**arguments)
    moved = model.in_space(model.space.standard([np.full(q, 1.0 / q) + np.arange(q) for q in model.space.sizes]))
    row = np.array([3, 1, 0, 2, 1], dtype=np.uint8)
    hidden = np.array([0, 1, 3])
    states = np.stack(np.unravel_index(np.arange(4 * 3 * 3), (4, 3, 3)), axis=1)
    energies = [condition(each, row, hidden).energy_of_codes(states) for each in (model, moved)]
    np.testing.assert_allclose(probabilities(-energies[0]), probabilities(-energies[1]), atol=1e-12)


def test_condition_without_couplings():
    model = BoltzmannMachine([0.5, -0.2, 0.0], {}, alphabet=[(0, 1), (0, 1, 2), SEX])
    part = condition(model, np.array([0, 1, 1]), np.array([1, 2]))
    np.testing.assert_array_equal(part.h, [-0.2, 0.0])
    assert len(part.columns) == 0


# ---------------------------------------------------------------------- too much missing to sum over


@pytest.mark.parametrize("alphabets", [SPINS, ALPHABETS["mixed"], [(-1, 0, 1)] * 5], ids=["spins", "mixed", "ternary"])
def test_the_approximation_is_near_the_sum(alphabets, monkeypatch):
    arguments = random_arguments(alphabets, 2, seed=1, scale=0.15)
    model = BoltzmannMachine(**arguments)
    rows = all_codes(alphabets)[::7].copy()
    rows[:, :3] = MISSING
    exact, filled = conditional_probabilities(model, rows), fill_missing(model, rows)
    monkeypatch.setattr(conditionals, "MAX_COMPLETIONS", 1)
    near = conditional_probabilities(model, rows)
    for i, (a, b) in enumerate(zip(exact, near)):
        np.testing.assert_allclose(b, a, atol=2e-3, err_msg=str(i))
        np.testing.assert_allclose(b.sum(axis=1), 1)
    decided = np.stack([np.ptp(np.sort(table)[:, -2:], axis=1) > 0.01 for table in exact], axis=1)
    np.testing.assert_array_equal(fill_missing(model, rows)[decided], filled[decided])
    shuffled = conditional_probabilities(
        model, np.roll(rows, 1, axis=0)
    )  # negative control: other rows are further away
    assert max(np.abs(a - b).max() for a, b in zip(exact, shuffled)) > 2e-2


def test_many_missing_entries_take_the_approximation():
    """2¹³ completions are too many: the result is that of the equations, not of the sum."""
    model = random_model(15, 2, (-1, 1), 0.5, seed=1)
    row = np.zeros((1, 15), dtype=np.uint8)
    row[0, :13] = MISSING
    result = infer(condition(model, row[0], np.arange(13)), "dc")
    found = conditional_probabilities(model, row)
    np.testing.assert_allclose([table[0] for table in found[:13]], result.probabilities, atol=1e-12)
    np.testing.assert_array_equal(fill_missing(model, row)[0, :13], result.m > 0)
    # What is observed is told by the others only: its own value, which the hidden ones know, is taken back.
    truth = infer(condition(model, row[0], np.arange(14)), "exact").probabilities[13]
    other = row.copy()
    other[0, 13] = 1
    for holes in (row, other):
        np.testing.assert_allclose(conditional_probabilities(model, holes)[13][0], truth, atol=8e-3)
    point = np.append(result.m, [-1.0, -1.0])
    counted_twice = 1 / (1 + np.exp(-2 * (model.h[13] + model.F(point)[13])))
    assert abs(counted_twice - truth[1]) > 4e-2


# ---------------------------------------------------------------------- continuous variables


def test_densities_on_an_interval():
    model = BoltzmannMachine([0.3, -0.4], {(0, 1): 1.2}, [0.5, -2.0], Interval(-1, 2))
    X = np.array([[0.2, 1.5], [-0.9, -0.3]])
    found = log_conditionals(model, X)
    for row, logs in zip(X, found):
        for i in range(2):
            b = model.h[i] + 1.2 * row[1 - i]

            def weight(x, b=b, i=i):
                return np.exp(b * x - 0.5 * model.d[i] * x**2)

            assert logs[i] == pytest.approx(np.log(weight(row[i]) / integrate.quad(weight, -1, 2)[0]), abs=1e-10)


def test_gaussian_densities_and_means():
    model = random_model(4, 2, "real", 0.5, seed=1, d=0.0)
    model = BoltzmannMachine(model.h, model.J, 2.0, "real")
    X = np.random.default_rng(0).normal(size=(5, 4))
    b, x = model.h + X @ model.J, X
    expected = -0.5 * 2.0 * (x - b / 2.0) ** 2 + 0.5 * np.log(2.0 / (2 * np.pi))
    np.testing.assert_allclose(log_conditionals(model, X), expected, atol=1e-12)
    Q = np.diag(model.d) - model.J
    m, C = np.linalg.solve(Q, model.h), np.linalg.inv(Q)
    holes = X.copy()
    holes[1:4, [0, 2]] = np.nan
    filled = fill_missing(model, holes)
    regression = C[np.ix_([0, 2], [1, 3])] @ np.linalg.inv(C[np.ix_([1, 3], [1, 3])])
    np.testing.assert_allclose(filled[1:4][:, [0, 2]], m[[0, 2]] + (X[1:4][:, [1, 3]] - m[[1, 3]]) @ regression.T)
    np.testing.assert_array_equal(filled[[0, 4]], X[[0, 4]])


def test_the_most_probable_point_of_an_interval():
    """Inside where the site is concave, at an end where it is not."""
    inside = BoltzmannMachine([0.5, 0.0], {(0, 1): 0.3}, [2.0, 1.0], Interval(-1, 1))
    assert fill_missing(inside, np.array([[np.nan, 0.4]]))[0, 0] == pytest.approx((0.5 + 0.3 * 0.4) / 2.0, abs=1e-8)
    for field, end in [(0.2, 1.0), (-0.2, -1.0)]:
        outward = BoltzmannMachine([field, 0.0], {(0, 1): 0.3}, [-1.0, 1.0], Interval(-1, 1))
        assert fill_missing(outward, np.array([[np.nan, 0.0]]))[0, 0] == end


def test_the_most_probable_point_where_hidden_variables_act_on_each_other():
    """The marginal of x_0 over x_1, on a grid: its top is not where the means alone would put it."""
    model = BoltzmannMachine([0.5, 0.3, 0.0], {(0, 1): 0.8, (0, 2): 0.3}, [2.0, 0.5, 1.0], Interval(-1, 1))
    filled = fill_missing(model, np.array([[np.nan, np.nan, 0.4]]))[0]
    x = np.linspace(-1, 1, 801)
    rows = np.stack([*np.meshgrid(x, x, indexing="ij"), np.full((801, 801), 0.4)], axis=-1).reshape(-1, 3)
    weight = np.exp(-model.energy(rows)).reshape(801, 801)
    assert filled[0] == pytest.approx(x[weight.sum(axis=1).argmax()], abs=0.005)
    mean = (weight.sum(axis=0) @ x) / weight.sum()
    assert abs((0.5 + 0.3 * 0.4 + 0.8 * mean) / 2.0 - x[weight.sum(axis=1).argmax()]) > 0.02


def test_labels_beside_an_interval():
    alphabets = [Interval(0, 2), REGION, (0, 1)]
    model = BoltzmannMachine(
        [0.3, 0, -0.1], {(0, 1): [1.0, -0.5, 0.2], (0, 2): 0.4, (1, 2): [0.3, 0, -0.8]}, [0.5, 0, 0], alphabets
    )
    codes = np.array([[0.7, 2, 1], [1.9, 0, 0]])
    found = log_conditionals(model, codes)
    for row, logs in zip(codes, found):
        for i, q in [(1, 3), (2, 2)]:
            rows = np.tile(row, (q, 1))
            rows[:, i] = np.arange(q)
            p = probabilities(-model.energy_of_codes(rows))
            assert logs[i] == pytest.approx(np.log(p[int(row[i])]), abs=1e-12)

        def weight(x, row=row):
            return np.exp(-model.energy_of_codes(np.array([[x, *row[1:]]]))[0])

        assert logs[0] == pytest.approx(np.log(weight(row[0]) / integrate.quad(weight, 0, 2)[0]), abs=1e-10)
    holes = np.array([[0.7, MISSING, 1.0], [1.9, np.nan, 0.0]])
    filled = fill_missing(model, holes)
    for row in filled:
        rows = np.tile(row, (3, 1))
        rows[:, 1] = np.arange(3)
        assert row[1] == model.energy_of_codes(rows).argmin()
    with pytest.raises(ValueError, match=r"variable 0: Alphabet\(Interval\(0.0, 2.0\)\) has no list of values"):
        conditional_probabilities(model, holes)


def test_a_row_with_everything_observed_is_left_alone():
    space = Space.of(ALPHABETS["mixed"], 5)
    codes = all_codes(ALPHABETS["mixed"])
    model = BoltzmannMachine(**random_arguments(ALPHABETS["mixed"], 2, seed=1))
    assert model.space == space
    np.testing.assert_array_equal(fill_missing(model, codes), codes)
