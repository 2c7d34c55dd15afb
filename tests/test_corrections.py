"""What is added to the closed form of the paper: which direction it is the inverse of, its orders, kernels, rules."""

from __future__ import annotations

from itertools import combinations, permutations

import numpy as np
import pytest
from oracle import ALPHABETS, SPACES, all_codes, distribution, random_mixed, random_model

from hbm_learn import BoltzmannMachine, Interval, Moments, datasets, infer, invert, sample
from hbm_learn._kernels import clusters
from hbm_learn.inversion.closed_form import errors, second_order
from hbm_learn.states import StateTable


def exact(model: BoltzmannMachine, order: int) -> Moments:
    _, p, _ = distribution(model)
    return Moments.from_distribution(all_codes(model), p, order, space=model.space)


def scaled(model: BoltzmannMachine, strength: float) -> BoltzmannMachine:
    """The same model with its couplings multiplied."""
    return BoltzmannMachine.from_columns(model.space, model.own, model.columns, strength * model.column_weights)


# ---------------------------------------------------------------------- inverses


@pytest.mark.parametrize("order", [3, 4])
@pytest.mark.parametrize("name", [*ALPHABETS, *SPACES])
def test_dc2_is_the_inverse_with_the_field(name, order):
    """It returns the frequencies and the covariances of exact moments, as "dc" does from the paper's equations."""
    model = (
        random_model(5, order, ALPHABETS[name], 0.2, seed=2)
        if name in ALPHABETS
        else scaled(random_mixed(SPACES[name], order, 0.5, seed=2), 0.3)
    )
    moments = exact(model, order)
    for level, method, options in (("none", "dc", {}), ("field", "dc2", {"response": "consistent"})):
        found = infer(invert(moments, alpha=0.0, corrections=level).model, method, tol=1e-12, **options)
        assert found.converged
        np.testing.assert_allclose(found.means, moments.mean, atol=1e-10)
        for p, q in zip(found.probabilities, moments.frequencies):
            np.testing.assert_allclose(p, q, atol=1e-10)
        np.testing.assert_allclose(found.covariances, moments.covariance, atol=1e-10)
    other = infer(invert(moments, alpha=0.0, corrections="none").model, "dc2")
    assert np.abs(other.means - moments.mean).max() > 1e-6


@pytest.mark.parametrize("level", ["field", "clusters", "loops", "auto"])
@pytest.mark.parametrize("name", ["ternary", "binary", "mixed"])
def test_dc2_returns_the_frequencies_of_every_corrected_or_narrowed_model(name, level):
    model = (
        random_model(5, 3, ALPHABETS[name], 0.3, seed=4)
        if name in ALPHABETS
        else scaled(random_mixed(SPACES[name], 3, 0.5, seed=4), 0.4)
    )
    moments = exact(model, 3)
    for chosen in (None, [(0, 1), (2, 3), (0, 1, 2)]):
        found = infer(invert(moments, chosen, alpha=0.0, corrections=level).model, "dc2", tol=1e-12)
        for p, q in zip(found.probabilities, moments.frequencies):
            np.testing.assert_allclose(p, q, atol=1e-10)


def test_the_field_also_on_an_interval():
    rng = np.random.default_rng(0)
    X = np.tanh(rng.normal(size=(400, 4)) @ (np.eye(4) + 0.2 * rng.normal(size=(4, 4))))
    X[:, 0] = np.clip(X[:, 0] + 0.1 * X[:, 1] * X[:, 2], -1, 1)
    moments = Moments.from_samples(X, 3, Interval(-1, 1))
    found = infer(invert(moments, alpha=0.0, corrections="field").model, "dc2", tol=1e-12, response="consistent")
    np.testing.assert_allclose(found.m, moments.mean, atol=1e-9)
    np.testing.assert_allclose(found.v, moments.second, atol=1e-9)
    np.testing.assert_allclose(found.chi, moments.covariance, atol=1e-9)


