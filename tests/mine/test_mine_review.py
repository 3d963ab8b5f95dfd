"""A review sheet: an edit of any cell changes only its own value, or is refused with its row and column."""

from __future__ import annotations

import contextlib
import csv
import datetime
import functools
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from summhay_ray.errors import UserError
from summhay_ray.mine import (
    COLUMNS,
    Decision,
    carried,
    check_columns,
    decided,
    decisions_of,
    group_insights,
    haystack_json,
    kept_insights,
    mine,
    read_cells,
    read_folder,
    review_rows,
    reviewed,
    write_cells,
)

pytestmark = pytest.mark.core

TICKETS = Path(__file__).resolve().parents[2] / "examples" / "tickets"
STATE = "m0@0"
NASTY = ("July 2021", "=1+1", "007", "a|b", "Zürich – 東京", "'quoted", " two  spaces ", "x" * 40_000, "\x00\x0b", "1,5", "no")


def mined(extra: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The example's haystack, with given documents."""
    sources, _ = read_folder(TICKETS)
    sources += [type(sources[0])(name, text) for name, text in (extra or {}).items()]
    found, _ = mine(sources, 3)
    grouped = group_insights([one.text for one in found], "tickets")
    return json.loads(json.dumps(haystack_json(sources, found, grouped, "tickets", {"run": "m0"})))


@functools.cache
def example() -> dict[str, Any]:
    """The example's haystack; the name of its last subtopic looks like a date to spreadsheets."""
    raw = mined({"odd | name.txt": "Nothing recurs here.", "2021-07-22": "Nor here, whatever it says."})
    raw["subtopics"][-1]["subtopic"] = "July 2021"
    return raw


def facts(raw: Mapping[str, Any]) -> dict[tuple[str, str], Any]:
    """The content of a haystack, piece by piece."""
    found: dict[tuple[str, str], Any] = {}
    for part in raw["subtopics"]:
        for one in part["insights"]:
            key = one["insight_id"]
            found |= {(key, "insight"): one["insight"], (key, "subtopic"): part["subtopic"], (key, "query"): part["query"]}
            found[key, "documents"] = sorted(held["document_id"] for held in one["evidence"])
            held = [document["document_id"] for document in raw["documents"] if key in document["insights_included"]]
            assert sorted(held) == found[key, "documents"]
    assert sorted(one["rank"] for one in kept_insights(raw)) == [*range(1, len(kept_insights(raw)) + 1)]
    return found


def sheet(folder: Path, rows: list[dict[str, str]], kind: str) -> Path:
    """The rows as a spreadsheet saves them: rows and columns in another order, with empty ones at the end."""
    path = folder / f"sheet{kind.partition(' ')[0]}"
    path.unlink(missing_ok=True)
    if kind == ".xlsx":
        write_cells(path, COLUMNS, rows)
        return path
    write_cells(path, COLUMNS, rows)
    lines = [*csv.reader(io.StringIO(path.read_bytes().decode("utf-8-sig"), newline=""))]
    lines = [[line[-1], *line[:-1], ""] for line in [lines[0], *lines[:0:-1], [""] * len(COLUMNS)]]
    buffer = io.StringIO(newline="")
    csv.writer(buffer, delimiter=kind[-1]).writerows(lines)
    path.write_bytes(buffer.getvalue().encode("utf-16" if kind[-1] == "\t" else "utf-8-sig"))
    return path


def after(path: Path, shown: list[Decision] | None = None, raw: Mapping[str, Any] | None = None) -> list[Decision]:
    """The decisions on a sheet."""
    columns, rows = read_cells(path)
    check_columns(str(path), COLUMNS, columns, rows)
    return decided(rows, raw or example(), shown or [], STATE, str(path))


KINDS = st.sampled_from([".csv ,", ".csv ;", ".csv \t", ".xlsx"])
TEXTS = st.one_of(st.sampled_from(NASTY), st.text(max_size=30))


@settings(max_examples=8, deadline=None)
@given(kind=KINDS)
def test_a_sheet_without_edits_changes_nothing(tmp_path_factory: pytest.TempPathFactory, kind: str) -> None:
    raw, folder = example(), tmp_path_factory.getbasetemp()
    assert after(sheet(folder, review_rows(raw, [], STATE), kind)) == []
    rows = review_rows(raw, [], STATE)
    rows[0] |= {"insight": "'=Other, as of July 2021", "documents": "odd | name.txt | 2021-07-22", "query": "Why in 2021?"}
    rows[1]["keep"], rows[2]["merge_into"] = "no", rows[3]["insight_id"]
    decisions = after(sheet(folder, rows, kind))
    assert decisions_of(reviewed(raw, decisions)) == decisions
    assert after(sheet(folder, review_rows(raw, decisions, STATE), kind), decisions) == decisions


@settings(max_examples=60, deadline=None)
@given(kind=KINDS, place=st.integers(0, 8), column=st.sampled_from(COLUMNS), data=st.data())
def test_an_edit_of_any_cell_changes_that_alone_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, kind: str, place: int, column: str, data: st.DataObject
) -> None:
    raw = example()
    rows = review_rows(raw, [], STATE)
    names = [document["document_id"] for document in raw["documents"]]
    some = {
        "documents": st.lists(st.sampled_from(names), min_size=1, max_size=4).map(" | ".join),
        "keep": st.sampled_from(["no", "yes", "No", "x"]),
        "merge_into": st.sampled_from([row["insight_id"] for row in rows]),
        "subtopic": st.sampled_from([part["subtopic"] for part in raw["subtopics"]]),
    }
    text = data.draw(st.one_of(some.get(column, TEXTS), TEXTS))
    before, insight_id = facts(raw), rows[place]["insight_id"]
    home = {key for key, name in before if name == "subtopic" and before[key, name] == rows[place]["subtopic"]}
    unchanged = " ".join(text.split()) == " ".join(rows[place][column].split())
    if column == "rank":
        # A spreadsheet may write a number in another form.
        with contextlib.suppress(ValueError):
            unchanged = float(" ".join(text.split()).replace(",", ".")) == float(rows[place][column])
    rows[place][column] = text
    path = sheet(tmp_path_factory.getbasetemp(), rows, kind)
    try:
        decisions = after(path)
    except UserError as error:
        assert str(error).startswith(str(path)) and ("column" in str(error) or "is missing" in str(error))
        return
    made = facts(reviewed(raw, decisions))
    changed = {key for key in before.keys() | made.keys() if before.get(key) != made.get(key)}
    said = " ".join(text.split())
    if unchanged:
        assert not changed and not decisions
    elif column == "keep":
        assert {key for key, _ in changed} == ({insight_id} if said.lower() in ("no", "n", "0", "false") else set())
    elif column == "merge_into":
        assert {key for key, _ in changed} <= {insight_id, said} and (insight_id, "insight") not in made
        assert set(before[insight_id, "documents"]) <= set(made[said, "documents"])
    elif column in ("subtopic", "query"):
        assert changed and {name for _, name in changed} <= {column, *(["query"] if column == "subtopic" else [])}
        assert {key for key, _ in changed} <= home
        assert not said.isprintable() or made[insight_id, column].strip("'").startswith(said.strip("'")[:20])
    elif column in ("insight", "documents"):
        assert changed == {(insight_id, column)}
    else:
        assert column == "note" and not changed and decisions[0].note


