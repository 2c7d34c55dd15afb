"""Sums of products by packed bits beside what the processor and its memory can do: python benchmarks/bench_bits.py

One core. Two bounds, measured in turns with ours in the same run: AND, popcount and addition of words that never leave
registers and the first cache; and one reading of the table, a byte an entry. *sums* are the kernel alone, *moments*
``Moments.from_samples`` of checked samples, which also reads the table and packs it. What is given is the time beside
that of the larger bound, best of five. Order 4 at n = 400 would be 10⁹ sums, 8 GiB: its kernel is run on one in 500 of
the tails (k, l), to the same bound for as many words; at n = 399, the most that is allowed, moments would take minutes.
"""

from __future__ import annotations

import os

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[name] = "1"

import time  # noqa: E402
from collections.abc import Callable  # noqa: E402
from functools import partial  # noqa: E402
from math import comb  # noqa: E402
from typing import Any  # noqa: E402

import numba  # noqa: E402
import numpy as np  # noqa: E402

from hbm_learn import Moments  # noqa: E402
from hbm_learn._kernels import bits  # noqa: E402
from hbm_learn._kernels.symmetric import multisets, packed_size  # noqa: E402
from hbm_learn.data import sums  # noqa: E402
from hbm_learn.data.integer_coding import Coding  # noqa: E402
from hbm_learn.data.samples import Samples  # noqa: E402

ROWS = 2**16
REPEATS = 5
popcount = bits.popcount.ready()


@numba.njit
def registers(words: np.ndarray, times: int) -> int:
    """8 × times × len(words) ANDs, popcounts and additions: a load for eight of them."""
    a, b, c, d, e, f, g, h = words[:8]
    t0 = t1 = t2 = t3 = t4 = t5 = t6 = t7 = np.uint64(0)
    for _ in range(times):
        a, h = h, a + np.uint64(1)  # something new each time
        for w in range(len(words)):
            word = words[w]
            t0 += popcount(word & a)
            t1 += popcount(word & b)
            t2 += popcount(word & c)
            t3 += popcount(word & d)
            t4 += popcount(word & e)
            t5 += popcount(word & f)
            t6 += popcount(word & g)
            t7 += popcount(word & h)
    return t0 + t1 + t2 + t3 + t4 + t5 + t6 + t7


def seconds(contestants: list[Callable[[], Any]]) -> list[float]:
    """Best processor seconds of each, in turns, after a call of each that may compile."""
    best = [np.inf] * len(contestants)
    for turn in range(REPEATS + 1):
        for c, work in enumerate(contestants):
            begin = time.process_time()
            work()
            best[c] = min(best[c], time.process_time() - begin) if turn else np.inf
    return best


def some_of_order_four(planes: np.ndarray, n: int) -> tuple[Callable[[], None], int]:
    """The kernel on one in 500 of the tails, and the number of sums."""
    tails = np.ascontiguousarray(multisets(n, 2)[250::500])
    sizes = [packed_size(int(k) + 1, 2) for k in tails[:, 0]]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    out, one = np.zeros(starts[-1], dtype=np.int64), np.ones(1, dtype=np.int64)
    return lambda: bits.add_products(planes, one, one, tails, starts[:-1], n, 0, 1, out), int(starts[-1])


def measure(n: int, order: int, values: tuple[int, ...]) -> None:
    X = np.random.default_rng(0).choice(np.array(values, dtype=np.int8), size=(ROWS, n))
    samples = Samples.check(X, values)
    coding = Coding.of(samples.space, order).planes
    codes = next(iter(samples.blocks(ROWS)))[0]
    planes = sums._pack(codes, coding)
    B = len(coding.shared)
    if comb(n + order - 1, order) > 10**8:
        kernel, n_sums = some_of_order_four(planes, n)
        moments = None
    else:
        kernel = partial(sums._bit_sum, planes, n, coding.shared, order, coding.signed)
        n_sums = comb(n + order - 1, order)
        moments = partial(Moments.from_samples, samples, order=order)
    # AND and popcount of two words where signs are apart from zeros, of all choices of planes where they are digits
    words = ROWS // 64 * n_sums * (2 if coding.signed else B**order)
    some = np.random.default_rng(1).integers(0, 2**63, 512, dtype=np.uint64)
    times = 2000
    contestants = [partial(registers, some, times), codes.max, kernel] + [moments] * (moments is not None)
    rate, read, ours, *rest = seconds(contestants)
    bound = rate / (8 * times * len(some)) * words
    print(f"{len(values)} values, order {order}, n = {n:3}  {words:8.2g} words  bounds {1e3 * bound:8.2f}", end="")
    print(f" {1e3 * read:6.2f} ms  sums {1e3 * ours:8.2f} ms {ours / bound:5.2f} ×", end="")
    if rest:
        print(f"  moments {1e3 * rest[0]:8.2f} ms {rest[0] / max(bound, read):5.2f} ×", end="")
    print(f"  {1e9 * ours / words:.3f} ns a word", flush=True)


def main() -> None:
    for values, shapes in (
        ((-1, 1), ((100, 2), (400, 2), (100, 3), (400, 3), (100, 4), (400, 4))),
        ((-1, 0, 1), ((100, 2), (100, 3))),
        ((0, 1, 2, 3), ((100, 2), (100, 3))),
    ):
        for n, order in shapes:
            measure(n, order, values)


if __name__ == "__main__":
    main()
