"""The HTML report: well formed, self-contained, true to the estimator, and safe with any names."""

import base64
import re
import runpy
import shutil
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM, BoltzmannMachine, datasets, report, sample
from hbm_learn.assessment import heldout as _heldout
from hbm_learn.cli.main import main
from hbm_learn.report import tables as _report_tables
from hbm_learn.report import words as _wording

NAMES = ["rain", "wind", "sun", "frost", "<script>alert('x')</script>", 'a "quoted" & name']
MODEL = BoltzmannMachine([0.1, 0.0, -0.2, 0.1, 0.2, 0.0], {(0, 1): 0.5, (2, 3): -0.4, (0, 1, 2): 0.6, (3, 4, 5): -0.5})
VOID = {"meta", "link", "img", "input", "br"}


class Page(HTMLParser):
    """Checks nesting, and collects texts of cells, attributes and tags."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.cells, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag in ("td", "th"):
            self.cells.append("")

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)
        if "td" in self.open or "th" in self.open:
            self.cells[-1] += data

    def attributes(self, tag, name):
        return [attrs[name] for found, attrs in self.tags if found == tag and name in attrs]


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(sample(MODEL, 1500, method="exact", random_state=1), columns=NAMES)


@pytest.fixture(scope="module")
def est(frame):
    return HBM(order=3).fit(frame)


@pytest.fixture(scope="module")
def text(est, frame):
    return report.html(est, frame, source="weather.csv", command="hbm-learn fit weather.csv", level=0.9)


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


def test_names_and_numbers_of_every_interaction(est, page):
    intervals = est.confidence_intervals(0.9)
    for mu, weight, (low, high) in zip(est.interactions_, est.weights_, intervals):
        assert " × ".join(NAMES[i] for i in mu) in page.cells
        assert f"{weight:+.3f}".replace("-", "−") in "".join(page.cells)
        assert f"{low:+.3f} to {high:+.3f}".replace("-", "−") in page.cells
    assert page.cells.count("90 % interval") == 1


def test_says_how_far_to_trust_and_how_to_do_it_again(est, page):
    words = " ".join(page.text)
    assert est.trust_.message[1:] in words
    assert "can be relied on" in words
    assert "hbm-learn fit weather.csv" in words
    assert "HBM(order=3).fit(X)" in words
    assert "arXiv:1811.06967" in words
    assert "1,500 rows of 6 variables" in words
    assert "Pairs help. Triplets help." in words


def test_is_self_contained_and_not_large(text, page):
    outside = re.findall(r"""(?:https?:)?//[\w.-]+\.\w+|url\(|@import|src\s*=\s*["'](?!data:)""", text)
    assert outside == []
    assert not page.attributes("script", "src")
    assert all(source.startswith("data:") for source in page.attributes("img", "src"))
    assert all(href.startswith("data:") for href in page.attributes("link", "href"))
    assert len(text) < 1_000_000


def test_pictures_are_images_with_words(page):
    alts = page.attributes("img", "alt")
    assert len(alts) == 4
    assert all(alts)
    for source in page.attributes("img", "src"):
        assert b"<svg" in base64.b64decode(source.split(",", 1)[1])


def test_headings_tables_and_language_are_marked(page):
    assert page.attributes("html", "lang") == ["en"]
    assert all(scope in ("col", "row") for scope in page.attributes("th", "scope"))
    assert len(page.attributes("th", "scope")) == sum(tag == "th" for tag, _ in page.tags)
    assert ("viewport", "width=device-width, initial-scale=1") in zip(
        page.attributes("meta", "name"), page.attributes("meta", "content")
    )
    assert sum(tag == "h1" for tag, _ in page.tags) == 1


def test_names_cannot_become_markup(text, page):
    assert "<script>alert" not in text
    assert sum(tag == "script" for tag, _ in page.tags) == 1
    assert NAMES[4] in " ".join(page.cells)


def test_rows_are_capped_with_a_word(est, monkeypatch):
    monkeypatch.setattr(_report_tables, "MAX_ROWS", 5)
    table = _report_tables.interactions(est, 0.95)
    assert table.count("<tr data-order") == 5
    assert "The 5 surest of 35 interactions are in this file." in table


def test_nothing_found(frame):
    """Negative control: independent columns make a report that finds nothing."""
    rng = np.random.default_rng(0)
    noise = pd.DataFrame(rng.choice([-1, 1], size=(400, 3)), columns=["a", "b", "c"])
    text = report.html(HBM(order=3, fdr=0.01).fit(noise), noise)
    words = " ".join(Page(text).text)
    assert "No interaction stands out from chance" in words
    assert "No interaction is in the model." in words
    assert "help" not in words.split("Do pairs and triplets tell unseen rows?")[1].split("Each order")[0]


