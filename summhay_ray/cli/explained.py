"""`summhay explain` for a person. Part of the cli room."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from summhay_ray.cli.show import facts
from summhay_ray.cli.visible import one_line, visible

PROMPT_SHOWN = 1500


def show(found: Mapping[str, Any]) -> None:
    """Print what `explain` found, from the summary to each score; of a synthesis, from the topic to each check."""
    if "checks" in found:
        _synthesis(found)
        return
    facts([(name, found[name]) for name in ("run", "cell_id", "system", "haystack", "subtopic_id", "query") if found.get(name)])
    for failure in found["failures"]:
        facts([("failure", f"{failure['stage']} {failure['kind']} {failure['error']}: {failure['message']}")])
    if "bullets" not in found:
        return
    context = found["context"]
    if context:
        _part("context", f"{context['n_tokens']} tokens of documents {', '.join(map(str, context['numbers']))}")
    _answer(found)
    _part("bullets", "\n".join(f"{place}. {bullet}" for place, bullet in enumerate(found["bullets"], start=1)))
    for row in found["judgments"]:
        _judgment(row)


def _synthesis(found: Mapping[str, Any]) -> None:
    topic, haystack = found["topic"], found["haystack"] or {}
    facts(
        [
            ("run", found["run"]),
            ("cell_id", found["cell_id"]),
            ("topic", topic["topic"]),
            ("haystack", haystack.get("entry", "none")),
            ("answers", found["answers"]),
        ]
    )
    for failure in found["failures"]:
        facts([("failure", f"{failure['stage']} {failure['kind']} {failure['error']}: {failure['message']}")])
    facts(
        [
            (f"{one['n']} x {one['kind']}", f"by {one['by']}: expected {one['expected']}, found {one['found']}")
            for one in found["checks_by_kind"]
        ]
    )
    if found["raw_answer"]:
        _answer(found)
    for check in found["checks"]:
        _part(f"check {check['kind']}, round {check['round']}: {check['subject']} {check['object']}".rstrip(), check["evidence"])
        facts([(name, check[name]) for name in ("subject_text", "object_text", "expected", "found") if name in check])


def _judgment(row: Mapping[str, Any]) -> None:
    judgment, score = row["judgment"], row["score"]
    _part(f"insight {judgment['insight_id']}, judged by {judgment['judge']}", row["insight"])
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
    _answer(row)


def _answer(row: Mapping[str, Any]) -> None:
    raw, prompt = row.get("raw_answer"), row.get("prompt")
    if prompt:
        cut = (
            prompt if len(prompt) <= PROMPT_SHOWN else prompt[:PROMPT_SHOWN] + f"\n[... {len(prompt)} characters; --json has all]"
        )
        _part("prompt", cut)
    elif raw:
        _part("prompt", "this version of summhay_ray asks with another prompt, so that it cannot be shown")
    if raw:
        price = f"{raw['usd_micros'] / 1e6:.6f} dollars"
        tokens = f"{raw['input_tokens']} tokens in ({raw['cached_tokens']} cached), {raw['output_tokens']} out"
        _part(f"answer of {raw['model']}, key {raw['key']}, {raw['finish_reason']}, {tokens}, {price}", raw["text"])


def _part(title: str, text: str | None) -> None:
    sys.stdout.write(f"\n--- {one_line(title)}\n{visible(text or '')}\n")
