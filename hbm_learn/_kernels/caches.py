"""Where compiled kernels are kept: those compiled when the package was built, then a folder of the user's.

numba's own cache refuses to import a function if no folder can be written, and fails a call if the disk is full or a
file is damaged. None of this is a reason not to compute. Its index names files by number, so that two processes that
compile at once can leave an entry that leads to the other's code; and it looks at the file of a kernel alone, not at
those of the kernels that are compiled into it. Here each compiled function is a file of its own, which begins with all
that it holds for: versions, the sources of all kernels, signature, processor and its features. What does not agree is
compiled anew.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import llvmlite  # type: ignore[import-untyped]
import numba
import numpy as np
from numba.core.caching import CacheImpl, CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.serialize import dumps

HERE = Path(__file__).parent
# Filled by ``ahead`` when a wheel is built, and never written afterwards.
AHEAD = HERE / "ahead_of_time"


@cache
def stamp() -> tuple[str, ...]:
    """What compiled code depends on beside its signature and the processor."""
    sources = hashlib.sha256()
    for path in sorted(HERE.glob("*.py")):
        sources.update(path.read_bytes())
    svml = str(numba.config.USING_SVML)  # type: ignore[attr-defined]
    return numba.__version__, llvmlite.__version__, np.__version__, svml, sources.hexdigest()


class Files:
    """Compiled functions by their keys, a file each: looked for in several folders, kept in the last."""

    def __init__(self, folders: Sequence[Path], base: str) -> None:
        self.folders, self.base = folders, base

    def _path(self, folder: Path, key: Any) -> Path:
        return folder / f"{self.base}.{hashlib.sha256(repr(key).encode()).hexdigest()[:20]}.nbk"

    def load(self, key: Any) -> Any:
        """The data under a key, or None. A file that is damaged, or of other sources, is as good as none."""
        for folder in self.folders:
            with suppress(Exception), open(self._path(folder, key), "rb") as file:
                # a pickle that was cut off raises nearly anything
                if pickle.load(file) == stamp() and pickle.load(file) == key:
                    return pickle.load(file)
        return None

    def save(self, key: Any, data: Any) -> None:
        """Keep it, whole or not at all."""
        path = self._path(self.folders[-1], key)
        part = path.with_name(f"{path.name}.{uuid4().hex[:12]}")
        try:
            part.write_bytes(dumps(stamp()) + dumps(key) + dumps(data))
            part.replace(path)
        except OSError:
            part.unlink(missing_ok=True)
            raise


class Nowhere(_CacheLocator):
    """Where no folder can be written: what was compiled ahead is still read."""

    def __init__(self, function: Any) -> None:
        self._lineno = function.__code__.co_firstlineno

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> Nowhere:
        """The last resort, which is there for every function."""
        return cls(py_func)

    def get_cache_path(self) -> str:
        """No folder, nor can one be made there."""
        return os.path.join(os.devnull, "nowhere")

    def get_source_stamp(self) -> None:
        """``stamp`` is what files are compared with."""

    def get_disambiguator(self) -> str:
        """As numba's own."""
        return str(self._lineno)


class Kept(CompileResultCacheImpl):
    """numba's choice of a folder: NUMBA_CACHE_DIR, beside the source, or the user's cache folder; or none."""

    def __init__(self, function: Any) -> None:
        self._locator_classes: list[Any] = [*vars(CacheImpl)["_locator_classes"], Nowhere]
        super().__init__(function)


class KernelCache(FunctionCache):
    """A cache of compiled code that is as good as empty where it cannot be read or written."""

    _impl_class = Kept

    def __init__(self, function: Any) -> None:
        super().__init__(function)
        self._writable = True
        self._cache_file: Any = Files([AHEAD, Path(self._cache_path)], self._impl.filename_base)

    def keep_in(self, folder: Path) -> None:
        """Read and write this folder alone."""
        self._cache_file = Files([folder], self._impl.filename_base)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled function, or None, which has it compiled anew."""
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # code that cannot be linked here
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep it, if there is room."""
        if self._writable:
            try:
                super().save_overload(sig, data)
            except Exception:  # no folder, a full disk, or a folder that is read-only by now
                self._writable = False
