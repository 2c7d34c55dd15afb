"""Mistakes that the tests must notice: each is planted alone in a copy of the tree, and the tests named beside it run.

    python tests/mutants.py [--only WORD …] [--list] [--sound] [--stale]

prints what survived, and ends with 1 if anything did. ``tests/test_mutants.py`` asserts that every mistake still fits
the source, so that the table cannot rot. The working tree is never written to.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # as a script it has its own folder there

from tests.reliability import digest, keep, record  # noqa: E402

# What tests may need of the tree.
PARTS = ("hbm_learn", "tests", "datasets", "benchmarks", "pyproject.toml", "README.md")
TIMEOUT = 600


class Mutant(NamedTuple):
    """A mistake: ``new`` in place of ``old``, which stands once in a file of the package, and pytest's arguments."""

    file: str
    old: str
    new: str
    tests: str

    @property
    def source(self) -> Path:
        return Path("hbm_learn") / self.file

    def planted(self, text: str) -> str:
        """The source with the mistake; ValueError where it does not fit."""
        found = text.count(self.old)
        if found != 1:
            raise ValueError(f"{self.source} has {found} times, and not once: {self.old!r}")
        return text.replace(self.old, self.new)

    def digest(self) -> str:
        """Of the file and its tests, whose change makes a result old."""
        tests = [name for name in self.tests.split() if name.endswith(".py")]
        return digest([ROOT / self.source, *(ROOT / name for name in tests)])

    def __str__(self) -> str:
        return f"{self.file}: {self.old.strip()!r} → {self.new.strip()!r}"


ASSESS, SHRINK, SCORE = "tests/test_assessment.py", "tests/test_shrinkage.py", "tests/test_score_tests.py"
TRUST, COMPOSITE, PSEUDO = "tests/test_trust.py", "tests/test_composite.py", "tests/test_pseudolikelihood.py"
FORMULAS, MOMENTS, MODEL = "tests/test_formulas.py", "tests/test_moments.py", "tests/test_model.py"
ONES, SIFT = "tests/test_ones.py", "tests/test_sift.py"
CLOSED, PRIOR, PREDICT = "tests/test_diagonal.py", "tests/test_prior.py", "tests/test_predictive.py"

INTERVALS = [
    Mutant(
        "assessment/intervals.py",
        "half = stats.norm.ppf(0.5 + 0.5 * level) * errors",
        "half = stats.norm.ppf(level) * errors",
        f"{ASSESS} -k gaussian_prior",
    ),
    Mutant("assessment/intervals.py", "(_STRONG - z) * error", "_STRONG * error", f"{ASSESS} -k reach_over"),
    Mutant(
        "assessment/intervals.py",
        "np.stack([posterior, even, data])",
        "np.stack([posterior, data])",
        f"{FORMULAS} -k even_odds",
    ),
    Mutant(
        "assessment/intervals.py",
        "stats.chi2.ppf(level, result.df)",
        "stats.chi2.ppf(level, 1)",
        "tests/test_estimator.py -k signs_of_blocks",
    ),
    Mutant(
        "assessment/intervals.py",
        "0.5 * stats.chi2.sf(result.statistic[block], result.df[block])",
        "stats.chi2.sf(result.statistic[block], result.df[block])",
        "tests/test_estimator.py -k signs_of_blocks",
    ),
    Mutant(
        "inversion/shrinkage/marginals.py",
        "(0.5 - 0.5 * level, 0.5 + 0.5 * level)",
        "(1.0 - level, level)",
        f"{SHRINK} -k quantiles",
    ),
    Mutant(
        "inversion/shrinkage/marginals.py",
        "stats.norm.ppf(0.5 + 0.5 * level)",
        "stats.norm.ppf(level)",
        f"{SHRINK} -k intervals_of_the_data",
    ),
    Mutant(
        "inversion/shrinkage/marginals.py",
        "np.sqrt(self.scale**2 * w + self.extra)",
        "np.sqrt(self.scale**2 * w)",
        f"{SHRINK} -k intervals_of_the_data",
    ),
    Mutant(
        "inversion/shrinkage/marginals.py",
        "(a**2)[:, None] * w + self.extra[rows][:, None]",
        "(a**2)[:, None] * w",
        f"{SHRINK} -k does_not_explain",
    ),
    Mutant("inversion/shrinkage/marginals.py", "np.minimum(below, 1.0 - below)", "below", f"{FORMULAS} -k likely_sign"),
    Mutant(
        "inversion/shrinkage/mixture.py",
        "np.maximum(share, 0.5)",
        "np.maximum(share, 0.9)",
        f"{SHRINK} -k even_odds",
    ),
    Mutant(
        "inversion/result.py",
        "float(x @ covariance(where) @ x)",
        "float(np.trace(covariance(where)))",
        f"{ASSESS} -k errors_of_a_norm",
    ),
]

