"""What an inversion returns: a ``Fit`` in the gauge that it worked in, and from it the ``InversionResult`` of the user.

effects J̃     couplings of the standard gauge, where every function has mean 0 and variance 1 in the data
weights J     couplings in the user's coding, a linear function of θ
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from hbm_learn._threads import blas_for
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Space
from hbm_learn.terms import Terms

if TYPE_CHECKING:
    from hbm_learn.inversion.shrinkage.expectation import Sites
    from hbm_learn.inversion.shrinkage.marginals import Marginals

# Covariances of more couplings than this are not kept with the result: 18 MB.
MAX_KEPT = 1500


@dataclass(frozen=True, eq=False)
class Whole:
    """What a fit knows beyond the variances of θ; each may be None. P parameters.

    Attributes
    ----------
    free, free_variance : (P,) arrays or None
        One Newton step takes the estimate back to what it would be without the prior, which pulls a coupling also
        through the others that it is correlated with; and the variance that it has there. None with an ℓ1 part and
        where the maximum is not finite.
    covariance, free_covariance : (P, P) arrays or None
        Posterior covariance, and that of ``free``; None where they are too large to form.
    """

    free: np.ndarray | None = None
    free_variance: np.ndarray | None = None
    covariance: np.ndarray | None = None
    free_covariance: np.ndarray | None = None

    def without_free(self) -> Whole:
        """The same, saying nothing of the estimate without its prior."""
        return Whole(covariance=self.covariance)


class HasWhole:
    """What has variances of θ, and makes the ``Whole`` when somebody asks: a learnt prior asks its last fit only."""

    posterior: np.ndarray
    make_whole: Callable[[], Whole]

    @cached_property
    def whole(self) -> Whole:
        with blas_for(len(self.posterior)):
            return self.make_whole()

    @property
    def free(self) -> np.ndarray | None:
        """(P,) the estimate without its prior."""
        return self.whole.free

    @property
    def free_variance(self) -> np.ndarray | None:
        """(P,) its variances."""
        return self.whole.free_variance

    @property
    def covariance(self) -> np.ndarray | None:
        """(P, P) of the posterior."""
        return self.whole.covariance

    @property
    def free_covariance(self) -> np.ndarray | None:
        """(P, P) of the estimate without its prior."""
        return self.whole.free_covariance


@dataclass(frozen=True, eq=False)
class Spread(HasWhole):
    """Variances of θ, (P,) each; the names mean what they do in :class:`Fit`."""

    posterior: np.ndarray
    sampling: np.ndarray
    kept: np.ndarray
    noise: np.ndarray
    make_whole: Callable[[], Whole] = Whole
    overcount: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class Fit(HasWhole):
    """θ = (own, J) with its errors, in the gauge of ``parameters``. P parameters, p sets of columns.

    Attributes
    ----------
    method : str
        "likelihood", "pseudolikelihood" or "screening".
    parameters : Parameters
    theta : (P,) array
    posterior, sampling : (P,) arrays
        Variances: of the posterior, and of the estimate over repeated data sets; without a prior they are the same.
    kept, noise : (p,) arrays
        What empirical Bayes wants to know: couplings drawn from the prior, N(0, 1/α), would be estimated with squares
        of kept/α + noise on average. Without a prior, kept is 1.
    alpha : dict
        {order: prior precision}, in the gauge of the fit.
    make_whole : callable
        Makes the ``Whole``, for the properties of its names.
    converged : bool
    status : str
        A sentence that says why it stopped.
    n_iter : int
        Iterations, or passes over the data.
    residual : float
        The certificate: the largest gradient entry, the KKT residual, or what is left of the Newton decrement over p/M
        (p the parameters that the data determine, and not the prior).
    notes : list of str
        Sentences a user should read.
    endless : bool
        Whether only a prior too weak for it is in the way of an objective that falls without end.
    sites : Sites or None
        With a learnt scale mixture: the posterior of each coupling about the origin of the prior.
    basis : (P, P) sparse array or None
        θ = basis · θ_origin: from the parameters that ``sites`` is about.
    origin : str or None
        Which origin: "mean", "middle", "mode", or "coding".
    spread : (P,) array or None
        Posterior variances of θ_origin.
    evidence : dict
        {order: ln P(data) of the model up to that order, couplings integrated out}, less that of independent variables.
    overcount : (P,) array or None
        How many times a composite objective counts the information on each parameter; None for a likelihood.
    """

    method: str
    parameters: Parameters
    theta: np.ndarray
    posterior: np.ndarray
    sampling: np.ndarray
    kept: np.ndarray
    noise: np.ndarray
    alpha: dict[int, float]
    make_whole: Callable[[], Whole] = Whole
    converged: bool = True
    status: str = "converged"
    n_iter: int = 1
    residual: float = 0.0
    notes: list[str] = field(default_factory=list)
    endless: bool = False
    sites: Sites | None = None
    basis: sparse.csr_array | None = None
    spread: np.ndarray | None = None
    origin: str | None = None
    evidence: dict[int, float] = field(default_factory=dict)
    overcount: np.ndarray | None = None

    @property
    def weights(self) -> np.ndarray:
        """(p,) J in the gauge of the fit."""
        return self.theta[self.parameters.n_own :]

    @property
    def errors2(self) -> np.ndarray:
        """(p,) posterior variances of J."""
        return self.posterior[self.parameters.n_own :]

    @property
    def mean_errors2(self) -> np.ndarray:
        """(p,) the same, each the mean over its term: what does not depend on the basis of a nominal variable."""
        return self.parameters.terms.means(self.errors2)

    def determined(self, k: int) -> float:
        """The share of the couplings of order k that the data determine and not the prior, on average."""
        where = self.parameters.columns.slice(k)
        return float(np.clip(np.mean(self.kept[where] + self.alpha[k] * self.noise[where]), 0.0, 1.0))


@dataclass(frozen=True, eq=False)
class InversionResult:
    """A fitted model with its errors, as users see it. n variables, p interactions of variables (``model.terms``).

    Attributes
    ----------
    method : str
        "closed-form", "likelihood", "pseudolikelihood" or "screening".
    model : BoltzmannMachine
        In the user's coding.
    standard_errors, h_standard_errors : (p,), (n,) arrays
        Posterior standard deviations of the weights J_μ and of h_i; with a learnt prior they allow for what is
        uncertain about it. For an interaction of nominal variables, of the root mean square of its table.
    effects, effect_errors : (p,) arrays
        J̃_μ of the standard gauge and their posterior standard deviations; for an interaction of nominal variables the
        root mean square over its block.
    statistic, df : (p,) arrays
        χ² with df degrees of freedom when J̃_μ = 0, of the estimate without its prior.
    sign : (p,) array
        That of the estimate without its prior; 1 for blocks.
    column_effects, column_effect_errors : arrays over ``model.columns``
        Effects of the single sets of columns.
    column_sampling_errors : array over ``model.columns``
        Standard deviations of the effects over repeated data sets, as they are without the prior.
    alpha : dict
        {order: prior precision used}; of effects if it was learnt, of weights if it was given.
    weight_marginals, effect_marginals : Marginals or None
        Posteriors of the couplings of ``model.columns``, where the prior is a learnt mixture.
    converged, status, n_iter, residual, notes, origin, evidence
        As in :class:`Fit`.
    effect_covariance : (columns, columns) array or None
        Posterior covariance of ``column_effects``; None where it is too large to keep, or not known.
    effect_basis : sparse array or None
        With a learnt mixture: ``column_effects`` as functions of what the mixture is about.
    informed : array over ``model.columns``, or None
        Where cells are missing: the share of the rows that each coupling is as well known from as from complete ones.
    """

    method: str
    model: BoltzmannMachine
    standard_errors: np.ndarray
    h_standard_errors: np.ndarray
    effect_errors: np.ndarray
    column_effects: np.ndarray
    column_effect_errors: np.ndarray
    column_sampling_errors: np.ndarray
    statistic: np.ndarray
    sign: np.ndarray
    alpha: dict[int, float]
    converged: bool = True
    status: str = "converged"
    n_iter: int = 1
    residual: float = 0.0
    notes: list[str] = field(default_factory=list)
    weight_marginals: Marginals | None = None
    effect_marginals: Marginals | None = None
    origin: str | None = None
    evidence: dict[int, float] = field(default_factory=dict)
    effect_covariance: np.ndarray | None = None
    effect_basis: sparse.csr_array | None = None
    informed: np.ndarray | None = None

    @property
    def terms(self) -> Terms:
        """The interactions of variables."""
        return self.model.terms

    @property
    def df(self) -> np.ndarray:
        """(p,) degrees of freedom of the statistics."""
        return self.terms.df

    @property
    def effects(self) -> np.ndarray:
        """(p,) couplings J̃_μ of the standard gauge; the root mean square over a block of nominal members."""
        return self.terms.norm(self.column_effects)

    def n_effective(self, n_samples: float) -> np.ndarray:
        """(p,) complete rows that would tell as much of each interaction as all rows with their gaps."""
        if self.informed is None:
            return np.full(len(self.terms), float(n_samples))
        return n_samples * self.terms.sum(self.informed) / self.terms.df

    def with_notes(self, notes: list[str]) -> InversionResult:
        """The same result with these notes before its own."""
        return replace(self, notes=[*notes, *self.notes])


def norm_errors(
    terms: Terms, values: np.ndarray, errors: np.ndarray, covariance: Callable[[np.ndarray], np.ndarray] | None = None
) -> np.ndarray:
    """(p,) errors of ``terms.norm(values)``.

    Of a block x with covariance C it is √(xᵀ C x)/‖x‖, which no change of its basis changes; where C is not known, the
    root mean square of the errors.

    Parameters
    ----------
    values, errors : arrays over the sets of columns
    covariance : callable or None
        Positions of sets of columns → their covariance.
    """
    if terms.keys is terms.columns:
        return errors
    out = np.sqrt(terms.sum(errors**2) / terms.df)
    if covariance is None:
        return out
    for r in np.flatnonzero(terms.df > 1):
        where = terms.positions(r)
        x = values[where]
        size = float(np.linalg.norm(x))
        if size > 0.0:
            out[r] = np.sqrt(max(float(x @ covariance(where) @ x), 0.0)) / size
    return out


def in_coding(fit: Fit, coding: Space, standard: Space) -> InversionResult:
    """What a fit says in the user's coding, with effects in the standard gauge."""
    parameters = fit.parameters
    model = parameters.model(fit.theta, coding).settled()
    n = coding.n_features
    to_coding, to_standard = parameters.coding(coding), _to_standard(parameters, standard)
    errors, effect_errors = np.sqrt(_posterior(fit, to_coding)), np.sqrt(_posterior(fit, to_standard))
    terms, effects, weights = parameters.terms, to_standard @ fit.theta, model.column_weights
    statistic, sign = _statistics(fit, to_standard, terms)
    free = fit.sampling if fit.free_variance is None else fit.free_variance
    sampling = _variances(to_standard, free, fit.free_covariance)
    return InversionResult(
        method=fit.method,
        model=model,
        standard_errors=norm_errors(terms, weights, errors[n:], _block_covariance(to_coding[n:], fit.covariance)),
        h_standard_errors=errors[:n],
        effect_errors=norm_errors(terms, effects, effect_errors, _block_covariance(to_standard, fit.covariance)),
        column_effects=effects,
        column_effect_errors=effect_errors,
        # Infinite where a variance is negative: rows that do not determine an estimate.
        column_sampling_errors=np.sqrt(np.where(sampling < 0.0, np.inf, sampling)),
        statistic=statistic,
        sign=sign,
        alpha=fit.alpha,
        converged=fit.converged,
        status=fit.status,
        n_iter=fit.n_iter,
        residual=fit.residual,
        notes=fit.notes,
        weight_marginals=_marginals(fit, to_coding[n:], weights, errors[n:]),
        effect_marginals=_marginals(fit, to_standard, effects, effect_errors),
        origin=fit.origin,
        evidence=fit.evidence,
        effect_covariance=_kept(to_standard, fit.covariance),
        effect_basis=None if fit.sites is None else _about_origin(fit, to_standard),
    )


