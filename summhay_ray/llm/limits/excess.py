"""Reported usage above the reservation: which models it stops, and the message to the user.

Such usage is not credible, and the reservation is charged instead. The log records it, so that it counts against the model in
every worker and after every restart, until the model's `token_margin` is large enough to cover it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from summhay_ray.outcome import MICROS
from summhay_ray.store import Excess

MOST_EXCESSES = 3
"""This many answers above their reservations stop a model."""

FAR = 2.0
"""A single answer that reports more than this many times its reservation stops a model, too."""

USAGE_NOT_CREDIBLE = "usage_not_credible"
"""Class of the failures of a model that was stopped for such usage."""


@dataclass(frozen=True, slots=True)
class ExcessTotals:
    """The totals of one model's answers whose reported usage exceeds their reservations."""

    model: str
    answers: int
    claimed_tokens: int
    charged_tokens: int
    claimed_usd: float
    charged_usd: float
    token_margin: float
    """The smallest `token_margin` with which all of them would be credible."""
    stopped: bool
    """Whether the model is stopped: there are too many such answers, or one exceeds its reservation by too much."""

    def __str__(self) -> str:
        which = "1 answer claims" if self.answers == 1 else f"{self.answers} answers claim"
        claimed, charged = _amount(self.claimed_tokens, self.claimed_usd), _amount(self.charged_tokens, self.charged_usd)
        mend = (
            f"if that is its real count, write token_margin: {self.token_margin:.12g} beside the model, else use another provider"
        )
        return f"{which} {claimed}, more than was reserved: {charged} are charged; {mend}"


def excess_totals(excesses: Iterable[Excess], margins: Mapping[str, float]) -> list[ExcessTotals]:
    """The totals of each model, sorted by model. Answers that the model's `token_margin` (1 if absent) covers are left out."""
    by_model: dict[str, list[Excess]] = {}
    for excess in excesses:
        if excess.token_margin > margins.get(excess.model, 1.0):
            by_model.setdefault(excess.model, []).append(excess)
    return [_totals(model, by_model[model], margins.get(model, 1.0)) for model in sorted(by_model)]


def margins_of(settings: Mapping[str, Any]) -> dict[str, float]:
    """Model -> its `token_margin`, for the models that have one above 1."""
    return {model: entry.token_margin for model, entry in settings.items() if entry.token_margin > 1}


def enough(margin: float) -> float:
    """The `token_margin` to suggest: `margin` plus 1 %, rounded up to two decimals, since reservations are rounded."""
    return math.ceil(margin * 101) / 100


def _totals(model: str, excesses: list[Excess], margin: float) -> ExcessTotals:
    largest = max(excess.token_margin for excess in excesses)
    return ExcessTotals(
        model=model,
        answers=len(excesses),
        claimed_tokens=sum(excess.claimed_tokens for excess in excesses),
        charged_tokens=sum(excess.charged_tokens for excess in excesses),
        claimed_usd=sum(excess.claimed_micros for excess in excesses) / MICROS,
        charged_usd=sum(excess.charged_micros for excess in excesses) / MICROS,
        token_margin=enough(largest),
        stopped=largest > FAR * margin or len(excesses) >= MOST_EXCESSES,
    )


def _amount(tokens: int, usd: float) -> str:
    return f"{tokens:,} tokens" + (f" for {usd:.6f} dollars" if usd else "")
