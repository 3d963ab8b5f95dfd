"""`offline/writer` with the prompts of the pipeline: outlines, documents at every paraphrase level, edits, and refusals."""

from __future__ import annotations

import json
import re
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writer_asking import PEOPLE, TOPIC, ask, listed, outline, prompt_of, say

from summhay_ray.llm import Request
from summhay_ray.synth import OfflineWriter
from summhay_ray.synth.checking.copies import near_copies
from summhay_ray.synth.checking.outline_checks import leak, overlap, refers, same_insight, specific
from summhay_ray.synth.checking.presence import Presence
from summhay_ray.synth.checking.words import read
from summhay_ray.text import sentences

pytestmark = pytest.mark.core

DOMAINS = ("conversation", "news", "product_reviews", "incident_reports", "recipes")
"""The four shipped domains, and one of a user's own."""
NUMBER = re.compile(r"\d[\d.,]*\d|\d")


def write(domain: str, insights: tuple[str, ...], **fields: Any) -> str:
    given = {"words": 300, "participants": PEOPLE if domain == "conversation" else (), "paraphrase": 1, **fields}
    return say("document", domain=domain, insights=listed(insights), **given)


def held(text: str, insights: tuple[str, ...]) -> list[str]:
    return [one for one, finding in zip(insights, Presence(insights).find(text), strict=True) if finding.found]


@pytest.mark.parametrize(
    "domain", [pytest.param(name, marks=[] if name in ("news", "conversation") else pytest.mark.soak) for name in DOMAINS]
)
def test_an_outline_is_distinct_and_specific_and_its_queries_give_nothing_away(domain: str) -> None:
    found = outline(domain, 30, 6)
    own = [set(read(subtopic).roots) - set(read(f"with regard to {TOPIC}").roots) for subtopic in found]
    assert len(found) == 30 and all(one.isdisjoint(other) for one, other in combinations(own, 2))
    insights = [text for texts in found.values() for text in texts]
    assert len(insights) == 180 and all(specific(text).found and len(NUMBER.findall(text)) >= 2 for text in insights)
    assert not [pair for pair in combinations(insights, 2) if same_insight(*pair).found]
    later = [one["subtopic"] for one in ask("subtopics", domain=domain, n=4, avoid=listed(list(found)[:5]))["subtopics"]]
    shared = [sum(bool(set(read(one).roots) & roots) for roots in own[:5]) for one in later]
    assert shared == [1, 1, 1, 1], "those that distract are near, and yet distinct"
    assert not [one for one in later for other in list(found)[:5] if overlap(one, other, TOPIC).found]
    for subtopic, texts in found.items():
        query = ask("query", domain=domain, subtopic=subtopic, avoid=texts)["query"]
        assert query.endswith("?") and set(read(subtopic).roots) <= set(read(query).roots)
        assert not [text for text in insights if leak(query, text, f"{subtopic} {TOPIC}").found]


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("domain", DOMAINS)
def test_a_document_states_its_insights_in_other_words_and_no_others(domain: str, level: int) -> None:
    insights = tuple(text for texts in outline(domain, 5, 4).values() for text in texts)
    said, verbatim, several = 0, 0, 0
    for number in range(8):
        inside = insights[2 * number : 2 * number + 4]
        text = write(domain, inside, paraphrase=level, number=number, avoid=insights[:2])
        assert held(text, insights) == list(inside) and 270 <= len(text.split()) <= 330
        spoken = {line.partition(": ")[0] for line in text.splitlines()}
        assert (spoken == set(PEOPLE)) == (domain == "conversation")
        evidence = [finding.evidence for finding in Presence(inside).find(text)]
        said, verbatim = said + len(inside), verbatim + sum(one in text for one in inside)
        several += sum(len(sentences(words)) > 1 for words in evidence)
    assert (verbatim == said) == (level == 0) and (level in (1, 2) or several == (level == 3) * said), (verbatim, several, said)
    assert level == 0 or verbatim < 0.1 * said


def test_documents_that_state_the_same_are_no_copies_and_name_what_they_refer_to() -> None:
    [insight, *_] = outline("news")[next(iter(outline("news")))]
    references = [{"date": "2024-03-03", "headline": "x"}]
    texts = [write("news", (insight,), number=number, date="2025-05-06", references=references) for number in range(300)]
    assert near_copies({str(number): text for number, text in enumerate(texts)}) == []
    assert all(refers((text, text), date, "", TOPIC).found for text in texts[:20] for date in ("2024-03-03", "2025-05-06"))


def test_an_edit_changes_what_it_is_asked_to_and_nothing_else() -> None:
    insights = tuple(text for texts in outline("conversation").values() for text in texts)[:4]
    for level in range(4):
        text = write("conversation", insights[:3], paraphrase=level)
        fields = {"document": text, "participants": PEOPLE, "paraphrase": level, "domain": "conversation"}
        evidence = Presence(insights).find(text)[0].evidence
        for shown in (evidence, ""):
            remove = [{"id": 1, "text": insights[0], "evidence": shown}]
            edited = say("edit_document", remove=remove, add=listed(insights[3:]), **fields)
            assert held(edited, insights) == [insights[1], insights[2], insights[3]]
            kept = set(sentences(text)) & set(sentences(edited))
            assert len(kept) >= len(sentences(text)) - len(sentences(evidence)) - 2


@given(insight=st.text(min_size=1, max_size=80), level=st.integers(0, 3))
def test_any_insight_is_stated_with_its_numbers_and_can_be_contradicted(insight: str, level: int) -> None:
    text = say("edit_document", document="", add=[{"id": 1, "text": insight}], paraphrase=level)
    assert sorted(NUMBER.findall(text)) == sorted(NUMBER.findall(insight))
    other = ask("conflicting_insight", subtopic="x", insight=insight)["insight"]
    assert " ".join(other.split()) != " ".join(insight.split())


@given(topic=st.text(max_size=60), n=st.integers(0, 12))
def test_any_topic_and_any_subtopic_get_as_many_as_asked(topic: str, n: int) -> None:
    subtopics = [one["subtopic"] for one in ask("subtopics", topic=topic, n=n)["subtopics"]]
    insights = [one["insight"] for one in ask("insights", topic=topic, subtopic=topic, n=n)["insights"]]
    assert len(set(subtopics)) == len(set(insights)) == n
    assert write("news", tuple(insights[:2]), topic=topic, words=100)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("Write a poem.", "no line 'Input:'"),
        ("Do.\nInput:\nnothing", "not one JSON object"),
        (f"Do.\nInput:\n{json.dumps({'task': 'sing'})}", "no task"),
        (prompt_of("document", words=100, paraphrase=1), "'insight'"),
        (prompt_of("insights", subtopic="x", n="many"), "TypeError"),
    ],
)
def test_what_is_no_prompt_of_the_synthesis_is_refused(prompt: str, said: str) -> None:
    with pytest.raises(LookupError, match=said):
        OfflineWriter().answer(Request("offline/writer", prompt))
