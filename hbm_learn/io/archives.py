"""Archives: .npz files whose members are looked at, and found to be what they say, before any of them is read.

A zip file of a few kilobytes can claim, or hold, arrays of any size. What a member would take in memory stands in its
header and in the directory of the archive; both must agree, and stay below a limit, before memory is taken.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from math import prod
from os import PathLike
from types import TracebackType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from hbm_learn._validation import memory

# What damaged and foreign files make readers raise, beside what this module raises itself.
DAMAGED = (
    OSError,
    KeyError,
    ValueError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    AttributeError,
    TypeError,
    OverflowError,
    SyntaxError,
)
# Most members that an archive of ours or of a table has.
_MAX_MEMBERS = 1000


class Archive:
    """An open .npz file, as ``numpy.load`` gives it, that refuses members which lie about their size or hold objects.

    Parameters
    ----------
    path : str or path
        The file.
    limit : int
        Bytes that one member may take in memory; that of the machine by default.

    Attributes
    ----------
    files : list of str
        Names of the arrays.
    """

    def __init__(self, path: str | PathLike[str], limit: int | None = None):
        self.limit = memory() if limit is None else limit
        self._file = open(os.fspath(path), "rb")  # noqa: SIM115 - closed by __exit__
        try:
            self._zip = zipfile.ZipFile(self._file)
            members = self._zip.infolist()
        except BaseException:
            self._file.close()
            raise
        if len(members) > _MAX_MEMBERS:
            self._file.close()
            raise ValueError(f"it holds {len(members):,} members, which no file of arrays does.")
        self._members = {info.filename.removesuffix(".npy"): info for info in members}
        self.files = list(self._members)

    def __enter__(self) -> Archive:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._zip.close()
        self._file.close()

    def __getitem__(self, name: str) -> np.ndarray:
        self._check(name)
        with self._zip.open(self._members[name]) as member:
            return npy.read_array(member, allow_pickle=False)

    def _check(self, name: str) -> None:
        """Refuse a member whose header and place in the archive differ, or that would take more than the limit."""
        info = self._members[name]
        with self._zip.open(info) as member:
            shape, dtype = _header(member, name)
            size, start = prod(shape) * dtype.itemsize, member.tell()
        if dtype.hasobject:
            raise ValueError(f"{name} holds Python objects, which are not read from files.")
        if min(shape, default=0) < 0 or size + start != info.file_size:
            raise ValueError(
                f"{name} says that it has shape {shape} of {dtype}, {size:,} bytes, where there are {info.file_size:,}."
            )
        if size > self.limit:
            raise ValueError(
                f"{name} would take {size / 2**30:,.1f} GiB (limit {self.limit / 2**30:,.1f} GiB): a table of such a "
                "size is read from an .npy file without being held in memory."
            )


def _header(member: Any, name: str) -> tuple[tuple[int, ...], np.dtype]:
    version = npy.read_magic(member)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name} is written in version {version} of the array format.")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(member)
    return shape, dtype
