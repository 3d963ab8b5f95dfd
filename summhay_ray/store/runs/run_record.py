"""Checks the fields of a run's record (`run.json`) that every reader needs. Part of the store room, for `runs.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MEND_RECORD = "put back a copy of it, or delete it and run or import again: every stored answer is reused"
"""What to do about a damaged record."""


def record_flaw(record: Mapping[str, Any]) -> str:
    """What is wrong with a record, in a few words that name the field; empty if nothing is.

    A benchmark checks its own fields itself.
    """
    kind, name, tables = record.get("kind", ""), record.get("name", ""), record.get("tables", [])
    if not isinstance(kind, str) or not kind:
        return f"field kind: expected the name of a benchmark, found {repr(record.get('kind'))[:60]}"
    if not isinstance(name, str):
        return "field name: expected text"
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        return "field tables: expected a list of name, key, columns"
    stages = record.get("stages", [])
    if not isinstance(stages, list) or not all(isinstance(stage, str) for stage in stages):
        return "field stages: expected a list of names"
    return ""
