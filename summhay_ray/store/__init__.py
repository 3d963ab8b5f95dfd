"""Tables, sources, response log and commits. The only room that knows where bytes live; it knows no benchmark's records."""

from summhay_ray.store.blocks import Block, Finished
from summhay_ray.store.chain import Chain
from summhay_ray.store.checked_json import read_checked, with_hash
from summhay_ray.store.clean import RETENTION_S, clean_daily, unneeded
from summhay_ray.store.commits import Committer, Manifest
from summhay_ray.store.dimensions import Dimensions
from summhay_ray.store.drivers import (
    BEAT_S,
    WATCH_S,
    DriverSession,
    SessionRecord,
    ask_to_stop,
    begin,
    has_ended,
    how_ended,
    latest_session,
    living,
    lost_sessions,
    open_sessions,
    read_session,
    sessions,
    told_left,
)
from summhay_ray.store.errors import Damaged, DamagedRecord, NoCredentials, StoreError, StoreUnavailable, Superseded
from summhay_ray.store.files import Files, LocalFiles, open_files
from summhay_ray.store.log_books import Excess, Purpose, Spent, Tally
from summhay_ray.store.log_index import Fetched, LogIndex
from summhay_ray.store.log_lines import Location, read_at, writer_of
from summhay_ray.store.log_writer import LogWriter, Writer, open_log
from summhay_ray.store.open_tables import TableFormat, lost_tables, not_published, publish, table_digests, write_tables
from summhay_ray.store.pack_losses import lost_packs
from summhay_ray.store.packs import pack
from summhay_ray.store.run_record import MEND_RECORD
from summhay_ray.store.runs import ATTRIBUTION, FORMAT, RUN_FORMAT, RunStore, Store
from summhay_ray.store.s3_place import with_endpoint
from summhay_ray.store.spool_folder import Evicted
from summhay_ray.store.sweep import seal, seal_rest, sweep
from summhay_ray.store.tables import Table, Tables, columns_of, digest
from summhay_ray.store.vectors import VectorSpace, n_vector_files, vector_flaws, vector_key

__all__ = [
    "ATTRIBUTION",
    "BEAT_S",
    "FORMAT",
    "MEND_RECORD",
    "RETENTION_S",
    "RUN_FORMAT",
    "WATCH_S",
    "Block",
    "Chain",
    "Committer",
    "Damaged",
    "DamagedRecord",
    "Dimensions",
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
    "latest_session",
    "living",
    "lost_packs",
    "lost_sessions",
    "lost_tables",
    "n_vector_files",
    "not_published",
    "open_files",
    "open_log",
    "open_sessions",
    "pack",
    "publish",
    "read_at",
    "read_checked",
    "read_session",
    "seal",
    "seal_rest",
    "sessions",
    "sweep",
    "table_digests",
    "told_left",
    "unneeded",
    "vector_flaws",
    "vector_key",
    "with_endpoint",
    "with_hash",
    "write_tables",
    "writer_of",
]
