"""The README is executed."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README.read_text(), flags=re.DOTALL)


def test_the_two_commands_are_there():
    commands = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("pip install ")]
    assert commands == [
        "pip install . && hbm-learn fit datasets/planted_triplets.csv --order 3 --fdr 0.05 --report report.html",
        'pip install -e ".[test]" && pytest',
    ]


@pytest.mark.parametrize("code", blocks("python"))
def test_the_python_example_runs_and_finds_the_triplets(code, capsys):
    exec(compile(code, str(README), "exec"), {})
    printed = capsys.readouterr().out
    found, true, false = map(int, re.search(r"(\d+) of (\d+) planted triplets found, (\d+) false", printed).groups())
    assert found >= 0.8 * true
    assert false <= 0.25 * true
