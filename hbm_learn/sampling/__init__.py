"""Sampling: model → samples. One sampler a file; this registry is all they share with the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hbm_learn._validation import check_integer, check_options, choose, memory
from hbm_learn.model import BoltzmannMachine, require_model
from hbm_learn.sampling import conditional
from hbm_learn.sampling.exact import exact
from hbm_learn.sampling.gibbs import gibbs
from hbm_learn.sampling.tempering import tempering

METHODS: dict[str, Callable[..., Any]] = {
    "exact": exact,
    "gibbs": gibbs,
    "tempering": tempering,
}


# "auto" lists all states up to this many.
MAX_AUTO_STATES = 2**20


def sample(
    model: BoltzmannMachine,
    n_samples: int,
    method: str = "auto",
    random_state: Any = None,
    *,
    given: Any = None,
    **options: Any,
) -> Any:
    """Samples of a model.

    Parameters
    ----------
    model : BoltzmannMachine
        Of any order, on variables of any kind.
    n_samples : int
        Number of rows.
    method : {"auto", "exact", "gibbs", "tempering"}
        "exact" (independent; small finite models and "real"), "gibbs" (any model), "tempering" (rugged models). "auto":
        exact up to 2**20 states and for "real", else gibbs; gibbs as well if any option is given, as all are of chains.
    random_state : None, int, SeedSequence, Generator or RandomState
        The same integer gives the same samples.
    given : (n_samples, g) table, or (g,) values for all rows, or None
        Values or labels of the g given variables of the model, in their order: row r is a sample of P(x | z_r).
        "gibbs" runs one chain for each row then, unless all rows are alike.
    **options : dict
        Of the chosen method; see its function. ``return_diagnostics=True`` returns (X, diagnostics).

    Returns
    -------
    (n_samples, n) array
        Numbers in the dtype of their values; objects with the labels where a variable is nominal.

    Examples
    --------
    >>> from hbm_learn import BoltzmannMachine, sample
    >>> model = BoltzmannMachine([0.1, 0.0, -0.2], {(0, 1): 0.3, (0, 1, 2): -0.1})
    >>> sample(model, 500, random_state=0).shape
    (500, 3)
    """
    require_model(model)
    needed = 8 * check_integer("n_samples", n_samples, 1) * model.n_features
    if needed > memory():
        raise ValueError(
            f"n_samples={n_samples:,} of {model.n_features} variables would take {needed / 2**30:,.0f} GiB: draw fewer "
            "at a time."
        )
    chosen = choose("method", method, {"auto": "auto", **dict(zip(METHODS, METHODS))})
    if model.space.has_given or given is not None:
        return conditional.sample_given(model, n_samples, given, chosen, random_state, sample, options)
    if chosen == "auto":
        listed = model.space.is_real or model.space.enumerable(MAX_AUTO_STATES)
        chosen = "exact" if listed and not options else "gibbs"
    function = METHODS[chosen]
    check_options("method", chosen, function, options, n_positional=3)
    return function(model, n_samples, random_state, **options)