TESTS = [
    Mutant("assessment/tests.py", "np.append(p[where], np.ones(n_others))", "p[where]", f"{ASSESS} -k benjamini"),
    Mutant(
        "assessment/tests.py",
        "stats.false_discovery_control(np.append(p[where], np.ones(n_others)))[: len(p[where])]",
        "stats.false_discovery_control(np.append(p, np.ones(n_others)))[where]",
        f"{ASSESS} -k benjamini",
    ),
    Mutant(
        "assessment/tests.py",
        "special.chdtrc(terms.df[several],",
        "special.chdtrc(1,",
        f"{ASSESS} -k degrees_of_freedom",
    ),
    # sparse zeros and ones, and what is sifted
    Mutant("inversion/composite/by_ones.py", "J * self._low[at]", "0.0 * J", f"{ONES} -k objectives"),
    Mutant("_kernels/ones.py", "+ slope[i] * target[l]", "+ target[l]", f"{ONES} -k objectives"),
    Mutant("_kernels/ones.py", "!= indices[indptr[s] + e]:", "!= indices[indptr[r] + e]:", f"{ONES} -k chance"),
    Mutant("data/scan.py", "list(mine[:2]) != [0, 1]", "False", f"{ONES} -k alphabets"),
    Mutant("data/ones.py", "if not _ones.are_ascending(indptr, indices):", "if False:", f"{ONES} -k stored"),
    Mutant("data/rows.py", "distinct[shuffled], w[shuffled]", "distinct[shuffled], w", f"{ONES} -k count_once"),
    Mutant("assessment/nested.py", "if self.sifted is None else self.sifted.counts[k]", "", f"{SIFT} -k hypotheses"),
    Mutant("assessment/sift.py", "C * Y[second] ** 2", "C * Y[second]", f"{SIFT} -k quadruplets"),
    Mutant(
        "assessment/nested.py",
        "q[where] = self._control(p[where], k)",
        "q[where] = self._control(p, k)[where]",
        f"{SCORE} -k every_candidate",
    ),
    Mutant(
        "assessment/nested.py",
        "out[where] = self._control(self.p_values[where], k) <= level",
        "out[where] = self.p_values[where] <= level",
        f"{FORMULAS} -k selection_is",
    ),
    Mutant(
        "assessment/nested.py",
        "for k in reversed(higher[:-1]):",
        "for k in higher[:0]:",
        f"{FORMULAS} -k lower_orders",
    ),
    Mutant(
        "assessment/nested.py",
        "return level * np.count_nonzero(selected & mine) / self._count(k)",
        "return level",
        f"{FORMULAS} -k passes_alone",
    ),
    Mutant(
        "assessment/forecast.py",
        "self.theta[rest] - q @ weights[:, 0]",
        "self.theta[rest] + q @ weights[:, 0]",
        f"{SCORE} -k 'forecast or dropping'",
    ),
    Mutant(
        "assessment/forecast.py",
        "self.Q[np.ix_(rest, rest)] - q @ weights[:, 1:]",
        "self.Q[np.ix_(rest, rest)]",
        f"{SCORE} -k 'forecast or dropping'",
    ),
    Mutant("assessment/nested.py", "root / self.stretch[mine], sites", "root, sites", f"{TRUST} -k allows_for_groups"),
    Mutant(
        "assessment/nested.py",
        "elif not self._stale(np.flatnonzero(mine)).any():",
        "else:",
        f"{SCORE} -k glance",
    ),
    Mutant(
        "assessment/nested.py", "changed = self.rough.copy()", "changed = 0 < self.fitted * 0", f"{SCORE} -k a_look_at"
    ),
    Mutant("assessment/forecast.py", "if alone:", "if False:", f"{SCORE} -k a_look_at"),
    Mutant(
        "assessment/nodes.py",
        "return sqrt(max(1.0 - P / float(self.weights.sum()), 0.0))",
        "return 1.0",
        f"{SCORE} -k 'few_for_the_columns or freedom'",
    ),
    Mutant("assessment/drop.py", "0.3, 1e-9, 1e-8, 30", "0.3, 1e-9, 1e9, 30", f"{SCORE} -k drop_tests"),
    Mutant(
        "assessment/drop.py",
        "decrement <= _SHRINKS * left[open_]",
        "decrement <= 1e9 + 0.0 * left[open_]",
        f"{SCORE} -k separated",
    ),
    Mutant(
        "assessment/score_tests.py",
        "V[l] += (Y**2 * C[l, l]) @ (Y**2).T",
        "V[l] += (Y * C[l, l]) @ Y.T",
        f"{SCORE} -k glance_is",
    ),
    Mutant("assessment/nested.py", "self.stretch = np.sqrt([", "self.stretch = np.array([", f"{TRUST} -k 'groups'"),
    Mutant(
        "assessment/nested.py",
        "p, z = self.p_values, deviates(self.root, self.df)",
        "p, z = p_values(self.root, self.df), deviates(self.root, self.df)",
        f"{FORMULAS} -k passes_alone",
    ),
    Mutant(
        "assessment/nested.py",
        "blocks = {2: self.pairs.block(2)}",
        "blocks = {2: closure(self.terms.select(selected), self.data.space).block(2)}",
        f"{SCORE} -k 'shadows or planted_terms or held'",
    ),
    Mutant(
        "assessment/saddlepoint.py",
        "stats.chi2.sf(z**2, np.maximum(df, 1))",
        "stats.chi2.sf(z**2, 1)",
        f"{SCORE} -k 'labels_have_their_level or likelihood_ratios'",
    ),
    Mutant(
        "assessment/saddlepoint.py",
        "return 2.0 * special.ndtr(-np.abs(z))",
        "return special.ndtr(-np.abs(z))",
        f"{SCORE} -k every_candidate",
    ),
    Mutant("assessment/saddlepoint.py", "GAUSSIAN = 2.0", "GAUSSIAN = 8.0", f"{SCORE} -k exact_tests"),
    Mutant("assessment/saddlepoint.py", "SINGULAR = 1e-6", "SINGULAR = 0.0", f"{SCORE} -k no_variance"),
    Mutant(
        "assessment/two_values.py",
        "max(root + math.log(u / root) / root, 0.0)",
        "max(root - math.log(u / root) / root, 0.0)",
        f"{SCORE} -k two_values",
    ),
    Mutant(
        "assessment/two_values.py",
        "max(root + math.log(u / root) / root, 0.0)",
        "root",
        f"{SCORE} -k two_values",
    ),
    Mutant(
        "assessment/two_values.py",
        "math.copysign(min(size, most), S)",
        "min(size, most)",
        f"{SCORE} -k two_values",
    ),
    Mutant(
        "assessment/two_values.py",
        "math.copysign(min(size, most), S)",
        "math.copysign(size, S)",
        f"{FORMULAS} -k two_values",
    ),
    Mutant(
        "_kernels/score.py",
        "min(max(root + math.log(u / root) / root, 0.0), most)",
        "min(max(root - math.log(u / root) / root, 0.0), most)",
        f"{SCORE} -k tails_of",
    ),
    Mutant("_kernels/score.py", "log_p = math.log(0.5)", "log_p = 0.0", f"{SCORE} -k tails_of"),
    Mutant("_kernels/score.py", "(m4 - 3.0 * m2 * m2)", "m4", f"{FORMULAS} -k cumulants"),
    Mutant(
        "assessment/score_tests.py", "S = S - co @ gradient", "S = S + co @ gradient", f"{SCORE} -k efficient_scores"
    ),
    Mutant(
        "assessment/score_tests.py",
        'V = raw - np.einsum("tip,tjp->tij", cross, co) - ',
        "V = raw - ",
        f"{SCORE} -k efficient_scores",
    ),
    Mutant(
        "assessment/score_tests.py",
        "    if n_nuisance:\n",
        "    if False:\n",
        f"{SCORE} -k 'own_triplets or lower_ones'",
    ),
    Mutant("assessment/drop.py", "GAIN = 0.1", "GAIN = 1e9", f"{SCORE} -k separated"),
    Mutant(
        "assessment/drop.py",
        "eta = here - (moved if single",
        "eta = here + (moved if single",
        f"{SCORE} -k drop_tests",
    ),
    Mutant(
        "assessment/drop.py", "out = out - out[..., J] @ D", "out = out + out[..., J] @ D", f"{SCORE} -k drop_tests"
    ),
    Mutant(
        "assessment/node_data.py",
        "np.bincount(inverse.ravel(), None if weights is None else weights.astype(np.float64))",
        "np.bincount(inverse.ravel())",
        f"{SCORE} -k 'weights_count or distinct_rows'",
    ),
    Mutant(
        "assessment/node_data.py",
        "codes[first[w > 0]], w[w > 0]",
        "codes[np.sort(first[w > 0])], w[w > 0]",
        f"{FORMULAS} -k distinct_rows",
    ),
    Mutant(
        "assessment/selection.py",
        "evidence[order] - evidence[order - 1] < WORTH",
        "evidence[order] - evidence[order - 1] > WORTH",
        f"{SHRINK} -k chooses_the_order",
    ),
]

