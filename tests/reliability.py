"""What the tests ask of the package, counted: bad inputs, properties, differential cases, faults, mistakes, coverage.

    python -m tests.reliability [--many] [--mutants] [--coverage] [--only WORD …]

prints one line for each, and ends with 1 if anything is lost. Planted mistakes and line coverage take half an hour and
a quarter of one: without their options the record of their last run is read, of tests/data/reliability.json, which says
of each mistake whether the file and the tests are still those of that run. With its option coverage lists the lines
that no test runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "tests" / "data" / "reliability.json"
# A signal that comes while coverage.py holds its lock leaves it locked, and the run waits for ever.
STOPS_TRACER = ("test_refits.py::test_a_signal_at_any_time_leaves_a_whole_fit",)
# Mistakes of which this many may survive, and the least line coverage without the kernels.
MOST_SURVIVORS, LEAST_COVERAGE = 2, 97.0


class Group(NamedTuple):
    """Tests that are counted together; ``cases`` is a pattern of the names that count."""

    title: str
    files: tuple[str, ...]
    cases: str


GROUPS = {
    "inputs": Group("bad inputs answered", ("test_bad_inputs.py",), r"test_(bad_|odd_).*\["),
    "properties": Group("properties hold", ("test_properties.py",), r"\[(few|many)"),
    "differential": Group("differential cases agree", ("test_differential.py",), ""),
    "faults": Group("faults survived", ("test_faults.py", "test_load.py", "test_refits.py", "test_compilation.py"), ""),
    "determinism": Group("same for any threads and blocks", ("test_determinism.py",), ""),
}


class Counter:
    """A plugin of pytest: how many tests passed and failed, and the examples that they say they tried."""

    def __init__(self, cases: str):
        self.cases = re.compile(cases)
        self.passed, self.failed, self.examples = 0, 0, 0
        self.lost: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed += 1
            self.lost.append(report.nodeid + _example(report.longreprtext))
        elif report.when == "call" and report.passed and self.cases.search(report.nodeid):
            self.passed += 1
            self.examples += sum(value for name, value in report.user_properties if name == "examples")


def _example(text: str) -> str:
    """The example of a property that does not hold, which would not be drawn again, and what was wrong."""
    lines = text.splitlines()
    names = ("Failing test case", "Falsifying example")  # in newer and older versions of hypothesis
    start = next((k for k, line in enumerate(lines) if any(name in line for name in names)), None)
    end = next((k for k in range(start or 0, len(lines)) if lines[k].strip("E ").startswith(")")), len(lines))
    said = [line for line in lines if line.startswith("E ")][:1]
    return "".join(f"\n    {line}" for line in [*said, *([] if start is None else lines[start : end + 1])])


def count(group: Group, many: bool, select: str | None) -> tuple[str, list[str]]:
    """The line of a group, and what is lost of it."""
    counter = Counter(group.cases)
    command = [str(ROOT / "tests" / name) for name in group.files]
    command += ["-q", "--no-header", "--no-summary", "-p", "no:cacheprovider", f"--rootdir={ROOT}"]
    command += ["-m", "slow or not slow"] if many else []
    command += ["-k", select] if select else []
    with open(os.devnull, "w") as nothing:
        stdout, sys.stdout = sys.stdout, nothing
        try:
            code = pytest.main(command, plugins=[counter])
        finally:
            sys.stdout = stdout
    lost = counter.lost or ([f"pytest ended with {code}"] if code not in (0, 5) else [])
    line = f"{counter.passed} of {counter.passed + len(lost)}"
    return line + (f", {counter.examples} examples" if counter.examples else ""), lost


# ---------------------------------------------------------------------- what takes long


def record() -> dict[str, Any]:
    return json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}


def keep(**parts: Any) -> None:
    """Write parts of the record."""
    text = json.dumps(record() | parts, indent=1, sort_keys=True, ensure_ascii=False)
    RECORD.write_text(text + "\n", encoding="utf-8")


def digest(files: Iterable[Path]) -> str:
    """Of the contents of files."""
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in sorted(files))).hexdigest()[:16]


def mutants(run: bool) -> tuple[str, list[str]]:
    """The mistakes that were caught; all of the table count, and a file that has changed since is told."""
    from tests.mutants import MUTANTS

    if run:
        subprocess.run([sys.executable, str(ROOT / "tests" / "mutants.py"), "--stale"], cwd=ROOT, check=False)
    known = record().get("mutants", {})
    found = [known.get(str(each)) for each in MUTANTS]
    caught = [each for each in found if each is not None and each["caught"]]
    alive = [str(each) for each, what in zip(MUTANTS, found) if what is not None and not what["caught"]]
    old = sum(what is not None and what["digest"] != each.digest() for each, what in zip(MUTANTS, found))
    line = f"{len(caught)} of {len(MUTANTS)}"
    line += f", {len(MUTANTS) - len(caught) - len(alive)} not run" if None in found else ""
    line += f", {old} of them before their file or tests changed (--mutants)" if old else ""
    return line, alive if len(alive) > MOST_SURVIVORS else []


def coverage(run: bool) -> tuple[str, list[str]]:
    """Lines of the package that the default tests run, without the kernels, which run compiled."""
    files = [path for path in (ROOT / "hbm_learn").rglob("*.py") if "_kernels" not in path.parts]
    if run:
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / "coveragerc"
            config.write_text(
                f"[run]\nsource = {ROOT / 'hbm_learn'}\nomit = */_kernels/*\ndata_file = {folder}/data\n"
                "[report]\nexclude_also =\n    if TYPE_CHECKING:\n    ^\\s*\\.\\.\\.$\n    class .*Protocol\\):\n"
            )
            command = [sys.executable, "-m", "coverage"]
            tests = ["-m", "pytest", "-q", *(f"--deselect=tests/{name}" for name in STOPS_TRACER)]
            code = subprocess.run([*command, "run", f"--rcfile={config}", *tests], cwd=ROOT, check=False).returncode
            if code not in (0, 1):
                raise RuntimeError(f"pytest ended with {code} under coverage")
            report = [*command, "report", f"--rcfile={config}", "--precision=2"]
            subprocess.run([*report, "--show-missing", "--skip-covered"], cwd=ROOT, check=True)
            done = subprocess.run([*report, "--format=total"], cwd=ROOT, check=True, capture_output=True, text=True)
            total = float(done.stdout)
        keep(coverage={"percent": total, "digest": digest(files), "passed": code == 0})
    found = record().get("coverage")
    if found is None:
        return "not measured (--coverage)", []
    old = "" if found["digest"] == digest(files) else ", before the package changed (--coverage)"
    failed = [] if found["passed"] else ["a default test, under coverage"]
    return f"{found['percent']:.1f} %{old}", failed + ["lines"] * (found["percent"] < LEAST_COVERAGE)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--many", action="store_true", help="thousands of fresh examples of the properties")
    parser.add_argument("--mutants", action="store_true", help="plant mistakes without a result of today")
    parser.add_argument("--coverage", action="store_true", help="run all default tests under coverage.py")
    parser.add_argument("--only", nargs="+", choices=[*GROUPS, "mutants", "coverage"], help="some of the counts")
    parser.add_argument("--select", metavar="EXPRESSION", help="tests by name, as pytest's -k")
    options = parser.parse_args(arguments)
    wanted = options.only or [*GROUPS, "mutants", "coverage"]
    lost: list[str] = []
    for name in wanted:
        if name in GROUPS:
            title, (line, missing) = GROUPS[name].title, count(GROUPS[name], options.many, options.select)
        elif name == "mutants":
            title, (line, missing) = "planted mistakes caught", mutants(options.mutants)
        else:
            title, (line, missing) = "lines covered, without kernels", coverage(options.coverage)
        print(f"{title:32}{line}", flush=True)
        lost += missing
    print(f"{'lost':32}" + ("nothing" if not lost else "\n  ".join(["", *lost])))
    return int(bool(lost))


if __name__ == "__main__":
    sys.exit(main())
