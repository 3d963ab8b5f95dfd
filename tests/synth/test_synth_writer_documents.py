"""offline/writer's documents: they state the requested insights and no others, have the requested length, and are no copies."""

from __future__ import annotations

import re
import time
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writer_asking import DOMAINS, PEOPLE, TOPIC, ask, listed, outline, prompt_of, say, write

from summhay_ray.llm import Request
from summhay_ray.synth.writer import OfflineWriter
from summhay_ray.synth.writer.documents import readable_date
from summhay_ray.synth.writer.grammar import DOMAINS as GRAMMARS
from summhay_ray.synth.writer.grammar import filler_grammar
from summhay_ray.synth.writer.reading import text_of
from summhay_ray.synth.writer.sentences import words_of

pytestmark = pytest.mark.core

COUNTING = """
    one two three four five six seven eight nine ten eleven twelve first second third once twice half couple dozen single double
    both hundred thousand million
"""
NUMBER_WORDS = set(COUNTING.split())


def insights_of(domain: str, n: int) -> list[str]:
    return [insights[0] for insights in outline(domain).values()][:n]


def grams(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[place : place + 5]) for place in range(len(words) - 4)}


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("domain", DOMAINS)
def test_every_fact_of_every_insight_is_in_and_no_other_insight(domain: str, level: int) -> None:
    everything = [text for insights in outline(domain).values() for text in insights]
    for start in range(0, 15, 5):
        told = everything[start::15]
        text = write(domain, told, paraphrase=level, words=400, avoid=[other for other in everything if other not in told])
        read = text_of(text)
        assert all(words_of(insight).facts <= words_of(text).tokens for insight in told)
        assert {insight for insight in everything if read.find(insight)} == set(told)


def test_level_0_uses_the_insight_s_own_words_and_higher_levels_others() -> None:
    told = insights_of("news", 5)
    assert all(insight in write("news", told, paraphrase=0) for insight in told)
    shared = []
    for level in (0, 2):
        five = set().union(*(grams(insight) for insight in told))
        shared.append(len(five & grams(write("news", told, paraphrase=level))) / len(five))
    assert shared[0] == 1 and shared[1] < 0.9


@pytest.mark.parametrize("words", [120, 450, 750, 2000])
@pytest.mark.parametrize("domain", DOMAINS)
def test_a_document_is_about_as_long_as_asked(domain: str, words: int) -> None:
    text = write(domain, insights_of(domain, 3), words=words, date="2024-03-03")
    assert 0.85 * words <= len(text.split()) <= 1.2 * words


def test_insights_longer_than_the_document_are_all_stated() -> None:
    told = insights_of("news", 9)
    assert all(words_of(insight).facts <= words_of(write("news", told, words=20)).tokens for insight in told)


@pytest.mark.parametrize("domain", DOMAINS)
def test_filler_has_no_facts(domain: str) -> None:
    held = set().union(*(words_of(text).facts for insights in outline(domain).values() for text in insights))
    for number in range(200):
        text = write(domain, [], number=number, words=200)
        body = "\n".join(line.partition(": ")[2] for line in text.splitlines()) if domain == "conversation" else text
        told = words_of(body)
        assert not held & told.facts, held & told.facts
        assert not any(token[0].isdigit() for token in told.tokens)


@pytest.mark.parametrize("domain", GRAMMARS)
def test_filler_has_no_number_words_and_no_names(domain: str) -> None:
    grammar = filler_grammar(domain)
    for bank, lines in grammar.lines.items():
        for line in lines:
            words = re.findall(r"[^\W\d_]+", re.sub(r"\{[^}]*\}", " ", line))
            assert not NUMBER_WORDS & {word.lower() for word in words}, (bank, line)
            assert not re.search(r"(?<=[a-z,] )[A-Z]\w+", line), (bank, line)


@pytest.mark.parametrize("domain", DOMAINS)
def test_no_two_of_a_hundred_documents_are_near_copies(domain: str) -> None:
    told = insights_of(domain, 3)
    texts = [grams(write(domain, told, number=number, words=750, paraphrase=0)) for number in range(100)]
    assert max(len(one & other) / len(one | other) for one, other in combinations(texts, 2)) < 0.3


def test_the_same_prompt_gets_the_same_text_and_another_sample_another() -> None:
    prompt = prompt_of("document", insights=listed(insights_of("news", 2)), words=200, paraphrase=2)
    answers = [OfflineWriter().answer(Request("offline/writer", prompt, sample=sample)) for sample in (0, 0, 1)]
    assert answers[0] == answers[1] != answers[2]
    assert answers[0] != say("document", insights=listed(insights_of("news", 2)), words=200, paraphrase=2, attempt=1)


def test_a_conversation_is_turns_of_its_participants() -> None:
    lines = write("conversation", insights_of("conversation", 3)).splitlines()
    names = [line.partition(": ")[0] for line in lines]
    assert set(names) == set(PEOPLE) and len(lines) >= 6
    assert all(one != other for one, other in zip(names, names[1:], strict=False))


def test_speakers_are_invented_where_none_are_given_and_never_an_insight_s_people() -> None:
    told = ["Amelie Halvik bought 12 tents.", "Bruno Halvik bought 13 tents."]
    for number in range(40):
        names = {line.partition(": ")[0] for line in write("conversation", told, participants=[], number=number).splitlines()}
        assert 2 <= len(names) <= 3 and not names & {"Amelie", "Bruno"}


def test_documents_have_the_form_of_their_domain() -> None:
    news = write("news", insights_of("news", 2)).split("\n\n")
    assert not news[0].endswith(".") and len(news) >= 3
    report = write("incident_reports", insights_of("incident_reports", 2))
    assert "\nSummary\n" in report and len(re.findall(r"(?m)^(?:Summary|Findings|Follow-up|Response|Observations)$", report)) >= 2
    assert re.search(r"\bI\b", write("product_reviews", insights_of("product_reviews", 2)))


