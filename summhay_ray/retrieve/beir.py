"""Reads and writes BEIR folders: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv (Thakur et al. 2021)."""

import json
from collections.abc import Callable
from typing import Any

from summhay_ray.retrieve.corpus import Corpus, Query, query_flaw, with_title
from summhay_ray.retrieve.trec import BadTrec, Qrels, number_of
from summhay_ray.text import read_json_lines

CORPUS, QUERIES, QRELS = "corpus.jsonl", "queries.jsonl", "qrels/test.tsv"


def read_beir(read: Callable[[str], str], name: str) -> Corpus:
    """Read the corpus in a folder: its documents in the file's order, and all of its queries, without relevance.

    `read` returns the text of a file by its path in the folder. A document's text is its title, a space and its text. A query, or
    its `metadata`, may have `references` and `split`. Raises BadTrec, which names file and line.
    """
    documents = _records(read(CORPUS), f"{name}/{CORPUS}")
    titles = [str(one.get("title") or "") for one in documents.values()]
    queries = []
    for query_id, one in _records(read(QUERIES), f"{name}/{QUERIES}").items():
        if flaw := query_flaw(one["text"]):
            raise BadTrec(f"{name}/{QUERIES}: query {query_id!r}: {flaw}")
        more = {**metadata, **one} if isinstance(metadata := one.get("metadata"), dict) else one
        references = more.get("references") or []
        if not isinstance(references, list) or not all(isinstance(text, str) for text in references):
            found = json.dumps(references)[:40]
            raise BadTrec(f"{name}/{QUERIES}: query {query_id!r}: references: expected a list of texts, found {found}")
        split = str(more.get("split") or "")
        queries.append(Query(query_id, one["text"], references=tuple(references), split=split))
    return Corpus(
        name=name,
        document_ids=tuple(documents),
        texts=tuple(with_title(title, one["text"]) for title, one in zip(titles, documents.values(), strict=True)),
        titles=tuple(titles),
        queries=tuple(queries),
    )


def beir_files(corpus: Corpus) -> dict[str, str]:
    """Return path -> text of the BEIR folder of a corpus.

    Relevance is written as in `Corpus.grades`, with one file for each split (without splits: `test`). References and split are in
    a query's `metadata`. Raises BadTrec for an id that a line of the qrels cannot contain.
    """
    qrels = {QRELS: ["query-id\tcorpus-id\tscore\n"]}
    queries = []
    for query in corpus.queries:
        rows = qrels.setdefault(f"qrels/{query.split or 'test'}.tsv", [*qrels[QRELS][:1]])
        for name, grade in corpus.grades(query).items():
            if bad := next((one for one in (query.query_id, name) if set(one) & set("\t\r\n")), None):
                mend = "which contains a tab or the end of a line; give it another id"
                raise BadTrec(f"{QRELS} cannot hold the id {bad!r}, {mend}")
            rows.append(f"{query.query_id}\t{name}\t{grade:g}\n")
        fields = {"references": list(query.references), "split": query.split}
        metadata = {name: value for name, value in fields.items() if value}
        queries.append({"_id": query.query_id, "text": query.text, **({"metadata": metadata} if metadata else {})})
    titles = corpus.titles or ("",) * len(corpus.texts)
    documents = [
        # The text without the title that `with_title` puts before it.
        {"_id": name, "title": title, "text": text[len(title.lstrip()) :].removeprefix(" ") if title else text}
        for name, title, text in zip(corpus.document_ids, titles, corpus.texts, strict=True)
    ]
    records: dict[str, list[dict[str, Any]]] = {CORPUS: documents, QUERIES: queries}
    return {
        **{path: "".join(json.dumps(one, ensure_ascii=True) + "\n" for one in lines) for path, lines in records.items()},
        **{path: "".join(rows) for path, rows in qrels.items()},
    }


def _records(text: str, where: str) -> dict[str, dict[str, Any]]:
    """Return _id -> record for each line that is not blank. Raise BadTrec."""
    found: dict[str, dict[str, Any]] = {}
    for line, record in read_json_lines(text, where, BadTrec):
        if not isinstance(record, dict) or not all(isinstance(record.get(name), str) for name in ("_id", "text")):
            raise BadTrec(f'{line}: lacks a text _id or text; expected {{"_id": ..., "text": ...}}')
        if record["_id"] in found:
            raise BadTrec(f"{line}: _id {record['_id']!r} is a duplicate; give each line its own")
        found[record["_id"]] = record
    return found


def read_beir_qrels(text: str, name: str) -> Qrels:
    """Read the judgments in a split's file, whose lines have query-id, corpus-id and score, separated by tabs. Raise BadTrec."""
    qrels = Qrels(name)
    for line, content in enumerate(text.split("\n"), start=1):
        fields = content.rstrip("\r").split("\t")
        is_header = line == 1 and len(fields) == 3 and not fields[2].strip().lstrip("-").replace(".", "").isdigit()
        if not content.strip() or is_header:
            continue
        if len(fields) != 3:
            raise BadTrec(f"{name}:{line}: expected query-id, corpus-id and score between tabs, found {len(fields)} fields")
        qrels.add(fields[0], fields[1], number_of(fields[2], f"{name}:{line}", "score", whole=True))
    return qrels
