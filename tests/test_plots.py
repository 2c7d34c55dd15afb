"""Displays: what is drawn equals the estimator's numbers, axes have labels, and nothing is imported before its time."""

import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import gammaln

from hbm_learn import (
    HBM,
    BoltzmannMachine,
    Interactions,
    Interval,
    Moments,
    Nominal,
    assessment,
    datasets,
    infer,
    plots,
    sample,
)
from hbm_learn.assessment import predictive, selection
from hbm_learn.data.samples import Samples
from hbm_learn.plots import volcano
from hbm_learn.sampling.diagnostics import split_r_hat
from hbm_learn.space import Space

mpl.use("Agg")
NAMES = ["rain", "wind", "sun", "frost", "hail", "fog"]
MODEL = BoltzmannMachine([0.1, 0.0, -0.2, 0.1, 0.2, 0.0], {(0, 1): 0.5, (2, 3): -0.4, (0, 1, 2): 0.6, (3, 4, 5): -0.5})


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(sample(MODEL, 2000, method="exact", random_state=1), columns=NAMES)


@pytest.fixture(scope="module")
def est(frame):
    return HBM(order=3).fit(frame)


# Numbers with different values, labels, and names that mean something to matplotlib.
MIXED_NAMES = ["age", "region", "smokes", "$s\\ex_^$", "<b>party</b>"]
REGIONS, SEXES, PARTIES = ("north", "south", "west", "$a^$"), ("f", "m"), ("green", "red", "none")


def _zero_sum(table):
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _mixed_model():
    rng = np.random.default_rng(0)
    couplings = {
        (0, 2): 0.3,
        (0, 0, 2): 0.15,
        (1, 2): _zero_sum(rng.normal(size=4)),
        (1, 4): _zero_sum(rng.normal(size=(4, 3))),
        (1, 3, 4): _zero_sum(rng.normal(size=(4, 2, 3))),
    }
    alphabet = [(-1, 0, 1, 2), Nominal(*REGIONS), (0, 1), Nominal(*SEXES), Nominal(*PARTIES)]
    return BoltzmannMachine([0.2, 0.0, -0.3, 0.0, 0.0], couplings, alphabet=alphabet)


MIXED = _mixed_model()


@pytest.fixture(scope="module")
def mixed_frame():
    X = sample(MIXED, 2500, method="exact", random_state=2)
    return pd.DataFrame(X, columns=MIXED_NAMES).infer_objects()


@pytest.fixture(scope="module")
def mixed(mixed_frame):
    return HBM(order=3, powers=2).fit(mixed_frame)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def labelled(*axes):
    return all(ax.get_xlabel() and ax.get_ylabel() for ax in axes)


def test_matplotlib_waits_until_a_plot_is_drawn():
    code = (
        "import sys, hbm_learn.cli, hbm_learn.report; from hbm_learn import plots\n"
        "print(*sorted({'matplotlib', 'networkx'} & set(sys.modules)))\n"
        "import numpy; plots.CouplingMatrixDisplay(numpy.eye(2)).plot(); print('matplotlib' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["", "True"]


# ---------------------------------------------------------------------- coupling matrix


@pytest.mark.parametrize("values", ["effect", "weight"])
def test_coupling_matrix_shows_pairs(est, values):
    display = plots.CouplingMatrixDisplay.from_estimator(est, values=values)
    shown = display.image_.get_array()
    J = np.zeros((6, 6))
    for mu, value in zip(est.interactions_, est.effects_ if values == "effect" else est.weights_):
        if len(mu) == 2:
            J[mu] = J[mu[::-1]] = value
    off = ~np.eye(6, dtype=bool)
    assert np.array_equal(shown.data[off], J[off])
    assert shown.mask.diagonal().all()
    assert not shown.mask[off].any()
    assert display.sizes_ is None
    assert display.image_.get_clim() == (-np.abs(J).max(), np.abs(J).max())  # white is zero
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == NAMES
    assert labelled(display.ax_)
    assert values in display.colorbar_.ax.get_ylabel()


def test_coupling_matrix_sets_tables_of_labels_apart(mixed):
    display = plots.CouplingMatrixDisplay.from_estimator(mixed)
    table = mixed.to_frame()
    effect = dict(zip(mixed.interactions_, table["effect"]))
    signed, sizes = display.image_.get_array(), display.sizes_.get_array()
    assert signed[0, 2] == effect[0, 2]  # of x_0 x_2, not of x_0² x_2
    assert sizes.mask[0, 2]
    assert sizes[1, 4] == effect[1, 4] > 0
    assert signed.mask[1, 4]
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == MIXED_NAMES
    assert not any(tick.get_parse_math() for tick in display.ax_.get_yticklabels())
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="values='size' is not known"):
        plots.CouplingMatrixDisplay.from_estimator(mixed, values="size")
    with pytest.raises(ValueError, match="unsigned has shape"):
        plots.CouplingMatrixDisplay(np.eye(2), unsigned=np.zeros(2))


