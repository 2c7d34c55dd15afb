"""The data in the report: what was read, and each variable with its values."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np

from hbm_learn.assessment import summary
from hbm_learn.data.samples import Samples
from hbm_learn.estimator import HBM
from hbm_learn.names import feature_names, value_name
from hbm_learn.report import words
from hbm_learn.report.columns import missing_cells, ordered_categories

# Variables in the file, and values of one of them.
MAX_VARIABLES = 500
MAX_BARS = 16
# What the summary says of the whole fit, and the report as well.
_FROM_SUMMARY = ("Given", "Order", "Prior", "Evidence")


def data(est: HBM, X: Any, source: str | None) -> str:
    """Facts about the table, and a table of its variables."""
    names, n_rows = feature_names(est), int(np.shape(X)[0])
    gaps = Samples.check(X, space=est.model_.space, allow_nan=True).n_incomplete
    facts = {
        "source": source or "not given",
        "rows": f"{n_rows:,}" + (f", {gaps:,.0f} with missing values" if gaps else ""),
        "variables": f"{est.n_features_in_:,} ({words.all_values(est.model_.space)})",
        "model": words.fitted(est),
    }
    facts |= {name.lower(): value for name, value in summary.head(est) if name.split()[0] in _FROM_SUMMARY}
    listed = "".join(f"<dt>{escape(key)}</dt><dd>{escape(value)}</dd>" for key, value in facts.items())
    more = f" (the first {MAX_VARIABLES} are shown)" if len(names) > MAX_VARIABLES else ""
    return (
        f"<dl>{listed}</dl><details><summary>All {len(names):,} variables{more}</summary>"
        f"{_variables(est, X, names)}</details>"
    )


def _variables(est: HBM, X: Any, names: list[str]) -> str:
    missing, ordered = missing_cells(X), ordered_categories(X)
    mixed = not est.model_.space.is_numeric or est.model_.space.has_given

    def gaps(i: int) -> str:
        share = 0.0 if missing is None else missing[i] / np.shape(X)[0]
        return f"<small>{words.percent(share)} missing</small>" if share else ""

    shown = range(min(len(names), MAX_VARIABLES))
    rows = "".join(
        f'<tr><th scope="row">{escape(names[i])}{gaps(i)}{_bars(est, i, ordered.get(i))}</th>'
        + (f'<td class="wide">{_kind(est, i)}</td>' if mixed else "")
        + "".join(f'<td class="n {width}">{cell}</td>' for cell, width in zip(_numbers(est, i), ("", "wide", "")))
        + "</tr>"
        for i in shown
    )
    note, kind = "", '<th scope="col" class="wide">kind</th>' if mixed else ""
    if any(_has_bars(est, i) for i in shown):
        note = (
            '<p class="note">Bars are shares of the rows that were fitted. Behind them stands the own weight of each '
            "value, what the model gives it apart from all interactions, in nats about their mean.</p>"
        )
    return (
        f'{note}<div class="scroll"><table class="variables"><thead><tr><th scope="col">variable</th>'
        f'{kind}<th scope="col">mean</th>'
        '<th scope="col" class="wide">standard deviation</th><th scope="col">field h</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _numbers(est: HBM, i: int) -> tuple[str, str, str]:
    """Mean, standard deviation and field of a numeric variable; nothing of a nominal one."""
    space, moments = est.model_.space, est.moments_
    if space.alphabets[i].is_nominal:
        return "", "", ""
    c = space.column_ptr[i]  # x itself is the first function of a number
    deviation = float(np.sqrt(max(moments.covariance[c, c], 0.0)))
    field = "" if space.given[i] else f"{words.signed(est.h_[i])} ± {est.h_standard_errors_[i]:.3f}"
    return words.signed(moments.mean[c]), f"{deviation:.3f}", field


def _kind(est: HBM, i: int) -> str:
    """Numeric or nominal, and whether it is given."""
    space = est.model_.space
    return words.kind(space.alphabets[i]) + ", given" * bool(space.given[i])


def _has_bars(est: HBM, i: int) -> bool:
    """Of two numbers, mean and field say everything."""
    alphabet = est.model_.space.alphabets[i]
    return alphabet.is_finite and (alphabet.is_nominal or alphabet.size > 2)


def _bars(est: HBM, i: int, ordered: list[Any] | None) -> str:
    """The values of a variable with their shares and own weights, as small bars; ordered categories by name."""
    if not _has_bars(est, i):
        return ""
    shares, own = est.moments_.frequencies[i], est.model_.own[i]
    # What is given has no weights of its own.
    weights = [""] * len(own) if est.model_.space.given[i] else [words.signed(float(w), 2) for w in own - own.mean()]
    alphabet = est.model_.space.alphabets[i]
    values = [value_name(v) for v in alphabet.values.tolist()]  # type: ignore[union-attr]
    if ordered is not None and not alphabet.is_nominal and alphabet.bounds[1] < len(ordered):
        values = [value_name(ordered[int(v)]) for v in alphabet.nodes]
    shown = range(len(values)) if len(values) <= MAX_BARS else np.sort(np.argsort(-shares, kind="stable")[:MAX_BARS])
    rows = "".join(
        f'<span>{escape(values[k])}</span><i><b style="width:{100 * shares[k] / shares.max():.1f}%"></b></i>'
        f"<span>{words.percent(float(shares[k]))}</span><span>{weights[k]}</span>"
        for k in shown
    )
    left = len(values) - len(shown)
    return f'<div class="bars">{rows}</div>' + (f"<small>… and {left} rarer values</small>" if left else "")
