"""Pictures of groups, covariates and lags: what they draw is what the model says."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hbm_learn import HBM, BoltzmannMachine, datasets, plots, report, sample
from hbm_learn.lagged import past_columns

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


def items(couplings, n_rows, seed):
    model = BoltzmannMachine([0.1, 0.0, -0.2, 0.1], couplings, alphabet=(0, 1))
    return pd.DataFrame(sample(model, n_rows, random_state=seed), columns=["a", "b", "c", "d"])


@pytest.fixture(scope="module")
def grouped():
    """Three groups, of which the first two differ in a·b."""
    common = {(1, 2): 0.5, (2, 3): -0.4}
    parts = [items({(0, 1): J, **common}, 500, seed).assign(site=label) for label, J, seed in GROUPS]
    return pd.concat(parts, ignore_index=True)


GROUPS = [("Kyoto", 0.2, 1), ("Graz", 1.8, 2), ("Lima", 0.2, 3)]


def deviations(table, names):
    return np.array([table[name].std(ddof=0) for name in names])


@pytest.mark.parametrize("n_groups", [2, 3])
def test_groups_are_those_of_separate_fits(grouped, n_groups):
    table = grouped[grouped.site.isin([label for label, *_ in GROUPS[:n_groups]])].reset_index(drop=True)
    est = HBM(order=3, given=["site"], alpha=0.0, interactions=with_group(), refine="likelihood", tol=1e-10).fit(table)
    display = plots.GroupDifferenceDisplay.from_estimator(est, "site", top=6)
    s = deviations(table, "abcd")
    for k, label in enumerate(display.groups):
        alone = HBM(order=2, alpha=0.0, refine="likelihood", tol=1e-10).fit(
            table.loc[table.site == label, list("abcd")]
        )
        for row, name in enumerate(display.names):
            i, j = ("abcd".index(letter) for letter in name.split(" · "))
            r = alone.interactions_.index((i, j))
            assert display.effects[row, k] == pytest.approx(s[i] * s[j] * alone.weights_[r], abs=1e-6)
            half = stats.norm.ppf(0.975) * s[i] * s[j] * alone.standard_errors_[r]
            # The intervals, too: only the covariance of common part and difference makes them those of a group alone.
            np.testing.assert_allclose(np.ptp(display.intervals[row, k]) / 2, half, rtol=1e-4)


def with_group():
    pairs = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    return [*pairs, *((*pair, "site") for pair in pairs), *((name, "site") for name in "abcd")]


def test_differences_that_pass_are_marked_and_others_shared(grouped):
    est = HBM(order=3, given=["site"], fdr=0.05, random_state=0).fit(grouped)
    display = plots.GroupDifferenceDisplay.from_estimator(est, "site")
    assert display.names[0] == "a · b"
    assert display.differ[0]
    triplet = est.interactions_.index((0, 1, 4))
    assert display.q_values[0] == est.tests_.q_values[triplet]
    shared = np.isnan(display.q_values)
    assert shared.any()
    np.testing.assert_allclose(display.effects[shared], display.effects[shared][:, :1].repeat(3, axis=1))
    assert not display.differ[shared].any()
    texts = [text.get_text() for text in display.ax_.texts]
    assert texts[0].startswith("q ")
    assert texts.count("shared") == shared.sum()


def test_tables_of_labels_have_sizes_in_groups():
    rng = np.random.default_rng(5)
    group = rng.choice(["x", "y"], 900)
    colour = rng.choice(["red", "green", "blue"], 900)
    p = np.where(group == "y", np.where(colour == "red", 0.85, 0.2), 0.5)
    table = pd.DataFrame({"colour": colour, "yes": (rng.random(900) < p).astype(int), "group": group})
    est = HBM(order=3, given=["group"], alpha=0.0).fit(table)
    display = plots.GroupDifferenceDisplay.from_estimator(est, "group")
    assert (display.effects >= 0).all()
    assert (display.intervals >= 0).all()
    assert display.effects[0, 1] > 5 * display.effects[0, 0]
    phi = est.moments_.standard.space
    for k, label in enumerate(("x", "y")):  # the norm over the orthonormal functions of the conditioned model's table
        J = np.asarray(est.model_.condition([label]).couplings()[0, 1]) * table.yes.std(ddof=0)
        basis, shares = phi.functions[0], est.moments_.frequencies[0]
        assert display.effects[0, k] == pytest.approx(np.linalg.norm(basis.T @ (shares * J)), rel=1e-6)


@pytest.fixture(scope="module")
def aged():
    rng = np.random.default_rng(8)
    age = rng.normal(40, 12, 1500)
    rows = [items({(0, 1): 0.06 * (a - 40), (1, 2): 0.5}, 1, 100 + t) for t, a in enumerate(age)]
    return pd.concat(rows, ignore_index=True).assign(age=age)


@pytest.fixture(scope="module")
def moderated_fit(aged):
    return HBM(order=3, given=["age"], random_state=0).fit(aged)


def test_lines_are_couplings_of_the_conditioned_model(aged, moderated_fit):
    est = moderated_fit
    display = plots.ModerationDisplay.from_estimator(est, "age", [("a", "b"), ("b", "c")], X=aged)
    assert display.values[[0, -1]] == pytest.approx([aged.age.min(), aged.age.max()])
    s, m = deviations(aged, "abcd"), aged[list("abcd")].mean().to_numpy()
    for at in (0, 30, 60):
        given = est.model_.condition([display.values[at]])
        for row, (i, j) in enumerate([(0, 1), (1, 2)]):
            J = given.couplings()
            others = [k for k in range(4) if k not in (i, j)]
            expected = s[i] * s[j] * (J[i, j] + sum(J[tuple(sorted((i, j, k)))] * m[k] for k in others))
            assert display.effects[row, at] == pytest.approx(expected, abs=1e-9)
    drawn = display.ax_.get_lines()[0]
    np.testing.assert_array_equal(drawn.get_ydata(), display.effects[0])


def test_the_surest_moderation_comes_first_with_a_band_that_holds_it(moderated_fit):
    display = plots.ModerationDisplay.from_estimator(moderated_fit, "age", top=3)
    assert display.names[0] == "a · b"
    assert len(display.names) == 3
    assert display.q_values[0] < 0.001
    low, high = np.moveaxis(display.intervals, 2, 0)
    assert (low < display.effects).all()
    assert (high > display.effects).all()
    # Without rows, two standard deviations to either side.
    mean, sd = moderated_fit.moments_.mean[-1], np.sqrt(moderated_fit.moments_.covariance[-1, -1])
    assert display.values[[0, -1]] == pytest.approx([mean - 2 * sd, mean + 2 * sd])


def test_at_the_mean_a_line_has_the_interval_of_its_pair(moderated_fit):
    """There the triplet has no part, and the pair's own interval is what is left."""
    from hbm_learn.assessment.moderation import moderated

    est = moderated_fit
    mean = est.moments_.mean[-1:]
    found = moderated(est.result_, est.moments_.standard.space, 4, mean, [(0, 1), (1, 2)])
    rows = [est.interactions_.index(pair) for pair in [(0, 1), (1, 2)]]
    np.testing.assert_allclose(found.effects[:, 0], est.effects_[rows], atol=1e-10)
    np.testing.assert_allclose(found.errors[:, 0], est.effect_errors_[rows], rtol=1e-6)
    np.testing.assert_allclose(found.intervals[:, 0], est.effect_intervals()[rows], atol=1e-6)


