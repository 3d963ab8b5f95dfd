"""Part of the synth room, offered at its door: what a person labels of haystacks, and what comes of it.

After Laban et al., appendices A.1.2 and A.1.3: a person who has not seen the plan assigns insights to subtopics (Table 4) and
says which insights a document holds (Table 5). The sheet is CSV in UTF-8 and shows no expected answer.
"""

from __future__ import annotations

import csv
import io
import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from summhay_ray.problems import Problem

COLUMNS = ("row", "kind", "haystack", "domain", "document", "text", "insight", "subtopics", "question", "answer")
"""Of the sheet; `row` and `answer` are what is read back."""

ASSIGN = "Which subtopic or subtopics does the insight belong to? Write the number, or several with commas; 0 for none."
PRESENT = "Does the text say the insight? Write yes or no."
ALL = "all"

_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_QUOTED = re.compile(r"'+[=+\-@\t\r]")
_ROW = re.compile(r"r([0-9]{1,9})of([0-9]{1,9})-([0-9a-f]{16})")
_YES_NO = {"yes": True, "y": True, "no": False, "n": False}
_LONGEST_FIELD = 100_000_000


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One question to a person. `row` names its place and, without giving anything away, what it is about."""

    row: str
    kind: str
    """insight_subtopic or document_insight."""
    haystack: str
    domain: str
    document: str
    text: str
    """The document's; empty where an insight is assigned."""
    insight: str
    subtopics: str
    """Numbered, one a line; empty where a document is read."""

    @property
    def question(self) -> str:
        """What the person is asked."""
        return PRESENT if self.kind == "document_insight" else ASSIGN


@dataclass(frozen=True, slots=True)
class Assigned:
    """An insight that a person assigned: places of subtopics from 0. `expected`: the plan's."""

    haystack: str
    domain: str
    insight_id: str
    expected: int
    chosen: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Present:
    """An insight that a person looked for in a document. `expected`: whether the haystack says that it is there."""

    haystack: str
    domain: str
    document_id: str
    insight_id: str
    expected: bool
    said: bool


@dataclass(frozen=True, slots=True)
class Labels:
    """What a person labelled, in the sheet's order."""

    insights: tuple[Assigned, ...]
    documents: tuple[Present, ...]


@dataclass(frozen=True, slots=True)
class _Item:
    """What a row is about. `subtopics`: texts; `expected`: place of the insight's subtopic, or 0 and 1 for no and yes."""

    kind: str
    haystack: str
    domain: str
    document_id: str
    text: str
    insight_id: str
    insight: str
    subtopics: tuple[str, ...]
    expected: int

    @property
    def digest(self) -> str:
        content = "\0".join((self.kind, self.haystack, self.document_id, self.insight_id, self.insight))
        return sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def audit_sample(raws: Sequence[Mapping[str, Any]], n_insights: int, n_documents: int, seed: int) -> list[AuditRow]:
    """The questions of an audit: `n_insights` insights and `n_documents` documents of all haystacks (released JSON) together.

    They are shared out evenly; of a document there are as many insights that it holds as others of its topic. Insights of
    subtopics that distract are among both. Same haystacks, numbers and seed: same rows. Raises Problem for two haystacks of
    one name.
    """
    _named_apart(raws)
    insights = [_shuffled(list(_assignments(raw)), seed, "insights", raw) for raw in raws]
    items = _in_turn(insights, n_insights)
    documents = [_shuffled(list(raw["documents"]), seed, "documents", raw) for raw in raws]
    shared = _in_turn(
        [[(raw, document) for document in listed] for raw, listed in zip(raws, documents, strict=True)], n_documents
    )
    for raw, document in shared:
        items += _questions(raw, document, seed)
    return [_row(item, number, len(items)) for number, item in enumerate(items, 1)]


def write_audit(path: Path, rows: Iterable[AuditRow]) -> None:
    """Write the sheet, with an empty column for the answers. A text that a spreadsheet would take for a formula is quoted."""
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(COLUMNS)
    for row in rows:
        values = [
            row.row,
            row.kind,
            row.haystack,
            row.domain,
            row.document,
            row.text,
            row.insight,
            row.subtopics,
            row.question,
            "",
        ]
        writer.writerow([quoted(value) for value in values])
    # The mark at the beginning is how spreadsheets know UTF-8.
    path.write_bytes(buffer.getvalue().encode("utf-8-sig", "replace"))


def quoted(text: str) -> str:
    """The text with an apostrophe before what would begin a formula."""
    return "'" + text if _FORMULA.match(text) else text


