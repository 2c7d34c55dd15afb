"""What each ``hbm-learn`` command does with its parsed arguments."""

from __future__ import annotations

import shlex
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from math import comb
from pathlib import Path
from typing import Any

import numpy as np

from hbm_learn import conditionals, inference, sampling
from hbm_learn.cli.terminal import more_rows, print_table, progress
from hbm_learn.data.samples import Samples
from hbm_learn.data.tables import complete_rows
from hbm_learn.estimator import HBM
from hbm_learn.inference import log_partition as scoring
from hbm_learn.io import models as _storage
from hbm_learn.io import tables as _files
from hbm_learn.model import BoltzmannMachine
from hbm_learn.report import words as wording

EXACT_STATES = 2**20


# ---------------------------------------------------------------------- fit


def fit(args: Namespace) -> None:
    """Samples → model, with a table on the terminal and whatever files were asked for."""
    _check_outputs(args)
    with progress(2 + 4 * bool(args.report)) as step:
        step("reading")
        X = _files.choose_columns(_files.read(args.data), args.columns, args.drop)
        est = _estimator(args, X)
        step("fitting")
        start = time.perf_counter()
        est.fit(X)
        seconds = time.perf_counter() - start
        rows = wording.strongest(est, level=args.level)
        if args.output:
            _storage.save(args.output, est.model_, getattr(est, "feature_names_in_", None))
        if args.table:
            _write_rows(args.table, rows)
        if args.report:
            from hbm_learn import report

            command = shlex.join(["hbm-learn", *args.argv])
            report.write(args.report, est, X, level=args.level, source=args.data, command=command, progress=step)
    _print_fit(args, est, X, rows, seconds)


def _check_outputs(args: Namespace) -> None:
    """Refuse what would fail only after the work is done."""
    if not 0 < args.level < 1:
        raise ValueError(f"--level {args.level:g}: give a probability between 0 and 1, such as 0.95.")
    if args.table:
        _files.require_frame_format(args.table)
    for path in filter(None, (args.output, args.table, args.report)):
        if Path(path).is_dir() or not Path(path).absolute().parent.is_dir():
            raise ValueError(f"{path}: no file can be written there; make the folder first.")


def _estimator(args: Namespace, X: Any) -> HBM:
    return HBM(
        order=args.order,
        interactions=None if args.interactions is None else _known(args.interactions, X),
        alphabet=args.alphabet,
        refine=args.refine,
        alpha=args.alpha,
        l1_ratio=args.l1_ratio,
        fdr=args.fdr,
        n_jobs=args.jobs,
        random_state=args.seed,
    )


def _known(interactions: Sequence[tuple[str, ...]], X: Any) -> list[tuple[str | int, ...]]:
    """Members that are no names, and are digits, are numbers of columns."""
    names = _files.names_of(X) or []
    return [tuple(int(i) if i.isdigit() and i not in names else i for i in mu) for mu in interactions]


def _print_fit(args: Namespace, est: HBM, X: Any, rows: wording.Rows, seconds: float) -> None:
    print(f"{args.data}: {_size(X)}, {wording.values(est.model_.alphabet)}.")
    print(f"Order {est.order_}, in {seconds:.1f} s: {wording.fitted(est)}")
    print(wording.found(est))
    print("How far to trust it: " + " ".join(wording.caveats(est)))
    if len(rows):
        print()
        _print_rows(est, rows, args.top, args.level)
    for path, what in ((args.output, "model"), (args.table, "table"), (args.report, "report")):
        if path:
            print(f"The {what} is in {path}.")


def _size(X: Any) -> str:
    return f"{wording.counted(X.shape[0], 'row')} of {wording.counted(X.shape[1], 'variable')}"


def _print_rows(est: HBM, rows: wording.Rows, top: int, level: float) -> None:
    names = wording.short_names(wording.feature_names(est), 24)
    shown = range(min(top, len(rows)))
    print_table(
        ["interaction", "order", "weight", f"{100 * level:g} % interval", "z", "q"],
        [
            [
                wording.label(wording.members(est.model_.packed, rows.position[r]), names),
                str(rows.order[r]),
                wording.signed(rows.weight[r]),
                f"[{wording.signed(rows.low[r])}, {wording.signed(rows.high[r])}]",
                f"{rows.z[r]:+.1f}".replace("-", "−"),
                wording.small(rows.q[r]),
            ]
            for r in shown
        ],
    )
    more_rows(len(rows) - len(shown))


def _write_rows(path: str, rows: wording.Rows) -> None:
    import pandas as pd

    names = ["order", "weight", "standard_error", "low", "high", "z", "p", "q"]
    labels = [label.replace(" × ", "*") for label in rows.labels]  # as --interactions reads them
    columns = {"interaction": labels, **{name: getattr(rows, name) for name in names}}
    _files.write_frame(path, pd.DataFrame(columns))


# ---------------------------------------------------------------------- sample, score, infer


def sample(args: Namespace) -> None:
    """Model → samples."""
    model, names = _load(args.model)
    method = args.method
    if method == "auto":
        method = "exact" if model.alphabet.enumerable(model.n_features, EXACT_STATES) else "gibbs"
    options = {} if method == "exact" else {"n_jobs": args.jobs}
    with progress(1) as step:
        step("sampling")
        X = sampling.sample(model, args.number, method=method, random_state=args.seed, **options)
    if args.output:
        _files.write(args.output, X, names)
        print(f"{wording.counted(len(X), 'sample')} ({method}) in {args.output}.")
    else:
        _files.as_frame(X, names).to_csv(sys.stdout, index=False)


