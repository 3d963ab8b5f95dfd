"""`summhay retrieve`: rankings and their figures, without summaries."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from ir_measures import AP, RR, P, R, SetF, SetP, SetR, nDCG
from typer.testing import CliRunner

import summhay_ray
from summhay_ray import api
from summhay_ray.cli.app import app
from summhay_ray.errors import SpecError, UserError
from summhay_ray.retrieve import BadTrec, beir_files, read_beir, read_beir_qrels, read_qrels, read_run, with_qrels
from summhay_ray.store import Store

pytestmark = pytest.mark.core

ROW = ["retriever", "k", "n", "precision", "recall", "f1", "ndcg", "ap", "mrr"]
FIELDS: dict[str, Any] = {
    "haystacks": ["sample/news", "sample/conversation"],
    "retrievers": ["bm25", "oracle", {"fuse": ["bm25", "keywords"]}, "full", "none"],
    "k": [3, 5],
    "token_budget": 1500,
}


@dataclass(frozen=True)
class Retrieved:
    """The rankings of `FIELDS`: the result, and a folder with the store and TREC's files."""

    folder: Path
    result: Any

    @property
    def store(self) -> str:
        return str(self.folder / "store")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Retrieved:
    folder = tmp_path_factory.mktemp("found")
    return Retrieved(folder, api.specs.retrieve(FIELDS, store=str(folder / "store"), executor="inline", trec=folder / "trec"))


def test_the_rows_are_those_that_ir_measures_finds_in_the_files(found: Retrieved) -> None:
    rows = found.result.to_json()["retrieval"]
    assert all(list(row) == ROW for row in rows)
    assert [(row["retriever"], row["k"]) for row in rows] == [
        *((name, k) for name in ("bm25", "oracle", "rrf(bm25,keywords)") for k in (3, 5, None)),
        ("full", None),
        *(("none", k) for k in (3, 5, None)),
    ]
    qrels = list(ir_measures.read_trec_qrels(str(found.folder / "trec" / "qrels")))
    for name in ("bm25", "rrf(bm25,keywords)"):
        run = list(ir_measures.read_trec_run(str(found.folder / "trec" / f"{name}.run")))
        for k in (3, 5):
            cut = [doc for doc in run if sum(o.query_id == doc.query_id and o.score > doc.score for o in run) < k]
            measures = {"precision": SetP, "recall": SetR, "f1": SetF, "ndcg": nDCG @ k, "ap": AP, "mrr": RR}
            theirs = ir_measures.calc_aggregate(list(measures.values()), qrels, cut)
            (row,) = [one for one in rows if (one["retriever"], one["k"]) == (name, k)]
            assert {one: row[one] for one in measures} == pytest.approx(
                {one: theirs[measure] for one, measure in measures.items()}
            )
            assert row["n"] == 8
    whole = next(row for row in rows if row["retriever"] == "full")
    assert (whole["recall"], whole["ndcg"], whole["ap"], whole["mrr"]) == (1, None, None, None)


def test_what_the_budget_shows_is_what_a_summarizer_is_shown(found: Retrieved) -> None:
    """A run of summaries has the same table, and its contexts have the same documents."""
    store = Store(found.store)
    run = summhay_ray.run({**FIELDS, "summarizers": ["offline/lead"]}, store=found.store, executor="inline")
    shown = {
        (row["subtopic_id"], row["retriever"]): len(row["numbers"]) for row in store.run(run.run).table("contexts").to_dicts()
    }
    alone = store.run(found.result.run).table("retrieved").to_dicts()
    assert {(row["query_id"], row["retriever"]): row["shown"] for row in alone} == shown

    def by_place(rows: list[dict[str, Any]]) -> Any:
        return {(row["retriever"], row["k"]): row for row in rows if row["retriever"] != "none"}

    assert by_place(run.to_json()["retrieval"]) == by_place(found.result.to_json()["retrieval"])
    assert by_place(summhay_ray.score(run.run, found.store).to_json()["retrieval"]) == by_place(run.to_json()["retrieval"])


def test_a_second_time_nothing_is_computed_and_summarizers_change_nothing(found: Retrieved) -> None:
    first = found.result
    more = {"summarizers": ["openai/gpt-4o"], "judges": ["openai/gpt-4o"], "orderings": ["top"], "repeats": 3}
    again = api.specs.retrieve({**FIELDS, **more}, store=found.store, executor="inline")
    assert (again.run, again.executor, again.to_json()["retrieval"]) == (first.run, "", first.to_json()["retrieval"])


