"""The history of a run: its dollars (spent, reserved, uncertain, left), planned and actual usage, starts and stops, and warnings.

`runs/<run>/plan.json` is the plan at the first start. `runs/<run>/starts/<number>.json` records a start, and
`runs/<run>/stops/<number>.json` records why a start ended early. These files are written once and never changed.

An answer's key does not include the endpoint, so an answer from another endpoint is reused. That is right if the same model
answers at both endpoints, but the user must know about it. An embedding of zeros is valid and kept, but it is similar to no other
embedding.
"""

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired, TypeVar

import polars as pl
from pydantic import ConfigDict, with_config
from typing_extensions import TypedDict

from summhay_ray import store
from summhay_ray.llm import Budgets, Ledger, LedgerService, Limits, ModelSettings
from summhay_ray.outcome import MICROS
from summhay_ray.store import RUN, Amount, Count, LogIndex, Money, RunStore, Total, driver_report, live_sessions


class Dollars(NamedTuple):
    """A run's money in micro-dollars. The sum of the fields counts against the run's budget."""

    spent: int
    """Charged for calls that have ended."""
    reserved: int
    """Maximum cost of the calls in flight and of the batches that are not charged yet."""
    uncertain: int
    """Maximum cost of calls whose outcome is unknown because a process was killed."""

    def usd(self, budget_usd: float | None) -> dict[str, float | None]:
        """Return `spent`, `reserved` and `uncertain` in dollars, the `budget`, and the part of the budget that is `left`. The
        last two are null without a budget."""
        left = None if budget_usd is None else max(0.0, budget_usd - sum(self) / MICROS)
        return {**{name: micros / MICROS for name, micros in self._asdict().items()}, "left": left, "budget": budget_usd}


class LeftRecord(TypedDict):
    """The recorded remaining work; see `StatusResult.left`."""

    calls: Count | None
    usd: dict[str, Amount] | None
    cells: NotRequired[Count]
    max_calls: NotRequired[Count]
    seconds: NotRequired[Amount | None]


class _Money(TypedDict):
    """The fields of `Dollars`, in micro-dollars."""

    spent: Total
    reserved: Total
    uncertain: Total


class DriverReport(TypedDict):
    """The report that a driver writes into each heartbeat."""

    left: LeftRecord
    money: _Money


def money_of(run: RunStore, index: LogIndex) -> Money:
    """Return the run's stored money."""
    return Money.of(run.money.newest(), run.run_id, index)


def dollars_of(run: RunStore, money: Money, alive: Mapping[int, bool] | None = None) -> Dollars:
    """Return the run's money: from the last report of a running driver, else from the stored records.

    `alive`: session -> whether its driver is alive; None if that is not known yet.
    """
    session, files = money.session, run.store.files
    if session:
        going = alive.get(session, False) if alive is not None else bool(live_sessions(files, [session]))
        if going and (told := driver_report(files, session, DriverReport)) is not None:
            newest = Dollars(**told["money"])
            # The log may be newer than the driver's report.
            return newest._replace(spent=max(newest.spent, money.spent[RUN]))
    return Dollars(money.spent[RUN], money.reserved[RUN], money.uncertain[RUN])


def ledger_of(run: RunStore, session: int, budgets: Budgets, limits: Mapping[str, Limits]) -> LedgerService:
    """Take over the run's money, read the log, and return the ledger of the session. Raises Superseded, StoreError, OSError."""
    records = run.money
    # Take over before reading the log. An earlier ledger may still grant calls, but only up to the ceiling of its last record.
    earlier_record = records.take_over(session)
    ledger = Ledger(run.run_id, run.store.log(), budgets, limits, session=session, earlier_record=earlier_record, probing=True)
    return LedgerService(ledger, records.append)


T = TypeVar("T")

_NOTHING_ELSE = "nothing else depends on it"
_MEND = f"delete it and those after it, {_NOTHING_ELSE}"
_PLANNED = ("calls", "reused", "input_tokens", "output_tokens", "usd", "usd_max", "minutes")
_BOUNDS = ("min_calls", "max_calls", "min_input_tokens", "max_input_tokens", "min_output_tokens", "max_output_tokens", "usd_min")
"""Fields that exist only in a plan with bounds."""


class StartRecord(TypedDict):
    """A start of the run. `session`: the number of its driver's session."""

    session: store.Total
    budget_usd: store.Amount | None
    token_margins: NotRequired[dict[str, store.Amount]]
    origins: NotRequired[dict[str, str]]


