"""Mean field where variables differ in kind: several functions of a variable, own weights, mixed alphabets."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.integrate import quad
from threadpoolctl import threadpool_limits

from hbm_learn import BoltzmannMachine, Interval, Nominal
from hbm_learn._kernels import cumulants, polynomial
from hbm_learn.consistency import consistent_lambda, own_weights, quadratic_parameters
from hbm_learn.consistency.blocks import Blocks
from hbm_learn.consistency.response import solve_scalar
from hbm_learn.inference import infer
from hbm_learn.inference.block_equations import BlockConsistency
from hbm_learn.inference.block_sites import BlockSites
from hbm_learn.inference.continuation import Settings, arrive
from hbm_learn.inference.free_energy import path_integral
from hbm_learn.inference.naive import NaiveEquations
from hbm_learn.inference.scalar_sites import Sites
from hbm_learn.interactions import Interactions
from hbm_learn.space import Space

LABELS = Nominal("a", "b", "c")
MIXED = [(-1, 1), LABELS, (0, 1, 2, 3), Nominal("x", "y"), (-1, 0, 1), Nominal("p", "q", "r", "s")]
SCALAR = [(-1, 1), (0, 1), (0, 1, 2, 3), Nominal("x", "y"), (-1, 0, 1), (0.5, 1.7, 4.0)]
POWERS = [2, 1, 3, 1, 1, 1]


@pytest.fixture(autouse=True)
def _one_blas_thread():
    """The matrices are small: threads only contend."""
    with threadpool_limits(1):
        yield


# ---------------------------------------------------------------------- models and their exact answers


def random_model(alphabets, order, strength, seed, powers=1):
    """All interactions of up to ``order`` variables, in all their powers; J of functions of unit size has the standard
    deviation strength/n^((k−1)/2). Every value of a finite variable has a weight of its own."""
    rng = np.random.default_rng(seed)
    n = len(alphabets)
    space = Space.of(alphabets, n, powers)
    counts = np.diff(space.column_ptr)
    nominal = np.array([a.is_nominal for a in space.alphabets])
    size = [np.array([1.5]) if t is None else np.sqrt(np.mean(t**2, axis=0)) for t in space.functions]
    couplings = {}
    for k in range(2, order + 1):
        for mu in combinations(range(n), k):
            shape = [space.sizes[i] for i in mu if nominal[i]]
            for power in product(*([1] if nominal[i] else range(1, counts[i] + 1) for i in mu)):
                unit = np.prod([size[i][p - 1] for i, p in zip(mu, power)]) * n ** ((k - 1) / 2)
                J = zero_sum(rng, *shape) if shape else rng.normal()
                couplings[tuple(i for i, p in zip(mu, power) for _ in range(p))] = strength / unit * J
    finite = space.sizes > 0
    h, d = np.where(finite, 0.0, rng.normal(0, 0.4, n)), np.where(finite, 0.0, 0.2)
    site = [rng.normal(0, 0.4, q) if q else None for q in space.sizes]
    return BoltzmannMachine(h, couplings, d, alphabets, site)


def zero_sum(rng, *shape):
    table = rng.normal(size=shape)
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def codes_of(model):
    return np.array(list(product(*(range(q) for q in model.space.sizes))))


def exact(model):
    """⟨φ⟩, Cov(φ), P(x_i) and ln Z by every state, from the definition of the model."""
    space, codes = model.space, codes_of(model)
    phi = np.column_stack([space.functions[i][codes[:, i], c - space.column_ptr[i]] for c, i in enumerate(space.site)])
    exponent = sum(model.own[i][codes[:, i]] for i in range(space.n_features))
    for mu, weight in zip(model.columns.tuples, model.column_weights):
        exponent = exponent + weight * phi[:, list(mu)].prod(axis=1)
    top = exponent.max()
    p = np.exp(exponent - top)
    log_z = top + np.log(p.sum())
    p /= p.sum()
    m = p @ phi
    marginals = [np.bincount(codes[:, i], p, minlength=q) for i, q in enumerate(space.sizes)]
    return m, (phi - m).T @ (p[:, None] * (phi - m)), marginals, float(log_z)


def with_own(model, own):
    return BoltzmannMachine.from_columns(model.space, own, model.columns, model.column_weights)


def scaled(model, alpha):
    couplings = {mu: alpha * J for mu, J in model.couplings().items()}
    return BoltzmannMachine(model.h, couplings, model.d, model.alphabet, model.site)


def solve_blocks(model, **options):
    """The block equations on any model, scalar ones too: (sites, point, ln Z)."""
    problem = BlockConsistency(model)
    end = arrive(problem, tol=1e-12, max_evaluations=5000, **options)
    assert end.path.arrived
    return problem.sites, end.point, end.point.closed_form + float(path_integral(problem, end.path)[-1])


# ---------------------------------------------------------------------- what was there before stays


def written_model(alphabet):
    h = 0.4 * np.sin(np.arange(5.0))
    d = 0.3 * np.cos(np.arange(5.0))
    couplings = {mu: 0.4 * np.sin(3.0 * mu[0] + 7.0 * mu[1]) for mu in combinations(range(5), 2)}
    couplings |= {mu: 0.2 * np.cos(mu[0] + 2.0 * mu[1] + 4.0 * mu[2]) for mu in combinations(range(5), 3)}
    return BoltzmannMachine(h, couplings, d, alphabet)


# m, ln Z and χ_01, computed before variables could differ in kind.
RECORDED = [
    ((-1, 1), "naive", [0.21839664939467, 0.19853174343663, 0.36645698334338, 0.25970333364254, -0.29580273063789],
     3.7019452494473, None),
    ((-1, 1), "tap", [0.10064924514358, 0.18672363707268, 0.15920929062589, 0.064983787965949, -0.17063812601802],
     4.1476623192023, -0.012218155745892),
    ((-1, 1), "dc", [0.11142557662704, 0.22225498477005, 0.21496602801435, 0.12313030707794, -0.2787604114037],
     4.1091640366594, -0.039390234126017),
    ((0, 1), "naive", [0.58722839306891, 0.44442021457263, 0.6672780046204, 0.56238472595885, 0.43947333774295],
     3.8869739140633, None),
    ((0, 1), "tap", [0.58745628150525, 0.44689225157987, 0.66163135260269, 0.56009617355791, 0.44234014322335],
     3.9160402770877, 0.010493867286107),
    ((0, 1), "dc", [0.58638751844048, 0.44712404890596, 0.66196993904194, 0.56019355413946, 0.44001337906589],
     3.9155057525504, 0.010319018683414),
    ((-1, 0, 1), "naive", [0.082399304032798, 0.17353007794112, 0.21562029396668, 0.10816290356641, -0.20753201579575],
     5.6560606025236, None),
    ((-1, 0, 1), "tap", [0.064845471873298, 0.15553933106944, 0.16163623055095, 0.065915404680289, -0.16351184006748],
     5.8658790785128, 0.011536953899985),
    ((-1, 0, 1), "dc", [0.064417232021428, 0.16765360031281, 0.18095152039106, 0.083172595780928, -0.20017166602949],
     5.8564548662248, 0.006572630120554),
    ((0, 1, 2, 3), "naive", [1.458998436742, 0.035036444381299, 2.9099524043055, 2.3039580023703, 2.0088179717842],
     10.514622520781, None),
    ((0, 1, 2, 3), "tap", [2.4693467863451, 1.0872331550746, 1.8899698404136, 1.3932296191525, 1.9337640769157],
     11.572201368317, 0.19883473030419),
    ((0, 1, 2, 3), "dc", [1.6666737334629, 0.097589776374485, 2.8482237412681, 1.930147788249, 1.9864889981288],
     10.845158002332, 0.061655933465008),
    (Interval(-1, 2), "naive",
     [0.79614932809348, 0.039050828433858, 1.2215631729711, 0.9637290612126, 0.42569637394204],
     6.2780292235259, None),
    (Interval(-1, 2), "tap", [0.80851821233066, 0.18336272639229, 1.0654319008357, 0.84181048361719, 0.46470100505227],
     6.5466953437636, 0.047963651796444),
    (Interval(-1, 2), "dc", [0.78019950466006, 0.18145830872596, 1.0719446687604, 0.86035228437371, 0.38973577114842],
     6.5082843782228, 0.01926087459409),
]  # fmt: skip


@pytest.mark.parametrize(("alphabet", "method", "m", "log_z", "chi"), RECORDED, ids=lambda x: str(x)[:12])
def test_recorded_results(alphabet, method, m, log_z, chi):
    result = infer(written_model(alphabet), method)
    np.testing.assert_allclose(result.m, m, rtol=2e-13, atol=1e-13)
    assert result.log_partition == pytest.approx(log_z, rel=1e-12)
    if chi is not None:
        assert result.chi[0, 1] == pytest.approx(chi, abs=1e-12)


@pytest.mark.parametrize("alphabet", [(-1, 1), (0, 1), (-1, 0, 1), (0, 1, 2, 3), Interval(-1, 2)], ids=str)
@pytest.mark.parametrize("order", [2, 3, 4])
def test_blocks_of_one_column_are_the_scalar_equations(alphabet, order):
    model = random_model([alphabet] * 5, order, 0.8, seed=order)
    result = infer(model, "dc")
    sites, point, log_z = solve_blocks(model)
    np.testing.assert_allclose(sites.means(point.s), result.m, atol=1e-10)
    np.testing.assert_allclose(sites.covariances(point.chi), result.chi, atol=1e-10)
    np.testing.assert_allclose(point.Lambda, result.Lambda, atol=1e-9)
    assert log_z == pytest.approx(result.log_partition, abs=1e-9)


@pytest.mark.parametrize("alphabet", [(-1, 0, 1), (0, 1, 2, 3)], ids=str)
@pytest.mark.parametrize("order", [2, 3])
def test_functions_without_couplings_change_nothing(alphabet, order):
    """φ = (x, x²) with couplings in x alone is φ = x."""
    plain = random_model([alphabet] * 5, order, 0.7, seed=1)
    space = Space.of(alphabet, 5, 2)
    columns = Interactions.from_tuples([tuple(2 * i for i in mu) for mu in plain.columns.tuples], 10)
    wide = BoltzmannMachine.from_columns(space, plain.own, columns, plain.column_weights)
    for method in ("naive", "susp", "dc"):
        a, b = infer(plain, method), infer(wide, method)
        np.testing.assert_allclose(b.m, a.m, atol=1e-10)
        np.testing.assert_allclose(b.v, a.v, atol=1e-10)
        if a.chi is not None:
            np.testing.assert_allclose(b.covariances[::2, ::2], a.chi, atol=1e-10)
        assert b.log_partition == pytest.approx(a.log_partition, abs=1e-10 if order == 2 else 1e-5)
    short = Settings(max_step=0.03)  # what differs above is the quadrature along another path
    assert solve_blocks(wide, settings=short)[2] == pytest.approx(solve_blocks(plain, settings=short)[2], abs=1e-8)


# ---------------------------------------------------------------------- derivatives


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("equations", [BlockConsistency, NaiveEquations])
def test_jacobians(order, equations):
    alphabets = [*MIXED[:3], Interval(-1, 2), (0, 1, 2, 3)]
    problem = equations(random_model(alphabets, order, 0.6, seed=order, powers=[1, 1, 2, 1, 3]))
    rng = np.random.default_rng(0)
    u = arrive(problem, tol=1e-10, max_evaluations=1000).u
    z = np.append(u * (1 + 0.1 * rng.random(len(u))), 0.7)
    point = problem.evaluate(z[:-1], z[-1])
    for k, e in enumerate(1e-5 * np.eye(len(z))):
        high, low = z + e, z - e
        difference = (problem.evaluate(high[:-1], high[-1]).R - problem.evaluate(low[:-1], low[-1]).R) / 2e-5
        column = point.d_alpha if k == len(u) else point.jacobian[:, k]
        np.testing.assert_allclose(column, difference, atol=2e-7)


# ---------------------------------------------------------------------- the equations themselves


def equation_residual(model, result):
    """The equations as they are written, from the model's own functions."""
    space, worst = model.space, 0.0
    F, A = model.F(result.means), model.A(result.means)
    S, blocks = -A, []
    for i, (phi, L) in enumerate(zip(space.functions, result.Lambda)):
        mine = slice(space.column_ptr[i], space.column_ptr[i + 1])
        y = phi - result.means[mine]
        exponent = model.own[i] + phi @ F[mine] + 0.5 * np.einsum("xa,ab,xb->x", y, np.reshape(L, (len(y.T),) * 2), y)
        q = np.exp(exponent - exponent.max())
        q /= q.sum()
        worst = max(worst, np.abs(q - result.probabilities[i]).max(), np.abs(q @ y).max())
        V = (phi - q @ phi).T @ (q[:, None] * (phi - q @ phi))
        S[mine, mine] += np.linalg.inv(V) + L
        blocks.append((mine, V))
    chi = np.linalg.inv(S)
    worst = max(worst, np.abs(chi - result.covariances).max())
    return max(worst, *(np.abs(chi[mine, mine] - V).max() for mine, V in blocks))


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("strength", [0.3, 1.5])
@pytest.mark.parametrize("kind", ["labels", "powers", "mixed", "scalar"])
def test_solution(order, strength, kind):
    alphabets, powers = {
        "labels": ([LABELS] * 5, 1),
        "powers": ([(-1, 0, 1), (0, 1, 2, 3)] * 2, 3),
        "mixed": (MIXED[:5], POWERS[:5]),
        "scalar": (SCALAR, 1),
    }[kind]
    model = random_model(alphabets, order, strength, seed=order, powers=powers)
    result = infer(model, "dc")
    assert result.converged, result.status
    assert equation_residual(model, result) < 1e-8
    assert np.linalg.eigvalsh(result.covariances)[0] > 0
    for L in result.Lambda:  # Λ_i ≥ 0 on the branch where χ is positive definite
        assert np.linalg.eigvalsh(np.atleast_2d(L))[0] > -1e-9


