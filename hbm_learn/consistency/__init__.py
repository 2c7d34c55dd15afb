"""Diagonal consistency for given covariances, and own weights for given marginals: what both directions share."""

from hbm_learn.consistency.reaction import reaction
from hbm_learn.consistency.response import consistent_lambda
from hbm_learn.consistency.sites import own_weights, quadratic_parameters

__all__ = ["consistent_lambda", "own_weights", "quadratic_parameters", "reaction"]
