"""The build of a wheel: after the files are copied, kernels are compiled for this machine and put beside them.

It is a head start and nothing else: where it fails, or the wheel comes to another processor, Python or numba, kernels
are compiled when they are first called. All else about the package is in ``pyproject.toml``.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# The kernels without the rest of the package, whose dependencies are not there while it is built.
ALONE = """
import pathlib, sys, types
package = types.ModuleType("hbm_learn")
package.__path__ = [sys.argv[1]]
sys.modules["hbm_learn"] = package
from hbm_learn._kernels.ahead import fill
fill(pathlib.Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
"""
SECONDS = 900


class BuildWithKernels(build_py):
    """Copies the package, then fills ``hbm_learn/_kernels/ahead_of_time``."""

    def run(self):
        super().run()
        if self.editable_mode:  # the source tree has a cache of its own, and changes
            return
        package = Path(self.build_lib).resolve() / "hbm_learn"
        folder = package / "_kernels" / "ahead_of_time"
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier build
        try:
            _compile(package, folder)
        except Exception as error:
            print(f"kernels are not compiled ahead, but when they are first called: {error}", file=sys.stderr)
            shutil.rmtree(folder, ignore_errors=True)


def _compile(package, folder):
    """Fill the folder, by as many processes as there are cores, up to four."""
    parts = min(os.cpu_count() or 1, 4)
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("NUMBA_DISABLE_JIT", None)
    command = [sys.executable, "-c", ALONE, str(package), str(folder)]
    running = [subprocess.Popen([*command, str(part), str(parts)], env=environment) for part in range(parts)]
    try:
        for process in running:
            if process.wait(SECONDS):
                raise RuntimeError(f"the compilation ended with status {process.returncode}")
    finally:
        for process in running:
            process.kill()
            process.wait()


setup(cmdclass={"build_py": BuildWithKernels})
