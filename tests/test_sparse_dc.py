""" "dc" and "dc2" with sparse S: the same solutions as with dense S, and no array of n² numbers."""

from __future__ import annotations

import tracemalloc
from importlib import import_module
from itertools import combinations

import numpy as np
import pytest

from hbm_learn import BoltzmannMachine, Interval, Nominal
from hbm_learn.inference import infer
from hbm_learn.inference.block_equations import BlockConsistency
from hbm_learn.inference.continuation import arrive
from hbm_learn.inference.dc2_equations import SecondOrderConsistency
from hbm_learn.inference.dc_equations import DiagonalConsistency
from hbm_learn.inference.free_energy import scalar_density, sparse_density
from hbm_learn.inference.sparse_equations import SparseConsistency, SparseSecondOrder, sparse_problem

SPINS, TERNARY = (-1, 1), (-1, 0, 1)


def grid(rows, columns, alphabet=SPINS, sets=("pairs",), strength=0.4, seed=0):
    """Neighbours on a square lattice, triplets in its corners and quadruplets in every other face, as named."""
    rng = np.random.default_rng(seed)
    at = np.arange(rows * columns).reshape(rows, columns).tolist()
    couplings = {}
    for i in range(rows):
        for j in range(columns):
            right, below = j + 1 < columns, i + 1 < rows
            if "pairs" in sets:
                couplings |= {(at[i][j], at[i][j + 1]): rng.normal()} if right else {}
                couplings |= {(at[i][j], at[i + 1][j]): rng.normal()} if below else {}
            if right and below and "triplets" in sets:
                couplings[at[i][j], at[i][j + 1], at[i + 1][j]] = rng.normal()
            if right and below and (i + j) % 2 and "quadruplets" in sets:
                couplings[at[i][j], at[i][j + 1], at[i + 1][j], at[i + 1][j + 1]] = rng.normal()
    couplings = {mu: strength * value for mu, value in couplings.items()}
    return BoltzmannMachine(rng.normal(0, 0.3, rows * columns), couplings, alphabet=alphabet)


def labels(n=9):
    rng = np.random.default_rng(5)
    ring = [(i, i + 1) for i in range(n - 1)] + [(0, n - 1), (2, 6)]
    sizes = [2 + i % 3 for i in range(n)]
    couplings = {mu: rng.normal(0, 0.5, [sizes[i] for i in mu]) for mu in ring}
    return BoltzmannMachine(np.zeros(n), couplings, alphabet=[Nominal(*"abcd"[:q]) for q in sizes])


MODELS = {
    "spins": grid(5, 6),
    "strong": grid(4, 5, strength=0.8),
    "ternary": grid(5, 6, TERNARY),
    "interval": grid(4, 5, Interval(-1, 2)),
    "labels": labels(),
    "triplets": grid(4, 5, TERNARY, ("pairs", "triplets")),
    "quadruplets": grid(4, 5, SPINS, ("pairs", "triplets", "quadruplets"), strength=0.3),
}


@pytest.mark.parametrize("name", MODELS)
def test_sparse_equals_dense(name):
    model = MODELS[name]
    dense = DiagonalConsistency(model) if model.space.is_scalar else BlockConsistency(model)
    pairs = [(SparseConsistency(model), dense)]
    if model.order > 2:
        pairs.append((SparseSecondOrder(model), SecondOrderConsistency(model)))
    for problems in pairs:
        ends = [arrive(problem, tol=1e-12, max_evaluations=500) for problem in problems]
        assert all(end.path.arrived and end.residual < 1e-10 for end in ends)
        sparse, full = (end.point for end in ends)
        np.testing.assert_allclose(ends[0].u, ends[1].u, atol=1e-9)
        np.testing.assert_allclose(sparse.chi, full.chi, atol=1e-9)
        np.testing.assert_allclose(sparse.closed_form, full.closed_form, rtol=1e-12)


