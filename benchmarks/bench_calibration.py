"""Calibration: are the tests at their level, do intervals cover, does a higher order cost anything?

    python benchmarks/bench_calibration.py [--cells 'null-*' cover-sparse …] [--sets 20] [--quick] [--old DIR] [--write]

Four tables, in Markdown: false findings where there is nothing to find; false proportion and power where something was
planted; coverage and width of 95 % intervals and KL(true ‖ fit); order 3 against 2 and 1 on held-out rows. ``--old`` is
a checkout of version 0.1, run on the same data in a process of its own. ``--write`` keeps the figures of the cells that
were run in docs/results/calibration.json, and writes docs/calibration.md from all that are there. Cells and seeds are
in ``calibration_cells.py``.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from calibration_cells import BASE, COVERAGE, NULLS, ORDERS, PLANTED, WHOLE, generator, large
from scipy import stats
from sklearn.model_selection import KFold

from hbm_learn import HBM, BoltzmannMachine, conditionals, infer, sample
from hbm_learn.assessment import nested
from hbm_learn.data.samples import Samples
from hbm_learn.states import StateTable
from hbm_learn.terms import Terms, all_terms, columns_of

DOCS = Path(__file__).parents[1] / "docs"
LEVEL = 0.05
STRONG = 3.0  # errors
MAX_STATES = 2**20

Row = dict[str, Any]

# ---------------------------------------------------------------------- version 0.1, on the same tables

OLD = """
import json, sys, warnings
import numpy as np
from hbm_learn import HBM
warnings.simplefilter("ignore")
out = []
for path, options in json.load(sys.stdin):
    est = HBM(**options).fit(np.load(path))
    found = [mu for mu, q in zip(est.interactions_, est.to_frame()["q_value"]) if q <= 0.05]
    out.append({"h": est.h_.tolist(), "d": est.d_.tolist(), "interactions": est.interactions_, "found": found,
                "weights": est.weights_.tolist(), "intervals": est.confidence_intervals(0.95).tolist()})
json.dump(out, sys.stdout)
"""


def old_fits(old: Path | None, tasks: list[tuple[np.ndarray, dict]]) -> list[Row] | None:
    """What version 0.1 makes of tables with options; None without a checkout of it."""
    if old is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for r, (X, options) in enumerate(tasks):
            np.save(Path(folder) / f"{r}.npy", X.astype(float))
            paths.append((f"{folder}/{r}.npy", options))
        # "-c" looks for packages where it is started.
        done = subprocess.run(
            [sys.executable, "-c", OLD], input=json.dumps(paths), cwd=old, capture_output=True, text=True, check=True
        )
    return json.loads(done.stdout)


# ---------------------------------------------------------------------- 1: nothing to find


def null_tests(X: np.ndarray, order: int) -> Any:
    """The tests that ``HBM(order=order).fit(X).tests_`` has, without the fit."""
    samples = Samples.check(X)
    return nested.select(samples, Terms(samples.space, all_terms(order, samples.space)), LEVEL)[1]


def measure_null(name: str, n_sets: int, old: Path | None = None, first: int = 0) -> Row:
    """Pairs tested at order 2, triplets at order 3; sets are counted from ``first``."""
    counts: dict[int, list] = {2: [], 3: []}
    for number in range(n_sets):
        X = NULLS[name].draw(generator(name, first + number))
        for k in (2, 3):
            tests = null_tests(X, k)
            mine = tests.terms.order == k
            z = np.abs(tests.z[mine])
            tails = [np.mean(z > t) / (2 * stats.norm.sf(t)) for t in (3, 4)]
            counts[k].append([(tests.q_values[mine] < LEVEL).sum(), *tails, z.max()])
    row: Row = {}
    for k, found in counts.items():
        a = np.array(found, dtype=float)
        error = a[:, 1:3].std(axis=0, ddof=1) / np.sqrt(n_sets)
        row[str(k)] = {
            "any": float((a[:, 0] > 0).mean()), "found": float(a[:, 0].mean()), "largest": float(a[:, 3].max()),
            "tails": a[:, 1:3].mean(axis=0).tolist(), "errors": error.tolist(),
        }  # fmt: skip
    return row


# ---------------------------------------------------------------------- 2: planted


def effects_of(truth: BoltzmannMachine, est: HBM) -> dict[tuple[int, ...], float]:
    """The true model's couplings in the standard gauge of the data: what effects are estimates of."""
    standard = truth.in_space(est.moments_.standard.space)
    return {mu: float(J) for mu, J in zip(standard.interactions, standard.weights) if abs(J) > 1e-12}


