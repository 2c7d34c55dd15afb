"""Bootstrap and stability: draws against what they are draws of, bookkeeping, and errors that name the parameter."""

from __future__ import annotations

import subprocess
import sys

import joblib
import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM, BoltzmannMachine, Moments, Nominal, assessment, sample
from hbm_learn.assessment.cases import Cases
from hbm_learn.space import Space

MODEL = BoltzmannMachine([0.1, -0.2, 0.0, 0.2], {(0, 1): 0.4, (1, 2): -0.3, (0, 2, 3): 0.25})


@pytest.fixture(scope="module")
def X():
    return sample(MODEL, 600, method="exact", random_state=1)


def mean_pair(est):
    return est.J_.mean()


# ---------------------------------------------------------------------- cases


def test_distinct_rows_with_counts_are_the_table(X):
    cases = Cases.of(X, None, None, Space.of((-1, 1), 4))
    assert len(cases.X) == len(np.unique(X, axis=0)) < len(X)
    assert cases.weights.sum() == 600
    mine = Moments.from_samples(cases.X, sample_weight=cases.weights, order=2)
    np.testing.assert_allclose(mine.covariance, Moments.from_samples(X, order=2).covariance, atol=1e-12)


def test_cases_drawn_again_have_multinomial_counts():
    cases = Cases(np.arange(3)[:, None], np.array([50.0, 30.0, 20.0]))
    rng = np.random.default_rng(2)
    counts = np.zeros((4000, 3))
    for row in counts:
        drawn = cases.again(rng)
        row[drawn.X[:, 0]] = drawn.sample_weight
    p = cases.weights / 100
    assert (counts.sum(axis=1) == 100).all()
    np.testing.assert_allclose(counts.mean(axis=0), 100 * p, atol=0.4)
    np.testing.assert_allclose(np.cov(counts.T), 100 * (np.diag(p) - np.outer(p, p)), atol=1.8)


def test_weights_that_are_no_counts_keep_their_sum():
    cases = Cases(np.arange(3)[:, None], np.array([0.5, 1.25, 2.05]))
    assert cases.again(np.random.default_rng(0)).sample_weight.sum() == pytest.approx(3.8)
    assert set(cases.fewer(np.random.default_rng(0), 0.34).sample_weight) < {0.5, 1.25, 2.05}


def test_left_out_cases_are_never_more_than_there_were():
    cases = Cases(np.arange(3)[:, None], np.array([5.0, 3.0, 2.0]))
    for seed in range(50):
        drawn = cases.fewer(np.random.default_rng(seed), 0.3)
        assert drawn.sample_weight.sum() == 7
        assert (drawn.sample_weight <= cases.weights[drawn.X[:, 0]]).all()


def test_groups_are_drawn_whole_and_twice_is_two():
    labels = np.repeat(np.arange(12), 5)
    X = np.column_stack([labels % 2, np.tile(np.arange(5), 12) % 3, labels])
    cases = Cases.of(X, None, labels, None)
    drawn = cases.again(np.random.default_rng(0))
    assert len(drawn.X) == 60
    assert len(set(drawn.groups)) == 12  # as many as there are, though not all are different
    assert len(set(drawn.X[:, 2])) < 12
    for g in range(12):
        mine = drawn.X[drawn.groups == g]
        assert len(set(mine[:, 2])) == 1
        assert sorted(mine[:, 1]) == sorted(X[labels == mine[0, 2], 1])


def test_missing_cells_are_a_value_of_their_own():
    X = np.array([[0.0, 1.0], [0.0, np.nan], [0.0, np.nan], [1.0, 1.0]])
    cases = Cases.of(X, None, None, Space.of((0, 1), 2))
    assert sorted(cases.weights) == [1, 1, 2]


# ---------------------------------------------------------------------- bootstrap


def test_nothing_depends_on_the_number_of_jobs(X):
    est = HBM(order=2, alpha=0)
    first = assessment.bootstrap(est, X, n=6, random_state=3)
    assert not hasattr(est, "model_")
    second = assessment.bootstrap(est, X, n=6, random_state=3, n_jobs=2)
    with joblib.parallel_config("threading", n_jobs=2):
        third = assessment.bootstrap(est, X, n=6, random_state=3)
    assert np.array_equal(first.draws, second.draws)
    assert np.array_equal(first.draws, third.draws)
    assert not np.array_equal(first.draws, assessment.bootstrap(est, X, n=6, random_state=4).draws)


def test_summaries_are_those_of_the_draws(X):
    frame = pd.DataFrame(X, columns=list("abcd"))
    est = HBM(order=3, alpha=0).fit(frame)
    found = assessment.bootstrap(est, frame, "effects_", 60, level=0.8, random_state=0)
    np.testing.assert_allclose(found.estimate, est.effects_, rtol=1e-9)
    assert found.interactions == est.interactions_
    table = found.to_frame()
    assert table.interaction.iloc[0] == ("a", "b")
    assert table.order.tolist() == [len(mu) for mu in est.interactions_]
    np.testing.assert_allclose(table.standard_error, found.draws.std(axis=0, ddof=1))
    np.testing.assert_allclose(table["mean"], found.draws.mean(axis=0))
    inside = (found.draws >= table.lower.to_numpy()) & (found.draws <= table.upper.to_numpy())
    np.testing.assert_allclose(inside.mean(axis=0), 0.8, atol=0.02)
    assert (table.selected == 1.0).all()
    pair = table.interaction.tolist().index(("a", "b"))
    assert table.same_sign[pair] == 1.0
    np.testing.assert_allclose(found.same_sign, (found.draws * found.estimate > 0).mean(axis=0))


