"""offline/writer's paraphrases: other words and sentences with the same facts, for any sentence."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.synth.writer import paraphrase
from summhay_ray.synth.writer.grammar import Voice, filler_grammar
from summhay_ray.synth.writer.paraphrase import APART, restate
from summhay_ray.synth.writer.prompts import seeded
from summhay_ray.synth.writer.sentences import complete, lower_start, speaker_of, split_sentences, words_of
from summhay_ray.synth.writer.synonyms import _dictionary, other_words

pytestmark = pytest.mark.core


@pytest.fixture(autouse=True)
def each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """No facts are spread below level 3, so that each change can be tested alone."""
    monkeypatch.setattr(paraphrase, "APART", {1: 0.0, 2: 0.0, 3: 1.0})


def say(insight: str, level: int, seed: object = 0, domain: str = "news") -> str:
    rng = seeded(insight, str(seed))
    return restate(insight, level, Voice(filler_grammar(domain), rng), rng)


def ways(insight: str, level: int, n: int = 60) -> set[str]:
    """All paraphrases of an insight at a level, over many seeds."""
    return {say(insight, level, seed) for seed in range(n)}


def test_higher_levels_spread_more_insights(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paraphrase, "APART", APART)
    insight = "Ann Hill sold 300 books to Halvex Labs on 3 March 2020."
    shares = [sum(len(split_sentences(say(insight, level, seed))) > 1 for seed in range(400)) / 400 for level in (0, 1, 2, 3)]
    assert shares[0] == 0 and shares[3] == 1
    assert shares[1] == pytest.approx(APART[1], abs=0.06) and shares[2] == pytest.approx(APART[2], abs=0.08)


def test_level_0_is_the_insight_as_a_sentence() -> None:
    assert say("the river rose by 3.5 feet", 0) == "The river rose by 3.5 feet."
    assert say("Did it\n rise?", 0) == "Did it rise?"
    assert say("", 3) == ""


@pytest.mark.parametrize(
    ("insight", "said"),
    [
        ("Ann Hill sold 300 books on 3 March 2020.", "On 3 March 2020, Ann Hill sold 300 books."),
        ("In March 2020, Ann Hill sold 300 books.", "Ann Hill sold 300 books in March 2020."),
        ("When the rain stopped, the river fell by 3 feet.", "The river fell by 3 feet when the rain stopped."),
        ("The mill lost $300 because the old dam broke.", "Because the old dam broke, the mill lost $300."),
    ],
)
def test_clauses_change_places(insight: str, said: str) -> None:
    assert said in ways(insight, 1)


@pytest.mark.parametrize(
    "insight",
    [
        "A leak revealed that Halvex Labs kept 300 barrels off its books in March 2020.",
        "In Rome, Paris and Berlin, 300 people fell ill.",
        "The firm has offices in Rome and opened 3 more in March 2020.",
        "In June, 2020 was the year that everybody spoke of.",
        "They did not leave because the old dam broke.",
        "The mill sold by Halvex Labs since March 2020 is 59.3 percent lighter.",
        "The mill that Halvex Labs has sold since March 2020 pleases 59.3 percent of buyers.",
        "Halvex Labs has lost $300 since March 2020 in a quarrel over a mill.",
        "The dam built after the flood of Halham broke in 2020.",
        "The old dam, built by Ann Hill, and the new mill were sold in March 2020.",
    ],
)
def test_a_clause_that_may_belong_to_a_part_does_not_move(insight: str) -> None:
    whole = insight.removesuffix(".")
    for said in ways(insight, 1):
        assert whole in said or whole[0].lower() + whole[1:] in said, said


def test_a_fact_is_quoted_from_a_source() -> None:
    found = ways("Halvex Labs closed 12 mills.", 1)
    assert any(said.endswith('"Halvex Labs closed 12 mills."') for said in found)
    assert any(said.startswith("Halvex Labs closed 12 mills, ") for said in found)
    assert any(said.endswith("that Halvex Labs closed 12 mills.") for said in found)
    # "Analysts" may be a name, so it keeps its capital and its place.
    assert not any("that Analysts" in said or "that analysts" in said for said in ways("Analysts closed 12 mills.", 1))


def test_a_sentence_without_a_verb_is_only_quoted() -> None:
    for insight in ("A push for stricter rules of 12 banks.", "Calls for 12 audits.", "Highlighting the need for 12 rules."):
        assert all(said.endswith(f'"{insight}"') for said in ways(insight, 1))


def test_level_2_uses_other_words_but_not_within_quotation_marks() -> None:
    insight = 'Ann Hill bought 12 mills and called the deal "the best that I ever bought".'
    for said in ways(insight, 2):
        assert "Ann Hill bought" not in said and "that I ever bought" in said and "12 mills" in said


def test_a_word_before_a_particle_is_not_replaced() -> None:
    assert all("found out" in other_words("She found out what she found.", seeded(str(seed))) for seed in range(9))
    assert not any("she found." in other_words("She found out what she found.", seeded(str(seed))) for seed in range(9))


def test_some_synonyms_need_a_certain_next_word() -> None:
    found = {
        other_words("The rose rose by 3 feet and he spent $3 in the week that he spent there.", seeded(str(n))) for n in range(40)
    }
    assert found == {
        f"The rose {rose} by 3 feet and he {spent} $3 in the week that he spent there."
        for rose in ("climbed", "went up")
        for spent in ("expended", "laid out")
    }


def test_an_article_fits_the_word_that_follows_it() -> None:
    found = {
        other_words("It was a contest between a buyer and an improved model, an important event.", seeded(str(n)))
        for n in range(40)
    }
    assert len(found) > 3
    for said in found:
        assert " a i" not in said and " a o" not in said and " an b" not in said and " an p" not in said and " an c" not in said


def test_the_dictionary_knows_no_word_that_would_lose_a_fact() -> None:
    for word, others in _dictionary().items():
        assert word not in others and re.fullmatch(r"[a-z]+(?: (?:[a-z]+|\$))?", word)
        follower = word.partition(" ")[2]
        assert follower == "$" or all(other.endswith(follower) for other in others), word
        for other in others:
            assert not words_of(other).facts, other


@pytest.mark.parametrize(
    ("insight", "parts"),
    [
        ("Ann Hill sold old books on 3 March 2020.", ["Ann Hill sold old books.", "The date given for that is 3 March 2020."]),
        ("Ann Hill sold old books on 3 March 2020.", ["Ann Hill sold old books.", "The record dates that to 3 March 2020."]),
        ("On 3 March 2020, Ann Hill sold a mill.", ["Ann Hill sold a mill.", "The date given for that is 3 March 2020."]),
        (
            "Ann Hill retired on 3 March 2020 after losing a race.",
            ["Ann Hill retired after losing a race.", "The date given for that is 3 March 2020."],
        ),
        (
            "The mill had to close because the old dam gave in.",
            ["The mill had to close.", "The reason is that the old dam gave in."],
        ),
        (
            "Ann Hill of Rome built a new dam, which was 30 feet high.",
            ["Ann Hill of Rome built a new dam.", "That was 30 feet high."],
        ),
        ("The mills of Rome rose to 12 by March 2020.", ["That was so by March 2020."]),
        ("Ann Hill has owned mills since March 2020.", ["Ann Hill has owned mills.", "That has been so since March 2020."]),
        ("Ann Hill, a baker from Rome, has baked 300 loaves.", ["Ann Hill is described as a baker from Rome."]),
        (
            "The tower, proposed by Ann Hill, was built in Rome.",
            ["The tower was built in Rome.", "The tower was proposed by Ann Hill."],
        ),
        (
            "Ann Hill paid at least $1.2 million for the dam.",
            ["Ann Hill paid a certain sum for the dam.", "The sum in question: at least $1.2 million."],
        ),
        (
            "They say that 43.5 percent of all dams leak.",
            ["They say that a certain share of all dams leak.", "To be exact, the share is 43.5 percent."],
        ),
        (
            "Ann Hill made 1,234 copper pans.",
            ["Ann Hill made a certain number of copper pans.", "The number of copper pans: 1,234."],
        ),
        ("The mills of Halham stood still for a week, causing a loss of $12.", ["This caused a loss of $12."]),
        ("The mills of Halham are still at work, making it hard to sell.", ["This makes it hard to sell."]),
        ("The mills of Halham may close for a week, leading to a loss of $12.", ["This would lead to a loss of $12."]),
    ],
)
def test_level_3_gives_facts_their_own_sentences(insight: str, parts: list[str]) -> None:
    assert any(all(part in said for part in parts) for said in ways(insight, 3)), ways(insight, 3)


@pytest.mark.parametrize(
    ("insight", "kept"),
    [
        ("The Demon 170 engines were loud.", "170 engines"),
        ("It rose from $3 to $15 billion.", "from $3 to $15 billion"),
        ("The 25 mills of Rome were closed.", "25 mills"),
        ("He made 3 or 4 pans.", "3 or 4 pans"),
        ("The 2020 games were late, which save 32 pounds.", "which save 32 pounds"),
        ("The firm moved because of 12 floods.", "because of 12 floods"),
        ("In Rome, a third of the voters agree, as a paper says.", "of the voters agree, as a paper"),
        ("According to the baker Ann Hill, kneading dough takes 12 minutes.", "kneading dough takes"),
        ("In Rome, a baker, Ann Hill, was first.", "a baker, Ann Hill, was first"),
        ("If all 3,300 mills close, the town is poor.", "all 3,300 mills"),
        ("The firm built 3,000 mills for Rome and 300 for Halham.", "3,000 mills"),
        ("The firm is getting ready for the launch of a car in 2024.", "a car in 2024"),
        ("The cars running under 9 seconds are banned.", "under 9 seconds"),
        ("The dam was built by Ann Hill, driving a mill and making noise.", "driving a mill and making noise"),
        ("The rain reduces losses when measured in March, driving up costs.", "March, driving up costs"),
    ],
)
def test_level_3_splits_nothing_that_belongs_together(insight: str, kept: str) -> None:
    assert all(kept in said for said in ways(insight, 3))


def test_a_split_date_directly_follows_the_dated_sentence() -> None:
    for said in ways("Ann Hill, a baker from Rome, has owned a mill since March 2020.", 3):
        assert said == (
            "Ann Hill has owned a mill. That has been so since March 2020. Ann Hill is described as a baker from Rome."
        )


def test_level_3_is_two_or_three_sentences() -> None:
    for said in ways("On 3 March 2020, Ann Hill of Rome sold 300 mills for $120 because the dam gave in.", 3):
        assert 2 <= len(split_sentences(said)) <= 4 and {"300", "120", "2020"} <= words_of(said).tokens


@given(insight=st.text(max_size=120), level=st.integers(0, 3), seed=st.integers(0, 5))
def test_any_text_is_paraphrased_without_losing_a_fact(insight: str, level: int, seed: int) -> None:
    said = say(insight, level, seed)
    assert words_of(complete(insight)).facts <= words_of(said).tokens and "\n" not in said


CLAUSES = [
    *(
        "In March 2020",
        "Ann Hill of Rome",
        "sold 1,234 books",
        "on 3 March 2020",
        "because the dam broke",
        ", which was 30 feet high",
    ),
    *(
        ", a baker,",
        "for $12.50",
        "and",
        "when it rained",
        "12.5 percent of",
        "the mills",
        ", causing losses",
        '"so he said"',
        "Halvex Labs",
    ),
]


@given(clauses=st.lists(st.sampled_from(CLAUSES), min_size=1, max_size=7), level=st.integers(1, 3))
def test_clauses_in_any_order_keep_their_facts(clauses: list[str], level: int) -> None:
    insight = " ".join(clauses).replace(" ,", ",")
    said = say(insight, level)
    assert words_of(complete(insight)).facts <= words_of(said).tokens
    assert {token for token in words_of(said).tokens if token[0].isdigit()} == {
        token for token in words_of(insight).tokens if token[0].isdigit()
    }


@pytest.mark.parametrize("level", [1, 2, 3])
def test_released_insights_are_paraphrased_with_all_their_facts(summhay_data: Path, level: int) -> None:
    n_same = n = 0
    for name in ("topic_news1.json", "topic_news2.json"):
        raw = json.loads((summhay_data / name).read_text(encoding="utf-8"))
        for insight in (entry["insight"] for subtopic in raw["subtopics"] for entry in subtopic["insights"]):
            said = say(insight, level)
            assert words_of(complete(insight)).facts <= words_of(said).tokens
            n, n_same = n + 1, n_same + (said == complete(insight))
    assert n > 100 and n_same <= 0.1 * n


@pytest.mark.parametrize(
    ("line", "sentences"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ("Dr. Hill met J. Smith of Hill Inc. today.", ["Dr. Hill met J. Smith of Hill Inc. today."]),
        ('He said: "Go." Then he left.', ['He said: "Go."', "Then he left."]),
        ("It cost $1.50. and so on. 12 left.", ["It cost $1.50. and so on.", "12 left."]),
        ("", []),
    ],
)
def test_sentences_are_split(line: str, sentences: list[str]) -> None:
    assert split_sentences(line) == sentences


def test_numbers_and_names_are_facts() -> None:
    words = words_of("Banks paid 1,234.50 dollars to Ann Hill's firm. Yesterday Rome fell.")
    assert {"1234.50", "ann", "hill", "rome"} <= words.facts and "banks" not in words.facts
    assert {"banks", "yesterday"} <= words.doubtful and "bank" in words.roots and "to" not in words.roots


@pytest.mark.parametrize(
    ("sentence", "lower"),
    [
        ("The dam broke.", "the dam broke."),
        ("Ann Hill left.", "Ann Hill left."),
        ("I left.", "I left."),
        ("300 left.", "300 left."),
        ("NASA left.", "NASA left."),
        ("Analysts left.", None),
        ("...", None),
    ],
)
def test_a_sentence_loses_its_capital_unless_it_is_a_name_s(sentence: str, lower: str | None) -> None:
    assert lower_start(sentence) == lower


def test_a_turn_begins_with_its_speaker() -> None:
    assert (
        speaker_of("Ann Hill: yes.") == "Ann Hill: "
        and speaker_of("No colon here. Ann: yes.") == ""
        and speaker_of(": x") == ""
        and speaker_of('The statement reads: "Yes."') == ""
        and speaker_of('Ann Hill: "Yes."') == "Ann Hill: "
    )
