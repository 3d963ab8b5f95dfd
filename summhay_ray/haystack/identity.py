"""The ids of haystacks and of imported cells, hashed from their content."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def haystack_id_of(raw: Mapping[str, Any]) -> str:
    """The first 16 hex digits of the sha256 of the whole released file as canonical JSON (sorted keys, plain ASCII).

    People's findings about a haystack are excluded: the figures of their labels (`topic_metadata.synthesis.audit.by_person`),
    their decisions and checked pairs (`topic_metadata.mine.review` and `.check`). So is the cost of a synthesized one
    (`usd_micros`), since providers may discount the same answers.
    """
    content = _without(without_labels(raw), ("topic_metadata", "synthesis", "usd_micros"))
    for field in ("review", "check"):
        content = _without(content, ("topic_metadata", "mine", field))
    return _sha256(content)[:16]


def without_labels(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """A released file without the figures of a person's labels."""
    return _without(raw, ("topic_metadata", "synthesis", "audit", "by_person"))


def imported_cell_id(haystack_id: str, subtopic_id: str, retriever: str, ordering: str, model: str, repeat: int) -> str:
    """The id of a cell of an imported file: the first 32 hex digits of the sha256 of its query and its system."""
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


def _without(value: Mapping[str, Any], path: tuple[str, ...]) -> Mapping[str, Any]:
    name, *rest = path
    inner = value.get(name)
    if not rest:
        return {other: entry for other, entry in value.items() if other != name}
    return {**value, name: _without(inner, tuple(rest))} if isinstance(inner, Mapping) else value


def _sha256(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(text.encode("ascii")).hexdigest()
