"""Empirical Bayes with scale mixtures: from a fit under Gaussian priors to the posterior under learnt mixtures.

    ln P(data | θ) ≈ ln P(data | θ₀) + gᵀ(θ − θ₀) − ½ (θ − θ₀)ᵀ K (θ − θ₀)

about the last posterior mean θ₀, until that stays. The prior is one of couplings about an origin of each variable (see
``origins``), chosen by the evidence

    ln Z = ½ (b + λ)ᵀ mean − ½ ln |A| + Σ_sites ln(∫ with p / ∫ with its Gaussian) + constants of the expansion
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from scipy import linalg, sparse

from hbm_learn.interactions import Interactions
from hbm_learn.inversion.parameters import Parameters
from hbm_learn.inversion.result import Fit
from hbm_learn.inversion.shrinkage import expectation, mixture, orders
from hbm_learn.inversion.shrinkage.expansion import Expansion, congruent, rooted
from hbm_learn.inversion.shrinkage.expectation import Posterior, Sites
from hbm_learn.inversion.shrinkage.origins import ORIGINS, Origin
from hbm_learn.inversion.shrinkage.quadratic import SplitQuadratic
from hbm_learn.terms import Terms, closure, is_closed

# Times that the likelihood is expanded anew, and the step at which the mean stays: root mean square of its change in
# posterior standard deviations.
MAX_ROUNDS, STAYS = 8, 0.03
# A pattern that fewer rows than this carry takes part when it stands out only.
_RARE = 10.0
# The residual above which sites have not settled.
_SETTLED = 0.1
# So many couplings are treated together whether they stand out or not.
_FEW = 800
# The residual of the sites that is enough to compare origins.
_ROUGH = 0.03
# Nats by which the posterior mean may tell the rows worse than independent variables do.
_WORSE = 2.0
# Halvings of a step that leaves more of the estimating equations than there was.
_HALVINGS = 12


class Information(Protocol):
    """What the data say of θ."""

    parameters: Parameters
    n_samples: float

    def at(self, theta: np.ndarray) -> Expansion | None:
        """The expansion about θ; None where its energies exceed what can be computed."""
        ...


def learn(information: Information, fit: Fit, origins: Sequence[str] = ORIGINS) -> Fit | None:
    """The posterior under learnt mixtures, beginning at a fit under Gaussian priors; None where no expansion holds.

    Parameters
    ----------
    information : Information
        Of the data, in the gauge of the fit.
    fit : Fit
        Where to begin.
    origins : sequence of str
        Candidates, unless the set of interactions lacks subsets: then the origin is that of the coding.
    """
    parameters, n_own = fit.parameters, fit.parameters.n_own
    if not is_closed(parameters.columns, parameters.space):
        origins = ("coding",)
    start = _start(fit, information.n_samples)
    # Alone, a coupling stands out by what it has in common with others.
    active = active_couplings(start, information.n_samples * parameters.carriers[n_own:], strong=1.0)
    # What is not active is expanded about zero, where it stays.
    here = information.at(np.where(np.concatenate([np.ones(n_own, dtype=bool), active]), fit.theta, 0.0))
    assert here is not None
    best: Fit | None = None
    for origin in _by_evidence(here, Origin.distinct(origins, parameters), start, active):
        found = expectation.solve(here.quadratic(origin.among(active), active), n_own, start, _ROUGH)
        result = _settle(information, fit, here, origin, found, active)
        if result is not None and (best is None or _unsettled(result) < _unsettled(best)):
            best = result
        if best is not None and _unsettled(best) < _SETTLED:
            break  # of an origin whose sites do not settle, the evidence says nothing
    return None if best is None or _has_run_away(information, best) else best


def _has_run_away(information: Information, fit: Fit) -> bool:
    """Whether independent variables would tell the rows better: of a pattern of one or two rows a Gaussian says that it
    has no end, and a wide prior believes it. Where the sites agree, it does not."""
    if _unsettled(fit) < expectation.TOLERANCE:
        return False
    here, nothing = information.at(fit.theta), information.at(information.parameters.independent())
    if here is None or nothing is None:
        return here is None
    return information.n_samples * (here.loss - nothing.loss) > _WORSE


def _unsettled(fit: Fit) -> float:
    assert fit.sites is not None
    return fit.sites.residual


def _settle(
    information: Information, fit: Fit, here: Expansion, origin: Origin, found: Posterior, active: np.ndarray
) -> Fit | None:
    """Expand anew about the posterior mean until it stays, with the couplings that stand out there.

    None where the first expansion does not hold as far as its mean; where a later one does not, the last that did.
    """
    n_own, moved, last = fit.parameters.n_own, np.inf, None
    for turn in range(MAX_ROUNDS):
        there = _step(information, here, origin.among(active), found)
        if there is None:
            return None if last is None else _as_fit(fit, *last, moved)
        last = here, origin.among(active), found, active
        here, before = there, found
        now = active_couplings(found.sites, information.n_samples * fit.parameters.carriers[n_own:])
        active = active | now if turn > 1 else now
        found = expectation.solve(here.quadratic(origin.among(active), active), n_own, found.sites)
        moved = _distance(found.mean - before.mean, found, fit.parameters)
        if moved < STAYS:
            break
    else:  # it still moves: perhaps to where no expansion holds
        assert last is not None
        if information.at(origin.among(active).B @ found.mean) is None:
            return _as_fit(fit, *last, moved)
    return _as_fit(fit, here, origin.among(active), found, active, moved)


def _start(fit: Fit, n_samples: float) -> Sites:
    """Sites as of independent variables, of which the standard gauge has M nats of information on every coupling.

    At the mode under a Gaussian prior the gradient is αθ, so that the data alone would have θ + αθ/M.
    """
    n_own, terms, columns = fit.parameters.n_own, fit.parameters.terms, fit.parameters.columns
    alpha = np.empty(len(columns))
    for k in columns.orders:
        alpha[columns.slice(k)] = fit.alpha[k]
    root = np.sqrt(n_samples)
    deviate = root * fit.theta[n_own:] * (1.0 + alpha / n_samples)
    estimate = rooted(terms, deviate, n_samples * fit.parameters.carriers[n_own:]) / root
    return expectation.begin(terms, mixture.scales(n_samples), estimate, np.full(len(columns), 1.0 / n_samples))


def active_couplings(sites: Sites, expected: np.ndarray, strong: float = expectation.STRONG) -> np.ndarray:
    """(p,) what stands out, and all subsets of it; everything that is not too rare, where that is cheap.

    Parameters
    ----------
    sites : Sites
    expected : (p,) array
        Rows that carry each coupling.
    strong : float
        See ``Sites.stands_out``.
    """
    terms, columns = sites.terms, sites.terms.columns
    chosen = sites.stands_out(strong)
    if len(columns) <= _FEW:
        chosen = chosen | (terms.sum(expected) / terms.df >= _RARE)
    if chosen.all():
        return np.ones(len(columns), dtype=bool)
    return closure(terms.select(chosen), terms.space).positions(columns) >= 0


def _by_evidence(here: Expansion, candidates: list[Origin], start: Sites, active: np.ndarray) -> list[Origin]:
    """The one with the most evidence first; those whose sites have not settled last.

    The evidence is that of the couplings among the variables that have most, where there are many.
    """
    if len(candidates) == 1:
        return candidates
    terms, n_own = start.terms, here.parameters.n_own
    if active.sum() > _FEW:
        active = active & _among_the_busiest(terms.columns, active, terms.space.site)
    found = []
    for each in candidates:
        data = here.quadratic(each.among(active), active)
        tried = expectation.solve(data, n_own, start, _ROUGH)
        found.append((tried.sites.residual < _SETTLED, _evidence(data, tried)))
    order = sorted(range(len(candidates)), key=lambda k: found[k], reverse=True)
    return [candidates[k] for k in order]


def _among_the_busiest(columns: Interactions, active: np.ndarray, site: np.ndarray) -> np.ndarray:
    """(p,) sets whose variables are all among those in most active sets of the highest order; at most _FEW active."""
    where = columns.slice(columns.order)
    busy = np.bincount(site[columns.block(columns.order)[active[where]]].ravel(), minlength=int(site.max()) + 1)
    rank = np.empty(len(busy), dtype=np.intp)
    rank[np.argsort(-busy, kind="stable")] = np.arange(len(busy))
    worst = np.concatenate([rank[site[columns.block(k)]].max(axis=1) for k in columns.orders])
    # A set enters when the last of its variables does: as many variables as keep the active ones few.
    counts = np.cumsum(np.bincount(worst[active], minlength=len(busy)))
    return worst <= max(2, int(np.searchsorted(counts, _FEW, side="right")) - 1)


def _evidence(data: SplitQuadratic, found: Posterior) -> float:
    """ln Z of an expansion, up to what all origins and orders share."""
    shift = np.concatenate([np.zeros(len(found.mean) - len(found.sites.shift)), found.sites.shift])
    return 0.5 * float((data.b + shift) @ found.mean) - 0.5 * found.log_det + found.sites.log_ratio


def _distance(step: np.ndarray, found: Posterior, parameters: Parameters) -> float:
    """Root mean square of a step in posterior standard deviations, which no basis of a term's functions changes."""
    size = linalg.norm(step / np.sqrt(parameters.block_means(found.variances)), check_finite=False)  # without squares
    return float(size / np.sqrt(len(step)))


