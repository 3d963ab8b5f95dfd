"""offline/writer's answers about texts (overlaps, duplicates, subtopics, leaks, presence), its edits, and its refusals."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from writer_asking import DOMAINS, ask, listed, outline, say, write

from summhay_ray.llm import Request
from summhay_ray.synth.kinds import Task
from summhay_ray.synth.writer import OfflineWriter, read_input, seeded, task_of, with_input
from summhay_ray.synth.writer.reading import text_of
from summhay_ray.synth.writer.sentences import words_of

pytestmark = pytest.mark.core

DAM = "Halvex Labs paid $1.20 million for a dam in Halham."
MILL = "Ann Hill sold 300 mills on 3 March 2020."


def test_overlapping_subtopics_are_named_by_their_ids() -> None:
    texts = ["Court verdicts and lawsuits", "River dams", "Lawsuits and the court", "Grain prices"]
    assert ask("overlapping_subtopics", subtopics=listed(texts)) == {"overlaps": [[1, 3]]}


@pytest.mark.parametrize("domain", DOMAINS)
def test_an_invented_outline_has_neither_overlaps_nor_duplicates(domain: str) -> None:
    found = outline(domain)
    assert ask("overlapping_subtopics", domain=domain, subtopics=listed(list(found))) == {"overlaps": []}
    everything = [text for insights in found.values() for text in insights]
    assert ask("duplicate_insights", domain=domain, insights=listed(everything)) == {"duplicates": []}


def test_duplicates_share_their_facts_and_conflicts_do_not() -> None:
    otherwise = ask("conflicting_insight", subtopic="x", insight=DAM)["insight"]
    texts = [DAM, MILL, otherwise, "For a dam in Halham, $1.20 million was paid by Halvex Labs."]
    assert ask("duplicate_insights", insights=listed(texts)) == {"duplicates": [[1, 4]]}


@pytest.mark.parametrize("domain", DOMAINS)
def test_each_insight_is_assigned_to_its_subtopic_blind(domain: str) -> None:
    found = outline(domain)
    subtopics = listed(list(found))
    for place, insights in enumerate(found.values(), 1):
        for insight in insights:
            assert ask("assign_subtopic", domain=domain, subtopics=subtopics, insight=insight) == {"subtopic": place}


def test_an_insight_of_no_subtopic_is_assigned_to_none() -> None:
    assert ask("assign_subtopic", subtopics=listed(["River dams"]), insight="Ann bakes bread.") == {"subtopic": None}


@pytest.mark.parametrize(
    ("query", "leaked"),
    [
        ("What is said about dams?", []),
        ("What did Halvex Labs do about dams?", [1]),
        ("Who paid $1.20 million?", [1]),
        ("Who sold mills in March?", [2]),
    ],
)
def test_a_query_leaks_what_it_shares_beyond_its_subtopic(query: str, leaked: list[int]) -> None:
    assert ask("query_leaks", query=query, subtopic="Dams and their prices", insights=listed([DAM, MILL])) == {"leaked": leaked}


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("domain", DOMAINS)
def test_insights_of_a_document_are_found_with_their_sentences(domain: str, level: int) -> None:
    everything = [text for insights in outline(domain).values() for text in insights]
    told = everything[level::11]
    document = write(domain, told, paraphrase=level)
    present = ask("insights_present", domain=domain, document=document, insights=listed(everything))["present"]
    assert [everything[entry["id"] - 1] for entry in present] == told
    for entry in present:
        assert words_of(everything[entry["id"] - 1]).facts <= words_of(entry["evidence"]).tokens
        assert all(part in document for part in text_of(entry["evidence"]).sentences)


def test_a_conflicting_insight_is_not_taken_for_the_insight() -> None:
    otherwise = ask("conflicting_insight", subtopic="x", insight=DAM)["insight"]
    document = write("news", [DAM], paraphrase=2)
    found = ask("insights_present", document=document, insights=listed([DAM, otherwise]))["present"]
    assert [entry["id"] for entry in found] == [1]


def test_an_insight_without_a_fact_is_found_by_its_words() -> None:
    vague = "Students recommend short breaks between long sessions of study."
    assert ask("insights_present", document=f"Well.\n{vague}", insights=listed([vague]))["present"][0]["evidence"] == vague
    assert ask("insights_present", document="Students like study.", insights=listed([vague])) == {"present": []}


def tells(sentence: str, insight: str) -> bool:
    """Whether the sentence has a fact of the insight, or half of its words are the insight's."""
    words, told = words_of(sentence), words_of(insight)
    return bool(told.facts & words.tokens) or 2 * len(words.roots & told.roots) >= len(words.roots)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
