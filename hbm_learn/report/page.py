"""The report: one HTML file, with nothing to fetch, that says what was found and how far to trust it."""

from __future__ import annotations

import base64
import io
import platform
import warnings
from collections.abc import Callable
from datetime import date
from html import escape
from importlib.resources import files
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

import hbm_learn
from hbm_learn import plots
from hbm_learn._validation import check_share
from hbm_learn.assessment import counts
from hbm_learn.data.samples import Samples
from hbm_learn.estimator import HBM
from hbm_learn.fitted import require_fitted
from hbm_learn.io.replacing import replacing
from hbm_learn.report import tables, words
from hbm_learn.report.columns import missing_cells
from hbm_learn.report.data import data
from hbm_learn.report.meaning import meaning
from hbm_learn.report.studies import studies
from hbm_learn.report.trust import trust
from hbm_learn.space import Space

CITATION = (
    "C. Takahashi, M. Yasuda and K. Tanaka, “Adaptive Thouless–Anderson–Palmer equation for higher-order Markov random "
    "fields”, arXiv:1811.06967."
)


def write(path: str | PathLike[str], estimator: HBM, X: Any, **options: Any) -> None:
    """Write the report of a fitted estimator.

    Parameters
    ----------
    path : str or path
        Where to: an .html file.
    estimator : HBM
        Fitted.
    X : table
        The samples that it was fitted to.
    **options : dict
        As in :func:`html`.
    """
    text = html(estimator, X, **options)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def html(
    estimator: HBM,
    X: Any,
    *,
    level: float = 0.95,
    source: str | None = None,
    command: str | None = None,
    groups: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> str:
    """The report as a string.

    Parameters
    ----------
    estimator : HBM
        Fitted.
    X : table
        The samples that it was fitted to.
    level : float
        Of the intervals.
    source : str or None
        Where the samples are from, such as the name of a file.
    command : str or None
        The command that makes the report again, if there is one.
    groups : str or None
        What the groups of rows were, if the fit was given some.
    progress : callable
        Called with the name of each step.
    """
    require_fitted(estimator, X)
    check_share("level", level, "a probability between 0 and 1, such as 0.95")
    progress("comparing moments")
    moments = plots.MomentsDisplay.from_estimator(estimator, given=given_values(estimator.model_.space, X))
    progress("drawing")
    figures = _figures(estimator, moments)
    together = _together(estimator, X)
    progress("scoring held-out rows")
    heldout = tables.heldout(estimator, X, groups is not None)
    progress("writing the report")
    name = Path(source).name if source else "the data"
    return _template("report.html").substitute(
        css=_text("report.css"),
        js=_text("report.js"),
        version=hbm_learn.__version__,
        date=date.today().isoformat(),
        title=escape(f"What interacts with what in {name}"),
        lead=escape(_lead(estimator, level)),
        trust=trust(estimator, level),
        together=together,
        meaning="".join(f"<p>{escape(sentence)}</p>" for sentence in meaning(estimator)),
        table=tables.interactions(estimator, level),
        studies=_studies(estimator, X),
        figures=figures,
        heldout=heldout,
        data=data(estimator, X, source) + _gaps(X),
        again=_again(estimator, source, command, groups),
    )


# ---------------------------------------------------------------------- words


def _lead(est: HBM, level: float) -> str:
    M, n = est.moments_.n_samples, est.n_features_in_
    size = f"{words.counted(M, 'row')} of {words.counted(n, 'variable')}. "
    rows = words.strongest(est, 1, level)
    if not len(rows):
        return size + words.found(est)
    margin = f"{rows.text('effect', 0)}, {100 * level:g} % interval {rows.interval(0)}"
    return f"{size}{words.found(est)} The surest is {rows.labels[0]} (effect {margin})."


def _again(est: HBM, source: str | None, command: str | None, groups: str | None) -> str:
    where = f"the samples in {source}" if source else "the samples"
    labels = "" if groups is None else f"labels = …  # the column {groups}, which is not among those of X\n"
    fit = f"{est!r}.fit(X{', groups=labels' * bool(labels)})"
    code = (
        "from hbm_learn import HBM, report\n\n"
        f"X = …  # {where}, as an array or a data frame\n{labels}est = {fit}\nreport.write('report.html', est, X)"
    )
    shell = "" if command is None else f"<p>In a terminal:</p><pre>{escape(command)}</pre>"
    versions = f"hbm_learn {hbm_learn.__version__}, NumPy {np.__version__}, Python {platform.python_version()}"
    return (
        f"{shell}<p>In Python:</p><pre>{escape(code)}</pre><p class='note'>{escape(versions)}</p>"
        f"<p>If this is of use in published work, please cite the software, hbm_learn {hbm_learn.__version__}, and the "
        f"method that it builds on: {escape(CITATION)}</p>"
    )


# ---------------------------------------------------------------------- pictures


def given_values(space: Space, X: Any) -> np.ndarray | None:
    """(rows, g) values of the given columns of a table; None where there are none."""
    if not space.has_given:
        return None
    samples = Samples.check(X, space=space, allow_nan=True)
    codes = np.concatenate([block[:, space.given] for block, _ in samples.blocks()])
    return space.subset(np.flatnonzero(space.given)).decode(codes)


def _figures(est: HBM, moments: plots.MomentsDisplay) -> str:
    parts = []
    if len(est.weights_):
        level = words.level_of(est)
        hypergraph = plots.HypergraphDisplay.from_estimator(est, max_q=level)
        if len(hypergraph.shown_):
            text = "Lines are pairs and triangles triplets; solid and red for positive, dashed and blue for negative."
            if (est.result_.df > 1).any():
                text += " Grey ones are tables of labels, which have a size and no sign."
            alt = f"Graph of {len(hypergraph.shown_)} interactions among {est.n_features_in_} variables."
            parts.append(_figure(hypergraph.figure_, alt, text, "medium"))
        text = "Each marker is an interaction. Filled ones stand above the line of the false-discovery rate."
        if est.fdr is not None:
            text += " Open ones were tested and not kept, or kept as subsets only; those outside the model stand at"
            text += " what the closed form makes of them."
        volcano = plots.VolcanoDisplay.from_estimator(est)
        parts.append(_figure(volcano.figure_, "Evidence against effect of every interaction tested.", text, "narrow"))
        if len(est.model_.columns.block(2)):
            matrix = plots.CouplingMatrixDisplay.from_estimator(est)
            text = "Effects of pairs; red is positive, blue negative, and the diagonal has none."
            parts.append(_figure(matrix.figure_, "Matrix of the effects of pairs.", text, "narrow"))
    text = (
        "What the data shows against what the fitted model tells, by order, with standard errors. Points on the line "
        "are told well, whether or not their interaction is in the model."
    )
    parts.append(_figure(moments.figure_, "Observed against fitted moments, a panel for each order.", text, "panorama"))
    return "\n".join(parts)


def _studies(est: HBM, X: Any) -> str:
    """The section on given columns, if there are some."""
    parts = studies(est, X)
    if not parts:
        return ""
    shown = [
        f"<p>{escape(part.text)}</p>" if part.figure is None else _figure(part.figure, part.alt, part.text, part.kind)
        for part in parts
    ]
    title = '<section aria-labelledby="given">\n<h2 id="given">What depends on the given columns</h2>\n'
    return title + "\n".join(shown) + "\n</section>"


def _together(est: HBM, X: Any) -> str:
    """What all variables do together, in data and model; why not, where that cannot be drawn."""
    try:
        display = plots.TotalDisplay.from_estimator(est, X)
    except ValueError as error:
        return f'<p class="note">Not drawn: {escape(str(error))}</p>'
    what = "The sum of all variables, each in units of its standard deviation about its mean,"
    if counts.are_events(est.model_.space):
        what = "How many variables are 1 in a row,"
    text = (
        f"{what} in the data and in the model, with twice the standard errors of their difference. Where the tails "
        "differ, the model lacks something that all variables have in common."
    )
    alt = "Distribution of the sum of all variables, data against model, on two scales."
    return _figure(display.figure_, alt, text, "panorama")


def _gaps(X: Any) -> str:
    """What is missing where, if something is."""
    missing = missing_cells(X)
    if missing is None or not missing.any():
        return ""
    text = (
        "The share of missing cells of each column, and the columns that are missing together, each pattern a stripe."
    )
    alt = f"Shares of missing cells in {int((missing > 0).sum())} columns, and the patterns in which they are missing."
    return _figure(plots.MissingDisplay.from_data(X).figure_, alt, text, "panorama")


def _figure(figure: Any, alt: str, caption: str, kind: str = "") -> str:
    """A matplotlib figure as SVG in a data URI, where its identifiers cannot meet those of another."""
    uri = "data:image/svg+xml;base64," + base64.b64encode(_svg(figure)).decode()
    return (
        f'<figure class="{kind}"><div><img src="{uri}" alt="{escape(alt)}"></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _svg(figure: Any) -> bytes:
    """Letters as outlines, which look the same everywhere; as text, for the reader's fonts, where ours lack some."""
    import matplotlib.pyplot as plt

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "Glyph")
            return _saved(figure, "path")
    except UserWarning:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph")
            return _saved(figure, "none")
    finally:
        plt.close(figure)


def _saved(figure: Any, letters: str) -> bytes:
    import matplotlib.pyplot as plt

    buffer = io.BytesIO()
    with plt.rc_context({"svg.hashsalt": "hbm_learn", "svg.fonttype": letters}):
        figure.savefig(buffer, format="svg", metadata={"Date": None}, dpi=150)
    return buffer.getvalue()


def _text(name: str) -> str:
    return files("hbm_learn").joinpath("report", "template", name).read_text(encoding="utf-8")


def _template(name: str) -> Template:
    return Template(_text(name))
