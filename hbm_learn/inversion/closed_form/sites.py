"""From couplings to a model: own weights that return the data's frequencies, and errors in the user's coding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn._kernels.clusters import triplet_reaction
from hbm_learn.consistency import consistent_lambda, own_weights, quadratic_parameters
from hbm_learn.consistency import reaction as back_reaction
from hbm_learn.data.moments import Moments
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.closed_form import errors
from hbm_learn.inversion.closed_form.tensors import dense
from hbm_learn.inversion.result import InversionResult, norm_errors
from hbm_learn.inversion.shrinkage.expectation import Sites
from hbm_learn.inversion.shrinkage.marginals import Marginals
from hbm_learn.model import BoltzmannMachine, gauge
from hbm_learn.space import Space
from hbm_learn.terms import Terms

if TYPE_CHECKING:
    from hbm_learn.inversion.closed_form.diagonal import Couplings


def finish(
    found: Couplings, moments: Moments, seen: Moments, kept: Interactions, site: str, reaction: bool
) -> InversionResult:
    """The model of ``kept`` in the user's coding with everything a result has.

    Parameters
    ----------
    found : Couplings
        In the gauge of ``seen``.
    moments, seen : Moments
        Of the same data, in the coding gauge and in the one that was worked in.
    kept : Interactions
        What to keep of the couplings found.
    site : str
        "free" or "quadratic".
    reaction : bool
        Whether triplets and quadruplets act back on the own weights, as in "dc2".
    """
    at = _places(found, kept)
    weights, variances = _in_coding(found, moments, seen)
    weights, variances = weights[at], variances[at]
    P = found.P
    if seen is not moments:
        R = _block_diagonal(seen.space.relation(moments.space))
        P = R @ P @ R.T
    elif kept.order >= 3:
        variances = errors.pair_weights_with_triplets(variances, kept, found.shrink, P, moments.mean, moments.n_samples)
    model = with_sites(moments, kept, weights, P, site, reaction)
    terms = Terms(moments.space, kept)
    column_effects, effect_variances, sampling = effects(found, moments, seen, kept)
    derivatives = np.divide(found.effects, found.scale, out=np.zeros_like(found.scale), where=found.scale > 0)[at]
    return InversionResult(
        method="closed-form",
        model=model,
        standard_errors=norm_errors(terms, weights, np.sqrt(variances)),
        h_standard_errors=_field_errors(moments, P, kept.order),
        effect_errors=norm_errors(terms, column_effects, np.sqrt(effect_variances)),
        column_effects=column_effects,
        column_effect_errors=np.sqrt(effect_variances),
        column_sampling_errors=np.sqrt(sampling),
        statistic=errors.statistics(
            terms,
            derivatives,
            found.shrink[at],
            found.spread[at],
            found.noise,
            moments.n_samples,
            errors.rows_for_one(moments, kept),
        ),
        sign=np.where(terms.df == 1, np.sign(terms.sum(column_effects)), 1.0),
        alpha={k: float(found.alpha.get(k, 0.0)) for k in kept.orders},
        notes=found.notes,
        informed=None if moments.is_complete else 1.0 / errors.rows_for_one(moments, kept),
        effect_marginals=None if found.sites is None else _marginals(found.sites, at, column_effects),
    )


def _marginals(sites: Sites, at: np.ndarray | slice, effects: np.ndarray) -> Marginals:
    """Posteriors of effects, which are sites themselves."""
    main = np.arange(len(sites.mean))[at]
    return Marginals(sites, main, np.ones(len(main)), effects, np.zeros(len(main)))


def effects(
    found: Couplings, moments: Moments, seen: Moments, kept: Interactions
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Effects of the kept sets of columns, their posterior variances, and their sampling variances without a prior."""
    at = _places(found, kept)
    sampling = found.variance * found.scale**2
    if seen is not moments or moments.space.is_scalar:
        return found.effects[at], found.posterior[at], sampling[at]
    # A prior of the user's weights on several functions of a site: the standard gauge is a linear map away.
    relation = moments.space.relation(moments.standard.space)
    T = gauge.transfer(found.columns, moments.space, relation)[moments.space.n_columns :][at]
    square = T.power(2)
    return T @ found.weights, square @ (found.posterior / found.scale**2), square @ found.variance


