"""What a cascade asks about, as people are told of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Choice:
    """What a cascade asks about, and what it leaves to the free judge."""

    judge: str
    share: float
    n_asked: int
    n: int
    """Insights that the free judge judged."""
    uncertainty_asked: float | None
    """Mean uncertainty (standard deviation of the expected coverage, 0..1) of the insights that are asked about."""
    uncertainty_left: float | None
    """The same of those that are not: what is given up."""
    by_budget: bool = False
    """Whether the share is the greatest that the budget surely pays for."""
    usd_expected: float | None = None
    usd_max: float | None = None
    """Dollars of the calls, where the budget chose them."""
