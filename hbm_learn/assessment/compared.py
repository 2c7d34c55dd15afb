"""Moments of a model beside those of data, in standard errors, and whether chance explains the largest difference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import norm

# Moments agree unless chance makes so large a largest |z| less often than this.
LEVEL = 1e-3


@dataclass(frozen=True, eq=False)
class Compared:
    """One group of moments of model and data.

    Attributes
    ----------
    z : (k,) array
        (model − data) in standard errors; NaN where too few rows carry a moment to say.
    errors : (k,) array
        Standard errors of the differences.
    names : sequence
        What each is: tuples of columns, or words.
    """

    z: np.ndarray
    errors: np.ndarray
    names: Any

    @property
    def n_compared(self) -> int:
        """How many moments there are to judge by."""
        return int(np.isfinite(self.z).sum())

    @property
    def largest(self) -> float:
        """The largest |z|; 0 if there is none."""
        return float(np.nanmax(np.abs(self.z))) if self.n_compared else 0.0

    @property
    def worst(self) -> Any:
        """The name of the moment with the largest |z|, or None."""
        return self.names[int(np.nanargmax(np.abs(self.z)))] if self.n_compared else None

    @property
    def chance(self) -> float:
        """How often the largest of so many |z| would be as large by chance: min(1, k · 2Φ(−max |z|))."""
        return min(1.0, max(self.n_compared, 1) * 2.0 * float(norm.sf(self.largest)))

    @property
    def agrees(self) -> bool:
        """Whether that is not below ``LEVEL``."""
        return self.chance >= LEVEL
