"""Bethe with diagonal consistency: trees, its equations from their definition, derivatives, sparse and dense."""

from __future__ import annotations

import tracemalloc
from itertools import combinations

import numpy as np
import pytest
from oracle import SPACES, random_mixed, random_model
from scipy.optimize import minimize
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Interactions, Interval, Nominal
from hbm_learn.inference import infer
from hbm_learn.inference.bethe_equations import BetheConsistency
from hbm_learn.inference.continuation import arrive, follow
from hbm_learn.inference.factors import find_factors
from hbm_learn.inference.jacobian_free import JacobianFree
from hbm_learn.inference.sparse_inverse import SparseInverse

TREE_ALPHABETS = [(-1, 1), (0, 1, 3), Nominal("a", "b", "c"), (-1, 0, 1)]


@pytest.fixture(autouse=True)
def _one_blas_thread():
    """The matrices are small: threads only contend."""
    with threadpool_limits(1):
        yield


def tree(seed, most_states=40_000):
    """A random tree of interactions of orders 2 to 4, some with interactions within them; variables of every kind."""
    rng = np.random.default_rng(seed)
    alphabets, couplings, states = [TREE_ALPHABETS[rng.integers(4)]], {}, 3
    while True:
        k, root = int(rng.integers(2, 5)), int(rng.integers(len(alphabets)))
        states *= 3 ** (k - 1)
        if states > most_states:
            break
        mu = (root, *range(len(alphabets), len(alphabets) + k - 1))
        alphabets += [TREE_ALPHABETS[rng.integers(4)] for _ in range(k - 1)]
        inside = [sub for q in range(2, k) for sub in combinations(mu, q) if rng.random() < 0.4]
        for sets in (mu, *inside):
            shape = [3 for i in sets if isinstance(alphabets[i], Nominal)]
            size = np.prod([3.0 for i in sets if alphabets[i] == (0, 1, 3)])
            couplings[sets] = 1.2 * rng.normal(size=shape) / size
    free = np.array([not isinstance(a, Nominal) for a in alphabets])
    h, d = free * rng.normal(0, 0.4, (2, len(alphabets)))
    return BoltzmannMachine(h, couplings, d, alphabets)


def lattice(rows, columns, strength, seed, h=0.3):
    rng = np.random.default_rng(seed)
    at = np.arange(rows * columns).reshape(rows, columns)
    edges = [(at[:, :-1].ravel(), at[:, 1:].ravel()), (at[:-1].ravel(), at[1:].ravel())]
    pairs = Interactions.from_tuples([pair for a, b in edges for pair in zip(a.tolist(), b.tolist())], at.size)
    return BoltzmannMachine.from_packed(rng.normal(0, h, at.size), pairs, strength * rng.normal(size=len(pairs)))


def kinds(kind, order, strength=0.5):
    return (
        random_mixed(SPACES[kind], order, strength, seed=9)
        if isinstance(kind, str)
        else random_model(5, order, kind, strength, seed=9)
    )


# ---------------------------------------------------------------------- trees


@pytest.mark.parametrize(
    ("seed", "method"), [*((k, "bethe") for k in range(50)), *((k, "bethe2") for k in range(50, 60))]
)
def test_trees_are_exact(seed, method):
    model = tree(seed + 100)
    ours, exact = infer(model, method), infer(model, "exact")
    assert ours.converged
    for p, q in zip(ours.probabilities, exact.probabilities):
        np.testing.assert_allclose(p, q, atol=1e-10)
    np.testing.assert_allclose(ours.means, exact.means, atol=1e-10)
    np.testing.assert_allclose(ours.covariances, exact.covariances, atol=1e-9)
    np.testing.assert_allclose(ours.log_partition, exact.log_partition, atol=1e-10)
    np.testing.assert_allclose(ours.interaction_moments, exact.interaction_moments, atol=1e-9)


def test_no_couplings():
    model = BoltzmannMachine([0.3, -0.2, 0.0], {}, alphabet=[(-1, 1), (0, 1, 2), (-1, 1)])
    ours, exact = infer(model, "bethe"), infer(model, "exact")
    np.testing.assert_allclose(ours.m, exact.m, atol=1e-12)
    np.testing.assert_allclose(ours.chi, exact.chi, atol=1e-12)


# ---------------------------------------------------------------------- the equations


