"""A refit that fails or is interrupted leaves the previous fit whole; what is random means what it says."""

from __future__ import annotations

import signal
import warnings

import numpy as np
import pandas as pd
import pytest

from hbm_learn import HBM, datasets, sample
from hbm_learn.inversion.composite.objective import Objective
from hbm_learn.inversion.likelihood import fit as likelihood_fit
from hbm_learn.optimise import proximal_newton
from hbm_learn.sampling import chains

MODEL = datasets.make_planted(6, {2: 5, 3: 1}, (0.2, 0.5), random_state=31)
X = sample(MODEL, 400, method="exact", random_state=32)
FRAME = pd.DataFrame(X, columns=list("abcdef"))
OTHER = FRAME[["b", "c", "d", "e"]].iloc[:300]


def state(est):
    """What a fit has set, with copies of its arrays."""
    return {name: np.copy(value) if isinstance(value, np.ndarray) else value for name, value in vars(est).items()}


def assert_whole(est, before):
    after = vars(est)
    fitted = {name for name in before if name.endswith("_") or name.startswith("_")}
    assert {name for name in after if name.endswith("_") or name.startswith("_")} == fitted
    for name in fitted:
        if isinstance(before[name], np.ndarray):
            np.testing.assert_array_equal(after[name], before[name])
        else:
            assert after[name] is before[name], name
    assert np.isfinite(est.score(FRAME))


BAD = {
    "constant column": FRAME.assign(c=1),
    "values outside": FRAME.assign(c=np.arange(400)),
    "dates": FRAME.assign(c=pd.date_range("2020", periods=400)),
    "nothing": FRAME.iloc[:0],
    "one dimension": FRAME["a"],
    "names of two types": FRAME.rename(columns={"a": 1}),
    "infinity": FRAME.assign(c=np.where(np.arange(400) == 3, np.inf, 1.0)),
}


# A block in which a column is constant is good enough for moments that others are merged with.
CASES = [
    (method, kind)
    for method in ("fit", "partial_fit")
    for kind in BAD
    if (method, kind) != ("partial_fit", "constant column")
]


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize(("method", "kind"), CASES)
def test_a_failed_refit_leaves_the_previous_fit(method, kind):
    est = HBM(order=2).fit(FRAME)
    before = state(est)
    with pytest.raises((ValueError, TypeError)):
        getattr(est, method)(BAD[kind])
    assert_whole(est, before)


def test_a_parameter_that_is_refused_leaves_the_previous_fit():
    est = HBM(order=2).fit(FRAME)
    before = state(est)
    with pytest.raises(ValueError, match="tol"):
        est.set_params(tol=np.nan).fit(OTHER)
    assert_whole(est, before)


def test_a_refit_on_other_columns_replaces_everything():
    """The negative control of ``assert_whole``, and names that vanish with a table that has none."""
    est = HBM(order=2).fit(FRAME)
    before = state(est)
    est.fit(OTHER)
    assert est.feature_names_in_.tolist() == list("bcde")
    assert est.n_features_in_ == 4
    with pytest.raises(AssertionError):
        assert_whole(est, before)
    est.fit(X)
    assert not hasattr(est, "feature_names_in_")
    assert est.n_features_in_ == 6


def interrupt_at(calls: int):
    """Ctrl-C at the n-th call of a function, inside whatever calls it."""
    seen = []

    def wrap(function):
        def wrapped(*args, **kwargs):
            seen.append(1)
            if len(seen) == calls:
                raise KeyboardInterrupt
            return function(*args, **kwargs)

        return wrapped

    return wrap, seen


POINTS = {
    "likelihood": ({"refine": "likelihood"}, likelihood_fit, "_best_start"),
    "pseudolikelihood": ({"refine": "pseudolikelihood"}, Objective, "value_gradient"),
    "screening": ({"refine": "screening"}, Objective, "value_gradient"),
    "l1": ({"refine": "pseudolikelihood", "alpha": 5.0, "l1_ratio": 1.0}, proximal_newton, "_search"),
    "l1 likelihood": ({"refine": "likelihood", "alpha": 5.0, "l1_ratio": 1.0}, likelihood_fit, "_best_start"),
    "Monte Carlo": ({"refine": "likelihood", "alpha": 1.0}, chains.Chains, "drive"),
    "selection": ({"fdr": 0.05, "refine": "pseudolikelihood"}, Objective, "value_gradient"),
}


@pytest.mark.parametrize("name", POINTS)
def test_an_interrupt_inside_leaves_the_previous_fit(name, monkeypatch):
    parameters, place, function = POINTS[name]
    est = HBM(order=2).fit(FRAME)
    before = state(est)
    if name == "Monte Carlo":  # chains, though the states could be listed
        monkeypatch.setattr(likelihood_fit, "MAX_STATES", 1)
    wrap, seen = interrupt_at(1 if function in ("_best_start", "_search") else 2)
    monkeypatch.setattr(place, function, wrap(getattr(place, function)))
    with pytest.raises(KeyboardInterrupt):
        est.set_params(**parameters).fit(OTHER)
    assert seen
    assert_whole(est, before)


@pytest.mark.parametrize("delay", [0.001, 0.004, 0.015, 0.05])
def test_a_signal_at_any_time_leaves_a_whole_fit(delay):
    """A real signal, wherever the fit happens to be: the attributes are those of one fit, the old one or the new."""
    est = HBM(order=3).fit(FRAME)
    old, names = est.model_, set(vars(est))

    def stop(*_):
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, delay)
    try:
        est.fit(OTHER)
    except KeyboardInterrupt:
        pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert set(vars(est)) == names
    table = FRAME if est.model_ is old else OTHER
    assert est.n_features_in_ == table.shape[1] == est.model_.n_features == est.moments_.n_features
    assert est.feature_names_in_.tolist() == list(table.columns)
    assert len(est.weights_) == len(est.standard_errors_) == len(est.interactions_)
    assert est.result_.model is est.model_


# ---------------------------------------------------------------------- what is random


def chain_weights(random_state, monkeypatch):
    monkeypatch.setattr(likelihood_fit, "MAX_STATES", 1)
    est = HBM(order=2, refine="likelihood", alpha=1.0, random_state=random_state, max_iter=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return est.fit(X[:200]).weights_


def test_a_seed_gives_the_same_fit_and_none_another(monkeypatch):
    first, second = (chain_weights(5, monkeypatch) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(chain_weights(None, monkeypatch), chain_weights(None, monkeypatch))


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_a_generator_is_advanced_by_each_fit(make, monkeypatch):
    rng = make(7)
    first, second = (chain_weights(rng, monkeypatch) for _ in range(2))
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(chain_weights(make(7), monkeypatch), first)


@pytest.mark.parametrize("make", [np.random.default_rng, np.random.RandomState])
def test_random_models_take_generators_and_random_states(make):
    a, b = (datasets.make_sk(5, random_state=make(3)) for _ in range(2))
    np.testing.assert_array_equal(a.weights, b.weights)
