"""Whether a haystack can decide: the warnings about it, and the minimum below which no winner is named."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from summhay_ray.haystack import HaystackFacts, facts_of, haystack_id_of, health, load_sample

pytestmark = pytest.mark.core

FACTS = HaystackFacts(run="m0", insights=30, like_metadata=2, example="## Agenda", seen=0)


def test_many_haystacks_share_a_sentence() -> None:
    found = health([(f"h{n}", FACTS) for n in range(5)], 30)
    [said] = found.lines()
    assert said.startswith("h0, h1, h2 and 2 more: nobody has looked at these 5 haystacks")
    assert found.caveats == ("the gold documents of h0, h1, h2 and 2 more, of which people have checked fewer than 10 each",)


@pytest.mark.parametrize(
    "text",
    [
        "uuid: 00b7f759-21f8-4f0e-9d3e-0f5a2c1b7d11",
        "end_time: 2021-07-22 10:00",
        "2019-12-04 03:00 | Solution completed, handed over to the team |",
        "Ann Example @annex (Guest - CPC rep)",
        "EC RF SD MN SC AN AF SP",
        "## Decisions of the second meeting about the harbour",
        "Attendees: Ann, Bob, Carl",
        "[Allow more values in the header](https://example.org/pull/12)",
    ],
)
def test_what_is_no_statement_looks_like_metadata(text: str) -> None:
    raw = mined(
        [
            text,
            "The depot in Velden was flooded to 1.9 metres.",
            "Node 16 was released.",
            "\u5730\u9707\u304c\u767a\u751f\u3057\u305f\u3002",
        ]
    )
    facts = facts_of(raw)
    assert facts is not None and (facts.like_metadata, facts.example, facts.insights) == (1, text[:60], 4)


def mined(texts: list[str], **made: Any) -> dict[str, Any]:
    """A mined haystack with these insights."""
    insights = [{"insight_id": str(number), "insight": text} for number, text in enumerate(texts)]
    subtopic = {"subtopic_id": "s", "subtopic": "all", "query": "What?", "insights": insights}
    return {"topic": "t", "topic_metadata": {"mine": {"run": "m0", **made}}, "subtopics": [subtopic], "documents": []}


def test_planted_insights_are_statements_and_need_nobody_to_look_at_them() -> None:
    raw = load_sample("news")
    assert facts_of(raw) is None
    facts = facts_of({**raw, "topic_metadata": {"mine": {"run": "m0"}}})
    assert facts is not None and facts.insights > 10 and facts.like_metadata == 0
    assert health([("news", None)], 6, oracle=0.01).lines() == []


@pytest.mark.parametrize(
    ("change", "n_queries", "oracle", "limits", "doubts"),
    [
        ({}, 6, 0.1, [], ["nobody has looked"]),
        ({}, 5, None, ["5 queries are too few"], ["nobody has looked"]),
        ({}, 6, 0.099, ["joint score of 9.9 %"], ["nobody has looked"]),
        ({"pairs": 74}, 6, None, [], ["30 insights have 2.5 documents each on average", "nobody has looked"]),
        ({"pairs": 75}, 6, None, [], ["nobody has looked"]),
        ({"seen": 3}, 6, None, [], ["people decided about 3 of 30 insights"]),
        ({"like_metadata": 3}, 6, None, [], ["3 of 30 insights look like metadata", "nobody has looked"]),
        ({"like_metadata": 10}, 6, None, ["10 of 30 insights look like metadata"], ["nobody has looked"]),
        ({"checked": 20, "right": 15}, 6, None, [], ["15 of 20 checked pairs"]),
        ({"checked": 20, "right": 14}, 6, None, ["14 of 20 checked pairs"], []),
        ({"checked": 9, "right": 0}, 6, None, [], ["at least 10 are needed"]),
        ({"checked": 20, "right": 20, "judged": 10, "agreed": 7}, 6, None, [], ["20 of 20", "labels"]),
        ({"checked": 20, "right": 20, "judged": 9, "agreed": 0}, 6, None, [], ["20 of 20"]),
    ],
)
def test_below_a_minimum_no_winner_is_named(
    change: dict[str, int], n_queries: int, oracle: float | None, limits: list[str], doubts: list[str]
) -> None:
    found = health([("mine", replace(FACTS, **change))], n_queries, oracle, "offline/judge")
    for lines, said in ((found.limits, limits), (found.doubts, doubts)):
        assert len(lines) == len(said) and all(part in line for part, line in zip(said, lines, strict=True))
    assert all("no winner is named" in line for line in found.limits)


def test_the_checks_of_people_do_not_change_a_haystacks_identity() -> None:
    plain = mined(["A statement of some length."])
    said = mined(["A statement of some length."], review={"seen": 1}, check={"checked": 2, "right": 1})
    assert haystack_id_of(plain) == haystack_id_of(said) != haystack_id_of(mined(["Another statement of that length."]))
