from itertools import combinations
from math import comb

import numpy as np
import pytest

from hbm_learn import Interactions
from hbm_learn.interactions import positions_of, resolve_members


def test_tuples_are_canonical():
    found = Interactions.from_tuples([(3, 1, 2), (2, 0), (1, 0), (0, 2), [4, 3]], 5)
    assert found.tuples == [(0, 1), (0, 2), (3, 4), (1, 2, 3)]
    assert found.orders == [2, 3]
    assert found.order == 3
    assert len(found) == 4


def test_names_and_indices_may_be_mixed():
    found = Interactions.from_tuples([("b", "a"), ("c", 0)], 3, names=["a", "b", "c"])
    assert found.tuples == [(0, 1), (0, 2)]


@pytest.mark.parametrize(
    ("mu", "message"),
    [
        ((0, 0, 1), "repeated"),
        ((0, 5), "5 is not a known feature"),
        ((-1, 0), "-1 is not a known feature"),
        ((0, "z"), "'z' is not a known feature"),
        ((0, 1.5), "1.5 is not a known feature"),
        ((2,), "at least two"),
        ((), "at least two"),
        ("ab", "give a tuple"),
        (3, "give a tuple"),
        ((0, True), "not a feature index"),
    ],
    ids=repr,
)
def test_bad_interactions_are_refused(mu, message):
    with pytest.raises(ValueError, match=message):
        Interactions.from_tuples([mu], 5)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_upto_lists_every_subset(n, order):
    expected = [mu for k in range(2, order + 1) for mu in combinations(range(n), k)]
    assert Interactions.upto(order, n).tuples == expected


def test_a_request_beyond_memory_is_refused_with_count_and_remedy():
    with pytest.raises(ValueError, match=rf"{comb(2000, 2) + comb(2000, 3):,}.*GiB.*Lower `order`"):
        Interactions.upto(3, 2000)


def test_order_below_one_is_refused():
    with pytest.raises(ValueError, match="order=0"):
        Interactions.upto(0, 3)


def test_closure_adds_every_subset_and_nothing_else():
    given = [(0, 2, 4, 5), (1, 3), (1, 2, 3)]
    expected = {nu for mu in given for k in range(2, len(mu) + 1) for nu in combinations(mu, k)}
    closed = Interactions.from_tuples(given, 6).closure()
    assert set(closed.tuples) == expected
    assert closed.tuples == sorted(expected, key=lambda mu: (len(mu), mu))
    assert closed.closure() == closed


def test_packed_form_round_trips():
    packed = Interactions.from_tuples([(0, 1), (1, 3), (0, 2, 3)], 4)
    rows = [tuple(packed.members[a:b].tolist()) for a, b in zip(packed.indptr[:-1], packed.indptr[1:])]
    assert rows == packed.tuples
    assert packed.block(3).tolist() == [[0, 2, 3]]
    assert packed.block(4).shape == (0, 4)
    assert Interactions.from_blocks([packed.block(k) for k in packed.orders], 4) == packed
    with pytest.raises(ValueError, match="read-only"):
        packed.members[0] = 7


@pytest.mark.parametrize("n", [7, 10**7])
def test_positions(n):
    """n = 10⁷ at order 3 exceeds int64 codes."""
    whole = Interactions.from_tuples([(0, 1), (2, n - 1), (0, 1, n - 1), (1, 2, 3)], n)
    asked = Interactions.from_tuples([(0, 2), (2, n - 1), (1, 2, 3), (0, 1, 2, 3)], n)
    assert whole.positions(asked).tolist() == [-1, 1, 3, -1]


def test_incidence_lists_the_interactions_of_each_site():
    packed = Interactions.from_tuples([(0, 1), (1, 3), (0, 2, 3)], 5)
    ptr, which = packed.incidence
    for i in range(5):
        assert which[ptr[i] : ptr[i + 1]].tolist() == [r for r, mu in enumerate(packed.tuples) if i in mu]


def test_empty_set():
    empty = Interactions.from_tuples([], 3)
    assert len(empty) == 0
    assert empty.order == 1
    assert empty.tuples == []
    assert empty.closure() == empty
    assert np.array_equal(empty.incidence[0], [0, 0, 0, 0])


def test_sorted_tuples_are_taken_as_they_are():
    tuples = [(0, 1), (1, 3), (0, 2, 3)]
    assert Interactions.from_sorted(tuples, 4) == Interactions.from_tuples(tuples[::-1], 4)
    assert Interactions.from_sorted([], 4) == Interactions.from_tuples([], 4)


def test_members_by_index_or_name_keep_their_repeats():
    position = positions_of(["a", "b", "c"])
    assert resolve_members(("c", 0, "c", np.int64(1)), 3, position) == [0, 1, 2, 2]
    assert positions_of(None) == {}
    with pytest.raises(ValueError, match="'d' is not a known feature; features are 0 … 2, or a feature name"):
        resolve_members(("a", "d"), 3, position)
    with pytest.raises(ValueError, match="'a' is not a known feature; features are 0 … 2\\."):
        resolve_members(("a", 1), 3)
