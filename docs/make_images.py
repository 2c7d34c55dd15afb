"""Make the pictures of the documentation again: ``python docs/make_images.py [folder]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl

from hbm_learn import HBM, assessment, datasets, plots

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
    return {
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


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, draw in displays().items():
        draw().figure_.savefig(folder / f"{name}.png", dpi=100, metadata={"Software": None})


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "images")