def test_unknown_levels_are_refused():
    moments = Moments.from_samples(np.random.default_rng(0).choice([-1, 1], (50, 4)), order=2)
    with pytest.raises(ValueError, match="corrections='loop'"):
        invert(moments, corrections="loop")


# ---------------------------------------------------------------------- orders of the error


def effect_errors(name: str, order: int, level: str) -> dict[int, float]:
    """Exponent of the largest error of the effects of each order, as couplings are multiplied."""
    strengths, errors = np.array([0.01, 0.02, 0.04]), []
    model = random_mixed(SPACES[name], order, 1.0, seed=6)
    for strength in strengths:
        truth = scaled(model, strength)
        moments = exact(truth, order)
        found = invert(moments, model.columns, alpha=0.0, corrections=level)
        true = truth.in_space(moments.space.standard(moments.frequencies))
        off = np.abs(found.column_effects - true.column_weights[true.columns.positions(found.model.columns)])
        errors.append([off[model.columns.slice(k)].max() for k in range(2, order + 1)])
    slopes = np.polyfit(np.log(strengths), np.log(errors), 1)[0]
    return dict(zip(range(2, order + 1), slopes))


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("name", SPACES)
def test_corrected_error_falls_as_the_cube_of_the_strength(name, order):
    """Of pairs on every kind of variable, and of triplets where a variable has one function."""
    slopes = effect_errors(name, order, "auto")
    assert slopes[2] > 2.7
    if order == 3 and name in ("binary", "numbers"):
        assert slopes[3] > 2.7
    assert effect_errors(name, order, "field")[2] < 2.3  # the negative control


@pytest.mark.parametrize("level", ["clusters", "loops"])
def test_clusters_lack_the_loops_of_four_sites(level):
    slopes = effect_errors("binary", 3, level)
    assert (slopes[2] > 2.7) == (slopes[3] > 2.7) == (level == "loops")


# ---------------------------------------------------------------------- kernels


