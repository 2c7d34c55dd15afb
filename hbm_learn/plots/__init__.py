"""Plots, as Display classes in the manner of scikit-learn; matplotlib is imported only when one is drawn.

Each has ``from_estimator`` (a fitted HBM; ``from_plan`` and ``from_data`` where there is no fit yet), a constructor
from plain arrays, and ``plot(ax=None)``, which returns the display with ``figure_`` and ``ax_`` (or ``axes_``) to go on
from. Blue is negative and red positive, everywhere; grey is the size of a table over labels, which has no sign.
"""

from hbm_learn.plots.chains import ChainsDisplay
from hbm_learn.plots.coupling_matrix import CouplingMatrixDisplay
from hbm_learn.plots.coupling_table import CouplingTableDisplay
from hbm_learn.plots.group_difference import GroupDifferenceDisplay
from hbm_learn.plots.hypergraph import HypergraphDisplay
from hbm_learn.plots.lagged import LaggedDisplay
from hbm_learn.plots.missing import MissingDisplay
from hbm_learn.plots.moderation import ModerationDisplay
from hbm_learn.plots.moments import MomentsDisplay
from hbm_learn.plots.path import PathDisplay
from hbm_learn.plots.power import PowerDisplay
from hbm_learn.plots.total import TotalDisplay
from hbm_learn.plots.volcano import VolcanoDisplay

__all__ = [
    "ChainsDisplay",
    "CouplingMatrixDisplay",
    "CouplingTableDisplay",
    "GroupDifferenceDisplay",
    "HypergraphDisplay",
    "LaggedDisplay",
    "MissingDisplay",
    "ModerationDisplay",
    "MomentsDisplay",
    "PathDisplay",
    "PowerDisplay",
    "TotalDisplay",
    "VolcanoDisplay",
]