@pytest.mark.parametrize(
    ("edits", "column"),
    [
        ({0: {"keep": "perhaps"}}, "keep"),
        ({0: {"keep": "no", "insight": "Reworded and struck."}}, "insight"),
        ({0: {"merge_into": "0123456789ab"}}, "merge_into"),
        ({0: {"rank": "2"}}, "rank"),
        ({0: {"evidence": ""}}, "evidence"),
        ({0: {"documents": "ticket-98.txt"}}, "documents"),
        ({0: {"documents": ""}}, "documents"),
        ({9: {"insight": "Added.", "documents": "ticket-00.txt", "subtopic": "New"}}, "query"),
        ({9: {"insight": "Added.", "subtopic": "New", "query": "What?"}}, "documents"),
        ({9: {"insight": "Added.", "documents": "ticket-00.txt", "subtopic": "New", "query": "?", "keep": "no"}}, "keep"),
        ({0: {"run": "m1@0"}}, "run"),
        ({0: {"insight_id": ""}}, "rank"),
    ],
)
def test_what_cannot_be_taken_is_refused_by_row_and_column(tmp_path: Path, edits: dict[int, dict[str, str]], column: str) -> None:
    rows = [*review_rows(example(), [], STATE), dict.fromkeys(COLUMNS, "")]
    for place, cells in edits.items():
        rows[place] |= cells
    write_cells(tmp_path / "s.csv", COLUMNS, rows)
    with pytest.raises(UserError, match=rf"s\.csv row {min(edits) + 2}, column {column}: "):
        after(tmp_path / "s.csv")


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"query": "A?"}, {"query": "B?"}, "column query: row .* a subtopic has one query"),
        ({"subtopic": "A"}, {"subtopic": "B"}, "column subtopic: .* is 'A' in another row"),
        ({"merge_into": 1}, {"keep": "no"}, "column merge_into: .* is struck"),
        ({"merge_into": 1}, {"merge_into": 0}, "column merge_into: .* merged into this one"),
        ({"insight": "The same."}, {"insight": "The same."}, "column insight: is the text of"),
    ],
)
def test_rows_that_disagree_are_refused(tmp_path: Path, first: dict[str, Any], second: dict[str, Any], said: str) -> None:
    whole = max(example()["subtopics"], key=lambda part: len(part["insights"]))
    ids = [one["insight_id"] for one in whole["insights"]]
    rows = {row["insight_id"]: row for row in review_rows(example(), [], STATE)}
    for place, edits in enumerate((first, second)):
        rows[ids[place]] |= {name: ids[value] if isinstance(value, int) else value for name, value in edits.items()}
    write_cells(tmp_path / "s.csv", COLUMNS, [*rows.values()])
    with pytest.raises(UserError, match=said):
        after(tmp_path / "s.csv")


