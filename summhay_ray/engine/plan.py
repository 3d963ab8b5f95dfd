"""Plans a run before it makes any call: estimates its calls, tokens and dollars. Uses no Ray.

`plan` runs the benchmark's own `answer` with an `ask` that only looks into the response log. An answer that is found there is
reused; any other is a planned call. If a question depends on an unknown answer, the benchmark guesses that answer. Such questions
are counted three times: with the expected guess, the shortest one (least dollars) and the longest one (most dollars).

The plan of a large grid is estimated from a sample of its items; see `plan_sample.py`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import polars as pl

from summhay_ray.engine.ask import Ask, NoReply
from summhay_ray.engine.contract import Workload
from summhay_ray.engine.items import Item, Size
from summhay_ray.engine.plan_sample import EXACT_ITEMS, Drawn, draw, relative_error
from summhay_ray.engine.price_comparison import BATCH_H, ComparedWay, PlannedCalls, compare_ways, usage_with_cache
from summhay_ray.engine.stage_plan import StagePlan, bounded_stages
from summhay_ray.engine.state.history import Dollars, dollars_of, money_of, origins_in, origins_of, other_origins
from summhay_ray.engine.state.items_left import answer_counts, checked_items, finished_items, prepared
from summhay_ray.errors import UserError
from summhay_ray.llm import ModelSettings, RawAnswer, Request, is_local, stored_answer
from summhay_ray.loops import Ready, run_loop
from summhay_ray.outcome import MICROS, Answer, Failed, NoAnswer, Outcome
from summhay_ray.plugins import STOPS, Unplannable, error_line
from summhay_ray.sections import html_of
from summhay_ray.store import RUN, Amounts, Dimensions, Money, RunStore, Scope, Store, scopes
from summhay_ray.text import count_tokens

SIZES: tuple[Size, ...] = ("expected", "least", "most")
MOST_REASONS = 5
"""Maximum number of reasons in the warnings about items that will certainly fail."""
MOST_REHEARSED = 8
"""Maximum number of items per queue that `rehearse` plans before a run's first call."""
PLANNED = "planned"
"""The error of a planned call whose answer is not guessed."""


def micros_of(
    settings: ModelSettings, prompt_tokens: int, expected: int, longest: int, searches: tuple[int, int, int]
) -> tuple[int, int, int]:
    """Return the cost of a call in micro-dollars (expected, least, most). `expected`, `longest`: tokens of the answer.
    `searches`: billed searches (least, expected, most)."""
    planned = settings.in_batch
    # If few requests are asked synchronously, any of them may cost the standard price.
    dearest = settings if settings.batch is not None and settings.batch.min_requests > 1 else planned
    return (
        planned.expected_micros(prompt_tokens, expected, searches[1]),
        planned.least_micros(prompt_tokens, searches[0]),
        dearest.worst_micros(prompt_tokens, longest, searches[2]),
    )


def short_prefix(settings: ModelSettings, tokens: int) -> str:
    """Return the warning that a model's prompts share a prefix of `tokens` tokens, which is too short for the provider's
    cache."""
    return (
        f"{settings.model}: its prompts share a prefix of at most {tokens:,} tokens, but its provider caches only prefixes of at "
        f"least {settings.cache_minimum:,}: the cache saves nothing"
    )


