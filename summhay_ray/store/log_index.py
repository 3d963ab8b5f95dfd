"""What the response log holds, near or far, kept up to date. Part of the store room."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from summhay_ray.store.drivers import has_ended
from summhay_ray.store.files import Files
from summhay_ray.store.log_books import Books, Excess, Purpose, Spent, Tally
from summhay_ray.store.log_follow import Begun, Chains, Lines, Segment, new_lines, new_segments
from summhay_ray.store.log_lines import Location, read_at, segment_number, writer_name, writer_of
from summhay_ray.store.packs import Packed, read_packs

Part = Lines | Begun | Segment | Packed


@dataclass(frozen=True, slots=True)
class Fetched:
    """What `LogIndex.fetch` read and `take` takes in."""

    parts: tuple[Part, ...] = ()


@dataclass
class LogIndex:
    """What the log holds: where each key's answer is, and what each run has spent. `refresh` reads what is new.

    Reading a store far away takes its time: `fetch` reads, in another thread if need be, and changes nothing; `take` takes it
    in. What was taken before is passed over.
    """

    files: Files
    _books: Books = field(default_factory=Books)
    _read_to: dict[str, int] = field(default_factory=dict)
    _chains: Chains = field(default_factory=Chains)
    _packed: bool = False
    _known: dict[str, dict[str, dict[Purpose, Tally]]] = field(default_factory=dict)
    """Run -> writer -> purpose: what is known to be settled, whether the log still tells of it or not."""

    @property
    def near(self) -> bool:
        """Whether the log is read where it is appended, at once."""
        return self.files.folder is not None

    @property
    def answers(self) -> dict[str, Location]:
        """Key -> where its answer stands. Who learns of an answer before the log tells of it may enter it."""
        return self._books.answers

    @property
    def damaged(self) -> int:
        """How many records could not be read."""
        return self._books.damaged.total()

    @property
    def damaged_files(self) -> Mapping[str, int]:
        """File -> how many of its records could not be read."""
        return self._books.damaged

    def know(self, run: str, spent: Spent) -> None:
        """Take in what a commit tells of the run's money: where the log tells less, that counts."""
        self._known[run] = {writer: {one: replace(tally) for one, tally in rows.items()} for writer, rows in spent.items()}

    def settled(self, run: str, writer: str, purpose: Purpose, usd_micros: int, answers: int) -> None:
        """Take in that a call is settled: its end is in the log."""
        tally = self._known.setdefault(run, {}).setdefault(writer, {}).setdefault(purpose, Tally())
        tally.add(Tally(usd_micros, answers))

    def spent_of(self, run: str) -> dict[str, dict[Purpose, Tally]]:
        """Writer -> purpose -> what the run's calls came to: as the log tells it, or as it is known where that is more."""
        written, known = self._books.tallies.get(run, {}), self._known.get(run, {})
        found: dict[str, dict[Purpose, Tally]] = {writer: dict(tallies) for writer, tallies in written.items()}
        for writer, tallies in known.items():
            mine = found.setdefault(writer, {})
            for purpose, tally in tallies.items():
                mine[purpose] = mine.get(purpose, Tally()).at_least(tally)
        return found

    def lacking(self, run: str) -> dict[str, Tally]:
        """Writer -> the money and the answers of the run that are known and that the log does not tell of any more."""
        found = {}
        for writer, tallies in self.spent_of(run).items():
            written = self._books.tallies.get(run, {}).get(writer, {})
            lacks, is_over = Tally(), self._is_over(writer)
            for purpose, tally in tallies.items():
                told = written.get(purpose, Tally())
                ends = tally.settled_micros - told.settled_micros if is_over else 0
                lacks.add(Tally(max(ends, tally.usd_micros - told.usd_micros), tally.answers - told.answers if is_over else 0))
            if lacks.usd_micros or lacks.answers:
                found[writer] = lacks
        return found

    def _is_over(self, writer: str) -> bool:
        """Whether the store has all that the writer will ever bring: far away answers may be on their way."""
        session = writer.partition("-")[0]
        return self.near or not session.isdigit() or has_ended(self.files, int(session))

    def refresh(self, but: Collection[str] = ()) -> None:
        """Read what the writers appended since the last refresh, `but` for some of them (a later refresh reads them)."""
        for part in self._new(frozenset(but)):
            self.take(Fetched((part,)))

    def fetch(self, but: Collection[str] = ()) -> Fetched:
        """Read the same, and change nothing. Raises StoreError, OSError where the store cannot be read."""
        return Fetched(tuple(self._new(frozenset(but))))

    def take(self, fetched: Fetched) -> None:
        """Take in what was read."""
        for part in fetched.parts:
            if isinstance(part, Lines):
                if self._read_to.get(part.name, 0) == part.start:
                    self._read_to[part.name] = part.end
                    for location, record in part.entries:
                        self._books.take(location, record)
            elif isinstance(part, Begun):
                self._chains.begin(part)
            elif isinstance(part, Segment):
                self._segment(part)
            elif not self._packed:
                self._packed = True
                self._books.merge(part.books)
                self._chains = Chains(part.through, part.others)

    def _new(self, but: frozenset[str]) -> Iterator[Part]:
        if self.files.folder is not None:
            yield from new_lines(self.files.folder, dict(self._read_to), but)
            return
        chains = self._chains
        if not self._packed:
            packed = read_packs(self.files)
            yield packed
            chains = Chains(packed.through, packed.others)
        yield from new_segments(self.files, chains, but)

    def _segment(self, segment: Segment) -> None:
        if self._chains.take(segment):
            self._books.segment(writer_name(*segment.seat, segment.incarnation), segment.entries, segment.mark)

    def forget_unshipped(self, writer: str) -> None:
        """Drop answers of a writer that no segment read so far holds: those that were lost with its machine."""
        place, _, incarnation = writer.rpartition("-")
        session, _, seat_name = place.partition("-")
        seat = self._chains.seats.get((int(session), seat_name)) if session.isdigit() and incarnation.isdigit() else None
        if self.near or seat is None:
            return
        read_to = seat.going.get(int(incarnation), seat.ended.get(int(incarnation), 0))
        for key, location in list(self.answers.items()):
            if writer_of(location.name) == writer and (segment_number(location.name) or 0) >= read_to:
                del self.answers[key]

    def spent(self, run: str) -> int:
        """Micro-dollars of the run: real prices, the worst price of calls whose end no record tells, what may be on its way."""
        return sum(tally.usd_micros for tally in self.tallies(run).values())

    def untold(self, run: str) -> int:
        """Of these, what writers that have not ended may have spent since their last segment: far away alone."""
        told = self.spent_of(run)
        return sum(
            min(micros, told[writer][stage, model].open_micros)
            for writer, charges in self._books.allowed.items()
            for one, stage, model, micros in charges
            if one == run
        )

    def spent_by(self, run: str) -> dict[str, dict[Purpose, int]]:
        """The same for each writer and purpose."""
        told = self.spent_of(run)
        return {name: {purpose: tally.usd_micros for purpose, tally in tallies.items()} for name, tallies in told.items()}

    def tallies(self, run: str) -> dict[Purpose, Tally]:
        """Purpose -> what the run's calls came to, over all writers."""
        found: dict[Purpose, Tally] = {}
        for tallies in self.spent_of(run).values():
            for purpose, tally in tallies.items():
                found.setdefault(purpose, Tally()).add(tally)
        return found

    def excesses(self, run: str) -> Mapping[str, Excess]:
        """Key -> the usage above what was reserved for its call, for the run's answers that claim so much."""
        return self._books.excesses.get(run, {})

    def unanswered(self, writer: str) -> set[str]:
        """The keys of a writer's calls that cost money and that no answer ends: void, or with no end at all."""
        return {one.key for one in self._books.open.values() if one.writer == writer} | self._books.void.get(writer, set())

    def read(self, key: str) -> dict[str, Any] | None:
        """The answer record of a key, or None."""
        location = self.answers.get(key)
        return None if location is None else read_at(self.files, location)

    def has(self, keys: Iterable[str]) -> int:
        """How many of the keys have an answer."""
        return sum(key in self.answers for key in keys)
