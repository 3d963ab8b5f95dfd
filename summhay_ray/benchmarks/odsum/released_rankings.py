"""Recovers rankings from the release's pipeline files, which hold the texts of retrieved documents but not their ids.

A file is a list of `{"Query", "Summary" | "Summary_1".., "Article"}`. The article consists of the retrieved documents, separated
by `<doc-sep>`. Text after the last separator is a document, even if blank, if the collection has a blank document. Some files
lack newlines and double quotes, so texts are compared without them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.errors import SpecError
from summhay_ray.inputs import read_json
from summhay_ray.retrieve import run_lines

SEPARATOR = "<doc-sep>"
_LOST = re.compile(r'[\s"]+')


def pipeline_run(collection: Collection, files: Sequence[str | Path], tag: str = "release") -> str:
    """The rankings in pipeline files as lines of a TREC run, for `retrievers: [{run: FILE}]`.

    A query is matched by its text. If the file words it differently, as the stories' sparse files do, it is matched by its first
    reference. Raises SpecError, naming file and entry, for a query or document that is not in the collection.
    """
    documents = {_bare(document.text): document.document_id for document in reversed(collection.documents)}
    queries = {_bare(query.text): query.query_id for query in reversed(collection.queries)}
    answers = {_bare(query.references[0]): query.query_id for query in reversed(collection.queries) if query.references}
    lines = []
    for file in files:
        for place, entry in enumerate(_entries(file)):
            where = f"{file}: entry {place}"
            answer = entry.get("Summary", entry.get("Summary_1", ""))
            query_id = queries.get(_bare(entry["Query"])) or answers.get(_bare(answer))
            if query_id is None:
                raise SpecError(f"{where}: the collection has no query with this text or first reference")
            parts = list(map(_bare, entry["Article"].split(SEPARATOR)))
            if len(parts) > 1 and not parts[-1] and "" not in documents:
                parts.pop()
            ids = [documents.get(part) for part in parts]
            if None in ids:
                what = f"{where}: document {ids.index(None) + 1} of its article is not in the collection"
                raise SpecError(f"{what}; give the collection that the file was made from")
            lines.append(run_lines(query_id, list(dict.fromkeys(name for name in ids if name)), tag))
    return "".join(lines)


def _entries(file: str | Path) -> list[dict[str, str]]:
    try:
        rows = json.loads(read_json(file))
    except (OSError, ValueError) as error:
        raise SpecError(f"{file}: cannot be read: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SpecError(f"{file}: expected a list of objects with Query and Article")
    for place, row in enumerate(rows):
        for name in ("Query", "Article"):
            if not isinstance(row.get(name), str):
                raise SpecError(f"{file}: entry {place}: {name}: expected text")
    return rows


def _bare(text: str) -> str:
    """The text without white space and double quotes."""
    return _LOST.sub("", text)
