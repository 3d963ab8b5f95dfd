"""Missing and damaged packs: how many answers are lost with them, and what these had cost. Part of the store room."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.outcome import MICROS
from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.log_follow import LogPosition, Segment, new_segments
from summhay_ray.store.log_lines import PACKS, decode, entries_of, mend_packs
from summhay_ray.store.packs import books_of, index_of, locations, pack_chain, read_object

Prices = dict[str, int]
"""Key -> what its answer had cost, in micro-dollars."""


@dataclass(frozen=True, slots=True)
class _Remains:
    """What is left of a pack."""

    flaws: Sequence[str]
    """What is missing or damaged; empty if the pack is whole."""
    keys: frozenset[str] | None
    """All its answers; None if they are not known."""
    readable: Prices = field(default_factory=dict)
    """Of a damaged pack, the answers whose lines are whole; without the index no command reads them."""
    totals: Sequence[int] | None = None
    """Micro-dollars by writer and purpose, as its index counts them; None if the index is missing or damaged.

    Of packs that were written together only the last one counts, and it counts for all.
    """


def lost_packs(files: Files) -> list[str]:
    """A line for each pack that is missing or damaged: how many answers are lost, what they had cost, and the remedy.

    Reads all packs, and all segments if a pack is damaged. Raises StoreError if the packs are not known.
    """
    newest = pack_chain(files).newest()
    packs = [_look(files, pack) for pack in newest[1]["packs"]] if newest is not None else []
    if not any(pack.flaws for pack in packs):
        return []
    segments = _in_segments(files)
    mend = _mend(packs, segments)
    return [
        f"{' and '.join(pack.flaws)}: {_loss(pack, packs[place:], segments)}; {mend}"
        for place, pack in enumerate(packs)
        if pack.flaws
    ]


def _look(files: Files, pack: Mapping[str, Any]) -> _Remains:
    content, flaw = read_object(files, pack["data"])
    flaws = [flaw] if flaw else []
    compressed, of_index = read_object(files, pack["index"])
    if of_index:
        flaws.append(f"{of_index}, without which no run goes on")
        if flaw:
            return _Remains(flaws, None)
        records = [record for _, record in entries_of(pack["data"], content) if record is not None]
        prices = {record["key"]: record["usd_micros"] for record in records}
        return _Remains(flaws, frozenset(prices), prices)
    index, readable = index_of(compressed), {}
    for key, place in locations(pack, index) if flaw else ():
        record = decode(content[place.offset : place.offset + place.length])
        if record is not None:
            readable[key] = record["usd_micros"]
    by_writer = [tallies for writers in books_of(index["books"]).tallies.values() for tallies in writers.values()]
    totals = [tally.usd_micros for tallies in by_writer for tally in tallies.values()]
    return _Remains(flaws, frozenset(index["keys"]), readable, totals)


def _in_segments(files: Files) -> Prices | None:
    """The answers that a reader without packs finds; None if the segments cannot be read."""
    prices: Prices = {}
    try:
        for part in new_segments(files, LogPosition(), ()):
            for _, record in part.entries if isinstance(part, Segment) else ():
                if record is not None and record.get("kind") == "answer":
                    prices.setdefault(record["key"], record["usd_micros"])
    except StoreError:
        # A driver's record is damaged, of which the doctor has a line as well.
        return None
    return prices


def _loss(pack: _Remains, following: Sequence[_Remains], segments: Prices | None) -> str:
    """What a damaged pack has lost. `following`: this pack and those after it."""
    if pack.keys is None:
        return "how many answers are lost, and what they had cost, is not known"
    lost = pack.keys - (pack.readable.keys() if pack.totals is not None else frozenset())
    text = f"{len(lost)} of its {len(pack.keys)} answers cannot be read"
    if segments is None:
        return f"{text}, and it is not known which of them are in segments"
    gone = lost - segments.keys()
    if not gone:
        return f"{text}, segments still hold all of them" if lost else text
    kept = f"segments still hold {len(lost) - len(gone)} of them"
    micros = _most(pack, gone, following, segments)
    cost = "what the others had cost is not known"
    if micros is not None:
        cost = f"the others had cost at most {micros / MICROS:.6f} dollars"
    return f"{text}, {kept}, {cost}"


def _most(pack: _Remains, gone: Set[str], following: Sequence[_Remains], segments: Prices) -> int | None:
    """The most that these answers of a pack had cost, in micro-dollars; None if that is not known."""
    if pack.totals is None:
        return sum(pack.readable[key] for key in gone)
    counting = next((one for one in following if one.totals is None or one.totals), None)
    if counting is None or counting.totals is None:
        return None
    kept = {**segments, **pack.readable}
    return max(0, sum(counting.totals) - sum(kept.get(key, 0) for key in (pack.keys or frozenset()) - gone))


def _mend(packs: Sequence[_Remains], segments: Prices | None) -> str:
    """The remedy, which is the same for all packs."""
    keys = [pack.keys for pack in packs if pack.keys is not None]
    if segments is None or len(keys) < len(packs):
        return mend_packs()
    n_lost = len(frozenset().union(*keys) - segments.keys())
    return mend_packs(n_lost) if n_lost else f"delete the folder {PACKS}: nothing is lost, since segments hold every answer"
