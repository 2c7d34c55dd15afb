"""The checks behind ``Trust``: each a question to one fit, with a number, a verdict and a sentence."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from hbm_learn.assessment import dependence
from hbm_learn.assessment.bias import bias_by_corrections, bias_of_closed_form
from hbm_learn.assessment.compared import LEVEL
from hbm_learn.assessment.predictive import MAX_LISTED, PredictiveCheck
from hbm_learn.assessment.trust import Check, Trust
from hbm_learn.data.incomplete import FilledRows
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.result import InversionResult
from hbm_learn.inversion.shrinkage.orders import WORTH
from hbm_learn.states import StateTable

# Root mean squares of the closed form's bias, in standard errors: up to the first it can be trusted, up to the second
# with care.
SMALL_BIAS, LARGE_BIAS = 1.0, 2.0
# A learnt prior whose sites are further apart than this has not settled.
UNSETTLED = 0.1
# Shares of missing cells, of the whole table or of a column, that ask for care, and beyond which a fit leans on what
# was filled in.
SOME_CELLS, MANY_CELLS = 0.5, 0.8


@dataclass(frozen=True, eq=False)
class Seen:
    """What checks may look at beside the fit and its moments.

    Attributes
    ----------
    samples : Samples or None
    predictive : PredictiveCheck or None
        Samples of the fitted model against the data.
    filled : FilledRows or None
        Where cells are missing, the rows with these drawn from the fit.
    missing : (n,) array or None
        Share of missing cells of each column, where there are some.
    names : list of str or None
        Of the columns.
    grouped : bool
        Whether ``groups`` were given.
    """

    samples: Samples | None = None
    predictive: PredictiveCheck | None = None
    filled: FilledRows | None = None
    missing: np.ndarray | None = None
    names: list[str] | None = None
    grouped: bool = False


def judge(result: InversionResult, moments: Moments, seen: Seen) -> Trust:
    """All checks of a fit.

    Parameters
    ----------
    result : InversionResult
        The fit.
    moments : Moments
        What it was fitted to.
    seen : Seen
    """
    model, space = result.model, result.model.space
    if seen.filled is not None:
        moments = Moments.from_samples(seen.filled.samples, order=moments.order)
    exact = space.is_finite and space.enumerable(MAX_LISTED) and np.isfinite(moments.n_samples)
    table = StateTable(model.in_space(moments.standard.space)) if exact else None
    found, discrepancy = fitted_moments(result, moments, table, seen.predictive)
    bias = _bias(result, moments, table)
    checks = [optimiser(result), found, *unfitted_moments(seen.predictive), *closed_form(result, moments, table, bias)]
    checks += [*missing_cells(seen.missing, seen.names), *dependent_rows(result, seen), *orders(result)]
    return Trust(tuple(checks), discrepancy, bias)


def optimiser(result: InversionResult) -> Check:
    """Whether the fit arrived, and its learnt prior with it."""
    if not result.converged:
        return Check("optimiser", result.residual, "bad", f"It did not converge: {result.status}")
    sites = None if result.effect_marginals is None else result.effect_marginals.sites
    if sites is not None and sites.residual > UNSETTLED:
        sentence = "Some couplings are undecided between noise and effect, and the learnt prior has not settled."
        return Check("optimiser", sites.residual, "care", sentence)
    return Check("optimiser", result.residual, "good", "The optimiser arrived.")


def fitted_moments(
    result: InversionResult, moments: Moments, table: StateTable | None, samples: PredictiveCheck | None
) -> tuple[Check, float | None]:
    """Whether the model has the moments that it was fitted to, and by how much it is off (root mean square)."""
    name = "fitted moments"
    if result.model.space.is_real:
        return Check(name, 0.0, "good", "The Gaussian has the data's moments.", True), 0.0
    if table is not None:
        z = _exact_z(result, moments, table)
        size = float(np.sqrt(np.mean(z**2))) if len(z) else 0.0
        return _of_largest(name, float(np.abs(z).max(initial=0.0)), len(z), "The exact moments of the model"), size
    if samples is None:
        return Check(name, None, "unknown", "The moments of the model were not computed: it is too large.", True), None
    if not samples.mixes:
        return Check(name, samples.r_hat, "bad", samples.message, True), None
    largest = max(samples.means.largest, samples.fitted.largest)
    n = samples.means.n_compared + samples.fitted.n_compared
    z = np.concatenate([samples.means.z, samples.fitted.z])
    size = float(np.sqrt(np.nanmean(z**2))) if n else 0.0
    return _of_largest(name, largest, n, "The moments of samples of the model"), size


def _exact_z(result: InversionResult, moments: Moments, table: StateTable) -> np.ndarray:
    """(model − data) over standard errors of the data; moments at a bound of theirs have none."""
    columns, seen = result.model.columns, moments.standard
    ours = np.concatenate([table.m, table.moments(columns)])
    data = np.concatenate([seen.mean, seen.moments(columns)])
    spread = np.concatenate([table.V, table.variances(columns)])
    errors = np.sqrt(np.maximum(spread, 0.0) / moments.n_samples)
    known = errors > 0
    return (ours - data)[known] / errors[known]


def _of_largest(name: str, largest: float, n: int, what: str) -> Check:
    if not n:
        return Check(name, None, "unknown", "Too few rows carry the moments of the model to compare them.", True)
    chance = min(1.0, 2.0 * n * float(stats.norm.sf(largest)))
    if chance >= LEVEL:
        return Check(name, largest, "good", f"{what} are within {largest:.1f} standard errors of the data's.", True)
    verdict = "care" if largest < 8.0 else "bad"
    says = f"{what} are up to {largest:.1f} standard errors from the data's, more than chance makes"
    return Check(name, largest, verdict, f"{says}: it is another model.", True)


def unfitted_moments(samples: PredictiveCheck | None) -> list[Check]:
    """The next order, and the distribution of Σ u."""
    if samples is None or not samples.mixes:
        return []
    largest, fine = samples.unfitted.largest, samples.agrees_unfitted
    what = "Moments of the next order, which were not fitted, are"
    good = f"{what} within {largest:.1f} standard errors of the data's."
    off = f"{what} up to {largest:.1f} standard errors from the data's, more than chance makes: raise `order`."
    out = [Check("next order", largest, "good" if fine else "care", good if fine else off)]
    largest, fine = samples.total.largest, samples.agrees_total
    what = "The distribution of the sum of all variables is"
    good = f"{what} within {largest:.1f} standard errors of the data's."
    off = f"{what} up to {largest:.1f} standard errors from the data's: the model misses what all do together."
    out.append(Check("sum of all", largest, "good" if fine else "care", good if fine else off))
    return out


def closed_form(result: InversionResult, moments: Moments, table: StateTable | None, bias: float | None) -> list[Check]:
    """The bias of the closed form, where it was all."""
    if result.method != "closed-form" or result.model.space.is_real or not len(result.terms):
        return []
    name = "bias of the closed form"
    if bias is None:
        return [Check(name, None, "unknown", "The bias of the closed form is not known for this model.", True)]
    gain = None if table is None else _gain(result, moments, table)
    if gain is not None and gain < 0.0:
        sentence = f'The closed form is worse than independent variables by {-gain:.3g} nats a row: use refine="auto".'
        return [Check(name, gain, "bad", sentence, True)]
    says = f"The bias of the closed form is about {bias:.2g} times the standard errors"
    if bias <= SMALL_BIAS:
        return [Check(name, bias, "good", f"{says}.", True)]
    verdict = "care" if bias <= LARGE_BIAS else "bad"
    return [Check(name, bias, verdict, f'{says}: use refine="auto".', True)]


def _gain(result: InversionResult, moments: Moments, table: StateTable) -> float:
    """ln P(row) under the model less that of independent variables, on average over the data."""
    model, seen = result.model.in_space(moments.standard.space), moments.standard
    own = sum(float(p @ t) for p, t in zip(moments.frequencies, model.own) if t is not None)
    value = own + float(seen.moments(model.columns) @ model.column_weights) - table.log_partition
    return value + float(sum(stats.entropy(p) for p in moments.frequencies))


def _bias(result: InversionResult, moments: Moments, table: StateTable | None) -> float | None:
    if result.model.space.is_real:
        return 0.0
    if table is not None:
        return bias_of_closed_form(result, moments, table)
    return None if result.model.space.has_given else bias_by_corrections(result, moments)


def missing_cells(shares: np.ndarray | None, names: list[str] | None = None) -> list[Check]:
    """How much of the table is missing, and where most.

    Parameters
    ----------
    shares : (n,) array or None
        Of missing cells of each column.
    names : list of str or None
        Of the columns.
    """
    if shares is None or not shares.any():
        return []
    share, worst = float(shares.mean()), int(np.argmax(shares))
    label = f"column {worst}" if names is None else names[worst]
    says = f"{100 * share:.3g} % of the cells are missing, most in {label} ({100 * shares[worst]:.3g} %)"
    if share <= SOME_CELLS and shares[worst] <= MANY_CELLS:
        return [Check("missing cells", share, "good", f"{says}; the others of their rows are used.")]
    verdict = "bad" if share > MANY_CELLS else "care"
    remedy = "what is missing is taken to depend on what was seen alone; drop columns that are hardly there."
    return [Check("missing cells", share, verdict, f"{says}: {remedy}")]


def dependent_rows(result: InversionResult, seen: Seen) -> list[Check]:
    """Whether rows that follow each other are alike."""
    samples = seen.samples
    if seen.grouped or samples is None or samples.weights is not None or not result.model.space.is_finite:
        return []
    g = dependence.autocorrelation_time(samples, result.model.columns)
    if g <= dependence.LIMIT:
        return [Check("dependence of rows", g, "good", f"Rows are as good as independent ({g:.2g} make one).")]
    sentence = (
        f"Rows that follow each other are alike: about {g:.2g} of them are worth one, and errors are too small by "
        f"√{g:.2g}. Give fit(…, groups=…), such as one label for every {int(np.ceil(10 * g))} rows in a row, or thin."
    )
    return [Check("dependence of rows", g, "bad" if g > 2 * dependence.LIMIT else "care", sentence)]


def orders(result: InversionResult) -> list[Check]:
    """What the evidence says of the highest order."""
    evidence = result.evidence
    top = max(evidence, default=1)
    if top < 3 or top - 1 not in evidence:
        return []
    gain = evidence[top] - evidence[top - 1]
    if gain >= WORTH:
        sentence = f"The evidence prefers order {top} to {top - 1} by {gain:.3g} nats."
        return [Check("orders compared", gain, "good", sentence)]
    sentence = f"The evidence does not prefer order {top} to {top - 1} ({gain:+.2g} nats): the lower one says as much."
    return [Check("orders compared", gain, "good", sentence)]
