"""Differential tests: the same numbers by another program, another algorithm, another container or another file.

Beside these, kernels have their NumPy twins in test_moments, test_mixed_moments, test_pseudolikelihood,
test_screening, test_score_tests, test_sampling_kernels and test_block_dc; test_loglinear holds tables of labels to
statsmodels, and test_version_0_1 results to those of an earlier version.
"""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import statsmodels.api as sm
from scipy import optimize, stats
from scipy.special import logsumexp
from sklearn.covariance import EmpiricalCovariance, GraphicalLasso
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from statsmodels.stats.multitest import multipletests

from hbm_learn import HBM, Alphabet, BoltzmannMachine, Moments, Nominal, datasets, infer, invert, sample
from hbm_learn.cli import main
from hbm_learn.inversion.likelihood import fit as likelihood_fit

TRUTH = datasets.make_planted(5, {2: 5, 3: 2}, (0.2, 0.4), random_state=101)
X = sample(TRUTH, 1500, method="exact", random_state=102)
STATES = np.array(list(itertools.product([-1, 1], repeat=5)))


def products(rows, sets):
    return np.column_stack([np.prod(rows[:, list(mu)], axis=1) for mu in sets])


def subsets(n, order):
    return [mu for k in range(1, order + 1) for mu in itertools.combinations(range(n), k)]


def counts(rows, states=STATES, weights=None):
    place = {tuple(s): i for i, s in enumerate(states.tolist())}
    index = [place[tuple(row)] for row in rows.tolist()]
    return np.bincount(index, weights, minlength=len(states))


# ---------------------------------------------------------------------- statsmodels


