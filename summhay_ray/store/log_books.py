"""What the log's records come to: where each key's answer is, and what each run has spent. Part of the store room; no I/O."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from summhay_ray.store.log_lines import Charge, Entry, Location, Mark, writer_of

Purpose = tuple[str, str]
"""What money was spent on: stage (summarize, judge, ...) and model."""

COUNTS = ("input_tokens", "cached_tokens", "output_tokens", "saved_micros")
_NEEDED = {"kind", "call", "run", "key", "usd_micros"}
_CLAIMED = ("claimed_tokens", "claimed_micros", "claimed_margin")
_KEPT = (*sorted(_NEEDED), "stage", "model", *COUNTS, *_CLAIMED)


class Excess(NamedTuple):
    """A usage above what was reserved for its call: what the provider claims, and what is charged in its place."""

    model: str
    claimed_tokens: int
    charged_tokens: int
    claimed_micros: int
    charged_micros: int
    margin: float
    """The model's `token_margin` that would have reserved as much."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> Excess | None:
        """The excess that an answer record tells of; None where its usage was credible."""
        if not record.get("claimed_margin"):
            return None
        tokens, micros, margin = (record[name] for name in _CLAIMED)
        charged_tokens = record["input_tokens"] + record["output_tokens"]
        return cls(record["model"], tokens, charged_tokens, micros, record["usd_micros"], margin)


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
    open_micros: int = 0
    """The part of `usd_micros` that stands for calls whose end is not told yet: their worst price."""

    @property
    def settled_micros(self) -> int:
        """The part that never becomes less."""
        return self.usd_micros - max(0, self.open_micros)

    def add(self, other: Tally) -> None:
        """Add another's numbers."""
        for name, amount in vars(other).items():
            setattr(self, name, getattr(self, name) + amount)

    def at_least(self, known: Tally) -> Tally:
        """The same, where it tells of all that is `known` to be settled; else with what is known in the place of what lacks."""
        settled = max(self.settled_micros, known.settled_micros)
        charged = self.usd_micros if self.usd_micros >= known.settled_micros else known.usd_micros
        return replace(self, usd_micros=charged, open_micros=charged - settled, answers=max(self.answers, known.answers))


Spent = Mapping[str, Mapping[Purpose, Tally]]
"""Log writer -> purpose -> what a run's calls came to: of a tally the money and the number of answers alone."""


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
    damaged: Counter[str] = field(default_factory=Counter)
    """File -> how many of its records could not be read."""
    tallies: dict[str, dict[str, dict[Purpose, Tally]]] = field(default_factory=dict)
    open: dict[str, Open] = field(default_factory=dict)
    """Call -> its intent."""
    void: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    ends: list[tuple[str, str, str, str, str]] = field(default_factory=list)
    """(call, run, writer, stage, model) of ends that cost money or brought no answer, and whose intent was not among these."""
    allowed: dict[str, tuple[Charge, ...]] = field(default_factory=dict)
    """Writer that has not ended -> what its newest segment allows it to spend, which is entered as spent."""
    excesses: dict[str, dict[str, Excess]] = field(default_factory=dict)
    """Run -> key -> the usage above what was reserved for it."""

    def take(self, location: Location, record: Mapping[str, Any] | None) -> None:
        """Enter a record; None for a damaged one."""
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
            tally = self.tally(run, writer, (stage, model))
            tally.usd_micros += sign * micros
            tally.open_micros += sign * micros

    def _end(self, tally: Tally, call: str) -> None:
        worst = self.open.pop(call).usd_micros
        tally.usd_micros -= worst
        tally.open_micros -= worst

    def merge(self, later: Books) -> None:
        """Enter what stands in other books, as if its records came after these."""
        self.damaged.update(later.damaged)
        for key, location in later.answers.items():
            self.answers.setdefault(key, location)
        for run, writers in later.tallies.items():
            for writer, purposes in writers.items():
                for purpose, tally in purposes.items():
                    self.tally(run, writer, purpose).add(tally)
        for run, found in later.excesses.items():
            self.excesses.setdefault(run, {}).update(found)
        for writer, keys in later.void.items():
            self.void[writer] |= keys
        for call, run, writer, stage, model in later.ends:
            if call in self.open:
                self._end(self.tally(run, writer, (stage, model)), call)
            else:
                self.ends.append((call, run, writer, stage, model))
        self.open.update(later.open)

    def tally(self, run: str, writer: str, purpose: Purpose) -> Tally:
        """The tally to enter into."""
        return self.tallies.setdefault(run, {}).setdefault(writer, {}).setdefault(purpose, Tally())


def kept(record: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """What the books need of a record: answers are long."""
    return None if record is None else {name: record[name] for name in _KEPT if name in record}
