"""Writes the sheet on which a person reviews a mined haystack, and reads the decisions from it.

A sheet has one row for each insight, by rank, and shows one state of the review. A person's changes are edits of that state. An
invalid edit is refused with its row and column; then no edit is applied.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from summhay_ray.errors import UserError
from summhay_ray.mine.haystack import kept_insights, short_id
from summhay_ray.mine.insights import UNSURE, WORDS
from summhay_ray.mine.review import Decision, homes_of, text_hash
from summhay_ray.mine.sheets import LONGEST, Row, cell_text

EDITED = ("keep", "insight", "subtopic", "query", "documents", "merge_into", "note")
"""Columns that a person may edit."""
COLUMNS = (
    *("insight_id", "rank", "doubts", "keep", "insight", "subtopic", "query", "documents", "merge_into", "note"),
    *("confidence", "evidence", "run"),
)
_NUMBERS = ("rank", "confidence")
_SHOWN = 5
"""Maximum number of evidence sentences in a row."""
_SEPARATOR = " | "
_YES, _NO = ("yes", "y", "x", "1", "true"), ("no", "n", "0", "false")
_ALL = re.compile(r"\(all \d+ documents\)")
"""Stands for the documents of an insight that has too many for a cell. `+NAME` and `-NAME` after it add and remove documents."""

State = Mapping[str, dict[str, str]]
"""Insight id -> its cells."""


def review_rows(raw: Mapping[str, Any], decisions: Sequence[Decision], state: str) -> list[dict[str, str]]:
    """Return the rows of the sheet: all insights as found in `raw`, then added ones. `state`: identifies the state that the sheet
    shows."""
    by_id = {one.insight_id: one for one in decisions}
    homes = homes_of(raw)
    rows = []
    for one in [*kept_insights(raw), *({"insight_id": one.insight_id} for one in decisions if one.insight_id not in homes)]:
        decision = by_id.get(one["insight_id"], Decision(insight_id=one["insight_id"]))
        home = homes.get(decision.insight_id, ("", ""))
        found = sorted(one.get("evidence", ()), key=lambda evidence: float(evidence["score"]))
        documents = [name for name in _documents(one) if name not in decision.removed] + [*decision.added]
        row = {
            "run": state,
            "insight_id": decision.insight_id,
            "rank": str(one.get("rank", "")),
            "doubts": _doubts(one, found) if found else "",
            "confidence": f"{100 * one['confidence']:.0f}" if found else "",
            "evidence": "\n".join(f"{evidence['document_id']}: {evidence['text']}" for evidence in found[:_SHOWN]),
            "keep": decision.keep,
            "insight": decision.insight or one["insight"],
            "subtopic": decision.subtopic or home[0],
            "query": decision.query or home[1],
            "documents": _listed(documents),
            "merge_into": decision.into,
            "note": decision.note,
        }
        rows.append(row)
    return rows


def _documents(insight: Mapping[str, Any] | None) -> list[str]:
    return [evidence["document_id"] for evidence in (insight or {}).get("evidence", ())]


def _doubts(insight: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> str:
    unsure = [evidence for evidence in found if evidence["by"] == WORDS and evidence["score"] < UNSURE]
    doubts = [f"{len(unsure)} of {len(found)} documents are unsure"] if unsure else []
    near, opposites = insight["doubtful"], insight["opposites"]
    doubts += [f"{len(near)} more come near it: {_SEPARATOR.join(one['document_id'] for one in near[:_SHOWN])}"] if near else []
    doubts += [f"the opposite is said, too: {', '.join(opposites)}"] if opposites else []
    return "; ".join(doubts)


def _listed(documents: Sequence[str]) -> str:
    text = _SEPARATOR.join(documents)
    return text if len(text) < LONGEST else f"(all {len(documents)} documents)"


def decided(rows: Sequence[Row], raw: Mapping[str, Any], shown: Sequence[Decision], state: str, file: str) -> list[Decision]:
    """Return the decisions after applying a sheet's edits. `raw`: the haystack as found; `shown`: the decisions in the sheet's
    `state`.

    Raises UserError, with row and column, for the first invalid edit.
    """
    return _Sheet(rows, raw, shown, state, file).decisions()


class _Sheet:
    """A filled-in sheet, and the state that it shows."""

    def __init__(self, rows: Sequence[Row], raw: Mapping[str, Any], shown: Sequence[Decision], state: str, file: str) -> None:
        self._raw, self._shown, self._file = raw, {one.insight_id: one for one in shown}, file
        self._before = {row["insight_id"]: row for row in review_rows(raw, shown, state)}
        self._hashes = {one["document_id"]: text_hash(one["document_text"]) for one in raw["documents"]}
        self._names = {" ".join(cell_text(name).split()): name for name in self._hashes}
        # Names that contain the separator of names.
        odd = sorted((cell_text(name) for name in self._hashes if "|" in name or "\n" in name), key=len, reverse=True)
        self._name = re.compile("|".join([*(rf"[+-]?{re.escape(name)}(?=\s*(?:\||$))" for name in odd), r"[^|\n]+"]))
        self._found = {one["insight_id"]: one for one in kept_insights(raw)}
        self._rows: dict[str, Row] = {}
        self._edits: dict[str, dict[str, str]] = {}
        """Insight id -> column -> the person's new value."""
        self._held: dict[str, list[str]] = {}
        """Insight id -> the edited documents."""
        for row in rows:
            self._read(row)
        if lacking := [row for name, row in self._before.items() if name not in self._rows]:
            what = f"the row of insight {lacking[0]['insight_id']} ({lacking[0]['insight'][:40]!r}) is missing"
            raise UserError(f"{file}: {what}; put it back, with no in its column keep to strike the insight")

    def _read(self, row: Row) -> None:
        """Check each edit of a row, and collect it."""
        insight_id = row.text("insight_id")
        new = not insight_id
        if new:
            insight_id = short_id(row.text("insight"))
            empty = next((name for name in ("insight", "subtopic", "documents") if not row.text(name)), None)
            if empty is not None:
                raise row.wrong(empty, "is empty; a new row needs an insight, its subtopic and its documents")
        elif insight_id not in self._before:
            raise row.wrong(
                "insight_id", f"{insight_id!r} is not an insight of this sheet; leave the ids as written, or empty in a new row"
            )
        if insight_id in self._rows:
            known = self._rows[insight_id].number
            raise row.wrong("insight" if new else "insight_id", f"is the same insight as row {known}; remove one of the two rows")
        before = {**dict.fromkeys(COLUMNS, ""), **({} if new else self._before[insight_id])}
        for name in COLUMNS:
            holds = row.holds_number if name in _NUMBERS else row.holds
            if name not in EDITED and name != "insight_id" and not holds(name, before[name]) and not (new and name == "run"):
                mend = "leave it empty in a new row" if new else f"put back {cell_text(before[name])[:60]!r}"
                raise row.wrong(name, f"cannot be changed: it says what was found; {mend}")
        edits = {name: row.text(name) for name in EDITED if not row.holds(name, before[name])}
        if "keep" in edits:
            said = edits["keep"].lower()
            if said not in (*_YES, *_NO, ""):
                raise row.wrong("keep", f"expected yes or no, found {edits['keep']!r}")
            edits["keep"] = "yes" if said in _YES else "no" if said in _NO else ""
        for name in ("insight", "subtopic", "query"):
            if edits.get(name) == "":
                raise row.wrong(name, "is empty; write a text, or no in the column keep to strike the insight")
        if "documents" in edits:
            self._held[insight_id] = self._read_documents(row, insight_id)
        self._rows[insight_id], self._edits[insight_id] = row, edits

    def _read_documents(self, row: Row, insight_id: str) -> list[str]:
        parts = [part.strip() for part in self._name.findall(row.whole("documents")) if part.strip()]
        edits = bool(parts) and bool(_ALL.fullmatch(parts[0]))
        held = dict.fromkeys(self._documents_before(insight_id) if edits else ())
        for part in parts[edits:]:
            written = part[1:].strip() if edits and part[0] in "+-" else part
            name = written if written in self._hashes else self._names.get(" ".join(written.split()))
            if name is None:
                mend = f"give paths in the folder, with{_SEPARATOR}between them"
                raise row.wrong("documents", f"{written!r} is not a document of this haystack; {mend}")
            if edits and part.startswith("-"):
                held.pop(name, None)
            else:
                held[name] = None
        if not held:
            raise row.wrong("documents", "names no document; write no in the column keep to strike the insight")
        return [*held]

    def _documents_before(self, insight_id: str) -> list[str]:
        """Return an insight's documents before this sheet's edits: those found, changed by the earlier decisions that the sheet
        shows."""
        old = self._shown.get(insight_id, Decision(insight_id=insight_id))
        return [name for name in _documents(self._found.get(insight_id)) if name not in old.removed] + [*old.added]

    def _value(self, insight_id: str, column: str) -> str:
        return self._edits[insight_id].get(column, self._before.get(insight_id, {}).get(column, ""))

    def decisions(self) -> list[Decision]:
        """Check the rows together, and return the decisions."""
        self._check_struck()
        self._check_texts()
        places = self._places()
        targets = {into for name in self._rows if (into := self._value(name, "merge_into"))}
        homes = homes_of(self._raw)
        made = []
        for insight_id in [*self._before, *(name for name in self._rows if name not in self._before)]:
            one = self._found.get(insight_id)
            old, found = self._shown.get(insight_id, Decision(insight_id=insight_id)), _documents(one)
            documents = self._held.get(insight_id) or self._documents_before(insight_id)
            place = places[insight_id] if one is None or places[insight_id] != homes[insight_id] else ("", "")
            text = self._value(insight_id, "insight")
            decision = Decision(
                insight_id=insight_id,
                found=one["insight"] if one else old.found,
                home=homes.get(insight_id, old.home),
                evidence=old.evidence
                if one is None
                else {held["document_id"]: (self._hashes[held["document_id"]], held["text"]) for held in one["evidence"]},
                keep=self._value(insight_id, "keep"),
                insight="" if one and text == one["insight"] else text,
                subtopic=place[0],
                query=place[1],
                added={name: self._hashes[name] for name in documents if name not in found},
                removed={name: self._hashes[name] for name in found if name not in documents},
                into=self._value(insight_id, "merge_into"),
                note=self._value(insight_id, "note"),
            )
            if not decision.is_empty or insight_id in targets:
                made.append(decision)
        return made

    def _check_struck(self) -> None:
        """Refuse values without effect in a struck or merged row. Also refuse a merge into an insight that does not remain."""
        into = {name: target for name in self._rows if (target := self._value(name, "merge_into"))}
        struck = {name for name in self._rows if self._value(name, "keep") == "no"}
        if len(struck) + len(into.keys() - struck) == len(self._rows):
            raise UserError(f"{self._file}: every insight is struck or merged; keep at least one")
        for name, row in self._rows.items():
            edits = self._edits[name]
            if (name in struck or name in into) and name not in self._before:
                raise row.wrong("keep" if name in struck else "merge_into", "a new row is not struck or merged; remove the row")
            gone = "struck (keep: no)" if name in struck else "merged into another" if name in into else ""
            dead = ("merge_into", "documents") if name in struck else ()
            for column in ("insight", "subtopic", "query", *dead) if gone else ():
                if column in edits and edits[column]:
                    raise row.wrong(column, f"has no effect: the insight is {gone}; take back one of the two")
            if name in struck and name in into:
                raise row.wrong("keep", "strikes an insight that is merged; empty one of keep and merge_into")
            path = [name]
            while path[-1] in into and path[-1] not in path[:-1]:
                path.append(into[path[-1]])
            if path[-1] not in self._rows or (len(path) > 1 and path[1] == name):
                raise row.wrong("merge_into", f"{path[-1]!r} is not another insight of this sheet; give the id of one")
            if len(path) > 1 and (path[-1] in path[:-1] or path[-1] in struck):
                raise row.wrong("merge_into", f"{path[1]!r} is struck, or merged into this one; give one that stays")

    def _live(self) -> Iterator[str]:
        """Yield the insights that remain."""
        return (one for one in self._rows if self._value(one, "keep") != "no" and not self._value(one, "merge_into"))

    def _check_texts(self) -> None:
        first: dict[str, str] = {}
        for name in sorted(self._rows, key=lambda one: "insight" in self._edits[one]):
            text = self._value(name, "insight")
            known = first.setdefault(text, name)
            if known != name and "insight" in self._edits[name]:
                raise self._rows[name].wrong("insight", f"is the text of insight {known}; merge one into the other (merge_into)")

    def _places(self) -> dict[str, tuple[str, str]]:
        """Return insight id -> (subtopic, query).

        If the sheet has the written subtopic, the insight moves there. If not, the subtopic is new if it has a query; otherwise
        the insight's own subtopic is renamed. A query applies to its whole subtopic.
        """
        queries: dict[str, str] = {}
        for row in self._before.values():
            queries.setdefault(row["subtopic"], row["query"])
        live = [name for name in self._live() if self._edits[name]]
        moved: dict[str, str] = {}
        asked: dict[str, tuple[str, str]] = {}
        renamed: dict[str, str] = {}

        def ask(subtopic: str, name: str) -> None:
            query = self._edits[name]["query"]
            known, by = asked.setdefault(subtopic, (query, name))
            if known != query:
                what = f"row {self._rows[by].number} asks otherwise for the subtopic {subtopic!r}; a subtopic has one query"
                raise self._rows[name].wrong("query", what)

        for name in live:
            subtopic = self._edits[name].get("subtopic", "")
            if subtopic and (subtopic in queries or "query" in self._edits[name]):
                moved[name] = subtopic
                if "query" in self._edits[name] and self._edits[name]["query"] != queries.get(subtopic):
                    ask(subtopic, name)
        for name in live:
            subtopic = self._edits[name].get("subtopic", "")
            if name in moved or not subtopic:
                continue
            if subtopic in asked:
                moved[name] = subtopic
            elif name not in self._before:
                raise self._rows[name].wrong("query", f"is empty; {subtopic!r} is a new subtopic, which needs a query")
            else:
                old = self._before[name]["subtopic"]
                if renamed.setdefault(old, subtopic) != subtopic:
                    what = f"{old!r} is {renamed[old]!r} in another row; for a subtopic of its own, write its query, too"
                    raise self._rows[name].wrong("subtopic", what)
                if [*renamed.values()].count(subtopic) > 1:
                    raise self._rows[name].wrong("subtopic", f"{subtopic!r} is another subtopic's new name; give each its own")
        for name in live:
            if "query" in self._edits[name] and name not in moved:
                ask(self._before[name]["subtopic"], name)

        def place(name: str) -> tuple[str, str]:
            old = self._before.get(name, {}).get("subtopic", "")
            subtopic = moved.get(name, old)
            query = asked[subtopic][0] if subtopic in asked else queries[subtopic]
            return renamed.get(subtopic, subtopic), query

        return {name: place(name) for name in self._rows}
