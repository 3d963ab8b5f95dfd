"""`summhay mine`: from a folder to a haystack that a run uses, and a person's review, as a person runs them."""

from __future__ import annotations

import csv
import json
import re
import shutil
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
import yaml
from commands import Said

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
    assert found["documents"] == 18 and found["insights"] == 5 and found["path"] == "mine.json"
    assert "photo.png" in cli("failures", found["run"], "--store", "st").out
    made = json.loads(Path("mine.json").read_text())
    assert cli("verify", "mine.json", "--json").code in (0, 4)
    by_text = {one["insight"]: one for subtopic in made["subtopics"] for one in subtopic["insights"]}
    assert sorted(one["rank"] for one in by_text.values()) == [1, 2, 3, 4, 5]
    one = next(one for text, one in by_text.items() if "Velden" in text)
    document = one["evidence"][0]["document_id"]
    why = cli("explain", found["run"], f"{one['insight_id']}/{document}", "--store", "st", "--json").document
    assert "Velden" in why["evidence"][0]["evidence"]
    with open("sheet.csv", encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert "Velden" in Path("sheet.html").read_text()
    for row in rows:
        if "Velden" in row["insight"]:
            row |= {"reword": "Old badges are refused.", "add_documents": "ticket-00.txt"}
        if "Orbis" in row["insight"]:
            row |= {"keep": "no"}
    with open("sheet.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    accepted = cli("mine", "--accept", "sheet.csv", "--out", "mine.json", "--store", "st", "--json").document
    assert accepted["reviewed"] == {"seen": 2, "of": 5, "struck": 1}
    kept = json.loads(Path("mine.json").read_text())
    texts = {one["insight"]: one["insight_id"] for subtopic in kept["subtopics"] for one in subtopic["insights"]}
    assert len(texts) == 4 and not any("Orbis" in text for text in texts)
    holders = {one["document_id"] for one in kept["documents"] if texts["Old badges are refused."] in one["insights_included"]}
    assert "ticket-00.txt" in holders and len(holders) == 5


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
def test_a_folder_in_which_nothing_can_recur_is_told_in_one_line(
    tmp_path: Path, cli: Cli, files: dict[str, str], told: str
) -> None:
    (tmp_path / "docs").mkdir()
    for name, text in files.items():
        (tmp_path / "docs" / name).write_text(text)
    said = cli("mine", str(tmp_path / "docs"), "--store", str(tmp_path / "st"))
    assert said.code == 2 and told in said.err
    assert len([line for line in said.err.splitlines() if line.strip()]) == 1


def test_a_sheet_that_cannot_be_read_names_row_and_column(folder: Path, cli: Cli) -> None:
    cli("mine", "tickets", "--review", "sheet.csv", "--store", "st")
    rows = list(csv.DictReader(Path("sheet.csv").read_text(encoding="utf-8-sig").splitlines(keepends=True)))
    rows[0]["keep"] = "perhaps"
    with open("sheet.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    said = cli("mine", "--accept", "sheet.csv", "--store", "st")
    assert said.code == 2 and "sheet.csv row 2, column keep" in said.err


class _Checker(BaseHTTPRequestHandler):
    """A model that finds every statement in every document, by the words of its first sentence."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        prompt = json.loads(self.rfile.read(int(self.headers["content-length"])))["messages"][-1]["content"]
        self.asked.append(prompt)
        document, listed = prompt.split("<document>")[1].split("</document>")
        numbers = re.findall(r"^(\d+)\. ", listed.split("Statements:")[1], re.MULTILINE)
        words = document.strip().split(".")[0]
        message = {"role": "assistant", "content": json.dumps(dict.fromkeys(numbers, words))}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        head = {"id": "x", "object": "chat.completion", "created": 1, "model": "c", "usage": usage}
        body = json.dumps({**head, "choices": [{"index": 0, "finish_reason": "stop", "message": message}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


def test_a_check_model_is_asked_only_about_what_the_words_leave_open(
    folder: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_question = "Hall 3: the label printer gave up after some labels, driver 7.2 or not."
    (folder / "tickets" / "ticket-99.txt").write_text(f"{open_question}\n", encoding="utf-8")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Checker)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        base = f"http://127.0.0.1:{server.server_address[1]}/v1"
        check = {"model": "openai/c", "api_base": base, "price": {"input_per_mtok": 1, "output_per_mtok": 1}}
        Path("mine.yaml").write_text(yaml.safe_dump({"kind": "mine", "folder": "tickets", "models": {"check": check}}))
        planned = cli("plan", "mine.yaml", "--store", "st", "--json").document
        found = cli("mine", "mine.yaml", "--out", "mine.json", "--store", "st", "--json").document
        assert [stage["calls"] for stage in planned["stages"]] == [1] == [found["calls"]["made"]] == [len(_Checker.asked)]
        assert open_question in _Checker.asked[0]
        assert cli("run", "mine.yaml", "--store", "st", "--json").document["calls"]["made"] == 0
    finally:
        server.shutdown()
        server.server_close()
    made = json.loads(Path("mine.json").read_text())
    printer = next(one for subtopic in made["subtopics"] for one in subtopic["insights"] if "printer" in one["insight"])
    assert "ticket-99.txt" in {one["document_id"] for one in printer["evidence"]} and found["unsure"] == 0
