"""Random and planted models (``make_*``), and the data sets that ship with the package (``load_*``)."""

from __future__ import annotations

import csv
import json
import sysconfig
from collections.abc import Mapping
from itertools import product
from math import comb, factorial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from hbm_learn.interactions import Interactions, check_count
from hbm_learn.model import BoltzmannMachine

__all__ = [
    "load_planted_triplets",
    "make_curie_weiss",
    "make_lattice",
    "make_planted",
    "make_pspin",
    "make_random",
    "make_sk",
    "make_takahashi",
]


def make_takahashi(
    sigma: float, j3: float = 0.001, n: int = 10, alphabet: Any = (-1, 1), random_state: Any = None
) -> BoltzmannMachine:
    """The paper's random instance (Eq. energy_higher-order_for_experiment).

    h ~ N(0, 0.1²), J_ij ~ N(0, variance σ²/√n), every triplet at ``j3``, d = 0.01.
    """
    rng = np.random.default_rng(random_state)
    interactions = Interactions.upto(3 if j3 else 2, n)
    weights = np.full(len(interactions), float(j3))
    pairs = interactions.slice(2)
    h = rng.normal(0.0, 0.1, n)
    weights[pairs] = rng.normal(0.0, sigma / n**0.25, comb(n, 2))
    return BoltzmannMachine.from_packed(h, interactions, weights, 0.01, alphabet)


def make_sk(
    n: int, beta: float = 1.0, h_std: float = 0.0, alphabet: Any = (-1, 1), random_state: Any = None
) -> BoltzmannMachine:
    """Sherrington–Kirkpatrick: J_ij ~ N(0, β²/n), h ~ N(0, h_std²). Its transition is at β = 1 on {-1, 1}."""
    return make_random(n, {2: beta / np.sqrt(n)}, h_std, alphabet, random_state)


def make_pspin(
    n: int, p: int = 3, J: float = 1.0, h_std: float = 0.0, alphabet: Any = (-1, 1), random_state: Any = None
) -> BoltzmannMachine:
    """p-spin model, scaled as in the paper: J_μ has variance J² p!/(2n^(p−1)) (Eq. gaussian_assumption_p_spin)."""
    return make_random(n, {p: J * np.sqrt(factorial(p) / (2.0 * n ** (p - 1)))}, h_std, alphabet, random_state)


def make_random(
    n: int,
    stds: Mapping[int, float],
    h_std: float = 0.1,
    alphabet: Any = (-1, 1),
    random_state: Any = None,
    d: float = 0.0,
) -> BoltzmannMachine:
    """All interactions of the given orders, J_μ ~ N(0, stds[|μ|]²), h ~ N(0, h_std²)."""
    rng = np.random.default_rng(random_state)
    check_count({k: comb(n, k) for k in stds}, n)
    everything = Interactions.upto(max(stds), n)
    interactions = Interactions.from_blocks([everything.block(k) for k in sorted(stds)], n)
    h = rng.normal(0.0, h_std, n) if h_std else np.zeros(n)
    weights = np.concatenate([rng.normal(0.0, stds[k], comb(n, k)) for k in sorted(stds)])
    return BoltzmannMachine.from_packed(h, interactions, weights, d, alphabet)


def make_planted(
    n: int,
    counts: Mapping[int, int],
    strength: tuple[float, float] = (0.1, 0.3),
    h_std: float = 0.1,
    beta: float = 0.0,
    alphabet: Any = (-1, 1),
    random_state: Any = None,
    d: float = 0.0,
) -> BoltzmannMachine:
    """A sparse random hypergraph: counts[k] interactions of order k, |J_μ| uniform in ``strength``, random signs.

    With ``beta`` > 0, every pair also has an SK coupling of standard deviation β/√n as a background.
    """
    rng = np.random.default_rng(random_state)
    h = rng.normal(0.0, h_std, n) if h_std else np.zeros(n)
    couplings: dict[tuple[int, ...], float] = {}
    if beta:
        pairs = Interactions.upto(2, n)
        couplings.update(zip(pairs.tuples, rng.normal(0.0, beta / np.sqrt(n), len(pairs)).tolist()))
    for k, count in sorted(counts.items()):
        if not 2 <= k <= n or count > comb(n, k):
            raise ValueError(f"counts={{{k}: {count}}}: {n} variables have {comb(n, k)} interactions of order {k} ≥ 2.")
        chosen: set[tuple[int, ...]] = set()
        while len(chosen) < count:
            chosen.add(tuple(sorted(rng.choice(n, k, replace=False).tolist())))
        for mu in sorted(chosen):
            couplings[mu] = couplings.get(mu, 0.0) + float(rng.choice([-1, 1]) * rng.uniform(*strength))
    return BoltzmannMachine(h, couplings, d, alphabet)


