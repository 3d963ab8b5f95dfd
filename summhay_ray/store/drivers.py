"""Driver sessions: every start of a run is a session with its own number.

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
"""Seconds to wait for the end of an earlier driver of the run. It notices the takeover within seconds, and may then wait for
calls in flight."""

WATCH_S = 10.0
"""A driver on another machine counts as dead when its beat has not changed for this long."""

LOOK_S = 0.25
BEAT_S = 1.0
"""Interval of a driver's heartbeat."""

HEARD_S = 5.0
"""Seconds that a status query waits for a driver's next beat."""


@dataclass(frozen=True, slots=True)
class Process:
    """Identifies a process. `host` is for people; `machine` and `started` show whether a pid still belongs to the same
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
        """Where the driver runs, for a message: `on HOST, pid N`."""
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
    """The session of this process's driver; made by `begin_session`."""

    def __init__(self, files: Files, record: SessionRecord) -> None:
        self._files = files
        self._n_beats = 0
        self._last_read = record.number
        self.record = record
        self.number = record.number
        """Higher than the number of every earlier session."""
        self.took_over = ""
        """The driver from which this one took over the run, as `on HOST, pid N`; empty if there was none."""
        self.told: Mapping[str, Any] = {}
        """The report of the driver's work that each heartbeat carries."""

    def beat(self) -> None:
        """Write a heartbeat; to be called every `BEAT_S` seconds. Errors are ignored: a missed beat must not end a run."""
        self._n_beats += 1
        content = {"driver": self.record.driver, "beat": self._n_beats, "told": self.told}
        with contextlib.suppress(StoreError, OSError):
            self._files.put(_name(self.number, "beat"), json.dumps(content).encode("ascii"))

    def superseded(self) -> str | None:
        """The later driver that has taken over the run, or the one that recorded this driver as dead; else None.

        The driver is described as `on HOST, pid N`. Costs two reads.
        """
        while (later := read_session(self._files, self._last_read + 1)) is not None:
            if later.run == self.record.run and how_ended(self._files, later.number) != "refused":
                return later.where
            self._last_read += 1
        end = _end(self._files, self.number)
        return end.get("by", "another driver") if end and end["how"] == "dead" else None

    def asked_to_stop(self) -> bool:
        """Whether a process has asked this driver to stop. Costs one existence check."""
        return self._files.exists(_name(self.number, "stop"))

    def end(self, how: str) -> None:
        """Record the end of the session. `how`: done, stopped, superseded or refused."""
        self._files.create(_name(self.number, "end.json"), json.dumps({"how": how}, sort_keys=True).encode("ascii"))


def begin_session(
    files: Files, run_id: str, paying: bool, wait_s: float = TAKEOVER_S, here: Process | None = None
) -> DriverSession:
    """Begin a session with the next number. Waits up to `wait_s` seconds for an earlier driver of the same run to end.

    Raises StoreError, and ends the new session, if another run with paid calls is running in the store, if the earlier driver
    does not end, or if a later driver of the same run has begun meanwhile.
    """
    here = here or this_process()
    chain, taken = session_chain(files), False
    # Another driver may have taken the number first.
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
    """The sessions without a recorded end; their drivers may be dead."""
    numbers = session_chain(files).numbers()
    ended = {*files.names(FOLDER, ".end.json")}
    records = (read_session(files, number) for number in numbers if _name(number, "end.json") not in ended)
    yield from (record for record in records if record is not None)


def read_session(files: Files, number: int) -> SessionRecord | None:
    """The record of a session, or None if there is no session of that number. Raises DamagedRecord."""
    chain = session_chain(files)
    record = chain.read(number)
    if record is not None and record.number != number:
        raise chain.damaged(number)
    return record


def lost_sessions(files: Files) -> list[str]:
    """A line for each damaged session record. Lists the folder; records of ended sessions may have been deleted by cleaning."""
    lines = []
    for number in session_chain(files).numbers():
        try:
            read_session(files, number)
        except DamagedRecord as error:
            lines.append(error.flaw)
    return lines