@dataclass(frozen=True)
class PlanResult:
    """The plan of a run."""

    run: str
    cells: int
    cells_finished: int
    too_long: int
    """Items whose prompt exceeds the model's context window; they become failures without a call."""
    no_context: int
    """Items whose source cannot be prepared; they become failures without a call."""
    stages: list[StagePlan] = field(repr=False)
    spent_usd: float = 0.0
    """Dollars that the run has spent so far. For this field and the next three, see `StatusResult.usd`."""
    reserved_usd: float = 0.0
    uncertain_usd: float = 0.0
    left_usd: float | None = None
    budget_usd: float | None = None
    kind: str = ""
    unit: str = "items"
    """The plural noun for items in messages."""
    waves: int = 0
    """Number of batches that must run one after another, each for up to 24 hours; 0 without batches."""
    reported_left: Mapping[str, Any] | None = None
    """The remaining work that the driver of a running run reports; see `StatusResult.left`."""
    ways: Sequence[ComparedWay] = field(default=(), repr=False)
    """The dollars and hours if the same calls are made in other ways."""
    drawn: Drawn | None = None
    """The sample from which the plan was estimated; None for an exact plan."""
    warnings: tuple[str, ...] = ()
    """Lines about budgets that are too small for the spent and expected dollars, about items that will fail, and about models
    whose reused answers come from another origin."""

    @property
    def usd(self) -> dict[str, float]:
        """Dollars of the calls to make: `min`, `expected` and `max`."""
        return {
            "min": sum(stage.min_micros for stage in self.stages) / MICROS,
            "expected": sum(stage.usd_micros for stage in self.stages) / MICROS,
            "max": sum(stage.max_micros for stage in self.stages) / MICROS,
        }

    @property
    def so_far(self) -> dict[str, float | None]:
        """The run's dollars so far, like `StatusResult.usd`."""
        return {name: getattr(self, f"{name}_usd") for name in ("spent", "reserved", "uncertain", "left", "budget")}

    @property
    def left(self) -> dict[str, Any]:
        """The remaining work: items (`cells`), expected calls, the maximum number of calls (`max_calls`), and dollars.

        If the run asks remote models, only their calls are counted.
        """
        stages = [stage for stage in self.stages if not is_local(stage.model)] or self.stages
        calls, most = (sum(getattr(stage, name) for stage in stages) for name in ("calls", "max_calls"))
        return {"cells": self.cells - self.cells_finished, "calls": calls, "max_calls": most, "usd": self.usd}

    @property
    def minutes(self) -> float | None:
        """Minimum minutes at the rate limits. Models run in parallel, so this is the time of the slowest model, over all its
        stages."""
        slowest: Counter[str] = Counter()
        for stage in self.stages:
            if stage.minutes is not None:
                slowest[stage.model] += stage.minutes  # type: ignore[assignment]
        return max(slowest.values(), default=None)

    @property
    def table(self) -> pl.DataFrame:
        """The plan as a table, with a row for each stage and model."""
        return pl.DataFrame([stage.to_json() for stage in self.stages])

    def _repr_html_(self) -> str:
        """Render the plan in a notebook."""
        usd = self.usd
        dollars = f"{usd['min']:.4f} at least, {usd['expected']:.4f} expected, {usd['max']:.4f} at most"
        head = [("run", self.run), (self.unit, f"{self.cells}, {self.cells_finished} finished"), ("dollars", dollars)]
        head += [("estimate", str(self.drawn))] if self.drawn else []
        return html_of([*head, *(("warning", line) for line in self.warnings)], [self.table] if self.stages else [])

    def to_json(self) -> dict[str, Any]:
        """Return the JSON document of `summhay plan`."""
        names = ("run", "cells", "cells_finished", "too_long", "no_context", "minutes", "budget_usd")
        plain = {**{name: getattr(self, name) for name in names}, "usd": {**self.usd, **self.so_far}}
        stages = [stage.to_json() for stage in self.stages]
        left = {"cells": self.left["cells"], **self.reported_left} if self.reported_left else self.left
        plain |= {"waves": self.waves, "batch_hours": BATCH_H * self.waves} if self.waves else {}
        drawn = None if self.drawn is None else asdict(self.drawn)
        return {**plain, "drawn": drawn, "left": left, "warnings": list(self.warnings), "stages": stages}


