"""Bad inputs, one table: what a user may give by mistake, and what is said to it.

Each case is an expression, run by ``test_bad_inputs.py``, with the error that it raises and two parts of its message:
what names the argument, column or value, and the remedy. ``python tests/bad_inputs.py`` writes the same table as
docs/errors.md, which a test holds to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "errors.md"


@dataclass(frozen=True)
class Case:
    """One expression; ``error`` None for one that has a documented result, ``names``."""

    area: str
    code: str
    names: str
    remedy: str = ""
    error: str | None = "ValueError"


CASES: list[Case] = []


def add(area: str, codes: list[str], names: str, remedy: str, error: str = "ValueError") -> None:
    """The same message for several expressions."""
    CASES.extend(Case(area, code, names, remedy, error) for code in codes)


def parameter(name: str, values: str, remedy: str, shown: str | None = None, others: str = "order=2, ") -> None:
    """A parameter of HBM with one bad value after another, separated by " | "."""
    for value in values.split(" | "):
        CASES.append(Case("Parameters of HBM", f"HBM({others}{name}={value}).fit(X)", shown or f"{name}=", remedy))


def result(area: str, code: str, value: str) -> None:
    """What looks odd, and has a meaning."""
    CASES.append(Case(area, code, value, error=None))


# ---------------------------------------------------------------------- parameters of HBM

INTEGER = "give an integer of at least 1"
parameter("order", "0 | -1 | 1.5 | None | nan | True | [2]", INTEGER, others="")
parameter("order", "'three' | ''", 'give an integer or "auto"', others="")
parameter("order", "5 | 99", "moments are computed for orders 1 to 4", others="")
parameter("powers", "0 | -1 | 1.5 | 'x' | None | True | nan", INTEGER)
parameter("max_iter", "-1 | 0 | 1.5 | 'x' | nan | inf | True", INTEGER)
parameter("tol", "-1 | 0.0 | inf | nan | 'x' | True | [1] | 1j", "give a finite number > 0")
parameter("n_jobs", "0 | 'x' | 1.5 | nan | True", "give a number of threads, -1 for all cores, or None")
parameter("verbose", "-1 | 'x' | 1.5 | nan", "give an integer of at least 0")
parameter("random_state", "'x' | -1 | 1.5 | nan | {}", "give None, a non-negative integer, or a numpy Generator")
parameter("alpha", "-1 | nan | inf | True | None | 1j | [nan, 1] | object() | [-1]", "a finite number ≥ 0")
parameter("alpha", "'x' | ''", "is not known: give")
parameter("alpha", "1e200 | [1e300]", "give a smaller one")
parameter("alpha", "[]", "give one number for each of the orders")
parameter("alpha", "{} | {3: 1.0}", "has no entry for order 2: give one for each order")
parameter("alpha", "{2: 1.0, 5: 1.0} | {2: 1.0, 'x': 1.0}", "orders are 2 … 4")
parameter("alpha", "[1.0, 1.0, 1.0, 1.0]", "give one number for each of the orders")
parameter("l1_ratio", "-1 | 2 | nan | 'x' | None | True", "give the share of the ℓ1 penalty, between 0 and 1")
parameter("fdr", "0 | 1 | 2 | -1 | nan | 'x' | True | [0.1]", "give a false-discovery rate between 0 and 1")
parameter("site", "'x' | None | 1", "choose one of 'free', 'quadratic'")
parameter("refine", "'x' | 1 | True | [] | 'liklihood'", "choose one of")
parameter("refine", "'screenign'", "Did you mean 'screening'?")
parameter("interactions", "5 | 'x' | {0: 1} | object() | b'ab'", "give a list of tuples of columns")
parameter("interactions", "(0, 1) | [5] | [None] | ['ab'] | [1.5]", "give a list of tuples of columns", "interaction ")
parameter(
    "interactions", "iter([(0, 1)]) | (mu for mu in [(0, 1)])", "which can be read once only", "interactions is a"
)
parameter("interactions", "[()] | [(0,)]", "an interaction has at least two variables", "interaction (")
parameter(
    "interactions",
    "[(0, 9)] | [(0, -1)] | [(0, 1.5)] | [('a', 'b')] | [(nan, 0)]",
    "features are 0 … 3",
    "not a known feature",
)
parameter("interactions", "[(True, 0)]", "is not a feature index", "interaction (True, 0)")
parameter("interactions", "[(0, 0)] | [(0, 0, 1)]", "leave it out", "power 2 of variable 0")
parameter("interactions", "[(0, 1, 2)]", "raise `order`", "order 3")
parameter("alphabet", "'x' | '' | 5 | None | object() | True", "give values, Nominal labels, an Interval")
parameter("alphabet", "[] | [1] | [1, 1]", "give at least two values, each once")
parameter("alphabet", "[nan, 1] | [inf, 1] | [0, 1j]", "the values must be finite real numbers")
parameter("alphabet", "[(-1, 1)] * 3 | ['a', 'b']", "give one for each", "alphabet has")
parameter("alphabet", "{9: [0, 1]} | {'a': [0, 1]}", "columns are 0 … 3", "alphabet names the column")
parameter("alphabet", "[0, 1] | [1, 2, 3]", "give an alphabet=… that contains it", "outside the alphabet")
parameter("alphabet", "list(range(300))", "bin them", "300 values")
parameter("alphabet", "[-1e200, 1e200]", "write them in other units", "alphabet=")
parameter("alphabet", "(-1, 0, 1, 'b')", "give", "alphabet")
parameter(
    "categorical_features",
    "'x' | [9] | ['a'] | 5 | [1.5] | object()",
    "columns are 0 … 3",
    "categorical_features names the column",
)
parameter("categorical_features", "[True] | [True, False]", "one for each column", "categorical_features is a mask")
add(
    "Parameters of HBM",
    ["HBM(order=3, alphabet='real').fit(R)", "HBM(order=3).fit(R)"],
    "pair interactions only",
    "use order=2",
)
add("Parameters of HBM", ["HBM(order=2, refine='likelihood').fit(R)"], "refine='likelihood'", 'use refine="auto"')

parameter("given", "['z'] | [9] | [1.5] | [-9]", "columns are 0 … 3", "given names the column")
parameter("given", "'a' | 5 | {} | {'a': 1} | True | object()", "give a list of columns, such as")
parameter("given", "[True] | [True, False, True, False]", "give a list of indices or names", "given is a mask")
parameter("given", "[0, 0] | [3, -1]", "name it once", "twice")
parameter("given", "range(4) | [0, 1, 2, 3]", "leave some out, to be modelled")
add(
    "Parameters of HBM",
    ["HBM(order=2, given=['a', 'b'], interactions=[('a', 'b')]).fit(frame)"],
    "all of its members are given",
    "take one of them out of `given`",
)
add(
    "Parameters of HBM",
    ["HBM(order=2, given=['a'], alphabet='real').fit(frame)"],
    "column 'b' is on Alphabet(\"real\") beside given columns",
    "bin it into a few values",
)
result("Parameters of HBM", "HBM(order=2, given=[]).fit(X).model_ == est.model_", "True")
result(
    "Parameters of HBM", "HBM(order=2, given=[-1]).fit(X).model_.space.given.tolist()", "[False, False, False, True]"
)

# ---------------------------------------------------------------------- tables

T = "Tables"
add(
    T,
    ["HBM().fit(None)", "HBM().fit(3)", "HBM().fit({1, 2})", "HBM().fit(iter([[0, 1]]))", "HBM().fit(object())"],
    "got X of type",
    "give an array or list of rows, or a data frame",
)
add(T, ["HBM().fit(np.array(3))"], "got X 0-d", "give an array or list of rows")
add(T, ["HBM().fit('x')", "HBM().fit('data.csv')"], "got X of type str", "what pandas.read_csv or numpy.load makes")
add(T, ["HBM().fit({'a': [1, 2]})"], "got X of type dict", "pandas.DataFrame(X)")
add(
    T,
    ["HBM().fit(X[0])", "HBM().fit([])", "HBM().fit(['a', 'b'])", "HBM().fit(np.array(['a', 'b'], dtype=object))"],
    "got 1D array",
    "reshape",
)
add(T, ["HBM().fit(X[None])"], "X has shape (1, 200, 4)", "give one row for each sample")
add(T, ["HBM().fit(frame['a'])"], "Expected a 2-dimensional container", "Pass a DataFrame")
add(T, ["HBM().fit(X[:0])", "HBM().fit(frame.iloc[:0])"], "0 sample(s)", "")
add(T, ["HBM().fit(X[:, :0])", "HBM().fit([[]])", "HBM().fit(frame[[]])"], "0 feature(s)", "")
add(
    T,
    ["HBM().fit([[1, 2], [1]])", "HBM().fit([[1, 'a'], ['b']])"],
    "row 1 has 1 entries",
    "None or NaN where there is none",
)
add(T, ["HBM().fit([[1, 2], 3])", "HBM().fit([[1, [2]], [3, 4]])"], "X is inhomogeneous", "one for each column")
add(
    T,
    ["HBM().fit(X * 1j)", "HBM().fit(frame.assign(a=1j))", "HBM().fit((X * 1j).astype(object))"],
    "Complex data not supported",
    "give its parts apart",
)
add(
    T,
    ["HBM().fit(dates)", "HBM().fit(dates.astype('m8[D]'))", "HBM().fit(np.zeros((5, 2), dtype='V4'))"],
    "X has the type",
    "give numbers, booleans or text",
)
add(
    T,
    [
        "HBM().fit(frame.assign(a=pd.Timestamp('2020')))",
        "HBM().fit(frame.assign(a=pd.Timedelta(1)))",
        "HBM().fit(frame.assign(a=pd.Period('2020')))",
    ],
    "column 'a'",
    "",
)
add(T, ["HBM().fit(np.array([[[1], 2], [[2], 3], [[1], 3]], dtype=object))"], "column 0 holds a", "", "TypeError")
add(T, ["HBM().fit(np.where(X > 0, {}, 1))"], "holds a dict", "string or a number", "TypeError")
add(
    T,
    ["HBM().fit(with_inf)", "HBM(alphabet='real').fit(with_inf)", "HBM(alphabet=(-1, 1)).fit(with_inf)"],
    "(row 3, column 1)",
    "every value must be finite",
)
add(
    T,
    ["HBM().fit(frame.assign(b=np.where(frame.index == 3, inf, 1.0)))"],
    "(row 3, column 'b')",
    "every value must be finite",
)
add(
    T,
    ["HBM().fit(X * nan)", "HBM().fit(frame.assign(b=np.nan))", "HBM().fit(frame.assign(b=None))"],
    "no value but NaN",
    "nothing to learn from; drop",
)
result(T, "HBM(order=2).fit(np.where(np.arange(200)[:, None] % 4 == np.arange(4), nan, X)).converged_", "True")
add(T, ["HBM().fit(X[:1])", "HBM().fit([[0, 1]])"], "only 1 sample", "give more rows")
add(T, ["HBM().fit(frame.assign(b=7))", "HBM().fit(frame.assign(b='x'))"], "column 'b' is constant", "drop it")
add(
    T,
    ["HBM(alphabet=(-1, 1)).fit(frame.assign(b=1))", "HBM().fit(frame.assign(b=True))"],
    "column 'b' is constant",
    "VarianceThreshold",
)
add(
    T,
    ["HBM(alphabet=[(-1, 1), (-1, 0, 1), (-1, 1), Nominal(-1, 1, 2)]).fit(X)"],
    "never has the value 2",
    "leave it out of alphabet",
)
add(
    T,
    ["HBM().fit(many.assign(b=[f'id{i}' for i in range(300)]))"],
    "column 'b' has more than 254 different labels",
    "drop it",
)
add(
    T,
    ["HBM().fit(many.assign(b=np.arange(300)))", "HBM().fit(many.assign(b=np.linspace(0, 1, 300)))"],
    "column 'b' has more than 16 different values",
    "KBinsDiscretizer",
)
add(T, ["HBM(alphabet={'b': Interval(-2, 2)}).fit(frame)"], "column 'b' is on", "bin it into a few values")
add(
    T,
    ["HBM(categorical_features=None).fit(frame.assign(b=text))", "HBM(alphabet=(-1, 1)).fit(frame.assign(b=text))"],
    "column 'b' holds text ('yes')",
    "encode it as numbers, or drop it",
)
add(T, ["HBM().fit(pd.DataFrame(X, columns=list('abca')))"], "two columns of X are called 'a'", "rename or drop one")
add(
    T,
    ["HBM().fit(pd.DataFrame(X, columns=['a', 1, 2, 3]))"],
    "all input features have string names",
    "convert",
    "TypeError",
)
add(T, ["HBM().fit(X * 1e300)", "HBM().fit(X * 1e-300)", "HBM().fit(frame * 1e200)"], "column", "in other units")
add(T, ["HBM().fit(R * 1e80)"], "column 0 has numbers beyond", "write it in other units")
add(T, ["HBM().fit([X, X[:, :2]])"], "block 1 of X has other columns", "blocks must share their columns")
add(T, ["HBM().fit([X, X.astype(str)])"], "block 1 of X has labels in column 0", "give every block the same types")
add(
    T,
    ["est.score(Z)", "est.score_samples(masked)"],
    "(row 3, column 1)",
    "drop the row, or fill it in",
)
add(
    T,
    [
        "HBM(order=4).fit(wide[:, :200])",
        "HBM(order=3).fit(wide)",
        "HBM(order=3, refine=None).fit(wide)",
        "HBM(order=4, fdr=0.1).fit(wide[:, :300])",
    ],
    "GiB",
    "Lower `order`",
)
add(T, ["Moments.from_samples(wide, order=3)"], "GiB", "lower `order`")
for order in ("0", "5", "'x'", "1.5"):
    add(T, [f"Moments.from_samples(X, order={order})"], f"order={order}", "orders 1 to 4")
result(T, "HBM(order=2).fit(masked).moments_.n_samples", "200.0")
result(T, "HBM(order=2).fit(sparse(Z)).moments_.is_complete", "False")
result(T, "Moments.from_samples(Z).is_complete", "False")
result(T, "est.predict(masked)[3, 1] in (-1, 1)", "True")
result(T, "HBM(order=2).fit(X.astype(object)).model_ == est.model_", "True")
result(T, "np.allclose(HBM(order=2).fit(X.astype(np.float16)).weights_, est.weights_)", "True")
result(T, "np.allclose(HBM(order=2).fit(X.astype(np.longdouble)).weights_, est.weights_)", "True")
result(T, "HBM(order=2).fit(X > 0).model_.space.alphabets[0]", "Alphabet((0, 1))")
result(T, "HBM(order=2).fit(X.astype('S2')).model_.space.alphabets[0].is_nominal", "True")
result(T, "HBM(order=2).fit(pd.DataFrame(X)).n_features_in_", "4")
result(T, "HBM(order=2).fit(pd.DataFrame(X, columns=['', ' ', '$', '_'])).n_features_in_", "4")
result(T, "HBM(order=2, interactions=[]).fit(X).interactions_", "[]")
result(T, "HBM(order=2, interactions=[(1, 0), (0, 1)]).fit(X).interactions_", "[(0, 1)]")
result(T, "HBM(order=2, interactions=np.array([[0, 1]])).fit(X).interactions_", "[(0, 1)]")
result(T, "HBM(order=2, interactions=[frozenset([0, 1])]).fit(X).interactions_", "[(0, 1)]")
result(T, "HBM(order=2, powers=99).fit(X).interactions_ == est.interactions_", "True")
result(T, "HBM(order=2).fit(X[:, :1]).interactions_", "[]")
result(T, "HBM(order=2).fit(frame).partial_fit(frame[:1]).moments_.n_samples", "201")

add(T, ["HBM().fit(lazy[:, 0])", "HBM().fit(lazy[None])"], "D dask array", "give rows of samples")
add(T, ["HBM().fit(lazy[lazy[:, 0] > 0])"], "chunks of unknown size", "call X.compute_chunk_sizes() first")
for kind in ("complex", "str", "'M8[s]'"):
    add(T, [f"HBM().fit(lazy.astype({kind}))"], "the dask array has dtype", "give booleans, integers or floats")
add(T, ["HBM().fit(lazy * nan)"], "no value but NaN", "drop them")
add(T, ["HBM().fit(lazy[:0])"], "0 sample(s)", "both must be positive")
add(T, ["est.score(lazy[:, :2])"], "X has 2 features", "expecting 4 features")
add(T, ["est.predict(3 * lazy)"], "value 3 at row 0, column 0", "correct it")
add(T, ["HBM().fit(lazy_frame.assign(b=7))"], "column 'b' is constant", "drop it")
add(T, ["HBM().fit(lazy_frame.assign(b=nan))"], "column 'b' holds no value but NaN", "drop it")
add(T, ["HBM().fit(lazy_frame.assign(b=pd.Timestamp('2020')))"], "column 'b' has the type", "drop it, or turn it into")
add(T, ["HBM(given=['z']).fit(lazy_frame)"], "given names the column 'z'", "or one of 'a', 'b', 'c', 'd'")
add(T, ["HBM().fit(sparse(X[:0]))"], "0 sample(s)", "")
add(T, ["HBM().fit(sparse(X) * 1j)"], "Complex data not supported", "give its parts apart")
add(T, ["HBM().fit(sparse(X * nan))"], "no value but NaN", "drop them")
for given, where in (("frame.a.mask(frame.index == 3)", "row 3 (1 in all)"), ("nan", "row 0 (200 in all)")):
    add(T, [f"HBM(order=2, given=['a']).fit(frame.assign(a={given}))"], where, "drop these rows, or fill them in")
add(T, ["HBM(order=2, given=['a']).fit(frame.assign(a=1))"], "column 'a' is constant", "drop it")

# ---------------------------------------------------------------------- weights, groups, more rows

W = "Weights, groups, more rows"
add(
    W,
    [
        f"HBM().fit({table}, sample_weight=np.ones({shape}))"
        for table in ("X", "Z", "frame")
        for shape in ("199", "(200, 1)", "0")
    ],
    "sample_weight has shape",
    "one for each row of X",
)
add(W, ["HBM().fit(X, sample_weight=2.0)"], "sample_weight has shape ()", "one for each row of X")
add(
    W,
    [
        "HBM().fit(X, sample_weight='x')",
        "HBM().fit(X, sample_weight=np.ones(200) * 1j)",
        "HBM().fit(X, sample_weight=['a'] * 200)",
    ],
    "sample_weight",
    "a vector of real numbers",
)
add(
    W,
    [
        "HBM().fit(X, sample_weight=-np.ones(200))",
        "HBM().fit(X, sample_weight=np.full(200, nan))",
        "HBM().fit(Z, sample_weight=np.full(200, inf))",
        "HBM().fit(X, sample_weight=[None] * 200)",
    ],
    "sample_weight[0]",
    "finite and not negative",
)
add(
    W,
    ["HBM().fit(X, sample_weight=np.zeros(200))"],
    "zero for every row",
    "at least one weight must be positive",
)
add(W, ["HBM().fit(Z, sample_weight=np.eye(200)[3])"], "column 1 holds no value at all", "drop it")
add(
    W,
    [
        "HBM().fit(X, sample_weight=np.full(200, 1e-300))",
        "HBM().fit(X, sample_weight=np.full(200, 1e300))",
        "HBM().fit(X, sample_weight=np.full(200, 1e308))",
    ],
    "sample_weight sums to",
    "scale the weights",
)
add(
    W,
    [
        "HBM().fit(X, groups=[1, 2])",
        "HBM().fit(X, groups=X)",
        "HBM().fit(X, groups='x')",
        "HBM().fit(Z, groups=np.arange(199))",
    ],
    "groups has shape",
    "give one label for each row of X",
)
add(
    W,
    ["HBM().fit(X, groups=np.zeros(200))", "HBM().fit(X, groups=np.arange(200) // 50)"],
    "different labels",
    "put the group among the columns",
)
add(
    W,
    [f"HBM().fit(X, groups={labels})" for labels in ("np.full(200, nan)", "[None] * 200", "['a'] * 199 + [None]")],
    "groups has missing labels",
    "leave such rows out",
)
add(
    W,
    ["HBM().fit(lazy, groups=[1])", "HBM().fit(sparse(X), groups=[1])", "HBM().fit([X, X], groups=np.arange(200))"],
    "groups has shape",
    "give one label for each row of X",
)
add(
    W,
    ["HBM().fit(lazy, sample_weight=[1])", "HBM().fit([X, X], sample_weight=[np.ones(200)] * 2)"],
    "sample_weight has shape",
    "one for each row of X",
)
add(W, ["HBM().partial_fit(X[:1])", "HBM(alphabet=(-1, 1)).partial_fit(X[:1])"], "only 1 sample", "give more rows")
add(
    W,
    ["HBM(alphabet=(-1, 1)).partial_fit(np.ones((4, 4), int))"],
    "columns 0, 1, 2, 3 are constant",
    "give more samples",
)
add(W, ["HBM(order=2).fit(X).partial_fit(X[:, :3])"], "X has 3 features", "expecting 4 features")
add(W, ["HBM(order=2).fit(X).partial_fit(3 * X)"], "value 3 at row 0, column", "give an alphabet=… that contains it")
add(
    W,
    ["HBM(refine='pseudolikelihood').partial_fit(X)", "HBM(refine='screening').partial_fit(X)"],
    "needs the samples",
    'use "likelihood"',
)
add(
    W,
    ["cross_val_score(HBM(order=2), rare, cv=KFold(2), error_score='raise')"],
    "column 'rare' is constant",
    "alphabet=…",
)
add(
    W,
    ["cross_val_score(HBM(order=2), rarer, cv=KFold(2), error_score='raise')"],
    "value 2 at row",
    "give an alphabet=… that contains it",
)

# ---------------------------------------------------------------------- a fitted estimator

F = "A fitted estimator"
for level in ("0", "1", "-1", "2", "nan", "'x'", "None", "True", "[0.9]"):
    add(F, [f"est.confidence_intervals({level})"], f"level={level}", "give a probability between 0 and 1")
add(
    F,
    ["est.effect_intervals(2)", "est.to_frame(2)", "est.summary(level=2)"],
    "level=2",
    "give a probability between 0 and 1",
)
for most in ("-1", "1.5", "'x'", "None"):
    add(F, [f"est.summary({most})"], f"most={most}", "give an integer of at least 0")
for number in ("0", "-1", "1.5", "'x'", "None", "True"):
    add(F, [f"est.sample({number})"], f"n_samples={number}", "give an integer of at least 1")
add(F, ["est.sample(3, random_state='x')"], "random_state='x'", "give None, a non-negative integer")
add(
    F,
    ["est.score(X[:, :2])", "est.predict(X[:, :2])", "est.predict_proba(X[:, :2])", "est.log_likelihood(X[:, :2])"],
    "X has 2 features",
    "expecting 4 features",
)
add(
    F,
    ["est.score(3 * X)", "est.predict(3 * X)", "est.predict_proba(3 * X)"],
    "value 3 at row 0, column 0",
    "correct it",
)
add(F, ["est.score(X[:0])", "est.predict(X[:0])"], "0 sample(s)", "")
add(F, ["est.score(None)", "est.predict(None)"], "got X of type NoneType", "give an array or list of rows")
add(F, ["est.score({'a': 1})"], "got X of type dict", "pandas.DataFrame(X)")
add(F, ["est.predict(sparse(X))", "est.predict_proba(sparse(X))"], "X is sparse", "give a dense array with NaN")
add(
    F,
    ["est.log_likelihood(X, method='x')", "est.log_likelihood(X, method=None)"],
    "method=",
    "choose one of 'exact', 'dc', 'ais'",
)
add(
    F,
    [
        "HBM().score(X)",
        "HBM().predict(X)",
        "HBM().sample()",
        "HBM().summary()",
        "HBM().to_frame()",
        "HBM().tests_",
        "HBM().interactions_",
        "HBM().confidence_intervals()",
    ],
    "not fitted yet",
    "Call 'fit'",
    "NotFittedError",
)
add(F, ["named.score(frame[['b', 'a', 'c', 'd']])"], "feature names should match", "same order")
add(F, ["named.score(frame.rename(columns={'a': 'z'}))"], "feature names should match", "unseen at fit time")

for entries in ("[1, 2]", "'x'", "[[1, 2]]"):
    add(F, [f"with_given.sample(3, given={entries})"], "given has shape", "for all rows alike")
add(F, ["with_given.sample(3)"], "variables [0] are given", "one row for each sample")
for entry in ("nan", "7", "'x'"):
    add(F, [f"with_given.sample(3, given=[[{entry}]] * 3)"], "variable 0 has no value", "it has Alphabet((-1, 1))")
add(F, ["with_given.predict(frame.assign(a=nan))"], "column 'a' is given, and has a missing cell", "fill them in")
add(F, ["with_given.score(frame[['b', 'c', 'd']])"], "feature names should match", "now missing")

# ---------------------------------------------------------------------- resampling, planning, time

S = "Resampling, planning, time"
for function in ("bootstrap", "stability"):
    call = f"assessment.{function}({{}}, n=3)"
    add(S, [call.format(f"{thing}, X") for thing in ("None", "5", "model")], "est=", "give an estimator such as HBM")
    add(S, [call.format("est, None")], "got X of type NoneType", "give an array or list of rows")
    add(S, [call.format("est, X, 'nothing_'")], "statistic='nothing_'", "it has")
    add(S, [call.format("est, X, 5")], "statistic=5", "give the name of an attribute, or a function")
    add(S, [call.format("est, X, groups=[1]")], "groups has shape", "give one label for each row of X")
    add(S, [call.format("est, X, random_state='x'")], "random_state='x'", "give None, a non-negative integer")
    add(S, [call.format("est, X, n_jobs=0")], "n_jobs=0", "give a number of threads")
    add(S, [f"assessment.{function}(est, X, n={n})" for n in ("0", "1.5", "'x'")], "n=", "give an integer of at least")
add(S, ["assessment.bootstrap(est, X, n=3, level=2)"], "level=2", "between 0 and 1")
for shares in ("[]", "[1.5]", "[0.0]", "'x'", "None", "[0.5, 0.1]"):
    add(S, [f"assessment.stability(est, X, dropped={shares})"], "dropped=", "give ascending shares of the cases")
add(S, ["assessment.plan(None)", "assessment.plan(X)", "assessment.plan('x')"], "model is a", "or a fitted HBM")
add(
    S,
    [f"assessment.plan(model, power={p})" for p in ("2", "'x'", "nan")],
    "power=",
    "give a probability between 0 and 1",
)
add(S, ["assessment.plan(model, level=0)"], "level=0", "give a probability between 0 and 1")
add(S, ["assessment.plan(model, correction='x')"], "correction='x'", "choose one of")
add(S, ["assessment.plan(model, site='x')"], "site='x'", "choose one of")
for lags in ("0", "-1", "1.5", "'x'", "None"):
    add(S, [f"datasets.lagged(X, {lags})"], f"lags={lags}", INTEGER)
add(
    S,
    [
        "datasets.lagged(X, 200)",
        "datasets.lagged(X, 10**9)",
        "datasets.lagged(X[:1])",
        "datasets.lagged(X, groups=np.arange(200))",
    ],
    "no row of X has so many before it",
    "give fewer lags, or longer sessions",
)
add(
    S,
    ["datasets.lagged(None)", "datasets.lagged('x')", "datasets.lagged({'a': [1]})", "datasets.lagged(sparse(X))"],
    "X is of type",
    "give a dense array or a data frame",
)
add(S, ["datasets.lagged(X[0])", "datasets.lagged([X, X])"], "X has shape", "Sessions go below each other")
add(S, ["datasets.lagged(X, groups=[1])"], "groups has shape", "give one label for each row of X")

# ---------------------------------------------------------------------- models, inference, sampling

M = "Models, inference, sampling"
for function in ("infer({})", "sample({}, 5)"):
    for thing in ("None", "'model.npz'", "5", "{}", "X", "object()", "HBM", "BoltzmannMachine", "HBM()"):
        add(M, [function.format(thing)], "model is of type", "give a BoltzmannMachine")
    add(M, [function.format("est")], "model is of type HBM", "model=est.model_ is the model")
for number in ("0", "-1", "1.5", "'x'", "None", "nan", "True", "inf"):
    add(M, [f"sample(model, {number})"], f"n_samples={number}", "give an integer of at least 1")
add(
    M,
    ["sample(model, 10**12)", "sample(model, 10**12, method='gibbs')"],
    "n_samples=1,000,000,000,000",
    "draw fewer at a time",
)
add(
    M,
    [
        "sample(model, 5, method='x')",
        "sample(model, 5, method=None)",
        "infer(model, 'x')",
        "infer(model, 5)",
        "invert(moments, method='x')",
    ],
    "method=",
    "choose one of",
)
add(
    M,
    [
        "sample(model, 5, 'exact', n_jobs=1)",
        "sample(model, 5, bogus=1)",
        "infer(model, bogus=1)",
        "invert(moments, tol=1.0)",
    ],
    "is not an option of",
    "option",
)
for option, value, remedy in (
    ("thin", "0", "at least 1"),
    ("burn_in", "-1", "at least 0"),
    ("n_chains", "0", "at least 1"),
    ("n_chains", "'x'", "at least 1"),
    ("n_jobs", "0", "a number of threads"),
    ("n_jobs", "'x'", "a number of threads"),
):
    add(M, [f"sample(model, 5, {option}={value})"], f"{option}={value}", remedy)
for option, value, remedy in (
    ("tol", "-1", "positive bound"),
    ("tol", "nan", "positive bound"),
    ("tol", "'x'", "positive bound"),
    ("max_iter", "0", "at least 1"),
    ("max_iter", "'x'", "at least 1"),
    ("max_evaluations", "0", "at least 1"),
    ("damping", "1", "in [0, 1)"),
    ("damping", "'x'", "in [0, 1)"),
):
    add(M, [f"infer(model, {option}={value})"], f"{option}={value}", remedy)
for option, value in (("n_samples", "0"), ("n_samples", "'x'"), ("n_chains", "0")):
    add(M, [f"infer(model, 'gibbs', {option}={value})"], f"{option}={value}", "give an integer of at least")
add(M, ["infer(large, 'exact')", "sample(large, 3, 'exact')"], "lists every state", 'Use method "dc"')
add(M, ["invert(None)", "invert(X)", "invert(est)"], "moments is of type", "give Moments")
add(M, ["invert(moments, [(0, 9)])"], "9 is not a known feature", "features are 0 … 3")
add(M, ["invert(moments, alpha=-1)"], "alpha=-1", "a finite number ≥ 0")
add(M, ["invert(moments, site='x')"], "site='x'", "choose one of")
add(M, ["invert(moments, method='likelihood', tol=nan)"], "tol=nan", "give a finite number > 0")
add(M, ["invert(moments, method='likelihood', max_iter=-1)"], "max_iter=-1", INTEGER)
for h in ("'x'", "[1j, 0]", "['a', 'b']", "object()"):
    add(M, [f"BoltzmannMachine({h}, {{}})"], "h=", "give a vector of real numbers, one number for each variable")
for h in ("[]", "[[1, 2]]", "5"):
    add(M, [f"BoltzmannMachine({h}, {{}})"], "h has shape", "expected (n,), one number for each variable")
for h in ("[nan]", "[inf, 0]"):
    add(M, [f"BoltzmannMachine({h}, {{}})"], "h[0] = ", "every entry must be finite")
add(M, ["BoltzmannMachine(None, {})"], "h", "")
add(
    M, ["BoltzmannMachine([0, 0], 5)", "BoltzmannMachine([0, 0], np.zeros((3, 3)))"], "couplings has shape", "or a dict"
)
add(M, ["BoltzmannMachine([0, 0], {(0, 5): 1})"], "5 is not a known feature", "features are 0 … 1")
add(
    M,
    ["BoltzmannMachine([0, 0], {(0, 1): nan})", "BoltzmannMachine([0, 0], {(0, 1): 'x'})"],
    "couplings[(0, 1)]",
    "every coupling",
)
add(M, ["BoltzmannMachine([0, 0], {0: 1})"], "interaction 0", "give a tuple of feature indices")
add(M, ["BoltzmannMachine([0, 0], {(0, 1): [1, 2, 3]})"], "couplings[(0, 1)] has shape (3,)", "expected a number")
add(
    M,
    [
        "BoltzmannMachine([0, 0], {}, 'x')",
        "BoltzmannMachine([0, 0], {}, None)",
        "BoltzmannMachine([0, 0], {}, ['a', 1])",
    ],
    "d=",
    "one anisotropy for each entry of h, or one for all",
)
add(
    M,
    ["BoltzmannMachine([0, 0], {}, [1, 2, 3])", "BoltzmannMachine([0, 0, 0], {}, (-1, 1))"],
    "d has shape",
    "one anisotropy for each entry of h, or one for all",
)
add(M, ["BoltzmannMachine([0, 0], {}, nan)"], "d=nan", "one for all")
add(M, ["BoltzmannMachine([0, 0], {}, [0, nan])"], "d[1] = nan", "every entry must be finite")
add(M, ["BoltzmannMachine([0, 0], {}, alphabet='x')"], "alphabet='x'", "give values, Nominal labels")
add(M, ["BoltzmannMachine([0, 0], {}, alphabet=[(0, 1)] * 3)"], "alphabet has 3 entries for 2", "give one for each")
for indices in ("[5]", "'x'", "[0.5]", "[-3]"):
    add(M, [f"BoltzmannMachine([0, 0], {{}}, given={indices})"], "given names", "they are 0 … 1")
add(M, ["BoltzmannMachine([0, 0], {}, given=[0, 1])"], "names every variable", "leave some out, to be modelled")
for function in ("infer({})", "infer({}, 'exact')", "infer({}, 'gibbs')"):
    add(M, [function.format("with_given.model_")], "variables [0] of the model are given", "model.condition(values)")
add(M, ["sample(with_given.model_, 3)"], "variables [0] are given", "one row for each sample")
add(M, ["model.condition([1])", "with_given.model_.condition([1, 2])"], "given variables", "{variable: value}")
add(M, ["model.condition({9: 1})"], "values names 9", "they are 0 … 3")
for value in ("7", "None", "nan", "'x'"):
    add(M, [f"with_given.model_.condition([{value}])"], f"variable 0 has no value {value}", "it has Alphabet((-1, 1))")
add(M, ["model.energy('x')", "model.energy({'a': 1})"], "X is of type", "give rows of numbers")
add(M, ["model.energy(X[:, :2])", "model.energy(X[0])"], "X has shape", "expected (n_samples, 4)")
add(
    M,
    ["Nominal()", "Nominal('a')", "Nominal('a', 'a')", "Nominal(nan, 'a')"],
    "Nominal",
    "give at least two labels, each once",
)
add(M, ["Nominal([1], 2)", "Nominal({}, 'a')"], "Nominal", "give labels such as text or numbers")
add(
    M,
    [
        "Interval(1, 0)",
        "Interval(0, 0)",
        "Interval(nan, 1)",
        "Interval(0, inf)",
        "Interval('a', 1)",
        "Interval(None, 1)",
    ],
    "is empty or unbounded",
    "give finite low < high",
)
add(
    M,
    ["BoltzmannMachine.load(None)", "BoltzmannMachine.load(12345)", "BoltzmannMachine.load(__file__)"],
    "not a model saved by hbm_learn",
    "",
)

# ---------------------------------------------------------------------- random models

D = "datasets.make_*"
SIZE = "give a finite number ≥ 0"
for call, name, values, remedy in (
    ("make_takahashi(1.0, n={})", "n", "0 | -1 | 1.5 | 'x'", INTEGER),
    ("make_takahashi({})", "sigma", "'x' | nan | -1 | inf | None", SIZE),
    ("make_takahashi(1.0, j3={})", "j3", "'x' | nan", "give a finite number"),
    ("make_sk({})", "n", "0 | -1 | 1.5 | 'x' | True", INTEGER),
    ("make_sk(4, beta={})", "beta", "'x' | nan | inf | -1", SIZE),
    ("make_sk(4, h_std={})", "h_std", "'x' | nan | -1", SIZE),
    ("make_sk(4, random_state={})", "random_state", "'x' | -1", "give None, a non-negative integer"),
    ("make_pspin({})", "n", "0 | 'x' | 2.5", INTEGER),
    ("make_pspin(4, p={})", "p", "0 | 1 | -1 | 1.5 | 'x'", "give an integer of at least 2"),
    ("make_pspin(4, J={})", "J", "'x' | nan | -1", SIZE),
    ("make_random(4, {})", "stds", "{} | 5 | None", "give a dict with an entry for each order"),
    ("make_random(4, {{2: {}}})", "stds[2]", "-1 | nan | 'x'", SIZE),
    ("make_random(4, {{{}: 1.0}})", "@stds has an entry for", "1 | 2.5 | 'x'", "give integers of at least 2"),
    ("make_random(4, {{2: 1.0}}, d={})", "d", "'x' | nan", "give a finite number"),
    ("make_planted(4, {})", "counts", "5 | None", "give a dict {order: number of interactions}"),
    ("make_planted(4, {{2: {}}})", "counts[2]", "-1 | 1.5 | 'x'", "give an integer of at least 0"),
    (
        "make_planted(4, {{2: 1}}, {})",
        "strength",
        "5 | (1,) | (1, 2, 3) | 'ab'",
        "give the least and the largest strength",
    ),
    ("make_planted(4, {{2: 1}}, ({}, 1.0))", "strength[0]", "nan | 'x'", "give a finite number"),
    ("make_planted(4, {{2: 1}}, (2, {}))", "strength[1]", "1 | nan", "give a finite number ≥ 2"),
    ("make_planted(4, {{2: 1}}, beta={})", "beta", "'x' | nan | -1", SIZE),
    ("make_mixed({}, {{2: 1}})", "alphabets", "5 | [] | 'x' | None", "give a list with the values of each variable"),
    ("make_mixed({}, {{2: 1}})", "alphabets", "['real'] * 3", "values that can be listed"),
    ("make_mixed([(0, 1)] * 3, {{2: 1}}, powers={})", "powers", "0 | 'x'", INTEGER),
    ("make_mixed([(0, 1)] * 3, {{2: 1}}, h_std={})", "h_std", "'x' | nan | -1", SIZE),
    ("make_potts(3, {})", "q", "0 | 1 | 1.5 | 'x'", "give an integer of at least 2"),
    ("make_potts(3, 3, {})", "beta", "'x' | nan", SIZE),
    ("make_lattice({})", "shape", "() | 5 | 'x' | None", "give the length of each side"),
    ("make_lattice(({}, 2))", "shape[0]", "0 | -1 | 1.5 | 'x'", INTEGER),
    ("make_lattice((2, 2), negative={})", "negative", "-1 | 2 | nan | 'x'", "between 0 and 1"),
    ("make_lattice((2, 2), {})", "J", "'x' | nan", "give a finite number"),
    ("make_curie_weiss(4, {})", "strengths", "{} | 5", "give a dict with an entry for each order"),
    ("make_curie_weiss(4, {{2: {}}})", "strengths[2]", "nan | 'x'", "give a finite number"),
    ("make_curie_weiss(4, {{2: 1.0}}, {})", "h", "nan | 'x'", "give a finite number"),
):
    for value in values.split(" | "):
        shown = name[1:] if name.startswith("@") else f"{name}="
        add(D, ["datasets." + call.format(value)], shown, remedy)
add(
    D,
    ["datasets.make_random(4, {9: 1.0})", "datasets.make_curie_weiss(4, {9: 1.0})"],
    "has the order 9",
    "raise n, or leave it out",
)
add(
    D,
    ["datasets.make_planted(4, {2: 99})", "datasets.make_mixed([(0, 1)] * 3, {2: 99})"],
    "counts={2: 99}",
    "ask for no more",
)
add(
    D,
    ["datasets.make_sk(10**7)", "datasets.make_takahashi(1.0, n=10**6)", "datasets.make_lattice((10**9, 10**9))"],
    "GiB",
    "drop variables",
)

# ---------------------------------------------------------------------- plots and the report

P = "Plots and the report"
for display in (
    "HypergraphDisplay",
    "CouplingMatrixDisplay",
    "VolcanoDisplay",
    "MomentsDisplay",
    "PathDisplay",
    "ChainsDisplay",
):
    for thing in ("None", "X", "5"):
        add(P, [f"plots.{display}.from_estimator({thing})"], "estimator is of type", "give a fitted HBM")
    add(
        P,
        [f"plots.{display}.from_estimator(model)"],
        "estimator is of type BoltzmannMachine",
        "of a model, there is from_model",
    )
    add(P, [f"plots.{display}.from_estimator(HBM())"], "not fitted yet", "Call 'fit'", "NotFittedError")
for display in ("HypergraphDisplay", "CouplingMatrixDisplay", "PathDisplay", "ChainsDisplay"):
    for thing in ("None", "X", "est"):
        add(P, [f"plots.{display}.from_model({thing})"], "model is of type", "model_")
add(
    P,
    ["plots.HypergraphDisplay.from_model(model, feature_names=['a'])"],
    "feature_names has 1 names for 4 variables",
    "give one for each",
)
add(P, ["plots.VolcanoDisplay.from_estimator(est, x='y')"], "x='y'", "choose one of")
add(P, ["plots.CouplingTableDisplay.from_estimator(est, (0, 9))"], "9 is not a known feature", "features are 0 … 3")
add(P, ["plots.CouplingTableDisplay.from_estimator(est, (0, 1))"], "has no nominal variable", "its weight is")
add(P, ["plots.CouplingTableDisplay.from_estimator(None, (0, 1))"], "estimator is of type", "give a fitted HBM")
add(P, ["plots.CouplingTableDisplay.from_model(None, (0, 1))"], "model is of type", "give a BoltzmannMachine")
add(
    P,
    ["plots.TotalDisplay.from_estimator(est, X[:, :2])", "report.html(est, X[:, :2])"],
    "X has 2 columns",
    "give the table that it was fitted to",
)
add(P, ["plots.TotalDisplay.from_check(5)"], "check is of type int", "give a PredictiveCheck")
add(P, ["plots.PowerDisplay.from_plan(5)"], "plan is of type int", "give what assessment.plan(model) returns")
add(
    P,
    ["plots.LaggedDisplay.from_estimator(est)"],
    "not fitted to lagged columns",
    "make the table with datasets.lagged",
)
add(
    P,
    ["plots.GroupDifferenceDisplay.from_estimator(named, 'z')"],
    "group='z': no such column",
    "give one of a, b, c, d",
)
add(P, ["plots.ModerationDisplay.from_estimator(est, 'z')"], "covariate='z': no such column", "give one of")
add(P, ["plots.PathDisplay.from_predictions(5)"], "result is of type int", "give what infer(model) returns")
add(P, ["plots.MomentsDisplay.from_predictions(5, X)"], "moments is of type int", "give Moments")
add(
    P,
    ["plots.ChainsDisplay.from_model(model, n_chains=0)", "plots.ChainsDisplay.from_predictions(X, model, n_chains=0)"],
    "n_chains=0",
    INTEGER,
)
add(
    P,
    ["report.html(None, X)", "report.html(5, X)", "report.html(model, X)"],
    "estimator is of type",
    "give a fitted HBM",
)
add(P, ["report.html(est, None)", "report.html(est, 'x')"], "got X of type", "give an array or list of rows")
add(P, ["report.html(HBM(), X)"], "not fitted yet", "Call 'fit'", "NotFittedError")
add(P, ["report.html(est, X, level=2)"], "level=2", "give a probability between 0 and 1")

# ---------------------------------------------------------------------- the command

C = "The command hbm-learn"
for arguments, names, remedy in (
    ("fit nowhere.csv", "nowhere.csv", "there is no such file"),
    ("fit data.csv -o data.csv", "data.csv: it is read by this command", "give another name"),
    ("fit data.csv --table data.csv", "data.csv: it is read by this command", "give another name"),
    ("fit data.csv --alphabet inf,1", "'inf,1'", "give values such as -1,1"),
    ("fit data.csv --alphabet nan,1", "'nan,1'", "give values such as -1,1"),
    ("fit data.csv --alphabet a,b", "'a,b'", "give values such as -1,1"),
    ("fit data.csv --alphabet interval:1", "'interval:1'", "interval:0,1"),
    ("fit data.csv --alphabet 1", "alphabet=[1]", "at least two values"),
    ("fit data.csv --order 0", "order=0", INTEGER),
    ("fit data.csv --order many", "'many'", "give an integer"),
    ("fit data.csv --order 9", "order=9", "orders 1 to 4"),
    ("fit data.csv --alpha nan", "alpha=nan", "a finite number ≥ 0"),
    ("fit data.csv --alpha=-1", "alpha=-1.0", "a finite number ≥ 0"),
    ("fit data.csv --l1-ratio 2", "l1_ratio=2.0", "between 0 and 1"),
    ("fit data.csv --fdr 1", "fdr=1.0", "between 0 and 1"),
    ("fit data.csv --powers 0", "powers=0", INTEGER),
    ("fit data.csv --jobs 0", "--jobs: '0'", "give a number of threads"),
    ("fit data.csv --seed=-1", "random_state=-1", "a non-negative integer"),
    ("fit data.csv --level 2", "--level 2", "between 0 and 1"),
    ("fit data.csv --columns z", "no column 'z'", "the columns are"),
    ("fit data.csv --groups z", "no column 'z'", "the columns are"),
    ("fit data.csv -o nowhere/model.npz", "nowhere/model.npz", "make the folder first"),
    ("fit data.txt", "the format .txt is not known", "use .csv"),
    ("fit empty.csv", "empty.csv", ""),
    ("fit ragged.csv", "ragged.csv", ""),
    ("fit binary.csv", "binary.csv", ""),
    ("fit twice.csv", "two columns are called 'a'", "give each a name of its own"),
    ("info broken.npz", "broken.npz", ""),
    ("sample broken.npz", "broken.npz is damaged", ""),
    ("sample data.csv", "not a model saved by hbm_learn", ""),
    ("infer model.npz -o model.npz", "model.npz: it is read by this command", "give another name"),
    ("infer model.npz -o out.csv", "out.csv: moments are written as .npz", "give such a name"),
    ("infer model.npz --given 1", "--given has 1 values", "give no --given"),
    ("infer given.npz", "--given has 0 values", "give one value for each of"),
    ("infer given.npz --given 9", "variable 0 has no value 9", "it has Alphabet"),
    ("infer nowhere.npz", "nowhere.npz", "No such file"),
    ("sample given.npz --given 1,2", "--given has 2 values", "give one value for each of"),
    ("sample model.npz -n 0", "n_samples=0", INTEGER),
    ("sample model.npz -n 99999999999999", "GiB", "draw fewer at a time"),
    ("sample model.npz -o out.txt", "the format .txt is not known", "use .csv"),
    ("sample model.npz --jobs 0", "--jobs: '0'", "give a number of threads, or -1"),
    ("sample model.npz --method x", "--method", "choose from"),
    ("score model.npz ragged.csv", "ragged.csv", ""),
    ("score model.npz more.csv", "more.csv has 6 columns", "the model has 4 variables"),
    ("score model.npz nowhere.csv", "nowhere.csv", "there is no such file"),
    ("info data.csv --top=-1", "--top: '-1'", "give an integer of at least 0"),
    ("info data.csv --columns z", "no column 'z'", "the columns are"),
    ("fit data.csv --top x", "--top: 'x'", "give an integer of at least 0"),
    ("fit data.csv --interactions a*z", "'z' is not a known feature", "or a feature name"),
    ("fit data.csv --interactions a", "interaction ('a',)", "has at least two variables"),
    ("fit data.csv --interactions ,", "--interactions: ','", "names no interaction: give some"),
    ("fit data.csv --interactions @empty.txt", "names no interaction", "give some, such as a*b"),
    ("fit data.csv --interactions @nowhere.txt", "cannot read nowhere.txt", ""),
    ("fit data.csv --interactions a*b*c --order 2", "order=2", "raise `order`"),
    ("fit data.csv --given z", "given names the column 'z'", "or one of 'a'"),
    ("fit data.csv --given a,b,c,d", "names every column", "leave some out"),
    ("fit data.csv --given a --drop a", "given names the column 'a'", "or one of 'b'"),
    ("fit data.csv --categorical z", "categorical_features names the column 'z'", "or one of 'a'"),
    ("fit data.csv --columns a --drop a", "no column is left", "drop fewer of them"),
    ("fit data.csv --drop z", "no column 'z'", "the columns are"),
    ("fit data.csv --columns a,a", "column 'a' is named twice", "name it once"),
    ("fit data.csv --alpha 1,2,3,4", "alpha=[1.0, 2.0, 3.0, 4.0]", "one number for each of the orders"),
    ("fit data.csv --alpha ,", "alpha=[]", "one number for each of the orders"),
    ("fit data.csv --refine x", "refine='x'", "choose one of"),
    ("fit data.csv --alphabet interval:1,0", "'interval:1,0'", "interval:0,1"),
    ("fit data.csv --na 1,-1", "no value but NaN", "drop them"),
    ("fit data.csv --order 3 --alphabet real", "order=3", "use order=2"),
    ("fit data.csv --table table.txt", "the format .txt is not known", "use .csv"),
    ("fit data.csv -o a.npz --report a.npz", "a.npz: it is written by another option", "give another name"),
    ("fit data.csv -o folder", "folder: no file can be written there", "make the folder first"),
    ("fit more.csv --groups g", "groups has 3 different labels", "put the group among the columns"),
    ("fit more.csv --groups id --given id", "given names the column 'id'", "or one of"),
    ("fit model.npz", "this is a model", "not a table of samples"),
    ("fit vector.npy", "vector.npy: a table of rows and columns is needed", "shape (5,)"),
    ("fit objects.npy", "objects.npy: it holds Python objects", "save numbers or text"),
    ("fit two.npz", "two.npz: it holds the arrays a, b", "call the samples X"),
    ("fit head.csv", "head.csv: a table of rows and columns is needed", "shape (0, 2)"),
    ("fit folder", "the format (no suffix) is not known", "use .csv"),
):
    CASES.append(Case(C, f"command({arguments!r})", names, remedy, "SystemExit"))


# ---------------------------------------------------------------------- the page

HEAD = """# What is said to bad input