class StopRecord(TypedDict):
    """Why a start ended early. `commits`: how many parts had been committed by then."""

    status: Literal["budget", "limited", "waiting"]
    left: LeftRecord
    session: store.Total
    commits: store.Total
    budget_usd: NotRequired[store.Amount | None]


@with_config(ConfigDict(extra="allow"))
class StageRecord(TypedDict):
    """The plan of one stage and model. Only a plan with bounds has all of these fields."""

    stage: str
    model: str
    calls: store.Count
    reused: store.Count
    input_tokens: store.Count
    output_tokens: store.Count
    usd: store.Amount
    usd_min: store.Amount
    usd_max: store.Amount
    minutes: store.Amount | None
    min_calls: NotRequired[store.Count]
    max_calls: NotRequired[store.Count]
    min_input_tokens: NotRequired[store.Count]
    max_input_tokens: NotRequired[store.Count]
    min_output_tokens: NotRequired[store.Count]
    max_output_tokens: NotRequired[store.Count]


@with_config(ConfigDict(extra="allow"))
class PlanRecord(TypedDict):
    """The fields that are read from the stored plan, which `PlanResult.to_json` made."""

    stages: list[StageRecord]


def keep_plan(run: store.RunStore, plan: Mapping[str, Any]) -> None:
    """Store the run's plan (`PlanResult.to_json`), unless the run has a stored plan."""
    run.store.files.create(plan_file(run), store.with_hash(plan, indent=1))


@dataclass(frozen=True)
class RecordedReach:
    """Endpoints and margins of a start's models, which are recorded with the start."""

    token_margins: Mapping[str, float] = field(default_factory=dict)
    """Model -> its `token_margin`, for models that have one."""
    origins: Mapping[str, str] = field(default_factory=dict)
    """Model -> the origin of its answers, such as the endpoint."""


@dataclass
class History:
    """The records of a run's plan and starts. Each record is read once, on first use; a damaged one counts as missing."""

    run: store.RunStore
    _damaged: list[str] = field(default_factory=list, init=False)

    @functools.cached_property
    def plan(self) -> PlanRecord | None:
        """The plan at the first start (`PlanResult.to_json`); None if there is none."""
        files, name = self.run.store.files, plan_file(self.run)
        try:
            content = store.read_checked(files.read(name), PlanRecord)
        except FileNotFoundError:
            return None
        if content is None:
            self._damaged.append(f"{files.where(name)} is damaged: it is not as it was written; delete it, {_NOTHING_ELSE}")
        return content

    @functools.cached_property
    def start(self) -> StartRecord | None:
        """The latest start; None if there is none."""
        return self._newest("starts", StartRecord)

    @functools.cached_property
    def stop(self) -> StopRecord | None:
        """The latest stop; None if the run was started again or something was committed after it."""
        stop = self._newest("stops", StopRecord)
        if stop is None or stop["commits"] != self.run.manifest().added:
            return None
        return stop if not self.start or self.start["session"] <= stop["session"] else None

    def damaged(self) -> Sequence[str]:
        """Read all records, and return a line for each damaged one."""
        _ = self.plan, self.start, self.stop
        return self._damaged

    def _newest(self, folder: str, record: type[T]) -> T | None:
        try:
            newest = store.Chain(self.run.store.files, f"runs/{self.run.run_id}/{folder}", record, _MEND).newest()
        except store.DamagedRecord as error:
            self._damaged.append(error.flaw)
            return None
        return newest[1] if newest else None

    @property
    def reach(self) -> RecordedReach:
        """The recorded endpoints and margins of the latest start's models."""
        start = self.start
        return RecordedReach(start.get("token_margins", {}), start.get("origins", {})) if start else RecordedReach()

    @property
    def budget_usd(self) -> float | None:
        """The budget of the latest start; None if it had none or it is unknown."""
        return self.start["budget_usd"] if self.start else None


def keep_start(run: store.RunStore, session: int, budget_usd: float | None, reach: RecordedReach = RecordedReach()) -> None:
    """Record a start of the run, which invalidates an earlier stop. `session`: the number of the driver's session."""
    _append(run, "starts", StartRecord, {"session": session, "budget_usd": budget_usd, **asdict(reach)})


def keep_reach(run: store.RunStore, reach: RecordedReach) -> None:
    """Record the endpoints and margins if they have changed. For a run without remaining items."""
    history = History(run)
    if history.start and history.reach != reach:
        _append(run, "starts", StartRecord, {**history.start, **asdict(reach)})


