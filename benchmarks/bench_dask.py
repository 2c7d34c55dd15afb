"""One worker process of dask against two, and what comes back to the client.

    python benchmarks/bench_dask.py [--rows 1000000] [--columns 40] [--chunks 16] [--repeats 3]

±1 columns with random pairs, as float64 that workers make for themselves, so that nothing but tasks leaves the client.
A worker is a process of one thread. Clusters of one and of two take turns, and the best of each counts; their results
are asserted to be those of the table in memory.

s 1, s 2   seconds with one worker and with two
speed-up   their ratio: 2 where nothing but rows costs anything
idle       the same for a task that only counts, on the same cores: what two processes have of this machine at all
client     bytes of all results that came here, over those of the table as float64
memory     seconds with two workers over those of the same table in memory, on all cores; workers also make the table
"""

from __future__ import annotations

import argparse
import logging
import pickle
import time
import warnings

import dask
import dask.array as da
import numpy as np
from dask import delayed

from hbm_learn import HBM, Moments, datasets, sample


def draw(chunk, rows, codes):
    """±1 rows as float64: some thousands that the model made, drawn again with a few cells turned."""
    rng = np.random.default_rng(chunk)
    kept = rng.random((rows, codes.shape[1]), dtype=np.float32) > 0.1
    return np.where(kept, 1.0, -1.0) * codes[rng.integers(len(codes), size=rows)]


def spin(n):
    """Seconds that counting takes."""
    begin, total = time.perf_counter(), 0
    for k in range(n):
        total += k
    return time.perf_counter() - begin


def tasks():
    weak = {"alphabet": (-1, 1), "order": 2, "random_state": 0}
    return {
        "moments, order 2": lambda X: Moments.from_samples(X, 2, (-1, 1)).cumulant(2),
        "moments, order 3": lambda X: Moments.from_samples(X, 3, (-1, 1)).cumulant(3),
        "closed form": lambda X: HBM(refine=None, **weak).fit(X).weights_,
        "pseudolikelihood": lambda X: HBM(refine="pseudolikelihood", alpha=1.0, **weak).fit(X).weights_,
    }


def counted(work):
    """(result, seconds, bytes that came here)."""
    compute, n_bytes = dask.compute, []

    def counting(*args, **kwargs):
        found = compute(*args, **kwargs)
        n_bytes.append(len(pickle.dumps(found)))
        return found

    dask.compute = counting
    begin = time.perf_counter()
    try:
        found = work()
    finally:
        dask.compute = compute
    return found, time.perf_counter() - begin, sum(n_bytes)


def main():
    from distributed import Client, LocalCluster

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--chunks", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    chunk_rows = args.rows // args.chunks
    model = datasets.make_random(args.columns, {2: 0.08}, 0.2, random_state=1)
    codes = sample(model, 20_000, method="gibbs", random_state=2).astype(np.int8)

    def table(rows):
        made, sent = delayed(draw, pure=False), delayed(codes, traverse=False)
        parts = [da.from_delayed(made(k, rows, sent), (rows, args.columns), float) for k in range(args.chunks)]
        return da.concatenate(parts)

    here = np.concatenate([draw(k, chunk_rows, codes) for k in range(args.chunks)])
    found = {name: [[], []] for name in tasks()}
    traffic, results, idle = {}, {}, [[], []]
    memory = {}
    for name, work in tasks().items():
        results[name] = work(here)
        begin = time.perf_counter()
        work(here)
        memory[name] = time.perf_counter() - begin
    for _ in range(args.repeats):
        for k in (1, 2):
            cluster = LocalCluster(
                n_workers=k, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL
            )
            with cluster, Client(cluster):
                counts = [delayed(spin, pure=False)(2_000_000) for _ in range(4)]
                dask.compute(*counts)
                begin = time.perf_counter()
                dask.compute(*[delayed(spin, pure=False)(2_000_000) for _ in range(4)])
                idle[k - 1].append(time.perf_counter() - begin)
                for name, work in tasks().items():
                    work(table(chunk_rows // 10))  # kernels are compiled and imported
                    there, seconds, traffic[name] = counted(lambda work=work: work(table(chunk_rows)))
                    assert np.abs(there - results[name]).max() < 1e-5, name
                    found[name][k - 1].append(seconds)
    print(f"{args.rows} x {args.columns}, {args.chunks} chunks, {8 * here.size / 1e6:.0f} MB as float64")
    print(f"{'':18s} {'s 1':>7s} {'s 2':>7s} {'speed-up':>9s} {'client':>9s} {'memory':>7s}")
    for name, (one, two) in found.items():
        a, b, share = min(one), min(two), traffic[name] / (8 * here.size)
        print(f"{name:18s} {a:7.2f} {b:7.2f} {a / b:9.2f} {share:9.4%} {b / memory[name]:7.2f}")
    print(f"{'idle':18s} {min(idle[0]):7.2f} {min(idle[1]):7.2f} {min(idle[0]) / min(idle[1]):9.2f}")


if __name__ == "__main__":
    main()
