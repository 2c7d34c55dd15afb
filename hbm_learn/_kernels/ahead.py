"""Kernels compiled when a wheel is built, for the calls that ``signatures.txt`` lists.

A line of it is a call: ``score.residuals float64:3C float64:2C- uint8:1C float64:1C float64:3C``; an array is its
dtype, dimensions and layout, with a minus if it is read-only; tuples are in parentheses, named ones behind their name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

from numba import types
from numba.core.dispatcher import Dispatcher

from hbm_learn._kernels.caches import HERE
from hbm_learn._kernels.compiled import Deferred

LISTED = HERE / "signatures.txt"
PREFIX = __name__.rpartition(".")[0]


def kernels() -> Iterator[tuple[str, Any]]:
    """(``module.name``, kernel) of all kernels there are; those in use are ready."""
    for path in sorted(HERE.glob("*.py")):
        if path.stem not in ("__init__", "__main__", "ahead", "caches"):
            module = import_module(f"{PREFIX}.{path.stem}")
            for name, value in list(vars(module).items()):
                if isinstance(value, (Deferred, Dispatcher)) and value.__module__ == module.__name__:
                    yield f"{path.stem}.{name}", value


def in_use() -> list[str]:
    """The calls that this process has compiled or found compiled, as lines of the list."""
    return sorted(
        " ".join([name, *map(written, signature)])
        for name, kernel in kernels()
        if isinstance(kernel, Dispatcher)
        for signature in kernel.overloads
    )


def written(kind: Any) -> str:
    """A type of numba's as the list writes it."""
    if isinstance(kind, types.Array):
        return f"{kind.dtype}:{kind.ndim}{kind.layout}{'' if kind.mutable else '-'}"
    if isinstance(kind, types.BaseTuple):
        named, parts = getattr(kind, "instance_class", None), getattr(kind, "types", ())
        name = "" if named is None else f"{named.__module__.removeprefix(f'{PREFIX}.')}.{named.__name__}"
        return f"{name}({','.join(map(written, parts))})"
    return str(kind)


def read(text: str) -> Any:
    """The type of ``written``."""
    if text.endswith(")"):
        name, _, inside = text[:-1].partition("(")
        parts = tuple(map(read, _split(inside)))
        if not name:
            return types.Tuple(parts)
        module, _, class_name = name.rpartition(".")
        named = getattr(import_module(f"{PREFIX}.{module}"), class_name)
        alike = len(set(parts)) == 1
        return types.NamedUniTuple(parts[0], len(parts), named) if alike else types.NamedTuple(parts, named)
    array = re.fullmatch(r"(\w+):(\d+)([ACF])(-?)", text)
    if array:
        dtype, ndim, layout, read_only = array.groups()
        return types.Array(getattr(types, dtype), int(ndim), layout, readonly=bool(read_only))  # type: ignore[arg-type]
    return types.boolean if text == "bool" else getattr(types, text)


def _split(inside: str) -> list[str]:
    """At the commas outside of inner parentheses."""
    parts, depth = [""], 0
    for letter in inside:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part for part in parts if part]


def fill(folder: Path, part: int, parts: int) -> None:
    """Compile every ``parts``-th listed call into the folder, from the one of number ``part`` on."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: kernel.ready() if isinstance(kernel, Deferred) else kernel for name, kernel in kernels()}
    for kernel in found.values():
        if isinstance(kernel, Dispatcher):
            vars(kernel)["_cache"].keep_in(folder)
    for line in LISTED.read_text().splitlines()[part::parts]:
        name, *signature = line.split()
        found[name].compile(tuple(map(read, signature)))
