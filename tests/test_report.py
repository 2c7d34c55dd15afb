"""The HTML report: well formed, self-contained, true to the estimator, and safe with any names."""

import base64
import re
import runpy
import shutil
from copy import copy
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM, BoltzmannMachine, Nominal, datasets, report, sample
from hbm_learn.assessment import checks, dependence, heldout, predictive, summary
from hbm_learn.assessment.trust import Check, Trust
from hbm_learn.cli.main import main
from hbm_learn.inversion.shrinkage import orders
from hbm_learn.names import interaction_name, short_names, value_name
from hbm_learn.report import heatmap, tables, words
from hbm_learn.report.columns import column_facts, missing_cells
from hbm_learn.report.data import data
from hbm_learn.report.meaning import meaning
from hbm_learn.report.trust import trust
from hbm_learn.sampling.diagnostics import AGREEMENT
from hbm_learn.space import Space

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
    """Of the effect: interval, z and q; and the weight beside them."""
    table = est.to_frame(0.9)
    for mu, row in zip(est.interactions_, table.itertuples()):
        r = page.cells.index(" × ".join(NAMES[i] for i in mu))
        interval = f"{row.lower:+.3f} to {row.upper:+.3f}"
        numbers = [str(row.order), f"{row.effect:+.3f}{interval}", interval, f"{row.z:+.1f}"]
        numbers += [words.small(row.q_value), f"{row.weight:+.3f}"]
        assert page.cells[r + 1 : r + 7] == [number.replace("-", "−") for number in numbers[:-2]] + [
            numbers[-2],
            numbers[-1].replace("-", "−"),
        ]
    assert page.cells.count("90 % interval") == 1
    assert "df" not in page.cells


def test_says_how_far_to_trust_and_how_to_do_it_again(est, page):
    words = " ".join(page.text)
    assert "This fit can be relied on." in words
    assert est.trust_.headline == "can be relied on"
    assert "hbm-learn fit weather.csv" in words
    assert "HBM(order=3).fit(X)" in words
    assert "arXiv:1811.06967" in words
    assert "1,500 rows of 6 variables" in words
    assert "Pairs help. Triplets help." in words


def test_every_check_is_a_row_with_its_mark(est, page):
    assert len(est.trust_.checks) >= 3
    for check in est.trust_.checks:
        r = page.cells.index(f"{words.MARKS[check.verdict]} {check.name}")
        assert page.cells[r + 2] == check.sentence
        assert float(page.cells[r + 1].replace("−", "-").replace(",", "")) == pytest.approx(check.value, rel=0.01)


@pytest.mark.parametrize(
    ("verdict", "essential", "headline", "mark"),
    [
        ("care", False, "Take this fit with care.", "!"),
        ("unknown", True, "Take this fit with care.", "?"),
        ("bad", False, "Do not rely on this fit.", "✗"),
        ("unknown", False, "This fit can be relied on.", "?"),
    ],
)
def test_the_headline_follows_from_the_checks(est, verdict, essential, headline, mark):
    odd = copy(est)
    odd.trust_ = Trust((Check("a < b", None, verdict, "x < y & z.", essential),))
    section = Page(trust(odd, 0.95))
    assert headline in section.text
    assert section.cells[3:] == [f"{mark} a < b", "", "x < y & z."]


def test_every_column_is_explained_once_and_in_the_same_words(est, mixed, page):
    text = " ".join(page.text)
    shown = ["effect", "interval", "score", "q", "weight"]
    assert all(text.count(words.COLUMNS[name]) == 1 for name in shown)
    assert not any(words.COLUMNS[name] in text for name in set(words.COLUMNS) - set(shown))
    assert words.COLUMNS["df"] in words.explained(mixed, True)
    tables_page = (Path(__file__).parents[1] / "docs" / "tables.md").read_text(encoding="utf-8")
    flat = " ".join(tables_page.split())
    assert all(sentence in flat for sentence in words.COLUMNS.values())


