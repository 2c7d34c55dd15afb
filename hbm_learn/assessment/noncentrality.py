"""What a conditional score test of each term sees in one row of a model: no data, the model itself.

    S = Σ_x P(x) φ(x),   V, K(t) under the node without the term,   K'(t) = S
    w = √(2(tS − K)),   u = t √K'',   σ = (t/w) √Var_P φ

φ is the efficient score of the term, at the maximum of P itself among the nodes that lack it. Of M rows the deviate of
the test is √M w + ln(u/w)/(√M w) on average, and its standard deviation is σ: 1 for a weak effect, other than 1 for a
strong one, and for events that an interaction makes much more frequent, or rarer, than they would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import linalg

from hbm_learn._threads import in_threads
from hbm_learn.assessment.node_data import DistinctRows, NodeData
from hbm_learn.assessment.nodes import Node
from hbm_learn.assessment.rare_patterns import RarePattern, rarest
from hbm_learn.assessment.saddlepoint import SINGULAR
from hbm_learn.assessment.score_tests import efficient_site, spread_site
from hbm_learn.conditionals import conditional_probabilities
from hbm_learn.interactions import Interactions
from hbm_learn.model import BoltzmannMachine
from hbm_learn.sampling import sample
from hbm_learn.states import StateTable
from hbm_learn.terms import Terms

# w, ln(u/w)/w, σ and df of a term, and the pattern that its test rests on.
Row = tuple[float, float, float, int, RarePattern | None]
# States that are listed, and rows that stand for them beyond.
MAX_LISTED, N_ROWS = 2**14, 2**14
# Rows that weights sum to: the weak ridge of the nodes does not count beside so many.
_MANY = 1e7
# χ² of a row that is none.
_NONE = 1e-14


@dataclass(frozen=True, eq=False)
class Noncentrality:
    """What one row tells of some terms, all (p,).

    Attributes
    ----------
    root, correction : arrays
        w, and ln(u/w)/w.
    spread : array
        σ.
    df : array
        Of the test; 0 where the variable says nothing of the term.
    patterns : list of RarePattern or None
        What the test rests on where a pattern of values is rare.
    """

    root: np.ndarray
    correction: np.ndarray
    spread: np.ndarray
    df: np.ndarray
    patterns: list[RarePattern | None]

    def deviates(self, M: np.ndarray) -> np.ndarray:
        """(p, g) mean deviates of (g,) numbers of rows."""
        return np.maximum(self.root[:, None] * np.sqrt(M) + self.correction[:, None] / np.sqrt(M), 0.0)


class Population:
    """The rows of a model, weighted with their probabilities, as each variable given the others sees them.

    Every state while they can be listed. Beyond, samples of the other variables and every value of one with its
    probability given these, so that what a test expects is not blurred by the noise of one more table.

    Parameters
    ----------
    model : BoltzmannMachine
        Finite.
    random_state : int, Generator, RandomState or None
        Of the samples, where states are too many.

    Attributes
    ----------
    exact : bool
        Whether all states are listed.
    frequencies : list of (q_i,) arrays
        Of the values of each variable.
    """

    def __init__(self, model: BoltzmannMachine, random_state: Any = None):
        self.model, self.exact = model, model.space.enumerable(MAX_LISTED)
        if self.exact:
            table = StateTable(model)
            self._codes, self._p = table.codes(np.arange(len(table.p))), np.asarray(table.p)
            self.frequencies = table.marginals
        else:
            self._codes = model.space.encode(sample(model, N_ROWS, random_state=random_state))
            self._given = conditional_probabilities(model, self._codes)
            self.frequencies = [p.mean(axis=0) for p in self._given]

    def nodes(self, sites: list[int], held: Interactions, site: str, n_jobs: int | None) -> dict[int, Node]:
        """Each of some variables given the others, fitted with a closed set of interactions."""
        shared = None
        if self.exact:
            shared = NodeData(DistinctRows(self.model.space, self._codes, _MANY * self._p), site, n_jobs)

        def fitted(a: int) -> Node:
            return Node(NodeData(self._rows(a), site, n_jobs) if shared is None else shared, a, held).fit()

        return dict(zip(sites, in_threads(fitted, sites, n_jobs)))

    def _rows(self, a: int) -> DistinctRows:
        p = self._given[a]
        every = np.repeat(self._codes, p.shape[1], axis=0)
        every[:, a] = np.tile(np.arange(p.shape[1]), len(p))
        return DistinctRows(self.model.space, every, _MANY / len(p) * p.ravel())


def noncentrality(
    population: Population, held: Interactions, which: np.ndarray, site: str = "free", n_jobs: int | None = None
) -> Noncentrality:
    """Of some terms of a model, each tested given all other sets of columns that are held.

    Parameters
    ----------
    population : Population
    held : Interactions
        Closed, with those of the terms.
    which : (p,) array
        Terms of the model.
    site : str
        "free" or "quadratic".
    n_jobs : int or None
        Threads.
    """
    terms = population.model.terms
    nodes = population.nodes(_sites(terms, which), held, site, n_jobs)
    best = efficient_site(nodes, terms, which)

    def work(a: int) -> list[Row]:
        owner = nodes[a].owners(terms)[0]
        return [_dropped(nodes[a], np.flatnonzero(owner == r), terms.members(r)) for r in which[best == a]]

    return _together(best, work, n_jobs)


def added(
    population: Population, held: Interactions, which: np.ndarray, site: str = "free", n_jobs: int | None = None
) -> Noncentrality:
    """Of some terms, each tested given the sets of columns that are held, which has its subsets and not itself.

    Parameters
    ----------
    population, held, which, site, n_jobs
        As in ``noncentrality``.
    """
    terms = population.model.terms
    nodes = population.nodes(_sites(terms, which), held, site, n_jobs)
    best = spread_site(nodes, terms, which)

    def work(a: int) -> list[Row]:
        sets = terms.columns.tuples
        return [_added(nodes[a], [sets[c] for c in terms.positions(r)], terms.members(r)) for r in which[best == a]]

    return _together(best, work, n_jobs)


def _sites(terms: Terms, which: np.ndarray) -> list[int]:
    return sorted({i for r in which for i in terms.members(r)})


def _together(best: np.ndarray, work: Callable[[int], list[Row]], n_jobs: int | None) -> Noncentrality:
    """work(site) of every site that is the best of some terms, in the order of these."""
    sites, found, patterns = np.unique(best).tolist(), np.zeros((len(best), 4)), np.full(len(best), None)
    for a, values in zip(sites, in_threads(work, sites, n_jobs)):
        found[best == a] = [row[:4] for row in values]
        patterns[best == a] = [row[4] for row in values]
    root, correction, spread, df = found.T
    return Noncentrality(root, correction, spread, df.astype(np.intp), patterns.tolist())


# ---------------------------------------------------------------------- one term at one node


def _dropped(node: Node, J: np.ndarray, members: Iterable[int]) -> Row:
    """Of the term of some variables with parameters J, at the maximum without them."""
    fixed = np.zeros(len(node.theta), dtype=bool)
    fixed[J] = True
    q = node.inverse[:, J]
    start = node.theta - np.linalg.solve(q[J], q.T).T @ node.theta[J]
    start[J] = 0.0
    theta = node.maximise(start, node.H, fixed)[0]
    H = node.hessian(theta)
    D, free = np.zeros((len(J), len(theta))), ~fixed
    D[:, J] = np.eye(len(J))
    D[:, free] = -linalg.solve(H[np.ix_(free, free)], H[np.ix_(free, J)], assume_a="pos").T
    Phi = node.design(_every(node))
    before = np.diag(node.H)[J] - node.ridge[J]
    return _row(node, node.fields(theta[None], Phi)[0], node.fields(D, Phi), before, members)


def _added(node: Node, sets: list[tuple[int, ...]], members: Iterable[int]) -> Row:
    """Of the term of some variables with these sets of columns, at the maximum of the node, which has none of them."""
    site, every = node.data.space.site, _every(node)
    Phi = node.design(every)
    eta = node.fields(node.theta[None], Phi)[0]
    h = np.zeros((len(sets), *eta.shape))
    for d, mu in enumerate(sets):
        mine = next(c for c in mu if site[c] == node.site)
        h[d, mine - node.first] = node.data.monomials(np.array([c for c in mu if c != mine])[None], every)[0]
    product = node.covariance_products(_repeated(eta, h), h, every)
    before = np.einsum("dor,dor->d", product, h)
    h -= node.fields(node.adjoint(product, Phi) @ node.inverse, Phi)
    return _row(node, eta, h, before, members)


def _row(node: Node, eta: np.ndarray, h: np.ndarray, before: np.ndarray, members: Iterable[int]) -> Row:
    """What a test of some variables sees at natural parameters η (o, R), along efficient scores h (d, o, R), whose
    variances were ``before`` the projection."""
    every, total = _every(node), node.data.weights.sum()
    S = np.einsum("or,dor->d", node.residuals(eta[None], every)[0][0], h)
    V = np.einsum("dor,eor->de", node.covariance_products(_repeated(eta, h), h, every), h)
    scale = 1.0 / np.sqrt(np.maximum(before, 1e-300))
    values, vectors = np.linalg.eigh(V * scale * scale[:, None])
    kept = values > SINGULAR
    df = int(kept.sum())
    along = (S * scale) @ vectors[:, kept]
    t = scale * (vectors[:, kept] @ (along / values[kept]))
    if not df or float(S @ t) <= _NONE * total:
        return 0.0, 0.0, 1.0, df, None
    share, p, phi = _scores(node, eta, np.einsum("d,dor->or", t, h))
    others = [i for i in members if i != node.site]
    sizes = node.data.space.sizes[others]
    return *_tail(node, share, p, phi), df, rarest(node.data.codes[others], node.x, p, phi, share, sizes)


def _every(node: Node) -> slice:
    return slice(0, len(node.data.weights))


def _repeated(eta: np.ndarray, h: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(eta, h.shape))


def _scores(node: Node, eta: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of the rows (R,), and the probabilities and scores of all values in each, (q, R), along h (o, R)."""
    share = node.data.weights / node.data.weights.sum()
    exponent = node.O @ eta
    p = np.exp(exponent - exponent.max(axis=0))
    p /= p.sum(axis=0)
    phi = node.O @ h
    return share, p, phi - (p * phi).sum(axis=0)