def test_a_sheet_that_lacks_rows_or_columns_is_refused(tmp_path: Path) -> None:
    rows = review_rows(example(), [], STATE)
    cases = [
        (COLUMNS, rows[1:], "is missing; put it back"),
        (COLUMNS, [*rows, rows[0]], "column insight_id: is the same insight as row 2"),
        (COLUMNS, [*rows, rows[0] | {"insight_id": ""}], "column insight: is the same insight as row 2"),
        (COLUMNS[:4], rows, "has no column insight"),
        ((*COLUMNS, "colour"), [row | {"colour": "red"} for row in rows], "row 2, column colour: is not a column"),
        (COLUMNS, [row | {"keep": "no"} for row in rows], "keep at least one"),
    ]
    for number, (columns, given_rows, said) in enumerate(cases):
        write_cells(tmp_path / f"{number}.csv", columns, given_rows)
        with pytest.raises(UserError, match=said):
            after(tmp_path / f"{number}.csv")


def test_subtopics_that_would_have_one_name_stay_two(tmp_path: Path) -> None:
    sources, _ = read_folder(TICKETS)
    found, _ = mine(sources, 3)
    grouped = [replace(one, text="the backup") for one in group_insights([one.text for one in found], "tickets")]
    raw = json.loads(json.dumps(haystack_json(sources, found, grouped, "tickets", {"run": "m0"})))
    assert len({part["subtopic"] for part in raw["subtopics"]}) == len(grouped)
    write_cells(tmp_path / "s.csv", COLUMNS, review_rows(raw, [], STATE))
    _, rows = read_cells(tmp_path / "s.csv")
    assert decided(rows, raw, [], STATE, "s.csv") == []


def test_subtopics_are_renamed_split_and_joined_and_insights_added(tmp_path: Path) -> None:
    raw = example()
    first, second = raw["subtopics"][:2]
    rows = {row["insight_id"]: row for row in review_rows(raw, [], STATE)}
    moved, split = (one["insight_id"] for one in first["insights"][:2])
    rows[moved]["subtopic"] = second["subtopic"]
    rows[split] |= {"subtopic": "Of its own", "query": "What of it?"}
    rows[second["insights"][0]["insight_id"]]["subtopic"] = "Renamed"
    new = {**dict.fromkeys(COLUMNS, ""), "insight": "People said so.", "subtopic": "Of its own", "documents": "ticket-01.txt"}
    write_cells(tmp_path / "s.csv", COLUMNS, [*rows.values(), new])
    made = reviewed(raw, after(tmp_path / "s.csv"))
    parts = {part["subtopic"]: part for part in made["subtopics"]}
    assert parts["Renamed"]["subtopic_id"] == second["subtopic_id"] and second["subtopic"] not in parts
    assert moved in {one["insight_id"] for one in parts["Renamed"]["insights"]}
    assert [one["insight"] for one in parts["Of its own"]["insights"]][-1] == "People said so."
    assert parts["Of its own"]["query"] == "What of it?"


