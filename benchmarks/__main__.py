"""Every race against a peer, growth and memory, in one table: benchmarks/RESULTS.md and results.json.

    python -m benchmarks [--only NAME …] [--repeats 3] [--write]

One thread, processor seconds, contestants in turns, answers compared before anything is timed. Peers come with
``pip install ".[benchmark]"``; one that is not there is listed as such. A race takes seconds, all of it some minutes.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import platform  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from benchmarks import growth, races  # noqa: E402

HERE = Path(__file__).parent


def race(name: str, repeats: int) -> dict[str, Any]:
    command = f"python -m benchmarks --only {name}"
    try:
        return {"command": command, **races.run(races.RACES[name](), repeats)}
    except ImportError as error:
        return {"command": command, "task": name, "missing": f"{error.name} is not installed"}


def page(found: dict[str, list[dict[str, Any]]]) -> str:
    """RESULTS.md."""
    lines = [
        "# Races",
        "",
        "Written by `python -m benchmarks --write`: one thread, processor seconds, contestants in turns, answers",
        f"compared first. Python {platform.python_version()}, {platform.machine()}.",
        "",
        "*whole* is a fit as users call it, with errors and checks that most peers do not give; *alone* is what of it",
        "makes the answer that the peer makes. A ratio above 1 is in our favour, below 1 in the peer's.",
        "",
        "| task | peer | peer, s | whole, s | alone, s | peer / whole | peer / alone | largest difference |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in found["races"]:
        if "missing" in row:
            lines.append(f"| {row['task']} | {row['missing']} | | | | | | |")
            continue
        times = " | ".join(f"{row[key]:.3g}" for key in ("theirs", "ours", "alone", "ratio", "ratio alone"))
        lines.append(f"| {row['task']} | {row['peer']} | {times} | {row['difference']:.0e} ({row['why']}) |")
    behind = [f"{row['task']} ({row['peer']})" for row in found["races"] if row.get("ratio", 1.0) < 1.0]
    if behind:
        lines += [
            "",
            f"Behind as a whole: {'; '.join(behind)}. *alone* says what of it the peer does, too. The rest is the",
            "covariance of the scores and its products with the inverse Hessian (P² M + 5 P³ flops for up to 2000",
            "couplings, solutions for random draws beyond), and chains whose samples are compared with the data.",
        ]
    lines += [
        "",
        "coniii does not install with current NumPy; adabmDCA brings GPU libraries along and has no estimate to be",
        "compared to a few digits, as it learns by stochastic steps: neither is raced.",
        "",
        "## Growth",
        "",
        "| task | sizes | seconds | exponent | on paper |",
        "|---|---|---|---|---|",
    ]
    for row in found["growth"]:
        sizes = f"{row['grows']} = " + ", ".join(f"{size:g}" for size in row["sizes"])
        seconds = ", ".join(f"{s:.2g}" for s in row["seconds"])
        lines.append(f"| {row['task']} | {sizes} | {seconds} | {row['exponent']:.2f} | {row['paper']} |")
    lines += ["", "## Memory", "", "| task | table as bytes, MiB | fit on top, MiB |", "|---|---|---|"]
    lines += [f"| {row['task']} | {row['table MiB']:.0f} | {row['fit MiB']:.0f} |" for row in found["memory"]]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", metavar="NAME", choices=list(races.RACES), help="some of the races")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write RESULTS.md and results.json")
    given = parser.parse_args()
    found: dict[str, list[dict[str, Any]]] = {"races": [], "growth": [], "memory": []}
    for name in given.only or races.RACES:
        found["races"].append(race(name, given.repeats))
        print(found["races"][-1], flush=True)
    if not given.only:
        for name in growth.CURVES:
            found["growth"].append(growth.curve(name, given.repeats))
            print(found["growth"][-1], flush=True)
        for case in growth.MEMORY:
            found["memory"].append(growth.memory(*case))
            print(found["memory"][-1], flush=True)
    if given.write:
        (HERE / "RESULTS.md").write_text(page(found))
        (HERE / "results.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
