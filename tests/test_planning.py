"""Planned power: against tests of simulated tables, textbook cases, and its own promises."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from hbm_learn import HBM, BoltzmannMachine, Interval, Nominal, assessment, datasets, sample
from hbm_learn.assessment import nested, noncentrality, planning
from hbm_learn.assessment.node_data import DistinctRows
from hbm_learn.assessment.rare_patterns import RarePattern
from hbm_learn.data.samples import Samples
from hbm_learn.states import StateTable
from hbm_learn.terms import Terms, all_terms

MODEL = BoltzmannMachine([0.1, 0.0, -0.2, 0.1], {(0, 1): 0.3, (2, 3): -0.1, (0, 1, 2): 0.12})


@pytest.fixture(scope="module")
def plan():
    return assessment.plan(MODEL)


def test_a_pair_alone_is_a_correlation():
    """Two ±1 variables without fields: a test of a correlation tanh J."""
    J = 0.05
    found = assessment.plan(BoltzmannMachine([0.0, 0.0], {(0, 1): J}), level=0.01, power=0.9)
    told = ((stats.norm.isf(0.005) + stats.norm.isf(0.1)) / np.tanh(J)) ** 2
    assert found.n_rows[0] == pytest.approx(told, rel=0.01)
    assert found.exact


def test_a_weak_effect_is_that_of_a_logistic_regression():
    """A weak pair between strong ones: J² over the variance of its estimate, others fitted beside it."""
    J = 0.05
    model = BoltzmannMachine(np.zeros(3), {(0, 1): 0.7, (1, 2): 0.7, (0, 2): J})
    table = StateTable(model)
    x = table.states(np.arange(8)).astype(float)
    eta = 0.7 * x[:, 1] + J * x[:, 2]
    design = np.column_stack([np.ones(8), x[:, 1:]])
    information = (design * (table.p / np.cosh(eta) ** 2)[:, None]).T @ design
    told = (stats.norm.isf(0.025) + stats.norm.isf(0.2)) ** 2 * np.linalg.inv(information)[2, 2] / J**2
    found = assessment.plan(model)
    assert found.n_rows[found.interactions.index((0, 2))] == pytest.approx(told, rel=0.03)
    assert told > 1.3 * (stats.norm.isf(0.025) + stats.norm.isf(0.2)) ** 2 / information[2, 2] / J**2


@pytest.mark.parametrize("values", [(-1, 1), (-1, 0, 1), Nominal("a", "b", "c")])
@pytest.mark.parametrize("site", [0, 2])
def test_added_to_pairs_is_dropped_from_pairs_and_itself(values, site, monkeypatch):
    """At the same variable the null is the same: that of all pairs."""
    for choose in ("efficient_site", "spread_site"):
        monkeypatch.setattr(noncentrality, choose, lambda nodes, terms, which: np.full(len(which), site))
    a, b = 0.5, 0.3
    if isinstance(values, Nominal):
        a, b = np.array([[0.5, 0.1, -0.6], [-0.4, 0.1, 0.3]])
    couplings = {(0, 1): 0.4, (0, 2): a, (0, 1, 2): b}
    model = BoltzmannMachine([0.0, 1.2, 0.0], couplings, alphabet=[(-1, 1), (-1, 1), values])
    population, everything = noncentrality.Population(model), all_terms(3, model.space)
    which = np.array([model.interactions.index((0, 1, 2))])
    one = noncentrality.added(population, all_terms(2, model.space), which)
    other = noncentrality.noncentrality(population, everything, which)
    for name in ("root", "correction", "spread", "df"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-4)


def test_power_at_the_rows_needed_is_what_was_asked(plan):
    for r, M in enumerate(plan.n_rows):
        assert plan.power_at(M)[r] == pytest.approx(0.8, abs=0.003)
        assert plan.power_at(0.9 * M)[r] < 0.8 < plan.power_at(1.1 * M)[r]
    np.testing.assert_allclose(plan.power_at(plan.grid), plan.powers)
    assert (np.diff(plan.powers, axis=1) >= -1e-6).all()
    assert plan.rows_for() == plan.n_rows.max()
    assert plan.rows_for(0.5) == np.sort(plan.n_rows)[1]


def test_an_effect_of_zero_has_the_power_of_chance():
    found = assessment.plan(BoltzmannMachine([0.1, 0.2, -0.1], {(0, 1): 0.3, (1, 2): 0.0}), grid=[100, 1e5])
    np.testing.assert_allclose(found.powers[1], 0.05, atol=1e-6)
    assert np.isinf(found.n_rows[1])


def test_corrections_ask_for_more(plan):
    strict, fdr = (assessment.plan(MODEL, correction=c) for c in ("bonferroni", "fdr"))
    assert strict.n_tests == {2: 6, 3: 4}
    assert (plan.n_rows < fdr.n_rows).all()
    assert (fdr.n_rows <= strict.n_rows).all()
    each = assessment.plan(MODEL, level=0.05 / 6)
    np.testing.assert_allclose(strict.n_rows[:2], each.n_rows[:2], rtol=0.02)
    assert (assessment.plan(MODEL, correction="bonferroni", n_tests={2: 60, 3: 40}).n_rows > strict.n_rows).all()


def test_coding_is_no_matter(plan):
    """What is planned for ±1 holds for the same model in 0/1."""
    model = MODEL.with_alphabet((0, 1))
    again = assessment.plan(model)
    at = [again.interactions.index(mu) for mu in plan.interactions]
    np.testing.assert_allclose(again.effects[at], plan.effects, atol=1e-9)
    triplet = plan.interactions.index((0, 1, 2))
    assert again.n_rows[at][triplet] == pytest.approx(plan.n_rows[triplet], rel=1e-3)


def test_samples_tell_what_all_states_tell(plan, monkeypatch):
    monkeypatch.setattr(noncentrality, "MAX_LISTED", 2)
    found = assessment.plan(MODEL, random_state=0)
    assert not found.exact
    np.testing.assert_allclose(found.n_rows, plan.n_rows, rtol=0.05)
    np.testing.assert_array_equal(found.n_rows, assessment.plan(MODEL, random_state=0, n_jobs=1).n_rows)


def test_a_fit_can_be_planned_with():
    frame = pd.DataFrame(sample(MODEL, 2000, method="exact", random_state=0), columns=list("abcd"))
    est = HBM(order=2).fit(frame)
    found = assessment.plan(est)
    assert found.interactions == est.interactions_
    table = found.to_frame()
    assert table.interaction[0] == ("a", "b")
    assert table.n_rows.is_monotonic_increasing
    assert list(table.columns[:5]) == ["interaction", "order", "weight", "effect", "n_rows"]
    np.testing.assert_allclose(found.effects, est.effects_, atol=0.02)
    assert "6 interactions" in repr(found)


def test_orders_beyond_triplets():
    found = assessment.plan(BoltzmannMachine(np.zeros(5), {(0, 1, 2, 3): 0.2, (0, 1, 4): 0.15, (0, 1): 0.1}))
    told = ((stats.norm.isf(0.025) + stats.norm.isf(0.2)) / np.tanh(0.2)) ** 2
    assert found.n_rows[found.interactions.index((0, 1, 2, 3))] == pytest.approx(told, rel=0.1)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"model": 3}, "model is a int"),
        ({"model": BoltzmannMachine([0.0, 0.0], {})}, "no interactions"),
        ({"model": BoltzmannMachine([0.0, 0.0], {(0, 1): 0.1}, alphabet=Interval(0, 1))}, "finite values"),
        ({"level": 0}, "level=0"),
        ({"power": 1.0}, "power=1.0"),
        ({"power": 0.04}, "power=0.04"),
        ({"correction": "bh"}, "correction='bh'"),
        ({"grid": [0, 10]}, "grid="),
        ({"n_tests": {2: 1}}, "n_tests="),
        ({"site": "square"}, "site='square'"),
        ({"feature_names": ["a"]}, "feature_names has 1 names for 4"),
    ],
)
def test_bad_use_names_the_parameter(given, match):
    with pytest.raises(ValueError, match=match):
        assessment.plan(**({"model": MODEL} | given))


def test_bad_numbers_of_rows_and_shares(plan):
    with pytest.raises(ValueError, match="M=0"):
        plan.power_at(0)
    with pytest.raises(ValueError, match="share=2"):
        plan.rows_for(2)


# ---------------------------------------------------------------------- the tests of the product


def simulated(model: BoltzmannMachine, M: int, n: int, order: int, seed: int) -> np.ndarray:
    """Shares of n tables of M rows in which the test of each term of the model has p < .05, as in ``est.tests_``."""
    found = []
    for each in np.random.SeedSequence([seed, M]).spawn(n):
        samples = Samples.check(sample(model, M, method="exact", random_state=each), space=model.space)
        considered = Terms(samples.space, all_terms(order, samples.space))
        tests = nested.select(DistinctRows.of(samples), considered, planning.LEVEL)[1]
        found.append(tests.p_values[tests.terms.keys.positions(model.terms.keys)] < 0.05)
    return np.mean(found, axis=0)


def test_the_simulation_is_what_an_estimator_says():
    X = sample(MODEL, 500, method="exact", random_state=np.random.SeedSequence([7, 500]).spawn(1)[0])
    est = HBM(order=3, alphabet=(-1, 1)).fit(X)
    place = [est.interactions_.index(mu) for mu in MODEL.interactions]
    assert np.array_equal(simulated(MODEL, 500, 1, 3, 7) == 1.0, est.tests_.p_values[place] < 0.05)


@pytest.mark.parametrize("beta", [0.05, 0.4, 1.5])
def test_deviates_of_a_rare_pattern_solve_the_saddlepoint(beta):
    """K'(t) = S by bracketing, for scores on both sides, beyond two standard deviations."""
    pattern, N = RarePattern(0.01, 0.01, 1.0, -0.01, 1e-6, beta), np.arange(0.0, 30.0, 3.0)
    for expected in (2.0, 6.0):
        S = (1.0 + beta) * (N - expected)
        found, deviate = pattern.deviates(N, np.full(len(N), expected)), S / np.sqrt(expected * (1.0 + beta))
        for z, each, s in zip(found, deviate, S):
            if abs(each) <= 2.0:
                assert z == pytest.approx(each)
                continue
            t = optimize.brentq(lambda t: expected * (np.exp(t) - 1.0 + beta * t) - s, -100.0, 10.0)  # noqa: B023
            w = np.sign(t) * np.sqrt(2.0 * (t * s - expected * (np.exp(t) - 1.0 - t + 0.5 * beta * t**2)))
            u = t * np.sqrt(expected * (np.exp(t) + beta))
            assert z == pytest.approx(w + np.log(u / w) / w, rel=1e-5)
        assert (np.abs(deviate) > 2.0).sum() > 3