def _step(information: Information, here: Expansion, origin: Origin, found: Posterior) -> Expansion | None:
    """As far towards the mean as leaves less of the equations gradient − γβ + λ = 0; None where nothing does.

    A likelihood has a value that must rise, ln P(data | θ) − ½ γβ² + λβ; of a composite objective, as far as its
    equations are those of no likelihood, what is left of them in posterior standard deviations must fall.
    """
    n_own, sites, B = information.parameters.n_own, found.sites, origin.B
    begin, variances = origin.pull_back(here.theta), information.parameters.block_means(found.variances)

    def left(at: Expansion, x: np.ndarray) -> float:
        beta = x[n_own:]
        if at.value is not None:
            return -(at.value + float(sites.shift @ beta - 0.5 * sites.gamma @ beta**2))
        r = B.T @ at.gradient
        r[n_own:] += sites.shift - sites.gamma * beta
        return float(np.sum(r**2 * variances))

    before, length = left(here, begin), 1.0
    for _ in range(_HALVINGS):
        x = begin + length * (found.mean - begin)
        there = information.at(B @ x)
        if there is not None and left(there, x) <= before:
            return there
        length *= 0.5
    return None


# ---------------------------------------------------------------------- what it says


def _as_fit(fit: Fit, here: Expansion, origin: Origin, found: Posterior, active: np.ndarray, moved: float) -> Fit:
    """The posterior in the gauge of the fit; a mean that still moved counts as sites that have not settled."""
    n_own, B = fit.parameters.n_own, origin.B
    sites = replace(found.sites, residual=max(found.sites.residual, moved if moved >= STAYS else 0.0))
    data = here.quadratic(origin, active)
    evidence = _by_order(data, found)
    doubted = orders.doubted(sites, evidence)
    if doubted is not None:
        found = expectation.solve(data, n_own, doubted)
        sites = replace(found.sites, residual=max(found.sites.residual, sites.residual))
    gamma = np.concatenate([np.zeros(n_own), sites.gamma])
    share = np.clip(1.0 - gamma * found.variances, 0.0, 1.0)
    posterior, sampling = B.power(2) @ found.variances, B.power(2) @ (found.variances * share)
    S, covariance = data.covariance(gamma), None
    if S is not None:
        where = np.flatnonzero(data.coupled)
        part = sparse.csr_array(B[where][:, where])
        covariance = congruent(sparse.csr_array(part.T), S)
        inner = S - S @ (gamma[where][:, None] * S)  # A⁻¹ K A⁻¹: over repeated data sets
        posterior[where] = np.maximum(np.diag(covariance), 0.0)
        sampling[where] = np.maximum(np.diag(congruent(sparse.csr_array(part.T), inner)), 0.0)
        if len(where) < len(gamma):
            covariance = None
    elif len(fit.posterior) == len(gamma):
        posterior[:n_own], sampling[:n_own] = fit.posterior[:n_own], fit.sampling[:n_own]
    return replace(
        fit,
        theta=B @ found.mean,
        posterior=posterior,
        sampling=sampling,
        kept=share[n_own:],
        noise=sampling[n_own:],
        make_whole=lambda: replace(fit.whole, covariance=covariance),
        spread=found.variances,
        alpha={k: 1.0 / sites.second_moment(k) for k in sites.pi},
        evidence=evidence,
        origin=origin.name,
        basis=B,
        sites=sites,
    )