def unquoted(text: str) -> str:
    """What `quoted` was given."""
    return text[1:] if _QUOTED.match(text) else text


def read_audit(path: Path, raws: Sequence[Mapping[str, Any]]) -> Labels:
    """The labels of a sheet that was written for these haystacks. Raises Problem, in one line, with the row and the column."""
    _named_apart(raws)
    items = {item.digest: item for raw in raws for item in _all_items(raw)}
    seen: dict[int, int] = {}
    total = 0
    insights, documents = [], []
    for line, record in _records(path):
        number, total, digest = _identified(path, line, record["row"].strip(), total)
        if digest not in items:
            raise Problem(
                f"{path} row {line}, column row: {record['row']!r} is of none of the haystacks given; leave the ids as written"
            )
        if number in seen:
            raise Problem(f"{path} row {line}, column row: {record['row']!r} is there twice (row {seen[number]}); keep one")
        seen[number] = line
        item, answer = items[digest], unquoted(record["answer"]).strip()
        if item.kind == "insight_subtopic":
            chosen = _numbers(path, line, answer, len(item.subtopics))
            insights.append(Assigned(item.haystack, item.domain, item.insight_id, item.expected, chosen))
        else:
            said = _yes_or_no(path, line, answer)
            documents.append(Present(item.haystack, item.domain, item.document_id, item.insight_id, bool(item.expected), said))
    missing = next((number for number in range(1, total + 1) if number not in seen), None)
    if missing is not None or not total:
        raise Problem(f"{path}: row {missing or 1} of {total or 'the sheet'} is missing; put it back as it was written, answered")
    return Labels(tuple(insights), tuple(documents))


def audit_tables(labels: Labels) -> dict[str, list[dict[str, Any]]]:
    """Tables 4 and 5: a row for each domain and one for all. Figures in percent, None where nothing can be divided.

    An insight that a person assigns to several subtopics is right if the expected one is among them: it can be found through
    its query; the share of such insights stands beside it (the paper reports both, and has 0.8 % of them). Precision: of what
    the person found in a document, the share that the haystack says is there; recall: the other way round.
    """
    domains = sorted({one.domain for one in labels.insights} | {one.domain for one in labels.documents})
    chosen = [(domain, [domain]) for domain in domains] + [(ALL, domains)]
    return {
        "insight_subtopic": [_table_4(name, [one for one in labels.insights if one.domain in among]) for name, among in chosen],
        "document_insight": [_table_5(name, [one for one in labels.documents if one.domain in among]) for name, among in chosen],
    }


def _table_4(domain: str, labels: Sequence[Assigned]) -> dict[str, Any]:
    return {
        "domain": domain,
        "insights_annotated": len(labels),
        "assigned_to_several": _percent(sum(len(label.chosen) > 1 for label in labels), len(labels)),
        "accuracy": _percent(sum(label.expected in label.chosen for label in labels), len(labels)),
    }


def _table_5(domain: str, labels: Sequence[Present]) -> dict[str, Any]:
    both = sum(label.said and label.expected for label in labels)
    said, expected = sum(label.said for label in labels), sum(label.expected for label in labels)
    return {
        "domain": domain,
        "num_samples": len(labels),
        "accuracy": _percent(sum(label.said == label.expected for label in labels), len(labels)),
        "precision": _percent(both, said),
        "recall": _percent(both, expected),
        "f1": _percent(2 * both, said + expected),
    }


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None


