"""Tables, sources, response log and commits. Only this package reads and writes a store; it contains no benchmark's record
classes."""

from summhay_ray.errors import StoreError
from summhay_ray.store.errors import DamagedRecord, NoCredentials, StoreUnavailable, Superseded
from summhay_ray.store.files.chain import Chain
from summhay_ray.store.files.checked_json import Amount, Count, Name, Sha256, Total, as_record, read_checked, with_hash
from summhay_ray.store.files.files import Files, LocalFiles, open_files
from summhay_ray.store.files.s3_place import with_endpoint
from summhay_ray.store.log.answer_record import AnswerTotals, Excess, Purpose
from summhay_ray.store.log.log_index import Fetched, LogIndex, damaged_records
from summhay_ray.store.log.log_lines import Location, read_at
from summhay_ray.store.log.log_lines import encode as encode_record
from summhay_ray.store.log.log_writer import LogWriter
from summhay_ray.store.log.money import RUN, Amounts, Money, MoneyRecord, MoneyRecords, Scope, scopes, total_of
from summhay_ray.store.runs.clean import RETENTION_S, clean_daily, unneeded
from summhay_ray.store.runs.commits import Committer, Manifest
from summhay_ray.store.runs.drivers import (
    BEAT_S,
    WATCH_S,
    DriverSession,
    SessionRecord,
    ask_to_stop,
    begin_session,
    has_ended,
    how_ended,
    living,
    lost_sessions,
    open_sessions,
    read_session,
    told_by,
)
from summhay_ray.store.runs.open_tables import TableFormat, write_tables
from summhay_ray.store.runs.runs import ATTRIBUTION, FORMAT, RUN_FORMAT, RunStore, Store
from summhay_ray.store.tables.parts import Finished, Parts
from summhay_ray.store.tables.tables import Columns, Table, Tables, columns_of, digest
from summhay_ray.store.tables.vectors import Dimensions, VectorSpace, n_vector_files, vector_flaws

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
    "Chain",
    "Columns",
    "Committer",
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
    "Manifest",
    "Money",
    "MoneyRecord",
    "MoneyRecords",
    "Name",
    "NoCredentials",
    "Parts",
    "Purpose",
    "RunStore",
    "Scope",
    "SessionRecord",
    "Sha256",
    "Store",
    "StoreError",
    "StoreUnavailable",
    "Superseded",
    "Table",
    "TableFormat",
    "Tables",
    "Total",
    "VectorSpace",
    "as_record",
    "ask_to_stop",
    "begin_session",
    "clean_daily",
    "columns_of",
    "damaged_records",
    "digest",
    "encode_record",
    "has_ended",
    "how_ended",
    "living",
    "lost_sessions",
    "n_vector_files",
    "open_files",
    "open_sessions",
    "read_at",
    "read_checked",
    "read_session",
    "scopes",
    "told_by",
    "total_of",
    "unneeded",
    "vector_flaws",
    "with_endpoint",
    "with_hash",
    "write_tables",
]