def _kept(T: sparse.csr_array, covariance: np.ndarray | None) -> np.ndarray | None:
    """T Cov Tᵀ, for sums of couplings; None where it is not known or large."""
    if covariance is None or T.shape[0] > MAX_KEPT:
        return None
    return np.asarray(T @ np.asarray(T @ covariance).T)


def _posterior(fit: Fit, T: sparse.csr_array) -> np.ndarray:
    """Posterior variances of T θ; without a covariance, as if the couplings about the origin were uncorrelated."""
    if fit.covariance is None and fit.spread is not None:
        return _about_origin(fit, T).power(2) @ fit.spread
    return _variances(T, fit.posterior, fit.covariance)


def _about_origin(fit: Fit, T: sparse.csr_array) -> sparse.csr_array:
    """T as it acts on θ_origin, without what rounding leaves of zeros."""
    out = sparse.csr_array(T if fit.basis is None else T @ fit.basis)
    out.data[np.abs(out.data) < 1e-12 * np.abs(out.data).max(initial=0.0)] = 0.0
    out.eliminate_zeros()
    return out


def _marginals(fit: Fit, T: sparse.csr_array, centre: np.ndarray, errors: np.ndarray) -> Marginals | None:
    """Posteriors of T θ under a learnt mixture."""
    if fit.sites is None:
        return None
    from hbm_learn.inversion.shrinkage.marginals import Marginals

    return Marginals.of(_about_origin(fit, T), fit.sites, fit.parameters.n_own, centre, errors**2)


