"""Deletes stored answers, for a person's right to be forgotten. Their texts are deleted; their costs still count.

The log is changed first: each file with a selected answer is replaced by a file of the same size (`answers.delete_answers`). Then
the tables are changed: an item is removed from a run if an answer that it used is now only a deleted answer in the log. So the
log shows what is left to do, and after a kill the same command continues.
"""

import functools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from summhay_ray.errors import StoreError
from summhay_ray.store.answers import DELETED, FOLDER, AnswerHead, Name, answers_in, delete_answers
from summhay_ray.store.clean import unneeded
from summhay_ray.store.drivers import WATCH_S, live_sessions, open_sessions, session_chain
from summhay_ray.store.files import Files
from summhay_ray.store.log import LogIndex, log_pieces
from summhay_ray.store.money import Money, MoneyRecord, MoneyRecords, total_of
from summhay_ray.store.names import Entry
from summhay_ray.store.records import read_checked
from summhay_ray.store.runs import Store

Chosen = tuple[Entry, Name, Callable[[AnswerHead, bytes], bool]]
"""A file of the log, its name's parts, and a function that returns whether to delete an answer, given its head and line."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Selects the answers to delete, which must match every given field."""

    run: str = ""
    """The id of the run that paid for the answer."""
    before: float = math.inf
    """The start of the run that stored the answer must be before this time (seconds since 1970)."""
    text: str = ""
    """A text that must be in the answer, or in anything else that is stored of the provider's reply."""

    def fits(self, head: AnswerHead, line: bytes, began: float) -> bool:
        """Return whether this answer is selected and not yet deleted. `began`: when the run was started."""
        if began >= self.before or self.run not in ("", head["run"]) or head["key"].startswith(DELETED):
            return False
        # The line is JSON in ASCII, so encode the text in the same way.
        return json.dumps(self.text)[1:-1].encode("ascii") in line


@dataclass
class Deletion:
    """The deleted answers, or those that would be deleted. Money is in micro-dollars."""

    answers: Counter[str] = field(default_factory=Counter)
    """Run -> number of deleted answers that the run had paid for."""
    usd_micros: Counter[str] = field(default_factory=Counter)
    """Run -> the cost of these answers, which still counts as spent."""
    again_micros: int = 0
    """Maximum cost if later runs ask the same questions again, at the same prices."""
    items: Counter[str] = field(default_factory=Counter)
    """Run -> number of items that are removed from its tables."""
    warnings: list[str] = field(default_factory=list)


def forget(store: Store, selection: Selection, kind: str, dry_run: bool) -> Deletion:
    """Delete the selected answers from the log, and delete the items that used them from the tables of all runs. `kind`: the kind
    of the items' units.

    Raises OSError, or StoreError if a driver is running. After an interruption, another call continues.
    """
    files, deletion, last = store.files, Deletion(), session_chain(store.files).latest()
    open_runs = {record.number: record for record in open_sessions(files)}
    for number in live_sessions(files, open_runs, WATCH_S):
        record = open_runs[number]
        raise StoreError(f"run {record.run} is running ({record.where}); wait for its end, or stop it, then delete answers")
    chosen, requests = _select(files, selection, last, deletion)
    run_ids = store.run_ids()
    if not dry_run:
        _close_calls(files, deletion.answers.keys() & run_ids, store.log())
        for entry, name, selected in chosen:
            with files.writing(entry.name, durable=True) as new, new.path.open("wb") as stream:
                for index, content in log_pieces(files, entry, name):
                    stream.writelines(delete_answers(index, content, selected))
    removed: dict[str, pl.DataFrame] = {}
    sources = _sources(files, run_ids)
    for run_id in sources:
        text = selection.text if selection.before == math.inf and selection.run in ("", run_id) else ""
        try:
            run = store.run(run_id)
            units = run.units_of(requests, text, kind)
            # A run that uses another run's items, such as a rejudge, has items with the same names.
            same = {unit for source in sources[run_id] if source in removed for unit in removed[source]["unit"]}
            items = pl.DataFrame({"unit": sorted(same & run.finished(kind).keys())}, schema={"unit": pl.String})
            units = pl.concat([units, items.select(pl.lit(kind).alias("kind"), "unit")]).unique()
            removed[run_id], deletion.items[run_id] = units, units.height
        except StoreError as error:
            deletion.warnings.append(str(error))
    # Begin with runs that use other runs. Their items are found through the items of the other runs, which must still exist.
    for run_id in reversed(removed) if not dry_run else ():
        run, units = store.run(run_id), removed[run_id]
        if units.height or (run.manifest().parts and not run.has_tables()):
            run.end(without=units)
    deletion.items = +deletion.items
    deletion.warnings += _copies(files, sources, {*deletion.answers, *deletion.items}, selection.text)
    if not dry_run:
        for file in unneeded(files, 0.0, damaged=deletion.warnings):
            # Keep the records of ended drivers, which contain no text and show how the runs ended.
            if file.what != "ended drivers":
                files.delete(file.name)
        if session_chain(files).latest() > last:
            raise StoreError("a run began meanwhile and may have used the answers; repeat the command when that run has ended")
    return deletion


