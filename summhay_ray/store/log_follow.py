"""Reads what is new in the response log. Part of the store room.

In a folder, each file is read on from where the last reading stopped. In a bucket, four levels of numbered names are followed:
sessions by number, their seats (from the driver's record), the writers of a seat by incarnation, and the segments of a writer by
number. Each level ends at the first missing number; ended writers and sessions are not read again. Reading changes no state: the
index (`log_index`) takes in what was read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from summhay_ray.store.drivers import has_ended, sessions
from summhay_ray.store.files import Files
from summhay_ray.store.log_books import kept
from summhay_ray.store.log_lines import (
    FOLDER,
    LocatedRecord,
    Location,
    Mark,
    entries_of,
    mark_of,
    records_of,
    segment_name,
    writer_name,
    writer_of,
)

ENTRIES = 4096
AT_ONCE = 16
"""Number of seats that are read in parallel."""


@dataclass(frozen=True, slots=True)
class Lines:
    """New records of one log file in a folder: those in the bytes from `start` to `end`."""

    name: str
    start: int
    end: int
    entries: tuple[LocatedRecord, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """The next segment of a writer in a bucket."""

    seat: tuple[int, str]
    incarnation: int
    number: int
    entries: tuple[LocatedRecord, ...]
    mark: Mark | None
    """None if it is damaged."""


@dataclass(frozen=True, slots=True)
class SessionNews:
    """A driver session and its seats. `over`: it will write nothing more."""

    session: int
    seats: tuple[str, ...] = ()
    over: bool = False


@dataclass
class Seat:
    """What is known of a seat and the writers that have held it."""

    n: int = 0
    """Number of writers so far."""
    going: dict[int, int] = field(default_factory=dict)
    """Incarnation of a writer that has not ended -> number of its next segment."""
    ended: dict[int, int] = field(default_factory=dict)
    """Incarnation of a writer that has ended -> the first segment number that holds none of its records."""
    closed: bool = False
    """Whether no further writer can take the seat."""

    def take(self, segment: Segment) -> bool:
        """See `LogPosition.take`."""
        incarnation, number, mark = segment.incarnation, segment.number, segment.mark
        if number != (0 if incarnation == self.n else self.going.get(incarnation)):
            return False
        self.n = max(self.n, incarnation + 1)
        self.going[incarnation] = number + 1
        if mark is not None and mark.end:
            del self.going[incarnation]
            self.ended[incarnation] = number if mark.sealed else number + 1
            self.closed = self.closed or mark.closed
        return True


@dataclass
class LogPosition:
    """How far a bucket's log has been read."""

    session: int = 0
    """All sessions up to this number are known."""
    packed: frozenset[int] = frozenset()
    """Later sessions that need not be read because packs hold their records."""
    seats: dict[tuple[int, str], Seat] = field(default_factory=dict)
    """(session, seat name) -> seat, for the sessions that are not over."""

    def enter(self, news: SessionNews) -> None:
        """Enter a new session, or the end of a known one."""
        self.session = max(self.session, news.session)
        for name in news.seats:
            if news.over:
                self.seats.pop((news.session, name), None)
            else:
                self.seats.setdefault((news.session, name), Seat())

    def take(self, segment: Segment) -> bool:
        """Enter a segment. Return False if it was entered before or is not the next one."""
        seat = self.seats.get(segment.seat)
        return seat is not None and seat.take(segment)


def new_lines(folder: Path, read_to: dict[str, int], but: Collection[str]) -> Iterator[Lines]:
    """What was appended in a folder, some thousand lines at a time, except by the writers `but`.

    `read_to`: file -> the byte where the last reading stopped. An unfinished line is left for the next reading.
    """
    for path in sorted((folder / FOLDER).glob("*.jsonl")):
        name = f"{FOLDER}/{path.name}"
        if writer_of(name) in but or path.name.startswith("."):
            continue
        offset = start = read_to.get(name, 0)
        if path.stat().st_size <= offset:
            continue
        entries: list[LocatedRecord] = []
        with path.open("rb") as stream:
            stream.seek(offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                for begin, end, record in records_of(line):
                    location = Location(name, offset + begin, end - begin)
                    entries.append((location, kept(location, record)))
                offset += len(line)
                if len(entries) >= ENTRIES:
                    yield Lines(name, start, offset, tuple(entries))
                    start, entries = offset, []
        if offset > start:
            yield Lines(name, start, offset, tuple(entries))


def new_segments(files: Files, position: LogPosition, but: Collection[str]) -> Iterator[SessionNews | Segment]:
    """The new sessions and segments of a bucket in the order to enter them, except those of the writers `but`."""
    records = sessions(files, position.session)
    fresh = [
        SessionNews(record.number, () if record.number in position.packed else tuple(record.seat_names())) for record in records
    ]
    seats = {**position.seats, **{(begun.session, name): Seat() for begun in fresh for name in begun.seats}}
    states = {place: Seat(seat.n, dict(seat.going), {}, seat.closed) for place, seat in seats.items()}
    numbers = {place[0] for place in states}
    # Checked before the segments are read: a segment written between the two steps would otherwise be missed for ever.
    ended = {number for number in numbers if number < max(numbers) and has_ended(files, number)}
    yield from fresh
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for read in pool.map(lambda place: list(_of_seat(files, place, states[place], but)), sorted(states)):
            yield from read
    unread = {int(writer[:8]) for writer in but if writer[:8].isdigit()}
    for number in sorted(numbers - unread):
        mine = {place[1]: seat for place, seat in states.items() if place[0] == number}
        if not any(seat.going for seat in mine.values()) and (number in ended or all(seat.closed for seat in mine.values())):
            yield SessionNews(number, tuple(mine), over=True)


def _of_seat(files: Files, place: tuple[int, str], seat: Seat, but: Collection[str]) -> Iterator[Segment]:
    incarnation = min(seat.going, default=seat.n)
    while incarnation < seat.n or not seat.closed:
        writer = writer_name(*place, incarnation)
        if incarnation < seat.n and incarnation not in seat.going:
            incarnation += 1
            continue
        if writer not in but:
            for segment in _of_writer(files, place, incarnation, seat.going.get(incarnation, 0)):
                seat.take(segment)
                yield segment
        # No writer can follow one that has not ended, so there is none to look for yet.
        if incarnation >= seat.n or (writer in but and incarnation == seat.n - 1):
            return
        incarnation += 1


def _of_writer(files: Files, place: tuple[int, str], incarnation: int, number: int) -> Iterator[Segment]:
    writer = writer_name(*place, incarnation)
    while True:
        name = segment_name(writer, number)
        try:
            content = files.read(name)
        except FileNotFoundError:
            return
        end, mark = mark_of(content)
        entries = [(location, kept(location, record)) for location, record in entries_of(name, content[:end])]
        yield Segment(place, incarnation, number, tuple(entries), mark)
        if mark is not None and mark.end:
            return
        number += 1