def factor_fields(model, mu, m):
    """x of the distribution exp(J Π x + x·fields) with means m, and its covariances: a convex minimum by another
    solver."""
    states = np.array(np.meshgrid(*[[-1, 1]] * len(mu), indexing="ij")).reshape(len(mu), -1).T
    exponent = model.couplings()[mu] * states.prod(axis=1)

    def value(x):
        e = exponent + states @ x
        p = np.exp(e - e.max())
        return e.max() + np.log(p.sum()) - x @ m, states.T @ (p / p.sum()) - m

    x = minimize(value, np.arctanh(m), jac=True, method="BFGS", options={"gtol": 1e-12}).x
    e = exponent + states @ x
    p = np.exp(e - e.max())
    p /= p.sum()
    return x, (states - m).T @ (p[:, None] * (states - m))


@pytest.mark.parametrize(
    "sets", [list(combinations(range(5), 2)), [(0, 1, 2), (1, 2, 3), (0, 3, 4)]], ids=["pairs", "triples"]
)
def test_solution(sets):
    """Σ x^μ − (deg − 1)b = h − Λm, S = Σ C_μ⁻¹ − (deg − 1)/V + Λ, [S⁻¹]_ii = V_i."""
    rng = np.random.default_rng(4)
    model = BoltzmannMachine(rng.normal(0, 0.4, 5), {mu: rng.normal(0, 0.5) for mu in sets})
    result = infer(model, "bethe")
    assert result.converged
    m, V, Lambda = result.m, 1 - result.m**2, result.Lambda
    degree = np.array([sum(i in mu for mu in sets) for i in range(5)])
    field, S = -(degree - 1) * np.arctanh(m), np.diag(Lambda - (degree - 1) / V)
    for mu in sets:
        x, C = factor_fields(model, mu, m[list(mu)])
        field[list(mu)] += x
        S[np.ix_(mu, mu)] += np.linalg.inv(C)
    np.testing.assert_allclose(field, model.h - Lambda * m, atol=1e-6)
    np.testing.assert_allclose(np.diag(np.linalg.inv(S)), V, atol=1e-6)
    np.testing.assert_allclose(np.linalg.inv(S), result.chi, atol=1e-6)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("kind", [(-1, 1), (0, 1), (-1, 0, 1), *SPACES], ids=str)
def test_derivatives(kind, order):
    problem = BetheConsistency(kinds(kind, order))
    z = follow(problem).z[-1]
    u = z[:-1] * (1 + 0.02 * np.random.default_rng(order).normal(size=len(z) - 1))
    alpha, step = 0.8, 1e-5
    point = problem.evaluate(u, alpha)
    columns = [
        (problem.evaluate(u + step * e, alpha).R - problem.evaluate(u - step * e, alpha).R) / (2 * step)
        for e in np.eye(len(u))
    ]
    np.testing.assert_allclose(point.jacobian, np.array(columns).T, atol=1e-6 * np.abs(point.jacobian).max())
    slope = (problem.evaluate(u, alpha + step).R - problem.evaluate(u, alpha - step).R) / (2 * step)
    np.testing.assert_allclose(point.d_alpha, slope, atol=1e-6 * max(1.0, np.abs(slope).max()))


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("kind", [(-1, 1), (-1, 0, 1), "labels"], ids=str)
def test_loops_make_ln_z_stationary(kind, order):
    """∂ln Z/∂θ = p for "bethe2": by central differences of whole solutions; for "bethe" it is not."""
    model = kinds(kind, order, 0.8)
    own = [np.array(table) for table in model.own]

    def at(method, step):
        own[1][0] += step
        moved = BoltzmannMachine.from_columns(
            model.space, [table.copy() for table in own], model.columns, model.column_weights
        )
        own[1][0] -= step
        return infer(moved, method, tol=1e-11).log_partition

    slopes = {method: (at(method, 1e-4) - at(method, -1e-4)) / 2e-4 for method in ("bethe", "bethe2")}
    np.testing.assert_allclose(slopes["bethe2"], infer(model, "bethe2").probabilities[1][0], atol=1e-7)
    assert abs(slopes["bethe"] - infer(model, "bethe").probabilities[1][0]) > 1e-6