def test_what_is_reported():
    model = random_model(MIXED, 2, 0.5, seed=0, powers=POWERS)
    space = model.space
    for method in ("naive", "susp", "dc"):
        result = infer(model, method)
        for i, (p, table) in enumerate(zip(result.probabilities, space.functions)):
            assert p.shape == (space.sizes[i],)
            assert p.sum() == pytest.approx(1.0)
            np.testing.assert_allclose(
                result.means[space.column_ptr[i] : space.column_ptr[i + 1]], p @ table, atol=1e-9
            )
            if space.alphabets[i].is_nominal:
                assert np.isnan([result.m[i], result.v[i]]).all()
            else:
                x = space.alphabets[i].nodes
                np.testing.assert_allclose([result.m[i], result.v[i]], [p @ x, p @ x**2], atol=1e-9)
        if method != "naive":
            first = space.column_ptr[[0, 2, 4]]
            np.testing.assert_allclose(
                result.chi[np.ix_([0, 2, 4], [0, 2, 4])], result.covariances[np.ix_(first, first)]
            )
    assert [L.shape for L in result.Lambda] == [(r, r) for r in np.diff(space.column_ptr)]
    assert infer(random_model(SCALAR, 2, 0.5, seed=0), "dc").Lambda.shape == (6,)


# ---------------------------------------------------------------------- where it is exact


