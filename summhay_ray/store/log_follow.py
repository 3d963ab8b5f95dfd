"""Reads what is new in the response log: of a folder's files where each was left, of a bucket's chains from their last number.

Part of the store room. In a bucket: sessions by number, their seats from the driver's record, the writers of a seat by
incarnation, a writer's segments by number. Each ends where the next number is missing; a writer that has ended and a session that
is over are never looked at again. Reading changes nothing that is known: `Reading` is taken in by the index.
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
    Entry,
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
"""Seats that are read at the same time."""


@dataclass(frozen=True, slots=True)
class Lines:
    """New records of a file in a folder, from one byte to another."""

    name: str
    start: int
    end: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """A writer's next segment."""

    seat: tuple[int, str]
    incarnation: int
    number: int
    entries: tuple[Entry, ...]
    mark: Mark | None
    """None where it is damaged."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A session and its seats; `over`: nothing more can come from it."""

    session: int
    seats: tuple[str, ...] = ()
    over: bool = False


@dataclass
class Seat:
    """What is known of a seat: its writers that have not ended (incarnation -> next segment), and how many there were."""

    n: int = 0
    going: dict[int, int] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    """Incarnation that has ended -> the first number that holds no record of it."""
    closed: bool = False

    def take(self, segment: Segment) -> bool:
        """See `Chains.take`."""
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
class Chains:
    """How far a bucket's log was read."""

    session: int = 0
    """All up to this one are known."""
    packed: frozenset[int] = frozenset()
    """Later ones that need not be read: others than these hold what they wrote."""
    seats: dict[tuple[int, str], Seat] = field(default_factory=dict)
    """Those of sessions that are not over."""

    def begin(self, begun: Begun) -> None:
        """Enter a session, or that it is over."""
        self.session = max(self.session, begun.session)
        for name in begun.seats:
            if begun.over:
                self.seats.pop((begun.session, name), None)
            else:
                self.seats.setdefault((begun.session, name), Seat())

    def take(self, segment: Segment) -> bool:
        """Enter a segment; False where it was entered before."""
        seat = self.seats.get(segment.seat)
        return seat is not None and seat.take(segment)


def new_lines(folder: Path, read_to: dict[str, int], but: Collection[str]) -> Iterator[Lines]:
    """What was appended in a folder, some thousand lines at a time. A line without its end is left for the next reading."""
    for path in sorted((folder / FOLDER).glob("*.jsonl")):
        name = f"{FOLDER}/{path.name}"
        if writer_of(name) in but or path.name.startswith("."):
            continue
        offset = start = read_to.get(name, 0)
        if path.stat().st_size <= offset:
            continue
        entries: list[Entry] = []
        with path.open("rb") as stream:
            stream.seek(offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                for begin, end, record in records_of(line):
                    entries.append((Location(name, offset + begin, end - begin), kept(record)))
                offset += len(line)
                if len(entries) >= ENTRIES:
                    yield Lines(name, start, offset, tuple(entries))
                    start, entries = offset, []
        if offset > start:
            yield Lines(name, start, offset, tuple(entries))


def new_segments(files: Files, chains: Chains, but: Collection[str]) -> Iterator[Begun | Segment]:
    """What was created in a bucket, in the order in which it is to be entered."""
    records = list(sessions(files, chains.session))
    fresh = [Begun(one.number, () if one.number in chains.packed else tuple(one.seat_names())) for one in records]
    seats = {**chains.seats, **{(begun.session, name): Seat() for begun in fresh for name in begun.seats}}
    states = {place: Seat(seat.n, dict(seat.going), {}, seat.closed) for place, seat in seats.items()}
    numbers = {place[0] for place in states}
    # Asked before their segments are read: what is written between the two would be passed over for ever.
    ended = {number for number in numbers if number < max(numbers) and has_ended(files, number)}
    yield from fresh
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for read in pool.map(lambda place: list(_of_seat(files, place, states[place], but)), sorted(states)):
            yield from read
    unread = {int(writer[:8]) for writer in but if writer[:8].isdigit()}
    for number in sorted(numbers - unread):
        mine = {place[1]: seat for place, seat in states.items() if place[0] == number}
        if not any(seat.going for seat in mine.values()) and (number in ended or all(seat.closed for seat in mine.values())):
            yield Begun(number, tuple(mine), over=True)


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
        # Who begins after one that is known to live sits in its seat: there is nobody yet.
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
        entries = [(location, kept(record)) for location, record in entries_of(name, content[:end])]
        yield Segment(place, incarnation, number, tuple(entries), mark)
        if mark is not None and mark.end:
            return
        number += 1
