"""`summhay mine`: from a folder to a haystack that a run uses, and a review by a person, on the command line."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from commands import Said
from local_http import chatting

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
TICKETS = Path(__file__).resolve().parents[2] / "examples" / "tickets"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the example's tickets in `tickets`, which is the current folder."""
    shutil.copytree(TICKETS, tmp_path / "tickets")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_mining_and_review(folder: Path, cli: Cli) -> None:
    (folder / "tickets" / "photo.png").write_bytes(b"\x89PNG\0")
    said = cli("mine", "tickets", "--out", "mine.json", "--review", "sheet.csv", "--store", "st", "--json")
    found = said.document
    assert said.code == 4
    # A single file is not a document, and does not make the folder fail.
    assert (
        "cannot be read, and the haystack is made of the other 30 documents: photo.png" in said.err
        and "will fail" not in said.err
    )
    assert "1 folder takes about" in said.err
    assert found["documents"] == 30 and found["insights"] == 9 and found["path"] == "mine.json"
    assert "photo.png" in cli("failures", found["run"], "--store", "st").out
    made = json.loads(Path("mine.json").read_text())
    assert cli("verify", "mine.json", "--json").code in (0, 4)
    by_text = {one["insight"]: one for subtopic in made["subtopics"] for one in subtopic["insights"]}
    assert sorted(one["rank"] for one in by_text.values()) == [*range(1, 10)]
    one = next(one for text, one in by_text.items() if "Velden" in text)
    document = one["evidence"][0]["document_id"]
    why = cli("explain", found["run"], f"{one['insight_id']}/{document}", "--store", "st", "--json").document
    assert "Velden" in why["rows"]["mined_evidence"][0]["text"]
    assert "Velden" in cli("explain", found["run"], f"{one['insight_id']}/{document}", "--store", "st").out
    with open("sheet.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert "Velden" in Path("sheet.html").read_text()
    for row in rows:
        if "Velden" in row["insight"]:
            row |= {"insight": "Old badges are refused.", "documents": f"{row['documents']} | ticket-00.txt"}
        if "Orbis" in row["insight"]:
            row |= {"keep": "no"}
    # A spreadsheet writes this if the comma is the decimal sign.
    with open("sheet.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    accepted = cli("mine", "--accept", "sheet.csv", "--out", "mine.json", "--store", "st", "--json").document
    assert accepted["reviewed"] == {"seen": 2, "of": 9, "struck": 1}
    assert "seen 2, of 9, struck 1" in cli("mine", "--accept", "sheet.csv", "--out", "mine.json", "--store", "st").out
    kept = json.loads(Path("mine.json").read_text())
    texts = {one["insight"]: one["insight_id"] for subtopic in kept["subtopics"] for one in subtopic["insights"]}
    assert len(texts) == 8 and not any("Orbis" in text for text in texts)
    holders = {one["document_id"] for one in kept["documents"] if texts["Old badges are refused."] in one["insights_included"]}
    assert "ticket-00.txt" in holders and len(holders) == 6
    assert "a person" in cli("explain", found["run"], f"{one['insight_id']}/ticket-00.txt", "--store", "st").out


def test_what_was_read_of_a_document_is_shown_and_the_document_stays_as_it_was(folder: Path, cli: Cli) -> None:
    notes = "| Hall | Pumps |\n|---|---|\n| 3 | two |\n\nIt stopped at noon."
    note = f"---\ntitle: Pumps\n---\n## Present\n\n* Ann Example @ann\n\n## Notes\n\n{notes}\n"
    (folder / "tickets" / "note.md").write_text(note, encoding="utf-8")
    read = cli("mine", "tickets", "--show-text", "note.md", "--json").document
    assert (read["title"], [one["text"] for one in read["kept"]]) == ("Pumps", ["Hall: 3; Pumps: two", "It stopped at noon."])
    assert {one["reason"] for one in read["left_out"]} == {"front matter", "heading", "attendance"}
    assert "left out: attendance" in cli("mine", "tickets", "--show-text", "note.md").out
    wrong = cli("mine", "tickets", "--show-text", "note.txt")
    assert wrong.code == 2 and "did you mean 'note.md'?" in wrong.err
    found = cli("mine", "tickets", "--out", "mine.json", "--json").document
    assert any("1 attendance" in one and "--show-text" in one for one in found["notes"])
    assert note in [one["document_text"] for one in json.loads(Path("mine.json").read_text())["documents"]]


def test_a_run_uses_a_mined_haystack_by_its_spec(folder: Path, cli: Cli) -> None:
    Path("mine.yaml").write_text(yaml.safe_dump({"kind": "mine", "folder": "tickets"}))
    spec = {"haystacks": ["mine.yaml"], "retrievers": ["bm25"], "summarizers": ["offline/support"], "judges": ["offline/judge"]}
    Path("run.yaml").write_text(yaml.safe_dump(spec))
    early = cli("plan", "run.yaml", "--store", "st")
    assert early.code == 2 and "summhay run" in early.err
    assert cli("run", "mine.yaml", "--store", "st").code == 0
    again = cli("run", "mine.yaml", "--store", "st", "--json").document
    assert again["status"] == "done" and again["calls"]["made"] == 0
    assert cli("plan", "run.yaml", "--store", "st", "--json").document["cells"] > 0


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({}, "0 documents with text"),
        ({"one.txt": "A document."}, "1 document with text"),
        ({f"{number}.txt": "" for number in range(50)}, "50 cannot be read"),
    ],
)
def test_a_folder_in_which_nothing_can_recur_is_reported_in_one_line(
    tmp_path: Path, cli: Cli, files: dict[str, str], told: str
) -> None:
    (tmp_path / "docs").mkdir()
    for name, text in files.items():
        (tmp_path / "docs" / name).write_text(text)
    said = cli("mine", str(tmp_path / "docs"), "--store", str(tmp_path / "st"))
    assert said.code == 2 and told in said.err
    assert len([line for line in said.err.splitlines() if line.strip()]) == 1


