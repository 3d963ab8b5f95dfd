"""Exports a run: the collection, and one file of summaries per system, in the format that `{answers: FILE}` reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from summhay_ray.benchmark import RunStore
from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.errors import UserError

_UNSAFE = re.compile(r"[^\w.+,()=@-]+")


def collection_files(collection: Collection) -> dict[str, str]:
    """Path -> text of a folder that `read_collection` reads, attribution included. Raises UserError for clashing file names."""
    files = {f"documents/{_UNSAFE.sub('_', document.document_id)}.txt": document.text for document in collection.documents}
    if len(files) < len(collection.documents):
        raise UserError("two document ids map to the same file name; use ids of letters and digits")
    named = {document.document_id: _UNSAFE.sub("_", document.document_id) for document in collection.documents}
    rows = [
        {
            "query_id": query.query_id,
            "text": query.text,
            "references": list(query.references),
            "gold": [named.get(name, name) for name in query.gold],
            "split": query.split,
        }
        for query in collection.queries
    ]
    files["queries.jsonl"] = "".join(map(_line, rows))
    if collection.attribution:
        files["ATTRIBUTION"] = f"{collection.attribution}\n"
    return files


def run_files(run: RunStore, collection: Collection) -> dict[str, str]:
    """Path -> text: the collection in `collection/`, and one file per system in `summaries/`."""
    files = {f"collection/{name}": text for name, text in collection_files(collection).items()}
    for row in run.table("odsum_summaries").sort("item_id").iter_rows(named=True):
        where = f"{row['retriever']}@{row['k']}+" if row["retriever"] else ""
        system = _UNSAFE.sub("_", f"{where}{row['strategy']}+{row['model']}")
        name = f"summaries/{system}.jsonl"
        files[name] = files.get(name, "") + _line({"query_id": row["query_id"], "text": row["text"]})
    return files


def _line(row: Mapping[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"
