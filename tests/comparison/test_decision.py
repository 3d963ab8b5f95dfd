"""The choice of a system, from the pairs, the costs, and missing answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl
import pytest

from summhay_ray.benchmark import ByQuery
from summhay_ray.comparison import RunScores, SystemDecision, compare_runs

pytestmark = pytest.mark.core

HARD = [0.02 * (n % 5) for n in range(12)]
BEST = [0.60 + hard + 0.01 * (n % 3) for n, hard in enumerate(HARD)]
CLOSE = [0.58 + hard + 0.1 * (n % 2) - 0.05 for n, hard in enumerate(HARD)]
WORSE = [0.30 + hard + 0.02 * (n % 2) for n, hard in enumerate(HARD)]


def decided(
    systems: Mapping[str, Sequence[float | None]],
    costs: Mapping[str, float] | None = None,
    ceilings: Sequence[str] = (),
    limits: Sequence[str] = (),
    caveats: Sequence[str] = (),
) -> SystemDecision:
    rows = [
        {"system": name, "query": f"q{n:02}", "f1": value} for name, values in systems.items() for n, value in enumerate(values)
    ]
    by_query = ByQuery(pl.DataFrame(rows, infer_schema_length=None), {"f1": "%"}, ceilings=ceilings)
    return compare_runs([RunScores("r", by_query, costs=costs or {}, limits=limits, caveats=caveats)]).decision


def test_the_best_by_score_is_used_where_costs_are_unknown() -> None:
    found = decided({"best": BEST, "close": CLOSE, "worse": WORSE})
    assert (found.use, found.best, list(found.not_shown_worse), found.usd_per_query) == ("best", "best", ["close"], None)
    assert found.text.startswith(
        f"Use best (f1 {100 * sum(BEST) / 12:.1f} %). close is not shown to be worse. Its cost is not known."
    )
    assert "Confidence is limited by 12 queries of this collection only" in found.text and found.reasons == []


def test_the_cheapest_of_those_that_may_be_the_best_is_used_where_costs_are_known() -> None:
    costs = {"best": 0.02, "close": 0.002, "worse": 0.0}
    found = decided({"best": BEST, "close": CLOSE, "worse": WORSE}, costs)
    assert (found.use, found.best, list(found.not_shown_worse), found.usd_per_query) == ("close", "best", ["best"], 0.002)
    assert ", the cheapest of 2 systems that may be the best." in found.text and "It costs $0.002 a query." in found.text
    assert (
        f"The best by score is best (f1 {100 * sum(BEST) / 12:.1f} %, $0.02 a query); it is not shown to be better." in found.text
    )
    # One of the two costs is unknown, so nobody knows which is cheaper.
    assert decided({"best": BEST, "close": CLOSE, "worse": WORSE}, {"best": 0.02}).use == "best"


def test_a_system_that_sees_the_gold_is_no_choice() -> None:
    found = decided({"best": BEST, "close": CLOSE, "worse": WORSE}, ceilings=["best"])
    assert found.use == "close" and found.text.endswith("Not considered: 1 system that sees the gold documents.")
    alone = decided({"best": BEST, "gold": BEST}, ceilings=["gold"])
    assert alone.reasons == ["only best could be compared: there is no other"]
    # Without any other system, these are compared.
    assert decided({"best": BEST, "worse": WORSE}, ceilings=["best", "worse"]).use == "best"


@pytest.mark.parametrize(
    ("systems", "why", "more"),
    [
        ({"best": BEST[:4], "worse": WORSE[:4]}, "4 queries are too few to name a system", 2),
        ({"best": BEST, "close": CLOSE}, "neither of the 2 systems is shown to be better than the other", None),
        ({"best": BEST, "close": BEST}, "neither of the 2 systems is shown to be better than the other", 0),
        (
            {"best": BEST, "few": [*WORSE[:10], None, None]},
            "only best could be compared: the others lack more than a tenth of their answers",
            0,
        ),
        (
            {"few": [*BEST[:10], None, None], "one": [None, None, *BEST[2:]]},
            "every system lacks more than a tenth of its answers",
            0,
        ),
    ],
)
def test_no_system_is_named_where_nothing_is_shown(
    systems: Mapping[str, Sequence[float | None]], why: str, more: int | None
) -> None:
    found = decided(systems)
    assert (found.use, found.best, list(found.reasons)) == (None, None, [why])
    assert found.text.startswith(f"No decision: {why}.")
    if more is None:
        assert found.more_queries and f"About {found.more_queries:,} more queries may bring one." in found.text
    else:
        assert found.more_queries == (more or None)


def test_more_queries_are_no_help_where_pairs_are_not_compared() -> None:
    rows = [(name, f"q{n:02}", one) for name, scores in (("a", BEST), ("b", CLOSE), ("c", CLOSE)) for n, one in enumerate(scores)]
    scores = pl.DataFrame(rows, schema=["system", "query", "f1"], orient="row")
    found = compare_runs([RunScores("r", ByQuery(scores, {"f1": "%"}))], ("a", "*")).decision
    assert found.reasons == ["only 2 of 3 pairs of these systems are compared"] and found.more_queries is None


def test_a_reason_from_outside_stops_a_decision() -> None:
    found = decided({"best": BEST, "worse": WORSE}, limits=["the haystack has no review"])
    assert found.use is None and found.text.startswith("No decision: the haystack has no review.")


def test_a_caveat_limits_the_confidence_and_stops_no_decision() -> None:
    found = decided({"best": BEST, "worse": WORSE}, caveats=["gold documents that nobody has checked"])
    assert found.use == "best" and "gold documents that nobody has checked" in found.limits
    assert found.text.endswith("gold documents that nobody has checked.")
