"""Whether there is anything of an order: the evidence of the model up to each order, against what an order must bring.

    P(up to k | data) ∝ exp(evidence_k − WORTH · (k − 2)),     belief_k = P(up to k or higher | data)

Where an order is in doubt the prior of each of its couplings is the learnt mixture with probability belief, and the
narrowest scale otherwise: one that stands out by itself stays, and many that might be something are nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from hbm_learn.inversion.shrinkage.expectation import Sites
from hbm_learn.terms import are_all

# Nats of evidence that an order must bring: odds of 20 to 1, beyond what its learnt weights are worth by themselves.
WORTH = 3.0
# An order that is so probable is not in doubt.
_CERTAIN = 0.99


def beliefs(evidence: Mapping[int, float]) -> dict[int, float]:
    """{order: probability that there is anything of it or of a higher one}, of the orders above 2.

    Parameters
    ----------
    evidence : {order: nats}
        Of the model up to each order.
    """
    known = sorted(k for k in evidence if k >= 2)
    log = np.array([evidence[k] - WORTH * (k - 2) for k in known])
    p = np.exp(log - log.max()) if known else log
    above = np.cumsum(p[::-1])[::-1] / p.sum()
    return {k: float(min(share, 1.0)) for k, share in zip(known, above) if k > 2}


def doubted(sites: Sites, evidence: Mapping[int, float]) -> Sites | None:
    """The sites to begin with where an order is in doubt; None where none is.

    Of sets that were chosen, by tests or by the user, whoever chose them has answered for their order.
    """
    if not are_all(sites.terms.columns, sites.terms.space):
        return None
    belief = {k: b for k, b in beliefs(evidence).items() if b < _CERTAIN}
    return replace(sites, belief=belief) if belief else None
