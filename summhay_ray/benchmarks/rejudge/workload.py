"""The benchmark `rejudge`: judge the stored summaries of another run, which stays unchanged."""

from __future__ import annotations

import functools
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any, ClassVar

import polars as pl
from pydantic import Field

from summhay_ray import benchmark, judge
from summhay_ray.benchmarks.summhay import TABLES, SummHay, SummhaySpec
from summhay_ray.benchmarks.summhay.grid.grid import STAGE, Cell, Entries, OfHaystacks, Unit, check_models, check_prompts
from summhay_ray.benchmarks.summhay.grid.judgments import judge_all, truth_of
from summhay_ray.benchmarks.summhay.grid.replay import Replay
from summhay_ray.benchmarks.summhay.haystacks.metadata import fields_of_haystacks
from summhay_ray.benchmarks.summhay.haystacks.sources import Haystacks, stored_haystacks
from summhay_ray.benchmarks.summhay.results.explain import explain, places
from summhay_ray.benchmarks.summhay.results.judges import join_run
from summhay_ray.benchmarks.summhay.spec import JudgeSpec, JudgingSpec
from summhay_ray.errors import SpecError, StoreError
from summhay_ray.metrics import Compat
from summhay_ray.records import Summary

SUMMARIES_A_SLICE = 128
"""Maximum number of summaries in a slice."""
LOCAL_IN_FLIGHT = 128
"""Summaries judged concurrently if all judges run in the worker process, where a judgment takes milliseconds."""
QUEUE = "summaries"
_SHARED = ("limits", "workers", "executor", "endpoint_url", "seed")
"""Fields taken from the given spec or, if it lacks them, from the spec of the judged run."""
_BUDGETS = ("budget_usd", "stage_budgets_usd", "model_budgets_usd")
"""Fields taken only from the given spec."""


class RejudgeSpec(JudgingSpec):
    """The spec of a rejudge: judges, and the run whose stored summaries they judge."""

    kind: str = Field(default="rejudge", description="the benchmark")
    of: str = Field(min_length=1, description="id of the run whose summaries are judged")


@dataclass(frozen=True, slots=True)
class Choice:
    """How many insights a cascade sends to its paid judge, and the mean uncertainty of these and of the remaining ones."""

    judge: str
    share: float
    """Share (0..1) of the insights that the paid judge judges."""
    n_asked: int
    n: int
    """Number of insights that the free judge judged."""
    uncertainty_asked: float | None
    """Mean uncertainty (standard deviation of the expected coverage, 0..1) of the insights that the paid judge judges."""
    uncertainty_left: float | None
    """Mean uncertainty of the insights that are left to the free judge."""
    by_budget: bool = False
    """True if the share is the greatest that the budget is certain to pay for."""
    usd_expected: float | None = None
    """Expected dollars of the calls; None unless a budget chose the share."""
    usd_max: float | None = None
    """Maximum dollars of the calls; None unless a budget chose the share."""


@dataclass(frozen=True, slots=True)
class SummarySlice:
    """Some of the judged run's summaries, sorted by haystack. Their cell_ids are between `low` and `high`."""

    low: str
    high: str
    cells: tuple[Cell, ...]

    def summaries(self, run: benchmark.RunStore) -> Iterator[tuple[Cell, Summary]]:
        rows = run.reader(["summaries"]).table("summaries", between=(self.low, self.high))
        wanted = rows.filter(rows["cell_id"].is_in([cell.cell_id for cell in self.cells]))
        by_cell = {row["cell_id"]: Summary(**{**row, "bullets": tuple(row["bullets"])}) for row in wanted.iter_rows(named=True)}
        return ((cell, by_cell[cell.cell_id]) for cell in self.cells)


@dataclass(frozen=True)
class JudgedRun:
    """The run whose summaries are judged."""

    run: benchmark.RunStore
    haystacks: Haystacks

    @functools.cached_property
    def slices(self) -> Sequence[SummarySlice]:
        """All summaries, in slices, without cells that have none. Only one piece of the table is in memory at a time."""
        names, found = ("haystack_id", "subtopic_id", "retriever", "ordering", "repeat", "system"), list[SummarySlice]()
        for piece in self.run.pieces("summaries", names):
            rows = piece.sort("haystack_id", "subtopic_id", "cell_id").iter_rows(named=True)
            cells = [
                Cell(row["cell_id"], Unit(*(row[name] for name in names[:4])), 0, row["repeat"], row["system"]) for row in rows
            ]
            for start in range(0, len(cells), SUMMARIES_A_SLICE):
                part = tuple(cells[start : start + SUMMARIES_A_SLICE])
                found.append(SummarySlice(piece["cell_id"][0], piece["cell_id"][-1], part))
        return found


