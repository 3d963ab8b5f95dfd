"""Adds up the log's records: where each key's answer is, and what each run has spent. Part of the store room; no I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from summhay_ray.store.errors import StoreError
from summhay_ray.store.log_lines import Charge, LocatedRecord, Location, Mark, writer_of

Purpose = tuple[str, str]
"""(stage, model): what money was spent on; a stage is summarize, judge, ..."""

KINDS = ("intent", "answer", "void", "segment")
"""The kinds of records, and that of marks."""
COUNTS = ("input_tokens", "cached_tokens", "output_tokens", "saved_micros")
_NEEDED = {"kind", "call", "run", "key", "usd_micros"}
_CLAIMED = ("claimed_tokens", "claimed_micros", "claimed_margin")
_KEPT = (*sorted(_NEEDED), "stage", "model", *COUNTS, *_CLAIMED)


class Excess(NamedTuple):
    """A claimed usage above what was reserved for the call: what the provider claims, and what is charged instead."""

    model: str
    claimed_tokens: int
    charged_tokens: int
    claimed_micros: int
    charged_micros: int
    margin: float
    """The `token_margin` of the model that would have reserved enough."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Excess | None:
        """The excess in an answer record; None if its usage was within the reservation."""
        if not record.get("claimed_margin"):
            return None
        tokens, micros, margin = (record[name] for name in _CLAIMED)
        charged_tokens = record["input_tokens"] + record["output_tokens"]
        return cls(record["model"], tokens, charged_tokens, micros, record["usd_micros"], margin)


@dataclass
class Tally:
    """The totals of one run's calls for one purpose."""

    usd_micros: int = 0
    """Everything charged: for answers, for calls that ended without one, and `open_micros`."""
    answers: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    saved_micros: int = 0
    """How much more the answers would have cost without the provider's cache."""
    open_micros: int = 0
    """The part of `usd_micros` that is reserved for calls whose end is not recorded yet, at their worst price."""

    @property
    def settled_micros(self) -> int:
        """The part of `usd_micros` that can no longer shrink, in micro-dollars."""
        return self.usd_micros - max(0, self.open_micros)

    def add(self, other: Tally) -> None:
        """Add the numbers of another tally."""
        for name, amount in vars(other).items():
            setattr(self, name, getattr(self, name) + amount)

    def at_least(self, known: Tally) -> Tally:
        """This tally, raised to what is `known` to be settled where it falls short of that."""
        settled = max(self.settled_micros, known.settled_micros)
        charged = self.usd_micros if self.usd_micros >= known.settled_micros else known.usd_micros
        return replace(self, usd_micros=charged, open_micros=charged - settled, answers=max(self.answers, known.answers))


Spent = Mapping[str, Mapping[Purpose, Tally]]
"""Log writer -> purpose -> a run's totals. Only the money and the number of answers of each tally are set."""


@dataclass(frozen=True, slots=True)
class Open:
    """A call with an intent record and no record of its end."""

    writer: str
    key: str
    usd_micros: int


