"""What the commands fit, sample, score and infer do with their parsed arguments."""

from __future__ import annotations

import shlex
import sys
import time
from argparse import Namespace
from typing import Any

import numpy as np

from hbm_learn import conditionals, inference, sampling
from hbm_learn.assessment import summary
from hbm_learn.cli import values
from hbm_learn.cli.files import categorical_features, check_outputs, given_columns, known_columns, load, read_grouped
from hbm_learn.cli.terminal import more_rows, print_table, progress, write_utf8
from hbm_learn.data.samples import Samples
from hbm_learn.data.tables import complete_rows
from hbm_learn.estimator import HBM
from hbm_learn.inference import InferenceResult, log_partition
from hbm_learn.io import models, tables
from hbm_learn.io.replacing import replacing
from hbm_learn.model import BoltzmannMachine
from hbm_learn.names import default_names, feature_names, short_names, shorten, value_name
from hbm_learn.report import words

# ---------------------------------------------------------------------- fit


def fit(args: Namespace) -> None:
    """Samples → model, with a table on the terminal and whatever files were asked for."""
    if not 0 < args.level < 1:
        raise ValueError(f"--level {args.level:g}: give a probability between 0 and 1, such as 0.95.")
    if args.table:
        tables.require_frame_format(args.table)
    check_outputs([args.output, args.table, args.report], [args.data])
    with progress(2 + 4 * bool(args.report)) as step:
        step("reading")
        X, groups = read_grouped(args)
        est = _estimator(args, X)
        step("fitting")
        start = time.perf_counter()
        est.fit(X, **groups)
        seconds = time.perf_counter() - start
        if args.output:
            models.save(args.output, est.model_, getattr(est, "feature_names_in_", None))
        if args.table:
            tables.write_frame(args.table, _table(est, args.level))
        if args.report:
            from hbm_learn import report

            command = shlex.join(["hbm-learn", *args.argv])
            about = {"level": args.level, "source": args.data, "command": command, "groups": args.groups}
            report.write(args.report, est, X, **about, progress=step)
    _print_fit(args, est, X, seconds)


def _estimator(args: Namespace, X: Any) -> HBM:
    some = args.interactions
    return HBM(
        order=args.order,
        interactions=None if some is None else [tuple(known_columns(mu, X)) for mu in some],
        alphabet=args.alphabet,
        categorical_features=categorical_features(args, X),
        powers=args.powers,
        site=args.site,
        given=given_columns(args, X),
        refine=args.refine,
        alpha=args.alpha,
        l1_ratio=args.l1_ratio,
        fdr=args.fdr,
        n_jobs=args.jobs,
        random_state=args.seed,
    )


def _table(est: HBM, level: float) -> Any:
    """All interactions, surest first, written as --interactions reads them."""
    table = est.to_frame(level)
    table["interaction"] = ["*".join(map(str, mu)) for mu in table["interaction"]]
    return table.iloc[np.argsort(-np.abs(table["z"].to_numpy()), kind="stable")]


def _print_fit(args: Namespace, est: HBM, X: Any, seconds: float) -> None:
    print(f"{args.data}: {size(X)}, {words.all_values(est.model_.space)}.")
    print(f"{summary.chosen_order(est)}, in {seconds:.1f} s: {words.fitted(est)}")
    print(words.found(est))
    print(f"How far to trust it: {est.trust_.headline}.")
    for mark, sentence in words.reasons(est):
        print(f"  {mark} {sentence}")
    if len(est.weights_):
        print()
        _print_rows(est, args.top, args.level)
    for path, what in ((args.output, "model"), (args.table, "table"), (args.report, "report")):
        if path:
            print(f"The {what} is in {path}.")


def size(X: Any) -> str:
    """1,500 rows of 4 variables."""
    return f"{words.counted(X.shape[0], 'row')} of {words.counted(X.shape[1], 'variable')}"


def _print_rows(est: HBM, top: int, level: float) -> None:
    rows = words.strongest(est, max(top, 0), level, short_names(feature_names(est), 24))
    blocks, chosen = bool((rows.df > 1).any()), est.fdr is not None
    interval = f"{100 * level:g} % interval"
    print_table(
        ["interaction", "order", "effect", interval, "z", *["df"] * blocks, "q", *["kept by"] * chosen, "weight"],
        [
            [
                label,
                str(rows.order[r]),
                rows.text("effect", r),
                f"[{rows.text('low', r)}, {rows.text('high', r)}]",
                rows.text("z", r, 1),
                *[str(rows.df[r])] * blocks,
                words.small(rows.q[r]),
                *[rows.kept(r)] * chosen,
                rows.text("weight", r),
            ]
            for r, label in enumerate(rows.labels)
        ],
    )
    more_rows(len(est.weights_) - len(rows))
    if len(rows):
        print()
        print(*words.explained(est, blocks), sep="\n")


# ---------------------------------------------------------------------- sample, score, infer


def sample(args: Namespace) -> None:
    """Model → samples."""
    check_outputs([args.output], [args.model])
    model, names = load(args.model)
    if args.output and not model.space.is_numeric:
        tables.require_frame_format(args.output)
    method, given = args.method, values.of_given(args.given, model.space, names)
    if method == "auto":
        listed = model.space.is_real or model.space.modelled.enumerable(sampling.MAX_AUTO_STATES)
        method = "exact" if listed else "gibbs"
    options = {} if method == "exact" else {"n_jobs": args.jobs}
    with progress(1) as step:
        step("sampling")
        X = sampling.sample(model, args.number, method=method, random_state=args.seed, given=given, **options)
    if not args.output:
        write_utf8()  # as files are read
        tables.as_frame(X, names).to_csv(sys.stdout, index=False)
        return
    tables.write(args.output, X, names)
    print(f"{words.counted(len(X), 'sample')} ({method}) in {args.output}.")


