"""Score tests of interactions, one variable given the others.

add    μ ∌ model:  g = Π_{μ∖a} φ at node a,  c = Φ'W g,  S = Σ g(φ_a − ⟨φ_a⟩) − H⁻¹c·gradient,  V = g'W g − c'H⁻¹c
drop   μ ∈ model:  the same at the maximum without μ, which one chord step reaches from the maximum with it

Each term is tested at one of its modelled variables: where most variance is left. The reference is the saddlepoint's.
A term is tested given all its own subsets, those that the model lacks by one step; so nothing depends on the gauge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from hbm_learn._kernels import score
from hbm_learn._threads import in_threads
from hbm_learn.assessment.drop import drop_at
from hbm_learn.assessment.node_data import NodeData
from hbm_learn.assessment.nodes import Node, fit_nodes
from hbm_learn.assessment.saddlepoint import deviates, direction, p_values, tail
from hbm_learn.assessment.term_groups import groups
from hbm_learn.data.samples import Samples
from hbm_learn.interactions import Interactions
from hbm_learn.terms import Terms

# Entries of the arrays over rows that a block of candidates makes.
_ENTRIES = 2**22
# A term is tested at a member that lacks so large a share of the cells that the one that lacks most does.
_LACKING = 0.5
# Products of columns that are made together: they stay in cache.
_BLOCK = 64


@dataclass(frozen=True, eq=False)
class Scores:
    """Of each term, all (p,).

    Attributes
    ----------
    terms : Terms
    z : array
        Signed; for a block of several functions the normal deviate with the same p-value.
    df : array
        0 where nothing could be tested: then z = 0 and p = 1.
    p_values : array
    """

    terms: Terms
    z: np.ndarray
    df: np.ndarray
    p_values: np.ndarray


def add_tests(data: NodeData | Samples, model: Interactions, candidates: Interactions) -> Scores:
    """Would each term improve the model?

    Parameters
    ----------
    data : NodeData or Samples
    model : Interactions
        A closed set of sets of columns.
    candidates : Interactions
        Sets of columns of terms that the model does not have.
    """
    data = data if isinstance(data, NodeData) else NodeData(data)
    terms = Terms(data.space, candidates)
    nodes = fit_nodes(data, data.modelled, model)
    return scores(terms, *add_at_best(nodes, model, terms, np.arange(len(terms))))


def drop_tests(data: NodeData | Samples, model: Interactions, candidates: Interactions | None = None) -> Scores:
    """Does the model need each of its terms, given all the others?

    Parameters
    ----------
    data, model
        As in ``add_tests``.
    candidates : Interactions or None
        Sets of columns of terms of the model; all by default.
    """
    data = data if isinstance(data, NodeData) else NodeData(data)
    terms = Terms(data.space, model if candidates is None else candidates)
    nodes = fit_nodes(data, data.modelled, model)
    return scores(terms, *drop_at_best(nodes, model, terms, np.arange(len(terms))))


def scores(terms: Terms, root: np.ndarray, df: np.ndarray) -> Scores:
    """From signed roots of χ² statistics."""
    return Scores(terms, deviates(root, df), df, p_values(root, df))


# ---------------------------------------------------------------------- each term at one node


def add_at_best(
    nodes: dict[int, Node], model: Interactions, terms: Terms, which: np.ndarray, sites: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Roots of χ² and df of the terms ``which``, each at the node with most variance left, or that of ``sites``."""
    best = spread_site(nodes, terms, which) if sites is None else sites

    def work(a: int, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return add_at(nodes[a], model, terms, mine)

    return _each(nodes, best, which, work)


def glance_at_best(nodes: dict[int, Node], terms: Terms, which: np.ndarray) -> np.ndarray:
    """(T,) sizes |S|/√Σg²C of the scores of triplets at their best nodes, without projections or tails: two products
    of all columns with themselves a node. Of a block the largest of its sets."""
    sites, space = spread_site(nodes, terms, which), terms.space
    where = terms.columns.slice(3)
    place = np.full(len(terms), -1)
    place[which] = np.arange(len(which))
    block, mine = terms.columns.block(3), place[terms.group[where]]
    block, mine = block[mine >= 0], mine[mine >= 0]
    own = space.site[block] == sites[mine][:, None]

    def work(a: int) -> tuple[np.ndarray, np.ndarray]:
        node, rows = nodes[a], np.flatnonzero(sites[mine] == a)
        rest = block[rows][~own[rows]].reshape(-1, 2)
        k = block[rows][own[rows]] - node.first
        return rows, _glances(node, k, rest)

    out = np.zeros(len(which))
    busy = np.unique(sites).tolist()
    for rows, sizes in in_threads(work, busy, nodes[busy[0]].data.n_jobs) if busy else ():
        np.maximum.at(out, mine[rows], sizes)
    return out


def _glances(node: Node, k: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Of sets of column k of the node and two others each."""
    N = len(node.data.tested) - 1
    S, V = (np.zeros((node.n_columns, N, N)) for _ in range(2))
    for where in node.data.chunks():
        Y = node.data.tested[:-1, where]
        eta = node.fields(node.theta[None], node.design(where))
        C, residual = node.covariance(eta[0], where), node.residuals(eta, where)[0][0]
        for l in range(node.n_columns):
            S[l] += (Y * residual[l]) @ Y.T
            V[l] += (Y**2 * C[l, l]) @ (Y**2).T
    at = k, rest[:, 0], rest[:, 1]
    return np.abs(S[at]) / np.sqrt(np.maximum(V[at], 1e-300))


def drop_at_best(
    nodes: dict[int, Node], model: Interactions, terms: Terms, which: np.ndarray, sites: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Roots of χ² and df of the terms ``which`` of the model, each at the node with the largest efficient variance, or
    that of ``sites``."""
    wanted = np.isin(terms.group, which)
    if (model.positions(terms.columns)[wanted] < 0).any():
        raise ValueError("drop tests are of terms in the model: use add_tests for others.")
    best = efficient_site(nodes, terms, which) if sites is None else sites

    def work(a: int, mine: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        owner = nodes[a].owners(terms)[0]
        return drop_at(nodes[a], [np.flatnonzero(owner == t) for t in mine])

    return _each(nodes, best, which, work)


def efficient_site(nodes: dict[int, Node], terms: Terms, which: np.ndarray) -> np.ndarray:
    """For each of some terms of the model the member at whose node its scores keep most variance."""
    gaps = next(iter(nodes.values())).data.gaps if nodes else np.zeros(1)
    return best_by_variance(((a, *nodes[a].owners(terms)[1:]) for a in sorted(nodes)), terms, gaps)[which]


def best_by_variance(found: Iterable[tuple[int, np.ndarray, np.ndarray]], terms: Terms, gaps: np.ndarray) -> np.ndarray:
    """(p,) for each term the site where its scores have most variance, of (site, its terms, their variances)."""
    largest, best = np.full(len(terms), -np.inf), np.full(len(terms), -1)
    lacking = _lacking(gaps, terms)
    for a, t, v in found:
        v = np.nan_to_num(v, nan=0.0)  # a variance that rounding leaves undefined is none
        better = v > largest[t] * (1.0 + 1e-9)
        if lacking is not None:
            enough = gaps[a] >= lacking[t]
            best[t[~enough & (best[t] < 0)]] = a  # where no node of a term lacks enough, any is better than none
            better &= enough
        largest[t[better]], best[t[better]] = v[better], a
    return best


def spread_site(nodes: dict[int, Node], terms: Terms, which: np.ndarray) -> np.ndarray:
    """For each of some terms the member whose node has most variance left."""
    order = sorted(nodes)
    gaps = nodes[order[0]].data.gaps
    spread, lacking = np.full(terms.space.n_features, -np.inf), _lacking(gaps, terms)
    spread[order] = np.round([nodes[a].spread for a in order], 9)
    out = np.empty(len(which), dtype=np.intp)
    for k in np.unique(terms.order[which]):
        mine = terms.order[which] == k
        sites = terms.space.site[terms.keys.block(k)[which[mine] - terms.keys.slice(k).start]]
        left = spread[sites]
        if lacking is not None:
            left = np.where(gaps[sites] >= lacking[which[mine], None], left, -np.inf)
        out[mine] = sites[np.arange(len(sites)), np.argmax(left, axis=1)]
    return out


def _lacking(gaps: np.ndarray, terms: Terms) -> np.ndarray | None:
    """(p,) the share of missing cells from which a member of each term may be its node; None if nothing is missing.

    Whether cells of one member are missing may depend on another, but not on their own values: what lacks most is the
    one whose distribution given the others does not depend on which rows have them all.
    """
    if not gaps.any():
        return None
    most = [gaps[terms.space.site[terms.keys.block(k)]].max(axis=1) for k in terms.keys.orders]
    return _LACKING * np.concatenate(most)


def _each(
    nodes: dict[int, Node],
    best: np.ndarray,
    which: np.ndarray,
    work: Callable[[int, np.ndarray], tuple[np.ndarray, np.ndarray]],
) -> tuple[np.ndarray, np.ndarray]:
    """work(site, its terms) for every site in threads, the longest lists first."""
    sites, counts = np.unique(best, return_counts=True)
    sites = sites[np.argsort(-counts, kind="stable")]
    n_jobs = next(iter(nodes.values())).data.n_jobs if nodes else 1
    z, df = np.zeros(len(which)), np.zeros(len(which), dtype=np.intp)
    for a, found in zip(sites, in_threads(lambda a: work(int(a), which[best == a]), sites, n_jobs)):
        z[best == a], df[best == a] = found[0] * nodes[int(a)].freedom, found[1]
    return z, df


# ---------------------------------------------------------------------- add tests at one node


def add_at(node: Node, model: Interactions, terms: Terms, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Roots of χ² and df of add tests of some terms at one of their variables."""
    z, df = np.zeros(len(which)), np.zeros(len(which), dtype=np.intp)
    for at, outputs, rest, n_nuisance in groups(node, model, terms, which):
        m = len(outputs)
        step = max(1, _ENTRIES // (len(node.theta) * m * m))
        for lo in range(0, len(at), step):
            part = slice(lo, lo + step)
            z[at[part]], df[at[part]] = _add(node, outputs, rest[part], n_nuisance)
    return z, df


def _add(node: Node, outputs: np.ndarray, rest: np.ndarray, n_nuisance: int) -> tuple[np.ndarray, np.ndarray]:
    """Roots of χ² and df for T blocks of m sets: rest (T, m, k) columns beside that of the node, which is
    ``outputs`` (m,). The first ``n_nuisance`` of each block are in the null, and reached by one step."""
    S, raw, cross = _sums(node, outputs, rest)
    co = cross @ node.inverse
    gradient = node.ridge * node.theta  # what the maximum leaves of the likelihood's
    S = S - co @ gradient
    V = raw - np.einsum("tip,tjp->tij", cross, co) - np.einsum("tip,p,tjp->tij", co, node.ridge, co)
    A = _beside(V, n_nuisance)
    S, V = np.einsum("tdm,tm->td", A, S), np.einsum("tdm,tmn,ten->tde", A, V, A)
    before = np.diagonal(raw, axis1=1, axis2=2)[:, n_nuisance:]
    found = direction(S, V, before)
    single = S.shape[1] == 1
    root = np.sign(S[:, 0]) * np.sqrt(found.chi2) if single else np.sqrt(found.chi2)
    doubtful = np.flatnonzero(found.doubtful & (found.df > 0))
    t = np.ones((len(S), 1)) if single else found.t
    alpha = np.einsum("td,tdm->tm", t, A)
    for lo in range(0, len(doubtful), 64):
        these = doubtful[lo : lo + 64]
        root[these] = _tails(node, outputs, rest[these], alpha[these], co[these])
    return root, found.df


def _beside(V: np.ndarray, n_nuisance: int) -> np.ndarray:
    """(T, d, m) what takes the scores of the nuisance out of those of the d that are tested: (−V_dE V_EE⁻¹, 1)."""
    T, m = V.shape[:2]
    A = np.zeros((T, m - n_nuisance, m))
    A[:, :, n_nuisance:] = np.eye(m - n_nuisance)
    if n_nuisance:
        inside = V[:, :n_nuisance, :n_nuisance]
        A[:, :, :n_nuisance] = -V[:, n_nuisance:, :n_nuisance] @ np.linalg.pinv(inside, rcond=1e-9, hermitian=True)
    return A


def _sums(node: Node, outputs: np.ndarray, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores (T, m), their covariances (T, m, m), and those with the scores of the node's parameters (T, m, P)."""
    T, m = rest.shape[:2]
    S, raw, cross = np.zeros((T, m)), np.zeros((T, m, m)), np.zeros((T, m, len(node.theta)))
    step = max(1, _BLOCK // m)
    for where in node.data.chunks():
        Phi = node.design(where)
        eta = node.fields(node.theta[None], Phi)
        C, residual = node.covariance(eta[0], where), node.residuals(eta, where)[0][0]
        weighted = [[Phi[mine] * C[k, l] for l, mine in enumerate(node.outputs)] for k in range(len(node.outputs))]
        for lo in range(0, T, step):
            part = slice(lo, lo + step)
            G = node.data.monomials(rest[part], where, tested=True)
            for i, k in enumerate(outputs):
                score.weighted_sums(G[:, i], residual[k], C[k, k], S[part, i], raw[part, i, i])
                for l in range(len(node.outputs)):
                    cross[part, i, node.ptr[l] : node.ptr[l + 1]] += G[:, i] @ weighted[k][l].T
                for j in range(i + 1, m):
                    raw[part, i, j] += (G[:, i] * G[:, j]) @ C[k, outputs[j]]
    lower = np.tril_indices(m, -1)
    raw[:, lower[0], lower[1]] = raw[:, lower[1], lower[0]]
    return S, raw, cross


def _tails(node: Node, outputs: np.ndarray, rest: np.ndarray, alpha: np.ndarray, co: np.ndarray) -> np.ndarray:
    """Deviates of the scores h = Σ_i α_i (g_i − Φ co_i) of T blocks."""
    T, o, R = len(rest), len(node.outputs), len(node.data.weights)
    theta = np.einsum("tm,tmp->tp", alpha, co)
    z = np.empty(T)
    step = max(1, _ENTRIES // (o * R))
    for lo in range(0, T, step):
        part = slice(lo, min(lo + step, T))
        eta, h = np.empty((o, R)), np.empty((part.stop - lo, o, R))
        for where in node.data.chunks():
            Phi = node.design(where)
            eta[:, where] = node.fields(node.theta[None], Phi)[0]
            h[:, :, where] = -node.fields(theta[part], Phi)
            G = node.data.monomials(rest[part], where, tested=True)
            for i, k in enumerate(outputs):
                h[:, k, where] += alpha[part, i, None] * G[:, i]
        z[part] = [tail(node, eta, each)[0] for each in h]
    return z
