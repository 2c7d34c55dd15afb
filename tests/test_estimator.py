"""HBM as scikit-learn users meet it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from oracle import ALPHABETS, distribution, random_model
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Binarizer

from hbm_learn import HBM, BoltzmannMachine, Interval, datasets, infer, sample
from hbm_learn.conditionals import condition


@pytest.fixture(scope="module")
def spins():
    """2000 samples of a weak model of 6 spins with triplets."""
    return sample(random_model(6, 3, (-1, 1), 0.3, seed=1), 2000, method="exact", random_state=0)


def assert_same_fit(a, b, atol=1e-9):
    assert a.interactions_ == b.interactions_
    for name in ("h_", "d_", "weights_", "standard_errors_", "h_standard_errors_"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), atol=atol, err_msg=name)


# ---------------------------------------------------------------------- learning


def test_attributes(spins):
    est = HBM(order=3).fit(spins)
    assert est.h_.shape == est.d_.shape == est.h_standard_errors_.shape == (6,)
    assert est.J_.shape == (6, 6)
    assert len(est.interactions_) == len(est.weights_) == len(est.standard_errors_) == 15 + 20
    assert isinstance(est.model_, BoltzmannMachine)
    assert est.model_.couplings() == dict(zip(est.interactions_, est.weights_))
    assert est.n_features_in_ == 6
    assert est.converged_
    assert est.order_ == 3
    assert set(est.alpha_) == {2, 3}
    assert est.confidence_intervals(0.9).shape == (35, 2)


@pytest.mark.parametrize("refine", [None, "likelihood", "auto"])
@pytest.mark.parametrize("alpha", [0.0, "auto"])
def test_weights_are_repeated_rows(spins, refine, alpha):
    X, weights = spins[:400], np.random.default_rng(0).integers(0, 4, 400)
    weighted = HBM(refine=refine, alpha=alpha).fit(X, sample_weight=weights)
    repeated = HBM(refine=refine, alpha=alpha).fit(np.repeat(X, weights, axis=0))
    assert_same_fit(weighted, repeated)


@pytest.mark.parametrize("refine", [None, "likelihood"])
def test_partial_fit_on_blocks_is_fit_on_all(spins, refine):
    whole = HBM(refine=refine).fit(spins)
    blocks = HBM(refine=refine)
    for start in range(0, len(spins), 700):
        blocks.partial_fit(spins[start : start + 700])
    assert_same_fit(whole, blocks, atol=0)


def test_partial_fit_cannot_use_what_it_did_not_keep(spins):
    with pytest.raises(ValueError, match="needs the samples"):
        HBM(refine="pseudolikelihood").partial_fit(spins)


@pytest.mark.parametrize("alpha", [0.0, "auto"])
def test_permuting_features_permutes_the_answer(spins, alpha):
    permutation = np.array([2, 5, 0, 1, 4, 3])
    here, there = (HBM(alpha=alpha).fit(X) for X in (spins, spins[:, permutation]))
    np.testing.assert_allclose(there.h_, here.h_[permutation], atol=1e-8)
    np.testing.assert_allclose(there.J_, here.J_[np.ix_(permutation, permutation)], atol=1e-8)


@pytest.mark.parametrize("refine", [None, "likelihood"])
def test_bits_and_spins_are_the_same_fit(spins, refine):
    as_spins = HBM(alpha=0.0, refine=refine).fit(spins).model_.with_alphabet((0, 1))
    as_bits = HBM(alpha=0.0, refine=refine).fit((spins + 1) // 2).model_
    for name in ("h", "d", "weights"):
        np.testing.assert_allclose(getattr(as_bits, name), getattr(as_spins, name), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("n", "values", "order"), [(5, 2, 3), (5, 4, 3), (250, 2, 2)], ids=["few spins", "four values", "many spins"]
)
def test_automatic_order(n, values, order):
    X = np.random.default_rng(0).integers(0, values, (400, n))
    assert HBM(refine=None).fit(X).order_ == order


def test_real_line_is_the_gaussian_graphical_model():
    X = np.random.default_rng(0).normal(size=(300, 4)) @ np.random.default_rng(1).normal(size=(4, 4)) + 3.0
    est = HBM(alpha=0.0).fit(X)
    precision = np.linalg.inv(np.cov(X.T, bias=True))
    assert est.order_ == 2
    np.testing.assert_allclose(est.J_, np.diag(np.diag(precision)) - precision, atol=1e-8)
    np.testing.assert_allclose(est.d_, np.diag(precision), atol=1e-8)
    np.testing.assert_allclose(est.h_, precision @ X.mean(axis=0), atol=1e-8)
    exact = infer(est.model_, "exact")
    gaussian = -0.5 * ((X - exact.m) @ precision * (X - exact.m)).sum(axis=1).mean()
    gaussian += 0.5 * np.linalg.slogdet(precision)[1] - 2 * np.log(2 * np.pi)
    assert est.log_likelihood(X) == pytest.approx(gaussian, abs=1e-8)
    assert not hasattr(est, "predict_proba")
    missing = X[:5].copy()
    missing[:, [0, 2]] = np.nan
    filled = est.predict(missing)
    hidden, seen = [0, 2], [1, 3]
    shift = (X[:5, seen] - exact.m[seen]) @ np.linalg.solve(
        exact.chi[np.ix_(seen, seen)], exact.chi[np.ix_(seen, hidden)]
    )
    np.testing.assert_allclose(filled[:, hidden], exact.m[hidden] + shift, atol=1e-8)


def test_interactions_by_name():
    X = pd.DataFrame(np.random.default_rng(0).choice([-1, 1], (300, 4)), columns=list("abcd"))
    est = HBM(interactions=[("a", "c"), ("d", "b", "a")]).fit(X)
    assert est.interactions_ == [(0, 2), (0, 1, 3)]
    assert est.to_frame()["interaction"].tolist() == [("a", "c"), ("a", "b", "d")]
    with pytest.raises(ValueError, match="'z' is not a known feature"):
        HBM(interactions=[("a", "z")]).fit(X)
    with pytest.raises(ValueError, match="raise `order`"):
        HBM(order=2, interactions=[("a", "b", "c")]).fit(X)


def test_selection_keeps_subsets_and_little_else():
    truth = datasets.make_planted(15, {2: 10, 3: 6}, strength=(0.2, 0.3), random_state=0)
    X = sample(truth, 20_000, method="exact", random_state=1)
    est = HBM(order=3, fdr=0.05).fit(X)
    found = set(est.interactions_)
    assert set(truth.interactions) <= found
    assert len(found) < 60
    frame = est.to_frame()
    assert (frame.loc[frame["order"] == 3, "q_value"] <= 0.05).all()
    for mu in found:
        for i in mu if len(mu) > 2 else ():
            assert tuple(j for j in mu if j != i) in found


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
def test_tests_do_not_depend_on_the_prior(refine):
    """Strong pairs on {0, 1} and no triplets: shrunk pairs would lend their weight to the triplets beside them."""
    pairs = {(0, 1): 2.0, (1, 2): 2.0, (0, 2): 2.0, (2, 3): 1.0}
    X = sample(BoltzmannMachine([-1.5] * 4, pairs, alphabet=(0, 1)), 3000, method="exact", random_state=0)
    free, prior = (HBM(order=3, refine=refine, alpha=alpha).fit(X) for alpha in (0.0, 5.0))
    absent = np.array([mu not in pairs for mu in free.interactions_])
    z = free.to_frame()["z"]
    np.testing.assert_allclose(prior.to_frame()["z"][absent], z[absent], atol=0.3)
    shrunk = prior.effects_ / prior.effect_errors_  # the negative control
    assert np.abs(shrunk - z)[absent].max() > 1


# ---------------------------------------------------------------------- using the fit


@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
def test_scores_probabilities_and_missing_values_against_enumeration(alphabet):
    model = random_model(4, 3, alphabet, 0.3, seed=5, d=0.1)
    X = sample(model, 300, method="exact", random_state=0)
    est = HBM(alphabet=alphabet, alpha=1.0).fit(X)
    states, p, _ = distribution(est.model_)
    q = len(alphabet)
    rows = X[:30].astype(float)
    index = [int(np.flatnonzero((states == x).all(axis=1))[0]) for x in rows]
    assert est.log_likelihood(rows) == pytest.approx(np.log(p[index]).mean(), abs=1e-9)

    expected = np.empty((30, 4, q))
    for r, x in enumerate(rows):
        for i in range(4):
            rest = np.delete(np.arange(4), i)
            same = (states[:, rest] == x[rest]).all(axis=1)
            expected[r, i] = [p[same & (states[:, i] == a)].sum() / p[same].sum() for a in alphabet]
    np.testing.assert_allclose(est.predict_proba(rows), expected, atol=1e-10)
    codes = np.searchsorted(alphabet, rows)
    chosen = np.take_along_axis(expected, codes[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(est.score_samples(rows), np.log(chosen).sum(axis=1), atol=1e-9)
    assert est.score(rows) == pytest.approx(est.score_samples(rows).mean())

    holes = rows.copy()
    holes[np.random.default_rng(1).random(holes.shape) < 0.4] = np.nan
    filled, probabilities = est.predict(holes), est.predict_proba(holes)
    for r, x in enumerate(holes):
        seen = ~np.isnan(x)
        np.testing.assert_array_equal(filled[r, seen], x[seen])
        for i in range(4):
            others = seen & (np.arange(4) != i)
            same = (states[:, others] == x[others]).all(axis=1)
            marginal = np.array([p[same & (states[:, i] == a)].sum() / p[same].sum() for a in alphabet])
            np.testing.assert_allclose(probabilities[r, i], marginal, atol=1e-10)
            if not seen[i]:
                assert marginal[list(alphabet).index(filled[r, i])] == pytest.approx(marginal.max(), abs=1e-12)


def test_many_missing_values_are_filled_by_the_documented_approximation():
    """15 missing spins are 32,768 states: beyond exact summation, yet exact answers are known by enumeration."""
    model = datasets.make_sk(18, 0.5, h_std=0.3, random_state=0)
    X = sample(model, 3000, method="exact", random_state=1)
    est = HBM(order=2, refine=None).fit(X)
    holes = X[:4].astype(float)
    holes[:, 2:17] = np.nan
    approximate = est.predict_proba(holes)
    assert np.isfinite(approximate).all()
    np.testing.assert_allclose(approximate.sum(axis=2), 1.0)
    codes = (np.nan_to_num(holes[0], nan=1.0) > 0).astype(np.uint8)  # what is hidden does not matter
    exact = 0.5 * (1 + infer(condition(est.model_, codes, np.arange(2, 17)), "exact").m)
    np.testing.assert_allclose(approximate[0, 2:17, 1], exact, atol=0.02)
    assert set(np.unique(est.predict(holes))) <= {-1, 1}


def test_samples_of_the_fit_have_its_moments(spins):
    est = HBM().fit(spins)
    X = est.sample(20_000, random_state=0)
    assert X.dtype == est.model_.alphabet.dtype
    np.testing.assert_allclose(X.mean(axis=0), infer(est.model_, "exact").m, atol=0.04)
    np.testing.assert_array_equal(est.sample(5, random_state=3), est.sample(5, random_state=3))


@pytest.mark.parametrize("method", ["dc", "ais"])
def test_log_likelihood_methods_agree(spins, method):
    est = HBM(order=2, random_state=0).fit(spins)
    assert est.log_likelihood(spins, method) == pytest.approx(est.log_likelihood(spins, "exact"), abs=0.02)
    with pytest.raises(ValueError, match="choose one of"):
        est.log_likelihood(spins, "guess")


# ---------------------------------------------------------------------- pipelines, model selection, containers


def test_pipeline_grid_search_and_cross_validation():
    X = np.random.default_rng(0).normal(size=(300, 4))
    X[:, 1] += X[:, 0]
    pipeline = make_pipeline(Binarizer(), HBM())
    scores = cross_val_score(pipeline, X, cv=3)
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    bits = (X > 0).astype(int)
    search = GridSearchCV(HBM(), {"order": [1, 2, 3], "alpha": [1.0, "auto"]}, cv=3).fit(bits)
    assert search.best_params_["order"] >= 2  # 0 and 1 are coupled
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_clone_pickle_and_parameters(spins):
    est = HBM(order=2, alpha=[3.0], fdr=0.1).fit(spins)
    assert clone(est).get_params()["alpha"] == [3.0]
    again = pickle.loads(pickle.dumps(est))
    assert_same_fit(est, again, atol=0)
    np.testing.assert_array_equal(again.predict_proba(spins[:5]), est.predict_proba(spins[:5]))
    with pytest.raises(NotFittedError):
        HBM().score(spins)


def test_metadata_routing_of_weights(spins):
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(spins))
    with sklearn.config_context(enable_metadata_routing=True):
        est = HBM(order=2, refine=None).set_fit_request(sample_weight=True)
        result = cross_validate(
            est, spins, params={"sample_weight": weights}, cv=3, return_estimator=True, return_indices=True
        )
    for fitted, train in zip(result["estimator"], result["indices"]["train"]):
        direct = HBM(order=2, refine=None).fit(spins[train], sample_weight=weights[train])
        assert_same_fit(fitted, direct, atol=0)


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(np.random.default_rng(0).choice([0, 1], (200, 3)), columns=["x", "y", "z"])
    est = HBM().fit(frame)
    assert est.feature_names_in_.tolist() == ["x", "y", "z"]
    holes = frame.iloc[:5].astype(float)
    holes.iloc[0, 1] = np.nan
    filled = est.predict(holes)
    assert isinstance(filled, pd.DataFrame)
    assert filled.columns.tolist() == ["x", "y", "z"]
    pipeline = make_pipeline(Binarizer(), HBM()).set_output(transform="pandas").fit(frame)
    assert pipeline[-1].feature_names_in_.tolist() == ["x", "y", "z"]
    columns = "interaction order weight standard_error effect effect_error lower upper z df p_value q_value sign_rate"
    assert est.to_frame().columns.tolist() == [*columns.split(), "n_effective", "selected"]


@pytest.mark.parametrize("container", [scipy.sparse.csr_matrix, np.asfortranarray, lambda X: X.astype(bool), list])
def test_containers_give_the_same_fit(container):
    X = np.random.default_rng(0).choice([0, 1], (200, 4), p=[0.7, 0.3])
    assert_same_fit(HBM().fit(container(X)), HBM().fit(X))


def test_results_do_not_depend_on_n_jobs(spins):
    assert_same_fit(HBM(n_jobs=1).fit(spins), HBM(n_jobs=2).fit(spins), atol=0)


# ---------------------------------------------------------------------- kindness


def test_values_outside_the_alphabet_are_named():
    X = np.array([[-1, 1], [1, -1], [1, 2], [1, 1]])
    with pytest.raises(ValueError, match=r"value 2 at row 2, column 1"):
        HBM(alphabet=(-1, 1)).fit(X)
    est = HBM().fit(np.array([[-1, 1], [1, -1], [1, 1], [-1, -1]]))
    with pytest.raises(ValueError, match=r"value 2 at row 2, column 1"):
        est.score(X)


def test_constant_columns_are_named():
    X = pd.DataFrame(np.random.default_rng(0).choice([-1, 1], (50, 3)), columns=["a", "b", "c"])
    X["b"] = 1
    with pytest.raises(ValueError, match=r"column 'b' is constant.*VarianceThreshold"):
        HBM().fit(X)


def test_rows_with_nothing_observed_say_nothing(spins):
    X = spins[:200].astype(float)
    X[[3, 7]] = np.nan
    est = HBM().fit(X)
    assert_same_fit(est, HBM().fit(np.delete(spins[:200], [3, 7], axis=0)), atol=1e-7)
    X[11, 0] = np.nan  # what is left of that row is used
    assert np.abs(HBM().fit(X).effects_ - est.effects_).max() > 1e-6


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"order": 0}, "order=0"),
        ({"order": "three"}, "order='three'"),
        ({"order": 5}, "order"),
        ({"refine": "magic"}, "refine='magic'"),
        ({"alpha": -1.0}, "alpha=-1.0"),
        ({"alpha": "none"}, "alpha='none'"),
        ({"alpha": [1.0], "order": 3}, "one number for each"),
        ({"fdr": 1.5}, "fdr=1.5"),
        ({"l1_ratio": 2.0}, "l1_ratio=2.0"),
        ({"alphabet": "spins"}, "alphabet='spins'"),
    ],
)
def test_bad_parameters_are_named(spins, parameters, message):
    with pytest.raises(ValueError, match=message):
        HBM(**parameters).fit(spins)


def test_bad_weights_are_named(spins):
    with pytest.raises(ValueError, match=r"sample_weight\[1\]"):
        HBM().fit(spins[:3], sample_weight=[1, -1, 1])


def test_closed_form_warns_when_its_bias_dominates():
    model = datasets.make_curie_weiss(8, {2: 0.9}, h=0.05)
    X = sample(model, 20_000, method="exact", random_state=0)
    with pytest.warns(UserWarning, match='bias of the closed form.*refine="auto"'):
        est = HBM(order=2, refine=None, alpha=0.0).fit(X)
    assert est.trust_.bias > 1
    refined = HBM(order=2, alpha=0.0).fit(X)
    assert refined.trust_.discrepancy < 1e-6
    assert np.abs(refined.J_ - model.J).max() < np.abs(est.J_ - model.J).max()


def test_collinear_columns_are_a_warning_not_a_failure(spins):
    X = spins[:300].copy()
    X[:, 3] = X[:, 0]
    with pytest.warns(UserWarning, match="collinear|bias") as caught:
        est = HBM(order=2, refine=None).fit(X)
    assert any("columns 0, 3 are collinear" in str(warning.message) for warning in caught)
    assert np.isfinite(est.weights_).all()
    assert np.isfinite(est.standard_errors_).all()


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
@pytest.mark.parametrize("alpha", [0.0, 1.0, "auto"])
@pytest.mark.parametrize("kind", ["never together", "nearly frozen"])
def test_boundary_data_end_in_finite_numbers(refine, alpha, kind):
    """Without a prior the likelihood has no maximum: a warning that says so, and the best so far."""
    rng = np.random.default_rng(0)
    X = rng.choice([0, 1], (200, 5))
    if kind == "never together":
        X[:, 1] *= 1 - X[:, 0]
    else:
        X[:, 2] = 0
        X[3, 2] = 1
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est = HBM(order=3, refine=refine, alpha=alpha).fit(X)
    for values in (est.weights_, est.standard_errors_, est.h_, est.to_frame()["z"], est.confidence_intervals()):
        assert np.isfinite(values).all()
    assert np.isfinite(est.score(X))
    messages = [str(warning.message) for warning in caught if issubclass(warning.category, ConvergenceWarning)]
    assert est.converged_ == (not messages)
    if alpha == 0.0:
        assert "no finite maximum" in messages[0]
        assert "alpha > 0" in messages[0]
    else:
        assert est.converged_


@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1)], ids=str)
def test_order_four(alphabet):
    truth = random_model(6, 4, alphabet, 0.4, seed=8, d=0.1)
    X = sample(truth, 50_000, method="exact", random_state=0)
    est = HBM(order=4, alphabet=alphabet).fit(X)
    assert est.model_.order == 4
    quadruplets = est.model_.columns.slice(4)
    z = (est.weights_ - truth.weights)[quadruplets] / est.standard_errors_[quadruplets]
    assert np.abs(z).max() < 4.5
    assert HBM(order=4, fdr=0.05).fit(X).model_.order >= 2


@pytest.mark.parametrize("refine", [None, "auto"])
def test_selection_among_named_interactions_that_lack_subsets(refine):
    """What is there only as a subset of a selected triplet has tests of its own, not those of another."""
    data = datasets.load_planted_triplets().data
    some = [(4, 16, 18), (4, 16), (0, 1, 2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        est = HBM(order=3, interactions=some, fdr=0.05, refine=refine).fit(data)
    frame = est.to_frame()
    found = {mu: row for mu, (_, row) in zip(frame["interaction"], frame.iterrows())}
    assert found[4, 16, 18]["q_value"] < 0.05
    assert {(4, 16), (4, 18), (16, 18)} <= set(found)
    assert abs(found[4, 18]["z"]) < 0.5 * abs(found[4, 16, 18]["z"])


def test_an_empty_column_and_an_interval_beside_labels_are_named():
    frame = pd.DataFrame({"a": [0, 1, 0, 1], "nothing": [np.nan] * 4, "b": ["x", "y", "y", "x"]})
    with pytest.raises(ValueError, match=r"column 'nothing' holds no value but NaN.*drop it"):
        HBM().fit(frame)
    with pytest.raises(ValueError, match="column 1 holds no value but NaN"):
        HBM().fit(np.array([[0.0, np.nan], [1.0, np.nan]]))
    mixed = pd.DataFrame({"a": [0, 1, 0, 1, 1], "u": [0.1, 0.7, 0.3, 0.9, 0.2]})
    with pytest.raises(ValueError, match=r"column 'u' is on .*Interval.*bin it"):
        HBM(alphabet={"u": Interval(0, 1)}).fit(mixed)


def test_intervals_and_signs_of_blocks_agree_with_their_tests(survey):
    """The size of a table of labels is positive by chance alone: its interval holds zero where its test does."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        frame = HBM(order=3, alpha=0.0, refine=None).fit(survey).to_frame()
    blocks = frame[frame["df"] > 1]
    assert len(blocks) > 10
    np.testing.assert_array_equal(blocks["lower"] == 0.0, blocks["lower"] <= 0.0)
    quiet = blocks["p_value"] > 0.05
    assert quiet.any()
    assert (blocks.loc[quiet, "lower"] == 0.0).all()
    assert (~quiet).any()
    assert (blocks.loc[blocks["p_value"] < 1e-6, "lower"] > 0.0).all()
    np.testing.assert_allclose(blocks["sign_rate"], 0.5 * blocks["p_value"])