def test_a_rare_pattern_made_rarer_is_not_promised_to_be_found(monkeypatch):
    """Some two events together where five would be expected, and a third that has no part in it: as in simulated
    tables. The normal deviate promises too much."""
    model = BoltzmannMachine([-2.0, -2.0, -0.5], {(0, 1): -1.6, (0, 2): 0.4}, alphabet=(0, 1))
    M, n = 250, 300
    seen = simulated(model, M, n, 2, 3)[0]
    told = assessment.plan(model).power_at(M)[0]
    assert told == pytest.approx(seen, abs=0.05 + 2.5 * np.sqrt(seen * (1.0 - seen) / n))
    monkeypatch.setattr(RarePattern, "most_rows", 0.0)
    assert assessment.plan(model).power_at(M)[0] > seen + 0.1


def rare(seed: int) -> BoltzmannMachine:
    """0/1 with rates of some 5 to 25 %, and interactions that make patterns of them rarer, or more frequent."""
    rng = np.random.default_rng(seed)
    pairs = [tuple(sorted(rng.choice(8, 2, replace=False).tolist())) for _ in range(9)]
    couplings = {mu: float(rng.choice([-2.5, -1.8, -1.2, -0.8, 0.8, 1.2])) for mu in pairs}
    couplings |= {mu: float(rng.choice([-1.5, 1.5])) for mu in ((0, 3, 6), (1, 4, 7))}
    return BoltzmannMachine(rng.uniform(-2.7, -1.0, 8), couplings, alphabet=(0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [601, 602, 603])
@pytest.mark.parametrize("M", [250, 600, 2000])
def test_planned_power_of_rare_patterns_is_that_of_simulated_tables(seed, M):
    model = rare(seed)
    told, seen = assessment.plan(model).power_at(M), simulated(model, M, 400, 3, seed)
    noise = 2.5 * np.sqrt(np.maximum(told * (1.0 - told), 0.01) / 400)
    assert (np.abs(seen - told) < 0.05 + noise).all()
    assert abs((seen - told).mean()) < 0.03


def signs(seed: int) -> BoltzmannMachine:
    return datasets.make_planted(10, {2: 12, 3: 6}, random_state=seed)


def bits(seed: int) -> BoltzmannMachine:
    """0/1 with rates of 5 to 30 %."""
    rng = np.random.default_rng(seed)
    couplings = {tuple(sorted(rng.choice(10, 2, replace=False).tolist())): float(rng.normal(0, 1)) for _ in range(8)}
    couplings[0, 4, 7] = couplings[1, 5, 8] = 1.5
    return BoltzmannMachine(rng.uniform(-2.8, -1.0, 10), couplings, alphabet=(0, 1))


def ratings(seed: int) -> BoltzmannMachine:
    rng = np.random.default_rng(seed)
    pairs = {(i, i + 1): float(rng.choice([-1, 1]) * rng.uniform(0.05, 0.1)) for i in range(6)}
    return BoltzmannMachine(rng.normal(0, 0.2, 7), pairs | {(0, 1, 2): 0.05, (3, 4, 5): -0.05}, 0.2, (-2, -1, 0, 1, 2))


def mixed(seed: int) -> BoltzmannMachine:
    rng = np.random.default_rng(seed)

    def table(*shape: int) -> np.ndarray:
        out = rng.normal(size=shape)
        for axis in range(len(shape)):
            out = out - out.mean(axis=axis, keepdims=True)
        return 0.2 * out

    couplings = {(0, 1): table(3), (1, 2): table(3), (1, 4): table(3, 4), (3, 4): table(4), (0, 3): 0.15, (0, 2): 0.3}
    alphabet = [(-1, 1), Nominal("a", "b", "c"), (0, 1), (-1, 0, 1), Nominal("p", "q", "r", "s")]
    return BoltzmannMachine([0.1, 0.0, -0.5, 0.2, 0.0], couplings | {(0, 1, 3): table(3)}, alphabet=alphabet)


@pytest.mark.slow
@pytest.mark.parametrize("make", [signs, bits, ratings, mixed])
@pytest.mark.parametrize("seed", [501, 502])
def test_planned_power_is_that_of_simulated_tables(make, seed):
    """At the rows that a third and two thirds of the interactions need: within .05, and the noise of 400 tables."""
    model = make(seed)
    found = assessment.plan(model)
    for share in (0.33, 0.67):
        M = int(min(found.rows_for(share), 4000))
        told, seen = found.power_at(M), simulated(model, M, 400, 3, seed)
        noise = 2.5 * np.sqrt(np.maximum(told * (1.0 - told), 0.01) / 400)
        assert (np.abs(seen - told) < 0.05 + noise).all()
        assert abs((seen - told).mean()) < 0.03
