"""Ids of haystacks and cells, hashed from their content, and keys of systems.

A key of a system combines retriever, ordering and model.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

PREFIX = "summary_subtopic_"
RELEASED_RETRIEVERS = ("random", "keywords", "vector", "dwzhu/e5-base-4k", "rerank3", "oracle")
"""The release's retrievers. They are recognized even if a file has no scores of theirs (paper, section 5.1)."""

_ORDERINGS = {"top": "sort", "bottom": "rev-sort"}
_NAMES = {word: ordering for ordering, word in _ORDERINGS.items()}
_FULL = re.compile(r"fl-ctxt-([^_]+)_(.+)", re.DOTALL)
_REPEAT = re.compile(r"(.+)#([1-9][0-9]{0,8})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class System:
    """The parts of a key: retriever (`full`: the whole haystack), ordering (`given`: the retriever's own), model, repeat."""

    system: str
    retriever: str
    ordering: str
    model: str
    repeat: int = 0


def parse_system(key: str, retrievers: Iterable[str] = RELEASED_RETRIEVERS) -> System:
    """Parse a key of a released file's `summaries`, with or without the prefix, into a system.

    `fl-ctxt-ORDERING_MODEL` means the whole haystack, sorted. `RETRIEVER_MODEL` means the longest of `retrievers` that matches.
    Any other key is the name of a model that saw the whole haystack in its original order. The suffix `#N` marks the N-th repeat;
    the release has none.
    """
    name, repeat = key.removeprefix(PREFIX), 0
    if numbered := _REPEAT.fullmatch(name):
        name, repeat = numbered[1], int(numbered[2])
    if sorted_haystack := _FULL.fullmatch(name):
        word, model = sorted_haystack.groups()
        return System(name, "full", _NAMES.get(word, word), model, repeat)
    for retriever in sorted(set(retrievers) - {"full"}, key=len, reverse=True):
        if name.startswith(f"{retriever}_") and len(name) > len(retriever) + 1:
            return System(name, retriever, "given", name[len(retriever) + 1 :], repeat)
    return System(name, "full", "given", name, repeat)


def system_key(retriever: str, ordering: str, model: str) -> str:
    """Return the release's key of a system in a spec, without the prefix. `released/` and `replay/` are removed from its
    names."""
    retriever, model = retriever.removeprefix("released/"), model.removeprefix("replay/")
    if retriever != "full":
        return f"{retriever}_{model}"
    return model if ordering == "given" else f"fl-ctxt-{_ORDERINGS.get(ordering, ordering)}_{model}"


_BY_PERSON = ("synthesis", "audit", "by_person")
"""The field of `topic_metadata` with the figures from a person's labels."""


def haystack_id_of(raw: Mapping[str, Any]) -> str:
    """Return the first 16 hex digits of the sha256 of the whole released file as canonical JSON (sorted keys, plain ASCII).
    People's labels and reviews are left out. So is a synthesis's cost, which may differ for the same answers because of a
    provider's discount."""
    for path in (_BY_PERSON, ("synthesis", "usd_micros"), ("mine", "review"), ("mine", "check")):
        raw = _without(raw, ("topic_metadata", *path))
    return _sha256(raw)[:16]


def remove_labels(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a released file without the figures from a person's labels."""
    return _without(raw, ("topic_metadata", *_BY_PERSON))


def imported_cell_id(haystack_id: str, subtopic_id: str, retriever: str, ordering: str, model: str, repeat: int) -> str:
    """Return the id of a cell of an imported file: the first 32 hex digits of the sha256 of its query and its system."""
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
