"""What to believe of a fit: intervals, tests, selection, trust; and of a study: resampling and planning.

``bootstrap``, ``stability`` and ``plan`` are for users, and are loaded when first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# Where each is. A fit needs none of them.
_HOMES = {
    "Bootstrap": "resampling",
    "Stability": "resampling",
    "bootstrap": "resampling",
    "stability": "resampling",
    "Plan": "planning",
    "plan": "planning",
}

__all__ = ["Bootstrap", "Plan", "Stability", "bootstrap", "plan", "stability"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
