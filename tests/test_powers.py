"""Terms in x² and x³: planted, found, and the same under a change of coding."""

from __future__ import annotations

import numpy as np
import pytest

from hbm_learn import HBM, BoltzmannMachine, infer, sample


@pytest.fixture(scope="module")
def quadratic() -> BoltzmannMachine:
    """Spin-1 variables with x x, x² x and x² x² terms: Blume–Emery–Griffiths with a twist."""
    couplings = {(0, 1): 0.5, (1, 1, 2): 0.6, (0, 0, 3, 3): -0.8, (2, 3): -0.3}
    return BoltzmannMachine([0.1, 0.0, -0.2, 0.1], couplings, 0.3, (-1, 0, 1))


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
def test_planted_powers_are_recovered(quadratic, refine):
    X = sample(quadratic, 40_000, method="exact", random_state=0)
    est = HBM(order=2, powers=2, refine=refine, alpha=0.0).fit(X)
    truth = quadratic.couplings()
    true = np.array([truth.get(mu, 0.0) for mu in est.interactions_])
    assert set(truth) <= set(est.interactions_)
    z = (est.weights_ - true) / est.standard_errors_
    assert np.sqrt(np.mean(z**2)) < 1.5
    assert np.abs(z).max() < 4.0


def test_powers_are_selected(quadratic):
    X = sample(quadratic, 40_000, method="exact", random_state=0)
    est = HBM(order=2, powers=2, fdr=0.05).fit(X)
    frame = est.to_frame()
    selected = set(frame.loc[frame["selected"], "interaction"])
    # Effects are those of centred functions; lower powers beside x² x² and x² x may be there at the means.
    assert {(1, 1, 2), (0, 0, 3, 3)} <= selected
    plain = HBM(order=2, fdr=0.05).fit(X)
    assert est.log_likelihood(X) > plain.log_likelihood(X) + 0.01  # x alone does not tell it


def test_named_terms_bring_their_powers(quadratic):
    X = sample(quadratic, 20_000, method="exact", random_state=1)
    est = HBM(interactions=[(0, 1), (1, 1, 2), (0, 0, 3, 3), (2, 3)], alpha=0.0).fit(X)
    assert est.interactions_ == [(0, 1), (0, 0, 3, 3), (1, 1, 2), (2, 3)]
    true = np.array([quadratic.couplings()[mu] for mu in est.interactions_])
    assert np.abs((est.weights_ - true) / est.standard_errors_).max() < 4.0


@pytest.mark.parametrize("refine", [None, "likelihood", "pseudolikelihood"])
@pytest.mark.filterwarnings("ignore:The bias of the closed form")
def test_a_change_of_coding_changes_nothing(quadratic, refine):
    X = sample(quadratic, 3000, method="exact", random_state=2)
    here = HBM(order=2, powers=2, refine=refine, tol=None if refine != "pseudolikelihood" else 1e-8).fit(X)
    there = HBM(order=2, powers=2, refine=refine, tol=None if refine != "pseudolikelihood" else 1e-8).fit(10 * X + 3)
    np.testing.assert_allclose(there.effects_, here.effects_, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(there.tests_.z, here.tests_.z, rtol=1e-5, atol=1e-5)
    a, b = infer(here.model_, "exact"), infer(there.model_, "exact")
    for p, q in zip(a.probabilities, b.probabilities):
        np.testing.assert_allclose(p, q, atol=1e-7)


def test_cubes():
    truth = BoltzmannMachine([0.0, 0.0, 0.0], {(0, 0, 0, 1): 0.15, (1, 2): 0.4}, 0.2, (-2, -1, 1, 2))
    X = sample(truth, 50_000, method="exact", random_state=0)
    est = HBM(order=2, powers=3, alpha=0.0).fit(X)
    true = np.array([truth.couplings().get(mu, 0.0) for mu in est.interactions_])
    z = (est.weights_ - true) / est.standard_errors_
    assert np.abs(z).max() < 4.0


def test_bad_powers_are_named():
    X = np.random.default_rng(0).integers(0, 3, (100, 3))
    with pytest.raises(ValueError, match="powers=0"):
        HBM(powers=0).fit(X)
    with pytest.raises(ValueError, match="power 3 of variable 1"):
        HBM(interactions=[(0, 1, 1, 1)]).fit(X)
