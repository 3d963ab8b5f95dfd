"""Audits of haystacks by people: writes the sheet, reads its labels, and computes figures from them.

After Laban et al., appendices A.1.2 and A.1.3: a person who has not seen the plan assigns insights to subtopics (Table 4) and
marks the insights that a document contains (Table 5). The sheet is CSV in UTF-8, and does not show expected answers.
"""

import random
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.records import Check
from summhay_ray.sheets import read_sheet, sheet
from summhay_ray.text import text_hash

COLUMNS = ("row", "kind", "haystack", "domain", "document", "text", "insight", "subtopics", "question", "answer")
"""Columns of the sheet. Only `row` and `answer` are read back."""

ASSIGN = "Which subtopic or subtopics does the insight belong to? Write the number, or several with commas; 0 for none."
PRESENT = "Does the text say the insight? Write yes or no."

_ROW = re.compile(r"r([0-9]{1,9})of([0-9]{1,9})-([0-9a-f]{16})")
_NUMBER = re.compile(r"[0-9]{1,6}(?:\.0*)?")
"""Matches a number as spreadsheets may write it: 3.0 for 3."""
_YES_NO = {"yes": True, "y": True, "no": False, "n": False}
ALL = "all"
_STATED, _OTHERS = 55, 100
"""Numbers of the 155 questions of the paper's Table 5: about insights that the haystack lists for the document, and about
others."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """A question to a person. `row`: an id that reveals nothing, made of the row's number and a hash of its contents."""

    row: str
    kind: str
    """insight_subtopic or document_insight."""
    haystack: str
    domain: str
    document: str
    text: str
    """Text of the document; empty for insight_subtopic."""
    insight: str
    subtopics: str
    """The subtopics, numbered, one per line; empty for document_insight."""
    question: str


@dataclass(frozen=True, slots=True)
class _Item:
    """A question with its expected answer: for a subtopic, its index in `subtopics` (texts); for a document, 0 for no or 1 for
    yes."""

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
        # The text is included, so that labels of one text never count for another.
        shown = (text_hash(self.text), *self.subtopics)
        content = "\0".join((self.kind, self.haystack, self.document_id, self.insight_id, self.insight, *shown))
        return text_hash(content)[:16]


@dataclass(frozen=True, slots=True)
class Assigned:
    """An insight that a person assigned to subtopics (indices from 0). `expected`: its subtopic in the plan."""

    haystack: str
    domain: str
    insight_id: str
    expected: int
    chosen: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Present:
    """An insight that a person looked for in a document. `expected`: whether the haystack lists it for this document."""

    haystack: str
    domain: str
    document_id: str
    insight_id: str
    expected: bool
    said: bool


@dataclass(frozen=True, slots=True)
class Labels:
    """A person's labels, in the sheet's order."""

    insights: tuple[Assigned, ...]
    documents: tuple[Present, ...]


