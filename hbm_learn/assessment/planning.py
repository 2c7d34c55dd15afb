"""Planning: how many rows a study needs for its tests to find the interactions of a model.

    power(M) = P(|√M w + ln(u/w)/(√M w) + σ ε| > c),   c = Φ⁻¹(1 − level/2),   ε normal

w, u and σ are what the conditional score tests of ``est.tests_`` see in one row of the model (``noncentrality``); a
block of d functions has χ²_{d−1} beside. Each term is tested given all pairs, and of the model's other terms those that
so many rows let be selected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special, stats

from hbm_learn._validation import choose
from hbm_learn.assessment.noncentrality import Noncentrality, Population, added, noncentrality
from hbm_learn.interactions import Interactions
from hbm_learn.inversion.parameters import SITES
from hbm_learn.model import BoltzmannMachine
from hbm_learn.names import given_names
from hbm_learn.terms import Terms, all_terms, closure

CORRECTIONS = (None, "bonferroni", "fdr")
# Lower orders are tested given what is selected of higher ones at this level, as in ``tests_``.
LEVEL = 0.05
# Rows among which a number is looked for: fewer are no study, more nobody has.
_TRACK = np.geomspace(10.0, 1e9, 400)
_GRID = tuple(np.geomspace(50, 50_000, 13).round(-1).astype(int).tolist())
_MAX_ITER = 200
# A normal variable, by so many of its quantiles: what a block adds has a kink, which no polynomial follows.
_NORMAL = special.ndtri((np.arange(400) + 0.5) / 400)


@dataclass(frozen=True, eq=False)
class Plan:
    """The power of the test of each interaction, against the number of rows.

    Attributes
    ----------
    terms : Terms
        The p interactions of the model.
    n_rows : (p,) array
        Rows needed for the power that was asked for; infinite where 10⁹ are not enough.
    grid : (g,) array
        Numbers of rows.
    powers : (p, g) array
        Power of each test with so many rows.
    weights, effects : (p,) arrays
        Of the model, as in a fit: in its coding, and with variables in units of their standard deviations.
    level, power : float
        As given.
    correction : str or None
        For many tests.
    n_tests : dict
        {order: how many tests share ``level``}.
    exact : bool
        From all states of the model, and not from samples of it.
    feature_names : list of str, or None
        Of the variables.
    at : callable
        Numbers of rows (g,) → powers (p, g).
    """

    terms: Terms
    n_rows: np.ndarray
    grid: np.ndarray
    powers: np.ndarray
    weights: np.ndarray
    effects: np.ndarray
    level: float
    power: float
    correction: str | None
    n_tests: dict[int, int]
    exact: bool
    feature_names: list[str] | None
    at: Callable[[np.ndarray], np.ndarray]

    @property
    def interactions(self) -> list[tuple[int, ...]]:
        """Tuples of variables, matching ``n_rows``."""
        return self.terms.tuples

    def power_at(self, M: Any) -> np.ndarray:
        """(p,) powers with M rows, or (p, g) with each of (g,) numbers."""
        rows = np.asarray(M, dtype=np.float64)
        if not (rows > 0).all():
            raise ValueError(f"M={M!r}: give a positive number of rows.")
        return self.at(np.atleast_1d(rows))[:, 0] if rows.ndim == 0 else self.at(rows)

    def rows_for(self, share: float = 1.0) -> float:
        """Rows with which this share of the interactions has the power that was asked for."""
        if not 0.0 < share <= 1.0:
            raise ValueError(f"share={share!r}: give a share of the interactions, above 0 and up to 1.")
        return float(np.sort(self.n_rows)[int(np.ceil(share * len(self.n_rows))) - 1])

    def to_frame(self) -> Any:
        """A pandas table with a row for each interaction, those that need fewest rows first."""
        import pandas as pd

        names = self.feature_names
        labels = [mu if names is None else tuple(names[i] for i in mu) for mu in self.interactions]
        table = {
            "interaction": labels,
            "order": self.terms.order,
            "weight": self.weights,
            "effect": self.effects,
            "n_rows": self.n_rows,
        }
        table |= {f"power_{M:g}": self.powers[:, g] for g, M in enumerate(self.grid)}
        return pd.DataFrame(table).sort_values("n_rows", kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        asked = f"power {self.power:g} at level {self.level:g}"
        return f"Plan({len(self.terms)} interactions, {self.rows_for():,.0f} rows for {asked} of all)"


def plan(
    model: Any,
    level: float = 0.05,
    power: float = 0.8,
    *,
    correction: str | None = None,
    grid: Sequence[float] = _GRID,
    n_tests: Mapping[int, int] | None = None,
    site: str = "free",
    feature_names: Sequence[str] | None = None,
    random_state: Any = None,
    n_jobs: int | None = None,
) -> Plan:
    """How many rows the tests of a fit would need to find each interaction of a model.

    From what the model itself says of one row: exactly while its states can be listed (up to 2**14), by 2**14 of its
    samples beyond. Rows are independent; where M rows are worth M/g (``fit(X, groups=…)``), g times as many are needed.

    Parameters
    ----------
    model : BoltzmannMachine or fitted HBM
        What is expected, on finite values. Effects of a pilot study that were selected for their size are too large.
    level : float, default=0.05
        Of one test (``est.tests_.p_values < level``); with a correction, of all tests of an order.
    power : float, default=0.8
        The probability with which an interaction is to be found.
    correction : {None, "bonferroni", "fdr"}, default=None
        None: each test by itself. "bonferroni": at level / (tests of its order). "fdr": as ``HBM(fdr=level)`` selects,
        at the level that Benjamini–Hochberg arrives at when as many pass as these powers say.
    grid : sequence of numbers
        Rows at which ``powers`` are given; by default 50 … 50,000.
    n_tests : {order: int}, default=None
        How many tests of each order a correction counts; by default all of the model's variables, as a fit considers.
    site : {"free", "quadratic"}, default="free"
        As in the fit.
    feature_names : sequence of str, default=None
        Of the variables; those of a fitted HBM by default.
    random_state : int, Generator, RandomState or None, default=None
        Of the samples, where there are some.
    n_jobs : int, default=None
        Threads.

    Returns
    -------
    Plan
        Rows for each interaction, and powers.

    Examples
    --------
    >>> from hbm_learn import BoltzmannMachine, assessment
    >>> expected = BoltzmannMachine([0.1, 0.0, -0.2], {(0, 1): 0.3, (0, 1, 2): 0.1})
    >>> assessment.plan(expected).to_frame()[["interaction", "n_rows"]].round(-1).values.tolist()
    [[(0, 1), 100.0], [(0, 1, 2), 900.0]]
    """
    names = given_names(model) if feature_names is None else [str(name) for name in feature_names]
    model = getattr(model, "model_", model)
    _check(model, level, power, correction, site, names)
    rows = np.asarray(grid, dtype=np.float64)
    if rows.ndim != 1 or not len(rows) or not (np.isfinite(rows) & (rows > 0)).all():
        raise ValueError(f"grid={grid!r}: give positive numbers of rows.")
    population, counts = Population(model, random_state), _counts(model.terms, n_tests)
    powers = Powers(population, site, n_jobs, level, correction, counts)
    return Plan(
        terms=model.terms,
        n_rows=powers.rows_for(power),
        grid=rows,
        powers=powers(rows),
        weights=model.weights,
        effects=_effects(model, population.frequencies),
        level=level,
        power=power,
        correction=correction,
        n_tests=counts,
        exact=population.exact,
        feature_names=names,
        at=powers,
    )


class Powers:
    """Powers of all tests of a model's terms with any numbers of rows.

    Every test is given all pairs, and the terms beyond pairs that were selected. Where those that share its variables
    are too weak to be selected, a term is tested without them, and shows what it has from them as its own. Tests beside
    all others and alone are mixed as the power to select those says.

    Parameters
    ----------
    population : Population
    site : str
    n_jobs : int or None
    level : float
    correction : str or None
    n_tests : {order: int}
    """

    def __init__(
        self,
        population: Population,
        site: str,
        n_jobs: int | None,
        level: float,
        correction: str | None,
        n_tests: Mapping[int, int],
    ):
        model = population.model
        terms, p = model.terms, len(model.terms)
        self.order, self.level, self.correction = terms.order, level, correction
        self.n_tests = np.array([n_tests[int(k)] for k in terms.order], dtype=float)
        self.beside = noncentrality(population, _held(model), np.arange(p), site, n_jobs)
        self.others = _others(terms)
        some = np.array([len(each) > 0 for each in self.others], dtype=bool)
        pairs, triplets = (np.flatnonzero(some & (terms.order == k)) for k in (2, 3))
        self.alone = [(pairs, noncentrality(population, _held(model, ()), pairs, site, n_jobs))] if len(pairs) else []
        if len(triplets):
            self.alone.append((triplets, added(population, _held(model, ()), triplets, site, n_jobs)))
        for r in np.flatnonzero(some & (terms.order > 3)):
            which = np.array([r])
            self.alone.append((which, noncentrality(population, _held(model, which), which, site, n_jobs)))

    def __call__(self, M: np.ndarray) -> np.ndarray:
        """(p, g) with (g,) numbers of rows."""
        held = self._held(M)
        return self._at(M, self._levels(M, self.correction, self.level, held), held)

    def rows_for(self, power: float) -> np.ndarray:
        """(p,) the first number of rows with a power; infinite where there is none."""
        reached = self(_TRACK)
        out = np.full(len(reached), np.inf)
        for r, mine in enumerate(reached):
            g = int(np.argmax(mine >= power))
            if mine[g] >= power:
                ends = slice(max(g - 1, 0), g + 1)
                deviate = special.ndtri(np.clip(mine[ends], 1e-12, 1.0 - 1e-12))
                out[r] = np.ceil(np.exp(np.interp(special.ndtri(power), deviate, np.log(_TRACK[ends]))) - 1e-6)
        return out

    def _held(self, M: np.ndarray) -> np.ndarray:
        """(p, g) how often the others of each term are in the model that it is tested in."""
        held = np.ones((len(self.order), len(M)))
        for _ in range(2 if self.alone else 0):
            chosen = self._at(M, self._levels(M, "fdr", LEVEL, held), held)
            held = np.array([chosen[each].mean(axis=0) if len(each) else np.ones(len(M)) for each in self.others])
        return held

    def _levels(self, M: np.ndarray, correction: str | None, level: float, held: np.ndarray) -> np.ndarray:
        """(p, g) the level of each test that a correction leaves."""
        a = np.full((len(self.order), len(M)), level)
        if correction is None:
            return a
        if correction == "bonferroni":
            return a / self.n_tests[:, None]
        # Benjamini–Hochberg: the largest a with a = level · (share of the tests of an order that pass at a).
        for _ in range(_MAX_ITER):
            passing, before = self._at(M, a, held), a.copy()
            for k in np.unique(self.order):
                mine, n = self.order == k, self.n_tests[self.order == k][0]
                share = (passing[mine].sum(axis=0) + (n - mine.sum()) * a[mine][0]) / n
                a[mine] = level * np.maximum(share, 1.0 / n)  # the smallest p has level / n at least
            if np.abs(np.log(a / before)).max() < 1e-6:
                break
        return a

    def _at(self, M: np.ndarray, level: np.ndarray, held: np.ndarray) -> np.ndarray:
        """(p, g) powers at levels of single tests."""
        out = power_of(self.beside, M, level)
        for which, alone in self.alone:
            out[which] = held[which] * out[which] + (1.0 - held[which]) * power_of(alone, M, level[which])
        return out


def power_of(found: Noncentrality, M: np.ndarray, level: np.ndarray) -> np.ndarray:
    """(p, g) powers of single tests with (g,) numbers of rows, at levels (p, g)."""
    mean, spread, df = found.deviates(M), found.spread[:, None], found.df
    c = special.ndtri(1.0 - 0.5 * level)
    out = special.ndtr((mean - c) / spread) + special.ndtr((-mean - c) / spread)
    for r in np.flatnonzero(df > 1):
        bar = stats.chi2.isf(level[r], df[r])[:, None]
        left = np.maximum(bar - (mean[r][:, None] + spread[r] * _NORMAL) ** 2, 0.0)
        out[r] = special.chdtrc(df[r] - 1, left).mean(axis=1)
    for mine, at, pattern in zip(out, c, found.patterns):
        if pattern is not None and (few := pattern.most_rows > M).any():
            mine[few] = pattern.power(M[few], at[few])
    out[df == 0] = 0.0  # nothing can be tested
    return out


def _others(terms: Terms) -> list[np.ndarray]:
    """For each term the others beyond pairs, in the model only if selected, that share most variables with it."""
    sets = [set(mu) for mu in terms.tuples]
    holding: dict[int, list[int]] = {}
    for r in np.flatnonzero(terms.order > 2).tolist():
        for i in sets[r]:
            holding.setdefault(i, []).append(r)
    out = []
    for r, mu in enumerate(sets):
        shared = Counter(s for i in mu for s in holding.get(i, ()) if s != r)
        most = max(shared.values(), default=0)
        out.append(np.array(sorted(s for s, count in shared.items() if count == most), dtype=np.intp))
    return out


def _held(model: BoltzmannMachine, which: Sequence[int] | np.ndarray | None = None) -> Interactions:
    """All pairs, and some of the model's terms (all by default) with their subsets: what a test is given."""
    chosen = np.ones(len(model.terms), dtype=bool)
    if which is not None:
        chosen[:] = False
        chosen[list(which)] = True
    pairs, own = all_terms(2, model.space), closure(model.terms.select(chosen), model.space)
    blocks = {2: pairs.block(2)} | {k: own.block(k) for k in own.orders if k > 2}
    return Interactions.from_blocks(blocks.values(), model.space.n_columns)


