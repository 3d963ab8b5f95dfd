"""Stores: tables, sources, the response log and commits. Only this package reads and writes a store. It contains no record
classes of benchmarks."""

from summhay_ray.errors import StoreError
from summhay_ray.store.answers import AnswerTotals, Excess, Location, Purpose, read_at
from summhay_ray.store.answers import encode as encode_record
from summhay_ray.store.batches import BatchRecord, is_batch
from summhay_ray.store.clean import RETENTION_S, clean_daily, unneeded
from summhay_ray.store.deletion import Selection, forget
from summhay_ray.store.drivers import (
    BEAT_S,
    WATCH_S,
    DriverSession,
    ask_to_stop,
    begin_session,
    driver_report,
    has_ended,
    how_ended,
    live_sessions,
    lost_sessions,
    open_sessions,
    read_session,
    running_drivers,
)
from summhay_ray.store.files import Files, LocalFiles, open_files
from summhay_ray.store.log import Fetched, LogIndex, LogWriter, damaged_records
from summhay_ray.store.money import RUN, Amounts, Money, MoneyRecord, Scope, scopes, total_of
from summhay_ray.store.names import DamagedRecord, NoCredentials, Superseded, with_endpoint
from summhay_ray.store.parts import Finished, Parts
from summhay_ray.store.records import Amount, Chain, Count, Total, as_record, read_checked, with_hash
from summhay_ray.store.runs import ATTRIBUTION, FORMAT, RUN_FORMAT, RunStore, Store, TableFormat, write_tables
from summhay_ray.store.tables import Columns, Table, columns_of
from summhay_ray.store.vectors import Dimensions, VectorSpace, n_vector_files, vector_flaws

__all__ = [
    "ATTRIBUTION",
    "BEAT_S",
    "FORMAT",
    "RETENTION_S",
    "RUN",
    "RUN_FORMAT",
    "WATCH_S",
    "Amount",
    "Amounts",
    "AnswerTotals",
    "BatchRecord",
    "Chain",
    "Columns",
    "Count",
    "DamagedRecord",
    "Dimensions",
    "DriverSession",
    "Excess",
    "Fetched",
    "Files",
    "Finished",
    "LocalFiles",
    "Location",
    "LogIndex",
    "LogWriter",
    "Money",
    "MoneyRecord",
    "NoCredentials",
    "Parts",
    "Purpose",
    "RunStore",
    "Scope",
    "Selection",
    "Store",
    "StoreError",
    "Superseded",
    "Table",
    "TableFormat",
    "Total",
    "VectorSpace",
    "as_record",
    "ask_to_stop",
    "begin_session",
    "clean_daily",
    "columns_of",
    "damaged_records",
    "driver_report",
    "encode_record",
    "forget",
    "has_ended",
    "how_ended",
    "is_batch",
    "live_sessions",
    "lost_sessions",
    "n_vector_files",
    "open_files",
    "open_sessions",
    "read_at",
    "read_checked",
    "read_session",
    "running_drivers",
    "scopes",
    "total_of",
    "unneeded",
    "vector_flaws",
    "with_endpoint",
    "with_hash",
    "write_tables",
]