def test_what_is_only_a_subset_is_marked():
    X = sample(BoltzmannMachine(np.zeros(3), {(0, 1, 2): 0.5}), 3000, method="exact", random_state=5)
    chosen = HBM(order=3, fdr=0.01).fit(X)
    table = Page(tables.interactions(chosen, 0.95))
    kept = {name: table.cells[table.cells.index(name) + 6] for name in ("x0 × x1 × x2", "x0 × x1", "x1 × x2")}
    assert kept == {"x0 × x1 × x2": "test", "x0 × x1": "subset", "x1 × x2": "subset"}
    assert "they are subsets" in " ".join(table.text)
    assert words.COLUMNS["kept"] in table.text
    lines = [line for line in str(chosen.summary()).splitlines() if " × " in line]
    assert [line.split()[-3] for line in lines] == ["test", "subset", "subset", "subset"]
    everything = HBM(order=3).fit(X)
    assert "kept by" not in str(everything.summary())
    assert "kept by" not in Page(tables.interactions(everything, 0.95)).cells


def test_the_summary_says_what_was_chosen_and_how_far_to_trust_it(frame):
    auto = HBM().fit(frame)
    text = str(auto.summary())
    assert "Order                 3, by the evidence" in text
    assert f"order 2 {auto.evidence_[2]:+,.1f}, order 3 {auto.evidence_[3]:+,.1f}, over independence" in text
    assert summary.ORIGINS[auto.origin_] in text
    assert "How far to trust it: can be relied on." in text
    assert all(sentence in text for sentence in auto.trust_.reasons)
    assert "z, p and q are of the score test" in text
    given = HBM(order=2, alpha=3.0, refine=None).fit(frame)
    assert "Order                 2\n" in str(given.summary())
    assert "Prior                 given, precision 3 (order 2)" in str(given.summary())
    assert "Evidence" not in str(given.summary())
    assert "Prior                 none" in str(HBM(order=2, alpha=0).fit(frame).summary())


def test_the_page_on_trust_has_the_thresholds_of_the_code():
    page = " ".join((Path(__file__).parents[1] / "docs" / "trust.md").read_text(encoding="utf-8").split())
    for text in (
        f"less than once in {1 / checks.LEVEL:g} times",
        f"up to {checks.SMALL_BIAS:g} good, up to {checks.LARGE_BIAS:g} care",
        f"above {checks.UNSETTLED:g} care",
        f"up to {100 * checks.SOME_CELLS:g} % good, up to {100 * checks.MANY_CELLS:g} % care",
        f"up to {dependence.LIMIT:g} good, up to {2 * dependence.LIMIT:g} care",
        f"R-hat above {AGREEMENT:g}",
        f"at least {orders.WORTH:g} nats",
        f"fewer than {predictive.MIN_CARRIERS} rows",
    ):
        assert text in page, text


def test_is_self_contained_and_not_large(text, page):
    outside = re.findall(r"""(?:https?:)?//[\w.-]+\.\w+|url\(|@import|src\s*=\s*["'](?!data:)""", text)
    assert outside == []
    assert not page.attributes("script", "src")
    assert all(source.startswith("data:") for source in page.attributes("img", "src"))
    assert all(href.startswith("data:") for href in page.attributes("link", "href"))
    assert len(text) < 1_000_000


def test_pictures_are_images_with_words(page):
    alts = page.attributes("img", "alt")
    assert len(alts) == 5
    assert all(alts)
    for source in page.attributes("img", "src"):
        assert b"<svg" in base64.b64decode(source.split(",", 1)[1])


def test_letters_that_our_fonts_lack_are_left_to_the_reader(frame):
    names = {"rain": "雨", "wind": "風"}
    X = frame.rename(columns=names)
    page = Page(report.html(HBM(order=2).fit(X), X))  # no warning of missing glyphs, which would be an error here
    pictures = [base64.b64decode(source.split(",", 1)[1]).decode() for source in page.attributes("img", "src")]
    assert sum("雨" in re.sub("<!--.*?-->", "", picture) for picture in pictures) >= 2
    assert "<text" not in pictures[-1]  # moments have no names


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
    monkeypatch.setattr(tables, "MAX_ROWS", 5)
    table = tables.interactions(est, 0.95)
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
    with pytest.warns(UserWarning, match="Do not rely on this fit.*bias of the closed form"):
        est = HBM(order=2, refine=None).fit(X)
    page = Page(report.html(est, X))
    assert "Do not rely on this fit." in page.text
    bad = [check for check in est.trust_.checks if check.verdict == "bad"]
    assert {check.name for check in bad} == {"fitted moments", "bias of the closed form"}
    assert all(f"✗ {check.name}" in page.cells for check in bad)
    assert "This fit can be relied on." not in page.text


