"""The choice of a cascade, as shown to people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """How many insights a cascade asks its paid judge about, and how uncertain those and the others are."""

    judge: str
    share: float
    """Share (0..1) of the insights that the paid judge is asked about."""
    n_asked: int
    n: int
    """Insights that the free judge judged."""
    uncertainty_asked: float | None
    """Mean uncertainty (standard deviation of the expected coverage, 0..1) of the insights that are asked about."""
    uncertainty_left: float | None
    """The same for the insights left to the free judge."""
    by_budget: bool = False
    """Whether the share was chosen as the greatest that the budget is certain to pay for."""
    usd_expected: float | None = None
    """Expected dollars of the calls; None unless a budget chose the share."""
    usd_max: float | None = None
    """Maximum dollars of the calls; None unless a budget chose the share."""