def test_repeated_rows_and_their_counts_are_the_same(X):
    rows, counts = np.unique(X, axis=0, return_counts=True)
    whole = assessment.bootstrap(HBM(order=2, alpha=0), X, "h_", 10, random_state=0)
    short = assessment.bootstrap(HBM(order=2, alpha=0), rows, "h_", 10, sample_weight=counts, random_state=0)
    np.testing.assert_allclose(whole.draws, short.draws, atol=1e-8)
    assert whole.interactions is None
    assert whole.to_frame()["entry"].tolist() == [(0,), (1,), (2,), (3,)]


def test_a_function_of_the_fit(X):
    found = assessment.bootstrap(HBM(order=2), X, mean_pair, 5, random_state=0)
    assert found.statistic == "mean_pair"
    assert found.draws.shape == (5,)
    assert found.estimate == pytest.approx(mean_pair(HBM(order=2).fit(X)))


def test_progress_is_shown_where_asked_for(X, capsys):
    assessment.bootstrap(HBM(order=1), X, "h_", 3, random_state=0)
    assert capsys.readouterr().err == ""
    assessment.bootstrap(HBM(order=1), X, "h_", 3, random_state=0, verbose=1)
    assert "3/3" in capsys.readouterr().err


def test_selection_shows_how_often_an_interaction_is_there(X):
    found = assessment.bootstrap(HBM(order=2, fdr=0.05), X, n=25, random_state=0)
    assert len(found.interactions) == 6  # all that were considered
    share = dict(zip(found.interactions, found.selected))
    assert share[0, 1] == 1.0
    assert min(share.values()) < 0.7
    assert np.isnan(found.same_sign[found.estimate == 0.0]).all()


def test_the_order_is_that_of_the_whole_table(X):
    est = HBM().fit(X)
    found = assessment.bootstrap(HBM(), X, n=4, random_state=0)
    assert found.draws.shape == (4, len(est.weights_))


def test_refits_that_lack_a_column_are_counted():
    rng = np.random.default_rng(0)
    X = (rng.random((60, 3)) < 0.4).astype(int)
    X[:, 2] = 0
    X[0, 2] = 1
    with pytest.warns(UserWarning, match=r"of 30 refits were left out"):
        found = assessment.bootstrap(HBM(order=2, alpha=1.0), X, n=30, random_state=0)
    assert 0 < found.n_failed < 30
    assert len(found.draws) == 30 - found.n_failed
    assert f"{found.n_failed} left out" in repr(found)
    assert any("column" in reason or "variable" in reason for reason in found.failures)


def test_a_rare_value_keeps_its_place():
    """Refits without a rating that occurs once have the space of the whole table."""
    model = BoltzmannMachine(np.zeros(3), {(0, 1): 0.3}, alphabet=(0, 1, 2))
    X = sample(model, 200, method="exact", random_state=0)
    X[0, 0] = 7
    sizes = assessment.bootstrap(HBM(order=2), X, lambda est: est.model_.space.sizes, 8, random_state=0)
    assert (sizes.draws == [4, 3, 3]).all()


def test_labels_and_groups(X):
    frame = pd.DataFrame({"a": np.where(X[:, 0] > 0, "yes", "no"), "b": X[:, 1], "c": X[:, 2]})
    labels = np.repeat(np.arange(60), 10)
    single = assessment.bootstrap(HBM(order=2, alpha=0), frame, n=40, random_state=0)
    found = assessment.bootstrap(HBM(order=2, alpha=0), frame, n=40, groups=labels, random_state=0)
    assert found.draws.shape == single.draws.shape == (40, 3)


def test_groups_of_copies_are_as_many_as_groups(X):
    """Each row five times over, in a group of its own: as uncertain as the rows once, and √5 more than five as many."""
    est, rows = HBM(order=2, alpha=0), X[:400]
    many = np.repeat(np.arange(400), 5)
    single = assessment.bootstrap(est, rows, n=80, random_state=0).standard_errors
    grouped = assessment.bootstrap(est, rows[many], n=80, groups=many, random_state=1).standard_errors
    naive = assessment.bootstrap(est, rows, n=80, sample_weight=np.full(400, 5), random_state=2).standard_errors
    assert np.median(grouped / single) == pytest.approx(1.0, abs=0.25)
    assert np.median(grouped / naive) == pytest.approx(np.sqrt(5), rel=0.25)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["likelihood", "pseudolikelihood", "mixed"])