def test_long_names_leave_room_for_the_picture():
    names = [f"question_about_something_{i}_rather_long" for i in range(6)]
    display = plots.CouplingMatrixDisplay.from_model(MODEL, feature_names=names)
    display.figure_.canvas.draw()  # a layout that collapses is a warning, and so an error
    assert display.ax_.get_window_extent().width > 200
    assert display.feature_names[0] == "…0…"


def test_coupling_matrix_of_a_model_on_given_axes():
    _, ax = plt.subplots()
    display = plots.CouplingMatrixDisplay.from_model(MODEL, ax=ax, colorbar=False, limit=2.0)
    assert display.ax_ is ax
    assert display.colorbar_ is None
    assert display.image_.get_clim() == (-2.0, 2.0)
    plots.CouplingMatrixDisplay(np.zeros((3, 3))).plot()  # nothing to scale by
    with pytest.raises(ValueError, match="expected \\(n, n\\)"):
        plots.CouplingMatrixDisplay(np.zeros(3))
    with pytest.raises(ValueError, match="2 names for 3"):
        plots.CouplingMatrixDisplay(np.zeros((3, 3)), feature_names=["a", "b"])


# ---------------------------------------------------------------------- hypergraph


def test_hypergraph_draws_what_stands_out(est):
    display = plots.HypergraphDisplay.from_estimator(est, max_q=0.01)
    table = est.to_frame()
    chosen = table[table["q_value"] <= 0.01]
    expected = {tuple(NAMES.index(name) for name in mu) for mu in chosen["interaction"]}
    assert np.array_equal(display.weights, chosen["effect"])
    assert set(display.interactions) == expected
    assert {(0, 1), (2, 3), (0, 1, 2), (3, 4, 5)} <= expected
    assert len(display.ax_.patches) == sum(len(mu) == 3 for mu in expected)  # one triangle for each triplet
    lines = [line for line in display.ax_.lines if len(line.get_xdata()) == 2]
    assert len(lines) == sum(len(mu) == 2 for mu in expected)
    ends = display.positions_[[0, 1]]
    (line,) = [line for line in lines if np.allclose(np.sort(line.get_xdata()), np.sort(ends[:, 0]))]
    assert line.get_color() == plots._style.POSITIVE
    assert [text.get_text() for text in display.ax_.texts] == NAMES


def test_hypergraph_shows_the_strongest_and_sets_signs_apart():
    display = plots.HypergraphDisplay.from_model(MODEL, top=2)
    assert [display.interactions[r] for r in display.shown_] in ([(0, 1, 2), (0, 1)], [(0, 1, 2), (3, 4, 5)])
    assert "2 strongest of 4" in display.ax_.get_title()
    both = plots.HypergraphDisplay.from_model(MODEL)
    dashed = [line.is_dashed() for line in both.ax_.lines]
    assert any(dashed)
    assert not all(dashed)  # sign is in the dashes, not in the colour alone
    again = plots.HypergraphDisplay.from_model(MODEL)
    assert np.array_equal(both.positions_, again.positions_)


