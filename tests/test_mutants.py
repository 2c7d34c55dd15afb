"""The table of planted mistakes fits the source: ``python tests/mutants.py`` runs them."""

import pytest
from mutants import MUTANTS, ROOT, Mutant


def test_every_mistake_stands_once_in_the_source():
    for each in MUTANTS:
        text = (ROOT / each.source).read_text(encoding="utf-8")
        assert each.planted(text) != text, str(each)
        assert all((ROOT / name).exists() for name in each.tests.split() if name.endswith(".py")), str(each)
    assert len({(each.file, each.old, each.new) for each in MUTANTS}) == len(MUTANTS) >= 60


def test_every_mistake_is_a_program():
    for each in MUTANTS:
        text = (ROOT / each.source).read_text(encoding="utf-8")
        compile(each.planted(text), each.file, "exec")


@pytest.mark.parametrize("text", ["", "x = 1\nx = 1\n"])
def test_a_mistake_that_does_not_fit_is_an_error(text):
    with pytest.raises(ValueError, match="and not once: 'x = 1'"):
        Mutant("a.py", "x = 1", "x = 2", "").planted(text)