@pytest.mark.parametrize("refine", [None, "likelihood", "pseudolikelihood"])
@pytest.mark.parametrize("alphabet", [(-1, 1), (0, 1, 2)], ids=str)
def test_energies_and_the_partition_function_belong_together(alphabet, refine, tmp_path):
    """ln P(x) = −H(x) − ln Z of the fitted model, of what it becomes on disk, and as the estimator says."""
    X = sample(random_model(4, 2, alphabet, 0.4, seed=3), 500, method="exact", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        est = HBM(order=2, refine=refine).fit(X)
    est.model_.save(tmp_path / "model.npz")
    for model in (est.model_, BoltzmannMachine.load(tmp_path / "model.npz"), est.model_.with_alphabet(alphabet)):
        log_p = -model.energy(X).mean() - infer(model, "exact").log_partition
        assert log_p == pytest.approx(est.log_likelihood(X), abs=1e-9)


def test_scoring_rows_with_missing_cells_says_so_in_its_own_words():
    X = np.random.default_rng(0).choice([-1.0, 1.0], (200, 3))
    est = HBM(order=2).fit(X)
    X[7, 1] = np.nan
    for use in (est.score, est.score_samples, est.log_likelihood):
        with pytest.raises(ValueError, match=r"NaN \(row 7, column 1\): only complete rows are fitted and scored"):
            use(X)