def _to_standard(parameters: Parameters, standard: Space) -> sparse.csr_array:
    """(p, P) J̃ of the set of columns as linear functions of θ: ∂_μ E at the means, in units of the functions."""
    p, n_own = len(parameters.columns), parameters.n_own
    if standard is parameters.space:
        return sparse.csr_array((np.ones(p), (np.arange(p), n_own + np.arange(p))), shape=(p, parameters.n_params))
    return parameters.coding(standard)[parameters.space.n_features :]


def _variances(T: sparse.csr_array, variances: np.ndarray, covariance: np.ndarray | None) -> np.ndarray:
    """Diagonal of T Cov Tᵀ; of a diagonal covariance where the whole is not known."""
    if T.nnz == T.shape[0] and (np.diff(T.indptr) == 1).all() and (T.data == 1.0).all():  # some of θ itself
        return (variances if covariance is None else np.diag(covariance))[T.indices]
    if covariance is None:
        return T.power(2) @ variances
    return np.maximum(_row_sums(T, covariance), 0.0)


def _block_covariance(T: sparse.csr_array, covariance: np.ndarray | None) -> Callable[[np.ndarray], np.ndarray] | None:
    """Positions → T Cov Tᵀ of these rows; None if the covariance is not known."""
    if covariance is None:
        return None
    return lambda where: (T[where] @ covariance) @ T[where].T.toarray()