@pytest.mark.parametrize("method", ["naive", "susp", "dc"])
def test_independent_variables_are_exact(method):
    for alphabets in ([LABELS], MIXED):
        model = random_model(alphabets, 2, 0.0, seed=2, powers=POWERS[: len(alphabets)])
        m, C, marginals, log_z = exact(model)
        result = infer(model, method)
        np.testing.assert_allclose(result.means, m, atol=1e-12)
        if method != "naive":
            np.testing.assert_allclose(result.covariances, C, atol=1e-11)
        assert result.log_partition == pytest.approx(log_z, abs=1e-12)
        for found, p in zip(result.probabilities, marginals):
            np.testing.assert_allclose(found, p, atol=1e-12)


def test_a_gaussian_is_exact():
    rng = np.random.default_rng(3)
    J = np.triu(rng.normal(0, 0.4, (6, 6)), 1)
    J = J + J.T
    d = np.abs(J).sum(axis=1) + rng.uniform(0.05, 1.0, 6)
    model = BoltzmannMachine(rng.normal(size=6), J, d, "real")
    C = np.linalg.inv(np.diag(d) - J)
    log_z = 0.5 * model.h @ C @ model.h + 0.5 * np.linalg.slogdet(2 * np.pi * C)[1]
    sites, point, found = solve_blocks(model)
    np.testing.assert_allclose(sites.means(point.s), C @ model.h, atol=1e-11)
    np.testing.assert_allclose(point.chi, C, atol=1e-11)
    assert found == pytest.approx(log_z, abs=1e-10)
    result = infer(model, "dc")
    np.testing.assert_allclose(result.covariances, C, atol=1e-11)
    assert result.probabilities == [None] * 6


# ---------------------------------------------------------------------- how good it is


def potts(seed, n=6, beta=0.6):
    rng = np.random.default_rng(seed)
    couplings = {mu: zero_sum(rng, 3, 3) * beta / np.sqrt(n) for mu in combinations(range(n), 2)}
    return BoltzmannMachine(np.zeros(n), couplings, alphabet=LABELS, site=[rng.normal(0, 0.3, 3) for _ in range(n)])


