"""Retrievers: query and haystack in, ranking out. Imports records and plugins; `benchmarks` and `grid` import it."""

from __future__ import annotations

import sys

from summhay_ray import plugins
from summhay_ray.retrieve.base import Ranked, Retriever, by_score

__all__ = ["Ranked", "Retriever", "by_score", "known", "make"]


def make(name: str, seed: int) -> Retriever:
    """The retriever that a spec names: `bm25`, `released/vector`, `my_package.my_module:MyRetriever`.

    What stands behind the first slash is the retriever's argument. Raises UnknownName for a name that nothing answers to,
    for an argument that the retriever does not take, and for one that it needs and did not get.
    """
    head, slash, argument = name.partition("/")
    if slash and not argument:
        raise plugins.UnknownName(f"retriever {name!r} ends in a slash; name what stands behind it, or leave the slash out")
    if ":" in head:
        found = plugins.load(head)
        if not isinstance(found, type) or not hasattr(found, "rank") or not isinstance(getattr(found, "whole", None), bool):
            raise plugins.UnknownName(f"{head!r} is no retriever; expected a class with `whole` (True or False) and `rank`")
    else:
        retrievers = plugins.discover(sys.modules[__name__])
        if head not in retrievers:
            raise plugins.unknown("retriever", head, retrievers)
        found = retrievers[head]
    with plugins.own_code(f"retriever {name!r} cannot be made", "its class is called with the argument and the seed"):
        retriever: Retriever = found(argument, seed)
    return retriever


def known() -> list[str]:
    """The names of the retrievers of this room, sorted; `released` is a family and takes a name behind a slash."""
    return sorted(plugins.discover(sys.modules[__name__]))
