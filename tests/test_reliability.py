"""The count runs, and counts what is lost: ``python -m tests.reliability``."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests import mutants, reliability
from tests.mutants import MUTANTS

ROOT = Path(__file__).parents[1]


def test_it_runs_as_a_command_on_a_selection():
    command = [sys.executable, "-m", "tests.reliability", "--only", "inputs", "mutants", "--select", "odd_input"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout + done.stderr
    passed, of, total = lines[0].split()[-3:]
    assert (of, passed) == ("of", total)
    assert int(total) >= 15
    assert f"of {len(MUTANTS)}" in lines[1]
    assert lines[-1].split() == ["lost", "nothing"]


def test_a_failure_is_lost(tmp_path, monkeypatch, capsys):
    (tmp_path / "tests").mkdir()
    text = "import pytest\n\n\ndef test_right(record_property):\n    record_property('examples', 7)\n"
    (tmp_path / "tests" / "test_wrong.py").write_text(text + "\n\ndef test_wrong():\n    assert False\n")
    monkeypatch.setattr(reliability, "ROOT", tmp_path)
    monkeypatch.setattr(reliability, "GROUPS", {"faults": reliability.Group("faults", ("test_wrong.py",), "")})
    assert reliability.main(["--only", "faults"]) == 1
    out = capsys.readouterr().out.splitlines()
    assert out[0].split(maxsplit=1) == ["faults", "1 of 2, 7 examples"]
    assert out[-2].endswith("test_wrong.py::test_wrong")
    assert out[-1].endswith("assert False")


def test_the_example_that_fails_is_told(tmp_path, monkeypatch, capsys):
    (tmp_path / "tests").mkdir()
    text = "from hypothesis import given, settings, strategies as st\n\n\n@settings(database=None)\n"
    text += "@given(n=st.integers(0, 9))\ndef test_small(n):\n    assert n < 7\n"
    (tmp_path / "tests" / "test_small.py").write_text(text)
    monkeypatch.setattr(reliability, "ROOT", tmp_path)
    monkeypatch.setattr(reliability, "GROUPS", {"faults": reliability.Group("faults", ("test_small.py",), "")})
    assert reliability.main(["--only", "faults"]) == 1
    assert "n=7" in capsys.readouterr().out


@pytest.mark.parametrize(("alive", "code"), [(2, 0), (3, 1)])
def test_fewer_than_three_mistakes_may_survive(alive, code, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reliability, "RECORD", tmp_path / "record.json")
    found = {str(m): {"caught": k >= alive, "digest": m.digest()} for k, m in enumerate(MUTANTS)}
    found[str(MUTANTS[-1])]["digest"] = "another"
    reliability.keep(mutants=found, coverage={"percent": 97.5, "digest": "another", "passed": True})
    assert reliability.main(["--only", "mutants", "coverage"]) == code
    out = capsys.readouterr().out
    assert f"{len(MUTANTS) - alive} of {len(MUTANTS)}, 1 of them before" in out
    assert "97.5 %, before the package changed" in out
    del found[str(MUTANTS[5])]
    reliability.keep(mutants=found, coverage={"percent": 96.9, "digest": "another", "passed": True})
    assert reliability.main(["--only", "mutants", "coverage"]) == 1
    assert "1 not run" in capsys.readouterr().out


def test_a_test_that_fails_under_coverage_is_lost(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(reliability, "RECORD", tmp_path / "record.json")
    reliability.keep(coverage={"percent": 99.0, "digest": "another", "passed": False})
    assert reliability.main(["--only", "coverage"]) == 1
    assert "a default test, under coverage" in capsys.readouterr().out


def test_mistakes_and_counts_keep_one_record():
    assert mutants.keep is reliability.keep
    assert set(reliability.record()["mutants"]) <= set(map(str, MUTANTS))


def test_the_oldest_versions_that_are_tested_are_those_that_are_allowed():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    optional = project["optional-dependencies"]
    extras = [each for name in ("parquet", "excel", "spss", "dask") for each in optional[name]]
    wanted = map(Requirement, [*project["dependencies"], *extras])
    bounds = {each.name: next(s.version for s in each.specifier if s.operator == ">=") for each in wanted}
    lines = (ROOT / ".ci" / "oldest.txt").read_text(encoding="utf-8").splitlines()
    pinned = [Requirement(line) for line in lines if not line.startswith("#")]
    pins = {each.name: str(each.specifier).removeprefix("==") for each in pinned}
    assert len(bounds) >= 16
    for name, bound in bounds.items():
        least, tested = Version(bound).release, Version(pins[name]).release
        assert tested[: len(least)] == least, f"{name}: >={bound}, and {pins[name]} is tested"