def found_by(est: HBM) -> set[tuple[int, ...]]:
    return {mu for mu, q in zip(est.interactions_, est.tests_.q_values) if q <= LEVEL}


def of_order(terms: Any, k: int) -> set[tuple[int, ...]]:
    return {tuple(mu) for mu in terms if len(mu) == k}


def pairs_given(X: np.ndarray, truth: BoltzmannMachine) -> set[tuple[int, ...]]:
    """Pairs that the tests find where they are told which couplings of higher order there are."""
    samples = Samples.check(X)
    higher = [mu for mu in truth.interactions if len(mu) > 2]
    considered = Terms(samples.space, columns_of([*combinations(range(X.shape[1]), 2), *higher], samples.space, None))
    tests = nested.select(samples, considered, 1.0 - 1e-9)[1]  # all of them are held in the model
    return of_order([mu for mu, q in zip(considered.tuples, tests.q_values) if q <= LEVEL], 2)


def share(part: set, whole: set, empty: float = np.nan) -> float:
    return len(part) / len(whole) if whole else empty


def measure_planted(name: str, n_sets: int, old: Path | None = None, first: int = 0) -> Row:
    cell = PLANTED[name]
    draws = [cell.draw(generator(name, first + number)) for number in range(n_sets)]
    tasks = [(X, {"order": k, "fdr": LEVEL}) for _, X in draws for k in (2, 3, 4)[: cell.order - 1]]
    before = old_fits(old, tasks)
    rows: list[Row] = []
    for number, (truth, X) in enumerate(draws):
        two, full = HBM(order=2, fdr=LEVEL).fit(X), HBM(order=cell.order, fdr=LEVEL).fit(X)
        real, found = set(effects_of(truth, full)), found_by(full)
        planted = set(truth.interactions)
        pairs = of_order(found_by(two) & planted, 2)
        known = pairs_given(X, truth)
        row: Row = {"kept": share(pairs & found, pairs), "alone": share(pairs, of_order(planted, 2))}
        row["known"] = share(pairs & known, pairs)
        for k in range(2, cell.order + 1):
            row[f"false {k}"] = share(of_order(found - real, k), of_order(found, k), 0.0)
            row[f"power {k}"] = share(of_order(found & planted, k), of_order(planted, k))
            if before is not None:
                was = of_order(before[number * (cell.order - 1) + k - 2]["found"], k)
                row[f"old false {k}"] = share(was - real, was, 0.0)
                row[f"old power {k}"] = share(was & planted, of_order(planted, k))
        rows.append(row)
    return {key: mean_and_error([row[key] for row in rows]) for key in rows[0]}


def mean_and_error(values: Any) -> list[float]:
    x = np.asarray([v for v in values if np.isfinite(v)], dtype=float)
    if not len(x):
        return [np.nan, np.nan]
    return [float(x.mean()), float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else np.nan]


# ---------------------------------------------------------------------- 3: intervals, and distance from the truth


def divergence(truth: BoltzmannMachine, fit: BoltzmannMachine) -> float:
    """KL(true ‖ fit), by enumeration; both over the same values."""
    p, q = StateTable(truth).p.ravel(), StateTable(fit).p.ravel()
    return float(np.sum(p * (np.log(p) - np.log(q))))


class Covered:
    """Hits of intervals by order and by what is true: zero, strong (more than 3 errors), weak (another non-zero)."""

    def __init__(self) -> None:
        self.hits: dict[str, list[bool]] = {}

    def add(self, tuples: list, intervals: np.ndarray, true: dict, error: Callable[[tuple], float]) -> None:
        for mu, (low, high) in zip(tuples, intervals):
            J = true.get(mu, 0.0)
            kind = "zero" if J == 0.0 else "strong" if abs(J) > STRONG * error(mu) else "weak"
            self.hits.setdefault(f"{len(mu)} {kind}", []).append(bool(low <= J <= high))

    def shares(self) -> dict[str, list[float]]:
        """{order and kind: share, number}."""
        return {key: [float(np.mean(x)), len(x)] for key, x in sorted(self.hits.items())}