class Rejudge(OfHaystacks[RejudgeSpec]):
    """A benchmark whose items are the summaries of another run. Summaries made after the rejudge began are not included."""

    kind = "rejudge"
    stages = (STAGE,)
    tables = TABLES
    counted = benchmark.Counted("summaries", "judgments", prefix="j", item="summary")
    record_fields: ClassVar[Mapping[str, Any]] = {**OfHaystacks.record_fields, "of": str}

    def __init__(self, spec: RejudgeSpec, inputs: benchmark.Inputs) -> None:
        super().__init__(spec, inputs)
        if inputs.store is None:
            raise SpecError(f"spec: of: {spec.of!r} is a run of a store; give the store")
        run = inputs.store.run(spec.of)
        if inputs.record is None:
            check_source(run)
            run = run.at()
        self.judged = JudgedRun(run, stored_haystacks(inputs.store, inputs.record or run.record))
        self.own_models = (lambda: Replay(self.judged.haystacks.file),)
        self.entries = Entries(spec, inputs, self.models)
        self.chosen: Mapping[Choice, Mapping[str, Collection[str]]] = {}
        """For each cascade that chooses among all summaries: cell_id -> ids of the insights that it passes on."""
        if inputs.record is None:
            check_models(spec.parts(), inputs.folder)
            check_prompts(spec.parts(), self.entries.prompts)

    def identity(self) -> Any:
        return {
            "kind": self.kind,
            "of": self.spec.of,
            "judges": sorted(identity for _, identity in self.entries.record_fields()["judges"]),
        }

    def items(self) -> Iterator[benchmark.Item]:
        insights = {
            (haystack.haystack_id, subtopic.subtopic_id): n
            for haystack in self.judged.haystacks.metadata
            for subtopic, n in zip(haystack.subtopics, haystack.n_insights, strict=True)
        }
        for part in self.judged.slices:
            place = json.dumps([part.low, part.high])
            for cell in part.cells:
                asked = {choice.judge: sorted(cells.get(cell.cell_id, ())) for choice, cells in self.chosen.items()}
                data = {"unit": astuple(cell.unit), "summarizer": 0, "repeat": cell.repeat, "system": cell.system, "asked": asked}
                size = insights[cell.unit.haystack_id, cell.unit.subtopic_id] * len(self.spec.judges)
                yield benchmark.Item(cell.cell_id, QUEUE, data, place, size=size)

    def n_items(self) -> int:
        return sum(len(part.cells) for part in self.judged.slices)

    def queues(self) -> Mapping[str, benchmark.Queue]:
        settings = self.models.settings()
        models = tuple(dict.fromkeys(part.model for part in self.spec.parts()))
        computes = all(settings[model].local for model in models)
        return {
            QUEUE: benchmark.Queue(models, computes=computes, max_in_flight=LOCAL_IN_FLIGHT if computes else None, batch_size=16)
        }

    def prepare(self, source: str, items: Sequence[benchmark.Item]) -> benchmark.Prepared:
        low, high = json.loads(source)
        part = SummarySlice(low, high, tuple(map(Cell.of, items)))
        return benchmark.Prepared(own={cell.cell_id: asdict(summary) for cell, summary in part.summaries(self.judged.run)})

    async def answer(self, item: benchmark.Item, ask: benchmark.Ask) -> benchmark.Rows:
        """See `Workload`. Judges one summary with every judge, and returns the rows of its judgments and scores."""
        cell, summary = Cell.of(item), Summary(**{**ask.prepared, "bullets": tuple(ask.prepared["bullets"])})
        truth = truth_of(await self.judged.haystacks.fetch(cell.unit.haystack_id), cell)
        return await judge_all(self.entries, cell, summary, truth, ask, item.data["asked"])

    def score(self, tables: benchmark.Tables) -> Rejudged:
        n_expected, counts = sum(item.size for item in self.items()) // len(self.spec.judges), []
        for judging in self.spec.judges:
            scores, failures = (tables[name].filter(pl.col("judge") == judging.label) for name in ("scores", "failures"))
            means = [scores[name].mean() for name in ("coverage", "joint")]
            coverage, joint = (float(mean) if isinstance(mean, float) else None for mean in means)
            counts.append(JudgeCounts(judging.label, n_expected, scores.height, failures.height, coverage, joint))
        return Rejudged(self.spec.of, counts, tuple(self.chosen))

    def report(self, scores: Rejudged) -> Sequence[benchmark.Section]:
        """See `Workload`. Shows the judges' means; the judged run's report shows their judgments next to its own."""
        rows = [
            {
                "judge": judge.judge,
                "joint": judge.joint,
                "coverage": judge.coverage,
                "failures": judge.n_failed,
                "n": judge.n_judged,
                "n_expected": judge.n_expected,
            }
            for judge in scores.judges
        ]
        text = f"Means over the insights judged. The report of {scores.of} shows these judgments next to its own, by system."
        figures = ("joint", "coverage")
        frame = pl.DataFrame(rows, infer_schema_length=None).with_columns(pl.col(*figures).cast(pl.Float64))
        return [benchmark.Section("Judges", text, frame, dict.fromkeys(figures, "%"), name="judges", higher_is_better=figures)]

    def details(self, scores: Rejudged) -> Mapping[str, Any]:
        judges, choices = ([asdict(one) for one in listed] for listed in (scores.judges, scores.choices))
        return {"of": scores.of, "judges": judges, "cascades": choices}

    def explain(self, run: benchmark.RunStore, key: str, compat: Compat = "default") -> dict[str, Any]:
        return explain(self, run, self.judged.run, key, compat)

    def export(self, run: benchmark.RunStore, folder: Path, judge: str = "") -> list[Path]:
        """See `Workload`. Raises StoreError with the advice to export the judged run, with any of its judges."""
        raise StoreError(f"{run.run_id} holds judgments of the summaries of {self.spec.of}; give that run")

    def places(self, run: benchmark.RunStore, item_ids: Iterable[str]) -> Mapping[str, Mapping[str, str]]:
        return places(self.judged.run, item_ids)

    def record(self, store: benchmark.Store) -> dict[str, Any]:
        return {
            "of": self.spec.of,
            "spec": self.spec.model_dump(mode="json"),
            **self.entries.record_fields(),
            **fields_of_haystacks(self.judged.run.record),
        }

    def on_open(self, run: benchmark.RunStore) -> None:
        join_run(self.judged.run, "rejudges", run.run_id)

    @classmethod
    def n_items_of(cls, run: benchmark.RunStore) -> int:
        """See `Workload`. The number of summaries that the judged run has now, which may still grow."""
        return run.store.run(run.record["of"]).table("summaries").height


