"""Follow the solution of R(u, α) = 0 from a known solution at α = 0 to α = 1, in pseudo-arclength.

    predictor   (u, α) + s·τ + ½s²·τ′            τ the unit tangent, τ′ its backward difference
    corrector   Newton on R = 0 and ⟨τ, (δu, δα)⟩ = 0
    landing     Newton on R = 0 at α = 1 exactly

with ⟨a, b⟩ = Σ_i w_i a_i b_i + a_α b_α. Folds in α are passed, because s, not α, is the parameter. Nothing here knows
what R is: a problem evaluates R at a point, or says that the point is not valid, and solves linear systems with its
Jacobian bordered by one row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from hbm_learn._threads import blas_for
from hbm_learn.inference.bordered import Point


class Problem(Protocol):
    """R(u, α) = 0 with N unknowns. ``start`` (N,) solves it at α = 0; ``weights`` (N,) are w of the inner product."""

    @property
    def start(self) -> np.ndarray: ...

    @property
    def weights(self) -> np.ndarray: ...

    def evaluate(self, u: np.ndarray, alpha: float) -> Any:
        """The Point, or None where (u, α) is not valid (off the branch, not finite)."""
        ...


@dataclass(frozen=True)
class Settings:
    """Step control. The defaults keep the iterates well inside the region where Newton converges quadratically.

    A step is tried again at a shorter length if Newton's corrections do not fall by the factor ``contraction``, if they
    move the predicted point by more than ``drift`` of the step, if the tangent turns by more than ``turn`` (its
    cosine), or if the determinant of the bordered Jacobian changes sign, which it does not do along one branch: it
    means another branch, or a bifurcation, which is crossed in a straight line once the step is below ``crossing``.
    """

    contraction: float = 0.3
    drift: float = 0.3
    turn: float = 0.85
    crossing: float = 1e-3
    path_tol: float = 1e-4
    max_step: float = np.inf
    min_step: float = 1e-9


@dataclass
class Path:
    """The points that were accepted, from α = 0 to the last one, and how the walk ended.

    Attributes
    ----------
    weights : (N + 1,) w of the inner product, w_α = 1.
    z : list of (N + 1,) points (u, α).
    tangents : list of (N + 1,) unit tangents at those points.
    observed : list of what ``observe`` returned at those points, up to their last correction.
    arrived : whether the last point has α = 1.
    n_evaluations : evaluations of R.
    status : a sentence.
    """

    weights: np.ndarray
    z: list[np.ndarray] = field(default_factory=list)
    tangents: list[np.ndarray] = field(default_factory=list)
    observed: list[Any] = field(default_factory=list)
    arrived: bool = False
    n_evaluations: int = 0
    status: str = ""


def path_table(path: Path) -> np.ndarray:
    """One row for each point of the path: α, then what was observed there (a tuple of numbers)."""
    return np.array([[z[-1], *seen] for z, seen in zip(path.z, path.observed)])


@dataclass(frozen=True)
class _Step:
    z: np.ndarray
    tangent: np.ndarray
    point: Point
    contraction: float
    drift: float
    sign: float


def follow(
    problem: Problem,
    *,
    max_evaluations: int = 5000,
    settings: Settings | None = None,
    observe: Callable[[Any], Any] | None = None,
) -> Path:
    """Follow R(u, α) = 0 from (start, 0) to α = 1.

    Parameters
    ----------
    problem : Problem with N unknowns.
    max_evaluations : bound on the evaluations of R; it may be exceeded by the corrections of the last step.
    settings : Settings of the step control.
    observe : called with the Point of each accepted step; what it returns is kept in ``Path.observed``.

    Returns
    -------
    Path; its last point has been corrected to about ``path_tol``², see :func:`polish` for more.
    """
    return _Walk(problem, settings or Settings(), max_evaluations, observe or (lambda point: None)).run()


@dataclass(frozen=True)
class Arrival:
    """Where a path ended: u (N,), its Point at ``alpha`` (1, unless u is not valid there), and the path itself."""

    u: np.ndarray
    point: Any
    alpha: float
    path: Path
    n_evaluations: int

    @property
    def residual(self) -> float:
        """The point's own ``residual`` at α = 1; infinite if the path did not end there."""
        return float(self.point.residual) if self.alpha == 1.0 else np.inf

    def status(self, tol: float) -> str:
        """ "converged", or a sentence that says why not."""
        if not self.path.arrived or self.residual < tol:
            return self.path.status
        return f"the residual at the end of the path is {self.residual:.2g}; raise tol above it."


