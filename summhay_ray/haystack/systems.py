"""The keys of systems in released files, which combine retriever, ordering and model."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PREFIX = "summary_subtopic_"
RELEASED_RETRIEVERS = ("random", "keywords", "vector", "dwzhu/e5-base-4k", "rerank3", "oracle")
"""The release's retrievers, recognized even if a file has no scores of them (paper, section 5.1)."""

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
    """The system named by a key of a released file's `summaries`, with or without the prefix.

    `fl-ctxt-ORDERING_MODEL`: the whole haystack, sorted. `RETRIEVER_MODEL`: one of `retrievers` (the longest that matches, since
    names may have underscores). Anything else: a model that saw the whole haystack in its own order. The suffix `#N` marks the
    N-th repeat; the release has none.
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
    """The release's key, without the prefix, of a system in a spec; `released/` and `replay/` are removed from its names."""
    retriever, model = retriever.removeprefix("released/"), model.removeprefix("replay/")
    if retriever != "full":
        return f"{retriever}_{model}"
    return model if ordering == "given" else f"fl-ctxt-{_ORDERINGS.get(ordering, ordering)}_{model}"