def spin_one(seed, n=6, beta=0.6):
    """Blume–Emery–Griffiths: couplings of x and of x²."""
    rng = np.random.default_rng(seed)
    couplings = {mu: rng.normal() * beta / np.sqrt(n) for mu in combinations(range(n), 2)}
    couplings |= {(i, i, j, j): rng.normal() * beta / np.sqrt(n) for i, j in combinations(range(n), 2)}
    return BoltzmannMachine(rng.normal(0, 0.3, n), couplings, rng.normal(0, 0.3, n), (-1, 0, 1))


def mixed(seed, beta=0.6):
    rng = np.random.default_rng(seed)
    alphabets = [(-1, 1), LABELS, (0, 1, 2, 3)] * 2
    couplings = {
        mu: zero_sum(rng, *(3 for i in mu if i % 3 == 1)) * beta / np.sqrt(6) if any(i % 3 == 1 for i in mu)
        else rng.normal() * beta / np.sqrt(6)
        for mu in combinations(range(6), 2)
    }  # fmt: skip
    return BoltzmannMachine(np.where(np.arange(6) % 3 == 1, 0.0, rng.normal(0, 0.3, 6)), couplings, 0.0, alphabets)


@pytest.mark.parametrize(("make", "factor"), [(potts, 10), (spin_one, 8), (mixed, 8)])
def test_errors_against_enumeration(make, factor):
    """⟨φ⟩ and ln Z of dc beside naive, χ beside linear response, over 20 models."""
    errors = []
    for seed in range(20):
        model = make(seed)
        m, C, _, log_z = exact(model)
        naive, susp, dc = (infer(model, method) for method in ("naive", "susp", "dc"))
        assert dc.converged
        errors.append(
            [
                [np.abs(naive.means - m).mean(), np.abs(susp.covariances - C).mean(), abs(naive.log_partition - log_z)],
                [np.abs(dc.means - m).mean(), np.abs(dc.covariances - C).mean(), abs(dc.log_partition - log_z)],
            ]
        )
    before, after = np.mean(errors, axis=0)
    assert before[0] > 5e-3
    assert (before / after > [factor, 4, 10]).all(), before / after


@pytest.mark.parametrize("order", [3, 4])
def test_log_partition_of_higher_orders_is_better_than_naive(order):
    errors = []
    for seed in range(6):
        model = random_model([LABELS, (-1, 1), (-1, 0, 1), LABELS, (0, 1)], order, 0.7, seed, powers=2)
        log_z = exact(model)[3]
        errors.append([abs(infer(model, method).log_partition - log_z) for method in ("naive", "dc")])
    naive, dc = np.mean(errors, axis=0)
    assert dc < 0.2 * naive


@pytest.mark.parametrize("order", [2, 3])
def test_second_order_is_exact(order):
    """The error of ln Z falls as s³ when the couplings are scaled by s, for dc and tap; that of naive as s²."""
    for alphabets, powers, methods in ((MIXED[:4], 2, ("naive", "dc")), (SCALAR[:4], 1, ("naive", "dc", "tap"))):
        errors = np.zeros((2, len(methods)))
        for seed in range(6):
            model = random_model(alphabets, order, 1.0, seed, powers)
            for k, s in enumerate((0.08, 0.04)):
                weak = scaled(model, s)
                log_z = exact(weak)[3]
                errors[k] += [abs(infer(weak, name, tol=1e-12).log_partition - log_z) for name in methods]
        slopes = np.log2(errors[0] / errors[1])
        assert slopes[0] == pytest.approx(2.0, abs=0.3)
        np.testing.assert_allclose(slopes[1:], 3.0, atol=0.5)


# ---------------------------------------------------------------------- derivatives of ln Z


@pytest.mark.parametrize("method", ["naive", "dc"])
def test_probabilities_are_the_derivatives_of_the_free_energy(method):
    """∂ln Z/∂θ_i(x) = P(x_i = x) for pairs: stationarity; a misplaced term anywhere would break it."""
    model = random_model(MIXED[:5], 2, 0.6, seed=5, powers=POWERS[:5])
    result, step = infer(model, method), 1e-4
    for i, p in enumerate(result.probabilities):
        for x in range(len(p)):
            values = []
            for sign in (1, -1):
                own = [table.copy() for table in model.own]
                own[i][x] += sign * step
                # from_columns drops constants of θ, which ln Z has
                changed = with_own(model, own)
                dropped = np.mean([a - b for a, b in zip(own[i], changed.own[i])])
                values.append(infer(changed, method).log_partition + dropped)
            assert (values[0] - values[1]) / (2 * step) == pytest.approx(p[x], abs=1e-6)


def test_means_are_the_derivatives_of_the_free_energy_in_h():
    rng = np.random.default_rng(1)
    couplings = {(0, 1): 0.4, (0, 0, 2): 0.3, (1, 2): -0.5, (2, 3): zero_sum(rng, 3)}
    alphabets = [(-1, 0, 1), (-1, 1), (0, 1, 2, 3), LABELS]
    h, d, step = np.array([0.2, -0.3, 0.1, 0.0]), np.array([0.2, 0.2, 0.2, 0.0]), 1e-4
    result = infer(BoltzmannMachine(h, couplings, d, alphabets), "dc")
    for i in range(3):
        shift = step * np.eye(4)[i]
        high, low = (infer(BoltzmannMachine(h + s * shift, couplings, d, alphabets), "dc") for s in (1, -1))
        assert (high.log_partition - low.log_partition) / (2 * step) == pytest.approx(result.m[i], abs=1e-6)


def partitions(items):
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for k in range(len(rest) + 1):
        for others in combinations(rest, k):
            for tail in partitions([i for i in rest if i not in others]):
                yield [(first, *others), *tail]


def closed_moment(model, mu, alpha, m, V, chi, kappa):
    """⟨Π_{c∈μ} φ_c⟩ by all partitions, in plain Python; vertices of four and more of all columns at their sites."""
    site = model.space.site
    couplings = dict(zip(model.columns.tuples, model.column_weights))

    def cumulant(block):
        if len(block) <= 3:
            return {1: lambda: m[block[0]], 2: lambda: chi[block], 3: lambda: kappa[block]}[len(block)]()
        total = 0.0
        for nu, J in couplings.items():
            if tuple(site[list(nu)]) == tuple(site[list(mu)]):
                total += J * np.prod([V[c, e] if c in block else m[e] for c, e in zip(mu, nu)])
        return alpha * total

    return sum(np.prod([cumulant(block) for block in blocks]) for blocks in partitions(list(mu)))


