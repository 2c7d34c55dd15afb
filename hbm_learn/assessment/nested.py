"""Nested tests of every term that was considered, and selection at a level: pairs, then triplets given them, and so on.

1. k = 3 … K: add tests given all pairs and what was selected of higher orders so far; Benjamini–Hochberg over all of
   order k; what was added and is not needed beside the rest is dropped, and the others are tested again
2. downward: each lower order once more, given what was selected above it
3. pairs: drop tests in the model of all pairs and what was selected

Every pair is held in every null: a pair too weak to be selected would otherwise show as a triplet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil

import numpy as np
from scipy import stats

from hbm_learn._validation import check_share
from hbm_learn.assessment.forecast import Forecast
from hbm_learn.assessment.node_data import DistinctRows, NodeData
from hbm_learn.assessment.nodes import Node, fit_nodes
from hbm_learn.assessment.saddlepoint import deviates, p_values
from hbm_learn.assessment.score_tests import add_at_best, drop_at_best, efficient_site, glance_at_best, spread_site
from hbm_learn.assessment.sift import OPTIMISM, Sifted, sift
from hbm_learn.assessment.tests import Tests
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.terms import Terms, all_terms, closure, n_sets

# Rounds of adding and dropping in an order.
MAX_ROUNDS = 4
# Rows times sets of columns up to which terms are tested.
MAX_PRODUCTS = 5e10
# Of what fails among the selected, so much is dropped at a time.
_SHARE = 0.2
# From so many additions on, what they say beside each other is looked at before any is taken up.
_MANY = 10


def affordable(n_rows: int, considered: Terms) -> bool:
    """Whether tests of every term cost no more than some ten seconds: two products a row and term."""
    return considered.space.is_finite and float(n_rows) * len(considered.columns) <= MAX_PRODUCTS


def select_sifted(
    samples: Samples | DistinctRows,
    order: int,
    level: float,
    *,
    site: str = "free",
    n_jobs: int | None = None,
    inflation: Mapping[int, float] | None = None,
) -> tuple[Interactions, Tests]:
    """The same where the sets of 3 … order variables are too many to be listed: only those are considered that might
    pass, and all others count as hypotheses that did not reject. Each order is sifted given what was selected of the
    lower ones.
    """
    check_share("fdr", level, "a false-discovery rate between 0 and 1, such as 0.05")
    data = NodeData(samples, site, n_jobs)
    pairs = all_terms(2, data.space)
    nodes, sifted = fit_nodes(data, data.modelled, pairs), Sifted({}, {}, {2: len(pairs)})
    for k in range(3, order + 1):
        found = sift(nodes, k, level, float(np.sqrt((inflation or {}).get(k, 1.0))))
        sifted = sifted.beside(k, found, n_sets(data.space, k))
        search = _Search(data, Terms(samples.space, sifted.columns(pairs)), inflation, sifted, nodes)
        if k < order:
            _settle_all(search, range(3, k + 1), level)
            nodes = search.nodes
    return _selected(search, level)


def select(
    samples: Samples | DistinctRows,
    considered: Terms,
    level: float,
    *,
    site: str = "free",
    n_jobs: int | None = None,
    inflation: Mapping[int, float] | None = None,
) -> tuple[Interactions, Tests]:
    """The selected sets of columns with all their subsets, and the tests of every term considered.

    Parameters
    ----------
    samples : Samples or DistinctRows
        Complete, on finite alphabets.
    considered : Terms
    site : str
        "free" or "quadratic", as in the fit.
    n_jobs : int or None
        Threads; nothing depends on it.
    level : float
        The false-discovery rate within each order, between 0 and 1.
    inflation : {order: g} or None
        So many rows are worth one: statistics of an order are divided by it.
    """
    check_share("fdr", level, "a false-discovery rate between 0 and 1, such as 0.05")
    return _selected(_Search(NodeData(samples, site, n_jobs), considered, inflation), level)


def _selected(search: _Search, level: float) -> tuple[Interactions, Tests]:
    orders = search.considered.keys.orders
    _settle_all(search, [k for k in orders if k > 2], level)
    # All pairs are in every null, whatever their tests say: once, given all that was selected above them, is enough.
    if 2 in orders:
        search.test(2)
    found = search.tests()
    search.nodes.clear()  # nodes and rows refer to each other, and their matrices are many
    return found.select(level), found


def _settle_all(search: _Search, higher: Sequence[int], level: float) -> None:
    for k in higher:
        search.glance(k, level)
        search.settle(k, level)
    for k in reversed(higher[:-1]):
        # What was selected above changes the null of what lies below only if there is something.
        if search.selected[search.considered.order > k].any():
            search.test(k)
            search.settle(k, level)


class _Search:
    """What is in the model so far, the nodes fitted with it, and the last test of each term.

    Attributes
    ----------
    selected : (p,) array
        Terms of orders above 2 that are in the model.
    root, df : (p,) arrays
        Of the last test of each term.
    least : (p,) array
        A lower bound on p-values: that with which a term was once dropped.
    fitted, stamp : (n,), (p,) arrays
        When each node was fitted and each term tested last, in counts of changes of the model.
    rough : (n,) bool array
        Nodes that were fitted roughly, and will be fitted again before anything is tested there.
    site : (p,) array
        At which node each term was tested last.
    inside : (p,) array
        Terms that the model has.
    """

    def __init__(
        self,
        data: NodeData,
        considered: Terms,
        inflation: Mapping[int, float] | None = None,
        sifted: Sifted | None = None,
        nodes: dict[int, Node] | None = None,
    ):
        self.data, self.considered, self.sifted = data, considered, sifted
        self.terms = Terms(data.space, considered.columns)
        p = len(self.terms)
        self.stretch = np.sqrt([(inflation or {}).get(int(k), 1.0) for k in self.terms.order])
        self.clock, self.stamp, self.site = 0, np.full(p, -1), np.full(p, -1)
        self.fitted = np.zeros(data.space.n_features, dtype=int)
        self.rough = np.zeros(data.space.n_features, dtype=bool)
        self.selected, self.dropped = np.zeros(p, dtype=bool), np.zeros(p, dtype=bool)
        self.root, self.df, self.least = np.zeros(p), np.zeros(p, dtype=np.intp), np.zeros(p)
        self.pairs = closure(considered.columns, data.space)
        self.pairs = Interactions.from_blocks([self.pairs.block(2)], data.space.n_columns)
        self.model = self.pairs
        self.nodes: dict[int, Node] = nodes or {}
        self._refit(data.modelled, fitted=nodes is not None)

    # ------------------------------------------------------------------ the model

    def _refit(self, sites: np.ndarray, rough: bool = False, fitted: bool = False) -> None:
        """Fit the nodes of some sites; if ``fitted``, only those that have other interactions than the model."""
        sites = sites[~self.data.space.given[sites]]
        place = self.model.positions(self.terms.columns)
        self.inside = self.terms.sum((place >= 0).astype(float)) == self.terms.df
        left = [a for a in sites.tolist() if not fitted or self.nodes[a].model != self.model]
        self.nodes |= fit_nodes(self.data, left, self.model, self.nodes, rough)
        self.clock += 1
        self.fitted[sites], self.rough[sites] = self.clock, rough

    def _hold(self, selected: np.ndarray, rough: bool = False) -> None:
        """Change the model to all pairs and the closure of these terms; nodes that see no change are kept."""
        self.selected = selected
        blocks = {2: self.pairs.block(2)}
        lower = closure(self.terms.select(selected), self.data.space)
        blocks |= {k: lower.block(k) for k in lower.orders if k > 2}
        new = Interactions.from_blocks(blocks.values(), self.data.space.n_columns)
        if new == self.model and not self.rough.any():
            return
        changed = self.rough.copy()
        changed[self.data.space.site[np.concatenate([_only_in(new, self.model), _only_in(self.model, new)])]] = True
        self.model = new
        self._refit(np.flatnonzero(changed), rough)

    # ------------------------------------------------------------------ tests

    def test(self, k: int) -> None:
        """All terms of order k given the model: drop tests of those in it, add tests of the others."""
        where = self.terms.keys.slice(k)
        self._test(np.arange(where.start, where.stop))

    def glance(self, k: int, level: float) -> None:
        """Tests of the triplets that might pass: of the others a look at their scores is enough for the time being."""
        where = self.terms.keys.slice(k)
        mine = np.arange(where.start, where.stop)
        if len(mine) and not self.inside[mine].any() and (k == 3 or self.sifted is not None):
            sizes = self.sifted.sizes[k] if self.sifted else glance_at_best(self.nodes, self.terms, mine)
            seen = OPTIMISM * sizes / self.stretch[mine]
            mine = mine[self._control(2.0 * stats.norm.sf(seen), k) <= level]
        self._test(mine)

    def _test(self, which: np.ndarray) -> None:
        which = which[self._stale(which)]
        inside = self.inside[which]
        for mine, choose, work in (
            (which[inside], efficient_site, drop_at_best),
            (which[~inside], spread_site, add_at_best),
        ):
            sites = choose(self.nodes, self.terms, mine)
            # At a node that is what it was when the term was tested there last, so is the test.
            new = (sites != self.site[mine]) | (self.fitted[sites] > self.stamp[mine])
            mine, sites = mine[new], sites[new]
            if len(mine):
                root, self.df[mine] = work(self.nodes, self.model, self.terms, mine, sites)
                self.root[mine], self.site[mine] = root / self.stretch[mine], sites
        self.stamp[which] = self.clock

    def _stale(self, which: np.ndarray) -> np.ndarray:
        """Whether a node of each of some terms was fitted since its last test."""
        out = np.zeros(len(which), dtype=bool)
        for k in np.unique(self.terms.order[which]):
            mine = self.terms.order[which] == k
            sites = self.data.space.site[self.terms.keys.block(k)[which[mine] - self.terms.keys.slice(k).start]]
            out[mine] = self.fitted[sites].max(axis=1) > self.stamp[which[mine]]
        return out

    def settle(self, k: int, level: float) -> None:
        """Add what passes in order k, drop what is not needed beside it, test the others again; until all stays."""
        mine = self.terms.order == k
        for _ in range(MAX_ROUNDS):
            chosen = self.selected.copy()
            chosen[mine] = self._passing(k, level)[mine] & ~self.dropped[mine]
            if (chosen != self.selected).any():
                self._hold(self._beside_each_other(chosen, k, level))
                self._eliminate(k, level)
            elif not self._stale(np.flatnonzero(mine)).any():
                return
            self.test(k)
        self._hold(self.selected & ~(mine & ~self._passing(k, level)))

    def _beside_each_other(self, chosen: np.ndarray, k: int, level: float) -> np.ndarray:
        """Of terms that pass one by one those that would still if all were in the model, at nodes fitted roughly.

        Most say what a few others say. What is left out here may come back when it is tested given those.
        """
        added = np.flatnonzero(chosen & ~self.selected)
        if len(added) < _MANY:
            return chosen
        alone, sites, stretch = self.root[added] * self.stretch[added], self.site[added], self.stretch[added]
        self._hold(chosen, rough=True)
        forecast = Forecast(self.nodes, self.terms, added, alone, sites, alone=True)
        failing, p = self._failing(added, forecast.root(added) / stretch, self._bar(chosen, k, level))
        for gone, _ in self._foreseen(forecast, failing, p, chosen.copy(), k, level):
            chosen[gone] = False
        return chosen

    def _eliminate(self, k: int, level: float) -> None:
        """Drop what fails beside the others, never to come back, until nothing does.

        What dropping some does to the others that fail is foreseen; when none of these fails any more, the nodes are
        fitted again and all are tested.
        """
        while True:
            mine = np.flatnonzero(self.selected & (self.terms.order == k))
            self._test(mine)
            failing, p = self._failing(mine, self.root[mine], self._bar(self.selected, k, level))
            if not len(failing):
                return
            forecast = Forecast(
                self.nodes, self.terms, failing, self.root[failing] * self.stretch[failing], self.site[failing]
            )
            left = self.selected.copy()
            for gone, p_gone in self._foreseen(forecast, failing, p, self.selected.copy(), k, level):
                self.least[gone], self.dropped[gone], left[gone] = p_gone, True, False
            self._hold(left)

    def _foreseen(
        self, forecast: Forecast, failing: np.ndarray, p: np.ndarray, left: np.ndarray, k: int, level: float
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The worst fifth of those that fail, and their p-values; then of those that fail without them; and so on."""
        while len(failing):
            last = np.argsort(-p, kind="stable")[: ceil(_SHARE * len(failing))]
            gone = failing[last]
            yield gone, p[last]
            left[gone] = False
            forecast.drop(gone)
            failing = np.delete(failing, last)
            root = forecast.root(failing) / self.stretch[failing]
            failing, p = self._failing(failing, root, self._bar(left, k, level))

    def _bar(self, selected: np.ndarray, k: int, level: float) -> float:
        """The p-value up to which so many of order k pass."""
        mine = self.terms.order == k
        return level * np.count_nonzero(selected & mine) / self._count(k)

    def _count(self, k: int) -> int:
        """Hypotheses of order k."""
        where = self.terms.keys.slice(k)
        return where.stop - where.start if self.sifted is None else self.sifted.counts[k]

    def _control(self, p: np.ndarray, k: int) -> np.ndarray:
        """q-values of all the p-values of order k that there are: those of what was left out are 1."""
        return np.minimum(stats.false_discovery_control(p) * (self._count(k) / len(p)), 1.0) if len(p) else p

    def _failing(self, mine: np.ndarray, root: np.ndarray, bar: float) -> tuple[np.ndarray, np.ndarray]:
        """Those of some terms whose p-value is above a bar, and these."""
        p = np.maximum(p_values(root, self.df[mine]), self.least[mine])
        return mine[p > bar], p[p > bar]

    # ------------------------------------------------------------------ what they say

    @property
    def p_values(self) -> np.ndarray:
        return np.maximum(p_values(self.root, self.df), self.least)

    def _passing(self, k: int, level: float) -> np.ndarray:
        where = self.terms.keys.slice(k)
        out = np.zeros(len(self.terms), dtype=bool)
        out[where] = self._control(self.p_values[where], k) <= level
        return out

    def tests(self) -> Tests:
        p, z = self.p_values, deviates(self.root, self.df)
        raised = p > p_values(self.root, self.df)
        z = np.where(raised, np.sign(z) * stats.norm.isf(0.5 * p), z)
        q = np.ones_like(p)
        for k in self.terms.keys.orders:
            where = self.terms.keys.slice(k)
            q[where] = self._control(p[where], k)
        return Tests(self.considered, self.considered, z, self.terms.df, p, q, "score")


def _only_in(a: Interactions, b: Interactions) -> np.ndarray:
    """Columns in the sets of a that b does not have."""
    absent = np.repeat(b.positions(a) < 0, np.diff(a.indptr))
    return a.members[absent]
