"""Two checkouts side by side: the same ±1 work with each, interleaved, as ratios.

    python benchmarks/compare.py OLD NEW [--repeat 5] [--only fit]

OLD and NEW are folders with a hbm_learn package. Each task runs in a process of its own that imports one of them, warms
up (compilation does not count), and times the task; rounds alternate, and the best of each side is compared, since
noise on a shared machine only adds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

TASKS = {
    "import": "",
    "moments n=100 M=1e5 order 3": """
X = rng.choice([-1, 1], (100_000, 100)).astype(np.int8)
run = lambda: Moments.from_samples(X, order=3)
""",
    "moments n=60 M=2e5 order 4": """
X = rng.choice([-1, 1], (200_000, 60)).astype(np.int8)
run = lambda: Moments.from_samples(X, order=4)
""",
    "closed form fit n=100 M=1e5 order 3": """
X = rng.choice([-1, 1], (100_000, 100)).astype(np.int8)
run = lambda: HBM(order=3, refine=None, alphabet=(-1, 1)).fit(X)
""",
    "closed form fit n=1000 M=2e4 order 2": """
X = rng.choice([-1, 1], (20_000, 1000)).astype(np.int8)
run = lambda: HBM(order=2, refine=None, alphabet=(-1, 1)).fit(X)
""",
    "likelihood fit n=12 order 3": """
X = sample(datasets.make_random(12, {2: 0.1, 3: 0.03}, random_state=0), 5000, method="exact", random_state=0)
run = lambda: HBM(order=3).fit(X)
""",
    "likelihood fit n=20 order 3": """
X = sample(datasets.make_random(20, {2: 0.06, 3: 0.01}, random_state=0), 20_000, method="exact", random_state=0)
run = lambda: HBM(order=3, alpha=1.0).fit(X)
""",
    "pseudolikelihood fit n=30 order 3 alpha=1": """
X = sample(datasets.make_random(30, {2: 0.05, 3: 0.01}, random_state=0), 20_000, method="gibbs", random_state=0)
run = lambda: HBM(order=3, alpha=1.0).fit(X)
""",
    "pseudolikelihood fit n=50 order 3 auto": """
X = sample(datasets.make_random(50, {2: 0.04, 3: 0.006}, random_state=0), 50_000, method="gibbs", random_state=0)
run = lambda: HBM(order=3).fit(X)
""",
    "selection n=20 order 3 fdr": """
X = datasets.load_planted_triplets().data
run = lambda: HBM(order=3, fdr=0.05).fit(X)
""",
    "score n=20 M=1e4": """
X = datasets.load_planted_triplets().data
est = HBM(order=3, refine=None).fit(X)
run = lambda: est.score(X)
""",
    "exact n=20 order 3": """
model = datasets.make_random(20, {2: 0.1, 3: 0.03}, random_state=0)
run = lambda: infer(model, "exact")
""",
    "gibbs n=500 sparse triplets": """
model = datasets.make_planted(500, {3: 1500}, random_state=0)
run = lambda: sample(model, 20_000, method="gibbs", random_state=0, burn_in=100, thin=5)
""",
    "tempering n=50": """
model = datasets.make_sk(50, 1.0, random_state=0)
run = lambda: sample(model, 2000, method="tempering", random_state=0)
""",
    "dc n=200 SK": """
model = datasets.make_sk(200, 0.8, h_std=0.1, random_state=0)
run = lambda: infer(model, "dc")
""",
    "dc n=30 order 3": """
model = datasets.make_random(30, {2: 0.1, 3: 0.03}, random_state=0)
run = lambda: infer(model, "dc")
""",
}

HARNESS = """
import sys, time, json, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
t = time.perf_counter()
import numpy as np
from hbm_learn import HBM, Moments, datasets, infer, sample
imported = time.perf_counter() - t
import hbm_learn
assert hbm_learn.__file__.startswith({folder!r}), hbm_learn.__file__
rng = np.random.default_rng(0)
{setup}
if {setup!r}:
    run()
    best = np.inf
    for _ in range({inner}):
        t = time.perf_counter(); run(); best = min(best, time.perf_counter() - t)
else:
    best = imported
print(json.dumps(best))
"""


def once(folder: str, setup: str, inner: int) -> float:
    code = HARNESS.format(folder=os.path.abspath(folder), setup=setup, inner=inner)
    environment = {**os.environ, "PYTHONPATH": os.path.abspath(folder)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().splitlines()[-1])
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--inner", type=int, default=3)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    print(f"{'task':45} {'old':>9} {'new':>9}  new/old")
    for name, setup in TASKS.items():
        if args.only not in name:
            continue
        times: dict[str, list[float]] = {"old": [], "new": []}
        for _ in range(args.repeat):
            for side in times:
                times[side].append(once(getattr(args, side), setup, args.inner))
        old, new = min(times["old"]), min(times["new"])
        print(f"{name:45} {old:8.4f}s {new:8.4f}s  {new / old:.2f}", flush=True)


if __name__ == "__main__":
    main()