def measured(folder: Path, retrievers: Sequence[Any] = ("bm25",), **fields: Any) -> tuple[dict[str, Any], str]:
    """The first row at k = 1 with its `n_expected`, and the warnings, for a run over a BEIR folder or over run files alone."""
    place = {"corpora": [str(folder)]} if (folder / "corpus.jsonl").exists() else {}
    spec = {"kind": "retrieval", **place, "retrievers": list(retrievers), "k": [1], **fields}
    done = api.specs.retrieve(spec, store=str(folder / "store"), executor="inline").to_json()
    return {**done["retrieval_intervals"][0], **done["retrieval"][0]}, "\n".join(done["warnings"])


def test_queries_without_a_judgment_are_not_asked(tmp_path: Path) -> None:
    row, warnings = measured(beir(tmp_path / "small", qrels="q1\td2\t2\nq1\td1\t1\n"), ["bm25", "random"])
    # q1 asks for plums: d2 has the highest grade.
    assert (row["n"], row["n_expected"], row["precision"], row["recall"], row["ndcg"], row["mrr"]) == (1, 1, 1, 1 / 2, 1, 1)
    assert "small: 1 query (such as 'q2') without a judgment" in warnings


def test_judgments_are_read_as_trec_eval_and_beir_read_them(tmp_path: Path) -> None:
    """A missing document stays relevant, the last of two judgments counts, and a query without a relevant document scores 0."""
    queries = "".join(json.dumps({"_id": one, "text": "plums"}) + "\n" for one in ("q1", "q2", "q3"))
    gold = "q1\td2\t1\nq1\tgone\t1\nq2\td2\t1\nq2\td2\t0\nq3\td1\t-1\n"
    row, warnings = measured(beir(tmp_path / "small", queries=queries, qrels=gold))
    assert (row["n"], row["precision"], row["recall"]) == (3, pytest.approx(1 / 3), pytest.approx((1 / 2 + 0 + 0) / 3))
    for found in ("'q2') with contradicting judgments", "2 queries (such as 'q2') judged", "'gone') missing from the corpus"):
        assert found in warnings


def test_a_document_with_the_id_of_the_query_is_left_out(tmp_path: Path) -> None:
    corpus = '{"_id": "q1", "text": "plums plums"}\n{"_id": "d2", "text": "plums and pears"}\n'
    folder = beir(tmp_path / "small", corpus=corpus, qrels="q1\td2\t1\n")
    row, warnings = measured(folder)
    assert row["precision"] == 1 and "'q1') with the id of a document" in warnings
    kept, warnings = measured(folder, ignore_identical_ids=False)
    assert kept["precision"] == 0 and not warnings.count("id of a document")


def test_splits_are_pooled_only_if_the_spec_says_so(tmp_path: Path) -> None:
    folder = beir(tmp_path / "small", qrels="q1\td2\t1\n")
    (folder / "qrels/dev.tsv").write_bytes("\ufeffquery-id\tcorpus-id\tscore\nq2\td3\t1\n".encode())
    assert [measured(folder)[0]["recall"], measured(folder, split="dev")[0]["recall"]] == [1, 0]
    assert measured(folder, split=["test", "dev"])[0] | {"n": 2, "recall": 1 / 2} == measured(folder, split=["test", "dev"])[0]
    with pytest.raises(SpecError, match="has no qrels/train.tsv"):
        measured(folder, split="train")
    (folder / "qrels/test.tsv").unlink()
    row, warnings = measured(folder.rename(tmp_path / "other"), k=[1, 2])
    assert row["n"] == 1 and "its only split" in warnings


