"""The tables of the report: interactions, and held-out scores."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from hbm_learn.assessment import heldout as heldout_
from hbm_learn.estimator import HBM
from hbm_learn.names import feature_names
from hbm_learn.report import words
from hbm_learn.report.heatmap import heatmap, n_cells

# Rows of the table of interactions in the file, and cells of all tables of labels.
MAX_ROWS = 2000
MAX_CELLS = 10_000


def interactions(est: HBM, level: float) -> str:
    """The surest interactions, with what it takes to search and sort them."""
    rows = words.strongest(est, MAX_ROWS, level)
    if not len(rows):
        return "<p>No interaction is in the model.</p>"
    blocks = bool((rows.df > 1).any())
    columns = _columns(level, blocks, est.fdr is not None)
    total = len(est.weights_)
    note = f"The {len(rows):,} surest of {total:,} interactions are in this file." if total > len(rows) else ""
    orders = "".join(f'<option value="{k}">order {k}</option>' for k in np.unique(rows.order).tolist())
    header = "".join(
        f'<th scope="col" class="{kind}" data-first="{first}"><button type="button">{name}</button></th>'
        for name, kind, first in columns
    )
    about = "".join(f"<li>{escape(sentence)}</li>" for sentence in words.explained(est, blocks))
    return f"""<details><summary>What the columns are</summary><ul>{about}</ul></details>
<div class="controls">
<label>Search by variable <input id="search" type="search" placeholder="such as {escape(rows.labels[0])}"></label>
<label>Order <select id="order"><option value="">all</option>{orders}</select></label>
<span class="note" id="count" role="status"></span>
</div>
<div class="scroll"><table id="couplings">
<caption class="note">Surest first; press a heading to sort. {_grey(est)} {note}</caption>
<thead><tr>{header}<th scope="col" class="roomy">picture</th></tr></thead>
<tbody>
{_body(est, rows, [name for name, _, _ in columns])}
</tbody></table></div>
<p class="more"><button type="button" id="more" hidden>Show all</button></p>"""


def _grey(est: HBM) -> str:
    level = f"q above {words.level_of(est):g}"
    return f"Grey rows do not pass their own test ({level})" + ("." if est.fdr is None else ": they are subsets.")


def _columns(level: float, blocks: bool, chosen: bool) -> list[tuple[str, str, str]]:
    """(heading, class, how the first press sorts)."""
    return [
        ("interaction", "", "ascending"),
        ("order", "roomy", "ascending"),
        ("effect", "", ""),
        (f"{100 * level:g} % interval", "wide", ""),
        ("z", "wide", ""),
        *([("df", "roomy", "")] if blocks else []),
        ("q", "", "ascending"),
        *([("kept by", "roomy", "")] if chosen else []),
        ("weight", "wide", ""),
    ]


def _body(est: HBM, rows: words.Rows, columns: list[str]) -> str:
    """A row for each interaction, and below it the table of its labels while these are not too many."""
    names, model = feature_names(est), est.model_
    widest = float(np.abs([rows.low, rows.high]).max()) or 1.0
    parts, left = [], MAX_CELLS
    for r, position in enumerate(rows.position.tolist()):
        parts.append(_row(rows, r, widest, "df" in columns, "kept by" in columns))
        size = n_cells(model, position)
        if 0 < size <= left:
            left -= size
            parts.append(
                f'<tr class="labels"><td colspan="{len(columns) + 1}"><details><summary>weights by label</summary>'
                f"{heatmap(model, position, names)}</details></td></tr>"
            )
    return "\n".join(parts)


def _row(rows: words.Rows, r: int, widest: float, with_df: bool, chosen: bool) -> str:
    def at(x: float) -> str:
        return f"{50 + 48 * x / widest:.1f}%"

    effect, label = rows.effect[r], escape(rows.labels[r])
    sign = "none" if rows.df[r] > 1 else "pos" if effect > 0 else "neg"
    weak = "" if rows.passes[r] else ' class="weak"'
    width = f"{48 * (rows.high[r] - rows.low[r]) / widest:.1f}%"
    size, z, weight = rows.text("effect", r), rows.text("z", r, 1), rows.text("weight", r)
    df = f'<td class="n roomy" data-v="{rows.df[r]}">{rows.df[r] if rows.df[r] > 1 else ""}</td>' if with_df else ""
    kept = f'<td class="roomy" data-v="{int(rows.passes[r])}">{rows.kept(r)}</td>' if chosen else ""
    return (
        f'<tr data-order="{rows.order[r]}" data-rank="{r}" data-name="{label}"{weak}><th scope="row">{label}</th>'
        f'<td class="roomy" data-v="{rows.order[r]}">{rows.order[r]}</td>'
        f'<td class="n" data-v="{effect:.6g}">{size}<small>{rows.interval(r)}</small></td>'
        f'<td class="n wide" data-v="{rows.high[r] - rows.low[r]:.6g}">{rows.interval(r)}</td>'
        f'<td class="n wide" data-v="{rows.z[r]:.6g}">{z}</td>{df}'
        f'<td class="n" data-v="{rows.q[r]:.6g}">{escape(words.small(rows.q[r]))}</td>{kept}'
        f'<td class="n wide" data-v="{rows.weight[r]:.6g}">{weight}</td>'
        f'<td class="forest roomy" aria-hidden="true"><span class="{sign}">'
        f'<i style="left:{at(rows.low[r])};width:{width}"></i><b style="left:{at(effect)}"></b></span></td></tr>'
    )


def heldout(est: HBM, X: Any, grouped: bool = False) -> str:
    """Whether each order helps to tell rows that were not seen; ``grouped`` if rows belong together."""
    try:
        held = heldout_.by_order(est, X)
    except ValueError as error:
        return f"<p>Not compared: {escape(str(error))}</p>"
    rows, sentences = [], []
    for i, k in enumerate(held.orders):
        added = f"{words.KINDS[k]}s" if k in words.KINDS else f"interactions of order {k}"
        gain = "" if i == 0 else f"{words.signed(held.gain[i])} ± {held.gain_error[i]:.3f}"
        score = f"{held.score[i]:.3f}".replace("-", "−")
        rows.append(
            f'<tr><th scope="row">{k}: with {added}</th>'
            f'<td class="n">{score} ± {held.score_error[i]:.3f}</td><td class="n">{gain}</td></tr>'
        )
        if i:
            clear = abs(held.gain[i]) > 2 * held.gain_error[i]
            effect = "make no clear difference" if not clear else "help" if held.gain[i] > 0 else "hurt"
            sentences.append(f"{words.capital(added)} {effect}.")
    about = (
        f"Each order was fitted anew to two thirds of {held.n_rows:,} rows and scored on the others, three times over: "
        "Σ ln P(variable | the rest of its row), in nats a row, with standard errors. Higher is better."
    )
    if grouped:
        about += " Rows of one group may stand on both sides, so that the gains look surer than they are."
    return (
        f"<p><strong>{escape(' '.join(sentences))}</strong> {escape(about)}</p>"
        '<div class="scroll"><table><thead><tr><th scope="col">order</th><th scope="col">held-out score</th>'
        '<th scope="col">gain</th></tr></thead><tbody>' + "".join(rows) + "</tbody></table></div>"
    )
