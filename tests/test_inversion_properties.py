"""Every inversion method × every property that an inversion must have, on a table of mixed columns.

One list of methods, one list of properties: a new method is one line here.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM

METHODS = {
    "closed form": {"refine": None},
    "likelihood": {"refine": "likelihood"},
    "pseudolikelihood": {"refine": "pseudolikelihood", "tol": 1e-6},
    "screening": {"refine": "screening", "tol": 1e-6},
}
PRIORS = {"learnt": "auto", "none": 0.0}


def fitted(X, method, alpha="auto", sample_weight=None, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the closed form says that it is biased here
        return HBM(order=3, alpha=alpha, **METHODS[method], **parameters).fit(X, sample_weight=sample_weight)


def assert_same_answer(a: HBM, b: HBM, rtol=1e-5, atol=1e-6):
    """Effects, errors, tests and scale-free numbers of two fits; their terms may stand in another order."""
    names = [getattr(est, "feature_names_in_", None) for est in (a, b)]
    frames = [est.to_frame() for est in (a, b)]
    for frame in frames:
        frame["interaction"] = [tuple(sorted(map(str, mu))) for mu in frame["interaction"]]
    left, right = (frame.set_index("interaction").sort_index() for frame in frames)
    assert (names[0] is None) == (names[1] is None)
    assert left.index.tolist() == right.index.tolist()
    for column in ("effect", "effect_error", "lower", "upper", "z", "df", "p_value", "q_value", "sign_rate"):
        np.testing.assert_allclose(right[column], left[column], rtol=rtol, atol=atol, err_msg=column)


def flipped_signs(est: HBM, column: str) -> HBM:
    """The terms of a fit that contain a column, for which a flip changes the sign."""
    return est.to_frame()["interaction"].apply(lambda mu: column in mu).to_numpy()


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    def test_order_of_columns(self, survey, method, prior):
        here = fitted(survey, method, PRIORS[prior])
        there = fitted(survey[["answer", "rating", "spin", "dose", "region", "bit"]], method, PRIORS[prior])
        assert_same_answer(here, there)

    def test_order_of_rows(self, survey, method, prior):
        shuffled = survey.sample(frac=1.0, random_state=0)
        assert_same_answer(fitted(survey, method, PRIORS[prior]), fitted(shuffled, method, PRIORS[prior]))

    def test_weights_are_repeated_rows(self, survey, method, prior):
        part = survey.iloc[:1500]
        counts = np.random.default_rng(0).integers(0, 4, len(part))
        weighted = fitted(part, method, PRIORS[prior], sample_weight=counts)
        repeated = fitted(part.loc[part.index.repeat(counts)], method, PRIORS[prior])
        assert_same_answer(weighted, repeated)

    def test_recoding_changes_nothing(self, survey, method, prior):
        """0/1 ↔ ±1 ↔ labels, 1…5 ↔ −2…2 × 100, other labels in another order."""
        recoded = survey.assign(
            spin=np.where(survey["spin"] > 0, "up", "down"),
            bit=np.where(survey["bit"], 1, -1),
            rating=100.0 * survey["rating"] - 250.0,
            region=survey["region"].map({"north": "c", "south": "a", "west": "b"}).astype(str),
            dose=0.001 * survey["dose"] + 7.0,
            answer=(survey["answer"] == "yes").astype(int),
        )
        here, there = fitted(survey, method, PRIORS[prior]), fitted(recoded, method, PRIORS[prior])
        # "down" < "up" as −1 < 1, so that no sign changes
        assert_same_answer(here, there)
        np.testing.assert_allclose(there.score_samples(recoded), here.score_samples(survey), rtol=1e-4, atol=1e-5)

    def test_flipping_a_column_flips_signs(self, survey, method, prior):
        here = fitted(survey, method, PRIORS[prior])
        there = fitted(survey.assign(spin=-survey["spin"]), method, PRIORS[prior])
        sign = np.where(flipped_signs(here, "spin") & (here.to_frame()["df"] == 1), -1.0, 1.0)
        np.testing.assert_allclose(there.effects_, sign * here.effects_, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(there.tests_.z, sign * here.tests_.z, rtol=1e-5, atol=1e-5)

    def test_threads(self, survey, method, prior):
        one, two = (fitted(survey, method, PRIORS[prior], n_jobs=jobs) for jobs in (1, 2))
        np.testing.assert_array_equal(one.weights_, two.weights_)
        np.testing.assert_array_equal(one.standard_errors_, two.standard_errors_)

    def test_kinds_of_container(self, survey, method, prior):
        here = fitted(survey, method, PRIORS[prior])
        polars = pytest.importorskip("polars")
        for other in (survey.astype({"region": str}), survey.convert_dtypes(), polars.from_pandas(survey)):
            assert_same_answer(here, fitted(other, method, PRIORS[prior]))
        plain = fitted(survey.astype(object).to_numpy(), method, PRIORS[prior])
        np.testing.assert_allclose(plain.effects_, here.effects_, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_negative_control(survey, method):
    """The battery can tell another fit: half of the rows give another answer."""
    here, there = fitted(survey, method), fitted(survey.iloc[::2], method)
    with pytest.raises(AssertionError):
        assert_same_answer(here, there)


@pytest.mark.parametrize("method", ["likelihood", "pseudolikelihood"])
def test_selection_is_equivariant(survey, method):
    recoded = survey.assign(rating=2 * survey["rating"] + 1, bit=np.where(survey["bit"], "b", "a"))
    here, there = fitted(survey, method, fdr=0.05), fitted(recoded, method, fdr=0.05)
    assert here.interactions_ == there.interactions_
    assert_same_answer(here, there)


def test_methods_agree_within_errors(survey, survey_model):
    """Likelihood and pseudolikelihood differ by less than their errors, and both from the truth by about as much."""
    a, b = fitted(survey, "likelihood", 0.0), fitted(survey, "pseudolikelihood", 0.0)
    single = a.to_frame()["df"] == 1
    assert np.abs((a.effects_ - b.effects_) / a.effect_errors_)[single].max() < 1.0
    truth = survey_model.in_space(a.moments_.space.standard(a.moments_.frequencies))
    place = truth.columns.positions(a.model_.columns)
    true = np.where(place >= 0, np.append(truth.column_weights, 0.0)[place], 0.0)
    z = (a.result_.column_effects - true) / a.result_.column_effect_errors
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.3


def test_four_normal_columns_of_different_scale():
    """Independent reals, one × 100: rejections at about the level of the test, whatever the scale."""
    rejected = []
    for seed in range(60):
        X = np.random.default_rng(seed).normal(size=(300, 4)) * [1.0, 100.0, 1.0, 1.0]
        rejected.append(HBM(order=2).fit(X).tests_.p_values < 0.05)
    assert 0.02 < np.mean(rejected) < 0.085  # 360 tests: 0.05 ± 0.0115


def test_data_frame_through_pipeline_grid_search_and_cross_validation(survey):
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import FunctionTransformer

    pipeline = Pipeline([("same", FunctionTransformer()), ("hbm", HBM(order=2))])
    scores = cross_val_score(pipeline, survey, cv=3)
    assert np.isfinite(scores).all()
    search = GridSearchCV(pipeline, {"hbm__order": [1, 2]}, cv=3).fit(survey)
    assert search.best_params_["hbm__order"] == 2  # there are strong pairs
    assert isinstance(search.predict(survey.iloc[:5]), pd.DataFrame)
