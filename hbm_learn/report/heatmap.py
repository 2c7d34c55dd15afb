"""The table of weights of one interaction of labels, as a small heat map in HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from hbm_learn.model import BoltzmannMachine
from hbm_learn.names import value_name
from hbm_learn.plots.coupling_table import MAX_PANELS, Panel, panels
from hbm_learn.report import words

# Larger tables are told by their strongest entries.
MAX_CELLS, MAX_ENTRIES = 400, 12
_RED, _BLUE = "178,24,43", "33,102,172"


def heatmap(model: BoltzmannMachine, r: int, names: Sequence[str]) -> str:
    """Interaction r of a model: a table for each part of it, or its strongest entries if it is large."""
    parts = panels(model, r, names)
    if len(parts) > MAX_PANELS or sum(part.J.size for part in parts) > MAX_CELLS:
        return _entries(model, r, names)
    limit = max(float(np.abs(part.J).max()) for part in parts) or 1.0
    return f'<div class="heat">{"".join(_panel(part, limit) for part in parts)}</div>'


def n_cells(model: BoltzmannMachine, r: int) -> int:
    """The size of the table of interaction r; 0 without a nominal member."""
    nominal = [i for i in set(model.terms.members(r)) if model.space.alphabets[i].is_nominal]
    return int(np.prod(model.space.sizes[nominal])) if nominal else 0


def _panel(part: Panel, limit: float) -> str:
    caption = f"<caption>{escape(part.where)}</caption>" if part.where else ""
    corner = f"{escape(part.row_name)} ╲ {escape(part.column_name)}" if part.row_name else escape(part.column_name)
    header = "".join(f'<th scope="col">{escape(label)}</th>' for label in part.columns)
    body = "".join(
        f'<tr><th scope="row">{escape(label or "weight")}</th>{"".join(_cell(w, limit) for w in row)}</tr>'
        for label, row in zip(part.rows, part.J.tolist())
    )
    return f'<table>{caption}<thead><tr><th scope="col">{corner}</th>{header}</tr></thead><tbody>{body}</tbody></table>'


def _cell(weight: float, limit: float) -> str:
    share = 0.85 * abs(weight) / limit
    ink = ";color:#fff" if share > 0.55 else ""
    colour = _RED if weight > 0 else _BLUE
    digits = max(2, 1 - int(np.floor(np.log10(limit))))
    return f'<td style="background:rgba({colour},{share:.2f}){ink}">{words.signed(weight, digits)}</td>'


def _entries(model: BoltzmannMachine, r: int, names: Sequence[str]) -> str:
    J = np.asarray(model.table(r))
    nominal = [i for i in dict.fromkeys(model.terms.members(r)) if model.space.alphabets[i].is_nominal]
    strongest = np.argsort(-np.abs(J), axis=None, kind="stable")[:MAX_ENTRIES]
    items = []
    for place in np.stack(np.unravel_index(strongest, J.shape), axis=1):
        labels = [value_name(model.space.alphabets[i].values[k]) for i, k in zip(nominal, place)]  # type: ignore[index]
        where = ", ".join(f"{names[i]} = {label}" for i, label in zip(nominal, labels))
        items.append(f"<li>{escape(where)}: {words.signed(float(J[tuple(place)]))}</li>")
    return f"<p>The {len(items)} strongest of {J.size:,} weights:</p><ul>{''.join(items)}</ul>"
