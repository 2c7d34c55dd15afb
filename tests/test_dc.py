"""Naive mean field with diagonal consistency: its equations, its derivatives, and that the path arrives."""

from __future__ import annotations

import tracemalloc
from itertools import product

import numpy as np
import pytest
from joblib import Parallel, delayed
from oracle import random_model
from scipy.optimize import root
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Interval, datasets
from hbm_learn.inference import infer
from hbm_learn.inference.continuation import Settings, arrive
from hbm_learn.inference.dc_equations import DCBordered, DCKrylov, DiagonalConsistency

ALPHABETS = [(-1, 1), (0, 1), (-1, 0, 1), (0, 1, 2, 3), Interval(-1, 2)]
SIGMAS = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0]
P_SPIN_TRANSITION = 1.0 / 0.651  # J at which the glass appears for p = 3


@pytest.fixture(autouse=True)
def _one_blas_thread():
    """The matrices are small: threads only contend."""
    with threadpool_limits(1):
        yield


def equation_residual(model, result):
    """The paper's equations at (m, Λ), computed from the model's own functions."""
    m, Lambda = result.m, result.Lambda
    s = model.alphabet.site_moments(model.h + model.F(m) - Lambda * m, model.d - Lambda)
    chi = np.linalg.inv(np.diag(1 / s.V + Lambda) - model.A(m))
    return max(np.abs(s.m - m).max(), np.abs(s.v - result.v).max(), np.abs(np.diag(chi) / s.V - 1).max())


# ---------------------------------------------------------------------- the equations


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("strength", [0.2, 1.0])
def test_solution(alphabet, order, strength):
    model = random_model(6, order, alphabet, strength, seed=order)
    result = infer(model, "dc")
    assert result.converged
    assert result.status == "converged"
    assert result.residual < 1e-10
    assert equation_residual(model, result) < 1e-8
    np.testing.assert_allclose(np.diag(result.chi), result.v - result.m**2, atol=1e-9)
    assert np.linalg.eigvalsh(result.chi)[0] > 0
    assert (result.Lambda > -1e-12).all()


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
@pytest.mark.parametrize("order", [2, 4])
def test_linear_response_at_fixed_lambda(alphabet, order):
    """χ_ij = ∂m_i/∂h_j, Λ held: central differences of the mean-field equation solved by another solver."""
    model = random_model(5, order, alphabet, 0.5, seed=7)
    result = infer(model, "dc")

    def means(h):
        def equation(m):
            b = h + model.F(m) - result.Lambda * m
            return model.alphabet.site_moments(b, model.d - result.Lambda).m - m

        return root(equation, result.m, tol=1e-14).x

    step = 1e-4
    columns = [(means(model.h + step * e) - means(model.h - step * e)) / (2 * step) for e in np.eye(5)]
    np.testing.assert_allclose(np.array(columns).T, result.chi, atol=1e-6)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
@pytest.mark.parametrize("system", [DCBordered, DCKrylov])
def test_derivatives(alphabet, order, system):
    """The bordered system inverts the matrix of central differences, off the solution as well."""
    rng = np.random.default_rng(order)
    n = 5
    problem = DiagonalConsistency(random_model(n, order, alphabet, 0.8, seed=order))
    u = arrive(problem, tol=1e-10, max_evaluations=500).u * (1 + 0.1 * rng.random(2 * n))
    alpha = 0.7
    row = rng.normal(size=2 * n + 1)
    z = np.append(u, alpha)
    matrix = np.empty((2 * n + 1, 2 * n + 1))
    for k, e in enumerate(1e-5 * np.eye(2 * n + 1)):
        high, low = z + e, z - e
        difference = problem.evaluate(high[:-1], high[-1]).R - problem.evaluate(low[:-1], low[-1]).R
        matrix[:-1, k] = difference / 2e-5
    matrix[-1] = row
    x = rng.normal(size=2 * n + 1)
    rhs = matrix @ x
    bordered = system(problem.evaluate(u, alpha), row)
    np.testing.assert_allclose(bordered.solve(rhs[:-1], rhs[-1]), x, atol=1e-6)
    if system is DCBordered:
        assert bordered.sign == np.sign(np.linalg.det(matrix))