CHECKS = [
    Mutant(
        "assessment/planning.py",
        "special.chdtrc(df[r] - 1, left)",
        "special.chdtrc(df[r], left)",
        "tests/test_corners.py -k power_of_a_block",
    ),
    Mutant(
        "assessment/selection.py",
        "        chosen = passing\n",
        "        return result, tests.beside(first, level)\n",
        "tests/test_corners.py -k sums_alone",
    ),
    Mutant(
        "assessment/checks.py",
        "SMALL_BIAS, LARGE_BIAS = 1.0, 2.0",
        "SMALL_BIAS, LARGE_BIAS = 5.0, 10.0",
        f"{FORMULAS} -k verdicts",
    ),
    Mutant(
        "assessment/checks.py",
        "SMALL_BIAS, LARGE_BIAS = 1.0, 2.0",
        "SMALL_BIAS, LARGE_BIAS = 1.0, 10.0",
        f"{FORMULAS} -k verdicts",
    ),
    Mutant("assessment/checks.py", "UNSETTLED = 0.1", "UNSETTLED = 5.0", f"{FORMULAS} -k verdicts"),
    Mutant(
        "assessment/checks.py",
        "SOME_CELLS, MANY_CELLS = 0.5, 0.8",
        "SOME_CELLS, MANY_CELLS = 0.8, 0.8",
        f"{TRUST} -k missing",
    ),
    Mutant(
        "assessment/checks.py", '"care" if largest < 8.0 else "bad"', '"care"', f"{TRUST} -k 'overrules or moments'"
    ),
    Mutant(
        "assessment/checks.py",
        "2.0 * n * float(stats.norm.sf(largest))",
        "2.0 * float(stats.norm.sf(largest))",
        f"{FORMULAS} -k verdicts",
    ),
    Mutant(
        "assessment/checks.py",
        "np.maximum(spread, 0.0) / moments.n_samples",
        "np.maximum(spread, 0.0)",
        f"{TRUST} -k 'overrules'",
    ),
    Mutant("assessment/compared.py", "LEVEL = 1e-3", "LEVEL = 1e-30", f"{PREDICT} -k 'each_group or sum'"),
    Mutant("assessment/dependence.py", "LIMIT = 1.5", "LIMIT = 15.0", f"{TRUST} -k dependent_rows"),
    Mutant("assessment/dependence.py", "g = 2.0 * np.cumsum(", "g = np.cumsum(", f"{TRUST} -k autocorrelation"),
    Mutant(
        "assessment/dependence.py",
        "np.add.at(within, groups, s)",
        "np.add.at(within, np.sort(groups), s)",
        f"{FORMULAS} -k need_not_be_sorted",
    ),
    Mutant("assessment/predictive.py", "MIN_CARRIERS = 30", "MIN_CARRIERS = 0", f"{PREDICT} -k too_few_rows"),
    Mutant(
        "assessment/predictive.py",
        "error2 = variance / M + np.maximum(between",
        "error2 = 0.25 * variance / M + np.maximum(between",
        f"{PREDICT} -k true_model",
    ),
    Mutant(
        "assessment/trust.py",
        'return CARE if "care" in found or lacking else RELIED',
        'return CARE if "care" in found else RELIED',
        f"{TRUST} -k headline",
    ),
]

