"""Tests of each interaction: is its effect zero? χ² statistics, p-values, and q-values within each order."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import special, stats

from hbm_learn._validation import check_share
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.result import InversionResult
from hbm_learn.terms import Terms, closure

# The smallest p-value from which a normal deviate can be computed.
_SMALLEST = 1e-300


@dataclass(frozen=True, eq=False)
class Tests:
    """Of each term: is J̃_μ = 0? All arrays (p,).

    Attributes
    ----------
    terms : Terms
        What was tested.
    considered : Terms
        All that were considered, of which ``terms`` may be what was selected; see ``everything``.
    z : array
        Signed square root of the statistic; for a block of several functions the normal deviate with the same p-value.
    df : array
        Degrees of freedom: functions in a block.
    p_values : array
    q_values : array
        Benjamini–Hochberg within each order, over all that were considered.
    method : str
        "score": conditional score tests with a saddlepoint, from the rows; "wald": estimates over their errors, where
        there are no rows to go back to, or too many tests for them.
    whole : Tests or None
        What ``everything`` returns, where that is more.
    """

    # pytest would take a class of this name for a test case.
    __test__ = False

    terms: Terms
    considered: Terms
    z: np.ndarray
    df: np.ndarray
    p_values: np.ndarray
    q_values: np.ndarray
    method: str = "wald"
    whole: Tests | None = None

    @property
    def everything(self) -> Tests:
        """The tests of all that were considered, also of what ``fdr`` left out of the model: z, p and q of each.

        These are the tests that selected. Where they are Wald tests, what was left out has those of the closed form,
        and a q of 1 if it is the refined fit that did not keep it.
        """
        return self if self.whole is None else self.whole

    @classmethod
    def of(cls, result: InversionResult, considered: Terms | None = None) -> Tests:
        """The tests of a fit.

        Parameters
        ----------
        result : InversionResult
            The fit.
        considered : Terms or None
            All the terms that were looked at, if the fit has only those that were selected: the others count in the
            q-values as tests that did not reject. What the fit has beside them, as subsets of what was selected, counts
            as well.
        """
        terms, statistic = result.terms, result.statistic
        considered = terms if considered is None else considered
        root, several = np.sqrt(statistic), np.flatnonzero(terms.df > 1)
        p, z = 2.0 * special.ndtr(-root), result.sign * root
        p[several] = special.chdtrc(terms.df[several], statistic[several])
        z[several] = -special.ndtri(0.5 * np.maximum(p[several], _SMALLEST))
        q = np.ones_like(p)
        for k in terms.keys.orders:
            where = terms.keys.slice(k)
            absent = () if considered is terms else terms.keys.locate(considered.keys.block(k)) < 0
            n_others = int(np.count_nonzero(absent))
            q[where] = stats.false_discovery_control(np.append(p[where], np.ones(n_others)))[: len(p[where])]
        return cls(terms, considered, z, terms.df, p, q)

    def at(self, others: Tests) -> Tests:
        """These tests for the terms of others, which speak for what is not among these."""
        where = self.terms.keys.positions(others.terms.keys)
        pairs = (
            (self.z, others.z),
            (self.df, others.df),
            (self.p_values, others.p_values),
            (self.q_values, others.q_values),
        )
        z, df, p, q = (np.where(where >= 0, mine[where], theirs) for mine, theirs in pairs)
        return Tests(others.terms, self.considered, z, df, p, q, self.method, self)

    def beside(self, first: Tests, level: float) -> Tests:
        """These tests of a refined fit with, as ``everything``, the first ones for what it does not have.

        Parameters
        ----------
        first : Tests
            Of all that were considered.
        level : float
            At which they selected: what the refined fit does not have did not pass.
        """
        at = first.terms.keys.positions(self.terms.keys)
        among, mine = at[at >= 0], at >= 0
        z, df, p = first.z.copy(), first.df.copy(), first.p_values.copy()
        q = np.where(first.q_values <= level, 1.0, first.q_values)
        z[among], df[among], p[among] = self.z[mine], self.df[mine], self.p_values[mine]
        q[among] = self.q_values[mine]
        return replace(self, whole=Tests(first.terms, first.considered, z, df, p, q, self.method))

    def passing(self, level: float) -> np.ndarray:
        """(p,) whether q ≤ level."""
        check_share("fdr", level, "a false-discovery rate between 0 and 1, such as 0.05")
        return self.q_values <= level

    def select(self, level: float) -> Interactions:
        """The sets of columns of the terms with q ≤ level, with all subsets of them."""
        return closure(self.terms.select(self.passing(level)), self.terms.space)
