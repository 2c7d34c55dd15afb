"""Make the pictures of the documentation again: ``python docs/make_images.py [folder]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

from hbm_learn import HBM, BoltzmannMachine, assessment, datasets, plots, sample

mpl.use("Agg")

# Names that need no shortening in small pictures.
SHORT = {
    "reads news": "news",
    "trust in press": "press",
    "trust in parliament": "parliament",
    "life satisfaction": "content",
    "member of a club": "club",
    "owns home": "home",
    "has children": "children",
    "change of income": "income",
    "view of taxes": "taxes",
}


def displays() -> dict[str, Callable[[], Any]]:
    """Name of the picture: the call that draws it."""
    survey = datasets.load_planted_survey()
    everybody = survey.data.rename(columns=SHORT)
    named = everybody.dropna()
    plan = assessment.plan(survey.model, feature_names=list(named.columns), random_state=0)
    estimator = HBM(order=3, fdr=0.05).fit(named)
    triplet = ("region", "news", "taxes")
    glass = datasets.make_sk(50, beta=2.0, h_std=0.1, random_state=2)
    large = datasets.make_planted(50, {2: 30, 3: 18, 4: 3}, random_state=3)
    fever = groups()
    by_group = HBM(order=3, given=["country"], random_state=0).fit(fever.drop(columns="age"))
    by_age = HBM(order=3, given=["age"], random_state=0).fit(fever.drop(columns="country"))
    spikes = datasets.lagged(neurons())
    kinetic = HBM(given=spikes.given, interactions=spikes.interactions, order=2).fit(spikes.data)
    return {
        "group_difference": lambda: plots.GroupDifferenceDisplay.from_estimator(by_group, "country"),
        "moderation": lambda: plots.ModerationDisplay.from_estimator(by_age, "age", X=fever.drop(columns="country")),
        "lagged": lambda: plots.LaggedDisplay.from_estimator(kinetic),
        "coupling_matrix": lambda: plots.CouplingMatrixDisplay.from_estimator(estimator),
        "coupling_table": lambda: plots.CouplingTableDisplay.from_estimator(estimator, triplet),
        "hypergraph": lambda: plots.HypergraphDisplay.from_estimator(estimator),
        "hypergraph_large": lambda: plots.HypergraphDisplay.from_model(large, top=51),
        "moments": lambda: plots.MomentsDisplay.from_estimator(estimator),
        "total": lambda: plots.TotalDisplay.from_estimator(estimator, named),
        "power": lambda: plots.PowerDisplay.from_plan(plan),
        "missing": lambda: plots.MissingDisplay.from_data(everybody),
        "volcano": lambda: plots.VolcanoDisplay.from_estimator(estimator),
        "path": lambda: plots.PathDisplay.from_model(glass),
        "chains": lambda: plots.ChainsDisplay.from_model(glass, n_draws=300, random_state=0),
    }


def groups() -> pd.DataFrame:
    """Five complaints of people of three countries and all ages: one coupling differs by country, one grows."""
    rng = np.random.default_rng(1)
    names, rows = ["worry", "sleep", "tired", "mood", "focus"], []
    for k in range(240):
        country, age = ("Chile", "Japan", "Norway")[k % 3], float(rng.uniform(18, 80))
        J = {(0, 1): 1.6 if country == "Japan" else 0.3, (1, 2): 0.035 * (age - 18), (2, 3): 0.7, (3, 4): -0.6}
        model = BoltzmannMachine([-0.5, -0.4, -0.6, -0.3, 0.0], J, alphabet=(0, 1))
        some = pd.DataFrame(sample(model, 10, "exact", random_state=[1, k]), columns=names)
        rows.append(some.assign(country=country, age=age))
    return pd.concat(rows, ignore_index=True)


def neurons() -> pd.DataFrame:
    """3,000 bins of eight neurons that drive and silence each other, and rest after a spike."""
    rng = np.random.default_rng(4)
    W = np.where(rng.random((8, 8)) < 0.2, rng.normal(0, 1.5, (8, 8)), 0.0)
    np.fill_diagonal(W, -1.2)
    x, rows = np.zeros(8), []
    for _ in range(3000):
        x = (rng.random(8) < 1 / (1 + np.exp(1.0 - W @ x))).astype(int)
        rows.append(x)
    return pd.DataFrame(rows, columns=[f"n{k}" for k in range(8)])


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in displays().items():
        draw().figure_.savefig(folder / f"{name}.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
