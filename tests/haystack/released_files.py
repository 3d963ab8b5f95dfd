"""Released files for tests: a small one by hand, and any number that hypothesis draws."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

GPT = "summary_subtopic_gpt-4o"
KEYWORDS = "summary_subtopic_keywords_gpt-4o"


def small_file() -> dict[str, Any]:
    """Two subtopics with two insights and one; three documents; two systems, one of which the second subtopic lacks."""
    return {
        "topic_id": "t",
        "topic": "Three students before an exam",
        "topic_metadata": {"participants": ["Ann", "Ben"]},
        "subtopics": [
            {
                "subtopic_id": "s1",
                "subtopic_name": "stress",
                "subtopic": "Managing stress",
                "query": "How is stress managed?",
                "insights": [
                    {"insight_id": "i1", "insight_name": "breaks", "insight": "Five minutes of break after 25 of work"},
                    {"insight_id": "i2", "insight": "A walk of 30 minutes"},
                ],
                "retriever": {"keywords": {"d1": 0.5, "d2": 1, "d3": 0.25, "gone": 4}, "my/own_one": {"d1": 2.5}},
                "summaries": {GPT: ["Here they are:", "Breaks [1][2]."], KEYWORDS: ["Walks [3]."]},
                "eval_summaries": {
                    GPT: [
                        {"coverage": "FULL_COVERAGE", "bullet_id": 2, "insight_id": "i1"},
                        {"coverage": "NO_COVERAGE", "bullet_id": "NA", "insight_id": "i2"},
                    ],
                    KEYWORDS: [{"coverage": "PARTIAL_COVERAGE", "bullet_id": "1", "insight_id": "i2"}],
                },
            },
            {
                "subtopic_id": "s2",
                "subtopic": "Learning together",
                "query": "Who learns with whom?",
                "insights": [{"insight_id": "i3", "insight": "Ann quizzes Ben on Sundays"}],
                "summaries": {GPT: ["Ann and Ben [3]."]},
            },
        ],
        "documents": [
            {"document_id": "d1", "document_text": "Ann: breaks!", "insights_included": ["i1"], "idx": 0},
            {"document_id": "d2", "document_text": "", "insights_included": ["i1", "i2", "i1"], "label_s1": 1},
            {"document_id": "d3", "document_text": "Ben:\x00 \u202e<|endoftext|>", "insights_included": ["i3"]},
        ],
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
TEXT = st.text(max_size=12)
COVERAGE = st.sampled_from(["FULL_COVERAGE", "PARTIAL_COVERAGE", "NO_COVERAGE", "fully_covered", "not_covered", "odd"])


def _with_unknown_fields(draw: st.DrawFn, known: dict[str, Any]) -> dict[str, Any]:
    unknown = draw(st.dictionaries(st.text(max_size=6).map("x_{}".format), JSON, max_size=2))
    pairs = draw(st.permutations([*unknown.items(), *known.items()]))
    return dict(pairs)


@st.composite
def released_files(draw: st.DrawFn) -> dict[str, Any]:
    """Any file that is to be accepted, with unknown fields in every object and optional ones present or not."""
    counts = draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    document_ids = draw(st.lists(st.text(min_size=1, max_size=6), min_size=1, max_size=4, unique=True))
    names = [f"i{number}" for number in range(sum(counts))]
    included = st.lists(st.sampled_from(names), max_size=4) if names else st.just([])
    documents = [
        _with_unknown_fields(draw, {"document_id": one, "document_text": draw(TEXT), "insights_included": draw(included)})
        for one in document_ids
    ]
    subtopics = []
    for place, count in enumerate(counts):
        own = [names.pop() for _ in range(count)]
        insights = [_with_unknown_fields(draw, {"insight_id": one, "insight": draw(TEXT)}) for one in own]
        known = {"subtopic_id": f"s{place}", "subtopic": draw(TEXT), "query": draw(TEXT), "insights": insights}
        known |= draw(_answers(own, document_ids))
        subtopics.append(_with_unknown_fields(draw, known))
    return _with_unknown_fields(draw, {"topic": draw(TEXT), "subtopics": subtopics, "documents": documents})


@st.composite
def _answers(draw: st.DrawFn, insight_ids: list[str], document_ids: list[str]) -> dict[str, Any]:
    systems = draw(st.lists(st.sampled_from([GPT, KEYWORDS, "summary_subtopic_fl-ctxt-sort_m", "bare", "_#2"]), unique=True))
    found: dict[str, Any] = {}
    if draw(st.booleans()):
        scores = st.dictionaries(st.sampled_from([*document_ids, "gone"]), st.floats(-9, 9) | st.integers(0, 5))
        found["retriever"] = draw(st.dictionaries(st.sampled_from(["keywords", "a/b_c", ""]), scores, max_size=2))
    if draw(st.booleans()):
        found["summaries"] = {system: draw(st.lists(TEXT, max_size=3)) for system in systems}
    if draw(st.booleans()) and insight_ids:
        judged = {"coverage": COVERAGE, "insight_id": st.sampled_from(insight_ids)}
        label = st.fixed_dictionaries(judged, optional={"bullet_id": JSON})
        found["eval_summaries"] = {system: draw(st.lists(label, max_size=3)) for system in systems}
    return found