def _by_order(data: SplitQuadratic, found: Posterior) -> dict[int, float]:
    """{order: ln Z of the model up to that order}, less that of independent variables, all on one expansion."""
    sites, n_own = found.sites, len(found.mean) - len(found.sites.shift)
    out, columns = {}, sites.terms.columns
    alone = data.leading(n_own)
    if alone is None:
        return _by_cavities(sites)
    for k in columns.orders:
        if k == columns.orders[-1]:
            out[k] = _evidence(data, found)
            continue
        stop, terms = columns.slice(k).stop, Terms(sites.terms.space, _up_to(columns, k))
        part, T = data.leading(n_own + stop), len(terms)
        assert part is not None
        start = Sites(
            terms,
            sites.sigma,
            {j: sites.pi[j] for j in terms.keys.orders},
            sites.precision[:T],
            sites.rho[:stop],
            sites.gamma[:stop],
            sites.shift[:stop],
            sites.mean[:stop],
            sites.variance[:stop],
        )
        out[k] = _evidence(part, expectation.solve(part, n_own, start, _ROUGH))
    own = alone.posterior(np.zeros(n_own), np.zeros(n_own))
    base = 0.5 * float(alone.b @ own.mean) - 0.5 * own.log_det
    return {1: 0.0} | {k: each - base for k, each in out.items()}


def _up_to(columns: Interactions, k: int) -> Interactions:
    return Interactions.from_blocks([columns.block(j) for j in columns.orders if j <= k], columns.n_features)


def _by_cavities(sites: Sites) -> dict[int, float]:
    """The same as if couplings were uncorrelated beside each other: the evidence of their cavities, order by order."""
    out, total = {1: 0.0}, 0.0
    for k, pi in sites.pi.items():
        mine = sites.cavities.at(sites.terms.keys.slice(k))
        total += float(mixture.moments(mine, sites.sigma, pi)[2].sum())
        out[k] = total
    return out
