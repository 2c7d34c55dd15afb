"""Trust: the rule of the headline, each check where it should speak and where it should not; rows that depend."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM, BoltzmannMachine, datasets, sample
from hbm_learn.assessment import checks, dependence
from hbm_learn.assessment.trust import CARE, NOT, RELIED, Check, Trust
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.inflation import inflated
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.result import Fit, Whole
from hbm_learn.space import Space
from hbm_learn.terms import all_terms


def trust(*verdicts, essential="good"):
    rest = tuple(Check(f"check {k}", 1.0, verdict, f"sentence {k}.") for k, verdict in enumerate(verdicts))
    return Trust((Check("fitted moments", 1.0, essential, "moments.", essential=True), *rest))


@pytest.mark.parametrize(
    ("found", "headline"),
    [
        (trust("good", "good"), RELIED),
        (trust("good", "unknown"), RELIED),
        (trust("good", "care"), CARE),
        (trust("good", essential="unknown"), CARE),
        (trust("care", "bad"), NOT),
        (trust("good", essential="bad"), NOT),
    ],
)
def test_the_headline_follows_from_the_checks(found, headline):
    assert found.headline == headline
    assert bool(found.warning) == (headline == NOT)


def test_the_message_gives_the_reasons_of_the_headline():
    assert trust("care", "bad", "good").message == "Do not rely on this fit. sentence 1."
    assert trust("care", "good").message == "Take this fit with care. sentence 0."
    assert trust("good", essential="unknown").message == "Take this fit with care. moments."
    assert trust("good").message == "This fit can be relied on. moments."
    text = str(trust("care", "bad"))
    assert text.splitlines()[0] == NOT
    assert "! check 0: sentence 0." in text
    assert "✗ check 1: sentence 1." in text


def by_name(est):
    return {check.name: check for check in est.trust_.checks}


@pytest.fixture(scope="module")
def healthy():
    model = datasets.make_random(8, {2: 0.2}, 0.3, random_state=1)
    return sample(model, 3000, random_state=2)


def test_a_healthy_fit_can_be_relied_on(healthy):
    est = HBM(order=2).fit(healthy)
    assert est.trust_.headline == RELIED
    assert est.trust_.discrepancy < 1.0
    assert by_name(est)["dependence of rows"].value < 1.2


def test_a_fit_that_did_not_arrive_is_not_relied_on(healthy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = HBM(order=2, alpha=0.0, max_iter=1, tol=1e-14).fit(np.tile(healthy[:40], (2, 1)))
    assert not est.converged_
    assert by_name(est)["optimiser"].verdict == "bad"
    assert est.trust_.headline == NOT


def test_a_prior_that_overrules_the_data_is_another_model(healthy):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strong = HBM(order=2, alpha=1e5).fit(healthy)
    assert by_name(strong)["fitted moments"].verdict == "bad"
    assert by_name(strong)["fitted moments"].value > 8


def test_a_closed_form_worse_than_independence_is_said_to_be():
    """Strong common drive on rare spikes: all pairs look fine, the whole is far off."""
    rng = np.random.default_rng(5)
    drive = rng.random((4000, 1)) < 0.1
    X = (rng.random((4000, 12)) < np.where(drive, 0.6, 0.02)).astype(int)
    with pytest.warns(UserWarning, match="Do not rely on this fit"):
        est = HBM(order=3, refine=None).fit(X)
    assert by_name(est)["bias of the closed form"].verdict == "bad"


def test_orders_are_compared_by_evidence():
    pairs = BoltzmannMachine(np.zeros(8), {(i, i + 1): 0.4 for i in range(7)})
    est = HBM(order=3).fit(sample(pairs, 2000, random_state=7))
    assert "does not prefer order 3" in by_name(est)["orders compared"].sentence


def test_missing_cells_are_counted():
    shares = {0.01: "good", 0.4: "good", 0.6: "care", 0.9: "bad"}
    assert {share: checks.missing_cells(np.full(3, share))[0].verdict for share in shares} == shares
    assert checks.missing_cells(np.array([0.0, 0.9, 0.0]))[0].verdict == "care"
    assert checks.missing_cells(np.zeros(3)) == checks.missing_cells(None) == []
    X = np.random.default_rng(0).choice([0.0, 1.0], (400, 4))
    X[:80, 2] = np.nan
    found = by_name(HBM(order=2).fit(pd.DataFrame(X, columns=list("abcd"))))["missing cells"]
    assert found.value == pytest.approx(0.05)
    assert found.verdict == "good"
    assert "most in c (20 %)" in found.sentence
    assert "missing cells" not in by_name(HBM(order=2).fit(X[80:]))


def test_beyond_enumeration_a_fit_is_sampled():
    model = datasets.make_random(24, {2: 0.1}, 0.2, random_state=3)
    est = HBM(order=2).fit(sample(model, 3000, random_state=4))
    found = by_name(est)
    assert est.result_.method == "pseudolikelihood"
    assert found["fitted moments"].verdict == "good"
    assert found["next order"].value < 5
    assert "sum of all" in found
    assert est.trust_.headline == RELIED


# ---------------------------------------------------------------------- rows that depend on each other


def series(model, n_rows, repeats, seed):
    """Every independent row several times, with noise in a tenth of the cells."""
    rng = np.random.default_rng(seed)
    X = np.repeat(sample(model, n_rows, random_state=seed), repeats, axis=0)
    noise = rng.random(X.shape) < 0.1
    return np.where(noise, rng.permutation(X), X), np.repeat(np.arange(n_rows), repeats)


def test_autocorrelation_is_seen_and_independence_too():
    model = datasets.make_random(6, {2: 0.3}, 0.2, random_state=8)
    columns = all_terms(2, model.space)
    alone = Samples.check(sample(model, 4000, random_state=9))
    assert dependence.autocorrelation_time(alone, columns) < 1.25
    alike, _ = series(model, 1000, 5, 10)
    assert 2.5 < dependence.autocorrelation_time(Samples.check(alike), columns) < 6.5
    shuffled = np.random.default_rng(0).permutation(alike)
    assert dependence.autocorrelation_time(Samples.check(shuffled), columns) < 1.25


def test_dependent_rows_are_a_warning_with_the_remedy():
    model = datasets.make_random(6, {2: 0.3}, 0.2, random_state=8)
    X, groups = series(model, 600, 6, 11)
    with pytest.warns(UserWarning, match=r"groups="):
        HBM(order=2).fit(X)
    grouped = HBM(order=2).fit(X, groups=groups)
    assert grouped.trust_.headline == RELIED


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
@pytest.mark.parametrize("alpha", ["auto", 0.0])
def test_rows_repeated_within_groups_are_worth_one(refine, alpha):
    model = datasets.make_random(7, {2: 0.3}, 0.2, random_state=12)
    once = sample(model, 1200, random_state=13)
    X, groups = np.repeat(once, 4, axis=0), np.repeat(np.arange(1200), 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        est = HBM(order=2, refine=refine, alpha=alpha).fit(X, groups=groups)
        alone = HBM(order=2, refine=refine, alpha=alpha).fit(once)
        blind = HBM(order=2, refine=refine, alpha=alpha).fit(X)
    np.testing.assert_allclose(est.effect_errors_, alone.effect_errors_, rtol=0.1)
    np.testing.assert_allclose(np.abs(est.tests_.z), np.abs(alone.tests_.z), rtol=0.1, atol=0.1)
    assert np.median(alone.effect_errors_ / blind.effect_errors_) > 1.7  # the negative control
    sure = blind.tests_.z / np.where(est.tests_.z == 0, 1, est.tests_.z)
    assert np.median(sure) == pytest.approx(2.0, rel=0.1)


def test_design_effects_are_those_of_the_groups():
    model = datasets.make_random(5, {2: 0.2}, 0.2, random_state=14)
    once = sample(model, 2000, random_state=15)
    columns = all_terms(3, model.space)
    found = dependence.design_effects(Samples.check(np.repeat(once, 3, axis=0)), columns, np.repeat(np.arange(2000), 3))
    assert found == pytest.approx({1: 3.0, 2: 3.0, 3: 3.0}, rel=0.05)
    labels = np.random.default_rng(0).integers(0, 500, 2000)
    found = dependence.design_effects(Samples.check(once), columns, labels)
    assert found == pytest.approx({1: 1.0, 2: 1.0, 3: 1.0}, abs=0.12)


def test_every_error_of_a_fit_is_inflated_by_its_order():
    space = Space.of((-1, 1), 2)
    parameters = Parameters(space, all_terms(2, space), "free", [np.full(2, 0.5)] * 2)
    C = np.array([[1.0, 0.2, 0.1], [0.2, 2.0, 0.3], [0.1, 0.3, 4.0]])
    whole = Whole(np.ones(3), np.diag(C).copy(), C, 2 * C)
    variances = np.array([1.0, 2.0, 4.0])
    fit = Fit("likelihood", parameters, np.ones(3), variances, variances, np.ones(1), variances[2:], {2: 1.0})
    found = inflated(replace(fit, make_whole=lambda: whole), {1: 4.0, 2: 9.0})
    g = np.array([4.0, 4.0, 9.0])
    for name in ("posterior", "sampling", "free_variance"):
        np.testing.assert_allclose(getattr(found, name), variances * g)
    np.testing.assert_allclose(found.noise, [36.0])
    np.testing.assert_allclose(found.covariance, C * np.sqrt(np.outer(g, g)))
    np.testing.assert_allclose(found.free_covariance, 2 * C * np.sqrt(np.outer(g, g)))
    np.testing.assert_allclose(found.overcount, g)
    assert inflated(fit, {}) is fit


def test_selection_allows_for_groups():
    rng = np.random.default_rng(16)
    X = np.repeat(rng.integers(0, 2, (300, 8)), 8, axis=0)
    groups = np.repeat(np.arange(300), 8)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        assert len(HBM(order=2, fdr=0.05).fit(X).interactions_) > 3  # what is found without them
    assert len(HBM(order=2, fdr=0.05).fit(X, groups=groups).interactions_) <= 1


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (np.zeros(50), "groups has shape"),
        (np.arange(200).reshape(100, 2), "groups has shape"),
        (np.zeros(100), "1 different labels"),
        (np.r_[np.nan, np.arange(99.0)], "missing labels"),
    ],
)
def test_bad_groups_are_named(groups, message):
    X = np.random.default_rng(0).integers(0, 2, (100, 3))
    with pytest.raises(ValueError, match=message):
        HBM(order=2).fit(X, groups=groups)


@pytest.mark.parametrize("alpha", [0.0, "auto"])
def test_groups_of_rows_with_missing_cells(alpha):
    """Every row three times: errors are those of one of each, whatever is missing."""
    model = datasets.make_random(5, {2: 0.3}, 0.2, random_state=17)
    once = sample(model, 1000, random_state=18).astype(float)
    once[np.random.default_rng(0).random(once.shape) < 0.2] = np.nan
    groups = np.repeat([f"subject {k}" for k in range(1000)], 3)
    thrice = HBM(order=2, alpha=alpha).fit(np.repeat(once, 3, axis=0), groups=groups)
    single = HBM(order=2, alpha=alpha).fit(once)
    ratio = thrice.effect_errors_ / single.effect_errors_
    assert 0.9 < np.median(ratio) < 1.1
    deviates = np.abs(thrice.tests_.z / single.tests_.z)
    assert 0.9 < np.median(deviates) < 1.1
