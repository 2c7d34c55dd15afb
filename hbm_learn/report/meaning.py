"""What an effect and a weight mean, on the variables of this fit; ``words.COLUMNS`` says what each column is."""

from __future__ import annotations

import numpy as np

from hbm_learn.estimator import HBM
from hbm_learn.names import feature_names, value_name


def meaning(est: HBM) -> list[str]:
    """Paragraphs."""
    return [_effect(est), *_labels(est), _weight(est)]


def _effect(est: HBM) -> str:
    text = (
        "The effect of an interaction is its strength with every variable in units of its standard deviation about its "
        "mean, all others being equal. It can be compared between variables and orders, whatever their coding; that of "
        "a weak pair is about its correlation. Two variables tend to be large together if it is positive, and one to "
        "be large with the other small if it is negative."
    )
    if est.model_.order >= 3:
        text += " The effect of a triplet says how the pull between two of its variables depends on the third."
    if (est.model_.space.power[est.model_.columns.members] > 1).any():
        text += " A square, as in x², tells of a pull that bends: it concerns the ends of a scale against its middle."
    return text


def _labels(est: HBM) -> list[str]:
    if est.model_.space.is_numeric:
        return []
    text = (
        "Labels have no order, and an interaction of theirs is a table of weights, which opens below its row: labels "
        "go together more often where it is positive, less often where it is negative, and every row and column of it "
        "sums to zero. Its effect is the root mean square over the table, without a sign."
    )
    two = [i for i, a in enumerate(est.model_.space.alphabets) if a.is_nominal and a.size == 2]
    if two:
        first, second = (value_name(v) for v in est.model_.space.alphabets[two[0]].values)  # type: ignore[union-attr]
        name = feature_names(est)[two[0]]
        text += f" A variable with two labels keeps a sign: {name} counts as −1 for {first} and 1 for {second}."
    return [text]


def _weight(est: HBM) -> str:
    text = "The weight J is the same interaction in the coding of the data, in nats"
    text += " and with the other variables of larger interactions at 0." if est.model_.order >= 3 else "."
    return " ".join([text, *_odds(est)])


def _odds(est: HBM) -> list[str]:
    """The odds ratio of the surest pair of two-valued variables, others at their means:  exp(J̃ Δ_i Δ_j/(s_i s_j))."""
    space, keys, names = est.model_.space, est.result_.terms.keys, feature_names(est)
    pairs = space.site[keys.block(2)]
    two = np.array([a.is_binary for a in space.alphabets])
    z = np.where(two[pairs].all(axis=1), np.abs(est.tests_.z[keys.slice(2)]), -1.0)
    if z.max(initial=-1.0) < 0:
        return []
    r = int(np.argmax(z))
    i, j = mu = sorted(pairs[r].tolist(), key=lambda k: not space.given[k])  # what is given acts on the other
    effect = est.effects_[keys.slice(2)][r]
    columns = space.column_ptr[[i, j]]
    deviation = np.sqrt(np.diag(est.moments_.covariance)[columns])
    steps = np.array([np.ptp(space.functions[k]) for k in mu])
    ratio = float(np.exp(effect * np.prod(steps / deviation)))
    (a0, a1), (_, b1) = ([value_name(v) for v in space.alphabets[k].values.tolist()] for k in mu)
    others = " (the other variables at their means)" if est.model_.order >= 3 else ""
    return [
        f"Between two variables with two values each, exp(J Δ Δ′) is an odds ratio, Δ being the step from one value to "
        f"the other: when {names[i]} goes from {a0} to {a1}, the odds that {names[j]} is {b1} are multiplied by "
        f"{ratio:.3g}{others}."
    ]