@pytest.mark.parametrize(
    ("domain", "genre", "people", "sign"),
    [
        ("mine", "a transcript of a meeting", ["Ann", "Bob"], r"^(Ann|Bob): "),
        ("mine", "", ["Ann", "Bob"], r"^(Ann|Bob): "),
        ("mine", "an incident report", [], r"(?m)^Summary$"),
        ("mine", "a customer's review", [], r"\bI\b"),
    ],
)
def test_a_user_s_domain_is_written_in_the_form_of_its_genre(domain: str, genre: str, people: list[str], sign: str) -> None:
    assert re.search(sign, write(domain, insights_of("news", 1), genre=genre, participants=people))


@pytest.mark.parametrize("domain", DOMAINS)
def test_dates_and_references_are_in_the_text(domain: str) -> None:
    references = [
        {"date": "2024-03-01", "headline": "Ann: Patience wears thin."},
        {"date": "2024-03-02", "headline": "A long story"},
    ]
    text = write(domain, insights_of(domain, 2), date="2024-03-09", references=references)
    assert all(part in text for part in ("9 March 2024", "1 March 2024", "Patience wears thin", "2 March 2024", "A long story"))
    assert "Ann: Patience" not in text


def test_a_headline_that_gives_an_insight_away_is_not_quoted() -> None:
    kept_out = "Halvex Labs paid $1.20 million for a dam in Halham."
    references = [{"date": "2024-03-01", "headline": "The dam of Halham is paid for"}]
    text = write("news", insights_of("news", 1), references=references, avoid=[kept_out])
    assert "1 March 2024" in text and "Halham" not in text
    assert "Halham" in write("news", insights_of("news", 1), references=references)


def test_a_topic_that_shares_a_name_with_an_insight_is_not_mentioned() -> None:
    topic = "the Halham dam and its owners"
    texts = [write("conversation", [], topic=topic, number=number) for number in range(5)]
    assert all(topic in text for text in texts)
    kept = [write("conversation", [], topic=topic, number=number, avoid=["A dam near Halham cost $12."]) for number in range(5)]
    assert not any("Halham" in text for text in kept)


def chapter(insight: str, before: str = "", **more: object) -> str:
    fields = {"words": 120, "participants": PEOPLE, "genre": "a conversation", "tone": "", "paraphrase": 1, **more}
    return say("chapter", domain="conversation", insight=insight, subtopic="x", before=before, **fields)


def test_chapters_are_turns_that_continue_the_one_before() -> None:
    insight = insights_of("conversation", 1)[0]
    for number in range(30):
        text = chapter(insight, before="Bob: I see.\nAnn: So do I.", number=number)
        lines = text.splitlines()
        assert len(lines) >= 2 and not lines[0].startswith("Ann: ") and all(line.partition(": ")[0] in PEOPLE for line in lines)
        assert words_of(insight).facts <= words_of(text).tokens and 100 <= len(text.split()) <= 140
        assert TOPIC not in text


def test_the_first_chapter_opens_the_document() -> None:
    text = chapter(
        "Ann Halvik owns 1,234 stamps.", date="2024-03-03", references=[{"date": "2024-03-01", "headline": "Good day."}]
    )
    assert TOPIC in text and "3 March 2024" in text and "Good day." in text and "1,234" in text


def test_invented_speakers_go_on_in_the_next_chapter() -> None:
    text = chapter("It cost $12.", before="Ulla: I see.\nUwe: So do I.", participants=[])
    assert {line.partition(": ")[0] for line in text.splitlines()} == {"Ulla", "Uwe"}


def test_chapters_without_speakers_are_paragraphs() -> None:
    text = say(
        "chapter", domain="mine", insight="It cost $12.", subtopic="x", before="So.", words=90, participants=[], paraphrase=0
    )
    assert "It cost $12." in text and ": " not in text.splitlines()[0] and 76 <= len(text.split()) <= 104


def test_chapters_are_recognised_by_the_insight_they_introduce() -> None:
    everything = [text for insights in outline("conversation").values() for text in insights]
    for place in range(0, len(everything), 4):
        text = chapter(everything[place], before="Bob: I see.", paraphrase=place % 4)
        assert ask("chapter_check", chapter=text, subtopics=[], insights=listed(everything)) == {"insight": place + 1}
    assert ask("chapter_check", chapter=chapter("", before="Bob: Yes."), subtopics=[], insights=listed(everything)) == {
        "insight": None
    }


@given(
    insights=st.lists(st.text(max_size=60), max_size=3),
    topic=st.text(max_size=40),
    level=st.integers(0, 3),
    domain=st.sampled_from(DOMAINS),
)
def test_any_insight_and_topic_can_be_written_about(insights: list[str], topic: str, level: int, domain: str) -> None:
    text = write(domain, insights, topic=topic, paraphrase=level, words=100)
    tokens = words_of(text).tokens
    assert all(words_of(insight).facts <= tokens for insight in insights)


@pytest.mark.parametrize(
    ("iso", "read"), [("2024-03-03", "3 March 2024"), ("", ""), ("last May", "last May"), ("2024-13-01", "2024-13-01")]
)
def test_dates_are_read_as_people_write_them(iso: str, read: str) -> None:
    assert readable_date(iso) == read


def test_a_document_takes_well_under_five_milliseconds() -> None:
    everything = [text for insights in outline("news", 9, 7).values() for text in insights]
    write("news", everything[:3], words=750, avoid=everything[3:])
    started = time.process_time()
    for number in range(100):
        write("news", everything[:3], words=750, avoid=everything[3:], number=number)
    assert (time.process_time() - started) / 100 < 0.005