def audit_sample(raws: Sequence[Mapping[str, Any]], n_insights: int, n_documents: int, seed: int) -> list[AuditRow]:
    """Draw questions about `n_insights` insights and `n_documents` documents, divided evenly among the haystacks (released JSON),
    including distracting subtopics.

    The same haystacks, numbers and seed give the same rows. Raises UserError for two haystacks with the same name.
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
    rows = []
    for number, item in enumerate(items, 1):
        # Show a digest, since ids may reveal which documents and insights belong together.
        row = f"r{number}of{len(items)}-{item.digest}"
        subtopics = "\n".join(f"{place}. {text}" for place, text in enumerate(item.subtopics, 1))
        question = PRESENT if item.kind == "document_insight" else ASSIGN
        about = (item.kind, item.haystack, item.domain, item.document_id, item.text, item.insight)
        rows.append(AuditRow(row, *about, subtopics, question))
    return rows


def write_audit(path: Path, rows: Iterable[AuditRow]) -> None:
    """Write the sheet with an empty answer column."""
    path.write_bytes(sheet(COLUMNS, ([*(getattr(row, name) for name in COLUMNS[:-1]), ""] for row in rows)))


def read_audit(path: Path, raws: Sequence[Mapping[str, Any]]) -> Labels:
    """Read the labels in a sheet that was written for these haystacks. Raise UserError, which names row and column."""
    _named_apart(raws)
    items = {item.digest: item for raw in raws for item in _assignments(raw)}
    items |= {item.digest: item for raw in raws for document in raw["documents"] for item in _readings(raw, document)}
    seen: dict[int, int] = {}
    total = 0
    insights, documents = [], []
    for line, record in read_sheet(path, ("row", "answer")):
        match = _ROW.fullmatch(record["row"])
        # Each id contains the sheet's number of rows, so this number must be the same in all ids.
        if not match or not 1 <= int(match[1]) <= int(match[2]) or total not in (0, int(match[2])):
            raise UserError(
                f"{path} row {line}, column row: {record['row']!r} is not an id of this sheet; leave the ids as written"
            )
        number, total, digest = int(match[1]), int(match[2]), match[3]
        if digest not in items:
            raise UserError(
                f"{path} row {line}, column row: {record['row']!r} belongs to no haystack of this run; leave the ids as written"
            )
        if number in seen:
            raise UserError(f"{path} row {line}, column row: {record['row']!r} is a duplicate of row {seen[number]}; keep one")
        seen[number] = line
        item, answer = items[digest], record["answer"]
        if item.kind == "insight_subtopic":
            chosen = _numbers(path, line, answer, len(item.subtopics))
            insights.append(Assigned(item.haystack, item.domain, item.insight_id, item.expected, chosen))
        else:
            if (said := _YES_NO.get(answer.lower().rstrip(".!"))) is None:
                raise UserError(f"{path} row {line}, column answer: {answer!r} is neither yes nor no; write yes or no")
            documents.append(Present(item.haystack, item.domain, item.document_id, item.insight_id, bool(item.expected), said))
    missing = next((number for number in range(1, total + 1) if number not in seen), None)
    if missing is not None or not total:
        raise UserError(f"{path}: row {missing or 1} of {total or 'the sheet'} is missing; put it back, answered")
    return Labels(tuple(insights), tuple(documents))


def checked_tables(raw: Mapping[str, Any], checks: Sequence[Check]) -> dict[str, Any]:
    """Return the figures of Tables 4 and 5 for one haystack (released JSON), with the haystack's own checks in place of a person.

    For insights, the last round counts; for documents, the first round, which shows the text before editing. `plan_corrected`:
    number of pairs of a document and an insight for which the plan was corrected at the end.
    """
    last = {(check.kind, check.subject, check.object): check for check in checks}
    chosen = {subject: check.found for (kind, subject, _), check in last.items() if kind == "insight_subtopic"}
    said = [check for (kind, _, _), check in last.items() if kind == "document_insight"]
    first: dict[tuple[str, str], Check] = {}
    for check in checks:
        if check.kind == "document_insight":
            first.setdefault((check.subject, check.object), check)
    ids = [str(subtopic["subtopic_id"]) for subtopic in _subtopics(raw)]
    assigned = [
        Assigned(
            item.haystack,
            item.domain,
            item.insight_id,
            item.expected,
            tuple(ids.index(name) for name in ids if name == subtopic_id),
        )
        for item in _assignments(raw)
        if (subtopic_id := chosen.get(item.insight_id)) is not None
    ]
    names = (str(raw["topic_id"]), _domain(raw))
    present = [
        Present(*names, document_id, insight_id, check.expected == "yes", check.found == "yes")
        for (document_id, insight_id), check in first.items()
    ]
    corrected = sum(check.expected != check.found for check in said)
    return {**haystack_tables(Labels(tuple(assigned), tuple(present))), "plan_corrected": corrected}


def _subtopics(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    synthesis = (raw.get("topic_metadata") or {}).get("synthesis") or {}
    return [*raw["subtopics"], *synthesis.get("distractors", ())]


def _domain(raw: Mapping[str, Any]) -> str:
    return str((raw.get("topic_metadata") or {}).get("domain") or "unknown")


def _assignments(raw: Mapping[str, Any]) -> Iterator[_Item]:
    subtopics = _subtopics(raw)
    texts = tuple(str(subtopic["subtopic"]) for subtopic in subtopics)
    for place, subtopic in enumerate(subtopics):
        for insight in subtopic["insights"]:
            named = (str(insight["insight_id"]), str(insight["insight"]))
            yield _Item("insight_subtopic", str(raw["topic_id"]), _domain(raw), "", "", *named, texts, place)


def _readings(raw: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[_Item]:
    held = set(document["insights_included"])
    about = (str(raw["topic_id"]), _domain(raw), str(document["document_id"]), str(document["document_text"]))
    for subtopic in _subtopics(raw):
        for insight in subtopic["insights"]:
            there = insight["insight_id"] in held or document["document_id"] in insight.get("documents", ())
            yield _Item("document_insight", *about, str(insight["insight_id"]), str(insight["insight"]), (), int(there))


def _questions(raw: Mapping[str, Any], document: Mapping[str, Any], seed: int) -> list[_Item]:
    """Return questions about all insights of the document, and about other insights, in random order. The number of other
    insights is in the paper's proportion to the number of the document's, or less if there are too few of them."""
    items = list(_readings(raw, document))
    where = f"questions {document['document_id']}"
    held = _shuffled([item for item in items if item.expected], seed, where, raw)
    others = _shuffled([item for item in items if not item.expected], seed, where, raw)
    # A document without insights gets questions, too, since a person may find some in it.
    number = round(max(1, len(held)) * _OTHERS / _STATED)
    return _shuffled(held + others[:number], seed, where, raw)


def _shuffled(items: list[Any], seed: int, what: str, raw: Mapping[str, Any]) -> list[Any]:
    digest = sha256(f"audit {seed} {what} {raw['topic_id']}".encode("utf-8", "surrogatepass")).digest()
    random.Random(int.from_bytes(digest[:16], "big")).shuffle(items)
    return items


def _in_turn(lists: Sequence[Sequence[Any]], number: int) -> list[Any]:
    """Return at most `number` items: the first of each list, then the second of each, and so on. They are ordered by list."""
    turns = sorted((turn, place) for place, listed in enumerate(lists) for turn in range(len(listed)))[:number]
    return [lists[place][turn] for place, turn in sorted((place, turn) for turn, place in turns)]


def _named_apart(raws: Sequence[Mapping[str, Any]]) -> None:
    names = [str(raw["topic_id"]) for raw in raws]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise UserError(f"two haystacks have the topic_id {twice!r}; audit them in two sheets, or rename one")


def _numbers(path: Path, line: int, answer: str, most: int) -> tuple[int, ...]:
    parts = [part for part in re.split(r"[\s,;&]+|\band\b", answer) if part]
    hint = f"write a number from 1 to {most}, several with commas, or 0 for none"
    for part in parts:
        if not _NUMBER.fullmatch(part) or int(float(part)) > most:
            raise UserError(f"{path} row {line}, column answer: {part!r} is not a subtopic; {hint}")
    if not parts:
        raise UserError(f"{path} row {line}, column answer: it is empty; {hint}")
    chosen = {int(float(part)) - 1 for part in parts}
    if -1 in chosen and len(chosen) > 1:
        raise UserError(f"{path} row {line}, column answer: {answer!r} says none and another; {hint}")
    return tuple(sorted(chosen - {-1}))


def audit_tables(labels: Labels) -> dict[str, list[dict[str, Any]]]:
    """Return Tables 4 and 5: a row per domain and one for all. Figures are in percent; None if the denominator is 0.

    An insight assigned to several subtopics is correct if the expected one is among them, since its query leads to it. A separate
    column has the share of such insights (0.8 % in the paper).

    Precision: the person found some insights in documents; the haystack lists this share of them. Recall: the haystack lists some
    insights; the person found this share of them. `stated_present`: number of samples that the haystack lists as present.
    Accuracy, precision and F1 depend on their share (in the paper 20 of 70 and 35 of 85, as its recall and accuracy imply).
    """
    domains = sorted({label.domain for label in labels.insights} | {label.domain for label in labels.documents})
    groups = [(domain, [domain]) for domain in domains] + [(ALL, domains)]
    return {
        "insight_subtopic": [
            _table_4(name, [insight for insight in labels.insights if insight.domain in among]) for name, among in groups
        ],
        "document_insight": [
            _table_5(name, [document for document in labels.documents if document.domain in among]) for name, among in groups
        ],
    }


def haystack_tables(labels: Labels) -> dict[str, Any]:
    """Return table name -> figures of Tables 4 and 5 for the labels of one haystack. A figure without labels is None."""
    tables = {"insight_subtopic": _table_4(ALL, labels.insights), "document_insight": _table_5(ALL, labels.documents)}
    return {name: {what: figure for what, figure in row.items() if what != "domain"} for name, row in tables.items()}


def by_haystack(labels: Labels) -> dict[str, Labels]:
    names = sorted({label.haystack for label in labels.insights} | {label.haystack for label in labels.documents})
    return {
        name: Labels(
            tuple(label for label in labels.insights if label.haystack == name),
            tuple(label for label in labels.documents if label.haystack == name),
        )
        for name in names
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
        "stated_present": expected,
        "accuracy": _percent(sum(label.said == label.expected for label in labels), len(labels)),
        "precision": _percent(both, said),
        "recall": _percent(both, expected),
        "f1": _percent(2 * both, said + expected),
    }


def _percent(part: int, whole: int) -> float | None:
    return round(100 * part / whole, 2) if whole else None
