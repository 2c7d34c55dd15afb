"""Tables and progress on a terminal."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unicodedata import combining, east_asian_width

from hbm_learn.names import printable

# What stands for signs of ours on a terminal that has no letters for them; others are written as \\u1234.
_PLAIN = {"…": "...", "×": "x", "±": "+-", "·": "*", "²": "^2", "³": "^3", "≥": ">=", "≤": "<=", "–": "-", "−": "-"}
_PLAIN |= {"∝": "~", "½": "1/2", "─": "-", "ℓ": "l", "→": "->", "é": "e", "σ": "sigma", "α": "alpha", "Σ": "sum"}


def write_what_can_be_written() -> None:
    """Let terminals that are not UTF-8 show what they can, and never end in an error for a letter they lack."""
    codecs.register_error("hbm_learn.plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="hbm_learn.plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(c, c.encode("ascii", "backslashreplace").decode()) for c in letters), error.end


def write_utf8() -> None:
    """Tables on standard output are UTF-8 whatever the terminal: they are data, to be read again."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(encoding="utf-8")


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> None:
    """The first ``left`` columns flush left, the others flush right; cells on one line whatever they hold."""
    lines = [[printable(cell) for cell in row] for row in [header, *rows]]
    widths = [max(width(line[c]) for line in lines) for c in range(len(header))]
    for line in lines:
        gaps = [" " * (w - width(cell)) for cell, w in zip(line, widths)]
        cells = [cell + gap if c < left else gap + cell for c, (cell, gap) in enumerate(zip(line, gaps))]
        print("  " + "  ".join(cells).rstrip())


def width(text: str) -> int:
    """How many places a terminal gives to a text: two for each letter of Chinese, Japanese and Korean."""
    return sum(0 if combining(c) else 2 if east_asian_width(c) in "WF" else 1 for c in text)


def more_rows(number: int) -> None:
    """Say how many rows a table leaves out, if any."""
    if number > 0:
        print(f"… and {number:,} more (--top N shows more of them).")


@contextmanager
def progress(total: int) -> Iterator[Any]:
    """A function that shows the name of each step on a terminal, and nothing elsewhere."""
    from tqdm import tqdm

    # disable=None: tqdm is silent unless stderr is a terminal.
    with tqdm(total=total, disable=None, leave=False, bar_format="{desc} |{bar:24}| {elapsed}") as bar:

        def step(what: str) -> None:
            bar.set_description_str(what)
            bar.update()

        yield step
