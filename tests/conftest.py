"""What many tests share: a small mixed table, as people have them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from zlib import crc32

import numpy as np
import pandas as pd
import pytest

from hbm_learn import BoltzmannMachine, Nominal, _validation, sample


def zero_sum(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """A random table whose sums along every axis vanish."""
    table = rng.normal(size=shape)
    for axis in range(len(shape)):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


@pytest.fixture(scope="session")
def survey_model() -> BoltzmannMachine:
    """Six columns of six kinds, with pairs and triplets among them."""
    rng = np.random.default_rng(0)
    alphabets = [(-1, 1), (0, 1), (1, 2, 3, 4, 5), Nominal("north", "south", "west"), (0, 0.5, 3), Nominal("no", "yes")]
    couplings = {
        (0, 1): 0.4,
        (0, 2): 0.2,
        (1, 3): 0.5 * zero_sum(rng, 3),
        (3, 5): 0.5 * zero_sum(rng, 3, 2),
        (2, 4): -0.15,
        (0, 1, 2): 0.15,
        (0, 3, 5): 0.5 * zero_sum(rng, 3, 2),
    }
    return BoltzmannMachine([0.1, -0.5, 0.2, 0, 0.1, 0], couplings, [0, 0, 0.1, 0, 0.05, 0], alphabets)


@pytest.fixture(scope="session")
def survey(survey_model) -> pd.DataFrame:
    """3000 rows of it: spins, booleans, ratings, categories, odd numbers, text."""
    X = sample(survey_model, 3000, method="exact", random_state=1)
    frame = pd.DataFrame(X, columns=["spin", "bit", "rating", "region", "dose", "answer"])
    kinds = {"spin": int, "bit": bool, "rating": int, "region": "category", "dose": float, "answer": "str"}
    return frame.astype(kinds)


@contextmanager
def _counted_entropy(name: str) -> Iterator[None]:
    """random_state=None begins with numbers that only the name settles: what fails, fails again."""
    numbers = count(crc32(name.encode()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_validation, "fresh_entropy", lambda: next(numbers))
        yield


@pytest.fixture(autouse=True, scope="module")
def _entropy_of_module(request: pytest.FixtureRequest) -> Iterator[None]:
    with _counted_entropy(request.node.name):
        yield


@pytest.fixture(autouse=True)
def _entropy_of_test(request: pytest.FixtureRequest) -> Iterator[None]:
    with _counted_entropy(request.node.nodeid):
        yield
