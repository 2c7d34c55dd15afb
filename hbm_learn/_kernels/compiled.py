"""``njit`` of all kernels: numba is imported, and a kernel made, when the first of them is called.

A third of the time that the package takes to import would be numba's, which reading help or a model does not need.
Where compiled code is kept is said in ``caches``.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

_MAKING = threading.RLock()


class Deferred:
    """What ``make`` makes of a function, once it is called or asked for anything.

    numba finds the kernels that a kernel calls among the globals of its module, and must find its own objects there:
    so all that are deferred in a module are made together, and put in the places of their stand-ins.
    """

    def __init__(self, function: Callable, make: Callable[[Callable], Any]) -> None:
        functools.update_wrapper(self, function)
        self.function, self.make = function, make
        self.made: Any = None
        self.complete: Any = None

    def __call__(self, *args: Any) -> Any:
        return (self.complete or self.ready())(*args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "complete":  # asked for by copy and pickle, before anything is set
            raise AttributeError(name)
        return getattr(self.ready(), name)

    def ready(self) -> Any:
        """What was made, its module's other kernels beside it."""
        with _MAKING:
            if self.made is None:
                self.made = self.make(self.function)
                names = self.function.__globals__
                for name, value in list(names.items()):
                    if isinstance(value, Deferred):
                        names[name] = value.ready() if value.made is None else value.made
            self.complete = self.made  # not before the globals are in order: other threads call it from now on
            return self.made


def njit(**options: Any) -> Callable[[Callable], Any]:
    """``numba.njit``, as a decorator with options, deferred, and with a cache that may be out of reach.

    With NUMBA_DISABLE_JIT=1 kernels run as Python: a thousand times slower, and to the same results.
    """

    def make(function: Callable) -> Any:
        import numba

        if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return np.errstate(all="ignore")(function)  # words wrap around, and compiled code says nothing of it
        from hbm_learn._kernels.caches import KernelCache

        made = numba.njit(**{**options, "cache": False})(function)
        if options.get("cache"):
            vars(made)["_cache"] = KernelCache(function)
        return made

    return lambda function: Deferred(function, make)


def intrinsic(python: Callable) -> Callable[[Callable], Any]:
    """``numba.extending.intrinsic``, deferred; with NUMBA_DISABLE_JIT=1 the function ``python``."""

    def make(function: Callable) -> Any:
        import numba
        from numba.extending import intrinsic

        return python if numba.config.DISABLE_JIT else intrinsic(function)  # type: ignore[attr-defined]

    return lambda function: Deferred(function, make)