def arrive(
    problem: Problem,
    *,
    tol: float,
    max_evaluations: int,
    observe: Callable[[Any], Any] | None = None,
    settings: Settings | None = None,
) -> Arrival:
    """Follow the path, and polish its end at α = 1 to max |R| ≤ tol. If it stops short, its last point comes back."""
    with blas_for(len(problem.start)):
        return _arrive(problem, tol, max_evaluations, observe, settings)


def _arrive(
    problem: Problem,
    tol: float,
    max_evaluations: int,
    observe: Callable[[Any], Any] | None,
    settings: Settings | None,
) -> Arrival:
    path = follow(problem, max_evaluations=max_evaluations, settings=settings, observe=observe)
    if path.arrived:
        u, point, used = polish(problem, path.z[-1][:-1], 1.0, tol=tol)
        if point is not None:
            return Arrival(u, point, 1.0, path, path.n_evaluations + used)
    ends = [(z[:-1], alpha) for z in path.z[::-1] for alpha in (1.0, float(z[-1]))]
    for u, alpha in [*ends, (problem.start, 0.0)]:
        point = problem.evaluate(u, alpha)
        if point is not None:
            break
    return Arrival(u, point, alpha, path, path.n_evaluations)


def polish(
    problem: Problem, u: np.ndarray, alpha: float, *, tol: float, max_evaluations: int = 20
) -> tuple[np.ndarray, Point | None, int]:
    """Newton at fixed α until max |R| stops falling or is below ``tol``; (u, point, evaluations).

    The best iterate comes back: u is never worse than what was given.
    """
    row = np.append(np.zeros(len(u)), 1.0)
    point = problem.evaluate(u, alpha)
    n_evaluations = 1
    while point is not None and n_evaluations < max_evaluations and np.abs(point.R).max() > tol:
        u_new = u - point.bordered(row).solve(point.R, 0.0)[:-1]
        new = problem.evaluate(u_new, alpha) if np.isfinite(u_new).all() else None
        n_evaluations += 1
        if new is None or not np.abs(new.R).max() < 0.9 * np.abs(point.R).max():
            break
        u, point = u_new, new
    return u, point, n_evaluations


