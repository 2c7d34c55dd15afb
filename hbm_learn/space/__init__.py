"""What each variable is: its values, its functions, its gauges."""

from hbm_learn.space.alphabet import Alphabet, Interval, Nominal
from hbm_learn.space.space import MAX_VALUES, MISSING, Space

__all__ = ["MAX_VALUES", "MISSING", "Alphabet", "Interval", "Nominal", "Space"]
