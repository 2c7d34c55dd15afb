"""The model: fields, own weights and couplings of variables of any kind."""

from typing import Any

from hbm_learn.model.machine import BoltzmannMachine

__all__ = ["BoltzmannMachine", "require_model"]


def require_model(model: Any) -> None:
    """Refuse what is no model, with a word about where one is to be had."""
    if not isinstance(model, BoltzmannMachine):
        here = "model=est.model_ is the model of this fitted estimator" if hasattr(model, "model_") else ""
        what = here or "give a BoltzmannMachine, such as HBM().fit(X).model_"
        raise ValueError(f"model is of type {type(model).__name__}: {what}.")
