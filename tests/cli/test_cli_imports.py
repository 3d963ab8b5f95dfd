"""import, score, export, status, failures and explain on released files: their answers; and refusals write nothing."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import BM25, GPT, Said, files_below, released, write_json

from summhay_ray import api

pytestmark = pytest.mark.core

Cli = Callable[..., Said]


def changed(path: list[Any], value: Any) -> dict[str, Any]:
    raw = copy.deepcopy(released())
    place: Any = raw
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return raw


S, D = ["subtopics", 0], ["documents", 1]


@pytest.fixture
def imported(cli: Cli, tmp_path: Path) -> tuple[str, Path]:
    """(run, store) of the small file."""
    said = cli("import", write_json(tmp_path / "small.json", released()), "--store", tmp_path / "store", "--json")
    return said.document["run"], tmp_path / "store"


def test_import_counts(cli: Cli, tmp_path: Path) -> None:
    one, two = write_json(tmp_path / "one.json", released()), write_json(tmp_path / "two.json", released("Another topic"))
    said = cli("import", one, two, "--store", tmp_path / "store", "--json")
    run = said.document["run"]
    expected = {"run": run, "haystacks": 2, "documents": 6, "queries": 2, "summaries": 4, "judgments": 10}
    assert said.document == {**expected, "failures": 2}
    assert (said.code, isinstance(run, str)) == (0, True)


def test_what_is_odd_is_said_beside_the_document(cli: Cli, tmp_path: Path) -> None:
    raw = changed([*D, "insights_included"], [])
    said = cli("import", write_json(tmp_path / "x.json", changed([*D], raw["documents"][1])), "--store", tmp_path / "s", "--json")
    assert said.err == ""
    odd = changed([*S, "insights", 0, "insight"], "A crane broke.")
    said = cli("import", write_json(tmp_path / "y.json", odd), "--store", tmp_path / "s", "--json")
    assert said.document["judgments"] == 5
    assert said.err == f"warning: {tmp_path / 'y.json'}: insights 'toll' and 'crane' have the same text\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{", "line 1, column 2: expected JSON, found none"),
        ("[" * 5000 + "]" * 5000, "expected at most 100 levels of nesting, found more"),
        (json.dumps(changed([*D, "document_id"], "d1")), "documents[1].document_id: expected a unique id"),
        (json.dumps(changed([*D, "insights_included"], ["\x1b[2J"])), 'found "\\u001b[2J"'),
    ],
)
def test_a_broken_file_is_refused_and_nothing_is_written(cli: Cli, tmp_path: Path, text: str, line: str) -> None:
    good, broken, store = write_json(tmp_path / "good.json", released()), tmp_path / "broken.json", tmp_path / "store"
    broken.write_text(text, encoding="utf-8")
    for files in ([broken], [good, broken], [broken, good]):
        refusal = cli("import", *files, "--store", store, "--json").refusal
        assert refusal.startswith(f"{broken}: ")
        assert line in refusal
        assert not store.exists()
    run = cli("import", good, "--store", store, "--json").document["run"]
    before = files_below(store)
    assert cli("import", write_json(tmp_path / "new.json", released("New")), broken, "--store", store).code == 2
    assert files_below(store) == before
    assert cli("score", run, "--store", store, "--json").code == 0


def test_files_that_are_none_are_refused(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "store"
    assert "cannot be read" in cli("import", tmp_path / "nowhere.json", "--store", store).refusal
    assert "has no known format" in cli("import", tmp_path, "--store", store).refusal
    one, same = write_json(tmp_path / "one.json", released()), write_json(tmp_path / "same.json", released())
    assert cli("import", one, same, "--store", store).refusal == f"{same}: has the same content as {one}; remove one"
    assert not store.exists()


def test_score_by_hand(cli: Cli, imported: tuple[str, Path]) -> None:
    said = cli("score", imported[0], "--store", imported[1], "--json")
    systems = {system["system"]: system for system in said.document["systems"]}
    assert set(systems) == {GPT, BM25}
    full = systems[GPT]
    # toll: full, cites 1 and 2 of gold 1 and 2; crane: partial, cites 3 of gold 2 and 3; lamp: not covered.
    precision, recall = (1 + 1) / 2, (1 + 1 / 2) / 2
    f1 = (1 + 2 / 3) / 2
    assert full["coverage"] == pytest.approx((1 + 0.5 + 0) / 3, abs=1e-12)
    assert (full["citation_precision"], full["citation_recall"]) == (precision, recall)
    assert full["citation"] == pytest.approx(f1, abs=1e-12)
    assert full["joint"] == pytest.approx((1 * 1 + 0.5 * 2 / 3 + 0) / 3, abs=1e-12)
    assert (full["n_expected"], full["n_scored"], full["n_covered"]) == (3, 3, 2)
    # "The toll doubled [1][2]." and "A crane [3]." have 4 and 3 words.
    assert full["words_per_bullet"] == 3.5
    assert (full["retriever"], full["ordering"], full["model"]) == ("full", "given", "gpt-4o")
    other = systems[BM25]
    assert (other["retriever"], other["model"], other["n_expected"], other["n_scored"]) == ("bm25", "gpt-4o", 3, 1)
    assert f"1 judgments cannot be used and are not scored; summhay failures {imported[0]} lists them\n" == said.err


def test_an_unusable_bullet_is_scored_as_the_release_does_where_that_is_asked(cli: Cli, imported: tuple[str, Path]) -> None:
    said = cli("score", imported[0], "--store", imported[1], "--json", "--compat", "release")
    assert said.document["compat"] == "release"
    assert {system["n_scored"] for system in said.document["systems"]} == {3, 2}
    assert said.err == ""


def test_the_table_marks_what_lacks_scores(cli: Cli, imported: tuple[str, Path]) -> None:
    out = cli("score", imported[0], "--store", imported[1], "--all").out.split("\nResults, raw")[1]
    # 3 of 3 and 1 of 3 insights scored.
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in out.splitlines() if line.startswith("│ gpt-4o")]
    assert [row[:3] + row[-1:] for row in rows[:2]] == [
        ["gpt-4o", "bm25", "100.0* [too few], floor 33.3", "1/3"],
        ["gpt-4o", "full", "50.0 [too few]", "3/3"],
    ]
    assert "* fewer answers scored than expected, see n (scored/expected)\nfloor: with every missing answer as 0\n" in out


def test_export_gives_the_file_back(cli: Cli, imported: tuple[str, Path], tmp_path: Path) -> None:
    run, store = imported
    said = cli("export", run, "--store", store, "--out", tmp_path / "out", "--json")
    assert said.document == {"run": run, "files": [str(tmp_path / "out" / "small.json")]}
    assert json.loads((tmp_path / "out" / "small.json").read_text()) == released()
    again = cli("import", tmp_path / "out" / "small.json", "--store", tmp_path / "other", "--json")
    assert again.document["run"] == run


def test_export_overwrites_nothing(cli: Cli, imported: tuple[str, Path], tmp_path: Path) -> None:
    run, store = imported
    where = ("--store", store, "--out")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "small.json").write_text("mine")
    assert (
        cli("export", run, *where, tmp_path / "out").refusal == f"{tmp_path / 'out' / 'small.json'} exists; give an empty folder"
    )
    assert (tmp_path / "out" / "small.json").read_text() == "mine"
    assert cli("export", run, *where, tmp_path / "small.json").refusal == f"{tmp_path / 'small.json'} is a file; give a folder"
    below = tmp_path / "small.json" / "below"
    assert cli("export", run, *where, below).refusal == f"{below} cannot be written (Not a directory); give another folder"
    line = cli("export", run, *where, tmp_path / "new", "--judge", "nobody").refusal
    assert line == f"{run} has no judgments by 'nobody'; it has those by released; summhay rejudge makes more"
    assert not (tmp_path / "new").exists()


def test_status_and_failures_of_an_import(cli: Cli, imported: tuple[str, Path]) -> None:
    run, store = imported
    status = cli("status", run, "--store", store, "--json").document
    assert (status["run"], status["kind"], status["status"], status["name"]) == (run, "import", "imported", "small")
    assert status["cells"] == {"total": 2, "done": 2, "failed": 0}
    assert status["usd"] == {"spent": 0.0, "reserved": 0.0, "uncertain": 0.0, "left": None, "budget": None}
    assert {name: table["rows"] for name, table in status["tables"].items() if name in ("summaries", "judgments", "scores")} == {
        "summaries": 2,
        "judgments": 5,
        "scores": 4,
    }
    assert "status        imported\n" in cli("status", run, "--store", store).out
    (failure,) = cli("failures", run, "--store", store, "--json").document["failures"]
    assert (failure["stage"], failure["kind"], failure["error"]) == ("judge", "malformed", "unusable_bullet")
    title, _, what, *more = cli("failures", run, "--store", store).out.splitlines()
    assert title == f"1 failures of {run}, 0.000000 dollars"
    assert (failure["system"], failure["haystack"], failure["subtopic_id"]) == (BM25, "small", "harbour")
    assert failure["label"] == "bm25 + gpt-4o"
    assert what == "bm25 + gpt-4o small harbour released lamp judge malformed unusable_bullet gpt-4o"
    assert more[0].startswith("  why   ") and f"  cell  {failure['cell_id']}" in more


def test_explain_shows_the_source_of_a_score_without_control_characters(cli: Cli, imported: tuple[str, Path]) -> None:
    run, store = imported
    cells = dict(api.table(run, "summaries", str(store)).select("system", "cell_id").iter_rows())
    out = cli("explain", run, cells[BM25][:8], "--store", store).out
    assert "1. \\x1b[31mThe toll\\x07 [1].\n" in out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "P 1.0000  R 0.5000  F1 0.6667" in out
    found = cli("explain", run, cells[BM25], "--store", store, "--json").document
    assert found["bullets"] == ["\x1b[31mThe toll\x07 [1].", "Nothing."]
    assert [row["judgment"]["insight_id"] for row in found["judgments"]] == ["toll", "lamp"]
    assert found["judgments"][1]["score"]["error"] == "unusable_bullet"


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("abc", "key 'abc' is too short; give at least 6 characters of a cell_id or of an answer's key"),
        (
            "\x1b[31mred",
            "has no cell or answer '\\x1b[31mred'; a cell is HAYSTACK/SUBTOPIC/SYSTEM, such as small/harbour/gpt-4o, or its id, "
            "or an answer's key",
        ),
    ],
)
def test_explain_refuses_a_key_that_is_none(cli: Cli, imported: tuple[str, Path], key: str, line: str) -> None:
    assert cli("explain", imported[0], key, "--store", imported[1]).refusal.endswith(line)


def test_a_judgment_without_its_summary_is_a_failure_that_names_no_system(cli: Cli, tmp_path: Path) -> None:
    raw = changed([*S, "summaries"], {f"summary_subtopic_{GPT}": ["The toll doubled [1][2].", "A crane [3]."]})
    said = cli("import", write_json(tmp_path / "x.json", raw), "--store", tmp_path / "store", "--json")
    counts = {name: said.document[name] for name in ("summaries", "judgments", "failures")}
    listed = cli("failures", said.document["run"], "--store", tmp_path / "store", "--json").document["failures"]
    assert counts == {"summaries": 1, "judgments": 3, "failures": 2}
    assert {(row["system"], row["haystack"]) for row in listed} == {("", "")}
