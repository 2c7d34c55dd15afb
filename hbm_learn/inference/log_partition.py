"""ln Z of a model by the name of a method."""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn._validation import choose
from hbm_learn.inference import infer
from hbm_learn.model import BoltzmannMachine, conditioning
from hbm_learn.sampling import ais
from hbm_learn.states import MAX_STATES


def log_partition(model: BoltzmannMachine, method: str, random_state: Any) -> float:
    """ln Z by "exact", "dc" or "ais"; "auto" takes the first that is affordable and unbiased."""
    return log_partition_and_error(model, method, random_state)[0]


def log_partitions(
    model: BoltzmannMachine, codes: np.ndarray, method: str, random_state: Any, weights: np.ndarray | None = None
) -> tuple[float, float]:
    """The mean of ln Z(z) over rows of codes, z their given entries, and its error; ln Z itself where none is given.

    Parameters
    ----------
    model : BoltzmannMachine
    codes : (rows, n) array
    method : {"auto", "exact", "dc", "ais"}
        For each distinct z.
    random_state : None, int, SeedSequence, Generator or RandomState
        Of "ais".
    weights : (rows,) array or None
        How often each row occurs.
    """
    if not model.space.has_given:
        return log_partition_and_error(model, method, random_state)
    distinct, which = conditioning.distinct_given(model.space, codes)
    share, rest = np.bincount(which, weights), np.flatnonzero(~model.space.given)
    share = share / share.sum()
    models = (conditioning.condition(model, row, rest) for row in distinct)
    found = np.array([log_partition_and_error(each, method, random_state) for each in models])
    return float(share @ found[:, 0]), float(np.sqrt(share**2 @ found[:, 1] ** 2))


def log_partition_and_error(model: BoltzmannMachine, method: str, random_state: Any) -> tuple[float, float]:
    """ln Z and its Monte Carlo error: 0 for "exact", NaN for "dc", which has a bias and no error."""
    if method == "auto":
        affordable = model.space.is_real or model.space.enumerable(MAX_STATES)
        method = "exact" if affordable else "ais"
    return choose(
        "method",
        method,
        {
            "exact": lambda: (infer(model, "exact").log_partition, 0.0),
            "dc": lambda: (infer(model, "dc").log_partition, float("nan")),
            "ais": lambda: ais.log_partition(model, random_state=random_state),
        },
    )()
