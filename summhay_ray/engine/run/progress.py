"""Computes the progress of a run from the ledger's snapshots, for a live display."""

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from summhay_ray.engine.plan import PlanResult
from summhay_ray.engine.stage_plan import StagePlan
from summhay_ray.llm import TOKENS, UNDER_WAY, Limits, ModelSettings
from summhay_ray.outcome import MICROS

RATE_OVER_S = 10.0
LEFT_OVER_S = 60.0
"""Seconds over which a model's rate is measured, to estimate the remaining time. This is longer than a pause, but short enough to
follow changes."""
ENOUGH = 0.1
"""Without a plan, the remaining time is estimated only after this share of the items is done."""
BEAT_EVERY_S = 0.25
SHOWN_EVERY_S = 0.5

Snapshot = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelProgress:
    """The progress of a remote model. `requests`, `input_tokens` and `output_tokens` are recent rates per minute. `rpm`,
    `input_tpm` and `output_tpm` are its limits; None: no limit."""

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
    """Current limit on concurrent calls. A 429 response halves it; answers raise it."""
    limited: int = 0
    """Number of 429 responses."""
    retries: int = 0
    paused_s: float = 0.0
    refused_s: float = 0.0
    """Seconds for which the model has returned only 429 responses. After `LONGEST_PAUSE_S` seconds, the model is stopped."""
    fallbacks: int = 0
    """Calls of this start that the standard service tier served because the requested tier had no capacity."""
    stopped: str = ""
    """Class of the error that stopped the model; empty if it is not stopped."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run at one moment."""

    run: str
    items_total: int
    items_done: int
    rows_total: int
    """Expected number of rows of the benchmark's counted table; 0 if there is no such table."""
    rows: int
    spent_usd: float
    budget_usd: float | None
    seconds: float
    seconds_left: float | None
    failures: int = 0
    reserved_usd: float = 0.0
    """Maximum cost of the calls in flight."""
    uncertain_usd: float = 0.0
    """Maximum cost of calls whose outcome is unknown because a process was killed."""
    left_usd: float | None = None
    """The rest of the budget after spent, reserved and uncertain dollars; None without a budget."""
    calls: int = 0
    calls_a_second: float = 0.0
    tokens: int = 0
    """Tokens that models in the workers have generated, including those of incomplete answers."""
    tokens_a_second: float = 0.0
    limited: int = 0
    """Number of 429 responses."""
    retries: int = 0
    models: tuple[ModelProgress, ...] = ()
    """The remote models that had requests."""
    in_flight: int = 0
    stopping: bool = False
    """Whether the run is stopping. It then sends no more calls, and waits for those in flight."""
    reused: int = 0
    """Number of answers from the log, which were paid for earlier."""
    unit: str = "items"
    """The plural noun for items."""
    table: str = ""
    """Name of the counted table."""
    calls_left: int | None = None
    """Expected number of remaining calls, only of remote models if the run asks any; None until the plan is made."""
    usd_left: float | None = None
    """The expected cost of these calls, which may exceed the rest of the budget."""
    doing: str = ""
    """The current activity while no call is in flight, such as "preparing"."""

    @property
    def answered(self) -> int:
        """The number of answered calls, counted like `calls_left`."""
        return sum(model.calls for model in self.models) or self.calls


@dataclass(frozen=True, slots=True)
class Extent:
    """The size of a run: the total numbers of items and rows, and how many were finished before this start."""

    run: str
    unit: str
    items: int
    items_before: int
    table: str
    rows: int
    rows_before: int
    budget_usd: float | None
    models: Mapping[str, ModelSettings]


_OF_RUN = ("failures", "limited", "retries", "in_flight", "stopping", "reused", "doing")
_OF_MODEL = ("calls", "in_flight", "cap", "limited", "retries", "paused_s", "refused_s", "fallbacks")
"""Figures that have the same names in the ledger's snapshot as in `ModelProgress`."""
LOCAL = ""
"""Stands for all models that run in the workers, for which only the sum of calls is counted."""


