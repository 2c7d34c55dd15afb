"""Off-diagonal consistency: its two equations, how close it is at weak coupling, and its refusal beyond."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import random_model
from sklearn.exceptions import ConvergenceWarning

from hbm_learn import BoltzmannMachine, Nominal
from hbm_learn.inference import infer


def spins(sigma, seed, n=8):
    rng = np.random.default_rng(seed)
    J = np.triu(rng.normal(0, sigma, (n, n)), 1)
    return BoltzmannMachine(rng.normal(0, 0.3, n), J + J.T)


def pair_parameters(mi, mj, c):
    """h_i, h_j, J of two spins alone with these means and covariance."""
    p = {(s, t): 0.25 * (1 + s * mi + t * mj + s * t * (c + mi * mj)) for s in (1, -1) for t in (1, -1)}
    fields = [0.25 * sum(x[k] * np.log(q) for x, q in p.items()) for k in (0, 1)]
    return *fields, 0.25 * sum(s * t * np.log(q) for (s, t), q in p.items())


def test_solution():
    """J = J⁽²⁾ − [χ⁻¹] − χ_ij/(V_iV_j − χ_ij²) for every pair, and the fields."""
    model = spins(0.1, 3)
    result = infer(model, "odc")
    assert result.converged
    m, chi, n = result.m, result.chi, 8
    V = 1 - m**2
    np.testing.assert_allclose(np.diag(chi), V, atol=1e-12)
    inverse = np.linalg.inv(chi)
    left, right = model.h.copy(), -(n - 2) * np.arctanh(m)
    Lambda = np.diag(inverse) + (n - 2) / V
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            det = V[i] * V[j] - chi[i, j] ** 2
            x, _, J = pair_parameters(m[i], m[j], chi[i, j])
            np.testing.assert_allclose(J - inverse[i, j] - chi[i, j] / det, model.J[i, j], atol=1e-9)
            left[i] += (model.J[i, j] - J) * m[j]
            right[i] += x
            Lambda[i] -= V[j] / det
    np.testing.assert_allclose(left, right + Lambda * m, atol=1e-8)


def test_two_spins_are_exact():
    alphabet = [(0, 1), Nominal("no", "yes")]
    model = BoltzmannMachine([0.3, 0.0], {(0, 1): [0.8, -0.6]}, alphabet=alphabet, site=[None, [0.2, -0.3]])
    ours, exact = infer(model, "odc"), infer(model, "exact")
    np.testing.assert_allclose(ours.means, exact.means, atol=1e-10)
    np.testing.assert_allclose(ours.covariances, exact.covariances, atol=1e-10)
    np.testing.assert_allclose(ours.log_partition, exact.log_partition, atol=1e-10)


def test_free_energy_is_stationary():
    """∂ln Z/∂h = m."""
    model, step = spins(0.12, 4), 1e-4
    ups, downs = (
        [infer(BoltzmannMachine(model.h + sign * step * e, model.J), "odc").log_partition for e in np.eye(8)]
        for sign in (1, -1)
    )
    np.testing.assert_allclose((np.array(ups) - np.array(downs)) / (2 * step), infer(model, "odc").m, atol=1e-7)


def test_closer_than_dc_at_weak_coupling():
    errors = {"dc": 0.0, "odc": 0.0}
    for seed in range(5):
        model = spins(0.05, seed + 20)
        exact = infer(model, "exact")
        for method in errors:
            result = infer(model, method)
            errors[method] += float(np.abs(result.m - exact.m).max() + np.abs(result.chi - exact.chi).max())
    assert 20 * errors["odc"] < errors["dc"]


def test_recoded():
    model = spins(0.1, 5)
    np.testing.assert_allclose(infer(model.with_alphabet((0, 1)), "odc").m, (infer(model, "odc").m + 1) / 2, atol=1e-9)


def test_refuses_honestly():
    model = spins(0.8, 6)
    with pytest.warns(ConvergenceWarning, match="found no solution"):
        result = infer(model, "odc", max_evaluations=100)
    assert not result.converged
    assert np.isfinite(result.m).all()
    assert np.linalg.eigvalsh(result.chi)[0] > 0


def test_only_pairs_of_two_values():
    with pytest.raises(ValueError, match="order 3"):
        infer(random_model(4, 3, (-1, 1), 0.1, 0), "odc")
    with pytest.raises(ValueError, match="more than two values"):
        infer(random_model(4, 2, (-1, 0, 1), 0.1, 0), "odc")
