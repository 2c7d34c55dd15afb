"""Bootstrap and case-dropping stability of any statistic of a fit: the same estimator on tables drawn from its own.

    standard error   √Var over draws,     interval   quantiles of the draws,     s* = statistic(fit(table drawn again))
    stability        the largest share of cases that can be left out such that P(cor(s*, s) ≥ .7) ≥ .95

Every refit has the values, the order and the method of the fit of the whole table, so that draws are alike in shape.
"""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.base import clone

from hbm_learn._threads import blas_for
from hbm_learn._validation import check_integer, check_jobs, seed_sequence
from hbm_learn.assessment.cases import Cases
from hbm_learn.names import given_names
from hbm_learn.terms import Terms, closure

# Attributes with an entry for each interaction.
OF_INTERACTIONS = ("weights_", "effects_", "standard_errors_", "effect_errors_")
# Shares of the cases to leave out, as bootnet has them.
SHARES = tuple(np.linspace(0.05, 0.75, 10).round(4).tolist())


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """A statistic of a fit and its draws.

    Attributes
    ----------
    estimate : array
        The statistic of the fit of the whole table.
    draws : (n, …) array
        Of the refits that gave one.
    statistic : str
        Its name.
    level : float
        Of ``intervals``.
    interactions : list of tuples, or None
        Matching ``estimate``, where it has an entry for each interaction; with ``fdr`` all that were considered, and
        zeros where one was not selected.
    feature_names : list of str, or None
        Of the columns.
    failures : dict
        {what was wrong: how many refits were left out for it}.
    """

    estimate: np.ndarray
    draws: np.ndarray
    statistic: str
    level: float = 0.95
    interactions: list[tuple[int, ...]] | None = None
    feature_names: list[str] | None = None
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def n_failed(self) -> int:
        """Refits that were left out."""
        return sum(self.failures.values())

    @property
    def mean(self) -> np.ndarray:
        """Of the draws; less ``estimate``, it is the bias that the bootstrap sees."""
        return self.draws.mean(axis=0)

    @property
    def standard_errors(self) -> np.ndarray:
        """Standard deviations of the draws."""
        return self.draws.std(axis=0, ddof=1)

    @property
    def intervals(self) -> np.ndarray:
        """(…, 2) percentile intervals."""
        tails = [0.5 - 0.5 * self.level, 0.5 + 0.5 * self.level]
        return np.moveaxis(np.quantile(self.draws, tails, axis=0), 0, -1)

    @property
    def selected(self) -> np.ndarray:
        """Shares of the draws that are not zero: how often ``fdr`` or an ℓ1 penalty keeps an interaction."""
        return (self.draws != 0.0).mean(axis=0)

    @property
    def same_sign(self) -> np.ndarray:
        """Shares of the draws with the sign of the estimate; NaN where that is zero."""
        share = (np.sign(self.draws) == np.sign(self.estimate)).mean(axis=0)
        return np.where(self.estimate != 0.0, share, np.nan)

    def to_frame(self) -> Any:
        """A pandas table with a row for each interaction, or each entry of the statistic."""
        import pandas as pd

        lower, upper = np.moveaxis(self.intervals, -1, 0)
        columns = {
            "estimate": self.estimate,
            "mean": self.mean,
            "standard_error": self.standard_errors,
            "lower": lower,
            "upper": upper,
            "selected": self.selected,
            "same_sign": self.same_sign,
        }
        table = {name: np.ravel(values) for name, values in columns.items()}
        if self.interactions is None:
            return pd.DataFrame({"entry": list(np.ndindex(self.estimate.shape)), **table})
        names = self.feature_names
        labels = [mu if names is None else tuple(names[i] for i in mu) for mu in self.interactions]
        return pd.DataFrame({"interaction": labels, "order": [len(set(mu)) for mu in self.interactions], **table})

    def __repr__(self) -> str:
        left = f", {self.n_failed} left out" if self.failures else ""
        return f"Bootstrap({self.statistic}, {len(self.draws)} draws of shape {self.estimate.shape}{left})"


