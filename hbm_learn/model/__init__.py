"""The model: fields, own weights and couplings of variables of any kind."""

from hbm_learn.model.machine import BoltzmannMachine

__all__ = ["BoltzmannMachine"]