def three_spins(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """States of five spins, their probabilities, and correlations: a random distribution."""
    rng = np.random.default_rng(seed)
    states = np.array(np.meshgrid(*[[-1.0, 1.0]] * 5, indexing="ij")).reshape(5, -1).T
    p = np.exp(0.4 * rng.normal(size=32))
    return states, p / p.sum(), rng.normal(size=5)


def test_clusters_are_exact_couplings_less_the_closed_form():
    """Every two and three of five spins, by brute force."""
    states, p, _ = three_spins(0)
    m = p @ states
    y = (states - m) / np.sqrt(1 - m**2)
    R, kappa = (y * p[:, None]).T @ y, np.einsum("x,xa,xb,xc->abc", p, y, y, y)
    up = (1 + m) / 2
    two = clusters.two_exact(R, up, 0.0)
    pairs, triplets = np.zeros((5, 5)), np.zeros((5, 5, 5))
    P5 = np.linalg.inv(R)
    W = np.einsum("ai,bj,ck,ijk->abc", P5, P5, P5, kappa)
    clusters.three_exact(R, kappa, W, W, np.ones(5), up, two, 0.0, pairs, triplets)
    expected = np.zeros((5, 5))
    for size in (2, 3):
        for chosen in combinations(range(5), size):
            found, closed = couplings(states, p, y, list(chosen))
            for a, b in combinations(range(size), 2):
                i, j = chosen[b], chosen[a]
                delta = found[frozenset((a, b))] - closed[frozenset((a, b))]
                if size == 2:
                    assert two[i, j] == pytest.approx(delta, abs=1e-12)
                else:
                    expected[i, j] += delta - two[i, j]
            if size == 3:
                whole = frozenset(range(3))
                assert triplets[chosen[::-1]] == pytest.approx(found[whole] - closed[whole], abs=1e-12)
    np.testing.assert_allclose(np.tril(pairs), expected, atol=1e-12)


def couplings(states, p, y, chosen):
    """Exact couplings of the chosen spins alone in the functions y, and their closed form."""
    k = len(chosen)
    cells, where = np.unique(states[:, chosen], axis=0, return_inverse=True)
    q = np.bincount(where.ravel(), p)
    values = np.array([y[where.ravel() == c][0, chosen] for c in range(len(cells))])
    sets = [frozenset(s) for r in range(k + 1) for s in combinations(range(k), r)]
    design = np.array([[np.prod(v[list(s)]) for s in sets] for v in values])
    exact_ones = dict(zip(sets, np.linalg.solve(design, np.log(q))))
    C = (values * q[:, None]).T @ values
    P = np.linalg.inv(C)
    kappa = np.einsum("x,xa,xb,xc->abc", q, values, values, values)
    W = np.einsum("ai,bj,ck,ijk->abc", P, P, P, kappa)
    closed = {frozenset((a, b)): -P[a, b] for a, b in combinations(range(k), 2)}
    if k == 3:
        closed[frozenset(range(3))] = W[0, 1, 2]
    return exact_ones, closed


@pytest.mark.parametrize("name", ["binary", "mixed"])
def test_second_order_is_the_derivative_of_the_free_energy(name):
    """Loops and three sites by sums over all columns of what the module's formulas say."""
    space = random_mixed(SPACES[name], 2, 0.5).space
    rng = np.random.default_rng(1)
    N, site = space.n_columns, space.site
    T, A = np.zeros((N, N, N)), np.zeros((N, N))
    for a, b, c in combinations(range(N), 3):
        if len({site[a], site[b], site[c]}) == 3:
            value = rng.normal()
            for image in permutations((a, b, c)):
                T[image] = value
    for a, b in combinations(range(N), 2):
        A[a, b] = A[b, a] = rng.normal() * (site[a] != site[b])
    K = np.zeros((N, N, N))
    skew = []
    for s in second_order.site_slices(space):
        block = rng.normal(size=(s.stop - s.start,) * 3)
        block = sum(block.transpose(axes) for axes in permutations(range(3)))
        K[s, s, s] = block
        skew.append(block)
    pairs, triplets, _, X = second_order.loops(T, skew, space)
    three_pairs, three_triplets, _ = second_order.three_sites(A, T, X, skew, space)
    TT = np.einsum("acl,bdl->abcd", T, T)
    for a, b in combinations(range(N), 2):
        if site[a] == site[b]:
            continue
        assert pairs[a, b] == pytest.approx(0.5 * np.sum(T[a] * T[b]))
        reach = np.einsum("cd,cj,dj->", K[a], A, T[:, b]) + np.einsum("cd,cj,dj->", K[b], A, T[:, a])
        square = 0.5 * np.einsum("ce,df,cdl,efl->", K[a], K[b], T, T)
        assert three_pairs[a, b] == pytest.approx(reach + square)
    for c, b, a in combinations(range(N), 3):
        if len({site[a], site[b], site[c]}) < 3:
            continue
        loop = sum(np.sum(K[z] * TT[x, y]) for x, y, z in ((a, b, c), (a, c, b), (b, c, a)))
        assert triplets[a, b, c] == pytest.approx(loop)
        direct = sum(
            np.einsum("ce,df,cd,ef->", K[x], K[y], A, T[:, :, z]) for x, y, z in ((a, b, c), (a, c, b), (b, c, a))
        )
        if space.is_scalar:
            direct += 0.5 * K[a, a, a] * K[b, b, b] * K[c, c, c] * T[a, b, c] ** 2
        assert three_triplets[a, b, c] == pytest.approx(direct)


def test_mean_permanent_is_that_of_all_triples():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(20, 6))
    noise = Y.T @ Y
    every = np.array(list(combinations(range(6), 3)))
    assert errors.mean_permanent(noise, np.arange(6)) == pytest.approx(errors.permanents(noise, every).mean())
    site = np.array([0, 0, 1, 2, 2, 3])
    apart = np.array([mu for mu in every if len(set(site[mu])) == 3])
    assert errors.mean_permanent(noise, site) == pytest.approx(errors.permanents(noise, apart).mean())


