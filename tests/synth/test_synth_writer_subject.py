"""offline/writer's outlines and documents are about the given topic, whatever its form."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writer_asking import DOMAINS, ask, write

from summhay_ray.synth.checks import assigned, leak, overlap
from summhay_ray.synth.writer.sentences import speaker_of, split_sentences, words_of
from summhay_ray.synth.writer.subject import FALLBACK, MOST_ROOTS, subject_of

pytestmark = pytest.mark.core

FERRY = "the dispute about the ferry of Norhaven"
TOPICS = (FERRY, "planning a student budget", "What 3 towns did after the storm", "the Solora X2 espresso machine", "iPhone 15")


def outline_of(topic: str, domain: str, n: int = 9, k: int = 5) -> list[tuple[str, list[str]]]:
    """The subtopics of a topic with their insights, requested as in the pipeline."""
    answer = ask("subtopics", topic=topic, domain=domain, n=n, avoid=[], context=[], participants=[])
    found: list[tuple[str, list[str]]] = [(one["subtopic"], []) for one in answer["subtopics"]]
    for subtopic, texts in found:
        others = [{"subtopic": name, "insights": told} for name, told in found if name != subtopic]
        fields = {"subtopic": subtopic, "n": k, "others": others, "avoid": [], "participants": []}
        texts += [entry["insight"] for entry in ask("insights", topic=topic, domain=domain, **fields)["insights"]]
    return found


@pytest.mark.parametrize(
    ("topic", "core"),
    [
        (FERRY, "the ferry of Norhaven"),
        ("the rebuilding of the tram line in Calaford", "the tram line in Calaford"),
        ("the plans for a new university library in Almouth", "the new university library"),
        ("the Solora X2 espresso machine", "the Solora X2 machine"),
        ("a robot vacuum cleaner", "the robot vacuum cleaner"),
        ("rain", "rain"),
        ("Climate change and coffee farming", "climate change"),
        ("The Future Of Remote Work", "Remote Work"),
        ("planning a student budget", "planning a student budget"),
        ("Database outage in the Frankfurt region", "the database outage"),
        ("Outage of the payment gateway on 3 March", "the outage of the payment gateway"),
        ("What 3 towns did after the storm", "the storm"),
        ("How Salesforce compares with competitors", "Salesforce"),
        ("Why people love the X2 camera", "the X2 camera"),
        ("The tram line of a town comes back after the flood", "the tram line of a town"),
        ("Brexit: what now?", "Brexit"),
        ("the ceasefire talks between Rome and Paris", "the ceasefire talks"),
        ("iPhone 15", "iPhone 15"),
        ("!!! 12", FALLBACK),
        ("", FALLBACK),
    ],
)
def test_the_subject_of_a_topic(topic: str, core: str) -> None:
    assert subject_of(topic).core == core


@given(topic=st.text(max_size=80))
def test_any_topic_has_a_subject_of_few_words(topic: str) -> None:
    subject = subject_of(topic)
    assert subject.mentions[0] == subject.core.strip() and subject.core
    assert len(words_of(subject.core).roots) <= MOST_ROOTS and words_of(subject.core).roots <= subject.roots


@pytest.mark.parametrize("domain", DOMAINS)
def test_subtopics_insights_and_queries_name_the_topic_s_subject(domain: str) -> None:
    found = outline_of(FERRY, domain)
    assert all(subtopic.endswith(" the ferry of Norhaven") for subtopic, _ in found)
    texts = [text for _, insights in found for text in insights]
    assert all("the ferry of Norhaven" in text for text in texts)
    # One in three names it at length.
    assert 0 < sum(FERRY in text for text in texts) < len(texts) / 2
    for subtopic, insights in found:
        query = ask("query", topic=FERRY, domain=domain, subtopic=subtopic, avoid=insights, participants=[])["query"]
        assert "the ferry of Norhaven" in query


@pytest.mark.parametrize("topic", TOPICS)
@pytest.mark.parametrize("domain", DOMAINS)
def test_words_of_the_topic_do_not_disturb_the_checks(domain: str, topic: str) -> None:
    found = outline_of(topic, domain)
    names = [subtopic for subtopic, _ in found]
    assert not [(one, two) for place, one in enumerate(names) for two in names[:place] if overlap(one, two).found]
    elsewhere = []
    for place, (subtopic, insights) in enumerate(found):
        query = ask("query", topic=topic, domain=domain, subtopic=subtopic, avoid=insights, participants=[])["query"]
        for insight in insights:
            others = [[text for text in texts if text != insight] for _, texts in found]
            landed, verdict = assigned(insight, names, others)
            assert landed == place or not verdict.sure, insight
            elsewhere += [insight] if landed != place else []
            assert not leak(query, insight, subtopic).found, (query, insight)
    # If a topic shares words with a theme, words alone may be wrong about one of 45.
    assert len(elsewhere) <= 1, elsewhere


@pytest.mark.parametrize("domain", DOMAINS)
def test_two_topics_of_a_domain_have_different_outlines(domain: str) -> None:
    one, other = (outline_of(topic, domain) for topic in (FERRY, "the strike at the bakery of Marwick"))
    assert not {text for text, _ in one} & {text for text, _ in other}
    themes = [{text.split(" ")[0] for text, _ in found} for found in (one, other)]
    assert themes[0] != themes[1]
    facts = [
        {token for _, texts in found for text in texts for token in re.findall(r"\d[\d,.]{2,}", text)} for found in (one, other)
    ]
    years = {token for token in facts[0] & facts[1] if re.fullmatch(r"(?:19|20)\d\d\.?", token)}
    assert len(facts[0] & facts[1] - years) <= 0.1 * len(facts[0])


def test_a_theme_named_by_the_topic_is_not_one_of_its_subtopics() -> None:
    topic = "the hidden costs of battery life"
    for domain in DOMAINS:
        for subtopic, _ in outline_of(topic, domain, 12, 0):
            assert words_of(subtopic.removesuffix(subject_of(topic).core)).roots.isdisjoint(words_of(topic).roots), subtopic


def test_a_conflicting_insight_keeps_the_numbers_and_names_of_the_topic() -> None:
    insight = "iPhone 15 sold 1,234 times in Rome."
    for attempt in range(9):
        changed = ask("conflicting_insight", topic="iPhone 15", subtopic="x", insight=insight, attempt=attempt)["insight"]
        assert re.fullmatch(r"[iI]Phone 15 sold \d,\d{3} times in Rome\.", changed) and changed != insight


@pytest.mark.parametrize("domain", DOMAINS)
def test_documents_name_the_topic_if_it_gives_nothing_away(domain: str) -> None:
    insights = [texts[0] for _, texts in outline_of(FERRY, domain)]
    named = 0
    for number in range(10):
        text = write(domain, insights[:2], topic=FERRY, words=400, number=number, avoid=insights[2:], paraphrase=0)
        filler = text
        for insight in insights[:2]:
            filler = filler.replace(insight, "")
        named += "erry of Norhaven" in filler
    assert named == 10


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("domain", DOMAINS)
def test_documents_have_no_errors_of_form(domain: str, level: int) -> None:
    """No double blank, wrong article, small letter after a full stop, open quotation mark, or repeated sentence."""
    insights = [text for _, texts in outline_of(FERRY, domain) for text in texts]
    for number in range(12):
        told = insights[number : number + 21 : 5]
        text = write(
            domain, told, topic=FERRY, words=(150, 450, 750)[number % 3], paraphrase=level, number=number, date="2024-03-03"
        )
        assert not re.search(r"  |,,|\.\.|,\.| ,| \.(?!\d)|\?\.", text), text
        assert not re.search(r"\ba (?:[aio]|e(?!u))\w|\ban [bcdfgjklmnpqrstvwxyz]\w", text), text
        assert not re.search(r"(?m)(?<=[.!?] )[a-z]|^[a-z]", text), text
        assert all(line.count('"') % 2 == 0 for line in text.splitlines()), text
        said = Counter(one for line in text.splitlines() for one in split_sentences(line[len(speaker_of(line)) :]))
        assert [one for one, times in said.items() if times > 1] == []


def test_words_of_the_topic_get_no_synonyms() -> None:
    insight = "A large quarrel in the town cost residents $1,234."
    for number in range(20):
        text = write("news", [insight], topic="the quarrel in a small town", paraphrase=2, number=number)
        assert "quarrel in the town" in text and "large quarrel" not in text
