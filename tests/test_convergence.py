"""What docs/convergence.md states beyond the solver's tests: generic (h, d), arcs that reconnect, misprints."""

from __future__ import annotations

import numpy as np
import pytest
from oracle import random_model

from hbm_learn import BoltzmannMachine, Interval
from hbm_learn.inference import infer
from hbm_learn.inference.continuation import arrive
from hbm_learn.inference.dc2_equations import SecondOrderConsistency
from hbm_learn.inference.dc_equations import DiagonalConsistency


def with_fields(model, h, d):
    return BoltzmannMachine.from_packed(h, model.columns, model.column_weights, d, model.alphabet)


@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1), (0, 1, 2, 3), Interval(-1, 2)], ids=str)
@pytest.mark.parametrize("order", [2, 3])
def test_fields_and_anisotropies_move_the_equations_freely(alphabet, order):
    """At fixed u = (b, c): ∂R₁/∂h = −I, ∂R₂/∂h = 0, ∂R₂/∂d_k = χ_ik²/χ_ii², and χ∘χ is positive definite."""
    model = random_model(5, order, alphabet, 0.9, seed=order)
    problem = DiagonalConsistency(model)
    end = arrive(problem, tol=1e-12, max_evaluations=2000)
    n, t, point = 5, problem.sites.t, end.point
    b = model.h + end.u[:n] - t * end.u[n:]
    c = model.d - end.u[n:]

    def R(h, d):
        """The equations at (b, c) of the model with fields h and anisotropies d, in β = b − h + tΛ and Λ = d − c."""
        return (
            DiagonalConsistency(with_fields(model, h, d)).evaluate(np.concatenate([b - h + t * (d - c), d - c]), 1.0).R
        )

    step = 1e-6
    by_h = np.array([(R(model.h + e, model.d) - R(model.h - e, model.d)) / (2 * step) for e in step * np.eye(n)]).T
    by_d = np.array([(R(model.h, model.d + e) - R(model.h, model.d - e)) / (2 * step) for e in step * np.eye(n)]).T
    np.testing.assert_allclose(by_h[:n], -np.eye(n), atol=1e-7)
    np.testing.assert_allclose(by_h[n:], 0.0, atol=1e-7)
    chi = point.chi
    np.testing.assert_allclose(by_d[n:], chi**2 / np.diag(chi)[:, None] ** 2, atol=1e-6)
    assert np.linalg.eigvalsh(chi**2)[0] > 0
    assert np.linalg.svd(np.hstack([by_h, by_d]), compute_uv=False)[-1] > 1e-3


def test_arcs_reconnect():
    """Along h0 + s·dh the reported solution jumps where two arcs meet at an inner α, with no fold near α = 1."""
    rng = np.random.default_rng(16)
    n = 6
    J = np.triu(rng.normal(0, 2, (n, n)), 1)
    J = J + J.T
    h0, dh = rng.normal(0, 0.5, n), rng.normal(0, 1.0, n)

    def solve(s):
        return infer(BoltzmannMachine(h0 + s * dh, J), "dc")

    low, high = 0.4801, 0.4802
    before, after = solve(low).m, solve(high).m
    for _ in range(5):  # to within 3e-6; closer than 1e-6 the walk may stop
        s = 0.5 * (low + high)
        found = solve(s)
        assert found.converged
        if np.abs(found.m - before).max() < np.abs(found.m - after).max():
            low, before = s, found.m
        else:
            high, after = s, found.m
    assert abs(low - 0.480145) < 1e-5
    assert np.abs(after - before).max() > 0.5
    for s in (low, high):  # both ends are regular solutions, far from a fold
        problem = DiagonalConsistency(BoltzmannMachine(h0 + s * dh, J))
        end = arrive(problem, tol=1e-12, max_evaluations=5000)
        u, step = end.u, 1e-6
        jacobian = np.array(
            [
                (problem.evaluate(u + e, 1.0).R - problem.evaluate(u - e, 1.0).R) / (2 * step)
                for e in step * np.eye(2 * n)
            ]
        )
        assert np.linalg.svd(jacobian, compute_uv=False)[-1] > 0.02


def test_stops_where_arcs_meet():
    """Where (G) fails the walk does not arrive, and says so; or it took one of the two arcs, and is a solution."""
    rng = np.random.default_rng(16)
    J = np.triu(rng.normal(0, 2, (6, 6)), 1)
    J = J + J.T
    h0, dh = rng.normal(0, 0.5, 6), rng.normal(0, 1.0, 6)
    for s in 0.480145 + np.linspace(-1e-6, 1e-6, 5):
        result = infer(BoltzmannMachine(h0 + s * dh, J), "dc", max_evaluations=1000)
        assert result.converged == (result.residual < 1e-10)
        assert result.converged or "α" in result.status


def test_sign_of_the_logarithm_in_the_free_energy():
    """With −½ Σ ln(v − m²), as printed, one Gaussian variable has V = 3/d; with +½ it has 1/d, the truth.

    One variable, J = 0: G₀ = ½dv − ½ ln V + …, and the maximum over Λ of m²Λ − Λv + ln Λ is −ln V − 1.
    """
    d, V = 0.7, np.linspace(0.2, 8.0, 200_001)
    own = 0.5 * d * V - 0.5 * np.log(V)  # the Gaussian site: −ln z + b m − ½ c v at its own maximum
    gaussian = 0.5 * (-np.log(V) - 1.0)
    printed, right = own - 0.5 * np.log(V) + gaussian, own + 0.5 * np.log(V) + gaussian
    np.testing.assert_allclose(V[np.argmin(printed)], 3 / d, atol=1e-3)
    np.testing.assert_allclose(V[np.argmin(right)], 1 / d, atol=1e-3)


@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1), (0, 1, 2, 3)], ids=str)
def test_second_order_bounds(alphabet):
    """At order 3: 0 ≤ Λ′ ≤ Σ J² M⁴, |½T:χ| ≤ ½ Σ |T| M², V above its floor, along whole paths at strong coupling."""
    model = random_model(6, 3, alphabet, 2.5, seed=4)
    problem = SecondOrderConsistency(model)
    M = max(abs(x) for x in alphabet)
    T = np.abs(model.T(np.zeros(6)))
    seen = []

    def observe(point):
        seen.append(point)
        return 0.0, 0.0

    end = arrive(problem, tol=1e-12, max_evaluations=2000, observe=observe)
    assert end.path.arrived
    for point in seen:
        extra = point.s.Lambda - point.dc.Lambda
        assert (extra >= -1e-12).all()
        assert (extra <= 0.5 * (T**2).sum(axis=(1, 2)) * M**4 + 1e-9).all()
        assert (np.abs(point.ring) <= 0.5 * T.sum(axis=(1, 2)) * M**2 + 1e-9).all()
        assert (point.dc.Lambda >= -1e-3).all()  # not negative at a solution; points of the path are close to one
