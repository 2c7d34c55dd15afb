"""The races run: a peer's answer is compared before its time, and a wrong one is no race."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[1]


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def test_one_race_by_its_command():
    command = [sys.executable, "-m", "benchmarks", "--only", "enumeration", "--repeats", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "matrix of features" in done.stdout


def test_answers_that_differ_are_no_race():
    races = load("races")
    one, other = (lambda: np.ones(3)), (lambda: np.full(3, 1.01))
    assert races.run(races.Race("task", "peer", one, one), 1)["difference"] == 0.0
    with pytest.raises(AssertionError, match="task: the answers differ by 9"):
        races.run(races.Race("task", "peer", one, other), 1)
