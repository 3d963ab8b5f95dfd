"""Usage above what was reserved: who may not be asked any more, and what a person is told. Part of the llm room.

Such a usage is not credible: the reservation is charged in its place. It stands as long as the model's `token_margin` would not
have reserved as much, whichever worker or start it came in: the log keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from summhay_ray.outcome import MICROS
from summhay_ray.store import Excess

MOST_EXCESSES = 3
"""So many answers above their reservation stop a model,"""

FAR = 2.0
"""and one that claims more than so many times of it."""

USAGE_NOT_CREDIBLE = "usage_not_credible"
"""Class of the failures of a model that was stopped for it."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What one model's answers claim above what was reserved for them, added up."""

    model: str
    answers: int
    claimed_tokens: int
    charged_tokens: int
    claimed_usd: float
    charged_usd: float
    token_margin: float
    """What the model's entry would have to say for all of them to be credible."""
    stopped: bool
    """Whether they are too many, or one of them too much, for the model to be asked any more."""

    def __str__(self) -> str:
        which = "1 answer claims" if self.answers == 1 else f"{self.answers} answers claim"
        claimed, charged = _told(self.claimed_tokens, self.claimed_usd), _told(self.charged_tokens, self.charged_usd)
        mend = f"if it really counts so, write token_margin: {self.token_margin:.12g} beside the model, else use another provider"
        return f"{which} {claimed}, more than was reserved: {charged} are charged; {mend}"


class Doubts:
    """What the models of one run claim above their reservations, each answer once; `margins`: model -> its `token_margin`."""

    def __init__(self, margins: Mapping[str, float]) -> None:
        self._margins = dict(margins)
        self._found: dict[str, Excess] = {}

    def note(self, excesses: Mapping[str, Excess]) -> list[tuple[str, str]]:
        """Take in answers by their keys; gives the models that they stop, each with the reason."""
        new = excesses.keys() - self._found.keys()
        self._found.update((key, excesses[key]) for key in new)
        return [(one.model, str(one)) for one in self.claims() if one.stopped] if new else []

    def claims(self) -> list[Claims]:
        """What stands against each model."""
        return claims_of(self._found.values(), self._margins)


def claims_of(excesses: Iterable[Excess], margins: Mapping[str, float]) -> list[Claims]:
    """Of each model the claims that stand against its `token_margin` (1 where none is given), in the models' order."""
    found: dict[str, list[Excess]] = {}
    for one in excesses:
        if one.margin > margins.get(one.model, 1.0):
            found.setdefault(one.model, []).append(one)
    return [_added(model, found[model], margins.get(model, 1.0)) for model in sorted(found)]


def margins_of(settings: Mapping[str, Any]) -> dict[str, float]:
    """Model -> its `token_margin`, of those that have one."""
    return {model: one.token_margin for model, one in settings.items() if one.token_margin > 1}


def enough(margin: float) -> float:
    """A `token_margin` for a person to write: a hundredth more than `margin`, since reservations are rounded."""
    return math.ceil(margin * 101) / 100


def _added(model: str, excesses: list[Excess], margin: float) -> Claims:
    largest = max(one.margin for one in excesses)
    return Claims(
        model=model,
        answers=len(excesses),
        claimed_tokens=sum(one.claimed_tokens for one in excesses),
        charged_tokens=sum(one.charged_tokens for one in excesses),
        claimed_usd=sum(one.claimed_micros for one in excesses) / MICROS,
        charged_usd=sum(one.charged_micros for one in excesses) / MICROS,
        token_margin=enough(largest),
        stopped=largest > FAR * margin or len(excesses) >= MOST_EXCESSES,
    )


def _told(tokens: int, usd: float) -> str:
    return f"{tokens:,} tokens" + (f" for {usd:.6f} dollars" if usd else "")