CLOSED_FORM = [
    Mutant(
        "inversion/closed_form/precision.py",
        "(np.outer(diagonal, diagonal) + P**2) / n_samples",
        "(np.outer(diagonal, diagonal) - P**2) / n_samples",
        f"{FORMULAS} -k permanents",
    ),
    Mutant(
        "inversion/closed_form/errors.py",
        "diagonal[block[:, 0]] * diagonal[block[:, 1]] + P[tuple(block.T)] ** 2",
        "diagonal[block[:, 0]] * diagonal[block[:, 1]] - P[tuple(block.T)] ** 2",
        f"{FORMULAS} -k 'permanents or noise_of_triplets'",
    ),
    Mutant(
        "inversion/closed_form/errors.py",
        "+ cc * ab**2 + 2 * ab * bc * ac",
        "+ cc * ab**2 - 2 * ab * bc * ac",
        f"{FORMULAS} -k 'permanents or noise_of_triplets'",
    ),
    Mutant(
        "inversion/closed_form/errors.py",
        "uu * ab**2 + 2 * ab * au * bu",
        "uu * ab**2 - 2 * ab * au * bu",
        f"{FORMULAS} -k 'permanents or noise_of_triplets'",
    ),
    Mutant(
        "inversion/closed_form/diagonal.py",
        "apply_everywhere(P, moments.cumulant(4)) - trees",
        "apply_everywhere(P, moments.cumulant(4)) + trees",
        f"{FORMULAS} -k no_quadruplet",
    ),
    Mutant(
        "inversion/closed_form/diagonal.py",
        "weights[where] = whole - rest\n",
        "weights[where] = whole + rest\n",
        f"{CLOSED} -k 'affine or inverses'",
    ),
    Mutant(
        "inversion/closed_form/diagonal.py",
        "noise = P @ C @ P if columns.order > 2 else P",
        "noise = P",
        f"{FORMULAS} -k ridge",
    ),
    Mutant(
        "inversion/closed_form/corrections.py",
        "pairs -= _second_order(found",
        "pairs += _second_order(found",
        "tests/test_corrections.py",
    ),
    Mutant(
        "inversion/closed_form/precision.py",
        "np.mean(estimates**2 - variances)",
        "np.mean(estimates**2)",
        f"{FORMULAS} -k noise_leaves",
    ),
    Mutant(
        "inversion/result.py",
        "keep = values > 1e-12 * max(float(values[-1]), 1e-300)",
        "keep = values > 0.5 * max(float(values[-1]), 1e-300)",
        f"{FORMULAS} -k chi_square",
    ),
]

