"""How far a run is, for a live display: from the ledger's snapshots, with rates over seconds. Part of the engine room."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from summhay_ray.llm import Limits, ModelSettings
from summhay_ray.outcome import MICROS

RATE_OVER_S = 10.0
LEFT_OVER_S = 60.0
"""The time left is told by the rate of so many seconds: longer than a pause, shorter than a change."""
ENOUGH = 0.1
"""Without a plan, the time left is told when this share of the items is done."""
BEAT_EVERY_S = 0.25
SHOWN_EVERY_S = 0.5

Snapshot = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """One remote model: calls answered, the last minute's use beside its limits (None: no limit), and what hinders it."""

    model: str
    calls: int = 0
    calls_a_second: float = 0.0
    requests: int = 0
    rpm: float | None = None
    input_tokens: int = 0
    input_tpm: float | None = None
    output_tokens: int = 0
    output_tpm: float | None = None
    in_flight: int = 0
    cap: int = 0
    """Calls at once that it is asked now; a 429 halves it, answers raise it."""
    limited: int = 0
    """429s."""
    retries: int = 0
    paused_s: float = 0.0
    refused_s: float = 0.0
    """For so long it has answered nothing but 429; after `LONGEST_PAUSE_S` it is given up."""
    stopped: str = ""
    """Class of the error for which it was given up; empty where it was not."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: for a live display."""

    run: str
    items_total: int
    items_done: int
    rows_total: int
    """Of the table that the benchmark counts; 0 where it counts none."""
    rows: int
    failures: int
    spent_usd: float
    budget_usd: float | None
    seconds: float
    seconds_left: float | None
    reserved_usd: float = 0.0
    """The worst case of the calls in flight."""
    left_usd: float | None = None
    """Of the budget, neither spent nor reserved."""
    calls: int = 0
    calls_a_second: float = 0.0
    limited: int = 0
    """429s."""
    retries: int = 0
    models: tuple[ModelProgress, ...] = ()
    """The remote ones that were asked."""
    in_flight: int = 0
    stopping: bool = False
    """Nothing more is sent: only the calls in flight are waited for."""
    reused: int = 0
    """Answers that were paid before."""
    unit: str = "items"
    """What people call the items."""
    table: str = ""
    """The table whose rows are counted."""
    calls_expected: int | None = None
    """Calls and answers reused of this start, about, None until the plan is made."""
    doing: str = ""
    """What it is at while no call is under way."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a run holds at its end, and what it held at this start."""

    run: str
    unit: str
    items: int
    items_before: int
    table: str
    rows: int
    rows_before: int
    budget_usd: float | None
    models: Mapping[str, ModelSettings]


class Planned(Protocol):
    """What is planned of one stage and model."""

    @property
    def model(self) -> str: ...
    @property
    def calls(self) -> int: ...
    @property
    def reused(self) -> int: ...
    @property
    def input_tokens(self) -> int: ...
    @property
    def output_tokens(self) -> int: ...


LOCAL = ""
"""All models that answer in the workers, as one: nobody counts their calls apart."""


