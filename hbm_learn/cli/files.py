"""What the commands read and where they may write."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hbm_learn.io import models, tables
from hbm_learn.model import BoltzmannMachine


def read_table(args: Namespace) -> Any:
    """The table of a command that has --na, --columns and --drop."""
    return tables.choose_columns(tables.read(args.data, args.na), args.columns, args.drop)


def read_grouped(args: Namespace) -> tuple[Any, dict[str, Any]]:
    """The table without the column of --groups, and what ``fit`` is told of it."""
    if args.groups is None:
        return read_table(args), {}
    whole = tables.read(args.data, args.na)
    labels = tables.choose_columns(whole, [args.groups])
    labels = labels.iloc[:, 0].to_numpy() if hasattr(labels, "iloc") else labels[:, 0]
    missing = int(np.count_nonzero([x is None or x != x for x in labels.tolist()]))
    if missing:
        raise ValueError(
            f"column {args.groups!r} of --groups lacks the label of {missing} rows: give every row a group, or leave "
            "such rows out of the file."
        )
    # Out of --columns, or dropped: the labels are not among what is fitted.
    keep = None if args.columns is None else [name for name in args.columns if name != args.groups]
    return tables.choose_columns(whole, keep, [*(args.drop or []), args.groups]), {"groups": labels}


def load(path: str) -> tuple[BoltzmannMachine, list[str] | None]:
    """A model, and the names of its variables if it was saved with them."""
    return BoltzmannMachine.load(path), models.load_feature_names(path)


def check_outputs(outputs: Sequence[str | None], inputs: Sequence[str]) -> None:
    """Refuse what would fail only after the work is done, and what would destroy a file that is read."""
    taken = {Path(path).resolve(): "is read by this command" for path in inputs}
    for output in filter(None, outputs):
        path = Path(output)
        if path.is_dir() or not path.absolute().parent.is_dir():
            raise ValueError(f"{output}: no file can be written there; make the folder first.")
        if path.resolve() in taken:
            raise ValueError(f"{output}: it {taken[path.resolve()]}, and would be overwritten; give another name.")
        taken[path.resolve()] = "is written by another option"


def known_columns(members: Sequence[str], X: Any) -> list[str | int]:
    """Members that are no names, and are digits, are numbers of columns."""
    names = tables.names_of(X) or []
    return [int(member) if member.isdigit() and member not in names else member for member in members]


def given_columns(args: Namespace, X: Any) -> list[str | int] | None:
    """What --given means for a table."""
    return None if args.given is None else known_columns(args.given, X)


def categorical_features(args: Namespace, X: Any) -> Any:
    """What --categorical means for a table: the columns named there, and those of text, which can be nothing else."""
    chosen = args.categorical
    if not isinstance(chosen, list):
        return chosen
    named = known_columns(chosen, X)
    if not hasattr(X, "dtypes"):
        return named
    from pandas.api.types import is_numeric_dtype

    text = [
        name for name, dtype in X.dtypes.items() if not (is_numeric_dtype(dtype) or getattr(dtype, "ordered", False))
    ]
    known = [*named, *(given_columns(args, X) or [])]
    return [*named, *(name for name in text if name not in known)]
