"""Makes the simulated provider's summaries worse by model, so that the systems of a rehearsal differ.

A model of quality 0.4 gives 40 % of the statements that the best model gives to the same prompt, and cites 40 % of their
documents. The statements alone decide which are left out, so a better model gives all statements of a worse one.
"""

import re

from summhay_ray.errors import UserError
from summhay_ray.simulator.faults import uniform
from summhay_ray.text import sentences

SPREAD = "spread"
"""The entry that draws each model's share from its name."""
_WORST = 0.3
"""Lowest share that is drawn from a name."""
_CITATION = re.compile(r"\[(\d+)\]")
_EXPECTED = f"expected a share from 0 to 1, MODEL=SHARE,... as in big=0.9,small=0.4, or {SPREAD}"


class Quality:
    """The shares of statements and citations that models give. Models that are not named give all of them."""

    def __init__(self, text: str = "") -> None:
        """Parse entries separated by commas: MODEL=SHARE, a SHARE for all other models, or `spread`. Raise UserError."""
        self._shares: dict[str, float] = {}
        self._spread = False
        for entry in filter(None, map(str.strip, text.split(","))):
            if entry == SPREAD:
                self._spread = True
                continue
            model, _, share = entry.rpartition("=")
            try:
                self._shares[model.strip()] = float(share)
            except ValueError:
                raise UserError(f"quality {entry!r} cannot be read; {_EXPECTED}") from None
            if not 0 <= self._shares[model.strip()] <= 1:
                raise UserError(f"quality {entry!r} is not a share; {_EXPECTED}")
        # Requests contain the model's name without its provider.
        self._shares |= {name.partition("/")[2]: share for name, share in self._shares.items() if "/" in name}

    def share(self, model: str) -> float:
        """Return the share of a model, by its name in a request."""
        drawn = _WORST + (1 - _WORST) * uniform(1, SPREAD, model)[0] if self._spread else 1.0
        return self._shares.get(model, self._shares.get("", drawn))

    def reduce(self, model: str, summary: str) -> str:
        """Reduce a summary to the model's share of its lines (or sentences, if it is one line), and of their citations.

        At least one line remains, since an empty answer would be a failure.
        """
        share = self.share(model)
        if share == 1 or not summary.strip():
            return summary
        lines = list(filter(str.strip, summary.splitlines()))
        parts, separator = (lines, "\n") if len(lines) > 1 else (list(sentences(summary)), " ")
        in_order = sorted(range(len(parts)), key=lambda place: uniform(1, parts[place]))
        kept = sorted(in_order[: max(1, int(share * len(parts) + 0.5))])
        return separator.join(_with_citations(parts[place], share) for place in kept)


def _with_citations(part: str, share: float) -> str:
    """Return the part with a share of its citations, drawn from its text and the cited numbers."""
    return _CITATION.sub(lambda match: match[0] if uniform(1, part, match[1])[0] < share else "", part).rstrip()
