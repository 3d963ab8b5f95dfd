"""The response log: every answer, durable before anything depends on it, shared by all runs of a store. Part of the store room.

Its parts: lines and names (`log_lines`), writers for a local folder (`log_writer`) and for a bucket (`spool`, `sweep`), totals
(`log_books`), the index (`log_index`, `log_follow`), packs (`packs`, `pack_losses`). There are three kinds of record: `intent` (a
call that costs money is about to be sent; its worst price), `answer` (the answer and its price) and `void` (the call ended
without an answer; what is charged for it). An intent without an answer or void stays charged at its worst price. Each record
names the run, stage and model that the money is spent on.
"""

from summhay_ray.store.log_books import Excess, Purpose, Spent, Tally
from summhay_ray.store.log_index import Fetched, LogIndex
from summhay_ray.store.log_lines import Location, decode, encode, read_at
from summhay_ray.store.log_writer import LogWriter, Writer, open_log
from summhay_ray.store.pack_losses import lost_packs
from summhay_ray.store.packs import pack
from summhay_ray.store.spool_folder import Evicted
from summhay_ray.store.sweep import seal, seal_rest, sweep

__all__ = [
    "Evicted",
    "Excess",
    "Fetched",
    "Location",
    "LogIndex",
    "LogWriter",
    "Purpose",
    "Spent",
    "Tally",
    "Writer",
    "decode",
    "encode",
    "lost_packs",
    "open_log",
    "pack",
    "read_at",
    "seal",
    "seal_rest",
    "sweep",
]
