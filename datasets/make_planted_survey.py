"""Make planted_survey.csv and its truth again: ``python datasets/make_planted_survey.py [folder]``.

Twelve answers of different kinds, as surveys have them: labels, ratings from 1 to 5, yes and no, 0 and 1, and -1, 0, 1.
Fourteen pairs and two triplets are planted; 3,000 independent samples are drawn from all 288,000 states, and 2 % of the
cells are left empty at random. Simulated: nobody was asked.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from hbm_learn import BoltzmannMachine, datasets

SEED = 12
N_SAMPLES, MISSING = 3000, 0.02
RATING, YES_NO, BIT, CHANGE = [1, 2, 3, 4, 5], ["no", "yes"], [0, 1], [-1, 0, 1]
VALUES: dict[str, list[Any]] = {
    "sex": ["female", "male"],
    "region": ["east", "north", "south", "west"],
    "votes": YES_NO,
    "reads news": YES_NO,
    "trust in press": RATING,
    "trust in parliament": RATING,
    "life satisfaction": RATING,
    "member of a club": BIT,
    "owns home": BIT,
    "has children": BIT,
    "change of income": CHANGE,
    "view of taxes": CHANGE,
}
H = {
    "trust in press": -0.7,
    "trust in parliament": -1.5,
    "life satisfaction": 0.6,
    "member of a club": -0.9,
    "owns home": -0.4,
    "has children": -0.2,
    "change of income": -0.9,
    "view of taxes": -0.2,
}
D = {"trust in press": 0.1, "life satisfaction": 0.3, "change of income": 0.6}
SITE = {
    "region": [0.3, -0.2, 0.1, -0.2],
    "votes": [0.2, -0.2],
    "reads news": [0.3, -0.3],
    "trust in parliament": [0.0, 0.2, 0.5, 0.1, -0.3],
}
COUPLINGS: dict[tuple[str, ...], Any] = {
    ("trust in press", "trust in parliament"): 0.25,
    ("trust in parliament", "life satisfaction"): 0.15,
    ("life satisfaction", "change of income"): 0.3,
    ("owns home", "has children"): 0.9,
    ("member of a club", "has children"): 0.6,
    ("change of income", "view of taxes"): -0.35,
    ("sex", "member of a club"): [-0.3, 0.3],
    ("votes", "trust in parliament"): [-0.2, 0.2],
    ("votes", "owns home"): [-0.25, 0.25],
    ("reads news", "trust in press"): [-0.2, 0.2],
    ("votes", "reads news"): [[0.25, -0.25], [-0.25, 0.25]],
    ("region", "view of taxes"): [0.5, -0.1, -0.4, 0.0],
    ("region", "owns home"): [-0.6, 0.5, 0.4, -0.3],
    ("region", "votes"): [[0.2, -0.2], [-0.3, 0.3], [0.1, -0.1], [0.0, 0.0]],
    ("sex", "votes", "change of income"): [[0.35, -0.35], [-0.35, 0.35]],
    ("region", "reads news", "view of taxes"): [[0.4, -0.4], [-0.4, 0.4], [0.3, -0.3], [-0.3, 0.3]],
}


def truth() -> dict[str, Any]:
    """What planted_survey_truth.json says."""
    couplings = [{"members": list(members), "J": J} for members, J in COUPLINGS.items()]
    return {"values": VALUES, "h": H, "d": D, "site": SITE, "couplings": couplings}


def draw(model: BoltzmannMachine, n_samples: int, rng: np.random.Generator) -> np.ndarray:
    """(n_samples, n) codes of independent samples, from the probabilities of all states."""
    sizes = model.space.sizes.tolist()
    codes = np.stack(np.unravel_index(np.arange(np.prod(sizes)), sizes), axis=1).astype(np.uint8)
    energy = model.energy_of_codes(codes)
    total = np.cumsum(np.exp(energy.min() - energy))
    return codes[np.searchsorted(total, total[-1] * rng.random(n_samples))]


def write(folder: Path) -> None:
    model = datasets.survey_model(truth())
    rng = np.random.default_rng(SEED)
    X = model.space.decode(draw(model, N_SAMPLES, rng))
    X[rng.random(X.shape) < MISSING] = ""
    with open(folder / "planted_survey.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(VALUES)
        writer.writerows(X.tolist())
    (folder / "planted_survey_truth.json").write_text(json.dumps(truth(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent)