def score(args: Namespace) -> None:
    """Pseudo-log-likelihood of rows, and the likelihood if asked."""
    model, names = _load(args.model)
    with progress(2) as step:
        step("reading")
        X = _matching(_files.read(args.data), names, model.n_features, args.data)
        X, _, dropped = complete_rows(X, None)
        step("scoring")
        blocks = [block for block, _ in Samples.check(X, model.alphabet).values_blocks()]
        scores = np.concatenate([conditionals.log_conditionals(model, block).sum(axis=1) for block in blocks])
        if args.log_likelihood:
            energies = np.concatenate([model.energy(block) for block in blocks])
            likelihood = -energies.mean() - scoring.log_partition(model, "auto", args.seed)
    if dropped:
        print(f"{wording.counted(dropped, 'row')} with a missing value left out.", file=sys.stderr)
    print(f"rows                        {len(scores)}")
    print(f"pseudo-log-likelihood       {scores.mean():.6f} ± {_standard_error(scores):.6f} nats a row")
    if args.log_likelihood:
        print(f"log-likelihood              {likelihood:.6f} nats a row")
    if args.output:
        _files.write(args.output, scores[:, None], ["score"])
        print(f"The score of each row is in {args.output}.")


def _standard_error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else float("nan")


def _matching(X: Any, names: list[str] | None, n: int, path: str) -> Any:
    """The columns of the model: by name where both have names, else all of them."""
    given = _files.names_of(X)
    if names is not None and given is not None:
        missing = [name for name in names if name not in given]
        if missing:
            raise ValueError(
                f"{path} lacks the column {missing[0]!r} of the model ({len(missing)} of {n} are missing)."
            )
        return _files.choose_columns(X, names)
    if X.shape[1] != n:
        raise ValueError(f"{path} has {X.shape[1]} columns, but the model has {n} variables.")
    return X


def infer(args: Namespace) -> None:
    """Model → moments and ln Z."""
    model, names = _load(args.model)
    options = {"random_state": args.seed, "n_jobs": args.jobs} if args.method == "gibbs" else {}
    with progress(1) as step:
        step("inferring")
        result = inference.infer(model, args.method, **options)
    print(f"method     {result.method}: {result.status}")
    print(f"ln Z       {result.log_partition:.6f}")
    print()
    labels = names or wording.default_names(model.n_features)
    shown = range(min(args.top, model.n_features))
    deviation = np.sqrt(np.maximum(result.v - result.m**2, 0.0))
    print_table(
        ["variable", "mean", "standard deviation"],
        [[labels[i], wording.signed(result.m[i]), f"{deviation[i]:.3f}"] for i in shown],
    )
    more_rows(model.n_features - len(shown))
    if args.output:
        chi: dict[str, Any] = {} if result.chi is None else {"chi": result.chi}
        with open(args.output, "wb") as file:
            np.savez_compressed(file, m=result.m, v=result.v, log_partition=result.log_partition, **chi)
        print(f"The moments are in {args.output}.")


# ---------------------------------------------------------------------- info


def info(args: Namespace) -> None:
    """What is in a file: a model, or samples."""
    if args.file.endswith(".npz") and _is_model(args.file):
        _info_model(args)
    else:
        _info_data(args)


def _is_model(path: str) -> bool:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            return _storage.is_model(archive)
    except FileNotFoundError:
        raise
    except Exception:
        return False  # reading it as a table says what is wrong


def _info_model(args: Namespace) -> None:
    model, names = _load(args.file)
    labels = names or wording.default_names(model.n_features)
    print(f"{args.file}: a model of {wording.describe(model)}")
    largest = np.argsort(-np.abs(model.weights), kind="stable")[: args.top]
    if len(largest):
        print()
        packed = model.packed
        rows = [[wording.label(wording.members(packed, r), labels), wording.signed(model.weights[r])] for r in largest]
        print_table(["interaction", "weight"], rows)


def _info_data(args: Namespace) -> None:
    X = _files.read(args.file)
    names = _files.names_of(X) or wording.default_names(X.shape[1])
    complete, _, dropped = complete_rows(X, None)
    samples = Samples.check(complete)
    print(f"{args.file}: {_size(X)}, {wording.values(samples.alphabet)}.")
    if dropped:
        print(f"{wording.counted(dropped, 'row')} with a missing value would be left out of a fit.")
    n = samples.n_features
    est = HBM()
    est._moment_order(samples.alphabet, n)
    print(
        f"By default, fit takes order {est.order_}: {sum(comb(n, k) for k in range(2, est.order_ + 1)):,} interactions."
    )
    values = np.concatenate([block for block, _ in samples.values_blocks()])
    mean, deviation = values.mean(axis=0), values.std(axis=0)
    print()
    shown = range(min(args.top, n))
    note = {True: "constant: leave it out with --drop", False: ""}
    print_table(
        ["column", "mean", "standard deviation", ""],
        [[names[i], wording.signed(mean[i]), f"{deviation[i]:.3f}", note[deviation[i] == 0]] for i in shown],
    )
    more_rows(n - len(shown))


# ---------------------------------------------------------------------- shared


def _load(path: str) -> tuple[BoltzmannMachine, list[str] | None]:
    model = BoltzmannMachine.load(path)
    return model, _storage.load_feature_names(path)
