"""Make planted_triplets.csv and its truth again: ``python datasets/make_planted_triplets.py [folder]``.

20 variables of ±1, 20 pairs and 12 triplets planted at random with 0.1 ≤ |J_μ| ≤ 0.3, 10,000 independent samples drawn
from all 2²⁰ states.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np

from hbm_learn import BoltzmannMachine, datasets, sample

SEED = 20
N_FEATURES, N_SAMPLES = 20, 10_000
COUNTS = {2: 20, 3: 12}


def planted_model() -> BoltzmannMachine:
    """The truth, rounded to three decimals so that the file says exactly what was sampled."""
    model = datasets.make_planted(N_FEATURES, COUNTS, strength=(0.1, 0.3), h_std=0.1, random_state=SEED)
    return BoltzmannMachine.from_packed(model.h.round(3), model.columns, model.weights.round(3))


def write(folder: Path) -> None:
    model = planted_model()
    names = [f"x{i}" for i in range(N_FEATURES)]
    X = sample(model, N_SAMPLES, method="exact", random_state=SEED)
    with open(folder / "planted_triplets.csv", "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(np.asarray(X, dtype=int).tolist())
    truth = {
        "alphabet": [-1, 1],
        "h": dict(zip(names, model.h.tolist())),
        "couplings": {"*".join(names[i] for i in mu): J for mu, J in model.couplings().items()},
    }
    (folder / "planted_triplets_truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
