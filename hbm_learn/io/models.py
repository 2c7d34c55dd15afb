"""Models on disk: one .npz file with plain arrays, never pickle.

Version 2 holds, for n variables with a different alphabets among them:

    kind, dtype (a,), value_ptr (a + 1,)                      the alphabets
    value, value_type (Σ q,)                                  their values as text, and what they are
    alphabet, n_functions (n,)                                which alphabet each variable has, and how many functions
    functions (Σ q_i r_i,)                                    φ, if they are not those of the coding gauge
    h, d, has_site (n,), site                                 the variables' own weights, tables one after another
    members, indptr, weights                                  the interacting sets of columns

Version 3, for models with given variables alone, has beside that

    given (n,), anchors (n, 2)                                which are given, and where a real one's function is known

Version 1, of variables that share one numeric alphabet, is read as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from hbm_learn.interactions import Interactions
from hbm_learn.io.archives import DAMAGED, Archive
from hbm_learn.io.replacing import replacing
from hbm_learn.space import Alphabet, Interval, Nominal, Space

FORMAT = "hbm_learn.BoltzmannMachine"
VERSION = 3
# What a file may hold; anything else in it is left unread. Text is short, numbers take what interactions may.
TEXTS = ("format", "kind", "dtype", "value", "value_type", "feature_names", "alphabet_kind")
NUMBERS = (
    *("version", "value_ptr", "alphabet", "alphabet_values", "n_functions", "functions"),
    *("h", "d", "has_site", "site", "members", "indptr", "weights", "given", "anchors"),
)
MAX_TEXT, MAX_NUMBERS = 2**28, 2**32
# What a value may be, and how it is read from text; bool before int, as True is an int.
LABELS: dict[str, tuple[type, Callable[[str], Any]]] = {
    "bool": (bool, lambda text: text == "True"),
    "int": (int, int),
    "float": (float, float),
    "str": (str, str),
}


def save(path: str | PathLike[str], model: Any, feature_names: Sequence[str] | None = None) -> None:
    """Write a BoltzmannMachine, and the names of its variables for whoever asks with ``load_feature_names``."""
    space, tables = model.space, [table for table in model.site if table is not None]
    arrays: dict[str, Any] = {
        "format": np.array(FORMAT),
        "version": np.array(VERSION if space.has_given else 2),  # which older releases read
        **_alphabets(space),
        "n_functions": np.diff(space.column_ptr),
        "h": model.h,
        "d": model.d,
        "has_site": np.array([table is not None for table in model.site]),
        "site": np.concatenate([np.zeros(0), *tables]),
        "members": model.columns.members,
        "indptr": model.columns.indptr,
        "weights": model.column_weights,
    }
    if space.has_given:
        arrays["given"] = space.given
        arrays["anchors"] = np.array([space.anchors.get(i, (0.0, 0.0)) for i in range(space.n_features)])
    if not space.is_coding:
        arrays["functions"] = np.concatenate([table.ravel() for table in space.functions if table is not None])
    if feature_names is not None:
        arrays["feature_names"] = np.array([str(name) for name in feature_names])
    with replacing(path) as temporary, open(temporary, "wb") as file:  # a handle: numpy would append .npz to a name
        np.savez_compressed(file, **arrays)


def _alphabets(space: Space) -> dict[str, np.ndarray]:
    """Which alphabet each variable has, and the values of the different ones as text."""
    number: dict[Alphabet, int] = {}
    which = [number.setdefault(alphabet, len(number)) for alphabet in space.alphabets]
    texts, types, pointers = [], [], [0]
    for alphabet, a in number.items():
        values = list(alphabet.bounds) if alphabet.values is None else alphabet.values.tolist()
        for value in values:
            types.append(_type_of(value, alphabet, which.index(a)))
            texts.append(str(value))
        pointers.append(len(texts))
    dtypes = ["" if a.values is None or a.is_nominal else a.values.dtype.str for a in number]
    return {
        "alphabet": np.array(which),
        "kind": np.array([alphabet.kind for alphabet in number]),
        "dtype": np.array(dtypes),
        "value": np.array(texts),
        "value_type": np.array(types),
        "value_ptr": np.array(pointers),
    }


def _type_of(value: Any, alphabet: Alphabet, i: int) -> str:
    for name, (kind, _) in LABELS.items():
        if isinstance(value, kind) and "\0" not in str(value):
            return name
    raise ValueError(
        f"variable {i} has the label {value!r}, which a file cannot hold: labels are str, int, float or bool; rename "
        f"them with model.with_alphabet(…) ({alphabet})."
    )


def is_model(archive: Any) -> bool:
    """Whether an open .npz archive is a model."""
    return "format" in archive.files and str(archive["format"]) == FORMAT


def load_feature_names(path: str | PathLike[str]) -> list[str] | None:
    """The names saved with a model that ``load`` could read, or None."""
    with Archive(path, MAX_TEXT) as archive:
        return [str(name) for name in archive["feature_names"]] if "feature_names" in archive.files else None


def load(path: str | PathLike[str], cls: Any) -> Any:
    """The model, of class BoltzmannMachine, that ``save`` wrote; ValueError for any other file."""
    try:
        with Archive(path, MAX_TEXT) as archive:
            if not is_model(archive):
                raise ValueError("it lacks the format of one")
            version = int(archive["version"])
            data = {name: archive[name] for name in archive.files if name in TEXTS}
            archive.limit = MAX_NUMBERS
            data |= {name: archive[name] for name in archive.files if name in NUMBERS}
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except DAMAGED as error:
        raise ValueError(f"{path} is damaged, or not a model saved by hbm_learn ({error}).") from error
    if version > VERSION:
        raise ValueError(f"{path} has format version {version}; this hbm_learn reads up to {VERSION}: upgrade it.")
    try:
        return _build(_from_version_1(data) if version == 1 else data, cls)
    except KeyError as error:
        raise ValueError(f"{path} is damaged: it lacks {error}.") from error
    except (ValueError, IndexError, TypeError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _from_version_1(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The same model as version 2 holds it."""
    n, values = len(data["h"]), data["alphabet_values"]
    one = np.ones(n, dtype=np.intp)
    return {
        **{name: data[name] for name in ("h", "d", "members", "indptr", "weights")},
        "alphabet": 0 * one,
        "n_functions": one,
        "kind": np.array([str(data["alphabet_kind"])]),
        "dtype": np.array([values.dtype.str]),
        "value": np.array([str(value) for value in values.tolist()]),
        "value_type": np.array(["int" if values.dtype.kind == "i" else "float"] * len(values)),
        "value_ptr": np.array([0, len(values)]),
        "has_site": one < 0,
        "site": np.zeros(0),
    }


