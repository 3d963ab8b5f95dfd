"""Reads haystacks from the released JSON, and exports runs as such."""

from summhay_ray.haystack.check import InvalidHaystack, Node
from summhay_ray.haystack.export import export_run
from summhay_ray.haystack.health import FREE_JUDGE, HaystackFacts, Health, facts_of, health
from summhay_ray.haystack.identity import haystack_id_of, imported_cell_id, without_labels
from summhay_ray.haystack.imported import RELEASED_JUDGE, ImportedRows, imported_rows
from summhay_ray.haystack.nuggets import UNREAD, holds_nuggets, read_nuggets
from summhay_ray.haystack.released import ReleasedFile, load_sample, read_released, released_from, sample_names
from summhay_ray.haystack.systems import PREFIX, RELEASED_RETRIEVERS, System, parse_system, system_key

__all__ = [
    "FREE_JUDGE",
    "PREFIX",
    "RELEASED_JUDGE",
    "RELEASED_RETRIEVERS",
    "UNREAD",
    "HaystackFacts",
    "Health",
    "ImportedRows",
    "InvalidHaystack",
    "Node",
    "ReleasedFile",
    "System",
    "export_run",
    "facts_of",
    "haystack_id_of",
    "health",
    "holds_nuggets",
    "imported_cell_id",
    "imported_rows",
    "load_sample",
    "parse_system",
    "read_nuggets",
    "read_released",
    "released_from",
    "sample_names",
    "system_key",
    "without_labels",
]
