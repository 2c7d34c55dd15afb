"""How far to trust a fit, in the report: the headline, and every check with its verdict, number and sentence."""

from __future__ import annotations

from html import escape

from hbm_learn.assessment.trust import CARE, NOT, RELIED, Check
from hbm_learn.estimator import HBM
from hbm_learn.report import words

# What the headline says, and the class that colours it.
HEADLINES = {
    RELIED: ("This fit can be relied on.", "good"),
    CARE: ("Take this fit with care.", "care"),
    NOT: ("Do not rely on this fit.", "bad"),
}
VERDICTS = {"good": "good", "unknown": "not known", "care": "with care", "bad": "bad"}


def trust(est: HBM, level: float) -> str:
    """The section.

    Parameters
    ----------
    est : HBM
        Fitted.
    level : float
        Of the intervals.
    """
    headline, kind = HEADLINES[est.trust_.headline]
    rows = "".join(_row(check) for check in est.trust_.checks)
    columns = (("check", ""), ("number", "wide"), ("what it says", ""))
    header = "".join(f'<th scope="col" class="{width}">{name}</th>' for name, width in columns)
    items = "".join(f"<li>{escape(sentence)}</li>" for sentence in _beside(est, level))
    return f"""<p class="verdict {kind}"><strong>{escape(headline)}</strong></p>
<div class="scroll"><table class="checks">
<caption class="note">What was asked of this fit. One ✗ and it should not be relied on; one ! asks for care.</caption>
<thead><tr>{header}</tr></thead>
<tbody>{rows}</tbody></table></div>
<ul>{items}</ul>"""


def _row(check: Check) -> str:
    x = check.value
    number = "" if x is None else (f"{x:,.0f}" if 1e3 <= abs(x) < 1e9 else f"{x:.3g}").replace("-", "−")
    mark = f'<span class="mark {check.verdict}" title="{VERDICTS[check.verdict]}">{words.MARKS[check.verdict]}</span>'
    return (
        f'<tr><th scope="row">{mark} {escape(check.name)}</th><td class="n wide">{number}</td>'
        f"<td>{escape(check.sentence)}</td></tr>"
    )


def _beside(est: HBM, level: float) -> list[str]:
    """What no check can tell."""
    caution = (
        f"The intervals hold the true effect {100 * level:g} times in 100 if the interactions that matter were "
        "considered. A variable that was not measured can make others seem to interact."
    )
    return [*map(words.capital, est.result_.notes), caution]