def _places(found: Couplings, kept: Interactions) -> np.ndarray | slice:
    """Where the kept sets of columns stand among those found."""
    return slice(None) if kept is found.columns else found.columns.positions(kept)


def _in_coding(found: Couplings, moments: Moments, seen: Moments) -> tuple[np.ndarray, np.ndarray]:
    """Weights of ``found.columns`` in the user's coding, and their posterior variances without those of higher orders
    (where the gauge is the user's)."""
    if seen is moments:
        return found.weights, found.posterior / found.scale**2
    N = moments.space.n_columns
    T = gauge.transfer(found.columns, moments.space, seen.space.relation(moments.space))[N:]
    return T @ found.weights, T.power(2) @ found.posterior


def _block_diagonal(relation: gauge.Relation) -> np.ndarray:
    """blockdiag(R_i): φ = c + ψ R has Cov(φ) = Rᵀ Cov(ψ) R, so that Cov(ψ)⁻¹ = R Cov(φ)⁻¹ Rᵀ."""
    sizes = [len(c) for c, _ in relation]
    out, lo = np.zeros((sum(sizes), sum(sizes))), 0
    for (_, R), size in zip(relation, sizes):
        out[lo : lo + size, lo : lo + size] = R
        lo += size
    return out


def with_sites(
    moments: Moments, columns: Interactions, weights: np.ndarray, P: np.ndarray, site: str, reaction: bool
) -> BoltzmannMachine:
    """The model with these couplings whose equations return the frequencies of the moments: "dc2", or "dc" without the
    reaction."""
    space, m, C = moments.space, moments.mean, moments.covariance
    V, guess = _blocks(space, C), _guess(space, C, P)
    if not space.is_finite:
        return _continuous(moments, columns, weights, np.asarray(guess), reaction)
    empty = [np.zeros(q) for q in space.sizes]
    bare = BoltzmannMachine.from_columns(space, empty, columns, weights)
    A = bare.A(m)
    if space.has_given:  # among themselves the given ones are as they are, though no coupling of the model says so
        given = space.given[space.site]
        A = np.where(np.outer(given, given) & (space.site[:, None] != space.site), -P, A)
    F, Lambda = _fields(bare, A, m, V, guess, reaction)
    own = own_weights(space, _site_distributions(moments, site), F, Lambda, moments.feature_names)
    own = [np.zeros(len(table)) if given else table for table, given in zip(own, space.given)]
    return BoltzmannMachine.from_columns(space, own, columns, weights, moments.frequencies).settled()


def _fields(
    bare: BoltzmannMachine, A: np.ndarray, m: np.ndarray, V: Any, guess: Any, reaction: bool
) -> tuple[np.ndarray, np.ndarray | list[np.ndarray]]:
    """The fields F + ½T:χ + f (N,) on the sites, and Λ + Λ′ of each; F and Λ without the reaction."""
    space, F = bare.space, bare.F(m)
    Lambda = consistent_lambda(space, A, V, guess)
    if bare.order < 3 or not reaction:
        return F, Lambda
    chi, J4 = _response(space, A, V, Lambda), None
    if bare.order == 3 and space.is_scalar:
        triplets = bare.columns.slice(3)
        field, extra = triplet_reaction(bare.columns.block(3), bare.column_weights[triplets], np.asarray(V), chi)
        return F + field, np.asarray(Lambda) + extra
    if bare.order > 3:
        J4 = dense(bare.columns.block(4), bare.column_weights[bare.columns.slice(4)], len(m))
    field, extra = back_reaction(space, bare.T(m), J4, V, chi)
    if space.is_scalar:
        return F + field, np.asarray(Lambda) + np.asarray(extra)
    return F + field, [a + b for a, b in zip(Lambda, extra)]