SANDWICH = [
    Mutant(
        "inversion/composite/hessian.py",
        "scale[:, None] / (1.0 - np.minimum(leverage, _LARGEST_LEVERAGE))",
        "scale[:, None] * np.ones_like(leverage)",
        f"{COMPOSITE} -k sandwich",
    ),
    Mutant(
        "inversion/composite/sandwich.py",
        "noise = 4.0 * float(",
        "noise = 2.0 * float(",
        f"{FORMULAS} -k same_rows",
    ),
    Mutant(
        "inversion/composite/sandwich.py",
        "np.exp(-2.0 * leverage)",
        "np.exp(-leverage)",
        f"{FORMULAS} -k same_rows",
    ),
    Mutant(
        "inversion/composite/sandwich.py",
        "    if not runaway:\n",
        "    if True:\n",
        f"{COMPOSITE} {PSEUDO} -k 'boundary or runaway'",
    ),
    Mutant(
        "inversion/composite/sandwich.py",
        "posterior=np.maximum(together(v**2 @ prior[mine] for mine, v in zip(where, inverse)) + variances, 0.0)",
        "posterior=sampling",
        f"{COMPOSITE} {PSEUDO} -k 'sandwich or posterior_does'",
    ),
    Mutant(
        "inversion/composite/sandwich.py",
        "free = theta + together(",
        "free = theta - together(",
        f"{COMPOSITE} {PSEUDO} tests/test_estimator.py -k 'sandwich or do_not_depend_on_the_prior'",
    ),
    Mutant(
        "inversion/composite/thinning.py",
        "(scale**2)[composite.parameters.field_site]",
        "(scale**2)[composite.parameters.space.site]",
        "tests/test_given.py -k 'heavy_rows or many_rows'",
    ),
    Mutant(
        "inversion/composite/hessian.py",
        "out[mine] = values.first[output] if left is None else left * values.first[output]",
        "out[mine] = values.first[output]",
        "tests/test_given.py -k site_by_site",
    ),
    Mutant(
        "assessment/rare_patterns.py",
        "y = (1.0 + self.beta) * (N / size - 1.0)",
        "y = N / size - 1.0",
        "tests/test_planning.py -k rare",
    ),
    Mutant(
        "report/data.py",
        '[""] * len(own) if est.model_.space.given[i] else ',
        "",
        "tests/test_given.py -k report_says",
    ),
    Mutant("inversion/prior.py", "np.sqrt(2.0 * a)", "np.sqrt(a)", f"{FORMULAS} -k laplace"),
    Mutant("inversion/inflation.py", "sampling=fit.sampling * g,", "sampling=fit.sampling,", f"{TRUST} -k inflated"),
    Mutant("inversion/inflation.py", "root = np.sqrt(g)", "root = g", f"{TRUST} -k inflated"),
]

