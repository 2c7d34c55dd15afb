"""HBM: the scikit-learn estimator; a facade over table → space, codes → moments → inversion → model."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import _get_feature_names

from hbm_learn.assessment import selection
from hbm_learn.assessment.checks import Seen, judge
from hbm_learn.assessment.dependence import check_groups
from hbm_learn.assessment.pending import PendingTests
from hbm_learn.assessment.tests import Tests
from hbm_learn.assessment.trust import Trust
from hbm_learn.considered import (
    check_order,
    considered_columns,
    powers_needed,
    require_room,
    require_variation,
    some_terms,
)
from hbm_learn.data.given import require_present
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples
from hbm_learn.data.tables import as_frame, with_names
from hbm_learn.fitted import FittedMachine
from hbm_learn.inversion.result import InversionResult
from hbm_learn.learning import Learning, sifts
from hbm_learn.settings import check_settings
from hbm_learn.terms import Terms


class HBM(FittedMachine, DensityMixin, BaseEstimator):
    """Higher-order Boltzmann machine learnt from a table of discrete variables.

    The model, and what a variable does by itself::

        P(x) ∝ exp(Σ_i θ_i(x_i) + Σ_μ J_μ Π_{i∈μ} x_i),     θ_i(x) = h_i x − ½ d_i x² + site_i(x)

    Each column has its own values: numbers, or labels, whose interactions are tables over their values.

    Parameters
    ----------
    order : int or "auto", default="auto"
        The largest number of variables in an interaction. "auto": 3 if the evidence prefers it to 2 (2 beyond 10⁶
        interactions, and on the real line); ``order_`` says which. An integer keeps every order, and couplings of one
        that the evidence does not prefer are shrunk to nearly zero by a learnt prior. With ``fdr`` or ``interactions``
        the evidence is not asked: tests, or you, have chosen.
    interactions : iterable of tuples, default=None
        Tuples of feature indices or names, a repeated member for a power; None: all subsets up to ``order``.
    alphabet : "auto", values, Nominal, Interval, "real", or one for each column, default="auto"
        "auto": for each column the values seen, at most 16. A table whose columns all have more is "real". A dict may
        name some columns and leave the others to "auto".
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Nominal columns, as in scikit-learn: unordered categories and text ("from_dtype"), or indices, names or a mask
        of them; None: none.
    powers : int, default=1
        1: interactions in x. 2, 3: also in x², x³, for variables with enough values.
    site : {"free", "quadratic"}, default="free"
        What a variable may do by itself: a weight for every value, or h x − ½ d x². The same for two or three numbers.
    given : list of int or str, default=None
        Columns that act but are not modelled, by index or name: groups, covariates, lags. The model is P(x | z), with
        all interactions in which a modelled column takes part: the triplet of a group with i and j is the difference
        between groups in the coupling of i and j. They may be labels, or real numbers beside modelled columns with few
        values.
    refine : {"auto", "likelihood", "pseudolikelihood", "screening"} or None, default="auto"
        What removes the bias of the closed form. "auto": likelihood up to 2**20 states (for all patterns of ``given``
        together), pseudolikelihood beyond; the closed form is exact on the real line. None: the closed form alone.
    alpha : "auto", float, or one for each order, default="auto"
        Prior precision of the couplings, penalty alpha/M · (l1_ratio‖J‖₁ + ½(1 − l1_ratio)‖J‖²). Numbers, one for all
        or one for each order 2, 3, …, are of weights in the user's coding. "auto": the distribution of the couplings of
        each order, a mixture of Gaussians of all scales, is learnt from the data with them.
    l1_ratio : float, default=0.0
        Share of the ℓ1 part.
    fdr : float, default=None
        A level: keep in each order the interactions that pass Benjamini–Hochberg at this level, with all subsets of
        what is kept, and refit. The tests are conditional score tests on the rows, each order given what was selected
        of the others. Beyond two million sets of numbers or two-valued columns, those that might pass are found first
        and the others count as not rejected; ``tests_.everything`` has the former.
    tol : float, default=None
        Of the refinement; None takes its own. Likelihood: the largest entry of the gradient. Pseudolikelihood and
        screening: the Newton decrement as a share of what chance makes it; with an ℓ1 part, the KKT residual relative
        to the largest penalty.
    max_iter : int, default=None
        Of the refinement; None takes its own.
    n_jobs : int, default=None
        Threads; None is as many as there are cores. The result does not depend on it.
    random_state : int, Generator, RandomState or None, default=None
        Of chains and probes, where there are some. The same integer gives the same fit; a Generator or RandomState is
        advanced by each; None takes fresh numbers.
    verbose : int, default=0
        1 prints a line for each step.

    Attributes
    ----------
    h_ : (n,) array
        Fields in the user's coding; where every value has a weight of its own, those of the quadratic closest to it.
        Zero for nominal columns, whose weights are ``model_.site``.
    d_ : (n,) array
        Anisotropies, likewise.
    J_ : (n, n) array
        Pair couplings.
    interactions_ : list of tuples
        What was fitted: variables, a repeated member for a power.
    weights_ : (p,) array
        J_μ in the user's coding, matching ``interactions_``; with nominal members of three or more labels the root mean
        square of their table (``model_.couplings()`` has the tables).
    standard_errors_ : (p,) array
        Of ``weights_``.
    h_standard_errors_ : (n,) array
        Of ``h_``.
    effects_ : (p,) array
        J̃_μ with every variable in units of its standard deviation about its mean: comparable between variables and
        orders, and the same whatever the coding; a weak pair's effect is its correlation. With nominal members of three
        or more labels the root mean square over their block.
    effect_errors_ : (p,) array
        Of ``effects_``.
    model_ : BoltzmannMachine
        The fitted model, in the user's coding.
    moments_ : Moments
        What it was fitted to.
    result_ : InversionResult
        The fit with all of its errors.
    tests_ : Tests
        Of every interaction: is it zero, given the others? Made when first asked for, unless ``fdr`` has done so.
    trust_ : Trust
        How far to believe the fit.
    alpha_ : dict
        {order: prior precision used}; of a learnt mixture, one over its variance.
    origin_ : str or None
        About which point of each variable the learnt prior has its couplings: "mean", "middle" (of the values), "mode"
        (the most frequent one), as the evidence preferred, or "coding" for a set of interactions that lacks subsets.
    evidence_ : dict
        {order: ln P(data) of the model up to that order, all couplings integrated out}, less that of independent
        variables; empty without a learnt mixture.
    order_ : int
        The largest number of variables that an interaction could have.
    converged_ : bool
        Whether the refinement arrived.
    n_iter_ : int
        Its iterations, or passes over the data.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : (n,) array
        Where X has names.

    Examples
    --------
    >>> from hbm_learn import HBM, datasets
    >>> table = datasets.load_planted_survey().data.dropna()  # text, ratings, 0/1
    >>> est = HBM(order=3, fdr=0.05).fit(table)
    >>> [mu for mu in est.to_frame().interaction if len(mu) == 3]
    [('sex', 'votes', 'change of income'), ('region', 'reads news', 'view of taxes')]
    """

    def __init__(
        self,
        order: int | str = "auto",
        *,
        interactions: Any = None,
        alphabet: Any = "auto",
        categorical_features: Any = "from_dtype",
        powers: int = 1,
        site: str = "free",
        given: Any = None,
        refine: str | None = "auto",
        alpha: Any = "auto",
        l1_ratio: float = 0.0,
        fdr: float | None = None,
        tol: float | None = None,
        max_iter: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.order = order
        self.interactions = interactions
        self.alphabet = alphabet
        self.categorical_features = categorical_features
        self.powers = powers
        self.site = site
        self.given = given
        self.refine = refine
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.fdr = fdr
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> HBM:
        """Learn the model from a table.

        Parameters
        ----------
        X : (M, n) array, data frame (pandas, polars), scipy sparse matrix, memory map, dask array or data frame
            Text and categories as they are. Rows of dask tables stay with its workers, and sums of them come here.
            Cells may be missing (NaN, None, NA, null): what a row has is used, and what is missing is summed over, or
            drawn again and again from the fit where that takes too long.
            Cells of ``given`` columns may not be missing.
        y : object
            Ignored.
        sample_weight : (M,) array-like, default=None
            Counts repeated rows: M = Σ weights is what errors and priors see.
        groups : (M,) array-like, default=None
            Labels of rows that belong together: repeats of a subject, blocks of time. Rows of different groups are
            independent; those of one may depend on each other, and errors, tests and the prior allow for it.

        Returns
        -------
        HBM
            Itself, fitted.
        """
        self._check_arguments(X)
        samples = self._samples(X, sample_weight)
        numbers = None if groups is None else check_groups(groups, samples.n_samples)
        order = check_order(self.order, self.interactions, samples.space, samples.feature_names)
        if not sifts(self, samples, order):
            require_room(self.interactions, order, samples.space)
        moments = Moments.from_samples(samples, order=max(2, order))
        return self._learn(moments, samples, order, X, numbers)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> HBM:
        """Merge the moments of X with those seen so far, and invert again.

        The samples themselves are not kept, so refine="pseudolikelihood" and "screening" are refused here, and "auto"
        refines only where the exact likelihood is affordable. Give ``alphabet`` if a first block may lack a value.

        Parameters
        ----------
        X : (M, n) table
            More rows, as in :meth:`fit`.
        y : object
            Ignored.
        sample_weight : (M,) array-like, default=None
            As in :meth:`fit`.

        Returns
        -------
        HBM
            Itself, fitted to all rows so far.
        """
        self._check_arguments(X)
        before = getattr(self, "moments_", None)
        if before is not None:
            self._check_features(X)
        samples = self._samples(X, sample_weight, None if before is None else before.space)
        order = check_order(self.order, self.interactions, samples.space, samples.feature_names)
        require_room(self.interactions, order, samples.space)
        moments = Moments.from_samples(samples, order=max(2, order))
        return self._learn(moments if before is None else before + moments, None, order, X)

    def _learn(
        self,
        moments: Moments,
        samples: Samples | None,
        order: int,
        X: Any,
        groups: np.ndarray | None = None,
    ) -> HBM:
        """Everything that can fail comes first; attributes are set when it has not."""
        require_variation(moments)
        sifting = sifts(self, samples, order)
        if sifting:
            columns = some_terms(order, moments.space)
        else:
            columns = considered_columns(self.interactions, order, moments.space, moments.feature_names)
        considered = Terms(moments.space, columns)
        work = Learning(self, moments, samples, groups, columns)
        tests: Tests | PendingTests
        if sifting:
            result, tests = work.select_sifted(order)
        elif self.fdr is not None:
            result, tests = work.select(considered)
        else:
            result = work.invert(columns)
            if self.order == "auto" and self.interactions is None and selection.prefers_lower(result, order):
                order -= 1
                columns = considered_columns(None, order, moments.space, moments.feature_names)
                result, considered = work.invert(columns), Terms(moments.space, columns)
            tests = PendingTests(result, work.rows(considered), considered, self.site, self.n_jobs, work.inflation)
        names, shares = moments.feature_names, moments.missing_shares
        seen = Seen(samples, work.check(result), work.filled, shares, names, groups is not None)
        trust = judge(result, moments, seen)
        return self._keep(result, moments, tests, trust, order, X)

    def _keep(
        self,
        result: InversionResult,
        moments: Moments,
        tests: Tests | PendingTests,
        trust: Trust,
        order: int,
        X: Any,
    ) -> HBM:
        """All attributes in one step: an interrupt leaves the previous fit whole, or this one."""
        model, names = result.model, _get_feature_names(with_names(X))
        fitted = {
            **{"model_": model, "moments_": moments, "result_": result, "_tests": tests, "trust_": trust},
            **{"h_": model.h, "d_": model.d, "J_": model.J, "weights_": model.weights, "effects_": result.effects},
            **{"standard_errors_": result.standard_errors, "h_standard_errors_": result.h_standard_errors},
            **{"effect_errors_": result.effect_errors, "alpha_": result.alpha, "converged_": result.converged},
            # The look at the start that finds it good enough counts as an iteration.
            **{"n_iter_": max(1, result.n_iter), "order_": order, "origin_": result.origin},
            **{"evidence_": result.evidence, "n_features_in_": moments.space.n_features},
            **({} if names is None else {"feature_names_in_": names}),
        }
        kept = {name: value for name, value in vars(self).items() if name != "feature_names_in_"}
        self.__dict__ = {**kept, **fitted}
        for note in result.notes:
            warnings.warn(note, UserWarning, stacklevel=4)
        if not result.converged:
            warnings.warn(result.status, ConvergenceWarning, stacklevel=4)
        if trust.warning:
            warnings.warn(trust.warning, UserWarning, stacklevel=4)
        return self

    # ------------------------------------------------------------------ checks

    def _check_arguments(self, X: Any) -> None:
        """Parameters, and names that scikit-learn will not have, before any work."""
        check_settings(self)
        as_frame(X)  # refuses a name that is there twice in our words
        _get_feature_names(with_names(X))

    def _samples(self, X: Any, sample_weight: Any, space: Any = None) -> Samples:
        """Checked samples, in which cells may be missing."""
        require_present(X, self.given)
        if space is not None:
            return Samples.check(X, sample_weight=sample_weight, space=space, allow_nan=True).complete()
        return Samples.check(
            X,
            self.alphabet,
            sample_weight,
            categorical_features=self.categorical_features,
            powers=powers_needed(self.powers, self.interactions),
            given=self.given,
            allow_nan=True,
        ).complete()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