def test_real_data_and_missing_values():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.5], [0.0, 0.0, 1.0]])
    X[4, 0] = np.nan
    est = HBM().fit(X)
    words = " ".join(Page(report.html(est, X)).text)
    assert "1 with missing values" in words
    assert "missing together" in words
    assert "real numbers" in words


# ---------------------------------------------------------------------- held-out scores


def test_held_out_scores_tell_the_order_of_the_truth(est, frame):
    held = heldout.by_order(est, frame)
    assert held.orders == [1, 2, 3]
    assert (held.gain[1:] > 4 * held.gain_error[1:]).all()
    assert np.diff(held.score) == pytest.approx(held.gain[1:])
    pairs_only = BoltzmannMachine([0.1] * 6, {(0, 1): 0.5, (2, 3): -0.4})
    X = sample(pairs_only, 1500, method="exact", random_state=2)
    control = heldout.by_order(HBM(order=3).fit(X), X)
    assert control.gain[1] > 4 * control.gain_error[1]
    assert control.gain[2] < 2 * control.gain_error[2]  # no triplets to be found


def test_held_out_scores_of_given_interactions(frame):
    X = frame.to_numpy()
    est = HBM(order=3, interactions=[(0, 1), (0, 1, 2)]).fit(X)
    assert heldout.by_order(est, X).orders == [1, 2, 3]
    est = HBM(order=3, interactions=[(0, 1, 2)]).fit(X)
    assert heldout.by_order(est, X).orders == [1, 3]


def test_what_cannot_be_held_out_is_said(frame):
    few = frame.iloc[:, :2].iloc[[0, 1, 2, 3, 4]].copy()
    few.iloc[:, 0], few.iloc[:, 1] = [1, -1, 1, -1, 1], [1, 1, -1, -1, 1]
    text = tables.heldout(HBM(order=2).fit(few), few)
    assert "Not compared: 5 rows are too few" in text


# ---------------------------------------------------------------------- from the command, in a browser


def test_command_writes_a_report_that_works_in_a_browser(tmp_path, frame, capsys):
    frame.to_csv(tmp_path / "weather.csv", index=False)
    path = tmp_path / "report.html"
    command = ["fit", str(tmp_path / "weather.csv"), "--order", "3", "--report", str(path)]
    assert main(command) == 0
    words = " ".join(Page(path.read_text(encoding="utf-8")).text)
    assert f"--report {path}" in words
    works_in_a_browser(path, capsys)


def works_in_a_browser(path, capsys):
    check = Path(__file__).resolve().parents[1] / ".ci" / "check_report.py"
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None or not check.exists():
        pytest.skip("chromium and chromedriver are not installed")
    assert runpy.run_path(str(check))["main"](str(path)) == 0
    assert "works in a browser" in capsys.readouterr().out


# ---------------------------------------------------------------------- mixed tables

MIXED_NAMES = ["age", "region", "smokes", "sex", "<i>$party_^</i>"]
LABELS = ("north & east", "<script>alert('y')</script>", 'the "west"', "$x^2$")
SHAPE = {"region": LABELS, "sex": ("f", "m"), "<i>$party_^</i>": ("green", "red", "none")}


def _mixed_model():
    rng = np.random.default_rng(3)
    alphabet = [(1, 2, 3, 5), Nominal(*LABELS), (0, 1), Nominal("f", "m"), Nominal("green", "red", "none")]
    couplings = {
        (0, 2): 0.3,
        (0, 0, 2): 0.1,
        (0, 1): rng.normal(size=4) * 0.3,
        (2, 3): rng.normal(size=2),
        (1, 4): rng.normal(size=(4, 3)),
        (1, 3, 4): rng.normal(size=(4, 2, 3)),
    }
    return BoltzmannMachine([-0.2, 0.0, -2.0, 0.0, 0.0], couplings, alphabet=alphabet)


@pytest.fixture(scope="module")
def mixed_frame():
    X = sample(_mixed_model(), 2000, method="exact", random_state=4)
    frame = pd.DataFrame(X, columns=MIXED_NAMES).infer_objects()
    frame["region"] = frame["region"].astype("category")
    frame["age"] = frame["age"].astype(float)
    frame.loc[[3, 5], "age"] = np.nan
    frame.loc[[5, 8, 11], "sex"] = None
    return frame


