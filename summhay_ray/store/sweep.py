"""What dead writers left: shipped from this machine's spool, or, where nobody can, ended as it stands. Part of the store room."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor

from summhay_ray.store.drivers import close, find_dead, read_session
from summhay_ray.store.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.log_lines import Charge, Mark, entries_of, mark_of, segment_name, whole, writer_name
from summhay_ray.store.spool_folder import Held, hold, left_behind

LOOK_S = 0.05
AT_ONCE = 16
"""Seats that are closed at the same time."""


def sweep(files: Files, patience_s: float = 5.0, awaited: Collection[str] | None = None) -> list[str]:
    """Ship what dead writers of this machine left for this store, and end them; the names of those that are ended now.

    A writer that may be dying (its lock is held, and it is `awaited`; None: each is) is waited for as long as `patience_s`.
    Several may sweep at once. Raises StoreError, OSError: then what is left is the next sweep's.
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
    """End a writer whose machine nobody can reach; what it may have spent since its last segment stays charged.

    If it still lives, its next segment finds the number taken, and it writes nothing more.
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
    """End every writer of a session that is over, and close its seats: nobody begins to write in them any more."""
    if files.folder is not None:
        return
    record = read_session(files, session)
    if record is None:
        raise StoreError(f"{files.uri}: no driver of number {session} ever began; nothing to end")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda seat: close_seat(files, session, seat), record.seat_names()))
    find_dead(files, session)
    close(files, session)


def close_seat(files: Files, session: int, seat: str) -> None:
    """End the writers that had the seat, and take its next name for nobody."""
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
    """The first number from `known` on that no segment has: they are taken without a gap."""

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
    """The mark of a segment, None where it is damaged."""
    return mark_of(files.read(segment_name(writer, number)))[1]


def _ship_all(files: Files, held: Held) -> bool:
    """Ship a dead writer's records and end it; False where it never began or another has ended it."""
    done = False
    try:
        done = _owns(files, held) and _ship_parts(files, held)
    except BaseException:
        held.release()
        raise
    held.remove()
    return done


def _owns(files: Files, held: Held) -> bool:
    """Whether the name is this folder's writer's, and not of one that was quicker to take it."""
    try:
        mark = read_mark(files, held.writer, 0)
    except FileNotFoundError:
        return False
    # Of a damaged beginning nobody can tell; a folder with records is that of one who had begun.
    return bool(held.parts()) if mark is None else mark.owner == held.token


def _ship_parts(files: Files, held: Held) -> bool:
    parts = {number: path.read_bytes() for number, path in held.parts().items()}
    parts = {number: content[: whole(content)] for number, content in parts.items()}
    # What nothing of counts has no segment: its writer would have given the number to the next.
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
    number = free_number(files, held.writer, max(parts, default=0) + 1 if parts else 1)
    while True:
        last = read_mark(files, held.writer, number - 1)
        if last is not None and last.end:
            return not last.sealed
        if files.create(segment_name(held.writer, number), Mark(number, end=True).line()):
            return True
        number = free_number(files, held.writer, number)


def _intents(contents: list[bytes]) -> tuple[Charge, ...]:
    """What the calls in files that are not shipped yet may cost."""
    found: Counter[tuple[str, str, str]] = Counter()
    for content in contents:
        for _, record in entries_of("", content):
            if record is not None and record.get("kind") == "intent":
                found[record["run"], record.get("stage", ""), record.get("model", "")] += record["usd_micros"]
    return tuple((run, stage, model, micros) for (run, stage, model), micros in sorted(found.items()))