def test_standard_errors_are_those_of_the_fit(kind):
    """Without a prior, bootstrap errors agree with Fisher's and with the sandwich's within a tenth."""
    rng = np.random.default_rng({"likelihood": 81, "pseudolikelihood": 82, "mixed": 83}[kind])
    couplings = {(0, 1): 0.3, (1, 2): -0.3, (2, 3): 0.2, (3, 4): 0.3, (0, 2, 4): 0.2, (4, 5): -0.2}
    model = BoltzmannMachine(rng.normal(0, 0.2, 6), couplings)
    if kind == "mixed":
        alphabet = [(-1, 1), (0, 1), (1, 2, 3), Nominal("a", "b"), (0, 1, 2), (-1, 1)]
        model = BoltzmannMachine(np.zeros(6), {(0, 1): 0.4, (1, 2): 0.3, (4, 5): 0.3, (0, 4): -0.2}, alphabet=alphabet)
    X = sample(model, 3000, method="exact", random_state=rng)
    refine = "pseudolikelihood" if kind == "pseudolikelihood" else "likelihood"
    est = HBM(order=2 if kind == "mixed" else 3, alpha=0, refine=refine).fit(X)
    found = assessment.bootstrap(est, X, n=600, random_state=rng)
    ratio = found.standard_errors / est.standard_errors_
    assert abs(np.median(ratio) - 1.0) < 0.05
    assert (np.abs(ratio - 1.0) < 0.1 + 3.0 / np.sqrt(1200)).all()  # the bootstrap's own noise beside


# ---------------------------------------------------------------------- stability


def test_stability_falls_with_what_is_left_out(X):
    found = assessment.stability(HBM(order=2, alpha=0), X, n=20, dropped=[0.1, 0.5, 0.9], random_state=0)
    assert found.correlations.shape == (3, 20)
    middle = found.to_frame()["median"]
    assert middle.is_monotonic_decreasing
    assert found.coefficient in (0.0, 0.1, 0.5, 0.9)
    again = assessment.stability(HBM(order=2, alpha=0), X, n=20, dropped=[0.1, 0.5, 0.9], random_state=0, n_jobs=2)
    assert np.array_equal(found.correlations, again.correlations)


def test_the_coefficient_is_the_last_share_in_a_row():
    values = np.repeat([[0.9], [0.8], [0.6], [0.95]], 20, axis=1)
    values[1, 0] = np.nan
    stable = assessment.Stability(np.array([0.1, 0.3, 0.5, 0.7]), values)
    assert stable.coefficient == 0.3  # .95 of them reach it; .5 does not, whatever .7 does
    values[1, 1] = np.nan
    assert stable.coefficient == 0.1
    assert assessment.Stability(np.array([0.1]), np.full((1, 4), 0.2)).coefficient == 0.0


# ---------------------------------------------------------------------- bad use


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"n": 1}, "n=1"),
        ({"level": 1.5}, "level=1.5"),
        ({"statistic": "wieghts_"}, r"statistic='wieghts_'.*weights_"),
        ({"statistic": 3}, "statistic=3"),
        ({"statistic": lambda est: "no number"}, "no array of numbers"),
        ({"random_state": "x"}, "random_state='x'"),
        ({"est": 3}, "est=3"),
        ({"sample_weight": [1, 2]}, "sample_weight"),
        ({"groups": [1, 2]}, "groups"),
    ],
)
def test_bad_use_names_the_parameter(X, given, match):
    with pytest.raises(ValueError, match=match):
        assessment.bootstrap(**({"est": HBM(order=2), "X": X, "n": 3} | given))


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"dropped": [0.5, 0.2]}, "dropped="),
        ({"dropped": [0.0]}, "dropped="),
        ({"correlation": 2}, "correlation=2"),
        ({"probability": 0}, "probability=0"),
        ({"statistic": mean_pair}, "no three different entries"),
    ],
)
def test_bad_use_of_stability_names_the_parameter(X, given, match):
    with pytest.raises(ValueError, match=match):
        assessment.stability(HBM(order=2), X, **({"n": 3} | given))


def test_blocks_are_refused(X):
    with pytest.raises(ValueError, match="X is read in blocks"):
        assessment.bootstrap(HBM(order=2), [X[:300], X[300:]], n=3)


def test_a_statistic_that_no_refit_has_is_an_error(X):
    seen = []

    def once(est):
        seen.append(est)
        if len(seen) > 1:
            raise ValueError("only the first")
        return est.h_

    with (
        pytest.warns(UserWarning, match="3 of 3 refits"),
        pytest.raises(ValueError, match=r"only 0 of n=3 refits.*only the first"),
    ):
        assessment.bootstrap(HBM(order=2), X, once, 3)


def test_importing_the_package_loads_none_of_it():
    code = (
        "import sys, hbm_learn\n"
        "print([m for m in ('resampling', 'planning', 'cases') if f'hbm_learn.assessment.{m}' in sys.modules])\n"
        "from hbm_learn import assessment; print(assessment.bootstrap.__name__, assessment.plan.__name__)\n"
        "print({'bootstrap', 'plan', 'stability'} <= set(dir(assessment)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["[]", "bootstrap plan", "True"]
    with pytest.raises(AttributeError, match="no attribute 'bootstrp'"):
        assessment.bootstrp  # noqa: B018
