"""Choose the method and budget of the extracts for a judge: by the paper's rule, or from the Pareto front of cost and
correlation."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

SMALL = 1024
"""Maximum budget for the choice that the paper calls Pareto efficient (section 3.4, "under 1024"; 1024 is included)."""

DIGITS = 9

Rule = Literal["release", "front"]


@dataclass(frozen=True, slots=True)
class Cell:
    """Correlation and cost of judging extracts by one method and budget."""

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
    """Return (best cell, efficient cells). The best cell has the greatest Pearson + Spearman. Ties (to nine decimals) go to the
    cheaper cell, then to the earlier one. Cells with an undefined correlation are left out. Raises ValueError for an unknown
    rule.

    Rule `release` reproduces the paper's Table 2 from its Table 3, on the same pairs. The best cell must be an extract, not the
    full document (budget None). The efficient cell is the best one of at most 1024 tokens.

    Rule `front`: a cell is efficient if no other is better in both cost and Pearson + Spearman; the cheapest is listed first.
    Cost is `usd` if all cells have it, else the budget.
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
    """Return the Pareto front, cheapest first: each further cell costs more and has a higher Pearson + Spearman."""
    chosen: list[C] = []
    for cell in by_cost(cells):
        if not chosen or total(cell) > total(chosen[-1]):
            chosen.append(cell)
    return chosen


def total(cell: Any) -> float:
    """Return Pearson + Spearman, or NaN if one is undefined. It is rounded to nine decimals, so that float noise breaks no
    tie."""
    both = [_field(cell, name) for name in ("pearson", "spearman")]
    return math.nan if None in both else round(float(sum(both)), DIGITS)


def by_cost(cells: Sequence[C]) -> list[C]:
    """Sort cells by cost. Cells of equal cost are sorted by Pearson + Spearman, greatest first, then stay in the given order."""
    dollars = [_field(cell, "usd") for cell in cells]
    priced = all(usd is not None and math.isfinite(usd) for usd in dollars)
    costs = dollars if priced else [_field(cell, "budget") for cell in cells]
    known = [math.inf if cost is None else float(cost) for cost in costs]
    return [cells[place] for place in sorted(range(len(cells)), key=lambda place: (known[place], -total(cells[place])))]


def _field(cell: Any, name: str) -> Any:
    return cell.get(name) if isinstance(cell, Mapping) else getattr(cell, name, None)
