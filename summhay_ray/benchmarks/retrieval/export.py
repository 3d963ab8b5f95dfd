"""Exports rankings, relevance and corpora for other tools: TREC files and BEIR folders."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import RunStore
from summhay_ray.inputs import write_new
from summhay_ray.retrieve import beir_files, long_name, qrels_lines, run_lines

_UNSAFE = re.compile(r"[^\w.+,()-]+")


def write_trec(run: RunStore, folder: Path) -> list[Path]:
    """Write a run's rankings as RETRIEVER.run and its relevance as `qrels`; returns the paths.

    A query id that occurs in several corpora is prefixed with its corpus id. Raises UserError, before writing, for an existing
    file.
    """
    keys = ["retriever", "corpus_id", "query_id"]
    ranked, retrieved = run.table("ranked").sort(*keys, "rank"), run.table("retrieved").sort(*keys)
    queries = retrieved.unique(["corpus_id", "query_id"], maintain_order=True)
    shared = Counter(queries["query_id"])

    def name(corpus_id: str, query_id: str) -> str:
        return query_id if shared[query_id] == 1 else long_name(corpus_id, query_id)

    texts = {
        "qrels": "".join(
            qrels_lines(name(row["corpus_id"], row["query_id"]), dict(zip(row["gold"], row["grades"], strict=True)))
            for row in queries.iter_rows(named=True)
        )
    }
    tags: dict[str, str] = {}
    for retriever in ranked["retriever"].unique(maintain_order=True):
        tag = _UNSAFE.sub("_", retriever)
        tags[retriever] = tag if tag not in tags.values() else f"{tag}-{len(tags) + 1}"
    for (retriever, corpus_id, query_id), rows in ranked.group_by(keys, maintain_order=True):
        tag = tags[str(retriever)]
        lines = run_lines(name(str(corpus_id), str(query_id)), rows["document_id"].to_list(), tag, rows["score"].to_list())
        texts[f"{tag}.run"] = texts.get(f"{tag}.run", "") + lines
    return write_new(folder, texts)


def write_beir(workload: Any, folder: Path) -> list[Path]:
    """Write each corpus of a run as a BEIR folder named after it; returns the paths.

    `workload` has `corpora`, like `Retrieving`. Raises UserError, before writing, if a file exists.
    """
    texts: dict[str, str] = {}
    for corpus_id in workload.corpora.queries():
        corpus = workload.corpora.corpus(corpus_id)
        subfolder = _UNSAFE.sub("_", corpus.name).lstrip(".") or corpus_id[:12]
        subfolder = subfolder if f"{subfolder}/corpus.jsonl" not in texts else f"{subfolder}-{corpus_id[:12]}"
        texts |= {f"{subfolder}/{path}": text for path, text in beir_files(corpus).items()}
    return write_new(folder, texts)