def _tail(node: Node, share: np.ndarray, p: np.ndarray, phi: np.ndarray) -> tuple[float, float, float]:
    """w, ln(u/w)/w and σ of the score, whose S is V."""
    seen = np.take_along_axis(phi, node.x[None].astype(np.intp), axis=0)[0]
    S = float(share @ seen)
    t = 1.0
    for _ in range(100):
        K, K1, K2 = _cumulant(t, p, phi, share)
        step = (S - K1) / K2
        t += float(np.clip(step, -0.5 * t, t))  # K' increases: t stays positive
        if abs(step) <= 1e-10 * t:
            break
    K, _, K2 = _cumulant(t, p, phi, share)
    w, u = np.sqrt(max(2.0 * (t * S - K), 0.0)), t * np.sqrt(K2)
    spread = t * np.sqrt(max(float(share @ seen**2) - S**2, 0.0)) / w
    return float(w), float(np.log(u / w) / w), float(spread)


def _cumulant(t: float, p: np.ndarray, phi: np.ndarray, share: np.ndarray) -> tuple[float, float, float]:
    """K, K' and K'' of one row."""
    top = (t * phi).max(axis=0)
    tilted = p * np.exp(t * phi - top)
    z = tilted.sum(axis=0)
    tilted /= z
    mean = (tilted * phi).sum(axis=0)
    variance = (tilted * (phi - mean) ** 2).sum(axis=0)
    return float(share @ (np.log(z) + top)), float(share @ mean), float(share @ variance)