def test_run_files_and_qrels_need_no_corpus(tmp_path: Path) -> None:
    """The floors are the figures of ir_measures: a query that the run lacks scores 0."""
    draw = random.Random(3)
    documents, queries = [f"d{number}" for number in range(60)], [f"q{number}" for number in range(12)]
    gold = [f"{query} 0 {one} {draw.choice((0, 1, 2))}\n" for query in queries for one in draw.sample(documents, 9)]
    # Scores with one decimal often tie.
    lines = [f"{query} Q0 {one} 1 {draw.randrange(10) / 10} t\n" for query in queries[:10] for one in draw.sample(documents, 30)]
    (tmp_path / "qrels").write_text("".join(gold) + "q12 0 d1 0\n")
    (tmp_path / "a.run").write_text("\ufeff" + "".join(lines) + "q99 Q0 d1 1 1.0 t\n")
    spec = {"kind": "retrieval", "qrels": str(tmp_path / "qrels"), "retrievers": [{"run": str(tmp_path / "a.run")}], "k": [5, 10]}
    done = api.specs.retrieve(spec, store=str(tmp_path / "store"), executor="inline").to_json()
    (tmp_path / "a.run").write_text("".join(lines))
    qrels, run = (list(read(str(tmp_path / name))) for read, name in READERS)
    for row in done["retrieval_intervals"]:
        k = row["k"]
        theirs = (
            {"ndcg": nDCG @ k, "ap": AP @ k, "recall": R @ k, "precision": P @ k} if k else {"ndcg": nDCG, "ap": AP, "mrr": RR}
        )
        expected = ir_measures.calc_aggregate(list(theirs.values()), qrels, run)
        assert {name: row[f"{name}_floor"] for name in theirs} == pytest.approx(
            {name: expected[one] for name, one in theirs.items()}, abs=1e-12
        )
        assert row["n_expected"] == 13
    assert [row["n"] for row in done["retrieval"]] == [10, 10, 10] and "'q99') without a judgment" in "\n".join(done["warnings"])
    with pytest.raises(SpecError, match="retrievers: 'bm25' needs a corpus"):
        api.specs.retrieve({**spec, "retrievers": ["bm25"]}, store=str(tmp_path / "store"))


READERS = ((ir_measures.read_trec_qrels, "qrels"), (ir_measures.read_trec_run, "a.run"))


