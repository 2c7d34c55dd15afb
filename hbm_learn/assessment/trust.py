"""How far to believe a fit: a list of checks, each computed for this fit, and a headline that follows from them.

any check "bad"                                   do not rely on it
any "care", or no check of the fitted moments     with care
otherwise                                         can be relied on
"""

from __future__ import annotations

from dataclasses import dataclass

VERDICTS = ("good", "unknown", "care", "bad")
RELIED, CARE, NOT = "can be relied on", "with care", "do not rely on it"


@dataclass(frozen=True)
class Check:
    """One question that was put to a fit.

    Attributes
    ----------
    name : str
        What was looked at.
    value : float or None
        The number; None where there is none.
    verdict : {"good", "unknown", "care", "bad"}
        "unknown": it could not be looked at.
    sentence : str
        What it says, with the remedy where there is one.
    essential : bool
        Without an answer to it a fit is to be taken with care.
    """

    name: str
    value: float | None
    verdict: str
    sentence: str
    essential: bool = False


@dataclass(frozen=True)
class Trust:
    """How far to believe a fit.

    Attributes
    ----------
    checks : tuple of Check
        In the order in which they were made.
    discrepancy : float or None
        Root mean square, over the moments that the model fits, of (model − data) in standard errors of the data.
    bias : float or None
        Root mean square, over the effects, of the closed form's bias at the fitted model in standard errors.
    """

    checks: tuple[Check, ...]
    discrepancy: float | None = None
    bias: float | None = None

    @property
    def headline(self) -> str:
        """ "can be relied on", "with care" or "do not rely on it"."""
        found = {check.verdict for check in self.checks}
        if "bad" in found:
            return NOT
        lacking = any(check.essential and check.verdict == "unknown" for check in self.checks)
        return CARE if "care" in found or lacking else RELIED

    @property
    def message(self) -> str:
        """The headline, and the sentences of the checks behind it."""
        heads = {
            RELIED: "This fit can be relied on.",
            CARE: "Take this fit with care.",
            NOT: "Do not rely on this fit.",
        }
        return " ".join([heads[self.headline], *self.reasons])

    @property
    def reasons(self) -> list[str]:
        """Sentences of the worst checks; of a fit that can be relied on, those of the essential ones."""
        worst = "bad" if self.headline == NOT else "care"
        found = [check.sentence for check in self.checks if check.verdict == worst]
        if self.headline == CARE:
            found += [check.sentence for check in self.checks if check.essential and check.verdict == "unknown"]
        if self.headline == RELIED:
            found = [check.sentence for check in self.checks if check.essential]
        return found

    @property
    def warning(self) -> str:
        """What should be raised as a warning: the message where the fit should not be relied on, else ""."""
        return self.message if self.headline == NOT else ""

    def __str__(self) -> str:
        marks = {"good": "✓", "unknown": "?", "care": "!", "bad": "✗"}
        return "\n".join([self.headline, *(f"  {marks[c.verdict]} {c.name}: {c.sentence}" for c in self.checks)])