def loglinear(y, sets, states=STATES):
    """Poisson regression of the counts of all states: the same likelihood."""
    design = np.column_stack([np.ones(len(states)), products(states, sets)])
    return sm.GLM(y, design, family=sm.families.Poisson()).fit(tol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_likelihood_is_the_loglinear_model_of_statsmodels(order):
    sets = subsets(5, order)
    other = loglinear(counts(X), sets)
    est = HBM(order=order, alpha=0.0, refine="likelihood").fit(X)
    where = [1 + sets.index(mu) for mu in est.interactions_]
    np.testing.assert_allclose(est.weights_, other.params[where], atol=1e-7)
    np.testing.assert_allclose(est.standard_errors_, other.bse[where], rtol=1e-5)
    np.testing.assert_allclose(est.h_, other.params[1:6], atol=1e-7)


def test_weights_are_the_counts_of_statsmodels():
    w = np.random.default_rng(103).integers(0, 4, len(X)).astype(float)
    sets = subsets(5, 2)
    other = loglinear(counts(X, weights=w), sets)
    est = HBM(order=2, alpha=0.0, refine="likelihood").fit(X, sample_weight=w)
    np.testing.assert_allclose(est.weights_, other.params[6:], atol=1e-7)
    np.testing.assert_allclose(est.standard_errors_, other.bse[6:], rtol=1e-5)


def test_ratings_are_linear_by_linear_associations():
    """Three ordered values: free weights of each value, and x y as the interaction."""
    model = BoltzmannMachine([0.1, -0.2, 0.0], {(0, 1): 0.3, (1, 2): -0.4}, 0.2, (1, 2, 3))
    rows = sample(model, 2000, method="exact", random_state=104)
    states = np.array(list(itertools.product([1, 2, 3], repeat=3)))
    pairs = [(0, 1), (0, 2), (1, 2)]
    own = np.column_stack([(states == v)[:, i] for i in range(3) for v in (2, 3)]).astype(float)
    design = np.column_stack([np.ones(27), own, products(states, pairs)])
    other = sm.GLM(counts(rows, states), design, family=sm.families.Poisson()).fit(tol=1e-12)
    est = HBM(order=2, alpha=0.0, refine="likelihood").fit(rows)
    np.testing.assert_allclose(est.weights_, other.params[-3:], atol=1e-7)
    np.testing.assert_allclose(est.standard_errors_, other.bse[-3:], rtol=1e-5)


# With all interactions among the others, what one variable does is a logistic regression on them.
LOGIT = [mu for mu in subsets(4, 3) if len(mu) > 1 and (0 not in mu or len(mu) == 2)]


def test_a_regression_inside_a_model_is_the_logit_of_statsmodels():
    rows = X[:, :4]
    est = HBM(order=3, interactions=LOGIT, alpha=0.0, refine="likelihood").fit(rows)
    other = sm.Logit(rows[:, 0] > 0, sm.add_constant(rows[:, 1:])).fit(disp=0, tol=1e-12)
    mine = [est.interactions_.index((0, j)) for j in (1, 2, 3)]
    np.testing.assert_allclose(2 * est.weights_[mine], other.params[1:], atol=1e-6)
    np.testing.assert_allclose(2 * est.standard_errors_[mine], other.bse[1:], rtol=1e-4)


def test_q_values_are_those_of_statsmodels():
    tests = HBM(order=3).fit(X).tests_
    for k in (2, 3):
        where = tests.terms.order == k
        other = multipletests(tests.p_values[where], method="fdr_bh")[1]
        np.testing.assert_allclose(tests.q_values[where], other, rtol=1e-9)


# ---------------------------------------------------------------------- scikit-learn


def test_a_regression_inside_a_model_is_that_of_scikit_learn():
    rows = X[:, :4]
    est = HBM(order=3, interactions=LOGIT, alpha=0.0, refine="likelihood").fit(rows)
    other = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(rows[:, 1:], rows[:, 0])
    np.testing.assert_allclose(est.predict_proba(rows)[:, 0], other.predict_proba(rows[:, 1:]), atol=1e-5)


def test_a_saturated_model_is_the_table_of_frequencies():
    rows = X[:, :3]
    est = HBM(order=3, alpha=0.0, refine="likelihood").fit(rows)
    frame = pd.DataFrame(rows, columns=list("abc"))
    shares = frame.groupby(["b", "c"])["a"].transform(lambda a: (a > 0).mean()).to_numpy()
    np.testing.assert_allclose(est.predict_proba(rows)[:, 0, 1], shares, atol=1e-7)
    states = np.array(list(itertools.product([-1, 1], repeat=3)))
    entropy = stats.entropy(counts(rows, states))
    assert est.log_likelihood(rows) == pytest.approx(-entropy, abs=1e-9)


def test_the_score_is_the_log_loss_of_every_column():
    est = HBM(order=2).fit(X)
    probabilities = est.predict_proba(X)
    losses = [log_loss(X[:, i], probabilities[:, i]) for i in range(5)]
    assert est.score(X) == pytest.approx(-sum(losses), abs=1e-9)


GAUSSIAN = np.random.default_rng(105).multivariate_normal(
    np.zeros(4), np.linalg.inv(np.eye(4) * 1.5 + 0.3 * np.ones((4, 4))), 800
)


def test_the_real_line_is_the_precision_of_scikit_learn():
    est = HBM(order=2, alphabet="real", alpha=0.0).fit(GAUSSIAN)
    precision = EmpiricalCovariance().fit(GAUSSIAN).precision_
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(est.J_[off], -precision[off], rtol=1e-8)
    np.testing.assert_allclose(est.d_, np.diag(precision), rtol=1e-8)


def test_the_real_line_is_the_graphical_lasso_without_its_penalty():
    est = HBM(order=2, alphabet="real", alpha=0.0).fit(GAUSSIAN)
    other = GraphicalLasso(alpha=1e-7, tol=1e-8, max_iter=500).fit(GAUSSIAN).precision_
    off = ~np.eye(4, dtype=bool)
    np.testing.assert_allclose(est.J_[off], -other[off], atol=1e-4)


# ---------------------------------------------------------------------- another algorithm


@pytest.mark.parametrize("alpha", [0.0, 20.0])
def test_likelihood_is_what_a_plain_optimiser_finds(alpha):
    sets = subsets(5, 3)
    T, t = products(STATES, sets), products(X, sets).mean(axis=0)
    ridge = np.array([alpha * (len(mu) > 1) / len(X) for mu in sets])

    def loss(theta):
        energies = T @ theta
        p = np.exp(energies - logsumexp(energies))
        return logsumexp(energies) - theta @ t + 0.5 * ridge @ theta**2, p @ T - t + ridge * theta

    found = optimize.minimize(loss, np.zeros(len(sets)), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    est = HBM(order=3, alpha=alpha, refine="likelihood").fit(X)
    np.testing.assert_allclose(est.weights_, found[5:], atol=1e-6)


def test_pseudolikelihood_is_what_a_plain_optimiser_finds():
    sets = subsets(5, 2)

    def loss(theta):
        total, gradient = 0.0, np.zeros(len(sets))
        for i in range(5):
            D = np.column_stack(
                [np.prod(X[:, [j for j in mu if j != i]], axis=1) if i in mu else np.zeros(len(X)) for mu in sets]
            )
            margin = 2 * X[:, i] * (D @ theta)
            total += np.logaddexp(0, -margin).mean()
            gradient -= (2 * X[:, i] / (1 + np.exp(margin))) @ D / len(X)
        return total, gradient

    found = optimize.minimize(loss, np.zeros(len(sets)), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    est = HBM(order=2, alpha=0.0, refine="pseudolikelihood", tol=1e-10).fit(X)
    np.testing.assert_allclose(est.weights_, found[5:], atol=1e-5)


def test_products_with_the_fisher_matrix_replace_it(monkeypatch):
    dense = HBM(order=3, alpha=5.0, refine="likelihood").fit(X)
    monkeypatch.setattr(likelihood_fit, "MAX_DENSE_FISHER", 0)
    with pytest.warns(UserWarning, match="too many for the Fisher matrix"):
        free = HBM(order=3, alpha=5.0, refine="likelihood").fit(X)
    np.testing.assert_allclose(free.weights_, dense.weights_, atol=1e-7)


def test_chains_find_the_likelihood_that_listing_finds(monkeypatch):
    listed = HBM(order=2, alpha=1.0, refine="likelihood").fit(X)
    monkeypatch.setattr(likelihood_fit, "MAX_STATES", 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chains = HBM(order=2, alpha=1.0, refine="likelihood", random_state=106).fit(X)
    assert np.abs((chains.weights_ - listed.weights_) / listed.standard_errors_).max() < 0.7


def test_ln_z_and_means_by_plain_enumeration():
    energies = np.array([TRUTH.energy(state[None])[0] for state in STATES])
    plain = [
        -sum(J * np.prod(s[list(mu)]) for mu, J in zip(TRUTH.interactions, TRUTH.weights)) - TRUTH.h @ s for s in STATES
    ]
    np.testing.assert_allclose(energies, plain, atol=1e-12)
    result = infer(TRUTH, "exact")
    assert result.log_partition == pytest.approx(logsumexp(-energies), abs=1e-12)
    np.testing.assert_allclose(result.m, np.exp(-energies - logsumexp(-energies)) @ STATES, atol=1e-12)


@pytest.mark.parametrize("method", ["bethe", "bethe2"])
def test_trees_are_exact_by_bethe(method):
    tree = BoltzmannMachine([0.1, -0.3, 0.2, 0.0, 0.4], {(0, 1): 0.8, (1, 2): -0.6, (1, 3): 0.5, (3, 4): 1.1})
    exact, other = infer(tree, "exact"), infer(tree, method)
    np.testing.assert_allclose(other.m, exact.m, atol=1e-6)
    assert other.log_partition == pytest.approx(exact.log_partition, abs=1e-6)


@pytest.mark.parametrize("method", ["dc", "dc2", "tap", "adaptive-tap", "bethe", "auto"])
def test_weak_couplings_are_near_exact_by_every_method(method):
    weak = datasets.make_sk(6, 0.1, h_std=0.2, random_state=107)
    np.testing.assert_allclose(infer(weak, method).m, infer(weak, "exact").m, atol=2e-4)


@pytest.mark.parametrize("method", ["gibbs", "tempering"])
def test_chains_draw_what_listing_draws(method):
    exact, rows = infer(TRUTH, "exact"), sample(TRUTH, 20_000, method=method, random_state=108, thin=5)
    error = np.sqrt((1 - exact.m**2) / 20_000)
    assert np.abs((rows.mean(axis=0) - exact.m) / error).max() < 5
    shares, model = counts(rows) / len(rows), np.exp(-TRUTH.energy(STATES) - exact.log_partition)
    assert np.abs((shares - model) / np.sqrt(model / len(rows))).max() < 6


def test_annealed_and_listed_ln_z():
    est = HBM(order=3, random_state=109).fit(X)
    listed, (annealed, error) = est.log_likelihood(X), est.log_likelihood(X, "ais", return_error=True)
    assert abs(annealed - listed) < 5 * error + 1e-3


def test_the_closed_form_of_exact_moments_of_weak_couplings_is_the_model():
    weak = datasets.make_sk(6, 0.05, h_std=0.2, random_state=110)
    states = np.array(list(itertools.product([-1, 1], repeat=6)))
    p = np.exp(-weak.energy(states) - infer(weak, "exact").log_partition)
    moments = Moments.from_samples(states, order=2, sample_weight=1e9 * p)
    np.testing.assert_allclose(invert(moments, alpha=0.0).model.weights, weak.weights, atol=2e-4)


# ---------------------------------------------------------------------- our sums and plain ones


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("values", [(-1, 1), (0, 1, 2), (0, 0.5, 3)], ids=str)
def test_moments_are_plain_means_of_products(values, weighted):
    rng = np.random.default_rng(111)
    rows, w = rng.choice(values, (300, 4)), rng.random(300) if weighted else np.ones(300)
    moments = Moments.from_samples(rows, order=4, sample_weight=w if weighted else None)
    for k in (2, 3, 4):
        for mu in itertools.combinations(range(4), k):
            plain = np.average(np.prod(rows[:, mu], axis=1), weights=w)
            assert moments.moments(np.array([mu]))[0] == pytest.approx(plain, abs=1e-9)


# ---------------------------------------------------------------------- containers and types

FRAME = pd.DataFrame(X, columns=list("abcde"))
CONTAINERS = {
    "float32": lambda: X.astype(np.float32),
    "float16": lambda: X.astype(np.float16),
    "int8": lambda: X.astype(np.int8),
    "Fortran": lambda: np.asfortranarray(X),
    "objects": lambda: X.astype(object),
    "lists": lambda: X.tolist(),
    "dask": lambda: da.from_array(X, chunks=(400, 5)),
    "blocks": lambda: [X[:700], X[700:]],
    "sparse": lambda: scipy.sparse.csr_matrix(X),
    "pandas": lambda: FRAME,
    "polars": lambda: pl.DataFrame({name: FRAME[name].to_numpy() for name in FRAME}),
    "strided": lambda: np.repeat(X, 2, axis=0)[::2],
    "masked": lambda: np.ma.masked_array(X),
}


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
@pytest.mark.parametrize("name", CONTAINERS)
def test_containers_and_types_give_the_same_numbers(name, refine):
    plain = HBM(order=2, refine=refine, alpha=1.0).fit(X)
    other = HBM(order=2, refine=refine, alpha=1.0).fit(CONTAINERS[name]())
    np.testing.assert_array_equal(other.weights_, plain.weights_)
    np.testing.assert_array_equal(other.standard_errors_, plain.standard_errors_)


def test_memory_maps_give_the_same_numbers(tmp_path):
    np.save(tmp_path / "X.npy", X)
    other = HBM(order=2).fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    np.testing.assert_array_equal(other.weights_, HBM(order=2).fit(X).weights_)


def test_partial_fits_and_threads_give_the_same_numbers():
    plain = HBM(order=2, refine="likelihood", n_jobs=1).fit(X)
    parts = HBM(order=2, refine="likelihood", n_jobs=2).partial_fit(X[:500]).partial_fit(X[500:])
    np.testing.assert_allclose(parts.weights_, plain.weights_, atol=1e-12)


# ---------------------------------------------------------------------- files


def test_old_and_new_files_hold_the_same_model(tmp_path):
    old = BoltzmannMachine.load(Path(__file__).parent / "data" / "model_v1.npz")
    old.save(tmp_path / "new.npz")
    new = BoltzmannMachine.load(tmp_path / "new.npz")
    assert new == old
    states = sample(old, 50, random_state=112)
    np.testing.assert_array_equal(new.energy(states), old.energy(states))


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "npy", "npz", "csv.gz"])
def test_the_command_and_python_fit_the_same_model(suffix, tmp_path):
    path = tmp_path / f"data.{suffix}"
    if suffix in ("npy", "npz"):
        np.save(path, X) if suffix == "npy" else np.savez(path, X=X)
    elif suffix == "parquet":
        FRAME.to_parquet(path)
    else:
        FRAME.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    assert main(["fit", str(path), "--order", "2", "--seed", "0", "-o", str(tmp_path / "model.npz")]) == 0
    assert BoltzmannMachine.load(tmp_path / "model.npz") == HBM(order=2, random_state=0).fit(X).model_


def test_labels_and_spins_give_the_same_conditionals():
    words = np.where(X > 0, "yes", "no").astype(object)
    spins, labels = HBM(order=2).fit(X), HBM(order=2).fit(words)
    assert labels.model_.space.alphabets[0] == Alphabet(Nominal("no", "yes"))
    np.testing.assert_allclose(labels.predict_proba(words), spins.predict_proba(X), atol=1e-6)