def score(model: BoltzmannMachine, X: np.ndarray) -> float:
    """Mean Σ_i ln P(x_i | rest)."""
    return float(conditionals.log_conditionals(model, model.space.encode(X)).sum(axis=1).mean())


def oracle_of(truth: BoltzmannMachine, X: np.ndarray) -> HBM:
    """The fit that knows which couplings there are, without a prior."""
    return HBM(interactions=truth.interactions, alpha=0.0).fit(X)


def measure_coverage(name: str, n_sets: int, old: Path | None = None, first: int = 0) -> Row:
    cell = COVERAGE[name]
    draws = [cell.draw(generator(name, first + number)) for number in range(n_sets)]
    n_states = float(np.prod([len(a.values) for a in draws[0][0].space.alphabets], dtype=float))
    before = None
    if n_states <= MAX_STATES:
        before = old_fits(old, [(X, {"order": cell.order}) for _, X in draws])
    distance = divergence if n_states <= MAX_STATES else (lambda truth, fit: held_out_loss(truth, fit, name))
    weights, effects, known, was = Covered(), Covered(), Covered(), Covered()
    rows: list[Row] = []
    for number, (truth, X) in enumerate(draws):
        est, oracle = HBM(order=cell.order).fit(X), oracle_of(truth, X)
        true = dict(zip(truth.interactions, truth.weights.tolist()))
        error = dict(zip(oracle.interactions_, oracle.standard_errors_))
        limits = est.confidence_intervals()
        weights.add(est.interactions_, limits, true, lambda mu, error=error: error[mu])
        known.add(oracle.interactions_, oracle.confidence_intervals(), true, lambda mu, error=error: error[mu])
        effects.add(est.interactions_, est.effect_intervals(), effects_of(truth, est), lambda mu: cell.n_samples**-0.5)
        row = {
            "distance": distance(truth, est.model_),
            "oracle": distance(truth, oracle.model_),
            "width": relative_width(est.interactions_, limits, oracle, true, error),
            "widths": widths_by_kind(est.interactions_, limits, true, error),
            "residual": est.result_.effect_marginals.sites.residual,
        }
        if cell.order == 3 and cell.make is not large:
            free, two = HBM().fit(X), HBM(order=2).fit(X)
            row |= {
                "higher": free.order_ == 3,
                "auto": distance(truth, free.model_),
                "two": distance(truth, two.model_),
            }
        if before is not None:
            past = before[number]
            tuples = [tuple(mu) for mu in past["interactions"]]
            fit = BoltzmannMachine(past["h"], dict(zip(tuples, past["weights"])), past["d"], alphabet=truth.alphabet)
            row["old"] = divergence(truth, fit)
            was.add(tuples, np.array(past["intervals"]), true, lambda mu, error=error: error[mu])
        rows.append(row)
    widths = [row.pop("widths") for row in rows]
    out: Row = {key: mean_and_error([row[key] for row in rows]) for key in rows[0]}
    out["residual"] = [max(row["residual"] for row in rows)]
    keys = sorted({key for each in widths for key in each})
    out["widths"] = {key: float(np.median([w for each in widths for w in each.get(key, [])])) for key in keys}
    return out | {
        "weights": weights.shares(),
        "effects": effects.shares(),
        "oracle weights": known.shares(),
        "old weights": was.shares(),
    }


def held_out_loss(truth: BoltzmannMachine, fit: BoltzmannMachine, name: str) -> float:
    """The truth's score less the fit's, on 20,000 rows of their own."""
    X = sample(truth, 20_000, random_state=generator(name + " held out", 0))
    return score(truth, X) - score(fit, X)


def relative_width(tuples: list, limits: np.ndarray, oracle: HBM, true: dict, error: dict) -> float:
    """Median of the width over the oracle's, of the strong couplings."""
    mine = dict(zip(tuples, limits[:, 1] - limits[:, 0]))
    limits = oracle.confidence_intervals()
    ratio = [
        mine[mu] / width
        for mu, width in zip(oracle.interactions_, limits[:, 1] - limits[:, 0])
        if abs(true[mu]) > STRONG * error[mu]
    ]
    return float(np.median(ratio)) if ratio else np.nan


def widths_by_kind(tuples: list, limits: np.ndarray, true: dict, error: dict) -> dict[str, list[float]]:
    """Widths of the intervals of {order and kind}."""
    out: dict[str, list[float]] = {}
    for mu, (low, high) in zip(tuples, limits):
        kind = "zero" if mu not in true else "strong" if abs(true[mu]) > STRONG * error[mu] else "weak"
        out.setdefault(f"{len(mu)} {kind}", []).append(float(high - low))
    return out


