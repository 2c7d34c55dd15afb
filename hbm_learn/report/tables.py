"""The tables of the report: interactions, held-out scores, the data."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from hbm_learn.assessment import heldout as _heldout
from hbm_learn.estimator import HBM
from hbm_learn.report import words as wording

# Rows of the table of interactions, and of that of variables, in the file.
MAX_ROWS = 2000
MAX_VARIABLES = 500


def interval(rows: wording.Rows, r: int) -> str:
    return f"{wording.signed(rows.low[r])} to {wording.signed(rows.high[r])}"


def interactions(est: HBM, level: float) -> str:
    rows = wording.strongest(est, MAX_ROWS, level)
    if not len(rows):
        return "<p>No interaction is in the model.</p>"
    widest = float(np.abs([rows.low, rows.high]).max()) or 1.0
    body = "\n".join(_row(rows, r, widest, wording.level_of(est)) for r in range(len(rows)))
    total = len(est.weights_)
    note = f"The {len(rows):,} surest of {total:,} interactions are in this file." if total > len(rows) else ""
    orders = "".join(f'<option value="{k}">order {k}</option>' for k in np.unique(rows.order).tolist())
    columns = [
        ("interaction", "", "ascending"),
        ("order", "wide", "ascending"),
        ("weight", "", ""),
        (f"{100 * level:g} % interval", "wide", ""),
        ("z", "wide", ""),
        ("q", "", "ascending"),
    ]
    header = "".join(
        f'<th scope="col" class="{kind}" data-first="{first}"><button type="button">{name}</button></th>'
        for name, kind, first in columns
    )
    return f"""<div class="controls">
<label>Search by variable <input id="search" type="search" placeholder="such as {escape(rows.labels[0])}"></label>
<label>Order <select id="order"><option value="">all</option>{orders}</select></label>
<span class="note" id="count" role="status"></span>
</div>
<div class="scroll"><table id="couplings">
<caption class="note">Surest first; press a heading to sort. Grey rows do not pass the test. {note}</caption>
<thead><tr>{header}<th scope="col" class="wide">picture</th></tr></thead>
<tbody>
{body}
</tbody></table></div>
<p class="more"><button type="button" id="more" hidden>Show all</button></p>"""


def _row(rows: wording.Rows, r: int, widest: float, fdr: float) -> str:
    def at(x: float) -> str:
        return f"{50 + 48 * x / widest:.1f}%"

    weight, sign = rows.weight[r], "pos" if rows.weight[r] > 0 else "neg"
    weak = "" if rows.q[r] <= fdr else ' class="weak"'
    width = f"{48 * (rows.high[r] - rows.low[r]) / widest:.1f}%"
    z = f"{rows.z[r]:+.1f}".replace("-", "−")
    return (
        f'<tr data-order="{rows.order[r]}" data-rank="{r}"{weak}><th scope="row">{escape(rows.labels[r])}</th>'
        f'<td class="wide" data-v="{rows.order[r]}">{rows.order[r]}</td>'
        f'<td class="n" data-v="{weight:.6g}">{wording.signed(weight)}<small>{interval(rows, r)}</small></td>'
        f'<td class="n wide" data-v="{rows.high[r] - rows.low[r]:.6g}">{interval(rows, r)}</td>'
        f'<td class="n wide" data-v="{rows.z[r]:.6g}">{z}</td>'
        f'<td class="n" data-v="{rows.q[r]:.6g}">{escape(wording.small(rows.q[r]))}</td>'
        f'<td class="forest wide" aria-hidden="true"><span class="{sign}">'
        f'<i style="left:{at(rows.low[r])};width:{width}"></i><b style="left:{at(weight)}"></b></span></td></tr>'
    )


def heldout(est: HBM, X: Any) -> str:
    try:
        held = _heldout.by_order(est, X)
    except ValueError as error:
        return f"<p>Not compared: {escape(str(error))}</p>"
    added = {1: "single variables", 2: "pairs", 3: "triplets", 4: "quadruplets"}
    rows, sentences = [], []
    for i, k in enumerate(held.orders):
        gain = "" if i == 0 else f"{wording.signed(held.gain[i])} ± {held.gain_error[i]:.3f}"
        score = f"{held.score[i]:.3f}".replace("-", "−")
        rows.append(
            f'<tr><th scope="row">{k}: with {added.get(k, f"order {k}")}</th>'
            f'<td class="n">{score} ± {held.score_error[i]:.3f}</td><td class="n">{gain}</td></tr>'
        )
        if i:
            clear = abs(held.gain[i]) > 2 * held.gain_error[i]
            effect = "make no clear difference" if not clear else "help" if held.gain[i] > 0 else "hurt"
            sentences.append(f"{added.get(k, f'interactions of order {k}').capitalize()} {effect}.")
    about = (
        f"Each order was fitted anew to two thirds of {held.n_rows:,} rows and scored on the others, three times over: "
        "Σ ln P(variable | the rest of its row), in nats a row, with standard errors. Higher is better."
    )
    return (
        f"<p><strong>{escape(' '.join(sentences))}</strong> {escape(about)}</p>"
        '<div class="scroll"><table><thead><tr><th scope="col">order</th><th scope="col">held-out score</th>'
        '<th scope="col">gain</th></tr></thead><tbody>' + "".join(rows) + "</tbody></table></div>"
    )


def data(est: HBM, X: Any, source: str | None) -> str:
    moments, alphabet = est.moments_, est.model_.alphabet
    left_out = X.shape[0] - moments.n_samples
    facts = {
        "source": source or "not given",
        "rows": f"{X.shape[0]:,}" + (f", {left_out:,.0f} with missing values left out" if left_out else ""),
        "variables": f"{est.n_features_in_:,}, {wording.values(alphabet)}",
        "model": wording.fitted(est),
        "prior precision": ", ".join(f"order {k}: {a:.3g}" for k, a in est.alpha_.items()) or "none",
    }
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    names, m, h = wording.feature_names(est), moments.mean, est.h_
    deviation = np.sqrt(np.maximum(moments.second - m**2, 0.0))
    rows = "".join(
        f'<tr><th scope="row">{escape(names[i])}</th><td>{wording.signed(m[i])}</td><td>{deviation[i]:.3f}</td>'
        f"<td>{wording.signed(h[i])} ± {est.h_standard_errors_[i]:.3f}</td></tr>"
        for i in range(min(len(names), MAX_VARIABLES))
    )
    more = f" (the first {MAX_VARIABLES} are shown)" if len(names) > MAX_VARIABLES else ""
    return (
        f"<dl>{listed}</dl><details><summary>All {len(names):,} variables{more}</summary>"
        '<div class="scroll"><table><thead><tr><th scope="col">variable</th><th scope="col">mean</th><th scope="col">'
        'standard deviation</th><th scope="col">field h</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div></details>"
    )
