"""Who drives a store's runs: every start of a run has a number, its tenure. Part of the store room.

`drivers/00000001.json`, `00000002.json`, ... are one chain; `<number>.beat` is written every two seconds while the driver lives,
`<number>.stop` by whoever asks it to stop, `<number>.end.json` once, when it ends, by itself or by whoever found it dead, and far
away `<number>.closed` when its writers have ended for good. Each record names the earlier tenures that were not closed when it
began: nobody has to look at all.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from summhay_ray.store.chain import Chain
from summhay_ray.store.errors import StoreError, Superseded
from summhay_ray.store.files import Files

FOLDER = "drivers"
TAKEOVER_S = 90.0
"""An earlier driver of the run hears of it within seconds, and may wait for the calls in flight and pack up."""

WATCH_S = 10.0
"""A driver on another machine whose beat does not change for so long is dead."""

LOOK_S = 0.25
BEAT_S = 2.0
HEARD_S = 2.5 * BEAT_S
"""Who asks how a run stands waits so long for a driver's beat."""


@dataclass(frozen=True, slots=True)
class Here:
    """Where a process runs: `host` for people; `machine` and `started` tell whether a pid still means it."""

    host: str
    machine: str
    pid: int
    started: str


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What a driver wrote when it began."""

    number: int
    run: str
    driver: str
    host: str
    machine: str
    pid: int
    started: str
    began: float
    """Seconds since 1970, by the driver's clock."""
    paying: bool
    seats: dict[str, int]
    """Kind of worker -> how many there are: their log writers are named after them."""
    earlier: tuple[int, ...]
    """Tenures before it that somebody may still have to look at: see `is_closed`."""

    def seat_names(self) -> list[str]:
        """`calling-0`, `calling-1`, ..."""
        return [f"{kind}-{number}" for kind, n in sorted(self.seats.items()) for number in range(n)]

    def told(self) -> str:
        """Who it is, for a message."""
        return f"on {self.host}, pid {self.pid}"


class DriverSession:
    """This driver's tenure; `begin` makes it."""

    def __init__(self, files: Files, record: SessionRecord) -> None:
        self._files = files
        self._n_beats = 0
        self._looked = record.number
        self.record = record

    @property
    def number(self) -> int:
        """Higher than all that began before."""
        return self.record.number

    @property
    def told(self) -> str:
        """Who this driver is, for a message: `on HOST, pid N`."""
        return self.record.told()

    def beat(self) -> None:
        """Say that the driver lives; every two seconds. What goes wrong with it is nobody's end."""
        self._n_beats += 1
        with contextlib.suppress(StoreError, OSError):
            self._files.put(_name(self.number, "beat"), f"{self.record.driver} {self._n_beats}".encode())

    def superseded(self) -> str | None:
        """Who drives the run now, if a later driver does (`on HOST, pid N`), or who took this one for dead. Two reads."""
        while (later := read_session(self._files, self._looked + 1)) is not None:
            if later.run == self.record.run and (_end(self._files, later.number) or {}).get("how") != "refused":
                return later.told()
            self._looked += 1
        end = _end(self._files, self.number)
        return str(end.get("by", "another driver")) if end and end.get("how") == "dead" else None

    def asked_to_stop(self) -> bool:
        """Whether somebody asked this driver to stop. One look."""
        return self._files.exists(_name(self.number, "stop"))

    def end(self, how: str) -> None:
        """Say that it is over: done, stopped, superseded."""
        _close(self._files, self.number, {"how": how})


def begin(
    files: Files, run_id: str, paying: bool, seats: Mapping[str, int], wait_s: float = TAKEOVER_S, here: Here | None = None
) -> DriverSession:
    """Begin a tenure: the next number. An earlier driver of the same run is given `wait_s` to end.

    Raises StoreError where another run is being paid for in the store, where the earlier driver does not end, or where a
    later one of the same run has come meanwhile; the tenure is over then.
    """
    here = here or this_process()
    record = _register(files, run_id, paying, seats, here)
    tenure = DriverSession(files, record)
    tenure.beat()
    try:
        _make_way(files, tenure, here, wait_s)
    except BaseException as error:
        tenure.end("refused" if isinstance(error, StoreError) else "stopped")
        raise
    return tenure


def tenures(files: Files, after: int = 0) -> Iterator[SessionRecord]:
    """All tenures in their order, those after a number."""
    number = after + 1
    while (record := read_session(files, number)) is not None:
        yield record
        number += 1


def open_sessions(files: Files) -> Iterator[SessionRecord]:
    """The tenures of which nobody has said that they are over; their drivers may be dead."""
    newest = session_chain(files).newest()
    numbers = (*newest[1]["earlier"], newest[0]) if newest is not None else ()
    for number in numbers:
        record = None if has_ended(files, number) else read_session(files, number)
        if record is not None:
            yield record


def read_session(files: Files, number: int) -> SessionRecord | None:
    """A tenure's record, None where nobody has begun it."""
    body = session_chain(files).read(number)
    return None if body is None else _record(number, body)


def has_ended(files: Files, number: int) -> bool:
    """Whether the tenure is known to be over: its driver said so, or one found it dead."""
    return files.exists(_name(number, "end.json"))


def how_ended(files: Files, number: int) -> str | None:
    """How a tenure ended: done, stopped, superseded, refused or dead; None where nobody has said that it is over."""
    end = _end(files, number)
    return None if end is None else str(end.get("how", "stopped"))


def is_alive(files: Files, number: int, patience_s: float = HEARD_S) -> bool:
    """Whether the driver of a tenure is at work: by its pid on its own machine, elsewhere by a beat within `patience_s`."""
    record = read_session(files, number)
    if record is None:
        return False
    watch, until = _Watch(files, record, this_process()), time.monotonic() + patience_s
    while (state := watch.look()) == "unknown" and time.monotonic() < until:
        time.sleep(LOOK_S)
    return state == "alive"


