"""Read answers from a file, with the documents that they cite, as `CitedAnswers`; store them in a run."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from summhay_ray.benchmark import Benchmark, RunStore
from summhay_ray.citations import CitedDocuments
from summhay_ray.errors import SpecError
from summhay_ray.inputs import write_new
from summhay_ray.mine import read_folder
from summhay_ray.records import CitedAnswer, CitedAnswers
from summhay_ray.summarize import bullets_of, remove_references
from summhay_ray.text import RagAnswer, UnusableAnswer, rag_answer_json, read_rag_answer, remove_thinking

DEFAULT_SYSTEM = "answers"


def read_answers(text: str, file: str, folder: Path | None, shown_as: str) -> tuple[CitedAnswers, list[str]]:
    """Read the answers in JSON lines. Returns them and the unreadable files of the folder. Raises SpecError with the line's
    number.

    A line has `query_id`, and `bullets` (a list) or `text` (one bullet per line). It may have `system`, and `shown`, the ids of
    the documents that the system was shown. It cites its own `passages` or, if it has none, the folder's documents. A line with
    `claim` and `references` is a bullet that cites all of these. A line may also be an answer in the format of the TREC tracks
    for RAG.
    """
    sources, unread = ([], []) if folder is None else read_folder(folder)
    if folder is not None and not sources:
        raise SpecError(
            f"{shown_as}: no document with text is in this folder; give the folder of the documents that answers cite"
        )
    name = folder.resolve().name or "documents" if folder is not None else ""
    documents = {name: [(source.document_id, source.text) for source in sources]} if sources else {}
    answers: list[CitedAnswer] = []
    wrong: list[SpecError] = []
    uses: Counter[tuple[str, str]] = Counter()
    # Do not use splitlines(): a text may contain other characters that break lines.
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            answers += [_answer(line, f"{file} line {number}", str(number), name, documents, uses)] if line.strip() else []
        except SpecError as error:
            wrong.append(error)
    if wrong:
        more = f" (and {len(wrong) - 1:,} lines after it are wrong, too)" if len(wrong) > 1 else ""
        raise SpecError(f"{wrong[0]}{more}")
    if not answers:
        raise SpecError(f"{file}: holds no answer; give a JSON object with query_id and text in each line")
    lost = [f"{one.document_id} {one.message}" for one in unread]
    return CitedAnswers(documents, answers), lost


def _answer(
    line: str, where: str, number: str, folder: str, documents: dict[str, list[tuple[str, str]]], uses: Counter[tuple[str, str]]
) -> CitedAnswer:
    """Return the answer of a line. Adds the line's own passages to `documents`, as a separate haystack."""
    row = _row(line, where)
    try:
        rag = read_rag_answer(row)
    except ValueError as error:
        raise SpecError(f"{where}: {error}") from error
    query = (rag.query_id or None) if rag else row.get("query_id", row.get("id"))
    if not isinstance(query, str | int | None) or isinstance(query, bool):
        raise SpecError(f"{where}: query_id: expected a text or a number")
    asked = number if query is None else str(query)
    system = (rag and rag.system) or str(row.get("system") or row.get("model") or DEFAULT_SYSTEM)
    uses[asked, system] += 1
    if (again := uses[asked, system]) > 1:
        system = f"{system}#{again - 1}"
    haystack = folder
    if passages := _passages(row, where):
        haystack = f"line {number}"
        documents[haystack] = passages
    elif not folder:
        raise SpecError(f"{where}: has no `passages`; give the folder of the documents that answers cite: --documents FOLDER")
    shown = _shown(row.get("shown"), {document_id for document_id, _ in documents[haystack]}, where)
    if rag is not None:
        return CitedAnswer(haystack, asked, system, rag.sentences, shown, cited=rag.cited)
    if isinstance(claim := row.get("claim"), str):
        cites = "".join(f"[{place}]" for place in range(1, len(documents[haystack]) + 1))
        return CitedAnswer(haystack, asked, system, (f"{claim} {cites}",), shown)
    try:
        return CitedAnswer(haystack, asked, system, _bullets(row, where), shown)
    except UnusableAnswer as error:
        return CitedAnswer(haystack, asked, system, (), shown, error=str(error))


def _passages(row: Mapping[str, Any], where: str) -> list[tuple[str, str]]:
    """Return (id, text) of the passages in a line, in the order of its citation numbers, which are the default ids. Raises
    SpecError unless it is a list of texts, or of objects with a text."""
    field = next((name for name in ("passages", "docs", *(["references"] if "claim" in row else [])) if name in row), None)
    if field is None:
        return []
    found: list[tuple[str, str]] = []
    given = row[field] if isinstance(row[field], list) else [row[field]]
    for place, one in enumerate(given, start=1):
        text = one.get("text", one.get("content")) if isinstance(one, dict) else one
        if not isinstance(text, str):
            raise SpecError(f"{where}: {field}: entry {place} has no text; give texts, or objects with `text`")
        title = str(one.get("title") or "") if isinstance(one, dict) else ""
        names = ("id", "docid", "doc_id", "document_id") if isinstance(one, dict) else ()
        own = next((str(one[name]) for name in names if one.get(name)), str(place))
        found.append((own, f"{title}\n{text}" if title else text))
    if len({document_id for document_id, _ in found}) < len(found):
        raise SpecError(f"{where}: {field}: two of them have the same id; give each its own")
    return found


