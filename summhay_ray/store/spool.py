"""The writer of the response log in a bucket: to a local file first, from there to the store. Part of the store room.

A thread ships the waiting records as one segment when there are 64 of them or the oldest is two seconds old. The budget holds
even if this machine is lost: each segment states an allowance, an upper bound on what calls that no segment records yet may
cost. An intent beyond the allowance is shipped before `append` returns, and so before its call is sent.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from summhay_ray.store.errors import StoreError, StoreUnavailable
from summhay_ray.store.files import Files, sync_folder
from summhay_ray.store.log_lines import Location, Mark, decode, encode, mark_of, segment_name, writer_name
from summhay_ray.store.spool_folder import Evicted, Held, begin, write_all

RECORDS = 64
AGE_S = 2.0
AHEAD = 32
"""For each purpose, the allowance is this many times the worst price of a call so far."""

PAUSE_S = 1.0
PATIENCE_S = 600.0
"""How long an intent beyond the allowance waits for the store; then `append` raises the store's error."""

Purposes = Counter[tuple[str, str, str]]
"""(run, stage, model) -> micro-dollars."""


@dataclass
class _Part:
    """A segment that is not shipped yet, and the local file that holds its records."""

    number: int
    path: Path
    descriptor: int | None = None
    size: int = 0
    n: int = 0
    since: float = 0.0
    intents: Purposes = field(default_factory=Counter)
    mark: Mark | None = None
    """Set once, when shipping begins: a retry must write the same bytes."""

    def shut(self) -> None:
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None


