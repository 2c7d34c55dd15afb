"""Corners that other tests pass by: what is rare in a fit, a file or a table, against the plainest way to say it."""

from __future__ import annotations

import re
import zipfile
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

from hbm_learn import HBM, BoltzmannMachine, Nominal, _validation, assessment, datasets, infer, sample
from hbm_learn.assessment.noncentrality import Noncentrality
from hbm_learn.assessment.planning import power_of
from hbm_learn.cli import main, terminal
from hbm_learn.data.tables import complete_rows
from hbm_learn.inference import continuation, jacobian_free
from hbm_learn.inference.damped import iterate
from hbm_learn.inference.dc2_equations import ring_slope
from hbm_learn.io import packed
from hbm_learn.io.archives import Archive
from hbm_learn.model import conditioning
from hbm_learn.optimise import proximal_newton, quasi_newton

X = sample(datasets.make_planted(5, {2: 4}, (0.3, 0.5), random_state=3), 2000, method="exact", random_state=4)
FRAME = pd.DataFrame(X, columns=list("abcde"))


# ---------------------------------------------------------------------- assessment


@pytest.mark.parametrize("df", [2, 3, 6])
def test_the_power_of_a_block_is_that_of_a_noncentral_chi_square(df):
    M, level = np.array([50.0, 200.0, 1000.0]), np.array([[0.05] * 3, [0.001] * 3])
    root = np.array([0.1, 0.2])
    found = Noncentrality(root, np.zeros(2), np.ones(2), np.full(2, df), [None, None])
    expected = stats.ncx2.sf(stats.chi2.isf(level, df), df, np.outer(root**2, M))
    np.testing.assert_allclose(power_of(found, M, level), expected, atol=2e-3)


def test_selection_by_sums_alone_keeps_what_passes_the_refined_tests():
    """Rows that came in parts are gone: the closed form selects, here too much, and the fit until all pass."""
    truth = datasets.make_planted(6, {2: 6}, (0.8, 1.0), random_state=6)
    rows = sample(truth, 4000, method="exact", random_state=6)
    est = HBM(order=3, refine="likelihood", alpha=0.0, fdr=0.01)
    for part in np.array_split(rows, 4):
        est.partial_fit(part)
    assert est.interactions_ == list(truth.interactions)
    with pytest.warns(UserWarning, match="Do not rely on this fit"):
        first = HBM(order=3, refine=None, alpha=0.0, fdr=0.01).partial_fit(rows)
    assert len(first.interactions_) > len(est.interactions_)
    assert (est.to_frame()["q_value"] <= 0.01).all()


def test_a_summary_in_a_notebook_shows_names_and_runs_nothing():
    table = FRAME.rename(columns={"a": "<script>alert(1)</script>"})
    est = HBM(order=2).fit(table)
    shown = est._repr_mimebundle_()
    assert shown["text/plain"] == str(est.summary()) == repr(est.summary())
    assert shown["text/html"] == est.summary()._repr_html_()
    assert "<script" not in shown["text/html"]
    assert "&lt;script&gt;" in shown["text/html"]
    assert shown["text/html"].count("<tr>") >= 1 + len(est.weights_)
    assert "text/plain" in HBM()._repr_mimebundle_()


def test_refits_that_do_not_count_say_why():
    est = HBM(order=2, refine=None, alpha=1.0, random_state=0)
    middle = est.fit(X[:60]).weights_[0] + 1e-9

    def shapes(fit):
        return fit.weights_[: 3 + int(fit.weights_[0] > middle)]

    def endless(fit):
        return np.where(fit.weights_[0] > middle, np.inf, fit.weights_)

    for statistic, why in ((shapes, "has shape (4,) in place of (3,)"), (endless, "is not finite")):
        with pytest.warns(UserWarning, match=f"of 40 refits were left out; most often: the statistic {re.escape(why)}"):
            found = assessment.bootstrap(est, X[:60], statistic, n=40)
        assert 5 < found.n_failed < 35
        assert found.n_failed == sum(found.failures.values())


def test_entropy_is_fresh():
    """What the fixture of all tests puts numbers in place of."""
    drawn = {int(np.random.SeedSequence().entropy) for _ in range(3)}
    assert len(drawn) == 3


def test_memory_that_the_system_does_not_tell_is_taken_to_be_16_gib(monkeypatch):
    assert _validation.memory() > 2**28
    monkeypatch.delattr(_validation.os, "sysconf")
    assert _validation.memory() == 2**34