def test_gaussian_models_are_exact():
    rng = np.random.default_rng(3)
    J = np.triu(rng.normal(0, 0.4, (7, 7)), 1)
    J = J + J.T
    d = np.abs(J).sum(axis=1) + rng.uniform(0.05, 1.0, 7)
    model = BoltzmannMachine(rng.normal(size=7), J, d, "real")
    covariance = np.linalg.inv(np.diag(d) - J)
    m = covariance @ model.h
    log_z = 0.5 * model.h @ m + 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    for method in ("dc", "adaptive-tap"):
        result = infer(model, method)
        assert result.converged
        np.testing.assert_allclose(result.m, m, atol=1e-12)
        np.testing.assert_allclose(result.chi, covariance, atol=1e-11)
        np.testing.assert_allclose(result.v, np.diag(covariance) + m**2, atol=1e-11)
        assert result.log_partition == pytest.approx(log_z, abs=1e-10)


# ---------------------------------------------------------------------- symmetries


@pytest.mark.parametrize("order", [2, 3])
def test_affine_change_of_alphabet(order):
    model = random_model(6, order, (0, 1), 2.0, seed=1)
    spins = model.with_alphabet((-1, 1))
    bits, result = infer(model, "dc"), infer(spins, "dc")
    np.testing.assert_allclose(bits.m, 0.5 * (1 + result.m), atol=1e-10)
    np.testing.assert_allclose(bits.chi, 0.25 * result.chi, atol=1e-10)


def test_relabelling_and_flipping():
    model = random_model(6, 3, (-1, 0, 1), 1.0, seed=2)
    reference = infer(model, "dc")
    permutation, flip = np.array([3, 0, 5, 1, 4, 2]), np.array([1, -1, 1, 1, -1, -1])
    couplings = {
        tuple(np.flatnonzero(np.isin(permutation, mu))): J * np.prod(flip[list(mu)])
        for mu, J in model.couplings().items()
    }
    moved = BoltzmannMachine((model.h * flip)[permutation], couplings, model.d[permutation], (-1, 0, 1))
    result = infer(moved, "dc")
    np.testing.assert_allclose(result.m, (reference.m * flip)[permutation], atol=1e-10)
    assert result.log_partition == pytest.approx(reference.log_partition, abs=1e-7)


@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1), Interval(-1, 1)], ids=str)
@pytest.mark.parametrize("family", ["glass", "ferromagnet", "order 4"])
def test_without_fields_the_symmetric_solution_is_kept(alphabet, family):
    model = {
        "glass": datasets.make_sk(12, 2.0, alphabet=alphabet, random_state=0),
        "ferromagnet": datasets.make_curie_weiss(12, {2: 1.5}, alphabet=alphabet),
        "order 4": datasets.make_curie_weiss(8, {2: 0.8, 4: 0.8}, alphabet=alphabet),
    }[family]
    result = infer(model, "dc")
    assert result.converged
    assert np.abs(result.m).max() < 1e-12


# ---------------------------------------------------------------------- it arrives


def solve_all(models):
    """(converged, residual) of each model; also called in worker processes, hence the limit."""
    with threadpool_limits(1):
        return [(r.converged, r.residual) for r in (infer(model, "dc", tol=1e-8) for model in models)]


def takahashi_block(sigma, alphabet, seeds):
    return solve_all(datasets.make_takahashi(sigma, alphabet=alphabet, random_state=seed) for seed in seeds)


@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1)], ids=str)
@pytest.mark.parametrize("sigma", [0.1, 0.6, 1.2, 2.0])
def test_random_instances_of_the_paper(sigma, alphabet):
    found = takahashi_block(sigma, alphabet, range(8))
    assert all(converged and residual < 1e-8 for converged, residual in found)


