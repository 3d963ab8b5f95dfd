"""What the log's records come to: where each key's answer is, and what each run has spent. Part of the store room; no I/O."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.store.log_lines import Charge, Entry, Location, Mark, writer_of

Purpose = tuple[str, str]
"""What money was spent on: stage (summarize, judge, ...) and model."""

COUNTS = ("input_tokens", "cached_tokens", "output_tokens", "saved_micros")
_NEEDED = {"kind", "call", "run", "key", "usd_micros"}
_KEPT = (*sorted(_NEEDED), "stage", "model", *COUNTS)


@dataclass
class Tally:
    """What the calls of one purpose in one run came to."""

    usd_micros: int = 0
    """All that is charged: answers, and calls that ended without one."""
    answers: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    saved_micros: int = 0
    """What the answers would have cost more without the provider's cache."""

    def add(self, other: Tally) -> None:
        """Add another's numbers."""
        for name, amount in vars(other).items():
            setattr(self, name, getattr(self, name) + amount)


@dataclass(frozen=True, slots=True)
class Open:
    """A call that was about to be sent and of whose end no record tells."""

    writer: str
    key: str
    usd_micros: int


@dataclass
class Books:
    """The records taken so far, added up by run, writer and purpose."""

    answers: dict[str, Location] = field(default_factory=dict)
    damaged: int = 0
    tallies: dict[str, dict[str, dict[Purpose, Tally]]] = field(default_factory=dict)
    open: dict[str, Open] = field(default_factory=dict)
    """Call -> its intent."""
    void: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ends: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    """(call, run, writer, stage, model) of ends that cost money or brought no answer, and whose intent was not among these."""
    allowed: dict[str, tuple[Charge, ...]] = field(default_factory=dict)
    """Writer that has not ended -> what its newest segment allows it to spend, which is entered as spent."""

    def take(self, location: Location, record: Mapping[str, Any] | None) -> None:
        """Enter a record; None for a damaged one."""
        if record is None or not record.keys() >= _NEEDED:
            self.damaged += 1
            return
        writer, call = writer_of(location.name), record["call"]
        purpose = (record.get("stage", ""), record.get("model", ""))
        tally = self.tally(record["run"], writer, purpose)
        tally.usd_micros += record["usd_micros"]
        if record["kind"] == "intent":
            self.open[call] = Open(writer, record["key"], record["usd_micros"])
            return
        if call in self.open:
            tally.usd_micros -= self.open.pop(call).usd_micros
        elif record["usd_micros"] or record["kind"] == "void":
            self.ends.append((call, record["run"], writer, *purpose))
        if record["kind"] == "answer":
            self.answers.setdefault(record["key"], location)
            tally.answers += 1
            for name in COUNTS:
                setattr(tally, name, getattr(tally, name) + record.get(name, 0))
        elif record["kind"] == "void":
            self.void[writer].add(record["key"])

    def segment(self, writer: str, entries: Sequence[Entry], mark: Mark | None) -> None:
        """Enter a writer's next segment; its allowance stands instead of the one before. None for a damaged mark."""
        for location, record in entries:
            self.take(location, record)
        if mark is None:
            # What it allows nobody knows; what the one before it did stays charged.
            return
        self._charge(writer, self.allowed.pop(writer, ()), -1)
        self._charge(writer, mark.allowance)
        if not mark.end:
            self.allowed[writer] = mark.allowance

    def _charge(self, writer: str, charges: Sequence[Charge], sign: int = 1) -> None:
        for run, stage, model, micros in charges:
            self.tally(run, writer, (stage, model)).usd_micros += sign * micros

    def merge(self, later: Books) -> None:
        """Enter what stands in other books, as if its records came after these."""
        self.damaged += later.damaged
        for key, location in later.answers.items():
            self.answers.setdefault(key, location)
        for run, writers in later.tallies.items():
            for writer, purposes in writers.items():
                for purpose, tally in purposes.items():
                    self.tally(run, writer, purpose).add(tally)
        for writer, keys in later.void.items():
            self.void[writer] |= keys
        for call, run, writer, stage, model in later.ends:
            if call in self.open:
                self.tally(run, writer, (stage, model)).usd_micros -= self.open.pop(call).usd_micros
            else:
                self.ends.append((call, run, writer, stage, model))
        self.open.update(later.open)

    def tally(self, run: str, writer: str, purpose: Purpose) -> Tally:
        """The tally to enter into."""
        return self.tallies.setdefault(run, {}).setdefault(writer, {}).setdefault(purpose, Tally())


def kept(record: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What the books need of a record: answers are long."""
    return None if record is None else {name: record[name] for name in _KEPT if name in record}
