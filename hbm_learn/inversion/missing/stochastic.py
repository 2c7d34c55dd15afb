"""Stochastic EM: missing cells are drawn from the fit so far, and the fit is made again; beyond enumeration.

    x_missing ~ P_θ(x_missing | x_observed),  m copies of each row with gaps, sharing its weight;   θ ← fit of them all

The information that is there is a share f of that of complete rows (``shares``), so that a step of EM goes the share f
of the way: it is lengthened by as much. Errors are those of complete rows over f, and of the finite number of copies
what a lengthened step has,

    Var θ̂ = (1 + (1 − f)/(m f)) / f · (that of complete rows)

The last step is not lengthened: it ends where the filled rows have their maximum. Of the noise of the step before it
keeps (1 − f)², so that this one must have as many copies: few would leave more than is told here. A row draws the fit
of conditionals towards itself by its leverage P/NM (P parameters in N of them), which their errors allow for; that of
rows with gaps is P/NMf, and 1/(1 − h)² more of it is told here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from hbm_learn.data.incomplete import FilledRows, IncompleteRows
from hbm_learn.data.samples import Samples
from hbm_learn.inversion.inflation import inflated
from hbm_learn.inversion.missing.imputation import Imputer
from hbm_learn.inversion.missing.shares import from_copies
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.prior import Prior
from hbm_learn.inversion.result import Fit
from hbm_learn.inversion.shrinkage.expansion import Curvature, Expansion
from hbm_learn.inversion.shrinkage.learn import Information

if TYPE_CHECKING:
    from hbm_learn.inversion import Refinement

# Copies of each row with gaps; fewer where they would be too many entries, and until so many rounds are left.
COPIES, FEWEST, WITH_ALL = 20, 4, 2
_ENTRIES = 2**27
# The most that a row may draw the fit towards itself, beyond what complete ones do.
_LARGEST_LEVERAGE = 0.5
# Rounds of imputation and fit: of the first fit, and of those under another prior, which begin where it ended.
FIRST_ROUNDS, LATER_ROUNDS = 5, 1


class StochasticEM:
    """A refinement that takes complete rows, on rows with gaps.

    Parameters
    ----------
    prepare : callable
        Complete Samples → the refinement with them prepared.
    rows : IncompleteRows
    parameters : Parameters
    random_state : None, int, SeedSequence, Generator or RandomState
    n_jobs : int or None
        Threads.
    """

    # Times that cells are drawn anew under a learnt mixture.
    turns = 2

    def __init__(
        self,
        prepare: Callable[[Samples], Refinement],
        rows: IncompleteRows,
        parameters: Parameters,
        random_state: Any = None,
        n_jobs: int | None = None,
    ):
        gaps = int((~rows.is_complete).sum())
        copies = int(np.clip(_ENTRIES // max(gaps * rows.codes.shape[1], 1), FEWEST, COPIES))
        self.imputer = Imputer(rows, copies, random_state, n_jobs)
        self.prepare, self.parameters = prepare, parameters
        self._method: Refinement | None = None
        self._share, self._factor = np.ones(parameters.n_params), np.ones(parameters.n_params)

    @property
    def expands(self) -> bool:
        """Whether ``information`` can be had, as for the refinement of complete rows."""
        return self._method is None or self._method.expands

    def fit(self, prior: Prior, start: np.ndarray | None, rough: bool = False, **options: Any) -> Fit:
        """The fit under a prior: some rounds the first time, one from there on."""
        rounds = FIRST_ROUNDS if self._method is None else LATER_ROUNDS
        theta = self.parameters.independent() if start is None else start
        for left in range(rounds - 1, -1, -1):
            filled = self._fill(theta, FEWEST if left >= WITH_ALL or rough else None)
            assert self._method is not None
            found = self._method.fit(prior, theta, rough=rough or left > 0, **options)
            if left:
                if left == rounds - 1:
                    self._share = from_copies(self.parameters, filled)
                theta = theta + (found.theta - theta) * self._length(found)
        self._share = from_copies(self.parameters, filled)
        f, m = self._share, self.imputer.n_copies
        self._factor = (1.0 + (1.0 - f) / (m * f)) / f * self._drawn(found)
        return inflated(found, self._factor)

    def _fill(self, theta: np.ndarray, n_copies: int | None = None) -> FilledRows:
        filled = self.imputer.draw(self.parameters.model(theta), n_copies)
        self._method = self.prepare(filled.samples)
        return filled

    def _length(self, found: Fit) -> np.ndarray:
        """(P,) 1 / (1 − (1 − f) w): what a step of EM falls short by, w the share that the data determine."""
        return 1.0 / (1.0 - (1.0 - self._share) * self._determined(found))

    def _determined(self, found: Fit) -> np.ndarray:
        """(P,) the share of each parameter that the data determine, and not the prior."""
        w, columns = np.ones(self.parameters.n_params), self.parameters.columns
        for k in columns.orders:
            where, n_own = columns.slice(k), self.parameters.n_own
            w[n_own + where.start : n_own + where.stop] = found.determined(k)
        return w

    def _drawn(self, found: Fit) -> float:
        """1/(1 − h)² of the leverage h that rows with gaps have beyond complete ones, in a fit of conditionals."""
        if found.overcount is None:
            return 1.0
        parameters = self.parameters
        modelled, columns = ~parameters.space.given[parameters.space.site], parameters.columns
        times = [np.add.reduceat(modelled[columns.members], columns.indptr[:-1])] if len(columns) else []
        entries = np.concatenate([np.ones(parameters.n_own), *times]) * self._determined(found)
        more = float(entries @ (1.0 / self._share - 1.0)) / (len(parameters.fields) * self.imputer.rows.n_samples)
        return 1.0 / (1.0 - min(more, _LARGEST_LEVERAGE)) ** 2

    def information(self, fit: Fit) -> Information:
        """What the observed cells say of θ about the fit, from cells drawn there."""
        self._fill(fit.theta)
        assert self._method is not None
        assert fit.overcount is not None
        # What was counted in by ``fit`` is counted here by the curvature alone.
        plain = inflated(fit, 1.0 / self._factor)
        return ObservedInformation(self._method.information(plain), fit.theta, np.sqrt(1.0 / self._factor))

    def informed(self, fit: Fit) -> np.ndarray:
        """(P,) the share of the information of complete rows that is there."""
        return 1.0 / self._factor


class ObservedInformation:
    """The information of rows that were filled in at θ₀, as far as it is that of the observed cells.

        g(θ) = r g̃(θ₀ + r (θ − θ₀)) + (1 − r) g̃(θ₀),     K = r K̃ r,     r = √f

    The gradient at θ₀ is that of the observed cells; away from it, that of cells filled in there changes too fast.

    Parameters
    ----------
    filled : Information
        Of the rows as if they were complete.
    theta : (P,) array
        θ₀.
    root : (P,) array
        r.
    """

    def __init__(self, filled: Information, theta: np.ndarray, root: np.ndarray):
        self.filled, self.theta, self.root = filled, theta, root
        self.parameters, self.n_samples = filled.parameters, filled.n_samples
        begin = filled.at(theta)
        assert begin is not None
        self._slope = begin.gradient

    def at(self, theta: np.ndarray) -> Expansion | None:
        inner = self.filled.at(self.theta + self.root * (theta - self.theta))
        if inner is None:
            return None
        gradient = self.root * inner.gradient + (1.0 - self.root) * self._slope
        found: Expansion = inner
        scaled = partial(self._scaled, found)
        return Expansion(theta, gradient, self.n_samples, scaled, self.parameters, inner.loss)

    def _scaled(self, inner: Expansion, active: np.ndarray) -> Curvature:
        K, n_own, root = inner.curvature(active), self.parameters.n_own, self.root
        mine = root[np.concatenate([np.ones(n_own, dtype=bool), active])]
        among = K.among
        if isinstance(among, np.ndarray):
            scaled: Any = among * mine * mine[:, None]
        else:
            product = among
            scaled = lambda v: mine * product(mine * v)  # noqa: E731
        sides = sparse.diags_array(root[n_own:]), sparse.diags_array(root[:n_own])
        with_own = sparse.csr_array(sides[0] @ K.with_own @ sides[1])
        return Curvature(scaled, K.diagonal * root**2, with_own)