Every mistake below is answered before any work is done, by an error that names the argument, the column or the value, and the remedy; the first table of each part is
what `tests/test_bad_inputs.py` runs. This page is written by `python tests/bad_inputs.py`.

`X` is a table of 200 rows and four columns of ±1, `Z` the same with a missing cell, `frame` one with the names a, b, c, d; `est` is fitted to `X`, `model` is its model and
`moments` are its moments; `with_given` is fitted to `frame` given a. `lazy` and `lazy_frame` are `X` and `frame` in dask. Parts of messages are shown.

Rows of a fold of a cross-validation may lack a value that others have: a column that is constant in a fold, or a value that only the held-out rows have, is an error there, as the
model could not tell its probability. Give `alphabet=…` with all values, or use folds that are stratified by the rare column.
"""


def page() -> str:
    """docs/errors.md."""
    parts = [HEAD]
    for area in dict.fromkeys(case.area for case in CASES):
        mine = [case for case in CASES if case.area == area]
        rows = [f"| {_code(c.code)} | {c.error} | {_text(c)} |" for c in mine if c.error]
        parts.append(f"\n## {area}\n\n| given | raises | says |\n|---|---|---|\n" + "\n".join(rows) + "\n")
        known = [f"| {_code(c.code)} | {_code(c.names)} |" for c in mine if not c.error]
        if known:
            parts.append("\nOdd, but with a meaning:\n\n| given | is |\n|---|---|\n" + "\n".join(known) + "\n")
    return "".join(parts)


def _code(text: str) -> str:
    return "`" + text.replace("|", "\\|") + "`"


def _text(case: Case) -> str:
    shown = " … ".join(part for part in (case.names, case.remedy) if part)
    return shown.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("`", "\\`").replace("_", "\\_")


def namespace() -> dict[str, Any]:
    """What the expressions above are about."""
    import warnings

    import numpy as np
    import pandas as pd
    from dask import array, dataframe
    from scipy.sparse import csr_matrix
    from sklearn.model_selection import KFold, cross_val_score

    import hbm_learn
    from hbm_learn import assessment, plots, report

    rng = np.random.default_rng(17)
    X = rng.choice([-1, 1], (200, 4))
    frame = pd.DataFrame(X, columns=list("abcd"))
    Z, mask = X.astype(float), np.zeros(X.shape, dtype=bool)
    Z[3, 1] = np.nan
    mask[3, 1] = mask[7, 0] = True
    many = pd.DataFrame(rng.choice([-1, 1], (300, 3)), columns=["a", "c", "d"])
    rare = frame.assign(rare=(np.arange(200) == 5).astype(int))
    rarer = frame.assign(rarer=np.where(np.arange(200) < 100, np.arange(200) % 2, np.arange(200) % 3))
    est = hbm_learn.HBM(order=2).fit(X)
    with_inf = Z.copy()
    with_inf[3, 1] = np.inf

    def quiet(table: Any) -> Any:
        warnings.simplefilter("ignore", UserWarning)
        return table

    here = {name: getattr(hbm_learn, name) for name in hbm_learn.__all__}
    tables = {"X": X, "Z": Z, "frame": frame, "many": many, "rare": rare, "rarer": rarer, "with_inf": with_inf}
    tables |= {"R": rng.normal(size=(200, 4)), "wide": rng.choice([0, 1], (20, 5000)).astype(np.int8)}
    tables |= {"masked": np.ma.masked_array(X, mask), "text": ["yes", "no"] * 100, "quiet": quiet, "sparse": csr_matrix}
    tables |= {"dates": np.array([["2020-01-01"], ["2021-01-01"]], dtype="M8[D]"), "__file__": __file__}
    fits = {"est": est, "model": est.model_, "moments": est.moments_, "named": hbm_learn.HBM(order=2).fit(frame)}
    fits["with_given"] = hbm_learn.HBM(order=2, given=["a"]).fit(frame)
    tables |= {"lazy": array.from_array(X, chunks=(50, 4)), "lazy_frame": dataframe.from_pandas(frame, npartitions=2)}
    fits["large"] = hbm_learn.BoltzmannMachine(np.zeros(5000), {(0, 1): 1.0})
    tools = {
        "np": np,
        "pd": pd,
        "plots": plots,
        "report": report,
        "assessment": assessment,
        "nan": np.nan,
        "inf": np.inf,
    }
    return {**here, **tables, **fits, **tools, "KFold": KFold, "cross_val_score": cross_val_score}


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{len(CASES)} cases in {PAGE}")
