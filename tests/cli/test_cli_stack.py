"""The choice of a stack for a user's documents: a search service over HTTP, answers of a whole stack, one factor at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from commands import Said
from local_http import Asked, serving

pytestmark = pytest.mark.core

Cli = Callable[..., Said]
FACTS = ("The depot was flooded to 1.9 metres in March.", "The tram line 7 stays closed until 12 May.")
TEXTS = {
    f"notes/{name}.txt": text
    for name, text in zip("abcd", (FACTS[0], FACTS[1], " ".join(FACTS), "The mayor thanked."), strict=True)
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a haystack `h.json`: two facts, each in two of four documents, and one in no document."""
    insights = [{"insight_id": f"i{place}", "insight": fact} for place, fact in enumerate(FACTS)]
    insights.append({"insight_id": "i2", "insight": "Nobody says this."})
    subtopics = [
        {"subtopic_id": f"s{place}", "subtopic": "a flood", "query": f"What of {name}?", "insights": chosen}
        for place, (name, chosen) in enumerate([("the depot", [insights[0], insights[2]]), ("the tram", [insights[1]])])
    ]
    documents = [
        {
            "document_id": name,
            "document_text": text,
            "insights_included": [f"i{place}" for place, fact in enumerate(FACTS) if fact in text],
        }
        for name, text in TEXTS.items()
    ]
    (tmp_path / "h.json").write_text(json.dumps({"topic": "T", "subtopics": subtopics, "documents": documents}))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SUMMHAY_STORE", str(tmp_path / "st"))
    return tmp_path