def tree_cumulants(model, alpha, result):
    """V (N, N) block-diagonal and κ for all columns, by einsum."""
    space, N = model.space, model.n_columns
    V, third = np.zeros((N, N)), np.zeros((N, N, N))
    for i, (p, phi) in enumerate(zip(result.probabilities, space.functions)):
        y = phi - p @ phi
        mine = np.arange(space.column_ptr[i], space.column_ptr[i + 1])
        V[np.ix_(mine, mine)] = y.T @ (p[:, None] * y)
        third[np.ix_(mine, mine, mine)] = np.einsum("x,xa,xb,xc->abc", p, y, y, y)
    chi = result.covariances
    U = chi @ np.linalg.inv(V)
    kappa = np.einsum("ia,jb,kc,abc->ijk", U, U, U, third)
    return V, kappa + alpha * np.einsum("abc,ia,jb,kc->ijk", model.T(result.means), chi, chi, chi)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_log_partition_is_the_integral_of_its_derivative(order):
    """The closed form and its correction add up to ∫⟨Σ J Π φ⟩dα, done here by adaptive quadrature in α."""
    model = random_model([LABELS, (-1, 0, 1), (-1, 1), LABELS], order, 0.6, seed=order, powers=2)

    def energy(alpha):
        result = infer(scaled(model, alpha), "dc", tol=1e-9)
        V, kappa = tree_cumulants(model, alpha, result)
        given = (alpha, result.means, V, result.covariances, kappa)
        return sum(J * closed_moment(model, mu, *given) for mu, J in zip(model.columns.tuples, model.column_weights))

    integral, _ = quad(energy, 0, 1, epsabs=1e-8, epsrel=1e-8)
    free = sum(np.log(np.exp(table).sum()) for table in model.own)
    log_z = solve_blocks(model, settings=Settings(max_step=0.05))[2]
    assert log_z == pytest.approx(free + integral, abs=1e-7)


# ---------------------------------------------------------------------- symmetries


@pytest.mark.parametrize("method", ["naive", "susp", "dc"])
def test_labels_may_be_permuted(method):
    rng = np.random.default_rng(4)
    alphabets = [LABELS, (-1, 1), Nominal("p", "q", "r", "s")]
    tables = {(0, 1): zero_sum(rng, 3), (0, 2): zero_sum(rng, 3, 4), (0, 1, 2): 0.5 * zero_sum(rng, 3, 4)}
    site = [rng.normal(size=3), None, rng.normal(size=4)]
    model = BoltzmannMachine([0.0, 0.2, 0.0], tables, alphabet=alphabets, site=site)
    order = np.array([2, 0, 3, 1])
    moved = BoltzmannMachine(
        [0.0, 0.2, 0.0],
        {mu: table[..., order] if 2 in mu else table for mu, table in tables.items()},
        alphabet=[LABELS, (-1, 1), Nominal("r", "p", "s", "q")],
        site=[site[0], None, site[2][order]],
    )
    a, b = infer(model, method), infer(moved, method)
    np.testing.assert_allclose(b.probabilities[2], a.probabilities[2][order], atol=1e-10)
    np.testing.assert_allclose(b.probabilities[0], a.probabilities[0], atol=1e-10)
    assert b.log_partition == pytest.approx(a.log_partition, abs=1e-8)


@pytest.mark.parametrize("method", ["naive", "susp", "dc"])
@pytest.mark.parametrize("order", [2, 3, 4])
def test_any_basis_gives_the_same(method, order):
    """Functions R-transformed at every site: probabilities, ln Z, and χ in the new functions.

    Shifts too, for pairs: at higher orders they change what is a coupling, and so the path that ln Z is integrated on.
    """
    rng = np.random.default_rng(order)
    model = random_model([LABELS, (-1, 0, 1), (0, 1, 2, 3), (-1, 1)], order, 0.6, seed=1, powers=[1, 2, 2, 1])
    functions, R = [], []
    for table in model.space.functions:
        R.append(rng.normal(size=(table.shape[1],) * 2) + 2 * np.eye(table.shape[1]))
        functions.append((rng.normal(size=table.shape[1]) if order == 2 else 0.0) + table @ R[-1])
    other = model.in_space(Space(model.space.alphabets, functions))
    constant = exact(model)[3] - exact(other)[3]  # in_space drops constants
    a, b = infer(model, method), infer(other, method)
    for p, q in zip(a.probabilities, b.probabilities):
        np.testing.assert_allclose(q, p, atol=1e-9)
    assert b.log_partition + constant == pytest.approx(a.log_partition, abs=1e-7)
    if method != "naive":
        T = Blocks(model.space).matrix(Blocks(model.space).stacks(R))
        np.testing.assert_allclose(b.covariances, T.T @ a.covariances @ T, atol=1e-8)


def test_affine_change_of_one_variable():
    model = BoltzmannMachine(
        [0.1, -0.2, 0.3], {(0, 1): 0.4, (1, 2): -0.3, (0, 1, 2): 0.2}, 0.1, [(-1, 1), (0, 1), (-1, 0, 1)]
    )
    other = model.with_alphabet([(0, 1), (5, 9), (0, 1, 2)])
    for method in ("naive", "susp", "tap", "dc"):
        a, b = infer(model, method), infer(other, method)
        np.testing.assert_allclose(b.m, [0.5 * (a.m[0] + 1), 4 * a.m[1] + 5, a.m[2] + 1], atol=1e-9)
        for p, q in zip(a.probabilities, b.probabilities):
            np.testing.assert_allclose(q, p, atol=1e-9)


# ---------------------------------------------------------------------- one column a site, of different kinds


