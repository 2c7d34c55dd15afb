"""Inversion: moments or samples → model. The closed form, and what removes its bias.

    moments ──► closed form ──► likelihood                        (from moments)
                            └─► pseudolikelihood, screening       (from samples)

This registry is all that the methods share with the user. Refinements are imported when one is asked for, so that the
closed form loads no sampler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from hbm_learn._threads import blas_for
from hbm_learn._validation import check_number, check_options, check_refinement, choose, settled_seed
from hbm_learn.considered import require_room
from hbm_learn.data.given import given_patterns
from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.closed_form.tensors import is_mostly_empty
from hbm_learn.inversion.inflation import Inflation, inflated
from hbm_learn.inversion.parameters import SITES, Parameters
from hbm_learn.inversion.prior import Prior, check_alpha, elastic, learn
from hbm_learn.inversion.result import Fit, InversionResult, in_coding
from hbm_learn.inversion.shrinkage import learn as mixtures
from hbm_learn.inversion.shrinkage.learn import Information
from hbm_learn.space import Space
from hbm_learn.terms import all_terms, columns_of, is_closed

if TYPE_CHECKING:
    from hbm_learn.data.samples import Samples

__all__ = ["METHODS", "Fit", "InversionResult", "choose_refinement", "fit", "invert", "lists_patterns"]

_NO_MIXTURE = (
    "no mixture of scales could be learnt, as the likelihood is far from quadratic between here and there: one "
    "Gaussian prior for each order stands in, which shrinks strong couplings with the weak ones."
)
_MANY_PATTERNS = (
    "the given columns have too many patterns, or the others too many states, for the likelihood: the pseudolikelihood "
    "was maximised in its place."
)
# What a pattern of given columns costs beside its states, in states; and what all patterns may cost where the
# likelihood was asked for, as a multiple of what "auto" takes.
_PATTERN_COST, _IF_ASKED = 2048, 16
# Gaussian priors are learnt so far, as a start for mixtures.
_FIRST_ROUNDS, _FIRST_TOL = 3, 0.1
# refine="auto" takes the exact likelihood up to this many states.
MAX_LIKELIHOOD_STATES = 2**20


class Refinement(Protocol):
    """A method with its data prepared, to be fitted under one prior after another."""

    @property
    def fit(self) -> Callable[..., Fit]:
        """(prior, start, options) → the fit; ``rough`` among them: errors may be rough, where that is cheaper."""
        ...

    @property
    def expands(self) -> bool:
        """Whether ``information`` can be had; where not, a Gaussian prior is all there is."""
        ...

    def information(self, fit: Fit) -> Information:
        """What the data say of θ about any point, for a learnt mixture."""
        ...


def _likelihood(
    moments: Moments, parameters: Parameters, n_jobs: int | None, samples: Samples | None = None
) -> Refinement:
    from hbm_learn.inversion.likelihood.prepared import LikelihoodFit

    return LikelihoodFit(moments, parameters, n_jobs, samples)


def _pseudolikelihood(samples: Samples, parameters: Parameters, n_jobs: int | None) -> Refinement:
    from hbm_learn.inversion.composite import pseudolikelihood

    return pseudolikelihood.prepare(samples, parameters, n_jobs=n_jobs)


def _screening(samples: Samples, parameters: Parameters, n_jobs: int | None) -> Refinement:
    from hbm_learn.inversion.composite import screening

    return screening.prepare(samples, parameters, n_jobs=n_jobs)


# name: (what it consumes, (data, parameters, n_jobs) → the method with the data prepared)
METHODS: dict[str, tuple[str, Callable[..., Refinement]]] = {
    "likelihood": ("moments", _likelihood),
    "pseudolikelihood": ("samples", _pseudolikelihood),
    "screening": ("samples", _screening),
}


def invert(
    moments: Moments,
    interactions: Iterable[Iterable[Any]] | Interactions | None = None,
    method: str = "closed-form",
    alpha: Any = "auto",
    site: str = "free",
    **options: Any,
) -> InversionResult:
    """Moments → model: the stage itself, without an estimator.

    Parameters
    ----------
    moments : Moments
        Of the order of the interactions, or above.
    interactions : iterable of tuples of variables, or None
        All up to the order of the moments by default.
    method : str
        "closed-form", or "likelihood" (exact while states can be listed, by Gibbs chains beyond).
    alpha : float, one for each order, or "auto"
        Prior precision of the weights; "auto" learns one of the effects of each order.
    site : str
        "free": a weight for every value; "quadratic": h x − ½ d x².
    **options
        tol, max_iter, random_state, n_jobs, verbose of the likelihood. Of the closed form, corrections: "auto"; "none"
        for the equations of the paper, of which "dc" is the inverse; "field", of which "dc2" is; "clusters", "loops".

    Examples
    --------
    >>> from hbm_learn import Moments, datasets, invert
    >>> stats = Moments.from_samples(datasets.load_planted_triplets().data, order=2)
    >>> invert(stats).effects.shape
    (190,)
    """
    choose("method", method, {"closed-form": None, "likelihood": None})
    choose("site", site, dict.fromkeys(SITES))
    if not isinstance(moments, Moments):
        raise ValueError(f"moments is of type {type(moments).__name__}: give Moments, such as Moments.from_samples(X).")
    columns = _columns(moments, interactions)
    if method == "closed-form":
        check_options("method", method, _closed_form, options, 4)
        return _closed_form(moments, columns, alpha, site, **options)
    check_options("method", method, _by_likelihood, options, 4)
    return _by_likelihood(moments, columns, alpha, site, **options)


def _closed_form(
    moments: Moments, columns: Interactions, alpha: Any, site: str, corrections: str = "auto"
) -> InversionResult:
    return diagonal.invert(moments, columns, alpha, site, corrections)


def _by_likelihood(
    moments: Moments,
    columns: Interactions,
    alpha: Any,
    site: str,
    tol: float | None = None,
    max_iter: int | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> InversionResult:
    options = {"tol": tol, "max_iter": max_iter, "random_state": random_state, "verbose": verbose}
    return fit(moments, None, columns, refine="likelihood", alpha=alpha, site=site, n_jobs=n_jobs, **options)


def _columns(moments: Moments, interactions: Any) -> Interactions:
    require_room(interactions, moments.order, moments.space)
    if interactions is None:
        return all_terms(moments.order, moments.space)
    if isinstance(interactions, Interactions):
        return interactions
    return columns_of(interactions, moments.space, moments.feature_names)


def fit(
    moments: Moments,
    samples: Samples | None,
    columns: Interactions,
    *,
    refine: str | None = "auto",
    alpha: Any = "auto",
    l1_ratio: float = 0.0,
    site: str = "free",
    inflation: Inflation | None = None,
    recheck: Callable[[Fit], Fit] | None = None,
    n_jobs: int | None = None,
    **options: Any,
) -> InversionResult:
    """The closed form, then what removes its bias.

    Parameters
    ----------
    moments : Moments
    samples : Samples or None
        Of the same data; None where the refinement needs moments only. Cells may be missing, see ``missing``.
    columns : Interactions
        Which sets of columns to fit.
    refine : None, "auto" or a name in ``METHODS``
    alpha : float, one for each order, or "auto"
        Prior precision, see ``prior``.
    l1_ratio : float
        Share of the ℓ1 part of the prior.
    site : str
        "free" or "quadratic".
    inflation : {order: g}, (P,) array, or None
        So many rows are worth one, for the errors and the prior of each order; order 1 is that of own parameters.
    recheck : callable or None
        What is to be asked of a fit by pseudolikelihood before it is returned, and may return another in its place.
    n_jobs : int or None
        Threads.
    **options
        tol, max_iter, random_state, verbose of the refinement; None takes its own default.
    """
    check_number("l1_ratio", l1_ratio, 0.0, 1.0, what="the share of the ℓ1 penalty, between 0 and 1")
    check_refinement({"n_jobs": n_jobs, **options})
    name, notes = _settled(refine, moments, samples, len(columns))
    start = _start(moments, columns, alpha, site, name)
    if name is None:
        return start
    parameters = Parameters(_working_space(moments, columns, alpha), columns, site, moments.frequencies)
    given = {key: value for key, value in options.items() if value is not None}
    given["random_state"] = settled_seed(options.get("random_state"))
    if moments.is_complete:
        method: Any = _prepared(name, moments, samples, parameters, n_jobs, given)
        turns, informed = 1, None
    else:
        from hbm_learn.inversion.missing import methods

        seed, automatic = given["random_state"], refine == "auto"
        name, method = methods.prepare(
            METHODS, name, samples, moments, parameters, automatic=automatic, n_jobs=n_jobs, random_state=seed
        )
        turns, informed = method.turns, method.informed
    first = parameters.pack(start.model)
    if isinstance(alpha, str):
        result = _learnt(method, first, start.alpha, moments.n_samples, l1_ratio, inflation, given, turns)
    else:
        result = inflated(method.fit(Prior(start.alpha, l1_ratio), first, **given), inflation)
    if recheck is not None and name == "pseudolikelihood":
        checked = recheck(result)
        if informed is not None and checked is not result:
            checked = inflated(checked, 1.0 / informed(checked))
        result = checked
    found = in_coding(result, moments.space, moments.standard.space).with_notes([*start.notes, *notes])
    return found if informed is None else replace(found, informed=informed(result)[parameters.n_own :])


def _start(moments: Moments, columns: Interactions, alpha: Any, site: str, name: str | None) -> InversionResult:
    """The closed form: of the pairs alone where a refinement follows, and the tensors of a few sets of higher orders
    would be large."""
    n, top = columns.n_features, columns.order
    if name is None or top < 3 or not is_mostly_empty(columns.block(top), n):
        return diagonal.invert(moments, columns, alpha, site, mixtures=name is None)
    given = check_alpha(alpha, top)
    pairs = Interactions.from_blocks([columns.block(2)], n)
    found = diagonal.invert(moments, pairs, alpha if isinstance(given, str) else given[2], site, mixtures=False)
    alphas = dict.fromkeys(columns.orders, found.alpha.get(2, 1.0)) if isinstance(given, str) else given
    return replace(found, alpha=alphas)


def _settled(
    refine: str | None, moments: Moments, samples: Samples | None, n_columns: int
) -> tuple[str | None, list[str]]:
    """The name of the refinement, or None for the closed form alone; and what to tell of the choice."""
    name = choose_refinement(refine, moments.space, n_columns, samples is not None)
    if name != "likelihood" or not moments.space.has_given:
        return name, []
    asked = refine == "likelihood"
    if moments.is_complete and lists_patterns(samples, n_columns, asked):
        return name, []
    return "pseudolikelihood", [_MANY_PATTERNS] if asked else []


def _prepared(
    name: str, moments: Moments, samples: Samples | None, parameters: Parameters, n_jobs: int | None, options: Any
) -> Refinement:
    """The refinement with complete rows; ``options`` are given the rows that its chains begin at, where it has some."""
    consumes, prepare = METHODS[name]
    if consumes == "samples":
        return prepare(samples, parameters, n_jobs)
    if moments.space.has_given:
        return prepare(moments, parameters, n_jobs, samples=samples)
    if name == "likelihood" and samples is not None and not moments.space.enumerable(MAX_LIKELIHOOD_STATES):
        from hbm_learn.inversion.likelihood.walkers import data_rows

        options["rows"] = data_rows(samples, options["random_state"])
    return prepare(moments, parameters, n_jobs)


def _learnt(
    method: Refinement,
    first: np.ndarray,
    alpha: dict[int, float],
    n_samples: float,
    l1_ratio: float,
    inflation: Inflation | None,
    given: Any,
    turns: int = 1,
) -> Fit:
    """Under a learnt prior: a scale mixture for each order, or, where that is out of reach, one Gaussian.

    ``turns`` is how often the data must be asked anew about the last posterior mean.
    """
    notes: list[str] = []

    def under(alphas: dict[int, float], last: Fit | None, **more: Any) -> Fit:
        return method.fit(Prior(alphas), first if last is None else last.theta, **given, **more)

    if method.expands and not l1_ratio and np.isfinite(n_samples) and alpha:
        rough = partial(under, rough=True)
        start = inflated(learn(rough, alpha, n_samples, max_rounds=_FIRST_ROUNDS, tol=_FIRST_TOL), inflation)
        found: Fit | None = start
        for _ in range(turns):
            with blas_for(0):  # what is active is few, and rows have threads of their own
                found = None if found is None else mixtures.learn(method.information(found), found)
        if found is not None:
            return found
        notes, alpha, first = [_NO_MIXTURE], start.alpha, start.theta
    result = learn(under, alpha, n_samples)
    if l1_ratio:
        result = method.fit(Prior(elastic(result.alpha, l1_ratio), l1_ratio), result.theta, **given)
    return inflated(replace(result, notes=[*result.notes, *notes]), inflation)


def _working_space(moments: Moments, columns: Interactions, alpha: Any) -> Space:
    """The gauge of a fit: that of its prior.

    A learnt prior is one of effects, and without a prior the standard gauge is the best conditioned one; a given α > 0
    is one of the user's weights. An interaction set that lacks subsets of its members is another model about another
    origin: it keeps the user's, and only the scale is standard.
    """
    given = check_alpha(alpha, columns.order)
    if not isinstance(given, str) and any(given.values()):
        return moments.space
    if is_closed(columns, moments.space):
        return moments.standard.space
    return moments.space.standard(moments.frequencies, centred=False)


def lists_patterns(samples: Samples | None, n_columns: int, asked: bool = False) -> bool:
    """Whether the states of a model can be listed for every pattern of its given columns.

    Parameters
    ----------
    samples : Samples
    n_columns : int
        Number of sets of columns that would be fitted.
    asked : bool
        Whether the user asked for the likelihood, which may then take longer.
    """
    assert samples is not None
    states = samples.space.modelled.n_states()
    each = max(states + _PATTERN_COST, n_columns**2 / 4)
    most = int(MAX_LIKELIHOOD_STATES * (_IF_ASKED if asked else 1) / each)
    return most > 1 and len(given_patterns(samples, most)[1]) <= most


def choose_refinement(refine: str | None, space: Space, n_interactions: int, has_samples: bool = True) -> str | None:
    """The name of the refinement, or None for the closed form alone; ValueError where it cannot work."""
    if refine is None:
        return None
    if refine == "auto":
        # Without interactions, and for Gaussian variables with every pair, the closed form is the maximum likelihood.
        if not space.is_finite or not n_interactions:
            return None
        # Moments do not say how the given columns are distributed together, which the likelihood asks.
        if space.modelled.enumerable(MAX_LIKELIHOOD_STATES) and (has_samples or not space.has_given):
            return "likelihood"
        return "pseudolikelihood" if has_samples else None
    choose("refine", refine, METHODS)
    if not space.is_finite:
        raise ValueError(f'refine={refine!r} takes finite alphabets, got {space}: use refine="auto".')
    if space.has_given and not has_samples:
        raise ValueError(
            f"refine={refine!r} needs the rows where columns are given, and only moments are left of them: use fit, or "
            "refine=None."
        )
    if METHODS[refine][0] == "samples" and not has_samples:
        raise ValueError(f'refine={refine!r} needs the samples, which partial_fit does not keep: use "likelihood".')
    return refine