# ---------------------------------------------------------------------- 4: what an order costs on held-out rows


def fold_scores(X: np.ndarray, order: int | str, seed: int) -> np.ndarray:
    """Held-out ln P of each row where it can be enumerated, Σ_i ln P(x_i | rest) beyond; 5 folds."""
    out = np.empty(len(X))
    alphabet = [tuple(np.unique(x).tolist()) for x in X.T]
    enumerable = float(np.prod([len(a) for a in alphabet], dtype=float)) <= MAX_STATES
    for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
        est = HBM(order=order, alphabet=alphabet).fit(X[train])
        if enumerable:
            out[test] = -est.model_.energy(X[test]) - infer(est.model_, "exact").log_partition
        else:
            out[test] = est.score_samples(X[test])
    return out


def measure_order(name: str, n_sets: int, old: Path | None = None, first: int = 0) -> Row:
    """Mean difference a row with its error: over sets, or over the rows of a table that is the same in each."""
    rows: list[Row] = []
    for number in range(n_sets):
        X = ORDERS[name](generator(name, first + number))
        scores = {order: fold_scores(X, order, number) for order in (1, 2, 3, "auto")}
        rows.append({key: scores[a] - scores[b] for key, a, b in COMPARED})
    out: Row = {"rows": len(X), "columns": X.shape[1]}
    for key, _, _ in COMPARED:
        each = np.array([(x.mean(), x.std(ddof=1) / np.sqrt(len(x))) for x in (row[key] for row in rows)])
        worst = each[np.argmin(each[:, 0] / np.maximum(each[:, 1], 1e-12))]
        over = np.mean([row[key] for row in rows], axis=0) if name in WHOLE else each[:, 0]
        out[key] = [float(over.mean()), float(over.std(ddof=1) / np.sqrt(len(over))), *worst.tolist()]
    return out


COMPARED = (("3-2", 3, 2), ("3-1", 3, 1), ("auto-2", "auto", 2))


# ---------------------------------------------------------------------- tables


def number(x: float, digits: int = 3) -> str:
    return "–" if x is None or not np.isfinite(x) else f"{x:.{digits}g}"


def plus_minus(pair: list[float] | None) -> str:
    if pair is None or not np.isfinite(pair[0]):
        return "–"
    return f"{pair[0]:.3f} ± {pair[1]:.3f}"