# ---------------------------------------------------------------------- tables and files


def test_masked_text_is_missing():
    text = np.where(X[:300] > 0, "yes", "no").astype(object)
    mask = np.zeros(text.shape, dtype=bool)
    mask[5, 2] = True
    gone = text.copy()
    gone[5, 2] = None
    masked, holes = (HBM(order=2).fit(table) for table in (np.ma.masked_array(text, mask), gone))
    np.testing.assert_array_equal(masked.weights_, holes.weights_)
    assert not masked.moments_.is_complete


@pytest.mark.parametrize("kind", [pd.DataFrame, np.asarray])
def test_a_table_without_a_complete_row_names_the_empty_column(kind):
    table = X[:50].astype(float)
    table[:, 3] = np.nan
    with pytest.raises(ValueError, match=r"column 3 holds no value at all.*drop it"):
        complete_rows(kind(table), None)
    table[:, 3] = 1.0
    table[np.arange(50), np.arange(50) % 5] = np.nan
    with pytest.raises(ValueError, match="NaN in every row"):
        complete_rows(kind(table), None)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64])
def test_differences_of_unsigned_numbers_do_not_wrap(dtype):
    table = (X[:500] + 1).astype(dtype)
    here, there = (HBM(order=2, alphabet=np.array([0, 2], kind)).fit(table) for kind in (dtype, np.int64))
    assert here.model_ == there.model_
    np.testing.assert_allclose(here.effects_, HBM(order=2).fit(X[:500]).effects_, atol=1e-9)


def test_a_workbook_that_unpacks_to_too_much_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "table.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"0" * 2**22)
    monkeypatch.setattr(packed, "limit", lambda: 2**21)
    with pytest.raises(ValueError, match="unpacked"):
        packed.check(path)
    monkeypatch.setattr(packed, "limit", lambda: 2**22 + 1)
    packed.check(path)
    # the directory may lie: what is there is counted, too
    counted = []
    monkeypatch.setattr(packed, "_refuse", lambda size, most: counted.append(size))
    packed.check(path)
    assert counted == [2**22, 2**22]


def test_an_archive_of_very_many_members_is_refused(tmp_path):
    path = tmp_path / "many.npz"
    with zipfile.ZipFile(path, "w") as archive:
        for k in range(1001):
            archive.writestr(f"{k}.npy", b"")
    with pytest.raises(ValueError, match=r"1,001 members, which no file of arrays does"):
        Archive(path)


def test_letters_that_a_terminal_lacks_are_written_plainly():
    for text, plain in (("χ² ≥ 3 → ∞", 11), ("naïve", 5), ("名", 1)):
        found, end = terminal._plain(UnicodeEncodeError("ascii", text, 0, len(text), "no such letter"))
        assert end == len(text)
        assert found.isascii()
        assert len(found) >= plain


def test_info_says_where_fit_would_stop(tmp_path, capsys):
    pd.DataFrame({"a": [1, 2] * 20, "b": ["x"] * 40}).to_csv(tmp_path / "data.csv", index=False)
    assert main(["info", str(tmp_path / "data.csv")]) == 0
    assert "constant" in capsys.readouterr().out


def test_given_variables_are_named_once():
    with pytest.raises(ValueError, match="given names variable 1 twice: name it once"):
        BoltzmannMachine([0, 0, 0], {}, given=[1, 1])
    model = BoltzmannMachine([0, 0], {(0, 1): 0.5})
    with pytest.raises(ValueError, match="values names every variable: nothing is left"):
        model.condition({0: 1, 1: 1})
    assert conditioning.given_variables(None, 3) is None


# ---------------------------------------------------------------------- inference


@pytest.mark.parametrize("n", [5, 16])
def test_the_ring_has_one_slope_by_both_ways(n):
    """All pairs with each other where these are few; a matrix product for each variable where they are many."""
    rng = np.random.default_rng(7)
    j, k = np.triu_indices(n, 1)
    T = np.where(rng.random((n, len(j))) < 0.9, rng.normal(size=(n, len(j))), 0.0)
    A = rng.normal(size=(n, n))
    chi = A @ A.T
    Y = np.array([[chi[a, c] * chi[b, d] + chi[a, d] * chi[b, c] for c, d in zip(j, k)] for a, b in zip(j, k)])
    np.testing.assert_allclose(ring_slope(sparse.csr_array(T), np.column_stack([j, k]), chi), T @ Y @ T.T)


