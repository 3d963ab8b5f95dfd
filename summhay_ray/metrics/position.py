"""How much a model's score depends on where the relevant documents stand. Part of the metrics room."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from summhay_ray.metrics.systems import SystemScore

BASELINES = ("random", "given")
EXTREMES = ("top", "bottom")


@dataclass(frozen=True, slots=True)
class PositionSensitivity:
    """One row of Table 3: joint scores in the full context by ordering, fractions, None where there is no such score.

    `baseline` names the ordering that top and bottom are held against: `random`, or `given` (the one arbitrary order of the
    haystack, which the paper's Table 3 calls Random) where there is no random one; empty where there is neither.
    """

    model: str
    judge: str
    baseline: str
    baseline_joint: float | None
    top: float | None
    bottom: float | None
    sensitivity: float | None
    n: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """top, bottom, baseline -> insights scored, and expected, where there is such a system."""

    @property
    def n_scored(self) -> int:
        """Insights scored behind the row."""
        return sum(scored for scored, _ in self.n.values())

    @property
    def n_expected(self) -> int:
        """Insights expected behind the row."""
        return sum(expected for _, expected in self.n.values())


def position_sensitivity(systems: Iterable[SystemScore]) -> list[PositionSensitivity]:
    """Section 5.4: the larger absolute difference in joint of top and bottom to the baseline, one row a model and judge.

    Models that were never shown a sorted haystack (retriever `full`, ordering top or bottom) have no row; a sensitivity that
    lacks one of the three scores is None, since a maximum over fewer conditions is another quantity. Sorted by model.
    """
    found: dict[tuple[str, str], dict[str, SystemScore]] = {}
    for system in systems:
        if system.retriever == "full":
            found.setdefault((system.model, system.judge), {})[system.ordering] = system
    return [_row(model, judge, mine) for (model, judge), mine in sorted(found.items()) if mine.keys() & set(EXTREMES)]


def _row(model: str, judge: str, found: Mapping[str, SystemScore]) -> PositionSensitivity:
    joint = {name: one.joint for name, one in found.items()}
    baseline = next((name for name in BASELINES if joint.get(name) is not None), "")
    middle, top, bottom = joint.get(baseline), joint.get("top"), joint.get("bottom")
    sensitivity = None
    if middle is not None and top is not None and bottom is not None:
        sensitivity = max(abs(top - middle), abs(bottom - middle))
    places = {"top": "top", "bottom": "bottom", "baseline": baseline}
    n = {place: (found[name].n_scored, found[name].n_expected) for place, name in places.items() if name in found}
    return PositionSensitivity(model, judge, baseline, middle, top, bottom, sensitivity, n)