@pytest.mark.parametrize(
    "model",
    [
        datasets.make_curie_weiss(8, {2: 0.5}, h=0.05),
        datasets.make_curie_weiss(8, {2: 0.9}, h=0.05),
        datasets.make_curie_weiss(12, {2: 0.7}, h=0.05),
        datasets.make_sk(6, beta=2.0, h_std=0.3, random_state=0),
        datasets.make_sk(10, beta=1.5, h_std=0.3, random_state=1),
    ],
)
def test_pairs_are_corrected_only_where_that_helps(model):
    """Where all variables are alike, tables of two say little of their coupling, and correcting by them does harm."""
    p = StateTable(model).p
    stats = Moments.from_samples(sample(model, 20_000, method="exact", random_state=0), order=2)

    def loss(corrections):
        return p @ (np.log(p) - np.log(StateTable(invert(stats, alpha=0.0, corrections=corrections).model).p + 1e-300))

    assert loss("auto") <= loss("none") + 1e-3


# ---------------------------------------------------------------------- the rule


def error_ratios(truth: BoltzmannMachine, X: np.ndarray) -> np.ndarray:
    """Root mean square errors of pairs and triplets with corrections over those without."""
    moments = Moments.from_samples(X, 3, truth.alphabet)
    true = truth.in_space(moments.standard.space)
    out = []
    for level in ("none", "auto"):
        found = invert(moments, alpha=0.0, corrections=level)
        columns = found.model.columns
        weights = np.zeros(len(columns))
        weights[columns.positions(true.columns)] = true.column_weights
        off = (found.column_effects - weights) ** 2
        out.append([off[columns.slice(k)].mean() for k in (2, 3)])
    return np.sqrt(np.divide(out[1], out[0]))


@pytest.mark.parametrize("h_std", [0.3, 1.0])
@pytest.mark.parametrize("strength", [0.0, 0.5])
def test_corrections_never_gather_noise(strength, h_std):
    """Forty spins and 2000 rows, where every triplet is within its error: nothing is lost."""
    truth = datasets.make_random(40, {2: strength / np.sqrt(40), 3: 0.0}, h_std, random_state=3)
    X = sample(truth, 2000, random_state=4)
    assert (error_ratios(truth, X) < 1.03).all()


def test_corrections_lower_the_error_where_data_show_them():
    truth = datasets.make_random(12, {2: 0.4 / np.sqrt(12), 3: 0.4 / 12}, 0.3, random_state=5)
    ratios = error_ratios(truth, sample(truth, 100_000, method="exact", random_state=6))
    assert ratios[0] < 0.8
    assert ratios[1] < 1.0


def test_corrections_fade_where_couplings_are_strong():
    """The second order alone would be larger than what it corrects."""
    truth = datasets.make_random(9, {2: 1.3 / 3, 3: 1.3 / 9}, 0.3, random_state=7)
    moments = exact(truth, 3)
    plain, corrected = (invert(moments, alpha=0.0, corrections=level) for level in ("field", "auto"))
    triplets = plain.model.columns.slice(3)
    change = np.linalg.norm((corrected.column_effects - plain.column_effects)[triplets])
    assert change < 0.2 * np.linalg.norm(plain.column_effects[triplets])


def test_tables_with_empty_cells_are_left_alone():
    """Two columns that are never 1 together: no infinite coupling, and the closed form's own."""
    rng = np.random.default_rng(0)
    first = rng.random(2000) < 0.2
    X = np.column_stack([first, (rng.random(2000) < 0.2) & ~first, rng.random((2000, 2)) < 0.5]).astype(int)
    moments = Moments.from_samples(X, 3)
    plain, corrected = (invert(moments, alpha=0.0, corrections=level).effects[0] for level in ("none", "auto"))
    assert np.isfinite(corrected)
    assert corrected == pytest.approx(plain, rel=0.2)
