"""Driver sessions. Each start of a run is a session with its own number.

The session records `drivers/00000001.json`, `00000002.json`, ... form one chain. Next to a record are:
`<number>.beat`, the heartbeat, written every second while the driver lives, with the driver's report of its work;
`<number>.stop`, written by a process that asks the driver to stop;
`<number>.end.json`, written once when the session ends, by the driver or by a process that found it dead.
"""

import contextlib
import json
import os
import socket
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NotRequired, TypeVar

from typing_extensions import TypedDict

from summhay_ray.errors import StoreError
from summhay_ray.store.files import Files
from summhay_ray.store.names import DamagedRecord, StoreUnavailable, Superseded
from summhay_ray.store.records import Amount, Chain, Name, Total, as_record, read_checked

T = TypeVar("T")

FOLDER = "drivers"
TAKEOVER_S = 90.0
"""Seconds to wait until an earlier driver of the run has ended. That driver notices the takeover within seconds, and may then
wait for its calls in flight."""

WATCH_S = 10.0
"""A driver on another machine counts as dead if its heartbeat has not changed for this many seconds."""

LOOK_S = 0.25
BEAT_S = 1.0
"""Seconds between a driver's heartbeats."""

HEARD_S = 5.0
"""Seconds for which a status query waits for a driver's next heartbeat."""


@dataclass(frozen=True, slots=True)
class Process:
    """Identifies a process. `host` is for messages. `machine` and `started` show whether a pid still belongs to the same
    process."""

    host: str
    machine: str
    pid: Total
    started: str


@dataclass(frozen=True, slots=True)
class SessionRecord(Process):
    """The record that a driver writes when it begins."""

    number: Total
    run: Name
    driver: str
    began: Amount
    """Seconds since 1970, by the driver's clock."""
    paying: bool

    @property
    def where(self) -> str:
        """The place where the driver runs, for messages: `on HOST, pid N`."""
        return f"on {self.host}, pid {self.pid}"


class _End(TypedDict):
    """The end of a session."""

    how: str
    by: NotRequired[str]
    """The process that found the driver dead: `on HOST, pid N`."""


class _Beat(TypedDict):
    """A heartbeat."""

    told: dict[str, Any]


class DriverSession:
    """The session of the driver in this process. `begin_session` makes it."""

    def __init__(self, files: Files, record: SessionRecord) -> None:
        self._files = files
        self._n_beats = 0
        self._last_read = record.number
        self.record = record
        self.number = record.number
        """The session's number, which is higher than that of every earlier session."""
        self.took_over = ""
        """The driver from which this driver took over the run, as `on HOST, pid N`; empty if there was none."""
        self.told: Mapping[str, Any] = {}
        """The report about the driver's work that each heartbeat contains."""

    def beat(self) -> None:
        """Write a heartbeat. Call this every `BEAT_S` seconds. Ignores errors, since a missed heartbeat must not end a run."""
        self._n_beats += 1
        content = {"driver": self.record.driver, "beat": self._n_beats, "told": self.told}
        with contextlib.suppress(StoreError, OSError):
            self._files.put(_name(self.number, "beat"), json.dumps(content).encode("ascii"))

    def superseded(self) -> str | None:
        """Return the driver that has taken over the run or has recorded this driver as dead; None if there is none.

        The result is `on HOST, pid N`. This reads two files.
        """
        while (later := read_session(self._files, self._last_read + 1)) is not None:
            if later.run == self.record.run and how_ended(self._files, later.number) != "refused":
                return later.where
            self._last_read += 1
        end = _end(self._files, self.number)
        return end.get("by", "another driver") if end and end["how"] == "dead" else None

    def asked_to_stop(self) -> bool:
        """Return whether a process has asked this driver to stop. This checks whether one file exists."""
        return self._files.exists(_name(self.number, "stop"))

    def end(self, how: str) -> None:
        """Record the end of the session. `how`: done, stopped, superseded or refused."""
        self._files.create(_name(self.number, "end.json"), json.dumps({"how": how}, sort_keys=True).encode("ascii"))