def ask_to_stop(files: Files, number: int) -> None:
    """Ask the driver of a tenure to stop; it hears of it within seconds, wherever it works."""
    files.create(_name(number, "stop"), b"")


def is_closed(files: Files, number: int) -> bool:
    """Whether nobody need look at the tenure any more: it is over, and far away also its writers have ended for good."""
    return has_ended(files, number) if files.folder is not None else files.exists(_name(number, "closed"))


def close(files: Files, number: int) -> None:
    """Say that the writers of a tenure that is over have ended, and that its seats are closed."""
    files.create(_name(number, "closed"), b"")


def find_dead(files: Files, number: int, by: str = "another driver") -> None:
    """Say that a tenure is over whose driver cannot say so; where it did, its own word stands."""
    _close(files, number, {"how": "dead", "by": by})


def this_process() -> Here:
    """This process, as other processes can find it."""
    pid = os.getpid()
    return Here(socket.gethostname(), _machine(), pid, _started(pid))


def _register(files: Files, run_id: str, paying: bool, seats: Mapping[str, int], here: Here) -> SessionRecord:
    chain = session_chain(files)
    while True:
        newest = chain.newest()
        number, before = (0, None) if newest is None else (newest[0], _record(newest[0], newest[1]))
        candidates = () if before is None else (*before.earlier, number)
        earlier = tuple(one for one in candidates if not is_closed(files, one))
        record = SessionRecord(
            number=number + 1,
            run=run_id,
            driver=uuid.uuid4().hex,
            **asdict(here),
            began=time.time(),
            paying=paying,
            seats=dict(seats),
            earlier=earlier,
        )
        if chain.append(number + 1, asdict(record)):
            return record


def _make_way(files: Files, tenure: DriverSession, here: Here, wait_s: float) -> None:
    """Wait until nobody before us drives the run, and see that nobody else pays."""
    mine = tenure.record
    others = [one for one in (read_session(files, number) for number in mine.earlier) if one is not None]
    watches = [_Watch(files, one, here) for one in others if one.run == mine.run or (one.paying and mine.paying)]
    until, beaten = time.monotonic() + wait_s, time.monotonic()
    while watches:
        for watch in list(watches):
            state = watch.look()
            if state == "dead":
                find_dead(files, watch.record.number, mine.told())
            if state in ("dead", "ended"):
                watches.remove(watch)
            elif state == "alive" and watch.record.run != mine.run:
                raise StoreError(
                    f"store {files.uri}: another run ({watch.record.run}, {watch.record.told()}) is paying for answers in it; "
                    "wait for its end, then run again"
                )
        if not watches:
            return
        if time.monotonic() > until and all(watch.alive for watch in watches):
            slow = watches[0].record
            raise Superseded(
                f"run {mine.run}: its earlier driver ({slow.told()}) does not make way; end that process, then run again"
            )
        later = tenure.superseded()
        if later is not None:
            raise Superseded(f"run {mine.run}: another driver ({later}) took the run over; this one stops, nothing is lost")
        if time.monotonic() - beaten >= BEAT_S:
            tenure.beat()
            beaten = time.monotonic()
        time.sleep(LOOK_S)


class _Watch:
    """Finds out whether an earlier driver lives: by its pid on its own machine, by its beat elsewhere."""

    def __init__(self, files: Files, record: SessionRecord, here: Here) -> None:
        self.record = record
        self.alive = False
        self._files = files
        self._near = bool(here.machine) and here.machine == record.machine and bool(record.started)
        self._beat = self._read()
        self._since = time.monotonic()

    def look(self) -> str:
        """`ended`, `dead`, `alive`, or `unknown` for the time being."""
        if has_ended(self._files, self.record.number):
            return "ended"
        if self._near:
            self.alive = _started(self.record.pid) == self.record.started
            return "alive" if self.alive else "dead"
        beat, now = self._read(), time.monotonic()
        if beat != self._beat:
            self._beat, self._since, self.alive = beat, now, True
        elif now - self._since > WATCH_S:
            self.alive = False
            return "dead"
        return "alive" if self.alive else "unknown"

    def _read(self) -> bytes:
        try:
            return self._files.read(_name(self.record.number, "beat"))
        except FileNotFoundError:
            return b""


def session_chain(files: Files) -> Chain:
    """The drivers' records."""
    return Chain(files, FOLDER, mend="put it back from a copy; without it nobody knows whose answers and spending are whose")


def _record(number: int, body: Mapping[str, Any]) -> SessionRecord:
    try:
        return SessionRecord(**{**body, "earlier": tuple(body["earlier"])})
    except (TypeError, KeyError) as error:
        raise StoreError(f"{_name(number, 'json')}: not a driver's record of this version ({error})") from None


def _end(files: Files, number: int) -> Mapping[str, Any] | None:
    try:
        content = files.read(_name(number, "end.json"))
    except FileNotFoundError:
        return None
    try:
        end = json.loads(content)
    except ValueError:
        end = None
    return end if isinstance(end, dict) else {}


def _close(files: Files, number: int, end: Mapping[str, Any]) -> None:
    files.create(_name(number, "end.json"), json.dumps(end, sort_keys=True).encode("ascii"))


def _name(number: int, suffix: str) -> str:
    return f"{FOLDER}/{number:08d}.{suffix}"


def _machine() -> str:
    """What pids are numbers of: this boot and pid namespace; empty where the system does not tell."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _started(pid: int) -> str:
    """When the process started, in ticks since the boot; empty where there is none, or it is no more than a zombie."""
    try:
        fields: Sequence[str] = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
