"""Fit a composite objective under a prior: what pseudolikelihood and interaction screening share.

    min_θ  Q(θ) + Σ_μ c_μ α_|μ| / M · (l1 |J_μ| + ½ (1 − l1) J_μ²)

A composite likelihood counts the information on J_μ more than once; c_μ says how many times, so that one α means the
same prior for every method. It is the ratio of ∂²Q/∂J_μ² to the Fisher information, both for independent variables
with the data's frequencies: for pseudolikelihood c_μ = |μ| exactly, one for each conditional that contains J_μ.
Measured against the likelihood's posterior mode with the same α = 1/τ² (n = 12, pairs and triplets, β = 0.3, 0.6, 1,
M = 300, 10³, 10⁴): of 1, |μ|/2, |μ|, 1.5|μ| and |μ|², |μ| is the closest in all nine cells, for triplets 2 to 11 times
closer than 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn._threads import blas_for
from hbm_learn.inversion.composite import sandwich
from hbm_learn.inversion.composite.independence import Independence
from hbm_learn.inversion.composite.information import CompositeInformation
from hbm_learn.inversion.composite.objective import Objective
from hbm_learn.inversion.composite.sums import Composite
from hbm_learn.inversion.parameters import UNBOUNDED
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.model import BoltzmannMachine
from hbm_learn.optimise import newton_cg, proximal_newton

_NO_MAXIMUM = (
    "the likelihood has no finite maximum: the fields of variable {} still grow after {} steps, as when some "
    "combination of values never occurs in the data, or a column repeats others; give alpha > 0: a prior keeps every "
    "coupling finite."
)
_ONLY_THE_PRIOR = (
    "nothing but the prior keeps the fields of variable {} finite, which still grow after {} steps: some combination "
    'of columns separates its values in the data; raise alpha, or take refine="pseudolikelihood".'
)
# A step of no consequence for the objective that still moves log odds by this much goes to infinity: towards a finite
# minimum, both vanish together.
_RUNAWAY = 0.3
# Such steps in a row before giving up.
_PATIENCE = 4
# The share of the decrement that a step leaves, at best, see ``sums._ROWS_A_PARAMETER``.
_LEAST_RATE = 0.1
# (tol or None, the decrement that an efficient estimate has by chance)
Enough = tuple[float | None, float]
# The decrement at which to stop, in units of what it is by chance.
_ENOUGH = 0.01
# KKT residual of an ℓ1 fit, relative to the largest rate, by the bytes of a float: what its rounding allows.
_KKT = {8: 1e-7, 4: 1e-5}


class _Stop:
    """Stop where the decrement is small enough, unless the steps run away; ``runaway`` counts those that do.

    The last step is still taken, so it is enough that this one takes the decrement there: ``left`` is what it leaves if
    it is a quarter as good as the step before, and no better than the subsampled Hessian promises.
    """

    def __init__(self, composite: Composite, enough: float):
        self.composite, self.enough = composite, enough
        self.runaway, self.site = 0, 0
        self.left, self._last = np.inf, np.inf

    def __call__(self, decrement: float, step: np.ndarray) -> bool:
        rate = max(decrement / self._last, _LEAST_RATE) if 0.0 < self._last < np.inf else 1.0
        self.left, self._last = decrement * min(1.0, 4.0 * rate), decrement
        if self.left > self.enough:
            self.runaway = 0
            return False
        beyond = self.composite.rows_beyond(step, _RUNAWAY, seen=False)
        self.runaway, self.site = self.runaway + 1 if beyond.any() else 0, int(beyond.argmax())
        return self.runaway in (0, _PATIENCE)


class CompositeFit:
    """A composite objective with its data prepared once, to be fitted under one prior after another."""

    def __init__(self, method: str, composite: Composite):
        self.method, self.composite = method, composite
        self.independence = Independence.of(composite)

    def fit(
        self,
        prior: Prior,
        start: np.ndarray | BoltzmannMachine | None = None,
        *,
        tol: float | None = None,
        max_iter: int = 50,
        random_state: Any = None,
        verbose: int = 0,
        rough: bool = False,
    ) -> Fit:
        """The minimum under a prior.

        Parameters
        ----------
        prior : Prior
            α of each order, fixed, in the gauge of the fit; see ``prior.learn`` for empirical Bayes.
        start : (P,) array, BoltzmannMachine or None
            Where to begin, such as the closed form; independence if it is None, or better.
        tol : float or None
            The Newton decrement at which to stop, as a share of p/M, what an efficient estimate has by chance (0.01 by
            default); p counts parameters by the share of them that the data determine, and not the prior. With an ℓ1
            part, the KKT residual relative to the largest rate (by default what rounding allows: exact zeros want exact
            conditions).
        max_iter : int
            Newton steps at most.
        random_state : int or None
            Of the probes that standard errors take beyond 2000 parameters.
        verbose : int
            1 prints a line for each step.
        rough : bool
            Errors of more than a few hundred parameters are by few probes: the fit is a start for something better.
        """
        composite, M, count = self.composite, self.composite.rows.n_samples, self.independence.count
        parameters = composite.parameters
        ridge, lasso = np.zeros(composite.n_params), np.zeros(composite.n_params)
        ridge[parameters.n_own :] = count[parameters.n_own :] * prior.ridge(parameters.columns) / M
        lasso[parameters.n_own :] = count[parameters.n_own :] * prior.lasso(parameters.columns) / M
        n_determined = float(np.sum(1.0 / (1.0 + ridge / self.independence.information)))
        composite.stride = stride = composite.first_stride(n_determined)
        objective = Objective(composite, ridge, ends=bool(ridge.any()) and not lasso.any())
        minimise = _sparse if lasso.any() else _smooth
        with blas_for(0):  # threads share the rows; those of BLAS would come on top
            theta = self._best_start(objective, lasso, start)
            theta, report = minimise(objective, theta, lasso, (tol, n_determined / M), max_iter, verbose)
            composite.stride = stride
            runaway = not report["converged"]
            errors = sandwich.errors(objective, theta, count, random_state, runaway, rough)
        return Fit(
            method=self.method,
            parameters=parameters,
            theta=theta,
            posterior=errors.posterior,
            sampling=errors.sampling,
            kept=errors.kept[parameters.n_own :],
            noise=errors.noise[parameters.n_own :],
            alpha={k: float(prior.alpha[k]) for k in parameters.columns.orders},
            make_whole=(lambda: errors.whole.without_free()) if lasso.any() else (lambda: errors.whole),
            overcount=errors.overcount,
            **report,
        )

    expands = True  # about any point

    def information(self, fit: Fit) -> CompositeInformation:
        """What the data say of θ about any point, as if the objective were a likelihood."""
        assert fit.overcount is not None
        return CompositeInformation(self.composite, fit.overcount)

    def _best_start(
        self, objective: Objective, lasso: np.ndarray, start: np.ndarray | BoltzmannMachine | None
    ) -> np.ndarray:
        if start is None:
            return self.independence.theta
        given = self.composite.parameters.pack(start) if isinstance(start, BoltzmannMachine) else start
        # The closed form of columns that repeat each other: so far out, matrices are singular to rounding. Screening
        # has no way there from independence: its logarithm does not bend along a product that never changes.
        far = self.composite.parameters.reach(given).max(initial=0.0) > UNBOUNDED
        if far and self.method != "screening":
            return self.independence.theta
        value = objective.value_gradient(given)[0] + float(lasso @ np.abs(given))
        return given if -np.inf < value <= self.independence.value else self.independence.theta


def _smooth(
    objective: Objective,
    theta: np.ndarray,
    lasso: np.ndarray,
    enough: tuple[float | None, float],
    max_iter: int,
    verbose: int,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Newton until the decrement is a share of what it is by chance, ``enough``; θ and what the result says of it."""
    tol, typical = enough[0] or _ENOUGH, enough[1]
    stop = _Stop(objective.composite, tol * typical)
    found = newton_cg.minimise(objective, theta, stop, max_iter=max_iter, verbose=verbose)
    # A start may lie so far out that no step runs away from there any more.
    unbounded, site = bool(stop.runaway), stop.site
    if not unbounded and not objective.ridge.any():
        beyond = objective.composite.rows_beyond(found.theta, UNBOUNDED, seen=True)
        unbounded, site = bool(beyond.any()), int(beyond.argmax())
    if found.status == newton_cg.UNBENT:
        unbounded = True
        site = int(objective.composite.rows_beyond(found.step, _RUNAWAY, seen=False).argmax())
    endless = unbounded and objective.composite.log and bool(objective.ridge.any())
    sentence = _ONLY_THE_PRIOR if endless else _NO_MAXIMUM
    status = sentence.format(site, found.n_iter) if unbounded else found.status
    converged = found.converged and not unbounded
    residual = (stop.left if found.converged else found.decrement) / typical
    report = {"converged": converged, "status": status, "n_iter": found.n_iter, "residual": residual}
    return found.theta, report | {"endless": endless}


def _sparse(
    objective: Objective,
    theta: np.ndarray,
    lasso: np.ndarray,
    enough: tuple[float | None, float],
    max_iter: int,
    verbose: int,
) -> tuple[np.ndarray, dict[str, Any]]:
    """Proximal Newton until the KKT conditions hold."""
    rounding = _KKT[objective.composite.dtype.itemsize]
    limit = max(enough[0] or rounding, rounding)
    found = proximal_newton.minimise(objective, theta, lasso, tol=limit, max_iter=max_iter, verbose=verbose)
    report = {"converged": found.converged, "status": found.status, "n_iter": found.n_iter, "residual": found.residual}
    return found.theta, report