def _select(files: Files, selection: Selection, last: int, deletion: Deletion) -> tuple[list[Chosen], set[str]]:
    """Return (the files of the log to replace, the requests that then have no answer, each identified by the end of its key).

    `last`: the last session whose files are considered. Counts the answers in `deletion`.
    """
    began = _starts(files) if selection.before < math.inf else {}
    chosen, costs, deleted, live = list[Chosen](), dict[tuple[str, str], int](), set[str](), set[str]()
    for entry in files.entries(FOLDER):
        if (name := Name.of(entry.name)) is None or name.session > last:
            continue
        selected = functools.partial(selection.fits, began=began.get(name.session, entry.written))
        n_bytes = n_found = 0
        for index, content in log_pieces(files, entry, name):
            n_bytes += len(index) + len(content)
            for start, end, head in answers_in(content):
                request = head["key"][len(DELETED) :].partition("/")[0]
                if selected(head, content[start:end]):
                    n_found += 1
                    costs[head["run"], head["key"]] = head["usd_micros"]
                    deleted.add(request)
                else:
                    (deleted if head["key"].startswith(DELETED) else live).add(request)
        # An unfinished last record of a killed process also contains text.
        if n_found or n_bytes < entry.size:
            chosen.append((entry, name, selected))
    for (run, _), micros in costs.items():
        deletion.answers[run] += 1
        deletion.usd_micros[run] += micros
    deletion.again_micros = sum({key: micros for (_, key), micros in costs.items() if "/" not in key}.values())
    return chosen, deleted - live


def _starts(files: Files) -> dict[int, float]:
    """Return session -> when it started its run, by the store's clock."""
    began: dict[int, float] = {}
    for run_id in files.folders("runs"):
        for entry in files.entries(f"runs/{run_id}/starts"):
            body = read_checked(files.read(entry.name), dict[str, Any]) or {}
            if isinstance(session := body.get("session"), int):
                began[session] = min(entry.written, began.get(session, math.inf))
    return began


def _close_calls(files: Files, run_ids: Iterable[str], index: LogIndex) -> None:
    """Record which open calls of the runs were answered, since the log will no longer show this."""
    for run_id in sorted(run_ids):
        records = MoneyRecords(files, run_id)
        record = records.newest()
        if record is not None and record.calls:
            money = Money.of(records.take_over(record.session), run_id, index)
            doubt = money.uncertain + money.reserved
            uncertain, ceiling = doubt - total_of(money.calls), money.spent + doubt
            records.append(MoneyRecord(record.session, True, money.spent, money.charged, uncertain, money.calls, ceiling))


def _sources(files: Files, run_ids: Iterable[str]) -> dict[str, set[str]]:
    """Return run -> the runs from which it was made, according to its record. The runs are in the order of their creation."""
    created = {
        run_id: next(entry.written for entry in files.entries(f"runs/{run_id}") if entry.name.endswith("/run.json"))
        for run_id in run_ids
    }
    sources: dict[str, set[str]] = {}
    for run_id in sorted(created, key=created.__getitem__):
        named = re.findall(rb'"([A-Za-z0-9_.-]+)"', files.read(f"runs/{run_id}/run.json"))
        sources[run_id] = sources.keys() & {name.decode("ascii") for name in named}
    return sources


def _copies(files: Files, sources: Mapping[str, Set[str]], concerned: Set[str], text: str) -> Iterator[str]:
    """Yield a line for each run that was made from one of the runs `concerned`, and for each file outside the log and the tables
    that contains `text`. These files are kept, since runs could not be read without them."""
    for run_id, named in sources.items():
        for source in sorted(named & concerned):
            where = files.where(f"runs/{run_id}")
            yield f"run {run_id} was made from {source} and may contain copies of its texts; delete {where} to remove them"
    forms = (text.encode("utf-8"), json.dumps(text)[1:-1].encode("ascii"))
    n_unfinished = 0
    for entry in files.entries("", deep=True):
        n_unfinished += entry.name.endswith(".part")
        is_source = entry.name.startswith("objects/") or "/audits/" in entry.name
        if text and is_source and any(form in files.read(entry.name, is_large=True) for form in forms):
            yield f"{files.where(entry.name)} also contains the text; it is kept, since it was made or read for a run"
    if n_unfinished:
        yield f"{n_unfinished} unfinished files may hold texts; those that are ten minutes old are deleted by this command"