def test_mixed_scalar_variables():
    """adaptive-tap and dc agree; every method beats naive against enumeration."""
    errors = {}
    for seed in range(8):
        model = random_model(SCALAR, 2, 0.6, seed)
        m = exact(model)[0]
        found = {method: infer(model, method) for method in ("naive", "tap", "adaptive-tap", "dc")}
        for method, result in found.items():
            assert result.converged
            errors.setdefault(method, []).append(np.abs(result.means - m).mean())
        np.testing.assert_allclose(found["adaptive-tap"].means, found["dc"].means, atol=1e-8)
        np.testing.assert_allclose(found["adaptive-tap"].covariances, found["dc"].covariances, atol=1e-8)
        assert found["adaptive-tap"].log_partition == pytest.approx(found["dc"].log_partition, abs=1e-8)
    mean = {method: np.mean(values) for method, values in errors.items()}
    assert mean["tap"] < 0.5 * mean["naive"]
    assert mean["dc"] < 0.2 * mean["naive"]


def test_tables_and_intervals_side_by_side():
    """A fine grid with its own weights is an interval, to the error of the grid."""
    couplings = {(0, 1): 0.5, (1, 2): -0.4, (0, 1, 2): 0.2}
    grid = tuple(np.linspace(-1, 2, 201))
    fine = BoltzmannMachine([0.2, -0.1, 0.3], couplings, [0.0, 0.3, 0.1], [(-1, 1), grid, (0, 1, 2)])
    smooth = BoltzmannMachine([0.2, -0.1, 0.3], couplings, [0.0, 0.3, 0.1], [(-1, 1), Interval(-1, 2), (0, 1, 2)])
    for method in ("naive", "susp", "tap", "dc"):
        a, b = infer(fine, method), infer(smooth, method)
        np.testing.assert_allclose(b.m, a.m, atol=1e-2)
        assert b.probabilities[1] is None
        assert b.log_partition + np.log(201 / 3) == pytest.approx(a.log_partition, abs=2e-2)


def test_two_labels_are_a_spin():
    spins = BoltzmannMachine([0.3, -0.2], {(0, 1): 0.5})
    labels = BoltzmannMachine(
        [0.0, 0.0], {(0, 1): np.array([[0.5, -0.5], [-0.5, 0.5]])}, alphabet=Nominal("no", "yes"),
        site=[[-0.3, 0.3], [0.2, -0.2]],
    )  # fmt: skip
    for method in ("naive", "susp", "tap", "adaptive-tap", "dc"):
        a, b = infer(spins, method), infer(labels, method)
        np.testing.assert_allclose(b.means, a.m, atol=1e-12)
        assert b.log_partition == pytest.approx(a.log_partition, abs=1e-12)
    cube = BoltzmannMachine([0.3, -0.2, 0.1], {(0, 1, 2): 0.5})
    table = 0.5 * np.einsum("i,j,k->ijk", *[[-1, 1]] * 3)
    other = BoltzmannMachine(
        np.zeros(3), {(0, 1, 2): table}, alphabet=Nominal("no", "yes"), site=[[-0.3, 0.3], [0.2, -0.2], [-0.1, 0.1]]
    )
    np.testing.assert_allclose(infer(other, "tap").means, infer(cube, "tap").m, atol=1e-12)  # p-spin by "auto"


# ---------------------------------------------------------------------- strong couplings, frozen sites, other solvers


@pytest.mark.parametrize("kind", ["labels", "powers", "mixed", "triples"])
@pytest.mark.parametrize("strength", [2.0, 6.0])
def test_strong_couplings(kind, strength):
    alphabets, order, powers = {
        "labels": ([LABELS] * 12, 2, 1),
        "powers": ([(0, 1, 2, 3, 4)] * 8, 2, 3),
        "mixed": (MIXED * 2, 2, POWERS * 2),
        "triples": ([LABELS] * 6, 3, 1),
    }[kind]
    for seed in range(3):
        result = infer(random_model(alphabets, order, strength, seed, powers), "dc", tol=1e-8)
        assert result.converged, result.status
        assert result.residual < 1e-8
        assert result.path[-1, 0] == 1.0


def test_frozen_sites():
    """A label of probability 1e-80, one certain label, ordinary sites beside them."""
    model = random_model([LABELS] * 5, 3, 1.0, seed=3)
    own = [table.copy() for table in model.own]
    own[0] += [0.0, -190.0, -20.0]
    own[1] += [300.0, 0.0, 0.0]
    own[2] += [0.0, 40.0, 40.0]
    frozen = with_own(model, own)
    result = infer(frozen, "dc")
    assert result.converged, result.status
    assert np.isfinite(result.covariances).all()
    assert all(np.isfinite(L).all() for L in result.Lambda)
    np.testing.assert_allclose(result.probabilities[1], [1, 0, 0], atol=1e-100)
    m, _, _, log_z = exact(frozen)
    np.testing.assert_allclose(result.means, m, atol=0.03)
    assert result.log_partition == pytest.approx(log_z, rel=1e-4)


@pytest.mark.parametrize("method", ["naive", "susp", "dc"])
def test_damped_iteration(method):
    weak = random_model(MIXED[:4], 3, 0.3, seed=0, powers=POWERS[:4])
    damped, path = infer(weak, method, solver="damped", damping=0.3), infer(weak, method)
    assert damped.converged, damped.status
    np.testing.assert_allclose(damped.means, path.means, atol=1e-8)
    if method == "dc":
        for a, b in zip(damped.Lambda, path.Lambda):
            np.testing.assert_allclose(a, b, atol=1e-7)
        # Without own weights m = 0 solves the first equation at once, before Λ does the second.
        free = with_own(random_model([LABELS] * 4, 2, 0.5, seed=0), [np.zeros(3)] * 4)
        found, reference = infer(free, method, solver="damped"), infer(free, method)
        np.testing.assert_allclose(found.covariances, reference.covariances, atol=1e-7)
        strong = infer(random_model([LABELS] * 8, 2, 4.0, seed=1), "dc", solver="damped", max_iter=300)
        assert not strong.converged
        assert "solver='path'" in strong.status


