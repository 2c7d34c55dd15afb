"""What to believe of a fit: intervals, tests with false-discovery control, and a word on trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats

from hbm_learn.data.moments import Moments
from hbm_learn.inference.exact import StateTable
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.result import InversionResult

# Models with more states are judged by the corrections to the closed form.
MAX_TRUST_STATES = 2**14


def intervals(result: InversionResult, level: float = 0.95) -> np.ndarray:
    """J_μ ± z · standard error, shape (p, 2)."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level={level!r}: give a probability between 0 and 1, such as 0.95.")
    half = stats.norm.ppf(0.5 + 0.5 * level) * result.standard_errors
    return result.model.weights[:, None] + np.array([-1.0, 1.0]) * half[:, None]


@dataclass(frozen=True, eq=False)
class Tests:
    """Of each interaction: is J_μ = 0? All (p,); q-values are Benjamini–Hochberg within each order."""

    interactions: Interactions
    z: np.ndarray
    p_values: np.ndarray
    q_values: np.ndarray

    @classmethod
    def of(cls, result: InversionResult, hypotheses: Interactions | None = None) -> Tests:
        """z-scores that are N(0, 1) when J_μ = 0 (see ``InversionResult.z``), and what follows from them.

        ``hypotheses`` are all the interactions that were considered, if the fit has only those that were selected: the
        others count in the q-values as tests that did not reject.
        """
        interactions, errors = result.model.packed, result.sampling_errors
        weights, z = result.model.weights, result.z
        if z is None:
            z = np.divide(weights, errors, out=np.zeros_like(weights), where=errors > 0)
        p = 2.0 * stats.norm.sf(np.abs(z))
        q = np.ones_like(p)
        for k in interactions.orders:
            where = interactions.slice(k)
            n_others = 0 if hypotheses is None else len(hypotheses.block(k)) - len(interactions.block(k))
            q[where] = stats.false_discovery_control(np.append(p[where], np.ones(n_others)))[: len(p[where])]
        return cls(interactions, z, p, q)

    def at(self, interactions: Interactions) -> Tests:
        """The same tests for some of the interactions."""
        where = self.interactions.positions(interactions)
        return Tests(interactions, self.z[where], self.p_values[where], self.q_values[where])

    def select(self, level: float) -> Interactions:
        """The interactions with q ≤ level, with all subsets of them."""
        if not 0.0 < level < 1.0:
            raise ValueError(f"fdr={level!r}: give a false-discovery rate between 0 and 1, such as 0.05.")
        found = self.q_values <= level
        blocks = [self.interactions.block(k)[found[self.interactions.slice(k)]] for k in self.interactions.orders]
        return Interactions.from_blocks(blocks, self.interactions.n_features).closure()


def screen(moments: Moments, interactions: Interactions) -> InversionResult:
    """The closed form of every interaction, without a prior where samples are at least twice as many as variables."""
    alpha = 0.0 if moments.n_samples >= 2 * moments.n_features else "auto"
    return diagonal.invert(moments, interactions, alpha)


def select_and_refit(
    screening: Tests, fit: Callable[[Interactions], InversionResult], level: float
) -> tuple[InversionResult, Tests]:
    """Select by the screening and refit; drop what does not pass the refined tests, and refit, until all pass.

    The refined tests count every screened interaction as a hypothesis. A coupling that was selected by chance passes
    them too (it is the same data), which is what the level allows for; one that the closed form's bias made does not.
    """
    chosen = screening.select(level)
    while True:
        result = fit(chosen)
        if result.method == "diagonal":
            return result, screening.at(chosen)
        tests = Tests.of(result, screening.interactions)
        passing = tests.select(level)
        if passing == chosen:
            return result, tests
        chosen = passing


