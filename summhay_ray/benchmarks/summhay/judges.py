"""All that was judged of a run's summaries: by its own judges, and by those that came later.

Which rejudges a run has stands in a numbered chain beside it, `runs/<run>/rejudges/00000001.json`, ...: {"run": "j..."}; the run
itself is never changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from summhay_ray.benchmarks.summhay.tables import BY_NAME
from summhay_ray.haystack import RELEASED_JUDGE
from summhay_ray.store import Chain, RunStore, StoreError

SUMMARIES_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class JudgedBy:
    """One judge of a run's summaries."""

    judge: str
    """What it is called among all judges of the run: its label, with the id of its rejudge where another judge has that label."""
    label: str
    """What the tables of `runs` call it."""
    runs: tuple[str, ...]
    """The runs that hold its judgments, the earliest first: of a judgment that several hold the first counts."""


def join_rejudges(run: RunStore, rejudge_id: str) -> None:
    """Name a rejudge beside the run that it judges; one that is named already is not named again."""
    chain = _chain(run)
    number = chain.latest()
    if rejudge_id in rejudge_ids(run):
        return
    while not chain.append(number + 1, {"run": rejudge_id}):
        number += 1


def rejudge_ids(run: RunStore) -> list[str]:
    """The rejudges of a run, in the order in which they first began. Raises StoreError where one of the records is damaged."""
    chain = _chain(run)
    found = [chain.read(number) for number in range(1, chain.latest() + 1)]
    return list(dict.fromkeys(str(one["run"]) for one in found if one is not None))


def judges_of(run: RunStore) -> list[JudgedBy]:
    """Every judge of the run's summaries, its own first. Judges with one label that are not the same have other names.

    A rejudge that holds no judgment is not among them: what became of it, its own id tells.
    """
    found: dict[tuple[str, str], list[str]] = {}
    for run_id, label, identity in _named(run):
        found.setdefault((label, identity), []).append(run_id)
    taken: set[str] = set()
    judges = []
    for (label, _), runs in found.items():
        judges.append(JudgedBy(label if label not in taken else f"{label} ({runs[0]})", label, tuple(runs)))
        taken.add(label)
    return judges


def all_judgments(run: RunStore) -> pl.DataFrame:
    """The judgments of all judges of the run's summaries, sorted by primary key, `judge` as `judges_of` names it."""
    return _all(run, "judgments")


def all_scores(run: RunStore) -> pl.DataFrame:
    """The scores of all judges of the run's summaries, as `all_judgments`."""
    return _all(run, "scores")


def costs_of(run: RunStore, judge: str, keys: Collection[str]) -> tuple[int, int]:
    """(input tokens, micro-dollars) of a judge's answers with these keys, each counted once."""
    [one] = [one for one in judges_of(run) if one.judge == judge]
    parts = [(run if run_id == run.run_id else run.store.run(run_id)).table("raw_answers") for run_id in one.runs]
    columns = ("key", "input_tokens", "usd_micros")
    found = pl.concat([part.select(columns) for part in parts]).unique("key").filter(pl.col("key").is_in(list(keys)))
    return int(found["input_tokens"].sum()), int(found["usd_micros"].sum())


def judged_pieces(run: RunStore, table: str, judges: Sequence[JudgedBy] | None) -> Iterator[tuple[pl.DataFrame, pl.DataFrame]]:
    """The summaries in pieces, each with the rows of `table` (judgments or scores) of these summaries, sorted by primary key.

    `judges`: whose rows, named as they are there; None for the run's own rows as they stand. Holds a piece of each run at a time.
    """
    names = [run.run_id] if judges is None else list(dict.fromkeys(name for one in judges for name in one.runs))
    holders = {name: run if name == run.run_id else run.store.run(name).at() for name in names}
    ahead = {name: _Ahead(holder.pieces(table)) for name, holder in holders.items()}
    for piece in run.pieces("summaries"):
        for part in piece.iter_slices(SUMMARIES_AT_ONCE):
            frames = {name: one.until(part["cell_id"][-1]) for name, one in ahead.items()}
            yield part, frames[run.run_id] if judges is None else _of_judges(judges, frames, table)


class _Ahead:
    """Rows sorted by cell_id, of which those up to some cell are taken, again and again."""

    def __init__(self, pieces: Iterator[pl.DataFrame]) -> None:
        self._pieces, self._rest = pieces, next(pieces)

    def until(self, cell: str) -> pl.DataFrame:
        """The rows of all cells up to this one that were not taken yet."""
        taken = []
        while True:
            end = self._rest["cell_id"].search_sorted(cell, "right")
            taken.append(self._rest.head(end))
            more = next(self._pieces, None) if end == self._rest.height else None
            self._rest = self._rest.slice(end) if more is None else more
            if more is None:
                return pl.concat(taken)


def _of_judges(judges: Sequence[JudgedBy], frames: Mapping[str, pl.DataFrame], table: str) -> pl.DataFrame:
    """The rows of these judges in the runs' frames, each once, `judge` as `judges_of` names it, sorted by primary key."""
    key = list(BY_NAME[table].key)
    parts = [BY_NAME[table].frame(())]
    for one in judges:
        mine = pl.concat([frames[name].filter(pl.col("judge") == one.label) for name in one.runs])
        # A judgment that is there is no failure, whichever of the runs could not get it.
        rows = mine.unique(subset=key, keep="first", maintain_order=True)
        parts.append(rows.with_columns(pl.lit(one.judge).alias("judge")))
    return pl.concat(parts).sort(key, maintain_order=True)


def _all(run: RunStore, table: str) -> pl.DataFrame:
    judges = judges_of(run)
    names = {name for one in judges for name in one.runs}
    frames = {name: (run if name == run.run_id else run.store.run(name)).table(table) for name in names}
    return _of_judges(judges, frames, table)


def _named(run: RunStore) -> Iterator[tuple[str, str, str]]:
    """(run, label, identity) of every judge of the run and of its rejudges."""
    record = run.record
    if "judges" not in record:
        yield run.run_id, RELEASED_JUDGE, RELEASED_JUDGE
    else:
        yield from _of_record(run, record)
    for rejudge_id in rejudge_ids(run):
        one = run.store.run(rejudge_id)
        if any(block.slices["judgments"].rows for block in one.manifest().blocks if "judgments" in block.slices):
            yield from _of_record(one, one.record)


def _of_record(run: RunStore, record: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    # As it was when it judged: a person's own judge may be another by now, or be away.
    yield from ((run.run_id, label, identity) for label, identity in record["judges"])


def check_judged(run: RunStore) -> None:
    """Raises StoreError for a run that has no summaries of its own."""
    record = run.record
    if (of := record.get("of")) is not None:
        raise StoreError(f"{run.run_id} holds judgments of the summaries of {of}; give that run")
    if "haystacks" not in record:
        raise StoreError(f"{run.run_id} holds no summaries; give a run on its haystacks (haystacks: [its spec])")


_MEND = "delete it and those after it, and rejudge again: no call is made"


def _chain(run: RunStore) -> Chain:
    return Chain(run.store.files, f"runs/{run.run_id}/rejudges", _MEND)