def test_too_few_evaluations():
    result = infer(random_model([LABELS] * 8, 2, 6.0, seed=0), "dc", max_evaluations=5)
    assert not result.converged
    assert "raise max_evaluations" in result.status
    assert np.isfinite(result.means).all()


@pytest.mark.parametrize("method", ["tap", "adaptive-tap"])
def test_one_function_a_variable_is_asked_for(method):
    with pytest.raises(ValueError, match=rf"method '{method}'.*variable 1 has 2 \(3 labels\): use method 'dc'"):
        infer(random_model([(-1, 1), LABELS], 2, 0.3, seed=0), method)
    with pytest.raises(ValueError, match=r"variable 0 has 2 \(powers up to 2\)"):
        infer(random_model([(0, 1, 2), (-1, 1)], 2, 0.3, seed=0, powers=[2, 1]), method)


# ---------------------------------------------------------------------- the inverse direction


def test_own_weights_undo_the_site_equations():
    for alphabets, powers in ((MIXED, POWERS), (SCALAR, 1)):
        model = random_model(alphabets, 3, 0.6, seed=7, powers=powers)
        result = infer(model, "dc", tol=1e-12)
        found = own_weights(model.space, result.probabilities, model.F(result.means), result.Lambda)
        for a, b in zip(found, model.own):
            np.testing.assert_allclose(a - a.mean(), b - b.mean(), atol=1e-9)


@pytest.mark.parametrize("strength", [0.3, 3.0])
def test_consistent_lambda(strength):
    """Λ of dc is found again from its V and A, from no guess, a good one and an impossible one."""
    for alphabets, powers in ((MIXED, POWERS), (SCALAR, 1)):
        model = random_model(alphabets, 2, strength, seed=1, powers=powers)
        space, result = model.space, infer(model, "dc", tol=1e-9)
        V = [result.covariances[a:b, a:b] for a, b in zip(space.column_ptr[:-1], space.column_ptr[1:])]
        A = model.A(result.means)
        guesses = [None, result.Lambda, [-100.0 * np.linalg.inv(block) for block in V]]
        for guess in guesses:
            found = consistent_lambda(space, A, V, guess)
            assert len(found) == space.n_features
            for a, b, v in zip(found, result.Lambda, V):
                np.testing.assert_allclose(a @ v if np.ndim(a) else a * v, b @ v if np.ndim(b) else b * v, atol=1e-6)
            S = Blocks(space).matrix(Blocks(space).stacks([np.linalg.inv(v) + L for v, L in zip(V, found)])) - A
            chi = np.linalg.inv(S)
            for lo, hi, v in zip(space.column_ptr[:-1], space.column_ptr[1:], V):
                inverse = np.linalg.inv(np.linalg.cholesky(v))
                np.testing.assert_allclose(inverse @ chi[lo:hi, lo:hi] @ inverse.T, np.eye(hi - lo), atol=1e-8)
            assert np.linalg.eigvalsh(S)[0] > 0


def test_consistent_lambda_is_a_maximum():
    """ln det S − Σ tr(Λ_iV_i) falls in every direction; and one column a site is the scalar problem."""
    rng = np.random.default_rng(0)
    space = Space.of([LABELS, (-1, 1), LABELS], 3)
    blocks = Blocks(space)
    A = rng.normal(size=(5, 5))
    A = A + A.T
    for columns in blocks.columns:
        A[columns[:, :, None], columns[:, None, :]] = 0.0
    V = [np.array([[1.0, 0.3], [0.3, 1e-6 + 0.09]]), np.array([[0.5]]), np.eye(2)]
    Lambda = consistent_lambda(space, A, V)

    def objective(L):
        S = blocks.matrix(blocks.stacks([np.linalg.inv(v) + l for v, l in zip(V, L)])) - A
        return np.linalg.slogdet(S)[1] - sum(np.trace(l @ v) for l, v in zip(L, V))

    best = objective(Lambda)
    for _ in range(20):
        changes = [rng.normal(size=v.shape) * 1e-3 for v in V]
        assert objective([l + d + d.T for l, d in zip(Lambda, changes)]) < best
    plain = Space.of((-1, 1), 5)
    found = consistent_lambda(plain, A, np.full(5, 0.7))
    np.testing.assert_allclose(found, solve_scalar(A, np.full(5, 0.7), np.zeros(5)).Lambda, rtol=1e-9)


def test_quadratic_parameters():
    """(b, c) of each alphabet apart, in the order of the variables."""
    space = Space.of([(-1, 0, 1), (0, 1), Interval(-1, 2), (-1, 0, 1), (0, 1, 2, 3)], 5)
    b, c = np.array([0.3, -0.4, 0.5, -0.2, 0.1]), np.array([0.2, 0.0, -0.3, 0.6, 0.1])
    s = [a.site_moments(x, y) for a, x, y in zip(space.alphabets, b, c)]
    found = quadratic_parameters(space, np.array([x.m for x in s]), np.array([x.v for x in s]))
    np.testing.assert_allclose(found[0], b, atol=1e-9)
    np.testing.assert_allclose(found[1], c, atol=1e-9)


def test_errors_name_the_variable():
    space = Space.of([(-1, 1), LABELS], 2)
    Lambda = [np.zeros((1, 1)), np.zeros((2, 2))]
    with pytest.raises(ValueError, match=r"variable colour: its value 'b' has the frequency 0"):
        own_weights(space, [np.ones(2), np.array([1.0, 0.0, 2.0])], np.zeros(3), Lambda, names=["sex", "colour"])
    with pytest.raises(ValueError, match="variable 1 is nominal"):
        quadratic_parameters(space, np.zeros(2), np.ones(2))
    with pytest.raises(ValueError, match=r"variable 0 is on .*Interval.*give h and d"):
        own_weights(Space.of(Interval(0, 1), 1), [np.ones(1)], np.zeros(1), np.zeros(1))
    with pytest.raises(ValueError, match=r"variable second: .*mean 1"):
        quadratic_parameters(Space.of([(0, 1), (-1, 1)], 2), np.array([0.5, 1.0]), np.ones(2), ["first", "second"])


