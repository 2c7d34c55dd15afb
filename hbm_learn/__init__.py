"""hbm_learn: learn higher-order Boltzmann machines from data.

The path of data::

    samples ──► moments ──► inversion ──► model ──► inference (moments, log Z)
                                            └─────► sampling  (samples)

``HBM`` is a facade over these stages; each stage is an entry point of its own.
"""

from hbm_learn import datasets
from hbm_learn.data.moments import Moments
from hbm_learn.estimator import HBM
from hbm_learn.inference import infer
from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import sample
from hbm_learn.space import Alphabet, Interval

__version__ = "0.1.0"

__all__ = [
    "HBM",
    "Alphabet",
    "BoltzmannMachine",
    "Interactions",
    "Interval",
    "Moments",
    "datasets",
    "infer",
    "sample",
]