@pytest.mark.parametrize("kind", [(-1, 1), (-1, 0, 1)], ids=str)
def test_full_response(kind):
    """χ = ∂m/∂h of "bethe2", by central differences of whole solutions, and closer than S⁻¹ with dense triplets."""
    model, step = random_model(5, 3, kind, 0.4, seed=6), 1e-4

    def means(h):
        return infer(BoltzmannMachine.from_packed(h, model.columns, model.column_weights, model.d, kind), "bethe2").m

    chi = np.array([(means(model.h + e) - means(model.h - e)) / (2 * step) for e in step * np.eye(5)])
    full = infer(model, "bethe2", response="full").chi
    np.testing.assert_allclose(full, chi, atol=1e-5)
    exact, off = infer(model, "exact").chi, ~np.eye(5, dtype=bool)
    consistent = infer(model, "bethe2").chi
    assert 2 * np.abs(full - exact)[off].max() < np.abs(consistent - exact)[off].max()


def test_recoded():
    model = random_model(5, 3, (-1, 1), 0.9, seed=3)
    for method in ("bethe", "bethe2"):
        ours, recoded = infer(model, method), infer(model.with_alphabet((0, 1)), method)
        np.testing.assert_allclose((ours.m + 1) / 2, recoded.m, atol=1e-8)


def test_interactions_within_larger_ones_share():
    """(0, 1) is in two triples: half of it goes to each, and the sum of all tables is the model's."""
    model = BoltzmannMachine(np.zeros(4), {(0, 1): 1.0, (0, 1, 2): 0.5, (0, 1, 3): -0.5, (2, 3): 0.25})
    groups = find_factors(model)
    found = {tuple(mu): table for g in groups for mu, table in zip(g.sites.tolist(), g.tables)}
    assert set(found) == {(0, 1, 2), (0, 1, 3), (2, 3)}
    assert found[0, 1, 2][-1] == found[0, 1, 3][-1] + 1.0 == 1.0  # all ones: 0.5 ± 0.5
    np.testing.assert_allclose(found[2, 3], [0.25, -0.25, -0.25, 0.25])


# ---------------------------------------------------------------------- how close


def errors(models, methods):
    out = dict.fromkeys(methods, 0.0)
    for model in models:
        exact = infer(model, "exact").m
        for method in methods:
            result = infer(model, method)
            assert result.converged
            out[method] += float(((result.m - exact) ** 2).mean()) / len(models)
    return {method: value**0.5 for method, value in out.items()}


def test_lattice():
    weak = errors([lattice(4, 4, 0.2, seed) for seed in range(60, 68)], ["dc", "bethe", "bethe2"])
    assert 5 * weak["bethe"] < weak["dc"]
    assert 3 * weak["bethe2"] < weak["bethe"]
    strong = errors([lattice(4, 4, 0.7, seed) for seed in range(60, 68)], ["dc", "bethe"])
    assert 2 * strong["bethe"] < strong["dc"]


def test_dense_pairs():
    found = errors([random_model(10, 2, (-1, 1), 0.2, seed) for seed in range(60, 66)], ["dc", "bethe"])
    assert 2 * found["bethe"] < found["dc"]


def test_triplets():
    """Sharing one site: closer than dc. All of them: "bethe2" keeps up with "dc2", and "bethe" does not."""
    rng = np.random.default_rng(12)
    apart = [(0, 1, 2), (2, 3, 4), (4, 5, 0), (1, 3, 5), (5, 6, 7), (7, 8, 0), (6, 8, 2)]
    models = [BoltzmannMachine(rng.normal(0, 0.3, 9), {mu: rng.normal(0, 0.5) for mu in apart}) for _ in range(8)]
    found = errors(models, ["dc", "dc2", "bethe", "bethe2"])
    assert found["bethe2"] < found["bethe"] < found["dc2"]
    found = errors([random_model(8, 3, (-1, 1), 0.3, seed) for seed in range(60, 66)], ["dc2", "bethe", "bethe2"])
    assert 2 * found["bethe2"] < found["bethe"]
    assert found["bethe2"] < 1.5 * found["dc2"]


# ---------------------------------------------------------------------- sparse