def null_table(cells: dict[str, Row]) -> list[str]:
    out = [
        "| n, M, rates | sets | order | P(any q < .05) | found a set | P(\\|z\\| > 3) / nominal "
        "| P(\\|z\\| > 4) / nominal | largest \\|z\\| |",
        "|---|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, row in cells.items():
        cell = NULLS[name]
        for k in ("2", "3"):
            at, sets = row[k], row["sets"]
            error = np.sqrt(max(at["any"] * (1 - at["any"]), LEVEL * (1 - LEVEL)) / sets)
            tails = " | ".join(f"{t:.2f} ± {e:.2f}" for t, e in zip(at["tails"], at["errors"]))
            out.append(
                f"| {cell.n}, {cell.n_samples}, {cell.low:g}–{cell.high:g} | {sets} | {k} "
                f"| {at['any']:.3f} ± {error:.3f} | {at['found']:.3f} | {tails} | {at['largest']:.1f} |"
            )
    return out


def planted_table(cells: dict[str, Row]) -> list[str]:
    out = [
        "| cell | M | sets | order | false proportion | power | version 0.1: false | power | power with `order=2` "
        "| of these, found | found if the higher ones are known |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, row in cells.items():
        cell = PLANTED[name]
        for k in range(2, cell.order + 1):
            parts = [plus_minus(row.get(f"{what} {k}")) for what in ("false", "power", "old false", "old power")]
            kept = (
                [plus_minus(row["alone"]), plus_minus(row["kept"]), plus_minus(row.get("known"))]
                if k == 2
                else [""] * 3
            )
            out.append(f"| {name[8:]} | {cell.n_samples} | {row['sets']} | {k} | {' | '.join([*parts, *kept])} |")
    return out


def coverage_table(cells: dict[str, Row]) -> list[str]:
    out = [
        "| cell | sets | order | weights: zero, strong, weak | effects: zero, strong, weak "
        "| oracle's weights: strong, weak | version 0.1's: zero, strong, weak | widths: zero, strong, weak |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, row in cells.items():
        for k in range(2, COVERAGE[name].order + 1):
            parts = []
            for what in ("weights", "effects", "oracle weights", "old weights"):
                kinds = ("zero", "strong", "weak")[what == "oracle weights" :]
                each = [row.get(what, {}).get(f"{k} {kind}") for kind in kinds]
                parts.append(", ".join("–" if e is None else f"{e[0]:.3f} ({e[1]})" for e in each))
            known = row.get("widths", {})
            parts.append(", ".join(number(known.get(f"{k} {kind}")) for kind in ("zero", "strong", "weak")))
            out.append(f"| {name[6:]} | {row['sets']} | {k} | {' | '.join(parts)} |")
    return out


def distance_table(cells: dict[str, Row]) -> list[str]:
    out = [
        "| cell | M | sets | KL | oracle's | version 0.1's | `order=2` | `order=\"auto\"` | share where that is 3 "
        "| width / oracle's | largest residual of the sites |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    keys = ("distance", "oracle", "old", "two", "auto", "higher", "width", "residual")
    for name, row in cells.items():
        parts = " | ".join(number(row[key][0]) if key in row else "–" for key in keys)
        out.append(f"| {name[6:]} | {COVERAGE[name].n_samples} | {row['sets']} | {parts} |")
    return out


def order_table(cells: dict[str, Row]) -> list[str]:
    out = [
        '| table | rows × columns | sets | order 3 − 2 | worst set | 3 − 1 | "auto" − 2 |',
        "|---|---|---|---|---|---|---|",
    ]
    for name, row in cells.items():
        worst = f"{row['3-2'][2]:.4f} ± {row['3-2'][3]:.4f}"
        parts = [f"{row[key][0]:.4f} ± {row[key][1]:.4f}" for key in ("3-2", "3-1", "auto-2")]
        parts.insert(1, worst)
        out.append(f"| {name[6:]} | {row['rows']} × {row['columns']} | {row['sets']} | {' | '.join(parts)} |")
    return out


HEAD = f"""# Calibration

Whether tests keep their level, intervals cover and an order costs nothing. Seeds are
`SeedSequence({BASE}, spawn_key=…)` (`benchmarks/calibration_cells.py`, where each cell is a few lines). Every table
comes from

```sh
python benchmarks/bench_calibration.py --sets 50 --old ../version-0.1 --write
```

with `../version-0.1` a checkout of the first version; `--cells 'null-*'` runs some of the cells. ± is a standard error
over data sets.

One thing was changed after a first look at some of these sets (lsat6, no-triplets, verbagg, 0/1-12): the evidence
that `order="auto"` asks of a higher order was raised from 1 to 3 nats. Its columns there are not independent of that
choice, and for lsat6 no other rows exist. On sets that nobody had seen (`--first 10000`, as many sets) "auto" took
order 3 in 0 of 50 sets of no-triplets (KL .0129, order 2 .0129, order 3 .0140) and 66 % of neural (.0047, .0072,
.0045), and differed from order 2 by −.0001 ± .0002 nats on 0/1-12 and −.0006 ± .0006 on other choices of items of
verbagg.
"""

NOTHING = """
Independent 0/1 columns. Pairs are those of order 2, triplets those of order 3; Benjamini–Hochberg in each order has
P(any) ≤ .05 if the p-values are honest. Tails are over those of the normal distribution.
"""

SOMETHING = """
`fdr=.05`. False is what has no effect in the true model, in the standard gauge of the data: a pair inside of a true
triplet has one. Power is the share of what was planted. Version 0.1 finds pairs at order 2 and higher ones at their
order.

The last columns are of planted pairs that `order=2` finds: the share that the full order finds too, and the share that
the same tests find where they are told which higher couplings there are. In the cauchy cell, where every pair is
planted, a tenth of what `order=2` finds is the triplets' doing, seen as pairs where there is nothing else to see it as
(z of −5.6 and 1.1, with and without triplets, where the true effect is 0.3 errors), or stands close to the threshold:
who knows the triplets does not find it either.
"""

INTERVALS = """
Share of intervals that hold the truth (their number). Strong: a weight of more than 3 errors of the oracle, which is
the fit of the true support without a prior; an effect of more than 3/√M. KL(true ‖ fit) in nats; for n50 the loss of
held-out score. The width is the median over strong weights. A site is one coupling's posterior under the learnt
prior; they have settled when the residual is below .01.

An interval reaches over the posterior, even odds that the coupling is noise, and what the data say alone
([the learnt prior](theory/prior.md#intervals)); which of them enter was chosen on other sets (from 20000 on). Widths
are medians, in the coding of the data.

What does not hold: strong triplets of rare 0/1 events (neural) are covered as often as by the oracle, and not more: 3
errors are some ten coincidences, and the error itself is estimated from them. Their intervals are wider than the
oracle's, who knows which of 220 triplets are the four.
"""

COSTS = """
Held-out nats a row, 5 folds: ln P where all states can be listed, Σ ln P(x_i | rest) beyond. A set is a random choice
of items or rows (bfi, verbagg, gss), a new model (0/1), or, for lsat6, another split of the same rows, where ± is over
rows. The worst set is that with the lowest difference in its own errors.

What does not hold: `order=3` on small tables without triplets costs .0004 (lsat6) and .0015 nats a row (verbagg), two
errors of the mean over sets; that is what is left of .003 and .005 since an order in doubt has a prior of its own
([evidence and orders](theory/prior.md#evidence-and-orders)). `order="auto"` costs nothing there.
"""

SECTIONS: list[tuple[str, dict, Callable, list[Callable], str]] = [
    ("Nothing to find", NULLS, measure_null, [null_table], NOTHING),
    ("Something planted", PLANTED, measure_planted, [planted_table], SOMETHING),
    ("Intervals of 95 %", COVERAGE, measure_coverage, [coverage_table, distance_table], INTERVALS),
    ("What an order costs", ORDERS, measure_order, [order_table], COSTS),
]


def page(results: dict[str, Row]) -> str:
    out = [HEAD]
    for title, cells, _, tables, words in SECTIONS:
        mine = {name: results[name] for name in cells if name in results and "failed" not in results[name]}
        failed = [f"`{name}`: {results[name]['failed']}" for name in cells if "failed" in results.get(name, {})]
        out.append(f"## {title}\n{words}")
        out += ["\n".join(table(mine)) + "\n" for table in tables if mine]
        if failed:
            out.append("Failed: " + "; ".join(failed) + "\n")
    return "\n".join(out)


def run(name: str, work: Callable, n_sets: int, old: Path | None, first: int) -> Row:
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # oracles without a finite maximum; sites that are not decided
        try:
            row = work(name, n_sets, old, first)
        except ValueError as error:
            row = {"failed": f"{error}"}
    print(f"{name}: {n_sets} sets, {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
    return row | {"sets": n_sets}


# Times the number of sets that is asked for: cells of milliseconds have more, slow ones fewer.
SHARE = {
    **dict.fromkeys(NULLS, 8),
    **dict.fromkeys(ORDERS, 0.4),
    **{"null-40-1000": 3, "null-40-10000": 1.2, "null-60-50000": 0.2, "null-60-500-even": 1},
    **{"cover-n50": 0.12, "order-0/1-40": 0.04, "order-bfi": 0.16},
}


def sets_of(name: str, options: argparse.Namespace) -> int:
    return 2 if options.quick else max(2, round(options.sets * SHARE.get(name, 1)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=["*"], help="names or patterns")
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first set: others than those of the page")
    parser.add_argument("--quick", action="store_true", help="two sets a cell")
    parser.add_argument("--old", type=Path, help="a checkout of version 0.1")
    parser.add_argument("--write", action="store_true", help="keep the figures, and write docs/calibration.md")
    options = parser.parse_args()
    stored = DOCS / "results" / "calibration.json"
    results: dict[str, Row] = {}
    for _, cells, work, _, _ in SECTIONS:
        for name in cells:
            if any(fnmatch(name, pattern) for pattern in options.cells):
                results[name] = run(name, work, sets_of(name, options), options.old, options.first)
                if options.write:
                    kept = json.loads(stored.read_text()) if stored.exists() else {}
                    stored.write_text(json.dumps(kept | results, indent=1) + "\n")
    if options.write:
        (DOCS / "calibration.md").write_text(page(json.loads(stored.read_text())))
    print(page(results))


if __name__ == "__main__":
    main()
