"""The audit sheet: it shows no answers, is safe in a spreadsheet, and is read back unchanged. Tables 4 and 5."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from summhay_ray.errors import UserError
from summhay_ray.synth.audit import (
    COLUMNS,
    Assigned,
    AuditRow,
    Labels,
    Present,
    audit_sample,
    audit_tables,
    read_audit,
    write_audit,
)
from summhay_ray.text import unquoted

pytestmark = pytest.mark.core

Sheet = list[dict[str, str]]


def raw(name: str = "h", domain: str = "news", **texts: str) -> dict[str, Any]:
    """A haystack with two subtopics of two insights each and a distractor, and two documents of three insights each."""
    subtopics = [
        {
            "subtopic_id": f"s{number}",
            "subtopic": f"Subtopic {number}",
            "query": "?",
            "insights": [
                {"insight_id": f"s{number}i{place}", "insight": texts.get(f"s{number}i{place}", f"Insight {number}.{place}")}
                for place in (1, 2)
            ],
        }
        for number in (1, 2, 3)
    ]
    subtopics[2]["insights"][0]["documents"] = ["d2"]  # type: ignore[index]
    documents = [
        {"document_id": "d1", "document_text": "First text.", "insights_included": ["s1i1", "s1i2", "s2i1"]},
        {"document_id": "d2", "document_text": "Second text.", "insights_included": ["s2i1", "s2i2"]},
    ]
    metadata = {"domain": domain, "synthesis": {"distractors": [subtopics.pop()]}}
    return {"topic_id": name, "topic": "T", "topic_metadata": metadata, "subtopics": subtopics, "documents": documents}


def sheet(path: Path) -> Sheet:
    return list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline="")))


def save(path: Path, rows: Sheet, delimiter: str = ",", encoding: str = "utf-8-sig") -> None:
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, rows[0].keys() if rows else COLUMNS, delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    path.write_bytes(buffer.getvalue().encode(encoding))


def truth(row: AuditRow) -> str:
    """The right answer, from the names in `raw`: `Insight 2.1` belongs to the second subtopic."""
    if row.kind == "insight_subtopic":
        return row.insight.removeprefix("Insight ")[0]
    held = {"First text.": ("1.1", "1.2", "2.1"), "Second text.": ("2.1", "2.2", "3.1")}[row.text]
    return "yes" if row.insight.endswith(held) else "no"


def labelled(path: Path, raws: list[dict[str, Any]], **changed: str) -> Sheet:
    """A sheet about everything with right answers, except for the given rows (`r3`)."""
    rows = audit_sample(raws, 100, 100, seed=3)
    write_audit(path, rows)
    answered = sheet(path)
    for number, (row, record) in enumerate(zip(rows, answered, strict=True), 1):
        record["answer"] = changed.get(f"r{number}", truth(row))
    save(path, answered)
    return answered


def test_the_sample_asks_about_insights_and_documents() -> None:
    rows = audit_sample([raw("one"), raw("two", "talk")], 4, 2, seed=1)
    assert [row.kind for row in rows] == ["insight_subtopic"] * 4 + ["document_insight"] * 12
    # Divided evenly: two insights and a document of each.
    assert [row.haystack for row in rows[:4]] == ["one", "one", "two", "two"]
    assert {(row.haystack, row.domain) for row in rows[4:]} == {("one", "news"), ("two", "talk")}
    assert rows[0].subtopics == "1. Subtopic 1\n2. Subtopic 2\n3. Subtopic 3"


def test_a_document_s_own_insights_are_all_asked_about_and_others_too() -> None:
    rows = audit_sample([raw()], 0, 2, seed=1)
    for text in ("First text.", "Second text."):
        answers = [truth(row) for row in rows if row.text == text]
        # Three of the six insights are in each document; in the second one of them is a distractor's.
        assert sorted(answers) == ["no", "no", "no", "yes", "yes", "yes"]


@pytest.mark.parametrize(("held", "others"), [(1, 2), (2, 4), (3, 5), (5, 9), (11, 20)])
def test_the_share_of_present_insights_is_the_paper_s(held: int, others: int) -> None:
    """55 of 155, that is 11 of 31, as near as whole questions allow."""
    made = raw()
    many = [{"insight_id": f"i{number}", "insight": f"Insight {number}"} for number in range(40)]
    made["subtopics"][0]["insights"] = many
    made["documents"] = [{**made["documents"][0], "insights_included": [one["insight_id"] for one in many[:held]]}]
    rows = audit_sample([made], 0, 1, seed=1)
    known = {one["insight"] for one in many[:held]}
    assert len(rows) == held + others and len({row.insight for row in rows}) == len(rows)
    assert sum(row.insight in known for row in rows) == held
    assert held / len(rows) == pytest.approx(55 / 155, abs=0.025)


def test_the_sheet_shows_no_expected_answer(tmp_path: Path) -> None:
    rows = audit_sample([raw()], 6, 2, seed=1)
    write_audit(tmp_path / "a.csv", rows)
    text = (tmp_path / "a.csv").read_text(encoding="utf-8-sig")
    assert text.splitlines()[0] == ",".join(COLUMNS)
    for hidden in ("s1i1", "s2i2", "insights_included", "expected"):
        assert hidden not in text
    assert all(record["answer"] == "" and record["question"] for record in sheet(tmp_path / "a.csv"))


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
def test_a_sheet_saved_by_a_spreadsheet_is_read(tmp_path: Path, delimiter: str, encoding: str) -> None:
    answered = labelled(tmp_path / "a.csv", [raw()])
    reduced = [{"answer": f" {row['answer'].upper()} ", "note": "ok", "row": row["row"]} for row in reversed(answered)]
    save(tmp_path / "a.csv", [*reduced, {"answer": "", "note": "", "row": ""}], delimiter, encoding)
    labels = read_audit(tmp_path / "a.csv", [raw()])
    assert all(label.said == label.expected for label in labels.documents)


@pytest.mark.parametrize(
    ("answer", "chosen"),
    [("2", (1,)), ("1, 3", (0, 2)), ("3;1", (0, 2)), ("1 and 2", (0, 1)), ("0", ()), ("2,2", (1,)), ("3.0", (2,)), ("1.", (0,))],
)
def test_an_answer_may_name_several_subtopics_or_none(tmp_path: Path, answer: str, chosen: tuple[int, ...]) -> None:
    labelled(tmp_path / "a.csv", [raw()], r1=answer)
    assert read_audit(tmp_path / "a.csv", [raw()]).insights[0].chosen == chosen


@pytest.mark.parametrize(
    ("row", "answer", "said"),
    [
        (1, "4", "row 2, column answer: '4' is not a subtopic; write a number from 1 to 3"),
        (1, "first", "row 2, column answer: 'first' is not a subtopic"),
        (1, "0, 1", "row 2, column answer: '0, 1' says none and another"),
        (2, "", "row 3, column answer: it is empty"),
        (7, "perhaps", "row 8, column answer: 'perhaps' is neither yes nor no; write yes or no"),
        (7, "", "row 8, column answer: '' is neither yes nor no"),
    ],
)
def test_an_unreadable_answer_is_refused(tmp_path: Path, row: int, answer: str, said: str) -> None:
    labelled(tmp_path / "a.csv", [raw()], **{f"r{row}": answer})
    with pytest.raises(UserError) as problem:
        read_audit(tmp_path / "a.csv", [raw()])
    assert said in str(problem.value) and "\n" not in str(problem.value)


def test_edited_ids_missing_rows_and_duplicates_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    answered = labelled(path, [raw()])
    whole = [row["row"] for row in answered]
    cases = {
        "is not an id of this sheet": [{**answered[0], "row": whole[0][:-1]}, *answered[1:]],
        "belongs to no haystack": [{**answered[0], "row": whole[0].split("-")[0] + "-" + "0" * 16}, *answered[1:]],
        "row 2, column row": [{**answered[0], "row": "r99of18-" + "0" * 16}, *answered[1:]],
        "row 5 of 18 is missing": answered[:4] + answered[5:],
        "is a duplicate of row 2": [*answered, answered[0]],
    }
    for said, rows in cases.items():
        save(path, rows)
        with pytest.raises(UserError, match="a.csv") as problem:
            read_audit(path, [raw()])
        assert said in str(problem.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no column 'row'"),
        (b"row,kind\nr1of1-0123456789abcdef,x\n", "has no column 'answer'"),
        (b"row,answer\n", "row 1 of the sheet is missing"),
        (b"\xff\xfe\x00r", "cannot be read"),
    ],
)
def test_a_file_that_is_not_a_sheet_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(UserError) as problem:
        read_audit(tmp_path / "a.csv", [raw()])
    assert said in str(problem.value)
    with pytest.raises(UserError, match="cannot be read"):
        read_audit(tmp_path / "none.csv", [raw()])


def test_labels_of_other_texts_are_refused(tmp_path: Path) -> None:
    labelled(tmp_path / "a.csv", [raw()])
    other = raw()
    other["documents"][0]["document_text"] = "Another text of the same insights."
    with pytest.raises(UserError, match="belongs to no haystack of this run"):
        read_audit(tmp_path / "a.csv", [other])


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_texts_survive_the_sheet(tmp_path_factory: pytest.TempPathFactory, one: str, other: str) -> None:
    path = tmp_path_factory.mktemp("sheet") / "a.csv"
    made = raw(s1i1=one, s3i1=other)
    rows = audit_sample([made], 100, 100, seed=2)
    write_audit(path, rows)
    records = sheet(path)
    for row, record in zip(rows, records, strict=True):
        assert unquoted(record["insight"]).encode("utf-8", "replace") == row.insight.encode("utf-8", "replace")
        assert not record["insight"].startswith(tuple("=+-@\t\r"))
        record["answer"] = "1" if row.kind == "insight_subtopic" else "no"
    save(path, records)
    assert len(read_audit(path, [made]).documents) == 12


def test_a_long_document_survives_the_sheet(tmp_path: Path) -> None:
    made = raw()
    for document in made["documents"]:
        document["document_text"] = "word " * 60_000
    rows = audit_sample([made], 0, 2, seed=2)
    write_audit(tmp_path / "a.csv", rows)
    limit = csv.field_size_limit(10**7)
    try:
        records = sheet(tmp_path / "a.csv")
        for record in records:
            record["answer"] = "no"
        save(tmp_path / "a.csv", records)
    finally:
        csv.field_size_limit(limit)
    assert len(read_audit(tmp_path / "a.csv", [made]).documents) == 12
    assert csv.field_size_limit() == limit


def counts(domain: str, both: int, neither: int, missed: int) -> list[Present]:
    """Labels with these numbers of true positives, true negatives and misses."""
    shapes = [(True, True)] * both + [(False, False)] * neither + [(True, False)] * missed
    return [Present("h", domain, "d", "i", expected, said) for expected, said in shapes]


def test_table_5_as_the_paper_has_it() -> None:
    """Conversation: 16 of 20 found, among 70 samples; news: 34 of 35, among 85; no false positives."""
    labels = Labels((), (*counts("conversation", 16, 50, 4), *counts("news", 34, 50, 1)))
    rows = {row.pop("domain"): tuple(row.values()) for row in audit_tables(labels)["document_insight"]}
    assert rows["conversation"] == (70, 20, 94.29, 100.0, 80.0, 88.89)
    assert rows["news"] == (85, 35, 98.82, 100.0, 97.14, 98.55)
    assert rows["all"] == (155, 55, 96.77, 100.0, 90.91, 95.24)


def test_table_4_as_the_paper_has_it() -> None:
    """Conversation: 102 of 114 right, one assigned to two subtopics; news: 121 of 131, one assigned to two."""
    right = [Assigned("h", "conversation", "i", 1, (1,))] * 101 + [Assigned("h", "conversation", "i", 1, (1, 2))]
    wrong = [Assigned("h", "conversation", "i", 1, (0,))] * 12
    news = (
        [Assigned("h", "news", "i", 0, (0,))] * 121
        + [Assigned("h", "news", "i", 0, (1, 2))]
        + [Assigned("h", "news", "i", 0, ())] * 9
    )
    rows = {
        row.pop("domain"): tuple(row.values()) for row in audit_tables(Labels((*right, *wrong, *news), ()))["insight_subtopic"]
    }
    assert rows["conversation"] == (114, 0.88, 89.47)
    assert rows["news"] == (131, 0.76, 92.37)
    assert rows["all"] == (245, 0.82, 91.02)
