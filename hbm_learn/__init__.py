"""hbm_learn: learn higher-order Boltzmann machines from data.

The path of data::

    samples ──► moments ──► inversion ──► model ──► inference (moments, log Z)
                                            └─────► sampling  (samples)

Each stage is an entry point of its own.
"""

from hbm_learn.alphabet import Alphabet, Interval
from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine

__version__ = "0.1.0"

__all__ = ["Alphabet", "BoltzmannMachine", "Interactions", "Interval"]
