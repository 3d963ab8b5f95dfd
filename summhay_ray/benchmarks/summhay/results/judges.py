"""The judgments of a run's summaries, by the run's own judges and by later rejudges, and the measured biases of these judges.

The rejudges of a run are listed in a numbered chain in the run's folder: `runs/<run>/rejudges/00000001.json` and so on. Each
file is {"run": "j..."}. The run itself never changes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, NotRequired

import polars as pl
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from summhay_ray.benchmark import Chain, ModelSpec, RunStore
from summhay_ray.benchmarks.summhay.haystacks.metadata import BY_NAME
from summhay_ray.errors import StoreError, UserError
from summhay_ray.haystack import RELEASED_JUDGE
from summhay_ray.inputs import read_json
from summhay_ray.judge import bench, name_of, parse_name, strategy_of
from summhay_ray.metrics import JudgeBias, bias_of

SUMMARIES_AT_ONCE = 2_000
"""Number of summaries in one piece of `judged_pieces`."""


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """One judge of a run's summaries."""

    judge: str
    """The judge's name among all judges of the run: its label. If another judge has the same label, the rejudge's id follows."""
    label: str
    """The judge's name in the tables of `runs`."""
    runs: tuple[str, ...]
    """The runs that hold the judge's judgments, earliest first. If several hold the same judgment, the first one counts."""
    identity: str
    """Equal for judges whose judgments are interchangeable."""


Judging = Literal["rejudges", "supports"]
"""Kinds of runs that judge the summaries of another run: rejudges judge coverage, supports judge citations."""


def join_run(run: RunStore, judging: Judging, judging_id: str) -> None:
    """Add a run to the chain of those that judge `run`, unless the chain already lists it."""
    chain = Chain(run.store.files, f"runs/{run.run_id}/{judging}", _Rejudge, _MEND)
    number = chain.latest()
    if judging_id in judging_ids(run, judging):
        return
    while not chain.append(number + 1, {"run": judging_id}):
        number += 1


def judging_ids(run: RunStore, judging: Judging) -> list[str]:
    """Return the ids of the runs that judge a run, in the order in which they first started. Raises StoreError for a damaged
    record."""
    chain = Chain(run.store.files, f"runs/{run.run_id}/{judging}", _Rejudge, _MEND)
    sources = [chain.read(number) for number in range(1, chain.latest() + 1)]
    return list(dict.fromkeys(str(source["run"]) for source in sources if source is not None))


def judges_of(run: RunStore) -> list[JudgedBy]:
    """Return every judge of the run's summaries, the run's own first. Different judges with the same label get different names.

    Rejudges without any judgment are left out.
    """
    rejudged = [one for one in map(run.store.run, judging_ids(run, "rejudges")) if one.has_rows("judgments")]
    runs_of: dict[tuple[str, str], list[str]] = {}
    for holder in [run, *rejudged]:
        # Use the recorded identity: since then, a user-defined judge's code may have changed or disappeared.
        for label, identity in holder.record.get("judges", [(RELEASED_JUDGE, RELEASED_JUDGE)]):
            runs_of.setdefault((label, identity), []).append(holder.run_id)
    taken: set[str] = set()
    judges = []
    for (label, identity), runs in runs_of.items():
        judges.append(JudgedBy(label if label not in taken else f"{label} ({runs[0]})", label, tuple(runs), identity))
        taken.add(label)
    return judges


def judge_of_record(run: RunStore, wanted: str = "") -> str:
    """Return the judge whose judgments give the run's figures: `wanted`, else the run's own judge, whatever rejudges there are.

    The run's own judge is the first in its spec or, for an imported run, the release's (`released`). Empty if nobody judged the
    run. Raises UserError if `wanted` did not judge it.
    """
    known = [judged.judge for judged in judges_of(run)]
    if not wanted:
        return known[0] if known else ""
    # `offline` is short for `offline/judge`, as in `rejudge --judge`.
    name = wanted if wanted in known else parse_name(wanted).text
    if name not in known:
        has = f"it has those by {', '.join(known)}; summhay rejudge makes more"
        raise UserError(f"{run.run_id} has no judgments by {wanted!r}; {has}")
    return name