def make_lattice(
    shape: tuple[int, ...],
    J: float = 1.0,
    negative: float = 0.5,
    h_std: float = 0.0,
    periodic: bool = True,
    alphabet: Any = (-1, 1),
    random_state: Any = None,
) -> BoltzmannMachine:
    """±J model on a hypercubic lattice: nearest neighbours at ±J, the minus sign with probability ``negative``."""
    rng = np.random.default_rng(random_state)
    index = np.arange(int(np.prod(shape))).reshape(shape)
    edges: set[tuple[int, int]] = set()
    for site in product(*map(range, shape)):
        for axis, length in enumerate(shape):
            neighbour = list(site)
            neighbour[axis] += 1
            if neighbour[axis] == length:
                if not periodic or length <= 2:
                    continue
                neighbour[axis] = 0
            a, b = int(index[site]), int(index[tuple(neighbour)])
            edges.add((min(a, b), max(a, b)))
    ordered = sorted(edges)
    signs = np.where(rng.random(len(ordered)) < negative, -1.0, 1.0)
    h = rng.normal(0.0, h_std, index.size) if h_std else np.zeros(index.size)
    return BoltzmannMachine(h, dict(zip(ordered, (J * signs).tolist())), alphabet=alphabet)


def make_curie_weiss(
    n: int, strengths: Mapping[int, float], h: float = 0.0, alphabet: Any = (-1, 1), d: float = 0.0
) -> BoltzmannMachine:
    """Tensor Curie–Weiss: J_μ = strengths[k] · k!/n^(k−1) for every μ of order k.

    In the magnetisation M per site, −H/n → h M + Σ_k strengths[k] M^k.
    """
    check_count({k: comb(n, k) for k in strengths}, n)
    everything = Interactions.upto(max(strengths), n)
    interactions = Interactions.from_blocks([everything.block(k) for k in sorted(strengths)], n)
    weights = np.concatenate(
        [np.full(comb(n, k), strengths[k] * factorial(k) / n ** (k - 1)) for k in sorted(strengths)]
    )
    return BoltzmannMachine.from_packed(np.full(n, float(h)), interactions, weights, d, alphabet)


def load_planted_triplets() -> Bunch:
    """Samples of a planted model with pairs and triplets, and the model that made them.

    Returns
    -------
    Bunch with data (10000, 20) of ±1, feature_names, and model (the truth).
    """
    folder = _data_folder()
    with open(folder / "planted_triplets.csv", newline="") as file:
        reader = csv.reader(file)
        names = next(reader)
        data = np.array([[int(value) for value in row] for row in reader])
    truth = json.loads((folder / "planted_triplets_truth.json").read_text())
    couplings = {tuple(names.index(name) for name in key.split("*")): J for key, J in truth["couplings"].items()}
    model = BoltzmannMachine([truth["h"][name] for name in names], couplings, alphabet=truth["alphabet"])
    return Bunch(data=data, feature_names=names, model=model)


def _data_folder() -> Path:
    """datasets/ of the checkout, or where the wheel put it."""
    checkout = Path(__file__).resolve().parents[1] / "datasets"
    if (checkout / "planted_triplets.csv").exists():
        return checkout
    return Path(sysconfig.get_path("data")) / "share" / "hbm_learn" / "datasets"
