"""Reads haystacks from the released JSON, and exports runs in this format."""

from summhay_ray.haystack.check import InvalidHaystack, Node
from summhay_ray.haystack.export import export_run
from summhay_ray.haystack.health import FREE_JUDGE, HaystackFacts, Health, facts_of, few_documents, health
from summhay_ray.haystack.identity import RELEASED_RETRIEVERS, haystack_id_of, parse_system, remove_labels, system_key
from summhay_ray.haystack.imported import RELEASED_JUDGE, imported_rows
from summhay_ray.haystack.nuggets import UNREAD, holds_nuggets, read_nuggets
from summhay_ray.haystack.released import ReleasedFile, load_sample, read_released, released_from

__all__ = [
    "FREE_JUDGE",
    "RELEASED_JUDGE",
    "RELEASED_RETRIEVERS",
    "UNREAD",
    "HaystackFacts",
    "Health",
    "InvalidHaystack",
    "Node",
    "ReleasedFile",
    "export_run",
    "facts_of",
    "few_documents",
    "haystack_id_of",
    "health",
    "holds_nuggets",
    "imported_rows",
    "load_sample",
    "parse_system",
    "read_nuggets",
    "read_released",
    "released_from",
    "remove_labels",
    "system_key",
]