def begin_session(
    files: Files, run_id: str, paying: bool, wait_s: float = TAKEOVER_S, here: Process | None = None
) -> DriverSession:
    """Begin a session with the next number. Waits up to `wait_s` seconds until earlier drivers of the same run have ended.

    Raises StoreError, and ends the new session, if another run with paid calls is running in the store, if an earlier driver does
    not end, or if a later driver of the same run begins in the meantime.
    """
    here = here or this_process()
    chain, taken = session_chain(files), False
    # Try the next number if another driver took this one first.
    while not taken:
        number, driver = chain.latest() + 1, uuid.uuid4().hex
        record = SessionRecord(**asdict(here), number=number, run=run_id, driver=driver, began=time.time(), paying=paying)
        taken = chain.append(number, asdict(record))
    session = DriverSession(files, record)
    session.beat()
    try:
        _await_earlier_drivers(files, session, here, wait_s)
    except BaseException as error:
        session.end("refused" if isinstance(error, StoreError) else "stopped")
        raise
    return session


def open_sessions(files: Files) -> Iterator[SessionRecord]:
    """Yield the sessions without a recorded end. Their drivers may be dead."""
    numbers = session_chain(files).numbers()
    ended = {*files.names(FOLDER, ".end.json")}
    records = (read_session(files, number) for number in numbers if _name(number, "end.json") not in ended)
    yield from (record for record in records if record is not None)


def read_session(files: Files, number: int) -> SessionRecord | None:
    """Return the record of a session, or None if there is no session with that number. Raises DamagedRecord."""
    chain = session_chain(files)
    record = chain.read(number)
    if record is not None and record.number != number:
        raise chain.damaged(number)
    return record


def lost_sessions(files: Files) -> list[str]:
    """Return a line for each damaged session record. Records of ended sessions may be missing, since cleaning deletes them."""
    lines = []
    for number in session_chain(files).numbers():
        try:
            read_session(files, number)
        except DamagedRecord as error:
            lines.append(error.flaw)
    return lines


def has_ended(files: Files, number: int) -> bool:
    """Return whether the session's end was recorded, by its driver or by a process that found the driver dead."""
    return files.exists(_name(number, "end.json"))


def how_ended(files: Files, number: int) -> str | None:
    """Return how a session ended: done, stopped, superseded, refused or dead; None if no end was recorded."""
    end = _end(files, number)
    return None if end is None else end["how"]


def live_sessions(files: Files, numbers: Iterable[int], patience_s: float = HEARD_S) -> set[int]:
    """Return the sessions among `numbers` whose drivers are alive. For a driver on this machine, the pid is checked. For drivers
    on other machines, this waits up to `patience_s` seconds for new heartbeats."""
    records = (read_session(files, number) for number in numbers)
    watches = [_Watch(files, record, this_process()) for record in records if record is not None]
    until, alive = time.monotonic() + patience_s, set[int]()
    while True:
        states = [(watch, watch.look()) for watch in watches]
        alive |= {watch.record.number for watch, state in states if state == "alive"}
        watches = [watch for watch, state in states if state == "unknown"]
        if not watches or time.monotonic() >= until:
            return alive
        time.sleep(LOOK_S)


def running_drivers(files: Files, run_id: str, patience_s: float = HEARD_S) -> list[str]:
    """Return the run's drivers that are alive, each as `on HOST, pid N`. `patience_s`: seconds to wait for a heartbeat of a
    driver on another machine."""
    ours = {record.number: record for record in open_sessions(files) if record.run == run_id}
    return [ours[number].where for number in sorted(live_sessions(files, ours, patience_s))]


def driver_report(files: Files, number: int, kind: type[T]) -> T | None:
    """Return the report in the driver's latest heartbeat; None if it is missing or does not fit the schema `kind`."""
    beat = read_checked(_read_beat(files, number), _Beat, hashed=False)
    return None if beat is None else as_record(kind, json.dumps(beat["told"]).encode("ascii"))


def ask_to_stop(files: Files, number: int) -> None:
    """Ask the session's driver to stop. It notices within seconds, on any machine."""
    files.create(_name(number, "stop"), b"")