@pytest.mark.parametrize("domain", DOMAINS)
def test_an_edit_removes_adds_and_keeps_the_rest(domain: str, level: int) -> None:
    insights = [texts[0] for texts in outline(domain).values()]
    kept, removed, added = insights[:3], insights[3:5], insights[5:7]
    document = write(domain, kept + removed, paraphrase=level)
    present = ask("insights_present", document=document, insights=listed(insights))["present"]
    evidence = {entry["id"]: entry["evidence"] for entry in present}
    # Half of the evidence is no quotation, and the insights must be removed nevertheless.
    remove = [{"id": 4, "text": removed[0], "evidence": evidence[4]}, {"id": 5, "text": removed[1], "evidence": ""}]
    fields = {"words": 300, "genre": "", "tone": "", "paraphrase": level, "participants": []}
    edited = say("edit_document", domain=domain, document=document, remove=remove, add=listed(added), **fields)
    read = text_of(edited)
    assert [insight for insight in insights if read.find(insight)] == kept + added
    before, after = text_of(document).sentences, set(read.sentences)
    lost = [sentence for sentence in before if sentence not in after]
    assert len(lost) <= 8 and all(any(tells(sentence, insight) for insight in removed) for sentence in lost)


def edit(document: str, remove: list[dict[str, object]], add: list[str], level: int = 0) -> str:
    return say("edit_document", document=document, remove=remove, add=listed(add), words=50, paraphrase=level, participants=[])


def test_an_emptied_turn_is_removed_and_blank_lines_stay() -> None:
    document = "Ann: Yes. No.\n\nBob: It cost $12."
    assert edit(document, [{"id": 1, "text": "It cost $12.", "evidence": "it cost $12"}], []) == "Ann: Yes. No.\n"
    assert edit(document, [], []) == document


def test_added_insights_are_in_the_text_once() -> None:
    for document in ("Ann: Yes. No.\nBob: Maybe.", "Ann: Yes.", "A headline", ""):
        edited = edit(document, [], ["It cost $12."])
        assert edited.count("It cost $12.") == 1 and len(edited) >= len(document)


def test_an_insight_stated_only_in_part_is_removed() -> None:
    document = "One. Halvex Labs built a dam near Halham. Two."
    assert edit(document, [{"id": 1, "text": DAM, "evidence": "not a quotation"}], []) == "One. Two."


TASKS = set(Task.__args__)  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", sorted(TASKS))
def test_a_missing_field_is_refused_by_name(task: str) -> None:
    with pytest.raises(LookupError, match="expected|lacks"):
        say(task)


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ("Summarize this.", "no line 'Input:'"),
        ("Input: {}", "no line 'Input:'"),
        ("x\nInput:\n", "not one JSON object"),
        ("x\nInput:\n{} {}", "not one JSON object"),
        ("x\nInput:\n[1]", "is a list"),
        ('x\nInput:\n{"task": "sing"}', "'sing'"),
        ("x\nInput:\n" + "[" * 100_000, "not one JSON object"),
    ],
)
def test_other_prompts_are_refused(prompt: str, message: str) -> None:
    assert task_of(prompt) is None
    with pytest.raises(LookupError, match=message):
        OfflineWriter().answer(Request("offline/writer", prompt))


@pytest.mark.parametrize("fields", [{"n": -1}, {"n": "3"}, {"n": True}, {"n": 3, "avoid": [7]}, {"n": 3, "avoid": "x"}])
def test_fields_of_another_type_are_refused(fields: dict[str, object]) -> None:
    with pytest.raises(LookupError, match="expected|lacks"):
        say("subtopics", **fields)


def test_the_last_input_of_a_prompt_is_read() -> None:
    first, last = {"task": "query", "subtopic": "Input:\nx"}, {"task": "document", "words": 3}
    prompt = f"Example:\nInput:\n{json.dumps(first)}\n\nInput: is below.\n Input: \r\n{json.dumps(last, indent=1)}\n"
    assert read_input(prompt) == last and task_of(prompt) == "document"
    changed = with_input(prompt, first)
    assert read_input(changed) == first and changed.startswith("Example:") and "Input: is below." in changed


@given(prompt=st.text(), fields=st.dictionaries(st.text(), st.text()))
def test_any_prompt_is_recognized_or_not(prompt: str, fields: dict[str, str]) -> None:
    whole = f"{prompt}\nInput:\n{json.dumps({**fields, 'task': 'query'})}"
    assert task_of(whole) == "query" and read_input(whole) == {**fields, "task": "query"}
    assert task_of(prompt) is None or "Input:" in prompt


def test_the_writer_s_name_and_revision() -> None:
    assert (OfflineWriter.name, OfflineWriter.revision) == ("offline/writer", "3")
    assert OfflineWriter.answer.__doc__ and "English" in (OfflineWriter.__doc__ or "")


def test_answers_are_the_same_on_every_machine() -> None:
    assert seeded("a", "b").random() != seeded("ab").random() == seeded("ab").random()
    answers = [say("subtopics", domain=domain, n=9) + write(domain, [DAM, MILL], paraphrase=3) for domain in DOMAINS]
    digest = hashlib.sha256("\n".join(answers).encode("utf-8")).hexdigest()
    # Where this changes, raise the writer's revision: stored answers of the old one would be taken for the new one's.
    assert (OfflineWriter.revision, digest[:16]) == ("3", "0554013db42499fd")
