"""An index of the response log, local or in a bucket, that can be refreshed. Part of the store room."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from summhay_ray.store.drivers import is_closed, read_session
from summhay_ray.store.files import Files
from summhay_ray.store.log_books import Books, Excess, Purpose, Spent, Tally
from summhay_ray.store.log_follow import Lines, LogPosition, Segment, SessionNews, new_lines, new_segments
from summhay_ray.store.log_lines import Location, read_at, segment_number, writer_name, writer_of
from summhay_ray.store.packs import PackTotals, read_packs

Part = Lines | SessionNews | Segment | PackTotals


@dataclass(frozen=True, slots=True)
class Fetched:
    """What `LogIndex.fetch` has read, for `LogIndex.take`."""

    parts: tuple[Part, ...] = ()


@dataclass
class LogIndex:
    """What the log holds: where each key's answer is, and what each run has spent. `refresh` reads what is new.

    Reading a bucket takes time, so `refresh` can be done in two steps: `fetch` reads and changes nothing, and may run in
    another thread; `take` enters what was read. Entering the same records twice has no effect.
    """

    files: Files
    packs: bool = True
    """Whether packs are read; if not, the segments that they were made of, as far as these are still there."""
    _books: Books = field(default_factory=Books)
    _read_to: dict[str, int] = field(default_factory=dict)
    _position: LogPosition = field(default_factory=LogPosition)
    _packed: bool = False
    """Whether the packs have been read."""
    _known: dict[str, dict[str, dict[Purpose, Tally]]] = field(default_factory=dict)
    """Run -> writer -> purpose -> what is known to be settled, even if the log has lost the records."""

    @property
    def is_local(self) -> bool:
        """Whether the log is in a local folder, where records can be read as soon as they are appended."""
        return self.files.folder is not None

    @property
    def answers(self) -> dict[str, Location]:
        """Key -> location of its answer. A caller that learns of an answer before the log is read may add it."""
        return self._books.answers

    @property
    def damaged(self) -> int:
        """Number of damaged records."""
        return self._books.damaged.total()

    @property
    def damaged_files(self) -> Mapping[str, int]:
        """File -> number of its damaged records."""
        return self._books.damaged

    def know(self, run: str, spent: Spent) -> None:
        """Take in a run's spending from a commit. Where the log holds less, the commit's numbers are used."""
        self._known[run] = {
            writer: {purpose: replace(tally) for purpose, tally in tallies.items()} for writer, tallies in spent.items()
        }

    def settled(self, run: str, writer: str, purpose: Purpose, usd_micros: int, answers: int) -> None:
        """Take in that a call is settled, that is, that the log holds its end."""
        tally = self._known.setdefault(run, {}).setdefault(writer, {}).setdefault(purpose, Tally())
        tally.add(Tally(usd_micros, answers))

    def spent_of(self, run: str) -> dict[str, dict[Purpose, Tally]]:
        """Writer -> purpose -> the run's totals: those of the log, or those known from elsewhere if they are higher."""
        logged, known = self._books.tallies.get(run, {}), self._known.get(run, {})
        spent: dict[str, dict[Purpose, Tally]] = {writer: dict(tallies) for writer, tallies in logged.items()}
        for writer, tallies in known.items():
            of_writer = spent.setdefault(writer, {})
            for purpose, tally in tallies.items():
                of_writer[purpose] = of_writer.get(purpose, Tally()).at_least(tally)
        return spent

    def lacking(self, run: str) -> dict[str, Tally]:
        """Writer -> the run's known money and answers that the log has lost."""
        lost, is_over_of = {}, functools.cache(self._is_over)
        for writer, tallies in self.spent_of(run).items():
            logged = self._books.tallies.get(run, {}).get(writer, {})
            session = writer.partition("-")[0]
            total, is_over = Tally(), writer not in self._books.sealed and is_over_of(session)
            for purpose, tally in tallies.items():
                in_log = logged.get(purpose, Tally())
                settled = tally.settled_micros - in_log.settled_micros if is_over else 0
                answers = tally.answers - in_log.answers if is_over else 0
                total.add(Tally(max(settled, tally.usd_micros - in_log.usd_micros), answers))
            if total.usd_micros or total.answers:
                lost[writer] = total
        return lost

    def _is_over(self, session: str) -> bool:
        """Whether the store should have every record that the session's writers wrote, apart from sealed ones.

        In a bucket, records may still be on their way, or lost with the machine of a sealed writer, whose allowance covers them.
        """
        if self.is_local or not session.isdigit():
            return True
        # The record of an ended session may have been cleaned away.
        return is_closed(self.files, int(session)) or read_session(self.files, int(session)) is None

    def refresh(self, but: Collection[str] = ()) -> None:
        """Read what was appended since the last refresh, except by the writers `but`, which a later refresh reads."""
        for part in self._new(frozenset(but)):
            self.take(Fetched((part,)))

    def fetch(self, but: Collection[str] = ()) -> Fetched:
        """Read what `refresh` would read, without changing the index. Raises StoreError or OSError if the store is unreadable."""
        return Fetched(tuple(self._new(frozenset(but))))

    def take(self, fetched: Fetched) -> None:
        """Enter what `fetch` read."""
        for part in fetched.parts:
            if isinstance(part, Lines):
                if self._read_to.get(part.name, 0) == part.start:
                    self._read_to[part.name] = part.end
                    for location, record in part.entries:
                        self._books.take(location, record)
            elif isinstance(part, SessionNews):
                self._position.enter(part)
            elif isinstance(part, Segment):
                self._segment(part)
            elif not self._packed:
                self._packed = True
                self._books.merge(part.books)
                self._position = LogPosition(part.through, part.others)

    def _new(self, but: frozenset[str]) -> Iterator[Part]:
        if self.files.folder is not None:
            yield from new_lines(self.files.folder, dict(self._read_to), but)
            return
        position = self._position
        if self.packs and not self._packed:
            packed = read_packs(self.files)
            yield packed
            position = LogPosition(packed.through, packed.others)
        yield from new_segments(self.files, position, but)

    def _segment(self, segment: Segment) -> None:
        if self._position.take(segment):
            self._books.segment(writer_name(*segment.seat, segment.incarnation), segment.entries, segment.mark)

    def forget_unshipped(self, writer: str) -> None:
        """Drop a writer's answers that are in none of the segments read so far: they were lost with its machine."""
        place, _, incarnation = writer.rpartition("-")
        session, _, seat_name = place.partition("-")
        seat = self._position.seats.get((int(session), seat_name)) if session.isdigit() and incarnation.isdigit() else None
        if self.is_local or seat is None:
            return
        read_to = seat.going.get(int(incarnation), seat.ended.get(int(incarnation), 0))
        for key, location in list(self.answers.items()):
            if writer_of(location.name) == writer and (segment_number(location.name) or 0) >= read_to:
                del self.answers[key]

    def spent(self, run: str) -> int:
        """What counts against the run's budget, in micro-dollars: actual prices, worst prices of calls without a recorded end,
        and allowances of writers."""
        return sum(tally.usd_micros for tally in self.tallies(run).values())

    def spent_by(self, run: str) -> dict[str, dict[Purpose, int]]:
        """The run's spending in micro-dollars by writer and purpose."""
        spent = self.spent_of(run)
        return {name: {purpose: tally.usd_micros for purpose, tally in tallies.items()} for name, tallies in spent.items()}

    def tallies(self, run: str) -> dict[Purpose, Tally]:
        """Purpose -> the run's totals over all writers."""
        totals: dict[Purpose, Tally] = {}
        for tallies in self.spent_of(run).values():
            for purpose, tally in tallies.items():
                totals.setdefault(purpose, Tally()).add(tally)
        return totals

    def excesses(self, run: str) -> Mapping[str, Excess]:
        """Key -> the excess usage, for the run's answers whose claimed usage exceeds their reservation."""
        return self._books.excesses.get(run, {})

    def unanswered(self, writer: str) -> set[str]:
        """The keys of a writer's calls that ended without an answer (void) or have no recorded end."""
        return {call.key for call in self._books.open.values() if call.writer == writer} | self._books.void.get(writer, set())

    def read(self, key: str) -> dict[str, Any] | None:
        """The answer record of a key, or None if it has no answer."""
        location = self.answers.get(key)
        return None if location is None else read_at(self.files, location)
