"""The release's pipeline files: rankings whose ids were lost, found again by their texts.

A file is a list of `{"Query", "Summary" | "Summary_1".., "Article"}`; the article is the retrieved documents with `<doc-sep>`
between them; some files lack newlines and double quotes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from summhay_ray.benchmark import SpecError
from summhay_ray.benchmarks.odsum.collection import Collection
from summhay_ray.inputs import read_json
from summhay_ray.retrieve import run_lines

SEPARATOR = "<doc-sep>"
_LOST = re.compile(r'[\s"]+')


def pipeline_run(collection: Collection, files: Sequence[str | Path], tag: str = "release") -> str:
    """The rankings of pipeline files as the lines of a TREC run, for `retrievers: [{run: FILE}]`.

    A query is known by its text, or by its first reference where the file has other words for it, as the story's sparse files
    have. Raises SpecError, naming the file and the entry, for a query or a document that the collection does not hold.
    """
    documents = {_bare(one.text): one.document_id for one in reversed(collection.documents)}
    queries = {_bare(one.text): one.query_id for one in reversed(collection.queries)}
    answers = {_bare(one.references[0]): one.query_id for one in reversed(collection.queries) if one.references}
    lines = []
    for file in files:
        for place, entry in enumerate(_entries(file)):
            where = f"{file}: entry {place}"
            answer = entry.get("Summary", entry.get("Summary_1", ""))
            query_id = queries.get(_bare(entry["Query"])) or answers.get(_bare(answer))
            if query_id is None:
                raise SpecError(f"{where}: the collection holds no such query, by its text or its first reference")
            found = [documents.get(_bare(part)) for part in _parts(entry["Article"])]
            if None in found:
                told = f"{where}: document {found.index(None) + 1} of its article is none of the collection"
                raise SpecError(f"{told}; give the collection that it was made of")
            lines.append(run_lines(query_id, list(dict.fromkeys(name for name in found if name)), tag))
    return "".join(lines)


def _entries(file: str | Path) -> list[dict[str, str]]:
    try:
        found = json.loads(read_json(file))
    except (OSError, ValueError) as error:
        raise SpecError(f"{file}: cannot be read: {error}") from error
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise SpecError(f"{file}: expected a list of objects with Query and Article")
    for place, one in enumerate(found):
        for name in ("Query", "Article"):
            if not isinstance(one.get(name), str):
                raise SpecError(f"{file}: entry {place}: {name}: expected text")
    return found


def _parts(article: str) -> list[str]:
    """The documents of an article; a separator at its end has none behind it."""
    parts = article.split(SEPARATOR)
    return parts[:-1] if len(parts) > 1 and not parts[-1].strip() else parts


def _bare(text: str) -> str:
    """What every form of a text has in common."""
    return _LOST.sub("", text)