def _build(data: dict[str, np.ndarray], cls: Any) -> Any:
    space = _space(data)
    n = space.n_features
    h, d, has_site = _finite(data, "h", n), _finite(data, "d", n), _vector(data, "has_site", "b", n)
    sizes = np.where(has_site, space.sizes, 0)
    flat = np.split(_finite(data, "site", int(sizes.sum())), np.cumsum(sizes)[:-1])
    site = tuple(table.copy() if there else None for table, there in zip(flat, has_site))
    if (has_site & (space.sizes == 0)).any() or (has_site & space.given).any():
        raise ValueError("it gives a table of weights to a continuous variable, or to one that is given.")
    columns = _columns(data, space)
    return cls.from_parts(space, (h, d, site), columns, _finite(data, "weights", len(columns)))


def _space(data: dict[str, np.ndarray]) -> Space:
    """The variables, with the functions of the coding gauge unless others were saved."""
    ptr, kinds = _vector(data, "value_ptr", "iu"), data["kind"].tolist()
    texts, types, dtypes = data["value"].tolist(), data["value_type"].tolist(), data["dtype"].tolist()
    if len(texts) != len(types) or len(ptr) != len(kinds) + 1 or (np.diff(ptr) < 0).any() or ptr[-1] != len(texts):
        raise ValueError("its alphabets do not fit together.")
    values = [LABELS[kind][1](text) for kind, text in zip(types, texts)]
    distinct = [_alphabet(k, values[lo:hi], t) for k, lo, hi, t in zip(kinds, ptr[:-1], ptr[1:], dtypes, strict=True)]
    which = _vector(data, "alphabet", "iu")
    if not len(which) or which.min() < 0 or which.max() >= len(distinct):
        raise ValueError("a variable has an alphabet that is not there.")
    counts = _vector(data, "n_functions", "iu", len(which))
    given, anchors = _given(data, [distinct[a].is_finite for a in which])
    space = Space.of([distinct[a] for a in which], len(which), counts.tolist(), given, anchors)
    if not np.array_equal(np.diff(space.column_ptr), counts):
        raise ValueError("a variable has a number of functions that its values do not allow.")
    if "functions" not in data:
        return space
    lengths = space.sizes * counts
    flat = np.split(_finite(data, "functions", int(lengths.sum())), np.cumsum(lengths)[:-1])
    shapes = zip(flat, space.sizes, counts)
    return space.with_functions([table.reshape(q, r).copy() if q else None for table, q, r in shapes])


