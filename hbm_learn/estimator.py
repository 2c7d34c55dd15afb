"""HBM: the scikit-learn estimator; a facade over samples → moments → inversion → model."""

from __future__ import annotations

import warnings
from math import comb
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import _check_feature_names, _check_n_features, check_is_fitted

from hbm_learn import conditionals
from hbm_learn._validation import check_integer
from hbm_learn.assessment import uncertainty
from hbm_learn.data.moments import Moments
from hbm_learn.data.samples import Samples, require_order
from hbm_learn.data.tables import complete_rows, like_input
from hbm_learn.inference import log_partition as scoring
from hbm_learn.interactions import Interactions
from hbm_learn.inversion import refinement
from hbm_learn.inversion.prior import check_alpha
from hbm_learn.inversion.result import InversionResult
from hbm_learn.sampling import sample
from hbm_learn.space import Alphabet

# order="auto" takes triplets while they make at most this many interactions.
MAX_AUTO_INTERACTIONS = 10**6


def _has_values(estimator: HBM) -> bool:
    """predict_proba is there once a model on a finite alphabet is fitted."""
    if not hasattr(estimator, "model_"):
        raise AttributeError("predict_proba is there after fit, if the alphabet is finite: call fit first.")
    if not estimator.model_.alphabet.is_finite:
        raise AttributeError(f"{estimator.model_.alphabet} has no list of values to give probabilities of.")
    return True


