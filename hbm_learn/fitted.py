"""FittedMachine: what can be read off a fitted model, and what it says of new rows. The second half of ``HBM``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted

from hbm_learn import conditionals
from hbm_learn._validation import check_integer
from hbm_learn.assessment import intervals, summary
from hbm_learn.assessment.pending import PendingTests
from hbm_learn.assessment.tests import Tests
from hbm_learn.data.given import given_patterns, require_present
from hbm_learn.data.moments import Moments
from hbm_learn.data.reduce import reduce
from hbm_learn.data.samples import Samples
from hbm_learn.data.tables import as_frame, check_table, is_blocks, like_input, with_names
from hbm_learn.inference.log_partition import log_partitions
from hbm_learn.inversion.result import InversionResult
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import sample


def _has_values(estimator: FittedMachine) -> bool:
    """predict_proba is there once a model on finite alphabets is fitted."""
    if not hasattr(estimator, "model_"):
        raise AttributeError("predict_proba is there after fit, if the alphabet is finite: call fit first.")
    if not estimator.model_.space.is_finite:
        raise AttributeError(f"{estimator.model_.space} has no list of values to give probabilities of.")
    return True


def require_fitted(estimator: Any, *tables: Any) -> None:
    """Refuse what is no fitted estimator, what is no table, and a table of other width than it was fitted to."""
    if not isinstance(estimator, FittedMachine):
        model = ": of a model, there is from_model" if isinstance(estimator, BoltzmannMachine) else ""
        raise ValueError(f"estimator is of type {type(estimator).__name__}: give a fitted HBM{model}.")
    check_is_fitted(estimator)
    for X in tables:
        if not is_blocks(X):
            check_table(X)
        shape: tuple[int, ...] = getattr(X, "shape", None) or np.shape(X)
        if len(shape) == 2 and shape[1] != estimator.n_features_in_:
            raise ValueError(
                f"X has {shape[1]} columns, but the estimator was fitted to {estimator.n_features_in_}: give the table "
                "that it was fitted to."
            )


class FittedMachine:
    """The methods of an estimator that has ``model_``, ``moments_``, ``result_`` and ``tests_``."""

    model_: BoltzmannMachine
    moments_: Moments
    result_: InversionResult
    _tests: Tests | PendingTests
    n_features_in_: int
    fdr: float | None
    random_state: Any

    # ------------------------------------------------------------------ reading the fit

    @property
    def interactions_(self) -> list[tuple[int, ...]]:
        """Sorted tuples, matching ``weights_``; made when asked for, as there may be a million."""
        check_is_fitted(self)
        return self.model_.interactions

    @property
    def tests_(self) -> Tests:
        """Of every interaction: is it zero, given the others? Made when first asked for, unless ``fdr`` has done so.

        ``tests_.everything`` has the tests of all candidates, also of those that ``fdr`` left out.
        """
        check_is_fitted(self)
        if isinstance(self._tests, PendingTests):
            self._tests = self._tests.make()
        return self._tests

    def __getstate__(self) -> Any:
        # A stored estimator holds its tests, not the rows that they are made from.
        if hasattr(self, "_tests"):
            self._tests = self.tests_
        return super().__getstate__()

    def confidence_intervals(self, level: float = 0.95) -> np.ndarray:
        """(p, 2) intervals of the couplings in the user's coding, matching ``weights_``.

        Parameters
        ----------
        level : float, default=0.95
            How often they hold the true coupling.
        """
        check_is_fitted(self)
        return intervals.weight_intervals(self.result_, level)

    def effect_intervals(self, level: float = 0.95) -> np.ndarray:
        """(p, 2) intervals of the effects, matching ``effects_``.

        Parameters
        ----------
        level : float, default=0.95
            How often they hold the true effect.
        """
        check_is_fitted(self)
        return intervals.effect_intervals(self.result_, level)

    def to_frame(self, level: float = 0.95) -> Any:
        """Everything about every interaction, as a pandas table with one row for each.

        Parameters
        ----------
        level : float, default=0.95
            Of the intervals.

        Returns
        -------
        DataFrame
            interaction: tuple of variables, a repeated member for a power. order: number of variables. weight,
            standard_error: J in the user's coding. effect, effect_error: that of variables in units of their
            standard deviations about their means. lower, upper: interval of the effect. z, df, p_value: of the
            test that the effect is zero. q_value: share of false findings among all of that order at least as
            sure. sign_rate: posterior probability that the effect has the other sign. n_effective: complete rows
            that would tell as much: fewer than there are, where cells are missing. selected: whether it is there by
            its own test (with ``fdr``, what is there only as a subset of another is not).
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return summary.frame(self.result_, self.tests_, self.moments_.n_samples, names, self.fdr, level)

    def summary(self, most: int = 20, level: float = 0.95) -> summary.Summary:
        """What was found, as text and as HTML: print it, or let a notebook show it.

        Parameters
        ----------
        most : int, default=20
            How many interactions, surest first.
        level : float, default=0.95
            Of the intervals.
        """
        check_is_fitted(self)
        return summary.Summary.of(self, check_integer("most", most, 0), level)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        if not hasattr(self, "model_"):
            return super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        found = self.summary()
        return {"text/plain": str(found), "text/html": found.html}

    # ------------------------------------------------------------------ using the model

    def score_samples(self, X: Any) -> np.ndarray:
        """(N,) pseudo-log-likelihood Σ_i ln P(x_i | rest) of each row, over modelled columns, in nats.

        Parameters
        ----------
        X : (N, n) table
            Rows without missing cells, of the columns and values that were fitted. Of a dask table of more than 65,536
            cells the scores are a dask array, whose rows are scored when it is computed.
        """
        return self._rows(X).on_rows(partial(_row_scores, self.model_))

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of ``score_samples``: tractable at any n.

        Parameters
        ----------
        X : (N, n) table
            Rows without missing cells.
        y : object
            Ignored.
        """
        return self._mean(self._rows(X), partial(_row_scores, self.model_))

    def log_likelihood(self, X: Any, method: str = "auto", return_error: bool = False) -> Any:
        """Mean ln P(x), or ln P(x | z) where columns z are given, in nats.

        Parameters
        ----------
        X : (N, n) table
            Rows without missing cells.
        method : {"auto", "exact", "dc", "ais"}, default="auto"
            Where ln Z comes from: enumeration, mean field, or annealed importance sampling. "auto" is exact up to 2**24
            states, and "ais" beyond.
        return_error : bool, default=False
            Also return the Monte Carlo standard error, that of ln Z: 0 if it is exact, NaN by "dc".

        Returns
        -------
        float, or (float, float)
            The mean, and its error if asked for.
        """
        samples = self._rows(X)
        z, share = np.zeros((1, self.n_features_in_), dtype=np.uint8), np.ones(1)
        if self.model_.space.has_given:
            z, share = given_patterns(samples)
        log_z, error = log_partitions(self.model_, z, method, self.random_state, share)
        mean = -self._mean(samples, self.model_.energy_of_codes) - log_z
        return (mean, error) if return_error else mean

    def sample(self, n_samples: int = 1, random_state: Any = None, given: Any = None) -> np.ndarray:
        """(n_samples, n) samples of the fitted model, labels where columns are nominal.

        They are exact up to 2**20 states, and from Gibbs chains beyond.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.
        random_state : int, Generator, RandomState or None, default=None
            None takes that of the estimator.
        given : (n_samples, g) table, or (g,) values for all rows, default=None
            Values of the given columns, in their order, where there are some; of a data frame the columns of their
            names are taken.
        """
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        return sample(self.model_, n_samples, random_state=seed, given=self._given_values(given))

    def predict(self, X: Any) -> Any:
        """X with each missing cell replaced by its most probable value given the row's observed entries.

        Exact while a row's missing part has at most 4096 states; beyond that by the diagonal-consistent approximation
        of the missing part given the observed one. On the real line, the conditional mean.

        Parameters
        ----------
        X : (N, n) table
            With missing cells.

        Returns
        -------
        array or data frame
            As X is one.
        """
        codes = self._codes(X, allow_nan=True)
        return like_input(self.model_.space.decode(conditionals.fill_missing(self.model_, codes)), X)

    @available_if(_has_values)
    def predict_proba(self, X: Any) -> Any:
        """P(x_i = value | the row's other observed entries), values in the order of their alphabet.

        Parameters
        ----------
        X : (N, n) table
            Cells may be missing, but for those of given columns.

        Returns
        -------
        (N, n, q) array, or list of (N, q_i) arrays
            One array where all columns have q values. Given columns have none: entries are of the others, in order.
        """
        codes = self._codes(X, allow_nan=True)
        found = conditionals.conditional_probabilities(self.model_, codes)
        found = [p for p, given in zip(found, self.model_.space.given) if not given]
        return np.stack(found, axis=1) if len({p.shape[1] for p in found}) == 1 else found

    # ------------------------------------------------------------------ checks

    def _given_values(self, table: Any) -> Any:
        """Values of the given columns as the model has them, from a data frame as it was fitted; others as they are."""
        space, names = self.model_.space, getattr(self, "feature_names_in_", None)
        if not space.has_given or names is None or as_frame(table) is None:
            return table
        where = np.flatnonzero(space.given)
        absent = [name for name in names[where] if name not in table.columns]
        if absent:
            raise ValueError(f"given lacks the column {absent[0]!r}: give a table with {', '.join(names[where])}.")
        part = space.subset(where)
        samples = Samples.check(table[list(names[where])], space=part)
        return part.decode(np.concatenate([block for block, _ in samples.blocks()]))

    def _check_features(self, X: Any) -> None:
        _check_feature_names(self, with_names(X), reset=False)
        shape = getattr(X, "shape", None) or np.shape(X)
        if len(shape) == 2:
            _check_n_features(self, np.empty((1, int(shape[1]))), reset=False)

    def _codes(self, X: Any, allow_nan: bool = False) -> np.ndarray:
        """(N, n) codes (values where they cannot be listed), checked against the fitted space."""
        return np.concatenate([block for block, _ in self._rows(X, allow_nan).blocks()])

    def _mean(self, samples: Samples, work: Callable[[np.ndarray], np.ndarray]) -> float:
        """The mean over rows of one number a row: of a dask table from sums on its workers."""
        if not samples.stays:
            return float(np.mean(samples.on_rows(work)))
        total, n_rows = reduce(lambda block: [work(block[0]).sum(), len(block[0])], samples.blocks())
        return float(total / n_rows)

    def _rows(self, X: Any, allow_nan: bool = False) -> Samples:
        """The rows of X, checked against the fitted space."""
        check_is_fitted(self)
        if allow_nan and issparse(X):
            raise ValueError("X is sparse, where what is not stored is 0 and not missing: give a dense array with NaN.")
        self._check_features(X)
        require_present(X, np.flatnonzero(self.model_.space.given).tolist() or None)
        return Samples.check(X, space=self.model_.space, allow_nan=allow_nan)


def _row_scores(model: BoltzmannMachine, codes: np.ndarray) -> np.ndarray:
    """(rows,) Σ_i ln P(x_i | rest)."""
    return conditionals.log_conditionals(model, codes).sum(axis=1)