class _Walk:
    def __init__(self, problem: Problem, settings: Settings, max_evaluations: int, observe: Callable[[Any], Any]):
        self.problem, self.settings, self.max_evaluations, self.observe = problem, settings, max_evaluations, observe
        self.weights = np.append(problem.weights, 1.0)
        self.path = Path(self.weights)
        self.orientation = 0.0

    def run(self) -> Path:
        path = self.path
        if not self._start():
            path.status = "the equations cannot be evaluated at the start of the path."
            return path
        s = min(1.0 / path.tangents[0][-1], self.settings.max_step)
        while not path.arrived:
            here = path.z[-1]
            if path.n_evaluations >= self.max_evaluations:
                path.status = (
                    f"stopped at α = {here[-1]:.4g} of the path after {path.n_evaluations} evaluations; "
                    "raise max_evaluations."
                )
                return path
            if s < self.settings.min_step * max(1.0, self._norm(here)):
                path.status = f"no step of the path beyond α = {here[-1]:.6g} converges."
                return path
            s = self._advance(s)
        path.status = "converged"
        return path

    def _start(self) -> bool:
        z = np.append(self.problem.start, 0.0)
        point = self._evaluate(z)
        if point is None:
            return False
        system = point.bordered(np.append(np.zeros(len(z) - 1), 1.0))
        tangent = self._unit(system.solve(np.zeros(len(z) - 1), 1.0))
        self.orientation = system.sign
        self._accept(z, tangent, point)
        return bool(np.isfinite(tangent).all())

    def _accept(self, z: np.ndarray, tangent: np.ndarray, point: Point) -> None:
        self.path.z.append(z)
        self.path.tangents.append(tangent)
        self.path.observed.append(self.observe(point))

    def _advance(self, s: float) -> float:
        """Try one step of length s; the length to try next."""
        path, settings = self.path, self.settings
        z, tangent = path.z[-1], path.tangents[-1]
        predicted = self._predict(s)
        landing = predicted[-1] >= 1.0 - 1e-9  # the first step aims at α = 1 up to rounding
        if landing:  # shorten the prediction to end at α = 1, and correct there
            for _ in range(3):
                s *= (1.0 - z[-1]) / max(predicted[-1] - z[-1], 1e-300)
                predicted = self._predict(s)
            predicted[-1] = 1.0
            row = np.append(np.zeros(len(z) - 1), 1.0)
        else:
            row = self.weights * tangent
        step = self._correct(predicted, row, s)
        if step is None:
            return 0.4 * s
        turn = self._dot(step.tangent, tangent)
        flipped = step.sign * self.orientation < 0 and s > settings.crossing
        if turn < settings.turn or flipped or (not landing and step.z[-1] > 1.0 + 1e-12):
            return 0.5 * s
        self._accept(step.z, step.tangent, step.point)
        self.orientation = step.sign or self.orientation
        path.arrived = landing
        return min(s * self._growth(step, turn), settings.max_step)

    def _growth(self, step: _Step, turn: float) -> float:
        """How much longer the next step may be: what brings each measure to half of its limit, between 0.5 and 3.

        Contraction and drift grow linearly with the step or faster, the angle of the tangent linearly.
        """
        settings = self.settings
        angle = np.arccos(min(turn, 1.0)) / np.arccos(settings.turn)
        worst = max(step.contraction / settings.contraction, step.drift / settings.drift, angle, 1e-3)
        return float(np.clip(0.5 / worst, 0.5, 3.0))

    def _predict(self, s: float) -> np.ndarray:
        path = self.path
        z, tangent = path.z[-1], path.tangents[-1]
        predicted = z + s * tangent
        if len(path.z) > 1:
            back = self._norm(z - path.z[-2])
            predicted += (0.5 * s * s / back) * (tangent - path.tangents[-2])
        return predicted

    def _correct(self, z: np.ndarray, row: np.ndarray, s: float) -> _Step | None:
        """Newton from the predicted z; None if it is not safely within its region of fast convergence."""
        settings = self.settings
        start, last, contraction = z, np.inf, 0.0
        for k in range(6):
            point = self._evaluate(z)
            if point is None:
                return None
            system = point.bordered(row)
            delta = system.solve(point.R, 0.0)
            size = self._norm(delta)
            if not np.isfinite(size):
                return None
            if k:
                contraction = max(contraction, size / last)
                if contraction > settings.contraction:
                    return None
            z = z - delta
            drift = self._norm(z - start) / s
            if drift > settings.drift:
                return None
            if size <= settings.path_tol or (k and size * contraction <= settings.path_tol):
                tangent = self._unit(system.solve(np.zeros(len(z) - 1), 1.0))
                if not np.isfinite(tangent).all():
                    return None
                return _Step(z, tangent, point, contraction, drift, system.sign)
            last = size
        return None

    def _evaluate(self, z: np.ndarray) -> Point | None:
        self.path.n_evaluations += 1
        return self.problem.evaluate(z[:-1], float(z[-1]))

    def _dot(self, a: np.ndarray, b: np.ndarray) -> float:
        return float((self.weights * a) @ b)

    def _norm(self, a: np.ndarray) -> float:
        return float(np.sqrt(self._dot(a, a)))

    def _unit(self, a: np.ndarray) -> np.ndarray:
        return a / self._norm(a)
