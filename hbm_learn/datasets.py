"""Random and planted models (``make_*``), the data sets that ship with the package (``load_*``), and lagged copies."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from hbm_learn.lagged import lagged
from hbm_learn.model import BoltzmannMachine
from hbm_learn.random_models import (
    make_curie_weiss,
    make_lattice,
    make_mixed,
    make_planted,
    make_potts,
    make_pspin,
    make_random,
    make_sk,
    make_takahashi,
)
from hbm_learn.space import Nominal

__all__ = [
    "lagged",
    "load_planted_survey",
    "load_planted_triplets",
    "make_curie_weiss",
    "make_lattice",
    "make_mixed",
    "make_planted",
    "make_potts",
    "make_pspin",
    "make_random",
    "make_sk",
    "make_takahashi",
]


def load_planted_triplets() -> Bunch:
    """10,000 samples of 20 spins, from a model with 20 pairs and 12 triplets, and that model.

    Returns
    -------
    Bunch
        With data (10000, 20) of ±1, feature_names, and model (the truth).
    """
    with _shipped("planted_triplets.csv").open(newline="") as file:
        reader = csv.reader(file)
        names = next(reader)
        data = np.array([[int(value) for value in row] for row in reader])
    truth = json.loads(_shipped("planted_triplets_truth.json").read_text())
    couplings = {tuple(names.index(name) for name in key.split("*")): J for key, J in truth["couplings"].items()}
    model = BoltzmannMachine([truth["h"][name] for name in names], couplings, alphabet=truth["alphabet"])
    return Bunch(data=data, feature_names=names, model=model)


def load_planted_survey() -> Bunch:
    """A simulated survey: twelve variables of different kinds, drawn from a model with pairs and two triplets.

    Returns
    -------
    Bunch
        With data (a pandas frame of 3000 rows and 12 columns: text, numbers, and 2 % of the cells missing),
        feature_names, and model (the truth).
    """
    import pandas as pd

    with _shipped("planted_survey.csv").open(encoding="utf-8") as file:
        data = pd.read_csv(file)
    truth = json.loads(_shipped("planted_survey_truth.json").read_text(encoding="utf-8"))
    return Bunch(data=data, feature_names=list(truth["values"]), model=survey_model(truth))


def survey_model(truth: Mapping[str, Any]) -> BoltzmannMachine:
    """The model that a truth file describes by names: values, h, d, site and couplings."""
    names = list(truth["values"])
    alphabets = [Nominal(*values) if isinstance(values[0], str) else values for values in truth["values"].values()]
    couplings = {tuple(names.index(name) for name in each["members"]): each["J"] for each in truth["couplings"]}
    h, d = ([truth[part].get(name, 0.0) for name in names] for part in ("h", "d"))
    return BoltzmannMachine(h, couplings, d, alphabets, [truth["site"].get(name) for name in names])


def _shipped(name: str) -> Any:
    """A file of datasets/: in the package where it is installed, beside it in a checkout that is not."""
    try:
        return files("hbm_learn.shipped") / name
    except ModuleNotFoundError:
        return Path(__file__).parents[1] / "datasets" / name