@dataclass(frozen=True, eq=False)
class Stability:
    """How like its estimate a statistic stays as cases are left out.

    Attributes
    ----------
    dropped : (k,) array
        Shares of the cases left out.
    correlations : (k, n) array
        Of the statistic without them with that of all cases; NaN where a refit failed.
    correlation : float
        What a correlation must reach.
    probability : float
        How often it must.
    failures : dict
        {what was wrong: how many refits were left out for it}.
    """

    dropped: np.ndarray
    correlations: np.ndarray
    correlation: float = 0.7
    probability: float = 0.95
    failures: dict[str, int] = field(default_factory=dict)

    @property
    def reached(self) -> np.ndarray:
        """(k,) how often the correlation was reached; a failed refit has not reached it."""
        return (self.correlations >= self.correlation).mean(axis=1)

    @property
    def coefficient(self) -> float:
        """The largest share up to which it was reached often enough: the CS-coefficient; 0 if none."""
        enough = np.append(self.reached >= self.probability, False)
        first = int(np.argmin(enough))
        return float(self.dropped[first - 1]) if first else 0.0

    def to_frame(self) -> Any:
        """A pandas table with a row for each share."""
        import pandas as pd

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "All-NaN")
            low, middle, high = np.nanquantile(self.correlations, [0.025, 0.5, 0.975], axis=1)
        return pd.DataFrame(
            {"dropped": self.dropped, "lower": low, "median": middle, "upper": high, "reached": self.reached}
        )

    def __repr__(self) -> str:
        return f"Stability(coefficient={self.coefficient:.2g}: correlation ≥ {self.correlation:g})"


