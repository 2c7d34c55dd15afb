"""Compressed tables are looked at before they are read: what they unpack to must stay below a limit.

A file of a megabyte can unpack to gigabytes. Where a directory or a footer says how much there is (Excel, Parquet,
SPSS), that is compared with the limit; a stream is unpacked into a small buffer and counted, up to the limit.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from hbm_learn._validation import memory

# Whatever the memory, so much may always be unpacked.
_HARMLESS = 2**28
# The share of the memory that a table may unpack to: parsed, it takes a few times as much.
_SHARE = 4
# No deflated stream unpacks to more than this many times its size.
_DEFLATE = 1032
_PIECE = 2**20
STREAMS: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def limit() -> int:
    """Bytes that a compressed table may unpack to: a quarter of the memory, and at least 256 MiB."""
    return max(_HARMLESS, memory() // _SHARE)


def check(path: Path) -> None:
    """ValueError, with size, limit and remedy, where a table would unpack to more than the limit."""
    suffix, most = path.suffix.lower(), limit()
    if suffix in (".gz", ".xlsx") and path.stat().st_size * _DEFLATE <= most:
        return
    if suffix == ".xlsx":
        with zipfile.ZipFile(path) as archive:
            _refuse(sum(info.file_size for info in archive.infolist()), most)
            _refuse(_counted(_members(archive), most), most)  # the directory may lie
    elif suffix in (".parquet", ".pq"):
        _refuse(_parquet_size(path), most)
    elif suffix in (".sav", ".zsav"):
        _refuse(_spss_size(path), most)
    elif suffix in STREAMS:
        with STREAMS[suffix](path) as stream:
            _refuse(_counted(_pieces(stream), most), most)


def _counted(pieces: Iterator[int], most: int) -> int:
    """Bytes of a stream, up to a little more than ``most``."""
    total = 0
    for size in pieces:
        total += size
        if total > most:
            break
    return total


def _pieces(stream: IO[bytes]) -> Iterator[int]:
    while piece := stream.read(_PIECE):
        yield len(piece)


def _members(archive: zipfile.ZipFile) -> Iterator[int]:
    for info in archive.infolist():
        with archive.open(info) as member:
            yield from _pieces(member)


def _parquet_size(path: Path) -> int:
    """By the footer: pages as they unpack, and 8 bytes a value, which a run of equal ones takes in memory, too."""
    with suppress(ImportError):  # the reader says so
        from pyarrow import parquet

        footer: Any = parquet.read_metadata(path)
        pages = sum(footer.row_group(k).total_byte_size for k in range(footer.num_row_groups))
        return int(max(pages, 8 * footer.num_rows * footer.num_columns))
    return 0


def _spss_size(path: Path) -> int:
    """By the header: 8 bytes a value."""
    with suppress(ImportError):
        import pyreadstat

        with suppress(pyreadstat.ReadstatError):  # likewise
            _, meta = pyreadstat.read_sav(str(path), metadataonly=True)
            return int(8 * (meta.number_rows or 0) * (meta.number_columns or 0))
    return 0


def _refuse(size: int, most: int) -> None:
    if size > most:
        raise ValueError(
            f"unpacked, it takes {size / 2**30:,.2f} GiB or more, where the limit is {most / 2**30:,.2f} GiB (a "
            "quarter of the memory): unpack it, and give the rows to partial_fit part by part."
        )
