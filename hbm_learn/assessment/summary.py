"""A fit as a table: a data frame with everything, and a summary as users of statsmodels know it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from hbm_learn.assessment import intervals
from hbm_learn.assessment.tests import Tests
from hbm_learn.inversion.result import InversionResult
from hbm_learn.names import interaction_name
from hbm_learn.states import MAX_STATES

TESTS = {
    "score": "the score test, which no prior enters",
    "wald": "the estimate without its prior over its error",
}
# Where the couplings of a learnt prior have their zero.
ORIGINS = {
    "mean": "a learnt mixture of couplings about the means",
    "middle": "a learnt mixture of couplings about the middle of the values",
    "mode": "a learnt mixture of couplings about the most frequent values",
    "coding": "a learnt mixture of couplings about the zeros of the coding",
}


def frame(
    result: InversionResult,
    tests: Tests,
    n_samples: float,
    names: Sequence[Any] | None = None,
    fdr: float | None = None,
    level: float = 0.95,
) -> Any:
    """pandas table with one row for each interaction of variables.

    Parameters
    ----------
    result : InversionResult
    tests : Tests
    n_samples : float
    names : sequence of str or None
        Of the variables; indices where there are none.
    fdr : float or None
        The level at which interactions were selected.
    level : float
        Of the intervals.

    Returns
    -------
    DataFrame
        interaction: tuple of variables, a repeated member for a power. order: number of variables. weight,
        standard_error: J in the user's coding. effect, effect_error: J̃ with every variable in units of its standard
        deviation about its mean. lower, upper: interval of the effect. z, df, p_value: of the test that the effect is
        zero. q_value: share of false findings among all of that order at least as sure. sign_rate: posterior
        probability that the effect has the other sign. n_effective: complete rows that would tell as much. selected:
        whether it is there by its own test (with ``fdr``, what is there only as a subset of another is not).
    """
    import pandas as pd

    terms = result.terms
    lower, upper = intervals.effect_intervals(result, level).T
    return pd.DataFrame(
        {
            "interaction": [mu if names is None else tuple(str(names[i]) for i in mu) for mu in terms.tuples],
            "order": terms.order,
            "weight": result.model.weights,
            "standard_error": result.standard_errors,
            "effect": result.effects,
            "effect_error": result.effect_errors,
            "lower": lower,
            "upper": upper,
            "z": tests.z,
            "df": terms.df,
            "p_value": tests.p_values,
            "q_value": tests.q_values,
            "sign_rate": intervals.sign_rates(result),
            "n_effective": result.n_effective(n_samples),
            "selected": np.ones(len(terms), dtype=bool) if fdr is None else tests.passing(fdr),
        }
    )


@dataclass(frozen=True)
class Summary:
    """Text (``str``, ``print``) and ``html`` of a fit.

    Attributes
    ----------
    head : list of (str, str)
        Name and value of what concerns the whole fit.
    header : list of str
        Names of the columns.
    rows : list of lists of str
        One for each interaction shown.
    foot : list of str
        Sentences below.
    """

    head: list[tuple[str, str]]
    header: list[str]
    rows: list[list[str]]
    foot: list[str]

    @classmethod
    def of(cls, est: Any, most: int = 20, level: float = 0.95) -> Summary:
        """The summary of a fitted estimator.

        Parameters
        ----------
        est : HBM
            Fitted.
        most : int
            How many interactions, surest first.
        level : float
            Of the intervals.
        """
        table = est.to_frame(level)
        order = np.argsort(-np.abs(table["z"].to_numpy()), kind="stable")[:most]
        percent, chosen = f"{100 * level:g} % interval", est.fdr is not None
        header = ["interaction", "effect", percent, "z", "df", "p", "q", *["kept by"] * chosen, "weight", "s.e."]
        rows = [_row(table.iloc[int(r)], chosen) for r in order]
        left = len(table) - len(rows)
        foot = [f"… and {left:,} more, less sure."] if left else []
        foot += [f"The interval is of the effect; z, p and q are of {TESTS[est.tests_.method]}."] if rows else []
        foot += [f"How far to trust it: {est.trust_.headline}.", *est.trust_.reasons, *est.result_.notes]
        return cls(head(est), header, rows, foot)

    def __str__(self) -> str:
        widths = [max(len(row[c]) for row in [self.header, *self.rows]) for c in range(len(self.header))]
        rule = "─" * (sum(widths) + 2 * len(widths) - 2)
        lines = [f"{name:<22}{value}" for name, value in self.head]
        lines += [rule, *("  ".join(_cells(row, widths)).rstrip() for row in [self.header, *self.rows]), rule]
        return "\n".join([*lines, *self.foot])

    @property
    def html(self) -> str:
        """One table with its head and foot; nothing to fetch."""
        head = "".join(
            f"<tr><th style='text-align:left'>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in self.head
        )
        columns = "".join(f"<th>{escape(name)}</th>" for name in self.header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in self.rows)
        foot = "".join(f"<p>{escape(sentence)}</p>" for sentence in self.foot)
        return f"<table>{head}</table><table><thead><tr>{columns}</tr></thead><tbody>{body}</tbody></table>{foot}"

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return str(self)


def head(est: Any) -> list[tuple[str, str]]:
    """Name and value of what concerns the whole of a fit."""
    space, terms = est.model_.space, est.result_.terms
    counts = ", ".join(f"{int((terms.order == k).sum()):,} of order {k}" for k in terms.keys.orders)
    sampled = est.result_.method == "likelihood" and not space.modelled.enumerable(MAX_STATES)
    names = getattr(est, "feature_names_in_", [f"x{i}" for i in range(space.n_features)])
    given = [("Given", ", ".join(str(names[i]) for i in np.flatnonzero(space.given)))] if space.has_given else []
    evidence = ", ".join(f"order {k} {x:+,.1f}" for k, x in est.evidence_.items() if k > 1)
    found = [
        ("Rows", f"{est.moments_.n_samples:,.0f}"),
        ("Variables", f"{space.n_features:,}"),
        *given,
        ("Interactions", counts or "none"),
        ("Order", chosen_order(est).removeprefix("Order ")),
        ("Method", est.result_.method + ", by Monte Carlo" * sampled),
        ("Prior", prior(est)),
    ]
    return [*found, ("Evidence (nats)", f"{evidence}, over independence")] if evidence else found


def chosen_order(est: Any) -> str:
    """The order, and who chose it."""
    by_evidence = est.order == "auto" and est.interactions is None and est.fdr is None and est.evidence_
    return f"Order {est.order_}" + (", by the evidence" if by_evidence else "")


def prior(est: Any) -> str:
    """The prior of the couplings, with one over its standard deviation squared for each order."""
    if not any(est.alpha_.values()):
        return "none"
    precision = ", ".join(f"{a:.3g} (order {k})" for k, a in est.alpha_.items())
    if est.origin_ is None:
        return f"{'learnt' if isinstance(est.alpha, str) else 'given'}, precision {precision}"
    return f"{ORIGINS[est.origin_]}, precision {precision}"


def _row(row: Any, chosen: bool) -> list[str]:
    mu = row["interaction"]
    name = interaction_name(mu, {i: f"x{i}" if isinstance(i, int) else str(i) for i in mu})
    interval = (
        f"[{row['lower']:+.3f}, {row['upper']:+.3f}]" if row["df"] == 1 else f"[{row['lower']:.3f}, {row['upper']:.3f}]"
    )
    numbers = [f"{row['z']:.2f}", f"{row['df']}", _small(row["p_value"]), _small(row["q_value"])]
    sign = "+" if row["df"] == 1 else ""  # the size of a block has none
    numbers += ["test" if row["selected"] else "subset"] * chosen
    weight, error = f"{row['weight']:{sign}.4g}", f"{row['standard_error']:.2g}"
    return [name, f"{row['effect']:{sign}.3f}", interval, *numbers, weight, error]


def _small(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.0e}"


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths))]
