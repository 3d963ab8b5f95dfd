"""Mining of documents: recurring insights, their documents, and the files that are read."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tickets import FACTS, OPPOSITE, write_tickets

from summhay_ray.mine import Mining, Source, mine, read_folder

pytestmark = pytest.mark.core


def test_recurring_facts_are_found_with_every_document_that_says_them(tmp_path: Path) -> None:
    said = write_tickets(tmp_path)
    sources, unread = read_folder(tmp_path)
    mined, _ = mine(sources, 3)
    found = {frozenset(sources[one.document].document_id for one in insight.evidence) for insight in mined}
    assert not unread
    assert {frozenset(documents) for documents in said.values()} <= found
    assert len(mined) == len(FACTS) + 1, [one.text for one in mined]
    assert [one.confidence for one in mined] == sorted((one.confidence for one in mined), reverse=True)


def test_a_denial_is_an_insight_of_its_own_and_named(tmp_path: Path) -> None:
    said = write_tickets(tmp_path)
    sources, _ = read_folder(tmp_path)
    mined, _ = mine(sources, 3)
    denial = next(one for one in mined if one.text == OPPOSITE)
    (other,) = denial.opposites
    stated = {sources[one.document].document_id for one in mined[other].evidence}
    assert stated == said[FACTS[3][0]]
    assert {sources[one.document].document_id for one in denial.evidence} == {
        f"ticket-{ticket:02d}.txt" for ticket in range(18) if ticket % 5 == 2
    }


def test_a_statement_and_its_denial_in_the_same_words_are_two_insights(tmp_path: Path) -> None:
    write_tickets(tmp_path)
    stated, denied = "The March invoice of Orbis is paid.", "The March invoice of Orbis is not paid."
    for number, ticket in enumerate(sorted(tmp_path.iterdir())[:6]):
        ticket.write_text(f"{ticket.read_text(encoding='utf-8')}\n\n{stated if number % 2 else denied}", encoding="utf-8")
    mined, _ = mine(read_folder(tmp_path)[0], 3)
    found = {
        one.text: ({evidence.document for evidence in one.evidence}, one.opposites) for one in mined if "Orbis is" in one.text
    }
    places = {one.text: place for place, one in enumerate(mined)}
    assert found == {stated: ({1, 3, 5}, (places[denied],)), denied: ({0, 2, 4}, (places[stated],))}


def test_tickets_of_one_template_say_the_same_only_with_the_same_numbers() -> None:
    lots = random.Random(3)
    text = "Client {} reports that the printer in hall {} stopped after {} labels. The repair by Rod took {} minutes, free."
    closed = [lots.randint(1, 150) for _ in range(400)]
    tickets = [text.format(lots.randint(100, 999), lots.randint(1, 9), lots.randint(151, 900), minutes) for minutes in closed]
    mined, _ = mine([Source(str(place), ticket) for place, ticket in enumerate(tickets)], 3)
    said = {f"The repair by Rod took {minutes} minutes, free.": minutes for minutes in closed}
    assert len(mined) > 20 and {one.text for one in mined} <= said.keys()
    for one in mined:
        assert {evidence.document for evidence in one.evidence} == {
            place for place, minutes in enumerate(closed) if minutes == said[one.text]
        }


@pytest.mark.soak
def test_a_block_takes_no_longer_in_a_folder_of_more_documents_of_few_words() -> None:
    lots = random.Random(1)
    words = [f"{first}{last}rk" for first in "bdfgklmnpt" for last in ("a", "e", "i", "o", "u", "ar", "er", "ir", "or", "ur")]

    def block(documents: int) -> float:
        sentences = [" ".join(lots.choices(words, k=lots.randint(6, 12))).capitalize() for _ in range(3 * documents)]
        texts = [". ".join(sentences[at : at + 3]) + "." for at in range(0, len(sentences), 3)]
        mining = Mining([Source(str(place), text) for place, text in enumerate(texts)], 3)
        taken = []
        # The first block waits until all are read.
        for step in mining.comparing[:4]:
            began = time.process_time()
            mining.do(step)
            taken.append(time.process_time() - began)
        return min(taken)

    # In the larger folder, each word is in more than a thousand sentences.
    few, many = block(1200), block(4800)
    assert many < 1.3 * few


def test_equal_documents_count_once_and_all_hold_the_insight() -> None:
    fact = "The nightly export to Orbis fails when a customer has more than 512 orders."
    others = ["Sabine asked for a second monitor and collects it.", "The kettle was blamed first, wrongly as it turned out."]
    texts = [fact, fact, fact, *others]
    assert mine([Source(str(place), text) for place, text in enumerate(texts)], 3)[0] == []
    told = [f"{fact} {word} saw it." for word in ("Marek", "Ilse", "Sabine")]
    mined, copies = mine([Source(str(place), text) for place, text in enumerate([*told, told[0], *others])], 3)
    assert copies == [(3, 0)]
    assert [one.document for one in mined[0].evidence] == [0, 3, 1, 2] or {one.document for one in mined[0].evidence} == {
        0,
        1,
        2,
        3,
    }


def test_every_format_is_read_and_unreadable_files_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/note.md").write_text("# Title\n\nA note.", encoding="utf-8")
    (tmp_path / "page.html").write_text("<title>T</title><script>no()</script><p>A &amp; B.</p><nav>menu</nav>", encoding="utf-8")
    (tmp_path / "rows.csv").write_text("id,title,text\n7,Head,Body\n,,Plain\n", encoding="utf-8")
    (tmp_path / "semicolons.csv").write_text("id;text\n8;Half, and half.\n", encoding="utf-8")
    lines = [json.dumps({"id": "x", "text": "One."}), "{broken", json.dumps({"title": "no text"})]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "empty.txt").write_text(" \n", encoding="utf-8")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\0\0")
    (tmp_path / "old.txt").write_bytes(b"caf\xe9")
    (tmp_path / "link.txt").symlink_to("/etc/hostname")
    # A StoreError, or a failure without the converter: never text.
    (tmp_path / "paper.pdf").write_bytes(b"%PDF-1.4 nothing")
    sources, unread = read_folder(tmp_path)
    texts = {source.document_id: source.text for source in sources}
    assert texts == {
        "a/note.md": "# Title\n\nA note.",
        "lines.jsonl#x": "One.",
        "page.html": "# T\n\nA & B.",
        "rows.csv#7": "Head\nBody",
        "rows.csv#2": "Plain",
        "semicolons.csv#8": "Half, and half.",
    }
    assert {one.document_id: one.error for one in unread} == {
        "empty.txt": "empty",
        "lines.jsonl#2": "row",
        "lines.jsonl#3": "row",
        "link.txt": "outside",
        "old.txt": "encoding",
        "paper.pdf": "converter",
        "picture.png": "binary",
    }


def test_a_beir_corpus_keeps_its_ids_and_long_documents_are_cut_where_asked(tmp_path: Path) -> None:
    rows = [{"_id": "d1", "title": "T", "text": "A sentence. " * 100}, {"_id": "d2", "text": "Short."}]
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "Q?"}), encoding="utf-8")
    assert [source.document_id for source in read_folder(tmp_path)[0]] == ["d1", "d2"]
    parts = [source.document_id for source in read_folder(tmp_path, 100)[0]]
    assert parts == ["d1#1", "d1#2", "d1#3", "d1#4", "d2"] or (parts[0] == "d1#1" and parts[-1] == "d2")


def test_a_document_that_would_take_too_much_memory_is_reported_before_it_is_cut(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("A log line.\n" * 9_000_000, encoding="utf-8")
    (tmp_path / "short.txt").write_text("A note.", encoding="utf-8")
    sources, unread = read_folder(tmp_path, 1000)
    assert [one.document_id for one in sources] == ["short.txt"]
    assert [(one.document_id, one.error) for one in unread] == [("long.txt", "too_long")] and "108 million" in unread[0].message


@given(st.lists(st.text(max_size=200), max_size=6))
def test_any_texts_can_be_mined(texts: list[str]) -> None:
    mined, _ = mine([Source(str(place), text) for place, text in enumerate(texts)], 2)
    for insight in mined:
        assert len({one.document for one in insight.evidence}) >= 2
        assert 0 < insight.confidence <= 1
