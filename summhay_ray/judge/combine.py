"""Part of the judge room: two judges' verdicts made one, and which insights are least certain. Pure; from `summhay_ray.judge`.

Why: a judge that is free and one that is paid err in different places. The mean of both is closer to people than either, and
where the free one is certain, the paid one seldom says otherwise.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

from summhay_ray.judge.answer import usable_bullet
from summhay_ray.judge.base import Verdict
from summhay_ray.records import Coverage

JUDGE_WEIGHT = 0.4
"""What the judge's verdict counts for; the rest is the free one's. With the free judge fitted on the other topic, correlation
with people is no lower on either topic, for any stored judge, than at equal weights; over both, GPT-4o's is 0.817, not 0.810."""
PARTIAL_FROM = 0.35
FULL_FROM = 0.75
"""Least values that are called partial and full. Between none and partial the middle (0.25) would be too low: models see coverage
where people see none (paper, A.3). Measured in the same way with GPT-4o: labels agree with people's at 0.75 instead of 0.71 (its
own: 0.67), and their mean is 0.005 instead of 0.065 too high."""


def blend(judge: Verdict, offline: Verdict, weight: float = JUDGE_WEIGHT) -> Verdict:
    """The verdict between two: its value is the weighted mean of both expectations, `weight` (0..1) being the judge's.

    The label follows the value. The bullet is the judge's where it sees coverage and names one, else the other's; the label is
    NO_COVERAGE, with "NA", where the value is low or neither judge has a bullet to show. Uncertainty: the weighted mean of
    both, which never understates it however alike the two err; where only one tells its own, that one's.
    Raises ValueError for a weight outside of 0..1.
    """
    if not 0 <= weight <= 1:
        raise ValueError(f"the weight of the judge is {weight}; expected 0 to 1")
    value = weight * judge.expected + (1 - weight) * offline.expected
    weighted = [
        (part, verdict.uncertainty)
        for part, verdict in ((weight, judge), (1 - weight, offline))
        if verdict.uncertainty is not None
    ]
    total = math.fsum(part for part, _ in weighted)
    uncertainty = math.fsum(part / total * doubt for part, doubt in weighted) if total > 0 else None
    coverage, bullet = label_of(value), _bullet(judge, offline)
    if coverage == "NO_COVERAGE" or bullet is None:
        coverage, bullet = "NO_COVERAGE", '"NA"'
    return Verdict(coverage, bullet, value, uncertainty)


def label_of(value: float) -> Coverage:
    """The label of a blend's expected coverage (0..1)."""
    if value >= FULL_FROM:
        return "FULL_COVERAGE"
    return "PARTIAL_COVERAGE" if value >= PARTIAL_FROM else "NO_COVERAGE"


def least_certain(uncertainties: Sequence[float], share: float) -> set[int]:
    """The indices of the round(share * n) greatest uncertainties, the first of equals first.

    Raises ValueError for a share outside of 0..1 and for an uncertainty that is no number.
    """
    if not 0 <= share <= 1:
        raise ValueError(f"the share is {share}; expected 0 to 1")
    if any(math.isnan(uncertainty) for uncertainty in uncertainties):
        raise ValueError("an uncertainty is not a number; every insight needs one")
    order = sorted(range(len(uncertainties)), key=lambda index: (-uncertainties[index], index))
    return set(order[: round(share * len(uncertainties))])


def _bullet(judge: Verdict, offline: Verdict) -> str | None:
    """The blend's bullet id, None where neither judge names a bullet although neither contradicts itself."""
    covers = judge.coverage != "NO_COVERAGE"
    for named in ([judge.bullet_id] if covers else []), [offline.bullet_id]:
        if named and usable_bullet(named[0], sys.maxsize) is not None:
            return named[0]
    # Covered, by no bullet: that contradiction is the judge's, and stays for scoring to find.
    return judge.bullet_id if covers else None