@dataclass(frozen=True, slots=True)
class JudgeCounts:
    """Counts and means of one judge's judgments so far."""

    judge: str
    n_expected: int
    """Number of insights that the judge must judge."""
    n_judged: int
    n_failed: int
    coverage: float | None
    """Mean coverage over the scored insights, or None if none is scored. `joint` likewise."""
    joint: float | None


@dataclass(frozen=True)
class Rejudged:
    """The results of a rejudge."""

    of: str
    judges: Sequence[JudgeCounts]
    choices: Sequence[Choice]
    """The choice of each cascade."""


def check_source(run: benchmark.RunStore) -> None:
    """Raise SpecError for a run without summaries of its own."""
    record = run.record
    if (of := record.get("of")) is not None:
        raise SpecError(f"{run.run_id} holds judgments of the summaries of {of}; give that run")
    if "haystacks" not in record:
        raise SpecError(f"{run.run_id} is of kind {record['kind']} and holds no summaries; give a run of summaries")


@dataclass(frozen=True, slots=True)
class RejudgeRequest:
    """The judges and settings of a rejudge, as given on the command line."""

    judges: tuple[str, ...] = ()
    """Names of judges; if empty, all judges of `spec`."""
    spec: str | None = None
    """Path of a spec with judges, limits and budgets."""
    overrides: tuple[str, ...] = ()
    """FIELD=VALUE, applied to the spec."""
    untrusted: bool = False
    """Whether somebody else wrote the spec."""


