"""From the closed form to the accuracy that the data allows: which refinement, with which prior."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbm_learn._validation import choose
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.closed_form import diagonal
from hbm_learn.inversion.composite import pseudolikelihood, screening
from hbm_learn.inversion.composite.fit import CompositeFit
from hbm_learn.inversion.likelihood import fit as likelihood
from hbm_learn.inversion.prior import Prior, elastic, learn
from hbm_learn.inversion.result import InversionResult
from hbm_learn.model import BoltzmannMachine

# refine="auto" takes the exact likelihood up to this many states.
MAX_LIKELIHOOD_STATES = 2**20


def _likelihood(moments: Moments, interactions: Interactions, n_jobs: int | None) -> Callable[..., InversionResult]:
    def fit(prior: Prior, start: BoltzmannMachine, **options: Any) -> InversionResult:
        return likelihood.fit(moments, interactions, start, prior, n_jobs=n_jobs, **options)

    return fit


def _composite(prepare: Callable[..., CompositeFit]) -> Callable[..., Callable[..., InversionResult]]:
    return lambda samples, interactions, n_jobs: prepare(samples, interactions, n_jobs=n_jobs).fit


# name: (what it consumes, (data, interactions, n_jobs) → a function of (prior, start, options) with the data prepared)
METHODS: dict[str, tuple[str, Callable[..., Callable[..., InversionResult]]]] = {
    "likelihood": ("moments", _likelihood),
    "pseudolikelihood": ("samples", _composite(pseudolikelihood.prepare)),
    "screening": ("samples", _composite(screening.prepare)),
}


def fit(
    moments: Moments,
    samples: Samples | None,
    interactions: Interactions,
    *,
    refine: str | None = "auto",
    alpha: Any = "auto",
    l1_ratio: float = 0.0,
    n_jobs: int | None = None,
    **options: Any,
) -> InversionResult:
    """The closed form, then what removes its bias.

    Parameters
    ----------
    moments, samples : of the same data; samples may be None where the refinement needs moments only.
    interactions : which J_μ to fit.
    refine : None, "auto" or a name in ``METHODS``.
    alpha, l1_ratio : the prior, see ``prior``.
    n_jobs : threads.
    **options : tol, max_iter, random_state, verbose of the refinement; None takes its own default.
    """
    if not 0.0 <= l1_ratio <= 1.0:
        raise ValueError(f"l1_ratio={l1_ratio!r}: give the share of the ℓ1 penalty, between 0 and 1.")
    start = diagonal.invert(moments, interactions, alpha)
    name = choose_refinement(refine, moments, samples, interactions)
    if name is None:
        return start
    consumes, prepare = METHODS[name]
    refine_from = prepare(moments if consumes == "moments" else samples, interactions, n_jobs)
    given = {key: value for key, value in options.items() if value is not None}

    def gaussian(alphas: dict[int, float], previous: InversionResult | None) -> InversionResult:
        return refine_from(Prior(alphas), start.model if previous is None else previous.model, **given)

    if not isinstance(alpha, str):
        result = refine_from(Prior(start.alpha, l1_ratio), start.model, **given)
    else:
        result = learn(gaussian, start.alpha, moments.n_samples)
        if l1_ratio:
            result = refine_from(Prior(elastic(result.alpha, l1_ratio), l1_ratio), result.model, **given)
    return result.with_notes(start.notes)


def choose_refinement(
    refine: str | None, moments: Moments, samples: Samples | None, interactions: Interactions
) -> str | None:
    """The name of the refinement, or None for the closed form alone; ValueError where it cannot work."""
    if refine is None:
        return None
    finite = moments.alphabet.is_finite
    if refine == "auto":
        # Without interactions, and for Gaussian variables with every pair, the closed form is the maximum likelihood.
        if not finite or not len(interactions):
            return None
        if moments.alphabet.enumerable(moments.n_features, MAX_LIKELIHOOD_STATES):
            return "likelihood"
        return None if samples is None else "pseudolikelihood"
    choose("refine", refine, METHODS)
    if not finite:
        raise ValueError(f'refine={refine!r} takes finite alphabets, got {moments.alphabet}: use refine="auto".')
    if METHODS[refine][0] == "samples" and samples is None:
        raise ValueError(f'refine={refine!r} needs the samples, which partial_fit does not keep: use "likelihood".')
    return refine