def test_selected_inverse():
    rng = np.random.default_rng(3)
    dense = np.where(rng.random((40, 40)) < 0.06, rng.normal(size=(40, 40)), 0.0)
    dense = dense + dense.T
    np.fill_diagonal(dense, np.abs(dense).sum(axis=1) + rng.uniform(0.1, 1.0, 40))
    S = csr_array(dense)
    invert = SparseInverse(S)
    found, exact = invert(S.data), np.linalg.inv(dense)
    np.testing.assert_allclose(found.log_det, np.linalg.slogdet(dense)[1], rtol=1e-13)
    np.testing.assert_allclose(found.blocks(np.arange(40)[:, None])[:, 0, 0], np.diag(exact), rtol=1e-12)
    pairs = np.argwhere(np.triu(dense, 1))
    at = found.blocks(pairs)
    np.testing.assert_allclose(at[:, 0, 1], exact[tuple(pairs.T)], atol=1e-13)
    np.testing.assert_allclose(at[:, 1, 0], exact[tuple(pairs.T)], atol=1e-13)
    np.testing.assert_allclose(found.solve(np.eye(40)), exact, atol=1e-12)
    S.setdiag(0.0)
    assert invert(S.data) is None


@pytest.mark.parametrize("loops", [False, True])
@pytest.mark.parametrize(
    "model", [lattice(6, 7, 0.5, 1), kinds("mixed", 2), kinds("labels", 3)], ids=["lattice", "mixed", "labels"]
)
def test_sparse_equals_dense(model, loops):
    ends = []
    for sparse in (False, True):
        problem = BetheConsistency(model, loops, sparse)
        end = arrive(problem, tol=1e-12, max_evaluations=500)
        assert end.path.arrived
        assert end.residual < 1e-9
        ends.append(end)
    np.testing.assert_allclose(ends[0].u, ends[1].u, atol=1e-8)
    np.testing.assert_allclose(ends[0].point.closed_form, ends[1].point.closed_form, atol=1e-9)
    np.testing.assert_allclose(ends[0].point.chi, ends[1].point.chi, atol=1e-9)


def test_jacobian_free():
    """Solves what the dense system solves, bordered by any row."""
    problem = BetheConsistency(lattice(3, 4, 0.5, 2))
    z = follow(problem).z[-1]
    point = problem.evaluate(z[:-1], float(z[-1]))
    rng = np.random.default_rng(0)
    for row in (np.append(np.zeros(len(z) - 1), 1.0), rng.normal(size=len(z))):
        r, last = rng.normal(size=len(z) - 1), 0.7
        np.testing.assert_allclose(
            JacobianFree(point, row).solve(r, last), point.bordered(row).solve(r, last), rtol=0.02, atol=0.02
        )


@pytest.mark.parametrize("model", [lattice(4, 5, 0.5, 1), kinds("mixed", 3)], ids=["lattice", "mixed"])
def test_directional_derivatives(model):
    """A product with the sparse Jacobian is that with the dense one, with ∂R/∂α and where equations do not hold."""
    rng = np.random.default_rng(5)
    sparse, dense = (BetheConsistency(model, sparse=kept) for kept in (True, False))
    u = 0.1 * rng.normal(size=len(dense.start))
    point = dense.evaluate(u, 0.8)
    for x in (rng.normal(size=len(u) + 1), np.append(rng.normal(size=len(u)), 0.0)):
        exact = point.jacobian @ x[:-1] + point.d_alpha * x[-1]
        found = sparse.evaluate(u, 0.8).directional(x)
        np.testing.assert_allclose(found, exact, atol=1e-5 * np.abs(exact).max())


def test_large_lattice_in_little_memory():
    """No (n, n) array: 10,000 × 10,000 numbers would be 800 MB; and the answer is that of long chains, roughly."""
    model = lattice(50, 60, 0.3, 5)
    infer(lattice(18, 18, 0.3, 5), "bethe")  # compiles
    tracemalloc.start()
    result = infer(model, "bethe")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.converged
    assert peak < 3000**2 * 8  # one dense matrix
    gibbs = infer(model, "gibbs", n_samples=4096, n_steps=10, random_state=0)
    assert np.sqrt(np.mean((result.m - gibbs.m) ** 2)) < 0.03


# ---------------------------------------------------------------------- refusals


def test_refuses():
    with pytest.raises(ValueError, match=r"variable 0 is on .*Interval"):
        infer(BoltzmannMachine([0.1, 0.2], {(0, 1): 0.3}, alphabet=Interval(0, 1)), "bethe")
    with pytest.raises(ValueError, match=r"takes up to 300 columns, and the model has 306"):
        infer(lattice(18, 17, 0.1, 0), "bethe2", response="full")
    many = BoltzmannMachine(np.zeros(13), {tuple(range(13)): 0.1})
    with pytest.raises(ValueError, match=r"8\.19e[+]03 states"):
        infer(many, "bethe")