def test_a_difference_looks_to_the_other_side_of_an_edge():
    def moved(x):
        return None if x[0] > 0 else np.array([3.0 * x[0]])

    point = SimpleNamespace(R=np.zeros(1), moved=moved)
    np.testing.assert_allclose(jacobian_free.difference(point, np.array([2.0, 0.0])), [6.0])
    assert np.isnan(jacobian_free.difference(SimpleNamespace(R=np.zeros(1), moved=lambda x: None), np.ones(2))).all()
    np.testing.assert_array_equal(jacobian_free.difference(point, np.zeros(2)), [0.0])
    assert np.isnan(jacobian_free.difference(point, np.array([np.inf, 0.0]))).all()


def test_an_iteration_that_diverges_gives_back_the_best():
    found = iterate(
        lambda x: (x**2 * 1e200, float(np.abs(x).max())), np.array([3.0]), damping=0.0, max_iter=9, tol=1e-9
    )
    assert "diverged after" in found.status
    assert np.isfinite(found.x).all()
    assert found.x[0] == 3.0


def test_a_path_that_cannot_begin_says_so():
    problem = SimpleNamespace(start=np.zeros(2), weights=np.ones(2), evaluate=lambda z, alpha: None)
    found = continuation.follow(problem)
    assert not found.arrived
    assert "cannot be evaluated at the start" in found.status


def test_a_matrix_that_is_not_positive_is_factored_with_little_on_its_diagonal():
    A = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-10]])
    L, lower = quasi_newton.factor(A)
    step = quasi_newton.linalg.cho_solve((L, lower), np.array([1.0, 1.0]))
    np.testing.assert_allclose(A @ step, [1.0, 1.0], rtol=1e-6)
    hopeless = np.array([[1.0, 5.0], [5.0, 1.0]])
    np.testing.assert_allclose(quasi_newton.linalg.cho_solve(quasi_newton.factor(hopeless), np.ones(2)), [1.0, 1.0])


# ---------------------------------------------------------------------- what some rows say of a Hessian


class OfSomeRows:
    """½ |θ − 1|² whose Hessian is told 10¹² times too small until it is asked for all rows."""

    noise = 0.0

    def __init__(self, can_sharpen):
        self.H, self.can_sharpen = 1e-12, can_sharpen

    def value_gradient(self, theta):
        return 0.5 * float((theta - 1.0) @ (theta - 1.0)), theta - 1.0

    def curvature(self, theta):
        H = self.H
        return SimpleNamespace(diagonal=np.full(2, H), product=lambda v: H * v, precondition=lambda v: v / H)

    def sharpen(self):
        self.H, before = (1.0, self.H) if self.can_sharpen else (self.H, self.H)
        return before != self.H


@pytest.mark.parametrize("can_sharpen", [True, False])
def test_a_step_that_fails_takes_more_rows_or_stops_and_says_so(can_sharpen):
    found = proximal_newton.minimise(OfSomeRows(can_sharpen), np.zeros(2), np.array([0.5, 0.0]), tol=1e-6)
    assert found.converged == can_sharpen
    np.testing.assert_allclose(found.theta, [0.5, 1.0] if can_sharpen else [0.0, 0.0], atol=1e-6)
    assert can_sharpen or found.status == proximal_newton.STALLED


def test_verbose_newton_with_l1_prints_its_steps(capsys):
    HBM(order=2, refine="pseudolikelihood", alpha=5.0, l1_ratio=1.0, verbose=1).fit(X)
    out = capsys.readouterr().out
    assert "KKT residual" in out
    assert "nonzero" in out


def test_labels_and_infer_agree_on_how_many_values_there_are():
    model = BoltzmannMachine([0, 0], {(0, 1): np.diag([0.5, 0.0, -0.5])}, alphabet=Nominal("x", "y", "z"))
    assert model.space.alphabets[0].size == 3
    with pytest.raises(ValueError, match="no finite list of values"):
        _ = model.space.alphabets[0].nodes
    with pytest.raises(ValueError, match="no finite number of values"):
        _ = BoltzmannMachine([0.0], {}, 1.0, alphabet="real").space.alphabets[0].size
    assert infer(model, "exact").probabilities[0] == pytest.approx([1 / 3] * 3, abs=0.1)