def record_death(files: Files, number: int, by: str = "another driver") -> None:
    """Record that a session's driver is dead, unless an end was already recorded."""
    files.create(_name(number, "end.json"), json.dumps({"how": "dead", "by": by}, sort_keys=True).encode("ascii"))


def this_process() -> Process:
    """Return a description of this process, by which other processes can find it."""
    pid, host = os.getpid(), socket.gethostname()
    # A pid is unique only within one boot and one pid namespace, so add their ids. Some systems hide them.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        machine = f"{host} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        machine = ""
    return Process(host, machine, pid, _started(pid))


def _await_earlier_drivers(files: Files, session: DriverSession, here: Process, wait_s: float) -> None:
    """Wait until no earlier driver owns the run. Raises StoreError if another run with paid calls is running in the store."""
    mine = session.record
    others = [record for record in open_sessions(files) if record.number < mine.number]
    watches = [_Watch(files, other, here) for other in others if other.run == mine.run or (other.paying and mine.paying)]
    until, beaten = time.monotonic() + wait_s, time.monotonic()
    while watches:
        for watch in list(watches):
            state = watch.look()
            if state == "dead":
                record_death(files, watch.record.number, mine.where)
            if state == "ended" and how_ended(files, watch.record.number) == "superseded":
                session.took_over = watch.record.where
            if state in ("dead", "ended"):
                watches.remove(watch)
            elif state == "alive" and watch.record.run != mine.run:
                raise StoreError(
                    f"store {files.uri}: another run ({watch.record.run}, {watch.record.where}) is paying for answers in it; "
                    "wait for its end, then run again"
                )
        if not watches:
            return
        if time.monotonic() > until:
            slow = watches[0].record
            raise StoreUnavailable(
                f"run {mine.run}: the previous driver ({slow.where}) is still running; end that process, then run again"
            )
        later = session.superseded()
        if later is not None:
            raise Superseded(f"run {mine.run}: another driver ({later}) took the run over; this one stops, nothing is lost")
        if time.monotonic() - beaten >= BEAT_S:
            session.beat()
            beaten = time.monotonic()
        time.sleep(LOOK_S)


class _Watch:
    """Checks whether an earlier driver is alive: by its pid if it is on this machine, else by its heartbeat."""

    def __init__(self, files: Files, record: SessionRecord, here: Process) -> None:
        self.record = record
        self._alive = False
        self._files = files
        self._same_machine = bool(here.machine) and here.machine == record.machine and bool(record.started)
        self._beat = _read_beat(files, record.number)
        self._since = time.monotonic()

    def look(self) -> str:
        """Return the driver's current state: `ended`, `dead`, `alive` or `unknown`."""
        if has_ended(self._files, self.record.number):
            return "ended"
        if self._same_machine:
            return "alive" if _started(self.record.pid) == self.record.started else "dead"
        beat, now = _read_beat(self._files, self.record.number), time.monotonic()
        if beat != self._beat:
            self._beat, self._since, self._alive = beat, now, True
        elif now - self._since > WATCH_S:
            return "dead"
        return "alive" if self._alive else "unknown"


def _read_beat(files: Files, number: int) -> bytes:
    """Return the session's latest heartbeat; empty if there is none."""
    try:
        return files.read(_name(number, "beat"))
    except FileNotFoundError:
        return b""


def session_chain(files: Files) -> Chain[SessionRecord]:
    """Return the chain of session records."""
    # Do not tell people to delete a damaged record: the session's number would be used again.
    return Chain(files, FOLDER, SessionRecord, mend="put it back from a copy")


def _end(files: Files, number: int) -> _End | None:
    """Return the end of a session; None if it has not ended. A damaged record also counts as an end."""
    try:
        content = files.read(_name(number, "end.json"))
    except FileNotFoundError:
        return None
    return read_checked(content, _End, hashed=False) or {"how": "stopped"}


def _name(number: int, suffix: str) -> str:
    return f"{FOLDER}/{number:08d}.{suffix}"


def _started(pid: int) -> str:
    """Return when the process started, in ticks since boot; empty if there is no such process or if it is a zombie."""
    try:
        fields: Sequence[str] = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
