"""Tables, sources, response log and commits. The only room that knows where bytes live; it knows no benchmark's records."""

from summhay_ray.store.blocks import Block, Finished
from summhay_ray.store.chain import Chain
from summhay_ray.store.clean import RETENTION_S, clean_daily, unneeded
from summhay_ray.store.commits import Committer, Manifest
from summhay_ray.store.drivers import (
    BEAT_S,
    DriverSession,
    SessionRecord,
    ask_to_stop,
    begin,
    has_ended,
    how_ended,
    is_alive,
    read_session,
    sessions,
)
from summhay_ray.store.errors import Damaged, NoCredentials, StoreError, StoreUnavailable, Superseded
from summhay_ray.store.files import Files, LocalFiles, open_files
from summhay_ray.store.open_tables import TableFormat, publish, table_digests, write_tables
from summhay_ray.store.response_log import (
    Evicted,
    Excess,
    Fetched,
    Location,
    LogIndex,
    LogWriter,
    Purpose,
    Spent,
    Tally,
    Writer,
    open_log,
    pack,
    read_at,
    seal,
    seal_rest,
    sweep,
)
from summhay_ray.store.runs import FORMAT, RUN_FORMAT, RunStore, Store
from summhay_ray.store.s3_place import with_endpoint
from summhay_ray.store.tables import Table, Tables, columns_of, digest
from summhay_ray.store.vectors import VectorSpace, vector_flaws, vector_key

__all__ = [
    "BEAT_S",
    "FORMAT",
    "RETENTION_S",
    "RUN_FORMAT",
    "Block",
    "Chain",
    "Committer",
    "Damaged",
    "DriverSession",
    "Evicted",
    "Excess",
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
    "SessionRecord",
    "Spent",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "Superseded",
    "Table",
    "TableFormat",
    "Tables",
    "Tally",
    "VectorSpace",
    "Writer",
    "ask_to_stop",
    "begin",
    "clean_daily",
    "columns_of",
    "digest",
    "has_ended",
    "how_ended",
    "is_alive",
    "open_files",
    "open_log",
    "pack",
    "publish",
    "read_at",
    "read_session",
    "seal",
    "seal_rest",
    "sessions",
    "sweep",
    "table_digests",
    "unneeded",
    "vector_flaws",
    "vector_key",
    "with_endpoint",
    "write_tables",
]