class CountingAsk(Ask):
    """An `Ask` that counts calls instead of making them. It returns the answer from the log, or a guess."""

    planning = True

    def __init__(self, planner: Planner, item: Item, size: Size, done: bool) -> None:
        super().__init__(planner.workload, item, None, None)
        self._planner, self._size, self._done = planner, size, done
        self._guesses: list[int] = []
        """Hashes of the questions whose guessed answers the item has read. Its next questions may depend on these answers."""
        self._prompts: list[int] = []
        """Hashes of the same questions without their sample numbers."""
        self.guessed_on = self.asked_anything = False
        self.waves = 0
        """Number of batches that must run one after another to answer the item."""
        self._wave: list[tuple[asyncio.Future[Outcome[RawAnswer]], Ready[Outcome[RawAnswer]]]] = []

    def _await_batch(self, outcome: Ready[Outcome[RawAnswer]]) -> asyncio.Future[Outcome[RawAnswer]]:
        """Return a planned answer that arrives only when the item asks nothing more, as if with a batch."""
        loop = asyncio.get_running_loop()
        self._wave.append((loop.create_future(), outcome))
        if len(self._wave) == 1:
            # After two iterations of the loop, all concurrent requests have been made.
            loop.call_soon(loop.call_soon, self._end_wave)
        return self._wave[-1][0]

    def _end_wave(self) -> None:
        self.waves += 1
        wave, self._wave = self._wave, []
        for future, outcome in wave:
            if not future.done():
                future.set_result(outcome.take())

    def spares(self, stage: str, whole: Request, made: Request) -> None:
        """See `Ask`. Counts each question once, and only if its answer is not in the log."""
        planner = self._planner
        question = hash((planner.prompt(made), made.sample, *self._guesses))
        if self._size != "expected" or self._done or question in planner.shortened_questions or planner.known(made) is not None:
            return
        planner.shortened_questions.add(question)
        (tokens, _), (fewer, _) = planner.count_tokens_of(whole), planner.count_tokens_of(made)
        settings = planner.settings[made.model]
        micros = settings.expected_micros(tokens, 0) - settings.expected_micros(fewer, 0)
        planner.record(CountedCall(stage, made.model, spared_tokens=tokens - fewer, spared_micros=micros))

    def fail(self, stage: str, outcome: NoAnswer, **where: str) -> None:
        """See `Ask`. Ignores planned calls, which are not failures."""
        if outcome.error != PLANNED:
            super().fail(stage, outcome, **where)

    def _send(
        self, stage: str, share: float, output_tokens: Callable[[Request], int] | None, request: Request
    ) -> Awaitable[Outcome[RawAnswer]]:
        if request.model in self.workload.models.given_answers:
            request, none = self.with_query(request, stage)
            if none is not None:
                return Ready(none)
        planner, after = self._planner, tuple(self._guesses)
        self.guessed_on |= bool(after)
        # Until an answer is guessed, all sizes ask the same questions. Each of them is counted once, for all sizes.
        counts, sizes = bool(after) or self._size == "expected", (self._size,) if after else SIZES
        purpose = stage, request.model, share
        planner.asked[purpose] = None
        self.asked_anything = True
        known = planner.known(request)
        if known is not None:
            if self._size == "expected":
                planner.record(CountedCall(*purpose, reused=1))
            planner.origins[request.model, known[1].origin] += counts * planner.weight
            return Ready(known[0])
        tokens, longest = planner.count_tokens_of(request)
        settings = planner.settings[request.model]
        if not request.inputs and settings.context_window is not None and tokens + longest // request.n > settings.context_window:
            if not after:
                self.too_long = True
                return Ready(Failed("context_window", "the prompt is too long for the model's window"))
            # This prompt contains a guess, and the real one may be shorter: plan the largest call that fits the window.
            tokens = max(settings.context_window - longest // request.n, 0)
        prompt = planner.prompt(request)
        question = hash((prompt, request.sample, *after))
        if counts and not self._done:
            # If two items ask the same question, it is one call.
            seen = planner.counted_questions[self._size]
            if question not in seen:
                seen.add(question)
                usual = next(one.output_tokens for one in self.workload.stages if one.name == stage)
                expected = 0 if request.inputs else output_tokens(request) if output_tokens else usual
                cached = planner.cached(request, tokens) if self._size == "expected" else (0, 0)
                call = *purpose, sizes, tokens, min(expected, longest), longest, request.searches, *cached
                planner.record(CountedCall(*call))
            elif self._size == "expected":
                planner.record(CountedCall(*purpose, reused=1))
        guess = planner.workload.guess(self.item, stage, self._size)
        batched = settings.batch is not None and not self._done
        if guess is None:
            planned: Ready[Outcome[RawAnswer]] = Ready(Failed(PLANNED, "no call is made while planning"))
            return self._await_batch(planned) if batched else planned
        same = hash((prompt, *self._prompts))

        def note_guess() -> None:
            # A question depends on this answer only if it is asked after the answer was read.
            self._guesses.append(same if planner.repeats_itself(request.model) else question)
            self._prompts.append(same)

        # This replaces the request's real key, whose computation takes milliseconds for a long prompt. Guesses are never stored.
        key = f"{question % 2**64:064x}"
        guessed = Answer(RawAnswer(key, request.model, guess, "stop", tokens, 0, 0, 0, 0), key=key)
        return self._await_batch(Ready(guessed, note_guess)) if batched else Ready(guessed, note_guess)


class CountedCall(NamedTuple):
    """A call that the plan counts. `sizes`: the sizes of guesses with which it is made; empty for a reused answer or saved
    tokens."""

    stage: str
    model: str
    share: float = 1.0
    """The probability of the call."""
    sizes: tuple[Size, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    longest: int = 0
    """Maximum tokens of the answer."""
    searches: tuple[int, int, int] = (0, 0, 0)
    reads: int = 0
    """Tokens of the prompt that are read from the provider's cache. `writes`: tokens that are written to it."""
    writes: int = 0
    reused: int = 0
    spared_tokens: int = 0
    spared_micros: int = 0

    def figures(self, settings: ModelSettings) -> dict[str, int]:
        """Return what this call adds to the fields of a `StagePlan`."""
        if not self.sizes:
            return {name: getattr(self, name) for name in ("reused", "spared_tokens", "spared_micros")}
        tokens, answer = self.input_tokens, self.output_tokens
        micros = micros_of(settings, tokens, answer, self.longest, self.searches)
        usage = usage_with_cache(settings, tokens, answer, self.reads, self.writes)
        cache = {"cache_read_tokens": self.reads, "cache_write_tokens": self.writes if settings.cache else 0}
        cache["cached_micros"] = settings.in_batch.price.micros(usage)
        priced = dict(zip(("usd_micros", "min_micros", "max_micros"), micros, strict=True))
        return {"calls": 1, "input_tokens": tokens, "output_tokens": answer, **priced, **cache}


class Planner:
    """Counts the calls of a workload by running its items with `CountingAsk`. Counting ends as soon as `unwanted` returns
    True."""

    def __init__(self, workload: Workload[Any], run: RunStore, unwanted: Callable[[], bool]) -> None:
        self.workload = workload
        self._unwanted = unwanted
        self.settings = settings = workload.models.settings()
        models = workload.models
        # If the cached function referred to the planner, the planner would never be freed.
        self.repeats_itself = functools.cache(
            lambda model: settings[model].local and not getattr(models.find(model), "reads_sampling", False)
        )
        """Whether a model returns the same answer for every sample. Models in the worker do, unless they read sampling
        parameters."""
        self.index = run.log()
        self._dimensions = Dimensions(self.index.files)
        self.weight: float = 1
        """Number of items that each counted item represents; more than 1 if the plan uses a sample."""
        self.unprepared: defaultdict[str, float] = defaultdict(float)
        """Reason why items cannot be prepared, or fail before they ask a model -> number of items."""
        self.origins: defaultdict[tuple[str, str], float] = defaultdict(float)
        """(model, origin) -> number of reused answers."""
        self.counts: defaultdict[CountedCall, float] = defaultdict(float)
        """Equal calls -> their number."""
        self.asked: dict[tuple[str, str, float], None] = {}
        """(stage, model, share) of all questions, including those whose answers are known."""
        self.counted_questions: dict[str, set[int]] = {size: set() for size in SIZES}
        """Hashes of the questions that were counted. They have 64 bits, so that a million of them fit in memory."""
        self.prefixes: dict[int, int] = {}
        """Hash of a shared prefix of prompts -> its tokens; 0 if it is too short for the provider's cache."""
        self.uncached_prefixes: dict[str, int] = {}
        """Model -> tokens of its longest shared prefix that is too short for the provider's cache."""
        self.shortened_questions: set[int] = set()
        """Hashes of the shortened questions whose saved tokens were counted."""
        self._recorded: list[CountedCall] = []
        """The calls that were counted for the current item."""
        self.total = self.left = self.waves = 0
        self.too_long = self.no_context = 0.0

    def stages(self, error: float = 0.0) -> list[StagePlan]:
        """Return the plan of each stage and model, in the order of the stages, with the minimum minutes at the rate limits.

        `error`: the relative error of the counts, by which the bounds are widened.
        """
        purposes = dict.fromkeys([*self.asked, *(call[:3] for call in self.counts)])
        counts = {purpose: {size: StagePlan(*purpose[:2]) for size in SIZES} for purpose in purposes}
        for call, n in self.counts.items():
            added = {name: n * figure for name, figure in call.figures(self.settings[call.model]).items()}
            for size in call.sizes or ("expected",):
                counts[call[:3]][size].add(**added)
        totals: dict[tuple[str, str], StagePlan] = {}
        for (stage, model, share), sizes in counts.items():
            total = totals.setdefault((stage, model), StagePlan(stage, model))
            # If a size has no calls, use the calls of the expected size.
            least, most = (sizes[size] if sizes[size].calls else sizes["expected"] for size in ("least", "most"))
            total.add_between(least, sizes["expected"], most, share)
        for total in totals.values():
            total.min_micros = math.floor(total.min_micros * (1 - error))
            total.max_micros, total.max_calls = (math.ceil(n * (1 + error)) for n in (total.max_micros, total.max_calls))
            settings = self.settings[total.model]
            # Limits per minute do not apply to batches.
            figures = total.calls, total.input_tokens, total.output_tokens
            total.minutes = settings.limits.minutes(*figures) if settings.batch is None else None
        order = [stage.name for stage in self.workload.stages]
        return [totals[key] for key in sorted(totals, key=lambda key: (order.index(key[0]), key[1]))]

    def known(self, request: Request) -> tuple[Outcome[RawAnswer], RawAnswer] | None:
        """Return the answer to a request from the log; None if the call must be made."""
        # Computing a key takes milliseconds for a long prompt, so skip it if the log is empty.
        return stored_answer(self.index, request, self._dimensions) if self.index.answers else None

    def prompt(self, request: Request) -> int:
        """Return a hash of everything in a request's key except its sample number."""
        options = request.lookup, request.n, request.logprobs
        return hash((request.model, request.messages, request.inputs, request.sampling, *options))

    def record(self, counted: CountedCall) -> None:
        """Count a call, and remember it for the repeats of the item."""
        self.counts[counted] += self.weight
        self._recorded.append(counted)

    def cached(self, request: Request, tokens: int) -> tuple[int, int]:
        """Return the tokens that a call reads from the provider's cache and writes to it."""
        settings = self.settings[request.model]
        if not request.shared or not settings.caches:
            return 0, 0
        *before, last = (message.content for message in request.messages)
        prefix = hash((request.model, request.messages[:-1], last[: request.shared]))
        if prefix in self.prefixes:
            return self.prefixes[prefix], 0
        # `tokens` counts the whole prompt; here only the tokens of the shared prefix count.
        shared = tokens if request.shared == len(last) else sum(map(count_tokens, (*before, last[: request.shared])))
        self.prefixes[prefix] = shared if shared >= settings.cache_minimum else 0
        if not self.prefixes[prefix]:
            self.uncached_prefixes[request.model] = max(self.uncached_prefixes.get(request.model, 0), shared)
        return 0, self.prefixes[prefix]

    def count_tokens_of(self, request: Request) -> tuple[int, int]:
        """Return (tokens of the prompt, tokens of the longest allowed answer)."""
        tokens = self.settings[request.model].prompt_tokens(request.prompt, request.sampling)
        return tokens, int(request.sampling.get("max_tokens", 0)) * request.n

    async def count(self, done: Collection[str], items: Iterable[Item] | None = None) -> None:
        """Count the calls of the items (by default all), source by source. `done`: ids of the finished items, whose answers are
        reused."""
        sources: dict[str, list[Item]] = {}
        for item in checked_items(self.workload) if items is None else items:
            sources.setdefault(item.source, []).append(item)
        for source, items in sources.items():
            self.total += len(items)
            self.left += sum(item.id not in done for item in items)
            ready = await asyncio.to_thread(prepared, self.workload, source, items, planning=True)
            if ready.problem is not None:
                self.no_context += len(items) * self.weight
                self.unprepared[f"{ready.problem.error}: {ready.problem.message}"] += len(items) * self.weight
                continue
            alike = ""
            for item in items:
                if self._unwanted():
                    return
                # While the log is empty, the second repeat of an item makes the same calls as the first.
                if alike and item.repeat_of == alike and item.id not in done and not self.index.answers:
                    for again in self._recorded:
                        # This repeat reads from the provider's cache what the first one wrote.
                        self.counts[again._replace(reads=again.reads + again.writes, writes=0)] += self.weight
                    continue
                self._recorded.clear()
                asks = list[CountingAsk]()
                try:
                    for size in SIZES:
                        if not asks or asks[0].guessed_on:
                            asks.append(CountingAsk(self, item, size, item.id in done))
                            asks[-1].prepared = ready.own.get(item.id, ready.shared)
                            with contextlib.suppress(NoReply):
                                await self.workload.answer(item, asks[-1])
                except (OSError, UserError, *STOPS):
                    raise
                # The benchmark's own code may raise anything. A run records this as the item's failure, but a plan cannot be
                # made.
                except BaseException as error:
                    name = f"{self.workload.kind}: item {item.id!r}"
                    raise Unplannable(f"the run cannot be planned: {name} raises {error_line(error)}") from error
                expected = asks[0]
                self.too_long += expected.too_long * self.weight
                self.waves = max(self.waves, expected.waves)
                if item.id not in done and not expected.too_long and not expected.asked_anything:
                    # The item asked nothing. So its failure does not depend on an answer, and is certain.
                    reasons = (f"{row.error}: {row.message}" for row in expected.failures)
                    for reason in itertools.islice(reasons, 1):
                        self.unprepared[reason] += self.weight
                alike = item.repeat_of if item.id not in done and expected.asked_anything else ""

    async def estimate(self, done: Collection[str]) -> Drawn:
        """Count the calls of a sample, and scale the counts to the whole grid."""
        strata = await asyncio.to_thread(draw, self.workload, done)
        dollars, calls, whole = list[list[float]](), list[list[float]](), self.counts
        for stratum in strata:
            self.weight = stratum.weight
            steps = list[tuple[float, float]]()
            for cluster in stratum.clusters:
                self.counts = defaultdict(float)
                await self.count(done, cluster)
                steps.append(self._expected())
                for counted, n in self.counts.items():
                    whole[counted] += n
            # The weight is the same for all clusters of a stratum, so divide it out.
            dollars.append([micros / self.weight for micros, _ in steps])
            calls.append([n / self.weight for _, n in steps])
        self.counts = whole
        margin = relative_error(strata, dollars if any(map(any, dollars)) else calls)
        drawn = Drawn(self.total, sum(stratum.n_items for stratum in strata), margin)
        self.total, self.left = drawn.of, drawn.of - len(done)
        return drawn

    @property
    def calls(self) -> PlannedCalls:
        """The expected calls."""
        calls: defaultdict[tuple[str, str, int, int, int, int], float] = defaultdict(float)
        for call, n in self.counts.items():
            if "expected" in call.sizes:
                key = call.stage, call.model, call.input_tokens, call.output_tokens, call.reads, call.writes
                calls[key] += n * call.share
        return calls

    def _expected(self) -> tuple[float, float]:
        """The expected dollars and calls."""
        expected = ((call, n * call.share) for call, n in self.counts.items() if "expected" in call.sizes)
        micros = sum(call.figures(self.settings[call.model])["usd_micros"] * n for call, n in expected)
        return micros, sum(self.calls.values())


def rehearse(workload: Workload[Any], run: RunStore, items: Iterable[Item]) -> None:
    """Plan the first items of each queue until every stage was asked. This finds contradictions in the spec that show only when a
    model is asked, before the run makes its first call. Raises UserError.

    Other exceptions of the benchmark's own code are ignored here, and do not stop the run.
    """
    by_queue: dict[str, list[Item]] = {}
    for item in items:
        first = by_queue.setdefault(item.queue, [])
        if len(first) < MOST_REHEARSED:
            first.append(item)
    for first in by_queue.values():
        planner = Planner(workload, run, lambda: False)
        for item in first:
            with contextlib.suppress(Unplannable):
                run_loop(functools.partial(planner.count, (), [item]))
            if {name for name, _, _ in planner.asked} >= {stage.name for stage in workload.stages}:
                break


def plan(
    workload: Workload[Any],
    store: Store,
    budget_usd: float | None = None,
    at: RunStore | None = None,
    unwanted: Callable[[], bool] = lambda: False,
    *,
    exact: bool = False,
) -> PlanResult:
    """Plan the remaining work: calls, tokens, dollars and minutes per stage and model.

    `budget_usd` overrides the spec's budget. `at`: the state of the run to plan from, by default its newest manifest. If
    `unwanted` returns True, planning stops with an incomplete result. `exact`: count every item, even of a large grid.
    """
    planner = Planner(workload, at or RunStore(store, workload.run_id), unwanted)
    run = at or (store.run(workload.run_id) if store.files.exists(f"runs/{workload.run_id}/run.json") else None)
    done = frozenset[str]() if run is None else finished_items(run)
    stages: list[StagePlan]
    drawn: Drawn | None = None
    if type(workload).bounds is Workload.bounds:
        if exact or workload.n_items() <= EXACT_ITEMS:
            run_loop(lambda: planner.count(done))
        else:
            drawn = run_loop(lambda: planner.estimate(done))
        stages, total, left = planner.stages(drawn.error if drawn else 0.0), planner.total, planner.left
    else:
        items = [item.id for item in workload.items()]
        stages, total, left = (
            [*bounded_stages(workload, run, planner.index, done)],
            len(items),
            sum(item not in done for item in items),
        )
        planner.waves = len({stage.stage for stage in stages if stage.calls and planner.settings[stage.model].batch is not None})
        planner.origins.update({} if run is None else origins_in(answer_counts(run)))
    budget_usd = workload.spec.budget_usd if budget_usd is None else budget_usd
    money = Money(Counter(), Counter(), Counter()) if run is None else money_of(run, planner.index)
    dollars = Dollars(0, 0, 0) if run is None else dollars_of(run, money)
    # While a driver is running, the uncertain dollars are unknown.
    spent = money.spent + money.uncertain if dollars.uncertain else money.spent
    reasons = Counter(planner.unprepared).most_common(MOST_REASONS)
    so_far: dict[str, Any] = {f"{name}_usd": usd for name, usd in dollars.usd(budget_usd).items()}
    made = PlanResult(
        run=workload.run_id,
        cells=total,
        cells_finished=total - left,
        too_long=round(planner.too_long),
        no_context=round(planner.no_context),
        stages=stages,
        **so_far,
        kind=workload.kind,
        unit=workload.counted.items,
        waves=planner.waves,
        drawn=drawn,
        warnings=(
            *workload.warnings(),
            *budget_warnings(workload, spent, stages, budget_usd),
            *(short_prefix(planner.settings[model], n) for model, n in planner.uncached_prefixes.items()),
            *(f"{workload.counted.phrase(round(n))} will fail: {why}" for why, n in reasons),
            *other_origins({key: round(n) for key, n in planner.origins.items()}, origins_of(planner.settings)),
        ),
    )
    means: PlannedCalls = {
        (stage.stage, stage.model, stage.input_tokens // stage.calls, stage.output_tokens // stage.calls, 0, 0): stage.calls
        for stage in stages
        if stage.calls
    }
    return replace(made, ways=compare_ways(workload.spec.model_entries(), planner.calls or means, made.minutes))


def budget_warnings(workload: Workload[Any], spent: Amounts, stages: Sequence[StagePlan], budget: float | None) -> list[str]:
    """Return a line for each budget that is smaller than its `spent` dollars plus the expected dollars."""
    expected: Counter[Scope] = Counter(spent)
    for planned in stages:
        expected.update(dict.fromkeys(scopes((planned.stage, planned.model)), planned.usd_micros))
    spec = workload.spec
    bounds = [
        ("budget_usd", RUN, budget),
        *((f"stage_budgets_usd.{name}", ("stage", name), dollars) for name, dollars in spec.stage_budgets_usd.items()),
        *((f"model_budgets_usd.{name}", ("model", name), dollars) for name, dollars in spec.model_budgets_usd.items()),
    ]
    return [
        f"{name} is {dollars:g}, and {expected[scope] / MICROS:.4f} dollars are expected: it will stop the run; raise it"
        for name, scope, dollars in bounds
        if dollars is not None and expected[scope] > dollars * MICROS
    ]
