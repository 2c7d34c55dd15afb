"""Properties over random spaces, models, weights, parameters and files.

Each is run with a few examples by default, and with hundreds or thousands of fresh ones by ``pytest -m slow``.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from hbm_learn import HBM, BoltzmannMachine, Nominal, Space, datasets, infer, sample
from hbm_learn.io import tables

# Processor seconds that nothing here may take.
LONG = 20.0
ALPHABETS = [(-1, 1), (0, 1), (1, 2, 3), (0, 0.5, 3), (-1, 0, 1), Nominal("a", "b"), Nominal("x", "y", "z"), (0, 100)]
spaces = st.lists(st.sampled_from(ALPHABETS), min_size=2, max_size=4)
seeds = st.integers(0, 2**31)


def often(examples: int, many: int, **strategies):
    """Two tests of a property: a few fixed examples, and ``many`` fresh ones in the slow run."""

    def decorate(function):
        # Not shrunk: an example that fails is a few lines already, and a fit is no cheap thing to repeat.
        quiet = {"deadline": None, "database": None, "suppress_health_check": list(HealthCheck)}
        quiet |= {"phases": [Phase.generate]}
        few = settings(max_examples=examples, derandomize=True, **quiet)
        more = settings(max_examples=many, **quiet)

        @pytest.mark.parametrize(
            "run",
            [few, pytest.param(more, marks=pytest.mark.slow)],
            ids=["few", "many"],
        )
        def test(run, tmp_path, record_property):
            record_property("examples", run.max_examples)

            def seconds(**arguments):
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("error")
                    warnings.simplefilter("ignore", UserWarning)
                    function(tmp_path, **arguments)
                return time.process_time() - start

            def timed(**arguments):
                # The first example may compile kernels, which takes long on a busy machine: the second try has them.
                assert seconds(**arguments) < LONG or seconds(**arguments) < LONG

            run(given(**strategies)(timed))()

        test.__doc__ = function.__doc__
        return test

    return decorate


def rows_of(alphabets, seed, n_rows, strength=0.5):
    """A table of a random model on these variables, in which every column varies and no label is missing."""
    rng = np.random.default_rng(seed)
    n = len(alphabets)
    model = datasets.make_mixed(alphabets, {2: min(n - 1, 2)}, (0.0, strength), random_state=rng)
    X = sample(model, n_rows, method="exact", random_state=rng)
    values = Space.of(alphabets, n).alphabets
    for i, alphabet in enumerate(values):  # each value at least once
        X[: alphabet.size, i] = alphabet.values
    frame = pd.DataFrame(X, columns=[f"v{i}" for i in range(n)])
    return frame.infer_objects()


def all_finite(est, table):
    frame = est.to_frame()
    numbers = frame.drop(columns=["interaction", "selected"]).to_numpy(dtype=float)
    assert np.isfinite(numbers).all()
    for column in ("p_value", "q_value", "sign_rate"):
        assert ((frame[column] >= 0) & (frame[column] <= 1)).all()
    assert (frame["lower"] <= frame["upper"]).all()
    for array in (est.h_, est.d_, est.J_, est.weights_, est.standard_errors_, est.effects_, est.confidence_intervals()):
        assert np.isfinite(array).all()
    scores = est.score_samples(table)
    assert np.isfinite(scores).all()
    assert (scores <= 1e-12).all()
    return frame


# ---------------------------------------------------------------------- fits


@often(
    20,
    700,
    alphabets=spaces,
    seed=seeds,
    n_rows=st.integers(8, 120),
    order=st.sampled_from([2, 3, "auto"]),
    refine=st.sampled_from(["auto", None, "pseudolikelihood", "likelihood", "screening"]),
    alpha=st.sampled_from(["auto", 1.0, 100.0]),
)
def test_fits_are_finite_and_claim_no_more_than_rows_allow(tmp_path, alphabets, seed, n_rows, order, refine, alpha):
    """No NaN; and |z| ≤ √(2 M Σ ln q): no M rows are less probable than one in Π q_i^M."""
    table = rows_of(alphabets, seed, n_rows)
    est = HBM(order=order, refine=refine, alpha=alpha, alphabet=alphabets, random_state=0).fit(table)
    frame = all_finite(est, table)
    if refine is not None:
        bound = np.sqrt(2 * n_rows * np.log(est.model_.space.sizes).sum())
        assert (np.abs(frame["z"]) <= bound + 3).all()


def test_ten_rows_do_not_determine_eighty_parameters():
    """Errors without a prior are then infinite, and nothing is NaN."""
    alphabets = [Nominal("a", "b", "c")] * 4
    table = rows_of(alphabets, 1, 10)
    with np.errstate(invalid="raise"):
        est = HBM(order=3, refine="pseudolikelihood", alphabet=alphabets, random_state=0).fit(table)
    all_finite(est, table)
    assert np.isinf(est.result_.column_sampling_errors).any()


def test_screening_of_few_rows_is_finite():
    """Rows that some columns separate, so that ln S falls without end, and an expansion of it too."""
    alphabets = [Nominal("a", "b"), (-1, 1), (0, 1), (0, 0.5, 3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        table = rows_of(alphabets, 308, 10)
        all_finite(HBM(refine="screening", alphabet=alphabets, random_state=0).fit(table), table)


def test_couplings_without_end_that_are_not_active_leave_no_huge_fields():
    """Eight rows that columns separate: a curvature without such couplings is e^(fields of 48), variances vanish."""
    alphabets = [(1, 2, 3)] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        table = rows_of(alphabets, 226, 8)
        all_finite(HBM(order=2, refine="screening", alphabet=alphabets, random_state=0).fit(table), table)


@often(10, 200, alphabets=spaces, seed=seeds, n_rows=st.integers(20, 100), order=st.sampled_from([2, 3]))
def test_weights_are_repeated_rows(tmp_path, alphabets, seed, n_rows, order):
    table = rows_of(alphabets, seed, n_rows)
    w = np.random.default_rng(seed).integers(1, 4, n_rows)
    weighted = HBM(order=order, alphabet=alphabets).fit(table, sample_weight=w)
    repeated = HBM(order=order, alphabet=alphabets).fit(table.loc[table.index.repeat(w)])
    np.testing.assert_allclose(weighted.weights_, repeated.weights_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(weighted.standard_errors_, repeated.standard_errors_, rtol=1e-4, atol=1e-6)


@often(10, 200, alphabets=spaces, seed=seeds, n_rows=st.integers(30, 150))
def test_the_order_of_rows_and_columns_does_not_matter(tmp_path, alphabets, seed, n_rows):
    """To the score tests it does a little: a pair is tested in the conditional of one of its two variables."""
    table, rng = rows_of(alphabets, seed, n_rows), np.random.default_rng(seed)
    names = rng.permutation(table.columns).tolist()
    given_alphabets = dict(zip(table.columns, alphabets))
    shuffled = table.iloc[rng.permutation(n_rows)][names]
    here = HBM(order=2, alphabet=alphabets).fit(table).to_frame()
    there = HBM(order=2, alphabet=[given_alphabets[name] for name in names]).fit(shuffled).to_frame()
    a = {frozenset(mu): row for mu, row in zip(here["interaction"], here.to_dict("records"))}
    for mu, row in zip(there["interaction"], there.to_dict("records")):
        for column, share in (("effect", 1e-4), ("effect_error", 1e-4), ("z", 0.1)):
            assert row[column] == pytest.approx(a[frozenset(mu)][column], rel=share, abs=0.1 * share)


@often(
    10, 200, alphabets=spaces, seed=seeds, slope=st.sampled_from([-7.0, -1.0, 0.01, 100.0]), shift=st.floats(-50, 50)
)
def test_recoding_a_column_changes_no_effect(tmp_path, alphabets, seed, slope, shift):
    table = rows_of(alphabets, seed, 120)
    other = table.copy()
    first = table.columns[0]
    if pd.api.types.is_numeric_dtype(table[first]):
        other[first] = slope * table[first] + shift
        assume(other[first].nunique() == table[first].nunique())
    else:
        other[first] = "label " + table[first].astype(str)
    here, there = (HBM(order=2).fit(each) for each in (table, other))
    np.testing.assert_allclose(np.abs(there.effects_), np.abs(here.effects_), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(there.score_samples(other), here.score_samples(table), rtol=1e-4, atol=1e-5)


@often(10, 300, alphabets=spaces, seed=seeds, share=st.floats(0.05, 0.9))
def test_missing_cells_are_filled_with_values_and_probabilities_sum_to_one(tmp_path, alphabets, seed, share):
    table = rows_of(alphabets, seed, 60)
    est = HBM(order=2, alphabet=alphabets).fit(table)
    holes = table.mask(np.random.default_rng(seed).random(table.shape) < share)
    filled = est.predict(holes)
    assert not filled.isna().any().any()
    for i, name in enumerate(table.columns):
        assert set(filled[name]) <= set(table[name])
        kept = holes[name].notna()
        assert (filled[name][kept] == table[name][kept]).all()
        p = est.predict_proba(holes)
        mine = p[i] if isinstance(p, list) else p[:, i]
        np.testing.assert_allclose(mine.sum(axis=1), 1.0, atol=1e-9)
        assert (mine >= 0).all()


# ---------------------------------------------------------------------- models


def random_model(alphabets, seed, strength):
    n = len(alphabets)
    counts = {2: n - 1, 3: 1} if n > 2 else {2: 1}
    return datasets.make_mixed(alphabets, counts, (0.0, strength), random_state=seed)


@often(15, 400, alphabets=spaces, seed=seeds, strength=st.sampled_from([0.1, 0.5, 2.0, 10.0]))
def test_models_have_finite_moments_whatever_their_strength(tmp_path, alphabets, seed, strength):
    model = random_model(alphabets, seed, strength)
    exact = infer(model, "exact")
    for p in exact.probabilities:
        assert p.sum() == pytest.approx(1.0)
    for method in ("dc", "auto"):
        found = infer(model, method)
        assert np.isfinite(found.m[[not a.is_nominal for a in model.space.alphabets]]).all()
        assert np.isfinite(found.log_partition)
        for p in found.probabilities or []:
            assert p is None or ((p > -1e-9) & (p < 1 + 1e-9)).all()
    lowest, highest = -model.energy(sample(model, 20, random_state=seed)), exact.log_partition
    assert (lowest <= highest + 1e-9).all(), "no state has more weight than all together"


@often(15, 400, alphabets=spaces, seed=seeds, strength=st.sampled_from([0.1, 3.0]), n=st.integers(1, 40))
def test_samples_are_values_and_files_hold_models(tmp_path, alphabets, seed, strength, n):
    model = random_model(alphabets, seed, strength)
    for method in ("exact", "gibbs"):
        X = sample(model, n, method=method, random_state=seed)
        assert X.shape == (n, len(alphabets))
        for i, alphabet in enumerate(model.space.alphabets):
            assert set(X[:, i].tolist()) <= set(alphabet.values.tolist())
    model.save(tmp_path / "model.npz")
    assert BoltzmannMachine.load(tmp_path / "model.npz") == model


# ---------------------------------------------------------------------- nonsense

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 6),
    st.floats(),
    st.text(max_size=3),
    st.lists(st.one_of(st.integers(-2, 5), st.floats(), st.text(max_size=2)), max_size=3),
    st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), max_size=3),
    st.dictionaries(st.integers(-1, 4), st.floats(), max_size=2),
    st.just(object()),
)
PARAMETERS = sorted(HBM().get_params())
TABLE = np.random.default_rng(8).choice([-1, 1], (40, 3))


@often(60, 2500, name=st.sampled_from(PARAMETERS), value=JUNK)
def test_any_parameter_is_taken_or_refused_by_name(tmp_path, name, value):
    """Nothing but a ValueError (or TypeError) whose message has something to say of the parameter."""
    try:
        est = HBM(**{"order": 2, **{name: value}})
        est.fit(TABLE)
    except (ValueError, TypeError) as error:
        message = str(error)
    else:
        assert np.isfinite(est.weights_).all()
        return
    assert {"interactions": "interaction", "categorical_features": "categorical"}.get(name, name) in message


@often(
    40,
    1500,
    content=st.one_of(
        st.binary(max_size=200),
        st.text(alphabet="ab01,;\t\n\"' -.|é", max_size=120).map(str.encode),
        st.binary(max_size=60).map(lambda data: b"PK\x03\x04" + data),
        st.binary(max_size=60).map(lambda data: b"\x93NUMPY\x01\x00" + data),
    ),
    suffix=st.sampled_from([".csv", ".tsv", ".npy", ".npz"]),
)
def test_any_file_is_a_table_or_refused(tmp_path, content, suffix):
    path = tmp_path / f"file{suffix}"
    path.write_bytes(content)
    try:
        table = tables.read(path)
    except ValueError as error:
        message = str(error)
    else:
        message = f"{path.name}: a table"
        assert len(table.shape) == 2
        assert 0 not in table.shape
    assert path.name in message
    with pytest.raises(ValueError, match=r"damaged|not a model"):
        BoltzmannMachine.load(path)