def has_ended(files: Files, number: int) -> bool:
    """Whether the session's end is recorded, by its driver or by a process that found the driver dead."""
    return files.exists(_name(number, "end.json"))


def how_ended(files: Files, number: int) -> str | None:
    """The end of a session: done, stopped, superseded, refused or dead. None if no end is recorded."""
    end = _end(files, number)
    return None if end is None else end["how"]


def live_sessions(files: Files, numbers: Iterable[int], patience_s: float = HEARD_S) -> set[int]:
    """The sessions among `numbers` whose drivers are alive: by the pid on this machine, elsewhere by a new beat within
    `patience_s` seconds. All are watched at the same time."""
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
    """The run's drivers that are alive, each as `on HOST, pid N`. `patience_s`: how long to wait for a sign of life of one on
    another machine."""
    ours = {record.number: record for record in open_sessions(files) if record.run == run_id}
    return [ours[number].where for number in sorted(live_sessions(files, ours, patience_s))]


def driver_report(files: Files, number: int, kind: type[T]) -> T | None:
    """The report in the driver's latest heartbeat; None if it is missing or does not fit the schema `kind`."""
    beat = read_checked(_read_beat(files, number), _Beat, hashed=False)
    return None if beat is None else as_record(kind, json.dumps(beat["told"]).encode("ascii"))


def ask_to_stop(files: Files, number: int) -> None:
    """Ask the session's driver to stop. It notices within seconds, on any machine."""
    files.create(_name(number, "stop"), b"")


def record_death(files: Files, number: int, by: str = "another driver") -> None:
    """Record that a session's driver is dead. An end that the driver recorded itself is kept."""
    files.create(_name(number, "end.json"), json.dumps({"how": "dead", "by": by}, sort_keys=True).encode("ascii"))


def this_process() -> Process:
    """A description of this process by which other processes can find it."""
    pid, host = os.getpid(), socket.gethostname()
    # A pid is unique only within a boot and a pid namespace. Some systems hide these.
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        machine = f"{host} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        machine = ""
    return Process(host, machine, pid, _started(pid))


def _await_earlier_drivers(files: Files, session: DriverSession, here: Process, wait_s: float) -> None:
    """Wait until no earlier driver owns the run; raise StoreError if another run with paid calls is running in the store."""
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
                f"run {mine.run}: its earlier driver ({slow.where}) does not make way; end that process, then run again"
            )
        later = session.superseded()
        if later is not None:
            raise Superseded(f"run {mine.run}: another driver ({later}) took the run over; this one stops, nothing is lost")
        if time.monotonic() - beaten >= BEAT_S:
            session.beat()
            beaten = time.monotonic()
        time.sleep(LOOK_S)


class _Watch:
    """Watches whether an earlier driver is alive: by its pid on its own machine, by its beat elsewhere."""

    def __init__(self, files: Files, record: SessionRecord, here: Process) -> None:
        self.record = record
        self._alive = False
        self._files = files
        self._same_machine = bool(here.machine) and here.machine == record.machine and bool(record.started)
        self._beat = _read_beat(files, record.number)
        self._since = time.monotonic()

    def look(self) -> str:
        """The driver's state now: `ended`, `dead`, `alive` or `unknown`."""
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
    """The session's latest heartbeat; empty if there is none."""
    try:
        return files.read(_name(number, "beat"))
    except FileNotFoundError:
        return b""


def session_chain(files: Files) -> Chain[SessionRecord]:
    """The chain of session records."""
    # Without its record, a session's number would be used again.
    return Chain(files, FOLDER, SessionRecord, mend="put it back from a copy")


def _end(files: Files, number: int) -> _End | None:
    """The end of a session; None if it has not ended. A damaged end record counts as an end."""
    try:
        content = files.read(_name(number, "end.json"))
    except FileNotFoundError:
        return None
    return read_checked(content, _End, hashed=False) or {"how": "stopped"}


def _name(number: int, suffix: str) -> str:
    return f"{FOLDER}/{number:08d}.{suffix}"


def _started(pid: int) -> str:
    """When the process started, in ticks since boot; empty if there is no such process or it is a zombie."""
    try:
        fields: Sequence[str] = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in ("Z", "X") else fields[19]
