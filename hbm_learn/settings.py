"""Settings: what the parameters of ``HBM`` may be, looked at before any work is done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from hbm_learn._validation import check_integer, check_number, check_refinement, check_share, choose
from hbm_learn.inversion import METHODS
from hbm_learn.inversion.parameters import SITES
from hbm_learn.inversion.prior import check_alpha

# Moments, and so fits, are of these orders at most.
MAX_ORDER = 4
# Squares of larger precisions leave the range of floats.
MAX_ALPHA = 1e100


def check_settings(est: Any) -> None:
    """Refuse, by name and with a remedy, every parameter of an estimator whose type or range is wrong.

    What depends on the table (columns that interactions name, alphabets, orders of ``alpha``) is looked at with it.
    """
    _check_order(est.order)
    check_interactions(est.interactions)
    check_integer("powers", est.powers, 1)
    choose("site", est.site, dict.fromkeys(SITES))
    if est.refine is not None:
        choose("refine", est.refine, {"auto": None, **METHODS})
    _check_prior(est.alpha)
    check_number("l1_ratio", est.l1_ratio, 0.0, 1.0, what="the share of the ℓ1 penalty, between 0 and 1")
    if est.fdr is not None:
        check_share("fdr", est.fdr, "a false-discovery rate between 0 and 1, such as 0.05")
    check_refinement({name: getattr(est, name) for name in ("tol", "max_iter", "n_jobs", "random_state", "verbose")})


def _check_order(order: Any) -> None:
    if isinstance(order, str):
        if order != "auto":
            raise ValueError(f'order={order!r}: give an integer or "auto".')
    elif check_integer("order", order, 1) > MAX_ORDER:
        raise ValueError(f"order={order!r}: moments are computed for orders 1 to {MAX_ORDER}: give one of them.")


def check_interactions(interactions: Any) -> None:
    """Refuse what is no list of tuples; an iterator too, which would be used up by the first look."""
    if interactions is None:
        return
    remedy = 'give a list of tuples of columns, such as [(0, 1), (0, 1, 2)] or [("age", "region")]'
    if isinstance(interactions, Iterator):
        raise ValueError(f"interactions is a {type(interactions).__name__}, which can be read once only: {remedy}.")
    if isinstance(interactions, (str, bytes, Mapping)) or not isinstance(interactions, Iterable):
        raise ValueError(f"interactions={interactions!r}: {remedy}.")
    for mu in interactions:
        if isinstance(mu, (str, bytes, Mapping)) or not isinstance(mu, Iterable):
            raise ValueError(f"interaction {mu!r}: {remedy}.")


def _check_prior(alpha: Any) -> None:
    """Each α by itself; whether there is one for every order is seen when the order is known."""
    if isinstance(alpha, str):
        check_alpha(alpha, 2)
        return
    given = alpha.values() if isinstance(alpha, Mapping) else np.atleast_1d(np.asarray(alpha, dtype=object)).tolist()
    what = '"auto", or a prior precision: a finite number ≥ 0, or one for each order'
    for value in given:
        if check_number("alpha", value, 0.0, what=what) > MAX_ALPHA:
            raise ValueError(f"alpha={value!r}: a precision beyond {MAX_ALPHA:g} is too large: give a smaller one.")