class SpoolWriter:
    """The log writer for a bucket; see `Writer`. `unshipped`, `flush` and `close` may be called from other threads."""

    def __init__(self, files: Files, session: int, seat: str) -> None:
        self._files = files
        self._held = _take_seat(files, session, seat)
        self.writer = self._held.writer
        self._changed = threading.Condition()
        self._part: _Part | None = None
        self._waiting: list[_Part] = []
        """Full parts in order; the first is being shipped."""
        self._next = 1
        self._shipped = 0
        self._worst: Purposes = Counter()
        self._allowed: Purposes = Counter()
        """The allowance in the newest segment that the store has."""
        self._wanted = 0
        """All segments below this number are to be shipped at once."""
        self._failures = 0
        self._problem: StoreError | OSError | None = None
        self._evicted = False
        self._closing = self._ended = self._done = False
        self._thread = threading.Thread(target=self._run, name=f"ship {self.writer}", daemon=True)
        self._thread.start()

    def append(self, records: Sequence[Mapping[str, Any]]) -> list[Location]:
        """See `Writer`. Waits for the store if the records hold intents beyond the allowance."""
        lines = [encode(record) for record in records]
        with self._changed:
            self._check()
            if not lines:
                return []
            part = self._part or self._begin()
            locations = self._write(part, lines)
            intents = [record for record in records if record.get("kind") == "intent" and record.get("usd_micros")]
            for record in intents:
                purpose = (record["run"], record.get("stage", ""), record.get("model", ""))
                part.intents[purpose] += record["usd_micros"]
                self._worst[purpose] = max(self._worst[purpose], record["usd_micros"])
            # An answer never waits: once it is on this disk, waiting makes it no safer.
            if intents and self._over():
                self._want(part.number + 1)
                self._wait(lambda: not self._over(), time.monotonic() + PATIENCE_S)
            elif part.n >= RECORDS or part.n == len(lines) or self._over(2):
                self._changed.notify_all()
        return locations

    def flush(self) -> None:
        """See `Writer`."""
        with self._changed:
            target = self._next
            self._want(target)
            self._wait(lambda: self._done or self._shipped + 1 >= target)

    def unshipped(self, location: Location) -> dict[str, Any] | None:
        """See `Writer`."""
        with self._changed:
            part = next((part for part in self._parts() if segment_name(self.writer, part.number) == location.name), None)
        if part is None or location.offset + location.length > part.size:
            return None
        try:
            with part.path.open("rb") as stream:
                stream.seek(location.offset)
                return decode(stream.read(location.length))
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """See `Writer`. If it raises, the rest is left for a sweep to ship."""
        with self._changed:
            if self._ended:
                return
            self._closing = True
            self._changed.notify_all()
            try:
                self._wait(lambda: self._done)
            finally:
                self._ended = True
                self._changed.notify_all()
        self._thread.join()

    def _check(self) -> None:
        if self._evicted:
            raise Evicted(f"log writer {self.writer} was ended by another; nothing that it wrote since then is read")
        if self._closing:
            raise ValueError(f"log writer {self.writer} is closed")

    def _parts(self) -> list[_Part]:
        return [*self._waiting, *([self._part] if self._part else [])]

    def _begin(self) -> _Part:
        path = self._held.part(self._next)
        # A file of this number can only be an abandoned one without a valid record.
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        sync_folder(path.parent)
        self._part = _Part(self._next, path, descriptor)
        self._next += 1
        return self._part

    def _write(self, part: _Part, lines: Sequence[bytes]) -> list[Location]:
        assert part.descriptor is not None
        whole = False
        try:
            write_all(part.descriptor, b"".join(lines))
            os.fsync(part.descriptor)
            whole = True
        finally:
            if not whole:
                self._break_off(part)
        name, locations = segment_name(self.writer, part.number), []
        part.since = part.since or time.monotonic()
        part.n += len(lines)
        for line in lines:
            locations.append(Location(name, part.size, len(line)))
            part.size += len(line)
        return locations

    def _break_off(self, part: _Part) -> None:
        """Cut off an incomplete record and close the file; the next append begins another."""
        assert part.descriptor is not None
        with contextlib.suppress(OSError):
            os.ftruncate(part.descriptor, part.size)
        part.shut()
        self._part = None
        if part.size:
            self._waiting.append(part)
            self._changed.notify_all()
        else:
            self._next = part.number

    def _over(self, times: int = 1) -> bool:
        """Whether the unshipped intents exceed the allowance (with `times` 2: half of it).

        Worst prices only grow, so the next segment's allowance is never smaller: intents that pass here stay within it too.
        """
        spent: Purposes = Counter()
        for part in self._parts():
            spent.update(part.intents)
        return any(times * micros > self._allowed[purpose] for purpose, micros in spent.items())

    def _want(self, number: int) -> None:
        self._wanted = max(self._wanted, number)
        self._changed.notify_all()

    def _wait(self, done: Callable[[], bool], until: float | None = None) -> None:
        """Wait for `done`. Raises the error of a failed shipment at once, or only after `until` if the error may pass."""
        failures = self._failures
        while not done():
            if self._evicted:
                self._check()
            if self._ended and self._problem is not None:
                raise self._problem
            passing = self._problem is None or isinstance(self._problem, StoreUnavailable | OSError)
            patient = passing and until is not None and time.monotonic() < until
            if self._failures > failures and not patient and self._problem is not None:
                raise self._problem
            self._changed.wait(PAUSE_S)

    def _run(self) -> None:
        try:
            while (part := self._due()) is not None:
                try:
                    self._ship(part)
                except (StoreError, OSError) as problem:
                    with self._changed:
                        self._problem, self._evicted = problem, isinstance(problem, Evicted)
                        self._failures += 1
                        self._changed.notify_all()
                        if self._evicted:
                            break
                        self._changed.wait_for(lambda: self._ended, PAUSE_S)
        finally:
            self._give_back()

    def _give_back(self) -> None:
        with self._changed:
            for part in self._parts():
                part.shut()
            if self._done:
                self._held.remove()
            else:
                self._held.release()

    def _due(self) -> _Part | None:
        """Wait for the next part to ship and return it with its mark set; None if there will be no more."""
        with self._changed:
            while not self._ended:
                part = self._part
                age_s = time.monotonic() - part.since if part else 0.0
                if part and (part.n >= RECORDS or age_s >= AGE_S or part.number < self._wanted or self._closing or self._over(2)):
                    part.shut()
                    self._part = None
                    self._waiting.append(part)
                if self._closing and not self._parts():
                    self._waiting.append(_Part(self._next, self._held.part(self._next)))
                    self._next += 1
                if self._waiting:
                    return self._marked(self._waiting[0])
                self._changed.wait(None if part is None else AGE_S - age_s)
            return None

    def _marked(self, part: _Part) -> _Part:
        if part.mark is None:
            end = self._closing and len(self._parts()) == 1
            worst = [] if end else sorted(self._worst.items())
            part.mark = Mark(part.number, tuple((*purpose, AHEAD * micros) for purpose, micros in worst), end)
        return part

    def _ship(self, part: _Part) -> None:
        assert part.mark is not None
        records = b""
        if part.size:
            with part.path.open("rb") as stream:
                records = stream.read(part.size)
        name, content = segment_name(self.writer, part.number), records + part.mark.line()
        if not self._files.create(name, content) and self._files.read(name) != content:
            raise Evicted(f"log writer {self.writer}: {name} is another's; this one was taken for dead")
        with self._changed:
            self._waiting.remove(part)
            self._shipped, self._allowed = part.number, _purposes(part.mark)
            if part.mark.end:
                self._ended = self._done = True
            self._changed.notify_all()
        part.path.unlink(missing_ok=True)


def _take_seat(files: Files, session: int, seat: str) -> Held:
    """Take the first free writer name of the seat by writing its first segment. Raises Evicted if the seat is closed."""
    for incarnation in itertools.count():
        held = begin(files, writer_name(session, seat, incarnation))
        try:
            name = segment_name(held.writer, 0)
            if files.create(name, Mark(0, owner=held.token).line()):
                return held
            mark = mark_of(files.read(name))[1]
        except BaseException:
            held.release()
            raise
        held.remove()
        if mark is not None and mark.closed:
            raise Evicted(
                f"seat {seat} of session {session} is closed: its driver was taken for dead; nothing more is written in it"
            )
    raise AssertionError


def _purposes(mark: Mark) -> Purposes:
    return Counter({(run, stage, model): micros for run, stage, model, micros in mark.allowance})
