"""Names with dollars, underscores, backslashes, emoji and hundreds of letters, in every picture, the report and on
terminals of any encoding."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM, Nominal, datasets, plots, report, sample
from hbm_learn.io import tables

mpl.use("Agg")
PLAIN = ["$x", "a_b^c", "\\alpha{", "$\\frac{1}$", "$^_", "n" * 500, "<b>&\"'", "100 %", "#hash"]
FOREIGN = ["$x", "a_b", "🎉", "日本語", "e\u0301", "n" * 90, "tab\tline\nend", "“quoted”", "Ünï"]


def fitted(names):
    alphabets = [(0, 1)] * 5 + [Nominal("$a$", "_b", "^{c")] * 2 + [(1, 2, 3)] * 2
    model = datasets.make_mixed(alphabets, {2: 8}, (0.3, 0.6), random_state=3)
    X = pd.DataFrame(sample(model, 1200, method="gibbs", random_state=4), columns=names)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return HBM(order=2, random_state=0).fit(X), X


@pytest.fixture(scope="module")
def plain():
    return fitted(PLAIN)


@pytest.fixture(scope="module")
def foreign():
    return fitted(FOREIGN)


def nominal_pair(est):
    return next(mu for mu in est.interactions_ if 5 in mu)


DISPLAYS = {
    "hypergraph": lambda est, X: plots.HypergraphDisplay.from_estimator(est),
    "matrix": lambda est, X: plots.CouplingMatrixDisplay.from_estimator(est),
    "table": lambda est, X: plots.CouplingTableDisplay.from_estimator(est, nominal_pair(est)),
    "volcano": lambda est, X: plots.VolcanoDisplay.from_estimator(est),
    "moments": lambda est, X: plots.MomentsDisplay.from_estimator(est),
    "path": lambda est, X: plots.PathDisplay.from_estimator(est),
    "total": lambda est, X: plots.TotalDisplay.from_estimator(est, X),
    "chains": lambda est, X: plots.ChainsDisplay.from_estimator(est, n_draws=20),
}


@pytest.mark.parametrize("suffix", ["png", "svg"])
@pytest.mark.parametrize("name", DISPLAYS)
def test_pictures_take_names_as_they_are(plain, name, suffix, tmp_path):
    """Nothing is read as mathematics, which would raise as soon as the picture is drawn."""
    figure = DISPLAYS[name](*plain).figure_
    figure.savefig(tmp_path / f"picture.{suffix}")
    assert (tmp_path / f"picture.{suffix}").stat().st_size > 1000
    mpl.pyplot.close(figure)


def test_such_a_name_would_raise_as_mathematics():
    """The negative control."""
    figure, ax = mpl.pyplot.subplots()
    ax.set_title("$\\frac{1}$")
    with pytest.raises(ValueError, match="frac"):
        figure.canvas.draw()
    mpl.pyplot.close(figure)


@pytest.mark.filterwarnings("ignore:Glyph .* missing from font")
@pytest.mark.parametrize("name", ["hypergraph", "matrix", "volcano", "chains"])
def test_letters_that_the_font_lacks_are_boxes(foreign, name, tmp_path):
    figure = DISPLAYS[name](*foreign).figure_
    figure.savefig(tmp_path / "picture.png")
    mpl.pyplot.close(figure)


@pytest.mark.parametrize("kind", ["plain", "foreign"])
def test_the_report_escapes_every_name(kind, request, tmp_path):
    est, X = request.getfixturevalue(kind)
    report.write(tmp_path / "report.html", est, X)
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "<b>&\"'" not in text
    if kind == "plain":
        assert "&lt;b&gt;&amp;" in text
        assert "$\\frac{1}$" in text
    else:
        assert "日本語" in text
        assert "🎉" in text
    assert "a_b" in text
    assert "a_b" in str(est.summary())


ENCODINGS = {
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    "utf-8": {"PYTHONIOENCODING": "utf-8"},
}


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_terminals_of_any_encoding(encoding, foreign, tmp_path):
    """One process that does it all: fit, infer, info, help, and samples, which are data and come back as they were."""
    X = foreign[1]
    X.to_csv(tmp_path / "data.csv", index=False)
    code = """
import sys, warnings
from hbm_learn.cli import main
warnings.simplefilter("ignore")
codes = [main(["fit", "data.csv", "--order", "2", "--top", "40", "-o", "model.npz"]), main(["info", "data.csv"])]
codes += [main(["info", "model.npz"]), main(["infer", "model.npz"])]
codes += [main(["fit", "data.csv", "--drop", "\\u65e5\\u672c"])]
try:
    main(["fit", "--help"])
except SystemExit as stop:
    codes.append(stop.code)
print("codes", *codes)
sys.stdout.flush()
sys.stdout = open("rows.csv", "w", encoding=sys.stdout.encoding)
assert main(["sample", "model.npz", "-n", "20"]) == 0
sys.stdout.close()
"""
    settings = {**os.environ, **ENCODINGS[encoding], "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path, env=settings)
    assert done.returncode == 0, done.stderr
    out = done.stdout.decode("utf-8" if encoding == "utf-8" else "latin-1")
    assert "codes 0 0 0 0 2 0" in out
    assert b"Traceback" not in done.stderr
    assert ("日本語" in out) == (encoding == "utf-8")
    assert ("\\u65e5\\u672c\\u8a9e" in out) == (encoding != "utf-8")
    assert (" × " if encoding in ("utf-8", "latin-1") else " x ") in out
    rows = tables.read(tmp_path / "rows.csv")
    assert set(rows.columns) == set(FOREIGN) | {name.strip() for name in FOREIGN}
    assert rows.shape == (20, 9)
    assert np.isin(rows["n" * 90].to_numpy(), ["$a$", "_b", "^{c"]).all()
