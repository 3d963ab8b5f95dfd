"""Choose the method and budget to judge with: by the paper's rule, or from the Pareto front of cost and correlation."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

SMALL = 1024
"""The largest budget of the choice that the paper calls Pareto efficient (section 3.4, "under 1024"; 1024 is included)."""

DIGITS = 9

Rule = Literal["release", "front"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Correlation and cost of judging by the extracts of one method and budget."""

    method: str
    budget: int | None
    """Tokens of the extract; None for the full document."""
    pearson: float | None
    spearman: float | None
    usd: float | None = None
    """Dollars per pair; None: unknown."""


C = TypeVar("C")
"""Anything with the fields of `Cell`, or a mapping of them."""


def choose(cells: Iterable[C], rule: Rule = "release") -> tuple[C | None, Any]:
    """(Best cell, efficient cells): best has the greatest Pearson + Spearman; `rule` says what is efficient. Ties (to nine
    decimals) go to the cheaper cell, then to the first. Cells with an undefined correlation are left out. Raises ValueError for
    another rule.

    `release`: best is taken among extracts only (not the full document, budget None); efficient is the best cell of at most 1024
    tokens: the paper's Table 2 from its Table 3, on the same pairs. `front`: efficient are the cells that no other beats in both
    cost (`usd`, or the budget unless all have it) and Pearson + Spearman, cheapest first.
    """
    known = [cell for cell in cells if math.isfinite(total(cell))]
    if rule == "release":
        extracts = [cell for cell in known if _field(cell, "budget") is not None]
        small = [cell for cell in extracts if _field(cell, "budget") <= SMALL]
        return max(by_cost(extracts), key=total, default=None), max(by_cost(small), key=total, default=None)
    if rule == "front":
        return max(by_cost(known), key=total, default=None), front(known)
    raise ValueError(f"rule is {rule!r}; expected release or front")


def front(cells: Sequence[C]) -> list[C]:
    """The Pareto front, cheapest first: each further cell costs more and has a higher Pearson + Spearman."""
    chosen: list[C] = []
    for cell in by_cost(cells):
        if not chosen or total(cell) > total(chosen[-1]):
            chosen.append(cell)
    return chosen


def total(cell: Any) -> float:
    """Pearson + Spearman, rounded to nine decimals so that float noise breaks no tie; NaN if one of them is undefined."""
    both = [_field(cell, name) for name in ("pearson", "spearman")]
    return math.nan if None in both else round(float(sum(both)), DIGITS)


def by_cost(cells: Sequence[C]) -> list[C]:
    """The cells, cheapest first; among equal ones, by the greater Pearson + Spearman, then in the given order."""
    dollars = [_field(cell, "usd") for cell in cells]
    priced = all(usd is not None and math.isfinite(usd) for usd in dollars)
    costs = dollars if priced else [_field(cell, "budget") for cell in cells]
    known = [math.inf if cost is None else float(cost) for cost in costs]
    return [cells[place] for place in sorted(range(len(cells)), key=lambda place: (known[place], -total(cells[place])))]


def _field(cell: Any, name: str) -> Any:
    return cell.get(name) if isinstance(cell, Mapping) else getattr(cell, name, None)
