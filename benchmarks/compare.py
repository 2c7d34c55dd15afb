"""Two checkouts side by side: the same ±1 work with each, interleaved, as ratios.

    python benchmarks/compare.py OLD NEW [--repeat 5] [--only fit]

OLD and NEW are folders with a hbm_learn package. Each task runs in a process of its own that imports one of them, warms
up (compilation does not count), and counts the processor seconds of the task; rounds alternate, and the best of each
side is compared, since noise on a shared machine only adds.

*whole* is the same call. Where NEW does by it what version 0.1 did not (samples of every fit against its data, R-hat
and far chains, mixtures for priors, corrections of the closed form), *same* is the part of it that makes what 0.1 made.
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

# What of the new side makes the answer of version 0.1, where the call does more by now.
CLOSED_FORM = """
from hbm_learn.inversion.closed_form import diagonal
run = lambda: diagonal.invert(Moments.from_samples(X, order={order}), corrections="none", mixtures=False)
"""
FIT = """
from hbm_learn import inversion
from hbm_learn.data.samples import Samples
from hbm_learn.terms import all_terms
def run():
    samples = Samples.check(X)
    moments = Moments.from_samples(samples, order=3)
    return inversion.fit(moments, samples, all_terms(3, samples.space), alpha=1.0)
"""
SAME = {
    "closed form fit n=100 M=1e5 order 3": CLOSED_FORM.format(order=3),
    "closed form fit n=1000 M=2e4 order 2": CLOSED_FORM.format(order=2),
    "likelihood fit n=20 order 3": FIT,
    "pseudolikelihood fit n=30 order 3 alpha=1": FIT,
    "gibbs n=500 sparse triplets": """
from hbm_learn.sampling import agreement
agreement.of_chains = lambda *args: agreement.Agreement(1.0)
""",
    "tempering n=50": """
from importlib import import_module
from hbm_learn.sampling import agreement
import_module("hbm_learn.sampling.tempering")._agreement = lambda *args: agreement.Agreement(1.0)
""",
}

HARNESS = """
import sys, time, json, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, {folder!r})
t = time.process_time()
import numpy as np
from hbm_learn import HBM, Moments, datasets, infer, sample
imported = time.process_time() - t
import hbm_learn
assert hbm_learn.__file__.startswith({folder!r}), hbm_learn.__file__
rng = np.random.default_rng(0)
{setup}
if {setup!r}:
    run()
    best = np.inf
    for _ in range({inner}):
        t = time.process_time(); run(); best = min(best, time.process_time() - t)
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
    print(f"{'task':45} {'old':>9} {'whole':>9} {'same':>9}  whole/old  same/old")
    for name, setup in TASKS.items():
        if args.only not in name:
            continue
        sides = {"old": (args.old, setup), "whole": (args.new, setup)}
        if name in SAME:
            sides["same"] = (args.new, setup + SAME[name])
        times: dict[str, list[float]] = {side: [] for side in sides}
        for _ in range(args.repeat):
            for side, (folder, code) in sides.items():
                times[side].append(once(folder, code, args.inner))
        old, whole = min(times["old"]), min(times["whole"])
        same = min(times.get("same", times["whole"]))
        print(f"{name:45} {old:8.4f}s {whole:8.4f}s {same:8.4f}s  {whole / old:9.2f}  {same / old:8.2f}", flush=True)


if __name__ == "__main__":
    main()