def test_a_folder_of_equal_documents_is_reported(tmp_path: Path, cli: Cli) -> None:
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("The depot in Velden was flooded to 1.9 metres, and 140 pallets were lost.")
    said = cli("mine", str(tmp_path), "--store", str(tmp_path / ".st"))
    assert said.code == 4 and "3 of them are equal to an earlier one" in said.out
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text(f"The depot in Velden was flooded to 1.9 metres. {'ABCD'[number] * 4} came by.")
    said = cli("mine", str(tmp_path), "--store", str(tmp_path / ".st"))
    assert said.code == 4 and "but in words that very many of them have: 1 sentence" in " ".join(said.out.split())
    for number in range(8):
        (tmp_path / f"{number}.txt").write_text(f"The depot in Velden was flooded. {'ABCDEFGH'[number] * 4} came by boat.")
    said = cli("mine", str(tmp_path), "--store", str(tmp_path / ".st"))
    assert said.code == 4 and "counts as boilerplate: 1 sentence, such as 'The depot in Velden was flooded.'" in " ".join(
        said.out.split()
    )
    assert "--set models.claim=MODEL" in " ".join(said.out.split())
    missing = cli("mine", str(tmp_path / "none"), "--store", str(tmp_path / ".st"))
    assert missing.code == 2 and "no such folder" in missing.err


def test_few_insights_are_explained(tmp_path: Path, cli: Cli) -> None:
    for number in range(30):
        note = "Waiting for the report of the depot in Velden about the flood." if number < 3 else ""
        found = "The flood in Velden destroyed 140 pallets of the depot." if number in (4, 5, 6) else ""
        text = f"{'ABCDEFGHIJKLMNOPQRSTUVWXYZabcd'[number] * 4} came by boat.\n\n{note}\n\n{found}"
        (tmp_path / f"{number}.txt").write_text(text)
    said = " ".join(cli("mine", str(tmp_path), "--store", str(tmp_path / ".st")).out.split())
    assert "few findings recur: 1 in 30 documents" in said
    assert "resemble one of another document: 2 (1 of them without a subject or a verb" in said
    assert "--set models.claim=MODEL" in said