@dataclass
class _Asked:
    """What is planned of one model, over all stages."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def _by_model(planned: Sequence[Planned], models: Mapping[str, ModelSettings]) -> dict[str, _Asked]:
    found: dict[str, _Asked] = {}
    for one in planned:
        settings = models.get(one.model)
        total = found.setdefault(LOCAL if settings is None or settings.local else one.model, _Asked())
        total.calls += one.calls
        total.input_tokens += one.input_tokens
        total.output_tokens += one.output_tokens
    return found


def _answered(snapshot: Snapshot) -> dict[str, int]:
    """Model -> calls answered in this start."""
    remote = {name: numbers.get("calls", 0) for name, numbers in snapshot.get("models", {}).items()}
    return {**remote, LOCAL: max(0, snapshot.get("made", 0) - sum(remote.values()))}


class Timeline:
    """Makes a Progress of each snapshot. `planned`: the calls of this start, and the answers to reuse; None as long as nobody
    knows."""

    def __init__(self, extent: Extent, started: float, planned: Callable[[], Sequence[Planned] | None]) -> None:
        self._extent = extent
        self._started = started
        self._planned = planned
        self._began: dict[str, float] = {}
        """Model -> when its first call was on its way, or answered."""
        self._seen: deque[tuple[float, Snapshot]] = deque()
        self._answered: deque[tuple[float, Mapping[str, int]]] = deque()

    def progress(self, snapshot: Snapshot, now: float) -> Progress:
        """How far the run is at `now` (seconds, monotonic)."""
        self._seen.append((now, snapshot))
        while len(self._seen) > 2 and self._seen[0][0] < now - RATE_OVER_S:
            self._seen.popleft()
        extent, done = self._extent, snapshot.get("items_done", 0)
        seconds = now - self._started
        # A worker that was killed counts again what it commits again.
        items = min(extent.items, extent.items_before + done)
        spent, reserved = (snapshot.get(name, 0) / MICROS for name in ("spent_micros", "reserved_micros"))
        budget, planned = extent.budget_usd, self._planned()
        expected = None if planned is None else sum(one.calls + one.reused for one in planned)
        return Progress(
            run=extent.run,
            items_total=extent.items,
            items_done=items,
            rows_total=extent.rows,
            rows=min(extent.rows, extent.rows_before + snapshot.get("counted", 0)),
            failures=snapshot.get("failures", 0),
            spent_usd=spent,
            budget_usd=budget,
            seconds=seconds,
            seconds_left=self._left(snapshot, now, items, planned),
            reserved_usd=reserved,
            left_usd=None if budget is None else max(0.0, budget - spent - reserved),
            calls=snapshot.get("made", 0),
            calls_a_second=self._rate(lambda seen: seen.get("made", 0)),
            limited=snapshot.get("limited", 0),
            retries=snapshot.get("retries", 0),
            models=tuple(self._model(name, snapshot) for name in sorted(snapshot.get("models", {}))),
            in_flight=snapshot.get("in_flight", 0),
            stopping=snapshot.get("stopping", False),
            reused=snapshot.get("reused", 0),
            unit=extent.unit,
            table=extent.table,
            calls_expected=expected,
            doing=snapshot.get("doing", ""),
        )

    def _left(self, snapshot: Snapshot, now: float, items: int, planned: Sequence[Planned] | None) -> float | None:
        """Seconds left, None where nothing tells: of the model that needs longest for the calls it has left of the plan, at the
        rate that it was seen to answer, and no sooner than its limits allow; without a plan, of the items."""
        calls = _answered(snapshot)
        for model, n in calls.items():
            if n or snapshot.get("models", {}).get(model, {}).get("in_flight", 0):
                self._began.setdefault(model, now)
        if not self._answered or now >= self._answered[-1][0] + 1.0:
            self._answered.append((now, calls))
        while len(self._answered) > 2 and self._answered[1][0] <= now - LEFT_OVER_S:
            self._answered.popleft()
        extent = self._extent
        if items == extent.items:
            return 0.0
        if planned is None:
            done, to_do = items - extent.items_before, extent.items - extent.items_before
            return (now - self._started) / done * (extent.items - items) if done >= max(1, ENOUGH * to_do) else None
        longest: float | None = None
        for model, asked in _by_model(planned, extent.models).items():
            left = asked.calls - calls.get(model, 0)
            if left <= 0:
                continue
            seconds = self._needs(model, asked, left, calls.get(model, 0), now)
            if seconds is None and model != LOCAL:
                return None
            longest = seconds if longest is None else max(longest, seconds or 0.0)
        # Where more calls were made than expected nobody knows how many more.
        return longest

    def _needs(self, model: str, asked: _Asked, left: int, calls: int, now: float) -> float | None:
        """Seconds that a model needs for so many calls."""
        settings = self._extent.models.get(model)
        share = left / asked.calls
        minutes = settings.limits.minutes(left, asked.input_tokens * share, asked.output_tokens * share) if settings else None
        then, before = self._answered[0]
        since, known = max(then, self._began.get(model, now)), before.get(model, 0)
        at_rate = (now - since) / (calls - known) * left if calls > known and now > since else None
        found = [one for one in (at_rate, None if minutes is None else minutes * 60) if one is not None]
        return max(found, default=None)

    def _model(self, name: str, snapshot: Snapshot) -> ModelProgress:
        numbers: Mapping[str, Any] = snapshot["models"][name]
        settings = self._extent.models.get(name)
        limits = settings.limits if settings else Limits()
        return ModelProgress(
            model=name,
            calls=numbers.get("calls", 0),
            calls_a_second=self._rate(lambda seen: seen.get("models", {}).get(name, {}).get("calls", 0)),
            requests=numbers.get("requests_per_min", 0),
            rpm=limits.rpm,
            input_tokens=numbers.get("input_per_min", 0),
            input_tpm=limits.input_tpm,
            output_tokens=numbers.get("output_per_min", 0),
            output_tpm=limits.output_tpm,
            in_flight=numbers.get("in_flight", 0),
            cap=numbers.get("cap", 0),
            limited=numbers.get("limited", 0),
            retries=numbers.get("retries", 0),
            paused_s=numbers.get("paused_s", 0.0),
            refused_s=numbers.get("refused_s", 0.0),
            stopped=snapshot.get("stopped", {}).get(name, {}).get("error", ""),
        )

    def _rate(self, count: Callable[[Snapshot], int]) -> float:
        (first, then), (last, now) = self._seen[0], self._seen[-1]
        return (count(now) - count(then)) / (last - first) if last > first else 0.0


class Watch:
    """Two threads: one asks for snapshots, which is the driver's sign of life, and one shows them, which may be slow."""

    def __init__(self, ask: Callable[[], Snapshot], show: Callable[[Snapshot], None]) -> None:
        self._ask = ask
        self._show = show
        self._last: Snapshot | None = None
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._beating, self._showing)]

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(timeout=5.0)

    def _beating(self) -> None:
        while not self._ended.wait(BEAT_EVERY_S):
            self._last = self._ask() or self._last

    def _showing(self) -> None:
        while not self._ended.wait(SHOWN_EVERY_S):
            if self._last is not None:
                self._show(self._last)