def _row(line: str, where: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{where}: is no JSON ({error}); give an object with query_id and text") from None
    if not isinstance(row, dict):
        raise SpecError(f"{where}: expected a JSON object with query_id and text, found {type(row).__name__}")
    return row


def _bullets(row: Mapping[str, Any], where: str) -> tuple[str, ...]:
    for field in ("bullets", "text", "answer", "summary"):
        value = row.get(field)
        if isinstance(value, str):
            return bullets_of(remove_thinking(value))
        if isinstance(value, list) and all(isinstance(one, str) for one in value):
            return remove_references(value)
        if value is not None:
            raise SpecError(f"{where}: {field}: expected a text or a list of texts")
    raise SpecError(f"{where}: has no `text` and no `bullets`; give what is to be judged")


def _shown(value: Any, known: set[str], where: str) -> tuple[str, ...] | None:
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise SpecError(f"{where}: shown: expected a list of document ids")
    if lost := [one for one in value if one not in known]:
        raise SpecError(f"{where}: shown: {lost[0]!r} is not a document of the folder; give its path in the folder")
    return tuple(value)


def answers_of(run: RunStore) -> CitedAnswers:
    """Return the answers of a stored run of any kind. Raises UserError if it has no answers that cite documents."""
    return Benchmark.of(run).cited_answers(run)


def export_rag_answers(run: RunStore, folder: Path) -> list[Path]:
    """Write a run's answers in the format of the TREC tracks for RAG, a file for each system; returns the paths.

    A topic is a query's id, preceded by its haystack if haystacks share ids. Missing documents are cited by the id that the
    answer gives; numbers without a document are left out. Raises UserError instead of overwriting a file.
    """
    cited = answers_of(run)
    corpora = {name: CitedDocuments(documents) for name, documents in cited.documents.items()}
    haystacks: dict[str, set[str]] = {}
    for one in cited.answers:
        haystacks.setdefault(one.query_id, set()).add(one.haystack_id)
    lines: dict[str, list[str]] = {}
    for one in cited.answers:
        corpus = corpora[one.haystack_id]
        found = corpus.cited(one.bullets) if one.cited is None else [corpus.named(ids) for ids in one.cited]
        ids = [(*(corpus.documents[number - 1][0] for number in each.numbers), *each.unreadable) for each in found]
        query = one.query_id if len(haystacks[one.query_id]) == 1 else f"{one.haystack_id}/{one.query_id}"
        written = RagAnswer(query, one.system, tuple(corpus.plain(one.bullets)), tuple(ids))
        lines.setdefault(one.system, []).append(json.dumps(rag_answer_json(written), ensure_ascii=False))
    names = {system: re.sub(r"[^\w.+#-]+", "_", system) for system in lines}
    uses = Counter(names.values())
    files = {
        f"{name}.jsonl" if uses[name] == 1 else f"{name}-{place}.jsonl": "\n".join(lines[system]) + "\n"
        for place, (system, name) in enumerate(names.items(), start=1)
    }
    return write_new(folder, files)


def cited_answers_json(cited: CitedAnswers, unread: Sequence[str] = ()) -> bytes:
    """Return the answers and documents in the form that a run stores."""
    held = {
        "documents": {name: [list(one) for one in documents] for name, documents in cited.documents.items()},
        "answers": [
            [
                *(one.haystack_id, one.query_id, one.system, list(one.bullets), None if one.shown is None else list(one.shown)),
                *(one.label, one.model, one.retriever, one.ordering),
                *([] if one.cited is None and not one.error else [one.error]),
                *([] if one.cited is None else [[list(ids) for ids in one.cited]]),
            ]
            for one in cited.answers
        ],
        "unread": list(unread),
    }
    return json.dumps(held, ensure_ascii=True, separators=(",", ":")).encode("ascii")


def read_cited_answers(content: bytes) -> tuple[CitedAnswers, list[str]]:
    """Read what `cited_answers_json` wrote."""
    held = json.loads(content)
    documents = {name: [(one[0], one[1]) for one in found] for name, found in held["documents"].items()}
    answers = [
        CitedAnswer(
            *(haystack, query, system, tuple(bullets), None if shown is None else tuple(shown)),
            *names[:5],
            *(tuple(map(tuple, cited)) for cited in names[5:]),
        )
        for haystack, query, system, bullets, shown, *names in held["answers"]
    ]
    return CitedAnswers(documents, answers), held["unread"]