def bootstrap(
    est: Any,
    X: Any,
    statistic: str | Callable[[Any], Any] = "weights_",
    n: int = 1000,
    *,
    sample_weight: Any = None,
    groups: Any = None,
    level: float = 0.95,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Bootstrap:
    """Refit an estimator to tables drawn from its own, and see how a statistic of it varies.

    Rows are drawn again with multinomial weights. Refits keep the values, the order and the method of the fit of all
    rows; one that cannot be made, as where a column is constant among the rows drawn, or that does not converge, is
    left out and counted, with a warning.

    The spread is that of the estimate as it is. Without a prior (alpha=0) it agrees with the errors of the fit. A
    learnt prior takes some of the noise of the table, which every draw has beside its own, for effects, and shrinks
    less: the spread of weak couplings is then larger than their errors, and ``est.effect_intervals()`` are better.

    Parameters
    ----------
    est : HBM
        Fitted or not: it is cloned, and stays as it is.
    X : table
        In memory.
    statistic : str or callable
        The name of an attribute of a fitted estimator (``"weights_"``, the default, ``"effects_"``, ``"h_"``,
        ``"J_"``, …), or a function of one that returns an array of numbers.
    n : int, default=1000
        How many refits.
    sample_weight : (M,) array-like, default=None
        How often each row occurs.
    groups : (M,) array-like, default=None
        Labels of rows that belong together: whole groups are drawn.
    level : float, default=0.95
        Of the percentile intervals.
    random_state : int, Generator, RandomState or None, default=None
        Each draw has a seed of its own from it, so that nothing depends on ``n_jobs``.
    n_jobs : int, default=None
        Refits at a time, as joblib counts them and ``joblib.parallel_config`` says; each keeps to one thread then.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    Bootstrap
        The draws, with standard errors, intervals, and shares in which an interaction is there and has its sign.

    Examples
    --------
    >>> from hbm_learn import HBM, BoltzmannMachine, assessment, sample
    >>> X = sample(BoltzmannMachine([0.0, 0.1, 0.0], {(0, 1): 0.4}), 500, random_state=0)
    >>> found = assessment.bootstrap(HBM(order=2, alpha=0), X, n=50, random_state=0)
    >>> found.draws.shape, found.n_failed
    ((50, 3), 0)
    """
    n = check_integer("n", n, 2)
    _check_share("level", level)
    work = _Refits(est, X, statistic, sample_weight, groups)
    found = work.run(seed_sequence(random_state).spawn(n), [None] * n, n_jobs, verbose)
    good = [value for value in found if not isinstance(value, str)]
    failures = _said(found)
    if len(good) < 2:
        reason = max(failures, key=lambda each: failures[each])
        raise ValueError(f"only {len(good)} of n={n} refits gave statistic={work.name!r}: {reason}")
    return Bootstrap(work.estimate, np.stack(good), work.name, level, work.interactions, work.names, failures)


def stability(
    est: Any,
    X: Any,
    statistic: str | Callable[[Any], Any] = "weights_",
    n: int = 200,
    *,
    dropped: Sequence[float] = SHARES,
    correlation: float = 0.7,
    probability: float = 0.95,
    sample_weight: Any = None,
    groups: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    verbose: int = 0,
) -> Stability:
    """Leave more and more cases out, and see how long a statistic stays what it was.

    The CS-coefficient of bootnet: the largest share of cases that can be dropped such that, with probability .95, the
    correlation with the statistic of all cases is at least .7. It should be .25 at least, and better .5 (Epskamp,
    Borsboom and Fried 2018).

    Parameters
    ----------
    est : HBM
        Fitted or not: it is cloned, and stays as it is.
    X : table
        In memory.
    statistic : str or callable
        As in :func:`bootstrap`.
    n : int, default=200
        Refits for each share.
    dropped : sequence of float, default=0.05 … 0.75
        Shares of the cases to leave out, ascending.
    correlation : float, default=0.7
        What a correlation must reach.
    probability : float, default=0.95
        How often it must.
    sample_weight : (M,) array-like, default=None
        How often each row occurs; where these are no whole numbers, rows are the cases.
    groups : (M,) array-like, default=None
        Labels of rows that belong together: whole groups are left out.
    random_state : int, Generator, RandomState or None, default=None
        As in :func:`bootstrap`.
    n_jobs : int, default=None
        As in :func:`bootstrap`.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    Stability
        The correlations, and the coefficient.
    """
    n, shares = check_integer("n", n, 1), _shares(dropped)
    _check_share("correlation", correlation)
    _check_share("probability", probability)
    work = _Refits(est, X, statistic, sample_weight, groups)
    whole = work.estimate.ravel()
    if len(whole) < 3 or np.ptp(whole) == 0.0:
        raise ValueError(
            f"statistic={work.name!r} has no three different entries of which a correlation could be made."
        )
    seeds = seed_sequence(random_state).spawn(n * len(shares))
    found = work.run(seeds, np.repeat(shares, n).tolist(), n_jobs, verbose)
    values = [np.nan if isinstance(each, str) else _correlation(each.ravel(), whole) for each in found]
    return Stability(shares, np.reshape(values, (len(shares), n)), correlation, probability, _said(found))


class _Refits:
    """An estimator, its table, and the statistic of the fit of all of it."""

    def __init__(self, est: Any, X: Any, statistic: Any, sample_weight: Any, groups: Any):
        if not hasattr(est, "fit") or not hasattr(est, "get_params"):
            raise ValueError(f"est={est!r}: give an estimator such as HBM(order=2).")
        if not callable(statistic) and not isinstance(statistic, str):
            raise ValueError(f"statistic={statistic!r}: give the name of an attribute, or a function of a fitted one.")
        self.statistic, self.process = statistic, os.getpid()
        self.name = statistic if isinstance(statistic, str) else getattr(statistic, "__name__", repr(statistic))
        given = {"sample_weight": sample_weight, "groups": groups}
        whole = clone(est).fit(X, **{name: value for name, value in given.items() if value is not None})
        self.interactions = _interactions(whole) if statistic in OF_INTERACTIONS else None
        self.names = given_names(whole)
        try:
            self.estimate = self.read(whole)
        except AttributeError:
            there = ", ".join(sorted(name for name in vars(whole) if name.endswith("_") and name[0] != "_"))
            raise ValueError(f"statistic={statistic!r} is no attribute of the fit; it has {there}.") from None
        except (TypeError, ValueError) as error:
            raise ValueError(f"statistic={self.name!r} is no array of numbers: {error}") from error
        self.est = _fixed(est, whole)
        model = getattr(whole, "model_", None)
        self.cases = Cases.of(X, sample_weight, groups, None if model is None else model.space)

    def read(self, fitted: Any) -> np.ndarray:
        """The statistic of a fit; zero where an interaction was not selected."""
        value = getattr(fitted, self.statistic) if isinstance(self.statistic, str) else self.statistic(fitted)
        value = np.asarray(value, dtype=np.float64)
        if self.interactions is None or fitted.interactions_ == self.interactions:
            return value
        place = {mu: r for r, mu in enumerate(self.interactions)}
        out = np.zeros(len(self.interactions))
        out[[place[mu] for mu in fitted.interactions_]] = value
        return out

    def run(self, seeds: list[Any], shares: list[float | None], n_jobs: int | None, verbose: int) -> list[Any]:
        """The statistic of each refit, or what was wrong with it."""
        several = effective_n_jobs(check_jobs(n_jobs)) > 1
        if several and "n_jobs" in self.est.get_params(deep=False):
            self.est.set_params(n_jobs=1)
        work = (delayed(self.one)(seed, share) for seed, share in zip(seeds, shares))
        # Here for refits in this process, also in threads, which share filters and BLAS; others have their own.
        with warnings.catch_warnings(), blas_for(0) if several else nullcontext():
            warnings.simplefilter("ignore")  # the fit of all rows has said what there is to say
            found = Parallel(n_jobs=n_jobs, return_as="generator")(work)
            if verbose:
                from tqdm import tqdm

                found = tqdm(found, total=len(seeds), desc="refits", unit="fit")
            return list(found)

    def one(self, seed: np.random.SeedSequence, share: float | None) -> np.ndarray | str:
        """One refit; the number of its own chains, where it has some, follows from its seed."""
        rng = np.random.default_rng(seed)
        drawn = self.cases.again(rng) if share is None else self.cases.fewer(rng, share)
        est = clone(self.est)
        if "random_state" in est.get_params(deep=False):
            est.set_params(random_state=int(seed.generate_state(1)[0]))
        groups = {} if drawn.groups is None else {"groups": drawn.groups}
        with nullcontext() if os.getpid() == self.process else warnings.catch_warnings():
            if os.getpid() != self.process:
                warnings.simplefilter("ignore")
            try:
                value = self.read(est.fit(drawn.X, sample_weight=drawn.sample_weight, **groups))
            except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
                return str(error)
        if not getattr(est, "converged_", True):
            return "the refit did not converge: give alpha > 0, or raise max_iter."
        if value.shape != self.estimate.shape:
            return f"the statistic has shape {value.shape} in place of {self.estimate.shape}."
        return value if np.isfinite(value).all() else "the statistic is not finite."


def _interactions(whole: Any) -> list[tuple[int, ...]]:
    """All that a refit may have: with ``fdr`` every one considered, with its subsets."""
    if getattr(whole, "fdr", None) is None:
        return whole.interactions_
    considered = whole.tests_.considered
    return Terms(considered.space, closure(considered.columns, considered.space)).tuples


def _fixed(est: Any, whole: Any) -> Any:
    """The estimator with what the fit of all rows has found out: the values of each column, the order, the method."""
    out, params = clone(est), est.get_params(deep=False)
    if "verbose" in params:
        out.set_params(verbose=0)
    if not hasattr(whole, "model_"):
        return out
    out.set_params(alphabet=list(whole.model_.space.alphabets))
    if params["order"] == "auto" and params["interactions"] is None:
        out.set_params(order=whole.order_)
    if params["refine"] == "auto" and whole.result_.method != "closed-form":
        out.set_params(refine=whole.result_.method)
    return out


def _said(found: list[Any]) -> dict[str, int]:
    """What was wrong with refits, most frequent first; said once."""
    failures = dict(Counter(each for each in found if isinstance(each, str)).most_common())
    if failures:
        n, reason = sum(failures.values()), next(iter(failures))
        warnings.warn(f"{n} of {len(found)} refits were left out; most often: {reason}", UserWarning, stacklevel=3)
    return failures


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    if np.ptp(a) == 0.0:
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])


def _shares(dropped: Any) -> np.ndarray:
    """Ascending numbers between 0 and 1, or a ValueError that names them."""
    try:
        shares = np.asarray(dropped, dtype=float)
    except (TypeError, ValueError):
        shares = np.empty(0)
    if shares.ndim != 1 or not len(shares) or not ((shares > 0) & (shares < 1)).all() or (np.diff(shares) <= 0).any():
        raise ValueError(f"dropped={dropped!r}: give ascending shares of the cases between 0 and 1.")
    return shares


def _check_share(name: str, value: Any) -> None:
    if not isinstance(value, (int, float)) or not 0.0 < value < 1.0:
        raise ValueError(f"{name}={value!r}: give a number between 0 and 1.")
