"""Diagonal consistency to second order: its equations from their definition, derivatives, accuracy, and arrival."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from oracle import SPACES, random_mixed, random_model
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Interval
from hbm_learn.inference import infer
from hbm_learn.inference.continuation import follow
from hbm_learn.inference.dc2_equations import SecondOrderConsistency, ring_slope
from hbm_learn.inference.vertices import Vertices

ALPHABETS = [(-1, 1), (0, 1), (-1, 0, 1), (0, 1, 2, 3), Interval(-1, 2)]


@pytest.fixture(autouse=True)
def _one_blas_thread():
    """The matrices are small: threads only contend."""
    with threadpool_limits(1):
        yield


def scaled(model, alpha):
    return BoltzmannMachine.from_columns(model.space, model.own, model.columns, alpha * model.column_weights)


def derivative(model, B, m):
    """∂_B E(m), by every interaction."""
    total = 0.0
    for mu, weight in zip(model.columns.tuples, model.column_weights):
        if set(B) <= set(mu):
            total += weight * np.prod([m[c] for c in mu if c not in B])
    return total


def equations(model, m, V, chi):
    """b − h and d − c + the shift, of the equations as they are printed, by sums over all sets of columns."""
    n = len(m)
    field, extra = model.F(m) + 0.5 * np.einsum("ijk,jk->i", model.T(m), chi), np.zeros(n)
    for k in range(3, n + 1):
        for B in combinations(range(n), k):
            g = derivative(model, B, m)
            for i in B:
                extra[i] += g**2 * np.prod([V[j] for j in B if j != i])
            for l in set(range(n)) - set(B):
                field[l] += g * derivative(model, (*B, l), m) * np.prod(V[list(B)])
    return field, extra


# ---------------------------------------------------------------------- the equations


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
@pytest.mark.parametrize("order", [3, 4, 5])
def test_solution(alphabet, order):
    model = random_model(5, order, alphabet, 0.8, seed=order + 40)
    result = infer(model, "dc2", response="consistent")
    assert result.converged
    assert result.residual < 1e-10
    m, V = result.m, result.v - result.m**2
    field, extra = equations(model, m, V, result.chi)
    total = result.Lambda
    s = model.alphabet.site_moments(model.h + field - total * m, model.d - total)
    np.testing.assert_allclose(s.m, m, atol=1e-8)
    np.testing.assert_allclose(s.v, result.v, atol=1e-8)
    S = np.diag(1 / V + total - extra) - model.A(m)
    np.testing.assert_allclose(np.linalg.inv(S), result.chi, atol=1e-8)
    np.testing.assert_allclose(np.diag(result.chi), V, atol=1e-9)
    assert np.linalg.eigvalsh(S)[0] > 0
    # ln Z of the printed form
    E = model.coupling_energy(m) + 0.5 * (model.A(m) * result.chi).sum()
    sets = [B for k in range(3, 6) for B in combinations(range(5), k)]
    vertices = 0.5 * sum(derivative(model, B, m) ** 2 * np.prod(V[list(B)]) for B in sets)
    site = s.log_z.sum() - (field - total * m) @ m - 0.5 * total @ result.v
    printed = site + E + 0.5 * np.linalg.slogdet(result.chi)[1] - 0.5 * np.log(V).sum() + vertices
    np.testing.assert_allclose(result.log_partition, printed, atol=1e-8)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("kind", [*ALPHABETS, *SPACES], ids=str)
def test_derivatives(kind, order):
    model = (
        random_mixed(SPACES[kind], order, 0.5, seed=3)
        if isinstance(kind, str)
        else random_model(5, order, kind, 0.7, 3)
    )
    problem = SecondOrderConsistency(model)
    z = follow(problem).z[-1]
    u = z[:-1] * (1 + 0.02 * np.random.default_rng(order).normal(size=len(z) - 1))
    alpha, step = 0.8, 1e-6
    point = problem.evaluate(u, alpha)
    columns = [
        (problem.evaluate(u + step * e, alpha).R - problem.evaluate(u - step * e, alpha).R) / (2 * step)
        for e in np.eye(len(u))
    ]
    np.testing.assert_allclose(point.jacobian, np.array(columns).T, atol=2e-7 * np.abs(point.jacobian).max())
    slope = (problem.evaluate(u, alpha + step).R - problem.evaluate(u, alpha - step).R) / (2 * step)
    np.testing.assert_allclose(point.d_alpha, slope, atol=2e-7 * max(1.0, np.abs(slope).max()))


@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1)], ids=str)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_response_and_free_energy_are_derivatives(alphabet, order):
    """χ = ∂m/∂h and m = ∂ln Z/∂h, by central differences of whole solutions; χ is symmetric before it is made so."""
    model = random_model(5, order, alphabet, 0.8, seed=11)
    step = 1e-5

    def at(h):
        return infer(
            BoltzmannMachine.from_packed(h, model.columns, model.column_weights, model.d, alphabet), "dc2", tol=1e-12
        )

    pairs = [(at(model.h + step * e), at(model.h - step * e)) for e in np.eye(5)]
    chi = np.array([(up.m - down.m) / (2 * step) for up, down in pairs])
    result = infer(model, "dc2")
    np.testing.assert_allclose(chi, chi.T, atol=1e-7)
    np.testing.assert_allclose(result.chi, chi, atol=1e-7)
    slopes = [(up.log_partition - down.log_partition) / (2 * step) for up, down in pairs]
    np.testing.assert_allclose(slopes, result.m, atol=1e-8)


@pytest.mark.parametrize("kind", [*ALPHABETS, *SPACES], ids=str)
def test_pairs_are_dc(kind):
    model = random_mixed(SPACES[kind], 2, 0.7, seed=5) if isinstance(kind, str) else random_model(6, 2, kind, 0.9, 5)
    ours, dc = infer(model, "dc2", response="consistent"), infer(model, "dc")
    np.testing.assert_allclose(ours.means, dc.means, atol=1e-10)
    np.testing.assert_allclose(ours.covariances, dc.covariances, atol=1e-9)
    np.testing.assert_allclose(ours.log_partition, dc.log_partition, atol=1e-10)
    for a, b in zip(ours.Lambda, dc.Lambda):
        np.testing.assert_allclose(a, b, atol=1e-8)


def test_recoded():
    """±1 or 0/1: the same answer."""
    model = random_model(6, 4, (-1, 1), 0.8, seed=8)
    ours, recoded = infer(model, "dc2"), infer(model.with_alphabet((0, 1)), "dc2")
    np.testing.assert_allclose((ours.m + 1) / 2, recoded.m, atol=1e-9)
    np.testing.assert_allclose(ours.chi / 4, recoded.chi, atol=1e-9)


def test_unknown_response():
    with pytest.raises(ValueError, match="response='half' is not known"):
        infer(random_model(3, 2, (-1, 1), 0.1, 0), "dc2", response="half")


def test_ring_slope_either_way():
    """All pairs with each other, and χTχ site by site: against T in full."""
    rng = np.random.default_rng(2)
    for n, count in [(12, 6), (5, 10), (9, 84)]:  # few triples, all of few sites, all
        triples = list(combinations(range(n), 3))
        chosen = [triples[r] for r in rng.permutation(len(triples))[:count]]
        model = BoltzmannMachine(np.zeros(n), {mu: rng.normal() for mu in chosen})
        chi = rng.normal(size=(n, n))
        chi = chi + chi.T
        vertices = Vertices(model)
        m = np.zeros(n)
        T = model.T(m)
        expected = 0.5 * np.einsum("ijk,ja,kb,pab->ip", T, chi, chi, T)
        found = ring_slope(vertices.T(vertices.g(m)), vertices.pairs, chi)
        np.testing.assert_allclose(found, expected, atol=1e-10)


# ---------------------------------------------------------------------- how close


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("name", SPACES)
def test_right_to_second_order(name, order):
    """The error of the means falls as the third power of the couplings; that of "dc" as the second."""
    model = random_mixed(SPACES[name], order, 1.0, seed=21)
    strengths = np.array([0.04, 0.02, 0.01])
    exponents = {}
    for method in ("dc", "dc2"):
        errors = []
        for alpha in strengths:
            weak = scaled(model, alpha)
            errors.append(np.linalg.norm(infer(weak, method, tol=1e-13).means - infer(weak, "exact").means))
        exponents[method] = np.polyfit(np.log(strengths), np.log(errors), 1)[0]
    assert exponents["dc2"] >= 2.8
    assert exponents["dc"] < 2.3


def errors_on_dense_triplets(n_models, strength, seed):
    out = {"dc": [], "dc2": []}
    for k in range(n_models):
        model = random_model(9, 3, (-1, 1), strength, seed=seed + k)
        exact = infer(model, "exact").m
        for method, errors in out.items():
            result = infer(model, method)
            assert result.converged
            errors.append(result.m - exact)
    return {method: float(np.sqrt(np.mean(np.square(errors)))) for method, errors in out.items()}


def test_closer_than_dc_on_dense_triplets():
    errors = errors_on_dense_triplets(20, 0.3, seed=900)
    assert 3.0 * errors["dc2"] < errors["dc"]


@pytest.mark.slow
@pytest.mark.parametrize("strength", [0.2, 0.3, 0.4])
def test_closer_than_dc_on_many_dense_triplets(strength):
    errors = errors_on_dense_triplets(200, strength, seed=10_000)
    assert 3.0 * errors["dc2"] < errors["dc"]


@pytest.mark.parametrize("name", ["powers", "labels", "mixed"])
def test_closer_than_dc_on_every_kind(name):
    errors = {"dc": 0.0, "dc2": 0.0}
    for seed in range(5):
        model = random_mixed(SPACES[name], 3, 0.3, seed=seed + 70)
        exact = infer(model, "exact").means
        for method in errors:
            errors[method] += float(((infer(model, method).means - exact) ** 2).sum())
    assert 9.0 * errors["dc2"] < errors["dc"]


# ---------------------------------------------------------------------- arrival


@pytest.mark.parametrize(("alphabet", "order"), list(product([(-1, 1), (-1, 0, 1), (0, 1, 2, 3)], [3, 4])), ids=str)
def test_arrives_at_strong_coupling(alphabet, order):
    for seed in range(4):
        result = infer(random_model(8, order, alphabet, 2.0 if order == 3 else 1.0, seed=seed + 300), "dc2")
        assert result.converged, result.status
        assert np.isfinite(result.log_partition)