@pytest.mark.parametrize("name", ["ternary", "labels", "triplets"])
def test_preconditioner_solves_the_first_equations(name):
    """∂R₁ of what it gives for r is r₁, off the solution too."""
    model, rng = MODELS[name], np.random.default_rng(1)
    sparse, dense = SparseConsistency(model), BlockConsistency(model)
    u, r = 0.1 * rng.normal(size=len(sparse.start)), rng.normal(size=len(sparse.start))
    point = sparse.evaluate(u, 0.7)
    np.testing.assert_allclose((dense.evaluate(u, 0.7).jacobian @ point.precondition(r))[: sparse.n], r[: sparse.n])


@pytest.mark.parametrize("name", ["triplets", "quadruplets"])
def test_integrand(name):
    """g_κα′ − ½αT:χ m′ from strips of χ, at any point and velocity."""
    model, rng = MODELS[name], np.random.default_rng(2)
    sparse, dense = SparseConsistency(model), DiagonalConsistency(model)
    u, velocity = 0.1 * rng.normal(size=len(sparse.start)), rng.normal(size=len(sparse.start) + 1)
    found = sparse_density(sparse.evaluate(u, 0.7), velocity)
    np.testing.assert_allclose(found, scalar_density(dense.evaluate(u, 0.7), velocity), rtol=1e-10)


def test_chosen_by_size_and_neighbours():
    lattice = grid(18, 18)
    assert sparse_problem(lattice) is not None
    assert sparse_problem(lattice, size=324) is None
    n = 310
    rng = np.random.default_rng(3)
    dense = {mu: 0.01 * rng.normal() for mu in combinations(range(n), 2)}
    assert sparse_problem(BoltzmannMachine(np.zeros(n), dense)) is None
    ends = rng.permuted(np.tile(np.arange(n), (10, 1)), axis=1)  # a random graph, whose factor fills up
    graph = {(min(a, b), max(a, b)): 0.1 for row in ends for a, b in zip(row[::2].tolist(), row[1::2].tolist())}
    assert sparse_problem(BoltzmannMachine(np.zeros(n), graph)) is None
    real = BoltzmannMachine(np.zeros(n), {(i, i + 1): 0.1 for i in range(n - 1)}, d=1.0, alphabet="real")
    assert sparse_problem(real) is None
    assert isinstance(sparse_problem(grid(18, 18, SPINS, ("triplets",)), second=True), SparseSecondOrder)


def test_results_of_large_models():
    """By ``infer``: sparse and dense agree, with ln Z of triplets to the accuracy of velocities."""
    model = grid(18, 18, SPINS, ("pairs", "triplets"), strength=0.2)
    with pytest.MonkeyPatch.context() as patch:
        found = {("dc", True): infer(model, "dc"), ("dc2", True): infer(model, "dc2", response="consistent")}
        for method in ("dc", "dc2"):
            module = import_module(f"hbm_learn.inference.{method}")  # the package has a function of that name
            patch.setattr(module, "sparse_problem", lambda *args, **options: None)
        found |= {("dc", False): infer(model, "dc"), ("dc2", False): infer(model, "dc2", response="consistent")}
    for method in ("dc", "dc2"):
        ours, dense = found[method, True], found[method, False]
        assert ours.converged
        for name in ("m", "v", "chi", "Lambda"):
            np.testing.assert_allclose(getattr(ours, name), getattr(dense, name), atol=1e-9)
        np.testing.assert_allclose(ours.log_partition, dense.log_partition, rtol=1e-8)


@pytest.mark.parametrize(("method", "sets"), [("dc", ("pairs",)), ("dc2", ("pairs", "triplets"))])
def test_large_in_little_memory(method, sets):
    infer(grid(18, 18, SPINS, sets, 0.1), method, **({"response": "consistent"} if method == "dc2" else {}))  # compiles
    model = grid(50, 60, SPINS, sets, strength=0.1)
    tracemalloc.start()
    result = infer(model, method)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.converged
    assert result.chi is None
    assert peak < 3000**2 * 8  # one dense matrix