def _row_sums(T: sparse.csr_array, covariance: np.ndarray) -> np.ndarray:
    """Σ_c (T Cov)_rc T_rc, a few thousand rows at a time."""
    out = np.empty(T.shape[0])
    for lo in range(0, T.shape[0], 1024):
        part = T[lo : lo + 1024]
        out[lo : lo + 1024] = part.multiply(part @ covariance).sum(axis=1)
    return out


def _statistics(fit: Fit, T: sparse.csr_array, terms: Terms) -> tuple[np.ndarray, np.ndarray]:
    """(p,) Wald statistics of the effects without their prior, and signs; blocks with their covariance, if known."""
    if fit.free is None:
        # On an ℓ1 path, or on the way to infinity, the estimate over its own sampling error stands in.
        estimate, variance, covariance = T @ fit.theta, T.power(2) @ fit.sampling, None
    else:
        assert fit.free_variance is not None
        estimate, covariance = T @ fit.free, fit.free_covariance
        variance = _variances(T, fit.free_variance, covariance)
    squares = np.divide(estimate**2, variance, out=np.zeros_like(estimate), where=variance > 0)
    out, sign = terms.sum(squares), np.where(terms.df == 1, np.sign(terms.sum(estimate)), 1.0)
    if covariance is None:
        return out, sign
    block = _block_covariance(T, covariance)
    assert block is not None
    for r in np.flatnonzero(terms.df > 1):
        where = terms.positions(r)
        out[r] = block_statistic(estimate[where], block(where))
    return out, sign


def block_statistic(x: np.ndarray, C: np.ndarray) -> float:
    """xᵀ C⁺ x, directions without variance left out."""
    values, vectors = np.linalg.eigh(0.5 * (C + C.T))
    keep = values > 1e-12 * max(float(values[-1]), 1e-300)
    return float(((x @ vectors[:, keep]) ** 2 / values[keep]).sum())