def test_damped_iteration_fails_where_the_path_arrives():
    """Negative control: these instances are hard; and where damped iteration converges it agrees with the path."""
    failed = 0
    for seed in range(8):
        model = datasets.make_takahashi(1.0, random_state=seed)
        damped = infer(model, "dc", solver="damped", max_iter=500)
        failed += not damped.converged
        assert np.isfinite(damped.log_partition)
        assert np.isfinite(damped.m).all()
        assert damped.converged == (damped.status == "converged")
    assert failed >= 4
    weak = datasets.make_takahashi(0.2, random_state=0)
    damped, path = infer(weak, "dc", solver="damped"), infer(weak, "dc")
    assert damped.converged
    np.testing.assert_allclose(damped.m, path.m, atol=1e-8)
    np.testing.assert_allclose(damped.Lambda, path.Lambda, atol=1e-7)


@pytest.mark.slow
@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1)], ids=str)
def test_every_random_instance_of_the_paper(alphabet):
    blocks = [(sigma, range(start, start + 100)) for sigma in SIGMAS for start in range(0, 1000, 100)]
    found = Parallel(n_jobs=2)(delayed(takahashi_block)(sigma, alphabet, seeds) for sigma, seeds in blocks)
    failures = {
        sigma: sum(not (converged and residual < 1e-8) for converged, residual in block)
        for (sigma, _), block in zip(blocks, found)
    }
    assert sum(failures.values()) == 0, failures
    assert sum(map(len, found)) == 1000 * len(SIGMAS)


def hard_models(scale):
    """SK up to β = 2, p-spin up to three times its transition, planted models of order 4."""
    sk = [datasets.make_sk(100, b, 0.1, random_state=s) for b, s in product((0.9, 1.2, 1.6, 2.0), range(scale))]
    spin = [
        datasets.make_pspin(40, 3, k * P_SPIN_TRANSITION, 0.1, random_state=s)
        for k, s in product((0.5, 1.0, 2.0, 3.0), range(scale))
    ]
    planted = [
        datasets.make_planted(15, {2: 20, 3: 10, 4: 15}, (0.3 * J, J), 0.3, alphabet=alphabet, random_state=s)
        for J, alphabet, s in product((0.3, 1.0, 2.0), ALPHABETS[:3], range(scale))
    ]
    return sk, spin, planted


@pytest.mark.parametrize("family", range(3), ids=["sk", "p-spin", "planted"])
def test_hard_models(family):
    assert all(converged and residual < 1e-8 for converged, residual in solve_all(hard_models(1)[family]))


@pytest.mark.slow
@pytest.mark.parametrize("family", range(3), ids=["sk", "p-spin", "planted"])
def test_more_hard_models(family):
    models = hard_models(12)[family]
    found = Parallel(n_jobs=2)(delayed(solve_all)([model]) for model in models)
    assert all(converged and residual < 1e-8 for block in found for converged, residual in block)


@pytest.mark.parametrize("alphabet", [*ALPHABETS, (100, 101), (-2, -1, 0, 1, 2), Interval(0, 10)], ids=str)
@pytest.mark.parametrize("beta", [1.0, 4.0])
def test_strong_couplings_on_every_alphabet(alphabet, beta):
    model = datasets.make_sk(15, beta, 0.1, alphabet=alphabet, random_state=1)
    result = infer(model, "dc", tol=1e-8)
    assert result.converged, result.status
    assert result.residual < 1e-8


def test_frozen_sites():
    """V below 1e-100 at some sites, ordinary at others."""
    rng = np.random.default_rng(0)
    model = random_model(8, 3, (-1, 1), 1.0, seed=3)
    h = model.h.copy()
    h[:4] = [200.0, -150.0, 400.0, 20.0]
    frozen = BoltzmannMachine(h, {mu: J * rng.uniform(1, 5) for mu, J in model.couplings().items()})
    result = infer(frozen, "dc")
    assert result.converged
    for field in (result.m, result.v, result.chi, result.Lambda, result.log_partition):
        assert np.isfinite(field).all()
    np.testing.assert_allclose(result.m[:3], [1.0, -1.0, 1.0])
    exact = infer(frozen, "exact")
    assert result.log_partition == pytest.approx(exact.log_partition, rel=1e-2)