def test_what_excel_makes_of_cells_is_read_or_refused(tmp_path: Path) -> None:
    write_cells(tmp_path / "s.xlsx", COLUMNS, review_rows(example(), [], STATE))
    book = openpyxl.load_workbook(tmp_path / "s.xlsx")
    page = book.active
    place = {name: number for number, name in enumerate(COLUMNS, start=1)}
    assert all(cell.value is None or cell.data_type == "s" for line in page.iter_rows() for cell in line)
    page.cell(2, place["rank"]).value = 1.0
    page.append([None] * 20)
    book.save(tmp_path / "t.xlsx")
    assert after(tmp_path / "t.xlsx") == []
    for value, said in ((datetime.datetime(2021, 7, 1), "is a date"), ("=A1", "is a formula")):
        page.cell(3, place["subtopic"]).value = value
        book.save(tmp_path / "u.xlsx")
        with pytest.raises(UserError, match=rf"row 3, column subtopic: {said}"):
            after(tmp_path / "u.xlsx")
    rows = review_rows(example(), [], STATE)
    rows[0]["insight"] = "In Zürich it broke."
    shown = [Decision(insight_id=rows[0]["insight_id"], insight="In Zürich it broke.")]
    write_cells(tmp_path / "s.csv", COLUMNS, rows)
    text = (tmp_path / "s.csv").read_text(encoding="utf-8-sig")
    (tmp_path / "s.csv").write_text(text.replace("ü", "?"), encoding="utf-8")
    with pytest.raises(UserError, match="row 2, column insight: the spreadsheet has lost letters"):
        after(tmp_path / "s.csv", shown)
    (tmp_path / "s.csv").write_text(text, encoding="latin-1")
    with pytest.raises(UserError, match="line 2: is not UTF-8"):
        after(tmp_path / "s.csv", shown)


def test_decisions_hold_for_the_same_insights_of_a_folder_that_has_grown(tmp_path: Path) -> None:
    raw = mined()
    rows = review_rows(raw, [], STATE)
    named = {word: next(row for row in rows if word in row["insight"]) for word in ("Velden", "Orbis fail", "VPN", "canteen")}
    named["Velden"] |= {"insight": "Old badges are refused.", "documents": f"{named['Velden']['documents']} | ticket-00.txt"}
    named["Orbis fail"]["keep"] = "no"
    named["VPN"]["documents"] = named["VPN"]["documents"].partition(" | ")[2]
    lost = review_rows(raw, [], STATE)[rows.index(named["VPN"])]["documents"].partition(" | ")[0]
    named["canteen"] |= {"subtopic": "Money", "query": "Where do people pay?"}
    added = {"insight": "People added this.", "subtopic": "Money", "documents": "ticket-02.txt"}
    write_cells(tmp_path / "s.csv", COLUMNS, [*rows, {**dict.fromkeys(COLUMNS, ""), **added}])
    earlier = after(tmp_path / "s.csv", raw=raw)
    texts = {one["document_id"]: one["document_text"] for one in raw["documents"]}
    # A copy, a document with another wording, and documents that come before all old ones.
    more = {
        "00-copy.txt": texts["ticket-00.txt"],
        "a.txt": "Nightly export to Orbis fails with more than 512 orders of a customer.",
    }
    grown = mined(more)
    made = facts(reviewed(grown, carried(earlier, grown)))
    by_text = {value: key for (key, name), value in made.items() if name == "insight"}
    old = {"ticket-00.txt", "00-copy.txt"}
    assert old <= set(made[by_text["Old badges are refused."], "documents"])
    assert not any("Orbis fail" in text for text in by_text)
    assert lost not in made[next(key for text, key in by_text.items() if "VPN" in text), "documents"]
    assert made[by_text["People added this."], "query"] == "Where do people pay?"
    assert carried(carried(earlier, grown), raw) == earlier
    assert carried(earlier, {**grown, "documents": [], "subtopics": []}) == []
