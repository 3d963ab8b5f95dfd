"""How much a model's score depends on where the relevant documents stand. Part of the metrics room."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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


def position_sensitivity(systems: Iterable[SystemScore]) -> list[PositionSensitivity]:
    """Section 5.4: the larger absolute difference in joint of top and bottom to the baseline, one row a model and judge.

    Models that were never shown a sorted haystack (retriever `full`, ordering top or bottom) have no row; a sensitivity that
    lacks one of the three scores is None, since a maximum over fewer conditions is another quantity. Sorted by model.
    """
    joint: dict[tuple[str, str], dict[str, float | None]] = {}
    for system in systems:
        if system.retriever == "full":
            joint.setdefault((system.model, system.judge), {})[system.ordering] = system.joint
    return [_row(model, judge, found) for (model, judge), found in sorted(joint.items()) if found.keys() & set(EXTREMES)]


def _row(model: str, judge: str, joint: dict[str, float | None]) -> PositionSensitivity:
    baseline = next((name for name in BASELINES if joint.get(name) is not None), "")
    middle, top, bottom = joint.get(baseline), joint.get("top"), joint.get("bottom")
    sensitivity = None
    if middle is not None and top is not None and bottom is not None:
        sensitivity = max(abs(top - middle), abs(bottom - middle))
    return PositionSensitivity(model, judge, baseline, middle, top, bottom, sensitivity)
