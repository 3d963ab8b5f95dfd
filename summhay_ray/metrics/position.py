"""Position sensitivity (Table 3): how a model's score depends on the position of the relevant documents."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from summhay_ray.metrics.scores_by_system import SystemScore

BASELINES = ("random", "given")
EXTREMES = ("top", "bottom")


@dataclass(frozen=True, slots=True)
class PositionSensitivity:
    """One row of Table 3: joint scores in the full context by ordering, as fractions. A score that does not exist is None.

    `baseline`: `random`, else `given` (the haystack's own order, which Table 3 calls Random); empty without either.
    """

    model: str
    judge: str
    baseline: str
    baseline_joint: float | None
    top: float | None
    bottom: float | None
    sensitivity: float | None
    n: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """top, bottom, baseline -> (insights scored, insights expected), for each such system."""

    @property
    def n_scored(self) -> int:
        return sum(scored for scored, _ in self.n.values())

    @property
    def n_expected(self) -> int:
        return sum(expected for _, expected in self.n.values())


def position_sensitivity(systems: Iterable[SystemScore]) -> list[PositionSensitivity]:
    """Return one row per model and judge: the larger of |top - baseline| and |bottom - baseline| in joint (section 5.4), or
    None if one of the three is missing.

    Models without a sorted haystack (`full`, ordering top or bottom) have no row. Rows are sorted by model; a model's judges
    are in the order of `systems`.
    """
    found: dict[tuple[str, str], dict[str, SystemScore]] = {}
    for system in systems:
        if system.retriever == "full":
            found.setdefault((system.model, system.judge), {})[system.ordering] = system
    return [
        _row(model, judge, mine)
        for (model, judge), mine in sorted(found.items(), key=lambda one: one[0][0])
        if mine.keys() & set(EXTREMES)
    ]


def _row(model: str, judge: str, found: Mapping[str, SystemScore]) -> PositionSensitivity:
    joint = {name: score.joint for name, score in found.items()}
    baseline = next((name for name in BASELINES if joint.get(name) is not None), "")
    middle, top, bottom = joint.get(baseline), joint.get("top"), joint.get("bottom")
    sensitivity = None
    if middle is not None and top is not None and bottom is not None:
        sensitivity = max(abs(top - middle), abs(bottom - middle))
    places = {"top": "top", "bottom": "bottom", "baseline": baseline}
    n = {place: (found[name].n_scored, found[name].n_expected) for place, name in places.items() if name in found}
    return PositionSensitivity(model, judge, baseline, middle, top, bottom, sensitivity, n)