def _given(data: dict[str, np.ndarray], listed: list[bool]) -> tuple[np.ndarray | None, dict[int, tuple[float, float]]]:
    """Which variables are given, and the anchors of those without a list of values."""
    if "given" not in data:
        return None, {}
    given, anchors = _vector(data, "given", "b", len(listed)), data["anchors"]
    lines = np.flatnonzero(given & ~np.array(listed))
    if anchors.shape != (len(listed), 2) or not np.isfinite(anchors).all() or given.all():
        raise ValueError("its given variables do not fit together.")
    if not (np.diff(anchors[lines], axis=1) > 0).all():
        raise ValueError("a given variable has no two anchors.")
    return given, {int(i): (float(anchors[i, 0]), float(anchors[i, 1])) for i in lines}


def _alphabet(kind: str, values: list[Any], dtype: str) -> Alphabet:
    if kind == "nominal":
        return Alphabet(Nominal(*values))
    if kind == "finite" and np.dtype(dtype).kind not in "iuf":
        raise ValueError(f"its values are of the type {dtype!r}, which is none of numbers.")
    if kind == "finite":
        return Alphabet(np.array(values, dtype=dtype))
    if kind == "interval":
        return Alphabet(Interval(*map(float, values)))
    if kind == "real":
        return Alphabet("real")
    raise ValueError(f"unknown kind of alphabet {kind!r}.")


def _columns(data: dict[str, np.ndarray], space: Space) -> Interactions:
    """The sets of columns, every one checked."""
    members, indptr = _vector(data, "members", "iu"), _vector(data, "indptr", "iu")
    sizes = np.diff(indptr)
    if (
        not len(indptr)
        or indptr[0] != 0
        or indptr[-1] != len(members)
        or (sizes < 2).any()
        or (np.diff(sizes) < 0).any()
    ):
        raise ValueError("its interactions do not fit together.")
    if len(members) and (members.min() < 0 or members.max() >= space.n_columns):
        raise ValueError(f"an interaction has a member beyond the {space.n_columns} functions that there are.")
    columns = Interactions(members.astype(np.intp), indptr.astype(np.intp), space.n_columns)
    for k in columns.orders:
        block = columns.block(k)
        if (np.diff(space.site[block], axis=1) <= 0).any():
            raise ValueError("the members of an interaction are not ascending, at different variables.")
        step = np.diff(block, axis=0)
        first = np.take_along_axis(step, (step != 0).argmax(axis=1)[:, None], axis=1)
        if (first <= 0).any():
            raise ValueError("its interactions are not sorted and distinct.")
    return columns


def _finite(data: dict[str, np.ndarray], name: str, size: int) -> np.ndarray:
    """(size,) a copy of finite numbers."""
    vector = _vector(data, name, "f", size).astype(np.float64)
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} has entries that are not finite.")
    return vector


def _vector(data: dict[str, np.ndarray], name: str, kinds: str, size: int | None = None) -> np.ndarray:
    vector = data[name]
    if vector.ndim != 1 or vector.dtype.kind not in kinds or (size is not None and len(vector) != size):
        raise ValueError(f"{name} has shape {vector.shape} and dtype {vector.dtype}.")
    return vector
