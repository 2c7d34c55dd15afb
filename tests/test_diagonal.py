"""The closed-form inversion: exact where theory says so, and as biased as theory says elsewhere."""

from itertools import combinations

import numpy as np
import pytest
from oracle import ALPHABETS, distribution, random_model

from hbm_learn import BoltzmannMachine, Interactions, Interval, Moments, datasets, infer, sample
from hbm_learn.assessment.intervals import effect_intervals
from hbm_learn.inversion.closed_form import diagonal, precision
from hbm_learn.inversion.closed_form import learnt as closed_form_prior
from hbm_learn.inversion.shrinkage import mixture


def exact_moments(model, order):
    states, p, _ = distribution(model)
    return Moments.from_distribution(states, p, order, model.alphabet)


def scaled(model, strength):
    """The same model with its couplings multiplied; on two values d is folded into h, as a fit has it."""
    h, d = model.h, model.d
    if model.alphabet.is_binary:
        h, d = h - 0.5 * d * model.alphabet.nodes.sum(), 0.0 * d
    return BoltzmannMachine.from_packed(h, model.columns, strength * model.weights, d, model.alphabet)


def error(found, truth):
    return max(np.abs(found.weights - truth.weights).max(), np.abs(found.h - truth.h).max())


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
def test_error_falls_as_the_square_of_the_strength(order, alphabet):
    strengths = np.array([0.01, 0.02, 0.04])
    model = random_model(5, order, alphabet, 1.0, seed=3)
    errors = []
    for strength in strengths:
        truth = scaled(model, strength)
        found = diagonal.invert(exact_moments(truth, order), alpha=0.0, corrections="none").model
        errors.append(error(found, truth))
    exponent = np.polyfit(np.log(strengths), np.log(errors), 1)[0]
    assert 1.8 < exponent < 2.3


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("alphabet", ALPHABETS.values(), ids=ALPHABETS)
def test_corrected_error_falls_as_the_cube_of_the_strength(order, alphabet):
    """Of own weights, pairs and triplets: relative to the couplings, as the square."""
    strengths = np.array([0.01, 0.02, 0.04])
    model = random_model(5, order, alphabet, 1.0, seed=3)
    errors = []
    for strength in strengths:
        truth = scaled(model, strength)
        errors.append(error(diagonal.invert(exact_moments(truth, order), alpha=0.0).model, truth))
    exponent = np.polyfit(np.log(strengths), np.log(errors), 1)[0]
    assert 2.7 < exponent < 4.5


def pair_errors(truth, order):
    """Norm of the error of the pair couplings without and with the corrections."""
    moments, pairs = exact_moments(truth, order), truth.columns.slice(2)
    fits = [diagonal.invert(moments, alpha=0.0, corrections=level).model for level in ("none", "auto")]
    return [np.linalg.norm((found.weights - truth.weights)[pairs]) for found in fits]


@pytest.mark.parametrize("order", [2, 3])
def test_corrections_remove_the_leading_error_of_the_pairs(order):
    """Without fields the error then falls with the third power; with fields it becomes smaller."""
    model = random_model(6, order, (-1, 1), 1.0, seed=3)
    without_fields = BoltzmannMachine.from_packed(np.zeros(6), model.columns, model.weights)
    errors = [pair_errors(scaled(without_fields, strength), order)[1] for strength in (0.02, 0.04)]
    assert np.log2(errors[1] / errors[0]) > 2.7
    plain, corrected = pair_errors(scaled(model, 0.2), order)
    assert corrected < 0.8 * plain


def test_gaussian_is_recovered_exactly():
    rng = np.random.default_rng(0)
    J = 0.1 * rng.normal(size=(6, 6))
    truth = BoltzmannMachine(rng.normal(size=6), np.triu(J, 1) + np.triu(J, 1).T, 1.5, "real")
    result = infer(truth, "exact")
    moments = Moments.from_cumulants(result.m, result.chi, alphabet="real")
    found = diagonal.invert(moments, alpha=0.0).model
    for name in ("h", "d", "weights"):
        np.testing.assert_allclose(getattr(found, name), getattr(truth, name), atol=1e-10)