def keep_stop(run: store.RunStore, session: int, content: Mapping[str, Any]) -> None:
    """Record why a start ended early: {"status": "budget", "budget_usd": ..., "left": {...}}.

    `session`: the number of the start's session. Each start has a separate record, even if nothing was committed.
    """
    _append(run, "stops", StopRecord, {**content, "session": session, "commits": run.manifest().added})


def usage_of_run(
    run: store.RunStore, plan: PlanRecord | None, real: Mapping[store.Purpose, store.AnswerTotals], money: store.Money
) -> list[dict[str, Any]]:
    """Return a row for each stage and model: planned and actual calls, tokens and dollars, cached tokens and the dollars that
    they saved.

    `planned` is null if the plan lacks the stage and model. Neither the planned nor the actual calls include reused answers. For
    a plan with bounds, `planned` also has the minimum and the maximum.
    """
    planned = {(stage["stage"], stage["model"]): stage for stage in (plan["stages"] if plan else ())}
    order = list(run.record.get("stages", ()))
    every = {*planned, *real, *money.charged}
    purposes = sorted(every, key=lambda purpose: (order.index(purpose[0]) if purpose[0] in order else -1, purpose[1]))
    rows = []
    for purpose in purposes:
        there, used = planned.get(purpose), real.get(purpose, store.AnswerTotals())
        names = [*_PLANNED, *(_BOUNDS if there and there.keys() >= {*_BOUNDS} else ())]
        actual = {
            "calls": used.answers,
            "input_tokens": used.input_tokens,
            "cached_tokens": used.cached_tokens,
            "output_tokens": used.output_tokens,
            "usd": (used.usd_micros + money.charged[purpose]) / MICROS,
        }
        rows.append(
            {
                "stage": purpose[0],
                "model": purpose[1],
                "planned": None if there is None else {name: there[name] for name in names},  # type: ignore[literal-required]
                "real": actual,
                "cached_share": used.cached_tokens / used.input_tokens if used.input_tokens else None,
                "saved_usd": used.saved_micros / MICROS,
            }
        )
    return rows


def _append(run: store.RunStore, folder: str, record: type[Any], body: Mapping[str, Any]) -> None:
    chain = store.Chain(run.store.files, f"runs/{run.run_id}/{folder}", record, _MEND)
    number = chain.latest() + 1
    while not chain.append(number, body):
        number += 1


def plan_file(run: store.RunStore) -> str:
    """Return the file name of the plan at the first start."""
    return f"runs/{run.run_id}/plan.json"


Origins = Mapping[tuple[str, str], int]
"""(model, origin) -> number of answers."""


def origins_of(settings: Mapping[str, ModelSettings]) -> dict[str, str]:
    """Return model -> the current origin of its answers, for models outside this process."""
    return {name: model.origin for name, model in settings.items() if model.origin}


def origins_in(answers: pl.DataFrame) -> Counter[tuple[str, str]]:
    """Return the origins of a run's answers. `answers`: the run's `answer_counts`."""
    counted = answers.group_by("model", "origin").agg(pl.sum("n"))
    return Counter({(model, origin): n for model, origin, n in counted.iter_rows()})


def other_origins(used: Origins, now: Mapping[str, str]) -> tuple[str, ...]:
    """Return a line for each model that reuses answers whose origin differs from the model's origin `now`."""
    return tuple(
        f"{model}: {n} answers came from {origin}, and it is reached at {now[model]} now; they are reused. If another "
        "model answers there, give it a `revision:` in the spec, so that it is asked again"
        for (model, origin), n in sorted(used.items())
        if origin and model in now and now[model] != origin
    )


def stored_warnings(
    run: store.RunStore, money: store.Money, answers: pl.DataFrame, origins: Mapping[str, str]
) -> tuple[str, ...]:
    """Return warnings about a stored run: its log may record less spending than its money records, answers may come from other
    origins, and embeddings may be all zeros.

    `answers`: the run's `answer_counts`. `origins`: model -> the current origin of its answers.
    """
    short = []
    if money.missing:
        where, missing = run.store.files.where("answers"), f"{money.missing / MICROS:.6f} dollars"
        mend = "these count as spent, so that no budget is overrun"
        short = [f"the answers in {where} cost {missing} less than the run's money records say; {mend}"]
    counted = answers.group_by("model").agg(pl.sum("zero_vectors"))
    zeros = (
        f"{model}: {n} of its vectors are all zeros, so that their texts are similar to nothing; look at the service"
        for model, n in sorted(counted.iter_rows())
        if n
    )
    # Models in this process have no origin.
    others = other_origins(origins_in(answers), origins) if origins else ()
    return (*short, *others, *zeros)
