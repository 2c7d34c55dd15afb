"""Held-out score by order: do pairs, and then triplets, help to tell rows that the fit has not seen?"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from hbm_learn.data.tables import complete_rows

# A look, not a study: so many folds, rows (fewer where they cost more), and interactions in an order.
N_FOLDS, MAX_ROWS, MAX_ROWS_OF_MANY, MANY, MAX_INTERACTIONS = 3, 4000, 2000, 500, 5000


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Cross-validated pseudo-log-likelihood per row, in nats, for each order; (k,) arrays.

    ``gain`` is over the order before, from the same rows, with its standard error; NaN for the first.
    """

    orders: list[int]
    score: np.ndarray
    score_error: np.ndarray
    gain: np.ndarray
    gain_error: np.ndarray
    n_rows: int


def by_order(est: Any, X: Any, random_state: int = 0) -> HeldOut:
    """Refit a fitted estimator with order 1, 2, … on parts of the rows, and score the others.

    Finite values are fitted by pseudolikelihood, which is what is scored. ValueError if a part cannot be fitted, as one
    that lacks a label.
    """
    from sklearn.model_selection import KFold  # takes a tenth of a second to import, and is seldom used

    X = complete_rows(X, None).X
    most = MAX_ROWS_OF_MANY if len(est.weights_) > MANY else MAX_ROWS
    rows = np.random.default_rng(random_state).permutation(np.shape(X)[0])[:most]
    orders = _orders(est)
    if len(rows) < 2 * N_FOLDS:
        raise ValueError(f"{len(rows)} rows are too few to hold some of them out.")
    scores = np.empty((len(orders), len(rows)))
    for train, test in KFold(N_FOLDS).split(rows):
        seen, unseen = _safe_indexing(X, rows[train]), _safe_indexing(X, rows[test])
        for k, order in enumerate(orders):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the fit of all rows has said what there is to say
                scores[k, test] = _of_order(est, order).fit(seen).score_samples(unseen)
    gains = np.diff(scores, axis=0, prepend=np.nan)
    return HeldOut(orders, scores.mean(axis=1), _error(scores), gains.mean(axis=1), _error(gains), len(rows))


def _orders(est: Any) -> list[int]:
    """1 … 3, as far as the values and the time allow; of given interactions, the orders that occur."""
    if est.interactions is not None:
        return [1, *est.tests_.considered.keys.orders]
    space = est.model_.space
    N, highest = space.n_columns, 2 if space.is_real else 3
    return [k for k in range(1, highest + 1) if sum(comb(N, j) for j in range(2, k + 1)) <= MAX_INTERACTIONS]


def _of_order(est: Any, order: int) -> Any:
    """The estimator with another order, and the values of the whole table: a part may lack one."""
    space = est.model_.space
    fitted = clone(est).set_params(order=order, alphabet=list(space.alphabets), verbose=0)
    if space.is_finite and order > 1:
        fitted.set_params(refine="pseudolikelihood")
    if est.interactions is not None:
        chosen = [mu for mu in est.tests_.considered.tuples if len(set(mu)) <= order]
        fitted.set_params(interactions=chosen or None, order=order if chosen else 1)
    return fitted


def _error(x: np.ndarray) -> np.ndarray:
    return x.std(axis=1, ddof=1) / np.sqrt(x.shape[1])
