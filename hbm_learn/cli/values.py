"""What the values of options become: text → orders, lists, priors, alphabets, interactions."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hbm_learn._validation import check_integer, check_jobs
from hbm_learn.space import Interval, Space


def expects(what: str) -> Callable[[Callable[[str], Any]], Callable[[str], Any]]:
    """Make the ValueError of a conversion a sentence that says what to give."""

    def decorate(convert: Callable[[str], Any]) -> Callable[[str], Any]:
        def converted(text: str) -> Any:
            try:
                return convert(text)
            except (ValueError, TypeError, OverflowError) as error:
                raise argparse.ArgumentTypeError(f"{text!r}: give {what}") from error

        return converted

    return decorate


@expects("an integer of at least 0")
def count(text: str) -> int:
    return check_integer("count", int(text), 0)


@expects("a number of threads, or -1 for all cores")
def jobs(text: str) -> int | None:
    return check_jobs(int(text))


def name_list(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]


@expects('an integer, or "auto"')
def order(text: str) -> int | str:
    return text if text == "auto" else int(text)


def categorical(text: str) -> str | list[str] | None:
    return {"auto": "from_dtype", "none": None}[text] if text in ("auto", "none") else name_list(text)


def of_given(texts: list[str] | None, space: Space, names: Sequence[str] | None) -> list[Any] | None:
    """The values of the given variables of a model, from those of --given; ValueError where some are missing."""
    where = [int(i) for i in np.flatnonzero(space.given)]
    labels = [str(i) if names is None else names[i] for i in where]
    if len(texts or []) != len(where):
        wanted = f"one value for each of {', '.join(labels)}" if where else "no --given, as no variable of the model is"
        raise ValueError(f"--given has {len(texts or [])} values: give {wanted}.")
    found: list[Any] = []
    for i, text in zip(where, texts or []):
        values = space.alphabets[i].values
        known = [] if values is None else [v for v in values.tolist() if str(v) == text]
        found.append(known[0] if known else _number(text))
    return found or None


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def refine(text: str) -> str | None:
    return None if text.lower() == "none" else text


@expects('"auto", a number, or one number for each order, such as 10,100')
def alpha(text: str) -> str | float | list[float]:
    if text == "auto":
        return text
    numbers = [float(item) for item in name_list(text)]
    return numbers[0] if len(numbers) == 1 else numbers


@expects('values such as -1,1, "real", interval:0,1, or "auto"')
def alphabet(text: str) -> Any:
    """Values, an Interval, or the words that the library knows."""
    if text in ("auto", "real"):
        return text
    if text.startswith("interval:"):
        return Interval(*(float(item) for item in name_list(text.removeprefix("interval:"))))
    numbers = [float(item) for item in name_list(text)]
    return [int(x) for x in numbers] if all(x == int(x) for x in numbers) else numbers


def interactions(text: str) -> list[tuple[str, ...]]:
    """a*b,a*b*c as tuples of names; which of them are numbers of columns is settled once the columns are known."""
    if text.startswith("@"):
        try:
            with open(text[1:], encoding="utf-8") as file:
                items = [line.strip() for line in file if line.strip()]
        except OSError as error:
            raise argparse.ArgumentTypeError(f"cannot read {text[1:]}: {error.strerror}") from error
    else:
        items = name_list(text)
    if not items:
        raise argparse.ArgumentTypeError(f"{text!r} names no interaction: give some, such as a*b,a*b*c")
    return [tuple(member.strip() for member in item.split("*")) for item in items]
