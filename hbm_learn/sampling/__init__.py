"""Sampling: model → samples. One sampler a file; this registry is all they share with the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbm_learn._validation import check_options, choose
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling.exact import exact
from hbm_learn.sampling.gibbs import gibbs
from hbm_learn.sampling.tempering import tempering

METHODS: dict[str, Callable[..., Any]] = {
    "exact": exact,
    "gibbs": gibbs,
    "tempering": tempering,
}


def sample(
    model: BoltzmannMachine, n_samples: int, method: str = "gibbs", random_state: Any = None, **options: Any
) -> Any:
    """Samples of a model.

    Parameters
    ----------
    model : BoltzmannMachine
    n_samples : number of rows.
    method : "exact" (independent; small finite models and "real"), "gibbs" (any model), "tempering" (rugged models).
    random_state : None, int, SeedSequence, Generator or RandomState.
    **options : of the chosen method; see its function. ``return_diagnostics=True`` returns (X, diagnostics).

    Returns
    -------
    X : (n_samples, n) array, in the dtype of the alphabet.

    Examples
    --------
    >>> model = BoltzmannMachine([0.1, 0.0, -0.2], {(0, 1): 0.3, (0, 1, 2): -0.1})
    >>> sample(model, 500, random_state=0).shape
    (500, 3)
    """
    function = choose("method", method, METHODS)
    check_options("method", method, function, options, n_positional=3)
    return function(model, n_samples, random_state, **options)
