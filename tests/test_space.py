"""Space: what each variable is, values and codes, functions in two gauges."""

import numpy as np
import pandas as pd
import pytest
from mixed import ALPHABETS, REGION, SEX, all_codes, all_rows

from hbm_learn.space import Alphabet, Interval, Nominal, Space
from hbm_learn.space.functions import contrasts, orthonormal
from hbm_learn.space.space import each_alphabet

MIXED = ALPHABETS["mixed"]


def random_frequencies(space, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.dirichlet(np.full(q, 3.0)) for q in space.sizes]


# ---------------------------------------------------------------------- alphabets


def test_one_alphabet_a_sequence_and_a_dict():
    assert each_alphabet((0, 1), 3) == [Alphabet((0, 1))] * 3
    listed = each_alphabet(MIXED, 5)
    assert listed == [Alphabet(a) for a in MIXED]
    assert each_alphabet(dict(enumerate(MIXED)), 5) == listed
    assert each_alphabet(tuple(listed), 5) == listed


def test_values_of_one_alphabet_are_no_sequence_of_alphabets():
    assert each_alphabet([0, 1, 2], 3) == [Alphabet((0, 1, 2))] * 3
    assert each_alphabet(np.array([0, 1, 2]), 3) == [Alphabet((0, 1, 2))] * 3
    assert each_alphabet([(0, 1), (0, 1, 2)], 2) == [Alphabet((0, 1)), Alphabet((0, 1, 2))]
    assert each_alphabet(["real", "real"], 2) == [Alphabet("real")] * 2


def test_equal_alphabets_share_their_functions():
    space = Space.of([(0, 1, 2), REGION, (0, 1, 2), REGION], 4)
    assert space.functions[0] is space.functions[2]
    assert space.functions[1] is space.functions[3]


@pytest.mark.parametrize(
    ("alphabet", "n", "message"),
    [
        ([(0, 1), (0, 1)], 3, "2 entries for 3 variables: give one for each"),
        ({0: (0, 1), 2: (0, 1)}, 3, "none for variable 1: give one for each of 0 … 2"),
        ({0: (0, 1), 1: (0, 1), 7: (0, 1)}, 2, "names 7, which is no variable"),
        (["real", (0, 1)], 2, 'real" is for all variables or none, and variable 1 has .*: bin the real ones'),
        ([(0, 1), (1, 1)], 2, "variable 1: .*at least two values, each once"),
        (["yes", "no"], 2, "variable 0: .*'yes' is not known: give values, Nominal labels"),
        (range(300), 2, "300 values: at most 254 can be encoded; bin them"),
        ([(0, 1), range(300)], 2, "variable 1: alphabet=… has 300 values"),
    ],
)
def test_bad_alphabets_are_refused(alphabet, n, message):
    with pytest.raises(ValueError, match=message):
        Space.of(alphabet, n)


@pytest.mark.parametrize("labels", [("a",), ("a", "a"), ("a", float("nan")), (["a"],)])
def test_bad_labels_are_refused(labels):
    with pytest.raises(ValueError, match="at least two labels, each once"):
        Nominal(*labels)


# ---------------------------------------------------------------------- what there is


def test_layout_of_a_mixed_space():
    space = Space.of(MIXED, 5, powers=[2, 1, 1, 5, 3])
    assert space.sizes.tolist() == [4, 3, 2, 3, 2]
    assert np.diff(space.column_ptr).tolist() == [2, 2, 1, 2, 1]  # powers up to q − 1, nominal q − 1
    assert space.site.tolist() == [0, 0, 1, 1, 2, 3, 3, 4]
    assert space.power.tolist() == [1, 2, 0, 0, 0, 1, 2, 1]
    assert (space.n_features, space.n_columns) == (5, 8)
    assert space.value_ptr.tolist() == [0, 4, 7, 9, 12, 14]
    assert space.log_states == pytest.approx(np.log(4 * 3 * 2 * 3 * 2))
    assert space.n_states() == pytest.approx(144)
    assert space.enumerable(144)
    assert not space.enumerable(143)


@pytest.mark.parametrize(
    ("alphabet", "n", "true"),
    [
        ((-1, 1), 3, "scalar finite binary numeric uniform coding"),
        ((0, 1, 2), 3, "scalar finite numeric uniform coding"),
        ([(0, 1), (-1, 1)], 2, "scalar finite binary numeric coding"),
        ([(0, 1), (0, 1, 2)], 2, "scalar finite numeric coding"),
        (SEX, 2, "scalar finite binary coding"),
        (REGION, 2, "finite coding"),
        (Interval(0, 1), 2, "scalar numeric uniform coding"),
        ("real", 2, "scalar numeric uniform coding real"),
    ],
)
def test_kinds_of_spaces(alphabet, n, true):
    space = Space.of(alphabet, n)
    for kind in ("scalar", "finite", "binary", "numeric", "uniform", "coding", "real"):
        assert getattr(space, f"is_{kind}") == (kind in true.split()), kind


