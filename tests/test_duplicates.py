"""Columns that repeat others, and ℓ1 fits: no finite maximum is said, what is innocent keeps its errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from hbm_learn import HBM, datasets, sample
from hbm_learn.optimise import newton_cg

MODEL = datasets.make_planted(5, {2: 4}, (0.2, 0.4), random_state=12)
X = sample(MODEL, 2000, method="exact", random_state=13)
SIGNS = np.array([1, -1, 1, 1, -1])


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood", "screening"])
def test_a_column_twice_has_no_finite_maximum_and_harms_no_other(refine, order, sign):
    twice = np.column_stack([X, sign * X[:, 0]])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        est = HBM(order=order, alpha=0.0, refine=refine).fit(twice)
    said = [str(each.message) for each in caught if issubclass(each.category, ConvergenceWarning)]
    assert not est.converged_
    assert len(said) == 1
    assert "no finite maximum" in said[0]
    assert "alpha > 0" in said[0]
    assert not [each for each in caught if issubclass(each.category, RuntimeWarning)]
    assert np.isfinite(est.standard_errors_).all()
    alone = HBM(order=order, alpha=0.0, refine=refine).fit(X)
    right = dict(zip(alone.interactions_, zip(alone.weights_, alone.standard_errors_)))
    for mu, weight, error in zip(est.interactions_, est.weights_, est.standard_errors_):
        if 0 not in mu and 5 not in mu:
            assert error == pytest.approx(right[mu][1], rel=0.15)
            assert abs(weight - right[mu][0]) < 3 * error
        if mu == (0, 5):
            assert error > 1, "what the data leave open has an error to match"


@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood"])
def test_a_prior_keeps_a_column_that_is_there_twice_finite(refine):
    twice = np.column_stack([X, X[:, 0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        est = HBM(order=2, alpha=1.0, refine=refine).fit(twice)
    assert est.converged_
    assert np.abs(est.weights_).max() < 10


class Ramp:
    """x + y²: falls without end along x, where it does not bend."""

    noise = 1e-15

    def value_gradient(self, theta):
        return float(theta[0] + theta[1] ** 2), np.array([1.0, 2 * theta[1]])

    def curvature(self, theta):
        return self

    def sharpen(self):
        return False

    exact, diagonal = True, np.array([0.0, 2.0])

    def product(self, v):
        return self.diagonal * v

    def precondition(self, r):
        return r / np.array([1e-12, 2.0])


def test_a_function_without_curvature_or_end_has_not_converged():
    found = newton_cg.minimise(Ramp(), np.zeros(2), lambda decrement, step: decrement < 1e-8)
    assert not found.converged
    assert found.status == newton_cg.UNBENT
    assert found.step[0] < 0


# ---------------------------------------------------------------------- ℓ1


@pytest.mark.parametrize("alpha", [10.0, "auto"])
@pytest.mark.parametrize("refine", ["likelihood", "pseudolikelihood", "screening"])
def test_a_flipped_column_flips_weights_and_keeps_errors(refine, alpha):
    parameters = {"order": 3, "alpha": alpha, "l1_ratio": 1.0, "refine": refine}
    first, second = HBM(**parameters).fit(X), HBM(**parameters).fit(SIGNS * X)
    signs = np.array([np.prod(SIGNS[list(mu)]) for mu in first.interactions_])
    np.testing.assert_allclose(second.weights_, signs * first.weights_, rtol=0, atol=1e-9)
    np.testing.assert_allclose(second.standard_errors_, first.standard_errors_, rtol=0, atol=1e-9)
    assert np.isfinite(first.standard_errors_).all()
    assert (first.weights_ == 0).any()


@pytest.mark.parametrize("refine", ["pseudolikelihood", "screening"])
def test_tol_is_used_with_l1_too(refine):
    rough, fine = (HBM(order=2, alpha=30.0, l1_ratio=1.0, refine=refine, tol=tol).fit(X) for tol in (0.3, None))
    assert rough.converged_
    assert fine.converged_
    assert fine.result_.residual < 1e-6
    assert rough.n_iter_ < fine.n_iter_
    assert 1e-6 < rough.result_.residual <= 0.3