class HBM(DensityMixin, BaseEstimator):
    """Higher-order Boltzmann machine learnt from samples.

        P(x) ∝ exp(Σ_i h_i x_i − ½ Σ_i d_i x_i² + Σ_μ J_μ Π_{i∈μ} x_i)

    Parameters
    ----------
    order : "auto" or int, the largest interaction considered. "auto": 3 for a finite alphabet while that makes at most
        10⁶ interactions, 2 beyond that and on the real line; ``order_`` says which.
    interactions : None (all subsets up to ``order``), or an iterable of tuples of feature indices or names.
    alphabet : "auto" (the values seen, at most 16; "real" beyond that), values, ``Interval``, or "real".
    refine : what removes the bias of the closed form: None, "likelihood", "pseudolikelihood", "screening", or "auto"
        (likelihood up to 2**20 states, pseudolikelihood beyond; the closed form is exact on the real line).
    alpha : prior precision of the couplings, penalty alpha/M · (l1_ratio‖J‖₁ + ½(1 − l1_ratio)‖J‖²): a number, one for
        each order 2, 3, …, or "auto" (one Gaussian prior for each order, learnt from the data).
    l1_ratio : share of the ℓ1 part.
    fdr : None, or a level: keep in each order the interactions that pass Benjamini–Hochberg at this level, with all
        subsets of what is kept, and refit. Screening is by the closed form; what no longer passes after the refinement
        is dropped, so that the bias of the closed form makes no discoveries.
    tol, max_iter : of the refinement; None takes its own.
    n_jobs, random_state, verbose : as everywhere in scikit-learn.

    Attributes
    ----------
    h_, d_ : (n,) fields and anisotropies.
    J_ : (n, n) pair couplings.
    interactions_, weights_ : list of tuples and matching (p,) J_μ.
    standard_errors_, h_standard_errors_ : (p,), (n,).
    model_ : BoltzmannMachine. moments_ : Moments. trust_ : Trust, how far to believe the fit.
    alpha_ : {order: prior precision used}. order_ : int.
    converged_, n_iter_, n_features_in_, feature_names_in_.

    Examples
    --------
    >>> from hbm_learn import HBM, datasets
    >>> data = datasets.load_planted_triplets()
    >>> est = HBM(order=3, fdr=0.05).fit(data.data)
    """

    def __init__(
        self,
        order: int | str = "auto",
        *,
        interactions: Any = None,
        alphabet: Any = "auto",
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> HBM:
        """Learn the model from (M, n) samples: array, data frame, scipy sparse matrix, memory map or dask array.

        ``sample_weight`` counts repeated rows: M = Σ weights is what errors and priors see. Rows with NaN are left
        out, with a warning that counts them; ``predict`` fills them in afterwards.
        """
        samples = self._samples(X, self.alphabet, sample_weight, reset=True)
        moments = Moments.from_samples(samples, order=self._moment_order(samples.alphabet, samples.n_features))
        return self._learn(moments, samples)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> HBM:
        """Merge the moments of X with those seen so far, and invert again.

        The samples themselves are not kept, so refine="pseudolikelihood" and "screening" are refused here, and "auto"
        refines only where the exact likelihood is affordable. Give ``alphabet`` if a first block may lack a value.
        """
        first = not hasattr(self, "moments_")
        alphabet = self.alphabet if first else self.moments_.alphabet
        samples = self._samples(X, alphabet, sample_weight, reset=first)
        moments = Moments.from_samples(samples, order=self._moment_order(samples.alphabet, samples.n_features))
        return self._learn(moments if first else self.moments_ + moments, None)

    def _learn(self, moments: Moments, samples: Samples | None) -> HBM:
        scoring.require_variation(moments)
        considered = self._interactions(moments)
        if self.fdr is None:
            result = self._invert(moments, samples, considered)
            return self._keep(result, moments, None)
        screening = uncertainty.Tests.of(uncertainty.screen(moments, considered))
        result, tests = uncertainty.select_and_refit(
            screening, lambda chosen: self._invert(moments, samples, chosen), self.fdr
        )
        return self._keep(result, moments, tests)

    def _invert(self, moments: Moments, samples: Samples | None, interactions: Interactions) -> InversionResult:
        return refinement.fit(
            moments,
            samples,
            interactions,
            refine=self.refine,
            alpha=check_alpha(self.alpha, interactions.order),
            l1_ratio=self.l1_ratio,
            tol=self.tol,
            max_iter=self.max_iter,
            n_jobs=self.n_jobs,
            random_state=self.random_state,
            verbose=self.verbose,
        )

    def _keep(self, result: InversionResult, moments: Moments, selection: uncertainty.Tests | None) -> HBM:
        model = result.model
        self.model_, self.moments_, self._result, self._selection = model, moments, result, selection
        self.h_, self.d_, self.J_ = model.h, model.d, model.J
        self.weights_ = model.weights
        self.standard_errors_, self.h_standard_errors_ = result.standard_errors, result.h_standard_errors
        # The look at the start that finds it good enough counts as an iteration.
        self.alpha_, self.n_iter_, self.converged_ = result.alpha, max(1, result.n_iter), result.converged
        self.trust_ = uncertainty.Trust.of(result, moments)
        for note in result.notes:
            warnings.warn(note, UserWarning, stacklevel=4)
        if not result.converged:
            warnings.warn(result.status, ConvergenceWarning, stacklevel=4)
        if self.trust_.warning:
            warnings.warn(self.trust_.warning, UserWarning, stacklevel=4)
        return self

    # ------------------------------------------------------------------ reading the fit

    @property
    def interactions_(self) -> list[tuple[int, ...]]:
        """Sorted tuples, matching ``weights_``; made when asked for, as there may be a million."""
        check_is_fitted(self)
        return self.model_.interactions

    @property
    def _tests(self) -> uncertainty.Tests:
        """Those that selected the interactions, if ``fdr`` did, or those of the fit."""
        return uncertainty.Tests.of(self._result) if self._selection is None else self._selection

    def confidence_intervals(self, level: float = 0.95) -> np.ndarray:
        """(p, 2) intervals of the couplings, matching ``weights_``."""
        check_is_fitted(self)
        return uncertainty.intervals(self._result, level)

    def to_frame(self) -> Any:
        """pandas table of the couplings: interaction, order, weight, standard_error, z, p_value, q_value.

        q-values count every interaction that was considered, also those that ``fdr`` left out.
        """
        import pandas as pd

        check_is_fitted(self)
        tests, names = self._tests, getattr(self, "feature_names_in_", None)
        label = (lambda mu: mu) if names is None else (lambda mu: tuple(str(names[i]) for i in mu))
        return pd.DataFrame(
            {
                "interaction": [label(mu) for mu in self.interactions_],
                "order": np.diff(self.model_.packed.indptr),
                "weight": self.weights_,
                "standard_error": self.standard_errors_,
                "z": tests.z,
                "p_value": tests.p_values,
                "q_value": tests.q_values,
            }
        )

    # ------------------------------------------------------------------ using the model

    def score_samples(self, X: Any) -> np.ndarray:
        """(N,) pseudo-log-likelihood Σ_i ln P(x_i | rest) of each row, in nats."""
        values = self._values(X)
        return conditionals.log_conditionals(self.model_, values).sum(axis=1)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of ``score_samples``: tractable at any n."""
        return float(np.mean(self.score_samples(X)))

    def log_likelihood(self, X: Any, method: str = "auto") -> float:
        """Mean ln P(x), in nats, with ln Z by "exact" enumeration, "dc", or annealed importance sampling ("ais").

        "auto" is exact up to 2**24 states, and "ais" beyond.
        """
        values = self._values(X)
        log_z = scoring.log_partition(self.model_, method, self.random_state)
        return float(np.mean(-self.model_.energy(values)) - log_z)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """(n_samples, n) samples of the fitted model: exact up to 2**20 states, Gibbs beyond."""
        check_is_fitted(self)
        seed = self.random_state if random_state is None else random_state
        method = "exact" if self.model_.alphabet.enumerable(self.n_features_in_, 2**20) else "gibbs"
        return sample(self.model_, n_samples, method=method, random_state=seed)

    def predict(self, X: Any) -> Any:
        """X with each NaN replaced by its most probable value given the row's observed entries.

        Exact while a row's missing part has at most 4096 states; beyond that by the diagonal-consistent approximation
        of the missing part given the observed one. On the real line, the conditional mean. A data frame comes back as
        one.
        """
        values = self._values(X, allow_nan=True)
        filled = conditionals.fill_missing(self.model_, values).astype(self.model_.alphabet.dtype)
        return like_input(filled, X)

    @available_if(_has_values)
    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, n, q): P(x_i = value | the row's other observed entries), values ascending; NaN means not observed."""
        values = self._values(X, allow_nan=True)
        return conditionals.conditional_probabilities(self.model_, values)

    # ------------------------------------------------------------------ checks

    def _samples(self, X: Any, alphabet: Any, sample_weight: Any, reset: bool) -> Samples:
        """Checked samples; rows with NaN are left out, with a warning."""
        X, sample_weight, n_dropped = complete_rows(X, sample_weight)
        if n_dropped:
            warnings.warn(f"{n_dropped} rows of X contain NaN and are left out of the fit.", UserWarning, stacklevel=3)
        samples = Samples.check(X, alphabet, sample_weight)
        self._check_features(X, samples.n_features, reset)
        return samples

    def _check_features(self, X: Any, n_features: int, reset: bool) -> None:
        _check_feature_names(self, X, reset=reset)
        _check_n_features(self, np.empty((1, n_features)), reset=reset)

    def _moment_order(self, alphabet: Alphabet, n: int) -> int:
        """Settle ``order_``; the moments needed are at least of order 2."""
        if isinstance(self.order, str):
            if self.order != "auto":
                raise ValueError(f'order={self.order!r}: give an integer or "auto".')
            triplets = comb(n, 2) + comb(n, 3) <= MAX_AUTO_INTERACTIONS
            self.order_ = 3 if triplets and alphabet.kind != "real" else 2
        else:
            self.order_ = check_integer("order", self.order, 1)
        require_order(alphabet, self.order_, self.alphabet)
        return max(2, self.order_)

    def _interactions(self, moments: Moments) -> Interactions:
        if self.interactions is None:
            return Interactions.upto(self.order_, moments.n_features)
        names = getattr(self, "feature_names_in_", None)
        given = Interactions.from_tuples(self.interactions, moments.n_features, names)
        if given.order > self.order_:
            raise ValueError(f"interactions has one of order {given.order}, but order={self.order!r}: raise `order`.")
        return given

    def _values(self, X: Any, allow_nan: bool = False) -> np.ndarray:
        """(N, n) float64 values, checked against the fitted alphabet."""
        check_is_fitted(self)
        if allow_nan and issparse(X):
            raise ValueError("X is sparse, where what is not stored is 0 and not missing: give a dense array with NaN.")
        samples = Samples.check(X, self.model_.alphabet, allow_nan=allow_nan)
        self._check_features(X, samples.n_features, reset=False)
        return np.concatenate([block for block, _ in samples.values_blocks()])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        return tags
