"""Tables, sources, response log and commits: the only room that knows where bytes live. Imports records only."""

from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import LocalFiles, open_files
from summhay_ray.store.response_log import Location, LogIndex, LogWriter, Purpose, Tally, read_at
from summhay_ray.store.runs import Commit, RunStore, Store
from summhay_ray.store.tables import TABLES, describe, digest, from_rows, schema_of, to_records

__all__ = [
    "TABLES",
    "Commit",
    "LocalFiles",
    "Location",
    "LogIndex",
    "LogWriter",
    "Purpose",
    "RunStore",
    "Store",
    "StoreError",
    "Tally",
    "describe",
    "digest",
    "from_rows",
    "open_files",
    "read_at",
    "schema_of",
    "to_records",
]