@pytest.fixture(scope="module")
def mixed(mixed_frame):
    return HBM(order=3, powers=2).fit(mixed_frame)


@pytest.fixture(scope="module")
def mixed_text(mixed, mixed_frame):
    return report.html(mixed, mixed_frame, source="mixed.csv")


@pytest.fixture(scope="module")
def mixed_page(mixed_text):
    return Page(mixed_text)


def test_mixed_report_is_well_formed_and_safe(mixed_text, mixed_page):
    assert "<script>alert" not in mixed_text
    assert "<i>$party" not in mixed_text
    assert sum(tag == "script" for tag, _ in mixed_page.tags) == 1
    assert all(scope in ("col", "row") for scope in mixed_page.attributes("th", "scope"))
    assert len(mixed_page.attributes("th", "scope")) == sum(tag == "th" for tag, _ in mixed_page.tags)
    assert "age² × smokes" in mixed_page.cells
    assert "df" in mixed_page.cells
    assert len(mixed_text) < 1_000_000


def test_mixed_report_works_in_a_browser(mixed_text, tmp_path, capsys):
    (tmp_path / "mixed.html").write_text(mixed_text, encoding="utf-8")
    works_in_a_browser(tmp_path / "mixed.html", capsys)


def test_an_interaction_of_labels_is_a_row_and_a_table(mixed, mixed_page):
    """One row with its effect and degrees of freedom, and below it the zero-sum table."""
    cells, r = mixed_page.cells, mixed.interactions_.index((1, 4))
    at = cells.index("region × <i>$party_^</i>")
    low, high = mixed.effect_intervals(0.95)[r]
    interval = f"{low:.3f} to {high:.3f}"  # a size has no sign
    assert cells[at + 1 : at + 4] == ["2", f"{mixed.effects_[r]:.3f}{interval}", interval]
    assert cells[at + 5 : at + 7] == ["6", words.small(mixed.tests_.q_values[r])]
    J = mixed.model_.couplings()[1, 4]
    assert np.abs(J.sum(axis=0)).max() < 1e-12
    regions, parties = (mixed.model_.space.alphabets[i].values.tolist() for i in (1, 4))
    corner = cells.index("region ╲ <i>$party_^</i>", at)
    assert cells[corner + 1 : corner + 4] == parties
    for k, label in enumerate(regions):
        row = corner + 4 * (k + 1)
        assert cells[row : row + 4] == [label, *(f"{weight:+.2f}".replace("-", "−") for weight in J[k])]


def test_every_interaction_with_labels_has_its_table(mixed, mixed_page):
    with_labels = [mu for mu in mixed.interactions_ if {1, 3, 4} & set(mu)]
    details = [tag for tag, _ in mixed_page.tags if tag == "details"]
    assert len(details) == len(with_labels) + 2  # and the columns, and the variables
    assert heatmap.n_cells(mixed.model_, mixed.interactions_.index((0, 2))) == 0
    assert heatmap.n_cells(mixed.model_, mixed.interactions_.index((1, 3, 4))) == 24


def test_large_tables_are_told_by_their_strongest_entries(monkeypatch, mixed):
    monkeypatch.setattr(heatmap, "MAX_CELLS", 10)
    r = mixed.interactions_.index((1, 4))
    text = heatmap.heatmap(mixed.model_, r, MIXED_NAMES)
    J = mixed.model_.couplings()[1, 4]
    i, j = np.unravel_index(np.abs(J).argmax(), J.shape)
    regions, parties = (mixed.model_.space.alphabets[i].values for i in (1, 4))
    items = re.findall("<li>(.*?)</li>", text)
    assert len(items) == 12
    strongest = f"region = {regions[i]}, <i>$party_^</i> = {parties[j]}: " + words.signed(J[i, j])
    assert items[0] == escape(strongest)
    monkeypatch.setattr(tables, "MAX_CELLS", 5)
    assert (
        tables.interactions(mixed, 0.95).count("<details>") <= 3
    )  # the columns; 5 cells in all: two of two, or one larger


