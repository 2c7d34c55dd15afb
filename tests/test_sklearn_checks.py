"""Every check that scikit-learn has for estimators."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from hbm_learn import HBM


# The checks fit what no user should (fewer rows than columns, columns that repeat): worth a warning, not an error.
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([HBM(), HBM(order=1), HBM(order=2, refine=None)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
