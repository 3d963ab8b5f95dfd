"""Validation of the run records of benchmarks on haystacks, field by field."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_DIGEST = re.compile("[0-9a-f]{64}")


def record_flaw(record: Mapping[str, Any], needed: Sequence[str]) -> str:
    """What is wrong with a record, in a few words; empty if it is valid. `needed`: the fields it must have."""
    for name in needed:
        if name not in record:
            return f"field {name} is missing"
    for name, value in record.items():
        expected, fits = _FIELDS.get(name, _ANYTHING)
        if not fits(value):
            return f"field {name}: expected {expected}"
    return ""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_digest(value: Any) -> bool:
    return _is_text(value) and bool(_DIGEST.fullmatch(value))


def _is_spec(value: Any) -> bool:
    if not isinstance(value, dict) or not _is_text(value.get("name", "")) or not _is_whole(value.get("seed", 0)):
        return False
    budget, judges = value.get("budget_usd"), value.get("judges", [])
    if not isinstance(judges, list) or not all(map(_is_judge_entry, judges)):
        return False
    return budget is None or (isinstance(budget, int | float) and not isinstance(budget, bool))


def _is_judge_entry(value: Any) -> bool:
    if not isinstance(value, dict) or not all(_is_text(value.get(name)) for name in ("name", "model", "strategy")):
        return False
    return "prompt" in value and (value["prompt"] is None or _is_text(value["prompt"]))


def _is_source(value: Any) -> bool:
    if not isinstance(value, dict) or not all(_is_text(value.get(name)) for name in ("haystack_id", "name", "object")):
        return False
    # Exported files are named after it.
    return "/" not in value["name"]


def _is_judge(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(map(_is_text, value))


_FIELDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "name": ("text", _is_text),
    "of": ("text", _is_text),
    "cells": ("a whole number", _is_whole),
    "topics": ("64 hex digits", _is_digest),
    "outlines": ("64 hex digits", _is_digest),
    "inputs": ("a mapping of texts", lambda value: isinstance(value, dict) and all(map(_is_text, value.values()))),
    "domain": ("a mapping", lambda value: isinstance(value, dict)),
    "answers": (
        "a mapping of files to 64 hex digits",
        lambda value: isinstance(value, dict) and all(map(_is_digest, value.values())),
    ),
    "prompts": ("a mapping of texts", lambda value: isinstance(value, dict) and all(map(_is_text, value.values()))),
    "spec": ("a mapping, as the run's spec was", _is_spec),
    "haystacks": (
        "a list of haystack_id, name, object",
        lambda value: isinstance(value, list) and all(map(_is_source, value)),
    ),
    "judges": ("a list of label, identity", lambda value: isinstance(value, list) and all(map(_is_judge, value))),
}
_ANYTHING: tuple[str, Callable[[Any], bool]] = ("", lambda value: True)
