"""Ends dead log writers of a bucket. Part of the store room.

`sweep` ships the records that they left in this machine's spool; `seal` ends those whose machine cannot be reached.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from summhay_ray.store.drivers import mark_closed, read_session, record_death
from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.log_lines import Charge, Mark, entries_of, intact_length, mark_of, segment_name, writer_name
from summhay_ray.store.spool_folder import Held, hold, left_behind

LOOK_S = 0.05
AT_ONCE = 16
"""Number of seats that are closed in parallel."""


def sweep(files: Files, patience_s: float = 5.0, awaited: Collection[str] | None = None) -> list[str]:
    """Ship the records that dead writers of this machine left for this store, end the writers, and return their names.

    A writer whose lock is still held may be dying: it is waited for up to `patience_s` if it is in `awaited` (None: every
    writer is). Several sweeps may run at once. Raises StoreError or OSError; the rest is then left for the next sweep.
    """
    if files.folder is not None:
        return []
    swept: list[str] = []
    until = time.monotonic() + patience_s
    while True:
        n_held = 0
        for writer, folder in left_behind(files):
            try:
                held = hold(writer, folder)
            except FileNotFoundError:
                continue
            if held is None:
                n_held += awaited is None or writer in awaited
            elif _ship_all(files, held):
                swept.append(writer)
        if not n_held or time.monotonic() >= until:
            return swept
        time.sleep(LOOK_S)


def seal(files: Files, writer: str) -> None:
    """End a writer whose machine cannot be reached; what it may have spent since its last segment stays charged.

    If the writer is still alive, it finds the number of its next segment taken and writes nothing more.
    """
    if files.folder is not None:
        return
    number = free_number(files, writer)
    while number:
        marks = (read_mark(files, writer, earlier) for earlier in range(number - 1, -1, -1))
        mark = next((mark for mark in marks if mark is not None), Mark(0))
        if mark.end:
            return
        if files.create(segment_name(writer, number), Mark(number, mark.allowance, end=True, sealed=True).line()):
            return
        number = free_number(files, writer, number)


def seal_rest(files: Files, session: int) -> None:
    """End every writer of an ended session and close its seats, so that no new writer can begin in them."""
    if files.folder is not None:
        return
    record = read_session(files, session)
    if record is None:
        raise StoreError(f"{files.uri}: no driver of number {session} ever began; nothing to end")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda seat: close_seat(files, session, seat), record.seat_names()))
    record_death(files, session)
    mark_closed(files, session)


def close_seat(files: Files, session: int, seat: str) -> None:
    """End the writers that have held the seat, and mark its next writer name as closed."""
    incarnation = 0
    while True:
        writer = writer_name(session, seat, incarnation)
        if files.create(segment_name(writer, 0), Mark(0, end=True, closed=True).line()):
            return
        mark = read_mark(files, writer, 0)
        if mark is not None and mark.closed:
            return
        seal(files, writer)
        incarnation += 1


def free_number(files: Files, writer: str, known: int = 0) -> int:
    """The first free segment number at or after `known`; numbers have no gaps."""

    def taken(number: int) -> bool:
        return files.exists(segment_name(writer, number))

    step, free = 1, known
    while taken(free + step - 1):
        free, step = free + step, step * 2
    while step > 1:
        step //= 2
        if taken(free + step - 1):
            free += step
    return free


def read_mark(files: Files, writer: str, number: int) -> Mark | None:
    """The mark of a segment; None if it is damaged."""
    return mark_of(files.read(segment_name(writer, number)))[1]


def _ship_all(files: Files, held: Held) -> bool:
    """Ship a dead writer's records and end it. Return False if it never began or another process has ended it."""
    done = False
    try:
        done = _owns(files, held) and _ship_parts(files, held)
    except BaseException:
        held.release()
        raise
    held.remove()
    return done


def _owns(files: Files, held: Held) -> bool:
    """Whether the writer of this folder won the name, and not another writer that was quicker."""
    try:
        mark = read_mark(files, held.writer, 0)
    except FileNotFoundError:
        return False
    # If the first segment is damaged, the owner is unknown; but a folder with records belongs to a writer that had begun.
    return bool(held.parts()) if mark is None else mark.owner == held.token


def _ship_parts(files: Files, held: Held) -> bool:
    parts = {number: path.read_bytes() for number, path in held.parts().items()}
    parts = {number: content[: intact_length(content)] for number, content in parts.items()}
    # A file without a complete record gets no segment: its writer would have reused the number.
    parts = {number: content for number, content in parts.items() if content}
    for number, content in parts.items():
        later = [rest for following, rest in parts.items() if following > number]
        mark = Mark(number, _intents(later), end=not later)
        if not files.create(segment_name(held.writer, number), content + mark.line()):
            there = read_mark(files, held.writer, number)
            if there is not None and there.sealed:
                return False
            if there is not None and there.end:
                return True
        elif mark.end:
            return True
    number = free_number(files, held.writer, max(parts, default=0) + 1)
    while True:
        last = read_mark(files, held.writer, number - 1)
        if last is not None and last.end:
            return not last.sealed
        if files.create(segment_name(held.writer, number), Mark(number, end=True).line()):
            return True
        number = free_number(files, held.writer, number)


def _intents(contents: list[bytes]) -> tuple[Charge, ...]:
    """The sum of the intents in files that are not shipped yet, by run, stage and model."""
    charges: Counter[tuple[str, str, str]] = Counter()
    for content in contents:
        for _, record in entries_of("", content):
            if record is not None and record.get("kind") == "intent":
                charges[record["run"], record.get("stage", ""), record.get("model", "")] += record["usd_micros"]
    return tuple((run, stage, model, micros) for (run, stage, model), micros in sorted(charges.items()))