@dataclass
class Timeline:
    """Converts snapshots to `Progress`."""

    extent: Extent
    started: float
    """When the run began (seconds, monotonic)."""
    planned: Callable[[], PlanResult | None]
    """Returns the plan of this start, or None if it is not ready."""
    _made: deque[tuple[float, dict[str, float]]] = field(default_factory=deque, init=False)
    """Times in the last `LEFT_OVER_S` seconds, with the number of calls that each model had answered by then."""
    _seen: deque[tuple[float, Snapshot]] = field(default_factory=deque, init=False)
    _spent_before: int | None = field(default=None, init=False)

    def progress(self, snapshot: Snapshot, now: float) -> Progress:
        """Return the progress at `now` (seconds, monotonic)."""
        self._seen.append((now, snapshot))
        while len(self._seen) > 2 and self._seen[0][0] < now - RATE_OVER_S:
            self._seen.popleft()
        extent, done = self.extent, snapshot.get("items_done", 0)
        seconds = now - self.started
        # A killed and restarted worker may have counted some items twice.
        items = min(extent.items, extent.items_before + done)
        money = ("spent_micros", "reserved_micros", "uncertain_micros")
        spent, reserved, uncertain = (snapshot.get(name, 0) / MICROS for name in money)
        budget = extent.budget_usd
        budget_left = None if budget is None else max(0.0, budget - spent - reserved - uncertain)
        calls, usd, seconds_left = self._left(snapshot, now, items, budget_left)
        return Progress(
            run=extent.run,
            items_total=extent.items,
            items_done=items,
            rows_total=extent.rows,
            rows=min(extent.rows, extent.rows_before + snapshot.get("counted", 0)),
            spent_usd=spent,
            budget_usd=budget,
            seconds=seconds,
            seconds_left=seconds_left,
            reserved_usd=reserved,
            uncertain_usd=uncertain,
            left_usd=budget_left,
            calls=snapshot.get("made", 0),
            calls_a_second=self._rate(lambda seen: seen.get("made", 0)),
            tokens=snapshot.get(TOKENS, 0),
            tokens_a_second=self._rate(lambda seen: seen.get(TOKENS, 0)),
            models=tuple(self._model(name, snapshot) for name in sorted(snapshot.get("models", {}))),
            unit=extent.unit,
            table=extent.table,
            calls_left=calls,
            usd_left=usd,
            **{name: snapshot[name] for name in _OF_RUN if name in snapshot},
        )

    def _left(
        self, snapshot: Snapshot, now: float, items: int, budget_left: float | None
    ) -> tuple[int | None, float | None, float | None]:
        """Return the remaining (calls, dollars, seconds), each None if unknown.

        The calls are the planned calls minus the calls that were made. The seconds are those of the slowest model or, if that is
        less, those until the budget is spent. Without a plan, they are estimated from the share of finished items.
        """
        made: dict[str, float] = {name: numbers.get("calls", 0) for name, numbers in snapshot.get("models", {}).items()}
        made[LOCAL] = max(0, snapshot.get("made", 0) - sum(made.values())) + snapshot.get(UNDER_WAY, 0) / 1000
        self._made.append((now, made))
        while len(self._made) > 2 and self._made[1][0] <= now - LEFT_OVER_S:
            self._made.popleft()
        spent = snapshot.get("spent_micros", 0)
        if self._spent_before is None:
            self._spent_before = spent
        extent, plan = self.extent, self.planned()
        if items == extent.items:
            return 0, 0.0, 0.0
        if plan is None:
            done, to_do = items - extent.items_before, extent.items - extent.items_before
            seconds = (now - self.started) / done * (extent.items - items) if done >= max(1, ENOUGH * to_do) else None
            return None, None, seconds
        by_model: dict[str, list[StagePlan]] = {}
        for stage in plan.stages:
            if stage.calls:
                settings = extent.models.get(stage.model)
                group = LOCAL if settings is None or settings.local else stage.model
                by_model.setdefault(group, []).append(stage)
        planned = {model: sum(stage.calls for stage in stages) for model, stages in by_model.items()}
        to_come = {model: max(0.0, 1 - made.get(model, 0) / planned[model]) for model in planned}
        if not any(to_come.values()):
            # All planned calls were made, so the number of remaining calls is unknown.
            return None, None, None
        micros = {model: sum(stage.usd_micros for stage in stages) for model, stages in by_model.items()}
        # The plan only guesses the length of answers and the effect of the provider's cache. Correct it by the calls' actual
        # cost.
        planned_cost = sum(micros[model] * (1 - share) for model, share in to_come.items())
        dearer = (spent - self._spent_before) / planned_cost if planned_cost else 1.0
        usd = sum(micros[model] * share for model, share in to_come.items()) / MICROS * (dearer or 1.0)
        seconds = self._seconds({model: (by_model[model], share) for model, share in to_come.items() if share})
        if seconds is not None and budget_left is not None and usd > budget_left:
            seconds *= budget_left / usd
        remote = [model for model in planned if model != LOCAL] or [LOCAL]
        return round(sum(planned[model] * to_come[model] for model in remote)), usd, seconds

    def _seconds(self, left: Mapping[str, tuple[Sequence[StagePlan], float]]) -> float | None:
        """Return the seconds that the slowest model still needs; None if unknown. `left`: model -> (its stages, the share of
        their calls that is left). A model's speed is its rate in the last `LEFT_OVER_S` seconds or, if that is slower, its rate
        limits."""
        (first, before), (last, calls) = self._made[0], self._made[-1]
        pace = {model: (last - first) / (n - before.get(model, 0)) for model, n in calls.items() if n > before.get(model, 0)}
        # Assume that a model without calls so far is as fast as the fastest model.
        fastest = min((seconds for model, seconds in pace.items() if model != LOCAL), default=None)
        longest: list[float] = []
        for model, (stages, share) in left.items():
            figures = ((stage.calls, stage.input_tokens, stage.output_tokens) for stage in stages)
            n, *tokens = (share * sum(figure) for figure in zip(*figures, strict=True))
            settings, seconds = self.extent.models.get(model), pace.get(model, None if model == LOCAL else fastest)
            minutes = settings.limits.minutes(n, *tokens) if settings else None
            estimates = [*(() if seconds is None else [n * seconds]), *(() if minutes is None else [60 * minutes])]
            if not estimates and model != LOCAL:
                return None
            longest += estimates
        return max(longest, default=None)

    def _model(self, name: str, snapshot: Snapshot) -> ModelProgress:
        numbers: Mapping[str, Any] = snapshot["models"][name]
        settings = self.extent.models.get(name)
        limits = settings.limits if settings else Limits()

        def rate(counted: str) -> float:
            return self._rate(lambda seen: seen.get("models", {}).get(name, {}).get(counted, 0))

        return ModelProgress(
            model=name,
            calls_a_second=rate("calls"),
            requests=round(60 * rate("requests")),
            rpm=limits.rpm,
            input_tokens=round(60 * rate("input_tokens")),
            input_tpm=limits.input_tpm,
            output_tokens=round(60 * rate("output_tokens")),
            output_tpm=limits.output_tpm,
            stopped=snapshot.get("stopped", {}).get(name, {}).get("error", ""),
            **{figure: numbers[figure] for figure in _OF_MODEL if figure in numbers},
        )

    def _rate(self, count: Callable[[Snapshot], int]) -> float:
        (first, then), (last, now) = self._seen[0], self._seen[-1]
        return (count(now) - count(then)) / (last - first) if last > first else 0.0


@contextlib.contextmanager
def watching(ask: Callable[[], Snapshot], show: Callable[[Snapshot], None]) -> Iterator[None]:
    """Return a context that shows the progress. One thread requests snapshots, which also shows the ledger that the driver is
    alive. Another thread displays them, which may be slow."""
    last: Snapshot | None = None
    ended = threading.Event()

    def beat() -> None:
        nonlocal last
        while not ended.wait(BEAT_EVERY_S):
            last = ask() or last

    def display() -> None:
        while not ended.wait(SHOWN_EVERY_S):
            if last is not None:
                show(last)

    threads = [threading.Thread(target=work, daemon=True) for work in (beat, display)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in threads:
            thread.join(timeout=5.0)