LEARNT = [
    Mutant(
        "inversion/composite/information.py",
        "elif not active.all() and _is_elsewhere(H, each[where]):",
        "elif False:",
        "tests/test_properties.py -k without_end",
    ),
    Mutant(
        "inversion/shrinkage/mixture.py",
        "- self.df[:, None] * np.log(spread))",
        "+ self.df[:, None] * np.log(spread))",
        f"{SHRINK} -k 'moments_of_its_integral or evidence_are_gaussian'",
    ),
    Mutant(
        "_kernels/mixture.py",
        "variance[t] = first + max(second - first * first, 0.0) * square[t] / df[t]",
        "variance[t] = first",
        f"{SHRINK} -k moments_of_its_integral",
    ),
    Mutant(
        "_kernels/mixture.py",
        "square[t] / df[t]\n",
        "square[t]\n",
        f"{SHRINK} -k one_scale_for",
    ),
    Mutant(
        "inversion/shrinkage/mixture.py",
        "gradient = total * pi - weighted.sum(axis=0) - base",
        "gradient = total * pi - weighted.sum(axis=0)",
        f"{SHRINK} -k no_other_weights",
    ),
    Mutant("inversion/shrinkage/mixture.py", "PSEUDO = 1.0", "PSEUDO = 1000.0", f"{SHRINK} -k drawn"),
    Mutant(
        "inversion/shrinkage/mixture.py",
        "((z / _APART) ** 2 - k**2) / (2 * k + 1)",
        "z / _APART - k",
        "tests/test_products.py -k learnt_from_counts",
    ),
    Mutant(
        "inversion/shrinkage/expectation.py",
        "rho = mean / v_term[terms.group] - sites.shift + left",
        "rho = mean / v_term[terms.group] + sites.shift + left",
        f"{SHRINK} -k 'solved_exactly or integration'",
    ),
    Mutant("inversion/shrinkage/expectation.py", "- sites.shift + left", "- sites.shift", f"{SHRINK} -k stiff_prior"),
    Mutant(
        "inversion/shrinkage/expectation.py",
        "gamma = np.maximum(1.0 / variance - precision, ",
        "gamma = np.maximum(1.0 / variance, ",
        f"{SHRINK} -k 'solved_exactly or integration'",
    ),
    Mutant(
        "inversion/shrinkage/expectation.py",
        "log_ratio=float(np.sum(total - gaussian))",
        "log_ratio=float(np.sum(gaussian - total))",
        f"{SHRINK} -k evidence_are_gaussian",
    ),
    Mutant(
        "inversion/shrinkage/expectation.py",
        "< strong * self.precision",
        "> strong * self.precision",
        f"{SHRINK} -k stand_out",
    ),
    Mutant(
        "inversion/shrinkage/learn.py",
        "- 0.5 * found.log_det + found.sites.log_ratio",
        "+ 0.5 * found.log_det + found.sites.log_ratio",
        f"{SHRINK} -k 'evidence'",
    ),
    Mutant(
        "inversion/shrinkage/learn.py",
        "key=lambda k: found[k], reverse=True)",
        "key=lambda k: found[k])",
        f"{FORMULAS} -k origin",
    ),
    Mutant(
        "inversion/shrinkage/learn.py",
        "deviate = root * fit.theta[n_own:] * (1.0 + alpha / n_samples)",
        "deviate = root * fit.theta[n_own:] * alpha",
        f"{FORMULAS} -k has_no_part",
    ),
    Mutant(
        "inversion/shrinkage/expansion.py",
        "adjusted = g[n_own:] - cross @",
        "adjusted = g[n_own:] + cross @",
        f"{SHRINK} -k fields_explain",
    ),
    Mutant(
        "inversion/shrinkage/expansion.py",
        "np.minimum(np.sqrt(np.maximum(deviance, 0.0)), size)",
        "size",
        f"{SHRINK} -k rare_count",
    ),
    Mutant(
        "inversion/shrinkage/expansion.py",
        "terms.sum(expected) / terms.df), size",
        "terms.sum(expected)), size",
        f"{SHRINK} -k root_of_a_block",
    ),
    Mutant(
        "inversion/shrinkage/origins.py",
        "[sparse.eye_array(n_own), alone @ T[:N]]",
        "[sparse.eye_array(n_own), -(alone @ T[:N])]",
        f"{SHRINK} -k same_distribution",
    ),
    Mutant(
        "space/space.py",
        "table[p >= p.max() * (1.0 - 1e-9)]",
        "table[p <= p.min() * (1.0 + 1e-9)]",
        f"{SHRINK} -k origins_do_not",
    ),
    Mutant("inversion/prior.py", "float(np.sum(J2 - noise))", "float(np.sum(J2))", f"{PRIOR} -k 'mackay or absent'"),
    Mutant("inversion/prior.py", "if alpha * tau2 <= 1.0:", "if alpha * tau2 >= 1.0:", f"{PRIOR} -k uncertain_prior"),
    Mutant(
        "inversion/likelihood/information.py",
        "-M * point.gradient / self.overcount, M",
        "M * point.gradient / self.overcount, M",
        f"{SHRINK} -k sparse_truth",
    ),
    Mutant(
        "inversion/likelihood/information.py",
        "np.sqrt(M / self.overcount)",
        "np.sqrt(M * self.overcount)",
        f"{TRUST} -k 'groups or inflated or worth_one'",
    ),
]

