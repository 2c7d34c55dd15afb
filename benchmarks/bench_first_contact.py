"""First contact: what import and help cost, and how long the main command compiles on a machine without caches.

    python benchmarks/bench_first_contact.py [--fresh] [--repeats 7]
    python benchmarks/bench_first_contact.py --record

Imports: processor seconds of processes in turns, the best of several, beside ``import sklearn, pandas``. The command:
processor seconds within numba's compiler, with an empty NUMBA_CACHE_DIR. ``--fresh`` installs the checkout in an
environment of its own first, as a user would; without it, it is the installation that runs this, and an editable one
has nothing compiled ahead. ``--record`` writes the list of calls that a build compiles ahead: those of the command.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LISTED = ROOT / "hbm_learn" / "_kernels" / "signatures.txt"
IMPORTS = {
    "import sklearn, pandas": "import sklearn, pandas",
    "import hbm_learn": "import hbm_learn",
    "hbm-learn --help": "from hbm_learn.cli import main; main(['--help'])",
}
COMMAND = ["fit", str(ROOT / "datasets" / "planted_survey.csv"), "--order", "3", "--fdr", "0.05", "--report"]
# Runs the command, and prints as its last line what numba compiled, found compiled, and how long the first took.
WATCHED = """
import json, sys, time
from numba.core import event
seconds, starts = [], []
class Watch(event.Listener):
    def on_start(self, event):
        starts.append(time.process_time())
    def on_end(self, event):
        begin = starts.pop()
        if not starts:
            seconds.append(time.process_time() - begin)
event.register("numba:compile", Watch())
from hbm_learn.cli import main
status = main(sys.argv[1:])
from hbm_learn._kernels import ahead
calls = ahead.in_use()
print(json.dumps({"status": status, "calls": calls, "compiled": len(seconds), "seconds": sum(seconds)}))
"""


def children(command: Sequence[str], **environment: str) -> tuple[float, str]:
    """Processor seconds of a command and of all that it starts, and what it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    settings = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    settings |= {"OMP_NUM_THREADS": "1", **environment}
    done = subprocess.run(command, env=settings, capture_output=True, text=True, cwd=tempfile.gettempdir())
    if done.returncode:
        raise SystemExit(f"{' '.join(command)[:200]}\n{done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def imports(python: str, repeats: int) -> dict[str, float]:
    """Best processor seconds of each; the first turn writes bytecode, which an installation has."""
    best = dict.fromkeys(IMPORTS, float("inf"))
    for turn in range(repeats + 1):
        for name, code in IMPORTS.items():
            seconds = children([python, "-c", code])[0]
            best[name] = min(best[name], seconds) if turn else best[name]
    return best


def main_command(python: str, cache: str) -> dict:
    """What numba did in the main command, by its status, calls, number compiled and seconds; and seconds in all."""
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.html")
        seconds, printed = children([python, "-c", WATCHED, *COMMAND, report], NUMBA_CACHE_DIR=cache, MPLBACKEND="Agg")
    return {**json.loads(printed.splitlines()[-1]), "all": seconds}


def calls_of_the_main_command(python: str = sys.executable) -> list[str]:
    """The second run alone: what a first one compiles holds the calls of kernels by kernels as well."""
    with tempfile.TemporaryDirectory() as cache:
        main_command(python, cache)
        return main_command(python, cache)["calls"]


def installed(folder: Path) -> str:
    """The Python of a fresh environment with the checkout in it; prints what the installation took."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    begin = time.perf_counter()
    seconds, _ = children([python, "-m", "pip", "install", "--quiet", str(ROOT)])
    print(f"pip install .: {seconds:.0f} processor seconds, {time.perf_counter() - begin:.0f} on the clock")
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    if options.record:
        LISTED.write_text("\n".join(calls_of_the_main_command()) + "\n")
        return
    with tempfile.TemporaryDirectory() as folder:
        python = installed(Path(folder) / "environment") if options.fresh else sys.executable
        best = imports(python, options.repeats)
        reference = next(iter(best.values()))
        for name, seconds in best.items():
            print(f"{name:24} {seconds:6.2f} s  {seconds / reference:5.2f}")
        cache = os.path.join(folder, "cache")
        for name in ("the main command, first", "the main command, again"):
            found = main_command(python, cache)
            print(
                f"{name:24} {found['all']:6.2f} s, of which {found['seconds']:.2f} in {found['compiled']} compilations "
                f"({len(found['calls'])} kernels called)"
            )


if __name__ == "__main__":
    main()