# ---------------------------------------------------------------------- parts


def test_blocks():
    rng = np.random.default_rng(0)
    space = Space.of([LABELS, (-1, 1), Nominal(*"abcd"), LABELS], 4)
    blocks = Blocks(space)
    parts = [rng.normal(size=(r, r)) for r in (2, 1, 3, 2)]
    stacks = blocks.stacks(parts)
    matrix = blocks.matrix(stacks)
    expected = np.zeros((8, 8))
    for i, part in enumerate(parts):
        expected[space.column_ptr[i] : space.column_ptr[i + 1], space.column_ptr[i] : space.column_ptr[i + 1]] = part
    np.testing.assert_array_equal(matrix, expected)
    for a, b in zip(blocks.by_site(stacks), parts):
        np.testing.assert_array_equal(a, b)
    x, y = rng.normal(size=(8, 8)), rng.normal(size=(8, 5))
    np.testing.assert_allclose(blocks.left(stacks, x), matrix @ x)
    np.testing.assert_allclose(blocks.left(stacks, x[0]), matrix @ x[0])
    np.testing.assert_allclose(blocks.right(y.T, stacks), y.T @ matrix)
    for a, b in zip(blocks.between(y, y), blocks.diagonal(y @ y.T)):
        np.testing.assert_allclose(a, b)
    blocks.add(x, stacks)
    np.testing.assert_allclose(blocks.diagonal(x - matrix)[0], blocks.diagonal(x)[0] - stacks[0])


def test_entries_of_symmetric_blocks():
    sites = BlockSites(random_model(MIXED[:4], 2, 0.3, seed=0, powers=POWERS[:4]))
    Lambda = np.random.default_rng(0).normal(size=sites.n_lambda)
    stacks = sites.matrices(Lambda)
    assert all(np.array_equal(x, np.swapaxes(x, 1, 2)) for x in stacks)
    np.testing.assert_array_equal(sites.entries(stacks), Lambda)
    np.testing.assert_array_equal(sites.blocks.matrix(stacks)[sites.first, sites.second], Lambda)


def test_small_variances_keep_their_digits():
    """Labels of probability 1e-20 and 1e-45: det V = 27 p_1 p_2 p_3 for orthonormal functions of three labels."""
    model = BoltzmannMachine([0.0], {}, alphabet=LABELS, site=[np.log([1.0, 1e-45, 1e-20])])
    L = BlockSites(model).state(np.zeros(2), np.zeros(3)).groups[0].L[0]
    assert np.prod(np.diag(L)) ** 2 / (27 * 1e-65) == pytest.approx(1.0, rel=1e-9)


def test_a_real_site_without_a_distribution_is_not_a_point():
    sites = Sites(BoltzmannMachine([0.1, 0.2], {}, [1.0, 2.0], "real"))
    assert sites.state(np.zeros(2), np.array([0.5, 1.5])) is not None
    assert sites.state(np.zeros(2), np.array([0.5, 2.5])) is None


@pytest.mark.parametrize("order", [4, 5])
def test_kernels_against_numpy(order):
    rng = np.random.default_rng(5)
    model = random_model([LABELS, (-1, 1), (-1, 0, 1), LABELS, (0, 1)], order, 1.0, seed=5, powers=2)
    space, N = model.space, model.n_columns
    m, X, Y = rng.normal(size=N), rng.normal(size=(4, N)), rng.normal(size=(4, N))
    args = (model.columns.members, model.columns.indptr, model.column_weights)
    G = polynomial.third_contract_pairs(m, *args, np.ascontiguousarray(X.T), np.ascontiguousarray(Y.T)).T
    np.testing.assert_allclose(G, np.einsum("klp,ik,il->ip", model.T(m), X, Y), atol=1e-11)

    result = infer(model, "dc")
    V, kappa = tree_cumulants(model, 0.7, result)
    sites = BlockSites(model)
    higher = [(mu, J) for mu, J in zip(model.columns.tuples, model.column_weights) if len(mu) > 2]
    columns = Interactions.from_tuples([mu for mu, _ in higher], N)
    packed = (columns.members, columns.indptr, np.array([J for _, J in higher]))
    triples, _ = cumulants.triples(m, *packed)
    found = np.zeros(len(triples))
    U, third = rng.normal(size=(N, N)), [rng.normal(size=(r, r, r)) for r in np.diff(space.column_ptr)]
    expected = sum(
        np.einsum("ta,tb,tc,abc->t", *(U[triples[:, k], lo:hi] for k in range(3)), cube)
        for lo, hi, cube in zip(space.column_ptr[:-1], space.column_ptr[1:], third)
    )
    starts = np.concatenate([[0], np.cumsum([cube.size for cube in third])])
    cumulants.add_block_part(found, triples, U, space.column_ptr, np.concatenate([c.ravel() for c in third]), starts)
    np.testing.assert_allclose(found, expected, atol=1e-10)

    same = [
        [r for r, (nu, _) in enumerate(higher) if tuple(space.site[list(nu)]) == tuple(space.site[list(mu)])]
        for mu, _ in higher
    ]
    partners = np.concatenate(same), np.concatenate([[0], np.cumsum([len(s) for s in same])])
    chi, means = result.covariances, result.means
    excess = cumulants.block_closure_excess(means, V, chi, kappa[tuple(triples.T)], 0.7, *packed, *partners)
    expected = 0.0
    for mu, J in higher:
        pairs = sum(chi[p] * np.prod([means[c] for c in mu if c not in p]) for p in combinations(mu, 2))
        expected += J * (closed_moment(model, mu, 0.7, means, V, chi, kappa) - np.prod(means[list(mu)]) - pairs)
    assert excess == pytest.approx(expected, abs=1e-10)
    assert sites.n_columns == N