def fill_in(path: Path, *edits: tuple[str, str, str]) -> None:
    """Edit a sheet: (a word of the insight, column, cell)."""
    rows = list(csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines(keepends=True)))
    for word, column, cell in edits:
        next(row for row in rows if word in row["insight"])[column] = cell
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def test_a_sheet_that_cannot_be_taken_changes_nothing(folder: Path, cli: Cli) -> None:
    cli("mine", "tickets", "--out", "mine.json", "--review", "sheet.csv", "--store", "st")
    before = Path("mine.json").read_bytes(), sorted(Path("st").rglob("reviews/*"))
    fill_in(Path("sheet.csv"), ("VPN", "insight", "Another text."), ("Velden", "keep", "perhaps"))
    said = cli("mine", "--accept", "sheet.csv", "--out", "mine.json", "--store", "st")
    assert said.code == 2 and re.search(r"sheet.csv row \d+, column keep", said.err)
    assert (Path("mine.json").read_bytes(), sorted(Path("st").rglob("reviews/*"))) == before


def test_a_review_is_never_lost(folder: Path, cli: Cli) -> None:
    store = ("--store", "st")
    cli("mine", "tickets", "--out", "mine.json", "--review", "old.csv", *store)
    cli("mine", "tickets", "--review", "older.csv", *store)
    fill_in(Path("old.csv"), ("VPN", "insight", "My own better text."), ("Orbis fail", "keep", "no"))
    assert cli("mine", "--accept", "old.csv", "--out", "mine.json", *store).code == 0
    kept = Path("mine.json").read_bytes()
    # The same sheet again loses nothing; a sheet from before the review would.
    assert cli("mine", "--accept", "old.csv", "--out", "mine.json", *store).code == 0
    fill_in(Path("older.csv"), ("Velden", "insight", "Old badges are refused."))
    said = cli("mine", "--accept", "older.csv", "--out", "mine.json", *store)
    assert said.code == 2 and "column insight: a later review has 'My own better text.'" in said.err
    shutil.copy("tickets/ticket-18.txt", "tickets/ticket-99.txt")
    said = cli("mine", "tickets", "--out", "mine.json", *store)
    assert said.code == 2 and "mine.json holds a person's review" in said.err
    assert Path("mine.json").read_bytes() == kept and len(list(Path("st/runs").iterdir())) == 1
    assert cli("mine", "tickets", "--out", "mine.json", "--replace", "--review", "new.xlsx", *store).code == 0
    made = json.loads(Path("mine.json").read_text())
    texts = {one["insight"]: one for subtopic in made["subtopics"] for one in subtopic["insights"]}
    assert len(made["documents"]) == 31 and not any("Orbis fail" in text for text in texts)
    assert "ticket-99.txt" in {one["document_id"] for one in texts["My own better text."]["evidence"]}
    kept = Path("mine.json").read_bytes()
    said = cli("mine", "--accept", "old.csv", "--out", "mine.json", *store)
    assert said.code == 2 and "write a new sheet" in said.err and Path("mine.json").read_bytes() == kept
    assert cli("mine", "--accept", "new.xlsx", "--out", "mine.json", *store).code == 0
    assert Path("mine.json").read_bytes() == kept


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--out", "notes.txt"], "a haystack is a .json file"),
        (["--out", "other.json"], "is not a mined haystack"),
        (["--out", "none/mine.json"], "none is not a folder"),
        (["--review", "sheet.ods"], "a sheet is a .csv or .xlsx file"),
        (["--review", "there.csv"], "there.csv exists"),
        (["--reveiw", "sheet.csv"], "No such option"),
        (["--check", "20"], "--check takes the file of a haystack"),
    ],
)
def test_what_cannot_be_written_is_refused_before_any_work(folder: Path, cli: Cli, words: list[str], said: str) -> None:
    for name in ("notes.txt", "other.json", "there.csv"):
        Path(name).write_text("{}", encoding="utf-8")
    refused = cli("mine", "tickets", *words, "--store", "st")
    assert refused.code == 2 and said in refused.err and not Path("st/runs").exists()
    assert {Path(name).read_text() for name in ("notes.txt", "other.json", "there.csv")} == {"{}"}


