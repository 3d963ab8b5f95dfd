"""The text output of `summhay explain`. Part of the cli room."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from summhay_ray.cli.explained_synth import show_synthesis
from summhay_ray.cli.show import answer, facts, part
from summhay_ray.cli.visible import one_line


def show(found: Mapping[str, Any]) -> None:
    """Print the result of `explain`: from the summary to each score or, in a synth run, from the topic to each check."""
    if "checks" in found:
        show_synthesis(found)
        return
    if "calls" in found:
        _item(found)
        return
    facts([(name, found[name]) for name in ("run", "cell_id", "system", "haystack", "subtopic_id", "query") if found.get(name)])
    for failure in found["failures"]:
        facts([("failure", f"{failure['stage']} {failure['kind']} {failure['error']}: {failure['message']}")])
    if "bullets" not in found:
        return
    context = found["context"]
    if context:
        part("context", f"{context['n_tokens']} tokens of documents {', '.join(map(str, context['numbers']))}")
    answer(found)
    part("bullets", "\n".join(f"{place}. {bullet}" for place, bullet in enumerate(found["bullets"], start=1)))
    for row in found["judgments"]:
        _judgment(row)


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
        sys.stdout.write(f"\n=== {one_line(call['stage'])}\n")
        answer(call)
        if call["raw_answer"] is None:
            facts([("answer", f"none that can be used; key {call['key']}")])


def _judgment(row: Mapping[str, Any]) -> None:
    judgment, score = row["judgment"], row["score"]
    part(f"insight {judgment['insight_id']}, judged by {judgment['judge']}", row["insight"])
    facts([("verdict", f"{judgment['coverage']}, bullet {judgment['bullet_id']}")])
    if "error" in score:
        facts([("not scored", score["message"])])
        return
    if score["bullet"] is not None:
        facts(
            [
                ("bullet", row["bullet"]),
                ("cited", score["cited"]),
                ("gold", score["gold"]),
                (
                    "citation",
                    f"P {score['citation_precision']:.4f}  R {score['citation_recall']:.4f}  F1 {score['citation_f1']:.4f}",
                ),
            ]
        )
    facts([("coverage x citation = joint", f"{score['coverage']} x {score['citation_f1'] or 0:.4f} = {score['joint']:.4f}")])
    answer(row)
