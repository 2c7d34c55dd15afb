"""Enumeration: P(x) on all states of a model, and every moment of it."""

from hbm_learn.states.table import MAX_STATES, StateTable

__all__ = ["MAX_STATES", "StateTable"]
