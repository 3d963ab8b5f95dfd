"""The response log: every answer, durable before anything depends on it, shared by all runs of a store. Part of the store room.

Its parts: lines and names (`log_lines`), writers near (`log_writer`) and far (`spool`, `sweep`), what the records come to
(`log_books`), the index (`log_index`, `log_follow`), packs (`packs`). Three kinds of record: `intent` (a call that costs money is
about to be sent: its worst price), `answer` (what came back, and its price), `void` (the call ended without an answer: what it is
charged). An intent with neither stays charged at its worst price. Each says for which stage and model of which run the money is.
"""

from summhay_ray.store.log_books import Excess, Purpose, Spent, Tally
from summhay_ray.store.log_index import Fetched, LogIndex
from summhay_ray.store.log_lines import Location, decode, encode, read_at
from summhay_ray.store.log_writer import LogWriter, Writer, open_log
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
    "open_log",
    "pack",
    "read_at",
    "seal",
    "seal_rest",
    "sweep",
]