@pytest.mark.parametrize("alphabet", [*ALPHABETS.values(), Interval(-1, 1)], ids=str)
@pytest.mark.parametrize("narrowed", [False, True])
def test_the_two_directions_are_inverses(alphabet, narrowed):
    """dc of the pairwise model of the paper's equations returns the data's m, v and, with every pair, C."""
    rng = np.random.default_rng(5)
    n = 6
    if isinstance(alphabet, Interval):
        X = np.tanh(rng.normal(size=(500, n)) @ (np.eye(n) + 0.2 * rng.normal(size=(n, n))))
    else:
        X = sample(random_model(n, 2, alphabet, 0.6, seed=1), 500, method="exact", random_state=2)
    moments = Moments.from_samples(X, order=2, alphabet=alphabet)
    pairs = Interactions.from_tuples([(0, 1), (2, 3), (0, 4)], n) if narrowed else None
    result = infer(diagonal.invert(moments, pairs, alpha=0.0, corrections="none").model, "dc", tol=1e-11)
    np.testing.assert_allclose(result.m, moments.mean, atol=1e-8)
    np.testing.assert_allclose(result.v, moments.second, atol=1e-8)
    if not narrowed:
        np.testing.assert_allclose(result.chi, moments.covariance, atol=1e-8)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize(
    ("source", "target"), [((-1, 1), (0, 1)), ((-1, 0, 1), (0, 1, 2)), ((0, 1, 2, 3), (-3, -1, 1, 3))], ids=str
)
@pytest.mark.parametrize("alpha", [0.0, "auto"])
def test_affine_change_of_the_alphabet_changes_nothing(order, source, target, alpha):
    X = sample(random_model(5, order, source, 0.5, seed=2), 2000, method="exact", random_state=3)
    Y = np.asarray(target)[np.searchsorted(source, X)]
    here = diagonal.invert(Moments.from_samples(X, order=order, alphabet=source), alpha=alpha)
    there = diagonal.invert(Moments.from_samples(Y, order=order, alphabet=target), alpha=alpha)
    moved = here.model.with_alphabet(target)
    for name in ("h", "d", "weights"):
        np.testing.assert_allclose(getattr(there.model, name), getattr(moved, name), rtol=0, atol=1e-9)
    for name in ("effects", "effect_errors", "statistic"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_permuting_features_permutes_the_answer(order):
    X = sample(random_model(5, order, (-1, 0, 1), 0.5, seed=2), 1000, method="exact", random_state=3)
    permutation = np.array([3, 0, 4, 1, 2])
    here = diagonal.invert(Moments.from_samples(X, order=order)).model
    there = diagonal.invert(Moments.from_samples(X[:, permutation], order=order)).model
    np.testing.assert_allclose(there.h, here.h[permutation], atol=1e-10)
    for k in range(2, order + 1):
        np.testing.assert_allclose(there.tensor(k), here.tensor(k)[np.ix_(*[permutation] * k)], atol=1e-10)


@pytest.mark.parametrize("order", [2, 3])
def test_flipping_a_spin_flips_its_couplings(order):
    X = sample(random_model(5, order, (-1, 1), 0.5, seed=2), 1000, method="exact", random_state=3)
    flip = np.array([1, -1, 1, -1, 1])
    here = diagonal.invert(Moments.from_samples(X, order=order)).model
    there = diagonal.invert(Moments.from_samples(X * flip, order=order)).model
    np.testing.assert_allclose(there.h, here.h * flip, atol=1e-10)
    signs = np.array([np.prod(flip[list(mu)]) for mu in here.interactions])
    np.testing.assert_allclose(there.weights, here.weights * signs, atol=1e-10)


def test_chosen_interactions_are_those_of_the_whole_set():
    X = sample(random_model(6, 3, (-1, 1), 0.5, seed=2), 5000, method="exact", random_state=3)
    moments = Moments.from_samples(X, order=3)
    chosen = Interactions.from_tuples([(0, 1), (2, 4), (1, 2, 5)], 6)
    whole, part = diagonal.invert(moments, alpha=0.0), diagonal.invert(moments, chosen, alpha=0.0)
    where = whole.model.columns.positions(chosen)
    assert part.model.columns == chosen
    assert part.model.weights[2] == pytest.approx(whole.model.weights[where[2]], abs=1e-12)


def test_orders_beyond_the_moments_are_refused():
    moments = Moments.from_samples(np.random.default_rng(0).choice([-1, 1], (50, 4)), order=2)
    with pytest.raises(ValueError, match="order=3"):
        diagonal.invert(moments, Interactions.upto(3, 4))


@pytest.mark.parametrize("beta", [0.3, 0.5])
@pytest.mark.parametrize("n_samples", [10_000, 100_000])
def test_z_scores_of_triplets_are_standard_normal_under_the_null(beta, n_samples):
    X = sample(datasets.make_sk(30, beta, random_state=1), n_samples, burn_in=200, thin=5, random_state=2)
    result = diagonal.invert(Moments.from_samples(X, order=3), alpha=0.0)
    triplets = result.model.columns.slice(3)
    z = (result.effects / result.column_sampling_errors)[triplets]
    assert 0.95 < z.std() < 1.05


def test_z_scores_are_not_normal_when_there_are_triplets():
    """The negative control of the test above."""
    truth = datasets.make_random(30, {2: 0.3 / np.sqrt(30), 3: 1.0 / 30}, random_state=1)
    X = sample(truth, 10_000, burn_in=200, thin=5, random_state=2)
    result = diagonal.invert(Moments.from_samples(X, order=3), alpha=0.0)
    triplets = result.model.columns.slice(3)
    assert (result.effects / result.column_sampling_errors)[triplets].std() > 1.2


@pytest.mark.parametrize("order", [2, 3])
def test_standard_errors_are_the_spread_over_data_sets(order):
    """Weak couplings with fields: J and h of 200 data sets scatter as the standard errors say."""
    truth = random_model(6, order, (-1, 1), 0.2, seed=4)
    found = []
    for X in np.split(sample(truth, 400_000, method="exact", random_state=0), 200):
        found.append(diagonal.invert(Moments.from_samples(X, order=order, alphabet=(-1, 1)), alpha=0.0))
    weights = np.array([result.model.weights for result in found])
    h = np.array([result.model.h for result in found])
    said = np.array([result.standard_errors for result in found]).mean(axis=0)
    said_h = np.array([result.h_standard_errors for result in found]).mean(axis=0)
    assert np.mean(weights.std(axis=0) / said) == pytest.approx(1.0, abs=0.06)
    assert np.mean(h.std(axis=0) / said_h) == pytest.approx(1.0, abs=0.15)


def test_ridge_precision_solves_its_equation():
    rng = np.random.default_rng(0)
    for n_rows in (5, 50):  # singular and regular covariance
        X = rng.normal(size=(n_rows, 8))
        C = np.cov(X.T, bias=True)
        for lam in (1e-3, 0.1, 10.0):
            P = precision.ridge_precision(C, lam)
            residual = np.linalg.inv(P) - C - lam * (P - np.diag(1 / np.diag(C)))
            np.testing.assert_allclose(residual, 0.0, atol=1e-8 * np.abs(P).max())
    np.testing.assert_allclose(precision.ridge_precision(C, 0.0), np.linalg.inv(C), atol=1e-10)
    np.testing.assert_allclose(precision.ridge_precision(C, 1e9), np.diag(1 / np.diag(C)), atol=1e-6)


def test_gaussian_graphical_model_on_chosen_pairs_is_maximum_likelihood():
    """Zeros where no pair is, and the data's covariances where one is (Dempster's conditions)."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 6))
    moments = Moments.from_samples(X, order=2, alphabet="real")
    chosen = Interactions.from_tuples([(0, 1), (1, 2), (2, 3), (3, 0), (4, 5)], 6)
    result = infer(diagonal.invert(moments, chosen, alpha=0.0).model, "exact")
    np.testing.assert_allclose(result.m, moments.mean, atol=1e-8)
    C = moments.covariance
    for a, b in [*chosen.tuples, *((i, i) for i in range(6))]:
        assert result.chi[a, b] == pytest.approx(C[a, b], abs=1e-7 * np.abs(C).max())


def test_the_learnt_prior_finds_the_spread_of_the_couplings():
    truth = datasets.make_random(40, {2: 0.04}, h_std=0.0, random_state=0)
    X = sample(truth, 4000, random_state=1)
    _, alpha = precision.learn_precision(Moments.from_samples(X, order=2).covariance, 4000, np.arange(40))
    assert alpha**-0.5 == pytest.approx(0.04, rel=0.15)
    noise = np.random.default_rng(2).choice([-1, 1], (4000, 40))
    _, absent = precision.learn_precision(Moments.from_samples(noise, order=2).covariance, 4000, np.arange(40))
    assert absent**-0.5 < 0.005


def errors_of(truth, moments, **options):
    """Root mean square error of the effects of each order."""
    found = diagonal.invert(moments, **options)
    standard = truth.in_space(moments.standard.space)
    true = dict(zip(standard.interactions, standard.weights))
    off = found.effects - np.array([true.get(mu, 0.0) for mu in found.terms.tuples])
    return found, np.array([np.sqrt(np.mean(off[found.terms.order == k] ** 2)) for k in (2, 3)])


@pytest.mark.parametrize("kind", ["sparse", "dense"])
def test_the_closed_form_learns_how_its_couplings_are_distributed(kind):
    """Against one Gaussian an order of the same variance: better for a few strong ones, as good for many weak ones."""
    ratios = []
    for seed in range(4):
        rng = np.random.default_rng([77, seed])
        pairs, triplets = list(combinations(range(10), 2)), list(combinations(range(10), 3))
        if kind == "dense":
            truth = datasets.make_random(10, {2: 0.06, 3: 0.03}, h_std=0.1, random_state=seed)
        else:
            some = [pairs[i] for i in rng.choice(45, 5, False)] + [triplets[i] for i in rng.choice(120, 3, False)]
            truth = BoltzmannMachine(np.zeros(10), {mu: 0.3 * rng.choice([-1, 1]) for mu in some})
        moments = Moments.from_samples(sample(truth, 2000, method="exact", random_state=seed), order=3)
        found, mine = errors_of(truth, moments)
        s2 = float(np.mean(np.diag(moments.covariance)))
        gaussian = {k: a * s2**k for k, a in found.alpha.items()}
        ratios.append(mine / errors_of(truth, moments, alpha=gaussian)[1])
    pairs_ratio, triplets_ratio = np.mean(ratios, axis=0)
    least = {"sparse": 0.8, "dense": 1.03}[kind]
    assert pairs_ratio < least
    assert triplets_ratio < least


def test_rare_coincidences_are_no_strong_couplings_of_the_closed_form(monkeypatch):
    """Once where .01 were expected; without the deviate of a Poisson number (negative control) it passes for one."""
    rng = np.random.default_rng(78)
    truth = BoltzmannMachine(np.full(12, -3.5), {(0, 1): 1.0, (2, 3): 1.5}, alphabet=(0, 1))
    tables = [sample(truth, 1000, method="exact", random_state=rng) for _ in range(3)]
    tables = [Moments.from_samples(X, order=3) for X in tables]
    mine = np.mean([errors_of(truth, each)[1] for each in tables], axis=0)
    monkeypatch.setattr(closed_form_prior, "rooted", lambda terms, z, expected: z)
    without = np.mean([errors_of(truth, each)[1] for each in tables], axis=0)
    assert mine[0] < 0.9 * without[0]
    assert mine[1] < 0.5 * without[1]


def test_the_learnt_mixture_of_the_closed_form_moves_no_test(monkeypatch):
    truth = datasets.make_random(8, {2: 0.1, 3: 0.05}, h_std=0.3, random_state=3)
    moments = Moments.from_samples(sample(truth, 1000, method="exact", random_state=4), order=3)
    learnt = diagonal.invert(moments)
    monkeypatch.setattr(mixture, "scales", lambda n_samples: np.array([0.01, 0.02]))
    other = diagonal.invert(moments)
    assert np.abs(learnt.effects - other.effects).max() > 0.02
    np.testing.assert_allclose(learnt.statistic, other.statistic, rtol=1e-9)
    np.testing.assert_array_equal(learnt.sign, other.sign)
    assert learnt.effect_marginals is not None
    low, high = effect_intervals(learnt).T
    assert ((low <= learnt.effects) & (learnt.effects <= high)).all()


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("alpha", ["auto", 1.0, 0.0])
def test_singular_covariances_give_finite_answers_and_name_the_columns(order, alpha):
    rng = np.random.default_rng(0)
    X = rng.choice([-1, 1], (200, 6))
    X[:, 4] = X[:, 1]
    result = diagonal.invert(Moments.from_samples(X, order=order), alpha=alpha)
    assert np.abs(result.model.weights).max() < 1000
    assert np.isfinite(result.standard_errors).all()
    assert "columns 1, 4 are collinear" in result.notes[0]
    fewer = diagonal.invert(Moments.from_samples(rng.choice([-1, 1], (12, 20)), order=order), alpha=alpha)
    assert np.isfinite(fewer.model.weights).all()
    assert "fewer samples than columns" in fewer.notes[0]
    assert not diagonal.invert(Moments.from_samples(rng.choice([-1, 1], (200, 6)), order=order), alpha=alpha).notes


@pytest.mark.parametrize("alphabet", [(-1, 1), (0, 1, 2), [(-1, 1), (0, 1, 3), (0, 1), (1, 2, 3, 4)]])
@pytest.mark.parametrize("powers", [1, 2])
def test_effects_alone_are_those_of_the_inversion(alphabet, powers):
    X = sample(BoltzmannMachine([0.2, -0.1, 0.3, 0.0], {(0, 1): 0.3, (1, 2, 3): 0.2}, alphabet=alphabet), 500)
    moments = Moments.from_samples(X, 3, alphabet, powers=powers)
    columns = diagonal.invert(moments, None, 0.0).model.columns
    np.testing.assert_array_equal(
        diagonal.effects(moments, columns), diagonal.invert(moments, columns, 0.0).column_effects
    )