def test_the_shared_alphabet():
    assert Space.of([(0, 1), (0, 1)], 2).alphabet == Alphabet((0, 1))
    assert Space.of([(0, 1), (-1, 1)], 2).alphabet is None


def test_equality_and_repr():
    assert Space.of(MIXED, 5) == Space.of(list(MIXED), 5)
    assert Space.of(MIXED, 5) != Space.of(MIXED, 5, powers=2)
    assert Space.of((0, 1), 2) != Space.of((0, 1), 3)
    space = Space.of(MIXED, 5)
    assert space != space.standard(random_frequencies(space))
    assert repr(Space.of([(0, 1), (0, 1), SEX], 3)) == "Space(2 × Alphabet((0, 1)), 1 × Alphabet(Nominal('f', 'm')))"


def test_tables_are_read_only():
    with pytest.raises(ValueError, match="read-only"):
        Space.of(MIXED, 5).functions[0][0] = 1.0


# ---------------------------------------------------------------------- functions


@pytest.mark.parametrize("q", [2, 3, 4, 7])
def test_contrasts_sum_to_zero_and_are_orthogonal(q):
    C = contrasts(q)
    assert C.shape == (q, q - 1)
    np.testing.assert_allclose(C.sum(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(C.T @ C, q * np.eye(q - 1), atol=1e-13)
    if q == 2:
        assert C.ravel().tolist() == [-1.0, 1.0]


def test_coding_functions_are_the_powers():
    space = Space.of([(1, 2, 3, 5)], 1, powers=3)
    x = np.array([1.0, 2, 3, 5])
    np.testing.assert_array_equal(space.functions[0], np.stack([x, x**2, x**3], axis=1))


@pytest.mark.parametrize("powers", [1, 2, 3])
def test_standard_functions_are_orthonormal_under_the_frequencies(powers):
    space = Space.of(MIXED, 5, powers)
    frequencies = random_frequencies(space)
    standard = space.standard(frequencies)
    for coding, table, p in zip(space.functions, standard.functions, frequencies):
        np.testing.assert_allclose(p @ table, 0, atol=1e-12)
        np.testing.assert_allclose(table.T @ (p[:, None] * table), np.eye(table.shape[1]), atol=1e-11)
        x = coding[:, 0]
        m, s = p @ x, np.sqrt(p @ x**2 - (p @ x) ** 2)
        np.testing.assert_allclose(table[:, 0], (x - m) / s, atol=1e-12)
    assert not standard.is_coding
    assert space.is_coding


def test_uncentred_functions_keep_the_origin():
    space = Space.of(MIXED, 5, 2)
    frequencies = random_frequencies(space)
    plain = space.standard(frequencies, centred=False)
    for coding, table, p in zip(space.functions, plain.functions, frequencies):
        covariance = table.T @ (p[:, None] * table) - np.outer(p @ table, p @ table)
        np.testing.assert_allclose(covariance, np.eye(table.shape[1]), atol=1e-11)
        residual = np.linalg.lstsq(coding, table, rcond=None)[1]
        assert residual.sum() < 1e-20, "a linear combination without a constant"
    assert all(not c.any() for c, _ in plain.relation(space))


def test_a_value_that_never_occurs_has_no_part_in_the_gauge():
    table = orthonormal(np.array([[0.0], [1.0], [2.0]]), np.array([0.5, 0.5, 0.0]))
    np.testing.assert_allclose(table.ravel(), [-1, 1, 3])


def test_the_first_function_keeps_its_sign():
    table = orthonormal(np.array([[3.0, 0.0], [1.0, 1.0], [-1.0, 5.0], [-3.0, -2.0]]), np.full(4, 0.25))
    np.testing.assert_allclose(table[:, 0], np.array([3, 1, -1, -3]) / np.sqrt(5))
    assert table[2, 1] > 0, "and so do the others, less their part along the first"


def test_too_few_values_for_the_functions_name_the_variable():
    space = Space.of([(0, 1), (1, 2, 3, 4)], 2, powers=3)
    seen = [np.array([0.5, 0.5]), np.array([0.5, 0.25, 0.25, 0.0])]
    with pytest.raises(ValueError, match="variable 1: 3 functions need 4 values that occur, and 3 do"):
        space.standard(seen)
    far = Space.of([range(2010, 2015)], 1, powers=3).standard([np.full(5, 0.2)])  # large values are no reason to refuse
    np.testing.assert_allclose(far.functions[0].T @ far.functions[0] / 5, np.eye(3), atol=1e-4)


@pytest.mark.parametrize("powers", [1, 2])
def test_relation_of_two_gauges(powers):
    space = Space.of(MIXED, 5, powers)
    a, b = space.standard(random_frequencies(space, 1)), space.standard(random_frequencies(space, 2))
    for first, second in [(a, b), (space, a), (b, space)]:
        for (c, R), mine, theirs in zip(first.relation(second), first.functions, second.functions):
            np.testing.assert_allclose(c + theirs @ R, mine, atol=1e-11)
    for c, R in space.relation(space):
        assert not c.any()
        np.testing.assert_array_equal(R, np.eye(len(R)))


def test_relation_has_no_rounding_left():
    """Constants and lower triangles that vanish are zero: otherwise every interaction set would have to be closed."""
    space = Space.of([(1, 2, 3, 5)], 1, 3)
    ((c, R),) = space.relation(space.standard(random_frequencies(space)))
    assert (R[np.tril_indices(3, -1)] == 0).all()
    assert (R[np.triu_indices(3)] != 0).all()
    assert c.all()


def test_gauges_with_other_spans_are_refused():
    with pytest.raises(ValueError, match="as many functions"):
        Space.of((0, 1, 2), 1, 1).relation(Space.of((0, 1, 2), 1, 2))
    with pytest.raises(ValueError, match="span the same"):
        Space.of((0, 1, 2), 1).relation(Space.of((0, 1, 3), 1))


# ---------------------------------------------------------------------- values and codes


@pytest.mark.parametrize("name", ALPHABETS)
def test_encode_and_decode_are_inverse(name):
    alphabets = ALPHABETS[name]
    space = Space.of(alphabets, len(alphabets))
    rows, codes = all_rows(alphabets), all_codes(alphabets)
    for X in (rows, np.array(rows, dtype=object), pd.DataFrame(rows)):
        encoded = space.encode(X)
        assert encoded.dtype == np.uint8
        np.testing.assert_array_equal(encoded, codes)
    assert [tuple(row) for row in space.decode(codes).tolist()] == rows
    assert (space.decode(codes).dtype == object) == (not space.is_numeric)


def test_decode_keeps_the_type_of_one_alphabet():
    codes = np.array([[0, 1], [1, 0]], dtype=np.uint8)
    assert Space.of((-1, 1), 2).decode(codes).dtype.kind == "i"
    assert Space.of((-1, 1), 2).decode(codes).tolist() == [[-1, 1], [1, -1]]
    assert Space.of((0.5, 1), 2).decode(codes).dtype.kind == "f"


def test_labels_of_every_kind_are_found():
    space = Space.of([Nominal(True, False), Nominal(10, 20.5), Nominal("a", 3)], 3)
    X = [[False, 20.5, 3], [True, 10, "a"]]
    np.testing.assert_array_equal(space.encode(X), [[1, 1, 1], [0, 0, 0]])
    assert space.decode(space.encode(X)).tolist() == X


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            (4, "north", "f", 1, 0),
            r"variable 0 has the value 4 in row 1, which is not in Alphabet\(\(1, 2, 3, 5\)\): corr",
        ),
        (
            (1, "East", "f", 1, 0),
            "variable 1 has the value 'East' in row 1, which is not in .*give the variable an alph",
        ),
        ((1, "north", None, 1, 0), "variable 2 has the value None"),
        ((1, "north", "f", float("nan"), 0), "variable 3 has the value nan"),
    ],
)
def test_values_that_are_not_there_are_named(row, message):
    space = Space.of(MIXED, 5)
    with pytest.raises(ValueError, match=message):
        space.encode([(1, "north", "f", 1, 0), row])