@pytest.mark.parametrize("n", [10, 50])
def test_hypergraph_nodes_keep_apart(n):
    model = datasets.make_planted(n, {2: n // 2, 3: n // 3, 4: 2}, random_state=3)
    display = plots.HypergraphDisplay.from_model(model, top=1000)
    points = display.positions_[np.isfinite(display.positions_[:, 0])]
    gap = np.sqrt((((points[:, None] - points[None]) / display._room()) ** 2).sum(axis=2))
    np.fill_diagonal(gap, np.inf)
    assert gap.min() > 0.8
    member = np.unique(model.columns.members)
    assert np.isfinite(display.positions_[member]).all()


def test_hypergraph_of_nothing():
    display = plots.HypergraphDisplay([], np.zeros(0), 4).plot()
    assert len(display.shown_) == 0
    crowd = plots.HypergraphDisplay([(0, 1)], np.ones(1), 100).plot()
    assert len(crowd.ax_.texts) == 2


def test_hypergraph_of_powers_and_labels(mixed):
    """One line for the same two variables, and no sign for tables of labels."""
    display = plots.HypergraphDisplay.from_estimator(mixed)
    shown = [display.interactions[r] for r in display.shown_]
    assert {(0, 2), (0, 0, 2)} <= set(display.interactions)
    effect = dict(zip(display.interactions, display.weights))
    assert [mu for mu in shown if set(mu) == {0, 2}] == [max([(0, 2), (0, 0, 2)], key=lambda mu: abs(effect[mu]))]
    assert (1, 3, 4) in shown
    colours = {line.get_color() for line in display.ax_.lines}
    assert {plots._style.POSITIVE, plots._style.UNSIGNED} <= colours
    words = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert "pair, labels" in words
    assert sorted(text.get_text() for text in display.ax_.texts) == sorted(MIXED_NAMES)
    display.figure_.canvas.draw()  # a name that is taken for a formula is an error here
    with pytest.raises(ValueError, match="unsigned has shape"):
        plots.HypergraphDisplay([(0, 1)], np.ones(1), 2, unsigned=np.ones(2, bool))


# ---------------------------------------------------------------------- moments


def test_moments_are_those_of_data_and_model(est, frame):
    display = plots.MomentsDisplay.from_estimator(est)
    X = frame.to_numpy(dtype=float)
    Y = X - X.mean(axis=0)
    pairs, triplets = Interactions.upto(3, 6).block(2), Interactions.upto(3, 6).block(3)
    observed = [X.mean(axis=0), [Y[:, mu].prod(axis=1).mean() for mu in pairs]]
    observed += [[Y[:, mu].prod(axis=1).mean() for mu in triplets]]
    for k in (1, 2, 3):
        assert display.observed[display.orders == k] == pytest.approx(observed[k - 1], abs=1e-12)
    exact = infer(est.model_, "exact")
    monte_carlo = 5 / np.sqrt(100_000)
    assert display.fitted[display.orders == 1] == pytest.approx(exact.m, abs=monte_carlo)
    assert display.fitted[display.orders == 2] == pytest.approx(exact.chi[tuple(pairs.T)], abs=monte_carlo)
    spread = np.array([Y[:, mu].prod(axis=1).std() for mu in triplets])
    assert display.errors[display.orders == 3] == pytest.approx(spread * np.sqrt(1 / 2000 + 1 / 1e5), rel=0.1)
    assert all(value < 1.2 for value in display.discrepancy_.values())
    assert len(display.axes_) == 3
    assert labelled(*display.axes_)
    line = display.axes_[1].containers[0].lines[0]
    assert np.array_equal(line.get_xdata(), display.fitted[display.orders == 2])
    assert np.array_equal(line.get_ydata(), display.observed[display.orders == 2])


def test_moments_show_what_a_model_misses(frame):
    """Negative control: a fit without triplets does not tell the third cumulants."""
    pairs = HBM(order=2).fit(frame)
    moments = Moments.from_samples(frame, order=3)
    display = plots.MomentsDisplay.from_predictions(moments, pairs.sample(100_000, random_state=0))
    assert display.discrepancy_[2] < 1.2
    assert display.discrepancy_[3] > 3
    with pytest.raises(ValueError, match="same length"):
        plots.MomentsDisplay(np.ones(2), np.ones(3), np.ones(2), np.ones(2))


def test_moments_in_the_place_of_one_axes_and_on_several(est):
    display = plots.MomentsDisplay(np.arange(4.0), np.arange(4.0), np.ones(4), np.array([1, 1, 2, 2]))
    figure, ax = plt.subplots()
    assert len(display.plot(ax).axes_) == 2
    assert display.figure_ is figure
    _, both = plt.subplots(1, 2)
    assert display.plot(both).axes_ == list(both)
    with pytest.raises(ValueError, match="None, one, or 2"):
        display.plot(plt.subplots(1, 3)[1])


def test_moments_of_mixed_variables(mixed, mixed_frame):
    display = plots.MomentsDisplay.from_estimator(mixed)
    first = display.observed[display.orders == 1]
    age = mixed_frame["age"].to_numpy(float)
    assert first[0] == pytest.approx((age.mean() + 1) / 3)  # from the lowest value to the highest
    regions = sorted(REGIONS)
    shares = mixed_frame["region"].value_counts(normalize=True)
    assert first[1:5] == pytest.approx([shares[label] for label in regions])
    correlation = np.corrcoef(age, mixed_frame["smokes"].to_numpy(float))[0, 1]
    assert np.abs(display.observed[display.orders == 2] - correlation).min() < 1e-12
    # Columns: 2 of age, 3 of region, 1, 1, 2; pairs and triplets of different variables only.
    r = [2, 3, 1, 1, 2]
    pairs = (sum(r) ** 2 - sum(k**2 for k in r)) // 2
    assert (display.orders == 2).sum() == pairs
    assert all(value < 1.2 for value in display.discrepancy_.values())
    assert "frequencies" in display.axes_[0].get_title()
    assert labelled(*display.axes_)


def test_moments_show_what_a_mixed_model_misses(mixed_frame):
    """Negative control: without the interaction of region and party, the fitted correlations are wrong."""
    poor = HBM(interactions=[(0, 2), (0, 0, 2), (1, 2)]).fit(mixed_frame)
    display = plots.MomentsDisplay.from_estimator(poor)
    assert display.discrepancy_[1] < 1.2
    assert display.discrepancy_[2] > 3


def test_many_moments_are_thinned():
    def choose(n):
        return plots.moments._choose(Space.of(Nominal("a", "b", "c"), n), 3, np.random.default_rng(0))

    for n in (20, 200):
        rows = choose(n)
        assert len(np.unique(rows, axis=0)) == len(rows) == plots.moments.MAX_POINTS
        assert (np.diff(rows // 2, axis=1) > 0).all()  # two columns for each variable, one of them at most
    assert choose(3).shape == (8, 3)


# ---------------------------------------------------------------------- volcano


def test_volcano_shows_the_tests(est):
    display = plots.VolcanoDisplay.from_estimator(est, level=0.01)
    table = est.to_frame()
    assert np.array_equal(display.values, table["effect"])
    assert "effect" in display.ax_.get_xlabel()
    by_weight = plots.VolcanoDisplay.from_estimator(est, x="weight")
    assert np.array_equal(by_weight.values, table["weight"])
    assert "weight" in by_weight.ax_.get_xlabel()
    assert display.minus_log_p == pytest.approx(-np.log10(table["p_value"]), rel=1e-9)
    drawn = np.concatenate([points.get_offsets() for points in display.ax_.collections])
    assert len(drawn) == len(table)
    for k in (2, 3):
        p = table.loc[table["order"] == k, "p_value"].to_numpy()
        passing = stats.false_discovery_control(p) <= 0.01
        threshold = 10.0 ** -display.thresholds_[k]
        assert np.array_equal(p <= threshold, passing)  # the line separates what passes
    filled = display.ax_.collections[0].get_offsets()
    assert len(filled) == (table.loc[table["order"] == 2, "q_value"] <= 0.01).sum()
    assert labelled(display.ax_)
    assert "rain·wind·sun" in [text.get_text() for text in display.ax_.texts]


def test_volcano_of_a_selection_shows_all_that_was_tested(frame):
    chosen = HBM(order=3, fdr=0.05).fit(frame)
    display = plots.VolcanoDisplay.from_estimator(chosen)
    assert display.level == 0.05
    assert len(display.values) == 15 + 20 > len(chosen.weights_)
    at = display.terms.keys.positions(chosen.result_.terms.keys)
    assert np.array_equal(display.values[at], chosen.effects_)
    assert display.minus_log_p[at] == pytest.approx(-np.log10(chosen.tests_.p_values), rel=1e-9)
    outside = np.setdiff1d(np.arange(35), at)
    everything = chosen.tests_.everything
    assert np.array_equal(display.q_values[outside], everything.q_values[outside])
    assert (display.q_values[outside] > 0.05).all()
    assert display.minus_log_p[outside] == pytest.approx(-np.log10(everything.p_values[outside]), rel=1e-9)
    first = selection.preselect(chosen.moments_, chosen.tests_.considered.columns, chosen.site)
    assert (np.sign(display.values[outside]) == np.sign(first.z[outside])).all()


def test_volcano_of_labels_and_powers(mixed):
    display = plots.VolcanoDisplay.from_estimator(mixed)
    p = mixed.tests_.p_values
    assert display.minus_log_p == pytest.approx(-np.log10(p), rel=1e-9)
    block = mixed.interactions_.index((1, 3, 4))
    assert mixed.tests_.df[block] == 6
    assert display.values[block] == mixed.effects_[block] > 0
    words = [text.get_text() for text in display.ax_.texts]
    assert "region·$s\\ex_^$·<b>party</b>" in words
    assert any(word.startswith("age²") for word in words)
    display.figure_.canvas.draw()
    with pytest.raises(ValueError, match="x='size' is not known"):
        plots.VolcanoDisplay.from_estimator(mixed, x="size")


@pytest.mark.parametrize("df", [1, 2, 3, 6, 15, 40])
def test_tails_beyond_underflow(df):
    x = np.array([0.0, 0.3, 7.0, 90.0, 900.0])
    assert volcano.log_tail(x, np.full(5, df)) == pytest.approx(stats.chi2.logsf(x, df), rel=1e-10, abs=1e-14)
    # Beyond that, by its asymptotic series: Q(a, y) ≈ yᵃ⁻¹ e⁻ʸ/Γ(a) (1 + (a − 1)/y + (a − 1)(a − 2)/y² + …).
    a, y = df / 2, 4e4
    terms = np.cumprod([1.0, *((a - k) / y for k in range(1, 6))])
    series = (a - 1) * np.log(y) - y - gammaln(a) + np.log(terms.sum())
    assert volcano.log_tail(np.array([2 * y]), np.array([df]))[0] == pytest.approx(series, abs=1e-6)


def test_volcano_survives_overwhelming_evidence():
    interactions = Interactions.from_tuples([(0, 1), (0, 2)], 3)
    display = plots.VolcanoDisplay(interactions, [0.5, -0.1], [60.0, -0.5], [0.0, 0.6]).plot()
    assert display.minus_log_p[0] == pytest.approx(783.6, rel=1e-3)
    nothing = plots.VolcanoDisplay(interactions, [0.5, -0.1], [0.1, -0.5], [0.9, 0.9]).plot()
    assert nothing.thresholds_ == {}


# ---------------------------------------------------------------------- tables of labels


def test_coupling_table_shows_the_zero_sum_table(mixed):
    display = plots.CouplingTableDisplay.from_estimator(mixed, ("region", "<b>party</b>"))
    (panel,) = display.panels
    J = mixed.model_.couplings()[1, 4]
    assert np.array_equal(display.images_[0].get_array(), J)
    assert J.sum(axis=0) == pytest.approx(np.zeros(3), abs=1e-12)
    assert (panel.rows, panel.columns) == (sorted(REGIONS), sorted(PARTIES))
    ax = display.axes_[0]
    assert [tick.get_text() for tick in ax.get_yticklabels()] == sorted(REGIONS)
    assert f"{J[0, 0]:+.2f}".replace("-", "−") in [text.get_text() for text in ax.texts]
    assert (ax.get_ylabel(), ax.get_xlabel()) == ("region", "<b>party</b>")
    assert display.images_[0].get_clim() == (-np.abs(J).max(), np.abs(J).max())
    display.figure_.canvas.draw()


def test_coupling_table_of_three_labels_and_of_numbers():
    display = plots.CouplingTableDisplay.from_model(MIXED, (4, 1, 3), feature_names=MIXED_NAMES)
    J = MIXED.couplings()[1, 3, 4]
    assert [panel.where for panel in display.panels] == ["$s\\ex_^$ = f", "$s\\ex_^$ = m"]
    for k, panel in enumerate(display.panels):
        assert np.array_equal(panel.J, J[:, k])  # the variable with the fewest labels has no axis
    assert len(display.axes_) == 2
    single = plots.CouplingTableDisplay.from_model(MIXED, (1, 2))
    assert np.array_equal(single.panels[0].J, MIXED.couplings()[1, 2][None])
    with pytest.raises(ValueError, match="no interaction x0 × x3"):
        plots.CouplingTableDisplay(MIXED, (0, 3))
    with pytest.raises(ValueError, match="x0² × x2 has no nominal variable"):
        plots.CouplingTableDisplay(MIXED, (0, 0, 2))
    with pytest.raises(ValueError, match="2 names for 5"):
        plots.CouplingTableDisplay(MIXED, (1, 4), feature_names=["a", "b"])
    many = BoltzmannMachine(
        [0] * 3, {(0, 1, 2): np.zeros((13, 14, 15))}, alphabet=[Nominal(*range(q)) for q in (13, 14, 15)]
    )
    with pytest.raises(ValueError, match="would take 13 pictures"):
        plots.CouplingTableDisplay(many, (0, 1, 2))


# ---------------------------------------------------------------------- the sum of all variables


def standardised(X):
    return ((X - X.mean(axis=0)) / X.std(axis=0)).sum(axis=1)


def test_total_is_that_of_data_and_of_all_states(est, frame):
    display = plots.TotalDisplay.from_estimator(est, frame)
    X = frame.to_numpy(dtype=float)
    assert display.data == pytest.approx(np.histogram(standardised(X), display.edges)[0] / len(X))
    drawn = sample(est.model_, 200_000, method="exact", random_state=3)
    S = ((drawn - X.mean(axis=0)) / X.std(axis=0)).sum(axis=1)
    shares = np.histogram(S, display.edges)[0] / len(S)
    assert np.abs(shares - display.model).max() < 5 * np.sqrt(0.25 / len(S))
    assert display.model.sum() == pytest.approx(1.0, abs=5e-4)
    assert display.n_model == np.inf
    z = (display.data - display.model)[display.errors > 0] / display.errors[display.errors > 0]
    assert np.abs(z).max() < 5


def test_total_shows_what_a_model_of_pairs_misses():
    """Eight spins with a common push, fitted as independent: the tails of the data are far outside the model's."""
    X = sample(BoltzmannMachine(np.zeros(8), {(i, j): 0.12 for i in range(8) for j in range(i)}), 4000, random_state=1)
    display = plots.TotalDisplay.from_estimator(HBM(order=1).fit(X), X)
    assert (display.data - display.model)[[0, -1]].min() > 5 * display.errors[[0, -1]].max()
    better = plots.TotalDisplay.from_estimator(HBM(order=2).fit(X), X)
    assert np.abs(better.data - better.model)[[0, -1]].max() < 5 * better.errors[[0, -1]].max()


def test_total_of_few_values_draws_each_of_them():
    X = np.array(np.meshgrid(*[[0, 1]] * 4)).reshape(4, -1).T.repeat(20, axis=0)
    X = np.random.default_rng(0).permutation(X)
    display = plots.TotalDisplay.from_estimator(HBM(order=2).fit(X), X, values="standard")
    assert display.data == pytest.approx(np.array([1, 4, 6, 4, 1]) / 16)
    assert 0.5 * (display.edges[1:] + display.edges[:-1]) == pytest.approx([-4, -2, 0, 2, 4])
    assert display.model == pytest.approx(display.data, abs=0.02)
    assert display.errors == pytest.approx(np.sqrt(display.model * (1 - display.model) / 320))


def test_total_of_weights_is_that_of_repeated_rows():
    rng = np.random.default_rng(2)
    X, counts = rng.integers(0, 3, (60, 4)), rng.integers(1, 5, 60)
    whole, est = X.repeat(counts, axis=0), HBM(order=2).fit(X, sample_weight=counts)
    by_weight = plots.TotalDisplay.from_estimator(est, X, sample_weight=counts)
    by_row = plots.TotalDisplay.from_estimator(est, whole)
    assert by_weight.data == pytest.approx(by_row.data)
    assert by_weight.model == pytest.approx(by_row.model)
    assert by_weight.n_data == counts.sum()


def test_total_on_the_real_line_is_gaussian():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 2.0, 0.5], [0.0, 0.0, 1.0]]) + 4.0
    display = plots.TotalDisplay.from_estimator(HBM().fit(X), X)
    spread = np.sqrt(np.corrcoef(X.T).sum())
    assert display.model == pytest.approx(np.diff(stats.norm.cdf(display.edges / spread)), abs=0.003)
    assert np.abs(display.data - display.model).max() < 0.03


def test_total_beyond_enumeration_is_that_of_samples():
    model = datasets.make_planted(16, {2: 12}, random_state=1)
    X = sample(model, 1500, random_state=2)
    est = HBM(order=2, random_state=0).fit(X)
    display = plots.TotalDisplay.from_estimator(est, X)
    shares = np.histogram(standardised(X), display.edges)[0] / len(X)
    assert display.data == pytest.approx(shares, abs=1.01 / len(X))  # rounding may move a row over the last edge
    assert display.model.sum() == pytest.approx(1.0)
    assert 100 < display.n_model < np.inf
    found = predictive.check(est.model_, Samples.check(X, space=est.model_.space), 0)
    same = plots.TotalDisplay.from_check(found)
    assert same.model == pytest.approx(display.model)
    assert len(same.axes_) == 2


@pytest.mark.parametrize("n", [6, 16])
def test_total_of_zeros_and_ones_is_their_count(n):
    """Exactly, and beyond enumeration by samples: K of the rows, and of the model."""
    model = BoltzmannMachine(np.full(n, -1.0), {(0, 1): 0.8, (2, 3): 0.8, (4, 5): -0.5}, alphabet=(0, 1))
    X = sample(model, 1500, random_state=2)
    est = HBM(order=2, random_state=0).fit(X)
    display = plots.TotalDisplay.from_estimator(est, X)
    K = np.arange(int(display.edges[0] + 0.5), int(display.edges[-1] + 0.5))
    assert np.array_equal(display.edges, np.append(K - 0.5, K[-1] + 0.5))
    assert display.data == pytest.approx([np.mean(X.sum(axis=1) == k) for k in K])
    drawn = sample(est.model_, 100_000, random_state=3).sum(axis=1)
    assert display.model == pytest.approx([np.mean(drawn == k) for k in K], abs=0.03)
    assert "K" in display.axes_[0].get_xlabel()
    other = plots.TotalDisplay.from_estimator(est, X, values="standard")
    assert "S" in other.axes_[0].get_xlabel()
    assert len(other.edges) != len(display.edges)


def test_total_counts_only_zeros_and_ones(est, frame):
    with pytest.raises(ValueError, match='values="count" takes variables that are all 0/1'):
        plots.TotalDisplay.from_estimator(est, frame, values="count")
    with pytest.raises(ValueError, match="values='sum' is not known"):
        plots.TotalDisplay.from_estimator(est, frame, values="sum")


def test_total_that_cannot_be_drawn_says_so():
    X = np.random.default_rng(0).uniform(size=(200, 2))
    with pytest.raises(ValueError, match="on an interval"):
        plots.TotalDisplay.from_estimator(HBM(order=2, alphabet=Interval(0, 1)).fit(X), X)
    with pytest.raises(ValueError, match="give b \\+ 1 edges"):
        plots.TotalDisplay([0, 1], [0.5, 0.5], [0.5, 0.5], 10)


# ---------------------------------------------------------------------- path, chains


def test_path_is_that_of_the_result(est):
    result = infer(MODEL, "dc")
    display = plots.PathDisplay.from_predictions(result)
    for ax, column in zip(display.axes_, (1, 2)):
        assert np.array_equal(ax.lines[0].get_xdata(), result.path[:, 0])
        assert np.array_equal(ax.lines[0].get_ydata(), result.path[:, column])
    assert display.axes_[1].get_xlabel()
    assert "nats" in display.axes_[0].get_ylabel()
    assert plots.PathDisplay.from_estimator(est).path[-1, 0] == pytest.approx(1.0)
    with pytest.raises(ValueError, match="has no path"):
        plots.PathDisplay.from_predictions(infer(MODEL, "exact"))
    with pytest.raises(ValueError, match="expected \\(points, 3\\)"):
        plots.PathDisplay(np.zeros((4, 2)))


def test_chains_show_energies_and_r_hat(est):
    X = sample(MODEL, 4 * 200, random_state=5, n_chains=4, thin=2)
    display = plots.ChainsDisplay.from_predictions(X, MODEL, n_chains=4, feature_names=NAMES)
    for c in range(4):
        assert np.array_equal(display.axes_[0].lines[c].get_ydata(), MODEL.energy(X)[c::4])
    assert labelled(*display.axes_)
    assert "nats" in display.axes_[0].get_ylabel()
    assert display.r_hat.shape == (6,)
    assert (display.r_hat < 1.1).all()
    from_estimator = plots.ChainsDisplay.from_estimator(est, n_draws=50)
    assert from_estimator.energies.shape == (50, 8)
    with pytest.raises(ValueError, match="at least 4"):
        plots.ChainsDisplay.from_predictions(X[:8], MODEL, n_chains=4)


def test_chains_of_labels():
    X = sample(MIXED, 4 * 100, random_state=5, n_chains=4, thin=2)
    display = plots.ChainsDisplay.from_predictions(X, MIXED, n_chains=4, feature_names=MIXED_NAMES)
    assert np.array_equal(display.energies, MIXED.energy(X).reshape(100, 4))
    columns = MIXED.space.columns(MIXED.space.encode(X)).reshape(100, 4, -1)
    each = split_r_hat(columns)
    assert display.r_hat == pytest.approx([max(each[:2]), max(each[2:5]), each[5], each[6], max(each[7:])])
    display.figure_.canvas.draw()
    assert plots.PathDisplay.from_model(MIXED).path[-1, 0] == pytest.approx(1.0)


def test_chains_that_disagree_are_marked():
    """Negative control: two chains stuck on either side."""
    stuck = BoltzmannMachine([0.0] * 6, {(i, j): 1.5 for i in range(6) for j in range(i)})
    start = np.array([[1] * 6, [-1] * 6])
    X = sample(stuck, 2 * 50, random_state=0, n_chains=2, burn_in=0, thin=1, initial=start)
    display = plots.ChainsDisplay.from_predictions(X, stuck, n_chains=2)
    assert (display.r_hat > 1.5).all()
    labels = [text.get_text() for text in display.axes_[1].get_legend().get_texts()]
    assert "disagree" in labels


# ---------------------------------------------------------------------- ordinary names

SURVEY_NAMES = [
    "satisfied_with_life",
    "trust_in_government",
    "household_income",
    "has_children_at_home",
    "religious_attendance",
    "region of residence",
]


def test_ordinary_names_are_whole_in_every_picture():
    matrix = plots.CouplingMatrixDisplay.from_model(MODEL, feature_names=SURVEY_NAMES)
    assert [tick.get_text() for tick in matrix.ax_.get_xticklabels()] == SURVEY_NAMES
    graph = plots.HypergraphDisplay.from_model(MODEL, feature_names=SURVEY_NAMES)
    drawn = [text.get_text() for text in graph.ax_.texts]
    assert [text.replace("\n", "").replace(" ", "") for text in drawn] == [n.replace(" ", "") for n in SURVEY_NAMES]
    assert max(len(line) for text in drawn for line in text.split("\n")) <= 12
    terms = Interactions.upto(3, 6)
    z = np.linspace(9.0, 3.0, len(terms))
    display = plots.VolcanoDisplay(terms, 0.05 * z, z, np.zeros(len(terms)), feature_names=SURVEY_NAMES).plot()
    display.figure_.canvas.draw()
    (key,) = [text for text in display.ax_.texts if "\n" in text.get_text()]
    whole = " ".join(key.get_text().split())
    assert "1 satisfied_with_life · trust_in_government 2 satisfied_with_life · household_income" in whole
    beside = [text.get_text() for text in display.ax_.texts if text is not key]
    assert beside == [str(number) for number in range(1, 9)]
    box, axes = key.get_window_extent(), display.ax_.get_window_extent()
    assert axes.x1 < box.x0
    assert box.x1 <= display.figure_.bbox.x1  # nothing is cut at the edge
    assert box.y0 >= 0
    assert axes.width > 250


def test_lines_in_the_legend_show_their_dashes(mixed):
    legend = plots.HypergraphDisplay.from_estimator(mixed).ax_.get_legend()
    for line in legend.get_lines():
        pattern = line._unscaled_dash_pattern[1] or (0.0,)
        assert legend.handlelength * legend._fontsize > sum(pattern) * line.get_linewidth()


# ---------------------------------------------------------------------- planning and missing cells


def test_power_lines_are_those_of_the_plan():
    model = BoltzmannMachine([0.1, 0, 0, 0], {(0, 1): 0.3, (0, 3): 0.0, (2, 3): -0.2, (0, 1, 2): 0.2})
    plan = assessment.plan(model, power=0.9, feature_names=["a$", "b", "c", "d"])
    display = plots.PowerDisplay.from_plan(plan)
    curves, needed = display.axes_
    lines = [line for line in curves.get_lines() if len(line.get_xdata()) > 2]
    assert len(lines) == 4
    for line, mine in zip(lines, plan.power_at(display.grid)):
        assert np.array_equal(line.get_ydata(), mine)
    known = np.flatnonzero(np.isfinite(plan.n_rows))
    assert display.shown_.tolist() == known[np.argsort(plan.n_rows[known])].tolist()
    points = {(round(x), round(y)) for group in needed.collections for x, y in group.get_offsets()}
    assert points == {(round(plan.n_rows[r]), at) for at, r in enumerate(display.shown_)}
    assert "a$·b" in [tick.get_text() for tick in needed.get_yticklabels()]
    assert "more than 10⁹ for 1" in needed.get_xlabel()
    assert labelled(curves, needed)
    few = display.plot(n_labels=2)
    assert few.shown_.tolist() == [display.shown_[0], display.shown_[-1]]
    assert "2 of 3" in few.axes_[1].get_title()
    with pytest.raises(ValueError, match="powers has shape"):
        plots.PowerDisplay(plan.terms, [1, 2], plan.powers, plan.n_rows)


def missing_frame():
    frame = pd.DataFrame({"a": [1.0, np.nan, np.nan, 2.0], "b": ["x", None, "y", "y"], "c": [1, 2, 3, 4]})
    return pd.concat([frame] * 3, ignore_index=True)


@pytest.mark.parametrize("kind", ["frame", "objects", "polars"])
def test_missing_cells_by_column_and_pattern(kind):
    X = missing_frame()
    if kind == "objects":
        X = X.astype(object).to_numpy()
    if kind == "polars":
        X = pytest.importorskip("polars").from_pandas(X)
    display = plots.MissingDisplay.from_data(X)
    assert display.shares == pytest.approx([0.5, 0.25, 0.0])
    assert display.complete == 0.5
    assert sorted(map(tuple, display.patterns.tolist())) == [(True, False, False), (True, True, False)]
    assert display.pattern_shares == pytest.approx([0.25, 0.25])
    bars, patterns = display.axes_
    assert [bar.get_width() for bar in bars.patches] == pytest.approx([50, 25])
    names = [tick.get_text() for tick in bars.get_yticklabels()]
    assert names == (["x0", "x1"] if kind == "objects" else ["a", "b"])
    filled = {tuple(each) for each in patterns.collections[1].get_offsets().tolist()}
    shown = display.patterns[:, display.columns_]
    assert filled == {(float(p), float(c)) for p, c in zip(*np.nonzero(shown))}
    assert "50 are complete" in patterns.get_xlabel()
    assert labelled(bars, patterns)


def test_missing_nothing_and_too_much():
    full = plots.MissingDisplay.from_data(np.ones((4, 2)))
    assert full.complete == 1.0
    assert full.axes_[0].get_title() == "Nothing is missing"
    X = np.random.default_rng(0).random((300, 40))
    X[X < 0.1] = np.nan
    display = plots.MissingDisplay.from_data(X).plot(n_columns=5, n_patterns=3)
    assert len(display.columns_) == 5
    assert display.columns_.tolist() == np.argsort(-np.isnan(X).mean(axis=0), kind="stable")[:5].tolist()
    assert "5 of 40" in display.axes_[0].get_title()
    with pytest.raises(ValueError, match="X is a list: give one table in memory"):
        plots.MissingDisplay.from_data([X, X])
    with pytest.raises(ValueError, match="missing has shape"):
        plots.MissingDisplay(np.zeros(3))