def test_checks_by_people_are_shown_at_the_top_of_run_compare_and_report(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUMMHAY_STORE", "st")
    cli("mine", "tickets", "--out", "mine.json")
    systems = {"retrievers": ["bm25"], "summarizers": ["offline/support", "offline/lead"], "judges": ["offline/judge"]}
    Path("run.yaml").write_text(yaml.safe_dump({"haystacks": ["mine.json"], **systems}))
    ran = cli("run", "run.yaml", "--json")
    run = ran.document["run"]

    def tops() -> list[str]:
        cli("report", run, "--out", "report", "--format", "md")
        report = Path("report/report.md").read_text().partition("## Overview")[0]
        compared = cli("compare", run, "--systems", "bm25_offline/support", "bm25_offline/lead", "--json").document
        return [" ".join(compared["warnings"]), report, " ".join(ran.document["warnings"])]

    assert all("nobody has looked at this haystack" in top for top in tops())
    # Without a terminal, the pairs are a sheet; a second check asks about others.
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert cli("mine", "mine.json", "--check", "10", "--json").document["files"] == ["mine-pairs.csv"]
    with open("mine-pairs.csv", encoding="utf-8-sig", newline="") as file:
        pairs = [row | {"right": "no" if place < 2 else "yes"} for place, row in enumerate(csv.DictReader(file))]
    with open("pairs.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, pairs[0])
        writer.writeheader()
        writer.writerows(pairs)
    checked = cli("mine", "--accept", "pairs.csv", "--out", "mine.json", "--json").document
    assert (checked["checked"], checked["right"]) == (10, 8) and 0.4 < checked["low"] < 0.8 < checked["high"] < 1
    ran = cli("run", "run.yaml", "--json")
    assert ran.document["run"] == run
    assert all("8 of 10 checked pairs" in top and "nobody has looked" not in top for top in tops())
    monkeypatch.setattr("sys.stdin", io.StringIO("n\nnonsense\nn\ns\nq\n"))
    asked = cli("mine", "mine.json", "--check", "5", "--json")
    assert (asked.document["checked"], asked.document["right"]) == (12, 8)
    assert any("below 75 % no winner is named" in line for line in asked.document["effect"])
    said = cli("mine", "tickets", "--out", "mine.json")
    assert said.code == 2 and "pairs that a person checked" in said.err


Answer = Callable[[str, list[str]], object]
"""(First sentence of the document, numbers of the statements) -> the JSON that the model answers with."""
OPEN = "Hall 3 again: the printer gave up after 40, with driver 7.2 or not."


@contextlib.contextmanager
def asking(reply: Callable[[str], str], *steps: str) -> Iterator[tuple[Path, list[str]]]:
    """A spec in which one model with this answer takes these steps, and the prompts that the model got."""
    asked: list[str] = []

    def text(messages: list[str]) -> str:
        asked.append(messages[-1])
        return reply(messages[-1])

    with chatting(text) as base:
        model = {"model": "openai/c", "api_base": base, "price": {"input_per_mtok": 1, "output_per_mtok": 1}, "max_tokens": 200}
        spec = {"kind": "mine", "folder": "tickets", "models": dict.fromkeys(steps, model)}
        Path("mine.yaml").write_text(json.dumps(spec), encoding="utf-8")
        yield Path("mine.yaml"), asked


@contextlib.contextmanager
def checking(answer: Answer) -> Iterator[tuple[Path, list[str]]]:
    """A spec whose check model gives this answer, and the prompts that the model got; the score of one ticket is doubtful."""

    def reply(prompt: str) -> str:
        document, listed = prompt.split("<document>")[1].split("</document>")
        numbers = re.findall(r"^(\d+)\. ", listed.split("Statements:")[1], re.MULTILINE)
        return json.dumps(answer(document.strip().split(".")[0], numbers))

    Path("tickets/ticket-99.txt").write_text(f"{OPEN}\n", encoding="utf-8")
    with asking(reply, "check") as both:
        yield both


def printer() -> list[str]:
    """The documents with the recurring fact about the printer."""
    made = json.loads(Path("mine.json").read_text())
    found = next(one for subtopic in made["subtopics"] for one in subtopic["insights"] if "printer" in one["insight"])
    return [one["document_id"] for one in found["evidence"]]


def test_a_check_model_is_asked_only_about_what_the_words_leave_open(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with checking(lambda words, numbers: dict.fromkeys(numbers, words)) as (spec, asked):
        planned = cli("plan", spec, "--store", "st", "--json").document
        found = cli("mine", spec, "--out", "mine.json", "--store", "st", "--json").document
        assert [stage["calls"] for stage in planned["stages"]] == [1] == [found["calls"]["made"]] == [len(asked)]
        assert OPEN in asked[0]
        assert cli("run", spec, "--store", "st", "--json").document["calls"]["made"] == 0
    assert "ticket-99.txt" in printer() and found["unsure"] == 0


@pytest.mark.parametrize(
    ("answer", "code", "said", "unsure"),
    [
        (lambda _, numbers: dict.fromkeys(numbers, ""), 0, False, 0),
        (lambda _, numbers: dict.fromkeys(numbers, "the printer is green"), 0, True, 1),
        (lambda _, numbers: {}, 4, True, 1),
        (lambda _, numbers: dict.fromkeys(numbers, None), 4, True, 1),
    ],
    ids=["not said", "words that are not there", "no number", "no string"],
)
def test_what_a_check_model_leaves_open_stays_as_unsure_as_it_was(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, answer: Answer, code: int, said: bool, unsure: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with checking(answer) as (spec, _):
        found = cli("mine", spec, "--out", "mine.json", "--store", "st", "--json")
    assert found.code == code and ("ticket-99.txt" in printer()) == said
    assert found.document["unsure"] == unsure


def test_a_model_by_which_nothing_recurs_leaves_no_haystack(folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with checking(lambda _, numbers: dict.fromkeys(numbers, "")) as (spec, asked):
        # The words give one insight in six documents; the model rejects one of them.
        found = cli("mine", spec, "--set", "min_documents=6", "--out", "mine.json", "--store", "st", "--json")
        assert len(asked) == 1 and found.code == 4
    assert found.document["insights"] is None and not Path("mine.json").exists()
    assert "nothing_recurs" in cli("failures", found.document["run"], "--store", "st").out


def test_a_sheet_in_another_encoding_is_refused(folder: Path, cli: Cli) -> None:
    assert cli("mine", "tickets", "--review", "sheet.csv", "--store", "st").code == 0
    with Path("sheet.csv").open("ab") as sheet:
        sheet.write("gr\u00fcn".encode("latin-1"))
    said = cli("mine", "--accept", "sheet.csv", "--store", "st")
    assert said.code == 2 and "sheet.csv line" in said.err


SAID = {
    "Accounts show 3 unpaid bills of Orbis.": "Orbis owes three bills, the ledger says.",
    "Three Orbis invoices remain open.": "Orbis invoices: 3 are still open.",
}
"""Two facts that are one, in words of their own; each is in two documents."""


def five(prompt: str) -> str:
    """A model for all five steps."""
    if "each group of two or more" in prompt:
        return json.dumps(
            [[int(number) for number in re.findall(r"^(\d+)\. .*Orbis.*(?:open|unpaid|bills)", prompt, re.MULTILINE)]]
        )
    if "What it states" in prompt or "List what it states" in prompt:
        document = prompt.split("<document>")[1].split("</document>")[0]
        lines = [line.strip() for line in document.splitlines() if len(line.split()) > 5 and "www." not in line]
        return json.dumps(
            [{"statement": line, "words": line} for line in lines] + [{"statement": "Invented.", "words": "is not there"}]
        )
    if "Which of the statements" in prompt:
        return json.dumps(dict.fromkeys(re.findall(r"^(\d+)\. ", prompt, re.MULTILINE), ""))
    return "It is worded by a model." if "say the same" in prompt else "What do people report?"


def test_every_step_asks_its_model_within_the_budget_and_never_twice(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    for number, text in enumerate([*SAID, *SAID.values()] * 2):
        words = "abcdefgh"[number] * 5
        Path(f"tickets/bill-{number}.txt").write_text(
            f"{text} \n\nA note about {words} and nothing else of it.", encoding="utf-8"
        )
    steps = ("claim", "group", "check", "insight", "query")
    with asking(five, *steps) as (spec, asked):
        planned = cli("plan", spec, "--store", "st", "--json").document
        assert {stage["stage"] for stage in planned["stages"]} >= {"claim", "insight", "query"}
        stopped = cli("mine", spec, "--store", "st", "--budget", "0.003", "--json")
        assert stopped.code == 3 and stopped.document["usd"]["spent"] <= 0.003
        early = len(asked)
        found = cli("mine", spec, "--out", "mine.json", "--store", "st", "--json").document
        assert early and found["calls"]["reused"] == early and len(asked) == len(set(asked))
        status = cli("status", found["run"], "--store", "st").out
        assert all(step in status for step in ("claim", "group", "insight", "query"))
    made = json.loads(Path("mine.json").read_text())
    assert made["topic_metadata"]["mine"]["models"] == dict.fromkeys(steps, "openai/c")
    insights = [one for subtopic in made["subtopics"] for one in subtopic["insights"]]
    assert "It is worded by a model." in {one["insight"] for one in insights}
    bills = {f"bill-{number}.txt" for number in range(8)}
    held = {frozenset(evidence["document_id"] for evidence in one["evidence"]) for one in insights}
    assert any(len(documents & bills) >= 6 for documents in held), held


def test_each_document_that_a_claim_model_does_not_answer_is_a_failure(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with asking(lambda prompt: "", "claim") as (spec, asked):
        found = cli("mine", spec, "--store", "st", "--json")
    told = cli("failures", found.document["run"], "--store", "st", "--json").document["failures"]
    assert found.code == 4 and len(told) == len(asked) == 30 and found.document["insights"] == 9


def test_queries_about_what_no_document_says_stay_through_a_review(folder: Path, cli: Cli) -> None:
    out, sheet, store = folder.parent / "m.json", folder.parent / "s.csv", folder.parent / "store"
    plain = cli("mine", folder, "--out", folder.parent / "plain.json", "--store", store, "--json").document
    said = cli("mine", folder, "--absent", "4", "--out", out, "--review", sheet, "--store", store, "--json").document
    assert said["run"] != plain["run"] and said["insights"] == plain["insights"]
    found = json.loads(out.read_text(encoding="utf-8"))
    absent = [one for one in found["subtopics"] if one.get("absent")]
    words = {word for document in found["documents"] for word in re.findall(r"\w+", document["document_text"].lower())}
    assert len({one["subtopic"] for one in absent}) == 4 and all(one["insights"] == [] for one in absent)
    assert not words & {word for one in absent for word in one["subtopic"].split()} - {"of", "in"}
    asked = [re.sub(rf"(?:the )?{re.escape(one['subtopic'])}", "X", one["query"]) for one in found["subtopics"]]
    assert {*asked[-4:]} <= {*asked[:-4]} and {len(one["subtopic_id"]) for one in found["subtopics"]} == {12}
    with sheet.open(newline="", encoding="utf-8-sig") as stream:
        rows = list(csv.DictReader(stream))
    with sheet.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, [*rows[0]])
        writer.writeheader()
        writer.writerows([{**row, "keep": "no" if row is rows[0] else row["keep"]} for row in rows])
    assert cli("mine", "--accept", sheet, "--out", out, "--store", store).code == 0
    after = json.loads(out.read_text(encoding="utf-8"))["subtopics"]
    assert [one for one in after if one.get("absent")] == absent
