"""The progress of a run for a live display, computed from the ledger's snapshots. Part of the engine room."""

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
"""Seconds over which the rate for the time left is measured: longer than a pause, short enough to follow changes."""
ENOUGH = 0.1
"""Without a plan, the time left is estimated once this share of the items is done."""
BEAT_EVERY_S = 0.25
SHOWN_EVERY_S = 0.5

Snapshot = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """One remote model: its calls, its use in the last minute with the limits (None: no limit), and what slows it."""

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
    """Current limit on concurrent calls; a 429 halves it, answers raise it."""
    limited: int = 0
    """Number of 429 responses."""
    retries: int = 0
    paused_s: float = 0.0
    refused_s: float = 0.0
    """Seconds for which it has answered nothing but 429; after `LONGEST_PAUSE_S` the model is stopped."""
    stopped: str = ""
    """Class of the error that stopped the model; empty if it is not stopped."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run at one moment."""

    run: str
    items_total: int
    items_done: int
    rows_total: int
    """Expected rows of the benchmark's counted table; 0 if it counts none."""
    rows: int
    failures: int
    spent_usd: float
    budget_usd: float | None
    seconds: float
    seconds_left: float | None
    reserved_usd: float = 0.0
    """The most that the calls in flight may cost."""
    uncertain_usd: float = 0.0
    """The most that calls may have cost whose end a kill has left unknown."""
    left_usd: float | None = None
    """The part of the budget that is neither spent, nor reserved, nor uncertain."""
    calls: int = 0
    calls_a_second: float = 0.0
    limited: int = 0
    """Number of 429 responses."""
    retries: int = 0
    models: tuple[ModelProgress, ...] = ()
    """The remote models that were asked."""
    in_flight: int = 0
    stopping: bool = False
    """Whether the run only waits for the calls in flight, and sends no more."""
    reused: int = 0
    """Answers from the log, which were paid for before."""
    unit: str = "items"
    """The word for items."""
    table: str = ""
    """Name of the counted table."""
    calls_expected: int | None = None
    """Expected number of calls and reused answers in this start; None until the plan is made."""
    doing: str = ""
    """The present activity while no call is in flight, such as "preparing"."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a run: its items and rows in all, and those that were finished before this start."""

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
    """The plan of one stage and model; see `StagePlan`."""

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
"""Stands for all models that run in the workers: their calls are only counted together."""


@dataclass
class _ModelPlan:
    """The plan of one model, over all stages."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def _by_model(planned: Sequence[Planned], models: Mapping[str, ModelSettings]) -> dict[str, _ModelPlan]:
    totals: dict[str, _ModelPlan] = {}
    for stage in planned:
        settings = models.get(stage.model)
        total = totals.setdefault(LOCAL if settings is None or settings.local else stage.model, _ModelPlan())
        total.calls += stage.calls
        total.input_tokens += stage.input_tokens
        total.output_tokens += stage.output_tokens
    return totals


def _answered(snapshot: Snapshot) -> dict[str, int]:
    """Model -> number of calls answered in this start."""
    remote = {name: numbers.get("calls", 0) for name, numbers in snapshot.get("models", {}).items()}
    return {**remote, LOCAL: max(0, snapshot.get("made", 0) - sum(remote.values()))}


class Timeline:
    """Turns snapshots into `Progress`. `planned` returns the plan of this start, or None as long as there is none."""

    def __init__(self, extent: Extent, started: float, planned: Callable[[], Sequence[Planned] | None]) -> None:
        self._extent = extent
        self._started = started
        self._planned = planned
        self._began: dict[str, float] = {}
        """Model -> time at which its first call was seen in flight or answered."""
        self._seen: deque[tuple[float, Snapshot]] = deque()
        self._answered: deque[tuple[float, Mapping[str, int]]] = deque()

    def progress(self, snapshot: Snapshot, now: float) -> Progress:
        """The progress at `now` (seconds, monotonic)."""
        self._seen.append((now, snapshot))
        while len(self._seen) > 2 and self._seen[0][0] < now - RATE_OVER_S:
            self._seen.popleft()
        extent, done = self._extent, snapshot.get("items_done", 0)
        seconds = now - self._started
        # A worker that was killed and restarted counts some items twice.
        items = min(extent.items, extent.items_before + done)
        money = ("spent_micros", "reserved_micros", "uncertain_micros")
        spent, reserved, uncertain = (snapshot.get(name, 0) / MICROS for name in money)
        budget, planned = extent.budget_usd, self._planned()
        expected = None if planned is None else sum(stage.calls + stage.reused for stage in planned)
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
            uncertain_usd=uncertain,
            left_usd=None if budget is None else max(0.0, budget - spent - reserved - uncertain),
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
        """Estimated seconds left; None if unknown.

        With a plan: the longest time that a model needs for its remaining planned calls, at its observed rate or its rate limits,
        whichever is slower. Without a plan: from the share of items done.
        """
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
        for model, model_plan in _by_model(planned, extent.models).items():
            left = model_plan.calls - calls.get(model, 0)
            if left <= 0:
                continue
            seconds = self._needs(model, model_plan, left, calls.get(model, 0), now)
            if seconds is None and model != LOCAL:
                return None
            longest = seconds if longest is None else max(longest, seconds or 0.0)
        # None as well if more calls were made than planned: the number of further ones is unknown.
        return longest

    def _needs(self, model: str, planned: _ModelPlan, left: int, calls: int, now: float) -> float | None:
        """Estimated seconds that a model needs for its remaining calls; None if unknown."""
        settings = self._extent.models.get(model)
        share = left / planned.calls
        minutes = settings.limits.minutes(left, planned.input_tokens * share, planned.output_tokens * share) if settings else None
        then, before = self._answered[0]
        since, known = max(then, self._began.get(model, now)), before.get(model, 0)
        at_rate = (now - since) / (calls - known) * left if calls > known and now > since else None
        estimates = [seconds for seconds in (at_rate, None if minutes is None else minutes * 60) if seconds is not None]
        return max(estimates, default=None)

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
    """Shows progress while the block runs, with two threads: one asks for snapshots, which also keeps the driver alive for the
    ledger; the other shows them, which may be slow."""

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
