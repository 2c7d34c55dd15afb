"""Inference: model → moments. One method a file; this registry is all they share with the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hbm_learn._validation import check_options, choose
from hbm_learn.inference.adaptive_tap import adaptive_tap
from hbm_learn.inference.auto import auto
from hbm_learn.inference.bethe import bethe, bethe2
from hbm_learn.inference.dc import dc
from hbm_learn.inference.dc2 import dc2
from hbm_learn.inference.exact import exact
from hbm_learn.inference.gibbs import gibbs
from hbm_learn.inference.naive import naive, susp
from hbm_learn.inference.odc import odc
from hbm_learn.inference.result import InferenceResult
from hbm_learn.inference.tap import tap
from hbm_learn.model import BoltzmannMachine, require_model

METHODS: dict[str, Callable[..., InferenceResult]] = {
    "auto": auto,
    "exact": exact,
    "naive": naive,
    "susp": susp,
    "tap": tap,
    "adaptive-tap": adaptive_tap,
    "dc": dc,
    "dc2": dc2,
    "bethe": bethe,
    "bethe2": bethe2,
    "odc": odc,
    "gibbs": gibbs,
}


def infer(model: BoltzmannMachine, method: str = "dc", **options: Any) -> InferenceResult:
    """Moments and log partition function of a model.

    Parameters
    ----------
    model : BoltzmannMachine
        Of any order, on variables of any kind.
    method : {"dc", "auto", "dc2", "bethe", "bethe2", "odc", "exact", "naive", "susp", "tap", "adaptive-tap", "gibbs"}
        The diagonal-consistent mean field by default.
    **options : dict
        Of the chosen method; see its function.

    Returns
    -------
    InferenceResult
        Means, covariances, probabilities, ln Z, and whether the method converged.

    Examples
    --------
    >>> from hbm_learn import BoltzmannMachine, infer
    >>> model = BoltzmannMachine([0.1, 0.0, -0.2], {(0, 1): 0.3, (0, 1, 2): -0.1})
    >>> infer(model, "exact").m.round(3).tolist()
    [0.1, 0.031, -0.225]
    """
    require_model(model)
    function = choose("method", method, METHODS)
    if model.space.has_given:
        raise ValueError(
            f"variables {np.flatnonzero(model.space.given).tolist()} of the model are given: it has moments once they "
            "have values; infer(model.condition(values))."
        )
    check_options("method", method, function, options)
    return function(model, **options)
