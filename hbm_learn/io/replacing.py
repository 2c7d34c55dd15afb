"""Files that are written whole or not at all: into a temporary one beside it, which then takes its place."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path to write to within the block; what was written takes the place of ``path`` if nothing was raised.

    It is on the disk before it does: neither a full disk nor a process that is killed, nor a machine, leaves a part of
    a file under the name, or loses the old one. A process that was killed may leave the temporary file, hidden.
    The temporary name ends as ``path`` does, as some writers go by that. A pipe or a device is written to directly.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        yield target
        return
    if target.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give the name of a file.")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {target.parent}.")
    temporary = target.with_name(f".{secrets.token_hex(4)}.{target.name}")
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error  # the name that the user knows
    finally:
        temporary.unlink(missing_ok=True)
