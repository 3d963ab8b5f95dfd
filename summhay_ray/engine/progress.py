"""How far a run is, for a live display: from the ledger's snapshots, with rates over seconds. Part of the engine room."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from summhay_ray.llm import Limits, ModelSettings
from summhay_ray.outcome import MICROS

RATE_OVER_S = 10.0
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


class Timeline:
    """Makes a Progress of each snapshot. `expected`: calls and answers to reuse of this start, None as long as nobody knows."""

    def __init__(self, extent: Extent, started: float, expected: Callable[[], int | None]) -> None:
        self._extent = extent
        self._started = started
        self._expected = expected
        self._began: float | None = None
        self._seen: deque[tuple[float, Snapshot]] = deque()

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
        budget, expected = extent.budget_usd, self._expected()
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
            seconds_left=self._left(snapshot, seconds, items, expected),
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
        )

    def _left(self, snapshot: Snapshot, seconds: float, items: int, expected: int | None) -> float | None:
        """Seconds left: of the planned calls at the rate since the first, else of the items; None where nothing tells."""
        calls: int = snapshot.get("made", 0)
        extent = self._extent
        if self._began is None and (calls or snapshot.get("in_flight", 0)):
            self._began = seconds
        if items == extent.items:
            return 0.0
        left: int | None = None if expected is None else expected - calls - snapshot.get("reused", 0)
        # More were made than expected: nobody knows how many more.
        if left is not None and left > 0 and calls and self._began is not None:
            return (seconds - self._began) / calls * left
        done = items - extent.items_before
        return seconds / done * (extent.items - items) if done else None

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