def test_the_data_section_tells_each_variable(mixed, mixed_page):
    text = " ".join(mixed_page.text)
    assert "5 (2 numeric with 2 to 4 values and 3 nominal with 2 to 4 labels)" in text
    assert "2,000, 4 with missing values" in text
    assert "0.1 % missing" in text  # age
    assert "0.15 % missing" in text  # sex
    own = mixed.model_.own[1] - mixed.model_.own[1].mean()
    shares = mixed.moments_.frequencies[1]
    expected = "".join(
        f"{label}{words.percent(share)}{words.signed(weight, 2)}"
        for label, share, weight in zip(mixed.model_.space.alphabets[1].values, shares, own)
    )
    assert f"region{expected}" in mixed_page.cells
    at = next(r for r, cell in enumerate(mixed_page.cells) if cell.startswith("age0.1 % missing1"))
    m, s = mixed.moments_.mean[0], np.sqrt(mixed.moments_.covariance[0, 0])
    field = f"{mixed.h_[0]:+.3f} ± {mixed.h_standard_errors_[0]:.3f}".replace("-", "−")
    assert mixed_page.cells[at + 1 : at + 5] == ["numeric", f"{m:+.3f}", f"{s:.3f}", field]


def test_ordered_categories_are_shown_by_name():
    rng = np.random.default_rng(0)
    size = rng.integers(0, 3, 300)
    frame = pd.DataFrame(
        {
            "size": pd.Categorical.from_codes(size, ["small", "medium", "large"], ordered=True),
            "heavy": (rng.random(300) < 0.2 + 0.3 * size).astype(int),
        }
    )
    est = HBM().fit(frame)
    cells = Page(data(est, frame, None)).cells
    shares = [words.percent((size == k).mean()) for k in range(3)]
    assert any(
        re.fullmatch(f"sizesmall{shares[0]}.{{5}}medium{shares[1]}.{{5}}large{shares[2]}.{{5}}", c) for c in cells
    )


def test_meaning_of_effects_weights_and_odds(est, mixed):
    text = " ".join(meaning(mixed))
    assert "in units of its standard deviation about its mean" in text
    assert "sums to zero" in text
    assert "sex counts as −1 for f and 1 for m" in text
    assert "x²" in text
    plain = " ".join(meaning(est))
    assert "Labels" not in plain
    assert "x²" not in plain