def all_rows(run: RunStore, table: str) -> pl.DataFrame:
    """Return the rows of a table by all judges, sorted by primary key. The table is judgments, scores, votes or
    absent_answers. `judge` is the name that `judges_of` gives."""
    judges = judges_of(run)
    names = {name for judge in judges for name in judge.runs}
    holders = {name: run if name == run.run_id else run.store.run(name) for name in names}
    # A run of an earlier version lacks tables that were added later.
    frames = {name: one.table(table) if table in one.declared else BY_NAME[table].frame(()) for name, one in holders.items()}
    return _of_judges(judges, frames, table)


def costs_of(run: RunStore, judge: str, keys: Collection[str]) -> tuple[int, int]:
    """Return (input tokens, micro-dollars) of a judge's answers with these keys, each counted once. A panel's answers are
    those of its members."""
    [judged] = [judged for judged in judges_of(run) if judged.judge == judge]
    holders = [run if run_id == run.run_id else run.store.run(run_id) for run_id in judged.runs]
    cast = pl.col("judge") == judged.label
    voted = {key for holder in holders for key in holder.table("votes").filter(cast)["key"]}
    columns = ("key", "input_tokens", "usd_micros")
    known = pl.concat([holder.table("raw_answers").select(columns) for holder in holders]).unique("key")
    answers = known.filter(pl.col("key").is_in([*voted, *keys]))
    return int(answers["input_tokens"].sum()), int(answers["usd_micros"].sum())


def judged_pieces(run: RunStore, table: str, judges: Sequence[JudgedBy] | None) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """Yield the summaries in pieces, each with its rows of `table` (judgments or scores), sorted by primary key.

    `judges`: the judges whose rows to include, under their names; None for the run's own rows. Only one piece of each run is in
    memory at a time.
    """
    names = [run.run_id] if judges is None else list(dict.fromkeys(name for judge in judges for name in judge.runs))
    holders = {name: run if name == run.run_id else run.store.run(name).at() for name in names}
    pieces = {name: holder.pieces(table) for name, holder in holders.items()}
    rest, frames = {name: next(own) for name, own in pieces.items()}, dict[str, pl.DataFrame]()
    for piece in run.pieces("summaries"):
        for part in piece.iter_slices(SUMMARIES_AT_ONCE):
            for name, own in pieces.items():
                frames[name], rest[name] = _take_until(part["cell_id"][-1], rest[name], own)
            yield part, frames[run.run_id] if judges is None else _of_judges(judges, frames, table)


