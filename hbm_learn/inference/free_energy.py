"""ln Z of the mean-field methods.

Every method has −ln Z = G at its solution, and every G begins with the independent sites and the coupling energy:

    ln Z_naive = Σ_i [ln z_i − β_i m_i − ½Λ_i⟨(φ_i − t_i)²⟩] + E(m)          (Eq. NaiveMeanFieldFreeEnergy_higher-order)
    ln Z_tap   = ln Z_naive − Φ₂                                             (see ``tap``)
    ln Z_dc    = ln Z_naive + ½ Σ_i Λ_i V_i − ½ ln det(√V S √V) + ∫ …        (Eq. AdaptiveTAPFreeEnergy)

When the couplings are pairs, the third without its integral is the adaptive TAP free energy, with Λ = Λ̂ − 1/V (the
published equation lacks a ½ before Σ ĉv, and additive constants; this form is exact for Gaussian variables). Its
derivative in α is

    d ln Z/dα = E(m) + ½ Σ_ij A_ij χ_ij = ⟨Σ_μ J_μ Π x⟩_α    with ⟨x_i x_j⟩ = m_i m_j + χ_ij,

so it is what integration along the path from α = 0 gives. At higher orders the same integration is

    ln Z = [the closed form] + ∫ {g_κ dα − ½ α Σ_ijk T_ijk χ_ij dm_k}

where g_κ is the part of ⟨Σ_μ J_μ Π x⟩ beyond E + ½ΣAχ: for triples J κ₃, and for order k the sum over all other
partitions of μ of the product of the cumulants of their blocks. Of the cumulant of a block B of four or more variables
of μ only the vertex αJ_μ Π_{μ∖B} m Π_B V is kept, and κ₃ is taken at tree level,

    κ_ijk = Σ_a χ_ia χ_ja χ_ka μ₃_a/V_a³ + α Σ_abc T_abc χ_ia χ_jb χ_kc.

Only the integral needs quadrature, and it vanishes for pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hbm_learn._kernels import cumulants
from hbm_learn._threads import blas_for
from hbm_learn.inference.block_equations import BlockPoint
from hbm_learn.inference.continuation import Path
from hbm_learn.inference.dc_equations import DCPoint
from hbm_learn.inference.scalar_sites import SiteState
from hbm_learn.inference.sparse_equations import SparsePoint

_RULES = {k: np.polynomial.legendre.leggauss(k) for k in (2, 3)}
_SHORT_PATH = 4  # steps
_NODE_TOL = 1e-6
_STRIP = 64  # triples whose rows of χ are held at once
_BLOCK_SIZE = 2**22  # entries of T held at once


def path_integral(problem: Any, path: Path) -> np.ndarray:
    """∫ {g_κ dα − ½αTχ dm} from α = 0 to each point of the path, (len(path.z),); zeros for pairs.

    Gauss–Legendre with two nodes in each step of the path, three if the path is short. The nodes are solutions of the
    equations, in the planes that cut the chord of the step at the nodes' abscissae: nothing is interpolated.

    Parameters
    ----------
    problem : DiagonalConsistency or BlockConsistency
    path : Path
    """
    out = np.zeros(len(path.z))
    if problem.couplings.is_pairwise:
        return out
    nodes, weights = _RULES[3 if len(path.z) <= _SHORT_PATH + 1 else 2]
    for k in range(1, len(path.z)):
        ends = path.z[k - 1], path.z[k]
        slopes = path.tangents[k - 1], path.tangents[k]
        with blas_for(problem.n):
            values = [_integrand(problem, path.weights, ends, slopes, 0.5 * (x + 1.0)) for x in nodes]
        out[k] = out[k - 1] + 0.5 * float(weights @ values)
    return out


def _integrand(problem: Any, weights: np.ndarray, ends: tuple, slopes: tuple, x: float) -> float:
    """The integrand per unit of x, the abscissa along the chord (0 and 1 at its ends)."""
    chord = ends[1] - ends[0]
    row = weights * chord
    length = float(row @ chord)
    z = _hermite(ends, [slope * (length / float(row @ slope)) for slope in slopes], x)
    z += (x - float(row @ (z - ends[0])) / length) * chord
    point, velocity = None, chord
    for _ in range(4):
        new = problem.evaluate(z[:-1], float(z[-1]))
        if new is None:
            break
        point = new
        system = point.precise(row) if isinstance(point, SparsePoint) else point.bordered(row)
        velocity = system.solve(np.zeros_like(point.R), length)
        delta = system.solve(point.R, 0.0)
        if np.sqrt((weights * delta) @ delta) <= _NODE_TOL:
            break
        z = z - delta
    if point is None:
        return 0.0
    if isinstance(point, SparsePoint):
        return sparse_density(point, velocity)
    return block_density(point, velocity) if isinstance(point, BlockPoint) else scalar_density(point, velocity)


def _hermite(ends: tuple, slopes: list[np.ndarray], x: float) -> np.ndarray:
    y = 1.0 - x
    return (1 + 2 * x) * y * y * ends[0] + x * x * (1 + 2 * y) * ends[1] + x * y * (y * slopes[0] - x * slopes[1])


def scalar_density(point: DCPoint, velocity: np.ndarray) -> float:
    """g_κ α′ − ½ α Σ_k (Σ_ij T_ijk χ_ij) m′_k for the velocity (β′, Λ′, α′)."""
    s, n = point.s, len(point.ratio)
    members, indptr, weights = point.problem.couplings.higher
    chi = point.chi
    sites, values = cumulants.triples(s.m, members, indptr, weights)
    kappa = third_cumulants(sites, values, chi, s, point.alpha)
    excess = cumulants.closure_excess(s.m, s.V, chi, kappa, point.alpha, members, indptr, weights)
    m_dot = s.V * velocity[:n] + s.m_L * velocity[n:-1]
    trace = cumulants.third_trace(sites, values, chi)
    return float(excess * velocity[-1] - 0.5 * point.alpha * (trace @ m_dot))


def block_density(point: BlockPoint, velocity: np.ndarray) -> float:
    """The same with several columns at a site, in the model's own functions.

    κ₃ has Σ over sites of (χV⁻¹)_ia (χV⁻¹)_jb (χV⁻¹)_kc ⟨y_a y_b y_c⟩ in place of its first sum, and a vertex the
    couplings of all columns at the same sites: α Σ_ν J_ν Π_B V_{μν} Π_{ν∖B} m.
    """
    sites, couplings, s, n = point.problem.sites, point.problem.couplings, point.s, point.problem.n
    members, indptr, weights = couplings.own.higher
    m, chi, V = sites.means(s), sites.covariances(point.chi), sites.covariances(sites.blocks.matrix(s.V))
    triples, values = cumulants.triples(m, members, indptr, weights)
    kappa = coupling_cumulants(triples, values, chi, point.alpha)
    cumulants.add_block_part(kappa, triples, sites.outward(point.regression), sites.column_ptr, *sites.third_moments(s))
    excess = cumulants.block_closure_excess(
        m, V, chi, kappa, point.alpha, members, indptr, weights, *couplings.partners
    )
    m_dot = sites.outward(sites.response(s, velocity[:n], velocity[n:-1]))
    trace = cumulants.third_trace(triples, values, chi)
    return float(excess * velocity[-1] - 0.5 * point.alpha * (trace @ m_dot))


def sparse_density(point: SparsePoint, velocity: np.ndarray) -> float:
    """The same where χ is known within interactions: its other rows come in strips, by solutions with the factor."""
    s, n, alpha = point.s, point.problem.n, point.alpha
    members, indptr, weights = point.problem.couplings.higher
    V = s.V[0].ravel()
    triples, values = cumulants.triples(s.m, members, indptr, weights)
    kappa = np.zeros(len(triples))
    for lo in range(0, len(triples), _STRIP):
        mine = triples[lo : lo + _STRIP]
        distinct, local = np.unique(mine, return_inverse=True)
        chi, rows, part = point.chi_columns(distinct), local.reshape(mine.shape), np.zeros(len(mine))
        cumulants.add_coupling_part(part, rows, chi, triples, values)
        part *= alpha
        cumulants.add_site_part(part, rows, chi / V, s.groups[0].third.ravel())
        kappa[lo : lo + _STRIP] = part
    excess = _sparse_excess(point, V, kappa)
    trace = np.zeros(n)
    for i, pair in zip(triples.T, (triples[:, [1, 2]], triples[:, [0, 2]], triples[:, [0, 1]])):
        trace += np.bincount(i, 2.0 * values * point.chi_pairs(pair), minlength=n)
    m_dot = point.problem.sites.response(s, velocity[:n], velocity[n:-1])
    return float(excess * velocity[-1] - 0.5 * alpha * (trace @ m_dot))


def _sparse_excess(point: SparsePoint, V: np.ndarray, kappa: np.ndarray) -> float:
    """Σ J κ₃ of triplets, and the closure of each larger interaction, with χ of its members."""
    members, indptr, weights = point.problem.couplings.higher
    sizes = np.diff(indptr)
    counts = sizes * (sizes - 1) * (sizes - 2) // 6
    ends = np.cumsum(counts)
    small = sizes == 3
    total = float(weights[small] @ kappa[ends[small] - 1])
    for r in np.flatnonzero(~small):
        mu = members[indptr[r] : indptr[r + 1]]
        a, b = np.triu_indices(len(mu), 1)
        chi = np.diag(V[mu])
        chi[a, b] = chi[b, a] = point.chi_pairs(np.column_stack([mu[a], mu[b]]))
        mine = kappa[ends[r] - counts[r] : ends[r]]
        alone = np.arange(len(mu)), np.array([0, len(mu)]), weights[r : r + 1]
        total += cumulants.closure_excess(point.s.m[mu], V[mu], chi, mine, point.alpha, *alone)
    return total


def third_cumulants(sites: np.ndarray, values: np.ndarray, chi: np.ndarray, s: SiteState, alpha: float) -> np.ndarray:
    """κ_ijk at tree level on the given triples, (n_triples,).

    The coupling part costs the smaller of 18 n_triples² (each pair of triples) and 4n⁴ flops (χT⁽ᵃ⁾χ for each site a).
    """
    kappa = coupling_cumulants(sites, values, chi, alpha)
    # μ₃/V³ against χ_ia χ_ja χ_ka, each at most of the order of V_a
    cumulants.add_site_part(kappa, sites, chi / s.V, s.mu3)
    return kappa


def coupling_cumulants(sites: np.ndarray, values: np.ndarray, chi: np.ndarray, alpha: float) -> np.ndarray:
    """α Σ_abc T_abc χ_ia χ_jb χ_kc on the given triples, (n_triples,)."""
    n = len(chi)
    kappa = np.zeros(len(sites))
    if 18 * len(sites) ** 2 <= 4 * n**4:
        cumulants.add_coupling_part(kappa, sites, chi, sites, values)
    else:
        block = max(1, _BLOCK_SIZE // n**2)
        for lo in range(0, n, block):
            hi = min(lo + block, n)
            X = chi @ cumulants.third_block(sites, values, lo, hi, n) @ chi
            cumulants.add_coupling_block(kappa, sites, chi[lo:hi], X)
    return alpha * kappa
