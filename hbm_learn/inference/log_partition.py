"""Small pieces between a fitted model and the estimator's methods: ln Z by name, checks of moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn._validation import choose
from hbm_learn.inference import infer
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import ais
from hbm_learn.states import MAX_STATES

if TYPE_CHECKING:
    from hbm_learn.data.moments import Moments


def log_partition(model: BoltzmannMachine, method: str, random_state: Any) -> float:
    """ln Z by "exact", "dc" or "ais"; "auto" takes the first that is affordable and unbiased."""
    if method == "auto":
        affordable = model.space.is_real or model.space.enumerable(MAX_STATES)
        method = "exact" if affordable else "ais"
    return choose(
        "method",
        method,
        {
            "exact": lambda: infer(model, "exact").log_partition,
            "dc": lambda: infer(model, "dc").log_partition,
            "ais": lambda: ais.log_partition(model, random_state=random_state)[0],
        },
    )()


def require_variation(moments: Moments) -> None:
    """Refuse constant columns by name: their field would be infinite, and no prior is on fields."""
    constant = np.flatnonzero(~(np.diag(moments.covariance) > 0))
    if constant.size:
        names = moments.feature_names
        labels = ", ".join(str(i) if names is None else repr(names[i]) for i in constant[:10])
        more = f" and {constant.size - 10} more" if constant.size > 10 else ""
        if moments.n_samples <= 1:
            raise ValueError(f"only 1 sample (n_samples = {moments.n_samples:g}): nothing varies; give more rows.")
        raise ValueError(
            f"column {labels}{more} is constant, so that its field would be infinite: drop it (for instance with "
            f"sklearn.feature_selection.VarianceThreshold), or give more samples (n_samples = {moments.n_samples:g})."
        )
