"""ln Z of a model by the name of a method."""

from __future__ import annotations

from typing import Any

from hbm_learn._validation import choose
from hbm_learn.inference import infer
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import ais
from hbm_learn.states import MAX_STATES


def log_partition(model: BoltzmannMachine, method: str, random_state: Any) -> float:
    """ln Z by "exact", "dc" or "ais"; "auto" takes the first that is affordable and unbiased."""
    return log_partition_and_error(model, method, random_state)[0]


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
