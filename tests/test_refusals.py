"""What would not fit in memory is refused before memory is taken, with what it needs and what to do."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The address space is bounded to what the process holds and a little more: who allocates first fails with MemoryError.
CODE = """
import resource, sys
import numpy as np
import hbm_learn
from hbm_learn import HBM, Moments, invert
from hbm_learn._kernels import codes
codes.count(np.zeros((4, 2), dtype=np.uint8), np.array([0, 2]), np.array([2, 2]), np.zeros(4, dtype=np.int64))
X = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), size=(100, int(sys.argv[1])))
moments = Moments.from_samples(X, order=int(sys.argv[2]), alphabet=(-1, 1)) if "moments" in sys.argv[3] else None
held = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (held + 2**28, held + 2**28))
try:
    eval(sys.argv[3])
except ValueError as error:
    print(error)
"""
FITS = ["HBM(order={order}).fit(X)", "HBM(order={order}, refine=None).fit(X)"]
CALLS = [(n, order, call) for n, order in ((200, 4), (5000, 3)) for call in FITS]
# With fdr the sets are sifted, up to where the matrices of the nodes would not fit.
CALLS += [(n, order, "HBM(order={order}, fdr=0.05).fit(X)") for n, order in ((300, 4), (5000, 3))]
# The moments of order 4 of 200 variables are half a gigabyte, and may be had; all interactions of them may not.
CALLS += [(5000, 3, "Moments.from_samples(X, order=3)"), (200, 4, "invert(moments)")]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("n", "order", "call"), CALLS)
def test_refused_before_memory_is_taken(n, order, call):
    command = [sys.executable, "-c", CODE, str(n), str(order), call.format(order=order)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"order {order}" in done.stdout
    assert str(n) in done.stdout
    assert "GiB" in done.stdout
    assert "ower `order`" in done.stdout
    assert "drop variables" in done.stdout
    assert "limit" in done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_bound_is_one():
    """The negative control: an allocation of what a refusal says cannot be had."""
    done = subprocess.run([sys.executable, "-c", CODE, "20", "2", "np.ones(2**30)"], capture_output=True, text=True)
    assert "MemoryError" in done.stderr