@pytest.fixture
def service() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A search service that finds the last two documents, one of them twice; its address, and the requests that it got."""
    asked: list[dict[str, Any]] = []

    def answer(request: Asked) -> dict[str, Any]:
        asked.append(request.fields)
        found = ["notes/c.txt", "notes/b.txt", "notes/b.txt"]
        hits = [{"doc": {"id": name}, "passage": TEXTS[name][:20].replace(" ", "  ")} for name in found]
        return {"hits": hits[: asked[-1]["top_k"]]}

    with serving(answer) as address:
        yield f"{address}/search", asked


def spec(path: str, **fields: Any) -> str:
    """Write a spec on the haystack."""
    Path(path).write_text(json.dumps({"haystacks": ["h.json"], "judges": ["offline/judge"], "executor": "inline", **fields}))
    return path


def test_a_search_service_ranks_is_asked_once_and_its_faults_are_named(
    folder: Path, cli: Cli, service: tuple[str, list[dict[str, Any]]]
) -> None:
    url, asked = service
    entry = {"api_base": url, "query": "question", "results": "hits", "extra": {"top_k": 3}}
    searches = [
        {**entry, "search": "by-id", "id": "doc.id", "price": {"per_search": 0.001}},
        {**entry, "search": "by-text", "text": "passage"},
        {**entry, "search": "wrong-field", "id": "docs.id"},
        {**entry, "search": "strangers", "id": "passage"},
    ]
    retrieving = "r.yaml"
    Path(retrieving).write_text(json.dumps({"kind": "retrieval", "haystacks": ["h.json"], "retrievers": searches, "k": [1, 5]}))
    planned = cli("plan", retrieving, "--json").document
    assert {stage["stage"]: stage["calls"] for stage in planned["stages"]} == {"search": 2}
    found = cli("run", retrieving, "--json")
    assert found.code == 4 and found.document["usd"]["spent"] == 0.002 and found.document["calls"]["made"] == 8 == len(asked)
    assert {"question": "What of the depot? a flood", "top_k": 3} in asked
    failures = cli("failures", found.document["run"]).out
    assert "no field 'docs'" in failures and "is the id of no document of 'h'" in failures
    assert cli("run", retrieving, "--json").document["usd"]["spent"] == 0.002 and len(asked) == 8


def test_retrievers_and_models_are_compared_one_factor_at_a_time(folder: Path, cli: Cli) -> None:
    grid = spec("g.yaml", retrievers=["random", "oracle"], summarizers=["offline/support", "offline/lead"], token_budget=40)
    run = cli("run", grid, "--json").document["run"]
    compared = cli("compare", run, "--by", "retriever", "--json").document
    (pair,) = [one for one in compared["pairs"] if one["figure"] == "coverage"]
    assert {pair["a"]["system"], pair["b"]["system"]} == {"random", "oracle"} and pair["paired"]["n_queries"] == 2
    each = cli("compare", run, "--systems", "oracle_*", "random_*", "--json").document["pairs"]
    alike = [one for one in each if one["figure"] == "coverage" and one["a"]["model"] == one["b"]["model"]]
    mean = sum(one["paired"]["difference"] for one in alike) / len(alike)
    assert len(alike) == 2 and pair["paired"]["difference"] == pytest.approx(mean if pair["a"]["system"] == "oracle" else -mean)
    models = cli("compare", run, "--by", "model", "--json").document
    assert {models["pairs"][0][side]["system"] for side in "ab"} == {"offline/support", "offline/lead"}


def test_answers_of_a_stack_cite_numbers_or_ids_and_stand_beside_others(folder: Path, cli: Cli) -> None:
    texts = {"s0": f"- {FACTS[0]} [notes/a.txt, 3]", "s1": f"- {FACTS[1]} [2; notes/c.txt]"}
    Path("mine.jsonl").write_text("".join(json.dumps({"query_id": name, "text": text}) + "\n" for name, text in texts.items()))
    stack = spec("s.yaml", retrievers=["none"], summarizers=[{"answers": "mine.jsonl", "name": "mine"}])
    planned = cli("plan", stack)
    assert planned.code == 0 and "insight 'i2' is in no document" in planned.err
    run = cli("run", stack, "--json").document["run"]
    (system,) = cli("score", run, "--json").document["systems"]
    assert (system["citation_precision"], system["citation_recall"]) == (1.0, 1.0)
    grid = cli("run", spec("g.yaml", retrievers=["bm25"], summarizers=["offline/support"]), "--json").document["run"]
    compared = cli("compare", run, grid, "--systems", "none_mine", "bm25_offline/support", "--json").document
    assert compared["runs"] == [run, grid]
    Path("mine.jsonl").write_text(json.dumps({"query_id": "s9", "text": "?"}))
    refused = cli("plan", stack)
    assert refused.code == 2 and "'s9' is not a query of this run" in refused.err


def test_odd_inputs_are_reported_with_the_remedy(folder: Path, cli: Cli) -> None:
    Path("idea.txt").write_text("A seed of an idea.")
    Path("synth.yaml").write_text(
        json.dumps({"kind": "synth", "topics": [{"topic": "a flood", "context": ["idea.txt"]}], "documents": 20})
    )
    assert "idea.txt: offline/writer reads no context" in cli("plan", "synth.yaml").err
    assert "haystacks: [h.json]" in cli("import", "h.json").out
    Path("texts").mkdir()
    Path("texts/a.txt").write_text("A text.")
    specs = (
        {"haystacks": ["texts"], "retrievers": ["bm25"], "summarizers": ["offline/support"], "judges": ["offline/judge"]},
        {"kind": "retrieval", "corpora": ["texts"], "retrievers": ["bm25"]},
        {"kind": "odsum", "corpus": "texts", "retrievers": ["bm25"], "summarizers": ["offline/support"]},
    )
    for fields in specs:
        Path("other.yaml").write_text(json.dumps(fields))
        said = cli("plan", "other.yaml")
        assert said.code == 2 and "summhay mine texts" in said.err, fields


def trec(topic: str, *responses: tuple[str, Any], **fields: Any) -> str:
    """A line in the format of TREC RAG. `responses`: text and citations of each sentence."""
    metadata = {"team_id": "team", "run_id": "ours", "topic_id": topic}
    sentences = [{"text": text, "citations": cited} for text, cited in responses]
    return json.dumps({"metadata": metadata, "responses": sentences, "references": [], **fields}) + "\n"


def test_answers_as_trec_rag_has_them_are_run_judged_and_written_again(folder: Path, cli: Cli, tmp_path: Path) -> None:
    position = {"references": ["notes/c.txt", "notes/b.txt"]}
    Path("mine.jsonl").write_text(
        trec("s0", (f"{FACTS[0]} [0]", {"notes/a.txt": 0.9, "notes/c.txt": 0.1}), ("Rain fell in June.", []))
        + trec("s1", (f"{FACTS[1]}\nIndeed.", [1, 0]), ("Elsewhere.", ["doc3", "2"]), **position)
    )
    run = cli("run", spec("s.yaml", retrievers=["none"], summarizers=[{"answers": "mine.jsonl", "name": "mine"}]), "--json")
    bullets = {row["subtopic_id"]: row["bullets"] for row in rows(cli, run.document["run"], "summaries", tmp_path / "t")}
    assert bullets["s0"] == [f"{FACTS[0]} [1][3]", "Rain fell in June."], "what is in a sentence is no citation"
    assert bullets["s1"] == [f"{FACTS[1]} Indeed. [2][3]", "Elsewhere. [id:doc3][id:2]"], "an unknown id is no number"
    (system,) = cli("score", run.document["run"], "--json").document["systems"]
    assert (system["citation_precision"], system["citation_recall"]) == (1.0, 1.0)

    (written,) = cli("export", run.document["run"], "--out", tmp_path / "out", "--format", "trec-rag", "--json").document["files"]
    lines = {one["metadata"]["topic_id"]: one for one in map(json.loads, Path(written).read_text().splitlines())}
    assert lines["s1"]["responses"][0] == {"text": f"{FACTS[1]} Indeed.", "citations": ["notes/b.txt", "notes/c.txt"]}
    assert lines["s0"]["responses"][1] == {"text": "Rain fell in June.", "citations": []}
    assert lines["s1"]["metadata"]["run_id"] == "none_mine" and "notes/b.txt" in lines["s1"]["references"]
    again = spec("a.yaml", retrievers=["none"], summarizers=[{"answers": written, "name": "mine"}])
    scored = cli("score", cli("run", again, "--json").document["run"], "--json").document["systems"][0]
    assert {name: scored[name] for name in ("coverage", "joint")} == {name: system[name] for name in ("coverage", "joint")}
    for flags in (("--out", "x", "--format", "csv"), ("--tables", "x", "--format", "trec-rag")):
        assert cli("export", run.document["run"], *flags).code == 2


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"responses": [{"citations": []}], "topic_id": "s0"}, "mine.jsonl:1: responses: entry 0 has no text"),
        ({"answer": [{"text": "a", "citations": "b"}], "narrative_id": 1}, "mine.jsonl:1: answer: entry 0: citations: expected"),
        ({"answer": [{"text": "a", "citations": [None]}], "topic_id": "s0"}, "citations: expected a document's id"),
        ({"answer": [{"text": "a"}], "references": {}, "topic_id": "s0"}, "mine.jsonl:1: references: expected a list"),
        ({"answer": [{"text": "a", "citations": []}]}, "mine.jsonl:1: query_id: expected text"),
    ],
)
def test_a_wrong_answer_of_trec_rag_is_refused_with_its_place(folder: Path, cli: Cli, line: Any, message: str) -> None:
    Path("mine.jsonl").write_text(json.dumps(line))
    refused = cli("plan", spec("s.yaml", retrievers=["none"], summarizers=[{"answers": "mine.jsonl", "name": "mine"}]))
    assert refused.code == 2 and message in refused.err


def rows(cli: Cli, run: str, table: str, folder: Path) -> list[dict[str, Any]]:
    cli("export", run, "--tables", folder, "--format", "jsonl")
    return [json.loads(line) for line in (folder / table / "part-0.jsonl").read_text().splitlines()]


def test_a_haystack_without_gold_documents_scores_coverage_alone(folder: Path, cli: Cli, tmp_path: Path) -> None:
    haystack = json.loads(Path("h.json").read_text())
    for document in haystack["documents"]:
        document["insights_included"] = []
    Path("h.json").write_text(json.dumps(haystack))
    Path("mine.jsonl").write_text(trec("s0", (FACTS[0], ["notes/a.txt"])) + trec("s1", ("Rain fell in June.", ["notes/b.txt"])))
    Path("other.jsonl").write_text(trec("s0", ("Rain.", [])) + trec("s1", (FACTS[1], [])))
    answers = [{"answers": f"{name}.jsonl", "name": name} for name in ("mine", "other")]
    grid = spec("s.yaml", retrievers=["none"], summarizers=answers)
    planned = cli("plan", grid)
    assert "no document holds an insight: coverage is scored" in planned.err and "can be right" not in planned.err
    run = cli("run", grid, "--json").document["run"]
    system = next(one for one in cli("score", run, "--json").document["systems"] if one["model"] == "mine")
    assert (system["coverage"], system["n_scored"]) == (pytest.approx(1 / 3), 3)
    for name in ("joint", "citation", "citation_precision", "citation_recall", "joint_floor", "citation_floor"):
        assert system[name] is None, name
    scores = [row for row in rows(cli, run, "scores", tmp_path / "t") if row["model"] == "mine"]
    assert {row["joint"] for row in scores} == {row["citation_f1"] for row in scores} == {None}
    compared = cli("compare", run, "--by", "model", "--json")
    assert compared.code == 0 and {pair["figure"] for pair in compared.document["pairs"]} == {"coverage"}
    assert cli("report", run, "--out", tmp_path / "page").code == 0
    assert cli("score", run).code == 0


def test_nuggets_are_a_haystack_with_and_without_documents(folder: Path, cli: Cli) -> None:
    Path("notes").mkdir()
    for name, text in TEXTS.items():
        Path(name).write_text(text)
    nuggets = {"qid": "s0", "query": "What of the depot?", "nuggets": [{"text": FACTS[0], "importance": "vital"}]}
    bank = {"Until when?": {"answers": {FACTS[1]: {"answer": FACTS[1], "references": [{"doc_id": "b.txt"}, {"doc_id": "c"}]}}}}
    listed = [
        {"question": "Until when?", "aggregator_type": "AND", "answers": [{"answer": FACTS[1], "references": ["b.txt", "c"]}]}
    ]
    answer = [("The tram line 7 stays closed until 12 May.", ["b.txt", "c.txt"])]

    def scored(line: Any, query: str, **fields: Any) -> dict[str, Any]:
        Path("n.jsonl").write_text(json.dumps(line))
        Path("mine.jsonl").write_text(trec(query, (FACTS[0], []), *answer))
        given = {"haystacks": ["n.jsonl"], "retrievers": ["none"], "summarizers": [{"answers": "mine.jsonl", "name": "mine"}]}
        run = cli("run", spec("n.yaml", **given, **fields), "--json")
        assert run.code == 0, run.err
        (system,) = cli("score", run.document["run"], "--json").document["systems"]
        return dict(system)

    bare = scored(nuggets, "s0")
    assert (bare["coverage"], bare["joint"], bare["citation"], bare["n_scored"]) == (1.0, None, None, 1)
    for asked in (bank, listed):
        found = scored({"query_id": "s1", "nugget_bank": asked}, "s1", documents="notes")
        assert (found["citation_precision"], found["citation_recall"], found["joint"]) == (1.0, 1.0, found["coverage"])
    Path("n.jsonl").write_text('{"qid": "s0", "nuggets": [{"importance": "vital"}]}')
    refused = cli("plan", "n.yaml")
    assert refused.code == 2 and "n.jsonl line 1: nuggets[0].text" in refused.err
