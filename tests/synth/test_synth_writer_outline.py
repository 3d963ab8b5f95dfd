"""offline/writer's outlines: distinct subtopics, specific and unique insights, conflicting insights, queries."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writer_asking import DOMAINS, SUBJECT, TOPIC, ask, listed, outline

from summhay_ray.synth.writer.grammar import DOMAINS as GRAMMARS
from summhay_ray.synth.writer.grammar import GENERIC, articles, filler_grammar, name_banks, outline_grammar
from summhay_ray.synth.writer.invention import Inventor
from summhay_ray.synth.writer.outline import themes
from summhay_ray.synth.writer.prompts import seeded
from summhay_ray.synth.writer.sentences import root, words_of
from summhay_ray.text import MONTHS

pytestmark = pytest.mark.core

FACT = re.compile(r"\d[\d,.:]*\d|\d")


OF_THE_TOPIC = words_of(TOPIC).roots


def own(text: str) -> frozenset[str]:
    """The content words of a text that are not the topic's."""
    return words_of(text).roots - OF_THE_TOPIC


def subtopics(n: int, domain: str = "news", avoid: list[str] | None = None, **more: object) -> list[str]:
    answer = ask("subtopics", domain=domain, n=n, avoid=listed(avoid or []), context=[], participants=[], **more)
    assert set(answer) == {"subtopics"} and all(set(entry) == {"name", "subtopic"} for entry in answer["subtopics"])
    return [entry["subtopic"] for entry in answer["subtopics"]]


@pytest.mark.parametrize("domain", DOMAINS)
def test_thirty_subtopics_share_no_word_but_the_topic_s(domain: str) -> None:
    found = subtopics(30, domain)
    assert len(found) == 30 and all(text.endswith(f" {SUBJECT}") and len(own(text)) >= 3 for text in found)
    for one, other in combinations(found, 2):
        assert own(one).isdisjoint(own(other)), (one, other)


def test_further_subtopics_come_from_other_domains_and_then_are_invented() -> None:
    found = subtopics(150)
    assert len(set(found)) == 150
    for one, other in combinations(found, 2):
        assert own(one).isdisjoint(own(other)), (one, other)


def test_subtopics_to_avoid_are_not_proposed_again() -> None:
    first = subtopics(10)
    second = subtopics(10, avoid=first)
    assert all(own(one).isdisjoint(own(other)) for one in first for other in second)


@given(topic=st.text(max_size=60), domain=st.sampled_from(DOMAINS), n=st.integers(0, 12))
def test_any_topic_gets_exactly_as_many_as_asked(topic: str, domain: str, n: int) -> None:
    names = subtopics(n, domain, topic=topic)
    assert len(set(names)) == n
    answer = ask("insights", topic=topic, domain=domain, subtopic=topic or "x", n=n, others=[], avoid=[], participants=[])
    texts = [entry["insight"] for entry in answer["insights"]]
    assert len(set(texts)) == n and all(entry["name"] for entry in answer["insights"])
    assert all(words_of(text).facts for text in texts)


@pytest.mark.parametrize("domain", DOMAINS)
def test_insights_are_specific_unique_and_of_their_subtopic_alone(domain: str) -> None:
    found = outline(domain, 30, 15)
    texts = [text for insights in found.values() for text in insights]
    assert len(texts) == 450 and len(set(texts)) == 450
    for subtopic, insights in found.items():
        for text in insights:
            words = words_of(text)
            assert len(words.facts) >= 2 and FACT.search(text), text
            assert 9 <= len(text.split()) <= 34, text
            assert own(text) & own(subtopic) and (SUBJECT in text or TOPIC in text), text
            for other in found:
                # Words of another subtopic would mislead a blind assignment.
                assert other == subtopic or (own(text) - own(subtopic)).isdisjoint(own(other)), (text, other)


@pytest.mark.parametrize("domain", DOMAINS)
def test_insights_hardly_share_numbers_and_never_all_facts(domain: str) -> None:
    texts = [text for insights in outline(domain).values() for text in insights]
    marks: list[frozenset[str]] = []
    for text in texts:
        years = {token for token in words_of(text).facts if re.fullmatch(r"(19|20)\d\d|\d\d?", token)}
        marks.append(frozenset(token for token in words_of(text).facts if token[0].isdigit()) - years)
    counted = [mark for found in marks for mark in found]
    assert len(set(counted)) >= 0.97 * len(counted)
    for one, other in combinations(texts, 2):
        assert not words_of(one).facts <= words_of(other).facts


def test_facts_of_other_insights_and_of_participants_are_not_drawn() -> None:
    first = ask(
        "insights", subtopic="Court verdicts and pending lawsuits", n=15, others=[], avoid=[], participants=["Ann Halvik"]
    )
    texts = [entry["insight"] for entry in first["insights"]]
    others = [{"subtopic": "x", "insights": texts}]
    second = ask("insights", subtopic="Court verdicts and pending lawsuits", n=15, others=others, avoid=[], participants=[])
    names = {root(token) for text in texts for token in re.findall(r"\b[A-Z][a-z]+(?= |,|\.|$)", text) if len(token) > 5}
    rare = {root(start + end) for start in name_banks()["start"] for end in name_banks()["surname_end"]}
    taken = {name.lower() for name in names} & {name.lower() for name in rare}
    for entry in second["insights"]:
        assert not taken & {root(token) for token in words_of(entry["insight"]).facts}
    assert all("Halvik" not in text for text in texts)


