"""The hbm-learn command, end to end: every subcommand, every format, every failure."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM, BoltzmannMachine, Nominal, datasets, infer, sample
from hbm_learn.cli import commands, terminal
from hbm_learn.cli.main import build_parser, main
from hbm_learn.io import models, tables
from hbm_learn.report import words

NAMES = ["rain", "wind", "sun", "frost"]
MODEL = BoltzmannMachine([0.1, 0.0, -0.2, 0.1], {(0, 1): 0.5, (2, 3): -0.4, (0, 1, 2): 0.6})


@pytest.fixture(scope="module")
def frame():
    return pd.DataFrame(sample(MODEL, 1500, method="exact", random_state=1), columns=NAMES)


@pytest.fixture
def folder(tmp_path, monkeypatch, frame):
    """A working folder with data.csv and a model with names."""
    monkeypatch.chdir(tmp_path)
    frame.to_csv("data.csv", index=False)
    models.save("model.npz", MODEL, NAMES)
    return tmp_path


def run(capsys, *argv):
    """(exit code, stdout, stderr)."""
    code = main([str(word) for word in argv])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


# ---------------------------------------------------------------------- fit


def test_fit_prints_the_strongest_interactions_with_their_names(folder, capsys, frame):
    code, out, err = run(capsys, "fit", "data.csv", "--order", "3", "--level", "0.9", "--top", "3")
    assert (code, err) == (0, "")
    est = HBM(order=3).fit(frame)
    assert "1,500 rows of 4 variables, values -1, 1" in out
    assert f"How far to trust it: {est.trust_.headline}.\n" in out
    assert est.trust_.reasons
    assert all(f"  ✓ {sentence}\n" in out for sentence in est.trust_.reasons)
    assert all(f"{words.COLUMNS[name]}\n" in out for name in ("effect", "interval", "score", "q", "weight"))
    assert not any(words.COLUMNS[name] in out for name in ("wald", "df", "kept"))
    table = [line.split() for line in out.splitlines() if " × " in line]
    assert len(table) == 3
    assert table[0][:5] == ["rain", "×", "wind", "×", "sun"]
    r = est.interactions_.index((0, 1, 2))
    low, high = est.effect_intervals(0.9)[r]
    numbers = ["3", f"+{est.effects_[r]:.3f}", f"[+{low:.3f},", f"+{high:.3f}]", f"+{est.tests_.z[r]:.1f}"]
    assert table[0][5:10] == numbers
    assert table[0][-1] == f"+{est.weights_[r]:.3f}"
    assert "90 % interval" in out
    assert " df " not in out


def test_fit_options_reach_the_estimator(folder, capsys, monkeypatch):
    seen = {}

    def fit(self, X):
        seen.update(self.get_params(), shape=X.shape)
        raise ValueError("seen enough.")

    monkeypatch.setattr(commands.HBM, "fit", fit)
    options = "--order 2 --interactions rain*wind,0*2 --alphabet -1,1 --refine none --alpha 3,4 --l1-ratio 0.5"
    more = "--fdr 0.1 --seed 7 --jobs 2 --drop frost --categorical sun,0 --powers 2 --site quadratic --given 1"
    assert main(["fit", "data.csv", *options.split(), *more.split()]) == 2
    assert seen == {
        "order": 2,
        "interactions": [("rain", "wind"), (0, 2)],
        "alphabet": [-1, 1],
        "categorical_features": ["sun", 0],
        "powers": 2,
        "site": "quadratic",
        "given": [1],
        "refine": None,
        "alpha": [3.0, 4.0],
        "l1_ratio": 0.5,
        "fdr": 0.1,
        "random_state": 7,
        "n_jobs": 2,
        "shape": (1500, 3),
        "tol": None,
        "max_iter": None,
        "verbose": 0,
    }
    assert main(["fit", "data.csv"]) == 2
    defaults = HBM().get_params()
    assert {name: seen[name] for name in defaults} == defaults


@pytest.mark.parametrize(
    ("text", "expected"), [("real", "real"), ("0,0.5,1", [0.0, 0.5, 1.0]), ("interval:-1,2", "Interval(low=-1.0")]
)
def test_alphabets(text, expected):
    found = build_parser().parse_args(["fit", "x.csv", f"--alphabet={text}"]).alphabet
    assert found == expected or str(found).startswith(str(expected))


def test_interactions_from_a_file(folder, capsys):
    Path("some.txt").write_text("rain*wind*sun\n\nsun * frost\n")
    code, out, _ = run(capsys, "fit", "data.csv", "--interactions", "@some.txt")
    assert code == 0
    assert "1 pair and 1 triplet fitted" in out


def test_saved_model_is_the_fitted_one_and_keeps_the_names(folder, capsys, frame):
    assert run(capsys, "fit", "data.csv", "-o", "out.npz", "--table", "table.csv", "--seed", 0)[0] == 0
    est = HBM(random_state=0).fit(frame)
    assert BoltzmannMachine.load("out.npz") == est.model_
    assert models.load_feature_names("out.npz") == NAMES
    table = pd.read_csv("table.csv").set_index("interaction")
    assert len(table) == len(est.weights_)
    assert list(table.columns) == list(est.to_frame().columns[1:])
    for r, mu in enumerate(est.interactions_):
        row, expected = table.loc["*".join(NAMES[i] for i in mu)], est.to_frame().iloc[r]
        for column in ("weight", "standard_error", "effect", "lower", "upper", "z", "q_value"):
            assert row[column] == pytest.approx(expected[column], rel=1e-9)
    assert (np.abs(table["z"].to_numpy())[:-1] >= np.abs(table["z"].to_numpy())[1:]).all()


def test_models_without_names_still_load(folder):
    MODEL.save("plain.npz")
    assert BoltzmannMachine.load("plain.npz") == MODEL
    assert models.load_feature_names("plain.npz") is None


def test_fdr_says_how_many_were_tested(folder, capsys):
    code, out, _ = run(capsys, "fit", "data.csv", "--fdr", "0.05")
    assert code == 0
    assert "chosen among 10 by tests at false-discovery rate 0.05" in out


def test_fdr_says_what_is_there_by_its_own_test(folder, capsys):
    """A pure triplet brings its pairs, which do not pass themselves."""
    X = sample(BoltzmannMachine(np.zeros(3), {(0, 1, 2): 0.5}), 3000, method="exact", random_state=5)
    pd.DataFrame(X, columns=list("abc")).to_csv("pure.csv", index=False)
    code, out, _ = run(capsys, "fit", "pure.csv", "--order", "3", "--fdr", "0.01")
    assert code == 0
    kept = {line.split("  ")[1].strip(): line.split()[-2] for line in out.splitlines() if " × " in line}
    assert kept == {"a × b × c": "test", "a × b": "subset", "a × c": "subset", "b × c": "subset"}
    assert "3 pairs are there only as subsets of what passed." in out
    assert words.COLUMNS["kept"] in out


def test_a_fit_not_to_be_relied_on_says_why(folder, capsys):
    X = sample(datasets.make_sk(6, beta=2.0, h_std=0.3, random_state=0), 3000, method="exact", random_state=0)
    np.save("strong.npy", X)
    code, out, err = run(capsys, "fit", "strong.npy", "--order", "2", "--refine", "none")
    assert code == 0
    assert "Do not rely on this fit." in err
    assert "How far to trust it: do not rely on it.\n  ✗ " in out
    assert "  ✗ The bias of the closed form is about" in out
    assert words.COLUMNS["wald"] in out


# ---------------------------------------------------------------------- groups of rows


@pytest.fixture
def repeats(folder, frame):
    """Every row five times over, under a label: five rows are worth one."""
    rows = frame.iloc[:300]
    table = rows.loc[rows.index.repeat(5)].assign(subject=[f"s{i}" for i in np.repeat(np.arange(300), 5)])
    table.to_csv("repeats.csv", index=False)
    return table


def test_groups_are_a_column_that_is_not_fitted(repeats, capsys):
    command = ["fit", "repeats.csv", "--order", "2", "--table"]
    assert run(capsys, *command, "with.csv", "--groups", "subject", "--report", "r.html")[0] == 0
    assert run(capsys, *command, "without.csv", "--drop", "subject")[0] == 0
    table, without = (pd.read_csv(name).set_index("interaction") for name in ("with.csv", "without.csv"))
    X = repeats.drop(columns="subject")
    est = HBM(order=2).fit(X, groups=repeats["subject"])
    assert set(table.index) == {f"{a}*{b}" for k, a in enumerate(NAMES) for b in NAMES[k + 1 :]}
    for mu, error, z in zip(est.to_frame().interaction, est.effect_errors_, est.tests_.z):
        assert table.loc["*".join(mu), "effect_error"] == pytest.approx(error, rel=1e-9)
        assert table.loc["*".join(mu), "z"] == pytest.approx(z, rel=1e-9)
    ratio = without["z"].abs().loc[table.index] / table["z"].abs()
    assert np.median(ratio) == pytest.approx(np.sqrt(5), rel=0.1)
    text = Path("r.html").read_text(encoding="utf-8")
    assert "HBM(order=2).fit(X, groups=labels)" in text
    assert "the column subject" in text
    assert "Rows of one group may stand on both sides" in text


@pytest.mark.parametrize("options", [["--columns", "rain,wind,subject"], ["--columns", "rain,wind"]])
def test_groups_beside_chosen_columns(repeats, monkeypatch, options):
    seen = {}

    def fit(self, X, groups):
        seen.update(columns=list(X.columns), groups=groups)
        raise ValueError("seen enough.")

    monkeypatch.setattr(commands.HBM, "fit", fit)
    assert main(["fit", "repeats.csv", "--groups", "subject", *options]) == 2
    assert seen["columns"] == ["rain", "wind"]
    assert seen["groups"].tolist() == repeats["subject"].tolist()


def test_groups_by_number_and_what_is_wrong_with_them(repeats, capsys, frame):
    labels = np.repeat(np.arange(300), 5)
    np.save("plain.npy", np.column_stack([repeats[NAMES].to_numpy(), labels]))
    code, out, _ = run(capsys, "fit", "plain.npy", "--order", "2", "--groups", "4")
    assert code == 0
    assert "1,500 rows of 4 variables" in out
    code, _, err = run(capsys, "fit", "repeats.csv", "--groups", "person")
    assert code == 2
    assert "there is no column 'person'" in err
    broken = repeats.copy()
    broken.iloc[[3, 7], 4] = None
    broken.to_csv("broken.csv", index=False)
    code, _, err = run(capsys, "fit", "broken.csv", "--groups", "subject")
    assert code == 2
    assert "column 'subject' of --groups lacks the label of 2 rows" in err


def test_rows_with_missing_values_are_used(folder, capsys, frame):
    broken = frame.astype(float)
    broken.iloc[3, 1] = np.nan
    broken.to_csv("gaps.csv", index=False)
    code, out, err = run(capsys, "fit", "gaps.csv", "--report", "gaps.html")
    assert code == 0
    assert err == ""
    assert f"{len(frame):,} rows" in out
    assert f"{len(frame):,}, 1 with missing values" in Path("gaps.html").read_text(encoding="utf-8")


# ---------------------------------------------------------------------- formats


WRITERS = {
    "data.csv": lambda frame, path: frame.to_csv(path, index=False),
    "data.csv.gz": lambda frame, path: frame.to_csv(path, index=False),
    "data.tsv": lambda frame, path: frame.to_csv(path, index=False, sep="\t"),
    "semicolon.csv": lambda frame, path: frame.to_csv(path, index=False, sep=";"),
    "data.parquet": lambda frame, path: frame.to_parquet(path),
    "named.npz": lambda frame, path: np.savez(path, X=frame.to_numpy(), feature_names=np.array(list(frame.columns))),
    "bare.csv": lambda frame, path: frame.to_csv(path, index=False, header=False),
    "data.npy": lambda frame, path: np.save(path, frame.to_numpy()),
    "bare.npz": lambda frame, path: np.savez(path, anything=frame.to_numpy()),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_format_is_read_alike(tmp_path, frame, name):
    WRITERS[name](frame, tmp_path / name)
    table = tables.read(tmp_path / name)
    assert np.array_equal(np.asarray(table), frame.to_numpy())
    bare = name.startswith("bare") or name.endswith(".npy")
    assert tables.names_of(table) == (None if bare else NAMES)


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.parquet", "out.npy", "out.npz", "out.csv.gz"])
def test_written_tables_are_read_back(tmp_path, frame, name):
    tables.write(tmp_path / name, frame.to_numpy(), NAMES)
    table = tables.read(tmp_path / name)
    assert np.array_equal(np.asarray(table), frame.to_numpy())
    assert tables.names_of(table) == (None if name == "out.npy" else NAMES)


def test_columns_without_names_are_numbered(folder, capsys, frame):
    np.save("data.npy", frame.to_numpy())
    code, out, _ = run(capsys, "fit", "data.npy", "--drop", "3", "--top", "1")
    assert code == 0
    assert "x0 × x1 × x2" in out


# ---------------------------------------------------------------------- sample, score, infer, info


@pytest.mark.parametrize("method", ["auto", "exact", "gibbs", "tempering"])
def test_sample(folder, capsys, method):
    code, out, _ = run(capsys, "sample", "model.npz", "-n", 64, "--seed", 3, "--method", method, "-o", "s.csv")
    assert code == 0
    assert "64 samples" in out
    X = pd.read_csv("s.csv")
    assert list(X.columns) == NAMES
    method = "exact" if method == "auto" else method
    assert np.array_equal(X.to_numpy(), sample(MODEL, 64, method=method, random_state=3))


def test_sample_to_the_terminal(folder, capsys):
    code, out, _ = run(capsys, "sample", "model.npz", "-n", 2, "--seed", 3)
    assert code == 0
    assert out.splitlines()[0] == ",".join(NAMES)
    assert len(out.splitlines()) == 3


def test_score_is_that_of_the_estimator(folder, capsys, frame):
    run(capsys, "fit", "data.csv", "-o", "out.npz")
    est = HBM().fit(frame)
    shuffled = frame[NAMES[::-1]].assign(extra="text")  # columns are found by name
    shuffled.to_csv("new.csv", index=False)
    code, out, _ = run(capsys, "score", "out.npz", "new.csv", "--log-likelihood", "-o", "rows.npy")
    assert code == 0
    assert f"{est.score(frame):.6f} ±" in out
    assert f"{est.log_likelihood(frame):.6f} nats" in out
    assert np.load("rows.npy")[:, 0] == pytest.approx(est.score_samples(frame), rel=1e-12)


@pytest.mark.parametrize("method", ["exact", "dc", "gibbs"])
def test_infer(folder, capsys, method):
    code, out, _ = run(capsys, "infer", "model.npz", "--method", method, "--seed", 0, "-o", "moments.npz")
    assert code == 0
    result = infer(MODEL, method, **({"random_state": 0} if method == "gibbs" else {}))
    assert f"ln Z       {result.log_partition:.6f}" in out
    assert [line.split()[0] for line in out.splitlines()[4:8]] == NAMES
    with np.load("moments.npz") as saved:
        assert np.array_equal(saved["m"], result.m)
        assert np.array_equal(saved["chi"], result.chi)


def test_info_on_a_model_and_on_data(folder, capsys, frame):
    code, out, _ = run(capsys, "info", "model.npz", "--top", 1)
    assert code == 0
    assert "4 variables (values -1, 1), 2 pairs and 1 triplet" in out
    assert out.splitlines()[-1].split() == ["rain", "×", "wind", "×", "sun", "+0.600"]
    code, out, _ = run(capsys, "info", "data.csv")
    assert code == 0
    assert "By default, fit takes order 3: 10 interactions, fitted by exact likelihood." in out
    assert "Without --fdr it returns to order 2 where the evidence does not prefer 3." in out
    counts = frame["rain"].value_counts()
    row = next(line.split() for line in out.splitlines() if line.split()[:1] == ["rain"])
    assert row == ["rain", "numeric", "-1", f"({counts[-1]}),", "1", f"({counts[1]})"]
    frame.assign(dull=1).to_csv("dull.csv", index=False)
    code, out, _ = run(capsys, "info", "dull.csv")
    assert code == 0
    assert "fit would refuse 1 column: --drop dull leaves them out." in out
    assert "Without them, fit takes order 3: 10 interactions" in out
    assert "constant" in next(line for line in out.splitlines() if line.split()[:1] == ["dull"])


# ---------------------------------------------------------------------- failures


def _bad_files(folder):
    Path("empty.csv").write_text("")
    Path("words.csv").write_text("a,b\n1,yes\n-1,no\n1,no\n-1,yes\n1,yes\n")
    Path("data.txt").write_text("1 2\n")
    Path("broken.npy").write_bytes(b"nothing")
    Path("broken.npz").write_bytes(b"nothing")
    Path("broken.parquet").write_bytes(b"nothing")
    Path("one.csv").write_text("a,b\n1,1\n1,-1\n1,1\n")
    np.save("cube.npy", np.ones((2, 2, 2)))
    models.save("mixed.npz", MIXED, MIXED_NAMES)
    Path("strange.csv").write_text("age,region,smokes,party\n1,east,0,red\n")
    np.savez("two.npz", a=np.ones((2, 2)), b=np.ones((2, 2)))


FAILURES = [
    ("fit nowhere.csv", "nowhere.csv: there is no such file"),
    ("fit empty.csv", "empty.csv: "),
    ("fit words.csv --categorical none", "column 'b' holds text"),
    ("fit data.csv --categorical snow", "names the column 'snow'"),
    ("fit data.csv --powers 0", "powers=0"),
    ("fit data.csv -o data.csv", "data.csv: it is read by this command"),
    ("fit data.csv --table ./data.csv", "data.csv: it is read by this command"),
    ("fit data.csv -o new.npz --report new.npz", "new.npz: it is written by another option"),
    ("sample model.npz -o model.npz", "model.npz: it is read by this command"),
    ("score model.npz data.csv -o data.csv", "data.csv: it is read by this command"),
    ("infer model.npz -o model.npz", "model.npz: it is read by this command"),
    ("sample mixed.npz -o x.npy -n 2", "x.npy: "),
    ("score mixed.npz strange.csv", "'east'"),
    ("fit data.txt", "the format .txt is not known"),
    ("fit broken.npy", "broken.npy: "),
    ("fit broken.npz", "broken.npz: "),
    ("fit broken.parquet", "broken.parquet: "),
    ("fit cube.npy", "shape (2, 2, 2)"),
    ("fit two.npz", "call the samples X"),
    ("fit model.npz", "this is a model"),
    ("fit one.csv", "column 'a' is constant"),
    ("fit data.csv --drop snow", "no column 'snow'"),
    ("fit data.csv --drop rain,wind,sun,frost", "no column is left"),
    ("fit data.csv --alphabet 0,1", "outside the alphabet"),
    ("fit data.csv --refine magic", "refine='magic'"),
    ("fit data.csv --fdr 2", "fdr=2.0"),
    ("fit data.csv --level 2", "--level 2"),
    ("fit data.csv -o nowhere/model.npz", "make the folder first"),
    ("fit data.csv --table table.npy", "table.npy"),
    ("fit data.csv --interactions rain*snow", "'snow' is not a known feature"),
    ("sample nowhere.npz", "nowhere.npz: No such file or directory"),
    ("sample data.csv", "not a model"),
    ("sample model.npz -n 0", "n_samples=0"),
    ("sample model.npz -o x.txt -n 2", "the format .txt"),
    ("score model.npz words.csv", "lacks the column 'rain'"),
    ("score model.npz cube.npy", "cube.npy"),
    ("infer broken.npz", "broken.npz"),
    ("info nowhere.npz", "nowhere.npz"),
    ("info broken.npz", "broken.npz"),
]


@pytest.mark.parametrize(("command", "message"), FAILURES)
def test_bad_input_is_one_line_and_exit_code_2(folder, capsys, command, message):
    _bad_files(folder)
    code, _, err = run(capsys, *command.split())
    assert code == 2
    assert err.startswith("hbm-learn: error: ")
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "required: command"),
        ("fit", "required: data"),
        ("fit data.csv --order many", "'many': give an integer"),
        ("fit data.csv --alpha high", "'high': give"),
        ("fit data.csv --alphabet interval:1", "interval:0,1"),
        ("fit data.csv --interactions @nowhere", "cannot read nowhere"),
        ("infer model.npz --method magic", "invalid choice: 'magic'"),
        ("fit data.csv --site none", "invalid choice: 'none'"),
        ("fit data.csv --powers two", "invalid int value: 'two'"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(folder, capsys, command, message):
    with pytest.raises(SystemExit) as stop:
        main(command.split())
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert message in err


@pytest.mark.parametrize(("error", "code"), [(RuntimeError("lost"), 1), (MemoryError(), 1), (KeyboardInterrupt(), 130)])
def test_other_failures(folder, capsys, monkeypatch, error, code):
    def fail(*_):
        raise error

    monkeypatch.setattr(commands.HBM, "fit", fail)
    found, out, err = run(capsys, "fit", "data.csv")
    assert (found, out) == (code, "")
    assert err.startswith("hbm-learn: error: ")
    assert err.count("\n") == 1


def test_nothing_is_left_behind_by_a_failed_fit(folder, capsys):
    run(capsys, "fit", "nowhere.csv", "-o", "new.npz", "--table", "new.csv")
    assert not Path("new.npz").exists()
    assert not Path("new.csv").exists()


# ---------------------------------------------------------------------- as a program


def test_console_script_help_and_silence(folder):
    """In a pipe there is no progress bar; help names every command and exits with 0."""
    script = Path(sys.executable).with_name("hbm-learn")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "hbm_learn"]
    shown = subprocess.run([*program, "fit", "data.csv", "--top", "1"], capture_output=True, text=True, check=True)
    assert shown.stderr == ""
    assert "rain × wind × sun" in shown.stdout


@pytest.mark.parametrize("command", ["", "fit", "sample", "score", "infer", "info"])
def test_help(capsys, command):
    with pytest.raises(SystemExit) as stop:
        main([*command.split(), "--help"])
    assert stop.value.code == 0
    out = capsys.readouterr().out
    assert "usage: hbm-learn" in out
    if not command:
        assert all(name in out for name in ("fit", "sample", "score", "infer", "info"))


# ---------------------------------------------------------------------- mixed tables

MIXED_NAMES = ["age", "region", "smokes", "party"]
MIXED = BoltzmannMachine(
    [-0.1, 0.0, -1.0, 0.0],
    {
        (0, 2): 0.3,
        (1, 2): [1.0, -0.5, -0.5],
        (1, 3): [[0.8, -0.8, 0.0], [-0.8, 0.8, 0.0], [0.0, 0.0, 0.0]],
        (0, 1, 3): np.outer([1, -1, 0], [0.2, 0.1, -0.3]),
    },
    alphabet=[(1, 2, 3, 4, 5), Nominal("north", "south", "wild $west$"), (0, 1), Nominal("green", "none", "red")],
    site=[None, [0.2, 0.0, -0.2], None, None],
)


@pytest.fixture(scope="module")
def mixed_frame():
    return pd.DataFrame(sample(MIXED, 2000, method="exact", random_state=1), columns=MIXED_NAMES).infer_objects()


@pytest.fixture
def mixed_folder(tmp_path, monkeypatch, mixed_frame):
    monkeypatch.chdir(tmp_path)
    mixed_frame.to_csv("mixed.csv", index=False)
    models.save("mixed.npz", MIXED, MIXED_NAMES)
    return tmp_path


def test_fit_a_mixed_table(mixed_folder, capsys, mixed_frame):
    options = ["--order", 3, "--powers", 2, "-o", "out.npz", "--table", "table.csv", "--report", "report.html"]
    code, out, err = run(capsys, "fit", "mixed.csv", *options)
    assert (code, err) == (0, "")
    est = HBM(order=3, powers=2).fit(mixed_frame)
    assert "2,000 rows of 4 variables, 2 numeric with 2 to 5 values and 2 nominal with 3 labels." in out
    r = est.interactions_.index((1, 3))
    row = next(line.split() for line in out.splitlines() if line.split()[:4] == ["region", "×", "party", "2"])
    assert row[4] == f"{est.effects_[r]:.3f}"  # a size, without a sign
    assert row[8] == "4"
    assert "age² × " in out
    assert BoltzmannMachine.load("out.npz") == est.model_
    table = pd.read_csv("table.csv").set_index("interaction")
    assert table.loc["age*age*smokes", "effect"] == pytest.approx(est.effects_[est.interactions_.index((0, 0, 2))])
    assert "weights by label" in Path("report.html").read_text()
    # What --table writes, --interactions reads.
    code, out, _ = run(capsys, "fit", "mixed.csv", "--interactions", "age*age*smokes,region*party")
    assert code == 0
    assert "2 pairs fitted" in out


def test_numbers_as_labels(mixed_folder, capsys):
    code, out, _ = run(capsys, "fit", "mixed.csv", "--order", 2, "--categorical", "smokes")
    assert code == 0
    assert "1 numeric with 5 values and 3 nominal with 2 to 3 labels" in out  # text stays what it is


def test_values_that_stand_for_missing(mixed_folder, capsys, mixed_frame):
    gaps = mixed_frame.copy()
    gaps.loc[:9, "age"] = -9
    gaps.loc[5:19, "party"] = "unknown"
    gaps.to_csv("gaps.csv", index=False)
    code, out, err = run(capsys, "fit", "gaps.csv", "--order", 2, "--na", "-9,unknown")
    assert code == 0
    assert err == ""
    assert "2 numeric with 2 to 5 values and 2 nominal with 3 labels" in out
    code, out, _ = run(capsys, "info", "gaps.csv", "--na", "-9,unknown")
    assert code == 0
    assert "20 rows with a missing value" in out
    code, out, _ = run(capsys, "score", "mixed.npz", "gaps.csv", "--na", "-9,unknown")
    assert code == 0
    assert "rows                        1980" in out


def test_sample_writes_labels(mixed_folder, capsys):
    for name in ("s.csv", "s.parquet"):
        assert run(capsys, "sample", "mixed.npz", "-n", 50, "--seed", 3, "-o", name)[0] == 0
        X = tables.read(name)
        assert list(X.columns) == MIXED_NAMES
        assert X["age"].dtype.kind == "i"
        expected = sample(MIXED, 50, method="exact", random_state=3)
        assert (X.to_numpy(dtype=object) == expected).all()
    _, out, _ = run(capsys, "sample", "mixed.npz", "-n", 2, "--seed", 3)
    assert out.splitlines()[0] == ",".join(MIXED_NAMES)
    assert len(out.splitlines()) == 3


def test_score_a_mixed_table(mixed_folder, capsys, mixed_frame):
    run(capsys, "fit", "mixed.csv", "--order", 2, "-o", "out.npz")
    est = HBM(order=2).fit(mixed_frame)
    with_gap = mixed_frame[MIXED_NAMES[::-1]].copy()
    with_gap.loc[len(with_gap)] = [None, 1, "north", 2]
    with_gap.to_csv("new.csv", index=False)
    code, out, err = run(capsys, "score", "out.npz", "new.csv", "--log-likelihood", "-o", "rows.csv")
    assert code == 0
    assert "1 row with a missing value left out" in err
    assert f"{est.score(mixed_frame):.6f} ±" in out
    assert f"{est.log_likelihood(mixed_frame):.6f} nats" in out
    assert pd.read_csv("rows.csv")["score"].to_numpy() == pytest.approx(est.score_samples(mixed_frame), rel=1e-9)


@pytest.mark.parametrize("method", ["exact", "dc"])
def test_infer_prints_probabilities_of_labels(mixed_folder, capsys, method):
    code, out, _ = run(capsys, "infer", "mixed.npz", "--method", method, "-o", "moments.npz")
    assert code == 0
    result = infer(MIXED, method)
    lines = {line.split()[0]: line for line in out.splitlines()[3:] if line.strip()}
    deviation = np.sqrt(result.v[0] - result.m[0] ** 2)
    assert lines["age"].split() == ["age", f"+{result.m[0]:.3f}", f"{deviation:.3f}"]
    p = result.probabilities[1]
    assert f"north {p[0]:.3f}, south {p[1]:.3f}, wild $west$ {p[2]:.3f}" in lines["region"]
    assert "nan" not in out
    with np.load("moments.npz") as saved:
        assert np.array_equal(saved["probabilities"], np.concatenate(result.probabilities))
        assert saved["value_ptr"].tolist() == [0, 5, 8, 10, 13]


def test_info_tells_every_column(mixed_folder, capsys, mixed_frame):
    rng = np.random.default_rng(0)
    M = len(mixed_frame)
    odd = mixed_frame.assign(
        id=np.arange(M), flat="x", pay=rng.normal(size=M).round(2), rate=rng.choice([1, 2, 3, -99], M)
    )
    odd["smokes"] = odd["smokes"].where(np.arange(M) >= 500)
    odd.to_csv("odd.csv", index=False)
    code, out, err = run(capsys, "info", "odd.csv")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in out.splitlines()[5:]}
    count = (mixed_frame["region"] == "north").sum()
    assert lines["region"].split()[:4] == ["region", "nominal", "north", f"({count:,}),"]
    assert lines["age"].split()[:3] == ["age", "numeric", "1"]
    assert "25.0 %" in lines["smokes"]
    assert "looks like an id" in lines["id"]
    assert "constant" in lines["flat"]
    assert "more than 16 values" in lines["pay"]
    assert "-99 looks like a code for missing" in lines["rate"]
    assert "fit would refuse 3 columns: --drop id,flat,pay leaves them out." in out
    assert "500 rows with a missing value: a fit uses what is there of them." in out
    assert "Without them, fit takes order 3: 20 interactions, fitted by exact likelihood." in out
    code, out, _ = run(capsys, "info", "odd.csv", "--drop", "id,flat,pay,rate", "--categorical", "age")
    assert code == 0
    assert "By default, fit takes order 3: 10 interactions" in out
    assert next(line.split()[1] for line in out.splitlines() if line.split()[:1] == ["age"]) == "nominal"


def test_info_says_the_truth_about_fit(mixed_folder, capsys):
    """What is left after --drop is fitted as info says."""
    code, out, _ = run(capsys, "fit", "mixed.csv")
    assert code == 0
    assert "Order 3" in out
    assert "6 pairs and 4 triplets fitted by exact likelihood" in out


def test_info_on_a_mixed_model(mixed_folder, capsys):
    code, out, _ = run(capsys, "info", "mixed.npz")
    assert code == 0
    assert "4 variables (2 numeric with 2 to 5 values and 2 nominal with 3 labels), 3 pairs and 1 triplet." in out
    assert "labels north, south, wild $west$" in out


def test_info_where_nothing_can_be_fitted(mixed_folder, capsys):
    Path("flat.csv").write_text("a,b\n1,1\n1,0\n1,1\n")
    code, out, _ = run(capsys, "info", "flat.csv")
    assert code == 0
    assert "fewer than two columns" in out


def test_tables_on_a_terminal_line_up_whatever_they_hold(capsys):
    terminal.print_table(["name", "n"], [["日本", "1"], ["a\nb\x1b[2J", "10"], ["e\u0301", "3"]])
    lines = capsys.readouterr().out.splitlines()
    # A letter of Japanese takes two places, an accent of its own none.
    assert lines == ["  name      n", "  日本      1", "  a b [2J  10", "  e\u0301         3"]


def test_progress_is_shown_on_a_terminal_only(capsys, monkeypatch):
    with terminal.progress(1) as step:
        step("thinking")
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with terminal.progress(1) as step:
        step("thinking")
    assert "thinking" in capsys.readouterr().err


def test_a_code_for_missing_is_warned_of_with_the_option(mixed_folder, capsys, mixed_frame):
    M = len(mixed_frame)
    rate = np.random.default_rng(0).choice([1, 2, 3, -99], M)
    mixed_frame.assign(rate=rate).to_csv("coded.csv", index=False)
    code, _, err = run(capsys, "fit", "coded.csv", "--order", "2", "--refine", "none")
    assert code == 0
    assert "'rate' has the value -99 far from its others" in err
    assert "--na -99" in err
    code, _, err = run(capsys, "fit", "coded.csv", "--order", "2", "--refine", "none", "--na", "-99")
    assert code == 0
    assert "looks like a code" not in err
