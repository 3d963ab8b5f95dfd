"""Which method and budget to judge with: by the paper's rule, or as a front of cost and correlation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

SMALL = 1024
"""The budget up to which the paper calls its choice Pareto efficient (section 3.4, "under 1024": 1024 is included)."""

DIGITS = 9

Rule = Literal["release", "front"]


@dataclass(frozen=True, slots=True)
class Cell:
    """What judging by extracts of one method and budget comes to."""

    method: str
    budget: int | None
    """Tokens of the extract; None for the full document."""
    pearson: float | None
    spearman: float | None
    usd: float | None = None
    """Dollars a pair, where known."""


C = TypeVar("C")
"""Anything with the fields of `Cell`, or a mapping of them."""


def choose(cells: Iterable[C], rule: Rule = "release") -> tuple[C | None, Any]:
    """The best cell, and what is efficient beside it.

    `release`: best is the greatest Pearson + Spearman, and efficient the greatest up to 1024 tokens: the rule that gives all
    entries of the paper's Table 2 from its Table 3, chosen on the very pairs that are reported; the full document (budget None)
    does not count. `front`: efficient is the list of cells that no other beats in both cost and Pearson + Spearman, cheapest
    first; cost is `usd` where all cells have it, else the budget. Of equals (to nine digits) the cheaper counts, then the first;
    a cell whose correlation is undefined (None, NaN) is left out. Raises ValueError for another rule.
    """
    known = [cell for cell in cells if _number(_of(cell, "pearson")) and _number(_of(cell, "spearman"))]
    if rule == "release":
        extracts = [cell for cell in known if _of(cell, "budget") is not None]
        return _best(extracts), _best([cell for cell in extracts if _of(cell, "budget") <= SMALL])
    if rule == "front":
        return _best(known), front(known)
    raise ValueError(f"rule is {rule!r}; expected release or front")


def front(cells: Sequence[C]) -> list[C]:
    """The cells that none beats: none is cheaper with as high a correlation, or as cheap with a higher one."""
    priced = _priced(cells)
    found: list[C] = []
    for cell in sorted(cells, key=lambda cell: (_cost(cell, priced), -total(cell))):
        if not found or total(cell) > total(found[-1]):
            found.append(cell)
    return found


def total(cell: Any) -> float:
    """Pearson + Spearman, without what sums of equal figures differ by in their last digits."""
    return round(float(_of(cell, "pearson") + _of(cell, "spearman")), DIGITS)


def _best(cells: Sequence[C]) -> C | None:
    priced = _priced(cells)
    return max(cells, key=lambda cell: (total(cell), -_cost(cell, priced)), default=None)


def _priced(cells: Sequence[Any]) -> bool:
    return all(_number(_of(cell, "usd")) for cell in cells)


def _number(value: Any) -> bool:
    return value is not None and math.isfinite(value)


def _cost(cell: Any, priced: bool) -> float:
    cost = _of(cell, "usd") if priced else _of(cell, "budget")
    return float("inf") if cost is None else float(cost)


def _of(cell: Any, name: str) -> Any:
    return cell.get(name) if isinstance(cell, Mapping) else getattr(cell, name, None)
