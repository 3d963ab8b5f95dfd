"""Tables, sources, response log and commits: the only room that knows where bytes live. Imports records only."""

from summhay_ray.store.blocks import Block, Finished
from summhay_ray.store.chain import Chain
from summhay_ray.store.commits import Committer, Manifest
from summhay_ray.store.drivers import Tenure, TenureRecord, begin, has_ended, how_ended, is_alive, read_tenure, tenures
from summhay_ray.store.errors import NoCredentials, StoreError, StoreUnavailable, Superseded
from summhay_ray.store.files import Files, LocalFiles, open_files
from summhay_ray.store.response_log import (
    Buried,
    Fetched,
    Location,
    LogIndex,
    LogWriter,
    Purpose,
    Tally,
    Writer,
    open_log,
    pack,
    read_at,
    seal,
    seal_rest,
    sweep,
)
from summhay_ray.store.runs import RunStore, Store
from summhay_ray.store.s3_place import with_endpoint
from summhay_ray.store.tables import TABLES, describe, digest, from_rows, schema_of, to_records

__all__ = [
    "TABLES",
    "Block",
    "Buried",
    "Chain",
    "Committer",
    "Fetched",
    "Files",
    "Finished",
    "LocalFiles",
    "Location",
    "LogIndex",
    "LogWriter",
    "Manifest",
    "NoCredentials",
    "Purpose",
    "RunStore",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "Superseded",
    "Tally",
    "Tenure",
    "TenureRecord",
    "Writer",
    "begin",
    "describe",
    "digest",
    "from_rows",
    "has_ended",
    "how_ended",
    "is_alive",
    "open_files",
    "open_log",
    "pack",
    "read_at",
    "read_tenure",
    "schema_of",
    "seal",
    "seal_rest",
    "sweep",
    "tenures",
    "to_records",
    "with_endpoint",
]
