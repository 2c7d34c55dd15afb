"""Which interactions a fit considers: from the parameters of an estimator and the space of its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import comb
from typing import Any

import numpy as np

from hbm_learn._validation import check_integer, memory
from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.space import Space
from hbm_learn.terms import all_terms, columns_of, with_modelled

# order="auto" takes triplets while they make at most this many interactions.
MAX_AUTO_INTERACTIONS = 10**6
# Sets of an order that stand for all of them.
_SOME_SETS = 2000
# What a fit takes for each member of each interaction (measured: 190 to 230 bytes, orders 3 and 4), and at most.
BYTES_A_MEMBER, MAX_FIT_BYTES = 200, 2**35


def check_order(order: Any, interactions: Any, space: Space, names: Sequence[str] | None) -> int:
    """The largest number of variables in an interaction, settled for a table."""
    if not isinstance(order, str):
        chosen = check_integer("order", order, 1)
    elif order != "auto":
        raise ValueError(f'order={order!r}: give an integer or "auto".')
    else:
        chosen = automatic_order(space)
        if interactions is not None:
            chosen = max(chosen, columns_of(interactions, space, names).order)
    if space.is_real and chosen > 2:
        raise ValueError(
            f'alphabet "real" takes pair interactions only (order={chosen} was asked): use order=2, bin the columns '
            "into a few values, list them in alphabet=…, or give alphabet=Interval(low, high) for bounded variables."
        )
    return chosen


def automatic_order(space: Space) -> int:
    """3 while pairs and triplets of columns are at most 10⁶, else 2; 2 on the real line."""
    N = space.n_columns
    return 3 if comb(N, 2) + comb(N, 3) <= MAX_AUTO_INTERACTIONS and not space.is_real else 2


def require_room(interactions: Any, order: int, space: Space) -> None:
    """Refuse, before memory is taken, a fit of all interactions that would not fit in it."""
    if interactions is not None:
        return
    counts = [1, *[0] * order]  # of sets of k columns at different variables: Π (1 + r_i t)
    for r in np.diff(space.column_ptr).tolist():
        for k in range(order, 0, -1):
            counts[k] += r * counts[k - 1]
    needed = sum(BYTES_A_MEMBER * k * counts[k] for k in range(2, order + 1))
    limit = min(MAX_FIT_BYTES, memory())
    if needed > limit:
        raise ValueError(
            f"all interactions up to order {order} of {space.n_features} variables have {sum(counts[2:]):,} couplings: "
            f"their fit would take {needed / 2**30:,.0f} GiB (limit {limit / 2**30:,.0f} GiB). Lower `order`, drop "
            "variables, group rare labels, or name the `interactions` to consider."
        )


def powers_needed(powers: Any, interactions: Any) -> int:
    """The highest power that takes part: the parameter, or a repeated member of an interaction."""
    powers = check_integer("powers", powers, 1)
    if interactions is None:
        return powers
    repeated = [max(Counter(mu).values(), default=1) for mu in interactions if not isinstance(mu, str)]
    return max([powers, *repeated])


def considered_columns(interactions: Any, order: int, space: Space, names: Sequence[str] | None) -> Interactions:
    """The sets of columns of all terms up to an order, or of the terms that were named."""
    if interactions is None:
        return all_terms(order, space)
    given = columns_of(interactions, space, names)
    if given.order > order:
        raise ValueError(f"interactions has one of order {given.order}, but order={order!r}: raise `order`.")
    return given


def some_terms(order: int, space: Space) -> Interactions:
    """All pairs, and of each higher order some sets that stand for it, of variables with one column each."""
    blocks = [all_terms(2, space).block(2), *(some_sets(k, space, _SOME_SETS).block(k) for k in range(3, order + 1))]
    return Interactions.from_blocks(blocks, space.n_features)


def some_sets(k: int, space: Space, most: int) -> Interactions:
    """Up to so many sets of k variables with one column each, drawn at random, the same ones each time."""
    rng, n = np.random.default_rng(0), space.n_features
    drawn = np.sort(rng.integers(0, n, (2 * most, k)), axis=1)
    drawn = np.unique(drawn[(np.diff(drawn, axis=1) > 0).all(axis=1)], axis=0)
    drawn = drawn[np.sort(rng.permutation(len(drawn))[:most])]
    return with_modelled(Interactions.from_blocks([drawn], n), space)


def _named(found: np.ndarray, label: Callable[[int], str]) -> str:
    """How messages name columns: ten of them, and how many more."""
    more = f" and {found.size - 10} more" if found.size > 10 else ""
    return f"column{'s' if found.size > 1 else ''} {', '.join(label(int(i)) for i in found[:10])}{more}"


def require_variation(moments: Moments) -> None:
    """Refuse, by name, columns that are constant and labels that never occur: their weights would be infinite."""
    space, names = moments.space, moments.feature_names

    def label(i: int) -> str:
        return str(i) if names is None else repr(names[i])

    kinds = np.array([a.is_finite for a in space.alphabets])[~space.given]
    if space.has_given and not kinds.all():
        i = int(np.flatnonzero(~space.given)[np.argmin(kinds)])
        raise ValueError(
            f"column {label(i)} is on {space.alphabets[i]} beside given columns: modelled columns need listed values "
            "there; bin it into a few values."
        )
    if kinds.any() and not kinds.all():
        i = int(np.flatnonzero(~kinds)[0])
        raise ValueError(
            f"column {label(i)} is on {space.alphabets[i]} beside columns with listed values: a fit takes listed "
            "values in every column, or continuous ones in every column; bin it into a few values."
        )
    if not moments.is_complete:
        alone = Interactions.from_blocks([np.arange(space.n_columns)[:, None]], space.n_columns)
        empty = np.unique(space.site[moments.n_observed(alone) <= 0])
        if empty.size:
            holds, it = ("holds", "it") if empty.size == 1 else ("hold", "them")
            raise ValueError(
                f"{_named(empty, label)} {holds} no value at all, so that nothing can be learnt of {it}: drop {it}."
            )
    constant = np.flatnonzero(np.logical_and.reduceat(~(np.diag(moments.covariance) > 0), space.column_ptr[:-1]))
    if constant.size:
        if moments.n_samples <= 1:
            raise ValueError(f"only 1 sample (n_samples = {moments.n_samples:g}): nothing varies; give more rows.")
        raise ValueError(
            f"{_named(constant, label)} {'is' if constant.size == 1 else 'are'} constant, so that the field there "
            f"would be infinite: drop {'it' if constant.size == 1 else 'them'} (for instance with "
            f"sklearn.feature_selection.VarianceThreshold), or give more samples (n_samples = {moments.n_samples:g})."
        )
    if not space.is_finite:
        return
    some_unseen = np.searchsorted(space.value_ptr, np.flatnonzero(space.flat(moments.frequencies) <= 0), "right") - 1
    for i in np.unique(some_unseen):
        if space.given[i] and not space.alphabets[i].is_nominal:
            continue  # it has no weight
        alphabet, unseen = space.alphabets[i], np.flatnonzero(moments.frequencies[i] <= 0)
        if alphabet.is_nominal or alphabet.size - unseen.size <= np.diff(space.column_ptr)[i]:
            value = alphabet.values[unseen[0]]
            raise ValueError(
                f"column {label(i)} never has the value {value!r}, whose weight would be infinite: leave it out of "
                "alphabet=…, or give more samples."
            )