DATA = [
    Mutant(
        "data/samples.py",
        "self.weights[lo : lo + len(block)]",
        "self.weights[: len(block)]",
        "tests/test_determinism.py -k 'blocks_of_rows and weights'",
    ),
    Mutant(
        "data/reduce.py",
        "else row_parts(len(block[0]), block[0].size * cost)",
        "else row_parts(len(block[0]), block[0].size * cost)[:: -1 if n_jobs == 2 else 1]",
        "tests/test_determinism.py -k 'changes_nothing and screening'",
    ),
    Mutant("assessment/summary.py", "<td>{escape(cell)}</td>", "<td>{cell}</td>", "tests/test_corners.py -k notebook"),
    Mutant(
        "data/tables.py",
        "None if weights is None else weights[kept]",
        "None if weights is None else weights[: len(kept)]",
        f"{FORMULAS} -k weights_follow",
    ),
    Mutant(
        "data/incomplete.py",
        "codes, w = codes[keep], w[keep]",
        "codes, w = codes[keep], w[: int(keep.sum())]",
        "tests/test_missing.py -k 'weight or nothing'",
    ),
    Mutant("io/models.py", "        if (first <= 0).any():\n", "        if False:\n", "tests/test_io.py -k 'refused'"),
    Mutant("io/models.py", "(np.diff(space.site[block], axis=1) <= 0).any()", "False", "tests/test_io.py -k 'refused'"),
    Mutant(
        "model/gauge.py",
        "value[drop] * constant[column[drop]]",
        "-value[drop] * constant[column[drop]]",
        "tests/test_gauge.py -k 'same_distribution or formula'",
    ),
    Mutant("model/gauge.py", "comb(a, b) * float(s[i]) ** b", "float(s[i]) ** b", "tests/test_gauge.py -k binomial"),
]