def load_rejudge(run: benchmark.RunStore, request: RejudgeRequest) -> Rejudge:
    """Load the workload of a rejudge, and check every name before any paid call. Raises SpecError, StoreError.

    A judge is looked up in the request's spec, then in the run's own spec. If neither has it, an entry with the same model
    gives the endpoint and prices.
    """
    benchmark.Benchmark.of(run)
    record = run.record
    check_source(run)
    fields, folder = RejudgeSpec.read_fields(request.spec) if request.spec else (dict(record.get("spec", {})), None)
    budgets = _BUDGETS if request.spec else ()
    # Unknown fields are kept here, so that the validation below rejects them with a suggestion.
    unknown = {name: fields[name] for name in fields if name not in SummhaySpec.model_fields}
    chosen = {**unknown, **{name: fields[name] for name in (*_SHARED, *budgets) if fields.get(name) is not None}}
    for name in ("judges", "members", "summarizers"):
        if not isinstance(fields.get(name, []), list):
            raise SpecError(f"{request.spec or 'rejudge'}: {name}: expected a list")
    listed = [_entry(name, fields) for name in request.judges] or (fields.get("judges", []) if request.spec else [])
    if not listed:
        raise SpecError("no judge is named: give --judge NAME, such as offline, or --spec FILE with judges")
    where = request.spec or "rejudge"
    base: dict[str, Any] = {"kind": Rejudge.kind, "of": run.run_id}
    first = RejudgeSpec.parse({**base, "judges": listed}, where)
    base["members"] = _members(first.judges, fields)
    asked = {part.model for part in RejudgeSpec.parse({**base, "judges": listed}, where).parts()}
    spec = RejudgeSpec.parse({**base, **_only_of(asked, {**chosen, "judges": listed})}, where, request.overrides)
    spec = spec.model_copy(update={"name": f"{', '.join(one.label for one in spec.judges)} on {run.run_id}"})
    spec.check(where, [STAGE.name], folder if request.untrusted else None)
    inputs = benchmark.Inputs(folder or Path.cwd(), lambda: run.store, untrusted=request.untrusted)
    for path, text in record.get("prompts", {}).items() if folder is None else ():
        inputs.give(path, text.encode("utf-8"))
    workload = Rejudge(spec, inputs)
    workload.models.settings()
    return workload


def free_of(workload: Rejudge) -> Rejudge:
    """Return the rejudge of the same summaries by the free judge, for a cascade."""
    shared = {name: getattr(workload.spec, name) for name in ("workers", "executor") if getattr(workload.spec, name) is not None}
    fields = {"kind": Rejudge.kind, "of": workload.spec.of, "judges": ["offline"], **shared}
    spec = RejudgeSpec.parse({**fields, "name": f"offline on {workload.spec.of}"}, "rejudge")
    return Rejudge(spec, workload.inputs)


def _entry(name: str, fields: Mapping[str, Any]) -> Any:
    """Return the listed entry of this judge, or a new one with the endpoint and prices that are listed for its model."""
    judges = _listed(fields)
    for entry in judges:
        if name and name == (entry.get("name") or entry.get("model")):
            return entry
    named = judge.parse_name(name)
    model, strategy = judge.strategy_of(named)
    label = {} if strategy == judge.default_strategy(model) else {"name": named.text}
    summarizers = [summarizer for summarizer in fields.get("summarizers", []) if isinstance(summarizer, Mapping)]
    # The parts of a composed judge have their own entries (`_members`).
    likely = [] if named.composed else [*judges, *summarizers]
    like = next((entry for entry in likely if entry.get("model") == model), {})
    return {
        "model": model,
        "strategy": strategy,
        **label,
        **{part: like[part] for part in benchmark.Reach.model_fields if like.get(part) is not None},
    }


def _members(judges: Sequence[JudgeSpec], fields: Mapping[str, Any]) -> list[Any]:
    """Return the listed entries for the judges' parts, and new ones with the endpoints and prices that are listed for their
    models."""
    parts = [leaf for one in judges if one.composed for leaf in one.named.leaves() if leaf.kind not in ("offline", "code")]
    models = dict.fromkeys(judge.strategy_of(leaf)[0] for leaf in parts)
    listed = [entry for entry in _listed(fields) if models.keys() & {entry.get("name"), entry.get("model")}]
    found = {entry.get(name) for entry in listed for name in ("name", "model")}
    return [*listed, *(_entry(model, fields) for model in models if model not in found)]


def _listed(fields: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    listed = [*fields.get("judges", []), *fields.get("members", [])]
    return [one if isinstance(one, Mapping) else {"model": one} for one in listed]


def _only_of(asked: set[str], fields: dict[str, Any]) -> dict[str, Any]:
    """Drop the limits and budgets of other stages, and of models that this run does not ask."""
    of_models = {name: fields[name] for name in ("limits", "model_budgets_usd") if isinstance(fields.get(name), Mapping)}
    kept = {name: {model: by_model[model] for model in by_model if model in asked} for name, by_model in of_models.items()}
    if isinstance(budgets := fields.get("stage_budgets_usd"), Mapping):
        others = {stage.name for stage in SummHay.stages} - {STAGE.name}
        kept["stage_budgets_usd"] = {stage: usd for stage, usd in budgets.items() if stage not in others}
    return {**fields, **kept}
