"""``njit`` of all kernels: compiled code is kept on disk where that can be written, and in memory where it cannot.

numba refuses to import a cached function if neither the package nor the user's home can be written, and fails a call
if the disk is full or a file of the cache is damaged. None of this is a reason not to compute.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
import numpy as np
from numba.core.caching import FunctionCache


class ForgivingCache(FunctionCache):
    """A cache of compiled code that is as good as empty where it cannot be read or written."""

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, or None, which has it compiled anew: also for a file that is damaged."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # a pickle that was cut off raises nearly anything
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it, if there is room."""
        try:
            super().save_overload(sig, data)
        except Exception:  # the disk is full, the folder read-only by now, or an index file damaged
            self.disable()


def njit(**options: Any) -> Callable[[Callable], Any]:
    """``numba.njit``, as a decorator with options, whose cache may be out of reach.

    With NUMBA_DISABLE_JIT=1 kernels run as Python: a thousand times slower, and to the same results.
    """

    def decorate(function: Callable) -> Any:
        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return np.errstate(all="ignore")(function)  # words wrap around, and compiled code says nothing of it
        made = numba.njit(**{**options, "cache": False})(function)
        if options.get("cache"):
            with suppress(RuntimeError):  # no locator available: no folder that could be written
                vars(made)["_cache"] = ForgivingCache(function)
        return made

    return decorate