@dataclass(frozen=True)
class Trust:
    """How far to believe a fit.

    Attributes
    ----------
    discrepancy : root mean square, over the moments that the model fits, of (model − data) in standard errors of the
        data; None where the model's moments are too costly.
    bias : root mean square, over the couplings, of the closed form's bias at the fitted model in standard errors; None
        where there is no way to tell.
    message : a sentence.
    warning : the sentence if it should be raised as a warning, else "".
    """

    discrepancy: float | None
    bias: float | None
    message: str
    warning: str = ""

    @classmethod
    def of(cls, result: InversionResult, moments: Moments) -> Trust:
        """Judge a fit by its own re-inferred moments (exact on small models) and by the closed form applied to them.

        On larger models the bias is that of the pairs, by the first corrections to the closed form.
        """
        discrepancy, bias = _exact_checks(result, moments)
        if bias is None:
            bias = _bias_by_corrections(result, moments)
        if bias is None:
            return cls(discrepancy, None, "The bias of the closed form is not known for this model.")
        size = f"the bias of the closed form is about {bias:.2g} times the standard errors"
        if result.method != "diagonal":
            fit = "" if discrepancy is None else f"the moments fit to {discrepancy:.2g} standard errors; "
            message = f"{fit}{size} here, and was removed by refine={result.method!r}."
            return cls(discrepancy, bias, message[0].upper() + message[1:])
        if bias <= 1.0:
            return cls(discrepancy, bias, f"The closed form can be trusted: {size}.")
        message = f'{size[0].upper()}{size[1:]}: do not rely on it; use refine="auto".'
        return cls(discrepancy, bias, message, message)


def _exact_checks(result: InversionResult, moments: Moments) -> tuple[float | None, float | None]:
    model = result.model
    if model.alphabet.kind == "real":
        return 0.0, 0.0
    if not model.alphabet.enumerable(model.n_features, MAX_TRUST_STATES) or not np.isfinite(moments.n_samples):
        return None, None
    table = StateTable(model)
    states = table.states(np.arange(len(table.p)))
    fitted = Moments.from_distribution(states, table.p, moments.order, model.alphabet)
    t = np.concatenate([fitted.mean - moments.mean, fitted.moments(model.packed) - moments.moments(model.packed)])
    fisher = table.fisher(model.packed)
    keep = np.r_[0 : model.n_features, len(fisher) - len(model.weights) : len(fisher)]
    errors = np.sqrt(np.diag(fisher)[keep] / moments.n_samples)
    try:
        again = diagonal.invert(fitted, model.packed, alpha=0.0).model
    except ValueError:  # a fit on its way to infinity has frozen a variable: the closed form has no answer there
        return _rms(t, errors), None
    return _rms(t, errors), _rms(again.weights - model.weights, _likelihood_errors(result))


def _likelihood_errors(result: InversionResult) -> np.ndarray:
    """Standard errors without the prior: s²/(1 − α s²), see ``prior``."""
    orders = np.diff(result.model.packed.indptr)
    alpha = np.array([result.alpha.get(k, 0.0) for k in range(result.model.order + 1)])[orders]
    variance = result.standard_errors**2
    return np.sqrt(variance / np.maximum(1.0 - alpha * variance, 1e-6))


def _bias_by_corrections(result: InversionResult, moments: Moments) -> float | None:
    """Only the pairs: what the second-order and two-spin corrections would add to them."""
    model, alphabet = result.model, result.model.alphabet
    if not alphabet.is_binary or not model.packed.slice(2).stop:
        return None
    J3 = model.tensor(3) if model.order >= 3 else None
    correction = diagonal.correct_pairs(J3, moments.mean, moments.covariance, alphabet)
    pairs = model.packed.slice(2)
    return _rms(correction[tuple(model.packed.block(2).T)], _likelihood_errors(result)[pairs])


def _rms(differences: np.ndarray, errors: np.ndarray) -> float:
    """Root mean square of differences in units of their errors; what has no error (a moment at its bound, a coupling
    that an ℓ1 penalty removed) does not count."""
    known = errors > 0
    return float(np.sqrt(np.mean((differences[known] / errors[known]) ** 2))) if known.any() else 0.0
