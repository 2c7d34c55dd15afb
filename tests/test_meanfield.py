"""Naive, linear response, TAP, adaptive TAP and the free energies, against enumeration, differences, plain NumPy."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from oracle import distribution, random_model
from scipy.integrate import quad
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Interactions, Interval, datasets
from hbm_learn._kernels import cumulants, plefka
from hbm_learn.consistency.response import solve_scalar
from hbm_learn.inference import infer
from hbm_learn.inference.adaptive_tap import AdaptiveTAP
from hbm_learn.inference.continuation import Settings, arrive
from hbm_learn.inference.dc_equations import DiagonalConsistency
from hbm_learn.inference.free_energy import path_integral, third_cumulants
from hbm_learn.inference.naive import NaiveEquations
from hbm_learn.inference.tap import TAPEquations

FINITE = [(-1, 1), (0, 1), (-1, 0, 1), (0, 1, 2, 3)]
ALPHABETS = [*FINITE, Interval(-1, 2)]


@pytest.fixture(autouse=True)
def _one_blas_thread():
    """The matrices are small: threads only contend."""
    with threadpool_limits(1):
        yield


def with_fields(model, h):
    return BoltzmannMachine.from_packed(h, model.columns, model.weights, model.d, model.alphabet)


def scaled(model, alpha):
    return BoltzmannMachine.from_packed(model.h, model.columns, alpha * model.weights, model.d, model.alphabet)


def derivative_in_fields(model, value, step=1e-4):
    """∂value/∂h by central differences, one row for each field."""
    n = model.n_features
    return np.array(
        [
            (value(with_fields(model, model.h + step * e)) - value(with_fields(model, model.h - step * e))) / (2 * step)
            for e in np.eye(n)
        ]
    )


# ---------------------------------------------------------------------- derivatives of the equations


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
@pytest.mark.parametrize("equations", ["naive", "tap pairs", "tap triples", "p-spin", "adaptive"])
def test_jacobians(alphabet, equations):
    if equations == "p-spin" and alphabet != (-1, 1):
        alphabet = (-1, 1)
    order = {"naive": 4, "tap pairs": 2, "tap triples": 3, "p-spin": 4, "adaptive": 2}[equations]
    model = random_model(5, order, alphabet, 0.7, seed=1)
    problem = {
        "naive": NaiveEquations,
        "tap pairs": lambda m: TAPEquations(m, "plefka"),
        "tap triples": lambda m: TAPEquations(m, "plefka"),
        "p-spin": lambda m: TAPEquations(m, "p-spin"),
        "adaptive": AdaptiveTAP,
    }[equations](model)
    rng = np.random.default_rng(0)
    u = arrive(problem, tol=1e-10, max_evaluations=1000).u
    z = np.append(u * (1 + 0.1 * rng.random(len(u))), 0.7)
    point = problem.evaluate(z[:-1], z[-1])
    step = 1e-5
    for k, e in enumerate(step * np.eye(len(z))):
        high, low = z + e, z - e
        difference = (problem.evaluate(high[:-1], high[-1]).R - problem.evaluate(low[:-1], low[-1]).R) / (2 * step)
        column = point.d_alpha if k == len(u) else point.jacobian[:, k]
        np.testing.assert_allclose(column, difference, atol=2e-7)


# ---------------------------------------------------------------------- naive and its response


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("strength", [0.3, 1.5])
def test_naive(alphabet, order, strength):
    model = random_model(5, order, alphabet, strength, seed=order)
    result = infer(model, "naive")
    s = model.alphabet.site_moments(model.h + model.F(result.m), model.d)
    assert result.converged
    assert result.chi is None
    np.testing.assert_allclose(result.m, s.m, atol=1e-9)
    np.testing.assert_allclose(result.v, s.v, atol=1e-9)


@pytest.mark.parametrize("alphabet", FINITE, ids=str)
@pytest.mark.parametrize("strength", [0.1, 0.5, 1.0, 3.0])
def test_naive_free_energy_is_a_bound(alphabet, strength):
    for seed in range(3):
        model = random_model(4, 3, alphabet, strength, seed=seed)
        assert infer(model, "naive").log_partition <= distribution(model)[2] + 1e-9


def test_naive_free_energy_by_its_definition():
    """−G = entropy of the product distribution − its mean energy."""
    model = random_model(4, 3, (-1, 0, 1), 0.8, seed=4)
    result = infer(model, "naive")
    b = model.h + model.F(result.m)
    x = model.alphabet.nodes
    q = np.exp(b[:, None] * x - 0.5 * model.d[:, None] * x**2)
    q /= q.sum(axis=1, keepdims=True)
    mean_energy = -model.h @ result.m + 0.5 * model.d @ result.v - model.coupling_energy(result.m)
    assert result.log_partition == pytest.approx(-np.sum(q * np.log(q)) - mean_energy, abs=1e-10)


@pytest.mark.parametrize("method", ["susp", "tap"])
@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
@pytest.mark.parametrize("order", [2, 3])
def test_response_is_the_derivative_of_the_means(method, alphabet, order):
    model = random_model(4, order, alphabet, 0.5, seed=3)
    result = infer(model, method)
    numerical = derivative_in_fields(model, lambda changed: infer(changed, method, tol=1e-9).m)
    np.testing.assert_allclose(result.chi, numerical.T, atol=1e-5)
    assert np.abs(np.diag(result.chi) - (result.v - result.m**2)).max() > 1e-4  # the inconsistency that dc removes


@pytest.mark.parametrize("method", ["naive", "tap", "adaptive-tap", "dc"])
@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
def test_means_are_the_derivative_of_the_free_energy(method, alphabet):
    """Stationarity of G: ∂ln Z/∂h = m exactly; a misplaced term anywhere would break it."""
    model = random_model(4, 2, alphabet, 0.6, seed=5)
    numerical = derivative_in_fields(model, lambda changed: infer(changed, method).log_partition)
    np.testing.assert_allclose(infer(model, method).m, numerical, atol=1e-6)


def test_tap_triples_derivative_of_the_free_energy():
    for alphabet in FINITE:
        model = random_model(4, 3, alphabet, 0.6, seed=6)
        numerical = derivative_in_fields(model, lambda changed: infer(changed, "tap", onsager="plefka").log_partition)
        np.testing.assert_allclose(infer(model, "tap", onsager="plefka").m, numerical, atol=1e-6)


# ---------------------------------------------------------------------- TAP


def test_tap_equation_of_the_sk_model():
    model = datasets.make_sk(30, 0.6, 0.3, random_state=0)
    result = infer(model, "tap")
    m, J = result.m, model.J
    V = 1 - m**2
    np.testing.assert_allclose(m, np.tanh(model.h + J @ m - m * (J**2 @ V)), atol=1e-10)
    np.testing.assert_allclose(result.Lambda, J**2 @ V, atol=1e-10)


@pytest.mark.parametrize("p", [3, 4])
def test_tap_equation_of_the_p_spin_model(p):
    model = datasets.make_pspin(12, p, 1.0, 0.5, random_state=0)
    result = infer(model, "tap")
    m = result.m
    Lambda = model.A(m) ** 2 @ (1 - m**2)
    np.testing.assert_allclose(result.Lambda, Lambda, atol=1e-10)
    np.testing.assert_allclose(m, np.tanh(model.h + model.F(m) - Lambda * m), atol=1e-10)


@pytest.mark.parametrize("alphabet", FINITE, ids=str)
@pytest.mark.parametrize("order", [2, 3])
def test_second_order_is_exact(alphabet, order):
    """The error of ln Z falls as s³ when the couplings are scaled by s, for tap and dc; that of naive as s²."""
    methods = {"naive": {}, "tap": {"onsager": "plefka"}, "dc": {}}
    errors = np.zeros((2, 3))
    for seed in range(6):
        model = random_model(4, order, alphabet, 1.0, seed=seed)
        for k, s in enumerate((0.04, 0.02)):
            weak = scaled(model, s)
            exact = distribution(weak)[2]
            found = [infer(weak, name, tol=1e-12, **options).log_partition for name, options in methods.items()]
            errors[k] += np.abs(np.array(found) - exact)
    naive, tap, dc = np.log2(errors[0] / errors[1])
    assert naive == pytest.approx(2.0, abs=0.3)
    assert tap == pytest.approx(3.0, abs=0.4)
    assert dc == pytest.approx(3.0, abs=0.4)


def test_onsager_term_of_the_p_spin_model():
    """Λ of dc is the Onsager term, then the triangles Σ_kl A_ik A_kl A_li V_k V_l; they average out over many sites.

    Site by site the triangles fall as N^-½ only. Control: every second-order term of Plefka's together is not Λ.
    """
    sizes, gaps, controls = (8, 16, 32), [], []
    for n in sizes:
        gap, control, explained = [], [], []
        for seed in range(20):
            model = datasets.make_pspin(n, 3, 0.3, 0.7, random_state=seed)
            point = arrive(DiagonalConsistency(model), tol=1e-10, max_evaluations=500).point
            A, V = model.A(point.s.m), point.s.V
            difference = point.Lambda - A**2 @ V
            triangles = np.einsum("ik,kl,li,k,l->i", A, A, A, V, V)
            explained.append(np.std(difference - triangles) / np.std(difference))
            gap.append(abs(difference.mean()))
            control.append(abs((point.Lambda - TAPEquations(model, "plefka").reaction(point.s.m, V).Lambda).mean()))
        assert np.mean(explained) < 0.4
        gaps.append(np.mean(gap))
        controls.append(np.mean(control))
    assert -1.2 < np.polyfit(np.log(sizes), np.log(gaps), 1)[0] < -0.4
    assert np.polyfit(np.log(sizes), np.log(controls), 1)[0] > -0.2


def test_tap_says_what_it_takes():
    quartic = random_model(5, 4, (-1, 0, 1), 0.3, seed=0)
    with pytest.raises(ValueError, match=r"order ≤ 3 \(this model has order 4\): use method 'dc'"):
        infer(quartic, "tap")
    with pytest.raises(ValueError, match=r"Ising spins.*onsager='plefka'"):
        infer(random_model(4, 3, (0, 1), 0.3, seed=0), "tap", onsager="p-spin")
    with pytest.raises(ValueError, match="onsager='reaction' is not known"):
        infer(quartic, "tap", onsager="reaction")
    assert infer(random_model(5, 4, (-1, 1), 0.3, seed=0), "tap", onsager="p-spin").converged


@pytest.mark.parametrize("method", ["naive", "tap"])
@pytest.mark.parametrize("alphabet", [(-1, 1), (-1, 0, 1), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("strength", [0.5, 2.0])
def test_paths_of_naive_and_tap_arrive(method, alphabet, strength):
    for seed in range(5):
        result = infer(datasets.make_sk(20, strength, 0.1, alphabet=alphabet, random_state=seed), method)
        assert result.converged, result.status
        assert result.path[-1, 0] == 1.0


@pytest.mark.parametrize("method", ["naive", "tap"])
def test_a_bifurcation_is_crossed_in_a_straight_line(method):
    """Without fields the solution m = 0 loses its stability on the way; it is kept, by symmetry."""
    result = infer(datasets.make_curie_weiss(8, {2: 1.5}), method, max_evaluations=300)
    assert result.converged
    assert np.abs(result.m).max() < 1e-12


@pytest.mark.parametrize("method", ["naive", "susp", "tap", "dc"])
def test_damped_iteration(method):
    weak = random_model(5, 3, (-1, 0, 1), 0.4, seed=0)
    damped, path = infer(weak, method, solver="damped", damping=0.3), infer(weak, method)
    assert damped.converged
    assert damped.path is None
    np.testing.assert_allclose(damped.m, path.m, atol=1e-8)
    if method != "naive":
        np.testing.assert_allclose(damped.chi, path.chi, atol=1e-7)
    short = infer(weak, method, solver="damped", max_iter=2)
    assert not short.converged
    assert "raise damping or max_iter" in short.status
    assert short.residual > 1e-10


# ---------------------------------------------------------------------- adaptive TAP


@pytest.mark.parametrize("alphabet", ALPHABETS, ids=str)
@pytest.mark.parametrize("strength", [0.3, 1.0, 2.5])
def test_adaptive_tap_and_diagonal_consistency_agree(alphabet, strength):
    for seed in range(2):
        model = random_model(8, 2, alphabet, strength, seed=seed)
        ours, theirs = infer(model, "dc"), infer(model, "adaptive-tap")
        assert ours.converged
        assert theirs.converged
        V = theirs.v - theirs.m**2
        np.testing.assert_allclose(theirs.m, ours.m, atol=1e-8)
        np.testing.assert_allclose(theirs.v, ours.v, atol=1e-8)
        np.testing.assert_allclose(theirs.chi, ours.chi, atol=1e-8)
        np.testing.assert_allclose(theirs.Lambda, ours.Lambda + 1 / V, rtol=1e-8)
        assert theirs.log_partition == pytest.approx(ours.log_partition, abs=1e-8)


@pytest.mark.parametrize("small", [1.0, 1e-8])
def test_inner_problem_is_a_maximum(small):
    rng = np.random.default_rng(0)
    J = np.triu(rng.normal(0, 1.0, (6, 6)), 1)
    J = J + J.T
    V = rng.uniform(0.2, 2.0, 6)
    V[0] *= small
    far = solve_scalar(J, V, np.zeros(6))
    near = solve_scalar(J, V, far.Lambda)
    S = np.diag(far.Lambda + 1 / V) - J
    np.testing.assert_allclose(np.diag(np.linalg.inv(S)) / V, 1.0, atol=1e-9)
    np.testing.assert_allclose(near.Lambda, far.Lambda, rtol=1e-9)
    best = np.linalg.slogdet(S)[1] - (far.Lambda + 1 / V) @ V
    for _ in range(20):
        other = far.Lambda + 1 / V * (1 + 0.01 * rng.normal(size=6))
        if np.linalg.eigvalsh(np.diag(other) - J)[0] > 0:
            assert np.linalg.slogdet(np.diag(other) - J)[1] - other @ V < best


def test_adaptive_tap_takes_pairs_only():
    with pytest.raises(ValueError, match=r"pair couplings only \(this model has order 3\): use method 'dc'"):
        infer(random_model(4, 3, (-1, 1), 0.3, seed=0), "adaptive-tap")
    with pytest.raises(ValueError, match="tol"):
        infer(random_model(4, 2, (-1, 1), 0.3, seed=0), "adaptive-tap", tol=-1.0)


# ---------------------------------------------------------------------- ln Z along the path


def partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for k in range(len(rest) + 1):
        for others in combinations(rest, k):
            block = (first, *others)
            remaining = [i for i in rest if i not in others]
            for tail in partitions(remaining):
                yield [block, *tail]


def closed_moment(mu, J, alpha, m, V, chi, kappa):
    """⟨Π_{i∈μ} x_i⟩ by all partitions, in plain Python."""

    def cumulant(block):
        if len(block) <= 3:
            return {1: lambda: m[block[0]], 2: lambda: chi[block], 3: lambda: kappa[block]}[len(block)]()
        return alpha * J * np.prod(V[list(block)]) * np.prod([m[i] for i in mu if i not in block])

    return sum(np.prod([cumulant(block) for block in blocks]) for blocks in partitions(list(mu)))


def tree_cumulants(model, alpha, m, chi, s):
    """κ_ijk for all i, j, k, by einsum."""
    site = np.einsum("ia,ja,ka,a->ijk", chi, chi, chi, s.mu3 / s.V**3)
    return site + alpha * np.einsum("abc,ia,jb,kc->ijk", model.T(m), chi, chi, chi)


def energy_derivative(model, alpha):
    """∂ln Z/∂α = ⟨Σ_μ J_μ Π x⟩_α of the dc solution at coupling strength α."""
    result = infer(scaled(model, alpha), "dc", tol=1e-9)
    s = model.alphabet.site_moments(
        model.h + alpha * model.F(result.m) - result.Lambda * result.m, model.d - result.Lambda
    )
    kappa = tree_cumulants(model, alpha, result.m, result.chi, s)
    return sum(J * closed_moment(mu, J, alpha, result.m, s.V, result.chi, kappa) for mu, J in model.couplings().items())


def log_partition_in_short_steps(model):
    problem = DiagonalConsistency(model)
    end = arrive(problem, tol=1e-12, max_evaluations=5000, settings=Settings(max_step=0.05))
    return end.point.closed_form + path_integral(problem, end.path)[-1]


@pytest.mark.parametrize("alphabet", [(-1, 1), (0, 1, 2)], ids=str)
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_log_partition_is_the_integral_of_its_derivative(alphabet, order):
    """The closed form and its correction add up to ∫⟨Σ J Π x⟩dα, done here by adaptive quadrature in α."""
    model = random_model(5, order, alphabet, 0.5, seed=order)
    free = model.alphabet.site_moments(model.h, model.d).log_z.sum()
    integral, _ = quad(lambda alpha: energy_derivative(model, alpha), 0, 1, epsabs=1e-8, epsrel=1e-8)
    assert log_partition_in_short_steps(model) == pytest.approx(free + integral, abs=1e-7)


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("strength", [0.2, 0.6, 1.2])
def test_quadrature_error_is_far_below_that_of_the_approximation(order, strength):
    models = [random_model(5, order, (-1, 0, 1), strength, seed=seed) for seed in range(6)]
    found = np.array([infer(model, "dc").log_partition for model in models])
    exact = np.array([infer(model, "exact").log_partition for model in models])
    short = np.array([log_partition_in_short_steps(model) for model in models])
    assert np.abs(found - short).mean() < 0.01 * np.abs(found - exact).mean()


@pytest.mark.parametrize("alphabet", [(-1, 1), (0, 1), (-1, 0, 1)], ids=str)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_log_partition_is_better_than_naive_at_every_strength(alphabet, order):
    for strength in (0.1, 0.3, 0.6, 1.0, 1.5):
        errors = []
        for seed in range(4):
            model = random_model(6, order, alphabet, strength, seed=seed)
            exact = infer(model, "exact").log_partition
            errors.append([abs(infer(model, method).log_partition - exact) for method in ("naive", "dc")])
        naive, dc = np.mean(errors, axis=0)
        assert dc < naive, (strength, errors)


# ---------------------------------------------------------------------- kernels against NumPy


def flat_case(order, n=6):
    rng = np.random.default_rng(order)
    interactions = Interactions.upto(order, n)
    keep = rng.random(len(interactions)) < 0.5
    tuples = [mu for mu, kept in zip(interactions.tuples, keep) if kept and len(mu) >= 3]
    model = BoltzmannMachine(np.zeros(n), {mu: rng.normal() for mu in tuples})
    m, V = rng.normal(size=n), rng.uniform(0.1, 1, n)
    chi = rng.normal(size=(n, n))
    return model, m, V, chi @ chi.T / n, rng.normal(size=n)


@pytest.mark.parametrize("order", [3, 4, 5])
def test_triples_and_their_contractions(order):
    model, m, _, chi, _ = flat_case(order)
    sites, values = cumulants.triples(m, *model._kernel_args)
    T = np.zeros((6, 6, 6))
    for (i, j, k), value in zip(sites, values):
        for a, b, c in permutations((i, j, k)):
            T[a, b, c] += value
    np.testing.assert_allclose(T, model.T(m), atol=1e-12)
    np.testing.assert_allclose(cumulants.third_trace(sites, values, chi), np.einsum("ijk,ij->k", T, chi), atol=1e-12)
    np.testing.assert_allclose(cumulants.third_block(sites, values, 2, 5, 6), T[2:5], atol=1e-12)


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("block", [10**6, 50, 0], ids=["one block", "slices", "pairs of triples"])
def test_third_cumulants(order, block, monkeypatch):
    model, m, V, chi, mu3 = flat_case(order)
    sites, values = cumulants.triples(m, *model._kernel_args)
    s = model.alphabet.site_moments(np.zeros(6))
    object.__setattr__(s, "V", V)
    object.__setattr__(s, "mu3", mu3)
    if block:
        monkeypatch.setattr("hbm_learn.inference.free_energy._BLOCK_SIZE", block)
        kappa = third_cumulants(sites, values, chi, s, 0.7)
    else:
        kappa = np.zeros(len(sites))
        cumulants.add_coupling_part(kappa, sites, chi, sites, values)
        kappa *= 0.7
        cumulants.add_site_part(kappa, sites, chi / V, mu3)
    full = tree_cumulants(model, 0.7, m, chi, s)
    np.testing.assert_allclose(kappa, full[tuple(sites.T)], atol=1e-11)


@pytest.mark.parametrize("order", [3, 4, 5, 6])
def test_closure_excess(order):
    model, m, V, chi, _ = flat_case(order)
    kappa = np.random.default_rng(1).normal(size=(6, 6, 6))
    sites, _ = cumulants.triples(m, *model._kernel_args)
    found = cumulants.closure_excess(m, V, chi, kappa[tuple(sites.T)], 0.7, *model._kernel_args)
    expected = 0.0
    for mu, J in model.couplings().items():
        whole = closed_moment(mu, J, 0.7, m, V, chi, kappa)
        pairs = sum(chi[p] * np.prod([m[i] for i in mu if i not in p]) for p in combinations(mu, 2))
        expected += J * (whole - np.prod(m[list(mu)]) - pairs)
    assert found == pytest.approx(expected, abs=1e-11)


def test_plefka_kernels():
    model, m, V, A, _ = flat_case(3)
    np.fill_diagonal(A, 0)
    sites, values = cumulants.triples(m, *model._kernel_args)
    T = model.T(m)
    Lambda, W, phi, total = plefka.triple_terms(sites, values, A, V)
    np.testing.assert_allclose(Lambda, 0.5 * np.einsum("ijk,j,k->i", T**2, V, V), atol=1e-12)
    np.testing.assert_allclose(W, np.einsum("ijk,j->ik", T**2, V), atol=1e-12)
    np.testing.assert_allclose(phi, -0.5 * np.einsum("ijk,jk,j,k->i", T, A, V, V), atol=1e-12)
    assert total == pytest.approx(np.einsum("ijk,i,j,k->", T**2, V, V, V) / 6)
    slope = plefka.reaction_slope(sites, values, A, V)
    np.testing.assert_allclose(slope, np.einsum("ik,k,ikp->ip", A, V, T), atol=1e-12)


def test_p_spin_energy():
    model, m, V, _, _ = flat_case(5)
    expected = sum(
        J**2 * np.prod(V[list(nu)]) * np.prod([m[i] ** 2 for i in mu if i not in nu])
        for mu, J in model.couplings().items()
        for size in range(2, len(mu) + 1)
        for nu in combinations(mu, size)
    )
    assert plefka.p_spin_energy(m, V, *model._kernel_args) == pytest.approx(expected)