def test_caution_where_the_closed_form_is_biased():
    model = datasets.make_sk(6, beta=2.0, h_std=0.3, random_state=0)
    X = sample(model, 3000, method="exact", random_state=0)
    with pytest.warns(UserWarning, match="do not rely on it"):
        est = HBM(order=2, refine=None).fit(X)
    words = " ".join(Page(report.html(est, X)).text)
    assert "Read this with caution" in words
    assert "the model leaves something out" in words


def test_real_data_and_missing_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    X[4, 0] = np.nan
    with pytest.warns(UserWarning, match="1 rows"):
        est = HBM().fit(X)
    words = " ".join(Page(report.html(est, X)).text)
    assert "1 with missing values left out" in words
    assert "real numbers" in words


# ---------------------------------------------------------------------- held-out scores


def test_held_out_scores_tell_the_order_of_the_truth(est, frame):
    held = _heldout.by_order(est, frame)
    assert held.orders == [1, 2, 3]
    assert (held.gain[1:] > 4 * held.gain_error[1:]).all()
    assert np.diff(held.score) == pytest.approx(held.gain[1:])
    pairs_only = BoltzmannMachine([0.1] * 6, {(0, 1): 0.5, (2, 3): -0.4})
    X = sample(pairs_only, 1500, method="exact", random_state=2)
    control = _heldout.by_order(HBM(order=3).fit(X), X)
    assert control.gain[1] > 4 * control.gain_error[1]
    assert control.gain[2] < 2 * control.gain_error[2]  # no triplets to be found


def test_held_out_scores_of_given_interactions(frame):
    X = frame.to_numpy()
    est = HBM(order=3, interactions=[(0, 1), (0, 1, 2)]).fit(X)
    assert _heldout.by_order(est, X).orders == [1, 2, 3]
    est = HBM(order=3, interactions=[(0, 1, 2)]).fit(X)
    assert _heldout.by_order(est, X).orders == [1, 3]


def test_what_cannot_be_held_out_is_said(frame):
    few = frame.iloc[:, :2].iloc[[0, 1, 2, 3, 4]].copy()
    few.iloc[:, 0], few.iloc[:, 1] = [1, -1, 1, -1, 1], [1, 1, -1, -1, 1]
    text = _report_tables.heldout(HBM(order=2).fit(few), few)
    assert "Not compared: 5 rows are too few" in text


# ---------------------------------------------------------------------- from the command, in a browser


def test_command_writes_a_report_that_works_in_a_browser(tmp_path, frame, capsys):
    frame.to_csv(tmp_path / "weather.csv", index=False)
    path = tmp_path / "report.html"
    command = ["fit", str(tmp_path / "weather.csv"), "--order", "3", "--report", str(path)]
    assert main(command) == 0
    words = " ".join(Page(path.read_text(encoding="utf-8")).text)
    assert f"--report {path}" in words
    check = Path(__file__).resolve().parents[1] / ".ci" / "check_report.py"
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None or not check.exists():
        pytest.skip("chromium and chromedriver are not installed")
    assert runpy.run_path(str(check))["main"](str(path)) == 0
    assert "works in a browser" in capsys.readouterr().out


def test_words():
    assert _wording.counts([2]) == "1 pair"
    assert _wording.counts([2, 2, 3]) == "2 pairs and 1 triplet"
    assert _wording.counts([2, 3, 5, 5]) == "1 pair, 1 triplet and 2 interactions of order 5"
    assert _wording.counts([]) == "no interaction"
    assert _wording.small(0.0) == "< 1e-300"
    assert _wording.signed(-0.5) == "−0.500"


def test_short_names_still_differ():
    assert _wording.short_names(["rain", "wind"], 18) == ["rain", "wind"]
    assert _wording.short_names(["rain_of_the_whole_day", "wind"], 12) == ["rain_of…_day", "wind"]
    long = [f"question_{i}_about_something" for i in range(12)]
    assert _wording.short_names(long, 12) == [f"…{i}…" for i in range(12)]
    alike = [c + "a" * 20 + str(i) + "a" * 20 + c for i in range(2) for c in "xy"]
    assert _wording.short_names(alike, 9) == ["x0", "x1", "x2", "x3"]
