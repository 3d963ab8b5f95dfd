"""Identities of haystacks and of imported cells: hashes of their content. Part of the haystack room."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def haystack_id_of(raw: Mapping[str, Any]) -> str:
    """First 16 hex digits of the sha256 of the canonical JSON (sorted keys, plain ASCII) of a whole released file."""
    return _sha256(raw)[:16]


def imported_cell_id(haystack_id: str, subtopic_id: str, retriever: str, ordering: str, model: str, repeat: int) -> str:
    """First 32 hex digits of the sha256 of what a cell of an imported file is: its query and the system that answered."""
    return _sha256(
        {
            "haystack_id": haystack_id,
            "subtopic_id": subtopic_id,
            "retriever": retriever,
            "ordering": ordering,
            "model": model,
            "repeat": repeat,
        }
    )[:32]


def _sha256(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