def test_without_a_covariance_errors_are_as_if_uncorrelated(grouped):
    est = HBM(order=3, given=["site"], refine=None, alpha=0.0).fit(grouped)
    assert est.result_.effect_covariance is None
    display = plots.GroupDifferenceDisplay.from_estimator(est, "site")
    assert not display.joint
    assert "uncorrelated" in display.ax_.get_xlabel()


def series(n, T, seed):
    rng = np.random.default_rng(seed)
    W = np.zeros((n, n))
    W[0, 1], W[1, 0], W[2, 2], W[3, 1] = 0.8, -0.6, 0.7, 0.5
    x, rows = np.ones(n), []
    for _ in range(T):
        x = np.where(rng.random(n) < 1 / (1 + np.exp(-2 * W @ x)), 1, -1)
        rows.append(x)
    return W, np.array(rows)


@pytest.mark.parametrize("frame", [True, False])
def test_arrows_are_the_lagged_effects(frame):
    W, X = series(4, 2500, 11)
    table = datasets.lagged(pd.DataFrame(X, columns=list("abcd")) if frame else X, lags=2)
    est = HBM(given=table.given, interactions=table.interactions, order=2).fit(table.data)
    display = plots.LaggedDisplay.from_estimator(est)
    strong = {(j, i, lag): effect for j, i, lag, effect in display.arrows_ if abs(effect) > 0.2}
    assert set(strong) == {(j, i, 1) for i, j in zip(*np.nonzero(W))}
    for (j, i, lag), effect in strong.items():
        assert effect == est.effects_[est.interactions_.index((i, 4 * lag + j))]
        assert np.sign(effect) == np.sign(W[i, j])
    assert all(
        est.tests_.q_values[est.interactions_.index((i, 4 * lag + j))] <= 0.05 for j, i, lag, _ in display.arrows_
    )
    # As many arrows as couplings between different variables; the coupling of c to itself is a frame.
    drawn = [text for text in display.axes_[0].texts if not text.get_text()]
    assert len(drawn) == sum(j != i for j, i, lag, _ in display.arrows_ if lag == 1)
    frames = {text.get_text(): text.get_bbox_patch() for text in display.axes_[0].texts if text.get_text()}
    own = next(patch for name, patch in frames.items() if name in ("c", "x2"))
    assert mpl.colors.to_hex(own.get_edgecolor()) == "#b2182b"
    everything = plots.LaggedDisplay.from_estimator(est, max_q=None, top=100)
    assert len(everything.arrows_) == 32


