"""ODSum's runs: their JSON document, and unusable answers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from odsum_collections import QUERIES, meetings, own, stories
from runs import summhay, write_spec

from summhay_ray import api
from summhay_ray.api import load
from summhay_ray.benchmarks.odsum.scores import NAMES
from summhay_ray.engine import SpecError
from summhay_ray.metrics import ROUGE_TYPES, rouge

pytestmark = pytest.mark.core

SHARED = Path(__file__).resolve().parents[4] / "shared"


def spec_of(folder: Path, **fields: Any) -> Path:
    """A spec over the small meetings in the same folder."""
    if not (folder / "meetings").exists():
        meetings(folder / "meetings")
    base = {"kind": "odsum", "corpus": "meetings", "retrievers": [{"bm25": "split"}, "oracle"], "k": [1, 2], "executor": "inline"}
    return write_spec(folder, {**base, **fields})


def test_retrieve_leaves_the_summarizers_aside_and_writes_trec_and_beir(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, summarizers=["offline/lead"])
    places = ["--trec", tmp_path / "trec", "--beir", tmp_path / "beir"]
    found = summhay("retrieve", spec, "--store", tmp_path / "store", *places)
    assert found["calls"]["made"] == 0 and found["summaries"] == []
    keys = {"retriever", "k", "n", "precision", "recall", "f1", "ndcg", "ap", "mrr"}
    assert [set(row) for row in found["retrieval"]] == [keys] * 6
    # Read back, the rankings are a retriever and the BEIR folder is a collection, with the same figures.
    # The scores are BM25's own, except if a tie would be broken by the documents' names.
    ranked = api.table(found["run"], "ranked", str(tmp_path / "store")).filter(retriever="bm25-split").sort("query_id", "rank")
    lines = [line.split() for line in (tmp_path / "trec/bm25-split.run").read_text("utf-8").splitlines()]
    assert [float(line[4]) for line in lines] == pytest.approx(ranked["score"].to_list(), abs=1e-30)
    for query in QUERIES:
        scores = np.array([float(line[4]) for line in lines if line[0] == query], dtype=np.float32)
        assert (np.diff(scores) < 0).all()
    fields = {"corpus": "beir/meetings", "retrievers": [{"run": "trec/bm25-split.run"}, "oracle"], "summarizers": []}
    again = summhay("retrieve", spec_of(tmp_path, **fields), "--store", tmp_path / "store")
    assert [row["ap"] for row in again["retrieval"]] == pytest.approx([row["ap"] for row in found["retrieval"]])
    queries = [json.loads(line) for line in (tmp_path / "beir/meetings/queries.jsonl").read_text("utf-8").splitlines()]
    assert [one["metadata"]["references"] for one in queries] == [[one["answer"]] for one in QUERIES.values()]
    split_of = {query.query_id: query.split for query in load(spec).collection.queries}
    for split in ("train", "dev", "test"):
        lines = (tmp_path / f"beir/meetings/qrels/{split}.tsv").read_text("utf-8").splitlines()[1:]
        assert {line.split("\t")[0] for line in lines} == {query for query, of in split_of.items() if of == split}
        assert {line.split("\t")[2] for line in lines} == {"1"}
        of_split = {**fields, "splits": [split]}
        assert [one.query_id for one in load(spec_of(tmp_path, **of_split)).collection.queries] == [
            query for query, of in split_of.items() if of == split
        ]


@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared is absent: no ODSum-meeting, no reference figures")
@pytest.mark.parametrize(
    "folder,reference,more",
    [
        ("odsum_meeting", "meeting_bm25", {"k": [1, 3, 6]}),
        pytest.param("odsum_story_train", "story_train_bm25", {"k": [3, 8, 10], "drop_blank": True}, marks=pytest.mark.soak),
    ],
)
def test_bm25_is_the_releases_query_by_query(folder: str, reference: str, more: dict[str, Any]) -> None:
    fields = {"kind": "odsum", "corpus": str(SHARED / "data" / folder), "retrievers": [{"bm25": "split"}], **more}
    workload = load(fields)
    rows = workload.prepare("bm25-split", ()).rows["odsum_retrieval"]
    expected = json.loads((SHARED / f"benchmarks/odsum/{reference}.json").read_text("utf-8"))["queries"]
    assert len(rows) == 3 * len(expected)
    for row in rows:
        told = expected[row.query_id]["at"][str(row.k)]
        ours = (row.precision, row.recall, row.f1, row.ndcg, row.ap)
        assert ours == pytest.approx([told[name] for name in ("P", "R", "F1", "NDCG", "AP")], abs=1e-6)


def test_every_cell_of_the_grid_has_a_row_with_its_scores(tmp_path: Path) -> None:
    strategies = ["truncate-all", "map-reduce", {"strategy": "refine-l2h", "units": "chunks"}]
    fields = {"strategies": strategies, "summarizers": ["offline/support"], "metrics": ["rouge", "geval"]}
    found = summhay("run", spec_of(tmp_path, **fields), "--store", tmp_path / "store")
    systems = [(row["retriever"], row["k"], row["strategy"], row["model"]) for row in found["summaries"]]
    # The oracle is asked once, with all gold documents.
    assert len(set(systems)) == len(systems) == (2 + 1) * 3
    assert {(retriever, k) for retriever, k, *_ in systems} == {("bm25-split", 1), ("bm25-split", 2), ("oracle", None)}
    assert {row["strategy"] for row in found["summaries"]} == {"truncate-all", "map-reduce", "refine-l2h (units=chunks)"}
    for row in found["summaries"]:
        assert (row["n_expected"], row["n_scored"], row["bertscore"]) == (5, 5, None)
        assert 0 < row["rougeL"] <= row["rouge1"] <= 1 and 1 <= row["geval"] <= 5
    lost = {(row["retriever"], row["k"], row["metric"]) for row in found["robustness"]}
    assert lost == {("bm25-split", k, metric) for k in (1, 2) for metric in (*ROUGE_TYPES, "geval")}
    again = summhay("run", tmp_path / "spec.yaml", "--store", tmp_path / "store")
    assert again["calls"]["made"] == 0 and again["summaries"] == found["summaries"]
    scored = summhay("score", found["run"], "--store", tmp_path / "store")
    assert scored["summaries"] == found["summaries"] and scored["retrieval"] == found["retrieval"]
    pair = [f"{retriever}_offline/support+map-reduce" for retriever in ("oracle", "bm25-split@2")]
    apart = summhay("compare", found["run"], "--systems", *pair, "--store", tmp_path / "store")["pairs"]
    place = {"retriever": "bm25-split", "k": 2, "strategy": "map-reduce", "model": "offline/support"}
    costs = {row["metric"]: row["lost"] for row in found["robustness"] if place.items() <= row.items()}
    assert {NAMES[metric]: lost for metric, lost in costs.items()} == {
        one["figure"]: pytest.approx(one["paired"]["difference"]) for one in apart
    }
    run_twice = found["run"], found["run"]
    same = summhay("compare", *run_twice, "--judges", "geval", "geval", "--store", tmp_path / "store")
    assert (
        same["judges"] == ["geval", "geval"]
        and same["agreement"]["same"] == 1.0
        and set(same["by_criterion"]) == {"consistency", "relevance"}
    )
    item = "0/oracle/offline/support+map-reduce"
    told = summhay("explain", found["run"], item, "--store", tmp_path / "store")
    assert len(told["calls"]) == 1 + 1 + 2  # Calls: map of the one gold document, reduce, two criteria.


def test_the_oracle_shows_all_gold_beside_a_retriever_that_is_cut(tmp_path: Path) -> None:
    errors = {"oracle": "add", "share": 0.5}
    fields = {"retrievers": [{"bm25": "split"}, "oracle", errors], "k": [1], "summarizers": ["offline/lead"]}
    found = summhay("run", spec_of(tmp_path, **fields), "--store", tmp_path / "store")
    shown = api.table(found["run"], "ranked", str(tmp_path / "store"))
    gold = {row["query_id"]: row["gold"] for row in api.table(found["run"], "odsum_queries", str(tmp_path / "store")).to_dicts()}
    for query_id, documents in gold.items():
        assert shown.filter(retriever="oracle", query_id=query_id).sort("rank")["document_id"].to_list() == documents
    assert [(row["retriever"], row["k"], row["n_scored"]) for row in found["summaries"]] == [
        ("bm25-split", 1, 5),
        ("oracle", None, 5),
        ("oracle-add-0.5", None, 5),
    ]
    rows = {(row["retriever"], row["k"]): row for row in found["robustness"] if row["metric"] == "rouge1"}
    assert rows.keys() == {("bm25-split", 1), ("oracle-add-0.5", None)}
    means = {(row["retriever"], row["k"]): row["rouge1"] for row in found["summaries"]}
    for system, row in rows.items():
        assert row["n"] == 5 and row["oracle"] == pytest.approx(means["oracle", None])
        assert row["lost"] == pytest.approx(means["oracle", None] - means[system])


def test_a_run_file_without_one_query_is_scored_on_the_others(tmp_path: Path) -> None:
    lines = "".join(f"{query} Q0 m2 1 1 x\n" for query in "0124")
    (tmp_path / "others.run").write_text(lines, encoding="utf-8")
    fields = {"retrievers": [{"run": "others.run"}], "k": [1], "summarizers": ["offline/lead"]}
    found = summhay("run", spec_of(tmp_path, **fields), "--store", tmp_path / "store", code=4)
    row = found["retrieval"][0]
    assert (row["retriever"], row["n"], row["precision"]) == ("others", 4, 2 / 4)
    assert found["retrieval_intervals"][0]["n_expected"] == 5
    [failure] = summhay("failures", found["run"], "--store", tmp_path / "store")["failures"]
    assert (failure["stage"], failure["error"]) == ("retrieve", "missing_scores")
    assert "ranks nothing for query '3'" in failure["message"]
    assert [(row["n_scored"], row["n_expected"]) for row in found["summaries"]] == [(4, 5)]
    assert summhay("plan", spec_of(tmp_path, **fields), "--store", tmp_path / "another")["cells"] == 5


def test_answers_made_elsewhere_are_scored_and_what_is_missing_or_empty_counts_as_expected(tmp_path: Path) -> None:
    texts = {"0": "The bridge opens in May.", "1": "A new engine and windows.", "3": " "}
    lines = (json.dumps({"query_id": query, "text": text}) + "\n" for query, text in texts.items())
    (tmp_path / "mine.jsonl").write_text("".join(lines), encoding="utf-8")
    fields = {"summarizers": [{"answers": "mine.jsonl", "name": "mine"}]}
    found = summhay("run", spec_of(tmp_path, **fields), "--store", tmp_path / "store", code=4)
    [row] = found["summaries"]
    assert (row["model"], row["retriever"], row["k"], row["strategy"]) == ("mine", None, None, "given")
    assert (row["n_expected"], row["n_scored"]) == (5, 2)
    held = [rouge(texts[query], [QUERIES[query]["answer"]]) for query in ("0", "1")]
    assert row["rouge2"] == pytest.approx(sum(one["rouge2"] for one in held) / 2)
    listed = summhay("failures", found["run"], "--store", tmp_path / "store")["failures"]
    assert sorted((row["query_id"], row["error"]) for row in listed) == [
        *(("2", "missing_answer"), ("3", "empty_answer"), ("4", "missing_answer")),
    ]
    # If there is one retriever and one k, the answers are assigned to them.
    one = summhay("run", spec_of(tmp_path, **fields, retrievers=["oracle"], k=[2]), "--store", tmp_path / "store", code=4)
    assert [(row["retriever"], row["k"]) for row in one["summaries"]] == [("oracle", None)]
    cut = summhay("run", spec_of(tmp_path, **fields, retrievers=["bm25"], k=[2]), "--store", tmp_path / "store", code=4)
    assert [(row["retriever"], row["k"]) for row in cut["summaries"]] == [("bm25", 2)]


def test_an_imported_folder_is_named_by_its_content(tmp_path: Path) -> None:
    meetings(tmp_path / "meetings")
    kept = summhay("import", tmp_path / "meetings", "--store", tmp_path / "store")
    assert {name: kept[name] for name in ("documents", "blank", "queries", "references", "gold")} == {
        "documents": 4,
        "blank": 1,
        "queries": 5,
        "references": 5,
        "gold": 5,
    }
    there = summhay("retrieve", spec_of(tmp_path), "--store", tmp_path / "store")
    shutil.rmtree(tmp_path / "meetings")
    spec = write_spec(
        tmp_path, {"kind": "odsum", "corpus": kept["corpus"], "retrievers": [{"bm25": "split"}, "oracle"], "k": [1, 2]}
    )
    found = summhay("retrieve", spec, "--store", tmp_path / "store", "--executor", "inline")
    assert (found["run"], found["retrieval"]) == (there["run"], there["retrieval"])
    with pytest.raises(SpecError, match="has no known format"):
        api.import_collection(tmp_path, str(tmp_path / "store"))


def test_the_release_of_stories_is_read_and_measured_whole(tmp_path: Path) -> None:
    # A byte order mark, Windows line breaks, blank parts, and a story with only blank parts.
    stories(tmp_path / "stories")
    place = tmp_path / "stories" / "documents" / "dev.jsonl"
    row = json.loads(place.read_text("utf-8"))
    place.write_text(json.dumps({**row, "divided_document": ["\n", ""]}) + "\n", encoding="utf-8")
    for file in (*(tmp_path / "stories" / "documents").iterdir(), tmp_path / "stories" / "queries.jsonl"):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    fields = {"corpus": "stories", "retrievers": [{"bm25": "split"}, "oracle"], "k": [3]}
    for drop, expected, n in ((False, "5 of 11 documents are blank; drop_blank: true takes them out", 8), (True, "5 blank", 6)):
        found = summhay("retrieve", spec_of(tmp_path, **fields, drop_blank=drop), "--store", tmp_path / "store")
        rows = {row["retriever"]: row for row in found["retrieval"] if row["k"] == 3}
        assert {name: row["n"] for name, row in rows.items()} == {"bm25-split": n, "oracle": n}
        # Three gold parts, one of them blank; two if blank parts are dropped.
        assert rows["oracle"]["recall"] == 1.0 and any(expected in told for told in found["warnings"])
    assert any("no gold document: retrieval is not scored: 2 (14-1, 14-2)" in told for told in found["warnings"])
    whole = load(spec_of(tmp_path, **fields)).collection
    assert [one.document_id for one in whole.documents[::3]] == ["train/11#0", "train/12#0", "test/13#0", "dev/14#0"]
    assert whole.by_id["11-1"].split == "train" and len(whole.by_id["14-2"].references) == 4


def test_a_collection_without_references_and_gold_is_summarized_and_not_scored(tmp_path: Path) -> None:
    own(tmp_path / "own")
    fields = {"corpus": "own", "retrievers": ["bm25"], "k": [1], "summarizers": ["offline/lead"]}
    found = summhay("run", spec_of(tmp_path, **fields), "--store", tmp_path / "store")
    [row] = found["summaries"]
    assert (row["n_expected"], row["n_scored"]) == (2, 1)
    assert [row["n"] for row in found["retrieval"]] == [1, 1]
    table = summhay("export", found["run"], "--tables", tmp_path / "out", "--format", "jsonl", "--store", tmp_path / "store")
    assert any("odsum_summaries" in file for file in table["files"])
    assert (tmp_path / "out/ATTRIBUTION").read_text("utf-8") == "Made for a test.\n"


def test_what_is_exported_is_read_again(tmp_path: Path) -> None:
    fields = {"retrievers": ["oracle"], "k": [2], "summarizers": ["offline/support"]}
    found = summhay("run", spec_of(tmp_path, **fields), "--store", tmp_path / "store")
    summhay("export", found["run"], "--out", tmp_path / "out", "--store", tmp_path / "store")
    assert "MIT" in (tmp_path / "out/collection/ATTRIBUTION").read_text("utf-8")
    [file] = (tmp_path / "out/summaries").iterdir()
    again = {"corpus": "out/collection", "summarizers": [{"answers": f"out/summaries/{file.name}", "name": "again"}]}
    scored = summhay("run", spec_of(tmp_path, **{**fields, **again}), "--store", tmp_path / "store")
    assert [row["rouge1"] for row in scored["summaries"]] == pytest.approx([row["rouge1"] for row in found["summaries"]])


@pytest.mark.parametrize(
    "fields,message",
    [
        ({"metrics": ["rogue"]}, "metrics.*expected one of rouge, bertscore, geval"),
        ({"metrics": ["rouge", "rouge"]}, "metrics: one is listed twice"),
        (
            {"metrics": [{"geval": {"model": "openai/gpt-4o", "temperature": 0}, "samples": 5}]},
            "samples above 1 at temperature 0",
        ),
        ({"metrics": [{"geval": "offline/rater", "criteria": ["relevance", "relevance"]}]}, "criteria: one is listed twice"),
        ({"splits": ["tset"]}, "splits: no query belongs to 'tset'; splits of this collection: train, test"),
        ({"k": [0]}, r"k\[0\]"),
        ({"retrievers": [], "summarizers": ["offline/lead"]}, "retrievers: the summarizers need at least one"),
        ({"summarizers": ["offline/lead"], "strategies": ["mapreduce"]}, "did you mean 'map-reduce'"),
        ({"corpus": "nowhere"}, "nowhere"),
        ({"summarizers": [{"answers": "mine.jsonl"}]}, "give them a name"),
    ],
)
def test_what_is_wrong_with_a_spec_is_one_line(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(Exception, match=message) as error:
        load(spec_of(tmp_path, **fields))
    assert "\n" not in str(error.value)


def test_whole_and_reduced_ratings_in_one_run(tmp_path: Path) -> None:
    rated = [{"geval": "offline/rater"}, {"geval": "offline/rater", "extract": {"method": "lead", "tokens": 4}}]
    fields = {"retrievers": ["oracle"], "summarizers": ["offline/lead"], "metrics": rated}
    found = summhay("run", spec_of(tmp_path, **fields), "--store", tmp_path / "store")
    [row] = found["summaries"]
    assert row["n_geval"] == row["n_geval_extract"] == 5 and row["geval"] != row["geval_extract"]
    same = summhay("compare", found["run"], "--store", tmp_path / "store", "--judges", "geval", "geval_extract")
    assert same["agreement"]["n"] == 2 * 5 and same["agreement"]["same"] < 1
    alone = summhay("run", spec_of(tmp_path, **{**fields, "metrics": rated[1:]}), "--store", tmp_path / "store")
    assert alone["summaries"][0]["geval"] == row["geval_extract"]
    refused = spec_of(tmp_path, **{**fields, "metrics": [rated[0], rated[0]]})
    with pytest.raises(SpecError, match="metrics: one is listed twice"):
        load(refused)
