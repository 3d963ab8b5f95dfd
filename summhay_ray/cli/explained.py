"""The text output of `summhay explain`: a cell, an item of any benchmark, or a part of a synthesis."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from summhay_ray.cli.record_tables import answers_table, explained_tables
from summhay_ray.cli.show import answer, console, facts, part, print_line, tables
from summhay_ray.errors import printable
from summhay_ray.outcome import MICROS

MOST_CHECKS = 20
CHECK = "check"


def show(found: Mapping[str, Any]) -> None:
    """Print the result of `explain`: from the summary to each score; for a synth run, from the topic to each check."""
    if "checks" in found:
        _synthesis(found)
        return
    if "calls" in found:
        _item(found)
        return
    shown = {**found, "system key": found.get("system"), "system": found.get("label")}
    names = ("run", "cell_id", "system", "system key", "haystack", "subtopic_id", "query")
    facts([(name, shown[name]) for name in names if shown.get(name)])
    for failure in found["failures"]:
        facts([("failure", f"{failure['stage']} {failure['kind']} {failure['error']}: {failure['message']}")])
    for one in found.get("failed_attempts", ()):
        said = f"{one['model']}, key {one['key']}, {one['usd_micros'] / MICROS:.6f} dollars: {one['flaw']}: {one['text'][:80]}"
        facts([("failed attempt", said)])
    if "bullets" not in found:
        return
    context = found["context"]
    if context:
        part("context", f"{context['n_tokens']} tokens of documents {', '.join(map(str, context['numbers']))}")
    answer(found)
    part("bullets", "\n".join(f"{place}. {bullet}" for place, bullet in enumerate(found["bullets"], start=1)))
    for row in found["judgments"]:
        _judgment(row)
    for row in found["absent_answers"]:
        part(
            f"no document says anything about it, judged by {row['judge']}",
            f"invents: {row['invents']:g}, bullet {row['bullet']}",
        )
        answer(row)


def _item(found: Mapping[str, Any]) -> None:
    """Print an item of any benchmark: its data, its rows, and each prompt with its answer."""
    item = found["item"]
    facts([("run", f"{found['run']} ({found['kind']})"), ("item", item["id"]), ("queue", item["queue"]), *item["data"].items()])
    for table, rows in found["rows"].items():
        for row in rows if table not in ("raw_answers", "failures") else ():
            sys.stdout.write(f"\n--- a row of {table}\n")
            facts(list(row.items()))
    for failure in found["rows"].get("failures", ()):
        where = f"{failure['stage']} {failure['kind']} {failure['error']}".strip()
        facts([("failure", f"{where}: {failure['message']}")])
    for call in found["calls"]:
        sys.stdout.write(f"\n=== {printable(call['stage'])}\n")
        answer(call)
        if call["raw_answer"] is None:
            facts([("answer", f"none that can be used; key {call['key']}")])
        for attempt in call["failed_attempts"]:
            facts(
                [("failed attempt", f"{attempt['flaw']}; {attempt['usd_micros'] / MICROS:.6f} dollars: {attempt['text'][:80]}")]
            )


def _judgment(row: Mapping[str, Any]) -> None:
    judgment, score = row["judgment"], row["score"]
    part(f"insight {judgment['insight_id']}, judged by {judgment['judge']}", row["insight"])
    facts([("verdict", f"{judgment['coverage']}, bullet {judgment['bullet_id']}")])
    for vote in row.get("votes", ()):
        tied = "; a tie" if vote["tied"] else ""
        facts([(f"vote of {vote['member']}", f"{vote['coverage']}, bullet {vote['bullet_id']}, value {vote['value']:.2f}{tied}")])
    if "error" in score:
        facts([("not scored", score["message"])])
        return
    if score["bullet"] is not None:
        facts([("bullet", row["bullet"]), ("cited", score["cited"]), ("gold", score["gold"])])
    if score["joint"] is None:
        facts([("coverage", f"{score['coverage']}; without gold documents, citations are not scored")])
        answer(row)
        return
    if score["bullet"] is not None:
        precision, recall, f1 = (score[f"citation_{name}"] for name in ("precision", "recall", "f1"))
        facts([("citation", f"P {precision:.4f}  R {recall:.4f}  F1 {f1:.4f}")])
    facts([("coverage x citation = joint", f"{score['coverage']} x {score['citation_f1'] or 0:.4f} = {score['joint']:.4f}")])
    answer(row)


def _synthesis(found: Mapping[str, Any]) -> None:
    """Print the result of `explain` for a synth run: a haystack's sizes, checks and documents, or the origin of a document or
    answer."""
    haystack, document = found["haystack"], found["document"]
    pairs = [("run", found["run"]), ("cell_id", found["cell_id"]), ("topic", found["topic"]["topic"])]
    pairs += [("haystack", haystack["name"])] if haystack else [("answers", found["answers"])]
    for failure in found["failures"]:
        pairs.append(("failure", f"{failure['stage']} {failure['kind']} {failure['error']}: {failure['message']}"))
        pairs.append(("cost", f"{failure['usd_micros'] / MICROS:.6f} dollars"))
        pairs += [("key", failure["key"])] if failure["key"] else []
    if found["raw_answer"]:
        _facts(pairs)
        answer(found)
        checks = found["checks"]
        for check in checks[:MOST_CHECKS]:
            part(
                f"check {check['kind']}, round {check['round']}: {check['subject']} {check['object']}".rstrip(), check["evidence"]
            )
            _facts([(name, check[name]) for name in ("subject_text", "object_text", "expected", "found") if name in check])
        if len(checks) > MOST_CHECKS:
            print_line(f"... and {len(checks) - MOST_CHECKS} more checks; --json has all")
    elif document:
        known = [
            (name, document[name]) for name in ("writer", "date", "words", "corrections") if document[name] not in (None, "")
        ]
        refers = [("refers to", ", ".join(document["refers_to"]))] if document["refers_to"] else []
        _facts([*pairs, *[("document", f"{document['document_id']}, number {document['number']}"), *known, *refers]])
        _document(document)
    else:
        _facts([*pairs, *(_of_haystack(haystack) if haystack else [])])
        tables(explained_tables(found))
        if haystack:
            print_line(f"a document: summhay explain {found['run']} {haystack['name']}/{found['documents'][0]['document_id']}")


def _of_haystack(haystack: Mapping[str, Any]) -> list[tuple[str, Any]]:
    sizes = [f"{haystack[name]:,} {name}" for name in ("documents", "subtopics", "insights", "tokens", "words", "corrections")]
    if haystack["distractors"]:
        sizes[1] += f" + {haystack['distractors']:,} distracting"
    models = {stage: model["model"] for stage, model in (haystack["models"] or {}).items()}
    return [
        ("haystack_id", haystack["haystack_id"]),
        ("entry", haystack["entry"]),
        ("domain", haystack["domain"]),
        ("sizes", ", ".join(sizes)),
        ("models", ", ".join(f"{stage} {model}" for stage, model in models.items())),
        ("checks", f"{haystack['checks']:,}, of which {haystack['checks_by_model']:,} by a model"),
        ("cost", f"{haystack['usd']:.6f} dollars for {haystack['calls']:,} answers"),
    ]


def _document(document: Mapping[str, Any]) -> None:
    for entry in document["plan"]:
        how = {(True, True): "planned, found", (True, False): "planned, not found: struck"}.get(
            (entry["planned"], entry["found"]), "not planned, found: entered"
        )
        part(f"insight {entry['insight_id']}: {how}, by {entry['by']} in round {entry['round']}", _fill(entry["insight"]))
        if entry["evidence"]:
            _facts([("evidence", entry["evidence"])])
    part("text", "\n".join(map(_fill, document["text"].split("\n"))))
    if document["answers"]:
        tables([answers_table(document["answers"])])
    if all(call["task"] == CHECK for call in document["answers"]):
        print_line("this version of summhay_ray asks with other prompts, so that it cannot tell which answers wrote the document")


def _facts(pairs: Sequence[tuple[str, Any]]) -> None:
    """Print names and values, wrapped. Long words are not broken, so that an entry can be copied."""
    names = max(len(name) for name, _ in pairs) + 2
    for name, value in pairs:
        begin, rest = name.ljust(names), " " * names
        for line in textwrap.wrap(
            str(value), _width(), initial_indent=begin, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
        ):
            print_line(line)


def _fill(text: str) -> str:
    return textwrap.fill(text, _width(), break_on_hyphens=False)


def _width() -> int:
    return max(20, min(console().width, 120))
