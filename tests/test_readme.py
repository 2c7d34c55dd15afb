"""The README is executed, and the page for contributors names the tree as it is."""

import re
import shlex
from pathlib import Path

import pytest

from hbm_learn.cli import main

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


def commands():
    """What a user would copy: .ci/run takes these lines, too."""
    return [line for line in README.read_text().splitlines() if line.startswith("pip install ")]


def test_the_two_commands_are_there():
    assert commands() == [
        "pip install . && hbm-learn fit datasets/planted_survey.csv --order 3 --fdr 0.05 --report report.html",
        'pip install -e ".[test]" && pytest -n 2',
    ]


def test_the_main_command_finds_the_triplets(tmp_path, monkeypatch, capsys):
    (tmp_path / "datasets").symlink_to(ROOT / "datasets")
    monkeypatch.chdir(tmp_path)
    program, *arguments = shlex.split(commands()[0].split("&&")[1])
    assert program == "hbm-learn"
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "2 triplets" in printed
    for triplet in ("region × reads news × view of taxes", "sex × votes × change of income"):
        assert triplet in printed
    assert "<html" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_example_runs_and_finds_the_triplets(code, capsys):
    exec(compile(code, str(README), "exec"), {})
    printed = capsys.readouterr().out
    found, true, false = map(int, re.search(r"(\d+) of (\d+) planted triplets found, (\d+) false", printed).groups())
    assert true >= 2
    assert found >= 0.8 * true
    assert false <= 0.25 * true


def test_the_page_for_contributors_names_what_is_there():
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    tree = page.split("    hbm_learn/\n")[1].split("    tests/")[0]
    named = set(re.findall(r"^      (?:  )?(\w+(?:/|\.py))", tree, flags=re.MULTILINE)) | {"_validation.py"}
    package = ROOT / "hbm_learn"
    here = {
        f"{path.name}/" if path.is_dir() else path.name
        for folder in (package, package / "inversion")
        for path in folder.iterdir()
        if (path / "__init__.py").exists() or (folder == package and path.suffix == ".py")
    }
    assert named == here - {"__init__.py", "__main__.py"}