@dataclass
class Books:
    """The totals of all records entered so far, by run, writer and purpose."""

    answers: dict[str, Location] = field(default_factory=dict)
    damaged: Counter[str] = field(default_factory=Counter)
    """File -> number of its damaged records."""
    tallies: dict[str, dict[str, dict[Purpose, Tally]]] = field(default_factory=dict)
    open: dict[str, Open] = field(default_factory=dict)
    """Call -> its intent."""
    void: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """Writer -> keys of its calls that ended without an answer."""
    ends: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    """(call, run, writer, stage, model) of ends without an intent among these records, if they cost money or are void."""
    allowed: dict[str, tuple[Charge, ...]] = field(default_factory=dict)
    """Writer that has not ended -> what its newest segment allows it to spend. The tallies include it."""
    sealed: set[str] = field(default_factory=set)
    """Writers whose last records were lost with their machine. The tallies include what these may have cost."""
    excesses: dict[str, dict[str, Excess]] = field(default_factory=dict)
    """Run -> key -> the usage in excess of its reservation."""

    def take(self, location: Location, record: Mapping[str, Any] | None) -> None:
        """Enter a record; `record` is None if it is damaged. Raises StoreError if it is of a newer version."""
        _check_kind(location, record)
        if record is None or not record.keys() >= _NEEDED:
            self.damaged[location.name] += 1
            return
        writer, call = writer_of(location.name), record["call"]
        purpose = (record.get("stage", ""), record.get("model", ""))
        tally = self.tally(record["run"], writer, purpose)
        tally.usd_micros += record["usd_micros"]
        if record["kind"] == "intent":
            self.open[call] = Open(writer, record["key"], record["usd_micros"])
            tally.open_micros += record["usd_micros"]
            return
        if call in self.open:
            self._end(tally, call)
        elif record["usd_micros"] or record["kind"] == "void":
            self.ends.append((call, record["run"], writer, *purpose))
        if record["kind"] == "answer":
            self.answers.setdefault(record["key"], location)
            if (excess := Excess.of(record)) is not None:
                self.excesses.setdefault(record["run"], {})[record["key"]] = excess
            tally.answers += 1
            for name in COUNTS:
                setattr(tally, name, getattr(tally, name) + record.get(name, 0))
        elif record["kind"] == "void":
            self.void[writer].add(record["key"])

    def segment(self, writer: str, entries: Sequence[LocatedRecord], mark: Mark | None) -> None:
        """Enter a writer's next segment. Its allowance replaces the previous one; `mark` is None if it is damaged."""
        for location, record in entries:
            self.take(location, record)
        if mark is None:
            # The new allowance is unknown, so the previous one stays charged.
            return
        self._charge(writer, self.allowed.pop(writer, ()), -1)
        self._charge(writer, mark.allowance)
        if not mark.end:
            self.allowed[writer] = mark.allowance
        if mark.sealed:
            self.sealed.add(writer)

    def _charge(self, writer: str, charges: Sequence[Charge], sign: int = 1) -> None:
        for run, stage, model, micros in charges:
            tally = self.tally(run, writer, (stage, model))
            tally.usd_micros += sign * micros
            tally.open_micros += sign * micros

    def _end(self, tally: Tally, call: str) -> None:
        worst = self.open.pop(call).usd_micros
        tally.usd_micros -= worst
        tally.open_micros -= worst

    def merge(self, later: Books) -> None:
        """Enter the totals of other books, as if their records followed these."""
        self.damaged.update(later.damaged)
        for key, location in later.answers.items():
            self.answers.setdefault(key, location)
        for run, writers in later.tallies.items():
            for writer, purposes in writers.items():
                for purpose, tally in purposes.items():
                    self.tally(run, writer, purpose).add(tally)
        for run, excesses in later.excesses.items():
            self.excesses.setdefault(run, {}).update(excesses)
        for writer, keys in later.void.items():
            self.void[writer] |= keys
        self.sealed |= later.sealed
        for call, run, writer, stage, model in later.ends:
            if call in self.open:
                self._end(self.tally(run, writer, (stage, model)), call)
            else:
                self.ends.append((call, run, writer, stage, model))
        self.open.update(later.open)

    def tally(self, run: str, writer: str, purpose: Purpose) -> Tally:
        """The tally of a run, writer and purpose, created if it does not exist."""
        return self.tallies.setdefault(run, {}).setdefault(writer, {}).setdefault(purpose, Tally())


def kept(location: Location, record: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The fields of a record that the books need; the text of an answer, which is long, is left out.

    Raises StoreError if the record is of a newer version, so that nothing of what is read with it is entered.
    """
    _check_kind(location, record)
    return None if record is None else {name: record[name] for name in _KEPT if name in record}


def _check_kind(location: Location, record: Mapping[str, Any] | None) -> None:
    """Raises StoreError for a kind of record that only a newer version writes: what it means for the money is not known here."""
    if record is not None and record.get("kind", KINDS[0]) not in KINDS:
        raise StoreError(
            f"{location.name}: the record at byte {location.offset} is of a kind that this version does not know "
            f"({str(record['kind'])[:40]!r}): a newer version writes this log; upgrade"
        )