def beir(folder: Path, corpus: str = "", queries: str = "", qrels: str = "") -> Path:
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": "d1", "title": "Red", "text": "apples"}, {"_id": "d2", "text": "plums"}, {"_id": "d3", "text": ""}]
    texts = {
        "corpus.jsonl": corpus or "".join(json.dumps(one) + "\n" for one in documents),
        "queries.jsonl": queries or '{"_id": "q1", "text": "plums"}\n{"_id": "q2", "text": "pears"}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\n" + qrels,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    return folder


def test_a_beir_folder_goes_out_and_comes_back(found: Retrieved, tmp_path: Path) -> None:
    result = api.specs.retrieve(FIELDS, store=found.store, executor="inline", beir=tmp_path / "beir")
    corpora = [str(folder) for folder in sorted((tmp_path / "beir").iterdir())]
    assert [Path(one).name for one in corpora] == ["conversation", "news"]
    fields = {**{name: value for name, value in FIELDS.items() if name != "haystacks"}, "kind": "retrieval", "corpora": corpora}
    again = api.specs.retrieve(fields, store=str(tmp_path / "other"), executor="inline")
    # The oracle ranks haystacks by the number of insights in a document. A BEIR folder with grades of 0 and 1 has no such number,
    # so another relevant document may come first within the budget.
    after, before = (
        [
            [row[name] or 0 for name in ROW[2:]]
            for row in one.to_json()["retrieval"]
            if (row["retriever"], row["k"]) != ("oracle", None)
        ]
        for one in (again, result)
    )
    assert len(after) == 12 and after == [pytest.approx(row) for row in before]
    grades = {line.split("\t")[2] for line in (tmp_path / "beir/news/qrels/test.tsv").read_text().splitlines()[1:]}
    assert grades == {"1"}
    with pytest.raises(UserError, match="exists; give another folder"):
        api.specs.retrieve(FIELDS, store=found.store, executor="inline", beir=tmp_path / "beir")


def test_trec_files_of_corpora_that_share_ids_go_out_and_come_back(tmp_path: Path) -> None:
    other = '{"_id": "d1", "text": "pears"}\n{"_id": "d2", "text": "plums and pears"}\n'
    gold = "q1\td2\t1\nq2\td1\t2\n"
    fields: dict[str, Any] = {
        "kind": "retrieval",
        "corpora": [str(beir(tmp_path / "small", qrels=gold)), str(beir(tmp_path / "other", corpus=other, qrels=gold))],
        "retrievers": ["random", {"bm25": "split", "name": "a/b"}, {"bm25": "stems", "name": "a_b"}],
        "k": [1],
    }
    first = api.specs.retrieve(fields, store=str(tmp_path / "store"), executor="inline", trec=tmp_path / "trec")
    assert {path.name for path in (tmp_path / "trec").iterdir()} == {"qrels", "a_b.run", "a_b-2.run", "random.run"}
    back = {**fields, "retrievers": [{"run": str(tmp_path / "trec/random.run")}], "qrels": str(tmp_path / "trec/qrels")}
    again = api.specs.retrieve(back, store=str(tmp_path / "store"), executor="inline")
    rows = [row for row in first.to_json()["retrieval"] if row["retriever"] == "random"]
    assert rows[0]["n"] == 4 and (again.status, again.to_json()["retrieval"]) == ("done", rows)


def test_qrels_replace_the_gold_documents_of_the_corpora(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "kind": "retrieval",
        "corpora": [str(beir(tmp_path / "small", qrels="q1\td1\t1\n"))],
        "retrievers": ["oracle"],
        "k": [1],
    }
    store, runs = str(tmp_path / "store"), {api.specs.retrieve(fields, str(tmp_path / "store"), executor="inline").run}
    for lines, gold in (("q1 0 d3 1\n", [["d3"]]), ("q1 0 d3 1\nq2 0 d1 2\nq2 0 d2 0\n", [["d3"], ["d1"]])):
        (tmp_path / "qrels").write_text(lines)
        done = api.specs.retrieve({**fields, "qrels": str(tmp_path / "qrels")}, store, executor="inline")
        assert [(row["n"], row["ndcg"]) for row in done.to_json()["retrieval"]] == [(len(gold), 1)] * 2
        assert api.table(done.run, "retrieved", store).sort("query_id")["gold"].to_list() == gold
        runs.add(done.run)
    assert len(runs) == 3
    for lines, told in (
        ("q9 0 d1 1\n", "no corpus has a query 'q9'"),
        ("q1 d1 1\n", "qrels:1: expected 'query_id 0 document_id"),
    ):
        (tmp_path / "qrels").write_text(lines)
        with pytest.raises(SpecError, match=f"spec: qrels: .*{told}"):
            api.specs.retrieve({**fields, "qrels": str(tmp_path / "qrels")}, store, executor="inline")


def judgments(folder: Path) -> tuple[str, str]:
    """The text and the name of a BEIR folder's judgments."""
    return (folder / "qrels/test.tsv").read_text(), f"{folder.name}/qrels/test.tsv"


def test_titles_references_and_grades_go_through_a_beir_folder_as_they_are(tmp_path: Path) -> None:
    queries = '{"_id": "q1", "text": "plums", "metadata": {"references": ["Plums are ripe."]}}\n{"_id": "q2", "text": "pears"}\n'
    folder = beir(tmp_path / "small", queries=queries, qrels="q1\td2\t2\nq1\td1\t1\n")
    corpus, _ = with_qrels(read_beir(lambda path: (folder / path).read_text(), "small"), read_beir_qrels(*judgments(folder)))
    assert corpus.texts == ("Red apples", "plums", "") and corpus.queries[0].references == ("Plums are ripe.",)
    files = beir_files(corpus)
    assert [json.loads(line) for line in files["corpus.jsonl"].splitlines()] == [
        {"_id": "d1", "title": "Red", "text": "apples"},
        {"_id": "d2", "title": "", "text": "plums"},
        {"_id": "d3", "title": "", "text": ""},
    ]
    assert [json.loads(line) for line in files["queries.jsonl"].splitlines()] == [json.loads(queries.splitlines()[0])]
    assert files["qrels/test.tsv"] == "query-id\tcorpus-id\tscore\nq1\td2\t2\nq1\td1\t1\n"
    beir(tmp_path / "text", queries=queries.replace('["Plums are ripe."]', '"Plums are ripe."'))
    with pytest.raises(BadTrec, match="query 'q1': references: expected a list of texts"):
        read_beir(lambda path: (tmp_path / "text" / path).read_text(), "text")
    spoiled = replace(corpus, document_ids=("d1", "d\t2", "d3"), queries=(replace(corpus.queries[0], gold={"d\t2": 1.0}),))
    with pytest.raises(BadTrec, match="cannot hold the id 'd.*2', which contains a tab"):
        beir_files(spoiled)
    with pytest.raises(BadTrec, match=r"qrels:1: the relevance is '1.5'"):
        read_qrels("q1 0 d1 1.5\n", "qrels")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"corpus": '{"_id": "a"}\n'}, r"small/corpus.jsonl:1: lacks a text _id or text"),
        ({"corpus": "[]\n"}, r"small/corpus.jsonl:1: lacks a text _id or text"),
        ({"corpus": "{\n"}, r"small/corpus.jsonl:1: is no JSON"),
        ({"corpus": '{"_id": "a", "text": "\\ud800"}\n'}, r"small/corpus.jsonl:1: is no JSON .*lone surrogate .ud800"),
        (
            {"queries": f'{{"_id": "q1", "text": "{"why " * 300_000}"}}\n'},
            r"small/queries.jsonl: query 'q1': has 1,200,000 characters",
        ),
        ({"queries": '{"_id": "a", "text": ""}\n' * 2}, r"small/queries.jsonl:2: _id 'a' is a duplicate"),
        ({"qrels": "q1 d1 1\n"}, r"small/qrels/test.tsv:2: expected query-id, corpus-id and score between tabs, found 1 fields"),
        ({"qrels": "q1\td1\tyes\n"}, r"small/qrels/test.tsv:2: the score is 'yes'; expected a number"),
        ({"qrels": "q1\td1\t0.5\n"}, r"small/qrels/test.tsv:2: the score is '0.5'; expected a whole number"),
        ({"qrels": "q9\td1\t1\n"}, r"small/qrels/test.tsv: query 'q9' is not in queries.jsonl"),
    ],
)
def test_a_wrong_beir_folder_is_reported_by_file_and_line(tmp_path: Path, changed: dict[str, str], told: str) -> None:
    folder = beir(tmp_path / "small", **changed)
    with pytest.raises(SpecError, match=told):
        api.specs.retrieve({"kind": "retrieval", "corpora": [str(folder)], "retrievers": ["bm25"]}, store=str(tmp_path / "store"))