def test_an_unknown_subtopic_gets_insights_in_its_own_words() -> None:
    answer = ask("insights", subtopic="How Salesforce compares with competitors", n=6, others=[], avoid=[], participants=[])
    for entry in answer["insights"]:
        assert {"salesforce", "compares", "competitors"} & words_of(entry["insight"]).tokens


@pytest.mark.parametrize("domain", DOMAINS)
def test_queries_ask_in_the_words_of_the_subtopic_and_give_no_fact_away(domain: str) -> None:
    for subtopic, insights in outline(domain).items():
        query = ask("query", domain=domain, subtopic=subtopic, avoid=list(insights), participants=[])["query"]
        assert query.endswith("?") and words_of(subtopic).roots <= words_of(query).roots
        facts = set().union(*(words_of(text).facts for text in insights))
        assert facts.isdisjoint(words_of(query).tokens) and not FACT.search(query)


def test_a_query_leaves_out_what_a_subtopic_shares_with_an_insight_s_facts() -> None:
    avoid = ["In Rome Salesforce gained 25 customers."]
    query = ask("query", subtopic="How Salesforce won 25 customers", avoid=avoid, participants=[])["query"]
    assert "Salesforce" not in query and "25" not in query and "customers" in query
    bare = ask("query", subtopic="Salesforce 25", avoid=avoid, participants=[])["query"]
    assert "this subtopic" in bare


@pytest.mark.parametrize(
    ("insight", "changed"),
    [
        ("Ann paid 1,234 dollars on 3 March 2020.", r"Ann paid \d,\d{3} dollars on 3 March 2020\."),
        ("The car takes 1.66 seconds.", r"The car takes \d\.\d\d seconds\."),
        ("The Demon was shown in March 2020.", r"The Demon was shown in \w+ \d{4}\."),
        ("It was signed on 2020-03-03.", r"It was signed on \d{4}-\d\d-\d\d\."),
        ("The award went to Mary Poppins.", r"The award went to [A-Z]\w+ [A-Z]\w+\."),
        ("The award went to Rome in spring.", r"The award went to [A-Z]\w+ in spring\."),
        ("nothing specific is said", r"Nothing specific is said, in [\d,]+ cases\."),
    ],
)
def test_the_other_side_of_an_insight_differs_in_one_fact(insight: str, changed: str) -> None:
    answer = ask("conflicting_insight", subtopic="x", insight=insight)
    assert re.fullmatch(changed, answer["insight"]) and answer["insight"] != insight and answer["name"]


@given(insight=st.text(min_size=1, max_size=80))
def test_a_conflicting_insight_always_differs(insight: str) -> None:
    answer = ask("conflicting_insight", subtopic="x", insight=insight)
    assert " ".join(answer["insight"].split()) != " ".join(insight.split())


def test_grammars_are_complete() -> None:
    for domain in GRAMMARS:
        assert len(themes(domain)) >= 30 and all(len(theme.banks) == 4 and all(theme.banks) for theme in themes(domain))
        frames = outline_grammar(domain).lines["frames"]
        assert len(frames) >= 15 and len(set(frames)) == len(frames)
        filler = filler_grammar(domain)
        for bank, lines in filler.lines.items():
            for line in lines:
                slots = re.findall(r"\{(\w+)", line)
                assert all(filler.has(slot) or slot in ("s", "S", "topic", "subject", "date", "headline") for slot in slots), (
                    bank,
                    line,
                )


@pytest.mark.parametrize("domain", GRAMMARS)
def test_the_words_of_a_theme_are_unique_and_each_phrase_has_one(domain: str) -> None:
    owner = {root_: theme.text for theme in themes(domain) for root_ in words_of(theme.text).roots}
    for theme in themes(domain):
        for phrase in (phrase for bank in theme.banks for phrase in bank):
            owners = {owner[root_] for root_ in words_of(phrase).roots if root_ in owner}
            assert owners == {theme.text}, phrase
    for frame in outline_grammar(domain).lines["frames"]:
        assert not words_of(re.sub(r"\{[^}]*\}", " ", frame)).roots & set(owner), frame


def test_invented_names_mean_nothing_in_any_theme() -> None:
    banks = name_banks()
    ends = [end for bank in ("surname_end", "place_end", "firm_end") for end in banks[bank]]
    names = [start + end for start in banks["start"] for end in ends]
    names += [*banks["firm_kind"], *banks["product_kind"]]
    meant = {root_ for domain in GRAMMARS for theme in themes(domain) for root_ in words_of(theme.text).roots}
    assert [name for name in names if root(name.lower()) in meant] == []


def test_a_month_drawn_later_is_later() -> None:
    inventor = Inventor(seeded("months"), [], GENERIC)
    for _ in range(50):
        drawn = inventor.draw(["month", "later"])
        (first, year), (second, later) = drawn["month"].split(), drawn["later"].split()
        assert 12 * int(year) + MONTHS.index(first) < 12 * int(later) + MONTHS.index(second)


def test_an_exhausted_range_still_gives_values() -> None:
    inventor = Inventor(seeded("days"), [], GENERIC)
    assert all(inventor.days().isdigit() for _ in range(500))


def test_articles_are_as_spoken() -> None:
    assert (
        articles("a alarm, a unit, A hour, a European, a user, a umbrella")
        == "an alarm, a unit, An hour, a European, a user, an umbrella"
    )