@pytest.mark.parametrize("seed", range(6))
def test_long_steps_stay_on_the_branch(seed):
    """The solution does not depend on the step control: short steps everywhere give the same one."""
    rng = np.random.default_rng(seed)
    alphabet = [(-1, 1), (-1, 0, 1), (0, 1, 2, 3)][seed % 3]
    model = datasets.make_sk(20, rng.uniform(1.0, 2.5), 0.1, alphabet=alphabet, random_state=seed)
    careful = Settings(max_step=0.05, drift=0.05, turn=0.98, contraction=0.1)
    problem = DiagonalConsistency(model)
    short = arrive(problem, tol=1e-12, max_evaluations=50_000, settings=careful)
    long = arrive(problem, tol=1e-12, max_evaluations=5000)
    assert short.path.arrived
    assert len(short.path.z) > len(long.path.z)
    np.testing.assert_allclose(long.u, short.u, atol=1e-8)


# ---------------------------------------------------------------------- size


def lattice(rows, columns, seed=0):
    return datasets.make_lattice((rows, columns), 0.5, h_std=0.1, random_state=seed)


def test_krylov_and_factorised_systems_give_the_same_solution(monkeypatch):
    model = lattice(6, 8)
    dense = infer(model, "dc")
    monkeypatch.setattr("hbm_learn.inference.dc_equations.KRYLOV_SIZE", 10)
    krylov = infer(model, "dc")
    np.testing.assert_allclose(krylov.m, dense.m, atol=1e-9)
    np.testing.assert_allclose(krylov.Lambda, dense.Lambda, atol=1e-9)
    monkeypatch.setattr("hbm_learn.inference.dc_equations._KRYLOV_ITERATIONS", 2)  # GMRES fails: factorised instead
    fallback = infer(model, "dc")
    np.testing.assert_allclose(fallback.m, dense.m, atol=1e-9)


@pytest.mark.slow
def test_square_lattice_of_2000_sites():
    model = lattice(40, 50)
    n = model.n_features
    tracemalloc.start()
    result = infer(model, "dc")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.converged
    assert peak < 20 * 8 * n * n  # twenty matrices; the dense Jacobian of all unknowns would be four alone


# ---------------------------------------------------------------------- results and errors


def test_path_for_plots():
    result = infer(random_model(6, 3, (-1, 1), 0.8, seed=0), "dc")
    assert result.path.shape[1] == 3
    assert result.path[0, 0] == 0.0
    assert result.path[-1, 0] == 1.0
    assert result.path[-1, 1] == pytest.approx(result.log_partition, abs=1e-3)
    assert result.path[-1, 2] == pytest.approx(np.sqrt(np.mean(result.m**2)), abs=1e-3)


def test_too_few_evaluations():
    result = infer(datasets.make_sk(30, 2.0, 0.1, random_state=0), "dc", max_evaluations=10)
    assert not result.converged
    assert "raise max_evaluations" in result.status
    assert np.isfinite(result.m).all()
    assert np.isfinite(result.chi).all()
    assert result.residual > 1e-8


@pytest.mark.parametrize("method", ["naive", "susp", "tap", "adaptive-tap", "dc"])
def test_unstable_gaussian(method):
    J = np.array([[0.0, 1.2], [1.2, 0.0]])
    with pytest.raises(ValueError, match=r"eigenvalue -0\.2.*Raise d"):
        infer(BoltzmannMachine([0.1, 0.2], J, 1.0, "real"), method)


def test_bad_options():
    model = random_model(4, 3, (-1, 1), 0.3, seed=0)
    with pytest.raises(ValueError, match=r"'cd' is not known.*'dc'"):
        infer(model, "cd")
    with pytest.raises(ValueError, match=r"'onsager' is not an option of method 'dc'; its options are tol"):
        infer(model, "dc", onsager="auto")
    for option, value in {"tol": 0.0, "max_evaluations": 0, "solver": "newton", "damping": 1.0, "max_iter": 0}.items():
        with pytest.raises(ValueError, match=option):
            infer(model, "dc", **{option: value})