def _subtopics(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Of a haystack: those that are asked about, then those that distract."""
    synthesis = (raw.get("topic_metadata") or {}).get("synthesis") or {}
    return [*raw["subtopics"], *synthesis.get("distractors", ())]


def _domain(raw: Mapping[str, Any]) -> str:
    return str((raw.get("topic_metadata") or {}).get("domain") or "unknown")


def _assignments(raw: Mapping[str, Any]) -> Iterator[_Item]:
    subtopics = _subtopics(raw)
    texts = tuple(str(subtopic["subtopic"]) for subtopic in subtopics)
    for place, subtopic in enumerate(subtopics):
        for insight in subtopic["insights"]:
            told = (str(insight["insight_id"]), str(insight["insight"]))
            yield _Item("insight_subtopic", str(raw["topic_id"]), _domain(raw), "", "", *told, texts, place)


def _readings(raw: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[_Item]:
    held = set(document["insights_included"])
    about = (str(raw["topic_id"]), _domain(raw), str(document["document_id"]), str(document["document_text"]))
    for subtopic in _subtopics(raw):
        for insight in subtopic["insights"]:
            there = insight["insight_id"] in held or document["document_id"] in insight.get("documents", ())
            yield _Item("document_insight", *about, str(insight["insight_id"]), str(insight["insight"]), (), int(there))


def _all_items(raw: Mapping[str, Any]) -> Iterator[_Item]:
    yield from _assignments(raw)
    for document in raw["documents"]:
        yield from _readings(raw, document)


def _questions(raw: Mapping[str, Any], document: Mapping[str, Any], seed: int) -> list[_Item]:
    """As many insights that the document holds as others, mixed."""
    items = list(_readings(raw, document))
    where = f"questions {document['document_id']}"
    held = _shuffled([item for item in items if item.expected], seed, where, raw)
    others = _shuffled([item for item in items if not item.expected], seed, where, raw)
    number = min(len(held), len(others))
    return _shuffled(held[:number] + others[:number], seed, where, raw)


def _row(item: _Item, number: int, total: int) -> AuditRow:
    subtopics = "\n".join(f"{place}. {text}" for place, text in enumerate(item.subtopics, 1))
    # The ids of documents and insights may tell what belongs together; what is shown must not.
    row = f"r{number}of{total}-{item.digest}"
    return AuditRow(row, item.kind, item.haystack, item.domain, item.document_id, item.text, item.insight, subtopics)


def _shuffled(items: list[Any], seed: int, what: str, raw: Mapping[str, Any]) -> list[Any]:
    digest = sha256(f"audit {seed} {what} {raw['topic_id']}".encode("utf-8", "surrogatepass")).digest()
    random.Random(int.from_bytes(digest[:16], "big")).shuffle(items)
    return items


def _in_turn(lists: Sequence[Sequence[Any]], number: int) -> list[Any]:
    """At most `number` in all: the first of each list, then the second of each, ..., ordered by list."""
    turns = sorted((turn, place) for place, listed in enumerate(lists) for turn in range(len(listed)))[:number]
    return [lists[place][turn] for place, turn in sorted((place, turn) for turn, place in turns)]


def _named_apart(raws: Sequence[Mapping[str, Any]]) -> None:
    names = [str(raw["topic_id"]) for raw in raws]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise Problem(f"two haystacks have the topic_id {twice!r}; audit them in two sheets, or rename one")


def _records(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """The sheet's rows, counted as a spreadsheet counts them: the header is row 1."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Problem(f"{path} cannot be read ({error}); save the sheet as CSV in UTF-8") from error
    header = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=header.count)
    known = csv.field_size_limit(_LONGEST_FIELD)
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))
    except csv.Error as error:
        raise Problem(f"{path} is no CSV ({error}); save the sheet as CSV in UTF-8") from error
    finally:
        csv.field_size_limit(known)
    columns = [name.strip().lower() for name in rows[0]] if rows else []
    for name in ("row", "answer"):
        if name not in columns:
            raise Problem(f"{path} has no column {name!r}; keep the first row as it was written: {', '.join(COLUMNS)}")
    for line, row in enumerate(rows[1:], 2):
        if any(value.strip() for value in row):
            values = [*row, *[""] * (len(columns) - len(row))]
            yield line, dict(zip(columns, values, strict=False))


def _identified(path: Path, line: int, row: str, total: int) -> tuple[int, int, str]:
    match = _ROW.fullmatch(row)
    if not match or not 1 <= int(match[1]) <= int(match[2]) or total not in (0, int(match[2])):
        raise Problem(f"{path} row {line}, column row: {row!r} is no id of this sheet; leave the ids as written")
    return int(match[1]), int(match[2]), match[3]


def _numbers(path: Path, line: int, answer: str, most: int) -> tuple[int, ...]:
    parts = [part for part in re.split(r"[\s,;&]+|\band\b", answer) if part]
    hint = f"write a number from 1 to {most}, several with commas, or 0 for none"
    for part in parts:
        if not re.fullmatch(r"[0-9]{1,6}", part) or int(part) > most:
            raise Problem(f"{path} row {line}, column answer: {part!r} is no subtopic; {hint}")
    if not parts:
        raise Problem(f"{path} row {line}, column answer: it is empty; {hint}")
    return tuple(sorted({int(part) - 1 for part in parts} - {-1}))


def _yes_or_no(path: Path, line: int, answer: str) -> bool:
    said = _YES_NO.get(answer.lower())
    if said is None:
        raise Problem(f"{path} row {line}, column answer: {answer!r} is neither yes nor no; write yes or no")
    return said
