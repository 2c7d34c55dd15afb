"""What each variable is: its values, its functions, its gauges."""

from hbm_learn.space.alphabet import Alphabet, Interval, Nominal
from hbm_learn.space.codes import MAX_VALUES, MISSING
from hbm_learn.space.space import Space

__all__ = ["MAX_VALUES", "MISSING", "Alphabet", "Interval", "Nominal", "Space"]
