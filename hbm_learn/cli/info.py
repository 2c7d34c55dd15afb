"""What the command info says of a model, or of a table before it is fitted."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence
from math import comb
from typing import Any

import numpy as np

from hbm_learn.cli.commands import size
from hbm_learn.cli.files import categorical_features, given_columns, load, read_table
from hbm_learn.cli.terminal import more_rows, print_table
from hbm_learn.considered import check_order
from hbm_learn.data.samples import Samples
from hbm_learn.inversion import choose_refinement, lists_patterns
from hbm_learn.io import models, tables
from hbm_learn.io.archives import Archive
from hbm_learn.names import default_names, interaction_name, short_names, shorten
from hbm_learn.report import words
from hbm_learn.report.columns import ColumnFacts, column_facts


def info(args: Namespace) -> None:
    """What is in a file: a model, or samples."""
    if args.data.endswith(".npz") and _is_model(args.data):
        _info_model(args)
    else:
        _info_data(args)


def _is_model(path: str) -> bool:
    try:
        with Archive(path, models.MAX_TEXT) as archive:
            return models.is_model(archive)
    except FileNotFoundError:
        raise
    except Exception:
        return False  # reading it as a table says what is wrong


# ---------------------------------------------------------------------- a model


def _info_model(args: Namespace) -> None:
    model, names = load(args.data)
    labels = short_names(names or default_names(model.n_features), 24)
    print(f"{args.data}: a model of {words.describe(model)}")
    largest = np.argsort(-np.abs(model.weights), kind="stable")[: max(args.top, 0)]
    if len(largest):
        print()
        weights, df = model.weights, model.terms.df
        numbers = [words.signed(weights[r]) if df[r] == 1 else f"{weights[r]:.3f}" for r in largest]
        rows = [[interaction_name(model.terms.members(r), labels), x] for r, x in zip(largest, numbers)]
        print_table(["interaction", "weight"], rows)
    if model.space.alphabet is None or model.space.has_given:
        print()
        shown = range(min(max(args.top, 0), model.n_features))
        alphabets = model.space.alphabets
        kinds = [words.kind(a) + ", given" * bool(g) for a, g in zip(alphabets, model.space.given)]
        rows = [[labels[i], kinds[i], shorten(words.values(alphabets[i]), 60)] for i in shown]
        print_table(["variable", "kind", "values"], rows, left=3)
        more_rows(model.n_features - len(shown))


# ---------------------------------------------------------------------- a table


def _info_data(args: Namespace) -> None:
    X = read_table(args)
    columns = column_facts(X, categorical_features(args, X), given_columns(args, X))
    print(f"{args.data}: {size(X)}.")
    for sentence in _plan(args, X, columns):
        print(sentence)
    print()
    names = short_names([c.name for c in columns], 24)
    noted, gaps = any(c.note for c in columns), any(c.n_missing for c in columns)
    rows = [
        [
            names[i],
            c.kind,
            shorten(c.describe(), 72),
            *[words.percent(c.n_missing / X.shape[0]) if c.n_missing else ""] * gaps,
            *[c.note] * noted,
        ]
        for i, c in enumerate(columns[: max(args.top, 0)])
    ]
    header = ["column", "kind", "values (rows)", *["missing"] * gaps, *[""] * noted]
    print_table(header, rows, left=len(header))
    more_rows(len(columns) - len(rows))


def _plan(args: Namespace, X: Any, columns: Sequence[ColumnFacts]) -> list[str]:
    """What fit would do with a table: sentences."""
    refused = [c.name for c in columns if not c.fits]
    sentences, takes = [], "By default, fit takes"
    if refused:
        option = f"--drop {','.join(refused[:8])}{',…' if len(refused) > 8 else ''}"
        sentences.append(f"fit would refuse {words.counted(len(refused), 'column')}: {option} leaves them out.")
        takes = "Without them, fit takes"
    if len(refused) > len(columns) - 2:
        return [*sentences, "That leaves fewer than two columns, and nothing to fit."]
    names = tables.names_of(X) or [str(i) for i in range(X.shape[1])]
    taken = [c for c in columns if c.fits]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the table of columns says it
            rest = tables.choose_columns(X, None, [name for name, c in zip(names, columns) if not c.fits])
            labels = [k for k, c in enumerate(taken) if c.nominal and not c.given]
            given = [k for k, c in enumerate(taken) if c.given]
            samples = Samples.check(rest, categorical_features=labels, given=given or None, allow_nan=True)
        order = check_order("auto", None, samples.space, samples.feature_names)
    except ValueError as error:
        return [*sentences, f"fit would stop: {error}"]
    if samples.n_incomplete:
        gaps = words.counted(samples.n_incomplete, "row")
        sentences.append(f"{gaps} with a missing value: a fit uses what is there of them.")
    n, alone = samples.n_features, int(samples.space.given.sum())  # what is given has none among itself
    number = sum(comb(n, k) - comb(alone, k) for k in range(2, order + 1))
    lower = f" Without --fdr it returns to order {order - 1} where the evidence does not prefer {order}."
    sentence = f"{takes} order {order}: {number:,} interactions, fitted by {_method(samples)}."
    return [*sentences, sentence + (lower if order > 2 else "")]


def _method(samples: Samples) -> str:
    """What refine="auto" takes."""
    chosen = choose_refinement("auto", samples.space, n_interactions=1)
    if chosen == "likelihood" and samples.space.has_given and not lists_patterns(samples, samples.n_features**2):
        chosen = "pseudolikelihood"
    return words.METHODS[chosen or "closed-form"]
