"""What a model says of one variable given others: scores, conditional probabilities, and missing entries.

    P(x_i | rest) ∝ exp(θ_i(x_i) + Σ_c F_c(x) φ_c(x_i)),   c over the columns of i

Everything takes codes, in which 255 is a missing entry; a continuous variable has values in place of codes, and NaN.
What is missing is summed over exactly while it has at most MAX_COMPLETIONS states in a row. Beyond that, the row's
observed entries are put into the couplings, and the diagonal-consistent equations are solved for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import softmax

from hbm_learn import gaussian
from hbm_learn.completions import completed, hidden_marginals, missing_entries, n_completions, patterns, row_blocks
from hbm_learn.inference import infer
from hbm_learn.inference.result import InferenceResult
from hbm_learn.model import BoltzmannMachine
from hbm_learn.model.conditioning import condition

MAX_COMPLETIONS = 4096


def log_conditionals(model: BoltzmannMachine, codes: np.ndarray) -> np.ndarray:
    """ln P(x_i | rest) of each entry, shape (rows, n): log densities where a variable is continuous, 0 where given."""
    out = np.empty(codes.shape)
    groups = list(_finite_groups(model))
    for rows in row_blocks(model, len(codes)):
        block = codes[rows]
        fields = model.column_fields(block)
        for sites, own, functions, columns in groups:
            exponent = _exponents(fields, own, functions, columns)
            chosen = np.take_along_axis(exponent, block[None, :, sites].astype(np.intp), axis=0)[0]
            out[rows, sites] = chosen - _log_sum(exponent)
        out[rows][:, model.space.given] = 0.0
        for i in np.flatnonzero(model.space.sizes == 0):
            b, x = model.h[i] + fields[:, model.space.column_ptr[i]], block[:, i]
            log_z = model.space.alphabets[i].site_moments(b, np.full_like(b, model.d[i])).log_z
            out[rows, i] = b * x - 0.5 * model.d[i] * x**2 - log_z
    return out


def conditional_probabilities(model: BoltzmannMachine, codes: np.ndarray) -> list[np.ndarray]:
    """P(x_i = value | the row's other observed entries): n arrays of shape (rows, q_i), for finite variables."""
    _require_finite(model)
    out = [np.empty((len(codes), q)) for q in model.space.sizes]
    missing = missing_entries(model.space, codes)
    complete = np.flatnonzero(~missing.any(axis=1))
    groups = list(_finite_groups(model))
    for part in row_blocks(model, len(complete)):
        rows = complete[part]
        fields = model.column_fields(codes[rows])
        for sites, *group in groups:
            p = softmax(_exponents(fields, *group), axis=0)
            for j, i in enumerate(sites):
                out[i][rows] = p[:, :, j].T
    for hidden, rows in patterns(missing):
        if n_completions(model, hidden) <= MAX_COMPLETIONS:
            found = _summed(model, codes[rows], hidden)
        else:
            found = [np.stack(each) for each in zip(*(_approximate(model, codes[row], hidden) for row in rows))]
        for table, p in zip(out, found):
            table[rows] = p
    return out


def fill_missing(model: BoltzmannMachine, codes: np.ndarray) -> np.ndarray:
    """codes with each missing entry replaced by its most probable value given the row's observed entries.

    On the real line, where most probable value and mean are the same, the conditional mean.
    """
    codes = codes.copy()
    for hidden, rows in patterns(missing_entries(model.space, codes)):
        if model.space.is_real:
            codes[np.ix_(rows, hidden)] = gaussian.conditional_means(model, codes[rows], hidden)
        elif n_completions(model, hidden) <= MAX_COMPLETIONS:
            best = [p.argmax(axis=1) for p in hidden_marginals(model, codes[rows], hidden)]
            codes[np.ix_(rows, hidden)] = np.stack(best, axis=1)
        else:
            for row in rows:
                part = condition(model, codes[row], hidden)
                codes[row, hidden] = _modes(part, infer(part, "dc"))
    return codes


# ---------------------------------------------------------------------- the values of one variable


def _finite_groups(model: BoltzmannMachine) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Sites with as many values and functions as each other: (sites, θ (q, s), φ (r, q, s), columns (r, s))."""
    space = model.space
    shapes: dict[tuple[int, int], list[int]] = {}
    for i, table in enumerate(space.functions):
        if table is not None and not space.given[i]:
            shapes.setdefault(table.shape, []).append(i)
    for (_, r), sites in shapes.items():
        own = np.stack([model.own[i] for i in sites], axis=1)
        functions = np.stack([space.functions[i].T for i in sites], axis=2)  # type: ignore[union-attr]
        yield np.array(sites), own, functions, space.column_ptr[sites] + np.arange(r)[:, None]


def _exponents(fields: np.ndarray, own: np.ndarray, functions: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """θ_i(x) + Σ_c F_c φ_c(x) of a group of sites, (q, rows, s): sums over values run along the first axis, fast."""
    out = np.empty((len(own), len(fields), own.shape[1]))
    out[:] = own[:, None]
    for phi, mine in zip(functions, columns):
        out += fields[:, mine] * phi[:, None]
    return out


def _log_sum(exponent: np.ndarray) -> np.ndarray:
    """ln Σ exp over the first axis."""
    top = exponent.max(axis=0)
    return top + np.log(np.exp(exponent - top).sum(axis=0))


# ---------------------------------------------------------------------- what is missing


def _summed(model: BoltzmannMachine, codes: np.ndarray, hidden: np.ndarray) -> list[np.ndarray]:
    """P(x_i | the other observed entries), n arrays (rows, q_i), summed over the completions y of each row:

        P(x_i = v) ∝ Σ_y exp(−H(y) + E_i(v) − E_i(y_i)),   E_i(v) = θ_i(v) + Σ_c F_c(y) φ_c(v)

    which holds for hidden i as well: every state is then counted q_i times.
    """
    out = [np.empty((len(codes), q)) for q in model.space.sizes]
    groups = list(_finite_groups(model))
    for rows, block in completed(model, codes, hidden):
        fields, energy = model.column_fields(block), model.energy_of_codes(block)
        for sites, *group in groups:
            exponent = _exponents(fields, *group)
            exponent -= np.take_along_axis(exponent, block[None, :, sites].astype(np.intp), axis=0)
            exponent -= energy[:, None]
            q, _, s = exponent.shape
            p = _softmax_of_sums(exponent.reshape(q, rows.stop - rows.start, -1, s))
            for j, i in enumerate(sites):
                out[i][rows] = p[:, :, j].T
    return out


def _softmax_of_sums(exponent: np.ndarray) -> np.ndarray:
    """(q, rows, s) Σ exp over the third axis of (q, rows, completions, s), of sum 1 over the first."""
    p = np.exp(exponent - exponent.max(axis=(0, 2), keepdims=True)).sum(axis=2)
    return p / p.sum(axis=0)


# ---------------------------------------------------------------------- too much missing to sum over


def _approximate(model: BoltzmannMachine, codes: np.ndarray, hidden: np.ndarray) -> list[np.ndarray]:
    """n arrays (q_i,): hidden variables by their diagonal-consistent sites, an observed one by

        P(x_i = v) ∝ exp(θ_i(v) + F·φ(v) + ½ δᵀ A χ Aᵀ δ),   δ = φ(v) − φ(x_i),   A = ∂F/∂φ_hidden

    The hidden variables know x_i, so that their means alone would count it twice: the last term, from the spread of F
    under their covariance χ, takes that back (to second order in A).
    """
    space = model.space
    result = infer(condition(model, codes, hidden), "dc")
    assert result.probabilities is not None
    row = codes[None].copy()
    row[:, hidden] = 0
    phi, inside = space.columns(row)[0], np.isin(space.site, hidden)
    phi[inside] = result.means
    fields, A = model.F(phi), model.A(phi)[:, inside]
    spread = A @ result.covariances @ A.T
    out: list[np.ndarray] = []
    for i, functions in enumerate(space.functions):
        mine = slice(space.column_ptr[i], space.column_ptr[i + 1])
        delta = functions - phi[mine]
        exponent = model.own[i] + functions @ fields[mine]
        out.append(softmax(exponent + 0.5 * ((delta @ spread[mine, mine]) * delta).sum(axis=1)))
    for i, p in zip(hidden, result.probabilities):
        out[i] = np.asarray(p)
    return out


def _modes(part: BoltzmannMachine, result: InferenceResult) -> np.ndarray:
    """The most probable code of each variable, or value of a continuous one, under its diagonal-consistent site."""
    assert result.probabilities is not None
    assert result.means is not None
    assert result.Lambda is not None
    fields = part.F(result.means)
    out = np.empty(part.n_features)
    for i, (alphabet, p) in enumerate(zip(part.space.alphabets, result.probabilities)):
        if p is not None:
            out[i] = p.argmax()
            continue
        c, Lambda = part.space.column_ptr[i], float(np.ravel(result.Lambda[i])[0])
        b, curvature = part.h[i] + fields[c] - Lambda * result.means[c], part.d[i] - Lambda
        low, high = alphabet.bounds
        candidates = np.array([low, np.clip(b / curvature, low, high) if curvature > 0 else low, high])
        out[i] = candidates[np.argmax(b * candidates - 0.5 * curvature * candidates**2)]
    return out


def _require_finite(model: BoltzmannMachine) -> None:
    if not model.space.is_finite:
        i = int(np.flatnonzero(model.space.sizes == 0)[0])
        raise ValueError(f"variable {i}: {model.space.alphabets[i]} has no list of values to give probabilities of.")