def _response(space: Space, A: np.ndarray, V: Any, Lambda: Any) -> np.ndarray:
    """χ = (blockdiag(V⁻¹ + Λ) − A)⁻¹, (N, N)."""
    S = -A
    if space.is_scalar:
        S.flat[:: len(S) + 1] += 1.0 / np.asarray(V) + np.asarray(Lambda)
    else:
        for lo, hi, v, l in zip(space.column_ptr[:-1], space.column_ptr[1:], V, Lambda):
            S[lo:hi, lo:hi] += np.linalg.inv(v) + l
    return np.linalg.inv(S)


def _blocks(space: Space, C: np.ndarray) -> np.ndarray | list[np.ndarray]:
    """The covariance of the columns of each site: numbers if each has one."""
    if space.is_scalar:
        return np.diag(C)
    return [C[lo:hi, lo:hi] for lo, hi in zip(space.column_ptr[:-1], space.column_ptr[1:])]


def _guess(space: Space, C: np.ndarray, P: np.ndarray) -> np.ndarray | list[np.ndarray]:
    """Λ_i = P_ii − V_i⁻¹, which is the answer where nothing was left out or shrunk."""
    if space.is_scalar:
        return np.diag(P) - 1.0 / np.diag(C)
    edges = zip(space.column_ptr[:-1], space.column_ptr[1:])
    return [P[lo:hi, lo:hi] - np.linalg.inv(C[lo:hi, lo:hi]) for lo, hi in edges]


def _site_distributions(moments: Moments, site: str) -> list[np.ndarray]:
    """(q_i,) frequencies of each site, or those of exp(b x − c x²/2) with their ⟨x⟩ and ⟨x²⟩ where θ is quadratic."""
    space = moments.space
    out = [np.full(len(p), 1.0 / len(p)) if g else p for p, g in zip(moments.frequencies, space.given)]
    occur = np.minimum.reduceat(space.flat(out), space.value_ptr[:-1]) > 0
    small = np.ones(space.n_features, dtype=bool) if site == "free" else space.sizes <= 3
    for i in np.flatnonzero((space.power[space.column_ptr[:-1]] > 0) & ~(occur & small) & ~space.given):
        alphabet, p = space.alphabets[i], out[i]
        x = alphabet.nodes
        names = None if moments.feature_names is None else [moments.feature_names[i]]
        b, c = alphabet.site_parameters(np.array([p @ x]), np.array([p @ x**2]), names=names or [i])
        exponent = b * x - 0.5 * c * x**2
        q = np.exp(exponent - exponent.max())
        out[i] = q / q.sum()
    return out


def _continuous(
    moments: Moments, columns: Interactions, weights: np.ndarray, guess: np.ndarray, reaction: bool
) -> BoltzmannMachine:
    """On an interval or the real line: h = b − F + Λ m, d = c + Λ."""
    space, m, v = moments.space, moments.mean, moments.second
    V = np.diag(moments.covariance)
    bare = BoltzmannMachine.from_packed(np.zeros_like(m), columns, weights, 0.0, list(space.alphabets))
    F, found = _fields(bare, bare.A(m), m, V, guess, reaction)
    Lambda = np.asarray(found)
    b, c = quadratic_parameters(space, m, v, moments.feature_names)
    h, d = b - F + Lambda * m, c + Lambda
    return BoltzmannMachine.from_packed(h, columns, weights, d, list(space.alphabets))


def _field_errors(moments: Moments, P: np.ndarray, order: int) -> np.ndarray:
    """(n,) standard errors of h; zero for nominal variables."""
    space = moments.space
    independent = order < 2 and space.is_binary
    each = errors.field_errors(P, moments.mean, np.diag(moments.covariance), moments.n_samples, independent, order)
    first = space.column_ptr[:-1]
    if not moments.is_complete:
        alone = Interactions.from_blocks([np.arange(space.n_columns)[:, None]], space.n_columns)
        each = each * np.sqrt(errors.rows_for_one(moments, alone))
    return np.where((space.power[first] > 0) & ~space.given, each[first], 0.0)