def _effects(model: BoltzmannMachine, frequencies: Sequence[np.ndarray]) -> np.ndarray:
    """(p,) couplings of the standard gauge of the model's own frequencies."""
    standard = model.in_space(model.space.standard(frequencies))
    at = standard.columns.positions(model.columns)
    return model.terms.norm(standard.column_weights[at])


def _counts(terms: Terms, given: Mapping[int, int] | None) -> dict[int, int]:
    """{order: tests of it}; by default all sets of so many variables, each power of a number one by itself."""
    space, orders = terms.space, np.unique(terms.order).tolist()
    if given is not None:
        bad = [k for k in orders if not given.get(k, 0) >= (terms.order == k).sum()]
        if bad:
            least = int((terms.order == bad[0]).sum())
            raise ValueError(f"n_tests={given!r}: give for order {bad[0]} at least its {least} interactions.")
        return {k: int(given[k]) for k in orders}
    choices = np.where([a.is_nominal for a in space.alphabets], 1, np.diff(space.column_ptr))
    sets = [1] + [0] * max(orders, default=0)
    for c in choices.tolist():
        for k in range(len(sets) - 1, 0, -1):
            sets[k] += c * sets[k - 1]
    return {k: sets[k] for k in orders}


def _check(model: Any, level: Any, power: Any, correction: Any, site: str, names: list[str] | None) -> None:
    """ValueError that says what is wrong."""
    if not isinstance(model, BoltzmannMachine):
        raise ValueError(f"model is a {type(model).__name__}: give a BoltzmannMachine, or a fitted HBM.")
    if not model.space.is_finite:
        raise ValueError(f"model has variables on {model.space}: the tests that are planned for take finite values.")
    if not len(model.terms):
        raise ValueError("model has no interactions, so that there is nothing to find: give those that are expected.")
    for name, value in (("level", level), ("power", power)):
        if not isinstance(value, (int, float)) or not 0.0 < value < 1.0:
            raise ValueError(f"{name}={value!r}: give a probability between 0 and 1.")
    if not level < power:
        raise ValueError(f"power={power!r}: a test at level={level!r} has that much by chance; ask for more.")
    if correction not in CORRECTIONS:
        raise ValueError(f"correction={correction!r} is not known; choose one of {', '.join(map(repr, CORRECTIONS))}.")
    choose("site", site, dict(zip(SITES, SITES)))
    if names is not None and len(names) != model.n_features:
        raise ValueError(f"feature_names has {len(names)} names for {model.n_features} variables: give one for each.")
