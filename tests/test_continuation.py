"""The path-following solver on curves whose course is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from hbm_learn.inference.bordered import DenseBordered, DensePoint
from hbm_learn.inference.continuation import Settings, arrive, follow, polish


@dataclass
class Curve:
    """R(u, α) = Q(f(Qᵀu) − α·g) with Q a rotation: a curve that moves all unknowns at once."""

    value: object
    derivative: object
    rotation: np.ndarray
    limit: float = np.inf
    calls: int = 0

    @property
    def start(self):
        return np.zeros(len(self.rotation))

    @property
    def weights(self):
        return np.full(len(self.rotation), 1.0 / len(self.rotation))

    def evaluate(self, u, alpha):
        self.calls += 1
        x = self.rotation.T @ u
        if np.abs(x).max() > self.limit:
            return None
        R = x.copy()
        R[0] = self.value(x[0]) - alpha
        R[1:] -= 0.5 * x[0] ** 2  # the other unknowns follow the first
        jacobian = np.eye(len(x))
        jacobian[0, 0] = self.derivative(x[0])
        jacobian[1:, 0] = -x[0]
        d_alpha = np.zeros(len(x))
        d_alpha[0] = -1.0
        Q = self.rotation
        return DensePoint(Q @ R, Q @ jacobian @ Q.T, Q @ d_alpha)


def rotation(n, seed=0):
    return np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]


def cubic(fold):
    """α = x³/3 − …: two folds, at x = 1 and x = 1 + fold, of which the first lies at α = 0.9."""
    a, b = 1.0, 1.0 + fold
    raw = np.polynomial.Polynomial.fromroots([a, b]).integ()
    p = raw * (0.9 / raw(a))
    return p, p.deriv()


@pytest.mark.parametrize("n", [1, 2, 7])
@pytest.mark.parametrize("fold", [0.01, 0.3, 1.5])
def test_folds_are_passed(n, fold):
    p, dp = cubic(fold)
    problem = Curve(p, dp, rotation(n))
    end = arrive(problem, tol=1e-13, max_evaluations=2000)
    x = problem.rotation.T @ end.u
    crossings = [r.real for r in (p - 1.0).roots() if abs(r.imag) < 1e-12]
    assert end.path.arrived
    assert len(crossings) == 1
    assert x[0] == pytest.approx(crossings[0], abs=1e-11)
    alphas = np.array([z[-1] for z in end.path.z])
    assert (np.diff(alphas) < 0).any() or fold == 0.01  # it went back in α, where the fold is wide enough to see


def test_the_first_crossing_is_taken():
    """α(x) crosses 1 three times; the path must end at the first."""
    grid = np.polynomial.Polynomial.fromroots([0.7, 1.6]).integ()
    p = grid * (1.2 / grid(0.7))
    end = arrive(Curve(p, p.deriv(), rotation(4)), tol=1e-13, max_evaluations=2000)
    x = rotation(4).T @ end.u
    first = min(r.real for r in (p - 1.0).roots() if abs(r.imag) < 1e-12 and r.real > 0)
    assert x[0] == pytest.approx(first, abs=1e-11)


@dataclass
class Pitchfork:
    """R = u³ − k(α − ½)u − ε: two branches that come within about ε^⅓ of each other."""

    epsilon: float
    k: float

    @property
    def start(self):
        roots = np.roots([1.0, 0.0, 0.5 * self.k, -self.epsilon])
        return np.array([roots[np.abs(roots.imag) < 1e-9].real[0]])

    @property
    def weights(self):
        return np.ones(1)

    def evaluate(self, u, alpha):
        x, t = u[0], self.k * (alpha - 0.5)
        return DensePoint(np.array([x**3 - t * x - self.epsilon]), np.array([[3 * x * x - t]]), np.array([-self.k * x]))


@pytest.mark.parametrize("epsilon", [1e-1, -1e-2, 1e-3, -1e-4])
@pytest.mark.parametrize("k", [1.0, 10.0])
def test_the_connected_branch_is_kept(epsilon, k):
    end = arrive(Pitchfork(epsilon, k), tol=1e-13, max_evaluations=5000)
    roots = np.roots([1.0, 0.0, -0.5 * k, -epsilon]).real
    assert end.path.arrived
    assert end.u[0] == pytest.approx(roots[np.argmax(np.sign(epsilon) * roots)], rel=1e-9)


def test_natural_continuation_would_not_arrive():
    """Negative control: with α as the parameter, Newton finds nothing near the end of the first arc."""
    p, dp = cubic(1.5)
    problem = Curve(p, dp, rotation(3))
    u = np.zeros(3)
    for alpha in np.linspace(0, 0.95, 96)[1:]:
        u, point, _ = polish(problem, u, alpha, tol=1e-12)
    assert np.abs(point.R).max() > 1e-3


@dataclass
class Circle:
    """(u − ½)² + α² = ¼: it leaves α = 0 at u = 0 and comes back at u = 1, never near α = 1."""

    start = np.zeros(1)
    weights = np.ones(1)

    def evaluate(self, u, alpha):
        return DensePoint(
            np.array([(u[0] - 0.5) ** 2 + alpha**2 - 0.25]), np.array([[2 * u[0] - 1]]), np.array([2.0 * alpha])
        )


def test_evaluations_are_bounded():
    path = follow(Circle(), max_evaluations=200)
    assert not path.arrived
    assert 200 <= path.n_evaluations <= 210
    assert "raise max_evaluations" in path.status
    end = arrive(Circle(), tol=1e-10, max_evaluations=50)
    assert end.status(1e-10) == end.path.status


def test_the_validity_test_stops_the_walk():
    p = np.polynomial.Polynomial([0, 1.0])
    problem = Curve(p, p.deriv(), rotation(2), limit=0.6)
    path = follow(problem, max_evaluations=2000)
    assert not path.arrived
    assert path.z[-1][-1] < 0.61
    assert "converges" in path.status
    assert path.n_evaluations < 500
    free = follow(Curve(p, p.deriv(), rotation(2)), max_evaluations=2000)
    assert free.arrived


def test_a_straight_path_takes_one_step():
    p = np.polynomial.Polynomial([0, 1.0])
    problem = Curve(p, p.deriv(), np.eye(1))
    path = follow(problem)
    assert len(path.z) == 2
    assert path.n_evaluations <= 3
    assert len(follow(problem, settings=Settings(max_step=0.1)).z) > 10


def test_observed_points():
    p, dp = cubic(0.3)
    path = follow(Curve(p, dp, np.eye(1)), observe=lambda point: float(np.abs(point.R).max()))
    assert len(path.observed) == len(path.z) == len(path.tangents)
    assert max(path.observed) < 0.1


@pytest.mark.parametrize("seed", range(5))
def test_dense_bordered(seed):
    rng = np.random.default_rng(seed)
    J, f, row = rng.normal(size=(5, 5)), rng.normal(size=5), rng.normal(size=6)
    system = DenseBordered(J, f, row)
    matrix = np.block([[J, f[:, None]], [row[None]]])
    rhs = rng.normal(size=6)
    np.testing.assert_allclose(system.solve(rhs[:5], rhs[5]), np.linalg.solve(matrix, rhs), rtol=1e-9)
    assert system.sign == np.sign(np.linalg.det(matrix))


def test_singular_bordered_matrix_is_solved_in_least_squares():
    system = DenseBordered(np.diag([1.0, 0.0]), np.array([0.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    assert system.sign == 0.0
    np.testing.assert_allclose(system.solve(np.array([2.0, 0.0]), 3.0), [2.0, 0.0, 3.0], atol=1e-12)
    broken = DenseBordered(np.diag([1.0, np.nan]), np.zeros(2), np.array([0.0, 0.0, 1.0]))
    assert not np.isfinite(broken.solve(np.zeros(2), 1.0)).all()


def test_polish_returns_the_best():
    p, dp = cubic(0.3)
    problem = Curve(p, dp, np.eye(1))
    u, point, used = polish(problem, np.array([0.5]), float(p(0.5)), tol=1e-12)
    assert used == 1
    assert u[0] == 0.5
    # at a value of α that the curve does not reach near u, the residual never grows
    before = np.abs(problem.evaluate(np.array([1.0]), 0.95).R).max()
    _, point, _ = polish(problem, np.array([1.0]), 0.95, tol=1e-12)
    assert np.abs(point.R).max() <= before


def test_the_first_step_lands():
    """It aims at α = 1 along a straight path, and rounding of 1/τ·τ must not make it fall short."""

    @dataclass
    class Line:
        slope: float
        start = np.zeros(1)
        weights = np.ones(1)

        def evaluate(self, u, alpha):
            return DensePoint(u - self.slope * alpha, np.eye(1), np.array([-self.slope]))

    for slope in np.linspace(0.01, 3, 300):
        assert len(follow(Line(slope)).z) == 2