def test_the_command_prints_rows_or_tables(tmp_path: Path) -> None:
    (tmp_path / "spec.yaml").write_text("haystacks: [sample/news]\nretrievers: [bm25, full]\nk: [3]\n")
    options = ["retrieve", str(tmp_path / "spec.yaml"), "--store", str(tmp_path / "store"), "--executor", "inline"]
    done = CliRunner().invoke(app, [*options, "--json"])
    assert done.exit_code == 0
    told = json.loads(done.stdout)
    assert (told["status"], [row["k"] for row in told["retrieval"]]) == ("done", [3, None, None])
    shown = CliRunner().invoke(app, [*options, "--trec", str(tmp_path / "trec")])
    assert shown.exit_code == 0 and "budget" in shown.stdout and "nDCG" in shown.stdout
    assert len(read_run((tmp_path / "trec" / "bm25.run").read_text(), "bm25.run")) == 4
    assert len(read_qrels((tmp_path / "trec" / "qrels").read_text(), "qrels").grades) == 4


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"haystack": ["sample/news"], "retrievers": ["bm25"]}, "no field is named 'haystack'; did you mean 'haystacks'?"),
        ({"retrievers": ["bm25"]}, "haystacks: is empty"),
        ({"haystacks": ["sample/news"], "retrievers": ["bm25"], "k": [0]}, r"k\[0\]: input should be greater than or equal to 1"),
        ({"kind": "synth", "topics": ["x"]}, "a spec of kind 'synth' has no retrievers"),
        ({"haystacks": ["sample/news"], "retrievers": ["released/vector"]}, "news holds no scores of 'released/vector'"),
    ],
)
def test_wrong_retrieval_specs_are_refused_in_one_line(tmp_path: Path, fields: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError, match=told):
        api.specs.retrieve(fields, store=str(tmp_path / "store"))


class Raises:
    name, whole = "raises", False

    def __init__(self, argument: str, seed: int) -> None: ...

    def rank_all(self, queries: Any, corpus: Any) -> Any:
        raise SystemExit("no")


def test_a_retriever_that_raises_is_a_failure_and_stops_no_other(tmp_path: Path) -> None:
    fields = {**FIELDS, "retrievers": ["bm25", f"{__name__}:Raises"]}
    result = api.specs.retrieve(fields, store=str(tmp_path / "store"), executor="inline")
    assert (result.status, result.cells) == ("partial", {"total": 4, "done": 2, "failed": 2})
    found = {row["retriever"]: row["n"] for row in result.to_json()["retrieval"]}
    assert found == {"bm25": 8, f"{__name__}:Raises": 0}
    failure = summhay_ray.failures(result.run, str(tmp_path / "store"))[0]
    assert (failure["stage"], failure["error"]) == ("retrieve", "retriever_error")
    assert failure["message"].startswith("SystemExit: no (test_retrieve_alone.py:")
