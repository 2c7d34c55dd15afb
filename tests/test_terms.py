"""Terms: interactions of variables, and the sets of columns that carry them."""

from itertools import combinations, product

import numpy as np
import pytest
from mixed import ALPHABETS, SEX

from hbm_learn import Interactions
from hbm_learn.space import Interval, Nominal, Space
from hbm_learn.terms import Terms, all_terms, closure, columns_of, expand, is_closed, powers_in

# columns: 0 1 (x, x² of site 0), 2 3 (site 1, nominal), 4 (site 2, two labels), 5 (site 3), 6 (site 4)
SPACE = Space.of(ALPHABETS["mixed"], 5, powers=[2, 1, 1, 1, 1])


def test_columns_of_a_space_of_numbers_are_its_terms():
    space = Space.of((-1, 1), 4)
    columns = Interactions.upto(3, 4)
    terms = Terms(space, columns)
    assert terms.keys is columns
    assert terms.tuples == columns.tuples
    assert (terms.df == 1).all()
    weights = np.arange(10.0)
    assert terms.norm(weights) is weights
    assert terms.sum(weights) is weights


def test_grouping_of_nominal_columns():
    columns = columns_of([(1, 3), (0, 1), (0, 0, 1), (0, 1, 2), (3, 4)], SPACE)
    terms = Terms(SPACE, columns)
    assert terms.tuples == [(0, 1), (0, 0, 1), (1, 3), (3, 4), (0, 1, 2)]
    assert terms.order.tolist() == [2, 2, 2, 2, 3]
    assert terms.df.tolist() == [2, 2, 2, 1, 2]
    assert [terms.members(r) for r in range(len(terms))] == terms.tuples
    assert len(columns) == 9
    for r in range(len(terms)):
        mine = [columns.tuples[at] for at in terms.positions(r)]
        variables = {tuple(SPACE.site[list(mu)].tolist()) for mu in mine}
        assert variables == {tuple(dict.fromkeys(terms.tuples[r]))}
        assert (terms.group[terms.positions(r)] == r).all()


def test_sums_and_norms_over_the_columns_of_a_term():
    columns = columns_of([(1, 3), (3, 4)], SPACE)
    terms = Terms(SPACE, columns)
    values = np.array([3.0, -4.0, -2.0])
    assert columns.tuples == [(2, 5), (3, 5), (5, 6)]
    np.testing.assert_allclose(terms.sum(values), [-1, -2])
    np.testing.assert_allclose(terms.norm(values), [5, -2])


def test_selecting_terms_keeps_all_their_columns():
    columns = columns_of([(0, 1), (1, 3), (3, 4), (0, 1, 2)], SPACE)
    terms = Terms(SPACE, columns)
    chosen = np.array([False, True, False, True])
    assert terms.select(chosen) == columns_of([(1, 3), (0, 1, 2)], SPACE)


def test_no_terms():
    terms = Terms(SPACE, Interactions.from_tuples([], SPACE.n_columns))
    assert len(terms) == 0
    assert terms.tuples == []
    assert terms.group.shape == terms.df.shape == terms.order.shape == (0,)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_all_terms_take_one_column_a_site(order):
    sites = [list(range(lo, hi)) for lo, hi in zip(SPACE.column_ptr[:-1], SPACE.column_ptr[1:])]
    expected = {
        mu
        for k in range(2, order + 1)
        for chosen in combinations(range(5), k)
        for mu in product(*(sites[i] for i in chosen))
    }
    found = all_terms(order, SPACE)
    assert set(found.tuples) == expected
    assert found.tuples == sorted(expected, key=lambda mu: (len(mu), mu))


def test_expand_of_given_sites():
    sites = Interactions.from_tuples([(0, 4), (0, 1, 2)], 5)
    assert expand(sites, SPACE).tuples == [(0, 6), (1, 6), (0, 2, 4), (0, 3, 4), (1, 2, 4), (1, 3, 4)]


def test_too_many_terms_are_refused_before_they_are_made():
    space = Space.of(Nominal(*range(200)), 30)  # 4,060 triplets of variables, 199³ sets of columns each
    with pytest.raises(ValueError, match=r"up to order 3 of .* GiB"):
        all_terms(3, space)


def test_names_stand_for_variables():
    names = ["age", "region", "sex", "x", "y"]
    by_name = columns_of([("region", "age", "age"), ("x", 4)], SPACE, names)
    assert by_name == columns_of([(0, 0, 1), (3, 4)], SPACE)
    assert powers_in([("region", "age", "age"), ("x", 4)], 5, names).tolist() == [2, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("mu", "message"),
    [
        ((0, 9), "9 is not a known feature"),
        ((0, 0), "at least two variables; what concerns one alone goes in h, d or site"),
        ((2,), "at least two variables"),
        ((1, 1, 0), "variable 1 is nominal, and labels have no powers"),
        ((0, 0, 0, 1), "power 3 of variable 0, but powers up to 2 were asked for: raise powers"),
        ((4, 4, 0), "power 2 of variable 4, but of 2 values powers beyond 1 are combinations of the lower ones"),
    ],
)
def test_bad_terms_are_refused(mu, message):
    with pytest.raises(ValueError, match=message):
        columns_of([mu], SPACE)


def test_powers_of_continuous_variables_are_refused():
    with pytest.raises(ValueError, match=r"Interval\(0.0, 1.0\)\) has x alone: bin the variable"):
        columns_of([(0, 0, 1)], Space.of(Interval(0, 1), 2))


def test_closure_holds_subsets_lower_powers_and_all_labels():
    columns = Interactions.from_tuples([(1, 2, 6)], SPACE.n_columns)  # x_0² · one column of site 1 · x_4
    expected = {
        *product((0, 1), (2, 3), (6,)),
        *product((0, 1), (2, 3)),
        *product((0, 1), (6,)),
        *product((2, 3), (6,)),
    }
    closed = closure(columns, SPACE)
    assert set(closed.tuples) == expected
    assert not is_closed(columns, SPACE)
    assert is_closed(closed, SPACE)
    assert is_closed(all_terms(3, SPACE), SPACE)


def test_closure_of_numbers_is_that_of_the_interactions():
    space = Space.of([(0, 1), (0, 1, 2), SEX, (0, 1)], 4)
    columns = Interactions.from_tuples([(0, 1, 2), (1, 3)], 4)
    assert closure(columns, space) == columns.closure()