KERNELS = [
    Mutant("_kernels/bits.py", "c21 += popcount(x2 & y)", "c21 += popcount(x3 & y)", f"{MOMENTS} -k bit_sums"),
    Mutant(
        "_kernels/bits.py",
        "d13 += popcount(x1 & y & (u1 ^ v))",
        "d13 += popcount(x1 & y & u1)",
        f"{MOMENTS} -k signed_sums",
    ),
    Mutant(
        "_kernels/bits.py",
        "bound[p] = highest = min((j + 1) * n_planes, begin + _NEAR)",
        "bound[p] = highest = (j + 1) * n_planes",
        f"{MOMENTS} -k bit_sums",
    ),
    Mutant(
        "_kernels/packing.py", "~(there << np.uint64(max(n_rows - first, 0)))", "there", f"{MOMENTS} -k pack_against"
    ),
    Mutant(
        "_kernels/polynomial.py",
        "for first in range(0, X.shape[0], _TILE)",
        "for first in range(0, X.shape[0] - 1, _TILE)",
        f"{MODEL} -k values_on_rows",
    ),
]

MUTANTS = [*INTERVALS, *TESTS, *CHECKS, *CLOSED_FORM, *SANDWICH, *LEARNT, *DATA, *KERNELS]


def copy_tree(target: Path) -> None:
    """What tests need, with the compiled kernels, which are kept by the times of their files."""
    for part in PARTS:
        source = ROOT / part
        if source.is_dir():
            shutil.copytree(source, target / part, ignore=shutil.ignore_patterns("*.pyc"))
        else:
            shutil.copy2(source, target / part)


def survives(mutant: Mutant, tree: Path) -> bool:
    """Whether all tests pass with the mistake in a copy of the tree, which is as it was afterwards."""
    path = tree / mutant.source
    times, text = path.stat(), path.read_text(encoding="utf-8")
    path.write_text(mutant.planted(text), encoding="utf-8")
    try:
        done = run(mutant.tests, tree)
    finally:
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    if done.returncode not in (0, 1):  # 5: no test was selected; 2 and more: pytest itself failed
        broken = done.returncode == 2 and "error" in done.stdout.lower() and "no tests ran" not in done.stdout
        if not broken:
            raise RuntimeError(f"{mutant}: pytest ended with {done.returncode}\n{done.stdout[-2000:]}{done.stderr}")
    return done.returncode == 0


def run(tests: str, tree: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *shlex.split(tests)]
    environment = os.environ | {"PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=TIMEOUT)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="mistakes with one of these words in file or text")
    parser.add_argument("--first", type=int, default=1, help="number of the first to run")
    parser.add_argument("--list", action="store_true", help="name the mistakes and run nothing")
    parser.add_argument("--sound", action="store_true", help="run the tests without mistakes first: all must pass")
    parser.add_argument("--stale", action="store_true", help="only those without a result of today's files")
    options = parser.parse_args()
    chosen = [each for each in MUTANTS if any(word in str(each) for word in options.only)]
    known = record().get("mutants", {})
    if options.stale:
        chosen = [each for each in chosen if known.get(str(each), {}).get("digest") != each.digest()]
    for each in MUTANTS:  # loudly, before anything runs
        each.planted((ROOT / each.source).read_text(encoding="utf-8"))
    if options.list:
        print("\n".join(map(str, chosen)))
        return 0
    survivors = []
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        copy_tree(tree)
        for tests in sorted({each.tests for each in chosen}) if options.sound else []:
            done = run(tests, tree)
            if done.returncode:
                raise RuntimeError(f"{tests} fails without a mistake, or selects nothing:\n{done.stdout[-2000:]}")
        for number, each in enumerate(chosen[options.first - 1 :], start=options.first):
            start = time.perf_counter()
            alive = survives(each, tree)
            survivors += [each] * alive
            known[str(each)] = {"caught": not alive, "digest": each.digest()}
            keep(mutants={str(m): known[str(m)] for m in MUTANTS if str(m) in known})
            word = "SURVIVED" if alive else "caught"
            print(f"{number}/{len(chosen)} {word} {time.perf_counter() - start:.0f} s  {each}", flush=True)
    print(
        f"{len(survivors)} of {len(chosen) - options.first + 1} survived" + "".join(f"\n  {each}" for each in survivors)
    )
    return int(bool(survivors))


if __name__ == "__main__":
    sys.exit(main())