def score(args: Namespace) -> None:
    """Pseudo-log-likelihood of rows, and the likelihood if asked."""
    check_outputs([args.output], [args.model, args.data])
    model, names = load(args.model)
    with progress(2) as step:
        step("reading")
        X = _matching(tables.read(args.data, args.na), names, model.n_features, args.data)
        X, _, dropped, _ = complete_rows(X, None)
        step("scoring")
        blocks = [codes for codes, _ in Samples.check(X, space=model.space).blocks()]
        scores = np.concatenate([conditionals.log_conditionals(model, codes).sum(axis=1) for codes in blocks])
        if args.log_likelihood:
            codes = np.concatenate(blocks)
            log_z = log_partition.log_partitions(model, codes, "auto", args.seed)[0]
            likelihood = -model.energy_of_codes(codes).mean() - log_z
    if dropped:
        print(f"{words.counted(dropped, 'row')} with a missing value left out.", file=sys.stderr)
    print(f"rows                        {len(scores)}")
    print(f"pseudo-log-likelihood       {scores.mean():.6f} ± {_standard_error(scores):.6f} nats a row")
    if args.log_likelihood:
        print(f"log-likelihood              {likelihood:.6f} nats a row")
    if args.output:
        tables.write(args.output, scores[:, None], ["score"])
        print(f"The score of each row is in {args.output}.")


def _standard_error(x: np.ndarray) -> float:
    return float(x.std(ddof=1) / np.sqrt(len(x))) if len(x) > 1 else float("nan")


def _matching(X: Any, names: list[str] | None, n: int, path: str) -> Any:
    """The columns of the model: by name where both have names, else all of them."""
    given = tables.names_of(X)
    if names is not None and given is not None:
        missing = [name for name in names if name not in given]
        if missing:
            raise ValueError(
                f"{path} lacks the column {missing[0]!r} of the model ({len(missing)} of {n} are missing)."
            )
        return tables.choose_columns(X, names)
    if X.shape[1] != n:
        raise ValueError(f"{path} has {X.shape[1]} columns, but the model has {n} variables.")
    return X


def infer(args: Namespace) -> None:
    """Model → moments and ln Z."""
    check_outputs([args.output], [args.model])
    if args.output and not args.output.endswith(".npz"):
        raise ValueError(f"{args.output}: moments are written as .npz; give such a name.")
    model, names = load(args.model)
    options = {"random_state": args.seed, "n_jobs": args.jobs} if args.method == "gibbs" else {}
    given = values.of_given(args.given, model.space, names)
    if given is not None:
        names = [name for name, g in zip(names or default_names(model.n_features), model.space.given) if not g]
        model = model.condition(given)
    with progress(1) as step:
        step("inferring")
        result = inference.infer(model, args.method, **options)
    print(f"method     {result.method}: {result.status}")
    print(f"ln Z       {result.log_partition:.6f}")
    print()
    _print_moments(model, result, names or default_names(model.n_features), args.top)
    if args.output:
        with replacing(args.output) as path, open(path, "wb") as file:
            np.savez_compressed(file, **_moments(model, result))
        print(f"The moments are in {args.output}.")


def _print_moments(model: BoltzmannMachine, result: InferenceResult, names: list[str], top: int) -> None:
    """Means of numbers, probabilities of labels."""
    nominal = [a.is_nominal for a in model.space.alphabets]
    deviation = np.sqrt(np.maximum(result.v - result.m**2, 0.0))
    rows = []
    for i in range(min(max(top, 0), model.n_features)):
        numbers = ["", ""] if nominal[i] else [words.signed(result.m[i]), f"{deviation[i]:.3f}"]
        rows.append([names[i], *numbers, *[_probabilities(model, result, i)] * any(nominal)])
    header = ["variable", "mean", "standard deviation", *["probabilities"] * any(nominal)]
    print_table(header, rows)
    more_rows(model.n_features - len(rows))


def _probabilities(model: BoltzmannMachine, result: InferenceResult, i: int, most: int = 6) -> str:
    """north 0.310, south 0.690; nothing for a number."""
    alphabet, p = model.space.alphabets[i], None if result.probabilities is None else result.probabilities[i]
    if not alphabet.is_nominal or p is None:
        return ""
    shown = [f"{shorten(value_name(v), 16)} {x:.3f}" for v, x in zip(alphabet.values.tolist(), p)]  # type: ignore[union-attr]
    return ", ".join(shown if len(shown) <= most else [*shown[: most - 1], f"… {len(shown) - most + 1} more"])


def _moments(model: BoltzmannMachine, result: InferenceResult) -> dict[str, Any]:
    """The arrays of a result; of values that can be listed, probabilities of variable i at value_ptr[i:i + 2]."""
    found: dict[str, Any] = {"m": result.m, "v": result.v, "log_partition": result.log_partition}
    if result.chi is not None:
        found["chi"] = result.chi
    if model.space.is_finite and result.probabilities is not None:
        found |= {"probabilities": model.space.flat(result.probabilities), "value_ptr": model.space.value_ptr}  # type: ignore[arg-type]
    return found
