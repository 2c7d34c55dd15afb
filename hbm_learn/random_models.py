"""Random and planted models: what ``datasets`` offers under make_*."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import comb, factorial, prod
from numbers import Integral
from typing import Any

import numpy as np

from hbm_learn._validation import check_integer, check_number, generator
from hbm_learn.interactions import Interactions, check_count
from hbm_learn.model import BoltzmannMachine
from hbm_learn.space import Nominal, Space
from hbm_learn.terms import all_terms


def make_takahashi(
    sigma: float, j3: float = 0.001, n: int = 10, alphabet: Any = (-1, 1), random_state: Any = None
) -> BoltzmannMachine:
    """The paper's random instance (Eq. energy_higher-order_for_experiment).

    Fields h ~ N(0, 0.1²), pairs J_ij ~ N(0, variance σ²/√n), every triplet at ``j3``, d = 0.01.

    Parameters
    ----------
    sigma : float
        σ, the strength of the pairs.
    j3 : float
        Coupling of every triplet.
    n : int
        Number of variables.
    alphabet : values, Interval, "real", or one for each variable
        What the variables are.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn.
    """
    check_integer("n", n, 1)
    _check_sizes(sigma=sigma)
    check_number("j3", j3)
    rng = generator(random_state)
    interactions = Interactions.upto(3 if j3 else 2, n)
    weights = np.full(len(interactions), float(j3))
    pairs = interactions.slice(2)
    h = rng.normal(0.0, 0.1, n)
    weights[pairs] = rng.normal(0.0, sigma / n**0.25, comb(n, 2))
    return BoltzmannMachine.from_packed(h, interactions, weights, 0.01, alphabet)


def make_sk(
    n: int, beta: float = 1.0, h_std: float = 0.0, alphabet: Any = (-1, 1), random_state: Any = None
) -> BoltzmannMachine:
    """Sherrington–Kirkpatrick: J_ij ~ N(0, β²/n), h ~ N(0, h_std²). Its transition is at β = 1 on {-1, 1}.

    Parameters
    ----------
    n : int
        Number of variables.
    beta : float
        β, the strength of the couplings.
    h_std : float
        Standard deviation of the fields.
    alphabet : values, Interval, "real", or one for each variable
        What the variables are.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn.
    """
    check_integer("n", n, 1)
    _check_sizes(beta=beta)
    return make_random(n, {2: beta / np.sqrt(n)}, h_std, alphabet, random_state)


def make_pspin(
    n: int, p: int = 3, J: float = 1.0, h_std: float = 0.0, alphabet: Any = (-1, 1), random_state: Any = None
) -> BoltzmannMachine:
    """The p-spin model, scaled as in the paper: J_μ has variance J² p!/(2n^(p−1)) (Eq. gaussian_assumption_p_spin).

    Parameters
    ----------
    n : int
        Number of variables.
    p : int
        Variables in each interaction.
    J : float
        Strength of the couplings.
    h_std : float
        Standard deviation of the fields.
    alphabet : values, Interval, "real", or one for each variable
        What the variables are.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn.
    """
    check_integer("n", n, 1)
    check_integer("p", p, 2)
    _check_sizes(J=J)
    return make_random(n, {p: J * np.sqrt(factorial(p) / (2.0 * n ** (p - 1)))}, h_std, alphabet, random_state)


def make_random(
    n: int,
    stds: Mapping[int, float],
    h_std: float = 0.1,
    alphabet: Any = (-1, 1),
    random_state: Any = None,
    d: float = 0.0,
) -> BoltzmannMachine:
    """All interactions of the given orders, with Gaussian couplings and fields.

    Parameters
    ----------
    n : int
        Number of variables.
    stds : dict
        {order: standard deviation of its couplings}.
    h_std : float
        Standard deviation of the fields.
    alphabet : values, Interval, "real", or one for each variable
        What the variables are.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn.
    d : float
        Anisotropy of every variable.
    """
    check_integer("n", n, 1)
    _check_orders("stds", stds, n)
    _check_sizes(h_std=h_std, **{f"stds[{k}]": std for k, std in stds.items()})
    check_number("d", d)
    rng = generator(random_state)
    check_count({k: comb(n, k) for k in stds}, n)
    everything = Interactions.upto(max(stds), n)
    interactions = Interactions.from_blocks([everything.block(k) for k in sorted(stds)], n)
    h = rng.normal(0.0, h_std, n) if h_std else np.zeros(n)
    weights = np.concatenate([rng.normal(0.0, stds[k], comb(n, k)) for k in sorted(stds)])
    return BoltzmannMachine.from_packed(h, interactions, weights, d, alphabet)


def make_planted(
    n: int,
    counts: Mapping[int, int],
    strength: tuple[float, float] = (0.1, 0.3),
    h_std: float = 0.1,
    beta: float = 0.0,
    alphabet: Any = (-1, 1),
    random_state: Any = None,
    d: float = 0.0,
) -> BoltzmannMachine:
    """A sparse random hypergraph, with couplings of random sign.

    Parameters
    ----------
    n : int
        Number of variables.
    counts : dict
        {order: number of interactions}.
    strength : (float, float)
        Range of the size of the couplings, which is uniform.
    h_std : float
        Standard deviation of the fields.
    beta : float
        If positive, every pair also has an SK coupling of standard deviation β/√n as a background.
    alphabet : values, Interval, "real", or one for each variable
        What the variables are.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn.
    d : float
        Anisotropy of every variable.
    """
    check_integer("n", n, 1)
    _check_planted(n, counts, strength)
    _check_sizes(h_std=h_std, beta=beta)
    check_number("d", d)
    rng = generator(random_state)
    h = rng.normal(0.0, h_std, n) if h_std else np.zeros(n)
    couplings: dict[tuple[int, ...], float] = {}
    if beta:
        pairs = Interactions.upto(2, n)
        couplings.update(zip(pairs.tuples, rng.normal(0.0, beta / np.sqrt(n), len(pairs)).tolist()))
    for k, count in sorted(counts.items()):
        for mu in _random_sets(n, k, count, rng):
            couplings[mu] = couplings.get(mu, 0.0) + float(rng.choice([-1, 1]) * rng.uniform(*strength))
    return BoltzmannMachine(h, couplings, d, alphabet)


def _check_sizes(**given: Any) -> None:
    """Refuse what is no standard deviation or strength: a finite number ≥ 0."""
    for name, value in given.items():
        check_number(name, value, 0.0)


def _check_order(name: str, k: Any) -> None:
    """Refuse a key that is no order of interactions."""
    if not isinstance(k, Integral) or isinstance(k, bool) or k < 2:
        raise ValueError(f"{name} has an entry for {k!r}: its keys are orders, give integers of at least 2.")


def _check_orders(name: str, given: Any, n: int) -> None:
    """Refuse what is no dict whose keys are orders that n variables have."""
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{name}={given!r}: give a dict with an entry for each order, such as {{2: 0.1}}.")
    for k in given:
        _check_order(name, k)
        if k > n:
            raise ValueError(f"{name} has the order {k}, but there are {n} variables: raise n, or leave it out.")


def _check_planted(n: int, counts: Any, strength: Any) -> None:
    """Refuse counts that are no numbers of interactions, and what is no range of strengths."""
    if not isinstance(counts, Mapping):
        raise ValueError(f"counts={counts!r}: give a dict {{order: number of interactions}}, such as {{2: 10}}.")
    for k, count in counts.items():
        _check_order("counts", k)
        check_integer(f"counts[{k}]", count, 0)
    if not isinstance(strength, Sequence) or isinstance(strength, str) or len(strength) != 2:
        raise ValueError(f"strength={strength!r}: give the least and the largest strength, such as (0.1, 0.3).")
    check_number("strength[1]", strength[1], check_number("strength[0]", strength[0]))


def _random_sets(n: int, k: int, count: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
    """``count`` different sets of k variables, sorted."""
    if not 2 <= k <= n or count > comb(n, k):
        raise ValueError(
            f"counts={{{k}: {count}}}: {n} variables have {comb(n, k)} interactions of order {k}: ask for no more."
        )
    chosen: set[tuple[int, ...]] = set()
    while len(chosen) < count:
        chosen.add(tuple(sorted(rng.choice(n, k, replace=False).tolist())))
    return sorted(chosen)


def make_mixed(
    alphabets: Sequence[Any],
    counts: Mapping[int, int],
    strength: tuple[float, float] = (0.1, 0.3),
    random_state: Any = None,
    powers: int = 1,
    h_std: float = 0.3,
) -> BoltzmannMachine:
    """A sparse random hypergraph of variables that differ in kind, with effects of comparable size.

    An interaction is planted as J Π u_i with u_i = (x_i − centre)/spread of its values, or an orthogonal polynomial of
    them up to ``powers``; for nominal members as a random zero-sum table. Written in x itself, an interaction of three
    or more variables whose values are off centre brings interactions of fewer of them along.

    Parameters
    ----------
    alphabets : sequence
        One finite alphabet for each variable: values, or Nominal.
    counts : dict
        {order: number of interactions}.
    strength : (float, float)
        Range of the root mean square of J Π u over all states.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn.
    powers : int
        Each numeric member takes a random power up to this, and at most its number of values less one.
    h_std : float
        Standard deviation of the own weights of each variable.
    """
    if not isinstance(alphabets, Sequence) or isinstance(alphabets, str) or not alphabets:
        raise ValueError(f"alphabets={alphabets!r}: give a list with the values of each variable.")
    _check_planted(len(alphabets), counts, strength)
    _check_sizes(h_std=h_std)
    check_integer("powers", powers, 1)
    rng = generator(random_state)
    n = len(alphabets)
    space = Space.of(list(alphabets), n, powers)
    if not space.is_finite:
        raise ValueError(f"alphabets={alphabets!r}: give each variable values that can be listed, or Nominal labels.")
    gauge = space.standard([np.full(q, 1.0 / q) for q in space.sizes])
    own = [
        h_std * rng.normal(size=q) if a.is_nominal else h_std * rng.normal() * phi[:, 0] for a, q, phi in _sites(gauge)
    ]
    planted: dict[tuple[int, ...], float] = {}
    for k, count in sorted(counts.items()):
        for mu in _random_sets(n, k, count, rng):
            choices = [range(gauge.column_ptr[i], gauge.column_ptr[i + 1]) for i in mu]
            columns = list(product(*(c if gauge.power[c[0]] == 0 else [int(rng.choice(c))] for c in choices)))
            J = rng.normal(size=len(columns))
            planted.update(zip(columns, (rng.uniform(*strength) * J / np.linalg.norm(J)).tolist()))
    sets = Interactions.from_tuples(planted, space.n_columns)
    model = BoltzmannMachine.from_columns(gauge, own, sets, [planted[mu] for mu in sets.tuples])
    return _without_zeros(model.in_space(space))


def _sites(space: Space) -> Iterator[tuple[Any, int, np.ndarray]]:
    return zip(space.alphabets, space.sizes.tolist(), space.functions)  # type: ignore[arg-type]


def _without_zeros(model: BoltzmannMachine) -> BoltzmannMachine:
    """The model without interactions whose coupling vanishes: those that a change of gauge had room for."""
    size = np.sqrt(model.terms.sum(model.column_weights**2))
    kept = model.terms.select(size > 1e-12 * size.max(initial=0.0))
    weights = model.column_weights[model.columns.positions(kept)]
    return BoltzmannMachine.from_columns(model.space, model.own, kept, weights)


def make_potts(n: int, q: int, beta: float = 1.0, random_state: Any = None) -> BoltzmannMachine:
    """Potts glass: every pair of variables has a random zero-sum (q, q) table of root mean square β/√n.

    Parameters
    ----------
    n : int
        Number of variables.
    q : int
        Labels of each.
    beta : float
        β, the strength of the couplings.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn.
    """
    check_integer("n", n, 1)
    check_integer("q", q, 2)
    _check_sizes(beta=beta)
    rng = generator(random_state)
    space = Space.of(Nominal(*range(q)), n)
    columns = all_terms(2, space)
    weights = rng.normal(0.0, beta / np.sqrt(n) / (q - 1), len(columns))
    return BoltzmannMachine.from_columns(space, [np.zeros(q)] * n, columns, weights)


def make_lattice(
    shape: tuple[int, ...],
    J: float = 1.0,
    negative: float = 0.5,
    h_std: float = 0.0,
    periodic: bool = True,
    alphabet: Any = (-1, 1),
    random_state: Any = None,
) -> BoltzmannMachine:
    """The ±J model on a hypercubic lattice: nearest neighbours at J or −J.

    Parameters
    ----------
    shape : tuple of int
        Length of each side.
    J : float
        Size of the couplings.
    negative : float
        Probability of the minus sign.
    h_std : float
        Standard deviation of the fields.
    periodic : bool
        Whether opposite sides meet.
    alphabet : values, Interval, "real", or one for each variable
        What the variables are.
    random_state : int, Generator, RandomState or None
        Seed of what is drawn.
    """
    if not isinstance(shape, Sequence) or isinstance(shape, str) or not shape:
        raise ValueError(f"shape={shape!r}: give the length of each side, such as (4, 4).")
    for axis, length in enumerate(shape):
        check_integer(f"shape[{axis}]", length, 1)
    check_count({2: len(shape) * prod(shape)}, prod(shape))
    check_number("J", J)
    check_number("negative", negative, 0.0, 1.0, what="the probability of a minus sign, between 0 and 1")
    _check_sizes(h_std=h_std)
    rng = generator(random_state)
    index = np.arange(int(np.prod(shape))).reshape(shape)
    edges: set[tuple[int, int]] = set()
    for site in product(*map(range, shape)):
        for axis, length in enumerate(shape):
            neighbour = list(site)
            neighbour[axis] += 1
            if neighbour[axis] == length:
                if not periodic or length <= 2:
                    continue
                neighbour[axis] = 0
            a, b = int(index[site]), int(index[tuple(neighbour)])
            edges.add((min(a, b), max(a, b)))
    ordered = sorted(edges)
    signs = np.where(rng.random(len(ordered)) < negative, -1.0, 1.0)
    h = rng.normal(0.0, h_std, index.size) if h_std else np.zeros(index.size)
    return BoltzmannMachine(h, dict(zip(ordered, (J * signs).tolist())), alphabet=alphabet)


def make_curie_weiss(
    n: int, strengths: Mapping[int, float], h: float = 0.0, alphabet: Any = (-1, 1), d: float = 0.0
) -> BoltzmannMachine:
    """Tensor Curie–Weiss: J_μ = strengths[k] · k!/n^(k−1) for every μ of order k.

    In the magnetisation M per site, −H/n → h M + Σ_k strengths[k] M^k.

    Parameters
    ----------
    n : int
        Number of variables.
    strengths : dict
        {order: strength}.
    h : float
        Field of every variable.
    alphabet : values, Interval, "real", or one for each variable
        What the variables are.
    d : float
        Anisotropy of every variable.
    """
    check_integer("n", n, 1)
    _check_orders("strengths", strengths, n)
    for k, strength in strengths.items():
        check_number(f"strengths[{k}]", strength)
    check_number("h", h)
    check_number("d", d)
    check_count({k: comb(n, k) for k in strengths}, n)
    everything = Interactions.upto(max(strengths), n)
    interactions = Interactions.from_blocks([everything.block(k) for k in sorted(strengths)], n)
    weights = np.concatenate(
        [np.full(comb(n, k), strengths[k] * factorial(k) / n ** (k - 1)) for k in sorted(strengths)]
    )
    return BoltzmannMachine.from_packed(np.full(n, float(h)), interactions, weights, d, alphabet)
