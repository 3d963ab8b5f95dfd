"""Whatever happens in whatever order: nothing acknowledged is lost that a disk still holds, and no dollar goes uncounted."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from far_files import FarFiles, Gate, answer, intent, void
from hypothesis import given, settings
from hypothesis import strategies as st

from summhay_ray.store import LocalFiles, LogIndex, StoreError, begin, read_at, seal, seal_rest, sweep
from summhay_ray.store import spool as room
from summhay_ray.store.spool_folder import spool_of

pytestmark = pytest.mark.core

PURPOSES = [{"stage": "judge", "model": "m"}, {"stage": "summarize", "model": "m"}]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SUMMHAY_SPOOL", str(tmp_path / "spool"))
    monkeypatch.setattr(room, "PAUSE_S", 0.002)
    monkeypatch.setattr(room, "PATIENCE_S", 0.01)
    monkeypatch.setattr(room, "AHEAD", 3)


@dataclass
class World:
    """One seat of a store, whoever has it, and what truly happened."""

    files: FarFiles
    gate: Gate = field(default_factory=Gate)
    log: room.SpoolWriter | None = None
    really: int = 0
    """What calls that may have been sent cost in truth."""
    open: dict[str, tuple[int, int, dict[str, str]]] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    may_be_lost: set[str] = field(default_factory=set)
    n: int = 0

    def write(self) -> room.SpoolWriter:
        if self.log is None:
            self.log = room.SpoolWriter(self.files, 1, "calling-0")
        return self.log

    def intents(self, costs: list[int], purpose: dict[str, str]) -> None:
        """Calls with these worst cases; each costs half of it in truth."""
        calls = {f"k{self.n + number}": worst for number, worst in enumerate(costs)}
        self.n += len(costs)
        with contextlib.suppress(StoreError):
            self.write().append([intent(key, worst, **purpose) for key, worst in calls.items()])
            for key, worst in calls.items():
                self.open[key] = (worst, worst // 2, purpose)
                self.really += worst // 2

    def end(self, n: int) -> None:
        for key in list(self.open)[:n]:
            worst, cost, purpose = self.open[key]
            if self.n % 5:
                self.write().append([answer(key, cost, **purpose)])
                self.answered[key] = cost
            else:
                self.write().append([void(key, worst, **purpose)])
                self.really += worst - cost
            del self.open[key]
        self.n += 1

    def free(self, n: int) -> None:
        """Answers that cost nothing."""
        keys = [f"free{self.n + number}" for number in range(n)]
        self.n += n
        self.write().append([answer(key) for key in keys])
        self.answered.update(dict.fromkeys(keys, 0))

    def die(self) -> None:
        """The process is killed, perhaps in the middle of a trip."""
        if self.log is not None:
            with self.log._changed:
                self.log._ended = True
                self.log._changed.notify_all()
            self.log._thread.join()
        self.log = None
        # What it was about to send and did not acknowledge, nobody sent; what was open nobody answers.
        self.open.clear()

    def unshipped(self) -> set[str]:
        """Answers that only the spool holds."""
        return {key for key in self.answered if key not in self.index().answers}

    def check(self) -> None:
        """The machine and the driver are lost now: the store alone is left."""
        really = self.really
        assert self.index().spent("r") >= really

    def index(self) -> LogIndex:
        index = LogIndex(FarFiles(self.files.root))
        index.refresh()
        return index


@contextlib.contextmanager
def world() -> Iterator[World]:
    root = Path(tempfile.mkdtemp())
    try:
        files = FarFiles(root)
        begin(files, "r", False, {"calling": 1})
        here = World(files)
        files.before = here.gate
        yield here
        here.gate.down = False
        here.die()
    finally:
        shutil.rmtree(spool_of(files), ignore_errors=True)
        shutil.rmtree(root, ignore_errors=True)


STEPS = st.one_of(
    st.tuples(st.just("intents"), st.lists(st.integers(2, 100), min_size=1, max_size=8), st.sampled_from(PURPOSES)),
    st.tuples(st.just("end"), st.integers(1, 6)),
    st.tuples(st.just("free"), st.integers(1, 70)),
    st.sampled_from([("flush",), ("down",), ("up",), ("kill",), ("sweep",), ("kill and seal",), ("close",)]),
)


def step(here: World, what: tuple[object, ...]) -> None:
    name = what[0]
    # A writer begins with a trip to the store: without one there is none.
    if here.gate.down and here.log is None and name in ("intents", "end", "free"):
        return
    if name in ("intents", "end", "free"):
        getattr(here, str(name))(*what[1:])
    elif name in ("down", "up"):
        here.gate.down = name == "down"
    elif name == "kill":
        here.die()
    elif name == "sweep":
        with contextlib.suppress(StoreError):
            sweep(here.files, 0.0)
    elif here.gate.down:
        return
    elif name == "kill and seal" and here.log is not None:
        writer = here.log.writer
        here.die()
        here.may_be_lost |= here.unshipped()
        shutil.rmtree(spool_of(here.files), ignore_errors=True)
        seal(here.files, writer)
    elif here.log is not None:
        getattr(here.log, "close" if name == "close" else "flush")()
        if name == "close":
            here.log = None
            here.open.clear()


@settings(max_examples=25, deadline=None)
@given(steps=st.lists(STEPS, max_size=25))
def test_nothing_is_lost_and_nothing_is_spent_unseen(steps: list[tuple[object, ...]]) -> None:
    with world() as here:
        live = LogIndex(FarFiles(here.files.root))
        for what in steps:
            step(here, what)
            here.check()
            live.refresh()
            assert live.spent("r") >= here.really
        here.gate.down = False
        here.die()
        sweep(here.files, 0.0)
        index = here.index()
        # Whoever followed all the way knows what a newcomer knows.
        live.refresh()
        assert (live.answers, live.tallies("r"), live.damaged) == (index.answers, index.tallies("r"), index.damaged)
        assert set(here.answered) - set(index.answers) <= here.may_be_lost
        assert index.damaged == 0 and index.spent("r") >= here.really
        for key in here.answered.keys() & index.answers.keys():
            record = index.read(key)
            assert record is not None and record["usd_micros"] == here.answered[key]


@settings(max_examples=15, deadline=None)
@given(steps=st.lists(STEPS.filter(lambda what: what[0] not in ("kill and seal", "down")), max_size=20))
def test_after_sweeps_the_money_is_exact(steps: list[tuple[object, ...]]) -> None:
    with world() as here:
        open_after: Counter[str] = Counter()
        for what in steps:
            if what[0] in ("kill", "close"):
                open_after.update({key: worst - cost for key, (worst, cost, _) in here.open.items()})
            step(here, what)
        open_after.update({key: worst - cost for key, (worst, cost, _) in here.open.items()})
        here.die()
        sweep(here.files, 0.0)
        # Real prices, and the worst price of calls whose end nobody knows.
        assert here.index().spent("r") == here.really + open_after.total()
        assert set(here.index().answers) == set(here.answered)


def sweeping(files: FarFiles, swept: list[list[str]]) -> None:
    swept.append(sweep(files, 5.0))


def test_two_sweeps_at_once_are_harmless(tmp_path: Path) -> None:
    for _ in range(10):
        with world() as here:
            for number in range(4):
                writer = room.SpoolWriter(here.files, 1, "calling-0")
                here.log = writer
                here.intents([10, 10], PURPOSES[0])
                here.gate.down = True
                here.free(3 + number)
                here.end(1)
                here.die()
                here.gate.down = False
            swept: list[list[str]] = []
            threads = [threading.Thread(target=sweeping, args=(here.files, swept)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(name for names in swept for name in names) == [f"00000001-calling-0-{n}" for n in range(4)]
            index = here.index()
            assert set(index.answers) == set(here.answered) and not list(spool_of(here.files).iterdir())


def test_a_sweep_that_is_cut_off_anywhere_is_finished_by_the_next(tmp_path: Path) -> None:
    cut = 0
    while True:
        with world() as here:
            here.intents([10, 10], PURPOSES[0])
            here.gate.down = True
            here.free(70)
            # In a later file than those: the sweep's first segment must tell of what it may have cost.
            here.intents([30], PURPOSES[0])
            here.end(1)
            here.die()
            here.gate.down = False
            n = [0]

            def stop(operation: str, name: str, n: list[int] = n, cut: int = cut) -> None:
                n[0] += 1
                if n[0] == cut + 1:
                    raise StoreError("cut")

            for hook in ("before", "after"):
                n[0] = 0
                setattr(here.files, hook, stop)
                with contextlib.suppress(StoreError):
                    sweep(here.files, 0.0)
                here.check()
                setattr(here.files, hook, lambda operation, name: None)
            sweep(here.files, 0.0)
            assert set(here.index().answers) == set(here.answered) and here.index().spent("r") == here.really + 5 + 15
            if n[0] <= cut:
                assert cut >= 2
                return
        cut += 1


def test_a_loser_of_the_race_for_a_name_ends_nobody(tmp_path: Path) -> None:
    with world() as here:
        here.write().append([answer("a")])
        # Killed between its folder and its first segment, which another machine's writer has created.
        from summhay_ray.store.spool_folder import begin as begin_folder

        begin_folder(here.files, here.write().writer).release()
        assert sweep(here.files, 0.0) == []
        here.write().append([answer("b")])
        here.write().close()
        assert set(here.index().answers) == {"a", "b"}


def test_a_torn_tail_is_cut_and_damage_before_it_costs_one_record(tmp_path: Path) -> None:
    with world() as here:
        here.gate.hold()
        here.gate.release()
        log = here.write()
        here.gate.down = True
        locations = log.append([answer(f"a{n}") for n in range(5)])
        path = log._held.part(1)
        here.die()
        here.gate.down = False
        content = bytearray(path.read_bytes())
        content[locations[2].offset + 30] ^= 1
        path.write_bytes(bytes(content) + b"0badc0de 80 {torn")
        sweep(here.files, 0.0)
        index = here.index()
        assert set(index.answers) == {"a0", "a1", "a3", "a4"} and index.damaged == 1
        assert read_at(here.files, locations[4]) == answer("a4")


def test_sealing_the_rest_ends_all_and_closes_the_seats(tmp_path: Path) -> None:
    with world() as here:
        here.intents([10], PURPOSES[0])
        seal_rest(here.files, 1)
        seal_rest(here.files, 1)
        with pytest.raises(room.Evicted):
            here.write().flush() or here.write().append([intent(f"x{n}", 10, **PURPOSES[0]) for n in range(9)])
        with pytest.raises(room.Evicted, match="is closed"):
            room.SpoolWriter(here.files, 1, "calling-0")
        with pytest.raises(StoreError, match="no driver of number 9"):
            seal_rest(here.files, 9)
        index = here.index()
        assert index._position.seats == {} and index.spent("r") == 10 + 3 * 10
        near = LocalFiles(tmp_path)
        assert sweep(near) == [] and seal(near, "w") is None and seal_rest(near, 5) is None