def test_lagged_columns_are_known_by_name_or_place():
    given = np.array([False, False, True, True])
    assert past_columns(["a", "b", "a (t-1)", "b (t-1)"], given) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert past_columns(None, given) == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert past_columns(["a", "b", "age", "sex"], given) is None
    assert past_columns(None, given[:3]) is None
    assert past_columns(None, given[::-1]) is None
    assert past_columns(None, np.zeros(4, dtype=bool)) is None


def test_what_cannot_be_drawn_is_said(grouped, moderated_fit):
    pairs_only = HBM(order=2, given=["site"]).fit(grouped)
    with pytest.raises(ValueError, match="no triplet of site"):
        plots.ModerationDisplay.from_estimator(pairs_only, "site")
    with pytest.raises(ValueError, match="group='sex': no such column; give one of a, b, c, d, age"):
        plots.GroupDifferenceDisplay.from_estimator(moderated_fit, "sex")
    with pytest.raises(ValueError, match=r"age has no list of values.*ModerationDisplay"):
        plots.GroupDifferenceDisplay.from_estimator(moderated_fit, "age")
    with pytest.raises(ValueError, match="pairs: the model has no a × age with age"):
        plots.ModerationDisplay.from_estimator(moderated_fit, "age", [("a", "age")])
    with pytest.raises(ValueError, match=r"not fitted to lagged columns: make the table with datasets.lagged"):
        plots.LaggedDisplay.from_estimator(moderated_fit)
    with pytest.raises(ValueError, match=r"effects has shape \(2, 3\)"):
        plots.LaggedDisplay(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="for 1 pairs in 2 groups"):
        plots.GroupDifferenceDisplay(["a"], ["x", "y"], [[1, 2]], [[1, 2]], [0.1])
    with pytest.raises(ValueError, match="of pairs at values"):
        plots.ModerationDisplay(["a"], [0, 1], [[1, 2]], [[1, 2]], [0.1])


@pytest.mark.parametrize("name", ["$x", "_hidden", "a" * 90, "two\nlines", "50% \\frac{"])
def test_odd_names_are_drawn_as_they_are(grouped, moderated_fit, name, tmp_path):
    table = grouped.rename(columns={"a": name, "site": name + "?"})
    table[name + "?"] = table[name + "?"].replace({"Lima": "_$\\"})
    est = HBM(order=3, given=[name + "?"], refine=None).fit(table)
    for display in (
        plots.GroupDifferenceDisplay.from_estimator(est, name + "?"),
        plots.ModerationDisplay.from_estimator(est, name + "?"),
        plots.LaggedDisplay(np.ones((1, 2, 2)), feature_names=[name, name + "?"]).plot(),
    ):
        display.figure_.savefig(tmp_path / "picture.png")


def section(text):
    """The part of a report about given columns, or nothing."""
    return text.split('<h2 id="given">')[1].split("</section>")[0] if 'id="given"' in text else ""


def test_the_report_has_what_applies(grouped, aged, moderated_fit):
    by_group = HBM(order=3, given=["site"], refine=None).fit(grouped)
    part = section(report.html(by_group, grouped))
    assert 'alt="Couplings of pairs in each group of site."' in part
    part = section(report.html(moderated_fit, aged))
    assert 'alt="Couplings of pairs as lines over age."' in part
    pairs = HBM(order=2, given=["site"], refine=None).fit(grouped)
    part = section(report.html(pairs, grouped))
    assert "order 3 asks whether couplings differ between the groups of site" in part
    assert "<img" not in part
    alone = HBM(order=2, refine=None).fit(grouped[list("abcd")])
    assert not section(report.html(alone, grouped[list("abcd")]))


def test_the_report_knows_lagged_columns_by_their_names():
    _, X = series(4, 800, 12)
    table = datasets.lagged(pd.DataFrame(X, columns=list("abcd")))
    est = HBM(given=table.given, interactions=table.interactions, order=2).fit(table.data)
    part = section(report.html(est, table.data))
    assert part.count("<img") == 1
    assert "Directed graph of" in part
    noise = np.random.default_rng(4).choice([-1, 1], (400, 3))
    table = datasets.lagged(pd.DataFrame(noise, columns=list("abc")))
    est = HBM(given=table.given, interactions=table.interactions, order=2, fdr=1e-6).fit(table.data)
    assert "Nothing of the past" in section(report.html(est, table.data))
