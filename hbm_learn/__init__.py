"""hbm_learn: learn higher-order Boltzmann machines from data.

The path of data::

    table ──► space, codes ──► moments ──► inversion ──► model ──► inference (moments, log Z)
              (what each                                  └─────► sampling  (samples)
              variable is)

``HBM`` is a facade over these stages; each stage is an entry point of its own.
"""

from hbm_learn import datasets
from hbm_learn.data.moments import Moments
from hbm_learn.estimator import HBM
from hbm_learn.inference import InferenceResult, infer
from hbm_learn.interactions import Interactions
from hbm_learn.inversion import InversionResult, invert
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import sample
from hbm_learn.space import Alphabet, Interval, Nominal, Space

__version__ = "0.2.0.dev0"

__all__ = [
    "HBM",
    "Alphabet",
    "BoltzmannMachine",
    "InferenceResult",
    "Interactions",
    "Interval",
    "InversionResult",
    "Moments",
    "Nominal",
    "Space",
    "datasets",
    "infer",
    "invert",
    "sample",
]