def _take_until(cell: str, rest: pl.DataFrame, pieces: Iterator[pl.DataFrame]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return (the rows up to and including a cell's, the rows after them), from `rest` and as many `pieces` as necessary. All
    rows are sorted by cell_id."""
    taken = []
    while True:
        end = rest["cell_id"].search_sorted(cell, "right")
        taken.append(rest.head(end))
        more = next(pieces, None) if end == rest.height else None
        if more is None:
            return pl.concat(taken), rest.slice(end)
        rest = more


def _of_judges(judges: Sequence[JudgedBy], frames: Mapping[str, pl.DataFrame], table: str) -> pl.DataFrame:
    """Return the rows of these judges in the runs' frames, each row once, sorted by primary key. `judge` is as in `judges_of`."""
    key = list(BY_NAME[table].key)
    parts = [BY_NAME[table].frame(())]
    for judge in judges:
        mine = pl.concat([frames[name].filter(pl.col("judge") == judge.label) for name in judge.runs])
        # A judgment counts if any of the runs has it, even if another run failed to get it.
        rows = mine.unique(subset=key, keep="first", maintain_order=True)
        parts.append(rows.with_columns(pl.lit(judge.judge).alias("judge")))
    return pl.concat(parts).sort(key, maintain_order=True)


class JudgeEntry(TypedDict):
    """The fields that are read from a judge's entry in a stored spec."""

    name: str
    model: str
    strategy: str
    prompt: str | None


def judge_entries(run: RunStore) -> list[JudgeEntry]:
    """Return the judges of the run's spec, as stored. Raises DamagedRecord."""
    try:
        return TypeAdapter(_Judges).validate_python(run.record.get("spec", {})).get("judges", [])
    except ValidationError as error:
        raise run.damaged("the judges of its spec cannot be read") from error


class _Judges(TypedDict):
    judges: NotRequired[list[JudgeEntry]]


def check_judged(run: RunStore) -> None:
    """Raise StoreError for a run without summaries of its own."""
    record = run.record
    if (of := record.get("of")) is not None:
        raise StoreError(f"{run.run_id} holds judgments of the summaries of {of}; give that run")
    if "haystacks" not in record:
        raise StoreError(f"{run.run_id} holds no summaries; give a run on its haystacks (haystacks: [its spec])")


_MEND = "delete it and those after it, and rejudge again: no call is made"


class _Rejudge(TypedDict):
    """An entry in the list of a run's rejudges."""

    run: str


def read_biases(path: Path) -> tuple[JudgeBias, ...]:
    """Read the biases that `judge-bench --out` wrote. Raises UserError if the file cannot be read or has another form."""
    try:
        return bench.read_biases(read_json(path).decode("utf-8-sig"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror}); give a file that judge-bench --out wrote") from error
    except ValueError as error:
        mend = "give one that judge-bench --out wrote"
        raise UserError(f"{path.name} holds no measured biases: {error}; {mend}") from error


def known_biases(run: RunStore, rejudged: bool, own: Sequence[JudgeBias], judges: Iterable[str]) -> dict[str, JudgeBias | None]:
    """Map each judge, as named in tables, to its bias, or to None if the bias was not measured with these settings."""
    # Judge, as named in tables -> its entry in the spec by which it judged. The judge of an imported run has none.
    entries: dict[str, JudgeEntry] = {}
    for judged in judges_of(run) if rejudged else ():
        holder = run if judged.runs[0] == run.run_id else run.store.run(judged.runs[0])
        entries |= [(judged.judge, one) for one in judge_entries(holder) if (one["name"] or one["model"]) == judged.label]
    if not rejudged:
        entries = {one["name"] or one["model"]: one for one in judge_entries(run)}
    named, known = [replace(bias, names=(*bias.names, *_stands_for(bias.judge))) for bias in own], dict[str, JudgeBias | None]()
    for judge in judges:
        entry = entries.get(judge)
        name = name_of(entry["model"], entry["strategy"]).text if entry else judge
        if entry and entry["prompt"]:
            # A custom prompt makes it a different judge.
            name += f" prompt {entry['prompt']}"
        bias = bias_of(name, named)
        if bias is None and entry and entry["name"]:
            # If the spec gives the judge a name, its bias may have been measured under that name.
            private = (one for one in own if one.judge == entry["name"] and not one.names and _is_private(one.judge))
            bias = next(private, None)
        known[judge] = bias or bias_of(name, bench.shipped_biases())
    return known


def _stands_for(text: str) -> tuple[str, ...]:
    """Return the name of the judge that an expression such as `blend(MODEL,offline)` describes; empty for any other name."""
    try:
        named = parse_name(text)
        return () if named.kind in ("model", "stored") else (name_of(*strategy_of(named)).text,)
    except UserError:
        return ()


def _is_private(label: str) -> bool:
    """Return whether a name is arbitrary: neither an expression nor the name of a model with a known price."""
    model = label.split(" ")[0]
    try:
        return parse_name(model).kind == "model" and not ModelSpec(model=model).is_priced()
    except UserError:
        return False
