"""Models on disk: one .npz file with plain arrays, never pickle."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Sequence
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from hbm_learn.interactions import Interactions
from hbm_learn.space import Alphabet, Interval

if TYPE_CHECKING:
    from hbm_learn.model import BoltzmannMachine

FORMAT = "hbm_learn.BoltzmannMachine"
VERSION = 1


def save(path: str | PathLike[str], model: BoltzmannMachine, feature_names: Sequence[str] | None = None) -> None:
    """Write a model, and the names of its variables beside it for whoever asks with ``load_feature_names``."""
    alphabet = model.alphabet
    names: dict[str, Any] = {}
    if feature_names is not None:
        names["feature_names"] = np.array([str(name) for name in feature_names])
    with open(path, "wb") as file:  # a handle keeps numpy from appending .npz to the name the user chose
        np.savez_compressed(
            file,
            format=np.array(FORMAT),
            version=np.array(VERSION),
            alphabet_kind=np.array(alphabet.kind),
            alphabet_values=np.array(alphabet.bounds) if alphabet.values is None else alphabet.values,
            h=model.h,
            d=model.d,
            members=model.packed.members,
            indptr=model.packed.indptr,
            weights=model.weights,
            **names,
        )


def is_model(archive: Any) -> bool:
    """Whether an open .npz archive is a model."""
    return "format" in archive.files and str(archive["format"]) == FORMAT


def load_feature_names(path: str | PathLike[str]) -> list[str] | None:
    """The names saved with a model that ``load`` could read, or None."""
    with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
        return [str(name) for name in archive["feature_names"]] if "feature_names" in archive.files else None


def load(path: str | PathLike[str], cls: type[BoltzmannMachine]) -> BoltzmannMachine:
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
            if isinstance(archive, np.ndarray) or str(archive["format"]) != FORMAT:
                raise KeyError("format")
            version = int(archive["version"])
            data = {name: archive[name] for name in archive.files}
    except OSError as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(f"{path} is damaged, or not a model saved by hbm_learn ({error}).") from error
    except (
        KeyError,
        ValueError,
        EOFError,
        zipfile.BadZipFile,
        zlib.error,
        AttributeError,
        TypeError,
    ) as error:
        raise ValueError(f"{path} is damaged, or not a model saved by hbm_learn ({error}).") from error
    if version > VERSION:
        raise ValueError(f"{path} has format version {version}; this hbm_learn reads up to {VERSION}: upgrade it.")
    try:
        return _build(data, cls)
    except (KeyError, ValueError, IndexError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error


def _build(data: dict[str, np.ndarray], cls: type[BoltzmannMachine]) -> BoltzmannMachine:
    kind, values = str(data["alphabet_kind"]), data["alphabet_values"]
    if kind not in ("finite", "interval", "real"):
        raise ValueError(f"unknown kind of alphabet {kind!r}.")
    alphabet = Alphabet(Interval(*map(float, values)) if kind == "interval" else "real" if kind == "real" else values)
    n = len(data["h"])
    members, indptr = data["members"].astype(np.intp), data["indptr"].astype(np.intp)
    tuples = [tuple(members[lo:hi].tolist()) for lo, hi in pairwise(indptr)]
    packed = Interactions.from_tuples(tuples, n)  # checks every member
    if packed.tuples != tuples:
        raise ValueError("its interactions are not sorted and distinct.")
    return cls.from_packed(data["h"], packed, data["weights"], data["d"], alphabet)
