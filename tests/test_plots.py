"""Displays: what is drawn equals the estimator's numbers, axes have labels, and nothing is imported before its time."""

import subprocess
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hbm_learn import HBM, BoltzmannMachine, Interactions, Moments, datasets, infer, plots, sample

mpl.use("Agg")
NAMES = ["rain", "wind", "sun", "frost", "hail", "fog"]
MODEL = BoltzmannMachine([0.1, 0.0, -0.2, 0.1, 0.2, 0.0], {(0, 1): 0.5, (2, 3): -0.4, (0, 1, 2): 0.6, (3, 4, 5): -0.5})


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(sample(MODEL, 2000, method="exact", random_state=1), columns=NAMES)


@pytest.fixture(scope="module")
def est(frame):
    return HBM(order=3).fit(frame)


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


def test_coupling_matrix_shows_J(est):
    display = plots.CouplingMatrixDisplay.from_estimator(est)
    shown = display.image_.get_array()
    off = ~np.eye(6, dtype=bool)
    assert np.array_equal(shown.data[off], est.J_[off])
    assert shown.mask.diagonal().all()
    assert display.image_.get_clim() == (-np.abs(est.J_).max(), np.abs(est.J_).max())  # white is zero
    assert [tick.get_text() for tick in display.ax_.get_xticklabels()] == NAMES
    assert labelled(display.ax_)
    assert "nats" in display.colorbar_.ax.get_ylabel()


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
    expected = {tuple(NAMES.index(name) for name in mu) for mu in table.loc[table["q_value"] <= 0.01, "interaction"]}
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
    member = np.unique(model.packed.members)
    assert np.isfinite(display.positions_[member]).all()


def test_hypergraph_of_nothing():
    display = plots.HypergraphDisplay([], np.zeros(0), 4).plot()
    assert len(display.shown_) == 0
    crowd = plots.HypergraphDisplay([(0, 1)], np.ones(1), 100).plot()
    assert len(crowd.ax_.texts) == 2


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


def test_many_moments_are_thinned():
    rows = plots.moments._choose(40, 3, np.random.default_rng(0))
    assert rows.shape == (plots.moments.MAX_POINTS, 3)
    rows = plots.moments._choose(400, 3, np.random.default_rng(0))
    assert len(np.unique(rows, axis=0)) == len(rows) <= plots.moments.MAX_POINTS
    assert (np.diff(rows, axis=1) > 0).all()


# ---------------------------------------------------------------------- volcano


def test_volcano_shows_the_tests(est):
    display = plots.VolcanoDisplay.from_estimator(est, level=0.01)
    table = est.to_frame()
    assert np.array_equal(display.weights, table["weight"])
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
    assert len(display.weights) == 15 + 20 > len(chosen.weights_)
    at = display.interactions.positions(chosen.model_.packed)
    assert np.array_equal(display.weights[at], chosen.weights_)
    outside = np.setdiff1d(np.arange(35), at)
    assert (display.q_values[outside] == 1).all()


def test_volcano_survives_overwhelming_evidence():
    interactions = Interactions.from_tuples([(0, 1), (0, 2)], 3)
    display = plots.VolcanoDisplay(interactions, [0.5, -0.1], [60.0, -0.5], [0.0, 0.6]).plot()
    assert display.minus_log_p[0] == pytest.approx(783.6, rel=1e-3)
    nothing = plots.VolcanoDisplay(interactions, [0.5, -0.1], [0.1, -0.5], [0.9, 0.9]).plot()
    assert nothing.thresholds_ == {}


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


def test_chains_that_disagree_are_marked():
    """Negative control: two chains stuck on either side."""
    stuck = BoltzmannMachine([0.0] * 6, {(i, j): 1.5 for i in range(6) for j in range(i)})
    start = np.array([[1] * 6, [-1] * 6])
    X = sample(stuck, 2 * 50, random_state=0, n_chains=2, burn_in=0, thin=1, initial=start)
    display = plots.ChainsDisplay.from_predictions(X, stuck, n_chains=2)
    assert (display.r_hat > 1.5).all()
    labels = [text.get_text() for text in display.axes_[1].get_legend().get_texts()]
    assert "disagree" in labels
