"""Tables and progress on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """The first column flush left, the others flush right."""
    widths = [max(len(row[c]) for row in [header, *rows]) for c in range(len(header))]
    for row in [header, *rows]:
        cells = [cell.ljust(w) if c == 0 else cell.rjust(w) for c, (cell, w) in enumerate(zip(row, widths))]
        print("  " + "  ".join(cells).rstrip())


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
