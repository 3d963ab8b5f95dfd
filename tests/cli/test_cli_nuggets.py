"""Nuggets as gold: their files, the scores of the TREC RAG track, and citations of nuggets with references."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from commands import Said

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
FULL, PART, NONE = "fully_covered", "partially_covered", "not_covered"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUMMHAY_STORE", str(tmp_path / "st"))
    return tmp_path


def spec(**fields: Any) -> Path:
    path = Path("s.yaml")
    path.write_text(yaml.safe_dump({"judges": ["offline/judge"], "executor": "inline", **fields}))
    return path


def judged(*queries: list[tuple[str | None, str | None]]) -> dict[str, Any]:
    """A haystack with a summary of each query. `queries`: (importance, verdict) of each nugget; None: no field."""
    subtopics = []
    for query, nuggets in enumerate(queries):
        ids = [f"q{query}/{place}" for place in range(len(nuggets))]
        insights = [
            {"insight_id": one, "insight": f"Fact {one}.", **({"importance": importance} if importance else {})}
            for one, (importance, _) in zip(ids, nuggets, strict=True)
        ]
        verdicts = [
            {"insight_id": one, "coverage": verdict, "bullet_id": "1"}
            for one, (_, verdict) in zip(ids, nuggets, strict=True)
            if verdict
        ]
        subtopics.append(
            {
                "subtopic_id": f"q{query}",
                "subtopic": "s",
                "query": "q",
                "insights": insights,
                "summaries": {"bm25_m": ["A bullet."]},
                "eval_summaries": {"bm25_m": verdicts},
            }
        )
    return {"topic": "T", "nuggets": True, "subtopics": subtopics, "documents": []}


def nugget_scores(cli: Cli, haystack: dict[str, Any]) -> dict[str, Any]:
    Path("h.json").write_text(json.dumps(haystack))
    run = cli("import", "h.json", "--json").document["run"]
    (system,) = cli("score", run, "--json").document["systems"]
    return dict(system)


def test_nugget_scores_are_those_of_trec_rag(folder: Path, cli: Cli) -> None:
    system = nugget_scores(
        cli,
        judged(
            [("vital", FULL), ("vital", PART), ("okay", FULL), ("okay", NONE), ("failed", PART)],
            [("vital", NONE), ("Okay", PART)],
            [("okay", FULL)],
        ),
    )
    scores = system["nuggets"]
    # Query by query; then the mean over the three queries.
    assert scores["all"] == pytest.approx(((1 + 0.5 + 1 + 0 + 0.5) / 5 + (0 + 0.5) / 2 + 1) / 3)
    assert scores["all_strict"] == pytest.approx((2 / 5 + 0 + 1) / 3)
    assert scores["vital"] == pytest.approx(((1 + 0.5) / 2 + 0 + 0) / 3), "a query without vital nuggets is 0"
    assert scores["vital_strict"] == pytest.approx((1 / 2 + 0 + 0) / 3)
    weighted = (1 + 0.5 + 0.5 * 1) / (2 + 0.5 * 2), (0 + 0.5 * 0.5) / (1 + 0.5), (0.5 * 1) / 0.5
    assert scores["weighted"] == pytest.approx(sum(weighted) / 3)
    assert scores["weighted_strict"] == pytest.approx(((1 + 0.5) / (2 + 0.5 * 2) + 0 + 1) / 3)
    assert (scores["n_queries"], scores["n_queries_expected"]) == (3, 3)
    assert system["coverage"] == pytest.approx((3 + 0.5 + 1) / 8), "ours is the mean over all insights"
    assert system["ci"]["nuggets_all"] is None
    assert system["ci_reasons"]["nuggets_all"] == "too few queries: 3, an interval needs 6"


def test_missing_judgments_are_left_out_and_bounded(folder: Path, cli: Cli) -> None:
    scores = nugget_scores(cli, judged([("vital", FULL), ("okay", None)], [("vital", None)]))["nuggets"]
    assert (scores["all"], scores["all_floor"]) == (1.0, (1 / 2 + 0) / 2)
    assert (scores["weighted"], scores["weighted_floor"]) == (1.0, pytest.approx((1 / 1.5 + 0) / 2))
    assert (scores["n_queries"], scores["n_queries_expected"]) == (1, 2)


def test_without_importance_only_the_scores_of_all_are_known(folder: Path, cli: Cli) -> None:
    scores = nugget_scores(cli, judged([(None, FULL), (None, PART)]))["nuggets"]
    assert (scores["all"], scores["all_strict"], scores["vital"], scores["weighted"]) == (0.75, 0.5, None, None)
    plain = {**judged([(None, FULL)]), "nuggets": False, "documents": [{"document_id": "d", "document_text": "t"}]}
    plain["documents"][0]["insights_included"] = ["q0/0"]
    assert nugget_scores(cli, plain)["nuggets"] is None


FACTS = ("The depot was flooded to 1.9 metres in March.", "The tram line 7 stays closed until 12 May.", "The mayor resigned.")
TREC = [
    {"qid": "1", "query": "What of the depot?", "nuggets": [{"text": FACTS[0], "importance": "vital"}, {"text": FACTS[2]}]},
    {"qid": "2", "query": "What of the tram?", "nuggets": [{"text": FACTS[1], "importance": "okay"}]},
]


def test_a_file_of_nuggets_is_read_in_each_of_its_forms(folder: Path, cli: Cli) -> None:
    lines, answers = map(json.dumps, TREC), [{"query_id": "1", "text": FACTS[0]}, {"query_id": "2", "text": FACTS[1]}]
    Path("a.jsonl").write_text("".join(json.dumps(one) + "\n" for one in answers))
    name, mine = "n.json", {"answers": "a.jsonl", "name": "mine"}
    runs = set()
    for content in (json.dumps(TREC, indent=1), "\ufeff" + "\n".join(lines), json.dumps(TREC)):
        Path(name).write_text(content)
        run = cli("run", spec(haystacks=[name], retrievers=["none"], summarizers=[mine]), "--json")
        assert run.code == 0, run.err
        runs.add(run.document["run"])
    assert len(runs) == 1
    assert "1 of 3 nuggets are neither vital nor okay" in run.err
    (system,) = cli("score", run.document["run"], "--json").document["systems"]
    assert (system["coverage"], system["joint"], system["citation"]) == (pytest.approx(2 / 3), None, None)
    assert (system["nuggets"]["vital"], system["nuggets"]["weighted"]) == (0.5, 1.0)
    shown = cli("score", run.document["run"], "--all").out
    assert "Nugget scores" in shown and "vital_strict" in shown.replace(" ", "_")
    assert cli("report", run.document["run"], "--out", "page").code == 0
    assert "Nugget scores" in Path("page/index.html").read_text()
    assert cli("verify", name).code == 2 and "haystacks:" in cli("verify", name).err


def bank(**importance: str) -> dict[str, Any]:
    return {
        "query_id": "1",
        "title_query": "What happened?",
        "nugget_bank": {
            "How deep?": {
                "question": "How deep?",
                "answers": {FACTS[0]: {"answer": FACTS[0], "references": [{"doc_id": "a"}, {"doc_id": "elsewhere"}]}},
                **importance,
            },
            "Until when?": {"question": "Until when?", "answers": {FACTS[1]: {"answer": FACTS[1], "references": None}}},
            FACTS[2]: {"claim": FACTS[2], "references": ["d.jsonl#m1"]},
        },
    }


def test_citations_are_those_of_the_nuggets_with_references(folder: Path, cli: Cli) -> None:
    Path("docs").mkdir()
    Path("docs/a.txt").write_text(FACTS[0])
    Path("docs/b.txt").write_text(FACTS[1])
    Path("docs/d.jsonl").write_text(json.dumps({"id": "m1", "text": FACTS[2]}) + "\n")
    Path("docs/e.txt").write_text("")
    Path("bank.json").write_text(json.dumps(bank(importance="vital"), indent=1))
    summary = f"{FACTS[0]} [a.txt]\n{FACTS[1]} [a.txt]\n{FACTS[2]} [m1]"
    Path("a.jsonl").write_text(json.dumps({"query_id": "1", "text": summary}))
    given = {"haystacks": ["bank.json"], "documents": "docs"}
    run = cli("run", spec(**given, retrievers=["none"], summarizers=[{"answers": "a.jsonl", "name": "mine"}]), "--json")
    assert run.code == 0, run.err
    assert run.err.count("1 of 3 nuggets have no reference to a document") == 1
    assert "documents that were not read: 1, such as e.txt" in run.err and "can be right" not in run.err
    (system,) = cli("score", run.document["run"], "--json").document["systems"]
    assert (system["coverage"], system["n_scored"]) == (1.0, 3)
    # The second nugget has no known documents, and therefore no citation score: two of two are right.
    assert (system["citation_precision"], system["citation_recall"], system["joint"]) == (1.0, 1.0, 1.0)
    ranked = cli("retrieve", write_retrieval(given), "--json")
    assert ranked.code == 0, ranked.err


def write_retrieval(given: dict[str, Any]) -> Path:
    Path("r.yaml").write_text(yaml.safe_dump({"kind": "retrieval", "retrievers": ["bm25"], **given}))
    return Path("r.yaml")


def test_documents_that_no_haystack_needs_are_refused(folder: Path, cli: Cli) -> None:
    Path("docs").mkdir()
    refused = cli("plan", write_retrieval({"haystacks": ["sample/news"], "documents": "docs"}))
    assert refused.code == 2 and "documents: no haystack is a file of nuggets" in refused.err


def test_a_retriever_without_documents_is_refused(folder: Path, cli: Cli) -> None:
    Path("n.json").write_text(json.dumps(TREC))
    for path in (
        spec(haystacks=["n.json"], retrievers=["bm25"], summarizers=["offline/lead"]),
        write_retrieval({"haystacks": ["n.json"]}),
    ):
        refused = cli("plan", path)
        assert refused.code == 2 and ": documents: haystack 'n' has no documents for retriever 'bm25'" in refused.err