def test_the_odds_ratio_is_that_of_the_model():
    """Pairs alone: P(b=1 | a=1)/P(b=0 | a=1) over the same at a=0 does not depend on the others."""
    X = sample(BoltzmannMachine([-1.0, 0.4, 0.2], {(0, 1): 1.2, (1, 2): 0.5}, alphabet=(0, 1)), 3000, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    for table in (frame, 3 * frame - 1, frame.replace({0: "no", 1: "yes"})):
        est = HBM(order=2).fit(table)
        values = [a.values.tolist() for a in est.model_.space.alphabets]
        rows = [[values[0][i], values[1][j], values[2][0]] for i in (0, 1) for j in (0, 1)]
        energy = est.model_.energy(np.array(rows, dtype=object if isinstance(rows[0][0], str) else float))
        ratio = np.exp(-(energy[0] - energy[1] - energy[2] + energy[3]))
        first, second = (value_name(v) for v in values[0])
        expected = f"when a goes from {first} to {second}, the odds that b is {second} are multiplied by {ratio:.3g}."
        assert expected in " ".join(meaning(est))


def test_held_out_scores_of_mixed_tables(mixed, mixed_frame):
    held = heldout.by_order(mixed, mixed_frame)
    assert held.orders == [1, 2, 3]
    assert (held.gain[1:] > 4 * held.gain_error[1:]).all()


def test_a_label_that_a_part_lacks_is_not_compared(mixed_frame):
    few = mixed_frame[["age", "region", "smokes"]].dropna().iloc[:60].copy()
    few["region"] = few["region"].astype(str)
    few.iloc[0, 1] = "once"
    text = tables.heldout(HBM(order=2).fit(few), few)
    assert "Not compared: column 'region' never has the value 'once'" in Page(text).text[0]


# ---------------------------------------------------------------------- columns before a fit


def test_column_facts():
    rng = np.random.default_rng(0)
    M = 100
    frame = pd.DataFrame(
        {
            "rating": rng.integers(1, 6, M),
            "code": rng.choice([1, 2, 3, -99], M),
            "yes": rng.choice([True, False], M),
            "town": pd.Categorical(rng.choice(["b", "a", "c"], M)),
            "size": pd.Categorical(rng.choice(["s", "m", "l"], M), categories=["s", "m", "l"], ordered=True),
            "id": np.arange(M),
            "key": [f"k{i}" for i in range(M)],
            "flat": 7,
            "length": rng.normal(size=M),
            "gaps": np.where(np.arange(M) < 30, np.nan, rng.integers(0, 2, M)),
            "nothing": [None] * M,
        }
    )
    facts = {c.name: c for c in column_facts(frame)}
    assert [name for name, c in facts.items() if c.nominal] == ["town", "key"]
    assert facts["town"].values == ["a", "b", "c"]
    assert facts["town"].counts.tolist() == [(frame["town"] == label).sum() for label in "abc"]
    assert facts["rating"].describe(2).startswith(f"1 ({(frame['rating'] == 1).sum()}), 2 (")
    assert facts["rating"].describe(2).endswith("… 3 more")
    assert facts["size"].values == ["s", "m", "l"]  # positions in an order, shown by name
    assert facts["size"].counts.tolist() == [(frame["size"] == label).sum() for label in "sml"]
    assert facts["gaps"].n_missing == 30
    assert [name for name, c in facts.items() if not c.fits] == ["id", "key", "flat", "length", "nothing"]
    assert "-99 looks like a code for missing" in facts["code"].note
    assert "looks like an id" in facts["id"].note
    assert "looks like an id" in facts["key"].note
    assert "constant" in facts["flat"].note
    assert "more than 16 values" in facts["length"].note
    assert "empty" in facts["nothing"].note
    assert [c.note for name, c in facts.items() if name in ("rating", "yes", "town", "size", "gaps")] == [""] * 5
    named = {c.name: c for c in column_facts(frame[["rating", "town"]], ["rating", "town"])}
    assert named["rating"].nominal
    reals = column_facts(rng.normal(size=(50, 3)))
    assert [c.fits for c in reals] == [True] * 3
    assert "(50 different)" in reals[0].describe()


def test_missing_cells_of_any_table():
    frame = pd.DataFrame({"a": [1.0, np.nan, 3.0], "b": ["x", None, None], "c": [1, 2, 3]})
    assert missing_cells(frame).tolist() == [1, 2, 0]
    assert missing_cells(frame.to_numpy()).tolist() == [1, 2, 0]
    assert missing_cells(np.array([[1.0, np.nan]])).tolist() == [0, 1]
    assert missing_cells(np.ones((2, 2), dtype=int)).tolist() == [0, 0]


# ---------------------------------------------------------------------- words


def test_words():
    assert words.counts([2]) == "1 pair"
    assert words.counts([2, 2, 3]) == "2 pairs and 1 triplet"
    assert words.counts([2, 3, 5, 5]) == "1 pair, 1 triplet and 2 interactions of order 5"
    assert words.counts([]) == "no interaction"
    assert words.small(0.0) == "< 1e-300"
    assert words.signed(-0.5) == "−0.500"
    assert [words.percent(x) for x in (0.0, 1 / 3000, 0.05, 0.125, 1.0)] == [
        "0.0 %",
        "0.033 %",
        "5 %",
        "12.5 %",
        "100.0 %",
    ]
    same = Space.of(Nominal("a", "b"), 3)
    assert words.all_values(same) == "labels a, b"
    mixed = Space.of([(0, 1), (1, 2, 3), Nominal("a", "b", "c")], 3)
    assert words.all_values(mixed) == "2 numeric with 2 to 3 values and 1 nominal with 3 labels"


def test_names_of_interactions_and_values():
    assert interaction_name((0, 0, 1, 2, 2, 2), ["age", "region", "pay"]) == "age² × region × pay³"
    assert [value_name(v) for v in (1, 2.0, 0.5, "x", True)] == ["1", "2", "0.5", "x", "True"]


def test_short_names_still_differ():
    assert short_names(["rain", "wind"], 18) == ["rain", "wind"]
    assert short_names(["rain_of_the_whole_day", "wind"], 12) == ["rain_of…_day", "wind"]
    long = [f"question_{i}_about_something" for i in range(12)]
    assert short_names(long, 12) == [f"…{i}…" for i in range(12)]
    alike = [c + "a" * 20 + str(i) + "a" * 20 + c for i in range(2) for c in "xy"]
    assert short_names(alike, 9) == ["x0", "x1", "x2", "x3"]
    assert short_names(["a\nb", "c\x1b[1m"], 9) == ["a b", "c [1m"]