def test_shapes_are_checked():
    with pytest.raises(ValueError, match=r"shape \(2, 3\); expected \(n_samples, 5\)"):
        Space.of(MIXED, 5).encode(np.zeros((2, 3)))


@pytest.mark.parametrize("powers", [1, 2])
@pytest.mark.parametrize("name", ALPHABETS)
def test_columns_are_the_functions_of_the_codes(name, powers):
    alphabets = ALPHABETS[name]
    space = Space.of(alphabets, len(alphabets), powers)
    space = space.standard(random_frequencies(space))
    codes = all_codes(alphabets)
    expected = np.column_stack([table[codes[:, i]] for i, table in enumerate(space.functions)])
    np.testing.assert_array_equal(space.columns(codes), expected)
    np.testing.assert_array_equal(space.columns(codes, np.float32), expected.astype(np.float32))


def test_columns_of_one_alphabet_are_its_values():
    space = Space.of((-1, 0, 1), 3)
    codes = all_codes([(-1, 0, 1)] * 3)
    np.testing.assert_array_equal(space.columns(codes), space.decode(codes))


def test_continuous_sites_hold_values_among_codes():
    space = Space.of([Interval(0, 2), REGION], 2)
    X = [[0.25, "south"], [1.5, "west"]]
    codes = space.encode(X)
    np.testing.assert_array_equal(codes, [[0.25, 1], [1.5, 2]])
    assert space.decode(codes).tolist() == X
    np.testing.assert_array_equal(space.columns(codes)[:, 0], [0.25, 1.5])
    np.testing.assert_array_equal(space.columns(codes)[:, 1:], contrasts(3)[[1, 2]])


def test_flat_tables_by_site():
    space = Space.of(MIXED, 5)
    tables = [np.arange(q) + 10.0 * i for i, q in enumerate(space.sizes)]
    flat = space.flat(tables)
    assert len(flat) == 14
    for table, view in zip(tables, space.by_site(flat)):
        np.testing.assert_array_equal(table, view)
