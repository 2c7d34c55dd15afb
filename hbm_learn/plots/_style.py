"""What the displays share: colours, names, and axes to draw on.

Names come from the user's table, and are drawn as they are (``parse_math=False``): a dollar sign is no formula.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from hbm_learn.names import default_names, short_names

# Signed weights: a diverging map that the colour-blind can read, centred at 0, and its two ends for lines.
DIVERGING = "RdBu_r"
POSITIVE, NEGATIVE = "#b2182b", "#2166ac"
# The size of a table of labels, which has no sign.
SIZES, UNSIGNED = "Greys", "#4d4d4d"
INK, FAINT = "#222222", "#888888"
# Orders, by colour (Okabe–Ito) and by marker, so that colour is never the only sign.
_ORDER_COLOURS = {1: "#555555", 2: "#0072B2", 3: "#D55E00", 4: "#009E73"}
_ORDER_MARKERS = {1: "o", 2: "s", 3: "^", 4: "D"}
_ORDER_NAMES = {1: "single variables", 2: "pairs", 3: "triplets", 4: "quadruplets"}
CHAIN_COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#000000"]


def order_style(order: int) -> dict[str, Any]:
    """Colour and marker of an order."""
    return {"color": _ORDER_COLOURS.get(order, "#CC79A7"), "marker": _ORDER_MARKERS.get(order, "P")}


def order_name(order: int) -> str:
    """pairs, triplets, …"""
    return _ORDER_NAMES.get(order, f"order {order}")


def names_or_numbers(names: Sequence[str] | None, n: int, most: int = 24) -> list[str]:
    """Names to write in a picture: long ones shortened, x0, x1, … where there are none."""
    if names is None:
        return default_names(n)
    if len(names) != n:
        raise ValueError(f"feature_names has {len(names)} names for {n} variables: give one for each.")
    return short_names([str(name) for name in names], most)


def wrapped(name: str, most: int) -> str:
    """A name on lines of at most ``most`` letters, broken after spaces, underscores and signs, where it has some."""
    lines = [""]
    for part in re.findall(r"[^\s_·-]*[\s_·-]*", name):
        if lines[-1] and len((lines[-1] + part).rstrip()) > most:
            lines.append("")
        lines[-1] += part
    return "\n".join(line.strip(" ") for line in lines)


def one_axes(ax: Any, size: tuple[float, float]) -> Any:
    """The Axes given, or one in a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def several_axes(ax: Any, n: int, size: tuple[float, float], *, stacked: bool = False) -> list[Any]:
    """n Axes: in a new figure, the n that were given, or the place of the one that was given, divided."""
    shape = (n, 1) if stacked else (1, n)
    if ax is None:
        import matplotlib.pyplot as plt

        return list(plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)[1].ravel())
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) == n:
        return given
    if len(given) > 1:
        raise ValueError(f"ax holds {len(given)} axes; give None, one, or {n}.")
    from matplotlib.gridspec import GridSpecFromSubplotSpec

    whole = given[0]
    if whole.get_subplotspec() is None:
        raise ValueError("ax was not made by subplots, so that it cannot be divided: give a list of axes.")
    whole.set_axis_off()
    grid = GridSpecFromSubplotSpec(*shape, subplot_spec=whole.get_subplotspec(), wspace=0.35, hspace=0.25)
    return [whole.figure.add_subplot(grid[i]) for i in range(n)]


def clean(ax: Any) -> None:
    """Only the two spines that carry scales."""
    ax.spines[["top", "right"]].set_visible(False)
